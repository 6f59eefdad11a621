/* layoutlmv3.c - LayoutLMv3 (transformers' LayoutLMv3Model and its heads; Huang et al. 2022, arXiv
 * 2204.08387): words of a page with their boxes and the page's patches, in one sequence of BERT's
 * layers whose attention has biases by distances in the row, across the page and down it.
 *
 * Inputs are padded, as transformers has them: the biases are as wide as the sequences.  A class
 * runs with text and picture ("forward"), and, where its head allows that, with one of them alone
 * ("forward_text", "forward_image"), as its forward does when the other is left out. */
#include <math.h>

#include "modeling/distance_buckets.h"
#include "models/bert.h"

enum { PAGE = 1000, MOST_SIDE = 1023 }; /* boxes of patches are in 1000ths; widths end there */

typedef struct layout {
  accel__bert_config c;
  int64_t max_2d, coordinate, shape, input, patch, side, channels;
  bool relative, spatial, text, visual;
  accel__distance_buckets by_row, by_place;
  accel__dim s;                                        /* tokens, padding included */
  accel__tensor boxes, mask, types, positions, pixels; /* inputs; boxes int32 [B,s,4] */
} layout;

/* What of the two is in a sequence. */
typedef struct parts {
  bool text, picture;
} parts;

/* ---- config ---- */

static accel_status read_config(accel__build *b, layout *m) {
  *m = (layout){.c = {.vocab = 50265,
                      .hidden = 768,
                      .layers = 12,
                      .heads = 12,
                      .inner = 3072,
                      .positions = 512,
                      .types = 2,
                      .pad_id = 1,
                      .eps = 1e-5,
                      .act = {.act = ACCEL_PLUGIN_ACT_GELU}},
                .max_2d = 1024,
                .coordinate = 128,
                .shape = 128,
                .input = 224,
                .patch = 16,
                .channels = 3,
                .relative = true,
                .spatial = true,
                .text = true,
                .visual = true,
                .by_row = {32, 128, false},
                .by_place = {64, 256, false}};
  const accel__field fields[] = {
      ACCEL_FIELD_INT("max_2d_position_embeddings", &m->max_2d, 1, ACCEL__MAX_POSITIONS),
      ACCEL_FIELD_INT("coordinate_size", &m->coordinate, 1, ACCEL__MAX_WIDTH),
      ACCEL_FIELD_INT("shape_size", &m->shape, 1, ACCEL__MAX_WIDTH),
      ACCEL_FIELD_INT("input_size", &m->input, 1, ACCEL__MAX_WIDTH),
      ACCEL_FIELD_INT("patch_size", &m->patch, 1, ACCEL__MAX_WIDTH),
      ACCEL_FIELD_INT("num_channels", &m->channels, 1, ACCEL__MAX_WIDTH),
      ACCEL_FIELD_BOOL("has_relative_attention_bias", &m->relative),
      ACCEL_FIELD_BOOL("has_spatial_attention_bias", &m->spatial),
      ACCEL_FIELD_BOOL("text_embed", &m->text),
      ACCEL_FIELD_BOOL("visual_embed", &m->visual)};
  ACCEL_TRY(accel__bert_read(b, &m->c));
  ACCEL_TRY(accel__read_fields(b, fields, sizeof fields / sizeof *fields));
  ACCEL_TRY(accel__distance_buckets_read(b, "rel_pos_bins", "max_rel_pos", &m->by_row));
  ACCEL_TRY(accel__distance_buckets_read(b, "rel_2d_pos_bins", "max_rel_2d_pos", &m->by_place));
  m->side = m->input / m->patch;
  return ACCEL_OK;
}

