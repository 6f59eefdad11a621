/* vision.c - layers that models of images and sounds share. */
#include "modeling/vision.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

enum { NAME_BYTES = 320 };

#define FORMAT_NAME(name)                       \
  char name[NAME_BYTES];                        \
  do {                                          \
    va_list args;                               \
    va_start(args, format);                     \
    vsnprintf(name, sizeof name, format, args); \
    va_end(args);                               \
  } while (0)

/* ---- tensors ---- */

accel__dim accel__times(accel__build *b, accel__dim a, accel__dim c) {
  return accel__dim_op(b->p, ACCEL_PLUGIN_DIM_MUL, a, c);
}

/* What the config says of its pictures, at its root or that of its vision tower: only what is
 * planned for depends on it. */
static accel__size2 typical_picture(const accel__build *b) {
  const accel__json *vision = accel__json_get(b->file->root, "vision_config"),
                    *field = accel__json_get(vision != NULL ? vision : b->file->root, "image_size");
  const accel__json *h = cJSON_IsArray(field) ? field->child : field,
                    *w = cJSON_IsArray(field) && h ? h->next : h;
  if (b->images.typical_size[0] > 0)
    return (accel__size2){b->images.typical_size[0], b->images.typical_size[1]};
  const bool both = cJSON_IsNumber(h) && cJSON_IsNumber(w) && h->valuedouble >= 1 &&
                    w->valuedouble >= 1 && h->valuedouble <= ACCEL__MAX_WIDTH &&
                    w->valuedouble <= ACCEL__MAX_WIDTH;
  return both ? (accel__size2){h->valueint, w->valueint} : (accel__size2){224, 224};
}

accel__tensor accel__add_pixels(accel__build *b, int64_t channels, const accel__size2 *size) {
  const accel__size2 usual = typical_picture(b);
  b->B = accel__symbol(b->p, b->input_ids >= 0 ? "images" : "B", 1, 0, 1);
  accel__dim dims[4] = {b->B, accel__const_dim(b->p, channels)};
  dims[2] = size != NULL ? accel__const_dim(b->p, size->h)
                         : accel__symbol(b->p, "H", 1, ACCEL__MAX_WIDTH, usual.h);
  dims[3] = size != NULL ? accel__const_dim(b->p, size->w)
                         : accel__symbol(b->p, "W", 1, ACCEL__MAX_WIDTH, usual.w);
  return accel__add_item(b, "pixel_values", ACCEL_PLUGIN_F32, 4, dims, ACCEL__DEFAULT_REQUIRED);
}

accel__tensor accel__table(accel__build *b, uint32_t rank, const int64_t *dims, const char *name) {
  return accel__weight_at(b, ACCEL_PLUGIN_USE_PLAIN, rank, dims, name);
}

/* One convolution node with weights already there. */
static accel__tensor convolve(accel__build *b, accel__tensor x, const accel__conv *c,
                              accel__tensor w, accel__tensor bias) {
  int64_t stride[2] = {c->stride.h > 0 ? c->stride.h : 1, c->stride.w > 0 ? c->stride.w : 1};
  int64_t dilation[2] = {c->dilation.h > 0 ? c->dilation.h : 1,
                         c->dilation.w > 0 ? c->dilation.w : 1};
  int64_t pads[4] = {c->pad.h, c->pad.w, c->pad.h, c->pad.w};
  bool fused = c->act != NULL && c->act->then == 0;
  accel__attr attr[6] = {ACCEL_IV(STRIDE, stride, 2), ACCEL_IV(PADS, pads, 4),
                         ACCEL_IV(DILATION, dilation, 2),
                         ACCEL_I(GROUPS, c->groups > 0 ? c->groups : 1)};
  uint32_t n = 4;
  if (fused) attr[n++] = ACCEL_I(ACT, c->act->act);
  if (fused && c->act->alpha != 0) attr[n++] = ACCEL_F(ACT_ALPHA, c->act->alpha);
  accel__tensor in[4] = {x, w, bias, c->residual > 0 ? c->residual : -1};
  accel__tensor y = accel__node(b->p, ACCEL_PLUGIN_OP_CONV, in, 4, attr, n, NULL, 1);
  return c->act != NULL && !fused ? accel__activate(b, y, c->act) : y;
}

static int64_t channels_of(accel__build *b, accel__tensor x) {
  int64_t n = 0;
  return accel__dim_value(b->p, accel__tensor_dim(b->p, x, 1), &n) ? n : 0;
}

accel__tensor accel__conv2d(accel__build *b, accel__tensor x, const accel__conv *c,
                            const char *format, ...) {
  FORMAT_NAME(name);
  char full[NAME_BYTES + 16];
  int64_t groups = c->groups > 0 ? c->groups : 1,
          dims[4] = {c->out, channels_of(b, x) / groups, c->kernel.h, c->kernel.w};
  snprintf(full, sizeof full, "%s.weight", name);
  accel__tensor w = accel__weight_at(b, ACCEL_PLUGIN_USE_CONV, 4, dims, full), bias = -1;
  snprintf(full, sizeof full, "%s.bias", name);
  if (c->bias) bias = accel__weight_at(b, ACCEL_PLUGIN_USE_PLAIN, 1, &c->out, full);
  return convolve(b, x, c, w, bias);
}

