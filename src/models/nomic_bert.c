/* nomic_bert.c - NomicBERT: post-norm layers, rotary positions, gated MLP.  Two spellings of the
 * same model are read: transformers' NomicBertConfig with its tensor names, and the remote-code
 * config of nomic-ai's repositories (n_embd, n_inner, rotary_emb_fraction, qkv_proj_bias ...) with
 * a fused Wqkv and fc11, fc12, fc2.  The checkpoint decides which names are used. */
#include <stdio.h>
#include <string.h>

#include "models/rotary_bert.h"

/* As nomic-ai's code has the names, and as transformers stores them. */
static const accel__rename stored[] = {{"layers.", "encoder.layers."},
                                       {"embeddings.LayerNorm", "emb_ln"},
                                       {"self_attn.Wqkv", "attn.Wqkv"},
                                       {"self_attn.o_proj", "attn.out_proj"},
                                       {"up_proj", "fc11"},
                                       {"gate_proj", "fc12"},
                                       {"down_proj", "fc2"},
                                       {"post_attention_layernorm", "norm1"},
                                       {"post_mlp_layernorm", "norm2"},
                                       {NULL, NULL}};

/* Values of the remote config that would change the forward pass otherwise. */
static accel_status refuse_remote(accel__build *b) {
  bool prenorm = false, causal = false, parallel = false, rms = false, inverse = false,
       scaled = true;
  int64_t experts = 0;
  double scale_base = 0;
  const accel__field fields[] = {
      ACCEL_FIELD_BOOL("prenorm", &prenorm),
      ACCEL_FIELD_BOOL("causal", &causal),
      ACCEL_FIELD_BOOL("parallel_block", &parallel),
      ACCEL_FIELD_BOOL("use_rms_norm", &rms),
      ACCEL_FIELD_BOOL("scale_attn_by_inverse_layer_idx", &inverse),
      ACCEL_FIELD_BOOL("scale_attn_weights", &scaled),
      ACCEL_FIELD_INT("num_experts", &experts, 0, 1 << 16),
      ACCEL_FIELD_NUMBER("rotary_emb_scale_base", &scale_base),
  };
  ACCEL_TRY(accel__read_fields(b, fields, sizeof fields / sizeof *fields));
  if (prenorm) return accel__refuse(b, "field 'prenorm': true is not supported");
  if (causal)
    return accel__refuse(
        b, "field 'causal': true is not supported; this class is built as an encoder");
  if (parallel) return accel__refuse(b, "field 'parallel_block': true is not supported");
  if (rms) return accel__refuse(b, "field 'use_rms_norm': true is not supported");
  if (inverse)
    return accel__refuse(b, "field 'scale_attn_by_inverse_layer_idx': true is not supported");
  if (!scaled) return accel__refuse(b, "field 'scale_attn_weights': false is not supported");
  if (experts > 0)
    return accel__refuse(b,
                         "field 'num_experts': mixture-of-experts NomicBERT (v2) is not supported");
  if (scale_base != 0)
    return accel__refuse(b, "field 'rotary_emb_scale_base' (xPos) is not supported");
  return ACCEL_OK;
}

/* activation_function of the remote code: swiglu, geglu and glu are gated. */
static accel_status read_activation(accel__build *b, accel__rotary_bert *c) {
  const char *name = NULL;
  ACCEL_TRY(accel__json_string(b->file, b->config, "activation_function", &name));
  if (name == NULL) return ACCEL_OK;
  static const struct {
    const char *name;
    int act;
  } gates[] = {{"swiglu", ACCEL_PLUGIN_ACT_SILU},
               {"geglu", ACCEL_PLUGIN_ACT_GELU},
               {"glu", ACCEL_PLUGIN_ACT_SIGMOID}};
  for (size_t i = 0; i < sizeof gates / sizeof *gates; i++) {
    if (strcmp(gates[i].name, name) != 0) continue;
    c->base.act = (accel__activation){.act = gates[i].act};
    return ACCEL_OK;
  }
  c->gated = false;
  return accel__activation_of(b, "activation_function", name, &c->base.act);
}

/* The remote spelling; transformers' own fields are read after it and win. */
static accel_status read_remote(accel__build *b, accel__rotary_bert *c) {
  int64_t multiple = 1;
  const accel__field fields[] = {
      ACCEL_FIELD_INT("n_embd", &c->base.hidden, 1, ACCEL__MAX_WIDTH),
      ACCEL_FIELD_INT("n_layer", &c->base.layers, 0, ACCEL__MAX_LAYERS),
      ACCEL_FIELD_INT("n_head", &c->base.heads, 1, ACCEL__MAX_WIDTH),
      ACCEL_FIELD_INT("n_inner", &c->base.inner, 1, ACCEL__MAX_WIDTH),
      ACCEL_FIELD_INT("n_positions", &c->base.positions, 1, ACCEL__MAX_POSITIONS),
      ACCEL_FIELD_INT("vocab_size", &c->base.vocab, 1, ACCEL__MAX_VOCAB),
      ACCEL_FIELD_INT("pad_vocab_size_multiple", &multiple, 1, 1 << 16),
      ACCEL_FIELD_NUMBER("layer_norm_epsilon", &c->base.eps),
      ACCEL_FIELD_BOOL("qkv_proj_bias", &c->qkv_bias),
      ACCEL_FIELD_BOOL("mlp_fc1_bias", &c->fc1_bias),
      ACCEL_FIELD_BOOL("mlp_fc2_bias", &c->fc2_bias),
  };
  if (accel__json_get(b->config, "n_embd") == NULL) return ACCEL_OK;
  c->base.inner = 0;
  c->qkv_bias = c->fc1_bias = c->fc2_bias = true; /* GPT-2's config class stands behind it */
  c->base.eps = 1e-5;
  c->base.act = (accel__activation){.act = ACCEL_PLUGIN_ACT_GELU_TANH};
  ACCEL_TRY(accel__read_fields(b, fields, sizeof fields / sizeof *fields));
  if (c->base.inner == 0) c->base.inner = 4 * c->base.hidden;
  c->base.vocab = (c->base.vocab + multiple - 1) / multiple * multiple;
  ACCEL_TRY(read_activation(b, c));
  return refuse_remote(b);
}

