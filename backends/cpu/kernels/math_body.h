/* math_body.h - elementary functions on the vectors of vec_<isa>.h, included by the kernel bodies.
 *
 * Coefficients come from fit_polynomials.py.  Errors are held by cpu_math_test on dense samples:
 * exp, log 2 ulp; tanh 4 ulp; sigmoid, silu, gelu_tanh and gelu_quick 4 ulp or 1e-7; gelu 1e-7
 * absolute times max(1, |x|), or 5e-6 where an includer sets V_GELU to v_gelu_brief.  NaN gives
 * NaN; infinities give the limits. */

#define LOG2_E 1.44269504f

/* exp(x).  x is clamped to [-104, 89], whose ends give 0 and infinity. */
V_INLINE vf v_exp(vf x) {
  x = v_max(v_set(-104.0f), v_min(v_set(89.0f), x));
  vf n = v_rint(v_mul(x, v_set(LOG2_E)));
  /* ln 2 in two parts, the first exact times any n here */
  vf r = v_fnma(n, v_set(0.693145752f), x);
  r = v_fnma(n, v_set(1.42860677e-6f), r);
  vf p = v_set(1.3814613e-3f);
  p = v_fma(p, r, v_set(8.36871e-3f));
  p = v_fma(p, r, v_set(4.166839e-2f));
  p = v_fma(p, r, v_set(1.6666521e-1f));
  p = v_fma(p, r, v_set(4.9999994e-1f));
  p = v_fma(v_mul(r, r), p, r);
  return v_ldexp(v_add(p, v_set(1.0f)), n);
}

/* exp(x) for x <= 0 (softmax): results below 2^-126 become 0. */
V_INLINE vf v_exp_negative(vf x) {
  vf low = v_set(-87.3f);
  vf c = v_max(low, x);
  vf m = v_fma(c, v_set(LOG2_E), v_set(V_MAGIC)), n = v_sub(m, v_set(V_MAGIC));
  vf r = v_fnma(n, v_set(0.693145752f), c);
  r = v_fnma(n, v_set(1.42860677e-6f), r);
  vf p = v_set(1.3814613e-3f);
  p = v_fma(p, r, v_set(8.36871e-3f));
  p = v_fma(p, r, v_set(4.166839e-2f));
  p = v_fma(p, r, v_set(1.6666521e-1f));
  p = v_fma(p, r, v_set(4.9999994e-1f));
  p = v_fma(v_mul(r, r), p, r);
  return v_select(v_lt(x, low), v_zero(), v_mul(v_add(p, v_set(1.0f)), v_power(m)));
}

/* 2^x for x <= 0 or hardly above (softmax): results below 2^-126 become 0. */
V_INLINE vf v_exp2_negative(vf x) {
  vf m = v_add(x, v_set(V_MAGIC)), f = v_sub(x, v_sub(m, v_set(V_MAGIC)));
  vf p = v_set(1.3264727e-3f);
  p = v_fma(p, f, v_set(9.671513e-3f));
  p = v_fma(p, f, v_set(5.5507336e-2f));
  p = v_fma(p, f, v_set(2.4022242e-1f));
  p = v_fma(p, f, v_set(6.93147e-1f));
  p = v_fma(p, f, v_set(1.0f));
  return v_cut(x, v_set(-126.0f), v_mul(p, v_power(m)));
}

/* log(x); 0 gives -infinity, negative numbers NaN. */
V_INLINE vf v_log(vf x) {
  vf e, m = v_frexp(x, &e);
  vf r = v_sub(m, v_set(1.0f)), rr = v_mul(r, r);
  vf p = v_set(6.745091e-2f);
  p = v_fma(p, r, v_set(-1.1791295e-1f));
  p = v_fma(p, r, v_set(1.1955844e-1f));
  p = v_fma(p, r, v_set(-1.2389483e-1f));
  p = v_fma(p, r, v_set(1.4206947e-1f));
  p = v_fma(p, r, v_set(-1.6668537e-1f));
  p = v_fma(p, r, v_set(2.0002863e-1f));
  p = v_fma(p, r, v_set(-2.500001e-1f));
  p = v_fma(p, r, v_set(3.33333e-1f));
  vf y = v_mul(v_mul(rr, r), p);
  y = v_fma(e, v_set(1.42860677e-6f), y);
  y = v_fnma(v_set(0.5f), rr, y);
  y = v_fma(e, v_set(0.693145752f), v_add(y, r));
  y = v_select(v_lt(x, v_set(1.4e-45f)), v_set(-INFINITY), y); /* zero */
  y = v_select(v_lt(x, v_zero()), v_set(NAN), y);
  return v_select(v_lt(x, v_set(INFINITY)), y, x); /* infinity and NaN pass */
}

V_INLINE vf v_sigmoid(vf x) {
  return v_div(v_set(1.0f), v_add(v_set(1.0f), v_exp(v_sub(v_zero(), x))));
}

/* x sigmoid(s x).  The select gives 0 at x = -infinity, where the quotient would be NaN, as
 * those of v_gelu_tanh and v_mish do. */
