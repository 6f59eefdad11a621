/* text_grammar_test.c - grammars of every kind: which texts they allow, byte by byte and by masks
 * over small vocabularies; what is refused, by name and in time; masks against a search by brute
 * force; threads that share a grammar. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "core/text.h"
#include "text/grammar/grammar.h"

#define SCHEMA ACCEL_GRAMMAR_JSON_SCHEMA
#define REGEX  ACCEL_GRAMMAR_REGEX
#define TEXT   ACCEL_GRAMMAR_TEXT

/* The tokens are all bytes, and `more`, NUL behind each, an empty one at the end. */
static accel__token_trie *trie_of(const char *more, bool strips_space) {
  accel__buffer bytes = {0};
  uint32_t offset[600] = {0}, n = 0;
  for (int b = 0; b < 256; b++) {
    const char c = (char)b;
    offset[n++] = (uint32_t)bytes.n;
    accel__buffer_bytes(&bytes, &c, 1);
  }
  for (const char *p = more; *p; p += strlen(p) + 1) {
    offset[n++] = (uint32_t)bytes.n;
    accel__buffer_text(&bytes, p);
  }
  offset[n] = (uint32_t)bytes.n;
  accel__token_trie *trie;
  assert_int_equal(accel__token_trie_make(bytes.data, offset, n, strips_space, &trie), ACCEL_OK);
  accel__buffer_free(&bytes);
  return trie;
}

static accel__grammar *compile(accel_grammar_kind kind, const char *source) {
  accel__grammar *g;
  const accel_status status = accel__grammar_compile(kind, source, strlen(source), &g);
  if (status != ACCEL_OK) print_error("%s: %s\n", source, accel__message());
  assert_int_equal(status, ACCEL_OK);
  return g;
}

/* Is the whole text one of the grammar's?  Each byte must be in the mask if and only if it can be
 * read. */
static bool reads(accel__matcher *m, const char *text) {
  uint32_t state = ACCEL__MATCH_START, next;
  const uint64_t *allowed;
  bool may_end;
  for (const char *p = text; *p; p++) {
    const uint8_t b = (uint8_t)*p;
    assert_int_equal(accel__matcher_mask(m, state, &allowed, &may_end), ACCEL_OK);
    const bool in_mask = allowed[b / 64] >> (b % 64) & 1;
    assert_int_equal(accel__matcher_advance(m, state, b, &next), ACCEL_OK);
    assert_int_equal(in_mask, next != ACCEL__MATCH_FAILED);
    if (next == ACCEL__MATCH_FAILED) return false;
    state = next;
  }
  assert_int_equal(accel__matcher_mask(m, state, &allowed, &may_end), ACCEL_OK);
  return may_end;
}

typedef struct example {
  accel_grammar_kind kind;
  const char *source;
  const char *good[8], *bad[8];
} example;

static void check_examples(const example *examples, size_t n) {
  accel__token_trie *trie = trie_of("", false);
  for (size_t i = 0; i < n; i++) {
    accel__grammar *g = compile(examples[i].kind, examples[i].source);
    accel__matcher *m;
    assert_int_equal(accel__matcher_open(g, trie, &m), ACCEL_OK);
    for (int k = 0; k < 8 && examples[i].good[k]; k++)
      if (!reads(m, examples[i].good[k]))
        fail_msg("%s refuses %s", examples[i].source, examples[i].good[k]);
    for (int k = 0; k < 8 && examples[i].bad[k]; k++)
      if (reads(m, examples[i].bad[k]))
        fail_msg("%s takes %s", examples[i].source, examples[i].bad[k]);
    accel__matcher_close(&m);
    accel__grammar_release(&g);
  }
  accel__token_trie_free(&trie);
}
#define CHECK(examples) check_examples(examples, sizeof(examples) / sizeof *(examples))

static void test_expressions(void **state) {
  static const example examples[] = {
      {REGEX, "[0-9]+", {"0", "123"}, {"", "a", "1a"}},
      {REGEX, "^a|bc?$", {"a", "b", "bc"}, {"abc", "c"}},
      {REGEX, "(ab){2,3}(c|d)*x{0}", {"abab", "ababab", "ababccd"}, {"ab", "abababab", "ababx"}},
      {REGEX, "[^a-c\\d]\\w\\.ä.", {"xy.ä€"}, {"ay.äz", "xy.ä\n", "é1.äz"}},
      {REGEX, "a{3,}", {"aaa", "aaaaaa"}, {"aa"}},
      {REGEX, "(a?b?)*c", {"c", "abc", "bbac"}, {"ab"}},
      {REGEX, "(a|(b(c|d)*)+)?", {"", "a", "bcdb"}, {"ac"}},
      {REGEX, "\\u00e4\\x41[\\u4e00-\\u9fff]", {"äA中"}, {"äA가"}},
      {REGEX, "[\\u{1F600}-\\u{1F64F}]\\ud83d\\ude00?", {"😀", "🙏😀"}, {"🚀"}},
      {REGEX, "(?:x|(?<n>y)){2}[\\]-]?", {"xy-", "yy"}, {"x"}}};
  (void)state;
  CHECK(examples);
}

