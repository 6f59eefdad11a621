/* weight_tensors.c - finds the tensors of a weight, checks them, and reads them as rows of numbers
 * or as codes. */
#include "weights/weight_tensors.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "weights/weight_share.h"

enum { MAX_LISTED = 20, MAX_LISTED_BYTES = 700 /* of wrong tensors in one message */ };

/* ---- checking ---- */

static void complain(accel__complaints *c, const char *format, ...) ACCEL_PRINTF(2, 3);
static void complain(accel__complaints *c, const char *format, ...) {
  char line[400];
  va_list arguments;
  c->n++;
  if (c->listed == MAX_LISTED || c->text.n > MAX_LISTED_BYTES) return;
  va_start(arguments, format);
  vsnprintf(line, sizeof line, format, arguments);
  va_end(arguments);
  accel__buffer_printf(&c->text, "%s%s", c->listed++ ? "; " : "", line);
}

accel_status accel__complaints_report(accel__complaints *c, const accel__checkpoint *checkpoint) {
  accel_status status = accel__buffer_status(&c->text);
  if (status != ACCEL_OK || !c->n) return status;
  if (c->n > c->listed) accel__buffer_printf(&c->text, "; and %u more", c->n - c->listed);
  accel__fail(ACCEL_ERROR_FORMAT, "%s does not hold this model: %s",
              accel__checkpoint_file(checkpoint, 0), c->text.data);
  return accel__remedy(
      ACCEL_ERROR_FORMAT,
      c->missing
          ? "config.json and the weights must be of the same model, and every shard must be there"
          : "config.json and the weights must be of the same model");
}

static void shape_text(char *out, size_t size, uint32_t rank, const int64_t *dim) {
  size_t at = 0;
  out[0] = 0;
  for (uint32_t d = 0; d < rank && at < size; d++)
    at += (size_t)snprintf(out + at, size - at, d ? ",%" PRId64 : "%" PRId64, dim[d]);
}

/* Product of the dims after the first; dims of a file cannot overflow (elements were checked),
 * except beside a zero. */
static uint64_t row_elements(uint32_t rank, const int64_t *dim) {
  uint64_t product = 1;
  for (uint32_t d = 1; d < rank; d++) product *= (uint64_t)dim[d];
  return product;
}

static bool plain_dtype(accel_plugin_dtype dtype) {
  return dtype == ACCEL_PLUGIN_F32 || dtype == ACCEL_PLUGIN_F16 || dtype == ACCEL_PLUGIN_BF16 ||
         dtype == ACCEL_PLUGIN_F64;
}

/* Codes must lie in rows of the weight's matrix; numbers fit when dim 0 adds up and the product of
 * the others is right. */
static void check_shape(const accel__source_weight *w, int64_t rows, int64_t k,
                        const accel__part *parts, accel__complaints *c) {
  char wanted[120], found[120];
  const uint32_t n = accel__part_count(w);
  uint64_t elements = 0;
  bool fits = true;
  for (uint32_t p = 0; p < n; p++) {
    const accel__tensor_info *t = &parts[p].tensor;
    elements += parts[p].elements;
    if (parts[p].coded && t->dim[1] != k) fits = false;
    if (parts[p].coded) continue;
    const uint64_t per_row = row_elements(t->rank, t->dim);
    if (w->rank && per_row != row_elements(w->rank, w->dim) && !(n > 1 && per_row == (uint64_t)k))
      fits = false;
    if (n == 1 && t->rank && w->rank && t->dim[0] != w->dim[0]) fits = false;
  }
  if (fits && elements == (uint64_t)rows * (uint64_t)k) return;
  shape_text(wanted, sizeof wanted, w->rank, w->dim);
  for (uint32_t p = 0; p < n; p++) {
    shape_text(found, sizeof found, parts[p].tensor.rank, parts[p].tensor.dim);
    if (n == 1)
      complain(c, "'%.160s' is [%s], the model needs [%s]", parts[p].name, found, wanted);
    else
      complain(c, "'%.160s' is [%s], a part of '%.100s' [%s]", parts[p].name, found, w->name,
               wanted);
  }
}

/* Narrows a part to `rows` of the weight's rows, from `first` on; false with a complaint when it
 * has others. */
