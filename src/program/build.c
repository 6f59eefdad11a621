/* build.c - the program builder: tensors, spaces, weights, nodes, entries, and finishing. */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "program/program_internal.h"

accel__program *accel__program_new(const char *name) {
  accel__program *p = calloc(1, sizeof *p);
  if (p == NULL) {
    accel__no_memory(sizeof *p);
    return NULL;
  }
  p->next_state = -1;
  p->path = "";
  p->view.name = accel__arena_string(&p->arena, name);
  if (p->view.name == NULL) accel__program_free(&p);
  return p;
}

void accel__program_free(accel__program **program) {
  if (program == NULL || *program == NULL) return;
  accel__program *p = *program;
  free(p->symbol);
  free(p->dim);
  free(p->space);
  free(p->tensor);
  free(p->state);
  free(p->node);
  free(p->entry);
  free(p->weight);
  free(p->spec);
  free(p->sample);
  accel__map_free(&p->names);
  accel__map_free(&p->counts);
  accel__map_free(&p->weights);
  accel__arena_free(&p->arena);
  free(p);
  *program = NULL;
}

bool accel__program_failed(const accel__program *p) { return p->status != ACCEL_OK; }
accel__arena *accel__program_arena(accel__program *p) { return &p->arena; }

int32_t accel__program_fail(accel__program *p, accel_status code, const char *format, ...) {
  if (p->status != ACCEL_OK) return -1;
  p->status = code;
  char text[1024];
  va_list args;
  va_start(args, format);
  vsnprintf(text, sizeof text, format, args);
  va_end(args);
  p->message = accel__arena_string(&p->arena, text);
  return -1;
}

bool accel__program_grow(accel__program *p, void **array, uint32_t *capacity, uint32_t n,
                         size_t size) {
  if (n >= ACCEL__MAX_ITEMS) {
    accel__program_fail(p, ACCEL_ERROR_LIMIT, "the program has more than %d items of one kind",
                        ACCEL__MAX_ITEMS);
    return false;
  }
  if (n < *capacity) return true;
  uint32_t wanted = *capacity == 0 ? 64 : *capacity * 2;
  void *bigger = realloc(*array, wanted * size);
  if (bigger == NULL) {
    accel__program_fail(p, ACCEL_ERROR_OUT_OF_MEMORY, "no memory for %zu bytes of program",
                        wanted * size);
    return false;
  }
  *array = bigger;
  *capacity = wanted;
  return true;
}
#define GROW(p, field)                                                            \
  accel__program_grow(p, (void **)&(p)->field, &(p)->cap_##field, (p)->n_##field, \
                      sizeof *(p)->field)

static char *format_name(accel__program *p, const char *format, va_list args) {
  char text[256];
  vsnprintf(text, sizeof text, format, args);
  return accel__arena_string(&p->arena, text);
}

/* A component of the path is a number. */
static bool is_numbered(const char *path) {
  for (const char *at = path; at != NULL; at = strchr(at, '.')) {
    if (*at == '.') at++;
    const size_t digits = strspn(at, "0123456789");
    if (digits > 0 && (at[digits] == '.' || at[digits] == '\0')) return true;
  }
  return false;
}

uint32_t accel__program_layers(const accel__program *p) { return p->n_layer; }

void accel__at(accel__program *p, uint32_t stage, const char *format, ...) {
  if (p->status != ACCEL_OK) return;
  va_list args;
  va_start(args, format);
  const char *path = format_name(p, format, args);
  va_end(args);
  if (path == NULL) {
    accel__program_fail(p, ACCEL_ERROR_OUT_OF_MEMORY, "no memory for a name");
    return;
  }
  p->path = path;
  p->stage = stage;
  if (stage > p->n_layer && is_numbered(path)) p->n_layer = stage;
}

/* `base` itself the first time it is asked for, then base.2, base.3 ... */
static const char *unique_name(accel__program *p, const char *base) {
  int64_t count = 0, taken;
  size_t n = strlen(base);
  accel__map_get(&p->counts, base, n, &count);
  char *name = accel__arena_string(&p->arena, base);
  char *key = name;
  do {
    count++;
    if (count > 1) name = accel__arena_printf(&p->arena, "%s.%lld", base, (long long)count);
    if (name == NULL || key == NULL) {
      accel__program_fail(p, ACCEL_ERROR_OUT_OF_MEMORY, "no memory for a name");
      return NULL;
    }
  } while (accel__map_get(&p->names, name, strlen(name), &taken));
  if (accel__map_set(&p->counts, key, n, count) != ACCEL_OK) {
    accel__program_fail(p, ACCEL_ERROR_OUT_OF_MEMORY, "no memory for a name");
    return NULL;
  }
  return name;
}

