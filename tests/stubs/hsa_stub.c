/* hsa_stub.c - a libhsa-runtime64 for tests.  STUB_HSA: unset or "none" a processor alone, "denied"
 * (as without access to /dev/kfd), "crash", else GPUs "gfx@name@bus:device.function in hex@MiB"
 * joined by '|'; HSA_OVERRIDE_GFX_VERSION=X.Y.Z replaces the gfx name. */
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define STUB_API __attribute__((visibility("default")))
typedef struct handle {
  uint64_t value;
} handle;
STUB_API int hsa_init(void);
STUB_API int hsa_iterate_agents(int (*visit)(handle, void *), void *user);
STUB_API int hsa_agent_get_info(handle agent, int what, void *value);
STUB_API int hsa_system_get_info(int what, void *value);
STUB_API int hsa_status_string(int code, const char **text);
STUB_API int hsa_amd_agent_iterate_memory_pools(handle agent, int (*visit)(handle, void *),
                                                void *user);
STUB_API int hsa_amd_memory_pool_get_info(handle pool, int what, void *value);

enum { MAX_CARDS = 8 };
static struct {
  char gfx[32], name[65];
  uint32_t bdf;
  size_t bytes;
} card[MAX_CARDS];
static uint64_t n_cards;

static void read_card(const char *text) {
  unsigned bus, device, function, mib;
  if (sscanf(text, "%31[^@]@%64[^@]@%x:%x.%x@%u", card[n_cards].gfx, card[n_cards].name, &bus,
             &device, &function, &mib) != 6)
    return;
  unsigned major, minor, step;
  const char *override = getenv("HSA_OVERRIDE_GFX_VERSION");
  if (override && sscanf(override, "%u.%u.%u", &major, &minor, &step) == 3)
    snprintf(card[n_cards].gfx, sizeof card[n_cards].gfx, "gfx%u%x%x", major, minor, step);
  card[n_cards].bdf = bus << 8 | device << 3 | function;
  card[n_cards++].bytes = (size_t)mib << 20;
}

int hsa_init(void) {
  const char *mode = getenv("STUB_HSA");
  if (!mode || !strcmp(mode, "none")) return 0;
  if (!strcmp(mode, "denied")) return 0x1008;
  if (!strcmp(mode, "crash")) raise(SIGABRT);
  for (const char *text = mode; text && n_cards < MAX_CARDS;
       text = strchr(text, '|') ? strchr(text, '|') + 1 : NULL)
    read_card(text);
  return 0;
}
/* Agent 0 is the processor, 1.. are cards. */
int hsa_iterate_agents(int (*visit)(handle, void *), void *user) {
  for (uint64_t i = 0; i <= n_cards; i++) {
    int code = visit((handle){i}, user);
    if (code) return code;
  }
  return 0;
}
int hsa_agent_get_info(handle agent, int what, void *value) {
  uint64_t i = agent.value - 1;
  uint32_t number = 0;
  if (what == 17) {
    int kind = agent.value ? 1 : 0;
    memcpy(value, &kind, sizeof kind);
    return 0;
  }
  if (!agent.value) return 0x1001;
  if (what == 0)
    strcpy(value, card[i].gfx);
  else if (what == 0xA009)
    strcpy(value, card[i].name);
  else if (what == 0xA011)
    snprintf(value, 21, "GPU-%016x", (unsigned)card[i].bdf);
  else if (what == 0xA006 || what == 0xA002 || what == 6 || what == 0xA00F) {
    number = what == 0xA006 ? card[i].bdf : what == 0xA002 ? 40 : what == 6 ? 32 : 0;
    memcpy(value, &number, sizeof number);
  } else
    return 0x1001;
  return 0;
}
int hsa_system_get_info(int what, void *value) {
  uint16_t version[2] = {1, 14};
  if (what > 1) return 0x1001;
  memcpy(value, &version[what], 2);
  return 0;
}
int hsa_status_string(int code, const char **text) {
  *text = code == 0x1008 ? "out of resources" : "stub error";
  return 0;
}
int hsa_amd_agent_iterate_memory_pools(handle agent, int (*visit)(handle, void *), void *user) {
  return visit(agent, user);
}
int hsa_amd_memory_pool_get_info(handle pool, int what, void *value) {
  uint32_t segment = 0;
  bool allowed = true;
  if (what == 0)
    memcpy(value, &segment, sizeof segment);
  else if (what == 2)
    memcpy(value, &card[pool.value - 1].bytes, sizeof(size_t));
  else if (what == 5)
    memcpy(value, &allowed, sizeof allowed);
  else
    return 0x1001;
  return 0;
}
