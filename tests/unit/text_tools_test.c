/* text_tools_test.c - calls of tools: each family's grammar allows what its parser reads, pieces come
 * the same however a text is cut, and what is no call stays text; structural tags by themselves. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "accel/accel.h"
#include "core/json.h"
#include "core/text.h"
#include "text/grammar/grammar.h"
#include "text/tool_calls.h"

static const char tools_json[] =
    "[{\"type\":\"function\",\"function\":{\"name\":\"weather\",\"description\":\"of a city\","
    "\"parameters\":{\"type\":\"object\",\"properties\":{\"city\":{\"type\":\"string\"},"
    "\"days\":{\"type\":\"integer\"}},\"required\":[\"city\"]}}},"
    "{\"type\":\"function\",\"function\":{\"name\":\"now\"}}]";

/* ---- what a parser tells ---- */

/* Events as one text: T(text) C(name) A(arguments), neighbours of a kind joined. */
typedef struct log {
  accel__buffer text;
  int last;
} log_t;

static void note(void *user, const accel_tool_event *event) {
  log_t *l = user;
  const int kind = (int)event->kind;
  if (kind != l->last || kind == ACCEL_TOOL_CALL)
    accel__buffer_printf(&l->text, "%s%c%u(", l->last >= 0 ? ")" : "", "TCA"[kind],
                         kind == ACCEL_TOOL_TEXT ? 0 : event->call);
  accel__buffer_text(&l->text, event->text);
  l->last = kind;
}

/* text, cut into pieces of `piece` bytes. */
static char *parse(const accel_tools *tools, const char *text, size_t piece) {
  log_t l = {.last = -1};
  accel_tool_parser *p;
  assert_int_equal(accel_tool_parser_open(tools, &p), ACCEL_OK);
  for (size_t at = 0, n = strlen(text); at < n; at += piece) {
    char part[4096];
    const size_t length = n - at < piece ? n - at : piece;
    memcpy(part, text + at, length);
    part[length] = 0;
    assert_int_equal(accel_tool_parser_feed(p, part, note, &l), ACCEL_OK);
  }
  assert_int_equal(accel_tool_parser_end(p, note, &l), ACCEL_OK);
  accel_tool_parser_close(&p);
  accel__buffer_text(&l.text, l.last >= 0 ? ")" : "");
  return l.text.data;
}

static void check_parse(const accel_tools *tools, const char *text, const char *want) {
  for (size_t piece = 1; piece <= strlen(text); piece++) {
    char *got = parse(tools, text, piece);
    if (strcmp(got, want) != 0)
      fail_msg("%s, pieces of %zu bytes: %s\ngives %s\ninstead of %s", accel_tools_family(tools),
               piece, text, got, want);
    free(got);
  }
}

static accel_tools *open_tools(const char *family, accel_tools_params params) {
  accel_tools *tools;
  params.family = family;
  const accel_status status = accel_tools_open(NULL, tools_json, &params, &tools);
  if (status != ACCEL_OK) print_error("%s: %s\n", family, accel_last_error());
  assert_int_equal(status, ACCEL_OK);
  return tools;
}

/* ---- what a grammar allows ---- */

static accel__token_trie *bytes_trie(void) {
  char bytes[256];
  uint32_t offset[257];
  accel__token_trie *trie;
  for (int i = 0; i < 256; i++) bytes[i] = (char)i, offset[i] = (uint32_t)i;
  offset[256] = 256;
  assert_int_equal(accel__token_trie_make(bytes, offset, 256, false, &trie), ACCEL_OK);
  return trie;
}

/* Is the text one of the grammar's?  -1: it is the beginning of one. */
static int allows(const char *grammar, const char *text) {
  accel__grammar *g;
  accel__matcher *m;
  uint32_t state = ACCEL__MATCH_START, next;
  const uint64_t *allowed;
  bool may_end = false;
  accel__token_trie *trie = bytes_trie();
  const accel_status status =
      accel__grammar_compile(ACCEL_GRAMMAR_STRUCTURAL_TAG, grammar, strlen(grammar), &g);
  if (status != ACCEL_OK) print_error("%s: %s\n", grammar, accel__message());
  assert_int_equal(status, ACCEL_OK);
  assert_int_equal(accel__matcher_open(g, trie, &m), ACCEL_OK);
  for (const char *p = text; *p && state != ACCEL__MATCH_FAILED; p++) {
    const uint8_t b = (uint8_t)*p;
    assert_int_equal(accel__matcher_mask(m, state, &allowed, &may_end), ACCEL_OK);
    assert_int_equal(accel__matcher_advance(m, state, b, &next), ACCEL_OK);
    assert_int_equal(allowed[b / 64] >> (b % 64) & 1, next != ACCEL__MATCH_FAILED);
    state = next;
  }
  if (state != ACCEL__MATCH_FAILED)
    assert_int_equal(accel__matcher_mask(m, state, &allowed, &may_end), ACCEL_OK);
  accel__matcher_close(&m);
  accel__grammar_release(&g);
  accel__token_trie_free(&trie);
  return state == ACCEL__MATCH_FAILED ? 0 : may_end ? 1 : -1;
}

