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

enum { WHY = 160 }; /* bytes of why a list of words is not one */

static void free_words(page_words *words) {
  cJSON_Delete(words->tree);
  free(words->word);
  free(words->box);
}

static bool add_word(const cJSON *item, page_words *words, char why[WHY]) {
  const cJSON *word = cJSON_IsArray(item) ? item->child : NULL, *box = word ? word->next : NULL;
  bool good = cJSON_IsString(word) && cJSON_IsArray(box) && !box->next;
  uint32_t k = 0;
  for (const cJSON *edge = good ? box->child : NULL; edge; edge = edge->next) {
    good = good && k < 4 && cJSON_IsNumber(edge) && edge->valuedouble == edge->valueint;
    if (good) words->box[4 * (size_t)words->n + k++] = edge->valueint;
  }
  if (!good || k != 4) {
    snprintf(why, WHY, "entry %u must be [\"word\", [left, top, right, bottom]], whole numbers",
             words->n);
    return false;
  }
  words->word[words->n++] = word->valuestring;
  return true;
}

/* The words of words->tree.  False: they are none, by `why`, which is empty where memory is. */
static bool take_words(page_words *words, char why[WHY]) {
  *why = 0;
  if (!cJSON_IsArray(words->tree)) {
    snprintf(why, WHY, "must be a list");
    return false;
  }
  const size_t n = (size_t)cJSON_GetArraySize(words->tree);
  words->word = malloc((n + 1) * sizeof *words->word);
  words->box = malloc((4 * n + 1) * sizeof *words->box);
  bool good = words->word && words->box;
  for (const cJSON *item = words->tree->child; item && good; item = item->next)
    good = add_word(item, words, why);
  return good;
}

static int read_words(cli_run *run, page_words *words) {
  const char *path = run->value[OPT_WORD_BOXES];
  char *text = NULL, why[WHY];
  size_t bytes = 0;
  if (!path) return 0;
  int code = cli_file_read(run, path, &text, &bytes);
  if (!code) code = cli_json_parse(run, path, text, bytes, &words->tree);
  free(text);
  if (code || take_words(words, why)) return code;
  return *why ? cli_error(run, ACCEL_ERROR_FORMAT, "%s: %s", path, why)
              : cli_error(run, ACCEL_ERROR_OUT_OF_MEMORY, "out of memory");
}

/* ---- answers ---- */

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

static accel_status answers_of(const cli_run *run, accel_endpoint *endpoint,
                               const accel_document_question *asked, uint32_t n,
                               accel_document_answers **found) {
  accel_document_params how = accel_document_params_default();
  accel_generate_params generate = accel_generate_params_default();
  how.top_k = (uint32_t)cli_count(run, OPT_TOP_K, how.top_k);
  how.doc_stride = (uint32_t)cli_count(run, OPT_DOC_STRIDE, how.doc_stride);
  how.max_answer_len = (uint32_t)cli_count(run, OPT_MAX_ANSWER_LENGTH, how.max_answer_len);
  how.handle_impossible_answer = cli_flag(run, OPT_IMPOSSIBLE);
  how.look = cli_flag(run, OPT_LOOK);
  if (run->value[OPT_MAX_NEW_TOKENS])
    generate.max_new_tokens = (int32_t)cli_count(run, OPT_MAX_NEW_TOKENS, 256);
  how.generate = &generate;
  return accel_answer_documents(endpoint, asked, n, &how, found);
}

static int answer(cli_run *run, accel_endpoint *endpoint, const page_words *words,
                  const accel_media *image) {
  const uint32_t n = (uint32_t)run->n_args - 1;
  accel_document_answers *found = NULL;
  accel_document_question *asked = calloc(n, sizeof *asked);
  if (!asked) return cli_error(run, ACCEL_ERROR_OUT_OF_MEMORY, "out of memory");
  for (uint32_t i = 0; i < n; ++i)
    asked[i] =
        (accel_document_question){run->args[1 + i], image, words->word, words->box, words->n};
  const accel_status status = answers_of(run, endpoint, asked, n, &found);
  free(asked);
  if (status != ACCEL_OK) return cli_fail(run, status);
  int code = 0;
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
  free_words(&words);
  free(media);
  free(files);
  return code;
}

