/* run_scratch.c - the one scratch an endpoint keeps. */
#include "dispatch/run_scratch.h"

#include <stdlib.h>

static void scratch_free(accel__run_scratch *s) {
  if (!s) return;
  free(s->dim);
  free(s->row);
  free(s);
}

static accel__run_scratch *scratch_new(const accel_endpoint *ep) {
  const accel_plugin_program *p = accel__program_view(ep->model->program);
  accel__run_scratch *s = calloc(1, sizeof *s);
  if (s) s->dim = calloc((size_t)p->n_dim + p->n_symbol + 1, sizeof *s->dim);
  if (!s || !s->dim) {
    free(s);
    return NULL;
  }
  s->symbol = s->dim + p->n_dim;
  return s;
}

accel__run_scratch *accel__run_scratch_take(accel_endpoint *ep) {
  accel__run_scratch *s = atomic_exchange(&ep->run_scratch, NULL);
  if (s) s->n_row = 0;
  return s ? s : scratch_new(ep);
}

void accel__run_scratch_give(accel_endpoint *ep, accel__run_scratch *s) {
  scratch_free(atomic_exchange(&ep->run_scratch, s));
}

bool accel__run_scratch_reserve(accel__run_scratch *s, uint64_t n) {
  if (s->row && n <= s->capacity) return true;
  int32_t *row =
      n < SIZE_MAX / sizeof *row ? realloc(s->row, (n + 1) * sizeof *row) : NULL; /* never NULL */
  if (!row) return false;
  s->row = row;
  s->capacity = n;
  return true;
}

int32_t *accel__run_scratch_rows(accel__run_scratch *s, uint64_t n) {
  int32_t *row = s->row + s->n_row;
  s->n_row += n;
  return row;
}

void accel__run_scratch_free(accel_endpoint *ep) {
  scratch_free(atomic_exchange(&ep->run_scratch, NULL));
}
