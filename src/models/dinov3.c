/* dinov3.c - DINOv3's Vision Transformer (transformers' DINOv3ViTModel): patches turned by where
 * they are, from -1 to 1 across the picture; class token and registers are not turned. */
#include <math.h>

#include "models/vit.h"

typedef struct dinov3 {
  int64_t hidden, layers, heads, inner, channels, registers;
  accel__size2 patch;
  double eps, theta;
  bool q_bias, k_bias, v_bias, o_bias, mlp_bias, gated;
  accel__activation act;
  accel__dim h, w, rows; /* patches down and across; rows of an image */
} dinov3;

static const accel__rename spelling[] = {{"layer.", "model.layer."}, {NULL, NULL}};

static accel_status read_config(accel__build *b, dinov3 *m) {
  *m = (dinov3){.hidden = 384,
                .layers = 12,
                .heads = 6,
                .inner = 1536,
                .channels = 3,
                .patch = {16, 16},
                .eps = 1e-5,
                .theta = 100.0,
                .q_bias = true,
                .v_bias = true,
                .o_bias = true,
                .mlp_bias = true,
                .act = {.act = ACCEL_PLUGIN_ACT_GELU}};
  const accel__field fields[] = {
      ACCEL_FIELD_INT("hidden_size", &m->hidden, 1, ACCEL__MAX_WIDTH),
      ACCEL_FIELD_INT("num_hidden_layers", &m->layers, 0, ACCEL__MAX_LAYERS),
      ACCEL_FIELD_INT("num_attention_heads", &m->heads, 1, ACCEL__MAX_WIDTH),
      ACCEL_FIELD_INT("intermediate_size", &m->inner, 1, ACCEL__MAX_WIDTH),
      ACCEL_FIELD_INT("num_channels", &m->channels, 1, ACCEL__MAX_WIDTH),
      ACCEL_FIELD_INT("num_register_tokens", &m->registers, 0, ACCEL__MAX_WIDTH),
      ACCEL_FIELD_NUMBER("layer_norm_eps", &m->eps),
      ACCEL_FIELD_NUMBER("rope_theta", &m->theta),
      ACCEL_FIELD_BOOL("query_bias", &m->q_bias),
      ACCEL_FIELD_BOOL("key_bias", &m->k_bias),
      ACCEL_FIELD_BOOL("value_bias", &m->v_bias),
      ACCEL_FIELD_BOOL("proj_bias", &m->o_bias),
      ACCEL_FIELD_BOOL("mlp_bias", &m->mlp_bias),
      ACCEL_FIELD_BOOL("use_gated_mlp", &m->gated),
      ACCEL_FIELD_ACT("hidden_act", &m->act)};
  ACCEL_TRY(accel__read_fields(b, fields, sizeof fields / sizeof *fields));
  ACCEL_TRY(accel__read_size2(b, "patch_size", 1, ACCEL__MAX_WIDTH, &m->patch));
  ACCEL_TRY(accel__divides(b, "num_attention_heads", m->heads, "hidden_size", m->hidden));
  if (m->hidden / m->heads % 4 != 0)
    return accel__refuse(b, "field 'num_attention_heads': heads of %lld columns, no multiple of 4",
                         (long long)(m->hidden / m->heads));
  if (!(m->theta > 0)) return accel__refuse(b, "field 'rope_theta': %g is not supported", m->theta);
  b->spelling[0] = spelling;
  b->model->hidden_size = m->hidden;
  return ACCEL_OK;
}

/* Class token, registers, patches: rows [B*S, hidden]. */
static accel__tensor embeddings(accel__build *b, dinov3 *m) {
  const int64_t c = m->hidden, one[3] = {1, 1, c}, tokens[3] = {1, m->registers, c};
  const accel__conv patch = {.out = c, .kernel = m->patch, .stride = m->patch, .bias = true};
  accel__tensor x = accel__add_pixels(b, m->channels, NULL), part[3];
  uint32_t n = 0;
  accel__at(b->p, 0, "embeddings");
  x = accel__conv2d(b, x, &patch, "embeddings.patch_embeddings");
  if (x < 0) return -1;
  m->h = accel__tensor_dim(b->p, x, 2);
  m->w = accel__tensor_dim(b->p, x, 3);
  x = accel__masked_rows(b, accel__planes_to_items(b, x), 3, "embeddings.mask_token");
  part[n++] = accel__repeat(b, accel__table(b, 3, one, "embeddings.cls_token"), b->B);
  if (m->registers > 0)
    part[n++] = accel__repeat(b, accel__table(b, 3, tokens, "embeddings.register_tokens"), b->B);
  part[n++] = x;
  x = accel__concat(b, 1, n, part);
  m->rows = x < 0 ? -1 : accel__tensor_dim(b->p, x, 1);
  return accel__items_to_rows(b, x, "patches");
}

/* 2 pi times where the middle of each of n patches is, -1 to 1, times each frequency: [n, freq]. */
static accel__tensor angles(accel__build *b, accel__dim n, accel__tensor freq) {
  accel__tensor count = accel__count(b, n);
  accel__tensor all = accel__affine(b, accel__reduce_last(b, count), 1.0, 1.0);
  accel__tensor at =
      accel__binary(b->p, ACCEL_PLUGIN_BINARY_DIV, accel__affine(b, count, 1.0, 0.5), all);
  at = accel__affine(b, accel__affine(b, at, 2.0, -1.0), 6.283185307179586, 0.0);
  at = accel__reshape(b->p, at, 2, (accel__dim[]){n, accel__const_dim(b->p, 1)});
  return accel__binary(b->p, ACCEL_PLUGIN_BINARY_MUL, at, freq);
}

