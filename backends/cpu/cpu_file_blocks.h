/* cpu_file_blocks.h - weights that lie in a file as their format has them are read and packed block
 * by block: each task reads one and packs it while it is in the caches. */
#ifndef ACCEL_CPU_FILE_BLOCKS_H
#define ACCEL_CPU_FILE_BLOCKS_H

#include "cpu.h"
#include "cpu_store.h"

/* Whether the matrices of a linear lie there, and in rows that panels are made of. */
bool cpu_lies_in_file(const cpu_load *load, const cpu_linear *l);
/* Packs panels of such a linear; on the host's threads. */
int32_t cpu_pack_from_file(const cpu_load *load, const cpu_linear *l, const cpu_range *range,
                           accel_plugin_error *error);

#endif
