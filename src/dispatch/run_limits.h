/* run_limits.h - what runs may take under a memory limit. */
#ifndef ACCEL_DISPATCH_RUN_LIMITS_H
#define ACCEL_DISPATCH_RUN_LIMITS_H

#include <stdint.h>

/* run_bytes 0: there is no limit.  The others are of generations; state_bytes 0: none is planned. */
typedef struct accel__run_limits {
  uint64_t run_bytes;    /* beside the weights: activations, results and states */
  uint64_t state_bytes;  /* of all sequences together */
  uint64_t per_token;    /* bytes of a sequence's states */
  uint64_t per_sequence; /* of one sequence beside its tokens: fixed states, its scores */
  uint32_t page_rows;    /* tokens of a sequence are counted in pages of so many */
  uint32_t step_tokens;  /* most tokens of one step */
} accel__run_limits;

/* Bytes that so many sequences of so many tokens each take, of a limit that there is. */
static inline uint64_t accel__run_limits_need(const accel__run_limits *l, uint64_t tokens,
                                              uint64_t sequences) {
  const uint64_t pages = (tokens + l->page_rows - 1) / l->page_rows;
  return sequences * (pages * l->page_rows * l->per_token + l->per_sequence);
}

#endif
