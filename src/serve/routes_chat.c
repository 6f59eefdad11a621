/* routes_chat.c - POST /v1/chat/completions. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "serve/openai.h"
#include "serve/openai_tools.h"

/* One choice on its way. */
typedef struct chat_choice {
  struct chat *chat;
  uint32_t index;
  openai_calls calls;
  cJSON *logprobs; /* of tokens that wait for the next piece of text */
  cJSON *delta;    /* what the next chunk says; NULL: nothing yet */
  bool gone;
} chat_choice;

typedef struct chat {
  openai_head head;
  openai_settings settings;
  openai_messages messages;
  openai_tools tools;
  openai_job job;
  chat_choice *choice; /* [n] */
} chat;

/* ---- chunks ---- */

static bool write_chunk(chat *c, uint32_t index, cJSON *delta, cJSON *logprobs,
                        const char *finish) {
  cJSON *json = openai_head_json(&c->head), *choices = cJSON_AddArrayToObject(json, "choices"),
        *choice = cJSON_CreateObject();
  cJSON_AddItemToArray(choices, choice);
  cJSON_AddNumberToObject(choice, "index", index);
  cJSON_AddItemToObject(choice, "delta", delta ? delta : cJSON_CreateObject());
  if (logprobs) {
    cJSON *object = cJSON_AddObjectToObject(choice, "logprobs");
    cJSON_AddItemToObject(object, "content", logprobs);
    cJSON_AddNullToObject(object, "refusal");
  } else {
    cJSON_AddNullToObject(choice, "logprobs");
  }
  if (finish)
    cJSON_AddStringToObject(choice, "finish_reason", finish);
  else
    cJSON_AddNullToObject(choice, "finish_reason");
  if (c->settings.usage) cJSON_AddNullToObject(json, "usage");
  return serve_write_event(c->job.request, json);
}

static bool begin(openai_job *job) {
  chat *c = job->user;
  if (!serve_begin(job->request, "text/event-stream")) return false;
  for (uint32_t i = 0; i < c->settings.n; i++) {
    cJSON *delta = cJSON_CreateObject();
    cJSON_AddStringToObject(delta, "role", "assistant");
    cJSON_AddStringToObject(delta, "content", "");
    if (!write_chunk(c, i, delta, NULL, NULL)) return false;
  }
  return true;
}

/* The chunk that was begun, with the log probabilities that wait. */
static void flush(chat_choice *choice) {
  if (!choice->delta) return;
  choice->gone |= !write_chunk(choice->chat, choice->index, choice->delta, choice->logprobs, NULL);
  choice->delta = NULL;
  choice->logprobs = NULL;
}

static void on_text(void *user, const char *text) {
  chat_choice *choice = user;
  flush(choice);
  choice->delta = cJSON_CreateObject();
  cJSON_AddStringToObject(choice->delta, "content", text);
}

static void on_call(void *user, uint32_t call, const char *id, const char *name,
                    const char *arguments) {
  chat_choice *choice = user;
  flush(choice);
  choice->delta = cJSON_CreateObject();
  cJSON *item = cJSON_CreateObject();
  cJSON_AddItemToArray(cJSON_AddArrayToObject(choice->delta, "tool_calls"), item);
  cJSON_AddNumberToObject(item, "index", call);
  if (id) cJSON_AddStringToObject(item, "id", id);
  if (id) cJSON_AddStringToObject(item, "type", "function");
  cJSON *function = cJSON_AddObjectToObject(item, "function");
  if (name) cJSON_AddStringToObject(function, "name", name);
  cJSON_AddStringToObject(function, "arguments", arguments);
}

static const char *finish_reason(const chat *c, const openai_calls *calls, const char *finish) {
  const char *reason = openai_finish_reason(finish);
  const bool called = calls->n && !strcmp(reason, "stop") && !c->tools.named;
  return called ? "tool_calls" : reason;
}

