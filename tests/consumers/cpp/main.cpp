// Asks the registry and the detection, from C++.
#include <accel/accel.h>
#include <accel/plugin.h>

#include <cstdio>
#include <memory>

int main() {
  accel *raw = nullptr;
  if (accel_create(nullptr, &raw) != ACCEL_OK)
    return std::fprintf(stderr, "%s\n", accel_last_error()), 1;
  auto destroy = [](accel *ctx) { accel_destroy(&ctx); };
  std::unique_ptr<accel, decltype(destroy)> ctx(raw, destroy);
  int amd = 0, qualcomm = 1;
  if (accel_is_hardware_supported(ctx.get(), "bert-base-uncased", "ROCm", &amd) != ACCEL_OK)
    return std::fprintf(stderr, "%s\n", accel_last_error()), 1;
  if (accel_is_hardware_supported(ctx.get(), "bert-base-uncased", "qualcomm", &qualcomm) !=
      ACCEL_OK)
    return 1;
  std::printf("libaccel %s: amd %d, qualcomm %d\n", accel_version(), amd, qualcomm);
  return amd == 1 && qualcomm == 0 ? 0 : 1;
}
