/* weights_safetensors_test.c - the header reader: what it takes, and what it refuses with which
 * words. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/text.h"
#include "weights/safetensors.h"

static accel__arena arena;
static accel__safetensors parsed;

/* A file in memory of its exact size, so that ASan sees a read beyond it: length, header, `data`
 * zero bytes. */
static accel_status parse_bytes(const char *header, size_t n, uint64_t length, size_t data) {
  uint8_t *bytes = malloc(8 + n + data);
  for (int i = 0; i < 8; i++) bytes[i] = (uint8_t)(length >> (8 * i));
  memcpy(bytes + 8, header, n);
  memset(bytes + 8 + n, 0, data);
  accel__arena_free(&arena);
  accel_status status = accel__safetensors_parse_header(bytes, 8 + n + data, 8 + n + data,
                                                        "f.safetensors", &arena, &parsed);
  /* all of every tensor can be read */
  for (uint32_t i = 0; status == ACCEL_OK && i < parsed.n; i++) {
    uint64_t sum = 0;
    for (uint64_t b = 0; b < parsed.tensor[i].bytes; b++) sum += bytes[parsed.tensor[i].offset + b];
    assert_int_equal(sum, 0);
  }
  free(bytes);
  return status;
}

static accel_status parse(const char *header, size_t data) {
  return parse_bytes(header, strlen(header), strlen(header), data);
}

static void takes(const char *header, size_t data, uint32_t n) {
  if (parse(header, data) != ACCEL_OK) fail_msg("%s: %s", header, accel__message());
  assert_int_equal(parsed.n, n);
}

static void refuses(const char *header, size_t data, const char *words) {
  accel_status status = parse(header, data);
  if (status != ACCEL_ERROR_FORMAT) fail_msg("%s -> %d", header, (int)status);
  if (!strstr(accel__message(), "f.safetensors") || !strstr(accel__message(), words))
    fail_msg("%s\nsays: %s\nexpected: %s", header, accel__message(), words);
  assert_true(accel__remedy_text()[0]);
}

#define T(name, dtype, shape, begin, end)                                                        \
  "\"" name "\":{\"dtype\":\"" dtype "\",\"shape\":" shape ",\"data_offsets\":[" #begin "," #end \
  "]}"

static void good_headers(void **state) {
  (void)state;
  takes("{}", 0, 0);
  takes("{}   \n", 0, 0);
  takes("{\"__metadata__\":{}}", 0, 0);
  takes("{" T("a", "F32", "[2,3]", 0, 24) "}", 24, 1);
  assert_string_equal(parsed.tensor[0].name, "a");
  assert_int_equal(parsed.tensor[0].dtype, ACCEL_PLUGIN_F32);
  assert_int_equal(parsed.tensor[0].rank, 2);
  assert_int_equal(parsed.tensor[0].dim[1], 3);
  assert_int_equal(parsed.tensor[0].elements, 6);
  takes("{" T("scalar", "F64", "[]", 0, 8) "}", 8, 1);
  assert_int_equal(parsed.tensor[0].rank, 0);
  assert_int_equal(parsed.tensor[0].elements, 1);
  takes("{" T("none", "F32", "[0,5]", 0, 0) "," T("one", "U8", "[1]", 0, 1) "}", 1, 2);
  assert_int_equal(parsed.tensor[0].bytes, 0);
  takes("{" T("late", "U8", "[2]", 3, 5) "," T("early", "U8", "[3]", 0, 3) "}", 5, 2);
  assert_string_equal(parsed.tensor[0].name, "early"); /* in the order of the data */
  takes("{" T("nibbles", "F4", "[2,3]", 0, 3) "}", 3, 1);
  takes("{" T("r8", "U8", "[1,1,1,1,1,1,1,2]", 0, 2) "}", 2, 1);
  takes("{ \"a\" :\t{ \"shape\" : [ 1 , 2 ] ,\n\"data_offsets\":[ 0 , 2 ],\"dtype\":\"U8\" } }", 2,
        1);
  takes(
      "{\"a\":{\"dtype\":\"U8\",\"later\":{\"x\":[1,-2.5e3,true,false,null,\"s\"]},\"shape\":[1],"
      "\"data_offsets\":[0,1]}}",
      1, 1);
  takes("{\"dt\":{\"d\\u0074ype\":\"U8\",\"shape\":[1],\"data_offsets\":[0,1]}}", 1, 1);
}

