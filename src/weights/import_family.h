/* import_family.h - what the readers of quantised checkpoints share (private to src/weights): one
 * file a family, and a table of them in import.c.
 *
 * A family reads its fields of quantization_config (`configure`), looks at every tensor of the
 * checkpoint (`visit`), and registers a weight when the tensor holds codes, with everything about
 * it checked.
 */
#ifndef ACCEL_WEIGHTS_IMPORT_FAMILY_H
#define ACCEL_WEIGHTS_IMPORT_FAMILY_H

#include "core/text.h"
#include "weights/import.h"

/* The bytes of an entry's tensors while it is read; NULL: the entry has none. */
typedef struct accel__import_bytes {
  const void *codes, *scale, *zero, *outer, *order;
} accel__import_bytes;

typedef struct accel__import_entry {
  const char *name; /* of the weight: "x.weight" */
  accel_plugin_format format;
  int64_t n, k;
  /* as the family names them; NULL: not there */
  const accel__tensor_info *codes, *scale, *zero, *outer, *order;
  /* of a code in a stream of bits */
  uint32_t bits;
  const void *more; /* of the family */
  /* the codes are as the format has them: out->data holds them before `read`, which gets none */
  bool as_stored;
  accel_status (*read)(const accel__import *import, const struct accel__import_entry *entry,
                       const accel__import_bytes *from, accel__quantised *out);
} accel__import_entry;

typedef struct accel__import_family {
  const char *method; /* quant_method */
  accel_status (*configure)(accel__import *import);
  accel_status (*visit)(accel__import *import, const accel__tensor_info *tensor);
} accel__import_family;

extern const accel__import_family accel__import_gptq, accel__import_awq, accel__import_compressed,
    accel__import_fp8, accel__import_mxfp8, accel__import_mxfp4, accel__import_bitsandbytes;

enum { ACCEL__IMPORT_MAX_NOTES = 16 };
struct accel__import {
  const accel__import_family *family;
  const accel__json_file *file;
  const accel__json *config; /* the quantization_config object */
  const accel__checkpoint *checkpoint;
  accel__arena arena;
  accel__map names;            /* weight -> entry */
  accel__map used;             /* tensors that belong to weights in codes */
  accel__import_entry **entry; /* [n], arena */
  uint32_t n, capacity;
  const char *notes[ACCEL__IMPORT_MAX_NOTES];
  uint32_t n_notes;
  uint32_t reordered; /* weights dequantised because their columns have an order of their own */
  const char *precision;
  void *settings; /* of the family, arena */
};

/* ---- failing ---- */
/* "FILE: field 'quantization_config.FIELD': SENTENCE", with a remedy; ACCEL_ERROR_UNSUPPORTED. */
accel_status accel__import_refuse(const accel__import *import, const char *field,
                                  const char *format, ...) ACCEL_PRINTF(3, 4);
/* "FILE: tensor 'NAME': SENTENCE", with a remedy; ACCEL_ERROR_FORMAT. */
accel_status accel__import_bad(const accel__import *import, const accel__tensor_info *tensor,
                               const char *format, ...) ACCEL_PRINTF(3, 4);

/* ---- fields of quantization_config ---- */
/* As accel__json_int and friends; an object or value that is not read: accel__import_refuse. */
accel_status accel__import_int(const accel__import *import, const char *field, int64_t least,
                               int64_t most, int64_t *out);
accel_status accel__import_bool(const accel__import *import, const char *field, bool *out);
accel_status accel__import_string(const accel__import *import, const char *field, const char **out);
/* Refuses a field whose value is neither absent, null, false nor empty. */
accel_status accel__import_empty(const accel__import *import, const char *field,
                                 const char *meaning);
/* Puts the object in front of a JSON reader's failure, and a remedy behind. */
accel_status accel__import_field(accel_status status);
accel_status accel__import_note(accel__import *import, const char *format, ...) ACCEL_PRINTF(2, 3);

/* ---- tensors ---- */
/* The tensor whose name is the first `stem` bytes of `of`, then `suffix`; NULL when absent. */
const accel__tensor_info *accel__import_sibling(const accel__import *import, const char *of,
                                                size_t stem, const char *suffix);
