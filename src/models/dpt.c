/* dpt.c - DPT (transformers' DPTModel, DPTForDepthEstimation, DPTForSemanticSegmentation) over its
 * own ViT or a DINOv2 backbone.  Grids of patches need not be squares, as they must there. */
#include "models/dpt.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "models/dinov2.h"

/* ---- the neck ---- */

accel_status accel__dpt_neck_read(accel__build *b, accel__dpt_neck *c) {
  const accel__json *widths = NULL, *factors = NULL;
  const accel__field fields[] = {
      ACCEL_FIELD_INT("fusion_hidden_size", &c->fusion, 2, ACCEL__MAX_WIDTH),
      ACCEL_FIELD_INT("head_in_index", &c->head, -ACCEL__MAX_MAPS, ACCEL__MAX_MAPS)};
  c->head = -1;
  ACCEL_TRY(accel__read_fields(b, fields, 2));
  ACCEL_TRY(accel__json_array(b->file, b->config, "neck_hidden_sizes", &widths));
  ACCEL_TRY(accel__json_array(b->file, b->config, "reassemble_factors", &factors));
  if (widths != NULL) c->n = cJSON_GetArraySize(widths);
  if (c->n < 1 || c->n > ACCEL__MAX_MAPS)
    return accel__refuse(b, "field 'neck_hidden_sizes' has %lld entries", (long long)c->n);
  ACCEL_TRY(accel__read_ints(b, "neck_hidden_sizes", c->n, 1, ACCEL__MAX_WIDTH, c->width));
  ACCEL_TRY(accel__read_list(b, "reassemble_factors", c->n, &factors));
  int64_t i = 0;
  ACCEL_JSON_EACH(item, factors) {
    const double f = cJSON_IsNumber(item) ? item->valuedouble : 0;
    if (!(f > 0) || f > 64 || f < 1.0 / 64 || (f > 1 && f != floor(f)))
      return accel__refuse(b, "field 'reassemble_factors': entry %lld is not supported",
                           (long long)i);
    c->factor[i++] = f;
  }
  if (c->head < 0) c->head += c->n;
  if (c->head < 0 || c->head >= c->n)
    return accel__refuse(b, "field 'head_in_index' names none of the %lld maps", (long long)c->n);
  return ACCEL_OK;
}

/* Rows of layer i -> planes [B, in, h, w], the class token read out. */
static accel__tensor read_out(accel__build *b, const accel__dpt_neck *c, int64_t i) {
  accel__tensor all = accel__rows_to_items(b, c->map[i], c->per_item);
  accel__tensor x = accel__slice(b->p, all, 1, 1, INT64_MAX);
  if (x < 0) return -1;
  accel__tensor token = accel__slice(b->p, all, 1, 0, 1);
  if (c->readout == ACCEL__READOUT_ADD) x = accel__binary(b->p, ACCEL_PLUGIN_BINARY_ADD, x, token);
  if (c->readout == ACCEL__READOUT_PROJECT) {
    accel__dim dims[3] = {b->B, accel__tensor_dim(b->p, x, 1), accel__const_dim(b->p, c->in)};
    token = accel__broadcast(b, token, 3, dims);
    x = accel__concat(b, 2, 2, (accel__tensor[]){x, token});
    x = accel__dense_layer(b, x, c->in, true, -1, &c->act,
                           "neck.reassemble_stage.readout_projects.%lld.0", (long long)i);
  }
  x = accel__reshape(
      b->p, x, 3, (accel__dim[]){b->B, accel__times(b, c->h, c->w), accel__const_dim(b->p, c->in)});
  return accel__items_to_planes(b, x, c->h, c->w);
}

/* The map of layer i at its own size. */
static accel__tensor reassembled(accel__build *b, const accel__dpt_neck *c, int64_t i) {
  if (c->ready[i]) return c->map[i];
  char path[96];
  const int64_t width = c->width[i], step = (int64_t)(1.0 / c->factor[i]);
  const accel__conv project = {.out = width, .kernel = {1, 1}, .bias = true},
                    shrink = {.out = width,
                              .kernel = {3, 3},
                              .stride = {step, step},
                              .pad = {1, 1},
                              .bias = true};
  snprintf(path, sizeof path, "neck.reassemble_stage.layers.%lld", (long long)i);
  accel__tensor x = accel__conv2d(b, read_out(b, c, i), &project, "%s.projection", path);
  if (c->factor[i] < 1.0) return accel__conv2d(b, x, &shrink, "%s.resize", path);
  if (c->factor[i] == 1.0) return x;
  return accel__conv2d_up(b, x, width, (int64_t)c->factor[i],
                          accel__arena_printf(b->arena, "%s.resize", path));
}

