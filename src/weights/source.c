/* source.c - hands weights out in the format asked for: as they are stored, converted, quantised,
 * joined, derived, or random from a seed. */
#include "weights/source.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "formats/convert.h"
#include "weights/weight_tensors.h"
#include "weights/quantise.h"
#include "weights/random.h"
#include "weights/weight_share.h"

typedef struct slot {
  accel_plugin_format format;
  int64_t n, k; /* the weight as a matrix, or the share of it that is wanted */
  int64_t whole_n, whole_k;
  uint64_t bytes;
  accel__part *part; /* [n_parts] */
  uint32_t n_parts, users;
  uint32_t borrowed;             /* pages of the file, beside `users` */
  _Atomic int64_t rows_returned; /* of those pages, by rows */
  accel_plugin_weight_view view; /* valid while users > 0 */
  accel__quantised buffer;       /* behind view when it was made */
  accel__lent stored;            /* behind view when it is as stored */
} slot;

struct accel__source {
  const accel__source_weight *weight;
  slot *slot;
  accel__part *part; /* of all slots */
  uint32_t n;
  accel__source_from from;
  pthread_mutex_t lock; /* users, borrowed, view, buffer, stored of every slot; failure */
  accel__failure failure;
};

/* ---- checking ---- */

static accel_status check_weight(const accel__source_weight *w, const accel_plugin_format *format,
                                 slot *s) {
  accel_matrix_bytes bytes;
  uint64_t elements = 1;
  if (!w->name || w->rank > 4 ||
      w->n_parts > (w->many && !w->derive ? ACCEL__MOST_PARTS : ACCEL__MAX_PARTS))
    return accel__fail(ACCEL_ERROR_INTERNAL, "weight '%s': bad rank or number of parts",
                       w->name ? w->name : "?");
  for (uint32_t d = 0; d < w->rank; d++)
    if (w->dim[d] < 0 || __builtin_mul_overflow(elements, (uint64_t)w->dim[d], &elements) ||
        elements > INT64_MAX / 8)
      return accel__fail(ACCEL_ERROR_FORMAT, "weight '%s': dim %u is out of range", w->name, d);
  accel_matrix_shape(w->use, w->rank, w->dim, &s->whole_n, &s->whole_k);
  if (!accel__share_fits(&w->share.rows, s->whole_n) ||
      !accel__share_fits(&w->share.columns, s->whole_k))
    return accel__fail(ACCEL_ERROR_INTERNAL, "weight '%s': a share that it does not have", w->name);
  s->n = accel__share_count(&w->share.rows, s->whole_n);
  s->k = accel__share_count(&w->share.columns, s->whole_k);
  if (!accel_matrix_sizes(format, s->n, s->k, &bytes))
    return accel__fail(ACCEL_ERROR_FORMAT, "weight '%s': too large", w->name);
  s->format = *format;
  s->bytes = bytes.data + bytes.scale + bytes.zero + bytes.outer;
  return ACCEL_OK;
}

static bool comes_in_codes(const accel__source *source, const accel__source_weight *w,
                           const slot *s) {
  return source->from.checkpoint && !w->derive &&
         accel__parts_are_codes(s->part, s->n_parts, &s->format, accel__is_shared(&w->share));
}

/* Codes come out as they are; everything else must be a format we write. */
static accel_status check_format(const accel__source *source, const accel__source_weight *w,
                                 const slot *s) {
  const accel_plugin_format *f = &s->format;
  const bool codes = comes_in_codes(source, w, s);
  if (codes && !accel__share_keeps_groups(&w->share, f, s->whole_k)) {
    accel__fail(ACCEL_ERROR_UNSUPPORTED,
                "weight '%s': its columns are shared among the ranks from %lld on, within a group "
                "of %u that have one scale",
                w->name, (long long)w->share.columns.first, f->group_k);
    return accel__remedy(ACCEL_ERROR_UNSUPPORTED,
                         "use fewer ranks, or a precision that dequantises the checkpoint "
                         "(--precision bf16)");
  }
  if (accel__quantise_known(f) || codes) return ACCEL_OK;
  return accel__fail(ACCEL_ERROR_UNSUPPORTED,
                     "weight '%s': format %s with scale %s, zero %s is not made on load", w->name,
                     accel__dtype_name((accel_plugin_dtype)f->store),
                     accel__dtype_name((accel_plugin_dtype)f->scale),
                     accel__dtype_name((accel_plugin_dtype)f->zero));
}