accel__tensor accel__conv2d_up(accel__build *b, accel__tensor x, int64_t out, int64_t kernel,
                               const char *name) {
  char full[NAME_BYTES];
  const int64_t dims[4] = {channels_of(b, x), out, kernel, kernel}, step[2] = {kernel, kernel};
  snprintf(full, sizeof full, "%s.weight", name);
  accel__tensor in[3] = {x, accel__weight_at(b, ACCEL_PLUGIN_USE_CONV, 4, dims, full)};
  snprintf(full, sizeof full, "%s.bias", name);
  in[2] = accel__weight_at(b, ACCEL_PLUGIN_USE_PLAIN, 1, &out, full);
  accel__attr attr = ACCEL_IV(STRIDE, step, 2);
  return accel__node(b->p, ACCEL_PLUGIN_OP_CONV_TRANSPOSE, in, 3, &attr, 1, NULL, 1);
}

accel__tensor accel__resize_linear(accel__build *b, accel__tensor x, accel__dim h, accel__dim w,
                                   bool align_corners) {
  const int64_t shape[2] = {h, w};
  if (x < 0 || (accel__tensor_dim(b->p, x, 2) == h && accel__tensor_dim(b->p, x, 3) == w)) return x;
  accel__attr attr[] = {ACCEL_I(KIND, ACCEL_PLUGIN_RESIZE_LINEAR), ACCEL_D(SHAPE, shape, 2),
                        ACCEL_I(ALIGN_CORNERS, align_corners)};
  return accel__node(b->p, ACCEL_PLUGIN_OP_RESIZE, &x, 1, attr, 3, NULL, 1);
}

accel__tensor accel__conv1d_by(accel__build *b, accel__tensor x, const accel__conv1 *c,
                               accel__tensor w, accel__tensor bias, int32_t space) {
  int64_t stride = c->stride > 0 ? c->stride : 1, pads[2] = {c->before, c->after};
  bool fused = c->act != NULL && c->act->then == 0;
  accel__attr attr[7] = {ACCEL_IV(STRIDE, &stride, 1), ACCEL_IV(PADS, pads, 2),
                         ACCEL_I(GROUPS, c->groups > 0 ? c->groups : 1)};
  const accel__tensor in[4] = {x, w, bias, c->residual > 0 ? c->residual : -1};
  uint32_t n = 3;
  if (c->dilation > 1) attr[n++] = ACCEL_IV(DILATION, &c->dilation, 1);
  if (space >= 0) attr[n++] = ACCEL_I(SPACE, space);
  if (fused) attr[n++] = ACCEL_I(ACT, c->act->act);
  if (fused && c->act->alpha != 0) attr[n++] = ACCEL_F(ACT_ALPHA, c->act->alpha);
  accel__tensor y =
      accel__node(b->p, ACCEL_PLUGIN_OP_CONV, in, in[3] < 0 ? 3 : 4, attr, n, NULL, 1);
  return c->act != NULL && !fused ? accel__activate(b, y, c->act) : y;
}

accel__tensor accel__conv1d(accel__build *b, accel__tensor x, const accel__conv1 *c,
                            const char *format, ...) {
  FORMAT_NAME(name);
  char full[NAME_BYTES + 16];
  int64_t dims[3] = {c->out, channels_of(b, x) / (c->groups > 0 ? c->groups : 1), c->kernel};
  snprintf(full, sizeof full, "%s.weight", name);
  accel__tensor w = accel__weight_at(b, ACCEL_PLUGIN_USE_CONV, 3, dims, full), bias = -1;
  snprintf(full, sizeof full, "%s.bias", name);
  if (c->bias) bias = accel__weight_at(b, ACCEL_PLUGIN_USE_PLAIN, 1, &c->out, full);
  return accel__conv1d_by(b, x, c, w, bias, -1);
}

accel__tensor accel__group_norm(accel__build *b, accel__tensor x, int64_t groups, double eps,
                                const char *name) {
  char full[NAME_BYTES];
  int64_t n = channels_of(b, x);
  snprintf(full, sizeof full, "%s.weight", name);
  accel__tensor gamma = accel__table(b, 1, &n, full), beta;
  snprintf(full, sizeof full, "%s.bias", name);
  beta = accel__table(b, 1, &n, full);
  accel__attr attr[] = {ACCEL_I(GROUPS, groups), ACCEL_F(EPS, eps)};
  return accel__node(b->p, ACCEL_PLUGIN_OP_GROUP_NORM, (accel__tensor[]){x, gamma, beta}, 3, attr,
                     2, NULL, 1);
}

accel__tensor accel__transpose(accel__build *b, accel__tensor x, uint32_t rank,
                               const int64_t *perm) {
  accel__attr attr = ACCEL_IV(PERM, perm, rank);
  return accel__node(b->p, ACCEL_PLUGIN_OP_TRANSPOSE, &x, 1, &attr, 1, NULL, 1);
}

accel__tensor accel__planes_to_items(accel__build *b, accel__tensor x) {
  if (x < 0) return -1;
  accel__dim n = accel__times(b, accel__tensor_dim(b->p, x, 2), accel__tensor_dim(b->p, x, 3));
  x = accel__reshape(
      b->p, x, 3, (accel__dim[]){accel__tensor_dim(b->p, x, 0), accel__tensor_dim(b->p, x, 1), n});
  return accel__transpose(b, x, 3, (int64_t[]){0, 2, 1});
}

accel__tensor accel__items_to_rows(accel__build *b, accel__tensor x, const char *space) {
  if (x < 0) return -1;
  accel__dim items = accel__tensor_dim(b->p, x, 0), n = accel__tensor_dim(b->p, x, 1);
  b->space = accel__space_fixed(b->p, space, n, items);
  return accel__reshape(b->p, x, 2,
                        (accel__dim[]){accel__times(b, items, n), accel__tensor_dim(b->p, x, 2)});
}

accel__tensor accel__rows_to_items(accel__build *b, accel__tensor x, accel__dim per_item) {
  if (x < 0) return -1;
  return accel__reshape(b->p, x, 3, (accel__dim[]){b->B, per_item, accel__tensor_dim(b->p, x, 1)});
}