/* ---- families ---- */

typedef struct example {
  const char *family;
  const char *one, *two; /* a call of weather; that, and a call of now */
  const char *marks;     /* of a template, as far as it is needed to know the family */
} example;

#define ARGUMENTS "{\"city\":\"Kraków\",\"days\":2}"
static const example examples[] = {
    {"hermes", "<tool_call>\n{\"name\": \"weather\", \"arguments\": " ARGUMENTS "}\n</tool_call>",
     "<tool_call>\n{\"name\": \"weather\", \"arguments\": " ARGUMENTS "}\n</tool_call>\n"
     "<tool_call>\n{\"name\": \"now\", \"arguments\": {}}\n</tool_call>",
     "<tool_call>"},
    {"llama3", "{\"name\": \"weather\", \"parameters\": " ARGUMENTS "}",
     "{\"name\": \"weather\", \"parameters\": " ARGUMENTS "}; "
     "{\"name\": \"now\", \"parameters\": {}}",
     "<|start_header_id|> \"parameters\""},
    {"mistral", "[TOOL_CALLS] [{\"name\": \"weather\", \"arguments\": " ARGUMENTS "}]",
     "[TOOL_CALLS] [{\"name\": \"weather\", \"arguments\": " ARGUMENTS "}, "
     "{\"name\": \"now\", \"arguments\": {}}]",
     "[TOOL_CALLS]"},
    {"mistral_v11", "[TOOL_CALLS]weather[ARGS]" ARGUMENTS,
     "[TOOL_CALLS]weather[ARGS]" ARGUMENTS "[TOOL_CALLS]now[ARGS]{}", "[TOOL_CALLS] [ARGS]"},
    {"granite", "<|tool_call|>[{\"name\": \"weather\", \"arguments\": " ARGUMENTS "}]",
     "<|tool_call|>[{\"name\": \"weather\", \"arguments\": " ARGUMENTS "}, "
     "{\"name\": \"now\", \"arguments\": {}}]",
     "<|tool_call|>"},
    {"phi4_mini_single",
     "<|tool_call|>{\"name\": \"weather\", \"arguments\": " ARGUMENTS "}<|/tool_call|>",
     "<|tool_call|>{\"name\": \"weather\", \"arguments\": " ARGUMENTS "}<|/tool_call|>"
     "<|tool_call|>{\"name\": \"now\", \"arguments\": {}}<|/tool_call|>",
     "<|tool|><|/tool|><|tool_call|>{"},
    {"phi4_mini",
     "<|tool_call|>[{\"name\": \"weather\", \"arguments\": " ARGUMENTS "}]<|/tool_call|>",
     "<|tool_call|>[{\"name\": \"weather\", \"arguments\": " ARGUMENTS "}, "
     "{\"name\": \"now\", \"arguments\": {}}]<|/tool_call|>",
     "<|tool|><|/tool|>"},
    {"functionary", "<function=weather>" ARGUMENTS "</function>",
     "<function=weather>" ARGUMENTS "</function><function=now>{}</function>",
     "<function= </function>"},
    {"deepseek_v3",
     "<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>function<｜tool▁sep｜>weather\n"
     "```json\n" ARGUMENTS "\n```<｜tool▁call▁end｜><｜tool▁calls▁end｜>",
     "<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>function<｜tool▁sep｜>weather\n"
     "```json\n" ARGUMENTS "\n```<｜tool▁call▁end｜>\n<｜tool▁call▁begin｜>"
     "function<｜tool▁sep｜>now\n```json\n{}\n```<｜tool▁call▁end｜>"
     "<｜tool▁calls▁end｜>",
     "<｜tool▁calls▁begin｜> ```json"},
    {"deepseek_v3_1",
     "<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>weather<｜tool▁sep｜>" ARGUMENTS
     "<｜tool▁call▁end｜><｜tool▁calls▁end｜>",
     "<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>weather<｜tool▁sep｜>" ARGUMENTS
     "<｜tool▁call▁end｜><｜tool▁call▁begin｜>now<｜tool▁sep｜>{}"
     "<｜tool▁call▁end｜><｜tool▁calls▁end｜>",
     "<｜tool▁calls▁begin｜>"},
    {"kimi_k2",
     "<|tool_calls_section_begin|><|tool_call_begin|>functions.weather:0"
     "<|tool_call_argument_begin|>" ARGUMENTS "<|tool_call_end|><|tool_calls_section_end|>",
     "<|tool_calls_section_begin|><|tool_call_begin|>functions.weather:0"
     "<|tool_call_argument_begin|>" ARGUMENTS "<|tool_call_end|><|tool_call_begin|>functions.now:1"
     "<|tool_call_argument_begin|>{}<|tool_call_end|><|tool_calls_section_end|>",
     "<|tool_calls_section_begin|> <|tool_call_argument_begin|>"},
    {"cohere",
     "<|START_ACTION|>[\n    {\"tool_call_id\": \"0\", \"tool_name\": \"weather\", "
     "\"parameters\": " ARGUMENTS "}\n]<|END_ACTION|>",
     "<|START_ACTION|>[\n    {\"tool_call_id\": \"0\", \"tool_name\": \"weather\", "
     "\"parameters\": " ARGUMENTS "},\n    {\"tool_call_id\": \"1\", \"tool_name\": \"now\", "
     "\"parameters\": {}}\n]<|END_ACTION|>",
     "<|START_ACTION|> \"tool_call_id\" \"tool_name\""},
    {"nemotron_nano",
     "<TOOLCALL>[{\"name\": \"weather\", \"arguments\": " ARGUMENTS "}]</TOOLCALL>",
     "<TOOLCALL>[{\"name\": \"weather\", \"arguments\": " ARGUMENTS "}, "
     "{\"name\": \"now\", \"arguments\": {}}]</TOOLCALL>",
     "<TOOLCALL>["},
    {"apriel", "<tool_calls>[{\"name\": \"weather\", \"arguments\": " ARGUMENTS "}]</tool_calls>",
     "<tool_calls>[{\"name\": \"weather\", \"arguments\": " ARGUMENTS "}, "
     "{\"name\": \"now\", \"arguments\": {}}]</tool_calls>",
     "<tool_call> <tool_calls>["},
    {"minimax_m1",
     "<tool_calls>\n{\"name\": \"weather\", \"arguments\": " ARGUMENTS "}\n</tool_calls>",
     "<tool_calls>\n{\"name\": \"weather\", \"arguments\": " ARGUMENTS "}\n"
     "{\"name\": \"now\", \"arguments\": {}}\n</tool_calls>",
     "<tool_calls> </tool_calls>"},
    {"gigachat", "<|function_call|>{\"name\": \"weather\", \"arguments\": " ARGUMENTS "}",
     "<|function_call|>{\"name\": \"weather\", \"arguments\": " ARGUMENTS "}"
     "<|function_call|>{\"name\": \"now\", \"arguments\": {}}",
     "<|function_call|>"},
    {"harmony", "<|channel|>commentary to=functions.weather <|constrain|>json<|message|>" ARGUMENTS,
     "<|channel|>commentary to=functions.weather <|constrain|>json<|message|>" ARGUMENTS
     "<|channel|>commentary to=functions.now <|constrain|>json<|message|>{}",
     "<|channel|> <|call|>"},
};