static accel__conv three(int64_t out, bool bias, const accel__activation *act) {
  return (accel__conv){.out = out, .kernel = {3, 3}, .pad = {1, 1}, .bias = bias, .act = act};
}

/* One of the two convolutions of a residual unit, with its batch norm, if any. */
static accel__tensor unit_conv(accel__build *b, const accel__dpt_neck *c, accel__tensor x,
                               const accel__conv *how, const char *path, int part) {
  char conv[128], norm[128];
  snprintf(conv, sizeof conv, "%s.convolution%d", path, part);
  snprintf(norm, sizeof norm, "%s.batch_norm%d", path, part);
  if (!c->batch_norm) return accel__conv2d(b, x, how, "%s", conv);
  return (c->bias ? accel__conv2d_bias_norm : accel__conv2d_norm)(b, x, how, 1e-5, conv, norm);
}

/* x + convolution(relu(convolution(relu(x)))) */
static accel__tensor residual_unit(accel__build *b, const accel__dpt_neck *c, accel__tensor x,
                                   const char *path) {
  static const accel__activation relu = {.act = ACCEL_PLUGIN_ACT_RELU};
  const accel__conv first = three(c->fusion, c->bias, &relu);
  accel__conv second = three(c->fusion, c->bias, NULL);
  const bool apart = c->batch_norm && c->bias; /* the norm is no part of the convolution then */
  if (!apart) second.residual = x;
  accel__tensor y = accel__unary(b->p, ACCEL_PLUGIN_ACT_RELU, x);
  y = unit_conv(b, c, unit_conv(b, c, y, &first, path, 1), &second, path, 2);
  return apart ? accel__binary(b->p, ACCEL_PLUGIN_BINARY_ADD, y, x) : y;
}

accel__tensor accel__dpt_fuse(accel__build *b, const accel__dpt_neck *c) {
  accel__tensor map[ACCEL__MAX_MAPS], x = -1;
  const accel__conv project = {.out = c->fusion, .kernel = {1, 1}, .bias = true},
                    even = three(c->fusion, false, NULL);
  for (int64_t i = 0; i < c->n; i++)
    map[i] = accel__conv2d(b, reassembled(b, c, i), &even, "neck.convs.%lld", (long long)i);
  for (int64_t i = 0; i <= c->head; i++) { /* the coarsest map, the last one, first */
    accel__tensor y = map[c->n - 1 - i];
    char path[96], unit[128];
    snprintf(path, sizeof path, "neck.fusion_stage.layers.%lld", (long long)i);
    snprintf(unit, sizeof unit, "%s.residual_layer1", path);
    if (y < 0 || (i > 0 && x < 0)) return -1;
    if (i > 0) {
      y = accel__resize_linear(b, y, accel__tensor_dim(b->p, x, 2), accel__tensor_dim(b->p, x, 3),
                               false);
      y = accel__binary(b->p, ACCEL_PLUGIN_BINARY_ADD, x, residual_unit(b, c, y, unit));
    }
    snprintf(unit, sizeof unit, "%s.residual_layer2", path);
    y = residual_unit(b, c, y, unit);
    if (y < 0) return -1;
    accel__dim two = accel__const_dim(b->p, 2), size[2];
    for (int k = 0; k < 2; k++)
      size[k] = c->fit_next && i + 1 < c->n
                    ? accel__tensor_dim(b->p, map[c->n - 2 - i], 2 + k)
                    : accel__times(b, accel__tensor_dim(b->p, y, 2 + k), two);
    /* transformers projects what is resized: the same, as weights of a resize add up to 1 */
    y = accel__conv2d(b, y, &project, "%s.projection", path);
    x = accel__resize_linear(b, y, size[0], size[1], true);
  }
  return x;
}

/* ---- heads ---- */

