/* adapter_config.c - the fields of adapter_config.json. */
#include "adapters/adapter_config.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/text.h"

enum { MAX_RANK = 1 << 16, MAX_PATTERNS = 4096, MAX_LAYERS = 1 << 16 };

/* ---- fields ---- */

/* Fields that say how the adapter was trained or begun, where it comes from, or what only training
 * asks for: results do not depend on them. */
static const char *const of_no_effect[] = {"auto_mapping",   "base_model_name_or_path",
                                           "revision",       "task_type",
                                           "inference_mode", "lora_dropout",
                                           "eva_config",     "loftq_config",
                                           "megatron_core",  "qalora_group_size",
                                           "corda_config",   "lora_ga_config",
                                           "runtime_config", "peft_version",
                                           "layers_pattern"};
/* Fields that are read below. */
static const char *const read_here[] = {"peft_type",
                                        "r",
                                        "lora_alpha",
                                        "use_rslora",
                                        "use_dora",
                                        "lora_bias",
                                        "bias",
                                        "fan_in_fan_out",
                                        "target_modules",
                                        "exclude_modules",
                                        "rank_pattern",
                                        "alpha_pattern",
                                        "layers_to_transform",
                                        "modules_to_save",
                                        "init_lora_weights"};

static bool among(const char *name, const char *const *names, size_t n) {
  for (size_t i = 0; i < n; i++)
    if (!strcmp(names[i], name)) return true;
  return false;
}

static bool is_empty(const accel__json *value) {
  return cJSON_IsNull(value) || cJSON_IsFalse(value) ||
         ((cJSON_IsArray(value) || cJSON_IsObject(value)) && !value->child) ||
         (cJSON_IsString(value) && !*value->valuestring) ||
         (cJSON_IsNumber(value) && value->valuedouble == 0);
}

static accel_status refuse(const accel__adapter_config *c, const char *field, const char *why) {
  accel__fail(ACCEL_ERROR_UNSUPPORTED, "%s: field '%.80s': %s", c->file.name, field, why);
  return accel__remedy(ACCEL_ERROR_UNSUPPORTED,
                       "merge the adapter with PEFT (merge_and_unload) and load the result");
}

static accel_status malformed(const accel__adapter_config *c, const char *field,
                              const char *expected) {
  return accel__fail(ACCEL_ERROR_FORMAT, "%s: field '%.80s': expected %s", c->file.name, field,
                     expected);
}

static accel_status refuse_unknown(const accel__adapter_config *c) {
  ACCEL_JSON_EACH(field, c->file.root) {
    if (among(field->string, of_no_effect, sizeof of_no_effect / sizeof *of_no_effect) ||
        among(field->string, read_here, sizeof read_here / sizeof *read_here) || is_empty(field))
      continue;
    return refuse(c, field->string, "it has a value, and what that asks for is not known here");
  }
  return ACCEL_OK;
}

/* "bias" and the tensors that follow from it, and how training began.  Where the base's own weights
 * were changed to begin with (PiSSA, OLoRA, CorDA, LoftQ), W + BA needs these weights. */
static accel_status check_words(const accel__adapter_config *c) {
  static const char *const begins[] = {"gaussian", "eva", "orthogonal"};
  const char *type = NULL, *bias = NULL;
  ACCEL_TRY(accel__json_require(&c->file, c->file.root, "peft_type"));
  ACCEL_TRY(accel__json_string(&c->file, c->file.root, "peft_type", &type));
  if (strcmp(type, "LORA"))
    return refuse(c, "peft_type", "of PEFT's methods only LORA is understood");
  ACCEL_TRY(accel__json_string(&c->file, c->file.root, "bias", &bias));
  if (bias && strcmp(bias, "none") && strcmp(bias, "all") && strcmp(bias, "lora_only"))
    return refuse(c, "bias", "known are none, all, lora_only");
  const accel__json *begin = accel__json_get(c->file.root, "init_lora_weights");
  if (begin && !cJSON_IsBool(begin) &&
      !(cJSON_IsString(begin) && among(begin->valuestring, begins, sizeof begins / sizeof *begins)))
    return refuse(c, "init_lora_weights",
                  "the adapter may belong to weights that this way of beginning has changed (known "
                  "to leave them: true, false, gaussian, eva, orthogonal)");
  return ACCEL_OK;
}

