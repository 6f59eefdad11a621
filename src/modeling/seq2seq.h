/* seq2seq.h - what encoder-decoders share: two sides of tokens, cross attention, heads, and the
 * entries "forward", "encode" and "decode" that one description of the layers gives (model.h).
 *
 * A family reads its config, adds the inputs of both sides (accel__add_tokens ...,
 * accel__add_decoder_tokens ...) and fills an accel__seq2seq.  Its decoder is called for "forward"
 * with the encoder's rows and for "decode" with -1: keys and values of the cross attention then
 * come from the session.
 */
#ifndef ACCEL_MODELING_SEQ2SEQ_H
#define ACCEL_MODELING_SEQ2SEQ_H

#include "modeling/causal.h"

typedef struct accel__keys {
  accel__tensor k, v;
} accel__keys;

typedef struct accel__seq2seq {
  const void *config;
  /* rows of side 0; adds hidden states */
  accel__tensor (*encoder)(accel__build *b, const void *config);
  /* rows of side 1 */
  accel__tensor (*decoder)(accel__build *b, const void *config, accel__tensor memory);
  /* Keys and values of decoder layer i over the encoder's rows. */
  accel__keys (*keys)(accel__build *b, const void *config, accel__tensor memory, uint32_t layer);
  /* Lists "encoder_last_hidden_state"; NULL: the encoder's rows are it. */
  void (*output_encoded)(accel__build *b, const void *config);
  /* vocabulary head */
  accel__tensor (*logits)(accel__build *b, const void *config, accel__tensor x);
  /* An input of side 0 that entry "encode" does not take, because "decode" could not follow it: the
   * mask of rows that cross attention would have to hide.  NULL: it takes all. */
  const char *encode_without;
  /* of the decoder; hidden: its width */
  int64_t layers, heads, head_dim, hidden;
} accel__seq2seq;

/* decoder_lengths [B] and decoder_input_ids [Td], and makes theirs the side that inputs, layers and
 * hidden states are added to.  `otherwise`: what the class's forward puts where decoder_input_ids
 * are left out. */
void accel__add_decoder_tokens(accel__build *b, int64_t vocab, accel__input_default otherwise);
void accel__use_side(accel__build *b, uint32_t side); /* 0 encoder, 1 decoder */

/* Attention of q (side 1) to the encoder's rows: [Td, heads * head_dim]. scale 0:
 * 1/sqrt(head_dim). */
accel__tensor accel__cross_attend(accel__build *b, const accel__seq2seq *how, accel__tensor q,
                                  accel__tensor memory, uint32_t layer, double scale);
/* A class without a decoder: last_hidden_state or a token head named `token_head`. */
accel_status accel__encoder_build(accel__build *b, const accel__seq2seq *how,
                                  const char *token_head);
/* Base class, vocabulary head, and ForSequenceClassification ("classification_head" over the last
 * row whose input token is eos), ForQuestionAnswering ("qa_outputs").  The sequence head needs the
 * input "eos_row" (accel__add_eos_row). */
accel_status accel__seq2seq_build(accel__build *b, const accel__seq2seq *how);
void accel__add_eos_row(accel__build *b);

#endif
