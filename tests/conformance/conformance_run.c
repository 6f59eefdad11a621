/* conformance_run.c - one case on one plugin: build its program, ask, initialise, run, compare. */
#include <float.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "conformance.h"

/* ---- the program of a case ---- */

typedef struct built {
  accel__program *program;
  const accel_plugin_program *view;
  accel__tensor input[CONF_OPERANDS + CONF_SPACES]; /* of the entry, in order */
  /* operand i, or -1-s for the lengths of space s */
  int source[CONF_OPERANDS + CONF_SPACES];
  uint32_t n_input, n_output;
  int out[2]; /* which results the entry's outputs are */
  const float *weight[CONF_OPERANDS];
} built;

/* Dims of an operand: the rows of a ragged space are its symbol, all else is constant. */
static void dims_of(built *b, const conf_case *c, uint32_t i, const accel__dim *rows,
                    accel__dim *dims) {
  const conf_tensor *t = &c->run[0].in[i];
  int32_t s = c->space[i];
  for (uint32_t r = 0; r < t->rank; r++)
    dims[r] =
        r == 0 && s >= 0 && c->spaces[s].ragged ? rows[s] : accel__const_dim(b->program, t->dim[r]);
}

static accel__tensor operand(built *b, const conf_case *c, uint32_t i, const accel__dim *rows,
                             const int32_t *space) {
  const conf_tensor *t = &c->run[0].in[i];
  accel__dim dims[ACCEL_PLUGIN_MAX_RANK];
  char name[32];
  snprintf(name, sizeof name, "in%u", i);
  if (c->role[i] == '-') return -1;
  if (c->role[i] == 'w') {
    accel__weight_spec spec = {.name = name, .use = c->use[i], .rank = t->rank};
    memcpy(spec.dim, t->dim, sizeof spec.dim);
    accel__tensor w = accel__weight(b->program, &spec);
    b->weight[i] = t->data;
    return w;
  }
  if (c->role[i] == 'c')
    return t->dtype == ACCEL_PLUGIN_F32
               ? accel__constant_f32(b->program, name, t->rank, t->dim, t->data)
               : accel__constant_i32(b->program, name, t->rank, t->dim, t->data);
  dims_of(b, c, i, rows, dims);
  accel__tensor x = accel__input(b->program, name, t->dtype,
                                 c->space[i] >= 0 ? space[c->space[i]] : -1, t->rank, dims);
  b->source[b->n_input] = (int)i;
  b->input[b->n_input++] = x;
  return x;
}

static void build_spaces(built *b, const conf_case *c, accel__dim *rows, int32_t *space) {
  for (uint32_t s = 0; s < c->n_space; s++) {
    char name[32];
    if (!c->spaces[s].ragged) {
      snprintf(name, sizeof name, "fixed%u", s);
      space[s] =
          accel__space_fixed(b->program, name, accel__const_dim(b->program, c->spaces[s].rows),
                             accel__const_dim(b->program, c->spaces[s].items));
      continue;
    }
    snprintf(name, sizeof name, "T%u", s);
    rows[s] = accel__symbol(b->program, name, 0, 0, 16);
    snprintf(name, sizeof name, "B%u", s);
    accel__dim items = accel__symbol(b->program, name, 0, 0, 1);
    snprintf(name, sizeof name, "lengths%u", s);
    accel__tensor lengths = accel__input(b->program, name, ACCEL_PLUGIN_I32, -1, 1, &items);
    b->source[b->n_input] = -1 - (int)s;
    b->input[b->n_input++] = lengths;
    snprintf(name, sizeof name, "ragged%u", s);
    space[s] = accel__space_ragged(b->program, name, lengths, rows[s], items);
  }
}

