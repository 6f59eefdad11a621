/* cli_candidates.c - see cli_candidates.h. */
#include "cli/cli_candidates.h"

#include <cjson/cJSON.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "bench/bench_candidates.h"
#include "bench/bench_machine.h"
#include "cli/cli_database.h"
#include "cli/cli_goldens.h"
#include "cli/cli_predict.h"
#include "cli/cli_print.h"
#include "shared/candidates_name.h"

const char *cli_task_of(const cli_run *run) {
  static const char *const generates[] = {"generate", "translate", "summarize", "caption", "vqa"};
  const char *name = run->command->name;
  if (run->value[OPT_MAP_TASK]) name = run->value[OPT_MAP_TASK];
  for (size_t i = 0; i < sizeof generates / sizeof *generates; ++i)
    if (!strcmp(name, generates[i])) return "generate";
  return !strcmp(name, "transcribe") ? "transcribe" : "encode";
}

const char *cli_candidate_value(const accel_placement_report *report, double value, char *into,
                                size_t size) {
  if (!strcmp(report->metric, "memory")) return cli_bytes((uint64_t)value, into, size);
  snprintf(into, size, "%.3g %s", value,
           !strcmp(report->metric, "latency")      ? "ms"
           : !strcmp(report->metric, "throughput") ? "/s"
                                                   : "J");
  return into;
}

const char *cli_candidate_figure(const accel_placement_report *report,
                                 const accel_placement_candidate *c, char *into, size_t size) {
  char text[3][32], cosine[32] = "";
  if (isfinite(c->cosine)) snprintf(cosine, sizeof cosine, ", cosine %.6f", c->cosine);
  if (!*c->source)
    snprintf(into, size, "no %s is known%s", report->metric, cosine);
  else
    snprintf(into, size, "%s (%s to %s, %s)%s",
             cli_candidate_value(report, c->value, text[0], sizeof text[0]),
             cli_candidate_value(report, c->low, text[1], sizeof text[1]),
             cli_candidate_value(report, c->high, text[2], sizeof text[2]), c->source, cosine);
  return into;
}

typedef struct telling {
  const cli_choosing *about;
  const accel_placement_candidate *asked; /* [n] */
  uint32_t n;
  bench_db db;
  bench_candidates known;
  cJSON *notes;
} telling;

static void note(telling *t, const char *text) {
  cJSON_AddItemToArray(t->notes, cJSON_CreateString(text));
}

/* ---- rows ---- */

static void weights_name(const cli_choosing *about, char into[64]) {
  if (about->how->random_weights)
    snprintf(into, 64, "random, seed %llu", (unsigned long long)about->how->seed);
  else
    snprintf(into, 64, "local");
}

/* Of the model's files; "" where there are none, or random weights in their place. */
static void hash_of(const cli_choosing *about, char into[17]) {
  char *directory = NULL;
  into[0] = 0;
  if (about->how->random_weights ||
      accel_find_model(about->run->ctx, about->model, &directory) != ACCEL_OK)
    return;
  if (!cli_model_hash(directory, into)) into[0] = 0;
  accel_string_free(&directory);
}

static void note_rows(telling *t) {
  const bench_candidates *k = &t->known;
  char text[256];
  bool energy = false, any = false;
  for (uint32_t i = 0; i < k->n; ++i) energy |= k->item[i].figure[BENCH_ENERGY].value > 0;
  for (uint32_t i = 0; i < k->n; ++i) any |= k->item[i].figure[BENCH_LATENCY].value > 0;
  if (k->stale) {
    snprintf(text, sizeof text, "%u runs of it by other builds are not counted", k->stale);
    note(t, text);
  }
  if (k->elsewhere) {
    snprintf(text, sizeof text, "%u runs of it on other machines are not counted", k->elsewhere);
    note(t, text);
  }
  if (!any) note(t, "this build has measured no run of it here: accel bench MODEL --store");
  if (any && !energy && t->about->how->metric && !strcmp(t->about->how->metric, "energy"))
    note(t,
         "no run has an energy: the kernel shows no counter in /sys/class/powercap that can be "
         "read");
}

static bool read_rows(telling *t, char *message, uint32_t size) {
  const cli_choosing *about = t->about;
  char weights[64], hash[17];
  weights_name(about, weights);
  hash_of(about, hash);
  const bench_wanted wanted = {.model = about->model,
                               .weights = weights,
                               .model_hash = hash,
                               .task = about->task,
                               .threads = accel_thread_count(about->run->ctx),
                               .batch = about->how->batch_size,
                               .seq = about->seq};
  if (!bench_candidates_read(&t->db, &wanted, &t->known, message, size)) return false;
  note_rows(t);
  return true;
}