static accel_status check(const accel__build *b, const layout *m) {
  if (m->text && 4 * m->coordinate + 2 * m->shape != m->c.hidden)
    return accel__refuse(b,
                         "4 'coordinate_size' (%lld) and 2 'shape_size' (%lld) do not make "
                         "'hidden_size', %lld",
                         (long long)m->coordinate, (long long)m->shape, (long long)m->c.hidden);
  if (m->text && m->c.pad_id + 1 >= m->c.positions)
    return accel__refuse(
        b, "field 'max_position_embeddings' (%lld) leaves no position after pad_token_id %lld",
        (long long)m->c.positions, (long long)m->c.pad_id);
  if (m->visual && m->side < 1)
    return accel__refuse(b, "field 'input_size' (%lld) is less than 'patch_size', %lld",
                         (long long)m->input, (long long)m->patch);
  if (m->visual && m->side > PAGE)
    return accel__refuse(b,
                         "field 'input_size' (%lld) makes %lld patches of 'patch_size' %lld to a "
                         "side; boxes tell %d apart",
                         (long long)m->input, (long long)m->side, (long long)m->patch, PAGE);
  if (!m->text && (!m->visual || accel__is_class(b, "ForTokenClassification") ||
                   accel__is_class(b, "ForQuestionAnswering")))
    return accel__refuse(b, "field 'text_embed': false, but a %s reads words",
                         b->model->architecture);
  if (b->request->embed != NULL && b->request->embed->n_pooling > 0)
    return accel__refuse(b, "a %s makes no sentence embeddings", b->model->architecture);
  return ACCEL_OK;
}

/* ---- inputs ---- */

static accel__tensor tokens_input(accel__build *b, const char *name, uint32_t rank,
                                  const accel__dim *dims, int64_t max,
                                  accel__input_default otherwise) {
  accel__tensor t = accel__add_item(b, name, ACCEL_PLUGIN_I32, rank, dims, otherwise);
  b->input[b->model->n_inputs - 1].max = max;
  return t;
}

static void add_inputs(accel__build *b, layout *m) {
  accel__program *p = b->p;
  const accel__bert_config *c = &m->c;
  b->B = accel__symbol(p, "B", 1, 0, 1);
  b->model->max_positions = m->text ? c->positions - c->pad_id - 1 : 0;
  if (m->text) {
    m->s = accel__symbol(p, "S", 1, b->model->max_positions, 128);
    const accel__dim dims[3] = {b->B, m->s, accel__const_dim(p, 4)};
    b->input_ids = tokens_input(b, "input_ids", 2, dims, c->vocab, ACCEL__DEFAULT_REQUIRED);
    m->boxes = tokens_input(b, "bbox", 3, dims, m->max_2d, ACCEL__DEFAULT_ZEROS);
    m->mask = tokens_input(b, "attention_mask", 2, dims, 0, ACCEL__DEFAULT_ONES);
    m->types = tokens_input(b, "token_type_ids", 2, dims, c->types, ACCEL__DEFAULT_ZEROS);
    m->positions = tokens_input(b, "position_ids", 2, dims, c->positions, ACCEL__DEFAULT_ROBERTA);
    b->model->vocab_size = c->vocab;
  }
  if (!m->visual) return;
  accel__dim side = accel__const_dim(p, m->input),
             dims[4] = {b->B, accel__const_dim(p, m->channels), side, side};
  m->pixels =
      accel__add_item(b, "pixel_values", ACCEL_PLUGIN_F32, 4, dims, ACCEL__DEFAULT_REQUIRED);
  b->images.typical_size[0] = b->images.typical_size[1] = m->input;
}

/* ---- embeddings ---- */

/* Column k of the boxes as numbers: F32 [B,s]. */
static accel__tensor edge(accel__build *b, const layout *m, int64_t k) {
  accel__tensor x = accel__slice(b->p, accel__cast(b, m->boxes, ACCEL_PLUGIN_F32), 2, k, k + 1);
  return accel__reshape(b->p, x, 2, (accel__dim[]){b->B, m->s});
}

/* Rows of a table at whole numbers [B,s]: [B,s,width]. */
static accel__tensor by_number(accel__build *b, const layout *m, accel__tensor at, int64_t width,
                               const char *name) {
  at = accel__cast(b, accel__affine(b, at, 1.0, 0.5), ACCEL_PLUGIN_I32);
  return accel__embedding(b, at, m->max_2d, width, name);
}

