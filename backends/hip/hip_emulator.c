/* hip_emulator.c - see hip_emulator.h: one block after the other, its lanes as fibers. */
#include "hip/hip_emulator.h"

#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "hip/hip_fiber.h"

enum { STACK_BYTES = 128 << 10, MAX_LANES = 1024 };

typedef enum lane_state { LANE_NEW, LANE_WAITING, LANE_ENDED } lane_state;

typedef struct lane {
  emulator *e;
  emulated_lane at; /* what the kernel sees */
  lane_state state;
  const char *file; /* of the barrier it last stood at */
  int line;
  bool exchanges; /* it is no barrier of the kernel's, but a matrix unit */
  hip_fiber *fiber;
} lane;

struct emulator {
  const emulated_launch *launch;
  lane lane[MAX_LANES];
  uint16_t order[MAX_LANES];
  hip_fiber *idle[MAX_LANES];
  uint32_t n_idle;
  lane *now; /* whose turn it is */
  void *shared;
  emulated_shadow *shadow;
  uint32_t shared_bytes, shared_elements;
  uint32_t epoch, random; /* epoch: emulated_epoch between launches */
  bool failed;
  uint32_t registers[MAX_LANES][EMULATED_REGISTERS];
  char *why;
  size_t why_n;
};

static _Thread_local emulator *current;
__thread uint32_t emulated_epoch;

/* ---- faults ---- */

__attribute__((format(printf, 2, 3))) static void fault(emulator *e, const char *format, ...) {
  if (e->failed) return;
  e->failed = true;
  const int32_t *g = e->now->at.group;
  int n =
      snprintf(e->why, e->why_n, "kernel %s, group %d,%d,%d, lane %d: ", e->launch->kernel->name,
               g[0], g[1], g[2], e->now->at.lane);
  if (n < 0 || (size_t)n >= e->why_n) return;
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(e->why + n, e->why_n - (size_t)n, format, arguments);
  va_end(arguments);
}

static const char *base(const char *file) {
  const char *slash = file ? strrchr(file, '/') : NULL;
  return slash ? slash + 1 : file ? file : "?";
}

/* " after the barrier of FILE:LINE": faults have no line of their own. */
static void where(const lane *l, char *out, size_t n) {
  if (l->file)
    snprintf(out, n, ", after the barrier of %s:%d", base(l->file), l->line);
  else
    snprintf(out, n, ", before any barrier");
}

void emulated_barrier(const char *file, int line) {
  lane *l = current->now;
  l->state = LANE_WAITING;
  l->file = file;
  l->line = line;
  hip_fiber_pause(l->fiber);
}

static void never_again(void) {
  for (;;) hip_fiber_pause(current->now->fiber);
}

const uint32_t (*emulated_exchange(uint32_t wave, const uint32_t *mine, uint32_t n,
                                   const char *file, int line))[EMULATED_REGISTERS] {
  emulator *e = current;
  lane *l = e->now;
  if (wave != e->launch->wave || n > EMULATED_REGISTERS) {
    fault(e, "a matrix unit of waves of %u, in waves of %u, at %s:%d", wave, e->launch->wave,
          base(file), line);
    never_again();
  }
  memcpy(e->registers[l->at.lane], mine, n * sizeof *mine);
  emulated_exchanged(file, line);
  return (const uint32_t(*)[EMULATED_REGISTERS])e->registers + (uint32_t)l->at.lane / wave * wave;
}

void emulated_exchanged(const char *file, int line) {
  lane *l = current->now;
  const char *last = l->file;
  const int last_line = l->line;
  l->exchanges = true;
  emulated_barrier(file, line);
  l->exchanges = false;
  l->file = last;
  l->line = last_line;
}

void emulated_outside(const char *what, int64_t index, uint64_t elements, const char *file,
                      int line) {
  char place[128];
  if (file)
    snprintf(place, sizeof place, ", at %s:%d", base(file), line);
  else
    where(current->now, place, sizeof place);
  fault(current, "%s[%lld] is outside its %llu elements%s", what, (long long)index,
        (unsigned long long)elements, place);
  never_again();
}

