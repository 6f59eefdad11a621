/**
 * @file tools.h
 * Tool calls: how a model writes that a function is to be called, as a grammar for what it
 * generates and as a parser for what it has generated.
 *
 * Include accel/accel.h, which includes this file.  Families of chat templates differ in how they
 * write calls (Hermes and Qwen, LLaMA 3, Mistral, DeepSeek ...).  Each is a description in the
 * library; which one a model has is read from its chat template.
 *
 *     accel_tools *tools;
 *     accel_tools_open(chat_template, "[{\"type\": \"function\", ...}]", NULL, &tools);
 *     params.grammar = accel_tools_grammar(tools);
 *     params.grammar_kind = ACCEL_GRAMMAR_STRUCTURAL_TAG;
 *     params.keep_special_tokens = accel_tools_special_tokens(tools);
 *     // accel_template_params.tools are the same tools; then generate, and hand each piece of text
 *     // to accel_tool_parser_feed()
 */
#ifndef ACCEL_TOOLS_H
#define ACCEL_TOOLS_H

#include "accel/text_tasks.h"

#ifdef __cplusplus
extern "C" {
#endif

/** The tools of a request, for one family.  Immutable: may be used from many threads at once. */
typedef struct accel_tools accel_tools;

/** What a generated text may be; accel_tools_params_default() has texts and calls. */
typedef struct accel_tools_params {
  /** sizeof(accel_tools_params). */
  uint32_t size;
  /** 1: the text is calls and nothing else.  0: text, calls, or text and then calls. */
  uint32_t required;
  /** Name of the one tool that must be called, and once; NULL: any. */
  const char *name;
  /** 1: at most one call. */
  uint32_t single;
  /** A name of accel_tool_families(); NULL: as the template shows. */
  const char *family;
  /** A JSON Schema for a text without calls; NULL: any text.  With it there is either such a text or
   *  calls. */
  const char *schema;
} accel_tools_params;

/** Texts and calls as the model likes. */
ACCEL_API accel_tools_params accel_tools_params_default(void);

/** The families that have a description; constants. */
ACCEL_API const accel_strings *accel_tool_families(void);

/**
 * Reads tools.
 *
 * @param chat_template which family it is; NULL: params->family says so.
 * @param tools JSON array of functions as OpenAI writes them: {"type": "function", "function":
 *              {"name", "parameters": a JSON Schema, "strict"}}.  A schema with keywords that
 *              docs/constrained.md does not have is refused where `strict` is true; else the
 *              arguments of that tool may be any JSON object.
 * @param params NULL: the defaults.
 * @param out closed with accel_tools_close().
 * @return ACCEL_ERROR_ARGUMENT: no such JSON, a name twice or with other characters than letters,
 *         digits, '_', '-' and '.', or `name` is none of them.  ACCEL_ERROR_UNSUPPORTED: the
 *         template shows no family that is known; the message has those that are.  Of a strict
 *         schema, and of params->schema: what a grammar is refused for (generate.h).
 */
ACCEL_API accel_status accel_tools_open(const accel_template *chat_template, const char *tools,
                                        const accel_tools_params *params, accel_tools **out);

/** Closes tools and sets the pointer to NULL. */
ACCEL_API void accel_tools_close(accel_tools **tools);

/** Name of the family, "hermes"; NULL for NULL. */
ACCEL_API const char *accel_tools_family(const accel_tools *tools);

/** The grammar of what may be generated, for ACCEL_GRAMMAR_STRUCTURAL_TAG; lives as long as the
 *  tools.  NULL for NULL. */
ACCEL_API const char *accel_tools_grammar(const accel_tools *tools);

/** What accel_generate_params.keep_special_tokens must be for the parser: 2 where calls are written
 *  with special tokens, else 0. */
ACCEL_API uint32_t accel_tools_special_tokens(const accel_tools *tools);

/* ---- parsing --------------------------------------------------------------------------------- */

/** What a piece of a generated text is. */
typedef enum accel_tool_event_kind {
  /** Text that belongs to no call. */
  ACCEL_TOOL_TEXT = 0,
  /** A call begins; the text is the name of its function. */
  ACCEL_TOOL_CALL = 1,
  /** The next piece of its arguments, which are one JSON value in all. */
  ACCEL_TOOL_ARGUMENTS = 2
} accel_tool_event_kind;

/** One piece.  Nothing is ever taken back. */
typedef struct accel_tool_event {
  /** sizeof(accel_tool_event) of the library. */
  uint32_t size;
  /** What it is. */
  accel_tool_event_kind kind;
  /** Number of the call. */
  uint32_t call;
  /** The text, valid during the call. */
  const char *text;
} accel_tool_event;

/** Receives pieces, during accel_tool_parser_feed() and accel_tool_parser_end(). */
typedef void (*accel_tool_fn)(void *user, const accel_tool_event *event);

/** Takes one generated text apart.  One thread at a time. */
typedef struct accel_tool_parser accel_tool_parser;

/**
 * Begins a text.
 *
 * @param tools must outlive the parser.
 * @param out closed with accel_tool_parser_close().
 */
ACCEL_API accel_status accel_tool_parser_open(const accel_tools *tools, accel_tool_parser **out);

/**
 * Reads the next piece of the text, however it was cut.
 *
 * What could still be the beginning of a call is kept back.  What is no call after all, as one of a
 * function that is none of the tools, comes as text; so does what follows arguments that are no
 * JSON.  Spaces and line ends between text and calls are left out.
 */
ACCEL_API accel_status accel_tool_parser_feed(accel_tool_parser *parser, const char *text,
                                              accel_tool_fn fn, void *user);

/** The text has ended: what was kept back comes, but for markup behind a call.  A call that was cut
 *  keeps the arguments that it had. */
ACCEL_API accel_status accel_tool_parser_end(accel_tool_parser *parser, accel_tool_fn fn,
                                             void *user);

/** Closes a parser and sets the pointer to NULL. */
ACCEL_API void accel_tool_parser_close(accel_tool_parser **parser);

#ifdef __cplusplus
}
#endif
#endif
