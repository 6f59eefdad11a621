/* bart.c - BART (transformers' BartModel and its heads), and the layers its relatives share. */
#include "models/bart.h"

#include <math.h>
#include <stdio.h>

static const double EPS = 1e-5; /* torch's LayerNorm: no field of the config */

/* ---- config ---- */

accel_status accel__bart_read(accel__build *b, accel__bart *c) {
  const accel__field fields[] = {
      ACCEL_FIELD_INT("vocab_size", &c->encoder.vocab, 1, ACCEL__MAX_VOCAB),
      ACCEL_FIELD_INT("decoder_vocab_size", &c->decoder.vocab, 1, ACCEL__MAX_VOCAB),
      ACCEL_FIELD_INT("hidden_size", &c->hidden, 1, ACCEL__MAX_WIDTH),
      ACCEL_FIELD_INT("d_model", &c->hidden, 1, ACCEL__MAX_WIDTH),
      ACCEL_FIELD_INT("max_position_embeddings", &c->positions, 1, ACCEL__MAX_POSITIONS),
      ACCEL_FIELD_INT("encoder_layers", &c->encoder.layers, 0, ACCEL__MAX_LAYERS),
      ACCEL_FIELD_INT("encoder_ffn_dim", &c->encoder.inner, 1, ACCEL__MAX_WIDTH),
      ACCEL_FIELD_INT("encoder_attention_heads", &c->encoder.heads, 1, ACCEL__MAX_WIDTH),
      ACCEL_FIELD_INT("decoder_layers", &c->decoder.layers, 0, ACCEL__MAX_LAYERS),
      ACCEL_FIELD_INT("decoder_ffn_dim", &c->decoder.inner, 1, ACCEL__MAX_WIDTH),
      ACCEL_FIELD_INT("decoder_attention_heads", &c->decoder.heads, 1, ACCEL__MAX_WIDTH),
      ACCEL_FIELD_BOOL("scale_embedding", &c->scale_words),
      ACCEL_FIELD_BOOL("share_encoder_decoder_embeddings", &c->shared),
      ACCEL_FIELD_BOOL("tie_word_embeddings", &c->tied),
      ACCEL_FIELD_ACT("activation_function", &c->act),
  };
  ACCEL_TRY(accel__read_fields(b, fields, sizeof fields / sizeof *fields));
  if (c->decoder.vocab == 0 || c->shared) c->decoder.vocab = c->encoder.vocab;
  ACCEL_TRY(accel__divides(b, "encoder_attention_heads", c->encoder.heads, "d_model", c->hidden));
  ACCEL_TRY(accel__divides(b, "decoder_attention_heads", c->decoder.heads, "d_model", c->hidden));
  ACCEL_TRY(accel__read_token_ids(b, c->bos, c->eos, c->pad));
  if (b->model->decoder_start_id < 0) b->model->decoder_start_id = c->start;
  b->model->hidden_size = c->hidden;
  b->model->max_positions = c->positions;
  return ACCEL_OK;
}

/* ---- embeddings ---- */

/* Of a side: the shared table, or the side's own, whichever the checkpoint has; of both the own one
 * when nothing is tied, but for words_given. */
static const char *words_of(accel__build *b, const accel__bart *c, bool decoder) {
  const char *own = decoder ? "decoder.embed_tokens" : "encoder.embed_tokens";
  const bool given = c->words_given && !decoder;
  if (!c->shared ||
      (!c->tied && !given && b->request->checkpoint != NULL && accel__has(b, "%s.weight", own)))
    return own;
  if (b->request->checkpoint == NULL || accel__has(b, "shared.weight")) return "shared";
  if (accel__has(b, "%s.weight", own)) return own;
  return decoder ? "encoder.embed_tokens" : "decoder.embed_tokens";
}

/* sin in the first half of the columns, cos in the second. */
static float marian_sinusoid(const accel__bart *c, int64_t p, int64_t i) {
  int64_t half = (c->hidden + 1) / 2, pair = i < half ? i : i - half;
  double angle = (double)p / pow(10000.0, 2.0 * (double)pair / (double)c->hidden);
  return (float)(i < half ? sin(angle) : cos(angle));
}

