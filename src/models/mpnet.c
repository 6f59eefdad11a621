/* mpnet.c - MPNet (transformers' MPNetModel and heads): BERT's layers with one T5-style relative
 * position bias for all of them. The class counts buckets with 32 and positions from padding index
 * 1 whatever the config says; so does this. */
#include <math.h>

#include "models/bert.h"

enum { BUCKETS = 32, MAX_DISTANCE = 128, PADDING_INDEX = 1 };
static const accel__activation gelu_act = {.act = ACCEL_PLUGIN_ACT_GELU};

/* q, k, v [T, hidden], table [32, heads] */
static accel__tensor attention(accel__build *b, const accel__bert_config *c, accel__tensor q,
                               accel__tensor k, accel__tensor v, accel__tensor table) {
  double scale = 1.0 / sqrt((double)c->hidden / (double)c->heads);
  accel__attr attr[] = {
      ACCEL_I(HEADS, c->heads),      ACCEL_I(KV_HEADS, c->heads),
      ACCEL_F(SCALE, scale),         ACCEL_I(Q_SPACE, b->space),
      ACCEL_I(KV_SPACE, b->space),   ACCEL_I(BIAS_KIND, ACCEL_PLUGIN_BIAS_T5_BIDIRECTIONAL),
      ACCEL_I(NUM_BUCKETS, BUCKETS), ACCEL_I(MAX_DISTANCE, MAX_DISTANCE)};
  return accel__node(b->p, ACCEL_PLUGIN_OP_ATTENTION, (accel__tensor[]){q, k, v, table}, 4, attr, 8,
                     NULL, 1);
}

static accel__tensor layer(accel__build *b, const accel__bert_config *c, accel__tensor x,
                           accel__tensor table, uint32_t i) {
  accel__at(b->p, i + 1, "encoder.layer.%u", i);
  accel__tensor q =
      accel__dense_layer(b, x, c->hidden, true, -1, NULL, "encoder.layer.%u.attention.attn.q", i);
  accel__tensor k =
      accel__dense_layer(b, x, c->hidden, true, -1, NULL, "encoder.layer.%u.attention.attn.k", i);
  accel__tensor v =
      accel__dense_layer(b, x, c->hidden, true, -1, NULL, "encoder.layer.%u.attention.attn.v", i);
  accel__tensor y = attention(b, c, q, k, v, table);
  y = accel__dense_layer(b, y, c->hidden, true, x, NULL, "encoder.layer.%u.attention.attn.o", i);
  x = accel__norm_layer(b, y, -1, c->eps, true, "encoder.layer.%u.attention.LayerNorm", i);
  y = accel__dense_layer(b, x, c->inner, true, -1, &c->act, "encoder.layer.%u.intermediate.dense",
                         i);
  y = accel__dense_layer(b, y, c->hidden, true, x, NULL, "encoder.layer.%u.output.dense", i);
  return accel__norm_layer(b, y, -1, c->eps, true, "encoder.layer.%u.output.LayerNorm", i);
}

static accel__tensor encoder(accel__build *b, const accel__bert_config *c, int64_t table_rows) {
  accel__add_tokens(b, c->vocab);
  accel__add_positions(b, c->positions, ACCEL__DEFAULT_ROBERTA, PADDING_INDEX + 1);
  accel__at(b->p, 0, "embeddings");
  accel__tensor x =
      accel__embedding(b, b->input_ids, c->vocab, c->hidden, "embeddings.word_embeddings");
  accel__tensor position_rows = accel__embedding(b, b->position_ids, c->positions, c->hidden,
                                                 "embeddings.position_embeddings");
  x = accel__norm_layer(b, x, position_rows, c->eps, true, "embeddings.LayerNorm");
  accel__tensor table =
      accel__weight_at(b, ACCEL_PLUGIN_USE_PLAIN, 2, (int64_t[]){table_rows, c->heads},
                       "encoder.relative_attention_bias.weight");
  if (table_rows > BUCKETS) table = accel__slice(b->p, table, 0, 0, BUCKETS);
  accel__add_hidden(b, x);
  for (uint32_t i = 0; i < (uint32_t)c->layers; i++) {
    x = layer(b, c, x, table, i);
    accel__add_hidden(b, x);
  }
  accel__at(b->p, (uint32_t)c->layers + 1, "head");
  return x;
}

static accel_status build(const accel__model_request *request, const char *architecture,
                          accel__model *model) {
  accel__build b;
  int64_t table_rows = BUCKETS;
  accel__bert_config c = {.vocab = 30527,
                          .hidden = 768,
                          .layers = 12,
                          .heads = 12,
                          .inner = 3072,
                          .positions = 512,
                          .types = 0,
                          .pad_id = 1,
                          .eps = 1e-12,
                          .tied = true,
                          .act = gelu_act};
  ACCEL_TRY(accel__build_begin(&b, request, architecture, model, "mpnet."));
  const accel__field field =
      ACCEL_FIELD_INT("relative_attention_num_buckets", &table_rows, BUCKETS, 1 << 16);
  ACCEL_TRY(accel__read_fields(&b, &field, 1));
  ACCEL_TRY(accel__bert_read(&b, &c));
  if (c.positions <= PADDING_INDEX + 1)
    return accel__refuse(&b, "field 'max_position_embeddings' (%lld) leaves no position",
                         (long long)c.positions);
  model->pad_id = PADDING_INDEX;
  model->max_positions = c.positions - PADDING_INDEX - 1;
  accel__tensor x = encoder(&b, &c, table_rows);
  accel__roberta_heads(&b, &c, x);
  return accel__build_end(&b, x);
}

static const char *const classes[] = {ACCEL_ENCODER_CLASSES("MPNet"), NULL};
const accel__architecture accel__model_mpnet = {
    .model_type = "mpnet", .classes = classes, .build = build};