static void strings(void **state) {
  (void)state;
  takes(
      "{\"\\u00e9\\ud83d\\ude00\\\"\\\\\\/"
      "\\b\\f\\n\\r\\t\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[0,1]}}",
      1, 1);
  assert_string_equal(parsed.tensor[0].name, "\u00e9\U0001f600\"\\/\b\f\n\r\t");
  takes("{\"__metadata__\":{\"format\":\"pt\",\"k\\u0061\":\"v\"}}", 0, 0);
  assert_int_equal(parsed.n_metadata, 2);
  assert_string_equal(parsed.metadata[2], "ka");
  assert_string_equal(parsed.metadata[3], "v");
  refuses("{\"a\\u0000b\":1}", 0, "NUL");
  refuses("{\"\\ud800\":1}", 0, "surrogate");
  refuses("{\"\\udc00\":1}", 0, "surrogate");
  refuses("{\"\\ud800\\u0041\":1}", 0, "surrogate");
  refuses("{\"\\u12g4\":1}", 0, "hex");
  refuses("{\"\\u12", 0, "hex");
  refuses("{\"\\x\":1}", 0, "escape");
  refuses("{\"a\nb\":1}", 0, "control character");
  refuses("{\"abc", 0, "without an end");
  refuses("{\"abc\\", 0, "without an end");
  refuses("{\"\xff\":1}", 0, "UTF-8");
  refuses("{\"\xc0\x80\":1}", 0, "UTF-8");
  refuses("{\"\xed\xa0\x80\":1}", 0, "UTF-8");
}

static void lengths(void **state) {
  (void)state;
  assert_int_equal(accel__safetensors_parse_header((const uint8_t *)"1234567", 7, 7,
                                                   "f.safetensors", &arena, &parsed),
                   ACCEL_ERROR_FORMAT);
  assert_non_null(strstr(accel__message(), "too short"));
  assert_int_equal(accel__safetensors_parse_header(NULL, 0, 0, "f.safetensors", &arena, &parsed),
                   ACCEL_ERROR_FORMAT);
  assert_int_equal(parse_bytes("{}", 2, 3, 0), ACCEL_ERROR_FORMAT);
  assert_non_null(strstr(accel__message(), "header length 3, but only 2 bytes follow"));
  assert_int_equal(parse_bytes("{}", 2, UINT64_MAX, 0), ACCEL_ERROR_FORMAT);
  assert_non_null(strstr(accel__message(), "18446744073709551615 is beyond"));
  assert_int_equal(parse_bytes("{}", 2, 100000001, 0), ACCEL_ERROR_FORMAT);
  assert_int_equal(parse_bytes("{}", 2, 0, 0), ACCEL_ERROR_FORMAT);
  refuses("", 0, "'{'");
}

static void offsets(void **state) {
  (void)state;
  refuses("{" T("a", "F32", "[2]", 0, 8) "}", 7,
          "tensor 'a': field 'data_offsets': ends at byte 8 of the data, which has only 7");
  refuses("{" T("a", "F32", "[2]", 0, 8) "}", 9, "1 bytes of data belong to no tensor");
  refuses("{}", 1, "belong to no tensor");
  refuses("{" T("a", "F32", "[2]", 0, 12) "}", 12, "12 bytes, but shape and dtype F32 need 8");
  refuses("{" T("a", "F32", "[2]", 8, 0) "}", 8, "before it begins");
  refuses("{" T("a", "U8", "[4]", 0, 4) "," T("b", "U8", "[4]", 2, 6) "}", 6,
          "tensor 'b': field 'data_offsets': overlaps tensor 'a'");
  refuses("{" T("a", "U8", "[4]", 0, 4) "," T("b", "U8", "[4]", 0, 4) "}", 4, "overlaps");
  refuses("{" T("a", "U8", "[4]", 0, 4) "," T("b", "U8", "[1]", 5, 6) "}", 6,
          "leaves bytes 4 to 5 of the data to no tensor");
  refuses("{" T("a", "U8", "[1]", 1, 2) "}", 2, "leaves bytes 0 to 1");
  refuses("{" T("a", "U8", "[0]", 9, 9) "}", 0, "ends at byte 9");
  refuses("{" T("a", "F4", "[3]", 0, 1) "}", 1, "do not fill whole bytes");
  refuses("{\"a\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[0]}}", 1, "expected ','");
  refuses("{\"a\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[0,1,2]}}", 1, "exactly two");
  refuses("{" T("a", "U8", "[1]", 0, 18446744073709551615) "}", 1, "18446744073709551615 bytes");
}

static void numbers(void **state) {
  (void)state;
  refuses("{" T("a", "U8", "[-1]", 0, 1) "}", 1, "tensor 'a': field 'shape': negative number");
  refuses("{" T("a", "U8", "[1]", -1, 1) "}", 1, "field 'data_offsets': negative number");
  refuses("{" T("a", "U8", "[1.0]", 0, 1) "}", 1, "whole number");
  refuses("{" T("a", "U8", "[1e0]", 0, 1) "}", 1, "whole number");
  refuses("{" T("a", "U8", "[01]", 0, 1) "}", 1, "leading zero");
  refuses("{" T("a", "U8", "[18446744073709551616]", 0, 1) "}", 1, "beyond 64 bits");
  refuses("{" T("a", "U8", "[9223372036854775808]", 0, 1) "}", 1, "more elements");
  refuses("{" T("a", "U8", "[4294967296,4294967296]", 0, 0) "}", 0, "more elements than 64 bits");
  refuses("{" T("a", "F64", "[4611686018427387904]", 0, 0) "}", 0, "more bytes than 64 bits");
  refuses("{" T("a", "U8", "[\"1\"]", 0, 1) "}", 1, "whole number");
  refuses("{" T("a", "U8", "[1,1,1,1,1,1,1,1,1]", 0, 1) "}", 1, "more than 8 dims");
}

