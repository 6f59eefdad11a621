/* math.h - functions of one number, alike on every API: accurate to a few units in the last place
 * whatever the vendor's own tanh, erf or sine are worth. */
#ifndef GPU_MATH_H
#define GPU_MATH_H

/* Odd polynomial below 0.625, where 1 - 2/(e^2x + 1) would cancel. */
FUNCTION float gpu_tanh(float x) {
  float a = fabs(x), s = x * x;
  float small = x + x * s * (-0.33333328f + s * (0.13331416f + s * (-0.05373973f + s * (0.02063901f + s * -0.00570499f))));
  float large = 1.0f - 2.0f / (exp(2.0f * fmin(a, 10.0f)) + 1.0f);
  return a < 0.625f ? small : (x < 0.0f ? -large : (x > 0.0f ? large : x));
}

/* erf by t e^(-x^2 + polynomial(t)), t = 1/(1 + |x|/2): fractional error below 1.2e-7 (Numerical
 * Recipes' erfcc); below 0.5 its Maclaurin series. */
FUNCTION float gpu_erf(float x) {
  float a = fabs(x), s = x * x;
  float small = 1.1283792f * x * (1.0f + s * (-0.33333333f + s * (0.1f + s * (-0.023809524f + s * (0.0046296296f + s * -0.00075757576f)))));
  float t = 1.0f / (1.0f + 0.5f * a);
  float p = -1.26551223f + t * (1.00002368f + t * (0.37409196f + t * (0.09678418f + t * (-0.18628806f + t * (0.27886807f +
            t * (-1.13520398f + t * (1.48851587f + t * (-0.82215223f + t * 0.17087277f))))))));
  float large = 1.0f - t * exp(-a * a + p);
  return a < 0.5f ? small : (x < 0.0f ? -large : large);
}

FUNCTION float gpu_sigmoid(float x) {
  float e = exp(-fabs(x));
  return (x < 0.0f ? e : 1.0f) / (1.0f + e);
}
FUNCTION float gpu_softplus(float x) {
  float e = exp(-fabs(x));
  return fmax(x, 0.0f) + (e < 0.0001f ? e : log(1.0f + e));
}

/* sin(x + quarters pi/2).  x is reduced by pi/2 in four parts: exact to float rounding for |x| up
 * to about 1e5, as long as nobody adds the parts up first. */
FUNCTION float gpu_sin_quarter(float x, int quarters) {
  float k = floor(x * 0.63661977f + 0.5f);
  EXACT float r = MAD(k, -1.5703125f, x);
  r = MAD(k, -0.00048351287841796875f, r);
  r = MAD(k, -3.1385570764541626e-07f, r);
  r = MAD(k, -6.077100506506192e-11f, r);
  int q = INT(k - 4.0f * floor(k * 0.25f)) + quarters;
  float s = r * r;
  float sine = r + r * s * (-0.16666655f + s * (0.0083321609f - s * 0.00019515296f));
  float cosine = 1.0f - 0.5f * s + s * s * (0.041666646f + s * (-0.0013887316f + s * 0.000024433157f));
  float v = (q & 1) != 0 ? cosine : sine;
  return (q & 2) != 0 ? -v : v;
}
FUNCTION float gpu_sin(float x) { return gpu_sin_quarter(x, 0); }
FUNCTION float gpu_cos(float x) { return gpu_sin_quarter(x, 1); }

/* x^y as C's pow: whole exponents up to 64 by multiplication, others by logarithms of |x| with the
 * sign put back. */
FUNCTION float gpu_pow(float x, float y) {
  float whole = floor(y), a = fabs(x), n = fabs(y);
  bool odd = whole == y && n < 16777216.0f && whole - 2.0f * floor(whole * 0.5f) != 0.0f;
  if (y == 0.0f || x == 1.0f) return 1.0f;
  if (x != x || y != y) return x + y;
  if (whole == y && n <= 64.0f) {
    float power = 1.0f, square = x;
    for (int e = INT(n); e > 0; e = e / 2) {
      if (e % 2 == 1) power = power * square;
      square = square * square;
    }
    return y < 0.0f ? 1.0f / power : power;
  }
  if (y == 0.5f) return a == INF ? INF : sqrt(x);
  float r = a == 0.0f ? (y < 0.0f ? INF : 0.0f) : (a == INF ? (y < 0.0f ? 0.0f : INF) : pow(a, y));
  return x < 0.0f ? (odd ? -r : (whole == y || a == INF ? r : AS_FLOAT(AS_UINT(INF) | 0x400000u))) : r;
}

/* accel_plugin_act and accel_plugin_unary by number (ops.def); alpha and beta as kit_unary takes
 * them. */
FUNCTION float gpu_unary(int kind, float x, float alpha, float beta) {
  if (kind == 0) return x;
  if (kind == 1) return x < 0.0f ? 0.0f : x;
  if (kind == 2) return 0.5f * x * (1.0f + gpu_erf(x * 0.70710678f));
  if (kind == 3) return 0.5f * x * (1.0f + gpu_tanh(0.79788456f * (x + 0.044715f * x * x * x)));
  if (kind == 4) return x * gpu_sigmoid(1.702f * x);
  if (kind == 5) return x * gpu_sigmoid(x);
  if (kind == 6) return gpu_tanh(x);
  if (kind == 7) return gpu_sigmoid(x);
  if (kind == 8) return x < 0.0f ? 0.0f : x * x;
  if (kind == 9) return x * gpu_tanh(gpu_softplus(x));
  if (kind == 10) return x < 0.0f ? alpha * x : x;
  if (kind == 11) return gpu_softplus(x);
  if (kind == 12) return x * fmin(fmax(x + 3.0f, 0.0f), 6.0f) / 6.0f;
  if (kind == 13) return x < 0.0f ? alpha * (exp(x) - 1.0f) : x;
  if (kind == 14) return fmin(fmax(x, 0.0f), 6.0f);
  if (kind == 15) return x * gpu_sigmoid(alpha * x);
  if (kind == 20) return exp(x);
  if (kind == 21) return log(x);
  if (kind == 22) return -x;
  if (kind == 23) return sqrt(x);
  if (kind == 24) return 1.0f / sqrt(x);
  if (kind == 25) return x < alpha ? alpha : (x > beta ? beta : x);
  if (kind == 26) return gpu_sin(x);
  if (kind == 27) return gpu_cos(x);
  if (kind == 28) return MAD(alpha, x, beta);
  return fabs(x); /* 29 */
}

#endif
