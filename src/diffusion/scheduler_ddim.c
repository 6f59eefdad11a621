/* scheduler_ddim.c - DDIMScheduler, DDPMScheduler and LCMScheduler of diffusers: schedulers that go
 * by the cumulative products of alpha, one model output a step. */
#include <math.h>
#include <string.h>

#include "diffusion/scheduler.h"

/* The noiseless sample of step i into history[0], clipped. */
static accel_status predict(accel__scheduler *s, const float *output, const float *sample,
                            float alpha) {
  const uint64_t n = accel__scheduler_elements(s);
  const float signal = sqrtf(alpha), rest = sqrtf(1 - alpha);
  float *x0 = s->history[0];
  for (uint64_t k = 0; k < n; k++)
    x0[k] = accel__scheduler_x0(s, output[k], sample[k], signal, rest);
  return accel__scheduler_clip(s, x0);
}

/* The noise in the sample by the prediction type, x0 being what the model said when it predicts
 * that. */
static float noise_of(const accel__scheduler *s, float output, float sample, float signal,
                      float rest) {
  switch (s->config.prediction_type) {
    case ACCEL__PREDICTS_NOISE:
      return output;
    case ACCEL__PREDICTS_VELOCITY:
      return signal * output + rest * sample;
    default:
      return (sample - signal * output) / rest;
  }
}

/* ---- DDIM ---- */

static const char *const ddim_fields[] = {"num_train_timesteps",
                                          "beta_start",
                                          "beta_end",
                                          "beta_schedule",
                                          "trained_betas",
                                          "clip_sample",
                                          "set_alpha_to_one",
                                          "steps_offset",
                                          "prediction_type",
                                          "thresholding",
                                          "dynamic_thresholding_ratio",
                                          "clip_sample_range",
                                          "sample_max_value",
                                          "timestep_spacing",
                                          "rescale_betas_zero_snr",
                                          NULL};

static accel_status start_whole(accel__scheduler *s, uint32_t steps) {
  return accel__scheduler_space(s, steps, 0, s->config.num_train_timesteps, true);
}

static accel_status ddim_step(accel__scheduler *s, uint32_t i, const float *output, float *sample,
                              const accel__noise *noise) {
  const uint64_t n = accel__scheduler_elements(s);
  const int64_t t = (int64_t)s->timestep[i],
                before = t - s->config.num_train_timesteps / (int64_t)s->asked;
  const float a = accel__scheduler_alpha(s, t), b = accel__scheduler_alpha(s, before),
              signal = sqrtf(a), rest = sqrtf(1 - a), variance = (1 - b) / (1 - a) * (1 - a / b),
              deviation = (float)s->eta * sqrtf(variance),
              direction = sqrtf(1 - b - deviation * deviation), next = sqrtf(b);
  ACCEL_TRY(predict(s, output, sample, a));
  for (uint64_t k = 0; k < n; k++)
    sample[k] =
        next * s->history[0][k] + direction * noise_of(s, output[k], sample[k], signal, rest);
  if (s->eta > 0) {
    accel__noise_draw(noise, s->drawn, s->images, s->each);
    for (uint64_t k = 0; k < n; k++) sample[k] += deviation * s->drawn[k];
  }
  return ACCEL_OK;
}

const accel__scheduler_class accel__scheduler_ddim = {
    .name = "DDIMScheduler",
    .usual = {.num_train_timesteps = 1000,
              .beta_start = 0.0001,
              .beta_end = 0.02,
              .beta_schedule = "linear",
              .clip_sample = true,
              .clip_sample_range = 1.0,
              .set_alpha_to_one = true,
              .dynamic_thresholding_ratio = 0.995,
              .sample_max_value = 1.0,
              .timestep_spacing = ACCEL__SPACING_LEADING},
    .history = 1,
    .fields = ddim_fields,
    .start = start_whole,
    .step = ddim_step,
    .add_noise = accel__scheduler_add_by_alpha};

/* ---- DDPM ---- */

static const char *const ddpm_fields[] = {"num_train_timesteps",
                                          "beta_start",
                                          "beta_end",
                                          "beta_schedule",
                                          "trained_betas",
                                          "variance_type",
                                          "clip_sample",
                                          "prediction_type",
                                          "thresholding",
                                          "dynamic_thresholding_ratio",
                                          "clip_sample_range",
                                          "sample_max_value",
                                          "timestep_spacing",
                                          "steps_offset",
                                          "rescale_betas_zero_snr",
                                          NULL};

