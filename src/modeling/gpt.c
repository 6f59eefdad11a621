/* gpt.c - layers, attention and positions of the GPT-2 kin. */
#include "modeling/gpt.h"

#include <math.h>
#include <stdio.h>

#include "modeling/vision.h"

float *accel__alibi_slopes(accel__build *b, int64_t heads) {
  float *slope = accel__arena_array(b->arena, (size_t)heads, sizeof *slope);
  int64_t power = 1;
  while (power * 2 <= heads) power *= 2;
  if (slope == NULL) return NULL;
  double base = exp2(-8.0 / (double)power), between = exp2(-4.0 / (double)power);
  for (int64_t i = 0; i < heads; i++)
    slope[i] = (float)(i < power ? pow(base, (double)(i + 1))
                                 : pow(between, (double)(2 * (i - power) + 1)));
  return slope;
}

accel_status accel__gpt_use_alibi(accel__build *b, accel__gpt *c) {
  c->kv_heads = c->heads;
  c->slopes = accel__alibi_slopes(b, c->heads);
  return c->slopes != NULL ? ACCEL_OK : ACCEL_ERROR_OUT_OF_MEMORY;
}

accel_status accel__gpt_read_rope(accel__build *b, accel__gpt *c, double partial) {
  const accel__json *kv = cJSON_GetObjectItemCaseSensitive(b->config, "num_key_value_heads");
  if (c->kv_heads == 0 || cJSON_IsNull(kv)) c->kv_heads = c->heads;
  if (c->head_dim == 0) {
    ACCEL_TRY(accel__divides(b, "num_attention_heads", c->heads, "hidden_size", c->hidden));
    c->head_dim = c->hidden / c->heads;
  }
  return accel__rope_config(b, NULL, 10000.0, partial, c->head_dim, c->longest, "rope", &c->rope);
}

accel_status accel__gpt_model(const accel__model_request *request, const char *architecture,
                              accel__model *model, const char *prefix,
                              accel_status (*read)(accel__build *b, accel__gpt *c)) {
  accel__build b;
  ACCEL_TRY(accel__build_begin(&b, request, architecture, model, prefix));
  accel__gpt c = {0};
  ACCEL_TRY(read(&b, &c));
  return accel__gpt_build(&b, &c);
}

/* ---- linears ---- */

static int64_t head_dim(const accel__gpt *c) {
  return c->head_dim != 0 ? c->head_dim : c->hidden / c->heads;
}

static accel__tensor dense(accel__build *b, const accel__gpt *c, accel__tensor x, int64_t out,
                           bool bias, accel__tensor residual, const accel__activation *act,
                           uint32_t i, const char *name) {
  if (c->qkv != ACCEL__QKV_TRANSPOSED)
    return accel__dense_layer(b, x, out, bias, residual, act, "%s.%u.%s", c->layer, i, name);
  char path[200];
  snprintf(path, sizeof path, "%s.%u.%s", c->layer, i, name);
  return accel__dense_transposed(b, x, out, 0, out, residual, act, path);
}

/* q (part 0), k (1) or v (2). */
static accel__tensor projection(accel__build *b, const accel__gpt *c, accel__tensor x,
                                uint32_t part, uint32_t i) {
  const char *name = part == 0 ? c->q : part == 1 ? c->k : c->v;
  const bool bias = c->bias && !c->no_qkv_bias;
  int64_t d = head_dim(c), group = c->heads / c->kv_heads,
          out = (part == 0 ? c->heads : c->kv_heads) * d;
  if (c->qkv == ACCEL__QKV_SEPARATE) return dense(b, c, x, out, bias, -1, NULL, i, name);
  char path[200];
  snprintf(path, sizeof path, "%s.%u.%s", c->layer, i, c->q);
  if (c->qkv == ACCEL__QKV_TRANSPOSED)
    return accel__dense_transposed(b, x, out, part * c->hidden, 3 * c->hidden, -1, NULL, path);
  if (c->qkv == ACCEL__QKV_ROWS) return accel__dense_rows(b, x, out, bias, part, 3, "%s", path);
  int64_t each = part == 0 ? group * d : d, first = part == 0 ? 0 : (group + part - 1) * d,
          step = (group + 2) * d;
  return accel__dense_blocks(b, x, c->kv_heads, each, first, step, bias, path);
}

/* ---- layers ---- */

static accel__tensor norm(accel__build *b, const accel__gpt *c, accel__tensor x, uint32_t i,
                          const char *name) {
  if (!c->norm_affine) return accel__layer_norm(b->p, x, -1, -1, -1, c->eps);
  return accel__norm_layer(b, x, -1, c->eps, !c->no_norm_bias, "%s.%u.%s", c->layer, i, name);
}

