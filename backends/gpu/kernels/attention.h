/* attention.h - what the kernels of attention share: their buffers and parameters, which keys a row
 * sees, and what is added to a score.
 *
 * Rows are packed: an item's queries are rows q_start[item] .. q_start[item + 1] - 1.  flags: 1 causal
 * 2 q_pos 4 kv_pos 8 mask 16 sinks 32 rel_k 64 rel_q.  bias_kind by ops.def: 1 dense 2, 3 T5 4 ALiBi
 * 5 disentangled.  -DPAGES=1: keys and values from a session's pages (fp32; -DSTORE=1 fp16, 2 bf16)
 * within one chunk `kv`.  pages: for each item six words (rows before this run, rows in all, first page
 * and page beyond of this dispatch, where in `pages` the element of each page begins, where in k_pos
 * its positions begin).  What is known of a row is carried from dispatch to dispatch (flags 128 carried
 * in 256 carried out).  more: [0] period [1..4] dims of a dense bias [5] D [6] S [7] listed heads, their
 * numbers, then for each distance -D .. D (beyond: the ends) the T5 bucket of key - query or DeBERTa's
 * row of query - key. */
#ifndef GPU_ATTENTION_H
#define GPU_ATTENTION_H

#include "math.h"
#define PAGE_ROWS 256 /* keys of a page; without pages sums are parted alike */
#define SPAN      64  /* keys of a page that attention_tile.k and attention_split.k sum up apart */
#if PAGES
#define BUFFERS(IN, OVER, OUT)                                                                                              \
  IN(0, float, q) IN(1, uint, kv) IN(2, float, bias) IN(3, int, q_pos) IN(4, int, mask) IN(5, float, sinks)                 \
  IN(6, int, q_start) IN(7, int, kv_start) IN(8, int, more) IN(9, int, k_pos) IN(10, int, pages) IN(11, float, rel_k)       \
  IN(12, float, rel_q) OUT(13, float, carry) OUT(14, float, out_rows)
#define PARAMS(I, F)                                                                                                        \
  I(rows) I(items) I(heads) I(share) I(dk) I(dv) I(q_stride) I(k_stride) I(v_stride) I(v_at) I(flags) I(left) I(right)      \
  I(bias_kind) F(scale) F(softcap)
#if STORE == 0
#define KV(e) AS_FLOAT(AT(kv, e))
#define KV_EARLY(ok, e) AS_FLOAT(EARLY(ok, kv, e, 0u))
#elif STORE == 1
#define KV(e) (((e) & 1) != 0 ? HALF_HI(AT(kv, (e) / 2)) : HALF_LO(AT(kv, (e) / 2)))
#define KV_EARLY(ok, e) HALF_LO(EARLY(ok, kv, (e) / 2, 0u) >> UINT(16 * ((e) & 1)))
#else
#define KV(e) (((e) & 1) != 0 ? BF16_HI(AT(kv, (e) / 2)) : BF16_LO(AT(kv, (e) / 2)))
#define KV_EARLY(ok, e) BF16_LO(EARLY(ok, kv, (e) / 2, 0u) >> UINT(16 * ((e) & 1)))
#endif
#define KEY(e)        KV(e)
#define VALUE(e)      KV(e)
#define KEY_ROW(j)    (page + (j) % PAGE_ROWS * P(k_stride))
#define VALUE_ROW(j)  (page + P(v_at) + (j) % PAGE_ROWS * P(v_stride))
#define KEY_POS(j)    AT(k_pos, AT(pages, 6 * item + 5) + (j))
#define MASK_HIDES(j) ((j) >= past && AT(mask, kv0 + (j) - past) == 0)
#else
#define BUFFERS(IN, OVER, OUT)                                                                                             \
  IN(0, float, q) IN(1, float, k) IN(2, float, v) IN(3, float, bias) IN(4, int, q_pos) IN(5, int, kv_pos) IN(6, int, mask) \
  IN(7, float, sinks) IN(8, float, rel_k) IN(9, float, rel_q) IN(10, int, q_start) IN(11, int, kv_start) IN(12, int, more) \
  OUT(13, float, out_rows)