static const char *const plain = "Sunny, and {\"a\": 1} < 2.";

/* The parser reads what the grammar allows, and the grammar nothing else. */
static void test_families(void **state) {
  (void)state;
  for (size_t i = 0; i < sizeof examples / sizeof *examples; i++) {
    const example *e = &examples[i];
    accel_tools_params how = accel_tools_params_default();
    accel_tools *any = open_tools(e->family, how);
    char text[1024], want[1024];
    check_parse(any, e->one, "C0(weather)A0(" ARGUMENTS ")");
    check_parse(any, e->two, "C0(weather)A0(" ARGUMENTS ")C1(now)A1({})");
    check_parse(any, plain, "T0(Sunny, and {\"a\": 1} < 2.)");
    assert_int_equal(allows(accel_tools_grammar(any), e->one), 1);
    assert_int_equal(allows(accel_tools_grammar(any), e->two), 1);
    assert_int_equal(allows(accel_tools_grammar(any), plain), 1);
    assert_int_equal(allows(accel_tools_grammar(any), ""), 1);
    if (strcmp(e->family, "llama3") != 0) {
      snprintf(text, sizeof text, "Let me see.\n\n%s", e->one);
      snprintf(want, sizeof want, "T0(Let me see.)C0(weather)A0(%s)", ARGUMENTS);
      check_parse(any, text, want);
      assert_int_equal(allows(accel_tools_grammar(any), text), 1);
    }
    how.required = 1;
    accel_tools *required = open_tools(e->family, how);
    assert_int_equal(allows(accel_tools_grammar(required), e->one), 1);
    assert_int_equal(allows(accel_tools_grammar(required), e->two), 1);
    assert_int_equal(allows(accel_tools_grammar(required), plain), 0);
    assert_int_equal(allows(accel_tools_grammar(required), ""), -1);
    how.single = 1;
    accel_tools *single = open_tools(e->family, how);
    assert_int_equal(allows(accel_tools_grammar(single), e->one), 1);
    assert_int_equal(allows(accel_tools_grammar(single), e->two), 0);
    how.name = "now";
    accel_tools *named = open_tools(e->family, how);
    assert_int_equal(allows(accel_tools_grammar(named), e->one), 0);
    how = accel_tools_params_default();
    how.schema = "{\"const\":\"x\"}";
    accel_tools *schema = open_tools(e->family, how);
    assert_int_equal(allows(accel_tools_grammar(schema), e->two), 1);
    assert_int_equal(allows(accel_tools_grammar(schema), "\"x\""), 1);
    assert_int_equal(allows(accel_tools_grammar(schema), plain), 0);
    accel_tools_close(&any);
    accel_tools_close(&required);
    accel_tools_close(&single);
    accel_tools_close(&named);
    accel_tools_close(&schema);
  }
}

