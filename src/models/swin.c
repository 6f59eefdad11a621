/* swin.c - Swin Transformer (transformers' SwinModel and classifier), and the windowed stages that CLAP shares.  Built for
 * images of the config's size: which layers shift their windows depends on it. */
#include "models/swin.h"

#include <stdio.h>
#include <string.h>

const accel__rename accel__swin_spelling[] = {
    {"attention.self.query", "attention.q_proj"},
    {"attention.self.key", "attention.k_proj"},
    {"attention.self.value", "attention.v_proj"},
    {"attention.self.relative_position_bias_table", "attention.relative_position_bias.relative_position_bias_table"},
    {"attention.output.dense", "attention.o_proj"},
    {"intermediate.dense", "mlp.fc1"},
    {"output.dense", "mlp.fc2"},
    {NULL, NULL}};

accel_status accel__swin_read(accel__build *b, const char *heads_key, accel__swin *c) {
  const accel__json *depths = NULL;
  const accel__field fields[] = {
      ACCEL_FIELD_INT("window_size", &c->window, 1, 1024),
      ACCEL_FIELD_NUMBER("mlp_ratio", &c->mlp_ratio),
      ACCEL_FIELD_NUMBER("layer_norm_eps", &c->eps),
      ACCEL_FIELD_BOOL("qkv_bias", &c->qkv_bias),
      ACCEL_FIELD_ACT("hidden_act", &c->act),
  };
  ACCEL_TRY(accel__read_fields(b, fields, sizeof fields / sizeof *fields));
  ACCEL_TRY(accel__json_array(b->file, b->config, "depths", &depths));
  if (depths != NULL) c->stages = cJSON_GetArraySize(depths);
  if (c->stages < 1 || c->stages > ACCEL__SWIN_STAGES)
    return accel__refuse(b, "field 'depths' has %lld entries", (long long)c->stages);
  ACCEL_TRY(accel__read_ints(b, "depths", c->stages, 0, ACCEL__MAX_LAYERS, c->depths));
  ACCEL_TRY(accel__read_ints(b, heads_key, c->stages, 1, ACCEL__MAX_WIDTH, c->heads));
  if (!(c->mlp_ratio > 0) || c->mlp_ratio > 64)
    return accel__refuse(b, "field 'mlp_ratio': %g is not supported", c->mlp_ratio);
  for (int64_t i = 0; i < c->stages; i++)
    ACCEL_TRY(accel__divides(b, heads_key, c->heads[i], "width of its stage", c->embed << i));
  return ACCEL_OK;
}

/* The windows of one grid: where their rows come from and go back to. */
typedef struct windows {
  int64_t h, w, window, shift; /* grid; rows of a window to a side; cyclic shift */
  int64_t rows, cols;          /* of the padded grid */
  accel__tensor to, from;      /* int32 [rows*cols]: row of the grid, h*w for padding; int32 [h*w] */
  accel__tensor apart;         /* [windows, 1, S, S]: -100 between rows of different regions; -1 without shift */
} windows;

static bool fill_tables(const windows *p, int32_t *to, int32_t *from, int32_t *region) {
  const int64_t size = p->window, across = p->cols / size;
  for (int64_t i = 0; i < p->rows * p->cols; i++) {
    int64_t win = i / (size * size), in = i % (size * size);
    int64_t y = win / across * size + in / size, x = win % across * size + in % size; /* in the shifted grid */
    int64_t from_y = (y + p->shift) % p->rows, from_x = (x + p->shift) % p->cols;
    bool inside = from_y < p->h && from_x < p->w;
    to[i] = (int32_t)(inside ? from_y * p->w + from_x : p->h * p->w);
    if (inside) from[from_y * p->w + from_x] = (int32_t)i;
    region[i] = (int32_t)(((y >= p->rows - size) + (y >= p->rows - p->shift)) * 3 + (x >= p->cols - size) +
                          (x >= p->cols - p->shift));
  }
  return true;
}

