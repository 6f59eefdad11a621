/* text_internal.h - what the files of src/text share; nobody else includes it.
 *
 * One text runs through: code points with their place in the original (accel__chars) -> added
 * tokens cut out -> normalizer -> pre-tokenizer (accel__splits) -> model (accel__tokens) ->
 * truncation and post-processor (encode.c). Every step works on code points, so alignments are one
 * pair per code point, where the `tokenizers` package keeps one per byte.
 */
#ifndef ACCEL_TEXT_INTERNAL_H
#define ACCEL_TEXT_INTERNAL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/arena.h"
#include "core/json.h"
#include "core/status.h"
#include "core/text.h"
#include "text/regex.h"
#include "text/tokenizer.h"

/* One code point of a text and its length in bytes.  As accel__utf8_decode, but C0 80 is U+0000,
 * which a C string cannot hold otherwise. */
static inline size_t accel__text_decode(const char *text, size_t n, uint32_t *code_point) {
  if (n > 1 && (uint8_t)text[0] == 0xC0 && (uint8_t)text[1] == 0x80) return *code_point = 0, 2;
  return accel__utf8_decode(text, n, code_point);
}

#define ACCEL__SPACE_MARK 0x2581 /* what SentencePiece writes for a space */

/* Limits of what a tokenizer file may hold; beyond them ACCEL_ERROR_FORMAT names the field. */
enum {
  ACCEL__TOKENS_MAX = 1 << 22, /* tokens, and the highest id */
  /* steps of one normalizer, pre-tokenizer or decoder, sequences flattened */
  ACCEL__STEPS_MAX = 64,
  ACCEL__TEMPLATE_MAX = 64,  /* pieces of one template */
  ACCEL__TEXT_MAX = 1 << 30, /* bytes of one text */
};

/* Grows *array (of `size`-byte items, `capacity` of them) to hold `need`; keeps what it holds. */
accel_status accel__grow(void *array, size_t *capacity, size_t need, size_t size);

/* ---- code points on their way ---- */

typedef struct accel__char {
  uint32_t c;          /* code point */
  uint32_t start, end; /* the bytes of the original it stands for */
} accel__char;
typedef struct accel__chars {
  accel__char *at;
  size_t n, capacity;
} accel__chars;

typedef struct accel__split {
  size_t first, n; /* in the chars */
  /* original byte where the piece began when it was cut out: decides Metaspace's "first" */
  uint32_t shift;
  int32_t id; /* an added token's id; -1: text still to be tokenized */
} accel__split;
typedef struct accel__splits {
  accel__split *at;
  size_t n, capacity;
} accel__splits;

typedef struct accel__token {
  int32_t id;
  uint32_t start, end;           /* original bytes */
  uint32_t start_char, end_char; /* the same in code points; filled when the text is done */
  int32_t word;                  /* number of the split, or of the word given */
  /* spaces at the ends of the token's text; counted only when the post-processor trims */
  uint32_t lead, trail;
  uint32_t lead_bytes, trail_bytes; /* what as many code points of the original take there */
  /* what the model saw, `chars` of them; only until the next word */
  const accel__char *first;
  uint32_t chars;
} accel__token;
typedef struct accel__tokens {
  accel__token *at;
  size_t n, capacity;
} accel__tokens;

typedef struct accel__match {
  size_t n;   /* chars */
  bool match; /* of the pattern; false: text between matches */
} accel__match;

/* Memory of one encode call, kept in the encoding. */
typedef struct accel__encode_scratch {
  accel__chars raw, chars, other; /* the text; being normalized; the other of a pair of buffers */
  accel__splits segments, splits, other_splits;
  accel__tokens tokens[2]; /* of text and pair */
  accel__match *match;
  size_t match_n, match_capacity;
  struct accel__change *change;
  size_t change_n, change_capacity;
  char *utf8; /* one split */
  size_t utf8_capacity;
  uint32_t *bound; /* byte offsets of its chars */
  size_t bound_capacity;
  uint64_t *hash; /* WordPiece */
  size_t hash_capacity;
  struct accel__symbol *symbol; /* BPE */
  size_t symbol_capacity;
  struct accel__candidate *candidate;
  size_t candidate_capacity;
  accel__regex_stack regex;
  struct accel__best *best; /* Unigram */
  size_t best_capacity;
  struct accel__piece *piece; /* pairs.c */
  size_t piece_capacity;
  struct accel__joint *joint;
  size_t joint_capacity;
  struct accel__part *part; /* truncation */
  size_t part_capacity;
  uint32_t *combination;
  size_t combination_capacity;
  struct accel__word_cache *word_cache; /* word_cache.c */
  bool phonemes;                        /* accel__encode_options.phonemes of the call */
  uint32_t *origin;
  size_t origin_capacity;
} accel__encode_scratch;

