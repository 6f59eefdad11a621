/* scheduler.c - schedulers from their configs, and what all of them do alike. */
#include "diffusion/scheduler.h"

#include <math.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/text.h"

enum { MAX_TRAIN_STEPS = 1 << 20, MAX_STEPS = 10000 };

static const struct {
  const accel__scheduler_class *class;
  const char *name; /* what people type */
} classes[] = {{&accel__scheduler_ddim, "ddim"},
               {&accel__scheduler_pndm, "pndm"},
               {&accel__scheduler_euler, "euler"},
               {&accel__scheduler_euler_ancestral, "euler-ancestral"},
               {&accel__scheduler_ddpm, "ddpm"},
               {&accel__scheduler_lcm, "lcm"},
               {&accel__scheduler_dpm_multistep, "dpm++"},
               {&accel__scheduler_dpm_singlestep, "dpm++-singlestep"},
               {&accel__scheduler_unipc, "unipc"},
               {&accel__scheduler_deis, "deis"},
               {&accel__scheduler_heun, "heun"},
               {&accel__scheduler_lms, "lms"},
               {&accel__scheduler_kdpm2, "kdpm2"},
               {&accel__scheduler_kdpm2_ancestral, "kdpm2-ancestral"},
               {&accel__scheduler_tcd, "tcd"},
               {&accel__scheduler_flow_match_euler, "flow-match-euler"}};
enum { N_CLASSES = sizeof classes / sizeof *classes };

static accel_status find_class(const accel__json_file *file, const char *name,
                               const accel__scheduler_class **out) {
  for (size_t i = 0; i < N_CLASSES; i++)
    if (strcmp(name, classes[i].class->name) == 0 || strcmp(name, classes[i].name) == 0) {
      *out = classes[i].class;
      return ACCEL_OK;
    }
  accel_status status =
      accel__fail(ACCEL_ERROR_UNSUPPORTED, "%s: scheduler '%s' is not supported", file->name, name);
  return accel__remedy(status,
                       "choose one of ddim, pndm, euler, euler-ancestral, ddpm, lcm, dpm++, "
                       "dpm++-singlestep, unipc, deis, heun, lms, kdpm2, kdpm2-ancestral, tcd, "
                       "flow-match-euler (--scheduler)");
}

/* ---- fields ---- */

