/* scheduler_dpm.c - DPMSolverMultistepScheduler and DPMSolverSinglestepScheduler of diffusers:
 * DPM-Solver and DPM-Solver++ (Lu et al., 2206.00927, 2211.01095), also as stochastic differential
 * equations. */
#include <math.h>
#include <string.h>

#include "core/text.h"
#include "diffusion/scheduler.h"

static const char *const fields[] = {"num_train_timesteps",
                                     "beta_start",
                                     "beta_end",
                                     "beta_schedule",
                                     "trained_betas",
                                     "solver_order",
                                     "prediction_type",
                                     "thresholding",
                                     "dynamic_thresholding_ratio",
                                     "sample_max_value",
                                     "algorithm_type",
                                     "solver_type",
                                     "lower_order_final",
                                     "euler_at_final",
                                     "use_karras_sigmas",
                                     "use_exponential_sigmas",
                                     "use_beta_sigmas",
                                     "use_lu_lambdas",
                                     "use_flow_sigmas",
                                     "flow_shift",
                                     "use_dynamic_shifting",
                                     "time_shift_type",
                                     "final_sigmas_type",
                                     "lambda_min_clipped",
                                     "variance_type",
                                     "timestep_spacing",
                                     "steps_offset",
                                     "rescale_betas_zero_snr",
                                     NULL};

static bool plus(const accel__scheduler *s) {
  return accel__ends_with(s->config.algorithm_type, "++");
}
static bool stochastic(const accel__scheduler *s) {
  return strncmp(s->config.algorithm_type, "sde-", 4) == 0;
}

static accel_status check(accel__scheduler *s) {
  static const char *const algorithms[] = {"dpmsolver", "dpmsolver++", "sde-dpmsolver++",
                                           "sde-dpmsolver", NULL},
                           *const of_single[] = {"dpmsolver", "dpmsolver++", "sde-dpmsolver++",
                                                 NULL},
                           *const solvers[] = {"midpoint", "heun", NULL};
  accel__scheduler_config *c = &s->config;
  const bool single = s->class == &accel__scheduler_dpm_singlestep;
  if (strcmp(c->algorithm_type, "deis") == 0) c->algorithm_type = "dpmsolver++";
  ACCEL_TRY(
      accel__scheduler_known("algorithm_type", c->algorithm_type, single ? of_single : algorithms));
  if (strcmp(c->solver_type, "logrho") == 0 || strcmp(c->solver_type, "bh1") == 0 ||
      strcmp(c->solver_type, "bh2") == 0)
    c->solver_type = "midpoint"; /* as diffusers takes other solvers' configs */
  ACCEL_TRY(accel__scheduler_known("solver_type", c->solver_type, solvers));
  if (!plus(s) && !c->final_sigma_min)
    return accel__fail(ACCEL_ERROR_FORMAT,
                       "scheduler_config.json: algorithm_type '%s' needs final_sigmas_type "
                       "'sigma_min'",
                       c->algorithm_type);
  if (c->variance_type != NULL)
    return accel__fail(ACCEL_ERROR_UNSUPPORTED,
                       "scheduler_config.json: field 'variance_type': '%s' is not supported",
                       c->variance_type);
  return accel__scheduler_shifts(s);
}

/* Training steps whose log signal to noise ratio is not below lambda_min_clipped. */
static int64_t last_step(const accel__scheduler *s) {
  int64_t n = s->config.num_train_timesteps;
  for (; n > 1; n--) {
    const float a = s->alphas_cumprod[n - 1], lambda = logf(sqrtf(a)) - logf(sqrtf(1 - a));
    if (!((double)lambda < s->config.lambda_min_clipped)) break;
  }
  return n;
}

