/* gpu_offload.c - the ring: which weights of a run are on their way, where they lie, and the events
 * between copies and launches. */
#include "gpu/gpu_offload.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "gpu/gpu_disk.h"

enum {
  EVENTS = 64,
  AHEAD = EVENTS / 2, /* entries on their way at once, at most */
  WARNING = 1         /* accel_plugin_host.log */
};

/* An offloaded weight. */
typedef struct place {
  gpu_buffer *pinned;             /* NULL: `memory` is the heap's */
  char *memory;                   /* data, and from `scale_at` on scales */
  uint64_t data, scale, scale_at; /* bytes */
  gpu_memory in_ring[2];          /* where the launch that takes them finds data and scales */
} place;

/* What one node of a run reads. */
typedef struct entry {
  uint32_t node, n_weight, weight[GPU_OFFLOAD_PAIR];
  uint64_t first, bytes; /* of the ring, once posted */
  int32_t used;          /* event behind the launch; -1: it was not launched */
} entry;

/* Entries in the order of a run's launches. */
typedef struct entry_list {
  entry *at; /* [n] */
  uint32_t n, room;
} entry_list;

struct gpu_offload {
  gpu_offload_plan plan;
  gpu_disk *disk;   /* NULL: all weights lie in memory */
  place *place;     /* [n_weight] */
  gpu_buffer *ring; /* no part of the pool: kernels bind whole chunks of that (gpu_pool_chunk) */
  gpu_event *copied[EVENTS], *used[EVENTS];
  const accel_plugin_host *host; /* of init, until close */
  bool unpinned;                 /* some host memory is not pinned, which was said */
  entry_list *last;              /* [n_entry] of the last run of each entry of the program */
  uint32_t *followed;            /* [n_entry] by which entry; itself at first */
  uint32_t *disk_list;           /* [disk_room] weights on the disk, in the order of the run */
  uint32_t disk_room;
  gpu_stream
      *copies; /* of the run under way, or of what is copied ahead for the next; NULL: none */
  /* of the run under way */
  entry_list run;
  uint32_t running;       /* which entry of the program */
  uint32_t first, posted; /* [first, posted) are in the ring or on their way */
  bool began;             /* some of entry `posted` are, too: up to here */
  uint32_t began_weight, began_part;
  uint64_t began_at;
  uint64_t at;    /* where the next goes */
  int64_t waited; /* the last entry whose launch the copies wait for; -1: none */
  uint64_t bytes; /* copied from host memory */
  /* between runs: the first entries of the next, which are in the ring or on their way */
  entry_list ahead;
  uint64_t ahead_bytes;
};

bool gpu_offload_has(const gpu_self *self, uint32_t weight) {
  return self->offload && !self->offload->plan.weight[weight].resident;
}

bool gpu_offload_on_disk(const gpu_self *self, uint32_t weight) {
  return self->offload && self->offload->plan.on_disk[weight];
}

gpu_disk *gpu_offload_disk(const gpu_self *self) {
  return self->offload ? self->offload->disk : NULL;
}

/* ---- open and close ---- */

static int32_t open_ring(gpu_self *self, gpu_offload *o, accel_plugin_error *error) {
  if (!o->plan.ring) return ACCEL_PLUGIN_OK;
  if (o->plan.ring > self->limits.buffer)
    return kit_fail(error, ACCEL_PLUGIN_E_DEVICE_MEMORY, -1,
                    "weights in host memory pass through %llu bytes in one piece, this device "
                    "allocates at most %llu: use a smaller precision",
                    (unsigned long long)o->plan.ring, (unsigned long long)self->limits.buffer);
  int32_t rc = gpu_plugin_api.alloc(self->device, o->plan.ring, false, &o->ring, NULL, error);
  for (int i = 0; !rc && i < EVENTS; i++) {
    rc = gpu_plugin_api.event_new(self->device, &o->copied[i], error);
    if (!rc) rc = gpu_plugin_api.event_new(self->device, &o->used[i], error);
  }
  return rc;
}