accel_status accel__chars_push(accel__chars *chars, uint32_t c, uint32_t start, uint32_t end);
/* replaces what out held */
accel_status accel__chars_decode(accel__chars *out, const char *text, size_t n);
accel_status accel__splits_push(accel__splits *splits, accel__split split);
static inline size_t accel__utf8_length(uint32_t c) {
  return c < 0x80 ? 1 : c < 0x800 ? 2 : c < 0x10000 ? 3 : 4;
}
/* UTF-8 of chars[0..n) into scratch->utf8, scratch->bound[0..n] = where each begins; *bytes is
 * bound[n]. */
accel_status accel__chars_utf8(accel__encode_scratch *s, const accel__char *chars, size_t n,
                               size_t *bytes);

/* ---- vocabulary ---- */

typedef struct accel__vocab_entry {
  size_t offset; /* into bytes; NUL-terminated there */
  uint32_t n;
  int32_t id;
} accel__vocab_entry;
typedef struct accel__vocab {
  accel__buffer bytes;
  accel__vocab_entry *entry;
  size_t n, capacity;
  uint32_t *slot;  /* open addressing: entry + 1 */
  uint32_t *tag;   /* beside slot: upper half of the hash */
  size_t slots;    /* power of two */
  uint32_t *by_id; /* entry + 1; [max_id + 1] */
  size_t ids;      /* max_id + 1 */
  size_t longest;  /* bytes */
} accel__vocab;

/* The hash can be carried from prefix to prefix: start with ACCEL__HASH_SEED. */
#define ACCEL__HASH_SEED 0x9E3779B97F4A7C15u
static inline uint64_t accel__hash_step(uint64_t h, uint8_t byte) {
  return (h ^ byte) * 0x100000001B3u;
}
static inline uint64_t accel__hash_bytes(uint64_t h, const char *bytes, size_t n) {
  for (size_t i = 0; i < n; ++i) h = accel__hash_step(h, (uint8_t)bytes[i]);
  return h;
}
static inline uint64_t accel__hash_end(uint64_t h) { return (h ^ (h >> 29)) * 0xBF58476D1CE4E5B9u; }

/* Capacity for n tokens without rehashing. */
accel_status accel__vocab_reserve(accel__vocab *v, size_t n);
accel_status accel__vocab_add(accel__vocab *v, const char *token, size_t n,
                              int32_t id); /* a token already there gets the new id */
/* builds by_id, gives back what growing has reserved */
accel_status accel__vocab_finish(accel__vocab *v);
size_t accel__vocab_bytes(const accel__vocab *v);
/* The entry whose token is prefix + text, or NULL; `hash` is that of the whole, before
 * accel__hash_end. */
const accel__vocab_entry *accel__vocab_find(const accel__vocab *v, uint64_t hash,
                                            const char *prefix, size_t prefix_n, const char *text,
                                            size_t n);
int32_t accel__vocab_id(const accel__vocab *v, const char *token, size_t n);     /* -1 */
const accel__vocab_entry *accel__vocab_token(const accel__vocab *v, int32_t id); /* NULL */
static inline const char *accel__vocab_text(const accel__vocab *v, const accel__vocab_entry *e) {
  return v->bytes.data + e->offset;
}
void accel__vocab_free(accel__vocab *v);

/* ---- trie over code points: longest or every prefix ---- */

