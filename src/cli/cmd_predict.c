/* cmd_predict.c - accel predict: what a model that was never run here would take, and how good such
 * predictions are. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "bench/bench_costs.h"
#include "bench/bench_inputs.h"
#include "bench/bench_stats.h"
#include "cli/cli_database.h"
#include "cli/cli_print.h"

/* A number and the factor within which it is right. */
typedef struct figure {
  double value; /* NaN: there is none */
  bench_bar bar;
} figure;

/* On one device at one precision. */
typedef struct prediction {
  const bench_cost_group *group;
  figure latency, prefill, token; /* ms */
  figure memory;                  /* bytes */
  double unseen;                  /* share of the time that ops take which were never measured */
  bool known;                     /* runs of this model are among those that were learnt from */
  char why[256];                  /* not "": there is no prediction */
} prediction;

typedef struct predicting {
  cli_run *run;
  bench_cost_groups groups;
  bench_params params;
  bench_result like; /* kind, lengths and output; nothing of it was measured */
  bool encodes;      /* the model that generates has an encoder */
  bool waves;        /* its sounds are samples, not frames */
} predicting;

/* ---- which groups ---- */

/* "opencl" names opencl:0, too. */
static bool named(const char *option, const char *device) {
  const size_t n = option ? strlen(option) : 0;
  if (!option || !strcmp(option, "auto")) return true;
  return !strncmp(option, device, n) && (!device[n] || device[n] == ':');
}

static bool wanted(const cli_run *run, const bench_cost_group *g) {
  const char *precision = run->value[OPT_PRECISION];
  return named(run->value[OPT_DEVICE], g->device) && named(precision, g->precision) &&
         g->threads == accel_thread_count(run->ctx);
}

static int nothing_measured(const cli_run *run, const char *path) {
  const char *device = run->value[OPT_DEVICE], *precision = run->value[OPT_PRECISION];
  return cli_error(run, ACCEL_ERROR_NOT_FOUND,
                   "%s: has no profiled runs of this machine on %s at %s with %u threads; accel "
                   "bench MODEL --profile --store%s%s%s%s, of several models, measures them",
                   *path ? path : "the database", device ? device : "any device",
                   precision ? precision : "any precision", accel_thread_count(run->ctx),
                   device ? " --device " : "", device ? device : "",
                   precision ? " --precision " : "", precision ? precision : "");
}

static int read_groups(cli_run *run, bench_cost_groups *out, char path[CLI_PATH]) {
  char message[1024];
  bench_db db;
  bool open, any = false;
  int code = cli_database_open(run, path, &db, &open);
  *out = (bench_cost_groups){0};
  if (open && !bench_costs_read(&db, out, message, sizeof message))
    code = cli_error(run, ACCEL_ERROR_IO, "%s", message);
  if (open) {
    bench_db_commit(&db, SQLITE_OK, message, sizeof message); /* a migration is kept */
    bench_db_close(&db);
  }
  for (uint32_t i = 0; i < out->n; ++i) any |= wanted(run, &out->group[i]);
  return code || any ? code : nothing_measured(run, path);
}

/* ---- planned steps ---- */

static void take_step(void *user, const accel_profile_step *step) {
  bench_cost_run *run = user;
  bench_cost cost = {.flop = step->flop,
                     .bytes = step->bytes,
                     .weights = step->weight_bytes,
                     .results = step->result_bytes};
  snprintf(cost.op, sizeof cost.op, "%s", step->op);
  for (char *c = cost.op; *c; ++c)
    if (*c >= 'A' && *c <= 'Z') *c = (char)(*c - 'A' + 'a');
  if (run->n != UINT32_MAX && !bench_cost_add(run, &cost)) {
    bench_cost_run_free(run);
    run->n = UINT32_MAX;
  }
}

static accel_status plan(const predicting *w, const accel_plan_params *params,
                         const bench_cost_group *g, bench_cost_run *out) {
  accel_plan_params how = *params;
  how.device = g->device;
  how.precision = g->precision;
  how.architecture = w->run->value[OPT_ARCHITECTURE];
  how.batch = w->like.batch;
  *out = (bench_cost_run){0};
  accel_status status = accel_plan_steps(w->run->ctx, w->params.model, &how, take_step, out);
  if (out->n == UINT32_MAX) {
    *out = (bench_cost_run){0};
    status = ACCEL_ERROR_OUT_OF_MEMORY;
  }
  if (status != ACCEL_OK) bench_cost_run_free(out);
  return status;
}

/* ---- time ---- */