static void is_known_by(const char *template, const char *family) {
  accel__chat_template *chat;
  accel_tools *tools;
  assert_int_equal(accel__chat_template_parse(template, strlen(template), "made", &chat), ACCEL_OK);
  assert_int_equal(accel_tools_open((accel_template *)chat, tools_json, NULL, &tools), ACCEL_OK);
  assert_string_equal(accel_tools_family(tools), family);
  accel_tools_close(&tools);
  accel__chat_template_free(&chat);
}

static void test_families_are_known_by_their_templates(void **state) {
  accel__chat_template *chat;
  accel_tools *tools;
  (void)state;
  for (size_t i = 0; i < sizeof examples / sizeof *examples; i++)
    is_known_by(examples[i].marks, examples[i].family);
  /* MiniMax-M3 names elements after parameters, which no description can say */
  static const char unknown[] = "<tool_call> <invoke name=";
  assert_int_equal(accel__chat_template_parse(unknown, strlen(unknown), "made", &chat), ACCEL_OK);
  assert_int_equal(accel_tools_open((accel_template *)chat, tools_json, NULL, &tools),
                   ACCEL_ERROR_UNSUPPORTED);
  accel__chat_template_free(&chat);
}

/* Calls of weather and of now as templates write them, with each parameter by itself. */
static const struct {
  const char *family, *text, *marks;
} by_parameters[] = {
    {"qwen3_coder",
     "<tool_call>\n<function=weather>\n<parameter=city>\nNew\nYork \n</parameter>\n"
     "<parameter=days>\n3\n</parameter>\n</function>\n</tool_call>\n"
     "<tool_call>\n<function=now>\n</function>\n</tool_call>",
     "<function= <parameter="},
    {"seed_oss",
     "<seed:tool_call>\n<function=weather>\n<parameter=city>New\nYork </parameter>\n"
     "<parameter=days>3</parameter>\n</function>\n</seed:tool_call>\n"
     "<seed:tool_call>\n<function=now>\n</function>\n</seed:tool_call>",
     "<seed:tool_call> <function= <parameter="},
    {"glm4_moe",
     "<tool_call>weather\n<arg_key>city</arg_key>\n<arg_value>New\nYork </arg_value>\n"
     "<arg_key>days</arg_key>\n<arg_value>3</arg_value>\n</tool_call>\n"
     "<tool_call>now\n</tool_call>",
     "<arg_key> <arg_value>"},
    {"glm4_7",
     "<tool_call>weather<arg_key>city</arg_key><arg_value>New\nYork </arg_value>"
     "<arg_key>days</arg_key><arg_value>3</arg_value></tool_call><tool_call>now</tool_call>",
     "<arg_key></arg_key><arg_value>"},
    {"minimax_m2",
     "<minimax:tool_call>\n<invoke name=\"weather\">\n"
     "<parameter name=\"city\">New\nYork </parameter>\n"
     "<parameter name=\"days\">3</parameter>\n</invoke>\n"
     "<invoke name=\"now\">\n</invoke>\n</minimax:tool_call>",
     "<minimax:tool_call> <invoke name="},
    {"deepseek_v3_2",
     "<｜DSML｜function_calls>\n<｜DSML｜invoke name=\"weather\">\n"
     "<｜DSML｜parameter name=\"city\" string=\"true\">New\nYork </｜DSML｜parameter>\n"
     "<｜DSML｜parameter name=\"days\" string=\"false\">3</｜DSML｜parameter>\n</｜DSML｜invoke>\n"
     "<｜DSML｜invoke name=\"now\">\n</｜DSML｜invoke>\n</｜DSML｜function_calls>",
     "'｜DSML｜' function_calls>"},
    {"deepseek_v4",
     "<｜DSML｜tool_calls>\n<｜DSML｜invoke name=\"weather\">\n"
     "<｜DSML｜parameter name=\"city\" string=\"true\">New\nYork </｜DSML｜parameter>\n"
     "<｜DSML｜parameter name=\"days\" string=\"false\">3</｜DSML｜parameter>\n</｜DSML｜invoke>\n"
     "<｜DSML｜invoke name=\"now\">\n</｜DSML｜invoke>\n</｜DSML｜tool_calls>",
     "'｜DSML｜' tool_calls>"},
    {"lfm2", "<|tool_call_start|>[weather(city='New\nYork ', days=3), now()]<|tool_call_end|>",
     "<|tool_list_start|>"},
    {"olmo3", "<function_calls>\nweather(city='New\nYork ', days=3)\nnow()\n</function_calls>",
     "<function_calls></function_calls>"},
    {"gemma4",
     "<|tool_call>call:weather{city:<|\"|>New\nYork <|\"|>,days:3}<tool_call|>"
     "<|tool_call>call:now{}<tool_call|>",
     "<|tool_call>call: <tool_call|>"},
};