static const char *build(const conf_case *c, built *b) {
  memset(b, 0, sizeof *b);
  b->program = accel__program_new(c->name);
  if (!b->program) return "no memory";
  accel__dim rows[CONF_SPACES];
  int32_t space[CONF_SPACES];
  accel__tensor in[CONF_OPERANDS], out[2] = {-1, -1}, wanted[2];
  build_spaces(b, c, rows, space);
  for (uint32_t i = 0; i < c->n_operand; i++) in[i] = operand(b, c, i, rows, space);
  accel__attr attr[CONF_ATTRS];
  int64_t dims[CONF_ATTRS][16];
  for (uint32_t i = 0; i < c->n_attr; i++) {
    attr[i] = c->attr[i];
    for (uint32_t k = 0; c->attr_dims[i] && k < attr[i].n && k < 16; k++)
      dims[i][k] = accel__const_dim(b->program, attr[i].v[k]);
    if (c->attr_dims[i]) attr[i].v = dims[i];
  }
  if (c->has_state) accel__with_state(b->program, accel__state(b->program, &c->state));
  accel__node(b->program, (accel_plugin_op)c->op, in, c->n_operand, attr, c->n_attr, out,
              c->wanted[1] ? 2 : 1);
  for (int k = 0; k < 2; k++)
    if (c->wanted[k]) {
      b->out[b->n_output] = k;
      wanted[b->n_output++] = out[k];
    }
  accel__entry(b->program, "run", b->input, b->n_input, wanted, b->n_output);
  if (accel__program_finish(b->program) != ACCEL_OK) return accel__message();
  b->view = accel__program_view(b->program);
  return NULL;
}

/* ---- weights for the plugin ---- */

typedef struct lent {
  accel_plugin_host host;
  conf_plugin *plugin;
  const conf_weights *weights;
} lent;

static int32_t weight_map(void *self, uint32_t index, accel_plugin_weight_view *out,
                          accel_plugin_error *error) {
  const lent *l = self;
  (void)error;
  if (index >= l->weights->n) return ACCEL_PLUGIN_E_ARGUMENT;
  *out = l->weights->view[index];
  return ACCEL_PLUGIN_OK;
}
static void weight_unmap(void *self, uint32_t index) { (void)self, (void)index; }
static void lent_log(void *self, int level, const char *message) {
  conf_plugin *plugin = ((lent *)self)->plugin;
  plugin->host.log(plugin->host.self, level, message);
}
static void lent_parallel(void *self, uint32_t n, accel_plugin_task_fn fn, void *arg) {
  accel__pool_run(((lent *)self)->plugin->pool, n, fn, arg);
}
static uint32_t lent_workers(void *self) { return accel__pool_size(((lent *)self)->plugin->pool); }

static void lend(conf_plugin *plugin, const conf_weights *weights, lent *l) {
  *l = (lent){.plugin = plugin, .weights = weights};
  l->host = (accel_plugin_host){.size = sizeof l->host,
                                .abi = ACCEL_PLUGIN_ABI_NOW,
                                .self = l,
                                .log = lent_log,
                                .parallel = lent_parallel,
                                .workers = lent_workers,
                                .weight_map = weight_map,
                                .weight_unmap = weight_unmap};
}

/* ---- running ---- */

typedef struct outputs {
  conf_tensor at[CONF_RUNS][2];
} outputs;

static void outputs_free(outputs *o) {
  for (int r = 0; r < CONF_RUNS; r++)
    for (int k = 0; k < 2; k++) free((void *)o->at[r][k].data);
  memset(o, 0, sizeof *o);
}

static conf_result result(conf_verdict verdict, const char *format, ...) {
  conf_result r = {.verdict = verdict};
  va_list args;
  va_start(args, format);
  vsnprintf(r.why, sizeof r.why, format, args);
  va_end(args);
  return r;
}

static int64_t items_in(const conf_run *run, const conf_case *c, int s) {
  return c->spaces[s].ragged ? run->items[s] : c->spaces[s].items;
}

