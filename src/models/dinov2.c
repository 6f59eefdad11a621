/* dinov2.c - DINOv2 with and without register tokens (transformers' Dinov2Model,
 * Dinov2WithRegistersModel, their classifiers). */
#include <stdio.h>
#include <string.h>

#include "models/dinov2.h"

static const accel__rename spelling[] = {{"attention.attention.query", "attention.q_proj"},
                                         {"attention.attention.key", "attention.k_proj"},
                                         {"attention.attention.value", "attention.v_proj"},
                                         {"attention.output.dense", "attention.o_proj"},
                                         {"mlp.weights_out", "mlp.down_proj"},
                                         {NULL, NULL}};

accel_status accel__dinov2_read(accel__build *b, accel__dinov2 *m) {
  double ratio = 4.0;
  ACCEL_TRY(accel__vit_read(b, &m->c));
  if (accel__json_get(b->config, "layer_norm_eps") == NULL) m->c.eps = 1e-6;
  if (accel__json_get(b->config, "patch_size") == NULL)
    m->c.patch = (accel__size2){m->with_registers ? 16 : 14, m->with_registers ? 16 : 14};
  m->registers = m->with_registers ? 4 : 0;
  const accel__field fields[] = {
      ACCEL_FIELD_NUMBER("mlp_ratio", &ratio), ACCEL_FIELD_BOOL("use_swiglu_ffn", &m->swiglu),
      ACCEL_FIELD_BOOL("apply_layernorm", &m->normed),
      ACCEL_FIELD_BOOL("reshape_hidden_states", &m->planes),
      ACCEL_FIELD_INT("num_register_tokens", &m->registers, 0, ACCEL__MAX_WIDTH)};
  m->normed = m->planes = true;
  ACCEL_TRY(accel__read_fields(b, fields, m->with_registers ? 5 : 4));
  ACCEL_TRY(accel__read_stages(b, "stem", "stage", m->c.layers, m->asked, &m->n_asked));
  if (m->n_asked == 0) m->asked[m->n_asked++] = m->c.layers;
  if (!(ratio > 0) || ratio > 64)
    return accel__refuse(b, "field 'mlp_ratio': %g is not supported", ratio);
  m->c.inner = (int64_t)((double)m->c.hidden * ratio);
  if (m->swiglu) m->c.inner = ((int64_t)((double)m->c.inner * 2 / 3) + 7) / 8 * 8;
  b->spelling[0] = spelling;
  if (m->c.image.h != m->c.image.w || m->c.image.h < m->c.patch.h)
    return accel__refuse(b, "field 'image_size': only squares of at least one patch are supported");
  return ACCEL_OK;
}

/* Class token, registers (which have no positions), patches. */
static accel__tensor embeddings(accel__build *b, accel__dinov2 *m, accel__tensor x) {
  const int64_t c = m->c.hidden, one[3] = {1, 1, c}, tokens[3] = {1, m->registers, c};
  const accel__size2 grid = {m->c.image.h / m->c.patch.h, m->c.image.w / m->c.patch.w};
  const int64_t all[3] = {1, 1 + grid.h * grid.w, c};
  const accel__conv patch = {.out = c, .kernel = m->c.patch, .stride = m->c.patch, .bias = true};
  const bool masks =
      b->is_base && b->request->checkpoint != NULL && accel__has(b, "embeddings.mask_token");
  accel__at(b->p, 0, "embeddings");
  x = accel__conv2d(b, x, &patch, "embeddings.patch_embeddings.projection");
  if (x < 0) return -1;
  accel__dim h = m->h = accel__tensor_dim(b->p, x, 2), w = m->w = accel__tensor_dim(b->p, x, 3);
  x = accel__planes_to_items(b, x);
  if (masks) x = accel__masked_rows(b, x, 2, "embeddings.mask_token");
  x = accel__concat(
      b, 1, 2,
      (accel__tensor[]){accel__repeat(b, accel__table(b, 3, one, "embeddings.cls_token"), b->B),
                        x});
  const accel__grid_table position_rows = {
      .table = accel__table(b, 3, all, "embeddings.position_embeddings"),
      .before = 1,
      .grid = grid,
      .antialias = m->with_registers};
  x = accel__binary(b->p, ACCEL_PLUGIN_BINARY_ADD, x, accel__resize_grid(b, &position_rows, h, w));
  if (m->registers > 0) {
    accel__tensor part[3] = {
        accel__slice(b->p, x, 1, 0, 1),
        accel__repeat(b, accel__table(b, 3, tokens, "embeddings.register_tokens"), b->B),
        accel__slice(b->p, x, 1, 1, INT64_MAX)};
    x = accel__concat(b, 1, 3, part);
  }
  m->rows = x < 0 ? -1 : accel__tensor_dim(b->p, x, 1);
  return accel__items_to_rows(b, x, "patches");
}

