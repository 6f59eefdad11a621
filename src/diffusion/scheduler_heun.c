/* scheduler_heun.c - HeunDiscreteScheduler, KDPM2DiscreteScheduler, KDPM2AncestralDiscreteScheduler
 * and LMSDiscreteScheduler of diffusers, the samplers of k-diffusion (Karras et al., 2206.00364)
 * beside Euler's. */
#include <math.h>
#include <string.h>

#include "diffusion/scheduler.h"

/* history[]: Heun's sample and derivative at the begin of a step; KDPM2's sample; the last
 * derivatives of LMS, the newest first. */
enum { HELD = 0, DERIVATIVE = 1, LMS_ORDER = 4 };

accel_status accel__scheduler_start_twice(accel__scheduler *s, uint32_t steps) {
  ACCEL_TRY(accel__scheduler_start_grown(s, steps));
  const uint32_t n = s->n_steps;
  ACCEL_TRY(accel__scheduler_reserve(s, 2 * n - 1));
  s->sigma[2 * n - 1] = s->sigma[n];
  for (uint32_t i = n - 1; i > 0; i--) {
    s->sigma[2 * i] = s->sigma[2 * i - 1] = s->sigma[i];
    s->timestep[2 * i] = s->timestep[2 * i - 1] = s->timestep[i];
  }
  return ACCEL_OK;
}

static float derivative(const accel__scheduler *s, float output, float sample, float sigma) {
  float x0 = accel__scheduler_denoised(s, output, sample, sigma);
  const float range = (float)s->config.clip_sample_range;
  if (s->config.clip_sample) x0 = fminf(fmaxf(x0, -range), range);
  return (sample - x0) / sigma;
}

/* ---- Heun: the slopes at both ends of a step ---- */

static accel_status heun_step(accel__scheduler *s, uint32_t i, const float *output, float *sample,
                              const accel__noise *noise) {
  const uint64_t n = accel__scheduler_elements(s);
  const bool second = i % 2 == 1;
  float *held = s->history[HELD], *slope = s->history[DERIVATIVE];
  (void)noise;
  if (!second) memcpy(held, sample, n * sizeof *sample);
  const float from = s->sigma[second ? i - 1 : i], to = s->sigma[second ? i : i + 1];
  for (uint64_t k = 0; k < n; k++) {
    const float d = derivative(s, output[k], sample[k], second ? to : from);
    sample[k] = held[k] + (second ? (slope[k] + d) / 2 : d) * (to - from);
    slope[k] = d;
  }
  return ACCEL_OK;
}

/* ---- KDPM2: the slope in the middle of a step, between logarithms ---- */

static accel_status kdpm2_check(const accel__scheduler *s) {
  if (s->config.prediction_type != ACCEL__PREDICTS_SAMPLE) return ACCEL_OK;
  return accel__fail(ACCEL_ERROR_UNSUPPORTED,
                     "scheduler_config.json: field 'prediction_type': 'sample' is not supported by "
                     "KDPM2; known: epsilon, v_prediction");
}

static bool ancestral(const accel__scheduler *s) {
  return s->class == &accel__scheduler_kdpm2_ancestral;
}

/* How far an ancestral step from sigma to `next` goes down, and the noise that takes it up again. */
static void parts_of(float sigma, float next, float *down, float *up) {
  const float from = sigma * sigma, to = next * next;
  *up = next > 0 ? sqrtf(to * (from - to) / from) : 0;
  *down = next > 0 ? sqrtf(to - *up * *up) : 0;
}

/* The sigma in the middle of the step from sigma[even] on. */
static float middle(const accel__scheduler *s, uint32_t even) {
  const float from = s->sigma[even];
  float to = s->sigma[even + 1], up;
  if (ancestral(s)) parts_of(from, to, &to, &up);
  if (to <= 0) return 0;
  const float a = logf(ancestral(s) ? from : to), b = logf(ancestral(s) ? to : from);
  return expf(b - (b - a) * 0.5f);
}

static accel_status kdpm2_start(accel__scheduler *s, uint32_t steps) {
  ACCEL_TRY(kdpm2_check(s));
  ACCEL_TRY(accel__scheduler_start_twice(s, steps));
  for (uint32_t i = 0; i < s->n_steps; i++) {
    if (i % 2 == 1)
      s->timestep[i] = accel__scheduler_step_of(s, middle(s, i - 1));
    else if (s->config.sigmas == ACCEL__SIGMAS_KARRAS)
      s->timestep[i] = rint(s->timestep[i]);
  }
  return ACCEL_OK;
}

static float kdpm2_divisor(const accel__scheduler *s, uint32_t i) {
  const float sigma = i % 2 == 1 ? middle(s, i - 1) : s->sigma[i];
  return sqrtf(sigma * sigma + 1);
}

