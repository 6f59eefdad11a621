/* scheduler_unipc.c - UniPCMultistepScheduler of diffusers (Zhao et al., 2302.04867): each answer of
 * the model first corrects the step before, then predicts the next one. */
#include <math.h>
#include <string.h>

#include "diffusion/scheduler.h"

enum {
  ORDER = 3,
  HELD = ORDER, /* history[HELD]: the corrected sample that the last step began with */
};

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
                                     "predict_x0",
                                     "solver_type",
                                     "lower_order_final",
                                     "disable_corrector",
                                     "solver_p",
                                     "use_karras_sigmas",
                                     "use_exponential_sigmas",
                                     "use_beta_sigmas",
                                     "use_flow_sigmas",
                                     "flow_shift",
                                     "timestep_spacing",
                                     "steps_offset",
                                     "final_sigmas_type",
                                     "rescale_betas_zero_snr",
                                     "use_dynamic_shifting",
                                     "time_shift_type",
                                     "sigma_min",
                                     "sigma_max",
                                     "shift_terminal",
                                     NULL};

static accel_status check(accel__scheduler *s) {
  static const char *const solvers[] = {"bh1", "bh2", NULL}, *const shifts[] = {"exponential",
                                                                                "linear", NULL};
  accel__scheduler_config *c = &s->config;
  if (strcmp(c->solver_type, "midpoint") == 0 || strcmp(c->solver_type, "heun") == 0 ||
      strcmp(c->solver_type, "logrho") == 0)
    c->solver_type = "bh2"; /* as diffusers takes other solvers' configs */
  ACCEL_TRY(accel__scheduler_known("solver_type", c->solver_type, solvers));
  ACCEL_TRY(accel__scheduler_known("time_shift_type", c->time_shift_type, shifts));
  if (c->solver_p != NULL)
    return accel__fail(ACCEL_ERROR_UNSUPPORTED,
                       "scheduler_config.json: field 'solver_p' is not supported");
  if (!isnan(c->shift_terminal) && !c->flow_sigmas)
    return accel__fail(ACCEL_ERROR_FORMAT,
                       "scheduler_config.json: 'shift_terminal' needs 'use_flow_sigmas'");
  return accel__scheduler_need_mu(s);
}

/* Sigmas as shares of noise, from 1. */
static void flow_sigmas(accel__scheduler *s) {
  const double train = (double)s->config.num_train_timesteps, nearly = 1e-6;
  const uint32_t n = s->n_steps;
  for (uint32_t i = 0; i < n; i++) {
    const double sigma = 1 + (double)i * ((1 / train - 1) / (double)n);
    s->timestep[i] = accel__scheduler_shifted(s, s->config.flow_shift, sigma, false);
  }
  accel__scheduler_stretch(s, s->timestep, n, false);
  if (fabs(s->timestep[0] - 1) < nearly) s->timestep[0] -= nearly;
  for (uint32_t i = 0; i < n; i++) {
    s->sigma[i] = (float)s->timestep[i];
    s->timestep[i] *= train;
  }
  s->sigma[n] = s->config.final_sigma_min ? s->sigma[n - 1] : 0;
}

/* Karras sigmas as shares of noise. */
static void karras_flow(accel__scheduler *s, double high, double low) {
  const uint32_t n = s->n_steps;
  accel__scheduler_sigmas_between(s, high, low, n, s->timestep);
  for (uint32_t i = 0; i < n; i++) {
    const double sigma = s->timestep[i] / (s->timestep[i] + 1);
    s->sigma[i] = (float)sigma;
    s->timestep[i] = sigma * (double)s->config.num_train_timesteps;
  }
  s->sigma[n] = s->config.final_sigma_min ? s->sigma[n - 1] : 0;
}