void emulated_race(const char *what, uint64_t index, const emulated_shadow *before,
                   const char *doing) {
  char place[128], who[32] = "several lanes";
  unsigned me = (unsigned)current->now->at.lane + 1;
  bool written = before->writer && before->writer != me;
  unsigned other = written ? before->writer : before->reader;
  if (other != 0xffff) snprintf(who, sizeof who, "lane %u", other - 1);
  where(current->now, place, sizeof place);
  fault(current, "a race: it %s %s[%llu], which %s has %s%s", doing, what,
        (unsigned long long)index, who, written ? "written" : "read", place);
  never_again();
}

/* ---- orders ---- */

static uint32_t next_random(emulator *e) { /* xorshift */
  uint32_t x = e->random ? e->random : 0x9e3779b9u;
  x ^= x << 13;
  x ^= x >> 17;
  x ^= x << 5;
  return e->random = x;
}

static void shuffle(emulator *e, uint16_t *list, uint32_t n) {
  for (uint32_t i = n; i > 1; i--) {
    uint32_t k = next_random(e) % i;
    uint16_t swapped = list[i - 1];
    list[i - 1] = list[k];
    list[k] = swapped;
  }
}

/* Waves one after another, a wave's lanes one after another, as the launch asks. */
static void arrange(emulator *e) {
  const emulated_launch *l = e->launch;
  uint32_t n = l->kernel->local_size, waves = (n + l->wave - 1) / l->wave, at = 0;
  uint16_t wave[MAX_LANES];
  for (uint32_t i = 0; i < waves; i++)
    wave[i] = (uint16_t)(l->order == EMULATED_REVERSE ? waves - 1 - i : i);
  if (l->order == EMULATED_SHUFFLED) shuffle(e, wave, waves);
  for (uint32_t i = 0; i < waves; i++) {
    uint32_t first = wave[i] * l->wave, count = n - first < l->wave ? n - first : l->wave;
    for (uint32_t k = 0; k < count; k++)
      e->order[at + k] = (uint16_t)(first + (l->order == EMULATED_REVERSE ? count - 1 - k : k));
    if (l->order == EMULATED_SHUFFLED) shuffle(e, e->order + at, count);
    at += count;
  }
}

/* ---- one block ---- */

/* a fiber takes lane after lane: the one whose turn it is when it begins anew */
static void lane_work(void *arg) {
  emulator *e = arg;
  const emulated_launch *l = e->launch;
  lane *own = e->now;
  l->kernel->body(&own->at, l->buffer, l->params, e->shared, e->shadow);
  own->state = LANE_ENDED;
}

static bool give_fiber(emulator *e, lane *l) {
  if (e->n_idle) {
    l->fiber = e->idle[--e->n_idle];
    return true;
  }
  l->fiber = hip_fiber_new(STACK_BYTES);
  if (!l->fiber) {
    fault(e, "no memory for its stack");
    return false;
  }
  hip_fiber_start(l->fiber, lane_work, e);
  return true;
}

static void take_fiber(emulator *e, lane *l) {
  e->idle[e->n_idle++] = l->fiber;
  l->fiber = NULL;
}

/* Every lane once, up to its next barrier or its end.  *waits: one that waits, *ends: one that has
 * ended. */
static bool round_of(emulator *e, lane **waits, lane **ends) {
  for (uint32_t k = 0; k < e->launch->kernel->local_size; k++) {
    lane *l = &e->lane[e->order[k]];
    if (l->state == LANE_ENDED) continue;
    e->now = l;
    if (!l->fiber && !give_fiber(e, l)) return false;
    hip_fiber_resume(l->fiber);
    if (e->failed) return false;
    if (l->state == LANE_ENDED) {
      take_fiber(e, l);
      *ends = l;
    } else if (*waits && ((*waits)->line != l->line || strcmp((*waits)->file, l->file) != 0)) {
      fault(e, "stands at the barrier of %s:%d while lane %d stands at that of %s:%d",
            base(l->file), l->line, (*waits)->at.lane, base((*waits)->file), (*waits)->line);
      return false;
    } else {
      *waits = l;
    }
  }
  return true;
}

