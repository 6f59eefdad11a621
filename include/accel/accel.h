/* accel.h - run Hugging Face models straight from their directories, on whatever hardware the machine has.
 *
 *   accel *ctx;                 accel_create(NULL, &ctx);
 *   accel_init_params how = accel_init_params_default();   how.device = "auto";
 *   accel_endpoint *embedder;   accel_init(ctx, "sentence-transformers/all-MiniLM-L6-v2", &how, &embedder);
 *   accel_embeddings *found;    accel_embed(embedder, texts, text_count, &found);    [text_count, found->dim] fp32
 *   printf("%s, %s\n", accel_placement(embedder)->device, accel_placement(embedder)->precision);
 *   accel_embeddings_free(&found);  accel_cleanup(&embedder);  accel_destroy(&ctx);
 *
 * Rules that hold for every function
 *  - Returns accel_status: ACCEL_OK (0) or a negative code.  On failure accel_last_error() gives this thread's message with its
 *    cause chain and accel_last_remedy() what to do about it; outputs are set to NULL or 0 and nothing is leaked.
 *  - Nothing is ever simulated: a result is computed, or it is an error.  Nothing is printed; no signal is handled; no
 *    environment variable is set; no network is used; no code from a model directory runs.
 *  - Strings are UTF-8; U+0000 inside a text is written as the two bytes C0 80.  Pointers inside results live as long as the result.  Arrays are row-major.
 *  - `X_free(X **)` and the like set the pointer to NULL and accept a pointer to NULL.
 *  - Parameter structs start with `size`; get one from its _default() function, then change what you need.  NULL means all defaults.
 *  - Threads: a context and an endpoint may be used from many threads at once.  Creation and destruction of one object must not
 *    overlap its use.  Two contexts never meet.
 */
#ifndef ACCEL_ACCEL_H
#define ACCEL_ACCEL_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define ACCEL_VERSION_MAJOR 0
#define ACCEL_VERSION_MINOR 1
#define ACCEL_VERSION_PATCH 0
#define ACCEL_VERSION_STRING "0.1.0"

#if defined(__GNUC__)
#define ACCEL_API __attribute__((visibility("default")))
#else
#define ACCEL_API
#endif

/* ---- status ---------------------------------------------------------------------------------------------------------- */

/* X(NAME, number, exit code of the accel tool, "what it means").  Numbers are pinned; 0 .. -11 are also the plugin interface's. */
#define ACCEL_STATUS_LIST(X)                                                                             \
  X(OK, 0, 0, "success")                                                                                 \
  X(ERROR_ARGUMENT, -1, 2, "an argument or input tensor is not what the call takes")                     \
  X(ERROR_UNSUPPORTED, -2, 3, "this model, op or option is not supported")                               \
  X(ERROR_OUT_OF_MEMORY, -3, 1, "the system refused memory")                                             \
  X(ERROR_DEVICE_MEMORY, -4, 5, "the device has not enough memory")                                      \
  X(ERROR_DEVICE_LOST, -5, 1, "the device was lost; clean up its endpoints and initialise again")        \
  X(ERROR_LIMIT, -6, 1, "a stated limit was exceeded")                                                   \
  X(ERROR_NONFINITE, -7, 1, "the result holds NaN or infinity")                                          \
  X(ERROR_IO, -8, 1, "a file could not be read or written")                                              \
  X(ERROR_CANCELLED, -9, 1, "the cancel callback asked to stop")                                         \
  X(ERROR_ABI, -10, 4, "a plugin and this library do not fit together")                                  \
  X(ERROR_DRIVER, -11, 1, "the device's driver reported an error")                                       \
  X(ERROR_NOT_FOUND, -20, 1, "a file, directory or name does not exist")                                 \
  X(ERROR_FORMAT, -21, 1, "a file is malformed")                                                         \
  X(ERROR_UNKNOWN_MODEL, -22, 3, "the registry does not know this model")                                \
  X(ERROR_DEVICE_UNAVAILABLE, -23, 4, "the device asked for cannot serve")                               \
  X(ERROR_PRECISION, -24, 3, "the precision asked for is not available there")                           \
  X(ERROR_DOES_NOT_FIT, -25, 5, "the model does not fit the memory it may use")                          \
  X(ERROR_QUEUE_FULL, -26, 1, "the endpoint's queue is full; wait for a ticket and submit again")        \
  X(ERROR_VERIFY, -27, 6, "the numbers are outside the bounds")                                          \
  X(ERROR_TIMEOUT, -28, 1, "the time limit passed")                                                      \
  X(ERROR_INTERNAL, -29, 1, "a defect in libaccel; please report it")

typedef enum accel_status {
#define ACCEL_STATUS_ENUM(name, number, exit_code, text) ACCEL_##name = number,
  ACCEL_STATUS_LIST(ACCEL_STATUS_ENUM)
#undef ACCEL_STATUS_ENUM
} accel_status;

ACCEL_API const char *accel_version(void);                         /* "0.1.0" */
ACCEL_API const char *accel_status_name(accel_status status);      /* "ERROR_FORMAT"; "UNKNOWN" for other numbers */
ACCEL_API const char *accel_status_text(accel_status status);      /* the sentence */
ACCEL_API int accel_status_exit_code(accel_status status);         /* as the accel tool exits */
/* This thread's last failure: outermost cause first, "a: b: c"; "" when its last call succeeded.  Valid until its next call. */
ACCEL_API const char *accel_last_error(void);
ACCEL_API const char *accel_last_remedy(void); /* "" when there is none */

/* ---- context --------------------------------------------------------------------------------------------------------- */

typedef struct accel accel;

typedef enum accel_log_level { ACCEL_LOG_ERROR = 0, ACCEL_LOG_WARNING = 1, ACCEL_LOG_INFO = 2, ACCEL_LOG_DEBUG = 3 } accel_log_level;
/* Called from whichever thread has something to say; must not call back into the context. */
typedef void (*accel_log_fn)(void *user, accel_log_level level, const char *message);
/* done of all units of `what` ("loading", "embedding", "testing"); called from the thread that made the call. */
typedef void (*accel_progress_fn)(void *user, const char *what, uint64_t done, uint64_t all);
/* Nonzero: the running call stops soon with ACCEL_ERROR_CANCELLED.  Called often, possibly from pool threads: must be cheap. */
typedef int (*accel_cancel_fn)(void *user);

/* How calls that run at once share the context's threads; results are the same in either.  Never more than `threads` threads compute
 * at once: a call for which there is none waits. */
typedef enum accel_mode {
  ACCEL_MODE_LATENCY = 0,   /* a call alone gets all threads; calls at once get equal parts of them */
  ACCEL_MODE_THROUGHPUT = 1 /* each call computes on its caller's thread alone, up to `threads` calls at once; loading a model still uses all */
} accel_mode;

typedef struct accel_params {
  uint32_t size;
  uint32_t threads;             /* of the context's pool, the calling thread included; 0: min(affinity, cgroup quota, physical cores) */
  const char *plugin_path;      /* colon-separated directories searched instead of the standard places; NULL: ACCEL_PLUGIN_PATH */
  const char *registry_path;    /* JSON file or directory of entries that add to or override the embedded registry */
  const char *cache_directory;  /* NULL: $ACCEL_CACHE_DIR, else $XDG_CACHE_HOME/accel, else ~/.cache/accel */
  accel_log_fn log;             /* NULL: silent */
  void *log_user;
  accel_log_level log_level;
  uint32_t allow_software;      /* 1: `auto` may choose software devices (tests) */
  accel_progress_fn progress;
  void *progress_user;
  accel_cancel_fn cancel;
  void *cancel_user;
  uint64_t cache_limit;         /* bytes of packed weights on disk; 0: $ACCEL_CACHE_LIMIT, else 20 GiB or a tenth of the disk, the lesser */
  uint64_t memory_limit;        /* bytes a model may use; more is refused as not fitting; 0: $ACCEL_MEM_LIMIT, else none */
  uint32_t no_cache;            /* 1: packed weights are neither read from the cache nor written to it; also $ACCEL_NO_CACHE=1 */
  accel_mode mode;
} accel_params;

