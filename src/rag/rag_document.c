/* rag_document.c - bytes to documents: what every format shares, and plain text. */
#include "rag/rag_document.h"

#include <stdlib.h>
#include <string.h>

enum { MAX_TITLE = 200 };

static const char utf8_mark[] = "\xef\xbb\xbf";

void accel__document_free(accel__document *d) {
  accel__buffer_free(&d->text);
  free(d->line);
  free(d->title);
  *d = (accel__document){0};
}

bool accel__document_format(const char *path, accel_rag_format *out) {
  static const struct {
    const char *ending;
    accel_rag_format format;
  } kinds[] = {{".txt", ACCEL_RAG_TEXT},    {".text", ACCEL_RAG_TEXT},
               {".md", ACCEL_RAG_MARKDOWN}, {".markdown", ACCEL_RAG_MARKDOWN},
               {".html", ACCEL_RAG_HTML},   {".htm", ACCEL_RAG_HTML},
               {".xhtml", ACCEL_RAG_HTML}};
  const char *dot = strrchr(path, '.');
  for (size_t i = 0; dot && i < sizeof kinds / sizeof *kinds; i++)
    if (accel__equal_ignoring_case(dot, kinds[i].ending)) return *out = kinds[i].format, true;
  return false;
}

/* ---- lines ---- */

void accel__document_line_add(accel__document *d, const char *text, size_t n, uint32_t first,
                              uint32_t last, uint32_t heading) {
  if (d->n == d->capacity) {
    const uint32_t capacity = d->capacity ? 2 * d->capacity : 64;
    accel__document_line *more = realloc(d->line, capacity * sizeof *more);
    if (!more) d->text.failed = true;
    if (d->text.failed) return;
    d->line = more;
    d->capacity = capacity;
  }
  const size_t start = d->text.n;
  accel__buffer_bytes(&d->text, text, n);
  accel__buffer_bytes(&d->text, "\n", 1);
  if (d->text.failed) return;
  d->line[d->n++] = (accel__document_line){.start = (uint32_t)start,
                                           .end = (uint32_t)(start + n),
                                           .first = first,
                                           .last = last,
                                           .heading = heading};
}

accel_status accel__document_status(const accel__document *d) {
  return accel__buffer_status(&d->text);
}

bool accel__is_space(char c) { return c == ' ' || (c >= '\t' && c <= '\r'); }

void accel__document_title(accel__document *d, const char *text, size_t n) {
  accel__buffer title = {0};
  if (d->title) return;
  for (size_t i = 0; i < n; i++) {
    const bool space = accel__is_space(text[i]);
    if (space && (!title.n || title.data[title.n - 1] == ' ')) continue;
    accel__buffer_bytes(&title, space ? " " : &text[i], 1);
  }
  if (title.n > MAX_TITLE) title.n = accel__utf8_cut(title.data, MAX_TITLE);
  while (title.n && title.data[title.n - 1] == ' ') title.n--;
  if (title.failed) d->text.failed = true;
  if (title.failed || !title.n) {
    accel__buffer_free(&title);
    return;
  }
  title.data[title.n] = '\0';
  d->title = title.data;
}

static void plain(accel__document *d, const char *text, size_t n) {
  uint32_t number = 1;
  for (const char *at = text, *end = text + n; at < end; number++) {
    const char *stop = memchr(at, '\n', (size_t)(end - at));
    if (!stop) stop = end;
    accel__document_line_add(d, at, (size_t)(stop - at), number, number, 0);
    at = stop + 1;
  }
}

/* ---- bytes ---- */

/* Valid UTF-8 with '\n' alone at the ends of lines. */
static accel_status clean(const char *bytes, size_t n, accel__buffer *out) {
  for (size_t i = 0, step; i < n; i += step) {
    uint32_t code;
    step = 1;
    if (bytes[i] == '\r') {
      if (i + 1 == n || bytes[i + 1] != '\n') accel__buffer_bytes(out, "\n", 1);
      continue;
    }
    if ((unsigned char)bytes[i] >= 0x80) step = accel__utf8_decode(bytes + i, n - i, &code);
    if ((unsigned char)bytes[i] >= 0x80 && step == 1) {
      accel__buffer_text(out, "\xef\xbf\xbd");
      continue;
    }
    accel__buffer_bytes(out, bytes + i, step);
  }
  return accel__buffer_status(out);
}

static accel_status check(const char *bytes, size_t n) {
  const bool wide = n > 1 && (!memcmp(bytes, "\xff\xfe", 2) || !memcmp(bytes, "\xfe\xff", 2));
  if (wide)
    return accel__remedy(accel__fail(ACCEL_ERROR_FORMAT, "it is UTF-16, and UTF-8 is read"),
                         "iconv -f UTF-16 -t UTF-8 FILE > NEW, and index NEW");
  if (n && memchr(bytes, '\0', n))
    return accel__remedy(accel__fail(ACCEL_ERROR_FORMAT, "it holds U+0000: it is no text"),
                         "index text, Markdown or HTML in UTF-8");
  return ACCEL_OK;
}

accel_status accel__document_parse(const char *bytes, size_t n, accel_rag_format format,
                                   accel__document *out) {
  accel__buffer text = {0};
  *out = (accel__document){0};
  if (n > ACCEL__DOCUMENT_BYTES / 3) /* each byte may become U+FFFD, which has three */
    return accel__remedy(accel__fail(ACCEL_ERROR_LIMIT, "it has %zu bytes, more than %u", n,
                                     ACCEL__DOCUMENT_BYTES / 3),
                         "split it into several files");
  if (n >= 3 && !memcmp(bytes, utf8_mark, 3)) bytes += 3, n -= 3;
  ACCEL_TRY(check(bytes, n));
  accel_status status = clean(bytes, n, &text);
  if (status == ACCEL_OK && text.n) {
    if (format == ACCEL_RAG_MARKDOWN)
      accel__document_markdown(out, text.data, text.n);
    else if (format == ACCEL_RAG_HTML)
      accel__document_html(out, text.data, text.n);
    else
      plain(out, text.data, text.n);
    status = accel__document_status(out);
  }
  accel__buffer_free(&text);
  if (status != ACCEL_OK) accel__document_free(out);
  return status;
}
