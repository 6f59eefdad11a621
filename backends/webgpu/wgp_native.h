/* wgp_native.h - the part of wgpu-native 29's C interface (webgpu.h and wgpu.h) that the plugin uses,
 * under its own names: structures as they lie in memory, numbers, and the functions, which come by
 * dlsym.
 *
 * webgpu.h still changes between versions, in the order of members, too: wgp_library.c asks for the
 * version before it calls anything else, and takes this one alone. */
#ifndef ACCEL_WEBGPU_WGP_NATIVE_H
#define ACCEL_WEBGPU_WGP_NATIVE_H

#include <stddef.h>
#include <stdint.h>

typedef struct WGPUInstanceImpl *WGPUInstance;
typedef struct WGPUAdapterImpl *WGPUAdapter;
typedef struct WGPUDeviceImpl *WGPUDevice;
typedef struct WGPUQueueImpl *WGPUQueue;
typedef struct WGPUBufferImpl *WGPUBuffer;
typedef struct WGPUShaderModuleImpl *WGPUShaderModule;
typedef struct WGPUBindGroupLayoutImpl *WGPUBindGroupLayout;
typedef struct WGPUBindGroupImpl *WGPUBindGroup;
typedef struct WGPUPipelineLayoutImpl *WGPUPipelineLayout;
typedef struct WGPUComputePipelineImpl *WGPUComputePipeline;
typedef struct WGPUCommandEncoderImpl *WGPUCommandEncoder;
typedef struct WGPUCommandBufferImpl *WGPUCommandBuffer;
typedef struct WGPUComputePassEncoderImpl *WGPUComputePassEncoder;

/* WGPUBackendType */
enum {
  WGPUBackendType_D3D12 = 4,
  WGPUBackendType_Metal,
  WGPUBackendType_Vulkan,
};
/* WGPUAdapterType */
enum {
  WGPUAdapterType_DiscreteGPU = 1,
  WGPUAdapterType_IntegratedGPU,
  WGPUAdapterType_CPU,
};
/* WGPUErrorType */
enum {
  WGPUErrorType_NoError = 1,
  WGPUErrorType_Validation,
  WGPUErrorType_OutOfMemory,
};
/* WGPUSType */
enum {
  WGPUSType_ShaderSourceSPIRV = 1,
  WGPUSType_ShaderSourceWGSL,
  WGPUSType_InstanceExtras = 0x30004,
};
/* WGPUBufferUsage */
enum {
  WGPUBufferUsage_MapRead = 1,
  WGPUBufferUsage_CopySrc = 4,
  WGPUBufferUsage_CopyDst = 8,
  WGPUBufferUsage_Uniform = 0x40,
  WGPUBufferUsage_Storage = 0x80,
};
/* WGPUInstanceBackend: not OpenGL, which has no immediates and prints what it lacks */
enum {
  WGPUInstanceBackend_Vulkan = 1,
  WGPUInstanceBackend_Metal = 4,
  WGPUInstanceBackend_DX12 = 8,
};
enum {
  WGPURequestDeviceStatus_Success = 1,
  WGPUMapAsyncStatus_Success = 1,
  WGPUMapMode_Read = 1,
  WGPUShaderStage_Compute = 4,
  WGPUBufferBindingType_Uniform = 2,
  WGPUBufferBindingType_Storage = 3,
  WGPUCallbackMode_AllowSpontaneous = 3,
  WGPUNativeFeature_Immediates = 0x30001,
  WGPUShaderRuntimeChecks_None = 0,
};

typedef struct WGPUStringView {
  const char *data; /* not ended by a zero */
  size_t length;
} WGPUStringView;
typedef struct WGPUFuture {
  uint64_t id;
} WGPUFuture;
typedef struct WGPUChainedStruct {
  struct WGPUChainedStruct *next;
  uint32_t sType;
} WGPUChainedStruct;

/* ---- instance, adapters, devices ---- */

