/* reduce.h - what the reductions share.  Kinds are accel_plugin_reduce's: 1 sum, 2 mean, 3 max, 4
 * min, 5 argmax, 6 first, 7 last. */
#ifndef GPU_REDUCE_H
#define GPU_REDUCE_H

/* By its bits: compilers may think that x != x is never true. */
FUNCTION int gpu_is_nan(float x) { return (AS_UINT(x) & 0x7fffffffu) > 0x7f800000u ? 1 : 0; }

/* Does v come before best?  NaN before all, then by kind. */
FUNCTION int gpu_beats(int kind, float v, float best) {
  if (gpu_is_nan(best) != 0) return 0;
  if (gpu_is_nan(v) != 0) return 1;
  return (kind == 4 ? v < best : v > best) ? 1 : 0;
}

#endif