/* Of one planned run. */
static accel_status predict_run(const predicting *w, const accel_plan_params *params,
                                const bench_law *law, const bench_left_out *left, bool decodes,
                                prediction *p, figure *out) {
  bench_cost_run run;
  double unseen;
  accel_status status = plan(w, params, p->group, &run);
  if (status != ACCEL_OK) return status;
  run.decodes = decodes;
  *out = (figure){bench_law_run(law, &run, &unseen), left->bar[decodes]};
  p->unseen = fmax(p->unseen, unseen);
  bench_cost_run_free(&run);
  return ACCEL_OK;
}

/* The prompts at once, then a token of each after the other; the states that it reads are those of
 * half of the way. */
static accel_status predict_generation(const predicting *w, const bench_law *law,
                                       const bench_left_out *left, prediction *p) {
  const uint32_t seq = w->like.lengths[0], new = w->params.new_tokens;
  accel_plan_params prompt = accel_plan_params_default(), token = prompt;
  prompt.entry = w->encodes ? "encode" : "decode";
  prompt.seq = seq;
  token.entry = "decode";
  token.seq = 1;
  token.past = (w->encodes ? 0 : seq) + new / 2;
  token.encoded = w->encodes ? seq : 0;
  accel_status status = predict_run(w, &prompt, law, left, false, p, &p->prefill);
  if (status == ACCEL_OK) status = predict_run(w, &token, law, left, true, p, &p->token);
  if (status != ACCEL_OK) return status;
  /* the first token of a model with an encoder is a step of its decoder */
  if (w->encodes) p->prefill.value += p->token.value;
  const bool fewer = p->token.bar.n && p->token.bar.n < p->prefill.bar.n;
  p->latency = (figure){p->prefill.value + (new - 1) * p->token.value,
                        fewer ? p->token.bar : p->prefill.bar};
  return ACCEL_OK;
}

static accel_status predict_time(const predicting *w, const bench_law *law,
                                 const bench_left_out *left, prediction *p) {
  accel_plan_params how = accel_plan_params_default();
  if (w->params.new_tokens) return predict_generation(w, law, left, p);
  how.output = w->like.output;
  if (w->like.kind == BENCH_TOKENS)
    how.seq = w->like.lengths[0];
  else if (w->like.kind == BENCH_PICTURES || w->waves)
    how.side = w->like.lengths[0];
  return predict_run(w, &how, law, left, false, p, &p->latency);
}

/* ---- memory ---- */

/* The most that a process has with the model, as the planner says; 0: it does not.  how: batch, and
 * seq of what `tokens` says it is of: tokens, or pictures and sounds. */
static double planned_memory(const cli_run *run, const char *model, const bench_cost_group *g,
                             accel_fit_params how, bool tokens, uint64_t *process) {
  accel_fit_report *report;
  double bytes = 0;
  how.device = g->device;
  how.precision = g->precision;
  if (accel_fit(run->ctx, model, &how, &report) != ACCEL_OK) return 0;
  if (!tokens && how.seq && !strcmp(report->unit, "tokens")) { /* of its texts: they are not run */
    how.seq = 1;
    accel_fit_report_free(&report);
    if (accel_fit(run->ctx, model, &how, &report) != ACCEL_OK) return 0;
  }
  const accel_fit_record *f = report->n ? &report->record[0] : NULL;
  if (!*process) *process = report->process; /* of the first: later ones find what earlier left */
  if (f && f->fits >= 0) bytes = (double)f->peak + (f->resident ? (double)*process : 0);
  accel_fit_report_free(&report);
  return bytes;
}

/* On a CPU, where the process's memory was measured, beside the plans of the measured runs. */
static figure predict_memory(const predicting *w, const bench_cost_group *g) {
  uint64_t process = 0;
  uint32_t n = 0;
  accel_fit_params how = accel_fit_params_default();
  how.batch = w->like.batch;
  how.seq = w->like.lengths[0];
  how.new_tokens = w->params.new_tokens;
  figure out = {
      planned_memory(w->run, w->params.model, g, how, w->like.kind == BENCH_TOKENS, &process),
      bench_bar_of(NULL, 0)};
  double *ratio = malloc((g->runs.n + (size_t)1) * sizeof *ratio), middle = 1;
  const bool of_process = !strcmp(g->device, "cpu");
  for (uint32_t i = 0; ratio && of_process && i < g->runs.n; ++i) {
    const bench_row *row = g->row[i];
    how.batch = (uint32_t)row->number[ROW_BATCH];
    how.seq = (uint32_t)strtoul(row->text[ROW_LENGTHS], NULL, 10);
    how.new_tokens = (uint32_t)row->number[ROW_NEW_TOKENS];
    const double planned =
        planned_memory(w->run, row->text[ROW_MODEL], g, how, row->number[ROW_TOKENS] > 0, &process);
    if (planned > 0 && row->number[ROW_PEAK_RSS] > 0)
      ratio[n++] = row->number[ROW_PEAK_RSS] / planned;
  }
  if (n) middle = bench_median(ratio, n);
  for (uint32_t i = 0; i < n; ++i) ratio[i] /= middle;
  if (n) out.bar = bench_bar_of(ratio, n);
  out.value *= middle;
  if (!(out.value > 0)) out.value = (double)NAN;
  free(ratio);
  return out;
}

