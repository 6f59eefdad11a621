/* chat_session.c - conversations: messages, what the template makes of them, and the session that
 * follows. */
#include "generate/chat_session.h"

#include <stdlib.h>
#include <string.h>

#include "processing/processor.h"
#include "processing/result.h"

/* ---- messages ---- */

static void cut_messages(accel_chat *c, size_t n) {
  c->messages.n = n;
  if (c->messages.data) c->messages.data[n] = 0;
}

static accel_status add_message(accel_chat *c, const char *role, const char *content) {
  size_t before = c->messages.n;
  accel__buffer_printf(&c->messages, "%s{\"role\": \"%s\", \"content\": ", before ? ", " : "",
                       role);
  accel__buffer_json_string(&c->messages, content, strlen(content));
  accel__buffer_text(&c->messages, "}");
  if (!c->messages.failed) return ACCEL_OK;
  c->messages.failed = false;
  cut_messages(c, before);
  return accel__no_memory(strlen(content));
}

/* Appends the objects of a JSON array. */
static accel_status add_messages(accel_chat *c, const char *json) {
  accel__json_file file = {0};
  size_t before = c->messages.n;
  accel_status status = accel__json_parse(json, strlen(json), "messages", &file);
  if (status == ACCEL_ERROR_FORMAT) status = accel__wrap(ACCEL_ERROR_ARGUMENT, "chat");
  if (status == ACCEL_OK && !cJSON_IsArray(file.root))
    status = accel__fail(ACCEL_ERROR_ARGUMENT, "messages: expected an array of objects");
  uint32_t n = 0;
  ACCEL_JSON_EACH(message, status == ACCEL_OK ? file.root : NULL) {
    const accel__json *role = accel__json_get(message, "role");
    if (status == ACCEL_OK && !(role && cJSON_IsString(role)))
      status =
          accel__fail(ACCEL_ERROR_ARGUMENT, "messages: message %u is no object with a role", n);
    n++;
  }
  if (status == ACCEL_OK && n) { /* the array's own text, without its brackets */
    const char *first = strchr(json, '[') + 1, *last = strrchr(json, ']');
    if (before) accel__buffer_text(&c->messages, ", ");
    accel__buffer_bytes(&c->messages, first, (size_t)(last - first));
    if (c->messages.failed) {
      c->messages.failed = false;
      cut_messages(c, before);
      status = accel__no_memory(strlen(json));
    }
  }
  accel__json_free(&file);
  return status;
}

accel_status accel__chat_messages(const accel_chat *c, char **json) {
  accel__buffer b = {0};
  accel__buffer_printf(&b, "[%s]", c->messages.n ? c->messages.data : "");
  accel_status status = accel__buffer_status(&b);
  if (status == ACCEL_OK)
    *json = b.data;
  else
    accel__buffer_free(&b);
  return status;
}

accel_status accel__chat_set_messages(accel_chat *c, const char *json) {
  accel__buffer old = c->messages;
  c->messages = (accel__buffer){0};
  accel_status status = json ? add_messages(c, json) : ACCEL_OK;
  if (status == ACCEL_OK) {
    accel__buffer_free(&old);
    return ACCEL_OK;
  }
  accel__buffer_free(&c->messages);
  c->messages = old;
  return status;
}

/* ---- life ---- */

static accel_status read_options(accel_chat *c, const accel_chat_params *params) {
  const char *const text[3] = {params->tools, params->documents, params->variables};
  static const char *const name[3] = {"tools", "documents", "variables"};
  for (int i = 0; i < 3; i++) {
    accel_status status =
        text[i] ? accel__json_parse(text[i], strlen(text[i]), name[i], &c->option[i]) : ACCEL_OK;
    if (status == ACCEL_ERROR_FORMAT) status = accel__wrap(ACCEL_ERROR_ARGUMENT, "chat");
    ACCEL_TRY(status);
  }
  if (params->template_name && !(c->name = strdup(params->template_name)))
    return accel__no_memory(0);
  return ACCEL_OK;
}

static accel_status load_template(const accel_endpoint *ep, accel_chat *c) {
  /* random weights have no directory, and no tokenizer either */
  ACCEL_TRY(accel__processor_check(ep, ep->model->task));
  accel_status status = accel__chat_template_load(ep->directory, &c->template);
  if (status != ACCEL_ERROR_NOT_FOUND) return status;
  return accel__remedy(
      status,
      "a model without a chat template goes on with texts (accel generate, accel_generate)");
}

accel_status accel__chat_open(accel_endpoint *ep, const accel_chat_params *params,
                              accel_chat **out) {
  accel_chat *c = calloc(1, sizeof *c);
  if (!c) return accel__no_memory(sizeof *c);
  pthread_mutex_init(&c->lock, NULL);
  accel_status status = ACCEL_OK;
  ACCEL_GOTO(accel__session_make(ep, &c->session));
  ACCEL_GOTO(load_template(ep, c));
  ACCEL_GOTO(read_options(c, params));
  if (params->system) ACCEL_GOTO(add_message(c, "system", params->system));
  if (params->messages) ACCEL_GOTO(add_messages(c, params->messages));
  *out = c;
  return ACCEL_OK;
done:
  accel__chat_close(c);
  return status;
}

