/* gpu_offload.h - weights that do not all stay in device memory: the others lie in host memory, as
 * the device keeps them, and are copied to it in each run while the kernels before them compute.
 *
 * Whole weights of linear layers are offloaded, with their scales; all others stay.  A fixed set of
 * them is resident, chosen once (kit_stream_choose).  The others pass through one device buffer, the
 * ring, in the order of the run's launches: as far ahead as there is room, on a stream of copies of
 * their own (gpu_api.begin_copies).  A launch waits for the event behind its copies; a copy over
 * bytes that a launch has read waits for the event behind that launch.  Kernels and their order are
 * those of an endpoint that has all weights in device memory, and so are the results.
 *
 * Behind the last launch of a run, while it computes, the first weights of the run that is expected
 * next are copied already, as far as they lie in host memory: of the entry that followed last time.
 *
 * Host memory is what the API pins (gpu_api.alloc with `host`), or ordinary memory where it has no
 * more of that: then copies go through the API's own staging.  Weights for which the host has no
 * room come from the disk (gpu_disk.h).  Runs take turns (kit_open). */
#ifndef ACCEL_GPU_OFFLOAD_H
#define ACCEL_GPU_OFFLOAD_H

#include "gpu/gpu_layer.h"

typedef struct gpu_offload gpu_offload; /* an endpoint's */

/* Before weights are loaded, where options->stream_budget is: which of them are offloaded, and room
 * for the ring; self->offload.  E_DEVICE_MEMORY: the budget is too small. */
int32_t gpu_offload_open(gpu_self *self, kit_open *open, accel_plugin_error *error);
void gpu_offload_close(gpu_self *self);

/* Is it offloaded?  self->offload may be NULL. */
bool gpu_offload_has(const gpu_self *self, uint32_t weight);
/* And not in host memory? */
bool gpu_offload_on_disk(const gpu_self *self, uint32_t weight);
/* What keeps parts of weights on the disk; NULL: all lie in memory. */
struct gpu_disk *gpu_offload_disk(const gpu_self *self);
/* Host memory that copies read, of a multiple of 4 bytes; *buffer NULL: it could not be pinned, which
 * was said, and *memory is the heap's.  The caller's to release or free. */
int32_t gpu_offload_pin(const gpu_self *self, uint64_t bytes, gpu_buffer **buffer, char **memory,
                        accel_plugin_error *error);
/* Host memory for an offloaded weight's data, and its scales behind; until close. */
int32_t gpu_offload_room(gpu_self *self, uint32_t weight, uint64_t data, uint64_t scale, char **out,
                         accel_plugin_error *error);

/* Notes how much a weight on the disk has of both. */
void gpu_offload_place(gpu_self *self, uint32_t weight, uint64_t data, uint64_t scale);
/* Behind the loading of all weights. */
int32_t gpu_offload_loaded(gpu_self *self, accel_plugin_error *error);

/* Around the launches of a run, all of which are on one thread. */
int32_t gpu_offload_begin(gpu_run *run, const kit_begin *begin, accel_plugin_error *error);
/* Before a launch: its weights are where the kernels told next find them, until gpu_offload_done. */
int32_t gpu_offload_take(gpu_run *run, const kit_launch *launch, accel_plugin_error *error);
int32_t gpu_offload_done(gpu_run *run, const kit_launch *launch, accel_plugin_error *error);
/* Before the run's stream ends. */
int32_t gpu_offload_end(gpu_run *run, bool ok, accel_plugin_error *error);

#endif
