/* no_device_test.c - a plugin of backends/hip on a machine without its hardware: it loads, lists
 * nothing, gives the reason to the log, and everything that needs a device is an error with that
 * reason. no_device_test libaccel_rocm.so Exit code 77: there is a device here. */
#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

#include "accel/plugin.h"

static char said[512];

static void hear(void *self, int level, const char *message) {
  (void)self, (void)level;
  snprintf(said, sizeof said, "%s", message);
}

#define EXPECT(condition)                                     \
  do {                                                        \
    if (!(condition)) {                                       \
      printf("line %d: expected %s\n", __LINE__, #condition); \
      return 1;                                               \
    }                                                         \
  } while (0)

int main(int argc, char **argv) {
  EXPECT(argc == 2);
  void *library = dlopen(argv[1], RTLD_NOW | RTLD_LOCAL);
  if (!library) printf("%s\n", dlerror());
  EXPECT(library);
  accel_plugin_query_fn query = NULL;
  void *symbol = dlsym(library, ACCEL_PLUGIN_QUERY_SYMBOL);
  memcpy(&query, &symbol, sizeof query);
  EXPECT(query);
  accel_plugin_host host = {.size = sizeof host, .abi = ACCEL_PLUGIN_ABI_NOW, .log = hear};
  const accel_plugin *plugin = query(&host, ACCEL_PLUGIN_ABI_NOW);
  EXPECT(plugin);
  accel_plugin_device device[8];
  for (int i = 0; i < 8; i++) device[i] = (accel_plugin_device){.size = sizeof device[i]};
  uint32_t n = 99;
  accel_plugin_error error = {.size = sizeof error};
  EXPECT(plugin->devices(&host, device, 8, &n, &error) == ACCEL_PLUGIN_OK);
  if (n) {
    printf("skipped: there is a device here, %s\n", device[0].name);
    return 77;
  }
  printf("%s: %s\n", plugin->name, said);
  EXPECT(strlen(said) > 20 && strlen(said) < sizeof error.message);
  accel_plugin_memory memory = {.size = sizeof memory};
  EXPECT(plugin->memory(0, &memory, &error) == ACCEL_PLUGIN_E_DRIVER);
  EXPECT(error.rc == ACCEL_PLUGIN_E_DRIVER && !strcmp(error.message, said));
  return 0;
}
