/* stepper.h - a model that goes on with sequences: what the generation loop needs of it, and no
 * more.
 *
 * A stepper holds sequences by number.  One step feeds new tokens to several of them at once and
 * answers the scores of each one's next token.  The loop above (engine.h) knows nothing of
 * programs, plugins and sessions; tests put a function in their place.
 */
#ifndef ACCEL_GENERATE_STEPPER_H
#define ACCEL_GENERATE_STEPPER_H

#include "accel/plugin.h"
#include "dispatch/run_limits.h"
#include "generate/generate_config.h"

enum {
  ACCEL__STEP_TOKENS = 2048, /* of prompts in one step: longer ones go in pieces */
  /* Prompts are cut at multiples of it, and leave none or at least as many: kernels for few rows end
   * below it, so that all bits are those of the prompt read at once. */
  ACCEL__PIECE_TOKENS = 64
};

/* What an encoder reads: tokens, tensors, or both. */
typedef struct accel__encoder_input {
  accel__ids ids;
  /* Features of a sound, pixels of a picture: named as the arguments of the model's forward, in the
   * dtype of the program's input, dims [1, ...].  Arrays of the caller's, which stay until the
   * encoder has run. */
  const accel_tensor *tensor;
  uint32_t n_tensors;
  bool causal; /* no token sees those behind it, also where the processor would say otherwise */
  /* The row of a padded batch in which ids begin at row_start: positions are those that the class's
   * forward gives them there.  {0}: ids are the whole row. */
  accel__ids row;
  uint32_t row_start;
} accel__encoder_input;

/* What an encoder reads for one sequence. */
typedef struct accel__encode_item {
  int32_t sequence;
  const accel__encoder_input *input;
  accel_plugin_adapter_use adapter; /* {NULL}: none */
} accel__encode_item;

struct accel__prompt_image; /* prompt_images.h */
struct accel__prompt_images;

/* One sequence's part of a step. */
typedef struct accel__step_item {
  int32_t sequence;
  const int32_t *ids; /* [n] tokens to add, at least 1 */
  uint32_t n;
  uint32_t past_len; /* tokens that the sequence has in its KV cache already */
  /* Added to row numbers to get positions: nonzero behind pictures, for models that give pictures
   * positions of their own (M-RoPE). */
  int32_t rope_delta;
  /* Rotations may depend on the length of the sequence.  total_len: its tokens once all that is
   * known of it is fed; 0: past_len + n.  past_total_len: what total_len was when the past tokens
   * were read; 0: the rotations do not depend on it.  Where it is given, ids - past_len is the
   * whole sequence. */
  uint32_t total_len, past_total_len;
  accel_plugin_adapter_use adapter; /* {NULL}: none */
  /* of the prompt that the tokens are a piece of; those that they show are encoded; NULL: none */
  const struct accel__prompt_images *images;
  uint32_t rows; /* of the last tokens, whose scores are wanted; 0: of the last alone */
  /* answered: [rows][vocab] after each of those, writable, valid until the next step */
  float *scores;
} accel__step_item;

typedef struct accel__stepper {
  void *self;
  size_t vocab;
  accel__run_limits limits; /* {0}: none */
  uint32_t few_rows;        /* accel_plugin_device.few_rows; 0: less than a piece is few */
  /* A failed step leaves all sequences as they were. */
  accel_status (*step)(void *self, accel__step_item *items, uint32_t n);
  /* Runs the encoder for sequences that have nothing yet; several at once only where all inputs are
   * tokens alone.  NULL: there is none.  A failed call leaves the sequences with nothing. */
  accel_status (*encode)(void *self, const accel__encode_item *items, uint32_t n);
  /* Encodes one of the pictures of a prompt: image->features and images->width are set.  NULL: the
   * model's texts show none. */
  accel_status (*encode_image)(void *self, struct accel__prompt_images *images,
                               struct accel__prompt_image *image,
                               const accel_plugin_adapter_use *adapter);
  /* `to` becomes what `from` is; memory is shared */
  accel_status (*copy)(void *self, int32_t from, int32_t to);
  /* Keeps the first tokens of a sequence.  NULL: its states cannot go back. */
  accel_status (*truncate)(void *self, int32_t sequence, uint32_t keep);
  /* of the states of a sequence; NULL: not known */
  uint64_t (*bytes)(void *self, int32_t sequence);
  /* forgets it; its number may come again */
  void (*drop)(void *self, int32_t sequence);
  /* one that is not in use; -1: no memory */
  int32_t (*number)(void *self);
} accel__stepper;

#endif
