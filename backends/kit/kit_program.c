/* kit_program.c - errors, the deep copy of a program with all its checks, and access to attributes. */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kit/kit_internal.h"

/* ---- errors ---- */

int32_t kit_fail(accel_plugin_error *error, int32_t rc, int32_t node, const char *format, ...) {
  if (!error) return rc;
  error->rc = rc;
  error->native = 0;
  error->node = node;
  va_list args;
  va_start(args, format);
  vsnprintf(error->message, sizeof error->message, format, args);
  va_end(args);
  return rc;
}

int32_t kit_no_memory(accel_plugin_error *error, uint64_t bytes) {
  return kit_fail(error, ACCEL_PLUGIN_E_HOST_MEMORY, -1, "out of memory: %llu bytes refused",
                  (unsigned long long)bytes);
}

bool kit_fault(const accel_plugin_host *host, const char *point) {
  return host && host->fault && host->fault(host->self, point) != 0;
}

int32_t kit_weight_borrow(const accel_plugin_host *host, uint32_t index,
                          accel_plugin_weight_view *out, accel_plugin_error *error) {
  return (host->weight_borrow ? host->weight_borrow : host->weight_map)(host->self, index, out,
                                                                        error);
}

int32_t kit_launch_fail(const kit_launch *launch, accel_plugin_error *error, int32_t rc,
                        const char *format, ...) {
  char what[160];
  va_list args;
  va_start(args, format);
  vsnprintf(what, sizeof what, format, args);
  va_end(args);
  int32_t out = kit_result(launch->node, 0);
  return kit_fail(error, rc, (int32_t)launch->index, "node %u (%s, %s): %s", launch->index,
                  kit_op_name(launch->node->op), kit_tensor_name(launch->program, out), what);
}

void kit_read_struct(void *out, size_t known, const void *given, uint32_t given_size) {
  memset(out, 0, known);
  memcpy(out, given, given_size < known ? given_size : known);
}

/* ---- names ---- */

const char *kit_op_name(uint32_t op) {
  static const char *const name[ACCEL_PLUGIN_OP_COUNT + 1] = {
#define ACCEL_OP(NAME, number, operands, outputs, attributes, text) [number] = #NAME,
#include "accel/ops.def"
  };
  return op >= 1 && op <= ACCEL_PLUGIN_OP_COUNT && name[op] ? name[op] : "?";
}

static bool attr_known(uint32_t key) {
  switch (key) {
#define ACCEL_ATTR(NAME, number, spelled, type, text) case number:
#include "accel/ops.def"
    return true;
  }
  return false;
}

const char *kit_tensor_name(const accel_plugin_program *p, int32_t id) {
  return id >= 0 && (uint32_t)id < p->n_tensor && p->tensor[id].name ? p->tensor[id].name : "?";
}

/* ---- attributes ---- */

static const accel_plugin_attr *attr(const accel_plugin_node *node, uint32_t key) {
  for (uint32_t i = 0; i < node->n_attr; i++)
    if (node->attr[i].key == key) return &node->attr[i];
  return NULL;
}

int64_t kit_attr_i(const accel_plugin_node *node, uint32_t key, int64_t absent) {
  const accel_plugin_attr *a = attr(node, key);
  return a ? a->i : absent;
}

double kit_attr_f(const accel_plugin_node *node, uint32_t key, double absent) {
  const accel_plugin_attr *a = attr(node, key);
  return a ? a->f : absent;
}

uint32_t kit_attr_iv(const accel_plugin_node *node, uint32_t key, const int64_t **values) {
  const accel_plugin_attr *a = attr(node, key);
  *values = a ? a->v : NULL;
  return a ? a->n : 0;
}

uint32_t kit_attr_d(const kit_launch *launch, uint32_t key, int64_t *values, uint32_t capacity) {
  const int64_t *index;
  uint32_t n = kit_attr_iv(launch->node, key, &index);
  for (uint32_t i = 0; i < n && i < capacity; i++) values[i] = launch->dim[index[i]];
  return n < capacity ? n : capacity;
}

int32_t kit_operand(const accel_plugin_node *node, uint32_t i) {
  return i < node->n_in ? node->in[i] : -1;
}
int32_t kit_result(const accel_plugin_node *node, uint32_t i) {
  return i < node->n_out ? node->out[i] : -1;
}

