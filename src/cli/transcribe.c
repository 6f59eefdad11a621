/* transcribe.c - accel transcribe: sounds to text. */
#include <stdlib.h>

#include "cli/print.h"

static int print_json(cli_run *run, const accel_endpoint *endpoint, const accel_transcripts *found) {
  cli_json json;
  int code = cli_json_begin(run, "accel.transcribe/1", &json);
  if (code) return code;
  cli_json_placement(&json, accel_placement(endpoint));
  cli_json_open(&json, "results", '[');
  for (uint32_t i = 0; i < found->n; ++i) {
    cli_json_open(&json, NULL, '{');
    cli_json_text(&json, "text", found->text[i]);
    if (run->value[OPT_TIMESTAMPS]) cli_json_open(&json, "chunks", '[');
    for (uint32_t k = 0; k < found->count[i]; ++k) {
      const accel_chunk *c = &found->chunk[i][k];
      cli_json_open(&json, NULL, '{');
      cli_json_text(&json, "text", c->text);
      cli_json_open(&json, "timestamp", '[');
      cli_json_double(&json, NULL, c->start);
      cli_json_double(&json, NULL, c->end);
      cli_json_close(&json, ']');
      cli_json_close(&json, '}');
    }
    if (run->value[OPT_TIMESTAMPS]) cli_json_close(&json, ']');
    cli_json_close(&json, '}');
  }
  cli_json_close(&json, ']');
  return cli_json_end(run, &json);
}

static void print_text(const accel_transcripts *found) {
  for (uint32_t i = 0; i < found->n; ++i) {
    puts(found->text[i]);
    for (uint32_t k = 0; k < found->count[i]; ++k)
      printf("  %8.3f %8.3f  %s\n", found->chunk[i][k].start, found->chunk[i][k].end, found->chunk[i][k].text);
  }
}

int cmd_transcribe(cli_run *run) {
  accel_endpoint *endpoint = NULL;
  accel_transcripts *found = NULL;
  accel_transcribe_params how = accel_transcribe_params_default();
  const uint32_t n = (uint32_t)run->n_args - 1;
  accel_media *media = calloc(n, sizeof *media);
  if (!media) return cli_error(run, ACCEL_ERROR_OUT_OF_MEMORY, "out of memory");
  for (uint32_t i = 0; i < n; ++i) media[i].name = run->args[i + 1];
  how.timestamps = run->value[OPT_TIMESTAMPS];
  int code = cli_open(run, run->args[0], "automatic-speech-recognition", &endpoint);
  if (!code) {
    accel_status status = accel_transcribe(endpoint, media, n, &how, &found);
    if (status != ACCEL_OK)
      code = cli_fail(run, status);
    else if (cli_flag(run, OPT_JSON))
      code = print_json(run, endpoint, found);
    else
      print_text(found);
  }
  accel_transcripts_free(&found);
  accel_cleanup(&endpoint);
  free(media);
  return code;
}
