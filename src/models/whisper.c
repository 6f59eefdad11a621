/* whisper.c - Whisper (transformers' WhisperModel, WhisperForConditionalGeneration,
 * WhisperForAudioClassification): two convolutions and a transformer over spectrograms of a fixed
 * length, a decoder that attends to it. */
#include <stdio.h>
#include <string.h>

#include "modeling/causal.h"
#include "modeling/vision.h"
#include "models/model_build.h"

typedef struct whisper {
  int64_t vocab, mels, hidden, frames, positions, enc_layers, enc_heads, enc_inner, dec_layers,
      dec_heads, dec_inner, classifier, median;
  bool tied, weighted;
  accel__activation act;
  accel__block encoder; /* as read */
  int32_t frame_space;
  accel__tensor encoded, states[ACCEL__MAX_LAYERS + 1];
  /* cross attention, per decoder layer: rows of frames */
  accel__tensor keys[ACCEL__MAX_LAYERS], values[ACCEL__MAX_LAYERS];
  int32_t cross[ACCEL__MAX_LAYERS]; /* their states */
  /* [n_aligned_heads] layer and head: alignment_heads */
  int64_t (*aligned_heads)[2];
  uint32_t n_aligned_heads;
  accel__tensor probs[ACCEL__MAX_LAYERS]; /* of entry "align" */
  bool aligning;                          /* it is being built */
} whisper;

static const double eps = 1e-5; /* torch's default */

static accel_status read_config(accel__build *b, whisper *m) {
  *m = (whisper){.vocab = 51865,
                 .mels = 80,
                 .hidden = 384,
                 .frames = 1500,
                 .positions = 448,
                 .enc_layers = 4,
                 .enc_heads = 6,
                 .enc_inner = 1536,
                 .dec_layers = 4,
                 .dec_heads = 6,
                 .dec_inner = 1536,
                 .classifier = 256,
                 .median = 7,
                 .tied = true,
                 .act = {.act = ACCEL_PLUGIN_ACT_GELU}};
  const accel__field fields[] = {
      ACCEL_FIELD_INT("vocab_size", &m->vocab, 1, ACCEL__MAX_VOCAB),
      ACCEL_FIELD_INT("num_mel_bins", &m->mels, 1, ACCEL__MAX_WIDTH),
      ACCEL_FIELD_INT("d_model", &m->hidden, 1, ACCEL__MAX_WIDTH),
      ACCEL_FIELD_INT("max_source_positions", &m->frames, 1, ACCEL__MAX_WIDTH),
      ACCEL_FIELD_INT("max_target_positions", &m->positions, 1, ACCEL__MAX_POSITIONS),
      ACCEL_FIELD_INT("encoder_layers", &m->enc_layers, 0, ACCEL__MAX_LAYERS),
      ACCEL_FIELD_INT("encoder_attention_heads", &m->enc_heads, 1, ACCEL__MAX_WIDTH),
      ACCEL_FIELD_INT("encoder_ffn_dim", &m->enc_inner, 1, ACCEL__MAX_WIDTH),
      ACCEL_FIELD_INT("decoder_layers", &m->dec_layers, 0, ACCEL__MAX_LAYERS),
      ACCEL_FIELD_INT("decoder_attention_heads", &m->dec_heads, 1, ACCEL__MAX_WIDTH),
      ACCEL_FIELD_INT("decoder_ffn_dim", &m->dec_inner, 1, ACCEL__MAX_WIDTH),
      ACCEL_FIELD_INT("classifier_proj_size", &m->classifier, 1, ACCEL__MAX_WIDTH),
      ACCEL_FIELD_INT("median_filter_width", &m->median, 1, ACCEL__MAX_WIDTH),
      ACCEL_FIELD_BOOL("use_weighted_layer_sum", &m->weighted),
      ACCEL_FIELD_BOOL("tie_word_embeddings", &m->tied),
      ACCEL_FIELD_ACT("activation_function", &m->act),
  };
  ACCEL_TRY(accel__read_fields(b, fields, sizeof fields / sizeof *fields));
  ACCEL_TRY(accel__divides(b, "encoder_attention_heads", m->enc_heads, "d_model", m->hidden));
  ACCEL_TRY(accel__divides(b, "decoder_attention_heads", m->dec_heads, "d_model", m->hidden));
  ACCEL_TRY(accel__read_token_ids(b, /*bos*/ 50256, /*eos*/ 50256, /*pad*/ 50256));
  if (b->model->decoder_start_id < 0) b->model->decoder_start_id = 50257;
  b->model->is_encoder_decoder = true;
  b->model->hidden_size = m->hidden;
  b->model->max_positions = m->positions;
  m->encoder = (accel__block){.q = "self_attn.q_proj",
                              .k = "self_attn.k_proj",
                              .v = "self_attn.v_proj",
                              .o = "self_attn.out_proj",
                              .norm1 = "self_attn_layer_norm",
                              .norm2 = "final_layer_norm",
                              .up = "fc1",
                              .down = "fc2",
                              .hidden = m->hidden,
                              .heads = m->enc_heads,
                              .inner = m->enc_inner,
                              .eps = eps,
                              .qkv_bias = true,
                              .no_k_bias = true,
                              .o_bias = true,
                              .act = m->act};
  return accel__read_labels(b);
}