static bool take(openai_job *job, const openai_event *event) {
  chat *c = job->user;
  chat_choice *choice = &c->choice[event->choice];
  if (c->settings.logprobs >= 0 && !(event->finish && !strcmp(event->finish, "eos"))) {
    if (!choice->logprobs) choice->logprobs = cJSON_CreateArray();
    cJSON_AddItemToArray(choice->logprobs,
                         openai_logprob_json(job->model, event->id, event->logprob,
                                             event->alternative, event->alternatives));
  }
  openai_calls_feed(&choice->calls, event->text);
  if (event->finish) openai_calls_end(&choice->calls);
  flush(choice);
  if (event->finish) {
    choice->gone |= !write_chunk(c, event->choice, NULL, choice->logprobs,
                                 finish_reason(c, &choice->calls, event->finish));
    choice->logprobs = NULL;
  }
  return !choice->gone && !serve_gone(job->request);
}

/* ---- whole answers ---- */

typedef struct whole_message {
  openai_text content;
  cJSON *calls;
  openai_text arguments; /* of the last call */
} whole_message;

static void end_call(whole_message *m) {
  cJSON *last = m->calls ? cJSON_GetArrayItem(m->calls, cJSON_GetArraySize(m->calls) - 1) : NULL;
  cJSON *function = cJSON_GetObjectItemCaseSensitive(last, "function");
  if (function && !cJSON_HasObjectItem(function, "arguments"))
    cJSON_AddStringToObject(function, "arguments", m->arguments.data ? m->arguments.data : "");
  openai_text_free(&m->arguments);
}

static void whole_text(void *user, const char *text) {
  openai_add_text(&((whole_message *)user)->content, text);
}

static void whole_call(void *user, uint32_t call, const char *id, const char *name,
                       const char *arguments) {
  whole_message *m = user;
  (void)call;
  if (name) {
    end_call(m);
    if (!m->calls) m->calls = cJSON_CreateArray();
    cJSON *item = cJSON_CreateObject();
    cJSON_AddStringToObject(item, "id", id);
    cJSON_AddStringToObject(item, "type", "function");
    cJSON_AddStringToObject(cJSON_AddObjectToObject(item, "function"), "name", name);
    cJSON_AddItemToArray(m->calls, item);
  }
  openai_add_text(&m->arguments, arguments);
}

static cJSON *logprobs_of(const chat *c, const accel_generation *g) {
  cJSON *json = cJSON_CreateObject(), *content = cJSON_AddArrayToObject(json, "content");
  const uint32_t n = g->n - (g->n && !strcmp(g->finish, "eos"));
  for (uint32_t i = 0; i < n && g->logprob; i++)
    cJSON_AddItemToArray(
        content,
        openai_logprob_json(c->job.model, g->ids[i], g->logprob[i],
                            g->alternative ? g->alternative + (size_t)i * g->alternatives : NULL,
                            g->alternative ? g->alternatives : 0));
  cJSON_AddNullToObject(json, "refusal");
  return json;
}

static cJSON *whole_choice(chat *c, const accel_generation *g) {
  chat_choice *own = &c->choice[g->sequence];
  whole_message m = {0};
  own->calls.text = whole_text;
  own->calls.call = whole_call;
  own->calls.user = &m;
  openai_calls_feed(&own->calls, g->text);
  openai_calls_end(&own->calls);
  end_call(&m);
  cJSON *choice = cJSON_CreateObject();
  cJSON_AddNumberToObject(choice, "index", g->sequence);
  cJSON *message = cJSON_AddObjectToObject(choice, "message");
  cJSON_AddStringToObject(message, "role", "assistant");
  if (m.content.n || !m.calls)
    cJSON_AddStringToObject(message, "content", m.content.data ? m.content.data : "");
  else
    cJSON_AddNullToObject(message, "content");
  cJSON_AddNullToObject(message, "refusal");
  if (m.calls) cJSON_AddItemToObject(message, "tool_calls", m.calls);
  if (c->settings.logprobs >= 0)
    cJSON_AddItemToObject(choice, "logprobs", logprobs_of(c, g));
  else
    cJSON_AddNullToObject(choice, "logprobs");
  cJSON_AddStringToObject(choice, "finish_reason", finish_reason(c, &own->calls, g->finish));
  openai_text_free(&m.content);
  return choice;
}

