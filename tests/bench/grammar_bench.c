/* grammar_bench.c - how long a mask over a vocabulary takes.
 *
 *   grammar_bench [TOKENIZER.json [GRAMMAR [TEXTS]]]     without one, or "-": 152,000 made-up tokens
 *                                      (all bytes, words with and without a space, punctuation,
 *                                      code, CJK); GRAMMAR: the name of one, which is all that is
 *                                      measured; TEXTS: of each grammar, 1 to 250, 40 unless said
 *
 * For each grammar, texts are made at random, token by token, from a matcher's masks; each mask's
 * processor time is taken, those of states that were never seen included.  A text is made of 100 tokens at
 * most.  Prints one line of JSON a grammar and one for all: states, compile time, masks, their
 * median, 99th percentile and maximum in microseconds, and the same of what a sampler does with a
 * mask (152,000 scores set to -infinity).
 */
#include <math.h>
#include <string.h>

#include "bench_timer.h"
#include "core/text.h"
#include "text/grammar/vocabulary.h"

enum { TOKENS = 152000, TEXTS = 40, LONGEST = 100, MOST_TEXTS = 250, MOST = 200000 };

static const struct {
  const char *name;
  accel_grammar_kind kind;
  const char *source;
} grammars[] = {
    {"person", ACCEL_GRAMMAR_JSON_SCHEMA,
     "{\"type\":\"object\",\"properties\":{\"name\":{\"type\":\"string\"},\"age\":{\"type\":"
     "\"integer\",\"minimum\":0,\"maximum\":150},\"email\":{\"type\":\"string\",\"format\":"
     "\"email\"},\"tags\":{\"type\":\"array\",\"items\":{\"type\":\"string\"}}},\"required\":["
     "\"name\",\"age\"]}"},
    {"lengths", ACCEL_GRAMMAR_JSON_SCHEMA,
     "{\"type\":\"array\",\"items\":{\"type\":\"string\",\"minLength\":5,\"maxLength\":200}}"},
    {"pattern", ACCEL_GRAMMAR_JSON_SCHEMA,
     "{\"type\":\"array\",\"items\":{\"type\":\"string\",\"pattern\":\"^[A-Z][a-z]+( "
     "[A-Z][a-z]+)*$\"}}"},
    {"tree", ACCEL_GRAMMAR_JSON_SCHEMA,
     "{\"$ref\":\"#/$defs/n\",\"$defs\":{\"n\":{\"type\":\"object\",\"properties\":{\"value\":{"
     "\"type\":\"string\"},\"children\":{\"type\":\"array\",\"items\":{\"$ref\":\"#/$defs/n\"}}},"
     "\"required\":[\"value\",\"children\"]}}}"},
    {"union", ACCEL_GRAMMAR_JSON_SCHEMA,
     "{\"type\":\"array\",\"items\":{\"anyOf\":[{\"type\":\"object\",\"properties\":{\"kind\":{"
     "\"const\":\"text\"},\"text\":{\"type\":\"string\"}},\"required\":[\"kind\",\"text\"]},{"
     "\"type\":\"object\",\"properties\":{\"kind\":{\"const\":\"number\"},\"n\":{\"type\":"
     "\"number\"}},\"required\":[\"kind\",\"n\"]},{\"type\":\"null\"}]}}"},
    {"any", ACCEL_GRAMMAR_JSON, ""},
    {"regex", ACCEL_GRAMMAR_REGEX, "[A-Z][a-z]+ (is|was) [^.]{10,80}\\.( [A-Z][^.]*\\.)*"},
    {"arithmetic", ACCEL_GRAMMAR_TEXT,
     "root ::= expr\nexpr ::= term ([-+*/] term)*\nterm ::= [0-9]+ | name | \"(\" expr \")\"\n"
     "name ::= [a-z] [a-z0-9_]*"}};

/* ---- a vocabulary ---- */

static uint64_t next_random(uint64_t *state) {
  uint64_t z = (*state += 0x9E3779B97F4A7C15u);
  z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
  z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
  return z ^ (z >> 31);
}

