/* weights_source_test.c - weights in the formats asked for: in place, converted, joined, derived,
 * random; and what is refused. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/config.h"
#include "core/text.h"
#include "formats/bf16.h"
#include "formats/fp16.h"
#include "unit/temp.h"
#include "weights/source.h"

static const accel_plugin_format f32 = {
    ACCEL_PLUGIN_F32, ACCEL_PLUGIN_NO_DTYPE, ACCEL_PLUGIN_NO_DTYPE, ACCEL_PLUGIN_NO_DTYPE, 0, 0};
static const accel_plugin_format f16 = {
    ACCEL_PLUGIN_F16, ACCEL_PLUGIN_NO_DTYPE, ACCEL_PLUGIN_NO_DTYPE, ACCEL_PLUGIN_NO_DTYPE, 0, 0};
static const accel_plugin_format bf16 = {
    ACCEL_PLUGIN_BF16, ACCEL_PLUGIN_NO_DTYPE, ACCEL_PLUGIN_NO_DTYPE, ACCEL_PLUGIN_NO_DTYPE, 0, 0};
static const accel_plugin_format uint8 =
    {/* codes with zeros: only checkpoints have them */
     ACCEL_PLUGIN_U8, ACCEL_PLUGIN_F32, ACCEL_PLUGIN_U8, ACCEL_PLUGIN_NO_DTYPE, 0, 1};

enum { Q = 20000 * 3 };
static float a_values[6] = {1, 2, 3, 4, 5, 6}, b_values[3] = {-7, 8, 65504}, big_values[Q];
static uint16_t half_values[4] = {0x3c00, 0xc100, 0x0001, 0x7bff};
static int8_t code_values[6] = {1, 2, 3, 4, 5, 6};
static double double_values[2] = {0.1, -3};

static accel__checkpoint *open_sample(void) {
  for (int i = 0; i < Q; i++) big_values[i] = (float)i / 7;
  const accel__tensor_info tensors[] = {
      {.name = "a", .dtype = ACCEL_PLUGIN_F32, .rank = 2, .dim = {2, 3}, .data = a_values},
      {.name = "b", .dtype = ACCEL_PLUGIN_F32, .rank = 2, .dim = {1, 3}, .data = b_values},
      {.name = "h", .dtype = ACCEL_PLUGIN_F16, .rank = 2, .dim = {2, 2}, .data = half_values},
      {.name = "codes", .dtype = ACCEL_PLUGIN_I8, .rank = 2, .dim = {2, 3}, .data = code_values},
      {.name = "d", .dtype = ACCEL_PLUGIN_F64, .rank = 1, .dim = {2}, .data = double_values},
      {.name = "big",
       .dtype = ACCEL_PLUGIN_F32,
       .rank = 3,
       .dim = {20000, 3, 1},
       .data = big_values},
      {.name = "nothing", .dtype = ACCEL_PLUGIN_F32, .rank = 2, .dim = {0, 3}},
  };
  accel__checkpoint *c;
  assert_int_equal(accel__safetensors_write(temp_path("s.safetensors"), tensors,
                                            sizeof tensors / sizeof *tensors, NULL, 0),
                   ACCEL_OK);
  if (accel__checkpoint_open(temp_path("s.safetensors"), &c) != ACCEL_OK)
    fail_msg("%s", accel__message());
  return c;
}

static accel__checkpoint *sample;

static int make(void **state) {
  (void)state;
  sample = open_sample();
  return 0;
}
static int unmake(void **state) {
  (void)state;
  accel__checkpoint_close(&sample);
  return 0;
}

static accel__source *source_of(const accel__source_weight *w, uint32_t n,
                                const accel__checkpoint *c, const accel_plugin_format *formats) {
  accel__source *s;
  if (accel__source_new(w, n, &(accel__source_from){.checkpoint = c, .seed = 7}, formats, &s) !=
      ACCEL_OK)
    fail_msg("%s", accel__message());
  return s;
}

static const void *map(accel__source *s, uint32_t i) {
  accel_plugin_weight_view view;
  if (accel__source_map(s, i, &view) != ACCEL_OK) fail_msg("weight %u: %s", i, accel__message());
  assert_null(view.scale);
  assert_null(view.zero);
  assert_null(view.outer);
  return view.data;
}

static void refuses(const accel__source_weight *w, uint32_t n, const accel_plugin_format *formats,
                    accel_status code, const char *words) {
  accel__source *s = (void *)1;
  accel_status status =
      accel__source_new(w, n, &(accel__source_from){.checkpoint = sample}, formats, &s);
  assert_null(s);
  if (status != code || !strstr(accel__message(), words))
    fail_msg("status %d: %s\nexpected: %s", (int)status, accel__message(), words);
}

