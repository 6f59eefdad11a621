/* tokenizer_bench.c - how many MB of text a second one thread turns into ids.
 *
 *   tokenizer_bench TOKENIZER.json TEXTS.json [SECONDS]     TEXTS.json: array of strings; SECONDS of repeated passes
 * (default 2)
 *
 * Prints one line of JSON: the median over passes of bytes a second, and a checksum of all ids that
 * tokenizer_peers.py compares with the `tokenizers` package's.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bench_timer.h"
#include "core/json.h"
#include "text/tokenizer.h"

enum { PASSES_MAX = 1000 };

static int fail(void) { return fprintf(stderr, "%s\n", accel__message()), 1; }

/* One pass over all texts. */
static accel_status pass(const accel__tokenizer *tokenizer, const accel__json *texts,
                         accel__encoding *encoding, size_t *bytes, size_t *tokens,
                         uint64_t *checksum) {
  accel__encode_options how = {.add_special_tokens = true};
  *bytes = *tokens = 0;
  *checksum = 0;
  ACCEL_JSON_EACH(text, texts) {
    size_t n = strlen(text->valuestring);
    ACCEL_TRY(accel__encode(tokenizer, text->valuestring, n, NULL, 0, &how, encoding));
    *bytes += n;
    *tokens += encoding->n;
    for (size_t i = 0; i < encoding->n; ++i)
      *checksum = *checksum * 31 + (uint32_t)encoding->ids[i];
  }
  return ACCEL_OK;
}

int main(int argc, char **argv) {
  accel__tokenizer *tokenizer = NULL;
  accel__json_file texts = {0};
  accel__encoding encoding = {0};
  double rate[PASSES_MAX], seconds = argc > 3 ? atof(argv[3]) : 2, begin;
  size_t bytes = 0, tokens = 0, n = 0;
  uint64_t checksum = 0;
  if (argc < 3)
    return fprintf(stderr, "usage: tokenizer_bench TOKENIZER.json TEXTS.json [SECONDS]\n"), 2;
  begin = now();
  if (accel__tokenizer_load(argv[1], &tokenizer) != ACCEL_OK) return fail();
  double load = now() - begin;
  if (accel__json_read(argv[2], 1 << 30, &texts) != ACCEL_OK) return fail();
  /* warms caches */
  if (pass(tokenizer, texts.root, &encoding, &bytes, &tokens, &checksum) != ACCEL_OK) return fail();
  begin = now();
  while (n < PASSES_MAX && (n < 3 || now() - begin < seconds)) {
    double start = now();
    if (pass(tokenizer, texts.root, &encoding, &bytes, &tokens, &checksum) != ACCEL_OK)
      return fail();
    rate[n++] = (double)bytes / (now() - start);
  }
  qsort(rate, n, sizeof *rate, ascending);
  printf(
      "{\"load_ms\": %.1f, \"mb_per_s\": %.3f, \"bytes\": %zu, \"tokens\": %zu, \"checksum\": "
      "%llu, \"passes\": %zu}\n",
      1e3 * load, 1e-6 * rate[n / 2], bytes, tokens, (unsigned long long)checksum, n);
  accel__encoding_free(&encoding);
  accel__tokenizer_free(&tokenizer);
  accel__json_free(&texts);
  return 0;
}
