/* sentencepiece_fuzz.c - a SentencePiece model: what is made of it must be JSON, and load or be
 * refused. */
#include <stdint.h>
#include <stdlib.h>

#include "text/sentencepiece.h"
#include "text/tokenizer.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n) {
  static const char *const names[] = {NULL, "T5Tokenizer", "XLMRobertaTokenizer", "LlamaTokenizer",
                                      "AlbertTokenizer"};
  const accel__tokenizer_class *class = accel__tokenizer_class_named(names[n % 5]);
  accel__json_file config = {0}, made = {0};
  accel__buffer json = {0};
  accel__tokenizer *tokenizer = NULL;
  if (accel__json_parse("{}", 2, "config", &config) != ACCEL_OK) abort();
  if (accel__sentencepiece_json(data, n, "fuzz.model", class, &config, &json) == ACCEL_OK) {
    if (accel__json_parse(json.data, json.n, "made", &made) != ACCEL_OK) abort();
    if (accel__tokenizer_parse(json.data, json.n, "made", &tokenizer) == ACCEL_OK)
      accel__tokenizer_free(&tokenizer);
  }
  accel__json_free(&made);
  accel__json_free(&config);
  accel__buffer_free(&json);
  return 0;
}
