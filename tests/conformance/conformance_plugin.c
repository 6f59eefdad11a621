/* conformance_plugin.c - loading a plugin by path, and the services it is lent: a real thread pool,
 * so that kernels meet their races here. */
#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

#include "conformance.h"

/* Warnings are kept: a plugin that leaves kernels out here would pass by those it has left. */
static void keep_warning(void *self, int level, const char *message) {
  enum { WARNING = 1 };
  conf_plugin *plugin = self;
  if (level <= WARNING) snprintf(plugin->warning, sizeof plugin->warning, "%s", message);
}
static void parallel(void *self, uint32_t n, accel_plugin_task_fn fn, void *arg) {
  accel__pool_run(((conf_plugin *)self)->pool, n, fn, arg);
}
static uint32_t workers(void *self) { return accel__pool_size(((conf_plugin *)self)->pool); }

const char *conf_plugin_open(const char *path, uint32_t device, uint32_t threads,
                             conf_plugin *out) {
  static char why[512];
  memset(out, 0, sizeof *out);
  void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
  accel_plugin_query_fn query = NULL;
  if (library) *(void **)&query = dlsym(library, ACCEL_PLUGIN_QUERY_SYMBOL);
  if (!query) {
    snprintf(why, sizeof why, "%s", dlerror());
    return why;
  }
  if (accel__pool_create(threads, &out->pool) != ACCEL_OK) return "no thread pool";
  out->host = (accel_plugin_host){.size = sizeof out->host,
                                  .abi = ACCEL_PLUGIN_ABI_NOW,
                                  .self = out,
                                  .log = keep_warning,
                                  .parallel = parallel,
                                  .workers = workers};
  out->table = query(&out->host, ACCEL_PLUGIN_ABI_NOW);
  out->device = device;
  if (!out->table) return "the plugin refuses this ABI";
  accel_plugin_device devices[16];
  accel_plugin_error error = {.size = sizeof error};
  uint32_t n = 0;
  for (int i = 0; i < 16; i++) devices[i] = (accel_plugin_device){.size = sizeof devices[i]};
  if (out->table->devices(&out->host, devices, 16, &n, &error))
    snprintf(why, sizeof why, "%s: %s", out->table->name, error.message);
  else if (device >= n || device >= 16)
    snprintf(why, sizeof why, "%s: there is no device %u", out->table->name, device);
  else if (devices[device].unusable[0])
    snprintf(why, sizeof why, "%s:%u: %s", out->table->name, device, devices[device].unusable);
  else if (out->table->buffer_alloc && out->table->buffer_alloc(device, 64, &out->held, &error))
    snprintf(why, sizeof why, "%s:%u: %s", out->table->name, device, error.message);
  else
    return NULL;
  return why;
}

void conf_plugin_close(conf_plugin *plugin) {
  if (plugin->held) plugin->table->buffer_free(plugin->device, plugin->held);
  accel__pool_destroy(&plugin->pool);
}
