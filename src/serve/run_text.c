/* run_text.c - tasks that read texts. */
#include <string.h>

#include "serve/run_tasks.h"

/* ---- labels ---- */

/* TEXT or {"text", "text_pair"}, or a list of these. */
static const char **read_pairs(run_job *j) {
  serve_fields *f = &j->f;
  const cJSON *inputs = field_item(f, "inputs");
  const bool list = cJSON_IsArray(inputs);
  const int count = list ? cJSON_GetArraySize(inputs) : 1;
  const char **text = fields_memory(f, 2 * (size_t)count * sizeof *text);
  if (!inputs || !count || count > SERVE_MAX_TEXTS)
    field_wrong(f, "inputs", "must be a text, or a list of 1 to %d", SERVE_MAX_TEXTS);
  j->single = !list;
  if (!text || f->failed) return NULL;
  const cJSON *item = list ? inputs->child : inputs;
  for (; j->n < (uint32_t)count; item = item->next, ++j->n) {
    const cJSON *first =
                    cJSON_IsObject(item) ? cJSON_GetObjectItemCaseSensitive(item, "text") : item,
                *second = cJSON_IsObject(item) ? cJSON_GetObjectItemCaseSensitive(item, "text_pair")
                                               : NULL;
    if (!cJSON_IsString(first) || (second && !cJSON_IsString(second))) {
      field_wrong(f, "inputs", "element %u is neither a text nor {\"text\", \"text_pair\"}", j->n);
      return NULL;
    }
    text[j->n] = first->valuestring;
    text[(uint32_t)count + j->n] = second ? second->valuestring : "";
  }
  j->texts = text;
  return text + count;
}

static void read_classify(run_job *j, accel_classify_params *how, uint32_t top_k) {
  *how = accel_classify_params_default();
  how->top_k = (uint32_t)field_integer(&j->f, "top_k", 1, 1 << 20, top_k);
  how->function = field_choice(&j->f, "function_to_apply", "softmax|sigmoid|none", NULL);
}

/* Of each text its list of labels, also of one alone, as Hugging Face's servers give it. */
cJSON *run_text_classification(run_job *j) {
  accel_classify_params how;
  const serve_cutting cutting = {.truncate = true};
  const char **pairs = read_pairs(j);
  read_classify(j, &how, 0);
  if (!job_ready(j)) return NULL;
  accel_classifications *found =
      classify_texts(&j->f, j->model, "inputs", j->texts, pairs, j->n, &how, &cutting);
  cJSON *answer = found ? cJSON_CreateArray() : NULL;
  for (uint32_t i = 0; answer && i < found->n; ++i)
    cJSON_AddItemToArray(answer, label_scores(found, i));
  accel_classifications_free(&found);
  return answer;
}

/* Of each text all labels, best first, as Hugging Face's servers give them. */
cJSON *run_zero_shot(run_job *j) {
  accel_zero_shot_params how = accel_zero_shot_params_default();
  accel_classifications *found = NULL;
  uint32_t n;
  job_texts(j);
  const char *const *labels = job_labels(j, &n);
  how.hypothesis = field_text(&j->f, "hypothesis_template", how.hypothesis);
  how.multi_label = field_flag(&j->f, "multi_label", false);
  if (!job_ready(j)) return NULL;
  const accel_status status =
      accel_zero_shot_classify(j->model->endpoint, j->texts, j->n, labels, n, &how, &found);
  if (!job_done(j, status)) return NULL;
  cJSON *answer = cJSON_CreateArray();
  for (uint32_t i = 0; i < found->n; ++i) cJSON_AddItemToArray(answer, label_scores(found, i));
  accel_classifications_free(&found);
  return job_shape(j, answer);
}

static cJSON *entity_row(const void *found, uint32_t i, uint32_t k) {
  const accel_token_entity *e = &((const accel_token_entities *)found)->entity[i][k];
  cJSON *item = cJSON_CreateObject();
  cJSON_AddStringToObject(item, e->index < 0 ? "entity_group" : "entity", e->entity);
  add_exact(item, "score", e->score);
  if (e->index >= 0) cJSON_AddNumberToObject(item, "index", (double)e->index);
  cJSON_AddStringToObject(item, "word", e->word);
  cJSON_AddNumberToObject(item, "start", (double)e->start);
  cJSON_AddNumberToObject(item, "end", (double)e->end);
  return item;
}

