/* grammar_masks.c - masks for a program that compares them with another library's
 * (grammar_peers.py).
 *
 *   grammar_masks TOKENIZER.json
 *
 * Writes the tokens' bytes as lines of hexadecimal digits (empty: it never comes) and a line "end".
 * Then reads lines: "schema|regex|grammar SOURCE" begins a text, a number is the token that was
 * chosen.  Answers each with "0|1 MASK": whether the text may end, and the tokens' bits as
 * hexadecimal words of 16 digits, lowest first; or with "error MESSAGE".
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "text/grammar/vocabulary.h"

static void print_mask(accel__matcher *m, uint32_t state) {
  const uint64_t *allowed;
  bool may_end;
  if (accel__matcher_mask(m, state, &allowed, &may_end) != ACCEL_OK) {
    printf("error %s\n", accel__message());
    return;
  }
  printf("%d ", may_end);
  for (size_t i = 0; i < accel__matcher_words(m); i++) printf("%016" PRIx64, allowed[i]);
  printf("\n");
}

static void print_tokens(const accel__token_trie *t) {
  for (uint32_t i = 0; i < t->n_tokens; i++) {
    for (uint32_t k = t->offset[i]; k < t->offset[i + 1]; k++) printf("%02x", (uint8_t)t->bytes[k]);
    printf("\n");
  }
  printf("end\n");
}

/* A line's grammar, or NULL after an answer. */
static accel__matcher *begin(const accel__tokenizer *tokenizer, const accel__token_trie *trie,
                             char *line) {
  char *source = strchr(line, ' ');
  const accel_grammar_kind kind = !strncmp(line, "schema", 6)  ? ACCEL_GRAMMAR_JSON_SCHEMA
                                  : !strncmp(line, "regex", 5) ? ACCEL_GRAMMAR_REGEX
                                                               : ACCEL_GRAMMAR_TEXT;
  accel__grammar *g = NULL;
  accel__matcher *m = NULL;
  source = source ? source + 1 : line;
  if (accel__vocabulary_grammar(tokenizer, kind, source, strlen(source), &g) != ACCEL_OK ||
      accel__matcher_open(g, trie, &m) != ACCEL_OK)
    printf("error %s\n", accel__message());
  accel__grammar_release(&g);
  return m;
}

int main(int argc, char **argv) {
  accel__tokenizer *tokenizer = NULL;
  const accel__token_trie *trie;
  accel__matcher *m = NULL;
  uint32_t state = ACCEL__MATCH_START;
  char *line = NULL;
  size_t capacity = 0;
  if (argc < 2) return fprintf(stderr, "usage: grammar_masks TOKENIZER.json\n"), 2;
  if (accel__tokenizer_load(argv[1], &tokenizer) != ACCEL_OK ||
      accel__vocabulary_trie(tokenizer, &trie) != ACCEL_OK)
    return fprintf(stderr, "%s\n", accel__message()), 1;
  print_tokens(trie);
  fflush(stdout);
  while (getline(&line, &capacity, stdin) > 0) {
    line[strcspn(line, "\n")] = 0;
    const bool token = *line >= '0' && *line <= '9';
    if (!token) {
      accel__matcher_close(&m);
      m = begin(tokenizer, trie, line);
      state = ACCEL__MATCH_START;
    } else if (m) {
      (void)accel__matcher_advance(m, state, atoi(line), &state);
    }
    if (m) print_mask(m, state);
    fflush(stdout);
  }
  free(line);
  accel__matcher_close(&m);
  accel__tokenizer_free(&tokenizer);
  return 0;
}
