/* cli_text2text.c - accel translate, accel summarize: what encoder-decoders make of texts. */
#include <stdlib.h>

#include "cli/cli_generation.h"

static accel_text2text_params params_of(const cli_run *run, const char *task, const cli_wishes *w) {
  accel_text2text_params how = accel_text2text_params_default();
  how.task = task;
  how.source = run->value[OPT_FROM];
  how.target = run->value[OPT_TO];
  how.generate = &w->params;
  return how;
}

static int answer(cli_run *run, accel_endpoint *endpoint, const char *task, cli_wishes *w,
                  const cli_texts *texts) {
  const accel_text2text_params how = params_of(run, task, w);
  int code = cli_wishes_stream(run, w, texts->n);
  if (code) return code;
  accel_generations *found;
  accel_status status = accel_text2text(endpoint, texts->text, texts->n, &how, &found);
  if (status != ACCEL_OK) {
    if (w->streamed) putchar('\n');
    return cli_fail(run, status);
  }
  code = cli_generations_print(run, endpoint, w,
                               task[0] == 't' ? "accel.translate/1" : "accel.summarize/1", found);
  accel_generations_free(&found);
  return code;
}

static int run_task(cli_run *run, const char *task) {
  static const char *const fields[] = {"text"};
  cli_texts texts = {0};
  cli_wishes w;
  accel_endpoint *endpoint = NULL;
  int code = cli_wishes_read(run, &w);
  if (!code) code = cli_texts_read(run, 1, fields, 1, &texts);
  if (!code) code = cli_open(run, run->args[0], NULL, &endpoint);
  if (!code) code = answer(run, endpoint, task, &w, &texts);
  accel_cleanup(&endpoint);
  cli_texts_free(&texts);
  cli_wishes_free(&w);
  return code;
}

int cmd_translate(cli_run *run) { return run_task(run, "translation"); }
int cmd_summarize(cli_run *run) { return run_task(run, "summarization"); }

static accel_status call_translate(cli_run *run, void *state, accel_endpoint *endpoint,
                                   const cli_rows *rows, cli_found *found) {
  const accel_text2text_params how = params_of(run, "translation", state);
  return accel_text2text(endpoint, rows->field[0], rows->n, &how, &found->generations);
}

static accel_status call_summarize(cli_run *run, void *state, accel_endpoint *endpoint,
                                   const cli_rows *rows, cli_found *found) {
  const accel_text2text_params how = params_of(run, "summarization", state);
  return accel_text2text(endpoint, rows->field[0], rows->n, &how, &found->generations);
}

const cli_task cli_task_translate = {.name = "translate",
                                     .command = "translate",
                                     .field = {"text"},
                                     .window = 256,
                                     .shard = 512,
                                     .call = call_translate,
                                     CLI_TASK_GENERATES};
const cli_task cli_task_summarize = {.name = "summarize",
                                     .command = "summarize",
                                     .field = {"text"},
                                     .window = 256,
                                     .shard = 512,
                                     .call = call_summarize,
                                     CLI_TASK_GENERATES};
