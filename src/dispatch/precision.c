/* precision.c - formats of weights under each precision. */
#include "dispatch/precision.h"

#include <string.h>

#include "core/text.h"
#include "dispatch/weight_roles.h"
#include "formats/format_table.h"

/* Rows shorter than LEAST_FP8 and LEAST_GROUPED, and tables of LEAST_TABLE embeddings or fewer, are
 * kept in wider formats, and rows of LONG elements have groups of twice as many bytes.
 * docs/decisions/ has the measurements. */
enum { LEAST_FP8 = 64, LEAST_GROUPED = 256, LONG = 512, LEAST_TABLE = 64 };

static bool is_plain(uint8_t store) { return store <= ACCEL_PLUGIN_BF16; }

/* Of patterns[*n] those with "@" and this word behind them (`bare`: or nothing), without it. */
static accel_status patterns_at(const char *word, bool bare, const char *const *patterns,
                                uint32_t *n, accel__arena *arena, const char ***out) {
  const uint32_t all = *n;
  const char **here = accel__arena_array(arena, all, sizeof *here);
  if (!here) return ACCEL_ERROR_OUT_OF_MEMORY;
  *n = 0;
  for (uint32_t i = 0; i < all; i++) {
    const char *at = strchr(patterns[i], '@');
    if (at ? strcmp(at + 1, word) : !bare) continue;
    here[*n] =
        at ? accel__arena_printf(arena, "%.*s", (int)(at - patterns[i]), patterns[i]) : patterns[i];
    if (!here[(*n)++]) return ACCEL_ERROR_OUT_OF_MEMORY;
  }
  *out = here;
  return ACCEL_OK;
}

static bool kept(const char *name, const char *const *patterns, uint32_t n) {
  for (uint32_t i = 0; i < n; i++)
    if (accel__glob(patterns[i], name)) return true;
  return false;
}

/* One weight under a precision.  Vectors and plain weights are fp32, and codes go along output
 * channels only. */
static accel_plugin_format weight_format(const accel_plugin_weight *w, uint8_t store,
                                         uint8_t role) {
  const accel_plugin_format half = accel_format_facts_of(ACCEL_PLUGIN_F16)->format;
  if (w->rank < 2) return accel_format_facts_of(ACCEL_PLUGIN_F32)->format;
  const bool head = role & ACCEL__ROLE_HEAD && w->use == ACCEL_PLUGIN_USE_LINEAR;
  accel_plugin_format format = accel_format_for_use(store, head ? ACCEL_PLUGIN_USE_HEAD : w->use);
  const bool coded = format.scale != ACCEL_PLUGIN_NO_DTYPE;
  if (role & ACCEL__ROLE_TRANSPOSED && coded) return half;
  if (w->use == ACCEL_PLUGIN_USE_EMBEDDING && w->dim[0] <= LEAST_TABLE && coded) return half;
  const int64_t k = w->dim[w->rank - 1];
  if (format.store == ACCEL_PLUGIN_E4M3 && k < LEAST_FP8) return half;
  if (format.group_k && k < LEAST_GROUPED) return accel_format_by_row(ACCEL_PLUGIN_I8);
  if (format.group_k && accel_format_facts_of(format.store)->bits == 8 && k >= LONG)
    format.group_k *= 2;
  return format;
}

accel_status accel__precision_unknown(const char *name, const char *also) {
  accel__buffer known = {0};
  accel__buffer_printf(&known, "%s", also);
  for (uint32_t i = 0; i < ACCEL_FORMAT_NUMBERS; i++)
    if (*accel_format_facts_of(i)->precision)
      accel__buffer_printf(&known, " %s", accel_format_facts_of(i)->precision);
  accel__fail(ACCEL_ERROR_ARGUMENT, "unknown precision '%s'; known:%s", name,
              known.data ? known.data : "");
  accel__buffer_free(&known);
  return ACCEL_ERROR_ARGUMENT;
}

accel_status accel__precision_for(const accel_plugin_program *program, const char *name,
                                  const char *const *keep_fp32, uint32_t n_keep,
                                  accel__arena *arena, accel_plugin_precision *out) {
  const uint8_t store = accel_precision_store(name);
  if (store == ACCEL_PLUGIN_NO_DTYPE) return accel__precision_unknown(name, "");
  accel_plugin_format *format = accel__arena_array(arena, program->n_weight, sizeof *format);
  if (!format) return ACCEL_ERROR_OUT_OF_MEMORY;
  uint8_t *role;
  ACCEL_TRY(accel__weight_roles(program, arena, &role));
  const char **patterns, **halves;
  uint32_t n_half = accel_format_facts_of(store)->bits < 16 ? n_keep : 0;
  ACCEL_TRY(patterns_at("coded", false, keep_fp32, &n_half, arena, &halves));
  ACCEL_TRY(patterns_at(name, true, keep_fp32, &n_keep, arena, &patterns));
  for (uint32_t i = 0; i < program->n_weight; i++) {
    const char *weight = program->weight[i].name;
    const uint8_t own = kept(weight, patterns, n_keep) ? ACCEL_PLUGIN_F32
                        : kept(weight, halves, n_half) ? ACCEL_PLUGIN_F16
                                                       : store;
    format[i] = weight_format(&program->weight[i], own, role[i]);
  }
  const bool as_stored = is_plain(store) || store == ACCEL_PLUGIN_I8;
  *out = (accel_plugin_precision){.size = sizeof *out,
                                  .compute = as_stored ? store : ACCEL_PLUGIN_F32,
                                  .kv = is_plain(store) ? store : ACCEL_PLUGIN_F16,
                                  .format = format};
  strncpy(out->name, name, sizeof out->name - 1);
  return ACCEL_OK;
}

accel_status accel__precision_set_kv(accel_plugin_precision *precision, const char *name) {
  static const struct {
    const char *name;
    uint8_t dtype;
  } known[] = {{"fp32", ACCEL_PLUGIN_F32},
               {"fp16", ACCEL_PLUGIN_F16},
               {"bf16", ACCEL_PLUGIN_BF16},
               {"int8", ACCEL_PLUGIN_I8}};
  for (size_t i = 0; name && i < sizeof known / sizeof *known; i++)
    if (!strcmp(known[i].name, name)) {
      precision->kv = known[i].dtype;
      return ACCEL_OK;
    }
  return name ? accel__fail(ACCEL_ERROR_ARGUMENT,
                            "unknown KV cache '%s'; known: fp32 fp16 bf16 int8", name)
              : ACCEL_OK;
}

const char *const *accel__precision_ladder(const accel_plugin_device *device, bool bf16_only_half) {
  static const char *const plain[] = {"fp32", NULL}, *const brain[] = {"bf16", "fp32", NULL},
                           *const half[] = {"fp16", "fp32", NULL};
  bool gpu = device->type == ACCEL_PLUGIN_DEVICE_DISCRETE_GPU ||
             device->type == ACCEL_PLUGIN_DEVICE_INTEGRATED_GPU;
  if (device->flags & ACCEL_PLUGIN_DEVICE_BF16 && (bf16_only_half || !gpu)) return brain;
  if (device->flags & ACCEL_PLUGIN_DEVICE_FP16 && gpu && !bf16_only_half) return half;
  return plain;
}
