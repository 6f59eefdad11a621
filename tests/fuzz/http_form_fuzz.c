/* http_form_fuzz.c - any form: the first line is the media type, the rest the body.  Fields lie in the
 * body, one behind the other, and end with NUL. */
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "serve/http_form.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void require(bool holds) {
  if (!holds) __builtin_trap();
}

static bool inside(const char *text, const char *body, size_t n) {
  return text >= body && text <= body + n && strlen(text) <= (size_t)(body + n - text);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  const uint8_t *end = memchr(data, '\n', size);
  const size_t n_type = end ? (size_t)(end - data) : 0, n = size - n_type - (end != NULL);
  char *type = strndup((const char *)data, n_type), *body = malloc(n + 1);
  if (!type || !body) abort();
  memcpy(body, data + size - n, n);
  serve_part *part = NULL;
  uint32_t n_part = 0;
  const char *why = http_form_parse(type, body, n, &part, &n_part);
  require(why ? *why != 0 : part && n_part && n_part <= HTTP_FORM_MOST);
  for (uint32_t i = 0; !why && i < n_part; ++i) {
    require(inside(part[i].name, body, n) && inside(part[i].data, body, n));
    require(part[i].n <= (size_t)(body + n - part[i].data) && !part[i].data[part[i].n]);
    require(!i || part[i].data > part[i - 1].data);
    if (part[i].file_name) require(inside(part[i].file_name, body, n));
    if (part[i].type) require(inside(part[i].type, body, n));
  }
  if (!why) free(part);
  free(type);
  free(body);
  return 0;
}
