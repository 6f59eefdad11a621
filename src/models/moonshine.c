/* moonshine.c - Moonshine (Jeffries et al. 2024, arXiv 2410.15608; transformers' MoonshineModel and
 * MoonshineForConditionalGeneration): three convolutions over the waveform, a transformer whose
 * heads turn in part, a decoder with gated layers that attends to it.
 *
 * attention_mask [B,samples] hides frames of padding, whose samples the group norm counts all the
 * same, as in the reference.  Entry "encode" takes no mask: a sound is generated from by itself. */
#include <string.h>

#include "modeling/causal.h"
#include "modeling/seq2seq.h"
#include "modeling/vision.h"

enum { STRIDE = 64 * 3 * 2 }; /* samples of a frame */

/* What the encoder has made of the sounds. */
typedef struct heard {
  accel__dim frames;  /* of each item */
  accel__tensor rows; /* [B*frames, hidden] */
} heard;

typedef struct moonshine {
  int64_t vocab, hidden, inner, enc_layers, dec_layers, heads, positions;
  bool tied, bias;
  accel__activation enc_act, dec_act;
  accel__rope rope;
  accel__tensor values, mask; /* inputs */
  heard *heard;               /* filled when the encoder is built */
} moonshine;

static const double eps = 1e-5; /* torch's default */

/* ---- config ---- */

static accel_status read_rope(accel__build *b, moonshine *m) {
  const int64_t width = m->hidden / m->heads;
  ACCEL_TRY(accel__rope_config(b, NULL, 10000.0, 0.9, width, m->positions, "rope", &m->rope));
  m->rope.style = ACCEL_PLUGIN_ROPE_INTERLEAVED;
  return ACCEL_OK;
}

/* Heads of the two sides: the reference builds both with the encoder's number (each of its layers
 * writes its own into the config), and cannot run fewer heads of keys than of queries. */
static accel_status read_heads(accel__build *b, moonshine *m) {
  int64_t decoder = 8, keys[2] = {0, 0}, multiple = 1;
  m->heads = 8;
  const accel__field fields[] = {
      ACCEL_FIELD_INT("encoder_num_attention_heads", &m->heads, 1, ACCEL__MAX_WIDTH),
      ACCEL_FIELD_INT("decoder_num_attention_heads", &decoder, 1, ACCEL__MAX_WIDTH),
      ACCEL_FIELD_INT("encoder_num_key_value_heads", &keys[0], 1, ACCEL__MAX_WIDTH),
      ACCEL_FIELD_INT("decoder_num_key_value_heads", &keys[1], 1, ACCEL__MAX_WIDTH),
      /* zeros behind each head, which change nothing */
      ACCEL_FIELD_INT("pad_head_dim_to_multiple_of", &multiple, 1, ACCEL__MAX_WIDTH)};
  ACCEL_TRY(accel__read_fields(b, fields, sizeof fields / sizeof *fields));
  if (decoder != m->heads)
    return accel__refuse(b,
                         "field 'decoder_num_attention_heads': %lld is not supported beside %lld "
                         "of the encoder",
                         (long long)decoder, (long long)m->heads);
  for (int side = 0; side < 2; side++)
    if (keys[side] && keys[side] != m->heads)
      return accel__refuse(b,
                           "field '%s_num_key_value_heads': %lld is not supported beside %lld "
                           "heads",
                           side ? "decoder" : "encoder", (long long)keys[side],
                           (long long)m->heads);
  return accel__divides(b, "encoder_num_attention_heads", m->heads, "hidden_size", m->hidden);
}