void accel__dpt_output(accel__build *b, const accel__dpt_head *c, accel__tensor x) {
  static const accel__activation relu = {.act = ACCEL_PLUGIN_ACT_RELU};
  const accel__activation last = {.act = c->act};
  int64_t channels = 0;
  if (x < 0) return;
  accel__dim_value(b->p, accel__tensor_dim(b->p, x, 1), &channels);
  const accel__conv one = three(channels / 2, true, NULL), two = three(c->inner, true, &relu),
                    three_ = {.out = 1, .kernel = {1, 1}, .bias = true, .act = &last};
  x = accel__conv2d(b, x, &one, "%s", c->conv[0]);
  x = accel__resize_linear(b, x, c->h, c->w, true);
  x = accel__conv2d(b, x, &two, "%s", c->conv[1]);
  x = accel__conv2d(b, x, &three_, "%s", c->conv[2]);
  if (c->scale != 1.0) x = accel__affine(b, x, c->scale, 0.0);
  accel__add_output(b, "predicted_depth",
                    accel__reshape(b->p, x, 3, (accel__dim[]){b->B, c->h, c->w}), 0);
}

static accel__tensor twice(accel__build *b, accel__tensor x) {
  if (x < 0) return -1;
  accel__dim two = accel__const_dim(b->p, 2);
  return accel__resize_linear(b, x, accel__times(b, accel__tensor_dim(b->p, x, 2), two),
                              accel__times(b, accel__tensor_dim(b->p, x, 3), two), true);
}

/* ---- DPT ---- */

typedef struct dpt {
  accel__vit_config c;
  accel__dpt_neck neck;
  accel__dinov2 backbone;
  bool with_backbone, projected;
  int64_t asked[ACCEL__MAX_MAPS], n_asked; /* layers whose rows become maps, 0 the first */
} dpt;

static accel_status read_backbone(accel__build *b, dpt *m) {
  const accel__json *own = NULL;
  const char *type = NULL;
  bool hybrid = false;
  ACCEL_TRY(accel__json_bool(b->file, b->config, "is_hybrid", &hybrid));
  if (hybrid) return accel__refuse(b, "field 'is_hybrid': true is not supported");
  ACCEL_TRY(accel__json_object(b->file, b->config, "backbone_config", &own));
  if (own == NULL && accel__json_get(b->config, "backbone") != NULL)
    return accel__refuse(b, "field 'backbone' is not supported; known: backbone_config");
  if (own == NULL) return ACCEL_OK;
  if (!accel__is_class(b, "ForDepthEstimation"))
    return accel__refuse(b, "field 'backbone_config' is not supported by %s",
                         b->model->architecture);
  ACCEL_TRY(accel__enter_config(b, "backbone_config"));
  ACCEL_TRY(accel__json_string(b->file, b->config, "model_type", &type));
  if (type == NULL || strcmp(type, "dinov2") != 0)
    return accel__refuse(b,
                         "field 'backbone_config.model_type': '%s' is not supported; known: dinov2",
                         type != NULL ? type : "");
  m->with_backbone = true;
  ACCEL_TRY(accel__dinov2_read(b, &m->backbone));
  if (m->backbone.planes)
    return accel__refuse(
        b, "field 'backbone_config.reshape_hidden_states': true is not supported by %s",
        b->model->architecture);
  return accel__enter_config(b, NULL);
}

/* backbone_out_indices: layers in any order, taken as they come. */
static accel_status read_layers(accel__build *b, dpt *m) {
  static const int64_t usual[] = {2, 5, 8, 11};
  const accel__json *list = NULL;
  bool wanted[ACCEL__MAX_LAYERS] = {false};
  ACCEL_TRY(accel__json_array(b->file, b->config, "backbone_out_indices", &list));
  for (int i = 0; list == NULL && i < 4; i++) wanted[usual[i]] = true;
  ACCEL_JSON_EACH(item, list) {
    if (cJSON_IsNumber(item) && item->valuedouble >= 0 && item->valuedouble < ACCEL__MAX_LAYERS)
      wanted[item->valueint] = true;
  }
  for (int64_t i = 0; i < m->c.layers; i++) {
    if (!wanted[i]) continue;
    if (m->n_asked == ACCEL__MAX_MAPS)
      return accel__refuse(b, "field 'backbone_out_indices' has too many entries");
    m->asked[m->n_asked++] = i;
  }
  return ACCEL_OK;
}

