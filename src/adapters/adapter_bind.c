/* adapter_bind.c - adapters over the weights of a program: finding each module's tensor in the
 * base, checking shapes, and making the matrices of which weights/weight_delta.h speaks. */
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "adapters/adapters.h"
#include "core/text.h"

/* How a program reads a tensor of the checkpoint. */
enum { LOOKED_UP = 1 /* rows by index */, MULTIPLIED = 2 /* by anything else */ };

typedef struct base {
  const char **name; /* [n] tensors that weights are made of */
  uint8_t *uses;     /* [n] of the above */
  uint32_t n;
  accel__map names;
  accel__arena arena;
  const accel__checkpoint *checkpoint;
  const accel__import *import;
  accel__adapters *all;
} base;

/* ---- the base's tensors ---- */

static accel_status add_name(base *b, const char *name, uint8_t uses) {
  int64_t i;
  if (accel__map_get(&b->names, name, strlen(name), &i)) {
    b->uses[i] |= uses;
    return ACCEL_OK;
  }
  b->name[b->n] = name;
  b->uses[b->n] = uses;
  return accel__map_set(&b->names, name, strlen(name), b->n++);
}

static accel_status list_names(base *b, const accel__program *program) {
  const accel_plugin_program *p = accel__program_view(program);
  size_t all = 0;
  uint8_t *uses = accel__arena_alloc(&b->arena, p->n_weight + (size_t)1);
  if (!uses) return ACCEL_ERROR_OUT_OF_MEMORY;
  for (uint32_t i = 0; i < p->n_node; i++) {
    const accel_plugin_node *node = &p->node[i];
    for (uint32_t k = 0; k < node->n_in; k++) {
      const int32_t weight = node->in[k] < 0 ? -1 : p->tensor[node->in[k]].weight;
      const bool table = node->op == ACCEL_PLUGIN_OP_GATHER && k == 0;
      if (weight >= 0) uses[weight] |= table ? LOOKED_UP : MULTIPLIED;
    }
  }
  for (uint32_t i = 0; i < p->n_weight; i++)
    all += accel__source_tensors(accel__weight_source(program, i));
  b->name = accel__arena_array(&b->arena, all, sizeof *b->name);
  b->uses = accel__arena_alloc(&b->arena, all);
  if (!b->name || !b->uses) return ACCEL_ERROR_OUT_OF_MEMORY;
  for (uint32_t i = 0; i < p->n_weight; i++) {
    const accel__source_weight *w = accel__weight_source(program, i);
    for (uint32_t k = 0; k < accel__source_tensors(w); k++)
      ACCEL_TRY(add_name(b, accel__source_tensor(w, k), uses[i]));
  }
  return ACCEL_OK;
}

/* Is one name the other with something in front ("bert.")? */
static bool same_end(const char *a, const char *b) {
  const size_t n = strlen(a), m = strlen(b);
  if (n < m) return same_end(b, a);
  return !strcmp(a + n - m, b) && (n == m || (n > m && a[n - m - 1] == '.'));
}

static accel_status unknown(const accel__adapter *a, const char *name) {
  accel__fail(ACCEL_ERROR_FORMAT,
              "%s/adapter_model.safetensors: the model has no '%.200s', which the adapter changes",
              a->path, name);
  return accel__remedy(ACCEL_ERROR_FORMAT,
                       "load the adapter on the model it was made for, with its class "
                       "(accel_init_params.architecture); a head that is tied to the embeddings "
                       "has no weight of its own");
}

/* The number of the tensor that the model's class calls `name`, which the checkpoint may spell with
 * another prefix; -1: the program does not read it, but the checkpoint has it. */
static accel_status find_base(const base *b, const accel__adapter *a, const char *name,
                              int64_t *out) {
  if (accel__map_get(&b->names, name, strlen(name), out)) return ACCEL_OK;
  *out = -1;
  for (uint32_t i = 0; i < b->n; i++) {
    if (!same_end(b->name[i], name)) continue;
    if (*out >= 0)
      return accel__fail(ACCEL_ERROR_FORMAT,
                         "%s/adapter_model.safetensors: '%.160s' may be '%.160s' or '%.160s'",
                         a->path, name, b->name[*out], b->name[i]);
    *out = i;
  }
  if (*out >= 0) return ACCEL_OK;
  for (uint32_t i = 0; i < accel__checkpoint_count(b->checkpoint); i++) {
    const char *other = accel__checkpoint_at(b->checkpoint, i)->name;
    if (!accel__starts_with(other, ACCEL__ADAPTER_PREFIX) && same_end(other, name)) return ACCEL_OK;
  }
  return unknown(a, name);
}

/* What peft computes depends on whether it was merged, where a tensor is read as a table and as the
 * head's matrix: unmerged the head keeps the old one. */