static void test_parameters(void **state) {
  (void)state;
  for (size_t i = 0; i < sizeof by_parameters / sizeof *by_parameters; i++) {
    const char *text = by_parameters[i].text;
    accel_tools *tools = open_tools(by_parameters[i].family, accel_tools_params_default());
    check_parse(tools, text,
                "C0(weather)A0({\"city\": \"New\\nYork \", \"days\": 3})C1(now)A1({})");
    assert_int_equal(allows(accel_tools_grammar(tools), text), 1);
    check_parse(tools, plain, "T0(Sunny, and {\"a\": 1} < 2.)");
    assert_int_equal(allows(accel_tools_grammar(tools), plain), 1);
    accel_tools_close(&tools);
    is_known_by(by_parameters[i].marks, by_parameters[i].family);
  }
  accel_tools *tools = open_tools("qwen3_coder", accel_tools_params_default());
  assert_int_equal(allows(accel_tools_grammar(tools),
                          "<tool_call>\n<function=weather>\n</function>\n</tool_call>"),
                   0);
  accel_tools_close(&tools);
  /* every description is among those that were tried */
  assert_int_equal(accel_tool_families()->n, sizeof examples / sizeof *examples +
                                                 sizeof by_parameters / sizeof *by_parameters);
}

/* Values in a language's own syntax become JSON's. */
static void test_literals(void **state) {
  static const struct {
    const char *quote, *text, *want; /* want NULL: no value */
  } cases[] = {
      {"'", "'it\\'s \\\"so\\\"\\n'", "\"it's \\\"so\\\"\\n\""},
      {"'", "\"a\\u00e9\\n'\"", "\"a\\u00e9\\n'\""},
      {"'", "[1, -2.5e3 , True,None,]", "[1, -2.5e3, true, null]"},
      {"'", "{'a': ('b', {\"c\": []}), 'd': False}", "{\"a\": [\"b\", {\"c\": []}], \"d\": false}"},
      {"<|\"|>", "{a:<|\"|>x, \"y\"<|\"|>,b:[true,{c:1}]}",
       "{\"a\": \"x, \\\"y\\\"\", \"b\": [true, {\"c\": 1}]}"},
      {"'", "word", NULL},
      {"'", "[1 2]", NULL},
      {"'", "'open", NULL},
      {"'", "{1}", NULL},
      {"'", "", NULL},
  };
  (void)state;
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    accel__buffer out = {0};
    const char *text = cases[i].text;
    const bool is = accel__literal_json(text, strlen(text), cases[i].quote, &out);
    assert_int_equal(is, cases[i].want != NULL);
    if (is) assert_string_equal(out.data, cases[i].want);
    if (!is) assert_int_equal(out.n, 0);
    accel__buffer_free(&out);
  }
  /* apostrophes in a text take the other quotes, and parameters may be left out */
  accel_tools *tools = open_tools("lfm2", accel_tools_params_default());
  static const char call[] = "<|tool_call_start|>[weather(city=\"L'Aquila\")]<|tool_call_end|>";
  check_parse(tools, call, "C0(weather)A0({\"city\": \"L'Aquila\"})");
  assert_int_equal(allows(accel_tools_grammar(tools), call), 1);
  assert_int_equal(allows(accel_tools_grammar(tools), "<|tool_call_start|>[weather(days=3)]"), 0);
  assert_int_equal(allows(accel_tools_grammar(tools), "<|tool_call_start|>[weather()]"), 0);
  /* what is no value is text, and what breaks off is told as far as it came */
  check_parse(tools, "<|tool_call_start|>[weather(city=Oslo)]<|tool_call_end|>",
              "C0(weather)A0({\"city\": \"Oslo\"})");
  check_parse(tools, "<|tool_call_start|>[weather(city='Oslo' days=3)]",
              "C0(weather)A0({\"city\": \"'Oslo' days=3\"})");
  accel_tools_close(&tools);
}

