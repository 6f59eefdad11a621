/* selftest.c - see selftest.h.  The expected numbers come from tests/goldens/hardware_selftest.py, which has the same
 * formulas. */
#include "hardware/selftest.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "formats/bf16.h"
#include "formats/fp16.h"

enum { SELFTEST_T = 3, SELFTEST_C = 20, SELFTEST_F = 36, SELFTEST_WEIGHTS = 6 };
#include "hardware/selftest_numbers.h"

/* value[i] = offset + ((i * a + b) mod modulus - modulus / 2) / scale: small dyadic fractions, exact in fp16 and bf16. */
typedef struct formula {
  uint32_t n, a, b, modulus;
  float scale, offset;
} formula;
static const formula input_formula = {SELFTEST_T * SELFTEST_C, 29, 7, 32, 8.0f, 0.0f};
static const formula weight_formula[SELFTEST_WEIGHTS] = {
    {SELFTEST_C, 5, 3, 8, 16.0f, 1.0f},                  /* gamma [C] */
    {SELFTEST_C, 3, 1, 8, 16.0f, 0.0f},                  /* beta [C] */
    {SELFTEST_F * SELFTEST_C, 37, 11, 63, 128.0f, 0.0f}, /* w1 [F, C] */
    {SELFTEST_F, 7, 2, 16, 32.0f, 0.0f},                 /* b1 [F] */
    {SELFTEST_C * SELFTEST_F, 41, 5, 61, 128.0f, 0.0f},  /* w2 [C, F] */
    {SELFTEST_C, 11, 9, 16, 32.0f, 0.0f},                /* b2 [C] */
};

static float formula_value(const formula *f, uint32_t i) {
  return f->offset + (float)((int)((i * f->a + f->b) % f->modulus) - (int)(f->modulus / 2)) / f->scale;
}

/* ---- the program, written out ---- */
enum { DIM_T, DIM_C, DIM_F, DIMS };
enum { X, GAMMA, BETA, H, W1, B1, G, W2, B2, Y, P, TENSORS };

static const accel_plugin_symbol symbols[] = {{.name = "T", .min = 1, .max = 64, .typical = SELFTEST_T}};
static const accel_plugin_dim dims[DIMS] = {{.op = ACCEL_PLUGIN_DIM_SYMBOL, .a = 0},
                                            {.op = ACCEL_PLUGIN_DIM_CONST, .c = SELFTEST_C},
                                            {.op = ACCEL_PLUGIN_DIM_CONST, .c = SELFTEST_F}};