static accel_status start(accel__scheduler *s, uint32_t steps) {
  const accel__scheduler_config *c = &s->config;
  const double high = accel__scheduler_trained_sigma(s, c->num_train_timesteps - 1),
               low = accel__scheduler_trained_sigma(s, 0);
  ACCEL_TRY(check(s));
  ACCEL_TRY(accel__scheduler_space(s, steps, 1, c->num_train_timesteps, true));
  if (c->sigmas != ACCEL__SIGMAS_TRAINED) ACCEL_TRY(accel__scheduler_reserve(s, steps));
  const uint32_t n = s->n_steps;
  if (c->sigmas == ACCEL__SIGMAS_FLOW) {
    flow_sigmas(s);
  } else if (c->sigmas == ACCEL__SIGMAS_KARRAS && c->flow_sigmas) {
    karras_flow(s, high, low);
  } else {
    accel__scheduler_sigmas(s, high, low, c->sigmas == ACCEL__SIGMAS_KARRAS);
    if (c->sigmas != ACCEL__SIGMAS_TRAINED && c->final_sigma_min) s->sigma[n] = s->sigma[n - 1];
  }
  for (uint32_t i = 0; i < n; i++) s->timestep[i] = trunc(s->timestep[i]);
  return ACCEL_OK;
}

/* a[n][n] x = b[n] by elimination with pivots; the answer replaces b. */
static void solve(double a[ORDER][ORDER], double *b, uint32_t n) {
  for (uint32_t k = 0; k < n; k++) {
    uint32_t best = k;
    for (uint32_t r = k + 1; r < n; r++)
      if (fabs(a[r][k]) > fabs(a[best][k])) best = r;
    for (uint32_t c = 0; c < n; c++) {
      const double swap = a[k][c];
      a[k][c] = a[best][c];
      a[best][c] = swap;
    }
    const double swap = b[k];
    b[k] = b[best];
    b[best] = swap;
    for (uint32_t r = 0; r < n; r++) {
      const double factor = r == k ? 0 : a[r][k] / a[k][k];
      for (uint32_t c = k; c < n; c++) a[r][c] -= factor * a[k][c];
      b[r] -= factor * b[k];
    }
  }
  for (uint32_t k = 0; k < n; k++) b[k] /= a[k][k];
}

/* One way from a noise level to the next: x = a x + b m0 + c (sum of rho[k] (m[k] - m0) / r[k]). */
typedef struct way {
  float a, b, c, r[ORDER], rho[ORDER]; /* r[0] belongs to history[1] */
} way;

/* From step `from` to the one behind it, by `order` answers; `corrects`: the answer at its end is
 * one more. */
static way way_of(const accel__scheduler *s, uint32_t from, uint32_t order, bool corrects) {
  const accel__level t = accel__scheduler_level(s, from + 1), o = accel__scheduler_level(s, from);
  const bool x0 = s->config.predict_x0;
  const float h = t.lambda - o.lambda, hh = x0 ? -h : h, phi = expm1f(hh),
              by = strcmp(s->config.solver_type, "bh1") == 0 ? hh : phi;
  way w = {.a = x0 ? t.sigma / o.sigma : t.alpha / o.alpha};
  w.b = -((x0 ? t.alpha : t.sigma) * phi);
  w.c = -((x0 ? t.alpha : t.sigma) * by);
  for (uint32_t k = 1; k < order; k++)
    w.r[k - 1] = (accel__scheduler_level(s, from - k).lambda - o.lambda) / h;
  w.r[order - 1] = 1;
  double matrix[ORDER][ORDER], right[ORDER];
  float part = phi / hh - 1, factorial = 1;
  for (uint32_t i = 0; i < order; i++) {
    for (uint32_t k = 0; k < order; k++) matrix[i][k] = (double)powf(w.r[k], (float)i);
    right[i] = (double)(part * factorial / by);
    factorial *= (float)(i + 2);
    part = part / hh - 1 / factorial;
  }
  const uint32_t unknown = corrects ? order : order - 1;
  if (unknown == 1)
    right[0] = 0.5; /* of one answer alone, as the paper has it */
  else
    solve(matrix, right, unknown);
  for (uint32_t k = 0; k < unknown; k++) w.rho[k] = (float)right[k];
  return w;
}

