/* core_json_test.c - the JSON reader: what it takes, what it refuses and with which words, typed
 * members. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <float.h>
#include <locale.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/config.h"
#include "core/json.h"
#include "core/text.h"
#include "unit/temp.h"

static accel__json_file parse(const char *text) {
  accel__json_file file;
  accel_status status = accel__json_parse(text, strlen(text), "t.json", &file);
  if (status) fail_msg("%s -> %s", text, accel__message());
  assert_non_null(file.root);
  assert_string_equal(file.name, "t.json");
  return file;
}

static void refuse(const char *text, size_t n, const char *message) {
  accel__json_file file;
  char *exact = malloc(n + !n); /* no NUL behind it: ASan sees a read too far */
  if (n) memcpy(exact, text, n);
  accel_status status = accel__json_parse(exact, n, "t.json", &file);
  free(exact);
  if (status != ACCEL_ERROR_FORMAT) fail_msg("%s -> %d", text, (int)status);
  assert_string_equal(accel__message(), message);
  assert_null(file.root);
  assert_null(file.name);
  assert_int_equal(file.arena.bytes, 0);
}

/* ---- values ---- */

static void test_tree(void **state) {
  (void)state;
  accel__json_file f = parse(
      " {\"a\" : [1, -2.5e1, \"x\", true,false , null, {}, [] ],\n\t\"b\":{\"c\":\"d\"} }\r\n");
  assert_true(cJSON_IsObject(f.root));
  assert_int_equal(cJSON_GetArraySize(f.root), 2);
  /* cJSON's readers work on our nodes */
  const accel__json *a = cJSON_GetObjectItemCaseSensitive(f.root, "a");
  assert_int_equal(cJSON_GetArraySize(a), 8);
  static const int types[] = {cJSON_Number, cJSON_Number, cJSON_String, cJSON_True,
                              cJSON_False,  cJSON_NULL,   cJSON_Object, cJSON_Array};
  int i = 0;
  ACCEL_JSON_EACH(item, a) assert_int_equal(item->type, types[i++]);
  assert_int_equal(i, 8);
  assert_int_equal(cJSON_GetArrayItem(a, 0)->valueint, 1);
  assert_true(cJSON_GetArrayItem(a, 1)->valuedouble == -25.0);
  assert_string_equal(cJSON_GetArrayItem(a, 2)->valuestring, "x");
  assert_null(cJSON_GetArrayItem(a, 6)->child);
  assert_ptr_equal(a->child->prev, cJSON_GetArrayItem(a, 7)); /* the first knows the last */
  assert_string_equal(accel__json_get(f.root, "b")->child->string, "c");
  char *printed = cJSON_PrintUnformatted(f.root);
  assert_string_equal(printed, "{\"a\":[1,-25,\"x\",true,false,null,{},[]],\"b\":{\"c\":\"d\"}}");
  cJSON_free(printed);
  accel__json_free(&f);
  assert_null(f.root);
  accel__json_free(&f);
  ACCEL_JSON_EACH(none, (const accel__json *)NULL) fail_msg("%s", none->string);
}

static void test_scalars_and_mark(void **state) {
  (void)state;
  static const struct {
    const char *text;
    int type;
  } cases[] = {{"1", cJSON_Number},
               {" \"\" ", cJSON_String},
               {"null", cJSON_NULL},
               {"\xEF\xBB\xBF{}", cJSON_Object}};
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    accel__json_file f = parse(cases[i].text);
    assert_int_equal(f.root->type, cases[i].type);
    accel__json_free(&f);
  }
}

