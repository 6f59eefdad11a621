/* cpu_moe_stream.c - slots of experts, and reading those that no slot has. */
#include "cpu_moe_stream.h"

#include <stdlib.h>
#include <string.h>

#include "cpu_moe.h"
#include "cpu_moe_hits.h"
#include "cpu_stream.h"

enum {
  IDX = 1,
  NOBODY = -1,
  STEP_TOKENS = 2048, /* of a step, at most */
  RESULT_SHARE = 8    /* of what is left for experts so many parts: the most for results */
};

typedef struct cpu_expert_slot {
  int32_t expert; /* of all layers; NOBODY */
  uint64_t used;  /* the clock then */
} cpu_expert_slot;

static uint64_t panels_bytes(const cpu_experts *e) { return (uint64_t)e->panels * e->panel_bytes; }

/* ---- planning ---- */

static bool can_stream(const cpu_experts *e, const uint8_t *row_dtype) {
  return cpu_is_coded(&e->format) || row_dtype[e->w] != ACCEL_PLUGIN_NO_DTYPE;
}

/* How many experts a row of the node is routed to. */
static int64_t routed_of(const accel_plugin_program *p, const accel_plugin_node *n) {
  const accel_plugin_dim *k = &p->dim[p->tensor[n->in[IDX]].dim[1]];
  return k->op == ACCEL_PLUGIN_DIM_CONST ? k->c : 1;
}

/* What the results of a launch of these nodes take. */
static void plan_results(const cpu_self *s, cpu_expert_slots *e) {
  const accel_plugin_program *p = s->program;
  for (uint32_t i = 0; i < p->n_node; i++) {
    if (s->moes.of[i] < 0 || !s->moes.at[s->moes.of[i]].streamed) continue;
    const cpu_moe *m = &s->moes.at[s->moes.of[i]];
    const uint64_t bytes = (uint64_t)m->down.n * sizeof(float) + 2 * sizeof(int32_t),
                   pairs = (uint64_t)routed_of(p, &p->node[i]) * STEP_TOKENS;
    if (bytes > e->pair_bytes) e->pair_bytes = bytes;
    if (pairs > e->most_pairs) e->most_pairs = pairs;
  }
}

static void settle(cpu_experts *e, const uint8_t *row_dtype) {
  const cpu_linear l = cpu_expert_linear(e);
  e->stored = cpu_linear_stored(&l, row_dtype);
}

void cpu_expert_slots_plan(cpu_self *s, const uint8_t *row_dtype, cpu_expert_slots *out) {
  *out = (cpu_expert_slots){.n = 1};
  for (uint32_t i = 0; i < s->moes.n; i++) {
    cpu_moe *m = &s->moes.at[i];
    m->streamed = can_stream(&m->up, row_dtype) && can_stream(&m->down, row_dtype);
    if (!m->streamed) continue;
    const uint64_t bytes = panels_bytes(&m->up) + panels_bytes(&m->down);
    if (bytes > out->slot_bytes) out->slot_bytes = bytes;
    m->first = out->n_expert;
    out->n_expert += (uint32_t)m->experts;
    settle(&m->up, row_dtype);
    settle(&m->down, row_dtype);
  }
  plan_results(s, out);
}

uint64_t cpu_expert_slots_take(cpu_expert_slots *e, uint64_t bytes, uint64_t *results) {
  e->n = 1;
  e->pairs = *results = 0;
  if (!e->slot_bytes) return 0;
  const uint64_t pairs = bytes / RESULT_SHARE / e->pair_bytes;
  if (pairs > CPU_MOE_PAIRS) e->pairs = pairs < e->most_pairs ? pairs : e->most_pairs;
  bytes -= *results = e->pairs * e->pair_bytes;
  const uint64_t more = bytes / e->slot_bytes;
  e->n += more < e->n_expert - 1 ? (uint32_t)more : e->n_expert - 1;
  return (e->n - 1) * e->slot_bytes;
}

