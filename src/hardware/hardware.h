/* hardware.h - what this machine can run on: plugins found and loaded, their devices, and why the
 * rest is not there.
 *
 *   accel__hardware *h;
 *   accel__hardware_create(&params, &h);            one for each context; cheap, looks at nothing
 *   accel__choice choice;
 *   accel__hardware_choose(h, "rocm:0,cpu", &choice);
 *   for each choice.device[i], in order:
 *     accel__device_test(h, device), then plugin->supports, plugin->init ...
 *   accel__choice_free(&choice);
 *   accel__hardware_destroy(&h);
 *
 * Nothing is looked at before it is asked for: "cpu" opens one plugin file and starts no process.
 * Every plugin but `cpu` and `reference` (which touch no driver) is first opened, asked for its
 * devices and self-tested in the helper program accel-probe; what crashes, hangs or answers
 * nonsense there becomes a reason, and is never opened here.
 *
 * Plugins are looked for as libaccel_*.so in: params.plugin_path or ACCEL_PLUGIN_PATH (then nowhere
 * else; ignored in a privileged process), else `accel/<ABI major>/` beside the file that holds this
 * code, then the compiled-in ACCEL_PLUGIN_DIR. Never in the current directory.  The first good
 * plugin of a name wins; every path tried is kept with its verdict.
 *
 * Threads: every function here may be called from any thread; calls on one accel__hardware wait for
 * each other.
 */
#ifndef ACCEL_HARDWARE_HARDWARE_H
#define ACCEL_HARDWARE_HARDWARE_H

#include <stdbool.h>
#include <stdint.h>

#include "accel/accel.h"
#include "accel/comm.h"
#include "accel/plugin.h"
#include "core/arena.h"
#include "core/log.h"
#include "core/status.h"
#include "core/threads.h"
#include "hardware/device_parts.h"
#include "weights/cache.h"

typedef struct accel__hardware accel__hardware;

typedef struct accel__hardware_params { /* {0}: all defaults */
  /* colon-separated directories; NULL: ACCEL_PLUGIN_PATH, else the standard places.  Copied */
  const char *plugin_path;
  /* `auto` and `gpu` may choose software devices (also: ACCEL_ALLOW_SOFTWARE) */
  bool allow_software;
  const accel__log *log; /* outlives the object; may be NULL */
  /* lent to self-tests in this process; outlives the object; may be NULL: one thread */
  accel__pool *pool;
  /* where verdicts of self-tests are kept between processes; outlives the object; may be NULL */
  const accel__cache *cache;
  /* the helper program; NULL: ACCEL_PROBE, else beside the library's prefix, else
   * ACCEL_PROBE_PATH */
  const char *probe;
  /* 0: 10000.  Up to six times as long where processors are what it waits for */
  uint32_t probe_timeout_ms;
  /* put in front of /sys, /dev and /etc (tests); NULL: ACCEL_DETECT_ROOT, else "" */
  const char *root;
} accel__hardware_params;

/* ACCEL_ERROR_OUT_OF_MEMORY only. */
accel_status accel__hardware_create(const accel__hardware_params *params, accel__hardware **out);
/* NULL-safe; devices, names and tables die with it, loaded code stays */
void accel__hardware_destroy(accel__hardware **hardware);

/* The transport of this name among the plugins' files.  ACCEL_ERROR_NOT_FOUND lists those there are;
 * ACCEL_ERROR_DEVICE_UNAVAILABLE: it does not open. */
accel_status accel__hardware_transport(accel__hardware *h, const char *name,
                                       const accel_comm_transport **out);

struct accel__device;
/* The devices that one model is placed over, first layers first. */
typedef struct accel__device_parts {
  uint32_t n;
  struct accel__device *device[ACCEL__MAX_PARTS];          /* plain ones; one may come twice */
  int32_t first[ACCEL__MAX_PARTS], last[ACCEL__MAX_PARTS]; /* layers; -1: left to the planner */
} accel__device_parts;

/* One device of a loaded plugin, several that a model is placed over, or one kind of hardware that
 * is not there.  Lives until accel__hardware_destroy, also across a refresh.  `tested`, `usable`,
 * `reason` and `remedy` of info change when accel__device_test runs. */
typedef struct accel__device {
  accel_device_info info; /* as the public header has it; info.name is "rocm:0" */
  /* full table: slots that an older plugin lacks are NULL.  NULL when the hardware is not there,
   * and of several devices */
  const accel_plugin *plugin;
  const char *plugin_path;   /* the plugin's file; "" when there is none */
  uint32_t index;            /* the plugin's number of the device */
  accel_plugin_device facts; /* as the plugin gave them */
  /* the same for all routes to one physical card; 0: not known to share */
  uint32_t card;
  /* NULL: one device.  Else info.name is "vulkan:0=0-11+cpu=12-33", facts has what all of them have */
  const accel__device_parts *parts;
} accel__device;

