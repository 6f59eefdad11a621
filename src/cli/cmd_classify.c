/* cmd_classify.c - accel classify and audio-classify: labels for texts, pictures and sounds. */
#include <stdlib.h>

#include "cli/cli_task.h"

static void json_label(cli_json *json, const void *found, uint32_t i, uint32_t k) {
  const accel_label_score *l = &((const accel_classifications *)found)->score[i][k];
  cli_json_text(json, "label", l->label);
  cli_json_double(json, "score", l->score);
  cli_json_int(json, "id", l->id);
}

static void print_table(const accel_classifications *found, const char *const *names,
                        const char *heading) {
  cli_table table = {0};
  cli_table_row(&table, 3, (const char *[]){"score", "label", heading});
  for (uint32_t i = 0; i < found->n; ++i) {
    for (uint32_t k = 0; k < found->count[i]; ++k) {
      char score[32], text[512];
      snprintf(score, sizeof score, "%.4f", found->score[i][k].score);
      cli_table_row(&table, 3,
                    (const char *[]){score, found->score[i][k].label,
                                     k ? "" : cli_excerpt(names[i], 100, text, sizeof text)});
    }
  }
  cli_table_print(&table, "rll");
}

int cli_print_labels(cli_run *run, const accel_endpoint *endpoint,
                     const accel_classifications *found, const char *const *names,
                     const char *heading, const char *schema) {
  if (cli_flag(run, OPT_JSON))
    return cli_json_results(run, schema, endpoint, found, found->n, found->count, json_label);
  print_table(found, names, heading);
  return 0;
}

static accel_classify_params params_of(const cli_run *run, uint32_t top_k) {
  accel_classify_params how = accel_classify_params_default();
  how.top_k = (uint32_t)cli_count(run, OPT_TOP_K, top_k);
  how.function = run->value[OPT_FUNCTION];
  how.truncation = run->value[OPT_TRUNCATION];
  return how;
}

static int classify(cli_run *run, accel_endpoint *endpoint, const cli_texts *texts) {
  const char **first = malloc(2 * (size_t)texts->n * sizeof *first);
  if (!first) return cli_error(run, ACCEL_ERROR_OUT_OF_MEMORY, "out of memory");
  const char **second = first + texts->n;
  bool any = false;
  for (uint32_t i = 0; i < texts->n; ++i) {
    first[i] = texts->text[2 * i];
    second[i] = texts->text[2 * i + 1] ? texts->text[2 * i + 1] : run->value[OPT_PAIR];
    any = any || second[i];
  }
  const accel_classify_params how = params_of(run, 1);
  accel_classifications *found;
  accel_status status =
      accel_classify(endpoint, first, any ? second : NULL, texts->n, &how, &found);
  int code = status == ACCEL_OK
                 ? cli_print_labels(run, endpoint, found, first, "text", "accel.classify/1")
                 : cli_fail(run, status);
  free((void *)first);
  accel_classifications_free(&found);
  return code;
}

/* Pictures or sounds: five labels each, as transformers' pipelines give. */
static int classify_media(cli_run *run, accel_endpoint *endpoint, const accel_media *media,
                          uint32_t n, bool sounds, const char *schema) {
  const accel_classify_params how = params_of(run, 5);
  accel_classifications *found = NULL;
  const char **names = malloc((n + 1) * sizeof *names);
  if (!names) return cli_error(run, ACCEL_ERROR_OUT_OF_MEMORY, "out of memory");
  for (uint32_t i = 0; i < n; ++i) names[i] = media[i].name;
  accel_status status =
      (sounds ? accel_classify_sounds : accel_classify_images)(endpoint, media, n, &how, &found);
  int code = status == ACCEL_OK ? cli_print_labels(run, endpoint, found, names,
                                                   sounds ? "sound" : "picture", schema)
                                : cli_fail(run, status);
  accel_classifications_free(&found);
  free(names);
  return code;
}

static int classify_images(cli_run *run, accel_endpoint *endpoint, const accel_media *media,
                           uint32_t n) {
  return classify_media(run, endpoint, media, n, false, "accel.classify/1");
}
static int classify_sounds(cli_run *run, accel_endpoint *endpoint, const accel_media *media,
                           uint32_t n) {
  return classify_media(run, endpoint, media, n, true, "accel.classify/1");
}
static int label_sounds(cli_run *run, accel_endpoint *endpoint, const accel_media *media,
                        uint32_t n) {
  return classify_media(run, endpoint, media, n, true, "accel.audio-classify/1");
}

