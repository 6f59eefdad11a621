/**
 * @file comm.h
 * What a transport between the ranks of a tensor-parallel group implements.
 *
 * A transport is a shared object `libdir/accel/<ABI major>/libaccel_comm_<name>.so` with one
 * exported symbol, ACCEL_COMM_QUERY_SYMBOL, which answers a constant table.  The core opens the
 * one that accel_params.transport names and makes all of its calls from one thread at a time.
 *
 * Every function but `abort` is a collective: each rank makes the same calls in the same order, and
 * a call returns when this rank's part is done.  Kind, tag and size must be alike on all ranks.
 * Where they are not (one rank has failed and says so in the place of what the others await), every
 * rank gets ACCEL_COMM_E_MISMATCH from this call, data are undefined, and the next call begins
 * anew.
 *
 * A rank that died makes every waiting call of the others, and all later ones, ACCEL_COMM_E_LOST in
 * less than two seconds.  A slow one is waited for.
 *
 * A transport between devices (NCCL, RCCL) sums what lies in their memory.  It carries everything
 * else over a second transport, which the same ranks have opened before (`over`).
 */
#ifndef ACCEL_COMM_H
#define ACCEL_COMM_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/** ABI of this header: transports and core with different ones never meet. */
#define ACCEL_COMM_ABI 2u
/** Name of the one exported function, an accel_comm_query_fn. */
#define ACCEL_COMM_QUERY_SYMBOL "accel_comm_query"
/** Most ranks of a group. */
#define ACCEL_COMM_MAX_WORLD 64u

/** Result codes. */
typedef enum accel_comm_rc {
  ACCEL_COMM_OK = 0,          /**< success */
  ACCEL_COMM_E_MISMATCH = -1, /**< the ranks do not make the same call */
  ACCEL_COMM_E_LOST = -2,     /**< a rank is gone, or has called abort: for good */
  ACCEL_COMM_E_SYSTEM = -3,   /**< open: no memory, no such file, a wrong world; `why` says it */
  ACCEL_COMM_E_HOST = -4      /**< allreduce_device: only through host memory, on all ranks */
} accel_comm_rc;

/** A group as one of its ranks sees it.  The transport's own. */
typedef struct accel_comm accel_comm;
/** What a transport is: below. */
typedef struct accel_comm_transport accel_comm_transport;

/** How a group is opened. */
typedef struct accel_comm_options {
  /** sizeof(accel_comm_options) of the core. */
  uint32_t size;
  /** Which of the ranks this is. */
  uint32_t rank;
  /** How many ranks, 2 to ACCEL_COMM_MAX_WORLD. */
  uint32_t world;
  /** Milliseconds to wait for the other ranks. */
  uint32_t timeout_ms;
  /** Name of the group, the same on all ranks; letters, digits, "-", "_", ".".  Transports whose
   *  launcher says who belongs together leave it aside. */
  const char *job;
  /** Of a transport whose needs_over is set: the other one, and the group that the same ranks have
   *  opened with it; both outlive this group.  NULL otherwise. */
  const accel_comm_transport *over;
  /** The group of `over`. */
  accel_comm *over_comm;
} accel_comm_options;

/** What a transport is.  Constant, lives as long as the process. */
struct accel_comm_transport {
  /** sizeof(accel_comm_transport) of the transport. */
  uint32_t size;
  /** ACCEL_COMM_ABI it was built with. */
  uint32_t abi;
  /** "shm", "openmpi" ... */
  const char *name;
  /** Joins the group, and returns when all ranks have.  On failure why[why_bytes] says what is wrong
   *  in a sentence, and *out is NULL. */
  int32_t (*open)(const accel_comm_options *options, accel_comm **out, char *why, size_t why_bytes);
  /** Leaves the group; NULL: does nothing. */
  void (*close)(accel_comm *comm);
  /** data[i] becomes the sum of all ranks' data[i], added in the order of the ranks: every rank gets
   *  the same bits, in every run. */
  int32_t (*allreduce)(accel_comm *comm, float *data, uint64_t n, uint32_t tag);
  /** bytes[n] of rank 0 come to all ranks. */
  int32_t (*broadcast)(accel_comm *comm, void *bytes, uint64_t n, uint32_t tag);
  /** Ends the group for all ranks: what they wait for is ACCEL_COMM_E_LOST. */
  void (*abort)(accel_comm *comm);

  /* What transports may leave out: 0 and NULL. */

  /** ACCEL_COMM_E_LOST: a rank is gone, or has called abort.  No collective; from any thread, while
   *  other calls run.  NULL: whoever started the ranks sees to that. */
  int32_t (*look)(accel_comm *comm);
  /** 1: is opened over another transport (accel_comm_options.over). */
  uint32_t needs_over;
  /** Whose memory allreduce_device sums: "cuda", "hip". */
  const char *device_api;
  /** As allreduce, of n floats in the memory of the device that is current on this thread, number
   *  `device` of device_api: in the order of `stream` (a CUstream, a hipStream_t), and the call
   *  returns when it is on its way.  All ranks get the same bits, in the library's own
   *  order.  ACCEL_COMM_E_HOST, on all ranks alike, with the data as they were: these devices have
   *  no way between them, and why[why_bytes] says so (empty: it was said before). */
  int32_t (*allreduce_device)(accel_comm *comm, uint32_t device, void *stream, void *data,
                              uint64_t n, uint32_t tag, char *why, size_t why_bytes);
};

/** The one exported function; NULL: the transport has another ABI than the core. */
typedef const accel_comm_transport *(*accel_comm_query_fn)(uint32_t core_abi);

#ifdef __cplusplus
}
#endif
#endif
