/* text_corpus_test.c - every fixture of tests/fixtures/tokenizers against what the `tokenizers`
 * package made of 10,000 strings.
 *
 * The strings are those of tests/goldens/tokenizer_corpus.py, made here again; the goldens are one
 * CRC-32 a string, over what tests/goldens/make_tokenizer_goldens.py describes: ids, type ids,
 * masks, offsets, word and sequence ids of every piece, decoded text.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <zlib.h>

#include "core/arena.h"
#include "core/file.h"
#include "text/tokenizer.h"

enum {
  STRINGS = 10000,
  PER_STRING = 112,
  BLOCKS = 9930,
  ODD_BLOCKS = 4965,
  SCATTER = 400009,
  CODE_POINTS = 0x110000 - 0x800,
  EVERY = ACCEL_SANITIZER ? 9 : 1 /* string that is compared: a sanitizer is many times as slow */
};

static const char *const words[] = {"the",
                                    "quick",
                                    "brown",
                                    "fox's",
                                    "jumped",
                                    "over",
                                    "hello",
                                    "world",
                                    "isn't",
                                    "don't",
                                    "I'm",
                                    "we'll",
                                    "123",
                                    "45.6",
                                    "e-mail",
                                    "naive",
                                    "unaffable",
                                    "embedding",
                                    "[CLS]",
                                    "[MASK]",
                                    "</s>",
                                    "<s>",
                                    "<mask>",
                                    ",.",
                                    "...",
                                    "''",
                                    "``",
                                    "--",
                                    "$5.00",
                                    "##",
                                    "##ing",
                                    "a",
                                    "Stra\u00dfe",
                                    "caf\u00e9",
                                    "na\u00efve",
                                    "\u0130stanbul",
                                    "\u041c\u043e\u0441\u043a\u0432\u0430",
                                    "\u6771\u4eac",
                                    "\ud55c\uad6d\uc5b4",
                                    "\u0e20\u0e32\u0e29\u0e32",
                                    "ADDED",
                                    "added",
                                    "[extra]",
                                    "under_score",
                                    "x\u00b2",
                                    "\ufb01sh",
                                    "\u00bd"};
static const uint32_t joiners[] = {0x20,   0x09,   0x0A,   0x0D,   0x3000, 0xA0,   0x200B, 0x200D,
                                   0x1100, 0x1161, 0x11A8, 0xAC00, 0x4E00, 0x915,  0x94D,  0x130,
                                   0x2581, 0x120,  0xFE0F, 0xA9,   0x345,  0x1D165};
#define COUNT(array) (sizeof(array) / sizeof *(array))

static uint32_t below(uint64_t *state, uint32_t n) { /* splitmix64 */
  uint64_t z = *state += 0x9E3779B97F4A7C15u;
  z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
  z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
  return (uint32_t)(((z ^ (z >> 31)) >> 11) % n);
}

static void put(accel__buffer *b, uint32_t c) {
  char bytes[4];
  accel__buffer_bytes(b, bytes, accel__utf8_encode(c, bytes));
}

static int64_t code_point(uint64_t block, uint64_t i) {
  if (block >= BLOCKS) return -1;
  if (block % 2) {
    uint64_t at = (block / 2 * PER_STRING + i) * SCATTER % ((uint64_t)ODD_BLOCKS * PER_STRING);
    block = at / PER_STRING * 2 + 1;
    i = at % PER_STRING;
  }
  uint64_t c = block * PER_STRING + i;
  return c >= CODE_POINTS ? -1 : (int64_t)(c < 0xD800 ? c : c + 0x800);
}