/* Appends a tensor whose name is already unique and in the arena. */
static accel__tensor add_tensor(accel__program *p, const accel_plugin_tensor *t) {
  if (t->name == NULL)
    return accel__program_fail(p, ACCEL_ERROR_OUT_OF_MEMORY, "no memory for a name");
  if (!GROW(p, tensor)) return -1;
  if (accel__map_set(&p->names, t->name, strlen(t->name), p->n_tensor) != ACCEL_OK) {
    return accel__program_fail(p, ACCEL_ERROR_OUT_OF_MEMORY, "no memory for a name");
  }
  p->tensor[p->n_tensor] = *t;
  return (accel__tensor)p->n_tensor++;
}

static bool tensor_ok(const accel__program *p, accel__tensor t) {
  return t >= 0 && (uint32_t)t < p->n_tensor;
}
static bool dim_ok(const accel__program *p, accel__dim d) {
  return d >= 0 && (uint32_t)d < p->n_dim;
}

void accel__name(accel__program *p, accel__tensor t, const char *format, ...) {
  if (p->status != ACCEL_OK || !tensor_ok(p, t) || p->tensor[t].kind != ACCEL_PLUGIN_TENSOR_VALUE)
    return;
  va_list args;
  va_start(args, format);
  const char *base = format_name(p, format, args);
  va_end(args);
  const char *name = base == NULL ? NULL : unique_name(p, base);
  if (name == NULL || accel__map_set(&p->names, name, strlen(name), t) != ACCEL_OK) {
    accel__program_fail(p, ACCEL_ERROR_OUT_OF_MEMORY, "no memory for a name");
    return;
  }
  p->tensor[t].name = name;
}

uint32_t accel__rank(const accel__program *p, accel__tensor t) {
  return tensor_ok(p, t) ? p->tensor[t].rank : 0;
}

accel__dim accel__tensor_dim(const accel__program *p, accel__tensor t, int32_t axis) {
  if (!tensor_ok(p, t)) return -1;
  int32_t rank = p->tensor[t].rank, at = axis < 0 ? axis + rank : axis;
  return at < 0 || at >= rank ? -1 : p->tensor[t].dim[at];
}

/* Dim 0 of a tensor in a space must be the space's rows. */
static bool rows_of_space(accel__program *p, int32_t space, accel__dim rows) {
  const accel_plugin_space *s = &p->space[space];
  accel__dim all =
      s->lengths >= 0 ? s->rows : accel__dim_op(p, ACCEL_PLUGIN_DIM_MUL, s->rows, s->items);
  return accel__dims_equal(p, rows, all);
}

accel__tensor accel__input(accel__program *p, const char *name, accel_plugin_dtype dtype,
                           int32_t space, uint32_t rank, const accel__dim *dims) {
  if (p->status != ACCEL_OK) return -1;
  int64_t taken;
  if (accel__map_get(&p->names, name, strlen(name), &taken)) {
    return accel__program_fail(p, ACCEL_ERROR_INTERNAL, "input '%s' is defined twice", name);
  }
  if (rank > ACCEL_PLUGIN_MAX_RANK || (dtype != ACCEL_PLUGIN_F32 && dtype != ACCEL_PLUGIN_I32)) {
    return accel__program_fail(p, ACCEL_ERROR_INTERNAL,
                               "input '%s': rank %u or dtype %d is not possible", name, rank,
                               (int)dtype);
  }
  accel_plugin_tensor t = {.kind = ACCEL_PLUGIN_TENSOR_INPUT,
                           .dtype = (uint8_t)dtype,
                           .rank = (uint8_t)rank,
                           .weight = -1,
                           .space = space};
  for (uint32_t i = 0; i < rank; i++) {
    if (!dim_ok(p, dims[i]))
      return accel__program_fail(p, ACCEL_ERROR_INTERNAL, "input '%s': dim %u does not exist", name,
                                 i);
    t.dim[i] = dims[i];
  }
  if (space >= 0 &&
      ((uint32_t)space >= p->n_space || rank == 0 || !rows_of_space(p, space, dims[0]))) {
    return accel__program_fail(p, ACCEL_ERROR_INTERNAL,
                               "input '%s': its first dim is not the rows of its space", name);
  }
  t.name = accel__arena_string(&p->arena, name);
  return add_tensor(p, &t);
}

