/* cmd_fill_mask.c - accel fill-mask: fills the gaps of texts. */
#include <stdlib.h>

#include "cli/cli_task.h"

static void json_fill(cli_json *json, const void *found, uint32_t i, uint32_t k) {
  const accel_fill *f = &((const accel_fills *)found)->fill[i][k];
  cli_json_double(json, "score", f->score);
  cli_json_int(json, "token", f->token);
  cli_json_text(json, "token_str", f->token_str);
  cli_json_text(json, "sequence", f->sequence);
}

static int print_json(cli_run *run, accel_endpoint *endpoint, const accel_fills *found) {
  cli_json json;
  int code = cli_json_begin(run, "accel.fill-mask/1", &json);
  if (code) return code;
  cli_json_placement(&json, accel_placement(endpoint));
  cli_json_open(&json, "results", '[');
  for (uint32_t i = 0; i < found->n; ++i) {
    cli_json_open(&json, NULL, '{');
    cli_json_int(&json, "text", found->text[i]);
    cli_json_row(&json, "fills", found, i, found->count, json_fill);
    cli_json_close(&json, '}');
  }
  cli_json_close(&json, ']');
  return cli_json_end(run, &json);
}

static void print_table(const accel_fills *found) {
  cli_table table = {0};
  cli_table_row(&table, 4, (const char *[]){"gap", "score", "token", "sequence"});
  for (uint32_t i = 0; i < found->n; ++i) {
    for (uint32_t k = 0; k < found->count[i]; ++k) {
      const accel_fill *f = &found->fill[i][k];
      char number[16], score[32], token[128], sequence[512];
      snprintf(number, sizeof number, "%u", i + 1);
      snprintf(score, sizeof score, "%.4f", f->score);
      cli_table_row(
          &table, 4,
          (const char *[]){number, score, cli_excerpt(f->token_str, 24, token, sizeof token),
                           cli_excerpt(f->sequence, 120, sequence, sizeof sequence)});
    }
  }
  cli_table_print(&table, "rrll");
}

static accel_status fills_of(const cli_run *run, accel_endpoint *endpoint, const char *const *texts,
                             uint32_t n, accel_fills **found) {
  accel_fill_params how = accel_fill_params_default();
  accel_strings targets = {0};
  char **words = NULL;
  how.top_k = (uint32_t)cli_count(run, OPT_TOP_K, how.top_k);
  how.truncation = run->value[OPT_TRUNCATION];
  if (run->value[OPT_TARGETS]) {
    if (!cli_split(run->value[OPT_TARGETS], &words, &targets.n)) return ACCEL_ERROR_OUT_OF_MEMORY;
    targets.item = (const char *const *)words;
    how.targets = &targets;
  }
  const accel_status status = accel_fill_mask(endpoint, texts, n, &how, found);
  free(words);
  return status;
}

static int fill(cli_run *run, accel_endpoint *endpoint, const cli_texts *texts) {
  accel_fills *found;
  const accel_status status = fills_of(run, endpoint, texts->text, texts->n, &found);
  if (status != ACCEL_OK) return cli_fail(run, status);
  int code = 0;
  if (cli_flag(run, OPT_JSON))
    code = print_json(run, endpoint, found);
  else
    print_table(found);
  accel_fills_free(&found);
  return code;
}

int cmd_fill_mask(cli_run *run) { return cli_on_plain_texts(run, 1, "fill-mask", fill); }

static accel_status call(cli_run *run, void *state, accel_endpoint *endpoint, const cli_rows *rows,
                         cli_found *found) {
  (void)state;
  return fills_of(run, endpoint, rows->field[0], rows->n, &found->fills);
}

/* A list for each mask of the text. */
static void print(cli_json *json, const void *result, uint32_t i) {
  const accel_fills *found = result;
  cli_json_open(json, NULL, '[');
  for (uint32_t mask = 0; mask < found->n; ++mask)
    if (found->text[mask] == i) cli_json_row(json, NULL, found, mask, found->count, json_fill);
  cli_json_close(json, ']');
}

static void release(void *found) {
  accel_fills *fills = found;
  accel_fills_free(&fills);
}

const cli_task cli_task_fill_mask = {.name = "fill-mask",
                                     .command = "fill-mask",
                                     .model_task = "fill-mask",
                                     .field = {"text"},
                                     .window = 1024,
                                     .shard = 8192,
                                     .call = call,
                                     .print = print,
                                     .release = release};