/* First with no room, which must fail and tell the shape; then with exactly enough. */
static conf_result run_once(const conf_case *c, const built *b, conf_plugin *plugin, lent *l,
                            accel_plugin_endpoint *e, accel_plugin_session *session, uint32_t index,
                            outputs *o) {
  const conf_run *run = &c->run[index];
  accel_plugin_view in[CONF_OPERANDS + CONF_SPACES] = {0}, out[2] = {0};
  char nothing[8];
  for (uint32_t i = 0; i < b->n_input; i++) {
    in[i].size = sizeof in[i];
    if (b->source[i] < 0) {
      int s = -1 - b->source[i];
      in[i].dtype = ACCEL_PLUGIN_I32;
      in[i].rank = 1;
      in[i].dim[0] = items_in(run, c, s);
      in[i].host = (void *)run->lengths[s];
    } else {
      const conf_tensor *t = &run->in[b->source[i]];
      in[i].dtype = (uint8_t)t->dtype;
      in[i].rank = (uint8_t)t->rank;
      memcpy(in[i].dim, t->dim, sizeof in[i].dim);
      in[i].host = (void *)t->data;
    }
    if (!in[i].host) in[i].host = nothing;
  }
  for (uint32_t k = 0; k < b->n_output; k++) {
    const accel_plugin_tensor *t = &b->view->tensor[b->view->entry[0].out[k]];
    out[k] = (accel_plugin_view){.size = sizeof out[k], .dtype = t->dtype, .host = nothing};
  }
  accel_plugin_run r = {
      .size = sizeof r, .sequence = run->sequence, .n_sequence = run->n_sequence, .host = &l->host};
  accel_plugin_error error = {.size = sizeof error};
  int32_t rc = plugin->table->handler(e, session, &r, in, b->n_input, out, b->n_output, &error);
  if (rc != ACCEL_PLUGIN_E_LIMIT && rc != ACCEL_PLUGIN_OK)
    return result(CONF_FAIL, "handler: %s", error.message);
  bool empty = rc == ACCEL_PLUGIN_OK;
  for (uint32_t k = 0; k < b->n_output; k++) {
    conf_tensor *t = &o->at[index][b->out[k]];
    *t = (conf_tensor){.present = true, .dtype = out[k].dtype, .rank = out[k].rank, .elements = 1};
    memcpy(t->dim, out[k].dim, sizeof t->dim);
    for (uint32_t i = 0; i < t->rank; i++) t->elements *= t->dim[i];
    t->data = malloc((size_t)t->elements * 4 + 64);
    if (!t->data) return result(CONF_FAIL, "no memory");
    memset((void *)t->data, 0xff, (size_t)t->elements * 4 + 64);
    if (empty && t->elements)
      return result(CONF_FAIL, "an output of %lld elements was written into 0 bytes",
                    (long long)t->elements);
    out[k].host = (void *)t->data;
    out[k].capacity = (uint64_t)t->elements * 4;
  }
  error.message[0] = 0;
  rc = plugin->table->handler(e, session, &r, in, b->n_input, out, b->n_output, &error);
  if (rc) return result(CONF_FAIL, "handler: code %d: %s", rc, error.message);
  for (uint32_t k = 0; k < b->n_output; k++) {
    const conf_tensor *t = &o->at[index][b->out[k]];
    for (int i = 0; i < 64; i++)
      if (((const uint8_t *)t->data)[t->elements * 4 + i] != 0xff)
        return result(CONF_FAIL, "output %u is written past its end", k);
  }
  return result(CONF_PASS, "");
}

static conf_result run_all(const conf_case *c, const built *b, conf_plugin *plugin, lent *l,
                           accel_plugin_endpoint *e, outputs *o) {
  accel_plugin_session *session = NULL;
  accel_plugin_error error = {.size = sizeof error};
  conf_result r = result(CONF_PASS, "");
  if (c->has_state &&
      (!plugin->table->session_new || plugin->table->session_new(e, &session, &error)))
    return result(CONF_FAIL, "session: %s", error.message);
  for (uint32_t i = 0; i < c->n_run && r.verdict == CONF_PASS; i++)
    r = run_once(c, b, plugin, l, e, session, i, o);
  if (session) plugin->table->session_free(session);
  return r;
}

/* ---- comparing ---- */

typedef struct bound {
  double nmse, max_abs; /* max_abs is times (1 + largest expected) */
} bound;

