/* gpt_neo.c - GPT-Neo (transformers' GPTNeoModel and its heads): GPT-2 with local layers and scores
 * as they are. */
#include <string.h>

#include "models/decoders.h"

/* attention_types: pairs of a list of types and how often it is repeated. */
static accel_status read_types(accel__build *b, accel__gpt *c) {
  const accel__json *all = NULL;
  int64_t n = 0;
  ACCEL_TRY(accel__json_array(b->file, b->config, "attention_types", &all));
  for (int64_t i = 0; all == NULL && i < c->layers; i++) c->sliding[n++] = i % 2 != 0;
  if (all == NULL && c->layers != 24)
    return accel__refuse(b, "field 'attention_types' is missing, which is for 24 layers");
  ACCEL_JSON_EACH(pair, all) {
    const accel__json *types = cJSON_GetArrayItem(pair, 0), *times = cJSON_GetArrayItem(pair, 1);
    if (!cJSON_IsArray(types) || !cJSON_IsNumber(times))
      return accel__refuse(b, "field 'attention_types' must hold pairs of types and a number");
    for (int64_t k = 0; k < (int64_t)times->valuedouble && n <= c->layers; k++)
      ACCEL_JSON_EACH(type, types) {
        const bool local = cJSON_IsString(type) && strcmp(type->valuestring, "local") == 0;
        if (!local && (!cJSON_IsString(type) || strcmp(type->valuestring, "global") != 0))
          return accel__refuse(b, "field 'attention_types': known types are global and local");
        if (n < c->layers) c->sliding[n] = local;
        n++;
      }
  }
  if (n == c->layers) return ACCEL_OK;
  return accel__refuse(b, "field 'attention_types' is not for %lld layers", (long long)c->layers);
}

accel_status accel__gpt_neo_read(accel__build *b, accel__gpt *c) {
  *c = (accel__gpt){.vocab = 50257,
                    .hidden = 2048,
                    .layers = 24,
                    .heads = 16,
                    .positions = 2048,
                    .position_rule = ACCEL__DEFAULT_ARANGE,
                    .eps = 1e-5,
                    .tied = true,
                    .bias = true,
                    .no_qkv_bias = true,
                    .norm_affine = true,
                    .unscaled = true,
                    .window = 256,
                    .act = {.act = ACCEL_PLUGIN_ACT_GELU_TANH},
                    .word_types = true,
                    .token_embedding = "wte",
                    .position_embedding = "wpe",
                    .last_norm = "ln_f",
                    .layer = "h",
                    .norm1 = "ln_1",
                    .norm2 = "ln_2",
                    .q = "attn.attention.q_proj",
                    .k = "attn.attention.k_proj",
                    .v = "attn.attention.v_proj",
                    .out = "attn.attention.out_proj",
                    .up = "mlp.c_fc",
                    .down = "mlp.c_proj"};
  const accel__field fields[] = {
      ACCEL_FIELD_INT("vocab_size", &c->vocab, 1, ACCEL__MAX_VOCAB),
      ACCEL_FIELD_INT("hidden_size", &c->hidden, 1, ACCEL__MAX_WIDTH),
      /* transformers' other names of num_layers and num_heads */
      ACCEL_FIELD_INT("num_hidden_layers", &c->layers, 0, ACCEL__MAX_LAYERS),
      ACCEL_FIELD_INT("num_layers", &c->layers, 0, ACCEL__MAX_LAYERS),
      ACCEL_FIELD_INT("num_attention_heads", &c->heads, 1, ACCEL__MAX_WIDTH),
      ACCEL_FIELD_INT("num_heads", &c->heads, 1, ACCEL__MAX_WIDTH),
      ACCEL_FIELD_INT("intermediate_size", &c->inner, 1, ACCEL__MAX_WIDTH),
      ACCEL_FIELD_INT("max_position_embeddings", &c->positions, 1, ACCEL__MAX_POSITIONS),
      ACCEL_FIELD_INT("window_size", &c->window, 1, ACCEL__MAX_POSITIONS),
      ACCEL_FIELD_NUMBER("layer_norm_epsilon", &c->eps),
      ACCEL_FIELD_BOOL("tie_word_embeddings", &c->tied),
      ACCEL_FIELD_ACT("activation_function", &c->act),
  };
  ACCEL_TRY(accel__read_fields(b, fields, sizeof fields / sizeof *fields));
  ACCEL_TRY(accel__read_token_ids(b, /*bos*/ 50256, /*eos*/ 50256, /*pad*/ -1));
  if (c->inner == 0) c->inner = 4 * c->hidden;
  c->kv_heads = c->heads;
  return read_types(b, c);
}

static accel_status build(const accel__model_request *request, const char *architecture,
                          accel__model *model) {
  return accel__gpt_model(request, architecture, model, "transformer.", accel__gpt_neo_read);
}

static const char *const classes[] = {"GPTNeoModel",
                                      "GPTNeoForCausalLM",
                                      "GPTNeoForSequenceClassification",
                                      "GPTNeoForTokenClassification",
                                      "GPTNeoForQuestionAnswering",
                                      NULL};
const accel__architecture accel__model_gpt_neo = {
    .model_type = "gpt_neo", .classes = classes, .build = build};
