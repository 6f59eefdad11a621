/* open.c - opening a model: the steps of accel_init, in order. */
#include "tasks/open.h"

#include <stdlib.h>
#include <string.h>

#include "core/file.h"
#include "core/text.h"
#include "dispatch/choose.h"
#include "dispatch/fit.h"
#include "dispatch/locate.h"
#include "dispatch/parts.h"
#include "dispatch/precision.h"
#include "dispatch/precision_profile.h"
#include "dispatch/queue.h"
#include "dispatch/replicas.h"
#include "dispatch/services.h"
#include "generate/generation.h"
#include "processing/pipeline_index.h"
#include "processing/processor.h"
#include "models/model_build.h"
#include "tasks/rank_models.h"

enum { MAX_CONFIG = 16 << 20 };

/* ---- where the model is, and what it is ---- */

accel_status accel__read_model_config(const char *model, const char *transformer,
                                      const accel__pipeline_choice *choice,
                                      const accel__registry_model *entry, accel__arena *arena,
                                      accel__json_file *out) {
  if (transformer && accel__is_pipeline(transformer))
    return accel__pipeline_config(transformer, choice, out);
  if (choice->decoder)
    return accel__fail(
        ACCEL_ERROR_ARGUMENT,
        "%s: a decoder replaces the autoencoder of a pipeline with model_index.json, "
        "which this is not",
        model);
  if (transformer) {
    const char *path = accel__path_join(arena, transformer, "config.json");
    return path ? accel__json_read(path, MAX_CONFIG, out) : ACCEL_ERROR_OUT_OF_MEMORY;
  }
  if (!entry || !entry->config)
    return accel__fail(ACCEL_ERROR_NOT_FOUND,
                       "%s: no local files, and the registry has no configuration to build it from",
                       model);
  char *text = cJSON_PrintUnformatted(entry->config);
  if (!text) return accel__no_memory(0);
  const char *name = accel__arena_printf(arena, "registry entry %s", entry->entry.model);
  accel_status status =
      name ? accel__json_parse(text, strlen(text), name, out) : ACCEL_ERROR_OUT_OF_MEMORY;
  cJSON_free(text);
  return status;
}

/* Directory and registry entry; without local files, random weights make do with the registry's
 * shape. */
static accel_status find_model(accel_endpoint *ep, const char *model, bool random,
                               const accel__registry_model **entry) {
  char *directory;
  accel_status status = accel__locate(ep->ctx, model, &ep->arena, &directory, entry);
  ep->directory = directory;
  if (status != ACCEL_ERROR_NOT_FOUND || !random) return status;
  accel__clear_error();
  return ACCEL_OK;
}

/* The headers of the transformer's checkpoint, and of those of Dense and LayerNorm modules under
 * their prefixes.  A load maps the files later; accel_fit never does. */
static accel_status open_weights(accel_endpoint *ep, const accel__pipeline_choice *choice,
                                 const accel__sentence_modules *modules) {
  bool found;
  if (accel__is_pipeline(modules->transformer))
    return accel__pipeline_checkpoint(modules->transformer, choice, &ep->config, &ep->checkpoint);
  ACCEL_TRY(accel__checkpoint_open_variant(modules->transformer, choice->variant, &found,
                                           &ep->checkpoint));
  if (choice->variant && !found) return accel__no_variant(modules->transformer, choice->variant);
  for (uint32_t i = 0; i < modules->head.n_dense; i++) {
    accel__checkpoint *dense;
    ACCEL_TRY(accel__checkpoint_open_headers(modules->dense_directory[i], &dense));
    ACCEL_TRY(accel__checkpoint_join(ep->checkpoint, &dense, modules->dense_prefix[i]));
  }
  return ACCEL_OK;
}

/* ---- building ---- */

static accel_status build_model(accel_endpoint *ep, const accel_init_params *params,
                                const accel__sentence_modules *modules) {
  static const accel__embed_head no_head;
  /* any head, an empty one too, asks for the base class, as AutoModel does */
  bool embeds = params->task && (!strcmp(params->task, "feature-extraction") ||
                                 !strcmp(params->task, "image-feature-extraction"));
  accel__model_request request = {.config = &ep->config,
                                  .directory = ep->directory,
                                  .checkpoint = ep->checkpoint,
                                  .import = ep->import,
                                  .deltas = ep->adapters ? ep->adapters->deltas : NULL,
                                  .architecture = params->architecture,
                                  .embed = modules->head.n_pooling ? &modules->head
                                           : embeds                ? &no_head
                                                                   : NULL,
                                  .low_rank = params->enable_adapters != 0,
                                  .rank = accel__ranks_rank(ep->ctx->ranks),
                                  .world = accel__ranks_world(ep->ctx->ranks)};
  return accel__model_build(&request, &ep->model);
}

