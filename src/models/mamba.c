/* mamba.c - Mamba and Mamba2 (transformers' MambaModel, Mamba2Model and their generation heads): a
 * convolution over a few rows and a state-space recurrence in place of attention.  Sessions carry
 * both as vectors, so a token's cost does not grow.
 */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "modeling/causal.h"

typedef struct mamba {
  bool second; /* Mamba2 */
  int64_t vocab, hidden, layers, inner, state, kernel, rank, heads, head_dim, groups;
  double eps, expand, dt_min, dt_max;
  bool tied, bias, conv_bias;
  accel__activation act;
} mamba;

/* ---- config ---- */

/* "auto": hidden_size / 16, rounded up. */
static accel_status read_rank(accel__build *b, mamba *c) {
  const accel__json *field = accel__json_get(b->config, "time_step_rank");
  c->rank = (c->hidden + 15) / 16;
  if (field != NULL && cJSON_IsString(field) && strcmp(field->valuestring, "auto") == 0)
    return ACCEL_OK;
  return accel__json_int(b->file, b->config, "time_step_rank", 1, ACCEL__MAX_WIDTH, &c->rank);
}

/* A number, or {"__float__": "Infinity"} as transformers writes what JSON has no word for. */
static bool read_bound(const accel__json *item, double *out) {
  const accel__json *word = item != NULL ? accel__json_get(item, "__float__") : NULL;
  bool infinite =
      word != NULL && cJSON_IsString(word) && strcmp(word->valuestring, "Infinity") == 0;
  if (infinite || cJSON_IsNumber(item)) *out = infinite ? INFINITY : item->valuedouble;
  return infinite || cJSON_IsNumber(item);
}

static accel_status read_limits(accel__build *b, mamba *c) {
  const accel__json *limit = NULL;
  ACCEL_TRY(accel__json_array(b->file, b->config, "time_step_limit", &limit));
  if (limit == NULL) return ACCEL_OK;
  if (cJSON_GetArraySize(limit) != 2 || !read_bound(limit->child, &c->dt_min) ||
      !read_bound(limit->child->next, &c->dt_max))
    return accel__refuse(b, "field 'time_step_limit' must be two numbers");
  return ACCEL_OK;
}

static accel_status read_config(accel__build *b, mamba *c, int64_t bos, int64_t eos, int64_t pad) {
  const accel__field fields[] = {
      ACCEL_FIELD_INT("vocab_size", &c->vocab, 1, ACCEL__MAX_VOCAB),
      ACCEL_FIELD_INT("hidden_size", &c->hidden, 1, ACCEL__MAX_WIDTH),
      ACCEL_FIELD_INT("num_hidden_layers", &c->layers, 0, ACCEL__MAX_LAYERS),
      ACCEL_FIELD_INT("state_size", &c->state, 1, ACCEL__MAX_WIDTH),
      ACCEL_FIELD_INT("conv_kernel", &c->kernel, 1, 1024),
      /* Mamba2: this and the next two */
      ACCEL_FIELD_INT("num_heads", &c->heads, 1, ACCEL__MAX_WIDTH),
      ACCEL_FIELD_INT("head_dim", &c->head_dim, 1, ACCEL__MAX_WIDTH),
      ACCEL_FIELD_INT("n_groups", &c->groups, 1, ACCEL__MAX_WIDTH),
      ACCEL_FIELD_NUMBER("expand", &c->expand),
      ACCEL_FIELD_NUMBER("layer_norm_epsilon", &c->eps),
      ACCEL_FIELD_BOOL("use_bias", &c->bias),
      ACCEL_FIELD_BOOL("use_conv_bias", &c->conv_bias),
      ACCEL_FIELD_BOOL("tie_word_embeddings", &c->tied),
      ACCEL_FIELD_ACT("hidden_act", &c->act),
  };
  ACCEL_TRY(accel__read_fields(b, fields, sizeof fields / sizeof *fields));
  if (!(c->expand > 0 && c->expand * (double)c->hidden >= 1 &&
        c->expand * (double)c->hidden <= ACCEL__MAX_WIDTH))
    return accel__refuse(b, "field 'expand' is out of range");
  c->inner = (int64_t)(c->expand * (double)c->hidden);
  if (c->second) {
    if (c->heads * c->head_dim != c->inner)
      return accel__refuse(
          b, "fields 'num_heads' and 'head_dim' (%lld of %lld) are not hidden_size * expand (%lld)",
          (long long)c->heads, (long long)c->head_dim, (long long)c->inner);
    ACCEL_TRY(accel__divides(b, "n_groups", c->groups, "num_heads", c->heads));
    ACCEL_TRY(read_limits(b, c));
  } else {
    ACCEL_TRY(
        accel__json_int(b->file, b->config, "intermediate_size", 1, ACCEL__MAX_WIDTH, &c->inner));
    ACCEL_TRY(read_rank(b, c));
  }
  ACCEL_TRY(accel__read_token_ids(b, bos, eos, pad));
  b->model->hidden_size = c->hidden;
  return accel__read_labels(b);
}

