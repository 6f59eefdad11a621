/* block_rows.c - token types to blocks, and which rows see which keys. */
#include "modeling/block_rows.h"

#include <stdlib.h>

int32_t accel__block_type(const accel__image_tokens *image_tokens, int64_t id) {
  return image_tokens->blocks == ACCEL__BLOCKS_PICTURES && id == image_tokens->token;
}

/* Rows first .. end of a sequence of n rows, whose own first one is row `start` of the run. */
typedef struct block {
  uint64_t start;
  int64_t first, end;
} block;

/* The next block at or behind row `from` of a sequence; false: there is none. */
static bool next_block(accel__blocks kind, const int32_t *types, int64_t n, int64_t from,
                       block *out) {
  const int32_t inside = kind == ACCEL__BLOCKS_PICTURES ? 1 : 0;
  if (types == NULL || (kind == ACCEL__BLOCKS_PREFIX && from > 0)) return false;
  while (kind == ACCEL__BLOCKS_PICTURES && from < n && types[from] != inside) from++;
  out->first = out->end = from;
  while (out->end < n && types[out->end] == inside) out->end++;
  return out->end > out->first;
}

static accel_status check_types(const accel__image_tokens *it, const accel__block_tokens *t) {
  const int32_t *types = t->types;
  if (it->blocks != ACCEL__BLOCKS_PREFIX || types == NULL) return ACCEL_OK;
  for (uint32_t b = 0; b < t->n; types += t->lengths[b++])
    for (int64_t i = 1; i < t->lengths[b]; i++)
      if (types[i] == 0 && types[i - 1] != 0)
        return accel__fail(ACCEL_ERROR_ARGUMENT,
                           "token_type_ids row %u has 0 behind %d: the prefix (0) comes first", b,
                           (int)types[i - 1]);
  return ACCEL_OK;
}

static int32_t past_of(const accel__block_tokens *t, uint32_t b) {
  return t->past_len != NULL ? t->past_len[b] : 0;
}

/* All blocks of the run; without any the first row of a sequence, which sees itself either way.
 * blocks[as many as tokens, at least 1].  Returns how many. */
static int64_t list_blocks(const accel__image_tokens *it, const accel__block_tokens *t,
                           block *blocks) {
  int64_t n = 0;
  uint64_t start = 0;
  for (uint32_t b = 0; b < t->n; start += (uint64_t)t->lengths[b++]) {
    blocks[n] = (block){.start = start};
    while (next_block(it->blocks, t->types != NULL ? t->types + start : NULL, t->lengths[b],
                      blocks[n].end, &blocks[n]) &&
           ++n < (int64_t)t->tokens)
      blocks[n] = (block){.start = start, .end = blocks[n - 1].end};
  }
  if (n > 0) return n;
  start = 0;
  for (uint32_t b = 0; b < t->n && past_of(t, b) > 0; b++) start += (uint64_t)t->lengths[b];
  blocks[0] = (block){.start = start < t->tokens ? start : 0, .end = 1};
  return 1;
}

/* The first key that a block's first row sees. */
static int64_t low_key(const accel__image_tokens *it, const block *k) {
  const int64_t low = it->block_window > 0 ? k->first - it->block_window + 1 : 0;
  return low > 0 ? low : 0;
}

bool accel__block_next(const accel__image_tokens *it, const int32_t *types, int64_t n, int64_t from,
                       int64_t *first, int64_t *end, int64_t *low) {
  block k = {0};
  if (!next_block(it->blocks, types, n, from, &k)) return false;
  *first = k.first;
  *end = k.end;
  *low = it->block_window > 0 ? low_key(it, &k) : k.first;
  return true;
}

/* How many values a block has of a part. */
static int64_t part_size(const accel__image_tokens *it, const block *k, accel__block_part part) {
  if (part == ACCEL__BLOCK_ROWS || part == ACCEL__BLOCK_FIRST_KEYS) return k->end - k->first;
  return part == ACCEL__BLOCK_KEYS ? k->end - low_key(it, k) : 1;
}

/* The values of a block, n of them. */
static void fill_part(const accel__image_tokens *it, const block *k, accel__block_part part,
                      int64_t n, int32_t *out) {
  const int64_t low = low_key(it, k);
  for (int64_t i = 0; i < n; i++) {
    const int64_t seen = it->block_window > 0 ? k->first + i - it->block_window + 1 - low : 0;
    out[i] = (int32_t)(part == ACCEL__BLOCK_LENGTHS       ? k->end - k->first
                       : part == ACCEL__BLOCK_KEY_LENGTHS ? k->end - low
                       : part == ACCEL__BLOCK_ROWS        ? (int64_t)k->start + k->first + i
                       : part == ACCEL__BLOCK_KEYS        ? (int64_t)k->start + low + i
                       : seen > 0                         ? seen
                                                          : 0);
  }
}

/* [tokens]: the number, in its sequence, of the last row that each sees. */
static void fill_last_keys(const accel__block_tokens *t, const block *blocks, int64_t n,
                           int32_t *out) {
  for (uint32_t b = 0, k = 0; b < t->n; k += (uint32_t)t->lengths[b++])
    for (int32_t i = 0; i < t->lengths[b]; i++) out[k + (uint32_t)i] = past_of(t, b) + i;
  for (int64_t b = 0; b < n; b++)
    for (int64_t i = blocks[b].first; i < blocks[b].end; i++)
      out[blocks[b].start + (uint64_t)i] = out[blocks[b].start + (uint64_t)blocks[b].end - 1];
}

accel_status accel__blocks_make(const accel__image_tokens *it, const accel__block_tokens *t,
                                accel__block_part part, int32_t **out, int64_t *n_out) {
  *out = NULL;
  ACCEL_TRY(check_types(it, t));
  block *blocks = malloc(((size_t)t->tokens + 1) * sizeof *blocks);
  if (blocks == NULL) return accel__no_memory((size_t)t->tokens * sizeof *blocks);
  const int64_t n = list_blocks(it, t, blocks);
  *n_out = part == ACCEL__BLOCK_LAST_KEYS ? (int64_t)t->tokens : 0;
  for (int64_t b = 0; part != ACCEL__BLOCK_LAST_KEYS && b < n; b++)
    *n_out += part_size(it, &blocks[b], part);
  int32_t *to = *out = malloc(((size_t)*n_out + 1) * sizeof *to);
  if (to != NULL && part == ACCEL__BLOCK_LAST_KEYS) fill_last_keys(t, blocks, n, to);
  for (int64_t b = 0; to != NULL && part != ACCEL__BLOCK_LAST_KEYS && b < n; b++) {
    const int64_t size = part_size(it, &blocks[b], part);
    fill_part(it, &blocks[b], part, size, to);
    to += size;
  }
  free(blocks);
  return *out != NULL ? ACCEL_OK : accel__no_memory((size_t)*n_out * sizeof **out);
}
