/* wgp_open.c - devices: one per adapter and process, shared by its endpoints; what wgpu-native says
 * of errors. */
#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "webgpu/wgp.h"

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static gpu_device *opened[WGP_MAX_DEVICES];

/* ---- errors ---- */

/* The first error of this thread since wgp_forget; type 0: none. */
static _Thread_local struct {
  uint32_t type; /* WGPUErrorType */
  char message[400];
} said;

/* What follows "Validation Error", an empty line, and "Caused by:". */
static WGPUStringView behind_heading(WGPUStringView text) {
  static const char heading[] = "Caused by:";
  const size_t n = sizeof heading - 1;
  for (size_t i = 0; i + n <= text.length; i++)
    if (!memcmp(text.data + i, heading, n))
      return (WGPUStringView){text.data + i + n, text.length - i - n};
  return text;
}

/* On one line, as much as fits. */
static void keep_message(WGPUStringView whole, char *out, size_t n) {
  const WGPUStringView from = behind_heading(whole);
  size_t at = 0;
  for (size_t i = 0; i < from.length && at + 1 < n; i++) {
    const bool blank = isspace((unsigned char)from.data[i]);
    if (blank && (!at || out[at - 1] == ' ')) continue;
    out[at++] = blank ? ' ' : from.data[i];
  }
  while (at && out[at - 1] == ' ') at--;
  out[at] = 0;
}

static void on_error(const WGPUDevice *device, uint32_t type, WGPUStringView message, void *user1,
                     void *user2) {
  (void)device, (void)user1, (void)user2;
  if (said.type) return;
  said.type = type;
  keep_message(message, said.message, sizeof said.message);
}

static void on_lost(const WGPUDevice *device, uint32_t reason, WGPUStringView message, void *user1,
                    void *user2) {
  gpu_device *d = user1;
  (void)device, (void)reason, (void)message, (void)user2;
  atomic_store(&d->lost, true);
}

void wgp_forget(void) { said.type = 0; }

int32_t wgp_lost(accel_plugin_error *error) {
  return kit_fail(error, ACCEL_PLUGIN_E_DEVICE_LOST, -1,
                  "the WebGPU device was lost; it can be opened again when its endpoints are "
                  "closed (system log: driver reset)");
}

/* wgpu-native tells most losses as errors of the calls that follow. */
int32_t wgp_check(gpu_device *d, const char *what, accel_plugin_error *error) {
  if (said.type && strstr(said.message, "device is lost")) atomic_store(&d->lost, true);
  if (atomic_load(&d->lost)) return wgp_lost(error);
  if (!said.type || said.type == WGPUErrorType_NoError) return ACCEL_PLUGIN_OK;
  const int32_t rc =
      said.type == WGPUErrorType_OutOfMemory ? ACCEL_PLUGIN_E_DEVICE_MEMORY : ACCEL_PLUGIN_E_DRIVER;
  kit_fail(error, rc, -1, "%s: %s", what, said.message);
  if (error) error->native = (int32_t)said.type;
  said.type = 0;
  return rc;
}

void wgp_wait(gpu_device *d, uint64_t submission) {
  pthread_mutex_lock(&d->poll_lock);
  if (!atomic_load(&d->lost)) d->f->DevicePoll(d->handle, 1, &submission);
  pthread_mutex_unlock(&d->poll_lock);
}

/* ---- devices ---- */

static uint64_t least(uint64_t a, uint64_t b) { return a < b ? a : b; }