/* ---- all of a model ---- */

static int predict(const predicting *w, const bench_cost_group *g, prediction *p) {
  bench_left_out left = {0};
  bench_law *law = bench_law_new(&g->runs, UINT32_MAX);
  const figure none = {(double)NAN, {0}};
  *p = (prediction){.group = g, .latency = none, .prefill = none, .token = none, .memory = none};
  if (!law || !bench_leave_one_out(&g->runs, &left)) {
    bench_law_free(law);
    bench_left_out_free(&left);
    return cli_error(w->run, ACCEL_ERROR_OUT_OF_MEMORY, "out of memory");
  }
  for (uint32_t i = 0; i < g->runs.n; ++i)
    p->known |= !strcmp(g->row[i]->text[ROW_MODEL], w->params.model);
  if (predict_time(w, law, &left, p) != ACCEL_OK)
    snprintf(p->why, sizeof p->why, "%s", accel_last_error());
  else
    p->memory = predict_memory(w, g);
  bench_law_free(law);
  bench_left_out_free(&left);
  return 0;
}

static bool listed(const accel_strings *names, const char *name) {
  for (uint32_t i = 0; i < names->n; ++i)
    if (!strcmp(names->item[i], name)) return true;
  return false;
}

static int describe(predicting *w) {
  cli_run *run = w->run;
  accel_strings *in, *out;
  accel_status status =
      accel_model_io(run->ctx, w->params.model, run->value[OPT_ARCHITECTURE], &in, &out);
  if (status != ACCEL_OK) return cli_fail(run, status);
  w->encodes = listed(in, "decoder_input_ids");
  w->waves = listed(in, "input_values");
  status = bench_inputs_plan(run->ctx, &w->params, in, out, &w->like);
  accel_strings_free(&in);
  accel_strings_free(&out);
  return status == ACCEL_OK ? 0 : cli_error(run, status, "out of memory");
}

/* ---- printing ---- */

static void figure_json(cli_json *json, const char *name, const figure *f) {
  if (isnan(f->value)) return;
  cli_json_open(json, name, '{');
  cli_json_double(json, "predicted", f->value);
  cli_json_double(json, "low", f->value / f->bar.factor);
  cli_json_double(json, "high", f->value * f->bar.factor);
  cli_json_int(json, "bar_of_runs", f->bar.n);
  cli_json_bool(json, "bar_of_too_few", f->bar.too_few);
  cli_json_close(json, '}');
}

static int print_json(const predicting *w, const prediction *list, uint32_t n) {
  cli_json json;
  int code = cli_json_begin(w->run, "accel.predict/1", &json);
  if (code) return code;
  cli_json_bool(&json, "measured", false);
  cli_json_text(&json, "model", w->params.model);
  cli_json_text(&json, "output", w->like.output);
  cli_json_int(&json, "batch", w->like.batch);
  cli_json_int(&json, "seq", w->like.lengths[0]);
  cli_json_int(&json, "new_tokens", w->params.new_tokens);
  cli_json_double(&json, "coverage", BENCH_COVERAGE);
  cli_json_open(&json, "predictions", '[');
  for (uint32_t i = 0; i < n; ++i) {
    const prediction *p = &list[i];
    cli_json_open(&json, NULL, '{');
    cli_json_text(&json, "device", p->group->device);
    cli_json_text(&json, "precision", p->group->precision);
    cli_json_int(&json, "threads", p->group->threads);
    cli_json_int(&json, "learnt_from_runs", p->group->runs.n);
    cli_json_int(&json, "learnt_from_models", p->group->runs.models);
    cli_json_bool(&json, "model_is_among_them", p->known);
    cli_json_text(&json, "why", p->why);
    if (!*p->why) cli_json_double(&json, "unseen_share", p->unseen);
    figure_json(&json, "latency_ms", &p->latency);
    figure_json(&json, "prefill_ms", &p->prefill);
    figure_json(&json, "token_ms", &p->token);
    figure_json(&json, "memory_bytes", &p->memory);
    cli_json_close(&json, '}');
  }
  cli_json_close(&json, ']');
  return cli_json_end(w->run, &json);
}

