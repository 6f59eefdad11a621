/* picture_words.h - what stands in a prompt for a picture: processors of transformers write more
 * than one image token a row (beginnings and ends, names of tiles, words about crops), before
 * the text is tokenized. */
#ifndef ACCEL_GENERATE_PICTURE_WORDS_H
#define ACCEL_GENERATE_PICTURE_WORDS_H

#include "core/text.h"
#include "modeling/model.h"
#include "text/tokenizer.h"
#include "vision/image_processor.h"

/* The words of one model; strings owned. */
typedef struct accel__picture_words {
  accel__picture_style style;
  char *place;               /* what prompts have for a picture: "<start_of_image>" */
  char *token, *begin, *end; /* the image token, and what stands around them */
  char *bos, *eos;
} accel__picture_words;

/* From tokenizer_config.json in `directory`, by the names that the processor asks its tokenizer
 * for. ACCEL_ERROR_FORMAT names the file and what is missing. */
accel_status accel__picture_words_load(const char *directory, const accel__tokenizer *tokenizer,
                                       const accel__image_tokens *image_tokens,
                                       accel__picture_words *out);
void accel__picture_words_free(accel__picture_words *words);
/* How often the place of a picture stands in the text. */
uint32_t accel__picture_places(const accel__picture_words *words, const char *text);
/* The text with all pictures in their places: parts[n], each part of `rows` image tokens.
 * PaliGemma: without any place, pictures come first; Florence-2: they always do, and the text has
 * none. */
accel_status accel__picture_words_write(const accel__picture_words *words, const char *text,
                                        const accel__picture_parts *parts, uint32_t n, int64_t rows,
                                        accel__buffer *out);

#endif
