/* diffusion_scheduler_test.c - normal numbers and schedulers against torch and diffusers
 * (tests/goldens/make_diffusion_goldens.py). */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "diffusion/scheduler.h"
#include "unit/tensors.h"

#define DIFFUSION ACCEL_FIXTURES "/diffusion/"

/* ---- torch.randn ---- */

static void numbers_are_torchs(void **state) {
  (void)state;
  accel_tensors *t = read_tensors(DIFFUSION "randn.safetensors");
  assert_true(t->n >= 20);
  for (uint32_t i = 0; i < t->n; i++) {
    unsigned long long seed;
    unsigned n;
    float got[1100];
    const float *want = t->item[i].data;
    assert_int_equal(sscanf(t->item[i].name, "%llu.%u", &seed, &n), 2);
    accel__generator g;
    accel__generator_seed(&g, seed);
    accel__randn(&g, got, n);
    accel__randn(&g, got + n, 3); /* draws go on where the one before ended */
    accel__randn(&g, got + n + 3, 16);
    for (unsigned k = 0; k < n + 19; k++)
      if (!(fabsf(got[k] - want[k]) <= 1e-6f))
        fail_msg("%s: number %u is %.9g, not %.9g", t->item[i].name, k, (double)got[k],
                 (double)want[k]);
  }
  accel_tensors_free(&t);
}

/* ---- schedulers ---- */

/* The file's answer of a model: a function of what it is given and of the time. */
static void answer(const accel__scheduler *s, uint32_t step, const float *sample, float *taken,
                   float *output) {
  accel__scheduler_scale(s, step, sample, taken);
  for (uint64_t k = 0; k < accel__scheduler_elements(s); k++)
    output[k] = (float)(sin((double)(taken[k] * 1.3f) + 0.001 * s->timestep[step]) * 0.9);
}

static double largest(const float *x, int64_t n) {
  double most = 1e-3;
  for (int64_t k = 0; k < n; k++) most = fmax(most, fabs((double)x[k]));
  return most;
}

/* bound: relative to `most`. */
static void assert_close(const char *name, const char *what, const float *got, const float *want,
                         int64_t n, double bound, double most) {
  for (int64_t k = 0; k < n; k++)
    if (!(fabs((double)got[k] - (double)want[k]) <= bound * most))
      fail_msg("%s: %s: element %d is %.9g, not %.9g", name, what, (int)k, (double)got[k],
               (double)want[k]);
}

static void assert_tables(const char *name, const accel__scheduler *s, const accel_tensors *t,
                          unsigned steps) {
  const accel_tensor *times = find(t, "%s.%u.timesteps", name, steps),
                     *sigmas = find(t, "%s.%u.sigmas", name, steps),
                     *sigma = find(t, "%s.%u.init_sigma", name, steps);
  if (s->n_steps != times->dim[0])
    fail_msg("%s: %u timesteps of %u, not %d", name, s->n_steps, steps, (int)times->dim[0]);
  for (uint32_t i = 0; i < s->n_steps; i++) {
    const double want = ((const double *)times->data)[i];
    /* those of KDPM2 are found by sigmas that are differences of squares in fp32 */
    const double bound = s->class->order == 2 ? 1e-5 : 1e-6;
    if (!(fabs(s->timestep[i] - want) <= bound * fmax(fabs(want), 20)))
      fail_msg("%s: timestep %u of %u is %.9g, not %.9g", name, i, steps, s->timestep[i], want);
  }
  for (uint32_t i = 0; sigmas && s->class->by_sigma && i <= s->n_steps; i++) {
    const float want = ((const float *)sigmas->data)[i];
    /* torch's square root is off by one in the last place for a fifth of the arguments (MKL) */
    const bool plain =
        s->config.sigmas == ACCEL__SIGMAS_TRAINED && !s->config.rescale_betas_zero_snr;
    const double bound = plain ? 1.2e-7 : 3e-6;
    if (!(fabs((double)(s->sigma[i] - want)) <= bound * (double)fabsf(want)))
      fail_msg("%s: sigma %u of %u is %.9g, not %.9g", name, i, steps, (double)s->sigma[i],
               (double)want);
  }
  const float first = accel__scheduler_init_sigma(s);
  assert_close(name, "init_noise_sigma", &first, sigma->data, 1, 1e-6, largest(&first, 1));
}