ACCEL_API accel_params accel_params_default(void);
/* Cheap: nothing is probed or loaded before it is needed. */
ACCEL_API accel_status accel_create(const accel_params *params, accel **out);
/* Cleans up endpoints that are still there, too; the pointers to them become invalid. */
ACCEL_API void accel_destroy(accel **ctx);
ACCEL_API uint32_t accel_thread_count(const accel *ctx);
ACCEL_API void accel_string_free(char **string); /* strings the library hands out as char ** */

typedef struct accel_strings {
  uint32_t n;
  const char *const *item;
} accel_strings;
ACCEL_API void accel_strings_free(accel_strings **strings);

/* ---- detection ------------------------------------------------------------------------------------------------------- */

/* One device, or one kind of hardware that is not there, with the reason.  Four separate facts, each "no" explained. */
typedef struct accel_device_info {
  const char *name;          /* "cpu", "rocm:0", "vulkan:1": what --device takes */
  const char *hardware;      /* registry name: cpu cuda amd opencl vulkan openvino apple qualcomm webgpu webnn reference */
  const char *plugin;        /* "cpu", "rocm" ...; "" when there is none */
  const char *implementation_type; /* "CPU", "AMD_ROCM", "CUDA", "OPENCL", "VULKAN", "REFERENCE" */
  const char *description;   /* the vendor's name of it */
  const char *arch, *driver, *id; /* "" when unknown */
  const char *type;          /* "cpu", "discrete", "integrated", "software", "other" */
  int32_t compiled, loaded, found, tested; /* 1 yes, 0 no, -1 not reached */
  int32_t usable;            /* all four */
  int32_t is_amd;
  const char *reason;        /* why not usable; "" when usable */
  const char *remedy;        /* what to do about it */
  uint64_t memory_total, memory_free; /* bytes; 0 not known */
} accel_device_info;
typedef struct accel_devices {
  uint32_t n;
  const accel_device_info *item;
} accel_devices;

/* Everything a user can have, usable or not.  Probes vendor software in a helper process, so a crashing driver is a line of the
 * report.  The result is kept by the context; refresh != 0 looks again. */
ACCEL_API accel_status accel_detect(accel *ctx, int refresh, accel_devices **out);
ACCEL_API void accel_devices_free(accel_devices **devices);
/* The capability dictionary: cpu, cuda, cuda_version, cuda_devices, mps, openvino, qualcomm, amd, amd_version, amd_devices, then
 * devices, plugins (every path tried and its verdict), environment ...  {"schema":"accel.detect/1",...}. */
ACCEL_API accel_status accel_detect_json(accel *ctx, int refresh, char **json);

/* A device that can serve, in hand: what it is, its memory, and tensors in it.  Ends before its context; its tensors may outlive it. */
typedef struct accel_device accel_device;
typedef struct accel_device_tensor accel_device_tensor; /* a tensor in a device's memory */
typedef struct accel_device_stream accel_device_stream; /* copies to and from a device, in order, on a thread of their own */

typedef struct accel_memory_summary { /* bytes; 0 not known */
  uint32_t size;
  uint32_t reserved;
  uint64_t total, free, budget, shared_with_host; /* as the driver tells now; of AMD cards no more than the kernel tells */
  uint64_t tensors, tensor_bytes;                 /* of this accel_device that are alive */
  uint64_t endpoints;                             /* of this context on the device */
} accel_memory_summary;

/* *available: a real card is there, its runtime answers and its self-test passed; emulators and software devices do not count.  0 is no
 * failure: accel_get_device(ctx, "rocm", ...) tells the reason as its error. */
ACCEL_API accel_status accel_is_rocm_available(accel *ctx, int *available);
ACCEL_API accel_status accel_is_cuda_available(accel *ctx, int *available);
/* The first device of `wanted` (NULL: "auto"; else what accel_init_params.device takes) that passes its self-test. */
ACCEL_API accel_status accel_get_device(accel *ctx, const char *wanted, accel_device **out);
ACCEL_API void accel_device_close(accel_device **device); /* waits for its stream */
ACCEL_API const accel_device_info *accel_get_device_info(const accel_device *device); /* lives as long as the context */
ACCEL_API const char *accel_get_device_type(const accel_device *device);              /* "cpu", "rocm", "cuda", "opencl", "vulkan" ... */
/* What the device is, its memory, runtime and driver, and whether halves compute there, one fact a line, for people. */
ACCEL_API accel_status accel_device_info_text(accel_device *device, char **text);
ACCEL_API accel_memory_summary accel_memory_summary_default(void);
ACCEL_API accel_status accel_device_memory(accel_device *device, accel_memory_summary *out); /* out->size is set: _default() */
/* Runs a small tensor at "fp16" or "bf16" and compares.  ACCEL_ERROR_PRECISION with the reason when the device cannot, or computes wrongly. */
ACCEL_API accel_status accel_probe_precision(accel_device *device, const char *precision);
/* Version of a hardware's runtime ("amd": ROCm's; "cuda", "opencl", "vulkan") and of the driver under it; "" what is not known or not there. */
ACCEL_API accel_status accel_runtime_version(accel *ctx, const char *hardware, char **version, char **driver);
/* Gives back the scratch memory of the context's endpoints on the device (NULL: on all); *released (may be NULL): bytes. */
ACCEL_API accel_status accel_empty_cache(accel *ctx, const accel_device *device, uint64_t *released);
/* Waits until the queues of the context's endpoints on the device are empty and the stream's copies are done; no endpoint may be cleaned up
 * meanwhile.  Other calls have always finished when they return.  Answers the first failure of the stream since the last time. */
ACCEL_API accel_status accel_synchronize(accel_device *device);

/* ---- registry -------------------------------------------------------------------------------------------------------- */

typedef struct accel_registry_entry {
  const char *model;           /* canonical id, "google-bert/bert-base-uncased" */
  const char *description, *family, *architecture;
  int64_t embedding_dim, sequence_length;
  const char *model_precision; /* "float32" */
  int64_t default_batch_size;
  const accel_strings *aliases;
  const accel_strings *hardware; /* names that are listed as compatible */
} accel_registry_entry;

/* Unknown model: ACCEL_ERROR_UNKNOWN_MODEL.  The entry lives until accel_destroy or until it is overridden. */
ACCEL_API accel_status accel_registry_lookup(accel *ctx, const char *model, const accel_registry_entry **out);
ACCEL_API accel_status accel_registry_json(accel *ctx, const char *model, char **json); /* the whole entry; model NULL: all of them */
typedef struct accel_registry_filter {
  uint32_t size;
  const char *family, *hardware, *precision, *text; /* NULL: any; text: part of id or description */
} accel_registry_filter;
ACCEL_API accel_registry_filter accel_registry_filter_default(void);
ACCEL_API accel_status accel_registry_list(accel *ctx, const accel_registry_filter *filter, accel_strings **models);
/* Adds or overrides entries: JSON text of one entry, or {"models":[...]}; checked against the schema. */
ACCEL_API accel_status accel_registry_add(accel *ctx, const char *json);
/* Hardware and precision by any alias (amd = rocm = hip, float32 = fp32, any letter case).  Unknown model: *supported = 0 and
 * ACCEL_ERROR_UNKNOWN_MODEL; unknown hardware or precision: ACCEL_ERROR_ARGUMENT. */
ACCEL_API accel_status accel_is_hardware_supported(accel *ctx, const char *model, const char *hardware, int *supported);
ACCEL_API accel_status accel_is_precision_supported(accel *ctx, const char *model, const char *hardware, const char *precision, int *supported);
/* base + hardware + precision, in that order, without repeats.  hardware, precision may be NULL. */
ACCEL_API accel_status accel_get_dependencies(accel *ctx, const char *model, const char *hardware, const char *precision, accel_strings **out);
/* Custom precision profile of a model on a hardware: replaces the listed one (what is not named is false), or merges. */
ACCEL_API accel_status accel_set_precision_profile(accel *ctx, const char *model, const char *hardware, const char *const *precisions, const int *supported,
                                                   uint32_t n, int merge);