accel__tensor accel__join_patches(accel__build *b, accel__tensor x, accel__dim items,
                                  accel__dim groups, int64_t n) {
  if (x < 0) return -1;
  const int64_t columns = accel__columns(b, x);
  accel__dim each = accel__const_dim(b->p, n), line = accel__const_dim(b->p, n * columns);
  x = accel__reshape(b->p, x, 5, (accel__dim[]){items, groups, each, groups, line});
  x = accel__transpose(b, x, 5, (int64_t[]){0, 1, 3, 2, 4});
  return accel__reshape(b->p, x, 3,
                        (accel__dim[]){items, accel__times(b, groups, groups),
                                       accel__const_dim(b->p, n * n * columns)});
}

accel__tensor accel__items_to_planes(accel__build *b, accel__tensor x, accel__dim h, accel__dim w) {
  if (x < 0) return -1;
  accel__dim items = accel__tensor_dim(b->p, x, 0), c = accel__tensor_dim(b->p, x, 2);
  x = accel__transpose(b, x, 3, (int64_t[]){0, 2, 1});
  return accel__reshape(b->p, x, 4, (accel__dim[]){items, c, h, w});
}

accel__tensor accel__broadcast(accel__build *b, accel__tensor x, uint32_t rank,
                               const accel__dim *dims) {
  int64_t shape[ACCEL_PLUGIN_MAX_RANK];
  for (uint32_t i = 0; i < rank && i < ACCEL_PLUGIN_MAX_RANK; i++) shape[i] = dims[i];
  accel__attr attr = ACCEL_D(SHAPE, shape, rank);
  return accel__node(b->p, ACCEL_PLUGIN_OP_BROADCAST, &x, 1, &attr, 1, NULL, 1);
}

accel__tensor accel__repeat(accel__build *b, accel__tensor table, accel__dim items) {
  if (table < 0) return -1;
  accel__dim dims[3] = {items, accel__tensor_dim(b->p, table, 1),
                        accel__tensor_dim(b->p, table, 2)};
  return accel__broadcast(b, table, 3, dims);
}

accel__tensor accel__concat(accel__build *b, int64_t axis, uint32_t n, const accel__tensor *parts) {
  accel__attr attr = ACCEL_I(AXIS, axis);
  return accel__node(b->p, ACCEL_PLUGIN_OP_CONCAT, parts, n, &attr, 1, NULL, 1);
}

accel__tensor accel__slice_dims(accel__build *b, accel__tensor x, int64_t axis, accel__dim start,
                                accel__dim end) {
  int64_t from = start, to = end;
  accel__attr attr[] = {ACCEL_I(AXIS, axis), ACCEL_D(START, &from, 1), ACCEL_D(END, &to, 1)};
  return accel__node(b->p, ACCEL_PLUGIN_OP_SLICE, &x, 1, attr, 3, NULL, 1);
}

accel__tensor accel__resize_grid(accel__build *b, const accel__grid_table *t, accel__dim to_h,
                                 accel__dim to_w) {
  int64_t h, w, n = t->grid.h * t->grid.w;
  if (accel__dim_value(b->p, to_h, &h) && accel__dim_value(b->p, to_w, &w) && h == t->grid.h &&
      w == t->grid.w)
    return t->table;
  if (t->table < 0) return -1;
  accel__dim one = accel__const_dim(b->p, 1), c = accel__tensor_dim(b->p, t->table, 2),
             size[2] = {to_h, to_w};
  accel__tensor x = accel__slice(b->p, t->table, 1, t->before, t->before + n); /* [1,n,C] */
  x = accel__transpose(b, x, 3, (int64_t[]){0, 2, 1});
  x = accel__reshape(
      b->p, x, 4,
      (accel__dim[]){one, c, accel__const_dim(b->p, t->grid.h), accel__const_dim(b->p, t->grid.w)});
  int64_t shape[2] = {size[0], size[1]};
  accel__attr attr[] = {ACCEL_I(KIND, t->kind != 0 ? t->kind : ACCEL_PLUGIN_RESIZE_CUBIC),
                        ACCEL_D(SHAPE, shape, 2), ACCEL_I(ANTIALIAS, t->antialias)};
  x = accel__node(b->p, ACCEL_PLUGIN_OP_RESIZE, &x, 1, attr, 3, NULL, 1);
  accel__tensor part[3];
  uint32_t parts = 0;
  if (t->before > 0) part[parts++] = accel__slice(b->p, t->table, 1, 0, t->before);
  part[parts++] = accel__planes_to_items(b, x);
  if (t->after > 0)
    part[parts++] = accel__slice(b->p, t->table, 1, t->before + n, t->before + n + t->after);
  return parts == 1 ? part[0] : accel__concat(b, 1, parts, part);
}

accel__tensor accel__row_of_items(accel__build *b, accel__tensor x, accel__dim per_item,
                                  int64_t at) {
  if (at == 0) return accel__first_rows(b, x);
  x = accel__slice(b->p, accel__rows_to_items(b, x, per_item), 1, at, at + 1);
  return x < 0 ? -1
               : accel__reshape(b->p, x, 2, (accel__dim[]){b->B, accel__tensor_dim(b->p, x, 2)});
}

/* ---- rows picked, numbers counted ---- */

accel__tensor accel__reduce_last(accel__build *b, accel__tensor x) {
  accel__attr attr[] = {ACCEL_I(KIND, ACCEL_PLUGIN_REDUCE_LAST), ACCEL_I(AXIS, 0),
                        ACCEL_I(KEEP, 1)};
  return accel__node(b->p, ACCEL_PLUGIN_OP_REDUCE, &x, 1, attr, 3, NULL, 1);
}

