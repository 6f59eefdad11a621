/* sentence_modules.c - reading a sentence-transformers directory. */
#include "processing/sentence_modules.h"

#include <string.h>

#include "core/file.h"
#include "core/text.h"

enum { MAX_DENSE = 4 };

/* In the order in which Pooling concatenates the old boolean spellings. */
static const struct {
  const char *name, *old_key;
  accel__pooling mode;
} poolings[] = {
    {"cls", "pooling_mode_cls_token", ACCEL__POOL_CLS},
    {"max", "pooling_mode_max_tokens", ACCEL__POOL_MAX},
    {"mean", "pooling_mode_mean_tokens", ACCEL__POOL_MEAN},
    {"mean_sqrt_len_tokens", "pooling_mode_mean_sqrt_len_tokens", ACCEL__POOL_MEAN_SQRT_LEN},
    {"weightedmean", "pooling_mode_weightedmean_tokens", ACCEL__POOL_WEIGHTED_MEAN},
    {"lasttoken", "pooling_mode_lasttoken", ACCEL__POOL_LAST},
};
enum { N_POOLINGS = sizeof poolings / sizeof *poolings };

/* ---- fields ---- */

static accel_status not_done(const accel__json_file *file, const char *object, const char *key) {
  return accel__fail(ACCEL_ERROR_UNSUPPORTED, "%s: field '%s%s%s' is not supported", file->name,
                     object, *object ? "." : "", key);
}

/* Every member of object must be one of `known`, a NULL-terminated list; empty objects and nulls
 * say nothing. */
static accel_status check_keys(const accel__json_file *file, const accel__json *object,
                               const char *name, const char *const *known) {
  ACCEL_JSON_EACH(item, object) {
    size_t i = 0;
    while (known[i] && strcmp(known[i], item->string)) i++;
    if (known[i] || cJSON_IsNull(item) ||
        ((cJSON_IsObject(item) || cJSON_IsArray(item)) && !item->child))
      continue;
    return not_done(file, name, item->string);
  }
  return ACCEL_OK;
}

/* A field that may only say what is done anyway. */
static accel_status check_is(const accel__json_file *file, const char *key, const char *expected) {
  const char *value = expected;
  ACCEL_TRY(accel__json_string(file, file->root, key, &value));
  if (!strcmp(value, expected)) return ACCEL_OK;
  return accel__fail(ACCEL_ERROR_UNSUPPORTED, "%s: field '%s': '%s' is not supported; known: %s",
                     file->name, key, value, expected);
}

int accel__pooling_by_name(const char *name) {
  for (int i = 0; i < N_POOLINGS; i++)
    if (!strcmp(poolings[i].name, name)) return (int)poolings[i].mode;
  return strcmp(name, "none") ? -1 : ACCEL__POOL_NONE;
}

const char *accel__pooling_names(const accel__embed_head *head, accel__arena *arena) {
  const char *names = "";
  for (uint32_t i = 0; names && i < head->n_pooling; i++)
    for (int k = 0; k < N_POOLINGS; k++)
      if (poolings[k].mode == head->pooling[i])
        names = accel__arena_printf(arena, "%s%s%s", names, i ? "+" : "", poolings[k].name);
  return names;
}

/* ---- Pooling ---- */

static accel_status add_pooling(const accel__json_file *file, const char *name,
                                accel__embed_head *head) {
  int mode = name ? accel__pooling_by_name(name) : -1;
  if (mode <= ACCEL__POOL_NONE)
    return accel__fail(ACCEL_ERROR_UNSUPPORTED,
                       "%s: pooling_mode '%s' is not supported; known: cls max mean "
                       "mean_sqrt_len_tokens weightedmean lasttoken",
                       file->name, name ? name : "?");
  if (head->n_pooling == N_POOLINGS)
    return accel__fail(ACCEL_ERROR_FORMAT, "%s: more than %d pooling modes", file->name,
                       N_POOLINGS);
  head->pooling[head->n_pooling++] = (accel__pooling)mode;
  return ACCEL_OK;
}

