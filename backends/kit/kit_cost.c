/* kit_cost.c - what a node costs by its definition: additions and multiplications, and bytes that
 * must move at least once.
 *
 * A function of one element (exp, an activation) counts one operation; weights count what the
 * backend keeps for them; reads that a cache saves and copies that an implementation adds count
 * nothing.  For profiles: shares of a machine's peak.
 */
#include "kit/kit_internal.h"

static double elements(const kit_tensor *t) { return kit_has(t) ? (double)t->elements : 0.0; }

static double bytes_of(const kit_tensor *t, const uint64_t *weight_bytes) {
  if (!kit_has(t)) return 0.0;
  return t->weight >= 0 && weight_bytes ? (double)weight_bytes[t->weight]
                                        : 4.0 * (double)t->elements;
}

/* ---- attention: the pairs of query and key that see each other ---- */

typedef struct sight {
  int64_t left, right; /* -1: no limit */
  bool causal;
} sight;

static double seen_pairs(const sight *s, int64_t q, int64_t kv) {
  double pairs = 0.0;
  if (!s->causal && s->left < 0 && s->right < 0) return (double)q * (double)kv;
  for (int64_t i = 0; i < q; i++) {
    int64_t at = kv - q + i, first = s->left >= 0 && at > s->left ? at - s->left : 0, last = kv - 1;
    if (s->right >= 0 && at + s->right < last) last = at + s->right;
    if (s->causal && at < last) last = at;
    if (last >= first) pairs += (double)(last - first + 1);
  }
  return pairs;
}

/* What the state of an item holds behind a launch that is only planned. */
static kit_state_view planned_state(const kit_launch *l, const kit_rows *kv, int32_t item) {
  const kit_planned *planned = l->planned;
  const bool fixed = kit_attr_i(l->node, ACCEL_PLUGIN_ATTR_STATE_STATIC, 0) != 0;
  const int64_t rows = item < kv->items ? kv->start[item + 1] - kv->start[item] : 0,
                held = !fixed               ? planned->past + rows
                       : kit_has(&l->in[1]) ? rows
                                            : planned->fixed;
  return (kit_state_view){.state = &l->program->state[l->node->state],
                          .dtype = planned->kv_dtype,
                          .length = (int32_t)held};
}

/* Keys of an item: those of this run, or all that its state holds by now, whose bytes are added. */
static int64_t keys_of(const kit_launch *l, const kit_rows *kv, int32_t item, double *bytes) {
  kit_state_view view;
  if (l->node->state < 0 || (!l->state && !l->planned))
    return kv->start[item + 1] - kv->start[item];
  if (l->planned)
    view = planned_state(l, kv, item);
  else if (kit_state_read(l, (uint32_t)item, &view, NULL))
    return 0;
  const uint64_t head =
      kit_kv_head(view.dtype, view.state->k_dim) + kit_kv_head(view.dtype, view.state->v_dim);
  *bytes += (double)view.length * (double)((uint64_t)view.state->heads * head);
  return view.length;
}

static double attention(const kit_launch *l, double *bytes) {
  const kit_tensor *q = &l->in[0], *k = &l->in[1], *v = &l->in[2];
  if (!kit_has(q)) return 0.0;
  int32_t whole_q[2], whole_kv[2];
  kit_rows rows = kit_rows_of(l, ACCEL_PLUGIN_ATTR_Q_SPACE, kit_row_count(q), whole_q);
  kit_rows kv = kit_rows_of(l, ACCEL_PLUGIN_ATTR_KV_SPACE,
                            kit_has(k) ? kit_row_count(k) : kit_row_count(q), whole_kv);
  sight s = {.left = kit_attr_i(l->node, ACCEL_PLUGIN_ATTR_WINDOW_LEFT, -1),
             .right = kit_attr_i(l->node, ACCEL_PLUGIN_ATTR_WINDOW_RIGHT, -1),
             .causal = kit_attr_i(l->node, ACCEL_PLUGIN_ATTR_CAUSAL, 0) != 0};
  const double heads = (double)kit_attr_i(l->node, ACCEL_PLUGIN_ATTR_HEADS, 1);
  const accel_plugin_state *state = l->node->state >= 0 ? &l->program->state[l->node->state] : NULL;
  double pairs = 0.0;
  for (int32_t i = 0; i < rows.items && (i < kv.items || state); i++) {
    int64_t keys = keys_of(l, &kv, i, bytes);
    pairs += seen_pairs(&s, rows.start[i + 1] - rows.start[i], keys);
  }
  double k_dim = (double)kit_cols(q) / heads, v_dim = kit_has(v) ? k_dim
                                                      : state    ? state->v_dim
                                                                 : k_dim;
  if (kit_has(v) && kit_has(k) && kit_cols(k) > 0)
    v_dim = k_dim * (double)kit_cols(v) / (double)kit_cols(k);
  double more = kit_has(&l->in[8]) ? 2.0 * k_dim : 0.0; /* rel_k and rel_q: one more product each */
  if (kit_has(&l->in[9])) more += 2.0 * k_dim;
  return heads * pairs * (2.0 * k_dim + 2.0 * v_dim + 4.0 + more);
}

