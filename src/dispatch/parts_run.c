/* parts_run.c - one run of an entry over all parts, one after the other. */
#include <stdlib.h>
#include <string.h>

#include "dispatch/parts_internal.h"
#include "shared/dim_expr.h"

enum { ALIGN = 64 };

/* Memory of a run. */
typedef struct accel__parts_frame {
  int64_t *symbol, *dim;       /* of the whole program */
  void **value;                /* [n_tensor] values that cross, in `block` or in an output */
  accel_plugin_view *in, *out; /* of one part's entry */
  uint8_t *block;
  uint64_t capacity;
} accel__parts_frame;

static void frame_free(accel__parts_frame *f) {
  if (!f) return;
  free(f->symbol);
  free(f->value);
  free(f->in);
  free(f->block);
  free(f);
}

void accel__parts_frame_free(accel__parts *parts) {
  frame_free(atomic_exchange(&parts->frame, NULL));
}

static accel__parts_frame *frame_new(const accel__parts *parts) {
  const accel_plugin_program *p = parts->program;
  uint32_t in = 0, out = 0;
  for (uint32_t k = 0; k < parts->n; k++) {
    const accel_plugin_program *one = &parts->part[k].cut->program;
    for (uint32_t e = 0; e < one->n_entry; e++) {
      if (one->entry[e].n_in > in) in = one->entry[e].n_in;
      if (one->entry[e].n_out > out) out = one->entry[e].n_out;
    }
  }
  accel__parts_frame *f = calloc(1, sizeof *f);
  if (!f) return NULL;
  f->symbol = calloc((size_t)p->n_symbol + p->n_dim + 1, sizeof *f->symbol);
  f->value = calloc((size_t)p->n_tensor + 1, sizeof *f->value);
  f->in = calloc((size_t)in + out + 1, sizeof *f->in);
  if (!f->symbol || !f->value || !f->in) {
    frame_free(f);
    return NULL;
  }
  f->dim = f->symbol + p->n_symbol;
  f->out = f->in + in;
  return f;
}

/* One run over the parts. */
typedef struct run_state {
  accel__parts *parts;
  const accel_plugin_entry *entry;
  const accel_plugin_run *run;
  const accel_plugin_view *in;
  accel_plugin_view *out;
  accel__parts_session *session;
  accel__parts_frame *frame;
  bool needed[ACCEL__MAX_PARTS];
} run_state;

static const accel__part_entry *map_of(const run_state *r, uint32_t k) {
  return &r->parts->part[k].cut->entry[r->run->entry];
}

static const accel_plugin_entry *entry_of(const run_state *r, uint32_t k) {
  return &r->parts->part[k].cut->program.entry[map_of(r, k)->index];
}

/* ---- what has to run ---- */

static bool is_read_later(const run_state *r, uint32_t k, int32_t tensor) {
  for (uint32_t j = k + 1; j < r->parts->n; j++) {
    if (!r->needed[j]) continue;
    const accel_plugin_entry *e = entry_of(r, j);
    for (uint32_t i = 0; i < e->n_in; i++)
      if (e->in[i] == tensor && map_of(r, j)->in[i] < 0) return true;
  }
  return false;
}

/* Parts that keep state, give a wanted output, or compute what a later one reads. */
static void find_needed(run_state *r) {
  for (uint32_t k = r->parts->n; k-- > 0;) {
    const accel__part_entry *map = map_of(r, k);
    r->needed[k] = map->index >= 0 && map->has_state;
    if (map->index < 0) continue;
    const accel_plugin_entry *e = entry_of(r, k);
    for (uint32_t i = 0; i < e->n_out && !r->needed[k]; i++)
      r->needed[k] =
          map->out[i] >= 0 ? r->out[map->out[i]].host != NULL : is_read_later(r, k, e->out[i]);
  }
}

/* ---- values that cross ---- */

static uint64_t value_bytes(const run_state *r, int32_t tensor) {
  const accel_plugin_tensor *t = &r->parts->program->tensor[tensor];
  uint64_t bytes = 4;
  for (uint32_t i = 0; i < t->rank; i++) {
    const int64_t n = r->frame->dim[t->dim[i]];
    if (n < 0 || __builtin_mul_overflow(bytes, (uint64_t)n, &bytes)) return UINT64_MAX;
  }
  return bytes;
}

