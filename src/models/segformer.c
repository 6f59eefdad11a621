/* segformer.c - SegFormer (transformers' SegformerModel, its classifier and its semantic
 * segmentation): overlapping patches in stages, attention to keys of a coarser map, a depthwise
 * convolution inside each MLP. */
#include <stdio.h>

#include "modeling/vision.h"

enum { MAX_STAGES = 16 };
typedef struct segformer {
  int64_t channels, stages, depths[MAX_STAGES], hidden[MAX_STAGES], patch[MAX_STAGES],
      step[MAX_STAGES], heads[MAX_STAGES], ratio[MAX_STAGES], inner[MAX_STAGES], decoder;
  bool planes_last, new_names;
  accel__activation act;
  accel__tensor map[MAX_STAGES]; /* [B,C,h,w] of each stage */
} segformer;

static const double eps = 1e-5; /* torch's default: the class does not read layer_norm_eps */
static const accel__rename spelling[] = {
    {"attention.self.query", "attention.q_proj"},
    {"attention.self.key", "attention.k_proj"},
    {"attention.self.value", "attention.v_proj"},
    {"attention.self.sr", "attention.sequence_reduction.sequence_reduction"},
    {"attention.self.layer_norm", "attention.sequence_reduction.layer_norm"},
    {"attention.output.dense", "attention.o_proj"},
    {"mlp.dense1", "mlp.fc1"},
    {"mlp.dense2", "mlp.fc2"},
    {"layer_norm_1", "layernorm_before"},
    {"layer_norm_2", "layernorm_after"},
    {"decode_head.linear_c", "decode_head.linear_projections"},
    {NULL, NULL}};

static accel_status read_config(accel__build *b, segformer *c) {
  *c = (segformer){.channels = 3,
                   .stages = 4,
                   .depths = {2, 2, 2, 2},
                   .hidden = {32, 64, 160, 256},
                   .patch = {7, 3, 3, 3},
                   .step = {4, 2, 2, 2},
                   .heads = {1, 2, 5, 8},
                   .ratio = {8, 4, 2, 1},
                   .inner = {4, 4, 4, 4},
                   .decoder = 256,
                   .planes_last = true,
                   .act = {.act = ACCEL_PLUGIN_ACT_GELU}};
  const accel__field fields[] = {
      ACCEL_FIELD_INT("num_channels", &c->channels, 1, ACCEL__MAX_WIDTH),
      ACCEL_FIELD_INT("num_encoder_blocks", &c->stages, 1, MAX_STAGES),
      ACCEL_FIELD_INT("decoder_hidden_size", &c->decoder, 1, ACCEL__MAX_WIDTH),
      ACCEL_FIELD_BOOL("reshape_last_stage", &c->planes_last),
      ACCEL_FIELD_ACT("hidden_act", &c->act)};
  ACCEL_TRY(accel__read_fields(b, fields, sizeof fields / sizeof *fields));
  const struct {
    const char *key;
    int64_t least, *to;
  } lists[] = {
      {"depths", 0, c->depths}, {"hidden_sizes", 1, c->hidden},       {"patch_sizes", 1, c->patch},
      {"strides", 1, c->step},  {"num_attention_heads", 1, c->heads}, {"sr_ratios", 1, c->ratio}};
  for (size_t i = 0; i < sizeof lists / sizeof *lists; i++)
    ACCEL_TRY(accel__read_ints(b, lists[i].key, c->stages, lists[i].least, ACCEL__MAX_WIDTH,
                               lists[i].to));
  const accel__json *ratios = NULL;
  ACCEL_TRY(accel__json_array(b->file, b->config, "mlp_ratios", &ratios));
  for (int64_t i = 0; i < c->stages; i++) {
    const accel__json *item = ratios != NULL ? cJSON_GetArrayItem(ratios, (int)i) : NULL;
    double ratio = item != NULL && cJSON_IsNumber(item) ? item->valuedouble
                   : ratios == NULL                     ? 4.0
                                                        : 0.0;
    if (!(ratio > 0) || ratio > 64)
      return accel__refuse(b, "field 'mlp_ratios': entry %lld is not supported", (long long)i);
    c->inner[i] = (int64_t)((double)c->hidden[i] * ratio);
    ACCEL_TRY(accel__divides(b, "num_attention_heads", c->heads[i], "hidden_sizes", c->hidden[i]));
  }
  b->spelling[0] = spelling;
  b->model->hidden_size = c->hidden[c->stages - 1];
  return accel__read_labels(b);
}

