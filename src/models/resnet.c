/* resnet.c - ResNet (transformers' ResNetModel and classifier).  Batch norms are folded into the
 * convolutions before them.
 */
#include "models/resnet.h"

#include <stdio.h>
#include <string.h>

static const double norm_eps = 1e-5; /* torch's default, which transformers and timm leave */

/* Stages are built up to the last one asked for. */
static accel_status read_last(accel__build *b, accel__resnet *c) {
  ACCEL_TRY(accel__read_stages(b, c->timm ? "act1" : "stem", c->timm ? "layer" : "stage", c->stages,
                               c->asked, &c->n_asked));
  c->last = c->n_asked > 0 ? c->asked[c->n_asked - 1] : c->stages;
  return ACCEL_OK;
}

accel_status accel__resnet_read(accel__build *b, accel__resnet *c) {
  *c = (accel__resnet){.channels = 3,
                       .embedding = 64,
                       .stages = 4,
                       .hidden = {256, 512, 1024, 2048},
                       .depths = {3, 4, 6, 3},
                       .act = {.act = ACCEL_PLUGIN_ACT_RELU}};
  const char *type = NULL;
  const accel__json *depths = NULL;
  const accel__field fields[] = {
      ACCEL_FIELD_INT("num_channels", &c->channels, 1, ACCEL__MAX_WIDTH),
      ACCEL_FIELD_INT("embedding_size", &c->embedding, 1, ACCEL__MAX_WIDTH),
      ACCEL_FIELD_BOOL("downsample_in_first_stage", &c->downsample_first),
      ACCEL_FIELD_BOOL("downsample_in_bottleneck", &c->downsample_in_bottleneck),
      ACCEL_FIELD_ACT("hidden_act", &c->act),
      ACCEL_FIELD_STRING("layer_type", &type),
  };
  ACCEL_TRY(accel__read_fields(b, fields, sizeof fields / sizeof *fields));
  ACCEL_TRY(accel__json_array(b->file, b->config, "depths", &depths));
  if (depths != NULL) c->stages = cJSON_GetArraySize(depths);
  if (c->stages < 1 || c->stages > ACCEL__MAX_STAGES)
    return accel__refuse(b, "field 'depths' has %lld entries", (long long)c->stages);
  ACCEL_TRY(accel__read_ints(b, "depths", c->stages, 1, ACCEL__MAX_LAYERS, c->depths));
  ACCEL_TRY(accel__read_ints(b, "hidden_sizes", c->stages, 1, ACCEL__MAX_WIDTH, c->hidden));
  c->basic = type != NULL && strcmp(type, "basic") == 0;
  if (type != NULL && !c->basic && strcmp(type, "bottleneck") != 0)
    return accel__refuse(b, "field 'layer_type': '%s' is not supported; known: basic, bottleneck",
                         type);
  for (int64_t i = 0; !c->basic && i < c->stages; i++)
    if (c->hidden[i] < 4)
      return accel__refuse(b, "field 'hidden_sizes': %lld is too small for a bottleneck",
                           (long long)c->hidden[i]);
  return read_last(b, c);
}

accel_status accel__resnet_of_timm(accel__build *b, const char *name, bool all, accel__resnet *c) {
  static const struct {
    const char *name;
    bool basic;
    int64_t depths[4];
  } known[] = {{"resnet18", true, {2, 2, 2, 2}},    {"resnet34", true, {3, 4, 6, 3}},
               {"resnet26", false, {2, 2, 2, 2}},   {"resnet50", false, {3, 4, 6, 3}},
               {"resnet101", false, {3, 4, 23, 3}}, {"resnet152", false, {3, 8, 36, 3}}};
  size_t length = strcspn(name, "."); /* "resnet50.a1_in1k": weights of that name */
  for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
    if (strlen(known[i].name) != length || strncmp(known[i].name, name, length) != 0) continue;
    *c = (accel__resnet){.channels = 3,
                         .embedding = 64,
                         .stages = 4,
                         .basic = known[i].basic,
                         .timm = true,
                         .act = {.act = ACCEL_PLUGIN_ACT_RELU}};
    for (int64_t k = 0; k < 4; k++) {
      c->depths[k] = known[i].depths[k];
      c->hidden[k] = (known[i].basic ? 64 : 256) << k;
    }
    ACCEL_TRY(read_last(b, c));
    for (int64_t k = 1; all && c->n_asked < 4; k++) c->asked[c->n_asked++] = k;
    return ACCEL_OK;
  }
  return accel__refuse(b,
                       "field 'backbone': '%s' is not supported; known: resnet18, resnet26, "
                       "resnet34, resnet50, resnet101, resnet152",
                       name);
}

