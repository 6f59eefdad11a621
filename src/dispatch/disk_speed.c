/* disk_speed.c - a short read by the reader that streams weights, in segments of the same size. */
#include "dispatch/disk_speed.h"

#include <stdio.h>
#include <time.h>

#include "core/text.h"
#include "core/threads.h"
#include "weights/range_reader.h"

enum { SLOTS = 8, SEGMENT = 4 << 20, LEAST_BYTES = 1 << 20, DAY_SECONDS = 24 * 3600 };
static const uint64_t measure_ns = 200000000;

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

/* Segment after segment of the file, from its begin again where it ends. */
static accel_status read_for_a_while(accel__range_reader *r, uint64_t file_bytes,
                                     accel__disk *out) {
  const uint64_t segment = file_bytes < SEGMENT ? file_bytes : SEGMENT, n = file_bytes / segment,
                 begin = accel__now_ns();
  uint64_t posted = 0, done = 0, now = begin;
  while (done < posted || now - begin < measure_ns) {
    for (; posted < done + SLOTS && now - begin < measure_ns; posted++)
      ACCEL_TRY(accel__range_reader_post(r, (uint32_t)(posted % SLOTS), 0, posted % n * segment,
                                         segment));
    const void *data;
    ACCEL_TRY(accel__range_reader_wait(r, (uint32_t)(done % SLOTS), &data));
    accel__range_reader_release(r, (uint32_t)(done % SLOTS));
    done++;
    now = accel__now_ns();
  }
  accel__range_counters n_read;
  accel__range_reader_count(r, &n_read);
  *out = (accel__disk){1e9 * (double)(done * segment) / (double)(now - begin),
                       1e-9 * (double)n_read.check_ns / (double)(done * segment)};
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
  if (state->bytes < LEAST_BYTES) return disk;
  char key[64];
  snprintf(key, sizeof key, "speed of disk %llx", (unsigned long long)state->device);
  if (recall(cache, key, &disk)) return disk;
  disk = measure(accel__checkpoint_file(c, largest), state);
  if (disk.bytes_per_second > 0) keep(cache, key, &disk);
  return disk;
}