static void log_unexpected(accel_endpoint *ep) {
  accel__arena arena = {0};
  const char **names;
  uint32_t n = 0;
  if (ep->ctx->log.level >= ACCEL_LOG_INFO &&
      accel__source_unexpected(ep->placed.source, &arena, &names, &n) == ACCEL_OK)
    for (uint32_t i = 0; i < n; i++)
      accel__logf(&ep->ctx->log, ACCEL_LOG_INFO,
                  "%s: tensor '%s' of the checkpoint is not used by %s", ep->name, names[i],
                  ep->model->architecture);
  accel__arena_free(&arena);
}

/* The registry lists the model for the hardware that it is on; of several devices, for each. */
static bool is_listed(const accel_endpoint *ep, const accel__registry_model *entry) {
  const accel__parts *parts = ep->placed.parts;
  const accel_plugin *plugin = parts ? accel__parts_plugin(parts, 0) : ep->placed.plugin;
  bool listed = true;
  for (uint32_t k = 1; listed && plugin; k++) {
    const char *hardware = accel__registry_hardware_name(plugin->name);
    listed = hardware && accel__registry_lists(entry, hardware, ep->placement.precision);
    plugin = parts ? accel__parts_plugin(parts, k) : NULL;
  }
  return listed;
}

/* accel_init_params.precision_profile, which stands for a device and a precision. */
static accel_status take_profile(accel_endpoint *ep, const accel_init_params *params,
                                 accel__place_request *request) {
  accel__precision_profile *profile;
  if (params->precision && *params->precision)
    return accel__fail(ACCEL_ERROR_ARGUMENT,
                       "precision '%s' beside a precision profile, which has its own: give one of "
                       "both",
                       params->precision);
  profile = accel__arena_alloc(&ep->arena, sizeof *profile);
  if (!profile) return ACCEL_ERROR_OUT_OF_MEMORY;
  ACCEL_TRY(accel__precision_profile_read(params->precision_profile, &ep->arena, profile));
  ACCEL_TRY(accel__precision_profile_check(profile, ep));
  request->precision = profile->precision;
  if (!params->device || !*params->device) request->device = profile->device;
  ep->precision_profile = profile;
  return ACCEL_OK;
}

/* What "auto" goes by. */
static accel_status take_choosing(const accel_init_params *params, accel__place_request *request) {
  accel__metric metric;
  ACCEL_TRY(accel__metric_of(params->metric, &metric));
  if (!(params->min_cosine >= 0 && params->min_cosine <= 1)) {
    accel__fail(ACCEL_ERROR_ARGUMENT, "min_cosine is %g", params->min_cosine);
    return accel__remedy(ACCEL_ERROR_ARGUMENT,
                         "give a cosine from 0 (no bound) to 1, such as 0.999");
  }
  request->metric = (int)metric;
  request->min_cosine = params->min_cosine;
  request->candidates = params->candidates;
  request->candidates_fn = params->candidates_fn;
  request->candidates_user = params->candidates_user;
  return ACCEL_OK;
}

accel_status accel__kept_weights(accel_endpoint *ep, const accel__registry_model *entry,
                                 const char *const **patterns, uint32_t *n_patterns) {
  const char *const *own = accel__model_sensitive(ep->model->architecture);
  const uint32_t listed = entry ? entry->n_keep_fp32 : 0;
  uint32_t n = 0;
  while (own[n]) n++;
  const char **all = accel__arena_array(&ep->arena, listed + n, sizeof *all);
  if (!all) return ACCEL_ERROR_OUT_OF_MEMORY;
  for (uint32_t i = 0; i < listed + n; i++)
    all[i] = i < listed ? entry->keep_fp32[i] : own[i - listed];
  *patterns = all;
  *n_patterns = listed + n;
  return ACCEL_OK;
}

static accel_status place(accel_endpoint *ep, const accel_init_params *params,
                          const accel__registry_model *entry, const accel__admission *admission) {
  accel__place_request request = {
      .device = params->device && *params->device ? params->device : "cpu", .admission = admission};
  if (params->precision_profile && *params->precision_profile) {
    ACCEL_TRY(take_profile(ep, params, &request));
  } else if (params->precision && *params->precision) {
    const char *canonical = accel__registry_precision_name(params->precision);
    request.precision = !strcmp(params->precision, "auto") ? "auto" : canonical;
    if (!request.precision) return accel__precision_unknown(params->precision, " auto");
  }
  ACCEL_TRY(accel__kept_weights(ep, entry, &request.keep_fp32, &request.n_keep));
  if (entry) request.bf16_only = entry->bf16_preferred;
  ACCEL_TRY(take_choosing(params, &request));
  /* said once, not for every device */
  ACCEL_TRY(accel__precision_set_kv(&(accel_plugin_precision){0}, params->kv_cache));
  if (params->kv_cache && !(ep->kv_cache = accel__arena_string(&ep->arena, params->kv_cache)))
    return ACCEL_ERROR_OUT_OF_MEMORY;
  ACCEL_TRY(accel__endpoint_place(ep, &request));
  ep->placement.listed = entry && is_listed(ep, entry);
  return ACCEL_OK;
}

