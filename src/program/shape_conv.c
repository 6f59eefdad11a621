/* shape_conv.c - shape inference of the image and audio ops (convolution, pooling, resizing,
 * padding) and of the views. */
#include <string.h>

#include "program/program_internal.h"

enum { MAX_SPATIAL = 2 };

/* Value i of an integer list, or the default when the list is absent or empty. */
static int64_t listed(const accel__infer *c, int key, uint32_t i, int64_t otherwise) {
  const accel_plugin_attr *a = accel__attr_at(c, key);
  return a == NULL || a->n == 0 ? otherwise : a->v[i];
}

/* Spatial lists have one value per spatial dim; pads two. */
static bool check_lists(accel__infer *c, uint32_t spatial) {
  static const int key[] = {ACCEL_PLUGIN_ATTR_STRIDE, ACCEL_PLUGIN_ATTR_DILATION,
                            ACCEL_PLUGIN_ATTR_OUT_PADS, ACCEL_PLUGIN_ATTR_KERNEL,
                            ACCEL_PLUGIN_ATTR_PADS};
  for (uint32_t i = 0; i < sizeof key / sizeof *key; i++) {
    const accel_plugin_attr *a = accel__attr_at(c, key[i]);
    uint32_t wanted = key[i] == ACCEL_PLUGIN_ATTR_PADS ? 2 * spatial : spatial;
    int64_t least =
        key[i] == ACCEL_PLUGIN_ATTR_PADS || key[i] == ACCEL_PLUGIN_ATTR_OUT_PADS ? 0 : 1;
    if (a == NULL || a->n == 0) continue;
    if (a->n != wanted)
      return accel__wrong(c, "%s has %u values, expected %u", accel__attr_name(key[i]), a->n,
                          wanted);
    for (uint32_t k = 0; k < a->n; k++) {
      if (a->v[k] < least || a->v[k] > INT32_MAX)
        return accel__wrong(c, "%s holds %lld", accel__attr_name(key[i]), (long long)a->v[k]);
    }
  }
  return true;
}

static accel__dim plus(accel__infer *c, accel__dim a, int64_t n) {
  accel_plugin_dim_op op = n < 0 ? ACCEL_PLUGIN_DIM_SUB : ACCEL_PLUGIN_DIM_ADD;
  return accel__dim_op(c->p, op, a, accel__const_dim(c->p, n < 0 ? -n : n));
}

/* (in + pads - dilation*(kernel-1) - 1) / stride + 1, and just `in` where that is the same for all
 * of them: then both are known to be equal. */
static accel__dim window_count(accel__infer *c, accel__dim in, uint32_t i, uint32_t spatial,
                               int64_t kernel, bool ceil) {
  int64_t pads =
      listed(c, ACCEL_PLUGIN_ATTR_PADS, i, 0) + listed(c, ACCEL_PLUGIN_ATTR_PADS, i + spatial, 0);
  int64_t reach = listed(c, ACCEL_PLUGIN_ATTR_DILATION, i, 1) * (kernel - 1) + 1,
          stride = listed(c, ACCEL_PLUGIN_ATTR_STRIDE, i, 1);
  if (!ceil && stride == 1 && pads == reach - 1) return in;
  accel__dim free = plus(c, in, pads - reach), step = accel__const_dim(c->p, stride);
  accel__dim steps =
      accel__dim_op(c->p, ceil ? ACCEL_PLUGIN_DIM_CEILDIV : ACCEL_PLUGIN_DIM_FLOORDIV, free, step);
  accel__dim count = plus(c, steps, 1);
  if (!ceil) return count;
  /* torch: with ceil the last window must begin inside the input or its left padding */
  accel__dim begin = plus(c, in, listed(c, ACCEL_PLUGIN_ATTR_PADS, i, 0));
  return accel__dim_op(c->p, ACCEL_PLUGIN_DIM_MIN, count,
                       accel__dim_op(c->p, ACCEL_PLUGIN_DIM_CEILDIV, begin, step));
}

static bool positive(accel__infer *c, accel__dim dim) {
  int64_t value;
  return !accel__dim_value(c->p, dim, &value) || value > 0 ||
         accel__wrong(c, "a dim of the result would be %lld", (long long)value);
}

