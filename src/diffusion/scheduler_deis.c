/* scheduler_deis.c - DEISMultistepScheduler of diffusers (Zhang and Chen, 2204.13902): polynomials in
 * the logarithm of rho = sigma / alpha through the last answers. */
#include <math.h>
#include <string.h>

#include "diffusion/scheduler.h"

enum { ORDER = 3 };

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
                                     "use_karras_sigmas",
                                     "use_exponential_sigmas",
                                     "use_beta_sigmas",
                                     "use_flow_sigmas",
                                     "flow_shift",
                                     "timestep_spacing",
                                     "steps_offset",
                                     "use_dynamic_shifting",
                                     "time_shift_type",
                                     NULL};

static accel_status check(accel__scheduler *s) {
  /* the others are other solvers', whose configs diffusers takes for its own */
  static const char *const algorithms[] = {"deis", "dpmsolver", "dpmsolver++", NULL},
                           *const solvers[] = {"logrho", "midpoint", "heun", "bh1", "bh2", NULL};
  ACCEL_TRY(accel__scheduler_known("algorithm_type", s->config.algorithm_type, algorithms));
  ACCEL_TRY(accel__scheduler_known("solver_type", s->config.solver_type, solvers));
  return accel__scheduler_shifts(s);
}

static accel_status start(accel__scheduler *s, uint32_t steps) {
  const accel__scheduler_config *c = &s->config;
  ACCEL_TRY(check(s));
  ACCEL_TRY(accel__scheduler_space(s, steps, 1, c->num_train_timesteps, true));
  if (c->sigmas != ACCEL__SIGMAS_TRAINED) ACCEL_TRY(accel__scheduler_reserve(s, steps));
  const uint32_t n = s->n_steps;
  const float lowest = accel__scheduler_trained_sigma(s, 0);
  accel__scheduler_sigmas(s, accel__scheduler_trained_sigma(s, c->num_train_timesteps - 1), lowest,
                          c->sigmas == ACCEL__SIGMAS_KARRAS);
  s->sigma[n] = c->sigmas == ACCEL__SIGMAS_TRAINED ? lowest : s->sigma[n - 1];
  for (uint32_t i = 0; i < n; i++) s->timestep[i] = trunc(s->timestep[i]);
  return ACCEL_OK;
}

/* The noise that the model's answer stands for, into history[0]. */
static accel_status convert(accel__scheduler *s, uint32_t i, const float *output,
                            const float *sample) {
  const uint64_t n = accel__scheduler_elements(s);
  const accel__level at = accel__scheduler_level(s, i);
  float *m = accel__scheduler_shift_history(s, ORDER);
  ACCEL_TRY(accel__scheduler_convert(s, i, output, sample, m));
  for (uint64_t k = 0; k < n; k++) m[k] = (sample[k] - at.alpha * m[k]) / at.sigma;
  return ACCEL_OK;
}

/* Integrals of Lagrange's polynomials in log rho: 1 at b, 0 at c (and d), up to t. */
static float second_integral(float t, float b, float c) {
  return t * (-logf(c) + logf(t) - 1) / (logf(b) - logf(c));
}
static float third_integral(float t, float b, float c, float d) {
  const float at = logf(t), lc = logf(c), ld = logf(d);
  return t * (lc * (ld - at + 1) - ld * at + ld + at * at - 2 * at + 2) /
         ((logf(b) - lc) * (logf(b) - ld));
}

static void go(accel__scheduler *s, uint32_t i, uint32_t order, float *sample) {
  const uint64_t n = accel__scheduler_elements(s);
  const accel__level t = accel__scheduler_level(s, i + 1), from = accel__scheduler_level(s, i);
  float rho[ORDER] = {from.sigma / from.alpha}, weight[ORDER] = {0};
  const float to = t.sigma / t.alpha, a = rho[0];
  for (uint32_t k = 1; k < order; k++) {
    const accel__level before = accel__scheduler_level(s, i - k);
    rho[k] = before.sigma / before.alpha;
  }
  if (order == 2) {
    weight[0] = second_integral(to, a, rho[1]) - second_integral(a, a, rho[1]);
    weight[1] = second_integral(to, rho[1], a) - second_integral(a, rho[1], a);
  } else if (order == 3) {
    for (int k = 0; k < ORDER; k++) {
      const float b = rho[k], c = rho[(k + 1) % ORDER], d = rho[(k + 2) % ORDER];
      weight[k] = third_integral(to, b, c, d) - third_integral(a, b, c, d);
    }
  }
  const float first = t.alpha / from.alpha, rest = t.sigma * (expf(t.lambda - from.lambda) - 1);
  for (uint64_t k = 0; k < n; k++) {
    float x = sample[k] / from.alpha;
    for (uint32_t m = 0; m < order; m++) x += weight[m] * s->history[m][k];
    sample[k] = order == 1 ? first * sample[k] - rest * s->history[0][k] : t.alpha * x;
  }
}

static accel_status step(accel__scheduler *s, uint32_t i, const float *output, float *sample,
                         const accel__noise *noise) {
  const accel__scheduler_config *c = &s->config;
  const bool few = c->lower_order_final && s->n_steps < 15;
  uint32_t order = (uint32_t)c->solver_order;
  (void)noise;
  ACCEL_TRY(convert(s, i, output, sample));
  if (order > s->kept + 1) order = s->kept + 1;
  if (few && order > s->n_steps - i) order = s->n_steps - i;
  go(s, i, order, sample);
  if (s->kept < (uint32_t)c->solver_order) s->kept++;
  return ACCEL_OK;
}

const accel__scheduler_class accel__scheduler_deis = {
    .name = "DEISMultistepScheduler",
    .usual = {.num_train_timesteps = 1000,
              .beta_start = 0.0001,
              .beta_end = 0.02,
              .beta_schedule = "linear",
              .solver_order = 2,
              .dynamic_thresholding_ratio = 0.995,
              .sample_max_value = 1.0,
              .algorithm_type = "deis",
              .solver_type = "logrho",
              .lower_order_final = true,
              .flow_shift = 1.0,
              .time_shift_type = "exponential",
              .timestep_spacing = ACCEL__SPACING_LINSPACE},
    .history = 3,
    .fields = fields,
    .by_sigma = true,
    .start = start,
    .step = step,
    .add_noise = accel__scheduler_add_by_level};
