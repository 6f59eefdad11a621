/* marian_tokenizer.h - tokenizer directories in which a SentencePiece model cuts texts into pieces
 * and vocab.json numbers them: Marian's (transformers' MarianTokenizer, source.spm) and M2M100's
 * (M2M100Tokenizer, sentencepiece.bpe.model).
 *
 * Pieces that vocab.json lacks are the unknown token; ids are decoded by vocab.json, or, where
 * tokenizer_config.json says separate_vocabs, by target_vocab.json.  target.spm is for training
 * alone.  ">>fr<<" in front of a text is one token. M2M100's languages are tokens behind those of
 * vocab.json ("__af__", ...); that of src_lang stands in front of a text.  As these tokenizers run
 * SentencePiece itself, its normalizer and its sums in fp32 are kept, where the `tokenizers`
 * package has its own. */
#ifndef ACCEL_TEXT_MARIAN_TOKENIZER_H
#define ACCEL_TEXT_MARIAN_TOKENIZER_H

#include "text/text_internal.h"

typedef enum accel__marian_kind { ACCEL__MARIAN, ACCEL__M2M100 } accel__marian_kind;

/* Is it M2M100's that tokenizer_config.json names? */
bool accel__is_m2m100(const accel__json_file *config);
/* What the tokenizer is read from; nothing is kept of it. */
typedef struct accel__marian_files {
  const uint8_t *spm; /* [spm_n] bytes of the SentencePiece model */
  size_t spm_n;
  const char *directory;               /* of vocab.json and its like */
  const accel__json_file *config;      /* tokenizer_config.json; root NULL: there is none */
  const accel__json_file *special_map; /* special_tokens_map.json; root NULL: there is none */
} accel__marian_files;
/* Fills t->vocab, t->target, the pieces of t->model and *normalizer, and appends to `json` a
 * tokenizer.json with the rest.  ACCEL_ERROR_FORMAT: files that are not what their names say, a
 * vocabulary without unk_token or eos_token; ACCEL_ERROR_UNSUPPORTED: a SentencePiece model with
 * byte fallback, suffixed whitespace or pieces defined by users. */
accel_status accel__marian_read(accel__tokenizer *t, accel__marian_kind kind,
                                const accel__marian_files *files, accel__normalizer *normalizer,
                                accel__buffer *json);
/* What no tokenizer.json can say; after that one was read. */
void accel__marian_finish(accel__tokenizer *t, accel__marian_kind kind,
                          const accel__normalizer *normalizer);
/* The class's own special tokens and length, where no file names others. */
void accel__marian_defaults(accel__tokenizer *t, accel__marian_kind kind);

#endif
