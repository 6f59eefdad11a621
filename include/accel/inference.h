/**
 * @file inference.h
 * A loaded model: placing it on a device, running it on tensors, its queue, its profile, and proof
 * that its numbers are right.
 *
 * Include accel/accel.h, which includes this file.  The headers text_tasks.h, media_tasks.h,
 * generate.h and chat.h are what can be done with an endpoint beyond raw tensors.
 */
#ifndef ACCEL_INFERENCE_H
#define ACCEL_INFERENCE_H

#include "accel/base.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---- endpoints ----------------------------------------------------------------------------- */

/** A model on a device, ready to run.  May be used from many threads at once; created and cleaned
 *  up by one, while nobody else uses it. */
typedef struct accel_endpoint accel_endpoint;

/** A device at a precision that "auto" could have taken. */
typedef struct accel_placement_candidate {
  /** The device, "rocm:0". */
  const char *device;
  /** The precision, "fp16". */
  const char *precision;
  /** Where its figure is from: "rows" (measured on this machine), "prediction", or "": there is
   *  none. */
  const char *source;
  /** Why it was not taken; "" of the one that was. */
  const char *reason;
  /** The figure in the unit of the metric: milliseconds, items a second, bytes, joules; NaN: there
   *  is none. */
  double value;
  /** The interval of the figure: of rows the spread of what was measured, of predictions where nine
   *  of ten lie; NaN: there is none. */
  double low;
  double high; /**< its upper end */
  /** The least cosine that its goldens gave here; NaN: not known. */
  double cosine;
} accel_placement_candidate;

/**
 * Tells what is known of the candidates of a model, where a file would be out of date:
 * accel_init_params.candidates_fn.  Called by accel_init() on its thread, at most once, where "auto"
 * has more than one candidate; it may call the library, with the same context, too.
 *
 * @param user accel_init_params.candidates_user.
 * @param candidate [n] device and precision of each in the order of the ladder; valid during the
 *                  call.
 * @return the text of a file of candidates, which the library gives to free(); NULL: nothing is
 *         known.
 */
typedef char *(*accel_candidates_fn)(void *user, const accel_placement_candidate *candidate,
                                     uint32_t n);

/** accel_init_params.prefix_cache_bytes of accel_init_params_default(): 512 MiB. */
#define ACCEL_PREFIX_CACHE_BYTES (UINT64_C(512) << 20)
/** A LoRA adapter, as PEFT's save_pretrained() writes it (docs/adapters.md). */
typedef struct accel_adapter_spec {
  /** A directory with adapter_config.json and adapter_model.safetensors, or `org/name[@revision]`
   *  where models are found, too; of pipelines that make pictures a file *.safetensors in the names
   *  of diffusers, PEFT or kohya's scripts (docs/images.md). */
  const char *path;
  /** What the adapter's own scaling (alpha by rank) is multiplied by; 1: as it was trained. */
  double scale;
} accel_adapter_spec;