static void assert_run(const char *name, accel__scheduler *s, const accel_tensors *t,
                       unsigned steps) {
  const accel_tensor *samples = find(t, "%s.%u.samples", name, steps);
  enum { ELEMENTS = 32 };
  float sample[ELEMENTS], taken[ELEMENTS], output[ELEMENTS], noise[ELEMENTS];
  accel__generator generator;
  const accel__noise drawn = {&generator, 1};
  assert_int_equal(accel__scheduler_start(s, steps, 2, ELEMENTS / 2), ACCEL_OK);
  assert_tables(name, s, t, steps);
  accel__generator_seed(&generator, 7);
  memcpy(sample, samples->data, sizeof sample);
  double most = 0;
  for (uint32_t i = 0; i < s->n_steps; i++) {
    const float *want = (const float *)samples->data + (i + 1) * ELEMENTS;
    char what[48];
    snprintf(what, sizeof what, "step %u of %u", i, s->n_steps);
    most = fmax(most, largest(sample, ELEMENTS)); /* steps take differences of what came before */
    answer(s, i, sample, taken, output);
    assert_int_equal(accel__scheduler_step(s, i, output, sample, &drawn), ACCEL_OK);
    assert_close(name, what, sample, want, ELEMENTS, 1e-5, fmax(most, largest(want, ELEMENTS)));
  }
  for (uint32_t k = 0; k < ELEMENTS; k++) noise[k] = (float)k / ELEMENTS;
  accel__scheduler_add_noise(s, s->n_steps / 2, find(t, "%s.%u.clean", name, steps)->data, noise,
                             sample);
  assert_close(name, "add_noise", sample, find(t, "%s.%u.noised", name, steps)->data, ELEMENTS,
               1e-6, largest(sample, ELEMENTS));
}

static accel__json_file config_of(const accel__json *entry) {
  return (accel__json_file){.root = (accel__json *)(uintptr_t)entry, .name = "scheduler"};
}

static void schedulers_are_diffusers(void **state) {
  (void)state;
  accel_tensors *t = read_tensors(DIFFUSION "schedulers.safetensors");
  accel__json_file all;
  unsigned runs = 0;
  assert_int_equal(accel__json_read(DIFFUSION "schedulers.json", 0, &all), ACCEL_OK);
  ACCEL_JSON_EACH(entry, all.root) {
    const accel__json_file config = config_of(entry);
    accel__scheduler *s;
    if (accel__scheduler_new(&config, NULL, &s) != ACCEL_OK)
      fail_msg("%s: %s", entry->string, accel_last_error());
    s->eta = strstr(entry->string, "_eta") ? 0.6 : 0;
    s->mu = strstr(entry->string, "_mu") ? 0.8 : NAN;
    s->even = strstr(entry->string, "_even") != NULL;
    const unsigned steps[] = {1, 4, 11, 20};
    for (size_t i = 0; i < sizeof steps / sizeof *steps; i++) {
      if (!find(t, "%s.%u.samples", entry->string, steps[i])) continue;
      assert_run(entry->string, s, t, steps[i]);
      runs++;
    }
    accel__scheduler_free(&s);
  }
  assert_true(runs >= 380);
  accel__json_free(&all);
  accel_tensors_free(&t);
}

static void refuse(const char *json, const char *name, accel_status status, const char *message) {
  accel__json_file config;
  accel__scheduler *s = NULL;
  assert_int_equal(accel__json_parse(json, strlen(json), "scheduler_config.json", &config),
                   ACCEL_OK);
  accel_status got = accel__scheduler_new(&config, name, &s);
  if (got == ACCEL_OK) got = accel__scheduler_start(s, 20, 1, 16);
  if (got != status || !strstr(accel_last_error(), message))
    fail_msg("%s: %d, %s", json, got, accel_last_error());
  accel__scheduler_free(&s);
  accel__json_free(&config);
}

