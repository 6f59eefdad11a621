/* adapter_open.c - the files of adapters, and which module each tensor belongs to. */
#include <stdlib.h>
#include <string.h>

#include "adapters/adapters_internal.h"
#include "core/file.h"
#include "core/find_model.h"
#include "core/text.h"

enum { MAX_ADAPTERS = 64, MAX_CONFIG = 16 << 20 };

/* ---- names ---- */

static const struct {
  const char *suffix;
  accel__lora_kind kind;
} kinds[] = {{".lora_A.weight", ACCEL__LORA_A},
             {".lora_B.weight", ACCEL__LORA_B},
             {".lora_B.bias", ACCEL__LORA_B_BIAS},
             {".lora_embedding_A", ACCEL__LORA_EMBEDDING_A},
             {".lora_embedding_B", ACCEL__LORA_EMBEDDING_B},
             {".lora_magnitude_vector", ACCEL__LORA_MAGNITUDE},
             {".lora_magnitude_vector.weight", ACCEL__LORA_MAGNITUDE}};

/* `name` without the first `part` in it; NULL: no memory. */
static const char *without(accel__arena *arena, const char *name, const char *part) {
  const char *at = strstr(name, part);
  if (!at) return name;
  return accel__arena_printf(arena, "%.*s%s", (int)(at - name), name, at + strlen(part));
}

/* The module called name[n], which may be new; modules has capacity for all. */
static accel_status module_of(accel__adapter *a, accel__arena *arena, accel__map *map,
                              const char *name, size_t n, accel__adapter_module **out) {
  int64_t i;
  if (accel__map_get(map, name, n, &i)) {
    *out = &a->module[i];
    return ACCEL_OK;
  }
  const char *copy = accel__arena_copy(arena, name, n);
  if (!copy) return ACCEL_ERROR_OUT_OF_MEMORY;
  ACCEL_TRY(accel__map_set(map, copy, n, a->n_modules));
  *out = &a->module[a->n_modules++];
  (*out)->name = copy;
  return ACCEL_OK;
}

static accel_status bad_tensor(const accel__adapter *a, const char *name, const char *why) {
  return accel__fail(ACCEL_ERROR_FORMAT, "%s/adapter_model.safetensors: tensor '%.200s' %s",
                     a->path, name, why);
}

/* `name`: behind "base_model.model.". */
static accel_status add_tensor(accel__adapter *a, accel__arena *arena, accel__map *map,
                               const char *name, const accel__tensor_info *t) {
  accel__adapter_module *module;
  for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
    if (!accel__ends_with(name, kinds[i].suffix)) continue;
    ACCEL_TRY(module_of(a, arena, map, name, strlen(name) - strlen(kinds[i].suffix), &module));
    if (module->tensor[kinds[i].kind]) return bad_tensor(a, name, "is there twice");
    module->tensor[kinds[i].kind] = t;
    return ACCEL_OK;
  }
  if (strstr(name, ".lora_")) return bad_tensor(a, name, "is no tensor of LoRA that is known");
  accel__adapter_replacement *r = &a->replacement[a->n_replacements++];
  r->tensor = t;
  r->keeps_ties = strstr(name, ".base_layer.") != NULL;
  r->name = without(arena, name, ".base_layer");
  if (r->name) r->name = without(arena, r->name, ".modules_to_save");
  return r->name ? ACCEL_OK : ACCEL_ERROR_OUT_OF_MEMORY;
}

/* ---- what belongs together ---- */

static accel_status bad_module(const accel__adapter *a, const char *module, const char *why) {
  return accel__fail(ACCEL_ERROR_FORMAT, "%s/adapter_model.safetensors: module '%.200s' %s",
                     a->path, module, why);
}

