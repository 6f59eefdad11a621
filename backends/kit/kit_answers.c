/* kit_answers.c - what a plugin says of a program before it runs it: supports and estimate. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kit/kit_constants.h"
#include "kit/kit_internal.h"

bool kit_abi_compatible(uint32_t core_abi) {
  return core_abi >> 16 == ACCEL_PLUGIN_ABI_MAJOR && (core_abi & 0xffff) >= ACCEL_PLUGIN_ABI_MINOR;
}

/* ---- supports ---- */

static void say(accel_plugin_verdict *v, int32_t answer, int32_t node, const char *why) {
  v->answer = answer;
  v->node = node;
  size_t n = strlen(why);
  if (n >= sizeof v->why) n = sizeof v->why - 1;
  memcpy(v->why, why, n);
  v->why[n] = 0;
}

/* Lowers a verdict to `answer` when that is worse: NATIVE, EMULATED, NO. */
static void lower(accel_plugin_verdict *v, int32_t answer, int32_t node, const char *why) {
  bool worse = answer == ACCEL_PLUGIN_NO
                   ? v->answer != ACCEL_PLUGIN_NO
                   : answer == ACCEL_PLUGIN_EMULATED && v->answer == ACCEL_PLUGIN_NATIVE;
  if (worse) say(v, answer, node, why);
}

static int32_t weight_answer(const kit_backend *b, const accel_plugin_program *p, int32_t weight,
                             const accel_plugin_precision *precision, char *why, size_t n) {
  const accel_plugin_format *f = &precision->format[weight];
  if (b->weight_format) return b->weight_format(p, (uint32_t)weight, f, why, n);
  if (f->store == ACCEL_PLUGIN_F32) return ACCEL_PLUGIN_NATIVE;
  snprintf(why, n, "weight '%s': only fp32 weights are read, not store %u", p->weight[weight].name,
           f->store);
  return ACCEL_PLUGIN_NO;
}

static void lower_by_node(const kit_backend *b, const accel_plugin_program *p, int32_t index,
                          const accel_plugin_precision *precision, accel_plugin_verdict *v) {
  const accel_plugin_node *n = &p->node[index];
  char why[sizeof v->why] = "";
  int32_t answer = b->support ? b->support(p, n, precision, why, sizeof why) : ACCEL_PLUGIN_NATIVE;
  lower(v, answer, index, why);
  for (uint32_t i = 0; i < n->n_in; i++) {
    if (n->in[i] < 0 || p->tensor[n->in[i]].kind != ACCEL_PLUGIN_TENSOR_WEIGHT) continue;
    why[0] = 0;
    answer = weight_answer(b, p, p->tensor[n->in[i]].weight, precision, why, sizeof why);
    lower(v, answer, index, why);
  }
}

void kit_entry_verdict(const kit_backend *b, const accel_plugin_program *p,
                       const accel_plugin_precision *precision, uint32_t entry,
                       accel_plugin_verdict *v) {
  say(v, ACCEL_PLUGIN_NATIVE, -1, "");
  for (uint32_t k = 0; k < p->entry[entry].n_node && v->answer != ACCEL_PLUGIN_NO; k++)
    lower_by_node(b, p, p->entry[entry].node[k], precision, v);
}

int32_t kit_supports(const kit_backend *backend, const accel_plugin_program *program,
                     const accel_plugin_precision *precision, accel_plugin_verdict *verdict,
                     accel_plugin_error *error) {
  if (!program || !precision || !verdict)
    return kit_fail(error, ACCEL_PLUGIN_E_ARGUMENT, -1, "supports: a pointer is NULL");
  accel_plugin_precision wanted;
  kit_read_struct(&wanted, sizeof wanted, precision, precision->size);
  if (program->n_entry && verdict[0].size < sizeof *verdict)
    return kit_fail(error, ACCEL_PLUGIN_E_ABI, -1, "verdicts are shorter than this plugin's");
  if (program->n_weight && !wanted.format)
    return kit_fail(error, ACCEL_PLUGIN_E_ARGUMENT, -1, "precision '%.16s' has no format table",
                    wanted.name);
  accel_plugin_program *p;
  accel_plugin_error inner = {.size = sizeof inner, .node = -1};
  int32_t rc = kit_program_copy(program, &p, &inner);
  if (rc && rc != ACCEL_PLUGIN_E_UNSUPPORTED)
    return kit_fail(error, rc, inner.node, "%s", inner.message);
  for (uint32_t i = 0; i < program->n_entry; i++) {
    accel_plugin_verdict *v =
        (accel_plugin_verdict *)((char *)verdict + (size_t)i * verdict[0].size);
    if (rc)
      say(v, ACCEL_PLUGIN_NO, inner.node, inner.message);
    else
      kit_entry_verdict(backend, p, &wanted, i, v);
  }
  kit_program_free(p);
  return ACCEL_PLUGIN_OK;
}

/* ---- estimate ---- */

/* The value to plan a symbol for: the caller's, else the typical one, within the symbol's
 * bounds. */
static int64_t symbol_value(const accel_plugin_symbol *s, int64_t given) {
  int64_t value = given > 0 ? given : s->typical;
  if (s->max > 0 && value > s->max) value = s->max;
  return value > s->min ? value : s->min;
}

