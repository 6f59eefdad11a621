/* cli_frame.c - what commands on texts, pictures or sounds share: read the inputs, open the model,
 * answer, free. */
#include <stdlib.h>

#include "cli/cli_task.h"

int cli_on_texts(cli_run *run, int first, const char *const *fields, uint32_t n_fields,
                 const char *task, cli_text_fn *fn) {
  cli_texts texts;
  accel_endpoint *endpoint = NULL;
  int code = cli_texts_read(run, first, fields, n_fields, &texts);
  if (code) return code;
  code = cli_open(run, run->args[0], task, &endpoint);
  if (!code) code = fn(run, endpoint, &texts);
  if (!code) cli_say_streaming(run, endpoint);
  if (!code) cli_say_replicas(run, endpoint);
  accel_cleanup(&endpoint);
  cli_texts_free(&texts);
  return code;
}

int cli_on_plain_texts(cli_run *run, int first, const char *task, cli_text_fn *fn) {
  static const char *const fields[] = {"text"};
  return cli_on_texts(run, first, fields, 1, task, fn);
}

int cli_on_media(cli_run *run, const char *const *names, uint32_t n, const char *task,
                 cli_media_fn *fn) {
  accel_endpoint *endpoint = NULL;
  accel_media *media = cli_media(names, n);
  if (!media) return cli_error(run, ACCEL_ERROR_OUT_OF_MEMORY, "out of memory");
  int code = cli_open(run, run->args[0], task, &endpoint);
  if (!code) code = fn(run, endpoint, media, n);
  accel_cleanup(&endpoint);
  free(media);
  return code;
}

int cli_on_operands(cli_run *run, const char *task, cli_media_fn *fn) {
  return cli_on_media(run, (const char *const *)run->args + 1, (uint32_t)run->n_args - 1, task, fn);
}

void cli_json_row(cli_json *json, const char *key, const void *found, uint32_t i,
                  const uint32_t *count, cli_json_item_fn *item) {
  cli_json_open(json, key, '[');
  for (uint32_t k = 0; k < count[i]; ++k) {
    cli_json_open(json, NULL, '{');
    item(json, found, i, k);
    cli_json_close(json, '}');
  }
  cli_json_close(json, ']');
}

accel_media *cli_row_media(const cli_rows *rows) { return cli_media(rows->field[0], rows->n); }

int cli_json_results(cli_run *run, const char *schema, const accel_endpoint *endpoint,
                     const void *found, uint32_t n, const uint32_t *count, cli_json_item_fn *item) {
  cli_json json;
  int code = cli_json_begin(run, schema, &json);
  if (code) return code;
  cli_json_placement(&json, accel_placement(endpoint));
  cli_json_streaming(&json, endpoint);
  cli_json_replicas(&json, endpoint);
  cli_json_open(&json, "results", '[');
  for (uint32_t i = 0; i < n; ++i) cli_json_row(&json, NULL, found, i, count, item);
  cli_json_close(&json, ']');
  return cli_json_end(run, &json);
}
