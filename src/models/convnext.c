/* convnext.c - ConvNeXt (transformers' ConvNextModel and classifier): depthwise convolutions on
 * planes, norms and linears on rows. */
#include "modeling/vision.h"

enum { MAX_STAGES = 16 };
typedef struct convnext {
  int64_t channels, stages, hidden[MAX_STAGES], depths[MAX_STAGES];
  accel__size2 patch;
  double eps;
  bool scaled; /* layer scale */
  accel__activation act;
} convnext;

static const double inner_eps = 1e-6; /* of all norms but the last */

static accel_status read_config(accel__build *b, convnext *c) {
  *c = (convnext){.channels = 3,
                  .stages = 4,
                  .hidden = {96, 192, 384, 768},
                  .depths = {3, 3, 9, 3},
                  .patch = {4, 4},
                  .eps = 1e-12,
                  .act = {.act = ACCEL_PLUGIN_ACT_GELU}};
  double scale = 1e-6;
  const accel__json *sizes = accel__json_get(b->config, "hidden_sizes");
  if (cJSON_IsArray(sizes)) c->stages = cJSON_GetArraySize(sizes);
  const accel__field fields[] = {ACCEL_FIELD_INT("num_channels", &c->channels, 1, ACCEL__MAX_WIDTH),
                                 ACCEL_FIELD_INT("num_stages", &c->stages, 1, MAX_STAGES),
                                 ACCEL_FIELD_NUMBER("layer_norm_eps", &c->eps),
                                 ACCEL_FIELD_NUMBER("layer_scale_init_value", &scale),
                                 ACCEL_FIELD_ACT("hidden_act", &c->act)};
  ACCEL_TRY(accel__read_fields(b, fields, sizeof fields / sizeof *fields));
  if (c->stages < 1 || c->stages > MAX_STAGES)
    return accel__refuse(b, "field 'hidden_sizes' has %lld entries", (long long)c->stages);
  ACCEL_TRY(accel__read_ints(b, "hidden_sizes", c->stages, 1, ACCEL__MAX_WIDTH, c->hidden));
  ACCEL_TRY(accel__read_ints(b, "depths", c->stages, 0, ACCEL__MAX_LAYERS, c->depths));
  ACCEL_TRY(accel__read_size2(b, "patch_size", 1, 1024, &c->patch));
  c->scaled = scale > 0;
  b->model->hidden_size = c->hidden[c->stages - 1];
  return accel__read_labels(b);
}

static accel__tensor to_rows(accel__build *b, accel__tensor x) {
  return accel__transpose(b, x, 4, (int64_t[]){0, 2, 3, 1});
}
static accel__tensor to_planes(accel__build *b, accel__tensor x) {
  return accel__transpose(b, x, 4, (int64_t[]){0, 3, 1, 2});
}

/* x + scale * down(act(up(norm(depthwise(x))))) */
static accel__tensor layer(accel__build *b, const convnext *c, accel__tensor x, int64_t dim,
                           const char *path) {
  const accel__conv depthwise = {
      .out = dim, .kernel = {7, 7}, .pad = {3, 3}, .groups = dim, .bias = true};
  accel__tensor y = to_rows(b, accel__conv2d(b, x, &depthwise, "%s.dwconv", path));
  y = accel__norm_layer(b, y, -1, inner_eps, true, "%s.layernorm", path);
  y = accel__dense_layer(b, y, 4 * dim, true, -1, &c->act, "%s.pwconv1", path);
  y = accel__dense_layer(b, y, dim, true, -1, NULL, "%s.pwconv2", path);
  if (c->scaled)
    y = accel__binary(
        b->p, ACCEL_PLUGIN_BINARY_MUL, y,
        accel__table(b, 1, &dim, accel__arena_printf(b->arena, "%s.layer_scale_parameter", path)));
  return accel__binary(b->p, ACCEL_PLUGIN_BINARY_ADD, x, to_planes(b, y));
}

static accel__tensor encoder(accel__build *b, const convnext *c, accel__tensor x) {
  const accel__conv patch = {
      .out = c->hidden[0], .kernel = c->patch, .stride = c->patch, .bias = true};
  accel__at(b->p, 0, "embeddings");
  x = to_rows(b, accel__conv2d(b, x, &patch, "embeddings.patch_embeddings"));
  x = to_planes(b, accel__norm_layer(b, x, -1, inner_eps, true, "embeddings.layernorm"));
  accel__add_hidden(b, x);
  for (int64_t i = 0; i < c->stages; i++) {
    accel__at(b->p, (uint32_t)i + 1, "encoder.stages.%lld", (long long)i);
    if (i > 0) { /* also where the width stays: the stride is 2 */
      const accel__conv down = {
          .out = c->hidden[i], .kernel = {2, 2}, .stride = {2, 2}, .bias = true};
      x = accel__norm_layer(b, to_rows(b, x), -1, inner_eps, true,
                            "encoder.stages.%lld.downsampling_layer.0", (long long)i);
      x = accel__conv2d(b, to_planes(b, x), &down, "encoder.stages.%lld.downsampling_layer.1",
                        (long long)i);
    }
    for (int64_t j = 0; j < c->depths[i]; j++)
      x = layer(b, c, x, c->hidden[i],
                accel__arena_printf(b->arena, "encoder.stages.%lld.layers.%lld", (long long)i,
                                    (long long)j));
    accel__add_hidden(b, x);
  }
  accel__at(b->p, (uint32_t)c->stages + 1, "head");
  return x;
}

static accel_status build(const accel__model_request *request, const char *architecture,
                          accel__model *model) {
  accel__build b;
  convnext c;
  const int64_t one[2] = {1, 1};
  ACCEL_TRY(accel__build_begin(&b, request, architecture, model, "convnext."));
  ACCEL_TRY(read_config(&b, &c));
  accel__tensor x = encoder(&b, &c, accel__add_pixels(&b, c.channels, NULL));
  accel__attr attr[] = {ACCEL_I(KIND, ACCEL_PLUGIN_POOL_AVG), ACCEL_IV(ADAPTIVE, one, 2)};
  accel__tensor pooled = accel__node(b.p, ACCEL_PLUGIN_OP_POOL, &x, 1, attr, 2, NULL, 1);
  pooled = accel__reshape(b.p, pooled, 2,
                          (accel__dim[]){b.B, accel__const_dim(b.p, model->hidden_size)});
  pooled = accel__norm_layer(&b, pooled, -1, c.eps, true, "layernorm");
  if (b.is_base) {
    accel__add_output(&b, "last_hidden_state", x, 0);
    accel__add_output(&b, "pooler_output", pooled, 0);
  } else {
    b.in_head = true;
    accel__head_sequence(&b, pooled, "classifier");
  }
  return accel__build_end(&b, x);
}

static const char *const classes[] = {"ConvNextModel", "ConvNextForImageClassification", NULL};
const accel__architecture accel__model_convnext = {
    .model_type = "convnext", .classes = classes, .build = build};
