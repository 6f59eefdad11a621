/* tool_markup.h - text in HTML and SVG. */
#ifndef ACCEL_TOOL_MARKUP_H
#define ACCEL_TOOL_MARKUP_H

#include <stdio.h>

/* Writes `text` so that it is text there, in attributes within double quotes, too.  Control characters
 * are left out. */
void tool_markup_text(FILE *to, const char *text);

#endif