typedef enum kind { INTEGER, NUMBER, BOOLEAN, TEXT } kind;
static const struct field {
  const char *key;
  kind kind;
  size_t at;
  int64_t min, max;
} fields[] = {
#define AT(member) offsetof(accel__scheduler_config, member)
    {"num_train_timesteps", INTEGER, AT(num_train_timesteps), 1, MAX_TRAIN_STEPS},
    {"steps_offset", INTEGER, AT(steps_offset), 0, MAX_TRAIN_STEPS},
    {"solver_order", INTEGER, AT(solver_order), 1, 3},
    {"original_inference_steps", INTEGER, AT(original_inference_steps), 1, MAX_TRAIN_STEPS},
    {"beta_start", NUMBER, AT(beta_start), 0, 0},
    {"beta_end", NUMBER, AT(beta_end), 0, 0},
    {"clip_sample_range", NUMBER, AT(clip_sample_range), 0, 0},
    {"dynamic_thresholding_ratio", NUMBER, AT(dynamic_thresholding_ratio), 0, 0},
    {"sample_max_value", NUMBER, AT(sample_max_value), 0, 0},
    {"sigma_min", NUMBER, AT(sigma_min), 0, 0},
    {"sigma_max", NUMBER, AT(sigma_max), 0, 0},
    {"lambda_min_clipped", NUMBER, AT(lambda_min_clipped), 0, 0},
    {"base_image_seq_len", INTEGER, AT(base_image_seq_len), 1, INT32_MAX},
    {"max_image_seq_len", INTEGER, AT(max_image_seq_len), 1, INT32_MAX},
    {"flow_shift", NUMBER, AT(flow_shift), 0, 0},
    {"shift", NUMBER, AT(shift), 0, 0},
    {"base_shift", NUMBER, AT(base_shift), 0, 0},
    {"max_shift", NUMBER, AT(max_shift), 0, 0},
    {"shift_terminal", NUMBER, AT(shift_terminal), 0, 0},
    {"time_shift_type", TEXT, AT(time_shift_type), 0, 0},
    {"predict_x0", BOOLEAN, AT(predict_x0), 0, 0},
    {"use_dynamic_shifting", BOOLEAN, AT(use_dynamic_shifting), 0, 0},
    {"invert_sigmas", BOOLEAN, AT(invert_sigmas), 0, 0},
    {"stochastic_sampling", BOOLEAN, AT(stochastic_sampling), 0, 0},
    {"timestep_scaling", NUMBER, AT(timestep_scaling), 0, 0},
    {"beta_schedule", TEXT, AT(beta_schedule), 0, 0},
    {"variance_type", TEXT, AT(variance_type), 0, 0},
    {"algorithm_type", TEXT, AT(algorithm_type), 0, 0},
    {"solver_type", TEXT, AT(solver_type), 0, 0},
    {"set_alpha_to_one", BOOLEAN, AT(set_alpha_to_one), 0, 0},
    {"clip_sample", BOOLEAN, AT(clip_sample), 0, 0},
    {"thresholding", BOOLEAN, AT(thresholding), 0, 0},
    {"rescale_betas_zero_snr", BOOLEAN, AT(rescale_betas_zero_snr), 0, 0},
    {"skip_prk_steps", BOOLEAN, AT(skip_prk_steps), 0, 0},
    {"lower_order_final", BOOLEAN, AT(lower_order_final), 0, 0},
    {"euler_at_final", BOOLEAN, AT(euler_at_final), 0, 0},
#undef AT
};
/* Fields whose values stand for something else (read_choices), or that schedulers have that are not
 * here: what diffusers ignores in a config of another class is ignored. */
static const char *const other_fields[] = {"trained_betas",
                                           "prediction_type",
                                           "timestep_spacing",
                                           "use_karras_sigmas",
                                           "use_exponential_sigmas",
                                           "use_beta_sigmas",
                                           "use_lu_lambdas",
                                           "use_flow_sigmas",
                                           "final_sigmas_type",
                                           "interpolation_type",
                                           "timestep_type",
                                           "disable_corrector",
                                           "solver_p",
                                           "sigma_data",
                                           "noise_sampler_seed"};
/* Fields that diffusers asks a config for whatever its class: pipelines for how to shift, karras,
 * exponential and beta sigmas for their ends. */
static const char *const fields_of_all[] = {"sigma_min", "sigma_max",          "base_shift",
                                            "max_shift", "base_image_seq_len", "max_image_seq_len",
                                            NULL};

static bool listed(const char *const *list, const char *key) {
  for (; list != NULL && *list != NULL; list++)
    if (strcmp(*list, key) == 0) return true;
  return false;
}

static bool known(const char *key) {
  if (key[0] == '_') return true; /* _class_name, _diffusers_version */
  for (size_t i = 0; i < sizeof fields / sizeof *fields; i++)
    if (strcmp(fields[i].key, key) == 0) return true;
  for (size_t i = 0; i < sizeof other_fields / sizeof *other_fields; i++)
    if (strcmp(other_fields[i], key) == 0) return true;
  return false;
}

static accel_status read_field(const accel__json_file *f, const struct field *field,
                               accel__scheduler_config *c) {
  char *at = (char *)c + field->at;
  switch (field->kind) {
    case INTEGER:
      return accel__json_int(f, f->root, field->key, field->min, field->max, (int64_t *)(void *)at);
    case NUMBER:
      return accel__json_number(f, f->root, field->key, (double *)(void *)at);
    case BOOLEAN:
      return accel__json_bool(f, f->root, field->key, (bool *)at);
    default:
      return accel__json_string(f, f->root, field->key, (const char **)(void *)at);
  }
}

