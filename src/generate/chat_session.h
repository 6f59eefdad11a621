/* chat_session.h - a conversation with a model: the messages so far, the model's chat template that
 * writes them down, and a session that keeps what the model has read.
 *
 * Before each answer all messages are rendered and tokenized anew; the session goes back to the
 * first token that differs and reads only what follows.  So it does not matter what a template does
 * to older messages (Qwen3's leaves out their reasoning), or that a text need not come back as the
 * very tokens it was generated as. */
#ifndef ACCEL_GENERATE_CHAT_SESSION_H
#define ACCEL_GENERATE_CHAT_SESSION_H

#include "generate/generate_session.h"
#include "text/chat_template.h"

struct accel_chat {
  accel_session *session;
  accel__chat_template *template;
  accel__buffer messages;     /* JSON objects with commas between them; no brackets */
  accel__json_file option[3]; /* tools, documents, variables; root NULL where not given */
  char *name;                 /* of the template, or NULL */
  uint32_t reused;            /* tokens of the last prompt that the device held already */
  pthread_mutex_t lock;       /* one call at a time */
};

accel_status accel__chat_open(accel_endpoint *ep, const accel_chat_params *params,
                              accel_chat **out);
void accel__chat_close(accel_chat *c);
accel_status accel__chat_generate(accel_chat *c, const accel_generate_params *params,
                                  accel_generations **out);
accel_status accel__chat_send(accel_chat *c, const char *text, const accel_generate_params *params,
                              accel_generations **out);
accel_status accel__chat_messages(const accel_chat *c, char **json);
accel_status accel__chat_set_messages(accel_chat *c, const char *json);

#endif
