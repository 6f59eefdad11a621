/* text_tokenizer_test.c - loading, describing, refusing; words, malformed text, huge text,
 * threads.  Identity with the `tokenizers` package is text_corpus_test.c's part; expected ids here
 * come from it (0.23.3), those of vocab.txt from transformers 5.23. */
#include <malloc.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>

#include <cmocka.h>

#include "text/tokenizer.h"

#define FIXTURE(name) ACCEL_FIXTURES "/tokenizers/" name
#define COUNT(array)  (sizeof(array) / sizeof *(array))

static accel__tokenizer *load(const char *path) {
  accel__tokenizer *t = NULL;
  if (accel__tokenizer_load(path, &t) != ACCEL_OK) fail_msg("%s", accel__message());
  return t;
}

static void encode(const accel__tokenizer *t, const char *text, size_t n,
                   const accel__encode_options *how, accel__encoding *e) {
  if (accel__encode(t, text, n, NULL, 0, how, e) != ACCEL_OK) fail_msg("%s", accel__message());
}

static void expect_ids(const accel__encoding *e, const int32_t *ids, size_t n) {
  assert_int_equal(e->n, n);
  for (size_t i = 0; i < n; ++i) assert_int_equal(e->ids[i], ids[i]);
}
#define EXPECT_IDS(e, ...) \
  expect_ids(e, (const int32_t[]){__VA_ARGS__}, COUNT(((const int32_t[]){__VA_ARGS__})))

static void expect_spans(const accel__span *at, const uint32_t *want, size_t n) {
  for (size_t i = 0; i < n; ++i) {
    assert_int_equal(at[i].start, want[2 * i]);
    assert_int_equal(at[i].end, want[2 * i + 1]);
  }
}
#define EXPECT_SPANS(at, ...) \
  expect_spans(at, (const uint32_t[]){__VA_ARGS__}, COUNT(((const uint32_t[]){__VA_ARGS__})) / 2)

static const char sentence[] = "Hello Caf\u00e9, \u6771\u4eac [MASK] na\u00efve!";

static void test_vocab_txt(void **state) {
  (void)state;
  accel__encoding e = {0};
  accel__tokenizer *t = load(FIXTURE("vocab_txt"));
  encode(t, sentence, sizeof sentence - 1, NULL, &e);
  EXPECT_IDS(&e, 2, 38, 589, 321, 33, 192, 247, 185, 12, 169, 160, 4, 583, 211, 212, 185, 5, 3);
  EXPECT_SPANS(e.chars, 0, 0, 0, 1, 1, 3, 3, 5, 6, 7, 7, 8, 8, 9, 9, 10, 10, 11, 12, 13, 13, 14, 15,
               21, 22, 24);
  EXPECT_SPANS(e.bytes, 0, 0, 0, 1, 1, 3, 3, 5, 6, 7, 7, 8, 8, 9, 9, 11, 11, 12, 13, 16, 16, 19, 20,
               26, 27, 29);
  const accel__tokenizer_info *info = accel__tokenizer_describe(t);
  assert_int_equal(info->vocab_size, 700);
  assert_int_equal(info->model_max_length, 512);
  assert_string_equal(info->model_type, "WordPiece");
  assert_string_equal(info->continuing_subword_prefix, "##");
  assert_int_equal(info->pad, 0);
  assert_int_equal(info->unk, 1);
  assert_int_equal(info->cls, 2);
  assert_int_equal(info->sep, 3);
  assert_int_equal(info->mask, 4);
  assert_int_equal(info->bos, -1);
  accel__tokenizer_free(&t);
  t = load(FIXTURE("vocab_txt_cased"));
  encode(t, sentence, sizeof sentence - 1, NULL, &e);
  EXPECT_IDS(&e, 2, 34, 218, 249, 386, 1, 12, 183, 236, 4, 62, 226, 220, 229, 218, 5, 3);
  info = accel__tokenizer_describe(t);
  assert_true(info->pad_left);
  assert_true(info->truncate_left);
  assert_int_equal(info->model_max_length, 0);
  accel__tokenizer_free(&t);
  accel__encoding_free(&e);
}

