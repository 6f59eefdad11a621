/* cmd_document_qa.c - accel document-qa: answers to questions about a page. */
#include <cjson/cJSON.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "cli/cli_task.h"

/* The words of a page; `tree` holds their texts. */
typedef struct page_words {
  cJSON *tree;
  const char **word;
  int32_t *box;
  uint32_t n;
} page_words;

static int bad_word(cli_run *run, uint32_t i) {
  return cli_error(run, ACCEL_ERROR_FORMAT,
                   "%s: entry %u must be [\"word\", [left, top, right, bottom]], whole numbers",
                   run->value[OPT_WORD_BOXES], i);
}

static int read_word(cli_run *run, const cJSON *item, page_words *words) {
  const cJSON *word = cJSON_IsArray(item) ? item->child : NULL, *box = word ? word->next : NULL;
  uint32_t k = 0;
  if (!cJSON_IsString(word) || !cJSON_IsArray(box) || box->next || cJSON_GetArraySize(box) != 4)
    return bad_word(run, words->n);
  for (const cJSON *edge = box->child; edge; edge = edge->next) {
    if (!cJSON_IsNumber(edge) || edge->valuedouble != edge->valueint)
      return bad_word(run, words->n);
    words->box[4 * (size_t)words->n + k++] = edge->valueint;
  }
  words->word[words->n++] = word->valuestring;
  return 0;
}

static int read_words(cli_run *run, page_words *words) {
  char *text = NULL;
  size_t bytes = 0;
  if (!run->value[OPT_WORD_BOXES]) return 0;
  int code = cli_file_read(run, run->value[OPT_WORD_BOXES], &text, &bytes);
  if (!code) code = cli_json_parse(run, run->value[OPT_WORD_BOXES], text, bytes, &words->tree);
  free(text);
  if (code) return code;
  if (!cJSON_IsArray(words->tree))
    return cli_error(run, ACCEL_ERROR_FORMAT, "%s: must be a list", run->value[OPT_WORD_BOXES]);
  const size_t n = (size_t)cJSON_GetArraySize(words->tree);
  words->word = malloc((n + 1) * sizeof *words->word);
  words->box = malloc((4 * n + 1) * sizeof *words->box);
  if (!words->word || !words->box)
    return cli_error(run, ACCEL_ERROR_OUT_OF_MEMORY, "out of memory");
  for (const cJSON *item = words->tree->child; item && !code; item = item->next)
    code = read_word(run, item, words);
  return code;
}

static void json_answer(cli_json *json, const void *found, uint32_t i, uint32_t k) {
  const accel_document_answer *a = &((const accel_document_answers *)found)->answer[i][k];
  if (a->start >= 0) {
    cli_json_double(json, "score", a->score);
    cli_json_int(json, "start", a->start);
    cli_json_int(json, "end", a->end);
  }
  cli_json_text(json, "answer", a->answer);
}

static void print_answers(const accel_document_answers *found, char *const *questions) {
  cli_table table = {0};
  cli_table_row(&table, 4, (const char *[]){"score", "words", "question", "answer"});
  for (uint32_t i = 0; i < found->n; ++i)
    for (uint32_t k = 0; k < found->count[i]; ++k) {
      const accel_document_answer *a = &found->answer[i][k];
      char score[32] = "-", span[64] = "-", question[256], answer[512];
      if (!isnan(a->score)) snprintf(score, sizeof score, "%.4f", a->score);
      if (a->start >= 0) snprintf(span, sizeof span, "%" PRId64 "-%" PRId64, a->start, a->end);
      cli_table_row(
          &table, 4,
          (const char *[]){score, span,
                           k ? "" : cli_excerpt(questions[i], 60, question, sizeof question),
                           a->answer ? cli_excerpt(a->answer, 120, answer, sizeof answer) : "-"});
    }
  cli_table_print(&table, "rlll");
}

static int answer(cli_run *run, accel_endpoint *endpoint, const page_words *words,
                  const accel_media *image) {
  const uint32_t n = (uint32_t)run->n_args - 1;
  accel_document_params how = accel_document_params_default();
  accel_generate_params generate = accel_generate_params_default();
  accel_document_answers *found = NULL;
  accel_document_question *asked = calloc(n, sizeof *asked);
  if (!asked) return cli_error(run, ACCEL_ERROR_OUT_OF_MEMORY, "out of memory");
  for (uint32_t i = 0; i < n; ++i)
    asked[i] =
        (accel_document_question){run->args[1 + i], image, words->word, words->box, words->n};
  how.top_k = (uint32_t)cli_count(run, OPT_TOP_K, how.top_k);
  how.doc_stride = (uint32_t)cli_count(run, OPT_DOC_STRIDE, how.doc_stride);
  how.max_answer_len = (uint32_t)cli_count(run, OPT_MAX_ANSWER_LENGTH, how.max_answer_len);
  how.handle_impossible_answer = cli_flag(run, OPT_IMPOSSIBLE);
  how.look = cli_flag(run, OPT_LOOK);
  if (run->value[OPT_MAX_NEW_TOKENS])
    generate.max_new_tokens = (int32_t)cli_count(run, OPT_MAX_NEW_TOKENS, 256);
  how.generate = &generate;
  int code = 0;
  accel_status status = accel_answer_documents(endpoint, asked, n, &how, &found);
  free(asked);
  if (status != ACCEL_OK) return cli_fail(run, status);
  if (cli_flag(run, OPT_JSON))
    code =
        cli_json_results(run, "accel.document-qa/1", endpoint, found, n, found->count, json_answer);
  else
    print_answers(found, run->args + 1);
  accel_document_answers_free(&found);
  return code;
}

int cmd_document_qa(cli_run *run) {
  page_words words = {0};
  accel_endpoint *endpoint = NULL;
  uint32_t n;
  const char **files = cli_values(run, OPT_IMAGE, &n);
  accel_media *media = n ? cli_media(files, n) : NULL;
  int code = n > 1         ? cli_usage(run, "one page at a time: one --image FILE")
             : n && !media ? cli_error(run, ACCEL_ERROR_OUT_OF_MEMORY, "out of memory")
                           : read_words(run, &words);
  if (!code) code = cli_open(run, run->args[0], NULL, &endpoint);
  if (!code) code = answer(run, endpoint, &words, media);
  accel_cleanup(&endpoint);
  cJSON_Delete(words.tree);
  free(words.word);
  free(words.box);
  free(media);
  free(files);
  return code;
}
