/* rope.c - inverse frequencies of every rope type, computed once and carried by the program as a
 * constant. */
#include "modeling/rope.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

static const double TWO_PI = 6.283185307179586;

typedef struct rope_params {
  const char *type;
  double theta, partial, factor, attention_factor, beta_fast, beta_slow, mscale, mscale_all_dim,
      low_freq_factor, high_freq_factor, query_beta;
  int64_t original; /* original_max_position_embeddings */
  bool truncate;
  const accel__json *shorter, *longer; /* longrope: short_factor, long_factor */
  const accel__json *sections;         /* mrope_section */
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
  ACCEL_TRY(accel__json_number(f, json, "llama_4_scaling_beta", &p->query_beta));
  ACCEL_TRY(accel__json_int(f, json, "original_max_position_embeddings", 1, ACCEL__MAX_POSITIONS,
                            &p->original));
  ACCEL_TRY(accel__json_int(f, b->config, "original_max_position_embeddings", 1,
                            ACCEL__MAX_POSITIONS, &p->original));
  ACCEL_TRY(accel__json_array(f, json, "short_factor", &p->shorter));
  ACCEL_TRY(accel__json_array(f, json, "long_factor", &p->longer));
  ACCEL_TRY(accel__json_array(f, json, "mrope_section", &p->sections));
  return accel__json_bool(f, json, "truncate", &p->truncate);
}

static double yarn_scale(double factor, double mscale) {
  return factor <= 1.0 ? 1.0 : 0.1 * mscale * log(factor) + 1.0;
}

/* The dim whose wave turns `rotations` times within the original length. */
static double correction_dim(const rope_params *p, double rotations, double dims) {
  return dims * log((double)p->original / (rotations * TWO_PI)) / (2.0 * log(p->theta));
}

static void yarn(const rope_params *p, int64_t dims, int64_t max_positions, double *freq,
                 double *attention_scale) {
  double factor = p->factor > 0 ? p->factor : (double)max_positions / (double)p->original;
  double low = correction_dim(p, p->beta_fast, (double)dims),
         high = correction_dim(p, p->beta_slow, (double)dims);
  if (p->truncate) {
    low = floor(low);
    high = ceil(high);
  }
  low = fmax(low, 0.0);
  high = fmin(high, (double)dims - 1.0);
  if (low == high) high += 0.001;
  for (int64_t i = 0; i < dims / 2; i++) {
    /* 0: keep the wave, 1: stretch it */
    double ramp = fmin(fmax(((double)i - low) / (high - low), 0.0), 1.0);
    freq[i] = freq[i] / factor * ramp + freq[i] * (1.0 - ramp);
  }
  *attention_scale = p->attention_factor;
  if (p->attention_factor != 0) return;
  *attention_scale = p->mscale != 0 && p->mscale_all_dim != 0
                         ? yarn_scale(factor, p->mscale) / yarn_scale(factor, p->mscale_all_dim)
                         : yarn_scale(factor, 1.0);
}

static void llama3(const rope_params *p, int64_t dims, double *freq) {
  double longest = (double)p->original / p->low_freq_factor,
         shortest = (double)p->original / p->high_freq_factor;
  for (int64_t i = 0; i < dims / 2; i++) {
    double wave = TWO_PI / freq[i];
    if (wave > longest) {
      freq[i] /= p->factor;
    } else if (wave >= shortest) {
      double smooth = ((double)p->original / wave - p->low_freq_factor) /
                      (p->high_freq_factor - p->low_freq_factor);
      freq[i] = (1.0 - smooth) * freq[i] / p->factor + smooth * freq[i];
    }
  }
}

/* ---- types that change with the length of the call: frequencies of each row ---- */

/* total_len [T] as numbers. */
static accel__tensor span_rows(accel__build *b) {
  if (b->total_len < 0) accel__add_total_len(b);
  accel__attr to_float = ACCEL_I(DTYPE, ACCEL_PLUGIN_F32);
  return accel__node(b->p, ACCEL_PLUGIN_OP_CAST, &b->total_len, 1, &to_float, 1, NULL, 1);
}

