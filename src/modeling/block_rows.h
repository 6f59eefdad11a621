/* block_rows.h - inputs of kind ACCEL__INPUT_BLOCKS (blocks.h): what the packer makes of
 * token_type_ids. */
#ifndef ACCEL_MODELING_BLOCK_ROWS_H
#define ACCEL_MODELING_BLOCK_ROWS_H

#include "modeling/model.h"

/* Tokens of sequences without padding, as a run has them. */
typedef struct accel__block_tokens {
  const int32_t *types;   /* [tokens] token_type_ids; NULL: no row belongs to a block */
  const int32_t *lengths; /* [n] */
  uint32_t n;
  uint64_t tokens;
  /* [n] rows that a session has of each sequence already, none of which is in a block of the run or
   * seen by one (prompt_images.h); NULL: none.  A run without blocks begins a sequence. */
  const int32_t *past_len;
} accel__block_tokens;
/* The values of one such input; *out is malloc'd.  ACCEL_ERROR_ARGUMENT: types that cannot be. */
accel_status accel__blocks_make(const accel__image_tokens *image_tokens,
                                const accel__block_tokens *tokens, accel__block_part part,
                                int32_t **out, int64_t *n_out);
/* The next block at or behind row `from` of a sequence of types[n]: its rows [*first, *end), and the
 * first row that any of them sees in layers with a window, which is *first where there are none.
 * false: there is no more. */
bool accel__block_next(const accel__image_tokens *image_tokens, const int32_t *types, int64_t n,
                       int64_t from, int64_t *first, int64_t *end, int64_t *low);
/* The type of a token in the processor's token_type_ids. */
int32_t accel__block_type(const accel__image_tokens *image_tokens, int64_t id);

#endif