static void test_texts_and_choices(void **state) {
  static const example examples[] = {
      {TEXT,
       "root ::= expr\nexpr ::= term ((\"+\" | \"-\") term)*  # a sum\n"
       "term ::= num | \"(\" expr \")\"\nnum ::= [0-9]+",
       {"1+2", "(1-2)+3", "((4))"},
       {"1+", "()", "(1"}},
      {TEXT,
       "root ::= \"a\" list\nlist ::= item |\n  item list\nitem ::= [b-d]{2}",
       {"abb", "abbcd"},
       {"ab", "abbc"}},
      {TEXT, "root ::= a* \"x\"\na ::= \"y\"?", {"x", "yyx"}, {"y"}},
      {TEXT, "root ::= (\n \"q\"\n | . \"\\n\" )\n\n", {"q", "ä\n"}, {"ä"}},
      {ACCEL_GRAMMAR_CHOICES,
       "[\"yes\",\"no\",\"yes please\"]",
       {"yes", "no", "yes please"},
       {"ye", "yes ", "nope"}},
      {ACCEL_GRAMMAR_JSON,
       "",
       {"{}", "[]", "\"a\\u00e9\\n\"", "-1.5e+3", "{\"a\":[1,true,null,{\"b\":\"\"}]}", "[[[]]]",
        "\"\\ud83d\\ude00\""},
       {"{ }", "[1,]", "01", "nul", "{\"a\"}", "\"\\ud800\"", "1."}}};
  (void)state;
  CHECK(examples);
}

static void test_objects(void **state) {
  static const example examples[] = {
      {SCHEMA,
       "{\"type\":\"object\",\"properties\":{\"a\":{\"type\":\"integer\"},\"b\":{\"type\":"
       "\"string\",\"maxLength\":3},\"c\":{\"enum\":[1,\"x\",null,{\"k\":[1,2]}]}},\"required\":["
       "\"a\",\"c\"]}",
       {"{\"a\":1,\"c\":1}", "{\"a\":-20,\"b\":\"xyz\",\"c\":\"x\"}", "{\"a\":0,\"c\":null}",
        "{\"a\":0,\"c\":{\"k\":[1,2]}}"},
       {"{}", "{\"a\":1}", "{\"c\":1,\"a\":1}", "{\"a\":1,\"b\":\"wxyz\",\"c\":1}",
        "{\"a\":1,\"c\":1,\"d\":1}"}},
      {SCHEMA,
       "{\"$ref\":\"#/$defs/n\",\"$defs\":{\"n\":{\"type\":\"object\",\"properties\":{\"v\":{"
       "\"type\":\"integer\"},\"next\":{\"anyOf\":[{\"$ref\":\"#/$defs/n\"},{\"type\":\"null\"}]}},"
       "\"required\":[\"v\",\"next\"],\"additionalProperties\":false}}}",
       {"{\"v\":1,\"next\":null}", "{\"v\":1,\"next\":{\"v\":2,\"next\":null}}"},
       {"{\"v\":1}"}},
      {SCHEMA,
       "{\"type\":\"object\",\"properties\":{\"ab\":{\"type\":\"integer\"}},"
       "\"additionalProperties\":{\"type\":\"boolean\"}}",
       {"{}", "{\"ab\":1}", "{\"ab\":1,\"a\":true}", "{\"abc\":false,\"x\":true}", "{\"\":true}"},
       {"{\"ab\":true}", "{\"a\":1}"}},
      {SCHEMA,
       "{\"properties\":{\"q\\\"\":{\"const\":1}},\"additionalProperties\":{\"const\":2}}",
       {"{\"q\\\"\":1,\"q\":2,\"\\\"\":2}"},
       {"{\"q\\\"\":2}", "{\"\\u0071\":2}"}},
      {SCHEMA, "{\"type\":\"object\"}", {"{}", "{\"q\":[{}]}"}, {"[]"}},
      {SCHEMA,
       "{\"allOf\":[{\"type\":\"object\",\"properties\":{\"a\":{\"type\":\"integer\",\"minimum\":3}"
       "}},{\"properties\":{\"a\":{\"maximum\":5},\"b\":{\"type\":\"null\"}},\"required\":[\"a\"]}"
       "]}",
       {"{\"a\":4}", "{\"a\":3,\"b\":null}"},
       {"{\"a\":6}", "{}"}},
      {SCHEMA,
       "{\"oneOf\":[{\"type\":\"string\"},{\"type\":\"integer\"}]}",
       {"\"a\"", "5"},
       {"1.5"}},
      {SCHEMA,
       "{\"oneOf\":[{\"type\":\"object\",\"properties\":{\"k\":{\"const\":\"a\"}},\"required\":["
       "\"k\"]},{\"type\":\"object\",\"properties\":{\"k\":{\"const\":\"b\"},\"n\":{\"type\":"
       "\"integer\"}},\"required\":[\"k\",\"n\"]}]}",
       {"{\"k\":\"a\"}", "{\"k\":\"b\",\"n\":1}"},
       {"{\"k\":\"b\"}"}},
      {SCHEMA,
       "{\"properties\":{\"a\":{\"type\":\"null\"}},\"additionalProperties\":false,\"allOf\":[{"
       "\"properties\":{\"b\":{\"type\":\"null\"}}}]}",
       {"{}", "{\"a\":null}"},
       {"{\"b\":null}"}},
      {SCHEMA, "true", {"1", "{\"a\":{}}"}, {"x"}},
      {SCHEMA, "{\"description\":\"any\"}", {"1", "[]"}, {"x"}}};
  (void)state;
  CHECK(examples);
}

