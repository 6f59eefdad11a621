/* selftest.c - see selftest.h.  The expected numbers come from tests/goldens/hardware_selftest.py,
 * which has the same formulas. */
#include "hardware/selftest.h"

#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "formats/weight_matrix.h"
#include "hardware/selftest_host.h"

enum { SELFTEST_T = 3, SELFTEST_C = 20, SELFTEST_F = 36, SELFTEST_WEIGHTS = 6 };
#include "hardware/selftest_numbers.h"

/* value[i] = offset + ((i * a + b) mod modulus - modulus / 2) / scale: small dyadic fractions,
 * exact in fp16 and bf16. modulus 0: code[(i * a + b) mod CODES] / scale, exact in every weight
 * format. */
enum { CODES = 11 };
static const int8_t code[CODES] = {-6, -4, -3, -2, -1, 0, 1, 2, 3, 4, 6};
typedef struct formula {
  uint32_t n, a, b, modulus;
  float scale, offset;
} formula;
static const formula input_formula = {SELFTEST_T * SELFTEST_C, 29, 7, 32, 8.0f, 0.0f};
static const formula weight_formula[SELFTEST_WEIGHTS] = {
    {SELFTEST_C, 5, 3, 8, 16.0f, 1.0f},                /* gamma [C] */
    {SELFTEST_C, 3, 1, 8, 16.0f, 0.0f},                /* beta [C] */
    {SELFTEST_F * SELFTEST_C, 37, 11, 0, 32.0f, 0.0f}, /* w1 [F, C] */
    {SELFTEST_F, 7, 2, 16, 32.0f, 0.0f},               /* b1 [F] */
    {SELFTEST_C * SELFTEST_F, 41, 5, 0, 32.0f, 0.0f},  /* w2 [C, F] */
    {SELFTEST_C, 11, 9, 16, 32.0f, 0.0f},              /* b2 [C] */
};

static int formula_code(const formula *f, uint32_t i) { return code[(i * f->a + f->b) % CODES]; }

static float formula_value(const formula *f, uint32_t i) {
  if (!f->modulus) return (float)formula_code(f, i) / f->scale;
  return f->offset +
         (float)((int)((i * f->a + f->b) % f->modulus) - (int)(f->modulus / 2)) / f->scale;
}

/* ---- the program, written out ---- */
enum { DIM_T, DIM_C, DIM_F, DIMS };
enum { X, GAMMA, BETA, H, W1, B1, G, W2, B2, Y, P, TENSORS };

static const accel_plugin_symbol symbols[] = {
    {.name = "T", .min = 1, .max = 64, .typical = SELFTEST_T}};
static const accel_plugin_dim dims[DIMS] = {{.op = ACCEL_PLUGIN_DIM_SYMBOL, .a = 0},
                                            {.op = ACCEL_PLUGIN_DIM_CONST, .c = SELFTEST_C},
                                            {.op = ACCEL_PLUGIN_DIM_CONST, .c = SELFTEST_F}};
#define ROWS(label, what, width)                                                         \
  {                                                                                      \
    .name = label, .kind = ACCEL_PLUGIN_TENSOR_##what, .rank = 2, .dim = {DIM_T, width}, \
    .weight = -1, .space = -1                                                            \
  }
#define VECTOR(label, index, width)                                                                \
  {                                                                                                \
    .name = label, .kind = ACCEL_PLUGIN_TENSOR_WEIGHT, .rank = 1, .dim = {width}, .weight = index, \
    .space = -1                                                                                    \
  }
#define MATRIX(label, index, n, k)                                                                \
  {                                                                                               \
    .name = label, .kind = ACCEL_PLUGIN_TENSOR_WEIGHT, .rank = 2, .dim = {n, k}, .weight = index, \
    .space = -1                                                                                   \
  }
