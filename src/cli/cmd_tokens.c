/* cmd_tokens.c - accel tokens: labels for the tokens of texts, or the entities they form. */
#include <inttypes.h>
#include <stdlib.h>

#include "cli/cli_task.h"

static void json_entity(cli_json *json, const void *found, uint32_t i, uint32_t k) {
  const accel_token_entity *e = &((const accel_token_entities *)found)->entity[i][k];
  bool group = e->index < 0;
  cli_json_text(json, group ? "entity_group" : "entity", e->entity);
  cli_json_double(json, "score", e->score);
  if (!group) cli_json_int(json, "index", e->index);
  cli_json_text(json, "word", e->word);
  cli_json_int(json, "start", e->start);
  cli_json_int(json, "end", e->end);
}

static void print_table(const accel_token_entities *found) {
  cli_table table = {0};
  cli_table_row(&table, 5, (const char *[]){"text", "score", "label", "span", "word"});
  for (uint32_t i = 0; i < found->n; ++i) {
    for (uint32_t k = 0; k < found->count[i]; ++k) {
      const accel_token_entity *e = &found->entity[i][k];
      char number[16], score[32], span[64], word[256];
      snprintf(number, sizeof number, "%u", i + 1);
      snprintf(score, sizeof score, "%.4f", e->score);
      snprintf(span, sizeof span, "%" PRId64 "-%" PRId64, e->start, e->end);
      cli_table_row(&table, 5,
                    (const char *[]){number, score, e->entity, span,
                                     cli_excerpt(e->word, 60, word, sizeof word)});
    }
  }
  cli_table_print(&table, "rrlll");
}

static accel_status entities_of(const cli_run *run, accel_endpoint *endpoint,
                                const char *const *texts, uint32_t n,
                                accel_token_entities **found) {
  accel_classify_tokens_params how = accel_classify_tokens_params_default();
  accel_strings ignored = {0};
  char **labels = NULL;
  if (run->value[OPT_AGGREGATION]) how.aggregation = run->value[OPT_AGGREGATION];
  if (run->value[OPT_IGNORE_LABELS]) {
    if (!cli_split(run->value[OPT_IGNORE_LABELS], &labels, &ignored.n))
      return ACCEL_ERROR_OUT_OF_MEMORY;
    ignored.item = (const char *const *)labels;
    how.ignore_labels = &ignored;
  }
  how.stride = (uint32_t)cli_count(run, OPT_STRIDE, how.stride);
  const accel_status status = accel_classify_tokens(endpoint, texts, n, &how, found);
  free(labels);
  return status;
}

static int label(cli_run *run, accel_endpoint *endpoint, const cli_texts *texts) {
  accel_token_entities *found;
  const accel_status status = entities_of(run, endpoint, texts->text, texts->n, &found);
  if (status != ACCEL_OK) return cli_fail(run, status);
  int code = 0;
  if (cli_flag(run, OPT_JSON))
    code = cli_json_results(run, "accel.tokens/1", endpoint, found, found->n, found->count,
                            json_entity);
  else
    print_table(found);
  accel_token_entities_free(&found);
  return code;
}

int cmd_tokens(cli_run *run) { return cli_on_plain_texts(run, 1, "token-classification", label); }

static accel_status call(cli_run *run, void *state, accel_endpoint *endpoint, const cli_rows *rows,
                         cli_found *found) {
  (void)state;
  return entities_of(run, endpoint, rows->field[0], rows->n, &found->entities);
}

static void print(cli_json *json, const void *found, uint32_t i) {
  cli_json_row(json, NULL, found, i, ((const accel_token_entities *)found)->count, json_entity);
}

static void release(void *found) {
  accel_token_entities *entities = found;
  accel_token_entities_free(&entities);
}

const cli_task cli_task_tokens = {.name = "tokens",
                                  .command = "tokens",
                                  .model_task = "token-classification",
                                  .field = {"text"},
                                  .window = 2048,
                                  .shard = 8192,
                                  .call = call,
                                  .print = print,
                                  .release = release};
