/* api_tools.c - tools and the parser of calls: argument checks, then text/. */
#include "text/tool_calls.h"

#include <string.h>

#include "accel/accel.h"
#include "api/api_check.h"

accel_tools_params accel_tools_params_default(void) {
  return (accel_tools_params){.size = sizeof(accel_tools_params)};
}

const accel_strings *accel_tool_families(void) {
  static const char *const names[] = {
#define FAMILY(name_, ...) name_,
#include "text/tool_families.def"
  };
  static const accel_strings list = {sizeof names / sizeof *names, names};
  return &list;
}

accel_status accel_tools_open(const accel_template *chat_template, const char *tools,
                              const accel_tools_params *params, accel_tools **out) {
  API_BEGIN();
  API_OUT(out);
  API_NEED(tools);
  API_PARAMS(accel_tools_params, mine, params);
  if (!chat_template && !mine.family)
    return accel__fail(ACCEL_ERROR_ARGUMENT, "%s: neither a template nor a family", __func__);
  return accel__tools_make((const accel__chat_template *)chat_template, tools, &mine, out);
}

void accel_tools_close(accel_tools **tools) {
  if (!tools) return;
  accel__tools_free(*tools);
  *tools = NULL;
}

const char *accel_tools_family(const accel_tools *tools) {
  return tools ? tools->family->name : NULL;
}

const char *accel_tools_grammar(const accel_tools *tools) { return tools ? tools->grammar : NULL; }

uint32_t accel_tools_special_tokens(const accel_tools *tools) {
  return tools && tools->family->special[0] ? 2 : 0;
}

accel_status accel_tool_parser_open(const accel_tools *tools, accel_tool_parser **out) {
  API_CALL(tools, out);
  return accel__tool_parser_new(tools, out);
}

accel_status accel_tool_parser_feed(accel_tool_parser *parser, const char *text, accel_tool_fn fn,
                                    void *user) {
  API_BEGIN();
  API_NEED(parser);
  API_NEED(text);
  API_NEED(fn);
  return accel__tool_parser_feed(parser, text, strlen(text), fn, user);
}

accel_status accel_tool_parser_end(accel_tool_parser *parser, accel_tool_fn fn, void *user) {
  API_BEGIN();
  API_NEED(parser);
  API_NEED(fn);
  return accel__tool_parser_end(parser, fn, user);
}

void accel_tool_parser_close(accel_tool_parser **parser) {
  if (!parser) return;
  accel__tool_parser_free(*parser);
  *parser = NULL;
}