static accel_status check_all(accel__source *s, const accel_plugin_format *formats) {
  accel__complaints c = {0};
  accel__part *part = s->part;
  accel_status status = ACCEL_OK;
  for (uint32_t i = 0; i < s->n && status == ACCEL_OK; i++) {
    const accel__source_weight *w = &s->weight[i];
    slot *found = &s->slot[i];
    status = check_weight(w, &formats[i], found);
    if (status != ACCEL_OK) break;
    found->part = part;
    found->n_parts = accel__part_count(w);
    part += found->n_parts;
    if (s->from.checkpoint)
      status = accel__parts_find(w, &s->from, found->whole_n, found->whole_k, found->part, &c);
    if (status == ACCEL_OK) status = check_format(s, w, found);
  }
  if (status == ACCEL_OK) status = accel__complaints_report(&c, s->from.checkpoint);
  accel__buffer_free(&c.text);
  return status;
}

accel_status accel__source_new(const accel__source_weight *weights, uint32_t n,
                               const accel__source_from *from, const accel_plugin_format *formats,
                               accel__source **out) {
  uint64_t parts = 1;
  *out = NULL;
  accel__source *s = calloc(1, sizeof *s);
  if (!s) return accel__no_memory(sizeof *s);
  pthread_mutex_init(&s->lock, NULL);
  s->weight = weights;
  s->n = n;
  s->from = *from;
  for (uint32_t i = 0; i < n; i++) parts += accel__part_count(&weights[i]);
  s->slot = calloc(n ? n : 1, sizeof *s->slot);
  s->part = calloc(parts, sizeof *s->part);
  accel_status status =
      s->slot && s->part ? check_all(s, formats) : accel__no_memory(parts * sizeof *s->part);
  if (status != ACCEL_OK) accel__source_free(&s);
  *out = s;
  return status;
}

void accel__source_free(accel__source **s) {
  if (!*s) return;
  for (uint32_t i = 0; (*s)->slot && i < (*s)->n; i++) {
    accel__quantised_free(&(*s)->slot[i].buffer);
    accel__tensor_return(&(*s)->slot[i].stored);
  }
  pthread_mutex_destroy(&(*s)->lock);
  free((*s)->slot);
  free((*s)->part);
  free(*s);
  *s = NULL;
}

/* ---- values ---- */

static const accel_plugin_format fp32 = {
    ACCEL_PLUGIN_F32, ACCEL_PLUGIN_NO_DTYPE, ACCEL_PLUGIN_NO_DTYPE, ACCEL_PLUGIN_NO_DTYPE, 0, 0};

/* A weight whose values are made here; elements are counted over the whole weight. */
typedef struct made {
  const accel__source_weight *weight;
  uint64_t seed;
  int64_t k;
  const float *values; /* NULL: random */
} made;

static accel_status read_made(const void *user, int64_t first, int64_t count, float *out) {
  const made *m = user;
  const uint64_t at = (uint64_t)first * (uint64_t)m->k, n = (uint64_t)count * (uint64_t)m->k;
  const accel__source_weight *w = m->weight;
  if (m->values) {
    memcpy(out, m->values + at, n * sizeof *out);
    return ACCEL_OK;
  }
  accel__random_weight(m->seed, w->name, w->rank, at, n, out);
  return w->elementwise
             ? w->derive(w->derive_user, &(const float *){out}, &(int64_t){(int64_t)n}, 1, out)
             : ACCEL_OK;
}

