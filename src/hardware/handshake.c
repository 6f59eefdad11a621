/* handshake.c - see handshake.h. */
#include "hardware/handshake.h"

#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

#include "core/file.h"
#include "core/text.h"

const char *accel__verdict_name(accel__verdict verdict) {
  static const char *const names[] = {"unseen",    "good",     "dlopen",  "no-symbol", "abi",
                                      "sanitizer", "table",    "devices", "crashed",   "hung",
                                      "no-helper", "shadowed", "absent"};
  return (size_t)verdict < sizeof names / sizeof *names ? names[verdict] : "unknown";
}

void accel__clean_copy(char *dst, size_t n, const char *src, size_t src_n) {
  size_t o = 0, i = 0;
  src_n = strnlen(src, src_n);
  while (i < src_n) {
    uint32_t code = 0;
    size_t step = accel__utf8_decode(src + i, src_n - i, &code);
    bool bad = code < 32 || code == 127 || (step == 1 && code == 0xfffd);
    if (o + (bad ? 1 : step) >= n) break;
    if (bad) {
      dst[o++] = '?';
    } else {
      memcpy(dst + o, src + i, step);
      o += step;
    }
    i += step;
  }
  dst[o] = 0;
}

static const char *sanitizer_name(uint32_t sanitizer) {
  return sanitizer == ACCEL_PLUGIN_PLAIN  ? "no sanitizer"
         : sanitizer == ACCEL_PLUGIN_ASAN ? "AddressSanitizer"
                                          : "ThreadSanitizer";
}

/* A sanitized plugin ends a plain process while it is being opened, so the file is read before it
 * is opened. */
static uint32_t file_sanitizer(const char *path) {
  accel__mapping map = {0};
  uint32_t found = ACCEL_PLUGIN_PLAIN;
  if (accel__file_map(path, &map) != ACCEL_OK) return found; /* dlopen will say why */
  if (map.data && memmem(map.data, map.n, "__asan_init", sizeof "__asan_init"))
    found = ACCEL_PLUGIN_ASAN;
  else if (map.data && memmem(map.data, map.n, "__tsan_init", sizeof "__tsan_init"))
    found = ACCEL_PLUGIN_TSAN;
  accel__file_unmap(&map);
  return found;
}

static accel__verdict sanitizer_mix(uint32_t theirs, char *why, size_t n) {
  snprintf(why, n, "built with %s, this library with %s; use plugins of the same build",
           sanitizer_name(theirs), sanitizer_name(ACCEL_SANITIZER));
  return ACCEL__VERDICT_SANITIZER;
}

static bool name_is_good(const char *name) {
  size_t n = name ? strnlen(name, 32) : 0;
  if (n == 0 || n > 31) return false;
  for (size_t i = 0; i < n; i++) {
    char c = name[i];
    if (!((c >= 'a' && c <= 'z') || (c >= '0' && c <= '9' && i) || (i && (c == '-' || c == '_'))))
      return false;
  }
  return true;
}

/* The first required slot that is empty, or NULL. */
static const char *missing_slot(const accel_plugin *t) {
  if (!name_is_good(t->name)) return "name (a-z, 0-9, '-', '_', at most 31)";
  if (!t->implementation_type || !*t->implementation_type) return "implementation_type";
  if (!t->version) return "version";
  if (!t->build_id) return "build_id";
  if (!t->devices) return "devices";
  if (!t->memory) return "memory";
  if (!t->supports) return "supports";
  if (!t->estimate) return "estimate";
  if (!t->init) return "init";
  if (!t->handler) return "handler";
  if (!t->cleanup) return "cleanup";
  if (t->session_new && (!t->session_free || !t->session_control))
    return "session_free and session_control beside session_new";
  if (t->buffer_alloc && (!t->buffer_free || !t->buffer_copy))
    return "buffer_free and buffer_copy beside buffer_alloc";
  if (t->submit && !t->wait) return "wait beside submit";
  return NULL;
}