/* ---- the others ---- */

/* Multiply-add pairs of the products of linear: rows times every weight. */
static double linear(const kit_launch *l) {
  const kit_tensor *y = &l->out[0], *x = &l->in[0];
  double extra = kit_has(&l->in[2]) + kit_has(&l->in[3]) + kit_has(&l->in[5]);
  extra +=
      kit_attr_i(l->node, ACCEL_PLUGIN_ATTR_ACT, ACCEL_PLUGIN_ACT_NONE) != ACCEL_PLUGIN_ACT_NONE;
  extra +=
      kit_attr_i(l->node, ACCEL_PLUGIN_ATTR_GLU, ACCEL_PLUGIN_GLU_NONE) != ACCEL_PLUGIN_GLU_NONE;
  return 2.0 * (double)kit_row_count(x) * (elements(&l->in[1]) + elements(&l->in[4])) +
         extra * elements(y);
}

static double convolution(const kit_launch *l) {
  const kit_tensor *w = &l->in[1];
  double per_channel = kit_has(w) && w->dim[0] ? elements(w) / (double)w->dim[0] : 0.0;
  double extra = kit_has(&l->in[2]) + (l->node->op == ACCEL_PLUGIN_OP_CONV && kit_has(&l->in[3]));
  extra +=
      kit_attr_i(l->node, ACCEL_PLUGIN_ATTR_ACT, ACCEL_PLUGIN_ACT_NONE) != ACCEL_PLUGIN_ACT_NONE;
  const kit_tensor *each = l->node->op == ACCEL_PLUGIN_OP_CONV ? &l->out[0] : &l->in[0];
  return 2.0 * elements(each) * per_channel + extra * elements(&l->out[0]);
}

/* Experts that some token chose; where the choices are not in host memory, as many as there may
 * be. */
static double experts_chosen(const kit_tensor *choice, int64_t experts) {
  const int32_t *id = choice->buffer ? NULL : choice->data;
  int64_t n = 0;
  if (!id) return choice->elements < experts ? (double)choice->elements : (double)experts;
  for (int64_t e = 0; e < experts; e++) {
    int64_t i = 0;
    while (i < choice->elements && id[i] != e) i++;
    n += i < choice->elements;
  }
  return (double)n;
}

/* Experts that nobody chose are not read. */
static double moe(const kit_launch *l, const uint64_t *weight_bytes, double *weights) {
  const kit_tensor *up = &l->in[3], *down = &l->in[4];
  if (!kit_has(up) || !kit_has(&l->in[1]) || up->dim[0] < 1) return 0.0;
  const double experts = (double)up->dim[0];
  *weights -= (1.0 - experts_chosen(&l->in[1], up->dim[0]) / experts) *
              (bytes_of(up, weight_bytes) + bytes_of(down, weight_bytes));
  return 2.0 * elements(&l->in[1]) * (elements(up) + elements(down)) / experts;
}

static double scan(const kit_launch *l) {
  int64_t groups = kit_attr_i(l->node, ACCEL_PLUGIN_ATTR_GROUPS, 1);
  bool second = kit_attr_i(l->node, ACCEL_PLUGIN_ATTR_VERSION, 1) == 2;
  double states = second ? (double)kit_cols(&l->in[3]) / (double)(groups > 0 ? groups : 1)
                         : (double)kit_cols(&l->in[2]);
  return elements(&l->in[0]) * (6.0 * states + 4.0);
}

/* Of each head of v and row: the state is scaled, multiplied by k and q, and increased. */
static double delta_rule(const kit_launch *l) {
  const int64_t heads = kit_attr_i(l->node, ACCEL_PLUGIN_ATTR_HEADS, 1);
  const double k_dim = (double)kit_cols(&l->in[0]) / (double)(heads > 0 ? heads : 1);
  return elements(&l->out[0]) * (7.0 * k_dim + 3.0);
}

static double pool(const kit_launch *l) {
  const int64_t *window;
  uint32_t n = kit_attr_iv(l->node, ACCEL_PLUGIN_ATTR_KERNEL, &window);
  double size = 1.0;
  if (!n) return elements(&l->in[0]); /* adaptive: about every element once */
  for (uint32_t i = 0; i < n; i++) size *= (double)window[i];
  return size * elements(&l->out[0]);
}

static double resize(const kit_launch *l) {
  int64_t kind = kit_attr_i(l->node, ACCEL_PLUGIN_ATTR_KIND, ACCEL_PLUGIN_RESIZE_NEAREST),
          dims = l->out[0].rank - 2;
  if (kind == ACCEL_PLUGIN_RESIZE_NEAREST) return 0.0;
  double taps = 1.0;
  for (int64_t i = 0; i < dims; i++) taps *= kind == ACCEL_PLUGIN_RESIZE_LINEAR ? 2.0 : 4.0;
  return 2.0 * taps * elements(&l->out[0]);
}