/* The angles of each row [B*S, columns of a head / 2]: those of its height, then of its width; 0 in
 * front of the patches. */
static accel__tensor row_angles(accel__build *b, const dinov3 *m) {
  accel__program *p = b->p;
  const int64_t quarter = m->hidden / m->heads / 4, dims[2] = {1, quarter}, half = 2 * quarter;
  const float zero = 0.0f;
  float *values = accel__arena_array(b->arena, (size_t)quarter, sizeof *values);
  if (values == NULL)
    return accel__program_fail(p, ACCEL_ERROR_OUT_OF_MEMORY, "no memory for frequencies");
  for (int64_t i = 0; i < quarter; i++)
    values[i] = 1.0f / powf((float)m->theta, (float)i / (float)quarter);
  accel__tensor freq = accel__constant_f32(p, "frequencies", 2, dims, values);
  accel__dim one = accel__const_dim(p, 1), q = accel__const_dim(p, quarter),
             c = accel__const_dim(p, half), grid[3] = {m->h, m->w, q};
  accel__tensor y = accel__reshape(p, angles(b, m->h, freq), 3, (accel__dim[]){m->h, one, q});
  accel__tensor x = accel__reshape(p, angles(b, m->w, freq), 3, (accel__dim[]){one, m->w, q});
  accel__tensor part[2] = {accel__broadcast(b, y, 3, grid), accel__broadcast(b, x, 3, grid)};
  accel__tensor all = accel__reshape(p, accel__concat(b, 2, 2, part), 3,
                                     (accel__dim[]){one, accel__times(b, m->h, m->w), c});
  part[0] = accel__broadcast(b, accel__constant_f32(p, "unturned", 3, (int64_t[]){1, 1, 1}, &zero),
                             3, (accel__dim[]){one, accel__const_dim(p, 1 + m->registers), c});
  part[1] = all;
  all = accel__repeat(b, accel__concat(b, 1, 2, part), b->B);
  return accel__reshape(p, all, 2, (accel__dim[]){accel__times(b, b->B, m->rows), c});
}

static accel__tensor encoder(accel__build *b, const dinov3 *m, accel__tensor x) {
  const float one = 1.0f;
  accel__dim rows = accel__times(b, b->B, m->rows);
  const accel__rope rope = {.head_dim = m->hidden / m->heads,
                            .rot_dims = m->hidden / m->heads,
                            .attention_scale = 1.0,
                            .style = ACCEL_PLUGIN_ROPE_HALF,
                            .inv_freq = row_angles(b, m)};
  /* the angles are whole already: each row is at position 1 */
  accel__tensor ones = accel__constant_f32(b->p, "one", 1, (int64_t[]){1}, &one);
  b->position_ids = accel__cast(b, accel__broadcast(b, ones, 1, &rows), ACCEL_PLUGIN_I32);
  const accel__block block = {.q = "attention.q_proj",
                              .k = "attention.k_proj",
                              .v = "attention.v_proj",
                              .o = "attention.o_proj",
                              .norm1 = "norm1",
                              .norm2 = "norm2",
                              .gate = m->gated ? "mlp.gate_proj" : NULL,
                              .up = "mlp.up_proj",
                              .down = "mlp.down_proj",
                              .scale1 = "layer_scale1.lambda1",
                              .scale2 = "layer_scale2.lambda1",
                              .hidden = m->hidden,
                              .heads = m->heads,
                              .inner = m->inner,
                              .eps = m->eps,
                              .qkv_bias = true,
                              .no_q_bias = !m->q_bias,
                              .no_k_bias = !m->k_bias,
                              .no_v_bias = !m->v_bias,
                              .o_bias = m->o_bias,
                              .no_mlp_bias = !m->mlp_bias,
                              .rope = &rope,
                              .act = m->act};
  accel__hidden_items(b, x, m->rows);
  for (uint32_t i = 0; i < (uint32_t)m->layers; i++) {
    accel__at(b->p, i + 1, "layer.%u", i);
    x = accel__pre_norm_block(b, &block, x, "layer.%u", i);
    accel__hidden_items(b, x, m->rows);
  }
  accel__at(b->p, (uint32_t)m->layers + 1, "head");
  return accel__norm_layer(b, x, -1, m->eps, true, "norm");
}

static accel_status build(const accel__model_request *request, const char *architecture,
                          accel__model *model) {
  accel__build b;
  dinov3 m;
  ACCEL_TRY(accel__build_begin(&b, request, architecture, model, "model."));
  ACCEL_TRY(read_config(&b, &m));
  accel__tensor x = embeddings(&b, &m); /* which sets the rows */
  x = encoder(&b, &m, x);
  accel__output_items(&b, "last_hidden_state", x, m.rows, false);
  accel__add_output(&b, "pooler_output", accel__first_rows(&b, x), 0);
  return accel__build_end(&b, x);
}

static const char *const classes[] = {"DINOv3ViTModel", NULL};
const accel__architecture accel__model_dinov3 = {
    .model_type = "dinov3_vit", .classes = classes, .build = build};