static bool take_rows(const accel__source_weight *w, int64_t first, int64_t rows, accel__part *part,
                      accel__complaints *c) {
  accel__tensor_info *t = &part->tensor;
  char found[120];
  if (t->rank == 0 || w->rank == 0 || t->dim[0] != w->stored_rows || first < 0 ||
      rows > w->stored_rows || first > w->stored_rows - rows) {
    shape_text(found, sizeof found, t->rank, t->dim);
    complain(c, "'%.160s' is [%s], the model needs %" PRId64 " rows", part->name, found,
             w->stored_rows);
    return false;
  }
  const uint64_t per_row = row_elements(t->rank, t->dim), skip = (uint64_t)first * per_row,
                 bits = accel__dtype_bits(t->dtype);
  t->dim[0] = rows;
  part->elements = t->elements = (uint64_t)rows * per_row;
  part->first_row = first;
  part->rows = rows;
  if (part->coded) return true;
  t->bytes = t->elements * bits / 8;
  t->offset += skip * bits / 8;
  return true;
}

static bool find_codes(const accel__source_from *from, accel__part *part) {
  int64_t n, k;
  if (!accel__import_find(from->import, part->name, &part->format, &n, &k)) return false;
  part->coded = true;
  part->rows = part->stored_rows = n;
  part->elements = (uint64_t)n * (uint64_t)k;
  part->tensor = (accel__tensor_info){.name = part->name,
                                      .dtype = (accel_plugin_dtype)part->format.store,
                                      .rank = 2,
                                      .dim = {n, k},
                                      .elements = part->elements};
  return true;
}

static accel_status find_part(const accel__source_from *from, accel__part *part, bool *found,
                              accel__complaints *c) {
  if (!accel__weight_deltas_replaced(from->deltas, part->name) && find_codes(from, part))
    return ACCEL_OK;
  const char *stored = accel__weight_deltas_stored(from->deltas, part->name);
  const accel__tensor_info *t = accel__checkpoint_find(from->checkpoint, stored);
  part->delta = accel__weight_deltas_of(from->deltas, part->name);
  if (!t) {
    complain(c, "'%.160s' is missing", part->name);
    c->missing = true;
    *found = false;
    return ACCEL_OK;
  }
  if (!plain_dtype(t->dtype)) {
    accel__fail(ACCEL_ERROR_UNSUPPORTED,
                "%s: tensor '%s' is stored as %s: checkpoints quantised this way are not read",
                accel__checkpoint_file(from->checkpoint, t->file), part->name,
                accel__dtype_name(t->dtype));
    return accel__remedy(ACCEL_ERROR_UNSUPPORTED,
                         "use the unquantised checkpoint the model was made from");
  }
  part->tensor = *t;
  part->elements = t->elements;
  return ACCEL_OK;
}

accel_status accel__parts_find(const accel__source_weight *w, const accel__source_from *from,
                               int64_t rows, int64_t k, accel__part *parts, accel__complaints *c) {
  bool all = true;
  for (uint32_t p = 0; p < accel__part_count(w); p++) {
    parts[p].name = accel__part_name(w, p);
    ACCEL_TRY(find_part(from, &parts[p], &all, c));
  }
  if (all && w->block_rows > 0) {
    for (uint32_t p = 0; p < accel__part_count(w) && all; p++) {
      const accel__row_series block = accel__row_block(w, p);
      all = take_rows(w, block.first, block.rows, &parts[p], c);
    }
  } else if (all && w->stored_rows > 0 && accel__part_count(w) == 1) {
    all = take_rows(w, w->first_row, w->dim[0], &parts[0], c);
  }
  if (all && (!w->derive || w->elementwise)) check_shape(w, rows, k, parts, c);
  return ACCEL_OK;
}

/* ---- as numbers ---- */

accel_status accel__parts_open(accel__parts *p) {
  accel_status status = ACCEL_OK;
  bool coded = false;
  for (uint32_t i = 0; i < p->n; i++) coded |= p->part[i].coded;
  p->codes = coded ? calloc(p->n, sizeof *p->codes) : NULL;
  if (coded && !p->codes) return accel__no_memory(p->n * sizeof *p->codes);
  for (uint32_t i = 0; i < p->n && status == ACCEL_OK; i++)
    if (p->part[i].coded)
      status = accel__import_read(p->from->import, p->part[i].name, &p->codes[i]);
  if (status != ACCEL_OK) accel__parts_close(p);
  return status;
}

void accel__parts_forget(const accel__source_from *from, const accel__part *parts, uint32_t n) {
  for (uint32_t i = 0; from->checkpoint && i < n; i++) {
    if (parts[i].coded)
      accel__import_forget(from->import, parts[i].name);
    else
      accel__checkpoint_forget(from->checkpoint, &parts[i].tensor);
  }
}

