/* blip.c - BLIP (transformers' BlipModel, its vision tower, captioning, question answering and
 * image-text matching): a ViT, and a BERT whose layers also attend to another tower.
 *
 * Entries beside "forward": captioning and question answering have "encode" (image, or image and
 * question) and "decode" (model.h). */
#include <stdio.h>
#include <string.h>

#include "modeling/causal.h"
#include "models/clip.h"

typedef struct blip {
  accel__clip_tower vision;
  int64_t vocab, hidden, layers, heads, inner, positions, encoder_hidden, projection, matching;
  double eps;
  bool tied;
  accel__activation act;
  accel__tensor seen; /* rows of patches, normed */
  int32_t seen_space;
} blip;

/* What the text layers attend to beside themselves. */
typedef struct other {
  accel__tensor rows; /* -1: nothing (or only what a state holds) */
  int32_t space;
  accel__tensor keys[ACCEL__MAX_LAYERS], values[ACCEL__MAX_LAYERS];
  int32_t state[ACCEL__MAX_LAYERS]; /* for "decode" */
} other;

/* Both decoders begin with bos_token_id and end at sep_token_id. */
static accel_status read_ends(accel__build *b) {
  int64_t *sep = accel__arena_alloc(b->arena, sizeof *sep);
  if (sep == NULL) return ACCEL_ERROR_OUT_OF_MEMORY;
  *sep = 102;
  ACCEL_TRY(accel__json_int(b->file, b->config, "sep_token_id", 0, ACCEL__MAX_VOCAB, sep));
  b->model->decoder_start_id = b->model->bos_id;
  b->model->eos_ids = sep;
  b->model->n_eos = 1;
  b->model->generation.text_config = true;
  return ACCEL_OK;
}

static accel_status read_config(accel__build *b, blip *m, bool text) {
  const accel__activation gelu = {.act = ACCEL_PLUGIN_ACT_GELU};
  *m = (blip){.vision = {.hidden = 768,
                         .layers = 12,
                         .heads = 12,
                         .inner = 3072,
                         .channels = 3,
                         .image = {384, 384},
                         .patch = {16, 16},
                         .eps = 1e-5,
                         .act = gelu},
              .vocab = 30524,
              .hidden = 768,
              .layers = 12,
              .heads = 8,
              .inner = 3072,
              .positions = 512,
              .projection = 512,
              .matching = 256,
              .eps = 1e-12,
              .tied = true,
              .act = gelu};
  ACCEL_TRY(accel__clip_enter(b, "vision_config"));
  ACCEL_TRY(accel__clip_read(b, &m->vision));
  m->vision.channels = 3; /* the class reads no other number */
  m->vision.block.q = "self_attn.qkv";
  m->vision.block.k = NULL;
  m->vision.block.o = "self_attn.projection";
  if (!text) return accel__enter_config(b, NULL);
  ACCEL_TRY(accel__clip_enter(b, "text_config"));
  const accel__field fields[] = {
      ACCEL_FIELD_INT("vocab_size", &m->vocab, 1, ACCEL__MAX_VOCAB),
      ACCEL_FIELD_INT("hidden_size", &m->hidden, 1, ACCEL__MAX_WIDTH),
      ACCEL_FIELD_INT("num_hidden_layers", &m->layers, 0, ACCEL__MAX_LAYERS),
      ACCEL_FIELD_INT("num_attention_heads", &m->heads, 1, ACCEL__MAX_WIDTH),
      ACCEL_FIELD_INT("intermediate_size", &m->inner, 1, ACCEL__MAX_WIDTH),
      ACCEL_FIELD_INT("max_position_embeddings", &m->positions, 1, ACCEL__MAX_POSITIONS),
      ACCEL_FIELD_NUMBER("layer_norm_eps", &m->eps),
      ACCEL_FIELD_BOOL("tie_word_embeddings", &m->tied),
      ACCEL_FIELD_ACT("hidden_act", &m->act),
  };
  ACCEL_TRY(accel__read_fields(b, fields, sizeof fields / sizeof *fields));
  ACCEL_TRY(accel__divides(b, "num_attention_heads", m->heads, "hidden_size", m->hidden));
  ACCEL_TRY(accel__read_token_ids(b, /*bos*/ 30522, /*eos*/ 2, /*pad*/ 0));
  ACCEL_TRY(read_ends(b));
  m->encoder_hidden = m->vision.hidden;
  ACCEL_TRY(accel__enter_config(b, NULL));
  const accel__field outer[] = {
      ACCEL_FIELD_INT("projection_dim", &m->projection, 1, ACCEL__MAX_WIDTH),
      ACCEL_FIELD_INT("image_text_hidden_size", &m->matching, 1, ACCEL__MAX_WIDTH)};
  b->model->hidden_size = m->hidden;
  b->model->max_positions = m->positions;
  return accel__read_fields(b, outer, 2);
}

