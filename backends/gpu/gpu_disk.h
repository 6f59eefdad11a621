/* gpu_disk.h - weights that lie neither in device memory nor in the host's: in each run they are read
 * from their files, or from the cache of packed weights, and go through pinned memory to the ring
 * (gpu_offload.h).
 *
 * A weight is cut into parts: rows of its data, or some of its scales, as the device keeps them.
 * Plain formats are read as rows of the checkpoint and arranged when they come.  Coded formats were
 * arranged once, while the endpoint was loaded: an entry of the cache has all coded weights that may
 * be offloaded, a segment a part, whatever the limits are.  The host's reader (kit_stream) reads
 * parts ahead, also past the end of a run; each goes through one of a few buffers of pinned memory,
 * which is filled again when the copy out of it has ended. */
#ifndef ACCEL_GPU_DISK_H
#define ACCEL_GPU_DISK_H

#include "gpu/gpu_offload_plan.h"

typedef struct gpu_disk gpu_disk; /* an endpoint's */

/* Part of a weight as it lies in the ring. */
typedef struct gpu_disk_part {
  uint64_t at, bytes;  /* from the weight's first byte */
  int64_t first, rows; /* of the data; rows 0: words of scales, from byte `first` of them on */
} gpu_disk_part;

/* Opens what the plan needs, self->offload->plan; *out stays NULL where nothing lies on the disk.
 * host: of init, until close. */
int32_t gpu_disk_open(gpu_self *self, const kit_open *open, const gpu_offload_plan *plan,
                      gpu_disk **out, accel_plugin_error *error);
void gpu_disk_close(gpu_disk *disk); /* NULL: nothing */

/* ---- loading ---- */

/* Parts that the cache keeps of a weight; 0: none.  disk may be NULL. */
uint32_t gpu_disk_kept(const gpu_disk *disk, uint32_t weight);
gpu_disk_part gpu_disk_part_of(const gpu_disk *disk, uint32_t weight, uint32_t part);
/* Reads a part that is kept; out NULL: nothing is read.  false: it is missing. */
bool gpu_disk_get(const gpu_disk *disk, uint32_t weight, uint32_t part, void *out);
int32_t gpu_disk_put(const gpu_disk *disk, uint32_t weight, uint32_t part, const void *bytes,
                     accel_plugin_error *error);
/* All weights were loaded: what is kept is read from now on. */
int32_t gpu_disk_loaded(gpu_disk *disk, accel_plugin_error *error);

/* ---- runs ---- */

/* weight[n]: those on the disk in the order in which a run of `entry` copies them. */
int32_t gpu_disk_begin(gpu_disk *disk, const kit_begin *begin, const uint32_t *weight, uint32_t n,
                       accel_plugin_error *error);
/* Copies parts of the next weight to its place in the ring, from *part on, which counts them.  Not
 * wait: as many as can be without waiting for the disk or the device. */
int32_t gpu_disk_copy(gpu_disk *disk, gpu_stream *copies, uint32_t weight, uint32_t *part,
                      const gpu_memory *to, bool wait, accel_plugin_error *error);
uint32_t gpu_disk_parts(const gpu_disk *disk, uint32_t weight);
void gpu_disk_end(gpu_disk *disk, bool ok);

#endif
