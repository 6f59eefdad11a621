/* deberta_v2.c - DeBERTa-v2 and v3 (transformers' DebertaV2Model and heads): attention scores with
 * content-to-position and position-to-content terms from one table of relative embeddings, an
 * optional convolution beside the first layer. The projected tables (rel_k, rel_q) come from
 * weights alone: a backend may compute them once. */
#include <ctype.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "models/bert.h"

typedef struct deberta_config {
  accel__bert_config base;
  bool relative, biased_input, c2p, p2c, share_key, norm_relative, legacy;
  int64_t buckets, max_relative, conv_kernel, conv_groups, pooler_hidden, head_size;
  accel__activation conv_act, pooler_act;
} deberta_config;

/* Is `word` one of the parts of "a|b" (any case, spaces around)? */
static bool lists(const char *text, const char *word) {
  size_t n = strlen(word);
  while (text != NULL && *text != '\0') {
    while (*text == ' ' || *text == '|') text++;
    size_t at = 0;
    while (at < n && tolower((unsigned char)text[at]) == word[at]) at++;
    if (at == n && (text[n] == '\0' || text[n] == '|' || text[n] == ' ')) return true;
    text = strchr(text, '|');
  }
  return false;
}

/* pos_att_type: "p2c|c2p" or ["p2c", "c2p"]; other kinds are ignored by the class, so they are
 * refused here. */
static accel_status read_kinds(accel__build *b, deberta_config *c) {
  const accel__json *kinds = accel__json_get(b->config, "pos_att_type");
  if (kinds == NULL) return ACCEL_OK;
  if (cJSON_IsString(kinds)) {
    c->c2p = lists(kinds->valuestring, "c2p");
    c->p2c = lists(kinds->valuestring, "p2c");
    return lists(kinds->valuestring, "p2p")
               ? accel__refuse(b, "field 'pos_att_type': p2p is not supported; known: c2p, p2c")
               : ACCEL_OK;
  }
  if (!cJSON_IsArray(kinds))
    return accel__fail(ACCEL_ERROR_FORMAT, "%s: field 'pos_att_type' should be a string or a list",
                       b->file->name);
  ACCEL_JSON_EACH(kind, kinds) {
    const char *text = cJSON_IsString(kind) ? kind->valuestring : "?";
    if (strcmp(text, "c2p") == 0)
      c->c2p = true;
    else if (strcmp(text, "p2c") == 0)
      c->p2c = true;
    else
      return accel__refuse(b, "field 'pos_att_type': '%s' is not supported; known: c2p, p2c", text);
  }
  return ACCEL_OK;
}

static accel_status read_config(accel__build *b, deberta_config *c) {
  const accel__activation gelu = {.act = ACCEL_PLUGIN_ACT_GELU};
  *c = (deberta_config){.base = {.vocab = 128100,
                                 .hidden = 1536,
                                 .layers = 24,
                                 .heads = 24,
                                 .inner = 6144,
                                 .positions = 512,
                                 .types = 0,
                                 .eps = 1e-7,
                                 .tied = true,
                                 .act = gelu},
                        .biased_input = true,
                        .legacy = true,
                        .buckets = -1,
                        .max_relative = -1,
                        .conv_groups = 1,
                        .conv_act = {.act = ACCEL_PLUGIN_ACT_TANH},
                        .pooler_act = gelu};
  const char *norm = NULL;
  const accel__field fields[] = {
      ACCEL_FIELD_INT("embedding_size", &c->base.embedding, 1, ACCEL__MAX_WIDTH),
      ACCEL_FIELD_BOOL("relative_attention", &c->relative),
      ACCEL_FIELD_BOOL("position_biased_input", &c->biased_input),
      ACCEL_FIELD_BOOL("share_att_key", &c->share_key),
      ACCEL_FIELD_BOOL("legacy", &c->legacy),
      ACCEL_FIELD_INT("position_buckets", &c->buckets, -1, 1 << 20),
      ACCEL_FIELD_INT("max_relative_positions", &c->max_relative, INT32_MIN, 1 << 20),
      ACCEL_FIELD_INT("conv_kernel_size", &c->conv_kernel, 0, 1 << 10),
      ACCEL_FIELD_INT("conv_groups", &c->conv_groups, 1, ACCEL__MAX_WIDTH),
      ACCEL_FIELD_INT("pooler_hidden_size", &c->pooler_hidden, 1, ACCEL__MAX_WIDTH),
      ACCEL_FIELD_INT("attention_head_size", &c->head_size, 1, ACCEL__MAX_WIDTH),
      ACCEL_FIELD_ACT("conv_act", &c->conv_act),
      ACCEL_FIELD_ACT("pooler_hidden_act", &c->pooler_act),
      ACCEL_FIELD_STRING("norm_rel_ebd", &norm),
  };
  ACCEL_TRY(accel__read_fields(b, fields, sizeof fields / sizeof *fields));
  ACCEL_TRY(read_kinds(b, c));
  c->norm_relative = lists(norm, "layer_norm");
  return ACCEL_OK;
}

