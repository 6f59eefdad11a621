/* conformance.c - holds a backend to the op set.
 *
 *   conformance --plugin FILE [--reference FILE] [--goldens DIR] [--list FILE] [--device N]
 *   [--precision P,P] [--filter
 * GLOB] [--seed N]
 *               [--threads N] [--mode run|list] [--once] [--verbose]
 *
 * Every golden case and every random case runs at every asked precision (default fp32).  At fp32
 * goldens are compared with PyTorch's numbers; random cases and other precisions with the reference
 * plugin given the same weights.  The list file names the cases a backend is excused from, one a
 * line: `never GLOB reason` or `not-yet GLOB reason`, GLOB matching "case@precision".  A case that
 * supports answers NO for and that no line excuses fails; an excused one that would pass fails too,
 * so that the list stays true. A line `near reason`: one item alone need not give the bits that it
 * gives in a batch, only the numbers, within the case's bounds. A line
 * `fp32-activations reason`: no precision changes what is computed, only weights and states; with
 * --once a case runs at the first precision alone of those at which it computes the same. A plugin
 * that is not usable here is skipped with its reason (exit code 77).  Exit code 0: nothing failed.
 */
#include <fnmatch.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "conformance.h"
#include "formats/format_table.h"

typedef struct excuse {
  bool never;
  char glob[96], reason[160];
} excuse;

typedef struct settings {
  const char *plugin, *reference, *goldens, *list, *precision, *filter;
  uint32_t device, threads;
  uint64_t seed;
  bool only_list, verbose, near, once, fp32_activations;
  excuse excuses[256];
  uint32_t n_excuse;
} settings;

typedef struct score {
  uint32_t passed, failed, skipped;
} score;

static const char *value(int argc, char **argv, int *i) { return *i + 1 < argc ? argv[++*i] : ""; }

static bool parse(int argc, char **argv, settings *s) {
  *s = (settings){.precision = "fp32", .filter = "*", .threads = 2, .seed = 20260101};
  for (int i = 1; i < argc; i++) {
    if (!strcmp(argv[i], "--plugin"))
      s->plugin = value(argc, argv, &i);
    else if (!strcmp(argv[i], "--reference"))
      s->reference = value(argc, argv, &i);
    else if (!strcmp(argv[i], "--goldens"))
      s->goldens = value(argc, argv, &i);
    else if (!strcmp(argv[i], "--list"))
      s->list = value(argc, argv, &i);
    else if (!strcmp(argv[i], "--precision"))
      s->precision = value(argc, argv, &i);
    else if (!strcmp(argv[i], "--filter"))
      s->filter = value(argc, argv, &i);
    else if (!strcmp(argv[i], "--device"))
      s->device = (uint32_t)atoi(value(argc, argv, &i));
    else if (!strcmp(argv[i], "--threads"))
      s->threads = (uint32_t)atoi(value(argc, argv, &i));
    else if (!strcmp(argv[i], "--seed"))
      s->seed = strtoull(value(argc, argv, &i), NULL, 0);
    else if (!strcmp(argv[i], "--mode"))
      s->only_list = !strcmp(value(argc, argv, &i), "list");
    else if (!strcmp(argv[i], "--once"))
      s->once = true;
    else if (!strcmp(argv[i], "--verbose"))
      s->verbose = true;
    else
      return fprintf(stderr, "conformance: %s is unknown\n", argv[i]), false;
  }
  return s->plugin || s->only_list ||
         (fprintf(stderr, "conformance: --plugin FILE is needed\n"), false);
}

/* An absent file excuses nothing. */
static bool read_list(settings *s) {
  FILE *f = s->list ? fopen(s->list, "r") : NULL;
  char line[400];
  if (!f) return true;
  while (fgets(line, sizeof line, f) && s->n_excuse < 256) {
    excuse *e = &s->excuses[s->n_excuse];
    char word[16];
    if (line[0] == '#' || line[0] == '\n') continue;
    if (!strncmp(line, "near ", 5)) {
      s->near = true;
      continue;
    }
    if (!strncmp(line, "fp32-activations ", 17)) {
      s->fp32_activations = true;
      continue;
    }
    if (sscanf(line, "%15s %95s %159[^\n]", word, e->glob, e->reason) != 3 ||
        (strcmp(word, "never") && strcmp(word, "not-yet"))) {
      fprintf(stderr, "%s: expected 'never GLOB reason' or 'not-yet GLOB reason': %s", s->list,
              line);
      fclose(f);
      return false;
    }
    e->never = !strcmp(word, "never");
    s->n_excuse++;
  }
  fclose(f);
  return true;
}

static const excuse *excused(const settings *s, const char *what) {
  for (uint32_t i = 0; i < s->n_excuse; i++)
    if (fnmatch(s->excuses[i].glob, what, 0) == 0) return &s->excuses[i];
  return NULL;
}

