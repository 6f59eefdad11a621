/* convnext.c - ConvNeXt (transformers' ConvNextModel and classifier, and DINOv3ConvNextModel):
 * depthwise convolutions on planes, norms and linears on rows. */
#include <string.h>

#include "modeling/vision.h"

enum { MAX_STAGES = 16 };
typedef struct convnext {
  int64_t channels, stages, hidden[MAX_STAGES], depths[MAX_STAGES];
  accel__size2 patch;
  double eps, inner_eps; /* of the last norm, and of all others */
  bool scaled;           /* layer scale */
  bool dino;             /* DINOv3: the stem is no hidden state, the picture is one */
  accel__activation act;
} convnext;

static const accel__rename dino_spelling[] = {
    {"embeddings.patch_embeddings", "stages.0.downsample_layers.0"},
    {"embeddings.layernorm", "stages.0.downsample_layers.1"},
    {"encoder.stages.", "stages."},
    {"downsampling_layer", "downsample_layers"},
    {"dwconv", "depthwise_conv"},
    {"pwconv", "pointwise_conv"},
    {"layer_scale_parameter", "gamma"},
    {"layernorm", "layer_norm"},
    {NULL, NULL}};

static accel_status read_config(accel__build *b, convnext *c) {
  const bool dino = strncmp(b->model->architecture, "DINOv3", 6) == 0;
  *c = (convnext){.channels = 3,
                  .stages = 4,
                  .hidden = {96, 192, 384, 768},
                  .depths = {3, 3, 9, 3},
                  .patch = {4, 4},
                  .eps = dino ? 1e-6 : 1e-12,
                  .inner_eps = 1e-6,
                  .dino = dino,
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
  if (dino) b->spelling[0] = dino_spelling;
  if (dino) c->inner_eps = c->eps;
  if (c->stages < 1 || c->stages > MAX_STAGES)
    return accel__refuse(b, "field 'hidden_sizes' has %lld entries", (long long)c->stages);
  ACCEL_TRY(accel__read_ints(b, "hidden_sizes", c->stages, 1, ACCEL__MAX_WIDTH, c->hidden));
  ACCEL_TRY(accel__read_ints(b, "depths", c->stages, 0, ACCEL__MAX_LAYERS, c->depths));
  if (!dino) ACCEL_TRY(accel__read_size2(b, "patch_size", 1, 1024, &c->patch));
  c->scaled = dino || scale > 0;
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
  y = accel__norm_layer(b, y, -1, c->inner_eps, true, "%s.layernorm", path);
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
  if (c->dino) accel__add_hidden(b, accel__affine(b, x, 1.0, 0.0)); /* an output is a node's */
  x = to_rows(b, accel__conv2d(b, x, &patch, "embeddings.patch_embeddings"));
  x = to_planes(b, accel__norm_layer(b, x, -1, c->inner_eps, true, "embeddings.layernorm"));
  if (!c->dino) accel__add_hidden(b, x);
  for (int64_t i = 0; i < c->stages; i++) {
    accel__at(b->p, (uint32_t)i + 1, "encoder.stages.%lld", (long long)i);
    if (i > 0) { /* also where the width stays: the stride is 2 */
      const accel__conv down = {
          .out = c->hidden[i], .kernel = {2, 2}, .stride = {2, 2}, .bias = true};
      x = accel__norm_layer(b, to_rows(b, x), -1, c->inner_eps, true,
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

/* The mean of the map in front of its rows, all normalised: "last_hidden_state" [B,1+h*w,C]. */
static void output_rows(accel__build *b, const convnext *c, accel__tensor x, accel__tensor mean) {
  if (x < 0 || mean < 0) return;
  accel__dim width = accel__const_dim(b->p, b->model->hidden_size);
  mean = accel__reshape(b->p, mean, 3, (accel__dim[]){b->B, accel__const_dim(b->p, 1), width});
  x = accel__concat(b, 1, 2, (accel__tensor[]){mean, accel__planes_to_items(b, x)});
  x = accel__norm_layer(b, x, -1, c->eps, true, "layernorm");
  accel__tensor first = accel__slice(b->p, x, 1, 0, 1);
  accel__add_output(b, "last_hidden_state", x, 0);
  accel__add_output(b, "pooler_output", accel__reshape(b->p, first, 2, (accel__dim[]){b->B, width}),
                    0);
}

static accel_status build(const accel__model_request *request, const char *architecture,
                          accel__model *model) {
  accel__build b;
  convnext c;
  const int64_t one[2] = {1, 1};
  const bool dino = strncmp(architecture, "DINOv3", 6) == 0;
  ACCEL_TRY(accel__build_begin(&b, request, architecture, model, dino ? "model." : "convnext."));
  ACCEL_TRY(read_config(&b, &c));
  accel__tensor x = encoder(&b, &c, accel__add_pixels(&b, c.channels, NULL));
  accel__attr attr[] = {ACCEL_I(KIND, ACCEL_PLUGIN_POOL_AVG), ACCEL_IV(ADAPTIVE, one, 2)};
  accel__tensor pooled = accel__node(b.p, ACCEL_PLUGIN_OP_POOL, &x, 1, attr, 2, NULL, 1);
  if (dino) {
    output_rows(&b, &c, x, pooled);
    return accel__build_end(&b, x);
  }
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
static const char *const dino_classes[] = {"DINOv3ConvNextModel", NULL};
const accel__architecture accel__model_dinov3_convnext = {
    .model_type = "dinov3_convnext", .classes = dino_classes, .build = build};
