/* convert_u8_body.h - rows of fp32 as unsigned codes, included by convert_u8_<isa>.c after
 * vec_<isa>.h and v_codes.
 *
 * The range of a row, zero within it, is cut into equal steps; zero is a code of its own: x ~ (code
 * - zero) scale. */
#include <stdbool.h>
#include <string.h>

#include "kernels/kernels.h"

enum { AT_ONCE = 4 }; /* rows, or blocks of rows */

#if !defined(CONVERT_LARGEST)
V_INLINE void v_largest4(const vf *x, float *out) {
  for (int i = 0; i < AT_ONCE; i++) out[i] = v_largest(x[i]);
}
#endif

/* Largest element and largest negated one, and 0; bad: NaN where there is an infinity or NaN, else
 * 0. */
V_INLINE void range(const float *x, int64_t k, vf *low, vf *high, vf *bad) {
  vf lo[2] = {v_zero(), v_zero()}, hi[2] = {v_zero(), v_zero()}, un[2] = {v_zero(), v_zero()};
  int64_t j = 0;
  for (; j + 2 * V <= k; j += 2 * V)
    for (int i = 0; i < 2; i++) {
      vf a = v_load(x + j + i * V);
      lo[i] = v_min(lo[i], a);
      hi[i] = v_max(hi[i], a);
      un[i] = v_fma(a, v_zero(), un[i]); /* NaN stays */
    }
  for (; j < k; j += V) {
    vf a = v_loadn(x + j, k - j);
    lo[0] = v_min(lo[0], a);
    hi[0] = v_max(hi[0], a);
    un[0] = v_fma(a, v_zero(), un[0]);
  }
  *low = v_sub(v_zero(), v_min(lo[0], lo[1]));
  *high = v_max(hi[0], hi[1]);
  *bad = v_add(un[0], un[1]);
}

/* Codes of one row, without the last few. */
V_INLINE int64_t convert_fours(const int codes, const float *x, int64_t k, uint8_t *y, vf inverse,
                               vf at) {
  int64_t j = 0;
#if defined(CONVERT_FOURS)
  for (; j + 4 * V <= k; j += 4 * V)
    v_codes4(codes, y + j, v_fma(v_load(x + j), inverse, at), v_fma(v_load(x + j + V), inverse, at),
             v_fma(v_load(x + j + 2 * V), inverse, at), v_fma(v_load(x + j + 3 * V), inverse, at));
#endif
  (void)codes, (void)x, (void)k, (void)y, (void)inverse, (void)at;
  return j;
}

V_INLINE void convert_row(const int codes, const float *x, int64_t k, uint8_t *y, int64_t padded,
                          float factor, float zero) {
  const vf inverse = v_set(factor), at = v_set(zero), most = v_set((float)codes);
  int64_t j = convert_fours(codes, x, k, y, inverse, at);
  for (; j + V <= k; j += V) v_codes(y + j, v_min(v_fma(v_load(x + j), inverse, at), most));
  if (j < k) {
    uint8_t rest[V];
    v_codes(rest, v_min(v_fma(v_loadn(x + j, k - j), inverse, at), most));
    memcpy(y + j, rest, (size_t)(k - j));
  }
  if (k < padded) memset(y + k, 0, (size_t)(padded - k));
}

/* Elements that share a scale, and where they go. */
typedef struct piece {
  const float *x;
  uint8_t *y;
  float *scale, *zero;
} piece;

