/* replica_schedule.c - see replica_schedule.h. */
#include "dispatch/replica_schedule.h"

#include <math.h>
#include <string.h>

static const double trial_share = 0.02; /* of the time, at most, may be lost in trials */
static const double pays = 0.03;        /* of the work: what is less than that is noise */
static const double first_wait = 1;     /* seconds to the next trial that may not come sooner */
static const double longest_wait = 600;

void accel__schedule_init(accel__schedule *s, uint32_t n, const bool *on_trial) {
  *s = (accel__schedule){.n = n};
  for (uint32_t i = 0; i < n; i++)
    s->replica[i] =
        (accel__scheduled){.on_trial = on_trial[i],
                           .standing = i && on_trial[i] ? ACCEL__REPLICA_OUT : ACCEL__REPLICA_IN,
                           .wait = first_wait};
}

/* ---- how fast they are ---- */

static uint32_t class_of(uint64_t units) {
  return units ? 63 - (uint32_t)__builtin_clzll(units) : 0;
}

/* Units a second of runs of about that size: of that class, else of the next smaller ones, which are
 * no faster, else of the next larger; 0: not known. */
static double rate_for(const accel__scheduled *r, uint64_t units) {
  const uint32_t k = class_of(units);
  for (uint32_t i = k + 1; i-- > 0;)
    if (r->rate[i] > 0) return r->rate[i];
  for (uint32_t i = k + 1; i < ACCEL__SIZE_CLASSES; i++)
    if (r->rate[i] > 0) return r->rate[i];
  return 0;
}

static bool takes_part(const accel__schedule *s, uint32_t r) {
  const accel__trial *t = &s->trial;
  return s->replica[r].standing == ACCEL__REPLICA_IN &&
         !(t->phase == ACCEL__TRIAL_RUNS && t->leaves_out && t->replica == r);
}

/* The same, with a guess for one that has run nothing yet: as fast as the fastest of the others. */
static double guess(const accel__schedule *s, uint32_t r, uint64_t units) {
  double rate = rate_for(&s->replica[r], units);
  for (uint32_t i = 0; rate <= 0 && i < s->n; i++)
    if (takes_part(s, i)) rate = fmax(rate, rate_for(&s->replica[i], units));
  return rate;
}

double accel__schedule_predict(const accel__schedule *s, uint32_t r, uint64_t units) {
  const double rate = guess(s, r, units);
  return rate > 0 ? (double)units / rate : 0;
}

static double backlog(const accel__schedule *s, uint32_t r, double now) {
  return s->replica[r].running ? fmax(0, s->replica[r].free_at - now) : 0;
}

double accel__schedule_finish(const accel__schedule *s, uint32_t r, double now, uint64_t units) {
  return backlog(s, r, now) + accel__schedule_predict(s, r, units);
}

/* ---- trials ---- */

/* Seconds that a trial may cost now. */
static double allowance(const accel__schedule *s) {
  return fmax(0, trial_share * s->worked - s->spent);
}

static void begin_trial(accel__schedule *s, uint32_t r, bool leaves_out, uint64_t units) {
  s->trial = (accel__trial){.phase = ACCEL__TRIAL_RUNS,
                            .replica = r,
                            .number = s->trial.number + 1,
                            .leaves_out = leaves_out,
                            .units = units,
                            .limit = fmax(0.005, allowance(s))};
  s->replica[r].trials++;
}

static uint32_t n_in(const accel__schedule *s, bool on_trial) {
  uint32_t n = 0;
  for (uint32_t i = 0; i < s->n; i++)
    n += s->replica[i].standing == ACCEL__REPLICA_IN && (!on_trial || s->replica[i].on_trial);
  return n;
}

/* Those that are in are at work, and have more of it than `seconds` will see the end of. */
static bool has_work_for(const accel__schedule *s, uint64_t left, double seconds) {
  double rate = 0;
  for (uint32_t i = 0; i < s->n; i++) {
    if (!takes_part(s, i)) continue;
    if (!s->replica[i].running || rate_for(&s->replica[i], s->most) <= 0) return false;
    rate += rate_for(&s->replica[i], s->most);
  }
  return rate > 0 && (double)left / rate > seconds;
}