static accel_status refuse_tied(const base *b, const accel__adapter *a, int64_t index) {
  if (b->uses[index] != (LOOKED_UP | MULTIPLIED)) return ACCEL_OK;
  accel__fail(ACCEL_ERROR_UNSUPPORTED,
              "%s: the adapter changes '%.160s' as a table of embeddings, and the model's head is "
              "tied to it",
              a->path, b->name[index]);
  return accel__remedy(
      ACCEL_ERROR_UNSUPPORTED,
      "untie the two (tie_word_embeddings false, with lm_head in the checkpoint or "
      "in modules_to_save)");
}

static accel_status refuse_coded(const base *b, const accel__adapter *a, int64_t index) {
  if (!accel__import_find(b->import, b->name[index], NULL, NULL, NULL)) return ACCEL_OK;
  accel__fail(ACCEL_ERROR_UNSUPPORTED,
              "%s: '%.160s' is held in quantised codes by the checkpoint, and merging an adapter "
              "into codes would round them anew",
              a->path, b->name[index]);
  return accel__remedy(ACCEL_ERROR_UNSUPPORTED,
                       "use the unquantised checkpoint, and the precision that is wanted: the "
                       "adapter is merged before weights are quantised");
}

/* ---- replacements ---- */

static accel_status bind_replacement(const base *b, const accel__adapter *a,
                                     const accel__adapter_replacement *r) {
  int64_t index;
  ACCEL_TRY(find_base(b, a, r->name, &index));
  if (index < 0) return ACCEL_OK;
  ACCEL_TRY(refuse_coded(b, a, index));
  if (!r->keeps_ties) ACCEL_TRY(refuse_tied(b, a, index));
  return accel__weight_deltas_replace(b->all->deltas, b->name[index], r->tensor->name);
}

/* ---- matrices ---- */

static accel_status bad_shape(const accel__adapter *a, const char *module,
                              const accel__tensor_info *t, int64_t rows, int64_t columns) {
  return accel__fail(ACCEL_ERROR_FORMAT,
                     "%s/adapter_model.safetensors: '%.160s' has a %s tensor of %" PRIu64
                     " elements (dim 0: "
                     "%" PRId64 ") where [%" PRId64 ",%" PRId64
                     "] is due, by adapter_config.json and the base",
                     a->path, module, strrchr(t->name, '_') ? strrchr(t->name, '_') + 1 : t->name,
                     t->elements, t->rank ? t->dim[0] : 0, rows, columns);
}

/* The tensor as fp32 [rows, columns], or transposed: [columns, rows], all of it times `scale`. */
static accel_status read_matrix(const base *b, const accel__adapter *a, const char *module,
                                const accel__tensor_info *t, const int64_t dim[2], bool transposed,
                                double scale, float **out) {
  const int64_t rows = dim[0], columns = dim[1];
  if (!t->rank || t->elements != (uint64_t)rows * (uint64_t)columns ||
      (t->rank > 1 && t->dim[0] != rows))
    return bad_shape(a, module, t, rows, columns);
  float *values = malloc(t->elements * sizeof *values + 1);
  *out = accel__arena_array(&b->all->arena, t->elements, sizeof **out);
  accel_status status = values && *out ? ACCEL_OK : accel__no_memory(t->elements * sizeof *values);
  if (status == ACCEL_OK) status = accel__tensor_to_f32(b->checkpoint, t, 0, t->elements, values);
  for (int64_t i = 0; status == ACCEL_OK && i < rows * columns; i++) {
    if (!isfinite(values[i]))
      status = accel__fail(ACCEL_ERROR_FORMAT,
                           "%s/adapter_model.safetensors: tensor '%.200s' has a value that is not "
                           "finite, element %" PRId64,
                           a->path, strchr(t->name + strlen(ACCEL__ADAPTER_PREFIX), ':') + 1, i);
    else
      (*out)[transposed ? i % columns * rows + i / columns : i] = (float)(scale * values[i]);
  }
  free(values);
  return status;
}

/* Dims of the base's tensor as a matrix. */
static accel_status base_matrix(const base *b, int64_t index, int64_t *rows, int64_t *columns) {
  const char *stored = accel__weight_deltas_stored(b->all->deltas, b->name[index]);
  const accel__tensor_info *t = accel__checkpoint_find(b->checkpoint, stored);
  if (!t || !t->rank || !t->elements)
    return accel__fail(ACCEL_ERROR_FORMAT, "tensor '%s' is missing or empty", stored);
  *rows = t->dim[0];
  *columns = (int64_t)(t->elements / (uint64_t)t->dim[0]);
  return ACCEL_OK;
}

/* W [out, in] + s B [out, r] A [r, in]; of Conv1D and tables W is [in, out], and the sum its
 * transpose. */