static accel_status start(accel__scheduler *s, uint32_t steps) {
  const accel__scheduler_config *c = &s->config;
  ACCEL_TRY(check(s));
  ACCEL_TRY(accel__scheduler_space(s, steps, 1, last_step(s), true));
  if (c->sigmas != ACCEL__SIGMAS_TRAINED) ACCEL_TRY(accel__scheduler_reserve(s, steps));
  const bool single = s->class == &accel__scheduler_dpm_singlestep,
             round = single
                         ? c->sigmas == ACCEL__SIGMAS_KARRAS
                         : (c->sigmas == ACCEL__SIGMAS_KARRAS || c->sigmas == ACCEL__SIGMAS_LU) &&
                               strcmp(c->beta_schedule, "squaredcos_cap_v2") != 0;
  accel__scheduler_sigmas(s, accel__scheduler_trained_sigma(s, c->num_train_timesteps - 1),
                          accel__scheduler_trained_sigma(s, 0), round);
  for (uint32_t i = 0; i < s->n_steps; i++) s->timestep[i] = trunc(s->timestep[i]);
  return ACCEL_OK;
}

/* What the solver extrapolates: x0 of dpmsolver++, the noise of dpmsolver; into history[0]. */
static accel_status convert(accel__scheduler *s, uint32_t i, const float *output,
                            const float *sample) {
  const uint64_t n = accel__scheduler_elements(s);
  const accel__level at = accel__scheduler_level(s, i);
  float *m = accel__scheduler_shift_history(s, 3);
  ACCEL_TRY(accel__scheduler_convert(s, i, output, sample, m));
  for (uint64_t k = 0; !plus(s) && k < n; k++) {
    if (s->config.prediction_type == ACCEL__PREDICTS_NOISE && !s->config.thresholding)
      m[k] = output[k];
    else
      m[k] = (sample[k] - at.alpha * m[k]) / at.sigma;
  }
  return ACCEL_OK;
}

/* x = a x + b D0 + c D1 + d D2 + e noise, where D are differences of the last model outputs. */
typedef struct update {
  float a, b, c, d, e;
} update;

static update first_order(const accel__scheduler *s, accel__level t, accel__level from, float h) {
  if (plus(s) && !stochastic(s))
    return (update){.a = t.sigma / from.sigma, .b = -(t.alpha * (expf(-h) - 1))};
  if (plus(s))
    return (update){.a = t.sigma / from.sigma * expf(-h),
                    .b = t.alpha * (1 - expf(-2 * h)),
                    .e = t.sigma * sqrtf(1 - expf(-2 * h))};
  if (!stochastic(s)) return (update){.a = t.alpha / from.alpha, .b = -(t.sigma * (expf(h) - 1))};
  return (update){.a = t.alpha / from.alpha,
                  .b = -2 * (t.sigma * (expf(h) - 1)),
                  .e = t.sigma * sqrtf(expf(2 * h) - 1)};
}

static update second_order(const accel__scheduler *s, accel__level t, accel__level from, float h) {
  const bool midpoint = strcmp(s->config.solver_type, "midpoint") == 0;
  update u = first_order(s, t, from, h);
  if (midpoint)
    u.c = 0.5f * u.b;
  else if (plus(s) && !stochastic(s))
    u.c = t.alpha * ((expf(-h) - 1) / h + 1);
  else if (plus(s))
    u.c = t.alpha * ((1 - expf(-2 * h)) / (-2 * h) + 1);
  else
    u.c = (stochastic(s) ? -2.0f : -1.0f) * (t.sigma * ((expf(h) - 1) / h - 1));
  return u;
}

static update third_order(const accel__scheduler *s, accel__level t, accel__level from, float h) {
  update u = first_order(s, t, from, h);
  if (plus(s) && !stochastic(s)) {
    u.c = t.alpha * ((expf(-h) - 1) / h + 1);
    u.d = -(t.alpha * ((expf(-h) - 1 + h) / (h * h) - 0.5f));
  } else if (plus(s)) {
    u.c = t.alpha * ((1 - expf(-2 * h)) / (-2 * h) + 1);
    u.d = t.alpha * ((1 - expf(-2 * h) - 2 * h) / (4 * h * h) - 0.5f);
  } else {
    u.c = -(t.sigma * ((expf(h) - 1) / h - 1));
    u.d = -(t.sigma * ((expf(h) - 1 - h) / (h * h) - 0.5f));
  }
  return u;
}

