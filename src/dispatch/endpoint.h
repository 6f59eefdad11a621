/* endpoint.h - a model placed on a device: choosing device and precision, initialising the plugin,
 * running packed batches.
 *
 * Life of an endpoint: tasks/open.c opens the model directory and builds the program;
 * accel__endpoint_place walks the candidate devices and precisions, asks the plugins, and
 * initialises the first that serves; accel__endpoint_run runs an entry; accel__endpoint_free gives
 * all back.
 */
#ifndef ACCEL_DISPATCH_ENDPOINT_H
#define ACCEL_DISPATCH_ENDPOINT_H

#include <pthread.h>
#include <stdatomic.h>

#include "adapters/adapters.h"
#include "dispatch/context.h"
#include "dispatch/run_clock.h"
#include "dispatch/run_limits.h"
#include "modeling/model.h"
#include "program/cut.h"
#include "weights/row_stream.h"

struct accel_queue;
struct accel__fit;
struct accel__replicas;
struct accel__run_scratch;
struct accel__precision_profile;
struct accel__chat_template;

/* What was planned for an endpoint whose weights do not all stay in memory, in bytes. */
typedef struct accel__streaming {
  uint64_t budget;   /* of resident and staging together */
  uint64_t resident; /* weights that stay */
  uint64_t staging;  /* memory through which the others pass */
  uint64_t read;     /* by a run of the entry that is run most */
  uint64_t experts;  /* of resident: memory for experts, which are read when they are routed */
  uint64_t routed;   /* of experts that one row is routed to; of these: expected to be read */
  uint64_t missed;
  uint64_t least;       /* the smallest memory limit under which the model runs */
  bool copied;          /* the others lie in host memory, and are copied to the device */
  uint64_t host;        /* how much of it they take */
  uint64_t host_budget; /* so much is all they may take, the rest comes from files; 0: none does */
  uint64_t disk;        /* of `read`, where copied: from files */
  struct {
    uint64_t bytes, wait_ns, ns; /* read and waited for; all of it */
  } load;
} accel__streaming;

/* tokens in one KV page of an endpoint that streams from files, and of others */
enum { ACCEL__STREAM_PAGE_ROWS = 64, ACCEL__PAGE_ROWS = 256 };

/* A model on a device at a precision: what one candidate makes and a change of precision swaps. */
typedef struct accel__placed {
  const accel_plugin *plugin; /* NULL: not placed yet */
  uint32_t device;            /* of the plugin */
  accel_plugin_device device_info;
  accel_plugin_endpoint *handle;
  accel__source *source; /* of the weights; as long as the handle lives */
  accel__row_stream
      *rows; /* of the source's weights, opened by the plugin; NULL: all stay in memory */
  accel_plugin_precision precision;
  accel__streaming streaming; /* {0}: all weights stay in memory */
  accel__run_limits limits;   /* of runs */
  uint64_t weight_bytes;      /* as the device's planner counts them */
  /* Of a model over several devices (parts.h): `plugin` and `handle` are theirs, too.  NULL: one */
  struct accel__parts *parts;
} accel__placed;

/* Who is lent services (accel_plugin_host.self): the plugin of an endpoint, or of one of its parts. */
typedef struct accel__host_self {
  accel_endpoint *ep;
  accel__placed *placed;
  const accel__part *part; /* NULL: the whole program */
} accel__host_self;

/* What somebody keeps on an endpoint for later and can do without, a session with sequences that may
 * be wanted again: `close` gives all of it back. */
typedef struct accel__parked {
  void (*close)(struct accel__parked *parked);
} accel__parked;

/* Of the generations of an endpoint's queue, since it was placed. */
typedef struct accel__queue_counters {
  /* tokens of prompts that were read or shared; of these, those of finished prompts that were shared */
  atomic_ullong prompt_tokens, cached_tokens;
  atomic_ullong cache_hits;                 /* prompts that shared some */
  atomic_ullong cache_bytes, cache_prompts; /* kept now */
  atomic_ullong draft_tokens, accepted_tokens;
} accel__queue_counters;