/** How accel_init() loads a model; accel_init_params_default() fills it. */
typedef struct accel_init_params {
  /** sizeof(accel_init_params). */
  uint32_t size;
  /** Where to run: "cpu" (default), "rocm:0", "cuda", "gpu:1", "auto" (the best device here), "all"
   *  or "all:cuda:0+cuda:1" (the whole model on each, work goes where it is done first;
   *  docs/scale.md), or a chain "rocm:0,cpu" that is tried in order (docs/detect.md has all forms).  Members of a chain
   *  may be several devices over which one model is placed: "vulkan:0+cpu", shared by the planner,
   *  or "rocm:0=0-19+rocm:1=20-39", by layers counted from 0; embeddings go with the first, the
   *  head with the last (docs/placement.md).  A name is a demand: no other device is taken in its
   *  place. */
  const char *device;
  /** "fp32" "fp16" "bf16" "int8" "int4" "uint4" "fp8" "fp4", or an alias: a demand.  "auto": the
   *  fastest that is right on the device, a quantised checkpoint's own first; results that are not
   *  finite make it go on at fp32, but fail with ACCEL_ERROR_NONFINITE while a session is open.
   *  NULL: fp32, or a quantised checkpoint's own precision. */
  const char *precision;
  /** The pipeline of transformers, "feature-extraction", "text-classification" ...  NULL: what the
   *  model's class is for. */
  const char *task;
  /** Texts that a task puts into one run; 0: as many as fit about 2048 tokens, fewer where outputs
   *  are wide. */
  uint32_t batch_size;
  /** Tokens at which texts are cut; 0: the model's own limit (sentence-transformers:
   *  max_seq_length). */
  uint32_t max_length;
  /** Requests that may wait in the endpoint's queue; 0: 32. */
  uint32_t queue_capacity;
  /** 1: no weights are read; the model's true shape with seeded random values, for tests and
   *  benchmarks.  accel_placement() says so. */
  uint32_t random_weights;
  /** Seed of the random weights. */
  uint64_t seed;
  /** Class to build, "BertForMaskedLM"; NULL: architectures[0] of config.json. */
  const char *architecture;
  /** What sessions keep keys and values as: "fp32", "fp16", "bf16", "int8" (one scale for each head
   *  and token); NULL: as the precision says. */
  const char *kv_cache;
  /** Precisions by kind of layer, in the place of `precision`: a file that `accel tune` wrote, or
   *  the text of one, which begins with '{' (docs/tuning.md).  It is for one checkpoint and one kind
   *  of device, which it names; with device NULL or "" that device is taken.  NULL: none. */
  const char *precision_profile;
  /** What "auto" is to be best at: "latency" (the least time of a run; NULL and "" mean it, too),
   *  "throughput" (the most items a second), "memory" (the least memory) or "energy" (the least
   *  energy of a run).  Anything else is ACCEL_ERROR_ARGUMENT.  Without figures of this machine
   *  (`candidates`) it changes nothing. */
  const char *metric;
  /** With precision "auto": the accuracy bound, from 0 to 1.  A precision below the checkpoint's own
   *  is taken only where goldens passed on this machine, device, driver and build with at least this
   *  cosine (`accel verify --all`); where that is not known it is not taken.  0: no bound, and
   *  "auto" takes precisions of the device's ladder alone. */
  double min_cosine;
  /** What is known of the places where this model could run: a file that `accel choose` wrote, or
   *  the text of one, which begins with '{' (docs/placement.md).  NULL: what `accel choose --store`
   *  left in the cache's directory for the model, if anything.  "": nothing, as before there were
   *  such files.  It is read where "auto" has something to choose, and never makes a load fail: one
   *  that is damaged, or of another model, build, device, driver or number of threads is left out,
   *  and accel_placement() says so. */
  const char *candidates;
  /** Asked in the place of `candidates` where that is NULL; NULL: it is not. */
  accel_candidates_fn candidates_fn;
  /** Handed to candidates_fn. */
  void *candidates_user;
  /** Bytes of keys and values of finished prompts that the endpoint's queue keeps for prompts that
   *  begin alike (docs/generation.md); the ones used longest ago go first, and all of them when a
   *  run needs their memory, with accel_trim() and before the precision changes.  0: none. */
  uint64_t prefix_cache_bytes;
  /** [n_adapters] LoRA adapters that are merged, one after the other, into the weights while these
   *  are loaded, at every precision and on every device.  NULL: none. */
  const accel_adapter_spec *adapters;
  /** Adapters, at most 64. */
  uint32_t n_adapters;
  /** 1: requests may name adapters that accel_adapter_load() loads beside the weights; linear layers
   *  and what follows them then run apart.  0: accel_adapter_load() is ACCEL_ERROR_UNSUPPORTED. */
  uint32_t enable_adapters;
  /** Directory of an autoencoder (AutoencoderTiny, AutoencoderKL) in the place of "vae" of a pipeline
   *  that makes pictures, such as a TAESD for quick ones.  NULL: the pipeline's own. */
  const char *decoder;
  /** 1: the safety checker that a pipeline's directory has is left out (safety_checker=None of
   *  diffusers), with its weights.  0: pictures that it flags become black. */
  uint32_t without_safety_checker;
  /** 0. */
  uint32_t reserved;
  /** Files of weights of a name of their own, as from_pretrained of transformers and diffusers takes
   *  it: "fp16" reads model.fp16.safetensors or diffusion_pytorch_model.fp16.safetensors, or what an
   *  index of that variant lists.  Parts of a pipeline that have none are read under their plain
   *  name; ACCEL_ERROR_NOT_FOUND where none has.  NULL: the plain names (of a pipeline's part that has
   *  files of half precision alone, those). */
  const char *variant;
} accel_init_params;

/** On the CPU at fp32, everything else as the model says. */
ACCEL_API accel_init_params accel_init_params_default(void);

/** One part of a model that is placed over several devices. */
typedef struct accel_placement_part {
  /** Its device, "vulkan:0". */
  const char *device;
  /** As in accel_placement_report. */
  const char *implementation_type;
  /** Its layers, counted from 0. */
  uint32_t first_layer;
  uint32_t last_layer; /**< the last of them */
  /** The same as stages of the program: layer n is stage n + 1, stage 0 is what comes before the
   *  layers, and the last part has what comes behind them. */
  uint32_t first_stage;
  uint32_t last_stage; /**< the last of them */
  /** Bytes of its weights as the device keeps them. */
  uint64_t weights;
  /** 1: its weights are read from files in each run. */
  int32_t streams;
  /** 0. */
  int32_t reserved;
} accel_placement_part;

