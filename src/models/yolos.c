/* yolos.c - YOLOS (transformers' YolosModel, YolosForObjectDetection): a ViT whose last tokens are
 * detections. */
#include "models/vit.h"

typedef struct yolos {
  accel__vit_config c;
  int64_t detections;
  bool mid; /* positions are added again behind each layer */
  accel__dim h, w, rows;
} yolos;

static const accel__rename spelling[] = {
    {"encoder.mid_position_embeddings", "encoder.interpolation.mid_position_embeddings"},
    {NULL, NULL}};

static accel_status read_config(accel__build *b, yolos *m) {
  *m = (yolos){.detections = 100, .mid = true};
  ACCEL_TRY(accel__vit_read(b, &m->c));
  if (accel__json_get(b->config, "image_size") == NULL) m->c.image = (accel__size2){512, 864};
  const accel__field fields[] = {
      ACCEL_FIELD_INT("num_detection_tokens", &m->detections, 1, ACCEL__MAX_WIDTH),
      ACCEL_FIELD_BOOL("use_mid_position_embeddings", &m->mid)};
  ACCEL_TRY(accel__read_fields(b, fields, 2));
  b->spelling[0] = spelling;
  m->c.pooled = m->c.hidden;
  m->c.pooler_act = (accel__activation){.act = ACCEL_PLUGIN_ACT_TANH};
  if (m->c.patch.h != m->c.patch.w)
    return accel__refuse(b, "field 'patch_size': patches that are not square are not supported");
  return ACCEL_OK;
}

static accel__tensor resized(accel__build *b, const yolos *m, accel__tensor table) {
  const accel__size2 grid = {m->c.image.h / m->c.patch.h, m->c.image.w / m->c.patch.h};
  const accel__grid_table t = {.table = table, .before = 1, .after = m->detections, .grid = grid};
  return accel__resize_grid(b, &t, m->h, m->w);
}

static int64_t positions(const yolos *m) {
  return 1 + (m->c.image.h / m->c.patch.h) * (m->c.image.w / m->c.patch.h) + m->detections;
}

/* x + the positions of this layer, behind all but the last. */
static accel__tensor between(accel__build *b, void *user, accel__tensor x, uint32_t layer) {
  const yolos *m = user;
  if (!m->mid || layer + 1 >= (uint32_t)m->c.layers || x < 0) return x;
  accel__program *p = b->p;
  const int64_t n = positions(m), dims[4] = {m->c.layers - 1, 1, n, m->c.hidden};
  accel__tensor table = accel__slice(p, accel__table(b, 4, dims, "encoder.mid_position_embeddings"),
                                     0, layer, (int64_t)layer + 1);
  table = accel__reshape(p, table, 3,
                         (accel__dim[]){accel__const_dim(p, 1), accel__const_dim(p, n),
                                        accel__const_dim(p, m->c.hidden)});
  x = accel__binary(p, ACCEL_PLUGIN_BINARY_ADD, accel__rows_to_items(b, x, m->rows),
                    resized(b, m, table));
  return accel__reshape(
      p, x, 2, (accel__dim[]){accel__times(b, b->B, m->rows), accel__const_dim(p, m->c.hidden)});
}

static accel__tensor embeddings(accel__build *b, yolos *m) {
  const int64_t c = m->c.hidden, one[3] = {1, 1, c}, tokens[3] = {1, m->detections, c},
                all[3] = {1, positions(m), c};
  const accel__conv patch = {.out = c, .kernel = m->c.patch, .stride = m->c.patch, .bias = true};
  accel__tensor x = accel__add_pixels(b, m->c.channels, NULL);
  accel__at(b->p, 0, "embeddings");
  x = accel__conv2d(b, x, &patch, "embeddings.patch_embeddings.projection");
  if (x < 0) return -1;
  m->h = accel__tensor_dim(b->p, x, 2);
  m->w = accel__tensor_dim(b->p, x, 3);
  accel__tensor part[3] = {
      accel__repeat(b, accel__table(b, 3, one, "embeddings.cls_token"), b->B),
      accel__planes_to_items(b, x),
      accel__repeat(b, accel__table(b, 3, tokens, "embeddings.detection_tokens"), b->B)};
  x = accel__concat(b, 1, 3, part);
  x = accel__binary(b->p, ACCEL_PLUGIN_BINARY_ADD, x,
                    resized(b, m, accel__table(b, 3, all, "embeddings.position_embeddings")));
  m->rows = x < 0 ? -1 : accel__tensor_dim(b->p, x, 1);
  return accel__items_to_rows(b, x, "patches");
}

/* The image processor makes it; pictures here are not padded to a common size. */
static const char *const unread[] = {"pixel_mask", NULL};

static accel_status build(const accel__model_request *request, const char *architecture,
                          accel__model *model) {
  accel__build b;
  yolos m;
  ACCEL_TRY(accel__build_begin(&b, request, architecture, model, "vit."));
  model->unread = unread;
  ACCEL_TRY(read_config(&b, &m));
  accel__tensor x = embeddings(&b, &m);
  x = accel__vit_encoder(&b, &m.c, x, m.rows, between, &m);
  x = accel__norm_layer(&b, x, -1, m.c.eps, true, "layernorm");
  if (!b.is_base) {
    b.in_head = true;
    /* [B,n,C] */
    accel__tensor found =
        accel__slice(b.p, accel__rows_to_items(&b, x, m.rows), 1, -m.detections, INT64_MAX);
    accel__add_output(&b, "logits",
                      accel__mlp_head(&b, found, model->num_labels + 1, "class_labels_classifier"),
                      0);
    accel__add_output(&b, "pred_boxes",
                      accel__unary(b.p, ACCEL_PLUGIN_ACT_SIGMOID,
                                   accel__mlp_head(&b, found, 4, "bbox_predictor")),
                      0);
    b.in_head = false;
  }
  accel__output_items(&b, "last_hidden_state", x, m.rows, false);
  if (b.is_base && accel__has(&b, "pooler.dense.weight"))
    accel__add_output(&b, "pooler_output", accel__vit_pooler(&b, &m.c, x), 0);
  return accel__build_end(&b, x);
}

static const char *const classes[] = {"YolosModel", "YolosForObjectDetection", NULL};
const accel__architecture accel__model_yolos = {
    .model_type = "yolos", .classes = classes, .build = build};