/* What one that is out takes: little at first, then up to four times what it has run before, as far
 * as that costs no more than it may. */
static uint64_t trial_offer(accel__schedule *s, uint32_t r, uint64_t left, uint64_t smallest,
                            uint64_t most) {
  const accel__scheduled *a = &s->replica[r];
  if (s->trial.phase != ACCEL__NO_TRIAL || s->worked < a->due) return 0;
  const double may = allowance(s);
  uint64_t units = a->largest ? 4 * a->largest : smallest;
  if (units > most) units = most;
  while (units > smallest && accel__schedule_predict(s, r, units) > may) units /= 2;
  if (units < smallest) units = smallest;
  if (units < 2 * a->largest && units < most) return 0; /* it would tell nothing new */
  /* of one that has run nothing: its first run prepares much, and is taken for one of the others' */
  const double takes = a->largest ? accel__schedule_predict(s, r, units)
                                  : fmax(0.005, accel__schedule_predict(s, r, s->most));
  return takes <= may && left > units && has_work_for(s, left - units, takes) ? units : 0;
}

/* One of several on trial that is in is left out for a while: do the others gain more than it
 * does? */
static bool leaves_now(accel__schedule *s, uint32_t r, uint64_t left) {
  const accel__scheduled *a = &s->replica[r];
  if (!a->on_trial || a->running || a->speed <= 0 || s->trial.phase != ACCEL__NO_TRIAL ||
      s->worked < a->due || n_in(s, true) < 2)
    return false;
  double all = 0, longest = 0;
  for (uint32_t i = 0; i < s->n; i++) {
    const accel__scheduled *b = &s->replica[i];
    if (b->standing != ACCEL__REPLICA_IN || b->speed <= 0) continue;
    all += b->speed;
    if (i != r) longest = fmax(longest, accel__schedule_predict(s, i, s->most));
  }
  const double window = 2 * longest; /* the rest of a run, and one from its beginning */
  if (window * a->speed / all > allowance(s) || (double)left / all < 2 * window) return false;
  begin_trial(s, r, true, 0);
  s->trial.limit = INFINITY;
  return true;
}

/* The next trial comes later, twice as long each time, and late enough for what this one has cost. */
static void postpone(accel__schedule *s, accel__scheduled *a, double cost) {
  a->due = s->worked + fmax(a->wait, cost / trial_share);
  a->wait = fmin(2 * a->wait, longest_wait);
}

static void judge(accel__schedule *s) {
  accel__trial *t = &s->trial;
  accel__scheduled *a = &s->replica[t->replica];
  const double part = t->expected > 0 ? t->actual / t->expected : 1,
               cost = t->window * fmin(1, fmax(0, 1 - part));
  const bool better = t->actual - t->expected > pays * t->counted,
             good = !t->failed && t->expected > 0 && t->covered > 0.7 * t->window;
  t->phase = ACCEL__NO_TRIAL;
  s->spent += cost;
  if (a->standing == ACCEL__REPLICA_LOST) return;
  if (good && better) { /* what was known of the others was known of another set */
    a->standing = t->leaves_out ? ACCEL__REPLICA_OUT : ACCEL__REPLICA_IN;
    a->wait = t->leaves_out ? fmax(a->wait, 30 * first_wait) : first_wait;
    for (uint32_t i = 0; i < s->n; i++)
      if (s->replica[i].on_trial) s->replica[i].due = s->worked + s->replica[i].wait;
    return;
  }
  if (good && !t->leaves_out && 4 * t->units < s->most) { /* larger runs may tell another story */
    a->due = s->worked + cost / trial_share;
    return;
  }
  postpone(s, a, cost);
}

/* The window of the trial is over; runs that began in it count for their part. */
static void close_window(accel__schedule *s, bool failed) {
  accel__trial *t = &s->trial;
  t->phase = ACCEL__TRIAL_ENDS;
  t->failed |= failed;
  t->pending = 0;
  t->last = s->begun;
  for (uint32_t i = 0; i < s->n; i++) t->pending += s->replica[i].running;
  if (!t->pending) judge(s);
}