static accel__tensor affine(accel__build *b, accel__tensor x, double alpha, double beta) {
  accel__attr attr[] = {ACCEL_I(KIND, ACCEL_PLUGIN_UNARY_AFFINE), ACCEL_F(ALPHA, alpha),
                        ACCEL_F(BETA, beta)};
  return accel__node(b->p, ACCEL_PLUGIN_OP_UNARY, &x, 1, attr, 3, NULL, 1);
}

static accel__tensor clamp(accel__build *b, accel__tensor x, double low, double high) {
  accel__attr attr[] = {ACCEL_I(KIND, ACCEL_PLUGIN_UNARY_CLAMP), ACCEL_F(ALPHA, low),
                        ACCEL_F(BETA, high)};
  return accel__node(b->p, ACCEL_PLUGIN_OP_UNARY, &x, 1, attr, 3, NULL, 1);
}

/* NTK: theta grows by r^(dims/(dims-2)) where r = factor * length / max_positions - (factor - 1)
 * and length is at least max_positions; so frequency i becomes r^(-2i/(dims-2)) times what it
 * was. */
static accel_status dynamic(accel__build *b, const rope_params *p, int64_t max_positions,
                            accel__rope *out) {
  int64_t n = out->rot_dims / 2;
  if (n <= 1 || p->factor <= 0)
    return accel__refuse(b, "rope type 'dynamic' needs a factor and more than 2 rotated columns");
  float *power = accel__arena_array(b->arena, (size_t)n, sizeof *power);
  if (power == NULL) return ACCEL_ERROR_OUT_OF_MEMORY;
  for (int64_t i = 0; i < n; i++) power[i] = (float)(-(double)i / (double)(n - 1));
  out->power = accel__constant_f32(b->p, "rope.power", 1, &n, power);
  out->factor = p->factor;
  out->length = max_positions;
  return ACCEL_OK;
}

static accel__tensor dynamic_rows(accel__build *b, const accel__rope *r) {
  accel__tensor span = clamp(b, span_rows(b), (double)r->length, 1e9);
  accel__tensor ratio = affine(b, span, r->factor / (double)r->length, 1.0 - r->factor);
  /* [T,1] */
  ratio = accel__reshape(b->p, ratio, 2, (accel__dim[]){b->T, accel__const_dim(b->p, 1)});
  /* [T,n] */
  ratio = accel__binary(b->p, ACCEL_PLUGIN_BINARY_POW, ratio, r->power);
  return accel__binary(b->p, ACCEL_PLUGIN_BINARY_MUL, ratio, r->inv_freq);
}

static accel_status read_factors(accel__build *b, const accel__json *list, const char *field,
                                 int64_t n, const double *freq, float *out) {
  if (list == NULL || cJSON_GetArraySize(list) != n)
    return accel__refuse(b, "rope type 'longrope': '%s' must be a list of %lld numbers", field,
                         (long long)n);
  ACCEL_JSON_EACH(item, list) {
    if (!cJSON_IsNumber(item) || !(item->valuedouble > 0))
      return accel__refuse(b, "rope type 'longrope': '%s' holds what is no positive number", field);
    *out++ = (float)(*freq++ / item->valuedouble);
  }
  return ACCEL_OK;
}

/* Two sets of frequencies: the long one for calls beyond the original length. */
static accel_status longrope(accel__build *b, const rope_params *p, int64_t max_positions,
                             const double *freq, const char *name, accel__rope *out) {
  int64_t shape[2] = {2, out->rot_dims / 2};
  float *both = accel__arena_array(b->arena, (size_t)out->rot_dims, sizeof *both);
  if (both == NULL) return ACCEL_ERROR_OUT_OF_MEMORY;
  ACCEL_TRY(read_factors(b, p->shorter, "short_factor", shape[1], freq, both));
  ACCEL_TRY(read_factors(b, p->longer, "long_factor", shape[1], freq, both + shape[1]));
  double factor = p->factor > 0 ? p->factor : (double)max_positions / (double)p->original;
  out->attention_scale = p->attention_factor != 0 ? p->attention_factor
                         : factor <= 1.0          ? 1.0
                                         : sqrt(1.0 + log(factor) / log((double)p->original));
  out->inv_freq = accel__constant_f32(b->p, name, 2, shape, both);
  out->length = p->original;
  return ACCEL_OK;
}