/* q (part 0), k (1) or v (2) as attention takes them: clamped, normalised, turned. */
static accel__tensor heads_of(accel__build *b, const accel__gpt *c, accel__tensor x, uint32_t part,
                              uint32_t i) {
  accel__tensor y = accel__clamped(b, projection(b, c, x, part, i), c->clip);
  const char *own = part == 0 ? c->q_norm : part == 1 ? c->k_norm : NULL;
  if (own != NULL) {
    accel__dim rows = accel__tensor_dim(b->p, y, 0), all = accel__tensor_dim(b->p, y, 1);
    accel__dim n = accel__const_dim(b->p, part == 0 ? c->heads : c->kv_heads);
    /* [T,heads,D] */
    y = accel__reshape(b->p, y, 3, (accel__dim[]){rows, n, accel__const_dim(b->p, head_dim(c))});
    y = accel__reshape(b->p, norm(b, c, y, i, own), 2, (accel__dim[]){rows, all});
  }
  return c->rotary && part < 2 ? accel__rope_rows(b, y, &c->rope) : y;
}

/* Of the scores of layer i. */
static double scale_of(const accel__gpt *c, uint32_t i) {
  const double scale = c->unscaled     ? 1.0
                       : c->scale != 0 ? c->scale
                                       : 1.0 / sqrt((double)head_dim(c));
  return c->inverse_layer ? scale / (double)(i + 1) : scale;
}

static accel__tensor attention(accel__build *b, const accel__gpt *c, accel__tensor x,
                               accel__tensor residual, uint32_t i) {
  const int64_t d = head_dim(c), window = c->sliding[i] ? c->window : 0;
  accel__tensor q = heads_of(b, c, x, 0, i), k = heads_of(b, c, x, 1, i),
                v = heads_of(b, c, x, 2, i);
  accel__attention how = accel__attention_of(b, c->heads);
  how.kv_heads = c->kv_heads;
  how.causal = true;
  how.scale = scale_of(c, i);
  if (window > 0) how.left = window - 1; /* the token itself counts */
  if (c->slopes != NULL) {
    how.bias_kind = ACCEL_PLUGIN_BIAS_ALIBI;
    how.bias = accel__constant_f32(b->p, "alibi", 1, &c->heads, c->slopes);
  }
  how.state = accel__kv_state(b, i, c->kv_heads, d, d, window);
  return dense(b, c, accel__attend(b, q, k, v, &how), c->hidden, c->bias && !c->no_out_bias,
               residual, NULL, i, c->out);
}

static accel__tensor feed_forward(accel__build *b, const accel__gpt *c, accel__tensor x,
                                  accel__tensor residual, uint32_t i) {
  x = dense(b, c, x, c->inner, c->bias, -1, &c->act, i, c->up);
  return dense(b, c, x, c->hidden, c->bias, residual, NULL, i, c->down);
}

/* What a decoder below an encoder attends to. */
typedef struct crossing {
  const accel__seq2seq *how;
  accel__tensor memory;
} crossing;

accel__keys accel__gpt_keys(accel__build *b, const accel__gpt *c, accel__tensor memory,
                            uint32_t i) {
  accel__tensor kv[2];
  char path[200];
  snprintf(path, sizeof path, "%s.%u.crossattention.c_attn", c->layer, i);
  for (int64_t part = 0; part < 2; part++)
    kv[part] = accel__dense_transposed(b, memory, c->hidden, part * c->hidden, 2 * c->hidden, -1,
                                       NULL, path);
  return (accel__keys){kv[0], kv[1]};
}

static accel__tensor cross_attention(accel__build *b, const accel__gpt *c, const crossing *to,
                                     accel__tensor x, uint32_t i) {
  accel__tensor y = norm(b, c, x, i, "ln_cross_attn");
  y = dense(b, c, y, c->hidden, c->bias, -1, NULL, i, "crossattention.q_attn");
  y = accel__cross_attend(b, to->how, y, to->memory, i, scale_of(c, i));
  return dense(b, c, y, c->hidden, c->bias, x, NULL, i, "crossattention.c_proj");
}