/* Weights of a file that is mapped are its pages where they are wanted for a while alone; unmapping
 * counts both. */
static void borrowed_pages(void **state) {
  (void)state;
  float values[12];
  for (int i = 0; i < 12; i++) values[i] = (float)i;
  const accel__tensor_info t = {
      .name = "m", .dtype = ACCEL_PLUGIN_F32, .rank = 2, .dim = {4, 3}, .data = values};
  accel__source_weight w = {.name = "m", .use = ACCEL_PLUGIN_USE_LINEAR, .rank = 2, .dim = {4, 3}};
  const char *path = temp_path("pages.safetensors");
  accel__checkpoint *c;
  accel__source *s;
  accel_plugin_weight_view view;
  accel__source_some rows;
  assert_int_equal(accel__safetensors_write(path, &t, 1, NULL, 0), ACCEL_OK);
  assert_int_equal(accel__checkpoint_open(path, &c), ACCEL_OK);
  assert_int_equal(accel__source_new(&w, 1, &(accel__source_from){.checkpoint = c}, &f32, &s),
                   ACCEL_OK);
  assert_int_equal(accel__checkpoint_map(c), ACCEL_OK);
  const float *pages = accel__tensor_pages(c, accel__checkpoint_at(c, 0), 0, sizeof values);
  if (pages) { /* the file system keeps leases */
    assert_int_equal(accel__source_borrow(s, 0, &view), ACCEL_OK);
    assert_ptr_equal(view.data, pages);
    const void *own = map(s, 0);
    assert_ptr_not_equal(own, pages);
    accel__source_unmap(s, 0);
    assert_memory_equal(own, values, sizeof values);
    assert_memory_equal(pages, values, sizeof values);
    accel__source_unmap(s, 0);
    assert_int_equal(accel__source_rows_stored(s, 0, 1, 2, &rows), ACCEL_OK);
    assert_ptr_equal(rows.lent.data, pages + 3);
    assert_memory_equal(rows.lent.data, values + 3, 6 * sizeof *values);
    accel__source_rows_return(s, &rows);
    accel__fault_arm("lease_broken"); /* somebody waits for the file */
  }
  assert_int_equal(accel__source_borrow(s, 0, &view), ACCEL_OK);
  accel__fault_arm(NULL);
  assert_ptr_not_equal(view.data, pages);
  assert_memory_equal(view.data, values, sizeof values);
  accel__source_unmap(s, 0);
  accel__source_free(&s);
  accel__checkpoint_close(&c);
}