static void test_arrays_and_strings(void **state) {
  static const example examples[] = {
      {SCHEMA,
       "{\"type\":\"array\",\"prefixItems\":[{\"type\":\"integer\"},{\"type\":\"string\"}],"
       "\"items\":false}",
       {"[]", "[1]", "[1,\"a\"]"},
       {"[\"a\"]", "[1,\"a\",1]"}},
      {SCHEMA,
       "{\"items\":{\"type\":\"null\"},\"minItems\":2}",
       {"[null,null]", "[null,null,null]"},
       {"[null]", "[1,2]"}},
      {SCHEMA,
       "{\"prefixItems\":[{\"const\":1}],\"items\":{\"const\":2}}",
       {"[]", "[1,2,2]"},
       {"[2]"}},
      {SCHEMA,
       "{\"type\":\"string\",\"pattern\":\"^[a-z]+\\\\d?$\",\"minLength\":2,\"maxLength\":4}",
       {"\"ab\"", "\"abc1\""},
       {"\"a\"", "\"abcd1\"", "\"1\""}},
      {SCHEMA,
       "{\"type\":\"string\",\"pattern\":\"b\\\"\"}",
       {"\"ab\\\"c\"", "\"b\\\"\""},
       {"\"ab\""}},
      {SCHEMA, "{\"pattern\":\"^a|b$\"}", {"\"axx\"", "\"xxb\""}, {"\"ba\""}},
      {SCHEMA,
       "{\"minLength\":2,\"maxLength\":3}",
       {"\"ää\"", "\"\\n\\u00e4x\""},
       {"\"ä\"", "\"abcd\""}},
      {SCHEMA, "{\"format\":\"date\"}", {"\"2024-02-28\""}, {"\"2024-02-30\"", "\"2024-13-01\""}},
      {SCHEMA, "{\"format\":\"date-time\"}", {"\"2024-02-28T23:59:59.5Z\""}, {"\"2024-02-28\""}},
      {SCHEMA, "{\"format\":\"email\"}", {"\"a.b@c.de\""}, {"\"a@b\"", "\"a..b@c.de\""}},
      {SCHEMA, "{\"format\":\"ipv4\"}", {"\"255.1.0.19\""}, {"\"256.1.1.1\"", "\"01.1.1.1\""}},
      {SCHEMA,
       "{\"type\":[\"string\",\"null\"],\"format\":\"uuid\"}",
       {"null", "\"01234567-89ab-cdef-0123-456789abcdef\""},
       {"\"x\""}},
      {SCHEMA, "{\"const\":\"q\\\"\\u0007\"}", {"\"q\\\"\\u0007\""}, {"\"q\""}}};
  (void)state;
  CHECK(examples);
}

static void test_numbers(void **state) {
  static const example examples[] = {
      {SCHEMA,
       "{\"type\":\"array\",\"items\":{\"type\":\"integer\",\"minimum\":-12,\"maximum\":105},"
       "\"minItems\":1,\"maxItems\":3}",
       {"[1]", "[-12,105,99]", "[0,-1]", "[100]", "[-9]", "[-0]"},
       {"[]", "[106]", "[-13]", "[1,2,3,4]", "[200]", "[01]"}},
      {SCHEMA,
       "{\"type\":\"number\",\"minimum\":0.5,\"exclusiveMaximum\":20}",
       {"0.5", "1", "0.50", "0.51", "19.999", "3.25", "9"},
       {"0", "0.49", "20", "20.0", "-1", "0.4999", "100"}},
      {SCHEMA,
       "{\"type\":\"number\",\"exclusiveMinimum\":-2.5}",
       {"-2.4", "-2.49", "-1", "0", "7", "123456", "-0.5"},
       {"-2.5", "-2.51", "-3", "-10", "-2.50"}},
      {SCHEMA,
       "{\"type\":\"integer\",\"exclusiveMinimum\":0,\"maximum\":1000}",
       {"1", "1000", "999"},
       {"0", "-0", "-1", "1001"}},
      {SCHEMA,
       "{\"type\":\"integer\",\"minimum\":0.5,\"maximum\":7.2}",
       {"1", "7"},
       {"0", "8", "1.5"}},
      {SCHEMA,
       "{\"exclusiveMaximum\":0,\"type\":\"number\"}",
       {"-1", "-0.5"},
       {"0", "-0", "-0.0", "1"}},
      {SCHEMA, "{\"type\":\"number\"}", {"0", "-1.5E-7"}, {"+1", ".5"}}};
  (void)state;
  CHECK(examples);
}

