/* services.c - the services of the core that a plugin is lent with each call: log, weights, cache,
 * threads, cancel, profile.
 */
#include "dispatch/services.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "core/config.h"
#include "core/text.h"
#include "dispatch/parts.h"
#include "dispatch/ranks.h"

static accel *context_of(void *self) { return ((accel__host_self *)self)->ep->ctx; }
static accel__placed *placed_of(void *self) { return ((accel__host_self *)self)->placed; }

/* A part's weights have numbers of their own. */
static uint32_t weight_of(void *self, uint32_t index) {
  const accel__part *part = ((accel__host_self *)self)->part;
  return part && index < part->program.n_weight ? part->weight[index] : index;
}

static void host_log(void *self, int level, const char *message) {
  const accel_plugin *plugin = placed_of(self)->plugin;
  accel__logf(&context_of(self)->log, (accel_log_level)level, "%s: %s",
              plugin ? plugin->name : "plugin", message);
}

/* A status of ours as a plugin's: the codes are the same numbers. */
static int32_t to_plugin(accel_status status, accel_plugin_error *error) {
  if (status == ACCEL_OK) return ACCEL_PLUGIN_OK;
  if (error) {
    error->rc = status >= ACCEL_ERROR_DRIVER ? (int32_t)status : ACCEL_PLUGIN_E_IO;
    error->node = -1;
    strncpy(error->message, accel__message(), sizeof error->message - 1);
  }
  return error ? error->rc : ACCEL_PLUGIN_E_IO;
}

static int32_t host_weight_map(void *self, uint32_t index, accel_plugin_weight_view *out,
                               accel_plugin_error *error) {
  return to_plugin(accel__source_map(placed_of(self)->source, weight_of(self, index), out), error);
}

static int32_t host_weight_borrow(void *self, uint32_t index, accel_plugin_weight_view *out,
                                  accel_plugin_error *error) {
  return to_plugin(accel__source_borrow(placed_of(self)->source, weight_of(self, index), out),
                   error);
}

static void host_weight_unmap(void *self, uint32_t index) {
  accel__source_unmap(placed_of(self)->source, weight_of(self, index));
}

/* ---- progress of a streaming endpoint ---- */

/* Bytes that were read while it loads.  The end is told by whoever loads. */
static void tell_loaded(accel *ctx, const accel__placed *placed) {
  accel__range_counters n;
  const uint64_t all = placed->streaming.resident - placed->streaming.experts;
  if (placed->handle || !ctx->params.progress || !placed->rows) return;
  accel__row_stream_count(placed->rows, &n);
  if (n.bytes < all) accel__report_progress(ctx, "loading", n.bytes, all);
}

/* Parts count in stages of the whole: where one ends the next begins, which is told once. */
static void host_progress(void *self, uint32_t done, uint32_t all) {
  const accel__part *part = ((accel__host_self *)self)->part;
  if (part && done == all)
    done = part->last_stage + 1;
  else if (part && part->first_stage && done <= part->first_stage)
    return;
  accel__report_progress(context_of(self), "layers", done, all);
}

void accel__offer_progress(accel_endpoint *ep, bool on) {
  ep->host.progress = on ? host_progress : NULL;
}

/* ---- rows of weights, again and again ---- */

static int32_t host_rows_open(void *self, uint32_t slots, uint64_t slot_bytes,
                              accel_plugin_error *error) {
  accel__placed *placed = placed_of(self);
  if (placed->rows)
    return to_plugin(accel__fail(ACCEL_ERROR_ARGUMENT, "the rows are open already"), error);
  return to_plugin(accel__row_stream_open(placed->source, slots, slot_bytes, &placed->rows), error);
}

/* The endpoint's rows; NULL: not opened, and *rc says so. */
static accel__row_stream *rows_of(void *self, int32_t *rc, accel_plugin_error *error) {
  accel__row_stream *rows = placed_of(self)->rows;
  if (!rows) *rc = to_plugin(accel__fail(ACCEL_ERROR_ARGUMENT, "rows_open was not called"), error);
  return rows;
}

static int32_t host_rows_post(void *self, uint32_t slot, uint32_t index, int64_t first,
                              int64_t rows, accel_plugin_error *error) {
  int32_t rc;
  accel__row_stream *s = rows_of(self, &rc, error);
  return s ? to_plugin(accel__row_stream_post(s, slot, weight_of(self, index), first, rows), error)
           : rc;
}