/* ---- predictions ---- */

static bool is_asked(const telling *t, const bench_cost_group *g) {
  for (uint32_t i = 0; i < t->n; ++i)
    if (!strcmp(t->asked[i].device, g->device) && !strcmp(t->asked[i].precision, g->precision))
      return true;
  return false;
}

/* Of the device as the newest run of the group names it. */
static bench_candidate *candidate_of(telling *t, const bench_cost_group *g) {
  const bench_row *newest = g->row[0];
  for (uint32_t i = 1; i < g->runs.n; ++i)
    if (g->row[i]->number[ROW_ID] > newest->number[ROW_ID]) newest = g->row[i];
  return bench_candidate_of(&t->known, g->device, newest->text[ROW_DRIVER],
                            newest->text[ROW_DEVICE_ID], g->precision);
}

/* An interval of too few runs is no interval. */
static bench_interval interval_of(const predicted *p) {
  bench_interval f = {(double)NAN, (double)NAN, (double)NAN, true};
  if (p->value > 0 && isfinite(p->bar.factor) && !p->bar.too_few)
    f = (bench_interval){p->value, p->value / p->bar.factor, p->value * p->bar.factor, true};
  return f;
}

static bench_interval figure_of(const prediction *p, bench_metric metric, uint32_t batch) {
  const bench_interval f = interval_of(metric == BENCH_MEMORY ? &p->memory : &p->latency);
  const double items = 1e3 * batch;
  return metric == BENCH_THROUGHPUT
             ? (bench_interval){items / f.value, items / f.high, items / f.low, true}
             : f;
}

/* What is predicted: the case that was measured, else what was said, else what accel predict takes. */
static bench_params params_of(const telling *t, bench_metric metric) {
  const cli_choosing *about = t->about;
  const bench_case *of = &t->known.of[metric];
  const bool measured = *of->task != 0, generates = about->task && !strcmp(about->task, "generate");
  const uint32_t batch = about->how->batch_size ? about->how->batch_size : 1,
                 more = about->new_tokens ? about->new_tokens : 64;
  return (bench_params){.model = about->model,
                        .output = measured && *of->output ? of->output : NULL,
                        .batch = measured ? of->batch : batch,
                        .seq = measured ? of->length : about->seq,
                        .new_tokens = measured    ? of->new_tokens
                                      : generates ? more
                                                  : 0};
}

static void name_case(const predicting *w, bench_case *of) {
  if (*of->task) return;
  *of = (bench_case){
      .batch = w->like.batch, .length = w->like.lengths[0], .new_tokens = w->params.new_tokens};
  snprintf(of->task, sizeof of->task, "%s", of->new_tokens ? "generate" : "encode");
  snprintf(of->output, sizeof of->output, "%s", w->like.output);
}

/* Has every candidate that was asked for a figure that was measured? */
static bool all_measured(const telling *t, bench_metric metric) {
  uint32_t n = 0;
  for (uint32_t i = 0; i < t->n; ++i) {
    bool has = false;
    for (uint32_t k = 0; k < t->known.n && !has; ++k)
      has = !strcmp(t->asked[i].device, t->known.item[k].device) &&
            !strcmp(t->asked[i].precision, t->known.item[k].precision) &&
            t->known.item[k].figure[metric].value > 0;
    n += has;
  }
  return n == t->n;
}

/* For the candidates that were not measured. */
static void predict_metric(telling *t, predicting *w, bench_metric metric) {
  prediction p;
  if (t->known.of[metric].ragged || all_measured(t, metric)) return;
  w->params = params_of(t, metric);
  if (predict_describe(w) != ACCEL_OK) {
    note(t, accel_last_error());
    return;
  }
  for (uint32_t i = 0; i < w->groups.n; ++i) {
    const bench_cost_group *g = &w->groups.group[i];
    if (!is_asked(t, g) || g->threads != accel_thread_count(w->run->ctx)) continue;
    bench_candidate *to = candidate_of(t, g);
    if (!to || to->figure[metric].value > 0 || !predict_on(w, g, metric == BENCH_MEMORY, &p))
      continue;
    if (*p.why) continue;
    const bench_interval f = figure_of(&p, metric, w->like.batch);
    if (f.value > 0) to->figure[metric] = f;
  }
  name_case(w, &t->known.of[metric]);
  free(w->like.lengths);
  w->like = (bench_result){0};
}

