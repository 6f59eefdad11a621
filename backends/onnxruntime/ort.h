/* ort.h - the plugin `onnxruntime`: entries as static graphs (kit/kit_graph.h), written as ONNX in
 * memory and run by ONNX Runtime's library, which is loaded at run time.  Each of its execution
 * providers is a device: the processor, and what plugin providers bring (Qualcomm's QNN).
 *
 * ort_library.c loads the library and the providers, ort_device.c lists the devices, ort_write.c
 * turns a graph into ONNX (ort_ops.def has a line for each plain op, ort_forms.c the others) with
 * the protobuf of ort_proto.c, ort_session.c runs it, ort_quantise.c has codes and ranges of what an
 * NPU multiplies at int8, ort_context.c keeps what its compiler made, ort_backend.c has the kit's
 * hooks. */
#ifndef ACCEL_ONNXRUNTIME_H
#define ACCEL_ONNXRUNTIME_H

#include "kit/kit_compiled.h"

/* ---- the C interface (onnxruntime_c_api.h) ----
 *
 * OrtGetApiBase()->GetApi(version) answers a table of functions that is only ever appended to, so
 * the place of a function in it is part of the interface.  Version 22 is asked for: older libraries
 * have no providers by plugin and answer NULL.  ORT_FUNCTION(place, result, name, parameters) */

enum { ORT_API = 22 };

typedef struct OrtStatus OrtStatus; /* NULL: success */
typedef struct OrtEnv OrtEnv;
typedef struct OrtSession OrtSession;
typedef struct OrtSessionOptions OrtSessionOptions;
typedef struct OrtRunOptions OrtRunOptions;
typedef struct OrtValue OrtValue;
typedef struct OrtMemoryInfo OrtMemoryInfo;
typedef struct OrtTensorTypeAndShapeInfo OrtTensorTypeAndShapeInfo;
typedef struct OrtEpDevice OrtEpDevice;
typedef struct OrtHardwareDevice OrtHardwareDevice;
typedef struct OrtKeyValuePairs OrtKeyValuePairs;
typedef struct OrtApiBase {
  const void *const *(*GetApi)(uint32_t version);
  const char *(*GetVersionString)(void);
} OrtApiBase;
typedef void (*ort_logger)(void *self, int severity, const char *category, const char *id,
                           const char *place, const char *message);

#define ORT_FUNCTIONS(ORT_FUNCTION)                                                                \
  ORT_FUNCTION(2, const char *, GetErrorMessage, (const OrtStatus *))                              \
  ORT_FUNCTION(4, OrtStatus *, CreateEnvWithCustomLogger,                                          \
               (ort_logger, void *, int, const char *, OrtEnv **))                                 \
  ORT_FUNCTION(8, OrtStatus *, CreateSessionFromArray,                                             \
               (const OrtEnv *, const void *, size_t, const OrtSessionOptions *, OrtSession **))   \
  ORT_FUNCTION(9, OrtStatus *, Run,                                                                \
               (OrtSession *, const OrtRunOptions *, const char *const *, const OrtValue *const *, \
                size_t, const char *const *, size_t, OrtValue **))                                 \
  ORT_FUNCTION(10, OrtStatus *, CreateSessionOptions, (OrtSessionOptions **))                      \
  ORT_FUNCTION(23, OrtStatus *, SetSessionGraphOptimizationLevel, (OrtSessionOptions *, int))      \
  ORT_FUNCTION(24, OrtStatus *, SetIntraOpNumThreads, (OrtSessionOptions *, int))                  \
  ORT_FUNCTION(49, OrtStatus *, CreateTensorWithDataAsOrtValue,                                    \
               (const OrtMemoryInfo *, void *, size_t, const int64_t *, size_t, int, OrtValue **)) \
  ORT_FUNCTION(51, OrtStatus *, GetTensorMutableData, (OrtValue *, void **))                       \
  ORT_FUNCTION(64, OrtStatus *, GetTensorShapeElementCount,                                        \
               (const OrtTensorTypeAndShapeInfo *, size_t *))                                      \
  ORT_FUNCTION(65, OrtStatus *, GetTensorTypeAndShape,                                             \
               (const OrtValue *, OrtTensorTypeAndShapeInfo **))                                   \
  ORT_FUNCTION(69, OrtStatus *, CreateCpuMemoryInfo, (int, int, OrtMemoryInfo **))                 \
  ORT_FUNCTION(93, void, ReleaseStatus, (OrtStatus *))                                             \
  ORT_FUNCTION(95, void, ReleaseSession, (OrtSession *))                                           \
  ORT_FUNCTION(96, void, ReleaseValue, (OrtValue *))                                               \
  ORT_FUNCTION(99, void, ReleaseTensorTypeAndShapeInfo, (OrtTensorTypeAndShapeInfo *))             \
  ORT_FUNCTION(100, void, ReleaseSessionOptions, (OrtSessionOptions *))                            \
  ORT_FUNCTION(130, OrtStatus *, AddSessionConfigEntry,                                            \
               (OrtSessionOptions *, const char *, const char *))                                  \
  ORT_FUNCTION(210, OrtStatus *, AddExternalInitializers,                                          \
               (OrtSessionOptions *, const char *const *, const OrtValue *const *, size_t))        \
  ORT_FUNCTION(301, OrtStatus *, RegisterExecutionProviderLibrary,                                 \
               (OrtEnv *, const char *, const char *))                                             \
  ORT_FUNCTION(303, OrtStatus *, GetEpDevices,                                                     \
               (const OrtEnv *, const OrtEpDevice *const **, size_t *))                            \
  ORT_FUNCTION(304, OrtStatus *, SessionOptionsAppendExecutionProvider_V2,                         \
               (OrtSessionOptions *, OrtEnv *, const OrtEpDevice *const *, size_t,                 \
                const char *const *, const char *const *, size_t))                                 \
  ORT_FUNCTION(307, int, HardwareDevice_Type, (const OrtHardwareDevice *))                         \
  ORT_FUNCTION(309, const char *, HardwareDevice_Vendor, (const OrtHardwareDevice *))              \
  ORT_FUNCTION(312, const char *, EpDevice_EpName, (const OrtEpDevice *))                          \
  ORT_FUNCTION(313, const char *, EpDevice_EpVendor, (const OrtEpDevice *))                        \
  ORT_FUNCTION(316, const OrtHardwareDevice *, EpDevice_Device, (const OrtEpDevice *))

