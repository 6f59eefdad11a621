/* backend_weights_test.c - every weight format back to fp32, against values worked out by hand. */
#include "backend_helper.h"
#include "formats/bf16.h"
#include "formats/fp16.h"

enum { NONE = ACCEL_PLUGIN_NO_DTYPE };
static const accel_plugin_weight matrix = {
    .name = "w", .rank = 2, .dim = {3, 5}, .use = ACCEL_PLUGIN_USE_LINEAR};

static void expect(const accel_plugin_weight *w, accel_plugin_format f,
                   accel_plugin_weight_view view, const float *right, int64_t n, int64_t k) {
  float all[64], row[64];
  accel_plugin_error error = {.size = sizeof error};
  assert_true(kit_format_known(&f));
  assert_int_equal(kit_weight_rows(w, &f, &view, 0, n, all, &error), 0);
  for (int64_t i = 0; i < n * k; i++)
    if (all[i] != right[i])
      fail_msg("store %u, element %d is %.9g, expected %.9g", f.store, (int)i, all[i], right[i]);
  for (int64_t r = 0; r < n; r++) {
    assert_int_equal(kit_weight_rows(w, &f, &view, r, 1, row, &error), 0);
    assert_memory_equal(row, right + r * k, (size_t)k * 4);
  }
  assert_int_equal(kit_weight_rows(w, &f, &view, n, 1, row, &error), ACCEL_PLUGIN_E_ARGUMENT);
}

static void plain_formats(void **state) {
  (void)state;
  float x[15];
  uint16_t half[15], brain[15];
  for (int i = 0; i < 15; i++) {
    x[i] = (float)(i - 7) * 0.25f;
    half[i] = accel_f32_to_fp16(x[i]);
    brain[i] = accel_f32_to_bf16(x[i]);
  }
  expect(&matrix, (accel_plugin_format){ACCEL_PLUGIN_F32, NONE, NONE, NONE, 0, 0},
         (accel_plugin_weight_view){.data = x}, x, 3, 5);
  expect(&matrix, (accel_plugin_format){ACCEL_PLUGIN_F16, NONE, NONE, NONE, 0, 0},
         (accel_plugin_weight_view){.data = half}, x, 3, 5);
  expect(&matrix, (accel_plugin_format){ACCEL_PLUGIN_BF16, NONE, NONE, NONE, 0, 0},
         (accel_plugin_weight_view){.data = brain}, x, 3, 5);
}

/* int8 per row; uint8 with zero and groups of 2 columns by 2 rows; one scale for the whole
 * tensor. */
static void eight_bits(void **state) {
  (void)state;
  static const int8_t q[15] = {127, -127, 0, 1, -1, 2, 3, 4, 5, 6, -8, 16, -32, 64, 100};
  static const float rows[3] = {0.5f, 2, 0.25f};
  float right[15];
  for (int i = 0; i < 15; i++) right[i] = (float)q[i] * rows[i / 5];
  expect(&matrix, (accel_plugin_format){ACCEL_PLUGIN_I8, ACCEL_PLUGIN_F32, NONE, NONE, 0, 1},
         (accel_plugin_weight_view){.data = q, .scale = rows}, right, 3, 5);
  static const uint8_t u[15] = {0, 255, 7, 9, 200, 1, 2, 3, 4, 5, 50, 60, 70, 80, 90},
                       zero[6] = {0, 7, 128, 1, 2, 3};
  static const float scale[6] = {1, 2, 4, 8, 0.5f, 0.25f}; /* [2 row groups][3 column groups] */
  for (int i = 0; i < 15; i++) {
    int g = i / 5 / 2 * 3 + i % 5 / 2;
    right[i] = ((float)u[i] - (float)zero[g]) * scale[g];
  }
  expect(&matrix,
         (accel_plugin_format){ACCEL_PLUGIN_U8, ACCEL_PLUGIN_F32, ACCEL_PLUGIN_U8, NONE, 2, 2},
         (accel_plugin_weight_view){.data = u, .scale = scale, .zero = zero}, right, 3, 5);
  static const uint8_t e4m3[15] = {0x38, 0xb8, 0x00, 0x7e, 0x01, 0x40, 0x30, 0x08,
                                   0x07, 0x3c, 0x39, 0xc0, 0x48, 0x50, 0x28};
  static const float e4m3_value[15] = {1,           -1,   0,      448, 0x1p-9f, 2, 0.5f, 0x1p-6f,
                                       7 * 0x1p-9f, 1.5f, 1.125f, -2,  4,       8, 0.25f},
                     whole[1] = {3};
  for (int i = 0; i < 15; i++) right[i] = e4m3_value[i] * 3;
  expect(&matrix, (accel_plugin_format){ACCEL_PLUGIN_E4M3, ACCEL_PLUGIN_F32, NONE, NONE, 0, 0},
         (accel_plugin_weight_view){.data = e4m3, .scale = whole}, right, 3, 5);
}

