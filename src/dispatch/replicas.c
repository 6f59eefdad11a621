/* replicas.c - see replicas.h. */
#include "dispatch/replicas.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "core/monotonic.h"
#include "dispatch/queue.h"

struct accel__replicas {
  uint32_t n;
  accel_endpoint *ep[ACCEL__MAX_REPLICAS];
  pthread_mutex_t lock; /* of all below, and of the calls that share work */
  pthread_cond_t changed;
  accel__schedule schedule[ACCEL__WORK_KINDS];
  /* of the queues of the replicas */
  struct {
    uint64_t requests, tokens;
  } generated[ACCEL__MAX_REPLICAS];
  char why[ACCEL__MAX_REPLICAS][ACCEL__MESSAGE_BYTES]; /* those that are lost; once, and for good */
  uint32_t untold; /* of them, those that the log has not, a bit each */
};

enum {
  MOST_BACK = 2 * ACCEL__MAX_REPLICAS, /* ranges that wait to be done by somebody else */
  MOST_FAILURES = 3,                   /* of one replica in one call, before it is left alone */
  MOST_IDLE_WAITS = 4 /* those who would do it sooner may not: whoever asks next takes an item */
};

/* Items that one replica has taken, or that came back. */
typedef struct range {
  uint32_t first, n;
  uint64_t units;
  uint32_t failed_on, given_up_on; /* replicas, a bit each */
} range;

typedef struct call call;

/* What one replica does for a call. */
typedef struct hand {
  call *call;
  uint32_t replica;
  bool busy, started;
  uint32_t failures;
  atomic_bool give_up; /* somebody else does it sooner */
  range at;
  accel__scheduled_run run;
  pthread_t thread;
} hand;

struct call {
  accel__replicas *group;
  accel__schedule *schedule;
  const accel__work *work;
  const atomic_bool *cancel; /* of the caller's thread */
  uint32_t head, tail, done; /* items [head, tail) wait */
  uint64_t left;             /* units that wait, of ranges that came back, too */
  range back[MOST_BACK];
  uint32_t n_back, running;
  uint32_t idle_waits; /* one behind another in which nothing ran */
  accel__failure failure;
  hand hand[ACCEL__MAX_REPLICAS];
};

static double now_s(void) { return 1e-9 * (double)accel__now_ns(); }

/* ---- the group ---- */

accel_status accel__replicas_new(accel_endpoint *ep, accel_endpoint *const *others, uint32_t n,
                                 const bool *on_trial) {
  accel__replicas *g = calloc(1, sizeof *g);
  if (!g) return accel__no_memory(sizeof *g);
  g->n = n;
  g->ep[0] = ep;
  memcpy(g->ep + 1, others, (n - 1) * sizeof *others);
  accel__cond_init(&g->changed);
  pthread_mutex_init(&g->lock, NULL);
  for (int k = 0; k < ACCEL__WORK_KINDS; k++) accel__schedule_init(&g->schedule[k], n, on_trial);
  ep->replicas = g;
  for (uint32_t i = 0; i < n; i++) g->ep[i]->first_replica = ep;
  return ACCEL_OK;
}

void accel__replicas_free(accel_endpoint *ep) {
  accel__replicas *g = ep->replicas;
  if (!g) return;
  pthread_cond_destroy(&g->changed);
  pthread_mutex_destroy(&g->lock);
  free(g);
  ep->replicas = NULL;
}

uint32_t accel__replicas_count(const accel_endpoint *ep) {
  return ep->replicas ? ep->replicas->n : 1;
}

accel_endpoint *accel__replica(accel_endpoint *ep, uint32_t i) {
  return ep->replicas ? ep->replicas->ep[i] : ep;
}

uint32_t accel__replicas_in(accel_endpoint *ep, accel__work_kind kind) {
  accel__replicas *g = ep->replicas;
  uint32_t n = 0;
  if (!g) return 1;
  pthread_mutex_lock(&g->lock);
  for (uint32_t i = 0; i < g->n; i++)
    n += g->schedule[kind].replica[i].standing == ACCEL__REPLICA_IN;
  pthread_mutex_unlock(&g->lock);
  return n ? n : 1;
}

