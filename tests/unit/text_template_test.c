/* text_template_test.c - chat templates against what transformers rendered
 * (tests/goldens/make_template_goldens.py), and the ways they may fail. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "text/chat_template.h"

static const struct tm fixed = {.tm_year = 124,
                                .tm_mon = 6,
                                .tm_mday = 26,
                                .tm_hour = 13,
                                .tm_min = 5,
                                .tm_wday = 5,
                                .tm_yday = 207};

static const accel__json *part(const accel__json *parts, const accel__json *one, const char *key) {
  const accel__json *index = accel__json_get(one, key);
  return index ? cJSON_GetArrayItem(parts, index->valueint) : NULL;
}

static accel_status render_case(const accel__json *parts, const accel__json *one,
                                accel__buffer *out) {
  const char *text = part(parts, one, "template")->valuestring;
  accel__chat_template *chat = NULL;
  accel__chat_request how = {
      .messages = part(parts, one, "messages"),
      .tools = part(parts, one, "tools"),
      .documents = part(parts, one, "documents"),
      .variables = part(parts, one, "variables"),
      .add_generation_prompt = cJSON_IsTrue(accel__json_get(one, "add_generation_prompt")),
      .continue_final_message = cJSON_IsTrue(accel__json_get(one, "continue_final_message")),
      .now = &fixed};
  accel_status status = accel__chat_template_parse(text, strlen(text), "case", &chat);
  if (status == ACCEL_OK) status = accel__chat_template_render(chat, &how, out, NULL);
  accel__chat_template_free(&chat);
  return status;
}

static void test_goldens(void **state) {
  accel__json_file file = {0};
  size_t wrong = 0, n = 0;
  (void)state;
  assert_int_equal(accel__json_read(ACCEL_FIXTURES "/templates/cases.json", 0, &file), ACCEL_OK);
  const accel__json *parts = accel__json_get(file.root, "parts");
  ACCEL_JSON_EACH(one, accel__json_get(file.root, "cases")) {
    accel__buffer out = {0};
    accel_status status = render_case(parts, one, &out);
    const accel__json *expected = accel__json_get(one, "expected");
    bool same = expected ? status == ACCEL_OK && strcmp(out.data, expected->valuestring) == 0
                         : status != ACCEL_OK;
    if (!same) {
      wrong++;
      print_message(
          "template: %s\nexpected: %s\nfound: %s\n", part(parts, one, "template")->valuestring,
          expected ? expected->valuestring : "(an error)", status ? accel__message() : out.data);
    }
    n++;
    accel__buffer_free(&out);
  }
  accel__json_free(&file);
  assert_true(n > 300);
  assert_int_equal(wrong, 0);
}

static accel_status render_text(const char *template, accel__buffer *out,
                                accel__chat_spans *spans) {
  static const char messages[] =
      "[{\"role\": \"user\", \"content\": \"hi\"}, {\"role\": \"assistant\", \"content\": \"ho\"}]";
  accel__json_file file = {0};
  accel__chat_template *chat = NULL;
  assert_int_equal(accel__json_parse(messages, strlen(messages), "messages", &file), ACCEL_OK);
  accel__chat_request how = {.messages = file.root, .now = &fixed};
  accel_status status = accel__chat_template_parse(template, strlen(template), "T.jinja", &chat);
  if (status == ACCEL_OK) status = accel__chat_template_render(chat, &how, out, spans);
  accel__chat_template_free(&chat);
  accel__json_free(&file);
  return status;
}

static void check_fails(const char *template, accel_status code, const char *says) {
  accel__buffer out = {0};
  assert_int_equal(render_text(template, &out, NULL), code);
  if (!strstr(accel__message(), says)) fail_msg("'%s' does not say '%s'", accel__message(), says);
  assert_int_equal(out.n, 0);
  accel__buffer_free(&out);
}

static void test_errors(void **state) {
  (void)state;
  check_fails("\n\n{{ nothing.at_all }}", ACCEL_ERROR_FORMAT,
              "T.jinja: line 3: 'nothing' is undefined");
  check_fails("{% if messages %}\n{{ raise_exception('no ' ~ 7) }}{% endif %}",
              ACCEL_ERROR_ARGUMENT, "line 2: the template refuses these messages: no 7");
  check_fails("a\n{% for x in y %}", ACCEL_ERROR_FORMAT,
              "line 2: the template ends before 'endfor'");
  check_fails("{{ 1 | nosuch }}", ACCEL_ERROR_UNSUPPORTED, "no filter named 'nosuch'");
  check_fails("{{ 1 is nosuch }}", ACCEL_ERROR_UNSUPPORTED, "no test named 'nosuch'");
  check_fails("{% include 'other' %}", ACCEL_ERROR_UNSUPPORTED, "cannot reach other templates");
  check_fails("{{ 9223372036854775807 + 1 }}", ACCEL_ERROR_UNSUPPORTED, "64 bits");
  check_fails("{{ messages.append(1) }}", ACCEL_ERROR_FORMAT, "'append' is undefined");
  check_fails("\xff", ACCEL_ERROR_FORMAT, "UTF-8");
}

/* Templates without end are errors, each within a moment. */
static void test_limits(void **state) {
  (void)state;
  check_fails("{% macro f(x) %}{{ f(x) }}{% endmacro %}{{ f(1) }}", ACCEL_ERROR_LIMIT,
              "nested more than");
  check_fails(
      "{% for a in range(99999) %}{% for b in range(99999) %}{% for c in range(99999) %}{% endfor "
      "%}{% endfor %}{% endfor "
      "%}",
      ACCEL_ERROR_LIMIT, "does it loop?");
  check_fails("{% for a in range(999999999) %}{% endfor %}", ACCEL_ERROR_LIMIT, "range()");
  check_fails("{{ 'abcdefgh' * 99999999999 }}", ACCEL_ERROR_LIMIT, "larger than");
  check_fails("{% for a in range(9999) %}{{ 'x' * 100000 }}{% endfor %}", ACCEL_ERROR_LIMIT,
              "T.jinja");
  check_fails(
      "{% set ns = namespace(s='x') %}{% for a in range(99) %}{% set ns.s = ns.s + ns.s %}{% "
      "endfor %}",
      ACCEL_ERROR_LIMIT, "T.jinja");
  check_fails(
      "{% set ns = namespace(s=[1]) %}{% for a in range(99) %}{% set ns.s = ns.s + ns.s %}{% "
      "endfor %}",
      ACCEL_ERROR_LIMIT, "T.jinja");
  check_fails(
      "{% set ns = namespace(s=[]) %}{% for a in range(9999) %}{% set ns.s = [ns.s] %}{% endfor "
      "%}{{ ns.s }}",
      ACCEL_ERROR_LIMIT, "nested too deeply");
  check_fails(
      "{% set ns = namespace(s=[]) %}{% for a in range(9999) %}{% set ns.s = [ns.s] %}{% endfor "
      "%}{{ ns.s == ns.s }}",
      ACCEL_ERROR_LIMIT, "nested more than");
  check_fails("{% set ns = namespace(s=[]) %}{% set ns.s = [ns] %}{{ ns.s }}", ACCEL_ERROR_LIMIT,
              "nested too deeply");
  check_fails("{{ '%999999999d' % 1 ~ '%9999999s' % 'x' * 100 }}", ACCEL_ERROR_LIMIT, "T.jinja");
}