/* Rows [B*h*w, C] of b->space as planes. */
static accel__tensor planes(accel__build *b, accel__tensor x, accel__dim h, accel__dim w) {
  if (x < 0) return -1;
  x = accel__reshape(b->p, x, 4, (accel__dim[]){b->B, h, w, accel__tensor_dim(b->p, x, 1)});
  return accel__transpose(b, x, 4, (int64_t[]){0, 3, 1, 2});
}

static accel__tensor rows(accel__build *b, accel__tensor x) {
  if (x < 0) return -1;
  x = accel__planes_to_items(b, x);
  return accel__reshape(
      b->p, x, 2,
      (accel__dim[]){accel__times(b, accel__tensor_dim(b->p, x, 0), accel__tensor_dim(b->p, x, 1)),
                     accel__tensor_dim(b->p, x, 2)});
}

static accel__tensor block(accel__build *b, const segformer *c, accel__tensor x, int64_t i,
                           accel__dim h, accel__dim w, const char *path) {
  const int64_t dim = c->hidden[i], r = c->ratio[i];
  accel__attention how = accel__attention_of(b, c->heads[i]);
  accel__tensor y = accel__norm_layer(b, x, -1, eps, true, "%s.layer_norm_1", path), keys = y;
  if (r > 1) {
    const accel__conv reduce = {.out = dim, .kernel = {r, r}, .stride = {r, r}, .bias = true};
    const int32_t own = b->space;
    keys = accel__items_to_rows(
        b,
        accel__planes_to_items(
            b, accel__conv2d(b, planes(b, y, h, w), &reduce, "%s.attention.self.sr", path)),
        "keys");
    how.kv_space = b->space;
    b->space = own;
    keys = accel__norm_layer(b, keys, -1, eps, true, "%s.attention.self.layer_norm", path);
  }
  accel__tensor q = accel__dense_layer(b, y, dim, true, -1, NULL, "%s.attention.self.query", path);
  accel__tensor k = accel__dense_layer(b, keys, dim, true, -1, NULL, "%s.attention.self.key", path);
  accel__tensor v =
      accel__dense_layer(b, keys, dim, true, -1, NULL, "%s.attention.self.value", path);
  x = accel__dense_layer(b, accel__attend(b, q, k, v, &how), dim, true, x, NULL,
                         "%s.attention.output.dense", path);
  y = accel__norm_layer(b, x, -1, eps, true, "%s.layer_norm_2", path);
  y = accel__dense_layer(b, y, c->inner[i], true, -1, NULL, "%s.mlp.dense1", path);
  const accel__conv depthwise = {.out = c->inner[i],
                                 .kernel = {3, 3},
                                 .pad = {1, 1},
                                 .groups = c->inner[i],
                                 .bias = true,
                                 .act = &c->act};
  y = rows(b, accel__conv2d(b, planes(b, y, h, w), &depthwise, "%s.mlp.dwconv.dwconv", path));
  return accel__dense_layer(b, y, dim, true, x, NULL, "%s.mlp.dense2", path);
}

static accel__tensor encoder(accel__build *b, segformer *c, accel__tensor x) {
  accel__tensor last = -1;
  c->new_names =
      b->request->checkpoint != NULL && accel__has(b, "stages.0.patch_embeddings.proj.weight");
  const char *const embed =
      c->new_names ? "stages.%lld.patch_embeddings" : "encoder.patch_embeddings.%lld";
  const char *const layer = c->new_names ? "stages.%lld.blocks.%lld" : "encoder.block.%lld.%lld";
  const char *const norm = c->new_names ? "stages.%lld.layer_norm" : "encoder.layer_norm.%lld";
  for (int64_t i = 0; i < c->stages; i++) {
    char path[96];
    const accel__conv patch = {.out = c->hidden[i],
                               .kernel = {c->patch[i], c->patch[i]},
                               .stride = {c->step[i], c->step[i]},
                               .pad = {c->patch[i] / 2, c->patch[i] / 2},
                               .bias = true};
    snprintf(path, sizeof path, embed, (long long)i);
    accel__at(b->p, (uint32_t)i, "%s", path);
    x = accel__conv2d(b, x, &patch, "%s.proj", path);
    if (x < 0) return -1;
    accel__dim h = accel__tensor_dim(b->p, x, 2), w = accel__tensor_dim(b->p, x, 3);
    x = accel__norm_layer(b, accel__items_to_rows(b, accel__planes_to_items(b, x), "map"), -1, eps,
                          true, "%s.layer_norm", path);
    for (int64_t j = 0; j < c->depths[i]; j++) {
      snprintf(path, sizeof path, layer, (long long)i, (long long)j);
      x = block(b, c, x, i, h, w, path);
    }
    snprintf(path, sizeof path, norm, (long long)i);
    last = accel__norm_layer(b, x, -1, eps, true, "%s", path);
    x = c->map[i] = planes(b, last, h, w);
    accel__add_hidden(b, i + 1 < c->stages || c->planes_last
                             ? x
                             : accel__rows_to_items(b, last, accel__times(b, h, w)));
  }
  accel__at(b->p, (uint32_t)c->stages, "head");
  return last; /* rows */
}