/* Checks the channel counts of a convolution's w against x and groups; *out_channels gets O. */
static bool channels(accel__infer *c, accel__dim in_channels, bool transposed,
                     accel__dim *out_channels) {
  const accel_plugin_tensor *w = accel__operand_at(c, 1);
  int64_t groups = accel__attr_int(c, ACCEL_PLUGIN_ATTR_GROUPS, 1), in, first, second;
  if (!accel__dim_value(c->p, in_channels, &in) || !accel__dim_value(c->p, w->dim[0], &first) ||
      !accel__dim_value(c->p, w->dim[1], &second)) {
    return accel__wrong(c, "channel counts must be constants");
  }
  if (groups < 1 || in % groups != 0 || first % groups != 0)
    return accel__wrong(c, "groups %lld do not divide the channels", (long long)groups);
  if (transposed ? first != in : second != in / groups)
    return accel__wrong(c, "w does not fit x's %lld channels in %lld groups", (long long)in,
                        (long long)groups);
  *out_channels = accel__const_dim(c->p, transposed ? second * groups : first);
  return true;
}

/* x[T,C] over the rows of each sequence: the length stays. */
static bool conv_rows(accel__infer *c, int64_t space) {
  const accel_plugin_tensor *x = accel__operand_at(c, 0);
  accel__dim out;
  int64_t kernel;
  if (!accel__expect_rank(c, 0, 2) || !accel__expect_rank(c, 1, 3) || !check_lists(c, 1) ||
      !channels(c, x->dim[1], false, &out))
    return false;
  if (space >= (int64_t)c->p->n_space)
    return accel__wrong(c, "space %lld does not exist", (long long)space);
  if (!accel__dim_value(c->p, accel__operand_at(c, 1)->dim[2], &kernel))
    return accel__wrong(c, "the kernel size must be a constant");
  int64_t pads = listed(c, ACCEL_PLUGIN_ATTR_PADS, 0, 0) + listed(c, ACCEL_PLUGIN_ATTR_PADS, 1, 0);
  if (pads != listed(c, ACCEL_PLUGIN_ATTR_DILATION, 0, 1) * (kernel - 1) ||
      listed(c, ACCEL_PLUGIN_ATTR_STRIDE, 0, 1) != 1) {
    return accel__wrong(c,
                        "over rows a convolution must keep the length: stride 1 and pads that sum "
                        "to dilation*(kernel-1)");
  }
  accel__dim dims[2] = {x->dim[0], out};
  if (!accel__expect_dims(c, 2, 1, &out) || !accel__expect_dims(c, 3, 2, dims)) return false;
  accel__result(c, 0, ACCEL_PLUGIN_F32, 2, dims, x->space);
  return true;
}

static bool convolve(accel__infer *c, bool transposed) {
  const accel_plugin_tensor *x = accel__operand_at(c, 0), *w = accel__operand_at(c, 1);
  if (x->rank < 3 || x->rank > 2 + MAX_SPATIAL)
    return accel__wrong(c, "x should be [B,C,L] or [B,C,H,W]");
  uint32_t spatial = x->rank - 2u;
  int32_t dims[ACCEL_PLUGIN_MAX_RANK] = {x->dim[0]};
  if (!accel__expect_rank(c, 1, x->rank) || !check_lists(c, spatial) ||
      !channels(c, x->dim[1], transposed, &dims[1]))
    return false;
  for (uint32_t i = 0; i < spatial; i++) {
    int64_t kernel, pads = listed(c, ACCEL_PLUGIN_ATTR_PADS, i, 0) +
                           listed(c, ACCEL_PLUGIN_ATTR_PADS, i + spatial, 0);
    if (!accel__dim_value(c->p, w->dim[2 + i], &kernel))
      return accel__wrong(c, "the kernel size must be a constant");
    if (!transposed) {
      dims[2 + i] = window_count(c, x->dim[2 + i], i, spatial, kernel, false);
    } else { /* (in - 1)*stride - pads + dilation*(kernel-1) + out_pad + 1 */
      accel__dim reach =
          accel__dim_op(c->p, ACCEL_PLUGIN_DIM_MUL, plus(c, x->dim[2 + i], -1),
                        accel__const_dim(c->p, listed(c, ACCEL_PLUGIN_ATTR_STRIDE, i, 1)));
      dims[2 + i] = plus(c, reach,
                         listed(c, ACCEL_PLUGIN_ATTR_DILATION, i, 1) * (kernel - 1) + 1 +
                             listed(c, ACCEL_PLUGIN_ATTR_OUT_PADS, i, 0) - pads);
    }
    if (!positive(c, dims[2 + i])) return false;
  }
  if (!accel__expect_dims(c, 2, 1, &dims[1])) return false;
  if (!transposed && !accel__expect_dims(c, 3, x->rank, dims)) return false;
  accel__result(c, 0, ACCEL_PLUGIN_F32, x->rank, dims, -1);
  return true;
}