/* Weights in memory of their own, whole and by rows, and failures of any thread in full. */
static void lent_memory(void **state) {
  (void)state;
  enum { N = 1024 };
  float *values = malloc((size_t)N * N * sizeof *values);
  for (int i = 0; i < N * N; i++) values[i] = (float)(i % 1013) - 500;
  const accel__tensor_info t = {
      .name = "m", .dtype = ACCEL_PLUGIN_F32, .rank = 2, .dim = {N, N}, .data = values};
  const accel_plugin_format formats[2] = {
      f32, {ACCEL_PLUGIN_I8, ACCEL_PLUGIN_F32, ACCEL_PLUGIN_NO_DTYPE, ACCEL_PLUGIN_NO_DTYPE, 0, 1}};
  accel__source_weight w[2] = {
      {.name = "m", .use = ACCEL_PLUGIN_USE_LINEAR, .rank = 2, .dim = {N, N}}};
  const char *path = temp_path("m.safetensors");
  accel__checkpoint *c;
  accel__pool *pool;
  accel__source *s;
  accel_plugin_weight_view view;
  w[1] = w[0];
  assert_int_equal(accel__safetensors_write(path, &t, 1, NULL, 0), ACCEL_OK);
  assert_int_equal(accel__checkpoint_open_headers(path, &c), ACCEL_OK);
  assert_int_equal(accel__checkpoint_read(c), ACCEL_OK);
  assert_int_equal(accel__pool_create_exactly(3, &pool), ACCEL_OK);
  assert_int_equal(
      accel__source_new(w, 2, &(accel__source_from){.checkpoint = c, .pool = pool}, formats, &s),
      ACCEL_OK);
  assert_true(accel__source_in_file(s, 0));
  assert_false(accel__source_in_file(s, 1));
  accel__source_some rows;
  assert_int_equal(accel__source_rows_stored(s, 0, 5, 7, &rows), ACCEL_OK);
  assert_memory_equal(rows.lent.data, values + 5 * N, 7 * N * sizeof *values);
  assert_non_null(rows.lent.own); /* nothing is mapped */
  accel__source_rows_return(s, &rows);
  assert_null(rows.lent.data);
  assert_int_equal(accel__source_rows_stored(s, 0, N - 3, 4, &rows), ACCEL_ERROR_ARGUMENT);
  assert_null(rows.lent.data);
  assert_int_equal(accel__source_rows_stored(s, 1, 5, 7, &rows), ACCEL_OK);
  assert_null(rows.lent.data); /* it is stored otherwise */
  const void *own = map(s, 0);
  assert_memory_equal(own, values, (size_t)N * N * sizeof *values);
  assert_ptr_equal(map(s, 0), own);
  accel__source_unmap(s, 0);
  assert_memory_equal(own, values, (size_t)N * N * sizeof *values); /* lent once more */
  accel__source_unmap(s, 0);
  assert_int_equal(accel__source_failure(s), ACCEL_OK);
  accel__fault_arm("read_error");
  assert_int_equal(accel__source_map(s, 1, &view), ACCEL_ERROR_IO);
  accel__fault_arm(NULL);
  for (int again = 0; again < 2; again++) {
    assert_non_null(strstr(accel__message(), "weight 'm': tensor 'm': "));
    assert_non_null(strstr(accel__message(), "m.safetensors: cannot read: Input/output error"));
    assert_true(accel__remedy_text()[0]);
    accel__clear_error();
    assert_int_equal(accel__source_failure(s), ACCEL_ERROR_IO);
  }
  assert_int_equal(accel__source_map(s, 1, &view), ACCEL_OK);
  accel__source_free(&s);
  accel__pool_destroy(&pool);
  accel__checkpoint_close(&c);
  free(values);
}

static void as_stored(void **state) {
  (void)state;
  const accel__source_weight w = {
      .name = "a", .use = ACCEL_PLUGIN_USE_LINEAR, .rank = 2, .dim = {2, 3}};
  accel__source *s = source_of(&w, 1, sample, &f32);
  const void *data = map(s, 0);
  assert_memory_equal(data, a_values, sizeof a_values);
  assert_ptr_equal(map(s, 0), data);
  accel__source_unmap(s, 0);
  accel__source_unmap(s, 0);
  accel__source_unmap(s, 0); /* once too often: nothing happens */
  assert_memory_equal(map(s, 0), a_values, sizeof a_values);
  assert_int_equal(accel__source_bytes(s), sizeof a_values);
  accel_plugin_weight_view view;
  assert_int_equal(accel__source_map(s, 1, &view), ACCEL_ERROR_ARGUMENT);
  accel__source_unmap(s, 1);
  accel__source_free(&s);
  assert_null(s);
  accel__source_free(&s);
}

static void converted(void **state) {
  (void)state;
  const accel__source_weight w[] = {
      {.name = "a", .rank = 2, .dim = {2, 3}},
      {.name = "h", .rank = 2, .dim = {2, 2}},
      {.name = "a16", .rank = 2, .dim = {2, 3}, .parts = {"a"}, .n_parts = 1},
      {.name = "d", .rank = 1, .dim = {2}},
      {.name = "nothing", .rank = 2, .dim = {0, 3}},
      {.name = "big", .rank = 2, .dim = {20000, 3}}};
  const accel_plugin_format formats[] = {bf16, f32, f16, f32, f16, bf16};
  accel__source *s = source_of(w, 6, sample, formats);
  for (int i = 0; i < 6; i++)
    assert_int_equal(((const uint16_t *)map(s, 0))[i], accel_f32_to_bf16(a_values[i]));
  for (int i = 0; i < 4; i++)
    assert_true(((const float *)map(s, 1))[i] == accel_fp16_to_f32(half_values[i]));
  for (int i = 0; i < 6; i++)
    assert_int_equal(((const uint16_t *)map(s, 2))[i], accel_f32_to_fp16(a_values[i]));
  assert_true(((const float *)map(s, 3))[0] == 0.1f);
  map(s, 4);
  for (int i = 0; i < Q; i++)
    assert_int_equal(((const uint16_t *)map(s, 5))[i], accel_f32_to_bf16(big_values[i]));
  assert_int_equal(accel__source_bytes(s), 6 * 2 + 4 * 4 + 6 * 2 + 2 * 4 + 0 + Q * 2);
  accel__source_free(&s);
}