static update of_order(const accel__scheduler *s, uint32_t order, accel__level t,
                       accel__level from) {
  const float h = t.lambda - from.lambda;
  return order == 1   ? first_order(s, t, from, h)
         : order == 2 ? second_order(s, t, from, h)
                      : third_order(s, t, from, h);
}

/* ---- several steps behind: DPMSolverMultistepScheduler ---- */

static void apply(accel__scheduler *s, uint32_t i, uint32_t order, float *sample) {
  const uint64_t n = accel__scheduler_elements(s);
  const accel__level t = accel__scheduler_level(s, i + 1), from = accel__scheduler_level(s, i);
  const float h = t.lambda - from.lambda;
  const update u = of_order(s, order, t, from);
  float before[3] = {from.lambda};
  for (uint32_t k = 1; k < order; k++) before[k] = accel__scheduler_level(s, i - k).lambda;
  const float r0 = order > 1 ? (before[0] - before[1]) / h : 1,
              r1 = order > 2 ? (before[1] - before[2]) / h : 1;
  for (uint64_t k = 0; k < n; k++) {
    const float m0 = s->history[0][k];
    float x = u.a * sample[k] + u.b * m0;
    if (order > 1) {
      const float m1 = s->history[1][k], near = 1 / r0 * (m0 - m1);
      const float far = order > 2 ? 1 / r1 * (m1 - s->history[2][k]) : near;
      x += u.c * (near + r0 / (r0 + r1) * (near - far)) + u.d * (1 / (r0 + r1) * (near - far));
    }
    sample[k] = stochastic(s) ? x + u.e * s->drawn[k] : x;
  }
}

static accel_status step(accel__scheduler *s, uint32_t i, const float *output, float *sample,
                         const accel__noise *noise) {
  const accel__scheduler_config *c = &s->config;
  const uint32_t n = s->n_steps;
  const bool few = n < 15 && c->lower_order_final,
             last = i + 1 == n && (c->euler_at_final || few || !c->final_sigma_min);
  if (c->solver_order > 2 && plus(s) == false && stochastic(s))
    return accel__fail(ACCEL_ERROR_UNSUPPORTED,
                       "scheduler_config.json: 'solver_order' 3 is not known for sde-dpmsolver");
  ACCEL_TRY(convert(s, i, output, sample));
  if (stochastic(s)) accel__noise_draw(noise, s->drawn, s->images, s->each);
  uint32_t order = (uint32_t)c->solver_order;
  if (order > s->kept + 1) order = s->kept + 1;
  if (order > 2 && i + 2 == n && few) order = 2;
  apply(s, i, last ? 1 : order, sample);
  if (s->kept < (uint32_t)c->solver_order) s->kept++;
  return ACCEL_OK;
}

/* ---- steps of several calls: DPMSolverSinglestepScheduler ---- */

enum { BEGUN = 3 }; /* history[BEGUN]: the sample that the step began with */

/* Of step i: 1, 2, ... solver_order, and again; the last steps are of lower order. */
static uint32_t order_at(const accel__scheduler *s, uint32_t i) {
  const accel__scheduler_config *c = &s->config;
  const uint32_t n = s->n_steps, order = (uint32_t)c->solver_order;
  const bool lower = c->lower_order_final || n % order != 0 || !c->final_sigma_min;
  if (i + 1 == n && (!c->final_sigma_min || (lower && n % order == 0))) return 1;
  return 1 + i % order;
}

