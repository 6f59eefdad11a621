/**
 * @file models.h
 * What is known of a model before it is loaded: the registry, where its files are, which devices of
 * this machine can run it, whether it fits, and the cache of packed weights.
 *
 * Include accel/accel.h, which includes this file.  Where a function takes a `model`, that is an id
 * or alias of the registry in any letter case ("bert-base-uncased"), an id of the Hugging Face Hub
 * ("org/name", with or without `@revision`), or a directory with a config.json.
 */
#ifndef ACCEL_MODELS_H
#define ACCEL_MODELS_H

#include "accel/base.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---- the registry -------------------------------------------------------------------------- */

/*
 * The registry lists models with the hardware and precisions they are meant for (docs/registry.md
 * has the format).  It is a statement of intent: a model it does not list runs all the same when
 * its architecture is known, and what a device is capable of is asked with accel_matrix_json().
 *
 * All functions may be called from any thread at any time, accel_registry_add() included.  The
 * first one reads accel_params.registry_path, whose defects are ACCEL_ERROR_NOT_FOUND,
 * ACCEL_ERROR_IO or ACCEL_ERROR_FORMAT with file and field.
 */

/** One model of the registry.  Immutable; lives until accel_destroy(), also when it is overridden
 *  meanwhile. */
typedef struct accel_registry_entry {
  /** Canonical id, "google-bert/bert-base-uncased". */
  const char *model;
  /** One sentence about it. */
  const char *description;
  /** Its family in the registry, "bert". */
  const char *family;
  /** Its transformers class, "BertModel". */
  const char *architecture;
  /** Width of its embeddings; 0: not told. */
  int64_t embedding_dim;
  /** Most tokens of a sequence; 0: not told. */
  int64_t sequence_length;
  /** What its weights are stored as, "float32". */
  const char *model_precision;
  /** Batch size that the registry suggests; tasks do not take it by themselves. */
  int64_t default_batch_size;
  /** Other names of it. */
  const accel_strings *aliases;
  /** Hardware it is listed for: "cpu", "amd" ... */
  const accel_strings *hardware;
} accel_registry_entry;

/**
 * Looks up a model.
 *
 * @param model also a directory, whose entry is then derived from its config.json.
 * @param out receives the entry; nothing is to be freed.
 * @return ACCEL_ERROR_UNKNOWN_MODEL: the registry neither lists it nor can derive it; the remedy
 *         names the nearest known id.  ACCEL_ERROR_FORMAT: the directory's config.json is
 *         malformed.
 */
ACCEL_API accel_status accel_registry_lookup(accel *ctx, const char *model,
                                             const accel_registry_entry **out);

/**
 * The whole entry of a model as JSON, with what its family and the hardware defaults add.
 *
 * @param model NULL: all entries, in "models", beside families, hardware and precisions.
 * @param json freed with accel_string_free().
 * @return ACCEL_ERROR_UNKNOWN_MODEL as accel_registry_lookup().
 */
ACCEL_API accel_status accel_registry_json(accel *ctx, const char *model, char **json);

/** Which models accel_registry_list() lists; accel_registry_filter_default() asks for all. */
typedef struct accel_registry_filter {
  /** sizeof(accel_registry_filter). */
  uint32_t size;
  /** Only models of this family; NULL: any. */
  const char *family;
  /** Only models that are listed for this hardware; NULL: any. */
  const char *hardware;
  /** Only models that are listed for this precision, on `hardware` if that is given; NULL: any.
   *  */
  const char *precision;
  /** Only models with this text in id or description; NULL: any. */
  const char *text;
} accel_registry_filter;

/** A filter that lets every model through. */
ACCEL_API accel_registry_filter accel_registry_filter_default(void);

/**
 * The ids of the models that pass a filter.
 *
 * @param filter NULL: all models.
 * @param models freed with accel_strings_free().
 * @return ACCEL_ERROR_ARGUMENT: an unknown hardware or precision; the remedy lists the known ones.
 */
ACCEL_API accel_status accel_registry_list(accel *ctx, const accel_registry_filter *filter,
                                           accel_strings **models);

/**
 * Adds entries; one of a known id overrides that entry field by field.  In this context alone:
 * nothing is written to disk.  Checked against the schema first; on failure nothing is changed.
 *
 * @param json the text of one entry, or {"models":[...]}.
 * @return ACCEL_ERROR_FORMAT: not JSON, a field is missing or wrong (named), or a name belongs to
 *         another entry already.
 */
ACCEL_API accel_status accel_registry_add(accel *ctx, const char *json);

/**
 * Whether a model is listed for a hardware.
 *
 * @param hardware any alias, any letter case: amd = rocm = hip.
 * @param supported 1 or 0; 0 on failure.
 * @return ACCEL_ERROR_UNKNOWN_MODEL.  ACCEL_ERROR_ARGUMENT: the hardware does not exist.
 */
