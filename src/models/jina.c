/* jina.c - jina-embeddings-v3 (transformers' JinaEmbeddingsV3Model and heads): XLM-RoBERTa's
 * embeddings without a table of positions, post-norm layers with rotary ones, RoBERTa's heads.  Its
 * adapters for single tasks are PEFT's (docs/adapters.md). */
#include "models/rotary_bert.h"

/* As transformers stores the names, which are those of the hub's repository. */
static const accel__rename stored[] = {{"layers.", "encoder.layers."},
                                       {"embeddings.LayerNorm", "emb_ln"},
                                       {"self_attn.Wqkv", "mixer.Wqkv"},
                                       {"self_attn.o_proj", "mixer.out_proj"},
                                       {"post_attention_layernorm", "norm1"},
                                       {"post_mlp_layernorm", "norm2"},
                                       {NULL, NULL}};

static accel_status build(const accel__model_request *request, const char *architecture,
                          accel__model *model) {
  accel__build b;
  accel__rotary_bert c = {.base = {.vocab = 250002,
                                   .hidden = 1024,
                                   .layers = 24,
                                   .heads = 16,
                                   .inner = 4096,
                                   .positions = 8194,
                                   .types = 1,
                                   .pad_id = 1,
                                   .eps = 1e-5,
                                   .tied = true,
                                   .act = {.act = ACCEL_PLUGIN_ACT_GELU}},
                          .qkv_bias = true,
                          .fc1_bias = true,
                          .fc2_bias = true,
                          .up = "fc1",
                          .down = "fc2"};
  ACCEL_TRY(accel__build_begin(&b, request, architecture, model, "roberta."));
  b.spelling[0] = stored;
  ACCEL_TRY(accel__rotary_bert_read(&b, &c, 20000.0));
  accel__tensor x = accel__rotary_bert_encoder(&b, &c);
  accel__roberta_heads(&b, &c.base, x);
  return accel__build_end(&b, x);
}

static const char *const classes[] = {ACCEL_ENCODER_CLASSES("JinaEmbeddingsV3"), NULL};
const accel__architecture accel__model_jina_embeddings_v3 = {
    .model_type = "jina_embeddings_v3", .classes = classes, .build = build};
