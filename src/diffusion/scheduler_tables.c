/* scheduler_tables.c - betas, alphas, timesteps and sigmas, as torch and numpy compute them. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "diffusion/scheduler.h"

/* ---- betas and alphas ---- */

/* torch.linspace in fp32: multiplied and added at once, from both ends. */
static void linspace(float from, float to, int64_t n, float *out) {
  const float step = n > 1 ? (to - from) / (float)(n - 1) : 0;
  for (int64_t i = 0; i < n; i++)
    out[i] = i < n / 2 ? fmaf(step, (float)i, from) : fmaf(-step, (float)(n - 1 - i), to);
}

static double cosine_bar(double t) {
  const double x = cos((t + 0.008) / 1.008 * M_PI / 2);
  return x * x;
}

static double laplace_bar(double t) {
  const double side = copysign(1.0, 0.5 - t),
               snr = exp(-0.5 * side * log(1 - 2 * fabs(0.5 - t) + 1e-6));
  return sqrt(snr / (1 + snr));
}

/* betas whose cumulative product of 1 - beta is bar(t). */
static void betas_of(double (*bar)(double t), int64_t n, float *out) {
  for (int64_t i = 0; i < n; i++) {
    const double beta = 1 - bar((double)(i + 1) / (double)n) / bar((double)i / (double)n);
    out[i] = (float)fmin(beta, 0.999);
  }
}

static accel_status trained(const accel__scheduler_config *c, const accel__json_file *file,
                            float *beta) {
  int64_t i = 0;
  ACCEL_JSON_EACH(item, c->trained_betas) {
    if (i == c->num_train_timesteps || !cJSON_IsNumber(item)) break;
    beta[i++] = (float)item->valuedouble;
  }
  if (i == c->num_train_timesteps && cJSON_GetArraySize(c->trained_betas) == i) return ACCEL_OK;
  return accel__fail(ACCEL_ERROR_FORMAT,
                     "%s: field 'trained_betas' should hold %lld numbers (num_train_timesteps)",
                     file->name, (long long)c->num_train_timesteps);
}

static accel_status betas(const accel__scheduler_config *c, const accel__json_file *file,
                          float *beta) {
  const int64_t n = c->num_train_timesteps;
  const char *kind = c->beta_schedule;
  if (c->trained_betas != NULL) return trained(c, file, beta);
  if (strcmp(kind, "linear") == 0) {
    linspace((float)c->beta_start, (float)c->beta_end, n, beta);
  } else if (strcmp(kind, "scaled_linear") == 0) {
    linspace((float)sqrt(c->beta_start), (float)sqrt(c->beta_end), n, beta);
    for (int64_t i = 0; i < n; i++) beta[i] *= beta[i];
  } else if (strcmp(kind, "squaredcos_cap_v2") == 0) {
    betas_of(cosine_bar, n, beta);
  } else if (strcmp(kind, "laplace") == 0) {
    betas_of(laplace_bar, n, beta);
  } else if (strcmp(kind, "sigmoid") == 0) {
    linspace(-6, 6, n, beta);
    for (int64_t i = 0; i < n; i++)
      beta[i] =
          1 / (1 + expf(-beta[i])) * (float)(c->beta_end - c->beta_start) + (float)c->beta_start;
  } else {
    return accel__fail(ACCEL_ERROR_UNSUPPORTED,
                       "%s: field 'beta_schedule': '%s' is not supported; known: linear, "
                       "scaled_linear, squaredcos_cap_v2, laplace, sigmoid",
                       file->name, kind);
  }
  return ACCEL_OK;
}

/* torch.cumprod adds up in double and rounds each product. */
static void cumprod(const float *beta, int64_t n, float *out) {
  double product = 1;
  for (int64_t i = 0; i < n; i++) {
    product *= (double)(1.0f - beta[i]);
    out[i] = (float)product;
  }
}

/* Betas so scaled that the last step holds no signal at all. */
static void zero_terminal_snr(float *beta, float *bar, int64_t n) {
  cumprod(beta, n, bar);
  for (int64_t i = 0; i < n; i++) bar[i] = sqrtf(bar[i]);
  const float first = bar[0], last = bar[n - 1], scale = first / (first - last);
  for (int64_t i = 0; i < n; i++) {
    bar[i] = (bar[i] - last) * scale;
    bar[i] *= bar[i];
  }
  for (int64_t i = n - 1; i > 0; i--) beta[i] = 1 - bar[i] / bar[i - 1];
  beta[0] = 1 - bar[0];
}

accel_status accel__scheduler_alphas(accel__scheduler *s, const accel__json_file *file) {
  const int64_t n = s->config.num_train_timesteps;
  float *beta = calloc((size_t)n, sizeof *beta);
  s->alphas_cumprod = calloc((size_t)n, sizeof *s->alphas_cumprod);
  accel_status status = ACCEL_ERROR_OUT_OF_MEMORY;
  if (beta != NULL && s->alphas_cumprod != NULL) status = betas(&s->config, file, beta);
  if (status == ACCEL_OK && s->config.rescale_betas_zero_snr)
    zero_terminal_snr(beta, s->alphas_cumprod, n);
  if (status == ACCEL_OK) cumprod(beta, n, s->alphas_cumprod);
  /* schedulers that divide by it: the smallest number of fp16 in place of 0 */
  if (status == ACCEL_OK && s->config.rescale_betas_zero_snr && s->class->by_sigma)
    s->alphas_cumprod[n - 1] = 0x1p-24f;
  free(beta);
  return status;
}

