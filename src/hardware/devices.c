/* devices.c - the list of devices: names, physical cards, self-tests, memory. */
#include <ctype.h>
#include <stdio.h>
#include <string.h>

#include "core/file.h"
#include "core/topology.h"
#include "hardware/hardware_internal.h"
#include "registry/registry.h"

const char *const accel__proof_precision[ACCEL__PROOFS] = {
#define ACCEL_PLAIN(name, bits, file, precision, gpu) precision,
#define ACCEL_CODED(name, bits, file, precision, scale, zero, outer, group, largest, codec, cpu, \
                    gpu)                                                                         \
  precision,
#include "formats/formats.def"
};

const char *accel__type_name(uint32_t type) {
  static const char *const names[] = {"other",      "cpu",      "discrete",
                                      "integrated", "software", "other"};
  return type < sizeof names / sizeof *names ? names[type] : "other";
}

/* Whole words, as the vendor writes them: "AMD Radeon Pro W6800", "Radeon RX 7900 XTX". */
bool accel__name_is_amd(const char *name) {
  static const char *const words[] = {"amd", "radeon"};
  for (size_t w = 0; w < 2; w++) {
    size_t n = strlen(words[w]);
    for (const char *at = name; *at; at++)
      if (!strncasecmp(at, words[w], n) && (at == name || !isalnum((unsigned char)at[-1])) &&
          !isalnum((unsigned char)at[n]))
        return true;
  }
  return false;
}

void accel__normal_address(char *out, size_t n, const char *id) {
  bool short_form = strlen(id) == 7 && id[2] == ':' && id[5] == '.'; /* 03:00.0 */
  snprintf(out, n, "%s%.*s", short_form ? "0000:" : "", (int)n - 6, id);
  for (; *out; out++) *out = (char)tolower((unsigned char)*out);
}

const char *accel__hardware_of(const char *stem) {
  const char *name = accel__registry_hardware_name(stem);
  return name ? name : stem;
}

const char *accel__stem_of(const char *hardware) {
  return strcmp(hardware, "amd") ? hardware : "rocm";
}

/* ---- making entries ---- */

static uint32_t devices_of_stem(const accel__hardware *h, const char *stem) {
  uint32_t n = 0;
  for (size_t i = 0; i < h->n_entries; i++) n += !strcmp(h->entry[i]->stem, stem);
  return n;
}

/* Graphics hardware is numbered always, so that "rocm:0" means the same on every machine; others
 * only when there are several. */
static bool is_numbered(const accel__plugin_file *file, const char *stem) {
  return file->n > 1 || (accel__registry_hardware_name(stem) && strcmp(stem, "cpu"));
}

/* A plugin whose interface tells no address (WebGPU) makes ids that begin with its own name: its
 * device is the card that another plugin calls the same. */
static bool has_own_id(const accel__entry *e) {
  return !strncmp(e->device.info.id, e->stem, strlen(e->stem));
}

static bool is_same_card(const accel__entry *a, const accel__entry *b) {
  const accel_plugin_device *x = &a->device.facts, *y = &b->device.facts;
  if (!strcmp(a->device.info.id, b->device.info.id)) return true;
  return has_own_id(a) != has_own_id(b) && *x->arch && !strcmp(x->arch, y->arch) &&
         !strcmp(x->name, y->name);
}

static void find_card(accel__hardware *h, accel__entry *entry) {
  const char *id = entry->device.info.id;
  uint32_t highest = 0;
  if (!*id || entry->device.facts.type == ACCEL_PLUGIN_DEVICE_SOFTWARE ||
      entry->device.facts.type == ACCEL_PLUGIN_DEVICE_CPU)
    return;
  for (size_t i = 0; i < h->n_entries; i++)
    if (h->entry[i]->device.card > highest) highest = h->entry[i]->device.card;
  for (size_t i = 0; i < h->n_entries; i++) {
    accel__device *other = &h->entry[i]->device;
    if (other == &entry->device || other->facts.type == ACCEL_PLUGIN_DEVICE_SOFTWARE ||
        !is_same_card(h->entry[i], entry))
      continue;
    if (!other->card) other->card = highest + 1;
    entry->device.card = other->card;
    return;
  }
}

/* A device that computes in this machine's main memory gets no more of it than this process may
 * take: the limit of a memory cgroup (a container's) lies below what the system as a whole has, and
 * a plugin does not see it.  Asked for here for all such plugins.  Nothing changes where /proc does
 * not tell the memory. */
