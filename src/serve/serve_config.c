/* serve_config.c - see serve_config.h. */
#include "serve/serve_config.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/size.h"
#include "serve/serve_log.h"

serve_config serve_config_default(void) {
  return (serve_config){.host = "127.0.0.1",
                        .port = 8000,
                        .max_requests = 64,
                        .max_waiting = 64,
                        .max_connections = 256,
                        .connections_per_address = 8,
                        .header_timeout = 30,
                        .drain = 30,
                        .pool_wait = 60,
                        .max_body = UINT64_C(16) << 20,
                        .max_audio_body = UINT64_C(64) << 20,
                        .context = accel_params_default()};
}

static accel_status no_memory(void) {
  serve_log(ACCEL_LOG_ERROR, "out of memory");
  return ACCEL_ERROR_OUT_OF_MEMORY;
}

/* Frees `block` with the config. */
static bool own(serve_config *config, void *block) {
  if (block && config->n_owned < sizeof config->owned / sizeof config->owned[0]) {
    config->owned[config->n_owned++] = block;
    return true;
  }
  free(block);
  no_memory();
  return false;
}

static void free_model(serve_model_config *model) {
  free((void *)model->name);
  free(model->adapter);
}

void serve_config_free(serve_config *config) {
  for (uint32_t i = 0; i < config->n_owned; ++i) free(config->owned[i]);
  for (uint32_t i = 0; i < config->n_model; ++i) free_model(&config->model[i]);
  free(config->model);
  cJSON_Delete(config->file);
  *config = (serve_config){0};
}

/* ---- fields of the file ---- */

typedef enum field_kind { TEXT, TEXTS, COUNT, WIDE, SIZE, NUMBER, FLAG, MODE } field_kind;
typedef struct field {
  const char *name;
  field_kind kind;
  size_t
      offset; /* of the member: const char *, serve_texts, uint32_t, of WIDE and SIZE uint64_t, of NUMBER double */
  int64_t min, max; /* of numbers */
} field;

#define TOP(name, kind, member, ...) \
  { name, kind, offsetof(serve_config, member), __VA_ARGS__ }
static const field top_fields[] = {
    TOP("host", TEXT, host, 0, 0),
    TOP("port", COUNT, port, 0, 65535),
    TOP("socket", TEXT, socket, 0, 0),
    TOP("api_key_file", TEXT, api_key_file, 0, 0),
    TOP("allow_host", TEXTS, allow_host, 0, 0),
    TOP("allow_origin", TEXTS, allow_origin, 0, 0),
    TOP("max_requests", COUNT, max_requests, 1, 1024),
    TOP("max_waiting", COUNT, max_waiting, 0, 65536),
    TOP("max_connections", COUNT, max_connections, 1, 65536),
    TOP("connections_per_address", COUNT, connections_per_address, 1, 65536),
    TOP("header_timeout", COUNT, header_timeout, 1, 3600),
    TOP("request_timeout", COUNT, request_timeout, 0, 31536000),
    TOP("drain", COUNT, drain, 0, 86400),
    TOP("max_body", SIZE, max_body, 0, 0),
    TOP("max_audio_body", SIZE, max_audio_body, 0, 0),
    TOP("pool_memory", SIZE, pool_memory, 0, 0),
    TOP("pool_wait", COUNT, pool_wait, 1, 86400),
    TOP("threads", COUNT, context.threads, 0, 4096),
    TOP("mode", MODE, context.mode, 0, 0),
    TOP("memory", SIZE, context.memory_limit, 0, 0),
    TOP("plugin_path", TEXT, context.plugin_path, 0, 0),
    TOP("registry", TEXT, context.registry_path, 0, 0),
    TOP("cache_dir", TEXT, context.cache_directory, 0, 0),
    TOP("cache_limit", SIZE, context.cache_limit, 0, 0),
    TOP("no_cache", FLAG, context.no_cache, 0, 0),
    TOP("allow_software", FLAG, context.allow_software, 0, 0),
};

#define OF_MODEL(name, kind, member, ...) \
  { name, kind, offsetof(serve_model_config, member), __VA_ARGS__ }
