/* weight_delta.c - the table of changes, and elements of tensors with them. */
#include "weights/weight_delta.h"

#include <inttypes.h>
#include <math.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "core/text.h"

enum { CHUNK = 1 << 16 /* elements read at once to find lengths */ };

typedef struct change {
  const char *stored;         /* the tensor in its place; NULL: itself */
  accel__weight_delta *delta; /* NULL: nothing is added */
} change;

struct accel__weight_deltas {
  accel__arena arena;
  accel__map names; /* tensor -> change */
  change *change;
  size_t n, capacity;
  pthread_mutex_t lock; /* factor and has_factor of every delta */
};

accel__weight_deltas *accel__weight_deltas_new(void) {
  accel__weight_deltas *d = calloc(1, sizeof *d);
  if (d)
    pthread_mutex_init(&d->lock, NULL);
  else
    accel__no_memory(sizeof *d);
  return d;
}

void accel__weight_deltas_free(accel__weight_deltas **deltas) {
  accel__weight_deltas *d = *deltas;
  *deltas = NULL;
  if (!d) return;
  pthread_mutex_destroy(&d->lock);
  accel__map_free(&d->names);
  accel__arena_free(&d->arena);
  free(d->change);
  free(d);
}

static change *find(const accel__weight_deltas *d, const char *tensor) {
  int64_t i;
  return d && accel__map_get(&d->names, tensor, strlen(tensor), &i) ? &d->change[i] : NULL;
}

/* The change of a tensor, which may be new. */
static accel_status find_or_make(accel__weight_deltas *d, const char *tensor, change **out) {
  *out = find(d, tensor);
  if (*out) return ACCEL_OK;
  const char *key = accel__arena_string(&d->arena, tensor);
  if (!key) return ACCEL_ERROR_OUT_OF_MEMORY;
  if (d->n == d->capacity) {
    const size_t capacity = 2 * d->capacity + 64;
    change *more = realloc(d->change, capacity * sizeof *more);
    if (!more) return accel__no_memory(capacity * sizeof *more);
    d->change = more;
    d->capacity = capacity;
  }
  ACCEL_TRY(accel__map_set(&d->names, key, strlen(key), (int64_t)d->n));
  *out = &d->change[d->n++];
  **out = (change){NULL, NULL};
  return ACCEL_OK;
}

accel_status accel__weight_deltas_replace(accel__weight_deltas *d, const char *tensor,
                                          const char *other) {
  change *c;
  ACCEL_TRY(find_or_make(d, tensor, &c));
  c->stored = accel__arena_string(&d->arena, other);
  return c->stored ? ACCEL_OK : ACCEL_ERROR_OUT_OF_MEMORY;
}

accel_status accel__weight_deltas_add(accel__weight_deltas *d, const char *tensor,
                                      const accel__weight_delta *delta) {
  change *c;
  accel__weight_delta *mine = accel__arena_alloc(&d->arena, sizeof *mine), **end;
  if (!mine) return ACCEL_ERROR_OUT_OF_MEMORY;
  *mine = *delta;
  mine->next = NULL;
  mine->has_factor = false;
  mine->factor = NULL;
  if (delta->magnitude) {
    const int64_t n = delta->by_column ? delta->columns : delta->rows;
    mine->factor = accel__arena_array(&d->arena, (size_t)n, sizeof *mine->factor);
    if (!mine->factor) return ACCEL_ERROR_OUT_OF_MEMORY;
  }
  ACCEL_TRY(find_or_make(d, tensor, &c));
  for (end = &c->delta; *end;) end = &(*end)->next;
  *end = mine;
  return ACCEL_OK;
}

const char *accel__weight_deltas_stored(const accel__weight_deltas *d, const char *tensor) {
  const change *c = find(d, tensor);
  return c && c->stored ? c->stored : tensor;
}

bool accel__weight_deltas_replaced(const accel__weight_deltas *d, const char *tensor) {
  const change *c = find(d, tensor);
  return c && c->stored;
}

accel__weight_delta *accel__weight_deltas_of(const accel__weight_deltas *d, const char *tensor) {
  const change *c = find(d, tensor);
  return c ? c->delta : NULL;
}

/* ---- applying ---- */

/* values[n] += columns [column, column+n) of a row of left right. */
static void add_product(const float *left, const float *right, uint32_t rank, int64_t columns,
                        int64_t row, int64_t column, int64_t n, float *values) {
  for (uint32_t j = 0; j < rank; j++) {
    const float factor = left[row * rank + j];
    const float *from = right + (int64_t)j * columns + column;
    for (int64_t i = 0; i < n; i++) values[i] += factor * from[i];
  }
}