static void joined(void **state) {
  (void)state;
  const accel__source_weight w[] = {
      {.name = "ab", .rank = 2, .dim = {3, 3}, .parts = {"a", "b"}, .n_parts = 2},
      {.name = "ba", .rank = 2, .dim = {3, 3}, .parts = {"b", "a"}, .n_parts = 2}};
  const accel_plugin_format formats[] = {f32, f16};
  accel__source *s = source_of(w, 2, sample, formats);
  const float *ab = map(s, 0);
  assert_memory_equal(ab, a_values, sizeof a_values);
  assert_memory_equal(ab + 6, b_values, sizeof b_values);
  const uint16_t *ba = map(s, 1);
  assert_int_equal(ba[0], accel_f32_to_fp16(-7));
  assert_int_equal(ba[3], accel_f32_to_fp16(1));
  accel__source_unmap(s, 0);
  accel__source_unmap(s, 1);
  accel__source_free(&s);
}

/* out[i] = a[i] * factor + elements of b */
static accel_status scale_parts(const void *user, const float *const *parts, const int64_t *n,
                                uint32_t n_parts, float *out) {
  if (n_parts != 2) return accel__fail(ACCEL_ERROR_INTERNAL, "parts");
  if (*(const float *)user == 0) return accel__fail(ACCEL_ERROR_FORMAT, "no factor");
  for (int64_t i = 0; i < n[0]; i++) out[i] = parts[0][i] * *(const float *)user + (float)n[1];
  return ACCEL_OK;
}

static void derived(void **state) {
  (void)state;
  static const float factor = 2, zero = 0;
  const accel__source_weight w[] = {{.name = "x",
                                     .rank = 1,
                                     .dim = {6},
                                     .parts = {"a", "h"},
                                     .n_parts = 2,
                                     .derive = scale_parts,
                                     .derive_user = &factor},
                                    {.name = "y",
                                     .rank = 1,
                                     .dim = {6},
                                     .parts = {"a", "h"},
                                     .n_parts = 2,
                                     .derive = scale_parts,
                                     .derive_user = &factor},
                                    {.name = "z",
                                     .rank = 1,
                                     .dim = {6},
                                     .parts = {"a", "h"},
                                     .n_parts = 2,
                                     .derive = scale_parts,
                                     .derive_user = &zero}};
  const accel_plugin_format formats[] = {f32, bf16, f32};
  accel__source *s = source_of(w, 3, sample, formats);
  for (int i = 0; i < 6; i++) assert_true(((const float *)map(s, 0))[i] == a_values[i] * 2 + 4);
  for (int i = 0; i < 6; i++)
    assert_int_equal(((const uint16_t *)map(s, 1))[i], accel_f32_to_bf16(a_values[i] * 2 + 4));
  accel_plugin_weight_view view;
  assert_int_equal(accel__source_map(s, 2, &view), ACCEL_ERROR_FORMAT);
  assert_non_null(strstr(accel__message(), "weight 'z': no factor"));
  assert_null(view.data);
  accel__source_free(&s);
}

static void unaligned_data_is_copied(void **state) {
  (void)state;
  char path[400];
  static const char header[] =
      "{\"x\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[0,1]},\"a\":{\"dtype\":\"F32\","
      "\"shape\":[2,3],\"data_"
      "offsets\":[1,25]}}";
  uint8_t bytes[8 + sizeof header - 1 + 25] = {sizeof header - 1};
  memcpy(bytes + 8, header, sizeof header - 1);
  memcpy(bytes + 8 + sizeof header - 1 + 1, a_values, sizeof a_values);
  snprintf(path, sizeof path, "%s", temp_file("odd.safetensors", bytes, sizeof bytes));
  accel__checkpoint *c;
  assert_int_equal(accel__checkpoint_open(path, &c), ACCEL_OK);
  const accel__source_weight w = {.name = "a", .rank = 2, .dim = {2, 3}};
  accel__source *s = source_of(&w, 1, c, &f32);
  const float *data = map(s, 0);
  assert_int_equal((uintptr_t)data % 4, 0);
  assert_memory_equal(data, a_values, sizeof a_values);
  accel__source_free(&s);
  accel__checkpoint_close(&c);
}