static int32_t add_space(accel__program *p, const char *name, int32_t lengths, accel__dim rows,
                         accel__dim items) {
  if (!dim_ok(p, rows) || !dim_ok(p, items))
    return accel__program_fail(p, ACCEL_ERROR_INTERNAL, "space '%s': unknown dim", name);
  if (!GROW(p, space)) return -1;
  char *copy = accel__arena_string(&p->arena, name);
  if (copy == NULL)
    return accel__program_fail(p, ACCEL_ERROR_OUT_OF_MEMORY, "no memory for space '%s'", name);
  p->space[p->n_space] =
      (accel_plugin_space){.name = copy, .lengths = lengths, .rows = rows, .items = items};
  return (int32_t)p->n_space++;
}

int32_t accel__space_ragged(accel__program *p, const char *name, accel__tensor lengths,
                            accel__dim rows, accel__dim items) {
  if (p->status != ACCEL_OK) return -1;
  const accel_plugin_tensor *t = tensor_ok(p, lengths) ? &p->tensor[lengths] : NULL;
  if (t == NULL || t->kind != ACCEL_PLUGIN_TENSOR_INPUT || t->dtype != ACCEL_PLUGIN_I32 ||
      t->rank != 1 || t->dim[0] != items) {
    return accel__program_fail(p, ACCEL_ERROR_INTERNAL,
                               "space '%s': lengths must be an int32 input [items]", name);
  }
  return add_space(p, name, lengths, rows, items);
}

int32_t accel__space_fixed(accel__program *p, const char *name, accel__dim rows_per_item,
                           accel__dim items) {
  if (p->status != ACCEL_OK) return -1;
  return add_space(p, name, -1, rows_per_item, items);
}

/* Elements of constant dims; 0 and a failure when one is not positive or the product is beyond
 * 2^48. */
static uint64_t count_elements(accel__program *p, const char *name, uint32_t rank,
                               const int64_t *dims) {
  uint64_t n = 1;
  for (uint32_t i = 0; i < rank; i++) {
    if (dims[i] <= 0 || __builtin_mul_overflow(n, (uint64_t)dims[i], &n) ||
        n > (UINT64_C(1) << 48)) {
      accel__program_fail(p, ACCEL_ERROR_FORMAT, "'%s': dim %u is %lld, or the tensor is too large",
                          name, i, (long long)dims[i]);
      return 0;
    }
  }
  return n;
}

static accel__tensor constant(accel__program *p, const char *name, accel_plugin_dtype dtype,
                              uint32_t rank, const int64_t *dims, const void *values) {
  if (p->status != ACCEL_OK) return -1;
  if (rank > ACCEL_PLUGIN_MAX_RANK)
    return accel__program_fail(p, ACCEL_ERROR_INTERNAL, "constant '%s': rank %u", name, rank);
  uint64_t n = count_elements(p, name, rank, dims);
  if (n == 0) return -1;
  accel_plugin_tensor t = {.kind = ACCEL_PLUGIN_TENSOR_CONST,
                           .dtype = (uint8_t)dtype,
                           .rank = (uint8_t)rank,
                           .weight = -1,
                           .space = -1};
  for (uint32_t i = 0; i < rank; i++) t.dim[i] = accel__const_dim(p, dims[i]);
  void *copy = accel__arena_array(&p->arena, n, 4);
  if (copy == NULL)
    return accel__program_fail(p, ACCEL_ERROR_OUT_OF_MEMORY, "no memory for constant '%s'", name);
  memcpy(copy, values, n * 4);
  t.data = copy;
  t.name = unique_name(p, name);
  return p->status != ACCEL_OK ? -1 : add_tensor(p, &t);
}

