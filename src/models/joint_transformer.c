/* joint_transformer.c - layers that the transformers of Stable Diffusion 3 and Flux share. */
#include "models/joint_transformer.h"

#include <stdio.h>

enum { NAME_BYTES = 160, TIME_WAVES = 256 };

static const double eps = 1e-6; /* of all norms, whatever the config */
static const accel__activation gelu = {.act = ACCEL_PLUGIN_ACT_GELU_TANH};

const accel__joint_stream accel__joint_picture = {.q = "to_q",
                                                  .k = "to_k",
                                                  .v = "to_v",
                                                  .norm_q = "norm_q",
                                                  .norm_k = "norm_k",
                                                  .out = "to_out.0"};
const accel__joint_stream accel__joint_text = {.q = "add_q_proj",
                                               .k = "add_k_proj",
                                               .v = "add_v_proj",
                                               .norm_q = "norm_added_q",
                                               .norm_k = "norm_added_k",
                                               .out = "to_add_out"};

/* ---- modulation ---- */

accel__tensor accel__joint_item(accel__build *b, const char *name, int64_t columns) {
  const accel__dim dims[2] = {b->B, accel__const_dim(b->p, columns)};
  return accel__add_item(b, name, ACCEL_PLUGIN_F32, columns > 0 ? 2 : 1, dims,
                         ACCEL__DEFAULT_REQUIRED);
}

accel__tensor accel__joint_context(accel__build *b, int64_t width, int64_t hidden) {
  const accel__dim S = accel__symbol(b->p, "S", 1, ACCEL__MAX_POSITIONS, 333),
                   dims[3] = {b->B, S, accel__const_dim(b->p, width)};
  accel__tensor x = accel__add_item(b, "encoder_hidden_states", ACCEL_PLUGIN_F32, 3, dims,
                                    ACCEL__DEFAULT_REQUIRED);
  return accel__dense_layer(b, x, hidden, true, -1, NULL, "context_embedder");
}

/* A number for each item, as waves through two layers. */
static accel__tensor embedded(accel__build *b, accel__tensor number, int64_t hidden,
                              const char *name) {
  return accel__unet_embedding(b, accel__unet_waves(b, number, TIME_WAVES, true, 0.0), hidden,
                               &accel__unet_silu, name);
}

accel__tensor accel__joint_time(accel__build *b, int64_t hidden, accel__tensor timestep,
                                accel__tensor guidance, accel__tensor pooled) {
  accel__tensor t = embedded(b, timestep, hidden, "time_text_embed.timestep_embedder");
  if (guidance >= 0)
    t = accel__binary(b->p, ACCEL_PLUGIN_BINARY_ADD, t,
                      embedded(b, guidance, hidden, "time_text_embed.guidance_embedder"));
  t = accel__binary(
      b->p, ACCEL_PLUGIN_BINARY_ADD, t,
      accel__unet_embedding(b, pooled, hidden, &accel__unet_silu, "time_text_embed.text_embedder"));
  return accel__activate(b, t, &accel__unet_silu);
}

void accel__joint_modulations(accel__build *b, const accel__joint *how, uint32_t parts,
                              accel__tensor *part, const char *path) {
  const int64_t n = how->hidden;
  const accel__dim dims[3] = {b->B, accel__const_dim(b->p, 1), accel__const_dim(b->p, n)};
  const accel__tensor all =
      accel__dense_layer(b, how->time, parts * n, true, -1, NULL, "%s.linear", path);
  for (uint32_t i = 0; i < parts; i++)
    part[i] = accel__reshape(b->p, accel__slice(b->p, all, 1, i * n, (i + 1) * n), 3, dims);
}

accel__tensor accel__joint_norm(accel__build *b, accel__tensor x) {
  return accel__layer_norm(b->p, x, -1, -1, -1, eps);
}

accel__tensor accel__joint_shifted(accel__build *b, accel__tensor x, accel__tensor shift,
                                   accel__tensor scale) {
  x = accel__binary(b->p, ACCEL_PLUGIN_BINARY_MUL, x, accel__affine(b, scale, 1.0, 1.0));
  return accel__binary(b->p, ACCEL_PLUGIN_BINARY_ADD, x, shift);
}

accel__tensor accel__joint_gated(accel__build *b, accel__tensor x, accel__tensor gate,
                                 accel__tensor y) {
  return accel__binary(b->p, ACCEL_PLUGIN_BINARY_ADD, x,
                       accel__binary(b->p, ACCEL_PLUGIN_BINARY_MUL, y, gate));
}

accel__tensor accel__joint_feed_forward(accel__build *b, accel__tensor x, const accel__tensor *part,
                                        const char *path) {
  const int64_t n = accel__columns(b, x);
  accel__tensor y = accel__joint_shifted(b, accel__joint_norm(b, x), part[0], part[1]);
  y = accel__dense_layer(b, y, 4 * n, true, -1, &gelu, "%s.net.0.proj", path);
  y = accel__dense_layer(b, y, n, true, -1, NULL, "%s.net.2", path);
  return accel__joint_gated(b, x, part[2], y);
}