static void wrong_tensors_are_listed_together(void **state) {
  (void)state;
  const accel__source_weight w[] = {
      {.name = "a", .rank = 2, .dim = {3, 2}},
      {.name = "gone", .rank = 1, .dim = {2}},
      {.name = "h", .rank = 2, .dim = {2, 3}},
      {.name = "qkv", .rank = 2, .dim = {4, 3}, .parts = {"a", "b", "lost"}, .n_parts = 3},
      {.name = "ab", .rank = 2, .dim = {4, 3}, .parts = {"a", "b"}, .n_parts = 2}};
  const accel_plugin_format formats[] = {f32, f32, f32, f32, f32};
  refuses(w, 5, formats, ACCEL_ERROR_FORMAT, "'a' is [2,3], the model needs [3,2]");
  const char *message = accel__message();
  assert_non_null(strstr(message, "s.safetensors"));
  assert_non_null(strstr(message, "'gone' is missing"));
  assert_non_null(strstr(message, "'h' is [2,2], the model needs [2,3]"));
  assert_non_null(strstr(message, "'lost' is missing"));
  assert_non_null(strstr(message, "'b' is [1,3], a part of 'ab' [4,3]"));
  assert_true(accel__remedy_text()[0]);
  enum { MANY = 50 };
  accel__source_weight many[MANY];
  accel_plugin_format same[MANY];
  char names[MANY][32];
  for (int i = 0; i < MANY; i++) {
    snprintf(names[i], sizeof names[i], "missing.%d.w", i);
    many[i] = (accel__source_weight){.name = names[i], .rank = 1, .dim = {1}};
    same[i] = f32;
  }
  refuses(many, MANY, same, ACCEL_ERROR_FORMAT, "and 30 more");
  assert_non_null(strstr(accel__message(), "missing.19.w"));
  assert_null(strstr(accel__message(), "missing.20.w"));
}

static void what_cannot_be_served(void **state) {
  (void)state;
  const accel__source_weight a = {.name = "a", .rank = 2, .dim = {2, 3}},
                             codes = {.name = "codes", .rank = 2, .dim = {2, 3}};
  refuses(&a, 1, &uint8, ACCEL_ERROR_UNSUPPORTED,
          "weight 'a': format U8 with scale F32, zero U8 is not made on load");
  refuses(&codes, 1, &f32, ACCEL_ERROR_UNSUPPORTED, "tensor 'codes' is stored as I8");
  const accel__source_weight huge = {.name = "a", .rank = 2, .dim = {INT64_MAX, INT64_MAX}},
                             negative = {.name = "a", .rank = 1, .dim = {-1}};
  refuses(&huge, 1, &f32, ACCEL_ERROR_FORMAT, "out of range");
  refuses(&negative, 1, &f32, ACCEL_ERROR_FORMAT, "out of range");
}

static void flattened_tails_fit(void **state) {
  (void)state;
  const accel__source_weight w = {.name = "big", .rank = 2, .dim = {20000, 3}};
  accel__source *s = source_of(&w, 1, sample, &f32);
  assert_memory_equal(map(s, 0), big_values, sizeof big_values);
  accel__source_free(&s);
}

static void some_rows_of_a_tensor(void **state) {
  (void)state;
  const accel__source_weight w[] = {{.name = "k",
                                     .rank = 2,
                                     .dim = {1, 3},
                                     .parts = {"a"},
                                     .n_parts = 1,
                                     .first_row = 1,
                                     .stored_rows = 2},
                                    {.name = "k16",
                                     .rank = 2,
                                     .dim = {1, 2},
                                     .parts = {"h"},
                                     .n_parts = 1,
                                     .first_row = 1,
                                     .stored_rows = 2}};
  const accel_plugin_format formats[] = {f32, bf16};
  accel__source *s = source_of(w, 2, sample, formats);
  assert_memory_equal(map(s, 0), a_values + 3, 3 * sizeof(float));
  assert_int_equal(((const uint16_t *)map(s, 1))[0],
                   accel_f32_to_bf16(accel_fp16_to_f32(half_values[2])));
  assert_int_equal(((const uint16_t *)map(s, 1))[1],
                   accel_f32_to_bf16(accel_fp16_to_f32(half_values[3])));
  accel__source_free(&s);
  accel__source_weight bad = w[0];
  bad.stored_rows = 3;
  refuses(&bad, 1, &f32, ACCEL_ERROR_FORMAT, "'a' is [2,3], the model needs 3 rows");
  bad.stored_rows = 2;
  bad.first_row = 2;
  refuses(&bad, 1, &f32, ACCEL_ERROR_FORMAT, "'a' is [2,3]");
  bad.first_row = INT64_MAX;
  refuses(&bad, 1, &f32, ACCEL_ERROR_FORMAT, "'a' is [2,3]");
  bad.first_row = 0;
  bad.dim[1] = 4;
  refuses(&bad, 1, &f32, ACCEL_ERROR_FORMAT, "the model needs [1,4]");
}

