/* warp.c - the warpers, which narrow the choice when sampling, and the draw itself. */
#include <math.h>
#include <stdlib.h>

#include "generate/logits.h"

/* ---- ranking ---- */

static bool better(accel__ranked a, accel__ranked b) {
  return a.value > b.value || (a.value == b.value && a.index < b.index);
}

/* heap[n] with the worst at the root: puts `item` at the root's place. */
static void sift(accel__ranked *heap, uint32_t n, uint32_t at, accel__ranked item) {
  for (uint32_t child; (child = 2 * at + 1) < n; at = child) {
    if (child + 1 < n && better(heap[child], heap[child + 1])) child++;
    if (!better(item, heap[child])) break;
    heap[at] = heap[child];
  }
  heap[at] = item;
}

static int by_rank(const void *a, const void *b) {
  const accel__ranked *x = a, *y = b;
  return better(*x, *y) ? -1 : better(*y, *x);
}

uint32_t accel__highest(const float *x, size_t n, uint32_t k, accel__ranked *out) {
  uint32_t found = 0;
  size_t i = 0;
  for (; i < n && found < k; i++)
    if (x[i] > -INFINITY) out[found++] = (accel__ranked){x[i], (uint32_t)i};
  if (found == k && k) {
    for (uint32_t r = k / 2; r-- > 0;) sift(out, k, r, out[r]);
    for (; i < n; i++)
      if (x[i] > out[0].value) sift(out, k, 0, (accel__ranked){x[i], (uint32_t)i});
  }
  qsort(out, found, sizeof *out, by_rank);
  return found;
}

static float highest_of(const float *x, size_t n) {
  float best = -INFINITY;
  for (size_t i = 0; i < n; i++) best = x[i] > best ? x[i] : best;
  return best;
}

double accel__log_sum_exp(const float *x, size_t n) {
  float most = highest_of(x, n);
  double sum = 0;
  if (most == -INFINITY) return -INFINITY;
  for (size_t i = 0; i < n; i++) sum += expf(x[i] - most);
  return most + log(sum);
}

/* Leaves the first `kept` of the ranked tokens with their scores and takes all others out. */
static void keep_only(float *scores, size_t n, accel__ranked *ranked, uint32_t kept) {
  for (uint32_t i = 0; i < kept; i++) ranked[i].value = scores[ranked[i].index];
  for (size_t i = 0; i < n; i++) scores[i] = -INFINITY;
  for (uint32_t i = 0; i < kept; i++) scores[ranked[i].index] = ranked[i].value;
}

static void drop_below(float *scores, size_t n, float least) {
  for (size_t i = 0; i < n; i++)
    if (scores[i] < least) scores[i] = -INFINITY;
}

/* The k-th highest score, or the lowest there is. */
static float kth(const float *scores, size_t n, uint32_t k, accel__ranked *ranked) {
  uint32_t found = accel__highest(scores, n, k < n ? k : (uint32_t)n, ranked);
  return found ? ranked[found - 1].value : -INFINITY;
}

/* ---- the warpers ---- */

/* The fewest highest tokens that hold `mass`: a token stays while those above it hold less.
 * `key` ranks them (the scores themselves for top-p); most models need few, so few are ranked at
 * first. */
static uint32_t rank_mass(const float *key, const float *scores, size_t n, double mass,
                          accel__ranked *ranked) {
  double all = accel__log_sum_exp(scores, n);
  for (size_t k = 64;; k *= 8) {
    uint32_t found = accel__highest(key, n, (uint32_t)(k < n ? k : n), ranked), kept = 0;
    for (double above = 0; kept < found && above < mass; kept++)
      above += exp(scores[ranked[kept].index] - all);
    if (kept < found || found < k || k >= n) return kept;
  }
}

static void top_p(float *scores, size_t n, double p, uint32_t least, accel__ranked *ranked) {
  uint32_t kept = rank_mass(scores, scores, n, p, ranked);
  if (kept < least) kept = accel__highest(scores, n, least < n ? least : (uint32_t)n, ranked);
  keep_only(scores, n, ranked, kept);
}

/* Probabilities at least `share` of the highest one. */
static void min_p(float *scores, size_t n, double share, uint32_t least, accel__ranked *ranked) {
  float most = highest_of(scores, n), bound = share > 0 ? most + logf((float)share) : -INFINITY,
        floor = kth(scores, n, least, ranked);
  drop_below(scores, n, bound < floor ? bound : floor);
}

static double entropy(const float *scores, size_t n, double all) {
  double sum = 0;
  for (size_t i = 0; i < n; i++)
    if (scores[i] > -INFINITY) sum -= (scores[i] - all) * exp(scores[i] - all);
  return sum;
}

/* Tokens whose information is nearest to the entropy, until they hold `mass` (Meister et al.
 * 2022). */
