/* kit_frame.h - what one run needs to itself (an execution frame): scratch memory, views, the
 * values of dims, row spaces, and the launches prepared for its plan.
 *
 * As many frames exist as runs ever overlapped; up to KIT_IDLE_FRAMES are kept between runs.  A
 * frame remembers the plan it ran last and that plan's launches with their addresses, so that a run
 * of the same shapes (a decode step) only fills in what changes: the caller's inputs and outputs.
 */
#ifndef ACCEL_KIT_FRAME_H
#define ACCEL_KIT_FRAME_H

#include <pthread.h>

#include "kit/kit_constants.h"
#include "kit/kit_internal.h"
#include "kit/kit_memory.h"

enum { KIT_IDLE_FRAMES = 8 };

typedef struct kit_frame {
  struct kit_frame *next;
  void *buffer; /* scratch, on the device or KIT_ALIGN aligned host memory */
  uint64_t capacity;
  accel_plugin_view *in, *out; /* of the caller, as far as this build knows them */
  uint8_t *wanted;             /* [n_out of the entry] */
  int64_t *symbol, *dim;
  kit_rows *rows; /* [n_space] */
  int32_t *start; /* of all row spaces, one after the other */
  uint64_t n_start;
  kit_plan *plan;     /* a reference: what the rest was prepared for; NULL: nothing is prepared */
  kit_tensor *tensor; /* operands and results of all launches, those fused included */
  kit_launch *launch; /* [plan.n_step] */
  uint32_t *caller;   /* [n_caller] indices of those in the caller's memory: located in every run */
  uint32_t n_caller;
  uint64_t n_tensor, n_launch; /* capacities */
} kit_frame;

typedef struct kit_frame_pool {
  pthread_mutex_t lock;
  kit_frame *idle;
  uint32_t n_idle;
  const accel_plugin_program *program;
  kit_memory *memory;
  const kit_constants *constants; /* of the endpoint */
} kit_frame_pool;

void kit_frame_pool_init(kit_frame_pool *pool, const accel_plugin_program *program,
                         kit_memory *memory, const kit_constants *constants);
void kit_frame_pool_destroy(kit_frame_pool *pool); /* no run is under way */
/* The idle frame with the most scratch, or a new one; NULL: no memory. */
kit_frame *kit_frame_take(kit_frame_pool *pool);
void kit_frame_give(kit_frame_pool *pool, kit_frame *frame);
/* Frees the idle frames; returns the bytes of their scratch. */
uint64_t kit_frame_pool_trim(kit_frame_pool *pool);

/* Scratch of at least `bytes`.  Host or device memory running out, or the limit: an error that says
 * so. */
int32_t kit_frame_scratch(kit_frame_pool *pool, kit_frame *frame, uint64_t bytes,
                          const accel_plugin_host *host, accel_plugin_error *error);
/* Takes over the caller's reference to `plan`, which becomes frame->plan, and prepares its launches
 * in the frame's scratch.  On failure nothing is prepared. */
int32_t kit_frame_prepare(kit_frame_pool *pool, kit_frame *frame, kit_plan *plan,
                          const accel_plugin_host *host, accel_plugin_error *error);
/* Addresses of the tensors in the caller's memory, from frame->in and frame->out. */
void kit_frame_locate_caller(const kit_frame_pool *pool, kit_frame *frame);
/* Gives one tensor of frame->plan its address. */
void kit_frame_locate(const kit_frame_pool *pool, const kit_frame *frame, kit_tensor *t);

static inline void *kit_view_data(const accel_plugin_view *v) {
  return v->host ? v->host : (char *)v->device + v->offset;
}

#endif
