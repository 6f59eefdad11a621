/* routes_completions.c - POST /v1/completions. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "serve/openai.h"

typedef struct completion {
  openai_head head;
  openai_settings settings;
  openai_job job;
  bool echo;
  const char *echoed[OPENAI_PROMPTS]; /* text of each prompt, when it is echoed */
  char *made[OPENAI_PROMPTS];         /* of those that were tokens */
  /* [prompts * n] of a stream: bytes told so far, and tokens that wait for the next piece of text */
  size_t *told;
  cJSON **waiting;
} completion;

/* ---- log probabilities ---- */

static cJSON *new_logprobs(void) {
  static const char *const names[] = {"tokens", "token_logprobs", "top_logprobs", "text_offset"};
  cJSON *json = cJSON_CreateObject();
  for (int i = 0; i < 4; i++) cJSON_AddArrayToObject(json, names[i]);
  return json;
}

/* *offset: where the token's text begins; moves behind it. */
static void add_logprob(const completion *c, cJSON *json, int32_t id, float logprob,
                        const accel_token_logprob *alternative, uint32_t n, size_t *offset) {
  char *text = openai_token_text(c->job.model, id);
  cJSON *top = cJSON_CreateObject();
  for (uint32_t i = 0; i < n && alternative[i].id >= 0; i++) {
    char *other = openai_token_text(c->job.model, alternative[i].id);
    if (other && !cJSON_HasObjectItem(top, other))
      cJSON_AddNumberToObject(top, other, openai_finite(alternative[i].logprob));
    free(other);
  }
  cJSON_AddItemToArray(cJSON_GetObjectItem(json, "tokens"), cJSON_CreateString(text ? text : ""));
  cJSON_AddItemToArray(cJSON_GetObjectItem(json, "token_logprobs"),
                       cJSON_CreateNumber(openai_finite(logprob)));
  cJSON_AddItemToArray(cJSON_GetObjectItem(json, "top_logprobs"), top);
  cJSON_AddItemToArray(cJSON_GetObjectItem(json, "text_offset"),
                       cJSON_CreateNumber((double)*offset));
  if (text) *offset += count_characters(&(const char *){text}, 1);
  free(text);
}

/* ---- answers ---- */

static cJSON *choice_json(uint32_t index, const char *text, cJSON *logprobs, const char *finish) {
  cJSON *choice = cJSON_CreateObject();
  cJSON_AddNumberToObject(choice, "index", index);
  cJSON_AddStringToObject(choice, "text", text);
  cJSON_AddItemToObject(choice, "logprobs", logprobs ? logprobs : cJSON_CreateNull());
  if (finish)
    cJSON_AddStringToObject(choice, "finish_reason", openai_finish_reason(finish));
  else
    cJSON_AddNullToObject(choice, "finish_reason");
  return choice;
}

static bool write_chunk(completion *c, cJSON *choice) {
  cJSON *json = openai_head_json(&c->head);
  cJSON_AddItemToArray(cJSON_AddArrayToObject(json, "choices"), choice);
  if (c->settings.usage) cJSON_AddNullToObject(json, "usage");
  return serve_write_event(c->job.request, json);
}

static bool begin(openai_job *job) {
  completion *c = job->user;
  if (!serve_begin(job->request, "text/event-stream")) return false;
  for (uint32_t i = 0; c->echo && i < job->n_prompts * c->settings.n; i++)
    write_chunk(c, choice_json(i, c->echoed[i / c->settings.n], NULL, NULL));
  return true;
}

static bool take(openai_job *job, const openai_event *event) {
  completion *c = job->user;
  const bool ends = event->finish && !strcmp(event->finish, "eos");
  cJSON **waiting = &c->waiting[event->choice];
  if (c->settings.logprobs >= 0 && !ends) {
    if (!*waiting) *waiting = new_logprobs();
    add_logprob(c, *waiting, event->id, event->logprob, event->alternative, event->alternatives,
                &c->told[event->choice]);
  }
  if (!*event->text && !event->finish) return !serve_gone(job->request);
  cJSON *logprobs = *waiting;
  *waiting = NULL;
  return write_chunk(c, choice_json(event->choice, event->text, logprobs, event->finish));
}

static cJSON *logprobs_of(const completion *c, const accel_generation *g) {
  cJSON *json = new_logprobs();
  size_t offset = 0;
  const uint32_t n = g->n - (g->n && !strcmp(g->finish, "eos"));
  for (uint32_t i = 0; i < n && g->logprob; i++)
    add_logprob(c, json, g->ids[i], g->logprob[i],
                g->alternative ? g->alternative + (size_t)i * g->alternatives : NULL,
                g->alternative ? g->alternatives : 0, &offset);
  return json;
}

