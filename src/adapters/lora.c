/* lora.c - the matrices of an adapter, weight by weight. */
#include "adapters/lora.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "adapters/adapters_internal.h"
#include "core/block_cache.h"
#include "core/find_model.h"
#include "formats/convert.h"

typedef struct loading {
  accel__adapter adapter;
  accel__adapter_base base;
  accel__checkpoint *tensors;
  accel__arena arena; /* of what is gone after the load */
  accel__lora *lora;
  uint8_t *has_step;                    /* [n_weight] */
  const accel__adapter_module **module; /* [n_weight] whose matrices are the weight's; NULL: none */
  accel_plugin_low_rank *slot;          /* [n_weight] */
  bool halves;
} loading;

static accel_status refuse(const accel__adapter *a, const char *name, const char *what) {
  accel__fail(ACCEL_ERROR_UNSUPPORTED, "%s: '%.160s' %s", a->path, name, what);
  return accel__remedy(ACCEL_ERROR_UNSUPPORTED,
                       "merge this adapter when the model is loaded (accel_init_params.adapters, "
                       "--adapter)");
}

/* Only what a product of low rank beside a linear can do. */
static accel_status check_kinds(const accel__adapter *a) {
  if (a->n_replacements)
    return refuse(a, a->replacement[0].name,
                  "is replaced by the adapter, which a request cannot do");
  for (uint32_t i = 0; i < a->n_modules; i++) {
    const accel__adapter_module *m = &a->module[i];
    if (m->tensor[ACCEL__LORA_EMBEDDING_A])
      return refuse(a, m->name, "is a table of embeddings, which a request cannot change");
    if (m->tensor[ACCEL__LORA_MAGNITUDE])
      return refuse(a, m->name, "has magnitudes (use_dora), which a request cannot apply");
    if (m->tensor[ACCEL__LORA_B_BIAS])
      return refuse(a, m->name, "has a lora_bias, which a request cannot apply");
  }
  return ACCEL_OK;
}

/* Weights behind whose product there is a LOW_RANK. */
static accel_status find_steps(loading *l) {
  const accel_plugin_program *p = accel__program_view(l->base.program);
  bool any = false;
  l->has_step = accel__arena_alloc(&l->arena, p->n_weight + (size_t)1);
  if (!l->has_step) return ACCEL_ERROR_OUT_OF_MEMORY;
  for (uint32_t i = 0; i < p->n_node; i++) {
    const accel_plugin_node *n = &p->node[i];
    for (uint32_t k = 0; n->op == ACCEL_PLUGIN_OP_LOW_RANK && k < n->n_attr; k++)
      if (n->attr[k].key == ACCEL_PLUGIN_ATTR_SLOT) l->has_step[n->attr[k].i] = any = true;
  }
  if (any) return ACCEL_OK;
  accel__fail(ACCEL_ERROR_UNSUPPORTED, "the model was loaded for no adapters beside it");
  return accel__remedy(ACCEL_ERROR_UNSUPPORTED, "load it with accel_init_params.enable_adapters 1");
}

/* ---- the matrices ---- */

/* The row of B that belongs to row `row` of a weight, which may be some of the rows that the module
 * has in the checkpoint. */
static int64_t row_in_b(const accel__source_weight *w, int64_t row) {
  if (w->block_rows <= 0) return w->first_row + row;
  const int64_t blocks = accel__row_series_blocks(w);
  uint32_t i = 0;
  while (row >= blocks * accel__row_series_of(w, i).rows)
    row -= blocks * accel__row_series_of(w, i++).rows;
  const accel__row_series s = accel__row_series_of(w, i);
  return s.first + row / s.rows * w->block_step + row % s.rows;
}

/* Shapes of a module's matrices in its file, which may belong to several weights (q, k and v in
 * one). */
typedef struct shapes {
  int64_t a[2], b[2]; /* [rank, k], [rows of the module, rank] */
} shapes;

