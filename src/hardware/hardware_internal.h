/* hardware_internal.h - what the files of src/hardware share.  Every accel__hardware below is used
 * with its lock held. */
#ifndef ACCEL_HARDWARE_INTERNAL_H
#define ACCEL_HARDWARE_INTERNAL_H

#include <pthread.h>

#include "core/json.h"
#include "core/text.h"
#include "hardware/handshake.h"
#include "hardware/hardware.h"

#include "hardware/selftest.h"

#define ACCEL__TRANSPORT_PREFIX "libaccel_comm_" /* of files */

/* One for each storage format, in the order of formats.def; the first three are run at detection. */
enum {
#define ACCEL_PLAIN(name, bits, file, precision, gpu) ACCEL__PROOF_OF_##name,
#define ACCEL_CODED(name, bits, file, precision, scale, zero, outer, group, largest, codec, cpu, \
                    gpu)                                                                         \
  ACCEL__PROOF_OF_##name,
#include "formats/formats.def"
  ACCEL__PROOFS,
  ACCEL__PROOFS_DETECTED = 3
};
enum { ACCEL__PROOF_UNTRIED = -1 };
extern const char *const accel__proof_precision[ACCEL__PROOFS]; /* "": no precision makes it */

typedef struct accel__entry accel__entry;

/* One file of a plugin's name, one plugin that is built in, or one directory that was searched in
 * vain. */
typedef struct accel__plugin_file {
  /* path "built-in:cpu" of a plugin without a file; key "rocm" of libaccel_rocm.so, "" for a
   * directory */
  const char *path, *key;
  accel_plugin_query_fn query; /* of a built-in one; else NULL */
  accel__verdict verdict;
  const char *why;
  bool trusted; /* touches no driver: opened here without asking the helper */
  bool known;   /* verdict, identity and devices are there */
  bool opened;  /* in this process: `table` is its table */
  bool broken;  /* it was good in the helper, but could not be opened here; `why` */
  accel_plugin table;
  const char *name, *implementation_type, *version, *build_id;
  uint32_t n;
  accel__entry **device; /* [n], in the plugin's order */
} accel__plugin_file;

struct accel__entry {
  accel__device device;     /* first: an accel__device * of ours is an accel__entry * */
  accel__plugin_file *file; /* NULL: hardware that is not there */
  /* the name's first part: the plugin's name, "rocm" for an AMD card behind a CUDA layer, or
   * "qualcomm" for an NPU behind ONNX Runtime */
  const char *stem;
  uint32_t number;             /* the name's second part */
  int8_t proof[ACCEL__PROOFS]; /* accel__proof or ACCEL__PROOF_UNTRIED */
  const char *proof_why[ACCEL__PROOFS];
};

/* ---- what vendors' libraries, the kernel and rocm-smi say ---- */

typedef struct accel__gpu { /* "" or 0: not known */
  const char *name, *arch, *id, *uuid, *platform, *driver;
  const char *type; /* "discrete", "integrated", "software", "other" */
  uint64_t vram_total, vram_used, gtt_total, gtt_used;
  uint32_t units, wave;
  int hidden; /* 1: a visibility variable hides it from programs */
} accel__gpu;

typedef struct accel__source {
  /* "hip", "hsa", "sysfs", "rocm-smi", "cuda", "opencl", "vulkan", "openvino" ... */
  const char *name;
  const char *library; /* the file or command that answered; "" */
  /* error "": it answered, even if with no devices */
  const char *version, *driver, *error, *remedy;
  bool asked;
  bool ended; /* its library crashed or hung, or ended the helper */
  uint32_t n;
  accel__gpu *gpu;
} accel__source;

typedef enum accel__source_kind { /* AMD's first, in the order they are believed */
                                  ACCEL__SOURCE_HIP,
                                  ACCEL__SOURCE_HSA,
                                  ACCEL__SOURCE_SYSFS,
                                  ACCEL__SOURCE_SMI,
                                  ACCEL__SOURCE_CUDA_AMD,
                                  ACCEL__SOURCE_CUDA,
                                  ACCEL__SOURCE_OPENCL,
                                  ACCEL__SOURCE_VULKAN,
                                  ACCEL__SOURCE_OPENVINO,
                                  ACCEL__SOURCE_QUALCOMM,
                                  ACCEL__SOURCE_WEBGPU,
                                  ACCEL__SOURCES
} accel__source_kind;

