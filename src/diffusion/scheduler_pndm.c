/* scheduler_pndm.c - PNDMScheduler of diffusers (Liu et al., 2202.09778): Runge-Kutta steps, then
 * linear multistep; Stable Diffusion leaves the former out (skip_prk_steps). */
#include <math.h>
#include <string.h>

#include "diffusion/scheduler.h"

enum {
  ORDER = 4,        /* history[0 .. ORDER - 1]: the model's outputs, the newest first */
  HELD = ORDER,     /* history[HELD]: the sample that a step began with */
  SUM = ORDER + 1,  /* history[SUM]: of the outputs of a Runge-Kutta step */
  RUNGE_KUTTA = 12, /* model calls */
};

static const char *const fields[] = {"num_train_timesteps",
                                     "beta_start",
                                     "beta_end",
                                     "beta_schedule",
                                     "trained_betas",
                                     "skip_prk_steps",
                                     "set_alpha_to_one",
                                     "prediction_type",
                                     "timestep_spacing",
                                     "steps_offset",
                                     NULL};

/* Timesteps between two calls of the model. */
static int64_t stride(const accel__scheduler *s) {
  return s->config.num_train_timesteps / (int64_t)s->asked;
}

static accel_status start(accel__scheduler *s, uint32_t steps) {
  ACCEL_TRY(accel__scheduler_space(s, steps, 0, s->config.num_train_timesteps, true));
  const uint32_t n = s->n_steps;
  if (s->config.prediction_type == ACCEL__PREDICTS_SAMPLE)
    return accel__fail(ACCEL_ERROR_UNSUPPORTED,
                       "scheduler_config.json: field 'prediction_type': 'sample' is not supported "
                       "by PNDM; known: epsilon, v_prediction");
  if (s->config.skip_prk_steps) { /* the second one is called twice */
    if (n == 1) return ACCEL_OK;
    ACCEL_TRY(accel__scheduler_reserve(s, n + 1));
    memmove(s->timestep + 2, s->timestep + 1, (n - 1) * sizeof *s->timestep);
    return ACCEL_OK;
  }
  if (n < ORDER)
    return accel__fail(ACCEL_ERROR_ARGUMENT,
                       "%u steps: the PNDM scheduler with Runge-Kutta steps needs at least 4", n);
  double call[2 * ORDER]; /* the first steps and their middles, ascending */
  for (uint32_t i = 0; i < ORDER; i++) {
    call[2 * i] = s->timestep[ORDER - 1 - i];
    call[2 * i + 1] = call[2 * i] + (double)(stride(s) / 2);
  }
  ACCEL_TRY(accel__scheduler_reserve(s, RUNGE_KUTTA + n - 3));
  memmove(s->timestep + RUNGE_KUTTA, s->timestep + 3, (n - 3) * sizeof *s->timestep);
  for (uint32_t i = 0; i < RUNGE_KUTTA; i++) s->timestep[RUNGE_KUTTA - 1 - i] = call[(i + 1) / 2];
  return ACCEL_OK;
}

/* Formula (9): from the sample `held` at t to `before`, with the noise that `output` stands for. */
static void go(const accel__scheduler *s, const float *held, int64_t t, int64_t before,
               const float *output, float *sample) {
  const uint64_t n = accel__scheduler_elements(s);
  const float a = accel__scheduler_alpha(s, t), b = accel__scheduler_alpha(s, before),
              keep = sqrtf(b / a), difference = b - a,
              by = a * sqrtf(1 - b) + sqrtf(a * (1 - a) * b);
  const bool velocity = s->config.prediction_type == ACCEL__PREDICTS_VELOCITY;
  for (uint64_t k = 0; k < n; k++) {
    const float noise = velocity ? sqrtf(a) * output[k] + sqrtf(1 - a) * held[k] : output[k];
    sample[k] = keep * held[k] - difference * noise / by;
  }
}

/* The outputs move on by one place, and `output` becomes the newest. */
static void remember(accel__scheduler *s, const float *output) {
  float *oldest = s->history[ORDER - 1];
  memmove(s->history + 1, s->history, (ORDER - 1) * sizeof *s->history);
  s->history[0] = oldest;
  memcpy(oldest, output, accel__scheduler_elements(s) * sizeof *output);
  if (s->kept < ORDER) s->kept++;
}

static void runge_kutta(accel__scheduler *s, uint32_t i, const float *output, float *sample) {
  static const float share[4] = {1.0f / 6, 1.0f / 3, 1.0f / 3, 1.0f / 6};
  const uint64_t n = accel__scheduler_elements(s);
  const uint32_t part = s->counter % 4;
  const int64_t t = (int64_t)s->timestep[s->counter / 4 * 4],
                before = (int64_t)s->timestep[i] - (s->counter % 2 ? 0 : stride(s) / 2);
  float *sum = s->history[SUM], *held = s->history[HELD];
  if (part == 0) {
    remember(s, output);
    memcpy(held, sample, n * sizeof *held);
    memset(sum, 0, n * sizeof *sum);
  }
  for (uint64_t k = 0; k < n; k++) sum[k] += share[part] * output[k];
  go(s, held, t, before, part == 3 ? sum : output, sample);
}

/* Weights of the newest outputs by how many there are (Adams-Bashforth). */
static const double weights[ORDER][ORDER] = {{1},
                                             {3.0 / 2, -1.0 / 2},
                                             {23.0 / 12, -16.0 / 12, 5.0 / 12},
                                             {55.0 / 24, -59.0 / 24, 37.0 / 24, -9.0 / 24}};

static void multistep(accel__scheduler *s, uint32_t i, const float *output, float *sample) {
  const uint64_t n = accel__scheduler_elements(s);
  int64_t t = (int64_t)s->timestep[i], before = t - stride(s);
  float *mixed = s->drawn, *held = s->history[HELD];
  if (s->counter == 0) memcpy(held, sample, n * sizeof *held);
  if (s->counter == 1) { /* the second call repeats the first step with the mean of both */
    before = t;
    t += stride(s);
    for (uint64_t k = 0; k < n; k++) mixed[k] = (output[k] + s->history[0][k]) / 2;
    go(s, held, t, before, mixed, sample);
    return;
  }
  remember(s, output);
  const double *w = weights[s->kept - 1];
  for (uint64_t k = 0; k < n; k++) {
    mixed[k] = 0;
    for (uint32_t j = 0; j < s->kept; j++) mixed[k] += (float)w[j] * s->history[j][k];
  }
  go(s, sample, t, before, mixed, sample);
}

static accel_status step(accel__scheduler *s, uint32_t i, const float *output, float *sample,
                         const accel__noise *noise) {
  (void)noise;
  if (!s->config.skip_prk_steps && s->counter < RUNGE_KUTTA)
    runge_kutta(s, i, output, sample);
  else
    multistep(s, i, output, sample);
  s->counter++;
  return ACCEL_OK;
}

const accel__scheduler_class accel__scheduler_pndm = {
    .name = "PNDMScheduler",
    .usual = {.num_train_timesteps = 1000,
              .beta_start = 0.0001,
              .beta_end = 0.02,
              .beta_schedule = "linear",
              .timestep_spacing = ACCEL__SPACING_LEADING},
    .history = ORDER + 2,
    .fields = fields,
    .start = start,
    .step = step,
    .add_noise = accel__scheduler_add_by_alpha};