static void unexpected_tensors(void **state) {
  (void)state;
  const accel__source_weight w[] = {
      {.name = "ab", .rank = 2, .dim = {3, 3}, .parts = {"a", "b"}, .n_parts = 2},
      {.name = "d", .rank = 1, .dim = {2}}};
  const accel_plugin_format formats[] = {f32, f32};
  accel__source *s = source_of(w, 2, sample, formats);
  accel__arena arena = {0};
  const char **names;
  uint32_t n;
  assert_int_equal(accel__source_unexpected(s, &arena, &names, &n), ACCEL_OK);
  assert_int_equal(n, accel__checkpoint_count(sample) - 3);
  for (uint32_t i = 0; i < n; i++)
    assert_true(strcmp(names[i], "a") && strcmp(names[i], "b") && strcmp(names[i], "d"));
  accel__arena_free(&arena);
  accel__source_free(&s);
}

static void random_weights(void **state) {
  (void)state;
  enum { N = 40000 };
  const accel__source_weight w[] = {{.name = "layer.0.dense.weight", .rank = 2, .dim = {200, 200}},
                                    {.name = "layer.0.LayerNorm.weight", .rank = 1, .dim = {500}},
                                    {.name = "layer.0.dense.bias", .rank = 1, .dim = {500}},
                                    {.name = "layer.1.dense.weight", .rank = 2, .dim = {200, 200}}};
  const accel_plugin_format formats[] = {f32, f32, f32, f16};
  accel__source *s = source_of(w, 4, NULL, formats), *again = source_of(w, 4, NULL, formats);
  const float *x = map(s, 0), *norm = map(s, 1), *bias = map(s, 2);
  double sum = 0, squares = 0, largest = 0;
  for (int i = 0; i < N; i++) {
    sum += x[i];
    squares += (double)x[i] * x[i];
    if (fabs(x[i]) > largest) largest = fabs(x[i]);
  }
  assert_true(fabs(sum / N) < 5e-4);
  assert_true(fabs(sqrt(squares / N) - 0.02) < 2e-4);
  assert_true(largest <= 0.03465 && largest > 0.0345);
  for (int i = 0; i < 500; i++) assert_true(fabsf(norm[i] - 1) <= 0.02f && fabsf(bias[i]) <= 0.02f);
  assert_memory_equal(x, map(again, 0), N * sizeof(float));
  accel__source_unmap(s, 0);
  x = map(s, 0);
  assert_memory_equal(x, map(again, 0), N * sizeof(float));
  int equal = 0;
  const uint16_t *other = map(s, 3);
  for (int i = 0; i < N; i++) equal += fabsf(accel_fp16_to_f32(other[i]) - x[i]) < 1e-5f;
  assert_true(equal < N / 100); /* another name, other values */
  accel__source *seeded;
  assert_int_equal(accel__source_new(w, 4, &(accel__source_from){.seed = 8}, formats, &seeded),
                   ACCEL_OK);
  assert_memory_not_equal(x, map(seeded, 0), N * sizeof(float));
  accel__arena arena = {0};
  const char **names;
  uint32_t n = 9;
  assert_int_equal(accel__source_unexpected(s, &arena, &names, &n), ACCEL_OK);
  assert_int_equal(n, 0);
  accel__arena_free(&arena);
  accel__source_free(&s);
  accel__source_free(&again);
  accel__source_free(&seeded);
}

static uint64_t resident_bytes(void) {
  unsigned long all, resident = 0;
  FILE *f = fopen("/proc/self/statm", "r");
  if (f) {
    if (fscanf(f, "%lu %lu", &all, &resident) != 2) resident = 0;
    fclose(f);
  }
  return (uint64_t)resident * (uint64_t)sysconf(_SC_PAGESIZE);
}

static void memory_is_given_back(void **state) {
  (void)state;
  enum { N = 16 << 20 };
  const accel__source_weight w = {.name = "large.weight", .rank = 2, .dim = {4096, N / 4096}};
  accel__source *s = source_of(&w, 1, NULL, &f32);
  uint64_t before = resident_bytes();
  map(s, 0);
  assert_true(resident_bytes() >= before + N * 3ull);
  accel__source_unmap(s, 0);
  assert_true(resident_bytes() < before + N);
  accel__source_free(&s);
}