static cJSON *whole_choice(const completion *c, uint32_t prompt, const accel_generation *g) {
  openai_text text = {0};
  if (c->echo) openai_add_text(&text, c->echoed[prompt]);
  openai_add_text(&text, g->text);
  cJSON *choice = choice_json(prompt * c->settings.n + g->sequence, text.data ? text.data : "",
                              c->settings.logprobs >= 0 ? logprobs_of(c, g) : NULL, g->finish);
  openai_text_free(&text);
  return choice;
}

static void finish(completion *c) {
  uint64_t read = 0, made = 0;
  cJSON *json = openai_head_json(&c->head), *choices = cJSON_AddArrayToObject(json, "choices");
  for (uint32_t i = 0; i < c->job.n_prompts; i++) {
    const accel_generations *g = c->job.prompt[i].result;
    read += g->prompt_tokens;
    made += g->new_tokens;
    for (uint32_t k = 0; k < g->n && !c->settings.stream; k++)
      cJSON_AddItemToArray(choices, whole_choice(c, i, &g->item[k]));
  }
  cJSON_AddItemToObject(json, "usage", openai_usage_json(read, made));
  openai_finish(c->job.request, &c->settings, json);
}

/* ---- prompts ---- */

static bool add_prompt(completion *c, const cJSON *item) {
  const uint32_t at = c->job.n_prompts;
  bool ok;
  if (cJSON_IsString(item)) {
    ok = openai_add_prompt(&c->job, item->valuestring, 1);
  } else if (cJSON_IsArray(item)) {
    ok = openai_add_ids(&c->job, item);
  } else {
    serve_fail(c->job.request, 400, "prompt", NULL,
               "prompt: expected a string, or an array of strings or of tokens");
    return false;
  }
  if (!ok || !c->echo) return ok;
  c->echoed[at] = openai_string(item);
  if (!c->echoed[at]) {
    accel_tokenizer *tokenizer = accel_tokenizer_of(c->job.model->endpoint);
    if (tokenizer)
      accel_detokenize(tokenizer, c->job.prompt[at].ids, c->job.prompt[at].n, 0, &c->made[at]);
    c->echoed[at] = c->made[at] ? c->made[at] : "";
  }
  return true;
}

static bool add_prompts(completion *c, const cJSON *prompt) {
  const cJSON *item;
  if (!cJSON_IsArray(prompt) || cJSON_IsNumber(prompt->child)) return add_prompt(c, prompt);
  cJSON_ArrayForEach(item, prompt) if (!add_prompt(c, item)) return false;
  if (c->job.n_prompts) return true;
  serve_fail(c->job.request, 400, "prompt", NULL, "prompt: an empty array");
  return false;
}

static bool prepare(serve_request *request, completion *c) {
  static const char *const tasks[] = {"text-generation", NULL};
  openai_fields fields;
  const cJSON *body = serve_json(request);
  if (!body || !openai_read_fields(request, body, OPENAI_COMPLETIONS, &fields)) return false;
  if (!openai_settings_make(request, &fields, &c->settings)) return false;
  c->echo = fields.echo > 0;
  if (c->echo && c->settings.logprobs >= 0) {
    serve_fail(request, 400, "echo", NULL,
               "echo with logprobs: tokens of prompts have no log probabilities here");
    return false;
  }
  c->job.model = serve_take_model(request, openai_string(fields.model), tasks);
  if (!c->job.model) return false;
  openai_head_make(&c->head, "cmpl-", "text_completion", c->job.model->name);
  if (!add_prompts(c, fields.prompt)) return false;
  /* as OpenAI's older models: 16 tokens, where nothing was asked for */
  if (c->settings.params.max_new_tokens < 0) c->settings.params.max_new_tokens = 16;
  const size_t choices = (size_t)c->job.n_prompts * c->settings.n;
  c->told = calloc(choices, sizeof *c->told);
  c->waiting = calloc(choices, sizeof *c->waiting);
  if (c->told && c->waiting) return true;
  serve_fail(request, 500, NULL, NULL, "out of memory");
  return false;
}

void route_completions(serve_request *request) {
  completion *c = calloc(1, sizeof *c);
  if (!c) {
    serve_fail(request, 500, NULL, NULL, "out of memory");
    return;
  }
  c->job.request = request;
  c->job.settings = &c->settings;
  c->job.begin = begin;
  c->job.take = take;
  c->job.user = c;
  if (prepare(request, c) && openai_run(&c->job)) finish(c);
  for (size_t i = 0; c->waiting && i < (size_t)c->job.n_prompts * c->settings.n; i++)
    cJSON_Delete(c->waiting[i]);
  for (uint32_t i = 0; i < OPENAI_PROMPTS; i++) accel_string_free(&c->made[i]);
  free(c->told);
  free(c->waiting);
  openai_job_free(&c->job);
  openai_settings_free(&c->settings);
  free(c);
}