/* The answer to a device string. */
typedef struct accel__choice {
  uint32_t n;
  accel__device *const *device; /* to try in this order; no reason against them is known so far */
  uint32_t n_reasons;
  /* "rocm:0: no libamdhip64.so.7 ...": one for each name or device passed over */
  const char *const *reason;
  accel__arena arena; /* of the lists; the devices belong to the hardware object */
} accel__choice;

/* Which devices a user's string means.  It is a list of names, separated by commas and tried in
 * this order, in any letter case; NULL or "": "cpu".
 *
 *   auto              the best device: ROCm, CUDA, OpenCL, Vulkan, other plugins, then the CPU.
 *                     No software devices (unless allowed); a card once, by its best route
 *   gpu               the real GPUs, in that order
 *   gpu:N             the N-th card
 *   cpu, rocm, ...    the devices of a plugin, best first: discrete, integrated, other, software
 *   rocm:N            one device of a plugin by its number,
 *   rocm:ID           by its id (PCI address or UUID),
 *   vulkan:NAME       or by a part of its name
 *   pci:ADDRESS       every route to the card at that address; "0000:" may be left off
 *   A+B, A=0-3+B=4-7  one model over the first device of each name (device_parts.h)
 *
 * Hardware names of the registry and their aliases (registry/hardware.json) work, too: amd is rocm
 * and hip, nvidia is cuda ...
 *
 * ACCEL_OK: choice.n >= 1.  ACCEL_ERROR_DEVICE_UNAVAILABLE: nothing named can serve; the message
 * gives each reason, the remedy
 *   names devices that can ("rocm:0").
 * ACCEL_ERROR_ARGUMENT: a name that means no hardware at all.
 * On failure the choice's reasons are filled, too. */
accel_status accel__hardware_choose(accel__hardware *hardware, const char *wanted,
                                    accel__choice *out);
void accel__choice_free(accel__choice *choice);

/* Whether the string asks for several devices at once, each with the whole model: "all", or "all:"
 * with names. */
bool accel__wants_all(const char *wanted);
/* Which ones it means, in any letter case; all of them can serve as far as is known:
 *
 *   all               what `auto` would try, a card once
 *   all:cuda          the devices of a plugin; any name of above but auto and A+B
 *   all:gpu           the real GPUs, a card once
 *   all:cpu+vulkan:0  several names
 *
 * Failures as of accel__hardware_choose; a name of which no device can serve is one. */
accel_status accel__hardware_choose_all(accel__hardware *hardware, const char *wanted,
                                        accel__choice *out);

/* Runs a tiny program at fp32 on the device, on cards also a case of every op (ACCEL_SELFTEST=full:
 * on every device, =short: on none), and compares with known numbers: at most once for each device,
 * plugin and driver, the verdict is kept. ACCEL_ERROR_DEVICE_UNAVAILABLE: it failed, or the device
 * is not usable for another reason; `info` has it, too. */
accel_status accel__device_test(accel__hardware *hardware, accel__device *device);
/* The same (without the ops) for another precision: ACCEL_ERROR_PRECISION with the reason when the
 * device cannot or computes wrongly. */
accel_status accel__device_test_precision(accel__hardware *hardware, accel__device *device,
                                          const char *precision);

/* Memory now, in bytes; 0: not known.  Of several devices: the sum, each card once.  Real AMD
 * cards: total and free are the smaller of what the driver and sysfs say (other programs' use
 * counts).  CPU and software devices: no more than the memory cgroup of this process (a container's
 * limit) leaves. */
accel_status accel__device_memory(accel__hardware *hardware, const accel__device *device,
                                  accel_plugin_memory *out);
/* Bytes of the machine's main memory that this process may still take; 0: not known. */
uint64_t accel__host_memory(const accel__hardware *hardware);

/* The version of a hardware's runtime (ROCm's, CUDA's, OpenCL's, Vulkan's) and of the driver under
 * it, as the vendors' software tells them; "" when it does not, or there is none.  name: one of the
 * registry's or their aliases, or a plugin's. malloc'd; asks the helper once. */
accel_status accel__runtime_version(accel__hardware *hardware, const char *name, char **version,
                                    char **driver);

/* Everything a user can have, usable or not: devices of all plugins, then the hardware that is not
 * there, self-tests run. Kept until refresh.  The list is a copy of its own, to be freed with
 * accel__devices_free. */
accel_status accel__hardware_detect(accel__hardware *hardware, bool refresh, accel_devices **out);
void accel__devices_free(accel_devices **devices); /* is accel_devices_free */
/* {"schema":"accel.detect/1",...}: the capability dictionary, docs/detect.md.  malloc'd. */
accel_status accel__detect_json(accel__hardware *hardware, bool refresh, char **json);

#endif
