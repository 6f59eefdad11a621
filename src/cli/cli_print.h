/* cli_print.h - results on stdout: JSON, and tables for people. */
#ifndef ACCEL_CLI_PRINT_H
#define ACCEL_CLI_PRINT_H

#include "cli/cli.h"

typedef struct cJSON cJSON;

/* ---- JSON, written as it comes ---- */

enum { CLI_JSON_DEPTH = 32 };
typedef struct cli_json {
  FILE *to;
  int depth;
  bool some[CLI_JSON_DEPTH]; /* this level has a member already */
  const char *path;          /* of the file; NULL: stdout */
} cli_json;

/* Opens the place that --json names and begins {"schema": schema, ... }.  0 or an exit code. */
int cli_json_begin(cli_run *run, const char *schema, cli_json *json);
/* Closes all open levels and the file; a failed write is exit code 1. */
int cli_json_end(cli_run *run, cli_json *json);

/* The key of a value that comes as an element does, with key NULL. */
void cli_json_key(cli_json *json, const char *key);
/* key NULL: an element of an array. */
void cli_json_open(cli_json *json, const char *key, char bracket); /* '{' or '[' */
void cli_json_close(cli_json *json, char bracket);                 /* '}' or ']' */
/* NULL: null; malformed UTF-8 becomes U+FFFD */
void cli_json_text(cli_json *json, const char *key, const char *value);
void cli_json_int(cli_json *json, const char *key, int64_t value);
void cli_json_bool(cli_json *json, const char *key, bool value);
void cli_json_null(cli_json *json, const char *key);
/* 17 digits; NaN and infinities: null */
void cli_json_double(cli_json *json, const char *key, double value);
/* 9 digits: every float comes back as it was */
void cli_json_float(cli_json *json, const char *key, float value);
void cli_json_floats(cli_json *json, const char *key, const float *values, uint64_t n);
void cli_json_strings(cli_json *json, const char *key, const accel_strings *strings);
/* JSON text of the library, one line. */
void cli_json_raw(cli_json *json, const char *key, const char *text);
/* "model", "device", "precision", "implementation_type", "is_amd", "listed", "wanted_device",
 * "wanted_precision", "weights", "reasons"; of "auto" with a choice what it saw. */
void cli_json_placement(cli_json *json, const accel_placement_report *placement);
/* Of an endpoint whose weights do not all stay in memory, what was read so far: "streaming"; of
 * others nothing. */
void cli_json_streaming(cli_json *json, const accel_endpoint *endpoint);
/* The same with --verbose, two lines on stderr. */
void cli_say_streaming(const cli_run *run, const accel_endpoint *endpoint);
/* Where several devices share the work of the endpoint: what each has done, as "replicas", and under
 * --verbose on stderr. */
void cli_json_replicas(cli_json *json, const accel_endpoint *endpoint);
void cli_say_replicas(const cli_run *run, const accel_endpoint *endpoint);
/* A member of an object that was read: "" when it is no string, NaN when it is no number. */
const char *cli_json_word(const cJSON *object, const char *name);
double cli_json_number(const cJSON *object, const char *name);
/* Prints text that is JSON already as the whole result. */
int cli_json_whole(cli_run *run, const char *text);
/* The whole result of a command: placement, and "results", for each of n inputs a list of count[i]
 * objects, whose members `item` writes. */
typedef void cli_json_item_fn(cli_json *json, const void *found, uint32_t i, uint32_t k);
int cli_json_results(cli_run *run, const char *schema, const accel_endpoint *endpoint,
                     const void *found, uint32_t n, const uint32_t *count, cli_json_item_fn *item);

/* ---- tables ---- */

typedef struct cli_table {
  uint32_t columns, rows;
  char **cell; /* [rows * columns] */
  uint32_t capacity;
} cli_table;

void cli_table_row(cli_table *table, uint32_t columns,
                   const char *const *cells); /* the first row is the heading; NULL cells are "" */
const char *cli_table_cell(const cli_table *table, uint32_t row, uint32_t column);
void cli_table_empty(cli_table *table);
/* As a Markdown table, and empties it; `align` as below. */
void cli_table_markdown(FILE *to, cli_table *table, const char *align);
/* As a table of HTML in a box of its own that scrolls; cells that begin with a verdict (pass, fail
 * ...) have its colour.  Empties the table. */
void cli_table_html(FILE *to, cli_table *table, const char *align);
/* A page of HTML that needs no other file and no script, in the reader's light or dark colours, up
 * to its heading; and its end. */
void cli_html_begin(FILE *to, const char *title);
void cli_html_end(FILE *to);
/* Prints and empties it.  Columns named in `right` ('r' per column, else 'l') are aligned to the
 * right; the last column is cut at the width of a terminal, not when output goes elsewhere. */
void cli_table_print(cli_table *table, const char *align);
/* "[0.0123, -0.0456, ... 384 values]" of v[n], in `into`, which it returns. */
const char *cli_vector_head(const float *v, uint32_t n, char *into, size_t size);
/* `text` on one line, control characters as spaces, cut to `columns` with "..."; in `into`, which
 * it returns. */
const char *cli_excerpt(const char *text, int columns, char *into, size_t size);
/* `text` in lines of at most `width` columns, each but the first behind `indent` spaces. */
void cli_print_wrapped(const char *text, int indent, int width);
int cli_width(const char *text);                                /* columns on a terminal */
const char *cli_bytes(uint64_t bytes, char *into, size_t size); /* "1.5 GiB" */
/* The cosine of every two of n vectors as a table. */
void cli_print_similarity(const double *cosine, const char *const *texts, uint32_t n);
/* A text of the library on stdout: C0 80 in it is U+0000. */
void cli_print_text(const char *text);
int cli_flush(cli_run *run); /* stdout; a failed write is exit code 1 */

/* Labels with their scores, as JSON or as a table with the name of each input (NULL-terminated
 * strings) behind its first. */
int cli_print_labels(cli_run *run, const accel_endpoint *endpoint,
                     const accel_classifications *found, const char *const *names,
                     const char *heading, const char *schema);

#endif
