/* gated_delta.c - linear attention by the gated delta rule: Gated DeltaNet of Qwen3-Next and
 * Qwen3.5 (Yang et al. 2024, arXiv 2412.06464; transformers' Qwen3NextGatedDeltaNet).
 *
 *   q, k, v = act(conv(projections of x)),  beta = sigmoid(b),  g = -exp(A_log) softplus(a + dt_bias)
 *   y = out_proj(norm(gated_delta_rule(q, k, v, g, beta)) * silu(z))
 */
#include <stdio.h>

#include "modeling/decoder.h"

/* Added to the squared length of q and k; a constant of the class. */
static const double LENGTH_EPS = 1e-6;

/* ---- config ---- */

/* layer_types, else every full_attention_interval-th layer has attention. */
static accel_status read_layers(accel__build *b, accel__decoder *c) {
  int64_t interval = 4;
  ACCEL_TRY(accel__json_int(b->file, b->config, "full_attention_interval", 1, ACCEL__MAX_LAYERS,
                            &interval));
  for (int64_t i = 0; i < c->layers; i++) c->delta.on[i] = (i + 1) % interval != 0;
  return accel__decoder_read_types(b, c, "linear_attention", c->delta.on);
}

accel_status accel__decoder_read_delta(accel__build *b, accel__decoder *c) {
  accel__delta *d = &c->delta;
  bool gate = true;
  const accel__field fields[] = {
      ACCEL_FIELD_INT("linear_num_key_heads", &d->heads, 1, 1 << 15),
      ACCEL_FIELD_INT("linear_num_value_heads", &d->v_heads, 1, 1 << 15),
      ACCEL_FIELD_INT("linear_key_head_dim", &d->k_dim, 1, 1 << 15),
      ACCEL_FIELD_INT("linear_value_head_dim", &d->v_dim, 1, 1 << 15),
      ACCEL_FIELD_INT("linear_conv_kernel_dim", &d->kernel, 1, 1024),
      ACCEL_FIELD_BOOL("attn_output_gate", &gate),
  };
  ACCEL_TRY(accel__read_fields(b, fields, sizeof fields / sizeof *fields));
  ACCEL_TRY(
      accel__divides(b, "linear_num_key_heads", d->heads, "linear_num_value_heads", d->v_heads));
  if (d->heads * d->k_dim > ACCEL__MAX_WIDTH || d->v_heads * d->v_dim > ACCEL__MAX_WIDTH)
    return accel__refuse(
        b,
        "fields 'linear_num_key_heads' to 'linear_value_head_dim': %lld heads of %lld and %lld of "
        "%lld are too wide",
        (long long)d->heads, (long long)d->k_dim, (long long)d->v_heads, (long long)d->v_dim);
  if (!gate)
    return accel__refuse(b, "field 'attn_output_gate': false is not supported; known: true");
  return read_layers(b, c);
}

/* ---- the layer ---- */

typedef struct parts {
  accel__tensor qkv, z, b,
      a; /* [T, columns of q | k | v], [T, those of v], [T, heads of v] twice */
} parts;

/* act(x w^T + bias) with a weight [heads of v, columns of x]: rows of in_proj_ba, `part` 0 b and 1
 * a, or `own` whole. */
static accel__tensor per_head(accel__build *b, const accel__delta *d, accel__tensor x, uint32_t i,
                              const char *own, int64_t part, accel__tensor bias, int act) {
  const int64_t dims[2] = {d->v_heads, accel__columns(b, x)}, each = d->v_heads / d->heads;
  char name[60];
  snprintf(name, sizeof name, "layers.%u.linear_attn.%s.weight", i, d->apart ? own : "in_proj_ba");
  accel__tensor w = d->apart ? accel__weight_at(b, ACCEL_PLUGIN_USE_LINEAR, 2, dims, name)
                             : accel__weight_blocks(b, ACCEL_PLUGIN_USE_LINEAR, 2, dims, each,
                                                    part * each, 2 * each, name);
  return accel__linear(b->p, x, w, bias, -1, act);
}

/* Of in_proj_qkvz, whose rows are q, k, v and z of the first head of q and k, then of the next: q,
 * k and v are one weight, in which each of them is in one piece. */