/** Where an endpoint runs, and why.  Belongs to the endpoint. */
typedef struct accel_placement_report {
  /** The model as it was named. */
  const char *model;
  /** "MODEL on DEVICE (PRECISION)". */
  const char *label;
  /** The device that was taken, "rocm:0". */
  const char *device;
  /** The precision that was taken, "fp16". */
  const char *precision;
  /** "CPU", "AMD_ROCM", "CUDA", "OPENCL", "VULKAN", "REFERENCE". */
  const char *implementation_type;
  /** 1: the device is an AMD GPU. */
  int32_t is_amd;
  /** 1: the registry lists the model for this hardware and precision. */
  int32_t listed;
  /** What was asked for: accel_init_params.device or its default. */
  const char *wanted_device;
  /** accel_init_params.precision or its default. */
  const char *wanted_precision;
  /** Why each candidate before the one taken was passed over, "rocm:0: no libamdhip64.so", and what
   *  else is worth knowing of the choice. */
  const accel_strings *reasons;
  /** "local", or "random, seed N"; behind it ", adapter DIRECTORY:SCALE" for each that is merged. */
  const char *weights;
  /** [n_part] of a model over several devices, first layers first; then `device` names them all with
   *  their layers, "vulkan:0=0-11+cpu=12-33".  NULL: one device. */
  const accel_placement_part *part;
  /** Parts; 0: one device. */
  uint32_t n_part;
  /** 0. */
  uint32_t reserved;
  /** The file of the precision profile, "precision_profile" where its text was given; NULL: none. */
  const char *precision_profile;
  /** Kinds of layers whose precision it makes another than `precision`: "attention=fp16,head=fp32";
   *  "": none.  NULL without a profile. */
  const char *precision_kinds;
  /** Bytes of the weights as the device's planner counts them. */
  uint64_t weight_bytes;
  /** What decided among several candidates: "rows" (they were measured on this machine),
   *  "prediction" (their intervals do not touch) or "ladder" (the fixed order of devices and
   *  precisions).  NULL: there was one candidate. */
  const char *chosen_by;
  /** The same as a sentence, with what was looked at; NULL with chosen_by. */
  const char *chosen_why;
  /** What "auto" was to be best at, accel_init_params.metric or its default. */
  const char *metric;
  /** [n_candidate] in the order of the ladder; NULL: there was one. */
  const accel_placement_candidate *candidate;
  /** Candidates; 0: there was one. */
  uint32_t n_candidate;
  /** 0. */
  uint32_t reserved_2;
} accel_placement_report;

/**
 * Loads a model and makes it ready to run.
 *
 * Finds its files, builds its program from config.json, chooses a device that passes its self-test,
 * and packs the weights there.  Uses all threads of the context; reports progress as "loading".
 *
 * @param model a directory, an id or alias of the registry, or `org/name[@revision]` in the
 *              library's models directory or in the Hugging Face cache (read-only).  Nothing is
 *              downloaded.
 * @param params NULL: all defaults.  Copied.
 * @param out cleaned up with accel_cleanup(), at the latest by accel_destroy().
 * @return ACCEL_ERROR_NOT_FOUND: the model is not on this machine; the remedy is the download
 *         command.  ACCEL_ERROR_ARGUMENT: an unknown task, precision, kv_cache or device name; a
 *         precision profile of another checkpoint, or beside a precision.
 *         ACCEL_ERROR_UNSUPPORTED: an architecture, a module, a weight format or a value in
 *         config.json that is not supported; the message has file and field.
 *         ACCEL_ERROR_FORMAT, ACCEL_ERROR_IO: a file is malformed or cannot be read.
 *         ACCEL_ERROR_DEVICE_UNAVAILABLE, ACCEL_ERROR_PRECISION, ACCEL_ERROR_DOES_NOT_FIT: no
 *         candidate can serve; the message has each one's reason.
 */
ACCEL_API accel_status accel_init(accel *ctx, const char *model, const accel_init_params *params,
                                  accel_endpoint **out);