/* The mixtures of an entry whose experts are read when they are routed. */
static uint32_t find_layers(const cpu_self *s, const accel_plugin_entry *e, cpu_moe_layer *out) {
  uint32_t n = 0;
  for (uint32_t i = 0; i < e->n_node; i++) {
    const int32_t node = e->node[i], at = s->moes.of[node];
    if (at < 0 || !s->moes.at[at].streamed) continue;
    const cpu_moe *m = &s->moes.at[at];
    const double chosen = (double)routed_of(s->program, &s->program->node[node]);
    out[n++] = (cpu_moe_layer){.experts = (double)m->experts,
                               .chosen = chosen,
                               .bytes = chosen * (double)(m->up.stored + m->down.stored)};
  }
  return n;
}

int32_t cpu_expert_slots_answer(const cpu_self *s, const cpu_expert_slots *slots,
                                accel_plugin_estimate *out, accel_plugin_error *error) {
  const accel_plugin_program *p = s->program;
  double routed = 0;
  if (!slots->slot_bytes || !p->n_entry) return ACCEL_PLUGIN_OK;
  const accel_plugin_entry *e = &p->entry[kit_stream_entry(p)];
  cpu_moe_layer *layer = calloc(e->n_node + 1, sizeof *layer);
  if (!layer) return kit_no_memory(error, e->n_node * sizeof *layer);
  const uint32_t n = find_layers(s, e, layer);
  for (uint32_t i = 0; i < n; i++) routed += layer[i].bytes;
  out->stream_experts = slots->n * slots->slot_bytes;
  out->stream_routed = (uint64_t)routed;
  out->stream_missed =
      slots->n < slots->n_expert ? (uint64_t)cpu_moe_missed(layer, n, slots->n) : 0;
  out->stream_read += out->stream_missed;
  free(layer);
  return ACCEL_PLUGIN_OK;
}

cpu_experts *cpu_streamed_experts(cpu_self *s, uint32_t i) {
  for (uint32_t k = 0; k < s->moes.n; k++) {
    cpu_moe *m = &s->moes.at[k];
    if (!m->streamed) continue;
    if (i < 2) return i ? &m->down : &m->up;
    i -= 2;
  }
  return NULL;
}

bool cpu_experts_stream(const cpu_self *s, int32_t weight) {
  for (uint32_t k = 0; k < s->moes.n; k++) {
    const cpu_moe *m = &s->moes.at[k];
    if (m->streamed && (m->up.w == weight || m->down.w == weight)) return true;
  }
  return false;
}

/* ---- open and close ---- */

int32_t cpu_expert_slots_open(cpu_expert_slots *e, const accel_plugin_host *host, uint32_t first,
                              uint32_t ring, accel_plugin_error *error) {
  if (!e->slot_bytes) return ACCEL_PLUGIN_OK;
  e->host = host;
  e->first = first;
  e->ring = ring;
  e->slot = malloc(e->n * sizeof *e->slot);
  e->at = malloc(e->n_expert * sizeof *e->at);
  if (!e->slot || !e->at) return kit_no_memory(error, e->n_expert * sizeof *e->slot);
  for (uint32_t i = 0; i < e->n; i++) e->slot[i] = (cpu_expert_slot){.expert = NOBODY};
  for (uint32_t i = 0; i < e->n_expert; i++) e->at[i] = NOBODY;
  e->memory = cpu_alloc_weights(host, e->n * e->slot_bytes, error);
  if (e->pairs) e->results = cpu_alloc_weights(host, e->pairs * e->pair_bytes, error);
  return e->memory && (e->results || !e->pairs) ? ACCEL_PLUGIN_OK : ACCEL_PLUGIN_E_HOST_MEMORY;
}

void cpu_expert_slots_close(cpu_expert_slots *e) {
  free(e->memory);
  free(e->results);
  free(e->slot);
  free(e->at);
  *e = (cpu_expert_slots){0};
}

/* ---- the parts of an expert ---- */

