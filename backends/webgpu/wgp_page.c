/* wgp_page.c - the calls of wgp_functions in a web page: see wgp_page.h. */
#include "webgpu/wgp_page.h"

#include <emscripten.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "webgpu/wgp.h"

static wgp_ring ring;
static pthread_mutex_t ring_lock = PTHREAD_MUTEX_INITIALIZER;
static _Atomic uint32_t handles;     /* the last one given */
static _Atomic uint64_t submissions; /* likewise */
/* of the device, which is one */
static WGPUDeviceLostCallbackInfo on_lost;
static WGPUUncapturedErrorCallbackInfo on_error;

EMSCRIPTEN_KEEPALIVE wgp_ring *accel_browser_gpu_ring(void) { return &ring; }

/* ---- the ring ---- */

static void sleep_while(_Atomic uint32_t *word, uint32_t value) {
  while (atomic_load(word) == value)
    __builtin_wasm_memory_atomic_wait32((int *)word, (int)value, -1);
}

static void wait_for_room(uint32_t words) {
  for (;;) {
    const uint32_t read = atomic_load(&ring.read);
    if (atomic_load(&ring.written) - read + words <= WGP_RING) return;
    sleep_while(&ring.read, read);
  }
}

/* A record is never cut by the ring's end. */
static void put(wgp_call call, const uint32_t *args, uint32_t n) {
  pthread_mutex_lock(&ring_lock);
  uint32_t at = atomic_load(&ring.written), left = WGP_RING - at % WGP_RING;
  if (left < n + 1) {
    wait_for_room(left);
    ring.words[at % WGP_RING] = left << 8 | WGP_CALL_SKIP;
    at += left;
    atomic_store(&ring.written, at);
  }
  wait_for_room(n + 1);
  ring.words[at % WGP_RING] = (n + 1) << 8 | call;
  memcpy(&ring.words[at % WGP_RING + 1], args, (size_t)4 * n);
  atomic_store(&ring.written, at + n + 1);
  __builtin_wasm_memory_atomic_notify((int *)&ring.written, 1);
  pthread_mutex_unlock(&ring_lock);
}