static accel_status plan_windows(accel__build *b, windows *p) {
  const int64_t s = p->window * p->window, n = p->rows * p->cols, count = n / s;
  int32_t *to = accel__arena_array(b->arena, (size_t)n, 4), *from = accel__arena_array(b->arena, (size_t)(p->h * p->w), 4);
  int32_t *region = accel__arena_array(b->arena, (size_t)n, 4);
  float *apart = p->shift > 0 ? accel__arena_array(b->arena, (size_t)(n * s), sizeof *apart) : NULL;
  if (to == NULL || from == NULL || region == NULL || (p->shift > 0 && apart == NULL)) return ACCEL_ERROR_OUT_OF_MEMORY;
  fill_tables(p, to, from, region);
  for (int64_t i = 0; p->shift > 0 && i < n; i++)
    for (int64_t j = 0; j < s; j++) apart[i * s + j] = region[i] == region[i / s * s + j] ? 0.0f : -100.0f;
  p->to = accel__constant_i32(b->p, "windows", 1, &n, to);
  p->from = accel__constant_i32(b->p, "windows_back", 1, (int64_t[]){p->h * p->w}, from);
  p->apart = p->shift > 0 ? accel__constant_f32(b->p, "windows_apart", 4, (int64_t[]){count, 1, s, s}, apart) : -1;
  return ACCEL_OK;
}

/* Rows of x [B,n,C] by number: [B,m,C]. */
static accel__tensor take(accel__build *b, accel__tensor x, accel__tensor idx) {
  accel__attr axis = ACCEL_I(AXIS, 1);
  return accel__node(b->p, ACCEL_PLUGIN_OP_GATHER, (accel__tensor[]){x, idx}, 2, &axis, 1, NULL, 1);
}

/* The bias between the rows of a window: [1 or windows, heads, S, S]. */
static accel__tensor window_bias(accel__build *b, const windows *p, int64_t heads, const char *path) {
  const int64_t m = p->window, s = m * m, dims[2] = {(2 * m - 1) * (2 * m - 1), heads}, all = s * s;
  char name[128];
  int32_t *at = accel__arena_array(b->arena, (size_t)all, sizeof *at);
  if (at == NULL) return accel__program_fail(b->p, ACCEL_ERROR_OUT_OF_MEMORY, "no memory for window positions");
  for (int64_t i = 0; i < s; i++)
    for (int64_t j = 0; j < s; j++) at[i * s + j] = (int32_t)((i / m - j / m + m - 1) * (2 * m - 1) + i % m - j % m + m - 1);
  snprintf(name, sizeof name, "%s.attention.self.relative_position_bias_table", path);
  accel__tensor table = accel__table(b, 2, dims, name);
  accel__tensor bias =
      accel__gather(b->p, table, accel__constant_i32(b->p, "window_positions", 1, &all, at)); /* [S*S, heads] */
  bias = accel__transpose(b, bias, 2, (int64_t[]){1, 0});
  accel__dim side = accel__const_dim(b->p, s), one = accel__const_dim(b->p, 1);
  bias = accel__reshape(b->p, bias, 4, (accel__dim[]){one, accel__const_dim(b->p, heads), side, side});
  return p->apart >= 0 ? accel__binary(b->p, ACCEL_PLUGIN_BINARY_ADD, bias, p->apart) : bias;
}

