/* cli_tune_search.c - accel tune: which precisions are tried, how long they take, and the choice
 * (cli_tune.h).
 *
 * Every precision is loaded, compared and timed, in rounds that take turns.  The cheapest that
 * holds is the one to beat: of each cheaper precision that does not hold, kinds of layers are raised
 * to it one by one, always the one that mends most, until the mixture holds or is all raised.
 * Whatever holds on the inputs of the search must hold on those held out.  Of few inputs the
 * farthest is not the farthest of all, so the bound is for what their spread makes expect. */
#include <cjson/cJSON.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "bench/bench_stats.h"
#include "cli/cli_tune.h"

enum { MIXED = 4 /* cheaper precisions that are mixed with the one to beat, at most */ };
static const double same_cost = 1.03; /* costs up to here are about the same */

static const char *const precisions[] = {"fp32", "fp16",  "bf16", "int8",
                                         "int4", "uint4", "fp8",  "fp4"};

/* ---- profiles ---- */

static void put_text(cJSON *object, const char *name, const char *value) {
  cJSON_DeleteItemFromObjectCaseSensitive(object, name);
  cJSON_AddStringToObject(object, name, value);
}

static void put_tuned(cJSON *root, const tune *t, const tune_try *try) {
  cJSON *tuned = cJSON_AddObjectToObject(root, "tuned");
  cJSON_AddNumberToObject(tuned, "min_cosine", t->min_cosine);
  cJSON_AddNumberToObject(tuned, "inputs", t->inputs.n - t->inputs.n_held);
  cJSON_AddNumberToObject(tuned, "cosine", try->cosine);
  cJSON_AddNumberToObject(tuned, "expected_cosine", try->expected);
  cJSON_AddNumberToObject(tuned, "held_out", t->inputs.n_held);
  if (t->inputs.n_held) cJSON_AddNumberToObject(tuned, "held_out_cosine", try->held_cosine);
  cJSON_AddNumberToObject(tuned, "ms", try->median_ms);
  cJSON_AddNumberToObject(tuned, "weights_bytes", (double)try->weight_bytes);
  cJSON_AddStringToObject(tuned, "version", accel_version());
}

char *tune_profile_text(const tune *t, const tune_try *try, bool tuned) {
  cJSON *root = cJSON_Parse(t->profile);
  cJSON *kinds = cJSON_GetObjectItemCaseSensitive(root, "kinds");
  put_text(root, "precision", try->precision);
  for (uint32_t i = 0; kinds && i < t->kinds; ++i)
    put_text(kinds, t->kind[i], try->raised >> i & 1 ? try->wide : try->precision);
  if (tuned && root) put_tuned(root, t, try);
  char *text = root ? cJSON_Print(root) : NULL;
  cJSON_Delete(root);
  return text;
}

const char *tune_kinds_text(const tune *t, const tune_try *try, char *into, size_t size) {
  size_t at = 0;
  *into = 0;
  for (uint32_t i = 0; i < t->kinds && at < size; ++i)
    if (try->raised >> i & 1)
      at += (size_t)snprintf(into + at, size - at, "%s%s=%s", at ? "," : "", t->kind[i], try->wide);
  return into;
}

/* ---- trying ---- */

/* Takes the device as the first load chose it. */
static accel_status open_try(const tune *t, const tune_try *try, accel_endpoint **out) {
  accel_init_params how;
  char *text = tune_profile_text(t, try, false);
  *out = NULL;
  if (!text) return ACCEL_ERROR_OUT_OF_MEMORY;
  cli_init_params(t->run, NULL, &how);
  how.device = t->device;
  how.precision = NULL;
  how.precision_profile = text;
  const accel_status status = accel_init(t->run->ctx, t->model, &how, out);
  free(text);
  return status;
}

static tune_try *new_try(tune *t, const char *precision, const char *wide, uint32_t raised) {
  tune_try *try = t->n < TUNE_TRIES ? calloc(1, sizeof *try) : NULL;
  if (!try) return NULL;
  *try = (tune_try){.precision = precision, .wide = wide, .raised = raised, .median_ms = INFINITY};
  return t->tries[t->n++] = try;
}