accel__tensor accel__affine(accel__build *b, accel__tensor x, double factor, double offset) {
  accel__attr attr[] = {ACCEL_I(KIND, ACCEL_PLUGIN_UNARY_AFFINE), ACCEL_F(ALPHA, factor),
                        ACCEL_F(BETA, offset)};
  return accel__node(b->p, ACCEL_PLUGIN_OP_UNARY, &x, 1, attr, 3, NULL, 1);
}

accel__tensor accel__clamp(accel__build *b, accel__tensor x, double low, double high) {
  accel__attr attr[] = {ACCEL_I(KIND, ACCEL_PLUGIN_UNARY_CLAMP), ACCEL_F(ALPHA, low),
                        ACCEL_F(BETA, high)};
  return accel__node(b->p, ACCEL_PLUGIN_OP_UNARY, &x, 1, attr, 3, NULL, 1);
}

accel__tensor accel__cast(accel__build *b, accel__tensor x, accel_plugin_dtype dtype) {
  accel__attr attr = ACCEL_I(DTYPE, dtype);
  return accel__node(b->p, ACCEL_PLUGIN_OP_CAST, &x, 1, &attr, 1, NULL, 1);
}

accel__tensor accel__optional_embedding(accel__build *b, accel__tensor one_more, int64_t rows,
                                        int64_t width, const char *name) {
  accel__tensor id = accel__clamp(b, accel__affine(b, one_more, 1.0, -1.0), 0.0, (double)rows);
  accel__tensor there = accel__clamp(b, one_more, 0.0, 1.0);
  there = accel__reshape(b->p, there, 2, (accel__dim[]){b->T, accel__const_dim(b->p, 1)});
  accel__tensor x = accel__embedding(b, accel__cast(b, id, ACCEL_PLUGIN_I32), rows, width, name);
  return accel__binary(b->p, ACCEL_PLUGIN_BINARY_MUL, x, there);
}

accel__tensor accel__unit_rows(accel__build *b, accel__tensor x) {
  accel__attr l2[] = {ACCEL_I(NORM_KIND, ACCEL_PLUGIN_NORM_L2), ACCEL_F(EPS, 1e-30)};
  return accel__node(b->p, ACCEL_PLUGIN_OP_NORM, &x, 1, l2, 2, NULL, 1);
}

accel__tensor accel__scalar(accel__build *b, const char *name) {
  const int64_t one = 1;
  return accel__table(b, 1, &one, name);
}

/* The recurrence h = h + x over the n columns of each row, as a scan without decay. */
accel__tensor accel__cumsum(accel__build *b, accel__tensor x) {
  accel__program *p = b->p;
  if (x < 0) return -1;
  const float values[2] = {1.0f, 0.0f};
  accel__dim rows = accel__tensor_dim(p, x, 0), n = accel__tensor_dim(p, x, 1),
             one = accel__const_dim(p, 1), all = accel__times(b, rows, n);
  accel__tensor ones = accel__constant_f32(p, "one", 2, (int64_t[]){1, 1}, &values[0]);
  accel__tensor rate = accel__constant_f32(p, "no_decay", 2, (int64_t[]){1, 1}, &values[1]);
  ones = accel__broadcast(b, ones, 2, (accel__dim[]){all, one});
  accel__attr attr[] = {ACCEL_I(VERSION, 1),
                        ACCEL_I(SPACE, accel__space_fixed(p, "sums", n, rows))};
  accel__tensor in[5] = {accel__reshape(p, x, 2, (accel__dim[]){all, one}), ones, rate, ones, ones};
  x = accel__node(p, ACCEL_PLUGIN_OP_SELECTIVE_SCAN, in, 5, attr, 2, NULL, 1);
  return accel__reshape(p, x, 2, (accel__dim[]){rows, n});
}

accel__tensor accel__count(accel__build *b, accel__dim n) {
  const float value = 1.0f;
  accel__tensor one = accel__constant_f32(b->p, "one", 2, (int64_t[]){1, 1}, &value);
  /* 1 .. n */
  accel__tensor sum =
      accel__cumsum(b, accel__broadcast(b, one, 2, (accel__dim[]){accel__const_dim(b->p, 1), n}));
  return accel__affine(b, accel__reshape(b->p, sum, 1, &n), 1.0, -1.0);
}

accel__tensor accel__dim_number(accel__build *b, accel__dim n) {
  return accel__affine(b, accel__reduce_last(b, accel__count(b, n)), 1.0, 1.0);
}

/* 1 where the id is `token`, else 0: F32 like input_ids. */
static accel__tensor is_token(accel__build *b, int64_t token) {
  accel__tensor away =
      accel__affine(b, accel__cast(b, b->input_ids, ACCEL_PLUGIN_F32), 1.0, -(double)token);
  return accel__affine(
      b, accel__clamp(b, accel__unary(b->p, ACCEL_PLUGIN_UNARY_ABS, away), 0.0, 1.0), -1.0, 1.0);
}

accel__aside accel__step_aside(accel__build *b) {
  const accel__aside kept = {
      .items = b->B, .space = b->space, .position_ids = b->position_ids, .in_head = b->in_head};
  b->in_head = true;
  return kept;
}

void accel__back_from(accel__build *b, const accel__aside *kept) {
  b->B = kept->items;
  b->space = kept->space;
  b->position_ids = kept->position_ids;
  b->in_head = kept->in_head;
}

/* The row of `rows` that belongs to each token, any where it belongs to none; *here [T,1]: 1 where
 * input_ids is `token`, else 0. */