static void test_multiples(void **state) {
  static const example examples[] = {
      {SCHEMA,
       "{\"type\":\"integer\",\"multipleOf\":7}",
       {"0", "-0", "7", "-14", "700", "123456789123456782"},
       {"1", "-13", "007", "7.0", "701"}},
      {SCHEMA,
       "{\"type\":\"integer\",\"multipleOf\":12,\"minimum\":-30,\"exclusiveMaximum\":36}",
       {"-24", "-12", "0", "24"},
       {"36", "-36", "6", "30"}},
      {SCHEMA,
       "{\"multipleOf\":0.25,\"minimum\":0,\"maximum\":2}",
       {"0", "0.25", "0.5", "0.50", "1.75", "2", "2.00", "0.0"},
       {"0.2", "0.3", "1.1", "0.500", "2.25", "-0.25", "1.76"}},
      {SCHEMA,
       "{\"type\":\"integer\",\"allOf\":[{\"multipleOf\":4},{\"multipleOf\":6},{\"multipleOf\":2.5}"
       "]}",
       {"0", "60", "-120"},
       {"12", "24", "30", "10"}},
      {SCHEMA, "{\"type\":\"number\",\"multipleOf\":100}", {"100", "0", "-2500"}, {"10", "100.0"}},
      {SCHEMA,
       "{\"type\":\"integer\",\"format\":\"int32\"}",
       {"-2147483648", "2147483647", "0", "99"},
       {"-2147483649", "2147483648", "1e3"}},
      {SCHEMA,
       "{\"type\":\"integer\",\"format\":\"uint8\",\"minimum\":-5,\"maximum\":300}",
       {"0", "255"},
       {"-1", "256"}},
      {SCHEMA,
       "{\"type\":\"integer\",\"format\":\"int64\"}",
       {"-9223372036854775808", "9223372036854775807"},
       {"-9223372036854775809", "9223372036854775808"}},
      {SCHEMA,
       "{\"type\":\"number\",\"format\":\"uint64\"}",
       {"18446744073709551615", "0"},
       {"18446744073709551616", "-1", "0.5"}},
      {SCHEMA,
       "{\"type\":[\"number\",\"string\"],\"format\":\"double\"}",
       {"1.5e3", "\"any\""},
       {"x"}},
      {SCHEMA,
       "{\"type\":[\"integer\",\"string\"],\"format\":\"ipv4\"}",
       {"7", "\"1.2.3.4\""},
       {"\"x\""}}};
  (void)state;
  CHECK(examples);
}

static void test_patterns_of_names(void **state) {
  static const example examples[] = {
      {SCHEMA,
       "{\"type\":\"object\",\"patternProperties\":{\"^x_\":{\"type\":\"integer\"}},"
       "\"additionalProperties\":false}",
       {"{}", "{\"x_\":1}", "{\"x_a\":1,\"x_b\":-2}"},
       {"{\"x\":1}", "{\"x_a\":true}", "{\"ax_\":1}"}},
      {SCHEMA,
       "{\"patternProperties\":{\"a\":{\"minimum\":3},\"b\":{\"type\":\"integer\",\"maximum\":5}},"
       "\"additionalProperties\":{\"type\":\"null\"}}",
       {"{\"ab\":4}", "{\"a\":7.5,\"b\":0,\"xabx\":3,\"c\":null,\"\":null}"},
       {"{\"ab\":6}", "{\"ab\":2}", "{\"ba\":3.5}", "{\"c\":1}", "{\"a\":null}", "{\"b\":6}"}},
      {SCHEMA,
       "{\"properties\":{\"n1\":{\"type\":\"integer\"},\"k\":{\"type\":\"null\"}},\"required\":["
       "\"n1\"],\"patternProperties\":{\"^n\\\\d$\":{\"minimum\":10,\"type\":\"number\"}}}",
       {"{\"n1\":10}", "{\"n1\":12,\"k\":null,\"n2\":10.5}"},
       {"{\"n1\":9}", "{\"n1\":10.5}", "{\"n2\":11}", "{\"n1\":10,\"n10\":11}",
        "{\"n1\":10,\"n2\":9}"}},
      {SCHEMA,
       "{\"allOf\":[{\"patternProperties\":{\"^a\":{\"type\":\"boolean\"}},"
       "\"additionalProperties\":"
       "false},{\"patternProperties\":{\"z$\":false}}]}",
       {"{\"a\":true,\"abc\":false}"},
       {"{\"az\":true}", "{\"b\":true}", "{\"a\":1}"}},
      {SCHEMA,
       "{\"patternProperties\":{\"^q\\\"$\":{\"const\":1}}}",
       {"{\"q\\\"\":1}", "{}"},
       {"{\"q\":1}", "{\"q\\\"\":2}"}},
      {SCHEMA,
       "{\"patternProperties\":{\"\":{\"type\":\"null\"}},\"properties\":{\"a\":true}}",
       {"{\"a\":null,\"b\":null}", "{\"\":null}"},
       {"{\"a\":1}", "{\"b\":1}"}}};
  (void)state;
  CHECK(examples);
}

static void test_unique_items(void **state) {
  static const example examples[] = {
      {SCHEMA,
       "{\"type\":\"array\",\"items\":{\"enum\":[\"a\",\"b\",\"ab\"]},\"uniqueItems\":true}",
       {"[]", "[\"a\"]", "[\"ab\",\"b\",\"a\"]"},
       {"[\"a\",\"a\"]", "[\"ab\",\"b\",\"ab\"]", "[\"c\"]"}},
      {SCHEMA,
       "{\"items\":{\"type\":[\"boolean\",\"null\"]},\"uniqueItems\":true,\"minItems\":2}",
       {"[true,null]", "[null,false,true]"},
       {"[true]", "[true,true]", "[null,true,false,null]"}},
      {SCHEMA,
       "{\"prefixItems\":[{\"enum\":[1,2]},{\"enum\":[2,3]}],\"items\":{\"enum\":[1,4]},"
       "\"uniqueItems\":true,\"maxItems\":3}",
       {"[1,2,4]", "[2,3,1]", "[1,3]", "[]"},
       {"[2,2]", "[1,2,1]", "[1,3,4,1]"}},
      {SCHEMA,
       "{\"items\":{\"$ref\":\"#/$defs/e\"},\"uniqueItems\":true,\"maxItems\":2,\"$defs\":{\"e\":{"
       "\"enum\":[0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17,18,19]}}}",
       {"[19,1]", "[1,19]"},
       {"[1,1]", "[1,2,3]"}},
      {SCHEMA,
       "{\"items\":{\"enum\":[[1],{\"a\":2},1,1.0]},\"uniqueItems\":true}",
       {"[[1],{\"a\":2},1]"},
       {"[[1],[1]]", "[1,1]"}},
      {SCHEMA,
       "{\"type\":\"array\",\"uniqueItems\":true,\"maxItems\":1}",
       {"[]", "[{}]"},
       {"[1,2]"}},
      {SCHEMA, "{\"type\":\"array\",\"uniqueItems\":false}", {"[1,1]"}, {"1"}}};
  (void)state;
  CHECK(examples);
}

