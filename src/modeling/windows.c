/* windows.c - rows of a grid gathered window by window. */
#include "modeling/windows.h"

static accel__tensor sum_of(accel__build *b, accel__tensor x, accel__tensor y) {
  return accel__binary(b->p, ACCEL_PLUGIN_BINARY_ADD, x, y);
}
static accel__tensor less(accel__build *b, accel__tensor x, accel__tensor y) {
  return accel__binary(b->p, ACCEL_PLUGIN_BINARY_SUB, x, y);
}
static accel__tensor product(accel__build *b, accel__tensor x, accel__tensor y) {
  return accel__binary(b->p, ACCEL_PLUGIN_BINARY_MUL, x, y);
}
/* 1 where whole numbers are above 0. */
static accel__tensor positive(accel__build *b, accel__tensor x) {
  return accel__clamp(b, x, 0.0, 1.0);
}
static accel__tensor column(accel__build *b, accel__tensor x, accel__dim n) {
  return accel__reshape(b->p, x, 2, (accel__dim[]){n, accel__const_dim(b->p, 1)});
}

/* One side of the grid: F32 numbers, exact up to 2^24. */
typedef struct side {
  /* [windows*size]: place of the grid that a place of the shifted, padded side shows */
  accel__tensor at;
  accel__tensor inside; /* 1, or 0 where that is padding */
  accel__tensor region; /* 0, 1, 2: what the shift brought together */
  accel__tensor window; /* [n]: which window a place of the grid is in, */
  accel__tensor in;     /* and where in it */
} side;

static side plan_side(accel__build *b, accel__dim n, accel__dim across, int64_t size,
                      accel__tensor shift) {
  accel__dim all = accel__times(b, across, accel__const_dim(b->p, size));
  accel__tensor i = accel__count(b, all), end = accel__dim_number(b, all), t = accel__count(b, n);
  side s = {.at = i};
  if (shift >= 0) {
    s.at = sum_of(b, i, shift);
    s.at =
        less(b, s.at, product(b, positive(b, accel__affine(b, less(b, s.at, end), 1.0, 1.0)), end));
    t = less(b, t, shift);
    t = sum_of(b, t, product(b, positive(b, accel__affine(b, t, -1.0, 0.0)), end));
    s.region = sum_of(b, positive(b, accel__affine(b, less(b, i, end), 1.0, (double)size + 1)),
                      positive(b, accel__affine(b, sum_of(b, less(b, i, end), shift), 1.0, 1.0)));
  }
  s.inside = positive(b, less(b, accel__dim_number(b, n), s.at));
  s.window = accel__affine(b, t, 1.0 / (double)size, 0.5 / (double)size);
  s.window = accel__cast(b, accel__cast(b, s.window, ACCEL_PLUGIN_I32), ACCEL_PLUGIN_F32);
  s.in = less(b, t, accel__affine(b, s.window, (double)size, 0.0));
  return s;
}

/* [rows, columns] of all windows' grid, window by window: [count, S]. */
static accel__tensor by_window(accel__build *b, const accel__windows *p, accel__tensor x) {
  accel__dim m = accel__const_dim(b->p, p->window);
  x = accel__reshape(b->p, x, 4, (accel__dim[]){p->across.h, m, p->across.w, m});
  x = accel__transpose(b, x, 4, (int64_t[]){0, 2, 1, 3});
  return accel__reshape(b->p, x, 2,
                        (accel__dim[]){p->count, accel__const_dim(b->p, p->window * p->window)});
}