/* How it stands in the kind of which it has done most.  With the lock held. */
static void add_counts(const accel__replicas *g, uint32_t i, accel_replica_stats *to) {
  static const int32_t standing[] = {
      [ACCEL__REPLICA_IN] = 1, [ACCEL__REPLICA_OUT] = 0, [ACCEL__REPLICA_LOST] = -1};
  uint64_t most = 0;
  for (int k = 0; k < ACCEL__WORK_KINDS; k++) {
    const accel__scheduled *now = &g->schedule[k].replica[i];
    if (k == 0 || now->units > most) to->standing = standing[now->standing];
    if (now->units > most) most = now->units;
    to->runs += now->runs;
    to->seconds += now->seconds;
    to->failures += now->failures;
    to->trials += now->trials;
    if (k == ACCEL__WORK_STEPS) continue; /* a request is in many of them */
    to->items += now->items;
    to->units += now->units;
  }
  to->items += g->generated[i].requests;
  to->units += g->generated[i].tokens;
}

accel_replica_stats accel__replica_statistics(accel_endpoint *ep, uint32_t i) {
  accel__replicas *g = ep->replicas;
  const accel_endpoint *replica = accel__replica(ep, i);
  accel_replica_stats now = {.size = sizeof now,
                             .standing = 1,
                             .device = replica->placed_on->info.name,
                             .precision = replica->placed.precision.name,
                             .implementation_type = replica->placed.plugin->implementation_type,
                             .reason = ""};
  if (!g) return now;
  pthread_mutex_lock(&g->lock);
  add_counts(g, i, &now);
  if (now.standing < 0) now.reason = g->why[i];
  pthread_mutex_unlock(&g->lock);
  return now;
}

/* ---- what waits (with the lock held) ---- */

static uint64_t cost_of(const call *c, uint32_t item) {
  const uint64_t units = c->work->cost(c->work->user, item);
  return units ? units : 1;
}

static bool is_open(const call *c) {
  return c->failure.status == ACCEL_OK && (c->head < c->tail || c->n_back || c->running);
}

/* From the front, where a trial takes from the end: the items there may be the smaller ones. */
static range take_items(call *c, uint64_t units, bool trial) {
  const accel__work *w = c->work;
  range r = {.first = c->head};
  while (c->head + r.n < c->tail && (!w->most_items || r.n < w->most_items)) {
    const uint64_t cost = cost_of(c, trial ? c->tail - 1 - r.n : c->head + r.n);
    if (r.n && r.units + cost > units) break;
    r.units += cost;
    r.n++;
  }
  if (trial) {
    c->tail -= r.n;
    r.first = c->tail;
  } else {
    c->head += r.n;
  }
  return r;
}

/* Whether the replica may take anything in this call. */
static bool may_work(const call *c, uint32_t replica) {
  return c->schedule->replica[replica].standing != ACCEL__REPLICA_LOST &&
         c->hand[replica].failures < MOST_FAILURES;
}

/* Whether a replica of that standing, which has not failed at it, may take the range. */
static bool has_taker(const call *c, const range *r, accel__replica_standing standing) {
  for (uint32_t i = 0; i < c->group->n; i++)
    if (c->schedule->replica[i].standing == standing && may_work(c, i) && !(r->failed_on >> i & 1))
      return true;
  return false;
}

/* A range that came back and that the replica may take: one that is out, where all others failed. */
static bool take_back(call *c, uint32_t replica, range *out) {
  const accel__replica_standing standing = c->schedule->replica[replica].standing;
  for (uint32_t i = 0; i < c->n_back; i++) {
    const uint32_t given_up_on = c->back[i].given_up_on;
    const range others = {.failed_on = c->back[i].failed_on | given_up_on | 1u << replica};
    if (c->back[i].failed_on >> replica & 1) continue;
    /* it was taken away from this one for another, from which it was not taken yet */
    if (given_up_on >> replica & 1 && has_taker(c, &others, ACCEL__REPLICA_IN)) continue;
    if (standing == ACCEL__REPLICA_OUT && has_taker(c, &c->back[i], ACCEL__REPLICA_IN)) continue;
    *out = c->back[i];
    c->back[i] = c->back[--c->n_back];
    return true;
  }
  return false;
}

