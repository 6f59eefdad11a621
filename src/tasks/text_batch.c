/* text_batch.c - the group of prepared tasks that a queue's thread steps: each step is one run of the
 * model over pieces of all of them, taken in turn, so that a short request does not wait for the
 * end of a long one. */
#include "tasks/text_batch.h"

#include <stdlib.h>
#include <string.h>

#include "dispatch/replicas.h"
#include "processing/result.h"

/* One submitted task. */
typedef struct text_request {
  accel__text_task *task;
  uint32_t begun, done; /* pieces that were put into a step, and that have run */
  bool finished;
  accel__failure failure;
  struct text_request *next;
} text_request;

/* Where a piece of a step comes from. */
typedef struct origin {
  text_request *request;
  uint32_t index; /* of the piece in its task */
  bool taken;     /* its rows were handed over */
} origin;

typedef struct text_batch {
  accel_endpoint *ep;
  text_request *active; /* in the order in which they joined */
  /* of a step */
  uint32_t capacity, n;
  accel__piece *piece;
  origin *from;
} text_batch;

static accel_status open_batch(accel_endpoint *ep, void **state) {
  text_batch *b = *state = calloc(1, sizeof *b);
  if (!b) return accel__no_memory(sizeof *b);
  b->ep = ep;
  return ACCEL_OK;
}

static void close_batch(void *state) {
  text_batch *b = state;
  free(b->piece);
  free(b->from);
  free(b);
}

/* It ends with `status`, whose message is this thread's. */
static void end(text_request *r, accel_status status) {
  if (r->finished) return;
  if (status == ACCEL_OK) status = r->task->finish(r->task);
  r->finished = true;
  if (status != ACCEL_OK) accel__failure_keep(&r->failure, status);
}

static accel_status join(void *state, void *work) {
  text_batch *b = state;
  text_request *r = work, **last = &b->active;
  if (r->task->run_alone) ACCEL_TRY(r->task->run_alone(r->task));
  if (!r->task->run.pieces.n) end(r, ACCEL_OK);
  while (*last) last = &(*last)->next;
  *last = r;
  return ACCEL_OK;
}

static void cancel(void *state, void *work) {
  (void)state;
  end(work, accel__fail(ACCEL_ERROR_CANCELLED, "the request was cancelled"));
}

/* ---- a step ---- */

static bool same_run(const accel__piece_run *a, const accel__piece_run *b) {
  return !strcmp(a->entry, b->entry) && a->n_outputs == b->n_outputs &&
         !memcmp(a->output, b->output, a->n_outputs * sizeof *a->output);
}

static bool waits(const text_request *r, const accel__piece_run *run) {
  return !r->finished && r->begun < r->task->run.pieces.n && same_run(&r->task->run, run);
}

static accel_status add(text_batch *b, text_request *r) {
  if (b->n == b->capacity) {
    const uint32_t capacity = b->capacity + b->capacity / 2 + 64;
    accel__piece *piece = realloc(b->piece, capacity * sizeof *piece);
    if (piece) b->piece = piece;
    origin *from = realloc(b->from, capacity * sizeof *from);
    if (from) b->from = from;
    if (!piece || !from) return accel__no_memory(capacity * sizeof *piece);
    b->capacity = capacity;
  }
  b->piece[b->n] = r->task->run.pieces.piece[r->begun];
  b->from[b->n++] = (origin){.request = r, .index = r->begun++};
  return ACCEL_OK;
}

/* The most tokens of a step that runs what `run` asks for. */
static accel_status budget_of(const text_batch *b, const accel__piece_run *run, uint64_t *tokens) {
  uint64_t all = 0;
  uint32_t shortest = UINT32_MAX;
  for (const text_request *r = b->active; r; r = r->next)
    for (uint32_t i = r->begun; waits(r, run) && i < r->task->run.pieces.n; i++) {
      const uint32_t n = r->task->run.pieces.piece[i].n;
      all += n;
      if (n < shortest) shortest = n;
    }
  ACCEL_TRY(accel__piece_budget(b->ep, run, shortest, all, tokens));
  *tokens *= accel__replicas_in(b->ep, ACCEL__WORK_TEXTS); /* a run for each at once */
  return ACCEL_OK;
}

/* The next piece of each request in turn, until a run of the model is full. */
static accel_status gather(text_batch *b, const accel__piece_run *run) {
  uint64_t budget, tokens = 0;
  ACCEL_TRY(budget_of(b, run, &budget));
  for (bool any = true; any && tokens < budget;) {
    any = false;
    for (text_request *r = b->active; r && tokens < budget; r = r->next) {
      if (!waits(r, run)) continue;
      const uint32_t n = r->task->run.pieces.piece[r->begun].n;
      if (b->n && tokens + n > budget) return ACCEL_OK;
      ACCEL_TRY(add(b, r));
      tokens += n;
      any = true;
    }
  }
  return ACCEL_OK;
}

