/* wgp_library.c - wgpu-native by dlopen, and the adapters that it shows.
 *
 * A library or driver that crashes is met first by accel-probe, which asks `devices` in a process of
 * its own. */
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "shared/library_places.h"
#include "webgpu/wgp.h"

static struct {
  pthread_once_t once;
  wgp_library library;
} found = {.once = PTHREAD_ONCE_INIT};

/* The structures of other versions lie otherwise: nothing but this is called before. */
static bool version_fits(wgp_library *l, void *library) {
  uint32_t (*get)(void) = NULL;
  *(void **)&get = dlsym(library, "wgpuGetVersion");
  if (!get) {
    snprintf(l->why, sizeof l->why,
             "%.90s has no wgpuGetVersion, so it is not wgpu-native (Dawn is not supported); pip "
             "install wgpu==0.32.0",
             l->path);
    return false;
  }
  const uint32_t v = get();
  snprintf(l->version, sizeof l->version, "%u.%u.%u.%u", v >> 24, v >> 16 & 255, v >> 8 & 255,
           v & 255);
  if (v >> 24 == ACCEL_WEBGPU_VERSION) return true;
  snprintf(l->why, sizeof l->why,
           "%.90s is wgpu-native %s, whose structures are others than those of %d: pip install "
           "wgpu==0.32.0",
           l->path, l->version, ACCEL_WEBGPU_VERSION);
  return false;
}

static bool load_functions(wgp_library *l) {
  const accel_library_wish wish = {getenv("ACCEL_WEBGPU_DIR"), getenv("VIRTUAL_ENV"),
                                   getenv("HOME")};
  accel_library_find(&accel_webgpu_places, &wish, l->path);
  void *library = dlopen(l->path, RTLD_NOW | RTLD_LOCAL);
  if (!library) {
    const char *sentence = dlerror();
    snprintf(l->why, sizeof l->why, "%.100s; %s", sentence ? sentence : l->path,
             ACCEL_WEBGPU_REMEDY);
    return false;
  }
  if (!version_fits(l, library)) return false;
#define WGP_LOAD(result, name, parameters)                                                     \
  *(void **)&l->f.name = dlsym(library, "wgpu" #name);                                         \
  if (!l->f.name) {                                                                            \
    snprintf(l->why, sizeof l->why, "%.120s has no wgpu" #name ": reinstall it (%s)", l->path, \
             "pip install --force-reinstall wgpu==0.32.0");                                    \
    return false;                                                                              \
  }
  WGP_FUNCTIONS(WGP_LOAD)
#undef WGP_LOAD
  return true;
}

static const char *api_of(uint32_t backend) {
  switch (backend) {
    case WGPUBackendType_Vulkan:
      return "Vulkan";
    case WGPUBackendType_Metal:
      return "Metal";
    case WGPUBackendType_D3D12:
      return "D3D12";
    default:
      return "another API";
  }
}

static void describe(const wgp_functions *f, wgp_card *card) {
  WGPUAdapterInfo info = {0};
  card->limits = (WGPULimits){0};
  f->AdapterGetLimits(card->handle, &card->limits);
  card->has_immediates = f->AdapterHasFeature(card->handle, WGPUNativeFeature_Immediates);
  f->AdapterGetInfo(card->handle, &info);
  snprintf(card->api, sizeof card->api, "%s", api_of(info.backendType));
  snprintf(card->name, sizeof card->name, "%.*s", (int)info.device.length,
           info.device.data ? info.device.data : "");
  snprintf(card->driver, sizeof card->driver, "%.*s%s%.*s", (int)info.vendor.length,
           info.vendor.data ? info.vendor.data : "", info.description.length ? " " : "",
           (int)info.description.length, info.description.data ? info.description.data : "");
  card->type = info.adapterType;
  card->vendor = info.vendorID;
  card->device = info.deviceID;
  f->AdapterInfoFreeMembers(info);
  const char *shaders = getenv("ACCEL_WEBGPU_SHADERS"); /* wgsl: as a page has it, for tests */
  card->wgsl = !card->has_immediates || card->limits.maxImmediateSize < GPU_PARAMS ||
               (shaders && !strcmp(shaders, "wgsl"));
}

static void find(void) {
  wgp_library *l = &found.library;
  if (!load_functions(l)) return;
  const WGPUInstanceExtras extras = {.chain = {.sType = WGPUSType_InstanceExtras},
                                     .backends = WGPUInstanceBackend_Vulkan |
                                                 WGPUInstanceBackend_Metal |
                                                 WGPUInstanceBackend_DX12};
  const WGPUInstanceDescriptor wanted = {.nextInChain = &extras.chain};
  WGPUAdapter adapter[WGP_MAX_DEVICES];
  l->instance = l->f.CreateInstance(&wanted);
  size_t n = l->instance ? l->f.InstanceEnumerateAdapters(l->instance, NULL, NULL) : 0;
  if (n > WGP_MAX_DEVICES) n = 0; /* the list is given whole or not at all */
  if (n) n = l->f.InstanceEnumerateAdapters(l->instance, NULL, adapter);
  for (size_t i = 0; i < n && i < WGP_MAX_DEVICES; i++) {
    l->card[i].handle = adapter[i];
    describe(&l->f, &l->card[i]);
    l->n_card++;
  }
  if (!l->n_card)
    snprintf(l->why, sizeof l->why,
             "wgpu-native %s finds no adapter: install the card's Vulkan driver (Debian: "
             "mesa-vulkan-drivers)",
             l->version);
}

const wgp_library *wgp_open_library(void) {
  pthread_once(&found.once, find);
  return &found.library;
}