/* ---- the deep copy ---- */

/* Names and lists of a few bytes, tens of thousands of them, share blocks; under a sanitizer, which
 * watches what lies around an allocation, each has one of its own. */
enum { BLOCK = ACCEL_SANITIZER ? 0 : 64 << 10 };

typedef struct block {
  struct block *next;
  size_t used, size; /* bytes behind this head */
} block;

typedef struct copy {
  accel_plugin_program program; /* first: the public pointer is the copy's */
  block *blocks;                /* the newest first */
  bool failed;
} copy;

/* Memory of the copy, zeroed, aligned to 16 bytes; NULL (and failed) when there is none.  Zero
 * bytes give a valid pointer. */
static void *grab(copy *c, uint64_t count, uint64_t size) {
  const size_t head = (sizeof(block) + 15) & ~(size_t)15;
  if (count > (SIZE_MAX / 2 - head) / (size ? size : 1)) {
    c->failed = true;
    return NULL;
  }
  const size_t n = ((size_t)(count * size) + 15) & ~(size_t)15;
  block *b = c->blocks;
  if (!b || b->size - b->used < n) {
    const size_t all = n > BLOCK ? n : BLOCK;
    b = calloc(1, head + all);
    if (!b) {
      c->failed = true;
      return NULL;
    }
    *b = (block){.next = c->blocks, .size = all};
    c->blocks = b;
  }
  void *out = (char *)b + head + b->used;
  b->used += n;
  return out;
}

static const char *grab_text(copy *c, const char *text) {
  if (!text) text = "";
  size_t n = strlen(text) + 1;
  char *out = grab(c, n, 1);
  return out ? memcpy(out, text, n) : NULL;
}

static const void *grab_bytes(copy *c, const void *bytes, uint64_t count, uint64_t size) {
  void *out = grab(c, count, size);
  if (out && count) memcpy(out, bytes, count * size);
  return out;
}

/* An array of structs the writer knew with `stride` bytes each, as ours with `size` bytes each. */
static void *grab_array(copy *c, const void *from, uint32_t n, uint32_t stride, size_t size) {
  char *out = grab(c, n, size);
  for (uint32_t i = 0; out && i < n; i++)
    memcpy(out + i * size, (const char *)from + (size_t)i * stride, stride < size ? stride : size);
  return out;
}

#define BAD(node, ...) return kit_fail(error, ACCEL_PLUGIN_E_ARGUMENT, node, __VA_ARGS__)

static int32_t check_header(const accel_plugin_program *p, accel_plugin_error *error) {
  if (p->abi >> 16 != ACCEL_PLUGIN_ABI_MAJOR)
    return kit_fail(error, ACCEL_PLUGIN_E_ABI, -1, "program of ABI %u.%u", p->abi >> 16,
                    p->abi & 0xffff);
  const struct {
    const char *what;
    uint32_t n, stride;
    const void *data;
  } part[] = {{"symbol", p->n_symbol, p->symbol_stride, p->symbol},
              {"dim", p->n_dim, p->dim_stride, p->dim},
              {"space", p->n_space, p->space_stride, p->space},
              {"tensor", p->n_tensor, p->tensor_stride, p->tensor},
              {"state", p->n_state, p->state_stride, p->state},
              {"node", p->n_node, p->node_stride, p->node},
              {"entry", p->n_entry, p->entry_stride, p->entry},
              {"weight", p->n_weight, p->weight_stride, p->weight}};
  for (size_t i = 0; i < sizeof part / sizeof *part; i++) {
    if (part[i].n && (!part[i].data || part[i].stride < 8))
      BAD(-1, "program: table of %ss is missing or has stride %u", part[i].what, part[i].stride);
    if (part[i].n > 1u << 24) BAD(-1, "program: %u %ss are too many", part[i].n, part[i].what);
  }
  return ACCEL_PLUGIN_OK;
}

