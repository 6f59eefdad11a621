/* cmd_zero_shot.c - accel zero-shot: which of labels of one's own texts have. */
#include <stdlib.h>

#include "cli/cli_task.h"

static accel_status labels_for(const cli_run *run, accel_endpoint *endpoint,
                               const char *const *texts, uint32_t n,
                               accel_classifications **found) {
  accel_zero_shot_params how = accel_zero_shot_params_default();
  uint32_t n_labels;
  char **labels;
  if (run->value[OPT_HYPOTHESIS]) how.hypothesis = run->value[OPT_HYPOTHESIS];
  how.multi_label = cli_flag(run, OPT_MULTI_LABEL);
  if (!cli_split(run->value[OPT_LABELS], &labels, &n_labels)) return ACCEL_ERROR_OUT_OF_MEMORY;
  const accel_status status = accel_zero_shot_classify(
      endpoint, texts, n, (const char *const *)labels, n_labels, &how, found);
  free(labels);
  return status;
}

static int choose_labels(cli_run *run, accel_endpoint *endpoint, const cli_texts *texts) {
  accel_classifications *found = NULL;
  const accel_status status = labels_for(run, endpoint, texts->text, texts->n, &found);
  const int code = status == ACCEL_OK ? cli_print_labels(run, endpoint, found, texts->text, "text",
                                                         "accel.zero-shot/1")
                                      : cli_fail(run, status);
  accel_classifications_free(&found);
  return code;
}

int cmd_zero_shot(cli_run *run) {
  const int code = cli_begin_labels(run, NULL);
  return code ? code : cli_on_plain_texts(run, 1, "text-classification", choose_labels);
}

/* ---- rows ---- */

static accel_status call(cli_run *run, void *state, accel_endpoint *endpoint, const cli_rows *rows,
                         cli_found *found) {
  (void)state;
  return labels_for(run, endpoint, rows->field[0], rows->n, &found->labels);
}

const cli_task cli_task_zero_shot = {.name = "zero-shot",
                                     .command = "zero-shot",
                                     .model_task = "text-classification",
                                     .field = {"text"},
                                     .window = 512,
                                     .shard = 8192,
                                     .begin = cli_begin_labels,
                                     .call = call,
                                     .print = cli_json_labels,
                                     .release = cli_free_labels};
