/**
 * @file base.h
 * What every other header of libaccel uses: version, status codes, errors, contexts, lists of
 * strings, tensors in host memory.
 *
 * Include accel/accel.h, which includes this file.  The rules that hold for every function
 * (ownership, parameter structs, threads) are written there.
 */
#ifndef ACCEL_BASE_H
#define ACCEL_BASE_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/** Major version of these headers: changes when a program must be changed to compile or run. */
#define ACCEL_VERSION_MAJOR 0
/** Minor version: grows with new functions and fields.  Below 1.0 names may change with it. */
#define ACCEL_VERSION_MINOR 1
/** Patch version: corrections only. */
#define ACCEL_VERSION_PATCH 0
/** The version of these headers as text; accel_version() answers that of the library at run
 *  time. */
#define ACCEL_VERSION_STRING "0.1.0"

/** Marks a public function: the library is built with hidden visibility. */
#if defined(__GNUC__)
#define ACCEL_API __attribute__((visibility("default")))
#else
#define ACCEL_API
#endif

/* ---- status codes and errors --------------------------------------------------------------- */

/**
 * Every status as X(NAME, number, exit code of the accel tool, "what it means").
 *
 * The numbers are pinned and never reused.  0 to -11 are the same numbers as accel_plugin_rc of the
 * plugin interface, so that a plugin's answer is a status.  Bindings expand the list to get names
 * and texts without a copy of their own.
 */
#define ACCEL_STATUS_LIST(X)                                                                      \
  X(OK, 0, 0, "success")                                                                          \
  X(ERROR_ARGUMENT, -1, 2, "an argument or input tensor is not what the call takes")              \
  X(ERROR_UNSUPPORTED, -2, 3, "this model, op or option is not supported")                        \
  X(ERROR_OUT_OF_MEMORY, -3, 1, "the system refused memory")                                      \
  X(ERROR_DEVICE_MEMORY, -4, 5, "the device has not enough memory")                               \
  X(ERROR_DEVICE_LOST, -5, 1, "the device was lost; clean up its endpoints and initialise again") \
  X(ERROR_LIMIT, -6, 1, "a stated limit was exceeded")                                            \
  X(ERROR_NONFINITE, -7, 1, "the result holds NaN or infinity")                                   \
  X(ERROR_IO, -8, 1, "a file could not be read or written")                                       \
  X(ERROR_CANCELLED, -9, 1, "it was asked to stop")                                               \
  X(ERROR_ABI, -10, 4, "a plugin and this library do not fit together")                           \
  X(ERROR_DRIVER, -11, 1, "the device's driver reported an error")                                \
  X(ERROR_NOT_FOUND, -20, 1, "a file, directory or name does not exist")                          \
  X(ERROR_FORMAT, -21, 1, "a file is malformed")                                                  \
  X(ERROR_UNKNOWN_MODEL, -22, 3, "the registry does not know this model")                         \
  X(ERROR_DEVICE_UNAVAILABLE, -23, 4, "the device asked for cannot serve")                        \
  X(ERROR_PRECISION, -24, 3, "the precision asked for is not available there")                    \
  X(ERROR_DOES_NOT_FIT, -25, 5, "the model does not fit the memory it may use")                   \
  X(ERROR_QUEUE_FULL, -26, 1, "the endpoint's queue is full; wait for a ticket and submit again") \
  X(ERROR_VERIFY, -27, 6, "the numbers are outside the bounds")                                   \
  X(ERROR_TIMEOUT, -28, 1, "the time limit passed")                                               \
  X(ERROR_INTERNAL, -29, 1, "a defect in libaccel; please report it")

/**
 * The result of nearly every function: ACCEL_OK or one of the negative codes of ACCEL_STATUS_LIST.
 *
 * These codes can come from any call that computes or allocates, and are not repeated at each one:
 *  - ACCEL_ERROR_ARGUMENT: a pointer that must not be NULL is NULL, or the `size` of a parameter
 *    struct was not set by its _default() function.  The message names the argument.
 *  - ACCEL_ERROR_OUT_OF_MEMORY: the system refused host memory.
 *  - ACCEL_ERROR_CANCELLED: accel_params.cancel or accel_ticket_cancel() asked to stop.
 *  - ACCEL_ERROR_DEVICE_MEMORY, ACCEL_ERROR_DEVICE_LOST, ACCEL_ERROR_DRIVER: the device failed
 *    while it computed.  A lost device stays lost until all of its endpoints are cleaned up.
 *  - ACCEL_ERROR_NONFINITE: a result that must be finite holds NaN or infinity.
 *  - ACCEL_ERROR_INTERNAL: a defect of the library or of a plugin.
 */
