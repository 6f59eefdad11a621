/* gpu_offload.c - the ring: which weights of a run are on their way, where they lie, and the events
 * between copies and launches. */
#include "gpu/gpu_offload.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "gpu/gpu_offload_plan.h"

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

struct gpu_offload {
  gpu_offload_plan plan;
  place *place;     /* [n_weight] */
  gpu_buffer *ring; /* no part of the pool: kernels bind whole chunks of that (gpu_pool_chunk) */
  gpu_event *copied[EVENTS], *used[EVENTS];
  const accel_plugin_host *host; /* of init, until close */
  bool unpinned;                 /* some host memory is not pinned, which was said */
  /* of the run under way */
  gpu_stream *copies;
  entry *entry; /* [n] in the order of launches */
  uint32_t n, room;
  uint32_t first, posted; /* [first, posted) are in the ring or on their way */
  uint64_t at;            /* where the next goes */
  int64_t waited;         /* the last entry whose launch the copies wait for; -1: none */
  uint64_t bytes;         /* copied */
};

bool gpu_offload_has(const gpu_self *self, uint32_t weight) {
  return self->offload && !self->offload->plan.weight[weight].resident;
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
  if (!options->stream_budget) return ACCEL_PLUGIN_OK;
  if (!gpu_plugin_api.own_memory(open->device))
    return kit_fail(error, ACCEL_PLUGIN_E_UNSUPPORTED, -1,
                    "this device computes in host memory: its weights are not streamed");
  gpu_offload *o = calloc(1, sizeof *o);
  if (!o) return kit_no_memory(error, sizeof *o);
  self->offload = o; /* from here gpu_offload_close frees it */
  o->host = options->host;
  open->takes_turns = true;
  int32_t rc = gpu_offload_plan_make(open->program, options->precision.format,
                                     options->stream_budget, &o->plan, error);
  if (rc) return rc;
  if (!o->plan.least || options->stream_budget < o->plan.least)
    return kit_fail(error, ACCEL_PLUGIN_E_DEVICE_MEMORY, -1,
                    "%llu bytes are too few for weights, which take at least %llu",
                    (unsigned long long)options->stream_budget, (unsigned long long)o->plan.least);
  o->place = calloc(open->program->n_weight + 1, sizeof *o->place);
  if (!o->place) return kit_no_memory(error, open->program->n_weight * sizeof *o->place);
  return open_ring(self, o, error);
}