/* ---- pictures ---- */

/* pixel_values of as many items as b->B says -> rows of patches [B*S, C]; lists the hidden
 * states. */
static void build_vision(accel__build *b, blip *m) {
  accel__program *p = b->p;
  const int64_t c = m->vision.hidden, side = m->vision.image.h / m->vision.patch.h,
                one[3] = {1, 1, c}, all[3] = {1, side * side + 1, c};
  const accel__conv patch = {
      .out = c, .kernel = m->vision.patch, .stride = m->vision.patch, .bias = true};
  accel__dim dims[4] = {b->B, accel__const_dim(p, 3),
                        accel__symbol(p, "H", 1, ACCEL__MAX_WIDTH, 384),
                        accel__symbol(p, "W", 1, ACCEL__MAX_WIDTH, 384)};
  accel__tensor x =
      accel__add_item(b, "pixel_values", ACCEL_PLUGIN_F32, 4, dims, ACCEL__DEFAULT_REQUIRED);
  const int32_t texts = b->space;
  b->scope = "vision_model.";
  accel__at(p, 0, "vision_model.embeddings");
  x = accel__conv2d(b, x, &patch, "embeddings.patch_embedding");
  if (x < 0) return;
  accel__dim h = accel__tensor_dim(p, x, 2), w = accel__tensor_dim(p, x, 3);
  accel__tensor token =
      accel__repeat(b, accel__table(b, 3, one, "embeddings.class_embedding"), b->B);
  x = accel__concat(b, 1, 2, (accel__tensor[]){token, accel__planes_to_items(b, x)});
  const accel__grid_table position_rows = {
      .table = accel__table(b, 3, all, "embeddings.position_embedding"),
      .before = 1,
      .grid = {side, side}};
  x = accel__binary(p, ACCEL_PLUGIN_BINARY_ADD, x, accel__resize_grid(b, &position_rows, h, w));
  if (x < 0) return;
  m->vision.rows = accel__tensor_dim(p, x, 1);
  x = accel__clip_layers(b, &m->vision, accel__items_to_rows(b, x, "patches"));
  m->seen = accel__norm_layer(b, x, -1, m->vision.eps, true, "post_layernorm");
  m->seen_space = b->space;
  b->space = texts;
  b->scope = NULL;
}

/* The class row, normed once more. */
static accel__tensor pooled_picture(accel__build *b, const blip *m) {
  const int32_t texts = b->space;
  b->space = m->seen_space;
  accel__tensor first = accel__first_rows(b, m->seen);
  b->space = texts;
  return accel__norm_layer(b, first, -1, m->vision.eps, true, "vision_model.post_layernorm");
}

/* ---- texts ---- */

static void other_keys(accel__build *b, const blip *m, other *o, const char *path) {
  for (uint32_t i = 0; i < (uint32_t)m->layers && o->rows >= 0; i++) {
    o->keys[i] = accel__dense_layer(b, o->rows, m->hidden, true, -1, NULL,
                                    "%sencoder.layer.%u.crossattention.self.key", path, i);
    o->values[i] = accel__dense_layer(b, o->rows, m->hidden, true, -1, NULL,
                                      "%sencoder.layer.%u.crossattention.self.value", path, i);
  }
}

static accel__tensor attention_output(accel__build *b, const blip *m, accel__tensor y,
                                      accel__tensor x, const char *path, uint32_t i,
                                      const char *name) {
  y = accel__dense_layer(b, y, m->hidden, true, x, NULL, "%sencoder.layer.%u.%s.output.dense", path,
                         i, name);
  return accel__norm_layer(b, y, -1, m->eps, true, "%sencoder.layer.%u.%s.output.LayerNorm", path,
                           i, name);
}

