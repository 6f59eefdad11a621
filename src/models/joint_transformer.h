/* joint_transformer.h - what the transformers of Stable Diffusion 3 and Flux share: streams of rows of
 * the picture and of the text, which attend to each other, every norm shifted and scaled by the time
 * (diffusers' normalization.py, attention.py, embeddings.py).
 *
 * Rows are items [B,S,hidden]; modulations [B,1,hidden].
 */
#ifndef ACCEL_MODELS_JOINT_TRANSFORMER_H
#define ACCEL_MODELS_JOINT_TRANSFORMER_H

#include "models/unet_blocks.h"

typedef enum accel__head_norm {
  ACCEL__HEADS_AS_THEY_ARE,
  ACCEL__HEADS_RMS, /* qk_norm "rms_norm" */
  ACCEL__HEADS_LAYER
} accel__head_norm;

typedef struct accel__joint {
  int64_t hidden, heads;
  accel__head_norm norm; /* of the heads of q and k */
  accel__tensor time;    /* [B,hidden], activated */
  accel__tensor angles;  /* [rows, half a head] that q and k are turned by; -1: they are not */
} accel__joint;

/* Rows that attend to each other: a fixed space of `rows` for each item. */
typedef struct accel__joint_space {
  accel__dim rows;
  int32_t space;
} accel__joint_space;
accel__joint_space accel__joint_space_of(accel__build *b, accel__dim rows, const char *name);

/* One stream in an attention, and the names of its layers below the attention's path. */
typedef struct accel__joint_stream {
  accel__tensor x;
  const char *q, *k, *v, *norm_q, *norm_k, *out; /* out NULL: the heads as they are */
} accel__joint_stream;
extern const accel__joint_stream accel__joint_picture, accel__joint_text; /* the usual names */
/* Attention of n streams, 1 or 2, to all of their rows, in the order given; x of each becomes its
 * answer. */
void accel__joint_attend(accel__build *b, const accel__joint *how, const accel__joint_space *space,
                         accel__joint_stream *stream, uint32_t n, const char *path);

/* The time [B], the pooled text [B,width] and, where the model is told it, the guidance [B] (-1: it
 * is not) by time_text_embed, activated as every modulation takes it. */
accel__tensor accel__joint_time(accel__build *b, int64_t hidden, accel__tensor timestep,
                                accel__tensor guidance, accel__tensor pooled);
/* `parts` modulations, of the time, by <path>.linear, into part[parts]. */
void accel__joint_modulations(accel__build *b, const accel__joint *how, uint32_t parts,
                              accel__tensor *part, const char *path);
/* Layer norm without weights of its own. */
accel__tensor accel__joint_norm(accel__build *b, accel__tensor x);
/* x (1 + scale) + shift */
accel__tensor accel__joint_shifted(accel__build *b, accel__tensor x, accel__tensor shift,
                                   accel__tensor scale);
/* x + gate * y */
accel__tensor accel__joint_gated(accel__build *b, accel__tensor x, accel__tensor gate,
                                 accel__tensor y);
/* x + gate * (net.2(gelu(net.0.proj(norm(x) shifted and scaled)))) below path; part: shift, scale and
 * gate. */
accel__tensor accel__joint_feed_forward(accel__build *b, accel__tensor x, const accel__tensor *part,
                                        const char *path);
/* proj_out(norm_out(x)), to `columns`. */
accel__tensor accel__joint_output(accel__build *b, const accel__joint *how, accel__tensor x,
                                  int64_t columns);
/* "name" [B,columns] of the pooled text, or [B] with columns 0. */
accel__tensor accel__joint_item(accel__build *b, const char *name, int64_t columns);
/* encoder_hidden_states [B,S,width] through context_embedder: [B,S,hidden]. */
accel__tensor accel__joint_context(accel__build *b, int64_t width, int64_t hidden);

#endif
