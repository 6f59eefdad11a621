/* disk_speed.c - a short read by the reader that streams weights, through a ring of the same size:
 * a larger one leaves the caches, and a read into it takes longer. */
#include "dispatch/disk_speed.h"

#include <stdio.h>
#include <time.h>

#include "core/text.h"
#include "core/threads.h"
#include "weights/range_reader.h"

enum { SLOTS = 8, SEGMENT = 1 << 20, DAY_SECONDS = 24 * 3600 };
static const uint64_t begin_ns = 25000000, measure_ns = 200000000;

/* An entry of the cache. */
typedef struct remembered {
  int64_t time; /* seconds since 1970 */
  accel__disk disk;
} remembered;

static bool recall(const accel__cache *cache, const char *key, accel__disk *out) {
  remembered r;
  uint64_t bytes;
  if (!cache || !accel__cache_size(cache, key, &bytes) || bytes != sizeof r ||
      !accel__cache_get(cache, key, &r, sizeof r))
    return false;
  const int64_t age = (int64_t)time(NULL) - r.time;
  *out = r.disk;
  return age >= 0 && age < DAY_SECONDS && out->bytes_per_second > 0;
}

static void keep(const accel__cache *cache, const char *key, const accel__disk *disk) {
  const remembered r = {(int64_t)time(NULL), *disk};
  const accel_plugin_part part = {&r, sizeof r};
  if (cache) (void)accel__cache_put(cache, key, key, &part, 1);
}

/* Segment after segment of the file, from its begin again where it ends, for so long.  *bytes were
 * read in *ns. */
static accel_status read_for(accel__range_reader *r, uint64_t file_bytes, uint64_t least_ns,
                             uint64_t *bytes, uint64_t *ns) {
  const uint64_t n = file_bytes / SEGMENT, begin = accel__now_ns();
  uint64_t posted = 0, done = 0, now = begin;
  while (done < posted || now - begin < least_ns) {
    for (; posted < done + SLOTS && now - begin < least_ns; posted++)
      ACCEL_TRY(accel__range_reader_post(r, (uint32_t)(posted % SLOTS), 0, posted % n * SEGMENT,
                                         SEGMENT));
    const void *data;
    ACCEL_TRY(accel__range_reader_wait(r, (uint32_t)(done % SLOTS), &data));
    accel__range_reader_release(r, (uint32_t)(done % SLOTS));
    done++;
    now = accel__now_ns();
  }
  *bytes = done * SEGMENT;
  *ns = now - begin;
  return ACCEL_OK;
}

/* What is read first also makes the memory of the ring, and does not count. */
static accel_status read_for_a_while(accel__range_reader *r, uint64_t file_bytes,
                                     accel__disk *out) {
  accel__range_counters before, after;
  uint64_t bytes, ns;
  ACCEL_TRY(read_for(r, file_bytes, begin_ns, &bytes, &ns));
  accel__range_reader_count(r, &before);
  ACCEL_TRY(read_for(r, file_bytes, measure_ns, &bytes, &ns));
  accel__range_reader_count(r, &after);
  *out = (accel__disk){1e9 * (double)bytes / (double)ns,
                       1e-9 * (double)(after.check_ns - before.check_ns) / (double)bytes};
  return ACCEL_OK;
}

static accel__disk measure(const char *path, const accel__file_state *state) {
  const accel__range_options options = {.slots = SLOTS, .slot_bytes = SEGMENT};
  accel__range_reader *r;
  accel__disk disk = {0};
  accel_status status = accel__range_reader_open(&path, state, 1, &options, &r);
  if (status == ACCEL_OK) status = read_for_a_while(r, state->bytes, &disk);
  accel__range_reader_close(&r);
  if (status != ACCEL_OK) accel__clear_error();
  return disk;
}

accel__disk accel__disk_speed(const accel__checkpoint *c, const accel__cache *cache) {
  uint32_t largest = 0;
  for (uint32_t i = 1; accel__checkpoint_file(c, i); i++)
    if (accel__checkpoint_file_state(c, i)->bytes > accel__checkpoint_file_state(c, largest)->bytes)
      largest = i;
  accel__disk disk = {0};
  if (!accel__checkpoint_file(c, 0)) return disk;
  const accel__file_state *state = accel__checkpoint_file_state(c, largest);
  if (state->bytes < SEGMENT) return disk;
  char key[64];
  snprintf(key, sizeof key, "speed of disk %llx", (unsigned long long)state->device);
  if (recall(cache, key, &disk)) return disk;
  disk = measure(accel__checkpoint_file(c, largest), state);
  if (disk.bytes_per_second > 0) keep(cache, key, &disk);
  return disk;
}