/* Attention to the other tower, over its rows or the state that "encode" has filled. */
static accel__tensor cross(accel__build *b, const blip *m, const other *o, accel__tensor x,
                           const char *path, uint32_t i) {
  accel__attention how = accel__attention_of(b, m->heads);
  accel__tensor q = accel__dense_layer(b, x, m->hidden, true, -1, NULL,
                                       "%sencoder.layer.%u.crossattention.self.query", path, i);
  how.kv_space = b->decoding ? b->space : o->space;
  how.state = b->decoding ? o->state[i] : -1;
  how.state_static = b->decoding;
  accel__tensor y =
      accel__attend(b, q, b->decoding ? -1 : o->keys[i], b->decoding ? -1 : o->values[i], &how);
  return attention_output(b, m, y, x, path, i, "crossattention");
}

/* BERT's layers below `path` over the tokens of the current side; o NULL: without the other
 * tower. */
static accel__tensor text(accel__build *b, const blip *m, const other *o, bool causal,
                          const char *path) {
  static const char *const names[3] = {"query", "key", "value"};
  accel__tensor words, position_rows, part[3];
  const int64_t d = m->hidden / m->heads;
  accel__at(b->p, (uint32_t)m->vision.layers + 1, "%sembeddings", path);
  words = accel__embedding(b, b->input_ids, m->vocab, m->hidden,
                           accel__arena_printf(b->arena, "%sembeddings.word_embeddings", path));
  position_rows =
      accel__embedding(b, b->position_ids, m->positions, m->hidden,
                       accel__arena_printf(b->arena, "%sembeddings.position_embeddings", path));
  accel__tensor x =
      accel__norm_layer(b, words, position_rows, m->eps, true, "%sembeddings.LayerNorm", path);
  for (uint32_t i = 0; i < (uint32_t)m->layers; i++) {
    accel__at(b->p, (uint32_t)m->vision.layers + 2 + i, "%sencoder.layer.%u", path, i);
    for (int k = 0; k < 3; k++)
      part[k] = accel__dense_layer(b, x, m->hidden, true, -1, NULL,
                                   "%sencoder.layer.%u.attention.self.%s", path, i, names[k]);
    accel__attention how = accel__attention_of(b, m->heads);
    how.causal = causal;
    how.state = accel__kv_state(b, i, m->heads, d, d, 0);
    x = attention_output(b, m, accel__attend(b, part[0], part[1], part[2], &how), x, path, i,
                         "attention");
    if (o != NULL) x = cross(b, m, o, x, path, i);
    accel__tensor y = accel__dense_layer(b, x, m->inner, true, -1, &m->act,
                                         "%sencoder.layer.%u.intermediate.dense", path, i);
    y = accel__dense_layer(b, y, m->hidden, true, x, NULL, "%sencoder.layer.%u.output.dense", path,
                           i);
    x = accel__norm_layer(b, y, -1, m->eps, true, "%sencoder.layer.%u.output.LayerNorm", path, i);
  }
  accel__at(b->p, (uint32_t)(m->vision.layers + m->layers) + 2, "head");
  return x;
}

static void add_words(accel__build *b, const blip *m) {
  accel__add_tokens(b, m->vocab);
  accel__add_positions(b, m->positions, ACCEL__DEFAULT_ARANGE, 0);
}

static accel__tensor vocabulary(accel__build *b, const blip *m, accel__tensor x) {
  x = accel__dense_layer(b, x, m->hidden, true, -1, &m->act,
                         "text_decoder.cls.predictions.transform.dense");
  x = accel__norm_layer(b, x, -1, m->eps, true, "text_decoder.cls.predictions.transform.LayerNorm");
  return accel__head_vocabulary(
      b, x, m->vocab, m->tied, "text_decoder.bert.embeddings.word_embeddings",
      "text_decoder.cls.predictions.decoder", "text_decoder.cls.predictions.bias");
}

/* ---- entries of those that generate ---- */