/* Some panels of one of its matrices. */
typedef struct part {
  const cpu_experts *matrix;
  cpu_linear l;
  kit_segment segment;
  cpu_part panels;
  int64_t row; /* where the matrix begins in its weight */
} part;

static uint32_t parts_of(const cpu_moe *m) { return m->up.parts + m->down.parts; }

/* Part `index` of all parts that the launch reads. */
static part part_of(const cpu_self *s, const cpu_expert_slots *e, uint32_t index) {
  const cpu_moe *m = e->moe;
  const int32_t expert = e->missing[index / parts_of(m)];
  uint32_t k = index % parts_of(m);
  part out = {.matrix = &m->up};
  if (k >= m->up.parts) {
    k -= m->up.parts;
    out.matrix = &m->down;
  }
  const cpu_experts *x = out.matrix;
  out.l = cpu_expert_linear(x);
  out.row = expert * cpu_expert_rows(x);
  out.panels.first = cpu_share(x->panels, k, x->parts);
  out.panels.n = cpu_share(x->panels, k + 1, x->parts) - out.panels.first;
  kit_segment *g = &out.segment;
  g->bytes = (uint64_t)out.panels.n * x->panel_bytes;
  g->packed = cpu_is_coded(&x->format);
  g->n_piece = 1;
  if (g->packed)
    g->piece[0].first = x->segment + (int64_t)expert * x->parts + k;
  else
    g->n_piece = cpu_linear_pieces(&s->kernels, &out.l, out.panels.first, out.panels.n, g->piece);
  return out;
}

static uint32_t slot_at(const cpu_expert_slots *e, uint32_t i) { return e->first + i % e->ring; }

static int32_t post(cpu_expert_slots *e, const part *p, accel_plugin_error *error) {
  const accel_plugin_host *host = e->host;
  for (uint32_t i = 0; i < p->segment.n_piece; i++) {
    const kit_piece *piece = &p->segment.piece[i];
    const uint32_t slot = slot_at(e, e->next);
    int32_t rc = p->segment.packed
                     ? host->store_post(host->self, slot, (uint32_t)piece->first, error)
                     : host->rows_post(host->self, slot, piece->weight, p->row + piece->first,
                                       piece->rows, error);
    if (rc) return rc;
    e->next = (e->next + 1) % e->ring;
    e->used++;
  }
  return ACCEL_PLUGIN_OK;
}

/* Asks for as many parts as there are slots for. */
static int32_t post_ahead(const cpu_self *s, cpu_expert_slots *e, accel_plugin_error *error) {
  int32_t rc = ACCEL_PLUGIN_OK;
  while (!rc && e->posted < e->n_missing * parts_of(e->moe)) {
    const part p = part_of(s, e, e->posted);
    if (e->used + p.segment.n_piece > e->ring) break;
    rc = post(e, &p, error);
    if (!rc) e->posted++;
  }
  return rc;
}

/* Frees the n oldest slots of the reader. */
static void release(cpu_expert_slots *e, uint32_t n) {
  for (; n; n--, e->used--)
    e->host->rows_release(e->host->self, slot_at(e, e->next + e->ring - e->used));
}

/* Waits for a part and packs it to `to`. */
static int32_t take_part(const cpu_self *s, cpu_expert_slots *e, part *p, char *to,
                         const accel_plugin_host *host, accel_plugin_error *error) {
  accel_plugin_rows rows[KIT_PIECES];
  int32_t rc = ACCEL_PLUGIN_OK;
  for (uint32_t i = 0; i < p->segment.n_piece && !rc; i++)
    rc = e->host->rows_wait(e->host->self, slot_at(e, e->next + e->ring - e->used + i), &rows[i],
                            error);
  if (rc) return rc;
  p->panels.panels = to;
  if (p->segment.packed)
    memcpy(to, rows[0].data, p->segment.bytes);
  else
    rc = cpu_stream_pack(s, &p->l, &p->segment, &p->panels, rows, host, error);
  release(e, p->segment.n_piece);
  return rc ? rc : post_ahead(s, e, error);
}

/* ---- for launches ---- */

