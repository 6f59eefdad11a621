/* cli_table.c - tables and other text for people. */
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <wchar.h>

#include "cli/cli_print.h"

/* Decodes one character at *text and moves on; bytes that are no UTF-8 count as one character
 * each.  Returns its width. */
static int next_width(const char **text) {
  wchar_t c;
  mbstate_t state = {0};
  size_t n = mbrtowc(&c, *text, strlen(*text), &state);
  if (n == (size_t)-1 || n == (size_t)-2 || n == 0) {
    ++*text;
    return 1;
  }
  *text += n;
  int width = wcwidth(c);
  return width < 0 ? 1 : width;
}

int cli_width(const char *text) {
  int width = 0;
  while (*text) width += next_width(&text);
  return width;
}

const char *cli_excerpt(const char *text, int columns, char *into, size_t size) {
  bool cut = cli_width(text) > columns;
  int left = cut ? columns - 3 : columns;
  size_t at = 0;
  while (*text) {
    const char *begin = text;
    int width = next_width(&text);
    size_t n = (size_t)(text - begin);
    if (width > left || at + n + 4 >= size) {
      cut = true;
      break;
    }
    left -= width;
    if (n == 1 && ((unsigned char)*begin < 0x20 || *begin == 0x7F))
      into[at++] = ' ';
    else
      memcpy(into + at, begin, n), at += n;
  }
  snprintf(into + at, size - at, "%s", cut ? "..." : "");
  return into;
}

const char *cli_bytes(uint64_t bytes, char *into, size_t size) {
  static const char *const unit[] = {"B", "KiB", "MiB", "GiB", "TiB"};
  double value = (double)bytes;
  int u = 0;
  for (; value >= 1024 && u < 4; ++u) value /= 1024;
  snprintf(into, size, u ? "%.1f %s" : "%.0f %s", value, unit[u]);
  return into;
}

void cli_print_wrapped(const char *text, int indent, int width) {
  int column = 0;
  for (const char *word = text; *word;) {
    int n = (int)strcspn(word, " ");
    if (column && column + 1 + n > width) printf("\n%*s", indent, ""), column = 0;
    printf("%s%.*s", column ? " " : "", n, word);
    column += n + (column > 0);
    word += n + (word[n] == ' ');
  }
  putchar('\n');
}

void cli_table_row(cli_table *table, uint32_t columns, const char *const *cells) {
  if (!table->columns) table->columns = columns;
  uint32_t need = (table->rows + 1) * table->columns;
  if (need > table->capacity) {
    uint32_t more = need * 2;
    char **grown = realloc(table->cell, more * sizeof *grown);
    if (!grown) return; /* a shorter table */
    table->cell = grown;
    table->capacity = more;
  }
  for (uint32_t c = 0; c < table->columns; ++c)
    table->cell[table->rows * table->columns + c] = strdup(c < columns && cells[c] ? cells[c] : "");
  ++table->rows;
}

/* Names may come from files of others: control characters do not reach the terminal. */
static void print_plain(const char *text) {
  for (; *text; ++text) putchar((unsigned char)*text < 0x20 || *text == 0x7F ? ' ' : *text);
}

static void print_cell(const char *text, int width, bool right, bool last) {
  const int pad = width - cli_width(text);
  if (right) printf("%*s", pad > 0 ? pad : 0, "");
  print_plain(text);
  if (!right && !last) printf("%*s", pad > 0 ? pad : 0, "");
  if (!last) fputs("  ", stdout);
}

const char *cli_table_cell(const cli_table *table, uint32_t row, uint32_t column) {
  const char *text = table->cell[row * table->columns + column];
  return text ? text : "";
}

void cli_table_empty(cli_table *table) {
  for (uint32_t i = 0; i < table->rows * table->columns; ++i) free(table->cell[i]);
  free(table->cell);
  *table = (cli_table){0};
}

