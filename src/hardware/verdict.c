/* verdict.c - what self-tests found, kept between processes: a pass as long as plugin, device
 * and driver stay the same, a failure for an hour, for a card that was busy or hot may be well
 * again. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>

#include "hardware/hardware_internal.h"

enum { FAILURE_SECONDS = 3600, VERDICT_BYTES = 640 };

/* An entry of the cache: a number and a time, then the reason. */
typedef struct verdict {
  int64_t found; /* seconds since 1970 */
  int32_t proof;
  char why[VERDICT_BYTES - 16];
} verdict;

static bool make_key(const accel__entry *e, int proof, bool wide, accel__buffer *key) {
  const accel_plugin_device *f = &e->device.facts;
  const accel__plugin_file *file = e->file;
  struct stat s;
  if (stat(file->path, &s)) return false;
  accel__buffer_printf(key, "self-test %d %s %s %s %lld %lld.%09ld | %s | %s | %s | %s | %u",
                       (int)sizeof(verdict), file->path, file->version, file->build_id,
                       (long long)s.st_size, (long long)s.st_mtim.tv_sec, s.st_mtim.tv_nsec, f->id,
                       f->name, f->arch, f->driver, e->device.index);
  accel__buffer_printf(key, " | %s%s", accel__proof_precision[proof], wide ? " every op" : "");
  return !key->failed;
}

bool accel__verdict_recall(accel__hardware *h, const accel__entry *e, int proof, bool wide,
                           accel__proof *result, const char **why) {
  accel__buffer key = {0};
  verdict v;
  uint64_t bytes = 0;
  bool found = h->cache && make_key(e, proof, wide, &key) &&
               accel__cache_size(h->cache, key.data, &bytes) && bytes == sizeof v &&
               accel__cache_get(h->cache, key.data, &v, sizeof v);
  accel__buffer_free(&key);
  if (!found || v.proof < ACCEL__PROOF_PASS || v.proof >= ACCEL__PROOF_UNKNOWN) return false;
  const int64_t age = (int64_t)time(NULL) - v.found;
  if (v.proof == ACCEL__PROOF_WRONG && (age < 0 || age > FAILURE_SECONDS)) return false;
  v.why[sizeof v.why - 1] = 0;
  *why =
      v.proof == ACCEL__PROOF_WRONG
          ? accel__arena_printf(&h->arena, "%s (found %lld minutes ago; tried again after an hour)",
                                v.why, (long long)age / 60)
          : accel__arena_string(&h->arena, v.why);
  *result = (accel__proof)v.proof;
  return *why != NULL;
}

void accel__verdict_keep(accel__hardware *h, const accel__entry *e, int proof, bool wide,
                         accel__proof result, const char *why) {
  accel__buffer key = {0}, label = {0};
  verdict v = {.found = (int64_t)time(NULL), .proof = (int32_t)result};
  const accel_plugin_part part = {&v, sizeof v};
  snprintf(v.why, sizeof v.why, "%s", why);
  accel__buffer_printf(&label, "self-test of %s at %s", e->device.info.name,
                       accel__proof_precision[proof]);
  if (h->cache && result != ACCEL__PROOF_UNKNOWN && make_key(e, proof, wide, &key) && !label.failed)
    (void)accel__cache_put(h->cache, key.data, label.data, &part, 1);
  accel__buffer_free(&key);
  accel__buffer_free(&label);
}
