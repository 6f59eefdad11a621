/* cpu_launch.h - what the kit calls for each node (kit_backend's functions): a look into the table
 * of ops. */
#ifndef ACCEL_CPU_LAUNCH_H
#define ACCEL_CPU_LAUNCH_H

#include "cpu.h"

int32_t cpu_launch(void *self, const kit_launch *launch, accel_plugin_error *error);
uint64_t cpu_workspace(void *self, const kit_launch *shapes, uint32_t workers);
bool cpu_strided(const accel_plugin_program *program, const accel_plugin_node *node,
                 uint32_t operand);
bool cpu_fuse_parallel(void *self, const accel_plugin_program *program,
                       const accel_plugin_node *first, const accel_plugin_node *other);
bool cpu_fuse_chain(void *self, const accel_plugin_program *program, const accel_plugin_node *first,
                    const accel_plugin_node *next);
double cpu_limit_us(void *self, const kit_launch *launch);

#endif