/* A failure that is the candidate's own is a line of the table; others end the search. */
static accel_status cannot(tune_try *try, accel_status status) {
  if (status == ACCEL_ERROR_CANCELLED || status == ACCEL_ERROR_OUT_OF_MEMORY) return status;
  try->verdict = TUNE_CANNOT;
  snprintf(try->why, sizeof try->why, "%s", accel_last_error());
  return ACCEL_OK;
}

static double least_of(const double *cosine, uint32_t n) {
  double least = 1;
  for (uint32_t i = 0; i < n; ++i) least = fmin(least, cosine[i]);
  return least;
}

/* Of distances 1 - cosine the one that 99.9 % of inputs stay below with a confidence of 95 %, where
 * their logarithms are normal: Natrella's approximation of a one-sided tolerance limit. */
static double tolerance_limit(const double *cosine, uint32_t n) {
  const double exact = 1e-7, z = 3.0902, confidence = 1.6449; /* normal quantiles */
  double sum = 0, squares = 0;
  for (uint32_t i = 0; i < n; ++i) {
    const double x = log(fmax(1 - cosine[i], exact));
    sum += x;
    squares += x * x;
  }
  const double mean = sum / n, variance = fmax(0, (squares - n * mean * mean) / (n - 1.0));
  const double a = 1 - confidence * confidence / (2 * (n - 1.0)),
               b = z * z - confidence * confidence / n, k = (z + sqrt(z * z - a * b)) / a;
  return exp(mean + k * sqrt(variance));
}

double tune_expected(const double *cosine, uint32_t n) {
  enum { LEAST = 3, MARGIN = 3 };
  const double most = 1 - least_of(cosine, n);
  if (most <= 0) return 1;
  const double limit = n < LEAST ? 0 : tolerance_limit(cosine, n);
  return fmax(-1, 1 - fmax(limit, MARGIN * most));
}

/* Cosines on the inputs of the search and, where they are above the bound, on those held out. */
static accel_status compare(const tune *t, accel_endpoint *endpoint, tune_try *try) {
  uint32_t n;
  double *cosine = calloc(t->inputs.n + 1, sizeof *cosine);
  if (!cosine) return ACCEL_ERROR_OUT_OF_MEMORY;
  try->weight_bytes = accel_placement(endpoint)->weight_bytes;
  accel_status status = tune_compare(endpoint, &t->inputs, false, cosine, &n);
  if (status == ACCEL_OK) {
    try->cosine = least_of(cosine, n);
    try->expected = tune_expected(cosine, n);
    try->verdict = try->cosine < t->min_cosine     ? TUNE_BELOW
                   : try->expected < t->min_cosine ? TUNE_UNSURE
                                                   : TUNE_HOLDS;
  }
  if (status == ACCEL_OK && try->verdict == TUNE_HOLDS && t->inputs.n_held) {
    uint32_t held;
    status = tune_compare(endpoint, &t->inputs, true, cosine + n, &held);
    try->held_known = status == ACCEL_OK;
    try->held_cosine = least_of(cosine + n, held);
    try->expected = tune_expected(cosine, n + held);
    if (try->held_cosine < t->min_cosine)
      try->verdict = TUNE_BELOW_HELD;
    else if (try->expected < t->min_cosine)
      try->verdict = TUNE_UNSURE;
  }
  free(cosine);
  return status;
}

/* One load: compared unless it was, and timed as often as `passes` says; the median of these is a
 * round. */
static accel_status load_once(const tune *t, tune_try *try, bool compares, uint32_t passes) {
  accel_endpoint *endpoint;
  double ms[8], warm;
  accel_status status = open_try(t, try, &endpoint);
  if (status == ACCEL_OK && compares) status = compare(t, endpoint, try);
  if (status == ACCEL_OK && passes) status = tune_pass(endpoint, &t->inputs, t->new_tokens, &warm);
  for (uint32_t i = 0; status == ACCEL_OK && i < passes; ++i)
    status = tune_pass(endpoint, &t->inputs, t->new_tokens, &ms[i]);
  if (status == ACCEL_OK && passes) try->ms[try->rounds++] = bench_median(ms, passes);
  if (status != ACCEL_OK) status = cannot(try, status);
  accel_cleanup(&endpoint);
  return status;
}