static void test_numbers(void **state) {
  (void)state;
  static const struct {
    const char *text;
    double value;
  } cases[] = {
      {"0", 0},
      {"-0", -0.0},
      {"0.0", 0},
      {"-0.5", -0.5},
      {"1e-12", 1e-12},
      {"1E+2", 100},
      {"1e22", 1e22},
      {"123456789012345", 123456789012345.0},
      {"9007199254740993", 9007199254740992.0},
      {"1000000000000000019884624838656", 1e30},
      {"0.1", 0.1},
      {"0.02", 0.02},
      {"3.141592653589793", 3.141592653589793},
      {"1e-05", 1e-05},
      {"2.2250738585072014e-308", DBL_MIN},
      {"1.7976931348623157e308", DBL_MAX},
      {"5e-324", 5e-324},
      {"1e-400", 0},
      {"1e400", INFINITY},
      {"-1e99999999999999999999", -INFINITY},
      {"0e99999999999999999999", 0},
      {"0.000000000000000000000000000000000000000000000000000000000000000000000000000000000001e84",
       1},
      {"8.41", 8.41},
      {"NaN", (double)NAN},
      {"Infinity", INFINITY},
      {"-Infinity", -INFINITY}};
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    accel__json_file f = parse(cases[i].text);
    double value = f.root->valuedouble;
    assert_int_equal(f.root->type, cJSON_Number);
    if (isnan(cases[i].value))
      assert_true(isnan(value));
    else if (value != cases[i].value || signbit(value) != signbit(cases[i].value))
      fail_msg("%s -> %.17g", cases[i].text, value);
    accel__json_free(&f);
  }
  accel__json_file f = parse("[3000000000, -3000000000, Infinity, NaN, 7.9]");
  assert_int_equal(cJSON_GetArrayItem(f.root, 0)->valueint, INT32_MAX);
  assert_int_equal(cJSON_GetArrayItem(f.root, 1)->valueint, INT32_MIN);
  assert_int_equal(cJSON_GetArrayItem(f.root, 2)->valueint, INT32_MAX);
  assert_int_equal(cJSON_GetArrayItem(f.root, 3)->valueint, 0);
  assert_int_equal(cJSON_GetArrayItem(f.root, 4)->valueint, 7);
  accel__json_free(&f);
}

static void test_numbers_agree_with_strtod(void **state) {
  (void)state;
  uint64_t x = 88172645463325252u; /* xorshift64 */
  char text[64];
  for (int i = 0; i < 100000; i++) {
    x ^= x << 13, x ^= x >> 7, x ^= x << 17;
    double value;
    if (i % 2)
      snprintf(text, sizeof text, "%.*e", (int)(x % 18),
               (double)(int64_t)x / 1e9 * pow(10, (double)(x >> 8 & 63) - 32));
    else
      snprintf(text, sizeof text, "%lld.%0*u", (long long)(x >> (x & 63)), (int)(1 + (x >> 9) % 9),
               (unsigned)(x >> 40 & 0xff));
    value = strtod(text, NULL);
    accel__json_file f = parse(text);
    if (f.root->valuedouble != value) fail_msg("%s -> %.17g", text, f.root->valuedouble);
    accel__json_free(&f);
  }
}

static void test_numbers_do_not_follow_the_locale(void **state) {
  (void)state;
  static const char *const with_comma[] = {"de_DE.UTF-8", "de_DE", "fr_FR.UTF-8", "nl_NL.UTF-8"};
  const char *found = NULL;
  for (size_t i = 0; i < 4 && !found; i++) found = setlocale(LC_NUMERIC, with_comma[i]);
  if (!found) skip(); /* no such locale installed here */
  accel__json_file f = parse("1.2345678901234567890123");
  setlocale(LC_NUMERIC, "C");
  assert_true(f.root->valuedouble == 1.2345678901234567890123);
  accel__json_free(&f);
}

static void test_strings(void **state) {
  (void)state;
  static const struct {
    const char *text, *value;
  } cases[] = {{"\"\"", ""},
               {"\"a\\\"\\\\\\/\\b\\f\\n\\r\\tz\"", "a\"\\/\b\f\n\r\tz"},
               {"\"\\u0041\\u00e9\\u20AC\\ud83d\\ude00\"", "A\xC3\xA9\xE2\x82\xAC\xF0\x9F\x98\x80"},
               {"\"\\u0001\\u001f\\u007f\\uffff\"", "\x01\x1f\x7f\xEF\xBF\xBF"},
               {"\"\xC3\xA9 \xE2\x82\xAC \xF0\x9F\x98\x80 \xEF\xBF\xBD\"",
                "\xC3\xA9 \xE2\x82\xAC \xF0\x9F\x98\x80 \xEF\xBF\xBD"},
               {"\"\\n\xC3\xA9x\\\\\"", "\n\xC3\xA9x\\"},
               {"\"\x7f\"", "\x7f"}};
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    accel__json_file f = parse(cases[i].text);
    assert_string_equal(f.root->valuestring, cases[i].value);
    accel__json_free(&f);
  }
}