bool accel__shape_CONV(accel__infer *c) {
  int64_t space = accel__attr_int(c, ACCEL_PLUGIN_ATTR_SPACE, -1);
  return space >= 0 || c->state >= 0 ? conv_rows(c, space) : convolve(c, false);
}

bool accel__shape_CONV_TRANSPOSE(accel__infer *c) { return convolve(c, true); }

bool accel__shape_GROUP_NORM(accel__infer *c) {
  const accel_plugin_tensor *x = accel__operand_at(c, 0);
  int64_t groups = accel__attr_int(c, ACCEL_PLUGIN_ATTR_GROUPS, 0), n;
  if (x->rank < 2) return accel__wrong(c, "x should be [B,C,..]");
  if (groups < 1 || !accel__dim_value(c->p, x->dim[1], &n) || n % groups != 0)
    return accel__wrong(c, "groups %lld do not divide the channels", (long long)groups);
  if (!accel__expect_dims(c, 1, 1, &x->dim[1]) || !accel__expect_dims(c, 2, 1, &x->dim[1]))
    return false;
  accel__result(c, 0, x->dtype, x->rank, x->dim, x->space);
  return true;
}

bool accel__shape_POOL(accel__infer *c) {
  const accel_plugin_tensor *x = accel__operand_at(c, 0);
  if (x->rank < 3 || x->rank > 2 + MAX_SPATIAL)
    return accel__wrong(c, "x should be [B,C,L] or [B,C,H,W]");
  uint32_t spatial = x->rank - 2u;
  const accel_plugin_attr *adaptive = accel__attr_at(c, ACCEL_PLUGIN_ATTR_ADAPTIVE),
                          *kernel = accel__attr_at(c, ACCEL_PLUGIN_ATTR_KERNEL);
  if (!check_lists(c, spatial)) return false;
  if (adaptive != NULL && adaptive->n != spatial)
    return accel__wrong(c, "adaptive has %u values, expected %u", adaptive->n, spatial);
  int32_t dims[ACCEL_PLUGIN_MAX_RANK] = {x->dim[0], x->dim[1]};
  for (uint32_t i = 0; i < spatial; i++) {
    if (adaptive != NULL)
      dims[2 + i] = accel__const_dim(c->p, adaptive->v[i]);
    else if (kernel == NULL || kernel->n == 0)
      dims[2 + i] = accel__const_dim(c->p, 1); /* global */
    else
      dims[2 + i] = window_count(c, x->dim[2 + i], i, spatial, kernel->v[i],
                                 accel__attr_int(c, ACCEL_PLUGIN_ATTR_CEIL, 0) != 0);
    if (!positive(c, dims[2 + i])) return false;
  }
  accel__result(c, 0, x->dtype, x->rank, dims, -1);
  return true;
}

/* The dims of attribute `key`; false when one does not exist. */
static bool dims_of(accel__infer *c, int key, int32_t *dims, uint32_t *rank) {
  const accel_plugin_attr *a = accel__attr_at(c, key);
  if (a == NULL || a->n > ACCEL_PLUGIN_MAX_RANK)
    return accel__wrong(c, "%s needs at most %d dims", accel__attr_name(key),
                        ACCEL_PLUGIN_MAX_RANK);
  for (uint32_t i = 0; i < a->n; i++) {
    if (a->v[i] < 0 || a->v[i] >= (int64_t)c->p->n_dim)
      return accel__wrong(c, "%s: dim %u does not exist", accel__attr_name(key), i);
    dims[i] = (int32_t)a->v[i];
  }
  *rank = a->n;
  return true;
}