/* Syllables make words that begin alike, as real ones do. */
static void add_word(accel__buffer *b, uint64_t *random) {
  static const char *const parts[] = {"a",   "in", "re",  "con", "st", "er",  "ion", "ing",
                                      "pro", "de", "tra", "s",   "al", "ent", "il",  "um",
                                      "ver", "po", "ly",  "ed",  "ma", "th",  "ou",  "ck",
                                      "ne",  "xi", "ge",  "w",   "be", "qu"};
  const uint32_t n = 1 + (uint32_t)(next_random(random) % 4);
  for (uint32_t i = 0; i < n; i++) accel__buffer_text(b, parts[next_random(random) % 30]);
}

static void add_made(accel__buffer *b, uint64_t *random) {
  static const char marks[] = "\"'\\/{}[]():;,.<>=+-*_#!?@&|~^%$` \n\t0123456789";
  const uint64_t kind = next_random(random) % 100;
  char utf8[4];
  if (kind < 48) accel__buffer_text(b, " ");
  if (kind < 72) {
    const size_t begin = b->n + (kind < 48 && b->n);
    add_word(b, random);
    if (kind % 4 == 0) b->data[begin] = (char)(b->data[begin] & ~0x20);
  } else if (kind < 88) { /* CJK, Cyrillic */
    const bool cjk = kind < 84;
    const uint32_t first = cjk ? 0x4E00 : 0x430, n = 1 + (uint32_t)(next_random(random) % 3);
    for (uint32_t i = 0; i < n; i++)
      accel__buffer_bytes(
          b, utf8,
          accel__utf8_encode(first + (uint32_t)(next_random(random) % (cjk ? 8000 : 32)), utf8));
  } else {
    const uint32_t n = 1 + (uint32_t)(next_random(random) % 4);
    for (uint32_t i = 0; i < n; i++)
      accel__buffer_bytes(b, &marks[next_random(random) % (sizeof marks - 1)], 1);
    if (kind > 95) add_word(b, random);
  }
}

static accel_status make_vocabulary(accel__token_trie **out) {
  uint32_t *offset = malloc((TOKENS + 1) * sizeof *offset);
  accel__buffer bytes = {0};
  uint64_t random = 1;
  if (!offset) return ACCEL_ERROR_OUT_OF_MEMORY;
  for (uint32_t i = 0; i < TOKENS; i++) {
    const char byte = (char)i;
    offset[i] = (uint32_t)bytes.n;
    if (i < 256)
      accel__buffer_bytes(&bytes, &byte, 1);
    else
      add_made(&bytes, &random);
  }
  offset[TOKENS] = (uint32_t)bytes.n;
  accel_status status = accel__buffer_status(&bytes);
  if (status == ACCEL_OK) status = accel__token_trie_make(bytes.data, offset, TOKENS, false, out);
  accel__buffer_free(&bytes);
  free(offset);
  return status;
}

/* ---- masks ---- */

