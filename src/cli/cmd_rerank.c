/* cmd_rerank.c - accel rerank: documents by how well they answer a query. */
#include <stdlib.h>
#include <string.h>

#include "cli/cli_task.h"

static int print_json(cli_run *run, const accel_endpoint *endpoint, const accel_ranking *found) {
  cli_json json;
  int code = cli_json_begin(run, "accel.rerank/1", &json);
  if (code) return code;
  cli_json_placement(&json, accel_placement(endpoint));
  cli_json_streaming(&json, endpoint);
  cli_json_replicas(&json, endpoint);
  cli_json_open(&json, "results", '[');
  for (uint32_t i = 0; i < found->n; ++i) {
    cli_json_open(&json, NULL, '{');
    cli_json_int(&json, "document", found->item[i].document);
    cli_json_double(&json, "score", found->item[i].score);
    cli_json_close(&json, '}');
  }
  cli_json_close(&json, ']');
  cli_json_int(&json, "truncated", found->truncated);
  return cli_json_end(run, &json);
}

static void print_table(const accel_ranking *found, const cli_texts *texts) {
  cli_table table = {0};
  cli_table_row(&table, 3, (const char *[]){"score", "document", "text"});
  for (uint32_t i = 0; i < found->n; ++i) {
    char score[32], number[16], text[512];
    snprintf(score, sizeof score, "%.4f", found->item[i].score);
    snprintf(number, sizeof number, "%u", found->item[i].document + 1);
    cli_table_row(&table, 3,
                  (const char *[]){
                      score, number,
                      cli_excerpt(texts->text[found->item[i].document], 100, text, sizeof text)});
  }
  cli_table_print(&table, "rrl");
}

static accel_rerank_params params_of(const cli_run *run) {
  accel_rerank_params how = accel_rerank_params_default();
  how.top_k = (uint32_t)cli_count(run, OPT_TOP_K, 0);
  how.function = run->value[OPT_FUNCTION];
  how.instruction = run->value[OPT_INSTRUCTION];
  return how;
}

static int rank(cli_run *run, accel_endpoint *endpoint, const cli_texts *texts) {
  const accel_rerank_params how = params_of(run);
  accel_ranking *found;
  accel_status status = accel_rerank(endpoint, run->args[1], texts->text, texts->n, &how, &found);
  if (status != ACCEL_OK) return cli_fail(run, status);
  if (found->truncated)
    cli_note(run, "%u documents were cut at the model's length", found->truncated);
  int code = 0;
  if (cli_flag(run, OPT_JSON))
    code = print_json(run, endpoint, found);
  else
    print_table(found, texts);
  accel_ranking_free(&found);
  return code;
}

int cmd_rerank(cli_run *run) { return cli_on_plain_texts(run, 2, "text-ranking", rank); }

/* Scores of pairs: documents of one query that follow each other are ranked together. */
static accel_status call(cli_run *run, void *state, accel_endpoint *endpoint, const cli_rows *rows,
                         cli_found *found) {
  (void)state;
  accel_rerank_params how = params_of(run);
  how.top_k = 0; /* a row is a document, and each has its score */
  double *score = malloc(((size_t)rows->n + 1) * sizeof *score);
  accel_status status = score ? ACCEL_OK : ACCEL_ERROR_OUT_OF_MEMORY;
  for (uint32_t i = 0, next; status == ACCEL_OK && i < rows->n; i = next) {
    accel_ranking *ranking = NULL;
    for (next = i + 1; next < rows->n && !strcmp(rows->field[0][next], rows->field[0][i]);) ++next;
    status =
        accel_rerank(endpoint, rows->field[0][i], rows->field[1] + i, next - i, &how, &ranking);
    for (uint32_t k = 0; status == ACCEL_OK && k < ranking->n; ++k)
      score[i + ranking->item[k].document] = ranking->item[k].score;
    accel_ranking_free(&ranking);
  }
  if (status == ACCEL_OK)
    found->own = score;
  else
    free(score);
  return status;
}

static void print(cli_json *json, const void *found, uint32_t i) {
  cli_json_double(json, NULL, ((const double *)found)[i]);
}

static void release(void *found) { free(found); }

const cli_task cli_task_rerank = {.name = "rerank",
                                  .command = "rerank",
                                  .model_task = "text-ranking",
                                  .field = {"query", "document"},
                                  .window = 2048,
                                  .shard = 8192,
                                  .call = call,
                                  .print = print,
                                  .release = release};