static void test_formats(void **state) {
  static const example examples[] = {
      {SCHEMA,
       "{\"format\":\"hostname\"}",
       {"\"a\"", "\"www.example.com\"", "\"a-b.c\""},
       {"\"-a\"", "\"a-\"", "\"a..b\"", "\"1a\"", "\"\""}},
      {SCHEMA,
       "{\"format\":\"ipv6\"}",
       {"\"::\"", "\"::1\"", "\"2001:db8::8a2e:370:7334\"", "\"1:2:3:4:5:6:7:8\"", "\"1::8\""},
       {"\"1:2:3:4:5:6:7\"", "\"1::2::3\"", "\"12345::\"", "\":1\"", "\"1:2:3:4:5:6:7:8:9\""}},
      {SCHEMA,
       "{\"format\":\"uri\"}",
       {"\"https://example.com/a?b=c#d\"", "\"mailto:a@b.c\"", "\"http://1.2.3.4:80\"",
        "\"urn:a:b%20\""},
       {"\"example.com\"", "\"http://a b\"", "\"//x\"", "\"http://a/%2\"", "\"a:\""}},
      {SCHEMA,
       "{\"format\":\"duration\"}",
       {"\"P1D\"", "\"PT1H30M\"", "\"P1Y2M3DT4H5M6S\"", "\"P2W\"", "\"PT5S\""},
       {"\"P\"", "\"PT\"", "\"P1H\"", "\"P1Y1D\"", "\"PT1H5S\"", "\"1D\"", "\"P1W1D\""}}};
  (void)state;
  CHECK(examples);
}

/* ---- what is refused ---- */

static double now_ms(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return 1e3 * (double)t.tv_sec + 1e-6 * (double)t.tv_nsec;
}

static void check_refused(accel_grammar_kind kind, const char *source, accel_status status,
                          const char *message) {
  accel__grammar *g;
  const accel_status got = accel__grammar_compile(kind, source, strlen(source), &g);
  if (got == ACCEL_OK) fail_msg("%.80s compiles", source);
  if (got != status || !strstr(accel__message(), message))
    fail_msg("%.80s: status %d, %s", source, (int)got, accel__message());
  assert_null(g);
}

