/* character_tokenizer.h - tokenizers whose tokens are characters, from a vocab.json alone:
 * transformers' Wav2Vec2CTCTokenizer, and VitsTokenizer, which has blanks between them (or the
 * phonemes of espeak).
 *
 * Source: transformers 5.23, models/wav2vec2/tokenization_wav2vec2.py and
 * models/vits/tokenization_vits.py over tokenization_python.py.
 */
#ifndef ACCEL_TEXT_CHARACTER_TOKENIZER_H
#define ACCEL_TEXT_CHARACTER_TOKENIZER_H

#include "text/settings.h"
#include "text/text_internal.h"

/* Reads t->characters and t->vocab of the files, and appends the tokenizer.json that holds the rest,
 * vocabulary left out.  vocab: the vocab.json; of one with several languages target_lang says which.
 * ACCEL_ERROR_UNSUPPORTED: the settings name another class. */
accel_status accel__characters_read(accel__tokenizer *t, const char *vocab, size_t n,
                                    const accel__json_file *settings, accel__buffer *b);
/* *id becomes that of added_tokens_decoder, where the token is one of it. */
accel_status accel__characters_listed_id(const accel__json_file *file, const accel__json *token,
                                         int32_t *id);
/* The rest, once the tokenizer is built. */
accel_status accel__characters_finish(accel__tokenizer *t);
/* s->raw as the class takes it.  phonemes: the text is what the phonemizer would make of it, and is
 * taken as it is, runs of white space as one space.  ACCEL_ERROR_UNSUPPORTED: it would have to be
 * turned into phonemes, or into Roman letters, which programs of others do. */
accel_status accel__characters_prepare(const accel__tokenizer *t, bool phonemes,
                                       accel__encode_scratch *s);
/* A blank in front of a character, or behind it. */
accel_status accel__characters_push_blank(const accel__tokenizer *t, const accel__char *at,
                                          bool behind, int32_t word, accel__tokens *out);
/* Appends the text of the ids, as accel__decode without clean_up. */
accel_status accel__characters_decode(const accel__tokenizer *t, const int32_t *ids, size_t n,
                                      bool skip_special, accel__buffer *out);

#endif