static accel_status read_config(accel__build *b, moonshine *m) {
  *m = (moonshine){.vocab = 32768,
                   .hidden = 288,
                   .inner = 1152,
                   .enc_layers = 6,
                   .dec_layers = 6,
                   .positions = 512,
                   .tied = true,
                   .enc_act = {.act = ACCEL_PLUGIN_ACT_GELU},
                   .dec_act = {.act = ACCEL_PLUGIN_ACT_SILU},
                   .heard = accel__arena_alloc(b->arena, sizeof *m->heard)};
  if (m->heard == NULL) return ACCEL_ERROR_OUT_OF_MEMORY;
  int64_t start = 1;
  const accel__field fields[] = {
      ACCEL_FIELD_INT("vocab_size", &m->vocab, 1, ACCEL__MAX_VOCAB),
      ACCEL_FIELD_INT("hidden_size", &m->hidden, 1, ACCEL__MAX_WIDTH),
      ACCEL_FIELD_INT("intermediate_size", &m->inner, 1, ACCEL__MAX_WIDTH),
      ACCEL_FIELD_INT("encoder_num_hidden_layers", &m->enc_layers, 0, ACCEL__MAX_LAYERS),
      ACCEL_FIELD_INT("decoder_num_hidden_layers", &m->dec_layers, 0, ACCEL__MAX_LAYERS),
      ACCEL_FIELD_INT("max_position_embeddings", &m->positions, 1, ACCEL__MAX_POSITIONS),
      ACCEL_FIELD_INT("decoder_start_token_id", &start, 0, ACCEL__MAX_VOCAB),
      ACCEL_FIELD_BOOL("attention_bias", &m->bias),
      ACCEL_FIELD_BOOL("tie_word_embeddings", &m->tied),
      ACCEL_FIELD_ACT("encoder_hidden_act", &m->enc_act),
      ACCEL_FIELD_ACT("decoder_hidden_act", &m->dec_act)};
  ACCEL_TRY(accel__read_fields(b, fields, sizeof fields / sizeof *fields));
  ACCEL_TRY(read_heads(b, m));
  ACCEL_TRY(read_rope(b, m));
  ACCEL_TRY(accel__read_token_ids(b, /*bos*/ 1, /*eos*/ 2, /*pad*/ -1));
  b->model->decoder_start_id = start;
  b->model->hidden_size = m->hidden;
  b->model->max_positions = m->positions;
  return ACCEL_OK;
}

/* ---- the encoder ---- */

/* input_values [B,L] -> rows [B*frames, hidden] */
static accel__tensor convolutions(accel__build *b, const moonshine *m) {
  static const accel__activation tanh_act = {.act = ACCEL_PLUGIN_ACT_TANH},
                                 gelu = {.act = ACCEL_PLUGIN_ACT_GELU};
  const accel__conv1 conv[3] = {
      {.out = m->hidden, .kernel = 127, .stride = 64, .act = &tanh_act},
      {.out = 2 * m->hidden, .kernel = 7, .stride = 3, .bias = true, .act = &gelu},
      {.out = m->hidden, .kernel = 3, .stride = 2, .bias = true, .act = &gelu}};
  accel__program *p = b->p;
  accel__at(p, 0, "encoder");
  accel__tensor x = accel__reshape(
      p, m->values, 3,
      (accel__dim[]){b->B, accel__const_dim(p, 1), accel__tensor_dim(p, m->values, 1)});
  x = accel__conv1d(b, x, &conv[0], "encoder.conv1");
  x = accel__group_norm(b, x, 1, eps, "encoder.groupnorm");
  x = accel__conv1d(b, accel__conv1d(b, x, &conv[1], "encoder.conv2"), &conv[2], "encoder.conv3");
  x = accel__transpose(b, x, 3, (int64_t[]){0, 2, 1});
  m->heard->frames = x < 0 ? -1 : accel__tensor_dim(p, x, 1);
  return accel__items_to_rows(b, x, "frames");
}

/* int32 [B*frames]: 0, 1 .. frames - 1 of each item */
static accel__tensor positions(accel__build *b, const moonshine *m) {
  accel__dim all = accel__times(b, b->B, m->heard->frames), both[2] = {b->B, m->heard->frames};
  accel__tensor at = accel__affine(b, accel__count(b, m->heard->frames), 1.0, 0.5);
  at = accel__reshape(b->p, accel__broadcast(b, at, 2, both), 1, &all);
  return accel__cast(b, at, ACCEL_PLUGIN_I32);
}