static void what_is_not_known_is_refused(void **state) {
  (void)state;
  const accel_status no = ACCEL_ERROR_UNSUPPORTED, bad = ACCEL_ERROR_FORMAT;
  refuse("{}", NULL, bad, "_class_name");
  refuse("{\"_class_name\": \"FooScheduler\"}", NULL, no, "FooScheduler");
  refuse("{\"_class_name\": \"DDIMScheduler\"}", "foo", no, "foo");
  refuse("{\"_class_name\": \"DDIMScheduler\", \"colour\": 1}", NULL, no, "colour");
  refuse("{\"_class_name\": \"DDIMScheduler\", \"beta_schedule\": \"x\"}", NULL, no,
         "beta_schedule");
  refuse("{\"_class_name\": \"DDIMScheduler\", \"prediction_type\": \"flow\"}", NULL, no,
         "prediction_type");
  refuse("{\"_class_name\": \"DDIMScheduler\", \"trained_betas\": [0.1]}", NULL, bad,
         "trained_betas");
  refuse("{\"_class_name\": \"DDIMScheduler\", \"num_train_timesteps\": 0}", NULL, bad,
         "num_train_timesteps");
  refuse("{\"_class_name\": \"DDIMScheduler\", \"num_train_timesteps\": 10}", NULL,
         ACCEL_ERROR_ARGUMENT, "20 steps");
  refuse(
      "{\"_class_name\": \"EulerDiscreteScheduler\", \"use_beta_sigmas\": true, "
      "\"use_karras_sigmas\": true}",
      NULL, bad, "use_beta_sigmas");
  refuse("{\"_class_name\": \"EulerDiscreteScheduler\", \"prediction_type\": \"flow_prediction\"}",
         NULL, no, "flow_prediction");
  refuse(
      "{\"_class_name\": \"DPMSolverSinglestepScheduler\", \"algorithm_type\": "
      "\"sde-dpmsolver\"}",
      NULL, no, "algorithm_type");
  refuse("{\"_class_name\": \"UniPCMultistepScheduler\", \"solver_p\": {}}", NULL, no, "solver_p");
  refuse("{\"_class_name\": \"UniPCMultistepScheduler\", \"solver_type\": \"bh3\"}", NULL, no,
         "bh1, bh2");
  refuse("{\"_class_name\": \"UniPCMultistepScheduler\", \"shift_terminal\": 0.1}", NULL, bad,
         "use_flow_sigmas");
  refuse("{\"_class_name\": \"DEISMultistepScheduler\", \"algorithm_type\": \"sde-dpmsolver++\"}",
         NULL, no, "algorithm_type");
  refuse("{\"_class_name\": \"KDPM2DiscreteScheduler\", \"prediction_type\": \"sample\"}", NULL, no,
         "prediction_type");
  refuse("{\"_class_name\": \"FlowMatchEulerDiscreteScheduler\", \"use_dynamic_shifting\": true}",
         NULL, no, "use_dynamic_shifting");
  refuse("{\"_class_name\": \"FlowMatchEulerDiscreteScheduler\", \"time_shift_type\": \"x\"}", NULL,
         no, "time_shift_type");
  refuse("{\"_class_name\": \"FlowMatchEulerDiscreteScheduler\", \"base_image_seq_len\": 4096}",
         NULL, bad, "max_image_seq_len");
  refuse("{\"_class_name\": \"TCDScheduler\", \"original_inference_steps\": 10}", NULL,
         ACCEL_ERROR_ARGUMENT, "original_inference_steps");
  refuse("{\"_class_name\": \"DPMSolverMultistepScheduler\", \"algorithm_type\": \"y\"}", NULL, no,
         "algorithm_type");
  refuse("{\"_class_name\": \"DDPMScheduler\", \"variance_type\": \"learned\"}", NULL, no,
         "variance_type");
  refuse("{\"_class_name\": \"PNDMScheduler\", \"prediction_type\": \"sample\"}", NULL, no,
         "prediction_type");
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(numbers_are_torchs),
                                     cmocka_unit_test(schedulers_are_diffusers),
                                     cmocka_unit_test(what_is_not_known_is_refused)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
