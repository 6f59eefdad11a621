/* bench_conditions.c - see bench_conditions.h. */
#include "bench/bench_conditions.h"

#include <dirent.h>
#include <fcntl.h>
#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <time.h>
#include <unistd.h>

#include "bench/bench_collect.h"

void bench_wait_until(double ms) {
  const double spin = 0.2;
  const double left = ms - bench_now_ms() - spin;
  if (left > 0) {
    const struct timespec t = {(time_t)(left / 1e3), (long)(1e6 * fmod(left, 1e3))};
    nanosleep(&t, NULL);
  }
  while (bench_now_ms() < ms) continue;
}

void bench_drop_pages(accel *ctx, const char *model) {
  char *directory, path[4096];
  const struct dirent *entry;
  if (accel_find_model(ctx, model, &directory) != ACCEL_OK) return;
  DIR *list = opendir(directory);
  while (list && (entry = readdir(list)) != NULL) {
    snprintf(path, sizeof path, "%s/%s", directory, entry->d_name);
    const int fd = open(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC);
    if (fd < 0) continue;
    posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED);
    close(fd);
  }
  if (list) closedir(list);
  accel_string_free(&directory);
}

static bool read_counter(const char *powercap, uint32_t package, const char *name, double *value) {
  char path[512];
  snprintf(path, sizeof path, "%s/intel-rapl:%u/%s", powercap, (unsigned)package, name);
  FILE *f = fopen(path, "r");
  const bool read = f && fscanf(f, "%lf", value) == 1;
  if (f) fclose(f);
  return read;
}

void bench_energy_begin(bench_energy *energy, const char *powercap) {
  energy->n = 0;
  while (energy->n < BENCH_PACKAGES &&
         read_counter(powercap, energy->n, "energy_uj", &energy->microjoules[energy->n]) &&
         read_counter(powercap, energy->n, "max_energy_range_uj", &energy->range[energy->n]))
    energy->n++;
}

double bench_energy_end(const bench_energy *begin, const char *powercap) {
  double sum = 0, now;
  for (uint32_t i = 0; i < begin->n; ++i) {
    if (!read_counter(powercap, i, "energy_uj", &now)) return (double)NAN;
    if (now < begin->microjoules[i]) now += begin->range[i];
    sum += now - begin->microjoules[i];
  }
  return begin->n ? 1e-6 * sum : (double)NAN;
}
