/**
 * @file data_parallel.h
 * One model on several devices that share its work: accel_init_params.device "all" (docs/scale.md).
 *
 * Include accel/accel.h, which includes this file.  Such an endpoint is used as any other; here is
 * what its devices have done.
 */
#ifndef ACCEL_DATA_PARALLEL_H
#define ACCEL_DATA_PARALLEL_H

#include "accel/inference.h"

#ifdef __cplusplus
extern "C" {
#endif

/** One of the devices that share the work of an endpoint ("all" of accel_init_params.device), and
 *  what it has done since. */
typedef struct accel_replica_stats {
  /** sizeof(accel_replica_stats) of the caller; then what was filled. */
  uint32_t size;
  /** 1: it takes work.  0: it does not pay, or is not known to, and takes work in trials alone.  -1:
   *  it is lost. */
  int32_t standing;
  /** "cuda:0". */
  const char *device;
  /** Its precision, that of all. */
  const char *precision;
  /** As in accel_placement_report. */
  const char *implementation_type;
  /** Why it is lost; "": it is not.  All four live as long as the endpoint. */
  const char *reason;
  /** Runs of the model with results; of texts that are generated, groups of prompts, in a queue
   *  steps. */
  uint64_t runs;
  /** Texts, prompts, pictures, sounds, pages or tensors in them; what is cut into windows counts once
   *  a window. */
  uint64_t items;
  /** Tokens in them, new ones of generated texts as many as were allowed; of pictures and sounds one
   *  each, of windows that are transcribed samples, of pages words; numbers of the largest input where
   *  tensors were given. */
  uint64_t units;
  /** Runs that failed, or were given up because another device did the same sooner. */
  uint64_t failures;
  /** Runs, or times of rest, by which was measured whether it pays. */
  uint64_t trials;
  /** Seconds in runs. */
  double seconds;
} accel_replica_stats;

/** Devices that share the endpoint's work: 1, unless it was made with the device "all"; 0 for NULL. */
ACCEL_API uint32_t accel_replica_count(const accel_endpoint *endpoint);

/** Fills `out`, whose size the caller has set, for device `i` below accel_replica_count(), in the
 *  order of accel_placement_report.device.  May be called while the endpoint runs.  Of an endpoint
 *  on one device nothing is counted. */
ACCEL_API accel_status accel_replica_statistics(const accel_endpoint *endpoint, uint32_t i,
                                                accel_replica_stats *out);

#ifdef __cplusplus
}
#endif

#endif
