/* hip_emulated_order.c - vector clocks over the emulator's streams, and what their commands that may
 * still be running touch. */
#include "hip/hip_emulated_order.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { STREAMS = 128 }; /* that are watched at once; further ones are not */

typedef struct emulated_clock {
  uint32_t at[STREAMS]; /* commands of each stream that are through */
} emulated_clock;

typedef struct touch {
  emulated_touch how;
  uint32_t command;
  uint64_t begin, end;
  const char *what;
} touch;

struct emulated_sequence {
  int number; /* -1: not watched */
  emulated_clock known;
  touch *touch; /* [n] of commands that no thread has waited for */
  size_t n, room;
};

struct emulated_place {
  emulated_clock known;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static emulated_sequence *watched[STREAMS];
static uint32_t
    commands[STREAMS];         /* of each number so far: streams that come later go on from it */
static emulated_clock threads; /* what threads have waited for */

static void join(emulated_clock *to, const emulated_clock *from) {
  for (int i = 0; i < STREAMS; i++)
    if (from->at[i] > to->at[i]) to->at[i] = from->at[i];
}

emulated_sequence *emulated_sequence_new(void) {
  emulated_sequence *s = calloc(1, sizeof *s);
  if (!s) return NULL;
  s->number = -1;
  pthread_mutex_lock(&lock);
  for (int i = 0; i < STREAMS && s->number < 0; i++)
    if (!watched[i]) s->number = i;
  if (s->number >= 0) watched[s->number] = s;
  pthread_mutex_unlock(&lock);
  return s;
}

void emulated_sequence_free(emulated_sequence *s) {
  if (!s) return;
  pthread_mutex_lock(&lock);
  if (s->number >= 0) watched[s->number] = NULL;
  pthread_mutex_unlock(&lock);
  free(s->touch);
  free(s);
}

emulated_place *emulated_place_new(void) { return calloc(1, sizeof(emulated_place)); }
void emulated_place_free(emulated_place *p) { free(p); }

void emulated_sequence_next(emulated_sequence *s) {
  if (s->number < 0) return;
  pthread_mutex_lock(&lock);
  join(&s->known, &threads);
  s->known.at[s->number] = ++commands[s->number];
  pthread_mutex_unlock(&lock);
}

static bool harmful(emulated_touch a, emulated_touch b) {
  return a == EMULATED_COPY_TO || b == EMULATED_COPY_TO;
}

/* A touch of another stream that may happen at the same time; NULL: there is none. */
static const touch *unordered(const emulated_sequence *s, const touch *now) {
  for (int i = 0; i < STREAMS; i++) {
    const emulated_sequence *other = watched[i];
    if (!other || other == s) continue;
    for (size_t k = 0; k < other->n; k++) {
      const touch *t = &other->touch[k];
      if (harmful(t->how, now->how) && t->begin < now->end && now->begin < t->end &&
          t->command > s->known.at[i])
        return t;
    }
  }
  return NULL;
}

static int keep(emulated_sequence *s, const touch *now) {
  if (s->n == s->room) {
    const size_t room = s->room * 2 + 64;
    touch *more = realloc(s->touch, room * sizeof *more);
    if (!more) return -1;
    s->touch = more;
    s->room = room;
  }
  s->touch[s->n++] = *now;
  return 0;
}

static const char *doing(emulated_touch how) {
  return how == EMULATED_COPY_TO     ? "writes to"
         : how == EMULATED_COPY_FROM ? "reads"
                                     : "computes with";
}

int emulated_sequence_touch(emulated_sequence *s, emulated_touch how, uint64_t address,
                            uint64_t bytes, const char *what, char *why, size_t n) {
  if (s->number < 0 || !bytes) return 0;
  pthread_mutex_lock(&lock);
  const touch now = {how, s->known.at[s->number], address, address + bytes, what};
  const touch *before = unordered(s, &now);
  if (before)
    snprintf(why, n,
             "%s %s %llu bytes, of which another stream's %s %s some, and neither waits for the "
             "other: an event is missing",
             what, doing(how), (unsigned long long)bytes, before->what, doing(before->how));
  const int failed = before ? -1 : keep(s, &now);
  if (failed && !before) snprintf(why, n, "no memory for the order of commands");
  pthread_mutex_unlock(&lock);
  return failed;
}

void emulated_sequence_record(emulated_sequence *s, emulated_place *p) {
  pthread_mutex_lock(&lock);
  p->known = s->known;
  pthread_mutex_unlock(&lock);
}

void emulated_sequence_after(emulated_sequence *s, const emulated_place *p) {
  pthread_mutex_lock(&lock);
  join(&s->known, &p->known);
  pthread_mutex_unlock(&lock);
}

void emulated_sequence_through(emulated_sequence *s) {
  pthread_mutex_lock(&lock);
  join(&threads, &s->known);
  s->n = 0;
  pthread_mutex_unlock(&lock);
}

void emulated_place_through(const emulated_place *p) {
  pthread_mutex_lock(&lock);
  join(&threads, &p->known);
  pthread_mutex_unlock(&lock);
}

bool emulated_place_is_through(const emulated_place *p) {
  bool through = true;
  pthread_mutex_lock(&lock);
  for (int i = 0; i < STREAMS; i++) through &= p->known.at[i] <= threads.at[i];
  pthread_mutex_unlock(&lock);
  return through;
}

/* A copy that touches some of the bytes, for which no thread has waited; NULL: there is none. */
static const touch *unfinished(uint64_t begin, uint64_t end) {
  for (int i = 0; i < STREAMS; i++)
    for (size_t k = 0; watched[i] && k < watched[i]->n; k++) {
      const touch *t = &watched[i]->touch[k];
      if (t->how != EMULATED_KERNEL && t->begin < end && begin < t->end &&
          t->command > threads.at[i])
        return t;
    }
  return NULL;
}

int emulated_host_writes(uint64_t address, uint64_t bytes, char *why, size_t n) {
  pthread_mutex_lock(&lock);
  const touch *t = unfinished(address, address + bytes);
  if (t)
    snprintf(why, n,
             "the host writes to %llu bytes, of which %s %s some, and nobody has waited for it",
             (unsigned long long)bytes, t->what, doing(t->how));
  pthread_mutex_unlock(&lock);
  return t ? -1 : 0;
}