/* input_features [B, mels, 2 frames] -> rows [B*frames, hidden] */
static void encoder(accel__build *b, whisper *m) {
  static const accel__activation gelu = {.act = ACCEL_PLUGIN_ACT_GELU};
  accel__program *p = b->p;
  const accel__conv1 first = {
      .out = m->hidden, .kernel = 3, .before = 1, .after = 1, .bias = true, .act = &gelu};
  accel__conv1 second = first;
  second.stride = 2;
  accel__dim frames = accel__const_dim(p, m->frames);
  b->B = accel__symbol(p, "B", 1, 0, 1);
  accel__dim dims[3] = {b->B, accel__const_dim(p, m->mels), accel__const_dim(p, 2 * m->frames)};
  accel__tensor x =
      accel__add_item(b, "input_features", ACCEL_PLUGIN_F32, 3, dims, ACCEL__DEFAULT_REQUIRED);
  accel__at(p, 0, "encoder");
  x = accel__conv1d(b, accel__conv1d(b, x, &first, "encoder.conv1"), &second, "encoder.conv2");
  x = accel__transpose(b, x, 3, (int64_t[]){0, 2, 1});
  const int64_t table[2] = {m->frames, m->hidden};
  x = accel__binary(p, ACCEL_PLUGIN_BINARY_ADD, x,
                    accel__table(b, 2, table, "encoder.embed_positions.weight"));
  x = accel__items_to_rows(b, x, "frames");
  m->frame_space = b->space;
  for (uint32_t i = 0; i < (uint32_t)m->enc_layers; i++) {
    m->states[i] = x;
    accel__at(p, i + 1, "encoder.layers.%u", i);
    x = accel__pre_norm_block(b, &m->encoder, x, "encoder.layers.%u", i);
  }
  m->encoded = m->states[m->enc_layers] =
      accel__norm_layer(b, x, -1, eps, true, "encoder.layer_norm");
  b->output_path = b->is_base || accel__is_class(b, "ForConditionalGeneration") ? "encoder_" : NULL;
  for (int64_t i = 0; i <= m->enc_layers; i++) accel__hidden_items(b, m->states[i], frames);
  b->output_path = NULL;
}

/* Keys and values of every decoder layer over the frames. */
static void cross_keys(accel__build *b, whisper *m) {
  for (uint32_t i = 0; i < (uint32_t)m->dec_layers; i++) {
    m->keys[i] = accel__dense_layer(b, m->encoded, m->hidden, false, -1, NULL,
                                    "decoder.layers.%u.encoder_attn.k_proj", i);
    m->values[i] = accel__dense_layer(b, m->encoded, m->hidden, true, -1, NULL,
                                      "decoder.layers.%u.encoder_attn.v_proj", i);
  }
}