static accel__tensor longrope_rows(accel__build *b, const accel__rope *r) {
  /* 1: longer */
  accel__tensor beyond = clamp(b, affine(b, span_rows(b), 1.0, -(double)r->length), 0.0, 1.0);
  accel__attr to_int = ACCEL_I(DTYPE, ACCEL_PLUGIN_I32);
  beyond = accel__node(b->p, ACCEL_PLUGIN_OP_CAST, &beyond, 1, &to_int, 1, NULL, 1);
  return accel__gather(b->p, r->inv_freq, beyond); /* [T,n] */
}

/* Frequencies of each row [T, rot_dims/2], made once for all layers and entries. */
static accel__tensor rows_of(accel__build *b, const accel__rope *r) {
  uint32_t i = 0;
  while (i < b->rope.n_by_length && b->rope.by_length[i].constant != r->inv_freq) i++;
  if (i < b->rope.n_by_length) return b->rope.by_length[i].rows;
  accel__tensor rows = r->power >= 0 ? dynamic_rows(b, r) : longrope_rows(b, r);
  if (b->rope.n_by_length < 2) {
    b->rope.by_length[b->rope.n_by_length].constant = r->inv_freq;
    b->rope.by_length[b->rope.n_by_length++].rows = rows;
  }
  return rows;
}

/* ---- reading ---- */

accel_status accel__rope_divide(const accel__build *b, const int64_t *section, uint32_t n,
                                accel__rope *rope) {
  int64_t sum = 0;
  for (uint32_t i = 0; i < n; i++) sum += rope->section[i] = section[i];
  rope->n_sections = n;
  if (sum == rope->rot_dims / 2) return ACCEL_OK;
  return accel__remedy(
      accel__refuse(
          b,
          "field 'mrope_section': its %u entries sum to %lld, but a head of %lld turns with %lld "
          "frequencies",
          n, (long long)sum, (long long)rope->head_dim, (long long)rope->rot_dims / 2),
      "the entries must sum to half of head_dim (hidden_size / num_attention_heads)");
}

accel_status accel__rope_interleave(const accel__build *b, const int64_t section[3],
                                    accel__rope *rope) {
  uint32_t n = 0;
  rope->section[0] = 0;
  for (int64_t i = 0; i < rope->rot_dims / 2; i++) {
    const uint32_t axis = i % 3 && i < 3 * section[i % 3] ? (uint32_t)(i % 3) : 0;
    while (n % 3 != axis && n + 1 < ACCEL__MAX_SECTIONS) rope->section[++n] = 0;
    if (n % 3 != axis)
      return accel__refuse(b, "field 'head_dim': %lld columns are too many for M-RoPE",
                           (long long)rope->head_dim);
    rope->section[n]++;
  }
  rope->n_sections = n + 1;
  return ACCEL_OK;
}

static accel_status read_sections(const accel__build *b, const accel__json *list,
                                  accel__rope *out) {
  int64_t section[ACCEL__MAX_SECTIONS] = {24, 20, 20};
  uint32_t n = 0;
  ACCEL_JSON_EACH(item, list) {
    if (n == ACCEL__MAX_SECTIONS || !cJSON_IsNumber(item) ||
        !(item->valuedouble >= 0 && item->valuedouble <= 1 << 20))
      return accel__refuse(
          b, "field 'mrope_section' must be a list of at most %d numbers of frequencies",
          ACCEL__MAX_SECTIONS);
    section[n++] = (int64_t)item->valuedouble;
  }
  if (!b->rope.interleaved) return list == NULL ? ACCEL_OK : accel__rope_divide(b, section, n, out);
  if (list != NULL && n != 3)
    return accel__refuse(b, "field 'mrope_section' has %u entries, expected 3", n);
  return accel__rope_interleave(b, section, out);
}