static const char *name_made(const void *user, int64_t row) {
  return (void)row, ((const made *)user)->weight->name;
}

/* Fills the slot's buffer with rows of the whole weight, or with the share of them. */
static accel_status fill_rows(const accel__source *source, const accel__source_weight *w, slot *s,
                              const accel__values *whole) {
  const accel__shared_rows rows = {*whole, &w->share, s->whole_k, s->k};
  const accel__values share = accel__shared_values(&rows);
  return accel__quantise(accel__is_shared(&w->share) ? &share : whole, source->from.pool,
                         &s->buffer);
}

static accel_status fill_random(const accel__source *source, const accel__source_weight *w,
                                slot *s) {
  const made m = {.weight = w, .seed = source->from.seed, .k = s->whole_k};
  return fill_rows(source, w, s,
                   &(accel__values){.read = read_made, .name = name_made, .user = &m});
}

static accel_status fill_from_parts(const accel__source *source, const accel__source_weight *w,
                                    slot *s) {
  accel__parts p = {.from = &source->from, .part = s->part, .n = s->n_parts, .k = s->whole_k};
  ACCEL_TRY(accel__parts_open(&p));
  const accel__values values = {accel__parts_read, accel__parts_forget_rows, accel__parts_name, &p};
  accel_status status = fill_rows(source, w, s, &values);
  accel__parts_close(&p);
  return status;
}

/* One part as fp32, all of it. */
static accel_status whole_part(const accel__source *source, const accel__part *part,
                               accel__quantised *out) {
  accel__parts p = {
      .from = &source->from, .part = part, .n = 1, .k = part->coded ? part->tensor.dim[1] : 1};
  const int64_t rows = part->coded ? part->rows : (int64_t)part->elements;
  ACCEL_TRY(accel__quantised_new(&fp32, rows, p.k, out));
  accel_status status = accel__parts_open(&p);
  if (status != ACCEL_OK) return status;
  const accel__values values = {accel__parts_read, accel__parts_forget_rows, accel__parts_name, &p};
  status = accel__quantise(&values, source->from.pool, out);
  accel__parts_close(&p);
  return status;
}

static accel_status fill_derived(const accel__source *source, const accel__source_weight *w,
                                 slot *s) {
  const float *part[ACCEL__MAX_PARTS] = {NULL};
  int64_t elements[ACCEL__MAX_PARTS] = {0};
  accel__quantised values[ACCEL__MAX_PARTS] = {{.n = 0}}, result = {.n = 0};
  const bool in_place = s->format.store == ACCEL_PLUGIN_F32 && !accel__is_shared(&w->share);
  accel_status status = ACCEL_OK;
  for (uint32_t p = 0; p < s->n_parts; p++) {
    ACCEL_GOTO(whole_part(source, &s->part[p], &values[p]));
    part[p] = values[p].data;
    elements[p] = (int64_t)s->part[p].elements;
  }
  if (!in_place) ACCEL_GOTO(accel__quantised_new(&fp32, s->whole_n, s->whole_k, &result));
  float *out = in_place ? s->buffer.data : result.data;
  ACCEL_GOTO(w->derive(w->derive_user, part, elements, s->n_parts, out));
  if (in_place) goto done;
  const made m = {.weight = w, .k = s->whole_k, .values = out};
  status =
      fill_rows(source, w, s, &(accel__values){.read = read_made, .name = name_made, .user = &m});
done:
  for (uint32_t p = 0; p < s->n_parts; p++) accel__quantised_free(&values[p]);
  accel__quantised_free(&result);
  return status;
}