static shapes shapes_of(const accel__adapter_module *m, const accel__source_weight *w) {
  const int64_t rank = m->lora.rank, rows = w->stored_rows > 0       ? w->stored_rows
                                            : w->transposed_rows > 0 ? w->transposed_rows
                                                                     : w->dim[0];
  return (shapes){{rank, w->dim[1]}, {rows, rank}};
}

/* Finds the weights that module `m` belongs to. */
static accel_status add_module(loading *l, const accel__adapter_module *m) {
  const accel_plugin_program *p = accel__program_view(l->base.program);
  const char *name = accel__arena_printf(&l->arena, "%s.weight", m->name);
  int64_t index;
  if (!name) return ACCEL_ERROR_OUT_OF_MEMORY;
  ACCEL_TRY(accel__adapter_check_rank(&l->adapter, m, m->tensor[ACCEL__LORA_A]));
  ACCEL_TRY(accel__adapter_base_find(&l->base, &l->adapter, name, &index));
  for (uint32_t i = 0; index >= 0 && i < p->n_weight; i++) {
    const accel__source_weight *w = accel__weight_source(l->base.program, i);
    bool reads = false;
    for (uint32_t k = 0; k < accel__source_tensors(w) && !reads; k++)
      reads = !strcmp(accel__source_tensor(w, k), l->base.name[index]);
    if (!reads) continue;
    if (!l->has_step[i] || w->rank != 2 || w->n_parts > 1 || (w->derive && !w->transposed_rows))
      return refuse(&l->adapter, m->name,
                    "is no plain linear layer, and a request can change no other");
    const shapes has = shapes_of(m, w);
    ACCEL_TRY(accel__adapter_check_shape(&l->adapter, m->name, m->tensor[ACCEL__LORA_A], has.a));
    ACCEL_TRY(accel__adapter_check_shape(&l->adapter, m->name, m->tensor[ACCEL__LORA_B], has.b));
    l->module[i] = m;
    l->slot[i].rank = (uint32_t)m->lora.rank;
  }
  return ACCEL_OK;
}

/* ---- their memory ---- */

enum { LINE = 64 /* bytes: a line of the cache, and what may be read behind halves */ };

static size_t matrix_bytes(int64_t length, uint32_t rank, size_t value) {
  return ((size_t)length * rank * value + LINE - 1) / LINE * LINE;
}

/* Where matrix a of a slot lies, and b behind it, values of `value` bytes; the end of b. */
static char *lay_slot(const loading *l, uint32_t i, size_t value, char *at, void **a, void **b) {
  const accel__source_weight *w = accel__weight_source(l->base.program, i);
  *a = at;
  *b = at + matrix_bytes(w->dim[1], l->slot[i].rank, value);
  return (char *)*b + matrix_bytes(w->dim[0], l->slot[i].rank, value);
}

/* Memory for the matrices of all slots, which begin at *first, from a line of the cache on.  They
 * lie one behind the other, in the order of a run as far as that of the slots is, and in large pages
 * where they fill some: read once a run, they are fetched ahead, as one stream. */
static accel_status alloc_matrices(const loading *l, size_t value, void **block, char **first) {
  const accel_plugin_program *p = accel__program_view(l->base.program);
  size_t bytes = 2 * LINE;
  for (uint32_t i = 0; i < p->n_weight; i++) {
    const accel__source_weight *w = accel__weight_source(l->base.program, i);
    bytes += matrix_bytes(w->dim[1], l->slot[i].rank, value) +
             matrix_bytes(w->dim[0], l->slot[i].rank, value);
  }
  *block = accel__block_alloc(bytes);
  if (!*block) return ACCEL_ERROR_OUT_OF_MEMORY;
  *first = (char *)*block + (LINE - (uintptr_t)*block % LINE) % LINE;
  return ACCEL_OK;
}

/* ---- at 32 bits ---- */

