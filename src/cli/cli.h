/* cli.h - what the sub-commands of the accel tool share: options, inputs, the context, and how
 * results and errors are printed.
 *
 * A sub-command is one function `int cmd_<name>(cli_run *run)` in a file of its own and one line of
 * commands.def.  It returns the exit code: 0 ok, 1 runtime, 2 usage, 3 unsupported, 4 device
 * unavailable, 5 does not fit, 6 verification failed.  stdout gets the result, stderr everything
 * else.
 */
#ifndef ACCEL_CLI_CLI_H
#define ACCEL_CLI_CLI_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "accel/accel.h"

typedef enum cli_kind {
  CLI_FLAG,
  CLI_TEXT,
  CLI_TEXTS,
  CLI_COUNT,
  CLI_NUMBER,
  CLI_SIZE,
  CLI_CHOICE,
  CLI_MAYBE
} cli_kind;
typedef enum cli_option_id {
#define OPTION(id, ...) OPT_##id,
#include "cli/options.def"
  OPT_END,                  /* closes lists of options; also their number */
  OPT_COMMON = OPT_HELP + 1 /* options below this one are taken by every sub-command */
} cli_option_id;
typedef struct cli_option {
  const char *name;
  char letter; /* 0: none */
  cli_kind kind;
  const char *value;
  int64_t min, max;
  const char *help;
} cli_option;
extern const cli_option cli_options[OPT_END];

typedef struct cli_run cli_run;
typedef struct cli_command {
  const char *name, *operands;
  int min, max; /* number of operands; max -1: any */
  const char *summary;
  const uint8_t *options; /* cli_option_id, closed by OPT_END; the common ones are not listed */
  const char *details;
  int (*run)(cli_run *run);
} cli_command;
extern const cli_command cli_commands[];
extern const size_t cli_command_count;

#define COMMAND(function, ...) int cmd_##function(cli_run *run);
#include "cli/commands.def"

struct cli_run {
  const cli_command *command;
  const char *value[OPT_END]; /* NULL: not given; "1": a flag, or a MAYBE without its value */
  /* [n_given] values of TEXTS options in the order given, each behind the option's number */
  const char **given;
  uint32_t n_given;
  accel_adapter_spec *adapters; /* [n_adapters] of --adapter, one block */
  uint32_t n_adapters;
  char **args; /* operands */
  int n_args;
  accel *ctx; /* see cli_context */
};

/* ---- options (cli_options.c) ---- */

/* Reads argv[1..) (argv[0]: the sub-command) and the environment.  0, or 2 after telling what is
 * wrong. */
int cli_parse(cli_run *run, int argc, char **argv);
bool cli_takes(const cli_command *command, cli_option_id id);
/* Values of a TEXTS option; malloc'd list of *n pointers, NULL when there are none (or no
 * memory). */
const char **cli_values(const cli_run *run, cli_option_id id, uint32_t *n);
static inline bool cli_flag(const cli_run *run, cli_option_id id) { return run->value[id] != NULL; }
/* Commands that know no mixed precisions: a usage error when --precision-profile was given, else
 * 0. */
int cli_one_precision(const cli_run *run);
int64_t cli_count(const cli_run *run, cli_option_id id, int64_t otherwise);
double cli_number(const cli_run *run, cli_option_id id, double otherwise); /* of a NUMBER */
/* Bytes of a SIZE; an option that was not given leaves *bytes as it is. */
void cli_size(const cli_run *run, cli_option_id id, uint64_t *bytes);
/* The word of `words` ("a|b|c") nearest to `given`; NULL when none is near.  Valid until the next
 * call. */
const char *cli_nearest(const char *given, const char *const *words, size_t n);
/* Splits "a,b,c" in place of a copy; *list (of *n pointers into the same block) is one block to
 * free().  Empty parts are left out. */
bool cli_split(const char *text, char ***list, uint32_t *n);

/* ---- errors (cli_report.c) ---- */