/* What is no call stays text, and what was told is not taken back. */
static void test_no_calls(void **state) {
  static const struct {
    const char *text, *want;
  } cases[] = {
      {"", ""},
      {"a <tool_call> b", "T0(a <tool_call> b)"},
      {"<tool_call>\n{\"name\": \"unknown\", \"arguments\": {}}\n</tool_call>",
       "T0(<tool_call>\n{\"name\": \"unknown\", \"arguments\": {}}\n</tool_call>)"},
      {"<tool_call>{\"name\": \"now\"", "T0(<tool_call>{\"name\": \"now\")"},
      {"<tool_call>{\"name\":\"now\",\"arguments\":{\"a\":[1,", "C0(now)A0({\"a\":[1,)"},
      {"<tool_call>{\"name\":\"now\",\"arguments\":{]}} x", "C0(now)A0({)T0(]}} x)"},
      {"<tool_call>{\"arguments\":{\"a\":1},\"name\":\"now\"}</tool_call> then",
       "C0(now)A0({\"a\":1})T0( then)"},
      {"<tool_call>{\"name\":\"now\",\"arguments\":\"{\\\"a\\\":1}\"}</tool_call>\n",
       "C0(now)A0({\"a\":1})"},
      {"<tool_call>{\"name\":\"now\",\"id\":7}</tool_call>", "C0(now)A0({})"},
      {"<tool_call>{\"id\":[1],\"name\":\"now\",\"arguments\":{\"}\":\"\\\"\"},\"x\":{}}</"
       "tool_call>",
       "C0(now)A0({\"}\":\"\\\"\"})"},
      {"<tool_call><tool_call>{\"name\":\"now\",\"arguments\":{}}</tool_call>",
       "T0(<tool_call>)C0(now)A0({})"},
      {"x \n\n", "T0(x \n\n)"},
      {"<tool_call>{\"name\":\"now\"}</tool", "C0(now)A0({})"},
  };
  (void)state;
  accel_tools *tools = open_tools("mistral_v11", accel_tools_params_default());
  check_parse(tools, "[TOOL_CALLS]now[CALL_ID]a1b2c3d4e[ARGS]{}", "C0(now)A0({})");
  accel_tools_close(&tools);
  tools = open_tools("mistral", accel_tools_params_default());
  check_parse(tools, "[TOOL_CALLS][{\"name\":\"now\"} ,", "C0(now)A0({})");
  check_parse(tools, "[TOOL_CALLS][{\"name\":\"now\"},{\"name", "C0(now)A0({})T0(,{\"name)");
  accel_tools_close(&tools);
  tools = open_tools("hermes", accel_tools_params_default());
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
    if (*cases[i].text) check_parse(tools, cases[i].text, cases[i].want);
  accel_tools_close(&tools);
}

static void check_refused(const char *json, accel_status want, const char *says) {
  accel_tools_params how = accel_tools_params_default();
  accel_tools *tools;
  how.family = "hermes";
  assert_int_equal(accel_tools_open(NULL, json, &how, &tools), want);
  assert_null(tools);
  if (!strstr(accel_last_error(), says)) fail_msg("'%s' lacks '%s'", accel_last_error(), says);
}

static void test_refused(void **state) {
  accel_tools *tools;
  (void)state;
  check_refused("{", ACCEL_ERROR_ARGUMENT, "tools");
  check_refused("[]", ACCEL_ERROR_ARGUMENT, "array");
  check_refused("[{\"type\":\"web\"}]", ACCEL_ERROR_ARGUMENT, "tools[0]: type 'web'");
  check_refused("[{\"name\":\"a b\"}]", ACCEL_ERROR_ARGUMENT, "function.name");
  check_refused("[{\"name\":\"a\"},{\"name\":\"a\"}]", ACCEL_ERROR_ARGUMENT, "twice");
  check_refused("[{\"name\":\"a\",\"strict\":true,\"parameters\":{\"not\":{}}}]",
                ACCEL_ERROR_UNSUPPORTED, "'not'");
  /* not strict: any object */
  accel_tools_params how = accel_tools_params_default();
  how.family = "hermes";
  how.required = 1;
  assert_int_equal(
      accel_tools_open(NULL, "[{\"name\":\"a\",\"parameters\":{\"not\":{}}}]", &how, &tools),
      ACCEL_OK);
  assert_int_equal(
      allows(accel_tools_grammar(tools),
             "<tool_call>\n{\"name\": \"a\", \"arguments\": {\"x\":[1]}}\n</tool_call>"),
      1);
  accel_tools_close(&tools);
  how.family = "none";
  assert_int_equal(accel_tools_open(NULL, tools_json, &how, &tools), ACCEL_ERROR_UNSUPPORTED);
  assert_non_null(strstr(accel_last_error(), "hermes"));
}

/* ---- structural tags ---- */

#define TAG(format) "{\"type\":\"structural_tag\",\"format\":" format "}"

