/* mpt.c - MPT (transformers' MptModel and its heads): positions by ALiBi, no biases.  The class has
 * ALiBi with slopes up to 8, a feed-forward four times as wide and its activation fixed; whatever
 * else of the config speaks of them it leaves aside, and so does this file. */
#include "models/decoders.h"

accel_status accel__mpt_read(accel__build *b, accel__gpt *c) {
  const accel__json *attention = NULL;
  *c = (accel__gpt){.vocab = 50368,
                    .hidden = 2048,
                    .layers = 24,
                    .heads = 16,
                    .longest = 2048,
                    .eps = 1e-5,
                    .tied = true,
                    .norm_affine = true,
                    .no_norm_bias = true,
                    .qkv = ACCEL__QKV_ROWS,
                    .act = {.act = ACCEL_PLUGIN_ACT_GELU},
                    .token_embedding = "wte",
                    .last_norm = "norm_f",
                    .layer = "blocks",
                    .norm1 = "norm_1",
                    .norm2 = "norm_2",
                    .q = "attn.Wqkv",
                    .out = "attn.out_proj",
                    .up = "ffn.up_proj",
                    .down = "ffn.down_proj"};
  const accel__field fields[] = {
      ACCEL_FIELD_INT("vocab_size", &c->vocab, 1, ACCEL__MAX_VOCAB),
      /* transformers' other names of d_model, n_layers and n_heads */
      ACCEL_FIELD_INT("hidden_size", &c->hidden, 1, ACCEL__MAX_WIDTH),
      ACCEL_FIELD_INT("d_model", &c->hidden, 1, ACCEL__MAX_WIDTH),
      ACCEL_FIELD_INT("num_hidden_layers", &c->layers, 0, ACCEL__MAX_LAYERS),
      ACCEL_FIELD_INT("n_layers", &c->layers, 0, ACCEL__MAX_LAYERS),
      ACCEL_FIELD_INT("num_attention_heads", &c->heads, 1, ACCEL__MAX_WIDTH),
      ACCEL_FIELD_INT("n_heads", &c->heads, 1, ACCEL__MAX_WIDTH),
      ACCEL_FIELD_INT("max_seq_len", &c->longest, 1, ACCEL__MAX_POSITIONS),
      ACCEL_FIELD_NUMBER("layer_norm_epsilon", &c->eps),
      ACCEL_FIELD_BOOL("tie_word_embeddings", &c->tied),
  };
  ACCEL_TRY(accel__read_fields(b, fields, sizeof fields / sizeof *fields));
  ACCEL_TRY(accel__json_object(b->file, b->config, "attn_config", &attention));
  ACCEL_TRY(accel__json_number(b->file, attention, "clip_qkv", &c->clip));
  ACCEL_TRY(accel__json_number(b->file, attention, "softmax_scale", &c->scale));
  if (c->clip < 0) return accel__refuse(b, "field 'attn_config.clip_qkv' is negative");
  ACCEL_TRY(accel__read_token_ids(b, /*bos*/ -1, /*eos*/ -1, /*pad*/ -1));
  c->inner = 4 * c->hidden;
  return accel__gpt_use_alibi(b, c);
}

static accel_status build(const accel__model_request *request, const char *architecture,
                          accel__model *model) {
  return accel__gpt_model(request, architecture, model, "transformer.", accel__mpt_read);
}

/* the last as its first checkpoints name it */
static const char *const classes[] = {ACCEL_CAUSAL_CLASSES("Mpt"), "MPTForCausalLM", NULL};
const accel__architecture accel__model_mpt = {
    .model_type = "mpt", .classes = classes, .build = build};
