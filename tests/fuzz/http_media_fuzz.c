/* http_media_fuzz.c - any bytes as base64 and as a picture's header. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "serve/serve_media.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  char *text = strndup((const char *)data, size);
  const size_t room = text ? strlen(text) / 4 * 3 + 3 : 0;
  char *to = malloc(room + 1);
  uint8_t *copy = malloc(size + 1); /* a read behind the end is seen */
  if (!text || !to || !copy) abort();
  const size_t strict = serve_base64(text, false, to), n = serve_base64(text, true, to);
  if (strict != SIZE_MAX && strict != n) __builtin_trap(); /* there are no line ends in it */
  (void)serve_data_uri(text);
  if (n != SIZE_MAX && n > room) __builtin_trap();
  uint8_t *exact = realloc(copy, size ? size : 1);
  if (size) memcpy(exact, data, size);
  (void)serve_pixels(exact, size);
  if (n != SIZE_MAX) (void)serve_pixels((const uint8_t *)to, n);
  free(exact);
  free(to);
  free(text);
  return 0;
}