static int32_t check_dims(const accel_plugin_program *p, accel_plugin_error *error) {
  for (uint32_t i = 0; i < p->n_dim; i++) {
    const accel_plugin_dim *d = &p->dim[i];
    if (d->op < ACCEL_PLUGIN_DIM_CONST || d->op > ACCEL_PLUGIN_DIM_MAX)
      return kit_fail(error, ACCEL_PLUGIN_E_UNSUPPORTED, -1,
                      "program: dim %u uses the unknown operator %d", i, d->op);
    if (d->op == ACCEL_PLUGIN_DIM_SYMBOL && (d->a < 0 || (uint32_t)d->a >= p->n_symbol))
      BAD(-1, "program: dim %u names symbol %d", i, d->a);
    if (d->op >= ACCEL_PLUGIN_DIM_ADD &&
        (d->a < 0 || d->b < 0 || (uint32_t)d->a >= i || (uint32_t)d->b >= i))
      BAD(-1, "program: dim %u uses dims that do not come before it", i);
  }
  return ACCEL_PLUGIN_OK;
}

static int32_t check_weights(const accel_plugin_program *p, accel_plugin_error *error) {
  for (uint32_t i = 0; i < p->n_weight; i++) {
    const accel_plugin_weight *w = &p->weight[i];
    if (w->rank > 4) BAD(-1, "weight '%s' has rank %u", w->name, w->rank);
    int64_t n = 1;
    for (uint32_t r = 0; r < w->rank; r++) {
      if (w->dim[r] < 0 || (w->dim[r] && n > ((int64_t)1 << 48) / w->dim[r]))
        BAD(-1, "weight '%s': dim %u is %lld", w->name, r, (long long)w->dim[r]);
      n *= w->dim[r];
    }
  }
  return ACCEL_PLUGIN_OK;
}

static int32_t check_tensors(const accel_plugin_program *p, accel_plugin_error *error) {
  for (uint32_t i = 0; i < p->n_tensor; i++) {
    const accel_plugin_tensor *t = &p->tensor[i];
    if (t->kind > ACCEL_PLUGIN_TENSOR_CONST || t->rank > ACCEL_PLUGIN_MAX_RANK)
      BAD(-1, "tensor '%s': kind %u, rank %u", t->name, t->kind, t->rank);
    if (t->dtype != ACCEL_PLUGIN_F32 && t->dtype != ACCEL_PLUGIN_I32)
      return kit_fail(error, ACCEL_PLUGIN_E_UNSUPPORTED, -1,
                      "tensor '%s' has dtype %u; programs know F32 and I32", t->name, t->dtype);
    for (uint32_t r = 0; r < t->rank; r++)
      if (t->dim[r] < 0 || (uint32_t)t->dim[r] >= p->n_dim)
        BAD(-1, "tensor '%s': dim %u is not in the table", t->name, r);
    if (t->space >= 0 && (uint32_t)t->space >= p->n_space)
      BAD(-1, "tensor '%s' names space %d", t->name, t->space);
    if (t->kind != ACCEL_PLUGIN_TENSOR_WEIGHT) continue;
    if (t->weight < 0 || (uint32_t)t->weight >= p->n_weight)
      BAD(-1, "tensor '%s' names weight %d", t->name, t->weight);
  }
  for (uint32_t i = 0; i < p->n_space; i++) {
    const accel_plugin_space *s = &p->space[i];
    if (s->rows < 0 || (uint32_t)s->rows >= p->n_dim || s->items < 0 ||
        (uint32_t)s->items >= p->n_dim)
      BAD(-1, "space '%s': dims out of range", s->name);
    if (s->lengths < 0) continue;
    if ((uint32_t)s->lengths >= p->n_tensor)
      BAD(-1, "space '%s' names tensor %d", s->name, s->lengths);
    const accel_plugin_tensor *t = &p->tensor[s->lengths];
    if (t->kind != ACCEL_PLUGIN_TENSOR_INPUT || t->dtype != ACCEL_PLUGIN_I32 || t->rank != 1)
      BAD(-1, "space '%s': its lengths '%s' are not an int32 input of rank 1", s->name, t->name);
  }
  for (uint32_t i = 0; i < p->n_state; i++) {
    const accel_plugin_state *s = &p->state[i];
    if (s->kind < ACCEL_PLUGIN_STATE_KV || s->kind > ACCEL_PLUGIN_STATE_SSM)
      return kit_fail(error, ACCEL_PLUGIN_E_UNSUPPORTED, -1, "state '%s' has the unknown kind %d",
                      s->name, s->kind);
    /* rows of at most 2^24 elements */
    int64_t heads = s->heads, widest = s->k_dim > s->v_dim ? s->k_dim : s->v_dim;
    if (heads < 0 || s->k_dim < 0 || s->v_dim < 0 || s->window < 0 || widest > 1 << 24 ||
        heads > 1 << 24 || heads * widest > 1 << 24)
      BAD(-1, "state '%s': %d x %d, %d", s->name, s->heads, s->k_dim, s->v_dim);
    if (s->share >= (int32_t)p->n_state || (s->share >= 0 && p->state[s->share].share >= 0))
      BAD(-1, "state '%s' shares state %d", s->name, s->share);
  }
  return ACCEL_PLUGIN_OK;
}