static int32_t host_rows_wait(void *self, uint32_t slot, accel_plugin_rows *out,
                              accel_plugin_error *error) {
  int32_t rc;
  accel__row_stream *s = rows_of(self, &rc, error);
  if (!s) return rc;
  tell_loaded(context_of(self), placed_of(self));
  return to_plugin(accel__row_stream_wait(s, slot, out), error);
}

static int host_rows_ready(void *self, uint32_t slot) {
  accel__row_stream *s = placed_of(self)->rows;
  return !s || accel__row_stream_ready(s, slot);
}

static void host_rows_release(void *self, uint32_t slot) {
  accel__row_stream *s = placed_of(self)->rows;
  if (s) accel__row_stream_release(s, slot);
}

static int32_t host_rows_read(void *self, uint32_t index, int64_t first, int64_t rows, float *out,
                              accel_plugin_error *error) {
  return to_plugin(
      accel__source_rows_rounded(placed_of(self)->source, weight_of(self, index), first, rows, out),
      error);
}

/* As they are stored, or made. */
typedef struct lent_rows {
  accel__source_some stored;
  accel__quantised coded;
} lent_rows;

static int32_t host_rows_map(void *self, uint32_t index, int64_t first, int64_t rows,
                             accel_plugin_weight_view *out, void **mapping,
                             accel_plugin_error *error) {
  const accel__source *source = placed_of(self)->source;
  const uint32_t weight = weight_of(self, index);
  lent_rows *lent = calloc(1, sizeof *lent);
  *mapping = NULL;
  if (!lent) return to_plugin(accel__no_memory(sizeof *lent), error);
  accel_status status = accel__source_rows_stored(source, weight, first, rows, &lent->stored);
  *out = (accel_plugin_weight_view){.data = lent->stored.lent.data};
  if (status == ACCEL_OK && !lent->stored.lent.data) {
    accel__quantised *q = &lent->coded;
    status = accel__source_rows_coded(source, weight, first, rows, q);
    *out = (accel_plugin_weight_view){q->data, q->scale, q->zero, q->outer};
  }
  if (status == ACCEL_OK)
    *mapping = lent;
  else
    free(lent);
  return to_plugin(status, error);
}

static void host_rows_unmap(void *self, void *mapping) {
  lent_rows *lent = mapping;
  if (!lent) return;
  accel__quantised_free(&lent->coded);
  accel__source_rows_return(placed_of(self)->source, &lent->stored);
  free(lent);
}

static void host_experts_used(void *self, uint32_t found, uint32_t read, uint64_t bytes) {
  accel__row_stream *s = placed_of(self)->rows;
  if (s) accel__row_stream_count_experts(s, found, read, bytes);
}

static void host_weights_copied(void *self, uint64_t bytes) {
  atomic_fetch_add(&((accel__host_self *)self)->ep->copied, bytes);
}

/* a - b, of counters that another thread may move on between the two. */
static uint64_t rest(uint64_t a, uint64_t b) { return a > b ? a - b : 0; }

/* Under ep->in_use: lost parts and changes of precision make streams and numbers anew. */
static accel_stream_stats stats_of(accel_endpoint *ep) {
  const accel__streaming *s = &ep->placed.streaming;
  accel__range_counters n = {0};
  accel__expert_counters experts = {0};
  uint64_t runs, run_ns;
  if (!s->budget) return (accel_stream_stats){0};
  if (ep->placed.parts) accel__parts_count_rows(ep->placed.parts, &n);
  if (ep->placed.parts) accel__parts_count_experts(ep->placed.parts, &experts);
  if (ep->placed.rows) accel__row_stream_count(ep->placed.rows, &n);
  if (ep->placed.rows) accel__row_stream_experts(ep->placed.rows, &experts);
  n.bytes += atomic_load(&ep->copied);
  accel__run_clock_read(&ep->run_clock, &runs, &run_ns);
  const double seconds = 1e-9 * (double)run_ns,
               waited = 1e-9 * (double)rest(n.wait_ns, s->load.wait_ns);
  return (accel_stream_stats){
      .streaming = 1,
      .resident = s->resident,
      .staging = s->staging,
      .read_per_run = s->read,
      .least_limit = s->least,
      .bytes = n.bytes,
      .wait_seconds = 1e-9 * (double)n.wait_ns,
      .direct = n.direct_requests > 0,
      .load_bytes = s->load.bytes,
      .load_seconds = 1e-9 * (double)s->load.ns,
      .runs = runs,
      .run_seconds = seconds,
      .bytes_per_second = run_ns ? (double)rest(n.bytes, s->load.bytes) / seconds : 0,
      .wait_share = run_ns ? (waited < seconds ? waited / seconds : 1) : 0,
      .expert_memory = s->experts,
      .expert_hits = experts.hits,
      .expert_misses = experts.misses,
      .expert_bytes = experts.bytes,
      .host = s->host,
      .disk = s->disk};
}

