/* adapter_bind.c - adapters over the weights of a program: each module's tensor in the base, and
 * the matrices of which weights/weight_delta.h speaks. */
#include "adapters/adapters_internal.h"

typedef struct binding {
  accel__adapter_base base;
  accel__adapters *all;
} binding;

/* What peft computes depends on whether it was merged, where a tensor is read as a table and as the
 * head's matrix: unmerged the head keeps the old one. */
static accel_status refuse_tied(const binding *b, const accel__adapter *a, int64_t index) {
  if (b->base.uses[index] != (ACCEL__LOOKED_UP | ACCEL__MULTIPLIED)) return ACCEL_OK;
  accel__fail(ACCEL_ERROR_UNSUPPORTED,
              "%s: the adapter changes '%.160s' as a table of embeddings, and the model's head is "
              "tied to it",
              a->path, b->base.name[index]);
  return accel__remedy(
      ACCEL_ERROR_UNSUPPORTED,
      "untie the two (tie_word_embeddings false, with lm_head in the checkpoint or "
      "in modules_to_save)");
}

static accel_status refuse_coded(const binding *b, const accel__adapter *a, int64_t index) {
  if (!accel__import_find(b->base.import, b->base.name[index], NULL, NULL, NULL)) return ACCEL_OK;
  accel__fail(ACCEL_ERROR_UNSUPPORTED,
              "%s: '%.160s' is held in quantised codes by the checkpoint, and merging an adapter "
              "into codes would round them anew",
              a->path, b->base.name[index]);
  return accel__remedy(ACCEL_ERROR_UNSUPPORTED,
                       "use the unquantised checkpoint, and the precision that is wanted: the "
                       "adapter is merged before weights are quantised");
}

/* ---- replacements ---- */

static accel_status bind_replacement(const binding *b, const accel__adapter *a,
                                     const accel__adapter_replacement *r) {
  int64_t index;
  ACCEL_TRY(accel__adapter_base_find(&b->base, a, r->name, &index));
  if (index < 0) return ACCEL_OK;
  ACCEL_TRY(refuse_coded(b, a, index));
  if (!r->keeps_ties) ACCEL_TRY(refuse_tied(b, a, index));
  return accel__weight_deltas_replace(b->all->deltas, b->base.name[index], r->tensor->name);
}

/* ---- matrices ---- */

/* Dims of the base's tensor as a matrix. */
static accel_status base_matrix(const binding *b, int64_t index, int64_t *rows, int64_t *columns) {
  const char *stored = accel__weight_deltas_stored(b->all->deltas, b->base.name[index]);
  const accel__tensor_info *t = accel__checkpoint_find(b->base.checkpoint, stored);
  if (!t || !t->rank || !t->elements)
    return accel__fail(ACCEL_ERROR_FORMAT, "tensor '%s' is missing or empty", stored);
  *rows = t->dim[0];
  *columns = (int64_t)(t->elements / (uint64_t)t->dim[0]);
  return ACCEL_OK;
}

/* from[rows, columns] times `scale`, transposed, in the adapters' memory. */
static accel_status transpose(const binding *b, const float *from, int64_t rows, int64_t columns,
                              const float **out) {
  float *to = accel__arena_array(&b->all->arena, (size_t)(rows * columns), sizeof *to);
  if (!to) return ACCEL_ERROR_OUT_OF_MEMORY;
  for (int64_t r = 0; r < rows; r++)
    for (int64_t c = 0; c < columns; c++) to[c * rows + r] = from[r * columns + c];
  *out = to;
  return ACCEL_OK;
}

/* What DoRA brings each row (of Conv1D and tables each column) to, [out]; NULL: nothing.  PEFT has
 * [1, out, 1, 1] for convolutions, LyCORIS [out, 1 ...], or, for its columns, [1, in ...]. */
static accel_status read_magnitude(const binding *b, const accel__adapter *a,
                                   const accel__adapter_module *m, int64_t out, float **magnitude) {
  const accel__tensor_info *t = m->tensor[ACCEL__LORA_MAGNITUDE],
                           *shaped = m->tensor[ACCEL__LORA_DORA_SCALE];
  if (shaped && (!shaped->rank || shaped->dim[0] != out))
    return accel__fail(ACCEL_ERROR_UNSUPPORTED,
                       "%s: '%.160s' has a dora_scale for its inputs, which is not supported",
                       a->path, m->name);
  *magnitude = NULL;
  if (!t && !shaped) return ACCEL_OK;
  accel__tensor_info flat = shaped ? *shaped : *t;
  flat.rank = 1;
  flat.dim[0] = (int64_t)flat.elements;
  return accel__adapter_matrix(a, m->name, &flat, (int64_t[]){out, 1}, &b->all->arena, magnitude);
}

/* LoHa and LoKr of a file: the delta is made for the weight as it lies there. */
static accel_status bind_other(const binding *b, const accel__adapter *a,
                               const accel__adapter_module *m, int64_t index) {
  accel__weight_delta d = {.rank = 0};
  ACCEL_TRY(base_matrix(b, index, &d.rows, &d.columns));
  ACCEL_TRY(accel__lora_kind_delta(a, m, &b->all->arena, &d));
  return accel__weight_deltas_add(b->all->deltas, b->base.name[index], &d);
}

