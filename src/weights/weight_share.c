/* weight_share.c - see weight_share.h. */
#include "weights/weight_share.h"

#include <stdlib.h>
#include <string.h>

/* ---- numbers ---- */

static void copy_columns(const accel__shared_rows *rows, const float *from, float *out) {
  const accel__share_axis *columns = &rows->share->columns;
  for (int64_t at = 0, n; at < rows->k; at += n) {
    n = accel__share_run(columns, at, rows->k - at);
    memcpy(out + at, from + accel__share_at(columns, at), (size_t)n * sizeof *out);
  }
}

/* Rows that follow each other in the whole, too. */
static accel_status read_run(const accel__shared_rows *rows, int64_t whole, int64_t count,
                             float *out) {
  enum { CHUNK = 1 << 16 }; /* elements of the whole at once */
  if (!rows->share->columns.period) return rows->whole.read(rows->whole.user, whole, count, out);
  int64_t step = CHUNK / rows->whole_k;
  if (step < 1) step = 1;
  if (step > count) step = count;
  float *wide = malloc((size_t)(step * rows->whole_k) * sizeof *wide);
  if (!wide) return accel__no_memory((uint64_t)(step * rows->whole_k) * sizeof *wide);
  accel_status status = ACCEL_OK;
  for (int64_t at = 0; at < count && status == ACCEL_OK; at += step) {
    const int64_t n = count - at < step ? count - at : step;
    status = rows->whole.read(rows->whole.user, whole + at, n, wide);
    for (int64_t r = 0; status == ACCEL_OK && r < n; r++)
      copy_columns(rows, wide + r * rows->whole_k, out + (at + r) * rows->k);
  }
  free(wide);
  return status;
}

accel_status accel__shared_rows_read(const void *user, int64_t first, int64_t count, float *out) {
  const accel__shared_rows *rows = user;
  for (int64_t at = 0, n; at < count; at += n) {
    n = accel__share_run(&rows->share->rows, first + at, count - at);
    ACCEL_TRY(
        read_run(rows, accel__share_at(&rows->share->rows, first + at), n, out + at * rows->k));
  }
  return ACCEL_OK;
}

static void forget_rows(const void *user, int64_t first, int64_t count) {
  const accel__shared_rows *rows = user;
  for (int64_t at = 0, n; at < count; at += n) {
    n = accel__share_run(&rows->share->rows, first + at, count - at);
    rows->whole.forget(rows->whole.user, accel__share_at(&rows->share->rows, first + at), n);
  }
}

static const char *name_row(const void *user, int64_t row) {
  const accel__shared_rows *rows = user;
  return rows->whole.name(rows->whole.user, accel__share_at(&rows->share->rows, row));
}

accel__values accel__shared_values(const accel__shared_rows *rows) {
  return (accel__values){.read = accel__shared_rows_read,
                         .forget = rows->whole.forget ? forget_rows : NULL,
                         .name = name_row,
                         .user = rows};
}

/* ---- codes ---- */

bool accel__share_keeps_groups(const accel__weight_share *share, const accel_plugin_format *format,
                               int64_t k) {
  const accel__share_axis *columns = &share->columns;
  const int64_t group = format->group_k, codes = accel_format_bits(format->store) < 8
                                                     ? 8 / accel_format_bits(format->store)
                                                     : 1;
  if (!columns->period) return true;
  if (columns->period != k) return false;
  const int64_t unit = group ? group : codes, end = columns->first + columns->count;
  return columns->first % unit == 0 && (end % unit == 0 || end == k);
}

/* One row: its codes, and its groups of scales and zeros. */
static void copy_codes(const accel__quantised *from, int64_t row, int64_t first, int64_t group,
                       accel__quantised *to, int64_t at) {
  const accel_plugin_format *f = &to->format;
  const uint64_t bits = accel_format_bits(f->store), scale = accel_format_bits(f->scale) / 8;
  const uint64_t from_row = accel_row_bytes(f->store, from->k),
                 to_row = accel_row_bytes(f->store, to->k);
  const uint64_t from_groups = (uint64_t)accel_groups(from->k, f->group_k),
                 to_groups = (uint64_t)accel_groups(to->k, f->group_k);
  memcpy((char *)to->data + (uint64_t)at * to_row,
         (const char *)from->data + (uint64_t)row * from_row + (uint64_t)first * bits / 8, to_row);
  const uint64_t block = from->format.group_n ? (uint64_t)row / from->format.group_n : 0,
                 source = block * from_groups + (uint64_t)group,
                 target = (f->group_n ? (uint64_t)at / f->group_n : 0) * to_groups;
  if (to->scale)
    memcpy((char *)to->scale + target * scale, (const char *)from->scale + source * scale,
           to_groups * scale);
  if (to->zero) memcpy((char *)to->zero + target, (const char *)from->zero + source, to_groups);
}

void accel__share_codes(const accel__weight_share *share, const accel__quantised *whole,
                        accel__quantised *out) {
  const int64_t first = accel__share_at(&share->columns, 0);
  const int64_t group = whole->format.group_k ? first / whole->format.group_k : 0;
  for (int64_t r = 0; r < out->n; r++)
    copy_codes(whole, accel__share_at(&share->rows, r), first, group, out, r);
  if (out->outer) memcpy(out->outer, whole->outer, out->bytes.outer);
}