static void lower_to_cgroup(const accel__hardware *h, uint32_t type, accel_plugin_memory *m) {
  uint64_t total, left;
  if (type != ACCEL_PLUGIN_DEVICE_CPU && type != ACCEL_PLUGIN_DEVICE_SOFTWARE) return;
  left = accel__memory_available(h->root, &total);
  if (!total) return;
  if (!left) left = 1; /* nothing is left; 0 would say that it is not known */
  if (!m->total || total < m->total) m->total = total;
  if (!m->free || left < m->free) m->free = left;
  if (m->budget > m->free) m->budget = m->free;
  if (m->shared_with_host > m->total) m->shared_with_host = m->total;
}

uint64_t accel__host_memory(const accel__hardware *h) {
  uint64_t total;
  return accel__memory_available(h->root, &total);
}

static accel_status fill_info(accel__hardware *h, accel__entry *e,
                              const accel_plugin_memory *memory) {
  accel_device_info *info = &e->device.info;
  const accel_plugin_device *facts = &e->device.facts;
  char address[sizeof facts->id];
  accel__normal_address(address, sizeof address, facts->id);
  if (is_numbered(e->file, e->stem))
    ACCEL_FORMAT(info->name, &h->arena, "%s:%u", e->stem, e->number);
  else
    info->name = e->stem;
  info->hardware = accel__hardware_of(e->stem);
  info->plugin = e->file->name;
  info->implementation_type = e->file->implementation_type;
  info->description = accel__arena_string(&h->arena, facts->name);
  info->arch = accel__arena_string(&h->arena, facts->arch);
  info->driver = accel__arena_string(&h->arena, facts->driver);
  info->id = accel__arena_string(&h->arena, address);
  info->reason = accel__arena_string(&h->arena, facts->unusable);
  if (!info->description || !info->arch || !info->driver || !info->id || !info->reason)
    return ACCEL_ERROR_OUT_OF_MEMORY;
  info->remedy = "";
  info->type = accel__type_name(facts->type);
  info->compiled = info->loaded = info->found = 1;
  info->tested = -1;
  info->usable = 0;
  info->is_amd = (!strcmp(info->hardware, "amd") && facts->type != ACCEL_PLUGIN_DEVICE_SOFTWARE) ||
                 (facts->flags & ACCEL_PLUGIN_DEVICE_AMD);
  accel_plugin_memory own = *memory;
  lower_to_cgroup(h, facts->type, &own);
  info->memory_total = own.total;
  info->memory_free = own.free;
  return ACCEL_OK;
}

/* The same card is listed by ROCm already: it must not appear a second time as a device of its
 * own. */
static bool is_listed_by_rocm(const accel__hardware *h, const char *id) {
  char address[64];
  accel__normal_address(address, sizeof address, id);
  for (size_t i = 0; *id && i < h->n_entries; i++)
    if (!strcmp(h->entry[i]->stem, "rocm") && !strcmp(h->entry[i]->device.info.id, address))
      return true;
  return false;
}

accel_status accel__add_devices(accel__hardware *h, accel__plugin_file *file,
                                const accel_plugin_device *facts, const accel_plugin_memory *memory,
                                uint32_t n) {
  file->n = n;
  ACCEL_ALLOC(file->device, &h->arena, n);
  for (uint32_t i = 0; i < n; i++) {
    accel__entry *e;
    ACCEL_ALLOC(e, &h->arena, 1);
    bool amd_as_cuda = !strcmp(file->name, "cuda") && accel__name_is_amd(facts[i].name);
    e->file = file;
    e->stem = amd_as_cuda                                   ? "rocm"
              : accel__starts_with(facts[i].id, "qualcomm") ? "qualcomm"
                                                            : file->name;
    e->number = devices_of_stem(h, e->stem);
    e->device.index = i;
    e->device.facts = facts[i];
    e->device.plugin_path = file->path;
    if (file->opened) e->device.plugin = &file->table;
    for (int p = 0; p < ACCEL__PROOFS; p++) e->proof[p] = ACCEL__PROOF_UNTRIED;
    file->device[i] = e;
    bool repeated = amd_as_cuda && is_listed_by_rocm(h, facts[i].id);
    ACCEL_TRY(fill_info(h, e, &memory[i]));
    find_card(h, e);
    if (repeated) continue; /* kept with its file, but no device of the list */
    ACCEL_PUSH(&h->arena, h->entry, h->n_entries, h->entries_capacity, e);
  }
  return ACCEL_OK;
}

/* ---- self-tests ---- */

void accel__quarantine(accel__entry *entry, const char *reason, const char *remedy) {
  entry->device.info.tested = 0;
  entry->device.info.usable = 0;
  entry->device.info.reason = reason;
  entry->device.info.remedy = remedy;
}

/* Whether the test has a case of every op: on cards, where nobody else runs the conformance
 * suite. */
static bool is_wide(const accel__entry *e, int proof) {
  const char *wanted = accel__env("ACCEL_SELFTEST");
  const uint32_t type = e->device.facts.type;
  if (proof) return false;
  if (wanted && !strcmp(wanted, "full")) return true;
  if (wanted && !strcmp(wanted, "short")) return false;
  return type != ACCEL_PLUGIN_DEVICE_SOFTWARE && type != ACCEL_PLUGIN_DEVICE_CPU;
}