static void use(cpu_expert_slots *e, uint32_t slot) { e->slot[slot].used = ++e->clock; }

int32_t cpu_experts_begin(const cpu_self *s, const cpu_moe *m, int32_t *chosen, int32_t n,
                          int32_t *n_found, accel_plugin_error *error) {
  cpu_expert_slots *e = cpu_stream_experts(s);
  int32_t found = 0;
  for (int32_t i = 0; i < n; i++) {
    const int32_t expert = chosen[i], slot = e->at[m->first + (uint32_t)expert];
    if (slot < 0) continue;
    use(e, (uint32_t)slot);
    memmove(&chosen[found + 1], &chosen[found], (size_t)(i - found) * sizeof *chosen);
    chosen[found++] = expert;
  }
  *n_found = found;
  e->moe = m;
  e->missing = chosen + found;
  e->n_missing = (uint32_t)(n - found);
  e->taken = e->posted = 0;
  return post_ahead(s, e, error);
}

/* The slot that was used longest ago; nobody has it any more. */
static uint32_t evict(cpu_expert_slots *e) {
  uint32_t slot = 0;
  for (uint32_t i = 1; i < e->n && e->slot[slot].used; i++)
    if (e->slot[i].used < e->slot[slot].used) slot = i;
  if (e->slot[slot].expert != NOBODY) e->at[e->slot[slot].expert] = NOBODY;
  e->slot[slot] = (cpu_expert_slot){.expert = NOBODY};
  return slot;
}

int32_t cpu_experts_take(const cpu_self *s, const kit_launch *l, accel_plugin_error *error) {
  cpu_expert_slots *e = cpu_stream_experts(s);
  const cpu_moe *m = e->moe;
  const accel_plugin_host *host = l->host ? l->host : e->host;
  const uint32_t slot = evict(e), first = e->taken * parts_of(m);
  char *to = e->memory + slot * e->slot_bytes;
  for (uint32_t k = 0; k < parts_of(m); k++) {
    if (host->cancelled && host->cancelled(host->self))
      return kit_launch_fail(l, error, ACCEL_PLUGIN_E_CANCELLED, "cancelled");
    part p = part_of(s, e, first + k);
    int32_t rc = take_part(s, e, &p, to, host, error);
    if (rc) return rc;
    to += p.segment.bytes;
  }
  const uint32_t expert = m->first + (uint32_t)e->missing[e->taken++];
  e->slot[slot].expert = (int32_t)expert;
  e->at[expert] = (int32_t)slot;
  use(e, slot);
  return ACCEL_PLUGIN_OK;
}

void cpu_experts_end(const cpu_self *s, int32_t n_found) {
  cpu_expert_slots *e = cpu_stream_experts(s);
  const accel_plugin_host *host = e->host;
  release(e, e->used);
  if (host->experts_used)
    host->experts_used(host->self, (uint32_t)n_found, e->taken,
                       e->taken * (e->moe->up.stored + e->moe->down.stored));
  e->n_missing = 0;
}

int64_t cpu_experts_results(const cpu_self *s, int32_t **order, int32_t **place, float **down) {
  const cpu_expert_slots *e = cpu_stream_experts(s);
  if (!e->pairs) return 0;
  *down = (float *)(void *)e->results;
  *order = (int32_t *)(void *)(e->results + e->pairs * (e->pair_bytes - 2 * sizeof **order));
  *place = *order + e->pairs;
  return (int64_t)e->pairs;
}

const char *cpu_experts_panels(const cpu_self *s, const cpu_experts *matrix, int32_t expert) {
  const cpu_moe *m = matrix->moe;
  if (!m->streamed)
    return matrix->packed + (uint64_t)(expert * matrix->panels) * matrix->panel_bytes;
  const cpu_expert_slots *e = cpu_stream_experts(s);
  const char *slot = e->memory + (uint64_t)e->at[m->first + (uint32_t)expert] * e->slot_bytes;
  return matrix == &m->up ? slot : slot + panels_bytes(&m->up);
}
