/* cpu_attention_i8_test.c - attention on 8-bit codes on every instruction set that has it: against
 * the same codes in plain loops, and against attention in double. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "cpu_guard.h"

typedef struct attention {
  cpu_attention a;
  int64_t rows;
} attention;

static float query(const attention *t, int64_t i, int64_t d) { return t->a.q[i * t->a.ldq + d]; }
static float key(const attention *t, int64_t j, int64_t d) {
  return ((const float *)t->a.k)[j * t->a.ldk + d];
}
static float value(const attention *t, int64_t j, int64_t d) {
  return ((const float *)t->a.v)[j * t->a.ldv + d];
}

static double bias(const attention *t, int64_t i, int64_t j) {
  const cpu_attention *a = &t->a;
  if (a->mask && !a->mask[j]) return -INFINITY;
  return (a->bias ? a->bias[i * a->bias_row + j * a->bias_column] : 0.0f) +
         (a->relative ? a->relative[j - i + a->relative_origin] : 0.0f);
}

/* ---- the same codes ---- */

typedef struct codes {
  /* values of codes, as fp32: [keys][dk], [keys][dv] */
  float *key_scale, *key, *middle, *value_scale, *value;
} codes;

static float middle_of(const attention *t, float (*at)(const attention *, int64_t, int64_t),
                       int64_t d, float *half) {
  float low = INFINITY, high = -INFINITY;
  for (int64_t j = 0; j < t->a.keys; j++)
    low = fminf(low, at(t, j, d)), high = fmaxf(high, at(t, j, d));
  *half = 0.5f * high - 0.5f * low;
  return 0.5f * low + 0.5f * high;
}

static codes codes_of(const attention *t) {
  const int64_t keys = t->a.keys, dk = t->a.dk, dv = t->a.dv;
  float half, *room = calloc((size_t)(keys + keys * dk + 2 * dv + keys * dv), sizeof *room);
  codes c = {room, room + keys, room + keys + keys * dk, room + keys + keys * dk + dv,
             room + keys + keys * dk + 2 * dv};
  for (int64_t d = 0; d < dk; d++) {
    const float middle = middle_of(t, key, d, &half);
    for (int64_t j = 0; j < keys; j++) c.key[j * dk + d] = key(t, j, d) - middle;
  }
  for (int64_t j = 0; j < keys; j++) {
    float largest = 0;
    /* not NaN */
    for (int64_t d = 0; d < dk; d++) largest = fmaxf(largest, fabsf(c.key[j * dk + d]));
    c.key_scale[j] = fmaxf(1e-30f, largest / 127.0f);
    for (int64_t d = 0; d < dk; d++) c.key[j * dk + d] = rintf(c.key[j * dk + d] / c.key_scale[j]);
  }
  for (int64_t d = 0; d < dv; d++) {
    c.middle[d] = middle_of(t, value, d, &half);
    c.value_scale[d] = fmaxf(fmaxf(1e-30f, 1e-6f * fabsf(c.middle[d])), half / 127.0f);
    for (int64_t j = 0; j < keys; j++)
      c.value[j * dv + d] = rintf((value(t, j, d) - c.middle[d]) / c.value_scale[d]);
  }
  return c;
}

/* Weights of row i beside its largest, from codes or, c NULL, from q and k; answers their sum. */
static double weights(const attention *t, int64_t i, const codes *c, double *w) {
  const cpu_attention *a = &t->a;
  float largest = 0;
  double most = -INFINITY, sum = 0;
  for (int64_t d = 0; d < a->dk; d++) largest = fmaxf(largest, fabsf(query(t, i, d)));
  const float step = fmaxf(1e-30f, largest / 127.0f);
  for (int64_t j = 0; j < a->keys; j++) {
    double s = 0;
    for (int64_t d = 0; d < a->dk; d++)
      s += a->mask && !a->mask[j] ? 0
           : c                    ? (double)rintf(query(t, i, d) / step) * c->key[j * a->dk + d]
                                  : (double)query(t, i, d) * key(t, j, d);
    w[j] = a->scale * (c ? s * step * c->key_scale[j] : s) + bias(t, i, j);
    most = fmax(most, w[j]);
  }
  for (int64_t j = 0; j < a->keys; j++) sum += w[j] = most == -INFINITY ? 0 : exp(w[j] - most);
  return sum;
}

typedef struct angle {
  double both, got, want;
} angle;

