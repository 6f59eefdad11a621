/* wgp_page.h - WebGPU in a web page: what the module and the browser's worker (src/browser/accel-gpu.js)
 * share.
 *
 * A page's WebGPU answers by promises, and a plugin's call returns when its result is there.  So the
 * objects live in a worker of their own, and every wgpu* call is a record in a ring in the module's
 * memory.  Most calls need no answer: handles are numbers that the module chooses.  Those that do
 * carry the address of a wgp_reply, and the calling thread sleeps until the worker has filled it.
 *
 * The worker reads this memory by number: a change of these layouts or of WGP_CALLS is one there. */
#ifndef ACCEL_WEBGPU_WGP_PAGE_H
#define ACCEL_WEBGPU_WGP_PAGE_H

#include <stdatomic.h>
#include <stdint.h>

enum {
  WGP_RING = 1 << 16,  /* words of the ring */
  WGP_RECORD = 256,    /* words of a record, at most */
  WGP_MESSAGE = 400,   /* bytes of a message, its zero among them */
  WGP_PAGE_LIMITS = 9, /* wgp_page_adapter.limits */
};

/* The records, by their first word: (words << 8) | call.  SKIP: the rest of the ring is empty. */
#define WGP_CALLS(CALL) \
  CALL(SKIP)            \
  CALL(ADAPTER)         \
  CALL(DEVICE)          \
  CALL(RELEASE)         \
  CALL(BUFFER)          \
  CALL(MAP)             \
  CALL(SHADER)          \
  CALL(GROUP_LAYOUT)    \
  CALL(PIPELINE_LAYOUT) \
  CALL(PIPELINE)        \
  CALL(BIND_GROUP)      \
  CALL(ENCODER)         \
  CALL(COPY)            \
  CALL(FINISH)          \
  CALL(PASS)            \
  CALL(SET_PIPELINE)    \
  CALL(SET_GROUP)       \
  CALL(DISPATCH)        \
  CALL(END)             \
  CALL(WRITE)           \
  CALL(SUBMIT)          \
  CALL(POLL)

typedef enum wgp_call {
#define CALL(name) WGP_CALL_##name,
  WGP_CALLS(CALL)
#undef CALL
} wgp_call;

typedef struct wgp_reply {
  _Atomic uint32_t done; /* the worker sets it last, and wakes who waits at it */
  uint32_t error;        /* WGPUErrorType; 0: none */
  char message[WGP_MESSAGE];
} wgp_reply;

/* What the worker tells of the browser's adapter. */
typedef struct wgp_page_adapter {
  wgp_reply reply;
  uint32_t software; /* 1: a fallback adapter */
  char name[96], vendor[64];
  double limits[WGP_PAGE_LIMITS]; /* in the order of the worker's LIMITS */
} wgp_page_adapter;

typedef struct wgp_ring {
  _Atomic uint32_t written, read; /* words since the beginning; either is waited at */
  _Atomic uint32_t attached;      /* the worker reads the ring */
  _Atomic uint32_t lost;          /* devices that the browser has taken back */
  uint32_t words[WGP_RING];
} wgp_ring;

/* The module's ring, for the worker that starts the browser's. */
wgp_ring *accel_browser_gpu_ring(void);

#endif
