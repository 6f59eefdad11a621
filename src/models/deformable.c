/* deformable.c - multi-scale deformable attention as grid_sample reads maps: bilinear, zeros
 * outside, align_corners=False. */
#include "models/deformable.h"

static accel__tensor binary(accel__build *b, accel_plugin_binary kind, accel__tensor x,
                            accel__tensor y) {
  return accel__binary(b->p, kind, x, y);
}

/* x, whole numbers without a sign, as int32: in place of F32, which has them up to 2^24, or as a half
 * up to 2,048. */
static accel__tensor whole(accel__build *b, accel__tensor x) {
  return accel__cast(b, x, ACCEL_PLUGIN_I32);
}

accel__tensor accel__first_numbers(accel__build *b, accel__dim per_item) {
  return binary(b, ACCEL_PLUGIN_BINARY_MUL, whole(b, accel__count(b, b->B)),
                whole(b, accel__dim_number(b, per_item)));
}

/* Sizes of the maps as tensors [1,1,maps,1], and where each begins among the rows of an item, which
 * is returned. */
static accel__tensor number_sizes(accel__build *b, accel__deformable *c) {
  const accel__map_sizes *m = c->maps;
  const float zero = 0.0f;
  accel__dim one = accel__const_dim(b->p, 1), n = accel__const_dim(b->p, m->n);
  accel__tensor h[ACCEL__MAX_MAPS], w[ACCEL__MAX_MAPS], start[ACCEL__MAX_MAPS];
  start[0] = accel__constant_f32(b->p, "first_row", 1, (int64_t[]){1}, &zero);
  for (int64_t i = 0; i < m->n; i++) {
    h[i] = accel__dim_number(b, m->h[i]);
    w[i] = accel__dim_number(b, m->w[i]);
    if (i + 1 < m->n)
      start[i + 1] = binary(b, ACCEL_PLUGIN_BINARY_ADD, start[i],
                            binary(b, ACCEL_PLUGIN_BINARY_MUL, h[i], w[i]));
  }
  accel__tensor *const list[3] = {h, w, start};
  accel__tensor out[3];
  for (int k = 0; k < 3; k++) {
    out[k] = m->n > 1 ? accel__concat(b, 0, (uint32_t)m->n, list[k]) : list[k][0];
    out[k] = accel__reshape(b->p, out[k], 4, (accel__dim[]){one, one, n, one});
  }
  c->high = out[0], c->wide = out[1];
  return out[2];
}

/* One axis of the points: the pixel in front of each and how far behind it the point is. */
typedef struct axis {
  accel__tensor low, share, size;
} axis;

/* at: 0 to 1 across a map of `size` pixels.  What is further out reads zeros as well. */
static axis axis_of(accel__build *b, accel__tensor at, accel__tensor size) {
  accel__tensor x = accel__affine(b, binary(b, ACCEL_PLUGIN_BINARY_MUL, at, size), 1.0, -0.5);
  x = binary(b, ACCEL_PLUGIN_BINARY_MIN, accel__clamp(b, x, -2.0, 1e6),
             accel__affine(b, size, 1.0, 1.0));
  /* rounded down: what is cast is not negative */
  accel__tensor low = accel__cast(b, accel__affine(b, x, 1.0, 2.0), ACCEL_PLUGIN_I32);
  low = accel__affine(b, accel__cast(b, low, ACCEL_PLUGIN_F32), 1.0, -2.0);
  return (axis){low, binary(b, ACCEL_PLUGIN_BINARY_SUB, x, low), size};
}

/* The pixel at `step` (0 or 1) behind the one in front: its number kept inside the map, its weight, 0
 * outside. */
static void tap(accel__build *b, const axis *a, int step, accel__tensor *at,
                accel__tensor *weight) {
  accel__tensor x = accel__affine(b, a->low, 1.0, step);
  accel__tensor inside = accel__clamp(b, accel__affine(b, x, 1.0, 1.0), 0.0, 1.0);
  accel__tensor before = accel__clamp(b, binary(b, ACCEL_PLUGIN_BINARY_SUB, a->size, x), 0.0, 1.0);
  *weight = step ? a->share : accel__affine(b, a->share, -1.0, 1.0);
  *weight = binary(b, ACCEL_PLUGIN_BINARY_MUL, *weight,
                   binary(b, ACCEL_PLUGIN_BINARY_MUL, inside, before));
  *at = binary(b, ACCEL_PLUGIN_BINARY_MIN, accel__clamp(b, x, 0.0, 1e6),
               accel__affine(b, a->size, 1.0, -1.0));
}