static accel_status bind_matrices(const base *b, const accel__adapter *a,
                                  const accel__adapter_module *m, int64_t index) {
  const bool table = m->tensor[ACCEL__LORA_EMBEDDING_A] != NULL;
  const bool transposed = table || a->config.fan_in_fan_out;
  const accel__tensor_info *ta = m->tensor[table ? ACCEL__LORA_EMBEDDING_A : ACCEL__LORA_A],
                           *tb = m->tensor[table ? ACCEL__LORA_EMBEDDING_B : ACCEL__LORA_B],
                           *tm = m->tensor[ACCEL__LORA_MAGNITUDE];
  const double scale = a->scale * m->lora.scaling;
  accel__weight_delta d = {.rank = (uint32_t)m->lora.rank, .by_column = transposed};
  float *first, *second, *magnitude = NULL;
  ACCEL_TRY(base_matrix(b, index, &d.rows, &d.columns));
  const int64_t in = transposed ? d.rows : d.columns, out = transposed ? d.columns : d.rows;
  if (!ta->rank || ta->dim[0] != m->lora.rank)
    return accel__fail(ACCEL_ERROR_FORMAT,
                       "%s: '%.160s' has matrices of rank %" PRId64
                       ", but adapter_config.json "
                       "says %" PRId64 " (r, rank_pattern)",
                       a->path, m->name, ta->rank ? ta->dim[0] : 0, m->lora.rank);
  ACCEL_TRY(read_matrix(b, a, m->name, ta, (int64_t[]){m->lora.rank, in}, transposed,
                        transposed ? scale : 1, &first));
  ACCEL_TRY(read_matrix(b, a, m->name, tb, (int64_t[]){out, m->lora.rank}, transposed,
                        transposed ? 1 : scale, &second));
  if (tm) { /* of convolutions [1, out, 1, 1] */
    accel__tensor_info flat = *tm;
    flat.rank = 1;
    flat.dim[0] = (int64_t)tm->elements;
    ACCEL_TRY(read_matrix(b, a, m->name, &flat, (int64_t[]){out, 1}, false, 1, &magnitude));
  }
  d.left = transposed ? first : second;
  d.right = transposed ? second : first;
  d.magnitude = magnitude;
  return accel__weight_deltas_add(b->all->deltas, b->name[index], &d);
}

/* lora_B.bias, scaled, is added to the bias of the base. */
static accel_status bind_bias(const base *b, const accel__adapter *a,
                              const accel__adapter_module *m) {
  static const float one = 1;
  const accel__tensor_info *t = m->tensor[ACCEL__LORA_B_BIAS];
  accel__weight_delta d = {.rank = 1, .right = &one};
  int64_t index;
  float *left;
  if (!t) return ACCEL_OK;
  const char *name = accel__arena_printf(&b->all->arena, "%s.bias", m->name);
  if (!name) return ACCEL_ERROR_OUT_OF_MEMORY;
  ACCEL_TRY(find_base(b, a, name, &index));
  if (index < 0) return ACCEL_OK;
  ACCEL_TRY(base_matrix(b, index, &d.rows, &d.columns));
  ACCEL_TRY(read_matrix(b, a, m->name, t, (int64_t[]){d.rows, 1}, false, a->scale * m->lora.scaling,
                        &left));
  d.left = left;
  return accel__weight_deltas_add(b->all->deltas, b->name[index], &d);
}

static accel_status bind_module(const base *b, const accel__adapter *a,
                                const accel__adapter_module *m) {
  int64_t index;
  const char *name = accel__arena_printf(&b->all->arena, "%s.weight", m->name);
  if (!name) return ACCEL_ERROR_OUT_OF_MEMORY;
  ACCEL_TRY(find_base(b, a, name, &index));
  if (index < 0) return ACCEL_OK;
  ACCEL_TRY(refuse_coded(b, a, index));
  if (m->tensor[ACCEL__LORA_EMBEDDING_A]) ACCEL_TRY(refuse_tied(b, a, index));
  ACCEL_TRY(bind_matrices(b, a, m, index));
  return bind_bias(b, a, m);
}

accel_status accel__adapters_bind(accel__adapters *all, const accel__program *program,
                                  const accel__checkpoint *checkpoint,
                                  const accel__import *import) {
  base b = {.checkpoint = checkpoint, .import = import, .all = all};
  accel_status status = list_names(&b, program);
  for (uint32_t i = 0; i < all->n; i++) {
    const accel__adapter *a = &all->adapter[i];
    for (uint32_t k = 0; status == ACCEL_OK && k < a->n_replacements; k++)
      status = bind_replacement(&b, a, &a->replacement[k]);
    for (uint32_t k = 0; status == ACCEL_OK && k < a->n_modules; k++)
      status = bind_module(&b, a, &a->module[k]);
  }
  accel__map_free(&b.names);
  accel__arena_free(&b.arena);
  return status;
}