bool accel__shape_RESIZE(accel__infer *c) {
  const accel_plugin_tensor *x = accel__operand_at(c, 0);
  int32_t dims[2 * ACCEL_PLUGIN_MAX_RANK];
  uint32_t n;
  if (x->rank < 3 || x->rank > 2 + MAX_SPATIAL)
    return accel__wrong(c, "x should be [B,C,L] or [B,C,H,W]");
  if (!dims_of(c, ACCEL_PLUGIN_ATTR_SHAPE, dims + 2, &n)) return false;
  if (n != x->rank - 2u)
    return accel__wrong(c, "shape has %u dims, expected the %u spatial ones", n, x->rank - 2u);
  dims[0] = x->dim[0];
  dims[1] = x->dim[1];
  accel__result(c, 0, x->dtype, x->rank, dims, -1);
  return true;
}

static accel__dim product(accel__infer *c, uint32_t rank, const int32_t *dims) {
  accel__dim all = accel__const_dim(c->p, 1);
  for (uint32_t i = 0; i < rank; i++) all = accel__dim_op(c->p, ACCEL_PLUGIN_DIM_MUL, all, dims[i]);
  return all;
}

bool accel__shape_RESHAPE(accel__infer *c) {
  const accel_plugin_tensor *x = accel__operand_at(c, 0);
  int32_t dims[ACCEL_PLUGIN_MAX_RANK];
  uint32_t rank;
  if (!dims_of(c, ACCEL_PLUGIN_ATTR_SHAPE, dims, &rank)) return false;
  if (!accel__dims_equal(c->p, product(c, x->rank, x->dim), product(c, rank, dims)))
    return accel__wrong(c, "shape has another number of elements");
  bool rows = rank > 0 && x->rank > 0 && accel__dims_equal(c->p, dims[0], x->dim[0]);
  accel__result(c, 0, x->dtype, rank, dims, rows ? x->space : -1);
  return true;
}

bool accel__shape_TRANSPOSE(accel__infer *c) {
  const accel_plugin_tensor *x = accel__operand_at(c, 0);
  const accel_plugin_attr *perm = accel__attr_at(c, ACCEL_PLUGIN_ATTR_PERM);
  if (perm == NULL || perm->n != x->rank) return accel__wrong(c, "perm needs one entry per dim");
  uint32_t seen = 0;
  int32_t dims[ACCEL_PLUGIN_MAX_RANK] = {0};
  for (uint32_t i = 0; i < perm->n; i++) {
    if (perm->v[i] < 0 || perm->v[i] >= x->rank || (seen & (1u << perm->v[i])))
      return accel__wrong(c, "perm is no permutation");
    seen |= 1u << perm->v[i];
    dims[i] = x->dim[perm->v[i]];
  }
  accel__result(c, 0, x->dtype, x->rank, dims, x->rank > 0 && perm->v[0] == 0 ? x->space : -1);
  return true;
}

/* One end of a slice as a dim from the front; a negative constant counts from the end. */
static bool slice_end(accel__infer *c, int key, accel__dim size, accel__dim *out) {
  uint32_t n;
  int64_t value;
  int32_t dims[ACCEL_PLUGIN_MAX_RANK];
  if (!dims_of(c, key, dims, &n)) return false;
  if (n != 1) return accel__wrong(c, "%s takes one dim", accel__attr_name(key));
  *out = accel__dim_value(c->p, dims[0], &value) && value < 0 ? plus(c, size, value) : dims[0];
  return true;
}