/* Codes of the checkpoint; of a share the rank's, out of those of the whole weight. */
static accel_status fill_codes(const accel__source *source, const accel__source_weight *w,
                               slot *s) {
  accel__quantised whole;
  if (!accel__is_shared(&w->share))
    return accel__parts_codes(&source->from, s->part, s->n_parts, &s->buffer);
  ACCEL_TRY(accel__parts_codes(&source->from, s->part, s->n_parts, &whole));
  const accel_status status = accel__quantised_new(&s->format, s->n, s->k, &s->buffer);
  if (status == ACCEL_OK) accel__share_codes(&w->share, &whole, &s->buffer);
  accel__quantised_free(&whole);
  return status;
}

static accel_status fill(const accel__source *source, const accel__source_weight *w, slot *s) {
  if (comes_in_codes(source, w, s)) return fill_codes(source, w, s);
  ACCEL_TRY(accel__quantised_new(&s->format, s->n, s->k, &s->buffer));
  if (!source->from.checkpoint) return fill_random(source, w, s);
  return w->derive ? fill_derived(source, w, s) : fill_from_parts(source, w, s);
}

/* Usable as it is stored: one part of plain numbers, of the wanted type, which no adapter changes;
 * of a share, rows that follow each other. */
static bool direct(const accel__source *source, const accel__source_weight *w, const slot *s) {
  if (!source->from.checkpoint || w->derive || s->n_parts != 1 || s->part[0].coded ||
      s->part[0].delta || w->share.columns.period ||
      accel__share_run(&w->share.rows, 0, s->n) < s->n || !accel_format_plain(&s->format))
    return false;
  const accel__tensor_info *t = &s->part[0].tensor;
  return t->dtype == (accel_plugin_dtype)s->format.store;
}

/* Where the rows of a weight that is used as it is stored begin in its tensor. */
static uint64_t first_byte(const accel__source_weight *w, const slot *s) {
  const uint64_t row_bytes = (uint64_t)s->k * accel_format_bits(s->format.store) / 8;
  return (uint64_t)accel__share_at(&w->share.rows, 0) * row_bytes;
}

static accel_status open_slot(accel__source *source, uint32_t index) {
  slot *s = &source->slot[index];
  const accel__source_weight *w = &source->weight[index];
  const bool as_stored = direct(source, w, s);
  accel_status status = as_stored ? accel__tensor_lend(source->from.checkpoint, &s->part[0].tensor,
                                                       first_byte(w, s), s->bytes, &s->stored)
                                  : fill(source, w, s);
  if (status != ACCEL_OK) {
    accel__quantised_free(&s->buffer);
    return accel__wrap(status, "weight '%s'", w->name);
  }
  s->view = as_stored ? (accel_plugin_weight_view){.data = s->stored.data}
                      : (accel_plugin_weight_view){s->buffer.data, s->buffer.scale, s->buffer.zero,
                                                   s->buffer.outer};
  return ACCEL_OK;
}

accel_status accel__source_map(accel__source *s, uint32_t index, accel_plugin_weight_view *out) {
  *out = (accel_plugin_weight_view){0};
  if (index >= s->n) return accel__fail(ACCEL_ERROR_ARGUMENT, "weight %u of %u", index, s->n);
  pthread_mutex_lock(&s->lock);
  slot *found = &s->slot[index];
  accel_status status = found->users ? ACCEL_OK : open_slot(s, index);
  if (status == ACCEL_OK) {
    found->users++;
    *out = found->view;
  } else if (s->failure.status == ACCEL_OK) {
    accel__failure_keep(&s->failure, status);
  }
  pthread_mutex_unlock(&s->lock);
  return status;
}

accel_status accel__source_borrow(accel__source *s, uint32_t index, accel_plugin_weight_view *out) {
  const void *pages = NULL;
  if (accel__source_in_file(s, index))
    pages =
        accel__tensor_pages(s->from.checkpoint, &s->slot[index].part[0].tensor,
                            first_byte(&s->weight[index], &s->slot[index]), s->slot[index].bytes);
  if (!pages) return accel__source_map(s, index, out);
  *out = (accel_plugin_weight_view){.data = pages};
  pthread_mutex_lock(&s->lock);
  s->slot[index].borrowed++;
  pthread_mutex_unlock(&s->lock);
  return ACCEL_OK;
}