static accel__tensor self_attention(accel__build *b, const whisper *m, accel__tensor x,
                                    uint32_t i) {
  accel__tensor y =
      accel__norm_layer(b, x, -1, eps, true, "decoder.layers.%u.self_attn_layer_norm", i);
  accel__tensor q =
      accel__dense_layer(b, y, m->hidden, true, -1, NULL, "decoder.layers.%u.self_attn.q_proj", i);
  accel__tensor k =
      accel__dense_layer(b, y, m->hidden, false, -1, NULL, "decoder.layers.%u.self_attn.k_proj", i);
  accel__tensor v =
      accel__dense_layer(b, y, m->hidden, true, -1, NULL, "decoder.layers.%u.self_attn.v_proj", i);
  accel__attention how = accel__attention_of(b, m->dec_heads);
  const int64_t d = m->hidden / m->dec_heads;
  how.causal = true;
  how.state = accel__kv_state(b, i, m->dec_heads, d, d, 0);
  return accel__dense_layer(b, accel__attend(b, q, k, v, &how), m->hidden, true, x, NULL,
                            "decoder.layers.%u.self_attn.out_proj", i);
}

/* The heads of a layer that follow the sound, each once, in ascending order. */
static uint32_t heads_of_layer(accel__build *b, const whisper *m, uint32_t layer,
                               const int64_t **out) {
  int64_t *heads = accel__arena_array(b->arena, m->n_aligned_heads, sizeof *heads), next = -1;
  uint32_t n = 0;
  *out = heads;
  if (!heads) accel__program_fail(b->p, ACCEL_ERROR_OUT_OF_MEMORY, "no memory for heads");
  for (int64_t last = -1; heads; last = heads[n++] = next) {
    next = INT64_MAX;
    for (uint32_t i = 0; i < m->n_aligned_heads; i++)
      if (m->aligned_heads[i][0] == layer && m->aligned_heads[i][1] > last &&
          m->aligned_heads[i][1] < next)
        next = m->aligned_heads[i][1];
    if (next == INT64_MAX) break;
  }
  return n;
}

/* Over the frames themselves, or over the state that "encode" has filled. */
static accel__tensor cross_attention(accel__build *b, whisper *m, accel__tensor x, uint32_t i) {
  accel__tensor y =
      accel__norm_layer(b, x, -1, eps, true, "decoder.layers.%u.encoder_attn_layer_norm", i);
  accel__tensor q = accel__dense_layer(b, y, m->hidden, true, -1, NULL,
                                       "decoder.layers.%u.encoder_attn.q_proj", i);
  accel__attention how = accel__attention_of(b, m->dec_heads);
  if (b->decoding) {
    how.state = m->cross[i];
    how.state_static = true;
  }
  if (!b->decoding || m->aligning) how.kv_space = m->frame_space;
  if (m->aligning) how.n_probs = heads_of_layer(b, m, i, &how.probs);
  how.probabilities = &m->probs[i];
  y = accel__attend(b, q, b->decoding ? -1 : m->keys[i], b->decoding ? -1 : m->values[i], &how);
  return accel__dense_layer(b, y, m->hidden, true, x, NULL,
                            "decoder.layers.%u.encoder_attn.out_proj", i);
}