void gpu_offload_close(gpu_self *self) {
  gpu_offload *o = self->offload;
  if (!o) return;
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
  free(o->place);
  free(o->entry);
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

int32_t gpu_offload_room(gpu_self *self, uint32_t weight, uint64_t data, uint64_t scale, char **out,
                         accel_plugin_error *error) {
  gpu_offload *o = self->offload;
  place *p = &o->place[weight];
  accel_plugin_error why = {.size = sizeof why, .node = -1};
  void *mapped = NULL;
  p->data = data;
  p->scale = scale;
  p->scale_at = gpu_offload_rounded(data);
  const uint64_t bytes = p->scale_at + gpu_offload_rounded(scale);
  const int32_t rc =
      kit_fault(o->host, "pinned")
          ? kit_fail(&why, ACCEL_PLUGIN_E_HOST_MEMORY, -1, "fault injected")
          : gpu_plugin_api.alloc(self->device, bytes, true, &p->pinned, &mapped, &why);
  if (rc == ACCEL_PLUGIN_E_DEVICE_LOST) return kit_fail(error, rc, -1, "%s", why.message);
  if (rc || !mapped) {
    if (p->pinned) gpu_plugin_api.release(self->device, p->pinned);
    p->pinned = NULL;
    mapped = kit_alloc_pages(bytes);
    if (!mapped) return kit_no_memory(error, bytes);
    say_unpinned(o, why.message);
    o->unpinned = true;
  }
  *out = p->memory = mapped;
  return ACCEL_PLUGIN_OK;
}

/* ---- the ring ---- */

/* Where so many bytes go, behind the newest that is there; false: there is no room yet. */
static bool find_room(const gpu_offload *o, uint64_t bytes, uint64_t *out) {
  const bool empty = o->first == o->posted;
  const uint64_t oldest = empty ? 0 : o->entry[o->first].first, at = empty ? 0 : o->at;
  *out = at;
  if (empty) return bytes <= o->plan.ring;
  if (at <= oldest) return bytes <= oldest - at;
  if (bytes <= o->plan.ring - at) return true;
  *out = 0;
  return bytes <= oldest;
}

/* The copies that are told next begin behind the launches that read what they write over. */
static int32_t wait_for_launch(gpu_offload *o, const entry *e, accel_plugin_error *error) {
  for (int64_t k = (int64_t)o->first - 1; k > o->waited; k--) {
    const entry *old = &o->entry[k];
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

static int32_t post(gpu_offload *o, entry *e, accel_plugin_error *error) {
  uint64_t at = e->first;
  int32_t rc = wait_for_launch(o, e, error);
  if (!rc && kit_fault(o->host, "copy"))
    rc = kit_fail(error, ACCEL_PLUGIN_E_DRIVER, (int32_t)e->node,
                  "copying weights to the device failed (fault injected)");
  for (uint32_t i = 0; !rc && i < e->n_weight; i++) {
    const place *p = &o->place[e->weight[i]];
    rc = copy(o, p, 0, in_ring(o, at, p->data), error);
    at += p->scale_at;
    if (!rc && p->scale) rc = copy(o, p, p->scale_at, in_ring(o, at, p->scale), error);
    at += gpu_offload_rounded(p->scale);
    o->bytes += p->data + p->scale;
  }
  if (!rc) rc = gpu_plugin_api.record(o->copies, o->copied[o->posted % EVENTS], error);
  return rc;
}

/* As many copies as there is room for. */
static int32_t post_ahead(gpu_offload *o, accel_plugin_error *error) {
  while (o->posted < o->n && o->posted - o->first < AHEAD) {
    entry *e = &o->entry[o->posted];
    uint64_t at;
    if (!find_room(o, e->bytes, &at)) break;
    e->first = at;
    const int32_t rc = post(o, e, error);
    if (rc) return rc;
    o->posted++;
    o->at = at + e->bytes;
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

int32_t gpu_offload_begin(gpu_run *run, const kit_begin *begin, accel_plugin_error *error) {
  gpu_offload *o = run->self->offload;
  if (!o || !o->ring || !begin->node) return ACCEL_PLUGIN_OK;
  if (begin->n_node > o->room) {
    entry *more = realloc(o->entry, begin->n_node * sizeof *more);
    if (!more) return kit_no_memory(error, begin->n_node * sizeof *more);
    o->entry = more;
    o->room = begin->n_node;
  }
  o->n = o->first = o->posted = 0;
  o->at = o->bytes = 0;
  o->waited = -1;
  for (uint32_t i = 0; i < begin->n_node; i++) {
    o->entry[o->n] = entry_of(run->self, begin->node[i]);
    if (o->entry[o->n].n_weight) o->n++;
  }
  const int32_t rc = gpu_plugin_api.begin_copies(run->self->device, begin->host, &o->copies, error);
  return rc ? rc : post_ahead(o, error);
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
    while (at < o->n && o->entry[at].node != node) at++;
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

int32_t gpu_offload_take(gpu_run *run, const kit_launch *l, accel_plugin_error *error) {
  gpu_offload *o = run->self->offload;
  uint32_t from, to;
  if (!o || !o->copies || !find_entries(run->self, l, &from, &to)) return ACCEL_PLUGIN_OK;
  for (; o->first < from; o->first++) o->posted += o->first == o->posted;
  const int32_t rc = post_ahead(o, error);
  if (rc) return rc;
  if (to > o->posted)
    return kit_launch_fail(l, error, ACCEL_PLUGIN_E_UNSUPPORTED,
                           "a mistake of the op layer: its weights are not the next ones");
  for (uint32_t i = from; i < to; i++) {
    uint64_t at = o->entry[i].first;
    for (uint32_t k = 0; k < o->entry[i].n_weight; k++)
      at = show(run->self, o->entry[i].weight[k], at);
  }
  return gpu_plugin_api.wait(run->stream, o->copied[(to - 1) % EVENTS], error);
}

int32_t gpu_offload_done(gpu_run *run, const kit_launch *l, accel_plugin_error *error) {
  gpu_offload *o = run->self->offload;
  uint32_t from, to;
  if (!o || !o->copies || !find_entries(run->self, l, &from, &to)) return ACCEL_PLUGIN_OK;
  const int32_t event = (int32_t)((to - 1) % EVENTS);
  for (uint32_t i = from; i < to; i++) o->entry[i].used = event;
  o->first = to;
  if (o->posted == o->n) return ACCEL_PLUGIN_OK; /* nothing more is copied over them */
  const int32_t rc = gpu_plugin_api.record(run->stream, o->used[event], error);
  return rc ? rc : post_ahead(o, error);
}

int32_t gpu_offload_end(gpu_run *run, bool ok, accel_plugin_error *error) {
  gpu_offload *o = run->self->offload;
  if (!o || !o->copies) return ACCEL_PLUGIN_OK;
  const int32_t rc = gpu_plugin_api.end(o->copies, !ok, NULL, error);
  o->copies = NULL;
  if (o->host && o->host->weights_copied && o->bytes)
    o->host->weights_copied(o->host->self, o->bytes);
  return rc;
}
