/* loader.c - plugin files: where they are looked for, what each one is, and opening them. */
#include <dlfcn.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/file.h"
#include "hardware/builtin.h"
#include "hardware/hardware_internal.h"

#ifndef ACCEL_PLUGIN_DIR
#define ACCEL_PLUGIN_DIR ""
#endif

static const char prefix[] = "libaccel_", suffix[] = ".so";

void *accel__hardware_grow(accel__arena *arena, const void *list, size_t n, size_t *capacity,
                           size_t size) {
  size_t more = *capacity ? *capacity * 2 : 8;
  void *grown = accel__arena_array(arena, more, size);
  if (!grown) return NULL;
  if (n) memcpy(grown, list, n * size);
  *capacity = more;
  return grown;
}

/* ---- searching ---- */

accel_status accel__library_directory(accel__arena *arena, char **out) {
  Dl_info info = {0};
  char real[PATH_MAX];
  *out = NULL;
  accel_status (*here)(accel__arena *, char **) = accel__library_directory;
  void *address;
  memcpy(&address, &here, sizeof address);
  if (!dladdr(address, &info) || !info.dli_fname || !realpath(info.dli_fname, real))
    return ACCEL_OK;
  char *slash = strrchr(real, '/');
  if (!slash) return ACCEL_OK;
  *slash = 0;
  *out = accel__arena_string(arena, real);
  return *out ? ACCEL_OK : ACCEL_ERROR_OUT_OF_MEMORY;
}

static accel_status add_file(accel__hardware *h, const char *path, const char *key, size_t key_n,
                             accel__verdict verdict, const char *why) {
  accel__plugin_file *file;
  ACCEL_ALLOC(file, &h->arena, 1);
  file->path = accel__arena_string(&h->arena, path);
  file->key = accel__arena_copy(&h->arena, key, key_n);
  if (!file->path || !file->key) return ACCEL_ERROR_OUT_OF_MEMORY;
  file->verdict = verdict;
  file->why = why;
  file->name = file->implementation_type = file->version = file->build_id = "";
  file->known = verdict != ACCEL__VERDICT_UNSEEN;
  /* by the file's name: before it is opened, there is nothing of the plugin's to ask */
  file->trusted = !strcmp(file->key, "cpu") || !strcmp(file->key, "reference");
  ACCEL_PUSH(&h->arena, h->file, h->n_files, h->files_capacity, file);
  return ACCEL_OK;
}

/* Plugins inside the library come before every file: one of the same name is shadowed. */
static accel_status add_builtin(accel__hardware *h) {
  for (const accel__builtin *b = accel__builtin_plugins(); b->name; b++) {
    const char *path = accel__arena_printf(&h->arena, "built-in:%s", b->name);
    if (!path) return ACCEL_ERROR_OUT_OF_MEMORY;
    if (accel__fault("plugin_missing")) continue;
    ACCEL_TRY(add_file(h, path, b->name, strlen(b->name), ACCEL__VERDICT_UNSEEN, ""));
    h->file[h->n_files - 1]->query = b->query;
    h->file[h->n_files - 1]->trusted = true; /* there is no file that the helper could open */
  }
  return ACCEL_OK;
}