int32_t gpu_offload_open(gpu_self *self, kit_open *open, accel_plugin_error *error) {
  const accel_plugin_options *options = open->options;
  const uint32_t n_entry = open->program->n_entry;
  if (!options->stream_budget) return ACCEL_PLUGIN_OK;
  if (!gpu_plugin_api.own_memory(open->device))
    return kit_fail(error, ACCEL_PLUGIN_E_UNSUPPORTED, -1,
                    "this device computes in host memory: its weights are not streamed");
  gpu_offload *o = calloc(1, sizeof *o);
  if (!o) return kit_no_memory(error, sizeof *o);
  self->offload = o; /* from here gpu_offload_close frees it */
  o->host = options->host;
  open->takes_turns = true;
  int32_t rc = gpu_offload_plan_make(open->program, options, &o->plan, error);
  if (rc) return rc;
  if (!o->plan.least || options->stream_budget < o->plan.least)
    return kit_fail(error, ACCEL_PLUGIN_E_DEVICE_MEMORY, -1,
                    "%llu bytes are too few for weights, which take at least %llu",
                    (unsigned long long)options->stream_budget, (unsigned long long)o->plan.least);
  if (options->stream_host_budget && options->stream_host_budget < o->plan.host)
    return kit_fail(error, ACCEL_PLUGIN_E_HOST_MEMORY, -1,
                    "%llu bytes of host memory are too few for weights, which take at least %llu",
                    (unsigned long long)options->stream_host_budget,
                    (unsigned long long)o->plan.host);
  o->place = calloc(open->program->n_weight + 1, sizeof *o->place);
  o->last = calloc(n_entry + 1, sizeof *o->last);
  o->followed = calloc(n_entry + 1, sizeof *o->followed);
  if (!o->place || !o->last || !o->followed)
    return kit_no_memory(error, open->program->n_weight * sizeof *o->place);
  for (uint32_t i = 0; i < n_entry; i++) o->followed[i] = i;
  o->running = n_entry; /* nothing ran */
  rc = open_ring(self, o, error);
  return rc ? rc : gpu_disk_open(self, open, &o->plan, &o->disk, error);
}

int32_t gpu_offload_loaded(gpu_self *self, accel_plugin_error *error) {
  return self->offload ? gpu_disk_loaded(self->offload->disk, error) : ACCEL_PLUGIN_OK;
}

void gpu_offload_close(gpu_self *self) {
  gpu_offload *o = self->offload;
  if (!o) return;
  if (o->copies) (void)gpu_plugin_api.end(o->copies, true, NULL, NULL);
  gpu_disk_close(o->disk);
  for (uint32_t i = 0; o->place && i < self->program->n_weight; i++) {
    if (o->place[i].pinned)
      gpu_plugin_api.release(self->device, o->place[i].pinned);
    else
      free(o->place[i].memory);
  }
  for (int i = 0; i < EVENTS; i++) {
    gpu_plugin_api.event_free(self->device, o->copied[i]);
    gpu_plugin_api.event_free(self->device, o->used[i]);
  }
  if (o->ring) gpu_plugin_api.release(self->device, o->ring);
  gpu_offload_plan_free(&o->plan);
  for (uint32_t i = 0; o->last && i < self->program->n_entry; i++) free(o->last[i].at);
  free(o->last);
  free(o->followed);
  free(o->disk_list);
  free(o->run.at);
  free(o->ahead.at);
  free(o->place);
  free(o);
  self->offload = NULL;
}

/* Says once that copies will be slower, and why. */
static void say_unpinned(gpu_offload *o, const char *why) {
  char message[400];
  if (o->unpinned || !o->host || !o->host->log) return;
  snprintf(message, sizeof message,
           "host memory for weights could not be pinned (%s): copies to the device are slower",
           why);
  o->host->log(o->host->self, WARNING, message);
}

