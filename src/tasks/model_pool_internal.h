/* model_pool_internal.h - the parts of a pool: names, the models behind them, their endpoints. */
#ifndef ACCEL_TASKS_MODEL_POOL_INTERNAL_H
#define ACCEL_TASKS_MODEL_POOL_INTERNAL_H

#include "dispatch/fit.h"
#include "dispatch/queue.h"
#include "tasks/model_pool.h"

typedef struct accel__pool_model accel__pool_model;
typedef struct accel__pool_name accel__pool_name;

/* A name's queue of an endpoint, to which it belongs. */
typedef struct accel__pool_queue {
  const accel__pool_name *name;
  accel_queue *queue;
  struct accel__pool_queue *next;
} accel__pool_queue;

/* A loaded model.  A model has one at most; others are left over from a move, or are being
 * unloaded. */
typedef struct accel__pool_endpoint {
  accel_endpoint *ep;
  const struct accel__device *device;
  char device_name[128], precision[16]; /* as they were when it was loaded */
  uint64_t bytes, planned;              /* that count; what the planner said */
  uint64_t used;                        /* accel_pool.clock when it was last acquired or released */
  uint32_t references;
  bool replaced; /* by a move: it ends with its last reference */
  bool closing;  /* out of reach, and its memory not yet given back */
  accel__pool_queue *queues;
  struct accel__pool_endpoint *next; /* in accel_pool.leaving */
} accel__pool_endpoint;

/* A load under way.  Freed by the last of those who look at it. */
typedef struct accel__pool_load {
  uint32_t users; /* who loads, and who waits for it */
  bool done;
  accel__failure failure;
} accel__pool_load;

/* Which program serves a name. */
typedef enum accel__pool_class {
  ACCEL__POOL_SENTENCE, /* the base class with the pooling of modules.json */
  ACCEL__POOL_BASE,     /* the base class */
  ACCEL__POOL_OWN       /* the class of config.json, or one that is named */
} accel__pool_class;

/* What one endpoint serves: files and parameters, and the names that share them. */
struct accel__pool_model {
  const char *model;        /* as the first name has it */
  const char *directory;    /* resolved; NULL: random weights without files */
  accel_init_params params; /* strings in the pool's arena; device is below */
  char *device;             /* malloc'd; NULL: the default */
  accel__pool_class class;
  bool own_embeds; /* of ACCEL__POOL_BASE: the model's own class gives the same embeddings */
  accel__pool_endpoint *current; /* NULL: not loaded */
  accel__pool_load *load;        /* NULL: none is under way */
  const struct accel__device *load_device;
  uint64_t load_bytes; /* planned for the load under way, once it is let in */
  uint32_t n_pinned;   /* names that are */
  uint64_t peak, loads, evictions, failures, moves, load_ns;
  accel__pool_model *next;
};

struct accel__pool_name {
  const char *name;
  accel__pool_model *model;
  uint32_t queue_capacity; /* of accel_init_params */
  bool pinned;
  uint32_t references, waiting;
  uint64_t hits, timeouts, wait_ns;
  accel__pool_name *next;
};

struct accel_pool {
  accel *ctx;
  uint64_t memory_limit;
  uint32_t max_wait_ms;
  pthread_mutex_t lock;   /* of everything below, and of what it points to */
  pthread_cond_t changed; /* a load has ended, memory was given back, a last reference is gone */
  accel__arena arena;
  accel__pool_name *names;   /* in the order in which they were added */
  accel__pool_model *models; /* the same */
  accel__pool_endpoint *leaving;
  uint64_t clock, peak;
  uint64_t epoch; /* moves on whenever memory of the pool is taken or given back */
};

struct accel_pool_ref {
  accel_pool *pool;
  accel__pool_name *name;
  accel__pool_endpoint *endpoint;
  accel_queue *queue;
};

/* Until when a call waits, in nanoseconds of the monotonic clock. */
#define ACCEL__POOL_FOR_EVER UINT64_MAX

/* All functions below are called with the pool's lock held. */

/* NULL: this thread's failure names the nearest. */
accel__pool_name *accel__pool_find(accel_pool *pool, const char *name);
/* Waits for a change of the pool, but not beyond `until`; adds the time to name->wait_ns.
 * ACCEL_ERROR_TIMEOUT: `until` has passed.  ACCEL_ERROR_CANCELLED: the context's callback asks for
 * it. */
accel_status accel__pool_wait(accel_pool *pool, accel__pool_name *name, uint64_t until);
/* Loads the name's model, which no one else loads, on `device` (NULL: the model's own), without the
 * lock.  *out becomes the model's current endpoint; one that it had is left in `leaving`, and ends
 * with its last reference. */
accel_status accel__pool_load_now(accel_pool *pool, accel__pool_name *name, const char *device,
                                  uint64_t until);
/* Takes an endpoint without references, which no model has any more, out of the pool; unlocks
 * meanwhile. */
void accel__pool_unload(accel_pool *pool, accel__pool_endpoint *e);
/* The name's queue of an endpoint, made at the first call. */
accel_status accel__pool_queue_for(accel__pool_endpoint *e, const accel__pool_name *name,
                                   accel_queue **out);

#endif
