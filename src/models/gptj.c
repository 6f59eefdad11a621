/* gptj.c - GPT-J (transformers' GPTJModel and its heads): attention and feed-forward side by side,
 * pairs of neighbours turn. */
#include "models/decoders.h"

accel_status accel__gptj_read(accel__build *b, accel__gpt *c) {
  int64_t turning = 64;
  *c = (accel__gpt){.vocab = 50400,
                    .hidden = 4096,
                    .layers = 28,
                    .heads = 16,
                    .longest = 2048,
                    .position_rule = ACCEL__DEFAULT_ARANGE,
                    .eps = 1e-5,
                    .bias = true,
                    .no_qkv_bias = true,
                    .no_out_bias = true,
                    .norm_affine = true,
                    .rotary = true,
                    .parallel = true,
                    .act = {.act = ACCEL_PLUGIN_ACT_GELU_TANH},
                    .word_types = true,
                    .token_embedding = "wte",
                    .last_norm = "ln_f",
                    .layer = "h",
                    .norm1 = "ln_1",
                    .q = "attn.q_proj",
                    .k = "attn.k_proj",
                    .v = "attn.v_proj",
                    .out = "attn.out_proj",
                    .up = "mlp.fc_in",
                    .down = "mlp.fc_out",
                    .head_bias = "lm_head.bias"};
  const accel__field fields[] = {
      ACCEL_GPT_GPT2_FIELDS(*c, &c->longest),
      ACCEL_FIELD_INT("rotary_dim", &turning, 2, ACCEL__MAX_WIDTH),
  };
  ACCEL_TRY(accel__read_fields(b, fields, sizeof fields / sizeof *fields));
  ACCEL_TRY(accel__read_token_ids(b, /*bos*/ 50256, /*eos*/ 50256, /*pad*/ -1));
  ACCEL_TRY(accel__divides(b, "num_attention_heads", c->heads, "hidden_size", c->hidden));
  if (turning > c->hidden / c->heads)
    return accel__refuse(b, "field 'rotary_dim' (%lld) is more than a head's %lld columns",
                         (long long)turning, (long long)(c->hidden / c->heads));
  if (c->inner == 0) c->inner = 4 * c->hidden;
  c->kv_heads = c->heads;
  ACCEL_TRY(accel__rope_read(b, NULL, 10000.0, 1.0, turning, c->longest, "rope", &c->rope));
  c->rope.head_dim = c->hidden / c->heads;
  c->rope.style = ACCEL_PLUGIN_ROPE_INTERLEAVED;
  return ACCEL_OK;
}

static accel_status build(const accel__model_request *request, const char *architecture,
                          accel__model *model) {
  return accel__gpt_model(request, architecture, model, "transformer.", accel__gptj_read);
}

static const char *const classes[] = {"GPTJModel", "GPTJForCausalLM",
                                      "GPTJForSequenceClassification", "GPTJForQuestionAnswering",
                                      NULL};
const accel__architecture accel__model_gptj = {
    .model_type = "gptj", .classes = classes, .build = build};
