/* scheduler_dpm.c - DPMSolverMultistepScheduler of diffusers: DPM-Solver and DPM-Solver++ (Lu et
 * al., 2206.00927, 2211.01095), also as stochastic differential equations. */
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
  static const char *const algorithms[] = {"dpmsolver", "dpmsolver++", "sde-dpmsolver",
                                           "sde-dpmsolver++"};
  accel__scheduler_config *c = &s->config;
  bool known = false;
  if (strcmp(c->algorithm_type, "deis") == 0) c->algorithm_type = "dpmsolver++";
  for (size_t i = 0; i < sizeof algorithms / sizeof *algorithms; i++)
    known = known || strcmp(c->algorithm_type, algorithms[i]) == 0;
  if (!known)
    return accel__fail(ACCEL_ERROR_UNSUPPORTED,
                       "scheduler_config.json: field 'algorithm_type': '%s' is not supported; "
                       "known: dpmsolver, dpmsolver++, sde-dpmsolver, sde-dpmsolver++",
                       c->algorithm_type);
  if (strcmp(c->solver_type, "logrho") == 0 || strcmp(c->solver_type, "bh1") == 0 ||
      strcmp(c->solver_type, "bh2") == 0)
    c->solver_type = "midpoint"; /* as diffusers takes other solvers' configs */
  if (strcmp(c->solver_type, "midpoint") != 0 && strcmp(c->solver_type, "heun") != 0)
    return accel__fail(ACCEL_ERROR_UNSUPPORTED,
                       "scheduler_config.json: field 'solver_type': '%s' is not supported; known: "
                       "midpoint, heun",
                       c->solver_type);
  if (!plus(s) && !c->final_sigma_min)
    return accel__fail(ACCEL_ERROR_FORMAT,
                       "scheduler_config.json: algorithm_type '%s' needs final_sigmas_type "
                       "'sigma_min'",
                       c->algorithm_type);
  if (c->variance_type != NULL)
    return accel__fail(ACCEL_ERROR_UNSUPPORTED,
                       "scheduler_config.json: field 'variance_type': '%s' is not supported",
                       c->variance_type);
  return ACCEL_OK;
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
  const bool round =
      strcmp(c->beta_schedule, "squaredcos_cap_v2") != 0 && c->sigmas != ACCEL__SIGMAS_EXPONENTIAL;
  accel__scheduler_sigmas(s, accel__scheduler_trained_sigma(s, c->num_train_timesteps - 1),
                          accel__scheduler_trained_sigma(s, 0), round);
  for (uint32_t i = 0; i < s->n_steps; i++) s->timestep[i] = trunc(s->timestep[i]);
  return ACCEL_OK;
}

/* alpha, sigma and half the log signal to noise ratio at the noise level of sigma[i]. */
typedef struct level {
  float alpha, sigma, lambda;
} level;
static level level_at(const accel__scheduler *s, uint32_t i) {
  const float sigma = s->sigma[i], alpha = 1 / sqrtf(sigma * sigma + 1);
  return (level){alpha, sigma * alpha, logf(alpha) - logf(sigma * alpha)};
}

/* What the solver extrapolates: x0 of dpmsolver++, the noise of dpmsolver; into history[0]. */
static accel_status convert(accel__scheduler *s, uint32_t i, const float *output,
                            const float *sample) {
  const uint64_t n = accel__scheduler_elements(s);
  const level at = level_at(s, i);
  float *m = s->history[0];
  for (uint64_t k = 0; k < n; k++)
    m[k] = accel__scheduler_x0(s, output[k], sample[k], at.alpha, at.sigma);
  if (s->config.thresholding) ACCEL_TRY(accel__scheduler_clip(s, m));
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

static update first_order(const accel__scheduler *s, level t, level from, float h) {
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

static update second_order(const accel__scheduler *s, level t, level from, float h) {
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

static update third_order(const accel__scheduler *s, level t, level from, float h) {
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

static void apply(accel__scheduler *s, uint32_t i, uint32_t order, float *sample) {
  const uint64_t n = accel__scheduler_elements(s);
  const level t = level_at(s, i + 1), from = level_at(s, i);
  const float h = t.lambda - from.lambda;
  const update u = order == 1   ? first_order(s, t, from, h)
                   : order == 2 ? second_order(s, t, from, h)
                                : third_order(s, t, from, h);
  const float r0 = order > 1 ? (from.lambda - level_at(s, i - 1).lambda) / h : 1,
              r1 = order > 2 ? (level_at(s, i - 1).lambda - level_at(s, i - 2).lambda) / h : 1;
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
  float *oldest = s->history[2]; /* the newest output comes first */
  s->history[2] = s->history[1];
  s->history[1] = s->history[0];
  s->history[0] = oldest;
  ACCEL_TRY(convert(s, i, output, sample));
  if (stochastic(s)) accel__noise_draw(noise, s->drawn, s->images, s->each);
  uint32_t order = (uint32_t)c->solver_order;
  if (order > s->kept + 1) order = s->kept + 1;
  if (order > 2 && i + 2 == n && few) order = 2;
  apply(s, i, last ? 1 : order, sample);
  if (s->kept < (uint32_t)c->solver_order) s->kept++;
  return ACCEL_OK;
}

static void add_noise(const accel__scheduler *s, uint32_t i, const float *original,
                      const float *noise, float *sample) {
  const uint64_t n = accel__scheduler_elements(s);
  const level at = level_at(s, i);
  for (uint64_t k = 0; k < n; k++) sample[k] = at.alpha * original[k] + at.sigma * noise[k];
}

const accel__scheduler_class accel__scheduler_dpm_multistep = {
    .name = "DPMSolverMultistepScheduler",
    .usual = {.num_train_timesteps = 1000,
              .beta_start = 0.0001,
              .beta_end = 0.02,
              .beta_schedule = "linear",
              .solver_order = 2,
              .dynamic_thresholding_ratio = 0.995,
              .sample_max_value = 1.0,
              .algorithm_type = "dpmsolver++",
              .solver_type = "midpoint",
              .lower_order_final = true,
              .lambda_min_clipped = -INFINITY,
              .sigma_min = NAN,
              .sigma_max = NAN,
              .timestep_spacing = ACCEL__SPACING_LINSPACE},
    .history = 3,
    .fields = fields,
    .by_sigma = true,
    .start = start,
    .step = step,
    .add_noise = add_noise};
