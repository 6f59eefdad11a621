/* hsa.c - accel-probe asks the HSA runtime (libhsa-runtime64.so.1): agents, gfx names, PCI
 * addresses, memory pools.
 *
 * Declared here, so that no header is needed; where libhsa-runtime-dev is installed the compiler
 * holds the numbers to its headers. */
#include <stdio.h>
#include <string.h>

#include "hardware/probe/probe.h"

enum {
  HSA_INFO_NAME = 0,
  HSA_INFO_WAVE = 6,
  HSA_INFO_DEVICE = 17,
  HSA_INFO_CUS = 0xA002,
  HSA_INFO_BDF = 0xA006,
  HSA_INFO_PRODUCT = 0xA009,
  HSA_INFO_DOMAIN = 0xA00F,
  HSA_INFO_UUID = 0xA011,
  HSA_POOL_SEGMENT = 0,
  HSA_POOL_SIZE = 2,
  HSA_POOL_ALLOWED = 5,
  HSA_SEGMENT_GLOBAL = 0,
  HSA_KIND_GPU = 1,
  HSA_VERSION_MAJOR = 0,
  HSA_VERSION_MINOR = 1
};
#if defined(__has_include)
#if __has_include(<hsa/hsa_ext_amd.h>)
#if !defined(LITTLEENDIAN_CPU) && __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
#define LITTLEENDIAN_CPU 1 /* the header knows x86 alone */
#endif
#include <hsa/hsa.h>
#include <hsa/hsa_ext_amd.h>
_Static_assert((int)HSA_AGENT_INFO_NAME == (int)HSA_INFO_NAME &&
                   (int)HSA_AGENT_INFO_WAVEFRONT_SIZE == (int)HSA_INFO_WAVE,
               "");
_Static_assert((int)HSA_AGENT_INFO_DEVICE == (int)HSA_INFO_DEVICE &&
                   (int)HSA_DEVICE_TYPE_GPU == (int)HSA_KIND_GPU,
               "");
_Static_assert((int)HSA_AMD_AGENT_INFO_COMPUTE_UNIT_COUNT == (int)HSA_INFO_CUS &&
                   (int)HSA_AMD_AGENT_INFO_BDFID == (int)HSA_INFO_BDF,
               "");
_Static_assert((int)HSA_AMD_AGENT_INFO_PRODUCT_NAME == (int)HSA_INFO_PRODUCT &&
                   (int)HSA_AMD_AGENT_INFO_DOMAIN == (int)HSA_INFO_DOMAIN,
               "");
_Static_assert((int)HSA_AMD_AGENT_INFO_UUID == (int)HSA_INFO_UUID &&
                   (int)HSA_AMD_MEMORY_POOL_INFO_SIZE == (int)HSA_POOL_SIZE,
               "");
_Static_assert((int)HSA_AMD_MEMORY_POOL_INFO_RUNTIME_ALLOC_ALLOWED == (int)HSA_POOL_ALLOWED, "");
_Static_assert(sizeof(hsa_agent_t) == 8 && sizeof(hsa_amd_memory_pool_t) == 8, "");
#endif
#endif

typedef struct handle { /* hsa_agent_t and hsa_amd_memory_pool_t: a struct of one uint64 */
  uint64_t value;
} handle;

typedef struct hsa_api {
  int (*init)(void);
  int (*agents)(int (*visit)(handle agent, void *user), void *user);
  int (*info)(handle agent, int what, void *value);
  int (*system)(int what, void *value);
  int (*status)(int code, const char **text);
  int (*pools)(handle agent, int (*visit)(handle pool, void *user), void *user);
  int (*pool_info)(handle pool, int what, void *value);
} hsa_api;

typedef struct visit_state {
  probe_report *report;
  const hsa_api *api;
  probe_device *device;
} visit_state;

