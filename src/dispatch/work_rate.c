/* work_rate.c - chains of one op, whose result has its operand's shape: what a longer chain takes
 * beyond a single op is free of what each run costs. */
#include "dispatch/work_rate.h"

#include <stdlib.h>
#include <string.h>

#include "dispatch/rate_run.h"
#include "hardware/selftest_host.h"

enum {
  CHAIN = 4,      /* ops of the longer chain */
  CHANNELS = 320, /* pictures are [1][CHANNELS][SIDE][SIDE] */
  SIDE = 32,      /* of a convolution: operands stay in caches */
  LARGE = 128,    /* of what is measured by its bytes: 20 MB, which no core's own cache holds */
  ROWS = 1024,    /* matrices are [ROWS][COLS] */
  COLS = 640,
  HEADS = 10,
  GROUPS = 32,
  FLOATS = CHANNELS * LARGE * LARGE, /* of the largest */
  WEIGHT_FLOATS = CHANNELS * CHANNELS * 9
};
_Static_assert((int)ROWS *COLS <= (int)FLOATS && COLS * COLS <= (int)WEIGHT_FLOATS,
               "one size serves all");
static const uint64_t least_ns = 10000000;  /* that runs of one kind are timed */
static const uint32_t pattern = 0x3c003c00; /* small numbers in every format */

/* ---- programs ---- */