static accel_status check_strings(const accel__adapter_config *c, const char *field,
                                  const accel__json *list) {
  ACCEL_JSON_EACH(item, list)
  if (!cJSON_IsString(item) || !*item->valuestring)
    return malformed(c, field, "names of modules, none empty");
  return ACCEL_OK;
}

static accel_status compile(accel__adapter_config *c, const char *field, const char *expression,
                            const accel__regex **out) {
  ACCEL_TRY_AS(accel__regex_compile_whole(&c->arena, expression, out), "%s: field '%s'",
               c->file.name, field);
  return ACCEL_OK;
}

static accel_status read_names(accel__adapter_config *c, const char *field,
                               accel__module_names *out) {
  const accel__json *value = accel__json_get(c->file.root, field);
  if (!value) return ACCEL_OK;
  if (cJSON_IsArray(value)) {
    ACCEL_TRY(check_strings(c, field, value));
    out->list = value->child ? value : NULL;
    return ACCEL_OK;
  }
  if (!cJSON_IsString(value)) return malformed(c, field, "a list of names or one expression");
  out->all_linear = accel__equal_ignoring_case(value->valuestring, "all-linear");
  if (out->all_linear || !*value->valuestring) return ACCEL_OK;
  return compile(c, field, value->valuestring, &out->regex);
}

/* {"key": number}: a module's name matches a key as PEFT's get_pattern_key has it. */
static accel_status read_pattern(accel__adapter_config *c, const char *field, bool whole_numbers,
                                 accel__module_pattern **out, uint32_t *n) {
  const accel__json *object = NULL;
  uint32_t all = 0;
  ACCEL_TRY(accel__json_object(&c->file, c->file.root, field, &object));
  ACCEL_JSON_EACH(item, object) all++;
  if (all > MAX_PATTERNS) return malformed(c, field, "at most 4096 patterns");
  *out = accel__arena_array(&c->arena, all, sizeof **out);
  if (!*out) return ACCEL_ERROR_OUT_OF_MEMORY;
  ACCEL_JSON_EACH(item, object) {
    const double value = cJSON_IsNumber(item) ? item->valuedouble : 0;
    if (!(value > 0 && value <= (whole_numbers ? MAX_RANK : 1e30)) ||
        (whole_numbers && value != floor(value)))
      return malformed(c, field, "positive numbers by pattern");
    const char *key = accel__arena_printf(&c->arena, "(?:.*\\.)?(?:%s)", item->string);
    if (!key) return ACCEL_ERROR_OUT_OF_MEMORY;
    (*out)[*n].value = value;
    ACCEL_TRY(compile(c, field, key, &(*out)[*n].key));
    ++*n;
  }
  return ACCEL_OK;
}

static accel_status read_layers(accel__adapter_config *c) {
  const accel__json *value = accel__json_get(c->file.root, "layers_to_transform");
  if (!value || (is_empty(value) && !cJSON_IsNumber(value))) return ACCEL_OK; /* 0 is a layer */
  const bool list = cJSON_IsArray(value);
  const accel__json *first = list ? value->child : value;
  uint32_t n = 0;
  for (const accel__json *i = first; i; i = list ? i->next : NULL) n++;
  if (n > MAX_LAYERS) return malformed(c, "layers_to_transform", "at most 65536 layers");
  c->layers = accel__arena_array(&c->arena, n, sizeof *c->layers);
  if (!c->layers) return ACCEL_ERROR_OUT_OF_MEMORY;
  for (const accel__json *i = first; i; i = list ? i->next : NULL) {
    const double v = cJSON_IsNumber(i) ? i->valuedouble : -1;
    if (!(v >= 0 && v < 1e9) || v != floor(v))
      return malformed(c, "layers_to_transform", "numbers of layers, from 0");
    c->layers[c->n_layers++] = (int64_t)v;
  }
  return ACCEL_OK;
}