/* What follows from several fields, once BERT's are read. */
static accel_status settle(accel__build *b, deberta_config *c) {
  if (c->max_relative < 1) c->max_relative = c->base.positions;
  if (c->pooler_hidden == 0) c->pooler_hidden = c->base.hidden;
  if (c->pooler_hidden != c->base.hidden && accel__is_class(b, "ForSequenceClassification"))
    return accel__refuse(
        b, "field 'pooler_hidden_size' differs from hidden_size; the class cannot run so either");
  if (c->head_size != 0 && c->head_size * c->base.heads != c->base.hidden)
    return accel__refuse(b, "field 'attention_head_size': heads must fill hidden_size");
  if (c->conv_kernel > 0 && c->conv_kernel % 2 == 0)
    return accel__refuse(b, "field 'conv_kernel_size': an even kernel changes the length");
  if (c->conv_kernel > 0 && c->base.hidden % c->conv_groups != 0)
    return accel__refuse(b, "field 'conv_groups' does not divide hidden_size");
  return ACCEL_OK;
}

static int64_t span_of(const deberta_config *c) {
  return c->buckets > 0 ? c->buckets : c->max_relative;
}

static accel__tensor embeddings(accel__build *b, const deberta_config *d) {
  const accel__bert_config *c = &d->base;
  accel__program *p = b->p;
  accel__add_tokens(b, c->vocab);
  /* without a table the class takes and ignores them */
  accel__add_token_types(b, c->types > 0 ? c->types : INT32_MAX);
  accel__add_positions(b, d->biased_input ? c->positions : INT32_MAX, ACCEL__DEFAULT_ARANGE, 0);
  accel__at(p, 0, "embeddings");
  accel__tensor x =
      accel__embedding(b, b->input_ids, c->vocab, c->embedding, "embeddings.word_embeddings");
  if (d->biased_input) {
    x = accel__binary(p, ACCEL_PLUGIN_BINARY_ADD, x,
                      accel__embedding(b, b->position_ids, c->positions, c->embedding,
                                       "embeddings.position_embeddings"));
  }
  if (c->types > 0) {
    x = accel__binary(p, ACCEL_PLUGIN_BINARY_ADD, x,
                      accel__embedding(b, b->token_type_ids, c->types, c->embedding,
                                       "embeddings.token_type_embeddings"));
  }
  if (c->embedding != c->hidden)
    x = accel__dense_layer(b, x, c->hidden, false, -1, NULL, "embeddings.embed_proj");
  return accel__norm_layer(b, x, -1, c->eps, true, "embeddings.LayerNorm");
}

/* Relative embeddings [2 span, hidden]; -1 when they are not used. */
static accel__tensor relative_table(accel__build *b, const deberta_config *d) {
  if (!d->relative || !(d->c2p || d->p2c)) return -1;
  int64_t dims[2] = {2 * span_of(d), d->base.hidden};
  accel__tensor table =
      accel__weight_at(b, ACCEL_PLUGIN_USE_PLAIN, 2, dims, "encoder.rel_embeddings.weight");
  return d->norm_relative ? accel__norm_layer(b, table, -1, d->base.eps, true, "encoder.LayerNorm")
                          : table;
}

