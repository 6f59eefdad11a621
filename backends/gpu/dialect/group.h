/* group.h - reductions over a workgroup by halving, in one order whatever the wave. */
#ifndef GPU_GROUP_H
#define GPU_GROUP_H

#define GROUP_SUM(a, v)                                             \
  a[LANE] = v;                                                      \
  BARRIER;                                                          \
  for (int gpu_s = LOCAL_SIZE / 2; gpu_s > 0; gpu_s = gpu_s / 2) {  \
    if (LANE < gpu_s) a[LANE] = a[LANE] + a[LANE + gpu_s];          \
    BARRIER;                                                        \
  }                                                                 \
  v = a[0];                                                         \
  BARRIER

#define GROUP_MAX(a, v)                                             \
  a[LANE] = v;                                                      \
  BARRIER;                                                          \
  for (int gpu_s = LOCAL_SIZE / 2; gpu_s > 0; gpu_s = gpu_s / 2) {  \
    if (LANE < gpu_s) a[LANE] = fmax(a[LANE], a[LANE + gpu_s]);     \
    BARRIER;                                                        \
  }                                                                 \
  v = a[0];                                                         \
  BARRIER

#endif