/* n <= AT_ONCE pieces of k elements, side by side. */
V_INLINE void convert_pieces(int n, const piece *p, int64_t k, int64_t padded) {
  vf lows[AT_ONCE], highs[AT_ONCE], bad[AT_ONCE];
  float low[AT_ONCE], high[AT_ONCE], factor[AT_ONCE], scale[AT_ONCE], zero[AT_ONCE];
  for (int i = 0; i < AT_ONCE; i++) range(p[i < n ? i : 0].x, k, &lows[i], &highs[i], &bad[i]);
  v_largest4(lows, low);
  v_largest4(highs, high);
  const bool finite = v_sum(v_add(v_add(bad[0], bad[1]), v_add(bad[2], bad[3]))) == 0;
  for (int i = 0; i < AT_ONCE; i++) {
    const float step = high[i] / 255 + low[i] / 255; /* the sum alone may be too large */
    scale[i] = step > 0x1p-126f ? step : 0x1p-126f;
    factor[i] = 1.0f / scale[i];
    zero[i] = rintf(low[i] / scale[i]);
  }
  for (int i = 0; i < n; i++) {
    const bool good = finite || v_sum(bad[i]) == 0;
    *p[i].scale = good ? scale[i] : NAN;
    *p[i].zero = good ? zero[i] : 0.0f;
    if (good)
      convert_row(255, p[i].x, k, p[i].y, padded, factor[i], zero[i]);
    else
      memset(p[i].y, 0, (size_t)padded);
  }
}

V_INLINE void convert_rows(const float *x, int64_t ldx, int64_t rows, int64_t k, uint8_t *y,
                           int64_t ldy, float *scale, float *zero) {
  piece p[AT_ONCE];
  for (int64_t row = 0; row < rows; row += AT_ONCE) {
    const int n = rows - row < AT_ONCE ? (int)(rows - row) : AT_ONCE;
    for (int i = 0; i < n; i++)
      p[i] = (piece){x + (row + i) * ldx, y + (row + i) * ldy, scale + row + i, zero + row + i};
    convert_pieces(n, p, k, cpu_act_padded(k));
  }
}

/* Block b of row i; rows of scales and zeros are ldy bytes apart, too. */
V_INLINE piece piece_at(const float *x, int64_t ldx, uint8_t *y, int64_t ldy, float *scale,
                        float *zero, int64_t block, int64_t i, int64_t b) {
  return (piece){x + i * ldx + b * block, y + i * ldy + b * block,
                 (float *)(void *)((char *)(scale + b) + i * ldy),
                 (float *)(void *)((char *)(zero + b) + i * ldy)};
}

/* By blocks of a row: whole ones, then the last of each row if that is shorter. */
V_INLINE void convert_blocks(const cpu_act_format to, const float *x, int64_t ldx, int64_t rows,
                             int64_t k, uint8_t *y, int64_t ldy, float *scale, float *zero) {
  const int64_t block = cpu_act_block(to), whole = k / block, rest = k - whole * block,
                padded = cpu_act_padded(k);
  piece p[AT_ONCE];
  int n = 0;
  for (int64_t i = 0; i < rows; i++)
    for (int64_t b = 0; b < whole; b++) {
      p[n++] = piece_at(x, ldx, y, ldy, scale, zero, block, i, b);
      if (n < AT_ONCE) continue;
      convert_pieces(AT_ONCE, p, block, block);
      n = 0;
    }
  if (n) convert_pieces(n, p, block, block);
  for (int64_t i = 0; rest && i < rows; i += AT_ONCE) {
    for (n = 0; n < AT_ONCE && i + n < rows; n++)
      p[n] = piece_at(x, ldx, y, ldy, scale, zero, block, i + n, whole);
    convert_pieces(n, p, rest, padded - whole * block);
  }
}

/* ---- codes of seven bits: blocks of parts, whose steps are whole multiples of a
 * CPU_ACT_MOST_STEP-th of the largest ---- */

enum { MOST_PARTS = 16 }; /* of a block, and a whole vector at least */

/* A block on its way. */
typedef struct parted {
  piece at;
  int64_t k, padded;
  bool good;
  float low[MOST_PARTS], high[MOST_PARTS], inverse[MOST_PARTS], zero[MOST_PARTS];
} parted;