static void check_row(const attention *t, int64_t i, const codes *c, double *w, angle *to) {
  const cpu_attention *a = &t->a;
  double sum = weights(t, i, c, w);
  for (int64_t d = 0; d < a->dv; d++) {
    double y = 0, codes_seen = 0;
    for (int64_t j = 0; j < a->keys; j++)
      y += rint(255 * w[j]) / 255 * c->value[j * a->dv + d], codes_seen += 1;
    const double step = c->value_scale[d];
    /* codes that lie between two numbers may be rounded either way */
    check("attention of codes", a->y[i * a->ldy + d], sum > 0 ? c->middle[d] + step * y / sum : 0,
          step * (0.3 + 0.3 * sqrt((double)a->keys) / sum));
  }
  sum = weights(t, i, NULL, w);
  for (int64_t d = 0; d < a->dv; d++) {
    double y = 0, got = a->y[i * a->ldy + d];
    for (int64_t j = 0; sum > 0 && j < a->keys; j++) y += w[j] / sum * value(t, j, d);
    *to = (angle){to->both + got * y, to->got + got * got, to->want + y * y};
  }
}

static void check_attention(const attention *t) {
  codes c = codes_of(t);
  double *w = malloc((size_t)t->a.keys * sizeof *w);
  angle to = {0};
  for (int64_t i = 0; i < t->rows; i += CHECK_EVERY) check_row(t, i, &c, w, &to);
  if (to.want > 0) assert_true(to.both / sqrt(to.got * to.want) > 0.999);
  free(w);
  free(c.key_scale);
}

/* ---- operands ---- */

enum { PLAIN, DENSE, DENSE_ROW, DENSE_COLUMN, RELATIVE, HIDDEN, MASKED, KINDS };

/* Some numbers around a middle that differs from column to column, as keys and values of models
 * are. */
static float *around(int64_t rows, int64_t ld, int64_t cols, float far) {
  float *x = filled((rows - 1) * ld + cols);
  for (int64_t d = 0; d < cols; d++) {
    const float middle = far * noise();
    for (int64_t i = 0; i < rows; i++) x[i * ld + d] += middle;
  }
  return x;
}

static attention make(int64_t rows, int64_t keys, int64_t dk, int64_t dv, int kind) {
  const int64_t gap = pick(0, 5);
  attention t = {.rows = rows};
  t.a = (cpu_attention){.ldq = dk + gap,
                        .ldk = dk + pick(0, 3),
                        .ldv = dv + gap,
                        .ldy = dv + pick(0, 3),
                        .keys = keys,
                        .dk = dk,
                        .dv = dv,
                        .kv = ACCEL_PLUGIN_F32,
                        .scale = 1.5f / sqrtf((float)dk),
                        .step = 1,
                        .left = -1,
                        .right = -1};
  cpu_attention *a = &t.a;
  a->q = around(rows, a->ldq, dk, 1);
  a->k = around(keys, a->ldk, dk, 3);
  a->v = around(keys, a->ldv, dv, 1);
  a->y = guard((rows - 1) * a->ldy + dv);
  a->bias_column = kind == DENSE || kind == DENSE_ROW || kind == HIDDEN;
  a->bias_row = kind == DENSE_ROW ? 0 : kind == DENSE_COLUMN ? 1 : keys;
  if (kind == RELATIVE) {
    a->relative_origin = rows;
    a->relative = filled(rows + keys);
  } else if (kind == MASKED) {
    int32_t *mask = guard(keys);
    for (int64_t j = 0; j < keys; j++) {
      mask[j] = pick(0, 2) != 0;
      if (!mask[j] && pick(0, 1)) ((float *)a->k)[j * a->ldk] = NAN; /* hidden, too */
    }
    a->mask = mask;
  } else if (kind != PLAIN) {
    float *b = filled((rows - 1) * a->bias_row + (a->bias_column ? keys : 1));
    for (int64_t i = 0; kind == HIDDEN && i < rows * keys; i++)
      if (i / keys % 3 == 1 || i % 5 == 0) b[i] = -INFINITY; /* each third row sees nothing */
    a->bias = b;
  }
  return t;
}

static int64_t room_of(const cpu_attention *a) {
  return cpu_attention_i8_layout(a->keys, a->dk, a->dv).all / 4;
}

/* ---- tests ---- */

static void run(int64_t rows, int64_t keys, int64_t dk, int64_t dv, int kind) {
  attention t = make(rows, keys, dk, dv, kind);
  float *workspace = guard(room_of(&t.a));
  kernels.attention_i8(&t.a, 0, rows, workspace);
  check_attention(&t);
  float *first = t.a.y; /* in two calls, wherever they meet: the same bits */
  const int64_t middle = pick(0, (int)rows - 1);
  t.a.y = guard((rows - 1) * t.a.ldy + dv);
  kernels.attention_i8(&t.a, middle, rows, workspace);
  kernels.attention_i8(&t.a, 0, middle, workspace);
  for (int64_t i = 0; i < rows; i++)
    assert_int_equal(memcmp(first + i * t.a.ldy, t.a.y + i * t.a.ldy, (size_t)dv * 4), 0);
  release();
}