static void add_two_products(const accel__weight_delta *d, int64_t row, int64_t column, int64_t n,
                             float *values) {
  enum { STRIP = 256 };
  for (int64_t at = 0; at < n; at += STRIP) {
    float one[STRIP] = {0}, two[STRIP] = {0};
    const int64_t some = n - at < STRIP ? n - at : STRIP;
    add_product(d->left, d->right, d->rank, d->columns, row, column + at, some, one);
    add_product(d->left2, d->right2, d->rank2, d->columns, row, column + at, some, two);
    for (int64_t i = 0; i < some; i++) values[at + i] += one[i] * two[i];
  }
}

static void add_kronecker(const accel__weight_delta *d, int64_t row, int64_t column, int64_t n,
                          float *values) {
  const float *left = d->left + row / d->block_rows * (d->columns / d->block_columns),
              *right = d->right + row % d->block_rows * d->block_columns;
  for (int64_t i = 0; i < n; i++)
    values[i] += left[(column + i) / d->block_columns] * right[(column + i) % d->block_columns];
}

/* values[n] are columns [column, column+n) of a row. */
static void add_to_row(const accel__weight_delta *d, int64_t row, int64_t column, int64_t n,
                       float *values) {
  if (d->block_rows > 0)
    add_kronecker(d, row, column, n, values);
  else if (d->rank2 > 0)
    add_two_products(d, row, column, n, values);
  else
    add_product(d->left, d->right, d->rank, d->columns, row, column, n, values);
}

static void multiply_row(const accel__weight_delta *d, int64_t row, int64_t column, int64_t n,
                         float *values) {
  for (int64_t i = 0; i < n; i++)
    values[i] *= d->by_column ? d->factor[column + i] : d->factor[row];
}

/* One delta, whose factors are made; without `lengths` it stops short of them. */
static void apply_one(const accel__weight_delta *d, bool lengths, uint64_t first, uint64_t count,
                      float *values) {
  int64_t row = (int64_t)first / d->columns, column = (int64_t)first % d->columns;
  while (count) {
    const int64_t rest = d->columns - column, n = count < (uint64_t)rest ? (int64_t)count : rest;
    add_to_row(d, row, column, n, values);
    if (lengths && d->magnitude) multiply_row(d, row, column, n, values);
    values += n;
    count -= (uint64_t)n;
    row++;
    column = 0;
  }
}

/* Adds the squares of values[count], elements from `first` on, to those of their row or column. */
static void add_squares(const accel__weight_delta *d, uint64_t first, uint64_t count,
                        const float *values, double *squares) {
  for (uint64_t i = 0; i < count; i++) {
    const uint64_t at = first + i, columns = (uint64_t)d->columns;
    squares[d->by_column ? at % columns : at / columns] += (double)values[i] * (double)values[i];
  }
}

/* The factors of `d`, one of the deltas from `head` on; those before it have theirs. */
static accel_status make_factors(const accel__checkpoint *c, const accel__tensor_info *stored,
                                 const accel__weight_delta *head, accel__weight_delta *d) {
  const int64_t lengths = d->by_column ? d->columns : d->rows;
  double *squares = calloc((size_t)lengths, sizeof *squares);
  float *values = malloc(CHUNK * sizeof *values);
  accel_status status =
      squares && values ? ACCEL_OK : accel__no_memory((size_t)lengths * sizeof *squares);
  for (uint64_t at = 0; status == ACCEL_OK && at < stored->elements; at += CHUNK) {
    const uint64_t rest = stored->elements - at, n = rest < CHUNK ? rest : CHUNK;
    status = accel__tensor_to_f32(c, stored, at, n, values);
    if (status != ACCEL_OK) break;
    for (const accel__weight_delta *e = head; e != d; e = e->next)
      apply_one(e, true, at, n, values);
    apply_one(d, false, at, n, values);
    add_squares(d, at, n, values, squares);
  }
  for (int64_t i = 0; status == ACCEL_OK && i < lengths; i++) {
    d->factor[i] = (float)((double)d->magnitude[i] / sqrt(squares[i]));
    if (!isfinite(d->factor[i]))
      status = accel__fail(ACCEL_ERROR_FORMAT,
                           "tensor '%s': %s %" PRId64
                           " with the adapter has no length that its "
                           "lora_magnitude_vector could be given",
                           stored->name, d->by_column ? "column" : "row", i);
  }
  d->has_factor = status == ACCEL_OK;
  free(values);
  free(squares);
  return status;
}

accel_status accel__weight_deltas_apply(accel__weight_deltas *d, const accel__checkpoint *c,
                                        const accel__tensor_info *stored,
                                        accel__weight_delta *delta, uint64_t first, uint64_t count,
                                        float *values) {
  accel_status status = ACCEL_OK;
  for (accel__weight_delta *e = delta; e && status == ACCEL_OK; e = e->next) {
    if (!e->magnitude) continue;
    pthread_mutex_lock(&d->lock);
    if (!e->has_factor) status = make_factors(c, stored, delta, e);
    pthread_mutex_unlock(&d->lock);
  }
  for (const accel__weight_delta *e = delta; e && status == ACCEL_OK; e = e->next)
    apply_one(e, true, first, count, values);
  return status;
}
