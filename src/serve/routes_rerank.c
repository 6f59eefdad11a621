/* routes_rerank.c - documents by how well they answer a query: /rerank in the forms of TEI (`texts`),
 * Jina (`documents`) and Cohere. */
#include <string.h>

#include "serve/serve_reply.h"

/* Whose form a request and its answer have. */
typedef enum rank_form { TEI, JINA, COHERE_2 } rank_form;

typedef struct wish {
  rank_form form;
  const serve_model *model;
  const char *member, *query;
  const char *const *texts;
  uint32_t n;
  serve_cutting cutting;
  accel_rerank_params how;
  bool return_text;
} wish;

/* ---- the request ---- */

/* Documents are texts, or objects with a text. */
static void read_documents(serve_fields *f, wish *w) {
  const cJSON *list = field_item(f, w->member), *item;
  const int count = cJSON_GetArraySize(list);
  if (f->failed) return;
  if (!cJSON_IsArray(list) || !count || count > SERVE_MAX_TEXTS)
    field_wrong(f, w->member, "must be a list of 1 to %d documents", SERVE_MAX_TEXTS);
  const char **texts = fields_memory(f, ((size_t)count + 1) * sizeof *texts);
  w->texts = texts;
  if (!texts) return;
  cJSON_ArrayForEach(item, list) {
    const cJSON *text =
        cJSON_IsObject(item) ? cJSON_GetObjectItemCaseSensitive(item, "text") : item;
    if (!cJSON_IsString(text)) {
      field_wrong(f, w->member, "element %u is neither a text nor {\"text\": TEXT}", w->n);
      return;
    }
    texts[w->n++] = text->valuestring;
  }
}

static void read_rank_fields(serve_fields *f) {
  const cJSON *names = field_item(f, "rank_fields"), *name;
  cJSON_ArrayForEach(name, names) {
    if (!cJSON_IsString(name) || strcmp(name->valuestring, "text") != 0)
      field_wrong(f, "rank_fields", "documents are ranked by their member \"text\" alone");
  }
}

static void read_wish(serve_fields *f, wish *w) {
  /* those that generate are named by the request */
  static const char *const rerankers[] = {"text-ranking", NULL};
  w->how = accel_rerank_params_default();
  w->member = w->form == TEI ? "texts" : "documents";
  w->query = field_text(f, "query", NULL);
  if (!w->query) field_wrong(f, "query", "must be a text");
  read_documents(f, w);
  w->how.instruction = field_text(f, "instruction", NULL);
  w->how.function = field_flag(f, "raw_scores", false) ? "none" : "sigmoid";
  if (w->form == TEI) {
    w->cutting = fields_cutting(f);
    w->return_text = field_flag(f, "return_text", false);
  } else {
    w->cutting = (serve_cutting){.truncate = true}; /* as Jina and Cohere do */
    read_rank_fields(f);
    w->how.top_k = (uint32_t)field_integer(f, "top_n", 1, SERVE_MAX_TEXTS, 0);
    w->return_text = field_flag(f, "return_documents", w->form == JINA);
  }
  w->model = fields_model(f, rerankers);
}

/* ---- the answer ---- */

static cJSON *answer_of(const wish *w, const accel_ranking *found) {
  char id[SERVE_ID];
  cJSON *answer = w->form == TEI ? cJSON_CreateArray() : cJSON_CreateObject();
  cJSON *list = w->form == TEI ? answer : cJSON_AddArrayToObject(answer, "results");
  for (uint32_t i = 0; list && i < found->n; ++i) {
    const accel_ranked *r = &found->item[i];
    const char *text = w->return_text ? w->texts[r->document] : NULL;
    cJSON *item = cJSON_CreateObject();
    cJSON_AddNumberToObject(item, "index", r->document);
    add_exact(item, w->form == TEI ? "score" : "relevance_score", r->score);
    if (text && w->form == TEI) cJSON_AddStringToObject(item, "text", text);
    if (text && w->form != TEI)
      cJSON_AddStringToObject(cJSON_AddObjectToObject(item, "document"), "text", text);
    cJSON_AddItemToArray(list, item);
  }
  if (w->form == TEI) return answer;
  cJSON_AddStringToObject(answer, "id", reply_id("rerank-", id));
  cJSON *version = cJSON_AddObjectToObject(cJSON_AddObjectToObject(answer, "meta"), "api_version");
  cJSON_AddStringToObject(version, "version", w->form == COHERE_2 ? "2" : "1");
  if (w->form == COHERE_2) return answer;
  cJSON *usage = cJSON_AddObjectToObject(answer, "usage");
  cJSON_AddStringToObject(answer, "model", w->model->name);
  cJSON_AddNumberToObject(usage, "total_tokens", (double)found->tokens);
  cJSON_AddNumberToObject(usage, "prompt_tokens", (double)found->tokens);
  return answer;
}

static void answer(serve_fields *f, const wish *w) {
  accel_rerank_params how = w->how;
  accel_request what = accel_request_default(ACCEL_REQUEST_RERANK);
  accel_ranking *found = NULL;
  accel_ticket *ticket = NULL;
  what.query = w->query;
  what.texts = w->texts;
  what.n = w->n;
  what.rerank = &how;
  serve_use_adapter(&how, w->model);
  if (!serve_queued(f->request, w->model, &what, &ticket)) return;
  const accel_status status = accel_wait_ranking(&ticket, -1, &found);
  if (status != ACCEL_OK) {
    serve_fail_with(f->request, status, w->member);
  } else if (cutting_allowed(f, &w->cutting, found->truncated, w->member, w->model)) {
    const serve_work work = {w->model, found->tokens, count_characters(w->texts, w->n)};
    work_count(f->request, &work);
    serve_answer_json(f->request, 200, answer_of(w, found));
  }
  accel_ranking_free(&found);
}

static void rank(serve_request *request, rank_form form) {
  serve_fields f;
  wish w = {.form = form};
  fields_of_json(&f, request);
  read_wish(&f, &w);
  if (fields_end(&f)) answer(&f, &w);
  fields_free(&f);
}

void route_rerank(serve_request *request) {
  const cJSON *body = serve_json(request);
  if (body) rank(request, cJSON_HasObjectItem(body, "texts") ? TEI : JINA);
}

void route_rerank_v2(serve_request *request) { rank(request, COHERE_2); }
