/* conv_implicit.h - convolutions over pairs of channels that read the image where it lies, by tile
 * registers: the blocks that an image is cut into, and what of one lies in the workspace.
 * cpu_conv_weights.c packs by it, cpu_conv.c counts the blocks, conv_implicit_amx.c works through
 * them. */
#ifndef ACCEL_CPU_CONV_IMPLICIT_H
#define ACCEL_CPU_CONV_IMPLICIT_H

#include <stdbool.h>

#include "kernels/kernels.h"

/* As cpu_conv_pairs_fn, with stride 1 and a kernel that cpu_implicit_fits.  w is [tiles][steps of 32
 * channels][taps][CPU_PAIRS_ROWS / 16][CPU_PAIRS_UNIT][16][2] bf16, missing channels and rows zeros;
 * the range counts blocks of cpu_implicit_plan_of. */
typedef cpu_conv_fn cpu_conv_implicit_fn;
cpu_conv_implicit_fn accel_f32_conv_implicit_32x32__amx;
/* The one of these kernels, only tile registers have it; NULL: none (cpu_isa.c). */
cpu_conv_implicit_fn *cpu_conv_implicit_of(const cpu_kernels *kernels);

enum {
  CPU_IMPLICIT_HALO = 64,  /* pixels that a kernel reaches over in each direction, at most */
  CPU_IMPLICIT_LEAST = 512 /* pixels of a block that more channels at a time do not go below */
};

/* Steps of 32 channels. */
static inline int64_t cpu_implicit_steps(int64_t channels) {
  return (channels + 2 * CPU_PAIRS_UNIT - 1) / (2 * CPU_PAIRS_UNIT);
}

/* Whether such a convolution pays: of several taps, without stride, and with few zeros beside its
 * channels. */
static inline bool cpu_implicit_fits(const kit_plane *p, int64_t channels) {
  for (int i = 0; i < 2; i++)
    if (p->stride[i] != 1 || (p->kernel[i] - 1) * p->dilation[i] > CPU_IMPLICIT_HALO) return false;
  if (p->kernel[0] * p->kernel[1] < 2) return false;
  return 8 * CPU_PAIRS_UNIT * cpu_implicit_steps(channels) <= 5 * channels;
}

typedef struct cpu_implicit_plan {
  int64_t lines, width;   /* pixels of a block, at the edges fewer; width: of whole registers */
  int64_t across, blocks; /* in a row of blocks, in all */
  int64_t pitch;          /* pixels of a line with what the kernel sees around it */
  int64_t steps;          /* of 32 channels that are laid out at a time */
} cpu_implicit_plan;

static inline int64_t cpu_implicit_whole(int64_t pixels) {
  return (pixels + CPU_PAIRS_UNIT - 1) / CPU_PAIRS_UNIT * CPU_PAIRS_UNIT;
}

/* The pitch, and how many steps the workspace has room for, of blocks of lines and width. */
static inline int64_t cpu_implicit_room(const kit_plane *p, cpu_implicit_plan *plan) {
  const int64_t seen = plan->lines + (p->kernel[0] - 1) * p->dilation[0];
  plan->pitch = cpu_implicit_whole(plan->width + (p->kernel[1] - 1) * p->dilation[1]);
  return CPU_CONV_WORKSPACE / (seen * CPU_PAIRS_UNIT * plan->pitch);
}

/* `parts` equal parts of n, as few as are not above `most`. */
static inline int64_t cpu_implicit_part(int64_t n, int64_t most) {
  const int64_t parts = (n + most - 1) / most;
  return parts ? (n + parts - 1) / parts : 1;
}

/* Blocks that are about as high as a quarter of their width, so that little is laid out twice. */
static inline cpu_implicit_plan cpu_implicit_plan_of(const kit_plane *p, int64_t channels) {
  const int64_t all = cpu_implicit_steps(channels);
  cpu_implicit_plan plan = {.lines = cpu_implicit_part(p->out[0], 16)};
  int64_t most = CPU_CONV_MOST / plan.lines / CPU_PAIRS_UNIT * CPU_PAIRS_UNIT, room;
  for (;;) {
    plan.width = cpu_implicit_whole(cpu_implicit_part(p->out[1], most));
    room = cpu_implicit_room(p, &plan);
    if (room >= all || (room > 0 && plan.lines * plan.width <= CPU_IMPLICIT_LEAST)) break;
    if (plan.lines > 1 && 4 * plan.lines >= plan.width)
      plan.lines = cpu_implicit_part(p->out[0], (plan.lines + 1) / 2);
    else if (plan.width > CPU_PAIRS_UNIT)
      most = cpu_implicit_whole(plan.width / 2);
    else
      break;
  }
  plan.steps = cpu_implicit_part(all, room < 1 ? 1 : room);
  plan.across = (p->out[1] + plan.width - 1) / plan.width;
  plan.blocks = plan.across * ((p->out[0] + plan.lines - 1) / plan.lines);
  return plan;
}

#endif