/* Seconds that this thread has computed: what other processes do does not count. */
static double computed(void) {
  struct timespec t;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
  return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

typedef struct times {
  double mask[MOST], apply[MOST]; /* microseconds */
  size_t n;
} times;

/* How often a token is drawn beside others: at ends 1000 times one that begins with `"`, "}" or
 * "]", so that texts come to their ends. */
static uint64_t weight_of(const accel__token_trie *t, uint32_t token, bool ends) {
  const char first = t->bytes[t->offset[token]];
  return ends && (first == '"' || first == '}' || first == ']') ? 1000 : 1;
}

/* A token of the mask at random; every sixth time an end. */
static int32_t choose(const uint64_t *allowed, const accel__token_trie *t, uint64_t *random) {
  const bool ends = next_random(random) % 6 == 0;
  uint64_t sum = 0;
  for (size_t w = 0; w < t->words; w++)
    for (uint64_t left = allowed[w]; left; left &= left - 1)
      sum += weight_of(t, (uint32_t)(w * 64) + (uint32_t)__builtin_ctzll(left), ends);
  uint64_t at = sum ? next_random(random) % sum : 0;
  for (size_t w = 0; w < t->words; w++)
    for (uint64_t left = allowed[w]; left; left &= left - 1) {
      const uint32_t token = (uint32_t)(w * 64) + (uint32_t)__builtin_ctzll(left);
      const uint64_t weight = weight_of(t, token, ends);
      if (at < weight) return (int32_t)token;
      at -= weight;
    }
  return -1;
}

static void apply(const uint64_t *allowed, float *scores, size_t n) {
  for (size_t i = 0; i < n; i++)
    if (!(allowed[i / 64] >> (i % 64) & 1)) scores[i] = -INFINITY;
}

static accel_status make_text(accel__grammar *g, const accel__token_trie *t, float *scores,
                              uint64_t *random, times *out) {
  accel__matcher *m;
  uint32_t state = ACCEL__MATCH_START;
  const uint64_t *allowed;
  bool may_end;
  ACCEL_TRY(accel__matcher_open(g, t, &m));
  for (int i = 0; i < LONGEST && out->n < MOST; i++) {
    const double begin = computed();
    ACCEL_TRY(accel__matcher_mask(m, state, &allowed, &may_end));
    const double made = computed();
    apply(allowed, scores, t->n_tokens);
    out->apply[out->n] = 1e6 * (computed() - made);
    out->mask[out->n++] = 1e6 * (made - begin);
    const int32_t token = choose(allowed, t, random);
    if (token < 0 || (may_end && next_random(random) % 3 == 0)) break;
    ACCEL_TRY(accel__matcher_advance(m, state, token, &state));
  }
  accel__matcher_close(&m);
  return ACCEL_OK;
}

static void print_times(const char *name, times *t) {
  qsort(t->mask, t->n, sizeof *t->mask, ascending);
  qsort(t->apply, t->n, sizeof *t->apply, ascending);
  printf(
      "{\"grammar\": \"%s\", \"masks\": %zu, \"p50_us\": %.1f, \"p90_us\": %.1f, \"p99_us\": %.1f, "
      "\"max_us\": %.1f, \"apply_p50_us\": %.1f",
      name, t->n, t->mask[t->n / 2], t->mask[t->n * 9 / 10], t->mask[t->n * 99 / 100],
      t->mask[t->n - 1], t->apply[t->n / 2]);
}

int main(int argc, char **argv) {
  const accel__token_trie *trie;
  accel__token_trie *made = NULL;
  accel__tokenizer *tokenizer = NULL;
  static times all, one;
  const double begin = now();
  const long asked = argc > 3 ? strtol(argv[3], NULL, 10) : TEXTS, texts = asked < 1 ? 1
                                                                           : asked > MOST_TEXTS
                                                                               ? MOST_TEXTS
                                                                               : asked;
  const bool given = argc > 1 && strcmp(argv[1], "-") != 0;
  accel_status status = given ? accel__tokenizer_load(argv[1], &tokenizer) : ACCEL_OK;
  if (status == ACCEL_OK)
    status = given ? accel__vocabulary_trie(tokenizer, &trie) : make_vocabulary(&made);
  if (status != ACCEL_OK) return fprintf(stderr, "%s\n", accel__message()), 1;
  if (made) trie = made;
  printf(
      "{\"tokens\": %u, \"nodes\": %u, \"walked_nodes\": %u, \"trie_bytes\": %zu, \"seconds\": "
      "%.3f}\n",
      trie->n_tokens, trie->n, trie->n - trie->plain_end, accel__token_trie_bytes(trie),
      now() - begin);
  float *scores = calloc(trie->n_tokens, sizeof *scores);
  uint64_t random = 7;
  for (size_t i = 0; i < sizeof grammars / sizeof *grammars && scores; i++) {
    accel__grammar *g;
    const double start = now();
    if (argc > 2 && strcmp(argv[2], grammars[i].name) != 0) continue;
    if (accel__grammar_compile(grammars[i].kind, grammars[i].source, strlen(grammars[i].source),
                               &g) != ACCEL_OK)
      return fprintf(stderr, "%s\n", accel__message()), 1;
    const double compiled = now() - start;
    one.n = 0;
    for (long k = 0; k < texts; k++)
      if (make_text(g, trie, scores, &random, &one) != ACCEL_OK)
        return fprintf(stderr, "%s\n", accel__message()), 1;
    memcpy(all.mask + all.n, one.mask, one.n * sizeof *one.mask);
    memcpy(all.apply + all.n, one.apply, one.n * sizeof *one.apply);
    all.n += one.n;
    print_times(grammars[i].name, &one);
    printf(", \"states\": %zu, \"bytes\": %zu, \"compile_ms\": %.2f}\n", accel__grammar_states(g),
           accel__grammar_bytes(g), 1e3 * compiled);
    accel__grammar_release(&g);
  }
  print_times("all", &all);
  printf("}\n");
  free(scores);
  accel__token_trie_free(&made);
  accel__tokenizer_free(&tokenizer);
  return 0;
}