/* ---- weights and states ---- */

/* The rates -exp(A_log): [inner, state], or [heads]. */
static accel__tensor rates(accel__build *b, const mamba *c, uint32_t i) {
  const int64_t dims[2] = {c->second ? c->heads : c->inner, c->state};
  return accel__decay_rates(b, c->second ? 1 : 2, dims, i, "mixer.A_log");
}

static accel__tensor plain(accel__build *b, int64_t n, uint32_t i, const char *name) {
  char full[80];
  snprintf(full, sizeof full, "layers.%u.mixer.%s", i, name);
  return accel__weight_at(b, ACCEL_PLUGIN_USE_PLAIN, 1, &n, full);
}

/* ---- the mixer ---- */

/* The gates are silu whatever hidden_act is. */
static accel__tensor convolution(accel__build *b, const mamba *c, accel__tensor x, uint32_t i) {
  return accel__causal_conv(b, x, c->kernel, c->conv_bias, &c->act, i, "mixer.conv1d");
}

static accel__tensor scan(accel__build *b, const mamba *c, const accel__tensor *in, uint32_t i) {
  accel__attr attr[6] = {ACCEL_I(VERSION, c->second ? 2 : 1), ACCEL_I(SPACE, b->space),
                         ACCEL_I(DT_SOFTPLUS, 1)};
  uint32_t n = 3;
  if (c->second) attr[n++] = ACCEL_I(GROUPS, c->groups);
  if (c->second && c->dt_min > 0) attr[n++] = ACCEL_F(DT_MIN, c->dt_min);
  if (c->second && isfinite(c->dt_max)) attr[n++] = ACCEL_F(DT_MAX, c->dt_max);
  int64_t heads = c->second ? c->heads : c->inner;
  accel__with_state(b->p, accel__recurrent_state(b, i, heads, c->inner / heads, c->state));
  return accel__node(b->p, ACCEL_PLUGIN_OP_SELECTIVE_SCAN, in, 8, attr, n, NULL, 1);
}

static accel__tensor first_mixer(accel__build *b, const mamba *c, accel__tensor x, uint32_t i) {
  accel__tensor u = accel__dense_rows(b, x, c->inner, c->bias, 0, 2, "layers.%u.mixer.in_proj", i);
  accel__tensor gate =
      accel__dense_rows(b, x, c->inner, c->bias, 1, 2, "layers.%u.mixer.in_proj", i);
  u = convolution(b, c, u, i);
  int64_t end = c->rank + c->state;
  accel__tensor all = accel__dense_layer(b, u, c->rank + 2 * c->state, false, -1, NULL,
                                         "layers.%u.mixer.x_proj", i);
  /* its bias belongs to the recurrence */
  accel__tensor dt = accel__dense_layer(b, accel__slice(b->p, all, 1, 0, c->rank), c->inner, false,
                                        -1, NULL, "layers.%u.mixer.dt_proj", i);
  accel__tensor in[8] = {u,
                         dt,
                         rates(b, c, i),
                         accel__slice(b->p, all, 1, c->rank, end),
                         accel__slice(b->p, all, 1, end, end + c->state),
                         plain(b, c->inner, i, "D"),
                         gate,
                         plain(b, c->inner, i, "dt_proj.bias")};
  return scan(b, c, in, i);
}

/* norm(y * silu(gate)), the norm by groups of columns. */
static accel__tensor gated_norm(accel__build *b, const mamba *c, accel__tensor y,
                                accel__tensor gate, uint32_t i) {
  y = accel__binary(b->p, ACCEL_PLUGIN_BINARY_MUL, y,
                    accel__unary(b->p, ACCEL_PLUGIN_ACT_SILU, gate));
  accel__attr attr[] = {ACCEL_I(NORM_KIND, ACCEL_PLUGIN_NORM_RMS), ACCEL_F(EPS, c->eps),
                        ACCEL_I(GROUPS, c->groups)};
  accel__tensor in[] = {y, plain(b, c->inner, i, "norm.weight")};
  return accel__node(b->p, ACCEL_PLUGIN_OP_NORM, in, 2, attr, 3, NULL, 1);
}