cJSON *run_token_classification(run_job *j) {
  accel_classify_tokens_params how = accel_classify_tokens_params_default();
  accel_token_entities *found = NULL;
  accel_strings ignored;
  bool single;
  job_texts(j);
  how.aggregation =
      field_choice(&j->f, "aggregation_strategy", "none|simple|first|average|max", how.aggregation);
  how.stride = (uint32_t)field_integer(&j->f, "stride", 0, 1 << 20, 0);
  ignored.item = field_texts(&j->f, "ignore_labels", &ignored.n, &single);
  if (field_item(&j->f, "ignore_labels")) how.ignore_labels = &ignored;
  if (!job_ready(j)) return NULL;
  cJSON *answer = NULL;
  if (job_done(j, accel_classify_tokens(j->model->endpoint, j->texts, j->n, &how, &found)))
    answer = job_rows(j, found->n, found->count, entity_row, found);
  accel_token_entities_free(&found);
  return answer;
}

/* ---- questions ---- */

/* {"question", "context"}, or a list of these; or both beside each other. */
static const char **read_questions(run_job *j) {
  serve_fields *f = &j->f;
  const cJSON *inputs = field_item(f, "inputs");
  const bool list = cJSON_IsArray(inputs);
  const int count = list ? cJSON_GetArraySize(inputs) : 1;
  const char **text = fields_memory(f, 2 * (size_t)count * sizeof *text);
  if (!inputs || !count || count > SERVE_MAX_TEXTS)
    field_wrong(f, "inputs", "must be {\"question\", \"context\"}, or a list of 1 to %d of them",
                SERVE_MAX_TEXTS);
  j->single = !list;
  if (!text || f->failed) return NULL;
  const cJSON *item = list ? inputs->child : inputs;
  for (; j->n < (uint32_t)count; item = item->next, ++j->n) {
    const cJSON *question = cJSON_GetObjectItemCaseSensitive(item, "question"),
                *context = cJSON_GetObjectItemCaseSensitive(item, "context");
    if (!cJSON_IsString(question) || !cJSON_IsString(context)) {
      field_wrong(f, "inputs", "element %u has no texts \"question\" and \"context\"", j->n);
      return NULL;
    }
    text[j->n] = question->valuestring;
    text[(uint32_t)count + j->n] = context->valuestring;
  }
  j->texts = text;
  return text + count;
}

static cJSON *answer_row(const void *found, uint32_t i, uint32_t k) {
  const accel_answer *a = &((const accel_answers *)found)->answer[i][k];
  cJSON *item = cJSON_CreateObject();
  add_exact(item, "score", a->score);
  cJSON_AddNumberToObject(item, "start", (double)a->start);
  cJSON_AddNumberToObject(item, "end", (double)a->end);
  cJSON_AddStringToObject(item, "answer", a->answer);
  return item;
}

cJSON *run_question_answering(run_job *j) {
  accel_qa_params how = accel_qa_params_default();
  accel_answers *found = NULL;
  serve_fields *f = &j->f;
  const char **contexts = read_questions(j);
  how.top_k = (uint32_t)field_integer(f, "top_k", 1, 1024, how.top_k);
  how.doc_stride = (uint32_t)field_integer(f, "doc_stride", 1, 1 << 20, how.doc_stride);
  how.max_answer_len = (uint32_t)field_integer(f, "max_answer_len", 1, 1024, how.max_answer_len);
  how.max_seq_len = (uint32_t)field_integer(f, "max_seq_len", 1, 1 << 20, how.max_seq_len);
  how.max_question_len =
      (uint32_t)field_integer(f, "max_question_len", 1, 1 << 20, how.max_question_len);
  how.handle_impossible_answer = field_flag(f, "handle_impossible_answer", false);
  how.align_to_words = field_flag(f, "align_to_words", true);
  if (!job_ready(j)) return NULL;
  cJSON *answer = NULL;
  if (job_done(j, accel_qa(j->model->endpoint, j->texts, contexts, j->n, &how, &found))) {
    answer = job_rows(j, found->n, found->count, answer_row, found);
    /* one answer to one question stands alone */
    if (j->single && how.top_k == 1) answer = job_shape(j, answer);
  }
  accel_answers_free(&found);
  return answer;
}