static void test_deep_text(void **state) {
  static const char *const open[] = {"(", "[", "{% if 1 %}", "-", "not ", "{'a':"};
  (void)state;
  for (size_t k = 0; k < sizeof open / sizeof *open; ++k) {
    accel__buffer text = {0}, out = {0};
    if (open[k][0] != '{' || open[k][1] == '\'') accel__buffer_text(&text, "{{ ");
    for (int i = 0; i < 100000; ++i) accel__buffer_text(&text, open[k]);
    assert_int_equal(render_text(text.data, &out, NULL), ACCEL_ERROR_FORMAT);
    accel__buffer_free(&text);
    accel__buffer_free(&out);
  }
}

static void test_spans(void **state) {
  accel__buffer out = {0};
  accel__chat_spans spans = {0};
  (void)state;
  assert_int_equal(render_text("{% for m in messages %}<{{ m.role }}>{% generation %}{{ m.content "
                               "}}.{% endgeneration %}{% endfor %}",
                               &out, &spans),
                   ACCEL_OK);
  assert_string_equal(out.data, "<user>hi.<assistant>ho.");
  assert_int_equal(spans.n, 2);
  assert_int_equal(spans.at[0].start, 6);
  assert_int_equal(spans.at[0].end, 9);
  assert_int_equal(spans.at[1].start, 20);
  assert_int_equal(spans.at[1].end, 23);
  free(spans.at);
  accel__buffer_free(&out);
}

static void test_requests(void **state) {
  static const char *const bad[] = {"[]", "{}", "\"hi\"", "[1]", "[[]]"};
  accel__chat_template *chat = NULL;
  accel__buffer out = {0};
  (void)state;
  assert_int_equal(accel__chat_template_parse("x", 1, "T", &chat), ACCEL_OK);
  assert_int_equal(accel__chat_template_count(chat), 1);
  assert_string_equal(accel__chat_template_name(chat, 0), "default");
  assert_string_equal(accel__chat_template_text(chat, 0), "x");
  for (size_t i = 0; i < sizeof bad / sizeof *bad; ++i) {
    accel__json_file file = {0};
    assert_int_equal(accel__json_parse(bad[i], strlen(bad[i]), "messages", &file), ACCEL_OK);
    assert_int_equal(accel__chat_template_render(
                         chat, &(accel__chat_request){.messages = file.root}, &out, NULL),
                     ACCEL_ERROR_ARGUMENT);
    accel__json_free(&file);
  }
  accel__json_file file = {0};
  assert_int_equal(accel__json_parse("[{\"role\":\"user\"}]", 17, "messages", &file), ACCEL_OK);
  assert_int_equal(
      accel__chat_template_render(
          chat, &(accel__chat_request){.messages = file.root, .name = "rag"}, &out, NULL),
      ACCEL_ERROR_ARGUMENT);
  assert_non_null(strstr(accel__message(), "rag"));
  accel__json_free(&file);
  accel__buffer_free(&out);
  accel__chat_template_free(&chat);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_goldens), cmocka_unit_test(test_errors),
      cmocka_unit_test(test_limits),  cmocka_unit_test(test_deep_text),
      cmocka_unit_test(test_spans),   cmocka_unit_test(test_requests)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
