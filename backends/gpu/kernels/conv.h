/* conv.h - what conv_tile.k and conv_direct.k share: where a point of the result reads and writes.
 *
 * As a matrix product: result (o, p) = sum over k of w[o, k] * value(p, k), k over the channels of
 * o's group and the taps of the window.  Planes: x[B,C,h,w], y[B,O,oh,ow], a point is a pixel of an
 * image.  Rows (-DROWS): x[T,C], y[T,O], a point is a row; rows outside its item are `carried` (the
 * last P(before) of the runs before) or zeros.  flags: 1 bias, 2 residual.  cg, og: channels and
 * outputs of a group. */
#include "math.h"
#include "weight.h"
#ifdef ROWS
#define BUFFERS(IN, OVER, OUT)                                                                        \
  IN(0, float, x) IN(1, uint, w) IN(2, uint, scale) IN(3, float, bias) IN(4, float, residual) IN(5, int, start) \
  IN(6, float, carried) OUT(7, float, y)
#define PARAMS(I, F)                                                                                  \
  I(points) I(outputs) I(cg) I(og) I(flags) I(act) F(alpha) I(items) I(channels) I(taps) I(dilation) I(before) I(x_stride) \
  I(has_carried) WEIGHT_PARAMS(I, F)
#define TAPS P(taps)
#define POINT_VARIABLES \
  int row = 0;          \
  int lo = 0;           \
  int hi = 0;
/* The item of point p by bisection: rows lo .. hi-1. */
#define POINT(p)                                \
  {                                             \
    int a = 0;                                  \
    int b = P(items);                           \
    row = AT(start, 0) + (p);                   \
    for (; b - a > 1;) {                        \
      int middle = (a + b) / 2;                 \
      if (AT(start, middle) <= row) a = middle; \
      else b = middle;                          \
    }                                           \
    lo = AT(start, a);                          \
    hi = AT(start, a + 1);                      \
    row = row - P(before);                      \
  }
#define FETCH(v, g, k)                                                                                       \
  {                                                                                                          \
    int at = row + (k) % P(taps) * P(dilation);                                                              \
    int c = (g) * P(cg) + (k) / P(taps);                                                                     \
    v = 0.0f;                                                                                                \
    if (at >= lo && at < hi) v = AT(x, at * P(x_stride) + c);                                                \
    if (P(has_carried) != 0 && at < lo && at - lo + P(before) >= 0) v = AT(carried, (at - lo + P(before)) * P(channels) + c); \
  }
#define RESULT(p, o) ((AT(start, 0) + (p)) * P(outputs) + (o))
#define POINT_OF(i) ((i) / P(outputs))
#define OUTPUT_OF(i) ((i) % P(outputs))
#else
#define BUFFERS(IN, OVER, OUT)                                                                        \
  IN(0, float, x) IN(1, uint, w) IN(2, uint, scale) IN(3, float, bias) IN(4, float, residual) OUT(5, float, y)
#define PARAMS(I, F)                                                                                  \
  I(points) I(outputs) I(cg) I(og) I(flags) I(act) F(alpha) I(h) I(w_in) I(oh) I(ow) I(kh) I(kw) I(sy) I(sx) I(by) I(bx) I(dy) I(dx) \
  WEIGHT_PARAMS(I, F)
#define TAPS (P(kh) * P(kw))
#define POINT_VARIABLES \
  int image = 0;        \
  int y0 = 0;           \
  int x0 = 0;
#define POINT(p)                                                                                     \
  {                                                                                                  \
    int pixel = (p) % (P(oh) * P(ow));                                                               \
    image = (p) / (P(oh) * P(ow)) * (P(outputs) / P(og) * P(cg));                                    \
    y0 = pixel / P(ow) * P(sy) - P(by);                                                              \
    x0 = pixel % P(ow) * P(sx) - P(bx);                                                              \
  }
#define FETCH(v, g, k)                                                                                       \
  {                                                                                                          \
    int tap = (k) % TAPS;                                                                                    \
    int r = y0 + tap / P(kw) * P(dy);                                                                        \
    int c = x0 + tap % P(kw) * P(dx);                                                                        \
    v = 0.0f;                                                                                                \
    if (r >= 0 && r < P(h) && c >= 0 && c < P(w_in)) v = AT(x, ((image + (g) * P(cg) + (k) / TAPS) * P(h) + r) * P(w_in) + c); \
  }
#define RESULT(p, o) (((p) / (P(oh) * P(ow)) * P(outputs) + (o)) * (P(oh) * P(ow)) + (p) % (P(oh) * P(ow)))
#define POINT_OF(i) ((i) / (P(outputs) * P(oh) * P(ow)) * (P(oh) * P(ow)) + (i) % (P(oh) * P(ow)))
#define OUTPUT_OF(i) ((i) / (P(oh) * P(ow)) % P(outputs))
#endif
/* y at point p, output o from the sum v */
#define FINISH(p, o, v)                                         \
  {                                                             \
    int to = RESULT(p, o);                                      \
    float u = v;                                                \
    if ((P(flags) & 1) != 0) u += AT(bias, o);                  \
    if ((P(flags) & 2) != 0) u += AT(residual, to);             \
    AT(y, to) = gpu_unary(P(act), u, P(alpha), 0.0f);           \
  }