/* Where the words stand, and how tall and wide they are: [B,s,hidden]. */
static accel__tensor place_rows(accel__build *b, const layout *m) {
  static const char *const axis[] = {"embeddings.x_position_embeddings",
                                     "embeddings.y_position_embeddings"};
  accel__tensor side[4], part[6];
  for (int64_t k = 0; k < 4; k++) {
    side[k] = edge(b, m, k);
    part[k] = by_number(b, m, side[k], m->coordinate, axis[k % 2]);
  }
  accel__tensor tall = accel__binary(b->p, ACCEL_PLUGIN_BINARY_SUB, side[3], side[1]),
                wide = accel__binary(b->p, ACCEL_PLUGIN_BINARY_SUB, side[2], side[0]);
  part[4] = by_number(b, m, accel__clamp(b, tall, 0.0, MOST_SIDE), m->shape,
                      "embeddings.h_position_embeddings");
  part[5] = by_number(b, m, accel__clamp(b, wide, 0.0, MOST_SIDE), m->shape,
                      "embeddings.w_position_embeddings");
  return accel__concat(b, 2, 6, part);
}

static accel__tensor text_rows(accel__build *b, const layout *m) {
  const accel__bert_config *c = &m->c;
  accel__tensor x =
      accel__embedding(b, b->input_ids, c->vocab, c->hidden, "embeddings.word_embeddings");
  const accel__tensor more[3] = {
      accel__embedding(b, m->types, c->types, c->hidden, "embeddings.token_type_embeddings"),
      accel__embedding(b, m->positions, c->positions, c->hidden, "embeddings.position_embeddings"),
      place_rows(b, m)};
  for (int i = 0; i < 3; i++) x = accel__binary(b->p, ACCEL_PLUGIN_BINARY_ADD, x, more[i]);
  return accel__norm_layer(b, x, -1, c->eps, true, "embeddings.LayerNorm");
}

/* The class token and the patches: [B, 1 + side^2, hidden]. */
static accel__tensor picture_rows(accel__build *b, const layout *m) {
  const int64_t one[3] = {1, 1, m->c.hidden}, all[3] = {1, 1 + m->side * m->side, m->c.hidden};
  const accel__conv patch = {.out = m->c.hidden,
                             .kernel = {m->patch, m->patch},
                             .stride = {m->patch, m->patch},
                             .bias = true};
  const accel__tensor part[2] = {
      accel__repeat(b, accel__table(b, 3, one, "cls_token"), b->B),
      accel__planes_to_items(b, accel__conv2d(b, m->pixels, &patch, "patch_embed.proj"))};
  accel__tensor x = accel__binary(b->p, ACCEL_PLUGIN_BINARY_ADD, accel__concat(b, 1, 2, part),
                                  accel__table(b, 3, all, "pos_embed"));
  return accel__norm_layer(b, x, -1, 1e-6, true, "norm");
}

/* ---- distances ---- */

/* Left (down false) or lower edges of the class token's box and of the patches': F32 [1, n]. */
static accel__tensor patch_edges(accel__build *b, const layout *m, bool down) {
  const int64_t n = 1 + m->side * m->side;
  float *at = accel__arena_array(b->arena, (size_t)n, sizeof *at);
  if (at == NULL)
    return accel__program_fail(b->p, ACCEL_ERROR_OUT_OF_MEMORY, "no memory for boxes of patches");
  at[0] = down ? PAGE - 1 : 1;
  for (int64_t i = 0; i + 1 < n; i++)
    at[1 + i] = (float)(down ? PAGE * (i / m->side + 1) / m->side : PAGE * (i % m->side) / m->side);
  return accel__constant_f32(b->p, down ? "patch_bottoms" : "patch_lefts", 2, (int64_t[]){1, n},
                             at);
}

/* Numbers of the text's rows and of the picture's behind one another: [items, n]. */
static accel__tensor joined(accel__build *b, parts with, accel__tensor text,
                            accel__tensor picture) {
  if (with.text && with.picture) return accel__concat(b, 1, 2, (accel__tensor[]){text, picture});
  return with.text ? text : picture;
}

static accel__tensor line(accel__build *b, accel__tensor x) {
  return x < 0 ? -1
               : accel__reshape(
                     b->p, x, 2,
                     (accel__dim[]){accel__const_dim(b->p, 1), accel__tensor_dim(b->p, x, 0)});
}

/* The bias between rows at `place` F32 [items, n], by the distances of one kind: [heads, items,
 * n * n], scaled as the scores are. */