/* ---- rows: a question, and a page as picture, as words and boxes, or as both ---- */

/* Answers to the rows of a window whose words could be read. */
typedef struct cli_document_rows {
  accel_document_answers *found;
  page_words *words;  /* [n] */
  accel_media *media; /* [n] */
  uint32_t *place;    /* [n] where the row is among the questions */
  char (*why)[WHY];   /* [n] why a row is not; empty: it is */
  uint32_t n;
} cli_document_rows;

static void release(void *given) {
  cli_document_rows *rows = given;
  if (!rows) return;
  accel_document_answers_free(&rows->found);
  for (uint32_t i = 0; rows->words && i < rows->n; ++i) free_words(&rows->words[i]);
  free(rows->words);
  free(rows->media);
  free(rows->place);
  free(rows->why);
  free(rows);
}

static cli_document_rows *new_rows(uint32_t n) {
  cli_document_rows *rows = calloc(1, sizeof *rows);
  if (!rows) return NULL;
  rows->n = n;
  rows->words = calloc(n, sizeof *rows->words);
  rows->media = calloc(n, sizeof *rows->media);
  rows->place = calloc(n, sizeof *rows->place);
  rows->why = calloc(n, sizeof *rows->why);
  if (rows->words && rows->media && rows->place && rows->why) return rows;
  release(rows);
  return NULL;
}

/* The words of row i; or rows->why[i].  False: no memory. */
static bool read_row(cli_document_rows *rows, const char *text, uint32_t i) {
  page_words *words = &rows->words[i];
  char why[WHY] = "no valid JSON";
  if (!text) return true;
  words->tree = cJSON_ParseWithOpts(text, NULL, 1);
  if (words->tree && take_words(words, why)) return true;
  if (*why) snprintf(rows->why[i], WHY, "word_boxes: %.140s", why);
  return *why != 0;
}

static accel_status call(cli_run *run, void *state, accel_endpoint *endpoint, const cli_rows *given,
                         cli_found *found) {
  (void)state;
  cli_document_rows *rows = new_rows(given->n);
  accel_document_question *asked = calloc(given->n, sizeof *asked);
  bool good = rows && asked;
  uint32_t n = 0;
  for (uint32_t i = 0; good && i < given->n; ++i) {
    const page_words *words = &rows->words[i];
    const char *image = given->field[1][i];
    good = read_row(rows, given->field[2][i], i);
    if (!good || *rows->why[i]) continue;
    rows->media[i].name = image;
    rows->place[i] = n;
    asked[n++] = (accel_document_question){given->field[0][i], image ? &rows->media[i] : NULL,
                                           words->word, words->box, words->n};
  }
  accel_status status = good ? ACCEL_OK : ACCEL_ERROR_OUT_OF_MEMORY;
  if (good && n) status = answers_of(run, endpoint, asked, n, &rows->found);
  free(asked);
  if (status == ACCEL_OK)
    found->documents = rows;
  else
    release(rows);
  return status;
}

static void print(cli_json *json, const void *found, uint32_t i) {
  const cli_document_rows *rows = found;
  cli_json_row(json, NULL, rows->found, rows->place[i], rows->found->count, json_answer);
}

static const char *failed(const void *found, uint32_t i) {
  const cli_document_rows *rows = found;
  return *rows->why[i] ? rows->why[i] : NULL;
}

const cli_task cli_task_document_qa = {.name = "document-qa",
                                       .command = "document-qa",
                                       .field = {"question", "image", "word_boxes"},
                                       .optional = true,
                                       .list = 2,
                                       .window = 16,
                                       .shard = 256,
                                       .call = call,
                                       .print = print,
                                       .failed = failed,
                                       .release = release};