static void make_string(uint64_t block, accel__buffer *out) {
  uint64_t random = 1000003 * block + 17;
  for (uint64_t i = 0; i < PER_STRING; ++i) {
    int64_t c = code_point(block, i);
    if (c < 0) continue;
    uint32_t k = below(&random, 20);
    if (k < 5)
      accel__buffer_text(out, " ");
    else if (k < 7) {
      accel__buffer_text(out, words[below(&random, COUNT(words))]);
      accel__buffer_text(out, " ");
    } else if (k == 7)
      put(out, 0x300 + below(&random, 0x70));
    else if (k == 8)
      put(out, joiners[below(&random, COUNT(joiners))]);
    put(out, (uint32_t)c);
  }
  if (below(&random, 3) != 0) return;
  for (uint32_t n = below(&random, 30); n > 0; --n) {
    static const char *const between[] = {"", " ", "  ", "\n"};
    accel__buffer_text(out, words[below(&random, COUNT(words))]);
    accel__buffer_text(out, between[below(&random, 4)]);
  }
}

static accel__buffer corpus[STRINGS];
static uint8_t *seen;

static int make_corpus(void **state) {
  (void)state;
  for (size_t i = 0; i < STRINGS; ++i) make_string(i, &corpus[i]);
  return 0;
}

static int free_corpus(void **state) {
  (void)state;
  for (size_t i = 0; i < STRINGS; ++i) accel__buffer_free(&corpus[i]);
  return 0;
}

static const char *text_of(size_t i) { return corpus[i].data ? corpus[i].data : ""; }

/* ---- checksums ---- */

/* CRC-32; zlib's begins anew where there are no bytes to point at. */
static uint32_t crc_bytes(uint32_t crc, const void *bytes, size_t n) {
  return n ? (uint32_t)crc32(crc, bytes, (uInt)n) : crc;
}

static uint32_t crc_word(uint32_t crc, uint32_t word) { return crc_bytes(crc, &word, 4); }

static uint32_t crc_encoding(const accel__encoding *e) {
  uint32_t crc = crc_word(0, (uint32_t)e->pieces);
  for (size_t p = 0; p < e->pieces; ++p) {
    const size_t from = e->start[p], n = e->start[p + 1] - from;
    crc = crc_word(crc, (uint32_t)n);
    crc = crc_bytes(crc, e->ids + from, 4 * n);
    crc = crc_bytes(crc, e->type_ids + from, 4 * n);
    for (size_t i = from; i < from + n; ++i) crc = crc_word(crc, e->special[i]);
    crc = crc_bytes(crc, e->chars + from, n * sizeof *e->chars);
    crc = crc_bytes(crc, e->word_ids + from, 4 * n);
    for (size_t i = from; i < from + n; ++i) crc = crc_word(crc, (uint32_t)e->sequence_ids[i]);
  }
  return crc;
}

/* Bytes and code points must name the same places: checked here, since Python only knows the
 * latter. */
static void check_bytes(const accel__encoding *e, size_t i, size_t pair) {
  for (size_t k = 0; k < e->n; ++k) {
    size_t string = e->sequence_ids[k] == 1 ? pair : i;
    uint32_t at = 0, chars = 0, c;
    while (at < e->bytes[k].start && chars < e->chars[k].start) {
      at += (uint32_t)accel__utf8_decode(text_of(string) + at, corpus[string].n - at, &c);
      chars++;
    }
    assert_int_equal(at, e->bytes[k].start);
    assert_int_equal(chars, e->chars[k].start);
    while (at < e->bytes[k].end && chars < e->chars[k].end) {
      at += (uint32_t)accel__utf8_decode(text_of(string) + at, corpus[string].n - at, &c);
      chars++;
    }
    assert_int_equal(at, e->bytes[k].end);
    assert_int_equal(chars, e->chars[k].end);
  }
}