/* The memory of a wanted output that is the tensor, too; NULL: none is. */
static void *output_of(const run_state *r, int32_t tensor) {
  for (uint32_t i = 0; i < r->entry->n_out; i++)
    if (r->entry->out[i] == tensor && r->out[i].host) return r->out[i].host;
  return NULL;
}

/* Walks the values that cross, laying them out behind one another; with `place`, in the block. */
static bool lay_out(run_state *r, bool place, uint64_t *bytes) {
  *bytes = 0;
  for (uint32_t k = 0; k < r->parts->n; k++) {
    if (!r->needed[k]) continue;
    const accel_plugin_entry *e = entry_of(r, k);
    for (uint32_t i = 0; i < e->n_out; i++) {
      const int32_t t = e->out[i];
      if (map_of(r, k)->out[i] >= 0 || output_of(r, t) || !is_read_later(r, k, t)) continue;
      const uint64_t n = value_bytes(r, t);
      if (n > SIZE_MAX / 4 || *bytes > SIZE_MAX / 4) return false;
      if (place) r->frame->value[t] = r->frame->block + *bytes;
      *bytes += (n + ALIGN - 1) / ALIGN * ALIGN;
    }
  }
  return true;
}

static int32_t place_values(run_state *r, accel_plugin_error *error) {
  accel__parts_frame *f = r->frame;
  uint64_t bytes;
  if (!lay_out(r, false, &bytes))
    return accel__parts_fail(error, ACCEL_PLUGIN_E_ARGUMENT,
                             "entry '%s': a value between two parts does not follow from the "
                             "inputs, or is too large",
                             r->entry->name);
  if (bytes > f->capacity || !f->block) {
    free(f->block);
    f->capacity = 0;
    f->block = aligned_alloc(ALIGN, bytes + ALIGN);
    if (!f->block)
      return accel__parts_fail(error, ACCEL_PLUGIN_E_HOST_MEMORY,
                               "out of memory: %llu bytes refused", (unsigned long long)bytes);
    f->capacity = bytes;
  }
  lay_out(r, true, &bytes);
  return ACCEL_PLUGIN_OK;
}

static accel_plugin_view value_view(const run_state *r, int32_t tensor, void *host) {
  const accel_plugin_tensor *t = &r->parts->program->tensor[tensor];
  accel_plugin_view v = {.size = sizeof v,
                         .dtype = t->dtype,
                         .rank = t->rank,
                         .host = host,
                         .capacity = host ? value_bytes(r, tensor) : 0};
  for (uint32_t i = 0; i < t->rank; i++) v.dim[i] = r->frame->dim[t->dim[i]];
  return v;
}

static void fill_views(const run_state *r, uint32_t k) {
  const accel__part_entry *map = map_of(r, k);
  const accel_plugin_entry *e = entry_of(r, k);
  accel__parts_frame *f = r->frame;
  for (uint32_t i = 0; i < e->n_in; i++) {
    void *own = map->in[i] < 0 ? output_of(r, e->in[i]) : NULL;
    f->in[i] = map->in[i] >= 0 ? r->in[map->in[i]]
                               : value_view(r, e->in[i], own ? own : f->value[e->in[i]]);
  }
  for (uint32_t i = 0; i < e->n_out; i++) {
    const int32_t t = e->out[i];
    const bool crosses = map->out[i] < 0 && !output_of(r, t) && is_read_later(r, k, t);
    f->out[i] =
        map->out[i] >= 0 ? r->out[map->out[i]] : value_view(r, t, crosses ? f->value[t] : NULL);
  }
}

/* ---- the run ---- */

static int32_t run_part(run_state *r, uint32_t k, double *device_ms, accel_plugin_error *error) {
  accel__placed_part *p = &r->parts->part[k];
  const accel_plugin_entry *e = entry_of(r, k);
  accel_plugin_host host = p->host;
  accel_plugin_run run = *r->run;
  accel_plugin_session *session = r->session ? r->session->of[k] : NULL;
  if (!p->placed.handle)
    return accel__parts_fail(error, ACCEL_PLUGIN_E_DEVICE_LOST, "the device was lost");
  host.profile = r->run->host ? r->run->host->profile : NULL;
  host.progress = r->run->host ? r->run->host->progress : NULL;
  run.entry = (uint32_t)map_of(r, k)->index;
  run.host = &host;
  run.device_ms = 0;
  if (!session) run.sequence = NULL, run.n_sequence = 0;
  fill_views(r, k);
  const int32_t rc = p->placed.plugin->handler(p->placed.handle, session, &run, r->frame->in,
                                               e->n_in, r->frame->out, e->n_out, error);
  for (uint32_t i = 0; !rc && i < e->n_out; i++)
    if (map_of(r, k)->out[i] >= 0) r->out[map_of(r, k)->out[i]] = r->frame->out[i];
  *device_ms += run.device_ms;
  return rc;
}