/* The same; its absence is an error that names `of`'s tensor. */
accel_status accel__import_need(const accel__import *import, const accel__tensor_info *of,
                                size_t stem, const char *suffix, const accel__tensor_info **out);
/* Length of the name without `suffix`; 0 when it has another end, or nothing in front. */
size_t accel__import_stem(const char *name, const char *suffix);
accel_status accel__import_type(const accel__import *import, const accel__tensor_info *tensor,
                                accel_plugin_dtype wanted);
/* F32, F16 or BF16. */
accel_status accel__import_float(const accel__import *import, const accel__tensor_info *tensor);
/* rank dims; -1 any. */
accel_status accel__import_shape(const accel__import *import, const accel__tensor_info *tensor,
                                 uint32_t rank, const int64_t *dims);
accel_status accel__import_shape2(const accel__import *import, const accel__tensor_info *tensor,
                                  int64_t rows, int64_t columns);
/* Element i of an I32 tensor with these bytes. */
int32_t accel__import_i32(const void *bytes, uint64_t i);
/* Element i as a number: floats, I8, U8 (as integers), E4M3, E8M0. */
static inline float accel__import_value(const accel__tensor_info *tensor, const void *bytes,
                                        uint64_t i) {
  return accel_scale_at((uint8_t)tensor->dtype, bytes, (int64_t)i);
}

/* ---- scales ---- */
/* How a scale tensor lies over [n, k]: an empty or one-element shape, [n], [n,1], or the blocks
 * [ceil(n/rows), ceil(k/columns)] of one of the pairs `block` (rows, columns; 0 the whole axis).
 * Fills group_n (1, never 0: one scale for all is repeated for each row) and group_k. */
typedef struct accel__import_block {
  int64_t rows, columns;
} accel__import_block;
accel_status accel__import_layout(const accel__import *import, const accel__tensor_info *scale,
                                  int64_t n, int64_t k, const accel__import_block *block,
                                  uint32_t n_blocks, accel_plugin_format *format);
/* F16 when every scale fits it exactly, else F32; reads the scales. */
accel_status accel__import_scale_type(const accel__import *import, const accel__tensor_info *scale,
                                      uint8_t *dtype);
/* Scales [n][groups] (or one for all) with these bytes into out->scale, which is F16, F32, E4M3 or
 * E8M0; transposed: the file has [groups][n].  Not finite: an error. */
accel_status accel__import_scales(const accel__import *import, const accel__tensor_info *scale,
                                  const void *bytes, bool transposed, accel__quantised *out);
/* `read` of codes that are as stored, with scales that are not transposed. */
accel_status accel__import_read_scales(const accel__import *import,
                                       const accel__import_entry *entry,
                                       const accel__import_bytes *from, accel__quantised *out);

/* ---- registering ---- */
/* Copies the entry; its name is the first `stem` bytes of `of`, then `suffix`.  Marks the entry's
 * tensors as used. */
accel_status accel__import_add(accel__import *import, const accel__import_entry *entry,
                               const char *of, size_t stem, const char *suffix);
/* as used; NULL: nothing */
accel_status accel__import_mark(accel__import *import, const accel__tensor_info *tensor);

/* ---- bits ---- */
/* Code i of a stream of `bits`-wide codes (1 to 8) in little-endian 32-bit words, lowest bits
 * first; word j of the stream is element j * stride of `words`.  `n_words`: how many words there
 * are; beyond them bits are zero. */
uint32_t accel__import_code(const void *words, uint64_t stride, uint64_t n_words, uint32_t bits,
                            uint64_t i);
/* Words that count codes of that width take. */
static inline int64_t accel__import_words(int64_t count, uint32_t bits) {
  return count / 32 * bits + (count % 32 * bits + 31) / 32;
}
/* Is g[i] = i / group for all i, with the group that g itself shows?  Values are checked against
 * [0, groups). */
accel_status accel__import_order(const accel__import *import, const accel__tensor_info *order,
                                 int64_t k, int64_t groups, bool *in_order, int64_t *group);

#endif