#define ROWS(label, what, width) \
  { .name = label, .kind = ACCEL_PLUGIN_TENSOR_##what, .rank = 2, .dim = {DIM_T, width}, .weight = -1, .space = -1 }
#define VECTOR(label, index, width) \
  { .name = label, .kind = ACCEL_PLUGIN_TENSOR_WEIGHT, .rank = 1, .dim = {width}, .weight = index, .space = -1 }
#define MATRIX(label, index, n, k) \
  { .name = label, .kind = ACCEL_PLUGIN_TENSOR_WEIGHT, .rank = 2, .dim = {n, k}, .weight = index, .space = -1 }
static const accel_plugin_tensor tensors[TENSORS] = {
    [X] = ROWS("x", INPUT, DIM_C), [GAMMA] = VECTOR("gamma", 0, DIM_C),  [BETA] = VECTOR("beta", 1, DIM_C),
    [H] = ROWS("h", VALUE, DIM_C), [W1] = MATRIX("w1", 2, DIM_F, DIM_C), [B1] = VECTOR("b1", 3, DIM_F),
    [G] = ROWS("g", VALUE, DIM_F), [W2] = MATRIX("w2", 4, DIM_C, DIM_F), [B2] = VECTOR("b2", 5, DIM_C),
    [Y] = ROWS("y", VALUE, DIM_C), [P] = ROWS("p", VALUE, DIM_C),
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
static const accel_plugin_attr norm_attrs[] = {ATTR_I(NORM_KIND, ACCEL_PLUGIN_NORM_LAYER), ATTR_F(EPS, 1e-5)};
static const accel_plugin_attr gelu_attrs[] = {ATTR_I(ACT, ACCEL_PLUGIN_ACT_GELU)};
static const accel_plugin_attr softmax_attrs[] = {ATTR_I(AXIS, -1)};
#define NODE(which, inputs, n_inputs, output, attrs, n_attrs)                                                              \
  {                                                                                                                        \
    .op = ACCEL_PLUGIN_OP_##which, .version = 1, .n_in = n_inputs, .n_out = 1, .in = inputs, .out = output, .attr = attrs, \
    .n_attr = n_attrs, .state = -1                                                                                         \
  }
static const int32_t norm_in[] = {X, GAMMA, BETA}, up_in[] = {H, W1, B1}, down_in[] = {G, W2, B2, X}, softmax_in[] = {Y};
static const int32_t h_out[] = {H}, g_out[] = {G}, y_out[] = {Y}, p_out[] = {P};
static const accel_plugin_node nodes[] = {
    NODE(NORM, norm_in, 3, h_out, norm_attrs, 2),
    NODE(LINEAR, up_in, 3, g_out, gelu_attrs, 1),
    NODE(LINEAR, down_in, 4, y_out, NULL, 0),
    NODE(SOFTMAX, softmax_in, 1, p_out, softmax_attrs, 1),
};
static const int32_t entry_nodes[] = {0, 1, 2, 3}, entry_in[] = {X}, entry_out[] = {Y, P};
static const accel_plugin_entry entries[] = {
    {.name = "test", .node = entry_nodes, .n_node = 4, .in = entry_in, .out = entry_out, .n_in = 1, .n_out = 2}};
static const accel_plugin_program program = {.size = sizeof program,
                                             .abi = ACCEL_PLUGIN_ABI_NOW,
                                             .hash = 0x73656c6674657374u,
                                             .name = "selftest",
                                             .symbol_stride = sizeof *symbols,
                                             .dim_stride = sizeof *dims,
                                             .space_stride = sizeof(accel_plugin_space),
                                             .tensor_stride = sizeof *tensors,
                                             .state_stride = sizeof(accel_plugin_state),
                                             .node_stride = sizeof *nodes,
                                             .entry_stride = sizeof *entries,
                                             .weight_stride = sizeof *weights,
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
static const struct {
  const char *name;
  uint8_t dtype;
  double bound; /* of the root mean square of the expected values */
} precisions[] = {{"fp32", ACCEL_PLUGIN_F32, 1e-4}, {"fp16", ACCEL_PLUGIN_F16, 1e-2}, {"bf16", ACCEL_PLUGIN_BF16, 6e-2}};

static uint16_t to_half(float value, uint8_t dtype) {
  return dtype == ACCEL_PLUGIN_BF16 ? accel_f32_to_bf16(value) : accel_f32_to_fp16(value);
}

/* ---- the host lent to the plugin ---- */
typedef struct selftest_host {
  const accel_plugin_host *base;
  accel_plugin_format format[SELFTEST_WEIGHTS];
  _Alignas(64) float f32[SELFTEST_WEIGHTS][SELFTEST_C * SELFTEST_F];
  _Alignas(64) uint16_t half[SELFTEST_WEIGHTS][SELFTEST_C * SELFTEST_F];
} selftest_host;

static void host_log(void *self, int level, const char *message) {
  const accel_plugin_host *base = ((selftest_host *)self)->base;
  if (base && base->log) base->log(base->self, level, message);
}
static int32_t host_weight_map(void *self, uint32_t index, accel_plugin_weight_view *out, accel_plugin_error *error) {
  selftest_host *h = self;
  memset(out, 0, sizeof *out);
  if (index >= SELFTEST_WEIGHTS) {
    if (error)
      snprintf(error->message, sizeof error->message, "the self-test has %d weights, number %u was asked for",
               SELFTEST_WEIGHTS, index);
    return ACCEL_PLUGIN_E_ARGUMENT;
  }
  out->data = h->format[index].store == ACCEL_PLUGIN_F32 ? (const void *)h->f32[index] : (const void *)h->half[index];
  return ACCEL_PLUGIN_OK;
}
static void host_weight_unmap(void *self, uint32_t index) { (void)self, (void)index; }
static void host_parallel(void *self, uint32_t n, accel_plugin_task_fn fn, void *arg) {
  const accel_plugin_host *base = ((selftest_host *)self)->base;
  if (base && base->parallel) {
    base->parallel(base->self, n, fn, arg);
    return;
  }
  for (uint32_t i = 0; i < n; i++) fn(arg, i, 0);
}
static uint32_t host_workers(void *self) {
  const accel_plugin_host *base = ((selftest_host *)self)->base;
  return base && base->workers ? base->workers(base->self) : 1;
}
static int host_fault(void *self, const char *point) {
  const accel_plugin_host *base = ((selftest_host *)self)->base;
  return base && base->fault ? base->fault(base->self, point) : 0;
}

static void fill_weights(selftest_host *h, uint8_t dtype) {
  for (int w = 0; w < SELFTEST_WEIGHTS; w++) {
    const formula *f = &weight_formula[w];
    h->format[w] = (accel_plugin_format){.store = weights[w].use == ACCEL_PLUGIN_USE_PLAIN ? ACCEL_PLUGIN_F32 : dtype,
                                         .scale = ACCEL_PLUGIN_NO_DTYPE,
                                         .zero = ACCEL_PLUGIN_NO_DTYPE,
                                         .outer = ACCEL_PLUGIN_NO_DTYPE};
    for (uint32_t i = 0; i < f->n; i++) {
      h->f32[w][i] = formula_value(f, i);
      h->half[w][i] = to_half(h->f32[w][i], dtype);
    }
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

static accel__proof failed(const char *call, int32_t rc, const accel_plugin_error *error, char *why, size_t n) {
  char message[sizeof error->message];
  memcpy(message, error->message, sizeof message);
  message[sizeof message - 1] = 0;
  snprintf(why, n, "%s failed on the self-test: %s (code %d)", call, *message ? message : "no reason given", (int)rc);
  return ACCEL__PROOF_WRONG;
}

static accel__proof run_and_compare(const accel_plugin *plugin, accel_plugin_endpoint *endpoint,
                                    const accel_plugin_host *host, double bound, char *why, size_t n) {
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
    out[o] = (accel_plugin_view){.size = sizeof *out, .dtype = ACCEL_PLUGIN_F32, .host = got[o], .capacity = sizeof got[o]};
  accel_plugin_run run = {.size = sizeof run, .host = host};
  accel_plugin_error error = {.size = sizeof error, .node = -1};
  int32_t rc = plugin->handler(endpoint, NULL, &run, &in, 1, out, 2, &error);
  if (rc != ACCEL_PLUGIN_OK) return failed("handler", rc, &error, why, n);
  for (int o = 0; o < 2; o++) {
    if (out[o].rank != 2 || out[o].dim[0] != SELFTEST_T || out[o].dim[1] != SELFTEST_C) {
      snprintf(why, n, "handler gave the wrong shape on the self-test: rank %u, [%lld, %lld] instead of [%d, %d]",
               (unsigned)out[o].rank, (long long)out[o].dim[0], (long long)out[o].dim[1], SELFTEST_T, SELFTEST_C);
      return ACCEL__PROOF_WRONG;
    }
    size_t where = 0;
    const double *want = o == 0 ? selftest_y : selftest_p;
    double error_rms = worst(got[o], want, SELFTEST_T * SELFTEST_C, &where);
    if (!(error_rms <= bound)) {
      snprintf(why, n, "it computes wrong numbers: the self-test's %s[%zu] is %g instead of %g (bound %g of the rms)",
               o == 0 ? "linear output" : "softmax", where, (double)got[o][where], want[where], bound);
      return ACCEL__PROOF_WRONG;
    }
  }
  *why = 0;
  return ACCEL__PROOF_PASS;
}

static accel__proof ask_supports(const accel_plugin *plugin, uint32_t device, const accel_plugin_precision *precision,
                                 char *why, size_t n) {
  accel_plugin_error error = {.size = sizeof error, .node = -1};
  accel_plugin_verdict verdict = {.size = sizeof verdict, .node = -1};
  int32_t rc = plugin->supports(device, &program, precision, &verdict, &error);
  if (rc != ACCEL_PLUGIN_OK && rc != ACCEL_PLUGIN_E_UNSUPPORTED) return failed("supports", rc, &error, why, n);
  if (rc == ACCEL_PLUGIN_OK && verdict.answer != ACCEL_PLUGIN_NO) return ACCEL__PROOF_PASS;
  verdict.why[sizeof verdict.why - 1] = 0;
  error.message[sizeof error.message - 1] = 0;
  const char *text = *verdict.why ? verdict.why : error.message;
  snprintf(why, n, "it does not run the self-test at %s: %s", precision->name, *text ? text : "no reason given");
  return ACCEL__PROOF_INCAPABLE;
}

accel__proof accel__selftest(const accel_plugin *plugin, uint32_t device, const char *precision,
                             const accel_plugin_host *base, char *why, size_t n) {
  size_t p = 0, known = sizeof precisions / sizeof *precisions;
  while (p < known && strcmp(precisions[p].name, precision)) p++;
  if (p == known) {
    snprintf(why, n, "the self-test knows fp32, fp16 and bf16, not '%s'", precision);
    return ACCEL__PROOF_UNKNOWN;
  }
  selftest_host *h = aligned_alloc(64, (sizeof *h + 63) / 64 * 64);
  if (!h) {
    snprintf(why, n, "no memory for the self-test");
    return ACCEL__PROOF_WRONG;
  }
  memset(h, 0, sizeof *h);
  h->base = base;
  fill_weights(h, precisions[p].dtype);
  accel_plugin_host host = {.size = sizeof host,
                            .abi = ACCEL_PLUGIN_ABI_NOW,
                            .self = h,
                            .log = host_log,
                            .weight_map = host_weight_map,
                            .weight_unmap = host_weight_unmap,
                            .parallel = host_parallel,
                            .workers = host_workers,
                            .fault = host_fault};
  accel_plugin_options options = {.size = sizeof options, .host = &host, .extra = ""};
  options.precision = (accel_plugin_precision){.size = sizeof options.precision,
                                               .compute = precisions[p].dtype,
                                               .kv = precisions[p].dtype,
                                               .flags = ACCEL_PLUGIN_ALLOW_EMULATED,
                                               .format = h->format};
  snprintf(options.precision.name, sizeof options.precision.name, "%s", precision);

  accel__proof proof = ask_supports(plugin, device, &options.precision, why, n);
  if (proof == ACCEL__PROOF_PASS) {
    accel_plugin_error error = {.size = sizeof error, .node = -1};
    accel_plugin_endpoint *endpoint = NULL;
    int32_t rc = plugin->init(device, &program, &options, &endpoint, &error);
    if (rc != ACCEL_PLUGIN_OK) {
      proof = failed("init", rc, &error, why, n);
    } else {
      proof = run_and_compare(plugin, endpoint, &host, precisions[p].bound, why, n);
      plugin->cleanup(endpoint, &host);
    }
  }
  free(h);
  return proof;
}
