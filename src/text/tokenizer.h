/* tokenizer.h - text to token ids and back, as the `tokenizers` package does it from the files of a
 * model's directory.
 *
 *   accel__tokenizer *tok;
 *   ACCEL_TRY(accel__tokenizer_load(directory, &tok));
 *   accel__encoding enc = {0};
 *   accel__encode_options how = {.add_special_tokens = true,
 *                                .truncation = ACCEL__TRUNCATE_LONGEST_FIRST,
 *                                .max_length = 512};
 *   ACCEL_TRY(accel__encode(tok, text, n, NULL, 0, &how, &enc));    ids: enc.ids[0 .. enc.n)
 *   accel__encoding_free(&enc);
 *   accel__tokenizer_free(&tok);
 *
 * Threads: a tokenizer is read-only once loaded; any number of threads may use one at the same
 * time, each with an encoding of its own.
 *
 * Text is UTF-8 of at most 1 GiB.  Malformed sequences are read as U+FFFD, one per byte that starts
 * no valid sequence (Python would have refused them).  NUL bytes are ordinary characters, and so is
 * U+0000 written as C0 80.
 *
 * Sources: tokenizer.json of huggingface/tokenizers 0.23 (goldens hold its behaviour),
 * tokenizer_config.json, special_tokens_map.json and vocab.txt as transformers 5 writes them.  Not
 * implemented, and refused by name: BPE dropout, expressions beyond regex.h.
 */
#ifndef ACCEL_TEXT_TOKENIZER_H
#define ACCEL_TEXT_TOKENIZER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/status.h"
#include "core/text.h"

typedef struct accel__tokenizer accel__tokenizer;

/* Loads a tokenizer from one file or from a directory that has one; of several, the first in this
 * order is taken:
 *   tokenizer.json; vocab.txt; a SentencePiece model or tiktoken vocabulary (*.model); merges.txt
 *   with vocab.json beside it; Marian's source.spm or M2M100's sentencepiece.bpe.model with
 *   vocab.json beside it; a vocab.json of characters (character_tokenizer.h).
 * tokenizer_config.json and special_tokens_map.json beside it are read where they exist.  What is
 * no tokenizer.json is read as the class that tokenizer_config.json names converts it
 * (sentencepiece.h, tiktoken.h, merges.h, marian_tokenizer.h).  add_bos_token and add_eos_token,
 * where stated, replace the post-processor, as in transformers 5.  Ids of added tokens are counted
 * as the package counts them: the model's id where it has the token, else on from the vocabulary's
 * size.
 * Errors: ACCEL_ERROR_NOT_FOUND when no such file is there; ACCEL_ERROR_FORMAT names file and
 * field; a normalizer, pre-tokenizer, model, post-processor or decoder type that is not implemented
 * is ACCEL_ERROR_UNSUPPORTED, by name.  *out is freed with accel__tokenizer_free. */
accel_status accel__tokenizer_load(const char *directory_or_file, accel__tokenizer **out);
/* That of a directory's vocab.json of characters (Wav2Vec2CTCTokenizer, VitsTokenizer), whatever
 * other files of tokenizers are there. */
accel_status accel__characters_load(const char *directory, accel__tokenizer **out);
/* The same from the bytes of a tokenizer.json alone; `name` stands for the file in messages. */
accel_status accel__tokenizer_parse(const char *json, size_t n, const char *name,
                                    accel__tokenizer **out);
void accel__tokenizer_free(accel__tokenizer **tokenizer); /* NULL-safe, sets NULL */
/* Bytes that it keeps in memory: vocabulary, merges, tries. */
size_t accel__tokenizer_bytes(const accel__tokenizer *tokenizer);
/* Lower-cases texts before every other step of the normalizer, unless one of them is Lowercase
 * already: what sentence-transformers does for do_lower_case.  Before the tokenizer is shared
 * between threads.  ACCEL_ERROR_FORMAT when it has as many steps as it may have. */
accel_status accel__tokenizer_lower_case(accel__tokenizer *tokenizer);
/* The same with capitals, as Python's str.upper has them. */
accel_status accel__tokenizer_upper_case(accel__tokenizer *tokenizer);

typedef enum accel__truncation {
  ACCEL__TRUNCATE_NONE,
  ACCEL__TRUNCATE_LONGEST_FIRST, /* takes from the longer of the two, token by token */
  ACCEL__TRUNCATE_ONLY_FIRST,
  ACCEL__TRUNCATE_ONLY_SECOND,
} accel__truncation;

/* What is known about a tokenizer beside its tokens.  Ids are -1 when there is no such token. */
typedef struct accel__tokenizer_info {
  /* tokens of the model and added tokens together: len(tokenizer) in Python */
  uint32_t vocab_size;
  uint32_t model_vocab_size; /* tokens of the model alone */
  /* the highest id any token has; an embedding table needs max_id + 1 rows */
  uint32_t max_id;
  /* as named in tokenizer_config.json or special_tokens_map.json, else by their usual texts */
  int32_t cls, sep, pad, mask, unk, bos, eos;
  /* tokens; 0 when not stated (transformers' "very large integer" too) */
  uint32_t model_max_length;
  bool pad_left; /* padding_side, or what the class has for its default */
  /* model_input_names without attention_mask: models are told of no padding */
  bool no_mask;
  bool truncate_left; /* truncation_side: tokens are taken from the front of a text */
  /* clean_up_tokenization_spaces; false where not stated and for BPE, as in transformers 5 */
  bool clean_up;
  const char *model_type; /* "WordPiece", "BPE", "Unigram", "WordLevel" */
  /* "##", or "" when the model has none: pieces inside a word begin with it */
  const char *continuing_subword_prefix;
  /* What tokenizer.json itself asks for; the caller decides whether to follow
   * (sentence-transformers does not, it pads itself). */
  bool file_truncates, file_pads;
  accel__truncation file_truncation;
  uint32_t file_max_length, file_stride;
  uint32_t file_pad_length;   /* fixed length, or 0: to the longest of the batch */
  uint32_t file_pad_multiple; /* pad_to_multiple_of; 0 none */
  uint32_t pad_type_id;       /* type id of padding; 0 unless tokenizer.json says otherwise */
} accel__tokenizer_info;
/* Never NULL; lives as long as the tokenizer. */
const accel__tokenizer_info *accel__tokenizer_describe(const accel__tokenizer *tokenizer);

