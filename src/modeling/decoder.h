/* decoder.h - the decoder that LLaMA and its relatives share: RMS norms, rotary positions, grouped
 * key heads, gated MLPs or experts, each family with its own options. */
#ifndef ACCEL_MODELING_DECODER_H
#define ACCEL_MODELING_DECODER_H

#include "modeling/causal.h"
#include "modeling/rope.h"

/* Experts in place of the MLP (moe.c). */
typedef struct accel__experts {
  int64_t n, per_token, inner; /* n 0: no experts */
  bool normalise;              /* weights of the chosen ones are divided by their sum */
  /* width of the expert that every token goes through, behind a gate of its own; 0 none */
  int64_t shared;
  bool sparse[ACCEL__MAX_LAYERS];
} accel__experts;

/* The defaults of a family's config class, then what config.json says. */
typedef struct accel__decoder {
  int64_t vocab, hidden, layers, heads, kv_heads, head_dim, inner,
      positions; /* kv_heads, head_dim 0: as heads, hidden/heads */
  /* partial: share of a head that turns, where the family reads it; 0: all of it */
  double eps, theta, partial;
  int64_t bos, eos, pad; /* -1 none */
  bool tied, qkv_bias, o_bias, mlp_bias;
  bool fused;          /* qkv_proj and gate_up_proj */
  bool qk_norm;        /* RMS norm of each head of q and k before they turn */
  bool sandwich;       /* norms behind attention and MLP, too */
  bool bidirectional;  /* no causal mask */
  bool mrope;          /* position_ids have three parts (M-RoPE); rope[0] has its sections */
  bool qa_transformer; /* ForQuestionAnswering calls its base model "transformer" */
  /* 0: none; score_scale 0: 1/sqrt(head_dim) */
  double gamma_offset, embed_scale, score_scale, softcap, logit_softcap;
  const char *act_key; /* NULL: "hidden_act" */
  accel__activation act;
  int64_t window;                  /* tokens that a sliding layer sees; 0: none slides */
  bool sliding[ACCEL__MAX_LAYERS]; /* layers with the window */
  bool two_ropes;                  /* sliding layers have their own */
  accel__rope rope[2];             /* of full layers, of sliding ones */
  accel__experts experts;
} accel__decoder;

/* A family's model (prefix "model."): read sets *c to the defaults of its config class, then takes
 * what config.json says. */
accel_status accel__decoder_model(const accel__model_request *request, const char *architecture,
                                  accel__model *model,
                                  accel_status (*read)(accel__build *b, accel__decoder *c));
/* The fields all of these classes have; those of the family are read behind it.  Leaves ropes and
 * sliding layers alone. */
accel_status accel__decoder_read(accel__build *b, accel__decoder *c);
/* sliding_window, null for none: every layer slides. */
accel_status accel__decoder_read_window(accel__build *b, accel__decoder *c);
/* use_sliding_window and sliding_window: *slides, and the window where it is used. */
accel_status accel__decoder_read_switched_window(accel__build *b, accel__decoder *c);
/* The same; the layers from max_window_layers on slide (`from` when absent), or those that
 * layer_types says (Qwen2, Qwen3).
 */
accel_status accel__decoder_read_upper_window(accel__build *b, accel__decoder *c, int64_t from);
/* layer_types over what sliding[] holds.  Nothing slides while window is 0. */
accel_status accel__decoder_read_layer_types(accel__build *b, accel__decoder *c);
/* rope_parameters or rope_scaling, rope_theta, partial_rotary_factor into rope[0]. */
accel_status accel__decoder_read_rope(accel__build *b, accel__decoder *c);
/* num_experts (or num_local_experts), num_experts_per_tok, norm_topk_prob, moe_intermediate_size,
 * decoder_sparse_step, mlp_only_layers. */
accel_status accel__decoder_read_experts(accel__build *b, accel__decoder *c);
/* Inputs, layers, heads, entries. */
accel_status accel__decoder_build(accel__build *b, const accel__decoder *c);

/* Router and experts of a layer, and the shared expert: [T, hidden] -> [T, hidden] (moe.c). */
accel__tensor accel__experts_layer(accel__build *b, const accel__decoder *c, accel__tensor x,
                                   uint32_t layer);

#endif