static accel__tensor rows_of_token(accel__build *b, accel__tensor rows, int64_t token,
                                   accel__tensor *here) {
  accel__program *p = b->p;
  accel__dim one = accel__const_dim(p, 1);
  *here = is_token(b, token); /* [T] */
  accel__tensor nth = accel__cumsum(b, accel__reshape(p, *here, 2, (accel__dim[]){one, b->T}));
  nth = accel__clamp(b, accel__affine(b, accel__reshape(p, nth, 1, &b->T), 1.0, -0.5), 0.0,
                     1e9); /* row + 1/2, cut to the row */
  *here = accel__reshape(p, *here, 2, (accel__dim[]){b->T, one});
  return accel__gather(p, rows, accel__cast(b, nth, ACCEL_PLUGIN_I32));
}

/* Which of the rows that pictures put into the text these are. */
static uint32_t number_of(accel__build *b, accel__tensor rows) {
  accel__build_images *images = &b->images;
  uint32_t i = 0;
  while (i < images->n_rows && images->rows[i] != rows) i++;
  if (i == images->n_rows && i < ACCEL__MAX_PICTURE_ROWS) images->rows[images->n_rows++] = rows;
  return i;
}

/* x with the rows that entry "decode_image" is given in place of `rows`, set or added. */
static accel__tensor given_rows(accel__build *b, accel__tensor x, accel__tensor rows, bool add) {
  const accel__build_images *images = &b->images;
  const int64_t columns = accel__columns(b, rows), first = number_of(b, rows) * columns;
  accel__tensor in[3] = {x, images->given_at, images->given};
  if (images->n_rows > 1) in[2] = accel__slice(b->p, in[2], 1, first, first + columns);
  accel__attr mode = ACCEL_I(SCATTER_MODE, add);
  return accel__node(b->p, ACCEL_PLUGIN_OP_SCATTER_ROWS, in, 3, &mode, 1, NULL, 1);
}

accel__tensor accel__put_rows(accel__build *b, accel__tensor x, accel__tensor rows, int64_t token) {
  if (rows < 0) return -1;
  if (b->images.given >= 0) return given_rows(b, x, rows, false);
  number_of(b, rows);
  accel__tensor here, row = rows_of_token(b, rows, token, &here);
  accel__attr where = ACCEL_I(KIND, ACCEL_PLUGIN_BINARY_WHERE);
  return accel__node(b->p, ACCEL_PLUGIN_OP_BINARY, (accel__tensor[]){here, row, x}, 3, &where, 1,
                     NULL, 1);
}

accel__tensor accel__show_rows(accel__build *b, accel__tensor x, accel__tensor *features,
                               int64_t token, accel__tensor (*look)(accel__build *b, void *user),
                               void *user) {
  if (*features < 0) {
    const accel__aside kept = accel__step_aside(b);
    *features = look(b, user);
    accel__back_from(b, &kept);
  }
  return accel__put_rows(b, x, *features, token);
}

accel__tensor accel__plus_rows(accel__build *b, accel__tensor x, accel__tensor rows,
                               int64_t token) {
  if (rows < 0) return -1;
  if (b->images.given >= 0) return given_rows(b, x, rows, true);
  number_of(b, rows);
  accel__tensor here, row = rows_of_token(b, rows, token, &here);
  row = accel__binary(b->p, ACCEL_PLUGIN_BINARY_MUL, row, here);
  return accel__binary(b->p, ACCEL_PLUGIN_BINARY_ADD, x, row);
}

accel__tensor accel__rows_at(accel__build *b, accel__tensor x, accel__tensor at) {
  if (x < 0 || at < 0) return -1;
  accel__tensor first =
      accel__reduce_rows(b->p, ACCEL_PLUGIN_REDUCE_FIRST,
                         accel__count(b, accel__tensor_dim(b->p, x, 0)), -1, b->space);
  accel__tensor row =
      accel__binary(b->p, ACCEL_PLUGIN_BINARY_ADD, first, accel__cast(b, at, ACCEL_PLUGIN_F32));
  return accel__gather(b->p, x, accel__cast(b, accel__affine(b, row, 1.0, 0.5), ACCEL_PLUGIN_I32));
}

/* ---- blocks ---- */

/* y scaled by <path>.<name> [C], if any, plus x. */
static accel__tensor add_scaled(accel__build *b, accel__tensor x, accel__tensor y, const char *path,
                                const char *name) {
  char full[NAME_BYTES + 64];
  int64_t n = accel__columns(b, x);
  snprintf(full, sizeof full, "%s.%s", path, name);
  y = accel__binary(b->p, ACCEL_PLUGIN_BINARY_MUL, y, accel__table(b, 1, &n, full));
  return accel__binary(b->p, ACCEL_PLUGIN_BINARY_ADD, y, x);
}

static accel__tensor projection(accel__build *b, const accel__block *c, accel__tensor x,
                                const char *path, uint32_t part) {
  const char *const name[3] = {c->q, c->k, c->v};
  int64_t width = c->head_dim > 0 ? c->head_dim * c->heads : c->hidden;
  if (c->k == NULL)
    return accel__dense_rows(b, x, width, c->qkv_bias, part, 3, "%s.%s", path, c->q);
  const bool without[3] = {c->no_q_bias, c->no_k_bias, c->no_v_bias},
             bias = c->qkv_bias && !without[part];
  return accel__dense_layer(b, x, width, bias, -1, NULL, "%s.%s", path, name[part]);
}

