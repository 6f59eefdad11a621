/* fft_body.h - the passes of the transform of fft.h over vectors `vec` of LANES doubles: a part of
 * audio_kernels_body.h. */

/* What one pass works on: parts of length radix * m, `stride` of them interleaved.  Twiddles:
 * exponents are below n. */
typedef struct pass {
  const double (*twiddle)[2];
  int32_t n, radix, m, stride;
  const vec *xr, *xi;
  vec *yr, *yi;
} pass;

/* y[to] = (real + i imaginary) times the twiddle; a macro, for vectors as arguments depend on the
 * instruction set. */
#define STORE_TWIDDLED(to, exponent, real, imaginary)    \
  do {                                                   \
    const double *w_ = a->twiddle[(exponent)*a->stride]; \
    const vec r_ = (real), i_ = (imaginary);             \
    a->yr[to] = r_ * w_[0] - i_ * w_[1];                 \
    a->yi[to] = r_ * w_[1] + i_ * w_[0];                 \
  } while (0)

static void radix_4(const pass *a) {
  const int32_t s = a->stride, step = s * a->m;
  for (int32_t p = 0; p < a->m; p++)
    for (int32_t q = 0; q < s; q++) {
      const int32_t x = q + s * p, y = q + s * 4 * p;
      const vec r02 = a->xr[x] + a->xr[x + 2 * step], i02 = a->xi[x] + a->xi[x + 2 * step];
      const vec r13 = a->xr[x + step] + a->xr[x + 3 * step],
                i13 = a->xi[x + step] + a->xi[x + 3 * step];
      const vec dr = a->xr[x] - a->xr[x + 2 * step], di = a->xi[x] - a->xi[x + 2 * step];
      const vec er = a->xr[x + step] - a->xr[x + 3 * step],
                ei = a->xi[x + step] - a->xi[x + 3 * step];
      a->yr[y] = r02 + r13;
      a->yi[y] = i02 + i13;
      STORE_TWIDDLED(y + s, p, dr + ei, di - er);
      STORE_TWIDDLED(y + 2 * s, 2 * p, r02 - r13, i02 - i13);
      STORE_TWIDDLED(y + 3 * s, 3 * p, dr - ei, di + er);
    }
}

static void radix_5(const pass *a) {
  const double c1 = 0.30901699437494742, c2 = -0.80901699437494742, s1 = 0.95105651629515357,
               s2 = 0.58778525229247313; /* of 72 and 144 degrees */
  const int32_t s = a->stride, step = s * a->m;
  for (int32_t p = 0; p < a->m; p++)
    for (int32_t q = 0; q < s; q++) {
      const vec *xr = a->xr + q + s * p, *xi = a->xi + q + s * p;
      const int32_t y = q + s * 5 * p;
      const vec ar = xr[step] + xr[4 * step], ai = xi[step] + xi[4 * step],
                br = xr[2 * step] + xr[3 * step], bi = xi[2 * step] + xi[3 * step];
      const vec cr = xr[step] - xr[4 * step], ci = xi[step] - xi[4 * step],
                dr = xr[2 * step] - xr[3 * step], di = xi[2 * step] - xi[3 * step];
      const vec er = xr[0] + c1 * ar + c2 * br, ei = xi[0] + c1 * ai + c2 * bi,
                fr = xr[0] + c2 * ar + c1 * br, fi = xi[0] + c2 * ai + c1 * bi;
      const vec gr = s1 * cr + s2 * dr, gi = s1 * ci + s2 * di, hr = s2 * cr - s1 * dr,
                hi = s2 * ci - s1 * di;
      a->yr[y] = xr[0] + ar + br;
      a->yi[y] = xi[0] + ai + bi;
      STORE_TWIDDLED(y + s, p, er + gi, ei - gr);
      STORE_TWIDDLED(y + 2 * s, 2 * p, fr + hi, fi - hr);
      STORE_TWIDDLED(y + 3 * s, 3 * p, fr - hi, fi + hr);
      STORE_TWIDDLED(y + 4 * s, 4 * p, er - gi, ei + gr);
    }
}

static void radix_any(const pass *a) {
  const int32_t s = a->stride, step = s * a->m, r = a->radix;
  for (int32_t p = 0; p < a->m; p++)
    for (int32_t q = 0; q < s; q++)
      for (int32_t j = 0; j < r; j++) {
        vec sr = a->xr[q + s * p], si = a->xi[q + s * p];
        for (int32_t k = 1; k < r; k++) { /* the root of order r to the power j k */
          const double *w = a->twiddle[j * k % r * (a->n / r)];
          const vec xr = a->xr[q + s * p + k * step], xi = a->xi[q + s * p + k * step];
          sr += xr * w[0] - xi * w[1];
          si += xr * w[1] + xi * w[0];
        }
        STORE_TWIDDLED(q + s * (r * p + j), p * j, sr, si);
      }
}

/* Z = X + i Y of two real signals: X = (Z[k] + Z*[n-k]) / 2, Y = (Z[k] - Z*[n-k]) / 2i. */
static void fft_power(const accel__fft *fft, accel__fft_workspace *work, double *power) {
  int from = 0;
  pass a = {.twiddle = (const double(*)[2])fft->twiddle, .n = fft->n, .m = fft->n, .stride = 1};
  for (int32_t i = 0; i < fft->passes; i++, from = !from) {
    a.radix = fft->radix[i];
    a.m /= a.radix;
    a.xr = (const vec *)work->re[from], a.xi = (const vec *)work->im[from];
    a.yr = (vec *)work->re[!from], a.yi = (vec *)work->im[!from];
    if (a.radix == 4)
      radix_4(&a);
    else if (a.radix == 5)
      radix_5(&a);
    else
      radix_any(&a);
    a.stride *= a.radix;
  }
  const vec *re = (const vec *)work->re[from], *im = (const vec *)work->im[from];
  for (int32_t k = 0; k <= fft->n / 2; k++) {
    const int32_t c = k ? fft->n - k : 0;
    const vec xr = (re[k] + re[c]) * 0.5, xi = (im[k] - im[c]) * 0.5, yr = (im[k] + im[c]) * 0.5,
              yi = (re[c] - re[k]) * 0.5;
    const vec first = xr * xr + xi * xi, second = yr * yr + yi * yi;
    memcpy(power + k * 2 * LANES, &first, sizeof first);
    memcpy(power + k * 2 * LANES + LANES, &second, sizeof second);
  }
}

#undef STORE_TWIDDLED