static void typical(float *scores, size_t n, double mass, uint32_t least,
                    accel__logits_scratch *s) {
  double all = accel__log_sum_exp(scores, n), expected = entropy(scores, n, all);
  for (size_t i = 0; i < n; i++)
    s->key[i] = scores[i] > -INFINITY ? (float)-fabs(all - scores[i] - expected) : -INFINITY;
  uint32_t kept = rank_mass(s->key, scores, n, mass, s->ranked);
  if (kept < least) kept = least;
  if (kept > n) kept = (uint32_t)n;
  float worst = kth(s->key, n, kept, s->ranked);
  for (size_t i = 0; i < n; i++)
    if (s->key[i] < worst) scores[i] = -INFINITY;
}

/* Probabilities of at least `bound` (Hewitt et al. 2022). */
static void cut_off(float *scores, size_t n, double bound, uint32_t least, accel__ranked *ranked) {
  float floor = kth(scores, n, least, ranked),
        lowest = (float)(accel__log_sum_exp(scores, n) + log(bound));
  drop_below(scores, n, lowest < floor ? lowest : floor);
}

static void eta(float *scores, size_t n, double epsilon, uint32_t least, accel__ranked *ranked) {
  double all = accel__log_sum_exp(scores, n),
         by_entropy = sqrt(epsilon) * exp(-entropy(scores, n, all));
  cut_off(scores, n, epsilon < by_entropy ? epsilon : by_entropy, least, ranked);
}

/* The highest tokens whose summed entropy stays within `share` of the entropy of the 100
 * highest. */
static void top_h(float *scores, size_t n, double share, accel__ranked *ranked) {
  enum { CONSIDERED = 100 };
  uint32_t found = accel__highest(scores, n, n < CONSIDERED ? (uint32_t)n : CONSIDERED, ranked),
           kept = 0;
  double all = 0, whole = 0, sum = 0, part[CONSIDERED];
  for (uint32_t i = 0; i < found; i++) all += exp((double)ranked[i].value - ranked[0].value);
  for (uint32_t i = 0; i < found; i++) {
    double p = exp((double)ranked[i].value - ranked[0].value) / all;
    whole += part[i] = p > 0 ? -p * log(p) : 0;
  }
  while (kept < found && ((sum += part[kept]) <= whole * share || !kept)) kept++;
  keep_only(scores, n, ranked, kept);
}

accel_status accel__logits_warpers(const accel__generate_config *c, accel__logits_scratch *s,
                                   float *scores, size_t vocab) {
  /* beams need one token that does not end them */
  uint32_t least = c->num_beams > 1 ? (c->eos.n ? c->eos.n : 1) + 1 : 1;
  ACCEL_TRY(accel__logits_reserve(s, vocab));
  if (c->temperature != 1)
    for (size_t i = 0; i < vocab; i++) scores[i] /= (float)c->temperature;
  if (c->top_h > 0) top_h(scores, vocab, c->top_h, s->ranked);
  if (c->top_k > 0)
    drop_below(scores, vocab,
               kth(scores, vocab, c->top_k > least ? (uint32_t)c->top_k : least, s->ranked));
  if (c->top_p < 1) top_p(scores, vocab, c->top_p, least, s->ranked);
  if (c->min_p > 0) min_p(scores, vocab, c->min_p, least, s->ranked);
  if (c->typical_p < 1) typical(scores, vocab, c->typical_p, least, s);
  if (c->epsilon_cutoff > 0) cut_off(scores, vocab, c->epsilon_cutoff, least, s->ranked);
  if (c->eta_cutoff > 0) eta(scores, vocab, c->eta_cutoff, least, s->ranked);
  return ACCEL_OK;
}

/* ---- chance ---- */

static uint64_t mix(uint64_t z) {
  z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
  z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
  return z ^ (z >> 31);
}

uint64_t accel__random_next(accel__random *r) {
  return mix(r->state += UINT64_C(0x9e3779b97f4a7c15));
}

accel__random accel__random_new(uint64_t seed, uint32_t sequence) {
  accel__random r = {mix(seed + UINT64_C(0x9e3779b97f4a7c15))};
  r.state = mix(r.state ^ sequence);
  return r;
}

double accel__random_unit(accel__random *r) {
  return (double)(accel__random_next(r) >> 11) * 0x1p-53;
}

int64_t accel__draw(accel__random *r, const float *scores, size_t n) {
  float most = highest_of(scores, n);
  double all = 0, sum = 0, u = accel__random_unit(r);
  int64_t last = -1;
  if (!isfinite(most)) return -1;
  for (size_t i = 0; i < n; i++) all += expf(scores[i] - most);
  if (!isfinite(all)) return -1;
  for (size_t i = 0; i < n; i++) {
    float p = expf(scores[i] - most);
    if (!(p > 0)) continue;
    sum += p;
    last = (int64_t)i;
    if (sum > u * all) break;
  }
  return last;
}