static void encode_entry(accel__build *b, const blip *m, other *o, accel__tensor result,
                         uint32_t first_input, uint32_t n_inputs) {
  const int32_t d = (int32_t)(m->hidden / m->heads);
  accel__model_output *outputs =
      accel__arena_array(b->arena, (size_t)m->layers + 1, sizeof *outputs);
  if (outputs == NULL) {
    accel__program_fail(b->p, ACCEL_ERROR_OUT_OF_MEMORY, "no memory for outputs");
    return;
  }
  outputs[0] = (accel__model_output){.name = "encoder_last_hidden_state", .tensor = result};
  for (uint32_t i = 0; i < (uint32_t)m->layers; i++) {
    char name[48];
    snprintf(name, sizeof name, "layers.%u.cross_kv", i);
    o->state[i] = accel__state(b->p, &(accel_plugin_state){.name = name,
                                                           .kind = ACCEL_PLUGIN_STATE_CROSS_KV,
                                                           .heads = (int32_t)m->heads,
                                                           .k_dim = d,
                                                           .v_dim = d,
                                                           .share = -1});
    accel__attention how = accel__attention_of(b, m->heads);
    how.q_space = how.kv_space = o->space;
    how.state = o->state[i];
    outputs[i + 1] =
        (accel__model_output){.name = accel__arena_string(b->arena, name),
                              .tensor = accel__attend(b, -1, o->keys[i], o->values[i], &how),
                              .asked = true};
  }
  accel__add_entry(b, "encode", b->model->inputs + first_input, n_inputs, outputs,
                   (uint32_t)m->layers + 1);
}

static void decode_entry(accel__build *b, const blip *m, const other *o, uint32_t first_input,
                         uint32_t n_inputs) {
  b->decoding = true;
  accel__tensor x = text(b, m, o, true, "text_decoder.bert."),
                last = accel__reduce_rows(b->p, ACCEL_PLUGIN_REDUCE_LAST, x, -1, b->space);
  accel__model_output outputs[2] = {
      {.name = "logits", .tensor = vocabulary(b, m, last)},
      {.name = "all_logits", .tensor = vocabulary(b, m, x), .asked = true}};
  b->decoding = false;
  b->model->is_encoder_decoder = true;
  accel__add_entry(b, "decode", b->model->inputs + first_input, n_inputs, outputs, 2);
}

/* ---- classes ---- */

static void seen_outputs(accel__build *b, const blip *m, bool embeds) {
  accel__tensor x = accel__rows_to_items(b, m->seen, m->vision.rows);
  if (embeds) accel__add_output(b, "image_embeds", x, 0);
  accel__add_output(b, "last_hidden_state", x, 0);
}

static void caption(accel__build *b, blip *m, other *o) {
  b->model->generation.caption_prefix = true;
  add_words(b, m);
  const uint32_t words = b->model->n_inputs;
  build_vision(b, m);
  *o = (other){.rows = m->seen, .space = m->seen_space};
  other_keys(b, m, o, "text_decoder.bert.");
  accel__add_output(b, "logits", vocabulary(b, m, text(b, m, o, true, "text_decoder.bert.")), 0);
  seen_outputs(b, m, true);
  encode_entry(b, m, o, accel__rows_to_items(b, m->seen, m->vision.rows), words, 1);
  decode_entry(b, m, o, 0, words);
}

/* forward computes the picture alone; the answer comes from "encode" and "decode". */
static void answer(accel__build *b, blip *m, other *picture, other *question) {
  add_words(b, m);
  build_vision(b, m);
  const uint32_t first = b->model->n_inputs;
  *picture = (other){.rows = m->seen, .space = m->seen_space};
  other_keys(b, m, picture, "text_encoder.");
  accel__tensor asked = text(b, m, picture, false, "text_encoder.");
  *question = (other){.rows = asked, .space = b->space};
  other_keys(b, m, question, "text_decoder.bert.");
  b->side = 1;
  add_words(b, m);
  seen_outputs(b, m, true);
  encode_entry(b, m, question, asked, 0, first);
  decode_entry(b, m, question, first, b->model->n_inputs - first);
}

static void match(accel__build *b, blip *m, other *o) {
  add_words(b, m);
  build_vision(b, m);
  *o = (other){.rows = m->seen, .space = m->seen_space};
  other_keys(b, m, o, "text_encoder.");
  accel__tensor x = text(b, m, o, false, "text_encoder.");
  accel__add_output(b, "itm_score",
                    accel__dense_layer(b, accel__first_rows(b, x), 2, true, -1, NULL, "itm_head"),
                    0);
  seen_outputs(b, m, false);
  accel__add_output(b, "question_embeds", x, 0);
  /* use_itm_head=False: both towers apart, as unit vectors [pictures, texts] */
  const int32_t texts = b->space;
  accel__tensor words = text(b, m, NULL, false, "text_encoder."), side[2];
  side[1] =
      accel__dense_layer(b, accel__first_rows(b, words), m->matching, true, -1, NULL, "text_proj");
  b->space = m->seen_space;
  side[0] = accel__first_rows(b, m->seen);
  side[0] = accel__dense_layer(b, side[0], m->matching, true, -1, NULL, "vision_proj");
  b->space = texts;
  for (int i = 0; i < 2; i++) side[i] = accel__unit_rows(b, side[i]);
  accel__attr attr = ACCEL_I(TRANS_B, 1);
  accel__tensor score = accel__node(b->p, ACCEL_PLUGIN_OP_MATMUL, side, 2, &attr, 1, NULL, 1);
  accel__add_output(b, "use_itm_head=false.itm_score", score, ACCEL__OUTPUT_ON_REQUEST);
  accel__add_output(b, "use_itm_head=false.question_embeds", words, ACCEL__OUTPUT_ON_REQUEST);
}

