/* core_topology_test.c - cores, quotas and memory limits read from made-up /proc and /sys trees;
 * facts of this processor. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "core/cpu_info.h"
#include "core/topology.h"
#include "unit/temp.h"

/* Root of a new empty tree; put() adds files to it. */
static char root[512];
static void new_tree(void) {
  static int count;
  char name[32];
  snprintf(name, sizeof name, "tree%d", count++);
  snprintf(root, sizeof root, "%s", temp_path(name));
}
static void put(const char *path, const char *text) {
  char name[512];
  snprintf(name, sizeof name, "%s%s", strrchr(root, '/') + 1, path);
  temp_text(name, text);
}

static accel__cpu_mask mask_of(uint64_t low, uint32_t far) {
  accel__cpu_mask mask = {{low}};
  if (far) mask.word[far / 64] |= UINT64_C(1) << far % 64;
  return mask;
}

/* ---- cores ---- */

static void siblings(uint32_t cpu, const char *list) {
  char path[128];
  snprintf(path, sizeof path, "/sys/devices/system/cpu/cpu%u/topology/thread_siblings_list", cpu);
  put(path, list);
}

static void test_cores(void **state) {
  (void)state;
  accel__cpu_mask mask;
  new_tree(); /* 4 cores of two threads: 0+4, 1+5, 2+6, 3+7 */
  static const char *const far[] = {"0,4\n", "1,5\n", "2,6\n", "3,7\n"};
  for (uint32_t i = 0; i < 8; i++) siblings(i, far[i % 4]);
  assert_int_equal(accel__cores_in(root, (mask = mask_of(0xFF, 0), &mask)), 4);
  /* second threads only */
  assert_int_equal(accel__cores_in(root, (mask = mask_of(0xF0, 0), &mask)), 4);
  assert_int_equal(accel__cores_in(root, (mask = mask_of(0x33, 0), &mask)), 2);
  assert_int_equal(accel__cores_in(root, (mask = mask_of(0x10, 0), &mask)), 1);
  new_tree(); /* neighbours: 0-1, 2-3; processor 300 alone */
  siblings(0, "0-1\n"), siblings(1, "0-1\n"), siblings(2, "2-3\n"), siblings(3, "2-3\n"),
      siblings(300, "300\n");
  assert_int_equal(accel__cores_in(root, (mask = mask_of(0xF, 300), &mask)), 3);
  assert_int_equal(accel__mask_count(&mask), 5);
  new_tree(); /* nothing told: every processor is a core */
  assert_int_equal(accel__cores_in(root, (mask = mask_of(0x7, 8191), &mask)), 4);
  siblings(0, "rubbish"), siblings(1, "0-99999999999\n"), siblings(2, "");
  assert_int_equal(accel__cores_in(root, (mask = mask_of(0x7, 0), &mask)), 2);
}

/* ---- quotas ---- */

static void quota(double expected) {
  double found = accel__cgroup_cpus(root);
  if (found != expected) fail_msg("%g, expected %g", found, expected);
}

static void test_cgroup_v2(void **state) {
  (void)state;
  new_tree();
  quota(0); /* no cgroups at all */
  put("/proc/self/cgroup", "0::/user.slice/app.scope\n");
  quota(0);
  put("/sys/fs/cgroup/user.slice/app.scope/cpu.max", "max 100000\n");
  quota(0);
  put("/sys/fs/cgroup/user.slice/app.scope/cpu.max", "250000 100000\n");
  quota(2.5);
  put("/sys/fs/cgroup/user.slice/cpu.max", "150000 100000\n"); /* a parent's is smaller */
  quota(1.5);
  put("/sys/fs/cgroup/cpu.max", "50000 100000\n"); /* a container's own root */
  quota(0.5);
  put("/sys/fs/cgroup/cpu.max", "50000 0\n");
  quota(1.5);
  new_tree(); /* the path of the host, seen from inside a container */
  put("/proc/self/cgroup", "0::/docker/0123\n");
  put("/sys/fs/cgroup/cpu.max", "400000 100000\n");
  quota(4);
  new_tree(); /* outside our namespace */
  put("/proc/self/cgroup", "0::/../other\n");
  put("/sys/fs/cgroup/cpu.max", "300000 100000\n");
  quota(3);
}