V_INLINE void find_ranges(parted *b, int64_t all) {
  vf bad = v_zero();
  for (int64_t p = 0; p < all; p += AT_ONCE) {
    vf lows[AT_ONCE], highs[AT_ONCE], un;
    for (int64_t i = 0; i < AT_ONCE; i++) {
      const int64_t at = (p + i) * CPU_ACT_PART, left = b->k - at;
      if (left >= CPU_ACT_PART) /* a length that compilers know */
        range(b->at.x + at, CPU_ACT_PART, &lows[i], &highs[i], &un);
      else
        range(b->at.x + at, left, &lows[i], &highs[i], &un);
      bad = v_add(bad, un);
    }
    v_largest4(lows, b->low + p);
    v_largest4(highs, b->high + p);
  }
  for (int64_t p = all; p < MOST_PARTS; p++) b->low[p] = b->high[p] = 0;
  b->good = v_sum(bad) == 0;
}

V_INLINE void find_steps(parted *b, int64_t all) {
  const vf share = v_set(1.0f / 127);
  int16_t *step = (int16_t *)(void *)b->at.zero;
  float times[MOST_PARTS];
  vf most = v_zero();
  for (int64_t p = 0; p < all; p += V) { /* the sum alone may be too large */
    const vf least = v_fma(v_load(b->high + p), share, v_mul(v_load(b->low + p), share));
    v_store(b->high + p, least);
    most = v_max(most, least);
  }
  const float wanted = v_largest(most) / CPU_ACT_MOST_STEP,
              unit = wanted > 0x1p-126f ? wanted : 0x1p-126f;
  for (int64_t p = 0; p < all; p += V) {
    const vf up = v_rint(v_fma(v_load(b->high + p), v_set(1.0f / unit), v_set(0.5f))),
             n = v_min(v_max(up, v_set(1)), v_set(CPU_ACT_MOST_STEP)), size = v_mul(n, v_set(unit));
    v_store(b->inverse + p, v_div(v_set(1), size));
    v_store(b->zero + p, v_rint(v_div(v_load(b->low + p), size)));
    v_store(times + p, n);
  }
  *b->at.scale = b->good ? unit : NAN;
  for (int64_t p = 0; p < all; p++) {
    step[p] = b->good ? (int16_t)times[p] : 0;
    step[all + p] = b->good ? (int16_t)(times[p] * b->zero[p]) : 0;
  }
}

V_INLINE void put_parts(const parted *b) {
  if (!b->good) {
    memset(b->at.y, 0, (size_t)b->padded);
    return;
  }
  int64_t p = 0, at = 0;
  for (; b->k - at >= CPU_ACT_PART; p++, at += CPU_ACT_PART)
    convert_row(127, b->at.x + at, CPU_ACT_PART, b->at.y + at, CPU_ACT_PART, b->inverse[p],
                b->zero[p]);
  if (at < b->k)
    convert_row(127, b->at.x + at, b->k - at, b->at.y + at, b->padded - at, b->inverse[p],
                b->zero[p]);
  else if (at < b->padded)
    memset(b->at.y + at, 0, (size_t)(b->padded - at));
}

/* Several blocks at once: each is a chain of steps that wait for one another. */
V_INLINE void convert_parted(const cpu_act_format to, const float *x, int64_t ldx, int64_t rows,
                             int64_t k, uint8_t *y, int64_t ldy, float *scale, float *zero) {
  const int64_t block = cpu_act_block(to), all = cpu_act_zeros(to), blocks = cpu_act_blocks(to, k),
                padded = cpu_act_padded(k);
  parted b[AT_ONCE];
  for (int64_t i = 0, at = 0; blocks && i < rows;) {
    int n = 0;
    for (; n < AT_ONCE && i < rows; n++) {
      const int64_t left = k - at * block;
      b[n].at = piece_at(x, ldx, y, ldy, scale, zero + at * (all - 1), block, i, at);
      b[n].k = left < block ? left : block;
      b[n].padded = left <= block ? padded - at * block : block;
      if (++at == blocks) at = 0, i++;
    }
    for (int j = 0; j < n; j++) find_ranges(&b[j], all);
    for (int j = 0; j < n; j++) find_steps(&b[j], all);
    for (int j = 0; j < n; j++) put_parts(&b[j]);
  }
}