static void figure_cells(const figure *f, bool bytes, char value[32], char range[64]) {
  const double low = f->value / f->bar.factor, high = f->value * f->bar.factor;
  char a[32], b[32];
  snprintf(value, 32, "-");
  snprintf(range, 64, "not known");
  if (isnan(f->value)) return;
  if (bytes) {
    cli_bytes((uint64_t)f->value, value, 32);
    if (isnan(low)) return;
    snprintf(range, 64, "%s to %s", cli_bytes((uint64_t)low, a, sizeof a),
             cli_bytes((uint64_t)high, b, sizeof b));
  } else {
    snprintf(value, 32, "%.3g ms", f->value);
    if (!isnan(low)) snprintf(range, 64, "%.3g to %.3g ms", low, high);
  }
  if (f->bar.too_few) strcat(range, " *");
}

static void print_table(const predicting *w, const prediction *list, uint32_t n) {
  static const char *const head[] = {"device", "precision", "what", "predicted", "nine of ten in"};
  static const char *const names[] = {"latency", "prefill", "a token", "memory"};
  cli_table table = {0};
  bool few = false;
  printf("%s, %s; a batch of %u, %u %s each\n\n", w->params.model, w->like.output, w->like.batch,
         w->like.lengths[0],
         w->like.kind == BENCH_TOKENS     ? "tokens"
         : w->like.kind == BENCH_PICTURES ? "pixels a side"
                                          : "samples");
  cli_table_row(&table, 5, head);
  for (uint32_t i = 0; i < n; ++i) {
    const figure *figures[] = {&list[i].latency, &list[i].prefill, &list[i].token, &list[i].memory};
    char value[32], range[64];
    const char *refused[] = {list[i].group->device, list[i].group->precision, "cannot run", "",
                             list[i].why};
    if (*list[i].why) cli_table_row(&table, 5, refused);
    for (int k = 0; k < 4 && !*list[i].why; ++k) {
      if (isnan(figures[k]->value)) continue;
      figure_cells(figures[k], k == 3, value, range);
      few |= figures[k]->bar.too_few;
      const char *cells[] = {list[i].group->device, list[i].group->precision, names[k], value,
                             range};
      cli_table_row(&table, 5, cells);
    }
  }
  cli_table_print(&table, "lllrl");
  if (few) puts("\n* of too few runs to say so: the widest that was seen");
  for (uint32_t i = 0; i < n; ++i) {
    const bench_cost_group *g = list[i].group;
    printf("%s%s at %s: from %u runs of %u models%s", i && !few ? "" : "\n", g->device,
           g->precision, g->runs.n, g->runs.models, list[i].known ? ", this one among them" : "");
    if (list[i].unseen > 0)
      printf(
          "; ops that were never measured take %.1f %% of the time, by %.0f %% of the peak of "
          "computing or %.0f %% of that of memory",
          100 * list[i].unseen, 100 * BENCH_PRIOR_FLOP, 100 * BENCH_PRIOR_BYTES);
    puts("");
  }
}

static int predict_model(predicting *w) {
  prediction *list = calloc(w->groups.n + (size_t)1, sizeof *list);
  uint32_t n = 0;
  int code = list ? describe(w) : cli_error(w->run, ACCEL_ERROR_OUT_OF_MEMORY, "out of memory");
  for (uint32_t i = 0; !code && i < w->groups.n; ++i)
    if (wanted(w->run, &w->groups.group[i])) code = predict(w, &w->groups.group[i], &list[n++]);
  if (!code && cli_flag(w->run, OPT_JSON))
    code = print_json(w, list, n);
  else if (!code)
    print_table(w, list, n);
  free(list);
  return code;
}

/* ---- how good predictions are ---- */

/* What a run's ops took and were predicted to take. */
static void ops_json(cli_json *json, const bench_cost_run *run, const double *step_ms) {
  cli_json_open(json, "ops", '[');
  for (uint32_t i = 0; step_ms && i < run->n; ++i) {
    double measured = 0, predicted = 0;
    bool told = false;
    for (uint32_t k = 0; k < run->n; ++k) {
      if (strcmp(run->cost[k].op, run->cost[i].op) != 0) continue;
      told |= k < i;
      measured += run->cost[k].steps * run->cost[k].ms;
      predicted += run->cost[k].steps * step_ms[k];
    }
    if (told) continue;
    cli_json_open(json, NULL, '{');
    cli_json_text(json, "op", run->cost[i].op);
    cli_json_double(json, "measured_ms", measured);
    cli_json_double(json, "predicted_ms", predicted);
    cli_json_close(json, '}');
  }
  cli_json_close(json, ']');
}