accel__tensor accel__constant_f32(accel__program *p, const char *name, uint32_t rank,
                                  const int64_t *dims, const float *values) {
  return constant(p, name, ACCEL_PLUGIN_F32, rank, dims, values);
}
accel__tensor accel__constant_i32(accel__program *p, const char *name, uint32_t rank,
                                  const int64_t *dims, const int32_t *values) {
  return constant(p, name, ACCEL_PLUGIN_I32, rank, dims, values);
}

/* ---- weights ---- */

/* The tensor of weight `index` when the spec repeats it; -1 with a failure when its dims differ. */
static accel__tensor same_weight(accel__program *p, uint32_t index, const accel__weight_spec *spec,
                                 const char *name) {
  const accel_plugin_weight *w = &p->weight[index];
  bool same = w->rank == spec->rank;
  for (uint32_t i = 0; same && i < w->rank; i++) same = w->dim[i] == spec->dim[i];
  if (!same)
    return accel__program_fail(p, ACCEL_ERROR_FORMAT,
                               "weight '%s' is wanted with two different shapes", name);
  for (uint32_t i = 0; i < p->n_tensor; i++) {
    if (p->tensor[i].weight == (int32_t)index) return (accel__tensor)i;
  }
  return accel__program_fail(p, ACCEL_ERROR_INTERNAL, "weight '%s' has no tensor", name);
}

static bool copy_spec(accel__program *p, const accel__weight_spec *spec, const char *name) {
  accel__weight_spec copy = *spec;
  copy.name = name;
  if (copy.n_parts == 0) {
    copy.n_parts = 1;
    copy.parts[0] = spec->parts[0] != NULL ? spec->parts[0] : name;
  }
  for (uint32_t i = 0; i < copy.n_parts && i < 4 && copy.many == NULL; i++) {
    copy.parts[i] = accel__arena_string(&p->arena, copy.parts[i]);
    if (copy.parts[i] == NULL) {
      accel__program_fail(p, ACCEL_ERROR_OUT_OF_MEMORY, "no memory for weight '%s'", name);
      return false;
    }
  }
  if (!accel__program_grow(p, (void **)&p->spec, &p->cap_spec, p->n_weight, sizeof *p->spec))
    return false;
  p->spec[p->n_weight] = copy;
  return true;
}

accel__tensor accel__weight(accel__program *p, const accel__weight_spec *spec) {
  if (p->status != ACCEL_OK) return -1;
  const char *given = spec->name != NULL ? spec->name : spec->parts[0];
  if (given == NULL || spec->rank > 4 || (spec->n_parts > 4 && spec->many == NULL))
    return accel__program_fail(p, ACCEL_ERROR_INTERNAL, "a weight without a name");
  int64_t index;
  if (accel__map_get(&p->weights, given, strlen(given), &index))
    return same_weight(p, (uint32_t)index, spec, given);
  if (count_elements(p, given, spec->rank, spec->dim) == 0) return -1;
  const char *name = accel__arena_string(&p->arena, given);
  if (name == NULL || !GROW(p, weight) || !copy_spec(p, spec, name))
    return accel__program_fail(p, ACCEL_ERROR_OUT_OF_MEMORY, "no memory");
  accel_plugin_weight *w = &p->weight[p->n_weight];
  *w = (accel_plugin_weight){
      .name = name, .rank = spec->rank, .stage = p->stage, .use = (uint32_t)spec->use};
  memcpy(w->dim, spec->dim, sizeof w->dim);
  if (accel__map_set(&p->weights, name, strlen(name), p->n_weight) != ACCEL_OK) {
    return accel__program_fail(p, ACCEL_ERROR_OUT_OF_MEMORY, "no memory for weight '%s'", name);
  }
  accel_plugin_tensor t = {.kind = ACCEL_PLUGIN_TENSOR_WEIGHT,
                           .dtype = ACCEL_PLUGIN_F32,
                           .rank = (uint8_t)spec->rank,
                           .weight = (int32_t)p->n_weight,
                           .space = -1};
  for (uint32_t i = 0; i < spec->rank; i++) t.dim[i] = accel__const_dim(p, spec->dim[i]);
  p->n_weight++;
  t.name = unique_name(p, name);
  return p->status != ACCEL_OK ? -1 : add_tensor(p, &t);
}

const accel__weight_spec *accel__weight_source(const accel__program *p, uint32_t weight) {
  return weight < p->n_weight ? &p->spec[weight] : NULL;
}