static void test_describe(void **state) {
  (void)state;
  accel__tokenizer *t = load(FIXTURE("wordpiece_uncased.json"));
  const accel__tokenizer_info *info = accel__tokenizer_describe(t);
  assert_int_equal(info->vocab_size, 706);
  assert_int_equal(info->model_vocab_size, 700);
  assert_int_equal(info->max_id, 705);
  assert_true(info->file_truncates);
  assert_int_equal(info->file_max_length, 128);
  assert_int_equal(info->file_truncation, ACCEL__TRUNCATE_LONGEST_FIRST);
  assert_true(info->file_pads);
  assert_int_equal(info->file_pad_length, 128);
  assert_int_equal(accel__special_token_count(t, false), 2);
  assert_int_equal(accel__special_token_count(t, true), 3);
  int32_t id = accel__token_to_id(t, "ADDED", 5);
  assert_int_equal(id, 700);
  size_t n;
  assert_string_equal(accel__id_to_token(t, 3, &n), "[SEP]");
  assert_int_equal(n, 5);
  assert_null(accel__id_to_token(t, 706, NULL));
  assert_null(accel__id_to_token(t, -1, NULL));
  assert_int_equal(accel__token_to_id(t, "no such token", 13), -1);
  assert_true(accel__id_is_special(t, 3));
  assert_false(accel__id_is_special(t, id));
  accel__tokenizer_free(&t);
  accel__tokenizer_free(&t);
}

static void test_words(void **state) { /* is_split_into_words */
  (void)state;
  accel__encoding e = {0};
  accel__encode_options how = {.add_special_tokens = true, .words = true};
  accel__tokenizer *t = load(FIXTURE("wordpiece_uncased.json"));
  static const char text[] = "Hello\0\0Caf\u00e9 \u6771\u4eac\0[MASK]x";
  encode(t, text, sizeof text, &how, &e);
  EXPECT_IDS(&e, 2, 38, 589, 321, 705, 169, 160, 4, 54, 3);
  EXPECT_SPANS(e.chars, 0, 0, 0, 1, 1, 3, 3, 5, 0, 5, 5, 6, 6, 7, 0, 6, 6, 7, 0, 0);
  const int32_t words[] = {-1, 0, 0, 0, 2, 2, 2, 3, 3, -1};
  for (size_t i = 0; i < COUNT(words); ++i) assert_int_equal(e.word_ids[i], words[i]);
  accel__tokenizer_free(&t);
  accel__encoding_free(&e);
}

/* bytes that are no UTF-8 stand for U+FFFD, which BERT removes */
static void test_malformed_text(void **state) {
  (void)state;
  accel__encoding e = {0};
  accel__tokenizer *t = load(FIXTURE("wordpiece_uncased.json"));
  static const char text[] =
      "a\xff"
      "b \xc3(\xe6\x9d";
  encode(t, text, sizeof text - 1, NULL, &e);
  for (size_t i = 0; i < e.n; ++i)
    assert_true(e.bytes[i].end <= sizeof text - 1 && e.bytes[i].start <= e.bytes[i].end);
  assert_int_equal(e.bytes[e.n - 2].start, 5); /* the bracket */
  assert_int_equal(e.chars[e.n - 2].start, 5);
  encode(t, "", 0, NULL, &e);
  EXPECT_IDS(&e, 2, 3);
  encode(t, "\0\0", 2, NULL, &e);
  EXPECT_IDS(&e, 2, 3);
  accel__tokenizer_free(&t);
  accel__encoding_free(&e);
}

static void test_special_in_text(void **state) {
  (void)state;
  accel__encoding e = {0};
  accel__encode_options how = {.ignore_special_in_text = true};
  accel__tokenizer *t = load(FIXTURE("wordpiece_uncased.json"));
  encode(t, "[SEP] hi", 8, &(accel__encode_options){0}, &e);
  assert_int_equal(e.ids[0], 3);
  assert_int_equal(e.special[0], 0); /* not put there by the post-processor */
  encode(t, "[SEP] hi", 8, &how, &e);
  assert_int_not_equal(e.ids[0], 3);
  accel__tokenizer_free(&t);
  accel__encoding_free(&e);
}

static void test_decode(void **state) {
  (void)state;
  accel__tokenizer *t = load(FIXTURE("vocab_txt"));
  accel__buffer text = {0};
  const int32_t ids[] = {2, 38, 589, 321, 12, 99999, -5, 4, 5, 3};
  assert_int_equal(accel__decode(t, ids, COUNT(ids), true, false, &text), ACCEL_OK);
  assert_string_equal(text.data, "hello,!");
  text.n = 0;
  assert_int_equal(accel__decode(t, ids, COUNT(ids), false, true, &text), ACCEL_OK);
  assert_string_equal(text.data, "[CLS] hello, [MASK]! [SEP]");
  text.n = 0;
  assert_int_equal(accel__decode(t, NULL, 0, false, true, &text), ACCEL_OK);
  assert_int_equal(text.n, 0);
  accel__buffer_free(&text);
  accel__tokenizer_free(&t);
}

