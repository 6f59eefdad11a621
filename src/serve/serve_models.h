/* serve_models.h - the models of a server. */
#ifndef ACCEL_SERVE_MODELS_H
#define ACCEL_SERVE_MODELS_H

#include "serve/serve.h"
#include "serve/serve_config.h"

typedef struct serve_models serve_models;

/* The models of the config, none of them loaded; behind each its adapters, which are models of their
 * own, "MODEL:ADAPTER".  Two of one name are a failure, which is logged.
 * The config and `ctx` stay until serve_models_free(). */
accel_status serve_models_new(accel *ctx, const serve_config *config, serve_models **out);
/* Ends the endpoints. */
void serve_models_free(serve_models *models);
/* Loads all of them, one after the other, on the caller's thread; failures are logged.  With
 * serve_config.pool_memory one may have been unloaded for another when this ends, and is loaded
 * again by the request that takes it. */
accel_status serve_models_load(serve_models *models);
/* Whether that is done.  From then on the tasks are known. */
bool serve_models_ready(const serve_models *models);

/* The models in the order of the config, loaded or not. */
uint32_t serve_models_count(const serve_models *models);
/* [count] as clients call them. */
const char *const *serve_models_names(const serve_models *models);
/* What /metrics tells of loading and unloading. */
accel_pool_stats serve_models_pool(const serve_models *models);
/* accel_pool_json() of them, freed with accel_string_free(); NULL: no memory. */
char *serve_models_json(const serve_models *models);
/* Counts of the queue of a model, for itself and its adapters; all 0 of one not loaded, .size 0 of an
 * adapter. */
accel_queue_stats serve_models_queue(const serve_models *models, uint32_t model);
/* The model that an adapter is for; NULL: it is a model itself. */
const char *serve_models_parent(const serve_models *models, uint32_t model);
/* Its task and when it was first loaded (seconds since 1970); "" and 0: it was not yet. */
const char *serve_models_task(const serve_models *models, uint32_t model);
int64_t serve_models_loaded_at(const serve_models *models, uint32_t model);
/* The number of the model that clients call `name`; -1: none. */
int64_t serve_models_find(const serve_models *models, const char *name);

/* A model that a request uses: it stays loaded until it is given back. */
typedef struct serve_taken {
  serve_model model;
  uint32_t number;     /* the model's */
  accel_pool_ref *ref; /* NULL: of an adapter, whose model stays loaded */
} serve_taken;

/* As serve_take_model(), which answers by the status: ACCEL_ERROR_NOT_FOUND: no such model;
 * ACCEL_ERROR_UNSUPPORTED: not for these tasks; ACCEL_ERROR_DOES_NOT_FIT: not loaded yet;
 * ACCEL_ERROR_TIMEOUT: others use the memory; else why it could not be loaded again, with the path
 * and name of the model in *out.  *out is given back where it was taken. */
accel_status serve_models_take(serve_models *models, const char *name, const char *const *tasks,
                               serve_taken *out);
/* It may be unloaded from now on. */
void serve_models_give_back(serve_taken *taken);

#endif