/* Rounds of these tries in turn, every other round backwards; their medians. */
static accel_status time_rounds(const tune *t, tune_try *const *tries, uint32_t n, bool compares) {
  accel_status status = ACCEL_OK;
  for (uint32_t k = 0; k < n; ++k) tries[k]->rounds = 0;
  for (uint32_t r = 0; status == ACCEL_OK && r < t->rounds; ++r)
    for (uint32_t k = 0; status == ACCEL_OK && k < n; ++k) {
      tune_try *try = tries[r & 1 ? n - 1 - k : k];
      if (try->verdict != TUNE_CANNOT) status = load_once(t, try, compares && !r, 3);
    }
  for (uint32_t k = 0; k < n; ++k) {
    double sorted[TUNE_ROUNDS];
    memcpy(sorted, tries[k]->ms, sizeof sorted);
    if (tries[k]->verdict != TUNE_CANNOT && tries[k]->rounds)
      tries[k]->median_ms = bench_median(sorted, tries[k]->rounds);
  }
  return status;
}

/* ---- choosing ---- */

/* What is to be little, and what decides where that is about the same. */
static double cost(const tune *t, const tune_try *try) {
  return t->by_memory ? (double)try->weight_bytes : try->median_ms;
}

static double other_cost(const tune *t, const tune_try *try) {
  return t->by_memory ? try->median_ms : (double)try->weight_bytes;
}

/* The cheapest of those that hold and were timed; NULL: none does. */
static tune_try *best_of(const tune *t) {
  tune_try *best = NULL;
  double least = INFINITY;
  for (uint32_t i = 0; i < t->n; ++i)
    if (t->tries[i]->verdict == TUNE_HOLDS && t->tries[i]->rounds)
      least = fmin(least, cost(t, t->tries[i]));
  for (uint32_t i = 0; i < t->n; ++i) {
    tune_try *try = t->tries[i];
    if (try->verdict != TUNE_HOLDS || !try->rounds || !(cost(t, try) <= least * same_cost))
      continue;
    if (!best || other_cost(t, try) < other_cost(t, best)) best = try;
  }
  return best;
}

static bool is_cheaper(const tune *t, const tune_try *a, const tune_try *b) {
  return cost(t, a) * same_cost < cost(t, b) ||
         (cost(t, a) < cost(t, b) * same_cost && other_cost(t, a) < other_cost(t, b));
}

static double nearness(const tune_try *try) { return fmin(try->cosine, try->expected); }

/* The kind that mends most when it is raised, too; its try in *best (NULL: none could run). */
static accel_status raise_one(tune *t, const tune_try *from, const char *wide, tune_try **best) {
  *best = NULL;
  for (uint32_t i = 0; i < t->kinds; ++i) {
    if (from->raised >> i & 1) continue;
    tune_try *try = new_try(t, from->precision, wide, from->raised | 1u << i);
    if (!try) return ACCEL_OK; /* the table is full: what was found stands */
    const accel_status status = load_once(t, try, true, 0);
    if (status != ACCEL_OK) return status;
    if (try->verdict == TUNE_CANNOT) continue;
    if (!*best || nearness(try) > nearness(*best)) *best = try;
  }
  return ACCEL_OK;
}

/* Raises kinds of `base` until mixtures hold, and times these beside the one to beat. */
static accel_status mix(tune *t, const tune_try *base, tune_try *beat) {
  const tune_try *from = base;
  for (uint32_t raised = 1; raised < t->kinds; ++raised) {
    tune_try *best, *hold[TUNE_KINDS + 1] = {beat};
    uint32_t first = t->n, n = 1;
    const accel_status status = raise_one(t, from, beat->precision, &best);
    if (status != ACCEL_OK || !best) return status;
    for (; first < t->n; ++first)
      if (t->tries[first]->verdict == TUNE_HOLDS) hold[n++] = t->tries[first];
    if (n > 1) return time_rounds(t, hold, n, false);
    from = best;
  }
  return ACCEL_OK;
}

static accel_status mix_all(tune *t, uint32_t uniform) {
  tune_try *beat = best_of(t);
  bool mixed[TUNE_TRIES] = {false};
  accel_status status = ACCEL_OK;
  for (uint32_t k = 0; beat && status == ACCEL_OK && k < MIXED; ++k) {
    int next = -1; /* the cheapest that was not mixed yet */
    for (uint32_t i = 0; i < uniform; ++i) {
      const tune_try *try = t->tries[i];
      if (mixed[i] || try->verdict == TUNE_HOLDS || try->verdict == TUNE_CANNOT) continue;
      if (!is_cheaper(t, try, beat)) continue;
      if (next < 0 || cost(t, try) < cost(t, t->tries[next])) next = (int)i;
    }
    if (next < 0) return ACCEL_OK;
    mixed[next] = true;
    status = mix(t, t->tries[next], beat);
  }
  return status;
}