static accel_status ddpm_start(accel__scheduler *s, uint32_t steps) {
  static const char *const known[] = {"fixed_small", "fixed_small_log", "fixed_large",
                                      "fixed_large_log"};
  for (size_t i = 0; i < sizeof known / sizeof *known; i++)
    if (strcmp(s->config.variance_type, known[i]) == 0) return start_whole(s, steps);
  return accel__fail(ACCEL_ERROR_UNSUPPORTED,
                     "scheduler_config.json: field 'variance_type': '%s' is not supported; known: "
                     "fixed_small, fixed_small_log, fixed_large, fixed_large_log",
                     s->config.variance_type);
}

/* What noise is multiplied by. */
static float ddpm_deviation(const accel__scheduler *s, float a, float b, float beta) {
  const char *type = s->config.variance_type;
  const float variance = fmaxf((1 - b) / (1 - a) * beta, 1e-20f);
  if (strcmp(type, "fixed_small_log") == 0) return expf(0.5f * logf(variance));
  if (strcmp(type, "fixed_large") == 0) return sqrtf(beta);
  if (strcmp(type, "fixed_large_log") == 0) return sqrtf(logf(beta));
  return sqrtf(variance);
}

static accel_status ddpm_step(accel__scheduler *s, uint32_t i, const float *output, float *sample,
                              const accel__noise *noise) {
  const uint64_t n = accel__scheduler_elements(s);
  const float a = accel__scheduler_alpha(s, (int64_t)s->timestep[i]),
              b = i + 1 < s->n_steps ? accel__scheduler_alpha(s, (int64_t)s->timestep[i + 1])
                                     : 1.0f,
              alpha = a / b, beta = 1 - alpha, of_x0 = sqrtf(b) * beta / (1 - a),
              of_sample = sqrtf(alpha) * (1 - b) / (1 - a);
  ACCEL_TRY(predict(s, output, sample, a));
  for (uint64_t k = 0; k < n; k++) sample[k] = of_x0 * s->history[0][k] + of_sample * sample[k];
  if (s->timestep[i] > 0) {
    const float deviation = ddpm_deviation(s, a, b, beta);
    accel__noise_draw(noise, s->drawn, s->images, s->each);
    for (uint64_t k = 0; k < n; k++) sample[k] += deviation * s->drawn[k];
  }
  return ACCEL_OK;
}

const accel__scheduler_class accel__scheduler_ddpm = {
    .name = "DDPMScheduler",
    .usual = {.num_train_timesteps = 1000,
              .beta_start = 0.0001,
              .beta_end = 0.02,
              .beta_schedule = "linear",
              .variance_type = "fixed_small",
              .clip_sample = true,
              .clip_sample_range = 1.0,
              .dynamic_thresholding_ratio = 0.995,
              .sample_max_value = 1.0,
              .timestep_spacing = ACCEL__SPACING_LEADING},
    .history = 1,
    .fields = ddpm_fields,
    .start = ddpm_start,
    .step = ddpm_step,
    .add_noise = accel__scheduler_add_by_alpha};

/* ---- LCM and TCD ---- */

static const char *const distilled_fields[] = {"num_train_timesteps",
                                               "beta_start",
                                               "beta_end",
                                               "beta_schedule",
                                               "trained_betas",
                                               "original_inference_steps",
                                               "clip_sample",
                                               "clip_sample_range",
                                               "set_alpha_to_one",
                                               "steps_offset",
                                               "prediction_type",
                                               "thresholding",
                                               "dynamic_thresholding_ratio",
                                               "sample_max_value",
                                               "timestep_spacing",
                                               "timestep_scaling",
                                               "rescale_betas_zero_snr",
                                               NULL};

static accel_status distilled_start(accel__scheduler *s, uint32_t steps) {
  const int64_t original = s->config.original_inference_steps,
                each = s->config.num_train_timesteps / original;
  if (original > s->config.num_train_timesteps || steps > original)
    return accel__fail(ACCEL_ERROR_ARGUMENT,
                       "%u steps: this model was distilled to at most %lld "
                       "(original_inference_steps)",
                       steps, (long long)original);
  ACCEL_TRY(accel__scheduler_reserve(s, steps));
  for (uint32_t i = 0; i < steps; i++) {
    const int64_t at = (int64_t)floor((double)i * ((double)original / (double)steps));
    s->timestep[i] = (double)((original - at) * each - 1);
  }
  return ACCEL_OK;
}

