/* tool_markup.c - see tool_markup.h. */
#include "tool/tool_markup.h"

#include <stdbool.h>

int tool_utf8_length(const unsigned char *s) {
  if (s[0] < 0x80) return 1;
  int n = s[0] >= 0xC2 && s[0] <= 0xDF   ? 2
          : s[0] >= 0xE0 && s[0] <= 0xEF ? 3
          : s[0] >= 0xF0 && s[0] <= 0xF4 ? 4
                                         : 0;
  for (int i = 1; i < n; ++i) {
    if ((s[i] & 0xC0) != 0x80) return 0;
  }
  bool bad = (s[0] == 0xE0 && s[1] < 0xA0) || (s[0] == 0xED && s[1] > 0x9F) ||
             (s[0] == 0xF0 && s[1] < 0x90) || (s[0] == 0xF4 && s[1] > 0x8F);
  return bad ? 0 : n;
}

/* Controls below U+0020, DEL and those up to U+009F, and what no page may hold: U+FFFE, U+FFFF. */
static bool left_out(const unsigned char *s) {
  return *s < 32 || *s == 0x7F || (s[0] == 0xC2 && s[1] < 0xA0) ||
         (s[0] == 0xEF && s[1] == 0xBF && s[2] >= 0xBE);
}

void tool_markup_text(FILE *to, const char *text) {
  for (const unsigned char *s = (const unsigned char *)text; *s;) {
    const int n = tool_utf8_length(s);
    if (!n)
      fputs("\xEF\xBF\xBD", to);
    else if (*s == '<')
      fputs("&lt;", to);
    else if (*s == '>')
      fputs("&gt;", to);
    else if (*s == '&')
      fputs("&amp;", to);
    else if (*s == '"')
      fputs("&quot;", to);
    else if (!left_out(s))
      fwrite(s, 1, (size_t)n, to);
    s += n ? n : 1;
  }
}
