/* short.c - the common ops spelled shortly. */
#include "program/program_internal.h"

accel__tensor accel__linear(accel__program *p, accel__tensor x, accel__tensor w, accel__tensor bias,
                            accel__tensor residual, accel_plugin_act act) {
  accel__attr attr = ACCEL_I(ACT, act);
  return accel__node(p, ACCEL_PLUGIN_OP_LINEAR, (accel__tensor[]){x, w, bias, residual}, 4, &attr,
                     act != ACCEL_PLUGIN_ACT_NONE, NULL, 1);
}

accel__tensor accel__layer_norm(accel__program *p, accel__tensor x, accel__tensor gamma,
                                accel__tensor beta, accel__tensor residual, double eps) {
  accel__attr attr[] = {ACCEL_I(NORM_KIND, ACCEL_PLUGIN_NORM_LAYER), ACCEL_F(EPS, eps)};
  return accel__node(p, ACCEL_PLUGIN_OP_NORM, (accel__tensor[]){x, gamma, beta, residual}, 4, attr,
                     2, NULL, 1);
}

accel__tensor accel__gather(accel__program *p, accel__tensor table, accel__tensor idx) {
  accel__attr attr = ACCEL_I(AXIS, 0);
  return accel__node(p, ACCEL_PLUGIN_OP_GATHER, (accel__tensor[]){table, idx}, 2, &attr, 1, NULL,
                     1);
}

accel__tensor accel__binary(accel__program *p, accel_plugin_binary kind, accel__tensor a,
                            accel__tensor b) {
  accel__attr attr = ACCEL_I(KIND, kind);
  return accel__node(p, ACCEL_PLUGIN_OP_BINARY, (accel__tensor[]){a, b}, 2, &attr, 1, NULL, 1);
}

accel__tensor accel__unary(accel__program *p, int kind, accel__tensor x) {
  accel__attr attr = ACCEL_I(KIND, kind);
  return accel__node(p, ACCEL_PLUGIN_OP_UNARY, &x, 1, &attr, 1, NULL, 1);
}

accel__tensor accel__reshape(accel__program *p, accel__tensor x, uint32_t rank,
                             const accel__dim *dims) {
  int64_t shape[ACCEL_PLUGIN_MAX_RANK];
  if (rank > ACCEL_PLUGIN_MAX_RANK)
    return accel__program_fail(p, ACCEL_ERROR_INTERNAL, "reshape to rank %u", rank);
  for (uint32_t i = 0; i < rank; i++) shape[i] = dims[i];
  accel__attr attr = ACCEL_D(SHAPE, shape, rank);
  return accel__node(p, ACCEL_PLUGIN_OP_RESHAPE, &x, 1, &attr, 1, NULL, 1);
}

accel__tensor accel__slice(accel__program *p, accel__tensor x, int32_t axis, int64_t start,
                           int64_t end) {
  int64_t from = accel__const_dim(p, start);
  int64_t to = end == INT64_MAX ? accel__tensor_dim(p, x, axis) : accel__const_dim(p, end);
  accel__attr attr[] = {ACCEL_I(AXIS, axis), ACCEL_D(START, &from, 1), ACCEL_D(END, &to, 1)};
  return accel__node(p, ACCEL_PLUGIN_OP_SLICE, &x, 1, attr, 3, NULL, 1);
}

accel__tensor accel__reduce_rows(accel__program *p, int reduce_kind, accel__tensor x,
                                 accel__tensor weights, int32_t space) {
  accel__attr attr[] = {ACCEL_I(KIND, reduce_kind), ACCEL_I(AXIS, 0), ACCEL_I(SPACE, space)};
  return accel__node(p, ACCEL_PLUGIN_OP_REDUCE, (accel__tensor[]){x, weights}, 2, attr, 3, NULL, 1);
}