static accel_status read_pooling_modes(const accel__json_file *file, accel__embed_head *head) {
  const accel__json *mode = accel__json_get(file->root, "pooling_mode");
  if (mode && cJSON_IsString(mode)) return add_pooling(file, mode->valuestring, head);
  if (mode && cJSON_IsArray(mode)) {
    ACCEL_JSON_EACH(item, mode) ACCEL_TRY(add_pooling(file, item->valuestring, head));
    return ACCEL_OK;
  }
  for (int i = 0; i < N_POOLINGS; i++) {
    bool on = false;
    ACCEL_TRY(accel__json_bool(file, file->root, poolings[i].old_key, &on));
    if (on) ACCEL_TRY(add_pooling(file, poolings[i].name, head));
  }
  return head->n_pooling ? ACCEL_OK : add_pooling(file, "mean", head);
}

static accel_status check_pooling(const accel__json_file *file) {
  static const char *const plain[] = {"pooling_mode", "word_embedding_dimension",
                                      "embedding_dimension", "include_prompt"};
  const char *known[N_POOLINGS + 5] = {NULL};
  for (int i = 0; i < 4; i++) known[i] = plain[i];
  for (int i = 0; i < N_POOLINGS; i++) known[4 + i] = poolings[i].old_key;
  return check_keys(file, file->root, "", known);
}

static accel_status read_pooling(const char *directory, accel__arena *arena,
                                 accel__sentence_modules *out) {
  accel__json_file file = {0};
  char *path = accel__path_join(arena, directory, "config.json");
  if (!path) return ACCEL_ERROR_OUT_OF_MEMORY;
  if (out->head.n_pooling)
    return accel__fail(ACCEL_ERROR_UNSUPPORTED, "%s: a second Pooling module", path);
  ACCEL_TRY(accel__json_read(path, 1 << 20, &file));
  accel_status status = check_pooling(&file);
  if (status == ACCEL_OK) status = read_pooling_modes(&file, &out->head);
  if (status == ACCEL_OK)
    status = accel__json_bool(&file, file.root, "include_prompt", &out->include_prompt);
  accel__json_free(&file);
  return status;
}

/* ---- Dense, LayerNorm ---- */

int accel__torch_activation(const char *name) {
  static const struct {
    const char *name;
    int act;
  } known[] = {{"Tanh", ACCEL_PLUGIN_ACT_TANH},       {"Identity", ACCEL_PLUGIN_ACT_NONE},
               {"ReLU", ACCEL_PLUGIN_ACT_RELU},       {"GELU", ACCEL_PLUGIN_ACT_GELU},
               {"Sigmoid", ACCEL_PLUGIN_ACT_SIGMOID}, {"SiLU", ACCEL_PLUGIN_ACT_SILU}};
  const char *last = strrchr(name, '.') ? strrchr(name, '.') + 1 : name;
  for (size_t i = 0; i < sizeof known / sizeof *known; i++)
    if (!strcmp(known[i].name, last)) return known[i].act;
  return -1;
}

static accel_status dense_activation(const accel__json_file *file, int *act) {
  const char *name = "torch.nn.modules.activation.Tanh";
  ACCEL_TRY(accel__json_string(file, file->root, "activation_function", &name));
  if ((*act = accel__torch_activation(name)) >= 0) return ACCEL_OK;
  return accel__fail(
      ACCEL_ERROR_UNSUPPORTED,
      "%s: activation_function '%s' is not supported; known: Tanh Identity ReLU GELU Sigmoid SiLU",
      file->name, name);
}

static accel_status dense_fields(const accel__json_file *file, accel__dense *d) {
  bool residual = false;
  *d = (accel__dense){.bias = true};
  ACCEL_TRY(accel__json_require(file, file->root, "in_features"));
  ACCEL_TRY(accel__json_require(file, file->root, "out_features"));
  ACCEL_TRY(accel__json_int(file, file->root, "in_features", 1, 1 << 20, &d->in));
  ACCEL_TRY(accel__json_int(file, file->root, "out_features", 1, 1 << 20, &d->out));
  ACCEL_TRY(accel__json_bool(file, file->root, "bias", &d->bias));
  ACCEL_TRY(accel__json_bool(file, file->root, "use_residual", &residual));
  if (residual) return not_done(file, "", "use_residual");
  ACCEL_TRY(check_is(file, "module_input_name", "sentence_embedding"));
  ACCEL_TRY(check_is(file, "module_output_name", "sentence_embedding"));
  return dense_activation(file, &d->activation);
}

