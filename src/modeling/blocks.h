/* blocks.h - attention of decoders whose text shows pictures, where the rows of a block see one
 * another in both directions: those of a picture (Gemma 3), or of the whole prefix (PaliGemma).
 *
 * A row sees a run of keys that ends with its own block.  Where it begins with the sequence,
 * this is causal attention of a query that stands at the end of its block.  Where it does not
 * (layers with a window), blocks attend once more, by themselves, over the keys that their rows
 * may see. */
#ifndef ACCEL_MODELING_BLOCKS_H
#define ACCEL_MODELING_BLOCKS_H

#include "modeling/model_builder.h"

/* accel__attend over the tokens' space of a model that has blocks (b->images.blocks); how->left is
 * the window.  Adds the inputs of kind ACCEL__INPUT_BLOCKS when it first needs them. */
accel__tensor accel__attend_blocks(accel__build *b, accel__tensor q, accel__tensor k,
                                   accel__tensor v, const accel__attention *how);

#endif