/* In fp32 step by step, as torch computes it; an odd column at the end is 0, and so is the padding
 * token's place. */
static float fairseq_sinusoid(const accel__build *b, const accel__bart *c, int64_t p, int64_t i) {
  int64_t half = c->hidden / 2, pair = i < half ? i : i - half;
  if (p <= b->model->pad_id) return 0;
  float angle = (float)p * expf((float)pair * -(float)(log(10000.0) / (double)(half - 1)));
  return i >= 2 * half ? 0 : i < half ? sinf(angle) : cosf(angle);
}

/* Rows of the table of positions.  M2M100's class makes a longer one when it is too short: here
 * some are there at once. */
static int64_t max_positions_of(const accel__build *b, const accel__bart *c) {
  const int64_t least = 2048;
  if (!c->behind_pad) return c->positions;
  return (c->positions > least ? c->positions : least) + b->model->pad_id + 1;
}

static accel__tensor sinusoids(accel__build *b, const accel__bart *c) {
  const int64_t n = max_positions_of(b, c), shape[2] = {n, c->hidden};
  if (b->seq2seq.position_table >= 0) return b->seq2seq.position_table;
  float *value = accel__arena_array(b->arena, (size_t)(n * c->hidden), sizeof *value);
  if (value == NULL)
    return accel__program_fail(b->p, ACCEL_ERROR_OUT_OF_MEMORY, "no memory for positions");
  for (int64_t p = 0; p < n; p++)
    for (int64_t i = 0; i < c->hidden; i++)
      value[p * c->hidden + i] =
          c->behind_pad ? fairseq_sinusoid(b, c, p, i) : marian_sinusoid(c, p, i);
  return b->seq2seq.position_table = accel__constant_f32(b->p, "positions", 2, shape, value);
}

static accel__tensor embeddings(accel__build *b, const accel__bart *c, bool decoder) {
  char name[60];
  const char *side = decoder ? "decoder" : "encoder";
  int64_t vocab = decoder ? c->decoder.vocab : c->encoder.vocab;
  accel__tensor x = accel__scaled_embedding(b, b->input_ids, vocab, c->hidden,
                                            c->scale_words ? sqrt((double)c->hidden) : 0,
                                            words_of(b, c, decoder));
  if (!decoder) x = accel__merge_images(b, x);
  snprintf(name, sizeof name, "%s.embed_positions", side);
  /* computed ones may be, too */
  bool stored = b->request->checkpoint != NULL && accel__has(b, "%s.weight", name);
  accel__tensor table = c->sinusoids && !stored ? sinusoids(b, c)
                                                : accel__position_table(b, c->positions, c->hidden,
                                                                        c->sinusoids ? 0 : 2, name);
  x = accel__binary(b->p, ACCEL_PLUGIN_BINARY_ADD, x, accel__gather(b->p, table, b->position_ids));
  return c->words_norm ? accel__norm_layer(b, x, -1, EPS, true, "%s.layernorm_embedding", side) : x;
}

/* ---- layers ---- */

static accel__tensor norm(accel__build *b, accel__tensor x, const char *side, uint32_t i,
                          const char *name) {
  return accel__norm_layer(b, x, -1, EPS, true, "%s.layers.%u.%s", side, i, name);
}

static accel__tensor dense(accel__build *b, accel__tensor x, int64_t out, accel__tensor residual,
                           const accel__activation *act, const char *side, uint32_t i,
                           const char *name) {
  return accel__dense_layer(b, x, out, true, residual, act, "%s.layers.%u.%s", side, i, name);
}