/* ---- state ---- */

int32_t accel__state(accel__program *p, const accel_plugin_state *state) {
  if (p->status != ACCEL_OK) return -1;
  if (!GROW(p, state)) return -1;
  p->state[p->n_state] = *state;
  p->state[p->n_state].name = accel__arena_string(&p->arena, state->name);
  if (p->state[p->n_state].name == NULL)
    return accel__program_fail(p, ACCEL_ERROR_OUT_OF_MEMORY, "no memory for state '%s'",
                               state->name);
  return (int32_t)p->n_state++;
}

void accel__with_state(accel__program *p, int32_t state) { p->next_state = state; }

/* ---- nodes ---- */

static bool copy_attributes(accel__program *p, const accel__attr *attr, uint32_t n,
                            accel_plugin_attr **out) {
  accel_plugin_attr *copy = accel__arena_array(&p->arena, n, sizeof *copy);
  if (copy == NULL) return false;
  for (uint32_t i = 0; i < n; i++) {
    copy[i] = (accel_plugin_attr){.key = (uint16_t)attr[i].key,
                                  .type = (uint16_t)attr[i].type,
                                  .n = attr[i].n,
                                  .i = attr[i].i,
                                  .f = attr[i].f};
    if (attr[i].v == NULL) continue;
    int64_t *values = accel__arena_array(&p->arena, attr[i].n, sizeof *values);
    if (values == NULL) return false;
    if (attr[i].n > 0) memcpy(values, attr[i].v, attr[i].n * sizeof *values);
    copy[i].v = values;
  }
  *out = copy;
  return true;
}

/* The result's name: the path, or path.op. */
static const char *result_name(accel__program *p, const char *op, uint32_t k) {
  char base[320];
  if (p->path[0] == '\0')
    snprintf(base, sizeof base, "%s%s", op, k > 0 ? ".second" : "");
  else
    snprintf(base, sizeof base, "%s.%s%s", p->path, op, k > 0 ? ".second" : "");
  return unique_name(p, base);
}

/* Adds node c and the tensors of its results; returns the first. */
static accel__tensor append_node(accel__program *p, const accel__infer *c, const char *first_name,
                                 accel__tensor *out) {
  int32_t *in = accel__arena_array(&p->arena, c->n_in, sizeof *in);
  int32_t *results = accel__arena_array(&p->arena, c->n_out, sizeof *results);
  if (in == NULL || results == NULL || !GROW(p, node))
    return accel__program_fail(p, ACCEL_ERROR_OUT_OF_MEMORY, "no memory for a node");
  if (c->n_in > 0) memcpy(in, c->in, c->n_in * sizeof *in);
  for (uint32_t k = 0; k < c->n_out; k++) {
    accel_plugin_tensor t = c->out[k];
    t.kind = ACCEL_PLUGIN_TENSOR_VALUE;
    t.weight = -1;
    t.name = k == 0 ? first_name : result_name(p, c->signature->name, k);
    results[k] = p->status == ACCEL_OK ? add_tensor(p, &t) : -1;
    if (results[k] < 0) return -1;
    if (out != NULL) out[k] = results[k];
  }
  p->node[p->n_node++] = (accel_plugin_node){.op = (uint16_t)c->op,
                                             .version = 1,
                                             .n_in = (uint16_t)c->n_in,
                                             .n_out = (uint16_t)c->n_out,
                                             .in = in,
                                             .out = results,
                                             .attr = c->attr,
                                             .n_attr = c->n_attr,
                                             .stage = p->stage,
                                             .state = c->state};
  return results[0];
}

