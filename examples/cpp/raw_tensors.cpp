// raw_tensors.cpp - named tensors in, named tensors out, as transformers' forward has them.
//   raw_tensors MODEL          a BERT-like model; two sequences, the second shorter and padded
#include <cstdio>

#include "accel.hpp"

namespace {

// A [rows, columns] tensor over the caller's memory.
accel_tensor matrix(const char *name, std::vector<int64_t> &values, int64_t rows) {
  accel_tensor t{};
  t.name = name;
  t.dtype = ACCEL_I64;
  t.rank = 2;
  t.dim[0] = rows;
  t.dim[1] = static_cast<int64_t>(values.size()) / rows;
  t.data = values.data();
  return t;
}

}  // namespace

int main(int argc, char **argv) try {
  if (argc != 2) {
    std::fprintf(stderr, "usage: %s MODEL\n", argv[0]);
    return 2;
  }
  std::vector<int64_t> ids = {101, 7592, 2088, 2003, 2307, 102, 101, 7592, 102, 0, 0, 0};
  std::vector<int64_t> mask = {1, 1, 1, 1, 1, 1, 1, 1, 1, 0, 0, 0};
  std::vector<accel_tensor> items = {matrix("input_ids", ids, 2),
                                     matrix("attention_mask", mask, 2)};
  const accel_tensors inputs = {static_cast<uint32_t>(items.size()), items.data()};

  const auto ctx = accelpp::create();
  const auto model = accelpp::init(ctx, argv[1]);
  accel_tensors *found = nullptr;
  accelpp::check(accel_run(model.get(), &inputs, &found));
  const accelpp::Tensors outputs(found);
  for (uint32_t i = 0; i < outputs->n; ++i) {
    const accel_tensor &t = outputs->item[i];
    std::printf("%s [", t.name);
    for (uint32_t d = 0; d < t.rank; ++d)
      std::printf("%s%lld", d ? ", " : "", static_cast<long long>(t.dim[d]));
    std::printf("]");
    if (t.dtype == ACCEL_F32)
      std::printf(" begins with %.6f", static_cast<double>(*static_cast<const float *>(t.data)));
    std::printf("\n");
  }
  return 0;
} catch (const accelpp::Error &error) {
  std::fprintf(stderr, "%s\n", error.what());
  return error.exit_code();
}
