/* adapter_base.c - the tensors of a base model by the names that adapters have for them, and
 * matrices of adapters. */
#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "adapters/adapters_internal.h"

/* ---- the base's tensors ---- */

static accel_status add_name(accel__adapter_base *b, const char *name, uint8_t uses) {
  int64_t i;
  if (accel__map_get(&b->names, name, strlen(name), &i)) {
    b->uses[i] |= uses;
    return ACCEL_OK;
  }
  b->name[b->n] = name;
  b->uses[b->n] = uses;
  return accel__map_set(&b->names, name, strlen(name), b->n++);
}

static accel_status list_names(accel__adapter_base *b) {
  const accel__program *program = b->program;
  const accel_plugin_program *p = accel__program_view(program);
  size_t all = 0;
  uint8_t *uses = accel__arena_alloc(&b->arena, p->n_weight + (size_t)1);
  if (!uses) return ACCEL_ERROR_OUT_OF_MEMORY;
  for (uint32_t i = 0; i < p->n_node; i++) {
    const accel_plugin_node *node = &p->node[i];
    for (uint32_t k = 0; k < node->n_in; k++) {
      const int32_t weight = node->in[k] < 0 ? -1 : p->tensor[node->in[k]].weight;
      const bool table = node->op == ACCEL_PLUGIN_OP_GATHER && k == 0;
      if (weight >= 0) uses[weight] |= table ? ACCEL__LOOKED_UP : ACCEL__MULTIPLIED;
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
  return accel__is_module_end(a, b) || accel__is_module_end(b, a);
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

accel_status accel__adapter_base_find(const accel__adapter_base *b, const accel__adapter *a,
                                      const char *name, int64_t *out) {
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
  for (uint32_t i = 0; b->checkpoint && i < accel__checkpoint_count(b->checkpoint); i++) {
    const char *other = accel__checkpoint_at(b->checkpoint, i)->name;
    if (!accel__starts_with(other, ACCEL__ADAPTER_PREFIX) && same_end(other, name)) return ACCEL_OK;
  }
  return unknown(a, name);
}

accel_status accel__adapter_base_open(const accel__program *program,
                                      const accel__checkpoint *checkpoint,
                                      const accel__import *import, accel__adapter_base *out) {
  *out = (accel__adapter_base){.program = program, .checkpoint = checkpoint, .import = import};
  return list_names(out);
}

void accel__adapter_base_close(accel__adapter_base *b) {
  accel__map_free(&b->names);
  accel__map_free(&b->alike);
  accel__arena_free(&b->arena);
}

/* ---- matrices ---- */

static accel_status bad_shape(const accel__adapter *a, const char *module,
                              const accel__tensor_info *t, const int64_t dim[2]) {
  const char *kind = strstr(t->name, ".lora_");
  return accel__fail(ACCEL_ERROR_FORMAT,
                     "%s%s: '%.160s' has %" PRIu64 " elements in %.160s (dim 0: %" PRId64
                     ") where [%" PRId64 ",%" PRId64 "] is due, by %s and the base",
                     a->path, a->is_file ? "" : "/adapter_model.safetensors", module, t->elements,
                     kind ? kind + 1 : t->name + strlen(a->prefix), t->rank ? t->dim[0] : 0, dim[0],
                     dim[1], a->is_file ? "its rank" : "adapter_config.json");
}

void accel__adapter_scale(float *values, int64_t n, double by) {
  for (int64_t i = 0; i < n; i++) values[i] = (float)(by * (double)values[i]);
}

accel_status accel__adapter_check_shape(const accel__adapter *a, const char *module,
                                        const accel__tensor_info *t, const int64_t dim[2]) {
  if (t->rank && t->elements == (uint64_t)dim[0] * (uint64_t)dim[1] &&
      (t->rank == 1 || t->dim[0] == dim[0]))
    return ACCEL_OK;
  return bad_shape(a, module, t, dim);
}

accel_status accel__adapter_matrix(const accel__adapter *a, const char *module,
                                   const accel__tensor_info *t, const int64_t dim[2],
                                   accel__arena *arena, float **out) {
  ACCEL_TRY(accel__adapter_check_shape(a, module, t, dim));
  *out = accel__arena_array(arena, t->elements, sizeof **out);
  if (!*out) return ACCEL_ERROR_OUT_OF_MEMORY;
  ACCEL_TRY(accel__tensor_to_f32(a->checkpoint, t, 0, t->elements, *out));
  for (uint64_t i = 0; i < t->elements; i++)
    if (!isfinite((*out)[i]))
      return accel__fail(ACCEL_ERROR_FORMAT,
                         "%s%s: tensor '%.200s' has a value that is not finite, element %" PRIu64,
                         a->path, a->is_file ? "" : "/adapter_model.safetensors",
                         t->name + strlen(a->prefix), i);
  return ACCEL_OK;
}

accel_status accel__adapter_check_rank(const accel__adapter *a, const accel__adapter_module *m,
                                       const accel__tensor_info *t) {
  if (t->rank && t->dim[0] == m->lora.rank) return ACCEL_OK;
  return accel__fail(ACCEL_ERROR_FORMAT,
                     "%s: '%.160s' has matrices of rank %" PRId64
                     ", but adapter_config.json says %" PRId64 " (r, rank_pattern)",
                     a->path, m->name, t->rank ? t->dim[0] : 0, m->lora.rank);
}