static int32_t check_node(const accel_plugin_program *p, uint32_t index,
                          accel_plugin_error *error) {
  const accel_plugin_node *n = &p->node[index];
  int32_t at = (int32_t)index;
  if (n->op < 1 || n->op > ACCEL_PLUGIN_OP_COUNT || n->version > 1)
    return kit_fail(error, ACCEL_PLUGIN_E_UNSUPPORTED, at,
                    "node %u: op %u version %u is unknown to this plugin", index, n->op,
                    n->version);
  for (uint32_t i = 0; i < n->n_in; i++)
    if (n->in[i] < -1 || n->in[i] >= (int32_t)p->n_tensor)
      BAD(at, "node %u (%s): operand %u is tensor %d", index, kit_op_name(n->op), i, n->in[i]);
  if (n->n_out < 1 || n->n_out > KIT_RESULTS)
    BAD(at, "node %u (%s): %u results", index, kit_op_name(n->op), n->n_out);
  for (uint32_t i = 0; i < n->n_out; i++)
    if (n->out[i] < -1 || n->out[i] >= (int32_t)p->n_tensor ||
        (n->out[i] >= 0 && p->tensor[n->out[i]].kind != ACCEL_PLUGIN_TENSOR_VALUE))
      BAD(at, "node %u (%s): result %u is tensor %d", index, kit_op_name(n->op), i, n->out[i]);
  for (uint32_t i = 0; i < n->n_attr; i++) {
    const accel_plugin_attr *a = &n->attr[i];
    if (!attr_known(a->key) || a->type < ACCEL_PLUGIN_ATTR_I || a->type > ACCEL_PLUGIN_ATTR_D)
      return kit_fail(error, ACCEL_PLUGIN_E_UNSUPPORTED, at,
                      "node %u (%s): attribute %u of type %u is unknown to this plugin", index,
                      kit_op_name(n->op), a->key, a->type);
    for (uint32_t k = 0; a->type == ACCEL_PLUGIN_ATTR_D && k < a->n; k++)
      if (a->v[k] < 0 || a->v[k] >= (int64_t)p->n_dim)
        BAD(at, "node %u (%s): attribute %u names dim %lld", index, kit_op_name(n->op), a->key,
            (long long)a->v[k]);
    if ((a->key == ACCEL_PLUGIN_ATTR_Q_SPACE || a->key == ACCEL_PLUGIN_ATTR_KV_SPACE ||
         a->key == ACCEL_PLUGIN_ATTR_SPACE) &&
        a->i >= (int64_t)p->n_space)
      BAD(at, "node %u (%s): names space %lld", index, kit_op_name(n->op), (long long)a->i);
  }
  if (n->state >= (int32_t)p->n_state)
    BAD(at, "node %u (%s): names state %d", index, kit_op_name(n->op), n->state);
  return ACCEL_PLUGIN_OK;
}

/* Every operand of every node of the entry is an input of it, a weight, a constant, or computed by
 * an earlier node. */