/* What the replica is to do next, if anything. */
static bool claim(call *c, uint32_t replica) {
  hand *h = &c->hand[replica];
  const double now = now_s();
  const bool trial = c->schedule->replica[replica].standing == ACCEL__REPLICA_OUT;
  if (!may_work(c, replica)) return false;
  if (!take_back(c, replica, &h->at)) {
    if (c->head == c->tail || c->n_back + c->running == MOST_BACK) return false;
    const uint64_t most = c->work->most ? c->work->most : UINT64_MAX,
                   next = cost_of(c, trial ? c->tail - 1 : c->head),
                   units = accel__schedule_offer(c->schedule, replica, now, c->left, next, most);
    if (!units && (trial || c->idle_waits < MOST_IDLE_WAITS)) return false;
    h->at = take_items(c, units ? units : next, trial);
  }
  c->left -= h->at.units;
  h->busy = true;
  atomic_store(&h->give_up, false);
  c->running++;
  c->idle_waits = 0;
  accel__schedule_begin(c->schedule, replica, now, h->at.units, h->at.n, &h->run);
  return true;
}

/* ---- how a run has ended (with the lock held) ---- */

/* Failures of the device, or of the model's precision on it; the others are of the items. */
static bool is_of_the_replica(accel_status status) {
  switch (status) {
    case ACCEL_ERROR_DEVICE_LOST:
    case ACCEL_ERROR_DRIVER:
    case ACCEL_ERROR_DEVICE_UNAVAILABLE:
    case ACCEL_ERROR_OUT_OF_MEMORY:
    case ACCEL_ERROR_NONFINITE:
    case ACCEL_ERROR_INTERNAL:
      return true;
    default:
      return false;
  }
}

static void fail_call(call *c, accel_status status) {
  if (c->failure.status == ACCEL_OK) accel__failure_keep(&c->failure, status);
  for (uint32_t i = 0; i < c->group->n; i++) atomic_store(&c->hand[i].give_up, true);
}

/* This thread's message says why.  tell_lost() says so to the log. */
static void lose(accel__replicas *g, uint32_t replica) {
  for (int k = 0; k < ACCEL__WORK_KINDS; k++) accel__schedule_lose(&g->schedule[k], replica);
  if (g->why[replica][0]) return;
  strncpy(g->why[replica], accel__message(), sizeof g->why[replica] - 1);
  g->untold |= 1u << replica;
}

/* Lets the lock go meanwhile: the application's callback may look at the endpoint, and change this
 * thread's message. */
static void tell_lost(accel__replicas *g) {
  const uint32_t untold = g->untold;
  accel__failure kept;
  if (!untold) return;
  g->untold = 0;
  accel__failure_keep(&kept, ACCEL_ERROR_DEVICE_LOST);
  pthread_mutex_unlock(&g->lock);
  for (uint32_t i = 0; i < g->n; i++)
    if (untold >> i & 1)
      accel__logf(&g->ep[i]->ctx->log, ACCEL_LOG_WARNING, "%s takes no more work: %s",
                  g->ep[i]->placed_on->info.name, g->why[i]);
  pthread_mutex_lock(&g->lock);
  accel__failure_raise(&kept);
}

/* Somebody else is to do it; where nobody can, the failure is the call's. */
static void give_back(call *c, hand *h, accel_status status) {
  range *r = &c->back[c->n_back++];
  *r = h->at;
  c->left += r->units;
  if (status == ACCEL_OK) {
    r->given_up_on |= 1u << h->replica;
    return;
  }
  r->failed_on |= 1u << h->replica;
  h->failures++;
  if (status == ACCEL_ERROR_DEVICE_LOST) lose(c->group, h->replica);
  if (has_taker(c, r, ACCEL__REPLICA_IN) || has_taker(c, r, ACCEL__REPLICA_OUT))
    accel__clear_error();
  else
    fail_call(c, status);
}

