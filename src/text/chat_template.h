/* chat_template.h - chat templates: what a model's tokenizer_config.json or chat_template.jinja
 * makes of a list of messages.
 *
 *   accel__chat_template *chat;
 *   ACCEL_TRY(accel__chat_template_load(directory, &chat));
 *   accel__chat_request how = {.messages = file.root, .add_generation_prompt = true};
 *   accel__buffer text = {0};
 *   ACCEL_TRY(accel__chat_template_render(chat, &how, &text, NULL));
 *   accel__chat_template_free(&chat);
 *
 * The text is then encoded with add_special_tokens = false, because templates write them.
 *
 * Templates are Jinja programs.  An interpreter of our own runs them in the environment that
 * transformers gives them (jinja2's ImmutableSandboxedEnvironment with trim_blocks, lstrip_blocks,
 * loop controls and the generation tag): nothing a template says can touch files, memory outside
 * its own, or the objects it is given.  Steps, memory, output and nesting are limited, so a
 * template that loops is ACCEL_ERROR_LIMIT, in well under a second.
 *
 * Not implemented, refused by name: include, import, from, extends, autoescape true, the filters
 * random, urlize and pprint, lipsum, integers beyond 64 bits.
 *
 * Sources: transformers' chat_template_utils.py and tokenization_utils_base.py
 * (apply_chat_template), jinja2 3.1. */
#ifndef ACCEL_TEXT_CHAT_TEMPLATE_H
#define ACCEL_TEXT_CHAT_TEMPLATE_H

#include <stdbool.h>
#include <stddef.h>
#include <time.h>

#include "core/json.h"
#include "core/status.h"
#include "core/text.h"

/* The templates of one model, by name; read-only once loaded, shared by threads. */
typedef struct accel__chat_template accel__chat_template;

/* path: a file of one template, or a directory. Reads tokenizer_config.json (chat_template: a
 * string, or a list of {name, template}), then chat_template.json (older processors), whose
 * templates replace those of the same name.  If chat_template.jinja or
 * additional_chat_templates/NAME.jinja give any, only these count.  Special tokens (bos_token ...),
 * which templates see as variables, come from special_tokens_map.json, then from
 * tokenizer_config.json, which wins.  ACCEL_ERROR_NOT_FOUND when the model has no template;
 * ACCEL_ERROR_FORMAT names file and line of what is no Jinja. */
accel_status accel__chat_template_load(const char *path, accel__chat_template **out);
/* One template from its text; `name` stands for the file in messages.  No special tokens are
 * defined. */
accel_status accel__chat_template_parse(const char *text, size_t n, const char *name,
                                        accel__chat_template **out);
void accel__chat_template_free(accel__chat_template **chat); /* NULL-safe, sets NULL */

size_t accel__chat_template_count(const accel__chat_template *chat);
/* Name of template i ("default" unless the file names it) and its text, NUL-terminated; both live
 * with `chat`. */
const char *accel__chat_template_name(const accel__chat_template *chat, size_t i);
const char *accel__chat_template_text(const accel__chat_template *chat, size_t i);
/* The text that is rendered where there are tools, else the first one; "" without any. */
const char *accel__chat_template_for_tools(const accel__chat_template *chat);

typedef struct accel__chat_request {
  /* array of objects: role, content, ... ; members that are null are left out */
  const accel__json *messages;
  const accel__json *tools;     /* array of JSON schemas, or NULL */
  const accel__json *documents; /* array of objects, or NULL */
  /* object: more variables of the template (enable_thinking ...), or NULL */
  const accel__json *variables;
  /* of the template; NULL: "tool_use" when there are tools and such a template, else "default",
   * else the only one */
  const char *name;
  bool add_generation_prompt;  /* end with the header of the assistant's next message */
  bool continue_final_message; /* end inside the last message, so that the model goes on with it */
  const struct tm *now;        /* what strftime_now reads; NULL: local time now */
} accel__chat_request;

/* Parts of the result between {% generation %} and {% endgeneration %}: bytes [start, end). */
typedef struct accel__chat_span {
  size_t start, end;
} accel__chat_span;
typedef struct accel__chat_spans {
  accel__chat_span *at;
  size_t n, capacity;
} accel__chat_spans; /* {0} is empty; free(at) */

/* Appends the rendered conversation to `out`, which is unchanged on failure; `spans` may be NULL
 * and is replaced.  Any number of threads at once. Errors: ACCEL_ERROR_ARGUMENT when messages are
 * not an array of objects, when there is no template of that name, when the template itself refuses
 * (raise_exception: the message is passed on), or continue_final_message finds nothing to continue;
 * ACCEL_ERROR_FORMAT for what Python would raise as an error of the template (undefined names in
 * arithmetic, wrong types); ACCEL_ERROR_UNSUPPORTED for what is not implemented; ACCEL_ERROR_LIMIT
 * for a template without end.  Each names template and line. */
accel_status accel__chat_template_render(const accel__chat_template *chat,
                                         const accel__chat_request *request, accel__buffer *out,
                                         accel__chat_spans *spans);

#endif