static const accel_plugin_tensor tensors[TENSORS] = {
    [X] = ROWS("x", INPUT, DIM_C),        [GAMMA] = VECTOR("gamma", 0, DIM_C),
    [BETA] = VECTOR("beta", 1, DIM_C),    [H] = ROWS("h", VALUE, DIM_C),
    [W1] = MATRIX("w1", 2, DIM_F, DIM_C), [B1] = VECTOR("b1", 3, DIM_F),
    [G] = ROWS("g", VALUE, DIM_F),        [W2] = MATRIX("w2", 4, DIM_C, DIM_F),
    [B2] = VECTOR("b2", 5, DIM_C),        [Y] = ROWS("y", VALUE, DIM_C),
    [P] = ROWS("p", VALUE, DIM_C),
};
static const accel_plugin_weight weights[SELFTEST_WEIGHTS] = {
    {.name = "gamma", .rank = 1, .dim = {SELFTEST_C}, .use = ACCEL_PLUGIN_USE_PLAIN},
    {.name = "beta", .rank = 1, .dim = {SELFTEST_C}, .use = ACCEL_PLUGIN_USE_PLAIN},
    {.name = "w1", .rank = 2, .dim = {SELFTEST_F, SELFTEST_C}, .use = ACCEL_PLUGIN_USE_LINEAR},
    {.name = "b1", .rank = 1, .dim = {SELFTEST_F}, .use = ACCEL_PLUGIN_USE_PLAIN},
    {.name = "w2", .rank = 2, .dim = {SELFTEST_C, SELFTEST_F}, .use = ACCEL_PLUGIN_USE_LINEAR},
    {.name = "b2", .rank = 1, .dim = {SELFTEST_C}, .use = ACCEL_PLUGIN_USE_PLAIN},
};
#define ATTR_I(name, value) \
  { .key = ACCEL_PLUGIN_ATTR_##name, .type = ACCEL_PLUGIN_ATTR_I, .i = (value) }
#define ATTR_F(name, value) \
  { .key = ACCEL_PLUGIN_ATTR_##name, .type = ACCEL_PLUGIN_ATTR_F, .f = (value) }
static const accel_plugin_attr norm_attrs[] = {ATTR_I(NORM_KIND, ACCEL_PLUGIN_NORM_LAYER),
                                               ATTR_F(EPS, 1e-5)};
static const accel_plugin_attr gelu_attrs[] = {ATTR_I(ACT, ACCEL_PLUGIN_ACT_GELU)};
static const accel_plugin_attr softmax_attrs[] = {ATTR_I(AXIS, -1)};
#define NODE(which, inputs, n_inputs, output, attrs, n_attrs)                                \
  {                                                                                          \
    .op = ACCEL_PLUGIN_OP_##which, .version = 1, .n_in = n_inputs, .n_out = 1, .in = inputs, \
    .out = output, .attr = attrs, .n_attr = n_attrs, .state = -1                             \
  }
static const int32_t norm_in[] = {X, GAMMA, BETA}, up_in[] = {H, W1, B1},
                     down_in[] = {G, W2, B2, X}, softmax_in[] = {Y};
static const int32_t h_out[] = {H}, g_out[] = {G}, y_out[] = {Y}, p_out[] = {P};
static const accel_plugin_node nodes[] = {
    NODE(NORM, norm_in, 3, h_out, norm_attrs, 2),
    NODE(LINEAR, up_in, 3, g_out, gelu_attrs, 1),
    NODE(LINEAR, down_in, 4, y_out, NULL, 0),
    NODE(SOFTMAX, softmax_in, 1, p_out, softmax_attrs, 1),
};
static const int32_t entry_nodes[] = {0, 1, 2, 3}, entry_in[] = {X}, entry_out[] = {Y, P};
static const accel_plugin_entry entries[] = {{.name = "test",
                                              .node = entry_nodes,
                                              .n_node = 4,
                                              .in = entry_in,
                                              .out = entry_out,
                                              .n_in = 1,
                                              .n_out = 2}};
static const accel_plugin_program program = {ACCEL_PLUGIN_PROGRAM_SIZES,
                                             .hash = 0x73656c6674657374u,
                                             .name = "selftest",
                                             .n_symbol = 1,
                                             .n_dim = DIMS,
                                             .n_tensor = TENSORS,
                                             .n_node = 4,
                                             .n_entry = 1,
                                             .n_weight = SELFTEST_WEIGHTS,
                                             .n_stage = 1,
                                             .symbol = symbols,
                                             .dim = dims,
                                             .tensor = tensors,
                                             .node = nodes,
                                             .entry = entries,
                                             .weight = weights};

/* ---- the precisions ---- */
#define NONE ACCEL_PLUGIN_NO_DTYPE

/* What code[] is divided by, so that the largest is a code of the store. */
static float unit_of(uint8_t store) {
  const float largest = accel_format_facts_of(store)->largest;
  return largest > 0 && largest < 6 ? 6 / largest : 1;
}

/* Code of a coded store for a number of code[]. */
static uint8_t encoded(uint8_t store, int q) {
  const accel_format_facts *facts = accel_format_facts_of(store);
  const float x = (float)(facts->format.zero == NONE ? q : q + 8) / unit_of(store);
  uint8_t out = 0;
  accel_encode_codes(store, &x, 1, 1, &out);
  return out;
}

/* Error allowed at a store, of the root mean square of the expected values; where codes of 8 bits
 * may be multiplied, theirs.  Stores that do not have all of code[] round it. */
static double bound_of(uint8_t store) {
  if (store == ACCEL_PLUGIN_F32) return 1e-4;
  if (store == ACCEL_PLUGIN_F16) return 1e-2;
  for (int i = 0; i < CODES && store > ACCEL_PLUGIN_BF16; i++) {
    const uint8_t coded = encoded(store, code[i]);
    const float zero = accel_format_facts_of(store)->format.zero == NONE ? 0 : 8;
    float back = 0;
    accel_decode_codes(store, &coded, 1, zero, unit_of(store), 1, &back);
    if (back != (float)code[i]) return 0.25;
  }
  return 6e-2;
}

/* ---- weights in their formats ---- */
typedef struct selftest_weights {
  accel_plugin_format format[SELFTEST_WEIGHTS];
  accel_plugin_weight_view view[SELFTEST_WEIGHTS];
  _Alignas(64) float data[SELFTEST_WEIGHTS][SELFTEST_C * SELFTEST_F],
      scale[SELFTEST_WEIGHTS][2 * SELFTEST_F];
  uint8_t zero[2 * SELFTEST_F];
} selftest_weights;

static void put_code(void *row, uint32_t k, uint8_t store, int q, float scale) {
  const float value = (float)q / scale;
  if (store == ACCEL_PLUGIN_F32) ((float *)row)[k] = value;
  if (store == ACCEL_PLUGIN_F16) ((uint16_t *)row)[k] = accel_f32_to_fp16(value);
  if (store == ACCEL_PLUGIN_BF16) ((uint16_t *)row)[k] = accel_f32_to_bf16(value);
  if (store <= ACCEL_PLUGIN_BF16) return;
  if (accel_format_bits(store) == 4)
    accel_nibble_set(row, k, encoded(store, q));
  else
    ((uint8_t *)row)[k] = encoded(store, q);
}

static void fill_matrix(selftest_weights *s, int w, const accel_plugin_format *format) {
  const formula *f = &weight_formula[w];
  const uint32_t rows = (uint32_t)weights[w].dim[0], k = (uint32_t)weights[w].dim[1];
  const uint32_t groups = format->group_k ? (k + format->group_k - 1) / format->group_k : 1;
  const float scale = unit_of(format->store) / f->scale;
  for (uint32_t i = 0; i < f->n; i++)
    put_code((char *)s->data[w] + i / k * accel_row_bytes(format->store, k), i % k, format->store,
             formula_code(f, i), f->scale);
  for (uint32_t i = 0; i < rows * groups; i++) {
    if (format->scale == ACCEL_PLUGIN_F32) s->scale[w][i] = scale;
    if (format->scale == ACCEL_PLUGIN_F16) ((uint16_t *)s->scale[w])[i] = accel_f32_to_fp16(scale);
    if (format->scale == ACCEL_PLUGIN_E8M0) ((uint8_t *)s->scale[w])[i] = accel_f32_to_e8m0(scale);
  }
  s->format[w] = *format;
  if (format->scale != NONE) s->view[w].scale = s->scale[w];
  if (format->zero != NONE) s->view[w].zero = s->zero;
}

static void fill_weights(selftest_weights *s, const accel_plugin_format *format) {
  memset(s, 0, sizeof *s);
  memset(s->zero, 8, sizeof s->zero);
  for (int w = 0; w < SELFTEST_WEIGHTS; w++) {
    s->view[w].data = s->data[w];
    s->format[w] = accel_format_facts_of(ACCEL_PLUGIN_F32)->format;
    for (uint32_t i = 0; i < weight_formula[w].n; i++)
      s->data[w][i] = formula_value(&weight_formula[w], i);
    if (weights[w].use == ACCEL_PLUGIN_USE_LINEAR) fill_matrix(s, w, format);
  }
}

/* Largest error over the root mean square of `want`, infinite when anything is not finite. */
static double worst(const float *got, const double *want, size_t n, size_t *where) {
  double sum = 0, most = 0;
  for (size_t i = 0; i < n; i++) sum += want[i] * want[i];
  for (size_t i = 0; i < n; i++) {
    double error = fabs((double)got[i] - want[i]);
    if (!isfinite(got[i])) error = INFINITY;
    if (error > most) {
      most = error;
      *where = i;
    }
  }
  return most / sqrt(sum / (double)n);
}

static accel__proof run_and_compare(const accel_plugin *plugin, accel_plugin_endpoint *endpoint,
                                    const accel_plugin_host *host, double bound, char *why,
                                    size_t n) {
  float x[SELFTEST_T * SELFTEST_C], got[2][SELFTEST_T * SELFTEST_C];
  for (uint32_t i = 0; i < input_formula.n; i++) x[i] = formula_value(&input_formula, i);
  for (int o = 0; o < 2; o++)
    for (int i = 0; i < SELFTEST_T * SELFTEST_C; i++) got[o][i] = NAN;
  accel_plugin_view in = {.size = sizeof in,
                          .dtype = ACCEL_PLUGIN_F32,
                          .rank = 2,
                          .host = x,
                          .capacity = sizeof x,
                          .dim = {SELFTEST_T, SELFTEST_C}};
  accel_plugin_view out[2];
  for (int o = 0; o < 2; o++)
    out[o] = (accel_plugin_view){
        .size = sizeof *out, .dtype = ACCEL_PLUGIN_F32, .host = got[o], .capacity = sizeof got[o]};
  accel_plugin_run run = {.size = sizeof run, .host = host};
  accel_plugin_error error = {.size = sizeof error, .node = -1};
  int32_t rc = plugin->handler(endpoint, NULL, &run, &in, 1, out, 2, &error);
  if (rc != ACCEL_PLUGIN_OK) return accel__test_failed("handler", rc, &error, why, n);
  for (int o = 0; o < 2; o++) {
    if (out[o].rank != 2 || out[o].dim[0] != SELFTEST_T || out[o].dim[1] != SELFTEST_C) {
      snprintf(why, n,
               "handler gave the wrong shape on the self-test: rank %u, [%lld, %lld] instead of "
               "[%d, %d]",
               (unsigned)out[o].rank, (long long)out[o].dim[0], (long long)out[o].dim[1],
               SELFTEST_T, SELFTEST_C);
      return ACCEL__PROOF_WRONG;
    }
    size_t where = 0;
    const double *want = o == 0 ? selftest_y : selftest_p;
    double error_rms = worst(got[o], want, SELFTEST_T * SELFTEST_C, &where);
    if (!(error_rms <= bound)) {
      snprintf(why, n,
               "it computes wrong numbers: the self-test's %s[%zu] is %g instead of %g (bound %g "
               "of the rms)",
               o == 0 ? "linear output" : "softmax", where, (double)got[o][where], want[where],
               bound);
      return ACCEL__PROOF_WRONG;
    }
  }
  *why = 0;
  return ACCEL__PROOF_PASS;
}

static accel__proof ask_supports(const accel_plugin *plugin, uint32_t device,
                                 const accel_plugin_precision *precision, char *why, size_t n) {
  accel_plugin_error error = {.size = sizeof error, .node = -1};
  accel_plugin_verdict verdict = {.size = sizeof verdict, .node = -1};
  int32_t rc = plugin->supports(device, &program, precision, &verdict, &error);
  if (rc != ACCEL_PLUGIN_OK && rc != ACCEL_PLUGIN_E_UNSUPPORTED)
    return accel__test_failed("supports", rc, &error, why, n);
  if (rc == ACCEL_PLUGIN_OK && verdict.answer != ACCEL_PLUGIN_NO) return ACCEL__PROOF_PASS;
  verdict.why[sizeof verdict.why - 1] = 0;
  error.message[sizeof error.message - 1] = 0;
  const char *text = *verdict.why ? verdict.why : error.message;
  snprintf(why, n, "it does not run the self-test at %s: %s", precision->name,
           *text ? text : "no reason given");
  return ACCEL__PROOF_INCAPABLE;
}

accel__proof accel__selftest(const accel_plugin *plugin, uint32_t device, const char *precision,
                             const accel_plugin_host *base, char *why, size_t n) {
  const uint8_t store = accel_precision_store(precision);
  if (store == NONE) {
    snprintf(why, n, "the self-test knows no precision '%s'", precision);
    return ACCEL__PROOF_UNKNOWN;
  }
  selftest_weights *s = aligned_alloc(64, (sizeof *s + 63) / 64 * 64);
  if (!s) {
    snprintf(why, n, "no memory for the self-test");
    return ACCEL__PROOF_WRONG;
  }
  const accel_plugin_format format = accel_format_for_test(store);
  const bool plain = accel_format_plain(&format);
  fill_weights(s, &format);
  accel__test_lent lent = {.base = base, .weight = s->view, .n_weight = SELFTEST_WEIGHTS};
  accel_plugin_host host = accel__test_host(&lent);
  accel_plugin_options options = {.size = sizeof options, .host = &host, .extra = ""};
  options.precision = (accel_plugin_precision){.size = sizeof options.precision,
                                               .compute = plain ? store : ACCEL_PLUGIN_F32,
                                               .kv = plain ? store : ACCEL_PLUGIN_F16,
                                               .flags = ACCEL_PLUGIN_ALLOW_EMULATED,
                                               .format = s->format};
  snprintf(options.precision.name, sizeof options.precision.name, "%s", precision);

  accel__proof proof = ask_supports(plugin, device, &options.precision, why, n);
  if (proof == ACCEL__PROOF_PASS) {
    accel_plugin_error error = {.size = sizeof error, .node = -1};
    accel_plugin_endpoint *endpoint = NULL;
    int32_t rc = plugin->init(device, &program, &options, &endpoint, &error);
    if (rc != ACCEL_PLUGIN_OK) {
      proof = accel__test_failed("init", rc, &error, why, n);
    } else {
      proof = run_and_compare(plugin, endpoint, &host, bound_of(store), why, n);
      plugin->cleanup(endpoint, &host);
    }
  }
  free(s);
  return proof;
}