static const field model_fields[] = {
    OF_MODEL("name", TEXT, name, 0, 0),
    OF_MODEL("path", TEXT, path, 0, 0),
    OF_MODEL("pinned", FLAG, pinned, 0, 0),
    OF_MODEL("device", TEXT, how.device, 0, 0),
    OF_MODEL("precision", TEXT, how.precision, 0, 0),
    OF_MODEL("precision_profile", TEXT, how.precision_profile, 0, 0),
    OF_MODEL("task", TEXT, how.task, 0, 0),
    OF_MODEL("architecture", TEXT, how.architecture, 0, 0),
    OF_MODEL("kv_cache", TEXT, how.kv_cache, 0, 0),
    OF_MODEL("metric", TEXT, how.metric, 0, 0),
    OF_MODEL("min_cosine", NUMBER, how.min_cosine, 0, 1),
    OF_MODEL("batch_size", COUNT, how.batch_size, 0, 1048576),
    OF_MODEL("max_length", COUNT, how.max_length, 0, 1048576),
    OF_MODEL("queue_capacity", COUNT, how.queue_capacity, 0, 65536),
    OF_MODEL("prefix_cache_bytes", SIZE, how.prefix_cache_bytes, 0, 0),
    OF_MODEL("random_weights", FLAG, how.random_weights, 0, 0),
    OF_MODEL("seed", WIDE, how.seed, 0, INT32_MAX),
};

#define OF_ADAPTER(name, kind, member, ...) \
  { name, kind, offsetof(serve_adapter_config, member), __VA_ARGS__ }
static const field adapter_fields[] = {
    OF_ADAPTER("name", TEXT, name, 0, 0),
    OF_ADAPTER("path", TEXT, path, 0, 0),
    OF_ADAPTER("scale", NUMBER, scale, -1000000, 1000000),
};

static accel_status wrong(const char *path, const char *name, const char *takes) {
  serve_log(ACCEL_LOG_ERROR, "%s: %s takes %s", path, name, takes);
  return ACCEL_ERROR_ARGUMENT;
}

static accel_status read_texts(serve_config *config, const char *path, const cJSON *node,
                               serve_texts *texts) {
  const uint32_t n = (uint32_t)cJSON_GetArraySize(node);
  const cJSON *child;
  uint32_t at = 0;
  if (!cJSON_IsArray(node)) return wrong(path, node->string, "an array of texts");
  cJSON_ArrayForEach(child, node) if (!cJSON_IsString(child)) return wrong(path, node->string,
                                                                           "an array of texts");
  const char **list = malloc((n + !n) * sizeof *list);
  if (!own(config, list)) return ACCEL_ERROR_OUT_OF_MEMORY;
  cJSON_ArrayForEach(child, node) list[at++] = child->valuestring;
  *texts = (serve_texts){list, n};
  return ACCEL_OK;
}

static accel_status read_number(const char *path, const cJSON *node, const field *f, void *to) {
  const double value = node->valuedouble;
  char takes[96];
  const bool whole = f->kind != NUMBER;
  snprintf(takes, sizeof takes, "a %snumber from %lld to %lld", whole ? "whole " : "",
           (long long)f->min, (long long)f->max);
  if (!cJSON_IsNumber(node) || !(value >= (double)f->min && value <= (double)f->max) ||
      (whole && value != floor(value)))
    return wrong(path, f->name, takes);
  if (!whole)
    *(double *)to = value;
  else if (f->kind == WIDE)
    *(uint64_t *)to = (uint64_t)value;
  else
    *(uint32_t *)to = (uint32_t)value;
  return ACCEL_OK;
}

static accel_status read_size(const char *path, const cJSON *node, const field *f, uint64_t *to) {
  const double value = node->valuedouble;
  if (cJSON_IsNumber(node) && value >= 0 && value <= 9e15 && value == floor(value)) {
    *to = (uint64_t)value;
    return ACCEL_OK;
  }
  if (cJSON_IsString(node) && accel__parse_bytes(node->valuestring, to)) return ACCEL_OK;
  return wrong(path, f->name, "a number of bytes, or a size such as \"16M\"");
}