bool accel__schedule_overdue(accel__schedule *s, double now, uint32_t *r) {
  const accel__trial *t = &s->trial;
  *r = t->replica;
  return t->phase == ACCEL__TRIAL_RUNS && !t->leaves_out && t->window + (now - s->now) > t->limit;
}

/* ---- time ---- */

static void advance(accel__schedule *s, double now) {
  const double passed = fmax(0, now - s->now);
  bool any = false;
  for (uint32_t i = 0; i < s->n; i++) any |= s->replica[i].running > 0;
  if (any) s->worked += passed;
  if (s->trial.phase == ACCEL__TRIAL_RUNS) s->trial.window += passed;
  s->now = now;
}

void accel__schedule_begin(accel__schedule *s, uint32_t r, double now, uint64_t units,
                           uint64_t items, accel__scheduled_run *run) {
  accel__scheduled *a = &s->replica[r];
  advance(s, now);
  const bool trial = a->standing == ACCEL__REPLICA_OUT && s->trial.phase == ACCEL__NO_TRIAL;
  if (trial) begin_trial(s, r, false, units);
  const double takes = accel__schedule_predict(s, r, units);
  a->free_at = fmax(now, a->running ? a->free_at : now) + takes;
  a->running++;
  *run = (accel__scheduled_run){.replica = r,
                                .trial_number = s->trial.number,
                                .number = ++s->begun,
                                .units = units,
                                .items = items,
                                .begin = now,
                                .window = s->trial.window,
                                .is_trial = trial};
}

/* The part of the run in the window of the trial, in seconds. */
static double part_in_window(const accel__schedule *s, const accel__scheduled_run *run) {
  const accel__trial *t = &s->trial;
  if (t->phase == ACCEL__NO_TRIAL) return 0;
  return run->trial_number == t->number ? t->window - run->window : t->window;
}

static void count_in_window(accel__schedule *s, const accel__scheduled_run *run, double took,
                            double inside) {
  accel__trial *t = &s->trial;
  const double rate = rate_for(&s->replica[run->replica], run->units),
               n = (double)n_in(s, false) - t->leaves_out;
  if (inside > took) inside = took;
  t->actual += (double)run->units - rate * (took - inside); /* outside it ran as ever */
  t->expected += rate * inside;
  t->counted += (double)run->units;
  t->covered += n > 0 ? inside / n : 0;
}

static void learn(accel__schedule *s, const accel__scheduled_run *run, double took) {
  accel__scheduled *a = &s->replica[run->replica];
  const double rate = (double)run->units / took;
  double *known = &a->rate[class_of(run->units)];
  *known = *known > 0 ? *known + 0.4 * (rate - *known) : rate;
  a->speed = *known;
  if (run->units > a->largest) a->largest = run->units;
  if (run->units > s->most) s->most = run->units;
}

/* A run that was given up would have taken longer than that. */
static void be_slower(accel__scheduled *a, const accel__scheduled_run *run, double took) {
  const double rate = (double)run->units / took;
  if (rate_for(a, run->units) > rate) a->rate[class_of(run->units)] = rate;
}

void accel__schedule_end(accel__schedule *s, const accel__scheduled_run *run, double now, bool ok) {
  accel__scheduled *a = &s->replica[run->replica];
  accel__trial *t = &s->trial;
  advance(s, now);
  const double took = fmax(1e-9, now - run->begin), inside = part_in_window(s, run);
  const bool ends = t->phase == ACCEL__TRIAL_ENDS && run->number <= t->last;
  if (--a->running == 0) a->free_at = now;
  a->seconds += took;
  if (ok) {
    a->runs++;
    a->items += run->items;
    a->units += run->units;
  } else {
    a->failures++;
    be_slower(a, run, took);
  }
  if (run->is_trial && t->number == run->trial_number) {
    t->actual += ok ? (double)run->units : 0;
    if (ok) learn(s, run, took);
    close_window(s, false); /* one that was given up has done nothing in that time */
    return;
  }
  if (inside > 0 && ok) count_in_window(s, run, took, inside);
  if (inside > 0 && !ok) t->failed = true;
  if (ok && inside < 0.1 * took) learn(s, run, took);
  if (ends && t->pending && --t->pending == 0) judge(s);
  /* one that is left out is missed for the length of a run that knew nothing of it */
  if (t->phase == ACCEL__TRIAL_RUNS && t->leaves_out && ok && inside > 0.99 * took) {
    t->expected += s->replica[t->replica].speed * t->window;
    close_window(s, false);
    return;
  }
  bool any = false;
  for (uint32_t i = 0; i < s->n; i++) any |= s->replica[i].running > 0;
  if (t->phase == ACCEL__TRIAL_RUNS && t->leaves_out && !any) { /* the work has ended before it */
    t->phase = ACCEL__NO_TRIAL;
    s->replica[t->replica].due = s->worked + s->replica[t->replica].wait;
  }
}