/**
 * Looks at a model's files as accel_init() would, and asks no device: config.json, the headers of
 * the checkpoint with every tensor the program takes, tokenizer and processors.  No weights are
 * read.
 *
 * @param params task, architecture, adapters and random_weights count (1: the checkpoint is left
 *               alone); NULL: all defaults.
 * @return the failures of accel_init() that come from the model: ACCEL_ERROR_NOT_FOUND (also a
 *         shard that is missing), ACCEL_ERROR_UNSUPPORTED, ACCEL_ERROR_FORMAT (also tensors that
 *         are missing or of another shape, which are named), ACCEL_ERROR_IO.
 */
ACCEL_API accel_status accel_check_model(accel *ctx, const char *model,
                                         const accel_init_params *params);

/**
 * Ends an endpoint and sets *endpoint to NULL; endpoint and *endpoint may be NULL.
 *
 * Requests that wait in its queue are run first.  Sessions and chats must be closed before; tickets
 * stay valid and are still to be waited for.
 */
ACCEL_API void accel_cleanup(accel_endpoint **endpoint);

/** A LoRA adapter beside the weights of an endpoint of accel_init_params.enable_adapters, for the
 *  requests that name it.  May be used from many threads. */
typedef struct accel_adapter accel_adapter;

/**
 * Loads an adapter beside an endpoint's weights, which stay as they are: quantised ones, too.
 *
 * Requests name it in their parameters (accel_generate_params.adapter, accel_embed_params.adapter
 * ...); those of several adapters, and of none, run together, and each gives what it gives alone.
 *
 * @param path as accel_adapter_spec.path.
 * @param out freed with accel_adapter_free(), before the endpoint is cleaned up.
 * @return ACCEL_ERROR_UNSUPPORTED: the endpoint was made without enable_adapters; or the adapter
 *         changes more than linear layers (embeddings, modules_to_save, biases, DoRA), which a
 *         merge at load does.  ACCEL_ERROR_NOT_FOUND, ACCEL_ERROR_FORMAT: its files, named with
 *         field or tensor.
 */
ACCEL_API accel_status accel_adapter_load(accel_endpoint *endpoint, const char *path,
                                          accel_adapter **out);

/** Frees an adapter that no request uses any more, and sets the pointer to NULL; adapter and
 *  *adapter may be NULL. */
ACCEL_API void accel_adapter_free(accel_adapter **adapter);

/** Where the endpoint runs, and why.  Lives as long as the endpoint; with precision "auto" the
 *  report changes when the endpoint goes on at fp32: do not read it while another thread runs the
 *  endpoint.  NULL for NULL. */
ACCEL_API const accel_placement_report *accel_placement(const accel_endpoint *endpoint);

/** What surrounds the model: its task's pre- and post-processing.  Belongs to the endpoint. */
typedef struct accel_processor {
  /** "feature-extraction". */
  const char *task;
  /** Kind of the tokenizer's model, "WordPiece", "BPE", "Unigram" ...; "" when there is none. */
  const char *tokenizer;
  /** Tokens that the model knows. */
  int64_t vocab_size;
  /** Tokens at which texts are cut. */
  int64_t max_length;
  /** Its padding token; -1: none. */
  int64_t pad_id;
  /** id2label of a classification head, in order; else empty. */
  const accel_strings *labels;
  /** How the vectors of tokens become that of a text, as accel_embed_params.pooling spells it, joined
   *  by '+' where several are concatenated; "": the model does not say. */
  const char *pooling;
} accel_processor;

/** The endpoint's processor; lives as long as the endpoint.  NULL for NULL. */
ACCEL_API const accel_processor *accel_processor_of(const accel_endpoint *endpoint);

/** The batch size asked for, else the registry's, else 1; 0 for NULL. */
ACCEL_API uint32_t accel_batch_size_of(const accel_endpoint *endpoint);

/** Gives the endpoint's scratch memory back; the next run takes it again.  accel_empty_cache() does
 *  it for all endpoints of a device. */
ACCEL_API accel_status accel_trim(accel_endpoint *endpoint);

/* ---- running on raw tensors ---------------------------------------------------------------- */

/** The type of accel_run(). */
typedef accel_status (*accel_handler)(accel_endpoint *endpoint, const accel_tensors *inputs,
                                      accel_tensors **outputs);

/**
 * Runs the model once, with the names, shapes and dtypes of transformers' forward().
 *
 * @param inputs input_ids [batch, sequence] int64 or int32, attention_mask of the same shape (in
 *               each row one run of ones: padding at the left or the right), pixel_values, and so
 *               on; accel_endpoint_io() lists the names.  What has a default may be left out.
 * @param outputs every output that transformers returns by default (others, as hidden_states.N,
 *                are named with accel_run_named()); rows whose mask is 0 are zeros.  Freed
 *                with accel_tensors_free().
 * @return ACCEL_ERROR_ARGUMENT: an input is missing, not one of the model's, or has a wrong dtype,
 *         shape or value (the message names it), such as a token beyond the vocabulary.
 *         ACCEL_ERROR_LIMIT: more tokens than the model takes.
 */
