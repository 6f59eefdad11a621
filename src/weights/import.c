/* import.c - quantised checkpoints: the table of methods, the weights found in codes, and how they
 * are handed out. */
#include "weights/import.h"

#include <stdlib.h>
#include <string.h>

#include "weights/import_family.h"

static const accel__import_family *const families[] = {
    &accel__import_gptq,  &accel__import_awq,   &accel__import_compressed,   &accel__import_fp8,
    &accel__import_mxfp8, &accel__import_mxfp4, &accel__import_bitsandbytes,
};
enum { FAMILIES = sizeof families / sizeof *families };

/* ---- which method ---- */

static const char *const plain_remedy =
    "use the unquantised checkpoint that the model was made from";

/* Codes that came without a configuration would end as "x.weight is missing": say what it is. */
static accel_status codes_without_config(const accel__json_file *config,
                                         const accel__checkpoint *c) {
  static const char *const marks[] = {".qweight", ".weight_packed", ".SCB", ".weight_scale_inv",
                                      ".weight.quant_map"};
  for (uint32_t i = 0; i < accel__checkpoint_count(c); i++) {
    const accel__tensor_info *t = accel__checkpoint_at(c, i);
    for (size_t m = 0; m < sizeof marks / sizeof *marks; m++) {
      if (!accel__ends_with(t->name, marks[m])) continue;
      accel__fail(ACCEL_ERROR_UNSUPPORTED,
                  "%s: field 'quantization_config' is missing, but tensor '%s' of %s holds codes",
                  config->name, t->name, accel__checkpoint_file(c, t->file));
      return accel__remedy(
          ACCEL_ERROR_UNSUPPORTED,
          "put what quantize_config.json or quant_config.json says, with its quant_method, into %s",
          config->name);
    }
  }
  return ACCEL_OK;
}

static accel_status find_family(accel__import *import) {
  const accel__json *method = accel__json_get(import->config, "quant_method");
  const char *name = cJSON_IsString(method) ? method->valuestring : "";
  if (!method && (accel__json_get(import->config, "load_in_8bit") ||
                  accel__json_get(import->config, "load_in_4bit")))
    name = accel__import_bitsandbytes.method; /* as its first versions wrote it */
  for (int i = 0; i < FAMILIES; i++)
    if (!strcmp(families[i]->method, name)) import->family = families[i];
  if (import->family) return ACCEL_OK;
  accel__buffer known = {0};
  for (int i = 0; i < FAMILIES; i++) accel__buffer_printf(&known, " %s", families[i]->method);
  if (method && cJSON_IsString(method))
    accel__import_refuse(import, "quant_method", "'%s' is not read; known:%s", name,
                         known.data ? known.data : "");
  else
    accel__import_refuse(import, "quant_method", "is missing; known:%s",
                         known.data ? known.data : "");
  accel__buffer_free(&known);
  return accel__remedy(ACCEL_ERROR_UNSUPPORTED, "%s", plain_remedy);
}

/* ---- what was found ---- */

/* Bytes with zeros, which no precision makes, count as its bytes. */
static const char *precision_of(uint32_t store) {
  return accel_format_facts_of(store == ACCEL_PLUGIN_U8 ? ACCEL_PLUGIN_I8 : store)->precision;
}

/* The precision with the most elements, and a sentence with what there is. */
static accel_status sum_up(accel__import *import) {
  double elements[ACCEL_FORMAT_NUMBERS] = {0}, most = 0;
  for (uint32_t i = 0; i < import->n; i++) {
    const accel__import_entry *e = import->entry[i];
    elements[e->format.store] += (double)e->n * (double)e->k;
  }
  for (int plain = 0; plain < 2; plain++) /* among equals: codes */
    for (uint32_t store = 0; store < ACCEL_FORMAT_NUMBERS; store++)
      if (plain == (store <= ACCEL_PLUGIN_BF16) && elements[store] > most)
        most = elements[store], import->precision = precision_of(store);
  if (import->reordered)
    ACCEL_TRY(accel__import_note(
        import,
        "%u of %u weights have their columns in another order (act-order, g_idx) and are "
        "dequantised to fp16: emulated",
        import->reordered, import->n));
  return accel__import_note(
      import, "the checkpoint is quantised (%s): %u weights are kept as it holds them (%s)",
      import->family->method, import->n, import->precision);
}

static accel_status visit_all(accel__import *import) {
  ACCEL_TRY(import->family->configure(import));
  for (uint32_t i = 0; i < accel__checkpoint_count(import->checkpoint); i++)
    ACCEL_TRY(import->family->visit(import, accel__checkpoint_at(import->checkpoint, i)));
  return import->n ? sum_up(import) : ACCEL_OK;
}

accel_status accel__import_open(const accel__json_file *config, const accel__checkpoint *checkpoint,
                                accel__import **out) {
  *out = NULL;
  if (!checkpoint) return ACCEL_OK;
  const accel__json *object = accel__json_get(config->root, "quantization_config");
  /* compressed-tensors, as it was first called */
  if (!object) object = accel__json_get(config->root, "compression_config");
  if (!object) return codes_without_config(config, checkpoint);
  accel__import *import = calloc(1, sizeof *import);
  if (!import) return accel__no_memory(sizeof *import);
  import->file = config;
  import->config = object;
  import->checkpoint = checkpoint;
  accel_status status = find_family(import);
  if (status == ACCEL_OK) status = visit_all(import);
  if (status != ACCEL_OK || !import->n) /* nothing in codes: a plain checkpoint */
    accel__import_free(&import);
  *out = import;
  return status;
}

