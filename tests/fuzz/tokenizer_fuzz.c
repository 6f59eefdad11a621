/* tokenizer_fuzz.c - a tokenizer.json (up to the first NUL byte) and a text (the rest): load,
 * encode in several ways, decode. What must hold beside memory safety: spans lie inside the text,
 * pieces hold together, and loading twice gives the same. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "text/tokenizer.h"

static void check(const accel__encoding *e, size_t n, size_t pair_n) {
  if (e->start[0] != 0 || e->start[1] != e->n) abort();
  for (size_t i = 0; i < e->start[e->pieces]; ++i) {
    size_t limit = n > pair_n ? n : pair_n;
    if (e->bytes[i].end > limit || e->bytes[i].start > e->bytes[i].end) abort();
    if (e->chars[i].end > e->bytes[i].end || e->chars[i].start > e->chars[i].end) abort();
  }
}

static void run(const accel__tokenizer *t, const char *text, size_t n) {
  accel__encoding e = {0};
  accel__buffer out = {0};
  for (unsigned way = 0; way < 4; ++way) {
    accel__encode_options how = {.add_special_tokens = way != 1,
                                 .truncation = (accel__truncation)way,
                                 .max_length = 7,
                                 .stride = way,
                                 .truncate_left = way == 2,
                                 .words = way == 3,
                                 .ignore_special_in_text = way == 1};
    const char *pair = way >= 2 ? text + n / 2 : NULL;
    if (accel__encode(t, text, n, pair, n - n / 2, &how, &e) != ACCEL_OK) continue;
    check(&e, n, n - n / 2);
    if (accel__decode(t, e.ids, e.n, way & 1, way & 2, &out) != ACCEL_OK) break;
    out.n = 0;
  }
  accel__buffer_free(&out);
  accel__encoding_free(&e);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n) {
  const uint8_t *zero = n ? memchr(data, 0, n) : NULL;
  size_t json_n = zero ? (size_t)(zero - data) : n;
  accel__tokenizer *t = NULL;
  if (accel__tokenizer_parse((const char *)data, json_n, "fuzz.json", &t) != ACCEL_OK) {
    if (!*accel__message() || t) abort();
    return 0;
  }
  run(t, "Hello w\u00f6rld, \u6771\u4eac e\u0301 12  [SEP] \xff", 33);
  if (zero) run(t, (const char *)zero + 1, n - json_n - 1);
  accel__tokenizer_free(&t);
  return 0;
}