static void test_cgroup_v1(void **state) {
  (void)state;
  new_tree();
  put("/proc/self/cgroup",
      "12:pids:/a\n4:cpuset:/b\n3:cpu,cpuacct:/c/d\n1:name=systemd:/\n0::/e\n");
  quota(0);
  put("/sys/fs/cgroup/cpu/c/d/cpu.cfs_quota_us", "-1\n");
  put("/sys/fs/cgroup/cpu/c/d/cpu.cfs_period_us", "100000\n");
  quota(0);
  put("/sys/fs/cgroup/cpu/c/cpu.cfs_quota_us", "350000\n");
  put("/sys/fs/cgroup/cpu/c/cpu.cfs_period_us", "100000\n");
  quota(3.5);
  /* the controller is v1's: v2's files do not count */
  put("/sys/fs/cgroup/e/cpu.max", "100000 100000\n");
  quota(3.5);
  new_tree();
  put("/proc/self/cgroup", "broken\n:\n::\n7:cpu\n7:cpu:relative\n");
  quota(0);
}

/* ---- memory ---- */

static void test_memory(void **state) {
  (void)state;
  uint64_t total, mib = 1 << 20;
  new_tree();
  assert_int_equal(accel__memory_available(root, &total), 0);
  assert_int_equal(total, 0);
  put("/proc/meminfo",
      "MemTotal:       16777216 kB\nMemFree:  1 kB\nMemAvailable:    8388608 kB\n");
  assert_int_equal(accel__memory_available(root, &total), 8192 * mib);
  assert_int_equal(total, 16384 * mib);
  put("/proc/self/cgroup", "0::/a\n");
  put("/sys/fs/cgroup/a/memory.max", "max\n");
  assert_int_equal(accel__memory_available(root, &total), 8192 * mib);
  put("/sys/fs/cgroup/memory.max", "1073741824\n");
  put("/sys/fs/cgroup/memory.current", "805306368\n");
  /* droppable */
  put("/sys/fs/cgroup/memory.stat", "anon 5\ninactive_file 268435456\nactive_file 7\n");
  assert_int_equal(accel__memory_available(root, &total), 512 * mib);
  assert_int_equal(total, 1024 * mib);
  put("/sys/fs/cgroup/memory.current", "1879048192\n"); /* over the limit */
  assert_int_equal(accel__memory_available(root, &total), 0);
  new_tree();
  put("/proc/meminfo", "MemTotal: 16777216 kB\nMemAvailable: 8388608 kB\n");
  put("/proc/self/cgroup", "9:memory:/m\n0::/\n");
  put("/sys/fs/cgroup/memory/m/memory.limit_in_bytes", "9223372036854771712\n"); /* v1's "none" */
  assert_int_equal(accel__memory_available(root, &total), 8192 * mib);
  put("/sys/fs/cgroup/memory/memory.limit_in_bytes", "2147483648\n");
  put("/sys/fs/cgroup/memory/memory.usage_in_bytes", "1073741824\n");
  put("/sys/fs/cgroup/memory/memory.stat", "cache 1\ntotal_inactive_file 1048576\n");
  assert_int_equal(accel__memory_available(root, &total), 1025 * mib);
  assert_int_equal(total, 2048 * mib);
}

/* ---- the rule ---- */