/* act(first half) * second half of <path>.<fused_gate> [2*inner, hidden] */
static accel__tensor gate_first(accel__build *b, const accel__block *c, accel__tensor x,
                                const char *path) {
  char name[NAME_BYTES + 64];
  const int64_t dims[2] = {2 * c->inner, c->hidden};
  snprintf(name, sizeof name, "%s.%s.weight", path, c->fused_gate);
  accel__tensor in[3] = {x, accel__weight_at(b, ACCEL_PLUGIN_USE_LINEAR, 2, dims, name)};
  snprintf(name, sizeof name, "%s.%s.bias", path, c->fused_gate);
  in[2] = accel__weight_at(b, ACCEL_PLUGIN_USE_PLAIN, 1, dims, name);
  accel__attr attr[] = {ACCEL_I(ACT, c->act.act), ACCEL_I(GLU, ACCEL_PLUGIN_GLU_GATE_FIRST)};
  return accel__node(b->p, ACCEL_PLUGIN_OP_LINEAR, in, 3, attr, 2, NULL, 1);
}

static accel__tensor pre_norm(accel__build *b, const accel__block *c, accel__tensor x,
                              const char *path, const char *name) {
  return c->rms ? accel__rms_layer(b, x, c->eps, 0.0, "%s.%s", path, name)
                : accel__norm_layer(b, x, -1, c->eps, true, "%s.%s", path, name);
}

accel__tensor accel__pre_norm_block(accel__build *b, const accel__block *c, accel__tensor x,
                                    const char *format, ...) {
  FORMAT_NAME(path);
  accel__tensor y = pre_norm(b, c, x, path, c->norm1);
  accel__tensor q = projection(b, c, y, path, 0), k = projection(b, c, y, path, 1),
                v = projection(b, c, y, path, 2);
  if (c->q_norm != NULL) q = accel__rms_layer(b, q, 1e-6, 0.0, "%s.%s", path, c->q_norm);
  if (c->k_norm != NULL) k = accel__rms_layer(b, k, 1e-6, 0.0, "%s.%s", path, c->k_norm);
  if (c->rope != NULL) {
    q = accel__rope_rows(b, q, c->rope);
    k = accel__rope_rows(b, k, c->rope);
  }
  accel__attention a = accel__attention_of(b, c->heads);
  a.scale = c->scale;
  a.causal = c->causal;
  if (c->mask > 0) a.mask = c->mask;
  y = accel__attend(b, q, k, v, &a);
  y = accel__dense_layer(b, y, c->hidden, c->o_bias, c->scale1 == NULL ? x : -1, NULL, "%s.%s",
                         path, c->o);
  x = c->scale1 == NULL ? y : add_scaled(b, x, y, path, c->scale1);
  y = pre_norm(b, c, x, path, c->norm2);
  if (c->fused_gate != NULL &&
      (b->request->checkpoint == NULL || !accel__has(b, "%s.%s.weight", path, c->gate)))
    y = gate_first(b, c, y, path);
  else if (c->gate != NULL)
    y = accel__gated_layer(b, y, c->inner, !c->no_mlp_bias, &c->act, path, c->gate, c->up);
  else
    y = accel__dense_layer(b, y, c->inner, !c->no_mlp_bias, -1, &c->act, "%s.%s", path, c->up);
  y = accel__dense_layer(b, y, c->hidden, !c->no_mlp_bias, c->scale2 == NULL ? x : -1, NULL,
                         "%s.%s", path, c->down);
  return c->scale2 == NULL ? y : add_scaled(b, x, y, path, c->scale2);
}

/* ---- heads and outputs ---- */

accel__tensor accel__masked_rows(accel__build *b, accel__tensor x, uint32_t rank,
                                 const char *name) {
  if (x < 0) return -1;
  accel__dim n = accel__tensor_dim(b->p, x, 1);
  int64_t c = 0, dims[3] = {1, 1, 1};
  if (!accel__dim_value(b->p, accel__tensor_dim(b->p, x, 2), &c)) return -1;
  dims[rank - 1] = c;
  accel__tensor mask = accel__add_item(b, "bool_masked_pos", ACCEL_PLUGIN_I32, 2,
                                       (accel__dim[]){b->B, n}, ACCEL__DEFAULT_ZEROS);
  mask = accel__reshape(b->p, mask, 3, (accel__dim[]){b->B, n, accel__const_dim(b->p, 1)});
  accel__tensor in[3] = {mask, accel__table(b, rank, dims, name), x};
  accel__attr where = ACCEL_I(KIND, ACCEL_PLUGIN_BINARY_WHERE);
  return accel__node(b->p, ACCEL_PLUGIN_OP_BINARY, in, 3, &where, 1, NULL, 1);
}

void accel__output_pixels(accel__build *b, accel__tensor x, accel__dim h, accel__dim w,
                          int64_t channels, int64_t stride) {
  accel__program *p = b->p;
  accel__dim s = accel__const_dim(p, stride), c = accel__const_dim(p, channels);
  if (x < 0) return;
  const accel__conv decoder = {.out = channels * stride * stride, .kernel = {1, 1}, .bias = true};
  accel__dim width = accel__tensor_dim(p, x, 2);
  x = accel__transpose(b, x, 3, (int64_t[]){0, 2, 1});
  x = accel__conv2d(b, accel__reshape(p, x, 4, (accel__dim[]){b->B, width, h, w}), &decoder,
                    "decoder.0");
  x = accel__reshape(p, x, 6, (accel__dim[]){b->B, c, s, s, h, w});
  x = accel__transpose(b, x, 6, (int64_t[]){0, 1, 4, 2, 5, 3});
  x = accel__reshape(p, x, 4,
                     (accel__dim[]){b->B, c, accel__times(b, h, s), accel__times(b, w, s)});
  accel__add_output(b, "reconstruction", x, 0);
}