static void test_attention(void **state) {
  (void)state;
  if (!kernels.attention_i8) skip();
  for (int i = 0; i < 20; i++)
    for (int kind = 0; kind < KINDS; kind++)
      run(pick(1, 60), pick(1, 150), pick(16, 90), pick(16, 90), kind);
  for (int kind = 0; kind < KINDS; kind++) {
    run(128, 128, 64, 64, kind);
    run(197, 197, 64, 64, kind);
    run(16, 16, 32, 32, kind);
    run(9, 700, 80, 80, kind);
    run(1, 1, 16, 16, kind);
  }
}

/* Rows that all see one key give its values, whatever the others hold; so do values that do not
 * differ. */
static void test_values(void **state) {
  (void)state;
  if (!kernels.attention_i8) skip();
  attention t = make(20, 40, 32, 24, DENSE);
  cpu_attention *a = &t.a;
  float *v = (float *)a->v, *b = (float *)a->bias, *workspace = guard(room_of(a));
  for (int64_t j = 0; j < 40; j++)
    v[j * a->ldv + 3] = 1e4f + (float)(j % 2) * 1e-3f, v[j * a->ldv + 4] = 1e-41f;
  for (int64_t i = 0; i < 20; i++) b[i * 40 + i] += 1000.0f;
  kernels.attention_i8(a, 0, 20, workspace);
  for (int64_t i = 0; i < 20; i++)
    for (int64_t d = 0; d < 24; d++)
      check("value", a->y[i * a->ldy + d], value(&t, i, d), d == 3 ? 1e-2 : d == 4 ? 1e-30 : 0.01);
  release();
}

/* What is not finite is not hidden: a row of q spoils its result, a key all results, a value its
 * column. */
static void test_special(void **state) {
  (void)state;
  const float bad[] = {NAN, INFINITY, -INFINITY};
  if (!kernels.attention_i8) skip();
  for (int i = 0; i < 12; i++) {
    attention t = make(31, 70, 40, 40, i < 6 ? PLAIN : RELATIVE);
    cpu_attention *a = &t.a;
    const int64_t row = pick(0, 30), j = pick(0, 69), d = pick(0, 39);
    const int which = i / 3 % 2 ? 2 : pick(0, 1);
    if (which == 0) ((float *)a->q)[row * a->ldq + d] = bad[i % 3];
    if (which == 1) ((float *)a->k)[j * a->ldk + d] = bad[i % 3];
    if (which == 2) ((float *)a->v)[j * a->ldv + d] = bad[i % 3];
    kernels.attention_i8(a, 0, 31, guard(room_of(a)));
    for (int64_t r = 0; r < 31; r++)
      for (int64_t c = 0; c < 40; c++)
        assert_int_equal(!isfinite(a->y[r * a->ldy + c]), which == 0   ? r == row
                                                          : which == 1 ? 1
                                                                       : c == d);
    release();
  }
  attention t = make(7, 30, 32, 32, DENSE); /* a bias */
  ((float *)t.a.bias)[2 * 30 + 5] = NAN;
  kernels.attention_i8(&t.a, 0, 7, guard(room_of(&t.a)));
  for (int64_t r = 0; r < 7; r++) assert_int_equal(isnan(t.a.y[r * t.a.ldy]), r == 2);
  release();
  t = make(7, 30, 32, 32, PLAIN); /* zeros, denormals, huge numbers */
  for (int64_t d = 0; d < 32; d++) ((float *)t.a.q)[d] = 0, ((float *)t.a.q)[t.a.ldq + d] = 1e-41f;
  ((float *)t.a.q)[2 * t.a.ldq] = 1e38f;
  ((float *)t.a.k)[0] = 1e30f;
  kernels.attention_i8(&t.a, 0, 7, guard(room_of(&t.a)));
  for (int64_t d = 0; d < 32; d++) {
    double mean = 0;
    for (int64_t j = 0; j < 30; j++) mean += value(&t, j, d) / 30;
    check("mean", t.a.y[d], mean, 0.01);
  }
  assert_true(isnan(t.a.y[2 * t.a.ldy])); /* an infinite score */
  release();
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_attention),
      cmocka_unit_test(test_values),
      cmocka_unit_test(test_special),
  };
  CPU_GUARD_RUN(tests);
}
