/* precision_tests.c - does a model work here at fp32 and bf16?  What is not listed or not there is
 * said, not tried.
 *
 *   precision_tests MODEL
 */
#include <accel/accel.h>
#include <stdio.h>

int main(int argc, char **argv) {
  if (argc != 2) {
    fprintf(stderr, "usage: %s MODEL\n", argv[0]);
    return 2;
  }
  const char *const hardware[] = {"cpu", "amd"}, *const precisions[] = {"fp32", "bf16"};
  accel *ctx = NULL;
  accel_test_report *report = NULL;
  accel_status status = accel_create(NULL, &ctx);
  if (status == ACCEL_OK)
    status = accel_run_precision_tests(ctx, argv[1], hardware, 2, precisions, 2, &report);
  if (status != ACCEL_OK) {
    fprintf(stderr, "%s\n%s\n", accel_last_error(), accel_last_remedy());
  } else {
    for (uint32_t i = 0; i < report->n; ++i) printf("%-16s %s\n", report->key[i], report->value[i]);
    for (uint32_t i = 0; i < report->n_records; ++i) {
      const accel_test_record *r = &report->record[i];
      printf("%s: largest error %.2e, cosine %.6f, %.2f ms, weights %s\n", r->platform, r->max_abs,
             r->cosine, r->ms, r->weights);
    }
  }
  accel_test_report_free(&report);
  accel_destroy(&ctx);
  return accel_status_exit_code(status);
}
