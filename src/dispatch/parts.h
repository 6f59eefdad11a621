/* parts.h - one model over several devices: its program cut into parts (program/cut.h), each an
 * ordinary endpoint of its device's plugin, run one after the other.
 *
 * Towards the rest of the library all parts together look like the endpoint of one plugin: placed.
 * plugin and placed.handle are theirs, sessions fan out.  Values cross in host memory: a part
 * writes them where the next one reads them.  Any number of threads may run at once; what a part
 * cannot do it answers as its plugin does.
 */
#ifndef ACCEL_DISPATCH_PARTS_H
#define ACCEL_DISPATCH_PARTS_H

#include "dispatch/fit.h"

typedef struct accel__parts accel__parts;

/* supports of each part on its device, split by what weights take. */
accel_status accel__parts_supports(accel_endpoint *ep, const accel__device *device,
                                   const accel_plugin_precision *precision);
/* The sum of all parts' numbers, and each part's; it fits when each part does. */
accel_status accel__parts_estimate(accel_endpoint *ep, const accel__device *device,
                                   const accel_plugin_precision *precision,
                                   const accel__source *source, const accel__fit_work *work,
                                   accel__fit *out);

/* Loads all parts of ep->placed, the candidate, whose precision and source are set; sets its
 * plugin, handle, parts and streaming. */
accel_status accel__parts_load(accel_endpoint *ep, const accel__device *device);
/* For the placement report, in the endpoint's arena: the parts, and their name with the layers of
 * each ("vulkan:0=0-11+cpu=12-33"). */
accel_status accel__parts_report(accel_endpoint *ep, const accel__parts *parts);
/* The plugin of part k; NULL: there are fewer. */
const accel_plugin *accel__parts_plugin(const accel__parts *parts, uint32_t k);
/* Each part and what a memory limit leaves it beside weights (planner.h); out[ACCEL__MAX_PARTS].
 * Returns how many there are. */
struct accel__limits_subject;
uint32_t accel__parts_subjects(const accel__parts *parts, struct accel__limits_subject *out);
/* A part of the endpoint runs on the device of this name. */
bool accel__parts_use(const accel__parts *parts, const char *device);
/* Adds up what the parts have read. */
void accel__parts_count_rows(const accel__parts *parts, accel__range_counters *out);
void accel__parts_count_experts(const accel__parts *parts, accel__expert_counters *out);
/* A run begins (accel__row_stream_mark). */
void accel__parts_mark_rows(const accel__parts *parts);
/* Adds up accel__row_stream_read_again of the parts that stream; *any: one does. */
accel_status accel__parts_read_again(const accel__parts *parts, uint64_t *bytes, uint64_t *ns,
                                     bool *any);
/* After a run or call of the endpoint answered ACCEL_ERROR_DEVICE_LOST: loads the parts whose
 * device was lost on one of rest[n], in order; sessions have lost all sequences.  Nothing runs
 * meanwhile.  A line of *said in the endpoint's arena tells what became of it. */
accel_status accel__parts_replace_lost(accel_endpoint *ep, accel__device *const *rest, uint32_t n,
                                       const char **said);

#endif