/* What the `tokenizers` package gives for a token that is listed twice: the last one's flags, but
 * shown as normalized and skipped as special when either is. */
static void test_listed_twice(void **state) {
  (void)state;
  static const struct {
    const char *first, *second, *kept, *skipped;
  } cases[] = {{"true", "false", "xQQ", "xQQ"},
               {"false", "true", "xQQ", "xQQ"},
               {"false,\"special\":true", "false", "QQ", ""},
               {"false", "false,\"special\":true", "QQ", ""},
               {"true,\"special\":true", "false,\"special\":true", "xQQ", "xQQ"}};
  for (size_t i = 0; i < COUNT(cases); ++i) {
    char json[1024];
    accel__tokenizer *t = NULL;
    accel__buffer text = {0};
    const int32_t id = 3;
    int n = snprintf(json, sizeof json,
                     "{\"added_tokens\":[{\"content\":\"QQ\",\"normalized\":%s},{\"content\":"
                     "\"QQ\",\"normalized\":%s}],"
                     "\"normalizer\":{\"type\":\"Prepend\",\"prepend\":\"x\"},\"model\":{\"type\":"
                     "\"WordLevel\",\"vocab\":{\"<unk>\":0,"
                     "\"a\":1,\"xa\":2},\"unk_token\":\"<unk>\"}}",
                     cases[i].first, cases[i].second);
    assert_int_equal(accel__tokenizer_parse(json, (size_t)n, "twice", &t), ACCEL_OK);
    assert_int_equal(accel__decode(t, &id, 1, false, false, &text), ACCEL_OK);
    assert_string_equal(text.data, cases[i].kept);
    text.n = 0;
    accel__buffer_text(&text, "");
    assert_int_equal(accel__decode(t, &id, 1, true, false, &text), ACCEL_OK);
    assert_memory_equal(text.data, cases[i].skipped, strlen(cases[i].skipped));
    assert_int_equal(text.n, strlen(cases[i].skipped));
    accel__buffer_free(&text);
    accel__tokenizer_free(&t);
  }
}

/* A million added tokens (fewer under a sanitizer), some of which begin like others: read in
 * seconds, within a gigabyte, and found in texts. */
static void test_million_added(void **state) {
  (void)state;
  enum { TOKENS = ACCEL_SANITIZER ? 50000 : 1000000 };
  char text[64];
  int n = snprintf(text, sizeof text, "<t0><t%d>a<t12345><t1", TOKENS - 1);
  accel__buffer json = {0};
  accel__tokenizer *t = NULL;
  accel__encoding e = {0};
  accel__buffer_text(&json, "{\"added_tokens\":[");
  for (int i = 0; i < TOKENS; ++i)
    accel__buffer_printf(&json, "%s{\"content\":\"<t%d>\",\"normalized\":%s}", i ? "," : "", i,
                         i % 2 ? "true" : "false");
  accel__buffer_text(&json,
                     "],\"model\":{\"type\":\"WordLevel\",\"vocab\":{\"<unk>\":0,\"a\":1},\"unk_"
                     "token\":\"<unk>\"}}");
  assert_int_equal(accel__buffer_status(&json), ACCEL_OK);
  clock_t begin = clock();
  assert_int_equal(accel__tokenizer_parse(json.data, json.n, "million", &t), ACCEL_OK);
  encode(t, text, (size_t)n, NULL, &e);
  EXPECT_IDS(&e, 2, TOKENS + 1, 1, 12347, 0);
  assert_true((double)(clock() - begin) / CLOCKS_PER_SEC < 60);
  struct rusage used;
  getrusage(RUSAGE_SELF, &used);
  if (!ACCEL_SANITIZER) assert_true(used.ru_maxrss < 1 << 20); /* KiB */
  accel__encoding_free(&e);
  accel__tokenizer_free(&t);
  accel__buffer_free(&json);
}