/* A trial of this call that takes longer than it may is given up. */
static void end_overdue(call *c) {
  uint32_t r;
  if (accel__schedule_overdue(c->schedule, now_s(), &r) && c->hand[r].busy)
    atomic_store(&c->hand[r].give_up, true);
}

static bool is_final(const call *c) { return c->work->final && atomic_load(c->work->final); }

static void finish(call *c, hand *h, accel_status status) {
  const bool left =
      status == ACCEL_ERROR_CANCELLED && atomic_load(&h->give_up) && c->failure.status == ACCEL_OK;
  h->busy = false;
  c->running--;
  accel__schedule_end(c->schedule, &h->run, now_s(), status == ACCEL_OK);
  if (status == ACCEL_OK)
    c->done += h->at.n;
  else if (!is_final(c) && (left || is_of_the_replica(status)))
    give_back(c, h, left ? ACCEL_OK : status);
  else
    fail_call(c, status);
  if (left) accel__clear_error();
  end_overdue(c);
  pthread_cond_broadcast(&c->group->changed);
}

/* ---- the threads ---- */

static void *serve(void *hand);

/* Threads for the replicas that would take something of what is left. */
static void start_others(call *c) {
  for (uint32_t i = 0; i < c->group->n; i++) {
    hand *h = &c->hand[i];
    if (h->started || h->busy || !claim(c, i)) continue;
    h->started = true;
    if (!accel__thread_start(&h->thread, 0, "accel-replica", serve, h)) continue;
    h->started = false; /* no thread: it is as if it had not been asked */
    finish(c, h, accel__fail(ACCEL_ERROR_OUT_OF_MEMORY, "no thread for a replica"));
  }
}

/* An idle replica has nothing to do and another is still long at something: it is given up, so that
 * this one can do it.  So is a trial that takes longer than it may. */
static void rescue(call *c, uint32_t idle) {
  const double now = now_s();
  end_overdue(c);
  if (c->head < c->tail || c->n_back || c->schedule->replica[idle].standing != ACCEL__REPLICA_IN)
    return;
  for (uint32_t i = 0; i < c->group->n; i++) {
    hand *h = &c->hand[i];
    if (i == idle || !h->busy) continue;
    const double so_far = now - h->run.begin,
                 planned = accel__schedule_predict(c->schedule, i, h->at.units),
                 rest = fmax(planned - so_far, so_far / 4),
                 mine = accel__schedule_finish(c->schedule, idle, now, h->at.units);
    if (mine > 0 && mine < 0.5 * rest) atomic_store(&h->give_up, true);
  }
}

/* This thread runs a range for a replica: what it calls runs there. */
static _Thread_local bool inside;

static void run_claimed(call *c, hand *h, const atomic_bool *before) {
  const range at = h->at;
  pthread_mutex_unlock(&c->group->lock);
  accel__thread_cancel_also(&h->give_up);
  inside = true;
  const accel_status status = c->work->run(c->work->user, c->group->ep[h->replica], at.first, at.n);
  inside = false;
  accel__thread_cancel_also(before);
  pthread_mutex_lock(&c->group->lock);
  finish(c, h, status);
  tell_lost(c->group);
}

/* No replica runs anything, of any call. */
static bool all_rest(const accel__schedule *s) {
  for (uint32_t i = 0; i < s->n; i++)
    if (s->replica[i].running) return false;
  return true;
}

/* Some milliseconds at most: what is overdue is looked for. */
static void wait_a_little(call *c) {
  accel__replicas *g = c->group;
  struct timespec until;
  if (all_rest(c->schedule)) c->idle_waits++;
  clock_gettime(CLOCK_MONOTONIC, &until);
  until.tv_nsec += 5000000;
  if (until.tv_nsec >= 1000000000) until.tv_sec++, until.tv_nsec -= 1000000000;
  pthread_cond_timedwait(&g->changed, &g->lock, &until);
}

