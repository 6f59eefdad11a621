/**
 * @file pool.h
 * Several models under one memory budget: loaded when they are asked for, the one used longest ago
 * unloaded when another needs its memory.
 *
 * Include accel/accel.h, which includes this file.
 *
 *     accel_pool *pool;
 *     accel_pool_params how = accel_pool_params_default();
 *     how.memory_limit = (uint64_t)4 << 30;
 *     accel_pool_open(ctx, &how, &pool);
 *     accel_pool_add(pool, "minilm", "sentence-transformers/all-MiniLM-L6-v2", NULL, 0);
 *
 *     accel_pool_ref *ref;
 *     accel_pool_acquire(pool, "minilm", -1, &ref);
 *     accel_embed(accel_pool_ref_endpoint(ref), texts, n, &found);
 *     accel_pool_release(&ref);
 *     accel_pool_close(&pool);
 *
 * **What is counted.**  Before a load the planner's figures of the device and precision at hand (as
 * accel_fit() has them), the peak while loading included.  Afterwards what the load has measurably
 * taken, between the weights and the peak that the planner knows, the planned memory of a run, and
 * the tokenizer.  With accel_pool_params.memory_limit a load begins only where it fits beside all
 * that counts, wherever that is; without one each device's own memory is the limit, as the planner
 * sees it then.
 *
 * **What is unloaded.**  Models without references that are not pinned, the one used longest ago
 * first, until the new one fits.  What is referenced is never unloaded: accel_pool_acquire() waits
 * for it.
 *
 * **One load.**  Whoever asks first for a model that is not loaded loads it, on its own thread;
 * others who ask for it meanwhile wait for that load, and all of them hear of its failure.  The next
 * accel_pool_acquire() tries anew.  Models that are loaded are handed out meanwhile.
 *
 * **One endpoint for several names.**  Names of the same files whose accel_init_params differ only
 * in `task` and `queue_capacity` share one endpoint, its weights and tokenizer, as long as one class
 * of the model serves them all: each has its own queue.  A name with the task "feature-extraction"
 * shares the endpoint of a name with the model's own task (text generation, classification ...) when
 * that one was added before, or while neither is loaded; accel_embed() gives the same there, and
 * accel_run() the outputs of the model's own class.
 */
#ifndef ACCEL_POOL_H
#define ACCEL_POOL_H

#include "accel/inference.h"
#include "accel/requests.h"