accel__tensor accel__joint_output(accel__build *b, const accel__joint *how, accel__tensor x,
                                  int64_t columns) {
  accel__tensor part[2]; /* scale, then shift */
  accel__joint_modulations(b, how, 2, part, "norm_out");
  x = accel__joint_shifted(b, accel__joint_norm(b, x), part[1], part[0]);
  return accel__dense_layer(b, x, columns, true, -1, NULL, "proj_out");
}

/* ---- attention ---- */

accel__joint_space accel__joint_space_of(accel__build *b, accel__dim rows, const char *name) {
  return (accel__joint_space){rows, accel__space_fixed(b->p, name, rows, b->B)};
}

/* Heads [B,S,heads*D] of q or k, each normalised by itself. */
static accel__tensor normed(accel__build *b, const accel__joint *how, accel__tensor x,
                            const char *path, const char *name) {
  if (x < 0 || how->norm == ACCEL__HEADS_AS_THEY_ARE) return x;
  const accel__dim items = accel__tensor_dim(b->p, x, 0), rows = accel__tensor_dim(b->p, x, 1),
                   heads = accel__const_dim(b->p, how->heads),
                   each = accel__const_dim(b->p, how->hidden / how->heads);
  x = accel__reshape(b->p, x, 4, (accel__dim[]){items, rows, heads, each});
  x = how->norm == ACCEL__HEADS_RMS ? accel__rms_layer(b, x, eps, 0, "%s.%s", path, name)
                                    : accel__norm_layer(b, x, -1, eps, true, "%s.%s", path, name);
  return accel__reshape(b->p, x, 3,
                        (accel__dim[]){items, rows, accel__const_dim(b->p, how->hidden)});
}

/* [B,S,hidden] -> rows [B*S,hidden] of the space, turned by the angles. */
static accel__tensor to_rows(accel__build *b, const accel__joint *how,
                             const accel__joint_space *space, accel__tensor x, bool turns) {
  const accel__dim rows = accel__times(b, b->B, space->rows);
  const int64_t each = how->hidden / how->heads;
  x = accel__reshape(b->p, x, 2, (accel__dim[]){rows, accel__const_dim(b->p, how->hidden)});
  if (!turns || how->angles < 0) return x;
  /* angles are positions times frequencies already: each row is at position 1 */
  const accel__tensor ones =
      accel__cast(b, accel__affine(b, accel__count(b, rows), 0.0, 1.0), ACCEL_PLUGIN_I32);
  accel__attr attr[] = {ACCEL_I(HEAD_DIM, each), ACCEL_I(ROT_DIMS, each),
                        ACCEL_I(ROPE_STYLE, ACCEL_PLUGIN_ROPE_INTERLEAVED), ACCEL_F(MSCALE, 1.0)};
  return accel__node(b->p, ACCEL_PLUGIN_OP_ROPE, (accel__tensor[]){x, ones, how->angles}, 3, attr,
                     4, NULL, 1);
}

static accel__tensor joined(accel__build *b, const accel__tensor *part, uint32_t n) {
  return n == 1 ? part[0] : accel__concat(b, 1, n, part);
}

void accel__joint_attend(accel__build *b, const accel__joint *how, const accel__joint_space *space,
                         accel__joint_stream *stream, uint32_t n, const char *path) {
  accel__tensor q[2], k[2], v[2];
  for (uint32_t i = 0; i < n; i++) {
    const accel__joint_stream *s = &stream[i];
    q[i] = accel__dense_layer(b, s->x, how->hidden, true, -1, NULL, "%s.%s", path, s->q);
    k[i] = accel__dense_layer(b, s->x, how->hidden, true, -1, NULL, "%s.%s", path, s->k);
    v[i] = accel__dense_layer(b, s->x, how->hidden, true, -1, NULL, "%s.%s", path, s->v);
    q[i] = normed(b, how, q[i], path, s->norm_q);
    k[i] = normed(b, how, k[i], path, s->norm_k);
  }
  accel__attention attention = accel__attention_of(b, how->heads);
  attention.q_space = attention.kv_space = space->space;
  accel__tensor y = accel__attend(b, to_rows(b, how, space, joined(b, q, n), true),
                                  to_rows(b, how, space, joined(b, k, n), true),
                                  to_rows(b, how, space, joined(b, v, n), false), &attention);
  y = accel__rows_to_items(b, y, space->rows);
  accel__dim from = accel__const_dim(b->p, 0);
  for (uint32_t i = 0; i < n && y >= 0; i++) {
    const accel__dim to =
        accel__dim_op(b->p, ACCEL_PLUGIN_DIM_ADD, from, accel__tensor_dim(b->p, stream[i].x, 1));
    const accel__tensor own = n == 1 ? y : accel__slice_dims(b, y, 1, from, to);
    stream[i].x = stream[i].out == NULL ? own
                                        : accel__dense_layer(b, own, how->hidden, true, -1, NULL,
                                                             "%s.%s", path, stream[i].out);
    from = to;
  }
}
