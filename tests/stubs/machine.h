/* machine.h - building other people's machines for the tests of src/hardware: a fake /sys and /dev
 * below a temporary root, stub vendor libraries through LD_LIBRARY_PATH, a stub rocm-smi through
 * PATH, and reading the detection report. */
#ifndef ACCEL_TESTS_MACHINE_H
#define ACCEL_TESTS_MACHINE_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <cjson/cJSON.h>
#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "hardware/hardware.h"

#define STUBS ACCEL_TEST_BUILD "/tests/stubs"

typedef struct machine {
  char root[64];
} machine;

static inline void machine_write(const machine *m, const char *path, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
static inline void machine_write(const machine *m, const char *path, const char *format, ...) {
  char full[512];
  assert_true(snprintf(full, sizeof full, "%s/%s", m->root, path) < (int)sizeof full);
  for (char *slash = strchr(full + 1, '/'); slash; slash = strchr(slash + 1, '/')) {
    *slash = 0;
    mkdir(full, 0755);
    *slash = '/';
  }
  FILE *file = fopen(full, "w");
  assert_non_null(file);
  va_list args;
  va_start(args, format);
  vfprintf(file, format, args);
  va_end(args);
  fclose(file);
}

/* An AMD card as amdgpu shows it in /sys/class/drm; vram and gtt in MiB. */
static inline void machine_drm(const machine *m, int number, const char *address,
                               const char *product, unsigned vram, unsigned vram_used,
                               unsigned gtt) {
  char path[128];
#define DRM_FILE(name, ...)                                                    \
  snprintf(path, sizeof path, "sys/class/drm/card%d/device/%s", number, name); \
  machine_write(m, path, __VA_ARGS__)
  DRM_FILE("vendor", "0x1002\n");
  DRM_FILE("device", "0x73bf\n");
  DRM_FILE("uevent", "DRIVER=amdgpu\nPCI_CLASS=30000\nPCI_SLOT_NAME=%s\nMODALIAS=pci:v00001002\n",
           address);
  DRM_FILE("mem_info_vram_total", "%llu\n", (unsigned long long)vram << 20);
  DRM_FILE("mem_info_vram_used", "%llu\n", (unsigned long long)vram_used << 20);
  DRM_FILE("mem_info_gtt_total", "%llu\n", (unsigned long long)gtt << 20);
  DRM_FILE("mem_info_gtt_used", "%llu\n", 0ull);
  if (*product) {
    DRM_FILE("product_name", "%s\n", product);
  }
#undef DRM_FILE
  /* connectors lie beside the cards */
  snprintf(path, sizeof path, "sys/class/drm/card%d-HDMI-A-1/status", number);
  machine_write(m, path, "disconnected\n");
  snprintf(path, sizeof path, "sys/class/drm/renderD%d/device/vendor", 128 + number);
  machine_write(m, path, "0x1002\n");
  snprintf(path, sizeof path, "dev/dri/renderD%d", 128 + number);
  machine_write(m, path, "%s", "");
}

/* A KFD node: gfx as KFD writes it (100300 is gfx1030); node 0 is always the processor. */
static inline void machine_kfd(const machine *m, int node, unsigned gfx, unsigned bus,
                               unsigned cpu_cores, unsigned vram_mib, uint64_t unique) {
  char path[160];
  machine_write(m, "sys/class/kfd/kfd/topology/nodes/0/properties",
                "cpu_cores_count 8\nsimd_count 0\nvendor_id 0\n");
  machine_write(m, "sys/class/kfd/kfd/topology/nodes/0/name", "\n");
  machine_write(m, "sys/module/amdgpu/initstate", "live\n");
  machine_write(m, "dev/kfd", "%s", "");
  snprintf(path, sizeof path, "sys/class/kfd/kfd/topology/nodes/%d/properties", node);
  machine_write(m, path,
                "cpu_cores_count %u\nsimd_count 144\nmem_banks_count 1\nwave_front_size "
                "32\nsimd_per_cu 2\ngfx_target_version %u\n"
                "vendor_id 4098\ndevice_id 29631\nlocation_id %u\ndomain 0\ndrm_render_minor "
                "128\nunique_id %llu\n",
                cpu_cores, gfx, bus << 8, (unsigned long long)unique);
  snprintf(path, sizeof path, "sys/class/kfd/kfd/topology/nodes/%d/name", node);
  machine_write(m, path, "codename%d\n", node);
  snprintf(path, sizeof path, "sys/class/kfd/kfd/topology/nodes/%d/mem_banks/0/properties", node);
  machine_write(m, path, "heap_type 1\nsize_in_bytes %llu\nflags 0\nwidth 256\n",
                (unsigned long long)vram_mib << 20);
}

static inline int machine_remove_one(const char *path, const struct stat *info, int flag,
                                     struct FTW *walk) {
  (void)info, (void)flag, (void)walk;
  return remove(path);
}

/* No cards, no stub says anything, no vendor variable is set. */
static inline machine machine_new(void) {
  static const char *const unset[] = {"HIP_VISIBLE_DEVICES",
                                      "ROCR_VISIBLE_DEVICES",
                                      "CUDA_VISIBLE_DEVICES",
                                      "GPU_DEVICE_ORDINAL",
                                      "HSA_OVERRIDE_GFX_VERSION",
                                      "STUB_HIP",
                                      "STUB_HSA",
                                      "STUB_CUDA",
                                      "STUB_SMI",
                                      "STUB_ROCM_DEVICES",
                                      "STUB_CUDA_DEVICES",
                                      "STUB_OPENCL_DEVICES",
                                      "STUB_VULKAN_DEVICES",
                                      "STUB_NPU_DEVICES",
                                      "STUB_CPU_DEVICES",
                                      "ACCEL_PLUGIN_PATH",
                                      "ACCEL_PROBE",
                                      "ACCEL_DETECT_ROOT",
                                      "ACCEL_ALLOW_SOFTWARE"};
  machine m = {"/tmp/accel-machine-XXXXXX"};
  assert_non_null(mkdtemp(m.root));
  for (size_t i = 0; i < sizeof unset / sizeof *unset; i++) unsetenv(unset[i]);
  setenv("LD_LIBRARY_PATH", STUBS "/vendor", 1);
  setenv("PATH", STUBS "/bin:/usr/bin:/bin", 1);
  return m;
}
static inline void machine_free(machine *m) {
  nftw(m->root, machine_remove_one, 16, FTW_DEPTH | FTW_PHYS);
}

static inline accel__hardware *machine_hardware(const machine *m, const char *plugin_path) {
  accel__hardware *h = NULL;
  accel__hardware_params params = {.plugin_path = plugin_path,
                                   .probe = ACCEL_TEST_BUILD "/libexec/accel/accel-probe",
                                   .root = m->root,
                                   .probe_timeout_ms = 20000};
  assert_int_equal(accel__hardware_create(&params, &h), ACCEL_OK);
  return h;
}

/* A link `to` in the root's folder to the stub `from`. */
static inline void machine_link_plugin(const machine *m, const char *folder, const char *from,
                                       const char *to) {
  char target[512], path[512];
  snprintf(path, sizeof path, "%s/.keep", folder);
  machine_write(m, path, "%s", "");
  snprintf(target, sizeof target, "%s/%s", STUBS, from);
  snprintf(path, sizeof path, "%s/%s/%s", m->root, folder, to);
  assert_int_equal(symlink(target, path), 0);
}

/* The parsed report; free with cJSON_Delete. */
static inline cJSON *machine_report(accel__hardware *h) {
  char *text = NULL;
  accel_status status = accel__detect_json(h, false, &text);
  if (status != ACCEL_OK) print_error("%s\n", accel__message());
  assert_int_equal(status, ACCEL_OK);
  cJSON *json = cJSON_Parse(text);
  assert_non_null(json);
  free(text);
  return json;
}
static inline const cJSON *report_find(const cJSON *list, const char *key, const char *value) {
  for (const cJSON *item = list ? list->child : NULL; item; item = item->next) {
    const cJSON *field = cJSON_GetObjectItemCaseSensitive(item, key);
    if (cJSON_IsString(field) && !strcmp(field->valuestring, value)) return item;
  }
  return NULL;
}
static inline const cJSON *report_device(const cJSON *report, const char *name) {
  return report_find(cJSON_GetObjectItemCaseSensitive(report, "devices"), "name", name);
}
static inline const char *report_text(const cJSON *object, const char *key) {
  const cJSON *item = cJSON_GetObjectItemCaseSensitive(object, key);
  return cJSON_IsString(item) ? item->valuestring : "";
}
static inline double report_number(const cJSON *object, const char *key) {
  const cJSON *item = cJSON_GetObjectItemCaseSensitive(object, key);
  return cJSON_IsNumber(item) ? item->valuedouble : -1;
}
static inline int report_true(const cJSON *object, const char *key) {
  return cJSON_IsTrue(cJSON_GetObjectItemCaseSensitive(object, key));
}

static inline void assert_has(const char *text, const char *part) {
  if (strstr(text, part)) return;
  fail_msg("'%s' does not contain '%s'", text, part);
}

#endif
