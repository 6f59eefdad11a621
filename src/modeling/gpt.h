/* gpt.h - the decoder with layer norms and a plain feed-forward that GPT-2 and its relatives share
 * (OPT, GPT-J, GPT-Neo, GPT-NeoX, BLOOM, Falcon, MPT, Phi, StarCoder2): each names its tensors and
 * says how q, k and v are stored, where residuals go and where positions come from. */
#ifndef ACCEL_MODELING_GPT_H
#define ACCEL_MODELING_GPT_H

#include "modeling/rope.h"
#include "modeling/seq2seq.h"

typedef enum accel__qkv {
  ACCEL__QKV_SEPARATE, /* three weights */
  ACCEL__QKV_HEADS,    /* one weight; for each key head its query heads, then k, then v */
  ACCEL__QKV_ROWS,     /* one weight; the heads of q, of k, of v */
  /* one weight [hidden, 3 hidden]: q, k, v side by side (GPT-2's Conv1D; all linears are so) */
  ACCEL__QKV_TRANSPOSED
} accel__qkv;

typedef struct accel__gpt {
  /* inner: width of the feed-forward; embedding: width of the table, 0: hidden (OPT) */
  int64_t vocab, hidden, layers, heads, kv_heads, inner, embedding;
  int64_t head_dim;       /* 0: hidden / heads */
  int64_t positions;      /* rows of the position table from position 0 on; 0: no table */
  int64_t first_position; /* rows of the stored table in front of position 0 (OPT: 2) */
  int64_t longest;        /* positions a model without a table was made for; 0 none */
  accel__input_default position_rule;
  double eps;
  bool tied, bias, norm_affine;  /* bias: of all linears */
  bool no_qkv_bias, no_out_bias; /* these have none, all the same */
  bool no_norm_bias;             /* norms have a weight alone (MPT) */
  bool post_norm;                /* norms behind attention and feed-forward */
  bool parallel;                 /* attention and feed-forward read the same x */
  bool residual_normed;          /* residuals are taken behind the norms (BLOOM) */
  bool inverse_layer, unscaled;  /* GPT-2: scores over layer + 1; scores as they are */
  accel__qkv qkv;
  accel__activation act;
  bool rotary;
  accel__rope rope;
  const float *slopes; /* [heads] ALiBi, in units of scores; NULL none */
  double scale;        /* of scores; 0: 1/sqrt(head_dim) */
  double clip;         /* q, k and v are clamped to it; 0 not */
  bool word_types;     /* forward adds the words that token_type_ids name (GPT-2) */
  int64_t window;      /* tokens that a sliding layer sees; 0: none slides */
  bool sliding[ACCEL__MAX_LAYERS];
  /* Names: `layer` without its number, the others behind it.  norm2 NULL: the feed-forward reads
   * norm1's result. */
  const char *token_embedding, *position_embedding, *embedding_norm, *last_norm, *layer, *norm1,
      *norm2, *q, *k, *v, *out, *up, *down, *head;
  const char *q_norm, *k_norm;          /* of each head before it turns; NULL none (Phi) */
  const char *head_bias;                /* of the vocabulary head; NULL none */
  const char *token_head;               /* ForTokenClassification; NULL: "classifier" */
  const char *project_in, *project_out; /* between embedding and hidden (OPT) */
} accel__gpt;

/* What Falcon took over from BLOOM: layout, names of tensors, config fields (n_embed, n_layer,
 * n_head: their first names).
 */
#define ACCEL_GPT_BLOOM_PARTS                                                                      \
  .eps = 1e-5, .tied = true, .norm_affine = true, .qkv = ACCEL__QKV_HEADS,                         \
  .token_embedding = "word_embeddings", .last_norm = "ln_f", .layer = "h",                         \
  .q = "self_attention.query_key_value", .out = "self_attention.dense", .up = "mlp.dense_h_to_4h", \
  .down = "mlp.dense_4h_to_h"
#define ACCEL_GPT_BLOOM_FIELDS(c)                                              \
  ACCEL_FIELD_INT("vocab_size", &(c).vocab, 1, ACCEL__MAX_VOCAB),              \
      ACCEL_FIELD_INT("hidden_size", &(c).hidden, 1, ACCEL__MAX_WIDTH),        \
      ACCEL_FIELD_INT("n_embed", &(c).hidden, 1, ACCEL__MAX_WIDTH),            \
      ACCEL_FIELD_INT("num_hidden_layers", &(c).layers, 0, ACCEL__MAX_LAYERS), \
      ACCEL_FIELD_INT("n_layer", &(c).layers, 0, ACCEL__MAX_LAYERS),           \
      ACCEL_FIELD_INT("num_attention_heads", &(c).heads, 1, ACCEL__MAX_WIDTH), \
      ACCEL_FIELD_INT("n_head", &(c).heads, 1, ACCEL__MAX_WIDTH),              \
      ACCEL_FIELD_NUMBER("layer_norm_epsilon", &(c).eps),                      \
      ACCEL_FIELD_BOOL("tie_word_embeddings", &(c).tied)

