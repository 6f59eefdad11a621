/* rope.c - inverse frequencies of every rope type, computed once and carried by the program as a constant. */
#include "models/rope.h"

#include <math.h>
#include <string.h>

static const double TWO_PI = 6.283185307179586;

typedef struct rope_params {
  const char *type;
  double theta, partial, factor, attention_factor, beta_fast, beta_slow, mscale, mscale_all_dim, low_freq_factor,
      high_freq_factor;
  int64_t original; /* original_max_position_embeddings */
  bool truncate;
} rope_params;

static accel_status read_params(const accel__build *b, const accel__json *json, rope_params *p) {
  const accel__json_file *f = b->file;
  ACCEL_TRY(accel__json_string(f, json, "type", &p->type)); /* older spelling */
  ACCEL_TRY(accel__json_string(f, json, "rope_type", &p->type));
  ACCEL_TRY(accel__json_number(f, json, "rope_theta", &p->theta));
  ACCEL_TRY(accel__json_number(f, json, "partial_rotary_factor", &p->partial));
  ACCEL_TRY(accel__json_number(f, json, "factor", &p->factor));
  ACCEL_TRY(accel__json_number(f, json, "attention_factor", &p->attention_factor));
  ACCEL_TRY(accel__json_number(f, json, "beta_fast", &p->beta_fast));
  ACCEL_TRY(accel__json_number(f, json, "beta_slow", &p->beta_slow));
  ACCEL_TRY(accel__json_number(f, json, "mscale", &p->mscale));
  ACCEL_TRY(accel__json_number(f, json, "mscale_all_dim", &p->mscale_all_dim));
  ACCEL_TRY(accel__json_number(f, json, "low_freq_factor", &p->low_freq_factor));
  ACCEL_TRY(accel__json_number(f, json, "high_freq_factor", &p->high_freq_factor));
  ACCEL_TRY(accel__json_int(f, json, "original_max_position_embeddings", 1, ACCEL__MAX_POSITIONS, &p->original));
  ACCEL_TRY(accel__json_int(f, b->config, "original_max_position_embeddings", 1, ACCEL__MAX_POSITIONS, &p->original));
  return accel__json_bool(f, json, "truncate", &p->truncate);
}

static double yarn_scale(double factor, double mscale) { return factor <= 1.0 ? 1.0 : 0.1 * mscale * log(factor) + 1.0; }

/* The dim whose wave turns `rotations` times within the original length. */
static double correction_dim(const rope_params *p, double rotations, double dims) {
  return dims * log((double)p->original / (rotations * TWO_PI)) / (2.0 * log(p->theta));
}

static void yarn(const rope_params *p, int64_t dims, int64_t max_positions, double *freq, double *attention_scale) {
  double factor = p->factor > 0 ? p->factor : (double)max_positions / (double)p->original;
  double low = correction_dim(p, p->beta_fast, (double)dims), high = correction_dim(p, p->beta_slow, (double)dims);
  if (p->truncate) {
    low = floor(low);
    high = ceil(high);
  }
  low = fmax(low, 0.0);
  high = fmin(high, (double)dims - 1.0);
  if (low == high) high += 0.001;
  for (int64_t i = 0; i < dims / 2; i++) {
    double ramp = fmin(fmax(((double)i - low) / (high - low), 0.0), 1.0); /* 0: keep the wave, 1: stretch it */
    freq[i] = freq[i] / factor * ramp + freq[i] * (1.0 - ramp);
  }
  *attention_scale = p->attention_factor;
  if (p->attention_factor != 0) return;
  *attention_scale = p->mscale != 0 && p->mscale_all_dim != 0
                         ? yarn_scale(factor, p->mscale) / yarn_scale(factor, p->mscale_all_dim)
                         : yarn_scale(factor, 1.0);
}

static void llama3(const rope_params *p, int64_t dims, double *freq) {
  double longest = (double)p->original / p->low_freq_factor, shortest = (double)p->original / p->high_freq_factor;
  for (int64_t i = 0; i < dims / 2; i++) {
    double wave = TWO_PI / freq[i];
    if (wave > longest) {
      freq[i] /= p->factor;
    } else if (wave >= shortest) {
      double smooth = ((double)p->original / wave - p->low_freq_factor) / (p->high_freq_factor - p->low_freq_factor);
      freq[i] = (1.0 - smooth) * freq[i] / p->factor + smooth * freq[i];
    }
  }
}