/* Scratch of the hungriest entry. */
static int32_t estimate_scratch(const kit_backend *backend, const accel_plugin_program *p,
                                const accel_plugin_options *o, uint64_t *scratch,
                                accel_plugin_error *error) {
  const uint8_t *asked = o->wanted;
  uint32_t workers = o->host && o->host->workers ? o->host->workers(o->host->self) : 1;
  int64_t *symbol = calloc(p->n_symbol + 1, sizeof *symbol),
          *dim = calloc(p->n_dim + 1, sizeof *dim);
  void *self = NULL;
  int32_t rc = symbol && dim ? ACCEL_PLUGIN_OK : kit_no_memory(error, p->n_dim * sizeof *dim);
  if (!rc && backend->plan_open) rc = backend->plan_open(p, o, &self, error);
  for (uint32_t i = 0; !rc && i < p->n_symbol; i++)
    symbol[i] = symbol_value(&p->symbol[i], o->symbol ? o->symbol[i] : 0);
  if (!rc) accel_dims_evaluate(p, symbol, dim);
  *scratch = 0;
  for (uint32_t i = 0; !rc && i < p->n_entry; i++) {
    uint8_t *wanted = malloc(p->entry[i].n_out + 1);
    kit_plan *plan = NULL;
    kit_plan_request r = {.program = p,
                          .backend = backend,
                          .self = self,
                          .entry = i,
                          .workers = workers,
                          .symbol = symbol,
                          .dim = dim,
                          .wanted = wanted};
    if (wanted && asked) memcpy(wanted, asked, p->entry[i].n_out);
    if (wanted && !asked) memset(wanted, 1, p->entry[i].n_out);
    if (asked) asked += p->entry[i].n_out;
    rc = wanted ? kit_plan_new(&r, &plan, error) : kit_no_memory(error, p->entry[i].n_out);
    if (!rc && o->planned) rc = kit_planned_tell(backend, p, o, plan, dim, error);
    if (plan && plan->scratch > *scratch) *scratch = plan->scratch;
    kit_plan_free(plan);
    free(wanted);
  }
  if (self) backend->plan_close(self);
  free(symbol);
  free(dim);
  return rc;
}

static void estimate_states(const accel_plugin_program *p, const accel_plugin_options *o,
                            accel_plugin_estimate *out) {
  const uint8_t kv = o->precision.kv;
  const bool narrow = kv == ACCEL_PLUGIN_F16 || kv == ACCEL_PLUGIN_BF16 || kv == ACCEL_PLUGIN_I8;
  const uint8_t dtype = narrow ? kv : ACCEL_PLUGIN_F32;
  uint64_t sequences = o->max_sequences ? o->max_sequences : 1;
  for (uint32_t i = 0; i < p->n_state; i++) {
    const accel_plugin_state *s = &p->state[i];
    if (s->share >= 0) continue;
    if (s->kind == ACCEL_PLUGIN_STATE_KV || s->kind == ACCEL_PLUGIN_STATE_CROSS_KV)
      out->state_per_token +=
          (uint64_t)s->heads * (kit_kv_head(dtype, s->k_dim) + kit_kv_head(dtype, s->v_dim)) + 4;
    else /* one that is read and one that is written */
      out->state_fixed += (uint64_t)s->heads * (uint64_t)s->k_dim *
                          (uint64_t)(s->kind == ACCEL_PLUGIN_STATE_SSM ? s->v_dim : s->window) * 2 *
                          4 * sequences;
  }
}

int32_t kit_estimate(const kit_backend *backend, uint32_t device,
                     const accel_plugin_program *program, const accel_plugin_options *options,
                     accel_plugin_estimate *out, accel_plugin_error *error) {
  if (!program || !options || !out)
    return kit_fail(error, ACCEL_PLUGIN_E_ARGUMENT, -1, "estimate: a pointer is NULL");
  accel_plugin_options o;
  kit_read_struct(&o, sizeof o, options, options->size);
  accel_plugin_program *p;
  int32_t rc = kit_program_copy(program, &p, error);
  if (rc) return rc;
  accel_plugin_estimate e = {.size = out->size};
  uint64_t largest = 0, late = 0; /* of what is packed; in place, in memory of its own */
  if (p->n_weight && !o.precision.format)
    rc = kit_fail(error, ACCEL_PLUGIN_E_ARGUMENT, -1, "precision '%.16s' has no format table",
                  o.precision.name);
  for (uint32_t i = 0; !rc && i < p->n_weight; i++) {
    uint64_t stored = kit_format_bytes(&p->weight[i], &o.precision.format[i]);
    e.weights +=
        backend->weight_bytes ? backend->weight_bytes(p, i, &o.precision.format[i]) : stored;
    /* never held twice */
    const bool by_rows = o.in_file && o.in_file[i] && backend->weight_by_rows &&
                         backend->weight_by_rows(p, i, &o.precision.format[i]);
    const bool stays =
        backend->weight_in_place && backend->weight_in_place(p, i, &o.precision.format[i]);
    if (!stays && !by_rows && stored > largest) largest = stored;
    if (by_rows) e.in_file += stored;
    if (stays && !by_rows) late += stored;
  }
  /* weights that stay as they are come behind those that are packed */
  e.peak_load = e.weights + (largest > late ? largest - late : 0);
  if (!rc) rc = estimate_scratch(backend, p, &o, &e.scratch, error);
  uint64_t constants = 0;
  if (!rc && backend->alloc) rc = kit_constants_size(p, &constants, error);
  e.scratch += constants;
  if (e.scratch && !backend->alloc) e.scratch = kit_alloc_pages_size(e.scratch);
  estimate_states(p, &o, &e);
  if (!rc && backend->stream_estimate && o.row_dtype)
    rc = backend->stream_estimate(device, p, &o, &e, error);
  kit_program_free(p);
  if (!rc) memcpy(out, &e, out->size < sizeof e ? out->size : sizeof e);
  return rc;
}