static accel__tensor decoder_layers(accel__build *b, whisper *m, uint32_t n) {
  accel__program *p = b->p;
  const int64_t table[2] = {m->positions, m->hidden};
  accel__at(p, (uint32_t)m->enc_layers + 1, "decoder");
  accel__tensor x = accel__embedding(b, b->input_ids, m->vocab, m->hidden, "decoder.embed_tokens");
  accel__tensor position_rows = accel__gather(
      p, accel__weight_at(b, ACCEL_PLUGIN_USE_PLAIN, 2, table, "decoder.embed_positions.weight"),
      b->position_ids);
  x = accel__binary(p, ACCEL_PLUGIN_BINARY_ADD, x, position_rows);
  for (uint32_t i = 0; i < n; i++) {
    accel__add_hidden(b, x);
    accel__at(p, (uint32_t)m->enc_layers + 1 + i, "decoder.layers.%u", i);
    x = cross_attention(b, m, self_attention(b, m, x, i), i);
    accel__tensor y =
        accel__norm_layer(b, x, -1, eps, true, "decoder.layers.%u.final_layer_norm", i);
    y = accel__dense_layer(b, y, m->dec_inner, true, -1, &m->act, "decoder.layers.%u.fc1", i);
    x = accel__dense_layer(b, y, m->hidden, true, x, NULL, "decoder.layers.%u.fc2", i);
  }
  return x;
}

static accel__tensor decoder(accel__build *b, whisper *m) {
  accel__tensor x = decoder_layers(b, m, (uint32_t)m->dec_layers);
  accel__at(b->p, (uint32_t)(m->enc_layers + m->dec_layers) + 1, "head");
  x = accel__norm_layer(b, x, -1, eps, true, "decoder.layer_norm");
  accel__add_hidden(b, x);
  return x;
}

static accel__tensor vocabulary(accel__build *b, const whisper *m, accel__tensor x) {
  b->in_head = true;
  x = accel__head_vocabulary(b, x, m->vocab, m->tied, "decoder.embed_tokens", "proj_out", NULL);
  b->in_head = false;
  return x;
}

/* Keys and values of the frames into their states. */
static void encode_entry(accel__build *b, whisper *m, uint32_t n_inputs) {
  const int64_t d = m->hidden / m->dec_heads;
  accel__model_output *outputs =
      accel__arena_array(b->arena, (size_t)m->dec_layers + 1, sizeof *outputs);
  if (outputs == NULL) {
    accel__program_fail(b->p, ACCEL_ERROR_OUT_OF_MEMORY, "no memory for outputs");
    return;
  }
  outputs[0] = (accel__model_output){
      .name = "encoder_last_hidden_state",
      .tensor = accel__rows_to_items(b, m->encoded, accel__const_dim(b->p, m->frames))};
  for (uint32_t i = 0; i < (uint32_t)m->dec_layers; i++) {
    char name[48];
    snprintf(name, sizeof name, "layers.%u.cross_kv", i);
    m->cross[i] = accel__state(b->p, &(accel_plugin_state){.name = name,
                                                           .kind = ACCEL_PLUGIN_STATE_CROSS_KV,
                                                           .heads = (int32_t)m->dec_heads,
                                                           .k_dim = (int32_t)d,
                                                           .v_dim = (int32_t)d,
                                                           .share = -1});
    accel__attention how = accel__attention_of(b, m->dec_heads);
    how.q_space = how.kv_space = m->frame_space;
    how.state = m->cross[i];
    accel__at(b->p, (uint32_t)m->enc_layers + 1 + i, "decoder.layers.%u.encoder_attn", i);
    outputs[i + 1] =
        (accel__model_output){.name = accel__arena_string(b->arena, name),
                              .tensor = accel__attend(b, -1, m->keys[i], m->values[i], &how),
                              .asked = true};
  }
  accel__add_entry(b, "encode", b->model->inputs, n_inputs, outputs, (uint32_t)m->dec_layers + 1);
}

static void decode_entry(accel__build *b, whisper *m, uint32_t first_input) {
  b->decoding = true;
  accel__tensor x = decoder(b, m);
  accel__tensor last = accel__reduce_rows(b->p, ACCEL_PLUGIN_REDUCE_LAST, x, -1, b->space);
  accel__model_output outputs[2] = {
      {.name = "logits", .tensor = vocabulary(b, m, last)},
      {.name = "all_logits", .tensor = vocabulary(b, m, x), .asked = true}};
  b->decoding = false;
  accel__add_entry(b, "decode", b->model->inputs + first_input, b->model->n_inputs - first_input,
                   outputs, 2);
}

/* ---- heads that follow the sound ---- */