accel__tensor accel__mlp_head(accel__build *b, accel__tensor x, int64_t out, const char *name) {
  static const accel__activation relu = {.act = ACCEL_PLUGIN_ACT_RELU};
  int64_t hidden = accel__columns(b, x);
  for (uint32_t i = 0; i < 3; i++)
    x = accel__dense_layer(b, x, i < 2 ? hidden : out, true, -1, i < 2 ? &relu : NULL,
                           "%s.layers.%u", name, i);
  return x;
}

accel__tensor accel__weighted_states(accel__build *b, const accel__tensor *states, int64_t n,
                                     accel__tensor weights) {
  accel__attr axis = ACCEL_I(AXIS, 0);
  accel__tensor w = accel__node(b->p, ACCEL_PLUGIN_OP_SOFTMAX, &weights, 1, &axis, 1, NULL, 1),
                sum = -1;
  for (int64_t i = 0; i < n; i++) {
    accel__tensor part =
        accel__binary(b->p, ACCEL_PLUGIN_BINARY_MUL, states[i], accel__slice(b->p, w, 0, i, i + 1));
    sum = i == 0 ? part : accel__binary(b->p, ACCEL_PLUGIN_BINARY_ADD, sum, part);
  }
  return sum;
}

void accel__output_items(accel__build *b, const char *name, accel__tensor rows, accel__dim per_item,
                         bool asked) {
  accel__add_output(b, name, accel__rows_to_items(b, rows, per_item),
                    asked ? ACCEL__OUTPUT_ON_REQUEST : 0);
}

void accel__hidden_items(accel__build *b, accel__tensor rows, accel__dim per_item) {
  accel__add_hidden(b, accel__rows_to_items(b, rows, per_item));
}

/* ---- batch norm folded into the convolution before it ---- */

typedef struct folded {
  double eps;
  int64_t channels, weights; /* elements that the folded bias and weight have room for */
} folded;

/* parts: w [O,..], gamma [O], running_var [O] -> w gamma / sqrt(var + eps) */
static accel_status fold_weight(const void *user, const float *const *part, const int64_t *n,
                                uint32_t parts, float *out) {
  const folded *f = user;
  if (parts != 3 || n[0] != f->weights || n[1] != f->channels || n[2] != n[1])
    return accel__fail(ACCEL_ERROR_FORMAT,
                       "batch norm of %lld channels behind a convolution of %lld weights",
                       (long long)n[1], (long long)n[0]);
  const int64_t each = n[0] / n[1];
  for (int64_t o = 0; o < n[1]; o++) {
    const double factor = (double)part[1][o] / sqrt((double)part[2][o] + f->eps);
    for (int64_t i = 0; i < each; i++)
      out[o * each + i] = (float)((double)part[0][o * each + i] * factor);
  }
  return ACCEL_OK;
}

/* parts: beta, running_mean, gamma, running_var, all [O] -> beta - mean gamma / sqrt(var + eps) */
static accel_status fold_bias(const void *user, const float *const *part, const int64_t *n,
                              uint32_t parts, float *out) {
  const folded *f = user;
  if (parts != 4 || n[0] != f->channels || n[1] != n[0] || n[2] != n[0] || n[3] != n[0])
    return accel__fail(ACCEL_ERROR_FORMAT,
                       "a batch norm's weight, bias, mean and variance differ in size");
  for (int64_t o = 0; o < n[0]; o++)
    out[o] = (float)((double)part[0][o] -
                     (double)part[1][o] * (double)part[2][o] / sqrt((double)part[3][o] + f->eps));
  return ACCEL_OK;
}

/* parts: gamma, running_var -> gamma / sqrt(var + eps) */
static accel_status norm_factor(const void *user, const float *const *part, const int64_t *n,
                                uint32_t parts, float *out) {
  const folded *f = user;
  if (parts != 2 || n[0] != f->channels || n[1] != n[0])
    return accel__fail(ACCEL_ERROR_FORMAT, "a batch norm's weight and variance differ in size");
  for (int64_t o = 0; o < n[0]; o++)
    out[o] = (float)((double)part[0][o] / sqrt((double)part[1][o] + f->eps));
  return ACCEL_OK;
}

accel__tensor accel__conv2d_norm(accel__build *b, accel__tensor x, const accel__conv *c, double eps,
                                 const char *conv, const char *norm) {
  int64_t groups = c->groups > 0 ? c->groups : 1;
  folded *f = accel__arena_alloc(b->arena, sizeof *f);
  if (f == NULL)
    return accel__program_fail(b->p, ACCEL_ERROR_OUT_OF_MEMORY, "no memory for a weight");
  *f = (folded){.eps = eps,
                .channels = c->out,
                .weights = c->out * (channels_of(b, x) / groups) * c->kernel.h * c->kernel.w};
  const char *w = accel__resolve(b, "%s.weight", conv),
             *gamma = accel__resolve(b, "%s.weight", norm);
  const char *var = accel__resolve(b, "%s.running_var", norm),
             *mean = accel__resolve(b, "%s.running_mean", norm);
  accel__weight_spec weight = {
      .name = accel__arena_printf(b->arena, "%s.folded", w),
      .use = ACCEL_PLUGIN_USE_CONV,
      .rank = 4,
      .dim = {c->out, channels_of(b, x) / groups, c->kernel.h, c->kernel.w},
      .parts = {w, gamma, var},
      .n_parts = 3,
      .derive = fold_weight,
      .derive_user = f};
  accel__weight_spec bias = {.name = accel__arena_printf(b->arena, "%s.folded.bias", w),
                             .use = ACCEL_PLUGIN_USE_PLAIN,
                             .rank = 1,
                             .dim = {c->out},
                             .parts = {accel__resolve(b, "%s.bias", norm), mean, gamma, var},
                             .n_parts = 4,
                             .derive = fold_bias,
                             .derive_user = f};
  if (weight.name == NULL || bias.name == NULL)
    return accel__program_fail(b->p, ACCEL_ERROR_OUT_OF_MEMORY, "no memory for a weight");
  return convolve(b, x, c, accel__weight(b->p, &weight), accel__weight(b->p, &bias));
}