/* ---- the library and its devices ---- */

enum { ORT_DEVICES = 16 };

typedef struct ort_device {
  const OrtEpDevice *ep; /* NULL: the processor's provider, which is always there */
  char provider[64];     /* "CPUExecutionProvider", "QNNExecutionProvider" */
  bool qnn;              /* Qualcomm's NPU: takes known sizes alone, computes in halves */
  bool simulated;        /* by Qualcomm's libraries for x86-64 */
  accel_plugin_device info;
} ort_device;

typedef struct ort_library {
#define ORT_MEMBER(place, result, name, parameters) result(*name) parameters;
  ORT_FUNCTIONS(ORT_MEMBER)
#undef ORT_MEMBER
  OrtEnv *env;
  OrtMemoryInfo *memory; /* of the host */
  char version[32];
  char path[512];
  char qnn[512]; /* library of Qualcomm's backend, libQnnHtp.so; "" */
  uint32_t n_device;
  ort_device device[ORT_DEVICES];
  char why[240]; /* not empty: it cannot be used, and this is why */
} ort_library;

/* Loaded once; never NULL.  why is empty, or says why it cannot be used. */
const ort_library *ort_open_library(void);
/* E_DRIVER with the status's message, which is released. */
int32_t ort_fail(const ort_library *ort, OrtStatus *status, const char *call,
                 accel_plugin_error *error);
/* The devices of the library and of the providers that have been registered. */
void ort_list(ort_library *ort);
int32_t ort_devices(const accel_plugin_host *host, accel_plugin_device *out, uint32_t capacity,
                    uint32_t *n, accel_plugin_error *error);
int32_t ort_memory(uint32_t device, accel_plugin_memory *out, accel_plugin_error *error);

/* ---- ONNX ---- */

enum { ORT_EXTERNAL = 1024 }; /* bytes from which on a constant is given beside the model */

typedef struct ort_bytes {
  char *data;
  size_t n, capacity;
  bool failed; /* no memory */
} ort_bytes;

/* Elements as ONNX numbers them; 0: none of its types. */
int ort_type(uint8_t dtype);

/* How a graph is written. */
typedef struct ort_writing {
  const int64_t (*dim)[ACCEL_PLUGIN_MAX_RANK]; /* [n_feed] shapes of inputs; NULL: may be open */
  bool npu;                                    /* in forms that Qualcomm's compiler gets right */
  /* not NULL: another result, ORT_MAGNITUDES, is the largest magnitudes around its products, fp32
   * [2 n]; with npu its products are written with their codes */
  const struct ort_quantised *quantised;
} ort_writing;

#define ORT_MAGNITUDES "m"

/* A graph as ONNX, opset 21.  Values are called n<node>, inputs like their node, results r0, r1 ..
 * Constants of ORT_EXTERNAL bytes and more are external, for AddExternalInitializers, and so are
 * those of product i, of any size: n<ort_code(graph, i)> and, its scales, the number after it; the
 * third is what goes into it.  model->data is to be freed. */
int32_t ort_write(const kit_graph *graph, const char *name, const ort_writing *how,
                  ort_bytes *model, accel_plugin_error *error);
static inline int32_t ort_code(const kit_graph *g, uint32_t product) {
  return (int32_t)(2 * g->n_node + 3 * product);
}

/* ---- endpoints ---- */

typedef struct ort_endpoint {
  const ort_library *ort;
  const ort_device *device;
  const accel_plugin_host *host;
  uint32_t threads;
  bool quantised; /* products with int8 weights have codes on both sides (ort_quantise.h) */
} ort_endpoint;

extern const kit_compiler ort_compiler;             /* ort_session.c: of ort_endpoints */
const kit_backend *ort_backend_of(uint32_t device); /* ort_backend.c */

#endif