ACCEL_API accel_status accel_is_hardware_supported(accel *ctx, const char *model,
                                                   const char *hardware, int *supported);

/**
 * Whether a model is listed for a precision on a hardware.
 *
 * @param precision any alias, any letter case: float32 = fp32.
 * @param supported 1 or 0; 0 on failure.
 * @return ACCEL_ERROR_UNKNOWN_MODEL.  ACCEL_ERROR_ARGUMENT: hardware or precision do not exist.
 */
ACCEL_API accel_status accel_is_precision_supported(accel *ctx, const char *model,
                                                    const char *hardware, const char *precision,
                                                    int *supported);

/**
 * The software packages that the registry names for a model (docs/registry.md): its own, then the
 * hardware's, then the precision's, each once.
 *
 * A combination that is not listed adds a line "unsupported: fp16 on cpu, use fp32 instead".
 *
 * @param hardware,precision NULL: not asked about.
 * @param out freed with accel_strings_free().
 * @return as accel_is_precision_supported().
 */
ACCEL_API accel_status accel_get_dependencies(accel *ctx, const char *model, const char *hardware,
                                              const char *precision, accel_strings **out);

/**
 * Says for which precisions a model is listed on a hardware.
 *
 * The hardware becomes listed when one precision is, and unlisted when none is.
 *
 * @param precisions [n] names.
 * @param supported [n] nonzero: listed.
 * @param merge nonzero: precisions that are not named keep what they have; 0: they become unlisted.
 * @return as accel_is_precision_supported().
 */
ACCEL_API accel_status accel_set_precision_profile(accel *ctx, const char *model,
                                                   const char *hardware,
                                                   const char *const *precisions,
                                                   const int *supported, uint32_t n, int merge);

/* ---- what can be run ----------------------------------------------------------------------- */

/**
 * The model classes of transformers that can be run: "BertModel", "BertForMaskedLM" ...
 *
 * @param out freed with accel_strings_free(); needs no context.
 */
ACCEL_API accel_status accel_architectures(accel_strings **out);

/**
 * The task of a model class by the name of transformers' pipeline: "fill-mask" of
 * "BertForMaskedLM"; classes that no pipeline serves have a name of their own ("pretraining").
 *
 * @return a constant; NULL: the class is unknown.  Needs no context.
 */
ACCEL_API const char *accel_architecture_task(const char *architecture);

/**
 * Where a model's files are on this machine: a directory as it is, else the library's own models
 * directory ($XDG_CACHE_HOME/accel/models), else the Hugging Face cache, which is only read.
 *
 * @param directory freed with accel_string_free().
 * @return ACCEL_ERROR_NOT_FOUND: it is not here; the remedy is the exact download command.
 */
ACCEL_API accel_status accel_find_model(accel *ctx, const char *model, char **directory);

/**
 * The support table: what every device here says it can run of a model, precision by precision,
 * beside what the registry lists.  Nothing is loaded or run.
 *
 * @param model NULL: every model of the registry.
 * @param json {"schema":"accel.matrix/1",...}; freed with accel_string_free().
 * @return ACCEL_ERROR_UNKNOWN_MODEL: the registry does not know it.  A model that cannot be
 *         built is said so in the table.
 */
ACCEL_API accel_status accel_matrix_json(accel *ctx, const char *model, char **json);

/* ---- what fits ----------------------------------------------------------------------------- */

/** What accel_fit() plans for; accel_fit_params_default() sets all to the defaults. */
typedef struct accel_fit_params {
  /** sizeof(accel_fit_params). */
  uint32_t size;
  /** A device name as accel_init() takes it.  NULL: every device that can be chosen here. */
  const char *device;
  /** One of the eight precisions.  NULL: each of them. */
  const char *precision;
  /** Sequences at once; of a model that takes no text, and of one that makes pictures: pictures or
   *  sounds.  0: 1. */
  uint32_t batch;
  /** Tokens of each; 0: 128, or the model's limit where that is less.  Of a model that takes no
   *  text: the side of a picture in pixels, or the samples of a sound; 0: what the model's
   *  config says. */
  uint32_t seq;
  /** As accel_init_params.architecture. */
  const char *architecture;
  /** As accel_init_params.task. */
  const char *task;
  /** Tokens that are generated after each sequence; 0: none. */
  uint32_t new_tokens;
  /** 0. */
  uint32_t reserved;
  /** 1: also foretells how long a token takes, or a run of a pipeline that makes pictures.  For that the model's file is read for 0.2 s, unless
   * its
   *  disk's speed was measured within a day, and the device computes for some tenths of a second a
   *  precision.  Devices emulated in software are left out. */
  uint64_t times;
  /** Of a pipeline that makes pictures: their sides in pixels, as accel_text_to_image_params has them;
   *  0: `seq` for both, else what the model was made for. */
  uint32_t width;
  /** As width. */
  uint32_t height;
  /** Its steps; 0: what its pipeline takes. */
  uint32_t steps;
  /** 1: its autoencoder runs over tiles, as with accel_text_to_image_params.vae_tiling. */
  uint32_t vae_tiling;
} accel_fit_params;