typedef struct accel_test_record {
  const char *platform;  /* "cpu (FP32)" */
  const char *hardware, *precision, *device, *implementation_type;
  const char *input, *output; /* what went in and came out, in words: shapes and first values */
  int32_t passed;
  double max_abs, max_rel, cosine; /* against the reference plugin */
  double ms;                       /* of one run after a warm-up */
  const char *weights;             /* "local" or "random, seed N, true shape" */
} accel_test_record;
typedef struct accel_test_report {
  uint32_t n;                     /* keys "<hardware>_test", "<hardware>_<precision>_test" */
  const char *const *key;
  const char *const *value;       /* "Hardware not available", "Precision not supported", "Success", "Error: ..." */
  uint32_t n_records;             /* one for each combination that really ran */
  const accel_test_record *record;
} accel_test_report;
/* Really loads and runs each combination.  NULL lists: cpu cuda amd openvino apple x fp32 fp16 bf16 int8 int4. */
ACCEL_API accel_status accel_run_precision_tests(accel *ctx, const char *model, const char *const *hardware, uint32_t n_hardware,
                                                 const char *const *precisions, uint32_t n_precisions, accel_test_report **out);
ACCEL_API void accel_test_report_free(accel_test_report **report);

/* ---- endpoints ------------------------------------------------------------------------------------------------------- */

typedef struct accel_endpoint accel_endpoint;

typedef struct accel_init_params {
  uint32_t size;
  const char *device;       /* "auto", "cpu", "rocm:0", "gpu", a chain "rocm:0,cpu" ...; a named device is a demand */
  const char *precision;    /* NULL: fp32; "auto": the device's ladder; a name is a demand */
  const char *task;         /* transformers pipeline name, "feature-extraction", "text-classification" ...; NULL: from the model */
  uint32_t batch_size;      /* texts per run of the tasks; 0: the registry's default */
  uint32_t max_length;      /* tokens; 0: the model's own (sentence-transformers: max_seq_length) */
  uint32_t queue_capacity;  /* 0: 32 */
  uint32_t random_weights;  /* 1: no weights are read; the true shape with seeded random values (tests, benchmarks), and says so */
  uint64_t seed;
  const char *architecture; /* NULL: config.json's architectures[0] */
  const char *kv_cache;     /* what sessions keep keys and values as: "fp32", "fp16", "bf16", "int8" (one scale a head and token);
                               NULL: as the precision says */
} accel_init_params;
ACCEL_API accel_init_params accel_init_params_default(void);

/* Where an endpoint runs, and why.  listed: the registry lists (model, hardware, precision). */
typedef struct accel_placement_report {
  const char *model, *label;        /* id or directory; "MODEL on DEVICE (PRECISION)" */
  const char *device, *precision;   /* got */
  const char *implementation_type;  /* "CPU", "AMD_ROCM", "CUDA", "OPENCL", "VULKAN", "REFERENCE" */
  int32_t is_amd, listed;
  const char *wanted_device, *wanted_precision;
  const accel_strings *reasons;     /* one for each candidate passed over: "rocm:0: no libamdhip64.so" */
  const char *weights;              /* "local" or "random, seed N" */
} accel_placement_report;

/* model: a directory, or org/name[@rev] looked up in $XDG_CACHE_HOME/accel/models and the Hugging Face cache (read-only). */
ACCEL_API accel_status accel_init(accel *ctx, const char *model, const accel_init_params *params, accel_endpoint **out);
ACCEL_API void accel_cleanup(accel_endpoint **endpoint); /* waits for queued work */
ACCEL_API const accel_placement_report *accel_placement(const accel_endpoint *endpoint);

/* The parts the followed systems hand out one by one, here behind one handle. */
typedef struct accel_processor { /* the task's pre- and post-processing */
  const char *task;              /* "feature-extraction" */
  const char *tokenizer;         /* "WordPiece", "BPE", "Unigram" ...; "" when the model has none */
  int64_t vocab_size, max_length, pad_id;
  const accel_strings *labels;   /* id2label of a head, else empty */
} accel_processor;
ACCEL_API const accel_processor *accel_processor_of(const accel_endpoint *endpoint);
ACCEL_API uint32_t accel_batch_size_of(const accel_endpoint *endpoint);
ACCEL_API accel_status accel_trim(accel_endpoint *endpoint); /* gives scratch memory back */
/* Runs the endpoint on seeded inputs and compares it with the reference plugin. */
ACCEL_API accel_status accel_self_test(accel_endpoint *endpoint, accel_test_report **out);

/* ---- raw tensors ----------------------------------------------------------------------------------------------------- */

typedef enum accel_dtype { /* the same numbers as accel_plugin_dtype */
  ACCEL_F32 = 0, ACCEL_F16 = 1, ACCEL_BF16 = 2, ACCEL_I32 = 3, ACCEL_I64 = 4, ACCEL_I8 = 5, ACCEL_U8 = 6, ACCEL_F64 = 13, ACCEL_BOOL = 14
} accel_dtype;
enum { ACCEL_MAX_RANK = 6 };
typedef struct accel_tensor {
  const char *name; /* as transformers' forward names it: "input_ids", "last_hidden_state" */
  accel_dtype dtype;
  uint32_t rank;
  int64_t dim[ACCEL_MAX_RANK];
  void *data; /* row-major, contiguous */
} accel_tensor;
typedef struct accel_tensors {
  uint32_t n;
  accel_tensor *item;
} accel_tensors;
typedef accel_status (*accel_handler)(accel_endpoint *endpoint, const accel_tensors *inputs, accel_tensors **outputs);

/* Names, shapes and dtypes of transformers' forward: input_ids [B,S] int64 or int32, attention_mask [B,S] (one run of ones per row),
 * ...; every output that needs no asking for.  Rows whose mask is 0 are zeros in the outputs. */
ACCEL_API accel_status accel_run(accel_endpoint *endpoint, const accel_tensors *inputs, accel_tensors **outputs);
/* Only the named outputs ("last_hidden_state", "hidden_states.3", "logits"), in that order. */
ACCEL_API accel_status accel_run_named(accel_endpoint *endpoint, const accel_tensors *inputs, const char *const *names, uint32_t n, accel_tensors **outputs);
ACCEL_API void accel_tensors_free(accel_tensors **tensors);
ACCEL_API accel_handler accel_handler_of(const accel_endpoint *endpoint); /* accel_run */
/* A .safetensors file as named tensors, and back.  Reading: every tensor of the file, copied, in the order of the data; dtypes that accel_dtype
 * does not have and ranks above ACCEL_MAX_RANK are ACCEL_ERROR_UNSUPPORTED by name; free with accel_tensors_free.  Writing: to a temporary
 * name, then renamed. */
ACCEL_API accel_status accel_tensors_read(const char *path, accel_tensors **out);
ACCEL_API accel_status accel_tensors_write(const char *path, const accel_tensors *tensors);
ACCEL_API accel_status accel_endpoint_io(const accel_endpoint *endpoint, accel_strings **inputs, accel_strings **outputs);

/* Copies a tensor into the device's memory, and back (as a list of one).  These are the caller's to keep; a model's inputs and outputs are in
 * host memory, and its endpoint moves them. */
ACCEL_API accel_status accel_to_device(accel_device *device, const accel_tensor *tensor, accel_device_tensor **out);
ACCEL_API accel_status accel_to_host(const accel_device_tensor *tensor, accel_tensors **out);
ACCEL_API const accel_tensor *accel_device_tensor_view(const accel_device_tensor *tensor); /* name, dtype and dims; data is NULL */
ACCEL_API void accel_device_tensor_free(accel_device_tensor **tensor);
/* The device's stream, made at the first call; it ends with the device. */
ACCEL_API accel_status accel_get_device_stream(accel_device *device, accel_device_stream **out);
/* accel_to_device and accel_to_host beside the caller: the device tensor is made now, the bytes are copied later, in order.  tensor->data (to
 * the device) and `data` (to the host, `bytes` of it, all of the tensor) must live, and the tensors too, until accel_synchronize. */
