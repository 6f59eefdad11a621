/* openai_tools.h - tools of a chat request: which may be called, and calls in what was generated. */
#ifndef ACCEL_SERVE_OPENAI_TOOLS_H
#define ACCEL_SERVE_OPENAI_TOOLS_H

#include "serve/openai.h"

typedef struct openai_tools {
  accel_tools *tools; /* NULL: nothing is called */
  char *json;         /* for the chat template; NULL: it shows none */
  bool named;         /* tool_choice names a function */
} openai_tools;

/* Reads tools, tool_choice and parallel_tool_calls, and makes the grammar of `settings`, which has
 * another one already when the text without calls must follow it.  Begins at {0}; freed also after
 * a failure.  false: it was answered. */
bool openai_tools_read(serve_request *request, const serve_model *model,
                       const openai_fields *fields, openai_settings *settings, openai_tools *out);
void openai_tools_free(openai_tools *t);

/* A text taken apart: each piece is text, or belongs to a call, whose first piece has id and name
 * and no arguments. */
typedef struct openai_calls {
  void (*text)(void *user, const char *text);
  void (*call)(void *user, uint32_t call, const char *id, const char *name, const char *arguments);
  void *user;
  uint32_t n; /* calls so far */
  /* private */
  accel_tool_parser *parser; /* NULL: all of it is text */
  bool short_ids;
} openai_calls;
/* false: no memory. */
bool openai_calls_begin(openai_calls *calls, const openai_tools *tools);
void openai_calls_feed(openai_calls *calls, const char *text);
void openai_calls_end(openai_calls *calls);
void openai_calls_free(openai_calls *calls);

#endif