/* What GPT-J took over from GPT-2: config fields, each by transformers' other name first. */
#define ACCEL_GPT_GPT2_FIELDS(c, positions_out)                                             \
  ACCEL_FIELD_INT("vocab_size", &(c).vocab, 1, ACCEL__MAX_VOCAB),                           \
      ACCEL_FIELD_INT("hidden_size", &(c).hidden, 1, ACCEL__MAX_WIDTH),                     \
      ACCEL_FIELD_INT("n_embd", &(c).hidden, 1, ACCEL__MAX_WIDTH),                          \
      ACCEL_FIELD_INT("num_hidden_layers", &(c).layers, 0, ACCEL__MAX_LAYERS),              \
      ACCEL_FIELD_INT("n_layer", &(c).layers, 0, ACCEL__MAX_LAYERS),                        \
      ACCEL_FIELD_INT("num_attention_heads", &(c).heads, 1, ACCEL__MAX_WIDTH),              \
      ACCEL_FIELD_INT("n_head", &(c).heads, 1, ACCEL__MAX_WIDTH),                           \
      ACCEL_FIELD_INT("max_position_embeddings", (positions_out), 1, ACCEL__MAX_POSITIONS), \
      ACCEL_FIELD_INT("n_positions", (positions_out), 1, ACCEL__MAX_POSITIONS),             \
      ACCEL_FIELD_INT("n_inner", &(c).inner, 1, ACCEL__MAX_WIDTH),                          \
      ACCEL_FIELD_NUMBER("layer_norm_epsilon", &(c).eps),                                   \
      ACCEL_FIELD_BOOL("tie_word_embeddings", &(c).tied),                                   \
      ACCEL_FIELD_ACT("activation_function", &(c).act)

/* What Phi and StarCoder2 took over from LLaMA: config fields. */
#define ACCEL_GPT_ROTARY_FIELDS(c)                                                       \
  ACCEL_FIELD_INT("vocab_size", &(c).vocab, 1, ACCEL__MAX_VOCAB),                        \
      ACCEL_FIELD_INT("hidden_size", &(c).hidden, 1, ACCEL__MAX_WIDTH),                  \
      ACCEL_FIELD_INT("num_hidden_layers", &(c).layers, 0, ACCEL__MAX_LAYERS),           \
      ACCEL_FIELD_INT("num_attention_heads", &(c).heads, 1, ACCEL__MAX_WIDTH),           \
      ACCEL_FIELD_INT("num_key_value_heads", &(c).kv_heads, 1, ACCEL__MAX_WIDTH),        \
      ACCEL_FIELD_INT("head_dim", &(c).head_dim, 1, ACCEL__MAX_WIDTH),                   \
      ACCEL_FIELD_INT("intermediate_size", &(c).inner, 1, ACCEL__MAX_WIDTH),             \
      ACCEL_FIELD_INT("max_position_embeddings", &(c).longest, 1, ACCEL__MAX_POSITIONS), \
      ACCEL_FIELD_BOOL("tie_word_embeddings", &(c).tied), ACCEL_FIELD_ACT("hidden_act", &(c).act)

/* ALiBi's slopes of `heads` heads, powers of two between two neighbours (paper "Train Short, Test
 * Long"); arena memory. */
float *accel__alibi_slopes(accel__build *b, int64_t heads);
/* Positions by these alone, keys and values of as many heads as queries. */
accel_status accel__gpt_use_alibi(accel__build *b, accel__gpt *c);
/* num_key_value_heads and head_dim where they are null, rope_parameters or rope_scaling, rope_theta,
 * partial_rotary_factor (`partial` when absent; 0: the class reads none). */
accel_status accel__gpt_read_rope(accel__build *b, accel__gpt *c, double partial);
/* A family's model: read sets *c to the defaults of its config class, then takes what config.json
 * says. */
accel_status accel__gpt_model(const accel__model_request *request, const char *architecture,
                              accel__model *model, const char *prefix,
                              accel_status (*read)(accel__build *b, accel__gpt *c));
/* As the decoder of a composite (names below b->scope), with attention to an encoder's rows behind
 * each layer's own: rows of side 1 over memory (-1: over what the session holds), the first layer
 * being stage `stage` of the program; and keys and values of layer i.  GPT-2's names. */
accel__tensor accel__gpt_decoder(accel__build *b, const accel__gpt *c, const accel__seq2seq *how,
                                 accel__tensor memory, uint32_t stage);
accel__keys accel__gpt_keys(accel__build *b, const accel__gpt *c, accel__tensor memory, uint32_t i);
/* Checks, inputs, layers, heads, entries. */
accel_status accel__gpt_build(accel__build *b, const accel__gpt *c);

#endif