int32_t gpu_offload_pin(const gpu_self *self, uint64_t bytes, gpu_buffer **buffer, char **memory,
                        accel_plugin_error *error) {
  gpu_offload *o = self->offload;
  accel_plugin_error why = {.size = sizeof why, .node = -1};
  void *mapped = NULL;
  *buffer = NULL;
  const int32_t rc = kit_fault(o->host, "pinned")
                         ? kit_fail(&why, ACCEL_PLUGIN_E_HOST_MEMORY, -1, "fault injected")
                         : gpu_plugin_api.alloc(self->device, bytes, true, buffer, &mapped, &why);
  if (rc == ACCEL_PLUGIN_E_DEVICE_LOST) return kit_fail(error, rc, -1, "%s", why.message);
  if (rc || !mapped) {
    if (*buffer) gpu_plugin_api.release(self->device, *buffer);
    *buffer = NULL;
    mapped = kit_alloc_pages(bytes);
    if (!mapped) return kit_no_memory(error, bytes);
    say_unpinned(o, why.message);
    o->unpinned = true;
  }
  *memory = mapped;
  return ACCEL_PLUGIN_OK;
}

void gpu_offload_place(gpu_self *self, uint32_t weight, uint64_t data, uint64_t scale) {
  place *p = &self->offload->place[weight];
  p->data = data;
  p->scale = scale;
  p->scale_at = gpu_offload_rounded(data);
}

int32_t gpu_offload_room(gpu_self *self, uint32_t weight, uint64_t data, uint64_t scale, char **out,
                         accel_plugin_error *error) {
  place *p = &self->offload->place[weight];
  gpu_offload_place(self, weight, data, scale);
  const int32_t rc = gpu_offload_pin(self, p->scale_at + gpu_offload_rounded(scale), &p->pinned,
                                     &p->memory, error);
  *out = p->memory;
  return rc;
}

/* ---- the ring ---- */

/* Where so many bytes go, behind the newest that is there; false: there is no room yet.  oldest: the
 * first entry that is in the ring; NULL: none is. */
static bool find_room(const gpu_offload *o, const entry *oldest, uint64_t bytes, uint64_t *out) {
  *out = o->at;
  if (oldest && o->at <= oldest->first) return bytes <= oldest->first - o->at;
  if (bytes <= o->plan.ring - o->at) return true;
  *out = 0;
  return bytes <= (oldest ? oldest->first : o->plan.ring);
}

/* The copies that are told next begin behind the launches that read what they write over. */
static int32_t wait_for_launch(gpu_offload *o, const entry *e, accel_plugin_error *error) {
  for (int64_t k = (int64_t)o->first - 1; k > o->waited; k--) {
    const entry *old = &o->run.at[k];
    if (old->used < 0 || old->first >= e->first + e->bytes || e->first >= old->first + old->bytes)
      continue;
    o->waited = k;
    return gpu_plugin_api.wait(o->copies, o->used[old->used], error);
  }
  return ACCEL_PLUGIN_OK;
}

/* Bytes [from, from + bytes) of a weight's host memory, to the ring. */
static int32_t copy(gpu_offload *o, const place *p, uint64_t from, gpu_memory to,
                    accel_plugin_error *error) {
  int32_t rc = ACCEL_PLUGIN_OK;
  to.bytes = (to.bytes + 3) / 4 * 4;
  if (p->pinned) {
    const gpu_binding source = {.buffer = p->pinned, .offset = from, .bytes = to.bytes},
                      target = gpu_memory_at(&to);
    return gpu_plugin_api.copy(o->copies, &target, &source, error);
  }
  for (uint64_t at = 0; !rc && at < to.bytes; at += GPU_UPDATE) {
    const gpu_binding part =
        gpu_part(gpu_memory_at(&to), at, to.bytes - at < GPU_UPDATE ? to.bytes - at : GPU_UPDATE);
    rc = gpu_plugin_api.update(o->copies, &part, p->memory + from + at, error);
  }
  return rc;
}

static gpu_memory in_ring(const gpu_offload *o, uint64_t at, uint64_t bytes) {
  return (gpu_memory){.buffer = o->ring, .offset = at, .bytes = bytes};
}

/* A weight that lies in host memory, to byte `at` of the ring. */
static int32_t copy_weight(gpu_offload *o, uint32_t weight, uint64_t at,
                           accel_plugin_error *error) {
  const place *p = &o->place[weight];
  int32_t rc = copy(o, p, 0, in_ring(o, at, p->data), error);
  if (!rc && p->scale) rc = copy(o, p, p->scale_at, in_ring(o, at + p->scale_at, p->scale), error);
  o->bytes += p->data + p->scale;
  return rc;
}

