/* routes_tokens.c - texts to tokens and back: /tokenize in the forms of TEI (`inputs`), vLLM
 * (`prompt`) and llama-server (`content`), /detokenize, and TEI's /decode. */
#include <stdlib.h>
#include <string.h>

#include "serve/serve_reply.h"

/* The model's tokenizer; NULL: an error has been answered. */
static accel_tokenizer *take_tokenizer(serve_fields *f, const serve_model **model) {
  *model = fields_model(f, NULL);
  if (!*model) return NULL;
  accel_tokenizer *tokenizer = accel_tokenizer_of((*model)->endpoint);
  if (!tokenizer) field_wrong(f, "model", "%s has no tokenizer", (*model)->name);
  return tokenizer;
}

static accel_token_ids *cut(serve_fields *f, accel_tokenizer *tokenizer, const char *member,
                            const char *const *texts, uint32_t n, bool special) {
  accel_token_ids *found = NULL;
  const accel_status status = accel_tokenize(tokenizer, texts, n, special, &found);
  if (status != ACCEL_OK) serve_fail_with(f->request, status, member);
  return found;
}

/* Code points from..to of a text. */
static cJSON *part_of(const char *text, int64_t from, int64_t to) {
  const char *begin = text, *end;
  for (; *begin && from > 0; --from, --to)
    for (++begin; (*begin & 0xC0) == 0x80;) ++begin;
  for (end = begin; *end && to > 0; --to)
    for (++end; (*end & 0xC0) == 0x80;) ++end;
  char *copy = strndup(begin, (size_t)(end - begin));
  cJSON *item = copy ? cJSON_CreateString(copy) : NULL;
  free(copy);
  return item;
}

/* ---- /tokenize ---- */

static cJSON *tei_tokens(const accel_token_ids *found, uint32_t i, const char *text) {
  cJSON *list = cJSON_CreateArray();
  for (uint32_t k = 0; k < found->count[i]; ++k) {
    const int64_t start = found->start[i][k], end = found->end[i][k];
    const bool special = !start && !end;
    cJSON *item = cJSON_CreateObject();
    cJSON_AddNumberToObject(item, "id", found->ids[i][k]);
    cJSON_AddItemToObject(
        item, "text",
        end > start ? part_of(text, start, end) : cJSON_CreateString(found->tokens[i][k]));
    cJSON_AddBoolToObject(item, "special", special);
    cJSON_AddItemToObject(item, "start",
                          special ? cJSON_CreateNull() : cJSON_CreateNumber((double)start));
    cJSON_AddItemToObject(item, "stop",
                          special ? cJSON_CreateNull() : cJSON_CreateNumber((double)end));
    cJSON_AddItemToArray(list, item);
  }
  return list;
}

static void tokenize_inputs(serve_fields *f) {
  const serve_model *model;
  uint32_t n;
  bool single;
  const char *const *texts = field_texts(f, "inputs", &n, &single);
  const bool special = field_flag(f, "add_special_tokens", true);
  if (field_item(f, "prompt_name"))
    field_wrong(f, "prompt_name", "texts are cut as they are; put the prompt in front of them");
  accel_tokenizer *tokenizer = take_tokenizer(f, &model);
  accel_token_ids *found =
      fields_end(f) && tokenizer ? cut(f, tokenizer, "inputs", texts, n, special) : NULL;
  if (!found) return;
  cJSON *answer = cJSON_CreateArray();
  for (uint32_t i = 0; i < found->n; ++i)
    cJSON_AddItemToArray(answer, tei_tokens(found, i, texts[i]));
  serve_answer_json(f->request, 200, answer);
  accel_token_ids_free(&found);
}

static void add_tokens(cJSON *answer, const accel_token_ids *found) {
  cJSON *list = cJSON_AddArrayToObject(answer, "tokens");
  for (uint32_t k = 0; k < found->count[0]; ++k)
    cJSON_AddItemToArray(list, cJSON_CreateNumber(found->ids[0][k]));
}

static void tokenize_prompt(serve_fields *f) {
  const serve_model *model;
  const char *text = field_text(f, "prompt", NULL);
  const bool special = field_flag(f, "add_special_tokens", true),
             spelled = field_flag(f, "return_token_strs", false);
  if (!text) field_wrong(f, "prompt", "must be a text");
  accel_tokenizer *tokenizer = take_tokenizer(f, &model);
  accel_token_ids *found =
      fields_end(f) && tokenizer ? cut(f, tokenizer, "prompt", &text, 1, special) : NULL;
  if (!found) return;
  cJSON *answer = cJSON_CreateObject();
  cJSON_AddNumberToObject(answer, "count", found->count[0]);
  cJSON_AddNumberToObject(answer, "max_model_len",
                          (double)accel_processor_of(model->endpoint)->max_length);
  add_tokens(answer, found);
  if (spelled)
    cJSON_AddItemToObject(answer, "token_strs",
                          cJSON_CreateStringArray(found->tokens[0], (int)found->count[0]));
  serve_answer_json(f->request, 200, answer);
  accel_token_ids_free(&found);
}