/* Parts of a block that are no convolution of its own: its shortcut, and that behind an average. */
enum { SHORTCUT = -1, AVERAGED = -2 };

/* Names of the three kinds of convolution and norm of block `j` of stage `i`. */
static accel__tensor unit(accel__build *b, const accel__resnet *c, accel__tensor x,
                          const accel__conv *how, int64_t i, int64_t j, int part) {
  char conv[96], norm[96];
  const char *behind = part == AVERAGED ? ".1" : "";
  long long stage = i, block = j;
  if (c->timm && part < 0) {
    snprintf(conv, sizeof conv, "layer%lld.%lld.downsample.0", stage + 1, block);
    snprintf(norm, sizeof norm, "layer%lld.%lld.downsample.1", stage + 1, block);
  } else if (c->timm) {
    snprintf(conv, sizeof conv, "layer%lld.%lld.conv%d", stage + 1, block, part + 1);
    snprintf(norm, sizeof norm, "layer%lld.%lld.bn%d", stage + 1, block, part + 1);
  } else if (part < 0) {
    snprintf(conv, sizeof conv, "encoder.stages.%lld.layers.%lld.shortcut%s.convolution", stage,
             block, behind);
    snprintf(norm, sizeof norm, "encoder.stages.%lld.layers.%lld.shortcut%s.normalization", stage,
             block, behind);
  } else {
    snprintf(conv, sizeof conv, "encoder.stages.%lld.layers.%lld.layer.%d.convolution", stage,
             block, part);
    snprintf(norm, sizeof norm, "encoder.stages.%lld.layers.%lld.layer.%d.normalization", stage,
             block, part);
  }
  return accel__conv2d_norm(b, x, how, norm_eps, conv, norm);
}

static accel__conv square(int64_t out, int64_t kernel, int64_t stride, int64_t dilation,
                          const accel__activation *act) {
  int64_t pad = kernel / 2 * dilation;
  return (accel__conv){.out = out,
                       .kernel = {kernel, kernel},
                       .stride = {stride, stride},
                       .pad = {pad, pad},
                       .dilation = {dilation, dilation},
                       .act = act};
}

/* What is added to a block's convolutions. */
static accel__tensor shortcut_of(accel__build *b, const accel__resnet *c, accel__tensor x,
                                 int64_t i, int64_t j, int64_t stride) {
  const int64_t out = c->hidden[i], two[2] = {2, 2};
  int64_t in = 0;
  accel__dim_value(b->p, accel__tensor_dim(b->p, x, 1), &in);
  /* the deep ones': of basic blocks the first of each stage has one, which averages where it widens */
  const bool averages = c->deep && (c->basic ? in != out : stride == 2);
  if (in == out && stride == 1 && !(c->deep && c->basic && j == 0)) return x;
  const accel__conv how = square(out, 1, averages ? 1 : stride, 1, NULL);
  accel__attr attr[] = {ACCEL_I(KIND, ACCEL_PLUGIN_POOL_AVG), ACCEL_IV(KERNEL, two, 2),
                        ACCEL_IV(STRIDE, two, 2), ACCEL_I(CEIL, 1)};
  if (averages) x = accel__node(b->p, ACCEL_PLUGIN_OP_POOL, &x, 1, attr, 4, NULL, 1);
  return unit(b, c, x, &how, i, j, averages ? AVERAGED : SHORTCUT);
}

/* act(convolutions(x) + shortcut(x)); `first` dilates the first 3x3 convolution, `dilation` the
 * second of a basic block. */
static accel__tensor block(accel__build *b, const accel__resnet *c, accel__tensor x, int64_t i,
                           int64_t j, int64_t stride, int64_t first, int64_t dilation) {
  /* transformers leaves the inner ones at relu */
  static const accel__activation relu = {.act = ACCEL_PLUGIN_ACT_RELU};
  const int64_t out = c->hidden[i];
  accel__conv conv[3];
  int n = 0;
  if (c->basic) {
    conv[n++] = square(out, 3, stride, first, &relu);
    conv[n++] = square(out, 3, 1, dilation, NULL);
  } else {
    conv[n++] = square(out / 4, 1, c->downsample_in_bottleneck ? stride : 1, 1, &relu);
    conv[n++] = square(out / 4, 3, c->downsample_in_bottleneck ? 1 : stride, first, &relu);
    conv[n++] = square(out, 1, 1, 1, NULL);
  }
  conv[n - 1].residual = shortcut_of(b, c, x, i, j, stride);
  conv[n - 1].act = &c->act;
  for (int k = 0; k < n; k++) x = unit(b, c, x, &conv[k], i, j, k);
  return x;
}

