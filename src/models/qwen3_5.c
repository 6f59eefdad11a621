/* qwen3_5.c - the text of Qwen3.5 and of Qwen3.5-MoE: Qwen3-Next's layers with projections of their
 * own for each part, with an MLP or experts (transformers' Qwen3_5TextModel, Qwen3_5MoeTextModel and
 * their heads).  They are published within Qwen3_5ForConditionalGeneration, beside a tower for
 * pictures: prompts without pictures give the same numbers; pixel_values are no argument here.
 * Weights of the tower and of the next tokens' head (mtp.*) are left aside. */
#include "models/decoders.h"
#include "modeling/vision.h"

#define COMMON                                                                                   \
  .vocab = 248320, .heads = 16, .head_dim = 256, .positions = 32768, .eps = 1e-6,                \
  .theta = 10000.0, .partial = 0.25, .bos = -1, .eos = -1, .pad = -1, .gated = true,             \
  .gamma_offset = 1.0, .qk_norm = ACCEL__QK_NORM_HEADS,                                          \
  .delta = {.heads = 16, .v_heads = 32, .k_dim = 128, .v_dim = 128, .kernel = 4, .apart = true}, \
  .act = {.act = ACCEL_PLUGIN_ACT_SILU}

static const accel__decoder dense = {
    .hidden = 4096, .layers = 32, .kv_heads = 4, .inner = 12288, COMMON};
static const accel__decoder sparse = {
    .hidden = 2048,
    .layers = 40,
    .kv_heads = 2,
    .inner = 1, /* of no layer */
    .experts = {.n = 256, .per_token = 8, .inner = 512, .shared = 512, .normalise = true},
    COMMON};

static accel_status read_layers(accel__build *b, accel__decoder *c) {
  ACCEL_TRY(accel__decoder_read(b, c));
  ACCEL_TRY(accel__decoder_read_attention_bias(b, c));
  ACCEL_TRY(accel__decoder_read_delta(b, c));
  return accel__decoder_read_rope(b, c);
}

accel_status accel__qwen3_5_text_read(accel__build *b, accel__decoder *c) {
  *c = dense;
  return read_layers(b, c);
}

accel_status accel__qwen3_5_moe_text_read(accel__build *b, accel__decoder *c) {
  *c = sparse;
  ACCEL_TRY(read_layers(b, c));
  const accel__field fields[] = {
      ACCEL_FIELD_INT("num_experts", &c->experts.n, 1, 1 << 16),
      ACCEL_FIELD_INT("num_experts_per_tok", &c->experts.per_token, 1, 1 << 16),
      ACCEL_FIELD_INT("moe_intermediate_size", &c->experts.inner, 1, ACCEL__MAX_WIDTH),
      ACCEL_FIELD_INT("shared_expert_intermediate_size", &c->experts.shared, 0, ACCEL__MAX_WIDTH),
  };
  ACCEL_TRY(accel__read_fields(b, fields, sizeof fields / sizeof *fields));
  if (c->experts.per_token > c->experts.n)
    return accel__refuse(b, "field 'num_experts_per_tok' (%lld) is more than the %lld experts",
                         (long long)c->experts.per_token, (long long)c->experts.n);
  for (int64_t i = 0; i < c->layers; i++) c->experts.sparse[i] = true;
  return ACCEL_OK;
}

/* Where a file has a text_config, its text: config.json of the whole model, whose labels and tied
 * embeddings are its own (of the classes for text alone: the text's). */
static accel_status read_model(accel__build *b, accel__decoder *c, bool whole, bool experts) {
  const bool inside = !accel__json_is_null_or_absent(b->file->root, "text_config");
  if (whole && !inside) return accel__refuse(b, "field 'text_config' is missing");
  if (inside) ACCEL_TRY(accel__enter_config(b, "text_config"));
  ACCEL_TRY(experts ? accel__qwen3_5_moe_text_read(b, c) : accel__qwen3_5_text_read(b, c));
  if (!whole) return ACCEL_OK;
  ACCEL_TRY(accel__enter_config(b, NULL));
  c->tied = false;
  ACCEL_TRY(accel__json_bool(b->file, b->config, "tie_word_embeddings", &c->tied));
  return accel__read_labels(b);
}

static accel_status build_model(const accel__model_request *request, const char *architecture,
                                accel__model *model, bool whole, bool experts) {
  static const accel__rename as_whole[] = {{"model.", "model.language_model."}, {NULL, NULL}},
                             as_base[] = {{"model.language_model.", "language_model."},
                                          {NULL, NULL}};
  accel__build b;
  ACCEL_TRY(accel__build_begin(&b, request, architecture, model,
                               whole ? "model.language_model." : "model."));
  accel__decoder *c = accel__arena_alloc(b.arena, sizeof *c);
  if (c == NULL) return ACCEL_ERROR_OUT_OF_MEMORY;
  b.spelling[0] = whole ? as_base : as_whole;
  ACCEL_TRY(read_model(&b, c, whole, experts));
  return accel__decoder_build(&b, c);
}

static accel_status build_text(const accel__model_request *request, const char *architecture,
                               accel__model *model) {
  return build_model(request, architecture, model, false, false);
}

static accel_status build_moe_text(const accel__model_request *request, const char *architecture,
                                   accel__model *model) {
  return build_model(request, architecture, model, false, true);
}

static accel_status build(const accel__model_request *request, const char *architecture,
                          accel__model *model) {
  return build_model(request, architecture, model, true, false);
}

static accel_status build_moe(const accel__model_request *request, const char *architecture,
                              accel__model *model) {
  return build_model(request, architecture, model, true, true);
}

static const char *const text_classes[] = {"Qwen3_5TextModel", "Qwen3_5ForCausalLM",
                                           "Qwen3_5TextForSequenceClassification", NULL};
const accel__architecture accel__model_qwen3_5_text = {
    .model_type = "qwen3_5_text", .classes = text_classes, .build = build_text};
static const char *const moe_text_classes[] = {"Qwen3_5MoeTextModel", "Qwen3_5MoeForCausalLM",
                                               NULL};
const accel__architecture accel__model_qwen3_5_moe_text = {
    .model_type = "qwen3_5_moe_text", .classes = moe_text_classes, .build = build_moe_text};
static const char *const classes[] = {"Qwen3_5Model", "Qwen3_5ForConditionalGeneration",
                                      "Qwen3_5ForSequenceClassification",
                                      "Qwen3_5ForTokenClassification", NULL};
const accel__architecture accel__model_qwen3_5 = {
    .model_type = "qwen3_5", .classes = classes, .build = build};
static const char *const moe_classes[] = {"Qwen3_5MoeModel", "Qwen3_5MoeForConditionalGeneration",
                                          NULL};
const accel__architecture accel__model_qwen3_5_moe = {
    .model_type = "qwen3_5_moe", .classes = moe_classes, .build = build_moe};
