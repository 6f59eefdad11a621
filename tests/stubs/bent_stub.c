/* bent_stub.c - a card with one wrong kernel, for tests: the reference plugin (STUB_BENT_PATH names
 * its file) behind a name of its own, whose result for the entry STUB_BENT ("attention.plain", or
 * "init" to fail there) is off by a little in one element.  STUB_CRASH and STUB_HANG name
 * precisions ("fp16") at which a model, which the self-test is not, ends the process by SIGSEGV or
 * never returns. */
#include <dlfcn.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "accel/plugin.h"

enum { ENTRIES = 64 };
static const accel_plugin *real;
static accel_plugin table;
static char names[ENTRIES][64]; /* of the program that was initialised last: the self-test's */

static int is_bent(const char *name) {
  const char *bent = getenv("STUB_BENT");
  return bent && !strcmp(bent, name);
}

static int is_at(const char *variable, const char *precision) {
  const char *at = getenv(variable);
  return at && !strcmp(at, precision);
}

/* Programs of the self-test say so in their names. */
static void break_down(const accel_plugin_program *p, const char *precision) {
  if (!strncmp(p->name, "selftest", 8)) return;
  if (is_at("STUB_CRASH", precision)) {
    signal(SIGSEGV, SIG_DFL); /* also under a sanitizer, which would exit */
    raise(SIGSEGV);
  }
  while (is_at("STUB_HANG", precision)) pause();
}

static int32_t devices(const accel_plugin_host *host, accel_plugin_device *out, uint32_t capacity,
                       uint32_t *n, accel_plugin_error *error) {
  (void)host, (void)error;
  *n = 1;
  if (!capacity) return ACCEL_PLUGIN_OK;
  memset(out, 0, sizeof *out);
  out->size = sizeof *out;
  out->type = ACCEL_PLUGIN_DEVICE_DISCRETE_GPU;
  snprintf(out->id, sizeof out->id, "0000:0d:00.0");
  snprintf(out->name, sizeof out->name, "Bent card");
  snprintf(out->arch, sizeof out->arch, "gfx1030");
  snprintf(out->driver, sizeof out->driver, "stub 1.0");
  return ACCEL_PLUGIN_OK;
}

static int32_t init(uint32_t device, const accel_plugin_program *p,
                    const accel_plugin_options *options, accel_plugin_endpoint **out,
                    accel_plugin_error *error) {
  for (uint32_t e = 0; e < p->n_entry && e < ENTRIES; e++)
    snprintf(names[e], sizeof names[e], "%s", p->entry[e].name);
  if (is_bent("init")) {
    error->rc = ACCEL_PLUGIN_E_DRIVER;
    snprintf(error->message, sizeof error->message, "the kernels cannot be loaded: error 209");
    return ACCEL_PLUGIN_E_DRIVER;
  }
  break_down(p, options->precision.name);
  return real->init(device, p, options, out, error);
}

static int32_t handler(accel_plugin_endpoint *endpoint, accel_plugin_session *session,
                       accel_plugin_run *run, const accel_plugin_view *in, uint32_t n_in,
                       accel_plugin_view *out, uint32_t n_out, accel_plugin_error *error) {
  const int32_t rc = real->handler(endpoint, session, run, in, n_in, out, n_out, error);
  if (rc || run->entry >= ENTRIES || !is_bent(names[run->entry])) return rc;
  for (uint32_t o = 0; o < n_out; o++) {
    if (out[o].dtype != ACCEL_PLUGIN_F32 || !out[o].host) continue; /* not wanted */
    ((float *)out[o].host)[3] *= 1.01f;
    break;
  }
  return rc;
}

__attribute__((visibility("default"))) const accel_plugin *accel_plugin_query(
    const accel_plugin_host *host, uint32_t abi);
const accel_plugin *accel_plugin_query(const accel_plugin_host *host, uint32_t abi) {
  const char *path = getenv("STUB_BENT_PATH");
  void *library = path ? dlopen(path, RTLD_NOW | RTLD_LOCAL) : NULL;
  void *symbol = library ? dlsym(library, ACCEL_PLUGIN_QUERY_SYMBOL) : NULL;
  accel_plugin_query_fn query;
  if (!symbol) return NULL;
  memcpy(&query, &symbol, sizeof query);
  real = query(host, abi);
  if (!real) return NULL;
  table = *real;
  table.name = STUB_NAME;
  table.implementation_type = "AMD_ROCM";
  table.devices = devices;
  table.init = init;
  table.handler = handler;
  return &table;
}
