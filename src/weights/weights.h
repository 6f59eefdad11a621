/* weights.h - the tensors of a checkpoint: safetensors files, single or sharded, mapped and checked before anything is
 * believed.
 *
 * Format of a safetensors file: u64 little-endian header length, then a JSON header, then the data:
 *   {"name": {"dtype","shape","data_offsets":[begin,end]}, ..., "__metadata__": {string: string}}
 * Offsets count from the end of the header.
 */
#ifndef ACCEL_WEIGHTS_WEIGHTS_H
#define ACCEL_WEIGHTS_WEIGHTS_H

#include <stdbool.h>
#include <stdint.h>

#include "accel/plugin.h"
#include "core/file.h"
#include "core/status.h"

/* Types a file may store that no program uses: further values of accel__tensor_info.dtype.  From
 * C64 on they can be listed but not read. */
enum {
  ACCEL__STORED_I16 = 32,
  ACCEL__STORED_U16 = 33,
  ACCEL__STORED_U32 = 34,
  ACCEL__STORED_U64 = 35,
  ACCEL__STORED_C64 = 36,
  ACCEL__STORED_E2M3 = 37,
  ACCEL__STORED_E3M2 = 38,
  ACCEL__STORED_E4M3FNUZ = 39,
  ACCEL__STORED_E5M2FNUZ = 40
};

typedef struct accel__tensor_info {
  const char *name;
  accel_plugin_dtype dtype; /* as stored; or ACCEL__STORED_* */
  uint32_t rank;
  int64_t dim[8];
  uint64_t elements, bytes;
  const void *data; /* its bytes in memory; NULL while its file is not mapped */
  uint32_t file;    /* index of the file it lives in */
  uint64_t offset;  /* of its first byte in that file */
} accel__tensor_info;

/* immutable once it is mapped: usable from any thread */
typedef struct accel__checkpoint accel__checkpoint;

/* A directory (model.safetensors, or model.safetensors.index.json with its shards, or the single
 * *.safetensors there), or a file. Only .bin, .pt, .ckpt, .h5, .msgpack, .onnx, .gguf there:
 * ACCEL_ERROR_UNSUPPORTED with the reason (pickle runs code) and the remedy. Malformed:
 * ACCEL_ERROR_FORMAT naming file, tensor and field.  The files are mapped. */
accel_status accel__checkpoint_open(const char *path, accel__checkpoint **out);
/* The same, but only the headers are read: names, types and shapes are there, no tensor has `data`.
 * Takes no address space for the files, so that what a model would take can be told where it does
 * not fit. */
accel_status accel__checkpoint_open_headers(const char *path, accel__checkpoint **out);
/* Maps what is not mapped yet and fills `data` of every tensor.  Before c is shared between threads;
 * c NULL: nothing to do.  ACCEL_ERROR_DOES_NOT_FIT: no address space; ACCEL_ERROR_IO: a file is not
 * the one whose header was read (shorter, rewritten, replaced). */
accel_status accel__checkpoint_map(accel__checkpoint *c);
bool accel__checkpoint_is_mapped(const accel__checkpoint *c);
/* Reads one tensor of a checkpoint that may not be mapped into memory of the checkpoint, for the few
 * small ones that decide how others are understood; *t is one of c's.  Before c is shared. */
accel_status accel__checkpoint_load(accel__checkpoint *c, const accel__tensor_info *t);
void accel__checkpoint_close(accel__checkpoint **c);
/* Takes over another checkpoint (*other becomes NULL, also on failure); its tensors get `prefix` in
 * front of their names. Before c is shared between threads. */
accel_status accel__checkpoint_join(accel__checkpoint *c, accel__checkpoint **other,
                                    const char *prefix);
uint32_t accel__checkpoint_count(const accel__checkpoint *c);
/* in file order */
const accel__tensor_info *accel__checkpoint_at(const accel__checkpoint *c, uint32_t i);
/* NULL: absent */
const accel__tensor_info *accel__checkpoint_find(const accel__checkpoint *c, const char *name);
/* NULL: absent */
const char *accel__checkpoint_metadata(const accel__checkpoint *c, const char *key);
/* path */
const char *accel__checkpoint_file(const accel__checkpoint *c, uint32_t file);
/* of file sizes, times, inodes and headers: a cache key */
uint64_t accel__checkpoint_hash(const accel__checkpoint *c);
/* Drops a tensor's pages from memory; they come back from the file when touched. */
void accel__checkpoint_forget(const accel__checkpoint *c, const accel__tensor_info *t);

/* elements [first, first+count) as fp32; integers and bool become floats.  Quantised dtypes (F8_*,
 * F6_*, F4) and C64: ACCEL_ERROR_UNSUPPORTED. */
accel_status accel__tensor_to_f32(const accel__tensor_info *t, uint64_t first, uint64_t count,
                                  float *out);

/* Writes a safetensors file (tests, `accel preprocess`, random models); metadata pairs may be
 * NULL. */
accel_status accel__safetensors_write(const char *path, const accel__tensor_info *tensors,
                                      uint32_t n, const char *const *metadata, uint32_t n_pairs);

/* of one element; 0 for a number that is no dtype */
uint64_t accel__dtype_bits(accel_plugin_dtype dtype);
/* "F32", as safetensors spells it; "I4", "U4" for the two it does not have */
const char *accel__dtype_name(accel_plugin_dtype dtype);

#endif