ACCEL_API accel_status accel_run(accel_endpoint *endpoint, const accel_tensors *inputs,
                                 accel_tensors **outputs);

/**
 * The same for chosen outputs; what only others need is not computed.
 *
 * @param names [n] "last_hidden_state", "hidden_states.3", "logits" ..., each once; the outputs
 *              come in this order.  NULL: as accel_run().
 * @return also ACCEL_ERROR_ARGUMENT: the model has no such output, or one is named twice.
 */
ACCEL_API accel_status accel_run_named(accel_endpoint *endpoint, const accel_tensors *inputs,
                                       const char *const *names, uint32_t n,
                                       accel_tensors **outputs);

/** accel_run, as a function to hand on; NULL for NULL. */
ACCEL_API accel_handler accel_handler_of(const accel_endpoint *endpoint);

/**
 * The names of the model's inputs and of all of its outputs.
 *
 * @param inputs,outputs each freed with accel_strings_free(); their strings live as long as the
 *                       endpoint.
 */
ACCEL_API accel_status accel_endpoint_io(const accel_endpoint *endpoint, accel_strings **inputs,
                                         accel_strings **outputs);

/* ---- the queue ----------------------------------------------------------------------------- */

/** An endpoint's queue: requests wait in order and run on a thread of the queue.  May be used from
 *  many threads.  requests.h has requests with priorities, deadlines and cancelling. */
typedef struct accel_queue accel_queue;

/** A request that was submitted; waited for exactly once, by one thread. */
typedef struct accel_ticket accel_ticket;

/** The endpoint's queue; belongs to the endpoint.  NULL for NULL. */
ACCEL_API accel_queue *accel_queue_of(accel_endpoint *endpoint);

/** Requests that may wait at once; 0 for NULL. */
ACCEL_API uint32_t accel_queue_capacity(const accel_queue *queue);

/** Requests that were submitted and have not begun; 0 for NULL. */
ACCEL_API uint32_t accel_queue_waiting(const accel_queue *queue);

/**
 * Submits an accel_run().
 *
 * @param inputs copied.
 * @param out waited for with accel_wait(), which alone frees it.
 * @return ACCEL_ERROR_QUEUE_FULL, at once, when as many requests wait as the queue has room for.
 *         ACCEL_ERROR_ARGUMENT: an input has no name, no data or an impossible shape.
 */
ACCEL_API accel_status accel_submit(accel_queue *queue, const accel_tensors *inputs,
                                    accel_ticket **out);

/**
 * Submits an accel_embed() with the model's own pooling.
 *
 * @param texts [n], copied.
 * @param out as accel_submit(); the result is one tensor "embeddings", fp32 [n, dim] (of models
 *            that embed token by token: [tokens of all texts, dim]).
 * @return as accel_submit().
 */
ACCEL_API accel_status accel_submit_texts(accel_queue *queue, const char *const *texts, uint32_t n,
                                          accel_ticket **out);

/**
 * Waits for a request and takes its outputs.
 *
 * @param timeout_ms milliseconds; 0: only looks; < 0: for ever.
 * @param outputs freed with accel_tensors_free().
 * @return ACCEL_ERROR_TIMEOUT: not done yet; the ticket stays valid.  ACCEL_ERROR_ARGUMENT for a
 *         ticket that another function waits for, which stays valid, too.  Any other answer is the
 *         request's own and frees the ticket, *ticket becomes NULL.
 */
ACCEL_API accel_status accel_wait(accel_ticket **ticket, int64_t timeout_ms,
                                  accel_tensors **outputs);

/* ---- models larger than memory ------------------------------------------------------------- */