ACCEL_API accel_status accel_stream_to_device(accel_device_stream *stream, const accel_tensor *tensor, accel_device_tensor **out);
ACCEL_API accel_status accel_stream_to_host(accel_device_stream *stream, accel_device_tensor *tensor, void *data, uint64_t bytes);

/* ---- queue ----------------------------------------------------------------------------------------------------------- */

typedef struct accel_queue accel_queue;
typedef struct accel_ticket accel_ticket;
ACCEL_API accel_queue *accel_queue_of(accel_endpoint *endpoint);
ACCEL_API uint32_t accel_queue_capacity(const accel_queue *queue);
ACCEL_API uint32_t accel_queue_waiting(const accel_queue *queue);
/* The inputs are copied.  A full queue answers ACCEL_ERROR_QUEUE_FULL at once.  Requests run in order on a thread of the queue. */
ACCEL_API accel_status accel_submit(accel_queue *queue, const accel_tensors *inputs, accel_ticket **out);
/* The texts are copied; the result is one tensor "embeddings" [n, dim], as accel_embed gives it. */
ACCEL_API accel_status accel_submit_texts(accel_queue *queue, const char *const *texts, uint32_t n, accel_ticket **out);
/* timeout_ms < 0: for ever.  ACCEL_ERROR_TIMEOUT leaves the ticket valid; any other answer frees it and sets it to NULL. */
ACCEL_API accel_status accel_wait(accel_ticket **ticket, int64_t timeout_ms, accel_tensors **outputs);

/* ---- text tasks ------------------------------------------------------------------------------------------------------ */

typedef struct accel_embed_params {
  uint32_t size;
  const char *pooling;     /* NULL: the model's (modules.json), none: per token.  "mean", "cls", "max", "mean_sqrt_len_tokens", "weightedmean", "lasttoken", "none" */
  int32_t normalize;       /* 1 yes, 0 no, -1 as the model */
  const char *prompt;      /* put before each text */
  const char *prompt_name; /* one of config_sentence_transformers.json */
} accel_embed_params;
typedef struct accel_embeddings {
  uint32_t n;              /* texts */
  uint32_t dim;
  uint32_t per_token;      /* 0: row i belongs to text i.  1: rows row_start[i] .. row_start[i+1]-1 */
  const uint64_t *row_start; /* [n+1] */
  const float *data;       /* [row_start[n], dim] */
  uint64_t tokens;         /* that went through the model */
  uint32_t truncated;      /* texts cut at max_length */
} accel_embeddings;
ACCEL_API accel_embed_params accel_embed_params_default(void);
ACCEL_API accel_status accel_embed(accel_endpoint *endpoint, const char *const *texts, uint32_t n, accel_embeddings **out);
ACCEL_API accel_status accel_embed_with(accel_endpoint *endpoint, const char *const *texts, uint32_t n, const accel_embed_params *params, accel_embeddings **out);
ACCEL_API void accel_embeddings_free(accel_embeddings **embeddings);
ACCEL_API double accel_cosine(const float *a, const float *b, size_t n); /* 0 when either is zero */

typedef struct accel_label_score {
  int64_t id;
  const char *label;
  double score;
} accel_label_score;
typedef struct accel_classify_params {
  uint32_t size;
  uint32_t top_k;             /* 0: all; default 1 */
  const char *function;       /* NULL: as transformers chooses; "softmax", "sigmoid", "none" */
} accel_classify_params;
typedef struct accel_classifications {
  uint32_t n;
  const uint32_t *count;                 /* [n] */
  const accel_label_score *const *score; /* [n][count[i]], best first */
} accel_classifications;
ACCEL_API accel_classify_params accel_classify_params_default(void);
/* pairs NULL, or n second texts (NULL entries allowed). */
ACCEL_API accel_status accel_classify(accel_endpoint *endpoint, const char *const *texts, const char *const *pairs, uint32_t n,
                                      const accel_classify_params *params, accel_classifications **out);
ACCEL_API void accel_classifications_free(accel_classifications **classifications);

typedef struct accel_rerank_params {
  uint32_t size;
  uint32_t top_k;          /* 0: all */
  const char *function;    /* NULL: as the model says, else sigmoid; "sigmoid", "none" */
  const char *instruction; /* language models: what makes a document relevant; NULL: as their card has it */
} accel_rerank_params;
typedef struct accel_ranked {
  uint32_t document; /* index */
  double score;
} accel_ranked;
typedef struct accel_ranking {
  uint32_t n;
  const accel_ranked *item; /* best first */
  uint32_t truncated;       /* documents that were cut */
} accel_ranking;
ACCEL_API accel_rerank_params accel_rerank_params_default(void);
/* How well each document answers the query: sentence-transformers' CrossEncoder.rank for models with a classification head of one
 * label; the probability of "yes" against "no" for language models of the Qwen3-Reranker kind, prompted as its card does. */
ACCEL_API accel_status accel_rerank(accel_endpoint *endpoint, const char *query, const char *const *documents, uint32_t n,
                                    const accel_rerank_params *params, accel_ranking **out);
ACCEL_API void accel_ranking_free(accel_ranking **ranking);

typedef struct accel_token_entity {
  const char *entity;  /* label, or entity group under an aggregation strategy */
  double score;
  const char *word;
  int64_t index;       /* of the token in the sequence; -1 for groups */
  int64_t start, end;  /* code points in the text */
} accel_token_entity;
typedef struct accel_tokens_params {
  uint32_t size;
  const char *aggregation;        /* "none", "simple", "first", "average", "max"; default "none" */
  const accel_strings *ignore_labels; /* NULL: {"O"} */
  uint32_t stride;                /* overlap of pieces of long texts, in tokens */
} accel_tokens_params;
typedef struct accel_token_entities {
  uint32_t n;
  const uint32_t *count;
  const accel_token_entity *const *entity;
} accel_token_entities;
ACCEL_API accel_tokens_params accel_tokens_params_default(void);
ACCEL_API accel_status accel_tokens(accel_endpoint *endpoint, const char *const *texts, uint32_t n, const accel_tokens_params *params, accel_token_entities **out);
ACCEL_API void accel_token_entities_free(accel_token_entities **entities);

typedef struct accel_qa_params { /* transformers' question-answering defaults */
  uint32_t size;
  uint32_t top_k, doc_stride, max_answer_len, max_seq_len, max_question_len; /* 1, 128 (capped at half the window), 15, 384, 64 */
  uint32_t handle_impossible_answer, align_to_words;                         /* 0, 1 */
} accel_qa_params;
typedef struct accel_answer {
  double score;
  int64_t start, end; /* code points in the context */
  const char *answer;
} accel_answer;
typedef struct accel_answers {
  uint32_t n;
  const uint32_t *count;
  const accel_answer *const *answer;
} accel_answers;
ACCEL_API accel_qa_params accel_qa_params_default(void);
ACCEL_API accel_status accel_qa(accel_endpoint *endpoint, const char *const *questions, const char *const *contexts, uint32_t n,
                                const accel_qa_params *params, accel_answers **out);
ACCEL_API void accel_answers_free(accel_answers **answers);

typedef struct accel_fill_params {
  uint32_t size;
  uint32_t top_k;              /* 5 */
  const accel_strings *targets; /* NULL: the whole vocabulary */
} accel_fill_params;
typedef struct accel_fill {
  double score;
  int64_t token;
  const char *token_str, *sequence;
} accel_fill;
typedef struct accel_fills {
  uint32_t n;                   /* masks in all texts, in order */
  const uint32_t *text;         /* [n] text the mask is in */
  const uint32_t *count;
  const accel_fill *const *fill;
} accel_fills;
ACCEL_API accel_fill_params accel_fill_params_default(void);
ACCEL_API accel_status accel_fill_mask(accel_endpoint *endpoint, const char *const *texts, uint32_t n, const accel_fill_params *params, accel_fills **out);
ACCEL_API void accel_fills_free(accel_fills **fills);

