/* scheduler.h - the schedulers of diffusers: which noise levels a picture passes through, and how
 * the model's answer takes it from one to the next.
 *
 * A scheduler is made from scheduler_config.json, or from that file under another class's name, as
 * from_config() does.  Tables are computed as torch computes them, in fp32 or in double where numpy
 * does.  Fields that no scheduler of diffusers has are refused by name; values that are not
 * implemented, too.
 */
#ifndef ACCEL_DIFFUSION_SCHEDULER_H
#define ACCEL_DIFFUSION_SCHEDULER_H

#include "core/json.h"
#include "diffusion/randn.h"

typedef enum accel__prediction {
  ACCEL__PREDICTS_NOISE,
  ACCEL__PREDICTS_SAMPLE,
  ACCEL__PREDICTS_VELOCITY,
  ACCEL__PREDICTS_FLOW /* noise less sample */
} accel__prediction;
typedef enum accel__spacing {
  ACCEL__SPACING_LINSPACE,
  ACCEL__SPACING_LEADING,
  ACCEL__SPACING_TRAILING
} accel__spacing;
typedef enum accel__sigmas {
  ACCEL__SIGMAS_TRAINED,
  ACCEL__SIGMAS_KARRAS,
  ACCEL__SIGMAS_EXPONENTIAL,
  ACCEL__SIGMAS_LU,   /* uniform in the logarithm of the signal to noise ratio */
  ACCEL__SIGMAS_BETA, /* quantiles of a beta distribution (2407.12173) */
  ACCEL__SIGMAS_FLOW  /* evenly from 1 down to 1 / num_train_timesteps, shifted */
} accel__sigmas;

/* The fields of all schedulers under diffusers' names. */
typedef struct accel__scheduler_config {
  int64_t num_train_timesteps, steps_offset, solver_order, original_inference_steps;
  int64_t base_image_seq_len, max_image_seq_len; /* rows of pictures that shifts are given for */
  double beta_start, beta_end, clip_sample_range, dynamic_thresholding_ratio, sample_max_value,
      sigma_min, sigma_max, lambda_min_clipped, timestep_scaling;
  double flow_shift, shift, base_shift, max_shift, shift_terminal; /* NAN: not there */
  const char *beta_schedule, *variance_type, *algorithm_type, *solver_type, *time_shift_type;
  const accel__json *trained_betas, *disable_corrector, *solver_p;
  accel__prediction prediction_type;
  accel__spacing timestep_spacing;
  accel__sigmas sigmas;
  bool set_alpha_to_one, clip_sample, thresholding, rescale_betas_zero_snr, skip_prk_steps,
      lower_order_final, euler_at_final, final_sigma_min, log_linear, continuous, flow_sigmas,
      predict_x0, use_dynamic_shifting, invert_sigmas, stochastic_sampling;
} accel__scheduler_config;

struct accel__scheduler;
/* One picture's generator each, or one for all of them. */
typedef struct accel__noise {
  accel__generator *generator; /* [n] */
  uint32_t n;
} accel__noise;
/* out[images * each]: what randn_tensor draws. */
void accel__noise_draw(const accel__noise *noise, float *out, uint32_t images, uint64_t each);

typedef struct accel__scheduler_class {
  const char *name;              /* "EulerDiscreteScheduler" */
  accel__scheduler_config usual; /* defaults of its constructor */
  uint32_t history;              /* model outputs (or samples) that it keeps */
  const char *const *fields;     /* of its constructor, closed by NULL */
  uint32_t order;                /* calls of the model to a step; 0: 1 */
  bool by_sigma;                 /* it goes by sigmas, and divides by alphas_cumprod */
  bool flow;                     /* its sigmas are shares of noise: for models that predict flow */
  /* Timesteps and sigmas for `steps` steps; `timestep` has room. */
  accel_status (*start)(struct accel__scheduler *s, uint32_t steps);
  /* NULL: the model takes the sample as it is.  Else what the sample is divided by at step i. */
  float (*divisor)(const struct accel__scheduler *s, uint32_t i);
  /* sample[n] at step i to that of step i + 1, in place, with the model's output[n]. */
  accel_status (*step)(struct accel__scheduler *s, uint32_t i, const float *output, float *sample,
                       const accel__noise *noise);
  /* sample = original with noise of step i. */
  void (*add_noise)(const struct accel__scheduler *s, uint32_t i, const float *original,
                    const float *noise, float *sample);
  float (*init_sigma)(const struct accel__scheduler *s); /* NULL: 1 */
} accel__scheduler_class;

