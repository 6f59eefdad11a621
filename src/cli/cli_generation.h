/* cli_generation.h - what sub-commands that generate share: options, streaming, results. */
#ifndef ACCEL_CLI_GENERATION_H
#define ACCEL_CLI_GENERATION_H

#include <cjson/cJSON.h>

#include "cli/cli_task.h"

/* What the options ask for, with the memory behind it. */
typedef struct cli_wishes {
  accel_generate_params params;
  bool streamed; /* text was printed as it came */
  char *config;  /* --generation-config, read from its file */
  cJSON *stop_list;
  const char **stop;
  accel_strings stop_strings;
  char *grammar;             /* read from a file, or made of --choices */
  accel_endpoint *assistant; /* --speculate MODEL, opened by cli_wishes_assistant */
} cli_wishes;

/* 0 or an exit code; free in any case.  Must stay where it is */
int cli_wishes_read(cli_run *run, cli_wishes *w);
void cli_wishes_free(cli_wishes *w);
/* Loads the model that guesses, if one does.  0 or an exit code. */
int cli_wishes_assistant(cli_run *run, cli_wishes *w);
/* Has the text of one prompt printed as it comes, where that was asked for or stdout is a terminal
 * (beam search has nothing to tell before its end).  0 or an exit code. */
int cli_wishes_stream(cli_run *run, cli_wishes *w, uint32_t prompts);
/* The texts that were not streamed, or JSON of that schema. */
int cli_generations_print(cli_run *run, accel_endpoint *endpoint, const cli_wishes *w,
                          const char *schema, const accel_generations *found);
/* accel_generate_images, and its result printed. */
int cli_generate_images(cli_run *run, accel_endpoint *endpoint, cli_wishes *w, const char *schema,
                        const accel_image_prompt *prompts, uint32_t n);

/* Rows that generate: the cli_task functions that their tasks share, whose state is a cli_wishes. */
int cli_wishes_begin(cli_run *run, void **wishes);
void cli_wishes_end(void *wishes);
/* A list of the texts of row i: one, or --sequences of them. */
void cli_json_generated(cli_json *json, const void *found, uint32_t i);
const char *cli_generation_failed(const void *found, uint32_t i);
void cli_free_generations(void *found);
/* All of them in a cli_task, which has name, command, fields, sizes and `call` of its own. */
#define CLI_TASK_GENERATES                                                                 \
  .begin = cli_wishes_begin, .print = cli_json_generated, .failed = cli_generation_failed, \
  .release = cli_free_generations, .end = cli_wishes_end

/* accel generate --chat (cli_chat.c). */
int cli_chat(cli_run *run, const accel_generate_params *params);

#endif