/* x[n] along the way, in place; `newest`: the answer at its end, NULL: a prediction. */
static void go(const accel__scheduler *s, const way *w, uint32_t order, const float *newest,
               const float *x, float *out) {
  const uint64_t n = accel__scheduler_elements(s);
  for (uint64_t k = 0; k < n; k++) {
    const float m0 = s->history[0][k];
    float sum = 0;
    for (uint32_t i = 1; i < order; i++)
      sum += w->rho[i - 1] * ((s->history[i][k] - m0) / w->r[i - 1]);
    if (newest != NULL) sum += w->rho[order - 1] * (newest[k] - m0);
    out[k] = w->a * x[k] + w->b * m0 + w->c * sum;
  }
}

static bool corrects(const accel__scheduler *s, uint32_t i) {
  if (s->kept == 0) return false; /* the first step of the run */
  ACCEL_JSON_EACH(item, s->config.disable_corrector) {
    if (cJSON_IsNumber(item) && item->valuedouble == (double)i - 1) return false;
  }
  return true;
}

/* The model's answer as the solver takes it, into s->drawn. */
static accel_status convert(accel__scheduler *s, uint32_t i, const float *output,
                            const float *sample) {
  const uint64_t n = accel__scheduler_elements(s);
  const accel__level at = accel__scheduler_level(s, i);
  if (s->config.predict_x0) return accel__scheduler_convert(s, i, output, sample, s->drawn);
  for (uint64_t k = 0; k < n; k++) switch (s->config.prediction_type) {
      case ACCEL__PREDICTS_NOISE:
        s->drawn[k] = output[k];
        break;
      case ACCEL__PREDICTS_SAMPLE:
        s->drawn[k] = (sample[k] - at.alpha * output[k]) / at.sigma;
        break;
      case ACCEL__PREDICTS_VELOCITY:
        s->drawn[k] = at.alpha * output[k] + at.sigma * sample[k];
        break;
      default:
        return accel__fail(ACCEL_ERROR_UNSUPPORTED,
                           "scheduler_config.json: 'flow_prediction' needs 'predict_x0'");
    }
  return ACCEL_OK;
}

static accel_status step(accel__scheduler *s, uint32_t i, const float *output, float *sample,
                         const accel__noise *noise) {
  const uint64_t n = accel__scheduler_elements(s);
  (void)noise;
  ACCEL_TRY(convert(s, i, output, sample));
  if (corrects(s, i)) {
    const way w = way_of(s, i - 1, s->counter, true);
    go(s, &w, s->counter, s->drawn, s->history[HELD], sample);
  }
  memcpy(accel__scheduler_shift_history(s, ORDER), s->drawn, n * sizeof *sample);
  uint32_t order = (uint32_t)s->config.solver_order;
  if (s->config.lower_order_final && order > s->n_steps - i) order = s->n_steps - i;
  if (order > s->kept + 1) order = s->kept + 1;
  s->counter = order;
  memcpy(s->history[HELD], sample, n * sizeof *sample);
  const way w = way_of(s, i, order, false);
  go(s, &w, order, NULL, s->history[HELD], sample);
  if (s->kept < (uint32_t)s->config.solver_order) s->kept++;
  return ACCEL_OK;
}

const accel__scheduler_class accel__scheduler_unipc = {
    .name = "UniPCMultistepScheduler",
    .usual = {.num_train_timesteps = 1000,
              .beta_start = 0.0001,
              .beta_end = 0.02,
              .beta_schedule = "linear",
              .solver_order = 2,
              .dynamic_thresholding_ratio = 0.995,
              .sample_max_value = 1.0,
              .predict_x0 = true,
              .solver_type = "bh2",
              .lower_order_final = true,
              .flow_shift = 1.0,
              .time_shift_type = "exponential",
              .timestep_spacing = ACCEL__SPACING_LINSPACE},
    .history = 4,
    .fields = fields,
    .by_sigma = true,
    .start = start,
    .step = step,
    .add_noise = accel__scheduler_add_by_level};