typedef struct accel__scheduler {
  const accel__scheduler_class *class;
  accel__scheduler_config config;
  float *alphas_cumprod; /* [num_train_timesteps] */
  uint32_t n_steps;      /* timesteps, at least the steps asked for */
  uint32_t asked;        /* the steps asked for: num_inference_steps */
  double *timestep;      /* [n_steps] */
  float *sigma;          /* [n_steps + 1] of schedulers that go by sigmas */
  double eta;            /* of DDIM and TCD */
  /* Said before the start by pipelines whose models predict flow: `mu` is the shift of
   * use_dynamic_shifting (NAN: the pipeline has none), `even` that it gives sigmas, evenly from 1 to
   * 1 / steps (FluxPipeline). */
  double mu;
  bool even;
  /* of a run */
  uint32_t images;
  uint64_t each;     /* elements of a picture's latents */
  float *history[6]; /* [images * each] */
  float *drawn;      /* [images * each] */
  uint32_t kept, counter;
} accel__scheduler;

/* name: a class, "EulerDiscreteScheduler", or short as "euler"; NULL: the config's _class_name.
 * ACCEL_ERROR_UNSUPPORTED names what is not known.  Freed with accel__scheduler_free. */
accel_status accel__scheduler_new(const accel__json_file *config, const char *name,
                                  accel__scheduler **out);
void accel__scheduler_free(accel__scheduler **s); /* NULL or *s NULL: nothing */
/* Begins a run of `steps` steps over `images` pictures of `each` elements. */
accel_status accel__scheduler_start(accel__scheduler *s, uint32_t steps, uint32_t images,
                                    uint64_t each);
float accel__scheduler_init_sigma(const accel__scheduler *s);
/* The shift of use_dynamic_shifting for pictures of `rows` rows of a transformer: on the line through
 * base_shift at base_image_seq_len and max_shift (where the config has none, `max_shift`) at
 * max_image_seq_len. */
double accel__scheduler_mu(const accel__scheduler *s, int64_t rows, double max_shift);
/* What the model is given at step i: sample[images * each], scaled. */
void accel__scheduler_scale(const accel__scheduler *s, uint32_t i, const float *sample, float *out);
accel_status accel__scheduler_step(accel__scheduler *s, uint32_t i, const float *output,
                                   float *sample, const accel__noise *noise);
void accel__scheduler_add_noise(const accel__scheduler *s, uint32_t i, const float *original,
                                const float *noise, float *sample);

/* ---- for the files of the classes -------------------------------------------------------------
 */

extern const accel__scheduler_class accel__scheduler_ddim, accel__scheduler_pndm,
    accel__scheduler_euler, accel__scheduler_euler_ancestral, accel__scheduler_ddpm,
    accel__scheduler_lcm, accel__scheduler_dpm_multistep, accel__scheduler_dpm_singlestep,
    accel__scheduler_unipc, accel__scheduler_deis, accel__scheduler_heun, accel__scheduler_lms,
    accel__scheduler_kdpm2, accel__scheduler_kdpm2_ancestral, accel__scheduler_tcd,
    accel__scheduler_flow_match_euler;

static inline uint64_t accel__scheduler_elements(const accel__scheduler *s) {
  return s->images * s->each;
}
accel_status accel__scheduler_alphas(accel__scheduler *s, const accel__json_file *file);
/* Timesteps from high to low as numpy spaces `steps` + `extra` of them over 0 .. last - 1, the
 * `extra` lowest left out; trailing ones may be more or fewer than asked for.  rounded: to whole
 * numbers, else to fp32. */
accel_status accel__scheduler_space(accel__scheduler *s, uint32_t steps, uint32_t extra,
                                    int64_t last, bool rounded);
