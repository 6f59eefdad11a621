/* prefix_cache.h - prompts that were read, kept for prompts that begin alike.
 *
 * A kept prompt is a sequence of the stepper; pages are shared with the sequence it was copied from,
 * and with those that go on from it.  More tokens are left to read than are few rows for the stepper,
 * and those that were generated are never kept: kernels for few rows read these, and a prompt that
 * shares them would differ in the last bits from one that is read.  The ones used longest ago go
 * first.
 *
 * Nothing else than tokens and the pictures that they show may decide on their states: the engine
 * keeps and shares only for requests without encoder and adapters.  Pictures are the same where
 * their digests are (prompt_images.h).  One thread.
 */
#ifndef ACCEL_GENERATE_PREFIX_CACHE_H
#define ACCEL_GENERATE_PREFIX_CACHE_H

#include "generate/prompt_images.h"

/* What a prompt is compared by. */
typedef struct accel__prefix_key {
  accel__ids ids;
  const accel__prompt_images *images; /* hashed; NULL: tokens alone */
} accel__prefix_key;

/* A kept picture, and where its first token is. */
typedef struct accel__prefix_image {
  uint32_t first;
  uint64_t digest[2];
} accel__prefix_image;

typedef struct accel__prefix {
  int32_t *ids; /* [n] */
  uint32_t n;
  accel__prefix_image *image; /* [n_images] */
  accel__prompt_block *block; /* [n_blocks] as accel__prompt_images has them */
  uint32_t n_images, n_blocks;
  uint32_t total_len; /* the length that their rotations assume: accel__step_item.past_total_len */
  int32_t sequence;   /* of the stepper */
  uint64_t bytes, used;
} accel__prefix;

typedef struct accel__prefix_cache {
  const accel__stepper *model; /* whose sequences can be cut */
  uint64_t most;               /* bytes */
  /* private */
  uint64_t bytes; /* of all, pages that several share counted for each */
  accel__prefix *kept;
  uint32_t n, capacity;
  uint64_t uses;
} accel__prefix_cache;

/* Gives sequence `to`, which has nothing yet, the longest kept beginning of `prompt` that leaves
 * more than `few_rows` of the model; *past_len 0: there is none. */
accel_status accel__prefix_cache_share(accel__prefix_cache *c, const accel__prefix_key *prompt,
                                       int32_t to, uint32_t *past_len, uint32_t *total_len);
/* Keeps `prompt`, which `sequence` has just read.  All that is kept takes at most `most`, and
 * `available` bytes; where there is no memory nothing is kept. */
void accel__prefix_cache_keep(accel__prefix_cache *c, const accel__prefix_key *prompt,
                              int32_t sequence, uint32_t total_len, uint64_t available);
/* Forgets those used longest ago until the others take at most so many bytes.  Whether any went. */
bool accel__prefix_cache_shrink(accel__prefix_cache *c, uint64_t bytes);
/* Forgets all and gives the list back. */
void accel__prefix_cache_free(accel__prefix_cache *c);

#endif
