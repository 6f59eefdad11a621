/**
 * @file devices.h
 * Which hardware is here, whether it can be used, and devices in hand: their memory, tensors in it,
 * copies beside the program.
 *
 * Running a model needs nothing of this: accel_init() finds, tests and chooses a device by its
 * name.  Include accel/accel.h, which includes this file.
 */
#ifndef ACCEL_DEVICES_H
#define ACCEL_DEVICES_H

#include "accel/base.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---- detection ----------------------------------------------------------------------------- */

/**
 * One device, or one kind of hardware that is not there, with the reason.
 *
 * Four facts are told apart, because each "no" has another remedy: `compiled`, `loaded`, `found`
 * and `tested` are 1 (yes), 0 (no) or -1 (not reached, because an earlier one is no).
 */
typedef struct accel_device_info {
  /** What accel_init_params.device and --device take: "cpu", "rocm:0", "vulkan:1". */
  const char *name;
  /** The registry's name of the hardware: cpu cuda amd opencl vulkan openvino apple qualcomm webgpu
   *  webnn reference. */
  const char *hardware;
  /** The plugin that serves it, "cpu", "rocm" ...; "" when there is none. */
  const char *plugin;
  /** "CPU", "AMD_ROCM", "CUDA", "OPENCL", "VULKAN", "REFERENCE". */
  const char *implementation_type;
  /** What the vendor calls it. */
  const char *description;
  /** Architecture, "gfx1030", "sm_90", "avx512"; "" when not known. */
  const char *arch;
  /** Driver with its version; "" when not known. */
  const char *driver;
  /** PCI address or UUID, the same in every plugin that sees the card; "" when not known. */
  const char *id;
  /** "cpu", "discrete", "integrated", "software" (a CPU behind a GPU's interface, or an emulator)
   *  or "other". */
  const char *type;
  /** A plugin for it is installed. */
  int32_t compiled;
  /** The plugin was opened and speaks this library's interface. */
  int32_t loaded;
  /** Hardware and driver are there. */
  int32_t found;
  /** A small program ran on it and gave the right numbers. */
  int32_t tested;
  /** 1: all four are yes, and accel_init() can use it. */
  int32_t usable;
  /** 1: an AMD GPU, whichever plugin serves it. */
  int32_t is_amd;
  /** Why it is not usable; "" when it is. */
  const char *reason;
  /** What to do about the reason; "" when nothing is known. */
  const char *remedy;
  /** Bytes of device memory; 0: not known. */
  uint64_t memory_total;
  /** Bytes of it that were free when the device was looked at; 0: not known.  accel_device_memory()
   *  asks again. */
  uint64_t memory_free;
} accel_device_info;

/** What accel_detect() found. */
typedef struct accel_devices {
  uint32_t n;                    /**< how many rows */
  const accel_device_info *item; /**< [n] devices of all plugins, then hardware without a device */
} accel_devices;

/**
 * Lists everything a user could have, usable or not.
 *
 * Vendors' software is looked at in a helper process with a time limit, so that a driver which
 * crashes or hangs becomes a row with that reason.  The answer is kept by the context; the first
 * call may take seconds.
 *
 * @param refresh nonzero: look again instead of answering what was found before.
 * @param out a copy, valid on its own; freed with accel_devices_free().
 */
ACCEL_API accel_status accel_detect(accel *ctx, int refresh, accel_devices **out);

/** Frees a list of devices and sets the pointer to NULL. */
ACCEL_API void accel_devices_free(accel_devices **devices);

/**
 * The same as one JSON object, {"schema":"accel.detect/1",...}: the capability dictionary (cpu,
 * cuda, cuda_version, cuda_devices, mps, openvino, qualcomm, amd, amd_version, amd_devices ...),
 * then devices, plugins (every path that was tried, with its verdict), environment variables of
 * vendors and more.  docs/detect.md describes each member.
 *
 * @param json freed with accel_string_free().
 */
ACCEL_API accel_status accel_detect_json(accel *ctx, int refresh, char **json);

