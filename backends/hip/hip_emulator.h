/* hip_emulator.h - runs the dialect's kernels on this machine's processor, lane by lane, and
 * watches them: the third provider beside HIP and CUDA. Read by C (hip_emulator.c) and by the
 * kernels' C++ (gpu/dialect/dialect_emulator.h).
 *
 * Every lane of a block is a fiber. Lanes run in an order that may be forward, reverse or
 * shuffled; each runs until a BARRIER and the block goes on when all of its lanes stand at the
 * same one. A kernel that is right gives the same results in every order. Reported as an error
 * that names kernel, group, lane and line, never as an abort:
 *  - an element outside the range bound, of a buffer or a shared array;
 *  - lanes at different barriers, or one at a barrier and one at the end;
 *  - a shared element that two lanes touch between two barriers, one of them writing: on a GPU a
 *    race.
 * Shared memory begins as NaN in every block, memory of the device as NaN when it is allocated.
 * What it cannot show: reordering of memory within a wave, registers, a vendor's rounding of exp
 * and the like, speed. */
#ifndef ACCEL_HIP_EMULATOR_H
#define ACCEL_HIP_EMULATOR_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct emulated_lane {
  int32_t group[3], groups[3], lane;
} emulated_lane;

typedef struct emulated_buffer {
  void *data;
  uint64_t bytes;
} emulated_buffer;

/* who touched a shared element since the last barrier; lanes count from 1 */
typedef struct emulated_shadow {
  uint32_t epoch;
  uint16_t writer, reader; /* reader 0xffff: several */
} emulated_shadow;

typedef void (*emulated_body)(const emulated_lane *lane, const emulated_buffer *buffer,
                              const void *params, void *shared, emulated_shadow *shadow);
typedef struct emulated_kernel {
  const char *name;
  emulated_body body;
  uint32_t local_size, n_bind, params_bytes;
  uint32_t shared_bytes, shared_elements; /* each element has a shadow */
} emulated_kernel;

typedef enum emulated_order {
  EMULATED_FORWARD,
  EMULATED_REVERSE,
  EMULATED_SHUFFLED
} emulated_order;

/* stacks and shared memory, kept from launch to launch; for one thread at a time */
typedef struct emulator emulator;
emulator *emulator_new(void); /* NULL: no memory */
void emulator_free(emulator *e);

typedef struct emulated_launch {
  const emulated_kernel *kernel;
  uint32_t groups[3];
  const emulated_buffer *buffer; /* [n_bind] */
  const void *params;
  uint32_t wave; /* lanes scheduled together: 32 or 64 */
  emulated_order order;
  uint32_t seed; /* of shuffled orders */
} emulated_launch;
/* 0, or -1 with why[n] filled. */
int emulator_run(emulator *e, const emulated_launch *launch, char *why, size_t n);

/* ---- called by kernels; those that find a fault do not return to their lane ---- */
void emulated_barrier(const char *file, int line);
/* The registers of a wave's lanes, as its matrix unit sees them: every lane of the block hands in n
 * (at most EMULATED_REGISTERS) and waits for the others; then [wave] lanes' registers, to be read
 * until emulated_exchanged.  Waves of another size are a fault. */
enum { EMULATED_REGISTERS = 16 };
const uint32_t (*emulated_exchange(uint32_t wave, const uint32_t *mine, uint32_t n,
                                   const char *file, int line))[EMULATED_REGISTERS];
void emulated_exchanged(const char *file, int line);
void emulated_outside(const char *what, int64_t index, uint64_t elements, const char *file,
                      int line); /* file NULL: unknown */
void emulated_race(const char *what, uint64_t index, const emulated_shadow *before,
                   const char *doing);
/* counts barriers: shadows of an earlier one say nothing */
extern __thread uint32_t emulated_epoch;

/* Lane `me` (from 1) reads or writes the element of this shadow. */
static inline void emulated_read(emulated_shadow *s, uint32_t me, const char *what,
                                 uint64_t index) {
  if (s->epoch != emulated_epoch) {
    s->epoch = emulated_epoch;
    s->writer = 0;
    s->reader = (uint16_t)me;
    return;
  }
  if (s->writer && s->writer != me) emulated_race(what, index, s, "reads");
  s->reader = (uint16_t)(s->reader && s->reader != me ? 0xffff : me);
}
static inline void emulated_write(emulated_shadow *s, uint32_t me, const char *what,
                                  uint64_t index) {
  if (s->epoch != emulated_epoch) {
    s->epoch = emulated_epoch;
    s->reader = 0;
  } else if ((s->writer && s->writer != me) || (s->reader && s->reader != me)) {
    emulated_race(what, index, s, "writes");
  }
  s->writer = (uint16_t)me;
}

#ifdef __cplusplus
}
#endif
#endif