/* The place of a text field's value in known[n]; left as it is when the class has no such field. */
static accel_status read_choice(const accel__json_file *f, const accel__scheduler_class *class,
                                const char *key, const char *const *names, int *io) {
  const char *value = NULL;
  if (!listed(class->fields, key)) return ACCEL_OK;
  ACCEL_TRY(accel__json_string(f, f->root, key, &value));
  if (value == NULL) return ACCEL_OK;
  for (*io = 0; names[*io] != NULL; (*io)++)
    if (strcmp(names[*io], value) == 0) return ACCEL_OK;
  return accel__fail(ACCEL_ERROR_UNSUPPORTED,
                     "%s: field '%s': '%s' is not supported; known: %s%s%s%s%s", f->name, key,
                     value, names[0], names[1] ? ", " : "", names[1] ? names[1] : "",
                     names[1] && names[2] ? ", " : "", names[1] && names[2] ? names[2] : "");
}

static accel_status read_flag(const accel__json_file *f, const accel__scheduler_class *class,
                              const char *key, bool *out) {
  *out = false;
  return listed(class->fields, key) ? accel__json_bool(f, f->root, key, out) : ACCEL_OK;
}

static accel_status read_choices(const accel__json_file *f, const accel__scheduler_class *class,
                                 accel__scheduler_config *c) {
  static const char *const
      predictions[] = {"epsilon", "sample", "v_prediction", "flow_prediction", NULL},
      *const spacings[] = {"linspace", "leading", "trailing", NULL},
      *const finals[] = {"zero", "sigma_min", NULL}, *const ways[] = {"linear", "log_linear", NULL},
      *const types[] = {"discrete", "continuous", NULL};
  int prediction = c->prediction_type, spacing = c->timestep_spacing, final = c->final_sigma_min,
      way = c->log_linear, type = c->continuous;
  bool karras, exponential, beta, lu, flow;
  ACCEL_TRY(read_choice(f, class, "prediction_type", predictions, &prediction));
  ACCEL_TRY(read_choice(f, class, "timestep_spacing", spacings, &spacing));
  ACCEL_TRY(read_choice(f, class, "final_sigmas_type", finals, &final));
  ACCEL_TRY(read_choice(f, class, "interpolation_type", ways, &way));
  ACCEL_TRY(read_choice(f, class, "timestep_type", types, &type));
  ACCEL_TRY(read_flag(f, class, "use_karras_sigmas", &karras));
  ACCEL_TRY(read_flag(f, class, "use_exponential_sigmas", &exponential));
  ACCEL_TRY(read_flag(f, class, "use_beta_sigmas", &beta));
  ACCEL_TRY(read_flag(f, class, "use_lu_lambdas", &lu));
  ACCEL_TRY(read_flag(f, class, "use_flow_sigmas", &flow));
  if (karras + exponential + beta > 1)
    return accel__fail(ACCEL_ERROR_FORMAT,
                       "%s: only one of use_karras_sigmas, use_exponential_sigmas, "
                       "use_beta_sigmas can be true",
                       f->name);
  if (prediction == ACCEL__PREDICTS_FLOW && !listed(class->fields, "use_flow_sigmas"))
    return accel__fail(ACCEL_ERROR_UNSUPPORTED,
                       "%s: field 'prediction_type': 'flow_prediction' is not supported by %s",
                       f->name, class->name);
  c->prediction_type = (accel__prediction)prediction;
  c->timestep_spacing = (accel__spacing)spacing;
  c->final_sigma_min = final == 1;
  c->log_linear = way == 1;
  c->continuous = type == 1;
  c->flow_sigmas = flow;
  c->sigmas = karras        ? ACCEL__SIGMAS_KARRAS
              : lu          ? ACCEL__SIGMAS_LU
              : exponential ? ACCEL__SIGMAS_EXPONENTIAL
              : beta        ? ACCEL__SIGMAS_BETA
              : flow        ? ACCEL__SIGMAS_FLOW
                            : ACCEL__SIGMAS_TRAINED;
  if (listed(class->fields, "disable_corrector"))
    ACCEL_TRY(accel__json_array(f, f->root, "disable_corrector", &c->disable_corrector));
  if (listed(class->fields, "solver_p")) c->solver_p = accel__json_get(f->root, "solver_p");
  return listed(class->fields, "trained_betas")
             ? accel__json_array(f, f->root, "trained_betas", &c->trained_betas)
             : ACCEL_OK;
}

