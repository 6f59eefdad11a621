/* topology.c - processors, cores and cgroup limits from /proc and /sys. */
#include "core/topology.h"

#include <fcntl.h>
#include <sched.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { PATH_BYTES = 4096, TEXT_BYTES = 16384 };

/* The file's text, cut at capacity; its length, 0 when it cannot be read. */
static size_t read_text(char *out, size_t capacity, const char *root, const char *path) {
  char name[PATH_BYTES];
  out[0] = 0;
  if (snprintf(name, sizeof name, "%s%s", root, path) >= (int)sizeof name) return 0;
  int fd = open(name, O_RDONLY | O_CLOEXEC);
  if (fd < 0) return 0;
  size_t n = 0;
  for (ssize_t got; n < capacity - 1 && (got = read(fd, out + n, capacity - 1 - n)) > 0;)
    n += (size_t)got;
  close(fd);
  out[n] = 0;
  return n;
}

size_t accel__small_file(char *out, size_t capacity, const char *root, const char *path) {
  read_text(out, capacity, root, path);
  out[strcspn(out, "\n")] = 0;
  return strlen(out);
}

/* ---- processors ---- */

static bool in_mask(const accel__cpu_mask *mask, uint32_t cpu) {
  return cpu < ACCEL__MAX_CPUS && mask->word[cpu / 64] >> cpu % 64 & 1;
}

void accel__affinity_mask(accel__cpu_mask *out) {
  memset(out, 0, sizeof *out);
#ifdef __EMSCRIPTEN__ /* what the browser tells (navigator.hardwareConcurrency); 1 without threads */
  const long n = sysconf(_SC_NPROCESSORS_ONLN);
  for (long i = 0; i < (n > 1 ? n : 1) && i < ACCEL__MAX_CPUS; i++)
    out->word[i / 64] |= UINT64_C(1) << i % 64;
#else
  if (sched_getaffinity(0, sizeof *out, (cpu_set_t *)(void *)out->word) != 0) out->word[0] = 1;
#endif
}

uint32_t accel__mask_count(const accel__cpu_mask *mask) {
  uint32_t n = 0;
  for (size_t i = 0; i < sizeof mask->word / sizeof *mask->word; i++)
    n += (uint32_t)__builtin_popcountll(mask->word[i]);
  return n;
}

/* A core is counted at its first processor that is in the mask: siblings[] is a list such as "0,64"
 * or "0-1". */
static bool first_of_core(const accel__cpu_mask *mask, uint32_t cpu, const char *siblings) {
  for (const char *p = siblings; *p >= '0' && *p <= '9';) {
    char *end;
    unsigned long from = strtoul(p, &end, 10), to = from;
    if (*end == '-') to = strtoul(end + 1, &end, 10);
    for (unsigned long other = from; other <= to && other < cpu; other++) {
      if (in_mask(mask, (uint32_t)other)) return false;
    }
    p = *end == ',' ? end + 1 : "";
  }
  return true;
}

uint32_t accel__cores_in(const char *root, const accel__cpu_mask *mask) {
  uint32_t cores = 0;
  for (uint32_t cpu = 0; cpu < ACCEL__MAX_CPUS; cpu++) {
    if (!in_mask(mask, cpu)) continue;
    char path[96], siblings[1024];
    snprintf(path, sizeof path, "/sys/devices/system/cpu/cpu%u/topology/thread_siblings_list", cpu);
    accel__small_file(siblings, sizeof siblings, root, path);
    cores += first_of_core(mask, cpu, siblings);
  }
  return cores;
}

/* ---- cgroups ---- */

typedef struct cgroup {
  /* "/sys/fs/cgroup" or "/sys/fs/cgroup/cpu", and "/a/b" below it */
  char mount[64], path[PATH_BYTES / 2];
  bool v2;
} cgroup;

static bool lists(const char *names, size_t n, const char *name) { /* "cpu,cpuacct" lists "cpu" */
  for (size_t i = 0; i < n;) {
    size_t length = 0;
    while (i + length < n && names[i + length] != ',') length++;
    if (length == strlen(name) && !memcmp(names + i, name, length)) return true;
    i += length + 1;
  }
  return false;
}

/* Where this process's limits of a controller are: lines of /proc/self/cgroup are
 * "ID:controllers:/path", v2's is "0::/path". */