typedef struct accel__access { /* may we open this device file? */
  const char *path;
  int error;         /* errno of open(O_RDWR); 0 fine */
  const char *group; /* owning group, "" when the file is absent */
  uint32_t gid, mode;
  const char *remedy;
} accel__access;

/* a visibility or override variable of a vendor: obeyed by its runtime, shown, never set */
typedef struct accel__variable {
  const char *name, *value; /* NULL: unset */
  const char *hardware, *verdict;
  bool warning;
} accel__variable;

typedef struct accel__vendors {
  accel__source source[ACCEL__SOURCES];
  int amd_source;  /* the first AMD source with a device; -1 none */
  accel__gpu *amd; /* [amd_n]: that source's devices, gaps filled from the others by PCI address */
  uint32_t amd_n;
  const char *amd_version; /* ROCm's, "" unknown */
  /* kernel driver: "amdgpu 6.3.6", "amdgpu (in the kernel)", "" not loaded */
  const char *amd_driver;
  const char **difference; /* sentences: where the other sources disagree */
  uint32_t n_differences;
  accel__access *access;
  uint32_t n_access;
  accel__variable *variable;
  uint32_t n_variables;
  accel__arena *arena; /* of everything here */
} accel__vendors;

struct accel__hardware {
  pthread_mutex_t lock;
  accel__arena arena; /* everything below; given back by destroy alone */
  const accel__log *log;
  accel__pool *pool;
  const accel__cache *cache; /* of verdicts; NULL: none are kept */
  const char *plugin_path;   /* NULL: the standard places */
  const char *probe;         /* NULL until looked for; "" not found */
  const char *root;
  uint32_t timeout_ms;
  bool allow_software, searched, detected;
  accel__plugin_file **file;
  size_t n_files, files_capacity;
  const char **transport; /* files beside them: ACCEL__TRANSPORT_PREFIX "NAME.so" */
  size_t n_transports, transports_capacity;
  accel__entry **entry; /* devices of known plugins */
  size_t n_entries, entries_capacity;
  accel__entry **absent; /* rows for hardware that is not there; after detection */
  size_t n_absent;
  accel__device **composite; /* devices with parts that were asked for */
  size_t n_composites, composites_capacity;
  accel__vendors *vendors; /* NULL until asked for */
};

/* ---- hardware.c ---- */
/* plugins, vendors, self-tests, rows for what is absent; once */
accel_status accel__detect_all(accel__hardware *h, bool refresh);

/* ---- loader.c ---- */
/* fills h->file, once */
accel_status accel__search_plugins(accel__hardware *h);
/* of those searched: "hip-emulated" */
bool accel__is_plugin_name(const accel__hardware *h, const char *name);
/* verdict and devices, once */
accel_status accel__know_plugin(accel__hardware *h, accel__plugin_file *file);
/* into this process; ACCEL_ERROR_DEVICE_UNAVAILABLE */
accel_status accel__open_plugin(accel__hardware *h, accel__plugin_file *file);
/* the plugins whose devices may have names of that stem */
accel_status accel__know_named(accel__hardware *h, const char *stem);
accel_status accel__know_all(accel__hardware *h);
/* "rocm", "rocm6" fit rocm */
bool accel__key_fits(const char *key, const char *stem);
/* of the file this code is in; NULL unknown */
accel_status accel__library_directory(accel__arena *arena, char **out);
/* log, parallel, workers, fault of the context */
void accel__quiet_host(accel__hardware *h, accel_plugin_host *host);

/* ---- devices.c ---- */
accel_status accel__add_devices(accel__hardware *h, accel__plugin_file *file,
                                const accel_plugin_device *facts, const accel_plugin_memory *memory,
                                uint32_t n);
accel_status accel__test_entry(accel__hardware *h, accel__entry *entry,
                               int proof); /* runs it unless it was; ACCEL_OK also for a fail */
/* strings of h->arena */
void accel__quarantine(accel__entry *entry, const char *reason, const char *remedy);
bool accel__name_is_amd(const char *vendors_name);
const char *accel__type_name(uint32_t type);
void accel__normal_address(char *out, size_t n, const char *id); /* lower case, with domain */
const char *accel__hardware_of(const char *stem);                /* "rocm" -> "amd" */
const char *accel__stem_of(const char *hardware);                /* "amd" -> "rocm" */

/* ---- verdict.c ---- */
bool accel__verdict_recall(accel__hardware *h, const accel__entry *entry, int proof, bool wide,
                           accel__proof *result, const char **why); /* false: none is kept */