/* Changes freq[dims/2] as the type wants it, where that does not depend on the length. */
static accel_status compute(accel__build *b, const rope_params *p, int64_t dims,
                            int64_t max_positions, double *freq, accel__rope *out) {
  if (strcmp(p->type, "default") == 0 || strcmp(p->type, "mrope") == 0) return ACCEL_OK;
  if (strcmp(p->type, "proportional") == 0 || strcmp(p->type, "linear") == 0) {
    double factor = p->factor == 0 ? 1.0 : p->factor;
    for (int64_t i = 0; i < dims / 2; i++) freq[i] /= factor;
    return ACCEL_OK;
  }
  if (strcmp(p->type, "yarn") == 0) {
    yarn(p, dims, max_positions, freq, &out->attention_scale);
    return ACCEL_OK;
  }
  if (strcmp(p->type, "llama3") == 0) {
    if (p->factor <= 0 || p->low_freq_factor <= 0 || p->high_freq_factor <= p->low_freq_factor) {
      return accel__refuse(
          b, "rope type 'llama3' needs factor, low_freq_factor and a larger high_freq_factor");
    }
    llama3(p, dims, freq);
    return ACCEL_OK;
  }
  return accel__refuse(b,
                       "rope type '%s' is not supported; known: default, linear, dynamic, yarn, "
                       "longrope, llama3, proportional",
                       p->type);
}

accel_status accel__rope_read(accel__build *b, const accel__json *params, double theta,
                              double partial, int64_t head_dim, int64_t max_positions,
                              const char *name, accel__rope *out) {
  rope_params p = {.type = "default",
                   .theta = theta,
                   .partial = partial,
                   .beta_fast = 32,
                   .beta_slow = 1,
                   .original = max_positions,
                   .truncate = true};
  *out = (accel__rope){.head_dim = head_dim,
                       .attention_scale = 1.0,
                       .style = ACCEL_PLUGIN_ROPE_HALF,
                       .inv_freq = -1,
                       .power = -1};
  if (params != NULL) ACCEL_TRY(read_params(b, params, &p));
  if (b->rope.by_layer_type) {
    const accel__json *all = NULL;
    p.truncate = true;
    ACCEL_TRY(accel__json_object(b->file, b->config, "rope_parameters", &all));
    if (all != NULL) ACCEL_TRY(accel__json_bool(b->file, all, "truncate", &p.truncate));
  }
  if (!(p.theta > 0) || !(p.partial > 0 && p.partial <= 1) || p.factor < 0)
    return accel__refuse(b,
                         "rope parameters: theta, partial_rotary_factor or factor is out of range");
  /* only the first ones turn, counted against the whole head */
  bool proportional = strcmp(p.type, "proportional") == 0;
  out->rot_dims = proportional ? head_dim : (int64_t)((double)head_dim * p.partial);
  if (out->rot_dims < 2 || out->rot_dims % 2 != 0)
    return accel__refuse(b, "rope over %lld of %lld columns a head: needs an even number",
                         (long long)out->rot_dims, (long long)head_dim);
  out->query_beta = p.query_beta;
  out->query_length = p.original;
  ACCEL_TRY(read_sections(b, p.sections, out));
  int64_t n = out->rot_dims / 2,
          turning = proportional ? (int64_t)(p.partial * (double)head_dim / 2.0) : n;
  double *freq = accel__arena_array(b->arena, (size_t)n, sizeof *freq);
  float *values = accel__arena_array(b->arena, (size_t)n, sizeof *values);
  if (freq == NULL || values == NULL) return ACCEL_ERROR_OUT_OF_MEMORY;
  for (int64_t i = 0; i < n; i++)
    freq[i] = i < turning ? pow(p.theta, -(double)i / (double)n) : 0.0;
  if (strcmp(p.type, "longrope") == 0 || strcmp(p.type, "su") == 0)
    return longrope(b, &p, max_positions, freq, name, out);
  if (strcmp(p.type, "dynamic") == 0)
    ACCEL_TRY(dynamic(b, &p, max_positions, out));
  else
    ACCEL_TRY(compute(b, &p, out->rot_dims, max_positions, freq, out));
  for (int64_t i = 0; i < n; i++) values[i] = (float)freq[i];
  out->inv_freq = accel__constant_f32(b->p, name, 1, &n, values);
  return ACCEL_OK;
}

