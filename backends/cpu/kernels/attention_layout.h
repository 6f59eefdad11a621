/* attention_layout.h - where the attention kernels keep what they compute in their workspace.
 *
 * cpu_attention.c asks for the workspace by these functions, attention_body.h and
 * attention_i8_body.h use it: packed keys and values of one tile of keys, scores of a strip of
 * query rows, sums. */
#ifndef ACCEL_CPU_ATTENTION_LAYOUT_H
#define ACCEL_CPU_ATTENTION_LAYOUT_H

#include "kernels/act_format.h"

enum {
  CPU_ATTENTION_ROWS = 448, /* query rows of one block, at most: they share packed keys */
  /* pairs that keys are filled up to for tile registers; */
  CPU_ATTENTION_PAIRS = 16,
  /* floats of packed keys and values that a strip goes through at a time there, a tile at least:
   * half of the second-level cache that processors with such registers have */
  CPU_ATTENTION_PACKED = 1 << 18,
  /* query rows of a strip, at most, or a register tile: their scores stay in the first-level cache */
  CPU_ATTENTION_STRIP = 24,
  CPU_ATTENTION_DEPTH = 16, /* dims of heads that tile registers multiply, at least */
  CPU_ATTENTION_KEYS = 512, /* keys of one tile: longer sequences are gone through tile by tile */
};

/* Where things lie in the workspace, in floats. */
typedef struct cpu_attention_plan {
  /* keys of a tile and dv, rounded up to whole panels; floats from a row of scores to the next, so
   * that rows do not share sets of the first-level cache; tiles that are packed at a time, what keys
   * and values of one of them take */
  int64_t keys, columns, lds, tiles, k_tile, v_tile;
  int64_t v, position, key_side, score, total, q, all; /* offsets, and all of it */
  /* of a block and of a part of it, whole register tiles */
  int64_t rows, strip;
} cpu_attention_plan;
/* The kernel that multiplies bf16 by tile registers packs tiles together; but not those of a
 * session's pages, as how many keys these hold is not known when the workspace is planned. */
typedef enum cpu_attention_form {
  CPU_ATTENTION_PLAIN,
  CPU_ATTENTION_REGISTERS,
  CPU_ATTENTION_REGISTERS_PAGES
} cpu_attention_form;
/* whole: all keys are one tile (probabilities are wanted, or disentangled terms). */
static inline cpu_attention_plan cpu_attention_layout(int64_t keys, int64_t dk, int64_t dv,
                                                      int64_t relative_columns, int whole,
                                                      cpu_attention_form form, int64_t tile_rows,
                                                      int64_t panel_cols) {
  cpu_attention_plan p;
  const int64_t tile = whole || keys < CPU_ATTENTION_KEYS ? keys : CPU_ATTENTION_KEYS,
                pairs = (dk + 2 * CPU_ATTENTION_PAIRS - 1) / (2 * CPU_ATTENTION_PAIRS);
  p.keys = (tile + panel_cols - 1) / panel_cols * panel_cols;
  p.columns = (dv + panel_cols - 1) / panel_cols * panel_cols;
  p.lds = p.keys + 16;
  p.k_tile = p.keys * (form ? pairs * CPU_ATTENTION_PAIRS : dk);
  p.v_tile = p.keys * p.columns / (form ? 2 : 1);
  p.tiles = 1;
  if (form == CPU_ATTENTION_REGISTERS && tile < keys) {
    const int64_t room = CPU_ATTENTION_PACKED / (p.k_tile + p.v_tile),
                  all = (keys + tile - 1) / tile;
    p.tiles = room < 1 ? 1 : room < all ? room : all;
  }
  p.strip = CPU_ATTENTION_STRIP / tile_rows * tile_rows;
  p.rows = tile < keys ? CPU_ATTENTION_ROWS / tile_rows * tile_rows : p.strip;
  p.v = p.tiles * p.k_tile;
  p.position = p.v + p.tiles * p.v_tile;
  p.key_side = p.position + p.tiles * p.keys;
  p.score = (p.key_side + tile * relative_columns + 15) / 16 * 16;
  p.total = p.score + p.strip * (p.lds + relative_columns) + 16;
  p.q = p.total + p.rows * p.columns;
  p.all = p.q + p.strip * cpu_act_row(CPU_ACT_F32, dk);
  return p;
}

/* Floats of workspace for any head of at most `keys` keys.  whole: all keys of some heads are one
 * tile; tiles of fewer keys can take more, for their blocks have more rows to sum up. */
static inline int64_t cpu_attention_floats(int64_t keys, int64_t dk, int64_t dv,
                                           int64_t relative_columns, int whole,
                                           cpu_attention_form form, int64_t tile_rows,
                                           int64_t panel_cols) {
  const int64_t tiles =
      cpu_attention_layout(keys, dk, dv, relative_columns, 0, form, tile_rows, panel_cols).all;
  const int64_t tile =
      cpu_attention_layout(keys, dk, dv, relative_columns, 1, form, tile_rows, panel_cols).all;
  return whole && tile > tiles ? tile : tiles;
}

/* ---- products of 8-bit codes ---- */

/* multiples of any register tile, or above it */
enum { CPU_ATTENTION_I8_ROWS = 16, CPU_ATTENTION_I8_COLS = 32 };
/* Where things lie in its workspace, in bytes, and how far keys, dk and dv are filled up. */
typedef struct cpu_attention_i8_plan {
  int64_t keys, dk, dv, v, middle, turned, score, q, code, all;
} cpu_attention_i8_plan;
static inline cpu_attention_i8_plan cpu_attention_i8_layout(int64_t keys, int64_t dk, int64_t dv) {
  const int64_t cols = CPU_ATTENTION_I8_COLS, rows = CPU_ATTENTION_I8_ROWS,
                head = 2 * (int64_t)sizeof(float);
  cpu_attention_i8_plan p = {.keys = (keys + cols - 1) / cols * cols,
                             .dk = (dk + 15) / 16 * 16,
                             .dv = (dv + cols - 1) / cols * cols};
  p.v = p.keys * (p.dk + head);
  p.middle = p.v + p.dv * (p.keys + head);
  p.turned = p.middle + p.dk * (int64_t)sizeof(float);
  p.score = p.turned + p.dk * 16 * (int64_t)sizeof(float); /* the longest vector */
  p.q = p.score + rows * p.keys * (int64_t)sizeof(float);
  p.code = p.q + rows * p.dk;
  p.all = p.code + rows * p.keys;
  return p;
}

#endif
