/* granitemoe.c - Granite with experts, and with a shared one beside them (transformers'
 * GraniteMoeModel and GraniteMoeSharedModel, and their heads). */
#include "models/granite.h"

static const accel__decoder defaults = {.vocab = 32000,
                                        .hidden = 4096,
                                        .layers = 32,
                                        .heads = 32,
                                        .inner = 11008,
                                        .positions = 2048,
                                        .eps = 1e-6,
                                        .theta = 10000.0,
                                        .bos = 1,
                                        .eos = 2,
                                        .pad = -1,
                                        .experts = {.n = 8,
                                                    .per_token = 2,
                                                    .softmax_chosen = true,
                                                    .block = "block_sparse_moe",
                                                    .router = "router"},
                                        .act = {.act = ACCEL_PLUGIN_ACT_SILU}};

/* As checkpoints of transformers before 5 have it. */
static const accel__rename old_names[] = {
    {"experts.gate_up_proj", "input_linear.weight"},
    {"experts.down_proj", "output_linear.weight"},
    {"router.weight", "router.layer.weight"},
    {NULL, NULL},
};

/* c->experts.shared_beside: of the class that reads shared_intermediate_size. */
static accel_status read_rest(accel__build *b, accel__decoder *c) {
  accel__experts *e = &c->experts;
  ACCEL_TRY(accel__decoder_read(b, c));
  ACCEL_TRY(accel__granite_read_factors(b, c));
  ACCEL_TRY(accel__decoder_read_rope(b, c));
  ACCEL_TRY(accel__decoder_read_experts(b, c));
  if (e->shared_beside)
    ACCEL_TRY(accel__json_int(b->file, b->config, "shared_intermediate_size", 0, ACCEL__MAX_WIDTH,
                              &e->shared));
  e->inner = c->inner;
  e->normalise = false;
  for (int64_t i = 0; i < c->layers; i++) e->sparse[i] = true;
  b->spelling[0] = old_names;
  return ACCEL_OK;
}

accel_status accel__granitemoe_read(accel__build *b, accel__decoder *c) {
  *c = defaults;
  return read_rest(b, c);
}

accel_status accel__granitemoeshared_read(accel__build *b, accel__decoder *c) {
  *c = defaults;
  c->experts.shared_beside = true;
  return read_rest(b, c);
}

static accel_status build(const accel__model_request *request, const char *architecture,
                          accel__model *model) {
  return accel__decoder_model(request, architecture, model, accel__granitemoe_read);
}

static accel_status build_shared(const accel__model_request *request, const char *architecture,
                                 accel__model *model) {
  return accel__decoder_model(request, architecture, model, accel__granitemoeshared_read);
}

static const char *const classes[] = {"GraniteMoeModel", "GraniteMoeForCausalLM", NULL};
const accel__architecture accel__model_granitemoe = {
    .model_type = "granitemoe", .classes = classes, .build = build};
static const char *const shared_classes[] = {"GraniteMoeSharedModel", "GraniteMoeSharedForCausalLM",
                                             NULL};
const accel__architecture accel__model_granitemoeshared = {
    .model_type = "granitemoeshared", .classes = shared_classes, .build = build_shared};
