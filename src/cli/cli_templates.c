/* cli_templates.c - fills in the templates of accel new. */
#include "cli/cli_templates.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Is one of "a|b" up to `end` among `kinds`? */
static bool is_kept(const char *condition, const char *end, const char *kinds) {
  for (const char *at = condition; at < end;) {
    char word[48];
    const size_t n = strcspn(at, "|@");
    snprintf(word, sizeof word, " %.*s ", (int)n, at);
    if (strstr(kinds, word)) return true;
    at += n + 1;
  }
  return false;
}

static void put_line(FILE *to, const char *line, size_t n, const cli_word *words, size_t n_words) {
  for (const char *s = line; s < line + n;) {
    size_t length = *s == '@' ? strspn(s + 1, "ABCDEFGHIJKLMNOPQRSTUVWXYZ_") : 0, i = n_words;
    if (length && s[1 + length] == '@')
      for (i = 0; i < n_words; ++i)
        if (strlen(words[i].name) == length && !strncmp(words[i].name, s + 1, length)) break;
    if (i < n_words)
      fputs(words[i].value, to), s += length + 2;
    else
      fputc(*s++, to);
  }
}

static const char *find_template(const char *name) {
  for (size_t i = 0; i < cli_template_count; ++i)
    if (!strcmp(cli_templates[i].name, name)) return cli_templates[i].text;
  return NULL;
}

char *cli_template_fill(const char *name, const cli_word *words, size_t n, const char *kinds) {
  const char *text = find_template(name);
  char *out = NULL;
  size_t size;
  bool kept = true;
  FILE *to = text ? open_memstream(&out, &size) : NULL;
  if (!to) return NULL;
  for (const char *line = text; *line;) {
    const size_t length = strcspn(line, "\n") + (strchr(line, '\n') != NULL);
    if (!strncmp(line, "@if ", 4))
      kept = is_kept(line + 4, line + length, kinds);
    else if (!strncmp(line, "@end@", 5))
      kept = true;
    else if (kept)
      put_line(to, line, length, words, n);
    line += length;
  }
  return fclose(to) == 0 ? out : (free(out), NULL);
}

char *cli_literal(const char *text) {
  char *out = malloc(2 * strlen(text) + 1), *to = out;
  for (const char *s = text; out && *s; ++s) {
    if (*s == '"' || *s == '\\') *to++ = '\\';
    *to++ = *s == '\n' ? ' ' : *s;
  }
  if (out) *to = 0;
  return out;
}
