/* kit_state.c - state as launches see it: rows appended and read, vectors stepped, rows written in
 * the cache's format. */
#include <limits.h>
#include <math.h>
#include <string.h>

#include "formats/bf16.h"
#include "formats/fp16.h"
#include "kit/kit_sequence.h"

static int32_t find_slot(const kit_launch *l, uint32_t item, kit_slot **out, kit_state_view *view,
                         accel_plugin_error *error) {
  kit_run_state *r = l->state;
  if (!r || l->node->state < 0)
    return kit_launch_fail(l, error, ACCEL_PLUGIN_E_ARGUMENT, "needs a session");
  if (item >= r->n)
    return kit_launch_fail(l, error, ACCEL_PLUGIN_E_ARGUMENT,
                           "item %u has no sequence id: the run names %u", item, r->n);
  accel_plugin_endpoint *e = r->session->e;
  int32_t index = l->node->state;
  if (e->program->state[index].share >= 0) index = e->program->state[index].share;
  const accel_plugin_state *s = &e->program->state[index];
  *out = &r->item[item]->slot[index];
  *view = (kit_state_view){
      .state = s, .dtype = e->kv_dtype, .page_rows = e->page_rows, .v_offset = kit_v_offset(e, s)};
  view->k_head = kit_kv_head(e->kv_dtype, s->k_dim);
  view->v_head = kit_kv_head(e->kv_dtype, s->v_dim);
  view->k_row = e->backend->alloc ? kit_k_row(e, s) : view->k_head;
  view->v_row = e->backend->alloc ? kit_v_row(e, s) : view->v_head;
  if (e->backend->alloc) return ACCEL_PLUGIN_OK;
  view->k_head *= (uint64_t)e->page_rows;
  view->v_head *= (uint64_t)e->page_rows;
  return ACCEL_PLUGIN_OK;
}

static void show_rows(const kit_slot *s, kit_state_view *view) {
  view->past = s->length;
  view->length = s->length + s->pending;
  view->position = s->position;
  view->page = s->address;
}

int32_t kit_state_append(const kit_launch *l, uint32_t item, int32_t rows, const int32_t *positions,
                         kit_state_view *out, accel_plugin_error *error) {
  kit_slot *s = NULL;
  int32_t rc = find_slot(l, item, &s, out, error);
  if (rc) return rc;
  accel_plugin_endpoint *e = l->state->session->e;
  int32_t from = s->length + s->pending;
  bool limited = out->state->kind == ACCEL_PLUGIN_STATE_KV && e->max_tokens;
  if (rows < 0 || rows > INT32_MAX - from ||
      (limited && (uint64_t)from + (uint64_t)rows > e->max_tokens))
    return kit_launch_fail(l, error, ACCEL_PLUGIN_E_LIMIT,
                           "sequence %d holds %d tokens, %d more pass the limit of %llu",
                           l->state->item[item]->id, from, rows, (unsigned long long)e->max_tokens);
  if (kit_fault(l->state->host, "allocation"))
    return kit_no_memory(error, kit_page_bytes(e, out->state));
  rc = kit_slot_reserve(e, out->state, s, from, from + rows, error);
  if (rc) return rc;
  for (int32_t i = 0; i < rows; i++) s->position[from + i] = positions ? positions[i] : from + i;
  s->pending += rows;
  show_rows(s, out);
  return ACCEL_PLUGIN_OK;
}

int32_t kit_state_read(const kit_launch *l, uint32_t item, kit_state_view *out,
                       accel_plugin_error *error) {
  kit_slot *s = NULL;
  int32_t rc = find_slot(l, item, &s, out, error);
  if (!rc) show_rows(s, out);
  return rc;
}

int32_t kit_state_step(const kit_launch *l, uint32_t item, int32_t rows, uint64_t elements,
                       kit_state_view *out, accel_plugin_error *error) {
  kit_slot *s = NULL;
  int32_t rc = find_slot(l, item, &s, out, error);
  if (rc) return rc;
  if (s->elements && s->elements != elements)
    return kit_launch_fail(l, error, ACCEL_PLUGIN_E_ARGUMENT,
                           "its state has %llu elements, expected %llu",
                           (unsigned long long)s->elements, (unsigned long long)elements);
  accel_plugin_endpoint *e = l->state->session->e;
  out->elements = elements;
  out->current = s->current;
  out->past = s->length;
  if (kit_attr_i(l->node, ACCEL_PLUGIN_ATTR_STATE_STATIC, 0)) return ACCEL_PLUGIN_OK;
  if (s->next)
    return kit_launch_fail(l, error, ACCEL_PLUGIN_E_ARGUMENT,
                           "its state is stepped twice in one run");
  if (kit_fault(l->state->host, "allocation")) return kit_no_memory(error, elements * 4);
  s->next = s->spare; /* what lay there before is written over */
  s->spare = NULL;
  if (!s->next) rc = kit_vector_new(e, elements, &s->next, error);
  if (rc) return rc;
  s->elements = elements;
  s->pending = rows;
  out->next = s->next;
  out->length = s->length + rows;
  return ACCEL_PLUGIN_OK;
}

static void write_codes(int8_t *code, const float *from, int32_t n) {
  float most = 0.0f, bad = 0.0f, scale; /* bad: NaN when an element is not finite */
  for (int32_t i = 0; i < n; i++) {
    most = fmaxf(most, fabsf(from[i]));
    bad += 0.0f * from[i];
  }
  const float inverse = most > 1e-30f && bad == 0.0f ? 127.0f / most : 0.0f;
  scale = bad == 0.0f ? most / 127.0f : NAN;
  for (int32_t i = 0; i < n; i++) code[i] = inverse > 0.0f ? (int8_t)lrintf(from[i] * inverse) : 0;
  memcpy(code + kit_kv_scale(n), &scale, sizeof scale);
}

static void write_head(uint8_t dtype, void *to, const float *from, int32_t n) {
  if (dtype == ACCEL_PLUGIN_F32) memcpy(to, from, (size_t)n * 4);
  if (dtype == ACCEL_PLUGIN_I8) write_codes(to, from, n);
  for (int32_t i = 0; dtype == ACCEL_PLUGIN_F16 && i < n; i++)
    ((uint16_t *)to)[i] = accel_f32_to_fp16(from[i]);
  for (int32_t i = 0; dtype == ACCEL_PLUGIN_BF16 && i < n; i++)
    ((uint16_t *)to)[i] = accel_f32_to_bf16(from[i]);
}

void kit_state_write(const kit_state_view *view, int32_t first, int32_t rows, const float *k,
                     int64_t k_stride, const float *v, int64_t v_stride) {
  const accel_plugin_state *s = view->state;
  for (int32_t i = 0; i < rows; i++)
    for (int32_t h = 0; h < s->heads; h++) {
      if (k)
        write_head(view->dtype, kit_state_k(view, first + i, h), k + i * k_stride + h * s->k_dim,
                   s->k_dim);
      if (v)
        write_head(view->dtype, kit_state_v(view, first + i, h), v + i * v_stride + h * s->v_dim,
                   s->v_dim);
    }
}