/* ---- chat templates -------------------------------------------------------------------------------------------------- */

/* The Jinja templates that say how a model's conversations are written down, rendered as transformers' apply_chat_template does. */
typedef struct accel_template accel_template;
typedef struct accel_template_params {
  uint32_t size;
  const char *name;      /* of one of several templates; NULL: "tool_use" when there are tools and such a template, else the default */
  const char *tools;     /* JSON array of function schemas, or NULL */
  const char *documents; /* JSON array of objects with title and text, or NULL */
  const char *variables; /* JSON object of more variables: {"enable_thinking": false}, or NULL */
  int32_t add_generation_prompt;  /* 1: end with the header of the assistant's next message */
  int32_t continue_final_message; /* 1: end inside the last message, for the model to go on with it; no generation prompt then */
} accel_template_params;
ACCEL_API accel_template_params accel_template_params_default(void); /* a generation prompt, nothing else */
/* A model directory or id (tokenizer_config.json, chat_template.jinja, ...), or a template file.  Templates are programs, but
 * can reach nothing outside the messages; one that does not end is an error.  ERROR_NOT_FOUND: the model has none. */
ACCEL_API accel_status accel_template_open(accel *ctx, const char *path_or_model, accel_template **out);
ACCEL_API void accel_template_close(accel_template **chat);
/* `messages`: JSON array of {"role": ..., "content": ...}.  *text is freed with accel_string_free; tokenize it without special
 * tokens, the template wrote them.  ERROR_ARGUMENT: no such messages, or the template refuses them, with its words. */
ACCEL_API accel_status accel_template_render(accel_template *chat, const char *messages, const accel_template_params *params, char **text);

/* ---- pictures and sounds --------------------------------------------------------------------------------------------- */

/* A picture (JPEG, PNG, WebP) or a sound (WAV; FLAC, Ogg, MP3, AIFF when libsndfile is there). */
typedef struct accel_media {
  const char *name; /* path of the file, or what messages call the bytes */
  const void *data; /* NULL: the file `name` is read; else its bytes */
  size_t n;         /* bytes of data */
} accel_media;
typedef struct accel_preprocess_params {
  uint32_t size;
  const accel_media *images, *sounds;
  uint32_t n_images, n_sounds;
  int32_t pillow; /* 1: pictures are resized as Pillow rounds; 0: as torchvision does, which transformers 5 prefers */
  uint64_t seed;  /* where CLAP's extractor cuts sounds that are too long */
} accel_preprocess_params;
ACCEL_API accel_preprocess_params accel_preprocess_params_default(void);
/* What the model would be given for these pictures or sounds: pixel_values, pixel_mask, image_sizes, input_features,
 * input_values, attention_mask, is_longer, as the processor of its directory (preprocessor_config.json) makes them.  Sounds
 * are brought to the model's sampling rate. */
ACCEL_API accel_status accel_preprocess(accel *ctx, const char *model, const accel_preprocess_params *params, accel_tensors **out);

/* Pipelines image-classification and audio-classification: result i belongs to item i. */
ACCEL_API accel_status accel_classify_images(accel_endpoint *endpoint, const accel_media *images, uint32_t n,
                                             const accel_classify_params *params, accel_classifications **out);
ACCEL_API accel_status accel_classify_sounds(accel_endpoint *endpoint, const accel_media *sounds, uint32_t n,
                                             const accel_classify_params *params, accel_classifications **out);
/* Pipeline zero-shot-image-classification: every label's score, best first; id counts the labels given.  hypothesis: the sentence
 * that "{}" in it makes of a label; NULL: "This is a photo of {}." */
ACCEL_API accel_status accel_zero_shot_image(accel_endpoint *endpoint, const accel_media *images, uint32_t n, const char *const *labels,
                                             uint32_t n_labels, const char *hypothesis, accel_classifications **out);

typedef struct accel_transcribe_params {
  uint32_t size;
  const char *timestamps; /* NULL: none; chunks with their times: "char" (CTC), "word", "segment" (Whisper), "auto" (CTC: words, Whisper: segments) */
  double chunk_length;    /* seconds of the overlapping windows that sounds are cut into; 0: sounds stay whole, and Whisper goes through long ones */
  double stride_left, stride_right; /* from end of segment to end of segment.  Overlaps of windows; NAN: a sixth of chunk_length */
  /* Whisper, as its generate takes them; what is not set is as generation_config.json says */
  const char *language;      /* code or English name; NULL: detected */
  const char *task;          /* "transcribe" or "translate" */
  const char *prompt;        /* text of the kind that is expected: names, spelling */
  int32_t prompt_all_segments; /* 1: in front of every segment (with condition_on_previous), not of the first alone */
  int32_t condition_on_previous; /* 1: each segment is told what was said before; -1 not set */
  const double *temperature; /* [n_temperature] tried in turn while a segment looks bad; none: 0, which is greedy (or beams) */
  uint32_t n_temperature;
  double compression_ratio_threshold; /* NAN not set.  Above it a segment looks bad, */
  double logprob_threshold;           /* below it, too; */
  double no_speech_threshold;         /* above this and below logprob_threshold it is silence, and left out */
  /* NULL, or limits, beams and seed of the generation; `told` hears each token without text, its prompt is the number of the sound; those
   * of attempts that are given up, too */
  const struct accel_generate_params *generate;
} accel_transcribe_params;
typedef struct accel_chunk {
  const char *text;
  double start, end; /* seconds; NAN: no timestamp tells */
} accel_chunk;
/* What Whisper said in one go, between two timestamps. */
typedef struct accel_speech_segment {
  double start, end; /* seconds of the sound */
  const char *text;
  uint32_t n;
  const int32_t *ids;           /* [n] timestamps included */
  double temperature;           /* it was generated at */
  double logprob, compression_ratio, no_speech; /* mean log probability ...; NAN: no threshold asked for it */
  uint32_t n_words;             /* with timestamps "word" */
  const accel_chunk *words;     /* [n_words] */
} accel_speech_segment;
typedef struct accel_transcripts {
  uint32_t n;                       /* sounds */
  const char *const *text;          /* [n] */
  const uint32_t *count;            /* [n] */
  const accel_chunk *const *chunk;  /* [n][count[i]] as the pipeline gives them: segments or words */
  /* of Whisper; [n], and NULL or 0 for others */
  const char *const *language;      /* code; NULL: the model knows one only */
  const uint32_t *segments;
  const accel_speech_segment *const *segment; /* [n][segments[i]]; none of sounds cut into windows */
  const uint32_t *n_ids;
  const int32_t *const *ids;        /* [n][n_ids[i]] what generate returns: no first tokens, no end of text */
  const double *seconds;            /* [n] of the sounds themselves; of every model */
} accel_transcripts;
ACCEL_API accel_transcribe_params accel_transcribe_params_default(void);
/* Words of Whisper are found by its cross attention (generation_config.json must have alignment_heads, or they are ERROR_UNSUPPORTED); in
 * Chinese, Japanese, Thai, Lao, Burmese and Cantonese they are single characters. */
/* Pipeline automatic-speech-recognition: Whisper, and models with a CTC head (Wav2Vec2, HuBERT: the best label of each frame).  Sounds may
 * be of any length; a result does not depend on the other sounds of the call. */
ACCEL_API accel_status accel_transcribe(accel_endpoint *endpoint, const accel_media *sounds, uint32_t n, const accel_transcribe_params *params,
                                        accel_transcripts **out);
ACCEL_API void accel_transcripts_free(accel_transcripts **transcripts);

typedef struct accel_detection {
  double score;
  int64_t id;
  const char *label;
  float xmin, ymin, xmax, ymax; /* pixels of the picture as it was given (upright) */
} accel_detection;
typedef struct accel_detect_params {
  uint32_t size;
  double threshold; /* scores above it count; default 0.5 */
} accel_detect_params;
typedef struct accel_detections {
  uint32_t n;                          /* pictures */
  const uint32_t *count;               /* [n] */
  const accel_detection *const *object; /* [n][count[i]], in the order of the model's queries */
  const int32_t *height, *width;       /* [n] of the pictures as given */
} accel_detections;
ACCEL_API accel_detect_params accel_detect_params_default(void);
/* Pipeline object-detection. */
ACCEL_API accel_status accel_detect_objects(accel_endpoint *endpoint, const accel_media *images, uint32_t n, const accel_detect_params *params,
                                            accel_detections **out);