/* maps: gets those that m->asked names; NULL: none. */
static accel__tensor encoder(accel__build *b, const accel__dinov2 *m, accel__tensor x,
                             accel__tensor *maps) {
  accel__block block = {.q = "attention.attention.query",
                        .k = "attention.attention.key",
                        .v = "attention.attention.value",
                        .o = "attention.output.dense",
                        .norm1 = "norm1",
                        .norm2 = "norm2",
                        .up = "mlp.fc1",
                        .down = "mlp.fc2",
                        .scale1 = "layer_scale1.lambda1",
                        .scale2 = "layer_scale2.lambda1",
                        .hidden = m->c.hidden,
                        .heads = m->c.heads,
                        .inner = m->c.inner,
                        .eps = m->c.eps,
                        .qkv_bias = m->c.qkv_bias,
                        .o_bias = true,
                        .act = m->c.act};
  if (m->swiglu) {
    block.act = (accel__activation){.act = ACCEL_PLUGIN_ACT_SILU};
    block.gate = "mlp.gate_proj";
    block.up = "mlp.up_proj";
    block.down = "mlp.weights_out";
    block.fused_gate = "mlp.weights_in";
  }
  const uint32_t layers = (uint32_t)m->c.layers;
  int64_t n = 0;
  for (uint32_t i = 0; i <= layers; i++) {
    if (i > 0) {
      accel__at(b->p, i, "encoder.layer.%u", i - 1);
      x = accel__pre_norm_block(b, &block, x, "encoder.layer.%u", i - 1);
    }
    accel__hidden_items(b, x, m->rows);
    if (maps != NULL && n < m->n_asked && m->asked[n] == (int64_t)i)
      maps[n++] = m->normed ? accel__norm_layer(b, x, -1, m->c.eps, true, "layernorm") : x;
  }
  accel__at(b->p, layers + 1, "head");
  return x;
}

void accel__dinov2_maps(accel__build *b, accel__dinov2 *m, accel__tensor pixels,
                        accel__tensor *maps) {
  encoder(b, m, embeddings(b, m, pixels), maps);
}

static accel_status build(const accel__model_request *request, const char *architecture,
                          accel__model *model) {
  accel__build b;
  accel__dinov2 m = {.with_registers = strncmp(architecture, "Dinov2WithRegisters", 19) == 0};
  ACCEL_TRY(accel__build_begin(&b, request, architecture, model,
                               m.with_registers ? "dinov2_with_registers." : "dinov2."));
  ACCEL_TRY(accel__dinov2_read(&b, &m));
  accel__tensor x =
      encoder(&b, &m, embeddings(&b, &m, accel__add_pixels(&b, m.c.channels, NULL)), NULL);
  x = accel__norm_layer(&b, x, -1, m.c.eps, true, "layernorm");
  accel__tensor first = accel__first_rows(&b, x);
  if (b.is_base) {
    accel__output_items(&b, "last_hidden_state", x, m.rows, false);
    accel__add_output(&b, "pooler_output", first, 0);
  } else { /* the class token beside the mean of the patches */
    b.in_head = true;
    accel__tensor patches =
        accel__slice(b.p, accel__rows_to_items(&b, x, m.rows), 1, 1 + m.registers, INT64_MAX);
    accel__attr mean[] = {ACCEL_I(KIND, ACCEL_PLUGIN_REDUCE_MEAN), ACCEL_I(AXIS, 1)};
    patches = accel__node(b.p, ACCEL_PLUGIN_OP_REDUCE, &patches, 1, mean, 2, NULL, 1);
    accel__head_sequence(&b, accel__concat(&b, 1, 2, (accel__tensor[]){first, patches}),
                         "classifier");
  }
  return accel__build_end(&b, x);
}

static const char *const classes[] = {"Dinov2Model", "Dinov2ForImageClassification", NULL};
const accel__architecture accel__model_dinov2 = {
    .model_type = "dinov2", .classes = classes, .build = build};
static const char *const register_classes[] = {"Dinov2WithRegistersModel",
                                               "Dinov2WithRegistersForImageClassification", NULL};
const accel__architecture accel__model_dinov2_registers = {
    .model_type = "dinov2_with_registers", .classes = register_classes, .build = build};
