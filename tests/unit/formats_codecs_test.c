/* formats_codecs_test.c - every code of every format there and back, and every rounding: each float
 * between two neighbouring codes goes to the nearer one, ties to the even code.  The 16-bit formats
 * are checked at every code's neighbours and midpoints, which decides all floats because conversion
 * is monotonic (held too). */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "formats/bf16.h"
#include "formats/e2m1.h"
#include "formats/e4m3.h"
#include "formats/e5m2.h"
#include "formats/e8m0.h"
#include "formats/fp16.h"
#include "formats/int4.h"
#include "formats/weight_matrix.h"

/* Value of a code by the definition: sign, exponent, mantissa, bias; subnormals; no special
 * codes. */
static double defined(uint32_t code, int exponent_bits, int mantissa_bits) {
  int bias = (1 << (exponent_bits - 1)) - 1;
  int exponent = (int)(code >> mantissa_bits & ((1u << exponent_bits) - 1));
  double mantissa = code & ((1u << mantissa_bits) - 1);
  double scale = ldexp(1.0, (exponent ? exponent : 1) - bias - mantissa_bits);
  double value = ((exponent ? ldexp(1.0, mantissa_bits) : 0.0) + mantissa) * scale;
  return code >> (exponent_bits + mantissa_bits) & 1 ? -value : value;
}

typedef struct format {
  const char *name;
  int exponent_bits, mantissa_bits;
  uint32_t finite; /* positive codes below this are finite */
  float (*decode)(uint32_t);
  uint32_t (*encode)(float);
} format;

static float d_fp16(uint32_t c) { return accel_fp16_to_f32((uint16_t)c); }
static float d_bf16(uint32_t c) { return accel_bf16_to_f32((uint16_t)c); }
static float d_e4m3(uint32_t c) { return accel_e4m3_to_f32((uint8_t)c); }
static float d_e5m2(uint32_t c) { return accel_e5m2_to_f32((uint8_t)c); }
static float d_e2m1(uint32_t c) { return accel_e2m1_to_f32((uint8_t)c); }
static uint32_t e_fp16(float v) { return accel_f32_to_fp16(v); }
static uint32_t e_bf16(float v) { return accel_f32_to_bf16(v); }
static uint32_t e_e4m3(float v) { return accel_f32_to_e4m3(v); }
static uint32_t e_e5m2(float v) { return accel_f32_to_e5m2(v); }
static uint32_t e_e2m1(float v) { return accel_f32_to_e2m1(v); }

static const format formats[] = {
    {"fp16", 5, 10, 0x7c00, d_fp16, e_fp16}, {"bf16", 8, 7, 0x7f80, d_bf16, e_bf16},
    {"e4m3", 4, 3, 0x7f, d_e4m3, e_e4m3},    {"e5m2", 5, 2, 0x7c, d_e5m2, e_e5m2},
    {"e2m1", 2, 1, 8, d_e2m1, e_e2m1},
};
enum { FORMATS = sizeof formats / sizeof *formats };

static void expect_code(const format *f, float value, uint32_t code) {
  uint32_t got = f->encode(value);
  if (got != code) fail_msg("%s: %.9g becomes %#x, expected %#x", f->name, value, got, code);
}

static void codes_survive(void **state) {
  (void)state;
  for (int i = 0; i < FORMATS; i++) {
    const format *f = &formats[i];
    uint32_t sign = 1u << (f->exponent_bits + f->mantissa_bits);
    for (uint32_t c = 0; c < f->finite; c++)
      for (uint32_t s = 0; s <= sign; s += sign) {
        float value = f->decode(c | s);
        if ((double)value != defined(c | s, f->exponent_bits, f->mantissa_bits))
          fail_msg("%s: code %#x is %.9g", f->name, c | s, value);
        assert_int_equal(signbit(value) != 0, s != 0);
        expect_code(f, value, c | s);
      }
  }
}