/* cross: NULL without an encoder */
static accel__tensor layer(accel__build *b, const accel__gpt *c, const crossing *cross,
                           accel__tensor x, uint32_t i) {
  if (c->post_norm) {
    x = norm(b, c, attention(b, c, x, x, i), i, c->norm1);
    return norm(b, c, feed_forward(b, c, x, x, i), i, c->norm2);
  }
  accel__tensor y = norm(b, c, x, i, c->norm1);
  if (c->parallel) {
    accel__tensor z = c->norm2 != NULL ? norm(b, c, x, i, c->norm2) : y;
    return feed_forward(b, c, z, attention(b, c, y, x, i), i);
  }
  x = attention(b, c, y, c->residual_normed ? y : x, i);
  if (cross != NULL) x = cross_attention(b, c, cross, x, i);
  y = norm(b, c, x, i, c->norm2);
  return feed_forward(b, c, y, c->residual_normed ? y : x, i);
}

/* Words, and rows of the position table behind those in front of position 0. */
static accel__tensor embeddings(accel__build *b, const accel__gpt *c) {
  int64_t width = c->embedding != 0 ? c->embedding : c->hidden;
  accel__tensor x = accel__merge_images(
      b, accel__embedding(b, b->input_ids, c->vocab, width, c->token_embedding));
  if (b->token_type_ids >= 0 && !b->decoding) {
    accel__tensor one_more =
        accel__affine(b, accel__cast(b, b->token_type_ids, ACCEL_PLUGIN_F32), 1.0, 1.0);
    x = accel__binary(b->p, ACCEL_PLUGIN_BINARY_ADD, x,
                      accel__optional_embedding(b, one_more, c->vocab, width, c->token_embedding));
  }
  if (width != c->hidden)
    x = accel__dense_layer(b, x, c->hidden, false, -1, NULL, "%s", c->project_in);
  if (c->embedding_norm != NULL)
    x = accel__norm_layer(b, x, -1, c->eps, true, "%s", c->embedding_norm);
  if (c->positions == 0) return x;
  accel__tensor table =
      accel__position_table(b, c->positions, c->hidden, c->first_position, c->position_embedding);
  return accel__binary(b->p, ACCEL_PLUGIN_BINARY_ADD, x,
                       accel__gather(b->p, table, b->position_ids));
}

/* The first layer is stage `stage`. */
static accel__tensor rows(accel__build *b, const accel__gpt *c, const crossing *cross,
                          uint32_t stage) {
  int64_t width = c->embedding != 0 ? c->embedding : c->hidden;
  accel__tensor x = embeddings(b, c);
  for (uint32_t i = 0; i < (uint32_t)c->layers; i++) {
    accel__add_hidden(b, x);
    accel__at(b->p, stage + i, "layers.%u", i);
    x = layer(b, c, cross, x, i);
  }
  if (cross == NULL) accel__at(b->p, stage + (uint32_t)c->layers, "head");
  if (c->last_norm != NULL)
    x = c->norm_affine ? accel__norm_layer(b, x, -1, c->eps, !c->no_norm_bias, "%s", c->last_norm)
                       : accel__layer_norm(b->p, x, -1, -1, -1, c->eps);
  if (width != c->hidden)
    x = accel__dense_layer(b, x, width, false, -1, NULL, "%s", c->project_out);
  accel__add_hidden(b, x);
  return x;
}

static accel__tensor hidden(accel__build *b, const void *config) {
  accel__at(b->p, 0, "embeddings");
  return rows(b, config, NULL, 1);
}

accel__tensor accel__gpt_decoder(accel__build *b, const accel__gpt *c, const accel__seq2seq *how,
                                 accel__tensor memory, uint32_t stage) {
  accel__at(b->p, stage, "embeddings");
  return rows(b, c, &(crossing){how, memory}, stage);
}

accel_status accel__gpt_build(accel__build *b, const accel__gpt *c) {
  if (c->head_dim == 0)
    ACCEL_TRY(accel__divides(b, "num_attention_heads", c->heads, "hidden_size", c->hidden));
  ACCEL_TRY(accel__divides(b, "num_kv_heads", c->kv_heads, "num_attention_heads", c->heads));
  b->model->hidden_size = c->hidden;
  b->model->max_positions = c->positions > 0 ? c->positions : c->longest;
  ACCEL_TRY(accel__read_labels(b));
  accel__add_tokens(b, c->vocab);
  if (c->word_types) accel__add_word_types(b, c->vocab);
  if (c->positions > 0 || c->rotary)
    accel__add_positions(b, c->rotary ? INT32_MAX : c->positions, c->position_rule, 0);
  return accel__causal_build(
      b, &(accel__causal){.config = c,
                          .hidden = hidden,
                          .embeddings = c->token_embedding,
                          .head = c->head != NULL ? c->head : "lm_head",
                          .head_bias = c->head_bias,
                          .token_head = c->token_head != NULL ? c->token_head : "classifier",
                          .vocab = c->vocab,
                          .tied = c->tied});
}
