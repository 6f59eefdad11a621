/* falcon.c - Falcon (transformers' FalconModel and its heads), both decoder architectures;
 * positions by rope or ALiBi. */
#include <math.h>

#include "formats/bf16.h"
#include "models/decoders.h"

typedef struct falcon_switches {
  bool alibi, grouped, multi_query, parallel; /* grouped: new_decoder_architecture */
  /* num_ln_in_parallel_attn; 0 as the architecture wants it */
  int64_t norms;
} falcon_switches;

/* Which norms a layer has, and how the heads of its one projection lie. */
static accel_status arrange(accel__build *b, accel__gpt *c, const falcon_switches *s,
                            int64_t kv_heads) {
  bool two = s->norms == 2 || (s->norms == 0 && s->grouped);
  c->parallel = s->grouped || s->parallel;
  c->norm1 = "input_layernorm";
  c->norm2 = s->parallel ? NULL : "post_attention_layernorm";
  if (s->grouped && (!s->parallel || (s->norms != 0 && s->norms != 1 && s->norms != 2)))
    return accel__refuse(
        b, "field 'new_decoder_architecture': true goes with parallel_attn and one or two norms");
  if (!s->grouped && s->parallel && two)
    return accel__refuse(b,
                         "field 'num_ln_in_parallel_attn': 2 goes with new_decoder_architecture");
  if (s->grouped && two) {
    c->norm1 = "ln_attn";
    c->norm2 = "ln_mlp";
  }
  c->kv_heads = s->grouped || !s->multi_query ? kv_heads : 1;
  if (!s->grouped && !s->multi_query) c->kv_heads = c->heads;
  return ACCEL_OK;
}

/* transformers rounds the slopes to bfloat16; the bias is scaled as the scores are. */
static accel_status alibi(accel__build *b, accel__gpt *c) {
  float *slopes = accel__alibi_slopes(b, c->heads);
  if (slopes == NULL) return ACCEL_ERROR_OUT_OF_MEMORY;
  double scale = 1.0 / sqrt((double)(c->hidden / c->heads));
  for (int64_t i = 0; i < c->heads; i++)
    slopes[i] = (float)((double)accel_bf16_to_f32(accel_f32_to_bf16(slopes[i])) * scale);
  c->slopes = slopes;
  return ACCEL_OK;
}

accel_status accel__falcon_read(accel__build *b, accel__gpt *c) {
  falcon_switches s = {.multi_query = true, .parallel = true};
  int64_t positions = 2048, kv_heads = 0;
  *c = (accel__gpt){.vocab = 65024,
                    .hidden = 4544,
                    .layers = 32,
                    .heads = 71,
                    .position_rule = ACCEL__DEFAULT_ARANGE,
                    .act = {.act = ACCEL_PLUGIN_ACT_GELU},
                    ACCEL_GPT_BLOOM_PARTS};
  const accel__field fields[] = {
      ACCEL_GPT_BLOOM_FIELDS(*c),
      ACCEL_FIELD_INT("num_kv_heads", &kv_heads, 1, ACCEL__MAX_WIDTH),
      ACCEL_FIELD_INT("n_head_kv", &kv_heads, 1, ACCEL__MAX_WIDTH),
      ACCEL_FIELD_INT("ffn_hidden_size", &c->inner, 1, ACCEL__MAX_WIDTH),
      ACCEL_FIELD_INT("num_ln_in_parallel_attn", &s.norms, 1, 2),
      ACCEL_FIELD_INT("max_position_embeddings", &positions, 1, ACCEL__MAX_POSITIONS),
      ACCEL_FIELD_BOOL("alibi", &s.alibi),
      ACCEL_FIELD_BOOL("new_decoder_architecture", &s.grouped),
      ACCEL_FIELD_BOOL("multi_query", &s.multi_query),
      ACCEL_FIELD_BOOL("parallel_attn", &s.parallel),
      ACCEL_FIELD_BOOL("bias", &c->bias),
      ACCEL_FIELD_ACT("activation", &c->act),
  };
  ACCEL_TRY(accel__read_fields(b, fields, sizeof fields / sizeof *fields));
  ACCEL_TRY(accel__read_token_ids(b, /*bos*/ 11, /*eos*/ 11, /*pad*/ -1));
  ACCEL_TRY(accel__divides(b, "num_attention_heads", c->heads, "hidden_size", c->hidden));
  if (c->inner == 0) c->inner = 4 * c->hidden;
  ACCEL_TRY(arrange(b, c, &s, kv_heads == 0 ? c->heads : kv_heads));
  c->rotary = !s.alibi;
  if (s.alibi)
    ACCEL_TRY(alibi(b, c));
  else
    ACCEL_TRY(
        accel__rope_config(b, NULL, 10000.0, 0, c->hidden / c->heads, positions, "rope", &c->rope));
  if (!s.alibi) c->longest = positions;
  return ACCEL_OK;
}

static accel_status build(const accel__model_request *request, const char *architecture,
                          accel__model *model) {
  return accel__gpt_model(request, architecture, model, "transformer.", accel__falcon_read);
}

static const char *const classes[] = {ACCEL_CAUSAL_CLASSES("Falcon"), NULL};
const accel__architecture accel__model_falcon = {
    .model_type = "falcon", .classes = classes, .build = build};