static accel_status search_directory(accel__hardware *h, const char *directory) {
  char **names = NULL;
  size_t n = 0;
  if (!accel__is_directory(directory))
    return add_file(h, directory, "", 0, ACCEL__VERDICT_ABSENT, "there is no such directory");
  accel_status status = accel__list_directory(directory, &h->arena, &names, &n);
  if (status == ACCEL_ERROR_OUT_OF_MEMORY) return status;
  if (status != ACCEL_OK) {
    const char *why = accel__arena_string(&h->arena, accel__message());
    accel__clear_error();
    return add_file(h, directory, "", 0, ACCEL__VERDICT_ABSENT, accel__or_empty(why));
  }
  for (size_t i = 0; i < n; i++) {
    size_t length = strlen(names[i]), ends = sizeof prefix + sizeof suffix - 2;
    if (length <= ends || !accel__starts_with(names[i], prefix) ||
        !accel__ends_with(names[i], suffix))
      continue;
    if (accel__fault("plugin_missing")) continue;
    const char *path = accel__path_join(&h->arena, directory, names[i]);
    if (!path) return ACCEL_ERROR_OUT_OF_MEMORY;
    if (accel__starts_with(names[i], ACCEL__TRANSPORT_PREFIX)) {
      ACCEL_PUSH(&h->arena, h->transport, h->n_transports, h->transports_capacity, path);
      continue;
    }
    ACCEL_TRY(
        add_file(h, path, names[i] + sizeof prefix - 1, length - ends, ACCEL__VERDICT_UNSEEN, ""));
  }
  return ACCEL_OK;
}

/* Colon-separated; an empty part means nothing (never the current directory), a relative one is
 * made absolute now. */
static accel_status search_path(accel__hardware *h, const char *path) {
  while (*path) {
    size_t n = strcspn(path, ":");
    if (n > 0) {
      char real[PATH_MAX];
      const char *part = accel__arena_copy(&h->arena, path, n);
      if (!part) return ACCEL_ERROR_OUT_OF_MEMORY;
      ACCEL_TRY(search_directory(h, realpath(part, real) ? real : part));
    }
    path += n + (path[n] == ':');
  }
  return ACCEL_OK;
}

static accel_status search_standard(accel__hardware *h) {
  char *library = NULL, beside_real[PATH_MAX] = "", built_real[PATH_MAX] = "";
  ACCEL_TRY(accel__library_directory(&h->arena, &library));
  if (library) {
    const char *beside =
        accel__arena_printf(&h->arena, "%s/accel/%u", library, ACCEL_PLUGIN_ABI_MAJOR);
    if (!beside) return ACCEL_ERROR_OUT_OF_MEMORY;
    if (!realpath(beside, beside_real)) beside_real[0] = 0;
    ACCEL_TRY(search_directory(h, beside));
  }
  if (!*ACCEL_PLUGIN_DIR) return ACCEL_OK;
  if (realpath(ACCEL_PLUGIN_DIR, built_real) && !strcmp(built_real, beside_real)) return ACCEL_OK;
  return search_directory(h, ACCEL_PLUGIN_DIR);
}

accel_status accel__search_plugins(accel__hardware *h) {
  if (h->searched) return ACCEL_OK;
  h->n_files = h->n_transports = 0; /* a search that failed half-way starts again */
  ACCEL_TRY(add_builtin(h));
  ACCEL_TRY(h->plugin_path ? search_path(h, h->plugin_path) : search_standard(h));
  h->searched = true;
  return ACCEL_OK;
}

/* ---- the services lent to plugins outside of endpoints ---- */

static void host_log(void *self, int level, const char *message) {
  accel__hardware *h = self;
  char clean[512];
  accel__clean_copy(clean, sizeof clean, message ? message : "", sizeof clean);
  accel__logf(h->log,
              level < 0   ? ACCEL_LOG_ERROR
              : level > 3 ? ACCEL_LOG_DEBUG
                          : (accel_log_level)level,
              "%s", clean);
}
static void host_parallel(void *self, uint32_t n, accel_plugin_task_fn fn, void *arg) {
  accel__hardware *h = self;
  if (h->pool) {
    accel__pool_run(h->pool, n, fn, arg);
    return;
  }
  for (uint32_t i = 0; i < n; i++) fn(arg, i, 0);
}
static uint32_t host_workers(void *self) {
  accel__hardware *h = self;
  return accel__pool_width(h->pool);
}
static int host_fault(void *self, const char *point) {
  (void)self;
  return accel__fault(point);
}

void accel__quiet_host(accel__hardware *h, accel_plugin_host *host) {
  *host = (accel_plugin_host){.size = sizeof *host,
                              .abi = ACCEL_PLUGIN_ABI_NOW,
                              .self = h,
                              .log = host_log,
                              .parallel = host_parallel,
                              .workers = host_workers,
                              .fault = host_fault};
}