typedef struct accel__trie {
  uint32_t *first; /* [n + 1] children of node i are [first[i], first[i+1]) */
  uint32_t *label; /* [n] code point that leads to node i; ascending among siblings */
  int32_t *value;  /* [n] -1 none */
  size_t n;
  uint64_t ascii[2]; /* code points below 128 that strings begin with */
  bool others;       /* do strings begin with code points from 128 on? */
} accel__trie;       /* {0}: no string is in it */
typedef struct accel__trie_string {
  const char *text;
  size_t n;
  int32_t value;
  uint64_t key; /* filled by accel__trie_build */
} accel__trie_string;
/* Sorts `strings` in place; of equal ones the last given wins.  Empty strings are left out. */
accel_status accel__trie_build(accel__trie *t, accel__trie_string *strings, size_t n);
/* Does any string begin with `c`?  Quick; may say yes where none does. */
static inline bool accel__trie_begins(const accel__trie *t, uint32_t c) {
  return c < 128 ? t->ascii[c >> 6] >> (c & 63) & 1 : t->others;
}
/* The child of `node` (0 root) by `c`, or 0. */
uint32_t accel__trie_step(const accel__trie *t, uint32_t node, uint32_t c);
size_t accel__trie_bytes(const accel__trie *t);
void accel__trie_free(accel__trie *t);

/* ---- steps of tokenizer.json ---- */

/* split.c: expressions matched by hand.  The length of the match at chars[0], n > 0; 0 none. */
typedef size_t (*accel__split_fn)(const accel__char *chars, size_t n);
typedef struct accel__known_split {
  const char *expression;
  accel__split_fn fn;
} accel__known_split;
extern const accel__known_split accel__known_splits[];      /* ends with a NULL */
accel__split_fn accel__split_known(const char *expression); /* NULL */
size_t accel__split_gpt2(const accel__char *chars, size_t n);
size_t accel__split_cl100k(const accel__char *chars, size_t n); /* Llama 3 too */
size_t accel__split_qwen2(const accel__char *chars, size_t n);
size_t accel__split_clip(const accel__char *chars, size_t n);

/* What Replace and Split look for. */
typedef enum accel__pattern_kind {
  ACCEL__PATTERN_STRING,
  ACCEL__PATTERN_REGEX,
  ACCEL__PATTERN_KNOWN, /* an expression of split.c */
} accel__pattern_kind;
typedef struct accel__pattern {
  accel__pattern_kind kind;
  const uint32_t *string; /* STRING */
  size_t n;
  const accel__regex *regex; /* REGEX */
  accel__split_fn known;     /* KNOWN */
} accel__pattern;
accel_status accel__pattern_parse(accel__arena *arena, const accel__json_file *file,
                                  const accel__json *object, accel__pattern *out);
/* Cuts chars[0..n) into matches and what is between them, in scratch->match. */
accel_status accel__pattern_find(const accel__pattern *p, const accel__char *chars, size_t n,
                                 accel__encode_scratch *s);

typedef enum accel__normalizer_kind {
  ACCEL__NORMALIZE_BERT,
  ACCEL__NORMALIZE_STRIP,
  ACCEL__NORMALIZE_STRIP_ACCENTS,
  ACCEL__NORMALIZE_NFC,
  ACCEL__NORMALIZE_NFD,
  ACCEL__NORMALIZE_NFKC,
  ACCEL__NORMALIZE_NFKD,
  ACCEL__NORMALIZE_LOWERCASE,
  ACCEL__NORMALIZE_NMT,
  ACCEL__NORMALIZE_PRECOMPILED,
  ACCEL__NORMALIZE_REPLACE,
  ACCEL__NORMALIZE_PREPEND,
  ACCEL__NORMALIZE_BYTE_LEVEL,
  ACCEL__NORMALIZE_UPPERCASE,     /* of no tokenizer.json */
  ACCEL__NORMALIZE_SENTENCEPIECE, /* of no tokenizer.json: marian_tokenizer.c */
} accel__normalizer_kind;
typedef struct accel__normalizer {
  accel__normalizer_kind kind;
  bool clean_text, handle_chinese_chars, strip_accents, lowercase; /* BERT */
  bool left, right;                                                /* STRIP */
  accel__pattern pattern;                                          /* REPLACE */
  /* REPLACE, PREPEND: code points */
  const uint32_t *content;
  size_t content_n;
  bool dummy_prefix, remove_extra; /* SENTENCEPIECE: as its model says */
  /* PRECOMPILED, SENTENCEPIECE: double array (darts-clone); the latter may have none */
  const uint32_t *trie;
  size_t trie_n;
  const char *replacements; /* NUL-separated; ends with a NUL */
  size_t replacements_n;
} accel__normalizer;