V_INLINE vf v_swish(vf x, vf s) {
  vf y = v_div(x, v_add(v_set(1.0f), v_exp(v_sub(v_zero(), v_mul(s, x)))));
  return v_select(v_lt(x, v_set(-3.0e38f)), v_zero(), y);
}

V_INLINE vf v_tanh(vf x) {
  vf z = v_abs(x), u = v_mul(x, x);
  vf e = v_exp(v_mul(z, v_set(-2.0f)));
  vf large = v_copysign(v_div(v_sub(v_set(1.0f), e), v_add(v_set(1.0f), e)), x);
  vf p = v_set(-5.7170438e-3f);
  p = v_fma(p, u, v_set(2.0650586e-2f));
  p = v_fma(p, u, v_set(-5.3743497e-2f));
  p = v_fma(p, u, v_set(1.3331491e-1f));
  p = v_fma(p, u, v_set(-3.3333284e-1f));
  p = v_fma(v_mul(p, u), x, x);
  return v_select(v_lt(z, v_set(0.625f)), p, large);
}

/* x/2 (1 + erf(x / sqrt 2)) = max(x, 0) - z/2 erfc(z / sqrt 2) with z = |x|, and erfc(z / sqrt 2) =
 * 2^(-z P(z)) for z up to 8, where it no longer counts. */
V_INLINE vf v_gelu(vf x) {
  vf z = v_min(v_set(8.0f), v_abs(x));
  vf p = v_set(1.9020621e-6f);
  p = v_fma(p, z, v_set(-2.80569e-5f));
  p = v_fma(p, z, v_set(1.3147303e-4f));
  p = v_fma(p, z, v_set(2.720762e-4f));
  p = v_fma(p, z, v_set(-7.245422e-3f));
  p = v_fma(p, z, v_set(5.2627612e-2f));
  p = v_fma(p, z, v_set(4.5916215e-1f));
  p = v_fma(p, z, v_set(1.151111f));
  vf t = v_mul(z, p), m = v_sub(v_set(V_MAGIC), t), f = v_sub(v_sub(v_set(V_MAGIC), m), t);
  vf e = v_set(1.3276472e-3f);
  e = v_fma(e, f, v_set(9.675542e-3f));
  e = v_fma(e, f, v_set(5.550713e-2f));
  e = v_fma(e, f, v_set(2.402212e-1f));
  e = v_fma(e, f, v_set(6.9314694e-1f));
  e = v_fma(e, f, v_set(1.0000001f));
  return v_fnma(v_mul(v_mul(z, v_set(0.5f)), v_power(m)), e, v_max(v_zero(), x));
}

/* The same within 5e-6 absolute, in half the operations: 1/2 erfc(z / sqrt 2) = (u P(u))^4 with u =
 * 5.5 - z, and 0 from there on.  For linears over weights of 16 bits and fewer, whose own rounding
 * is far coarser. */
V_INLINE vf v_gelu_brief(vf x) {
  vf z = v_min(v_set(5.5f), v_abs(x)), u = v_sub(v_set(5.5f), z);
  vf p = v_set(8.897491e-5f);
  p = v_fma(p, u, v_set(-1.5271871e-3f));
  p = v_fma(p, u, v_set(8.035745e-3f));
  p = v_fma(p, u, v_set(-1.28028495e-2f));
  p = v_fma(p, u, v_set(2.359953e-2f));
  p = v_fma(p, u, v_set(2.3109905e-2f));
  p = v_mul(p, u);
  p = v_mul(p, p);
  return v_fnma(v_mul(p, p), z, v_max(v_zero(), x));
}
#ifndef V_GELU
#define V_GELU v_gelu
#endif

/* x/2 (1 + tanh(u)) = x sigmoid(2 u), u = sqrt(2/pi) (x + 0.044715 x^3) */
V_INLINE vf v_gelu_tanh(vf x) {
  vf u = v_mul(
      x, v_fma(v_mul(x, x), v_set(2.0f * 0.7978845608f * 0.044715f), v_set(2.0f * 0.7978845608f)));
  vf y = v_div(x, v_add(v_set(1.0f), v_exp(v_sub(v_zero(), u))));
  return v_select(v_lt(x, v_set(-3.0e38f)), v_zero(), y);
}

/* x tanh(log(1 + e^x)) = x n / (n + 2), n = e^x (e^x + 2) */
V_INLINE vf v_mish(vf x) {
  vf e = v_exp(v_min(v_set(20.0f), x));
  vf n = v_mul(e, v_add(e, v_set(2.0f)));
  vf y = v_mul(x, v_div(n, v_add(n, v_set(2.0f))));
  return v_select(v_lt(x, v_set(-3.0e38f)), v_zero(), y);
}

/* log(1 + e^x) = max(x, 0) + log(1 + t), t = e^-|x|; the quotient puts back what rounding 1 + t to
 * u lost. */
V_INLINE vf v_softplus(vf x) {
  vf t = v_exp_negative(v_sub(v_zero(), v_abs(x))), one = v_set(1.0f), u = v_add(one, t);
  vf small = v_add(v_log(u), v_div(v_sub(t, v_sub(u, one)), u));
  return v_add(v_max(v_zero(), x), small);
}