#define CONVERT(x_type, convert)                                                           \
  void CONVERT_NAME(x_type)(const float *x, int64_t ldx, int64_t rows, int64_t k, void *y, \
                            int64_t ldy, float *scale, float *zero) {                      \
    convert;                                                                               \
  }
#if defined(CONVERT_SIGNED)
/* Less 128; what follows the codes stays 0. */
V_INLINE void make_signed(uint8_t *codes, int64_t k) {
  for (int64_t j = 0; j < k; j++) codes[j] ^= 0x80;
}
void CONVERT_NAME(s8)(const float *x, int64_t ldx, int64_t rows, int64_t k, void *y, int64_t ldy,
                      float *scale, float *zero) {
  convert_rows(x, ldx, rows, k, y, ldy, scale, zero);
  for (int64_t i = 0; i < rows; i++) {
    make_signed((uint8_t *)y + i * ldy, k);
    zero[i] -= 128.0f;
  }
}
V_INLINE void convert_signed_blocks(const cpu_act_format to, const float *x, int64_t ldx,
                                    int64_t rows, int64_t k, uint8_t *y, int64_t ldy, float *scale,
                                    float *zero) {
  convert_blocks(to, x, ldx, rows, k, y, ldy, scale, zero);
  for (int64_t i = 0; i < rows; i++) {
    float *at = (float *)(void *)((char *)zero + i * ldy);
    make_signed(y + i * ldy, k);
    for (int64_t b = 0; b < cpu_act_blocks(to, k); b++) at[b] -= 128.0f;
  }
}
CONVERT(s8b, convert_signed_blocks(CPU_ACT_S8B, x, ldx, rows, k, y, ldy, scale, zero))
CONVERT(s8w, convert_signed_blocks(CPU_ACT_S8W, x, ldx, rows, k, y, ldy, scale, zero))
#else
CONVERT(u8, convert_rows(x, ldx, rows, k, y, ldy, scale, zero))
CONVERT(u8b, convert_blocks(CPU_ACT_U8B, x, ldx, rows, k, y, ldy, scale, zero))
CONVERT(u8w, convert_blocks(CPU_ACT_U8W, x, ldx, rows, k, y, ldy, scale, zero))
CONVERT(u7b, convert_parted(CPU_ACT_U7B, x, ldx, rows, k, y, ldy, scale, zero))
CONVERT(u7w, convert_parted(CPU_ACT_U7W, x, ldx, rows, k, y, ldy, scale, zero))
#endif

/* ---- planes ---- */

void CPU_NAME(extent, row)(const float *x, int64_t n, float out[2]) {
  vf low, high, bad;
  float lows[V], highs[V];
  range(x, n, &low, &high, &bad);
  v_store(lows, low), v_store(highs, high);
  out[0] = out[1] = 0;
  for (int i = 0; i < V; i++) out[0] = fmaxf(out[0], lows[i]), out[1] = fmaxf(out[1], highs[i]);
  if (v_sum(bad) != 0) out[0] = out[1] = NAN;
}

/* Channels [c, c + V) of pixels [p, p + V), those that exist. */
V_INLINE void code_block(const cpu_coding *how, const float *x, int64_t ldx, int64_t pixels,
                         int64_t channels, uint8_t *y, int64_t ldy) {
  const vf factor = v_set(how->factor), zero = v_set(how->zero), most = v_set((float)how->most);
  const int64_t n = pixels < V ? pixels : V;
  vf t[V];
  for (int i = 0; i < V; i++)
    t[i] = i < channels ? v_min(v_fma(v_loadn(x + i * ldx, pixels), factor, zero), most) : v_zero();
  v_transpose(t);
  for (int64_t i = 0; i < n; i++) {
    uint8_t code[V];
    if (channels >= V) {
      v_codes(y + i * ldy, t[i]);
      continue;
    }
    v_codes(code, t[i]);
    memcpy(y + i * ldy, code, (size_t)channels);
  }
}

