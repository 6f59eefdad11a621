/* weight_tensors.h - the checkpoint's side of one weight: the tensors it is made of, plain or in
 * codes (private to src/weights). */
#ifndef ACCEL_WEIGHTS_WEIGHT_TENSORS_H
#define ACCEL_WEIGHTS_WEIGHT_TENSORS_H

#include "core/text.h"
#include "weights/source.h"

enum {
  ACCEL__MAX_PARTS = 4 /* of a weight that names them in parts[] */,
  ACCEL__MOST_PARTS = 1 << 18
};

/* Plain: elements of `tensor`, which may be some rows of the stored one.  In codes: rows
 * [first_row, first_row + rows) of a matrix that `import` reads. */
typedef struct accel__part {
  const char *name;
  bool coded;
  accel__tensor_info tensor;            /* plain; dims of codes are [n, k] */
  accel_plugin_format format;           /* codes */
  int64_t first_row, rows, stored_rows; /* codes */
  uint64_t elements;
  accel__weight_delta *delta; /* applied to what is read; NULL: nothing.  Not of codes */
} accel__part;

/* Everything wrong with the parts of many weights: the first MAX_LISTED in words while there is
 * room, the others counted.
 */
typedef struct accel__complaints {
  accel__buffer text;
  uint32_t n, listed;
  bool missing;
} accel__complaints;
accel_status accel__complaints_report(accel__complaints *c, const accel__checkpoint *checkpoint);

/* Finds and checks parts[n] of a weight whose matrix is [rows, k]; n as accel__part_count says.
 * What is missing or has another shape is added to the complaints; a stored type that is no number
 * fails. */
accel_status accel__parts_find(const accel__source_weight *w, const accel__source_from *from,
                               int64_t rows, int64_t k, accel__part *parts, accel__complaints *c);
static inline uint32_t accel__part_count(const accel__source_weight *w) {
  return w->block_rows > 0 ? (uint32_t)accel__row_series_blocks(w) * accel__row_series_count(w)
                           : accel__source_tensors(w);
}
static inline const char *accel__part_name(const accel__source_weight *w, uint32_t i) {
  return accel__source_tensor(w, w->block_rows > 0 ? 0 : i);
}

/* Parts[n] while they are read, joined along their rows of k elements. */
typedef struct accel__parts {
  const accel__source_from *from;
  const accel__part *part;
  uint32_t n;
  int64_t k;
  accel__quantised *codes; /* [n] of parts in codes; NULL: none is */
} accel__parts;
/* Reads the codes of the parts that have them.  close also drops the parts' pages of the file. */
accel_status accel__parts_open(accel__parts *p);
void accel__parts_close(accel__parts *p);
void accel__parts_forget(const accel__source_from *from, const accel__part *parts, uint32_t n);
/* Values of accel__quantise; `user` is an accel__parts. */
accel_status accel__parts_read(const void *user, int64_t first, int64_t count, float *out);
void accel__parts_forget_rows(const void *user, int64_t first, int64_t count);
const char *accel__parts_name(const void *user, int64_t row);

/* The format of the weight in codes when all parts are and those can be joined, or taken apart, as
 * they are; false otherwise.  Rows taken out of blocks of rows have one scale each. */
bool accel__parts_format(const accel__part *parts, uint32_t n, accel_plugin_format *format);
/* Is it this format?  Then accel__parts_codes hands the codes out.  Of a share of the weight each
 * row has scales of its own. */
bool accel__parts_are_codes(const accel__part *parts, uint32_t n, const accel_plugin_format *format,
                            bool share);
accel_status accel__parts_codes(const accel__source_from *from, const accel__part *parts,
                                uint32_t n, accel__quantised *out);

#endif
