/* text_stream.h - the text of a growing list of tokens, emitted piece by piece: whole code points
 * only, and nothing that may still become part of a stop string.
 *
 *   accel__text_stream s = {.tokenizer = tok};
 *   accel__text_stream_add(&s, ids, n);    ids[0..n): all generated tokens so far, old and new
 *   const char *piece = accel__text_stream_take(&s, last, &bytes);
 *   accel__text_stream_free(&s);
 *
 * The pieces together are the tokenizer's decoding of all ids, cut at the stop string.  (Where a
 * decoder takes back text that it gave for fewer tokens - byte tokens that spell no character -
 * what was emitted stays, followed by the rest.)  A token costs the decoding of the few tokens
 * before it, however long the text is.
 */
#ifndef ACCEL_GENERATE_TEXT_STREAM_H
#define ACCEL_GENERATE_TEXT_STREAM_H

#include "core/text.h"
#include "text/tokenizer.h"

typedef struct accel__text_stream {
  const accel__tokenizer *tokenizer; /* NULL: there is no text, and no stop string is found */
  bool keep_special_tokens;          /* special tokens appear in the text */
  /* whatever the tokenizer says of clean_up_tokenization_spaces */
  bool no_clean_up;
  const char *const *stop; /* [n_stop] texts that end it */
  uint32_t n_stop;
  bool keep_stop;     /* the stop string stays in the text */
  bool stopped;       /* one was found */
  accel__buffer text; /* so far */
  /* private */
  size_t emitted;
  uint32_t from, read; /* tokens: [from, read) are decoded again to know what [read, n) add */
  accel__buffer before, with;
} accel__text_stream;

accel_status accel__text_stream_add(accel__text_stream *s, const int32_t *ids, uint32_t n);
/* No more tokens will come: what was held back counts now (U+FFFD where a character is not all
 * there). */
accel_status accel__text_stream_end(accel__text_stream *s, const int32_t *ids, uint32_t n);
/* What can be emitted since the last call; after _end that is everything.  Valid until the next
 * call;  *bytes may be 0. */
const char *accel__text_stream_take(accel__text_stream *s, size_t *bytes);
void accel__text_stream_free(accel__text_stream *s);

#endif