static void fill_limits(gpu_device *d) {
  const WGPULimits *l = &d->card->limits;
  const uint64_t align =
      l->minStorageBufferOffsetAlignment > 16 ? l->minStorageBufferOffsetAlignment : 16;
  const uint32_t groups = l->maxComputeWorkgroupsPerDimension;
  const bool cpu = d->card->type == WGPUAdapterType_CPU;
  d->stride = l->minUniformBufferOffsetAlignment > GPU_PARAMS ? l->minUniformBufferOffsetAlignment
                                                              : GPU_PARAMS;
  d->limits = (gpu_limits){.binding = l->maxStorageBufferBindingSize - align,
                           .buffer = least(l->maxBufferSize / 256 * 256, 8ull << 30),
                           .align = align,
                           .groups = {groups, groups, groups},
                           .local_size = (uint32_t)least(l->maxComputeInvocationsPerWorkgroup,
                                                         l->maxComputeWorkgroupSizeX),
                           .local_bytes = l->maxComputeWorkgroupStorageSize,
                           .cpu = cpu,
                           .wave = cpu ? 1 : 32,
                           .unified = d->card->type != WGPUAdapterType_DiscreteGPU};
}

/* Every binding may be written: all parts of one buffer are bound alike, as WebGPU asks. */
static void make_layout(gpu_device *d, uint32_t n) {
  WGPUBindGroupLayoutEntry entry[GPU_BINDINGS + 1];
  wgp_layout *out = &d->layout[n];
  for (uint32_t i = 0; i < n; i++)
    entry[i] = (WGPUBindGroupLayoutEntry){.binding = i,
                                          .visibility = WGPUShaderStage_Compute,
                                          .buffer = {.type = WGPUBufferBindingType_Storage}};
  if (d->card->wgsl)
    entry[n] = (WGPUBindGroupLayoutEntry){
        .binding = n,
        .visibility = WGPUShaderStage_Compute,
        .buffer = {.type = WGPUBufferBindingType_Uniform, .hasDynamicOffset = 1}};
  const WGPUBindGroupLayoutDescriptor group = {.entryCount = n + d->card->wgsl, .entries = entry};
  out->group = d->f->DeviceCreateBindGroupLayout(d->handle, &group);
  const WGPUPipelineLayoutDescriptor whole = {.bindGroupLayoutCount = 1,
                                              .bindGroupLayouts = &out->group,
                                              .immediateSize = d->card->wgsl ? 0 : GPU_PARAMS};
  out->pipeline = d->f->DeviceCreatePipelineLayout(d->handle, &whole);
}

static void on_device(uint32_t status, WGPUDevice device, WGPUStringView message, void *user1,
                      void *user2) {
  gpu_device *d = user1;
  (void)user2;
  if (status == WGPURequestDeviceStatus_Success)
    d->handle = device;
  else
    on_error(NULL, WGPUErrorType_Validation, message, NULL, NULL);
}

static int32_t make_device(gpu_device *d, accel_plugin_error *error) {
  static const uint32_t features[] = {WGPUNativeFeature_Immediates};
  WGPULimits limits = d->card->limits;
  limits.nextInChain = NULL;
  const WGPUDeviceDescriptor wanted = {
      .requiredFeatureCount = d->card->wgsl ? 0 : sizeof features / sizeof *features,
      .requiredFeatures = features,
      .requiredLimits = &limits,
      .deviceLostCallbackInfo = {.mode = WGPUCallbackMode_AllowSpontaneous,
                                 .callback = on_lost,
                                 .userdata1 = d},
      .uncapturedErrorCallbackInfo = {.callback = on_error}};
  const WGPURequestDeviceCallbackInfo then = {
      .mode = WGPUCallbackMode_AllowSpontaneous, .callback = on_device, .userdata1 = d};
  wgp_forget();
  d->f->AdapterRequestDevice(d->card->handle, &wanted, then); /* wgpu-native answers within it */
  int32_t rc = wgp_check(d, "opening the WebGPU device", error);
  if (rc) return rc;
  if (!d->handle)
    return kit_fail(error, ACCEL_PLUGIN_E_DRIVER, -1, "wgpu-native gives no device of %s",
                    d->card->name);
  d->queue = d->f->DeviceGetQueue(d->handle);
  const uint32_t most = d->card->limits.maxStorageBuffersPerShaderStage;
  for (uint32_t n = 1; n <= GPU_BINDINGS && n <= most; n++) make_layout(d, n);
  return wgp_check(d, "opening the WebGPU device", error);
}

