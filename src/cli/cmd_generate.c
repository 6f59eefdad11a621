/* cmd_generate.c - accel generate: goes on with texts. */
#include <stdlib.h>

#include "cli/cli_generation.h"

/* One text with pictures. */
static int with_pictures(cli_run *run, accel_endpoint *endpoint, cli_wishes *w,
                         const cli_texts *texts) {
  uint32_t n;
  if (texts->n != 1) return cli_usage(run, "--image goes with one text");
  const char **files = cli_values(run, OPT_IMAGE, &n);
  accel_media *media = cli_media(files, n);
  const accel_image_prompt prompt = {ACCEL_PROMPT_TEXT, texts->text[0], media, n};
  int code = media ? cli_generate_images(run, endpoint, w, "accel.generate/1", &prompt, 1)
                   : cli_error(run, ACCEL_ERROR_OUT_OF_MEMORY, "out of memory");
  free(media);
  free(files);
  return code;
}

static int generate(cli_run *run, accel_endpoint *endpoint, cli_wishes *w, const cli_texts *texts,
                    const cli_ids *ids) {
  uint32_t prompts = ids->n ? ids->n : texts->n;
  int code = cli_wishes_stream(run, w, prompts);
  if (code) return code;
  if (cli_flag(run, OPT_IMAGE)) return with_pictures(run, endpoint, w, texts);
  w->params.continue_on_error = prompts > 1;
  accel_generations *found;
  accel_status status = ids->n
                            ? accel_generate_ids(endpoint, (const int32_t *const *)ids->ids,
                                                 ids->count, ids->n, &w->params, &found)
                            : accel_generate(endpoint, texts->text, texts->n, &w->params, &found);
  if (status != ACCEL_OK) {
    if (w->streamed) putchar('\n');
    return cli_fail(run, status);
  }
  code = cli_generations_print(run, endpoint, w, "accel.generate/1", found);
  accel_generations_free(&found);
  return code;
}

static int read_prompts(cli_run *run, cli_texts *texts, cli_ids *ids) {
  static const char *const fields[] = {"text"};
  if (!run->value[OPT_IDS]) return cli_texts_read(run, 1, fields, 1, texts);
  if (run->n_args > 1 || run->value[OPT_INPUT])
    return cli_usage(run, "give prompts as texts or as --ids, not both");
  int code = cli_ids_read(run, run->value[OPT_IDS], ids);
  return code || ids->n ? code : cli_usage(run, "%s holds no ids", run->value[OPT_IDS]);
}

int cmd_generate(cli_run *run) {
  cli_texts texts = {0};
  cli_ids ids = {0};
  cli_wishes w;
  accel_endpoint *endpoint = NULL;
  int code = cli_wishes_read(run, &w);
  if (!code && cli_flag(run, OPT_CHAT)) {
    code = cli_wishes_assistant(run, &w);
    if (!code) code = cli_chat(run, &w.params);
    cli_wishes_free(&w);
    return code;
  }
  if (!code) code = read_prompts(run, &texts, &ids);
  if (!code) code = cli_open(run, run->args[0], NULL, &endpoint);
  if (!code) code = cli_wishes_assistant(run, &w);
  if (!code) code = generate(run, endpoint, &w, &texts, &ids);
  accel_cleanup(&endpoint);
  cli_texts_free(&texts);
  cli_ids_free(&ids);
  cli_wishes_free(&w);
  return code;
}

static accel_status call(cli_run *run, void *state, accel_endpoint *endpoint, const cli_rows *rows,
                         cli_found *found) {
  const cli_wishes *w = state;
  (void)run;
  return accel_generate(endpoint, rows->field[0], rows->n, &w->params, &found->generations);
}

const cli_task cli_task_generate = {.name = "generate",
                                    .command = "generate",
                                    .field = {"text"},
                                    .window = 256,
                                    .shard = 512,
                                    .call = call,
                                    CLI_TASK_GENERATES};