static accel_status lcm_step(accel__scheduler *s, uint32_t i, const float *output, float *sample,
                             const accel__noise *noise) {
  const uint64_t n = accel__scheduler_elements(s);
  const bool last = i + 1 == s->n_steps;
  const double t = s->timestep[i] * s->config.timestep_scaling, data = 0.5;
  const float a = accel__scheduler_alpha(s, (int64_t)s->timestep[i]),
              b = last ? 1.0f : accel__scheduler_alpha(s, (int64_t)s->timestep[i + 1]),
              skip = (float)(data * data / (t * t + data * data)),
              out = (float)(t / sqrt(t * t + data * data)), signal = sqrtf(b), rest = sqrtf(1 - b);
  ACCEL_TRY(predict(s, output, sample, a));
  if (!last) accel__noise_draw(noise, s->drawn, s->images, s->each);
  for (uint64_t k = 0; k < n; k++) {
    const float denoised = out * s->history[0][k] + skip * sample[k];
    sample[k] = last ? denoised : signal * denoised + rest * s->drawn[k];
  }
  return ACCEL_OK;
}

/* What both classes begin with. */
#define DISTILLED_USUAL                                                                         \
  {                                                                                             \
    .num_train_timesteps = 1000, .beta_start = 0.00085, .beta_end = 0.012,                      \
    .beta_schedule = "scaled_linear", .original_inference_steps = 50, .clip_sample_range = 1.0, \
    .set_alpha_to_one = true, .dynamic_thresholding_ratio = 0.995, .sample_max_value = 1.0,     \
    .timestep_scaling = 10.0, .timestep_spacing = ACCEL__SPACING_LEADING                        \
  }

const accel__scheduler_class accel__scheduler_lcm = {.name = "LCMScheduler",
                                                     .usual = DISTILLED_USUAL,
                                                     .history = 1,
                                                     .fields = distilled_fields,
                                                     .start = distilled_start,
                                                     .step = lcm_step,
                                                     .add_noise = accel__scheduler_add_by_alpha};

/* Strategic stochastic sampling of trajectory consistency (Zheng et al., 2402.19159): eta says how far
 * down a step goes before noise takes it up again. */
static accel_status tcd_step(accel__scheduler *s, uint32_t i, const float *output, float *sample,
                             const accel__noise *noise) {
  const uint64_t n = accel__scheduler_elements(s);
  const bool last = i + 1 == s->n_steps, draws = s->eta > 0 && !last;
  const double to = last ? 0 : s->timestep[i + 1];
  if (!(s->eta >= 0 && s->eta <= 1))
    return accel__fail(ACCEL_ERROR_ARGUMENT, "eta is %g: TCDScheduler takes 0 to 1", s->eta);
  const int64_t down = (int64_t)floorf((float)(1 - s->eta) * (float)to);
  const float a = accel__scheduler_alpha(s, (int64_t)s->timestep[i]),
              b = accel__scheduler_alpha(s, (int64_t)to), c = accel__scheduler_alpha(s, down),
              signal = sqrtf(a), rest = sqrtf(1 - a), kept = sqrtf(b / c), added = sqrtf(1 - b / c);
  if (draws) accel__noise_draw(noise, s->drawn, s->images, s->each);
  for (uint64_t k = 0; k < n; k++) {
    const float x0 = accel__scheduler_x0(s, output[k], sample[k], signal, rest);
    float epsilon = output[k];
    if (s->config.prediction_type == ACCEL__PREDICTS_SAMPLE)
      epsilon = (sample[k] - signal * x0) / rest;
    else if (s->config.prediction_type == ACCEL__PREDICTS_VELOCITY)
      epsilon = signal * output[k] + rest * sample[k];
    sample[k] = sqrtf(c) * x0 + sqrtf(1 - c) * epsilon;
    if (draws) sample[k] = kept * sample[k] + added * s->drawn[k];
  }
  return ACCEL_OK;
}

const accel__scheduler_class accel__scheduler_tcd = {.name = "TCDScheduler",
                                                     .usual = DISTILLED_USUAL,
                                                     .fields = distilled_fields,
                                                     .start = distilled_start,
                                                     .step = tcd_step,
                                                     .add_noise = accel__scheduler_add_by_alpha};
