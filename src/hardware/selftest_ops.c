/* selftest_ops.c - does every op compute?  One program with an entry for each case of
 * selftest_ops_data.h, at fp32. */
#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "hardware/selftest_host.h"

enum { OPERANDS = 8, OUTS = 2, SPACES = 2, ATTRS = 10 };

typedef struct selftest_tensor {
  char role; /* i input, w weight, c constant, - absent */
  uint8_t dtype, rank;
  uint32_t use; /* of a weight */
  int32_t space;
  uint32_t n; /* elements */
  int64_t dim[4];
  const void *data;
} selftest_tensor;
typedef struct selftest_space { /* ragged where lengths are there */
  selftest_tensor lengths;
  int64_t rows, items;
} selftest_space;
typedef struct selftest_op {
  const char *name; /* "attention.plain" */
  uint32_t op, n_operand, n_out, n_space, n_attr;
  selftest_tensor operand[OPERANDS], out[OUTS];
  selftest_space space[SPACES];
  accel_plugin_attr attr[ATTRS]; /* ATTR_D: v holds the values, not dims */
} selftest_op;
#include "hardware/selftest_ops_data.h"

enum { OPS = sizeof selftest_ops / sizeof *selftest_ops };
enum {
  MOST_IN = OPERANDS + SPACES,
  TENSORS = OPS * (MOST_IN + OUTS),
  DIMS = OPS * 64,
  VALUES = OPS * 16
};

/* The program, written into arrays that are large enough for the table (OPS is small and
 * constant). */
typedef struct built {
  accel_plugin_dim dim[DIMS];
  accel_plugin_tensor tensor[TENSORS];
  accel_plugin_space space[OPS * SPACES];
  accel_plugin_weight weight[OPS * OPERANDS];
  accel_plugin_weight_view view[OPS * OPERANDS];
  accel_plugin_format format[OPS * OPERANDS];
  accel_plugin_attr attr[OPS][ATTRS];
  accel_plugin_node node[OPS];
  accel_plugin_entry entry[OPS];
  int64_t value[VALUES]; /* dim indices of ATTR_D */
  int32_t operand[OPS][OPERANDS], in[OPS][MOST_IN], out[OPS][OUTS], wanted[OPS][OUTS], order[OPS];
  char name[TENSORS][24];
  const selftest_tensor *source[OPS][MOST_IN]; /* of the entries' inputs */
  uint32_t values;
  accel_plugin_program program;
} built;

static int32_t dim_of(built *b, int64_t value) {
  b->dim[b->program.n_dim] = (accel_plugin_dim){.op = ACCEL_PLUGIN_DIM_CONST, .c = value};
  return (int32_t)b->program.n_dim++;
}

static int32_t tensor_of(built *b, const selftest_tensor *t, accel_plugin_tensor_kind kind,
                         int32_t space) {
  const uint32_t at = b->program.n_tensor++;
  accel_plugin_tensor *out = &b->tensor[at];
  snprintf(b->name[at], sizeof b->name[at], "t%u", at);
  *out = (accel_plugin_tensor){.name = b->name[at],
                               .kind = (uint8_t)kind,
                               .dtype = t->dtype,
                               .rank = t->rank,
                               .weight = -1,
                               .space = space};
  for (uint32_t r = 0; r < t->rank; r++) out->dim[r] = dim_of(b, t->dim[r]);
  if (kind == ACCEL_PLUGIN_TENSOR_CONST) out->data = t->data;
  return (int32_t)at;
}

static int32_t weight_of(built *b, const selftest_tensor *t) {
  static const accel_plugin_format plain = {
      ACCEL_PLUGIN_F32, ACCEL_PLUGIN_NO_DTYPE, ACCEL_PLUGIN_NO_DTYPE, ACCEL_PLUGIN_NO_DTYPE, 0, 0};
  const uint32_t w = b->program.n_weight++;
  const int32_t at = tensor_of(b, t, ACCEL_PLUGIN_TENSOR_WEIGHT, -1);
  b->tensor[at].weight = (int32_t)w;
  b->weight[w] = (accel_plugin_weight){.name = b->name[at], .rank = t->rank, .use = t->use};
  memcpy(b->weight[w].dim, t->dim, sizeof t->dim);
  b->view[w] = (accel_plugin_weight_view){.data = t->data};
  b->format[w] = plain;
  return at;
}

static int32_t input_of(built *b, uint32_t op, const selftest_tensor *t, int32_t space) {
  accel_plugin_entry *e = &b->entry[op];
  const int32_t at = tensor_of(b, t, ACCEL_PLUGIN_TENSOR_INPUT, space);
  b->source[op][e->n_in] = t;
  b->in[op][e->n_in++] = at;
  return at;
}