accel__tensor accel__node(accel__program *p, accel_plugin_op op, const accel__tensor *in,
                          uint32_t n_in, const accel__attr *attr, uint32_t n_attr,
                          accel__tensor *out, uint32_t n_out) {
  for (uint32_t k = 0; out != NULL && k < n_out; k++) out[k] = -1;
  if (p->status != ACCEL_OK) return -1;
  if (p->finished) return accel__program_fail(p, ACCEL_ERROR_INTERNAL, "the program is finished");
  if (op == ACCEL_PLUGIN_OP_LINEAR && p->low_rank && p->next_state < 0) {
    const accel__tensor made = accel__linear_low_rank(p, in, n_in, attr, n_attr);
    if (out != NULL && n_out > 0) out[0] = made;
    return made;
  }
  accel__signature signature;
  if (!accel__op_signature((int)op, &signature))
    return accel__program_fail(p, ACCEL_ERROR_INTERNAL, "there is no op %d", (int)op);
  while (n_in > 0 && in[n_in - 1] < 0) n_in--; /* absent operands at the end are left off */
  if (n_out == 0) n_out = 1;
  const char *name = result_name(p, signature.name, 0);
  accel_plugin_attr *copy = NULL;
  if (name == NULL || !copy_attributes(p, attr, n_attr, &copy))
    return accel__program_fail(p, ACCEL_ERROR_OUT_OF_MEMORY, "no memory for a node");
  accel__infer c = {.p = p,
                    .op = (int)op,
                    .signature = &signature,
                    .in = in,
                    .n_in = n_in,
                    .attr = copy,
                    .n_attr = n_attr,
                    .state = p->next_state,
                    .n_out = n_out};
  p->next_state = -1;
  accel__buffer message = {0};
  accel__tensor result = -1;
  if (accel__check_node(&c, name, &message))
    result = append_node(p, &c, name, out);
  else
    accel__program_fail(p, ACCEL_ERROR_ARGUMENT, "%s", message.data != NULL ? message.data : c.why);
  accel__buffer_free(&message);
  return result;
}

/* ---- entries ---- */

accel_status accel__entry(accel__program *p, const char *name, const accel__tensor *in,
                          uint32_t n_in, const accel__tensor *out, uint32_t n_out) {
  if (p->status != ACCEL_OK) return p->status;
  if (!GROW(p, entry)) return p->status;
  int32_t *inputs = accel__arena_array(&p->arena, n_in, sizeof *inputs);
  int32_t *outputs = accel__arena_array(&p->arena, n_out, sizeof *outputs);
  char *copy = accel__arena_string(&p->arena, name);
  if (inputs == NULL || outputs == NULL || copy == NULL) {
    accel__program_fail(p, ACCEL_ERROR_OUT_OF_MEMORY, "no memory for entry '%s'", name);
    return p->status;
  }
  for (uint32_t i = 0; i < n_in; i++) {
    inputs[i] = in[i];
    if (tensor_ok(p, in[i]) && p->tensor[in[i]].kind == ACCEL_PLUGIN_TENSOR_INPUT) continue;
    accel__program_fail(p, ACCEL_ERROR_INTERNAL, "entry '%s': input %u is no input tensor", name,
                        i);
    return p->status;
  }
  for (uint32_t i = 0; i < n_out; i++) {
    outputs[i] = out[i];
    if (tensor_ok(p, out[i]) && p->tensor[out[i]].kind == ACCEL_PLUGIN_TENSOR_VALUE) continue;
    accel__program_fail(p, ACCEL_ERROR_INTERNAL, "entry '%s': output %u is not computed by a node",
                        name, i);
    return p->status;
  }
  p->entry[p->n_entry++] = (accel_plugin_entry){
      .name = copy, .in = inputs, .n_in = n_in, .out = outputs, .n_out = n_out};
  return ACCEL_OK;
}

/* Marks what the entry's outputs need, from the last node to the first, and lists those nodes in
 * order. */
static bool list_nodes(accel__program *p, accel_plugin_entry *e) {
  uint8_t *needed = calloc(p->n_tensor + 1, 1);
  int32_t *list = accel__arena_array(&p->arena, p->n_node, sizeof *list);
  if (needed == NULL || list == NULL) {
    free(needed);
    accel__program_fail(p, ACCEL_ERROR_OUT_OF_MEMORY, "no memory for entry '%s'", e->name);
    return false;
  }
  for (uint32_t i = 0; i < e->n_out; i++) needed[e->out[i]] = 1;
  uint32_t n = 0;
  for (uint32_t i = p->n_node; i-- > 0;) {
    const accel_plugin_node *node = &p->node[i];
    bool wanted = false;
    for (uint32_t k = 0; k < node->n_out; k++)
      wanted = wanted || (node->out[k] >= 0 && needed[node->out[k]]);
    if (!wanted) continue;
    for (uint32_t k = 0; k < node->n_in; k++) {
      if (node->in[k] >= 0) needed[node->in[k]] = 1;
    }
    list[n++] = (int32_t)i;
  }
  for (uint32_t i = 0; i < n / 2; i++) {
    int32_t t = list[i];
    list[i] = list[n - 1 - i];
    list[n - 1 - i] = t;
  }
  free(needed);
  e->node = list;
  e->n_node = n;
  return true;
}