accel_stream_stats accel__streaming_stats(accel_endpoint *ep) {
  /* EDEADLK: a listener asks from within a load that replaces a part, on the thread that holds it */
  const bool locked = !pthread_rwlock_rdlock(&ep->in_use);
  const accel_stream_stats now = stats_of(ep);
  if (locked) pthread_rwlock_unlock(&ep->in_use);
  return now;
}

accel_status accel__stream_read(accel_endpoint *ep, uint64_t *bytes, double *seconds) {
  uint64_t ns = 0;
  *bytes = 0;
  *seconds = 0;
  accel_status status = ACCEL_OK;
  pthread_rwlock_rdlock(&ep->in_use);
  bool streams = ep->placed.rows != NULL;
  if (streams) status = accel__row_stream_read_again(ep->placed.rows, bytes, &ns);
  if (ep->placed.parts) status = accel__parts_read_again(ep->placed.parts, bytes, &ns, &streams);
  pthread_rwlock_unlock(&ep->in_use);
  *seconds = 1e-9 * (double)ns;
  if (status != ACCEL_OK || *bytes) return status;
  if (ep->placed.streaming.copied && !ep->placed.streaming.disk)
    return accel__fail(ACCEL_ERROR_ARGUMENT,
                       "%s: its weights come from host memory, and nothing is read from files",
                       ep->name);
  return accel__fail(ACCEL_ERROR_ARGUMENT, "%s: %s", ep->name,
                     streams ? "nothing is known of what a run reads before two have run"
                             : "its weights are all in memory, and nothing is read");
}

/* ---- threads, faults, cancel ---- */

static void host_parallel(void *self, uint32_t n, accel_plugin_task_fn fn, void *arg) {
  accel__pool_run(context_of(self)->pool, n, fn, arg);
}
static uint32_t host_workers(void *self) { return accel__pool_width(context_of(self)->pool); }
static int host_fault(void *self, const char *point) { return (void)self, accel__fault(point); }

static int host_cancelled(void *self) { return accel__is_cancelled(context_of(self)); }

/* ---- cache ---- */

/* Size and times of the file that holds `symbol` (the loader keeps copies of plugins' tables, so
 * one of their functions): the build id alone does not tell two builds of one working tree
 * apart. */
static uint64_t code_identity(const void *symbol) {
  Dl_info where;
  struct stat about;
  if (!dladdr(symbol, &where) || !where.dli_fname || stat(where.dli_fname, &about)) return 0;
  const int64_t facts[] = {about.st_size, about.st_mtim.tv_sec, about.st_mtim.tv_nsec,
                           about.st_ctim.tv_sec, about.st_ctim.tv_nsec};
  return accel__hash(facts, sizeof facts, 3);
}

/* The plugin's key behind everything that it need not know: whose code packs, and whose quantises.
 * NULL: no cache. */
static char *cache_key(const accel_plugin *plugin, const char *key) {
  accel__buffer b = {0};
  uint64_t core = code_identity(accel__config_table),
           code = code_identity((const void *)(uintptr_t)plugin->init);
  if (!core || !code) return NULL;
  accel__buffer_printf(&b, "%s %s %016llx %016llx %s", plugin->name, plugin->build_id,
                       (unsigned long long)code, (unsigned long long)core, key);
  if (!b.failed) return b.data;
  accel__buffer_free(&b);
  return NULL;
}

static int32_t host_cache_get(void *self, const char *key, void *bytes, uint64_t *n) {
  const accel__cache *cache = accel__context_cache(context_of(self), true);
  char *whole = cache ? cache_key(placed_of(self)->plugin, key) : NULL;
  bool found = whole && (bytes ? accel__cache_get(cache, whole, bytes, *n)
                               : accel__cache_size(cache, whole, n));
  free(whole);
  return found ? ACCEL_PLUGIN_OK : ACCEL_PLUGIN_E_IO;
}

/* What an entry belongs to, for people. */
static void write_label(void *self, accel__buffer *label) {
  const accel__placed *placed = placed_of(self);
  accel__buffer_printf(label, "%s, %s, for %s (%s)", ((accel__host_self *)self)->ep->name,
                       placed->precision.name, placed->plugin->name, placed->device_info.arch);
}