ACCEL_API void accel_detections_free(accel_detections **detections);
/* The picture, upright, with objects[n] of it (one line of a result) framed and named, as a PNG file at `path`. */
ACCEL_API accel_status accel_draw_objects(const accel_media *image, const accel_detection *objects, uint32_t n, const char *path);

typedef struct accel_segment {
  int64_t id;       /* in the map; semantic: the class */
  int64_t label_id; /* the class */
  const char *label;
  double score;    /* NaN: there is none (semantic) */
  uint64_t pixels; /* of the picture that belong to it */
  double area;     /* the same as a share of the picture, 0 to 1 */
} accel_segment;
typedef struct accel_segmentations {
  uint32_t n;                          /* pictures */
  const uint32_t *count;               /* [n] */
  const accel_segment *const *segment; /* [n][count[i]], by id */
  const int32_t *height, *width;       /* [n] of the pictures as given (upright) */
  const int32_t *const *map;           /* [n][height[i], width[i]] id of each pixel; of no segment (panoptic, instance): 0, and -1 where there is none at all */
} accel_segmentations;
typedef struct accel_segment_params {
  uint32_t size;
  const char *subtask;      /* "panoptic" and "instance": segments of objects, numbered from 1; "semantic": of classes.  NULL: the first the model can do */
  double threshold;         /* panoptic, instance: objects with a score above it count; default 0.9 */
  double mask_threshold;    /* where mask times score is at least this, a pixel belongs to an object by itself; default 0.5 */
  double overlap_threshold; /* an object counts when more than this share of those pixels is left to it by others; default 0.5 */
} accel_segment_params;
ACCEL_API accel_segment_params accel_segment_params_default(void);
/* Pipeline image-segmentation: models that give every pixel a class (SegFormer; semantic), or objects masks (DETR; all three). */
ACCEL_API accel_status accel_segment_images(accel_endpoint *endpoint, const accel_media *images, uint32_t n, const accel_segment_params *params,
                                            accel_segmentations **out);
ACCEL_API void accel_segmentations_free(accel_segmentations **segmentations);
/* Picture `index` of a result as a PNG file at `path`: its segments' colours over the picture, with a legend; image NULL: the colours alone, on black. */
ACCEL_API accel_status accel_draw_segments(const accel_media *image, const accel_segmentations *found, uint32_t index, const char *path);

/* ---- text generation ------------------------------------------------------------------------------------------------- */

typedef struct accel_token_logprob {
  int32_t id;    /* -1: there are fewer tokens than were asked for */
  float logprob; /* natural logarithm */
} accel_token_logprob;

/* One token, told as soon as it is chosen.  The texts of a sequence's events, put together, are its accel_generation.text. */
typedef struct accel_token_event {
  uint32_t size;
  uint32_t prompt, sequence; /* which prompt, and which of its sequences */
  int32_t id;
  const char *text;          /* what can be told since the last event: whole code points, nothing that may become a stop string; often "" */
  float logprob;             /* when params.logprobs asks for them */
  const char *finish;        /* NULL: more will come.  Else as in accel_generation, and this was the sequence's last event */
} accel_token_event;
/* Called from the thread that generates (of requests in a queue: the queue's).  Nonzero ends this sequence ("cancelled"). */
typedef int (*accel_token_fn)(void *user, const accel_token_event *event);

/* What is not set here is as the model's generation_config.json says (or, without that file, config.json), and where that says nothing,
 * as transformers does: greedy, one sequence.  `config` reaches every field of transformers' GenerationConfig. */
typedef struct accel_generate_params {
  uint32_t size;
  int32_t max_new_tokens, min_new_tokens; /* -1: the model's, and where it has none 256 or what the context leaves */
  int32_t do_sample;          /* 1, 0; -1: yes when temperature, top_k, top_p, min_p or typical_p is set below, else as the model says */
  double temperature;         /* NaN, here and below: not set.  0: greedy */
  double top_p, min_p, typical_p;
  int32_t top_k;              /* -1 not set; 0: off */
  double repetition_penalty;  /* 1: none.  Of tokens of the prompt, too */
  double presence_penalty, frequency_penalty; /* 0: none.  Subtracted once, or for each time, from generated tokens */
  int32_t no_repeat_ngram_size; /* -1 not set */
  uint32_t num_beams, num_return_sequences; /* 0 not set */
  uint64_t seed;              /* same seed, same tokens: on one device and precision, whatever else runs */
  const accel_strings *stop;  /* texts that end a sequence; they are cut off unless keep_stop */
  const char *config;         /* JSON object with fields of GenerationConfig: {"bad_words_ids": [[5]], "length_penalty": 2.0} */
  int32_t logprobs;           /* -1: none; 0: of the chosen tokens; n: of the n likeliest, too.  Before penalties and temperature */
  uint32_t ignore_eos;        /* 1: the end-of-sequence token is one like the others (benchmarks) */
  uint32_t keep_stop, keep_special; /* 1: stop strings, special tokens stay in the texts */
  uint32_t no_special;        /* 1: the tokenizer adds no special tokens to the prompt, such as <s> */
  accel_token_fn on_token;        /* NULL: only the result.  Beam search tells nothing before its end */
  void *on_token_user;
  uint32_t keep_going;        /* 1: a prompt that fails (too long, no room for its cache) leaves the others be: it has one accel_generation,
                                 with `status` and `error` */
} accel_generate_params;

typedef struct accel_generation {
  uint32_t prompt, sequence;  /* which prompt, and which of its sequences (of beams: best first) */
  const char *text;           /* of the generated tokens; "" without a tokenizer */
  uint32_t n;
  const int32_t *ids;         /* [n] generated tokens, the end-of-sequence token included */
  const char *finish;         /* "eos", "stop", "length", "time", "cancelled"; "error" */
  double score;               /* beam search: as transformers' sequences_scores; else 0 */
  const float *logprob;       /* [n] when asked for, else NULL */
  uint32_t alternatives;
  const accel_token_logprob *alternative; /* [n][alternatives], best first */
  uint32_t prompt_tokens;     /* of the decoder's prompt */
  double first_ms;            /* from the call to the first token; with the prompt's prefill */
  const double *token_ms;     /* [n] from the call to each token; NULL for beams */
  accel_status status;        /* with keep_going: why there are no tokens */
  const char *error;          /* and the message; NULL: it did not fail */
} accel_generation;
typedef struct accel_generations {
  uint32_t n;
  const accel_generation *item; /* prompt by prompt */
  uint64_t prompt_tokens, new_tokens;
  double prefill_ms, decode_ms; /* until every prompt had its first token; from then on */
  uint32_t steps;               /* runs of the model */
} accel_generations;

ACCEL_API accel_generate_params accel_generate_params_default(void);
/* Goes on with each of texts[n] (of encoder-decoders: answers it).  All prompts run together, without padding.  ACCEL_ERROR_LIMIT when a
 * prompt and the tokens asked for pass the model's context: told before anything runs, and of that prompt alone with keep_going. */
ACCEL_API accel_status accel_generate(accel_endpoint *endpoint, const char *const *texts, uint32_t n, const accel_generate_params *params,
                                      accel_generations **out);
/* The same from token ids: ids[i] has count[i], at least one; nothing is added to them. */
ACCEL_API accel_status accel_generate_ids(accel_endpoint *endpoint, const int32_t *const *ids, const uint32_t *count, uint32_t n,
                                          const accel_generate_params *params, accel_generations **out);
ACCEL_API void accel_generations_free(accel_generations **generations);