static void destroy(gpu_device *d) {
  const wgp_functions *f = d->f;
  if (d->handle) {
    wgp_streams_free(d);
    if (d->staging) f->BufferRelease(d->staging);
    for (uint32_t i = 0; i < GPU_KERNELS; i++)
      if (d->pipeline[i]) f->ComputePipelineRelease(d->pipeline[i]);
    for (wgp_shared *s = d->shared, *next; s; s = next) {
      next = s->next;
      f->ComputePipelineRelease(s->pipeline);
      free(s);
    }
    for (uint32_t i = 0; i <= GPU_BINDINGS; i++) {
      if (d->layout[i].pipeline) f->PipelineLayoutRelease(d->layout[i].pipeline);
      if (d->layout[i].group) f->BindGroupLayoutRelease(d->layout[i].group);
    }
    if (d->queue) f->QueueRelease(d->queue);
    f->DeviceDestroy(d->handle); /* memory is given back now, not when the last reference ends */
    f->DeviceRelease(d->handle);
  }
  pthread_mutex_destroy(&d->poll_lock);
  pthread_mutex_destroy(&d->staging_lock);
  pthread_mutex_destroy(&d->stream_lock);
  pthread_mutex_destroy(&d->shared_lock);
  free(d);
}

static int32_t make(const wgp_library *library, uint32_t index, gpu_device **out,
                    accel_plugin_error *error) {
  gpu_device *d = calloc(1, sizeof *d);
  if (!d) return kit_no_memory(error, sizeof *d);
  d->library = library;
  d->f = &library->f;
  d->card = &library->card[index];
  atomic_init(&d->quota, WGP_QUOTA);
  pthread_mutex_init(&d->poll_lock, NULL);
  pthread_mutex_init(&d->staging_lock, NULL);
  pthread_mutex_init(&d->stream_lock, NULL);
  pthread_mutex_init(&d->shared_lock, NULL);
  fill_limits(d);
  const int32_t rc = make_device(d, error);
  if (rc)
    destroy(d);
  else
    *out = d;
  return rc;
}

int32_t wgp_open(uint32_t index, const accel_plugin_options *options, gpu_device **out,
                 gpu_limits *limits, accel_plugin_error *error) {
  const wgp_library *l = wgp_open_library();
  char why[200];
  (void)options;
  *out = NULL;
  if (*l->why) return kit_fail(error, ACCEL_PLUGIN_E_DRIVER, -1, "%s", l->why);
  if (index >= l->n_card)
    return kit_fail(error, ACCEL_PLUGIN_E_ARGUMENT, -1, "no WebGPU device %u: there are %u", index,
                    l->n_card);
  wgp_unusable(&l->card[index], why, sizeof why);
  if (*why) return kit_fail(error, ACCEL_PLUGIN_E_DRIVER, -1, "%s: %s", l->card[index].name, why);
  pthread_mutex_lock(&lock);
  gpu_device *d = opened[index];
  int32_t rc = ACCEL_PLUGIN_OK;
  if (d && atomic_load(&d->lost)) rc = wgp_lost(error);
  if (!rc && !d) {
    rc = make(l, index, &d, error);
    if (!rc) opened[index] = d;
  }
  if (!rc) {
    d->users++;
    *out = d;
    *limits = d->limits;
  }
  pthread_mutex_unlock(&lock);
  return rc;
}

void wgp_close(gpu_device *d) {
  pthread_mutex_lock(&lock);
  if (--d->users == 0 && atomic_load(&d->lost)) {
    for (uint32_t i = 0; i < WGP_MAX_DEVICES; i++)
      if (opened[i] == d) opened[i] = NULL;
    destroy(d);
  }
  pthread_mutex_unlock(&lock);
}