static int visit_pool(handle pool, void *user) {
  visit_state *s = user;
  uint32_t segment = ~0u;
  size_t size = 0;
  bool allowed = false;
  if (s->api->pool_info(pool, HSA_POOL_SEGMENT, &segment) || segment != HSA_SEGMENT_GLOBAL)
    return 0;
  if (s->api->pool_info(pool, HSA_POOL_ALLOWED, &allowed) || !allowed) return 0;
  /* The fine and the coarse grained pool of one card are the same bytes. */
  if (!s->api->pool_info(pool, HSA_POOL_SIZE, &size) && size > s->device->memory_total)
    s->device->memory_total = size;
  return 0;
}

static int visit_agent(handle agent, void *user) {
  visit_state *s = user;
  const hsa_api *api = s->api;
  int kind = 0;
  uint32_t bdf = 0, domain = 0;
  char text[128] = "";
  if (api->info(agent, HSA_INFO_DEVICE, &kind) || kind != HSA_KIND_GPU) return 0;
  probe_device *d = s->device = probe_add(s->report);
  if (!d) return 0;
  /* "gfx1030" */
  if (!api->info(agent, HSA_INFO_NAME, text)) snprintf(d->arch, sizeof d->arch, "%.31s", text);
  memset(text, 0, sizeof text);
  if (!api->info(agent, HSA_INFO_PRODUCT, text)) snprintf(d->name, sizeof d->name, "%.64s", text);
  memset(text, 0, sizeof text);
  if (!api->info(agent, HSA_INFO_UUID, text)) snprintf(d->uuid, sizeof d->uuid, "%.21s", text);
  if (!api->info(agent, HSA_INFO_BDF, &bdf)) {
    if (api->info(agent, HSA_INFO_DOMAIN, &domain)) domain = 0; /* older runtimes lack it */
    snprintf(d->id, sizeof d->id, "%04x:%02x:%02x.%x", domain & 0xffff, bdf >> 8 & 255,
             bdf >> 3 & 31, bdf & 7);
  }
  if (api->info(agent, HSA_INFO_CUS, &d->units)) d->units = 0;
  if (api->info(agent, HSA_INFO_WAVE, &d->wave)) d->wave = 0;
  if (api->pools && api->pool_info) api->pools(agent, visit_pool, s);
  return 0;
}

static void fail(probe_report *r, const hsa_api *api, const char *call, int code) {
  const char *text = NULL;
  if (api->status) api->status(code, &text);
  snprintf(r->error, sizeof r->error, "%s answered 0x%x (%s)", call, (unsigned)code,
           text ? text : "no text");
  snprintf(r->remedy, sizeof r->remedy,
           "see whether the amdgpu driver is loaded and /dev/kfd may be opened");
}

void probe_hsa(probe_report *r) {
  static const char *const names[] = {"libhsa-runtime64.so.1",
                                      "/opt/rocm/lib/libhsa-runtime64.so.1", NULL};
  hsa_api api = {0};
  uint16_t major = 0, minor = 0;
  void *library =
      probe_open(r, names, "install the HSA runtime (ROCm, or Debian's libhsa-runtime64-1)");
  if (!library) return;
  probe_optional(library, "hsa_status_string", &api.status);
  probe_optional(library, "hsa_system_get_info", &api.system);
  probe_optional(library, "hsa_amd_agent_iterate_memory_pools", &api.pools);
  probe_optional(library, "hsa_amd_memory_pool_get_info", &api.pool_info);
  if (!probe_symbol(r, library, "hsa_init", &api.init) ||
      !probe_symbol(r, library, "hsa_iterate_agents", &api.agents) ||
      !probe_symbol(r, library, "hsa_agent_get_info", &api.info))
    return;
  probe_stage("hsa_init");
  int code = api.init();
  if (code) {
    fail(r, &api, "hsa_init", code);
    return;
  }
  if (api.system && !api.system(HSA_VERSION_MAJOR, &major) &&
      !api.system(HSA_VERSION_MINOR, &minor))
    snprintf(r->version, sizeof r->version, "%u.%u", major, minor);
  probe_stage("hsa_iterate_agents");
  visit_state state = {.report = r, .api = &api};
  code = api.agents(visit_agent, &state);
  if (code) fail(r, &api, "hsa_iterate_agents", code);
}