/* Rows of five nibbles take three bytes; groups of 2 columns, the last one short. */
static void four_bits(void **state) {
  (void)state;
  static const uint8_t packed[9] = {0x10, 0x32, 0x0f, 0x98, 0xba, 0x07, 0xdc, 0xfe, 0x01};
  static const uint8_t code[15] = {0, 1, 2, 3, 15, 8, 9, 10, 11, 7, 12, 13, 14, 15, 1};
  uint16_t scale[9];
  uint8_t zero[9], power[9];
  float right[15];
  for (int i = 0; i < 9; i++) {
    scale[i] = accel_f32_to_fp16(0.25f * (float)(i + 1));
    zero[i] = (uint8_t)i;
    power[i] = (uint8_t)(127 + i - 4);
  }
  for (int i = 0; i < 15; i++)
    right[i] =
        (float)(code[i] < 8 ? code[i] : code[i] - 16) * 0.25f * (float)(i / 5 * 3 + i % 5 / 2 + 1);
  expect(&matrix, (accel_plugin_format){ACCEL_PLUGIN_I4, ACCEL_PLUGIN_F16, NONE, NONE, 2, 1},
         (accel_plugin_weight_view){.data = packed, .scale = scale}, right, 3, 5);
  for (int i = 0; i < 15; i++) {
    int g = i / 5 * 3 + i % 5 / 2;
    right[i] = ((float)code[i] - (float)g) * 0.25f * (float)(g + 1);
  }
  expect(&matrix,
         (accel_plugin_format){ACCEL_PLUGIN_U4, ACCEL_PLUGIN_F16, ACCEL_PLUGIN_U8, NONE, 2, 1},
         (accel_plugin_weight_view){.data = packed, .scale = scale, .zero = zero}, right, 3, 5);
  static const float fp4[16] = {0,     0.5f,  1,  1.5f,  2,  3,  4,  6,
                                -0.0f, -0.5f, -1, -1.5f, -2, -3, -4, -6};
  static const float outer[1] = {0.5f};
  for (int i = 0; i < 15; i++)
    right[i] = fp4[code[i]] * (float)(1 << (i / 5 * 3 + i % 5 / 2)) / 16 * 0.5f;
  expect(&matrix,
         (accel_plugin_format){ACCEL_PLUGIN_E2M1, ACCEL_PLUGIN_E8M0, NONE, ACCEL_PLUGIN_F32, 2, 1},
         (accel_plugin_weight_view){.data = packed, .scale = power, .outer = outer}, right, 3, 5);
}

/* A convolution's row is all but its first dim, a mixture's rows are all but its last. */
static void matrices_of_weights(void **state) {
  (void)state;
  int64_t n, k;
  accel_plugin_weight w = {
      .name = "c", .rank = 4, .dim = {2, 3, 2, 2}, .use = ACCEL_PLUGIN_USE_CONV};
  kit_weight_matrix(&w, &n, &k);
  assert_true(n == 2 && k == 12);
  static const float rows[2] = {2, 10};
  int8_t q[24];
  float right[24];
  for (int i = 0; i < 24; i++) {
    q[i] = (int8_t)(i - 12);
    right[i] = (float)q[i] * rows[i / 12];
  }
  accel_plugin_format f = {ACCEL_PLUGIN_I8, ACCEL_PLUGIN_F32, NONE, NONE, 0, 1};
  expect(&w, f, (accel_plugin_weight_view){.data = q, .scale = rows}, right, 2, 12);
  assert_int_equal(kit_format_bytes(&w, &f), 24 + 2 * 4);
  w = (accel_plugin_weight){.name = "m", .rank = 3, .dim = {4, 6, 5}, .use = ACCEL_PLUGIN_USE_MOE};
  kit_weight_matrix(&w, &n, &k);
  assert_true(n == 24 && k == 5);
  f = (accel_plugin_format){ACCEL_PLUGIN_U4, ACCEL_PLUGIN_F16, ACCEL_PLUGIN_U8, NONE, 2, 1};
  assert_int_equal(kit_format_bytes(&w, &f), 24 * 3 + 24 * 3 * 3);
  w = (accel_plugin_weight){.name = "v", .rank = 1, .dim = {7}};
  kit_weight_matrix(&w, &n, &k);
  assert_true(n == 1 && k == 7);
}

static void unknown_formats_are_named(void **state) {
  (void)state;
  accel_plugin_error error = {.size = sizeof error};
  float out[15];
  accel_plugin_format f = {ACCEL_PLUGIN_F64, NONE, NONE, NONE, 0, 0};
  assert_false(kit_format_known(&f));
  assert_int_equal(
      kit_weight_rows(&matrix, &f, &(accel_plugin_weight_view){.data = out}, 0, 1, out, &error),
      ACCEL_PLUGIN_E_UNSUPPORTED);
  assert_non_null(strstr(error.message, "weight 'w': store 13"));
  /* no scales given */
  f = (accel_plugin_format){ACCEL_PLUGIN_I8, ACCEL_PLUGIN_F32, NONE, NONE, 0, 1};
  assert_int_equal(
      kit_weight_rows(&matrix, &f, &(accel_plugin_weight_view){.data = out}, 0, 1, out, &error),
      ACCEL_PLUGIN_E_ARGUMENT);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(plain_formats), cmocka_unit_test(eight_bits), cmocka_unit_test(four_bits),
      cmocka_unit_test(matrices_of_weights), cmocka_unit_test(unknown_formats_are_named)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