/* The task by any alias, as transformers names it. */
static accel_status canonical_task(accel_init_params *params) {
  if (!params->task) return ACCEL_OK;
  const char *name = accel__registry_task_name(params->task);
  if (!name)
    return accel__fail(
        ACCEL_ERROR_ARGUMENT,
        "unknown task '%s'; such as feature-extraction, text-classification, fill-mask",
        params->task);
  params->task = name;
  return ACCEL_OK;
}

/* modules.json is for embeddings; another task that is named takes the directory as transformers'
 * pipelines do. */
static accel_status read_modules(accel_endpoint *ep, const accel_init_params *params,
                                 accel__sentence_modules *modules) {
  *modules = (accel__sentence_modules){.include_prompt = true, .transformer = ep->directory};
  if (!ep->directory || (params->task && strcmp(params->task, "feature-extraction")))
    return ACCEL_OK;
  return accel__read_sentence_modules(ep->directory, &ep->arena, modules);
}

/* Everything up to the program: no device is asked. */
static accel_status build_steps(accel_endpoint *ep, const char *model, accel_init_params *params,
                                accel__sentence_modules *modules,
                                const accel__registry_model **entry) {
  const accel__pipeline_choice choice = {.decoder = params->decoder,
                                         .variant = params->variant,
                                         .without_safety = params->without_safety_checker != 0};
  bool random = params->random_weights != 0;
  ep->seed = params->seed;
  ACCEL_TRY(canonical_task(params));
  ACCEL_TRY(find_model(ep, model, random, entry));
  ACCEL_TRY(read_modules(ep, params, modules));
  ACCEL_TRY(accel__read_model_config(ep->name, ep->directory ? modules->transformer : NULL, &choice,
                                     *entry, &ep->arena, &ep->config));
  if (!random) ACCEL_TRY(open_weights(ep, &choice, modules));
  ACCEL_TRY(accel__import_open(&ep->config, ep->checkpoint, &ep->import));
  if (params->n_adapters)
    ACCEL_TRY(
        accel__adapters_open(params->adapters, params->n_adapters, ep->checkpoint, &ep->adapters));
  ACCEL_TRY(build_model(ep, params, modules));
  return ep->adapters
             ? accel__adapters_bind(ep->adapters, ep->model->program, ep->checkpoint, ep->import)
             : ACCEL_OK;
}

static accel_status open_steps(accel_endpoint *ep, const char *model, accel_init_params *params,
                               const accel__admission *admission) {
  const accel__registry_model *entry;
  accel__sentence_modules modules;
  ACCEL_TRY(build_steps(ep, model, params, &modules, &entry));
  ACCEL_TRY(accel__checkpoint_map(ep->checkpoint));
  accel__report_progress(ep->ctx, "loading", 0, 1);
  ACCEL_TRY(place(ep, params, entry, admission));
  ACCEL_TRY(accel__checkpoint_read(ep->checkpoint));
  log_unexpected(ep);
  ACCEL_TRY(accel__processor_new(ep, &modules, params));
  ep->batch_size = params->batch_size ? params->batch_size
                   : entry            ? (uint32_t)entry->entry.default_batch_size
                                      : 1;
  accel__report_progress(ep->ctx, "loading", 1, 1);
  ep->prefix_cache_bytes = params->prefix_cache_bytes;
  return accel__queue_new(
      ep, params->queue_capacity ? params->queue_capacity : ACCEL__QUEUE_CAPACITY, &ep->queue);
}

static accel_endpoint *new_endpoint(accel *ctx, const char *model) {
  accel_endpoint *ep = calloc(1, sizeof *ep);
  if (!ep) return accel__no_memory(sizeof *ep), NULL;
  ep->ctx = ctx;
  ep->name = accel__arena_string(&ep->arena, model);
  if (ep->name) return ep;
  accel__endpoint_free(ep);
  return NULL;
}

