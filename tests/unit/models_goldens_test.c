/* models_goldens_test.c - every line of fixtures/models/goldens*.list through the whole library, on
 * the reference plugin and on the CPU plugin: directory, golden file and class give the numbers
 * that transformers gives, within accel verify's bounds at fp32.  On an emulated processor and
 * under a sanitizer, many times as slow, the first line of each directory. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "accel/accel.h"

#define MODELS ACCEL_FIXTURES "/models"

/* One line "directory golden class"; prints what is wrong. */
static bool verify_line(accel *ctx, const char *device, const char *directory, const char *golden,
                        const char *class_name) {
  char model[512], file[1024];
  snprintf(model, sizeof model, "%s/%s", MODELS, directory);
  snprintf(file, sizeof file, "%s/%s", model, golden);
  accel_init_params how = accel_init_params_default();
  how.device = device;
  how.architecture = class_name;
  accel_verify_report *report = NULL;
  accel_status status = accel_verify(ctx, model, &how, file, &report);
  bool passed = status == ACCEL_OK && report != NULL && report->passed != 0;
  if (report == NULL) print_error("%s: %s %s: %s\n", device, directory, golden, accel_last_error());
  for (uint32_t i = 0; report != NULL && i < report->n; i++) {
    const accel_verify_output *o = &report->output[i];
    if (o->passed) continue;
    print_error("%s: %s %s %s: max abs %.3e (bound %.3e) cosine %.7f %s\n", device, directory,
                golden, o->name, o->max_abs, o->bound, o->cosine, o->note ? o->note : "");
  }
  accel_verify_report_free(&report);
  return passed;
}

static void verify_lists(const char *device) {
  static const char *const lists[] = {
      "goldens.list",          "goldens_vision.list",  "goldens_audio.list",
      "goldens_generate.list", "goldens_speech.list",  "goldens_words.list",
      "goldens_seq2seq.list",  "goldens_seeing.list",  "goldens_diffusion.list",
      "goldens_forecast.list", "goldens_speaking.list"};
  accel_params params = accel_params_default();
  params.plugin_path = ACCEL_TEST_BUILD "/lib/accel/0";
  params.threads = 1;
  accel *ctx = NULL;
  assert_int_equal(accel_create(&params, &ctx), ACCEL_OK);
  char directory[128], golden[160], class_name[96], before[128] = "";
  uint32_t lines = 0, failed = 0;
  for (size_t i = 0; i < sizeof lists / sizeof *lists; i++) {
    char path[512];
    snprintf(path, sizeof path, "%s/%s", MODELS, lists[i]);
    FILE *list = fopen(path, "r");
    if (list == NULL) fail_msg("no %s", path);
    while (fscanf(list, "%127s %159s %95s", directory, golden, class_name) == 3) {
      const bool again = strcmp(directory, before) == 0;
      snprintf(before, sizeof before, "%s", directory);
      if ((ACCEL_TEST_EMULATED || ACCEL_SANITIZER) && again) continue;
      lines++;
      failed += !verify_line(ctx, device, directory, golden, class_name);
    }
    fclose(list);
  }
  accel_destroy(&ctx);
  print_message("%s: %u of %u goldens pass\n", device, lines - failed, lines);
  assert_true(lines > 100);
  assert_int_equal(failed, 0);
}

static void test_reference(void **state) {
  (void)state;
  verify_lists("reference");
}

static void test_cpu(void **state) {
  (void)state;
  if (access(ACCEL_TEST_BUILD "/lib/accel/0/libaccel_cpu.so", R_OK) != 0) skip(); /* not built */
  verify_lists("cpu");
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_reference), cmocka_unit_test(test_cpu)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