accel_status accel__scheduler_reserve(accel__scheduler *s, uint32_t n_steps); /* sets n_steps */
/* sqrt((1 - a) / a) of training step t. */
float accel__scheduler_trained_sigma(const accel__scheduler *s, int64_t t);
/* Fills sigma[n_steps + 1] from the timesteps, or by the config's rule between `first` and `last`
 * (unless the config has sigma_max and sigma_min), and then the timesteps from these. */
void accel__scheduler_sigmas(accel__scheduler *s, double first, double last, bool round_timesteps);
/* The same of a single sigma: the training step, with a fraction, that has it; computed in fp32. */
double accel__scheduler_step_of(const accel__scheduler *s, float sigma);
/* sigma[n] from `high` down to `low`, by the config's rule karras, exponential, lu or beta. */
void accel__scheduler_sigmas_between(const accel__scheduler *s, double high, double low, uint32_t n,
                                     double *sigma);
/* Shifts a share of noise by `shift`, or with use_dynamic_shifting by mu; f32: as numpy does in
 * fp32. */
double accel__scheduler_shifted(const accel__scheduler *s, double shift, double sigma, bool f32);
/* shift_terminal: sigma[n] so stretched that the last one is it. */
void accel__scheduler_stretch(const accel__scheduler *s, double *sigma, uint32_t n, bool f32);
/* ACCEL_ERROR_UNSUPPORTED where use_dynamic_shifting needs a mu that the pipeline does not give. */
accel_status accel__scheduler_need_mu(const accel__scheduler *s);
/* Checks time_shift_type of solvers that shift by exp(mu) where there is a mu, and forgets the mu
 * where the config does not shift by it. */
accel_status accel__scheduler_shifts(accel__scheduler *s);
/* A text field's value is one of known[n], closed by NULL. */
accel_status accel__scheduler_known(const char *key, const char *value, const char *const *known);
/* The sigma between training steps that numpy.interp gives for timestep t. */
double accel__scheduler_sigma_at(const accel__scheduler *s, double t);
/* What the model would have made of it: the noiseless sample (x0) from its output by the prediction
 * type, with alpha and sigma of the noise level. */
float accel__scheduler_x0(const accel__scheduler *s, float output, float sample, float alpha,
                          float sigma);
/* alpha, sigma and half the log signal to noise ratio at sigma[i]. */
typedef struct accel__level {
  float alpha, sigma, lambda;
} accel__level;
accel__level accel__scheduler_level(const accel__scheduler *s, uint32_t i);
/* x0 of step i into x0[images * each], thresholded as the config says. */
accel_status accel__scheduler_convert(const accel__scheduler *s, uint32_t i, const float *output,
                                      const float *sample, float *x0);
/* history[0] becomes the oldest of the first n: the newest output comes first. */
float *accel__scheduler_shift_history(accel__scheduler *s, uint32_t n);
/* Clips or thresholds x0[images * each] as the config says. */
accel_status accel__scheduler_clip(const accel__scheduler *s, float *x0);
/* alphas_cumprod[t]; before the first step 1, or that of step 0 (set_alpha_to_one). */
float accel__scheduler_alpha(const accel__scheduler *s, int64_t t);
/* add_noise by alphas_cumprod, which schedulers without sigmas share. */
void accel__scheduler_add_by_alpha(const accel__scheduler *s, uint32_t i, const float *original,
                                   const float *noise, float *sample);
void accel__scheduler_add_by_sigma(const accel__scheduler *s, uint32_t i, const float *original,
                                   const float *noise, float *sample);
void accel__scheduler_add_by_level(const accel__scheduler *s, uint32_t i, const float *original,
                                   const float *noise, float *sample);

/* Of the classes whose samples grow with sigma (scheduler_euler.c): timesteps and sigmas, what
 * samples are divided by, what noise is multiplied by, and x0 of one element. */
accel_status accel__scheduler_start_grown(accel__scheduler *s, uint32_t steps);
float accel__scheduler_grown(const accel__scheduler *s, uint32_t i);
float accel__scheduler_init_grown(const accel__scheduler *s);
float accel__scheduler_denoised(const accel__scheduler *s, float output, float sample, float sigma);
/* Every noise level but the first stands for two calls of the model. */
accel_status accel__scheduler_start_twice(accel__scheduler *s, uint32_t steps);

#endif