/* The stem's convolutions. */
static accel__tensor stem(accel__build *b, const accel__resnet *c, accel__tensor x) {
  static const accel__activation relu = {.act = ACCEL_PLUGIN_ACT_RELU};
  const accel__conv whole = square(c->embedding, 7, 2, 1, c->timm ? &relu : &c->act);
  if (c->timm) return accel__conv2d_norm(b, x, &whole, norm_eps, "conv1", "bn1");
  if (!c->deep)
    return accel__conv2d_norm(b, x, &whole, norm_eps, "embedder.embedder.convolution",
                              "embedder.embedder.normalization");
  for (int i = 0; i < 3; i++) {
    char conv[64], norm[64];
    const accel__conv how =
        square(i < 2 ? c->embedding / 2 : c->embedding, 3, i == 0 ? 2 : 1, 1, &c->act);
    snprintf(conv, sizeof conv, "embedder.embedder.%d.convolution", i);
    snprintf(norm, sizeof norm, "embedder.embedder.%d.normalization", i);
    x = accel__conv2d_norm(b, x, &how, norm_eps, conv, norm);
  }
  return x;
}

accel__tensor accel__resnet_features(accel__build *b, const accel__resnet *c, accel__tensor pixels,
                                     bool hidden, accel__tensor *maps) {
  const int64_t kernel[2] = {3, 3}, stride[2] = {2, 2}, pads[4] = {1, 1, 1, 1};
  accel__at(b->p, 0, "embedder");
  accel__tensor x = stem(b, c, pixels);
  const accel__tensor first = x;
  accel__attr attr[] = {ACCEL_I(KIND, ACCEL_PLUGIN_POOL_MAX), ACCEL_IV(KERNEL, kernel, 2),
                        ACCEL_IV(STRIDE, stride, 2), ACCEL_IV(PADS, pads, 4)};
  x = accel__node(b->p, ACCEL_PLUGIN_OP_POOL, &x, 1, attr, 4, NULL, 1);
  if (hidden) accel__add_hidden(b, x);
  if (maps != NULL) maps[0] = c->timm ? first : x;
  int64_t cell = 4, dilation = 1;
  for (int64_t i = 0; i < c->last; i++) {
    const bool halve = i > 0 || c->downsample_first,
               dilate = halve && c->limit > 0 && cell >= c->limit;
    const int64_t before = dilation;
    if (dilate) dilation *= 2;
    if (halve && !dilate && cell < INT32_MAX) cell *= 2;
    accel__at(b->p, (uint32_t)i + 1, "encoder.stages.%lld", (long long)i);
    for (int64_t j = 0; j < c->depths[i]; j++) {
      int64_t step = j > 0 || dilate || !halve ? 1 : 2;
      x = block(b, c, x, i, j, step, j > 0 ? dilation : before, dilation);
    }
    if (hidden) accel__add_hidden(b, x);
    if (maps != NULL) maps[i + 1] = x;
  }
  accel__at(b->p, (uint32_t)c->last + 1, "head");
  return x;
}

static accel_status build(const accel__model_request *request, const char *architecture,
                          accel__model *model) {
  accel__build b;
  accel__resnet c;
  ACCEL_TRY(accel__build_begin(&b, request, architecture, model, "resnet."));
  ACCEL_TRY(accel__resnet_read(&b, &c));
  c.last = c.stages; /* out_features speak to backbones */
  ACCEL_TRY(accel__read_labels(&b));
  model->hidden_size = c.hidden[c.stages - 1];
  accel__tensor x =
      accel__resnet_features(&b, &c, accel__add_pixels(&b, c.channels, NULL), true, NULL);
  const int64_t one[2] = {1, 1};
  accel__attr attr[] = {ACCEL_I(KIND, ACCEL_PLUGIN_POOL_AVG), ACCEL_IV(ADAPTIVE, one, 2)};
  /* [B,C,1,1] */
  accel__tensor pooled = accel__node(b.p, ACCEL_PLUGIN_OP_POOL, &x, 1, attr, 2, NULL, 1);
  if (b.is_base) {
    accel__add_output(&b, "last_hidden_state", x, 0);
    accel__add_output(&b, "pooler_output", pooled, 0);
  } else {
    b.in_head = true;
    pooled = accel__reshape(b.p, pooled, 2,
                            (accel__dim[]){b.B, accel__const_dim(b.p, model->hidden_size)});
    accel__head_sequence(&b, pooled, "classifier.1");
  }
  return accel__build_end(&b, x);
}

static const char *const classes[] = {"ResNetModel", "ResNetForImageClassification", NULL};
const accel__architecture accel__model_resnet = {
    .model_type = "resnet", .classes = classes, .build = build};