bool accel__shape_SLICE(accel__infer *c) {
  const accel_plugin_tensor *x = accel__operand_at(c, 0);
  uint32_t axis;
  accel__dim start, end;
  if (!accel__axis(c, accel__attr_int(c, ACCEL_PLUGIN_ATTR_AXIS, 0), x->rank, &axis)) return false;
  if (!slice_end(c, ACCEL_PLUGIN_ATTR_START, x->dim[axis], &start) ||
      !slice_end(c, ACCEL_PLUGIN_ATTR_END, x->dim[axis], &end))
    return false;
  int64_t step = accel__attr_int(c, ACCEL_PLUGIN_ATTR_STEP, 1), size, from = 0, to;
  if (step < 1) return accel__wrong(c, "step must be positive");
  bool known = accel__dim_value(c->p, end, &to) && accel__dim_value(c->p, x->dim[axis], &size) &&
               accel__dim_value(c->p, start, &from);
  if (known && (from < 0 || to <= from || to > size))
    return accel__wrong(c, "%lld..%lld is not inside 0..%lld", (long long)from, (long long)to,
                        (long long)size);
  int32_t dims[ACCEL_PLUGIN_MAX_RANK];
  memcpy(dims, x->dim, sizeof dims);
  accel__dim length = accel__dim_op(c->p, ACCEL_PLUGIN_DIM_SUB, end, start);
  dims[axis] = accel__dim_op(c->p, ACCEL_PLUGIN_DIM_CEILDIV, length, accel__const_dim(c->p, step));
  accel__result(c, 0, x->dtype, x->rank, dims, axis > 0 ? x->space : -1);
  return true;
}

bool accel__shape_BROADCAST(accel__infer *c) {
  const accel_plugin_tensor *x = accel__operand_at(c, 0);
  int32_t dims[ACCEL_PLUGIN_MAX_RANK];
  uint32_t rank;
  if (!dims_of(c, ACCEL_PLUGIN_ATTR_SHAPE, dims, &rank)) return false;
  if (rank < x->rank) return accel__wrong(c, "shape has fewer dims than x");
  for (uint32_t i = 0; i < x->rank; i++) {
    int64_t one;
    accel__dim from = x->dim[i], to = dims[rank - x->rank + i];
    if (accel__dim_value(c->p, from, &one) && one == 1) continue;
    if (!accel__dims_equal(c->p, from, to))
      return accel__wrong(c, "dim %u of x does not broadcast", i);
  }
  bool rows = rank > 0 && rank == x->rank && x->dim[0] == dims[0];
  accel__result(c, 0, x->dtype, rank, dims, rows ? x->space : -1);
  return true;
}

bool accel__shape_CONCAT(accel__infer *c) {
  const accel_plugin_tensor *first = accel__operand_at(c, 0);
  uint32_t axis;
  if (!accel__axis(c, accel__attr_int(c, ACCEL_PLUGIN_ATTR_AXIS, 0), first->rank, &axis))
    return false;
  int32_t dims[ACCEL_PLUGIN_MAX_RANK], space = axis > 0 ? first->space : -1;
  memcpy(dims, first->dim, sizeof dims);
  for (uint32_t i = 1; i < c->n_in; i++) {
    const accel_plugin_tensor *x = accel__operand_at(c, i);
    bool fits = x->rank == first->rank && x->dtype == first->dtype;
    for (uint32_t k = 0; fits && k < x->rank; k++)
      fits = k == axis || accel__dims_equal(c->p, x->dim[k], first->dim[k]);
    if (!fits) return accel__wrong(c, "operand %u does not fit the first off the axis", i);
    if (space >= 0 && x->space >= 0 && x->space != space)
      return accel__wrong(c, "the operands belong to different row spaces");
    dims[axis] = accel__dim_op(c->p, ACCEL_PLUGIN_DIM_ADD, dims[axis], x->dim[axis]);
  }
  accel__result(c, 0, first->dtype, first->rank, dims, space);
  return true;
}

bool accel__shape_PAD(accel__infer *c) {
  const accel_plugin_tensor *x = accel__operand_at(c, 0);
  const accel_plugin_attr *pads = accel__attr_at(c, ACCEL_PLUGIN_ATTR_PADS);
  if (pads == NULL || pads->n != 2u * x->rank)
    return accel__wrong(c, "pads needs two values per dim");
  int32_t dims[ACCEL_PLUGIN_MAX_RANK];
  for (uint32_t i = 0; i < x->rank; i++) {
    int64_t before = pads->v[i], after = pads->v[i + x->rank];
    if (before < 0 || after < 0 || before > INT32_MAX || after > INT32_MAX)
      return accel__wrong(c, "pads must not be negative");
    dims[i] = plus(c, x->dim[i], before + after);
  }
  bool rows = x->rank > 0 && dims[0] == x->dim[0];
  accel__result(c, 0, x->dtype, x->rank, dims, rows ? x->space : -1);
  return true;
}