static int32_t check_entry(const accel_plugin_program *p, const accel_plugin_entry *e,
                           uint8_t *known, accel_plugin_error *error) {
  for (uint32_t i = 0; i < p->n_tensor; i++)
    known[i] = p->tensor[i].kind >= ACCEL_PLUGIN_TENSOR_WEIGHT;
  for (uint32_t i = 0; i < e->n_in; i++) {
    if (e->in[i] < 0 || (uint32_t)e->in[i] >= p->n_tensor ||
        p->tensor[e->in[i]].kind != ACCEL_PLUGIN_TENSOR_INPUT)
      BAD(-1, "entry '%s': input %u is tensor %d, which is no input", e->name, i, e->in[i]);
    known[e->in[i]] = 1;
  }
  for (uint32_t i = 0; i < e->n_node; i++) {
    if (e->node[i] < 0 || (uint32_t)e->node[i] >= p->n_node)
      BAD(-1, "entry '%s': node %d is not in the table", e->name, e->node[i]);
    const accel_plugin_node *n = &p->node[e->node[i]];
    for (uint32_t k = 0; k < n->n_in; k++)
      if (n->in[k] >= 0 && !known[n->in[k]])
        BAD(e->node[i], "entry '%s', node %d (%s): operand '%s' is not known yet", e->name,
            e->node[i], kit_op_name(n->op), kit_tensor_name(p, n->in[k]));
    for (uint32_t k = 0; k < n->n_out; k++) {
      if (n->out[k] < 0) continue;
      if (known[n->out[k]])
        BAD(e->node[i], "entry '%s', node %d: '%s' is computed twice", e->name, e->node[i],
            kit_tensor_name(p, n->out[k]));
      known[n->out[k]] = 1;
    }
  }
  for (uint32_t i = 0; i < e->n_out; i++)
    if (e->out[i] < 0 || (uint32_t)e->out[i] >= p->n_tensor || !known[e->out[i]])
      BAD(-1, "entry '%s': output %u is never computed", e->name, i);
  return ACCEL_PLUGIN_OK;
}

static int32_t check_program(copy *c, accel_plugin_error *error) {
  const accel_plugin_program *p = &c->program;
  int32_t rc = check_dims(p, error);
  if (!rc) rc = check_weights(p, error);
  if (!rc) rc = check_tensors(p, error);
  for (uint32_t i = 0; !rc && i < p->n_node; i++) rc = check_node(p, i, error);
  uint8_t *known = grab(c, p->n_tensor, 1);
  if (!rc && !known) return kit_no_memory(error, p->n_tensor);
  for (uint32_t i = 0; !rc && i < p->n_entry; i++) rc = check_entry(p, &p->entry[i], known, error);
  return rc;
}

/* Constants carry their elements: their dims must be constant. */
static int32_t copy_constants(copy *c, accel_plugin_tensor *tensor, accel_plugin_error *error) {
  const accel_plugin_program *p = &c->program;
  int64_t *dim = grab(c, p->n_dim, sizeof *dim), *symbol = grab(c, p->n_symbol, sizeof *symbol);
  if (!dim || !symbol) return kit_no_memory(error, p->n_dim * sizeof *dim);
  for (uint32_t i = 0; i < p->n_symbol; i++) symbol[i] = ACCEL_DIM_UNBOUND;
  accel_dims_evaluate(p, symbol, dim);
  for (uint32_t i = 0; i < p->n_tensor; i++) {
    kit_tensor shape;
    if (tensor[i].kind != ACCEL_PLUGIN_TENSOR_CONST && tensor[i].kind != ACCEL_PLUGIN_TENSOR_WEIGHT)
      continue;
    int32_t rc = kit_shape(p, dim, (int32_t)i, &shape, error);
    if (rc) return rc;
    if (tensor[i].kind == ACCEL_PLUGIN_TENSOR_WEIGHT) {
      if (shape.elements != kit_weight_elements(&p->weight[tensor[i].weight]))
        BAD(-1, "tensor '%s' and its weight differ in size", tensor[i].name);
      continue;
    }
    if (shape.elements && !tensor[i].data) BAD(-1, "constant '%s' has no elements", tensor[i].name);
    tensor[i].data = grab_bytes(c, tensor[i].data, (uint64_t)shape.elements, 4);
  }
  return ACCEL_PLUGIN_OK;
}

static void copy_node(copy *c, accel_plugin_node *n) {
  n->in = grab_bytes(c, n->in, n->n_in, sizeof *n->in);
  n->out = grab_bytes(c, n->out, n->n_out, sizeof *n->out);
  accel_plugin_attr *a = (accel_plugin_attr *)grab_bytes(c, n->attr, n->n_attr, sizeof *a);
  for (uint32_t i = 0; a && i < n->n_attr; i++) {
    if (!a[i].v) a[i].n = 0;
    a[i].v = grab_bytes(c, a[i].v, a[i].n, sizeof *a[i].v);
  }
  n->attr = a;
}