static void test_refusals(void **state) {
  const accel_status unsupported = ACCEL_ERROR_UNSUPPORTED, argument = ACCEL_ERROR_ARGUMENT,
                     limit = ACCEL_ERROR_LIMIT;
  (void)state;
  check_refused(SCHEMA, "{\"properties\":{\"a/b\":{\"propertyNames\":{}}}}", unsupported,
                "#/properties/a~1b/propertyNames: keyword 'propertyNames'");
  check_refused(SCHEMA, "{\"items\":[{\"nullable\":true}]}", unsupported, "#/items");
  check_refused(SCHEMA, "{\"anyOf\":[true,{\"nullable\":true}]}", unsupported,
                "#/anyOf/1/nullable");
  check_refused(SCHEMA, "{\"type\":\"array\",\"uniqueItems\":true}", unsupported,
                "#/uniqueItems: uniqueItems is not supported where values");
  check_refused(
      SCHEMA, "{\"items\":{\"enum\":[0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15]},\"uniqueItems\":true}",
      limit, "for arrays so long");
  check_refused(SCHEMA, "{\"uniqueItems\":1}", argument, "true or false");
  check_refused(SCHEMA, "{\"multipleOf\":0}", argument, "above 0");
  check_refused(SCHEMA, "{\"multipleOf\":0.01}", unsupported, "#/multipleOf: this multipleOf");
  check_refused(SCHEMA, "{\"multipleOf\":1e2}", unsupported, "#/multipleOf: this multipleOf");
  check_refused(SCHEMA, "{\"type\":\"integer\",\"multipleOf\":1000003}", limit, "#/multipleOf");
  check_refused(SCHEMA, "{\"type\":\"integer\",\"format\":\"colour\"}", unsupported,
                "format 'colour'");
  check_refused(SCHEMA, "{\"patternProperties\":{\"(\":{}}}", argument,
                "#/patternProperties/(: regular expression");
  check_refused(SCHEMA, "{\"patternProperties\":[]}", argument, "an object");
  check_refused(SCHEMA, "{\"oneOf\":[{\"type\":\"number\"},{\"type\":\"integer\"}]}", unsupported,
                "#/oneOf: oneOf");
  check_refused(SCHEMA, "{\"pattern\":\"a(?=b)\"}", unsupported,
                "#/pattern: regular expression: byte 2");
  check_refused(SCHEMA, "{\"format\":\"iri\"}", unsupported, "format 'iri'");
  check_refused(SCHEMA, "{\"$ref\":\"http://x/y\"}", unsupported, "#/$ref");
  check_refused(SCHEMA, "{\"$ref\":\"#/nope\"}", argument, "leads nowhere");
  check_refused(SCHEMA, "{\"enum\":[\"a\"],\"minLength\":2}", unsupported, "beside enum");
  check_refused(SCHEMA, "{\"enum\":[1],\"type\":\"string\"}", argument, "no text");
  check_refused(SCHEMA, "{\"type\":\"number\",\"minimum\":1e5}", unsupported, "#/minimum");
  check_refused(SCHEMA, "{\"type\":\"text\"}", argument, "#/type");
  check_refused(SCHEMA, "{\"type\":", argument, "line 1");
  check_refused(SCHEMA, "{\"properties\":{\"a\":false},\"required\":[\"a\"]}", argument,
                "required");
  check_refused(TEXT, "root ::= root \"a\" | \"b\"", argument, "rule 'root' calls itself");
  check_refused(TEXT, "root ::= a\na ::= b* root\nb ::= \"x\"", argument, "never ends");
  check_refused(TEXT, "root ::= \"a\" b", argument, "byte 14: rule 'b' is not defined");
  check_refused(TEXT, "root ::= \"a\" root", argument, "never ends");
  check_refused(TEXT, "x ::= \"a\"", argument, "no rule 'root'");
  check_refused(TEXT, "root ::= <think>", unsupported, "byte 10");
  check_refused(REGEX, "(a|b)*a(a|b){25}", limit, "states");
  check_refused(REGEX, "a{1000000}", argument, "byte 2");
  check_refused(REGEX, "((a{1000}){1000}){1000}", limit, "states");
  check_refused(REGEX, "x\\b", unsupported, "byte 2: \\b");
  check_refused(REGEX, "(a\\1)", unsupported, "\\1");
  check_refused(REGEX, "(a", argument, "byte 1: '('");
  check_refused(REGEX, "a)", argument, "byte 2: ')'");
  check_refused(REGEX, "[z-a]", argument, "byte 2");
  check_refused(REGEX, "[a", argument, "byte 1");
  check_refused(REGEX, "a**", argument, "byte 3: nothing to repeat");
  check_refused(REGEX, "a++", unsupported, "possessive");
  check_refused(REGEX, "(?<n", argument, "name");
  check_refused(REGEX, "\\", argument, "backslash");
  check_refused(REGEX, "\xff", argument, "UTF-8");
  check_refused(ACCEL_GRAMMAR_CHOICES, "[]", argument, "choices");
  check_refused(ACCEL_GRAMMAR_CHOICES, "[\"a\",1]", argument, "element 1");
}

/* 60,000 of them, one inside of the other. */
static void test_nesting(void **state) {
  enum { DEPTH = 60000 };
  static const struct {
    accel_grammar_kind kind;
    const char *begin, *repeated;
  } sources[] = {{REGEX, "", "("},
                 {REGEX, "", "(?:a|"},
                 {TEXT, "root ::= ", "("},
                 {SCHEMA, "", "{\"items\":"},
                 {SCHEMA, "", "{\"allOf\":["},
                 {ACCEL_GRAMMAR_CHOICES, "", "["}};
  (void)state;
  for (size_t i = 0; i < sizeof sources / sizeof *sources; i++) {
    accel__buffer b = {0};
    accel__grammar *g;
    accel__buffer_text(&b, sources[i].begin);
    for (int k = 0; k < DEPTH; k++) accel__buffer_text(&b, sources[i].repeated);
    const double begin = now_ms();
    assert_int_not_equal(accel__grammar_compile(sources[i].kind, b.data, b.n, &g), ACCEL_OK);
    const double ms = now_ms() - begin;
    if (ms > 50 * 20) fail_msg("%s: refused in %.1f ms", sources[i].repeated, ms);
    accel__buffer_free(&b);
  }
}

/* ---- masks ---- */

static const char tokens[] =
    "true\0,\"\0\":\0{\"\0\"}\0\",\"\0abc\0ab\0 a\0\xc3\xa4\xc3\xb6\0\xa4\0\",\"b\":\"\0}}\0]}\0"
    "12\0"
    "0.\0null,\0\\n\0\\\"\0n\\\0hello world, it is me\0,\"b\":1}\0a\":\"\0\xe4\xb8\0 \0  {\0";

/* Each token is in the mask if and only if its bytes can be read. */
static uint32_t check_mask(accel__matcher *m, const accel__token_trie *t, uint32_t state) {
  const uint64_t *allowed;
  bool may_end;
  uint32_t next, n = 0;
  assert_int_equal(accel__matcher_mask(m, state, &allowed, &may_end), ACCEL_OK);
  for (uint32_t i = 0; i < t->n_tokens; i++) {
    assert_int_equal(accel__matcher_advance(m, state, (int32_t)i, &next), ACCEL_OK);
    const bool in_mask = allowed[i / 64] >> (i % 64) & 1;
    if (in_mask != (next != ACCEL__MATCH_FAILED))
      fail_msg("token %u '%.*s': mask says %d", i, (int)(t->offset[i + 1] - t->offset[i]),
               t->bytes + t->offset[i], in_mask);
    n += in_mask;
  }
  assert_true(n || may_end);
  return n;
}

