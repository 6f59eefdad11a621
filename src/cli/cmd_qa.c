/* cmd_qa.c - accel qa: answers to questions, found in texts. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "cli/cli_task.h"

/* Question and context of every record: from --input, or from operands with the context perhaps in
 * a file. */
static int read_records(cli_run *run, cli_texts *records, char **context) {
  static const char *const fields[] = {"question", "context"};
  *context = NULL;
  if (run->value[OPT_INPUT]) {
    int code = cli_texts_read(run, 1, fields, 2, records);
    if (code) return code;
    for (uint32_t i = 0; i < records->n; ++i) {
      if (records->text[2 * i + 1]) continue;
      cli_texts_free(records);
      return cli_error(run, ACCEL_ERROR_FORMAT, "%s: entry %u: field 'context' is missing",
                       run->value[OPT_INPUT], i);
    }
    return 0;
  }
  if (run->n_args < 2)
    return cli_usage(run,
                     "no question: give it as an argument, or questions with --input FILE.json");
  if ((run->n_args == 3) == (run->value[OPT_CONTEXT_FILE] != NULL))
    return cli_usage(run, "give the context either as an argument or with --context-file");
  if (run->value[OPT_CONTEXT_FILE]) {
    int code = cli_file_read(run, run->value[OPT_CONTEXT_FILE], context, NULL);
    if (code) return code;
  }
  records->text = malloc(2 * sizeof *records->text);
  if (!records->text) return cli_error(run, ACCEL_ERROR_OUT_OF_MEMORY, "out of memory");
  records->n = 1;
  records->fields = 2;
  records->text[0] = run->args[1];
  records->text[1] = *context ? *context : run->args[2];
  return 0;
}

static void json_answer(cli_json *json, const void *found, uint32_t i, uint32_t k) {
  const accel_answer *a = &((const accel_answers *)found)->answer[i][k];
  cli_json_double(json, "score", a->score);
  cli_json_int(json, "start", a->start);
  cli_json_int(json, "end", a->end);
  cli_json_text(json, "answer", a->answer);
}

static void print_table(const accel_answers *found, const cli_texts *records) {
  cli_table table = {0};
  cli_table_row(&table, 4, (const char *[]){"score", "span", "question", "answer"});
  for (uint32_t i = 0; i < found->n; ++i) {
    for (uint32_t k = 0; k < found->count[i]; ++k) {
      const accel_answer *a = &found->answer[i][k];
      char score[32], span[64], question[256], answer[512];
      snprintf(score, sizeof score, "%.4f", a->score);
      snprintf(span, sizeof span, "%" PRId64 "-%" PRId64, a->start, a->end);
      cli_table_row(&table, 4,
                    (const char *[]){
                        score, span,
                        k ? "" : cli_excerpt(records->text[2 * i], 60, question, sizeof question),
                        cli_excerpt(a->answer, 120, answer, sizeof answer)});
    }
  }
  cli_table_print(&table, "rlll");
}

static accel_status answers_of(const cli_run *run, accel_endpoint *endpoint,
                               const char *const *questions, const char *const *contexts,
                               uint32_t n, accel_answers **found) {
  accel_qa_params how = accel_qa_params_default();
  how.top_k = (uint32_t)cli_count(run, OPT_TOP_K, how.top_k);
  how.doc_stride = (uint32_t)cli_count(run, OPT_DOC_STRIDE, how.doc_stride);
  how.max_answer_len = (uint32_t)cli_count(run, OPT_MAX_ANSWER_LENGTH, how.max_answer_len);
  if (run->value[OPT_ALIGN]) how.align_to_words = strcmp(run->value[OPT_ALIGN], "yes") == 0;
  how.handle_impossible_answer = cli_flag(run, OPT_IMPOSSIBLE);
  return accel_qa(endpoint, questions, contexts, n, &how, found);
}

static int answer(cli_run *run, accel_endpoint *endpoint, const cli_texts *records) {
  const char **questions = malloc(2 * (size_t)records->n * sizeof *questions);
  if (!questions) return cli_error(run, ACCEL_ERROR_OUT_OF_MEMORY, "out of memory");
  const char **contexts = questions + records->n;
  for (uint32_t i = 0; i < records->n; ++i)
    questions[i] = records->text[2 * i], contexts[i] = records->text[2 * i + 1];
  accel_answers *found;
  accel_status status = answers_of(run, endpoint, questions, contexts, records->n, &found);
  free((void *)questions);
  if (status != ACCEL_OK) return cli_fail(run, status);
  int code = 0;
  if (cli_flag(run, OPT_JSON))
    code =
        cli_json_results(run, "accel.qa/1", endpoint, found, found->n, found->count, json_answer);
  else
    print_table(found, records);
  accel_answers_free(&found);
  return code;
}

int cmd_qa(cli_run *run) {
  cli_texts records = {0};
  char *context;
  accel_endpoint *endpoint = NULL;
  int code = read_records(run, &records, &context);
  if (!code) code = cli_open(run, run->args[0], "question-answering", &endpoint);
  if (!code) code = answer(run, endpoint, &records);
  accel_cleanup(&endpoint);
  cli_texts_free(&records);
  free(context);
  return code;
}

static accel_status call(cli_run *run, void *state, accel_endpoint *endpoint, const cli_rows *rows,
                         cli_found *found) {
  (void)state;
  return answers_of(run, endpoint, rows->field[0], rows->field[1], rows->n, &found->answers);
}

static void print(cli_json *json, const void *found, uint32_t i) {
  cli_json_row(json, NULL, found, i, ((const accel_answers *)found)->count, json_answer);
}

static void release(void *found) {
  accel_answers *answers = found;
  accel_answers_free(&answers);
}

const cli_task cli_task_qa = {.name = "qa",
                              .command = "qa",
                              .model_task = "question-answering",
                              .field = {"question", "context"},
                              .window = 512,
                              .shard = 2048,
                              .call = call,
                              .print = print,
                              .release = release};
