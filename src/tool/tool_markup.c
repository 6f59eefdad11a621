/* tool_markup.c - see tool_markup.h. */
#include "tool/tool_markup.h"

void tool_markup_text(FILE *to, const char *text) {
  for (; *text; ++text) {
    if (*text == '<')
      fputs("&lt;", to);
    else if (*text == '>')
      fputs("&gt;", to);
    else if (*text == '&')
      fputs("&amp;", to);
    else if (*text == '"')
      fputs("&quot;", to);
    else if ((unsigned char)*text >= 32)
      fputc(*text, to);
  }
}