typedef enum accel__behavior {
  ACCEL__SPLIT_REMOVED,
  ACCEL__SPLIT_ISOLATED,
  ACCEL__SPLIT_MERGED_WITH_PREVIOUS,
  ACCEL__SPLIT_MERGED_WITH_NEXT,
  ACCEL__SPLIT_CONTIGUOUS,
} accel__behavior;
/* ACCEL__PRE_BERT ...: the lines of pretokenizers.def. */
typedef enum accel__pre_tokenizer_kind {
#define ACCEL_PRE_TOKENIZER(kind, name, parameters, work) ACCEL__PRE_##kind,
#include "text/pretokenizers.def"
} accel__pre_tokenizer_kind;
typedef enum accel__prepend {
  ACCEL__PREPEND_ALWAYS,
  ACCEL__PREPEND_FIRST,
  ACCEL__PREPEND_NEVER
} accel__prepend;
typedef struct accel__pre_tokenizer {
  accel__pre_tokenizer_kind kind;
  accel__behavior behavior; /* what becomes of matches */
  uint32_t c;               /* the delimiter or replacement */
  accel__prepend prepend;
  accel__pattern pattern;
  /* the flags and numbers of pretokenizers.def */
#define PRE_FLAG(member, value)                           bool member;
#define PRE_NUMBER(member, value, min, max)               int64_t member;
#define ACCEL_PRE_TOKENIZER(kind, name, parameters, work) parameters
#include "text/pretokenizers.def"
} accel__pre_tokenizer;
/* The functions of pretokenizers.def.  One that cuts appends what it makes of `split` to
 * s->other_splits; one that changes replaces s->chars and s->splits, and knows whether it is the
 * last step. */
#define PRE_CUTS(function)                                                          \
  accel_status function(const accel__pre_tokenizer *step, accel__encode_scratch *s, \
                        const accel__split *split);
#define PRE_CHANGES(function) \
  accel_status function(const accel__pre_tokenizer *step, bool last, accel__encode_scratch *s);
#define ACCEL_PRE_TOKENIZER(kind, name, parameters, work) work
#include "text/pretokenizers.def"

/* What they are made of.  Matches of a split, in s->match: its characters that have a flag of
 * unicode.h, or that are `c`. */
accel_status accel__match_flag(accel__encode_scratch *s, const accel__split *split, unsigned flag);
accel_status accel__match_char(accel__encode_scratch *s, const accel__split *split, uint32_t c);
/* The matches, which cover the characters from `first` on, as splits. */
accel_status accel__cut_matches(accel__encode_scratch *s, size_t first, accel__behavior behavior);
/* One split of n characters from `first` on. */
accel_status accel__push_split(accel__encode_scratch *s, size_t first, size_t n);

typedef enum accel__decoder_kind {
  ACCEL__DECODE_WORDPIECE,
  ACCEL__DECODE_BYTE_LEVEL,
  ACCEL__DECODE_METASPACE,
  ACCEL__DECODE_BPE,
  ACCEL__DECODE_CTC,
  ACCEL__DECODE_REPLACE,
  ACCEL__DECODE_FUSE,
  ACCEL__DECODE_STRIP,
  ACCEL__DECODE_BYTE_FALLBACK,
  ACCEL__DECODE_SENTENCEPIECE, /* of no tokenizer.json: marian_tokenizer.c */
} accel__decoder_kind;
typedef struct accel__decoder {
  accel__decoder_kind kind;
  const char *text, *other; /* prefix, suffix, pad token; word delimiter, replacement */
  bool clean_up;
  uint32_t c; /* METASPACE, STRIP */
  accel__prepend prepend;
  size_t start, stop;     /* STRIP */
  accel__pattern pattern; /* REPLACE */
} accel__decoder;

