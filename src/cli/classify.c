/* classify.c - accel classify: labels for texts. */
#include <stdlib.h>

#include "cli/print.h"

static int print_json(cli_run *run, accel_endpoint *endpoint, const accel_classifications *found) {
  cli_json json;
  int code = cli_json_begin(run, "accel.classify/1", &json);
  if (code) return code;
  cli_json_placement(&json, accel_placement(endpoint));
  cli_json_open(&json, "results", '[');
  for (uint32_t i = 0; i < found->n; ++i) {
    cli_json_open(&json, NULL, '[');
    for (uint32_t k = 0; k < found->count[i]; ++k) {
      cli_json_open(&json, NULL, '{');
      cli_json_text(&json, "label", found->score[i][k].label);
      cli_json_double(&json, "score", found->score[i][k].score);
      cli_json_int(&json, "id", found->score[i][k].id);
      cli_json_close(&json, '}');
    }
    cli_json_close(&json, ']');
  }
  cli_json_close(&json, ']');
  return cli_json_end(run, &json);
}

static void print_table(const accel_classifications *found, const cli_texts *texts) {
  cli_table table = {0};
  cli_table_row(&table, 3, (const char *[]){"score", "label", "text"});
  for (uint32_t i = 0; i < found->n; ++i) {
    for (uint32_t k = 0; k < found->count[i]; ++k) {
      char score[32], text[512];
      snprintf(score, sizeof score, "%.4f", found->score[i][k].score);
      cli_table_row(&table, 3,
                    (const char *[]){score, found->score[i][k].label,
                                     k ? "" : cli_excerpt(texts->text[2 * i], 100, text, sizeof text)});
    }
  }
  cli_table_print(&table, "rll");
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
  accel_classify_params how = accel_classify_params_default();
  how.top_k = (uint32_t)cli_count(run, OPT_TOP_K, how.top_k);
  how.function = run->value[OPT_FUNCTION];
  accel_classifications *found;
  accel_status status = accel_classify(endpoint, first, any ? second : NULL, texts->n, &how, &found);
  free((void *)first);
  if (status != ACCEL_OK) return cli_fail(run, status);
  int code = 0;
  if (cli_flag(run, OPT_JSON))
    code = print_json(run, endpoint, found);
  else
    print_table(found, texts);
  accel_classifications_free(&found);
  return code;
}

int cmd_classify(cli_run *run) {
  static const char *const fields[] = {"text", "text_pair"};
  cli_texts texts;
  accel_endpoint *endpoint = NULL;
  int code = cli_texts_read(run, 1, fields, 2, &texts);
  if (code) return code;
  code = cli_open(run, run->args[0], "text-classification", &endpoint);
  if (!code) code = classify(run, endpoint, &texts);
  accel_cleanup(&endpoint);
  cli_texts_free(&texts);
  return code;
}
