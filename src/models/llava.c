/* llava.c - LLaVA (transformers' LlavaModel, LlavaForConditionalGeneration): a CLIP or SigLIP tower whose patches,
 * projected, stand where the text has its image tokens. */
#include <string.h>

#include "models/clip.h"
#include "models/decoder.h"

enum { MAX_PICKED = 16 };
typedef struct llava {
  accel__clip_tower vision;
  accel__decoder *text;
  int64_t image_token, picked[MAX_PICKED], n_picked; /* hidden states taken, 0 .. layers */
  bool siglip, full, bias;
  accel__activation act;
  accel__tensor features; /* rows [images*patches, hidden of the text] */
} llava;

static const accel__rename newest[] = {{"vision_tower.vision_model.", "model.vision_tower."},
                                       {"multi_modal_projector.", "model.multi_modal_projector."},
                                       {"language_model.model.", "model.language_model."},
                                       {NULL, NULL}};
static const accel__rename short_tower[] = {{"vision_tower.vision_model.", "vision_tower."}, {NULL, NULL}};
static const accel__rename newer[] = {
    {"vision_tower.", "model.vision_tower."}, {"lm_head.", "language_model.lm_head."}, {NULL, NULL}};

/* vision_feature_layer: one index or several, negative ones from the end. */
static accel_status read_layers(accel__build *b, llava *m) {
  const accel__json *field = accel__json_get(b->config, "vision_feature_layer"), *list = NULL;
  m->n_picked = 1;
  m->picked[0] = -2;
  if (field != NULL && cJSON_IsArray(field)) {
    ACCEL_TRY(accel__json_array(b->file, b->config, "vision_feature_layer", &list));
    m->n_picked = cJSON_GetArraySize(list);
    if (m->n_picked < 1 || m->n_picked > MAX_PICKED)
      return accel__refuse(b, "field 'vision_feature_layer' has %lld entries", (long long)m->n_picked);
    ACCEL_TRY(accel__read_ints(b, "vision_feature_layer", m->n_picked, -ACCEL__MAX_LAYERS, ACCEL__MAX_LAYERS, m->picked));
  } else {
    ACCEL_TRY(
        accel__json_int(b->file, b->config, "vision_feature_layer", -ACCEL__MAX_LAYERS, ACCEL__MAX_LAYERS, &m->picked[0]));
  }
  for (int64_t i = 0; i < m->n_picked; i++) {
    if (m->picked[i] < 0) m->picked[i] += m->vision.layers + 1;
    if (m->picked[i] < 0 || m->picked[i] > m->vision.layers)
      return accel__refuse(b, "field 'vision_feature_layer' names a layer that is not there");
  }
  return ACCEL_OK;
}

static accel_status read_vision(accel__build *b, llava *m) {
  const char *type = NULL;
  ACCEL_TRY(accel__enter_config(b, "vision_config"));
  ACCEL_TRY(accel__json_string(b->file, b->config, "model_type", &type));
  m->siglip = type != NULL && strcmp(type, "siglip_vision_model") == 0;
  if (type != NULL && !m->siglip && strcmp(type, "clip_vision_model") != 0)
    return accel__refuse(
        b, "field 'vision_config.model_type': '%s' is not supported; known: clip_vision_model, siglip_vision_model", type);
  const accel__activation act = {.act = m->siglip ? ACCEL_PLUGIN_ACT_GELU_TANH : ACCEL_PLUGIN_ACT_GELU_QUICK};
  m->vision = (accel__clip_tower){.hidden = 768,
                                  .layers = 12,
                                  .heads = 12,
                                  .inner = 3072,
                                  .channels = 3,
                                  .image = {224, 224},
                                  .patch = {m->siglip ? 16 : 32, m->siglip ? 16 : 32},
                                  .eps = m->siglip ? 1e-6 : 1e-5,
                                  .act = act};
  if (type == NULL && accel__json_get(b->file->root, "vision_config") == NULL) { /* as the class fills in what is missing */
    m->vision.hidden = 1024;
    m->vision.layers = 24;
    m->vision.heads = 16;
    m->vision.inner = 4096;
    m->vision.image = (accel__size2){336, 336};
    m->vision.patch = (accel__size2){14, 14};
  }
  return accel__clip_read(b, &m->vision);
}

