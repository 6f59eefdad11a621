/* gpt_neox.c - GPT-NeoX and Pythia (transformers' GPTNeoXModel and its heads). */
#include "models/decoders.h"

/* rotary_emb_base and rotary_pct are the older spelling of rope_theta and partial_rotary_factor. */
static accel_status read_rope(accel__build *b, accel__gpt *c, int64_t positions) {
  double theta = 10000.0, share = 0.25;
  const accel__field fields[] = {ACCEL_FIELD_NUMBER("rotary_emb_base", &theta),
                                 ACCEL_FIELD_NUMBER("rotary_pct", &share)};
  ACCEL_TRY(accel__read_fields(b, fields, sizeof fields / sizeof *fields));
  ACCEL_TRY(accel__divides(b, "num_attention_heads", c->heads, "hidden_size", c->hidden));
  c->rotary = true;
  return accel__rope_config(b, NULL, theta, share, c->hidden / c->heads, positions, "rope",
                            &c->rope);
}

accel_status accel__gpt_neox_read(accel__build *b, accel__gpt *c) {
  int64_t positions = 2048;
  bool attention_bias = true;
  *c = (accel__gpt){.vocab = 50432,
                    .hidden = 6144,
                    .layers = 44,
                    .heads = 64,
                    .inner = 24576,
                    .position_rule = ACCEL__DEFAULT_ARANGE,
                    .eps = 1e-5,
                    .bias = true,
                    .norm_affine = true,
                    .parallel = true,
                    .qkv = ACCEL__QKV_HEADS,
                    .act = {.act = ACCEL_PLUGIN_ACT_GELU},
                    .token_embedding = "embed_in",
                    .last_norm = "final_layer_norm",
                    .layer = "layers",
                    .norm1 = "input_layernorm",
                    .norm2 = "post_attention_layernorm",
                    .q = "attention.query_key_value",
                    .out = "attention.dense",
                    .up = "mlp.dense_h_to_4h",
                    .down = "mlp.dense_4h_to_h"};
  const accel__field fields[] = {
      ACCEL_FIELD_INT("vocab_size", &c->vocab, 1, ACCEL__MAX_VOCAB),
      ACCEL_FIELD_INT("hidden_size", &c->hidden, 1, ACCEL__MAX_WIDTH),
      ACCEL_FIELD_INT("num_hidden_layers", &c->layers, 0, ACCEL__MAX_LAYERS),
      ACCEL_FIELD_INT("num_attention_heads", &c->heads, 1, ACCEL__MAX_WIDTH),
      ACCEL_FIELD_INT("intermediate_size", &c->inner, 1, ACCEL__MAX_WIDTH),
      ACCEL_FIELD_INT("max_position_embeddings", &positions, 1, ACCEL__MAX_POSITIONS),
      ACCEL_FIELD_NUMBER("layer_norm_eps", &c->eps),
      ACCEL_FIELD_BOOL("use_parallel_residual", &c->parallel),
      ACCEL_FIELD_BOOL("tie_word_embeddings", &c->tied),
      ACCEL_FIELD_BOOL("attention_bias", &attention_bias),
      ACCEL_FIELD_ACT("hidden_act", &c->act),
  };
  ACCEL_TRY(accel__read_fields(b, fields, sizeof fields / sizeof *fields));
  ACCEL_TRY(accel__read_token_ids(b, /*bos*/ 0, /*eos*/ 2, /*pad*/ -1));
  ACCEL_TRY(read_rope(b, c, positions));
  c->no_qkv_bias = c->no_out_bias = !attention_bias;
  c->kv_heads = c->heads;
  b->in_head = true;
  /* older checkpoints */
  if (accel__has(b, "embed_out.weight") && b->request->checkpoint != NULL) c->head = "embed_out";
  b->in_head = false;
  c->longest = positions;
  return ACCEL_OK;
}

static accel_status build(const accel__model_request *request, const char *architecture,
                          accel__model *model) {
  return accel__gpt_model(request, architecture, model, "gpt_neox.", accel__gpt_neox_read);
}

static const char *const classes[] = {ACCEL_CAUSAL_CLASSES("GPTNeoX"), NULL};
const accel__architecture accel__model_gpt_neox = {
    .model_type = "gpt_neox", .classes = classes, .build = build};