static bool is_below(const accel__json *value, int64_t end) {
  return cJSON_IsNumber(value) && value->valuedouble >= 0 && value->valuedouble < (double)end &&
         value->valuedouble == (double)(int64_t)value->valuedouble;
}

/* alignment_heads of generation_config.json.  What is wrong with them is told to whoever asks for
 * word timestamps: other uses of the model need none (checkpoints that were made smaller carry the
 * heads of the larger one). */
static accel_status read_alignment_of(accel__build *b, const accel__json_file *f, whisper *m,
                                      accel__alignment *out) {
  const accel__json *list = accel__json_get(f->root, "alignment_heads");
  *out = (accel__alignment){.median_width = m->median};
  if (!cJSON_IsArray(list) || !list->child) {
    out->missing = accel__arena_printf(b->arena, "%s: has no list alignment_heads", f->name);
    return out->missing ? ACCEL_OK : ACCEL_ERROR_OUT_OF_MEMORY;
  }
  m->aligned_heads =
      accel__arena_array(b->arena, (size_t)cJSON_GetArraySize(list), sizeof *m->aligned_heads);
  if (!m->aligned_heads) return ACCEL_ERROR_OUT_OF_MEMORY;
  ACCEL_JSON_EACH(pair, list) {
    const accel__json *layer = cJSON_IsArray(pair) ? pair->child : NULL,
                      *head = layer ? layer->next : NULL;
    if (is_below(layer, m->dec_layers) && is_below(head, m->dec_heads) && !head->next) {
      m->aligned_heads[m->n_aligned_heads][0] = (int64_t)layer->valuedouble;
      m->aligned_heads[m->n_aligned_heads++][1] = (int64_t)head->valuedouble;
      continue;
    }
    m->n_aligned_heads = 0;
    out->missing = accel__arena_printf(
        b->arena,
        "%s: alignment_heads: expected pairs [layer, head] of the decoder's %lld layers and "
        "%lld heads",
        f->name, (long long)m->dec_layers, (long long)m->dec_heads);
    return out->missing ? ACCEL_OK : ACCEL_ERROR_OUT_OF_MEMORY;
  }
  return ACCEL_OK;
}

static accel_status read_alignment(accel__build *b, whisper *m, accel__alignment *out) {
  accel__json_file generation;
  ACCEL_TRY(accel__generation_file(b->request->directory, &generation));
  accel_status status = read_alignment_of(b, generation.root ? &generation : b->file, m, out);
  accel__json_free(&generation);
  return status;
}

/* Where each pair is found among the outputs, of which output k is that of layer[k]. */
static accel_status place_heads(accel__build *b, const whisper *m, const uint32_t *layer,
                                uint32_t n, accel__alignment *out) {
  accel__aligned_head *list = accel__arena_array(b->arena, m->n_aligned_heads, sizeof *list);
  if (!list) return ACCEL_ERROR_OUT_OF_MEMORY;
  for (uint32_t i = 0; i < m->n_aligned_heads; i++)
    for (uint32_t k = 0; k < n; k++) {
      const int64_t *heads;
      if (layer[k] != m->aligned_heads[i][0]) continue;
      const uint32_t count = heads_of_layer(b, m, layer[k], &heads);
      list[i].output = k;
      for (uint32_t h = 0; h < count; h++)
        if (heads[h] == m->aligned_heads[i][1]) list[i].row = h;
    }
  out->head = list;
  out->n = m->n_aligned_heads;
  return ACCEL_OK;
}

