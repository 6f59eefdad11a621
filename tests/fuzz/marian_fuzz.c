/* marian_fuzz.c - the files of Marian's, M2M100's and tiktoken's tokenizers: what loads encodes and
 * decodes, what does not is refused.
 *
 * The input is vocab.json, target_vocab.json and the model, each behind a line with its length in
 * decimal.  The first byte modulo 4: Marian, with separate vocabularies, M2M100, tiktoken (the
 * model alone). */
#include <ctype.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "text/tokenizer.h"

static char directory[64];

static void remove_files(void) {
  static const char *const names[] = {
      "vocab.json", "target_vocab.json",       "tokenizer_config.json",
      "source.spm", "sentencepiece.bpe.model", "tiktoken.model"};
  char path[128];
  for (int i = 0; i < 6; i++) {
    snprintf(path, sizeof path, "%s/%s", directory, names[i]);
    remove(path);
  }
}

static void remove_all(void) {
  remove_files();
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
  static const struct {
    const char *config, *model;
  } kinds[] = {
      {"{\"tokenizer_class\":\"MarianTokenizer\"}", "source.spm"},
      {"{\"tokenizer_class\":\"MarianTokenizer\",\"separate_vocabs\":true}", "source.spm"},
      {"{\"tokenizer_class\":\"M2M100Tokenizer\",\"src_lang\":\"fr\"}", "sentencepiece.bpe.model"},
      {"{\"tokenizer_class\":\"PreTrainedTokenizerFast\",\"added_tokens_decoder\":{\"9\":{"
       "\"content\":\"</s>\"}}}",
       "tiktoken.model"}};
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
  remove_files();
  const int kind = n ? *at++ & 3 : 0;
  const char *const names[] = {"vocab.json", "target_vocab.json", kinds[kind].model};
  write_file("tokenizer_config.json", kinds[kind].config, strlen(kinds[kind].config));
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
