/* distilbert.c - DistilBERT (transformers' DistilBertModel and heads): six BERT layers with other
 * names, no token types, no pooler. sinusoidal_pos_embds only initialises the position table, which
 * the checkpoint holds. */
#include "modeling/model_builder.h"

static const double EPS = 1e-12; /* fixed in the class */

typedef struct distil_config {
  int64_t vocab, dim, layers, heads, inner, positions, pad_id;
  bool tied;
  accel__activation act;
} distil_config;

static accel_status read_config(accel__build *b, distil_config *c) {
  *c = (distil_config){.vocab = 30522,
                       .dim = 768,
                       .layers = 6,
                       .heads = 12,
                       .inner = 3072,
                       .positions = 512,
                       .tied = true,
                       .act = {.act = ACCEL_PLUGIN_ACT_GELU}};
  const accel__field fields[] = {
      ACCEL_FIELD_INT("vocab_size", &c->vocab, 1, ACCEL__MAX_VOCAB),
      /* attribute_map's names; the class's own win */
      ACCEL_FIELD_INT("hidden_size", &c->dim, 1, ACCEL__MAX_WIDTH),
      ACCEL_FIELD_INT("num_hidden_layers", &c->layers, 0, ACCEL__MAX_LAYERS),
      ACCEL_FIELD_INT("num_attention_heads", &c->heads, 1, ACCEL__MAX_WIDTH),
      ACCEL_FIELD_INT("dim", &c->dim, 1, ACCEL__MAX_WIDTH),
      ACCEL_FIELD_INT("n_layers", &c->layers, 0, ACCEL__MAX_LAYERS),
      ACCEL_FIELD_INT("n_heads", &c->heads, 1, ACCEL__MAX_WIDTH),
      ACCEL_FIELD_INT("hidden_dim", &c->inner, 1, ACCEL__MAX_WIDTH),
      ACCEL_FIELD_INT("max_position_embeddings", &c->positions, 1, ACCEL__MAX_POSITIONS),
      ACCEL_FIELD_INT("pad_token_id", &c->pad_id, 0, ACCEL__MAX_VOCAB),
      ACCEL_FIELD_BOOL("tie_word_embeddings", &c->tied),
      ACCEL_FIELD_ACT("activation", &c->act),
  };
  ACCEL_TRY(accel__read_fields(b, fields, sizeof fields / sizeof *fields));
  ACCEL_TRY(accel__refuse_variants(b));
  ACCEL_TRY(accel__divides(b, "n_heads", c->heads, "dim", c->dim));
  b->model->hidden_size = c->dim;
  b->model->max_positions = c->positions;
  b->model->pad_id = c->pad_id;
  return accel__read_labels(b);
}

static accel__tensor layer(accel__build *b, const distil_config *c, accel__tensor x, uint32_t i) {
  accel__at(b->p, i + 1, "transformer.layer.%u", i);
  accel__tensor q =
      accel__dense_layer(b, x, c->dim, true, -1, NULL, "transformer.layer.%u.attention.q_lin", i);
  accel__tensor k =
      accel__dense_layer(b, x, c->dim, true, -1, NULL, "transformer.layer.%u.attention.k_lin", i);
  accel__tensor v =
      accel__dense_layer(b, x, c->dim, true, -1, NULL, "transformer.layer.%u.attention.v_lin", i);
  accel__tensor y = accel__self_attention(b, q, k, v, c->heads, 0.0);
  y = accel__dense_layer(b, y, c->dim, true, x, NULL, "transformer.layer.%u.attention.out_lin", i);
  x = accel__norm_layer(b, y, -1, EPS, true, "transformer.layer.%u.sa_layer_norm", i);
  y = accel__dense_layer(b, x, c->inner, true, -1, &c->act, "transformer.layer.%u.ffn.lin1", i);
  y = accel__dense_layer(b, y, c->dim, true, x, NULL, "transformer.layer.%u.ffn.lin2", i);
  return accel__norm_layer(b, y, -1, EPS, true, "transformer.layer.%u.output_layer_norm", i);
}

static accel__tensor encoder(accel__build *b, const distil_config *c) {
  accel__add_tokens(b, c->vocab);
  accel__add_positions(b, c->positions, ACCEL__DEFAULT_ARANGE, 0);
  accel__at(b->p, 0, "embeddings");
  accel__tensor x =
      accel__embedding(b, b->input_ids, c->vocab, c->dim, "embeddings.word_embeddings");
  accel__tensor position_rows =
      accel__embedding(b, b->position_ids, c->positions, c->dim, "embeddings.position_embeddings");
  x = accel__norm_layer(b, x, position_rows, EPS, true, "embeddings.LayerNorm");
  accel__add_hidden(b, x);
  for (uint32_t i = 0; i < (uint32_t)c->layers; i++) {
    x = layer(b, c, x, i);
    accel__add_hidden(b, x);
  }
  accel__at(b->p, (uint32_t)c->layers + 1, "head");
  return x;
}

static void heads(accel__build *b, const distil_config *c, accel__tensor x) {
  static const accel__activation relu = {.act = ACCEL_PLUGIN_ACT_RELU};
  b->in_head = true;
  if (b->is_base) {
    accel__add_output(b, "last_hidden_state", x, 0);
  } else if (accel__is_class(b, "ForMaskedLM")) {
    accel__tensor y = accel__dense_layer(b, x, c->dim, true, -1, &c->act, "vocab_transform");
    y = accel__norm_layer(b, y, -1, EPS, true, "vocab_layer_norm");
    y = accel__head_vocabulary(b, y, c->vocab, c->tied, "embeddings.word_embeddings",
                               "vocab_projector", "vocab_projector.bias");
    accel__add_output(b, "logits", y, 0);
  } else if (accel__is_class(b, "ForSequenceClassification")) {
    accel__tensor y =
        accel__dense_layer(b, accel__first_rows(b, x), c->dim, true, -1, &relu, "pre_classifier");
    accel__head_sequence(b, y, "classifier");
  } else {
    accel__head_words(b, x);
  }
  b->in_head = false;
}

static accel_status build(const accel__model_request *request, const char *architecture,
                          accel__model *model) {
  accel__build b;
  distil_config c;
  ACCEL_TRY(accel__build_begin(&b, request, architecture, model, "distilbert."));
  ACCEL_TRY(read_config(&b, &c));
  accel__tensor x = encoder(&b, &c);
  heads(&b, &c, x);
  return accel__build_end(&b, x);
}

static const char *const classes[] = {ACCEL_ENCODER_CLASSES("DistilBert"), NULL};
const accel__architecture accel__model_distilbert = {
    .model_type = "distilbert", .classes = classes, .build = build};