static uint32_t next_random(uint64_t *random) {
  *random = *random * 6364136223846793005u + 1442695040888963407u;
  return (uint32_t)(*random >> 33);
}

/* `tokens`, and 250 made of characters of every kind; some are the same, some are no whole
 * characters, and one in 16 is longer than what is called plain. */
static accel__token_trie *trie_of_made(bool strips_space) {
  static const char *const parts[] = {"a", "b",  "c",  "ab",       "Z",           "Q",  "7", "0",
                                      " ", ".",  ",",  "_",        "+",           "(",  ")", "\"",
                                      "-", "\\", "\n", "\x01",     "\xc3\xa4",    "\t", "]", "x",
                                      "y", "}",  "'",  "\xe4\xb8", "\xe4\xb8\x96"};
  accel__buffer b = {0};
  uint64_t random = 3;
  accel__buffer_bytes(&b, tokens, sizeof tokens - 1);
  for (int i = 0; i < 250; i++) {
    const uint32_t n = i % 16 ? 1 + next_random(&random) % 5 : 40;
    for (uint32_t k = 0; k < n; k++)
      accel__buffer_text(&b, parts[next_random(&random) % (sizeof parts / sizeof *parts)]);
    accel__buffer_bytes(&b, "", 1);
  }
  accel__buffer_bytes(&b, "", 1);
  assert_int_equal(accel__buffer_status(&b), ACCEL_OK);
  accel__token_trie *t = trie_of(b.data, strips_space);
  accel__buffer_free(&b);
  return t;
}

static void check_walks(accel_grammar_kind kind, const char *source, bool strips_space) {
  accel__token_trie *t = trie_of_made(strips_space);
  accel__grammar *g = compile(kind, source);
  accel__matcher *m;
  uint64_t random = 9;
  assert_int_equal(accel__matcher_open(g, t, &m), ACCEL_OK);
  for (int walk = 0; walk < 20; walk++) {
    uint32_t state = ACCEL__MATCH_START;
    for (int step = 0; step < 30; step++) {
      const uint32_t n = check_mask(m, t, state);
      const uint64_t *allowed;
      bool may_end;
      if (!n) break;
      assert_int_equal(accel__matcher_mask(m, state, &allowed, &may_end), ACCEL_OK);
      uint32_t skip = next_random(&random) % n, token = 0;
      while (!(allowed[token / 64] >> (token % 64) & 1) || skip--) token++;
      assert_int_equal(accel__matcher_advance(m, state, (int32_t)token, &state), ACCEL_OK);
      assert_int_not_equal(state, ACCEL__MATCH_FAILED);
    }
  }
  accel__matcher_close(&m);
  accel__grammar_release(&g);
  accel__token_trie_free(&t);
}

static void test_masks(void **state) {
  static const struct {
    accel_grammar_kind kind;
    const char *source;
  } sources[] = {
      {ACCEL_GRAMMAR_JSON, ""},
      {SCHEMA,
       "{\"properties\":{\"a\":{\"type\":\"string\"},\"b\":{\"type\":[\"string\",\"integer\"]}},"
       "\"required\":[\"b\"]}"},
      {SCHEMA, "{\"type\":\"string\",\"maxLength\":5}"},
      {SCHEMA, "{\"type\":\"string\",\"pattern\":\"^.{3}[a-z]*$\"}"},
      {SCHEMA,
       "{\"type\":\"array\",\"items\":{\"type\":\"string\",\"minLength\":3,\"maxLength\":40}}"},
      {REGEX, "[^\"]*(ab|\"x\")?"},
      {REGEX, ".{0,4}"},
      {REGEX, "(a|b|ab|abc)* ?"},
      {TEXT,
       "root ::= v\nv ::= \"[\" (v (\",\" v)*)? \"]\" | \"\\\"\" [^\"\\\\]* \"\\\"\" | \"12\"* "},
      {TEXT, "root ::= x\nx ::= [a-c] x | \"\"\n"},
      /* all characters but some, counted or not, that lead on, elsewhere or nowhere */
      {REGEX, "[^.]{3,9}\\.([A-Z][^.,]*\\.)*"},
      {REGEX, "([a-c]|[Q-Z]|[^a-zA-Z_]){0,7}_.*"},
      {REGEX, "[^\\n]*\\n[^+]{2}\\+x"},
      /* names that end where their caller reads letters, marks, nothing */
      {TEXT, "root ::= e\ne ::= t ([-+] t)*\nt ::= n | \"(\" e \")\"\nn ::= [a-z] [a-zQ0-9_]*"},
      {TEXT, "root ::= n \"Z\" n | n n \".\"\nn ::= [^.Z\\n]+ | \"7\" n"},
      {TEXT, "root ::= w (\" \" w)*\nw ::= [a-z]{1,3} | \"-\" w w | [A-Z]+"},
      {TEXT, "root ::= (l \"ab\")+\nl ::= \"(\" l \")\" | [a-z ]{0,40} | [^(a-z]"}};
  (void)state;
  for (size_t i = 0; i < sizeof sources / sizeof *sources; i++)
    for (int strips = 0; strips < 2; strips++)
      check_walks(sources[i].kind, sources[i].source, strips);
}