static void test_structural_tags(void **state) {
  static const struct {
    const char *grammar, *text;
    int want;
  } cases[] = {
      {TAG("{\"type\":\"const_string\",\"value\":\"ab\"}"), "ab", 1},
      {TAG("{\"type\":\"const_string\",\"value\":\"ab\"}"), "a", -1},
      {TAG("{\"type\":\"any_text\",\"excludes\":[\"aab\",\"ac\"]}"), "aaa äb", 1},
      {TAG("{\"type\":\"any_text\",\"excludes\":[\"aab\",\"ac\"]}"), "aaab", 0},
      {TAG("{\"type\":\"any_text\",\"excludes\":[\"aab\",\"ac\"]}"), "aac", 0},
      {TAG("{\"type\":\"any_text\",\"excludes\":[\"äö\"]}"), "ääo", 1},
      {TAG("{\"type\":\"any_text\",\"excludes\":[\"äö\"]}"), "ääö", 0},
      {TAG("{\"type\":\"tag\",\"begin\":\"<\",\"content\":{\"type\":\"any_text\"},\"end\":\">\"}"),
       "<a b>", 1},
      {TAG("{\"type\":\"tag\",\"begin\":\"<\",\"content\":{\"type\":\"any_text\"},\"end\":\">\"}"),
       "<a>b>", 0},
      {TAG("{\"type\":\"sequence\",\"elements\":[{\"type\":\"regex\",\"pattern\":\"a+\"},"
           "{\"type\":\"optional\",\"content\":{\"type\":\"json_schema\",\"json_schema\":"
           "{\"type\":\"integer\"}}}]}"),
       "aa-12", 1},
      {TAG("{\"type\":\"triggered_tags\",\"triggers\":[\"<\"],\"at_least_one\":true,\"tags\":["
           "{\"begin\":\"<a>\",\"content\":{\"type\":\"json_schema\",\"json_schema\":"
           "{\"type\":\"boolean\"}},\"end\":\"</a>\"}]}"),
       "x <a>true</a> y <a>false</a>", 1},
      {TAG("{\"type\":\"triggered_tags\",\"triggers\":[\"<\"],\"at_least_one\":true,\"tags\":["
           "{\"begin\":\"<a>\",\"content\":{\"type\":\"json_schema\",\"json_schema\":"
           "{\"type\":\"boolean\"}},\"end\":\"</a>\"}]}"),
       "x", -1},
      {TAG("{\"type\":\"triggered_tags\",\"triggers\":[\"<\"],\"tags\":["
           "{\"begin\":\"<a>\",\"content\":{\"type\":\"any_text\"},\"end\":\"</a>\"}]}"),
       "x <b>", 0},
  };
  (void)state;
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
    if (allows(cases[i].grammar, cases[i].text) != cases[i].want)
      fail_msg("%s: %s is not %d", cases[i].grammar, cases[i].text, cases[i].want);
}

static void test_structural_tags_refused(void **state) {
  static const struct {
    const char *grammar;
    accel_status status;
    const char *says;
  } cases[] = {
      {"[]", ACCEL_ERROR_ARGUMENT, "object with a type"},
      {TAG("{\"type\":\"token\"}"), ACCEL_ERROR_UNSUPPORTED, "'token'"},
      {TAG("{\"type\":\"tag\",\"begin\":\"\"}"), ACCEL_ERROR_ARGUMENT, "begin"},
      {TAG("{\"type\":\"or\",\"elements\":[]}"), ACCEL_ERROR_ARGUMENT, "elements"},
      {TAG("{\"type\":\"any_text\",\"excludes\":[\"\"]}"), ACCEL_ERROR_ARGUMENT, "not empty"},
      {TAG("{\"type\":\"json_schema\",\"json_schema\":{\"not\":{}}}"), ACCEL_ERROR_UNSUPPORTED,
       "'not'"},
      {TAG("{\"type\":\"regex\",\"pattern\":\"(\"}"), ACCEL_ERROR_ARGUMENT, "expression"},
  };
  (void)state;
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    accel__grammar *g;
    assert_int_equal(accel__grammar_compile(ACCEL_GRAMMAR_STRUCTURAL_TAG, cases[i].grammar,
                                            strlen(cases[i].grammar), &g),
                     cases[i].status);
    if (!strstr(accel__message(), cases[i].says))
      fail_msg("%s: '%s' lacks '%s'", cases[i].grammar, accel__message(), cases[i].says);
  }
}

/* A special token comes where the grammar names it, and nowhere else. */
static void test_special_tokens(void **state) {
  static const char bytes[] = "ab\xFF[T]\xFF[S]";
  static const uint32_t offset[] = {0, 1, 2, 6, 10};
  static const char grammar[] =
      "{\"special_tokens\":[\"[T]\"],\"format\":{\"type\":\"triggered_tags\",\"triggers\":[\"[T]\"]"
      ","
      "\"tags\":[{\"begin\":\"[T]\",\"content\":{\"type\":\"any_text\"},\"end\":\"b\"}]}}";
  accel__token_trie *trie;
  accel__grammar *g;
  accel__matcher *m;
  const uint64_t *allowed;
  bool may_end;
  uint32_t at = ACCEL__MATCH_START;
  (void)state;
  assert_int_equal(accel__token_trie_make(bytes, offset, 4, false, &trie), ACCEL_OK);
  assert_int_equal(
      accel__grammar_compile(ACCEL_GRAMMAR_STRUCTURAL_TAG, grammar, strlen(grammar), &g), ACCEL_OK);
  assert_int_equal(accel__matcher_open(g, trie, &m), ACCEL_OK);
  assert_int_equal(accel__matcher_mask(m, at, &allowed, &may_end), ACCEL_OK);
  assert_int_equal(allowed[0], 0x7); /* a, b and [T], not [S] */
  assert_true(may_end);
  assert_int_equal(accel__matcher_advance(m, at, 2, &at), ACCEL_OK);
  assert_int_equal(accel__matcher_mask(m, at, &allowed, &may_end), ACCEL_OK);
  assert_int_equal(allowed[0], 0x3);
  assert_false(may_end);
  accel__matcher_close(&m);
  accel__grammar_release(&g);
  accel__token_trie_free(&trie);
}