static int32_t host_cache_put(void *self, const char *key, const accel_plugin_part *part,
                              uint32_t n_part) {
  const accel__cache *cache = accel__context_cache(context_of(self), true);
  char *whole = cache ? cache_key(placed_of(self)->plugin, key) : NULL;
  accel__buffer label = {0};
  write_label(self, &label);
  bool kept = whole && !label.failed && accel__cache_put(cache, whole, label.data, part, n_part);
  accel__buffer_free(&label);
  free(whole);
  return kept ? ACCEL_PLUGIN_OK : ACCEL_PLUGIN_E_IO;
}

/* An accel_plugin_store is an accel__cache_store. */
static int32_t not_kept(accel_plugin_error *error) {
  const int32_t rc = to_plugin(ACCEL_ERROR_IO, error);
  accel__clear_error();
  return rc;
}

static int32_t host_store_open(void *self, const char *key, const uint64_t *bytes, uint32_t n,
                               accel_plugin_store **out, accel_plugin_error *error) {
  const accel__cache *cache = accel__context_cache(context_of(self), true);
  char *whole = cache ? cache_key(placed_of(self)->plugin, key) : NULL;
  accel__buffer label = {0};
  if (!whole) accel__fail(ACCEL_ERROR_IO, "there is no cache of packed weights");
  write_label(self, &label);
  accel__cache_store *store =
      whole && !label.failed ? accel__cache_store_open(cache, whole, label.data, bytes, n) : NULL;
  accel__buffer_free(&label);
  free(whole);
  *out = (accel_plugin_store *)store;
  if (store && placed_of(self)->streaming.budget) accel__cache_store_bypass(store);
  return store ? ACCEL_PLUGIN_OK : not_kept(error);
}

static int32_t host_store_get(void *self, accel_plugin_store *store, uint32_t index, void *out) {
  (void)self;
  accel__cache_store *s = (accel__cache_store *)store;
  const bool good = out ? accel__cache_store_get(s, index, out) : accel__cache_store_has(s, index);
  return good ? ACCEL_PLUGIN_OK : ACCEL_PLUGIN_E_IO;
}

static int32_t host_store_put(void *self, accel_plugin_store *store, uint32_t index,
                              const accel_plugin_part *part, uint32_t n_part,
                              accel_plugin_error *error) {
  accel__cache_store *s = (accel__cache_store *)store;
  if (!accel__cache_store_put(s, index, part, n_part)) return not_kept(error);
  uint32_t done, all;
  accel__cache_store_count(s, &done, &all);
  if (placed_of(self)->streaming.budget)
    accel__report_progress(context_of(self), "quantising", done, all);
  return ACCEL_PLUGIN_OK;
}

static void host_store_close(void *self, accel_plugin_store *opened) {
  accel__cache_store *store = (accel__cache_store *)opened;
  (void)self;
  (void)accel__cache_store_commit(store);
  accel__cache_store_close(&store);
  accel__clear_error();
}

static int32_t host_store_stream(void *self, accel_plugin_store *opened,
                                 accel_plugin_error *error) {
  accel__cache_store *store = (accel__cache_store *)opened;
  int32_t rc;
  accel__row_stream *s = rows_of(self, &rc, error);
  if (s && accel__cache_store_commit(store))
    return to_plugin(accel__row_stream_store(s, store), error);
  if (s) rc = not_kept(error);
  accel__cache_store_close(&store);
  return rc;
}

static int32_t host_store_post(void *self, uint32_t slot, uint32_t index,
                               accel_plugin_error *error) {
  int32_t rc;
  accel__row_stream *s = rows_of(self, &rc, error);
  return s ? to_plugin(accel__row_stream_post_segment(s, slot, index), error) : rc;
}

bool accel__cache_can_hold(accel_endpoint *ep, const accel_plugin *plugin, const char *key,
                           uint64_t bytes, char *why, size_t size) {
  const accel__cache *cache = accel__context_cache(ep->ctx, true);
  if (!cache) {
    snprintf(why, size,
             "it is switched off: do without --no-cache (ACCEL_NO_CACHE), or give --cache-dir");
    return false;
  }
  char *whole = cache_key(plugin, key);
  const bool there = whole && accel__cache_has(cache, whole);
  free(whole);
  return there || accel__cache_takes(cache, bytes, why, size);
}

/* Weights' identity: the checkpoint's files (with those of adapters) or the seed, and the
 * configurations that say how they are read. */
