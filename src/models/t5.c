/* t5.c - T5, T5 v1.1 and Flan-T5 (transformers' T5Model and its heads): RMS norms, relative
 * positions by buckets, which the first layer of each side keeps for all. */
#include "models/t5.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

/* ---- config ---- */

/* "relu" or "gated-ACT"; gated-gelu means the tanh approximation.  dense_act_fn and is_gated_act,
 * which follow from it, rank over it where a config says them. */
static accel_status read_feed_forward(accel__build *b, accel__t5 *c) {
  const char *name = c->feed_forward;
  ACCEL_TRY(accel__json_string(b->file, b->config, "feed_forward_proj", &name));
  c->gated = accel__starts_with(name, "gated-");
  const char *act = c->gated ? name + strlen("gated-") : name;
  if (strcmp(name, "gated-gelu") == 0) act = "gelu_new";
  const char *own = act;
  ACCEL_TRY(accel__json_string(b->file, b->config, "dense_act_fn", &own));
  ACCEL_TRY(accel__json_bool(b->file, b->config, "is_gated_act", &c->gated));
  return accel__activation_of(b, own == act ? "feed_forward_proj" : "dense_act_fn", own, &c->act);
}

accel_status accel__t5_read(accel__build *b, accel__t5 *c) {
  c->decoder_layers = -1;
  const accel__field fields[] = {
      ACCEL_FIELD_INT("vocab_size", &c->vocab, 1, ACCEL__MAX_VOCAB),
      ACCEL_FIELD_INT("d_model", &c->hidden, 1, ACCEL__MAX_WIDTH),
      ACCEL_FIELD_INT("hidden_size", &c->hidden, 1, ACCEL__MAX_WIDTH),
      ACCEL_FIELD_INT("d_kv", &c->head_dim, 1, ACCEL__MAX_WIDTH),
      ACCEL_FIELD_INT("d_ff", &c->inner, 1, ACCEL__MAX_WIDTH),
      ACCEL_FIELD_INT("num_hidden_layers", &c->layers, 0, ACCEL__MAX_LAYERS),
      ACCEL_FIELD_INT("num_layers", &c->layers, 0, ACCEL__MAX_LAYERS),
      ACCEL_FIELD_INT("num_decoder_layers", &c->decoder_layers, 0, ACCEL__MAX_LAYERS),
      ACCEL_FIELD_INT("num_attention_heads", &c->heads, 1, 1 << 16),
      ACCEL_FIELD_INT("num_heads", &c->heads, 1, 1 << 16),
      ACCEL_FIELD_INT("relative_attention_num_buckets", &c->buckets, 4, 1 << 16),
      ACCEL_FIELD_INT("relative_attention_max_distance", &c->distance, 2, ACCEL__MAX_POSITIONS),
      ACCEL_FIELD_NUMBER("layer_norm_epsilon", &c->eps),
  };
  ACCEL_TRY(accel__read_fields(b, fields, sizeof fields / sizeof *fields));
  ACCEL_TRY(read_feed_forward(b, c));
  if (c->decoder_layers < 0) c->decoder_layers = c->layers;
  ACCEL_TRY(accel__read_token_ids(b, /*bos*/ -1, /*eos*/ 1, /*pad*/ 0));
  if (b->model->decoder_start_id < 0) b->model->decoder_start_id = c->start;
  b->model->hidden_size = c->hidden;
  return accel__read_labels(b);
}

/* ---- layers ---- */

/* [buckets, heads] of the side's first layer. */
static accel__tensor bias_table(accel__build *b, const accel__t5 *c, const char *side) {
  char name[100];
  snprintf(name, sizeof name, "%s.block.0.layer.0.SelfAttention.relative_attention_bias.weight",
           side);
  return accel__weight_at(b, ACCEL_PLUGIN_USE_PLAIN, 2, (int64_t[]){c->buckets, c->heads}, name);
}

static accel__tensor dense(accel__build *b, accel__tensor x, int64_t out, accel__tensor residual,
                           const char *side, uint32_t i, const char *name) {
  return accel__dense_layer(b, x, out, false, residual, NULL, "%s.block.%u.layer.%s", side, i,
                            name);
}

