/* unicode.h - what Hugging Face's `tokenizers` package believes about code points, and the
 * normal forms built on it.
 *
 * The tables (unicode_tables.c) are generated from that package by tools/make_unicode_tables.py,
 * because its answers come from several Unicode versions at once and token ids must agree with
 * it.
 */
#ifndef ACCEL_TEXT_UNICODE_H
#define ACCEL_TEXT_UNICODE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Flags of a code point; the order is that of the generator. */
enum {
  ACCEL__UNI_WHITE = 1 << 0, /* Rust char::is_whitespace; also \s of the regex crate */
  /* BertNormalizer's clean_text removes it (Cc, Cf, Cn, Co but tab and line ends; U+0, U+FFFD) */
  ACCEL__UNI_CONTROL = 1 << 1,
  ACCEL__UNI_PUNCT = 1 << 2, /* ASCII punctuation or category P: BertPreTokenizer, Punctuation */
  ACCEL__UNI_NONSPACING = 1 << 3,  /* category Mn; not set where NFD takes the code point apart */
  ACCEL__UNI_MARK = 1 << 4,        /* category M: StripAccents */
  ACCEL__UNI_NUMERIC = 1 << 5,     /* Rust char::is_numeric: Digits */
  ACCEL__UNI_WORD = 1 << 6,        /* \w of the regex crate: Whitespace, single_word */
  ACCEL__UNI_CJK = 1 << 7,         /* BertNormalizer puts spaces around it */
  ACCEL__UNI_LETTER = 1 << 8,      /* \p{L} of Oniguruma: ByteLevel, Split */
  ACCEL__UNI_NUMBER = 1 << 9,      /* \p{N} of Oniguruma */
  ACCEL__UNI_SPACE = 1 << 10,      /* \s of Oniguruma */
  ACCEL__UNI_DECOMPOSES = 1 << 11, /* has an entry in the decomposition table */
  ACCEL__UNI_COMPOSES = 1 << 12,   /* may be the second of a composition */
  ACCEL__UNI_WORD_ONIG = 1 << 13,  /* \w of Oniguruma */
};

/* Grapheme classes, as far as Precompiled needs them (graphemes of fewer than 6 bytes); Hangul is
 * told by range. */
enum {
  ACCEL__GRAPHEME_OTHER,
  ACCEL__GRAPHEME_EXTEND,
  ACCEL__GRAPHEME_CONTROL,
  ACCEL__GRAPHEME_PREPEND,
  ACCEL__GRAPHEME_PICTOGRAPH,
  ACCEL__GRAPHEME_ZWJ,
};

/* General categories, in the generator's order; a set of them is a mask of 1 << category. */
enum {
  ACCEL__CATEGORY_LU,
  ACCEL__CATEGORY_LL,
  ACCEL__CATEGORY_LT,
  ACCEL__CATEGORY_LM,
  ACCEL__CATEGORY_LO,
  ACCEL__CATEGORY_MN,
  ACCEL__CATEGORY_MC,
  ACCEL__CATEGORY_ME,
  ACCEL__CATEGORY_ND,
  ACCEL__CATEGORY_NL,
  ACCEL__CATEGORY_NO,
  ACCEL__CATEGORY_PC,
  ACCEL__CATEGORY_PD,
  ACCEL__CATEGORY_PS,
  ACCEL__CATEGORY_PE,
  ACCEL__CATEGORY_PI,
  ACCEL__CATEGORY_PF,
  ACCEL__CATEGORY_PO,
  ACCEL__CATEGORY_SM,
  ACCEL__CATEGORY_SC,
  ACCEL__CATEGORY_SK,
  ACCEL__CATEGORY_SO,
  ACCEL__CATEGORY_ZS,
  ACCEL__CATEGORY_ZL,
  ACCEL__CATEGORY_ZP,
  ACCEL__CATEGORY_CC,
  ACCEL__CATEGORY_CF,
  ACCEL__CATEGORY_CS,
  ACCEL__CATEGORY_CO,
  ACCEL__CATEGORY_CN,
};
#define ACCEL__CATEGORIES "LuLlLtLmLoMnMcMeNdNlNoPcPdPsPePiPfPoSmScSkSoZsZlZpCcCfCsCoCn"

typedef struct accel__unicode_record {
  uint16_t flags;
  uint8_t combining; /* canonical combining class; 0: starter */
  uint8_t grapheme;  /* ACCEL__GRAPHEME_* */
  uint8_t category;  /* ACCEL__CATEGORY_* as Oniguruma has it */
  /* added to the code point gives its lower case (U+0130 has two: accel__unicode_lower) */
  int32_t lower;
} accel__unicode_record;
typedef struct accel__unicode_decomposition {
  uint32_t code_point;
  /* places in accel__unicode_decomposed: length, then code points; 0 none */
  uint16_t canonical, compatible;
} accel__unicode_decomposition;
typedef struct accel__unicode_composition {
  uint32_t first, second, composed;
} accel__unicode_composition;

extern const accel__unicode_record accel__unicode_records[];
extern const uint16_t accel__unicode_blocks[0x110000 / 128];
extern const uint16_t accel__unicode_index[];
extern const size_t accel__unicode_decomposition_count, accel__unicode_composition_count;
/* sorted; Hangul syllables are computed instead */
extern const accel__unicode_decomposition accel__unicode_decompositions[];
extern const uint32_t accel__unicode_decomposed[];
/* sorted by (first, second) */
extern const accel__unicode_composition accel__unicode_compositions[];

/* `c` must be below 0x110000. */
static inline const accel__unicode_record *accel__unicode(uint32_t c) {
  return &accel__unicode_records[accel__unicode_index[(size_t)accel__unicode_blocks[c >> 7] * 128 +
                                                      (c & 127)]];
}
static inline bool accel__unicode_is(uint32_t c, unsigned flag) {
  return (accel__unicode(c)->flags & flag) != 0;
}

/* Full decomposition of one code point into out[]; returns how many (at most 18), 1 when it is its
 * own. */
enum { ACCEL__UNICODE_DECOMPOSED_MAX = 18 };
size_t accel__unicode_decompose(uint32_t c, bool compatible,
                                uint32_t out[ACCEL__UNICODE_DECOMPOSED_MAX]);
/* The canonical composition of two code points, or 0. */
uint32_t accel__unicode_compose(uint32_t first, uint32_t second);
/* The class of `c` below 0x110000 by which UnicodeScripts cuts; 0: it goes with anything. */
uint32_t accel__unicode_script(uint32_t c);
/* Lower case into out[2]; returns how many. */
size_t accel__unicode_lower(uint32_t c, uint32_t out[2]);
/* Upper case as Python's str.upper has it, into out[3]; returns how many. */
size_t accel__unicode_upper(uint32_t c, uint32_t out[3]);

#endif