static void test_truncation_refused(void **state) {
  (void)state;
  accel__encoding e = {0};
  accel__tokenizer *t = load(FIXTURE("wordpiece_uncased.json"));
  accel__encode_options how = {
      .add_special_tokens = true, .truncation = ACCEL__TRUNCATE_LONGEST_FIRST, .max_length = 1};
  assert_int_equal(accel__encode(t, "hello", 5, NULL, 0, &how, &e), ACCEL_ERROR_ARGUMENT);
  assert_non_null(strstr(accel__message(), "max_length 1"));
  how.max_length = 4;
  how.stride = 2;
  assert_int_equal(accel__encode(t, "hello hello", 11, NULL, 0, &how, &e), ACCEL_ERROR_ARGUMENT);
  assert_non_null(strstr(accel__message(), "stride"));
  how.stride = 0;
  how.truncation = ACCEL__TRUNCATE_ONLY_SECOND;
  assert_int_equal(accel__encode(t, "hello hello", 11, "x", 1, &how, &e), ACCEL_ERROR_ARGUMENT);
  how.max_length = 2; /* no room for text: all of it overflows */
  how.truncation = ACCEL__TRUNCATE_LONGEST_FIRST;
  assert_int_equal(accel__encode(t, "hello hello", 11, NULL, 0, &how, &e), ACCEL_OK);
  EXPECT_IDS(&e, 2, 3);
  assert_int_equal(e.pieces, 2);
  accel__tokenizer_free(&t);
  accel__encoding_free(&e);
}

/* ---- files that are refused ---- */

#define HEAD "{\"version\":\"1.0\",\"added_tokens\":[],\"normalizer\":"
#define MODEL                                                                                   \
  "{\"type\":\"WordPiece\",\"unk_token\":\"[UNK]\",\"continuing_subword_prefix\":\"##\",\"max_" \
  "input_chars_per_word\":100,"                                                                 \
  "\"vocab\":"
#define VOCAB "{\"[UNK]\":0,\"a\":1}"