static void begin_block(emulator *e, const int32_t group[3]) {
  memset(e->shared, 0xff, e->launch->kernel->shared_bytes); /* NaN, and -1 */
  for (uint32_t i = 0; i < e->launch->kernel->local_size; i++) {
    lane *l = &e->lane[i];
    l->e = e;
    l->state = LANE_NEW;
    l->exchanges = false;
    l->at.lane = (int32_t)i;
    for (int k = 0; k < 3; k++) {
      l->at.group[k] = group[k];
      l->at.groups[k] = (int32_t)e->launch->groups[k];
    }
    l->file = NULL;
  }
}

static bool run_block(emulator *e, const int32_t group[3]) {
  lane *waits = NULL, *ends = NULL;
  begin_block(e, group);
  bool exchanged = false;
  do {
    waits = NULL;
    if (!exchanged) emulated_epoch++; /* matrix units order no memory */
    arrange(e);
    if (!round_of(e, &waits, &ends)) return false;
    if (waits && ends) {
      e->now = ends;
      fault(e, "has ended while lane %d stands at the barrier of %s:%d", waits->at.lane,
            base(waits->file), waits->line);
      return false;
    }
    exchanged = waits && waits->exchanges;
  } while (waits);
  return true;
}

/* After a fault: the lanes' stacks are begun anew. */
static void abandon(emulator *e) {
  for (uint32_t i = 0; i < e->launch->kernel->local_size; i++) {
    lane *l = &e->lane[i];
    if (!l->fiber) continue;
    hip_fiber_start(l->fiber, lane_work, e);
    take_fiber(e, l);
  }
}

/* ---- launches ---- */

static bool make_room(emulator *e, const emulated_kernel *k) {
  if (k->shared_bytes > e->shared_bytes || !e->shared) {
    void *shared = realloc(e->shared, k->shared_bytes + 64);
    if (!shared) return false;
    e->shared = shared;
    e->shared_bytes = k->shared_bytes;
  }
  if (k->shared_elements > e->shared_elements || !e->shadow) {
    emulated_shadow *shadow = realloc(e->shadow, ((size_t)k->shared_elements + 1) * sizeof *shadow);
    if (!shadow) return false;
    memset(shadow, 0, ((size_t)k->shared_elements + 1) * sizeof *shadow);
    e->shadow = shadow;
    e->shared_elements = k->shared_elements;
  }
  return true;
}

static bool run_blocks(emulator *e) {
  const emulated_launch *l = e->launch;
  uint64_t n = (uint64_t)l->groups[0] * l->groups[1] * l->groups[2];
  for (uint64_t i = 0; i < n; i++) {
    uint64_t b = l->order == EMULATED_FORWARD ? i : n - 1 - i;
    int32_t group[3] = {(int32_t)(b % l->groups[0]), (int32_t)(b / l->groups[0] % l->groups[1]),
                        (int32_t)(b / l->groups[0] / l->groups[1])};
    if (!run_block(e, group)) return false;
  }
  return true;
}

int emulator_run(emulator *e, const emulated_launch *launch, char *why, size_t n) {
  const emulated_kernel *k = launch->kernel;
  if (k->local_size < 1 || k->local_size > MAX_LANES || launch->wave < 1) {
    snprintf(why, n, "kernel %s: %u lanes in waves of %u", k->name, k->local_size, launch->wave);
    return -1;
  }
  if (!make_room(e, k)) {
    snprintf(why, n, "kernel %s: no memory for its shared arrays", k->name);
    return -1;
  }
  e->launch = launch;
  e->random = launch->seed * 2654435761u + 1;
  e->failed = false;
  e->why = why;
  e->why_n = n;
  emulator *outer = current;
  current = e;
  uint32_t outer_epoch = emulated_epoch;
  emulated_epoch = e->epoch;
  bool good = run_blocks(e);
  if (!good) abandon(e);
  e->epoch = emulated_epoch;
  emulated_epoch = outer_epoch;
  current = outer;
  return good ? 0 : -1;
}

emulator *emulator_new(void) { return calloc(1, sizeof(emulator)); }

void emulator_free(emulator *e) {
  if (!e) return;
  for (uint32_t i = 0; i < e->n_idle; i++) hip_fiber_free(e->idle[i]);
  free(e->shared);
  free(e->shadow);
  free(e);
}
