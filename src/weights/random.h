/* random.h - weights from a seed: for tests, benchmarks and models whose weights are not on this
 * machine.
 *
 * Counter-based: a value depends on (seed, name, index) alone, so any piece of a weight can be made
 * anywhere, in any order.
 */
#ifndef ACCEL_WEIGHTS_RANDOM_H
#define ACCEL_WEIGHTS_RANDOM_H

#include <stdint.h>

/* Elements [first, first+count) of weight `name`.  Rank >= 2: uniform with standard deviation
 * 0.02.  Rank 0 or 1: uniform in +-0.02, and around 1 for scales of norms (last component "weight"
 * or "gamma" behind one whose name holds "norm" or begins with "ln"). */
void accel__random_weight(uint64_t seed, const char *name, uint32_t rank, uint64_t first,
                          uint64_t count, float *out);

#endif