/** What an endpoint under accel_params.memory_limit does with weights that do not all fit.  Bytes. */
typedef struct accel_stream_stats {
  /** sizeof(accel_stream_stats) of the caller. */
  uint32_t size;
  /** 1: weights are read from the model's files, or copied from host memory, in each run.  0: all are
   *  in memory, and everything below is 0. */
  uint32_t streaming;
  /** Weights that stay in memory, and expert_memory. */
  uint64_t resident;
  /** Memory through which the others pass. */
  uint64_t staging;
  /** What a run (of a model that generates: a step) reads; with experts what is expected of one row,
   *  if the router likes all experts alike. */
  uint64_t read_per_run;
  /** The smallest memory limit under which the model runs. */
  uint64_t least_limit;
  /** Read so far, when the model was loaded and in all runs. */
  uint64_t bytes;
  /** Seconds that runs have waited for bytes so far. */
  double wait_seconds;
  /** 1: around the page cache (O_DIRECT). */
  uint32_t direct;
  /** 0. */
  uint32_t reserved;
  /** Of `bytes`: what was read while the model was loaded. */
  uint64_t load_bytes;
  /** Seconds that the load took in the plugin. */
  double load_seconds;
  /** Runs so far, those that failed included. */
  uint64_t runs;
  /** Seconds in which at least one run was under way. */
  double run_seconds;
  /** (bytes - load_bytes) / run_seconds; 0: nothing was run yet. */
  double bytes_per_second;
  /** Part of run_seconds in which a run waited for bytes, 0 to 1. */
  double wait_share;
  /** Memory for experts, which are read when they are routed; 0: no experts are streamed. */
  uint64_t expert_memory;
  /** Experts that launches found there so far: each counts once a launch, whatever its rows. */
  uint64_t expert_hits;
  /** Experts that they read. */
  uint64_t expert_misses;
  /** Bytes of these, of `bytes`. */
  uint64_t expert_bytes;
  /** Memory of the host that holds the weights that are not in the device's: read_per_run, bytes and
   *  bytes_per_second are then what is copied to the device, and wait_seconds those of `disk` alone.
   *  0: they are read from files. */
  uint64_t host;
  /** Of read_per_run, where `host` is: what is read from files first, for which the host's memory has
   *  no room. */
  uint64_t disk;
} accel_stream_stats;

/**
 * Tells how an endpoint streams its weights, and what it has read so far.
 *
 * May be called while the endpoint runs.  Differences of two answers are what lies between them.
 *
 * @param out its `size` set.
 */
ACCEL_API accel_status accel_streaming(const accel_endpoint *endpoint, accel_stream_stats *out);

/**
 * Reads from the model's files what a run reads, and computes nothing: what the disk could give, to
 * compare runs with.
 *
 * The reader is one of its own, with as much memory as `staging` says, which is given back.
 *
 * @param bytes what was read.
 * @param seconds how long that took.
 * @return ACCEL_ERROR_ARGUMENT: the endpoint does not stream, or has not run twice.
 */
ACCEL_API accel_status accel_stream_read(accel_endpoint *endpoint, uint64_t *bytes,
                                         double *seconds);

/* ---- the profile --------------------------------------------------------------------------- */

/** One step of a run: an op of the program, or several that the device does in one launch. */
typedef struct accel_profile_step {
  /** sizeof(accel_profile_step) of the library. */
  uint32_t size;
  /** Number of the node in the program; of the first, when several are fused. */
  uint32_t index;
  /** Name of the node, "encoder.layer.3.attention.self"; lives as long as the endpoint. */
  const char *node;
  /** Its op, "ATTENTION"; lives as long as the endpoint. */
  const char *op;
  /** Entry point of the program: "forward", "embed" ... */
  const char *entry;
  /** Layer of the model. */
  uint32_t stage;
  /** Nodes that this step fuses; 1: one alone. */
  uint32_t node_count;
  /** When it began, in microseconds; only differences mean anything. */
  double begin_us;
  /** When it ended. */
  double end_us;
  /** Additions and multiplications by the op's definition, whatever the device really does. */
  double flop;
  /** Bytes of weights, operands and results, once each, whatever a cache saved. */
  double bytes;
  /** 1: the device's own times.  0: the host's, which on a device without timestamps cover only the
   *  queueing of the work. */
  int32_t device_clock;
  /** 0. */
  int32_t reserved;
  /** Microseconds that the step's instructions take at least, measured with operands in the caches;
   *  0: not known (all but linears and attention of decoding on a CPU). */
  double limit_us;
  /** Of `bytes`, those of weights; 0 with result_bytes 0: the plugin does not tell. */
  double weight_bytes;
  /** Of `bytes`, those of results. */
  double result_bytes;
} accel_profile_step;

/** Receives the steps of a run, in order, from the thread that makes the run (from several threads
 *  when several run at once).  `step` is valid during the call. */
typedef void (*accel_profile_fn)(void *user, const accel_profile_step *step);

/**
 * Turns profiling on from the next run on, or off.
 *
 * Not to be called while the endpoint runs.
 *
 * @param fn NULL: off, and then nothing is measured.
 * @param user first argument of `fn`.
 */
ACCEL_API accel_status accel_set_profile(accel_endpoint *endpoint, accel_profile_fn fn, void *user);

