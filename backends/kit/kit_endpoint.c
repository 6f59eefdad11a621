/* kit_endpoint.c - endpoints: refusing what cannot run, opening the backend, closing, trimming. */
#include "kit/kit_endpoint.h"

#include <stdlib.h>
#include <string.h>

#include "shared/hash.h"

void *kit_endpoint_self(const accel_plugin_endpoint *endpoint) { return endpoint->self; }
const accel_plugin_program *kit_endpoint_program(const accel_plugin_endpoint *endpoint) {
  return endpoint->program;
}

/* ---- what is refused ---- */

/* What supports would answer, as an error. */
static int32_t refuse(const kit_backend *backend, const accel_plugin_program *p,
                      const accel_plugin_precision *precision, accel_plugin_error *error) {
  if (p->n_weight && !precision->format)
    return kit_fail(error, ACCEL_PLUGIN_E_ARGUMENT, -1, "precision '%.16s' has no format table",
                    precision->name);
  for (uint32_t i = 0; i < p->n_entry; i++) {
    accel_plugin_verdict v = {.size = sizeof v};
    kit_entry_verdict(backend, p, precision, i, &v);
    if (v.answer == ACCEL_PLUGIN_NO)
      return kit_fail(error, ACCEL_PLUGIN_E_UNSUPPORTED, v.node, "entry '%s': %s", p->entry[i].name,
                      v.why);
    if (v.answer == ACCEL_PLUGIN_EMULATED && !(precision->flags & ACCEL_PLUGIN_ALLOW_EMULATED))
      return kit_fail(error, ACCEL_PLUGIN_E_UNSUPPORTED, v.node,
                      "entry '%s' would be emulated at %.16s, which was not allowed: %s",
                      p->entry[i].name, precision->name, v.why);
  }
  return ACCEL_PLUGIN_OK;
}

const char *kit_extra(const char *extra, const char *key, size_t *n) {
  size_t length = strlen(key);
  for (const char *at = extra; at && *at;) {
    const char *end = strchrnul(at, ';');
    if ((size_t)(end - at) > length && !memcmp(at, key, length) && at[length] == '=') {
      *n = (size_t)(end - at) - length - 1;
      return at + length + 1;
    }
    at = *end ? end + 1 : end;
  }
  return NULL;
}

static bool listed(const char *const *keys, const char *key, size_t n) {
  for (; keys && *keys; keys++)
    if (strlen(*keys) == n && !memcmp(*keys, key, n)) return true;
  return false;
}

/* Options that this backend would silently ignore are refused. */
static int32_t check_options(const kit_backend *backend, const accel_plugin_options *o,
                             accel_plugin_error *error) {
  if (o->world > 1 && !(o->host && o->host->allreduce))
    return kit_fail(error, ACCEL_PLUGIN_E_ARGUMENT, -1, "world is %u but the host has no allreduce",
                    o->world);
  const bool rows = o->row_dtype && o->host && o->host->rows_open;
  if (o->stream_budget && (!backend->stream_estimate || (backend->stream_segments && !rows)))
    return kit_fail(error, ACCEL_PLUGIN_E_UNSUPPORTED, -1, "the %s backend does not stream weights",
                    backend->name);
  for (const char *at = o->extra; at && *at;) {
    const char *end = strchrnul(at, ';');
    size_t n = strcspn(at, "=;");
    if (n && !listed(backend->extra, at, n))
      return kit_fail(error, ACCEL_PLUGIN_E_UNSUPPORTED, -1,
                      "option '%.*s' is unknown to the %s backend", (int)n, at, backend->name);
    at = *end ? end + 1 : end;
  }
  return ACCEL_PLUGIN_OK;
}

/* What the weights take, against the memory limit. */
static int32_t count_weights(accel_plugin_endpoint *e, const accel_plugin_options *o,
                             accel_plugin_error *error) {
  const accel_plugin_program *p = e->program;
  kit_memory *m = &e->memory;
  e->weight_bytes = calloc(p->n_weight + 1, sizeof *e->weight_bytes);
  if (!e->weight_bytes) return kit_no_memory(error, p->n_weight * sizeof *e->weight_bytes);
  for (uint32_t i = 0; i < p->n_weight; i++) {
    const accel_plugin_format *f = &o->precision.format[i];
    e->weight_bytes[i] = e->backend->weight_bytes ? e->backend->weight_bytes(p, i, f)
                                                  : kit_format_bytes(&p->weight[i], f);
    m->weights += e->weight_bytes[i];
  }
  m->limit = o->memory_limit;
  if (o->stream_budget) m->weights = o->stream_budget;
  if (!m->limit || m->weights <= m->limit) return ACCEL_PLUGIN_OK;
  return kit_fail(error,
                  e->backend->alloc ? ACCEL_PLUGIN_E_DEVICE_MEMORY : ACCEL_PLUGIN_E_HOST_MEMORY, -1,
                  "%llu bytes of weights pass the memory limit of %llu",
                  (unsigned long long)m->weights, (unsigned long long)m->limit);
}

