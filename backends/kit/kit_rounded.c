/* kit_rounded.c - see kit_rounded.h. */
#include "kit/kit_rounded.h"

#include <stdlib.h>
#include <string.h>

#include "shared/dim_expr.h"

static int64_t rounded(int64_t n) {
  enum { STEP = 256 };
  int64_t step = 1;
  while (step < n && step < STEP) step *= 2;
  return (n + step - 1) / step * step;
}

void kit_copy_common(const void *from, const int64_t *from_dim, void *to, const int64_t *to_dim,
                     uint32_t rank, uint64_t n) {
  uint64_t from_step = n, to_step = n;
  bool alike = true;
  if (!rank) {
    memcpy(to, from, n);
    return;
  }
  for (uint32_t i = 1; i < rank; i++) {
    from_step *= (uint64_t)from_dim[i];
    to_step *= (uint64_t)to_dim[i];
    alike &= from_dim[i] == to_dim[i];
  }
  const int64_t count = from_dim[0] < to_dim[0] ? from_dim[0] : to_dim[0];
  if (alike) {
    memcpy(to, from, (uint64_t)count * from_step);
    return;
  }
  for (int64_t i = 0; i < count; i++)
    kit_copy_common((const char *)from + (uint64_t)i * from_step, from_dim + 1,
                    (char *)to + (uint64_t)i * to_step, to_dim + 1, rank - 1, n);
}

/* Rows of the run's ragged spaces; a symbol has no more than its largest value. */
static void round_symbols(const kit_graph_run *run, int64_t *symbol) {
  const accel_plugin_program *p = run->program;
  for (uint32_t s = 0; s < p->n_space; s++) {
    const accel_plugin_space *space = &p->space[s];
    const accel_plugin_dim *d = &p->dim[space->rows];
    if (space->lengths < 0 || !run->rows[s].start || d->op != ACCEL_PLUGIN_DIM_SYMBOL) continue;
    const int64_t most = p->symbol[d->a].max, n = rounded(run->symbol[d->a]);
    symbol[d->a] = most > 0 && n > most ? most : n;
  }
}

static bool is_symbol(const accel_plugin_program *p, int32_t dim) {
  return p->dim[dim].op == ACCEL_PLUGIN_DIM_SYMBOL;
}

/* Dims that have changed are symbols wherever the host reads or writes them. */
static bool plain(const kit_graph_run *run, const int64_t *dim) {
  const accel_plugin_program *p = run->program;
  const accel_plugin_entry *e = &p->entry[run->entry];
  for (uint32_t i = 0; i < e->n_in + e->n_out; i++) {
    const accel_plugin_tensor *t = &p->tensor[i < e->n_in ? e->in[i] : e->out[i - e->n_in]];
    for (uint32_t k = 0; k < t->rank; k++)
      if (dim[t->dim[k]] != run->dim[t->dim[k]] && !is_symbol(p, t->dim[k])) return false;
  }
  for (uint32_t s = 0; s < p->n_space; s++) {
    const int32_t rows = p->space[s].rows, items = p->space[s].items;
    if (!run->rows[s].start) continue;
    if (dim[items] != run->dim[items]) return false;
    if (dim[rows] != run->dim[rows] && (p->space[s].lengths < 0 || !is_symbol(p, rows)))
      return false;
  }
  return true;
}

static int32_t round_input(kit_rounded *r, uint32_t i, accel_plugin_error *error) {
  const accel_plugin_program *p = r->run.program;
  const accel_plugin_tensor *t = &p->tensor[p->entry[r->run.entry].in[i]];
  const accel_plugin_view old = r->in[i];
  accel_plugin_view *v = &r->in[i];
  uint64_t bytes = 4; /* fp32 or int32 */
  for (uint32_t k = 0; k < t->rank; k++) {
    v->dim[k] = r->dim[t->dim[k]];
    bytes *= (uint64_t)v->dim[k];
  }
  if (!memcmp(v->dim, old.dim, t->rank * sizeof *v->dim)) return ACCEL_PLUGIN_OK;
  r->owned[i] = calloc(bytes ? bytes : 1, 1);
  if (!r->owned[i]) return kit_no_memory(error, bytes);
  if (old.host) kit_copy_common(old.host, old.dim, r->owned[i], v->dim, t->rank, 4);
  v->host = r->owned[i];
  return ACCEL_PLUGIN_OK;
}

int32_t kit_round(const kit_graph_run *run, kit_rounded *out, accel_plugin_error *error) {
  const accel_plugin_program *p = run->program;
  const uint32_t n_in = p->entry[run->entry].n_in;
  *out = (kit_rounded){.run = *run,
                       .symbol = malloc((p->n_symbol + 1) * sizeof *out->symbol),
                       .dim = malloc((p->n_dim + 1) * sizeof *out->dim),
                       .rows = malloc((p->n_space + 1) * sizeof *out->rows),
                       .in = malloc((n_in + 1) * sizeof *out->in),
                       .owned = calloc(n_in + 1, sizeof *out->owned),
                       .n_in = n_in};
  if (!out->symbol || !out->dim || !out->rows || !out->in || !out->owned)
    return kit_no_memory(error, n_in);
  memcpy(out->symbol, run->symbol, p->n_symbol * sizeof *out->symbol);
  round_symbols(run, out->symbol);
  accel_dims_evaluate(p, out->symbol, out->dim);
  if (!plain(run, out->dim)) {
    memcpy(out->dim, run->dim, p->n_dim * sizeof *out->dim);
    return ACCEL_PLUGIN_OK;
  }
  for (uint32_t s = 0; s < p->n_space; s++) {
    kit_rows *rows = &out->rows[s];
    *rows = run->rows[s];
    if (!rows->start || p->space[s].lengths < 0) continue;
    rows->rows = (int32_t)out->dim[p->space[s].rows];
    const int64_t longest = rounded(rows->longest);
    rows->longest = (int32_t)(longest < rows->rows ? longest : rows->rows);
  }
  memcpy(out->in, run->in, n_in * sizeof *out->in);
  out->run.symbol = out->symbol;
  out->run.dim = out->dim;
  out->run.rows = out->rows;
  out->run.in = out->in;
  int32_t rc = ACCEL_PLUGIN_OK;
  for (uint32_t i = 0; !rc && i < n_in; i++) rc = round_input(out, i, error);
  return rc;
}

void kit_rounded_free(kit_rounded *r) {
  for (uint32_t i = 0; r->owned && i < r->n_in; i++) free(r->owned[i]);
  free(r->symbol);
  free(r->dim);
  free(r->rows);
  free(r->in);
  free(r->owned);
  *r = (kit_rounded){0};
}

void kit_rounded_shape(const kit_rounded *r, uint32_t index, int64_t *dim) {
  const accel_plugin_program *p = r->run.program;
  const accel_plugin_tensor *t = &p->tensor[p->entry[r->run.entry].out[index]];
  for (uint32_t k = 0; k < t->rank; k++) dim[k] = r->dim[t->dim[k]];
}
