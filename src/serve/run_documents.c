/* run_documents.c - POST /accel/run/document-question-answering: pages with what is asked. */
#include <math.h>
#include <string.h>

#include "serve/run_tasks.h"

static void wrong(run_job *j, const char *what) {
  field_wrong(&j->f, "inputs", "element %u %s", j->n, what);
}

/* [[word, [left, top, right, bottom]], ...] */
static void read_words(run_job *j, const cJSON *list, accel_document_question *q) {
  const int count = cJSON_GetArraySize(list);
  const char **words = fields_memory(&j->f, ((size_t)count + 1) * sizeof *words);
  int32_t *boxes = fields_memory(&j->f, (4 * (size_t)count + 1) * sizeof *boxes);
  uint32_t n = 0;
  if (!words || !boxes) return;
  for (const cJSON *item = list->child; item; item = item->next, ++n) {
    const cJSON *word = cJSON_IsArray(item) ? item->child : NULL, *box = word ? word->next : NULL;
    uint32_t k = 0;
    if (!cJSON_IsString(word) || !cJSON_IsArray(box) || cJSON_GetArraySize(box) != 4) {
      wrong(j, "has \"word_boxes\" that are no [word, [left, top, right, bottom]]");
      return;
    }
    words[n] = word->valuestring;
    for (const cJSON *edge = box->child; edge; edge = edge->next)
      boxes[4 * (size_t)n + k++] = cJSON_IsNumber(edge) ? edge->valueint : -1;
  }
  q->words = words;
  q->boxes = boxes;
  q->n_words = n;
}

static void read_question(run_job *j, const cJSON *item, accel_document_question *q) {
  const cJSON *question = cJSON_GetObjectItemCaseSensitive(item, "question"),
              *image = cJSON_GetObjectItemCaseSensitive(item, "image"),
              *words = cJSON_GetObjectItemCaseSensitive(item, "word_boxes");
  if (!cJSON_IsString(question)) {
    wrong(j, "has no text \"question\"");
    return;
  }
  *q = (accel_document_question){.question = question->valuestring};
  if (cJSON_IsString(image)) {
    accel_media *media = fields_memory(&j->f, sizeof *media);
    if (!media || !field_media(&j->f, "image", image->valuestring, SERVE_PICTURE, media)) return;
    q->image = media;
  }
  if (cJSON_IsArray(words)) read_words(j, words, q);
}

/* {"image", "question", "word_boxes"} or a list of these. */
static accel_document_question *read_questions(run_job *j) {
  serve_fields *f = &j->f;
  const cJSON *inputs = field_item(f, "inputs");
  if (cJSON_IsString(inputs) && field_item(f, "question")) inputs = f->object;
  j->single = cJSON_IsObject(inputs);
  const int count = j->single ? 1 : cJSON_IsArray(inputs) ? cJSON_GetArraySize(inputs) : 0;
  if (!count || count > SERVE_MAX_MEDIA)
    field_wrong(f, "inputs",
                "must be {\"image\", \"question\", \"word_boxes\"}, or a list of 1 to %d of them",
                SERVE_MAX_MEDIA);
  if (f->failed) return NULL;
  accel_document_question *asked = fields_memory(f, (size_t)count * sizeof *asked);
  const cJSON *item = j->single ? inputs : inputs->child;
  for (; asked && !f->failed && j->n < (uint32_t)count; item = item->next, ++j->n)
    read_question(j, item, &asked[j->n]);
  return f->failed ? NULL : asked;
}

static cJSON *answer_row(const void *found, uint32_t i, uint32_t k) {
  const accel_document_answer *a = &((const accel_document_answers *)found)->answer[i][k];
  cJSON *item = cJSON_CreateObject();
  if (a->start >= 0) {
    add_exact(item, "score", a->score);
    cJSON_AddNumberToObject(item, "start", (double)a->start);
    cJSON_AddNumberToObject(item, "end", (double)a->end);
  }
  cJSON_AddItemToObject(item, "answer",
                        a->answer ? cJSON_CreateString(a->answer) : cJSON_CreateNull());
  return item;
}

cJSON *run_document_question(run_job *j) {
  accel_document_params how = accel_document_params_default();
  accel_document_answers *found = NULL;
  serve_fields *f = &j->f;
  accel_document_question *asked = read_questions(j);
  how.top_k = (uint32_t)field_integer(f, "top_k", 1, 1024, how.top_k);
  how.doc_stride = (uint32_t)field_integer(f, "doc_stride", 1, 1 << 20, how.doc_stride);
  how.max_answer_len = (uint32_t)field_integer(f, "max_answer_len", 1, 1024, how.max_answer_len);
  how.max_seq_len = (uint32_t)field_integer(f, "max_seq_len", 1, 1 << 20, how.max_seq_len);
  how.handle_impossible_answer = field_flag(f, "handle_impossible_answer", false);
  how.look = field_flag(f, "look", false);
  if (!asked || !job_ready(j)) return NULL;
  cJSON *answer = NULL;
  if (job_done(j, accel_answer_documents(j->model->endpoint, asked, j->n, &how, &found)))
    answer = job_rows(j, found->n, found->count, answer_row, found);
  accel_document_answers_free(&found);
  return answer;
}