static accel__tensor self_attention(accel__build *b, const accel__bart *c, accel__tensor x,
                                    bool decoder, uint32_t i) {
  const char *side = decoder ? "decoder" : "encoder";
  int64_t heads = decoder ? c->decoder.heads : c->encoder.heads;
  accel__tensor y = c->before ? norm(b, x, side, i, "self_attn_layer_norm") : x;
  accel__tensor q = dense(b, y, c->hidden, -1, NULL, side, i, "self_attn.q_proj");
  accel__tensor k = dense(b, y, c->hidden, -1, NULL, side, i, "self_attn.k_proj");
  accel__tensor v = dense(b, y, c->hidden, -1, NULL, side, i, "self_attn.v_proj");
  accel__attention how = accel__attention_of(b, heads);
  how.causal = decoder;
  if (decoder) how.state = accel__kv_state(b, i, heads, c->hidden / heads, c->hidden / heads, 0);
  x = dense(b, accel__attend(b, q, k, v, &how), c->hidden, x, NULL, side, i, "self_attn.out_proj");
  return c->before ? x : norm(b, x, side, i, "self_attn_layer_norm");
}

static accel__tensor feed_forward(accel__build *b, const accel__bart *c, accel__tensor x,
                                  bool decoder, uint32_t i) {
  const char *side = decoder ? "decoder" : "encoder";
  int64_t inner = decoder ? c->decoder.inner : c->encoder.inner;
  accel__tensor y = c->before ? norm(b, x, side, i, "final_layer_norm") : x;
  x = dense(b, dense(b, y, inner, -1, &c->act, side, i, "fc1"), c->hidden, x, NULL, side, i, "fc2");
  return c->before ? x : norm(b, x, side, i, "final_layer_norm");
}

static accel__tensor encoder(accel__build *b, const void *config) {
  const accel__bart *c = config;
  accel__at(b->p, 0, "encoder");
  accel__tensor x = embeddings(b, c, false);
  for (uint32_t i = 0; i < (uint32_t)c->encoder.layers; i++) {
    accel__add_hidden(b, x);
    accel__at(b->p, i + 1, "encoder.layers.%u", i);
    x = feed_forward(b, c, self_attention(b, c, x, false, i), false, i);
  }
  if (c->before) x = accel__norm_layer(b, x, -1, EPS, true, "encoder.layer_norm");
  accel__add_hidden(b, x);
  return x;
}

static accel__keys keys(accel__build *b, const void *config, accel__tensor memory, uint32_t i) {
  const accel__bart *c = config;
  return (accel__keys){dense(b, memory, c->hidden, -1, NULL, "decoder", i, "encoder_attn.k_proj"),
                       dense(b, memory, c->hidden, -1, NULL, "decoder", i, "encoder_attn.v_proj")};
}

static accel__tensor cross_attention(accel__build *b, const accel__bart *c, accel__tensor x,
                                     accel__tensor memory, uint32_t i) {
  const accel__seq2seq how = accel__bart_seq2seq(c);
  accel__tensor y = c->before ? norm(b, x, "decoder", i, "encoder_attn_layer_norm") : x;
  accel__tensor q = dense(b, y, c->hidden, -1, NULL, "decoder", i, "encoder_attn.q_proj");
  y = accel__cross_attend(b, &how, q, memory, i, 0);
  x = dense(b, y, c->hidden, x, NULL, "decoder", i, "encoder_attn.out_proj");
  return c->before ? x : norm(b, x, "decoder", i, "encoder_attn_layer_norm");
}

static accel__tensor decoder(accel__build *b, const void *config, accel__tensor memory) {
  const accel__bart *c = config;
  uint32_t first = (uint32_t)c->encoder.layers + 1;
  accel__at(b->p, first, "decoder");
  accel__tensor x = embeddings(b, c, true);
  for (uint32_t i = 0; i < (uint32_t)c->decoder.layers; i++) {
    accel__add_hidden(b, x);
    accel__at(b->p, first + i, "decoder.layers.%u", i);
    x = cross_attention(b, c, self_attention(b, c, x, true, i), memory, i);
    x = feed_forward(b, c, x, true, i);
  }
  if (c->before) x = accel__norm_layer(b, x, -1, EPS, true, "decoder.layer_norm");
  accel__add_hidden(b, x);
  return x;
}