#ifdef __cplusplus
extern "C" {
#endif

/** Models under one memory budget.  May be used from many threads at once; closed by one, when
 *  every reference is released. */
typedef struct accel_pool accel_pool;

/** A loaded model in use: it stays loaded until the reference is released. */
typedef struct accel_pool_ref accel_pool_ref;

/** How a pool works; accel_pool_params_default() sets all to the defaults. */
typedef struct accel_pool_params {
  /** sizeof(accel_pool_params). */
  uint32_t size;
  /** Milliseconds that accel_pool_acquire() waits where its own limit is < 0; 0: for ever. */
  uint32_t max_wait_ms;
  /** Bytes that all models of the pool may take together, host memory and that of devices; 0: what
   *  the planner sees on each device.  accel_params.memory_limit is another: the limit of each
   *  model, under which its weights are streamed. */
  uint64_t memory_limit;
} accel_pool_params;

/** No limit but the devices' memory; waits for ever. */
ACCEL_API accel_pool_params accel_pool_params_default(void);

/**
 * Makes an empty pool.
 *
 * @param params NULL: all defaults.
 * @param out ended with accel_pool_close(), before its context.
 */
ACCEL_API accel_status accel_pool_open(accel *ctx, const accel_pool_params *params,
                                       accel_pool **out);

/** Unloads all models and ends the pool; pool and *pool may be NULL.  Requests that wait in queues
 *  are run first.  Every reference must be released before; tickets stay valid. */
ACCEL_API void accel_pool_close(accel_pool **pool);

/** Flags of accel_pool_add(). */
typedef enum accel_pool_flags {
  /** The model is never unloaded once it is loaded. */
  ACCEL_POOL_PINNED = 1,
  /** It is loaded at once. */
  ACCEL_POOL_PRELOAD = 2
} accel_pool_flags;

/**
 * Adds a model under a name.  Its directory is looked up, and with the task "feature-extraction" its
 * configuration is read; nothing is loaded.
 *
 * @param name what accel_pool_acquire() calls it; any text but "".
 * @param model,params as accel_init() takes them; params NULL: all defaults.  Copied, but for
 *                     candidates_fn and its user, which stay valid until accel_pool_close().
 * @param flags accel_pool_flags.  With ACCEL_POOL_PRELOAD the call waits for memory as
 *              accel_pool_acquire() does; when the load fails that is the answer, and the model is
 *              in the pool all the same.
 * @return ACCEL_ERROR_ARGUMENT: there is a model of this name, an unknown flag or task.
 *         ACCEL_ERROR_NOT_FOUND: the model is not on this machine.
 */
ACCEL_API accel_status accel_pool_add(accel_pool *pool, const char *name, const char *model,
                                      const accel_init_params *params, uint32_t flags);

/**
 * Hands out a model, which is loaded if it is not.
 *
 * A thread that holds references should not wait for more without a time limit: two that wait for
 * each other's memory would wait for ever.
 *
 * @param timeout_ms how long to wait for another's load, and for references to drop where memory is
 *                   needed; a load that has begun is not cut short.  < 0: accel_pool_params.
 *                   max_wait_ms.  0: no waiting, but a load where there is memory.
 * @param out released with accel_pool_release().
 * @return ACCEL_ERROR_NOT_FOUND: there is no such name.  ACCEL_ERROR_TIMEOUT: what is needed was in
 *         use for that long.  ACCEL_ERROR_DOES_NOT_FIT: it can never be loaded, for it is larger
 *         than the limit, or than what pinned models leave of it; the message has the figures.
 *         Else as accel_init().
 */
ACCEL_API accel_status accel_pool_acquire(accel_pool *pool, const char *name, int64_t timeout_ms,
                                          accel_pool_ref **out);

/** The endpoint, which belongs to the pool: it is used as one of accel_init(), but never cleaned up.
 *  Sessions, chats and tickets end before the reference is released.  NULL for NULL. */
ACCEL_API accel_endpoint *accel_pool_ref_endpoint(const accel_pool_ref *ref);

/** The queue of the name: several names that share an endpoint have one each.  NULL for NULL. */
ACCEL_API accel_queue *accel_pool_ref_queue(const accel_pool_ref *ref);

/** Gives a reference back and sets *ref to NULL; ref and *ref may be NULL.  The last one of an
 *  endpoint that accel_pool_move() has replaced ends that endpoint, so not from a request's `done`. */
ACCEL_API void accel_pool_release(accel_pool_ref **ref);

/** Pins a model (nonzero) or not (0).  ACCEL_ERROR_NOT_FOUND: there is no such name. */
ACCEL_API accel_status accel_pool_pin(accel_pool *pool, const char *name, int pinned);

/**
 * Moves a model to another device, without a pause: it is loaded there beside the old endpoint, and
 * whoever asks from then on gets the new one.  References to the old one stay as they are, requests
 * in its queue end there, and it is unloaded with the last reference.  Names that share the endpoint
 * move with it.  A model that is not loaded is loaded there at the next accel_pool_acquire().
 *
 * @param device as accel_init_params.device.
 * @return as accel_pool_acquire(); on failure the model stays where it was.  The old endpoint is not
 *         unloaded to make room: both must fit.
 */
ACCEL_API accel_status accel_pool_move(accel_pool *pool, const char *name, const char *device);

/** What a pool has done, and what it holds; the same of one model. */
typedef struct accel_pool_stats {
  /** sizeof(accel_pool_stats) of the caller; then what was filled. */
  uint32_t size;
  /** Models that were added; of one model: 1. */
  uint32_t models;
  /** Endpoints that are loaded, replaced ones that are still referenced included. */
  uint32_t loaded;
  /** References that are held. */
  uint32_t references;
  /** Calls of accel_pool_acquire() and accel_pool_move() that wait or load right now. */
  uint32_t waiting;
  /** Models that are pinned. */
  uint32_t pinned;
  /** accel_pool_params.memory_limit; 0: none. */
  uint64_t memory_limit;
  /** Bytes that count now: of loaded endpoints, and planned ones of loads under way.  Of one model:
   *  of the endpoint, which other names may share. */
  uint64_t bytes;
  /** The largest that `bytes` was. */
  uint64_t peak_bytes;
  /** What the planner had said of the endpoints that are loaded, the peak of the load included. */
  uint64_t planned_bytes;
  /** Loads that succeeded. */
  uint64_t loads;
  /** Calls of accel_pool_acquire() that found the model loaded. */
  uint64_t hits;
  /** Endpoints that were unloaded to make room. */
  uint64_t evictions;
  /** Loads that failed, those that found no memory in time included. */
  uint64_t failures;
  /** Calls of accel_pool_acquire() that ended with ACCEL_ERROR_TIMEOUT. */
  uint64_t timeouts;
  /** accel_pool_move() that succeeded on a loaded model. */
  uint64_t moves;
  /** Seconds of loads, waiting for memory left out. */
  double load_seconds;
  /** Seconds that calls have waited for memory or for another's load. */
  double wait_seconds;
} accel_pool_stats;

/**
 * The statistics of a pool, or of one of its models.
 *
 * Of names that share an endpoint each has the loads, evictions and failures of that endpoint; hits,
 * references, timeouts and waiting are its own.
 *
 * @param name NULL: of the pool.
 * @param out its `size` set.
 * @return ACCEL_ERROR_NOT_FOUND: there is no such name.
 */
ACCEL_API accel_status accel_pool_stats_of(accel_pool *pool, const char *name,
                                           accel_pool_stats *out);

/**
 * What accel_queue_statistics() tells of the queue of a name, without loading its model: all 0 but
 * `size` while it is not loaded.
 *
 * @param out its `size` set.
 * @return ACCEL_ERROR_NOT_FOUND: there is no such name.
 */
ACCEL_API accel_status accel_pool_queue_statistics(accel_pool *pool, const char *name,
                                                   accel_queue_stats *out);

/**
 * The same as JSON: {"schema":"accel.pool/1", ..., "models":[{"name":...,"device":...}]}.
 *
 * @param json freed with accel_string_free().
 */
ACCEL_API accel_status accel_pool_json(accel_pool *pool, char **json);

#ifdef __cplusplus
}
#endif

#endif