static accel_status read_neck(accel__build *b, dpt *m) {
  const char *readout = "project";
  const accel__field fields[] = {
      ACCEL_FIELD_BOOL("use_batch_norm_in_fusion_residual", &m->neck.batch_norm),
      ACCEL_FIELD_STRING("readout_type", &readout),
      ACCEL_FIELD_BOOL("add_projection", &m->projected)};
  m->neck = (accel__dpt_neck){.n = 4,
                              .width = {96, 192, 384, 768},
                              .factor = {4, 2, 1, 0.5},
                              .fusion = 256,
                              .act = m->c.act};
  ACCEL_TRY(accel__dpt_neck_read(b, &m->neck));
  ACCEL_TRY(accel__read_fields(b, fields, 3));
  m->neck.bias = !m->neck.batch_norm;
  ACCEL_TRY(accel__json_bool(b->file, b->config, "use_bias_in_fusion_residual", &m->neck.bias));
  m->neck.in = m->with_backbone ? m->backbone.c.hidden : m->c.hidden;
  m->neck.readout = strcmp(readout, "project") == 0 ? ACCEL__READOUT_PROJECT
                    : strcmp(readout, "add") == 0   ? ACCEL__READOUT_ADD
                                                    : ACCEL__READOUT_IGNORE;
  if (m->neck.readout == ACCEL__READOUT_IGNORE && strcmp(readout, "ignore") != 0)
    return accel__refuse(
        b, "field 'readout_type': '%s' is not supported; known: ignore, add, project", readout);
  if (m->projected && m->neck.fusion != 256)
    return accel__refuse(b, "field 'add_projection': true needs fusion_hidden_size 256");
  const int64_t maps = m->with_backbone ? m->backbone.n_asked : m->n_asked;
  if (maps != m->neck.n)
    return accel__refuse(b, "field '%s' asks for %lld maps, 'neck_hidden_sizes' has %lld entries",
                         m->with_backbone ? "backbone_config.out_indices" : "backbone_out_indices",
                         (long long)maps, (long long)m->neck.n);
  return ACCEL_OK;
}

static accel_status read_config(accel__build *b, dpt *m) {
  ACCEL_TRY(accel__vit_read(b, &m->c));
  if (accel__json_get(b->config, "image_size") == NULL) m->c.image = (accel__size2){384, 384};
  ACCEL_TRY(read_backbone(b, m));
  if (!m->with_backbone) ACCEL_TRY(read_layers(b, m));
  if (!b->is_base) ACCEL_TRY(read_neck(b, m));
  if (!m->with_backbone &&
      (m->c.image.h != m->c.image.w || m->c.patch.h != m->c.patch.w || m->c.image.h < m->c.patch.h))
    return accel__refuse(b, "field 'image_size': only squares of at least one patch are supported");
  b->images.typical_size[0] = m->with_backbone ? m->backbone.c.image.h : m->c.image.h;
  b->images.typical_size[1] = m->with_backbone ? m->backbone.c.image.w : m->c.image.w;
  return ACCEL_OK;
}

/* Class token and patches with their positions, bilinearly resized: rows [B*S, hidden]. */
static accel__tensor embeddings(accel__build *b, dpt *m) {
  const accel__vit_config *c = &m->c;
  const accel__size2 grid = {c->image.h / c->patch.h, c->image.w / c->patch.w};
  const int64_t one[3] = {1, 1, c->hidden}, all[3] = {1, 1 + grid.h * grid.w, c->hidden};
  const accel__conv patch = {
      .out = c->hidden, .kernel = c->patch, .stride = c->patch, .bias = true};
  accel__tensor x = accel__add_pixels(b, c->channels, NULL);
  accel__at(b->p, 0, "embeddings");
  x = accel__conv2d(b, x, &patch, "embeddings.patch_embeddings.projection");
  if (x < 0) return -1;
  m->neck.h = accel__tensor_dim(b->p, x, 2);
  m->neck.w = accel__tensor_dim(b->p, x, 3);
  accel__tensor token = accel__repeat(b, accel__table(b, 3, one, "embeddings.cls_token"), b->B);
  x = accel__concat(b, 1, 2, (accel__tensor[]){token, accel__planes_to_items(b, x)});
  const accel__grid_table positions = {
      .table = accel__table(b, 3, all, "embeddings.position_embeddings"),
      .before = 1,
      .grid = grid,
      .kind = ACCEL_PLUGIN_RESIZE_LINEAR};
  x = accel__binary(b->p, ACCEL_PLUGIN_BINARY_ADD, x,
                    accel__resize_grid(b, &positions, m->neck.h, m->neck.w));
  m->neck.per_item = x < 0 ? -1 : accel__tensor_dim(b->p, x, 1);
  return accel__items_to_rows(b, x, "patches");
}