/* Of x [B*queries, hidden]: weights [B*queries, heads, 1, maps*points]. */
static accel__tensor shares(accel__build *b, const accel__deformable *c, accel__tensor x,
                            accel__dim all, const char *path) {
  const int64_t each = c->maps->n * c->points;
  accel__attr last = ACCEL_I(AXIS, 3);
  x = accel__dense_layer(b, x, c->heads * each, true, -1, NULL, "%s.attention_weights", path);
  x = accel__reshape(b->p, x, 4,
                     (accel__dim[]){all, accel__const_dim(b->p, c->heads),
                                    accel__const_dim(b->p, 1), accel__const_dim(b->p, each)});
  return accel__node(b->p, ACCEL_PLUGIN_OP_SOFTMAX, &x, 1, &last, 1, NULL, 1);
}

/* Column k of boxes [B*queries, 4] as [B*queries, 1, 1, 1]. */
static accel__tensor side(accel__build *b, accel__tensor boxes, int64_t k, accel__dim all) {
  accel__dim one = accel__const_dim(b->p, 1);
  return accel__reshape(b->p, accel__slice(b->p, boxes, 1, k, k + 1), 4,
                        (accel__dim[]){all, one, one, one});
}

/* Offsets [B*queries, heads, maps, points] in shares of a box's sides: 1 / points, or what the
 * checkpoint stores for that (RT-DETR v2, rounded to its type), times the reach. */
static accel__tensor scaled(accel__build *b, const accel__deformable *c, accel__tensor x,
                            const char *path) {
  const int64_t each = c->maps->n * c->points;
  if (b->request->checkpoint == NULL || !accel__has(b, "%s.n_points_scale", path))
    return accel__affine(b, x, c->reach / (double)c->points, 0.0);
  accel__dim one = accel__const_dim(b->p, 1);
  accel__tensor scale =
      accel__table(b, 1, &each, accel__arena_printf(b->arena, "%s.n_points_scale", path));
  scale = accel__reshape(b->p, scale, 4,
                         (accel__dim[]){one, one, accel__const_dim(b->p, c->maps->n),
                                        accel__const_dim(b->p, c->points)});
  return accel__affine(b, binary(b, ACCEL_PLUGIN_BINARY_MUL, x, scale), c->reach, 0.0);
}

/* Where the points are, 0 to 1: axis 0 across, 1 down; [B*queries, heads, maps, points]. */
static accel__tensor places(accel__build *b, const accel__deformable *c, accel__tensor offsets,
                            accel__tensor boxes, accel__dim all, int64_t k, const char *path) {
  accel__tensor x = accel__slice(b->p, offsets, 4, k, k + 1);
  x = accel__reshape(
      b->p, x, 4,
      (accel__dim[]){all, accel__const_dim(b->p, c->heads), accel__const_dim(b->p, c->maps->n),
                     accel__const_dim(b->p, c->points)});
  x = scaled(b, c, x, path);
  x = binary(b, ACCEL_PLUGIN_BINARY_MUL, x, side(b, boxes, 2 + k, all));
  return binary(b, ACCEL_PLUGIN_BINARY_ADD, x, side(b, boxes, k, all));
}

/* Number of the first row of values of each query's item, head and map: int32 [B*queries, heads,
 * maps, 1], rows being [B*rows*heads, columns of a head]. */
static accel__tensor first_rows(accel__build *b, const accel__deformable *c, accel__tensor start) {
  accel__program *p = b->p;
  accel__dim one = accel__const_dim(p, 1), heads = accel__const_dim(p, c->heads),
             all = accel__times(b, b->B, c->queries);
  accel__tensor item =
      accel__reshape(p, accel__first_numbers(b, c->rows), 2, (accel__dim[]){b->B, one});
  item = accel__broadcast(b, item, 2, (accel__dim[]){b->B, c->queries});
  item = accel__reshape(p, item, 4, (accel__dim[]){all, one, one, one});
  item = binary(b, ACCEL_PLUGIN_BINARY_ADD, item, whole(b, start));
  accel__tensor head = whole(b, accel__count(b, heads));
  head = accel__reshape(p, head, 4, (accel__dim[]){one, heads, one, one});
  return binary(b, ACCEL_PLUGIN_BINARY_ADD, binary(b, ACCEL_PLUGIN_BINARY_MUL, item, c->rows_apart),
                head);
}

