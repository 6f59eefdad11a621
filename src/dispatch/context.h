/* context.h - what one `accel` context owns: settings, pool, registry, hardware.  Opaque to
 * applications (accel.h). */
#ifndef ACCEL_DISPATCH_CONTEXT_H
#define ACCEL_DISPATCH_CONTEXT_H

#include <pthread.h>
#include <stdatomic.h>

#include "core/arena.h"
#include "core/log.h"
#include "core/threads.h"
#include "hardware/hardware.h"
#include "registry/registry.h"
#include "weights/cache.h"

struct accel {
  accel_params params; /* with its strings copied to the arena */
  accel__arena arena;
  accel__log log;
  accel__pool *pool;
  accel__registry *registry; /* see accel__context_registry */
  accel__hardware *hardware;
  pthread_mutex_t lock; /* of what is made on first use; the last to be taken */
  /* Of the list below; taken before an endpoint's in_use, whose holder may take `lock`. */
  pthread_mutex_t endpoints_lock;
  struct accel_endpoint *endpoints; /* alive, newest first */
  accel__cache cache;               /* see accel__context_cache */
  bool cache_known;
  struct accel__ranks *ranks; /* that compute its models together (ranks.h); NULL: it is alone */
};

/* The registry, parsed at the first call. */
accel_status accel__context_registry(accel *ctx, accel__registry **out);
/* Detection and plugins; looks at nothing before it is asked. */
accel_status accel__context_hardware(accel *ctx, accel__hardware **out);
/* The store of packed weights.  NULL from `usable` when caching is switched off or there is no
 * place for it. */
const accel__cache *accel__context_cache(accel *ctx, bool usable);
/* Bytes a model may use by params or ACCEL_MEM_LIMIT; 0: no limit. */
accel_status accel__context_memory_limit(accel *ctx, uint64_t *bytes);
/* What this thread runs from now on is given up when *flag becomes true; NULL: it is not asked.  The
 * flag outlives the thread. */
void accel__thread_cancel(const atomic_bool *flag);
/* The flag of this thread; NULL: none. */
const atomic_bool *accel__thread_cancelled_by(void);
/* Another flag beside it, for a part of what the thread runs; answers the one before. */
const atomic_bool *accel__thread_cancel_also(const atomic_bool *flag);
/* The context's callback asks to stop, or a flag of this thread. */
bool accel__is_cancelled(const accel *ctx);
/* ACCEL_ERROR_CANCELLED when accel__is_cancelled. */
accel_status accel__check_cancelled(accel *ctx);
void accel__report_progress(accel *ctx, const char *what, uint64_t done, uint64_t all);

#endif
