/* cli_predict.c - predictions of time and memory (cli_predict.h). */
#include "cli/cli_predict.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "bench/bench_stats.h"

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
  how.batch = w->params.paints ? w->params.batch : w->like.batch;
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
                                prediction *p, predicted *out) {
  bench_cost_run run;
  double unseen;
  accel_status status = plan(w, params, p->group, &run);
  if (status != ACCEL_OK) return status;
  run.decodes = decodes;
  *out = (predicted){bench_law_run(law, &run, &unseen), left->bar[decodes]};
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
  p->latency = (predicted){p->prefill.value + (new - 1) * p->token.value,
                           fewer ? p->token.bar : p->prefill.bar};
  return ACCEL_OK;
}

/* What the plan of a call asks of a pipeline. */
static accel_fit_params pictures_of(const predicting *w) {
  accel_fit_params how = accel_fit_params_default();
  how.batch = w->params.batch;
  how.width = w->params.width;
  how.height = w->params.height;
  how.steps = w->params.steps;
  how.vae_tiling = w->params.tiled;
  return how;
}

/* Each run of a part, as often as a call makes it. */
static accel_status predict_pictures(const predicting *w, const bench_law *law,
                                     const bench_left_out *left, prediction *p) {
  accel_fit_params fit = pictures_of(w);
  accel_fit_report *report;
  fit.device = p->group->device;
  fit.precision = p->group->precision;
  accel_status status = accel_fit(w->run->ctx, w->params.model, &fit, &report);
  if (status != ACCEL_OK) return status;
  p->latency = (predicted){0, left->bar[0]};
  const accel_fit_record *f = &report->record[0];
  for (uint32_t i = 0; status == ACCEL_OK && report->n && i < f->n_run; ++i) {
    accel_plan_params how = accel_plan_params_default();
    predicted one;
    how.entry = f->run[i].entry;
    how.output = f->run[i].output;
    how.width = w->params.width;
    how.height = w->params.height;
    how.vae_tiling = w->params.tiled;
    status = predict_run(w, &how, law, left, false, p, &one);
    if (status != ACCEL_OK) break;
    const double all = one.value * (double)f->run[i].times;
    p->latency.value += all;
    if (!strcmp(how.entry, "forward"))
      p->token = one;
    else if (!strcmp(how.entry, "decode_latents"))
      p->decode_ms += all;
    else
      p->texts_ms += all;
  }
  accel_fit_report_free(&report);
  return status;
}

static accel_status predict_time(const predicting *w, const bench_law *law,
                                 const bench_left_out *left, prediction *p) {
  accel_plan_params how = accel_plan_params_default();
  if (w->params.paints) return predict_pictures(w, law, left, p);
  if (w->params.new_tokens) return predict_generation(w, law, left, p);
  how.output = w->like.output;
  if (w->like.kind == BENCH_TOKENS)
    how.seq = w->like.lengths[0];
  else if (w->like.kind != BENCH_SAMPLES || w->waves)
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
static predicted predict_memory(const predicting *w, const bench_cost_group *g) {
  uint64_t process = 0;
  uint32_t n = 0;
  accel_fit_params how = accel_fit_params_default();
  how.batch = w->like.batch;
  const bool paints = w->params.paints;
  how.seq = paints ? 0 : w->like.lengths[0];
  how.new_tokens = w->params.new_tokens;
  predicted out = {planned_memory(w->run, w->params.model, g, paints ? pictures_of(w) : how,
                                  paints || w->like.kind == BENCH_TOKENS, &process),
                   bench_bar_of(NULL, 0)};
  double *ratio = malloc((g->runs.n + (size_t)1) * sizeof *ratio), middle = 1;
  const bool of_process = !strcmp(g->device, "cpu");
  for (uint32_t i = 0; ratio && of_process && i < g->runs.n; ++i) {
    const bench_row *row = g->row[i];
    if (!strcmp(row->text[ROW_TASK], "text-to-image")) continue; /* its height is not told */
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

bool predict_on(const predicting *w, const bench_cost_group *g, bool memory, prediction *p) {
  bench_left_out left = {0};
  bench_law *law = bench_law_new(&g->runs, UINT32_MAX);
  const predicted none = {(double)NAN, {0}};
  *p = (prediction){.group = g, .latency = none, .prefill = none, .token = none, .memory = none};
  if (!law || !bench_leave_one_out(&g->runs, &left)) {
    bench_law_free(law);
    bench_left_out_free(&left);
    return false;
  }
  for (uint32_t i = 0; i < g->runs.n; ++i)
    p->known |= !strcmp(g->row[i]->text[ROW_MODEL], w->params.model);
  if (predict_time(w, law, &left, p) != ACCEL_OK)
    snprintf(p->why, sizeof p->why, "%s", accel_last_error());
  else if (memory)
    p->memory = predict_memory(w, g);
  bench_law_free(law);
  bench_left_out_free(&left);
  return true;
}

static bool listed(const accel_strings *names, const char *name) {
  for (uint32_t i = 0; i < names->n; ++i)
    if (!strcmp(names->item[i], name)) return true;
  return false;
}

accel_status predict_describe(predicting *w) {
  const cli_run *run = w->run;
  if (w->params.paints) return ACCEL_OK;
  accel_strings *in, *out;
  accel_status status =
      accel_model_io(run->ctx, w->params.model, run->value[OPT_ARCHITECTURE], &in, &out);
  if (status != ACCEL_OK) return status;
  w->encodes = listed(in, "decoder_input_ids");
  w->waves = listed(in, "input_values");
  status = bench_inputs_plan(run->ctx, &w->params, in, out, &w->like);
  accel_strings_free(&in);
  accel_strings_free(&out);
  return status;
}