static accel_status norm_fields(const accel__json_file *file, accel__dense *d) {
  static const char *const known[] = {"dimension", NULL};
  *d = (accel__dense){.bias = true, .norms = true, .activation = ACCEL_PLUGIN_ACT_NONE};
  ACCEL_TRY(check_keys(file, file->root, "", known));
  ACCEL_TRY(accel__json_require(file, file->root, "dimension"));
  ACCEL_TRY(accel__json_int(file, file->root, "dimension", 1, 1 << 20, &d->in));
  d->out = d->in;
  return ACCEL_OK;
}

/* Dense, or LayerNorm. */
static accel_status read_layer(const char *directory, const char *path, bool norms,
                               accel__arena *arena, accel__dense *list,
                               accel__sentence_modules *out) {
  accel__json_file file = {0};
  char *config = accel__path_join(arena, directory, "config.json");
  uint32_t i = out->head.n_dense;
  if (!config) return ACCEL_ERROR_OUT_OF_MEMORY;
  if (i == MAX_DENSE)
    return accel__fail(ACCEL_ERROR_UNSUPPORTED, "%s: more than %d modules Dense and LayerNorm",
                       config, MAX_DENSE);
  ACCEL_TRY(accel__json_read(config, 1 << 20, &file));
  accel__dense *d = &list[i];
  accel_status status = norms ? norm_fields(&file, d) : dense_fields(&file, d);
  ACCEL_GOTO(status);
  const char *layer = norms ? "norm" : "linear";
  out->dense_directory[i] = accel__arena_string(arena, directory);
  out->dense_prefix[i] = accel__arena_printf(arena, "%s/", path);
  d->weight = accel__arena_printf(arena, "%s/%s.weight", path, layer);
  d->bias_name = accel__arena_printf(arena, "%s/%s.bias", path, layer);
  if (!out->dense_directory[i] || !out->dense_prefix[i] || !d->weight || !d->bias_name)
    status = ACCEL_ERROR_OUT_OF_MEMORY;
  out->head.n_dense = i + 1;
done:
  accel__json_free(&file);
  return status;
}

static accel_status read_normalize(const char *directory, accel__sentence_modules *out) {
  accel__json_file file;
  out->head.normalize = true;
  /* it has none in most cases */
  accel_status status = accel__json_read_beside(directory, "config.json", 1 << 20, &file);
  if (status == ACCEL_OK) status = check_is(&file, "module_input_name", "sentence_embedding");
  if (status == ACCEL_OK) status = check_is(&file, "module_output_name", "sentence_embedding");
  accel__json_free(&file);
  return status;
}

/* ---- the transformer and the prompts ---- */

/* What is passed on to transformers' loaders: only what changes no number, or is read here. */
static accel_status read_arguments(const accel__json_file *file, accel__sentence_modules *out) {
  static const char *const model[] = {
      "trust_remote_code", "torch_dtype",       "dtype", "attn_implementation",
      "add_pooling_layer", "low_cpu_mem_usage", NULL};
  static const char *const tokenizer[] = {"trust_remote_code", "use_fast", "padding_side",
                                          "model_max_length", NULL};
  static const struct {
    const char *key;
    const char *const *known;
  } all[] = {{"model_args", model},         {"model_kwargs", model},
             {"config_args", model},        {"config_kwargs", model},
             {"tokenizer_args", tokenizer}, {"processor_kwargs", tokenizer}};
  for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
    const accel__json *object = NULL;
    ACCEL_TRY(accel__json_object(file, file->root, all[i].key, &object));
    ACCEL_TRY(check_keys(file, object, all[i].key, all[i].known));
    if (all[i].known == tokenizer)
      ACCEL_TRY(
          accel__json_int(file, object, "model_max_length", 1, 1 << 24, &out->max_seq_length));
  }
  return ACCEL_OK;
}