/* One block over x [B,n,C]: attention inside windows, then the MLP, norms in front. */
static accel__tensor block(accel__build *b, const accel__swin *c, const windows *p, accel__tensor x, int64_t dim,
                           int64_t heads, const char *path) {
  accel__program *g = b->p;
  const int64_t s = p->window * p->window;
  accel__tensor y = accel__norm_layer(b, x, -1, c->eps, true, "%s.layernorm_before", path), part[3];
  if (p->rows != p->h || p->cols != p->w) { /* a row of zeros for the padding */
    const int64_t pads[6] = {0, 0, 0, 0, 1, 0};
    accel__attr attr[] = {ACCEL_IV(PADS, pads, 6), ACCEL_I(KIND, ACCEL_PLUGIN_PAD_CONSTANT)};
    y = accel__node(g, ACCEL_PLUGIN_OP_PAD, &y, 1, attr, 2, NULL, 1);
  }
  y = take(b, y, p->to);
  accel__dim per_window = accel__const_dim(g, s), wins = accel__times(b, b->B, accel__const_dim(g, p->rows * p->cols / s));
  y = accel__reshape(g, y, 2, (accel__dim[]){accel__times(b, wins, per_window), accel__const_dim(g, dim)});
  accel__attention how = accel__attention_of(b, heads);
  how.q_space = how.kv_space = accel__space_fixed(g, "windows", per_window, wins);
  how.bias = window_bias(b, p, heads, path);
  how.bias_kind = ACCEL_PLUGIN_BIAS_DENSE;
  static const char *const names[3] = {"query", "key", "value"};
  for (int i = 0; i < 3; i++)
    part[i] = accel__dense_layer(b, y, dim, c->qkv_bias, -1, NULL, "%s.attention.self.%s", path, names[i]);
  y = accel__attend(b, part[0], part[1], part[2], &how);
  y = accel__dense_layer(b, y, dim, true, -1, NULL, "%s.attention.output.dense", path);
  y = accel__reshape(g, y, 3, (accel__dim[]){b->B, accel__const_dim(g, p->rows * p->cols), accel__const_dim(g, dim)});
  x = accel__binary(g, ACCEL_PLUGIN_BINARY_ADD, x, take(b, y, p->from));
  y = accel__norm_layer(b, x, -1, c->eps, true, "%s.layernorm_after", path);
  y = accel__dense_layer(b, y, (int64_t)((double)dim * c->mlp_ratio), true, -1, &c->act, "%s.intermediate.dense", path);
  return accel__dense_layer(b, y, dim, true, x, NULL, "%s.output.dense", path);
}

/* Squares of 2x2 rows side by side, normed, halved in width: [B,n,C] -> [B,n/4,2C]. */
static accel__tensor merge(accel__build *b, accel__tensor x, accel__size2 *grid, int64_t dim, const char *path) {
  accel__program *g = b->p;
  const int64_t h = (grid->h + 1) / 2, w = (grid->w + 1) / 2;
  accel__dim c = accel__const_dim(g, dim);
  accel__tensor part[4];
  x = accel__reshape(g, x, 4, (accel__dim[]){b->B, accel__const_dim(g, grid->h), accel__const_dim(g, grid->w), c});
  if (grid->h % 2 != 0 || grid->w % 2 != 0) {
    const int64_t pads[8] = {0, 0, 0, 0, 0, grid->h % 2, grid->w % 2, 0};
    accel__attr attr[] = {ACCEL_IV(PADS, pads, 8), ACCEL_I(KIND, ACCEL_PLUGIN_PAD_CONSTANT)};
    x = accel__node(g, ACCEL_PLUGIN_OP_PAD, &x, 1, attr, 2, NULL, 1);
  }
  for (int64_t i = 0; i < 4; i++) { /* column by column, rows inside */
    int64_t y0 = accel__const_dim(g, i % 2), y1 = accel__const_dim(g, 2 * h), x0 = accel__const_dim(g, i / 2),
            x1 = accel__const_dim(g, 2 * w);
    accel__attr down[] = {ACCEL_I(AXIS, 1), ACCEL_D(START, &y0, 1), ACCEL_D(END, &y1, 1), ACCEL_I(STEP, 2)};
    accel__attr across[] = {ACCEL_I(AXIS, 2), ACCEL_D(START, &x0, 1), ACCEL_D(END, &x1, 1), ACCEL_I(STEP, 2)};
    accel__tensor y = accel__node(g, ACCEL_PLUGIN_OP_SLICE, &x, 1, down, 4, NULL, 1);
    part[i] = accel__node(g, ACCEL_PLUGIN_OP_SLICE, &y, 1, across, 4, NULL, 1);
  }
  x = accel__concat(b, 3, 4, part);
  x = accel__reshape(g, x, 3, (accel__dim[]){b->B, accel__const_dim(g, h * w), accel__const_dim(g, 4 * dim)});
  *grid = (accel__size2){h, w};
  x = accel__norm_layer(b, x, -1, 1e-5, true, "%s.downsample.norm", path);
  return accel__dense_layer(b, x, 2 * dim, false, -1, NULL, "%s.downsample.reduction", path);
}