static void finish(chat *c) {
  const accel_generations *g = c->job.prompt[0].result;
  cJSON *json = openai_head_json(&c->head), *choices = cJSON_AddArrayToObject(json, "choices");
  for (uint32_t i = 0; i < g->n && !c->settings.stream; i++)
    cJSON_AddItemToArray(choices, whole_choice(c, &g->item[i]));
  cJSON_AddItemToObject(json, "usage", openai_usage_json(g->prompt_tokens, g->new_tokens));
  openai_finish(c->job.request, &c->settings, json);
}

/* ---- prompts ---- */

/* Writes the conversation down as the model's template has it, and without pictures into tokens. */
static bool render(chat *c, const openai_fields *f) {
  accel_template *template = NULL;
  accel_template_params how = accel_template_params_default();
  char *documents = f->documents ? cJSON_PrintUnformatted(f->documents) : NULL,
       *variables = f->template_variables ? cJSON_PrintUnformatted(f->template_variables) : NULL,
       *text = NULL;
  how.tools = c->tools.json;
  how.documents = documents;
  how.variables = variables;
  how.continue_final_message = f->continue_final_message > 0;
  how.add_generation_prompt = f->add_generation_prompt != 0;
  accel_status status = accel_template_of(c->job.model->endpoint, &template);
  if (status == ACCEL_OK) status = accel_template_render(template, c->messages.json, &how, &text);
  /* templates as DeepSeek's put arguments of calls between texts */
  if (status != ACCEL_OK && template && c->messages.json_of_texts)
    status = accel_template_render(template, c->messages.json_of_texts, &how, &text);
  bool ok = status == ACCEL_OK;
  if (!ok) serve_fail_with(c->job.request, status, "messages");
  if (ok)
    ok = c->messages.images ? openai_add_pictured(&c->job, text, &c->messages)
                            : openai_add_prompt(&c->job, text, 0);
  accel_string_free(&text);
  cJSON_free(documents);
  cJSON_free(variables);
  return ok;
}

static bool make_choices(chat *c) {
  c->choice = calloc(c->settings.n, sizeof *c->choice);
  bool ok = c->choice != NULL;
  for (uint32_t i = 0; ok && i < c->settings.n; i++) {
    chat_choice *choice = &c->choice[i];
    *choice = (chat_choice){.chat = c, .index = i};
    ok = openai_calls_begin(&choice->calls, &c->tools);
    choice->calls.text = on_text;
    choice->calls.call = on_call;
    choice->calls.user = choice;
  }
  if (!ok) serve_fail(c->job.request, 500, NULL, NULL, "out of memory");
  return ok;
}

static bool prepare(serve_request *request, chat *c) {
  static const char *const tasks[] = {"text-generation", "image-text-to-text", NULL};
  openai_fields fields;
  const cJSON *body = serve_json(request);
  if (!body || !openai_read_fields(request, body, OPENAI_CHAT, &fields)) return false;
  if (!openai_settings_make(request, &fields, &c->settings)) return false;
  if (!openai_messages_read(request, fields.messages, &c->messages)) return false;
  c->job.model = serve_take_model(request, openai_string(fields.model), tasks);
  if (!c->job.model) return false;
  openai_head_make(&c->head, "chatcmpl-",
                   c->settings.stream ? "chat.completion.chunk" : "chat.completion",
                   c->job.model->name);
  if (!openai_tools_read(request, c->job.model, &fields, &c->settings, &c->tools)) return false;
  if (!render(c, &fields)) return false;
  openai_limit_tokens(&c->settings, c->job.model);
  return make_choices(c);
}

void route_chat_completions(serve_request *request) {
  chat *c = calloc(1, sizeof *c);
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
  for (uint32_t i = 0; c->choice && i < c->settings.n; i++) {
    openai_calls_free(&c->choice[i].calls);
    cJSON_Delete(c->choice[i].logprobs);
    cJSON_Delete(c->choice[i].delta);
  }
  free(c->choice);
  openai_job_free(&c->job);
  openai_tools_free(&c->tools);
  openai_messages_free(&c->messages);
  openai_settings_free(&c->settings);
  free(c);
}