/* What the text of a prompt about pictures is.  Models that hold no conversations (BLIP) take a question as a text. */
typedef enum accel_prompt_kind {
  ACCEL_PROMPT_TEXT = 0,     /* as the model reads it, with one image token ("<image>") for each picture where its text shows pictures (LLaVA, Qwen2-VL) */
  ACCEL_PROMPT_QUESTION = 1, /* what a user says about the pictures: the model's chat template writes it down, the pictures in front */
  ACCEL_PROMPT_MESSAGES = 2  /* JSON array of messages, whose content parts {"type": "image"} are the pictures in order */
} accel_prompt_kind;
typedef struct accel_image_prompt {
  accel_prompt_kind kind;
  const char *text;          /* NULL: none (captions); as a question, of models that talk: "Describe the picture." */
  const accel_media *images; /* [n_images]; BLIP: one */
  uint32_t n_images;
} accel_image_prompt;
/* Captions and answers: BLIP (BlipForConditionalGeneration, whose text begins the caption; BlipForQuestionAnswering), LLaVA, LLaVA-Next, Qwen2-VL, Qwen2.5-VL.  The
 * pictures go through the processor of the model's directory; each takes the places in the text that transformers' processor gives it.
 * ACCEL_ERROR_ARGUMENT when image tokens and pictures are not as many.  Results are those of accel_generate;
 * a caption's text has the words it was begun with. */
ACCEL_API accel_status accel_generate_images(accel_endpoint *endpoint, const accel_image_prompt *prompts, uint32_t n, const accel_generate_params *params,
                                             accel_generations **out);
/* Through the endpoint's queue: requests that are there at the same time run together, joining and leaving between two tokens (continuous
 * batching); each gives what it would give alone, and one that fails fails alone.  Everything given is copied; `told` is called from the
 * queue's thread.  A full queue answers ACCEL_ERROR_QUEUE_FULL at once.  text NULL: ids[n]. */
ACCEL_API accel_status accel_submit_generate(accel_queue *queue, const char *text, const int32_t *ids, uint32_t n, const accel_generate_params *params,
                                             accel_ticket **out);
/* As accel_wait, for tickets of accel_submit_generate. */
ACCEL_API accel_status accel_wait_generations(accel_ticket **ticket, int64_t timeout_ms, accel_generations **out);

/* ---- translation, summaries: encoder-decoders ------------------------------------------------------------------------ */

/* What transformers' pipelines "translation", "summarization" and "text2text-generation" do.  What a task asks for - a prefix of the
 * input, settings of the generation - is read from task_specific_params of config.json, then from the model's generation_config.json; where
 * neither says how, four beams and at most 256 tokens. */
typedef struct accel_text2text_params {
  uint32_t size;
  const char *task;     /* "translation", "summarization", "text2text-generation" (NULL), or another name in task_specific_params.  The
                         * languages of "translation_en_to_de" are used where the model has use for them; those below have to be known */
  const char *source, *target; /* languages of a translation, in the model's own spelling: "en_XX" or "en" (mBART), "eng_Latn" (NLLB), "en"
                                * (M2M100, T5, Marian's ">>en<<").  NULL: as the model is set up */
  uint32_t truncate;     /* 1: texts are cut at the tokenizer's model_max_length; 0: only at what the model can take */
  const accel_generate_params *generate; /* NULL: nothing is asked */
} accel_text2text_params;
ACCEL_API accel_text2text_params accel_text2text_params_default(void);
/* ACCEL_ERROR_ARGUMENT names the languages that the model knows, when one that it does not is asked for. */
ACCEL_API accel_status accel_text2text(accel_endpoint *endpoint, const char *const *texts, uint32_t n, const accel_text2text_params *params,
                                       accel_generations **out);
ACCEL_API accel_status accel_translate(accel_endpoint *endpoint, const char *const *texts, uint32_t n, const char *source, const char *target,
                                       const accel_generate_params *params, accel_generations **out);
ACCEL_API accel_status accel_summarize(accel_endpoint *endpoint, const char *const *texts, uint32_t n, const accel_generate_params *params,
                                       accel_generations **out);

/* ---- sessions -------------------------------------------------------------------------------------------------------- */

/* Tokens that a decoder has read, kept on the device (KV cache, states), so that going on costs what is new alone.  One call at a time
 * on each session (a second one waits); forks may be used at once.  Sessions are closed before their endpoint is cleaned up; while one is
 * open, precision "auto" does not change.  A failed call leaves the tokens as they were. */
typedef struct accel_session accel_session;
ACCEL_API accel_status accel_session_open(accel_endpoint *endpoint, accel_session **out);
ACCEL_API void accel_session_close(accel_session **session);
/* ACCEL_ERROR_LIMIT, before anything is read, when the model's context would be passed. */
ACCEL_API accel_status accel_session_feed(accel_session *session, const char *text, int add_special_tokens);
ACCEL_API accel_status accel_session_feed_ids(accel_session *session, const int32_t *ids, uint32_t n);
/* Goes on from what was fed; the tokens generated become part of the session.  One sequence: beams and several samples are for
 * accel_generate, or for forks. */
ACCEL_API accel_status accel_session_generate(accel_session *session, const accel_generate_params *params, accel_generations **out);
ACCEL_API uint32_t accel_session_length(const accel_session *session); /* tokens, fed and generated */
ACCEL_API const int32_t *accel_session_ids(const accel_session *session); /* [length]; until the session's next call */
ACCEL_API accel_status accel_session_truncate(accel_session *session, uint32_t tokens); /* keeps the first so many; 0: begins anew */
/* A session of its own with the same tokens; memory is shared until one of them goes on. */
ACCEL_API accel_status accel_session_fork(accel_session *session, accel_session **out);
/* To a file and back; bound to model, precision, device kind and build: another's is ACCEL_ERROR_ARGUMENT, a damaged one ACCEL_ERROR_FORMAT. */
ACCEL_API accel_status accel_session_save(accel_session *session, const char *path);
ACCEL_API accel_status accel_session_load(accel_endpoint *endpoint, const char *path, accel_session **out);

/* ---- conversations --------------------------------------------------------------------------------------------------- */

/* A chat model's messages, its chat template and a session in one: each answer costs what is new since the last one.  One call at a time
 * on each chat (a second one waits).  Closed before its endpoint is cleaned up. */
typedef struct accel_chat accel_chat;
typedef struct accel_chat_params {
  uint32_t size;
  const char *system;        /* content of a system message in front; NULL: none */
  const char *messages;      /* JSON array: what was said before; NULL: nothing */
  const char *template_name; /* this and what follows: as in accel_template_params */
  const char *tools, *documents, *variables;
} accel_chat_params;
ACCEL_API accel_chat_params accel_chat_params_default(void);
/* ACCEL_ERROR_NOT_FOUND: the model has no chat template. */
ACCEL_API accel_status accel_chat_open(accel_endpoint *endpoint, const accel_chat_params *params, accel_chat **out);
ACCEL_API void accel_chat_close(accel_chat **chat);
/* Adds a user's message, generates the answer and adds that.  An answer ended by `told` stays as far as it came; if it had no text yet, the
 * question is taken back, too.  A failed call (the context's `cancel` included) leaves the messages as they were.  max_new_tokens is
 * lowered to what the context has room for; ACCEL_ERROR_LIMIT when it has none. */
ACCEL_API accel_status accel_chat_say(accel_chat *chat, const char *text, const accel_generate_params *params, accel_generations **out);
/* Answers the messages as they are, such as results of tools that accel_chat_set_messages added. */
ACCEL_API accel_status accel_chat_answer(accel_chat *chat, const accel_generate_params *params, accel_generations **out);
/* All messages, a JSON array; free with accel_string_free. */
ACCEL_API accel_status accel_chat_messages(accel_chat *chat, char **json);
/* Other messages; NULL: none.  What they have in common with the old ones is not read again. */
ACCEL_API accel_status accel_chat_set_messages(accel_chat *chat, const char *json);
ACCEL_API uint32_t accel_chat_length(const accel_chat *chat); /* tokens of the last prompt and its answer */
ACCEL_API uint32_t accel_chat_reused(const accel_chat *chat); /* those of the last prompt that were there already */

/* ---- tokenizer ------------------------------------------------------------------------------------------------------- */