/** One run of a part of a pipeline, of which a call of accel_text_to_image() makes several. */
typedef struct accel_fit_run {
  /** The part's entry: "text", "forward" (the UNet or transformer), "decode_latents". */
  const char *entry;
  /** What it gives: "prompt_embeds", "sample", "pixels". */
  const char *output;
  /** How often the call makes it. */
  uint64_t times;
  /** Its activations in bytes; 0 where `device` is several. */
  uint64_t scratch;
  /** With accel_fit_params.times: seconds that one such run takes, by what the device computes of
   *  convolutions, linears, attention and other ops in a second (measured) and what the run has of
   *  them; 0: not known. */
  double seconds;
} accel_fit_run;

/** What one of several devices takes of a model that is placed over them; sizes in bytes. */
typedef struct accel_fit_part {
  /** The device, "vulkan:0". */
  const char *device;
  /** Its layers, counted from 0; the first part has the embeddings, too, the last one the head. */
  uint32_t first_layer;
  uint32_t last_layer; /**< the last of them */
  /** 1: they fit there. */
  int32_t fits;
  /** 1: they fit because their weights are read from the model's files in each run. */
  int32_t streams;
  /** As in accel_fit_record. */
  uint64_t weights;
  uint64_t total;     /**< as in accel_fit_record */
  uint64_t available; /**< as in accel_fit_record */
} accel_fit_part;

/** One device at one precision; all sizes in bytes, as the device's own planner counts them. */
typedef struct accel_fit_record {
  /** The device, "cpu". */
  const char *device;
  /** The precision, "int8". */
  const char *precision;
  /** 1: it fits.  0: it does not.  -1: it cannot run there at all, and `reason` says why. */
  int32_t fits;
  /** Why it cannot run there; "" when it can. */
  const char *reason;
  /** What would fit instead, "batch 4 of 128 tokens fits"; "" when nothing is to be said. */
  const char *advice;
  /** The weights as the device keeps them. */
  uint64_t weights;
  /** The part of `weights` that stays in the checkpoint's file, of which rows are read when they are
   *  asked for: it takes no memory of the process. */
  uint64_t weights_in_file;
  /** KV cache of one token. */
  uint64_t state_per_token;
  /** KV cache of batch x (seq + new_tokens) tokens, and state that does not depend on tokens. */
  uint64_t state;
  /** Activations of one run. */
  uint64_t scratch;
  /** All of it while the model runs, without weights_in_file; on a CPU with the tokenizer. */
  uint64_t total;
  /** The larger of `total` and what loading takes. */
  uint64_t peak;
  /** Memory of the device; 0: not known. */
  uint64_t memory;
  /** What of it a model may take now; 0: not known. */
  uint64_t available;
  /** Tables of the tokenizer (vocabulary, merges), which are in the process's memory; 0: there is
   *  none, or the device is no CPU. */
  uint64_t tokenizer;
  /** On a CPU: memory of the whole process while the model runs, `process` of the report plus
   *  `total`.  Else 0. */
  uint64_t resident;
  /** 1: it fits because weights are read from the model's files in each run (streamed), under the
   *  memory limit of the context, or copied from host memory (stream_host); total and peak are then
   *  what that takes. */
  int32_t streams;
  /** 0. */
  int32_t reserved;
  /** The smallest memory limit under which the model is streamed; 0: no limit was given, or it
   * cannot
   *  be streamed there. */
  uint64_t stream_least;
  /** Where it streams: weights that stay in memory. */
  uint64_t stream_resident;
  /** Memory through which the others pass. */
  uint64_t stream_staging;
  /** What a run (of a model that generates: a step) reads. */
  uint64_t stream_read;
  /** [n_part] where `device` is several ("vulkan:0+cpu"): their shares, as they were planned; the
   *  sizes above are sums.  NULL: one device. */
  const accel_fit_part *part;
  /** Parts; 0: one device. */
  uint32_t n_part;
  /** 0. */
  uint32_t reserved_parts;
  /** Of a model that generates under a memory limit, or that streams and reads texts: how many of the
   *  batch run together, the others after them.  Else the batch. */
  uint64_t at_once;
  /** With accel_fit_params.times, of a model that generates; here and below 0: not known.  Bytes a
   *  second that the library reads from the model's disk. */
  double disk_bytes_per_second;
  /** Seconds that the device computes for a step, in which each sequence gets a token. */
  double compute_seconds;
  /** Seconds of such a step: of computing or, where that takes longer, of reading what is streamed. */
  double seconds_per_token;
  /** Seconds from the begin of the load to the first token. */
  double seconds_to_first;
  /** Where it streams from host memory to a device: memory of the host that this takes, and
   *  stream_read is what a run copies.  0: from files alone. */
  uint64_t stream_host;
  /** With accel_fit_params.times: bytes a second from host memory to the device, where it streams from
   *  there.  0: not known. */
  double copy_bytes_per_second;
  /** Of stream_read, where stream_host is: what is read from files, for which the host's memory has no
   *  room. */
  uint64_t stream_disk;
  /** [n_run] of a pipeline that makes pictures: its runs, one after the other; `scratch` above is the
   *  most of them.  NULL: another model. */
  const accel_fit_run *run;
  /** Runs. */
  uint32_t n_run;
  /** 0. */
  uint32_t reserved_runs;
} accel_fit_record;

