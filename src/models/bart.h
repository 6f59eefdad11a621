/* bart.h - the encoder-decoder that BART, mBART, Marian and Pegasus share. */
#ifndef ACCEL_MODELS_BART_H
#define ACCEL_MODELS_BART_H

#include "modeling/seq2seq.h"

typedef struct accel__bart_side {
  int64_t layers, inner, heads, vocab;
} accel__bart_side;

typedef struct accel__bart {
  int64_t hidden, positions;
  accel__bart_side encoder, decoder;
  bool scale_words; /* by sqrt(hidden) */
  bool sinusoids;   /* positions are computed; else tables with two rows in front */
  /* of computed ones: they count tokens, not places, from pad + 1 on, by fairseq's formula
   * (M2M100) */
  bool behind_pad;
  bool words_norm; /* layernorm_embedding */
  bool before;     /* norms before attention and feed-forward, and one at each side's end */
  bool shared;     /* one table of words for both sides */
  /* the encoder's words are looked up in front of it, in the shared table, tied or not (Florence-2) */
  bool words_given;
  bool tied;
  accel__input_default shifted; /* decoder_input_ids left out */
  int64_t bos, eos, pad, start; /* -1 none */
  accel__activation act;
} accel__bart;

/* Of BartConfig. */
extern const accel__bart accel__bart_defaults;
/* Both sides' fields on top of *c, and the special tokens into the model. */
accel_status accel__bart_read(accel__build *b, accel__bart *c);
/* Of one side alone, for composites (names below b->scope): the encoder's rows, pictures merged; the
 * decoder's over memory (-1: over what the session holds), and keys and values of its layer i. */
accel__tensor accel__bart_encoder(accel__build *b, const accel__bart *c);
accel__tensor accel__bart_decoder(accel__build *b, const accel__bart *c, accel__tensor memory);
accel__keys accel__bart_keys(accel__build *b, const accel__bart *c, accel__tensor memory,
                             uint32_t i);
/* What an encoder-decoder of this config is built from; a composite puts its own in the places of the
 * config and of the functions that read it. */
accel__seq2seq accel__bart_seq2seq(const accel__bart *c);
/* *c holds the defaults of the config class. */
accel_status accel__bart_build(accel__build *b, accel__bart *c);

#endif