typedef struct accel_tokenizer accel_tokenizer;
/* A tokenizer.json, a model directory or id. */
ACCEL_API accel_status accel_tokenizer_open(accel *ctx, const char *path_or_model, accel_tokenizer **out);
ACCEL_API void accel_tokenizer_close(accel_tokenizer **tokenizer);
typedef struct accel_token_ids {
  uint32_t n;
  const uint32_t *count;
  const int32_t *const *ids;
  const char *const *const *tokens;            /* [n][count[i]] */
  const int64_t *const *start, *const *end;    /* code points in the text; 0,0 for specials */
} accel_token_ids;
ACCEL_API accel_status accel_tokenize(accel_tokenizer *tokenizer, const char *const *texts, uint32_t n, int add_special_tokens, accel_token_ids **out);
ACCEL_API void accel_token_ids_free(accel_token_ids **ids);
ACCEL_API accel_status accel_detokenize(accel_tokenizer *tokenizer, const int32_t *ids, uint32_t n, int skip_special_tokens, char **text);

/* ---- profile --------------------------------------------------------------------------------------------------------- */

/* One step of a run: an op of the program, or several that the device does as one. */
typedef struct accel_profile_step {
  uint32_t size;
  uint32_t index;          /* of the node in the program; of the first, where several are joined */
  const char *node, *op;   /* "encoder.layer.3.attention.self", "ATTENTION"; live as long as the endpoint */
  const char *entry;       /* of the program: "forward", "embed" */
  uint32_t stage, joined;  /* layer number; nodes done as one: 1 or more */
  double begin_us, end_us; /* microseconds; only differences mean anything */
  double flop, bytes;      /* by the op's definition: additions and multiplications; weights, operands and results once each */
  int32_t device_clock;    /* 1: times are the device's own; 0: the host's, which on a device without timestamps only queues the work */
  int32_t reserved;
  double limit_us;         /* what its instructions take at least, measured with operands in the caches; 0: not known (all but decoding's
                              linears and attention on a CPU) */
} accel_profile_step;
typedef void (*accel_profile_fn)(void *user, const accel_profile_step *step);
/* From the next run on every step is told to `fn`, in order, from the thread that makes the run (from several threads, if several run
 * at once); NULL: off, and then nothing is measured.  Not to be called while the endpoint runs. */
ACCEL_API accel_status accel_set_profile(accel_endpoint *endpoint, accel_profile_fn fn, void *user);

/* ---- memory ---------------------------------------------------------------------------------------------------------- */

typedef struct accel_fit_params {
  uint32_t size;
  const char *device;    /* as accel_init takes it; NULL: every device that can be chosen here */
  const char *precision; /* NULL: all eight */
  /* Sequences, and tokens of each; 0: 1, and 128 or the model's limit where that is less.  Of a model that takes no text: pictures or
   * sounds, and the side in pixels or the samples of each; 0: 1, and what the model's config says. */
  uint32_t batch, seq;
  const char *architecture, *task; /* as accel_init takes them */
  uint32_t new_tokens;             /* generated after each sequence */
} accel_fit_params;
/* One device at one precision; all sizes in bytes, as the device's own planner counts them. */
typedef struct accel_fit_record {
  const char *device, *precision;
  int32_t answer;           /* 1 fits, 0 does not, -1 cannot run there at all (why) */
  const char *why, *advice; /* "" when there is nothing to say */
  uint64_t weights;         /* as they are kept */
  uint64_t weights_in_file; /* part of them that is read from the checkpoint's file in place: memory only while touched */
  uint64_t state_per_token; /* KV cache */
  uint64_t state;           /* of batch x (seq + new_tokens) tokens, and what does not depend on tokens */
  uint64_t scratch;         /* activations of one run */
  uint64_t total;           /* while running, without the untouched part of weights_in_file; on a CPU with the tokenizer */
  uint64_t peak;            /* the larger of total and what loading takes */
  uint64_t memory, available; /* of the device; what a model may take of it now.  0: not known */
  uint64_t tokenizer; /* vocabulary, merges and the like, which are in the process's memory; 0: there is none, or the device is no CPU */
  uint64_t resident;  /* on a CPU: memory of the whole process while the model runs, `process` of the report and total; else 0 */
} accel_fit_record;
typedef struct accel_fit_report {
  const char *model, *architecture;
  uint32_t batch, seq;
  uint64_t parameters;
  uint32_t n;
  const accel_fit_record *record; /* device by device */
  const char *unit;               /* of seq: "tokens", "pixels a side", "samples" */
  uint64_t process; /* what this process had in memory when it was asked, the model's graph included and its tokenizer not: code,
                       libraries, all that the application has.  0: not known */
} accel_fit_report;
ACCEL_API accel_fit_params accel_fit_params_default(void);
/* A dry run: nothing is loaded.  A model without local files is taken at the registry's shape.  Of a model that generates a generation is
 * planned (prompts of seq tokens, in pieces of 2048 rows); accel_run, whose scores are of all tokens, takes more. */
ACCEL_API accel_status accel_fit(accel *ctx, const char *model, const accel_fit_params *params, accel_fit_report **out);
ACCEL_API void accel_fit_report_free(accel_fit_report **report);

/* The cache of packed weights, which spares conversion and packing at the next load.  Pruned by last use; safe to delete at any time. */
typedef struct accel_cache_entry {
  const char *file;  /* in the directory */
  const char *label; /* what it belongs to: "org/name, int8, for cpu (avx512)"; "" for damaged entries and leftovers */
  uint64_t bytes;
  int64_t used;      /* last use, seconds since 1970 */
} accel_cache_entry;
typedef struct accel_cache_list {
  const char *directory; /* "" when there is no place for a cache */
  uint64_t bytes, limit; /* of all entries; what they may take */
  uint32_t n;
  const accel_cache_entry *entry; /* latest use first */
} accel_cache_list;
ACCEL_API accel_status accel_cache_ls(accel *ctx, accel_cache_list **out);
ACCEL_API void accel_cache_list_free(accel_cache_list **list);
/* Removes damaged entries, then those used longest ago until at most `keep` bytes are left.  removed, bytes may be NULL. */
ACCEL_API accel_status accel_cache_prune(accel *ctx, uint64_t keep, uint32_t *removed, uint64_t *bytes);

/* ---- verification ---------------------------------------------------------------------------------------------------- */

typedef struct accel_verify_output {
  const char *name;
  double max_abs, max_rel, cosine, bound;
  uint64_t compared;
  int32_t passed;
  const char *note;
} accel_verify_output;
typedef struct accel_verify_report {
  int32_t passed;
  const char *architecture, *device, *precision, *golden;
  uint32_t n;
  const accel_verify_output *output;
} accel_verify_report;
/* Runs the golden file's inputs and compares its outputs (format and bounds: docs/verify.md).  The report comes with ACCEL_OK and with
 * ACCEL_ERROR_VERIFY.  how->architecture and the like are as for accel_init. */
ACCEL_API accel_status accel_verify(accel *ctx, const char *model, const accel_init_params *how, const char *golden, accel_verify_report **out);
ACCEL_API void accel_verify_report_free(accel_verify_report **report);

/* ---- looking inside -------------------------------------------------------------------------------------------------- */

/* format: "text" or "dot" (Graphviz). */
ACCEL_API accel_status accel_program_dump(accel_endpoint *endpoint, const char *format, char **out);
/* The model classes that can be run: "BertModel", "BertForMaskedLM" ...  Free with accel_strings_free. */
ACCEL_API accel_status accel_architectures(accel_strings **out);
/* Where a model id resolves to on this machine; ACCEL_ERROR_NOT_FOUND with the exact download line as remedy. */
ACCEL_API accel_status accel_find_model(accel *ctx, const char *model, char **directory);
/* The support table: what `supports` of every device here answers for a model, per precision, beside what the registry lists.
 * {"schema":"accel.matrix/1",...}.  model NULL: all listed models. */
ACCEL_API accel_status accel_matrix_json(accel *ctx, const char *model, char **json);

#ifdef __cplusplus
}
#endif
#endif