static accel_status read_transformer_config(const accel__json_file *file,
                                            accel__sentence_modules *out) {
  /* query and document settings belong to encode_query and encode_document, which are not what is
   * done here */
  static const char *const known[] = {"max_seq_length",
                                      "do_lower_case",
                                      "transformer_task",
                                      "module_output_name",
                                      "modality_config",
                                      "unpad_inputs",
                                      "query_length",
                                      "document_length",
                                      "query_expansion",
                                      "model_args",
                                      "model_kwargs",
                                      "config_args",
                                      "config_kwargs",
                                      "tokenizer_args",
                                      "processor_kwargs",
                                      "backend",
                                      NULL};
  ACCEL_TRY(check_keys(file, file->root, "", known));
  ACCEL_TRY(check_is(file, "transformer_task", "feature-extraction"));
  ACCEL_TRY(check_is(file, "module_output_name", "token_embeddings"));
  ACCEL_TRY(read_arguments(file, out));
  ACCEL_TRY(accel__json_int(file, file->root, "max_seq_length", 1, 1 << 24, &out->max_seq_length));
  return accel__json_bool(file, file->root, "do_lower_case", &out->lower_case);
}

static accel_status read_transformer(const char *directory, accel__arena *arena,
                                     accel__sentence_modules *out) {
  static const char *const kinds[] = {"bert",   "roberta",     "distilbert", "camembert",
                                      "albert", "xlm-roberta", "xlnet"};
  accel__json_file file = {0};
  out->transformer = accel__arena_string(arena, directory);
  if (!out->transformer) return ACCEL_ERROR_OUT_OF_MEMORY;
  for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
    char *path = accel__arena_printf(arena, "%s/sentence_%s_config.json", directory, kinds[i]);
    if (!path) return ACCEL_ERROR_OUT_OF_MEMORY;
    if (!accel__file_exists(path)) continue;
    ACCEL_TRY(accel__json_read(path, 1 << 20, &file));
    accel_status status = read_transformer_config(&file, out);
    accel__json_free(&file);
    return status;
  }
  return ACCEL_OK;
}

static accel_status read_settings(const char *directory, accel__arena *arena,
                                  accel__sentence_modules *out) {
  accel__json_file file = {0};
  const accel__json *prompts = NULL;
  const char *chosen = NULL;
  accel_status status =
      accel__json_read_beside(directory, "config_sentence_transformers.json", 1 << 20, &file);
  ACCEL_GOTO(status);
  ACCEL_GOTO(accel__json_object(&file, file.root, "prompts", &prompts));
  ACCEL_GOTO(accel__json_string(&file, file.root, "default_prompt_name", &chosen));
  ACCEL_GOTO(accel__json_int(&file, file.root, "truncate_dim", 1, INT32_MAX, &out->truncate_dim));
  int n = cJSON_GetArraySize(prompts);
  accel__prompt *list = accel__arena_array(arena, (size_t)n, sizeof *list);
  if (!list) ACCEL_GOTO(ACCEL_ERROR_OUT_OF_MEMORY);
  ACCEL_JSON_EACH(item, prompts) {
    bool none = cJSON_IsNull(item); /* stands for "" */
    if (!none && !cJSON_IsString(item))
      ACCEL_GOTO(accel__fail(ACCEL_ERROR_FORMAT, "%s: field 'prompts': '%s' is not a string",
                             file.name, item->string));
    accel__prompt *p = &list[out->n_prompts++];
    *p = (accel__prompt){.name = accel__arena_string(arena, item->string),
                         .text = accel__arena_string(arena, none ? "" : item->valuestring)};
    if (!p->name || !p->text) ACCEL_GOTO(ACCEL_ERROR_OUT_OF_MEMORY);
  }
  out->prompts = list;
  if (chosen) out->default_prompt = accel__arena_string(arena, chosen);
done:
  accel__json_free(&file);
  return status;
}

/* ---- modules.json ---- */