/* ---- all of it ---- */

/* The reference: fp32 on the CPU. */
static int refer(tune *t) {
  accel_endpoint *reference;
  accel_init_params how;
  cli_init_params(t->run, NULL, &how);
  how.device = "cpu";
  how.precision = "fp32";
  how.precision_profile = NULL;
  accel_status status = accel_init(t->run->ctx, t->model, &how, &reference);
  if (status != ACCEL_OK) return cli_fail(t->run, status);
  int code = tune_inputs_prepare(t->run, reference, &t->inputs);
  if (!code) {
    status = tune_inputs_refer(reference, &t->inputs);
    if (status != ACCEL_OK) code = cli_fail(t->run, status);
  }
  accel_cleanup(&reference);
  return code;
}

/* The device, the kinds of the model's layers, and the profile that others are made of. */
static int look(tune *t) {
  accel_endpoint *endpoint;
  accel_init_params how;
  cli_init_params(t->run, NULL, &how);
  how.precision = "fp32";
  how.precision_profile = NULL;
  accel_status status = accel_init(t->run->ctx, t->model, &how, &endpoint);
  if (status == ACCEL_OK) status = accel_precision_profile_json(endpoint, &t->profile);
  if (status == ACCEL_OK) {
    snprintf(t->device, sizeof t->device, "%s", accel_placement(endpoint)->device);
    cli_say_placement(t->run, accel_placement(endpoint));
  }
  accel_cleanup(&endpoint);
  if (status != ACCEL_OK) return cli_fail(t->run, status);
  cJSON *root = cJSON_Parse(t->profile);
  const cJSON *kinds = cJSON_GetObjectItemCaseSensitive(root, "kinds");
  for (const cJSON *k = kinds ? kinds->child : NULL; k && t->kinds < TUNE_KINDS; k = k->next)
    snprintf(t->kind[t->kinds++], sizeof t->kind[0], "%s", k->string);
  cJSON_Delete(root);
  return 0;
}

static bool is_wanted(char *const *wanted, uint32_t n, const char *name) {
  for (uint32_t i = 0; i < n; ++i)
    if (strcmp(wanted[i], name) == 0) return true;
  return !n || strcmp(name, "fp32") == 0; /* fp32 is what remains */
}

static int add_uniform(tune *t) {
  char **wanted = NULL;
  uint32_t n = 0, known = 0;
  const size_t all = sizeof precisions / sizeof *precisions;
  const char *given = t->run->value[OPT_PRECISIONS];
  if (given && !cli_split(given, &wanted, &n))
    return cli_error(t->run, ACCEL_ERROR_OUT_OF_MEMORY, "out of memory");
  for (uint32_t i = 0; i < n; ++i)
    for (size_t k = 0; k < all; ++k) known += strcmp(wanted[i], precisions[k]) == 0;
  for (size_t k = 0; k < all; ++k)
    if (is_wanted(wanted, n, precisions[k])) new_try(t, precisions[k], NULL, 0);
  free(wanted);
  return known == n ? 0
                    : cli_usage(t->run,
                                "--precisions %s: known are fp32, fp16, bf16, int8, int4, "
                                "uint4, fp8, fp4",
                                given);
}

int tune_search(tune *t) {
  int code = refer(t);
  if (!code) code = look(t);
  if (!code) code = add_uniform(t);
  if (code) return code;
  const uint32_t uniform = t->n;
  accel_status status = time_rounds(t, t->tries, uniform, true);
  if (status == ACCEL_OK) status = mix_all(t, uniform);
  if (status != ACCEL_OK) return cli_fail(t->run, status);
  const tune_try *best = best_of(t);
  for (uint32_t i = 0; best && i < t->n; ++i)
    if (t->tries[i] == best) t->chosen = (int)i;
  return 0;
}

void tune_free(tune *t) {
  for (uint32_t i = 0; i < t->n; ++i) free(t->tries[i]);
  accel_string_free(&t->profile);
  tune_inputs_free(&t->inputs);
}