static accel_status read_rope(accel__build *b, accel__rotary_bert *c) {
  const accel__json *params = NULL;
  double theta = 1000.0, fraction = 1.0, scaling = 0;
  bool interleaved = false;
  int64_t trained = c->base.positions;
  const accel__field fields[] = {
      ACCEL_FIELD_NUMBER("rope_theta", &theta),
      ACCEL_FIELD_NUMBER("rotary_emb_base", &theta),
      ACCEL_FIELD_NUMBER("rotary_emb_fraction", &fraction),
      ACCEL_FIELD_NUMBER("rotary_scaling_factor", &scaling),
      ACCEL_FIELD_BOOL("rotary_emb_interleaved", &interleaved),
      ACCEL_FIELD_INT("max_trained_positions", &trained, 1, ACCEL__MAX_POSITIONS),
  };
  ACCEL_TRY(accel__read_fields(b, fields, sizeof fields / sizeof *fields));
  ACCEL_TRY(accel__json_object(b->file, b->config, "rope_scaling", &params));
  ACCEL_TRY(accel__json_object(b->file, b->config, "rope_parameters", &params));
  if (fraction <= 0) {
    c->rope.inv_freq = -1;
    return ACCEL_OK;
  }
  ACCEL_TRY(accel__rope_read(b, params, theta, fraction, c->head_dim, c->base.positions, "rope",
                             &c->rope));
  c->rope.style = interleaved ? ACCEL_PLUGIN_ROPE_INTERLEAVED : ACCEL_PLUGIN_ROPE_HALF;
  if (scaling != 0) c->trained = trained; /* frequencies change beyond them */
  if (c->trained > 0 && c->trained < b->model->max_positions) b->model->max_positions = c->trained;
  return ACCEL_OK;
}

static accel_status read_config(accel__build *b, accel__rotary_bert *c) {
  *c = (accel__rotary_bert){.base = {.vocab = 30528,
                                     .hidden = 768,
                                     .layers = 12,
                                     .heads = 12,
                                     .inner = 3072,
                                     .positions = 2048,
                                     .types = 2,
                                     .eps = 1e-12,
                                     .tied = true,
                                     .act = {.act = ACCEL_PLUGIN_ACT_SILU}},
                            .gated = true};
  ACCEL_TRY(read_remote(b, c));
  int64_t vocab = c->base.vocab;
  ACCEL_TRY(accel__bert_read(b, &c->base));
  if (accel__json_get(b->config, "n_embd") != NULL) c->base.vocab = vocab; /* rounded up */
  c->head_dim = c->base.hidden / c->base.heads;
  ACCEL_TRY(accel__json_int(b->file, b->config, "head_dim", 1, ACCEL__MAX_WIDTH, &c->head_dim));
  c->gate = "gate_proj";
  c->up = !c->gated && b->request->checkpoint != NULL && accel__has(b, "layers.0.mlp.fc1.weight")
              ? "fc1"
              : "up_proj";
  c->down = "down_proj";
  return read_rope(b, c);
}

static void heads(accel__build *b, const accel__rotary_bert *c, accel__tensor x) {
  accel__tensor pool = accel__is_class(b, "ForSequenceClassification")
                           ? accel__bert_pooler(b, &c->base, x, "pooler.dense")
                           : -1;
  b->in_head = true;
  if (b->is_base)
    accel__add_output(b, "last_hidden_state", x, 0);
  else if (accel__is_class(b, "ForMaskedLM"))
    accel__add_output(b, "logits", accel__bert_predictions(b, &c->base, x, "layer_norm"), 0);
  else if (pool >= 0)
    accel__head_sequence(b, pool, "classifier");
  else
    accel__head_tokens(b, x, "classifier");
  b->in_head = false;
}

static accel_status build(const accel__model_request *request, const char *architecture,
                          accel__model *model) {
  accel__build b;
  accel__rotary_bert c;
  ACCEL_TRY(accel__build_begin(&b, request, architecture, model, "nomic_bert."));
  b.other_prefix = "bert.";
  b.spelling[0] = stored;
  ACCEL_TRY(read_config(&b, &c));
  accel__tensor x = accel__rotary_bert_encoder(&b, &c);
  heads(&b, &c, x);
  return accel__build_end(&b, x);
}

static const char *const classes[] = {"NomicBertModel", "NomicBertForMaskedLM",
                                      "NomicBertForSequenceClassification",
                                      "NomicBertForTokenClassification", NULL};
const accel__architecture accel__model_nomic_bert = {
    .model_type = "nomic_bert", .classes = classes, .build = build};