static accel__tensor self_attention(accel__build *b, const accel__t5 *c, accel__tensor x,
                                    const char *side, uint32_t i) {
  int64_t inner = c->heads * c->head_dim;
  bool decoder = side[0] == 'd';
  accel__tensor y = accel__rms_layer(b, x, c->eps, 0, "%s.block.%u.layer.0.layer_norm", side, i);
  accel__tensor q = dense(b, y, inner, -1, side, i, "0.SelfAttention.q");
  accel__tensor k = dense(b, y, inner, -1, side, i, "0.SelfAttention.k");
  accel__tensor v = dense(b, y, inner, -1, side, i, "0.SelfAttention.v");
  accel__attention how = accel__attention_of(b, c->heads);
  how.scale = 1.0;
  how.causal = decoder;
  if (!decoder) how.mask = b->seq2seq.memory_mask;
  if (!decoder && b->model->forecasting != NULL) how.positions = b->position_ids;
  how.bias = bias_table(b, c, side);
  how.bias_kind =
      decoder ? ACCEL_PLUGIN_BIAS_T5_UNIDIRECTIONAL : ACCEL_PLUGIN_BIAS_T5_BIDIRECTIONAL;
  how.buckets = c->buckets;
  how.max_distance = c->distance;
  if (decoder) how.state = accel__kv_state(b, i, c->heads, c->head_dim, c->head_dim, 0);
  return dense(b, accel__attend(b, q, k, v, &how), c->hidden, x, side, i, "0.SelfAttention.o");
}

static accel__tensor feed_forward(accel__build *b, const accel__t5 *c, accel__tensor x,
                                  const char *side, uint32_t i, uint32_t layer) {
  char path[80];
  accel__tensor y =
      accel__rms_layer(b, x, c->eps, 0, "%s.block.%u.layer.%u.layer_norm", side, i, layer);
  snprintf(path, sizeof path, "%s.block.%u.layer.%u.DenseReluDense", side, i, layer);
  y = c->gated ? accel__gated_layer(b, y, c->inner, false, &c->act, path, "wi_0", "wi_1")
               : accel__dense_layer(b, y, c->inner, false, -1, &c->act, "%s.wi", path);
  return accel__dense_layer(b, y, c->hidden, false, x, NULL, "%s.wo", path);
}

/* The table that both sides share, under the names checkpoints give it. */
static const char *words_of(accel__build *b) {
  static const char *const names[] = {"shared", "encoder.embed_tokens", "decoder.embed_tokens"};
  for (int i = 0; b->request->checkpoint != NULL && i < 3; i++)
    if (accel__has(b, "%s.weight", names[i])) return names[i];
  return names[0];
}

accel__tensor accel__t5_encoder(accel__build *b, const accel__t5 *c, accel__tensor x) {
  for (uint32_t i = 0; i < (uint32_t)c->layers; i++) {
    accel__add_hidden(b, x);
    accel__at(b->p, i + 1, "encoder.block.%u", i);
    x = feed_forward(b, c, self_attention(b, c, x, "encoder", i), "encoder", i, 1);
  }
  x = accel__rms_layer(b, x, c->eps, 0, "encoder.final_layer_norm");
  accel__add_hidden(b, x);
  return x;
}

static accel__tensor encoder(accel__build *b, const void *config) {
  const accel__t5 *c = config;
  accel__at(b->p, 0, "encoder");
  return accel__t5_encoder(b, c,
                           accel__embedding(b, b->input_ids, c->vocab, c->hidden, words_of(b)));
}

accel__tensor accel__t5_encode(accel__build *b, const accel__t5 *c) { return encoder(b, c); }

static accel__keys keys(accel__build *b, const void *config, accel__tensor memory, uint32_t i) {
  const accel__t5 *c = config;
  int64_t inner = c->heads * c->head_dim;
  return (accel__keys){dense(b, memory, inner, -1, "decoder", i, "1.EncDecAttention.k"),
                       dense(b, memory, inner, -1, "decoder", i, "1.EncDecAttention.v")};
}

static accel__seq2seq describe(const accel__t5 *c);

accel__tensor accel__t5_decoder(accel__build *b, const accel__t5 *c, accel__tensor x,
                                accel__tensor memory) {
  const accel__seq2seq how = describe(c);
  const uint32_t first = (uint32_t)c->layers + 1;
  for (uint32_t i = 0; i < (uint32_t)c->decoder_layers; i++) {
    accel__add_hidden(b, x);
    accel__at(b->p, first + i, "decoder.block.%u", i);
    x = self_attention(b, c, x, "decoder", i);
    accel__tensor y = accel__rms_layer(b, x, c->eps, 0, "decoder.block.%u.layer.1.layer_norm", i);
    accel__tensor q = dense(b, y, c->heads * c->head_dim, -1, "decoder", i, "1.EncDecAttention.q");
    y = accel__cross_attend(b, &how, q, memory, i, 1.0);
    x = dense(b, y, c->hidden, x, "decoder", i, "1.EncDecAttention.o");
    x = feed_forward(b, c, x, "decoder", i, 2);
  }
  x = accel__rms_layer(b, x, c->eps, 0, "decoder.final_layer_norm");
  accel__add_hidden(b, x);
  return x;
}

