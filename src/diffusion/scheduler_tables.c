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

static double exponential_bar(double t) { return exp(t * -12.0); }

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
  } else if (strcmp(kind, "exp") == 0) {
    betas_of(exponential_bar, n, beta);
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
                       "scaled_linear, squaredcos_cap_v2, exp, laplace, sigmoid",
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

double accel__scheduler_step_of(const accel__scheduler *s, float sigma) {
  const int64_t last = s->config.num_train_timesteps - 1;
  const float x = logf(fmaxf(sigma, 1e-10f));
  int64_t low = 0;
  for (int64_t i = 0; i <= last; i++)
    if (x >= logf(accel__scheduler_trained_sigma(s, i))) low = i;
  if (low > last - 1) low = last - 1;
  const float a = logf(accel__scheduler_trained_sigma(s, low)),
              b = logf(accel__scheduler_trained_sigma(s, low + 1)),
              w = fminf(fmaxf((a - x) / (a - b), 0), 1);
  return (double)((1 - w) * (float)low + w * (float)(low + 1));
}

/* The regularised incomplete beta function I_x(a, a), by its continued fraction (Numerical Recipes'
 * form of DiDonato and Morris), for x up to 1/2. */
static double incomplete_beta(double x, double a) {
  enum { TERMS = 200 };
  const double tiny = 1e-300;
  double c = 1, d = 1 - 2 * a * x / (a + 1), h;
  d = 1 / (fabs(d) < tiny ? tiny : d);
  h = d;
  for (int m = 1; m <= TERMS; m++) {
    const double k = m, even = k * (a - k) * x / ((a + 2 * k - 1) * (a + 2 * k)),
                 odd = -(a + k) * (2 * a + k) * x / ((a + 2 * k) * (a + 2 * k + 1));
    for (int half = 0; half < 2; half++) {
      const double term = half == 0 ? even : odd;
      d = 1 + term * d;
      d = 1 / (fabs(d) < tiny ? tiny : d);
      c = 1 + term / c;
      if (fabs(c) < tiny) c = tiny;
      h *= d * c;
    }
  }
  return tgamma(2 * a) / (tgamma(a) * tgamma(a)) * pow(x, a) * pow(1 - x, a) * h / a;
}

/* The quantile of the beta distribution with both parameters `a`, by halving. */
static double beta_quantile(double p, double a) {
  enum { HALVINGS = 100 };
  if (p <= 0 || p >= 1) return p <= 0 ? 0 : 1;
  if (p > 0.5) return 1 - beta_quantile(1 - p, a);
  double low = 0, high = 0.5;
  for (int i = 0; i < HALVINGS; i++) {
    const double middle = (low + high) / 2;
    *(incomplete_beta(middle, a) < p ? &low : &high) = middle;
  }
  return (low + high) / 2;
}

void accel__scheduler_sigmas_between(const accel__scheduler *s, double high, double low, uint32_t n,
                                     double *sigma) {
  const accel__scheduler_config *c = &s->config;
  if (!isnan(c->sigma_max)) high = c->sigma_max;
  if (!isnan(c->sigma_min)) low = c->sigma_min;
  const double rho = 7, spread = 0.6, from = pow(high, 1 / rho), to = pow(low, 1 / rho);
  for (uint32_t i = 0; i < n; i++) {
    const double at = n > 1 ? (double)i / (double)(n - 1) : 0;
    if (c->sigmas == ACCEL__SIGMAS_KARRAS)
      sigma[i] = pow(from + at * (to - from), rho);
    else if (c->sigmas == ACCEL__SIGMAS_BETA)
      sigma[i] = low + beta_quantile(1 - at, spread) * (high - low);
    else
      sigma[i] = exp(log(high) + at * (log(low) - log(high)));
  }
}

static double rounded(double x, bool f32) { return f32 ? (double)(float)x : x; }

double accel__scheduler_shifted(const accel__scheduler *s, double shift, double sigma, bool f32) {
  if (s->config.use_dynamic_shifting) {
    const bool linear = strcmp(s->config.time_shift_type, "linear") == 0;
    const double m = rounded(linear ? s->mu : exp(s->mu), f32),
                 odds = rounded(rounded(1 / sigma, f32) - 1, f32);
    return rounded(m / rounded(m + odds, f32), f32);
  }
  const double top = rounded(rounded(shift, f32) * sigma, f32),
               more = rounded(rounded(shift - 1, f32) * sigma, f32);
  return rounded(top / rounded(1 + more, f32), f32);
}

void accel__scheduler_stretch(const accel__scheduler *s, double *sigma, uint32_t n, bool f32) {
  const double terminal = s->config.shift_terminal;
  if (isnan(terminal) || terminal == 0 || n == 0) return;
  const double factor = rounded(rounded(1 - sigma[n - 1], f32) / rounded(1 - terminal, f32), f32);
  for (uint32_t i = 0; i < n; i++)
    sigma[i] = rounded(1 - rounded(rounded(1 - sigma[i], f32) / factor, f32), f32);
}

/* Timesteps and sigmas of flow: evenly from 1 to 1 / num_train_timesteps, the last one left out, as
 * noise that is not there yet; shifted. */
static void flow_sigmas(accel__scheduler *s) {
  const double train = (double)s->config.num_train_timesteps,
               shift = isnan(s->mu) ? s->config.flow_shift : exp(s->mu);
  const uint32_t n = s->n_steps;
  for (uint32_t i = 0; i < n; i++) {
    const uint32_t k = n - i; /* numpy.linspace from 1, n + 1 numbers; k from its begin */
    const double signal = k == n ? 1 / train : 1 + (double)k * ((1 / train - 1) / (double)n),
                 x = 1 - signal, sigma = shift * x / (1 + (shift - 1) * x);
    s->sigma[i] = (float)sigma;
    s->timestep[i] = sigma * train;
  }
}

void accel__scheduler_sigmas(accel__scheduler *s, double first, double last, bool round_timesteps) {
  const uint32_t n = s->n_steps;
  if (s->config.sigmas == ACCEL__SIGMAS_TRAINED) {
    for (uint32_t i = 0; i < n; i++)
      s->sigma[i] = (float)accel__scheduler_sigma_at(s, s->timestep[i]);
  } else if (s->config.sigmas == ACCEL__SIGMAS_FLOW) {
    flow_sigmas(s);
  } else {
    accel__scheduler_sigmas_between(s, first, last, n, s->timestep);
    for (uint32_t i = 0; i < n; i++) {
      s->sigma[i] = (float)s->timestep[i];
      s->timestep[i] = step_of(s, s->timestep[i]);
      if (round_timesteps) s->timestep[i] = rint(s->timestep[i]);
    }
  }
  s->sigma[n] = s->config.final_sigma_min ? accel__scheduler_trained_sigma(s, 0) : 0;
}
