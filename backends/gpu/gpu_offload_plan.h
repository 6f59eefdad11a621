/* gpu_offload_plan.h - which weights of linear layers lie in host memory (gpu_offload.h), and which
 * of them there is no room for there (gpu_disk.h). */
#ifndef ACCEL_GPU_OFFLOAD_PLAN_H
#define ACCEL_GPU_OFFLOAD_PLAN_H

#include "formats/weight_matrix.h"
#include "gpu/gpu_layer.h"
#include "kit/kit_stream.h"

enum {
  GPU_OFFLOAD_PAIR = 2, /* weights of one node, at most */
  GPU_DISK_SLOTS = 8,   /* of the host's reader */
  GPU_DISK_CHUNKS = 4   /* buffers of pinned memory */
};

/* Where data end and scales begin in host memory and in the ring: bytes. */
static inline uint64_t gpu_offload_rounded(uint64_t bytes) { return (bytes + 255) / 256 * 256; }

/* How weights on the disk are cut, and what that takes; the same whatever the budgets. */
typedef struct gpu_disk_cut {
  uint64_t part;  /* bytes of a part as the device keeps it, but for rows that are longer */
  uint64_t slot;  /* the most that a part takes as it is stored */
  uint64_t chunk; /* and as the device keeps it */
  uint64_t store; /* what the cache must hold; 0: no coded weight may be offloaded */
  uint64_t hash;  /* of what it holds */
} gpu_disk_cut;

typedef struct gpu_offload_plan {
  kit_segment *weight; /* [n_weight] resident: it stays; bytes as they pass the ring, 0: it must */
  uint64_t *launch;    /* [n_weight] bytes of the largest launch that reads it, at most */
  bool *readable;      /* [n_weight] it can be read from files in each run */
  bool *on_disk;       /* [n_weight] it is */
  gpu_disk_cut cut;
  uint64_t fixed;      /* bytes of weights that must stay */
  uint64_t least;      /* the smallest budget; 0: there is nothing to offload */
  uint64_t ring;       /* bytes; holds two launches: 0: all weights stay */
  uint64_t resident;   /* bytes that stay, `fixed` among them */
  uint64_t host;       /* host memory for the others */
  uint64_t host_least; /* the smallest that does; 0: none can be read from files */
  uint64_t read;       /* bytes that a run of kit_stream_entry copies or reads */
  uint64_t disk;       /* of them from files */
} gpu_offload_plan;

/* For options->stream_budget, 0: the least, and stream_host_budget.  A plan that passes a budget is
 * the least one. */
int32_t gpu_offload_plan_make(const accel_plugin_program *program,
                              const accel_plugin_options *options, gpu_offload_plan *out,
                              accel_plugin_error *error);
void gpu_offload_plan_free(gpu_offload_plan *plan);
/* Weights of a linear layer that may lie in host memory: how many. */
uint32_t gpu_offload_operands(const accel_plugin_program *program, const accel_plugin_node *node,
                              uint32_t out[GPU_OFFLOAD_PAIR]);

/* ---- parts ---- */

/* Bytes of a weight's data and scales. */
typedef struct gpu_disk_shape {
  int64_t rows;
  uint64_t row, data, scale;
} gpu_disk_shape;
gpu_disk_shape gpu_disk_shape_of(const accel_plugin_program *program, uint32_t weight,
                                 const accel_plugin_format *format);
/* Rows of a part of data, 1 at least; how many parts are of data; of all. */
int64_t gpu_disk_rows(const gpu_disk_cut *cut, const gpu_disk_shape *shape);
uint32_t gpu_disk_data_parts(const gpu_disk_cut *cut, const gpu_disk_shape *shape);
uint32_t gpu_disk_all_parts(const gpu_disk_cut *cut, const gpu_disk_shape *shape);
/* The cache's key of the entry that has all coded weights. */
void gpu_disk_key(const accel_plugin_program *program, const gpu_disk_cut *cut, char key[96]);
/* Those of which a run finds the data arranged in the cache, not as rows of the checkpoint. */
static inline bool gpu_disk_coded(const accel_plugin_format *format) {
  return !accel_format_plain(format);
}

#endif
