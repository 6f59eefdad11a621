/* test_endpoint.h - what the tests of the public interface share: contexts on the plugins just
 * built, inputs, comparisons. */
#ifndef ACCEL_TESTS_UNIT_ENDPOINT_H
#define ACCEL_TESTS_UNIT_ENDPOINT_H

#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "accel/accel.h"

/* A tiny BERT made with transformers (vocabulary 61, 24 positions, hidden size 30). */
#define TINY_BERT ACCEL_FIXTURES "/models/bert"
enum { TINY_VOCAB = 61, TINY_HIDDEN = 30 };

#define assert_ok(call)                                                           \
  do {                                                                            \
    accel_status got_ = (call);                                                   \
    if (got_ != ACCEL_OK)                                                         \
      fail_msg("%s: %s: %s", #call, accel_status_name(got_), accel_last_error()); \
  } while (0)

static inline accel_params test_params(void) {
  accel_params params = accel_params_default();
  params.plugin_path = ACCEL_TEST_PLUGINS;
  params.threads = 2;
  return params;
}

static inline accel *test_context(void) {
  accel_params params = test_params();
  accel *ctx;
  assert_ok(accel_create(&params, &ctx));
  return ctx;
}

static inline accel_endpoint *test_endpoint(accel *ctx, const char *device) {
  accel_init_params how = accel_init_params_default();
  accel_endpoint *ep;
  how.device = device;
  assert_ok(accel_init(ctx, TINY_BERT, &how, &ep));
  return ep;
}

/* [rows, width] ids from a seed, row r of length width - r * shorter (right padded), with its
 * mask. */
typedef struct test_input {
  int64_t ids[64 * 24], mask[64 * 24];
  accel_tensor item[2];
  accel_tensors list;
} test_input;

static inline void fill_input(test_input *in, uint32_t seed, int64_t rows, int64_t width,
                              int64_t shorter) {
  for (int64_t r = 0; r < rows; r++)
    for (int64_t c = 0; c < width; c++) {
      seed = seed * 1664525u + 1013904223u;
      in->mask[r * width + c] = c < width - r * shorter;
      in->ids[r * width + c] =
          in->mask[r * width + c] ? 1 + (int64_t)(seed >> 16) % (TINY_VOCAB - 1) : 0;
    }
  in->item[0] = (accel_tensor){
      .name = "input_ids", .dtype = ACCEL_I64, .rank = 2, .dim = {rows, width}, .data = in->ids};
  in->item[1] = (accel_tensor){.name = "attention_mask",
                               .dtype = ACCEL_I64,
                               .rank = 2,
                               .dim = {rows, width},
                               .data = in->mask};
  in->list = (accel_tensors){.n = 2, .item = in->item};
}

static inline const accel_tensor *output(const accel_tensors *list, const char *name) {
  for (uint32_t i = 0; i < list->n; i++)
    if (!strcmp(list->item[i].name, name)) return &list->item[i];
  fail_msg("no output %s", name);
  return NULL;
}

#endif