static void test_choose(void **state) {
  (void)state;
  static const struct {
    uint32_t affinity;
    double quota;
    uint32_t cores, threads;
    const char *why;
  } cases[] = {{8, 0, 8, 8, "every processor this process may use"},
               {8, 0, 0, 8, "every processor this process may use"},
               {8, 0, 4, 4, "one for each physical core this process may use"},
               {8, 2.5, 4, 2, "the cgroup's processor quota"},
               {8, 4, 4, 4, "one for each physical core this process may use"},
               {8, 0.5, 4, 1, "the cgroup's processor quota"},
               {1, 100, 1, 1, "every processor this process may use"},
               {0, 0, 0, 1, "every processor this process may use"}};
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    const char *why = NULL;
    assert_int_equal(accel__choose_threads(cases[i].affinity, cases[i].quota, cases[i].cores, &why),
                     cases[i].threads);
    assert_string_equal(why, cases[i].why);
    assert_int_equal(accel__choose_threads(cases[i].affinity, cases[i].quota, cases[i].cores, NULL),
                     cases[i].threads);
  }
}

static void test_small_file(void **state) {
  (void)state;
  char out[8];
  new_tree();
  put("/f", "abcdefghij\nx");
  assert_int_equal(accel__small_file(out, sizeof out, root, "/f"), 7);
  assert_string_equal(out, "abcdefg");
  put("/f", "ab\ncd");
  assert_int_equal(accel__small_file(out, sizeof out, root, "/f"), 2);
  assert_string_equal(out, "ab");
  assert_int_equal(accel__small_file(out, sizeof out, root, "/g"), 0);
  assert_string_equal(out, "");
  char long_path[5000];
  memset(long_path, '/', sizeof long_path);
  long_path[4999] = 0;
  assert_int_equal(accel__small_file(out, sizeof out, root, long_path), 0);
}

/* ---- this machine ---- */

static bool has(const char *features, const char *name) {
  size_t n = strlen(name);
  for (const char *at = features; (at = strstr(at, name)); at += n) {
    if ((at == features || at[-1] == ' ') && (!at[n] || at[n] == ' ')) return true;
  }
  return false;
}

static void test_this_processor(void **state) {
  (void)state;
  accel__cpu_info info;
  accel__cpu_detect(&info);
  print_message(
      "%s | %s | %s | %u processors, %u cores, %u for us, quota %g | caches %lu %lu %lu | memory "
      "%lu of %lu MiB\n",
      info.vendor, info.model, info.features, info.logical, info.physical, info.affinity,
      info.cgroup_cpus, (unsigned long)info.l1d, (unsigned long)info.l2, (unsigned long)info.l3,
      (unsigned long)(info.memory_available >> 20), (unsigned long)(info.memory_total >> 20));
  assert_in_range(info.logical, 1, 100000);
  assert_in_range(info.physical, 1, info.logical);
  assert_in_range(info.affinity, 1, info.logical);
  assert_true(info.cgroup_cpus >= 0);
  assert_true(info.memory_total > 0 && info.memory_available <= info.memory_total);
#if defined(__x86_64__)
  assert_int_equal(strlen(info.vendor), 12);
  assert_true(info.model[0] && info.model[0] != ' ');
  /* The compiler's own look at the processor agrees. */
  assert_int_equal(has(info.features, "avx2"), __builtin_cpu_supports("avx2") != 0);
  assert_int_equal(has(info.features, "fma"), __builtin_cpu_supports("fma") != 0);
  assert_int_equal(has(info.features, "avx512f"), __builtin_cpu_supports("avx512f") != 0);
  assert_int_equal(has(info.features, "avx512_vnni"), __builtin_cpu_supports("avx512vnni") != 0);
#elif defined(__aarch64__)
  assert_true(has(info.features, "asimd"));
#endif
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_cores),          cmocka_unit_test(test_cgroup_v2),
      cmocka_unit_test(test_cgroup_v1),      cmocka_unit_test(test_memory),
      cmocka_unit_test(test_choose),         cmocka_unit_test(test_small_file),
      cmocka_unit_test(test_this_processor),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
