/* models_goldens_test.c - every line of fixtures/models/goldens.list through the whole library on the reference plugin: directory, golden file
 * and class give the numbers that transformers gives, within accel verify's bounds at fp32. */
#include <setjmp.h>
#include <stdbool.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "accel/accel.h"

#define MODELS ACCEL_FIXTURES "/models"

/* One line "directory golden class"; prints what is wrong. */
static bool verify_line(accel *ctx, const char *directory, const char *golden, const char *class_name) {
  char model[512], file[1024];
  snprintf(model, sizeof model, "%s/%s", MODELS, directory);
  snprintf(file, sizeof file, "%s/%s", model, golden);
  accel_init_params how = accel_init_params_default();
  how.device = "reference";
  how.architecture = class_name;
  accel_verify_report *report = NULL;
  accel_status status = accel_verify(ctx, model, &how, file, &report);
  bool passed = status == ACCEL_OK && report != NULL && report->passed != 0;
  if (report == NULL) print_error("%s %s: %s\n", directory, golden, accel_last_error());
  for (uint32_t i = 0; report != NULL && i < report->n; i++) {
    const accel_verify_output *o = &report->output[i];
    if (getenv("SHOW_ALL") || !o->passed) print_error("%s %s %s: max abs %.3e (bound %.3e) cosine %.7f %s\n", directory, golden, o->name, o->max_abs, o->bound, o->cosine, o->note ? o->note : "");
  }
  accel_verify_report_free(&report);
  return passed;
}

static void test_goldens(void **state) {
  (void)state;
  FILE *list = fopen(MODELS "/goldens.list", "r");
  assert_non_null(list);
  accel_params params = accel_params_default();
  params.plugin_path = ACCEL_TEST_BUILD "/lib/accel/0";
  params.threads = 1;
  accel *ctx = NULL;
  assert_int_equal(accel_create(&params, &ctx), ACCEL_OK);
  char directory[128], golden[160], class_name[96];
  uint32_t lines = 0, failed = 0;
  while (fscanf(list, "%127s %159s %95s", directory, golden, class_name) == 3) {
    lines++;
    failed += !verify_line(ctx, directory, golden, class_name);
  }
  fclose(list);
  accel_destroy(&ctx);
  print_message("%u of %u goldens pass\n", lines - failed, lines);
  assert_true(lines > 100);
  assert_int_equal(failed, 0);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_goldens)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