static accel_status test_by_helper(accel__hardware *h, accel__entry *e, int proof, bool wide,
                                   accel__proof *result, const char **why) {
  char index[16];
  accel__json_file json = {0};
  accel__verdict verdict;
  snprintf(index, sizeof index, "%u", e->device.index);
  const char *const words[] = {
      "test", e->file->path, index, accel__proof_precision[proof], wide ? "ops" : NULL, NULL};
  ACCEL_TRY(accel__ask_probe(h, words, &json, &verdict, why));
  *result = ACCEL__PROOF_WRONG;
  if (verdict == ACCEL__VERDICT_GOOD) {
    const accel__json *number = accel__json_get(json.root, "proof"),
                      *text = accel__json_get(json.root, "why");
    if (cJSON_IsNumber(number) && number->valueint >= ACCEL__PROOF_PASS &&
        number->valueint <= ACCEL__PROOF_UNKNOWN)
      *result = (accel__proof)number->valueint;
    *why = accel__arena_string(
        &h->arena, cJSON_IsString(text) ? text->valuestring : "the probe's answer makes no sense");
  }
  accel__json_free(&json);
  return *why ? ACCEL_OK : ACCEL_ERROR_OUT_OF_MEMORY;
}

static accel_status test_here(accel__hardware *h, accel__entry *e, int proof, bool wide,
                              accel__proof *result, const char **why) {
  char text[512] = "";
  accel_plugin_host host;
  accel__quiet_host(h, &host);
  *result = accel__selftest(&e->file->table, e->device.index, accel__proof_precision[proof], &host,
                            text, sizeof text);
  if (wide && *result == ACCEL__PROOF_PASS)
    *result = accel__selftest_ops(&e->file->table, e->device.index, &host, text, sizeof text);
  *why = accel__arena_string(&h->arena, text);
  return *why ? ACCEL_OK : ACCEL_ERROR_OUT_OF_MEMORY;
}

accel_status accel__test_entry(accel__hardware *h, accel__entry *e, int proof) {
  accel__proof result;
  const char *why = "";
  if (!e->file || e->device.facts.unusable[0] || e->file->broken ||
      e->proof[proof] != ACCEL__PROOF_UNTRIED)
    return ACCEL_OK;
  const bool wide = is_wide(e, proof);
  if (e->file->trusted) {
    ACCEL_TRY(test_here(h, e, proof, wide, &result, &why));
  } else if (!accel__verdict_recall(h, e, proof, wide, &result, &why)) {
    ACCEL_TRY(test_by_helper(h, e, proof, wide, &result, &why));
    accel__verdict_keep(h, e, proof, wide, result, why);
  }
  e->proof[proof] = (int8_t)result;
  e->proof_why[proof] = why;
  if (result != ACCEL__PROOF_PASS)
    accel__logf(h->log, result == ACCEL__PROOF_WRONG ? ACCEL_LOG_WARNING : ACCEL_LOG_DEBUG,
                "%s: self-test at %s: %s", e->device.info.name, accel__proof_precision[proof], why);
  if (proof != 0) return ACCEL_OK;
  if (result == ACCEL__PROOF_INCAPABLE && (e->device.facts.flags & ACCEL_PLUGIN_DEVICE_FP16)) {
    ACCEL_TRY(accel__test_entry(h, e, ACCEL__PROOF_OF_F16)); /* it computes in halves alone */
    result = (accel__proof)e->proof[ACCEL__PROOF_OF_F16];
    if (result != ACCEL__PROOF_PASS) why = e->proof_why[ACCEL__PROOF_OF_F16];
  }
  if (result == ACCEL__PROOF_PASS) {
    e->device.info.tested = e->device.info.usable = 1;
  } else {
    accel__quarantine(e, why,
                      "the device is left out; update its driver, or use another device (accel "
                      "detect lists them)");
  }
  return ACCEL_OK;
}

static accel_status why_unusable(const accel__entry *e) {
  accel__fail(ACCEL_ERROR_DEVICE_UNAVAILABLE, "%s: %s", e->device.info.name, e->device.info.reason);
  return accel__remedy(ACCEL_ERROR_DEVICE_UNAVAILABLE, "%s", e->device.info.remedy);
}

accel_status accel__device_test(accel__hardware *h, accel__device *device) {
  for (uint32_t i = 0; device->parts && i < device->parts->n; i++)
    ACCEL_TRY(accel__device_test(h, device->parts->device[i]));
  if (device->parts) return ACCEL_OK;
  accel__entry *e = (accel__entry *)device;
  pthread_mutex_lock(&h->lock);
  accel_status status = accel__test_entry(h, e, 0);
  if (status == ACCEL_OK && !e->device.info.usable) status = why_unusable(e);
  pthread_mutex_unlock(&h->lock);
  return status;
}