/* ---- what templates write ---- */

static const accel__json *part(const accel__json *parts, const accel__json *one, const char *key) {
  const accel__json *index = accel__json_get(one, key);
  return index ? cJSON_GetArrayItem(parts, index->valueint) : NULL;
}

/* The last place before `end` where text[0..end) has the first n bytes of `what`. */
static const char *last_before(const char *text, const char *end, const char *what, size_t n) {
  for (const char *at = end - n; at >= text; at--)
    if (!strncmp(at, what, n)) return at;
  return NULL;
}

/* The parser reads the call that the template of a family has written into the conversation. */
static bool reads_back(const accel_tools *tools, const char *rendered) {
  size_t n;
  const char *trigger = accel__tool_trigger(tools->family, &n), *value = strstr(rendered, "Köln");
  if (!value) return false;                           /* no call in this conversation */
  if (!n) trigger = "{\"name\"", n = strlen(trigger); /* the whole text is a call */
  const char *begin = last_before(rendered, value, trigger, n);
  assert_non_null(begin);
  char *got = parse(tools, begin, 7), *call = strstr(got, "C0(get_weather)A0(");
  if (!call) fail_msg("%s: %s\ngives %s", accel_tools_family(tools), begin, got);
  accel__json_file file;
  const char *arguments = call + strlen("C0(get_weather)A0("), *end = strchr(arguments, '}');
  assert_non_null(end);
  assert_int_equal(accel__json_parse(arguments, (size_t)(end + 1 - arguments), "arguments", &file),
                   ACCEL_OK);
  assert_string_equal(accel__json_get(file.root, "city")->valuestring, "Köln");
  assert_int_equal(accel__json_get(file.root, "days")->valueint, 2);
  accel__json_free(&file);
  free(got);
  return true;
}

/* Templates as they are published, with what transformers made of them; not DeepSeek's and gpt-oss',
 * which write calls of the past in another way than models write theirs. */
static void test_calls_of_templates_are_read(void **state) {
  static const char *const families[] = {"hermes", "llama3", "mistral"};
  static const char weather[] = "[{\"type\":\"function\",\"function\":{\"name\":\"get_weather\"}}]";
  uint32_t read[3] = {0};
  accel__json_file file = {0};
  (void)state;
  assert_int_equal(accel__json_read(ACCEL_FIXTURES "/templates/cases.json", 0, &file), ACCEL_OK);
  const accel__json *parts = accel__json_get(file.root, "parts");
  ACCEL_JSON_EACH(one, accel__json_get(file.root, "cases")) {
    const accel__json *template = part(parts, one, "template"), *tool = part(parts, one, "tools"),
                      *expected = accel__json_get(one, "expected");
    accel__chat_template *chat = NULL;
    accel_tools *tools = NULL;
    if (!tool || cJSON_IsNull(tool) || !expected) continue;
    assert_int_equal(accel__chat_template_parse(template->valuestring,
                                                strlen(template->valuestring), "case", &chat),
                     ACCEL_OK);
    const accel_tools_params params = accel_tools_params_default();
    if (accel__tools_make(chat, weather, &params, &tools) == ACCEL_OK)
      for (int i = 0; i < 3; i++)
        if (!strcmp(accel_tools_family(tools), families[i]))
          read[i] += reads_back(tools, expected->valuestring);
    accel__tools_free(tools);
    accel__chat_template_free(&chat);
  }
  accel__json_free(&file);
  for (int i = 0; i < 3; i++)
    if (!read[i]) fail_msg("no call of %s", families[i]);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_families),
      cmocka_unit_test(test_families_are_known_by_their_templates),
      cmocka_unit_test(test_calls_of_templates_are_read),
      cmocka_unit_test(test_parameters),
      cmocka_unit_test(test_literals),
      cmocka_unit_test(test_no_calls),
      cmocka_unit_test(test_refused),
      cmocka_unit_test(test_structural_tags),
      cmocka_unit_test(test_structural_tags_refused),
      cmocka_unit_test(test_special_tokens),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