static int32_t begin_entry(gpu_offload *o, const entry *e, accel_plugin_error *error) {
  const int32_t rc = wait_for_launch(o, e, error);
  if (rc || !kit_fault(o->host, "copy")) return rc;
  return kit_fail(error, ACCEL_PLUGIN_E_DRIVER, (int32_t)e->node,
                  "copying weights to the device failed (fault injected)");
}

/* Copies what an entry reads, with event `index` behind it, or goes on with that.  *all false: some
 * of it has not come from the disk yet, and `wait` is false. */
static int32_t post(gpu_offload *o, const entry *e, uint32_t index, bool wait, bool *all,
                    accel_plugin_error *error) {
  *all = false;
  if (!o->began) {
    const int32_t rc = begin_entry(o, e, error);
    if (rc) return rc;
    o->began = true;
    o->began_weight = o->began_part = 0;
    o->began_at = e->first;
  }
  for (; o->began_weight < e->n_weight; o->began_weight++) {
    const uint32_t weight = e->weight[o->began_weight];
    const gpu_memory to = in_ring(o, o->began_at, o->plan.weight[weight].bytes);
    const int32_t rc = o->plan.on_disk[weight] ? gpu_disk_copy(o->disk, o->copies, weight,
                                                               &o->began_part, &to, wait, error)
                                               : copy_weight(o, weight, o->began_at, error);
    if (rc) return rc;
    if (o->plan.on_disk[weight] && o->began_part < gpu_disk_parts(o->disk, weight))
      return ACCEL_PLUGIN_OK;
    o->began_part = 0;
    o->began_at += o->plan.weight[weight].bytes;
  }
  o->began = false;
  *all = true;
  return gpu_plugin_api.record(o->copies, o->copied[index % EVENTS], error);
}

/* As many copies as there is room for; those before entry `needed` whatever it takes. */
static int32_t post_ahead(gpu_offload *o, uint32_t needed, accel_plugin_error *error) {
  while (o->posted < o->run.n && o->posted - o->first < AHEAD) {
    entry *e = &o->run.at[o->posted];
    const entry *oldest = o->first < o->posted ? &o->run.at[o->first] : NULL;
    bool all;
    if (!o->began && !find_room(o, oldest, e->bytes, &e->first)) break;
    const int32_t rc = post(o, e, o->posted, o->posted < needed, &all, error);
    if (rc || !all) return rc;
    o->at = e->first + e->bytes;
    o->posted++;
  }
  return ACCEL_PLUGIN_OK;
}

/* ---- runs ---- */

/* What a node reads of host memory; n_weight 0: nothing. */
static entry entry_of(const gpu_self *self, uint32_t node) {
  entry e = {.node = node, .used = -1};
  uint32_t w[GPU_OFFLOAD_PAIR];
  const uint32_t n = gpu_offload_operands(self->program, &self->program->node[node], w);
  for (uint32_t i = 0; i < n; i++) {
    if (!gpu_offload_has(self, w[i])) continue;
    e.weight[e.n_weight++] = w[i];
    e.bytes += self->offload->plan.weight[w[i]].bytes;
  }
  return e;
}

static int32_t make_room(entry_list *list, uint32_t n, accel_plugin_error *error) {
  if (n <= list->room) return ACCEL_PLUGIN_OK;
  entry *more = realloc(list->at, n * sizeof *more);
  if (!more) return kit_no_memory(error, n * sizeof *more);
  list->at = more;
  list->room = n;
  return ACCEL_PLUGIN_OK;
}

