/* source.h - the weights of one program in the formats a plugin asked for: what stands behind
 * weight_map and weight_unmap.
 *
 * Built from a program's weight specs and a checkpoint (or from a seed: random weights at the true
 * shape).  Values are handed out as they are stored (pages of the mapping, or a copy where files
 * are read) when the stored format is the wanted one and the weight has one part; otherwise they
 * are converted, quantised (quantise.h) or joined into a buffer that weight_unmap frees.  That goes
 * in chunks of rows whose pages of the file are dropped at once, so beside what the plugin keeps a
 * load takes one weight in its own format and a few MB; weights with `derive` also take their parts
 * as fp32, and weights that a checkpoint holds in codes, where it is not mapped, their tensors.
 */
#ifndef ACCEL_WEIGHTS_SOURCE_H
#define ACCEL_WEIGHTS_SOURCE_H

#include "core/threads.h"
#include "weights/import.h"
#include "weights/quantised.h"
#include "weights/weight_delta.h"
#include "weights/weights.h"

/* Computes a weight from its parts (folded batch norm, weight_norm): parts as fp32, into
 * out[elements of the weight]. */
typedef accel_status (*accel__derive_fn)(const void *user, const float *const *parts,
                                         const int64_t *part_elements, uint32_t n_parts,
                                         float *out);

/* Of an axis: `count` elements from `first` on of each block of `period`; period 0: all of it. */
typedef struct accel__share_axis {
  int64_t period, first, count;
} accel__share_axis;
/* What a rank has of a weight's matrix (accel_matrix_shape). */
typedef struct accel__weight_share {
  accel__share_axis rows, columns;
} accel__weight_share;

/* Blocks of `rows` rows, the first of which begins at row `first`. */
typedef struct accel__row_series {
  int64_t first, rows;
} accel__row_series;

/* Where a weight's values come from: parts[] are checkpoint tensor names, joined along dim 0 (fused
 * QKV) unless `derive` is given. */
typedef struct accel__source_weight {
  const char *name;
  accel_plugin_weight_use use;
  uint32_t rank;
  int64_t dim[4];
  const char *parts[4];
  uint32_t n_parts; /* 0: one part called `name` */
  /* [n_parts] names in place of parts[], where there are more (experts); not with `derive` */
  const char *const *many;
  accel__derive_fn derive;
  const void *derive_user;
  /* derive makes each element of the one in its place, of one part in the weight's own shape:
   * random values go through it, too */
  bool elementwise;
  /* stored_rows > 0: the weight is rows first_row .. first_row + dim[0] of its one part, whose dim
   * 0 is stored_rows (q, k or v of a fused Wqkv) */
  int64_t first_row, stored_rows;
  /* transposed_rows > 0, with derive: the weight is columns first_row .. of its one part, which has
   * so many, as rows (GPT-2's Conv1D) */
  int64_t transposed_rows;
  /* block_rows > 0: of those rows, blocks of block_rows, each block_step behind the one before
   * (heads of q, k and v that lie interleaved) */
  int64_t block_rows, block_step;
  /* and behind all of those as many blocks of `rows` from row `first` on, as far apart; rows 0: no
   * more (q, then k, then v of rows that lie head by head) */
  accel__row_series also[2];
  /* Of the weight that the fields above say, this share alone is wanted (tensor parallelism), as
   * a matrix of its own; dim[] stay those of the whole. {0}: all of it */
  accel__weight_share share;
} accel__source_weight;

/* Of a weight with block_rows > 0: its series (1 to 3), and the blocks of each. */
static inline accel__row_series accel__row_series_of(const accel__source_weight *w, uint32_t i) {
  return i ? w->also[i - 1] : (accel__row_series){w->first_row, w->block_rows};
}
static inline uint32_t accel__row_series_count(const accel__source_weight *w) {
  return w->also[0].rows <= 0 ? 1 : w->also[1].rows <= 0 ? 2 : 3;
}
static inline int64_t accel__row_series_blocks(const accel__source_weight *w) {
  int64_t rows = 0;
  for (uint32_t i = 0; i < accel__row_series_count(w); i++) rows += accel__row_series_of(w, i).rows;
  return w->dim[0] / rows;
}
/* Block i of all series, in the order of the weight's rows. */
static inline accel__row_series accel__row_block(const accel__source_weight *w, int64_t i) {
  const int64_t n = accel__row_series_blocks(w);
  accel__row_series s = accel__row_series_of(w, (uint32_t)(i / n));
  s.first += i % n * w->block_step;
  return s;
}

/* The checkpoint's tensors that a weight is made of, by name. */
static inline uint32_t accel__source_tensors(const accel__source_weight *w) {
  return w->n_parts ? w->n_parts : 1;
}
static inline const char *accel__source_tensor(const accel__source_weight *w, uint32_t i) {
  return !w->n_parts ? w->name : w->many ? w->many[i] : w->parts[i];
}

/* Where values are taken from.  Kept by reference. */
typedef struct accel__source_from {
  const accel__checkpoint *checkpoint; /* NULL: random values from `seed` */
  const accel__import *import;         /* which parts the checkpoint holds in codes; NULL: none */
  accel__weight_deltas *deltas; /* what adapters make of parts, none in codes; NULL: nothing */
  accel__pool *pool;            /* converts and quantises; NULL: the thread that maps does */
  uint64_t seed;
} accel__source_from;

