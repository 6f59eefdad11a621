/* hip_stub.c - a libamdhip64 for tests.  STUB_HIP: unset or "none" no device, "crash", "hang",
 * "fail" (code 999), "print" (writes to stdout like a talkative driver, then one device), else
 * devices "name@pci@MiB" joined by '|'. HIP_VISIBLE_DEVICES is obeyed. */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define STUB_API __attribute__((visibility("default")))
STUB_API int hipInit(unsigned flags);
STUB_API int hipGetDeviceCount(int *n);
STUB_API int hipDeviceGetName(char *name, int n, int device);
STUB_API int hipDeviceTotalMem(size_t *bytes, int device);
STUB_API int hipDeviceGetPCIBusId(char *id, int n, int device);
STUB_API int hipRuntimeGetVersion(int *version);
STUB_API const char *hipGetErrorString(int code);

enum { MAX_CARDS = 8 };
static struct {
  char name[128], id[32];
  size_t bytes;
} card[MAX_CARDS];
static int n_cards;

static void read_cards(const char *text) {
  n_cards = 0;
  while (text && *text && n_cards < MAX_CARDS) {
    unsigned mib = 0;
    if (sscanf(text, "%127[^@]@%31[^@]@%u", card[n_cards].name, card[n_cards].id, &mib) == 3)
      card[n_cards++].bytes = (size_t)mib << 20;
    text = strchr(text, '|');
    if (text) text++;
  }
  const char *visible = getenv("HIP_VISIBLE_DEVICES");
  if (visible && *visible && n_cards) { /* one number is all the tests need */
    int only = atoi(visible);
    if (only < 0 || only >= n_cards)
      n_cards = 0;
    else
      card[0] = card[only], n_cards = 1;
  }
}

int hipInit(unsigned flags) {
  const char *mode = getenv("STUB_HIP");
  (void)flags;
  if (!mode) mode = "none";
  if (!strcmp(mode, "crash")) raise(SIGSEGV);
  if (!strcmp(mode, "hang"))
    for (;;) sleep(1000);
  if (!strcmp(mode, "fail")) return 999;
  if (!strcmp(mode, "print")) {
    printf("{\"vendor\":\"nonsense\"} from a talkative driver\n");
    fflush(stdout);
    mode = "Stub Radeon@0000:03:00.0@1024";
  }
  read_cards(strcmp(mode, "none") ? mode : NULL);
  return n_cards ? 0 : 100;
}
int hipGetDeviceCount(int *n) {
  *n = n_cards;
  return n_cards ? 0 : 100;
}
int hipDeviceGetName(char *name, int n, int device) {
  snprintf(name, (size_t)n, "%s", card[device].name);
  return 0;
}
int hipDeviceTotalMem(size_t *bytes, int device) {
  *bytes = card[device].bytes;
  return 0;
}
int hipDeviceGetPCIBusId(char *id, int n, int device) {
  snprintf(id, (size_t)n, "%s", card[device].id);
  return 0;
}
int hipRuntimeGetVersion(int *version) {
  *version = 60032831;
  return 0;
}
const char *hipGetErrorString(int code) {
  return code == 999 ? "stub says no" : "no ROCm-capable device is detected";
}