static accel_status read_mode(const char *path, const cJSON *node, const field *f,
                              accel_mode *mode) {
  const char *text = cJSON_IsString(node) ? node->valuestring : "";
  if (strcmp(text, "latency") && strcmp(text, "throughput"))
    return wrong(path, f->name, "\"latency\" or \"throughput\"");
  *mode = text[0] == 'l' ? ACCEL_MODE_LATENCY : ACCEL_MODE_THROUGHPUT;
  return ACCEL_OK;
}

static accel_status read_field(serve_config *config, const char *path, const cJSON *node,
                               const field *f, void *base) {
  void *to = (char *)base + f->offset;
  switch (f->kind) {
    case TEXT:
      if (!cJSON_IsString(node)) return wrong(path, f->name, "a text");
      *(const char **)to = node->valuestring;
      return ACCEL_OK;
    case TEXTS:
      return read_texts(config, path, node, to);
    case FLAG:
      if (!cJSON_IsBool(node)) return wrong(path, f->name, "true or false");
      *(uint32_t *)to = cJSON_IsTrue(node);
      return ACCEL_OK;
    case SIZE:
      return read_size(path, node, f, to);
    case MODE:
      return read_mode(path, node, f, to);
    default:
      return read_number(path, node, f, to);
  }
}

/* Every member of `object` by the table; unknown ones are refused, but for `other`. */
static accel_status read_object(serve_config *config, const char *path, const cJSON *object,
                                const field *fields, size_t n, void *base, const char *other) {
  const cJSON *node;
  cJSON_ArrayForEach(node, object) {
    const field *f = NULL;
    for (size_t i = 0; i < n && !f; ++i)
      if (!strcmp(fields[i].name, node->string)) f = &fields[i];
    if (!f && other && !strcmp(other, node->string)) continue;
    if (!f) {
      serve_log(ACCEL_LOG_ERROR, "%s: there is no field %s (docs/serving.md lists them)", path,
                node->string);
      return ACCEL_ERROR_ARGUMENT;
    }
    const accel_status status = read_field(config, path, node, f, base);
    if (status) return status;
  }
  return ACCEL_OK;
}

/* ---- models ---- */

/* One more model; its name and adapters are malloc'd or NULL. */
static accel_status push_model(serve_config *config, serve_model_config model) {
  serve_model_config *list = realloc(config->model, (config->n_model + 1) * sizeof *config->model);
  if (!list) {
    free_model(&model);
    return no_memory();
  }
  config->model = list;
  list[config->n_model++] = model;
  return ACCEL_OK;
}

accel_status serve_config_add_model(serve_config *config, const char *text,
                                    const accel_init_params *how) {
  const char *equals = strchr(text, '=');
  serve_model_config model = {.path = equals ? equals + 1 : text, .how = *how};
  if (equals == text || !*model.path) {
    serve_log(ACCEL_LOG_ERROR, "--model takes PATH or NAME=PATH, not '%s'", text);
    return ACCEL_ERROR_ARGUMENT;
  }
  if (!equals) return push_model(config, model);
  model.name = strndup(text, (size_t)(equals - text));
  return model.name ? push_model(config, model) : no_memory();
}

/* An array of objects, or NULL. */
static bool is_objects(const cJSON *list) {
  const cJSON *node;
  if (list && !cJSON_IsArray(list)) return false;
  cJSON_ArrayForEach(node, list) if (!cJSON_IsObject(node)) return false;
  return true;
}

