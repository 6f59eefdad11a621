/* openai_answer.c - the parts that answers of several routes have: heads, usage, log probabilities,
 * the ends of streams. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "serve/openai.h"

void openai_head_make(openai_head *head, const char *prefix, const char *object,
                      const char *model) {
  reply_id(prefix, head->id);
  head->object = object;
  head->model = model;
  head->created = (double)time(NULL);
}

cJSON *openai_head_json(const openai_head *head) {
  cJSON *json = cJSON_CreateObject();
  cJSON_AddStringToObject(json, "id", head->id);
  cJSON_AddStringToObject(json, "object", head->object);
  cJSON_AddNumberToObject(json, "created", head->created);
  cJSON_AddStringToObject(json, "model", head->model);
  return json;
}

const char *openai_finish_reason(const char *finish) {
  return !strcmp(finish, "length") || !strcmp(finish, "time") ? "length" : "stop";
}

cJSON *openai_usage_json(uint64_t prompt_tokens, uint64_t completion_tokens) {
  cJSON *json = cJSON_CreateObject();
  cJSON_AddNumberToObject(json, "prompt_tokens", (double)prompt_tokens);
  cJSON_AddNumberToObject(json, "completion_tokens", (double)completion_tokens);
  cJSON_AddNumberToObject(json, "total_tokens", (double)(prompt_tokens + completion_tokens));
  return json;
}

/* Decoding may drop the first space of a text, so the token is decoded behind itself. */
char *openai_token_text(const serve_model *model, int32_t id) {
  accel_tokenizer *tokenizer = accel_tokenizer_of(model->endpoint);
  const int32_t ids[2] = {id, id};
  char *one = NULL, *two = NULL, *text = NULL;
  if (!tokenizer) return strdup("");
  if (accel_detokenize(tokenizer, ids, 1, 0, &one) == ACCEL_OK &&
      accel_detokenize(tokenizer, ids, 2, 0, &two) == ACCEL_OK) {
    const size_t n = strlen(one);
    text = strdup(!strncmp(two, one, n) ? two + n : one);
  }
  accel_string_free(&one);
  accel_string_free(&two);
  return text;
}

double openai_finite(float logprob) { return isfinite(logprob) ? (double)logprob : -9999.0; }

/* {"token", "logprob", "bytes"}; null bytes: the token is part of a character. */
static cJSON *token_json(const serve_model *model, int32_t id, float logprob) {
  char *text = openai_token_text(model, id);
  cJSON *json = cJSON_CreateObject();
  cJSON_AddStringToObject(json, "token", text ? text : "");
  cJSON_AddNumberToObject(json, "logprob", openai_finite(logprob));
  if (!text || strstr(text, "\xEF\xBF\xBD")) {
    cJSON_AddNullToObject(json, "bytes");
  } else {
    cJSON *bytes = cJSON_AddArrayToObject(json, "bytes");
    for (const unsigned char *c = (const unsigned char *)text; *c; c++) {
      const bool nul = *c == 0xC0; /* C0 80 is U+0000 */
      cJSON_AddItemToArray(bytes, cJSON_CreateNumber(nul ? 0 : *c));
      c += nul;
    }
  }
  free(text);
  return json;
}

cJSON *openai_logprob_json(const serve_model *model, int32_t id, float logprob,
                           const accel_token_logprob *alternative, uint32_t n) {
  cJSON *json = token_json(model, id, logprob),
        *list = cJSON_AddArrayToObject(json, "top_logprobs");
  for (uint32_t i = 0; i < n && alternative[i].id >= 0; i++)
    cJSON_AddItemToArray(list, token_json(model, alternative[i].id, alternative[i].logprob));
  return json;
}

void openai_finish(serve_request *request, const openai_settings *settings, cJSON *json) {
  static const char done[] = "data: [DONE]\n\n";
  if (!settings->stream) {
    serve_answer_json(request, 200, json);
    return;
  }
  if (settings->usage)
    serve_write_event(request, json);
  else
    cJSON_Delete(json);
  serve_write(request, done, sizeof done - 1);
  serve_end(request);
}
