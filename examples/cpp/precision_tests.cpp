// precision_tests.cpp - does a model work here at fp32 and bf16?
//   precision_tests MODEL
#include <cstdio>

#include "accel.hpp"

int main(int argc, char **argv) try {
  if (argc != 2) {
    std::fprintf(stderr, "usage: %s MODEL\n", argv[0]);
    return 2;
  }
  const char *const hardware[] = {"cpu", "amd"}, *const precisions[] = {"fp32", "bf16"};
  const auto ctx = accelpp::create();
  accel_test_report *made = nullptr;
  accelpp::check(accel_run_precision_tests(ctx.get(), argv[1], hardware, 2, precisions, 2, &made));
  const accelpp::TestReport report(made);
  for (uint32_t i = 0; i < report->n; ++i)
    std::printf("%-16s %s\n", report->key[i], report->value[i]);
  for (uint32_t i = 0; i < report->n_records; ++i) {
    const accel_test_record &r = report->record[i];
    std::printf("%s: largest error %.2e, cosine %.6f, %.2f ms, weights %s\n", r.platform, r.max_abs,
                r.cosine, r.ms, r.weights);
  }
  return 0;
} catch (const accelpp::Error &error) {
  std::fprintf(stderr, "%s\n", error.what());
  return error.exit_code();
}