/* ---- open and close ---- */

static uint64_t identity_of(const accel_plugin_endpoint *e, const accel_plugin_options *o) {
  uint64_t h = accel_hash(ACCEL_HASH_SEED, &e->program->hash, sizeof e->program->hash);
  h = accel_hash(h, o->precision.name, sizeof o->precision.name);
  h = accel_hash(h, e->backend->name, strlen(e->backend->name));
  return accel_hash(h, &e->kv_dtype, 1);
}

static int32_t open_backend(accel_plugin_endpoint *e, uint32_t device,
                            const accel_plugin_options *o, accel_plugin_error *error) {
  kit_open open = {
      .device = device, .program = e->program, .options = o, .kv_dtype = ACCEL_PLUGIN_F32};
  int32_t rc = e->backend->open ? e->backend->open(&open, &e->self, error) : ACCEL_PLUGIN_OK;
  e->memory.self = e->self;
  e->stream = open.stream;
  e->takes_turns = open.stream || open.takes_turns;
  if (!rc && o->precision.kv == ACCEL_PLUGIN_I8 && open.kv_dtype != ACCEL_PLUGIN_I8 &&
      e->program->n_state)
    rc = kit_fail(error, ACCEL_PLUGIN_E_UNSUPPORTED, -1, "the %s backend keeps no int8 KV cache",
                  e->backend->name);
  e->kv_dtype = open.kv_dtype;
  e->max_tokens = o->max_tokens;
  e->max_sequences = o->max_sequences;
  e->page_rows = o->stream_budget && !e->backend->alloc ? KIT_SMALL_PAGE_ROWS : KIT_PAGE_ROWS;
  e->identity = identity_of(e, o);
  return rc;
}

int32_t kit_init(const kit_backend *backend, uint32_t device, const accel_plugin_program *program,
                 const accel_plugin_options *options, accel_plugin_endpoint **out,
                 accel_plugin_error *error) {
  *out = NULL;
  if (!options) return kit_fail(error, ACCEL_PLUGIN_E_ARGUMENT, -1, "init: no options");
  accel_plugin_options o;
  kit_read_struct(&o, sizeof o, options, options->size);
  if (kit_fault(o.host, "allocation")) return kit_no_memory(error, sizeof(accel_plugin_endpoint));
  accel_plugin_endpoint *e = calloc(1, sizeof *e);
  if (!e) return kit_no_memory(error, sizeof *e);
  e->backend = backend;
  e->flags = o.precision.flags;
  kit_memory_init(&e->memory, backend);
  kit_plan_cache_init(&e->plans);
  pthread_mutex_init(&e->stream_turn, NULL);
  int32_t rc = kit_program_copy(program, &e->program, error);
  kit_frame_pool_init(&e->frames, e->program, &e->memory, &e->constants);
  if (!rc) rc = refuse(backend, e->program, &o.precision, error);
  if (!rc) rc = check_options(backend, &o, error);
  if (!rc) rc = count_weights(e, &o, error);
  if (!rc) rc = open_backend(e, device, &o, error);
  if (!rc) rc = kit_constants_open(&e->constants, e->program, &e->memory, error);
  if (rc)
    kit_cleanup(e, o.host);
  else
    *out = e;
  return rc;
}

int32_t kit_trim(accel_plugin_endpoint *e, uint64_t *released, accel_plugin_error *error) {
  (void)error;
  const uint64_t bytes = kit_memory_trim(&e->memory) + kit_frame_pool_trim(&e->frames);
  if (released) *released = bytes;
  return ACCEL_PLUGIN_OK;
}

void kit_cleanup(accel_plugin_endpoint *e, const accel_plugin_host *host) {
  (void)host;
  if (!e) return;
  kit_trim(e, NULL, NULL);
  kit_frame_pool_destroy(&e->frames);
  kit_plan_cache_destroy(&e->plans);
  kit_constants_close(&e->constants, &e->memory);
  if (e->self && e->backend->close) e->backend->close(e->self);
  kit_memory_destroy(&e->memory);
  pthread_mutex_destroy(&e->stream_turn);
  kit_program_free(e->program);
  free(e->weight_bytes);
  free(e);
}