typedef struct accel__encode_options {
  bool add_special_tokens; /* [CLS] ... [SEP], as the post-processor says */
  /* "[SEP]" inside the text is plain text (encode_special_tokens in `tokenizers`) */
  bool ignore_special_in_text;
  /* drop from the front (pieces come from the back); usually info->truncate_left */
  bool truncate_left;
  /* the text is phonemes already (VitsTokenizer) */
  bool phonemes;
  /* text and pair are already split: each NUL-terminated run is one word (is_split_into_words);
   * text_n counts the NULs; offsets count from the start of each word, word_ids number the words */
  bool words;
  accel__truncation truncation; /* ACCEL__TRUNCATE_NONE: all tokens, max_length and stride unused */
  uint32_t max_length;          /* tokens of one piece, special tokens included */
  uint32_t stride;              /* tokens that neighbouring pieces share */
} accel__encode_options;

typedef struct accel__span {
  uint32_t start, end; /* [start, end) */
} accel__span;

/* Tokens of one text or pair.  {0} is empty; pass the same one again to reuse its memory.  All
 * arrays are piece after piece: piece p holds [start[p], start[p+1]).  Piece 0 is the result; the
 * others are what truncation cut off, in reading order, each with its special tokens and at most
 * max_length long (the package's `overflowing`).  For a pair each part of one text meets each part
 * of the other.  Where max_length holds the special tokens only, piece 0 is those and piece 1 has
 * all the text, however long. */
typedef struct accel__encoding {
  size_t n;          /* tokens of piece 0 = start[1] */
  size_t pieces;     /* 1 + overflowing pieces */
  size_t *start;     /* [pieces + 1] */
  int32_t *ids;      /* [start[pieces]], as all below */
  int32_t *type_ids; /* 0 first text, 1 second, as the post-processor says */
  /* 1: put there by the post-processor (special_tokens_mask) */
  uint8_t *special;
  /* in the original text of the token's sequence; {0, 0} for special tokens */
  accel__span *bytes;
  /* the same in code points: what transformers calls offsets */
  accel__span *chars;
  /* number of the pre-token within its text; -1 for special tokens */
  int32_t *word_ids;
  int8_t *sequence_ids;                  /* 0 text, 1 pair, -1 special tokens */
  size_t capacity, piece_capacity;       /* private */
  struct accel__encode_scratch *scratch; /* private */
} accel__encoding;

/* Encodes `text` (n bytes), with `pair` as the second text when it is not NULL.  options NULL:
 * special tokens, no truncation. On failure `out` stays usable and holds nothing.
 * ACCEL_ERROR_LIMIT: a text over 1 GiB, or overflowing pieces without end in sight.
 * ACCEL_ERROR_ARGUMENT: max_length leaves no room for the special tokens, stride not below what is
 * left, or a text that may not be cut (only_first, only_second) is alone too long - as the
 * `tokenizers` package refuses them. */
accel_status accel__encode(const accel__tokenizer *tokenizer, const char *text, size_t n,
                           const char *pair, size_t pair_n, const accel__encode_options *options,
                           accel__encoding *out);
/* Leaves {0}, which may be used again. */
void accel__encoding_free(accel__encoding *encoding);
/* How many tokens the post-processor adds to a single text, or to a pair. */
uint32_t accel__special_token_count(const accel__tokenizer *tokenizer, bool pair);

/* Appends the text of ids[0..n) to `out`.  skip_special leaves out special tokens; clean_up also
 * undoes the space before punctuation and English contractions (clean_up_tokenization_spaces).  Ids
 * without a token are left out, as in Python. */
accel_status accel__decode(const accel__tokenizer *tokenizer, const int32_t *ids, size_t n,
                           bool skip_special, bool clean_up, accel__buffer *out);

/* The same of n tokens that are given as texts: convert_tokens_to_string in Python.  Without a
 * decoder they are joined by spaces. */
accel_status accel__decode_tokens(const accel__tokenizer *tokenizer, const char *const *tokens,
                                  size_t n, accel__buffer *out);

/* The id of the token with exactly these n bytes, or -1.  Added tokens win over the model's. */
int32_t accel__token_to_id(const accel__tokenizer *tokenizer, const char *token, size_t n);
/* NULL when there is no such id; *n (may be NULL) gets the length in bytes.  NUL-terminated, lives
 * with the tokenizer. */
const char *accel__id_to_token(const accel__tokenizer *tokenizer, int32_t id, size_t *n);
/* Whether it is one of get_added_vocab() in Python. */
bool accel__id_is_added(const accel__tokenizer *tokenizer, int32_t id);
/* False for ids without a token, too. */
bool accel__id_is_special(const accel__tokenizer *tokenizer, int32_t id);

/* Rust's char::is_whitespace. */
bool accel__is_white(uint32_t c);

#endif