/* Behind each layer: its rows become a map where the config asks for it. */
static accel__tensor keep(accel__build *b, void *user, accel__tensor x, uint32_t layer) {
  dpt *m = user;
  (void)b;
  for (int64_t i = 0; i < m->n_asked; i++)
    if (m->asked[i] == (int64_t)layer) m->neck.map[i] = x;
  return x;
}

static void segments(accel__build *b, const dpt *m, accel__tensor x) {
  static const accel__activation relu = {.act = ACCEL_PLUGIN_ACT_RELU};
  const accel__conv hidden = three(m->neck.fusion, false, &relu),
                    classes = {.out = b->model->num_labels, .kernel = {1, 1}, .bias = true};
  x = accel__conv2d_norm(b, x, &hidden, 1e-5, "head.head.0", "head.head.1");
  accel__add_output(b, "logits", twice(b, accel__conv2d(b, x, &classes, "head.head.4")), 0);
}

static void depth(accel__build *b, const dpt *m, accel__tensor x) {
  static const accel__activation relu = {.act = ACCEL_PLUGIN_ACT_RELU};
  const accel__conv project = three(m->neck.fusion, true, &relu);
  if (m->projected) x = accel__conv2d(b, x, &project, "head.projection");
  if (x < 0) return;
  accel__dim two = accel__const_dim(b->p, 2);
  const accel__dpt_head head = {.conv = {"head.head.0", "head.head.2", "head.head.4"},
                                .inner = 32,
                                .act = ACCEL_PLUGIN_ACT_RELU,
                                .scale = 1.0,
                                .h = accel__times(b, accel__tensor_dim(b->p, x, 2), two),
                                .w = accel__times(b, accel__tensor_dim(b->p, x, 3), two)};
  accel__dpt_output(b, &head, x);
}

static accel__tensor encode(accel__build *b, dpt *m) {
  if (!m->with_backbone) {
    accel__tensor x = embeddings(b, m); /* which sets per_item */
    return accel__vit_encoder(b, &m->c, x, m->neck.per_item, keep, m);
  }
  b->in_head = true;
  b->scope = "backbone.";
  accel__dinov2_maps(b, &m->backbone, accel__add_pixels(b, m->backbone.c.channels, NULL),
                     m->neck.map);
  b->scope = NULL;
  m->neck.per_item = m->backbone.rows;
  m->neck.h = m->backbone.h;
  m->neck.w = m->backbone.w;
  return m->neck.map[m->neck.n - 1];
}

static accel_status build(const accel__model_request *request, const char *architecture,
                          accel__model *model) {
  accel__build b;
  ACCEL_TRY(accel__build_begin(&b, request, architecture, model, "dpt."));
  dpt *m = accel__arena_alloc(b.arena, sizeof *m);
  if (m == NULL) return ACCEL_ERROR_OUT_OF_MEMORY;
  *m = (dpt){0};
  ACCEL_TRY(read_config(&b, m));
  accel__tensor x = encode(&b, m);
  if (b.is_base) {
    x = accel__norm_layer(&b, x, -1, m->c.eps, true, "layernorm");
    accel__output_items(&b, "last_hidden_state", x, m->neck.per_item, false);
    if (accel__has(&b, "pooler.dense.weight"))
      accel__add_output(&b, "pooler_output", accel__vit_pooler(&b, &m->c, x), 0);
    return accel__build_end(&b, x);
  }
  b.in_head = true;
  accel__tensor fused = accel__dpt_fuse(&b, &m->neck);
  if (accel__is_class(&b, "ForSemanticSegmentation"))
    segments(&b, m, fused);
  else
    depth(&b, m, fused);
  return accel__build_end(&b, x);
}

static const char *const classes[] = {"DPTModel", "DPTForDepthEstimation",
                                      "DPTForSemanticSegmentation", NULL};
const accel__architecture accel__model_dpt = {
    .model_type = "dpt", .classes = classes, .build = build};