static void judge(const settings *s, const char *what, conf_result r, score *total) {
  const excuse *e = excused(s, what);
  if (r.verdict == CONF_PASS && e) {
    printf("FAIL %s: listed as %s (%s) but it passes: strike it from the list\n", what,
           e->never ? "never" : "not-yet", e->reason);
    total->failed++;
  } else if (r.verdict == CONF_PASS) {
    if (s->verbose) printf("pass %s\n", what);
    total->passed++;
  } else if (e && (!e->never || r.verdict == CONF_NO)) {
    printf("skip %s: %s: %s\n", what, e->never ? "never" : "not yet", e->reason);
    total->skipped++;
  } else {
    printf("FAIL %s: %s%s\n", what, r.verdict == CONF_NO ? "not supported and not listed: " : "",
           r.why);
    total->failed++;
  }
}

/* Whether a case computes at precision `at` of `list` what it computed at one before: no precision
 * changes activations, and it has no weights, and states of the same type, if any. */
static bool is_repeated(const settings *s, const conf_case *c, const char *const *list,
                        uint32_t at) {
  accel_plugin_precision wanted, before;
  if (!s->fp32_activations || memchr(c->role, 'w', c->n_operand) ||
      !conf_precision(list[at], &wanted))
    return false;
  for (uint32_t i = 0; i < at; i++)
    if (conf_precision(list[i], &before) && (!c->has_state || wanted.kv == before.kv)) return true;
  return false;
}

static void run_precision(const settings *s, const char *const *list, uint32_t at,
                          const conf_cases *cases, conf_plugin *plugin, conf_plugin *reference,
                          score *total) {
  for (uint32_t i = 0; i < cases->n; i++) {
    const conf_case *c = &cases->at[i];
    char what[160];
    if (fnmatch(s->filter, c->name, 0) || (s->once && is_repeated(s, c, list, at))) continue;
    snprintf(what, sizeof what, "%s@%s", c->name, list[at]);
    judge(s, what, conf_run_case(c, list[at], plugin, reference), total);
    fflush(stdout);
  }
}

/* Names of the asked precisions, in `text` where the user named them; answers how many. */
static uint32_t precisions(const settings *s, char *text, size_t size, const char **out) {
  uint32_t n = 0;
  if (!strcmp(s->precision, "all")) {
    while ((out[n] = conf_precision_at(n)) != NULL) n++;
    return n;
  }
  snprintf(text, size, "%s", s->precision);
  for (char *p; n < ACCEL_FORMAT_NUMBERS && (p = strsep(&text, ",")) != NULL;) out[n++] = p;
  return n;
}

static int run(const settings *s, const conf_cases *cases) {
  conf_plugin plugin, reference = {0};
  score total = {0};
  const char *why = conf_plugin_open(s->plugin, s->device, s->threads, &plugin);
  if (why) {
    printf("skip %s: %s\n0 passed, 0 failed, 1 skipped\n", s->plugin, why);
    return 77;
  }
  plugin.near = s->near;
  const char *no_reference =
      s->reference ? conf_plugin_open(s->reference, 0, 1, &reference) : "no --reference given";
  if (no_reference) fprintf(stderr, "conformance: reference plugin: %s\n", no_reference);
  printf("%s:%u, seed %llu, %u cases\n", plugin.table->name, s->device, (unsigned long long)s->seed,
         cases->n);
  if (fnmatch(s->filter, "refusals", 0) == 0) judge(s, "refusals", conf_refusals(&plugin), &total);
  char list[128];
  const char *precision[ACCEL_FORMAT_NUMBERS];
  const uint32_t n = precisions(s, list, sizeof list, precision);
  for (uint32_t i = 0; i < n; i++)
    run_precision(s, precision, i, cases, &plugin, no_reference ? NULL : &reference, &total);
  conf_result warned = {.verdict = plugin.warning[0] ? CONF_FAIL : CONF_PASS};
  snprintf(warned.why, sizeof warned.why, "%s", plugin.warning);
  judge(s, "warnings", warned, &total);
  printf("%u passed, %u failed, %u skipped\n", total.passed, total.failed, total.skipped);
  conf_plugin_close(&plugin);
  if (!no_reference) conf_plugin_close(&reference);
  return total.failed != 0 || total.passed == 0;
}

int main(int argc, char **argv) {
  static settings s;
  conf_cases cases = {0};
  if (!parse(argc, argv, &s) || !read_list(&s)) return 2;
  const char *why = s.goldens ? conf_load(s.goldens, &cases) : NULL;
  if (!why) why = conf_random(s.seed, &cases);
  if (why) {
    fprintf(stderr, "conformance: %s\n", why);
    conf_cases_free(&cases);
    return 1;
  }
  int rc = 0;
  if (s.only_list)
    for (uint32_t i = 0; i < cases.n; i++) printf("%s\n", cases.at[i].name);
  else
    rc = run(&s, &cases);
  conf_cases_free(&cases);
  return rc;
}