static void test_duplicates(void **state) {
  (void)state;
  accel__json_file f = parse("{\"a\":1,\"A\":5,\"a\":2,\"b\":7,\"b\":null}");
  assert_int_equal(accel__json_get(f.root, "a")->valueint, 2);
  assert_int_equal(accel__json_get(f.root, "A")->valueint, 5);
  assert_null(accel__json_get(f.root, "b"));
  accel__json_free(&f);
}

/* ---- refusals ---- */

static void test_syntax_errors(void **state) {
  (void)state;
  static const struct {
    const char *text, *message;
  } cases[] = {
      {"", "t.json: line 1, column 1: expected a value, but the text ends here"},
      {"  \n ", "t.json: line 2, column 2: expected a value, but the text ends here"},
      {"{", "t.json: line 1, column 2: expected a key in double quotes, but the text ends here"},
      {"[1,", "t.json: line 1, column 4: expected a value, but the text ends here"},
      {"{\"a\":1,}", "t.json: line 1, column 8: expected a key in double quotes"},
      {"{\n  \"a\": 1\n  \"b\": 2\n}", "t.json: line 3, column 3: expected ',' or '}'"},
      {"[1 2]", "t.json: line 1, column 4: expected ',' or ']'"},
      {"[1,]", "t.json: line 1, column 4: expected a value"},
      {"[1}", "t.json: line 1, column 3: expected ',' or ']'"},
      {"{\"a\" 1}", "t.json: line 1, column 6: expected ':'"},
      {"{a:1}", "t.json: line 1, column 2: expected a key in double quotes"},
      {"{NaN:1}", "t.json: line 1, column 2: expected a key in double quotes"},
      {"{'a':1}", "t.json: line 1, column 2: expected a key in double quotes"},
      {"{} x", "t.json: line 1, column 4: unexpected text behind the value"},
      {"{}{}", "t.json: line 1, column 3: unexpected text behind the value"},
      {"truex", "t.json: line 1, column 5: unexpected text behind the value"},
      {"tru", "t.json: line 1, column 1: expected a value"},
      {"nan", "t.json: line 1, column 1: expected a value"},
      {"-Inf", "t.json: line 1, column 1: expected a value"},
      {"+1", "t.json: line 1, column 1: expected a value"},
      {".5", "t.json: line 1, column 1: expected a value"},
      {"01", "t.json: line 1, column 1: a number must not begin with 0"},
      {"-01", "t.json: line 1, column 1: a number must not begin with 0"},
      {"-", "t.json: line 1, column 2: expected a digit, but the text ends here"},
      {"[1.]", "t.json: line 1, column 4: expected a digit"},
      {"[1e]", "t.json: line 1, column 4: expected a digit"},
      {"[1e+]", "t.json: line 1, column 5: expected a digit"},
      {"0x10", "t.json: line 1, column 2: unexpected text behind the value"},
      {"\"abc", "t.json: line 1, column 5: expected '\"', but the text ends here"},
      {"\"a\nb\"", "t.json: line 1, column 3: control character in a string; it must be escaped"},
      {"\"\\x\"", "t.json: line 1, column 2: unknown escape in a string"},
      {"\"\\", "t.json: line 1, column 2: unknown escape in a string"},
      {"\"\\u12g4\"", "t.json: line 1, column 2: \\u without four hexadecimal digits"},
      {"\"\\u12", "t.json: line 1, column 2: \\u without four hexadecimal digits"},
      {"\"ab\\u0000\"",
       "t.json: line 1, column 4: \\u0000 in a string; it would cut the string short"},
      {"{\"k\\u0000\":1}",
       "t.json: line 1, column 4: \\u0000 in a string; it would cut the string short"},
      {"\"\\ud83d\"", "t.json: line 1, column 2: half of a surrogate pair in a string"},
      {"\"\\ud83d\\u0041\"", "t.json: line 1, column 2: half of a surrogate pair in a string"},
      {"\"\\ude00\"", "t.json: line 1, column 2: half of a surrogate pair in a string"},
      {"\"\\ud83d\\ud83d\"", "t.json: line 1, column 2: half of a surrogate pair in a string"},
      {"[\"\xFF\"]", "t.json: invalid UTF-8 at byte 2"},
      {"{\"ab\": \"\xC3\xA9\xE2\x82\"}", "t.json: invalid UTF-8 at byte 10"},
      {"\"\xED\xA0\x80\"", "t.json: invalid UTF-8 at byte 1"},
      {"\"\xC3", "t.json: invalid UTF-8 at byte 1"},
      {"// no\n1", "t.json: line 1, column 1: expected a value"},
      {"\v1", "t.json: line 1, column 1: expected a value"},
      {"version https://git-lfs.github.com/spec/v1\noid",
       "t.json: a Git LFS pointer, not the file itself"},
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
    refuse(cases[i].text, strlen(cases[i].text), cases[i].message);
  assert_string_equal(accel__remedy_text(), "run 'git lfs pull' in the model's directory");
  refuse("1\0", 2, "t.json: line 1, column 2: unexpected text behind the value");
  refuse("\"a\0b\"", 5,
         "t.json: line 1, column 3: control character in a string; it must be escaped");
  refuse("\0", 1, "t.json: line 1, column 1: expected a value");
  char digits[129];
  memset(digits, '7', 128);
  refuse(digits, 128, "t.json: line 1, column 1: number of more than 127 characters");
}

static void test_every_prefix_of_a_text_is_refused(void **state) {
  (void)state;
  const char *text =
      "{\"a\": [1.5e-3, \"\\u00e9\\ud83d\\ude00\xC3\xA9\", true, NaN, -Infinity], \"b\": {\"c\": "
      "null}}";
  size_t n = strlen(text);
  for (size_t i = 0; i < n; i++) {
    accel__json_file file;
    char *exact = malloc(i + !i);
    memcpy(exact, text, i);
    assert_int_equal(accel__json_parse(exact, i, "t.json", &file), ACCEL_ERROR_FORMAT);
    free(exact);
  }
  accel__json_file f = parse(text);
  accel__json_free(&f);
}

static void test_depth(void **state) {
  (void)state;
  char text[4000];
  for (size_t depth = 255; depth <= 258; depth++) {
    for (int object = 0; object < 2; object++) {
      accel__buffer b = {0};
      for (size_t i = 0; i < depth; i++) accel__buffer_text(&b, object ? "{\"k\":" : "[");
      accel__buffer_text(&b, "0");
      for (size_t i = 0; i < depth; i++) accel__buffer_text(&b, object ? "}" : "]");
      if (depth <= 256) {
        accel__json_file f = parse(b.data);
        accel__json_free(&f);
      } else {
        snprintf(text, sizeof text, "t.json: line 1, column %d: nested deeper than 256 levels",
                 object ? 256 * 5 + 1 : 257);
        refuse(b.data, b.n, text);
      }
      accel__buffer_free(&b);
    }
  }
  accel__buffer b = {0}; /* brackets in a row are no depth */
  accel__buffer_text(&b, "[0");
  for (int i = 0; i < 1000; i++) accel__buffer_text(&b, ",[[]],{}");
  accel__buffer_text(&b, "]");
  accel__json_file f = parse(b.data);
  assert_int_equal(cJSON_GetArraySize(f.root), 2001);
  accel__json_free(&f);
  accel__buffer_free(&b);
}

static void test_refused_memory(void **state) {
  (void)state;
  const char *text = "{\"a\":[1,2,{\"b\":\"c\"}]}";
  accel__json_file file;
  int refused = 0;
  for (int i = 1;; i++) { /* each allocation in turn, until none is left to refuse */
    char point[32];
    snprintf(point, sizeof point, "allocation:%d", i);
    accel__fault_arm(point);
    accel_status status = accel__json_parse(text, strlen(text), "t.json", &file);
    accel__fault_arm(NULL);
    if (!status) break;
    assert_int_equal(status, ACCEL_ERROR_OUT_OF_MEMORY);
    assert_true(accel__starts_with(accel__message(), "out of memory: the system refused "));
    assert_null(file.root);
    refused++;
  }
  assert_in_range(refused, 6, 10);
  accel__json_free(&file);
}

/* ---- files ---- */

static void test_read(void **state) {
  (void)state;
  accel__json_file f;
  char *path = temp_text("a.json", "{\"k\": 1}"), message[700];
  assert_int_equal(accel__json_read(path, 0, &f), ACCEL_OK);
  assert_string_equal(f.name, path);
  assert_int_equal(accel__json_get(f.root, "k")->valueint, 1);
  accel__json_free(&f);
  assert_int_equal(accel__json_read(path, 7, &f), ACCEL_ERROR_FORMAT);
  snprintf(message, sizeof message, "%s: 8 bytes, more than the 7 allowed for such a file", path);
  assert_string_equal(accel__message(), message);
  assert_int_equal(accel__json_read(path, 8, &f), ACCEL_OK);
  accel__json_free(&f);
  path = temp_path("none.json");
  assert_int_equal(accel__json_read(path, 0, &f), ACCEL_ERROR_NOT_FOUND);
  snprintf(message, sizeof message, "%s: cannot open: No such file or directory", path);
  assert_string_equal(accel__message(), message);
  assert_null(f.root);
  path = temp_text("empty.json", "");
  assert_int_equal(accel__json_read(path, 0, &f), ACCEL_ERROR_FORMAT);
  path = temp_text("bad.json", "{\"k\":\n tru}");
  assert_int_equal(accel__json_read(path, 0, &f), ACCEL_ERROR_FORMAT);
  snprintf(message, sizeof message, "%s: line 2, column 2: expected a value", path);
  assert_string_equal(accel__message(), message);
  assert_int_equal(accel__json_read(temp_directory(), 0, &f), ACCEL_ERROR_IO);
  accel__fault_arm("short_file");
  assert_int_equal(accel__json_read(temp_text("c.json", "[1,2,3]"), 0, &f), ACCEL_ERROR_FORMAT);
  accel__fault_arm(NULL);
}

/* ---- typed members ---- */

static const char members[] =
    "{\"i\": 12, \"f\": 1.5, \"whole\": 3.0, \"neg\": -4, \"s\": \"text\", \"t\": true, \"z\": "
    "null, \"o\": {\"x\": 1}, "
    "\"a\": [1],"
    " \"big\": 9007199254740991, \"too_big\": 9007199254740993, \"nan\": NaN, \"inf\": Infinity,"
    " \"long\": \"0123456789012345678901234567890123456789012345678901234567\xE2\x82\xAC 90\", "
    "\"e\": 1e-12}";

static void test_int(void **state) {
  (void)state;
  accel__json_file f = parse(members);
  int64_t v = 99;
#define INT(key, min, max) accel__json_int(&f, f.root, key, min, max, &v)
  assert_int_equal(INT("absent", 1, 2), ACCEL_OK);
  assert_int_equal(INT("z", 1, 2), ACCEL_OK);
  assert_int_equal(v, 99);
  assert_int_equal(INT("i", 12, 12), ACCEL_OK);
  assert_int_equal(v, 12);
  assert_int_equal(INT("whole", 0, 10), ACCEL_OK);
  assert_int_equal(v, 3);
  assert_int_equal(INT("neg", INT64_MIN, INT64_MAX), ACCEL_OK);
  assert_int_equal(v, -4);
  assert_int_equal(INT("big", INT64_MIN, INT64_MAX), ACCEL_OK);
  assert_int_equal(v, INT64_C(9007199254740991));
  static const struct {
    const char *key;
    int64_t min, max;
    const char *message;
  } bad[] = {
      {"i", 13, 20, "t.json: field 'i' is 12, expected an integer from 13 to 20"},
      {"i", 1, 11, "t.json: field 'i' is 12, expected an integer from 1 to 11"},
      {"neg", 1, INT64_MAX, "t.json: field 'neg' is -4, expected an integer of at least 1"},
      {"i", INT64_MIN, 0, "t.json: field 'i' is 12, expected an integer of at most 0"},
      {"f", 0, 10, "t.json: field 'f' is 1.5, expected an integer from 0 to 10"},
      {"e", 0, INT64_MAX, "t.json: field 'e' is 1e-12, expected an integer of at least 0"},
      {"too_big", INT64_MIN, INT64_MAX,
       "t.json: field 'too_big' is 9.00719925474099e+15, expected an integer below 2^53"},
      {"inf", INT64_MIN, INT64_MAX, "t.json: field 'inf' is inf, expected an integer below 2^53"},
      {"nan", INT64_MIN, INT64_MAX, "t.json: field 'nan' is nan, expected an integer below 2^53"},
      {"s", 0, 5, "t.json: field 's' is \"text\", expected an integer from 0 to 5"},
      {"t", 0, 5, "t.json: field 't' is true, expected an integer from 0 to 5"},
      {"o", 0, 5, "t.json: field 'o' is an object, expected an integer from 0 to 5"},
      {"a", 0, 5, "t.json: field 'a' is an array, expected an integer from 0 to 5"},
      {"long", 0, 5,
       "t.json: field 'long' is \"0123456789012345678901234567890123456789012345678901234567...\", "
       "expected an "
       "integer from 0 to 5"},
  };
  for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
    v = 99;
    assert_int_equal(INT(bad[i].key, bad[i].min, bad[i].max), ACCEL_ERROR_FORMAT);
    assert_string_equal(accel__message(), bad[i].message);
    assert_int_equal(v, 99);
  }
  accel__json_free(&f);
}