/* The matrices of a module as its file has them, read once. */
typedef struct matrices {
  shapes has;
  float *a, *b; /* NULL: not read */
} matrices;

static accel_status read_matrices(loading *l, const accel__adapter_module *m,
                                  const accel__source_weight *w, matrices *from) {
  const shapes has = shapes_of(m, w);
  if (from->a && !memcmp(&from->has, &has, sizeof has)) return ACCEL_OK;
  from->has = has;
  ACCEL_TRY(accel__adapter_matrix(&l->adapter, m->name, m->tensor[ACCEL__LORA_A], has.a, &l->arena,
                                  &from->a));
  return accel__adapter_matrix(&l->adapter, m->name, m->tensor[ACCEL__LORA_B], has.b, &l->arena,
                               &from->b);
}

/* a[k, rank], b[rank, n]: what `m` adds to a weight of its. */
static void put_matrices(const accel__adapter_module *m, const accel__source_weight *w,
                         const matrices *from, float *a, float *b) {
  const int64_t rank = m->lora.rank, k = w->dim[1], n = w->dim[0];
  for (int64_t r = 0; r < rank; r++) {
    for (int64_t i = 0; i < k; i++) a[i * rank + r] = from->a[r * k + i];
    for (int64_t i = 0; i < n; i++)
      b[r * n + i] = (float)(m->lora.scaling * (double)from->b[row_in_b(w, i) * rank + r]);
  }
}

static accel_status fill_module(loading *l, const accel__adapter_module *m) {
  const accel_plugin_program *p = accel__program_view(l->base.program);
  matrices from = {.a = NULL};
  for (uint32_t i = 0; i < p->n_weight; i++) {
    const accel__source_weight *w = accel__weight_source(l->base.program, i);
    if (l->module[i] != m) continue;
    ACCEL_TRY(read_matrices(l, m, w, &from));
    put_matrices(m, w, &from, (float *)(uintptr_t)l->slot[i].a, (float *)(uintptr_t)l->slot[i].b);
  }
  return ACCEL_OK;
}

static accel_status fill_slots(loading *l) {
  const accel_plugin_program *p = accel__program_view(l->base.program);
  char *at;
  ACCEL_TRY(alloc_matrices(l, sizeof(float), &l->lora->block[0], &at));
  for (uint32_t i = 0; i < p->n_weight; i++) {
    void *a, *b;
    if (!l->slot[i].rank) continue;
    at = lay_slot(l, i, sizeof(float), at, &a, &b);
    l->slot[i].a = a;
    l->slot[i].b = b;
  }
  for (uint32_t i = 0; i < l->adapter.n_modules; i++)
    ACCEL_TRY(fill_module(l, &l->adapter.module[i]));
  return ACCEL_OK;
}

/* ---- at 16 bits ---- */

/* out[n]: from[n] as halves, divided by a power of two, *power, so that the largest is between 1
 * and 2: halves have 11 bits from 6e-5 on. */
static void narrow(const float *from, size_t n, uint16_t *out, int *power) {
  enum { AT_ONCE = 1024 };
  float most = 0, scaled[AT_ONCE];
  for (size_t i = 0; i < n; i++) most = fmaxf(most, fabsf(from[i]));
  *power = most > 0 ? ilogbf(most) : 0;
  for (size_t i = 0; i < n; i += AT_ONCE) {
    const size_t some = n - i < AT_ONCE ? n - i : AT_ONCE;
    for (size_t j = 0; j < some; j++) scaled[j] = ldexpf(from[i + j], -*power);
    accel_f32_array_to_fp16(scaled, some, out + i);
  }
}