/* "." and plain names below the directory; ".." in a name is no step up. */
static bool stays_inside(const char *path) {
  if (path[0] == '/') return false;
  for (const char *part = path; part; part = strchr(part, '/') ? strchr(part, '/') + 1 : NULL)
    if (!strncmp(part, "..", 2) && (part[2] == '/' || !part[2])) return false;
  return true;
}

static accel_status read_module(const accel__json_file *file, const accel__json *module,
                                const char *directory, accel__arena *arena, accel__dense *dense,
                                accel__sentence_modules *out) {
  const char *type = NULL, *path = "";
  ACCEL_TRY(accel__json_require(file, module, "type"));
  ACCEL_TRY(accel__json_string(file, module, "type", &type));
  ACCEL_TRY(accel__json_string(file, module, "path", &path));
  if (!stays_inside(path))
    return accel__fail(ACCEL_ERROR_FORMAT, "%s: path '%s' leaves the model's directory", file->name,
                       path);
  const char *kind = strrchr(type, '.') ? strrchr(type, '.') + 1 : type;
  char *full =
      *path ? accel__path_join(arena, directory, path) : accel__arena_string(arena, directory);
  if (!full) return ACCEL_ERROR_OUT_OF_MEMORY;
  if (!accel__starts_with(type, "sentence_transformers."))
    return accel__fail(ACCEL_ERROR_UNSUPPORTED,
                       "%s: module type '%s' is not one of sentence-transformers' own; code of "
                       "models is never run",
                       file->name, type);
  bool is_transformer = !strcmp(kind, "Transformer");
  if (is_transformer == (out->transformer != NULL))
    return accel__fail(
        ACCEL_ERROR_UNSUPPORTED,
        "%s: module type '%s': the first module, and no other, must be a Transformer", file->name,
        type);
  const bool norms = !strcmp(kind, "LayerNorm"), layer = norms || !strcmp(kind, "Dense");
  if (!out->head.n_pooling && (layer || !strcmp(kind, "Normalize")))
    return accel__fail(ACCEL_ERROR_UNSUPPORTED, "%s: module type '%s' comes before Pooling",
                       file->name, type);
  if (is_transformer) return read_transformer(full, arena, out);
  if (!strcmp(kind, "Pooling")) return read_pooling(full, arena, out);
  if (layer) return read_layer(full, path, norms, arena, dense, out);
  if (!strcmp(kind, "Normalize")) return read_normalize(full, out);
  if (!strcmp(kind, "Dropout")) return ACCEL_OK;
  return accel__fail(ACCEL_ERROR_UNSUPPORTED,
                     "%s: module type '%s' is not supported; known: Transformer Pooling Dense "
                     "LayerNorm Normalize Dropout",
                     file->name, type);
}

accel_status accel__read_sentence_modules(const char *directory, accel__arena *arena,
                                          accel__sentence_modules *out) {
  accel__json_file file;
  *out = (accel__sentence_modules){.include_prompt = true, .transformer = directory};
  accel__dense *dense = accel__arena_array(arena, MAX_DENSE, sizeof *dense);
  if (!dense) return ACCEL_ERROR_OUT_OF_MEMORY;
  out->head.dense = dense;
  ACCEL_TRY(accel__json_read_beside(directory, "modules.json", 1 << 20, &file));
  if (!file.root) return ACCEL_OK;
  out->transformer = NULL;
  accel_status status =
      cJSON_IsArray(file.root) && file.root->child
          ? ACCEL_OK
          : accel__fail(ACCEL_ERROR_FORMAT, "%s: expected an array of modules", file.name);
  bool normalized = false;
  ACCEL_JSON_EACH(module, file.root) {
    if (status != ACCEL_OK) break;
    if (normalized)
      status = accel__fail(ACCEL_ERROR_UNSUPPORTED, "%s: a module after Normalize", file.name);
    else
      status = read_module(&file, module, directory, arena, dense, out);
    normalized = out->head.normalize;
  }
  accel__json_free(&file);
  ACCEL_TRY(status);
  out->present = true;
  return read_settings(directory, arena, out);
}
