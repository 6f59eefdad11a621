/* prompt_images.h - the pictures of a prompt, read one at a time: what each is made of, where its
 * rows stand among the tokens, and where the prompt may be cut.
 *
 * A picture is what a model's image encoder can take by itself: one of the prompt's images, or a
 * tile or crop of one where the processor makes pictures of these.  Each is encoded in a run of its
 * own when the text that shows it is read, and its rows are given back behind it.  So nobody waits
 * for more than one picture or piece of text, and every prompt gives the same bits, however it is
 * cut and whoever is read with it.
 */
#ifndef ACCEL_GENERATE_PROMPT_IMAGES_H
#define ACCEL_GENERATE_PROMPT_IMAGES_H

#include "dispatch/endpoint.h"
#include "generate/stepper.h"

typedef struct accel__prompt_image {
  uint32_t first, end;       /* places of its first image token, and behind its last */
  uint32_t number, rows;     /* image tokens in front of its own, and its own */
  const accel_tensor *given; /* [n_given] what the image encoder reads */
  uint32_t n_given;
  uint64_t digest[2]; /* of `given`, once accel__prompt_images_hash has made it */
  float *features;    /* malloc'd [rows, width] while it is encoded and not read; else NULL */
} accel__prompt_image;

/* Rows that see one another (modeling/block_rows.h), or keys in front of them, in one run. */
typedef struct accel__prompt_block {
  uint32_t low, end;
} accel__prompt_block;

typedef struct accel__prompt_images {
  accel__prompt_image *image; /* [n] in the order of their tokens */
  uint32_t n;
  accel__prompt_block *block; /* [n_blocks] */
  uint32_t n_blocks;
  uint32_t *place; /* [n_places] of all image tokens, ascending */
  uint32_t n_places;
  int32_t *positions; /* [3, n_tokens] position ids of M-RoPE; NULL: places are positions */
  uint32_t n_tokens;  /* of the prompt */
  uint64_t width;     /* of features, once any are there */
  bool causal;        /* no row sees those behind it, also where the model has blocks */
  bool hashed;        /* digests are there */
  accel__arena arena;
} accel__prompt_images;

/* Of a prompt with pictures, whose arrays must outlive it.  *rope_delta: what the positions behind
 * the prompt have more than its places.  ACCEL_ERROR_ARGUMENT: image tokens and rows do not match;
 * `number` is the prompt's, for messages.  NULL without pictures. */
accel_status accel__prompt_images_new(const accel_endpoint *ep, const accel__encoder_input *prompt,
                                      uint32_t number, accel__prompt_images **out,
                                      int32_t *rope_delta);
void accel__prompt_images_free(accel__prompt_images **images); /* NULL-safe */
/* Digests of the pictures; without random numbers there are none. */
void accel__prompt_images_hash(accel__prompt_images *images);
/* The longest beginning of at most `n` tokens behind which the prompt may be cut.  NULL: `n`. */
uint32_t accel__prompt_images_cut(const accel__prompt_images *images, uint32_t n);
/* The first picture that tokens [from, to) show and that is not encoded; NULL: there is none. */
accel__prompt_image *accel__prompt_images_next(const accel__prompt_images *images, uint32_t from,
                                               uint32_t to);
/* The first `n` tokens were read: rows of pictures in front of them are given back. */
void accel__prompt_images_read(accel__prompt_images *images, uint32_t n);
/* Image tokens in front of place `n`. */
uint32_t accel__prompt_images_places(const accel__prompt_images *images, uint32_t n);
/* The row [width] of image token `number`, whose picture is encoded. */
const float *accel__prompt_images_row(const accel__prompt_images *images, uint32_t number);

#endif