static accel__tensor distance_bias(accel__build *b, const layout *m, accel__tensor place,
                                   const accel__distance_buckets *by, const char *name) {
  accel__program *p = b->p;
  int64_t most = 0;
  accel__tensor bucket = accel__distance_buckets_make(b, by, &most);
  if (place < 0 || bucket < 0) return -1;
  accel__dim items = accel__tensor_dim(p, place, 0), n = accel__tensor_dim(p, place, 1),
             one = accel__const_dim(p, 1), all = accel__times(b, n, n);
  accel__tensor row =
      accel__distance_rows(b, accel__reshape(p, place, 3, (accel__dim[]){items, one, n}),
                           accel__reshape(p, place, 3, (accel__dim[]){items, n, one}), most);
  row = accel__reshape(p, row, 1, (accel__dim[]){accel__times(b, items, all)});
  const int64_t dims[2] = {m->c.heads, by->buckets};
  const accel__attr axis = ACCEL_I(AXIS, 1);
  accel__tensor x = accel__table(b, 2, dims, name);
  x = accel__node(p, ACCEL_PLUGIN_OP_GATHER, (accel__tensor[]){x, bucket}, 2, &axis, 1, NULL, 1);
  x = accel__affine(b, x, 1.0 / sqrt((double)(m->c.hidden / m->c.heads)), 0.0);
  x = accel__node(p, ACCEL_PLUGIN_OP_GATHER, (accel__tensor[]){x, row}, 2, &axis, 1, NULL, 1);
  return accel__reshape(p, x, 3, (accel__dim[]){accel__const_dim(p, m->c.heads), items, all});
}

/* [items, heads, n, n].  Distances on the page count only beside those in the row. */
static accel__tensor bias(accel__build *b, const layout *m, parts with, accel__dim n) {
  accel__program *p = b->p;
  const accel__tensor own =
                          with.picture
                              ? line(b, accel__count(b, accel__const_dim(p, 1 + m->side * m->side)))
                              : -1,
                      words = with.text ? line(b, accel__count(b, m->s)) : -1;
  accel__tensor x =
      distance_bias(b, m, joined(b, with, words, own), &m->by_row, "encoder.rel_pos_bias.weight");
  for (int down = 0; m->spatial && down < 2; down++) {
    accel__tensor text = with.text ? edge(b, m, down ? 3 : 0) : -1,
                  picture = with.picture ? patch_edges(b, m, down) : -1;
    if (with.text && with.picture && picture >= 0)
      picture =
          accel__broadcast(b, picture, 2, (accel__dim[]){b->B, accel__tensor_dim(p, picture, 1)});
    x = accel__binary(
        p, ACCEL_PLUGIN_BINARY_ADD, x,
        distance_bias(b, m, joined(b, with, text, picture), &m->by_place,
                      down ? "encoder.rel_pos_y_bias.weight" : "encoder.rel_pos_x_bias.weight"));
  }
  if (x < 0) return -1;
  accel__dim items = accel__tensor_dim(p, x, 1);
  x = accel__transpose(b, x, 3, (int64_t[]){1, 0, 2});
  return accel__reshape(p, x, 4, (accel__dim[]){items, accel__const_dim(p, m->c.heads), n, n});
}

/* int32 [B*n]: 0 for padding of the text. */
static accel__tensor key_mask(accel__build *b, const layout *m, parts with, accel__dim rows) {
  accel__tensor x = m->mask;
  if (!with.text) return -1;
  if (with.picture) {
    const int64_t n = 1 + m->side * m->side;
    int32_t *ones = accel__arena_array(b->arena, (size_t)n, sizeof *ones);
    if (ones == NULL)
      return accel__program_fail(b->p, ACCEL_ERROR_OUT_OF_MEMORY, "no memory for a mask");
    for (int64_t i = 0; i < n; i++) ones[i] = 1;
    const accel__tensor seen =
        accel__broadcast(b, accel__constant_i32(b->p, "patch_mask", 2, (int64_t[]){1, n}, ones), 2,
                         (accel__dim[]){b->B, accel__const_dim(b->p, n)});
    x = accel__concat(b, 1, 2, (accel__tensor[]){x, seen});
  }
  return accel__reshape(b->p, x, 1, &rows);
}

/* ---- the encoder and its heads ---- */