static accel_status single_step(accel__scheduler *s, uint32_t i, const float *output, float *sample,
                                const accel__noise *noise) {
  const uint64_t n = accel__scheduler_elements(s);
  const bool middle = strcmp(s->config.solver_type, "midpoint") == 0;
  uint32_t order = order_at(s, i);
  ACCEL_TRY(convert(s, i, output, sample));
  if (s->kept < 3) s->kept++;
  if (order > s->kept) order = s->kept; /* a picture to begin with may be in the middle of a step */
  if (stochastic(s)) accel__noise_draw(noise, s->drawn, s->images, s->each);
  if (order == 1) memcpy(s->history[BEGUN], sample, n * sizeof *sample);
  const accel__level t = accel__scheduler_level(s, i + 1),
                     from = accel__scheduler_level(s, i + 1 - order);
  const update u = of_order(s, order, t, from);
  const float h = t.lambda - from.lambda,
              r0 = (accel__scheduler_level(s, i).lambda - from.lambda) / h,
              r1 = order > 2 ? (accel__scheduler_level(s, i - 1).lambda - from.lambda) / h : 0;
  const float *m[3] = {s->history[order - 1], s->history[0], s->history[1]};
  for (uint64_t k = 0; k < n; k++) {
    float x = u.a * s->history[BEGUN][k] + u.b * m[0][k];
    const float newest = order > 1 ? 1 / r0 * (m[1][k] - m[0][k]) : 0;
    if (order == 2 || (order == 3 && middle)) {
      x += u.c * newest;
    } else if (order == 3) {
      const float older = 1 / r1 * (m[2][k] - m[0][k]);
      x +=
          u.c * ((r0 * older - r1 * newest) / (r0 - r1)) + u.d * (2 * (newest - older) / (r0 - r1));
    }
    sample[k] = stochastic(s) ? x + u.e * s->drawn[k] : x;
  }
  return ACCEL_OK;
}

/* What both classes have; fields and step are their own. */
#define DPM_CLASS(its_name, its_fields, its_step, its_history, lower)               \
  {                                                                                 \
    .name = its_name,                                                               \
    .usual = {.num_train_timesteps = 1000,                                          \
              .beta_start = 0.0001,                                                 \
              .beta_end = 0.02,                                                     \
              .beta_schedule = "linear",                                            \
              .solver_order = 2,                                                    \
              .dynamic_thresholding_ratio = 0.995,                                  \
              .sample_max_value = 1.0,                                              \
              .algorithm_type = "dpmsolver++",                                      \
              .solver_type = "midpoint",                                            \
              .time_shift_type = "exponential",                                     \
              .flow_shift = 1.0,                                                    \
              .lower_order_final = lower,                                           \
              .lambda_min_clipped = -INFINITY,                                      \
              .timestep_spacing = ACCEL__SPACING_LINSPACE},                         \
    .history = its_history, .fields = its_fields, .by_sigma = true, .start = start, \
    .step = its_step, .add_noise = accel__scheduler_add_by_level                    \
  }
const accel__scheduler_class accel__scheduler_dpm_multistep =
    DPM_CLASS("DPMSolverMultistepScheduler", fields, step, 3, true);

static const char *const single_fields[] = {
    "num_train_timesteps",  "beta_start",        "beta_end",
    "beta_schedule",        "trained_betas",     "solver_order",
    "prediction_type",      "thresholding",      "dynamic_thresholding_ratio",
    "sample_max_value",     "algorithm_type",    "solver_type",
    "lower_order_final",    "use_karras_sigmas", "use_exponential_sigmas",
    "use_beta_sigmas",      "use_flow_sigmas",   "flow_shift",
    "use_dynamic_shifting", "time_shift_type",   "final_sigmas_type",
    "lambda_min_clipped",   "variance_type",     NULL};
const accel__scheduler_class accel__scheduler_dpm_singlestep =
    DPM_CLASS("DPMSolverSinglestepScheduler", single_fields, single_step, 4, false);