static accel__tensor attention(accel__build *b, const deberta_config *d, accel__tensor x,
                               accel__tensor table, uint32_t i) {
  const accel__bert_config *c = &d->base;
  char path[64];
  snprintf(path, sizeof path, "encoder.layer.%u.attention.self", i);
  accel__tensor q = accel__dense_layer(b, x, c->hidden, true, -1, NULL, "%s.query_proj", path);
  accel__tensor k = accel__dense_layer(b, x, c->hidden, true, -1, NULL, "%s.key_proj", path);
  accel__tensor v = accel__dense_layer(b, x, c->hidden, true, -1, NULL, "%s.value_proj", path);
  accel__tensor rel_k = -1, rel_q = -1;
  const char *key = d->share_key ? "key_proj" : "pos_key_proj",
             *query = d->share_key ? "query_proj" : "pos_query_proj";
  if (table >= 0 && d->c2p)
    rel_k = accel__dense_layer(b, table, c->hidden, true, -1, NULL, "%s.%s", path, key);
  if (table >= 0 && d->p2c)
    rel_q = accel__dense_layer(b, table, c->hidden, true, -1, NULL, "%s.%s", path, query);
  /* counted by pos_att_type even without relative attention */
  double terms = 1.0 + d->c2p + d->p2c;
  double scale = 1.0 / sqrt((double)(c->hidden / c->heads) * terms);
  accel__attr attr[] = {ACCEL_I(HEADS, c->heads),
                        ACCEL_I(KV_HEADS, c->heads),
                        ACCEL_F(SCALE, scale),
                        ACCEL_I(Q_SPACE, b->space),
                        ACCEL_I(KV_SPACE, b->space),
                        ACCEL_I(BIAS_KIND, ACCEL_PLUGIN_BIAS_DISENTANGLED),
                        ACCEL_I(REL_SPAN, span_of(d)),
                        ACCEL_I(REL_BUCKETS, d->buckets),
                        ACCEL_I(MAX_DISTANCE, d->max_relative)};
  accel__tensor in[] = {q, k, v, -1, -1, -1, -1, -1, rel_k, rel_q};
  return accel__node(b->p, ACCEL_PLUGIN_OP_ATTENTION, in, table >= 0 ? 10 : 3, attr,
                     table >= 0 ? 9 : 5, NULL, 1);
}

static accel__tensor layer(accel__build *b, const deberta_config *d, accel__tensor x,
                           accel__tensor table, uint32_t i) {
  const accel__bert_config *c = &d->base;
  accel__at(b->p, i + 1, "encoder.layer.%u", i);
  accel__tensor y = attention(b, d, x, table, i);
  y = accel__dense_layer(b, y, c->hidden, true, x, NULL, "encoder.layer.%u.attention.output.dense",
                         i);
  x = accel__norm_layer(b, y, -1, c->eps, true, "encoder.layer.%u.attention.output.LayerNorm", i);
  y = accel__dense_layer(b, x, c->inner, true, -1, &c->act, "encoder.layer.%u.intermediate.dense",
                         i);
  y = accel__dense_layer(b, y, c->hidden, true, x, NULL, "encoder.layer.%u.output.dense", i);
  return accel__norm_layer(b, y, -1, c->eps, true, "encoder.layer.%u.output.LayerNorm", i);
}