static void test_refused(void **state) {
  (void)state;
  static const struct {
    const char *json;
    accel_status status;
    const char *says;
  } cases[] = {
      {"", ACCEL_ERROR_FORMAT, "t.json"},
      {"[]", ACCEL_ERROR_FORMAT, "model"},
      {"{\"model\":3}", ACCEL_ERROR_FORMAT, "model"},
      /* a bracket is missing */
      {HEAD "null,\"model\":" MODEL VOCAB "}", ACCEL_ERROR_FORMAT, "t.json"},
      {HEAD "null,\"model\":" MODEL "{}}}", ACCEL_ERROR_FORMAT, "model.vocab"},
      {HEAD "null,\"model\":" MODEL "{\"a\":-1}}}", ACCEL_ERROR_FORMAT, "model.vocab"},
      {HEAD "null,\"model\":" MODEL "{\"a\":1e3}}}", ACCEL_ERROR_FORMAT, "model.vocab"},
      {HEAD "null,\"model\":" MODEL "{\"a\":99999999}}}", ACCEL_ERROR_FORMAT, "model.vocab"},
      {HEAD "null,\"model\":" MODEL "{\"a\":1,}}}", ACCEL_ERROR_FORMAT, "model.vocab"},
      {HEAD "null,\"model\":" MODEL "{\"a\\ud800\":1}}}", ACCEL_ERROR_FORMAT, "escape"},
      {HEAD "null,\"model\":" MODEL "{\"a\xff\":1}}}", ACCEL_ERROR_FORMAT, "UTF-8"},
      {HEAD "null,\"model\":" MODEL "{\"a\n\":1}}}", ACCEL_ERROR_FORMAT, "control"},
      {HEAD "null,\"model\":{\"type\":\"Magic\",\"vocab\":" VOCAB "}}", ACCEL_ERROR_UNSUPPORTED,
       "'Magic'"},
      {HEAD "{\"type\":\"Spell\"},\"model\":" MODEL VOCAB "}}", ACCEL_ERROR_UNSUPPORTED, "'Spell'"},
      {HEAD "{},\"model\":" MODEL VOCAB "}}", ACCEL_ERROR_FORMAT, "normalizer.type"},
      {HEAD
       "{\"type\":\"Replace\",\"pattern\":{\"Regex\":\"(a|b)*\"},\"content\":\"\"},\"model\":" MODEL
           VOCAB "}}",
       ACCEL_ERROR_UNSUPPORTED, "(a|b)*"},
      {HEAD "{\"type\":\"Precompiled\",\"precompiled_charsmap\":\"!\"},\"model\":" MODEL VOCAB "}}",
       ACCEL_ERROR_FORMAT, "precompiled_charsmap"},
      {HEAD
       "{\"type\":\"Precompiled\",\"precompiled_charsmap\":\"/////w==\"},\"model\":" MODEL VOCAB
       "}}",
       ACCEL_ERROR_FORMAT, "precompiled_charsmap"},
      {HEAD "null,\"decoder\":{\"type\":\"Rot13\"},\"model\":" MODEL VOCAB "}}",
       ACCEL_ERROR_UNSUPPORTED, "Rot13"},
      {HEAD "null,\"post_processor\":{\"type\":\"TemplateProcessing\",\"single\":[{"
            "\"SpecialToken\":{\"id\":\"X\",\"type_"
            "id\":0}}],\"pair\":[],"
            "\"special_tokens\":{}},\"model\":" MODEL VOCAB "}}",
       ACCEL_ERROR_FORMAT, "'X'"},
      {HEAD "null,\"post_processor\":{\"type\":\"TemplateProcessing\",\"single\":[{\"Sequence\":{"
            "\"id\":\"B\",\"type_id\":0}"
            "}],\"pair\":[]},"
            "\"model\":" MODEL VOCAB "}}",
       ACCEL_ERROR_FORMAT, "sequence B"},
      {HEAD "null,\"model\":{\"type\":\"BPE\",\"vocab\":" VOCAB "}}", ACCEL_ERROR_FORMAT,
       "model.merges"},
      {HEAD "null,\"model\":{\"type\":\"BPE\",\"vocab\":" VOCAB ",\"merges\":[\"a b\"]}}",
       ACCEL_ERROR_FORMAT, "'b'"},
      {HEAD "null,\"model\":{\"type\":\"BPE\",\"vocab\":" VOCAB ",\"merges\":[\"a a\"]}}",
       ACCEL_ERROR_FORMAT, "'aa'"},
      {HEAD "null,\"model\":{\"type\":\"BPE\",\"vocab\":" VOCAB ",\"merges\":[\"a\"]}}",
       ACCEL_ERROR_FORMAT, "model.merges"},
      {HEAD "null,\"model\":{\"type\":\"BPE\",\"vocab\":{\"a\":0,\"aa\":1},\"merges\":[[\"a\","
            "\"a\"],\"a a\",\"a a\"]}}",
       ACCEL_ERROR_FORMAT, "all pairs or all strings"},
      {HEAD "null,\"model\":{\"type\":\"BPE\",\"dropout\":0.1,\"vocab\":" VOCAB ",\"merges\":[]}}",
       ACCEL_ERROR_UNSUPPORTED, "dropout"},
      {HEAD "null,\"model\":{\"type\":\"Unigram\",\"unk_id\":5,\"vocab\":[[\"a\",0]]}}",
       ACCEL_ERROR_FORMAT, "unk_id"},
      {HEAD "null,\"model\":{\"type\":\"Unigram\",\"unk_id\":0,\"vocab\":[[\"a\",\"b\"]]}}",
       ACCEL_ERROR_FORMAT, "model.vocab"},
      {"{\"version\":\"2.0\",\"model\":" MODEL VOCAB "}}", ACCEL_ERROR_UNSUPPORTED, "2.0"},
      {"{\"added_tokens\":[{\"id\":3}],\"model\":" MODEL VOCAB "}}", ACCEL_ERROR_FORMAT, "content"},
  };
  for (size_t i = 0; i < COUNT(cases); ++i) {
    accel__tokenizer *t = NULL;
    accel_status status =
        accel__tokenizer_parse(cases[i].json, strlen(cases[i].json), "t.json", &t);
    if (status != cases[i].status || !strstr(accel__message(), cases[i].says) || t) {
      fail_msg("case %zu: status %d, message '%s'", i, status, accel__message());
    }
  }
  accel__tokenizer *t = NULL;
  assert_int_equal(accel__tokenizer_load(FIXTURE("nowhere"), &t), ACCEL_ERROR_NOT_FOUND);
  assert_int_equal(accel__tokenizer_load(ACCEL_FIXTURES, &t), ACCEL_ERROR_NOT_FOUND);
  assert_non_null(strstr(accel__message(), "vocab.txt"));
}

/* ---- regular expressions (identity with Oniguruma is held by the fixtures) ---- */

static accel_status split_with(const char *expression, const char *text, size_t *tokens) {
  accel__buffer json = {0};
  accel__tokenizer *t = NULL;
  accel__encoding e = {0};
  accel__buffer_text(&json, HEAD
                     "null,\"pre_tokenizer\":{\"type\":\"Split\",\"behavior\":\"Isolated\","
                     "\"invert\":false,\"pattern\":{\"Regex\":");
  accel__buffer_json_string(&json, expression, strlen(expression));
  accel__buffer_text(&json, "}},\"model\":" MODEL VOCAB "}}");
  accel_status status = accel__tokenizer_parse(json.data, json.n, "t.json", &t);
  if (status == ACCEL_OK) status = accel__encode(t, text, strlen(text), NULL, 0, NULL, &e);
  *tokens = e.n;
  accel__encoding_free(&e);
  accel__tokenizer_free(&t);
  accel__buffer_free(&json);
  return status;
}