struct accel_endpoint {
  accel *ctx;
  accel_endpoint *next; /* in the context's list */
  accel__arena arena;
  const char *name;      /* model id or directory, as the user gave it */
  const char *directory; /* NULL: no local files (random weights) */
  accel__json_file config;
  accel__checkpoint *checkpoint; /* NULL with random weights */
  accel__import *import;         /* its weights in codes; NULL: it is not quantised */
  accel__adapters *adapters;     /* merged into its weights; NULL: none */
  accel__model *model;
  uint64_t seed;
  const char *kv_cache; /* NULL: as the precision says */
  /* precisions by kind of layer (precision_profile.h); NULL: one for all */
  const struct accel__precision_profile *precision_profile;

  accel__placed placed;
  bool check_finite; /* NaN and infinity in results are errors */
  /* Only when "auto" chose the precision: where accel__endpoint_fall_back goes. */
  bool may_fall_back;
  struct accel__device *placed_on;
  const char **keep_fp32;
  uint32_t n_keep;
  /* held for reading by runs, for writing by a change of precision; made by place */
  pthread_rwlock_t in_use;
  atomic_ullong copied;       /* bytes of weights, from host memory to devices */
  accel__run_clock run_clock; /* of a streaming endpoint's runs; made by place */
  /* open; while there are any the precision stays.  Changed under in_use */
  uint32_t sessions;
  accel__host_self host_self;
  accel_plugin_host host; /* services for handler and cleanup; self is host_self */
  accel_placement_report placement;
  /* Times that lost parts were placed anew: sessions from before have forgotten their sequences. */
  _Atomic uint32_t n_replaced;
  struct {
    accel_profile_fn fn; /* see accel__set_profile; NULL: nobody asks */
    void *user;
  } profile;

  _Atomic(struct accel__run_scratch *) run_scratch; /* run_scratch.h */

  struct accel__replicas *replicas; /* replicas.h, of the first of them; NULL: it is alone */
  accel_endpoint *first_replica;    /* of several, of which this is one; NULL: it is alone */
  struct accel_queue *queue;
  uint32_t batch_size;
  _Atomic(accel__parked *) parked; /* accel__endpoint_park; NULL: nothing */
  uint64_t prefix_cache_bytes;     /* of accel_init_params */
  accel__queue_counters counters;

  _Atomic(struct accel__chat_template *) chat_template; /* NULL: nobody has asked for it */

  void *processor; /* tasks/: tokenizer and friends */
  void (*processor_free)(void *processor);
  accel_processor processor_view;
};

/* Who has a say in loads beside the planner: a pool, which makes room for them. */
typedef struct accel__admission {
  /* Asked before a candidate is loaded, with what the planner says of it.  ACCEL_OK: go on, as the
   * planner has it (a model that does not fit is refused then).  *again: memory was given back, the
   * plan is to be made and asked about anew.  A failure is the candidate's.  Called on the thread of
   * the load; `fit` is valid during the call. */
  accel_status (*ask)(void *user, const struct accel__device *device, const struct accel__fit *fit,
                      bool *again);
  /* One of several replicas was loaded; may be NULL. */
  void (*replica)(void *user, const accel_endpoint *ep);
  void *user;
} accel__admission;

/* What the caller of accel_init asked for, and what the registry says about the model. */
typedef struct accel__place_request {
  const char *device;    /* "auto", a name, or a chain; never NULL */
  const char *precision; /* NULL: fp32, or what a quantised checkpoint is in; "auto", or a name */
  const char *const *keep_fp32;
  uint32_t n_keep;
  bool bf16_only;    /* families that overflow fp16 (T5) */
  int metric;        /* accel__metric (choose.h): what "auto" is to be best at */
  double min_cosine; /* the accuracy bound of precision "auto"; 0: none */
  /* of accel_init_params */
  const char *candidates;
  accel_candidates_fn candidates_fn;
  void *candidates_user;
  const accel__admission *admission; /* NULL: the planner alone decides */
} accel__place_request;

/* ep->model (and checkpoint or seed) are set; fills placed and placement.  On failure the message
 * lists every candidate with its reason. */
accel_status accel__endpoint_place(accel_endpoint *ep, const accel__place_request *request);
/* A result of `failed` (ep->placed.handle when the run began) was not finite: from now on the same
 * device runs the model in fp32, and the placement says why.  On failure, and when the precision
 * was named or is fp32, the endpoint stays as it was. */