/* CLIP's comparison of the two towers; here there may be more texts than pictures. */
static void compare(accel__build *b, blip *m) {
  static const accel__activation tanh_act = {.act = ACCEL_PLUGIN_ACT_TANH};
  add_words(b, m);
  accel__tensor words = text(b, m, NULL, false, "text_model.");
  accel__tensor pooled = accel__dense_layer(b, accel__first_rows(b, words), m->hidden, true, -1,
                                            &tanh_act, "text_model.pooler.dense");
  b->B = accel__symbol(b->p, "images", 1, 0, 1);
  b->output_path = "vision_model_output.";
  build_vision(b, m);
  accel__tensor picture = pooled_picture(b, m);
  accel__tensor image =
      accel__dense_layer(b, picture, m->projection, false, -1, NULL, "visual_projection");
  accel__clip_outputs(
      b, accel__dense_layer(b, pooled, m->projection, false, -1, NULL, "text_projection"), image,
      false);
  accel__add_output(b, "text_model_output.last_hidden_state", words, 0);
  accel__add_output(b, "text_model_output.pooler_output", pooled, 0);
  accel__output_items(b, "vision_model_output.last_hidden_state", m->seen, m->vision.rows, false);
  accel__add_output(b, "vision_model_output.pooler_output", picture, 0);
}

static accel_status build(const accel__model_request *request, const char *architecture,
                          accel__model *model) {
  static const char *const args[] = {"interpolate_pos_encoding", NULL},
                           *const matching_args[] = {"interpolate_pos_encoding", "use_itm_head",
                                                     NULL};
  static const accel__rename alone[] = {{"vision_model.", ""}, {NULL, NULL}};
  accel__build b;
  ACCEL_TRY(accel__build_begin(&b, request, architecture, model, ""));
  blip *m = accel__arena_alloc(b.arena, sizeof *m);
  other *o = accel__arena_array(b.arena, 2, sizeof *o);
  if (m == NULL || o == NULL) return ACCEL_ERROR_OUT_OF_MEMORY;
  const bool vision = strcmp(architecture, "BlipVisionModel") == 0;
  ACCEL_TRY(read_config(&b, m, !vision));
  model->args = accel__is_class(&b, "ForImageTextRetrieval") ? matching_args : args;
  if (vision) {
    b.spelling[0] = alone;
    b.B = accel__symbol(b.p, "B", 1, 0, 1);
    build_vision(&b, m);
    accel__output_items(&b, "last_hidden_state", m->seen, m->vision.rows, false);
    accel__add_output(&b, "pooler_output", pooled_picture(&b, m), 0);
  } else if (accel__is_class(&b, "ForConditionalGeneration")) {
    caption(&b, m, &o[0]);
  } else if (accel__is_class(&b, "ForQuestionAnswering")) {
    answer(&b, m, &o[0], &o[1]);
  } else if (accel__is_class(&b, "ForImageTextRetrieval")) {
    match(&b, m, &o[0]);
  } else {
    compare(&b, m);
  }
  return accel__build_end(&b, m->seen);
}

static const char *const classes[] = {"BlipModel",
                                      "BlipVisionModel",
                                      "BlipForConditionalGeneration",
                                      "BlipForQuestionAnswering",
                                      "BlipForImageTextRetrieval",
                                      NULL};
const accel__architecture accel__model_blip = {
    .model_type = "blip", .classes = classes, .build = build};
static const char *const vision_classes[] = {"BlipVisionModel", NULL};
const accel__architecture accel__model_blip_vision = {
    .model_type = "blip_vision_model", .classes = vision_classes, .build = build};
