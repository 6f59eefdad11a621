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
} accel__block_tokens;
/* The values of one such input; *out is malloc'd.  ACCEL_ERROR_ARGUMENT: types that cannot be. */
accel_status accel__blocks_make(const accel__image_tokens *image_tokens,
                                const accel__block_tokens *tokens, accel__block_part part,
                                int32_t **out, int64_t *n_out);
/* The type of a token in the processor's token_type_ids. */
int32_t accel__block_type(const accel__image_tokens *image_tokens, int64_t id);

#endif