#define PARAMS(I, F) \
  I(rows) I(items) I(heads) I(share) I(dk) I(dv) I(q_stride) I(k_stride) I(v_stride) I(flags) I(left) I(right) I(bias_kind) \
  F(scale) F(softcap)
#define KEY(e)        AT(k, e)
#define VALUE(e)      AT(v, e)
#define KEY_ROW(j)    ((kv0 + (j)) * P(k_stride))
#define VALUE_ROW(j)  ((kv0 + (j)) * P(v_stride))
#define KEY_POS(j)    AT(kv_pos, kv0 + (j))
#define MASK_HIDES(j) (AT(mask, kv0 + (j)) == 0)
#endif
#define HAS(bit) ((P(flags) & (bit)) != 0)

/* item: the last one whose START(item) is not beyond `at`. */
#define FIND_ITEM(item, START, at)              \
  int item = 0;                                 \
  {                                             \
    int gpu_beyond = P(items);                  \
    while (gpu_beyond - item > 1) {             \
      int half_way = (item + gpu_beyond) / 2;   \
      if (START(half_way) <= (at)) {            \
        item = half_way;                        \
      } else {                                  \
        gpu_beyond = half_way;                  \
      }                                         \
    }                                           \
  }
#define ROW_START(item) AT(q_start, item)

/* A row at a position sees keys at positions lowest .. highest. */
#define SIGHT(position, lowest, highest)                                                     \
  lowest = P(left) >= 0 ? (position) - P(left) : -2147483647;                                \
  highest = HAS(1) ? (position) : 2147483647;                                                \
  if (P(right) >= 0 && !(HAS(1))) { highest = (position) + P(right); }

/* Of the keys first .. last - 1 those that rows at positions from .. to may see, where keys are
 * numbered in order. */
#define NARROW(first, last, from, to)                                                        \
  if (!HAS(4)) {                                                                             \
    int gpu_low;                                                                             \
    int gpu_high;                                                                            \
    SIGHT(from, gpu_low, gpu_high)                                                           \
    first = gpu_low > first ? gpu_low : first;                                               \
    SIGHT(to, gpu_low, gpu_high)                                                             \
    last = gpu_high < last ? gpu_high + 1 : last;                                            \
  }

/* r: the table's entry for this distance of key - query. */
#define TABLE_ENTRY(r, ahead)                                        \
  int r = P(bias_kind) == 5 ? -(ahead) : (ahead);                    \
  r = r < -AT(more, 5) ? -AT(more, 5) : (r > AT(more, 5) ? AT(more, 5) : r); \
  r = AT(more, 8 + AT(more, 7) + AT(more, 5) + r);

/* Of row i of the item and its key j: softcap and the biases 1 to 4. */
#define SCORE_REST(score, i, j, ahead)                                               \
  if (P(softcap) > 0.0f) { score = P(softcap) * gpu_tanh(score / P(softcap)); }      \
  if (P(bias_kind) == 1) {                                                           \
    int b = AT(more, 1) > 1 ? item % AT(more, 0) : 0;                                \
    b = b * AT(more, 2) + (AT(more, 2) > 1 ? h : 0);                                 \
    b = b * AT(more, 3) + (AT(more, 3) > 1 ? (i) : 0);                               \
    score += AT(bias, b * AT(more, 4) + (AT(more, 4) > 1 ? (j) : 0));                \
  } else if (P(bias_kind) == 4) {                                                    \
    score += AT(bias, h) * FLOAT(ahead);                                             \
  } else if (P(bias_kind) == 2 || P(bias_kind) == 3) {                               \
    TABLE_ENTRY(r, ahead)                                                            \
    score += AT(bias, r * P(heads) + h);                                             \
  }

#endif
