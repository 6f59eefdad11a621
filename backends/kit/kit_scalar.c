/* kit_scalar.c - the table of scalar kernels, and the functions of one number: activations, unary
 * kinds, position buckets. */
#include "kit/kit_scalar.h"

kit_scalar_fn kit_scalar(uint32_t op) {
  static const kit_scalar_fn table[ACCEL_PLUGIN_OP_COUNT + 1] = {
#define ACCEL_OP(NAME, number, operands, outputs, attributes, text) [number] = kit_scalar_##NAME,
#include "accel/ops.def"
  };
  return op >= 1 && op <= ACCEL_PLUGIN_OP_COUNT ? table[op] : NULL;
}

kit_rows kit_rows_of(const kit_launch *l, uint32_t key, int64_t rows, int32_t whole[2]) {
  int64_t space = kit_attr_i(l->node, key, -1);
  if (space < 0 && key == ACCEL_PLUGIN_ATTR_KV_SPACE)
    space = kit_attr_i(l->node, ACCEL_PLUGIN_ATTR_Q_SPACE, -1);
  if (space >= 0) return l->rows[space];
  whole[0] = 0;
  whole[1] = (int32_t)rows;
  return (kit_rows){.items = 1, .rows = (int32_t)rows, .longest = (int32_t)rows, .start = whole};
}

static double sigmoid(double x) { return x >= 0 ? 1.0 / (1.0 + exp(-x)) : exp(x) / (1.0 + exp(x)); }
static double softplus(double x) { return x > 0 ? x + log1p(exp(-x)) : log1p(exp(x)); }
static double clamp(double x, double low, double high) {
  return x < low ? low : x > high ? high : x;
}

float kit_unary(int32_t kind, float value, float alpha, float beta) {
  double x = value;
  switch (kind) {
    case ACCEL_PLUGIN_ACT_NONE:
      return value;
    case ACCEL_PLUGIN_ACT_RELU:
      return value < 0 ? 0.0f : value; /* keeps NaN */
    case ACCEL_PLUGIN_ACT_GELU:
      return (float)(0.5 * x * (1.0 + erf(x * 0.70710678118654752440)));
    case ACCEL_PLUGIN_ACT_GELU_TANH:
      return (float)(0.5 * x * (1.0 + tanh(0.79788456080286535588 * (x + 0.044715 * x * x * x))));
    case ACCEL_PLUGIN_ACT_GELU_QUICK:
      return (float)(x * sigmoid(1.702 * x));
    case ACCEL_PLUGIN_ACT_SILU:
      return (float)(x * sigmoid(x));
    case ACCEL_PLUGIN_ACT_TANH:
      return (float)tanh(x);
    case ACCEL_PLUGIN_ACT_SIGMOID:
      return (float)sigmoid(x);
    case ACCEL_PLUGIN_ACT_RELU2:
      return value < 0 ? 0.0f : value * value;
    case ACCEL_PLUGIN_ACT_MISH:
      return (float)(x * tanh(softplus(x)));
    case ACCEL_PLUGIN_ACT_LEAKY_RELU:
      return value < 0 ? alpha * value : value;
    case ACCEL_PLUGIN_ACT_SOFTPLUS:
      return (float)softplus(x);
    case ACCEL_PLUGIN_ACT_HARDSWISH:
      return (float)(x * clamp(x + 3.0, 0.0, 6.0) / 6.0);
    case ACCEL_PLUGIN_ACT_ELU:
      return value < 0 ? (float)(alpha * expm1(x)) : value;
    case ACCEL_PLUGIN_ACT_RELU6:
      return (float)clamp(x, 0.0, 6.0);
    case ACCEL_PLUGIN_ACT_SWIGLU_OAI:
      return (float)(x * sigmoid((double)alpha * x));
    case ACCEL_PLUGIN_UNARY_EXP:
      return (float)exp(x);
    case ACCEL_PLUGIN_UNARY_LOG:
      return (float)log(x);
    case ACCEL_PLUGIN_UNARY_NEG:
      return -value;
    case ACCEL_PLUGIN_UNARY_SQRT:
      return (float)sqrt(x);
    case ACCEL_PLUGIN_UNARY_RSQRT:
      return (float)(1.0 / sqrt(x));
    case ACCEL_PLUGIN_UNARY_CLAMP:
      return (float)clamp(x, alpha, beta);
    case ACCEL_PLUGIN_UNARY_SIN:
      return (float)sin(x);
    case ACCEL_PLUGIN_UNARY_COS:
      return (float)cos(x);
    case ACCEL_PLUGIN_UNARY_AFFINE:
      return (float)((double)alpha * x + (double)beta);
    case ACCEL_PLUGIN_UNARY_ABS:
      return fabsf(value);
  }
  return NAN; /* not reached: launches check the kind */
}