typedef struct accel__template_piece {
  int sequence; /* 0 or 1: all of that text; -1: the ids below */
  int32_t type_id;
  const int32_t *ids;
  size_t n;
} accel__template_piece;
typedef struct accel__template {
  accel__template_piece *piece;
  size_t n;
  uint32_t added; /* special tokens in it */
} accel__template;

typedef enum accel__vocab_model_kind {
  ACCEL__VOCAB_MODEL_WORDPIECE,
  ACCEL__VOCAB_MODEL_WORDLEVEL,
  ACCEL__VOCAB_MODEL_BPE,
  ACCEL__VOCAB_MODEL_UNIGRAM,
  /* SentencePiece's own BPE (marian_tokenizer.c); a tokenizer.json has Unigram in its place */
  ACCEL__VOCAB_MODEL_PAIRS
} accel__vocab_model_kind;
typedef struct accel__merge {
  uint32_t left, right; /* ids */
  uint32_t rank, id;    /* rank = UINT32_MAX: empty slot */
} accel__merge;
typedef struct accel__vocab_model {
  accel__vocab_model_kind kind;
  const char *unk_token; /* NULL: none */
  int32_t unk;           /* -1: none, or not in the vocabulary */
  const char *prefix;    /* continuing_subword_prefix; "" none */
  const char *suffix;    /* BPE end_of_word_suffix; "" none */
  size_t prefix_n, suffix_n;
  uint64_t prefix_hash;
  size_t max_chars; /* WordPiece */
  bool fuse_unk, byte_fallback, ignore_merges;
  bool crosses;        /* BPE: some merge joins U+2581 to something before it */
  bool cuts_at_space;  /* BPE: a word may be cut before every U+2581 that follows something else */
  accel__merge *merge; /* BPE: open addressing */
  size_t merges;       /* slots; 0 none */
  double *score;       /* Unigram and PAIRS, by id; with piece_id by piece */
  double unk_score;
  /* PAIRS, and Unigram as SentencePiece itself has it, beside a vocabulary of its own
   * (marian_tokenizer.c): the token of each piece, and sums in fp32.  NULL: piece i is token i. */
  const int32_t *piece_id;
  accel__trie trie;     /* Unigram, PAIRS */
  int32_t byte_id[256]; /* "<0x41>"; -1 none */
} accel__vocab_model;

typedef struct accel__added {
  const char *content; /* in the file */
  size_t content_n;
  const char *match; /* normalized when `normalized` */
  size_t match_n;
  const char *shown; /* what decoding gives: normalized when any token of this text is */
  size_t shown_n;
  int32_t id;
  bool single_word, lstrip, rstrip, normalized, special;
  bool skipped; /* left out where special tokens are: any token of this text is special */
} accel__added;

/* Tokenizers of characters (character_tokenizer.h). */
typedef enum accel__character_class {
  ACCEL__CHARACTERS_NONE,
  ACCEL__CHARACTERS_CTC,
  ACCEL__CHARACTERS_VITS
} accel__character_class;
typedef struct accel__characters {
  accel__character_class class;
  bool phonemize;                           /* tokens are phonemes, of which texts have none */
  bool normalize, uroman, romanian, blanks; /* VITS */
  bool lower;                    /* CTC: capitals in the vocabulary, small letters in texts */
  const char *unknown;           /* unk_token */
  const char *blank;             /* CTC: pad_token */
  const char *delimiter, *space; /* CTC: word_delimiter_token, and what stands for it in texts */
} accel__characters;