static void list_hidden(accel__build *b, accel__tensor x, accel__size2 grid, bool planes) {
  if (x < 0) return;
  accel__dim c = accel__tensor_dim(b->p, x, 2);
  accel__tensor y = accel__transpose(b, x, 3, (int64_t[]){0, 2, 1});
  y = accel__reshape(b->p, y, 4, (accel__dim[]){b->B, c, accel__const_dim(b->p, grid.h), accel__const_dim(b->p, grid.w)});
  char name[64];
  snprintf(name, sizeof name, "reshaped_hidden_states.%u", b->n_hidden);
  if (!planes) accel__add_output(b, name, y, true, false);
  accel__add_hidden(b, planes ? y : x);
}

accel__tensor accel__swin_stages(accel__build *b, const accel__swin *c, accel__tensor x, accel__size2 grid,
                                 const char *layers, bool planes, accel__size2 *out) {
  list_hidden(b, x, grid, planes);
  for (int64_t i = 0; i < c->stages; i++) {
    const int64_t dim = c->embed << i, least = grid.h < grid.w ? grid.h : grid.w;
    windows plan[2];         /* straight, shifted */
    if (least < c->window) { /* the reference's tables would not fit its windows */
      return accel__program_fail(b->p, ACCEL_ERROR_UNSUPPORTED,
                                 "stage %lld has %lld rows to a side, less than window_size %lld", (long long)i,
                                 (long long)least, (long long)c->window);
    }
    for (int k = 0; k < 2; k++) {
      const int64_t m = c->window;
      plan[k] = (windows){.h = grid.h,
                          .w = grid.w,
                          .window = m,
                          .shift = k == 1 && least > m ? m / 2 : 0,
                          .rows = (grid.h + m - 1) / m * m,
                          .cols = (grid.w + m - 1) / m * m};
      if (k == 1 && plan[1].shift == 0)
        plan[1] = plan[0];
      else if (plan_windows(b, &plan[k]) != ACCEL_OK)
        return accel__program_fail(b->p, ACCEL_ERROR_OUT_OF_MEMORY, "no memory for windows");
    }
    for (int64_t j = 0; j < c->depths[i]; j++) {
      const char *path = accel__arena_printf(b->arena, "%s.%lld.blocks.%lld", layers, (long long)i, (long long)j);
      accel__at(b->p, (uint32_t)i + 1, "%s", path);
      x = block(b, c, &plan[j % 2], x, dim, c->heads[i], path);
    }
    if (i + 1 < c->stages) x = merge(b, x, &grid, dim, accel__arena_printf(b->arena, "%s.%lld", layers, (long long)i));
    list_hidden(b, x, grid, planes);
  }
  accel__at(b->p, (uint32_t)c->stages + 1, "head");
  *out = grid;
  return x;
}

/* ---- Swin ---- */

typedef struct swin {
  accel__swin c;
  int64_t channels, stride; /* stride: pixels that a row is made to again (masked image modelling) */
  accel__size2 image, patch, grid;
  bool absolute;
} swin;

static accel_status read_config(accel__build *b, swin *m) {
  *m = (swin){.c = {.embed = 96,
                    .stages = 4,
                    .window = 7,
                    .depths = {2, 2, 6, 2},
                    .heads = {3, 6, 12, 24},
                    .mlp_ratio = 4.0,
                    .eps = 1e-5,
                    .qkv_bias = true,
                    .act = {.act = ACCEL_PLUGIN_ACT_GELU}},
              .channels = 3,
              .stride = 32,
              .image = {224, 224},
              .patch = {4, 4}};
  const accel__field fields[] = {ACCEL_FIELD_INT("embed_dim", &m->c.embed, 1, ACCEL__MAX_WIDTH),
                                 ACCEL_FIELD_INT("num_channels", &m->channels, 1, ACCEL__MAX_WIDTH),
                                 ACCEL_FIELD_INT("encoder_stride", &m->stride, 1, 4096),
                                 ACCEL_FIELD_BOOL("use_absolute_embeddings", &m->absolute)};
  ACCEL_TRY(accel__read_fields(b, fields, 4));
  ACCEL_TRY(accel__read_size2(b, "image_size", 1, ACCEL__MAX_WIDTH, &m->image));
  ACCEL_TRY(accel__read_size2(b, "patch_size", 1, ACCEL__MAX_WIDTH, &m->patch));
  ACCEL_TRY(accel__swin_read(b, "num_heads", &m->c));
  b->spelling[0] = accel__swin_spelling;
  b->model->hidden_size = m->c.embed << (m->c.stages - 1);
  return accel__read_labels(b);
}