/* Entry "align": the decoder as far as the last layer with such heads. */
static accel_status align_entry(accel__build *b, whisper *m, uint32_t first_input) {
  accel__alignment *a = accel__arena_alloc(b->arena, sizeof *a);
  uint32_t layers = 0, n = 0;
  if (!a) return ACCEL_ERROR_OUT_OF_MEMORY;
  b->model->alignment = a;
  ACCEL_TRY(read_alignment(b, m, a));
  for (uint32_t i = 0; i < m->n_aligned_heads; i++)
    if (m->aligned_heads[i][0] >= layers) layers = (uint32_t)m->aligned_heads[i][0] + 1;
  accel__model_output *outputs = accel__arena_array(b->arena, layers, sizeof *outputs);
  uint32_t *layer = accel__arena_array(b->arena, layers, sizeof *layer);
  if (!outputs || !layer) return ACCEL_ERROR_OUT_OF_MEMORY;
  if (!layers) return ACCEL_OK;
  for (uint32_t i = 0; i < layers; i++) m->probs[i] = -1;
  b->decoding = m->aligning = true;
  decoder_layers(b, m, layers);
  b->decoding = m->aligning = false;
  for (uint32_t i = 0; i < layers; i++) {
    if (m->probs[i] < 0) continue;
    layer[n] = i;
    outputs[n++] = (accel__model_output){
        .name = accel__arena_printf(b->arena, "cross_attentions.%u", i), .tensor = m->probs[i]};
  }
  accel__add_entry(b, "align", b->model->inputs + first_input, b->model->n_inputs - first_input,
                   outputs, n);
  return place_heads(b, m, layer, n, a);
}

/* logits from the mean over frames of the (weighted) encoder states */
static void classify(accel__build *b, const whisper *m) {
  accel__tensor x = m->encoded;
  if (m->weighted) {
    const int64_t n = m->enc_layers + 1;
    b->in_head = true;
    x = accel__weighted_states(b, m->states, n, accel__table(b, 1, &n, "layer_weights"));
  }
  b->in_head = true;
  x = accel__dense_layer(b, x, m->classifier, true, -1, NULL, "projector");
  accel__head_sequence(b, accel__reduce_rows(b->p, ACCEL_PLUGIN_REDUCE_MEAN, x, -1, b->space),
                       "classifier");
  b->in_head = false;
}

/* The encoder reads a fixed number of frames and no mask; the class of labels has no decoder. */
static const char *const unread[] = {"attention_mask", NULL}, *const unread_of_labels[] = {
                                                                  "attention_mask",
                                                                  "decoder_input_ids",
                                                                  "decoder_attention_mask", NULL};

static accel_status build(const accel__model_request *request, const char *architecture,
                          accel__model *model) {
  accel__build b;
  ACCEL_TRY(accel__build_begin(&b, request, architecture, model, "model."));
  whisper *m = accel__arena_alloc(b.arena, sizeof *m);
  if (m == NULL) return ACCEL_ERROR_OUT_OF_MEMORY;
  ACCEL_TRY(read_config(&b, m));
  encoder(&b, m);
  model->unread = unread;
  if (accel__is_class(&b, "ForAudioClassification")) {
    model->unread = unread_of_labels;
    classify(&b, m);
    return accel__build_end(&b, m->encoded);
  }
  const uint32_t first = model->n_inputs; /* of the decoder */
  cross_keys(&b, m);
  b.side = 1;
  accel__add_tokens(&b, m->vocab);
  accel__add_positions(&b, m->positions, ACCEL__DEFAULT_ARANGE, 0);
  b.output_path = "decoder_";
  b.n_hidden = 0;
  accel__tensor x = decoder(&b, m);
  b.output_path = NULL;
  if (b.is_base)
    accel__add_output(&b, "last_hidden_state", x, 0);
  else
    accel__add_output(&b, "logits", vocabulary(&b, m, x), 0);
  accel__output_items(&b, "encoder_last_hidden_state", m->encoded, accel__const_dim(b.p, m->frames),
                      false);
  if (!b.is_base) {
    encode_entry(&b, m, first);
    decode_entry(&b, m, first);
    ACCEL_TRY(align_entry(&b, m, first));
  }
  return accel__build_end(&b, x);
}

static const char *const classes[] = {"WhisperModel", "WhisperForConditionalGeneration",
                                      "WhisperForAudioClassification", NULL};
const accel__architecture accel__model_whisper = {
    .model_type = "whisper", .classes = classes, .build = build};