static accel_status read_config(const accel__json_file *f, accel__scheduler *s) {
  ACCEL_JSON_EACH(item, f->root) {
    if (item->string != NULL && !known(item->string))
      return accel__fail(ACCEL_ERROR_UNSUPPORTED, "%s: field '%s' is not known", f->name,
                         item->string);
  }
  accel__scheduler_config *c = &s->config;
  *c = s->class->usual;
  c->sigma_min = c->sigma_max = c->shift_terminal = NAN;
  c->base_shift = 0.5;
  c->base_image_seq_len = 256;
  c->max_image_seq_len = 4096;
  if (!s->class->flow) c->max_shift = NAN;
  for (size_t i = 0; i < sizeof fields / sizeof *fields; i++)
    if (listed(s->class->fields, fields[i].key) || listed(fields_of_all, fields[i].key))
      ACCEL_TRY(read_field(f, &fields[i], c));
  if (c->base_image_seq_len == c->max_image_seq_len)
    return accel__fail(ACCEL_ERROR_FORMAT,
                       "%s: fields 'base_image_seq_len' and 'max_image_seq_len' are the same",
                       f->name);
  return read_choices(f, s->class, &s->config);
}

/* ---- life ---- */

accel_status accel__scheduler_new(const accel__json_file *config, const char *name,
                                  accel__scheduler **out) {
  const accel__scheduler_class *class = NULL;
  *out = NULL;
  if (name == NULL) ACCEL_TRY(accel__json_string(config, config->root, "_class_name", &name));
  if (name == NULL)
    return accel__fail(ACCEL_ERROR_FORMAT, "%s: field '_class_name' is missing", config->name);
  ACCEL_TRY(find_class(config, name, &class));
  accel__scheduler *s = calloc(1, sizeof *s);
  if (s == NULL) return accel__no_memory(sizeof *s);
  s->class = class;
  s->mu = NAN;
  accel_status status = read_config(config, s);
  if (status == ACCEL_OK) status = accel__scheduler_alphas(s, config);
  if (status != ACCEL_OK)
    accel__scheduler_free(&s);
  else
    *out = s;
  return status;
}

void accel__scheduler_free(accel__scheduler **s) {
  if (s == NULL || *s == NULL) return;
  for (size_t i = 0; i < sizeof(*s)->history / sizeof *(*s)->history; i++) free((*s)->history[i]);
  free((*s)->drawn);
  free((*s)->alphas_cumprod);
  free((*s)->timestep);
  free((*s)->sigma);
  free(*s);
  *s = NULL;
}

accel_status accel__scheduler_start(accel__scheduler *s, uint32_t steps, uint32_t images,
                                    uint64_t each) {
  if (steps < 1 || steps > MAX_STEPS || steps > s->config.num_train_timesteps)
    return accel__fail(
        ACCEL_ERROR_ARGUMENT, "%u steps: from 1 to %lld are possible", steps,
        (long long)(s->config.num_train_timesteps < MAX_STEPS ? s->config.num_train_timesteps
                                                              : MAX_STEPS));
  s->asked = steps;
  s->images = images;
  s->each = each;
  s->kept = s->counter = 0;
  const uint64_t bytes = images * each * sizeof(float);
  for (uint32_t i = 0; i <= s->class->history; i++) {
    float **to = i < s->class->history ? &s->history[i] : &s->drawn;
    float *block = realloc(*to, bytes);
    if (block == NULL) return accel__no_memory(bytes);
    *to = block;
  }
  return s->class->start(s, steps);
}