static accel_status read_config(accel__build *b, llava *m) {
  const char *type = NULL, *strategy = NULL;
  bool tied = false;
  m->image_token = 32000;
  m->bias = true;
  m->act = (accel__activation){.act = ACCEL_PLUGIN_ACT_GELU};
  ACCEL_TRY(read_vision(b, m));
  ACCEL_TRY(accel__enter_config(b, "text_config"));
  ACCEL_TRY(accel__json_string(b->file, b->config, "model_type", &type));
  ACCEL_TRY(accel__decoder_read_type(b, type != NULL ? type : "llama", m->text));
  ACCEL_TRY(accel__enter_config(b, NULL));
  const accel__field fields[] = {ACCEL_FIELD_INT("image_token_index", &m->image_token, 0, ACCEL__MAX_VOCAB),
                                 ACCEL_FIELD_INT("image_token_id", &m->image_token, 0, ACCEL__MAX_VOCAB),
                                 ACCEL_FIELD_BOOL("multimodal_projector_bias", &m->bias),
                                 ACCEL_FIELD_BOOL("tie_word_embeddings", &tied),
                                 ACCEL_FIELD_STRING("vision_feature_select_strategy", &strategy),
                                 ACCEL_FIELD_ACT("projector_hidden_act", &m->act)};
  ACCEL_TRY(accel__read_fields(b, fields, sizeof fields / sizeof *fields));
  const accel__json *text = accel__json_get(b->file->root, "text_config");
  m->text->tied = tied || (text != NULL && cJSON_IsTrue(accel__json_get(text, "tie_word_embeddings")));
  m->full = strategy != NULL && strcmp(strategy, "full") == 0;
  if (strategy != NULL && !m->full && strcmp(strategy, "default") != 0)
    return accel__refuse(b, "field 'vision_feature_select_strategy': '%s' is not supported; known: default, full", strategy);
  b->model->hidden_size = m->text->hidden;
  return read_layers(b, m);
}

/* The hidden states asked for, side by side, without the class row unless "full", projected. */
static accel__tensor look(accel__build *b, llava *m) {
  accel__tensor pixels = accel__add_pixels(b, m->vision.channels, NULL), state[ACCEL__MAX_LAYERS + 1], part[MAX_PICKED];
  b->scope = "vision_tower.vision_model.";
  accel__tensor x = accel__clip_patches(b, &m->vision, pixels, !m->siglip, m->siglip);
  if (!m->siglip) x = accel__norm_layer(b, x, -1, m->vision.eps, true, "pre_layrnorm");
  state[0] = x;
  for (uint32_t i = 0; i < (uint32_t)m->vision.layers; i++)
    state[i + 1] = x = accel__pre_norm_block(b, &m->vision.block, x, "encoder.layers.%u", i);
  b->scope = NULL;
  for (int64_t i = 0; i < m->n_picked; i++) {
    part[i] = accel__rows_to_items(b, state[m->picked[i]], m->vision.rows);
    if (!m->full) part[i] = accel__slice(b->p, part[i], 1, 1, INT64_MAX);
  }
  x = m->n_picked == 1 ? part[0] : accel__concat(b, 2, (uint32_t)m->n_picked, part);
  x = accel__dense_layer(b, x, m->text->hidden, m->bias, -1, &m->act, "multi_modal_projector.linear_1");
  x = accel__dense_layer(b, x, m->text->hidden, m->bias, -1, NULL, "multi_modal_projector.linear_2");
  if (x < 0) return -1;
  return accel__reshape(b->p, x, 2,
                        (accel__dim[]){accel__times(b, accel__tensor_dim(b->p, x, 0), accel__tensor_dim(b->p, x, 1)),
                                       accel__tensor_dim(b->p, x, 2)});
}

static accel__tensor see(accel__build *b, void *user, accel__tensor x) {
  llava *m = user;
  if (m->features < 0) {
    const accel__dim items = b->B;
    const int32_t space = b->space;
    const bool in_head = b->in_head;
    b->in_head = true; /* the tower's names stand outside the language model's prefix */
    m->features = look(b, m);
    b->in_head = in_head;
    b->B = items;
    b->space = space;
    accel__add_output(b, "image_hidden_states", m->features, false, false);
  }
  return accel__put_rows(b, x, m->features, m->image_token);
}

static accel_status build(const accel__model_request *request, const char *architecture, accel__model *model) {
  static const char *const args[] = {"interpolate_pos_encoding", NULL};
  accel__build b;
  ACCEL_TRY(accel__build_begin(&b, request, architecture, model, "language_model.model."));
  llava *m = accel__arena_alloc(b.arena, sizeof *m);
  if (m == NULL || (m->text = accel__arena_alloc(b.arena, sizeof *m->text)) == NULL) return ACCEL_ERROR_OUT_OF_MEMORY;
  m->features = -1;
  b.spelling[0] = newest;
  b.spelling[1] = newer;
  b.spelling[2] = short_tower;
  model->args = args;
  ACCEL_TRY(read_config(&b, m));
  m->text->see = see;
  m->text->see_user = m;
  return accel__decoder_build(&b, m->text);
}

static const char *const classes[] = {"LlavaModel", "LlavaForConditionalGeneration", NULL};
const accel__architecture accel__model_llava = {.model_type = "llava", .classes = classes, .build = build};
