/* codes.h - what products of codes share: y = act((x . w^T) * xf[row] * wf[column] + bias) +
 * residual, where x and w are signed bytes, four to a word, and their sums whole numbers: the same
 * in every order, so that all of these kernels give the same numbers.  The kernel has the buffers
 * and parameters of CODES_BUFFERS and CODES_PARAMS, all of them the same list; only products of
 * halves read segment.  flags: 1 bias, 2 residual.  scale: wf as words, one for P(group_n) rows of
 * the whole matrix; y_first: the first of the part's rows in it.
 *
 * -DGROUPS: x and w have a scale for each group of P(group_words) words along k, xf[row, groups_k]
 * and wf[.., groups_k].  A group's sum is a whole number again, and the groups are added in order:
 * total = MAD(FLOAT(sum), xf * wf, total).  group_words is a multiple of 8, at most 512. */
#ifndef GPU_CODES_H
#define GPU_CODES_H
#include "dot.h"

#define CODES_BUFFERS(IN, OVER, OUT)                                                                                         \
  IN(0, uint, x) IN(1, float, xf) IN(2, uint, w) IN(3, uint, scale) IN(4, float, bias) OVER(5, float, residual) OUT(6, float, y)
#define CODES_PARAMS(I, F) I(m) I(n) I(words) I(y_stride) I(y_first) I(group_n) I(flags) I(act) F(alpha) \
  I(segment) I(group_words) I(groups_k)

/* Of column c of the part: where its scales begin. */
#define CODES_SCALE(c) ((P(y_first) + (c)) / P(group_n) * P(groups_k))

/* Stores the result of row r and column c (< P(n)) of the part, from the sum of its products. */
#define CODES_STORE(sum, r, c)                                                                    \
  {                                                                                               \
    int gpu_at = (r) * P(y_stride) + P(y_first) + (c);                                            \
    float gpu_s = AT(xf, r) * AS_FLOAT(AT(scale, (P(y_first) + (c)) / P(group_n)));               \
    float gpu_b = 0.0f;                                                                           \
    if ((P(flags) & 1) != 0) gpu_b = AT(bias, P(y_first) + (c));                                  \
    EXACT float gpu_v = MAD(FLOAT(sum), gpu_s, gpu_b);                                            \
    gpu_v = gpu_unary(P(act), gpu_v, P(alpha), 0.0f);                                             \
    if ((P(flags) & 2) != 0) gpu_v += AT(residual, gpu_at);                                       \
    AT(y, gpu_at) = gpu_v;                                                                        \
  }

/* The same of sums that are results but for bias, activation and residual. */
#define SUMS_STORE(sum, r, c)                                                                   \
  {                                                                                               \
    int gpu_at = (r) * P(y_stride) + P(y_first) + (c);                                            \
    float gpu_v = sum;                                                                            \
    if ((P(flags) & 1) != 0) gpu_v += AT(bias, P(y_first) + (c));                                 \
    gpu_v = gpu_unary(P(act), gpu_v, P(alpha), 0.0f);                                             \
    if ((P(flags) & 2) != 0) gpu_v += AT(residual, gpu_at);                                       \
    AT(y, gpu_at) = gpu_v;                                                                        \
  }

#endif