/**
 * Whether an AMD card can be used through ROCm, as torch.cuda.is_available() on a ROCm build.
 *
 * @param available 1: a real card is there, its runtime answers and its self-test passed.
 *                  Emulators and software devices do not count.
 * @return ACCEL_OK also when the answer is no.  accel_get_device(ctx, "rocm", ...) tells the reason
 *         as its error.
 */
ACCEL_API accel_status accel_is_rocm_available(accel *ctx, int *available);

/** The same question for an NVIDIA card through CUDA. */
ACCEL_API accel_status accel_is_cuda_available(accel *ctx, int *available);

/**
 * Version of a hardware's runtime, and of the driver under it.
 *
 * @param hardware "amd" (the version of ROCm), "cuda", "opencl", "vulkan", or an alias of them.
 * @param version,driver "" where there is none or it is not known; freed with accel_string_free().
 * @return ACCEL_ERROR_ARGUMENT: no such hardware is known.
 */
ACCEL_API accel_status accel_runtime_version(accel *ctx, const char *hardware, char **version,
                                             char **driver);

/* ---- a device in hand ---------------------------------------------------------------------- */

/** A device that can serve.  Closed before its context ends; its tensors may outlive it. */
typedef struct accel_device accel_device;

/** A tensor in a device's memory. */
typedef struct accel_device_tensor accel_device_tensor;

/** Copies to and from a device, in order, on a thread of their own. */
typedef struct accel_device_stream accel_device_stream;

/** Memory of a device, in bytes; 0: not known.  accel_memory_summary_default() sets `size`. */
typedef struct accel_memory_summary {
  /** sizeof(accel_memory_summary). */
  uint32_t size;
  /** 0. */
  uint32_t reserved;
  /** All memory. */
  uint64_t total;
  /** What is free now, as the driver tells; of AMD cards no more than the kernel tells. */
  uint64_t free;
  /** What this process may take. */
  uint64_t budget;
  /** How much of it is the host's. */
  uint64_t shared_with_host;
  /** Tensors of this accel_device that are alive. */
  uint64_t tensors;
  /** Their bytes. */
  uint64_t tensor_bytes;
  /** Endpoints of this context on the device. */
  uint64_t endpoints;
} accel_memory_summary;

/**
 * Gets the first device of `wanted` that passes its self-test.
 *
 * @param wanted a device name (docs/detect.md): "auto", "cpu", "rocm:0", "gpu:1",
 *               "pci:0000:03:00.0", a chain "rocm:0,cpu"; any letter case.  NULL or "": "auto".
 * @param out closed with accel_device_close().
 * @return ACCEL_ERROR_ARGUMENT: the name is none.  ACCEL_ERROR_DEVICE_UNAVAILABLE: no device of
 *         that name can serve; the message has each one's reason, the remedy what there is instead.
 */
ACCEL_API accel_status accel_get_device(accel *ctx, const char *wanted, accel_device **out);

/** Does the stream's remaining copies, then closes the device and sets *device to NULL.  Tensors
 *  in its memory stay valid.  Failures of these copies are lost: call accel_synchronize() first. */
ACCEL_API void accel_device_close(accel_device **device);

/** What the device is; lives as long as the context.  NULL for NULL. */
ACCEL_API const accel_device_info *accel_get_device_info(const accel_device *device);

/** "cpu", "rocm", "cuda", "opencl", "vulkan" ...; "" for NULL.  Lives as long as the context. */
ACCEL_API const char *accel_get_device_type(const accel_device *device);

/**
 * What the device is, its memory, runtime and driver, and whether fp16 and bf16 compute there: one
 * fact a line, for people.  Runs a small tensor at fp16 and bf16.
 *
 * @param text freed with accel_string_free().
 */
ACCEL_API accel_status accel_device_info_text(accel_device *device, char **text);

/** A summary with its size set and all else 0. */
ACCEL_API accel_memory_summary accel_memory_summary_default(void);