typedef struct WGPUInstanceExtras { /* sType InstanceExtras */
  WGPUChainedStruct chain;
  uint64_t backends, flags;
  uint32_t dx12ShaderCompiler, gles3MinorVersion, glFenceBehaviour;
  WGPUStringView dxcPath;
  uint32_t dxcMaxShaderModel, dx12PresentationSystem;
  const uint8_t *budgetForDeviceCreation, *budgetForDeviceLoss;
  uint32_t displayHandleType; /* 0: none */
  void *displayHandle[2];
} WGPUInstanceExtras;
typedef struct WGPUInstanceDescriptor {
  const WGPUChainedStruct *nextInChain;
  size_t requiredFeatureCount;
  const uint32_t *requiredFeatures;
  const void *requiredLimits;
} WGPUInstanceDescriptor;
typedef struct WGPUAdapterInfo {
  WGPUChainedStruct *nextInChain;
  WGPUStringView vendor, architecture, device, description; /* vendor: the driver's name */
  uint32_t backendType, adapterType, vendorID, deviceID, subgroupMinSize, subgroupMaxSize;
} WGPUAdapterInfo;
typedef struct WGPULimits {
  WGPUChainedStruct *nextInChain;
  uint32_t maxTextureDimension1D, maxTextureDimension2D, maxTextureDimension3D,
      maxTextureArrayLayers, maxBindGroups, maxBindGroupsPlusVertexBuffers, maxBindingsPerBindGroup,
      maxDynamicUniformBuffersPerPipelineLayout, maxDynamicStorageBuffersPerPipelineLayout,
      maxSampledTexturesPerShaderStage, maxSamplersPerShaderStage, maxStorageBuffersPerShaderStage,
      maxStorageTexturesPerShaderStage, maxUniformBuffersPerShaderStage;
  uint64_t maxUniformBufferBindingSize, maxStorageBufferBindingSize;
  uint32_t minUniformBufferOffsetAlignment, minStorageBufferOffsetAlignment, maxVertexBuffers;
  uint64_t maxBufferSize;
  uint32_t maxVertexAttributes, maxVertexBufferArrayStride, maxInterStageShaderVariables,
      maxColorAttachments, maxColorAttachmentBytesPerSample, maxComputeWorkgroupStorageSize,
      maxComputeInvocationsPerWorkgroup, maxComputeWorkgroupSizeX, maxComputeWorkgroupSizeY,
      maxComputeWorkgroupSizeZ, maxComputeWorkgroupsPerDimension, maxImmediateSize;
} WGPULimits;

typedef void (*WGPURequestDeviceCallback)(uint32_t status, WGPUDevice device,
                                          WGPUStringView message, void *user1, void *user2);
typedef struct WGPURequestDeviceCallbackInfo {
  WGPUChainedStruct *nextInChain;
  uint32_t mode;
  WGPURequestDeviceCallback callback;
  void *userdata1, *userdata2;
} WGPURequestDeviceCallbackInfo;
typedef struct WGPUDeviceLostCallbackInfo {
  WGPUChainedStruct *nextInChain;
  uint32_t mode;
  void (*callback)(const WGPUDevice *device, uint32_t reason, WGPUStringView message, void *user1,
                   void *user2);
  void *userdata1, *userdata2;
} WGPUDeviceLostCallbackInfo;
typedef struct WGPUUncapturedErrorCallbackInfo {
  WGPUChainedStruct *nextInChain;
  void (*callback)(const WGPUDevice *device, uint32_t type, WGPUStringView message, void *user1,
                   void *user2);
  void *userdata1, *userdata2;
} WGPUUncapturedErrorCallbackInfo;
typedef struct WGPUQueueDescriptor {
  WGPUChainedStruct *nextInChain;
  WGPUStringView label;
} WGPUQueueDescriptor;
typedef struct WGPUDeviceDescriptor {
  WGPUChainedStruct *nextInChain;
  WGPUStringView label;
  size_t requiredFeatureCount;
  const uint32_t *requiredFeatures;
  const WGPULimits *requiredLimits;
  WGPUQueueDescriptor defaultQueue;
  WGPUDeviceLostCallbackInfo deviceLostCallbackInfo;
  WGPUUncapturedErrorCallbackInfo uncapturedErrorCallbackInfo;
} WGPUDeviceDescriptor;

/* ---- buffers ---- */

typedef struct WGPUBufferDescriptor {
  WGPUChainedStruct *nextInChain;
  WGPUStringView label;
  uint64_t usage, size;
  uint32_t mappedAtCreation;
} WGPUBufferDescriptor;
typedef struct WGPUBufferMapCallbackInfo {
  WGPUChainedStruct *nextInChain;
  uint32_t mode;
  void (*callback)(uint32_t status, WGPUStringView message, void *user1, void *user2);
  void *userdata1, *userdata2;
} WGPUBufferMapCallbackInfo;

/* ---- pipelines ---- */