void accel__schedule_lose(accel__schedule *s, uint32_t r) {
  s->replica[r].standing = ACCEL__REPLICA_LOST;
  if (s->trial.phase == ACCEL__TRIAL_RUNS && s->trial.replica == r) s->trial.failed = true;
  if (n_in(s, false)) return;
  for (uint32_t i = 0; i < s->n; i++)
    if (s->replica[i].standing == ACCEL__REPLICA_OUT) s->replica[i].standing = ACCEL__REPLICA_IN;
}

/* ---- who takes what ---- */

/* What the others would do with all that is left, and with one item of it. */
typedef struct others {
  double rate, behind; /* units a second; units that they have still to do of what they run */
  double item;         /* seconds until the first of them would have done the smallest item */
  bool any;
} others;

static others look_at(const accel__schedule *s, uint32_t r, double now, uint64_t smallest,
                      uint64_t size) {
  others o = {.item = INFINITY};
  for (uint32_t i = 0; i < s->n; i++) {
    if (i == r || !takes_part(s, i)) continue;
    const double rate = guess(s, i, size);
    o.any = true;
    o.rate += rate;
    o.behind += rate * backlog(s, i, now);
    o.item = fmin(o.item, accel__schedule_finish(s, i, now, smallest));
  }
  return o;
}

static uint64_t least(uint64_t a, uint64_t b) { return a < b ? a : b; }

/* Nobody is at work, and of those who may be this one is the fastest at such runs: if it waited for
 * the others, all would. */
static bool must_begin(const accel__schedule *s, uint32_t r, uint64_t units) {
  const double mine = guess(s, r, units);
  for (uint32_t i = 0; i < s->n; i++) {
    if (i == r || !takes_part(s, i)) continue;
    const double rate = guess(s, i, units);
    if (s->replica[i].running || rate > mine || (rate == mine && i < r)) return false;
  }
  return !s->replica[r].running;
}

uint64_t accel__schedule_offer(accel__schedule *s, uint32_t r, double now, uint64_t left,
                               uint64_t smallest, uint64_t most) {
  const uint64_t all = least(left, most);
  advance(s, now);
  if (!left || s->replica[r].standing == ACCEL__REPLICA_LOST) return 0;
  if (s->replica[r].standing == ACCEL__REPLICA_OUT) return trial_offer(s, r, left, smallest, most);
  if (leaves_now(s, r, left) || !takes_part(s, r)) return 0;
  /* rates of runs of about the size that each will get */
  uint64_t size = least(all, left / n_in(s, false));
  if (size < smallest) size = smallest;
  const others o = look_at(s, r, now, smallest, size);
  const double mine = guess(s, r, size);
  if (!o.any || mine <= 0) return o.any ? least(all, (left + s->n - 1) / s->n + smallest) : all;
  /* all would be done at once if each took its share */
  const double wait = backlog(s, r, now),
               end = ((double)left + o.behind + mine * wait) / (o.rate + mine),
               share = mine * fmax(0, end - wait);
  uint64_t units = share < (double)all ? (uint64_t)share : all;
  if (units < smallest) units = smallest;
  const double others_end = o.rate > 0 ? ((double)left + o.behind) / o.rate : INFINITY;
  const bool late = accel__schedule_finish(s, r, now, units) > fmax(others_end, o.item);
  return late && !must_begin(s, r, size) ? 0 : units;
}
