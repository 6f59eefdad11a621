/**
 * @file chat.h
 * Sessions and conversations: decoders that keep what they have read, so that going on costs what
 * is new alone.
 *
 * Include accel/accel.h, which includes this file.  One call at a time runs on each session and
 * each chat; a second one waits.  The _length(), _ids() and _reused() calls do not wait: never call
 * them beside another call.  Different ones, forks included, may be used at once.  All are closed
 * before their endpoint is cleaned up.
 */
#ifndef ACCEL_CHAT_H
#define ACCEL_CHAT_H

#include "accel/generate.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---- sessions ------------------------------------------------------------------------------ */

/** Tokens that a decoder has read, kept on the device (KV cache, states).  While one is open,
 *  precision "auto" does not change.  A failed call leaves its tokens as they were. */
typedef struct accel_session accel_session;

/**
 * Opens a session without tokens.
 *
 * @param out closed with accel_session_close().
 * @return ACCEL_ERROR_UNSUPPORTED: the model does not generate, is an encoder-decoder, or the
 *         device's plugin has no sessions.
 */
ACCEL_API accel_status accel_session_open(accel_endpoint *endpoint, accel_session **out);

/** Closes a session, gives its memory back, and sets the pointer to NULL.  Forks stay. */
ACCEL_API void accel_session_close(accel_session **session);

/**
 * Reads a text after what the session has.
 *
 * @param add_special_tokens nonzero: with those that the tokenizer puts around a text (`<s>`).
 * @return ACCEL_ERROR_LIMIT, before anything is read: the model's context would be passed.
 *         ACCEL_ERROR_UNSUPPORTED: there is no tokenizer.
 */
ACCEL_API accel_status accel_session_feed(accel_session *session, const char *text,
                                          int add_special_tokens);

/**
 * Reads tokens after what the session has.
 *
 * @param ids [n]
 * @return ACCEL_ERROR_LIMIT as accel_session_feed().  ACCEL_ERROR_ARGUMENT: a token is beyond the
 *         vocabulary.
 */
ACCEL_API accel_status accel_session_feed_ids(accel_session *session, const int32_t *ids,
                                              uint32_t n);

/**
 * Continues what was fed; the generated tokens become part of the session.
 *
 * @param params NULL: the defaults.
 * @param out one sequence; freed with accel_generations_free().
 * @return ACCEL_ERROR_ARGUMENT: the session has no tokens.  ACCEL_ERROR_UNSUPPORTED: beams or
 *         several sequences, which are for accel_generate() or for forks.  Else as
 *         accel_generate().
 */
ACCEL_API accel_status accel_session_generate(accel_session *session,
                                              const accel_generate_params *params,
                                              accel_generations **out);

/** Tokens in the session, fed and generated; 0 for NULL. */
ACCEL_API uint32_t accel_session_length(const accel_session *session);

/** [accel_session_length()] the tokens; valid until the session's next call.  NULL for NULL. */
ACCEL_API const int32_t *accel_session_ids(const accel_session *session);

/** Keeps the first `tokens` tokens; 0: begins anew; as many as there are, or more: changes nothing.
 *  Models whose state cannot go back (Mamba) read what is kept again when they go on. */
ACCEL_API accel_status accel_session_truncate(accel_session *session, uint32_t tokens);

/** Makes a session of its own with the same tokens.  Memory is shared until one of them goes on.
 *  Closed like any other. */
ACCEL_API accel_status accel_session_fork(accel_session *session, accel_session **out);

/**
 * Writes tokens and state to a file.
 *
 * The file is bound to the model, precision, kind of device and build that made it.
 *
 * @return ACCEL_ERROR_IO: the file cannot be written.
 */
ACCEL_API accel_status accel_session_save(accel_session *session, const char *path);