static void rounding_is_to_nearest_even(void **state) {
  (void)state;
  for (int i = 0; i < FORMATS; i++) {
    const format *f = &formats[i];
    uint32_t sign = 1u << (f->exponent_bits + f->mantissa_bits);
    for (uint32_t c = 0; c + 1 < f->finite; c++) {
      double a = f->decode(c), b = f->decode(c + 1), middle = (a + b) / 2;
      /* exact: formats have fewer mantissa bits than float; bf16's subnormal ties are float
       * subnormals */
      float tie = (float)middle;
      assert_true((double)tie == middle);
      uint32_t even = c % 2 ? c + 1 : c;
      expect_code(f, tie, even);
      expect_code(f, nextafterf(tie, 0.0f), c);
      expect_code(f, nextafterf(tie, INFINITY), c + 1);
      expect_code(f, -tie, even | sign);
      expect_code(f, nextafterf(f->decode(c), INFINITY), c);
      expect_code(f, nextafterf(f->decode(c + 1), 0.0f), c + 1);
    }
  }
}

/* Over floats of all sizes: larger values never get smaller codes. */
static void conversion_is_monotonic(void **state) {
  (void)state;
  for (int i = 0; i < FORMATS; i++) {
    uint32_t last = 0;
    for (uint32_t bits = 0; bits <= 0x7f800000u; bits += 977) {
      float value;
      memcpy(&value, &bits, sizeof value);
      uint32_t code = formats[i].encode(value);
      assert_true(code >= last);
      last = code;
    }
  }
}

static void limits_and_specials(void **state) {
  (void)state;
  assert_true(isinf(accel_fp16_to_f32(0x7c00)) && isinf(accel_e5m2_to_f32(0xfc)) &&
              isinf(accel_bf16_to_f32(0x7f80)));
  assert_int_equal(accel_f32_to_fp16(65519.996f), 0x7bff);
  assert_int_equal(accel_f32_to_fp16(65520.0f), 0x7c00);
  assert_int_equal(accel_f32_to_fp16(-INFINITY), 0xfc00);
  assert_int_equal(accel_f32_to_bf16(INFINITY), 0x7f80);
  assert_int_equal(accel_f32_to_e5m2(61439.99f), 0x7b);
  assert_int_equal(accel_f32_to_e5m2(61440.0f), 0x7c);
  assert_int_equal(accel_f32_to_e4m3(1e30f), 0x7e);
  assert_int_equal(accel_f32_to_e4m3(-INFINITY), 0xfe);
  assert_int_equal(accel_f32_to_e2m1(100.0f), 7);
  assert_int_equal(accel_f32_to_e2m1(-INFINITY), 15);
  assert_true(isnan(accel_fp16_to_f32(accel_f32_to_fp16(NAN))) &&
              isnan(accel_bf16_to_f32(accel_f32_to_bf16(NAN))));
  assert_true(isnan(accel_e4m3_to_f32(accel_f32_to_e4m3(NAN))) &&
              isnan(accel_e5m2_to_f32(accel_f32_to_e5m2(NAN))));
  assert_true(isnan(accel_e4m3_to_f32(0x7f)) && isnan(accel_e4m3_to_f32(0xff)));
  for (uint32_t c = 0x7c01; c < 0x8000; c++)
    assert_true(isnan(accel_fp16_to_f32((uint16_t)c)) &&
                isnan(accel_fp16_to_f32(accel_f32_to_fp16(accel_fp16_to_f32((uint16_t)c)))));
  for (uint32_t c = 0x7f81; c < 0x8000; c++)
    assert_true(isnan(accel_bf16_to_f32(accel_f32_to_bf16(accel_bf16_to_f32((uint16_t)c)))));
  static const float fp4[8] = {0, 0.5f, 1, 1.5f, 2, 3, 4, 6};
  for (uint8_t c = 0; c < 8; c++)
    assert_true(accel_e2m1_to_f32(c) == fp4[c] && accel_e2m1_to_f32(c | 8) == -fp4[c]);
}

static void powers_of_two(void **state) {
  (void)state;
  for (int c = 0; c < 255; c++) {
    float value = accel_e8m0_to_f32((uint8_t)c);
    assert_true((double)value == ldexp(1.0, c - 127));
    assert_int_equal(accel_f32_to_e8m0(value), c);
    if (c == 254) break;
    float tie = value * 1.5f;
    assert_int_equal(accel_f32_to_e8m0(tie), c % 2 ? c + 1 : c);
    assert_int_equal(accel_f32_to_e8m0(nextafterf(tie, 0)), c);
    assert_int_equal(accel_f32_to_e8m0(nextafterf(tie, INFINITY)), c + 1);
  }
  assert_true(isnan(accel_e8m0_to_f32(0xff)));
  assert_int_equal(accel_f32_to_e8m0(NAN), 0xff);
  assert_int_equal(accel_f32_to_e8m0(0.0f), 0);
  assert_int_equal(accel_f32_to_e8m0(-3.0f), 0);
  assert_int_equal(accel_f32_to_e8m0(INFINITY), 254);
}