#define ID(handle) ((uint32_t)(uintptr_t)(handle))
#define LOW(n)     ((uint32_t)(n))
#define HIGH(n)    ((uint32_t)((uint64_t)(n) >> 32))
#define PUT(call, ...)                                         \
  do {                                                         \
    const uint32_t args_[] = {__VA_ARGS__};                    \
    put(WGP_CALL_##call, args_, sizeof args_ / sizeof *args_); \
  } while (0)

static uint32_t new_handle(void) { return atomic_fetch_add(&handles, 1) + 1; }

/* Sleeps until the worker has answered, and tells the plugin what it says, as wgpu-native does: within
 * the call, in its thread. */
static void wait_for(wgp_reply *reply) {
  sleep_while(&reply->done, 0);
  if (atomic_load(&ring.lost) && on_lost.callback)
    on_lost.callback(NULL, 0, (WGPUStringView){0}, on_lost.userdata1, on_lost.userdata2);
  if (reply->error && on_error.callback)
    on_error.callback(NULL, reply->error, (WGPUStringView){reply->message, strlen(reply->message)},
                      on_error.userdata1, on_error.userdata2);
}

/* ---- instance, adapter, device ---- */

static WGPUFuture request_device(WGPUAdapter adapter, const WGPUDeviceDescriptor *wanted,
                                 WGPURequestDeviceCallbackInfo then) {
  wgp_reply reply = {0};
  const uint32_t id = new_handle();
  (void)adapter;
  on_lost = wanted->deviceLostCallbackInfo;
  on_error = wanted->uncapturedErrorCallbackInfo;
  atomic_store(&ring.lost, 0);
  PUT(DEVICE, ID(&reply), id);
  wait_for(&reply);
  if (!reply.error)
    then.callback(WGPURequestDeviceStatus_Success, (WGPUDevice)(uintptr_t)id, (WGPUStringView){0},
                  then.userdata1, then.userdata2);
  return (WGPUFuture){0};
}

static WGPUQueue queue_of(WGPUDevice device) { return (WGPUQueue)(uintptr_t)ID(device); }

#define RELEASE(type) \
  static void release_##type(type handle) { PUT(RELEASE, ID(handle)); }
RELEASE(WGPUDevice)
RELEASE(WGPUBuffer)
RELEASE(WGPUShaderModule)
RELEASE(WGPUBindGroupLayout)
RELEASE(WGPUPipelineLayout)
RELEASE(WGPUComputePipeline)
RELEASE(WGPUBindGroup)
RELEASE(WGPUCommandEncoder)
RELEASE(WGPUCommandBuffer)
RELEASE(WGPUComputePassEncoder)

/* A queue is its device's, which Destroy takes down before its last Release. */
static void release_queue(WGPUQueue queue) { (void)queue; }
static void destroy_device(WGPUDevice device) { (void)device; }

static uint32_t poll(WGPUDevice device, uint32_t wait, const uint64_t *submission) {
  wgp_reply reply = {0};
  (void)wait;
  PUT(POLL, ID(&reply), ID(device), LOW(*submission));
  wait_for(&reply);
  return 1;
}

/* ---- buffers ---- */

static WGPUBuffer create_buffer(WGPUDevice device, const WGPUBufferDescriptor *wanted) {
  wgp_reply reply = {0};
  const uint32_t id = new_handle();
  PUT(BUFFER, ID(&reply), ID(device), id, LOW(wanted->usage), LOW(wanted->size),
      HIGH(wanted->size));
  wait_for(&reply);
  return (WGPUBuffer)(uintptr_t)id;
}

/* What was mapped last, a copy in the module's memory: the plugin maps one buffer at a time. */
static void *mapped;

static WGPUFuture map_buffer(WGPUBuffer buffer, uint64_t mode, size_t offset, size_t size,
                             WGPUBufferMapCallbackInfo then) {
  wgp_reply reply = {0};
  (void)mode;
  mapped = malloc(size);
  if (mapped) {
    PUT(MAP, ID(&reply), ID(buffer), (uint32_t)offset, (uint32_t)size, ID(mapped));
    wait_for(&reply);
  }
  if (reply.error) {
    free(mapped);
    mapped = NULL;
  }
  then.callback(mapped ? WGPUMapAsyncStatus_Success : 0, (WGPUStringView){0}, then.userdata1,
                then.userdata2);
  return (WGPUFuture){0};
}

static const void *mapped_range(WGPUBuffer buffer, size_t offset, size_t size) {
  (void)buffer, (void)offset, (void)size;
  return mapped;
}

static void unmap(WGPUBuffer buffer) {
  (void)buffer;
  free(mapped);
  mapped = NULL;
}

/* The browser has copied the data when the worker answers. */
static void write_buffer(WGPUQueue queue, WGPUBuffer buffer, uint64_t offset, const void *data,
                         size_t size) {
  wgp_reply reply = {0};
  PUT(WRITE, ID(&reply), ID(queue), ID(buffer), LOW(offset), HIGH(offset), ID(data),
      (uint32_t)size);
  wait_for(&reply);
}

/* ---- pipelines ---- */

static WGPUShaderModule create_shader(WGPUDevice device, const WGPUShaderModuleDescriptor *wanted,
                                      uint64_t checks) {
  const WGPUShaderSourceWGSL *source = (const WGPUShaderSourceWGSL *)wanted->nextInChain;
  wgp_reply reply = {0};
  const uint32_t id = new_handle();
  (void)checks;
  PUT(SHADER, ID(&reply), ID(device), id, ID(source->code.data), (uint32_t)source->code.length);
  wait_for(&reply);
  return (WGPUShaderModule)(uintptr_t)id;
}

static WGPUBindGroupLayout create_group_layout(WGPUDevice device,
                                               const WGPUBindGroupLayoutDescriptor *wanted) {
  uint32_t args[WGP_RECORD] = {ID(device), new_handle(), (uint32_t)wanted->entryCount};
  uint32_t n = 3;
  for (size_t i = 0; i < wanted->entryCount; i++)
    args[n++] = wanted->entries[i].buffer.type == WGPUBufferBindingType_Uniform;
  put(WGP_CALL_GROUP_LAYOUT, args, n);
  return (WGPUBindGroupLayout)(uintptr_t)args[1];
}

static WGPUPipelineLayout create_pipeline_layout(WGPUDevice device,
                                                 const WGPUPipelineLayoutDescriptor *wanted) {
  const uint32_t id = new_handle();
  PUT(PIPELINE_LAYOUT, ID(device), id, ID(wanted->bindGroupLayouts[0]));
  return (WGPUPipelineLayout)(uintptr_t)id;
}

static WGPUComputePipeline create_pipeline(WGPUDevice device,
                                           const WGPUComputePipelineDescriptor *wanted) {
  wgp_reply reply = {0};
  const uint32_t id = new_handle();
  PUT(PIPELINE, ID(&reply), ID(device), id, ID(wanted->layout), ID(wanted->compute.module));
  wait_for(&reply);
  return (WGPUComputePipeline)(uintptr_t)id;
}

static WGPUBindGroup create_group(WGPUDevice device, const WGPUBindGroupDescriptor *wanted) {
  uint32_t args[WGP_RECORD] = {ID(device), new_handle(), ID(wanted->layout),
                               (uint32_t)wanted->entryCount};
  uint32_t n = 4;
  for (size_t i = 0; i < wanted->entryCount; i++) {
    const WGPUBindGroupEntry *e = &wanted->entries[i];
    args[n++] = ID(e->buffer);
    args[n++] = LOW(e->offset);
    args[n++] = HIGH(e->offset);
    args[n++] = LOW(e->size);
    args[n++] = HIGH(e->size);
  }
  put(WGP_CALL_BIND_GROUP, args, n);
  return (WGPUBindGroup)(uintptr_t)args[1];
}

/* ---- commands ---- */

static WGPUCommandEncoder create_encoder(WGPUDevice device, const void *wanted) {
  const uint32_t id = new_handle();
  (void)wanted;
  PUT(ENCODER, ID(device), id);
  return (WGPUCommandEncoder)(uintptr_t)id;
}

static WGPUComputePassEncoder begin_pass(WGPUCommandEncoder encoder, const void *wanted) {
  const uint32_t id = new_handle();
  (void)wanted;
  PUT(PASS, ID(encoder), id);
  return (WGPUComputePassEncoder)(uintptr_t)id;
}

static void copy_buffer(WGPUCommandEncoder encoder, WGPUBuffer from, uint64_t from_offset,
                        WGPUBuffer to, uint64_t to_offset, uint64_t bytes) {
  PUT(COPY, ID(encoder), ID(from), LOW(from_offset), HIGH(from_offset), ID(to), LOW(to_offset),
      HIGH(to_offset), LOW(bytes), HIGH(bytes));
}

static WGPUCommandBuffer finish(WGPUCommandEncoder encoder, const void *wanted) {
  const uint32_t id = new_handle();
  (void)wanted;
  PUT(FINISH, ID(encoder), id);
  return (WGPUCommandBuffer)(uintptr_t)id;
}

static void set_pipeline(WGPUComputePassEncoder pass, WGPUComputePipeline pipeline) {
  PUT(SET_PIPELINE, ID(pass), ID(pipeline));
}

static void set_group(WGPUComputePassEncoder pass, uint32_t index, WGPUBindGroup group, size_t n,
                      const uint32_t *offsets) {
  (void)index, (void)n;
  PUT(SET_GROUP, ID(pass), ID(group), offsets[0]);
}

static void dispatch(WGPUComputePassEncoder pass, uint32_t x, uint32_t y, uint32_t z) {
  PUT(DISPATCH, ID(pass), x, y, z);
}

static void end_pass(WGPUComputePassEncoder pass) { PUT(END, ID(pass)); }

static uint64_t submit(WGPUQueue queue, size_t n, const WGPUCommandBuffer *commands) {
  const uint64_t index = atomic_fetch_add(&submissions, 1) + 1;
  PUT(SUBMIT, ID(queue), LOW(index), n ? ID(commands[0]) : 0);
  return index;
}

/* ---- the library ---- */

static const wgp_functions functions = {
    .AdapterRequestDevice = request_device,
    .DeviceGetQueue = queue_of,
    .DeviceRelease = release_WGPUDevice,
    .DeviceDestroy = destroy_device,
    .DevicePoll = poll,
    .DeviceCreateBuffer = create_buffer,
    .BufferRelease = release_WGPUBuffer,
    .BufferMapAsync = map_buffer,
    .BufferGetConstMappedRange = mapped_range,
    .BufferUnmap = unmap,
    .DeviceCreateShaderModuleTrusted = create_shader,
    .ShaderModuleRelease = release_WGPUShaderModule,
    .DeviceCreateBindGroupLayout = create_group_layout,
    .BindGroupLayoutRelease = release_WGPUBindGroupLayout,
    .DeviceCreatePipelineLayout = create_pipeline_layout,
    .PipelineLayoutRelease = release_WGPUPipelineLayout,
    .DeviceCreateComputePipeline = create_pipeline,
    .ComputePipelineRelease = release_WGPUComputePipeline,
    .DeviceCreateBindGroup = create_group,
    .BindGroupRelease = release_WGPUBindGroup,
    .DeviceCreateCommandEncoder = create_encoder,
    .CommandEncoderRelease = release_WGPUCommandEncoder,
    .CommandEncoderBeginComputePass = begin_pass,
    .CommandEncoderCopyBufferToBuffer = copy_buffer,
    .CommandEncoderFinish = finish,
    .CommandBufferRelease = release_WGPUCommandBuffer,
    .ComputePassEncoderSetPipeline = set_pipeline,
    .ComputePassEncoderSetBindGroup = set_group,
    .ComputePassEncoderDispatchWorkgroups = dispatch,
    .ComputePassEncoderEnd = end_pass,
    .ComputePassEncoderRelease = release_WGPUComputePassEncoder,
    .QueueWriteBuffer = write_buffer,
    .QueueSubmitForIndex = submit,
    .QueueRelease = release_queue,
};

static wgp_library library;

static void take_adapter(wgp_card *card, const wgp_page_adapter *a) {
  const double *l = a->limits;
  snprintf(card->name, sizeof card->name, "%s", a->name);
  snprintf(card->driver, sizeof card->driver, "%s", a->vendor);
  snprintf(card->api, sizeof card->api, "browser");
  card->type = a->software ? WGPUAdapterType_CPU : 0; /* which kind of card no browser says */
  card->wgsl = card->browser = true;
  card->limits = (WGPULimits){
      .maxStorageBuffersPerShaderStage = (uint32_t)l[0],
      .maxStorageBufferBindingSize = (uint64_t)l[1],
      .maxBufferSize = (uint64_t)l[2],
      .minStorageBufferOffsetAlignment = (uint32_t)l[3],
      .minUniformBufferOffsetAlignment = (uint32_t)l[4],
      .maxComputeWorkgroupStorageSize = (uint32_t)l[5],
      .maxComputeInvocationsPerWorkgroup = (uint32_t)l[6],
      .maxComputeWorkgroupSizeX = (uint32_t)l[7],
      .maxComputeWorkgroupsPerDimension = (uint32_t)l[8],
  };
}

static void find(void) {
  wgp_page_adapter a = {0};
  if (!atomic_load(&ring.attached)) {
    snprintf(library.why, sizeof library.why,
             "this browser has no WebGPU in its workers (navigator.gpu, Atomics.waitAsync): take a "
             "newer one, or the device cpu");
    return;
  }
  PUT(ADAPTER, ID(&a));
  wait_for(&a.reply);
  if (a.reply.error) {
    snprintf(library.why, sizeof library.why, "%s", a.reply.message);
    return;
  }
  library.f = functions;
  snprintf(library.version, sizeof library.version, "of the"); /* browser */
  library.n_card = 1;
  take_adapter(&library.card[0], &a);
}

const wgp_library *wgp_open_library(void) {
  static pthread_once_t once = PTHREAD_ONCE_INIT;
  pthread_once(&once, find);
  return &library;
}