/* Pictures are padded to whole patches on the right and at the bottom. */
static accel__tensor embeddings(accel__build *b, swin *m) {
  const accel__conv patch = {.out = m->c.embed, .kernel = m->patch, .stride = m->patch, .bias = true};
  const accel__size2 grid = {m->image.h / m->patch.h, m->image.w / m->patch.w};
  accel__tensor x = accel__add_pixels(b, m->channels, &m->image);
  accel__at(b->p, 0, "embeddings");
  const int64_t pads[8] = {0,
                           0,
                           0,
                           0,
                           0,
                           0,
                           (m->patch.h - m->image.h % m->patch.h) % m->patch.h,
                           (m->patch.w - m->image.w % m->patch.w) % m->patch.w};
  accel__attr attr[] = {ACCEL_IV(PADS, pads, 8), ACCEL_I(KIND, ACCEL_PLUGIN_PAD_CONSTANT)};
  if (pads[6] + pads[7] > 0) x = accel__node(b->p, ACCEL_PLUGIN_OP_PAD, &x, 1, attr, 2, NULL, 1);
  x = accel__planes_to_items(b, accel__conv2d(b, x, &patch, "embeddings.patch_embeddings.projection"));
  x = accel__norm_layer(b, x, -1, 1e-5, true, "embeddings.norm");
  if (accel__is_class(b, "ForMaskedImageModeling")) x = accel__masked_rows(b, x, 3, "embeddings.mask_token");
  m->grid = (accel__size2){(m->image.h + pads[6]) / m->patch.h, (m->image.w + pads[7]) / m->patch.w};
  if (!m->absolute) return x;
  const int64_t dims[3] = {1, grid.h * grid.w, m->c.embed};
  return accel__binary(b->p, ACCEL_PLUGIN_BINARY_ADD, x, accel__table(b, 3, dims, "embeddings.position_embeddings"));
}

static accel_status build(const accel__model_request *request, const char *architecture, accel__model *model) {
  static const char *const args[] = {"interpolate_pos_encoding", NULL};
  accel__build b;
  swin m;
  accel__size2 end;
  ACCEL_TRY(accel__build_begin(&b, request, architecture, model, "swin."));
  model->args = args;
  ACCEL_TRY(read_config(&b, &m));
  accel__tensor x = embeddings(&b, &m);
  x = accel__swin_stages(&b, &m.c, x, m.grid, "encoder.layers", false, &end);
  x = accel__norm_layer(&b, x, -1, m.c.eps, true, "layernorm");
  accel__attr mean[] = {ACCEL_I(KIND, ACCEL_PLUGIN_REDUCE_MEAN), ACCEL_I(AXIS, 1)};
  accel__tensor pooled = accel__node(b.p, ACCEL_PLUGIN_OP_REDUCE, &x, 1, mean, 2, NULL, 1);
  if (b.is_base) {
    accel__add_output(&b, "last_hidden_state", x, false, false);
    accel__add_output(&b, "pooler_output", pooled, false, false);
  } else if (accel__is_class(&b, "ForMaskedImageModeling")) {
    b.in_head = true;
    accel__output_pixels(&b, x, accel__const_dim(b.p, end.h), accel__const_dim(b.p, end.w), m.channels, m.stride);
  } else {
    b.in_head = true;
    accel__head_sequence(&b, pooled, "classifier");
  }
  return accel__build_end(&b, x);
}

static const char *const classes[] = {"SwinModel", "SwinForImageClassification", "SwinForMaskedImageModeling", NULL};
const accel__architecture accel__model_swin = {.model_type = "swin", .classes = classes, .build = build};