typedef struct WGPUShaderSourceSPIRV { /* sType ShaderSourceSPIRV */
  WGPUChainedStruct chain;
  uint32_t codeSize; /* words */
  const uint32_t *code;
} WGPUShaderSourceSPIRV;
typedef struct WGPUShaderSourceWGSL { /* sType ShaderSourceWGSL */
  WGPUChainedStruct chain;
  WGPUStringView code;
} WGPUShaderSourceWGSL;
typedef struct WGPUShaderModuleDescriptor {
  const WGPUChainedStruct *nextInChain;
  WGPUStringView label;
} WGPUShaderModuleDescriptor;
typedef struct WGPUBindGroupLayoutEntry {
  WGPUChainedStruct *nextInChain;
  uint32_t binding;
  uint64_t visibility;
  uint32_t bindingArraySize;
  struct {
    WGPUChainedStruct *nextInChain;
    uint32_t type, hasDynamicOffset;
    uint64_t minBindingSize;
  } buffer;
  struct { /* zeros: not used */
    WGPUChainedStruct *nextInChain;
    uint32_t type;
  } sampler;
  struct {
    WGPUChainedStruct *nextInChain;
    uint32_t sampleType, viewDimension, multisampled;
  } texture;
  struct {
    WGPUChainedStruct *nextInChain;
    uint32_t access, format, viewDimension;
  } storageTexture;
} WGPUBindGroupLayoutEntry;
typedef struct WGPUBindGroupLayoutDescriptor {
  WGPUChainedStruct *nextInChain;
  WGPUStringView label;
  size_t entryCount;
  const WGPUBindGroupLayoutEntry *entries;
} WGPUBindGroupLayoutDescriptor;
typedef struct WGPUBindGroupEntry {
  WGPUChainedStruct *nextInChain;
  uint32_t binding;
  WGPUBuffer buffer;
  uint64_t offset, size;
  void *sampler, *textureView;
} WGPUBindGroupEntry;
typedef struct WGPUBindGroupDescriptor {
  WGPUChainedStruct *nextInChain;
  WGPUStringView label;
  WGPUBindGroupLayout layout;
  size_t entryCount;
  const WGPUBindGroupEntry *entries;
} WGPUBindGroupDescriptor;
typedef struct WGPUPipelineLayoutDescriptor {
  WGPUChainedStruct *nextInChain;
  WGPUStringView label;
  size_t bindGroupLayoutCount;
  const WGPUBindGroupLayout *bindGroupLayouts;
  uint32_t immediateSize;
} WGPUPipelineLayoutDescriptor;
typedef struct WGPUComputePipelineDescriptor {
  WGPUChainedStruct *nextInChain;
  WGPUStringView label;
  WGPUPipelineLayout layout;
  struct {
    WGPUChainedStruct *nextInChain;
    WGPUShaderModule module;
    WGPUStringView entryPoint;
    size_t constantCount;
    const void *constants;
  } compute;
} WGPUComputePipelineDescriptor;

/* ---- functions ---- */

/* WGP_FUNCTION(result, name without "wgpu", parameters): all that is used.  Handles are counted:
 * what a function gives is the caller's, until the handle's Release. */
