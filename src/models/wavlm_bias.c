/* wavlm_bias.c - see wavlm_bias.h. */
#include "models/wavlm_bias.h"

#include <stdio.h>

accel_status accel__wavlm_bias_read(const accel__build *b, int64_t heads, accel__wavlm_bias *out) {
  *out = (accel__wavlm_bias){.heads = heads,
                             .by = {.buckets = 320, .max_distance = 800, .cut_last = true}};
  return accel__distance_buckets_read(b, "num_buckets", "max_bucket_distance", &out->by);
}

void accel__wavlm_bias_make(accel__build *b, accel__wavlm_bias *w, accel__dim frames,
                            const char *name) {
  accel__program *p = b->p;
  int64_t most;
  accel__dim one = accel__const_dim(p, 1), H = accel__const_dim(p, w->heads),
             all = accel__times(b, frames, frames);
  w->frames = frames;
  w->table = -1;
  accel__tensor bucket = accel__distance_buckets_make(b, &w->by, &most),
                at = accel__count(b, frames);
  if (at < 0 || bucket < 0) return;
  /* [frames,frames]: how far key j is ahead of query i, as a row of the embedded buckets */
  accel__tensor row =
      accel__distance_rows(b, accel__reshape(p, at, 2, (accel__dim[]){one, frames}),
                           accel__reshape(p, at, 2, (accel__dim[]){frames, one}), most);
  accel__tensor table = accel__embedding(b, bucket, w->by.buckets, w->heads, name);
  table = accel__gather(p, table, accel__reshape(p, row, 1, &all));
  table = accel__reshape(p, table, 3, (accel__dim[]){frames, frames, H});
  table = accel__transpose(b, table, 3, (int64_t[]){2, 0, 1});
  w->table = accel__reshape(p, table, 4, (accel__dim[]){one, H, frames, frames});
}

accel__tensor accel__wavlm_gated(accel__build *b, const accel__wavlm_bias *w, accel__tensor x,
                                 const char *path) {
  accel__program *p = b->p;
  const int64_t dims[4] = {1, w->heads, 1, 1}, width = accel__columns(b, x) / w->heads;
  char name[96];
  accel__dim one = accel__const_dim(p, 1), two = accel__const_dim(p, 2),
             four = accel__const_dim(p, 4), H = accel__const_dim(p, w->heads),
             items[4] = {b->B, w->frames, H, one};
  accel__dim rows = accel__times(b, accel__times(b, b->B, w->frames), H);
  x = accel__reshape(p, x, 2, (accel__dim[]){rows, accel__const_dim(p, width)});
  x = accel__dense_layer(b, x, 8, true, -1, NULL, "%s.gru_rel_pos_linear", path);
  x = accel__reshape(p, x, 3, (accel__dim[]){rows, two, four});
  accel__attr sum[] = {ACCEL_I(KIND, ACCEL_PLUGIN_REDUCE_SUM), ACCEL_I(AXIS, 2), ACCEL_I(KEEP, 0)};
  x = accel__node(p, ACCEL_PLUGIN_OP_REDUCE, &x, 1, sum, 3, NULL, 1);
  x = accel__unary(p, ACCEL_PLUGIN_ACT_SIGMOID, x); /* [rows,2] */
  snprintf(name, sizeof name, "%s.gru_rel_pos_const", path);
  accel__tensor by =
      accel__reshape(p, accel__table(b, 4, dims, name), 4, (accel__dim[]){one, one, H, one});
  accel__tensor gate = accel__reshape(p, accel__slice(p, x, 1, 1, 2), 4, items);
  gate = accel__affine(b, accel__binary(p, ACCEL_PLUGIN_BINARY_MUL, gate, by), 1.0, -1.0);
  gate = accel__binary(p, ACCEL_PLUGIN_BINARY_MUL,
                       accel__reshape(p, accel__slice(p, x, 1, 0, 1), 4, items), gate);
  gate = accel__transpose(b, accel__affine(b, gate, 1.0, 2.0), 4, (int64_t[]){0, 2, 1, 3});
  return accel__binary(p, ACCEL_PLUGIN_BINARY_MUL, gate, w->table);
}