static accel_status kdpm2_step(accel__scheduler *s, uint32_t i, const float *output, float *sample,
                               const accel__noise *noise) {
  const uint64_t n = accel__scheduler_elements(s);
  const bool second = i % 2 == 1;
  const uint32_t even = second ? i - 1 : i;
  float *held = s->history[HELD];
  const float from = s->sigma[even], half = middle(s, even);
  float to = s->sigma[even + 1], up = 0;
  if (ancestral(s)) parts_of(from, to, &to, &up);
  if (!second) memcpy(held, sample, n * sizeof *sample);
  if (second && ancestral(s)) accel__noise_draw(noise, s->drawn, s->images, s->each);
  for (uint64_t k = 0; k < n; k++) {
    const float d = derivative(s, output[k], sample[k], second ? half : from);
    sample[k] = held[k] + d * ((second ? to : half) - from);
    if (second && ancestral(s)) sample[k] += s->drawn[k] * up;
  }
  return ACCEL_OK;
}

/* ---- LMS: a polynomial through the last slopes ---- */

/* The integral from sigma[i] to sigma[i + 1] of Lagrange's polynomial that is 1 at sigma[i - k] and
 * 0 at the others of the last `order`; two points of Gauss are exact up to the third degree. */
static double weight(const accel__scheduler *s, uint32_t i, uint32_t order, uint32_t k) {
  const double from = s->sigma[i], to = s->sigma[i + 1], half = (to - from) / 2,
               center = (to + from) / 2, points[2] = {-1 / sqrt(3.0), 1 / sqrt(3.0)};
  double sum = 0;
  for (int p = 0; p < 2; p++) {
    double product = 1;
    for (uint32_t j = 0; j < order; j++) {
      const double other = s->sigma[i - j];
      if (j != k)
        product *= (center + half * points[p] - other) / ((double)s->sigma[i - k] - other);
    }
    sum += product;
  }
  return sum * half;
}

static accel_status lms_step(accel__scheduler *s, uint32_t i, const float *output, float *sample,
                             const accel__noise *noise) {
  const uint64_t n = accel__scheduler_elements(s);
  float *newest = accel__scheduler_shift_history(s, LMS_ORDER), by[LMS_ORDER];
  (void)noise;
  if (s->kept < LMS_ORDER) s->kept++;
  const uint32_t order = i + 1 < LMS_ORDER ? i + 1 : LMS_ORDER; /* as diffusers counts: by sigmas */
  for (uint32_t k = 0; k < order; k++) by[k] = (float)weight(s, i, order, k);
  for (uint64_t k = 0; k < n; k++) {
    float sum = 0;
    newest[k] = derivative(s, output[k], sample[k], s->sigma[i]);
    for (uint32_t m = 0; m < order && m < s->kept; m++) sum += by[m] * s->history[m][k];
    sample[k] += sum;
  }
  return ACCEL_OK;
}

/* What the classes have; the rest is their own. */
#define CLASS(its_name, its_fields, its_history, its_order, its_start, its_divisor, its_step, \
              first_beta, last_beta)                                                          \
  {                                                                                           \
    .name = its_name,                                                                         \
    .usual = {.num_train_timesteps = 1000,                                                    \
              .beta_start = first_beta,                                                       \
              .beta_end = last_beta,                                                          \
              .beta_schedule = "linear",                                                      \
              .clip_sample_range = 1.0,                                                       \
              .timestep_spacing = ACCEL__SPACING_LINSPACE},                                   \
    .history = its_history, .fields = its_fields, .order = its_order, .by_sigma = true,       \
    .start = its_start, .divisor = its_divisor, .step = its_step,                             \
    .add_noise = accel__scheduler_add_by_sigma, .init_sigma = accel__scheduler_init_grown     \
  }
#define FIELDS                                                                             \
  "num_train_timesteps", "beta_start", "beta_end", "beta_schedule", "trained_betas",       \
      "prediction_type", "use_karras_sigmas", "use_exponential_sigmas", "use_beta_sigmas", \
      "timestep_spacing", "steps_offset"

static const char *const heun_fields[] = {FIELDS, "clip_sample", "clip_sample_range", NULL},
                         *const plain_fields[] = {FIELDS, NULL};
const accel__scheduler_class accel__scheduler_heun =
    CLASS("HeunDiscreteScheduler", heun_fields, 2, 2, accel__scheduler_start_twice,
          accel__scheduler_grown, heun_step, 0.00085, 0.012);
const accel__scheduler_class accel__scheduler_kdpm2 =
    CLASS("KDPM2DiscreteScheduler", plain_fields, 1, 2, kdpm2_start, kdpm2_divisor, kdpm2_step,
          0.00085, 0.012);
const accel__scheduler_class accel__scheduler_kdpm2_ancestral =
    CLASS("KDPM2AncestralDiscreteScheduler", plain_fields, 1, 2, kdpm2_start, kdpm2_divisor,
          kdpm2_step, 0.00085, 0.012);
const accel__scheduler_class accel__scheduler_lms =
    CLASS("LMSDiscreteScheduler", plain_fields, LMS_ORDER, 1, accel__scheduler_start_grown,
          accel__scheduler_grown, lms_step, 0.0001, 0.02);
