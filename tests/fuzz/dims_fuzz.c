/* dims_fuzz.c - random dim expressions: evaluated, bound to random shapes and solved; what binds
 * must evaluate to the shapes given. */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "shared/dim_expr.h"

enum { SYMBOLS = 3, DIMS = 24, INPUTS = 3, RANK = 2 };

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

typedef struct bytes {
  const uint8_t *at;
  size_t left;
} bytes;

static uint8_t byte(bytes *b) {
  if (!b->left) return 0;
  b->left--;
  return *b->at++;
}

/* Small numbers mostly, all 64 bits now and then. */
static int64_t number(bytes *b) {
  const uint8_t first = byte(b);
  int64_t value = (int8_t)byte(b);
  if (first < 200) return value;
  uint64_t bits = 0;
  for (int i = 0; i < 8; i++) bits = bits << 8 | byte(b);
  memcpy(&value, &bits, sizeof value);
  return value;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n) {
  bytes b = {data, n};
  accel_plugin_symbol symbols[SYMBOLS] = {{0}};
  accel_plugin_dim dim[DIMS];
  accel_plugin_tensor tensor[INPUTS] = {{0}};
  accel_plugin_view view[INPUTS] = {{0}};
  int32_t in[INPUTS];
  for (int32_t i = 0; i < DIMS; i++) {
    dim[i] = (accel_plugin_dim){.op = ACCEL_PLUGIN_DIM_SYMBOL, .a = i % SYMBOLS, .b = -1};
    if (i < SYMBOLS) continue;
    dim[i].op = byte(&b) % (ACCEL_PLUGIN_DIM_MAX + 2);
    if (dim[i].op == ACCEL_PLUGIN_DIM_CONST) dim[i].c = number(&b);
    if (dim[i].op <= ACCEL_PLUGIN_DIM_SYMBOL) continue;
    dim[i].a = byte(&b) % i;
    dim[i].b = byte(&b) % i;
  }
  for (int32_t i = 0; i < INPUTS; i++) {
    in[i] = i;
    tensor[i].rank = RANK;
    for (int r = 0; r < RANK; r++) {
      tensor[i].dim[r] = byte(&b) % DIMS;
      view[i].dim[r] = number(&b);
    }
  }
  const accel_plugin_program p = {.n_symbol = SYMBOLS,
                                  .symbol = symbols,
                                  .n_dim = DIMS,
                                  .dim = dim,
                                  .n_tensor = INPUTS,
                                  .tensor = tensor};
  const accel_plugin_entry e = {.n_in = INPUTS, .in = in};
  int64_t symbol[SYMBOLS], value[DIMS], again[DIMS];
  accel_dims_misfit m;
  if (!accel_dims_bind(&p, &e, view, symbol, value, &m)) {
    if (m.input >= INPUTS || m.axis >= RANK || m.got == m.expected) __builtin_trap();
    return 0;
  }
  accel_dims_evaluate(&p, symbol, again);
  if (memcmp(value, again, sizeof value)) __builtin_trap();
  for (int32_t i = 0; i < INPUTS; i++)
    for (int r = 0; r < RANK; r++)
      if (view[i].dim[r] != ACCEL_DIM_UNBOUND && view[i].dim[r] != value[tensor[i].dim[r]])
        __builtin_trap();
  return 0;
}