accel__tensor accel__bart_encoder(accel__build *b, const accel__bart *c) { return encoder(b, c); }

accel__tensor accel__bart_decoder(accel__build *b, const accel__bart *c, accel__tensor memory) {
  return decoder(b, c, memory);
}

accel__keys accel__bart_keys(accel__build *b, const accel__bart *c, accel__tensor memory,
                             uint32_t i) {
  return keys(b, c, memory, i);
}

/* ---- heads ---- */

static accel__tensor logits(accel__build *b, const void *config, accel__tensor x) {
  const accel__bart *c = config;
  b->in_head = true;
  x = accel__head_vocabulary(b, x, c->decoder.vocab, c->tied, words_of(b, c, true), "lm_head",
                             NULL);
  if (b->request->checkpoint != NULL && accel__has(b, "final_logits_bias"))
    x = accel__binary(b->p, ACCEL_PLUGIN_BINARY_ADD, x,
                      accel__weight_at(b, ACCEL_PLUGIN_USE_PLAIN, 2,
                                       (int64_t[]){1, c->decoder.vocab}, "final_logits_bias"));
  b->in_head = false;
  return x;
}

accel__seq2seq accel__bart_seq2seq(const accel__bart *c) {
  return (accel__seq2seq){.config = c,
                          .encoder = encoder,
                          .decoder = decoder,
                          .keys = keys,
                          .logits = logits,
                          .layers = c->decoder.layers,
                          .heads = c->decoder.heads,
                          .head_dim = c->hidden / c->decoder.heads,
                          .hidden = c->hidden};
}

accel_status accel__bart_build(accel__build *b, accel__bart *c) {
  ACCEL_TRY(accel__bart_read(b, c));
  if (c->behind_pad && c->hidden < 4)
    return accel__fail(ACCEL_ERROR_UNSUPPORTED, "%s: d_model is %lld; positions need at least 4",
                       b->file->name, (long long)c->hidden);
  ACCEL_TRY(accel__read_labels(b));
  /* whatever the config says */
  if (accel__is_class(b, "ForQuestionAnswering")) b->model->num_labels = 2;
  accel__seq2seq how = accel__bart_seq2seq(c);
  const accel__input_default otherwise =
      c->behind_pad ? ACCEL__DEFAULT_ROBERTA : ACCEL__DEFAULT_ARANGE;
  accel__add_tokens(b, c->encoder.vocab);
  accel__add_positions(b, max_positions_of(b, c), otherwise, 0);
  accel__add_decoder_tokens(b, c->decoder.vocab, c->shifted);
  accel__add_positions(b, max_positions_of(b, c), otherwise, 0);
  if (accel__is_class(b, "ForSequenceClassification")) accel__add_eos_row(b);
  return accel__seq2seq_build(b, &how);
}

/* ---- BART ---- */

const accel__bart accel__bart_defaults = {
    .hidden = 1024,
    .positions = 1024,
    .encoder = {.layers = 12, .inner = 4096, .heads = 16, .vocab = 50265},
    .decoder = {.layers = 12, .inner = 4096, .heads = 16},
    .words_norm = true,
    .shared = true,
    .tied = true,
    .shifted = ACCEL__DEFAULT_SHIFTED,
    .bos = 0,
    .eos = 2,
    .pad = 1,
    .start = 2,
    .act = {.act = ACCEL_PLUGIN_ACT_GELU}};

static accel_status build(const accel__model_request *request, const char *architecture,
                          accel__model *model) {
  accel__build b;
  accel__bart c = accel__bart_defaults;
  ACCEL_TRY(accel__build_begin(&b, request, architecture, model, "model."));
  b.default_labels = 3;
  return accel__bart_build(&b, &c);
}

static const char *const classes[] = {"BartModel", "BartForConditionalGeneration",
                                      "BartForSequenceClassification", "BartForQuestionAnswering",
                                      NULL};
const accel__architecture accel__model_bart = {
    .model_type = "bart", .classes = classes, .build = build};