/* Three channels of pixels by V; answers how many it did. */
V_INLINE int64_t code_threes(const cpu_coding *how, const float *x, int64_t ldx, int64_t pixels,
                             uint8_t *y) {
  int64_t p = 0;
#if defined(CONVERT_THREES)
  const vf factor = v_set(how->factor), zero = v_set(how->zero), most = v_set((float)how->most);
  for (; p + V <= pixels; p += V) {
    vf c[3];
    for (int i = 0; i < 3; i++) c[i] = v_min(v_fma(v_load(x + i * ldx + p), factor, zero), most);
    v_codes_threes(y + 3 * p, c[0], c[1], c[2]);
  }
#endif
  (void)how, (void)x, (void)ldx, (void)pixels, (void)y;
  return p;
}

/* Up to four channels, pixel by pixel as a word; whole words are stored where other pixels
 * follow. */
V_INLINE void code_few(const cpu_coding *how, const float *x, int64_t ldx, int64_t pixels,
                       int64_t channels, uint8_t *y, int64_t ldy) {
  const vf factor = v_set(how->factor), zero = v_set(how->zero), most = v_set((float)how->most);
  int64_t p = channels == 3 && ldy == 3 ? code_threes(how, x, ldx, pixels, y) : 0;
  for (y += p * ldy; p < pixels; p += V, y += V * ldy) {
    const int64_t n = pixels - p < V ? pixels - p : V;
    uint8_t code[4][V] = {{0}};
    for (int64_t c = 0; c < channels; c++)
      v_codes(code[c], v_min(v_fma(v_loadn(x + c * ldx + p, pixels - p), factor, zero), most));
    for (int64_t i = 0; i < n; i++) {
      const uint8_t word[4] = {code[0][i], code[1][i], code[2][i], code[3][i]};
      memcpy(y + i * ldy, word, p + i + 4 < pixels ? 4 : (size_t)channels);
    }
  }
}

void CPU_NAME(codes, plane)(const cpu_coding *how, const float *x, int64_t ldx, int64_t pixels,
                            int64_t channels, uint8_t *y, int64_t ldy) {
  if (channels <= 4 && ldy == channels) {
    code_few(how, x, ldx, pixels, channels, y, ldy);
    for (int64_t i = 0; how->flip && i < pixels * channels; i++) y[i] ^= how->flip;
    return;
  }
  for (int64_t c = 0; c < channels; c += V)
    for (int64_t p = 0; p < pixels; p += V)
      code_block(how, x + c * ldx + p, ldx, pixels - p, channels - c, y + p * ldy + c, ldy);
  for (int64_t p = 0; how->flip && p < pixels; p++)
    for (int64_t c = 0; c < channels; c++) y[p * ldy + c] ^= how->flip;
}

/* Largest element and largest negated one of k, and 0; answers NaN where there is an infinity or
 * NaN, else 0. */
V_INLINE vf extent_of(const bool signs, const float *x, int64_t k, vf *low, vf *high) {
  vf lo[4] = {v_zero(), v_zero(), v_zero(), v_zero()},
     hi[4] = {v_zero(), v_zero(), v_zero(), v_zero()},
     un[4] = {v_zero(), v_zero(), v_zero(), v_zero()};
  int64_t j = 0;
  for (; j + 4 * V <= k; j += 4 * V)
    for (int i = 0; i < 4; i++) {
      const vf a = v_load(x + j + i * V);
      if (signs) lo[i] = v_min(lo[i], a);
      hi[i] = v_max(hi[i], a);
      un[i] = v_fma(a, v_zero(), un[i]);
    }
  for (; j < k; j += V) {
    const vf a = v_loadn(x + j, k - j);
    if (signs) lo[0] = v_min(lo[0], a);
    hi[0] = v_max(hi[0], a);
    un[0] = v_fma(a, v_zero(), un[0]);
  }
  *low = v_sub(v_zero(), v_min(v_min(lo[0], lo[1]), v_min(lo[2], lo[3])));
  *high = v_max(v_max(hi[0], hi[1]), v_max(hi[2], hi[3]));
  return v_add(v_add(un[0], un[1]), v_add(un[2], un[3]));
}