/* Do the tensors of a module make an adapter, as the config has it? */
static accel_status check_module(const accel__adapter *a, const accel__adapter_module *m) {
  const accel__tensor_info *const *t = m->tensor;
  const bool table = t[ACCEL__LORA_EMBEDDING_A] || t[ACCEL__LORA_EMBEDDING_B];
  const bool dense = t[ACCEL__LORA_A] || t[ACCEL__LORA_B] || t[ACCEL__LORA_B_BIAS];
  const bool magnitude = t[ACCEL__LORA_MAGNITUDE], bias = t[ACCEL__LORA_B_BIAS];
  const char *why = NULL;
  if (table && dense)
    why = "has the matrices of an embedding and those of a linear layer";
  else if (table && !t[ACCEL__LORA_EMBEDDING_A])
    why = "has no lora_embedding_A";
  else if (table && !t[ACCEL__LORA_EMBEDDING_B])
    why = "has no lora_embedding_B";
  else if (!table && !t[ACCEL__LORA_A])
    why = "has no lora_A.weight";
  else if (!table && !t[ACCEL__LORA_B])
    why = "has no lora_B.weight";
  else if (a->config.dora && !magnitude)
    why = "has no lora_magnitude_vector, which use_dora asks for";
  else if (!a->config.dora && magnitude)
    why = "has a lora_magnitude_vector, but use_dora is false";
  else if (a->config.lora_bias && dense && !bias)
    why = "has no lora_B.bias, which lora_bias asks for";
  else if (!a->config.lora_bias && bias)
    why = "has a lora_B.bias, but lora_bias is false";
  return why ? bad_module(a, m->name, why) : ACCEL_OK;
}

accel_status accel__adapter_read_names(accel__adapter *a, accel__arena *arena) {
  static const char peft[] = "base_model.model.";
  const uint32_t n = accel__checkpoint_count(a->checkpoint);
  accel__map map = {.n = 0};
  accel_status status = ACCEL_OK;
  a->module = accel__arena_array(arena, n, sizeof *a->module);
  a->replacement = accel__arena_array(arena, n, sizeof *a->replacement);
  if (!a->module || !a->replacement) return ACCEL_ERROR_OUT_OF_MEMORY;
  for (uint32_t i = 0; i < n && status == ACCEL_OK; i++) {
    const accel__tensor_info *t = accel__checkpoint_at(a->checkpoint, i);
    if (!accel__starts_with(t->name, a->prefix)) continue; /* another's */
    const char *name = t->name + strlen(a->prefix);
    status = accel__starts_with(name, peft)
                 ? add_tensor(a, arena, &map, name + strlen(peft), t)
                 : bad_tensor(a, name, "is not named as PEFT names them, base_model.model. ...");
  }
  for (uint32_t i = 0; i < a->n_modules && status == ACCEL_OK; i++) {
    status = check_module(a, &a->module[i]);
    if (status == ACCEL_OK)
      status = accel__adapter_config_module(&a->config, a->module[i].name, &a->module[i].lora);
  }
  accel__map_free(&map);
  if (status == ACCEL_OK && !a->n_modules && !a->n_replacements)
    return accel__fail(ACCEL_ERROR_FORMAT, "%s: adapter_model.safetensors has no tensors", a->path);
  return status;
}

/* ---- files ---- */

accel_status accel__adapter_open_tensors(const accel__adapter *a, accel__arena *arena,
                                         accel__checkpoint **out) {
  const char *directory = a->path;
  const char *path = accel__path_join(arena, directory, "adapter_model.safetensors"),
             *pickle = accel__path_join(arena, directory, "adapter_model.bin");
  if (!path || !pickle) return ACCEL_ERROR_OUT_OF_MEMORY;
  if (!accel__file_exists(path) && accel__file_exists(pickle)) {
    accel__fail(ACCEL_ERROR_UNSUPPORTED,
                "%s is not read: it is a pickle, and loading a pickle runs code from the file",
                pickle);
    return accel__remedy(ACCEL_ERROR_UNSUPPORTED,
                         "save the adapter anew with PEFT (save_pretrained writes "
                         "adapter_model.safetensors)");
  }
  return accel__checkpoint_open_headers(path, out);
}

accel_status accel__adapter_read_config(accel__adapter *a, accel__arena *arena, uint64_t *hash) {
  char *text;
  size_t n;
  const char *path = accel__path_join(arena, a->path, "adapter_config.json");
  if (!path) return ACCEL_ERROR_OUT_OF_MEMORY;
  accel_status status = accel__file_read(path, MAX_CONFIG, &text, &n);
  if (status == ACCEL_ERROR_NOT_FOUND)
    return accel__remedy(status,
                         "an adapter is a directory that PEFT's save_pretrained wrote, with "
                         "adapter_config.json and adapter_model.safetensors");
  ACCEL_TRY(status);
  status = accel__adapter_config_parse(text, n, path, &a->config);
  *hash = accel__hash(text, n, *hash);
  free(text);
  return status;
}