static void faults(void **state) {
  (void)state;
  const accel__source_weight w = {.name = "a", .rank = 2, .dim = {2, 3}};
  accel__source *s = source_of(&w, 1, sample, &bf16);
  accel_plugin_weight_view view;
  accel__fault_arm("weight_buffer");
  assert_int_equal(accel__source_map(s, 0, &view), ACCEL_ERROR_OUT_OF_MEMORY);
  accel__fault_arm(NULL);
  assert_null(view.data);
  map(s, 0);
  accel__source_free(&s);
}

typedef struct shared {
  accel__source *s;
  int wrong;
} shared;

static void *map_often(void *arg) {
  shared *job = arg;
  for (int i = 0; i < 500; i++) {
    accel_plugin_weight_view view;
    if (accel__source_map(job->s, (uint32_t)i % 2, &view) != ACCEL_OK ||
        ((const uint16_t *)view.data)[1] != accel_f32_to_bf16(i % 2 ? 8 : 2))
      job->wrong++;
    accel__source_unmap(job->s, (uint32_t)i % 2);
  }
  return NULL;
}

static void many_threads(void **state) {
  (void)state;
  const accel__source_weight w[] = {{.name = "a", .rank = 2, .dim = {2, 3}},
                                    {.name = "b", .rank = 2, .dim = {1, 3}}};
  const accel_plugin_format formats[] = {bf16, bf16};
  accel__source *s = source_of(w, 2, sample, formats);
  shared job[4];
  pthread_t thread[4];
  for (int i = 0; i < 4; i++) {
    job[i] = (shared){s, 0};
    assert_int_equal(pthread_create(&thread[i], NULL, map_often, &job[i]), 0);
  }
  for (int i = 0; i < 4; i++) {
    pthread_join(thread[i], NULL);
    assert_int_equal(job[i].wrong, 0);
  }
  accel__source_free(&s);
}

/* All 65,536 halves there and back; rounding at the edges. */
static void half_codecs(void **state) {
  (void)state;
  for (uint32_t i = 0; i < 65536; i++) {
    float x = accel_fp16_to_f32((uint16_t)i), y = accel_bf16_to_f32((uint16_t)i);
    if (!isnan(x))
      assert_int_equal(accel_f32_to_fp16(x), i);
    else
      assert_true(isnan(accel_fp16_to_f32(accel_f32_to_fp16(x))));
    if (!isnan(y))
      assert_int_equal(accel_f32_to_bf16(y), i);
    else
      assert_true(isnan(accel_bf16_to_f32(accel_f32_to_bf16(y))));
  }
  assert_true(accel_fp16_to_f32(0x3555) == 0.333251953125f);
  assert_true(accel_fp16_to_f32(0x0001) == 0x1p-24f);
  assert_int_equal(accel_f32_to_fp16(65519.996f), 0x7bff);
  assert_int_equal(accel_f32_to_fp16(65520.0f), 0x7c00);
  assert_int_equal(accel_f32_to_fp16(-1e30f), 0xfc00);
  assert_int_equal(accel_f32_to_fp16(0x1p-25f), 0); /* half of the least: to even */
  assert_int_equal(accel_f32_to_fp16(0x1.000002p-25f), 1);
  assert_int_equal(accel_f32_to_fp16(1.00048828125f), 0x3c00); /* tie to even */
  assert_int_equal(accel_f32_to_fp16(1.00146484375f), 0x3c02);
  assert_int_equal(accel_f32_to_bf16(1.00390625f), 0x3f80);
  assert_int_equal(accel_f32_to_bf16(1.01171875f), 0x3f82);
  assert_int_equal(accel_f32_to_bf16(3.4e38f), 0x7f80);
}

/* ---- shares of ranks ---- */

enum { N = 12, K = 64 };

static void map_random(const accel__weight_share *share, const accel_plugin_format *format,
                       int64_t n, int64_t k, float *out) {
  const accel__source_weight w = {.name = "w", .rank = 2, .dim = {N, K}, .share = *share};
  const accel__source_from from = {.seed = 5};
  accel__source *source;
  accel_plugin_weight_view view;
  assert_int_equal(accel__source_new(&w, 1, &from, format, &source), ACCEL_OK);
  assert_int_equal(accel__source_map(source, 0, &view), ACCEL_OK);
  accel_matrix_rows(&(accel_matrix){*format, n, k, view.data, view.scale, view.zero, view.outer}, 0,
                    n, out);
  float row[K];
  accel__row_range where;
  if (accel__source_row_dtype(source, 0) != ACCEL_PLUGIN_NO_DTYPE) {
    assert_int_equal(accel__source_rows_rounded(source, 0, n - 1, 1, row), ACCEL_OK);
    assert_memory_equal(row, out + (n - 1) * k, (size_t)k * sizeof *row);
    assert_false(accel__source_row_range(source, 0, 0, 1, &where)); /* they lie in no file */
  }
  accel__source_unmap(source, 0);
  accel__source_free(&source);
}