accel_status accel__endpoint_fall_back(accel_endpoint *ep, const accel_plugin_endpoint *failed);
/* A run answered ACCEL_ERROR_DEVICE_LOST: of a model over several devices, parts whose device was
 * lost are placed on what the user's chain names behind it, and all sequences of open sessions are
 * empty from then on (n_replaced).  Otherwise, and when nothing of the chain serves, the failure is
 * this thread's again, with what to do about it. */
accel_status accel__endpoint_replace_lost(accel_endpoint *ep);
/* Leaves `parked` with the endpoint, whose it is from then on; what was there is closed. */
void accel__endpoint_park(accel_endpoint *ep, accel__parked *parked);
/* Takes it back; NULL: it is not there, or no more. */
accel__parked *accel__endpoint_unpark(accel_endpoint *ep);
/* Closes it: memory is wanted, or the placement is to change.  Not while `in_use` is held.  Whether
 * there was something. */
bool accel__endpoint_release_parked(accel_endpoint *ep);
void accel__endpoint_free(accel_endpoint *ep);
/* scratch; bytes given back */
accel_status accel__endpoint_trim(accel_endpoint *ep, uint64_t *released);
/* -1: the model has no such entry */
int32_t accel__endpoint_entry(const accel_endpoint *ep, const char *name);
/* The chat templates of its directory, read once; they belong to the endpoint. */
accel_status accel__endpoint_template(accel_endpoint *ep, struct accel__chat_template **out);
/* What runs may take, and whether they read weights (streams; may be NULL): as it is now, for lost
 * parts and changes of precision make it anew. */
accel__run_limits accel__endpoint_limits(accel_endpoint *ep, bool *streams);

/* Data of one ITEM input in its program's dtype (F32 or I32); data NULL: the input is absent and
 * takes its default. */
typedef struct accel__item {
  const void *data;
  uint32_t rank;
  int64_t dim[ACCEL_PLUGIN_MAX_RANK];
} accel__item;

enum { ACCEL__MAX_INPUTS = 16 }; /* of one entry */

/* A batch without padding.  value[i] and item[i] belong to input i of the entry: value int32
 * [tokens of its side] for TOKENS and [3, tokens] for PLACES (NULL takes the default), item for
 * ITEM. */
typedef struct accel__batch {
  uint32_t n;             /* sequences; 0 when the model takes no tokens */
  const int32_t *lengths; /* [n], each at least 1 */
  uint64_t tokens;        /* their sum */
  const void *value[ACCEL__MAX_INPUTS];
  const int32_t *decoder_lengths; /* [n] rows of side 1 (model.h); NULL: as many as of side 0 */
  uint64_t decoder_tokens;
  accel__item item[ACCEL__MAX_INPUTS];
  /* Entries with a session (dispatch/kv_session.h); NULL for the others. */
  accel_plugin_session *session;
  const int32_t *sequence; /* [n] ids in it */
  /* [n] tokens that each has already, for the defaults of positions; NULL: none */
  const int32_t *past_len;
  /* [n] what positions have more than that (accel__image_tokens.place); NULL: nothing */
  const int32_t *rope_delta;
  /* [n] tokens that each will have when all that is known of it is fed; NULL: after this run */
  const int32_t *total_len;
  const accel_plugin_adapter_use *adapter; /* [n] of the sequences; NULL: none has one */
} accel__batch;
static inline const int32_t *accel__batch_lengths(const accel__batch *b, uint32_t side) {
  return side && b->decoder_lengths ? b->decoder_lengths : b->lengths;
}
static inline uint64_t accel__batch_tokens(const accel__batch *b, uint32_t side) {
  return side && b->decoder_lengths ? b->decoder_tokens : b->tokens;
}

/* One output of a run: malloc'd fp32 or int32, rows packed as the batch is.  `capacity` bytes of
 * data given to a run are used again, and grown where they do not suffice. */
typedef struct accel__result {
  accel_plugin_dtype dtype;
  uint32_t rank;
  int64_t dim[ACCEL_PLUGIN_MAX_RANK];
  void *data;
  uint64_t bytes, capacity;
} accel__result;

/* Runs entry `entry`; outputs[k] is an index into the entry's outputs; results[k] is {0} or that of
 * an earlier run, and its data is to be freed with free(), after a failure, too.  Thread-safe. */
accel_status accel__endpoint_run(accel_endpoint *ep, uint32_t entry, const accel__batch *batch,
                                 const uint32_t *outputs, uint32_t n_outputs,
                                 accel__result *results);

#endif