static int32_t fill(copy *c, const accel_plugin_program *source, accel_plugin_error *error) {
  accel_plugin_program *p = &c->program;
  kit_read_struct(p, sizeof *p, source, source->size);
  int32_t rc = check_header(p, error);
  if (rc) return rc;
  accel_plugin_symbol *symbol =
      grab_array(c, p->symbol, p->n_symbol, p->symbol_stride, sizeof *symbol);
  accel_plugin_dim *dim = grab_array(c, p->dim, p->n_dim, p->dim_stride, sizeof *dim);
  accel_plugin_space *space = grab_array(c, p->space, p->n_space, p->space_stride, sizeof *space);
  accel_plugin_tensor *tensor =
      grab_array(c, p->tensor, p->n_tensor, p->tensor_stride, sizeof *tensor);
  accel_plugin_state *state = grab_array(c, p->state, p->n_state, p->state_stride, sizeof *state);
  accel_plugin_node *node = grab_array(c, p->node, p->n_node, p->node_stride, sizeof *node);
  accel_plugin_entry *entry = grab_array(c, p->entry, p->n_entry, p->entry_stride, sizeof *entry);
  accel_plugin_weight *weight =
      grab_array(c, p->weight, p->n_weight, p->weight_stride, sizeof *weight);
  if (c->failed) return kit_no_memory(error, 0);
  p->name = grab_text(c, p->name);
  for (uint32_t i = 0; i < p->n_symbol; i++) symbol[i].name = grab_text(c, symbol[i].name);
  for (uint32_t i = 0; i < p->n_space; i++) space[i].name = grab_text(c, space[i].name);
  for (uint32_t i = 0; i < p->n_tensor; i++) tensor[i].name = grab_text(c, tensor[i].name);
  for (uint32_t i = 0; i < p->n_state; i++) state[i].name = grab_text(c, state[i].name);
  for (uint32_t i = 0; i < p->n_weight; i++) weight[i].name = grab_text(c, weight[i].name);
  for (uint32_t i = 0; i < p->n_node; i++) copy_node(c, &node[i]);
  for (uint32_t i = 0; i < p->n_entry; i++) {
    entry[i].name = grab_text(c, entry[i].name);
    entry[i].node = grab_bytes(c, entry[i].node, entry[i].n_node, sizeof *entry[i].node);
    entry[i].in = grab_bytes(c, entry[i].in, entry[i].n_in, sizeof *entry[i].in);
    entry[i].out = grab_bytes(c, entry[i].out, entry[i].n_out, sizeof *entry[i].out);
  }
  p->size = sizeof *p;
  p->symbol = symbol, p->symbol_stride = sizeof *symbol;
  p->dim = dim, p->dim_stride = sizeof *dim;
  p->space = space, p->space_stride = sizeof *space;
  p->tensor = tensor, p->tensor_stride = sizeof *tensor;
  p->state = state, p->state_stride = sizeof *state;
  p->node = node, p->node_stride = sizeof *node;
  p->entry = entry, p->entry_stride = sizeof *entry;
  p->weight = weight, p->weight_stride = sizeof *weight;
  if (c->failed) return kit_no_memory(error, 0);
  rc = check_program(c, error);
  if (!rc) rc = copy_constants(c, tensor, error);
  return rc ? rc : c->failed ? kit_no_memory(error, 0) : ACCEL_PLUGIN_OK;
}

int32_t kit_program_copy(const accel_plugin_program *source, accel_plugin_program **out,
                         accel_plugin_error *error) {
  *out = NULL;
  if (!source) BAD(-1, "no program");
  copy *c = calloc(1, sizeof *c);
  if (!c) return kit_no_memory(error, sizeof *c);
  int32_t rc = fill(c, source, error);
  if (rc) {
    kit_program_free(&c->program);
    return rc;
  }
  *out = &c->program;
  return ACCEL_PLUGIN_OK;
}

void kit_program_free(accel_plugin_program *program) {
  copy *c = (copy *)program;
  if (!c) return;
  for (block *b = c->blocks, *next; b; b = next) {
    next = b->next;
    free(b);
  }
  free(c);
}