/** The answer of accel_fit(). */
typedef struct accel_fit_report {
  /** The model as it was named. */
  const char *model;
  /** Its transformers class. */
  const char *architecture;
  /** Sequences that were planned for. */
  uint32_t batch;
  /** Length of each that was planned for, in `unit`; of pipelines that make pictures their width. */
  uint32_t seq;
  /** Numbers in the weights. */
  uint64_t parameters;
  /** Records. */
  uint32_t n;
  /** [n] device by device, each with its precisions. */
  const accel_fit_record *record;
  /** What `seq` counts: "tokens", "pixels a side", "samples", "frames". */
  const char *unit;
  /** Bytes this process had in memory when it was asked: code, libraries, all that the application
   *  has, the model's graph; not the model's tokenizer.  0: not known. */
  uint64_t process;
  /** Of a pipeline that makes pictures: their height in pixels; else 0. */
  uint32_t height;
  /** Its steps; else 0. */
  uint32_t steps;
} accel_fit_report;

/** Every device, every precision, one sequence. */
ACCEL_API accel_fit_params accel_fit_params_default(void);

/**
 * Plans a model on devices without loading it, and says what fits.
 *
 * A model without local files is taken at the registry's shape.  For a model that generates, a
 * generation is planned (prompts of seq tokens, read in pieces of 2048); accel_run(), whose scores
 * are of all tokens, takes more.
 *
 * @param params NULL: all defaults.
 * @param out freed with accel_fit_report_free().  What does not fit is a record, not a failure.
 * @return ACCEL_ERROR_ARGUMENT: no such precision or device name.  ACCEL_ERROR_NOT_FOUND: neither
 *         files nor a registry entry with a configuration.  ACCEL_ERROR_UNSUPPORTED: the
 *         architecture is not known.  ACCEL_ERROR_DEVICE_UNAVAILABLE: `device` cannot serve.
 */
ACCEL_API accel_status accel_fit(accel *ctx, const char *model, const accel_fit_params *params,
                                 accel_fit_report **out);

/** Frees a report and sets the pointer to NULL. */
ACCEL_API void accel_fit_report_free(accel_fit_report **report);

/* ---- the cache of packed weights ----------------------------------------------------------- */

/*
 * Weights that were converted and packed for a device are kept on disk, so that the next load need
 * not do it again.  The cache is pruned by last use, and safe to delete at any time.
 */

/** One entry of the cache. */
typedef struct accel_cache_entry {
  const char *file;  /**< name of the file in the cache's directory */
  const char *label; /**< "org/name, int8, for cpu (avx512)"; "" for damaged entries */
  uint64_t bytes;    /**< size on disk */
  int64_t used;      /**< when it was last used, seconds since 1970 */
} accel_cache_entry;

/** What is in the cache. */
typedef struct accel_cache_list {
  const char *directory; /**< where it is; "" when there is no place for a cache */
  /** Bytes of all entries. */
  uint64_t bytes;
  /** Bytes that they may take. */
  uint64_t limit;
  uint32_t n;                     /**< entries */
  const accel_cache_entry *entry; /**< [n] latest use first */
} accel_cache_list;

/** Lists the cache; the list is freed with accel_cache_list_free(). */
ACCEL_API accel_status accel_cache_ls(accel *ctx, accel_cache_list **out);

/** Frees a list and sets the pointer to NULL. */
ACCEL_API void accel_cache_list_free(accel_cache_list **list);

/**
 * Removes damaged entries, then those used longest ago, until at most `keep` bytes are left.
 *
 * @param keep bytes; 0: empties the cache, but for files younger than an hour that may still be
 *             written.
 * @param removed,bytes receive how many entries went and their bytes; may be NULL.
 */
ACCEL_API accel_status accel_cache_prune(accel *ctx, uint64_t keep, uint32_t *removed,
                                         uint64_t *bytes);

#ifdef __cplusplus
}
#endif
#endif