typedef enum accel_status {
#define ACCEL_STATUS_ENUM(name, number, exit_code, text) ACCEL_##name = number, /**< text */
  ACCEL_STATUS_LIST(ACCEL_STATUS_ENUM)
#undef ACCEL_STATUS_ENUM
} accel_status;

/** Version of the library that is loaded, "0.1.0"; a constant string. */
ACCEL_API const char *accel_version(void);

/** Name of a status without its prefix, "ERROR_FORMAT"; "UNKNOWN" for other numbers.  A
 *  constant. */
ACCEL_API const char *accel_status_name(accel_status status);

/** What a status means, one sentence: the text of ACCEL_STATUS_LIST.  A constant string. */
ACCEL_API const char *accel_status_text(accel_status status);

/** The exit code with which the accel tool answers this status (0 to 6; docs/cli.md lists them). */
ACCEL_API int accel_status_exit_code(accel_status status);

/**
 * Why the last call of this thread failed: the outermost cause first, "a: b: c".
 *
 * Read it right after a call of this thread returned a negative code: after success it means
 * nothing.  The text belongs to the thread and is valid until its next call into the library other
 * than accel_last_error() and accel_last_remedy(); other threads neither see nor change it.
 */
ACCEL_API const char *accel_last_error(void);

/** What to do about the last failure of this thread, "" when nothing is known.  Lives as long as
 *  the text of accel_last_error(). */
ACCEL_API const char *accel_last_remedy(void);

/* ---- contexts ------------------------------------------------------------------------------ */

/** A context: thread pool, registry, plugins, caches and settings.  Everything else is made from
 *  one and ends before it. */
typedef struct accel accel;

/** How important a message is; smaller numbers are more important. */
typedef enum accel_log_level {
  ACCEL_LOG_ERROR = 0,   /**< something failed that the caller may not see otherwise */
  ACCEL_LOG_WARNING = 1, /**< a result is right, but slower or other than asked for */
  ACCEL_LOG_INFO = 2,    /**< what was chosen, and tensors of a checkpoint that are not used */
  ACCEL_LOG_DEBUG = 3    /**< details for those who work on the library or a plugin */
} accel_log_level;

/**
 * Receives messages of the library and its plugins.
 *
 * Called from any thread, pool threads included, and from several at once.  `message` is one line
 * without a newline and is valid during the call.  Must not call back into the context.
 */
typedef void (*accel_log_fn)(void *user, accel_log_level level, const char *message);

/**
 * Receives the progress of a long call: `done` of `total` units of `what`.
 *
 * `what` is "loading", "embedding", "generating", "transcribing", "testing" or the like; `total` is
 * 0 where it is not known.  Called from the thread that does the work: that of the call, or a
 * queue's; from several when calls overlap.
 */
typedef void (*accel_progress_fn)(void *user, const char *what, uint64_t done, uint64_t total);

/**
 * Asked whether to stop.  It holds for all calls of the context: nonzero ends each one that asks,
 * soon, with ACCEL_ERROR_CANCELLED.
 *
 * Called often, possibly from several pool threads at once: it must be cheap and thread-safe, such
 * as reading an atomic flag.
 */
typedef int (*accel_cancel_fn)(void *user);

/**
 * How calls that run at once share the context's threads.
 *
 * Results are the same in both modes.  Never more than accel_thread_count() threads compute at
 * once: a call for which there is no thread waits.
 */
typedef enum accel_mode {
  /** A call alone gets all threads; calls at once get equal parts of them. */
  ACCEL_MODE_LATENCY = 0,
  /** Each call computes on its caller's thread alone, up to `threads` calls at once.  Loading a
   *  model still uses all threads. */
  ACCEL_MODE_THROUGHPUT = 1
} accel_mode;