void accel__program_peek(const accel__program *p, accel_plugin_program *view) {
  *view = p->view;
  view->size = sizeof *view;
  view->abi = ACCEL_PLUGIN_ABI_NOW;
#define SHOW(field) \
  (view->field = p->field, view->n_##field = p->n_##field, view->field##_stride = sizeof *p->field)
  SHOW(symbol), SHOW(dim), SHOW(space), SHOW(tensor), SHOW(state), SHOW(node), SHOW(entry),
      SHOW(weight);
#undef SHOW
  view->n_stage = 0;
  for (uint32_t i = 0; i < p->n_node; i++) {
    if (p->node[i].stage >= view->n_stage) view->n_stage = p->node[i].stage + 1;
  }
}

/* Of the text form (everything but the constants' values), the constants, and where each weight
 * comes from.  Whose weights they are, accel__program_identify adds. */
static bool hash_program(accel__program *p) {
  accel__buffer text = {0};
  accel__program_text(&p->view, &text);
  for (uint32_t i = 0; i < p->n_weight; i++) {
    const accel__weight_spec *s = &p->spec[i];
    for (uint32_t k = 0; k < s->n_parts; k++)
      accel__buffer_printf(&text, "%s\n", s->many != NULL ? s->many[k] : s->parts[k]);
    accel__buffer_printf(&text, "%lld %lld %lld %lld %d\n", (long long)s->first_row,
                         (long long)s->stored_rows, (long long)s->block_rows,
                         (long long)s->block_step, s->derive != NULL);
    for (uint32_t k = 0; k < 2 && s->also[k].rows > 0; k++)
      accel__buffer_printf(&text, "%lld %lld\n", (long long)s->also[k].first,
                           (long long)s->also[k].rows);
    const accel__share_axis *share[2] = {&s->share.rows, &s->share.columns};
    for (int k = 0; p->world > 1 && k < 2; k++)
      accel__buffer_printf(&text, "%lld %lld %lld\n", (long long)share[k]->period,
                           (long long)share[k]->first, (long long)share[k]->count);
  }
  for (uint32_t i = 0; i < p->n_tensor; i++) {
    const accel_plugin_tensor *t = &p->tensor[i];
    uint64_t n = 4;
    if (t->kind != ACCEL_PLUGIN_TENSOR_CONST) continue;
    for (uint32_t k = 0; k < t->rank; k++) n *= (uint64_t)p->dim[t->dim[k]].c;
    accel__buffer_bytes(&text, t->data, n);
  }
  bool ok = !text.failed;
  if (ok) p->view.hash = accel__hash(text.data, text.n, 1);
  accel__buffer_free(&text);
  return ok;
}

accel_status accel__program_finish(accel__program *p) {
  if (p->status == ACCEL_OK && p->n_entry == 0)
    accel__program_fail(p, ACCEL_ERROR_INTERNAL, "the program has no entry");
  if (p->status == ACCEL_OK && !p->finished) accel__fuse(p);
  if (p->status == ACCEL_OK && !p->finished) accel__shard(p);
  for (uint32_t i = 0; p->status == ACCEL_OK && i < p->n_entry; i++) list_nodes(p, &p->entry[i]);
  if (p->status != ACCEL_OK) {
    return accel__fail(p->status, "%s: %s", p->view.name,
                       p->message != NULL ? p->message : "no memory for the message");
  }
  accel__program_peek(p, &p->view);
  ACCEL_TRY(accel__program_validate(&p->view));
  p->finished = true;
  return hash_program(p) ? ACCEL_OK : accel__no_memory(0);
}

void accel__program_identify(accel__program *p, uint64_t weights) {
  const uint64_t both[2] = {p->view.hash, weights};
  p->view.hash = accel__hash(both, sizeof both, 2);
}

const accel_plugin_program *accel__program_view(const accel__program *p) {
  return p->finished ? &p->view : NULL;
}