/* The models' "adapters", which turn accel_init_params.enable_adapters on. */
static accel_status read_adapters(serve_config *config, const char *path, const cJSON *list,
                                  serve_model_config *model) {
  const cJSON *node;
  if (!is_objects(list)) return wrong(path, "a model's adapters", "an array of objects");
  const int n = cJSON_GetArraySize(list);
  if (!n) return ACCEL_OK;
  model->how.enable_adapters = 1;
  model->adapter = calloc((size_t)n, sizeof *model->adapter);
  if (!model->adapter) return no_memory();
  cJSON_ArrayForEach(node, list) {
    serve_adapter_config *adapter = &model->adapter[model->n_adapter++];
    adapter->scale = 1;
    const accel_status status =
        read_object(config, path, node, adapter_fields,
                    sizeof adapter_fields / sizeof adapter_fields[0], adapter, NULL);
    if (status) return status;
    if (!adapter->path) return wrong(path, "an adapter's path", "a directory; it is missing");
    if (!adapter->name || !*adapter->name)
      return wrong(path, "an adapter's name",
                   "what requests call it behind the model's; it is missing");
  }
  return ACCEL_OK;
}

static accel_status read_model(serve_config *config, const char *path, const cJSON *node,
                               const accel_init_params *how) {
  serve_model_config model = {.how = *how};
  accel_status status =
      read_object(config, path, node, model_fields, sizeof model_fields / sizeof model_fields[0],
                  &model, "adapters");
  const char *name = model.name; /* lies in the file */
  model.name = NULL;
  if (!status && !model.path)
    status = wrong(path, "a model's path", "a directory or an id; it is missing");
  if (!status && name && !(model.name = strdup(name))) status = no_memory();
  if (!status)
    status =
        read_adapters(config, path, cJSON_GetObjectItemCaseSensitive(node, "adapters"), &model);
  if (!status) return push_model(config, model);
  free_model(&model);
  return status;
}

static accel_status read_models(serve_config *config, const char *path, const cJSON *list,
                                const accel_init_params *how) {
  const cJSON *node;
  if (!is_objects(list)) return wrong(path, "models", "an array of objects");
  cJSON_ArrayForEach(node, list) {
    const accel_status status = read_model(config, path, node, how);
    if (status) return status;
  }
  return ACCEL_OK;
}

/* ---- the file ---- */

/* malloc'd, zero-terminated; NULL with *why. */
static char *read_file(const char *path, const char **why) {
  enum { MOST = 1 << 20 };
  FILE *file = fopen(path, "rbe");
  char *text = file ? malloc(MOST + 1) : NULL;
  const size_t n = text ? fread(text, 1, MOST + 1, file) : 0;
  *why = !file ? strerror(errno) : !text ? "out of memory" : ferror(file) ? strerror(errno) : NULL;
  if (!*why && n > MOST) *why = "it is larger than 1 MiB";
  if (!*why && memchr(text, 0, n)) *why = "it is no JSON";
  if (file) fclose(file);
  if (*why) {
    free(text);
    return NULL;
  }
  text[n] = 0;
  return text;
}

accel_status serve_config_read(serve_config *config, const char *path,
                               const accel_init_params *how) {
  const char *why, *end = NULL;
  char *text = read_file(path, &why);
  if (!text) {
    serve_log(ACCEL_LOG_ERROR, "%s: %s", path, why);
    return ACCEL_ERROR_IO;
  }
  config->file = cJSON_ParseWithOpts(text, &end, 1);
  size_t line = 1;
  for (const char *at = text; end && at < end && *at; ++at) line += *at == '\n';
  free(text);
  if (!cJSON_IsObject(config->file)) {
    serve_log(ACCEL_LOG_ERROR, "%s: line %zu: it is no JSON object", path, line);
    return ACCEL_ERROR_FORMAT;
  }
  accel_status status = read_object(config, path, config->file, top_fields,
                                    sizeof top_fields / sizeof top_fields[0], config, "models");
  return status ? status
                : read_models(config, path,
                              cJSON_GetObjectItemCaseSensitive(config->file, "models"), how);
}

accel_status serve_config_texts(serve_config *config, const char *const *item, uint32_t n,
                                serve_texts *texts) {
  const char **list = malloc((n + !n) * sizeof *list);
  if (!own(config, list)) return ACCEL_ERROR_OUT_OF_MEMORY;
  for (uint32_t i = 0; i < n; ++i) list[i] = item[i];
  *texts = (serve_texts){list, n};
  return ACCEL_OK;
}