/** Settings of a context; accel_params_default() fills them. */
typedef struct accel_params {
  /** sizeof(accel_params), set by accel_params_default(). */
  uint32_t size;
  /** Threads that compute, the calling thread included, clamped to the process's affinity.
   *  0: the least of affinity, cgroup quota and physical cores; of ranks over "shm" each its part of
   *  that. */
  uint32_t threads;
  /** Colon-separated directories that are searched for plugins instead of the standard places.
   *  NULL: $ACCEL_PLUGIN_PATH, else the standard places (docs/detect.md). */
  const char *plugin_path;
  /** A JSON file, or a directory of them, whose entries add to the embedded registry or override
   *  it (docs/registry.md).  NULL: none. */
  const char *registry_path;
  /** Directory for packed weights and self-test verdicts.  NULL: $ACCEL_CACHE_DIR, else
   *  $XDG_CACHE_HOME/accel, else ~/.cache/accel. */
  const char *cache_directory;
  /** Receives messages.  NULL: the library is silent. */
  accel_log_fn log;
  /** First argument of `log`. */
  void *log_user;
  /** Messages up to this level reach `log`; default ACCEL_LOG_WARNING. */
  accel_log_level log_level;
  /** 1: "auto" may choose software devices such as llvmpipe and PoCL (for tests); default 0. */
  uint32_t allow_software;
  /** Receives the progress of long calls.  NULL: none. */
  accel_progress_fn progress;
  /** First argument of `progress`. */
  void *progress_user;
  /** Asked whether to stop.  NULL: calls run to their end. */
  accel_cancel_fn cancel;
  /** First argument of `cancel`. */
  void *cancel_user;
  /** Bytes that packed weights may take on disk.  0: $ACCEL_CACHE_LIMIT, else the lesser of 20 GiB
   *  and a tenth of the disk. */
  uint64_t cache_limit;
  /** Bytes that a model may use.  One that needs more is streamed where its plugin can (its weights
   *  are read from the files in each run: accel_streaming()), else refused with
   *  ACCEL_ERROR_DOES_NOT_FIT.  0: $ACCEL_MEM_LIMIT, else no limit but the device's. */
  uint64_t memory_limit;
  /** 1: packed weights are neither read from the cache nor written to it; $ACCEL_NO_CACHE=1 does
   *  the same.  Default 0. */
  uint32_t no_cache;
  /** How calls that run at once share the threads; default ACCEL_MODE_LATENCY. */
  accel_mode mode;
  /** Tensor parallelism (docs/scale.md): which rank of a group this process is, from 0. */
  uint32_t rank;
  /** Ranks of the group, at most 64, each a process of its own that has a share of every model.  0
   *  (default), 1: this process alone.  accel_create() then waits up to 60 s for the others. */
  uint32_t world;
  /** What the ranks talk over: the name of a transport plugin, "shm" (one machine; NULL means it,
   *  too), "openmpi", "mpich"; behind a '+' that of one that sums between cards, "shm+nccl",
   *  "openmpi+rccl" ("nccl" alone: "shm+nccl").  The same on all ranks. */
  const char *transport;
  /** Name of the group, the same on all its ranks and of no other group of this user on the machine;
   *  1 to 64 letters, digits, "-", "_", ".".  NULL: "default".  MPI's launcher tells its ranks
   *  apart, and the name is not used. */
  const char *job;
} accel_params;

/** The default settings. */
ACCEL_API accel_params accel_params_default(void);

/**
 * Makes a context.  Cheap: registry, plugins and devices are looked at when they are first needed.
 *
 * @param params NULL: all defaults.  Its strings are copied; callbacks must stay valid until
 *               accel_destroy().
 * @param out receives the context, which the caller ends with accel_destroy().
 * @return ACCEL_ERROR_ARGUMENT when `mode` is none of accel_mode.
 */
ACCEL_API accel_status accel_create(const accel_params *params, accel **out);

/**
 * Ends a context and sets *ctx to NULL; ctx and *ctx may be NULL.
 *
 * Endpoints that are still there are cleaned up, too, and the pointers to them become invalid.
 * Devices, device tensors, tokenizers, templates, sessions, chats and tickets must have ended
 * before.  No other thread may be inside a call on the context.
 */
ACCEL_API void accel_destroy(accel **ctx);