/** Which run accel_plan_steps() plans; accel_plan_params_default() sets all to the defaults. */
typedef struct accel_plan_params {
  /** sizeof(accel_plan_params). */
  uint32_t size;
  /** Sequences, pictures or sounds at once; 0: 1. */
  uint32_t batch;
  /** One device, as accel_init_params.device; default "cpu". */
  const char *device;
  /** As accel_init_params.precision, but not "auto". */
  const char *precision;
  /** As accel_init_params.architecture. */
  const char *architecture;
  /** Entry point of the program: "forward" (NULL), what accel_run() runs; of models that generate
   *  also "decode", the new rows of each sequence, and, with an encoder, "encode". */
  const char *entry;
  /** The output that is computed; NULL: those that need no asking for. */
  const char *output;
  /** Tokens of each sequence, in "decode" new ones; 0: as is typical of the model. */
  uint32_t seq;
  /** Side of a picture in pixels, or samples of a sound, where the model leaves that open; 0: as is
   *  typical. */
  uint32_t side;
  /** "decode": tokens that each sequence has already. */
  uint32_t past;
  /** "decode" of a model with an encoder: tokens of each that were encoded. */
  uint32_t encoded;
  /** Of a pipeline that makes pictures, where `entry` and `output` are those of an accel_fit_run: the
   *  run as a call for `batch` pictures of this size has it; 0: what the model was made for. */
  uint32_t width;
  uint32_t height;     /**< as width */
  uint32_t vae_tiling; /**< as accel_text_to_image_params.vae_tiling */
  uint32_t reserved;   /**< 0 */
} accel_plan_params;

/** One sequence of typical length through "forward" on the CPU. */
ACCEL_API accel_plan_params accel_plan_params_default(void);

/**
 * The steps that a run would have, with flop and bytes, without loading weights or running
 * anything: all times are 0.  Sequences count as equally long, and a mixture of experts as if every
 * token chose other experts.
 *
 * A model without local files is taken at the registry's shape.
 *
 * @param params NULL: all defaults.
 * @param fn receives the steps, in order, during the call.
 * @param user first argument of `fn`.
 * @return ACCEL_ERROR_NOT_FOUND: neither files nor a registry entry with a configuration.
 *         ACCEL_ERROR_ARGUMENT: the model has no such entry or output, or there is no such
 *         precision or device name.  ACCEL_ERROR_UNSUPPORTED: the architecture is not known, the
 *         device is several, or its plugin plans no steps.  ACCEL_ERROR_PRECISION: the device does
 *         not run the model at the precision.  ACCEL_ERROR_DEVICE_UNAVAILABLE: `device` cannot
 *         serve.
 */
ACCEL_API accel_status accel_plan_steps(accel *ctx, const char *model,
                                        const accel_plan_params *params, accel_profile_fn fn,
                                        void *user);

/**
 * As accel_endpoint_io(), of a model that is not loaded.
 *
 * @param architecture as accel_init_params.architecture; may be NULL.
 * @param inputs,outputs freed with accel_strings_free().
 * @return as accel_plan_steps().
 */
ACCEL_API accel_status accel_model_io(accel *ctx, const char *model, const char *architecture,
                                      accel_strings **inputs, accel_strings **outputs);

/**
 * The model's program as text: nodes, shapes, attributes.
 *
 * @param format "text" (or NULL), or "dot" for Graphviz; any other is ACCEL_ERROR_ARGUMENT.
 * @param out freed with accel_string_free().
 */
ACCEL_API accel_status accel_program_dump(accel_endpoint *endpoint, const char *format, char **out);

/**
 * What the endpoint runs with as the text of a precision profile: model, device, precision, and the
 * precision of each kind of layer that the model has.  accel_init_params.precision_profile takes
 * it, as it is or with other precisions.
 *
 * @param json freed with accel_string_free().
 * @return ACCEL_ERROR_UNSUPPORTED: the model is placed over several devices.  ACCEL_ERROR_IO: the
 *         checkpoint cannot be read.
 */
ACCEL_API accel_status accel_precision_profile_json(const accel_endpoint *endpoint, char **json);

/* ---- proof --------------------------------------------------------------------------------- */