accel_status accel__rope_config(accel__build *b, const char *layer_type, double theta,
                                double partial, int64_t head_dim, int64_t max_positions,
                                const char *name, accel__rope *out) {
  const accel__json *params = NULL, *own = NULL;
  ACCEL_TRY(accel__json_object(b->file, b->config, "rope_scaling", &params));
  if (params == NULL || params->child == NULL)
    ACCEL_TRY(accel__json_object(b->file, b->config, "rope_parameters", &params));
  if (layer_type != NULL) ACCEL_TRY(accel__json_object(b->file, params, layer_type, &own));
  if (own != NULL) b->rope.by_layer_type = true;
  ACCEL_TRY(accel__json_number(b->file, b->config, "rope_theta", &theta));
  if (partial != 0)
    ACCEL_TRY(accel__json_number(b->file, b->config, "partial_rotary_factor", &partial));
  return accel__rope_read(b, own != NULL ? own : params, theta, partial == 0 ? 1.0 : partial,
                          head_dim, max_positions, name, out);
}

accel__tensor accel__rope_rows(accel__build *b, accel__tensor x, const accel__rope *rope) {
  const bool mrope = b->position_ids >= 0 && accel__rank(b->p, b->position_ids) == 2;
  accel__attr attr[] = {ACCEL_I(HEAD_DIM, rope->head_dim), ACCEL_I(ROPE_STYLE, rope->style),
                        ACCEL_I(ROT_DIMS, rope->rot_dims), ACCEL_F(MSCALE, rope->attention_scale),
                        ACCEL_IV(SECTIONS, rope->section, rope->n_sections)};
  accel__tensor freq = rope->length > 0 ? rows_of(b, rope) : rope->inv_freq;
  return accel__node(b->p, ACCEL_PLUGIN_OP_ROPE, (accel__tensor[]){x, b->position_ids, freq}, 3,
                     attr, mrope ? 5 : 4, NULL, 1);
}

/* ---- scale of queries ---- */

/* 1 + beta * log(1 + floor(position / length)) of each row, [T,1]. */
static accel__tensor query_scales(accel__build *b, const accel__rope *r) {
  const int64_t one = 1;
  const float length = (float)r->query_length;
  accel__attr to_float = ACCEL_I(DTYPE, ACCEL_PLUGIN_F32),
              to_int = ACCEL_I(DTYPE, ACCEL_PLUGIN_I32);
  accel__tensor by = accel__constant_f32(b->p, "rope.query_length", 1, &one, &length);
  accel__tensor x =
      accel__node(b->p, ACCEL_PLUGIN_OP_CAST, &b->position_ids, 1, &to_float, 1, NULL, 1);
  x = accel__binary(b->p, ACCEL_PLUGIN_BINARY_DIV, x, by);
  x = accel__node(b->p, ACCEL_PLUGIN_OP_CAST, &x, 1, &to_int, 1, NULL, 1); /* positions are >= 0 */
  x = accel__node(b->p, ACCEL_PLUGIN_OP_CAST, &x, 1, &to_float, 1, NULL, 1);
  x = accel__unary(b->p, ACCEL_PLUGIN_UNARY_LOG, affine(b, x, 1.0, 1.0));
  x = affine(b, x, r->query_beta, 1.0);
  return accel__reshape(b->p, x, 2, (accel__dim[]){b->T, accel__const_dim(b->p, 1)});
}

accel__tensor accel__rope_scale_query(accel__build *b, accel__tensor q, const accel__rope *rope) {
  if (rope->query_beta == 0) return q;
  /* made once for all layers and entries */
  if (b->rope.query_scales == 0) b->rope.query_scales = query_scales(b, rope) + 1;
  return accel__binary(b->p, ACCEL_PLUGIN_BINARY_MUL, q, b->rope.query_scales - 1);
}