/**
 * Ranks behind 0 of a group (accel_params.world): opens, runs and closes what rank 0 does, each time
 * with this rank's share, until rank 0 destroys its context.
 *
 * Rank 0 calls the library as if it were alone; the others make a context and call this, and nothing
 * else.  Calls of rank 0 that share a group take turns.
 *
 * @return ACCEL_ERROR_DEVICE_LOST when a rank is gone, on all ranks within two seconds, and for
 *         every later call of rank 0; ACCEL_ERROR_ARGUMENT on rank 0, and without a group.
 */
ACCEL_API accel_status accel_follow(accel *ctx);

/** Threads that may compute at once, 1 or more; 0 for NULL. */
ACCEL_API uint32_t accel_thread_count(const accel *ctx);

/* ---- strings ------------------------------------------------------------------------------- */

/** Frees a string that a function handed out as `char **`, and sets the pointer to NULL.
 *  string and *string may be NULL. */
ACCEL_API void accel_string_free(char **string);

/** A list of strings. */
typedef struct accel_strings {
  uint32_t n;              /**< how many */
  const char *const *item; /**< [n] */
} accel_strings;

/** Frees a list that a function handed out as `accel_strings **`, and sets the pointer to NULL.
 *  Lists inside of another result are freed with that result, never with this function. */
ACCEL_API void accel_strings_free(accel_strings **strings);

/* ---- tensors in host memory ---------------------------------------------------------------- */

/** Element types of tensors; the same numbers as accel_plugin_dtype. */
typedef enum accel_dtype {
  ACCEL_F32 = 0,  /**< 32-bit float */
  ACCEL_F16 = 1,  /**< IEEE half */
  ACCEL_BF16 = 2, /**< bfloat16: the upper half of a 32-bit float */
  ACCEL_I32 = 3,  /**< 32-bit integer */
  ACCEL_I64 = 4,  /**< 64-bit integer */
  ACCEL_I8 = 5,   /**< 8-bit integer */
  ACCEL_U8 = 6,   /**< 8-bit unsigned integer */
  ACCEL_F64 = 13, /**< 64-bit float */
  ACCEL_BOOL = 14 /**< one byte, 0 or 1 */
} accel_dtype;

enum {
  /** Most dims that an accel_tensor can have. */
  ACCEL_MAX_RANK = 6
};

/** One named tensor. */
typedef struct accel_tensor {
  /** As transformers' forward names it: "input_ids", "last_hidden_state". */
  const char *name;
  /** Type of the elements. */
  accel_dtype dtype;
  /** Dims in use, 0 (a scalar) to ACCEL_MAX_RANK. */
  uint32_t rank;
  /** Sizes, slowest dim first; those at `rank` and beyond are not looked at. */
  int64_t dim[ACCEL_MAX_RANK];
  /** The elements, row-major and contiguous. */
  void *data;
} accel_tensor;

/** A list of named tensors. */
typedef struct accel_tensors {
  uint32_t n;         /**< how many */
  accel_tensor *item; /**< [n] */
} accel_tensors;

/** Frees a list that the library made, with its names and data, and sets the pointer to NULL.
 *  Lists that the caller built stay the caller's. */
ACCEL_API void accel_tensors_free(accel_tensors **tensors);

/**
 * Reads every tensor of a .safetensors file, in the order of their data.
 *
 * @param path the file, or a directory with a checkpoint in one or several files.
 * @param out receives copies of the tensors; accel_tensors_free() frees them.
 * @return ACCEL_ERROR_NOT_FOUND, ACCEL_ERROR_IO: there is no such file, or it cannot be read.
 *         ACCEL_ERROR_FORMAT: it is no safetensors file, or its header and length disagree.
 *         ACCEL_ERROR_UNSUPPORTED: a tensor, which is named, has a dtype that accel_dtype lacks
 *         (F8_E4M3 ...) or more than ACCEL_MAX_RANK dims.
 */
ACCEL_API accel_status accel_tensors_read(const char *path, accel_tensors **out);

/**
 * Writes tensors as a .safetensors file: to a temporary name beside `path`, then renamed, so that
 * a reader sees the old file or the new one and nothing between.
 *
 * @return ACCEL_ERROR_ARGUMENT: a tensor lacks a name or data, a name occurs twice, or a rank,
 *         dtype or shape is impossible.  ACCEL_ERROR_IO: the file cannot be written.
 */
ACCEL_API accel_status accel_tensors_write(const char *path, const accel_tensors *tensors);

#ifdef __cplusplus
}
#endif
#endif