static accel_status open_one(accel__adapters *all, const accel_adapter_spec *spec, uint32_t index,
                             accel__checkpoint *checkpoint) {
  accel__adapter *a = &all->adapter[index];
  accel__checkpoint *tensors = NULL;
  char *directory;
  if (!spec->path || !*spec->path)
    return accel__fail(ACCEL_ERROR_ARGUMENT, "adapter %u has no path", index);
  if (!(spec->scale > -1e6 && spec->scale < 1e6))
    return accel__fail(ACCEL_ERROR_ARGUMENT, "adapter '%s': its scale is %g", spec->path,
                       spec->scale);
  a->is_file = accel__ends_with(spec->path, ".safetensors") && !accel__is_directory(spec->path);
  if (!a->is_file && accel__file_exists(spec->path) && !accel__is_directory(spec->path))
    return accel__remedy(
        accel__fail(ACCEL_ERROR_FORMAT, "adapter '%s' is a file, but no safetensors one",
                    spec->path),
        "name a directory that PEFT wrote, or a LoRA of a pipeline as one .safetensors file (.pt, "
        ".ckpt and .bin are pickles, which can run code: save them anew as safetensors)");
  if (a->is_file)
    directory = accel__arena_string(&all->arena, spec->path);
  else
    ACCEL_TRY_AS(accel__find_model(spec->path, &all->arena, &directory), "adapter %u", index);
  if (!directory) return ACCEL_ERROR_OUT_OF_MEMORY;
  a->path = directory;
  a->scale = spec->scale;
  a->prefix = accel__arena_printf(&all->arena, ACCEL__ADAPTER_PREFIX "%u:", index);
  if (!a->prefix) return ACCEL_ERROR_OUT_OF_MEMORY;
  if (!a->is_file) ACCEL_TRY(accel__adapter_read_config(a, &all->arena, &all->hash));
  all->hash = accel__hash(&a->scale, sizeof a->scale, all->hash);
  ACCEL_TRY(a->is_file ? accel__checkpoint_open_headers(a->path, &tensors)
                       : accel__adapter_open_tensors(a, &all->arena, &tensors));
  a->checkpoint = checkpoint;
  const accel_status status = a->is_file ? accel__lora_file_read(a, tensors) : ACCEL_OK;
  if (status != ACCEL_OK) {
    accel__checkpoint_close(&tensors);
    return status;
  }
  return accel__checkpoint_join(checkpoint, &tensors, a->prefix);
}

/* Behind the last join, which moves the tensors of all. */
static accel_status read_all_names(accel__adapters *all) {
  for (uint32_t i = 0; i < all->n; i++) {
    accel__adapter *a = &all->adapter[i];
    ACCEL_TRY(a->is_file ? accel__lora_file_names(a, &all->arena)
                         : accel__adapter_read_names(a, &all->arena));
    for (uint32_t k = 0; k < a->n_replacements; k++)
      ACCEL_TRY(accel__weight_deltas_replace(all->deltas, a->replacement[k].name,
                                             a->replacement[k].tensor->name));
  }
  return ACCEL_OK;
}

accel_status accel__adapters_open(const accel_adapter_spec *specs, uint32_t n,
                                  accel__checkpoint *checkpoint, accel__adapters **out) {
  *out = NULL;
  if (n > MAX_ADAPTERS)
    return accel__fail(ACCEL_ERROR_ARGUMENT, "%u adapters, at most %d", n, MAX_ADAPTERS);
  if (!specs) return accel__fail(ACCEL_ERROR_ARGUMENT, "%u adapters, but no list of them", n);
  if (!checkpoint)
    return accel__fail(ACCEL_ERROR_ARGUMENT,
                       "adapters are merged into the weights of a checkpoint, and random weights "
                       "have none");
  accel__adapters *all = calloc(1, sizeof *all);
  if (!all) return accel__no_memory(sizeof *all);
  all->adapter = accel__arena_array(&all->arena, n, sizeof *all->adapter);
  all->deltas = accel__weight_deltas_new();
  accel_status status = all->adapter && all->deltas ? ACCEL_OK : ACCEL_ERROR_OUT_OF_MEMORY;
  for (; all->n < n && status == ACCEL_OK; all->n++)
    status = open_one(all, &specs[all->n], all->n, checkpoint);
  if (status == ACCEL_OK) status = read_all_names(all);
  if (status != ACCEL_OK) accel__adapters_free(&all);
  *out = all;
  return status;
}

void accel__adapters_free(accel__adapters **adapters) {
  accel__adapters *all = *adapters;
  *adapters = NULL;
  if (!all) return;
  for (uint32_t i = 0; i < all->n; i++) accel__adapter_config_free(&all->adapter[i].config);
  accel__weight_deltas_free(&all->deltas);
  accel__arena_free(&all->arena);
  free(all);
}