void accel__parts_close(accel__parts *p) {
  for (uint32_t i = 0; p->codes && i < p->n; i++) accel__quantised_free(&p->codes[i]);
  free(p->codes);
  p->codes = NULL;
  accel__parts_forget(p->from, p->part, p->n);
}

/* The elements of part i that lie in [begin, end) of all parts' elements, counted from the part's
 * first; advances *at from the part's begin to its end. */
typedef struct overlap {
  uint64_t first, count, offset; /* offset: of the first one, from begin */
} overlap;
static overlap overlap_of(const accel__part *part, uint64_t begin, uint64_t end, uint64_t *at) {
  const uint64_t start = *at, stop = start + part->elements;
  const uint64_t low = begin > start ? begin : start, high = end < stop ? end : stop;
  *at = stop;
  return low < high ? (overlap){low - start, high - low, low - begin} : (overlap){0};
}

/* Elements [first, first + count) of a plain part, as adapters make them. */
static accel_status read_plain(const accel__source_from *from, const accel__part *part,
                               uint64_t first, uint64_t count, float *out) {
  const accel__tensor_info *t = &part->tensor;
  ACCEL_TRY(accel__tensor_to_f32(from->checkpoint, t, first, count, out));
  if (!part->delta) return ACCEL_OK;
  return accel__weight_deltas_apply(
      from->deltas, from->checkpoint, accel__checkpoint_find(from->checkpoint, t->name),
      part->delta, (uint64_t)part->first_row * row_elements(t->rank, t->dim) + first, count, out);
}

accel_status accel__parts_read(const void *user, int64_t first, int64_t count, float *out) {
  const accel__parts *p = user;
  const uint64_t begin = (uint64_t)first * (uint64_t)p->k,
                 end = begin + (uint64_t)count * (uint64_t)p->k;
  uint64_t at = 0;
  for (uint32_t i = 0; i < p->n; i++) {
    const overlap o = overlap_of(&p->part[i], begin, end, &at);
    if (!o.count) continue;
    if (!p->part[i].coded)
      ACCEL_TRY(read_plain(p->from, &p->part[i], o.first, o.count, out + o.offset));
    else /* whole rows: parts in codes have the weight's own */
      accel__dequantise_rows(&p->codes[i], p->part[i].first_row + (int64_t)o.first / p->k,
                             (int64_t)o.count / p->k, out + o.offset);
  }
  return ACCEL_OK;
}

void accel__parts_forget_rows(const void *user, int64_t first, int64_t count) {
  const accel__parts *p = user;
  const uint64_t begin = (uint64_t)first * (uint64_t)p->k,
                 end = begin + (uint64_t)count * (uint64_t)p->k;
  uint64_t at = 0;
  for (uint32_t i = 0; i < p->n; i++) {
    const overlap o = overlap_of(&p->part[i], begin, end, &at);
    if (!o.count || p->part[i].coded) continue;
    accel__tensor_info some = p->part[i].tensor;
    const uint64_t bytes = accel__dtype_bits(some.dtype) / 8;
    some.offset += o.first * bytes;
    some.bytes = o.count * bytes;
    accel__checkpoint_forget(p->from->checkpoint, &some);
  }
}

const char *accel__parts_name(const void *user, int64_t row) {
  const accel__parts *p = user;
  const uint64_t begin = (uint64_t)row * (uint64_t)p->k;
  uint64_t at = 0;
  for (uint32_t i = 0; i < p->n; i++)
    if (overlap_of(&p->part[i], begin, begin + 1, &at).count) return p->part[i].name;
  return p->part[0].name;
}

/* ---- as codes ---- */

static bool whole(const accel__part *parts, uint32_t n) {
  return n == 1 && parts[0].rows == parts[0].stored_rows;
}

bool accel__parts_format(const accel__part *parts, uint32_t n, accel_plugin_format *format) {
  for (uint32_t i = 0; i < n; i++)
    if (!parts[i].coded || (i > 0 && !accel_format_equal(&parts[i].format, &parts[0].format)))
      return false;
  *format = parts[0].format;
  if (whole(parts, n) || accel_format_plain(format)) return true;
  format->group_n = 1;
  /* there is one outer scale, of all rows */
  return n == 1 || format->outer == ACCEL_PLUGIN_NO_DTYPE;
}

bool accel__parts_are_codes(const accel__part *parts, uint32_t n, const accel_plugin_format *format,
                            bool share) {
  accel_plugin_format own;
  if (!accel__parts_format(parts, n, &own)) return false;
  if (share && accel_format_plain(&own)) return false;
  if (share) own.group_n = 1;
  return accel_format_equal(&own, format) && (whole(parts, n) || !accel_format_plain(&own));
}

