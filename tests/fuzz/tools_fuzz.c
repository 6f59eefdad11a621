/* tools_fuzz.c - generated texts taken apart by each family's parser: the same pieces however they
 * are cut.  The first two bytes choose the family and the length of pieces. */
#include <stdlib.h>
#include <string.h>

#include "accel/accel.h"
#include "core/text.h"

static void note(void *user, const accel_tool_event *event) {
  accel__buffer *b = user;
  /* neighbours are joined: where they are cut does not matter */
  const char kind = "\1\2\3"[event->kind];
  if (event->kind == ACCEL_TOOL_CALL || !b->n || b->data[0] != kind) {
    accel__buffer_bytes(b, "\0", 1);
    accel__buffer_bytes(b, &kind, 1);
  }
  if (b->n) b->data[0] = kind;
  accel__buffer_text(b, event->text);
}

/* The first byte of *out is the last kind. */
static void parse(const accel_tools *tools, const char *text, size_t n, size_t piece,
                  accel__buffer *out) {
  accel_tool_parser *p;
  accel__buffer_bytes(out, "\0", 1);
  if (accel_tool_parser_open(tools, &p) != ACCEL_OK) return;
  for (size_t at = 0; at < n; at += piece) {
    const size_t length = n - at < piece ? n - at : piece;
    char *part = malloc(length + 1);
    if (!part) abort();
    memcpy(part, text + at, length);
    part[length] = 0;
    if (accel_tool_parser_feed(p, part, note, out) != ACCEL_OK) abort();
    free(part);
  }
  if (accel_tool_parser_end(p, note, out) != ACCEL_OK) abort();
  accel_tool_parser_close(&p);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n) {
  static const char json[] =
      "[{\"name\":\"f\",\"parameters\":{\"properties\":{\"a\":{\"type\":\"string\"},"
      "\"b\":{\"type\":\"integer\"}}}},{\"name\":\"g\"}]";
  if (n < 2 || memchr(data, 0, n)) return 0;
  const accel_strings *families = accel_tool_families();
  accel_tools_params how = accel_tools_params_default();
  accel__buffer whole = {0}, cut = {0};
  accel_tools *tools;
  how.family = families->item[data[0] % families->n];
  if (accel_tools_open(NULL, json, &how, &tools) != ACCEL_OK) abort();
  parse(tools, (const char *)data + 2, n - 2, n, &whole);
  parse(tools, (const char *)data + 2, n - 2, 1 + data[1] % 7, &cut);
  if (whole.n != cut.n || memcmp(whole.data, cut.data, cut.n) != 0) abort();
  accel__buffer_free(&whole);
  accel__buffer_free(&cut);
  accel_tools_close(&tools);
  return 0;
}
