// detect.cpp - what can this machine run on, and why not on the rest?
#include <cstdio>

#include "accel.hpp"

int main() try {
  const auto ctx = accelpp::create();
  accel_devices *list = nullptr;
  accelpp::check(accel_detect(ctx.get(), 0, &list));
  const accelpp::Devices devices(list);
  for (uint32_t i = 0; i < devices->n; ++i) {
    const accel_device_info &d = devices->item[i];
    if (d.usable)
      std::printf("%-12s %s, %.1f GiB\n", d.name, d.description,
                  static_cast<double>(d.memory_total) / (1 << 30));
    else
      std::printf("%-12s not usable: %s\n%-12s -> %s\n", d.name, d.reason, "", d.remedy);
  }
  return 0;
} catch (const accelpp::Error &error) {
  std::fprintf(stderr, "%s\n", error.what());
  return error.exit_code();
}