static float usual_alpha(int32_t act) {
  return act == ACCEL_PLUGIN_ACT_ELU          ? 1.0f
         : act == ACCEL_PLUGIN_ACT_LEAKY_RELU ? 0.01f
         : act == ACCEL_PLUGIN_ACT_SWIGLU_OAI ? 1.702f
                                              : 0.0f;
}

float kit_act_alpha(const accel_plugin_node *node, int32_t act) {
  return (float)kit_attr_f(node, ACCEL_PLUGIN_ATTR_ACT_ALPHA, usual_alpha(act));
}

float kit_unary_alpha(const accel_plugin_node *node, int32_t kind) {
  float absent = kind == ACCEL_PLUGIN_UNARY_CLAMP    ? -INFINITY
                 : kind == ACCEL_PLUGIN_UNARY_AFFINE ? 1.0f
                                                     : usual_alpha(kind);
  return (float)kit_attr_f(node, ACCEL_PLUGIN_ATTR_ALPHA, absent);
}

float kit_unary_beta(const accel_plugin_node *node, int32_t kind) {
  return (float)kit_attr_f(node, ACCEL_PLUGIN_ATTR_BETA,
                           kind == ACCEL_PLUGIN_UNARY_CLAMP ? INFINITY : 0.0);
}

/* In float, as torch computes it: the bucket of a distance on an edge must be the same one. */
int32_t kit_t5_bucket(int64_t key_minus_query, bool bidirectional, int32_t buckets,
                      int32_t max_distance) {
  int32_t offset = 0;
  int64_t n = key_minus_query;
  if (bidirectional) {
    buckets /= 2;
    if (n > 0) offset = buckets;
    n = n < 0 ? -n : n;
  } else {
    n = n < 0 ? -n : 0;
  }
  int32_t exact = buckets / 2;
  if (n < exact) return offset + (int32_t)n;
  if (exact < 1) return offset + (buckets > 0 ? buckets - 1 : 0);
  float steps = logf((float)n / (float)exact) / (float)log((double)max_distance / exact) *
                (float)(buckets - exact);
  int64_t large = steps < (float)buckets ? exact + (int64_t)steps : buckets - 1;
  return offset + (int32_t)(large < buckets - 1 ? large : buckets - 1);
}

int32_t kit_deberta_row(int64_t query_minus_key, int32_t span, int32_t buckets,
                        int32_t max_distance) {
  int64_t r = query_minus_key;
  int32_t middle = buckets / 2;
  int64_t distance = r < 0 ? -r : r;
  if (buckets > 0 && max_distance > 0 && distance > middle) {
    float steps = ceilf(logf((float)distance / (float)middle) /
                        logf((float)((double)(max_distance - 1) / middle)) * (float)(middle - 1));
    int64_t bucket = (int64_t)steps + middle;
    r = r < 0 ? -bucket : bucket;
  }
  r += span;
  return (int32_t)(r < 0 ? 0 : r > 2 * (int64_t)span - 1 ? 2 * (int64_t)span - 1 : r);
}