/* ---- opening ---- */

static bool name_is_taken(const accel__hardware *h, const accel__plugin_file *file,
                          const char *name) {
  for (size_t i = 0; i < h->n_files; i++)
    if (h->file[i] != file && h->file[i]->known && h->file[i]->verdict == ACCEL__VERDICT_GOOD &&
        !strcmp(h->file[i]->name, name))
      return true;
  return false;
}

static accel_status identify(accel__hardware *h, accel__plugin_file *file, const char *name,
                             const char *type, const char *version, const char *build) {
  const char *from[4] = {name, type, version, build};
  const char **to[4] = {&file->name, &file->implementation_type, &file->version, &file->build_id};
  char clean[64];
  for (int i = 0; i < 4; i++) {
    accel__clean_copy(clean, sizeof clean, from[i], sizeof clean);
    *to[i] = accel__arena_string(&h->arena, clean);
    if (!*to[i]) return ACCEL_ERROR_OUT_OF_MEMORY;
  }
  return ACCEL_OK;
}

static accel_status refuse(accel__hardware *h, accel__plugin_file *file, accel__verdict verdict,
                           const char *why) {
  file->known = true;
  file->verdict = verdict;
  file->why = accel__arena_string(&h->arena, why);
  accel__logf(h->log, ACCEL_LOG_INFO, "%s: %s: %s", file->path, accel__verdict_name(verdict),
              accel__or_empty(file->why));
  return file->why ? ACCEL_OK : ACCEL_ERROR_OUT_OF_MEMORY;
}

static accel_status refuse_shadowed(accel__hardware *h, accel__plugin_file *file,
                                    const char *name) {
  char why[128];
  snprintf(why, sizeof why, "an earlier file gave the plugin '%s'", name);
  return refuse(h, file, ACCEL__VERDICT_SHADOWED, why);
}

/* Asks the plugin for its table: accel__handshake, or the function that is linked in. */
static accel__verdict handshake(accel__plugin_file *file, const accel_plugin_host *host, char *why,
                                size_t n) {
  if (!file->query) return accel__handshake(file->path, host, &file->table, why, n);
  return accel__check_table(file->query(host, ACCEL_PLUGIN_ABI_NOW), &file->table, why, n);
}

/* cpu, reference and what is built in: handshake and devices in this process. */
static accel_status know_here(accel__hardware *h, accel__plugin_file *file) {
  accel_plugin_device *devices;
  accel_plugin_memory *memory;
  accel_plugin_host host;
  char why[512];
  uint32_t n = 0;
  ACCEL_ALLOC(devices, &h->arena, ACCEL__MAX_DEVICES);
  ACCEL_ALLOC(memory, &h->arena, ACCEL__MAX_DEVICES);
  accel__quiet_host(h, &host);
  accel__verdict verdict = handshake(file, &host, why, sizeof why);
  if (verdict == ACCEL__VERDICT_GOOD && name_is_taken(h, file, file->table.name))
    return refuse_shadowed(h, file, file->table.name);
  if (verdict == ACCEL__VERDICT_GOOD)
    verdict = accel__plugin_devices(&file->table, &host, devices, &n, why, sizeof why);
  if (verdict != ACCEL__VERDICT_GOOD) return refuse(h, file, verdict, why);
  for (uint32_t i = 0; i < n; i++) {
    accel_plugin_error error = {.size = sizeof error, .node = -1};
    memory[i].size = sizeof memory[i];
    if (file->table.memory(i, &memory[i], &error) != ACCEL_PLUGIN_OK)
      memset(&memory[i], 0, sizeof memory[i]);
  }
  ACCEL_TRY(identify(h, file, file->table.name, file->table.implementation_type,
                     file->table.version, file->table.build_id));
  file->opened = file->known = true;
  file->verdict = ACCEL__VERDICT_GOOD;
  return accel__add_devices(h, file, devices, memory, n);
}