/* What V groups of elements are coded with. */
typedef struct steps {
  float low[V], high[V], factor[V], scale[V], zero[V];
} steps;

V_INLINE void choose_steps(const int codes, const bool signs, steps *s) {
  const vf most = v_set((float)codes), low = signs ? v_load(s->low) : v_zero(),
           high = v_load(s->high),
           scale = v_max(v_add(v_div(high, most), v_div(low, most)), v_set(0x1p-126f));
  v_store(s->scale, scale);
  v_store(s->factor, v_div(v_set(1.0f), scale));
  v_store(s->zero, v_rint(v_div(low, scale)));
}

/* Lane by lane the largest of `each` rows of V. */
V_INLINE vf largest_rows(const float *x, int64_t each) {
  vf most[4] = {v_zero(), v_zero(), v_zero(), v_zero()};
  int64_t i = 0;
  for (; i + 4 <= each; i += 4)
    for (int m = 0; m < 4; m++) most[m] = v_max(most[m], v_load(x + (i + m) * V));
  for (; i < each; i++) most[0] = v_max(most[0], v_load(x + i * V));
  return v_max(v_max(most[0], most[1]), v_max(most[2], most[3]));
}

/* What group `at` of g reaches; answers NaN where something is not finite, else 0. */
V_INLINE vf group_extent(const bool signs, const cpu_pixels *g, int64_t at, vf *low, vf *high) {
  const int64_t k = g->each * g->channels;
  if (!g->high) return extent_of(signs, g->x + at * k, k, low, high);
  *high = largest_rows(g->high + at * g->each * V, g->each);
  *low = signs ? largest_rows(g->low + at * g->each * V, g->each) : v_zero();
  return v_mul(v_zero(), v_add(*low, *high));
}

/* Groups of k elements, each with a scale: V at a time, which are taken one by one where something
 * is not finite. */
V_INLINE void code_pixels(const int codes, const bool signs, const cpu_pixels *g) {
  const int64_t k = g->each * g->channels, all = g->pixels / g->each;
  steps s = {{0}, {0}, {0}, {0}, {0}};
  for (int64_t at = 0; at < all; at += V) {
    const int n = all - at < V ? (int)(all - at) : V;
    vf bad = v_zero(), low[4], high[4];
    for (int i = 0; i < n; i += 4) {
      for (int m = 0; m < 4; m++)
        bad = v_add(bad, group_extent(signs, g, at + (i + m < n ? i + m : i), &low[m], &high[m]));
      if (signs) v_largest4(low, s.low + i);
      v_largest4(high, s.high + i);
    }
    choose_steps(codes, signs, &s);
    const bool finite = v_sum(bad) == 0;
    for (int i = 0; i < n; i++) {
      const int64_t to = at + i;
      const bool good = finite || v_sum(extent_of(true, g->x + to * k, k, &low[0], &high[0])) == 0;
      g->scale[to * g->each] = good ? s.scale[i] : NAN;
      g->zero[to * g->each] = good ? s.zero[i] : 0.0f;
      if (good)
        convert_row(codes, g->x + to * k, k, g->y + to * k, k, s.factor[i], s.zero[i]);
      else
        memset(g->y + to * k, 0, (size_t)k);
    }
  }
}

void CPU_NAME(codes, pixels)(const cpu_pixels *g) {
  if (g->most == 127 && g->positive)
    code_pixels(127, false, g);
  else if (g->most == 127)
    code_pixels(127, true, g);
  else if (g->positive)
    code_pixels(255, false, g);
  else
    code_pixels(255, true, g);
  for (int64_t first = 0; first < g->pixels && (g->flip || g->each > 1); first += g->each) {
    const float scale = g->scale[first], zero = g->zero[first] - (float)g->flip;
    for (int64_t p = first; p < first + g->each; p++) g->scale[p] = scale, g->zero[p] = zero;
  }
  for (int64_t i = 0; g->flip && i < g->pixels * g->channels; i++) g->y[i] ^= g->flip;
}