/* The run's entries.  Those that were copied ahead for it are in the ring already. */
static int32_t make_entries(const gpu_self *self, const kit_begin *begin,
                            accel_plugin_error *error) {
  gpu_offload *o = self->offload;
  entry_list *run = &o->run;
  const int32_t rc = make_room(run, begin->n_node, error);
  run->n = o->first = o->posted = 0;
  if (rc) return rc;
  for (uint32_t i = 0; i < begin->n_node; i++) {
    run->at[run->n] = entry_of(self, begin->node[i]);
    if (run->at[run->n].n_weight) run->n++;
  }
  while (o->posted < o->ahead.n && o->posted < run->n &&
         o->ahead.at[o->posted].node == run->at[o->posted].node) {
    run->at[o->posted].first = o->ahead.at[o->posted].first;
    o->posted++;
  }
  /* behind those that another run was expected to read goes what this one does: in order */
  if (!o->posted && !o->ahead.n) o->at = 0;
  o->ahead.n = 0;
  o->bytes = o->ahead_bytes;
  o->ahead_bytes = 0;
  o->began = false;
  o->waited = -1;
  return ACCEL_PLUGIN_OK;
}

/* What of the run is read from the disk; of entries that are in the ring nothing. */
static int32_t begin_disk(gpu_offload *o, const kit_begin *begin, accel_plugin_error *error) {
  uint32_t n = 0;
  if (!o->disk) return ACCEL_PLUGIN_OK;
  const uint32_t most = o->run.n * GPU_OFFLOAD_PAIR;
  if (most > o->disk_room) {
    uint32_t *more = realloc(o->disk_list, most * sizeof *more);
    if (!more) return kit_no_memory(error, most * sizeof *more);
    o->disk_list = more;
    o->disk_room = most;
  }
  for (uint32_t i = 0; i < o->run.n; i++)
    for (uint32_t k = 0; k < o->run.at[i].n_weight; k++)
      if (o->plan.on_disk[o->run.at[i].weight[k]]) o->disk_list[n++] = o->run.at[i].weight[k];
  return gpu_disk_begin(o->disk, begin, o->disk_list, n, error);
}

int32_t gpu_offload_begin(gpu_run *run, const kit_begin *begin, accel_plugin_error *error) {
  gpu_offload *o = run->self->offload;
  if (!o || !o->ring || !begin->node) return ACCEL_PLUGIN_OK;
  if (o->running < run->self->program->n_entry) o->followed[o->running] = begin->entry;
  o->running = begin->entry;
  int32_t rc = make_entries(run->self, begin, error);
  if (!rc) rc = begin_disk(o, begin, error);
  if (!rc && !o->copies)
    rc = gpu_plugin_api.begin_copies(run->self->device, o->host, &o->copies, error);
  return rc ? rc : post_ahead(o, 0, error);
}

/* The nodes of a launch: its own, then those fused with it. */
static uint32_t node_of(const kit_launch *l, uint32_t m) {
  return m ? l->joined[m - 1].index : l->index;
}

/* Entries of the launch: [*from, *to).  Those before are of launches that had nothing to do. */
static bool find_entries(const gpu_self *self, const kit_launch *l, uint32_t *from, uint32_t *to) {
  const gpu_offload *o = self->offload;
  uint32_t at = o->first;
  bool any = false;
  for (uint32_t m = 0; m <= l->n_fused; m++) {
    const uint32_t node = node_of(l, m);
    if (!entry_of(self, node).n_weight) continue;
    while (at < o->run.n && o->run.at[at].node != node) at++;
    if (!any) *from = at;
    any = true;
    *to = ++at;
  }
  return any;
}

/* The kernels told next read a weight where its entry put it. */
static uint64_t show(gpu_self *self, uint32_t weight, uint64_t at) {
  gpu_offload *o = self->offload;
  place *p = &o->place[weight];
  gpu_weight *w = &self->weight[weight];
  p->in_ring[0] = in_ring(o, at, p->data);
  p->in_ring[1] = in_ring(o, at + p->scale_at, p->scale);
  w->data = &p->in_ring[0];
  w->scale = p->scale ? &p->in_ring[1] : NULL;
  return at + o->plan.weight[weight].bytes;
}

/* Entries before `from` are not read any more. */
static void leave(gpu_offload *o, uint32_t from) {
  for (; o->first < from; o->first++) {
    if (o->first < o->posted) continue;
    o->posted++;
    o->began = false;
  }
}