static void errors_json(cli_json *json, const bench_cost_group *g, const bench_left_out *left) {
  cli_json_open(json, NULL, '{');
  cli_json_text(json, "device", g->device);
  cli_json_text(json, "precision", g->precision);
  cli_json_int(json, "threads", g->threads);
  cli_json_int(json, "models", g->runs.models);
  cli_json_double(json, "median_error", left->median);
  cli_json_double(json, "p90_error", left->p90);
  cli_json_double(json, "covered", left->covered);
  cli_json_open(json, "runs", '[');
  for (uint32_t i = 0; i < g->runs.n; ++i) {
    const bench_row *row = g->row[i];
    cli_json_open(json, NULL, '{');
    cli_json_text(json, "model", row->text[ROW_MODEL]);
    cli_json_text(json, "task", row->text[ROW_TASK]);
    cli_json_int(json, "batch", (int64_t)row->number[ROW_BATCH]);
    cli_json_text(json, "lengths", row->text[ROW_LENGTHS]);
    cli_json_double(json, "measured_ms", g->runs.run[i].ms);
    cli_json_double(json, "predicted_ms", left->ms[i]);
    ops_json(json, &g->runs.run[i], left->step_ms[i]);
    cli_json_close(json, '}');
  }
  cli_json_close(json, ']');
  cli_json_close(json, '}');
}

static void errors_row(cli_table *table, const bench_cost_group *g, const bench_left_out *left) {
  char text[4][32];
  snprintf(text[0], sizeof text[0], "%u", g->runs.models);
  snprintf(text[1], sizeof text[1], "%u", g->runs.n);
  for (int i = 0; i < 2; ++i) {
    const double error = i ? left->p90 : left->median;
    snprintf(text[2 + i], sizeof text[2], isnan(error) ? "-" : "%.1f %%", 100 * error);
  }
  const char *cells[] = {g->device, g->precision, text[0], text[1], text[2], text[3]};
  cli_table_row(table, 6, cells);
}

/* Each model predicted from all others. */
static int tell_errors(cli_run *run, const bench_cost_groups *groups) {
  static const char *const head[] = {"device", "precision",    "models",
                                     "runs",   "median error", "90 % below"};
  const bool as_json = cli_flag(run, OPT_JSON);
  cli_table table = {0};
  cli_json json;
  int code = as_json ? cli_json_begin(run, "accel.predict_errors/1", &json) : 0;
  if (code) return code;
  if (as_json)
    cli_json_open(&json, "groups", '[');
  else
    cli_table_row(&table, 6, head);
  for (uint32_t i = 0; !code && i < groups->n; ++i) {
    bench_left_out left;
    if (!wanted(run, &groups->group[i])) continue;
    if (!bench_leave_one_out(&groups->group[i].runs, &left))
      code = cli_error(run, ACCEL_ERROR_OUT_OF_MEMORY, "out of memory");
    else if (as_json)
      errors_json(&json, &groups->group[i], &left);
    else
      errors_row(&table, &groups->group[i], &left);
    bench_left_out_free(&left);
  }
  if (as_json) {
    cli_json_close(&json, ']');
    return cli_json_end(run, &json);
  }
  cli_table_print(&table, "llrrrr");
  return code;
}

int cmd_predict(cli_run *run) {
  const char *task = run->value[OPT_TASK] ? run->value[OPT_TASK] : "encode";
  const bool generates = !strcmp(task, "generate");
  char path[CLI_PATH];
  predicting w = {.run = run,
                  .params = {.model = run->n_args ? run->args[0] : NULL,
                             .output = run->value[OPT_OUTPUTS],
                             .batch = (uint32_t)cli_count(run, OPT_BATCH, 1),
                             .seq = (uint32_t)cli_count(run, OPT_SEQ, 0),
                             .new_tokens = generates ? (uint32_t)cli_count(run, OPT_NEW, 64) : 0}};
  if (!w.params.batch) w.params.batch = 1;
  if (!generates && strcmp(task, "encode") != 0)
    return cli_usage(run, "--task: encode or generate, not %s", task);
  if (!generates && run->value[OPT_NEW]) return cli_usage(run, "--new goes with --task generate");
  int code = cli_context(run);
  if (!code) code = read_groups(run, &w.groups, path);
  if (!code) code = w.params.model ? predict_model(&w) : tell_errors(run, &w.groups);
  free(w.like.lengths);
  bench_costs_free(&w.groups);
  return code;
}
