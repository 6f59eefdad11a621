/* tool_markup.h - text in HTML and SVG. */
#ifndef ACCEL_TOOL_MARKUP_H
#define ACCEL_TOOL_MARKUP_H

#include <stdio.h>

/* Length of the well-formed UTF-8 sequence at s, 0 when there is none; s ends with NUL. */
int tool_utf8_length(const unsigned char *s);
/* Writes `text` so that it is text there, in attributes within double quotes, too.  Control
 * characters are left out, and malformed UTF-8 becomes U+FFFD. */
void tool_markup_text(FILE *to, const char *text);

#endif