/* [{"id", "piece"}, ...]: what each token says alone. */
static cJSON *pieces_of(accel_tokenizer *tokenizer, const accel_token_ids *found) {
  cJSON *list = cJSON_CreateArray();
  for (uint32_t k = 0; k < found->count[0]; ++k) {
    cJSON *item = cJSON_CreateObject();
    char *piece = NULL;
    accel_detokenize(tokenizer, &found->ids[0][k], 1, 0, &piece);
    cJSON_AddNumberToObject(item, "id", found->ids[0][k]);
    cJSON_AddStringToObject(item, "piece", piece ? piece : "");
    cJSON_AddItemToArray(list, item);
    accel_string_free(&piece);
  }
  return list;
}

static void tokenize_content(serve_fields *f) {
  const serve_model *model;
  const char *text = field_text(f, "content", NULL);
  const bool special = field_flag(f, "add_special", false),
             pieces = field_flag(f, "with_pieces", false);
  if (!text) field_wrong(f, "content", "must be a text");
  if (!field_flag(f, "parse_special", true))
    field_wrong(f, "parse_special", "special tokens in texts are always read as such");
  accel_tokenizer *tokenizer = take_tokenizer(f, &model);
  accel_token_ids *found =
      fields_end(f) && tokenizer ? cut(f, tokenizer, "content", &text, 1, special) : NULL;
  if (!found) return;
  cJSON *answer = cJSON_CreateObject();
  if (pieces)
    cJSON_AddItemToObject(answer, "tokens", pieces_of(tokenizer, found));
  else
    add_tokens(answer, found);
  serve_answer_json(f->request, 200, answer);
  accel_token_ids_free(&found);
}

void route_tokenize(serve_request *request) {
  serve_fields f;
  fields_of_json(&f, request);
  if (cJSON_HasObjectItem(f.object, "inputs"))
    tokenize_inputs(&f);
  else if (cJSON_HasObjectItem(f.object, "content"))
    tokenize_content(&f);
  else if (cJSON_HasObjectItem(f.object, "messages"))
    field_wrong(&f, "messages", "texts are cut into tokens; give `prompt`");
  else
    tokenize_prompt(&f);
  fields_free(&f);
}

/* ---- back ---- */

/* false: 400 has been answered. */
static bool read_ids(serve_fields *f, const char *name, const cJSON *list, int32_t **ids,
                     uint32_t *n) {
  const cJSON *item;
  *n = 0;
  if (!cJSON_IsArray(list)) field_wrong(f, name, "must be a list of token ids");
  *ids = fields_memory(f, ((size_t)cJSON_GetArraySize(list) + 1) * sizeof **ids);
  if (!*ids) return false;
  cJSON_ArrayForEach(item, list) {
    const double id = cJSON_IsNumber(item) ? item->valuedouble : -1;
    if (!(id >= 0 && id <= INT32_MAX) || id != (double)(int32_t)id) {
      field_wrong(f, name, "element %u is no token id", *n);
      return false;
    }
    (*ids)[(*n)++] = (int32_t)id;
  }
  return true;
}

/* The text of a list of ids; NULL: an error has been answered. */
static cJSON *text_of(serve_fields *f, accel_tokenizer *tokenizer, const char *name,
                      const cJSON *list, bool skip) {
  int32_t *ids;
  uint32_t n;
  char *text = NULL;
  if (!read_ids(f, name, list, &ids, &n)) return NULL;
  const accel_status status = accel_detokenize(tokenizer, ids, n, skip, &text);
  cJSON *answer = text ? cJSON_CreateString(text) : NULL;
  accel_string_free(&text);
  if (!answer) {
    f->failed = true;
    serve_fail_with(f->request, status == ACCEL_OK ? ACCEL_ERROR_OUT_OF_MEMORY : status, name);
  }
  return answer;
}

/* The text under both names: `prompt` as vLLM has it, `content` as llama-server has it. */
void route_detokenize(serve_request *request) {
  serve_fields f;
  const serve_model *model;
  fields_of_json(&f, request);
  const cJSON *list = field_item(&f, "tokens");
  accel_tokenizer *tokenizer = take_tokenizer(&f, &model);
  cJSON *text = fields_end(&f) && tokenizer ? text_of(&f, tokenizer, "tokens", list, false) : NULL;
  if (text) {
    cJSON *answer = cJSON_CreateObject();
    cJSON_AddStringToObject(answer, "prompt", text->valuestring);
    cJSON_AddItemToObject(answer, "content", text);
    serve_answer_json(request, 200, answer);
  }
  fields_free(&f);
}

void route_decode(serve_request *request) {
  serve_fields f;
  const serve_model *model;
  const cJSON *list;
  fields_of_json(&f, request);
  const cJSON *ids = field_item(&f, "ids");
  const bool skip = field_flag(&f, "skip_special_tokens", true),
             batch = cJSON_IsArray(cJSON_GetArrayItem(ids, 0));
  accel_tokenizer *tokenizer = take_tokenizer(&f, &model);
  cJSON *answer = fields_end(&f) && tokenizer ? cJSON_CreateArray() : NULL;
  if (answer && !batch) cJSON_AddItemToArray(answer, text_of(&f, tokenizer, "ids", ids, skip));
  if (answer && batch) {
    cJSON_ArrayForEach(list, ids) {
      if (!f.failed) cJSON_AddItemToArray(answer, text_of(&f, tokenizer, "ids", list, skip));
    }
  }
  if (answer && !f.failed)
    serve_answer_json(request, 200, answer);
  else
    cJSON_Delete(answer);
  fields_free(&f);
}
