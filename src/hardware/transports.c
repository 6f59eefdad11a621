/* transports.c - transports between ranks (accel/comm.h): finding and opening them. */
#include <dlfcn.h>
#include <string.h>

#include "hardware/hardware_internal.h"

/* "shm" of ".../libaccel_comm_shm.so". */
static bool is_named(const char *path, const char *name) {
  const char *at = strrchr(path, '/');
  const size_t n = strlen(name), skip = strlen(ACCEL__TRANSPORT_PREFIX);
  at = at ? at + 1 : path;
  return strlen(at) > skip + n && !strncmp(at + skip, name, n) && !strcmp(at + skip + n, ".so");
}

static accel_status unknown(const accel__hardware *h, const char *name) {
  accel__buffer known = {0};
  for (size_t i = 0; i < h->n_transports; i++) {
    const char *at = strrchr(h->transport[i], '/') + 1 + strlen(ACCEL__TRANSPORT_PREFIX);
    accel__buffer_printf(&known, " %.*s", (int)strcspn(at, "."), at);
  }
  accel__fail(ACCEL_ERROR_NOT_FOUND, "there is no transport '%s'; there are:%s", name,
              known.data ? known.data : " none");
  accel__buffer_free(&known);
  return accel__remedy(ACCEL_ERROR_NOT_FOUND,
                       "transports are plugins libaccel_comm_NAME.so beside the others");
}

static accel_status open_transport(const char *path, const accel_comm_transport **out) {
  accel_comm_query_fn query = NULL;
  void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
  void *symbol = library ? dlsym(library, ACCEL_COMM_QUERY_SYMBOL) : NULL;
  memcpy(&query, &symbol, sizeof query);
  if (!query) {
    const char *why = dlerror();
    return accel__fail(ACCEL_ERROR_DEVICE_UNAVAILABLE, "%s: %s", path,
                       why ? why : "it is no transport of libaccel");
  }
  const accel_comm_transport *table = query(ACCEL_COMM_ABI);
  if (!table || table->abi != ACCEL_COMM_ABI || table->size < sizeof *table || !table->open ||
      !table->close || !table->allreduce || !table->broadcast || !table->abort ||
      (table->allreduce_device && !table->device_api))
    return accel__fail(ACCEL_ERROR_DEVICE_UNAVAILABLE,
                       "%s: it was built for another ABI of transports than %u", path,
                       ACCEL_COMM_ABI);
  *out = table;
  return ACCEL_OK;
}

accel_status accel__hardware_transport(accel__hardware *h, const char *name,
                                       const accel_comm_transport **out) {
  *out = NULL;
  ACCEL_TRY(accel__search_plugins(h));
  for (size_t i = 0; i < h->n_transports; i++)
    if (is_named(h->transport[i], name)) return open_transport(h->transport[i], out);
  return unknown(h, name);
}
