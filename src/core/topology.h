/* topology.h - processors, cores and cgroup limits, read from /proc and /sys below a root ("" is
 * the real one; tests give fake trees). */
#ifndef ACCEL_CORE_TOPOLOGY_H
#define ACCEL_CORE_TOPOLOGY_H

#include <stddef.h>
#include <stdint.h>

enum { ACCEL__MAX_CPUS = 8192 };
typedef struct accel__cpu_mask {
  uint64_t word[ACCEL__MAX_CPUS / 64];
} accel__cpu_mask;

/* Processors this thread may run on; processor 0 alone when the system does not say. */
void accel__affinity_mask(accel__cpu_mask *out);
uint32_t accel__mask_count(const accel__cpu_mask *mask);
/* Cores with at least one processor in the mask; the number of processors where /sys does not tell
 * siblings. */
uint32_t accel__cores_in(const char *root, const accel__cpu_mask *mask);
/* Smallest cpu quota of this process's cgroup and its ancestors, in processors (1.5); 0 without
 * one.  cgroup v2 (cpu.max) and v1 (cpu.cfs_quota_us), mounted at /sys/fs/cgroup. */
double accel__cgroup_cpus(const char *root);
/* Bytes this process may still take: /proc/meminfo's MemAvailable, less where a memory cgroup
 * leaves less.  0 not known. *total likewise: MemTotal, or a smaller cgroup limit. */
uint64_t accel__memory_available(const char *root, uint64_t *total);
/* The rule of accel__default_threads; *why (may be NULL) gets a static sentence. */
uint32_t accel__choose_threads(uint32_t affinity, double quota, uint32_t cores, const char **why);
/* First line of a small file, without the newline; its length, 0 when it cannot be read. */
size_t accel__small_file(char *out, size_t capacity, const char *root, const char *path);

#endif
