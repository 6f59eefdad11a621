/* rag_fuzz.c - documents of an index: whatever the bytes, a refusal with a message, or lines in order
 * of valid UTF-8, and passages inside of them.  The first byte says the format. */
#include <stdlib.h>
#include <string.h>

#include "rag/rag_chunks.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static const char tokenizer_json[] =
    "{\"version\":\"1.0\",\"pre_tokenizer\":{\"type\":\"Whitespace\"},\"model\":{\"type\":"
    "\"WordLevel\",\"unk_token\":\"?\",\"vocab\":{\"?\":0,\"a\":1}}}";

static void require(int condition) {
  if (!condition) abort(); /* a finding */
}

static void check_lines(const accel__document *d) {
  uint32_t end = 0, last = 0;
  require(!d->text.n || accel__utf8_valid(d->text.data, d->text.n));
  require(!d->text.n || !memchr(d->text.data, 0, d->text.n));
  for (uint32_t i = 0; i < d->n; i++) {
    const accel__document_line *l = &d->line[i];
    require(l->start == end && l->end >= l->start && l->end < d->text.n);
    require(l->first >= 1 && l->last >= l->first && l->last >= last && l->heading <= 6);
    require(d->text.data[l->end] == '\n');
    end = l->end + 1;
    last = l->last;
  }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  static accel__tokenizer *tokenizer;
  accel__document d;
  accel__chunks chunks;
  if (!tokenizer)
    require(!accel__tokenizer_parse(tokenizer_json, sizeof tokenizer_json - 1, "fuzz", &tokenizer));
  if (!size) return 0;
  const accel_rag_format format = (accel_rag_format)(data[0] % 3);
  if (accel__document_parse((const char *)data + 1, size - 1, format, &d) != ACCEL_OK) {
    require(accel__message()[0] != '\0');
    return 0;
  }
  check_lines(&d);
  const accel__chunking how = {.tokenizer = tokenizer, .tokens = 16, .overlap = data[0] / 3 % 8};
  require(accel__chunks_make(&d, &how, &chunks) == ACCEL_OK);
  for (uint32_t i = 0; i < chunks.n; i++) {
    const accel__chunk *c = &chunks.item[i];
    require(c->start < c->end && c->end <= d.text.n && c->first_line <= c->last_line);
    require(accel__utf8_valid(d.text.data + c->start, c->end - c->start));
    require(!i || chunks.item[i - 1].start < c->start);
  }
  accel__chunks_free(&chunks);
  accel__document_free(&d);
  return 0;
}