static bool find_cgroup(const char *root, const char *controller, cgroup *out) {
  char text[TEXT_BYTES];
  bool found = false;
  read_text(text, sizeof text, root, "/proc/self/cgroup");
  for (char *line = text, *end; *line; line = end) {
    end = line + strcspn(line, "\n");
    if (*end) *end++ = 0;
    char *names = strchr(line, ':'), *path = names ? strchr(names + 1, ':') : NULL;
    if (!path || path[1] != '/' || strlen(path + 1) >= sizeof out->path) continue;
    size_t n = (size_t)(path - ++names);
    bool v1 = lists(names, n, controller);
    if (!v1 && (n || found)) continue;
    found = true;
    out->v2 = !v1;
    snprintf(out->mount, sizeof out->mount, v1 ? "/sys/fs/cgroup/%s" : "/sys/fs/cgroup",
             controller);
    /* outside our namespace: its root is all we see */
    snprintf(out->path, sizeof out->path, "%s", strstr(path, "/..") ? "" : path + 1);
    if (v1) break;
  }
  return found;
}

/* To the parent; false when this was the root.  Container paths that are not visible inside it lead
 * to the root all the same. */
static bool to_parent(cgroup *g) {
  char *slash = strrchr(g->path, '/');
  if (slash) *slash = 0;
  return slash != NULL;
}

static size_t read_limit(const char *root, const cgroup *g, const char *name, char *out,
                         size_t capacity) {
  char path[PATH_BYTES];
  snprintf(path, sizeof path, "%s%s/%s", g->mount, g->path, name);
  return read_text(out, capacity, root, path);
}

/* Quota of one level in processors; 0 none. */
static double level_cpus(const char *root, const cgroup *g) {
  char quota[64], period[64];
  read_limit(root, g, g->v2 ? "cpu.max" : "cpu.cfs_quota_us", quota, sizeof quota);
  char *second = strchr(quota, ' '); /* v2: "150000 100000" or "max 100000" */
  if (!g->v2)
    second = read_limit(root, g, "cpu.cfs_period_us", period, sizeof period) ? period : NULL;
  /* "max" is 0, v1's -1 is none too */
  long long q = strtoll(quota, NULL, 10), p = second ? strtoll(second, NULL, 10) : 0;
  return q > 0 && p > 0 ? (double)q / (double)p : 0;
}

double accel__cgroup_cpus(const char *root) {
  cgroup g;
  double least = 0;
  if (!find_cgroup(root, "cpu", &g)) return 0;
  do {
    double cpus = level_cpus(root, &g);
    if (cpus > 0 && (least == 0 || cpus < least)) least = cpus;
  } while (to_parent(&g));
  return least;
}

/* The number behind "\nKEY" or at the begin of the text; 0 without one. */
static uint64_t number_after(const char *text, const char *key) {
  size_t n = strlen(key);
  for (const char *line = text; line; line = strchr(line, '\n') ? strchr(line, '\n') + 1 : NULL) {
    if (!strncmp(line, key, n)) return strtoull(line + n, NULL, 10);
  }
  return 0;
}

/* Limit of one level and what is left below it (file pages that can be dropped count as left);
 * false without a limit. */
static bool level_memory(const char *root, const cgroup *g, uint64_t *limit, uint64_t *left) {
  char text[TEXT_BYTES];
  read_limit(root, g, g->v2 ? "memory.max" : "memory.limit_in_bytes", text, sizeof text);
  *limit = strtoull(text, NULL, 10); /* "max" is 0 */
  if (!*limit || *limit >= UINT64_C(1) << 60) return false;
  read_limit(root, g, g->v2 ? "memory.current" : "memory.usage_in_bytes", text, sizeof text);
  uint64_t used = strtoull(text, NULL, 10);
  read_limit(root, g, "memory.stat", text, sizeof text);
  uint64_t droppable = number_after(text, g->v2 ? "inactive_file " : "total_inactive_file ");
  used -= droppable < used ? droppable : used;
  *left = used < *limit ? *limit - used : 0;
  return true;
}

uint64_t accel__memory_available(const char *root, uint64_t *total) {
  char text[TEXT_BYTES];
  cgroup g;
  read_text(text, sizeof text, root, "/proc/meminfo");
  *total = number_after(text, "MemTotal:") * 1024;
  uint64_t available = number_after(text, "MemAvailable:") * 1024;
  if (!find_cgroup(root, "memory", &g)) return available;
  do {
    uint64_t limit, left;
    if (!level_memory(root, &g, &limit, &left)) continue;
    if (limit < *total) *total = limit;
    if (left < available) available = left;
  } while (to_parent(&g));
  return available;
}

/* ---- the default number of threads ---- */

uint32_t accel__choose_threads(uint32_t affinity, double quota, uint32_t cores, const char **why) {
  uint32_t n = affinity;
  const char *reason = "every processor this process may use";
  if (cores && cores < n) n = cores, reason = "one for each physical core this process may use";
  if (quota > 0 && quota < (double)n) n = (uint32_t)quota, reason = "the cgroup's processor quota";
  if (!n) n = 1;
  if (why) *why = reason;
  return n;
}