/**
 * Asks for the device's memory now.
 *
 * @param out its `size` must be set (accel_memory_summary_default()); fields beyond it are left.
 * @return ACCEL_ERROR_DEVICE_UNAVAILABLE or the driver's own failure when it does not answer.
 */
ACCEL_API accel_status accel_device_memory(accel_device *device, accel_memory_summary *out);

/**
 * Runs a small network at a precision and compares it with the right numbers.
 *
 * @param precision "fp32" "fp16" "bf16" "int8" "int4" "uint4" "fp8" or "fp4".
 * @return ACCEL_OK: the device computes there.  ACCEL_ERROR_PRECISION: it cannot, or computes
 *         wrongly, with the reason; also for a name that is no precision.
 */
ACCEL_API accel_status accel_probe_precision(accel_device *device, const char *precision);

/**
 * Gives back scratch memory of the context's endpoints, as torch.cuda.empty_cache().
 *
 * @param device NULL: of the endpoints on all devices.
 * @param released receives the bytes that were given back; may be NULL.
 */
ACCEL_API accel_status accel_empty_cache(accel *ctx, const accel_device *device,
                                         uint64_t *released);

/**
 * Waits until the queues of the context's endpoints on the device are empty and the stream's copies
 * are done.  Calls that are not queued have always finished when they return.
 *
 * No endpoint of the context may be cleaned up meanwhile.
 *
 * @return the first failure of the stream since the last call.
 */
ACCEL_API accel_status accel_synchronize(accel_device *device);

/* ---- tensors in device memory -------------------------------------------------------------- */

/**
 * Copies a tensor into the device's memory.
 *
 * For data of the caller's own: a model's inputs and outputs are in host memory, and its endpoint
 * moves them.
 *
 * @param tensor its name may be NULL; data, dims and dtype are checked.
 * @param out freed with accel_device_tensor_free(), before or after the device is closed, but
 *            before the context ends.
 * @return ACCEL_ERROR_ARGUMENT: an impossible shape or dtype, or no data.
 *         ACCEL_ERROR_UNSUPPORTED: the plugin hands out no device memory.
 *         ACCEL_ERROR_DEVICE_MEMORY: there is no room.
 */
ACCEL_API accel_status accel_to_device(accel_device *device, const accel_tensor *tensor,
                                       accel_device_tensor **out);

/** Copies a device tensor back, as a list of one that accel_tensors_free() frees. */
ACCEL_API accel_status accel_to_host(const accel_device_tensor *tensor, accel_tensors **out);

/** Name, dtype and dims of a device tensor; `data` is NULL.  Lives as long as the tensor.  NULL for
 *  NULL. */
ACCEL_API const accel_tensor *accel_device_tensor_view(const accel_device_tensor *tensor);

/** Frees the tensor's device memory and sets the pointer to NULL.  Not while a copy of it waits in
 *  a stream. */
ACCEL_API void accel_device_tensor_free(accel_device_tensor **tensor);

/** The device's one stream, made at the first call.  It belongs to the device and ends with it. */
ACCEL_API accel_status accel_get_device_stream(accel_device *device, accel_device_stream **out);

/**
 * accel_to_device() beside the caller: the device tensor is made now, its bytes are copied later,
 * in order.
 *
 * tensor->data must stay as it is until accel_synchronize(), and *out must not be freed before.
 * Errors of this call are those of accel_to_device(); those of the copy come from
 * accel_synchronize().
 */
ACCEL_API accel_status accel_stream_to_device(accel_device_stream *stream,
                                              const accel_tensor *tensor,
                                              accel_device_tensor **out);

/**
 * Copies a device tensor to the host later, in order.
 *
 * @param data room for all of the tensor; filled, and to be left alone, until accel_synchronize().
 * @param bytes size of `data`; ACCEL_ERROR_ARGUMENT when it is not the tensor's.
 */
ACCEL_API accel_status accel_stream_to_host(accel_device_stream *stream,
                                            accel_device_tensor *tensor, void *data,
                                            uint64_t bytes);

#ifdef __cplusplus
}
#endif
#endif
