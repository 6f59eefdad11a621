/* bench_machine.h - who measures: this machine and this build, as the database keeps them. */
#ifndef ACCEL_BENCH_MACHINE_H
#define ACCEL_BENCH_MACHINE_H

#include <stdint.h>

typedef struct bench_machine {
  /* of the machine id of the system (without one: the host's name), processor, number of processors
   * and memory in whole GiB: another number is another machine */
  char hash[20];
  char host[256], cpu[128];
  uint32_t cores;  /* online */
  uint64_t memory; /* bytes */
  /* as they are now; "" not known */
  char kernel[128], os[128], governor[32], smt[16], cgroup_quota[64];
} bench_machine;

void bench_machine_read(bench_machine *out);
const char *bench_build_id(void); /* of this program: git describe when it was configured */
const char *bench_compiler(void);

#endif