static int32_t space_of(built *b, uint32_t op, const selftest_op *o, uint32_t s) {
  const selftest_space *from = &o->space[s];
  accel_plugin_space made = {.name = "rows", .lengths = -1};
  int64_t rows = from->rows, items = from->items;
  if (from->lengths.role == 'i') {
    made.lengths = input_of(b, op, &from->lengths, -1);
    items = from->lengths.dim[0];
    rows = 0;
    for (int64_t i = 0; i < items; i++) rows += ((const int32_t *)from->lengths.data)[i];
  }
  made.rows = dim_of(b, rows);
  made.items = dim_of(b, items);
  b->space[b->program.n_space] = made;
  return (int32_t)b->program.n_space++;
}

static void attrs_of(built *b, uint32_t op, const selftest_op *o, const int32_t *space) {
  for (uint32_t i = 0; i < o->n_attr; i++) {
    accel_plugin_attr *a = &b->attr[op][i];
    *a = o->attr[i];
    const bool names_space = a->key == ACCEL_PLUGIN_ATTR_Q_SPACE ||
                             a->key == ACCEL_PLUGIN_ATTR_KV_SPACE ||
                             a->key == ACCEL_PLUGIN_ATTR_SPACE;
    if (names_space && a->i >= 0) a->i = space[a->i];
    if (a->type != ACCEL_PLUGIN_ATTR_D) continue;
    int64_t *to = b->value + b->values;
    b->values += a->n;
    for (uint32_t k = 0; k < a->n; k++) to[k] = dim_of(b, o->attr[i].v[k]);
    a->v = to;
  }
}

static void add_case(built *b, const selftest_op *o) {
  const uint32_t op = b->program.n_entry++;
  int32_t space[SPACES] = {-1, -1};
  b->entry[op] = (accel_plugin_entry){
      .name = o->name, .node = &b->order[op], .n_node = 1, .in = b->in[op], .out = b->wanted[op]};
  for (uint32_t s = 0; s < o->n_space; s++) space[s] = space_of(b, op, o, s);
  for (uint32_t i = 0; i < o->n_operand; i++) {
    const selftest_tensor *t = &o->operand[i];
    const int32_t in = t->space >= 0 ? space[t->space] : -1;
    b->operand[op][i] = t->role == 'i'   ? input_of(b, op, t, in)
                        : t->role == 'w' ? weight_of(b, t)
                        : t->role == 'c' ? tensor_of(b, t, ACCEL_PLUGIN_TENSOR_CONST, in)
                                         : -1;
  }
  for (uint32_t k = 0; k < o->n_out; k++) {
    b->out[op][k] =
        o->out[k].role == '-' ? -1 : tensor_of(b, &o->out[k], ACCEL_PLUGIN_TENSOR_VALUE, -1);
    if (b->out[op][k] >= 0) b->wanted[op][b->entry[op].n_out++] = b->out[op][k];
  }
  attrs_of(b, op, o, space);
  b->order[op] = (int32_t)op;
  b->node[op] = (accel_plugin_node){.op = (uint16_t)o->op,
                                    .version = 1,
                                    .n_in = (uint16_t)o->n_operand,
                                    .n_out = (uint16_t)o->n_out,
                                    .in = b->operand[op],
                                    .out = b->out[op],
                                    .attr = b->attr[op],
                                    .n_attr = o->n_attr,
                                    .state = -1};
  b->program.n_node = b->program.n_entry;
}

/* `skip`, where given, tells which cases the plugin does not take. */
static void build(built *b, const accel_plugin_verdict *skip, uint32_t *source) {
  memset(b, 0, sizeof *b);
  b->program = (accel_plugin_program){
      ACCEL_PLUGIN_PROGRAM_SIZES, .name = "selftest ops", .n_stage = 1,    .dim = b->dim,
      .space = b->space,          .tensor = b->tensor,    .node = b->node, .entry = b->entry,
      .weight = b->weight};
  for (uint32_t i = 0; i < OPS; i++) {
    if (skip && skip[i].answer == ACCEL_PLUGIN_NO) continue;
    source[b->program.n_entry] = i;
    add_case(b, &selftest_ops[i]);
  }
  b->program.hash = 0x73656c666f707300u + b->program.n_entry;
}

/* ---- running ---- */

static bool differs(const selftest_op *o, const selftest_tensor *want, const void *got, char *why,
                    size_t n) {
  double largest = 0;
  for (uint32_t i = 0; i < want->n && want->dtype == ACCEL_PLUGIN_F32; i++)
    largest = fmax(largest, fabs((double)((const float *)want->data)[i]));
  const double bound = 1e-4 * (1 + largest);
  for (uint32_t i = 0; i < want->n; i++) {
    const bool whole = want->dtype != ACCEL_PLUGIN_F32;
    const double g = whole ? ((const int32_t *)got)[i] : (double)((const float *)got)[i];
    const double w =
        whole ? ((const int32_t *)want->data)[i] : (double)((const float *)want->data)[i];
    if (g == w || (!whole && fabs(g - w) <= bound)) continue;
    snprintf(why, n, "it computes wrong numbers: %s[%u] of the self-test is %.9g instead of %.9g",
             o->name, i, g, w);
    return true;
  }
  return false;
}