static accel_status read_fields(accel__adapter_config *c) {
  const accel__json *root = c->file.root, *list = NULL;
  const accel__json_file *file = &c->file;
  if (!cJSON_IsObject(root))
    return accel__fail(ACCEL_ERROR_FORMAT, "%s: expected an object", file->name);
  ACCEL_TRY(check_words(c));
  ACCEL_TRY(refuse_unknown(c));
  c->rank = 8; /* PEFT's defaults, where a file leaves them out */
  c->alpha = 8;
  ACCEL_TRY(accel__json_int(file, root, "r", 1, MAX_RANK, &c->rank));
  ACCEL_TRY(accel__json_number(file, root, "lora_alpha", &c->alpha));
  if (!isfinite(c->alpha)) return malformed(c, "lora_alpha", "a finite number");
  ACCEL_TRY(accel__json_bool(file, root, "use_rslora", &c->rslora));
  ACCEL_TRY(accel__json_bool(file, root, "use_dora", &c->dora));
  ACCEL_TRY(accel__json_bool(file, root, "lora_bias", &c->lora_bias));
  ACCEL_TRY(accel__json_bool(file, root, "fan_in_fan_out", &c->fan_in_fan_out));
  if (c->dora && c->lora_bias) return refuse(c, "lora_bias", "it is not known beside use_dora");
  ACCEL_TRY(accel__json_array(file, root, "modules_to_save", &list));
  ACCEL_TRY(check_strings(c, "modules_to_save", list));
  ACCEL_TRY(read_names(c, "target_modules", &c->target));
  ACCEL_TRY(read_names(c, "exclude_modules", &c->exclude));
  ACCEL_TRY(read_pattern(c, "rank_pattern", true, &c->rank_pattern, &c->n_rank_pattern));
  ACCEL_TRY(read_pattern(c, "alpha_pattern", false, &c->alpha_pattern, &c->n_alpha_pattern));
  return read_layers(c);
}

accel_status accel__adapter_config_parse(const char *text, size_t n, const char *name,
                                         accel__adapter_config *out) {
  *out = (accel__adapter_config){.rank = 0};
  ACCEL_TRY(accel__json_parse(text, n, name, &out->file));
  return read_fields(out);
}

void accel__adapter_config_free(accel__adapter_config *config) {
  accel__json_free(&config->file);
  accel__arena_free(&config->arena);
  *config = (accel__adapter_config){.rank = 0};
}

/* ---- modules ---- */

bool accel__is_module_end(const char *module, const char *name) {
  const size_t n = strlen(module), m = strlen(name);
  return accel__ends_with(module, name) && (n == m || module[n - m - 1] == '.');
}

static accel_status matches(const accel__module_names *names, const char *module, bool *out) {
  *out = names->all_linear;
  ACCEL_JSON_EACH(item, names->list) *out = *out || accel__is_module_end(module, item->valuestring);
  return names->regex ? accel__regex_match_whole(names->regex, module, out) : ACCEL_OK;
}

/* Is one of the numbers in "model.layers.3.mlp" a layer to transform? */
static bool in_layers(const accel__adapter_config *c, const char *module) {
  bool found = c->layers == NULL;
  for (const char *at = module; at && !found; at = strchr(at, '.')) {
    char *end;
    if (*at == '.') at++;
    const long long layer = *at >= '0' && *at <= '9' ? strtoll(at, &end, 10) : -1;
    if (layer < 0 || *end != '.') continue;
    for (uint32_t i = 0; i < c->n_layers; i++) found = found || c->layers[i] == layer;
  }
  return found;
}

static accel_status outside(const accel__adapter_config *c, const char *field, const char *module) {
  return accel__fail(ACCEL_ERROR_FORMAT,
                     "%s: field '%s' leaves '%.160s' out, but the adapter has tensors for it",
                     c->file.name, field, module);
}

/* The value of the first pattern that matches; else what it was. */
static accel_status of_pattern(const accel__module_pattern *pattern, uint32_t n, const char *module,
                               double *value) {
  bool found = false;
  for (uint32_t i = 0; i < n && !found; i++) {
    ACCEL_TRY(accel__regex_match_whole(pattern[i].key, module, &found));
    if (found) *value = pattern[i].value;
  }
  return ACCEL_OK;
}

accel_status accel__adapter_config_module(const accel__adapter_config *c, const char *module,
                                          accel__module_lora *out) {
  bool found;
  double rank = (double)c->rank, alpha = c->alpha;
  ACCEL_TRY(matches(&c->target, module, &found));
  if (!found) return outside(c, "target_modules", module);
  ACCEL_TRY(matches(&c->exclude, module, &found));
  if (found) return outside(c, "exclude_modules", module);
  if (!in_layers(c, module)) return outside(c, "layers_to_transform", module);
  ACCEL_TRY(of_pattern(c->rank_pattern, c->n_rank_pattern, module, &rank));
  ACCEL_TRY(of_pattern(c->alpha_pattern, c->n_alpha_pattern, module, &alpha));
  *out = (accel__module_lora){.rank = (int64_t)rank,
                              .scaling = alpha / (c->rslora ? sqrt(rank) : rank)};
  return ACCEL_OK;
}