static void test_other_types(void **state) {
  (void)state;
  accel__json_file f = parse(members);
  double d = 7;
  bool b = false;
  const char *s = "default";
  const accel__json *o = NULL;
#define OK(call) assert_int_equal(call, ACCEL_OK)
#define BAD(call, text) \
  (assert_int_equal(call, ACCEL_ERROR_FORMAT), assert_string_equal(accel__message(), text))
  OK(accel__json_number(&f, f.root, "absent", &d));
  OK(accel__json_number(&f, f.root, "z", &d));
  assert_true(d == 7);
  OK(accel__json_number(&f, f.root, "f", &d));
  assert_true(d == 1.5);
  OK(accel__json_number(&f, f.root, "inf", &d));
  assert_true(isinf(d));
  BAD(accel__json_number(&f, f.root, "s", &d), "t.json: field 's' is \"text\", expected a number");
  OK(accel__json_bool(&f, f.root, "absent", &b));
  assert_false(b);
  OK(accel__json_bool(&f, f.root, "t", &b));
  assert_true(b);
  BAD(accel__json_bool(&f, f.root, "i", &b), "t.json: field 'i' is 12, expected true or false");
  OK(accel__json_string(&f, f.root, "z", &s));
  assert_string_equal(s, "default");
  OK(accel__json_string(&f, f.root, "s", &s));
  assert_string_equal(s, "text");
  BAD(accel__json_string(&f, f.root, "a", &s), "t.json: field 'a' is an array, expected a string");
  OK(accel__json_object(&f, f.root, "absent", &o));
  assert_null(o);
  OK(accel__json_object(&f, f.root, "o", &o));
  assert_int_equal(accel__json_get(o, "x")->valueint, 1);
  BAD(accel__json_object(&f, f.root, "t", &o), "t.json: field 't' is true, expected an object");
  OK(accel__json_array(&f, f.root, "a", &o));
  assert_int_equal(o->child->valueint, 1);
  BAD(accel__json_array(&f, f.root, "o", &o), "t.json: field 'o' is an object, expected an array");
  OK(accel__json_require(&f, f.root, "i"));
  BAD(accel__json_require(&f, f.root, "absent"), "t.json: field 'absent' is missing");
  BAD(accel__json_require(&f, f.root, "z"), "t.json: field 'z' is missing");
  BAD(accel__json_require(&f, NULL, "z"), "t.json: field 'z' is missing");
  assert_true(accel__json_is_null_or_absent(f.root, "z"));
  assert_true(accel__json_is_null_or_absent(NULL, "i"));
  assert_false(accel__json_is_null_or_absent(f.root, "i"));
  assert_null(accel__json_get(accel__json_get(f.root, "a"), "x")); /* no object */
  accel__json_free(&f);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_tree),
      cmocka_unit_test(test_scalars_and_mark),
      cmocka_unit_test(test_numbers),
      cmocka_unit_test(test_numbers_agree_with_strtod),
      cmocka_unit_test(test_numbers_do_not_follow_the_locale),
      cmocka_unit_test(test_strings),
      cmocka_unit_test(test_duplicates),
      cmocka_unit_test(test_syntax_errors),
      cmocka_unit_test(test_every_prefix_of_a_text_is_refused),
      cmocka_unit_test(test_depth),
      cmocka_unit_test(test_refused_memory),
      cmocka_unit_test(test_read),
      cmocka_unit_test(test_int),
      cmocka_unit_test(test_other_types),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