void cli_table_print(cli_table *table, const char *align) {
  cli_progress_end();
  bool colour = cli_colour(stdout), terminal = isatty(STDOUT_FILENO);
  int total = cli_columns(stdout), used = 0;
  int *width = calloc(table->columns + 1, sizeof *width);
  for (uint32_t c = 0; width && c < table->columns; ++c) {
    for (uint32_t r = 0; r < table->rows; ++r) {
      int w = cli_width(cli_table_cell(table, r, c));
      if (w > width[c]) width[c] = w;
    }
    if (c + 1 < table->columns) used += width[c] + 2;
  }
  for (uint32_t r = 0; width && r < table->rows; ++r) {
    if (r == 0 && colour) fputs("\033[1m", stdout);
    for (uint32_t c = 0; c < table->columns; ++c) {
      bool last = c + 1 == table->columns, right = c < strlen(align) && align[c] == 'r';
      char cut[1024];
      const char *text = cli_table_cell(table, r, c);
      if (last && terminal && total - used >= 20)
        text = cli_excerpt(text, total - used, cut, sizeof cut);
      print_cell(text, width[c], right, last);
    }
    fputs(r == 0 && colour ? "\033[0m\n" : "\n", stdout);
  }
  free(width);
  cli_table_empty(table);
}

void cli_table_markdown(FILE *to, cli_table *table, const char *align) {
  cli_progress_end();
  for (uint32_t r = 0; r < table->rows; ++r) {
    for (uint32_t c = 0; c < table->columns; ++c) {
      fputs("| ", to);
      for (const char *at = cli_table_cell(table, r, c); *at; ++at) {
        if (*at == '|') fputc('\\', to);
        if (*at == '<')
          fputs("&lt;", to);
        else
          fputc((unsigned char)*at < 0x20 ? ' ' : *at, to);
      }
      fputc(' ', to);
    }
    fputs("|\n", to);
    if (r) continue;
    for (uint32_t c = 0; c < table->columns; ++c)
      fputs(c < strlen(align) && align[c] == 'r' ? "|---:" : "|---", to);
    fputs("|\n", to);
  }
  cli_table_empty(table);
}

void cli_print_similarity(const double *cosine, const char *const *texts, uint32_t n) {
  cli_table table = {0};
  const char **cells = calloc(n + 2, sizeof *cells);
  char(*numbers)[24] = calloc(n + 2, sizeof *numbers);
  char excerpt[256];
  for (uint32_t r = 0; cells && numbers && r <= n; ++r) {
    if (r) snprintf(numbers[0], sizeof *numbers, "%u", r);
    cells[0] = r ? numbers[0] : "";
    for (uint32_t c = 0; c < n; ++c) {
      if (r)
        snprintf(numbers[c + 1], sizeof *numbers, "%.4f", cosine[(size_t)(r - 1) * n + c]);
      else
        snprintf(numbers[c + 1], sizeof *numbers, "%u", c + 1);
      cells[c + 1] = numbers[c + 1];
    }
    cells[n + 1] = r ? cli_excerpt(texts[r - 1], 60, excerpt, sizeof excerpt) : "text";
    cli_table_row(&table, n + 2, cells);
  }
  char *align = malloc(n + 3);
  if (align) {
    memset(align, 'r', n + 1);
    strcpy(align + n + 1, "l");
    cli_table_print(&table, align);
  }
  free(align);
  free((void *)cells);
  free(numbers);
}

void cli_print_text(const char *text) {
  for (const char *nul; (nul = strstr(text, "\xC0\x80")) != NULL; text = nul + 2) {
    fwrite(text, 1, (size_t)(nul - text), stdout);
    putchar(0);
  }
  fputs(text, stdout);
}

int cli_flush(cli_run *run) {
  bool failed = fflush(stdout) != 0 || ferror(stdout);
  return failed
             ? cli_error(run, ACCEL_ERROR_IO, "standard output: cannot write: %s", strerror(errno))
             : 0;
}

const char *cli_vector_head(const float *v, uint32_t n, char *into, size_t size) {
  size_t at = (size_t)snprintf(into, size, "[");
  for (uint32_t i = 0; i < n && i < 5; ++i)
    at += (size_t)snprintf(into + at, size - at, "%s%.5f", i ? ", " : "", (double)v[i]);
  snprintf(into + at, size - at, n > 5 ? ", ... %u values]" : "]", n);
  return into;
}