/* Ops that only move or select numbers are exact at fp32. */
static bound bound_of(const conf_case *c, const char *precision) {
  static const int exact[] = {
      ACCEL_PLUGIN_OP_CAST,  ACCEL_PLUGIN_OP_RESHAPE,   ACCEL_PLUGIN_OP_TRANSPOSE,
      ACCEL_PLUGIN_OP_SLICE, ACCEL_PLUGIN_OP_BROADCAST, ACCEL_PLUGIN_OP_CONCAT,
      ACCEL_PLUGIN_OP_PAD,   ACCEL_PLUGIN_OP_TOPK,      ACCEL_PLUGIN_OP_ALLREDUCE};
  bool half = strcmp(precision, "fp16") == 0 || strcmp(precision, "bf16") == 0;
  if (half) return (bound){precision[0] == 'b' ? 1e-4 : 1e-5, INFINITY};
  if (strcmp(precision, "fp32") != 0) return (bound){5e-4, INFINITY};
  for (size_t i = 0; i < sizeof exact / sizeof *exact; i++)
    if ((int)c->op == exact[i]) return (bound){0, 0};
  return (bound){1e-10, 1e-5};
}

static conf_result compare_floats(const float *got, const float *expected, int64_t n, bound b) {
  double error = 0, power = 0, worst = 0, largest = 0;
  int64_t at = 0;
  for (int64_t i = 0; i < n; i++) {
    if (isinf(expected[i]) || isnan(expected[i]) || !isfinite(got[i])) {
      if (got[i] == expected[i]) continue;
      return result(CONF_FAIL, "element %lld is %g, expected %g", (long long)i, got[i],
                    expected[i]);
    }
    double d = (double)got[i] - (double)expected[i];
    error += d * d;
    power += (double)expected[i] * (double)expected[i];
    largest = fmax(largest, fabs((double)expected[i]));
    if (fabs(d) > worst) worst = fabs(d), at = i;
  }
  double nmse = error > 0 ? error / fmax(power, DBL_MIN) : 0;
  if ((nmse > b.nmse && error > 1e-14 * (double)n) || worst > b.max_abs * (1 + largest))
    return result(
        CONF_FAIL,
        "nmse %.3g (at most %.3g), largest error %.3g at element %lld: %.9g, expected %.9g", nmse,
        b.nmse, worst, (long long)at, got[at], expected[at]);
  return result(CONF_PASS, "");
}

static conf_result compare(const conf_case *c, const outputs *got, const outputs *other, bound b) {
  for (uint32_t r = 0; r < c->n_run; r++)
    for (int k = 0; k < 2; k++) {
      const conf_tensor *g = &got->at[r][k], *e = other ? &other->at[r][k] : &c->run[r].out[k];
      if (!c->wanted[k]) continue;
      if (g->rank != e->rank || memcmp(g->dim, e->dim, g->rank * sizeof g->dim[0]) ||
          g->dtype != e->dtype)
        return result(CONF_FAIL,
                      "run %u, output %d: rank %u [%lld, ..], expected rank %u [%lld, ..]", r, k,
                      g->rank, (long long)g->dim[0], e->rank, (long long)e->dim[0]);
      conf_result found = result(CONF_PASS, "");
      if (g->dtype == ACCEL_PLUGIN_F32) {
        found = compare_floats(g->data, e->data, g->elements, b);
      } else {
        for (int64_t i = 0; i < g->elements && found.verdict == CONF_PASS; i++)
          if (((const int32_t *)g->data)[i] != ((const int32_t *)e->data)[i])
            found = result(CONF_FAIL, "element %lld is %d, expected %d", (long long)i,
                           ((const int32_t *)g->data)[i], ((const int32_t *)e->data)[i]);
      }
      if (found.verdict != CONF_PASS) {
        conf_result full = found;
        snprintf(full.why, sizeof full.why, "run %u, output %d: %.350s", r, k, found.why);
        return full;
      }
    }
  return result(CONF_PASS, "");
}

/* ---- one case ---- */

