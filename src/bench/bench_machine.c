/* bench_machine.c - reads what tells this machine from others. */
#include "bench/bench_machine.h"

#include <stdio.h>
#include <string.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "shared/hash.h"

const char *bench_build_id(void) { return ACCEL_BUILD_ID; }
const char *bench_compiler(void) { return __VERSION__; }

/* The first line of a file without its newline; "" when it cannot be read. */
static void first_line(const char *path, char *into, size_t size) {
  FILE *f = fopen(path, "r");
  into[0] = 0;
  if (f && !fgets(into, (int)size, f)) into[0] = 0;
  if (f) fclose(f);
  into[strcspn(into, "\n")] = 0;
}

/* The value of the first line of `path` that begins with `key`, behind `separator`. */
static void value_of(const char *path, const char *key, char separator, char *into, size_t size) {
  char line[512];
  FILE *f = fopen(path, "r");
  into[0] = 0;
  while (f && fgets(line, sizeof line, f)) {
    const char *value = strchr(line, separator);
    if (strncmp(line, key, strlen(key)) != 0 || !value) continue;
    value += 1 + strspn(value + 1, " \t\"");
    snprintf(into, size, "%.*s", (int)strcspn(value, "\"\n"), value);
    break;
  }
  if (f) fclose(f);
}

void bench_machine_read(bench_machine *out) {
  char id[128];
  struct utsname system;
  *out = (bench_machine){0};
  gethostname(out->host, sizeof out->host - 1);
  value_of("/proc/cpuinfo", "model name", ':', out->cpu, sizeof out->cpu);
  value_of("/etc/os-release", "PRETTY_NAME", '=', out->os, sizeof out->os);
  first_line("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor", out->governor,
             sizeof out->governor);
  first_line("/sys/devices/system/cpu/smt/control", out->smt, sizeof out->smt);
  first_line("/sys/fs/cgroup/cpu.max", out->cgroup_quota, sizeof out->cgroup_quota);
  first_line("/etc/machine-id", id, sizeof id);
  if (uname(&system) == 0) snprintf(out->kernel, sizeof out->kernel, "%s", system.release);
  const long cores = sysconf(_SC_NPROCESSORS_ONLN), pages = sysconf(_SC_PHYS_PAGES);
  out->cores = cores > 0 ? (uint32_t)cores : 0;
  out->memory = pages > 0 ? (uint64_t)pages * (uint64_t)sysconf(_SC_PAGESIZE) : 0;
  uint64_t hash = accel_hash_text(ACCEL_HASH_SEED, *id ? id : out->host);
  const uint64_t size[2] = {out->cores, out->memory >> 30};
  hash = accel_hash(accel_hash_text(hash, out->cpu), size, sizeof size);
  snprintf(out->hash, sizeof out->hash, "%016llx", (unsigned long long)hash);
}