/* Frequencies of the type into freq[dims/2]. */
static accel_status compute(accel__build *b, const rope_params *p, int64_t dims, int64_t max_positions, double *freq,
                            accel__rope *out) {
  int64_t angles = dims / 2; /* proportional: only the first ones turn, counted against the whole head */
  bool proportional = strcmp(p->type, "proportional") == 0;
  if (proportional) angles = (int64_t)(p->partial * (double)out->head_dim / 2.0);
  for (int64_t i = 0; i < dims / 2; i++) freq[i] = i < angles ? pow(p->theta, -2.0 * (double)i / (double)dims) : 0.0;
  if (strcmp(p->type, "default") == 0) return ACCEL_OK;
  if (proportional || strcmp(p->type, "linear") == 0) {
    double factor = p->factor == 0 ? 1.0 : p->factor;
    for (int64_t i = 0; i < dims / 2; i++) freq[i] /= factor;
    return ACCEL_OK;
  }
  if (strcmp(p->type, "dynamic") == 0) {
    out->max_positions = max_positions;
    return ACCEL_OK;
  }
  if (strcmp(p->type, "yarn") == 0) {
    yarn(p, dims, max_positions, freq, &out->attention_scale);
    return ACCEL_OK;
  }
  if (strcmp(p->type, "llama3") == 0) {
    if (p->factor <= 0 || p->low_freq_factor <= 0 || p->high_freq_factor <= p->low_freq_factor) {
      return accel__refuse(b, "rope type 'llama3' needs factor, low_freq_factor and a larger high_freq_factor");
    }
    llama3(p, dims, freq);
    return ACCEL_OK;
  }
  return accel__refuse(b, "rope type '%s' is not supported; known: default, linear, dynamic, yarn, llama3, proportional",
                       p->type);
}

accel_status accel__rope_read(accel__build *b, const accel__json *params, double theta, double partial, int64_t head_dim,
                              int64_t max_positions, const char *name, accel__rope *out) {
  rope_params p = {.type = "default",
                   .theta = theta,
                   .partial = partial,
                   .beta_fast = 32,
                   .beta_slow = 1,
                   .original = max_positions,
                   .truncate = true};
  *out = (accel__rope){.head_dim = head_dim, .attention_scale = 1.0, .style = ACCEL_PLUGIN_ROPE_HALF, .inv_freq = -1};
  if (params != NULL) ACCEL_TRY(read_params(b, params, &p));
  if (!(p.theta > 0) || !(p.partial > 0 && p.partial <= 1) || p.factor < 0)
    return accel__refuse(b, "rope parameters: theta, partial_rotary_factor or factor is out of range");
  out->rot_dims = strcmp(p.type, "proportional") == 0 ? head_dim : (int64_t)((double)head_dim * p.partial);
  if (out->rot_dims < 2 || out->rot_dims % 2 != 0)
    return accel__refuse(b, "rope over %lld of %lld columns a head: needs an even number", (long long)out->rot_dims,
                         (long long)head_dim);
  double *freq = accel__arena_array(b->arena, (size_t)out->rot_dims, sizeof *freq);
  float *values = accel__arena_array(b->arena, (size_t)out->rot_dims, sizeof *values);
  if (freq == NULL || values == NULL) return ACCEL_ERROR_OUT_OF_MEMORY;
  ACCEL_TRY(compute(b, &p, out->rot_dims, max_positions, freq, out));
  int64_t n = out->rot_dims / 2;
  for (int64_t i = 0; i < n; i++) values[i] = (float)freq[i];
  out->inv_freq = accel__constant_f32(b->p, name, 1, &n, values);
  return ACCEL_OK;
}

accel_status accel__rope_config(accel__build *b, const char *layer_type, double theta, double partial, int64_t head_dim,
                                int64_t max_positions, const char *name, accel__rope *out) {
  const accel__json *params = NULL, *own = NULL;
  ACCEL_TRY(accel__json_object(b->file, b->config, "rope_scaling", &params));
  if (params == NULL || params->child == NULL) ACCEL_TRY(accel__json_object(b->file, b->config, "rope_parameters", &params));
  if (layer_type != NULL) ACCEL_TRY(accel__json_object(b->file, params, layer_type, &own));
  ACCEL_TRY(accel__json_number(b->file, b->config, "rope_theta", &theta));
  if (partial != 0) ACCEL_TRY(accel__json_number(b->file, b->config, "partial_rotary_factor", &partial));
  return accel__rope_read(b, own != NULL ? own : params, theta, partial == 0 ? 1.0 : partial, head_dim, max_positions, name,
                          out);
}

accel__tensor accel__rope_rows(accel__build *b, accel__tensor x, const accel__rope *rope) {
  accel__attr attr[] = {ACCEL_I(HEAD_DIM, rope->head_dim), ACCEL_I(ROPE_STYLE, rope->style),
                        ACCEL_I(ROT_DIMS, rope->rot_dims), ACCEL_F(MSCALE, rope->attention_scale)};
  return accel__node(b->p, ACCEL_PLUGIN_OP_ROPE, (accel__tensor[]){x, b->position_ids, rope->inv_freq}, 3, attr, 4, NULL, 1);
}