static conf_result on_plugin(const conf_case *c, const built *b, conf_plugin *plugin,
                             const accel_plugin_precision *precision, const conf_weights *weights,
                             outputs *o) {
  lent l;
  accel_plugin_error error = {.size = sizeof error};
  accel_plugin_verdict verdict = {.size = sizeof verdict};
  accel_plugin_endpoint *e = NULL;
  lend(plugin, weights, &l);
  accel_plugin_options options = {.size = sizeof options, .precision = *precision, .host = &l.host};
  options.precision.format = weights->format;
  if (plugin->table->supports(plugin->device, b->view, &options.precision, &verdict, &error))
    return result(CONF_FAIL, "supports: %s", error.message);
  int32_t rc = plugin->table->init(plugin->device, b->view, &options, &e, &error);
  if (verdict.answer == ACCEL_PLUGIN_NO) {
    if (rc) return result(CONF_NO, "%s", verdict.why);
    plugin->table->cleanup(e, &l.host);
    return result(CONF_FAIL, "supports says NO (%s) and init takes it", verdict.why);
  }
  if (rc) return result(CONF_FAIL, "init: %s", error.message);
  accel_plugin_estimate estimate = {.size = sizeof estimate};
  conf_result r = result(CONF_PASS, "");
  if (plugin->table->estimate(plugin->device, b->view, &options, &estimate, &error))
    r = result(CONF_FAIL, "estimate: %s", error.message);
  if (r.verdict == CONF_PASS) r = run_all(c, b, plugin, &l, e, o);
  outputs again = {0};
  if (r.verdict == CONF_PASS) r = run_all(c, b, plugin, &l, e, &again);
  for (uint32_t i = 0; i < c->n_run && r.verdict == CONF_PASS; i++)
    for (int k = 0; k < 2; k++)
      if (c->wanted[k] &&
          memcmp(o->at[i][k].data, again.at[i][k].data, (size_t)o->at[i][k].elements * 4))
        r = result(CONF_FAIL, "a second run gives other bits");
  outputs_free(&again);
  if (r.verdict == CONF_PASS && plugin->table->trim && plugin->table->trim(e, NULL, &error))
    r = result(CONF_FAIL, "trim: %s", error.message);
  plugin->table->cleanup(e, &l.host);
  return r;
}

/* ---- a sequence computed alone gives what it gives in a batch ---- */

/* Rows [first, first + n) of dim 0. */
static void cut(conf_tensor *t, int64_t first, int64_t n) {
  int64_t row = t->dim[0] ? t->elements / t->dim[0] : 0;
  t->data = (const char *)t->data + first * row * 4;
  t->dim[0] = n;
  t->elements = n * row;
}

/* One item of a batch: of the row spaces, or (linear, norm) a single row.  *first and *n are its
 * rows of the output. */
static bool take_item(const conf_case *c, int64_t item, conf_case *one, int64_t *first,
                      int64_t *n) {
  *one = *c;
  conf_run *r = &one->run[0];
  if (c->n_space == 0) {
    for (uint32_t i = 0; i < c->n_operand; i++)
      if (c->role[i] == 'i') cut(&r->in[i], item, 1);
    *first = item;
    *n = 1;
    return true;
  }
  int64_t start[CONF_SPACES] = {0}, rows[CONF_SPACES] = {0};
  for (uint32_t s = 0; s < c->n_space; s++) {
    if (item >= items_in(&c->run[0], c, (int)s)) return false;
    for (int64_t i = 0; c->spaces[s].ragged && i < item; i++) start[s] += c->run[0].lengths[s][i];
    if (!c->spaces[s].ragged) start[s] = item * c->spaces[s].rows;
    rows[s] = c->spaces[s].ragged ? c->run[0].lengths[s][item] : c->spaces[s].rows;
    one->spaces[s].items = 1;
    if (c->spaces[s].ragged) r->lengths[s] = c->run[0].lengths[s] + item;
    r->items[s] = 1;
  }
  for (uint32_t i = 0; i < c->n_operand; i++)
    if (c->space[i] >= 0) cut(&r->in[i], start[c->space[i]], rows[c->space[i]]);
  bool pooled = c->op == ACCEL_PLUGIN_OP_REDUCE;
  *first = pooled ? item : start[c->space[0]];
  *n = pooled ? 1 : rows[c->space[0]];
  return true;
}