/* The activations of ops.def, where alpha is act_alpha; any other act gives x.  `act` is constant
 * in the loop that calls this, so that the compiler drops the switch. */
V_INLINE vf v_act(int act, vf x, vf alpha) {
  vf zero = v_zero(), one = v_set(1.0f);
  switch (act) {
    case ACCEL_PLUGIN_ACT_RELU:
      return v_max(zero, x);
    case ACCEL_PLUGIN_ACT_GELU:
      return V_GELU(x);
    case ACCEL_PLUGIN_ACT_GELU_TANH:
      return v_gelu_tanh(x);
    case ACCEL_PLUGIN_ACT_GELU_QUICK:
      return v_swish(x, v_set(1.702f));
    case ACCEL_PLUGIN_ACT_SILU:
      return v_swish(x, one);
    case ACCEL_PLUGIN_ACT_TANH:
      return v_tanh(x);
    case ACCEL_PLUGIN_ACT_SIGMOID:
      return v_sigmoid(x);
    case ACCEL_PLUGIN_ACT_RELU2: {
      vf y = v_max(zero, x);
      return v_mul(y, y);
    }
    case ACCEL_PLUGIN_ACT_MISH:
      return v_mish(x);
    case ACCEL_PLUGIN_ACT_LEAKY_RELU:
      return v_select(v_lt(x, zero), v_mul(alpha, x), x);
    case ACCEL_PLUGIN_ACT_SOFTPLUS:
      return v_softplus(x);
    case ACCEL_PLUGIN_ACT_HARDSWISH: {
      vf y = v_mul(x, v_div(v_min(v_set(6.0f), v_add(x, v_set(3.0f))), v_set(6.0f)));
      return v_select(v_lt(x, v_set(-3.0f)), zero, y);
    }
    case ACCEL_PLUGIN_ACT_ELU:
      return v_select(v_lt(x, zero), v_mul(alpha, v_sub(v_exp(x), one)), x);
    case ACCEL_PLUGIN_ACT_RELU6:
      return v_min(v_set(6.0f), v_max(zero, x));
    case ACCEL_PLUGIN_ACT_SWIGLU_OAI:
      return v_swish(x, alpha);
  }
  return x;
}

/* sin(x) and cos(x), errors below 1e-7, for |x| up to V_ANGLE_LIMIT (vec_<isa>.h); worse beyond. */
V_INLINE void v_sincos(vf x, vf *sine, vf *cosine) {
  vf n = v_rint(v_mul(x, v_set(0.636619772f)));
  vf r = v_fnma(n, v_set(1.5703125f), x); /* pi/2 in three parts */
  r = v_fnma(n, v_set(4.8375129699707031e-4f), r);
  r = v_fnma(n, v_set(7.549790126e-8f), r);
  vf u = v_mul(r, r);
  vf s = v_set(2.7179399e-6f);
  s = v_fma(s, u, v_set(-1.9839295e-4f));
  s = v_fma(s, u, v_set(8.333329e-3f));
  s = v_fma(s, u, v_set(-1.6666667e-1f));
  s = v_fma(v_mul(s, u), r, r);
  vf c = v_set(-2.7206787e-7f);
  c = v_fma(c, u, v_set(2.479948e-5f));
  c = v_fma(c, u, v_set(-1.3888883e-3f));
  c = v_fma(c, u, v_set(4.1666668e-2f));
  c = v_fma(v_mul(c, u), u, v_fnma(v_set(0.5f), u, v_set(1.0f)));
  vf quarter = v_mul(n, v_set(0.25f));
  quarter = v_sub(quarter, v_rint(quarter)); /* quadrants 0, 1, 2, 3: 0, 1/4, +-1/2, -1/4 */
  vf size = v_abs(quarter), eighth = v_set(0.125f), most = v_set(0.375f);
  vm half = v_lt(most, size); /* quadrant 2 */
  vm straight = v_lt(size, eighth);
  vf ys = v_select(half, s, v_select(straight, s, c)),
     yc = v_select(half, c, v_select(straight, c, s));
  vf minus = v_set(-0.0f), plus = v_zero();
  vf sign_s = v_select(half, minus, v_select(v_lt(quarter, v_sub(plus, eighth)), minus, plus));
  vf sign_c = v_select(half, minus, v_select(v_lt(eighth, quarter), minus, plus));
  *sine = v_flip(ys, sign_s);
  *cosine = v_flip(yc, sign_c);
}

/* What is left of a row of `cols` columns from a vector on, which may be nothing: lanes behind it are
 * zeros and stay as they were.  whole: all lanes are there. */
V_INLINE vf v_load_left(const int whole, const float *x, int64_t cols) {
  return whole ? v_load(x) : v_loadn(x, cols > 0 ? cols : 0);
}
V_INLINE void v_store_left(const int whole, float *to, vf x, int64_t cols) {
  if (whole)
    v_store(to, x);
  else if (cols > 0)
    v_storen(to, x, cols);
}