void accel__source_unmap(accel__source *s, uint32_t index) {
  if (index >= s->n) return;
  pthread_mutex_lock(&s->lock);
  slot *found = &s->slot[index];
  if (found->borrowed) {
    if (--found->borrowed == 0) accel__parts_forget(&s->from, found->part, found->n_parts);
  } else if (found->users && --found->users == 0) {
    if (!found->buffer.block) accel__parts_forget(&s->from, found->part, found->n_parts);
    accel__quantised_free(&found->buffer);
    accel__tensor_return(&found->stored);
    found->view = (accel_plugin_weight_view){0};
  }
  pthread_mutex_unlock(&s->lock);
}

accel_status accel__source_failure(accel__source *s) {
  pthread_mutex_lock(&s->lock);
  const accel_status status = accel__failure_raise(&s->failure);
  pthread_mutex_unlock(&s->lock);
  return status;
}

bool accel__source_in_file(const accel__source *s, uint32_t index) {
  return index < s->n && direct(s, &s->weight[index], &s->slot[index]);
}

/* ---- rows ---- */

/* Can rows be made without the others? */
static bool by_rows(const accel_plugin_format *f) {
  return accel_format_plain(f) ||
         (accel__quantise_known(f) && f->group_n == 1 && f->outer == ACCEL_PLUGIN_NO_DTYPE);
}

accel_plugin_dtype accel__source_row_dtype(const accel__source *s, uint32_t index) {
  if (index >= s->n || s->weight[index].derive || !by_rows(&s->slot[index].format))
    return ACCEL_PLUGIN_NO_DTYPE;
  const slot *found = &s->slot[index];
  /* a part of each row is copied together */
  if (!s->from.checkpoint || s->weight[index].share.columns.period) return ACCEL_PLUGIN_F32;
  for (uint32_t i = 0; i < found->n_parts; i++)
    if (found->part[i].coded) return ACCEL_PLUGIN_NO_DTYPE;
  for (uint32_t i = 0; i < found->n_parts; i++)
    if (found->part[i].delta) return ACCEL_PLUGIN_F32;
  const accel_plugin_dtype dtype = found->part[0].tensor.dtype;
  for (uint32_t i = 1; i < found->n_parts; i++)
    if (found->part[i].tensor.dtype != dtype) return ACCEL_PLUGIN_F32;
  return dtype <= ACCEL_PLUGIN_BF16 ? dtype : ACCEL_PLUGIN_F32;
}

void accel__source_row_dtypes(const accel__source *s, uint32_t n, uint8_t *out) {
  for (uint32_t i = 0; i < n; i++) out[i] = (uint8_t)accel__source_row_dtype(s, i);
}

bool accel__source_row_range(const accel__source *s, uint32_t index, int64_t first, int64_t count,
                             accel__row_range *out) {
  const accel_plugin_dtype dtype = accel__source_row_dtype(s, index);
  if (!s->from.checkpoint || dtype == ACCEL_PLUGIN_NO_DTYPE || first < 0 || count <= 0)
    return false;
  const slot *found = &s->slot[index];
  const accel__weight_share *share = &s->weight[index].share;
  /* a part of each row, or of rows that lie apart, is in no one piece */
  if (share->columns.period || accel__share_run(&share->rows, first, count) < count) return false;
  uint64_t begin = (uint64_t)accel__share_at(&share->rows, first) * (uint64_t)found->k;
  const uint64_t elements = (uint64_t)count * (uint64_t)found->k,
                 element = accel__dtype_bits(dtype) / 8;
  for (uint32_t i = 0; i < found->n_parts; i++) {
    const accel__part *part = &found->part[i];
    if (begin >= part->elements) {
      begin -= part->elements;
      continue;
    }
    *out = (accel__row_range){part->tensor.file, part->tensor.offset + begin * element,
                              elements * element};
    return elements <= part->elements - begin && part->tensor.dtype == dtype && !part->delta &&
           elements;
  }
  return false;
}