int cmd_audio_classify(cli_run *run) {
  return cli_on_operands(run, "audio-classification", label_sounds);
}

int cmd_classify(cli_run *run) {
  static const char *const fields[] = {"text", "text_pair"};
  for (int sounds = 0; sounds < 2; ++sounds) {
    uint32_t n;
    const char **names = cli_values(run, sounds ? OPT_AUDIO : OPT_IMAGE, &n);
    if (!names) continue;
    int done =
        run->n_args > 1 || run->value[OPT_INPUT] || (run->value[OPT_IMAGE] && run->value[OPT_AUDIO])
            ? cli_usage(
                  run,
                  "texts, pictures and sounds are classified by different models; give one kind")
            : cli_on_media(run, names, n, sounds ? "audio-classification" : "image-classification",
                           sounds ? classify_sounds : classify_images);
    free(names);
    return done;
  }
  return cli_on_texts(run, 1, fields, 2, "text-classification", classify);
}

/* ---- rows ---- */

static accel_status call_texts(cli_run *run, void *state, accel_endpoint *endpoint,
                               const cli_rows *rows, cli_found *found) {
  (void)state;
  bool any = false;
  const char **second = malloc(((size_t)rows->n + 1) * sizeof *second);
  if (!second) return ACCEL_ERROR_OUT_OF_MEMORY;
  for (uint32_t i = 0; i < rows->n; ++i) {
    second[i] = rows->field[1][i] ? rows->field[1][i] : run->value[OPT_PAIR];
    any = any || second[i];
  }
  const accel_classify_params how = params_of(run, 1);
  const accel_status status =
      accel_classify(endpoint, rows->field[0], any ? second : NULL, rows->n, &how, &found->labels);
  free((void *)second);
  return status;
}

static accel_status call_media(cli_run *run, accel_endpoint *endpoint, const cli_rows *rows,
                               bool sounds, cli_found *found) {
  const accel_classify_params how = params_of(run, 5);
  accel_media *media = cli_row_media(rows);
  if (!media) return ACCEL_ERROR_OUT_OF_MEMORY;
  const accel_status status = (sounds ? accel_classify_sounds : accel_classify_images)(
      endpoint, media, rows->n, &how, &found->labels);
  free(media);
  return status;
}

static accel_status call_images(cli_run *run, void *state, accel_endpoint *endpoint,
                                const cli_rows *rows, cli_found *found) {
  (void)state;
  return call_media(run, endpoint, rows, false, found);
}

static accel_status call_sounds(cli_run *run, void *state, accel_endpoint *endpoint,
                                const cli_rows *rows, cli_found *found) {
  (void)state;
  return call_media(run, endpoint, rows, true, found);
}

void cli_json_labels(cli_json *json, const void *found, uint32_t i) {
  cli_json_row(json, NULL, found, i, ((const accel_classifications *)found)->count, json_label);
}

void cli_free_labels(void *found) {
  accel_classifications *labels = found;
  accel_classifications_free(&labels);
}

const cli_task cli_task_classify = {.name = "classify",
                                    .command = "classify",
                                    .model_task = "text-classification",
                                    .field = {"text", "text_pair"},
                                    .optional = true,
                                    .window = 2048,
                                    .shard = 8192,
                                    .call = call_texts,
                                    .print = cli_json_labels,
                                    .release = cli_free_labels};
const cli_task cli_task_classify_images = {.name = "classify-images",
                                           .command = "classify",
                                           .model_task = "image-classification",
                                           .field = {"image"},
                                           .window = 32,
                                           .shard = 1024,
                                           .call = call_images,
                                           .print = cli_json_labels,
                                           .release = cli_free_labels};
const cli_task cli_task_classify_sounds = {.name = "audio-classify",
                                           .command = "audio-classify",
                                           .model_task = "audio-classification",
                                           .field = {"audio"},
                                           .window = 16,
                                           .shard = 256,
                                           .call = call_sounds,
                                           .print = cli_json_labels,
                                           .release = cli_free_labels};
