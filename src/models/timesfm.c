/* timesfm.c - TimesFM (transformers' TimesFmModelForPrediction): patches of a scaled series, causal
 * layers without positions of their own, and the horizon's mean and quantiles from the last patch.
 * Scaling and patches are the task's (tasks/forecast_timesfm.c): the program takes "patches" [B, N,
 * 2 * patch_length], values and then 1 where they are padding, "patch_mask" [B, N], 0 for patches of
 * padding alone, "freq" [B] and, with use_positional_embedding, "positions" [B, N]. */
#include <math.h>

#include "modeling/series.h"
#include "modeling/vision.h"

typedef struct timesfm_config {
  accel__forecasting *f;
  int64_t hidden, layers, heads, head_dim, inner, shortest, longest;
  double eps;
} timesfm_config;

static const accel__activation silu = {.act = ACCEL_PLUGIN_ACT_SILU},
                               relu = {.act = ACCEL_PLUGIN_ACT_RELU};
static const double LAYER_NORM_EPS = 1e-6; /* fixed in the class */

static accel_status read_config(accel__build *b, timesfm_config *c) {
  static const double tenths[] = {0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9};
  accel__forecasting *f = c->f;
  f->patch = f->stride = 32;
  f->context = 512;
  f->horizon = 128;
  f->frequencies = 3;
  f->tolerance = 1e-6;
  f->pad_value = 1123581321.0;
  f->quantiles = tenths;
  f->n_quantiles = 9;
  const accel__field fields[] = {
      ACCEL_FIELD_INT("patch_length", &f->patch, 1, ACCEL__MAX_WIDTH),
      ACCEL_FIELD_INT("context_length", &f->context, 1, ACCEL__MAX_POSITIONS),
      ACCEL_FIELD_INT("horizon_length", &f->horizon, 1, ACCEL__MAX_POSITIONS),
      ACCEL_FIELD_INT("freq_size", &f->frequencies, 1, 1 << 16),
      ACCEL_FIELD_INT("num_hidden_layers", &c->layers, 0, ACCEL__MAX_LAYERS),
      ACCEL_FIELD_INT("hidden_size", &c->hidden, 1, ACCEL__MAX_WIDTH),
      ACCEL_FIELD_INT("intermediate_size", &c->inner, 1, ACCEL__MAX_WIDTH),
      ACCEL_FIELD_INT("head_dim", &c->head_dim, 1, ACCEL__MAX_WIDTH),
      ACCEL_FIELD_INT("num_attention_heads", &c->heads, 1, 1 << 16),
      ACCEL_FIELD_INT("min_timescale", &c->shortest, 1, ACCEL__MAX_POSITIONS),
      ACCEL_FIELD_INT("max_timescale", &c->longest, 1, ACCEL__MAX_POSITIONS),
      ACCEL_FIELD_NUMBER("tolerance", &f->tolerance),
      ACCEL_FIELD_NUMBER("rms_norm_eps", &c->eps),
      ACCEL_FIELD_NUMBER("pad_val", &f->pad_value),
      ACCEL_FIELD_BOOL("use_positional_embedding", &f->positions),
  };
  ACCEL_TRY(accel__read_fields(b, fields, sizeof fields / sizeof *fields));
  ACCEL_TRY(accel__divides(b, "patch_length", f->patch, "context_length", f->context));
  b->model->hidden_size = c->hidden;
  return accel__forecast_quantiles(b, f);
}

/* [N, hidden]: sines, then cosines, of patch n over geometrically spaced periods. */
static accel__tensor wave_table(accel__build *b, const timesfm_config *c) {
  const int64_t rows = c->f->context / c->f->patch, half = c->hidden / 2;
  const double step =
      log((double)c->longest / (double)c->shortest) / (double)(half > 2 ? half - 1 : 1);
  float *values = accel__arena_array(b->arena, (size_t)(rows * c->hidden), sizeof *values);
  if (values == NULL)
    return accel__program_fail(b->p, ACCEL_ERROR_OUT_OF_MEMORY, "no memory for positions");
  for (int64_t r = 0; r < rows; r++)
    for (int64_t i = 0; i < half; i++) {
      const double angle = (double)r * (double)c->shortest * exp(-(double)i * step);
      values[r * c->hidden + i] = (float)sin(angle);
      values[r * c->hidden + half + i] = (float)cos(angle);
    }
  return accel__constant_f32(b->p, "positions", 2, (int64_t[]){rows, c->hidden}, values);
}

/* Embedded patches [B, N, hidden]. */
static accel__tensor embeddings(accel__build *b, const timesfm_config *c) {
  accel__program *p = b->p;
  accel__forecast_patches(b, c->f->patch);
  accel__dim n = accel__tensor_dim(p, b->series.patches, 1),
             hidden = accel__const_dim(p, c->hidden), one = accel__const_dim(p, 1);
  accel__forecast_mask(b, n);
  accel__tensor freq = accel__add_item(b, "freq", ACCEL_PLUGIN_I32, 1, &b->B, ACCEL__DEFAULT_ZEROS);
  accel__at(p, 0, "input_ff_layer");
  accel__tensor x = accel__residual_block(b, b->series.patches, c->inner, c->hidden, &silu,
                                          "input_ff_layer", "input_layer");
  if (c->f->positions) {
    accel__tensor at = accel__add_item(b, "positions", ACCEL_PLUGIN_I32, 2, (accel__dim[]){b->B, n},
                                       ACCEL__DEFAULT_REQUIRED);
    x = accel__binary(p, ACCEL_PLUGIN_BINARY_ADD, x, accel__gather(p, wave_table(b, c), at));
  }
  freq = accel__embedding(b, freq, c->f->frequencies, c->hidden, "freq_emb"); /* [B, hidden] */
  freq = accel__reshape(p, freq, 3, (accel__dim[]){b->B, one, hidden});
  return accel__binary(p, ACCEL_PLUGIN_BINARY_ADD, x, freq);
}