/* All stages at the size of the first, side by side, last stage first; fused, normalised,
 * classified. */
static accel__tensor decode(accel__build *b, const segformer *c) {
  static const accel__activation relu = {.act = ACCEL_PLUGIN_ACT_RELU};
  const accel__conv fuse = {.out = c->decoder, .kernel = {1, 1}, .act = &relu},
                    classes = {.out = b->model->num_labels, .kernel = {1, 1}, .bias = true};
  accel__tensor part[MAX_STAGES];
  for (int64_t i = 0; i < c->stages; i++) {
    if (c->map[i] < 0) return -1;
    accel__dim h = accel__tensor_dim(b->p, c->map[i], 2), w = accel__tensor_dim(b->p, c->map[i], 3);
    int64_t shape[2] = {accel__tensor_dim(b->p, c->map[0], 2),
                        accel__tensor_dim(b->p, c->map[0], 3)};
    accel__tensor x = accel__dense_layer(b, rows(b, c->map[i]), c->decoder, true, -1, NULL,
                                         "decode_head.linear_c.%lld.proj", (long long)i);
    accel__attr attr[] = {ACCEL_I(KIND, ACCEL_PLUGIN_RESIZE_LINEAR), ACCEL_D(SHAPE, shape, 2)};
    x = planes(b, x, h, w);
    part[c->stages - 1 - i] =
        i == 0 ? x : accel__node(b->p, ACCEL_PLUGIN_OP_RESIZE, &x, 1, attr, 2, NULL, 1);
  }
  accel__tensor x = accel__concat(b, 1, (uint32_t)c->stages, part);
  x = accel__conv2d_norm(b, x, &fuse, 1e-5, "decode_head.linear_fuse", "decode_head.batch_norm");
  return accel__conv2d(b, x, &classes, "decode_head.classifier");
}

static accel_status build(const accel__model_request *request, const char *architecture,
                          accel__model *model) {
  accel__build b;
  segformer c;
  ACCEL_TRY(accel__build_begin(&b, request, architecture, model, "segformer."));
  ACCEL_TRY(read_config(&b, &c));
  if (!c.planes_last && accel__is_class(&b, "ForSemanticSegmentation"))
    return accel__refuse(&b, "field 'reshape_last_stage': false is not supported by %s",
                         architecture);
  b.images.typical_size[0] = b.images.typical_size[1] = 512; /* the image processor's */
  accel__tensor x = encoder(&b, &c, accel__add_pixels(&b, c.channels, NULL));
  b.in_head = !b.is_base;
  if (b.is_base) {
    accel__tensor map = c.map[c.stages - 1];
    if (!c.planes_last && map >= 0)
      map = accel__rows_to_items(
          &b, x, accel__times(&b, accel__tensor_dim(b.p, map, 2), accel__tensor_dim(b.p, map, 3)));
    accel__add_output(&b, "last_hidden_state", map, 0);
  } else if (accel__is_class(&b, "ForSemanticSegmentation")) {
    accel__add_output(&b, "logits", decode(&b, &c), 0);
  } else {
    accel__head_sequence(&b, accel__reduce_rows(b.p, ACCEL_PLUGIN_REDUCE_MEAN, x, -1, b.space),
                         "classifier");
  }
  return accel__build_end(&b, x);
}

static const char *const classes[] = {"SegformerModel", "SegformerForImageClassification",
                                      "SegformerForSemanticSegmentation", NULL};
const accel__architecture accel__model_segformer = {
    .model_type = "segformer", .classes = classes, .build = build};