/* A piece's rows go to the task that it is of. */
static accel_status take(void *user, const accel__piece_result *r) {
  const text_batch *b = user;
  origin *from = &b->from[r->index];
  from->taken = true;
  if (from->request->finished) return ACCEL_OK;
  accel__piece_result own = *r;
  own.index = from->index;
  const accel__piece_run *run = &from->request->task->run;
  const accel_status status = run->take(run->user, &own);
  if (status != ACCEL_OK) end(from->request, status);
  from->request->done++;
  return ACCEL_OK;
}

/* Runs the pieces [first, first + n) of the step. */
static accel_status run_range(text_batch *b, const accel__piece_run *like, uint32_t first,
                              uint32_t n) {
  /* `take` counts from the first of the range */
  text_batch part = {.ep = b->ep, .from = b->from + first};
  accel__piece_run run = *like;
  run.pieces = (accel__piece_list){.n = n, .piece = b->piece + first};
  run.take = take;
  run.user = &part;
  return accel__run_pieces(b->ep, &run);
}

static uint32_t requests_of(const text_batch *b) {
  uint32_t n = 0;
  for (const text_request *r = b->active; r; r = r->next) n += !r->finished && r->begun > r->done;
  return n;
}

/* Where the joint run fails each piece is run by itself, so that only the request fails whose piece
 * cannot be run. */
static void run_gathered(text_batch *b, const accel__piece_run *run) {
  const uint32_t several = requests_of(b);
  const accel_status all = b->n ? run_range(b, run, 0, b->n) : ACCEL_OK;
  if (all == ACCEL_OK) return;
  if (several > 1 && !accel__ends_all(all)) {
    for (uint32_t i = 0; i < b->n; i++) {
      text_request *r = b->from[i].request;
      if (r->finished || b->from[i].taken) continue;
      const accel_status status = run_range(b, run, i, 1);
      if (status != ACCEL_OK) end(r, status);
    }
    return;
  }
  for (text_request *r = b->active; r; r = r->next)
    if (r->begun > r->done) end(r, all);
}

static void step(void *state) {
  text_batch *b = state;
  text_request *first = b->active;
  while (first && first->finished) first = first->next;
  if (!first) return;
  const accel__piece_run run = first->task->run;
  b->n = 0;
  const accel_status status = gather(b, &run);
  if (status == ACCEL_OK)
    run_gathered(b, &run);
  else
    end(first, status);
  for (text_request *r = b->active; r; r = r->next)
    if (!r->finished && r->done == r->task->run.pieces.n) end(r, ACCEL_OK);
}

static bool finished(void *state, void *work, accel_status *status) {
  text_batch *b = state;
  text_request *r = work, **link = &b->active;
  if (!r->finished) return false;
  while (*link != r) link = &(*link)->next;
  *link = r->next;
  *status = accel__failure_raise(&r->failure);
  return true;
}

static const accel__group group = {.open = open_batch,
                                   .join = join,
                                   .cancel = cancel,
                                   .step = step,
                                   .finished = finished,
                                   .close = close_batch};

/* ---- tickets ---- */

static void free_request(void *work) {
  text_request *r = work;
  accel__text_task_free(r->task);
  free(r);
}

accel_status accel__submit_text_task(accel_queue *queue, accel__text_task *task,
                                     const accel__submit_options *options, accel_ticket **out) {
  text_request *r = calloc(1, sizeof *r);
  if (!r) {
    accel__text_task_free(task);
    return accel__no_memory(sizeof *r);
  }
  r->task = task;
  const accel__submission what = {
      .group = &group, .work = r, .work_free = free_request, .options = *options};
  return accel__queue_submit(queue, &what, out);
}

const accel__text_task *accel__ticket_text_task(const accel_ticket *ticket) {
  const text_request *r = accel__ticket_work(ticket, &group);
  return r ? r->task : NULL;
}

static accel_status take_result(void *work, void *user) {
  text_request *r = work;
  *(void **)user = r->task->result;
  r->task->result = NULL;
  return ACCEL_OK;
}

accel_status accel__wait_text_task(accel_ticket **ticket, int64_t timeout_ms, void **result) {
  return accel__queue_wait_work(ticket, timeout_ms, take_result, result);
}