/* A replica's own thread, which begins with what was claimed for it. */
static void *serve(void *arg) {
  hand *h = arg;
  call *c = h->call;
  accel__thread_cancel(c->cancel);
  pthread_mutex_lock(&c->group->lock);
  run_claimed(c, h, NULL);
  while (is_open(c)) {
    if (claim(c, h->replica)) {
      run_claimed(c, h, NULL);
      continue;
    }
    rescue(c, h->replica);
    if (is_open(c)) wait_a_little(c);
  }
  pthread_mutex_unlock(&c->group->lock);
  return NULL;
}

/* The replica without a thread that would be done first with a range; -1: none takes work. */
static int next_for_caller(const call *c) {
  const double now = now_s();
  double soonest = INFINITY;
  int found = -1;
  const uint64_t most = c->work->most ? c->work->most : UINT64_MAX,
                 units = c->left < most ? c->left : most;
  for (uint32_t i = 0; i < c->group->n; i++) {
    const accel__replica_standing standing = c->schedule->replica[i].standing;
    if (c->hand[i].started || !may_work(c, i)) continue;
    if (standing == ACCEL__REPLICA_OUT && found >= 0) continue;
    const double end = accel__schedule_finish(c->schedule, i, now, units);
    if (end >= soonest && found >= 0) continue;
    soonest = end;
    found = (int)i;
  }
  return found;
}

static void tell(call *c) {
  const uint32_t done = c->done;
  if (!c->work->tell) return;
  pthread_mutex_unlock(&c->group->lock);
  c->work->tell(c->work->user, done);
  pthread_mutex_lock(&c->group->lock);
}

/* The caller's thread: works for a replica that has no thread, tells how far it is. */
static void lead(call *c, accel *ctx) {
  const atomic_bool *before = accel__thread_cancel_also(NULL);
  uint32_t told = 0;
  while (is_open(c)) {
    const int i = next_for_caller(c);
    if (c->done != told) {
      told = c->done;
      tell(c);
    }
    if (accel__is_cancelled(ctx)) {
      fail_call(c, accel__check_cancelled(ctx));
    } else if (i >= 0 && claim(c, (uint32_t)i)) {
      start_others(c);
      run_claimed(c, &c->hand[i], before);
    } else {
      start_others(c);
      if (i >= 0) rescue(c, (uint32_t)i);
      if (is_open(c)) wait_a_little(c);
    }
  }
  accel__thread_cancel_also(before);
}

/* Whether anybody may take work; with the lock held. */
static accel_status check_alive(const accel__replicas *g, const accel__schedule *s) {
  for (uint32_t i = 0; i < g->n; i++)
    if (s->replica[i].standing != ACCEL__REPLICA_LOST) return ACCEL_OK;
  return accel__fail(ACCEL_ERROR_DEVICE_LOST, "%s: all %u devices are lost; the first by this: %s",
                     g->ep[0]->name, g->n, g->why[0]);
}

static accel_status share(accel_endpoint *ep, const accel__work *work) {
  accel__replicas *g = ep->replicas;
  call *c = calloc(1, sizeof *c);
  if (!c) return accel__no_memory(sizeof *c);
  *c = (call){.group = g,
              .schedule = &g->schedule[work->kind],
              .work = work,
              .cancel = accel__thread_cancelled_by(),
              .tail = work->n};
  for (uint32_t i = 0; i < g->n; i++) c->hand[i] = (hand){.call = c, .replica = i};
  for (uint32_t i = 0; i < work->n; i++) c->left += cost_of(c, i);
  pthread_mutex_lock(&g->lock);
  const accel_status alive = check_alive(g, c->schedule);
  if (alive != ACCEL_OK) fail_call(c, alive);
  lead(c, ep->ctx);
  pthread_mutex_unlock(&g->lock);
  for (uint32_t i = 0; i < g->n; i++)
    if (c->hand[i].started) pthread_join(c->hand[i].thread, NULL);
  const accel_status status = accel__failure_raise(&c->failure);
  if (status == ACCEL_OK && work->tell) work->tell(work->user, work->n);
  free(c);
  return status;
}

