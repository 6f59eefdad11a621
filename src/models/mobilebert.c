/* mobilebert.c - MobileBERT (transformers' MobileBertModel and heads): narrow layers between
 * bottlenecks, several feed-forward networks in each, norms that only scale and shift, and token
 * embeddings that see the tokens beside them. */
#include <stdio.h>
#include <string.h>

#include "modeling/vision.h"
#include "models/bert.h"

/* Of norms for which the class names no eps. */
static const double TORCH_EPS = ACCEL__TORCH_NORM_EPS;

typedef struct mobile_config {
  accel__bert_config base;
  int64_t networks; /* feed-forward ones of a layer */
  bool trigram, bottleneck, narrow_attention, shared, pooler_dense, no_norm;
} mobile_config;

static accel_status read_norm(accel__build *b, mobile_config *c) {
  const char *norm = "no_norm";
  ACCEL_TRY(accel__json_string(b->file, b->config, "normalization_type", &norm));
  c->no_norm = strcmp(norm, "no_norm") == 0;
  if (c->no_norm || strcmp(norm, "layer_norm") == 0) return ACCEL_OK;
  return accel__refuse(
      b, "field 'normalization_type': '%s' is not supported; known: no_norm, layer_norm", norm);
}

static accel_status read_config(accel__build *b, mobile_config *c) {
  *c = (mobile_config){.base = {.vocab = 30522,
                                .hidden = 512,
                                .layers = 24,
                                .heads = 4,
                                .inner = 512,
                                .positions = 512,
                                .types = 2,
                                .embedding = 128,
                                .narrow = 128,
                                .eps = 1e-12,
                                .tied = true,
                                .act = {.act = ACCEL_PLUGIN_ACT_RELU}},
                       .networks = 4,
                       .trigram = true,
                       .bottleneck = true,
                       .shared = true,
                       .pooler_dense = true};
  const accel__field fields[] = {
      ACCEL_FIELD_INT("embedding_size", &c->base.embedding, 1, ACCEL__MAX_WIDTH),
      ACCEL_FIELD_INT("intra_bottleneck_size", &c->base.narrow, 1, ACCEL__MAX_WIDTH),
      ACCEL_FIELD_INT("num_feedforward_networks", &c->networks, 1, 1 << 10),
      ACCEL_FIELD_BOOL("trigram_input", &c->trigram),
      ACCEL_FIELD_BOOL("use_bottleneck", &c->bottleneck),
      ACCEL_FIELD_BOOL("use_bottleneck_attention", &c->narrow_attention),
      ACCEL_FIELD_BOOL("key_query_shared_bottleneck", &c->shared),
      ACCEL_FIELD_BOOL("classifier_activation", &c->pooler_dense),
  };
  ACCEL_TRY(accel__read_fields(b, fields, sizeof fields / sizeof *fields));
  ACCEL_TRY(accel__bert_read(b, &c->base));
  ACCEL_TRY(read_norm(b, c));
  if (!c->bottleneck) c->base.narrow = c->base.hidden;
  ACCEL_TRY(accel__divides(b, "num_attention_heads", c->base.heads,
                           c->bottleneck ? "intra_bottleneck_size" : "hidden_size",
                           c->base.narrow));
  if (c->base.embedding > c->base.hidden)
    return accel__refuse(b, "field 'embedding_size' (%lld) is larger than 'hidden_size' (%lld)",
                         (long long)c->base.embedding, (long long)c->base.hidden);
  if (c->bottleneck && !c->narrow_attention && !c->shared && c->base.narrow != c->base.hidden)
    return accel__refuse(
        b,
        "field 'key_query_shared_bottleneck': false is not supported unless "
        "'use_bottleneck_attention' is true: queries would have %lld columns where "
        "%lld are due",
        (long long)c->base.hidden, (long long)c->base.narrow);
  return ACCEL_OK;
}