/* Of energy nothing is foretold, and of sounds to text neither. */
static void predict(telling *t) {
  const cli_choosing *about = t->about;
  const char *wanted = about->how->metric ? about->how->metric : bench_metric_names[BENCH_LATENCY];
  predicting w = {.run = about->run};
  char message[1024];
  if (about->task && !strcmp(about->task, "transcribe")) return;
  if (!bench_costs_read(&t->db, &w.groups, message, sizeof message)) note(t, message);
  for (int m = BENCH_LATENCY; m <= BENCH_MEMORY && w.groups.n; ++m)
    if (about->all_metrics || !strcmp(wanted, bench_metric_names[m]))
      predict_metric(t, &w, (bench_metric)m);
  bench_costs_free(&w.groups);
}

/* ---- the text ---- */

static void add_figure(cJSON *to, const char *name, const bench_interval *f) {
  if (!(f->value > 0)) return;
  cJSON *figure = cJSON_AddObjectToObject(to, name);
  cJSON_AddStringToObject(figure, "source", f->predicted ? "prediction" : "rows");
  cJSON_AddNumberToObject(figure, "value", f->value);
  cJSON_AddNumberToObject(figure, "low", f->low);
  cJSON_AddNumberToObject(figure, "high", f->high);
}

static void add_candidate(cJSON *list, const bench_candidate *c) {
  cJSON *to = cJSON_CreateObject();
  cJSON_AddItemToArray(list, to);
  cJSON_AddStringToObject(to, "device", c->device);
  cJSON_AddStringToObject(to, "driver", c->driver);
  cJSON_AddStringToObject(to, "id", c->id);
  cJSON_AddStringToObject(to, "precision", c->precision);
  if (c->golden) cJSON_AddStringToObject(to, "golden", c->golden > 0 ? "pass" : "fail");
  if (isfinite(c->cosine)) cJSON_AddNumberToObject(to, "cosine", c->cosine);
  for (int m = 0; m < BENCH_METRICS; ++m) add_figure(to, bench_metric_names[m], &c->figure[m]);
}

static void add_case(cJSON *to, const char *name, const bench_case *of) {
  char text[192], more[48] = "";
  if (!*of->task) return;
  if (of->new_tokens) snprintf(more, sizeof more, ", %u new tokens", of->new_tokens);
  snprintf(text, sizeof text, "%s, batch %u, %s %u%s", of->task, of->batch,
           of->ragged ? "lengths from" : "length", of->length, more);
  cJSON_AddStringToObject(to, name, text);
}

static char *text_of(telling *t) {
  char weights[64];
  cJSON *root = cJSON_CreateObject();
  weights_name(t->about, weights);
  cJSON_AddStringToObject(root, "schema", ACCEL_CANDIDATES_SCHEMA);
  cJSON_AddStringToObject(root, "model", t->about->model);
  cJSON_AddStringToObject(root, "weights", weights);
  cJSON_AddStringToObject(root, "build", bench_build_id());
  cJSON_AddNumberToObject(root, "threads", accel_thread_count(t->about->run->ctx));
  cJSON *of = cJSON_AddObjectToObject(root, "of");
  for (int m = 0; m < BENCH_METRICS; ++m) add_case(of, bench_metric_names[m], &t->known.of[m]);
  cJSON *list = cJSON_AddArrayToObject(root, "candidates");
  for (uint32_t i = 0; i < t->known.n; ++i) add_candidate(list, &t->known.item[i]);
  cJSON_AddItemToObject(root, "notes", t->notes);
  char *text = cJSON_Print(root);
  cJSON_Delete(root);
  return text;
}

char *cli_candidates(void *choosing, const accel_placement_candidate *candidate, uint32_t n) {
  cli_choosing *about = choosing;
  telling t = {.about = about, .asked = candidate, .n = n, .notes = cJSON_CreateArray()};
  char path[CLI_PATH], message[1024];
  if (!t.notes || cli_database_find(about->run, path)) {
    cJSON_Delete(t.notes);
    return NULL;
  }
  if (!*path || access(path, F_OK)) {
    snprintf(message, sizeof message,
             "%.512s: nothing was measured here: accel bench MODEL --store",
             *path ? path : "there is no place for a database");
    note(&t, message);
  } else if (!bench_db_open(&t.db, path, BENCH_DB_LOOK, message, sizeof message)) {
    note(&t, message);
  } else {
    if (read_rows(&t, message, sizeof message))
      predict(&t);
    else
      note(&t, message);
    bench_db_close(&t.db);
  }
  char *text = text_of(&t);
  bench_candidates_free(&t.known);
  free(about->text);
  about->text = text ? strdup(text) : NULL;
  return text;
}
