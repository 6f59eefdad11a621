/* weights.h - the tensors of a checkpoint: safetensors files, single or sharded, checked before
 * anything is believed.
 *
 * A tensor of a checkpoint is a place in a file, which is read, and while a model is loaded mapped
 * where nobody can cut it (core/file_pages.h): a file that is cut, written or replaced later is an
 * error of the next read, never a signal.
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
  uint32_t file;    /* index of the file it lives in */
  uint64_t offset;  /* of its first byte in that file */
  const void *data; /* of a tensor for accel__safetensors_write; NULL in a checkpoint */
} accel__tensor_info;

/* immutable once its files are opened: usable from any thread */
typedef struct accel__checkpoint accel__checkpoint;

/* A directory (model.safetensors, or model.safetensors.index.json with its shards, or the single
 * *.safetensors there), or a file. Only .bin, .pt, .ckpt, .h5, .msgpack, .onnx, .gguf there:
 * ACCEL_ERROR_UNSUPPORTED with the reason (pickle runs code) and the remedy. Malformed:
 * ACCEL_ERROR_FORMAT naming file, tensor and field.  The files are as accel__checkpoint_read leaves
 * them. */
accel_status accel__checkpoint_open(const char *path, accel__checkpoint **out);
/* The same, but only the headers are read.  No file stays open: tensors can be read, each time by
 * opening its file, which does for a few small ones. */
accel_status accel__checkpoint_open_headers(const char *path, accel__checkpoint **out);
/* As accel__checkpoint_open_headers, but a directory's files of `variant` ("fp16":
 * model.fp16.safetensors) where it has such: *found.  variant NULL: the plain ones. */
accel_status accel__checkpoint_open_variant(const char *path, const char *variant, bool *found,
                                            accel__checkpoint **out);
/* The error that no files of a variant are there. */
accel_status accel__no_variant(const char *path, const char *variant);
/* No tensors yet: accel__checkpoint_join adds those of the parts of a pipeline.  path: its
 * directory. */
accel_status accel__checkpoint_empty(const char *path, accel__checkpoint **out);
/* Opens the files for reading.  Before c is shared between threads; c NULL: nothing to do.
 * ACCEL_ERROR_FORMAT, ACCEL_ERROR_IO: a file is not the one whose header was read (of another size;
 * rewritten, replaced), which is looked at behind each read, too. */
accel_status accel__checkpoint_read(accel__checkpoint *c);
/* The same, and maps those that nobody can cut meanwhile, unless they would take more than half of a
 * limited address space: for the time of a load, which accel__checkpoint_read ends.  Until then who
 * wants to write to them waits. */
accel_status accel__checkpoint_map(accel__checkpoint *c);
/* The same, and what is forgotten does not stay in the page cache either, but for what was read
 * ahead. */
accel_status accel__checkpoint_bypass(accel__checkpoint *c);
/* Behind that: nothing of the files stays there. */
void accel__checkpoint_forget_all(const accel__checkpoint *c);
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
/* path; NULL: there are no so many files */
const char *accel__checkpoint_file(const accel__checkpoint *c, uint32_t file);
/* of the file whose header was read */
const accel__file_state *accel__checkpoint_file_state(const accel__checkpoint *c, uint32_t file);
/* of file sizes, times, inodes and headers: a cache key */
uint64_t accel__checkpoint_hash(const accel__checkpoint *c);
/* Drops a tensor's pages from memory, those of a mapping or (accel__checkpoint_bypass) of the page
 * cache; they come back from the file when they are touched or read. */
void accel__checkpoint_forget(const accel__checkpoint *c, const accel__tensor_info *t);

/* ---- bytes of a tensor of c (or of a part of one: `offset` and `bytes` count) ---- Any thread.  A
 * range outside the tensor is ACCEL_ERROR_ARGUMENT.  A file that is not in the state of its header
 * any more is ACCEL_ERROR_FORMAT (another size) or ACCEL_ERROR_IO, which name file, tensor and
 * remedy. */

/* Bytes [first, first+n). */
accel_status accel__tensor_read(const accel__checkpoint *c, const accel__tensor_info *t,
                                uint64_t first, uint64_t n, void *out);
/* The same, in memory of their own until they are returned. */
typedef struct accel__lent {
  const void *data;
  void *own;   /* NULL: they are mapped */
} accel__lent; /* {0} is nothing */
accel_status accel__tensor_lend(const accel__checkpoint *c, const accel__tensor_info *t,
                                uint64_t first, uint64_t n, accel__lent *out);
/* Mapped where accel__tensor_pages has them, else the same. */
accel_status accel__tensor_borrow(const accel__checkpoint *c, const accel__tensor_info *t,
                                  uint64_t first, uint64_t n, accel__lent *out);
void accel__tensor_return(accel__lent *lent); /* leaves {0} */
/* Where they are mapped, aligned to the tensor's elements: for a while, at the longest until
 * accel__checkpoint_read.  NULL: they are not (any more). */
const void *accel__tensor_pages(const accel__checkpoint *c, const accel__tensor_info *t,
                                uint64_t first, uint64_t n);
/* Elements [first, first+count) as fp32; integers and bool become floats.  Quantised dtypes (F8_*,
 * F6_*, F4) and C64: ACCEL_ERROR_UNSUPPORTED. */
accel_status accel__tensor_to_f32(const accel__checkpoint *c, const accel__tensor_info *t,
                                  uint64_t first, uint64_t count, float *out);
/* The same for elements in memory, aligned or not. */
accel_status accel__elements_to_f32(accel_plugin_dtype dtype, const void *from, uint64_t count,
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