uint64_t accel__weights_identity(const accel_endpoint *ep) {
  char *config = ep->config.root ? cJSON_PrintUnformatted(ep->config.root) : NULL;
  const uint64_t facts[] = {
      ep->checkpoint != NULL, ep->checkpoint ? accel__checkpoint_hash(ep->checkpoint) : ep->seed,
      config ? accel__hash(config, strlen(config), 4) : 0, ep->adapters ? ep->adapters->hash : 0};
  cJSON_free(config);
  return accel__hash(facts, sizeof facts, 5);
}

/* ---- profile ---- */

bool accel__profile_report(const accel_plugin_program *p, const accel_plugin_step *step,
                           accel_profile_step *out) {
  if (!step->n_node || step->node[0] < 0 || (uint32_t)step->node[0] >= p->n_node ||
      step->entry >= p->n_entry)
    return false;
  const accel_plugin_node *first = &p->node[step->node[0]];
  *out = (accel_profile_step){.size = sizeof *out,
                              .index = (uint32_t)step->node[0],
                              .node = first->out[0] >= 0 ? p->tensor[first->out[0]].name : "",
                              .op = accel__op_name(first->op),
                              .entry = p->entry[step->entry].name,
                              .stage = first->stage,
                              .node_count = step->n_node,
                              .begin_us = step->begin_us,
                              .end_us = step->end_us,
                              .flop = step->flop,
                              .bytes = step->bytes,
                              .device_clock = step->clock == ACCEL_PLUGIN_CLOCK_DEVICE};
  if (step->size >= offsetof(accel_plugin_step, limit_us) + sizeof step->limit_us)
    out->limit_us = step->limit_us;
  if (step->size >= offsetof(accel_plugin_step, result_bytes) + sizeof step->result_bytes) {
    out->weight_bytes = step->weight_bytes;
    out->result_bytes = step->result_bytes;
  }
  return true;
}

static void host_profile(void *self, const accel_plugin_step *step) {
  accel_endpoint *ep = ((accel__host_self *)self)->ep;
  const accel__part *part = ((accel__host_self *)self)->part;
  const accel_plugin_program *p = part ? &part->program : accel__program_view(ep->model->program);
  accel_profile_step report;
  if (!accel__profile_report(p, step, &report)) return;
  if (part) report.index = part->node[report.index];
  ep->profile.fn(ep->profile.user, &report);
}

void accel__set_profile(accel_endpoint *ep, accel_profile_fn fn, void *user) {
  ep->profile.fn = fn;
  ep->profile.user = user;
  ep->host.profile = fn ? host_profile : NULL;
}

accel_plugin_host accel__host_for(accel__host_self *self) {
  const accel__ranks *ranks = context_of(self)->ranks;
  /* drivers compile for some time to hand out binaries: not where nobody keeps them */
  const bool caches = accel__context_cache(context_of(self), true) != NULL;
  return (accel_plugin_host){.size = sizeof(accel_plugin_host),
                             .abi = ACCEL_PLUGIN_ABI_NOW,
                             .self = self,
                             .log = host_log,
                             .weight_map = host_weight_map,
                             .weight_unmap = host_weight_unmap,
                             .cache_get = caches ? host_cache_get : NULL,
                             .cache_put = caches ? host_cache_put : NULL,
                             .parallel = host_parallel,
                             .workers = host_workers,
                             .cancelled = host_cancelled,
                             .allreduce = ranks ? accel__ranks_allreduce : NULL,
                             .fault = host_fault,
                             .rows_open = host_rows_open,
                             .rows_post = host_rows_post,
                             .rows_wait = host_rows_wait,
                             .rows_release = host_rows_release,
                             .rows_read = host_rows_read,
                             .store_open = host_store_open,
                             .store_get = host_store_get,
                             .store_put = host_store_put,
                             .store_close = host_store_close,
                             .store_stream = host_store_stream,
                             .store_post = host_store_post,
                             .rows_map = host_rows_map,
                             .rows_unmap = host_rows_unmap,
                             .experts_used = host_experts_used,
                             .weights_copied = host_weights_copied,
                             .allreduce_device = accel__ranks_allreduce_device(ranks),
                             .rows_ready = host_rows_ready,
                             .weight_borrow = host_weight_borrow};
}

void accel__init_host(accel_endpoint *ep) {
  ep->host_self = (accel__host_self){.ep = ep, .placed = &ep->placed};
  ep->host = accel__host_for(&ep->host_self);
}