void accel__verdict_keep(accel__hardware *h, const accel__entry *entry, int proof, bool wide,
                         accel__proof result, const char *why);

/* ---- spawn.c ---- */
typedef struct accel__spawned {
  accel__buffer out, err; /* at most 4 MiB each are kept */
  int exit_code;          /* -1: ended by a signal, or not known */
  int signal;
  bool timed_out;
  int64_t waited_ms;
} accel__spawned;
/* Runs argv[0] (searched in PATH when it has no slash) in a process group of its own, stdin
 * /dev/null; kills the group after timeout_ms, later (at most six times that) where it was slow for
 * want of processors. ACCEL_ERROR_NOT_FOUND when there is no such program, ACCEL_ERROR_IO when it
 * cannot be started. */
accel_status accel__spawn(const char *const *argv, uint32_t timeout_ms, accel__spawned *out);
void accel__spawned_free(accel__spawned *s);

/* ---- helper.c ---- */
const char *accel__find_probe(accel__hardware *h); /* path, "" when there is none */
/* Runs accel-probe with the words; *json is what it printed.  On failure `verdict` says CRASH, HANG
 * or HELPER and `why` a sentence. */
accel_status accel__ask_probe(accel__hardware *h, const char *const *words, accel__json_file *json,
                              accel__verdict *verdict, const char **why);

/* ---- vendors.c, amd.c, amd_sysfs.c, amd_smi.c, variables.c ---- */
accel_status accel__ask_vendors(accel__hardware *h, bool refresh); /* h->vendors */
accel_status accel__amd_sysfs(accel__hardware *h, accel__vendors *v);
accel_status accel__amd_smi(accel__hardware *h, accel__vendors *v);
accel_status accel__amd_conclude(accel__hardware *h, accel__vendors *v);
accel_status accel__amd_access(accel__hardware *h, accel__vendors *v);
accel_status accel__variables(accel__hardware *h, accel__vendors *v);
/* now, from sysfs */
bool accel__amd_memory(const accel__hardware *h, const char *address, accel__gpu *out);
bool accel__gfx_is_integrated(const char *arch);
/* Marks what ROCR_VISIBLE_DEVICES, GPU_DEVICE_ORDINAL, HIP_VISIBLE_DEVICES (else
 * CUDA_VISIBLE_DEVICES) hide; gpu[0..n) in the runtime's order. */
void accel__amd_hide(accel__gpu *gpu, uint32_t n);

/* ---- absent.c ---- */
/* Why devices of this hardware (registry name) cannot be had here and what to do; the four facts as
 * known.  Needs h->vendors. */
typedef struct accel__absence {
  int compiled, loaded, found;
  const char *reason, *remedy;
} accel__absence;
accel_status accel__explain_absence(accel__hardware *h, const char *hardware, accel__absence *out);
accel_status accel__absent_rows(accel__hardware *h); /* h->absent */

/* ---- small ---- */
static inline const char *accel__or_empty(const char *text) { return text ? text : ""; }
#define ACCEL_ALLOC(pointer, arena, count)                               \
  do {                                                                   \
    (pointer) = accel__arena_array((arena), (count), sizeof *(pointer)); \
    if (!(pointer)) return ACCEL_ERROR_OUT_OF_MEMORY;                    \
  } while (0)
#define ACCEL_FORMAT(pointer, arena, ...)                  \
  do {                                                     \
    (pointer) = accel__arena_printf((arena), __VA_ARGS__); \
    if (!(pointer)) return ACCEL_ERROR_OUT_OF_MEMORY;      \
  } while (0)
/* Appends to a list in the arena (an outgrown list stays there until the end). */
#define ACCEL_PUSH(arena, list, n, capacity, item)                                            \
  do {                                                                                        \
    if ((n) == (capacity)) {                                                                  \
      void *grown_ = accel__hardware_grow((arena), (list), (n), &(capacity), sizeof *(list)); \
      if (!grown_) return ACCEL_ERROR_OUT_OF_MEMORY;                                          \
      (list) = grown_;                                                                        \
    }                                                                                         \
    (list)[(n)++] = (item);                                                                   \
  } while (0)
void *accel__hardware_grow(accel__arena *arena, const void *list, size_t n, size_t *capacity,
                           size_t size);

/* ---- composite.c ---- */
/* The device that stands for these parts; the same for the same parts. */
accel_status accel__composite_of(accel__hardware *h, const accel__device_parts *parts,
                                 accel__device **out);

#endif