/* int32 [B*frames]: the mask at each frame's first sample. */
static accel__tensor frame_mask(accel__build *b, const moonshine *m) {
  accel__program *p = b->p;
  accel__dim zero = accel__const_dim(p, 0), all = accel__times(b, b->B, m->heard->frames);
  int64_t from = zero, to = accel__tensor_dim(p, m->mask, 1);
  accel__attr attr[] = {ACCEL_I(AXIS, 1), ACCEL_D(START, &from, 1), ACCEL_D(END, &to, 1),
                        ACCEL_I(STEP, STRIDE)};
  accel__tensor x = accel__cast(b, m->mask, ACCEL_PLUGIN_F32);
  x = accel__node(p, ACCEL_PLUGIN_OP_SLICE, &x, 1, attr, 4, NULL, 1);
  x = accel__slice_dims(b, x, 1, zero, m->heard->frames);
  return accel__reshape(p, accel__cast(b, x, ACCEL_PLUGIN_I32), 1, &all);
}

/* q, k or v of an attention: "encoder.layers.0.self_attn.q_proj". */
static accel__tensor project(accel__build *b, const moonshine *m, accel__tensor x, const char *side,
                             uint32_t i, const char *name) {
  return accel__dense_layer(b, x, m->hidden, m->bias, -1, NULL, "%s.layers.%u.%s", side, i, name);
}

/* x + attention to the rows themselves. */
static accel__tensor self_attention(accel__build *b, const moonshine *m, accel__tensor x,
                                    bool decoder, uint32_t i) {
  const char *side = decoder ? "decoder" : "encoder";
  const int64_t d = m->hidden / m->heads;
  accel__attention how = accel__attention_of(b, m->heads);
  accel__tensor y =
      accel__norm_layer(b, x, -1, eps, false, "%s.layers.%u.input_layernorm", side, i);
  accel__tensor q = accel__rope_rows(b, project(b, m, y, side, i, "self_attn.q_proj"), &m->rope),
                k = accel__rope_rows(b, project(b, m, y, side, i, "self_attn.k_proj"), &m->rope),
                v = project(b, m, y, side, i, "self_attn.v_proj");
  how.causal = decoder;
  if (decoder)
    how.state = accel__kv_state(b, i, m->heads, d, d, 0);
  else
    how.mask = b->seq2seq.memory_mask;
  return accel__dense_layer(b, accel__attend(b, q, k, v, &how), m->hidden, false, x, NULL,
                            "%s.layers.%u.self_attn.o_proj", side, i);
}

static accel__tensor encoder(accel__build *b, const void *config) {
  const moonshine *m = config;
  accel__tensor x = convolutions(b, m);
  b->position_ids = positions(b, m);
  b->seq2seq.memory_mask = b->decoding ? -1 : frame_mask(b, m);
  for (uint32_t i = 0; i < (uint32_t)m->enc_layers; i++) {
    if (!b->decoding) accel__hidden_items(b, x, m->heard->frames);
    accel__at(b->p, i + 1, "encoder.layers.%u", i);
    x = self_attention(b, m, x, false, i);
    accel__tensor y =
        accel__norm_layer(b, x, -1, eps, false, "encoder.layers.%u.post_attention_layernorm", i);
    y = accel__dense_layer(b, y, m->inner, true, -1, &m->enc_act, "encoder.layers.%u.mlp.fc1", i);
    x = accel__dense_layer(b, y, m->hidden, true, x, NULL, "encoder.layers.%u.mlp.fc2", i);
  }
  x = accel__norm_layer(b, x, -1, eps, false, "encoder.layer_norm");
  if (!b->decoding) accel__hidden_items(b, x, m->heard->frames);
  return m->heard->rows = x;
}

static void output_encoded(accel__build *b, const void *config) {
  const heard *h = ((const moonshine *)config)->heard;
  accel__output_items(b, "encoder_last_hidden_state", h->rows, h->frames, false);
}

/* ---- the decoder ---- */

static accel__keys keys(accel__build *b, const void *config, accel__tensor memory, uint32_t i) {
  const moonshine *m = config;
  return (accel__keys){.k = project(b, m, memory, "decoder", i, "encoder_attn.k_proj"),
                       .v = project(b, m, memory, "decoder", i, "encoder_attn.v_proj")};
}

