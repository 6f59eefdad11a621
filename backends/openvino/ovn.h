/* ovn.h - the plugin `openvino`: entries as static graphs (kit/kit_graph.h), written as OpenVINO's
 * IR in memory and compiled by its C library, which is loaded at run time.
 *
 * ovn_library.c loads the library, ovn_device.c lists its devices, ovn_write.c turns a graph into IR
 * (ovn_ops.def has a line for each op), ovn_compile.c compiles and runs it, ovn_backend.c has the
 * kit's hooks. */
#ifndef ACCEL_OPENVINO_H
#define ACCEL_OPENVINO_H

#include <pthread.h>

#include "kit/kit_compiled.h"

/* ---- the C interface (openvino/c/openvino.h, 2024 to 2026) ---- */

typedef struct ov_core ov_core_t;
typedef struct ov_model ov_model_t;
typedef struct ov_compiled_model ov_compiled_model_t;
typedef struct ov_infer_request ov_infer_request_t;
typedef struct ov_tensor ov_tensor_t;
typedef struct ov_output_const_port ov_output_const_port_t;
typedef struct ov_shape {
  int64_t rank;
  int64_t *dims;
} ov_shape_t;
typedef struct ov_available_devices {
  char **devices;
  size_t size;
} ov_available_devices_t;
typedef struct ov_version {
  const char *buildNumber, *description;
} ov_version_t;

/* OVN_FUNCTION(result, name, parameters): all that is used */
#define OVN_FUNCTIONS(OVN_FUNCTION)                                                               \
  OVN_FUNCTION(int, ov_get_openvino_version, (ov_version_t *))                                    \
  OVN_FUNCTION(void, ov_version_free, (ov_version_t *))                                           \
  OVN_FUNCTION(const char *, ov_get_last_err_msg, (void))                                         \
  OVN_FUNCTION(void, ov_free, (const char *))                                                     \
  OVN_FUNCTION(int, ov_core_create, (ov_core_t **))                                               \
  OVN_FUNCTION(void, ov_core_free, (ov_core_t *))                                                 \
  OVN_FUNCTION(int, ov_core_get_available_devices, (const ov_core_t *, ov_available_devices_t *)) \
  OVN_FUNCTION(void, ov_available_devices_free, (ov_available_devices_t *))                       \
  OVN_FUNCTION(int, ov_core_get_property,                                                         \
               (const ov_core_t *, const char *, const char *, char **))                          \
  OVN_FUNCTION(int, ov_core_read_model_from_memory_buffer,                                        \
               (const ov_core_t *, const char *, size_t, const ov_tensor_t *, ov_model_t **))     \
  OVN_FUNCTION(                                                                                   \
      int, ov_core_compile_model,                                                                 \
      (const ov_core_t *, const ov_model_t *, const char *, size_t, ov_compiled_model_t **, ...)) \
  OVN_FUNCTION(void, ov_model_free, (ov_model_t *))                                               \
  OVN_FUNCTION(int, ov_model_const_input_by_index,                                                \
               (const ov_model_t *, size_t, ov_output_const_port_t **))                           \
  OVN_FUNCTION(int, ov_port_get_element_type, (const ov_output_const_port_t *, int *))            \
  OVN_FUNCTION(void, ov_output_const_port_free, (ov_output_const_port_t *))                       \
  OVN_FUNCTION(void, ov_compiled_model_free, (ov_compiled_model_t *))                             \
  OVN_FUNCTION(int, ov_compiled_model_create_infer_request,                                       \
               (const ov_compiled_model_t *, ov_infer_request_t **))                              \
  OVN_FUNCTION(int, ov_compiled_model_get_property,                                               \
               (const ov_compiled_model_t *, const char *, char **))                              \
  OVN_FUNCTION(void, ov_infer_request_free, (ov_infer_request_t *))                               \
  OVN_FUNCTION(int, ov_infer_request_set_tensor,                                                  \
               (ov_infer_request_t *, const char *, const ov_tensor_t *))                         \
  OVN_FUNCTION(int, ov_infer_request_get_tensor,                                                  \
               (const ov_infer_request_t *, const char *, ov_tensor_t **))                        \
  OVN_FUNCTION(int, ov_infer_request_infer, (ov_infer_request_t *))                               \
  OVN_FUNCTION(int, ov_tensor_create_from_host_ptr, (int, ov_shape_t, void *, ov_tensor_t **))    \
  OVN_FUNCTION(int, ov_tensor_get_byte_size, (const ov_tensor_t *, size_t *))                     \
  OVN_FUNCTION(int, ov_tensor_data, (const ov_tensor_t *, void **))                               \
  OVN_FUNCTION(void, ov_tensor_free, (ov_tensor_t *))

/* ---- the library and its devices ---- */

enum { OVN_DEVICES = 16 };

typedef struct ovn_device {
  char name[32];        /* "CPU", "GPU.0", "NPU" */
  bool halves, bfloats; /* computes in them */
  bool fixed;           /* compiles known shapes alone */
  accel_plugin_device info;
} ovn_device;

typedef struct ovn_library {
#define OVN_MEMBER(result, name, parameters) result(*name) parameters;
  OVN_FUNCTIONS(OVN_MEMBER)
#undef OVN_MEMBER
  ov_core_t *core;
  int type
      [ACCEL_PLUGIN_NO_DTYPE]; /* ov_element_type_e of F32, I32, I64, U8, BOOL: differs by release */
  char version[64];
  char path[512];
  uint32_t n_device;
  ovn_device device[OVN_DEVICES];
  char why[240]; /* not empty: it cannot be used, and this is why */
} ovn_library;

/* Loaded once; never NULL.  why is empty, or says why it cannot be used. */
const ovn_library *ovn_open_library(void);
/* E_DRIVER with the library's last message. */
int32_t ovn_fail(const ovn_library *ov, int status, const char *call, accel_plugin_error *error);
void ovn_describe(ovn_library *ov, ovn_device *d);
int32_t ovn_devices(const accel_plugin_host *host, accel_plugin_device *out, uint32_t capacity,
                    uint32_t *n, accel_plugin_error *error);
int32_t ovn_memory(uint32_t device, accel_plugin_memory *out, accel_plugin_error *error);

/* ---- IR ---- */

/* A graph as IR version 11.  Constants are named by their distance from `base`; inputs have the
 * names i0, i1 .. in the order of feeds, results r0, r1 ..  dim[n_feed][MAX_RANK]: the shapes of
 * inputs to be written as known; NULL: open where the graph leaves them open.  *text is to be
 * freed. */
int32_t ovn_write(const kit_graph *graph, const char *name, const char *base,
                  const int64_t (*dim)[ACCEL_PLUGIN_MAX_RANK], char **text, size_t *n,
                  accel_plugin_error *error);
/* Lowest address of the graph's constants, and bytes up to the end of the highest. */
void ovn_extent(const kit_graph *graph, const char **base, uint64_t *bytes);

/* ---- endpoints ---- */

typedef struct ovn_endpoint {
  const ovn_library *ov;
  const ovn_device *device;
  char hint[8]; /* "f32", "f16", "bf16" */
  char threads[16];
} ovn_endpoint;

extern const kit_compiler ovn_compiler; /* ovn_compile.c: of ovn_endpoints */
extern const kit_backend ovn_backend;   /* ovn_backend.c */

#endif
