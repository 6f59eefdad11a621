/* dialect_group.h - reductions over a workgroup: by halving, in one order whatever the wave, or
 * (-DSUB_GROUPS, the kernels *_sub of gpu_kernels.def) by the device's own sums over its
 * sub-groups, whose results every lane then joins in order; and EARLY and EARLY4 for APIs that have none
 * of their own. */
#ifndef GPU_DIALECT_GROUP_H
#define GPU_DIALECT_GROUP_H

#ifndef EARLY
#define EARLY(ok, n, i, zero) ((ok) ? AT(n, i) : zero)
#endif
#ifndef EARLY4
#define EARLY4(ok, n, i, to, at) \
  UNROLL for (int gpu_w = 0; gpu_w < 4; gpu_w++) to[(at) + gpu_w] = EARLY(ok, n, (i) + gpu_w, 0u)
#endif

#ifdef SUB_GROUPS
#define GPU_PLUS(x, y) ((x) + (y))
#define GROUP_BY_SUBS(a, v, within, join)                                                   \
  v = within(v);                                                                            \
  if (SUB_FIRST) a[SUB_GROUP] = v;                                                          \
  BARRIER;                                                                                  \
  v = a[0];                                                                                 \
  for (int gpu_s = 1; gpu_s < SUB_GROUPS_HERE; gpu_s = gpu_s + 1) v = join(v, a[gpu_s]);    \
  BARRIER
#define GROUP_SUM(a, v) GROUP_BY_SUBS(a, v, SUB_SUM, GPU_PLUS)
#define GROUP_MAX(a, v) GROUP_BY_SUBS(a, v, SUB_MAX, fmax)
#else
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

#endif