/* norm(x + act(conv(embedded))): padding rows are zero in the class, as outside a sequence here. */
static accel__tensor convolution(accel__build *b, const deberta_config *d, accel__tensor embedded,
                                 accel__tensor x) {
  const accel__bert_config *c = &d->base;
  int64_t half = (d->conv_kernel - 1) / 2, pads[2] = {half, half};
  int64_t dims[3] = {c->hidden, c->hidden / d->conv_groups, d->conv_kernel};
  accel__tensor w = accel__weight_at(b, ACCEL_PLUGIN_USE_CONV, 3, dims, "encoder.conv.conv.weight");
  accel__tensor bias =
      accel__weight_at(b, ACCEL_PLUGIN_USE_PLAIN, 1, &c->hidden, "encoder.conv.conv.bias");
  accel__attr attr[] = {ACCEL_IV(PADS, pads, 2), ACCEL_I(GROUPS, d->conv_groups),
                        ACCEL_I(SPACE, b->space)};
  accel__tensor y = accel__node(b->p, ACCEL_PLUGIN_OP_CONV, (accel__tensor[]){embedded, w, bias}, 3,
                                attr, 3, NULL, 1);
  return accel__norm_layer(b, accel__activate(b, y, &d->conv_act), x, c->eps, true,
                           "encoder.conv.LayerNorm");
}

static accel__tensor encoder(accel__build *b, const deberta_config *d) {
  accel__tensor embedded = embeddings(b, d), x = embedded, table = relative_table(b, d);
  accel__add_hidden(b, x);
  for (uint32_t i = 0; i < (uint32_t)d->base.layers; i++) {
    x = layer(b, d, x, table, i);
    if (i == 0 && d->conv_kernel > 0) x = convolution(b, d, embedded, x);
    accel__add_hidden(b, x);
  }
  accel__at(b->p, (uint32_t)d->base.layers + 1, "head");
  return x;
}

static accel__tensor predictions(accel__build *b, const deberta_config *d, accel__tensor x) {
  const accel__bert_config *c = &d->base;
  const char *words = "embeddings.word_embeddings";
  if (d->legacy) {
    x = accel__dense_layer(b, x, c->embedding, true, -1, &c->act,
                           "cls.predictions.transform.dense");
    x = accel__norm_layer(b, x, -1, c->eps, true, "cls.predictions.transform.LayerNorm");
    return accel__head_vocabulary(b, x, c->vocab, c->tied, words, "cls.predictions.decoder",
                                  "cls.predictions.bias");
  }
  x = accel__dense_layer(b, x, c->hidden, true, -1, &c->act, "lm_predictions.lm_head.dense");
  x = accel__norm_layer(b, x, -1, c->eps, true, "lm_predictions.lm_head.LayerNorm");
  return accel__head_vocabulary(b, x, c->vocab, true, words, "lm_predictions.lm_head.decoder",
                                "lm_predictions.lm_head.bias");
}

static void heads(accel__build *b, const deberta_config *d, accel__tensor x) {
  b->in_head = true;
  if (b->is_base) {
    accel__add_output(b, "last_hidden_state", x, 0);
  } else if (accel__is_class(b, "ForMaskedLM")) {
    accel__add_output(b, "logits", predictions(b, d, x), 0);
  } else if (accel__is_class(b, "ForSequenceClassification")) {
    accel__tensor y = accel__dense_layer(b, accel__first_rows(b, x), d->pooler_hidden, true, -1,
                                         &d->pooler_act, "pooler.dense");
    accel__head_sequence(b, y, "classifier");
  } else {
    accel__head_words(b, x);
  }
  b->in_head = false;
}

static accel_status build(const accel__model_request *request, const char *architecture,
                          accel__model *model) {
  accel__build b;
  deberta_config d;
  ACCEL_TRY(accel__build_begin(&b, request, architecture, model, "deberta."));
  ACCEL_TRY(read_config(&b, &d));
  ACCEL_TRY(accel__bert_read(&b, &d.base));
  ACCEL_TRY(settle(&b, &d));
  accel__tensor x = encoder(&b, &d);
  heads(&b, &d, x);
  return accel__build_end(&b, x);
}

static const char *const classes[] = {ACCEL_ENCODER_CLASSES("DebertaV2"), NULL};
const accel__architecture accel__model_deberta_v2 = {
    .model_type = "deberta-v2", .classes = classes, .build = build};
