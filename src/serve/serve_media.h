/* serve_media.h - bytes of pictures and sounds in requests. */
#ifndef ACCEL_SERVE_MEDIA_H
#define ACCEL_SERVE_MEDIA_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* What follows the comma of "data:TYPE;base64,..."; NULL: it is no such URI. */
const char *serve_data_uri(const char *text);
/* Decodes base64, of the plain or the URL's alphabet; with `lines` line ends are passed over.  `to`
 * has room for three bytes for each four digits, begun ones included.  SIZE_MAX: it is none. */
size_t serve_base64(const char *text, bool lines, char *to);
#define SERVE_MAX_PIXELS UINT64_C(50000000) /* of all pictures of one request */

/* Pixels of a PNG, JPEG or WebP file as its header says; 0: not known, the library will refuse it. */
uint64_t serve_pixels(const uint8_t *bytes, size_t n);

#endif