void accel__chat_close(accel_chat *c) {
  if (c->session) accel__session_end(c->session);
  accel__chat_template_free(&c->template);
  for (int i = 0; i < 3; i++) accel__json_free(&c->option[i]);
  accel__buffer_free(&c->messages);
  free(c->name);
  pthread_mutex_destroy(&c->lock);
  free(c);
}

/* ---- answers ---- */

static const accel__json *option(const accel_chat *c, int i) {
  const accel__json *root = c->option[i].root;
  return root && !cJSON_IsNull(root) ? root : NULL;
}

/* All messages and the header of the answer, as text. */
static accel_status render(const accel_chat *c, accel__buffer *text) {
  accel__json_file file = {0};
  char *json = NULL;
  ACCEL_TRY(accel__chat_messages(c, &json));
  accel_status status = accel__json_parse(json, strlen(json), "messages", &file);
  accel__chat_request request = {.messages = file.root,
                                 .tools = option(c, 0),
                                 .documents = option(c, 1),
                                 .variables = option(c, 2),
                                 .name = c->name,
                                 .add_generation_prompt = true};
  if (status == ACCEL_OK) status = accel__chat_template_render(c->template, &request, text, NULL);
  accel__json_free(&file);
  free(json);
  return status;
}

/* The conversation as tokens; the template wrote the special ones. */
static accel_status tokenize(const accel_chat *c, accel__encoding *enc) {
  accel_endpoint *ep = c->session->shared->ep;
  accel__buffer text = {0};
  accel__encode_options how = {.add_special_tokens = false};
  accel_status status = render(c, &text);
  const char *start = text.data ? text.data : "";
  if (status == ACCEL_OK) status = accel__encode_texts(ep, &start, NULL, 1, &how, enc);
  accel__buffer_free(&text);
  if (status == ACCEL_OK && !enc->n)
    status = accel__fail(ACCEL_ERROR_ARGUMENT,
                         "%s: the chat template makes no tokens of these messages", ep->name);
  return status;
}

/* Fewer new tokens where the context leaves no room for those asked for. */
static accel_status fit(const accel_chat *c, size_t n, accel_generate_params *params) {
  const accel_endpoint *ep = c->session->shared->ep;
  int64_t context = accel__context_length(ep), left = context - (int64_t)n;
  if (context <= 0) return ACCEL_OK;
  if (left < 1)
    return accel__remedy(
        accel__fail(ACCEL_ERROR_LIMIT,
                    "%s: the conversation has %zu tokens, the model's context is %lld", ep->name, n,
                    (long long)context),
        "leave out its oldest messages, say it shorter, or begin anew");
  if (params->max_new_tokens > left) params->max_new_tokens = (int32_t)left;
  return ACCEL_OK;
}

/* Brings the session to these tokens. */
static accel_status follow(accel_chat *c, const int32_t *ids, uint32_t n) {
  accel_session *s = c->session;
  uint32_t same = 0;
  while (same < n && same < s->tokens.n && s->tokens.ids[same] == ids[same]) same++;
  ACCEL_TRY(accel__session_truncate(s, same));
  c->reused = s->tokens.past_len;
  return accel__session_feed(s, ids + same, n - same);
}

/* The answer becomes a message, unless it was cancelled before it said anything: then *silent. */
static accel_status take_answer(accel_chat *c, accel_generate_params *params,
                                accel_generations **out, bool *silent) {
  accel__encoding enc = {0};
  accel_status status = tokenize(c, &enc);
  if (status == ACCEL_OK) status = fit(c, enc.n, params);
  if (status == ACCEL_OK) status = follow(c, enc.ids, (uint32_t)enc.n);
  if (status == ACCEL_OK) status = accel__session_generate(c->session, params, out);
  accel__encoding_free(&enc);
  if (status != ACCEL_OK) return status;
  const accel_generation *answer = &(*out)->item[0];
  *silent = !*answer->text && !strcmp(answer->finish, "cancelled");
  if (!*silent) status = add_message(c, "assistant", answer->text);
  if (status != ACCEL_OK) accel__task_free(*out), *out = NULL;
  return status;
}

accel_status accel__chat_generate(accel_chat *c, const accel_generate_params *params,
                                  accel_generations **out) {
  accel_generate_params mine = *params;
  bool silent = false;
  return take_answer(c, &mine, out, &silent);
}

accel_status accel__chat_send(accel_chat *c, const char *text, const accel_generate_params *params,
                              accel_generations **out) {
  accel_generate_params mine = *params;
  size_t before = c->messages.n;
  bool silent = false;
  ACCEL_TRY(add_message(c, "user", text));
  accel_status status = take_answer(c, &mine, out, &silent);
  if (status != ACCEL_OK || silent) cut_messages(c, before);
  return status;
}