/* The format in which the checkpoint holds a weight: that of its codes (true) when all its parts
 * are in codes and those can be joined; else F32, F16 or BF16 (false). */
bool accel__source_stored(const accel__source_weight *w, const accel__source_from *from,
                          accel_plugin_format *format);

typedef struct accel__source accel__source;
/* Checks every part against the checkpoint: all missing tensors and all wrong shapes are listed by
 * name in one ACCEL_ERROR_FORMAT (at most 20 by name, then a count).  A part fits when dim 0 adds
 * up and the product of its other dims is the weight's: [768,3,16,16] serves a weight [768,768].
 * Stored types other than F32, F16, BF16, F64 are refused: codes of a quantised checkpoint are
 * never taken for numbers, unless `import` knows them.  A weight whose parts are all in codes of
 * the wanted format comes out in those codes; other parts in codes are turned into numbers first.
 * Random values: uniform in +-sqrt(3)*0.02 for matrices (std 0.02), 1 + small noise for names that
 * end in norm/LayerNorm .weight, small noise for vectors, through `derive` where that is
 * elementwise; counter-based generator, so a value depends on (seed, name, index) only. formats[n]:
 * what weight_map must hand out; those that accel__quantise_known does not know are
 * ACCEL_ERROR_UNSUPPORTED naming weight and format, unless the parts are in codes of that format.
 * The source keeps `weights` by reference. */
accel_status accel__source_new(const accel__source_weight *weights, uint32_t n,
                               const accel__source_from *from, const accel_plugin_format *formats,
                               accel__source **out);
void accel__source_free(accel__source **s);
/* Thread-safe; a weight may be mapped several times, and is unmapped as often.  Data is aligned to
 * its type.  After the last unmap the buffer is gone and the checkpoint's pages are dropped.  NaN
 * or infinity in a weight that is to be quantised: ACCEL_ERROR_FORMAT naming the tensor. */
accel_status accel__source_map(accel__source *s, uint32_t index, accel_plugin_weight_view *out);
/* The same for a while: pages of the file where it is mapped (accel__checkpoint_map), and to be
 * unmapped before it is not any more. */
accel_status accel__source_borrow(accel__source *s, uint32_t index, accel_plugin_weight_view *out);
void accel__source_unmap(accel__source *s, uint32_t index);
/* The first failure of accel__source_map, with its message and remedy in full, again; ACCEL_OK:
 * there was none. */
accel_status accel__source_failure(accel__source *s);
/* Do its rows lie in the checkpoint's file as the format has them, so that they need not be kept? */
bool accel__source_in_file(const accel__source *s, uint32_t index);
/* ---- rows of a weight's matrix, without the rest of it ---- */

typedef struct accel__row_range {
  uint32_t file;
  uint64_t offset, bytes;
} accel__row_range;
/* The dtype in which rows come as they are stored: F32, F16 or BF16; F32 where they have to be
 * computed.  NO_DTYPE: only the whole weight is to be had (the checkpoint has it in codes, it is
 * derived, or scales of its format span rows). */
accel_plugin_dtype accel__source_row_dtype(const accel__source *s, uint32_t index);
void accel__source_row_dtypes(const accel__source *s, uint32_t n, uint8_t *out); /* of all */
/* Where rows [first, first + count) lie, of the dtype above; false: not in one piece. */
bool accel__source_row_range(const accel__source *s, uint32_t index, int64_t first, int64_t count,
                             accel__row_range *out);
/* Reads or computes rows as fp32; not rounded to the weight's format.  Thread-safe. */
accel_status accel__source_rows(const accel__source *s, uint32_t index, int64_t first,
                                int64_t count, float *out);
/* The same in the numbers that the weight's format has. */
accel_status accel__source_rows_rounded(const accel__source *s, uint32_t index, int64_t first,
                                        int64_t count, float *out);
/* Some rows of a weight. */
typedef struct accel__source_some {
  uint32_t index;
  int64_t first, count;
  accel__lent lent; /* {0}: none */
} accel__source_some;
/* Rows of a weight that is stored as its format has it (accel__source_in_file), of others none, for
 * a while (accel__source_borrow).  Thread-safe. */
accel_status accel__source_rows_stored(const accel__source *s, uint32_t index, int64_t first,
                                       int64_t count, accel__source_some *out);
void accel__source_rows_return(const accel__source *s, accel__source_some *some);
/* Rows in the weight's format: the bytes that accel__source_map gives for them.  The caller frees
 * *out.  Thread-safe. */
accel_status accel__source_rows_coded(const accel__source *s, uint32_t index, int64_t first,
                                      int64_t count, accel__quantised *out);
int64_t accel__source_row_elements(const accel__source *s, uint32_t index);
const accel__checkpoint *accel__source_checkpoint(const accel__source *s); /* NULL: random values */

uint64_t accel__source_bytes(const accel__source *s); /* of all weights in their formats */
/* Tensors of the checkpoint that no weight uses, for an info line of the log; names[] in arena
 * memory. */
accel_status accel__source_unexpected(const accel__source *s, accel__arena *arena,
                                      const char ***names, uint32_t *n);

#endif