/* NaN and infinity have all exponent bits set. */
static int32_t check_finite(const run_state *r, accel_plugin_error *error) {
  const accel_plugin_host *host = r->run->host;
  if (!r->parts->ep->check_finite) return ACCEL_PLUGIN_OK;
  if (host && host->fault && host->fault(host->self, "nonfinite"))
    return accel__parts_fail(error, ACCEL_PLUGIN_E_NONFINITE,
                             "a result is not finite (fault injected)");
  for (uint32_t i = 0; i < r->entry->n_out; i++) {
    const accel_plugin_tensor *t = &r->parts->program->tensor[r->entry->out[i]];
    const uint32_t *bits = r->out[i].host;
    if (!bits || t->dtype != ACCEL_PLUGIN_F32) continue;
    uint32_t worst = 0;
    for (uint64_t n = value_bytes(r, r->entry->out[i]) / 4; n-- > 0;) {
      const uint32_t exponent = bits[n] & 0x7f800000u;
      worst = exponent > worst ? exponent : worst;
    }
    if (worst == 0x7f800000u)
      return accel__parts_fail(error, ACCEL_PLUGIN_E_NONFINITE, "output '%s' holds NaN or infinity",
                               t->name);
  }
  return ACCEL_PLUGIN_OK;
}

static int32_t run_all(run_state *r, double *device_ms, accel_plugin_error *error) {
  accel__parts *parts = r->parts;
  accel__parts_undo undo;
  accel_dims_misfit misfit;
  if (!accel_dims_bind(parts->program, r->entry, r->in, r->frame->symbol, r->frame->dim, &misfit))
    return accel__parts_fail(error, ACCEL_PLUGIN_E_ARGUMENT,
                             "input '%s': dim %u is %lld, which does not fit the others",
                             parts->program->tensor[r->entry->in[misfit.input]].name, misfit.axis,
                             (long long)misfit.got);
  find_needed(r);
  int32_t rc = place_values(r, error);
  if (!rc) rc = accel__parts_undo_begin(&undo, r->session, r->run, error);
  if (rc) return rc;
  uint32_t k = 0;
  for (; !rc && k < parts->n; k++) {
    if (!r->needed[k]) continue;
    rc = run_part(r, k, device_ms, error);
    if (rc) accel__part_failed(parts, k, rc, error);
    if (rc) break;
  }
  if (!rc) rc = check_finite(r, error);
  accel__parts_undo_end(&undo, k, rc != 0);
  return rc;
}

int32_t accel__parts_handler(accel_plugin_endpoint *handle, accel_plugin_session *session,
                             accel_plugin_run *run, const accel_plugin_view *in, uint32_t n_in,
                             accel_plugin_view *out, uint32_t n_out, accel_plugin_error *error) {
  accel__parts *parts = accel__parts_of(handle);
  run_state r = {.parts = parts,
                 .entry = &parts->program->entry[run->entry],
                 .run = run,
                 .in = in,
                 .out = out,
                 .session = (accel__parts_session *)session};
  if (n_in != r.entry->n_in || n_out != r.entry->n_out)
    return accel__parts_fail(error, ACCEL_PLUGIN_E_ARGUMENT,
                             "entry '%s' takes %u inputs and %u outputs, got %u and %u",
                             r.entry->name, r.entry->n_in, r.entry->n_out, n_in, n_out);
  r.frame = atomic_exchange(&parts->frame, NULL);
  if (!r.frame) r.frame = frame_new(parts);
  if (!r.frame)
    return accel__parts_fail(error, ACCEL_PLUGIN_E_HOST_MEMORY, "out of memory: no frame");
  double device_ms = 0;
  const int32_t rc = run_all(&r, &device_ms, error);
  run->device_ms = device_ms;
  frame_free(atomic_exchange(&parts->frame, r.frame));
  return rc;
}
