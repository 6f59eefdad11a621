/* cpu_device.c - the one device, "cpu": this machine's processors, and its memory. */
#include <stdio.h>
#include <string.h>
#include <unistd.h>
#if defined(__x86_64__)
#include <cpuid.h>
#endif

#include "cpu_attention.h"
#include "cpu_blas.h"

/* The processor's own name, without the blanks around it. */
static void brand(char *out, size_t size) {
  snprintf(out, size, "CPU");
#if defined(__x86_64__)
  uint32_t text[13] = {0};
  for (uint32_t i = 0; i < 3; i++)
    if (!__get_cpuid(0x80000002u + i, &text[4 * i], &text[4 * i + 1], &text[4 * i + 2],
                     &text[4 * i + 3]))
      return;
  const char *from = (const char *)text;
  while (*from == ' ') from++;
  size_t n = strlen(from);
  while (n && from[n - 1] == ' ') n--;
  if (n) snprintf(out, size, "%.*s", (int)n, from);
#endif
}

/* What the chosen instruction sets multiply natively. */
static uint32_t abilities(cpu_isa isa) {
  uint32_t flags = 0;
  cpu_isa list[CPU_ISA_COUNT];
  for (int i = 0, n = cpu_isa_list(list); i < n; i++) {
    if (list[i] > isa) continue;
    if (list[i] == CPU_ISA_AVX512BF16) flags |= ACCEL_PLUGIN_DEVICE_BF16;
    if (list[i] == CPU_ISA_AVXVNNI || list[i] == CPU_ISA_AVX512VNNI || list[i] == CPU_ISA_NEONDOT)
      flags |= ACCEL_PLUGIN_DEVICE_I8DOT;
  }
  return flags;
}

int32_t cpu_devices(const accel_plugin_host *host, accel_plugin_device *out, uint32_t capacity,
                    uint32_t *n, accel_plugin_error *error) {
  (void)host;
  *n = 1;
  if (capacity < 1) return ACCEL_PLUGIN_OK;
  if (out->size < sizeof *out)
    return kit_fail(error, ACCEL_PLUGIN_E_ABI, -1, "devices are shorter than this plugin's");
  long units = sysconf(_SC_NPROCESSORS_ONLN);
  accel_plugin_device d = {.size = out->size,
                           .type = ACCEL_PLUGIN_DEVICE_CPU,
                           .flags = ACCEL_PLUGIN_DEVICE_UNIFIED_MEMORY,
                           .wave = 1,
                           .units = units > 0 ? (uint32_t)units : 1};
  cpu_isa isa = cpu_isa_choose(d.unusable, sizeof d.unusable);
  d.flags |= abilities(isa);
  if (!cpu_blas_wanted(isa)) d.few_rows = CPU_ATTENTION_LONE_ROWS;
  snprintf(d.id, sizeof d.id, "cpu");
  brand(d.name, sizeof d.name);
  snprintf(d.arch, sizeof d.arch, "%s", cpu_isa_name(isa));
  snprintf(d.driver, sizeof d.driver, "libaccel %s", ACCEL_VERSION);
  *out = d;
  return ACCEL_PLUGIN_OK;
}

int32_t cpu_memory(uint32_t device, accel_plugin_memory *out, accel_plugin_error *error) {
  (void)device;
  accel_plugin_memory m = {.size = out->size};
  const int32_t rc = kit_system_memory(&m, error);
  if (rc) return rc;
  memcpy(out, &m, out->size < sizeof m ? out->size : sizeof m);
  return ACCEL_PLUGIN_OK;
}