static void project_together(accel__build *b, const accel__delta *d, accel__tensor x, uint32_t i,
                             parts *p) {
  const int64_t k = d->k_dim, v = d->v_heads / d->heads * d->v_dim, step = 2 * k + 2 * v;
  const char *name = accel__resolve(b, "layers.%u.linear_attn.in_proj_qkvz.weight", i);
  const accel__weight_spec spec = {.name = accel__arena_printf(b->arena, "%s.qkv", name),
                                   .use = ACCEL_PLUGIN_USE_LINEAR,
                                   .rank = 2,
                                   .dim = {d->heads * (2 * k + v), accel__columns(b, x)},
                                   .parts = {name},
                                   .n_parts = 1,
                                   .stored_rows = d->heads * step,
                                   .block_rows = k,
                                   .block_step = step,
                                   .also = {{k, k}, {2 * k, v}}};
  char z[60];
  p->qkv = accel__linear(b->p, x, accel__weight(b->p, &spec), -1, -1, ACCEL_PLUGIN_ACT_NONE);
  snprintf(z, sizeof z, "layers.%u.linear_attn.in_proj_qkvz", i);
  p->z = accel__dense_blocks(b, x, d->heads, v, 2 * k + v, step, false, z);
}

static parts project(accel__build *b, const accel__delta *d, accel__tensor x, uint32_t i) {
  const int64_t k = d->heads * d->k_dim, v = d->v_heads * d->v_dim;
  const char *path = "layers.%u.linear_attn.%s";
  char name[60];
  parts p = {.qkv = -1};
  if (d->apart) {
    p.qkv = accel__dense_layer(b, x, 2 * k + v, false, -1, NULL, path, i, "in_proj_qkv");
    p.z = accel__dense_layer(b, x, v, false, -1, NULL, path, i, "in_proj_z");
  } else {
    project_together(b, d, x, i, &p);
  }
  p.z = accel__unary(b->p, ACCEL_PLUGIN_ACT_SILU, p.z);
  p.b = per_head(b, d, x, i, "in_proj_b", 0, -1, ACCEL_PLUGIN_ACT_SIGMOID);
  snprintf(name, sizeof name, "layers.%u.linear_attn.dt_bias", i);
  accel__tensor bias = accel__weight_at(b, ACCEL_PLUGIN_USE_PLAIN, 1, &d->v_heads, name);
  p.a = per_head(b, d, x, i, "in_proj_a", 1, bias, ACCEL_PLUGIN_ACT_SOFTPLUS);
  return p;
}

accel__tensor accel__delta_layer(accel__build *b, const accel__decoder *c, accel__tensor x,
                                 accel__tensor residual, uint32_t i) {
  const accel__delta *d = &c->delta;
  const int64_t k = d->heads * d->k_dim, v = d->v_heads * d->v_dim;
  parts p = project(b, d, x, i);
  accel__tensor qkv =
      accel__causal_conv(b, p.qkv, d->kernel, false, &c->act, i, "linear_attn.conv1d");
  accel__tensor rates = accel__decay_rates(b, 1, &d->v_heads, i, "linear_attn.A_log");
  accel__tensor in[5] = {accel__slice(b->p, qkv, 1, 0, k), accel__slice(b->p, qkv, 1, k, 2 * k),
                         accel__slice(b->p, qkv, 1, 2 * k, 2 * k + v),
                         accel__binary(b->p, ACCEL_PLUGIN_BINARY_MUL, p.a, rates), p.b};
  accel__attr attr[] = {ACCEL_I(HEADS, d->heads), ACCEL_F(EPS, LENGTH_EPS),
                        ACCEL_I(SPACE, b->space)};
  accel__with_state(b->p, accel__recurrent_state(b, i, d->v_heads, d->k_dim, d->v_dim));
  accel__tensor y = accel__node(b->p, ACCEL_PLUGIN_OP_GATED_DELTA_RULE, in, 5, attr, 3, NULL, 1);
  y = accel__rms_heads(b, y, d->v_heads, c->eps, 0, "layers.%u.linear_attn.norm", i);
  y = accel__binary(b->p, ACCEL_PLUGIN_BINARY_MUL, y, p.z);
  return accel__dense_layer(b, y, c->hidden, false, residual, NULL,
                            "layers.%u.linear_attn.out_proj", i);
}
