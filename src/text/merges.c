/* merges.c - see merges.h. */
#include "text/merges.h"

#include <string.h>

/* The lines of merges.txt as strings; a first line "#version" is none. */
static accel_status put_merges(accel__buffer *b, const char *at, size_t n, const char *name) {
  const char *end = at + n;
  bool first = true;
  for (size_t line = 1; at < end; ++line) {
    const char *feed = memchr(at, '\n', (size_t)(end - at)), *stop = feed ? feed : end;
    size_t length = (size_t)(stop - at);
    if (length && at[length - 1] == '\r') length--;
    bool version = line == 1 && length >= 8 && memcmp(at, "#version", 8) == 0;
    if (length && !version) {
      if (!memchr(at, ' ', length) || !accel__utf8_valid(at, length))
        return accel__fail(ACCEL_ERROR_FORMAT, "%s: line %zu does not hold two tokens", name, line);
      accel__buffer_text(b, first ? "" : ",");
      first = false;
      accel__buffer_json_string(b, at, length);
    }
    at = feed ? feed + 1 : end;
  }
  return accel__buffer_status(b);
}

accel_status accel__merges_json(const char *vocab, size_t vocab_n, const char *merges,
                                size_t merges_n, const char *name,
                                const accel__tokenizer_class *class, const accel__json *settings,
                                accel__buffer *b) {
  accel__buffer_text(b, "{\"version\":\"1.0\",");
  ACCEL_TRY(accel__put_class(class, settings, NULL, NULL, 0, b));
  accel__buffer_text(b, ",\"merges\":[");
  ACCEL_TRY(put_merges(b, merges, merges_n, name));
  accel__buffer_text(b, "],\"vocab\":");
  accel__buffer_bytes(b, vocab, vocab_n);
  accel__buffer_text(b, "}}");
  return accel__buffer_status(b);
}