/* Rows of text, picture or both through the layers: [B,n,hidden]. */
static accel__tensor encode(accel__build *b, layout *m, parts with) {
  accel__at(b->p, 0, "embeddings");
  accel__tensor text = with.text ? text_rows(b, m) : -1,
                picture = with.picture ? picture_rows(b, m) : -1;
  accel__tensor x = joined(b, with, text, picture);
  if (with.picture) x = accel__norm_layer(b, x, -1, m->c.eps, true, "LayerNorm");
  if (x < 0) return -1;
  accel__dim n = accel__tensor_dim(b->p, x, 1);
  x = accel__items_to_rows(b, x, "rows");
  accel__attention how = accel__attention_of(b, m->c.heads);
  how.mask = key_mask(b, m, with, accel__times(b, b->B, n));
  if (m->relative) {
    how.bias = bias(b, m, with, n);
    how.bias_kind = ACCEL_PLUGIN_BIAS_DENSE;
  }
  m->c.attention = &how;
  m->c.per_item = n;
  x = accel__rows_to_items(b, accel__bert_encoder(b, &m->c, x), n);
  m->c.attention = NULL;
  return x;
}

/* tanh(<name>.dense(x)): the first half of LayoutLMv3ClassificationHead. */
static accel__tensor narrowed(accel__build *b, const layout *m, accel__tensor x, const char *name) {
  static const accel__activation tanh_act = {.act = ACCEL_PLUGIN_ACT_TANH};
  return accel__dense_layer(b, x, m->c.hidden, true, -1, &tanh_act, "%s.dense", name);
}

static void outputs(accel__build *b, layout *m, parts with) {
  accel__tensor x = encode(b, m, with);
  if (x < 0) return;
  b->in_head = !b->is_base;
  if (b->is_base) {
    accel__add_output(b, "last_hidden_state", x, 0);
  } else if (accel__is_class(b, "ForSequenceClassification")) {
    x = accel__reshape(b->p, accel__slice(b->p, x, 1, 0, 1), 2,
                       (accel__dim[]){b->B, accel__const_dim(b->p, m->c.hidden)});
    accel__head_sequence(b, narrowed(b, m, x, "classifier"), "classifier.out_proj");
  } else if (accel__is_class(b, "ForQuestionAnswering")) { /* patches get logits, too */
    accel__head_spans(b, narrowed(b, m, x, "qa_outputs"), "qa_outputs.out_proj");
  } else {
    if (with.picture) x = accel__slice_dims(b, x, 1, accel__const_dim(b->p, 0), m->s);
    if (b->model->num_labels < 10)
      accel__head_tokens(b, x, "classifier");
    else
      accel__head_tokens(b, narrowed(b, m, x, "classifier"), "classifier.out_proj");
  }
  b->in_head = false;
}

/* An entry of a part alone: inputs first .. first + n, and what the class makes of them. */
static void part_entry(accel__build *b, layout *m, parts with, const char *name, uint32_t first,
                       uint32_t n) {
  outputs(b, m, with);
  if (accel__program_failed(b->p)) return;
  accel__add_entry(b, name, b->input + first, n, b->output, b->model->n_outputs);
  b->model->n_outputs = b->n_hidden = b->cap_output = 0;
  b->output = NULL;
}

static accel_status build(const accel__model_request *request, const char *architecture,
                          accel__model *model) {
  accel__build b;
  layout m;
  ACCEL_TRY(accel__build_begin(&b, request, architecture, model, "layoutlmv3."));
  ACCEL_TRY(read_config(&b, &m));
  ACCEL_TRY(check(&b, &m));
  add_inputs(&b, &m);
  const parts both = {m.text, m.visual};
  if (both.text && both.picture) {
    const uint32_t n = model->n_inputs - 1;
    part_entry(&b, &m, (parts){.text = true}, "forward_text", 0, n);
    if (b.is_base || accel__is_class(&b, "ForSequenceClassification"))
      part_entry(&b, &m, (parts){.picture = true}, "forward_image", n, 1);
  }
  outputs(&b, &m, both);
  return accel__build_end(&b, -1);
}

static const char *const classes[] = {"LayoutLMv3Model", "LayoutLMv3ForSequenceClassification",
                                      "LayoutLMv3ForTokenClassification",
                                      "LayoutLMv3ForQuestionAnswering", NULL};
const accel__architecture accel__model_layoutlmv3 = {
    .model_type = "layoutlmv3", .classes = classes, .build = build};