/* Bits must agree: the order of every sum is that of the sequence, not of the batch.  Of a plugin
 * that is listed as near, numbers within the bound. */
static conf_result compare_item(const conf_tensor *batch, const conf_tensor *alone, int64_t item,
                                int64_t first, int64_t n, const bound *near) {
  int64_t row = batch->dim[0] ? batch->elements / batch->dim[0] : 0;
  const float *b = (const float *)batch->data + first * row, *a = alone->data;
  if (alone->elements != n * row)
    return result(CONF_FAIL, "item %lld alone has %lld elements, in its batch %lld",
                  (long long)item, (long long)alone->elements, (long long)(n * row));
  if (near) return compare_floats(a, b, n * row, *near);
  for (int64_t i = 0; i < n * row; i++)
    if (memcmp(&a[i], &b[i], 4))
      return result(
          CONF_FAIL,
          "item %lld alone gives other bits than in its batch: element %lld is %.9g and %.9g",
          (long long)item, (long long)i, a[i], b[i]);
  return result(CONF_PASS, "");
}

static conf_result check_alone(const conf_case *c, conf_plugin *plugin,
                               const accel_plugin_precision *precision, const conf_weights *weights,
                               const outputs *batch) {
  bool rows = c->n_space == 0 &&
              (c->op == ACCEL_PLUGIN_OP_LINEAR || c->op == ACCEL_PLUGIN_OP_NORM) &&
              c->run[0].in[0].rank == 2;
  if ((c->n_space == 0 && !rows) || c->n_run > 1 || c->has_state || !c->wanted[0])
    return result(CONF_PASS, "");
  /* item i of a batch takes slice i of the bias: alone it is item 0 */
  for (uint32_t i = 0; i < c->n_attr; i++)
    if (c->attr[i].key == ACCEL_PLUGIN_ATTR_BIAS_PERIOD && c->attr[i].i > 1)
      return result(CONF_PASS, "");
  int64_t items = rows ? c->run[0].in[0].dim[0] : items_in(&c->run[0], c, 0);
  conf_result r = result(CONF_PASS, "");
  for (int64_t k = 0; k < 3 && k < items && r.verdict == CONF_PASS; k++) {
    conf_case one;
    built b;
    outputs alone = {0};
    int64_t item = k == 2 ? items - 1 : k, first, n;
    if (!take_item(c, item, &one, &first, &n)) break;
    one.wanted[1] = false;
    const char *why = build(&one, &b);
    if (why)
      r = result(CONF_FAIL, "program of one item: %s", why);
    else
      r = on_plugin(&one, &b, plugin, precision, weights, &alone);
    const bound near = bound_of(c, precision->name);
    if (r.verdict == CONF_PASS)
      r = compare_item(&batch->at[0][0], &alone.at[0][0], item, first, n,
                       plugin->near ? &near : NULL);
    outputs_free(&alone);
    accel__program_free(&b.program);
  }
  return r;
}

conf_result conf_run_case(const conf_case *c, const char *name, conf_plugin *plugin,
                          conf_plugin *reference) {
  built b;
  accel_plugin_precision precision;
  conf_weights weights = {0};
  outputs got = {0}, expected = {0};
  conf_result r = result(CONF_PASS, "");
  bool goldens = c->run[0].out[0].present || c->run[0].out[1].present;
  bool by_reference = !goldens || strcmp(name, "fp32") != 0;
  if (!conf_precision(name, &precision)) return result(CONF_FAIL, "precision %s is unknown", name);
  const char *why = build(c, &b);
  if (why) r = result(CONF_FAIL, "program: %s", why);
  const float *values[CONF_OPERANDS];
  for (uint32_t i = 0, k = 0; !why && i < CONF_OPERANDS; i++)
    if (b.weight[i]) values[k++] = b.weight[i];
  if (!why) why = conf_weights_new(b.view, &precision, values, &weights);
  if (why && r.verdict == CONF_PASS) r = result(CONF_FAIL, "weights: %s", why);
  if (r.verdict == CONF_PASS) r = on_plugin(c, &b, plugin, &precision, &weights, &got);
  if (r.verdict == CONF_PASS && by_reference) {
    if (!reference)
      r = result(CONF_FAIL, "needs the reference plugin");
    else
      r = on_plugin(c, &b, reference, &precision, &weights, &expected);
    if (r.verdict == CONF_NO) r.verdict = CONF_FAIL;
  }
  if (r.verdict == CONF_PASS)
    r = compare(c, &got, by_reference ? &expected : NULL, bound_of(c, name));
  if (r.verdict == CONF_PASS) r = check_alone(c, plugin, &precision, &weights, &got);
  outputs_free(&got);
  outputs_free(&expected);
  conf_weights_free(&weights);
  accel__program_free(&b.program);
  return r;
}

