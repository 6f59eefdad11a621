/* decoder.h - the decoder that LLaMA and its relatives share: rotary positions, grouped key heads,
 * gated MLPs or experts, each family with its own norms and options. */
#ifndef ACCEL_MODELING_DECODER_H
#define ACCEL_MODELING_DECODER_H

#include "modeling/causal.h"
#include "modeling/rope.h"

/* What the norms of a family are; eps of the decoder belongs to all of them. */
typedef enum accel__norm_style {
  ACCEL__NORM_RMS,          /* root mean square, times weight + gamma_offset */
  ACCEL__NORM_LAYER,        /* layer norm with weight and bias */
  ACCEL__NORM_LAYER_SCALED, /* layer norm with a weight alone (Cohere) */
  ACCEL__NORM_LAYER_BARE    /* layer norm with neither (OLMo) */
} accel__norm_style;

/* Which norm q and k go through before they turn; it is of the same kind as those of the layers. */
typedef enum accel__qk_norm {
  ACCEL__QK_NORM_NONE,
  ACCEL__QK_NORM_HEADS,  /* of each head; one weight [head_dim] for all of them */
  ACCEL__QK_NORM_APART,  /* of each head; q_norm.weight [heads, head_dim] (Cohere) */
  ACCEL__QK_NORM_LISTED, /* of each head; q_layernorm.norms.N.weight [head_dim] (StableLM) */
  ACCEL__QK_NORM_WHOLE   /* of all heads together, [heads * head_dim] (OLMo 2) */
} accel__qk_norm;

/* Names of a layer's norms; NULL: there is none at this place. */
typedef struct accel__layer_norms {
  const char *attention, *behind_attention, *mlp, *behind_mlp;
} accel__layer_norms;
/* input_layernorm and post_attention_layernorm before attention and MLP, as LLaMA has them. */
extern const accel__layer_norms accel__norms_before;
/* Norms before and behind, as Gemma 2 has and names them. */
extern const accel__layer_norms accel__norms_around;
/* post_attention_layernorm and post_feedforward_layernorm behind attention and MLP (OLMo 2). */
extern const accel__layer_norms accel__norms_behind;

/* Experts in place of the MLP (moe.c). */
typedef struct accel__experts {
  int64_t n, per_token, inner; /* n 0: no experts */
  bool normalise;              /* weights of the chosen ones are divided by their sum */
  bool softmax_chosen;         /* softmax over the chosen scores, not over all of them */
  /* Names in a layer, "mlp" and "router"; NULL: as Mixtral or Qwen, whichever the checkpoint has. */
  const char *block, *router;
  bool biases; /* of router and experts (gpt-oss) */
  bool
      crosswise; /* matrices are stored [n, columns, rows], rows of gate and up in turn (gpt-oss) */
  /* stored [n, columns, rows] where the shape says so, rows of gate before those of up (Qwen3-VL) */
  bool maybe_crosswise;
  double limit; /* gate and up are clamped to it; 0 not */
  /* width of the expert that every token goes through, behind a gate of its own; 0 none */
  int64_t shared;
  /* the same without a gate, in shared_mlp beside the block, gate and up in one (Granite) */
  bool shared_beside;
  bool sparse[ACCEL__MAX_LAYERS];
} accel__experts;

/* Linear attention by the gated delta rule in place of attention (gated_delta.c). */
typedef struct accel__delta {
  int64_t heads, v_heads, k_dim, v_dim; /* of q and k, of v; columns of a head of each */
  int64_t kernel;                       /* rows of the convolution over q, k and v */
  /* in_proj_qkv, in_proj_z, in_proj_b and in_proj_a; else in_proj_qkvz and in_proj_ba, in which the
   * parts of each head of q and k lie together */
  bool apart;
  bool on[ACCEL__MAX_LAYERS]; /* layers that have it */
} accel__delta;