/* Each column of a head times softplus(scaling) / sqrt(head_dim) in base 2. */
static accel__tensor scale_queries(accel__build *b, const timesfm_config *c, accel__tensor q,
                                   uint32_t i) {
  accel__program *p = b->p;
  accel__dim rows = accel__tensor_dim(p, q, 0), all = accel__tensor_dim(p, q, 1);
  const char *name = accel__arena_printf(b->arena, "layers.%u.self_attn.scaling", i);
  if (name == NULL)
    return accel__program_fail(p, ACCEL_ERROR_OUT_OF_MEMORY, "no memory for a name");
  accel__tensor by = accel__weight_at(b, ACCEL_PLUGIN_USE_PLAIN, 1, &c->head_dim, name);
  by = accel__unary(p, ACCEL_PLUGIN_ACT_SOFTPLUS, by);
  by = accel__affine(b, by, 1.442695041 / sqrt((double)c->head_dim), 0.0);
  q = accel__reshape(
      p, q, 3,
      (accel__dim[]){rows, accel__const_dim(p, c->heads), accel__const_dim(p, c->head_dim)});
  q = accel__binary(p, ACCEL_PLUGIN_BINARY_MUL, q, by);
  return accel__reshape(p, q, 2, (accel__dim[]){rows, all});
}

static accel__tensor layer(accel__build *b, const timesfm_config *c, accel__tensor x, uint32_t i) {
  const char *path = "layers.%u.self_attn.%s";
  const int64_t width = c->heads * c->head_dim;
  accel__at(b->p, i + 1, "layers.%u", i);
  accel__tensor y = accel__rms_layer(b, x, c->eps, 0, "layers.%u.input_layernorm", i);
  accel__tensor q = accel__dense_layer(b, y, width, true, -1, NULL, path, i, "q_proj");
  accel__tensor k = accel__dense_layer(b, y, width, true, -1, NULL, path, i, "k_proj");
  accel__tensor v = accel__dense_layer(b, y, width, true, -1, NULL, path, i, "v_proj");
  accel__attention how = accel__attention_of(b, c->heads);
  how.causal = true;
  how.scale = 1.0;
  how.mask = b->series.mask;
  y = accel__attend(b, scale_queries(b, c, q, i), k, v, &how);
  x = accel__dense_layer(b, y, c->hidden, true, x, NULL, path, i, "o_proj");
  y = accel__norm_layer(b, x, -1, LAYER_NORM_EPS, true, "layers.%u.mlp.layer_norm", i);
  y = accel__dense_layer(b, y, c->inner, true, -1, &relu, "layers.%u.mlp.gate_proj", i);
  return accel__dense_layer(b, y, c->hidden, true, x, NULL, "layers.%u.mlp.down_proj", i);
}

static accel_status build(const accel__model_request *request, const char *architecture,
                          accel__model *model) {
  accel__build b;
  timesfm_config c = {.hidden = 1280,
                      .layers = 50,
                      .heads = 16,
                      .head_dim = 80,
                      .inner = 1280,
                      .shortest = 1,
                      .longest = 10000,
                      .eps = 1e-6};
  ACCEL_TRY(accel__build_begin(&b, request, architecture, model, "decoder."));
  ACCEL_TRY(accel__forecast_begin(&b, ACCEL__FORECAST_TIMESFM, &c.f));
  ACCEL_TRY(read_config(&b, &c));
  if (c.f->positions && c.hidden % 2 != 0)
    return accel__refuse(&b, "field 'hidden_size' (%lld) is odd, and positions need it even",
                         (long long)c.hidden);
  const int64_t answers = (int64_t)c.f->n_quantiles + 1;
  accel__tensor x = accel__items_to_rows(&b, embeddings(&b, &c), "patches");
  for (uint32_t i = 0; i < (uint32_t)c.layers; i++) x = layer(&b, &c, x, i);
  accel__at(b.p, (uint32_t)c.layers + 1, "head");
  x = accel__reduce_rows(b.p, ACCEL_PLUGIN_REDUCE_LAST, x, -1, b.space);
  b.in_head = true;
  x = accel__residual_block(&b, x, c.inner, c.f->horizon * answers, &silu, "horizon_ff_layer",
                            "input_layer");
  b.in_head = false;
  x = accel__reshape(
      b.p, x, 3,
      (accel__dim[]){b.B, accel__const_dim(b.p, c.f->horizon), accel__const_dim(b.p, answers)});
  accel__add_output(&b, "full_predictions", x, 0);
  return accel__build_end(&b, x);
}

static const char *const classes[] = {"TimesFmModelForPrediction", NULL};
const accel__architecture accel__model_timesfm = {
    .model_type = "timesfm", .classes = classes, .build = build};
