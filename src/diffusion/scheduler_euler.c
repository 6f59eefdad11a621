/* scheduler_euler.c - EulerDiscreteScheduler and EulerAncestralDiscreteScheduler of diffusers. */
#include <math.h>

#include "diffusion/scheduler.h"

accel_status accel__scheduler_start_grown(accel__scheduler *s, uint32_t steps) {
  ACCEL_TRY(accel__scheduler_space(s, steps, 0, s->config.num_train_timesteps, false));
  const uint32_t n = s->n_steps;
  accel__scheduler_sigmas(s, accel__scheduler_sigma_at(s, s->timestep[0]),
                          accel__scheduler_sigma_at(s, s->timestep[n - 1]), false);
  if (s->config.log_linear && s->config.sigmas == ACCEL__SIGMAS_TRAINED) {
    const float high = logf(accel__scheduler_trained_sigma(s, s->config.num_train_timesteps - 1)),
                low = logf(accel__scheduler_trained_sigma(s, 0)), step = (low - high) / (float)n;
    for (uint32_t i = 0; i <= n; i++)
      s->sigma[i] =
          expf(i < (n + 1) / 2 ? fmaf(step, (float)i, high) : fmaf(-step, (float)(n - i), low));
  }
  for (uint32_t i = 0; i < n; i++)
    s->timestep[i] = s->config.continuous && s->config.prediction_type == ACCEL__PREDICTS_VELOCITY
                         ? (double)(0.25f * logf(s->sigma[i]))
                         : (double)(float)s->timestep[i];
  return ACCEL_OK;
}

float accel__scheduler_grown(const accel__scheduler *s, uint32_t i) {
  return sqrtf(s->sigma[i] * s->sigma[i] + 1);
}

float accel__scheduler_init_grown(const accel__scheduler *s) {
  float most = 0;
  for (uint32_t i = 0; i <= s->n_steps; i++) most = fmaxf(most, s->sigma[i]);
  return s->config.timestep_spacing == ACCEL__SPACING_LEADING ? sqrtf(most * most + 1) : most;
}

float accel__scheduler_denoised(const accel__scheduler *s, float output, float sample,
                                float sigma) {
  const float square = sigma * sigma + 1;
  switch (s->config.prediction_type) {
    case ACCEL__PREDICTS_NOISE:
      return sample - sigma * output;
    case ACCEL__PREDICTS_VELOCITY:
      return output * (-sigma / sqrtf(square)) + sample / square;
    default:
      return output;
  }
}

/* From sigma[i] to `to` along the derivative. */
static void go(const accel__scheduler *s, uint32_t i, const float *output, float *sample,
               float to) {
  const uint64_t n = accel__scheduler_elements(s);
  const float sigma = s->sigma[i], dt = to - sigma;
  for (uint64_t k = 0; k < n; k++)
    sample[k] +=
        (sample[k] - accel__scheduler_denoised(s, output[k], sample[k], sigma)) / sigma * dt;
}

static accel_status euler_step(accel__scheduler *s, uint32_t i, const float *output, float *sample,
                               const accel__noise *noise) {
  (void)noise;
  go(s, i, output, sample, s->sigma[i + 1]);
  return ACCEL_OK;
}

static accel_status ancestral_step(accel__scheduler *s, uint32_t i, const float *output,
                                   float *sample, const accel__noise *noise) {
  const uint64_t n = accel__scheduler_elements(s);
  const float from = s->sigma[i] * s->sigma[i], to = s->sigma[i + 1] * s->sigma[i + 1],
              up = sqrtf(to * (from - to) / from), down = sqrtf(to - up * up);
  go(s, i, output, sample, down);
  accel__noise_draw(noise, s->drawn, s->images, s->each);
  for (uint64_t k = 0; k < n; k++) sample[k] += s->drawn[k] * up;
  return ACCEL_OK;
}

/* What both classes have; fields and step are their own. */
#define EULER_CLASS(its_name, its_fields, its_step)                                       \
  {                                                                                       \
    .name = its_name,                                                                     \
    .usual = {.num_train_timesteps = 1000,                                                \
              .beta_start = 0.0001,                                                       \
              .beta_end = 0.02,                                                           \
              .beta_schedule = "linear",                                                  \
              .timestep_spacing = ACCEL__SPACING_LINSPACE},                               \
    .fields = its_fields, .by_sigma = true, .start = accel__scheduler_start_grown,        \
    .divisor = accel__scheduler_grown, .step = its_step,                                  \
    .add_noise = accel__scheduler_add_by_sigma, .init_sigma = accel__scheduler_init_grown \
  }

static const char *const euler_fields[] = {
    "num_train_timesteps",    "beta_start",        "beta_end",
    "beta_schedule",          "trained_betas",     "prediction_type",
    "interpolation_type",     "use_karras_sigmas", "use_exponential_sigmas",
    "use_beta_sigmas",        "sigma_min",         "sigma_max",
    "timestep_spacing",       "timestep_type",     "steps_offset",
    "rescale_betas_zero_snr", "final_sigmas_type", NULL};
const accel__scheduler_class accel__scheduler_euler =
    EULER_CLASS("EulerDiscreteScheduler", euler_fields, euler_step);

static const char *const ancestral_fields[] = {"num_train_timesteps",
                                               "beta_start",
                                               "beta_end",
                                               "beta_schedule",
                                               "trained_betas",
                                               "prediction_type",
                                               "timestep_spacing",
                                               "steps_offset",
                                               "rescale_betas_zero_snr",
                                               NULL};
const accel__scheduler_class accel__scheduler_euler_ancestral =
    EULER_CLASS("EulerAncestralDiscreteScheduler", ancestral_fields, ancestral_step);