/* The defaults of a family's config class, then what config.json says. */
typedef struct accel__decoder {
  int64_t vocab, hidden, layers, heads, kv_heads, head_dim, inner,
      positions; /* kv_heads, head_dim 0: as heads, hidden/heads */
  /* partial: share of a head that turns, where the family reads it; 0: all of it */
  double eps, theta, partial;
  int64_t bos, eos, pad; /* -1 none */
  bool tied, qkv_bias, o_bias, mlp_bias;
  bool fused;          /* qkv_proj and gate_up_proj */
  bool fused_mlp;      /* gate_up_proj alone (GLM) */
  bool even_heads;     /* head_dim is hidden / heads, whatever the config says */
  bool gated;          /* q_proj has a gate behind each head: what comes out is times its sigmoid */
  bool parallel;       /* the MLP reads what attention reads, and both are added (Cohere) */
  bool bidirectional;  /* no causal mask */
  bool mrope;          /* position_ids have three parts (M-RoPE); rope[0] has its sections */
  bool qa_transformer; /* ForQuestionAnswering calls its base model "transformer" */
  accel__norm_style norm;
  accel__qk_norm qk_norm;
  const accel__layer_norms *norms; /* NULL: accel__norms_before */
  /* 0: none; score_scale 0: 1/sqrt(head_dim).  embed_scale: factor on the
   * table's rows; input_scale: on all rows that enter the layers, those of pictures, too;
   * residual_scale: on what attention and MLP add; clip: q, k and v are clamped to it. */
  double gamma_offset, embed_scale, input_scale, residual_scale, score_scale, softcap,
      logit_softcap, logit_scale, clip;
  /* rope_parameters when config.json has none, JSON; NULL: the default type */
  const char *rope_otherwise;
  bool scales_queries; /* by llama_4_scaling_beta of the rope (Ministral 3) */
  const char *act_key; /* NULL: "hidden_act" */
  const char *eps_key; /* NULL: "rms_norm_eps" */
  accel__activation act;
  int64_t window;                  /* tokens that a sliding layer sees; 0: none slides */
  bool sliding[ACCEL__MAX_LAYERS]; /* layers with the window */
  bool sinks; /* self_attn.sinks [heads]: a score of no key in each softmax (gpt-oss) */
  bool no_rope[ACCEL__MAX_LAYERS]; /* layers whose q and k do not turn */
  bool two_ropes;                  /* sliding layers have their own */
  accel__rope rope[2];             /* of full layers, of sliding ones */
  accel__experts experts;
  accel__delta delta;
} accel__decoder;

/* A family's model (prefix "model."): read sets *c to the defaults of its config class, then takes
 * what config.json says. */
accel_status accel__decoder_model(const accel__model_request *request, const char *architecture,
                                  accel__model *model,
                                  accel_status (*read)(accel__build *b, accel__decoder *c));
/* The fields all of these classes have; those of the family are read behind it.  Leaves ropes and
 * sliding layers alone. */
accel_status accel__decoder_read(accel__build *b, accel__decoder *c);
/* attention_bias: of q, k and v, and of what comes out. */
accel_status accel__decoder_read_attention_bias(accel__build *b, accel__decoder *c);
/* sliding_window, null for none: every layer slides. */
accel_status accel__decoder_read_window(accel__build *b, accel__decoder *c);
/* use_sliding_window and sliding_window: *slides, and the window where it is used. */
accel_status accel__decoder_read_switched_window(accel__build *b, accel__decoder *c);
/* The same; the layers from max_window_layers on slide (`from` when absent), or those that
 * layer_types says (Qwen2, Qwen3).
 */
accel_status accel__decoder_read_upper_window(accel__build *b, accel__decoder *c, int64_t from);
/* layer_types, where there is one, into is_other[layers]: entries are full_attention or `other`. */
accel_status accel__decoder_read_types(accel__build *b, const accel__decoder *c, const char *other,
                                       bool *is_other);
/* layer_types over what sliding[] holds.  Nothing slides while window is 0. */
accel_status accel__decoder_read_layer_types(accel__build *b, accel__decoder *c);
/* rope_parameters or rope_scaling, rope_theta, partial_rotary_factor into rope[0]. */
accel_status accel__decoder_read_rope(accel__build *b, accel__decoder *c);
/* rope_parameters with an object for each layer type (new); or rope_theta and rope_scaling of full
 * layers and, by `sliding_key` (NULL: there is none), theta of sliding ones (old); into rope[0] and
 * rope[1].  full, sliding: theta of either when absent. */
accel_status accel__decoder_read_two_ropes(accel__build *b, accel__decoder *c, double full,
                                           double sliding, const char *sliding_key);
/* num_experts (or num_local_experts), num_experts_per_tok, norm_topk_prob, moe_intermediate_size,
 * decoder_sparse_step, mlp_only_layers. */
accel_status accel__decoder_read_experts(accel__build *b, accel__decoder *c);
/* linear_num_key_heads, linear_num_value_heads, linear_key_head_dim, linear_value_head_dim,
 * linear_conv_kernel_dim, and the layers by layer_types or full_attention_interval. */
accel_status accel__decoder_read_delta(accel__build *b, accel__decoder *c);
/* Inputs and layers, to the rows behind the last norm [T, hidden]; adds the hidden states. */
accel__tensor accel__decoder_rows(accel__build *b, const accel__decoder *c);
/* Inputs, layers, heads, entries. */
accel_status accel__decoder_build(accel__build *b, const accel__decoder *c);

/* Router and experts of a layer, and the shared expert: [T, hidden] -> [T, hidden] (moe.c). */
accel__tensor accel__experts_layer(accel__build *b, const accel__decoder *c, accel__tensor x,
                                   uint32_t layer);
/* Linear attention of a layer, [T, hidden] -> [T, hidden], plus residual (-1: none)
 * (gated_delta.c). */
accel__tensor accel__delta_layer(accel__build *b, const accel__decoder *c, accel__tensor x,
                                 accel__tensor residual, uint32_t layer);

#endif
