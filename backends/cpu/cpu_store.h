/* cpu_store.h - packed weights from the core's cache, or made and kept there, segment by segment.
 *
 * A block is the packed weights of one tensor (or two that share panels): units (the experts of a
 * tensor; else one) of panels.  What is quantised is kept on disk: a segment a unit, or several
 * where a unit is larger than segments may be.
 */
#ifndef ACCEL_CPU_STORE_H
#define ACCEL_CPU_STORE_H

#include "kernels/kernels.h"
#include "kit/kit.h"

/* What an endpoint's weights are made from, while it is opened. */
typedef struct cpu_load {
  const accel_plugin_program *program;
  const cpu_kernels *kernels;
  const accel_plugin_format *format; /* [n_weight] */
  const accel_plugin_host *host;
  const uint8_t *row_dtype; /* [n_weight] of options; NULL: the endpoint does not stream */
  const uint8_t *in_file;   /* [n_weight] of options; NULL: nothing is packed from blocks of rows */
} cpu_load;

/* Panels [first, first + n) of a unit, and where they go. */
typedef struct cpu_range {
  int64_t unit, first, n;
  char *to;
} cpu_range;

/* What is to be packed of a block. */
typedef struct cpu_ranges {
  const cpu_range *at;
  uint32_t n;
  /* at[i] is packed; NULL: nobody asks */
  int32_t (*packed)(void *user, uint32_t i, accel_plugin_error *error);
  void *user;
} cpu_ranges;

/* Packs the ranges of the block of `of`. */
typedef int32_t cpu_block_pack_fn(const cpu_load *load, void *of, const cpu_ranges *ranges,
                                  accel_plugin_error *error);

typedef struct cpu_block {
  /* [units][panels][panel_bytes], then tail_bytes; NULL: the cache has it alone, of which it is
   * streamed */
  char *memory;
  int64_t units, panels;
  uint64_t panel_bytes, tail_bytes; /* the tail belongs to the last panel */
  cpu_block_pack_fn *pack;
  void *of;
  uint32_t weight; /* the tensor, for its stage */
  /* hash of what the bytes depend on beside the program and the kernels; 0: making them is no more
   * than copying, which a cache cannot beat */
  uint64_t identity;
} cpu_block;

/* The blocks of an endpoint, in the order in which they are packed. */
typedef struct cpu_blocks {
  cpu_block *at;
  uint32_t n, room;
  uint64_t segment_bytes; /* cpu_segment_bytes */
} cpu_blocks;

/* Bytes of a segment, at most, where a panel is less: up to 2 MiB, some of which ahead keep the
 * disk busy, but a small part of the model. */
uint64_t cpu_segment_bytes(const accel_plugin_program *program, const accel_plugin_format *format);

/* Appends a block; false: no memory. */
bool cpu_blocks_add(cpu_blocks *blocks, const cpu_block *block);
/* Segments of the cache that the blocks so far have: the number of the next one. */
uint32_t cpu_blocks_kept(const cpu_blocks *blocks);
/* Hash of facts[n bytes], never 0, for cpu_block.identity. */
uint64_t cpu_block_identity(const void *facts, size_t n, const accel_plugin_format *format);
/* Segments of a unit of so many panels in a coded format; panels of segment i begin at
 * cpu_share(panels, i, parts). */
uint32_t cpu_segment_parts(int64_t panels, uint64_t panel_bytes, uint64_t segment_bytes);
/* Fills the memory of all blocks.  Where some have none, their segments are in the cache then, of
 * which the host's reader reads (store_post); E_IO: the cache does not take them. */
int32_t cpu_blocks_fill(const cpu_blocks *blocks, const cpu_load *load, accel_plugin_error *error);
/* The key of their segments in the cache, and bytes that these take; 0: nothing is kept. */
uint64_t cpu_blocks_key(const cpu_blocks *blocks, const cpu_load *load, char key[96]);

/* Formats that are made by quantising. */
static inline bool cpu_is_coded(const accel_plugin_format *format) {
  return format->store > ACCEL_PLUGIN_BF16;
}

#endif