void accel__deformable_begin(accel__build *b, accel__deformable *c) {
  const int32_t heads = (int32_t)c->heads;
  const accel__tensor start = number_sizes(b, c);
  c->rows_apart = accel__constant_i32(b->p, "heads", 1, (const int64_t[]){1}, &heads);
  c->lines_apart = binary(b, ACCEL_PLUGIN_BINARY_MUL, whole(b, c->wide), c->rows_apart);
  c->first = first_rows(b, c, start);
}

/* The four pixels around each point: numbers of their rows of values, int32, and their weights
 * times `share`; each [B*queries, heads, 1, maps*points]. */
static void corners(accel__build *b, const accel__deformable *c, const axis *across,
                    const axis *down, accel__tensor share, const accel__dim dims[4],
                    accel__tensor row[4], accel__tensor weight[4]) {
  accel__tensor x[2], y[2], wx[2], wy[2];
  const accel__dim around[4] = {dims[0], dims[1], accel__const_dim(b->p, c->maps->n),
                                accel__const_dim(b->p, c->points)};
  share = accel__reshape(b->p, share, 4, around);
  for (int i = 0; i < 2; i++) {
    tap(b, across, i, &x[i], &wx[i]);
    tap(b, down, i, &y[i], &wy[i]);
    wx[i] = binary(b, ACCEL_PLUGIN_BINARY_MUL, wx[i], share);
    x[i] = binary(b, ACCEL_PLUGIN_BINARY_MUL, whole(b, x[i]), c->rows_apart);
    y[i] = binary(b, ACCEL_PLUGIN_BINARY_MUL, whole(b, y[i]), c->lines_apart);
    y[i] = binary(b, ACCEL_PLUGIN_BINARY_ADD, y[i], c->first);
  }
  for (int k = 0; k < 4; k++) {
    row[k] = accel__reshape(b->p, binary(b, ACCEL_PLUGIN_BINARY_ADD, y[k >> 1], x[k & 1]), 4, dims);
    weight[k] =
        accel__reshape(b->p, binary(b, ACCEL_PLUGIN_BINARY_MUL, wx[k & 1], wy[k >> 1]), 4, dims);
  }
}

accel__tensor accel__deformable_attend(accel__build *b, const accel__deformable *c, accel__tensor x,
                                       accel__tensor memory, accel__tensor boxes,
                                       const char *path) {
  accel__program *p = b->p;
  const int64_t n = c->maps->n, each = n * c->points, d = c->hidden / c->heads;
  accel__dim all = accel__times(b, b->B, c->queries), heads = accel__const_dim(p, c->heads),
             one = accel__const_dim(p, 1), points = accel__const_dim(p, each),
             width = accel__const_dim(p, d);
  accel__tensor offsets =
      accel__dense_layer(b, x, c->heads * each * 2, true, -1, NULL, "%s.sampling_offsets", path);
  offsets = accel__reshape(p, offsets, 5,
                           (accel__dim[]){all, heads, accel__const_dim(p, n),
                                          accel__const_dim(p, c->points), accel__const_dim(p, 2)});
  const axis across = axis_of(b, places(b, c, offsets, boxes, all, 0, path), c->wide),
             down = axis_of(b, places(b, c, offsets, boxes, all, 1, path), c->high);
  accel__tensor row[4], weight[4];
  corners(b, c, &across, &down, shares(b, c, x, all, path), (accel__dim[]){all, heads, one, points},
          row, weight);
  accel__tensor values =
      accel__dense_layer(b, memory, c->hidden, true, -1, NULL, "%s.value_proj", path);
  values = accel__reshape(
      p, values, 2, (accel__dim[]){accel__times(b, accel__times(b, b->B, c->rows), heads), width});
  accel__dim four = accel__const_dim(p, 4 * each),
             many = accel__times(b, accel__times(b, all, heads), four);
  accel__tensor idx = accel__reshape(p, accel__concat(b, 3, 4, row), 1, &many);
  /* weights before the rows that they are for: a backend may sum rows up as it reads them */
  accel__tensor in[2] = {accel__concat(b, 3, 4, weight)};
  in[1] =
      accel__reshape(p, accel__gather(p, values, idx), 4, (accel__dim[]){all, heads, four, width});
  x = accel__node(p, ACCEL_PLUGIN_OP_MATMUL, in, 2, NULL, 0, NULL, 1);
  x = accel__reshape(p, x, 2, (accel__dim[]){all, accel__const_dim(p, c->hidden)});
  return accel__dense_layer(b, x, c->hidden, true, -1, NULL, "%s.output_proj", path);
}