int32_t gpu_offload_take(gpu_run *run, const kit_launch *l, accel_plugin_error *error) {
  gpu_offload *o = run->self->offload;
  uint32_t from, to;
  if (!o || !o->copies || !find_entries(run->self, l, &from, &to)) return ACCEL_PLUGIN_OK;
  leave(o, from);
  const int32_t rc = post_ahead(o, to, error);
  if (rc) return rc;
  if (to > o->posted)
    return kit_launch_fail(l, error, ACCEL_PLUGIN_E_UNSUPPORTED,
                           "a mistake of the op layer: its weights are not the next ones");
  for (uint32_t i = from; i < to; i++) {
    uint64_t at = o->run.at[i].first;
    for (uint32_t k = 0; k < o->run.at[i].n_weight; k++)
      at = show(run->self, o->run.at[i].weight[k], at);
  }
  return gpu_plugin_api.wait(run->stream, o->copied[(to - 1) % EVENTS], error);
}

int32_t gpu_offload_done(gpu_run *run, const kit_launch *l, accel_plugin_error *error) {
  gpu_offload *o = run->self->offload;
  uint32_t from, to;
  if (!o || !o->copies || !find_entries(run->self, l, &from, &to)) return ACCEL_PLUGIN_OK;
  const int32_t event = (int32_t)((to - 1) % EVENTS);
  for (uint32_t i = from; i < to; i++) o->run.at[i].used = event;
  o->first = to;
  const int32_t rc = gpu_plugin_api.record(run->stream, o->used[event], error);
  return rc ? rc : post_ahead(o, 0, error);
}

/* ---- behind a run ---- */

static bool reads_disk(const gpu_offload *o, const entry *e) {
  bool any = false;
  for (uint32_t i = 0; i < e->n_weight; i++) any |= o->plan.on_disk[e->weight[i]];
  return any;
}

/* The first entries of the run that is expected next, as many as the ring has room for beside none:
 * copies over what this run's last launches read wait for them. */
static int32_t post_next(gpu_offload *o, accel_plugin_error *error) {
  const entry_list *next = &o->last[o->followed[o->running]];
  entry_list *ahead = &o->ahead;
  int32_t rc = make_room(ahead, next->n < AHEAD ? next->n : AHEAD, error);
  leave(o, o->run.n);
  o->bytes = 0;
  while (!rc && ahead->n < next->n && ahead->n < AHEAD) {
    entry *e = &ahead->at[ahead->n];
    bool all;
    *e = next->at[ahead->n];
    e->used = -1;
    if (reads_disk(o, e) || !find_room(o, ahead->n ? ahead->at : NULL, e->bytes, &e->first)) break;
    rc = post(o, e, ahead->n, false, &all, error);
    if (rc) break;
    o->at = e->first + e->bytes;
    ahead->n++;
  }
  o->ahead_bytes = o->bytes;
  return rc;
}

/* What fails here comes again in the next run. */
static void copy_ahead(const gpu_self *self) {
  gpu_offload *o = self->offload;
  accel_plugin_error ignored = {.size = sizeof ignored, .node = -1};
  const entry_list spare = o->last[o->running];
  o->last[o->running] = o->run;
  if (!gpu_plugin_api.begin_copies(self->device, o->host, &o->copies, &ignored) &&
      post_next(o, &ignored)) {
    (void)gpu_plugin_api.end(o->copies, true, NULL, NULL);
    o->copies = NULL;
    o->ahead.n = 0;
  }
  o->run = spare;
}

int32_t gpu_offload_end(gpu_run *run, bool ok, accel_plugin_error *error) {
  gpu_offload *o = run->self->offload;
  if (!o) return ACCEL_PLUGIN_OK;
  gpu_disk_end(o->disk, ok);
  if (!o->copies) return ACCEL_PLUGIN_OK;
  const int32_t rc = gpu_plugin_api.end(o->copies, !ok, NULL, error);
  o->copies = NULL;
  if (o->host && o->host->weights_copied && o->bytes)
    o->host->weights_copied(o->host->self, o->bytes);
  if (ok && !rc) copy_ahead(run->self);
  return rc;
}