accel_status accel__source_rows(const accel__source *s, uint32_t index, int64_t first,
                                int64_t count, float *out) {
  if (accel__source_row_dtype(s, index) == ACCEL_PLUGIN_NO_DTYPE || first < 0 || count < 0 ||
      count > s->slot[index].n || first > s->slot[index].n - count)
    return accel__fail(ACCEL_ERROR_ARGUMENT, "weight %u: no such rows", index);
  const slot *found = &s->slot[index];
  const accel__source_weight *w = &s->weight[index];
  const made m = {.weight = w, .seed = s->from.seed, .k = found->whole_k};
  const accel__parts p = {
      .from = &s->from, .part = found->part, .n = found->n_parts, .k = found->whole_k};
  const accel__shared_rows rows = {s->from.checkpoint
                                       ? (accel__values){.read = accel__parts_read, .user = &p}
                                       : (accel__values){.read = read_made, .user = &m},
                                   &w->share, found->whole_k, found->k};
  ACCEL_TRY_AS(accel__shared_rows_read(&rows, first, count, out), "weight '%s'", w->name);
  return ACCEL_OK;
}

int64_t accel__source_row_elements(const accel__source *s, uint32_t index) {
  return s->slot[index].k;
}

/* Some rows of a weight. */
typedef struct some_rows {
  const accel__source *source;
  uint32_t index;
  int64_t first;
} some_rows;

static accel_status read_some(const void *user, int64_t first, int64_t count, float *out) {
  const some_rows *r = user;
  return accel__source_rows(r->source, r->index, r->first + first, count, out);
}

static void forget_some(const some_rows *r, int64_t count) {
  const slot *found = &r->source->slot[r->index];
  const accel__parts p = {
      .from = &r->source->from, .part = found->part, .n = found->n_parts, .k = found->whole_k};
  const accel__shared_rows rows = {{.forget = accel__parts_forget_rows, .user = &p},
                                   &r->source->weight[r->index].share,
                                   found->whole_k,
                                   found->k};
  const accel__values share = accel__shared_values(&rows);
  if (r->source->from.checkpoint) share.forget(share.user, r->first, count);
}

static const char *name_some(const void *user, int64_t row) {
  const some_rows *r = user;
  return (void)row, r->source->weight[r->index].name;
}

accel_status accel__source_rows_stored(const accel__source *s, uint32_t index, int64_t first,
                                       int64_t count, accel__source_some *out) {
  *out = (accel__source_some){.index = index, .first = first, .count = count};
  if (!accel__source_in_file(s, index)) return ACCEL_OK;
  const slot *found = &s->slot[index];
  if (first < 0 || count < 0 || count > found->n || first > found->n - count)
    return accel__fail(ACCEL_ERROR_ARGUMENT, "weight %u: no such rows", index);
  const uint64_t row = (uint64_t)found->k * (accel_format_bits(found->format.store) / 8);
  ACCEL_TRY_AS(accel__tensor_borrow(s->from.checkpoint, &found->part[0].tensor,
                                    first_byte(&s->weight[index], found) + (uint64_t)first * row,
                                    (uint64_t)count * row, &out->lent),
               "weight '%s'", s->weight[index].name);
  return ACCEL_OK;
}

/* Pages are dropped when all rows have been used, for to do so block by block takes as long as to
 * pack them. */
static void return_pages(slot *s, const accel__source *source, int64_t count) {
  if (atomic_fetch_add(&s->rows_returned, count) + count < s->n) return;
  atomic_store(&s->rows_returned, 0);
  accel__checkpoint_forget(source->from.checkpoint, &s->part[0].tensor);
}