accel_status accel__device_test_precision(accel__hardware *h, accel__device *device,
                                          const char *precision) {
  for (uint32_t i = 0; device->parts && i < device->parts->n; i++)
    ACCEL_TRY(accel__device_test_precision(h, device->parts->device[i], precision));
  if (device->parts) return ACCEL_OK;
  accel__entry *e = (accel__entry *)device;
  const char *name = accel__registry_precision_name(precision);
  int proof = 0;
  while (name && proof < ACCEL__PROOFS && strcmp(accel__proof_precision[proof], name)) proof++;
  if (!name || proof == ACCEL__PROOFS)
    return accel__fail(ACCEL_ERROR_PRECISION, "%s: the self-test knows no precision '%s'",
                       device->info.name, precision);
  pthread_mutex_lock(&h->lock);
  accel_status status = accel__test_entry(h, e, 0);
  if (status == ACCEL_OK && !e->device.info.usable) status = why_unusable(e);
  if (status == ACCEL_OK) status = accel__test_entry(h, e, proof);
  if (status == ACCEL_OK && e->proof[proof] != ACCEL__PROOF_PASS)
    status = accel__fail(ACCEL_ERROR_PRECISION, "%s: %s", e->device.info.name,
                         accel__or_empty(e->proof_why[proof]));
  pthread_mutex_unlock(&h->lock);
  return status;
}

/* ---- memory ---- */

/* The driver does not count what other programs use (graphics above all); the kernel does. */
static void lower_by_sysfs(const accel__hardware *h, const accel__entry *e,
                           accel_plugin_memory *m) {
  accel__gpu gpu = {0};
  if (strcmp(e->device.info.hardware, "amd") || !accel__amd_memory(h, e->device.info.id, &gpu) ||
      !gpu.vram_total)
    return;
  uint64_t total = gpu.vram_total, used = gpu.vram_used;
  if (e->device.facts.type == ACCEL_PLUGIN_DEVICE_INTEGRATED_GPU) { /* an APU computes from both */
    total += gpu.gtt_total;
    used += gpu.gtt_used;
  }
  uint64_t left = used < total ? total - used : 0;
  if (!m->total || total < m->total) m->total = total;
  if (left < m->free || !m->free) m->free = left;
  if (m->budget > m->free) m->budget = m->free;
}

static accel_status memory_of_parts(accel__hardware *h, const accel__device_parts *parts,
                                    accel_plugin_memory *out) {
  *out = (accel_plugin_memory){.size = sizeof *out};
  for (uint32_t i = 0; i < parts->n; i++) {
    accel_plugin_memory one = {.size = sizeof one};
    bool seen = false;
    for (uint32_t k = 0; k < i; k++)
      seen |= parts->device[k] == parts->device[i] ||
              (parts->device[i]->card && parts->device[k]->card == parts->device[i]->card);
    if (seen) continue;
    ACCEL_TRY(accel__device_memory(h, parts->device[i], &one));
    out->total += one.total;
    out->free += one.free;
    out->budget += one.budget;
    out->shared_with_host += one.shared_with_host;
  }
  return ACCEL_OK;
}

accel_status accel__device_memory(accel__hardware *h, const accel__device *device,
                                  accel_plugin_memory *out) {
  if (device->parts) return memory_of_parts(h, device->parts, out);
  const accel__entry *e = (const accel__entry *)device;
  accel_plugin_error error = {.size = sizeof error, .node = -1};
  int32_t rc = ACCEL_PLUGIN_OK;
  memset(out, 0, sizeof *out);
  out->size = sizeof *out;
  if (!e->file)
    return accel__fail(ACCEL_ERROR_DEVICE_UNAVAILABLE, "%s: %s", device->info.name,
                       device->info.reason);
  pthread_mutex_lock(&h->lock);
  if (e->file->opened) {
    rc = e->file->table.memory(device->index, out, &error);
  } else { /* as the helper saw it */
    out->total = device->info.memory_total;
    out->free = device->info.memory_free;
  }
  if (rc == ACCEL_PLUGIN_OK) {
    lower_by_sysfs(h, e, out);
    lower_to_cgroup(h, e->device.facts.type, out);
  }
  pthread_mutex_unlock(&h->lock);
  if (rc == ACCEL_PLUGIN_OK) return ACCEL_OK;
  char message[sizeof error.message];
  accel__clean_copy(message, sizeof message, error.message, sizeof error.message);
  return accel__fail((accel_status)rc, "%s: memory: %s", device->info.name,
                     *message ? message : "no reason given");
}
