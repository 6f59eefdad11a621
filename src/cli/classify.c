/* classify.c - accel classify and audio-classify: labels for texts, pictures and sounds. */
#include <stdlib.h>

#include "cli/print.h"

void cli_json_labels(cli_json *json, const accel_classifications *found) {
  cli_json_open(json, "results", '[');
  for (uint32_t i = 0; i < found->n; ++i) {
    cli_json_open(json, NULL, '[');
    for (uint32_t k = 0; k < found->count[i]; ++k) {
      cli_json_open(json, NULL, '{');
      cli_json_text(json, "label", found->score[i][k].label);
      cli_json_double(json, "score", found->score[i][k].score);
      cli_json_int(json, "id", found->score[i][k].id);
      cli_json_close(json, '}');
    }
    cli_json_close(json, ']');
  }
  cli_json_close(json, ']');
}

void cli_print_labels(const accel_classifications *found, const char *const *names, const char *heading) {
  cli_table table = {0};
  cli_table_row(&table, 3, (const char *[]){"score", "label", heading});
  for (uint32_t i = 0; i < found->n; ++i) {
    for (uint32_t k = 0; k < found->count[i]; ++k) {
      char score[32], text[512];
      snprintf(score, sizeof score, "%.4f", found->score[i][k].score);
      cli_table_row(
          &table, 3,
          (const char *[]){score, found->score[i][k].label, k ? "" : cli_excerpt(names[i], 100, text, sizeof text)});
    }
  }
  cli_table_print(&table, "rll");
}

static int print_labels(cli_run *run, const accel_endpoint *endpoint, const accel_classifications *found,
                        const char *const *names, const char *heading, const char *schema) {
  cli_json json;
  if (!cli_flag(run, OPT_JSON)) {
    cli_print_labels(found, names, heading);
    return 0;
  }
  int code = cli_json_begin(run, schema, &json);
  if (code) return code;
  cli_json_placement(&json, accel_placement(endpoint));
  cli_json_labels(&json, found);
  return cli_json_end(run, &json);
}

static accel_classify_params params_of(const cli_run *run, uint32_t top_k) {
  accel_classify_params how = accel_classify_params_default();
  how.top_k = (uint32_t)cli_count(run, OPT_TOP_K, top_k);
  how.function = run->value[OPT_FUNCTION];
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
  accel_status status = accel_classify(endpoint, first, any ? second : NULL, texts->n, &how, &found);
  int code =
      status == ACCEL_OK ? print_labels(run, endpoint, found, first, "text", "accel.classify/1") : cli_fail(run, status);
  free((void *)first);
  accel_classifications_free(&found);
  return code;
}

/* Pictures or sounds: five labels each, as transformers' pipelines give. */
static int classify_media(cli_run *run, const char *const *names, uint32_t n, bool sounds, const char *schema) {
  accel_endpoint *endpoint = NULL;
  accel_classifications *found = NULL;
  const accel_classify_params how = params_of(run, 5);
  accel_media *media = calloc(n, sizeof *media);
  if (!media) return cli_error(run, ACCEL_ERROR_OUT_OF_MEMORY, "out of memory");
  for (uint32_t i = 0; i < n; ++i) media[i].name = names[i];
  int code = cli_open(run, run->args[0], sounds ? "audio-classification" : "image-classification", &endpoint);
  if (!code) {
    accel_status status = (sounds ? accel_classify_sounds : accel_classify_images)(endpoint, media, n, &how, &found);
    code = status == ACCEL_OK ? print_labels(run, endpoint, found, names, sounds ? "sound" : "picture", schema)
                              : cli_fail(run, status);
  }
  accel_classifications_free(&found);
  accel_cleanup(&endpoint);
  free(media);
  return code;
}

int cmd_audio_classify(cli_run *run) {
  return classify_media(run, (const char *const *)run->args + 1, (uint32_t)run->n_args - 1, true, "accel.audio-classify/1");
}

int cmd_classify(cli_run *run) {
  static const char *const fields[] = {"text", "text_pair"};
  cli_texts texts;
  accel_endpoint *endpoint = NULL;
  for (int sounds = 0; sounds < 2; ++sounds) {
    uint32_t n;
    const char **names = cli_values(run, sounds ? OPT_AUDIO : OPT_IMAGE, &n);
    if (!names) continue;
    int done = run->n_args > 1 || run->value[OPT_INPUT] || (run->value[OPT_IMAGE] && run->value[OPT_AUDIO])
                   ? cli_usage(run, "texts, pictures and sounds are classified by different models; give one kind")
                   : classify_media(run, names, n, sounds, "accel.classify/1");
    free(names);
    return done;
  }
  int code = cli_texts_read(run, 1, fields, 2, &texts);
  if (code) return code;
  code = cli_open(run, run->args[0], "text-classification", &endpoint);
  if (!code) code = classify(run, endpoint, &texts);
  accel_cleanup(&endpoint);
  cli_texts_free(&texts);
  return code;
}
