/* gte.c - GTE (transformers' GteModel and heads): post-norm layers with rotary positions and gated
 * feed-forward.  Checkpoints of the remote code ("model_type": "new") hold the same weights under
 * other names, q, k, v and gate, up fused, and say the frequencies otherwise: they are refused. */
#include "models/rotary_bert.h"

static void heads(accel__build *b, const accel__rotary_bert *c, accel__tensor x) {
  const accel__bert_config *base = &c->base;
  if (accel__is_class(b, "ForSequenceClassification")) {
    x = accel__bert_pooler(b, base, x, "pooler.dense");
    b->in_head = true;
    accel__head_sequence(b, x, "classifier");
    b->in_head = false;
  } else {
    accel__roberta_heads(b, base, x);
  }
}

/* As transformers stores the names, which are those of the hub's repositories, there behind "new.". */
static const accel__rename stored[] = {{"layers.", "encoder.layer."},
                                       {"self_attn.Wqkv", "attention.qkv_proj"},
                                       {"self_attn.o_proj", "attention.o_proj"},
                                       {"post_attention_layernorm", "attn_ln"},
                                       {"post_mlp_layernorm", "mlp_ln"},
                                       {"lm_head.layer_norm", "lm_head.norm"},
                                       {NULL, NULL}};

static accel_status build(const accel__model_request *request, const char *architecture,
                          accel__model *model) {
  accel__build b;
  accel__rotary_bert c = {.base = {.vocab = 250048,
                                   .hidden = 768,
                                   .layers = 12,
                                   .heads = 12,
                                   .inner = 3072,
                                   .positions = 8192,
                                   .pad_id = 1,
                                   .eps = 1e-12,
                                   .tied = true,
                                   .act = {.act = ACCEL_PLUGIN_ACT_GELU}},
                          .gated = true,
                          .qkv_bias = true,
                          .fc2_bias = true,
                          .gate = "gate_proj",
                          .up = "up_proj",
                          .down = "down_proj"};
  ACCEL_TRY(accel__build_begin(&b, request, architecture, model, "gte."));
  b.other_prefix = "new.";
  b.spelling[0] = stored;
  /* 0 is a value of the field, not its default */
  if (accel__json_get(b.config, "type_vocab_size") == NULL) c.base.types = 1;
  ACCEL_TRY(accel__rotary_bert_read(&b, &c, 160000.0));
  accel__tensor x = accel__rotary_bert_encoder(&b, &c);
  heads(&b, &c, x);
  return accel__build_end(&b, x);
}

static const char *const classes[] = {"GteModel", "GteForMaskedLM", "GteForSequenceClassification",
                                      "GteForTokenClassification", NULL};
const accel__architecture accel__model_gte = {
    .model_type = "gte", .classes = classes, .build = build};