float accel__scheduler_alpha(const accel__scheduler *s, int64_t t) {
  if (t >= 0) return s->alphas_cumprod[t < s->config.num_train_timesteps ? t : 0];
  return s->config.set_alpha_to_one ? 1.0f : s->alphas_cumprod[0];
}

float accel__scheduler_trained_sigma(const accel__scheduler *s, int64_t t) {
  const float a = s->alphas_cumprod[t];
  return sqrtf((1 - a) / a);
}

/* ---- timesteps ---- */

accel_status accel__scheduler_reserve(accel__scheduler *s, uint32_t n) {
  double *timestep = realloc(s->timestep, n * sizeof *timestep);
  if (timestep == NULL) return accel__no_memory(n * sizeof *timestep);
  s->timestep = timestep;
  float *sigma = realloc(s->sigma, (n + 1) * sizeof *sigma);
  if (sigma == NULL) return accel__no_memory((n + 1) * sizeof *sigma);
  s->sigma = sigma;
  s->n_steps = n;
  return ACCEL_OK;
}

accel_status accel__scheduler_space(accel__scheduler *s, uint32_t steps, uint32_t extra,
                                    int64_t last, bool rounded) {
  const accel__spacing spacing = s->config.timestep_spacing;
  const uint32_t count = steps + extra;
  /* numpy.arange(last, 0, -ratio), whose length follows from the rounded ratio */
  const double ratio = (double)s->config.num_train_timesteps / (double)steps,
               down = ((double)last - ratio) - (double)last;
  const uint32_t n =
      spacing == ACCEL__SPACING_TRAILING ? (uint32_t)ceil((double)last / ratio) : steps;
  ACCEL_TRY(accel__scheduler_reserve(s, n));
  const double step = count > 1 ? (double)(last - 1) / (double)(count - 1) : 0;
  const int64_t whole = last / (int64_t)count;
  for (uint32_t i = 0; i < n; i++) {
    const uint32_t k = count - 1 - i; /* from the end */
    double t = 0;
    if (spacing == ACCEL__SPACING_LINSPACE)
      t = i == 0 && count > 1 ? (double)(last - 1) : (double)k * step;
    else if (spacing == ACCEL__SPACING_LEADING)
      t = (double)((int64_t)k * whole + s->config.steps_offset);
    else
      t = rint((double)last + (double)i * down) - 1;
    s->timestep[i] = rounded ? rint(t) : (double)(float)t;
  }
  return ACCEL_OK;
}

/* ---- sigmas ---- */

/* numpy.interp over the training steps. */
double accel__scheduler_sigma_at(const accel__scheduler *s, double t) {
  const int64_t last = s->config.num_train_timesteps - 1;
  if (t <= 0) return accel__scheduler_trained_sigma(s, 0);
  if (t >= (double)last) return accel__scheduler_trained_sigma(s, last);
  const int64_t low = (int64_t)t;
  const double a = accel__scheduler_trained_sigma(s, low),
               b = accel__scheduler_trained_sigma(s, low + 1);
  return (b - a) * (t - (double)low) + a;
}

/* The training step whose sigma this is, with a fraction: interpolated between logarithms. */
static double step_of(const accel__scheduler *s, double sigma) {
  const double x = log(fmax(sigma, 1e-10));
  const int64_t last = s->config.num_train_timesteps - 1;
  int64_t low = 0;
  for (int64_t i = 0; i <= last; i++)
    if (x >= (double)logf(accel__scheduler_trained_sigma(s, i))) low = i;
  if (low > last - 1) low = last - 1;
  const float a = logf(accel__scheduler_trained_sigma(s, low)),
              b = logf(accel__scheduler_trained_sigma(s, low + 1));
  const double w = fmin(fmax(((double)a - x) / (double)(a - b), 0), 1);
  return (1 - w) * (double)low + w * (double)(low + 1);
}

/* sigma[n] from `high` down to `low` by the config's rule. */
static void sigmas_between(accel__scheduler *s, double high, double low) {
  const double rho = 7, from = pow(high, 1 / rho), to = pow(low, 1 / rho);
  const uint32_t n = s->n_steps;
  for (uint32_t i = 0; i < n; i++) {
    const double at = n > 1 ? (double)i / (double)(n - 1) : 0;
    double sigma = 0;
    if (s->config.sigmas == ACCEL__SIGMAS_KARRAS)
      sigma = pow(from + at * (to - from), rho);
    else if (s->config.sigmas == ACCEL__SIGMAS_EXPONENTIAL || s->config.sigmas == ACCEL__SIGMAS_LU)
      sigma = exp(log(high) + at * (log(low) - log(high)));
    s->timestep[i] = step_of(s, sigma);
    s->sigma[i] = (float)sigma;
  }
}

void accel__scheduler_sigmas(accel__scheduler *s, double first, double last, bool round_timesteps) {
  const uint32_t n = s->n_steps;
  if (s->config.sigmas == ACCEL__SIGMAS_TRAINED) {
    for (uint32_t i = 0; i < n; i++)
      s->sigma[i] = (float)accel__scheduler_sigma_at(s, s->timestep[i]);
  } else {
    sigmas_between(s, isnan(s->config.sigma_max) ? first : s->config.sigma_max,
                   isnan(s->config.sigma_min) ? last : s->config.sigma_min);
    for (uint32_t i = 0; round_timesteps && i < n; i++) s->timestep[i] = rint(s->timestep[i]);
  }
  s->sigma[n] = s->config.final_sigma_min ? accel__scheduler_trained_sigma(s, 0) : 0;
}
