/* api_chat.c - conversations: argument checks and the lock of each, then generate/. */
#include "generate/chat_session.h"

#include <string.h>

#include "api/api_check.h"

accel_chat_params accel_chat_params_default(void) {
  return (accel_chat_params){.size = sizeof(accel_chat_params)};
}

accel_status accel_chat_open(accel_endpoint *endpoint, const accel_chat_params *params,
                             accel_chat **out) {
  API_CALL(endpoint, out);
  API_PARAMS(accel_chat_params, mine, params);
  return accel__chat_open(endpoint, &mine, out);
}

void accel_chat_close(accel_chat **chat) {
  if (!chat || !*chat) return;
  accel__chat_close(*chat);
  *chat = NULL;
}

accel_status accel_chat_send(accel_chat *chat, const char *text,
                             const accel_generate_params *params, accel_generations **out) {
  API_CALL(chat, out);
  API_NEED(text);
  API_GENERATE_PARAMS(mine, params);
  API_LOCKED(chat, accel__chat_send(chat, text, &mine, out));
}

accel_status accel_chat_generate(accel_chat *chat, const accel_generate_params *params,
                                 accel_generations **out) {
  API_CALL(chat, out);
  API_GENERATE_PARAMS(mine, params);
  API_LOCKED(chat, accel__chat_generate(chat, &mine, out));
}

accel_status accel_chat_messages(accel_chat *chat, char **json) {
  API_CALL(chat, json);
  API_LOCKED(chat, accel__chat_messages(chat, json));
}

accel_status accel_chat_set_messages(accel_chat *chat, const char *json) {
  API_BEGIN();
  API_NEED(chat);
  API_LOCKED(chat, accel__chat_set_messages(chat, json));
}

uint32_t accel_chat_length(const accel_chat *chat) { return chat ? chat->session->tokens.n : 0; }
uint32_t accel_chat_reused(const accel_chat *chat) { return chat ? chat->reused : 0; }