/* Nothing leads to where no text ends. */
static void test_dead_ends(void **state) {
  static const struct {
    accel_grammar_kind kind;
    const char *source, *first; /* bytes that may come first */
  } sources[] = {
      {TEXT, "root ::= \"a\" x | \"b\" | y\nx ::= \"c\" x\ny ::= \"d\" z\nz ::= x | \"e\"", "bd"},
      {SCHEMA, "{\"anyOf\":[{\"type\":\"array\",\"items\":false,\"minItems\":1},{\"const\":7}]}",
       "7"},
      {SCHEMA, "{\"type\":\"integer\",\"minimum\":-3,\"maximum\":-3}", "-"}};
  (void)state;
  accel__token_trie *t = trie_of("", false);
  for (size_t i = 0; i < sizeof sources / sizeof *sources; i++) {
    accel__grammar *g = compile(sources[i].kind, sources[i].source);
    accel__matcher *m;
    const uint64_t *allowed;
    bool may_end;
    assert_int_equal(accel__matcher_open(g, t, &m), ACCEL_OK);
    assert_int_equal(accel__matcher_mask(m, ACCEL__MATCH_START, &allowed, &may_end), ACCEL_OK);
    for (int b = 1; b < 256; b++)
      assert_int_equal(allowed[b / 64] >> (b % 64) & 1, strchr(sources[i].first, b) != NULL);
    accel__matcher_close(&m);
    accel__grammar_release(&g);
  }
  accel__token_trie_free(&t);
}

/* Sequences go back and share what they have in common: a state is a number. */
static void test_states_are_values(void **state) {
  accel__token_trie *t = trie_of(tokens, false);
  accel__grammar *g = compile(ACCEL_GRAMMAR_JSON, "");
  accel__matcher *m;
  uint32_t a, b, c;
  (void)state;
  assert_int_equal(accel__matcher_open(g, t, &m), ACCEL_OK);
  assert_int_equal(accel__matcher_advance_bytes(m, 0, "{\"a\":[1,[2", 10, &a, NULL), ACCEL_OK);
  assert_int_equal(accel__matcher_advance_bytes(m, a, "]]}", 3, &b, NULL), ACCEL_OK);
  assert_int_equal(accel__matcher_advance_bytes(m, a, "3]]}", 4, &c, NULL), ACCEL_OK);
  assert_int_equal(b, c);
  assert_int_not_equal(b, ACCEL__MATCH_FAILED);
  assert_int_equal(accel__matcher_advance_bytes(m, b, "x", 1, &c, NULL), ACCEL_OK);
  assert_int_equal(c, ACCEL__MATCH_FAILED);
  accel__matcher_close(&m);
  accel__grammar_release(&g);
  accel__token_trie_free(&t);
}

typedef struct worker {
  accel__grammar *grammar;
  const accel__token_trie *trie;
  uint64_t sum;
} worker;

static void *work(void *argument) {
  worker *w = argument;
  static const char text[] = "{\"a\":[1,true,null,{\"b\":\"hello\"}],\"c\":\"\\n\"}";
  accel__matcher *m;
  uint32_t state = ACCEL__MATCH_START;
  const uint64_t *allowed;
  bool may_end;
  if (accel__matcher_open(w->grammar, w->trie, &m) != ACCEL_OK) return NULL;
  for (const char *p = text; *p; p++) {
    if (accel__matcher_mask(m, state, &allowed, &may_end) != ACCEL_OK) break;
    for (size_t k = 0; k < accel__matcher_words(m); k++) w->sum = w->sum * 31 + allowed[k];
    if (accel__matcher_advance(m, state, (uint8_t)*p, &state) != ACCEL_OK) break;
  }
  accel__matcher_close(&m);
  return NULL;
}

static void test_threads(void **state) {
  enum { THREADS = 4 };
  accel__token_trie *t = trie_of(tokens, false);
  accel__grammar *g = compile(ACCEL_GRAMMAR_JSON, "");
  worker workers[THREADS];
  pthread_t threads[THREADS];
  (void)state;
  for (int i = 0; i < THREADS; i++) {
    workers[i] = (worker){g, t, 0};
    assert_int_equal(pthread_create(&threads[i], NULL, work, &workers[i]), 0);
  }
  for (int i = 0; i < THREADS; i++) pthread_join(threads[i], NULL);
  for (int i = 1; i < THREADS; i++) assert_true(workers[i].sum == workers[0].sum && workers[0].sum);
  accel__grammar_release(&g);
  accel__token_trie_free(&t);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_expressions),
                                     cmocka_unit_test(test_texts_and_choices),
                                     cmocka_unit_test(test_objects),
                                     cmocka_unit_test(test_arrays_and_strings),
                                     cmocka_unit_test(test_numbers),
                                     cmocka_unit_test(test_multiples),
                                     cmocka_unit_test(test_patterns_of_names),
                                     cmocka_unit_test(test_unique_items),
                                     cmocka_unit_test(test_formats),
                                     cmocka_unit_test(test_refusals),
                                     cmocka_unit_test(test_nesting),
                                     cmocka_unit_test(test_masks),
                                     cmocka_unit_test(test_dead_ends),
                                     cmocka_unit_test(test_states_are_values),
                                     cmocka_unit_test(test_threads)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