enum { DIM_ONE, DIM_CHANNELS, DIM_SIDE, DIM_LARGE, DIM_TAPS, DIM_ROWS, DIM_COLS, DIMS };
enum { X, Y, W = Y + CHAIN, TENSORS };
static const int64_t dims[DIMS] = {1, CHANNELS, SIDE, LARGE, 3, ROWS, COLS};
static const int64_t pads[] = {1, 1, 1, 1};
#define ATTR_I(name, value) \
  { .key = ACCEL_PLUGIN_ATTR_##name, .type = ACCEL_PLUGIN_ATTR_I, .i = value }
static const accel_plugin_attr conv_attrs[] = {
    {.key = ACCEL_PLUGIN_ATTR_PADS, .type = ACCEL_PLUGIN_ATTR_IV, .n = 4, .v = pads}};
static const accel_plugin_attr attention_attrs[] = {ATTR_I(HEADS, HEADS)};
static const accel_plugin_attr norm_attrs[] = {
    ATTR_I(GROUPS, GROUPS),
    ATTR_I(ACT, ACCEL_PLUGIN_ACT_SILU),
    {.key = ACCEL_PLUGIN_ATTR_EPS, .type = ACCEL_PLUGIN_ATTR_F, .f = 1e-5}};

/* How a kind is measured: its op, and the flop or bytes of one. */
typedef struct chain_op {
  uint16_t op;
  bool weights, picture; /* else of matrices */
  uint32_t n_attr;
  const accel_plugin_attr *attr;
  double work;
} chain_op;
static const chain_op ops[ACCEL__WORK_KINDS] = {
    [ACCEL__WORK_CONV] = {ACCEL_PLUGIN_OP_CONV, true, true, 1, conv_attrs,
                          2.0 * 9 * CHANNELS *CHANNELS *SIDE *SIDE},
    [ACCEL__WORK_LINEAR] = {ACCEL_PLUGIN_OP_LINEAR, true, false, 0, NULL, 2.0 * ROWS *COLS *COLS},
    [ACCEL__WORK_ATTENTION] = {ACCEL_PLUGIN_OP_ATTENTION, false, false, 1, attention_attrs,
                               4.0 * ROWS *ROWS *(COLS + 2 * HEADS)},
    [ACCEL__WORK_OTHER] = {ACCEL_PLUGIN_OP_GROUP_NORM, false, true, 3, norm_attrs,
                           2.0 * sizeof(float) * CHANNELS *LARGE *LARGE}};

typedef struct chain {
  accel_plugin_program program;
  accel_plugin_dim dim[DIMS];
  accel_plugin_tensor tensor[TENSORS];
  accel_plugin_node node[CHAIN];
  accel_plugin_entry entry[2]; /* one op, all of them */
  accel_plugin_weight weight;
  int32_t in[CHAIN][3], out[CHAIN], order[CHAIN], input;
} chain;

static accel_plugin_tensor tensor_of(const chain_op *op, const char *name, int32_t kind) {
  accel_plugin_tensor t = {.name = name, .kind = kind, .rank = 2, .weight = -1, .space = -1};
  t.dim[0] = DIM_ROWS;
  t.dim[1] = DIM_COLS;
  if (!op->picture) return t;
  t.rank = 4;
  t.dim[0] = DIM_ONE;
  t.dim[1] = DIM_CHANNELS;
  t.dim[2] = t.dim[3] = op->weights ? DIM_SIDE : DIM_LARGE;
  return t;
}

/* *out must stay where it is. */
static void make_chain(const chain_op *op, chain *out) {
  static const char *const names[CHAIN] = {"y1", "y2", "y3", "y4"};
  *out = (chain){.input = X};
  for (int i = 0; i < DIMS; i++)
    out->dim[i] = (accel_plugin_dim){.op = ACCEL_PLUGIN_DIM_CONST, .c = dims[i]};
  out->tensor[X] = tensor_of(op, "x", ACCEL_PLUGIN_TENSOR_INPUT);
  out->tensor[W] = tensor_of(op, "w", ACCEL_PLUGIN_TENSOR_WEIGHT);
  out->tensor[W].weight = 0;
  out->tensor[W].dim[0] = op->picture ? DIM_CHANNELS : DIM_COLS;
  out->tensor[W].dim[2] = out->tensor[W].dim[3] = DIM_TAPS;
  out->weight = (accel_plugin_weight){
      .name = "w", .rank = 2, .dim = {COLS, COLS}, .use = ACCEL_PLUGIN_USE_LINEAR};
  if (op->picture)
    out->weight = (accel_plugin_weight){
        .name = "w", .rank = 4, .dim = {CHANNELS, CHANNELS, 3, 3}, .use = ACCEL_PLUGIN_USE_CONV};
  for (int i = 0; i < CHAIN; i++) {
    const int32_t x = i ? Y + i - 1 : X;
    out->in[i][0] = x;
    out->in[i][1] = op->weights ? W : x;
    out->in[i][2] = x;
    out->out[i] = Y + i;
    out->order[i] = i;
    out->tensor[Y + i] = tensor_of(op, names[i], ACCEL_PLUGIN_TENSOR_VALUE);
    out->node[i] = (accel_plugin_node){.op = op->op,
                                       .version = 1,
                                       .n_in = op->weights                           ? 2
                                               : op->op == ACCEL_PLUGIN_OP_ATTENTION ? 3
                                                                                     : 1,
                                       .n_out = 1,
                                       .in = out->in[i],
                                       .out = &out->out[i],
                                       .attr = op->attr,
                                       .n_attr = op->n_attr,
                                       .state = -1};
  }
  for (int i = 0; i < 2; i++)
    out->entry[i] = (accel_plugin_entry){.name = i ? "chain" : "one",
                                         .node = out->order,
                                         .n_node = i ? CHAIN : 1,
                                         .in = &out->input,
                                         .out = &out->out[i ? CHAIN - 1 : 0],
                                         .n_in = 1,
                                         .n_out = 1};
  out->program = (accel_plugin_program){ACCEL_PLUGIN_PROGRAM_SIZES,
                                        .hash = 0x776f726bu ^ op->op,
                                        .name = "work",
                                        .n_dim = DIMS,
                                        .n_tensor = op->weights ? TENSORS : W,
                                        .n_node = CHAIN,
                                        .n_entry = 2,
                                        .n_weight = op->weights ? 1 : 0,
                                        .n_stage = 1,
                                        .dim = out->dim,
                                        .tensor = out->tensor,
                                        .node = out->node,
                                        .entry = out->entry,
                                        .weight = &out->weight};
}

/* ---- measuring ---- */

/* Work a second of one kind; 0: not known. */
static double measure_kind(const chain_op *op, const accel__device *device, const char *precision,
                           const accel_plugin_host *host, float *x, float *y) {
  chain *c = malloc(sizeof *c);
  accel__arena arena = {0};
  double seconds = 0;
  if (!c) return 0;
  make_chain(op, c);
  accel__rate_run run = {.device = device, .program = &c->program, .host = host};
  const accel_plugin_tensor *t = &c->tensor[X];
  accel_plugin_view in = {.size = sizeof in,
                          .dtype = ACCEL_PLUGIN_F32,
                          .rank = t->rank,
                          .host = x,
                          .capacity = FLOATS * sizeof(float)},
                    out = in;
  for (uint32_t i = 0; i < t->rank; i++) in.dim[i] = dims[t->dim[i]];
  out.host = y;
  if (accel__rate_prepare(&run, precision, &arena) && accel__rate_open(&run)) {
    const double one = accel__rate_time(&run, 0, &in, &out, least_ns),
                 all = accel__rate_time(&run, 1, &in, &out, least_ns);
    if (one > 0 && all > one) seconds = (all - one) / (CHAIN - 1);
  }
  accel__rate_close(&run);
  accel__arena_free(&arena);
  free(c);
  return seconds > 0 ? op->work / seconds : 0;
}

void accel__work_rate_measure(const accel__device *device, const char *precision, accel__pool *pool,
                              const accel_plugin_host *host, accel__work_rate *out) {
  uint32_t *w = malloc(WEIGHT_FLOATS * sizeof *w);
  float *x = malloc(FLOATS * sizeof *x), *y = malloc(FLOATS * sizeof *y);
  *out = (accel__work_rate){{0}};
  for (int i = 0; w && i < WEIGHT_FLOATS; i++) w[i] = pattern;
  for (int i = 0; x && i < FLOATS; i++) x[i] = 0.01f * (float)(i % 64);
  if (w && x && y) {
    const accel_plugin_weight_view view = {.data = w, .scale = w, .zero = w, .outer = w};
    accel__test_lent lent = {.base = host, .weight = &view, .n_weight = 1};
    const accel_plugin_host lends = accel__test_host(&lent);
    accel__pool_turn turn;
    accel__pool_enter(pool, UINT32_MAX, &turn);
    for (int i = 0; i < ACCEL__WORK_KINDS; i++)
      out->per_second[i] = measure_kind(&ops[i], device, precision, &lends, x, y);
    accel__pool_leave(&turn);
    accel__clear_error();
  }
  free(w);
  free(x);
  free(y);
}

double accel__work_seconds(const accel__work_rate *rate, const accel_profile_step *step) {
  static const struct {
    const char *op;
    accel__work_kind kind;
  } products[] = {{"CONV", ACCEL__WORK_CONV},
                  {"CONV_TRANSPOSE", ACCEL__WORK_CONV},
                  {"LINEAR", ACCEL__WORK_LINEAR},
                  {"MATMUL", ACCEL__WORK_LINEAR},
                  {"ATTENTION", ACCEL__WORK_ATTENTION}};
  const double bytes = rate->per_second[ACCEL__WORK_OTHER];
  double seconds = bytes > 0 ? step->bytes / bytes : 0;
  for (size_t i = 0; i < sizeof products / sizeof *products; i++) {
    if (strcmp(step->op, products[i].op) != 0) continue;
    const double flop = rate->per_second[products[i].kind];
    seconds = flop > 0 && seconds > 0 ? seconds + step->flop / flop : 0;
  }
  return seconds;
}
