/* bench_ratings.h - how near the measured steps of a run came to the least time they can take. */
#ifndef ACCEL_BENCH_RATINGS_H
#define ACCEL_BENCH_RATINGS_H

#include "bench/bench_db.h"

typedef struct bench_rating {
  char *model, *device, *precision, *hardware, *type; /* type: of the device, "software" */
  double share; /* least time / time, of the steps whose least time is known */
} bench_rating;
typedef struct bench_ratings {
  uint32_t n;
  bench_rating *item;
} bench_ratings;

/* Of each model, device and precision the newest run on this machine that has such steps.  false:
 * `message` says why; free the result in any case. */
bool bench_ratings_read(const bench_db *db, bench_ratings *out, char *message, uint32_t size);
void bench_ratings_free(bench_ratings *ratings);

#endif