/* "accel embed: MESSAGE" on stderr and where to find help; returns 2. */
int cli_usage(const cli_run *run, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* The library's last error with its remedy on stderr; returns the exit code of `status`. */
int cli_fail(const cli_run *run, accel_status status);
/* An error of the tool itself; returns the exit code of `status`. */
int cli_error(const cli_run *run, accel_status status, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
/* A line on stderr unless --quiet. */
void cli_note(const cli_run *run, const char *format, ...) __attribute__((format(printf, 2, 3)));
bool cli_colour(FILE *to); /* a terminal, and neither NO_COLOR nor TERM=dumb */
int cli_columns(FILE *to); /* of the terminal; 100 when it is none */

/* ---- context and endpoints (cli_session.c) ---- */

/* Makes run->ctx, which cli_main.c destroys, with log, progress bar, cancellation by Ctrl-C,
 * SIGTERM and --timeout.  0 or an exit code. */
int cli_context(cli_run *run);
/* What the options given say of a context; the other fields stay as they are. */
void cli_context_params(const cli_run *run, accel_params *params);
/* accel_init as the common options say, and the line telling where it runs.  task may be NULL. */
int cli_open(cli_run *run, const char *model, const char *task, accel_endpoint **out);
void cli_init_params(const cli_run *run, const char *task, accel_init_params *how);
/* Where it ran, as one line on stderr. */
void cli_say_placement(const cli_run *run, const accel_placement_report *placement);

/* Conversations, after cli_context: from now on Ctrl-C does not end the program but is counted, and
 * *fd becomes readable at any signal that asks to stop.  0 or an exit code. */
int cli_converse(cli_run *run, int *fd);
/* the last such signal (SIGINT, SIGTERM, SIGALRM) and how many there were; 0 none */
int cli_asked_to_stop(int *times);
void cli_forget_interrupt(void); /* as if there had been no Ctrl-C; other signals stay */
/* true: a running call is not cancelled; its listener looks at cli_asked_to_stop itself */
void cli_hold(bool on);

void cli_progress_end(void); /* clears the progress bar; does nothing when there is none */

/* ---- inputs (cli_input.c) ---- */

/* n records of `fields` strings each: text[i * fields + f], NULL where a record lacks the field. */
typedef struct cli_texts {
  const char **text;
  uint32_t n, fields;
  void *owner[2]; /* private */
} cli_texts;
/* Texts of a task: operands from `first` on, or those of --input (not both).  JSON input is an
 * array of strings (field 0) or of objects with the named fields.  No text at all is a usage
 * error. */
int cli_texts_read(cli_run *run, int first, const char *const *fields, uint32_t n_fields,
                   cli_texts *out);
void cli_texts_free(cli_texts *texts);
/* A whole file ("-": stdin), NUL-terminated, free() it; *n may be NULL. */
int cli_file_read(cli_run *run, const char *path, char **bytes, size_t *n);
/* Replaces the escape of U+0000 in the text of JSON, in place, by what the library takes for it. */
void cli_json_spell_nul(char *text);
/* n bytes of JSON, which are changed; *out is deleted by the caller.  Errors name line and column. */
struct cJSON;
int cli_json_parse(cli_run *run, const char *path, char *text, size_t n, struct cJSON **out);
/* The files of names[n] as media, NULL when there is no memory; free() it. */
accel_media *cli_media(const char *const *names, uint32_t n);
/* Where result i of n goes: `path`, and with several results "out.2.png" for "out.png"; in `into`,
 * which it returns. */
const char *cli_numbered(const char *path, uint32_t i, uint32_t n, char *into, size_t size);
/* --size "512x768", width, then height; without it both stay.  Not 0: the error is printed. */
int cli_image_size(const cli_run *run, uint32_t *width, uint32_t *height);
/* Arrays of token ids: JSON [1, 2], [[1, 2], [3]] or {"ids": ...}. */
typedef struct cli_ids {
  uint32_t n;
  uint32_t *count;
  int32_t **ids;
} cli_ids;
int cli_ids_read(cli_run *run, const char *path, cli_ids *out);
void cli_ids_free(cli_ids *ids);

/* ---- the frame of a command (cli_frame.c): inputs are read, the model of the first operand is
 * opened for `task`, fn answers ---- */

/* 0 or an exit code */
typedef int cli_text_fn(cli_run *run, accel_endpoint *endpoint, const cli_texts *texts);
typedef int cli_media_fn(cli_run *run, accel_endpoint *endpoint, const accel_media *media,
                         uint32_t n);
int cli_on_texts(cli_run *run, int first, const char *const *fields, uint32_t n_fields,
                 const char *task, cli_text_fn *fn);
/* The same with the one field "text". */
int cli_on_plain_texts(cli_run *run, int first, const char *task, cli_text_fn *fn);
/* Files names[n]. */
int cli_on_media(cli_run *run, const char *const *names, uint32_t n, const char *task,
                 cli_media_fn *fn);
/* The files that are the operands behind the model. */
int cli_on_operands(cli_run *run, const char *task, cli_media_fn *fn);

#endif
