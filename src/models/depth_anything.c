/* depth_anything.c - Depth Anything, versions 1 and 2 (transformers'
 * DepthAnythingForDepthEstimation): a DINOv2 backbone under the neck of DPT, for relative and for
 * metric depth. */
#include <string.h>

#include "models/dinov2.h"
#include "models/dpt.h"

typedef struct depth_anything {
  accel__dinov2 backbone;
  accel__dpt_neck neck;
  int64_t patch, inner; /* pixels of a patch; channels of the head */
  bool metric;
  double most; /* max_depth */
} depth_anything;

/* What the config class takes for a backbone_config that is absent, where DINOv2's own defaults are
 * others. */
static void take_usual(accel__dinov2 *c) {
  c->c.image = (accel__size2){518, 518};
  c->c.hidden = 384;
  c->c.heads = 6;
  c->c.inner = 4 * c->c.hidden;
  c->planes = false;
  for (c->n_asked = 0; c->n_asked < 4; c->n_asked++) c->asked[c->n_asked] = 9 + c->n_asked;
}

static accel_status read_backbone(accel__build *b, depth_anything *m) {
  static const char *const old[] = {"backbone", "use_timm_backbone", "use_pretrained_backbone"};
  const accel__json *own = NULL;
  const char *type = "dinov2";
  for (size_t i = 0; i < sizeof old / sizeof *old; i++) {
    const accel__json *value = accel__json_get(b->config, old[i]);
    if (value != NULL && !cJSON_IsNull(value) && !cJSON_IsFalse(value))
      return accel__refuse(b, "field '%s' is not supported; known: backbone_config", old[i]);
  }
  ACCEL_TRY(accel__json_object(b->file, b->config, "backbone_config", &own));
  ACCEL_TRY(accel__enter_config(b, "backbone_config"));
  ACCEL_TRY(accel__json_string(b->file, b->config, "model_type", &type));
  if (strcmp(type, "dinov2") != 0)
    return accel__refuse(
        b, "field 'backbone_config.model_type': '%s' is not supported; known: dinov2", type);
  ACCEL_TRY(accel__dinov2_read(b, &m->backbone));
  if (own == NULL) take_usual(&m->backbone);
  if (m->backbone.planes)
    return accel__refuse(
        b, "field 'backbone_config.reshape_hidden_states': true is not supported by %s",
        b->model->architecture);
  return accel__enter_config(b, NULL);
}

static accel_status read_config(accel__build *b, depth_anything *m) {
  const char *kind = "relative";
  *m = (depth_anything){.neck = {.n = 4,
                                 .width = {48, 96, 192, 384},
                                 .factor = {4, 2, 1, 0.5},
                                 .in = 384,
                                 .fusion = 64,
                                 .bias = true,
                                 .fit_next = true},
                        .patch = 14,
                        .inner = 32,
                        .most = 1.0};
  const accel__field fields[] = {
      ACCEL_FIELD_INT("patch_size", &m->patch, 1, ACCEL__MAX_WIDTH),
      ACCEL_FIELD_INT("reassemble_hidden_size", &m->neck.in, 1, ACCEL__MAX_WIDTH),
      ACCEL_FIELD_INT("head_hidden_size", &m->inner, 1, ACCEL__MAX_WIDTH),
      ACCEL_FIELD_NUMBER("max_depth", &m->most),
      ACCEL_FIELD_STRING("depth_estimation_type", &kind)};
  ACCEL_TRY(read_backbone(b, m));
  ACCEL_TRY(accel__read_fields(b, fields, sizeof fields / sizeof *fields));
  ACCEL_TRY(accel__dpt_neck_read(b, &m->neck));
  const accel__vit_config *c = &m->backbone.c;
  m->metric = strcmp(kind, "metric") == 0;
  if (!m->metric && strcmp(kind, "relative") != 0)
    return accel__refuse(
        b, "field 'depth_estimation_type': '%s' is not supported; known: relative, metric", kind);
  if (c->patch.h != m->patch || c->patch.w != m->patch)
    return accel__refuse(b, "field 'patch_size' is %lld, the backbone's is %lld",
                         (long long)m->patch, (long long)c->patch.h);
  if (m->neck.in != c->hidden)
    return accel__refuse(b,
                         "field 'reassemble_hidden_size' is %lld, the backbone's hidden_size %lld",
                         (long long)m->neck.in, (long long)c->hidden);
  if (m->backbone.n_asked != m->neck.n)
    return accel__refuse(
        b, "field 'backbone_config.out_indices' asks for %lld maps, 'neck_hidden_sizes' has %lld",
        (long long)m->backbone.n_asked, (long long)m->neck.n);
  b->images.typical_size[0] = c->image.h;
  b->images.typical_size[1] = c->image.w;
  return ACCEL_OK;
}

static accel_status build(const accel__model_request *request, const char *architecture,
                          accel__model *model) {
  accel__build b;
  depth_anything m;
  ACCEL_TRY(accel__build_begin(&b, request, architecture, model, ""));
  ACCEL_TRY(read_config(&b, &m));
  b.scope = "backbone.";
  accel__dinov2_maps(&b, &m.backbone, accel__add_pixels(&b, m.backbone.c.channels, NULL),
                     m.neck.map);
  b.scope = NULL;
  m.neck.per_item = m.backbone.rows;
  m.neck.h = m.backbone.h;
  m.neck.w = m.backbone.w;
  accel__tensor x = accel__dpt_fuse(&b, &m.neck);
  if (x >= 0) {
    accel__dim side = accel__const_dim(b.p, m.patch);
    const accel__dpt_head head = {
        .conv = {"head.conv1", "head.conv2", "head.conv3"},
        .inner = m.inner,
        .act = m.metric ? ACCEL_PLUGIN_ACT_SIGMOID : ACCEL_PLUGIN_ACT_RELU,
        .scale = m.most,
        .h = accel__times(&b, m.neck.h, side),
        .w = accel__times(&b, m.neck.w, side)};
    accel__dpt_output(&b, &head, x);
  }
  return accel__build_end(&b, m.neck.map[m.neck.n - 1]);
}

static const char *const classes[] = {"DepthAnythingForDepthEstimation", NULL};
const accel__architecture accel__model_depth_anything = {
    .model_type = "depth_anything", .classes = classes, .build = build};