static const char *text_of(const accel__json *object, const char *key) {
  const accel__json *item = accel__json_get(object, key);
  return cJSON_IsString(item) && item->valuestring ? item->valuestring : "";
}
static double number_of(const accel__json *object, const char *key) {
  const accel__json *item = accel__json_get(object, key);
  return cJSON_IsNumber(item) && item->valuedouble > 0 && item->valuedouble < 1e18
             ? item->valuedouble
             : 0;
}

static void read_device(const accel__json *item, accel_plugin_device *d, accel_plugin_memory *m) {
  memset(d, 0, sizeof *d);
  memset(m, 0, sizeof *m);
  d->size = sizeof *d;
  m->size = sizeof *m;
  snprintf(d->id, sizeof d->id, "%s", text_of(item, "id"));
  snprintf(d->name, sizeof d->name, "%s", text_of(item, "name"));
  snprintf(d->arch, sizeof d->arch, "%s", text_of(item, "arch"));
  snprintf(d->driver, sizeof d->driver, "%s", text_of(item, "driver"));
  snprintf(d->unusable, sizeof d->unusable, "%s", text_of(item, "unusable"));
  double type = number_of(item, "type");
  d->type = type >= ACCEL_PLUGIN_DEVICE_CPU && type <= ACCEL_PLUGIN_DEVICE_OTHER
                ? (uint32_t)type
                : ACCEL_PLUGIN_DEVICE_OTHER;
  d->flags = (uint32_t)number_of(item, "flags");
  d->route = (uint32_t)number_of(item, "route");
  d->few_rows = (uint32_t)number_of(item, "few_rows");
  d->wave = (uint32_t)number_of(item, "wave");
  d->units = (uint32_t)number_of(item, "units");
  d->max_allocation = (uint64_t)number_of(item, "max_allocation");
  d->max_binding = (uint64_t)number_of(item, "max_binding");
  d->max_shared = (uint64_t)number_of(item, "max_shared");
  d->gbytes_per_s = number_of(item, "gbytes_per_s");
  d->gflops = number_of(item, "gflops");
  m->total = (uint64_t)number_of(item, "memory_total");
  m->free = (uint64_t)number_of(item, "memory_free");
}

static accel_status read_answer(accel__hardware *h, accel__plugin_file *file,
                                const accel__json *root) {
  accel_plugin_device *devices;
  accel_plugin_memory *memory;
  uint32_t n = 0;
  double verdict = number_of(root, "verdict");
  const char *name = text_of(root, "name");
  if (verdict != ACCEL__VERDICT_GOOD || !*name) {
    bool known = verdict >= ACCEL__VERDICT_DLOPEN && verdict <= ACCEL__VERDICT_DEVICES;
    return refuse(h, file, known ? (accel__verdict)verdict : ACCEL__VERDICT_CRASH,
                  known ? text_of(root, "why") : "the probe's answer makes no sense");
  }
  if (name_is_taken(h, file, name)) return refuse_shadowed(h, file, name);
  ACCEL_ALLOC(devices, &h->arena, ACCEL__MAX_DEVICES);
  ACCEL_ALLOC(memory, &h->arena, ACCEL__MAX_DEVICES);
  ACCEL_JSON_EACH(item, accel__json_get(root, "devices")) {
    if (n == ACCEL__MAX_DEVICES) break;
    read_device(item, &devices[n], &memory[n]);
    n++;
  }
  ACCEL_TRY(identify(h, file, name, text_of(root, "implementation_type"), text_of(root, "version"),
                     text_of(root, "build_id")));
  file->known = true;
  file->verdict = ACCEL__VERDICT_GOOD;
  return accel__add_devices(h, file, devices, memory, n);
}