float accel__scheduler_init_sigma(const accel__scheduler *s) {
  return s->class->init_sigma != NULL ? s->class->init_sigma(s) : 1.0f;
}

void accel__scheduler_scale(const accel__scheduler *s, uint32_t i, const float *sample,
                            float *out) {
  const uint64_t n = accel__scheduler_elements(s);
  const float by = s->class->divisor != NULL ? s->class->divisor(s, i) : 1.0f;
  for (uint64_t k = 0; k < n; k++) out[k] = sample[k] / by;
}

accel_status accel__scheduler_step(accel__scheduler *s, uint32_t i, const float *output,
                                   float *sample, const accel__noise *noise) {
  return s->class->step(s, i, output, sample, noise);
}

void accel__scheduler_add_noise(const accel__scheduler *s, uint32_t i, const float *original,
                                const float *noise, float *sample) {
  s->class->add_noise(s, i, original, noise, sample);
}

void accel__noise_draw(const accel__noise *noise, float *out, uint32_t images, uint64_t each) {
  if (noise->n == 1) {
    accel__randn(&noise->generator[0], out, images * each);
    return;
  }
  for (uint32_t i = 0; i < images; i++) accel__randn(&noise->generator[i], out + i * each, each);
}

/* ---- what classes share ---- */

double accel__scheduler_mu(const accel__scheduler *s, int64_t rows, double max_shift) {
  const accel__scheduler_config *c = &s->config;
  if (!isnan(c->max_shift)) max_shift = c->max_shift;
  const double slope =
      (max_shift - c->base_shift) / (double)(c->max_image_seq_len - c->base_image_seq_len);
  return (double)rows * slope + (c->base_shift - slope * (double)c->base_image_seq_len);
}

accel_status accel__scheduler_need_mu(const accel__scheduler *s) {
  if (!s->config.use_dynamic_shifting || !isnan(s->mu)) return ACCEL_OK;
  return accel__fail(ACCEL_ERROR_UNSUPPORTED,
                     "scheduler_config.json: field 'use_dynamic_shifting' of %s: this pipeline "
                     "does not say how far to shift",
                     s->class->name);
}

accel_status accel__scheduler_shifts(accel__scheduler *s) {
  static const char *const known[] = {"exponential", NULL};
  if (!s->config.use_dynamic_shifting) s->mu = NAN;
  return s->config.use_dynamic_shifting
             ? accel__scheduler_known("time_shift_type", s->config.time_shift_type, known)
             : ACCEL_OK;
}

accel_status accel__scheduler_known(const char *key, const char *value, const char *const *known) {
  char list[200] = "";
  if (listed(known, value)) return ACCEL_OK;
  for (size_t n = 0; *known != NULL; known++)
    n += (size_t)snprintf(list + n, sizeof list - n, "%s%s", n > 0 ? ", " : "", *known);
  return accel__fail(ACCEL_ERROR_UNSUPPORTED,
                     "scheduler_config.json: field '%s': '%s' is not supported; known: %s", key,
                     value, list);
}

accel__level accel__scheduler_level(const accel__scheduler *s, uint32_t i) {
  const float sigma = s->sigma[i];
  const bool flow = s->config.flow_sigmas;
  const float alpha = flow ? 1 - sigma : 1 / sqrtf(sigma * sigma + 1),
              noise = flow ? sigma : sigma * alpha;
  return (accel__level){alpha, noise, logf(alpha) - logf(noise)};
}

accel_status accel__scheduler_convert(const accel__scheduler *s, uint32_t i, const float *output,
                                      const float *sample, float *x0) {
  const uint64_t n = accel__scheduler_elements(s);
  const accel__level at = accel__scheduler_level(s, i);
  const float sigma = s->config.prediction_type == ACCEL__PREDICTS_FLOW ? s->sigma[i] : at.sigma;
  for (uint64_t k = 0; k < n; k++)
    x0[k] = accel__scheduler_x0(s, output[k], sample[k], at.alpha, sigma);
  return s->config.thresholding ? accel__scheduler_clip(s, x0) : ACCEL_OK;
}