/* ---- masks ---- */

static cJSON *fill_row(const void *found, uint32_t i, uint32_t k) {
  const accel_fill *fill = &((const accel_fills *)found)->fill[i][k];
  cJSON *item = cJSON_CreateObject();
  add_exact(item, "score", fill->score);
  cJSON_AddNumberToObject(item, "token", (double)fill->token);
  cJSON_AddStringToObject(item, "token_str", fill->token_str);
  cJSON_AddStringToObject(item, "sequence", fill->sequence);
  return item;
}

/* A list for each mask; of a single mask its list alone. */
cJSON *run_fill_mask(run_job *j) {
  accel_fill_params how = accel_fill_params_default();
  accel_fills *found = NULL;
  accel_strings targets;
  bool single;
  job_texts(j);
  how.top_k = (uint32_t)field_integer(&j->f, "top_k", 1, 1 << 20, how.top_k);
  targets.item = field_texts(&j->f, "targets", &targets.n, &single);
  if (targets.n) how.targets = &targets;
  if (!job_ready(j)) return NULL;
  cJSON *answer = NULL;
  if (job_done(j, accel_fill_mask(j->model->endpoint, j->texts, j->n, &how, &found))) {
    j->single = j->single && found->n == 1;
    answer = job_rows(j, found->n, found->count, fill_row, found);
  }
  accel_fills_free(&found);
  return answer;
}

/* ---- texts from texts ---- */

/* Through the queue, one request for each text. */
static accel_status generate(run_job *j, const accel_generate_params *how, uint32_t i,
                             accel_generations **out) {
  accel_request what = accel_request_default(ACCEL_REQUEST_GENERATE);
  accel_ticket *ticket = NULL;
  what.prompt = j->texts[i];
  what.generate = how;
  const accel_status status = serve_submit(j->f.request, j->model->queue, &what, &ticket);
  if (status != ACCEL_OK) return status;
  serve_wait(j->f.request, ticket);
  return accel_wait_generations(&ticket, -1, out);
}

cJSON *run_text_generation(run_job *j) {
  accel_generate_params how;
  run_job one = {.n = 1, .single = true}; /* each text by itself */
  job_texts(j);
  job_generation(j, &how);
  const bool whole = field_flag(&j->f, "return_full_text", true);
  if (!job_ready(j)) return NULL;
  serve_use_adapter(&how, j->model);
  cJSON *rows = cJSON_CreateArray();
  for (uint32_t i = 0; i < j->n; ++i) {
    accel_generations *found = NULL;
    const bool good = job_done(j, generate(j, &how, i, &found));
    if (good)
      cJSON_AddItemToArray(
          rows, job_generated(&one, found, "generated_text", whole ? &j->texts[i] : NULL));
    accel_generations_free(&found);
    if (good) continue;
    cJSON_Delete(rows);
    return NULL;
  }
  j->counts = one.counts;
  return job_shape(j, rows);
}

static cJSON *text2text(run_job *j, const char *task, const char *key) {
  accel_text2text_params how = accel_text2text_params_default();
  accel_generate_params generate_how;
  accel_generations *found = NULL;
  job_texts(j);
  job_generation(j, &generate_how);
  how.task = task;
  how.source = field_text(&j->f, "src_lang", NULL);
  how.target = field_text(&j->f, "tgt_lang", NULL);
  how.truncate = strcmp(field_choice(&j->f, "truncation",
                                     "do_not_truncate|longest_first|only_first", "do_not_truncate"),
                        "do_not_truncate") != 0;
  how.generate = &generate_how;
  if (!job_ready(j)) return NULL;
  serve_use_adapter(&generate_how, j->model);
  cJSON *answer = NULL;
  if (job_done(j, accel_text2text(j->model->endpoint, j->texts, j->n, &how, &found)))
    answer = job_generated(j, found, key, NULL);
  accel_generations_free(&found);
  return answer;
}

cJSON *run_translation(run_job *j) { return text2text(j, "translation", "translation_text"); }
cJSON *run_summarization(run_job *j) { return text2text(j, "summarization", "summary_text"); }
cJSON *run_text2text(run_job *j) { return text2text(j, NULL, "generated_text"); }