static accel_status know_by_helper(accel__hardware *h, accel__plugin_file *file) {
  accel__json_file json = {0};
  accel__verdict verdict;
  const char *why;
  ACCEL_TRY(accel__ask_probe(h, (const char *const[]){"plugin", file->path, NULL}, &json, &verdict,
                             &why));
  accel_status status = verdict == ACCEL__VERDICT_GOOD ? read_answer(h, file, json.root)
                                                       : refuse(h, file, verdict, why);
  accel__json_free(&json);
  return status;
}

accel_status accel__know_plugin(accel__hardware *h, accel__plugin_file *file) {
  if (file->known) return ACCEL_OK;
  if (accel__fault("plugin_abi"))
    return refuse(h, file, ACCEL__VERDICT_ABI, "ABI mismatch injected by ACCEL_FAIL_AT");
  /* An AMD card behind a CUDA layer is one of ROCm's names: those must be given first. */
  if (accel__starts_with(file->key, "cuda")) ACCEL_TRY(accel__know_named(h, "rocm"));
  return file->trusted ? know_here(h, file) : know_by_helper(h, file);
}

/* What the helper saw must be what is seen here, or numbers would mean other cards. */
static bool same_devices(const accel__plugin_file *file, const accel_plugin_device *now,
                         uint32_t n) {
  if (n != file->n) return false;
  for (uint32_t i = 0; i < n; i++)
    if (strcmp(now[i].id, file->device[i]->device.facts.id) ||
        strcmp(now[i].name, file->device[i]->device.facts.name))
      return false;
  return true;
}

accel_status accel__open_plugin(accel__hardware *h, accel__plugin_file *file) {
  accel_plugin_device *devices;
  accel_plugin_host host;
  char why[512] = "";
  uint32_t n = 0;
  if (file->opened) return ACCEL_OK;
  if (file->broken)
    return accel__fail(ACCEL_ERROR_DEVICE_UNAVAILABLE, "%s: %s", file->path, file->why);
  ACCEL_ALLOC(devices, &h->arena, ACCEL__MAX_DEVICES);
  accel__quiet_host(h, &host);
  accel__verdict verdict = handshake(file, &host, why, sizeof why);
  if (verdict == ACCEL__VERDICT_GOOD)
    verdict = accel__plugin_devices(&file->table, &host, devices, &n, why, sizeof why);
  if (verdict == ACCEL__VERDICT_GOOD && !same_devices(file, devices, n)) {
    verdict = ACCEL__VERDICT_DEVICES;
    snprintf(why, sizeof why, "its devices changed since it was probed; refresh the detection");
  }
  if (verdict == ACCEL__VERDICT_GOOD) {
    file->opened = true;
    for (uint32_t i = 0; i < n; i++) {
      file->device[i]->device.facts = devices[i];
      file->device[i]->device.plugin = &file->table;
    }
    return ACCEL_OK;
  }
  file->broken = true;
  file->why = accel__arena_string(&h->arena, why);
  for (uint32_t i = 0; i < file->n; i++)
    accel__quarantine(file->device[i], accel__or_empty(file->why), "");
  return accel__fail(ACCEL_ERROR_DEVICE_UNAVAILABLE, "%s: %s", file->path, why);
}

/* ---- by name ---- */

bool accel__key_fits(const char *key, const char *stem) {
  size_t n = strlen(stem);
  /* rocm, rocm6 */
  return !strncmp(key, stem, n) && strspn(key + n, "0123456789") == strlen(key + n);
}

accel_status accel__know_named(accel__hardware *h, const char *stem) {
  ACCEL_TRY(accel__search_plugins(h));
  for (size_t i = 0; i < h->n_files; i++)
    if (accel__key_fits(h->file[i]->key, stem)) ACCEL_TRY(accel__know_plugin(h, h->file[i]));
  return ACCEL_OK;
}

accel_status accel__know_all(accel__hardware *h) {
  ACCEL_TRY(accel__search_plugins(h));
  for (size_t i = 0; i < h->n_files; i++) ACCEL_TRY(accel__know_plugin(h, h->file[i]));
  return ACCEL_OK;
}
