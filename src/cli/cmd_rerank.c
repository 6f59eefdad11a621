/* cmd_rerank.c - accel rerank: documents by how well they answer a query. */
#include "cli/cli_print.h"

static int print_json(cli_run *run, const accel_endpoint *endpoint, const accel_ranking *found) {
  cli_json json;
  int code = cli_json_begin(run, "accel.rerank/1", &json);
  if (code) return code;
  cli_json_placement(&json, accel_placement(endpoint));
  cli_json_streaming(&json, endpoint);
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

static int rank(cli_run *run, accel_endpoint *endpoint, const cli_texts *texts) {
  accel_rerank_params how = accel_rerank_params_default();
  how.top_k = (uint32_t)cli_count(run, OPT_TOP_K, 0);
  how.function = run->value[OPT_FUNCTION];
  how.instruction = run->value[OPT_INSTRUCTION];
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