/* ---- generations of queues ---- */

/* The group of any of its replicas, and which one it is; NULL: the endpoint is alone. */
static accel__replicas *group_of(const accel_endpoint *ep, uint32_t *number) {
  accel__replicas *g = ep->first_replica ? ep->first_replica->replicas : NULL;
  *number = 0;
  while (g && g->ep[*number] != ep) ++*number;
  return g;
}

struct accel_queue *accel__replica_queue(struct accel_queue *queue) {
  uint32_t number, best;
  accel_endpoint *ep = accel__queue_endpoint(queue);
  accel__replicas *g = group_of(ep, &number);
  uint32_t load[ACCEL__MAX_REPLICAS];
  double soonest = INFINITY;
  if (!g) return queue;
  /* the queue at hand, where it is one of the first replica's, is the one that is filled */
  for (uint32_t i = 0; i < g->n; i++)
    load[i] = accel__queue_load(i == number ? queue : g->ep[i]->queue);
  best = g->n;
  pthread_mutex_lock(&g->lock);
  const accel__schedule *s = &g->schedule[ACCEL__WORK_STEPS];
  for (uint32_t i = 0; i < g->n; i++) {
    if (s->replica[i].standing != ACCEL__REPLICA_IN) continue;
    const double known = accel__schedule_predict(s, i, load[i] + 1),
                 step = known > 0 ? known : load[i] + 1;
    if (step >= soonest) continue;
    soonest = step;
    best = i;
  }
  pthread_mutex_unlock(&g->lock);
  if (best == g->n) return NULL;
  return best == number ? queue : g->ep[best]->queue;
}

void accel__replica_step_begin(accel_endpoint *ep, uint32_t requests, accel__scheduled_run *run) {
  uint32_t number;
  accel__replicas *g = group_of(ep, &number);
  if (!g) return;
  pthread_mutex_lock(&g->lock);
  accel__schedule_begin(&g->schedule[ACCEL__WORK_STEPS], number, now_s(), requests, requests, run);
  pthread_mutex_unlock(&g->lock);
}

void accel__replica_step_end(accel_endpoint *ep, const accel__scheduled_run *run) {
  uint32_t number;
  accel__replicas *g = group_of(ep, &number);
  if (!g) return;
  pthread_mutex_lock(&g->lock);
  accel__schedule_end(&g->schedule[ACCEL__WORK_STEPS], run, now_s(), true);
  pthread_mutex_unlock(&g->lock);
}

void accel__replica_generated(accel_endpoint *ep, uint64_t tokens) {
  uint32_t number;
  accel__replicas *g = group_of(ep, &number);
  if (!g) return;
  pthread_mutex_lock(&g->lock);
  g->generated[number].requests++;
  g->generated[number].tokens += tokens;
  pthread_mutex_unlock(&g->lock);
}

void accel__replica_lost(accel_endpoint *ep) {
  uint32_t number;
  accel__replicas *g = group_of(ep, &number);
  if (!g) return;
  pthread_mutex_lock(&g->lock);
  lose(g, number);
  tell_lost(g);
  pthread_mutex_unlock(&g->lock);
}

/* ---- without replicas ---- */

static accel_status run_all(accel_endpoint *ep, const accel__work *w) {
  for (uint32_t first = 0, n; first < w->n; first += n) {
    uint64_t units = 0;
    for (n = 0; first + n < w->n && (!w->most_items || n < w->most_items); n++) {
      const uint64_t cost = w->cost(w->user, first + n);
      if (n && w->most && units + cost > w->most) break;
      units += cost;
    }
    ACCEL_TRY(w->run(w->user, ep, first, n));
    if (w->tell) w->tell(w->user, first + n);
  }
  return ACCEL_OK;
}

accel_status accel__share_work(accel_endpoint *ep, const accel__work *work) {
  if (!work->n) return ACCEL_OK;
  return ep->replicas && !inside ? share(ep, work) : run_all(ep, work);
}