typedef struct accel__vocabulary accel__vocabulary;
struct accel__tokenizer {
  accel__arena arena;
  char *name; /* of the file, for messages */
  accel__tokenizer_info info;
  /* what made the tokenizer of the vocabulary (tokenizer_class.h); NULL: tokenizer.json alone */
  const struct accel__tokenizer_class *class;
  accel__vocab vocab;  /* the model's */
  accel__vocab target; /* Marian's separate vocabularies: what ids are decoded by; n 0: vocab */
  accel__characters characters;
  bool by_pairs; /* the SentencePiece model beside vocab.json is BPE */
  bool codes;    /* Marian: ">>fr<<" at the beginning of a text is one token */
  accel__vocab_model model;
  accel__normalizer *normalizer;
  size_t normalizers;
  accel__pre_tokenizer *pre_tokenizer;
  size_t pre_tokenizers;
  accel__template single, pair;
  bool bare;          /* no post-processor */
  bool split_special; /* split_special_tokens: special tokens in a text are plain text */
  bool roberta;       /* RobertaProcessing: every type id is 0, also in overflowing pieces */
  size_t trims;       /* how often offsets are trimmed of spaces */
  bool trim_prefix_space[4];
  accel__decoder *decoder;
  size_t decoders; /* 0: tokens joined by spaces */
  accel__added *added;
  size_t added_n;
  accel__vocab added_vocab; /* content -> id */
  int32_t empty_added;      /* added + 1: normalization leaves nothing of it; 0 none */
  uint32_t *added_by_id;    /* added + 1; [added_ids] */
  size_t added_ids;
  accel__trie raw_trie, normalized_trie; /* value: index of the added token */
  uint64_t serial;                       /* no two tokenizers of a process have the same */
  /* the last pre-tokenizer step is ByteLevel: word_cache.c makes bytes of words */
  bool bytes_last;
  accel__vocabulary *vocabulary; /* its tokens as bytes, for grammars; changes under its own lock */
};

/* grammar/vocabulary.c */
accel_status accel__vocabulary_new(accel__vocabulary **out);
void accel__vocabulary_free(accel__vocabulary *v); /* NULL-safe */
size_t accel__vocabulary_bytes(accel__vocabulary *v);

/* ---- the steps, one file each ---- */

/* normalize.c: chars in, chars out, both s->chars. */
accel_status accel__normalize(const accel__normalizer *steps, size_t n, accel__encode_scratch *s);
/* The replacement of a prefix of chars[0..n) that the character map knows, or NULL: of the
 * shortest, or, where `taken` is given, of the longest, which has *taken code points. */
const char *accel__mapped(const accel__normalizer *step, const accel__char *chars, size_t n,
                          size_t *taken);
/* spm_normalize.c: SentencePiece's own normalizer. */
accel_status accel__spm_normalize(const accel__normalizer *step, accel__encode_scratch *s);
/* Bytes to the printable code points of byte-level models, and back (-1: none). */
uint32_t accel__byte_to_char(uint8_t byte);
int accel__char_to_byte(uint32_t c);
/* pretokenize.c: s->chars and s->splits in and out.  The bytes of a last ByteLevel are left to
 * word_cache.c. */
accel_status accel__pre_tokenize(const accel__pre_tokenizer *steps, size_t n,
                                 accel__encode_scratch *s);
/* added.c: cuts chars[0..n) at added tokens of `trie`, appending to `out` splits that start at
 * `first`. */
accel_status accel__added_split(const accel__tokenizer *t, const accel__trie *trie,
                                bool ignore_special, const accel__char *chars, size_t n,
                                size_t first, accel__splits *out);
/* ids, normalized forms and tries, once `added` is filled */
accel_status accel__added_build(accel__tokenizer *t);
/* word_cache.c: appends the tokens of one split to `out`, from what is known of the word, or by
 * accel__vocab_model_tokenize. */
typedef struct accel__word_token {
  int32_t id;
  uint16_t first, last; /* code points of the word */
  uint32_t lead, trail;
} accel__word_token;
accel_status accel__word_tokenize(const accel__tokenizer *t, const accel__char *chars, size_t n,
                                  int32_t number, accel__encode_scratch *s, accel__tokens *out);
void accel__word_cache_free(struct accel__word_cache *cache); /* NULL-safe */
/* wordpiece.c, bpe.c, unigram.c: appends the tokens of one split to `out`. */
accel_status accel__vocab_model_tokenize(const accel__tokenizer *t, const accel__char *chars,
                                         size_t n, int32_t word, accel__encode_scratch *s,
                                         accel__tokens *out);