static void test_expressions(void **state) {
  (void)state;
  static const char *const refused[] = {
      "",         "a*",      "(?<=a)b",  "(?<name>a)", "(a)\\1", "[a[b]]",     "[a-z&&b]",
      "\\p{Han}", "\\Q",     "a**",      "(a",         "a)",     "[a",         "*a",
      "x{5,2}",   "x{9999}", "(?:a?)*b", "(?i:[a-c])", "a|",     "\\x{110000}"};
  static const struct {
    const char *expression, *text;
    size_t tokens;
  } taken[] = {{"ab|a", "aabab", 3},         {"a{2}", "aaaaa", 3},  {"(?i:AB)c", "abcABcabC", 3},
               {"[^a\\]]+", "abc]a", 3},     {"a(?=b)", "abac", 2}, {"x(?!y)", "xyx", 2},
               {"a+?b", "aaab", 1},          {"a++a|b", "aab", 2},  {"^a", "aa\na", 3},
               {"\\p{Lu}\\P{Lu}", "aBcD", 3}};
  size_t tokens;
  for (size_t i = 0; i < COUNT(refused); ++i) {
    accel_status status = split_with(refused[i], "x", &tokens);
    if (status != ACCEL_ERROR_UNSUPPORTED || !strstr(accel__message(), refused[i]))
      fail_msg("'%s': %d %s", refused[i], status, accel__message());
  }
  for (size_t i = 0; i < COUNT(taken); ++i) {
    accel_status status = split_with(taken[i].expression, taken[i].text, &tokens);
    if (status != ACCEL_OK || tokens != taken[i].tokens)
      fail_msg("'%s': %d, %zu tokens, %s", taken[i].expression, status, tokens, accel__message());
  }
  assert_int_equal(
      split_with("(?:a|aa)+b", "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaac",
                 &tokens),
      ACCEL_ERROR_LIMIT);
  assert_non_null(strstr(accel__message(), "steps"));
}

/* Pieces as the `tokenizers` package cuts them. */
static void test_scripts(void **state) {
  static const struct {
    const char *text;
    size_t tokens;
  } cases[] = {{"a\u0431\u0430 a\u6771\u30a2", 4},
               {" a", 1},
               {"  ", 0},
               {"a.b", 3},
               {"\u3042\u30fc\u4e00", 1},
               {"a\u0301b", 3},
               {"1 2 \u0661", 2},
               {"\U0010FFFFa\u0378", 1},
               {"\u0e01\u0e02 \u0e03x", 2}};
  static const char json[] =
      HEAD "null,\"pre_tokenizer\":{\"type\":\"UnicodeScripts\"},\"model\":" MODEL VOCAB "}}";
  (void)state;
  accel__tokenizer *t = NULL;
  accel__encoding e = {0};
  assert_int_equal(accel__tokenizer_parse(json, strlen(json), "t.json", &t), ACCEL_OK);
  for (size_t i = 0; i < COUNT(cases); ++i) {
    assert_int_equal(accel__encode(t, cases[i].text, strlen(cases[i].text), NULL, 0, NULL, &e),
                     ACCEL_OK);
    if (e.n != cases[i].tokens)
      fail_msg("case %zu: %zu tokens, expected %zu", i, e.n, cases[i].tokens);
  }
  accel__encoding_free(&e);
  accel__tokenizer_free(&t);
}

/* Vocabularies that make no sense: read or refused, and no text without an end. */
static void test_strange_vocabularies(void **state) {
#define BPE(vocab, merges) \
  HEAD "null,\"model\":{\"type\":\"BPE\",\"vocab\":" vocab ",\"merges\":" merges "}}"
  static const char *const files[] = {
      HEAD "null,\"model\":" MODEL "{\"[UNK]\":0,\"\":1,\"##\":2,\"a\":3,\"##a\":3}}}",
      HEAD "null,\"model\":" MODEL "{\"[UNK]\":0,\"a\":0,\"##a\":0}}}",
      BPE("{\"a\":0,\"\":1,\"aa\":2}", "[[\"\",\"a\"],[\"a\",\"\"],[\"a\",\"a\"]]"),
      BPE("{\"a\":0,\"aa\":0,\"aaa\":0}", "[[\"a\",\"a\"],[\"aa\",\"a\"],[\"a\",\"aa\"]]"),
      BPE("{\"a\":0,\"b\":1,\"ab\":2,\"ba\":3,\"aba\":4,\"bab\":5}",
          "[[\"a\",\"b\"],[\"b\",\"a\"],[\"ab\",\"a\"],[\"a\",\"ba\"],[\"ba\",\"b\"],[\"b\",\"ab\"]"
          ",[\"a\",\"b\"]]"),
      HEAD
      "null,\"model\":{\"type\":\"Unigram\",\"unk_id\":0,\"vocab\":[[\"\",0],[\"a\",1e300],[\"aa\","
      "-1e300],[\"a\",0]]}}",
      HEAD
      "{\"type\":\"Replace\",\"pattern\":{\"String\":\"a\"},\"content\":\"aaaa\"},\"model\":" MODEL
          VOCAB "}}",
  };
  static const char text[] = "aaaa abab ababa \u00e9 ##a";
  (void)state;
  for (size_t i = 0; i < COUNT(files); ++i) {
    accel__tokenizer *t = NULL;
    accel__encoding e = {0};
    accel__buffer back = {0};
    if (accel__tokenizer_parse(files[i], strlen(files[i]), "t.json", &t) == ACCEL_OK &&
        accel__encode(t, text, strlen(text), NULL, 0, NULL, &e) == ACCEL_OK) {
      assert_true(e.n <= 4 * strlen(text));
      assert_int_equal(accel__decode(t, e.ids, e.n, false, false, &back), ACCEL_OK);
    }
    accel__buffer_free(&back);
    accel__encoding_free(&e);
    accel__tokenizer_free(&t);
  }
}