/* String i as tokenizer_corpus.How says. */
static uint32_t checksum(const accel__tokenizer *t, size_t i, accel__encoding *e) {
  size_t pair = (7 * i + 3) % STRINGS;
  bool paired = i % 5 == 1;
  accel__encode_options how = {
      .add_special_tokens = i % 11 != 4,
      .max_length = 24 + (uint32_t)i % 13,
      .stride = (uint32_t)i % 6,
      .truncate_left = i / 21 % 2 == 1,
      .truncation = i % 7 == 3 ? (accel__truncation)(1 + i / 7 % 3) : ACCEL__TRUNCATE_NONE};
  if (accel__encode(t, text_of(i), corpus[i].n, paired ? text_of(pair) : NULL, corpus[pair].n, &how,
                    e) != ACCEL_OK) {
    assert_int_not_equal(accel__message()[0], 0);
    return crc_word(0, 0xFFFFFFFFu);
  }
  /* a template that uses a text twice numbers it once: no text to check against */
  bool repeated = false;
  for (size_t k = 0; k < e->n; ++k)
    repeated = repeated || (e->sequence_ids[k] < 0 && !e->special[k]);
  if (i % 16 == 1 && !repeated) check_bytes(e, i, pair);
  accel__buffer text = {0};
  uint32_t crc = crc_encoding(e);
  assert_int_equal(accel__decode(t, e->ids, e->n, i % 2 == 0, false, &text), ACCEL_OK);
  crc = crc_bytes(crc, text.data, text.n);
  accel__buffer_free(&text);
  return crc;
}

static void compare(const char *name) {
  char path[512];
  accel__tokenizer *t = NULL;
  accel__mapping golden;
  accel__encoding e = {0};
  snprintf(path, sizeof path, "%s/tokenizers/%s.json", ACCEL_FIXTURES, name);
  if (accel__tokenizer_load(path, &t) != ACCEL_OK) fail_msg("%s", accel__message());
  snprintf(path, sizeof path, "%s/tokenizers/%s.crc", ACCEL_FIXTURES, name);
  if (accel__file_map(path, &golden) != ACCEL_OK) fail_msg("%s", accel__message());
  assert_int_equal(golden.n, 4 * STRINGS);
  size_t different = 0;
  for (size_t i = 0; i < STRINGS; i += EVERY) {
    const uint8_t *at = golden.data + 4 * i;
    uint32_t want =
        (uint32_t)at[0] | (uint32_t)at[1] << 8 | (uint32_t)at[2] << 16 | (uint32_t)at[3] << 24;
    if (checksum(t, i, &e) == want) continue;
    if (different++ < 10)
      print_error("%s: string %zu is encoded or decoded differently\n", name, i);
  }
  accel__encoding_free(&e);
  accel__file_unmap(&golden);
  accel__tokenizer_free(&t);
  assert_int_equal(different, 0);
}

/* ---- tests ---- */

static void test_corpus(void **state) { /* the generator itself: every code point is there */
  (void)state;
  size_t n = 0, bytes = 0;
  seen = calloc(0x110000, 1);
  assert_non_null(seen);
  for (size_t i = 0; i < STRINGS; ++i) {
    bytes += corpus[i].n;
    for (size_t at = 0; at < corpus[i].n;) {
      uint32_t c;
      at += accel__utf8_decode(corpus[i].data + at, corpus[i].n - at, &c);
      n += !seen[c];
      seen[c] = 1;
    }
  }
  free(seen);
  assert_int_equal(n, CODE_POINTS);
  assert_int_equal(bytes, 5891214); /* what tokenizer_corpus.py prints */
}

#define FIXTURE(name)                     \
  static void test_##name(void **state) { \
    (void)state;                          \
    compare(#name);                       \
  }
/* clang-format off */
#define FIXTURES(X) \
  X(wordpiece_uncased) \
  X(wordpiece_cased) \
  X(wordpiece_accents) \
  X(wordpiece_kept_accents) \
  X(wordpiece_mpnet) \
  X(wordpiece_sequence) \
  X(wordlevel_nfd) \
  X(wordlevel_nfc) \
  X(wordlevel_nfkd) \
  X(bpe_roberta) \
  X(bpe_modernbert) \
  X(bpe_prefix_space) \
  X(bpe_qwen3_5) \
  X(bpe_split) \
  X(bpe_suffix) \
  X(bpe_prefix) \
  X(bpe_llama) \
  X(unigram_xlmr) \
  X(unigram_albert) \
  X(unigram_deberta)
/* clang-format on */
FIXTURES(FIXTURE)
#define TEST(name) cmocka_unit_test(test_##name),

int main(void) {
  const struct CMUnitTest tests[] = {TEST(corpus) FIXTURES(TEST)};
  return cmocka_run_group_tests(tests, make_corpus, free_corpus);
}