accel_status accel__bpe_tokenize(const accel__tokenizer *t, const accel__char *chars, size_t n,
                                 int32_t word, accel__encode_scratch *s, accel__tokens *out);
accel_status accel__unigram_tokenize(const accel__tokenizer *t, const accel__char *chars, size_t n,
                                     int32_t word, accel__encode_scratch *s, accel__tokens *out);
accel_status accel__pairs_tokenize(const accel__tokenizer *t, const accel__char *chars, size_t n,
                                   int32_t word, accel__encode_scratch *s, accel__tokens *out);
/* Of a piece that no single token stands for: a token of that text after all, its bytes, or the
 * unknown token. */
accel_status accel__unknown_piece(const accel__tokenizer *t, const accel__char *chars, size_t n,
                                  int32_t word, accel__encode_scratch *s, accel__tokens *out);
accel_status accel__tokens_push(const accel__tokenizer *t, accel__tokens *tokens, int32_t id,
                                const accel__char *first, size_t n, int32_t word);
/* An added token's; its spaces are those of the text matched. */
accel_status accel__tokens_push_added(const accel__tokenizer *t, accel__tokens *tokens, int32_t id,
                                      const accel__char *first, size_t n, int32_t word,
                                      accel__encode_scratch *s);
/* Counts the spaces that trimming offsets cares for at the ends of `text`. */
void accel__count_spaces(const char *text, size_t n, uint32_t *lead, uint32_t *trail);
/* load.c: a special token by its name in tokenizer_config.json, else special_tokens_map.json, else
 * `usual`. */
const char *accel__special_text(const accel__json *config, const accel__json *map, const char *key,
                                const char *usual);
/* load.c helpers used by the step parsers in steps.c */
accel_status accel__parse_normalizer(accel__tokenizer *t, const accel__json_file *file,
                                     const accel__json *object);
accel_status accel__parse_pre_tokenizer(accel__tokenizer *t, const accel__json_file *file,
                                        const accel__json *object);
accel_status accel__parse_post_processor(accel__tokenizer *t, const accel__json_file *file,
                                         const accel__json *object);
accel_status accel__parse_decoder(accel__tokenizer *t, const accel__json_file *file,
                                  const accel__json *object);
/* steps.c: out holds n / 4 * 3 + 3 bytes; stops at '='. */
bool accel__base64_decode(const char *text, size_t n, uint8_t *out, size_t *out_n);
/* steps.c: a precompiled_charsmap of `n` bytes, raw[n] one byte more, which is kept; false: it is
 * none. */
bool accel__charsmap_set(accel__tokenizer *t, uint8_t *raw, size_t n, accel__normalizer *to,
                         accel_status *status);
/* steps.c: appends the first or the second text, or a token, to a template. */
accel_status accel__template_push_text(accel__tokenizer *t, accel__template *to, bool second,
                                       int32_t type);
accel_status accel__template_push_id(accel__tokenizer *t, accel__template *to, int32_t id,
                                     int32_t type);
/* scan.c: the large parts of a tokenizer.json, read without building a tree. */
typedef struct accel__scan {
  const char *vocab, *merges; /* NULL when absent */
  size_t vocab_n, merges_n;
  accel__buffer rest; /* the file with both replaced by null */
} accel__scan;
accel_status accel__scan_tokenizer(const char *json, size_t n, const char *name, accel__scan *out);
accel_status accel__scan_vocab_object(const accel__scan *scan, const char *name, accel__vocab *out);
accel_status accel__scan_vocab_array(const accel__scan *scan, const char *name, accel__vocab *out,
                                     double **scores);
accel_status accel__scan_merges(const accel__scan *scan, const char *name, accel__tokenizer *t);
/* bpe.c */
accel_status accel__merge_reserve(accel__vocab_model *m, size_t n);
void accel__merge_set(accel__vocab_model *m, uint32_t left, uint32_t right, uint32_t rank,
                      uint32_t id);
/* NULL */
const accel__merge *accel__merge_get(const accel__vocab_model *m, uint32_t left, uint32_t right);

#endif