#define WGP_FUNCTIONS(WGP_FUNCTION)                                                                \
  WGP_FUNCTION(WGPUInstance, CreateInstance, (const WGPUInstanceDescriptor *))                     \
  WGP_FUNCTION(void, InstanceRelease, (WGPUInstance))                                              \
  WGP_FUNCTION(size_t, InstanceEnumerateAdapters, (WGPUInstance, const void *, WGPUAdapter *))     \
  WGP_FUNCTION(uint32_t, AdapterGetInfo, (WGPUAdapter, WGPUAdapterInfo *))                         \
  WGP_FUNCTION(void, AdapterInfoFreeMembers, (WGPUAdapterInfo))                                    \
  WGP_FUNCTION(uint32_t, AdapterGetLimits, (WGPUAdapter, WGPULimits *))                            \
  WGP_FUNCTION(uint32_t, AdapterHasFeature, (WGPUAdapter, uint32_t))                               \
  WGP_FUNCTION(WGPUFuture, AdapterRequestDevice,                                                   \
               (WGPUAdapter, const WGPUDeviceDescriptor *, WGPURequestDeviceCallbackInfo))         \
  WGP_FUNCTION(WGPUQueue, DeviceGetQueue, (WGPUDevice))                                            \
  WGP_FUNCTION(void, DeviceRelease, (WGPUDevice))                                                  \
  WGP_FUNCTION(void, DeviceDestroy, (WGPUDevice))                                                  \
  WGP_FUNCTION(uint32_t, DevicePoll, (WGPUDevice, uint32_t, const uint64_t *))                     \
  WGP_FUNCTION(WGPUBuffer, DeviceCreateBuffer, (WGPUDevice, const WGPUBufferDescriptor *))         \
  WGP_FUNCTION(void, BufferDestroy, (WGPUBuffer))                                                  \
  WGP_FUNCTION(void, BufferRelease, (WGPUBuffer))                                                  \
  WGP_FUNCTION(WGPUFuture, BufferMapAsync,                                                         \
               (WGPUBuffer, uint64_t, size_t, size_t, WGPUBufferMapCallbackInfo))                  \
  WGP_FUNCTION(const void *, BufferGetConstMappedRange, (WGPUBuffer, size_t, size_t))              \
  WGP_FUNCTION(void, BufferUnmap, (WGPUBuffer))                                                    \
  WGP_FUNCTION(WGPUShaderModule, DeviceCreateShaderModuleTrusted,                                  \
               (WGPUDevice, const WGPUShaderModuleDescriptor *, uint64_t))                         \
  WGP_FUNCTION(void, ShaderModuleRelease, (WGPUShaderModule))                                      \
  WGP_FUNCTION(WGPUBindGroupLayout, DeviceCreateBindGroupLayout,                                   \
               (WGPUDevice, const WGPUBindGroupLayoutDescriptor *))                                \
  WGP_FUNCTION(void, BindGroupLayoutRelease, (WGPUBindGroupLayout))                                \
  WGP_FUNCTION(WGPUPipelineLayout, DeviceCreatePipelineLayout,                                     \
               (WGPUDevice, const WGPUPipelineLayoutDescriptor *))                                 \
  WGP_FUNCTION(void, PipelineLayoutRelease, (WGPUPipelineLayout))                                  \
  WGP_FUNCTION(WGPUComputePipeline, DeviceCreateComputePipeline,                                   \
               (WGPUDevice, const WGPUComputePipelineDescriptor *))                                \
  WGP_FUNCTION(void, ComputePipelineRelease, (WGPUComputePipeline))                                \
  WGP_FUNCTION(WGPUBindGroup, DeviceCreateBindGroup,                                               \
               (WGPUDevice, const WGPUBindGroupDescriptor *))                                      \
  WGP_FUNCTION(void, BindGroupRelease, (WGPUBindGroup))                                            \
  WGP_FUNCTION(WGPUCommandEncoder, DeviceCreateCommandEncoder, (WGPUDevice, const void *))         \
  WGP_FUNCTION(void, CommandEncoderRelease, (WGPUCommandEncoder))                                  \
  WGP_FUNCTION(WGPUComputePassEncoder, CommandEncoderBeginComputePass,                             \
               (WGPUCommandEncoder, const void *))                                                 \
  WGP_FUNCTION(void, CommandEncoderCopyBufferToBuffer,                                             \
               (WGPUCommandEncoder, WGPUBuffer, uint64_t, WGPUBuffer, uint64_t, uint64_t))         \
  WGP_FUNCTION(WGPUCommandBuffer, CommandEncoderFinish, (WGPUCommandEncoder, const void *))        \
  WGP_FUNCTION(void, CommandBufferRelease, (WGPUCommandBuffer))                                    \
  WGP_FUNCTION(void, ComputePassEncoderSetPipeline, (WGPUComputePassEncoder, WGPUComputePipeline)) \
  WGP_FUNCTION(void, ComputePassEncoderSetBindGroup,                                               \
               (WGPUComputePassEncoder, uint32_t, WGPUBindGroup, size_t, const uint32_t *))        \
  WGP_FUNCTION(void, ComputePassEncoderSetImmediates,                                              \
               (WGPUComputePassEncoder, uint32_t, const void *, size_t))                           \
  WGP_FUNCTION(void, ComputePassEncoderDispatchWorkgroups,                                         \
               (WGPUComputePassEncoder, uint32_t, uint32_t, uint32_t))                             \
  WGP_FUNCTION(void, ComputePassEncoderEnd, (WGPUComputePassEncoder))                              \
  WGP_FUNCTION(void, ComputePassEncoderRelease, (WGPUComputePassEncoder))                          \
  WGP_FUNCTION(void, QueueWriteBuffer, (WGPUQueue, WGPUBuffer, uint64_t, const void *, size_t))    \
  WGP_FUNCTION(uint64_t, QueueSubmitForIndex, (WGPUQueue, size_t, const WGPUCommandBuffer *))      \
  WGP_FUNCTION(void, QueueRelease, (WGPUQueue))

typedef struct wgp_functions {
#define WGP_MEMBER(result, name, parameters) result(*name) parameters;
  WGP_FUNCTIONS(WGP_MEMBER)
#undef WGP_MEMBER
} wgp_functions;

#endif