void accel__plan_windows(accel__build *b, accel__windows *p, bool shifted) {
  accel__program *g = b->p;
  const int64_t m = p->window, s = m * m;
  accel__dim size = accel__const_dim(g, m), one = accel__const_dim(g, 1),
             square = accel__const_dim(g, s);
  p->across = (accel__grid){accel__dim_op(g, ACCEL_PLUGIN_DIM_CEILDIV, p->grid.h, size),
                            accel__dim_op(g, ACCEL_PLUGIN_DIM_CEILDIV, p->grid.w, size)};
  accel__dim rows = accel__times(b, p->across.h, size);
  p->count = accel__times(b, p->across.h, p->across.w);
  p->n = accel__times(b, p->grid.h, p->grid.w);
  p->all = accel__times(b, p->count, square);
  accel__tensor shift = -1;
  if (shifted) { /* half a window, where more than one stands side by side in both directions */
    accel__tensor least = accel__binary(g, ACCEL_PLUGIN_BINARY_MIN, accel__dim_number(b, p->grid.h),
                                        accel__dim_number(b, p->grid.w));
    shift = accel__affine(b, positive(b, accel__affine(b, least, 1.0, -(double)m)), (double)(m / 2),
                          0.0);
  }
  const side y = plan_side(b, p->grid.h, p->across.h, m, shift),
             x = plan_side(b, p->grid.w, p->across.w, m, shift);
  accel__tensor outside =
      product(b, accel__dim_number(b, p->grid.h), accel__dim_number(b, p->grid.w)); /* [1]: n */
  accel__tensor to =
      sum_of(b, column(b, product(b, y.at, accel__dim_number(b, p->grid.w)), rows), x.at);
  to = product(b, less(b, to, outside), product(b, column(b, y.inside, rows), x.inside));
  to = accel__cast(b, sum_of(b, by_window(b, p, to), outside), ACCEL_PLUGIN_I32);
  p->to = accel__reshape(g, to, 1, &p->all);
  accel__tensor from =
      product(b, y.window, accel__affine(b, accel__dim_number(b, p->across.w), (double)s, 0.0));
  from = column(b, sum_of(b, from, accel__affine(b, y.in, (double)m, 0.0)), p->grid.h);
  from = sum_of(b, from, sum_of(b, accel__affine(b, x.window, (double)s, 0.0), x.in));
  p->from = accel__reshape(g, accel__cast(b, from, ACCEL_PLUGIN_I32), 1, &p->n);
  p->apart = -1;
  if (!shifted) return;
  accel__tensor region = sum_of(b, column(b, accel__affine(b, y.region, 3.0, 0.0), rows), x.region);
  region = by_window(b, p, region);
  region = less(b, accel__reshape(g, region, 4, (accel__dim[]){p->count, one, square, one}),
                accel__reshape(g, region, 4, (accel__dim[]){p->count, one, one, square}));
  p->apart =
      accel__affine(b, positive(b, accel__unary(g, ACCEL_PLUGIN_UNARY_ABS, region)), -100.0, 0.0);
}

/* Rows of x [B,n,C] by number: [B,m,C]. */
static accel__tensor take(accel__build *b, accel__tensor x, accel__tensor idx) {
  accel__attr axis = ACCEL_I(AXIS, 1);
  return accel__node(b->p, ACCEL_PLUGIN_OP_GATHER, (accel__tensor[]){x, idx}, 2, &axis, 1, NULL, 1);
}

accel__tensor accel__to_windows(accel__build *b, const accel__windows *p, accel__tensor x,
                                int32_t *space) {
  accel__program *g = b->p;
  const int64_t dim = accel__columns(b, x);
  if (p->padded) { /* a row of zeros for the padding */
    const int64_t pads[6] = {0, 0, 0, 0, 1, 0};
    accel__attr attr[] = {ACCEL_IV(PADS, pads, 6), ACCEL_I(KIND, ACCEL_PLUGIN_PAD_CONSTANT)};
    x = accel__node(g, ACCEL_PLUGIN_OP_PAD, &x, 1, attr, 2, NULL, 1);
  }
  accel__dim per_window = accel__const_dim(g, p->window * p->window),
             all = accel__times(b, b->B, p->count);
  *space = accel__space_fixed(g, "windows", per_window, all);
  return accel__reshape(g, take(b, x, p->to), 2,
                        (accel__dim[]){accel__times(b, all, per_window), accel__const_dim(g, dim)});
}

accel__tensor accel__from_windows(accel__build *b, const accel__windows *p, accel__tensor x) {
  accel__dim dim = accel__const_dim(b->p, accel__columns(b, x));
  return take(b, accel__reshape(b->p, x, 3, (accel__dim[]){b->B, p->all, dim}), p->from);
}