static accel_status make_halves(loading *l) {
  const accel_plugin_program *p = accel__program_view(l->base.program);
  accel_plugin_low_rank_f16 *slot = accel__arena_array(&l->lora->arena, p->n_weight, sizeof *slot);
  char *at;
  if (!slot) return ACCEL_ERROR_OUT_OF_MEMORY;
  ACCEL_TRY(alloc_matrices(l, sizeof(uint16_t), &l->lora->block[1], &at));
  for (uint32_t i = 0; i < p->n_weight; i++) {
    const accel__source_weight *w = accel__weight_source(l->base.program, i);
    const accel_plugin_low_rank *m = &l->slot[i];
    void *a, *b;
    int power_a = 0, power_b = 0;
    if (!m->rank) continue;
    at = lay_slot(l, i, sizeof(uint16_t), at, &a, &b);
    narrow(m->a, (size_t)w->dim[1] * m->rank, a, &power_a);
    narrow(m->b, (size_t)w->dim[0] * m->rank, b, &power_b);
    slot[i] = (accel_plugin_low_rank_f16){
        .a = a, .b = b, .factor = ldexpf(1, power_a + power_b), .rank = m->rank};
  }
  l->lora->narrow.slot_f16 = slot;
  return ACCEL_OK;
}

static accel_status make_slots(loading *l) {
  const accel_plugin_program *p = accel__program_view(l->base.program);
  l->slot = accel__arena_array(&l->lora->arena, p->n_weight, sizeof *l->slot);
  l->module = accel__arena_array(&l->arena, p->n_weight, sizeof *l->module);
  if (!l->slot || !l->module) return ACCEL_ERROR_OUT_OF_MEMORY;
  for (uint32_t i = 0; i < l->adapter.n_modules; i++)
    ACCEL_TRY(add_module(l, &l->adapter.module[i]));
  ACCEL_TRY(fill_slots(l));
  l->lora->view =
      (accel_plugin_adapter){.size = sizeof l->lora->view, .n_slot = p->n_weight, .slot = l->slot};
  l->lora->narrow = l->lora->view;
  return l->halves ? make_halves(l) : ACCEL_OK;
}

/* ---- opening ---- */

static accel_status load(loading *l, const char *path, const accel__program *program,
                         const accel__checkpoint *checkpoint, const accel__import *import) {
  char *directory;
  uint64_t hash = 0;
  ACCEL_TRY(accel__adapter_base_open(program, checkpoint, import, &l->base));
  ACCEL_TRY(find_steps(l));
  ACCEL_TRY_AS(accel__find_model(path, &l->lora->arena, &directory), "adapter");
  l->lora->path = l->adapter.path = directory;
  l->adapter.prefix = "";
  ACCEL_TRY(accel__adapter_read_config(&l->adapter, &l->arena, &hash));
  ACCEL_TRY(accel__adapter_open_tensors(&l->adapter, &l->arena, &l->tensors));
  l->adapter.checkpoint = l->tensors;
  ACCEL_TRY(accel__adapter_read_names(&l->adapter, &l->arena));
  ACCEL_TRY(check_kinds(&l->adapter));
  return make_slots(l);
}

accel_status accel__lora_open(const char *path, const accel__program *program,
                              const accel__checkpoint *checkpoint, const accel__import *import,
                              bool halves, accel__lora **out) {
  loading l = {.lora = calloc(1, sizeof *l.lora), .halves = halves};
  *out = NULL;
  if (!l.lora) return accel__no_memory(sizeof *l.lora);
  const accel_status status = load(&l, path, program, checkpoint, import);
  accel__adapter_base_close(&l.base);
  accel__checkpoint_close(&l.tensors);
  accel__adapter_config_free(&l.adapter.config);
  accel__arena_free(&l.arena);
  if (status != ACCEL_OK) accel__lora_close(&l.lora);
  *out = l.lora;
  return status;
}

void accel__lora_close(accel__lora **lora) {
  if (!*lora) return;
  for (int i = 0; i < 2; i++) accel__block_free((*lora)->block[i]);
  accel__arena_free(&(*lora)->arena);
  free(*lora);
  *lora = NULL;
}