/* Rows [first, first+count) of `from` behind `at` of `to`, which has a row of scales for each
 * row. */
static void copy_rows(const accel__quantised *from, int64_t first, int64_t count,
                      accel__quantised *to, int64_t at) {
  const uint64_t row = accel_row_bytes(from->format.store, from->k);
  const uint64_t groups = (uint64_t)accel_groups(from->k, from->format.group_k);
  const uint64_t scale = groups * accel_format_bits(from->format.scale) / 8;
  for (int64_t r = 0; r < count; r++) {
    const uint64_t source = (uint64_t)(first + r), target = (uint64_t)(at + r);
    const uint64_t block = from->format.group_n ? source / from->format.group_n : 0;
    memcpy((char *)to->data + target * row, (const char *)from->data + source * row, row);
    memcpy((char *)to->scale + target * scale, (const char *)from->scale + block * scale, scale);
    if (from->zero)
      memcpy((char *)to->zero + target * groups, (const char *)from->zero + block * groups, groups);
  }
  if (from->outer) memcpy(to->outer, from->outer, to->bytes.outer);
}

accel_status accel__parts_codes(const accel__source_from *from, const accel__part *parts,
                                uint32_t n, accel__quantised *out) {
  accel_plugin_format format;
  int64_t rows = 0, at = 0;
  *out = (accel__quantised){0};
  if (!accel__parts_format(parts, n, &format))
    return accel__fail(ACCEL_ERROR_INTERNAL, "codes that cannot be joined");
  for (uint32_t i = 0; i < n; i++) rows += parts[i].rows;
  accel_status status = ACCEL_OK;
  for (uint32_t i = 0; i < n && status == ACCEL_OK; i++) {
    accel__quantised one;
    status = accel__import_read(from->import, parts[i].name, &one);
    if (status != ACCEL_OK) break;
    if (whole(parts, n)) {
      *out = one;
      break;
    }
    if (i == 0) status = accel__quantised_new(&format, rows, one.k, out);
    if (status == ACCEL_OK) copy_rows(&one, parts[i].first_row, parts[i].rows, out, at);
    at += parts[i].rows;
    accel__quantised_free(&one);
  }
  if (status != ACCEL_OK) accel__quantised_free(out);
  accel__parts_forget(from, parts, n);
  return status;
}

/* ---- as they are stored ---- */

bool accel__source_stored(const accel__source_weight *w, const accel__source_from *from,
                          accel_plugin_format *format) {
  const uint32_t n = accel__part_count(w);
  accel__part few[ACCEL__MAX_PARTS] = {{.name = NULL}},
              *part = n <= ACCEL__MAX_PARTS ? few : calloc(n, sizeof *part);
  /* without memory for the parts they are taken for numbers: loading will say so */
  bool codes = part && !w->derive;
  uint8_t plain = ACCEL_PLUGIN_NO_DTYPE;
  for (uint32_t i = 0; part && i < n; i++) {
    part[i].name = accel__part_name(w, i);
    const accel__tensor_info *t = accel__checkpoint_find(
        from->checkpoint, accel__weight_deltas_stored(from->deltas, part[i].name));
    if (accel__weight_deltas_replaced(from->deltas, part[i].name) || !find_codes(from, &part[i]))
      codes = false;
    const uint8_t own = part[i].coded                        ? ACCEL_PLUGIN_F16
                        : t && t->dtype <= ACCEL_PLUGIN_BF16 ? (uint8_t)t->dtype
                                                             : ACCEL_PLUGIN_F32;
    plain = i == 0 || plain == own ? own : ACCEL_PLUGIN_F32;
  }
  for (uint32_t i = 0;
       codes && w->stored_rows > 0 && (n == 1 || w->block_rows > 0) && w->rank > 0 && i < n; i++)
    part[i].rows = w->block_rows > 0 ? accel__row_block(w, i).rows : w->dim[0];
  codes = codes && accel__parts_format(part, n, format);
  if (codes && accel__is_shared(&w->share) && !accel_format_plain(format)) format->group_n = 1;
  if (!codes)
    *format = (accel_plugin_format){part ? plain : (uint8_t)ACCEL_PLUGIN_F32,
                                    ACCEL_PLUGIN_NO_DTYPE,
                                    ACCEL_PLUGIN_NO_DTYPE,
                                    ACCEL_PLUGIN_NO_DTYPE,
                                    0,
                                    0};
  if (part != few) free(part);
  return codes;
}
