/* low_rank.c - linears that adapters of a run may add to.  What is fused into a linear elsewhere
 * stands apart here, since the low-rank product is added before the activation. */
#include "program/program_internal.h"

typedef struct linear {
  accel__tensor x, w, bias, residual, w_gate, bias_gate;
  int64_t act, glu;
  double alpha;
  bool trans, has_alpha;
} linear;

static accel__tensor operand(const accel__tensor *in, uint32_t n_in, uint32_t i) {
  return i < n_in ? in[i] : -1;
}

static linear read_linear(const accel__tensor *in, uint32_t n_in, const accel__attr *attr,
                          uint32_t n_attr) {
  linear l = {.x = operand(in, n_in, 0),
              .w = operand(in, n_in, 1),
              .bias = operand(in, n_in, 2),
              .residual = operand(in, n_in, 3),
              .w_gate = operand(in, n_in, 4),
              .bias_gate = operand(in, n_in, 5)};
  for (uint32_t i = 0; i < n_attr; i++) switch (attr[i].key) {
      case ACCEL_PLUGIN_ATTR_ACT:
        l.act = attr[i].i;
        break;
      case ACCEL_PLUGIN_ATTR_ACT_ALPHA:
        l.alpha = attr[i].f;
        l.has_alpha = l.alpha != 0;
        break;
      case ACCEL_PLUGIN_ATTR_TRANS:
        l.trans = attr[i].i != 0;
        break;
      case ACCEL_PLUGIN_ATTR_GLU:
        l.glu = attr[i].i;
        break;
      default:
        break;
    }
  return l;
}

/* x w^T + bias, and what the run's adapters add. */
static accel__tensor product(accel__program *p, accel__tensor x, accel__tensor w,
                             accel__tensor bias, accel__tensor residual) {
  const accel__tensor y = accel__linear(p, x, w, bias, residual, ACCEL_PLUGIN_ACT_NONE);
  if (y < 0) return y;
  const int32_t space = p->tensor[x].space;
  const accel__attr attr[] = {ACCEL_I(SLOT, p->tensor[w].weight), ACCEL_I(SPACE, space)};
  return accel__node(p, ACCEL_PLUGIN_OP_LOW_RANK, (accel__tensor[]){y, x}, 2, attr,
                     space >= 0 ? 2 : 1, NULL, 1);
}

static accel__tensor activate(accel__program *p, const linear *l, accel__tensor y) {
  const accel__attr attr[] = {ACCEL_I(KIND, l->act), ACCEL_F(ALPHA, l->alpha)};
  if (l->act == ACCEL_PLUGIN_ACT_NONE) return y;
  return accel__node(p, ACCEL_PLUGIN_OP_UNARY, &y, 1, attr, l->has_alpha ? 2 : 1, NULL, 1);
}

/* Both halves of a product whose weight holds gate and up. */
static accel__tensor gated_halves(accel__program *p, const linear *l) {
  const accel__tensor both = product(p, l->x, l->w, l->bias, -1);
  int64_t columns = 0;
  if (both < 0 || !accel__dim_value(p, accel__tensor_dim(p, both, -1), &columns)) return both;
  const int64_t half = columns / 2, gate_at = l->glu == ACCEL_PLUGIN_GLU_GATE_FIRST ? 0 : half;
  const accel__tensor gate = accel__slice(p, both, -1, gate_at, gate_at + half),
                      up = accel__slice(p, both, -1, half - gate_at, columns - gate_at);
  return accel__binary(p, ACCEL_PLUGIN_BINARY_MUL, activate(p, l, gate), up);
}

static accel__tensor made(accel__program *p, const linear *l) {
  if (l->glu == ACCEL_PLUGIN_GLU_NONE) {
    const bool plain = l->act == ACCEL_PLUGIN_ACT_NONE;
    const accel__tensor y =
        activate(p, l, product(p, l->x, l->w, l->bias, plain ? l->residual : -1));
    return plain || l->residual < 0 ? y : accel__binary(p, ACCEL_PLUGIN_BINARY_ADD, y, l->residual);
  }
  accel__tensor y;
  if (l->glu == ACCEL_PLUGIN_GLU_SEPARATE) {
    const accel__tensor gate = activate(p, l, product(p, l->x, l->w_gate, l->bias_gate, -1));
    y = accel__binary(p, ACCEL_PLUGIN_BINARY_MUL, gate, product(p, l->x, l->w, l->bias, -1));
  } else {
    y = gated_halves(p, l);
  }
  return l->residual < 0 ? y : accel__binary(p, ACCEL_PLUGIN_BINARY_ADD, y, l->residual);
}

void accel__program_low_rank(accel__program *p) { p->low_rank = true; }

accel__tensor accel__linear_low_rank(accel__program *p, const accel__tensor *in, uint32_t n_in,
                                     const accel__attr *attr, uint32_t n_attr) {
  const linear l = read_linear(in, n_in, attr, n_attr);
  const bool weights =
      l.w >= 0 && p->tensor[l.w].weight >= 0 && (l.w_gate < 0 || p->tensor[l.w_gate].weight >= 0);
  const bool apart = weights && !l.trans && l.act != ACCEL_PLUGIN_ACT_SWIGLU_OAI &&
                     l.glu != ACCEL_PLUGIN_GLU_INTERLEAVED;
  p->low_rank = false; /* the linears made here are plain */
  const accel__tensor y =
      apart ? made(p, &l) : accel__node(p, ACCEL_PLUGIN_OP_LINEAR, in, n_in, attr, n_attr, NULL, 1);
  p->low_rank = true;
  return y;
}