static accel__tensor decoder(accel__build *b, const void *config, accel__tensor memory) {
  const accel__t5 *c = config;
  accel__at(b->p, (uint32_t)c->layers + 1, "decoder");
  return accel__t5_decoder(
      b, c, accel__embedding(b, b->input_ids, c->vocab, c->hidden, words_of(b)), memory);
}

static accel__tensor logits(accel__build *b, const void *config, accel__tensor x) {
  const accel__t5 *c = config;
  if (c->scale_logits) {
    accel__attr attr[] = {ACCEL_I(KIND, ACCEL_PLUGIN_UNARY_AFFINE),
                          ACCEL_F(ALPHA, 1.0 / sqrt((double)c->hidden))};
    x = accel__node(b->p, ACCEL_PLUGIN_OP_UNARY, &x, 1, attr, 2, NULL, 1);
  }
  b->in_head = true;
  x = accel__head_vocabulary(b, x, c->vocab, true, words_of(b), "lm_head", NULL);
  b->in_head = false;
  return x;
}

static accel__seq2seq describe(const accel__t5 *c) {
  return (accel__seq2seq){.config = c,
                          .encoder = encoder,
                          .decoder = decoder,
                          .keys = keys,
                          .logits = logits,
                          .layers = c->decoder_layers,
                          .heads = c->heads,
                          .head_dim = c->head_dim,
                          .hidden = c->hidden};
}

accel_status accel__t5_build(accel__build *b, accel__t5 *c) {
  ACCEL_TRY(accel__t5_read(b, c));
  accel__seq2seq how = describe(c);
  b->other_prefix = "transformer."; /* of token classification */
  if (accel__is_class(b, "ForConditionalGeneration") &&
      accel__json_get(b->config, "chronos_config") != NULL)
    ACCEL_TRY(accel__chronos_read(b, c));
  accel__add_tokens(b, c->vocab);
  /* missing values leave gaps between the others */
  if (b->model->forecasting != NULL) accel__add_positions(b, INT32_MAX, ACCEL__DEFAULT_ARANGE, 0);
  if (accel__is_class(b, "EncoderModel") || accel__is_class(b, "ForTokenClassification"))
    return accel__encoder_build(b, &how, "classifier");
  bool sequence = accel__is_class(b, "ForSequenceClassification");
  bool shifts = sequence || accel__is_class(b, "ForQuestionAnswering");
  accel__add_decoder_tokens(b, c->vocab, shifts ? ACCEL__DEFAULT_SHIFTED : ACCEL__DEFAULT_REQUIRED);
  if (sequence) accel__add_eos_row(b);
  return accel__seq2seq_build(b, &how);
}

/* ---- T5 ---- */

const accel__t5 accel__t5_defaults = {.vocab = 32128,
                                      .hidden = 512,
                                      .head_dim = 64,
                                      .inner = 2048,
                                      .layers = 6,
                                      .heads = 8,
                                      .buckets = 32,
                                      .distance = 128,
                                      .eps = 1e-6,
                                      .scale_logits = true,
                                      .feed_forward = "relu",
                                      .start = 0};

static accel_status build(const accel__model_request *request, const char *architecture,
                          accel__model *model) {
  accel__build b;
  accel__t5 c = accel__t5_defaults;
  ACCEL_TRY(accel__build_begin(&b, request, architecture, model, ""));
  /* false says T5 v1.1 */
  ACCEL_TRY(accel__json_bool(b.file, b.config, "tie_word_embeddings", &c.scale_logits));
  /* as transformers 5 says it */
  ACCEL_TRY(accel__json_bool(b.file, b.config, "scale_decoder_outputs", &c.scale_logits));
  return accel__t5_build(&b, &c);
}

static const char *const classes[] = {"T5Model",
                                      "T5ForConditionalGeneration",
                                      "T5EncoderModel",
                                      "T5ForSequenceClassification",
                                      "T5ForTokenClassification",
                                      "T5ForQuestionAnswering",
                                      "T5WithLMHeadModel",
                                      NULL};
const accel__architecture accel__model_t5 = {
    .model_type = "t5", .classes = classes, .embed_class = "T5EncoderModel", .build = build};