/* A share has the numbers, and in groups that it keeps whole the codes, of its place in the whole. */
static void shares_of_ranks(void **state) {
  static const accel_plugin_format i8 = {
      ACCEL_PLUGIN_I8, ACCEL_PLUGIN_F32, ACCEL_PLUGIN_NO_DTYPE, ACCEL_PLUGIN_NO_DTYPE, 16, 1};
  static const accel__weight_share shares[] = {
      {.rows = {N, 3, 5}}, {.columns = {K, 32, 16}}, {.rows = {4, 1, 2}, .columns = {K, 0, 48}}};
  (void)state;
  for (size_t f = 0; f < 2; f++)
    for (size_t i = 0; i < sizeof shares / sizeof *shares; i++) {
      const accel__share_axis *r = &shares[i].rows, *c = &shares[i].columns;
      const int64_t n = r->period ? N / r->period * r->count : N, k = c->period ? c->count : K;
      float whole[N * K], part[N * K];
      map_random(&(accel__weight_share){.rows = {0}}, f ? &i8 : &f32, N, K, whole);
      map_random(&shares[i], f ? &i8 : &f32, n, k, part);
      for (int64_t row = 0; row < n; row++) {
        const int64_t at = r->period ? row / r->count * r->period + r->first + row % r->count : row;
        assert_memory_equal(part + row * k, whole + at * K + c->first, (size_t)k * sizeof *part);
      }
    }
}

/* Rows of a file lie there in one piece, and columns do not. */
static void share_of_a_file(void **state) {
  accel__checkpoint *c = open_sample();
  accel__source_weight w[2] = {{.name = "big", .rank = 2, .dim = {20000, 3}},
                               {.name = "big", .rank = 2, .dim = {20000, 3}}};
  const accel_plugin_format formats[2] = {f32, f32};
  accel__source *source;
  accel__row_range where;
  accel_plugin_weight_view view;
  (void)state;
  w[0].share.rows = (accel__share_axis){20000, 10000, 10000};
  w[1].share.columns = (accel__share_axis){3, 1, 2};
  assert_int_equal(
      accel__source_new(w, 2, &(accel__source_from){.checkpoint = c}, formats, &source), ACCEL_OK);
  assert_true(accel__source_row_range(source, 0, 5, 2, &where));
  assert_int_equal(where.offset, accel__checkpoint_find(c, "big")->offset + 10005 * 12);
  assert_false(accel__source_row_range(source, 1, 5, 2, &where));
  assert_int_equal(accel__source_map(source, 0, &view), ACCEL_OK);
  assert_memory_equal(view.data, big_values + 30000, 30000 * sizeof(float));
  accel__source_unmap(source, 0);
  assert_int_equal(accel__source_map(source, 1, &view), ACCEL_OK);
  for (int i = 0; i < 20000; i++)
    assert_memory_equal((const float *)view.data + 2 * i, big_values + 3 * i + 1, 8);
  accel__source_unmap(source, 1);
  accel__source_free(&source);
  w[0].share.rows.first = 10001; /* one row beyond its end */
  assert_int_equal(
      accel__source_new(w, 2, &(accel__source_from){.checkpoint = c}, formats, &source),
      ACCEL_ERROR_INTERNAL);
  accel__checkpoint_close(&c);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(as_stored),
      cmocka_unit_test(borrowed_pages),
      cmocka_unit_test(lent_memory),
      cmocka_unit_test(converted),
      cmocka_unit_test(joined),
      cmocka_unit_test(derived),
      cmocka_unit_test(unaligned_data_is_copied),
      cmocka_unit_test(wrong_tensors_are_listed_together),
      cmocka_unit_test(what_cannot_be_served),
      cmocka_unit_test(flattened_tails_fit),
      cmocka_unit_test(some_rows_of_a_tensor),
      cmocka_unit_test(unexpected_tensors),
      cmocka_unit_test(random_weights),
      cmocka_unit_test(memory_is_given_back),
      cmocka_unit_test(faults),
      cmocka_unit_test(many_threads),
      cmocka_unit_test(half_codecs),
      cmocka_unit_test(shares_of_ranks),
      cmocka_unit_test(share_of_a_file),
  };
  return cmocka_run_group_tests(tests, make, unmake);
}
