/* hardware.c - the object itself: made, looked at again, copied out, given back. */
#include <stdlib.h>
#include <string.h>

#include "hardware/hardware.h"
#include "core/file.h"
#include "hardware/hardware_internal.h"

accel_status accel__hardware_create(const accel__hardware_params *params, accel__hardware **out) {
  static const accel__hardware_params none = {0};
  *out = NULL;
  accel__hardware *h = calloc(1, sizeof *h);
  if (!h) return accel__no_memory(sizeof *h);
  if (!params) params = &none;
  pthread_mutex_init(&h->lock, NULL);
  const char *path = params->plugin_path ? params->plugin_path : accel__env("ACCEL_PLUGIN_PATH");
  const char *root = params->root ? params->root : accel__env("ACCEL_DETECT_ROOT");
  h->log = params->log;
  h->pool = params->pool;
  h->cache = params->cache;
  h->timeout_ms = params->probe_timeout_ms ? params->probe_timeout_ms : 10000;
  const char *software = accel__env("ACCEL_ALLOW_SOFTWARE");
  h->allow_software = params->allow_software || (software && strcmp(software, "0"));
  if (path) h->plugin_path = accel__arena_string(&h->arena, path);
  if (params->probe) h->probe = accel__arena_string(&h->arena, params->probe);
  h->root = accel__arena_string(&h->arena, accel__or_empty(root));
  if (!h->root || (path && !h->plugin_path) || (params->probe && !h->probe)) {
    accel__hardware_destroy(&h);
    return ACCEL_ERROR_OUT_OF_MEMORY;
  }
  *out = h;
  return ACCEL_OK;
}

void accel__hardware_destroy(accel__hardware **hardware) {
  accel__hardware *h = hardware ? *hardware : NULL;
  if (!h) return;
  accel__arena_free(&h->arena);
  pthread_mutex_destroy(&h->lock);
  free(h);
  *hardware = NULL;
}

/* Old entries stay in the arena: endpoints may still point to them. */
static void forget(accel__hardware *h) {
  h->searched = h->detected = false;
  h->file = NULL;
  h->n_files = h->files_capacity = 0;
  h->entry = NULL;
  h->n_entries = h->entries_capacity = 0;
  h->absent = NULL;
  h->n_absent = 0;
  h->vendors = NULL;
}

accel_status accel__detect_all(accel__hardware *h, bool refresh) {
  if (refresh) forget(h);
  if (h->detected) return ACCEL_OK;
  ACCEL_TRY(accel__know_all(h));
  ACCEL_TRY(accel__ask_vendors(h, false));
  for (size_t i = 0; i < h->n_entries; i++)
    for (int p = 0; p < ACCEL__PROOFS_DETECTED; p++)
      if (p == 0 || h->entry[i]->device.info.usable)
        ACCEL_TRY(accel__test_entry(h, h->entry[i], p));
  ACCEL_TRY(accel__absent_rows(h));
  h->detected = true;
  return ACCEL_OK;
}

/* ---- a copy in one block of memory: the list, the rows, then all their strings ---- */

static const size_t string_at[] = {
    offsetof(accel_device_info, name),        offsetof(accel_device_info, hardware),
    offsetof(accel_device_info, plugin),      offsetof(accel_device_info, implementation_type),
    offsetof(accel_device_info, description), offsetof(accel_device_info, arch),
    offsetof(accel_device_info, driver),      offsetof(accel_device_info, id),
    offsetof(accel_device_info, type),        offsetof(accel_device_info, reason),
    offsetof(accel_device_info, remedy)};
enum { STRINGS = sizeof string_at / sizeof *string_at };

static const char **string_of(accel_device_info *info, int i) {
  return (const char **)(void *)((char *)info + string_at[i]);
}

static size_t text_bytes(accel_device_info *info) {
  size_t n = 0;
  for (int i = 0; i < STRINGS; i++) n += strlen(accel__or_empty(*string_of(info, i))) + 1;
  return n;
}

static char *copy_row(accel_device_info *to, const accel_device_info *from, char *text) {
  *to = *from;
  for (int i = 0; i < STRINGS; i++) {
    const char **string = string_of(to, i);
    size_t n = strlen(accel__or_empty(*string)) + 1;
    memcpy(text, accel__or_empty(*string), n);
    *string = text;
    text += n;
  }
  return text;
}

static accel_status copy_list(accel__hardware *h, accel_devices **out) {
  size_t n = h->n_entries + h->n_absent,
         bytes = sizeof(accel_devices) + n * sizeof(accel_device_info);
  for (size_t i = 0; i < n; i++)
    bytes +=
        text_bytes(&(i < h->n_entries ? h->entry[i] : h->absent[i - h->n_entries])->device.info);
  accel_devices *list = malloc(bytes);
  if (!list) return accel__no_memory(bytes);
  accel_device_info *rows = (accel_device_info *)(void *)(list + 1);
  char *text = (char *)(rows + n);
  for (size_t i = 0; i < n; i++)
    text = copy_row(&rows[i],
                    &(i < h->n_entries ? h->entry[i] : h->absent[i - h->n_entries])->device.info,
                    text);
  list->n = (uint32_t)n;
  list->item = rows;
  *out = list;
  return ACCEL_OK;
}

accel_status accel__hardware_detect(accel__hardware *h, bool refresh, accel_devices **out) {
  *out = NULL;
  pthread_mutex_lock(&h->lock);
  accel_status status = accel__detect_all(h, refresh);
  if (status == ACCEL_OK) status = copy_list(h, out);
  pthread_mutex_unlock(&h->lock);
  return status;
}

void accel__devices_free(accel_devices **devices) {
  if (!devices) return;
  free(*devices);
  *devices = NULL;
}