static accel__tensor second_mixer(accel__build *b, const mamba *c, accel__tensor x, uint32_t i) {
  int64_t side = c->groups * c->state, wide = c->inner + 2 * side, all = c->inner + wide + c->heads;
  const char *in_proj = "layers.%u.mixer.in_proj";
  accel__tensor gate = accel__dense_slice(b, x, c->inner, c->bias, 0, all, in_proj, i);
  accel__tensor u = accel__dense_slice(b, x, wide, c->bias, c->inner, all, in_proj, i);
  accel__tensor dt = accel__dense_slice(b, x, c->heads, c->bias, c->inner + wide, all, in_proj, i);
  u = convolution(b, c, u, i);
  accel__tensor in[8] = {accel__slice(b->p, u, 1, 0, c->inner),
                         dt,
                         rates(b, c, i),
                         accel__slice(b->p, u, 1, c->inner, c->inner + side),
                         accel__slice(b->p, u, 1, c->inner + side, wide),
                         plain(b, c->heads, i, "D"),
                         -1,
                         plain(b, c->heads, i, "dt_bias")};
  return gated_norm(b, c, scan(b, c, in, i), gate, i);
}

/* ---- model ---- */

/* the second is how the first checkpoints spelled it */
static const char *words_of(accel__build *b) {
  return b->request->checkpoint != NULL && accel__has(b, "embedding.weight") ? "embedding"
                                                                             : "embeddings";
}

static accel__tensor hidden(accel__build *b, const void *config) {
  const mamba *c = config;
  accel__at(b->p, 0, "embeddings");
  accel__tensor x = accel__embedding(b, b->input_ids, c->vocab, c->hidden, words_of(b));
  for (uint32_t i = 0; i < (uint32_t)c->layers; i++) {
    accel__at(b->p, i + 1, "layers.%u", i);
    accel__tensor y = accel__rms_layer(b, x, c->eps, 0, "layers.%u.norm", i);
    y = c->second ? second_mixer(b, c, y, i) : first_mixer(b, c, y, i);
    x = accel__dense_layer(b, y, c->hidden, c->bias, x, NULL, "layers.%u.mixer.out_proj", i);
    accel__add_hidden(b, x); /* these classes list what comes out of each layer, not what goes in */
  }
  accel__at(b->p, (uint32_t)c->layers + 1, "head");
  x = accel__rms_layer(b, x, c->eps, 0, "norm_f");
  accel__add_hidden(b, x);
  return x;
}

static accel_status finish(accel__build *b, const mamba *c) {
  accel__add_tokens(b, c->vocab);
  return accel__causal_build(b, &(accel__causal){.config = c,
                                                 .hidden = hidden,
                                                 .embeddings = words_of(b),
                                                 .head = "lm_head",
                                                 .vocab = c->vocab,
                                                 .tied = c->tied});
}

static accel_status build(const accel__model_request *request, const char *architecture,
                          accel__model *model) {
  accel__build b;
  mamba c = {.vocab = 50280,
             .hidden = 768,
             .layers = 32,
             .state = 16,
             .kernel = 4,
             .eps = 1e-5,
             .expand = 2,
             .tied = true,
             .conv_bias = true,
             .act = {.act = ACCEL_PLUGIN_ACT_SILU}};
  ACCEL_TRY(accel__build_begin(&b, request, architecture, model, "backbone."));
  ACCEL_TRY(read_config(&b, &c, 0, 0, 0));
  return finish(&b, &c);
}

static accel_status build_second(const accel__model_request *request, const char *architecture,
                                 accel__model *model) {
  accel__build b;
  mamba c = {.second = true,
             .vocab = 32768,
             .hidden = 4096,
             .layers = 64,
             .state = 128,
             .kernel = 4,
             .heads = 128,
             .head_dim = 64,
             .groups = 8,
             .eps = 1e-5,
             .expand = 2,
             .dt_max = INFINITY,
             .conv_bias = true,
             .act = {.act = ACCEL_PLUGIN_ACT_SILU}};
  ACCEL_TRY(accel__build_begin(&b, request, architecture, model, "backbone."));
  ACCEL_TRY(read_config(&b, &c, 0, 2, 1));
  return finish(&b, &c);
}

static const char *const classes[] = {"MambaModel", "MambaForCausalLM", NULL};
const accel__architecture accel__model_mamba = {
    .model_type = "mamba", .classes = classes, .build = build};
static const char *const second_classes[] = {"Mamba2Model", "Mamba2ForCausalLM", NULL};
const accel__architecture accel__model_mamba2 = {
    .model_type = "mamba2", .classes = second_classes, .build = build_second};