/* Only the rows that are taken are read. */
static double gather(const kit_launch *l, const uint64_t *weight_bytes, double *weights,
                     double *operands) {
  double table = elements(&l->in[0]), y = elements(&l->out[0]);
  double each = table > 0.0 ? bytes_of(&l->in[0], weight_bytes) / table : 0.0;
  const double taken = each * (y < table ? y : table);
  const bool of_weights = l->in[0].weight >= 0;
  *weights = of_weights ? taken : 0.0;
  *operands = bytes_of(&l->in[1], NULL) + (of_weights ? 0.0 : taken);
  return kit_attr_f(l->node, ACCEL_PLUGIN_ATTR_SCALE, 1.0) == 1.0 ? 0.0 : y;
}

void kit_cost(const kit_launch *l, const uint64_t *weight_bytes, accel_plugin_step *step) {
  const double y = elements(&l->out[0]);
  double flop = 0.0, weights = 0.0, operands = 0.0, results = 0.0;
  for (uint32_t i = 0; i < l->n_in; i++)
    *(kit_has(&l->in[i]) && l->in[i].weight >= 0 ? &weights : &operands) +=
        bytes_of(&l->in[i], weight_bytes);
  for (uint32_t i = 0; i < l->n_out; i++) results += bytes_of(&l->out[i], weight_bytes);
  /* Without a default, so that the compiler names an op that has no cost (-Wswitch, an error). */
  switch ((accel_plugin_op)l->node->op) {
    case ACCEL_PLUGIN_OP_LINEAR:
      flop = linear(l);
      break;
    case ACCEL_PLUGIN_OP_MATMUL:
      flop = 2.0 * y * (double)kit_cols(&l->in[0]);
      break;
    case ACCEL_PLUGIN_OP_ATTENTION:
      flop = attention(l, &operands);
      break;
    case ACCEL_PLUGIN_OP_ROPE:
      flop = 3.0 * y;
      break;
    case ACCEL_PLUGIN_OP_NORM:
      flop = (7.0 + kit_has(&l->in[3])) * y;
      break;
    case ACCEL_PLUGIN_OP_GROUP_NORM:
      flop = 8.0 * y;
      break;
    case ACCEL_PLUGIN_OP_CONV:
    case ACCEL_PLUGIN_OP_CONV_TRANSPOSE:
      flop = convolution(l);
      break;
    case ACCEL_PLUGIN_OP_GATHER:
      flop = gather(l, weight_bytes, &weights, &operands);
      break;
    case ACCEL_PLUGIN_OP_SCATTER_ROWS:
      flop = kit_attr_i(l->node, ACCEL_PLUGIN_ATTR_SCATTER_MODE, 0) ? elements(&l->in[2]) : 0.0;
      break;
    case ACCEL_PLUGIN_OP_BINARY:
    case ACCEL_PLUGIN_OP_UNARY:
      flop = y;
      break;
    case ACCEL_PLUGIN_OP_SOFTMAX:
      flop = 4.0 * y;
      break;
    case ACCEL_PLUGIN_OP_REDUCE:
      flop = (1.0 + kit_has(&l->in[1])) * elements(&l->in[0]);
      break;
    case ACCEL_PLUGIN_OP_TOPK:
      flop = elements(&l->in[0]);
      break;
    case ACCEL_PLUGIN_OP_MOE:
      flop = moe(l, weight_bytes, &weights);
      break;
    case ACCEL_PLUGIN_OP_SELECTIVE_SCAN:
      flop = scan(l);
      break;
    case ACCEL_PLUGIN_OP_GATED_DELTA_RULE:
      flop = delta_rule(l);
      break;
    case ACCEL_PLUGIN_OP_POOL:
      flop = pool(l);
      break;
    case ACCEL_PLUGIN_OP_RESIZE:
      flop = resize(l);
      break;
    case ACCEL_PLUGIN_OP_CAST: /* from here on: moves */
    case ACCEL_PLUGIN_OP_RESHAPE:
    case ACCEL_PLUGIN_OP_TRANSPOSE:
    case ACCEL_PLUGIN_OP_SLICE:
    case ACCEL_PLUGIN_OP_BROADCAST:
    case ACCEL_PLUGIN_OP_CONCAT:
    case ACCEL_PLUGIN_OP_PAD:
    case ACCEL_PLUGIN_OP_ALLREDUCE:
    case ACCEL_PLUGIN_OP_LOW_RANK: /* what adapters bring is not known here */
      break;
  }
  step->flop += flop;
  step->bytes += weights + operands + results;
  step->weight_bytes += weights;
  step->result_bytes += results;
}