accel_status accel__open_dry(accel *ctx, const char *model, const accel_init_params *params,
                             const accel__registry_model **entry, accel_endpoint **out) {
  accel_endpoint *ep = *out = new_endpoint(ctx, model);
  accel__sentence_modules modules;
  accel_init_params mine = *params;
  if (!ep) return ACCEL_ERROR_OUT_OF_MEMORY;
  accel_status status = build_steps(ep, model, &mine, &modules, entry);
  accel__init_host(ep);
  if (status == ACCEL_OK) status = accel__processor_new(ep, &modules, &mine);
  if (status == ACCEL_OK) return ACCEL_OK;
  accel__endpoint_free(ep);
  *out = NULL;
  return status;
}

accel_status accel__check_model(accel *ctx, const char *model, const accel_init_params *params) {
  const accel__registry_model *entry;
  accel_endpoint *ep;
  accel__arena arena = {0};
  accel_plugin_precision precision;
  accel__source *source = NULL;
  ACCEL_TRY(accel__open_dry(ctx, model, params, &entry, &ep));
  accel_status status = accel__precision_for(accel__program_view(ep->model->program), "fp32", NULL,
                                             0, &arena, &precision);
  if (status == ACCEL_OK) status = accel__endpoint_source(ep, &precision, &arena, &source);
  accel__source_free(&source);
  accel__arena_free(&arena);
  accel__endpoint_free(ep);
  return status;
}

/* With the context's endpoints_lock held. */
static void link_endpoint(accel_endpoint *ep) {
  ep->next = ep->ctx->endpoints;
  ep->ctx->endpoints = ep;
}

static void unlink_endpoint(accel_endpoint *ep) {
  accel_endpoint **link = &ep->ctx->endpoints;
  while (*link && *link != ep) link = &(*link)->next;
  if (*link) *link = ep->next;
}

void accel__endpoint_to_front(accel_endpoint *ep) {
  pthread_mutex_lock(&ep->ctx->endpoints_lock);
  unlink_endpoint(ep);
  link_endpoint(ep);
  pthread_mutex_unlock(&ep->ctx->endpoints_lock);
}

accel_status accel__open_admitted(accel *ctx, const char *model, const accel_init_params *params,
                                  const accel__admission *admission, accel_endpoint **out) {
  if (accel__wants_all(params->device))
    return accel__open_replicas(ctx, model, params, admission, out);
  accel_endpoint *ep = new_endpoint(ctx, model);
  *out = NULL;
  if (!ep) return ACCEL_ERROR_OUT_OF_MEMORY;
  accel_init_params mine = *params;
  accel_status status = accel__ranks_may_open(ctx->ranks);
  if (status == ACCEL_OK) status = open_steps(ep, model, &mine, admission);
  if (status == ACCEL_OK && ctx->ranks && !accel__ranks_rank(ctx->ranks))
    status = accel__ranks_open(ep, model, &mine);
  if (status != ACCEL_OK) {
    accel__queue_free(ep->queue);
    accel__endpoint_free(ep);
    return status;
  }
  pthread_mutex_lock(&ctx->endpoints_lock);
  link_endpoint(ep);
  pthread_mutex_unlock(&ctx->endpoints_lock);
  *out = ep;
  return ACCEL_OK;
}

accel_status accel__open(accel *ctx, const char *model, const accel_init_params *params,
                         accel_endpoint **out) {
  return accel__open_admitted(ctx, model, params, NULL, out);
}

/* Runs what waits in the queues of all replicas.  A device that is lost meanwhile has its requests
 * moved to another's queue: once more for each that can be lost. */
static void drain_replicas(accel_endpoint *ep) {
  const uint32_t n = accel__replicas_count(ep);
  for (uint32_t i = 0; n > 1 && i < n * n; i++)
    for (accel_queue *q = accel__replica(ep, i % n)->queue, *more; q; q = more) {
      pthread_mutex_lock(&ep->ctx->endpoints_lock);
      more = accel__queue_watch(q);
      pthread_mutex_unlock(&ep->ctx->endpoints_lock);
      accel__queue_drain(q);
    }
}

void accel__close(accel_endpoint **endpoint) {
  accel_endpoint *ep = *endpoint;
  *endpoint = NULL;
  drain_replicas(ep);
  pthread_mutex_lock(&ep->ctx->endpoints_lock);
  unlink_endpoint(ep);
  pthread_mutex_unlock(&ep->ctx->endpoints_lock);
  accel__queue_free(ep->queue);
  for (uint32_t i = accel__replicas_count(ep); i-- > 1;) {
    accel_endpoint *replica = accel__replica(ep, i);
    accel__close(&replica);
  }
  accel__replicas_free(ep);
  accel__endpoint_free(ep);
}