static void test_deep_sequences(void **state) {
  (void)state;
  accel__buffer json = {0};
  accel__tokenizer *t = NULL;
  accel__buffer_text(&json, HEAD);
  for (int i = 0; i < 40; ++i)
    accel__buffer_text(&json, "{\"type\":\"Sequence\",\"normalizers\":[");
  accel__buffer_text(&json, "{\"type\":\"NFC\"}");
  for (int i = 0; i < 40; ++i) accel__buffer_text(&json, "]}");
  accel__buffer_text(&json, ",\"model\":" MODEL VOCAB "}}");
  assert_int_equal(accel__tokenizer_parse(json.data, json.n, "t.json", &t), ACCEL_ERROR_FORMAT);
  assert_non_null(strstr(accel__message(), "16 deep"));
  accel__buffer_free(&json);
}

/* ---- size and threads ---- */

static char *repeated(const char *unit, size_t n) {
  size_t length = strlen(unit);
  char *text = malloc(n);
  assert_non_null(text);
  for (size_t i = 0; i < n; ++i) text[i] = unit[i % length];
  return text;
}

static void test_huge_text(void **state) { /* linear time and no deep stack for 10 MB of anything */
  (void)state;
  static const char *const units[] = {"Hello world, isn't it? ",
                                      "a",
                                      "\u0301",
                                      "\u0300\u0323",
                                      "[MASK]",
                                      " ",
                                      "\u6771",
                                      "\u0e01\u0e33"};
  static const char *const files[] = {FIXTURE("wordpiece_uncased.json"),
                                      FIXTURE("bpe_modernbert.json"), FIXTURE("unigram_xlmr.json"),
                                      FIXTURE("unigram_deberta.json")};
  enum { BYTES = ACCEL_SANITIZER ? 1000000 : 10000000, SHORT = ACCEL_SANITIZER ? 60000 : 600000 };
  accel__encoding e = {0};
  for (size_t f = 0; f < COUNT(files); ++f) {
    accel__tokenizer *t = load(files[f]);
    for (size_t i = 0; i < COUNT(units); ++i) {
      size_t n = f == 0 && i < 3 ? BYTES : SHORT;
      char *text = repeated(units[i], n);
      encode(t, text, n - n % strlen(units[i]), NULL, &e);
      assert_true(e.n >= 2);
      accel__encode_options how = {.add_special_tokens = true,
                                   .truncation = ACCEL__TRUNCATE_LONGEST_FIRST,
                                   .max_length = 512};
      encode(t, text, n - n % strlen(units[i]), &how, &e);
      assert_true(e.n <= 512);
      free(text);
    }
    accel__tokenizer_free(&t);
  }
  accel__encoding_free(&e);
}

typedef struct job {
  const accel__tokenizer *tokenizer;
  const char *text;
  size_t n;
  const accel__encoding *want;
  bool same;
} job;

static void *encode_many(void *arg) {
  job *j = arg;
  accel__encoding e = {0};
  j->same = true;
  for (int i = 0; i < 200; ++i) {
    if (accel__encode(j->tokenizer, j->text, j->n, NULL, 0, NULL, &e) != ACCEL_OK ||
        e.n != j->want->n)
      j->same = false;
    for (size_t k = 0; j->same && k < e.n; ++k)
      j->same = e.ids[k] == j->want->ids[k] && e.chars[k].end == j->want->chars[k].end;
  }
  accel__encoding_free(&e);
  return NULL;
}