void accel__source_rows_return(const accel__source *s, accel__source_some *some) {
  if (some->lent.own)
    forget_some(&(some_rows){s, some->index, some->first}, some->count);
  else if (some->lent.data)
    return_pages(&s->slot[some->index], s, some->count);
  accel__tensor_return(&some->lent);
}

accel_status accel__source_rows_coded(const accel__source *s, uint32_t index, int64_t first,
                                      int64_t count, accel__quantised *out) {
  const some_rows rows = {s, index, first};
  const accel__values values = {read_some, NULL, name_some, &rows};
  *out = (accel__quantised){.n = 0};
  if (accel__source_row_dtype(s, index) == ACCEL_PLUGIN_NO_DTYPE)
    return accel__fail(ACCEL_ERROR_ARGUMENT, "weight %u: its rows are not to be had", index);
  ACCEL_TRY(accel__quantised_new(&s->slot[index].format, count, s->slot[index].k, out));
  const accel_status status = accel__quantise(&values, count > 1 ? s->from.pool : NULL, out);
  forget_some(&rows, count);
  if (status != ACCEL_OK) accel__quantised_free(out);
  return status;
}

/* To the numbers that a plain format has. */
static void round_values(uint8_t store, uint64_t n, float *values) {
  for (uint64_t i = 0; store == ACCEL_PLUGIN_F16 && i < n; i++)
    values[i] = accel_fp16_to_f32(accel_f32_to_fp16(values[i]));
  for (uint64_t i = 0; store == ACCEL_PLUGIN_BF16 && i < n; i++)
    values[i] = accel_bf16_to_f32(accel_f32_to_bf16(values[i]));
}

accel_status accel__source_rows_rounded(const accel__source *s, uint32_t index, int64_t first,
                                        int64_t count, float *out) {
  accel__quantised q;
  if (index < s->n && accel_format_plain(&s->slot[index].format)) {
    ACCEL_TRY(accel__source_rows(s, index, first, count, out));
    round_values(s->slot[index].format.store, (uint64_t)(count * s->slot[index].k), out);
    return ACCEL_OK;
  }
  ACCEL_TRY(accel__source_rows_coded(s, index, first, count, &q));
  accel__dequantise_rows(&q, 0, count, out);
  accel__quantised_free(&q);
  return ACCEL_OK;
}

const accel__checkpoint *accel__source_checkpoint(const accel__source *s) {
  return s->from.checkpoint;
}

uint64_t accel__source_bytes(const accel__source *s) {
  uint64_t all = 0;
  for (uint32_t i = 0; i < s->n; i++) all += s->slot[i].bytes;
  return all;
}

accel_status accel__source_unexpected(const accel__source *s, accel__arena *arena,
                                      const char ***names, uint32_t *n) {
  const accel__checkpoint *c = s->from.checkpoint;
  const uint32_t count = c ? accel__checkpoint_count(c) : 0;
  accel__map used = {0};
  *n = 0;
  *names = accel__arena_array(arena, count, sizeof **names);
  accel_status status = *names ? ACCEL_OK : ACCEL_ERROR_OUT_OF_MEMORY;
  for (uint32_t i = 0; c && i < s->n; i++) {
    for (uint32_t p = 0; p < s->slot[i].n_parts && status == ACCEL_OK; p++)
      status = accel__map_set(&used, s->slot[i].part[p].name, strlen(s->slot[i].part[p].name), 1);
  }
  for (uint32_t i = 0; i < count && status == ACCEL_OK; i++) {
    const char *name = accel__checkpoint_at(c, i)->name;
    int64_t one;
    if (!accel__map_get(&used, name, strlen(name), &one) &&
        !accel__starts_with(name, ACCEL__ADAPTER_PREFIX) &&
        !accel__import_uses(s->from.import, name))
      (*names)[(*n)++] = name;
  }
  accel__map_free(&used);
  return status;
}
