/* cmd_predict.c - accel predict: what a model that was never run here would take, and how good such
 * predictions are. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "cli/cli_database.h"
#include "bench/bench_images.h"
#include "cli/cli_predict.h"
#include "cli/cli_print.h"

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

/* ---- printing ---- */

static void figure_json(cli_json *json, const char *name, const predicted *f) {
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
  if (w->params.paints) {
    cli_json_int(&json, "pictures", w->params.batch);
  } else {
    cli_json_text(&json, "output", w->like.output);
    cli_json_int(&json, "batch", w->like.batch);
    cli_json_int(&json, "seq", w->like.lengths[0]);
  }
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
    figure_json(&json, w->params.paints ? "step_ms" : "token_ms", &p->token);
    if (w->params.paints && !*p->why) cli_json_double(&json, "texts_ms", p->texts_ms);
    if (w->params.paints && !*p->why) cli_json_double(&json, "decode_ms", p->decode_ms);
    figure_json(&json, "memory_bytes", &p->memory);
    cli_json_close(&json, '}');
  }
  cli_json_close(&json, ']');
  return cli_json_end(w->run, &json);
}

static void figure_cells(const predicted *f, bool bytes, char value[32], char range[64]) {
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
  const char *const names[] = {"latency", "prefill", w->params.paints ? "a step" : "a token",
                               "memory"};
  cli_table table = {0};
  bool few = false;
  if (w->params.paints)
    printf("%s; %u picture%s of one prompt\n\n", w->params.model, w->params.batch,
           w->params.batch == 1 ? "" : "s");
  else
    printf("%s, %s; a batch of %u, %u %s each\n\n", w->params.model, w->like.output, w->like.batch,
           w->like.lengths[0],
           w->like.kind == BENCH_TOKENS     ? "tokens"
           : w->like.kind == BENCH_PICTURES ? "pixels a side"
           : w->like.kind == BENCH_LATENTS  ? "latents a side"
                                            : "samples");
  cli_table_row(&table, 5, head);
  for (uint32_t i = 0; i < n; ++i) {
    const predicted *figures[] = {&list[i].latency, &list[i].prefill, &list[i].token,
                                  &list[i].memory};
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
  const accel_status status = list ? predict_describe(w) : ACCEL_ERROR_OUT_OF_MEMORY;
  bool whole = list != NULL;
  int code = status == ACCEL_OK || !list ? 0 : cli_fail(w->run, status);
  for (uint32_t i = 0; !code && whole && i < w->groups.n; ++i)
    if (wanted(w->run, &w->groups.group[i]))
      whole = predict_on(w, &w->groups.group[i], true, &list[n++]);
  if (!whole) code = cli_error(w->run, ACCEL_ERROR_OUT_OF_MEMORY, "out of memory");
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
    double measured = 0, expected = 0;
    bool told = false;
    for (uint32_t k = 0; k < run->n; ++k) {
      if (strcmp(run->cost[k].op, run->cost[i].op) != 0) continue;
      told |= k < i;
      measured += run->cost[k].steps * run->cost[k].ms;
      expected += run->cost[k].steps * step_ms[k];
    }
    if (told) continue;
    cli_json_open(json, NULL, '{');
    cli_json_text(json, "op", run->cost[i].op);
    cli_json_double(json, "measured_ms", measured);
    cli_json_double(json, "predicted_ms", expected);
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
  const bool paints = !strcmp(task, "text-to-image");
  const bool generates = !strcmp(task, "generate");
  char path[CLI_PATH];
  predicting w = {.run = run,
                  .params = {.model = run->n_args ? run->args[0] : NULL,
                             .output = run->value[OPT_OUTPUTS],
                             .batch = (uint32_t)cli_count(run, OPT_BATCH, 1),
                             .seq = (uint32_t)cli_count(run, OPT_SEQ, 0),
                             .steps = (uint32_t)cli_count(run, OPT_STEPS, 0),
                             .tiled = cli_flag(run, OPT_TILE),
                             .new_tokens = generates ? (uint32_t)cli_count(run, OPT_NEW, 64) : 0}};
  if (!w.params.batch) w.params.batch = 1;
  if (!generates && !paints && strcmp(task, "encode") != 0)
    return cli_usage(run, "--task: encode, generate or text-to-image, not %s", task);
  if (!generates && run->value[OPT_NEW]) return cli_usage(run, "--new goes with --task generate");
  int code = cli_image_size(run, &w.params.width, &w.params.height);
  if (!code) code = cli_context(run);
  if (!code && w.params.model) w.params.paints = bench_images_made_by(run->ctx, w.params.model);
  if (!code && paints && !w.params.paints)
    code = cli_usage(run, "--task text-to-image is for a pipeline that makes pictures");
  if (w.params.paints) w.params.batch = (uint32_t)cli_count(run, OPT_IMAGES, w.params.batch);
  if (!code) code = read_groups(run, &w.groups, path);
  if (!code) code = w.params.model ? predict_model(&w) : tell_errors(run, &w.groups);
  free(w.like.lengths);
  bench_costs_free(&w.groups);
  return code;
}
