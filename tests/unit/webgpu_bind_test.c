/* webgpu_bind_test.c - WGSL's way of binding, without a device: ranges that overlap become one, so do
 * neighbours where there are too many, and the kernel's text follows. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "webgpu/wgp.h"

enum { ALIGN = 256, BINDING = 1 << 20 };

static accel_plugin_error error;
static gpu_buffer pool = {.handle = (WGPUBuffer)(uintptr_t)8},
                  other = {.handle = (WGPUBuffer)(uintptr_t)16};
static char *told; /* the text of the last module */

static WGPUShaderModule keep_text(WGPUDevice device, const WGPUShaderModuleDescriptor *wanted,
                                  uint64_t checks) {
  const WGPUShaderSourceWGSL *source = (const WGPUShaderSourceWGSL *)wanted->nextInChain;
  (void)device, (void)checks;
  assert_int_equal(source->chain.sType, WGPUSType_ShaderSourceWGSL);
  free(told);
  told = strndup(source->code.data, source->code.length);
  return (WGPUShaderModule)(uintptr_t)24;
}

static const wgp_functions functions = {.DeviceCreateShaderModuleTrusted = keep_text};

static int32_t bind(const gpu_binding *bindings, uint32_t n, uint32_t buffers, wgp_binds *out) {
  const wgp_card card = {.limits = {.maxStorageBuffersPerShaderStage = buffers}, .wgsl = true};
  const gpu_device device = {.card = &card, .limits = {.binding = BINDING, .align = ALIGN}};
  const gpu_dispatch what = {.kernel = GPU_K_binary, .n_bind = n, .bind = bindings};
  error = (accel_plugin_error){.size = sizeof error};
  return wgp_wgsl_bind(&device, &what, out, &error);
}

static void test_apart(void **state) {
  const gpu_binding b[3] = {{&pool, 512, 100}, {&pool, 1284, 16}, {&other, 512, 4}};
  wgp_binds out;
  (void)state;
  assert_int_equal(bind(b, 3, 8, &out), ACCEL_PLUGIN_OK);
  assert_int_equal(out.n, 3);
  assert_int_equal(out.names, wgp_names_apart(3));
  assert_int_equal(out.entry[1].offset, 1280);
  assert_int_equal(out.entry[1].size, 20);
  assert_int_equal(out.at[1], 1);
  assert_ptr_equal(out.entry[2].buffer, other.handle);
}

/* In place, and a neighbour that begins within the same 256 bytes; the fourth is elsewhere. */
static void test_overlapping(void **state) {
  const gpu_binding b[4] = {
      {&pool, 1024, 100}, {&pool, 1124, 400}, {&pool, 1024, 100}, {&other, 1024, 100}};
  wgp_binds out;
  (void)state;
  assert_int_equal(bind(b, 4, 8, &out), ACCEL_PLUGIN_OK);
  assert_int_equal(out.n, 2);
  assert_int_equal(out.names, 0x3000);
  assert_int_equal(out.entry[0].offset, 1024);
  assert_int_equal(out.entry[0].size, 500);
  assert_int_equal(out.at[0], 0);
  assert_int_equal(out.at[1], 25);
  assert_int_equal(out.at[2], 0);
  assert_int_equal(out.entry[1].binding, 1);
}

/* a overlaps b and b overlaps c: one binding, though a and c do not touch. */
static void test_by_a_third(void **state) {
  const gpu_binding b[3] = {{&pool, 0, 300}, {&pool, 2048, 300}, {&pool, 256, 2000}};
  wgp_binds out;
  (void)state;
  assert_int_equal(bind(b, 3, 8, &out), ACCEL_PLUGIN_OK);
  assert_int_equal(out.n, 1);
  assert_int_equal(out.entry[0].size, 2348);
  assert_int_equal(out.at[1], 512);
  assert_int_equal(out.at[2], 64);
}

/* More than the device allows: the nearest ones of a buffer are bound at once. */
static void test_too_many(void **state) {
  gpu_binding b[5] = {{&pool, 0, 256},
                      {&other, 0, 256},
                      {&pool, 600000, 256},
                      {&pool, 4096, 256},
                      {&pool, 900000, 256}};
  wgp_binds out;
  (void)state;
  assert_int_equal(bind(b, 5, 3, &out), ACCEL_PLUGIN_OK);
  assert_int_equal(out.n, 3);
  assert_int_equal(out.names, 0x20210); /* a b c a c */
  assert_int_equal(bind(b, 5, 2, &out), ACCEL_PLUGIN_OK);
  assert_int_equal(out.n, 2);
  assert_int_equal(bind(b, 5, 1, &out), ACCEL_PLUGIN_E_UNSUPPORTED);
  assert_non_null(strstr(error.message, "binds 2 ranges at once"));
  b[4].offset = 4 * BINDING; /* no binding reaches from the others to it */
  assert_int_equal(bind(b, 5, 2, &out), ACCEL_PLUGIN_E_UNSUPPORTED);
}

static void test_too_long(void **state) {
  const gpu_binding b[2] = {{&pool, 0, BINDING}, {&pool, BINDING - 256, BINDING}};
  wgp_binds out;
  (void)state;
  assert_int_equal(bind(b, 2, 8, &out), ACCEL_PLUGIN_E_UNSUPPORTED);
  assert_non_null(strstr(error.message, "lie on one another"));
}

static void test_text(void **state) {
  const gpu_device device = {.f = &functions};
  (void)state;
  assert_int_equal(gpu_kernels[GPU_K_unary_f32].n_bind, 2);
  assert_non_null(wgp_wgsl_module(&device, GPU_K_unary_f32, wgp_names_apart(2)));
  assert_non_null(strstr(told, "@binding( 1) var<storage, read_write> Bb: array<u32>;"));
  assert_non_null(strstr(told, "@binding( 2) var<uniform> P: Params;"));
  assert_non_null(strstr(told, "Bb["));
  const size_t length = strlen(told);
  assert_non_null(wgp_wgsl_module(&device, GPU_K_unary_f32, 0)); /* y lies on x */
  assert_int_equal(strlen(told), length);
  assert_non_null(strstr(told, "@binding( 0) var<storage, read_write> Ba"));
  assert_non_null(strstr(told, "@binding( 1) var<uniform> P: Params;"));
  assert_null(strstr(told, "Bb"));
  free(told);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_apart),      cmocka_unit_test(test_overlapping),
      cmocka_unit_test(test_by_a_third), cmocka_unit_test(test_too_many),
      cmocka_unit_test(test_too_long),   cmocka_unit_test(test_text),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