static accel__tensor decoder(accel__build *b, const void *config, accel__tensor memory);

static accel__tensor logits(accel__build *b, const void *config, accel__tensor x) {
  const moonshine *m = config;
  b->in_head = true;
  x = accel__head_vocabulary(b, x, m->vocab, m->tied, "decoder.embed_tokens", "proj_out", NULL);
  b->in_head = false;
  return x;
}

static accel__seq2seq describe(const moonshine *m) {
  return (accel__seq2seq){.config = m,
                          .encoder = encoder,
                          .decoder = decoder,
                          .keys = keys,
                          .output_encoded = output_encoded,
                          .logits = logits,
                          .encode_without = "attention_mask",
                          .layers = m->dec_layers,
                          .heads = m->heads,
                          .head_dim = m->hidden / m->heads,
                          .hidden = m->hidden};
}

static accel__tensor decoder(accel__build *b, const void *config, accel__tensor memory) {
  const moonshine *m = config;
  const accel__seq2seq how = describe(m);
  const uint32_t stage = (uint32_t)m->enc_layers + 1;
  accel__at(b->p, stage, "decoder");
  accel__tensor x = accel__embedding(b, b->input_ids, m->vocab, m->hidden, "decoder.embed_tokens");
  for (uint32_t i = 0; i < (uint32_t)m->dec_layers; i++) {
    accel__add_hidden(b, x);
    accel__at(b->p, stage + i, "decoder.layers.%u", i);
    x = self_attention(b, m, x, true, i);
    accel__tensor y =
        accel__norm_layer(b, x, -1, eps, false, "decoder.layers.%u.post_attention_layernorm", i);
    y = accel__cross_attend(b, &how, project(b, m, y, "decoder", i, "encoder_attn.q_proj"), memory,
                            i, 0);
    x = accel__dense_layer(b, y, m->hidden, false, x, NULL, "decoder.layers.%u.encoder_attn.o_proj",
                           i);
    y = accel__norm_layer(b, x, -1, eps, false, "decoder.layers.%u.final_layernorm", i);
    y = accel__gated_fused_last(b, y, m->inner, true, &m->dec_act, "decoder.layers.%u.mlp.fc1", i);
    x = accel__dense_layer(b, y, m->hidden, true, x, NULL, "decoder.layers.%u.mlp.fc2", i);
  }
  accel__at(b->p, stage + (uint32_t)m->dec_layers, "head");
  x = accel__norm_layer(b, x, -1, eps, false, "decoder.norm");
  accel__add_hidden(b, x);
  return x;
}

static accel_status build(const accel__model_request *request, const char *architecture,
                          accel__model *model) {
  enum { LEAST = ((3 - 1) * 3 + 7 - 1) * 64 + 127, USUAL = 80000 }; /* samples of one frame; 5 s */
  accel__build b;
  ACCEL_TRY(accel__build_begin(&b, request, architecture, model, "model."));
  moonshine *m = accel__arena_alloc(b.arena, sizeof *m);
  if (m == NULL) return ACCEL_ERROR_OUT_OF_MEMORY;
  ACCEL_TRY(read_config(&b, m));
  b.B = accel__symbol(b.p, "B", 1, 0, 1);
  const accel__dim dims[2] = {b.B, accel__symbol(b.p, "L", LEAST, 0, USUAL)};
  m->values =
      accel__add_item(&b, "input_values", ACCEL_PLUGIN_F32, 2, dims, ACCEL__DEFAULT_REQUIRED);
  m->mask = accel__add_item(&b, "attention_mask", ACCEL_PLUGIN_I32, 2, dims, ACCEL__DEFAULT_ONES);
  accel__add_decoder_tokens(&b, m->vocab, ACCEL__DEFAULT_REQUIRED);
  accel__add_positions(&b, m->positions, ACCEL__DEFAULT_ARANGE, 0);
  const accel__seq2seq how = describe(m);
  return accel__seq2seq_build(&b, &how);
}

static const char *const classes[] = {"MoonshineModel", "MoonshineForConditionalGeneration", NULL};
const accel__architecture accel__model_moonshine = {
    .model_type = "moonshine", .classes = classes, .build = build};