/**
 * Opens a session from a file of accel_session_save().
 *
 * @param out closed with accel_session_close().
 * @return ACCEL_ERROR_ARGUMENT: made with another model, precision, device's plugin or build.
 *         ACCEL_ERROR_FORMAT: damaged, or no such file format.  ACCEL_ERROR_NOT_FOUND,
 *         ACCEL_ERROR_IO.  ACCEL_ERROR_UNSUPPORTED: as accel_session_open().  ACCEL_ERROR_LIMIT: it
 *         is longer than the context.
 */
ACCEL_API accel_status accel_session_load(accel_endpoint *endpoint, const char *path,
                                          accel_session **out);

/* ---- conversations ------------------------------------------------------------------------- */

/** A chat model's messages, its chat template and a session in one. */
typedef struct accel_chat accel_chat;

/** How a conversation begins, and what its template is given. */
typedef struct accel_chat_params {
  /** sizeof(accel_chat_params). */
  uint32_t size;
  /** Content of a system message in front; NULL: none. */
  const char *system;
  /** JSON array of messages: what was said before.  NULL: nothing. */
  const char *messages;
  /** Name of one of several templates, as accel_template_params.name. */
  const char *template_name;
  /** As accel_template_params.tools; NULL: none. */
  const char *tools;
  /** As accel_template_params.documents; NULL: none. */
  const char *documents;
  /** As accel_template_params.variables; NULL: none. */
  const char *variables;
} accel_chat_params;

/** An empty conversation. */
ACCEL_API accel_chat_params accel_chat_params_default(void);

/**
 * Opens a conversation.
 *
 * @param params NULL: the defaults.  Copied.
 * @param out closed with accel_chat_close().
 * @return ACCEL_ERROR_NOT_FOUND: the model has no chat template (accel_generate() continues its
 *         texts). ACCEL_ERROR_ARGUMENT: messages, tools, documents or variables are no such JSON.
 *         ACCEL_ERROR_UNSUPPORTED: as accel_session_open() and accel_template_open().
 *         ACCEL_ERROR_FORMAT: as accel_template_open().
 */
ACCEL_API accel_status accel_chat_open(accel_endpoint *endpoint, const accel_chat_params *params,
                                       accel_chat **out);

/** Closes a conversation and sets the pointer to NULL. */
ACCEL_API void accel_chat_close(accel_chat **chat);

/**
 * Adds a user's message, generates the answer and adds that, too.
 *
 * An answer that on_token ended stays as far as it came; one that had no text yet is dropped with
 * its question.  A failed call, accel_params.cancel included, leaves the messages as they were.
 * max_new_tokens is lowered to what the context has room for.
 *
 * @param text content of the message.
 * @param params NULL: the defaults.
 * @param out one sequence; freed with accel_generations_free().
 * @return ACCEL_ERROR_LIMIT: the conversation fills the model's context.  ACCEL_ERROR_ARGUMENT: the
 *         template refuses the messages.  Else as accel_session_generate().
 */
ACCEL_API accel_status accel_chat_send(accel_chat *chat, const char *text,
                                       const accel_generate_params *params,
                                       accel_generations **out);

/** Generates an answer to the messages as they are, such as results of tools that
 *  accel_chat_set_messages() added, and adds it.  Else as accel_chat_send(). */
ACCEL_API accel_status accel_chat_generate(accel_chat *chat, const accel_generate_params *params,
                                           accel_generations **out);

/** All messages as a JSON array; freed with accel_string_free(). */
ACCEL_API accel_status accel_chat_messages(accel_chat *chat, char **json);

/**
 * Replaces the messages.  What they have in common with the old ones is not read again.
 *
 * @param json array of messages; NULL: none.
 * @return ACCEL_ERROR_ARGUMENT: no array of objects with a role; the messages stay as they were.
 */
ACCEL_API accel_status accel_chat_set_messages(accel_chat *chat, const char *json);

/** Tokens of the last prompt and its answer; 0 for NULL. */
ACCEL_API uint32_t accel_chat_length(const accel_chat *chat);

/** Tokens of the last prompt that the device had read before, so that they cost nothing; 0 for
 *  NULL. */
ACCEL_API uint32_t accel_chat_reused(const accel_chat *chat);

#ifdef __cplusplus
}
#endif
#endif