/* W [out, in] + s B [out, r] A [r, in]; of Conv1D and tables W is [in, out], and the sum its
 * transpose. */
static accel_status bind_matrices(const binding *b, const accel__adapter *a,
                                  const accel__adapter_module *m, int64_t index) {
  const bool table = m->tensor[ACCEL__LORA_EMBEDDING_A] != NULL;
  const bool transposed = table || a->config.fan_in_fan_out;
  const accel__tensor_info *ta = m->tensor[table ? ACCEL__LORA_EMBEDDING_A : ACCEL__LORA_A],
                           *tb = m->tensor[table ? ACCEL__LORA_EMBEDDING_B : ACCEL__LORA_B];
  const int64_t rank = m->lora.rank;
  accel__weight_delta d = {.rank = (uint32_t)rank, .by_column = transposed};
  float *down, *up, *magnitude;
  ACCEL_TRY(base_matrix(b, index, &d.rows, &d.columns));
  const int64_t in = transposed ? d.rows : d.columns, out = transposed ? d.columns : d.rows;
  ACCEL_TRY(accel__adapter_check_rank(a, m, ta));
  ACCEL_TRY(accel__adapter_matrix(a, m->name, ta, (int64_t[]){rank, in}, &b->all->arena, &down));
  ACCEL_TRY(accel__adapter_matrix(a, m->name, tb, (int64_t[]){out, rank}, &b->all->arena, &up));
  ACCEL_TRY(read_magnitude(b, a, m, out, &magnitude));
  accel__adapter_scale(up, out * rank, a->scale * m->lora.scaling);
  d.left = up;
  d.right = down;
  if (transposed) {
    ACCEL_TRY(transpose(b, down, rank, in, &d.left));
    ACCEL_TRY(transpose(b, up, out, rank, &d.right));
  }
  d.magnitude = magnitude;
  return accel__weight_deltas_add(b->all->deltas, b->base.name[index], &d);
}

/* lora_B.bias, scaled, is added to the bias of the base. */
static accel_status bind_bias(const binding *b, const accel__adapter *a,
                              const accel__adapter_module *m) {
  static const float one = 1;
  const accel__tensor_info *t = m->tensor[ACCEL__LORA_B_BIAS];
  accel__weight_delta d = {.rank = 1, .right = &one};
  int64_t index;
  float *left;
  if (!t) return ACCEL_OK;
  const char *name = accel__arena_printf(&b->all->arena, "%s.bias", m->name);
  if (!name) return ACCEL_ERROR_OUT_OF_MEMORY;
  ACCEL_TRY(accel__adapter_base_find(&b->base, a, name, &index));
  if (index < 0) return ACCEL_OK;
  ACCEL_TRY(base_matrix(b, index, &d.rows, &d.columns));
  ACCEL_TRY(accel__adapter_matrix(a, m->name, t, (int64_t[]){d.rows, 1}, &b->all->arena, &left));
  accel__adapter_scale(left, d.rows, a->scale * m->lora.scaling);
  d.left = left;
  return accel__weight_deltas_add(b->all->deltas, b->base.name[index], &d);
}

static accel_status bind_module(const binding *b, const accel__adapter *a,
                                const accel__adapter_module *m) {
  int64_t index;
  const char *name = accel__arena_printf(&b->all->arena, "%s.weight", m->name);
  if (!name) return ACCEL_ERROR_OUT_OF_MEMORY;
  ACCEL_TRY(a->is_file ? accel__lora_file_find(&b->base, a, m, &index)
                       : accel__adapter_base_find(&b->base, a, name, &index));
  if (index < 0) return ACCEL_OK;
  ACCEL_TRY(refuse_coded(b, a, index));
  if (m->tensor[ACCEL__LORA_EMBEDDING_A]) ACCEL_TRY(refuse_tied(b, a, index));
  const bool other = m->tensor[ACCEL__LORA_MID] || m->tensor[ACCEL__LOHA_W1_A] ||
                     m->tensor[ACCEL__LOKR_W1] || m->tensor[ACCEL__LOKR_W1_A];
  ACCEL_TRY(other ? bind_other(b, a, m, index) : bind_matrices(b, a, m, index));
  return bind_bias(b, a, m);
}

accel_status accel__adapters_bind(accel__adapters *all, const accel__program *program,
                                  const accel__checkpoint *checkpoint,
                                  const accel__import *import) {
  binding b = {.all = all};
  accel_status status = accel__adapter_base_open(program, checkpoint, import, &b.base);
  for (uint32_t i = 0; i < all->n; i++) {
    const accel__adapter *a = &all->adapter[i];
    if (status == ACCEL_OK && a->is_file) status = accel__lora_file_base(&b.base);
    for (uint32_t k = 0; status == ACCEL_OK && k < a->n_replacements; k++)
      status = bind_replacement(&b, a, &a->replacement[k]);
    for (uint32_t k = 0; status == ACCEL_OK && k < a->n_modules; k++)
      status = bind_module(&b, a, &a->module[k]);
  }
  accel__adapter_base_close(&b.base);
  return status;
}