static void test_threads(void **state) {
  (void)state;
  static const char *const files[] = {FIXTURE("wordpiece_uncased.json"),
                                      FIXTURE("bpe_roberta.json"), FIXTURE("unigram_xlmr.json")};
  for (size_t f = 0; f < COUNT(files); ++f) {
    accel__tokenizer *t = load(files[f]);
    accel__encoding want = {0};
    encode(t, sentence, sizeof sentence - 1, NULL, &want);
    pthread_t threads[4];
    job jobs[4];
    for (int i = 0; i < 4; ++i) {
      jobs[i] = (job){t, sentence, sizeof sentence - 1, &want, false};
      assert_int_equal(pthread_create(&threads[i], NULL, encode_many, &jobs[i]), 0);
    }
    for (int i = 0; i < 4; ++i) {
      pthread_join(threads[i], NULL);
      assert_true(jobs[i].same);
    }
    accel__encoding_free(&want);
    accel__tokenizer_free(&t);
  }
}

/* Bytes in use by the allocator; 0 where it does not tell (sanitizers' own). */
static size_t in_use(void) {
#if defined(__GLIBC__) && !ACCEL_SANITIZER
  struct mallinfo2 m = mallinfo2();
  return m.uordblks + m.hblkhd;
#else
  return 0;
#endif
}

/* 26 letters, then every two and three of them */
static void put_pieces(accel__buffer *json, int n) {
  for (int i = 0, length = 1, first = 0, count = 26; i < n; ++i) {
    if (i == first + count) first += count, count *= 26, length++;
    char piece[8] = {0};
    for (int k = 0, rest = i - first; k < length; ++k, rest /= 26)
      piece[length - 1 - k] = (char)('a' + rest % 26);
    accel__buffer_printf(json, "%s\"%s\":%d", i ? "," : "", piece, i);
  }
}

static void put_merges(accel__buffer *json, int n, bool pairs) {
  for (int i = 0; i < n; ++i) {
    const int two = i < 676, rest = two ? i : i - 676;
    char left[4] = {(char)('a' + rest / (two ? 26 : 676)), two ? 0 : (char)('a' + rest / 26 % 26)};
    accel__buffer_printf(json, pairs ? "%s[\"%s\",\"%c\"]" : "%s\"%s %c\"", i ? "," : "", left,
                         'a' + rest % 26);
  }
}

/* What a tokenizer says that it keeps is what it has allocated, and no table is larger than its
 * tokens ask for. */
static void test_memory(void **state) {
  (void)state;
  enum { PIECES = 18000 };
  for (int pairs = 0; pairs < 2; ++pairs) {
    accel__buffer json = {0};
    accel__tokenizer *t = NULL;
    accel__encoding e = {0};
    accel__buffer_text(&json, "{\"model\":{\"type\":\"BPE\",\"vocab\":{");
    put_pieces(&json, PIECES);
    accel__buffer_text(&json, "},\"merges\":[");
    put_merges(&json, PIECES - 26, pairs);
    accel__buffer_text(&json, "]}}");
    const size_t before = in_use();
    assert_int_equal(accel__tokenizer_parse(json.data, json.n, "t.json", &t), ACCEL_OK);
    const size_t taken = in_use() - before, told = accel__tokenizer_bytes(t);
    encode(t, "abcab", 5, NULL, &e);
    EXPECT_IDS(&e, 26 + 676 + 28, 27); /* "abc", "ab" */
    accel__encoding_free(&e);
    accel__tokenizer_free(&t);
    accel__buffer_free(&json);
    assert_true(told > PIECES * 50 && told < PIECES * 90);
    if (before && (taken < told - 4096 || taken > told + told / 100 + 4096))
      fail_msg("told %zu, taken %zu", told, taken);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_vocab_txt),
      cmocka_unit_test(test_describe),
      cmocka_unit_test(test_words),
      cmocka_unit_test(test_malformed_text),
      cmocka_unit_test(test_special_in_text),
      cmocka_unit_test(test_decode),
      cmocka_unit_test(test_listed_twice),
      cmocka_unit_test(test_million_added),
      cmocka_unit_test(test_truncation_refused),
      cmocka_unit_test(test_refused),
      cmocka_unit_test(test_expressions),
      cmocka_unit_test(test_scripts),
      cmocka_unit_test(test_strange_vocabularies),
      cmocka_unit_test(test_deep_sequences),
      cmocka_unit_test(test_huge_text),
      cmocka_unit_test(test_threads),
      cmocka_unit_test(test_memory),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
