/* scheduler_flow.c - FlowMatchEulerDiscreteScheduler of diffusers: Euler's steps along the straight
 * line between picture and noise (Esser et al., 2403.03206). */
#include <math.h>
#include <string.h>

#include "diffusion/scheduler.h"

static const char *const fields[] = {"num_train_timesteps",
                                     "shift",
                                     "use_dynamic_shifting",
                                     "base_shift",
                                     "max_shift",
                                     "base_image_seq_len",
                                     "max_image_seq_len",
                                     "invert_sigmas",
                                     "shift_terminal",
                                     "use_karras_sigmas",
                                     "use_exponential_sigmas",
                                     "use_beta_sigmas",
                                     "time_shift_type",
                                     "stochastic_sampling",
                                     NULL};

/* Sigma i of those that FluxPipeline gives. */
static float even(const accel__scheduler *s, uint32_t i) {
  const double last = 1 / (double)s->asked;
  if (s->asked == 1) return 1;
  if (i + 1 == s->asked) return (float)last;
  return (float)(1 + (double)i * ((last - 1) / (double)(s->asked - 1)));
}

/* The sigma of training step t, counted from 1, as the constructor has it. */
static float trained(const accel__scheduler *s, int64_t t) {
  const float sigma = (float)t / (float)s->config.num_train_timesteps,
              shift = (float)s->config.shift;
  if (s->config.use_dynamic_shifting) return sigma;
  return shift * sigma / (1 + (float)(s->config.shift - 1) * sigma);
}

/* Sigmas before they are shifted, in s->timestep: between the constructor's ends, or the pipeline's. */
static void space(accel__scheduler *s) {
  const double train = (double)s->config.num_train_timesteps,
               high = (double)trained(s, s->config.num_train_timesteps) * train,
               low = (double)trained(s, 1) * train;
  const uint32_t n = s->n_steps;
  for (uint32_t i = 0; i < n; i++) {
    double t = high;
    if (n > 1) t = i + 1 == n ? low : high + (double)i * ((low - high) / (double)(n - 1));
    s->timestep[i] = s->even ? (double)even(s, i) : t / train;
  }
}

static accel_status start(accel__scheduler *s, uint32_t steps) {
  static const char *const shifts[] = {"exponential", "linear", NULL};
  const accel__scheduler_config *c = &s->config;
  ACCEL_TRY(accel__scheduler_known("time_shift_type", c->time_shift_type, shifts));
  ACCEL_TRY(accel__scheduler_need_mu(s));
  ACCEL_TRY(accel__scheduler_reserve(s, steps));
  space(s);
  for (uint32_t i = 0; i < steps; i++)
    s->timestep[i] = accel__scheduler_shifted(s, c->shift, s->timestep[i], s->even);
  accel__scheduler_stretch(s, s->timestep, steps, s->even);
  if (c->sigmas != ACCEL__SIGMAS_TRAINED)
    accel__scheduler_sigmas_between(s, s->timestep[0], s->timestep[steps - 1], steps, s->timestep);
  for (uint32_t i = 0; i < steps; i++) {
    const float sigma = (float)s->timestep[i];
    s->sigma[i] = c->invert_sigmas ? 1 - sigma : sigma;
    s->timestep[i] = (double)(s->sigma[i] * (float)c->num_train_timesteps);
  }
  s->sigma[steps] = c->invert_sigmas ? 1 : 0;
  return ACCEL_OK;
}

static accel_status step(accel__scheduler *s, uint32_t i, const float *output, float *sample,
                         const accel__noise *noise) {
  const uint64_t n = accel__scheduler_elements(s);
  const float sigma = s->sigma[i], next = s->sigma[i + 1], dt = next - sigma;
  const bool draws = s->config.stochastic_sampling;
  if (draws) accel__noise_draw(noise, s->drawn, s->images, s->each);
  for (uint64_t k = 0; k < n; k++)
    sample[k] = draws ? (1 - next) * (sample[k] - sigma * output[k]) + next * s->drawn[k]
                      : sample[k] + dt * output[k];
  return ACCEL_OK;
}

/* scale_noise of diffusers. */
static void add_noise(const accel__scheduler *s, uint32_t i, const float *original,
                      const float *noise, float *sample) {
  const uint64_t n = accel__scheduler_elements(s);
  const float sigma = s->sigma[i];
  for (uint64_t k = 0; k < n; k++) sample[k] = sigma * noise[k] + (1 - sigma) * original[k];
}

const accel__scheduler_class accel__scheduler_flow_match_euler = {
    .name = "FlowMatchEulerDiscreteScheduler",
    .usual = {.num_train_timesteps = 1000,
              .beta_start = 0.0001, /* no betas in this class */
              .beta_end = 0.02,
              .beta_schedule = "linear",
              .shift = 1.0,
              .max_shift = 1.15,
              .time_shift_type = "exponential"},
    .fields = fields,
    .by_sigma = true,
    .flow = true,
    .start = start,
    .step = step,
    .add_noise = add_noise};