/* ---- what must be refused ---- */

static const char *tolerated(conf_plugin *plugin, const accel_plugin_program *p, const char *what,
                             bool must_say_no) {
  lent l;
  conf_weights none = {0};
  accel_plugin_error error = {.size = sizeof error};
  accel_plugin_verdict verdict = {.size = sizeof verdict, .answer = ACCEL_PLUGIN_NATIVE};
  accel_plugin_endpoint *e = NULL;
  lend(plugin, &none, &l);
  accel_plugin_options options = {.size = sizeof options, .host = &l.host};
  conf_precision("fp32", &options.precision);
  int32_t rc = plugin->table->supports(plugin->device, p, &options.precision, &verdict, &error);
  if (!rc && verdict.answer != ACCEL_PLUGIN_NO) return what;
  if (rc && must_say_no) return what;
  if (plugin->table->init(plugin->device, p, &options, &e, &error)) return error.rc ? NULL : what;
  plugin->table->cleanup(e, &l.host);
  return what;
}

conf_result conf_refusals(conf_plugin *plugin) {
  static const float x[4] = {1, 2, 3, 4};
  conf_case c = {.name = "refusals",
                 .op_name = "UNARY",
                 .op = ACCEL_PLUGIN_OP_UNARY,
                 .n_operand = 1,
                 .n_run = 1,
                 .role = {'i'},
                 .wanted = {true},
                 .n_attr = 1};
  for (int i = 0; i < CONF_OPERANDS; i++) c.space[i] = -1;
  c.attr[0] = ACCEL_I(KIND, ACCEL_PLUGIN_UNARY_NEG);
  c.run[0].in[0] = (conf_tensor){.present = true, .rank = 1, .dim = {4}, .elements = 4, .data = x};
  built b;
  const char *why = build(&c, &b);
  if (why) return result(CONF_FAIL, "program: %s", why);
  accel_plugin_program p = *b.view;
  accel_plugin_node node = p.node[p.entry[0].node[0]];
  accel_plugin_attr attr = node.attr[0];
  int32_t order[1] = {0}, far[1] = {1000};
  accel_plugin_entry entry = p.entry[0];
  p.node = &node;
  p.n_node = 1;
  p.node_stride = sizeof node;
  p.entry = &entry;
  p.entry_stride = sizeof entry;
  entry.node = order;
  entry.n_node = 1;
  accel_plugin_node good = node;
  why = NULL;
  node.op = 99;
  if (!why) why = tolerated(plugin, &p, "op 99", true);
  node = good;
  node.version = 7;
  if (!why) why = tolerated(plugin, &p, "version 7 of an op", true);
  node = good;
  attr.key = 999;
  node.attr = &attr;
  if (!why) why = tolerated(plugin, &p, "attribute 999", true);
  node = good;
  node.in = far;
  if (!why) why = tolerated(plugin, &p, "operand 1000 of few tensors", false);
  node = good;
  order[0] = 5;
  if (!why) why = tolerated(plugin, &p, "node 5 of one", false);
  order[0] = 0;
  p.node_stride = 0;
  if (!why) why = tolerated(plugin, &p, "a stride of 0", false);
  accel__program_free(&b.program);
  return why ? result(CONF_FAIL, "%s is not refused", why) : result(CONF_PASS, "");
}