/* norm(x + residual), by scale and shift alone where the config says no_norm; residual -1 none. */
static accel__tensor norm(accel__build *b, const mobile_config *c, accel__tensor x,
                          accel__tensor residual, double eps, const char *path) {
  char name[160];
  if (!c->no_norm) return accel__norm_layer(b, x, residual, eps, true, "%s.LayerNorm", path);
  int64_t n = accel__columns(b, x);
  if (residual >= 0) x = accel__binary(b->p, ACCEL_PLUGIN_BINARY_ADD, x, residual);
  snprintf(name, sizeof name, "%s.LayerNorm.weight", path);
  x = accel__binary(b->p, ACCEL_PLUGIN_BINARY_MUL, x,
                    accel__weight_at(b, ACCEL_PLUGIN_USE_PLAIN, 1, &n, name));
  snprintf(name, sizeof name, "%s.LayerNorm.bias", path);
  return accel__binary(b->p, ACCEL_PLUGIN_BINARY_ADD, x,
                       accel__weight_at(b, ACCEL_PLUGIN_USE_PLAIN, 1, &n, name));
}

/* norm(<path>.dense(x) + residual) */
static accel__tensor dense_norm(accel__build *b, const mobile_config *c, accel__tensor x,
                                int64_t out, accel__tensor residual, double eps, const char *path) {
  x = accel__dense_layer(b, x, out, true, residual, NULL, "%s.dense", path);
  return norm(b, c, x, -1, eps, path);
}

/* ---- embeddings ---- */

/* Embeddings of the tokens in front or behind; zeros where there are none. */
static accel__tensor neighbours(accel__build *b, const accel__bert_config *base, bool next) {
  accel__tensor one_more = /* id + 1, or 0 */
      accel__cast(b, accel__add_neighbour(b, base->vocab, next), ACCEL_PLUGIN_F32);
  return accel__optional_embedding(b, one_more, base->vocab, base->embedding,
                                   "embeddings.word_embeddings");
}

static accel__tensor embeddings(accel__build *b, const mobile_config *c) {
  const accel__bert_config *base = &c->base;
  accel__add_tokens(b, base->vocab);
  accel__add_token_types(b, base->types);
  accel__add_positions(b, base->positions, ACCEL__DEFAULT_ARANGE, 0);
  accel__at(b->p, 0, "embeddings");
  accel__tensor x =
      accel__embedding(b, b->input_ids, base->vocab, base->embedding, "embeddings.word_embeddings");
  if (c->trigram) {
    accel__attr axis = ACCEL_I(AXIS, 1);
    accel__tensor all[] = {neighbours(b, base, true), x, neighbours(b, base, false)};
    x = accel__node(b->p, ACCEL_PLUGIN_OP_CONCAT, all, 3, &axis, 1, NULL, 1);
  }
  if (c->trigram || base->embedding != base->hidden)
    x = accel__dense_layer(b, x, base->hidden, true, -1, NULL,
                           "embeddings.embedding_transformation");
  accel__tensor types = accel__embedding(b, b->token_type_ids, base->types, base->hidden,
                                         "embeddings.token_type_embeddings");
  accel__tensor places = accel__embedding(b, b->position_ids, base->positions, base->hidden,
                                          "embeddings.position_embeddings");
  x = accel__binary(b->p, ACCEL_PLUGIN_BINARY_ADD, x, places);
  return norm(b, c, x, types, TORCH_EPS, "embeddings");
}

/* ---- layers ---- */

/* path with "layer.N" in front: "attention.output" */
typedef struct place {
  char path[120];
} place;
static place at(uint32_t layer, const char *path) {
  place p;
  snprintf(p.path, sizeof p.path, "encoder.layer.%u.%s", layer, path);
  return p;
}

static accel__tensor attention(accel__build *b, const mobile_config *c, accel__tensor x,
                               accel__tensor *narrow, uint32_t i) {
  const double eps = c->base.eps;
  accel__tensor keys = x, values = x;
  *narrow = x;
  if (c->bottleneck) {
    *narrow = dense_norm(b, c, x, c->base.narrow, -1, eps, at(i, "bottleneck.input").path);
    if (c->narrow_attention)
      keys = values = *narrow;
    else if (c->shared)
      keys = dense_norm(b, c, x, c->base.narrow, -1, eps, at(i, "bottleneck.attention").path);
  }
  const char *path = "encoder.layer.%u.attention.self.%s";
  accel__tensor q = accel__dense_layer(b, keys, c->base.narrow, true, -1, NULL, path, i, "query");
  accel__tensor k = accel__dense_layer(b, keys, c->base.narrow, true, -1, NULL, path, i, "key");
  accel__tensor v = accel__dense_layer(b, values, c->base.narrow, true, -1, NULL, path, i, "value");
  accel__tensor y = accel__self_attention(b, q, k, v, c->base.heads, 0.0);
  return dense_norm(b, c, y, c->base.narrow, *narrow, eps, at(i, "attention.output").path);
}