accel__verdict accel__check_table(const accel_plugin *table, accel_plugin *out, char *why,
                                  size_t n) {
  memset(out, 0, sizeof *out);
  if (!table) {
    snprintf(why, n,
             "it shares no plugin interface with this library (%u.%u); use plugins of this release",
             ACCEL_PLUGIN_ABI_MAJOR, ACCEL_PLUGIN_ABI_MINOR);
    return ACCEL__VERDICT_ABI;
  }
  uint32_t size = table->size, abi = table->abi;
  /* While the interface is 0.x its minors may differ in layout, too. */
  bool fits = ACCEL_PLUGIN_ABI_MAJOR == 0
                  ? abi == ACCEL_PLUGIN_ABI_NOW
                  : abi >> 16 == ACCEL_PLUGIN_ABI_MAJOR && abi <= ACCEL_PLUGIN_ABI_NOW;
  if (!fits) {
    snprintf(why, n,
             "made for plugin interface %u.%u, this library has %u.%u; use plugins of this release",
             abi >> 16, abi & 0xffff, ACCEL_PLUGIN_ABI_MAJOR, ACCEL_PLUGIN_ABI_MINOR);
    return ACCEL__VERDICT_ABI;
  }
  if (size < offsetof(accel_plugin, trim)) {
    snprintf(why, n, "its table has %u bytes, the required functions need %zu", size,
             offsetof(accel_plugin, trim));
    return ACCEL__VERDICT_TABLE;
  }
  memcpy(out, table, size < sizeof *out ? size : sizeof *out);
  out->size = sizeof *out;
  if (out->sanitizer != ACCEL_SANITIZER) return sanitizer_mix(out->sanitizer, why, n);
  const char *slot = missing_slot(out);
  if (slot) {
    snprintf(why, n, "its table lacks %s", slot);
    return ACCEL__VERDICT_TABLE;
  }
  *why = 0;
  return ACCEL__VERDICT_GOOD;
}

accel__verdict accel__handshake(const char *path, const accel_plugin_host *host, accel_plugin *out,
                                char *why, size_t n) {
  memset(out, 0, sizeof *out);
  uint32_t sanitizer = file_sanitizer(path);
  if (sanitizer != ACCEL_SANITIZER && sanitizer != ACCEL_PLUGIN_PLAIN)
    return sanitizer_mix(sanitizer, why, n);
  void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
  if (!library) {
    const char *sentence = dlerror();
    accel__clean_copy(why, n, sentence ? sentence : "dlopen failed", 4096);
    return ACCEL__VERDICT_DLOPEN;
  }
  accel_plugin_query_fn query = NULL;
  void *symbol = dlsym(library, ACCEL_PLUGIN_QUERY_SYMBOL);
  memcpy(&query, &symbol, sizeof query);
  if (!query) {
    snprintf(why, n, "it has no symbol " ACCEL_PLUGIN_QUERY_SYMBOL ": not a plugin of libaccel");
    return ACCEL__VERDICT_SYMBOL;
  }
  return accel__check_table(query(host, ACCEL_PLUGIN_ABI_NOW), out, why, n);
}

static void clean_device(accel_plugin_device *d) {
#define CLEAN(field)                                                 \
  do {                                                               \
    char raw_[sizeof d->field];                                      \
    memcpy(raw_, d->field, sizeof raw_);                             \
    accel__clean_copy(d->field, sizeof d->field, raw_, sizeof raw_); \
  } while (0)
  CLEAN(id);
  CLEAN(name);
  CLEAN(arch);
  CLEAN(driver);
  CLEAN(unusable);
#undef CLEAN
}

accel__verdict accel__plugin_devices(const accel_plugin *plugin, const accel_plugin_host *host,
                                     accel_plugin_device *out, uint32_t *n, char *why,
                                     size_t why_n) {
  accel_plugin_error error = {.size = sizeof error, .node = -1};
  memset(out, 0, ACCEL__MAX_DEVICES * sizeof *out);
  for (uint32_t i = 0; i < ACCEL__MAX_DEVICES; i++) out[i].size = sizeof *out;
  *n = 0;
  int32_t rc = plugin->devices(host, out, ACCEL__MAX_DEVICES, n, &error);
  if (rc != ACCEL_PLUGIN_OK) {
    char message[sizeof error.message];
    accel__clean_copy(message, sizeof message, error.message, sizeof error.message);
    snprintf(why, why_n, "asked for its devices it failed: %s (code %d)",
             *message ? message : "no reason given", rc);
    *n = 0;
    return ACCEL__VERDICT_DEVICES;
  }
  if (*n > ACCEL__MAX_DEVICES) *n = ACCEL__MAX_DEVICES;
  for (uint32_t i = 0; i < *n; i++) {
    clean_device(&out[i]);
    if (out[i].type < ACCEL_PLUGIN_DEVICE_CPU || out[i].type > ACCEL_PLUGIN_DEVICE_OTHER) {
      snprintf(why, why_n, "its device %u has the unknown type %u", i, out[i].type);
      *n = 0;
      return ACCEL__VERDICT_DEVICES;
    }
  }
  *why = 0;
  return ACCEL__VERDICT_GOOD;
}