static void structure(void **state) {
  (void)state;
  refuses("[]", 0, "does not begin with '{'");
  refuses(" {}", 0, "does not begin with '{'");
  refuses("{}x", 0, "follows");
  refuses("{},", 0, "follows");
  refuses("{", 0, "string");
  refuses("{\"a\"", 0, "expected ':'");
  refuses("{\"a\":1}", 0, "tensor 'a': expected '{'");
  refuses("{" T("a", "U8", "[1]", 0, 1) ",}", 1, "string");
  refuses("{" T("a", "U8", "[1]", 0, 1), 1, "ends inside");
  refuses("{" T("a", "U8", "[1]", 0, 1) "," T("a", "U8", "[1]", 1, 2) "}", 2,
          "tensor 'a': listed twice");
  refuses("{\"a\":{\"dtype\":\"U8\",\"shape\":[1]}}", 1,
          "tensor 'a': field 'data_offsets' is missing");
  refuses("{\"a\":{}}", 0, "field 'dtype' is missing");
  refuses("{\"a\":{\"dtype\":\"U8\",\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[0,1]}}", 1,
          "field 'dtype': given twice");
  refuses("{\"a\":{\"dtype\":\"F33\",\"shape\":[1],\"data_offsets\":[0,1]}}", 1,
          "field 'dtype': 'F33' is no dtype");
  refuses("{\"a\":{\"dtype\":\"I4\",\"shape\":[2],\"data_offsets\":[0,1]}}", 1, "'I4' is no dtype");
  refuses("{\"a\":{\"dtype\":8,\"shape\":[1],\"data_offsets\":[0,1]}}", 1, "expected a string");
  refuses("{\"__metadata__\":{\"a\":1}}", 0, "no string");
  refuses("{\"__metadata__\":[]}", 0, "expected '{'");
  refuses("{\"__metadata__\":{},\"__metadata__\":{}}", 0, "given twice");
  /* nothing a terminal would act on */
  refuses("{\"bad\\u001b[2Jname\":1}", 0, "tensor 'bad?[2Jname'");
}

static void nesting(void **state) {
  (void)state;
  accel__buffer deep = {0};
  accel__buffer_text(&deep, "{\"a\":{\"x\":");
  for (int i = 0; i < 100000; i++) accel__buffer_text(&deep, "[");
  assert_int_equal(parse_bytes(deep.data, deep.n, deep.n, 0), ACCEL_ERROR_FORMAT);
  assert_non_null(strstr(accel__message(), "nested deeper than 32"));
  accel__buffer_free(&deep);
}

static void every_cut_is_refused(void **state) {
  (void)state;
  const char *header = "{\"__metadata__\":{\"f\":\"p\\u00e9\"}," T("a", "F32", "[2,1]", 0, 8) "," T(
      "b", "I64", "[]", 8, 16) "}";
  size_t n = strlen(header);
  takes(header, 16, 2);
  for (size_t cut = 0; cut < n; cut++)
    assert_int_equal(parse_bytes(header, cut, cut, 16), ACCEL_ERROR_FORMAT);
  for (size_t data = 0; data < 16; data++)
    assert_int_equal(parse_bytes(header, n, n, data), ACCEL_ERROR_FORMAT);
}

static void many_tensors(void **state) {
  (void)state;
  enum { N = 20000 };
  accel__buffer b = {0};
  accel__buffer_text(&b, "{");
  for (int i = 0; i < N; i++)
    accel__buffer_printf(
        &b, "%s\"layer.%d.weight\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[%d,%d]}",
        i ? "," : "", i, i, i + 1);
  accel__buffer_text(&b, "}");
  assert_int_equal(parse_bytes(b.data, b.n, b.n, N), ACCEL_OK);
  assert_int_equal(parsed.n, N);
  assert_string_equal(parsed.tensor[N - 1].name, "layer.19999.weight");
  accel__buffer_free(&b);
}

static int unmake(void **state) {
  (void)state;
  accel__arena_free(&arena);
  return 0;
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(good_headers), cmocka_unit_test(strings),
      cmocka_unit_test(lengths),      cmocka_unit_test(offsets),
      cmocka_unit_test(numbers),      cmocka_unit_test(structure),
      cmocka_unit_test(nesting),      cmocka_unit_test(every_cut_is_refused),
      cmocka_unit_test(many_tensors),
  };
  return cmocka_run_group_tests(tests, NULL, unmake);
}