/** One combination of hardware and precision that really ran. */
typedef struct accel_test_record {
  /** "cpu (FP32)". */
  const char *platform;
  /** Hardware that was asked for, "amd". */
  const char *hardware;
  /** Precision that was asked for, "fp16". */
  const char *precision;
  /** Device it ran on, "rocm:0". */
  const char *device;
  /** The plugin's, "AMD_ROCM". */
  const char *implementation_type;
  /** What went in, in words: shapes and first values. */
  const char *input;
  /** What came out. */
  const char *output;
  /** 1: every output is within the precision's bounds. */
  int32_t passed;
  /** Largest absolute difference from the reference plugin. */
  double max_abs;
  /** Largest relative difference from it. */
  double max_rel;
  /** Cosine with it. */
  double cosine;
  /** Milliseconds of one run after a warm-up. */
  double ms;
  /** "local", or "random, seed N, true shape". */
  const char *weights;
} accel_test_record;

/** The outcome of accel_run_precision_tests() or accel_self_test(). */
typedef struct accel_test_report {
  /** Keys. */
  uint32_t n;
  /** [n] `<hardware>_test`, which sums its hardware up, and `<hardware>_<precision>_test`. */
  const char *const *key;
  /** [n] "Hardware not available", "Precision not supported", "Success" or "Error: ...". */
  const char *const *value;
  /** Combinations that really ran. */
  uint32_t n_records;
  /** [n_records] */
  const accel_test_record *record;
} accel_test_report;

/**
 * Loads and runs a model on each combination of hardware and precision, and compares it with the
 * reference plugin.
 *
 * What is not available or not listed is said so in the report and is no failure.  A model without
 * local files runs with random weights in its true shape.
 *
 * @param hardware [n_hardware] names or aliases; NULL: cpu cuda amd openvino apple.
 * @param precisions [n_precisions]; NULL: fp32 fp16 bf16 int8 int4.
 * @param out freed with accel_test_report_free().
 * @return ACCEL_OK also when a comparison fails or a combination cannot run: its `value` is then
 *         "Error: ..." and, if it ran, `passed` of its record is 0.  ACCEL_ERROR_ARGUMENT: an
 *         unknown hardware or precision.  ACCEL_ERROR_UNKNOWN_MODEL.
 */
ACCEL_API accel_status accel_run_precision_tests(accel *ctx, const char *model,
                                                 const char *const *hardware, uint32_t n_hardware,
                                                 const char *const *precisions,
                                                 uint32_t n_precisions, accel_test_report **out);

/**
 * Runs the endpoint on seeded inputs and compares it with the reference plugin, which is loaded
 * with the same model for it.
 *
 * @param out freed with accel_test_report_free().
 * @return ACCEL_OK also when the comparison fails: `passed` of the record is then 0.
 */
ACCEL_API accel_status accel_self_test(accel_endpoint *endpoint, accel_test_report **out);

/** Frees a report and sets the pointer to NULL. */
ACCEL_API void accel_test_report_free(accel_test_report **report);

/** One output of a golden file, compared. */
typedef struct accel_verify_output {
  /** Its name. */
  const char *name;
  /** Largest absolute difference. */
  double max_abs;
  /** Largest relative difference. */
  double max_rel;
  /** Cosine. */
  double cosine;
  /** The bound that counts for the precision. */
  double bound;
  /** Numbers that were compared: padding is left out. */
  uint64_t compared;
  /** 1: within the bound. */
  int32_t passed;
  /** What else is to be said; "". */
  const char *note;
} accel_verify_output;

/** The outcome of accel_verify(). */
typedef struct accel_verify_report {
  /** 1: every output is within its bound. */
  int32_t passed;
  /** The transformers class. */
  const char *architecture;
  /** Device that ran. */
  const char *device;
  /** Precision that ran. */
  const char *precision;
  /** The golden file. */
  const char *golden;
  /** Outputs. */
  uint32_t n;
  /** [n] */
  const accel_verify_output *output;
  /** What the model gave, by the names of `output`; the report owns it. */
  const accel_tensors *got;
} accel_verify_report;

/**
 * Runs the inputs of a golden file, which transformers made, and compares the outputs.
 *
 * @param how as for accel_init(); NULL: all defaults.
 * @param golden a .safetensors file with tensors in.*, out.*, mask.*; docs/verify.md has the format
 *               and the bounds.
 * @param out the report, which comes with ACCEL_OK and with ACCEL_ERROR_VERIFY; freed with
 *            accel_verify_report_free().
 * @return ACCEL_ERROR_VERIFY: an output is outside its bound.  Else the failures of accel_init()
 *         and accel_run(); ACCEL_ERROR_FORMAT: the file is malformed.
 */
ACCEL_API accel_status accel_verify(accel *ctx, const char *model, const accel_init_params *how,
                                    const char *golden, accel_verify_report **out);

/** Frees a report and sets the pointer to NULL. */
ACCEL_API void accel_verify_report_free(accel_verify_report **report);

#ifdef __cplusplus
}
#endif
#endif