void accel__import_free(accel__import **import) {
  if (!*import) return;
  accel__map_free(&(*import)->names);
  accel__map_free(&(*import)->used);
  accel__arena_free(&(*import)->arena);
  free(*import);
  *import = NULL;
}

/* ---- registering ---- */

accel_status accel__import_mark(accel__import *import, const accel__tensor_info *tensor) {
  return tensor ? accel__map_set(&import->used, tensor->name, strlen(tensor->name), 1) : ACCEL_OK;
}

static accel_status grow(accel__import *import) {
  if (import->n < import->capacity) return ACCEL_OK;
  uint32_t capacity = import->capacity ? 2 * import->capacity : 64;
  accel__import_entry **entry = accel__arena_array(&import->arena, capacity, sizeof *entry);
  if (!entry) return ACCEL_ERROR_OUT_OF_MEMORY;
  if (import->n) memcpy(entry, import->entry, import->n * sizeof *entry);
  import->entry = entry;
  import->capacity = capacity;
  return ACCEL_OK;
}

accel_status accel__import_add(accel__import *import, const accel__import_entry *entry,
                               const char *of, size_t stem, const char *suffix) {
  accel_matrix_bytes bytes;
  int64_t taken;
  ACCEL_TRY(grow(import));
  accel__import_entry *copy = accel__arena_alloc(&import->arena, sizeof *copy);
  char *name = accel__arena_printf(&import->arena, "%.*s%s", (int)stem, of, suffix);
  if (!copy || !name) return ACCEL_ERROR_OUT_OF_MEMORY;
  *copy = *entry;
  copy->name = name;
  if (!accel_matrix_sizes(&copy->format, copy->n, copy->k, &bytes))
    return accel__import_bad(import, entry->codes, "its matrix is too large");
  if (accel__map_get(&import->names, name, strlen(name), &taken))
    return accel__import_bad(import, entry->codes, "weight '%s' has codes already, in '%s'", name,
                             import->entry[taken]->codes->name);
  const accel__tensor_info *tensor[] = {copy->codes, copy->scale, copy->zero, copy->outer,
                                        copy->order};
  for (size_t i = 0; i < sizeof tensor / sizeof *tensor; i++)
    ACCEL_TRY(accel__import_mark(import, tensor[i]));
  ACCEL_TRY(accel__map_set(&import->names, name, strlen(name), import->n));
  import->entry[import->n++] = copy;
  return ACCEL_OK;
}

/* ---- interface ---- */

static const accel__import_entry *find(const accel__import *import, const char *name) {
  int64_t i;
  return import && accel__map_get(&import->names, name, strlen(name), &i) ? import->entry[i] : NULL;
}

bool accel__import_find(const accel__import *import, const char *name, accel_plugin_format *format,
                        int64_t *n, int64_t *k) {
  const accel__import_entry *entry = find(import, name);
  if (!entry) return false;
  if (format) *format = entry->format;
  if (n) *n = entry->n;
  if (k) *k = entry->k;
  return true;
}

/* Lends what the entry's `read` wants to see, reads, and returns it. */
static accel_status read_entry(const accel__import *import, const accel__import_entry *e,
                               accel__quantised *out) {
  accel__import_bytes from = {0};
  const struct {
    const accel__tensor_info *tensor;
    const void **bytes;
  } wanted[] = {{e->as_stored ? NULL : e->codes, &from.codes},
                {e->scale, &from.scale},
                {e->zero, &from.zero},
                {e->outer, &from.outer},
                {e->order, &from.order}};
  enum { WANTED = sizeof wanted / sizeof *wanted };
  accel__lent lent[WANTED] = {{0}};
  accel_status status =
      e->as_stored ? accel__tensor_read(import->checkpoint, e->codes, 0, e->codes->bytes, out->data)
                   : ACCEL_OK;
  for (int i = 0; i < WANTED && status == ACCEL_OK; i++) {
    if (!wanted[i].tensor) continue;
    status = accel__tensor_borrow(import->checkpoint, wanted[i].tensor, 0, wanted[i].tensor->bytes,
                                  &lent[i]);
    *wanted[i].bytes = lent[i].data;
  }
  if (status == ACCEL_OK) status = e->read(import, e, &from, out);
  for (int i = 0; i < WANTED; i++) accel__tensor_return(&lent[i]);
  return status;
}

accel_status accel__import_read(const accel__import *import, const char *name,
                                accel__quantised *out) {
  *out = (accel__quantised){0};
  const accel__import_entry *entry = find(import, name);
  if (!entry) return accel__fail(ACCEL_ERROR_INTERNAL, "weight '%s' is not held in codes", name);
  ACCEL_TRY(accel__quantised_new(&entry->format, entry->n, entry->k, out));
  accel_status status = read_entry(import, entry, out);
  if (status != ACCEL_OK) accel__quantised_free(out);
  return status;
}

void accel__import_forget(const accel__import *import, const char *name) {
  const accel__import_entry *entry = find(import, name);
  if (!entry) return;
  const accel__tensor_info *tensor[] = {entry->codes, entry->scale, entry->zero, entry->order};
  for (size_t i = 0; i < sizeof tensor / sizeof *tensor; i++)
    if (tensor[i]) accel__checkpoint_forget(import->checkpoint, tensor[i]);
}

bool accel__import_uses(const accel__import *import, const char *tensor) {
  int64_t one;
  return import && accel__map_get(&import->used, tensor, strlen(tensor), &one);
}

const char *accel__import_precision(const accel__import *import) { return import->precision; }

uint32_t accel__import_notes(const accel__import *import, const char *const **notes) {
  *notes = import->notes;
  return import->n_notes;
}
