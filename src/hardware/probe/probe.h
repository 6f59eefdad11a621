/* probe.h - inside accel-probe: what one question to a vendor's library gives, and how it is
 * printed.
 *
 * The helper dlopens vendor libraries with declarations of its own (nothing is linked, no header of
 * theirs is needed), asks for versions and devices, prints one JSON object and ends.  A crash or a
 * hang here is seen by the library as a reason.
 */
#ifndef ACCEL_HARDWARE_PROBE_PROBE_H
#define ACCEL_HARDWARE_PROBE_PROBE_H

#include <stdint.h>

#include "core/text.h"

enum { PROBE_MAX_DEVICES = 64 };

typedef struct probe_device {
  char name[128], arch[32], id[48] /* PCI address */, uuid[64], platform[96], driver[96];
  const char *type; /* "discrete", "integrated", "software", "cpu", "other", "" unknown */
  uint64_t memory_total;
  uint32_t units, wave;
} probe_device;

typedef struct probe_report {
  const char *vendor;
  char library[128]; /* the file name that loaded; "" when none did */
  char version[64];  /* of the runtime or interface */
  char driver[96];
  char error[400]; /* "" when the question was answered, even by "no devices" */
  char remedy[240];
  uint32_t n;
  probe_device device[PROBE_MAX_DEVICES];
} probe_report;

/* Each fills the report; none returns a code: a failure is a filled `error`. */
void probe_hip(probe_report *r);
void probe_hsa(probe_report *r);
void probe_cuda(probe_report *r);
void probe_opencl(probe_report *r);
void probe_vulkan(probe_report *r);
void probe_openvino(probe_report *r);
void probe_qualcomm(probe_report *r);
void probe_webgpu(probe_report *r);

/* Plugins: `accel-probe plugin PATH` and `accel-probe test PATH INDEX PRECISION [ops]`. */
void probe_plugin(const char *path, accel__buffer *json);
void probe_plugin_test(const char *path, uint32_t index, const char *precision, bool ops,
                       accel__buffer *json);

/* Tells the library what is about to happen, so that a crash or hang has a place. */
void probe_stage(const char *what);

/* The first of names[0..n) (NULL-terminated) that dlopens; r->library is set, or r->error and
 * r->remedy from the loader's sentences. */
void *probe_open(probe_report *r, const char *const *names, const char *remedy);
/* dlsym into a function pointer variable; false sets r->error. */
bool probe_symbol(probe_report *r, void *library, const char *name, void *function_pointer);
bool probe_optional(void *library, const char *name, void *function_pointer);
probe_device *probe_add(probe_report *r); /* NULL when full */
void probe_lower(char *text);

#endif
