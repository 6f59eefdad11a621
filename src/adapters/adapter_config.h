/* adapter_config.h - adapter_config.json of a LoRA adapter, as PEFT writes it.
 *
 * Every field is either read here, known to change nothing at inference, or must be empty: a field
 * with a value that is not understood is refused by name, since what it asks for would be missing
 * in the results.
 */
#ifndef ACCEL_ADAPTERS_ADAPTER_CONFIG_H
#define ACCEL_ADAPTERS_ADAPTER_CONFIG_H

#include "core/json.h"
#include "text/regex.h"

/* Names of modules: a list, of which one must be a module's name or its end behind a dot; or an
 * expression that matches all of its name; or every linear layer. */
typedef struct accel__module_names {
  const accel__json *list;   /* array of strings; NULL: none */
  const accel__regex *regex; /* NULL: none */
  bool all_linear;           /* "all-linear" */
} accel__module_names;

/* rank_pattern or alpha_pattern: the first key that matches counts. */
typedef struct accel__module_pattern {
  const accel__regex *key;
  double value;
} accel__module_pattern;

typedef struct accel__adapter_config {
  accel__json_file file;
  accel__arena arena;
  int64_t rank;
  double alpha;
  bool rslora; /* alpha is divided by sqrt(rank), not by rank */
  bool dora, lora_bias;
  bool fan_in_fan_out; /* the base's weights are [in, out] */
  accel__module_names target, exclude;
  accel__module_pattern *rank_pattern, *alpha_pattern;
  uint32_t n_rank_pattern, n_alpha_pattern;
  int64_t *layers; /* [n_layers] layers_to_transform; NULL: all */
  uint32_t n_layers;
} accel__adapter_config; /* {0} is empty */

/* text[n] is the file's, `name` its path for messages.  ACCEL_ERROR_FORMAT: a field is missing or
 * malformed; ACCEL_ERROR_UNSUPPORTED: another peft_type, or a field that is not understood.  On
 * failure, too, *out is to be freed. */
accel_status accel__adapter_config_parse(const char *text, size_t n, const char *name,
                                         accel__adapter_config *out);
void accel__adapter_config_free(accel__adapter_config *config);

/* What the config says of one module, by its name in the base model ("model.layers.0.q_proj"). */
typedef struct accel__module_lora {
  int64_t rank;
  double scaling; /* alpha / rank, or alpha / sqrt(rank) */
} accel__module_lora;
/* ACCEL_ERROR_FORMAT: the module is none of target_modules or layers_to_transform, or is one of
 * exclude_modules; the message names the field. */
accel_status accel__adapter_config_module(const accel__adapter_config *config, const char *module,
                                          accel__module_lora *out);

/* Is `name` the module, or its end behind a dot ("q_proj" of "layers.0.q_proj")? */
bool accel__is_module_end(const char *module, const char *name);

#endif
