/* tool_calls.h - calls of tools in generated texts: descriptions of families, the grammar and the
 * parser that follow from one.
 *
 * Calls are written
 *
 *   begin  open CALL close  separator  open CALL close ...  end
 *
 * where CALL is, by style, {NAME_KEY: NAME, ARGUMENTS_KEY: JSON}; NAME name_end JSON; or NAME
 * name_end and for each parameter: parameter_open ITS_NAME parameter_name_end VALUE parameter_close;
 * or NAME name_end and for each parameter ITS_NAME parameter_name_end LITERAL, with
 * parameter_separator between them (tool_literals.c: strings in `quote`, words of `python`).
 * Calls may have numbers: number_open and digits stand behind NAME, or, with a quotation mark behind
 * them, first in the object.  Texts of a family without `begin` may have text between calls.  Spaces and line ends of a description
 * are what the grammar writes; the parser takes any number of them there, also none.
 */
#ifndef ACCEL_TEXT_TOOL_CALLS_H
#define ACCEL_TEXT_TOOL_CALLS_H

#include <string.h>

#include "accel/tools.h"
#include "core/json.h"
#include "core/text.h"
#include "text/chat_template.h"

typedef enum accel__tool_style {
  ACCEL__TOOLS_JSON,
  ACCEL__TOOLS_NAMED,
  ACCEL__TOOLS_PARAMETERS,
  ACCEL__TOOLS_LITERALS
} accel__tool_style;

typedef struct accel__tool_family {
  const char *name;
  const char *marks[3]; /* texts that the template has, all of them */
  const char *unless;   /* a text that it does not have; NULL: any */
  const char *also;     /* a text by which it is known, too; NULL: none */
  accel__tool_style style;
  bool
      whole; /* calls are all of a text, from its first character on; else a text may come before */
  const char *begin, *open, *name_end, *close, *separator, *end; /* NULL: "" */
  const char *number_open;                                       /* NULL: calls have no numbers */
  const char *id_open; /* what may stand between a name and its end; NULL: nothing */
  const char *parameter_open, *parameter_name_end, *parameter_close;
  const char *parameter_json_end; /* in place of parameter_name_end before JSON; NULL: the same */
  const char *parameter_separator, *quote;
  bool python;                      /* True, False and None, and JSON's strings, too */
  const char *name_key, *arguments; /* the keys of the name (NULL: "name") and of the arguments */
  const char *special[6];           /* texts that are special tokens in some vocabularies */
} accel__tool_family;
extern const accel__tool_family accel__tool_families[];
extern const size_t accel__tool_family_count;

/* One tool; its texts and nodes belong to accel_tools.file. */
typedef struct accel__tool {
  const char *name;
  const accel__json *parameters; /* its schema; NULL: none */
  bool strict;
} accel__tool;

struct accel_tools {
  const accel__tool_family *family;
  accel__json_file file;
  accel__tool *tool; /* [n] those that may be called */
  uint32_t n;
  char *grammar;
};

/* template NULL: params->family names the family. */
accel_status accel__tools_make(const accel__chat_template *chat, const char *json,
                               const accel_tools_params *params, accel_tools **out);
void accel__tools_free(accel_tools *tools);
const accel__tool *accel__tools_find(const accel_tools *tools, const char *name, size_t n);
/* A text of the description, "" where it has none. */
static inline const char *accel__tool_text(const char *text) { return text ? text : ""; }
/* Calls stand between `begin` and `end`. */
static inline bool accel__tool_has_section(const accel__tool_family *f) {
  return f->begin && *f->begin;
}
/* The beginning of calls.  Where its *n bytes up to the first blank come, a call comes. */
static inline const char *accel__tool_trigger(const accel__tool_family *f, size_t *n) {
  const char *text = accel__tool_text(accel__tool_has_section(f) ? f->begin : f->open);
  *n = strcspn(text, " \n");
  return text;
}
/* Whether a parameter by itself stands as text, not as JSON: it is a string, or of no type. */
bool accel__tool_is_text(const accel__json *schema);

/* The grammar (tool_grammar.c), malloc's. */
accel_status accel__tools_write_grammar(const accel_tools *tools, const accel_tools_params *params,
                                        char **out);

/* ---- parsing (tool_parser.c) ---- */

accel_status accel__tool_parser_new(const accel_tools *tools, accel_tool_parser **out);
accel_status accel__tool_parser_feed(accel_tool_parser *p, const char *text, size_t n,
                                     accel_tool_fn fn, void *user);
accel_status accel__tool_parser_end(accel_tool_parser *p, accel_tool_fn fn, void *user);
void accel__tool_parser_free(accel_tool_parser *p);

/* ---- texts of descriptions in generated texts (tool_scan.c) ---- */

typedef enum accel__scan { ACCEL__SCAN_NO, ACCEL__SCAN_MORE, ACCEL__SCAN_YES } accel__scan;

static inline bool accel__is_blank(char c) {
  return c == ' ' || c == '\n' || c == '\t' || c == '\r';
}
size_t accel__skip_blanks(const char *text, size_t n, size_t at);
/* Does text[*at..n) begin with `literal`, any blanks where it has some?  YES moves *at behind it;
 * MORE: as far as it goes. */
accel__scan accel__scan_literal(const char *text, size_t n, const char *literal, size_t *at);
/* The first place from `at` on where `literal` begins, without the blanks at its own ends; MORE: at
 * the end of the text it may begin.  *where is that place, *end the one behind it. */
accel__scan accel__scan_find(const char *text, size_t n, size_t at, const char *literal,
                             size_t *where, size_t *end);

/* Follows one JSON value byte by byte.  {0} begins. */
enum { ACCEL__VALUE_DEPTH = 256 };
typedef struct accel__value_scan {
  char close[ACCEL__VALUE_DEPTH];
  uint32_t depth;
  bool in_string, escaped, scalar;
} accel__value_scan;
/* *used: bytes that belong to the value.  YES: it is complete; NO: it is none, from there on. */
accel__scan accel__scan_value(accel__value_scan *s, const char *text, size_t n, size_t *used);

/* The end of a literal value in text[at..n): YES moves *end to the ',' or bracket behind it. */
accel__scan accel__literal_end(const char *text, size_t n, size_t at, const char *quote,
                               size_t *end);
/* Adds the value as JSON.  false: it is none, and nothing was added. */
bool accel__literal_json(const char *text, size_t n, const char *quote, accel__buffer *out);

/* A call {"name": ..., "arguments": ...}, as far as text[at..n) has it. */
typedef struct accel__call_head {
  const char *name; /* in the text */
  size_t name_n;
  size_t arguments, end; /* where they begin; where they end, `whole` */
  bool whole;            /* the object is all there, and ends at `object_end` */
  size_t object_end;
} accel__call_head;
accel__scan accel__scan_call(const char *text, size_t n, size_t at, accel__call_head *out);

#endif