static accel__proof run_case(const accel_plugin *plugin, accel_plugin_endpoint *endpoint,
                             const accel_plugin_host *host, const built *b, uint32_t entry,
                             const selftest_op *o, char *why, size_t n) {
  accel_plugin_view in[MOST_IN], out[OUTS];
  float *got[OUTS] = {NULL, NULL};
  const selftest_tensor *want[OUTS] = {NULL, NULL};
  uint32_t n_out = 0;
  accel__proof proof = ACCEL__PROOF_PASS;
  for (uint32_t i = 0; i < b->entry[entry].n_in; i++) {
    const selftest_tensor *t = b->source[entry][i];
    in[i] = (accel_plugin_view){.size = sizeof *in,
                                .dtype = t->dtype,
                                .rank = t->rank,
                                .host = (void *)t->data,
                                .capacity = t->n * 4u};
    memcpy(in[i].dim, t->dim, sizeof t->dim);
  }
  for (uint32_t k = 0; k < o->n_out; k++) {
    const selftest_tensor *t = &o->out[k];
    if (t->role == '-') continue;
    got[n_out] = malloc(t->n * sizeof(float) + 4);
    if (got[n_out]) memset(got[n_out], 0xff, t->n * sizeof(float) + 4); /* NaN, and -1 */
    if (!got[n_out]) proof = ACCEL__PROOF_WRONG;
    out[n_out] = (accel_plugin_view){
        .size = sizeof *out, .dtype = t->dtype, .host = got[n_out], .capacity = t->n * 4u};
    want[n_out++] = t;
  }
  accel_plugin_run run = {.size = sizeof run, .entry = entry, .host = host};
  accel_plugin_error error = {.size = sizeof error, .node = -1};
  int32_t rc = ACCEL_PLUGIN_OK;
  if (proof == ACCEL__PROOF_PASS)
    rc = plugin->handler(endpoint, NULL, &run, in, b->entry[entry].n_in, out, n_out, &error);
  if (rc) proof = accel__test_failed(o->name, rc, &error, why, n);
  for (uint32_t k = 0; k < n_out; k++) {
    if (proof == ACCEL__PROOF_PASS && differs(o, want[k], got[k], why, n))
      proof = ACCEL__PROOF_WRONG;
    free(got[k]);
  }
  return proof;
}

accel__proof accel__selftest_ops(const accel_plugin *plugin, uint32_t device,
                                 const accel_plugin_host *base, char *why, size_t n) {
  accel_plugin_verdict verdict[OPS];
  uint32_t source[OPS];
  accel_plugin_error error = {.size = sizeof error, .node = -1};
  accel_plugin_endpoint *endpoint = NULL;
  built *b = malloc(sizeof *b);
  accel__proof proof = ACCEL__PROOF_PASS;
  if (!b) {
    snprintf(why, n, "no memory for the self-test");
    return ACCEL__PROOF_WRONG;
  }
  build(b, NULL, source);
  accel__test_lent lent = {.base = base, .weight = b->view};
  accel_plugin_host host = accel__test_host(&lent);
  accel_plugin_options options = {.size = sizeof options, .host = &host, .extra = ""};
  options.precision = (accel_plugin_precision){.size = sizeof options.precision,
                                               .name = "fp32",
                                               .flags = ACCEL_PLUGIN_ALLOW_EMULATED,
                                               .format = b->format};
  for (uint32_t i = 0; i < OPS; i++)
    verdict[i] = (accel_plugin_verdict){.size = sizeof *verdict, .node = -1};
  int32_t rc = plugin->supports(device, &b->program, &options.precision, verdict, &error);
  if (rc) {
    proof = accel__test_failed("supports", rc, &error, why, n);
    goto done;
  }
  build(b, verdict, source);
  lent.n_weight = b->program.n_weight;
  if (!b->program.n_entry) goto done; /* it runs none of them, and says so */
  rc = plugin->init(device, &b->program, &options, &endpoint, &error);
  if (rc) {
    proof = accel__test_failed("init", rc, &error, why, n);
    goto done;
  }
  for (uint32_t e = 0; e < b->program.n_entry && proof == ACCEL__PROOF_PASS; e++)
    proof = run_case(plugin, endpoint, &host, b, e, &selftest_ops[source[e]], why, n);
  plugin->cleanup(endpoint, &host);
done:
  free(b);
  return proof;
}