static accel__tensor layer(accel__build *b, const mobile_config *c, accel__tensor x, uint32_t i) {
  const accel__bert_config *base = &c->base;
  accel__tensor narrow;
  accel__at(b->p, i + 1, "encoder.layer.%u", i);
  accel__tensor y = attention(b, c, x, &narrow, i), inner;
  for (uint32_t k = 0; k + 1 < (uint32_t)c->networks; k++) {
    char path[40];
    inner = accel__dense_layer(b, y, base->inner, true, -1, &base->act,
                               "encoder.layer.%u.ffn.%u.intermediate.dense", i, k);
    snprintf(path, sizeof path, "ffn.%u.output", k);
    y = dense_norm(b, c, inner, c->base.narrow, y, base->eps, at(i, path).path);
  }
  inner = accel__dense_layer(b, y, base->inner, true, -1, &base->act,
                             "encoder.layer.%u.intermediate.dense", i);
  y = dense_norm(b, c, inner, c->base.narrow, y, TORCH_EPS, at(i, "output").path);
  if (!c->bottleneck) return y;
  return dense_norm(b, c, y, base->hidden, x, base->eps, at(i, "output.bottleneck").path);
}

/* ---- heads ---- */

/* y + (columns of x behind the embedding's) cls.predictions.dense, which is stored [in, out] */
static accel__tensor other_columns(accel__build *b, accel__tensor x, accel__tensor y,
                                   const accel__bert_config *base) {
  accel__attr trans = ACCEL_I(TRANS, 1);
  const int64_t dims[2] = {base->hidden - base->embedding, base->vocab};
  accel__tensor w =
      accel__weight_at(b, ACCEL_PLUGIN_USE_LINEAR, 2, dims, "cls.predictions.dense.weight");
  accel__tensor in[] = {accel__slice(b->p, x, 1, base->embedding, base->hidden), w, -1, y};
  return accel__node(b->p, ACCEL_PLUGIN_OP_LINEAR, in, 4, &trans, 1, NULL, 1);
}

/* The vocabulary's matrix lies in two parts: the word embeddings for the first columns of x, and
 * cls.predictions.dense [hidden - embedding, vocab] for the others. */
static accel__tensor predictions(accel__build *b, const mobile_config *c, accel__tensor x) {
  const accel__bert_config *base = &c->base;
  const int64_t rest = base->hidden - base->embedding;
  x = accel__bert_transform(b, base, x, "LayerNorm");
  b->in_head = true;
  accel__tensor y = accel__head_vocabulary(
      b, rest > 0 ? accel__slice(b->p, x, 1, 0, base->embedding) : x, base->vocab, base->tied,
      "embeddings.word_embeddings", "cls.predictions.decoder", "cls.predictions.bias");
  if (rest > 0) y = other_columns(b, x, y, base);
  b->in_head = false;
  return y;
}
static accel__tensor pooler(accel__build *b, const mobile_config *c, accel__tensor x) {
  return c->pooler_dense ? accel__bert_pooler(b, &c->base, x, "pooler.dense")
                         : accel__first_rows(b, x);
}

static accel_status build(const accel__model_request *request, const char *architecture,
                          accel__model *model) {
  accel__build b;
  mobile_config c;
  ACCEL_TRY(accel__build_begin(&b, request, architecture, model, "mobilebert."));
  ACCEL_TRY(read_config(&b, &c));
  accel__tensor x = embeddings(&b, &c);
  accel__add_hidden(&b, x);
  for (uint32_t i = 0; i < (uint32_t)c.base.layers; i++) {
    x = layer(&b, &c, x, i);
    accel__add_hidden(&b, x);
  }
  accel__at(b.p, (uint32_t)c.base.layers + 1, "head");
  bool pools = accel__bert_pools(&b) || (b.is_base && !c.pooler_dense);
  accel__tensor pool = pools ? pooler(&b, &c, x) : -1;
  accel__bert_heads(&b, x, pool, accel__bert_predicts(&b) ? predictions(&b, &c, x) : -1);
  return accel__build_end(&b, x);
}

static const char *const classes[] = {ACCEL_ENCODER_CLASSES("MobileBert"),
                                      "MobileBertForPreTraining",
                                      "MobileBertForNextSentencePrediction", NULL};
const accel__architecture accel__model_mobilebert = {
    .model_type = "mobilebert", .classes = classes, .build = build};
