/* marian_fuzz.c - the files of a Marian tokenizer: what loads encodes and decodes, what does not is refused.
 *
 * The input is vocab.json, target_vocab.json and source.spm, each behind a line with its length in decimal; a first byte
 * that is odd asks for separate vocabularies. */
#include <ctype.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "text/tokenizer.h"

static char directory[64];

static void remove_all(void) {
  static const char *const names[] = {"vocab.json", "target_vocab.json", "source.spm", "tokenizer_config.json"};
  char path[128];
  for (int i = 0; i < 4; i++) {
    snprintf(path, sizeof path, "%s/%s", directory, names[i]);
    remove(path);
  }
  rmdir(directory);
}

static void write_file(const char *name, const void *data, size_t n) {
  char path[128];
  snprintf(path, sizeof path, "%s/%s", directory, name);
  FILE *f = fopen(path, "wb");
  if (!f || fwrite(data, 1, n, f) != n || fclose(f)) abort();
}

/* The next part: "123\n" and as many bytes, or what there is of them. */
static size_t next_part(const uint8_t **at, const uint8_t *end, const uint8_t **part) {
  size_t n = 0;
  while (*at < end && isdigit(**at) && n < 100000000) n = 10 * n + (size_t)(*(*at)++ - '0');
  if (*at < end) (*at)++;
  if (n > (size_t)(end - *at)) n = (size_t)(end - *at);
  *part = *at;
  *at += n;
  return n;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n) {
  static const char *const names[] = {"vocab.json", "target_vocab.json", "source.spm"};
  static const char text[] = ">>fr<< Hello world, \xC3\xA9t\xC3\xA9 \xE6\x9D\xB1 </s> 12";
  accel__tokenizer *tokenizer = NULL;
  accel__encoding encoding = {0};
  accel__buffer decoded = {0};
  const uint8_t *at = data, *end = data + n, *part;
  if (!directory[0]) {
    const char *base = getenv("TMPDIR");
    snprintf(directory, sizeof directory, "%.40s/marian-fuzz-XXXXXX", base ? base : "/tmp");
    if (!mkdtemp(directory)) abort();
    atexit(remove_all);
  }
  const bool separate = n && *at++ & 1;
  const char *config = separate ? "{\"tokenizer_class\":\"MarianTokenizer\",\"separate_vocabs\":true}"
                                : "{\"tokenizer_class\":\"MarianTokenizer\"}";
  write_file("tokenizer_config.json", config, strlen(config));
  for (int i = 0; i < 3; i++) {
    size_t length = next_part(&at, end, &part);
    write_file(names[i], part, length);
  }
  if (accel__tokenizer_load(directory, &tokenizer) == ACCEL_OK) {
    accel__encode_options how = {.add_special_tokens = true};
    if (accel__encode(tokenizer, text, strlen(text), NULL, 0, &how, &encoding) == ACCEL_OK &&
        accel__decode(tokenizer, encoding.ids, encoding.n, false, true, &decoded) != ACCEL_OK)
      abort();
  }
  accel__buffer_free(&decoded);
  accel__encoding_free(&encoding);
  accel__tokenizer_free(&tokenizer);
  return 0;
}