static void nibbles(void **state) {
  (void)state;
  uint8_t packed[5] = {0};
  for (size_t i = 0; i < 10; i++) accel_nibble_set(packed, i, (uint8_t)(15 - i));
  assert_int_equal(packed[0], 0xef); /* element 0 in the low half */
  for (size_t i = 0; i < 10; i++) assert_int_equal(accel_nibble(packed, i), 15 - i);
  accel_nibble_set(packed, 1, 3);
  assert_int_equal(packed[0], 0x3f);
  for (int v = -8; v < 8; v++) {
    assert_true(accel_int4_to_f32(accel_f32_to_int4((float)v)) == (float)v);
    assert_true(accel_int4_to_f32(accel_f32_to_int4((float)v + 0.5f)) ==
                fminf(rintf((float)v + 0.5f), 7));
  }
  for (int v = 0; v < 16; v++) {
    assert_true(accel_uint4_to_f32(accel_f32_to_uint4((float)v)) == (float)v);
    assert_true(accel_uint4_to_f32(accel_f32_to_uint4((float)v + 0.5f)) ==
                fminf(rintf((float)v + 0.5f), 15));
  }
  assert_int_equal(accel_f32_to_int4(-1e30f), 8);
  assert_int_equal(accel_f32_to_uint4(-1.0f), 0);
  assert_int_equal(accel_f32_to_int4(NAN), 0);
}

/* Every line of formats.def: its codes come back, and no code is nearer than the one chosen. */
static void table_codecs_are_nearest(void **state) {
  (void)state;
  int found = 0;
  for (uint32_t store = ACCEL_PLUGIN_BF16 + 1; store < ACCEL_FORMAT_NUMBERS; store++) {
    const accel_format_facts *facts = accel_format_facts_of(store);
    if (!facts->weights) continue;
    const int codes = 1 << facts->bits;
    assert_true(facts->bits == 4 || facts->bits == 8);
    float value[256], most = 0, largest = facts->largest > 0 ? facts->largest : 255;
    for (int c = 0; c < codes; c++) {
      const uint8_t code = (uint8_t)c;
      uint8_t again = 0xee;
      accel_decode_codes((uint8_t)store, &code, 1, 0, 1, 1, &value[c]);
      accel_encode_codes((uint8_t)store, &value[c], 1, 1, &again);
      if (isfinite(value[c])) most = fmaxf(most, fabsf(value[c]));
      if (isfinite(value[c]) && again != code && fabsf(value[c]) <= largest) {
        accel_decode_codes((uint8_t)store, &again, 1, 0, 1, 1, &value[c]); /* zero twice */
        if (value[c] != 0) fail_msg("%s: code %#x becomes %#x", facts->name, c, again);
      }
    }
    /* the largest code stands for what the line says; around zeros, and two's complement, one more */
    assert_true(most >= largest && most <= 2 * largest + 1);
    for (int i = -1000; i <= 1000; i++) {
      const float x = largest * (float)i / 1000;
      if (x < 0 && facts->format.zero != ACCEL_PLUGIN_NO_DTYPE) continue;
      float got = 0, least = INFINITY;
      uint8_t code = 0;
      accel_encode_codes((uint8_t)store, &x, 1, 1, &code);
      accel_decode_codes((uint8_t)store, &code, 1, 0, 1, 1, &got);
      for (int c = 0; c < codes; c++) least = fminf(least, fabsf(value[c] - x)); /* not of NaN */
      if (fabsf(got - x) > least)
        fail_msg("%s: %g becomes %g", facts->name, (double)x, (double)got);
    }
    found++;
  }
  assert_true(found >= 7);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(codes_survive),           cmocka_unit_test(rounding_is_to_nearest_even),
      cmocka_unit_test(conversion_is_monotonic), cmocka_unit_test(limits_and_specials),
      cmocka_unit_test(powers_of_two),           cmocka_unit_test(nibbles),
      cmocka_unit_test(table_codecs_are_nearest)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
