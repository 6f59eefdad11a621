/* openvino_stub.c - an OpenVINO library for tests.  STUB_OPENVINO says at which call it fails:
 * "crash" and "core" when it starts, "read" at a model, "list" at its devices, "none" it has no
 * device, "device" it has one that compiles nothing. */
#include <signal.h>
#include <stdlib.h>
#include <string.h>

#include "openvino/ovn.h"

#define STUB_API __attribute__((visibility("default")))

STUB_API int ov_get_openvino_version(ov_version_t *version);
int ov_get_openvino_version(ov_version_t *version) {
  *version = (ov_version_t){.buildNumber = "2026.0.0-stub", .description = "a stub"};
  return 0;
}

#ifndef STUB_OLD
#define STUB_DECLARE(result, name, parameters) STUB_API result name parameters;
OVN_FUNCTIONS(STUB_DECLARE)

static char *words[] = {"CPU"};

static bool fails(const char *mode) {
  const char *wanted = getenv("STUB_OPENVINO");
  return wanted && !strcmp(wanted, mode);
}

void ov_version_free(ov_version_t *version) { (void)version; }
const char *ov_get_last_err_msg(void) { return "the stub compiles nothing"; }
void ov_free(const char *text) { (void)text; }
int ov_core_create(ov_core_t **core) {
  if (fails("crash")) raise(SIGSEGV);
  *core = (ov_core_t *)words;
  return fails("core") ? -1 : 0;
}
void ov_core_free(ov_core_t *core) { (void)core; }
int ov_core_get_available_devices(const ov_core_t *core, ov_available_devices_t *devices) {
  (void)core;
  *devices = (ov_available_devices_t){.devices = words, .size = !fails("none")};
  return fails("list") ? -1 : 0;
}
void ov_available_devices_free(ov_available_devices_t *devices) { (void)devices; }
int ov_core_get_property(const ov_core_t *core, const char *device, const char *key, char **value) {
  (void)core, (void)device, (void)key, (void)value;
  return -1;
}
int ov_core_read_model_from_memory_buffer(const ov_core_t *core, const char *text, size_t n,
                                          const ov_tensor_t *weights, ov_model_t **model) {
  (void)core, (void)text, (void)n, (void)weights;
  *model = (ov_model_t *)words;
  return fails("read") ? -1 : 0;
}
int ov_core_compile_model(const ov_core_t *core, const ov_model_t *model, const char *device,
                          size_t n, ov_compiled_model_t **out, ...) {
  (void)core, (void)model, (void)device, (void)n, (void)out;
  return -1;
}
void ov_model_free(ov_model_t *model) { (void)model; }
int ov_model_const_input_by_index(const ov_model_t *model, size_t i, ov_output_const_port_t **out) {
  (void)model, (void)i;
  *out = (ov_output_const_port_t *)words;
  return 0;
}
int ov_port_get_element_type(const ov_output_const_port_t *port, int *type) {
  (void)port;
  *type = 4;
  return 0;
}
void ov_output_const_port_free(ov_output_const_port_t *port) { (void)port; }
void ov_compiled_model_free(ov_compiled_model_t *model) { (void)model; }
int ov_compiled_model_create_infer_request(const ov_compiled_model_t *model,
                                           ov_infer_request_t **out) {
  (void)model, (void)out;
  return -1;
}
int ov_compiled_model_get_property(const ov_compiled_model_t *model, const char *key,
                                   char **value) {
  (void)model, (void)key, (void)value;
  return -1;
}
void ov_infer_request_free(ov_infer_request_t *request) { (void)request; }
int ov_infer_request_set_tensor(ov_infer_request_t *request, const char *name,
                                const ov_tensor_t *tensor) {
  (void)request, (void)name, (void)tensor;
  return -1;
}
int ov_infer_request_get_tensor(const ov_infer_request_t *request, const char *name,
                                ov_tensor_t **tensor) {
  (void)request, (void)name, (void)tensor;
  return -1;
}
int ov_infer_request_infer(ov_infer_request_t *request) { return (void)request, -1; }
int ov_tensor_create_from_host_ptr(int type, ov_shape_t shape, void *data, ov_tensor_t **out) {
  (void)type, (void)shape, (void)data;
  *out = (ov_tensor_t *)words;
  return 0;
}
int ov_tensor_get_byte_size(const ov_tensor_t *tensor, size_t *n) {
  return (void)tensor, (void)n, -1;
}
int ov_tensor_data(const ov_tensor_t *tensor, void **data) { return (void)tensor, (void)data, -1; }
void ov_tensor_free(ov_tensor_t *tensor) { (void)tensor; }
#endif