void accel__batch_norm(accel__build *b, int64_t n, double eps, const char *norm,
                       accel__tensor *factor, accel__tensor *offset) {
  folded *f = accel__arena_alloc(b->arena, sizeof *f);
  *factor = *offset = -1;
  if (f == NULL) {
    accel__program_fail(b->p, ACCEL_ERROR_OUT_OF_MEMORY, "no memory for a weight");
    return;
  }
  *f = (folded){.eps = eps, .channels = n, .weights = n};
  const char *gamma = accel__resolve(b, "%s.weight", norm),
             *var = accel__resolve(b, "%s.running_var", norm);
  const char *mean = accel__resolve(b, "%s.running_mean", norm),
             *beta = accel__resolve(b, "%s.bias", norm);
  accel__weight_spec one = {.name = accel__arena_printf(b->arena, "%s.factor", norm),
                            .use = ACCEL_PLUGIN_USE_PLAIN,
                            .rank = 1,
                            .dim = {n},
                            .parts = {gamma, var},
                            .n_parts = 2,
                            .derive = norm_factor,
                            .derive_user = f};
  accel__weight_spec two = {.name = accel__arena_printf(b->arena, "%s.offset", norm),
                            .use = ACCEL_PLUGIN_USE_PLAIN,
                            .rank = 1,
                            .dim = {n},
                            .parts = {beta, mean, gamma, var},
                            .n_parts = 4,
                            .derive = fold_bias,
                            .derive_user = f};
  if (one.name == NULL || two.name == NULL) return;
  *factor = accel__weight(b->p, &one);
  *offset = accel__weight(b->p, &two);
}

accel__tensor accel__conv2d_bias_norm(accel__build *b, accel__tensor x, const accel__conv *c,
                                      double eps, const char *conv, const char *norm) {
  accel__conv plain = *c;
  plain.act = NULL;
  plain.bias = true;
  accel__tensor factor, offset, y = accel__conv2d(b, x, &plain, "%s", conv);
  accel__batch_norm(b, c->out, eps, norm, &factor, &offset);
  accel__dim one = accel__const_dim(b->p, 1),
             shape[4] = {one, accel__const_dim(b->p, c->out), one, one};
  y = accel__binary(b->p, ACCEL_PLUGIN_BINARY_MUL, y, accel__reshape(b->p, factor, 4, shape));
  y = accel__binary(b->p, ACCEL_PLUGIN_BINARY_ADD, y, accel__reshape(b->p, offset, 4, shape));
  return c->act != NULL ? accel__activate(b, y, c->act) : y;
}

/* ---- weight_norm ---- */

typedef struct normed {
  int64_t elements, lengths, stride; /* element i of v has length number (i / stride) % lengths */
} normed;

/* parts: v, g [lengths] -> v g / |the elements of v of the same length number| */
static accel_status norm_weight(const void *user, const float *const *part, const int64_t *n,
                                uint32_t parts, float *out) {
  const normed *w = user;
  if (parts != 2 || n[0] != w->elements || n[1] != w->lengths)
    return accel__fail(ACCEL_ERROR_FORMAT, "weight_norm of %lld elements with %lld lengths",
                       (long long)n[0], (long long)n[1]);
  const int64_t block = w->stride * w->lengths;
  for (int64_t k = 0; k < w->lengths; k++) {
    double sum = 0;
    for (int64_t at = k * w->stride; at < w->elements; at += block)
      for (int64_t i = at; i < at + w->stride; i++) sum += (double)part[0][i] * (double)part[0][i];
    const double factor = sum > 0 ? (double)part[1][k] / sqrt(sum) : 0.0;
    for (int64_t at = k * w->stride; at < w->elements; at += block)
      for (int64_t i = at; i < at + w->stride; i++) out[i] = (float)((double)part[0][i] * factor);
  }
  return ACCEL_OK;
}

accel__tensor accel__normed_weight(accel__build *b, const int64_t dims[3], uint32_t axis,
                                   const char *name) {
  static const char *const spelled[2][2] = {
      {"parametrizations.weight.original1", "parametrizations.weight.original0"},
      {"weight_v", "weight_g"}};
  normed *w = accel__arena_alloc(b->arena, sizeof *w);
  if (w == NULL)
    return accel__program_fail(b->p, ACCEL_ERROR_OUT_OF_MEMORY, "no memory for a weight");
  *w = (normed){.elements = dims[0] * dims[1] * dims[2],
                .lengths = dims[axis],
                .stride = axis == 2 ? 1 : dims[1] * dims[2]};
  const bool old = b->request->checkpoint == NULL || accel__has(b, "%s.weight_v", name);
  /* "product": names with "norm" are those of norms, which the registry keeps in fp32. */
  accel__weight_spec spec = {
      .name = accel__arena_printf(b->arena, "%s.weight.product", accel__resolve(b, "%s", name)),
      .use = ACCEL_PLUGIN_USE_CONV,
      .rank = 3,
      .dim = {dims[0], dims[1], dims[2]},
      .parts = {accel__resolve(b, "%s.%s", name, spelled[old][0]),
                accel__resolve(b, "%s.%s", name, spelled[old][1])},
      .n_parts = 2,
      .derive = norm_weight,
      .derive_user = w};
  if (spec.name == NULL)
    return accel__program_fail(b->p, ACCEL_ERROR_OUT_OF_MEMORY, "no memory for a weight");
  return accel__weight(b->p, &spec);
}