float *accel__scheduler_shift_history(accel__scheduler *s, uint32_t n) {
  float *oldest = s->history[n - 1];
  for (uint32_t k = n - 1; k > 0; k--) s->history[k] = s->history[k - 1];
  return s->history[0] = oldest;
}

float accel__scheduler_x0(const accel__scheduler *s, float output, float sample, float alpha,
                          float sigma) {
  switch (s->config.prediction_type) {
    case ACCEL__PREDICTS_NOISE:
      return (sample - sigma * output) / alpha;
    case ACCEL__PREDICTS_VELOCITY:
      return alpha * sample - sigma * output;
    case ACCEL__PREDICTS_FLOW:
      return sample - sigma * output;
    default:
      return output;
  }
}

static int by_value(const void *a, const void *b) {
  const float x = *(const float *)a, y = *(const float *)b;
  return x < y ? -1 : x > y;
}

/* Imagen's dynamic thresholding of one picture: torch.quantile of the magnitudes, interpolated. */
static void threshold(const accel__scheduler *s, float *x0, float *sorted) {
  for (uint64_t k = 0; k < s->each; k++) sorted[k] = fabsf(x0[k]);
  qsort(sorted, s->each, sizeof *sorted, by_value);
  const double at = s->config.dynamic_thresholding_ratio * (double)(s->each - 1);
  const uint64_t low = (uint64_t)at, high = low + 1 < s->each ? low + 1 : low;
  float limit = sorted[low] + (sorted[high] - sorted[low]) * (float)(at - (double)low);
  limit = fminf(fmaxf(limit, 1.0f), (float)s->config.sample_max_value);
  for (uint64_t k = 0; k < s->each; k++) x0[k] = fminf(fmaxf(x0[k], -limit), limit) / limit;
}

accel_status accel__scheduler_clip(const accel__scheduler *s, float *x0) {
  const uint64_t n = accel__scheduler_elements(s);
  const float range = (float)s->config.clip_sample_range;
  if (s->config.thresholding) {
    float *sorted = malloc(s->each * sizeof *sorted);
    if (sorted == NULL) return accel__no_memory(s->each * sizeof *sorted);
    for (uint32_t i = 0; i < s->images; i++) threshold(s, x0 + i * s->each, sorted);
    free(sorted);
  } else if (s->config.clip_sample) {
    for (uint64_t k = 0; k < n; k++) x0[k] = fminf(fmaxf(x0[k], -range), range);
  }
  return ACCEL_OK;
}

void accel__scheduler_add_by_alpha(const accel__scheduler *s, uint32_t i, const float *original,
                                   const float *noise, float *sample) {
  const uint64_t n = accel__scheduler_elements(s);
  const float a = accel__scheduler_alpha(s, (int64_t)s->timestep[i]), signal = sqrtf(a),
              rest = sqrtf(1 - a);
  for (uint64_t k = 0; k < n; k++) sample[k] = signal * original[k] + rest * noise[k];
}

void accel__scheduler_add_by_sigma(const accel__scheduler *s, uint32_t i, const float *original,
                                   const float *noise, float *sample) {
  const uint64_t n = accel__scheduler_elements(s);
  for (uint64_t k = 0; k < n; k++) sample[k] = original[k] + noise[k] * s->sigma[i];
}

void accel__scheduler_add_by_level(const accel__scheduler *s, uint32_t i, const float *original,
                                   const float *noise, float *sample) {
  const uint64_t n = accel__scheduler_elements(s);
  const accel__level at = accel__scheduler_level(s, i);
  for (uint64_t k = 0; k < n; k++) sample[k] = at.alpha * original[k] + at.sigma * noise[k];
}
