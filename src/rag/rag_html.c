/* rag_html.c - HTML to lines of text: each block is a line, headings keep their level.  What pages
 * hold is never run, fetched or believed: tags are told apart by name, and everything that is no tag
 * is text.  One pass, in time that grows with the bytes alone. */
#include <stdlib.h>
#include <string.h>

#include "rag/rag_document.h"

typedef struct html {
  accel__document *d;
  const char *at, *end;
  uint32_t number;     /* line of the file at `at`, from 1 */
  accel__buffer block; /* text of the block so far */
  uint32_t first;      /* line in which it began */
  uint32_t heading;    /* of an open <h1> ... <h6>; 0: none */
  uint32_t pre;        /* open <pre> elements */
  bool space, gap;     /* a space, an empty line is due before what comes next */
} html;

/* ---- elements ---- */

enum { INLINE, BLOCK, ROW, ITEM, CELL, RAW, TITLE, PRE, BREAK };

/* RAW: what is inside is no text.  Elements that are not here are inline. */
static const struct {
  const char *name;
  int kind;
} elements[] = {{"address", BLOCK}, {"article", BLOCK}, {"aside", BLOCK},    {"blockquote", BLOCK},
                {"body", BLOCK},    {"br", BREAK},      {"caption", BLOCK},  {"center", BLOCK},
                {"dd", ROW},        {"details", BLOCK}, {"dialog", BLOCK},   {"div", BLOCK},
                {"dl", BLOCK},      {"dt", ROW},        {"fieldset", BLOCK}, {"figcaption", BLOCK},
                {"figure", BLOCK},  {"footer", BLOCK},  {"form", BLOCK},     {"h1", BLOCK},
                {"h2", BLOCK},      {"h3", BLOCK},      {"h4", BLOCK},       {"h5", BLOCK},
                {"h6", BLOCK},      {"head", BLOCK},    {"header", BLOCK},   {"hr", BLOCK},
                {"html", BLOCK},    {"iframe", RAW},    {"legend", ROW},     {"li", ITEM},
                {"main", BLOCK},    {"menu", BLOCK},    {"nav", BLOCK},      {"noembed", RAW},
                {"noframes", RAW},  {"ol", BLOCK},      {"option", ROW},     {"p", BLOCK},
                {"pre", PRE},       {"script", RAW},    {"section", BLOCK},  {"select", BLOCK},
                {"style", RAW},     {"summary", ROW},   {"svg", RAW},        {"table", BLOCK},
                {"tbody", BLOCK},   {"td", CELL},       {"template", RAW},   {"textarea", RAW},
                {"tfoot", BLOCK},   {"th", CELL},       {"thead", BLOCK},    {"title", TITLE},
                {"tr", ROW},        {"ul", BLOCK}};

enum { MAX_NAME = 16 };

static int kind_of(const char *name) {
  for (size_t i = 0; i < sizeof elements / sizeof *elements; i++)
    if (!strcmp(elements[i].name, name)) return elements[i].kind;
  return INLINE;
}

/* ---- characters ---- */

static const struct entity {
  const char *name;
  uint32_t code;
} entities[] = {
#define ENTITY(name, code) {name, code},
#include "rag/html_entities.def"
};

static int by_name(const void *key, const void *entity) {
  return strcmp(key, ((const struct entity *)entity)->name);
}

/* What old pages mean by the numbers 128 to 159: Windows' code page 1252. */
static const uint16_t windows[32] = {
    0x20AC, 0x81,   0x201A, 0x0192, 0x201E, 0x2026, 0x2020, 0x2021, 0x02C6, 0x2030, 0x0160,
    0x2039, 0x0152, 0x8D,   0x017D, 0x8F,   0x90,   0x2018, 0x2019, 0x201C, 0x201D, 0x2022,
    0x2013, 0x2014, 0x02DC, 0x2122, 0x0161, 0x203A, 0x0153, 0x9D,   0x017E, 0x0178};

static uint32_t number_of(const char *digits, size_t n) {
  const bool hex = n > 1 && (digits[0] == 'x' || digits[0] == 'X');
  uint32_t code = 0;
  for (size_t i = hex; i < n; i++) {
    const char c = digits[i], low = (char)(c | 32);
    const bool letter = hex && low >= 'a' && low <= 'f';
    if (!letter && (c < '0' || c > '9')) return 0;
    if (code < 0x110000)
      code = code * (hex ? 16 : 10) + (uint32_t)(letter ? low - 'a' + 10 : c - '0');
  }
  if (code >= 128 && code < 160) code = windows[code - 128];
  return code && code < 0x110000 && (code < 0xD800 || code > 0xDFFF) ? code : 0xFFFD;
}

/* The character reference at `at`; 0: it is none.  *n gets its length. */
static uint32_t reference(const char *at, const char *end, size_t *n) {
  char name[MAX_NAME];
  const size_t left = (size_t)(end - at) - 1, most = left < MAX_NAME ? left : MAX_NAME;
  const char *semicolon = memchr(at + 1, ';', most);
  if (!semicolon || semicolon == at + 1) return 0;
  const size_t length = (size_t)(semicolon - at) - 1;
  *n = length + 2;
  if (at[1] == '#') return length > 1 ? number_of(at + 2, length - 1) : 0;
  memcpy(name, at + 1, length);
  name[length] = '\0';
  const struct entity *found =
      bsearch(name, entities, sizeof entities / sizeof *entities, sizeof *entities, by_name);
  return found ? found->code : 0;
}

/* ---- blocks ---- */

static void flush(html *h) {
  accel__buffer *b = &h->block;
  while (b->n && b->data[b->n - 1] == ' ') b->n--;
  h->space = false;
  if (b->failed) h->d->text.failed = true;
  if (b->n && !b->failed) {
    if (b->n > ACCEL__HEADING_BYTES) h->heading = 0;
    if (h->gap && h->d->n) accel__document_line_add(h->d, "", 0, h->first, h->first, 0);
    accel__document_line_add(h->d, b->data, b->n, h->first, h->number, h->heading);
    if (h->heading == 1) accel__document_title(h->d, b->data, b->n);
    h->gap = false;
  }
  b->n = 0;
}

static void put(html *h, const char *bytes, size_t n) {
  if (!h->block.n) h->first = h->number;
  if (h->space && h->block.n) accel__buffer_bytes(&h->block, " ", 1);
  h->space = false;
  accel__buffer_bytes(&h->block, bytes, n);
}

static void put_space(html *h, char c) {
  if (!h->pre) {
    h->space = true;
  } else if (c == '\n') {
    const bool empty = !h->block.n;
    flush(h);
    if (empty && h->d->n) accel__document_line_add(h->d, "", 0, h->number, h->number, 0);
  } else {
    put(h, " ", 1);
  }
}

static void put_code(html *h, uint32_t code) {
  char utf8[4];
  if (code <= ' ' || code == 0x7F || code == 0xA0)
    put_space(h, code == '\n' ? '\n' : ' ');
  else
    put(h, utf8, accel__utf8_encode(code, utf8));
}

/* Text up to `stop`, with its references replaced. */
static void take_text(html *h, const char *stop) {
  while (h->at < stop) {
    size_t n = 1;
    const uint32_t code = *h->at == '&' ? reference(h->at, stop, &n) : 0;
    if (code) {
      put_code(h, code);
      h->at += n;
    } else if ((unsigned char)*h->at <= ' ' || *h->at == 0x7F) {
      put_space(h, *h->at);
      h->number += *h->at++ == '\n';
    } else {
      put(h, h->at++, 1);
    }
  }
}

/* ---- tags ---- */

static void skip_to(html *h, const char *stop) {
  while (h->at < stop) h->number += *h->at++ == '\n';
}

/* Behind the tag that begins at h->at; quotes count where a value begins with them. */
static const char *end_of_tag(const html *h) {
  char before = 0;
  for (const char *c = h->at + 1; c < h->end; c++) {
    if (*c == '>') return c + 1;
    if ((*c == '"' || *c == '\'') && before == '=') {
      c = memchr(c + 1, *c, (size_t)(h->end - c - 1));
      if (!c) return h->end;
    }
    if (!accel__is_space(*c)) before = *c;
  }
  return h->end;
}

/* Where "</name" stands from h->at on; the end where it does not. */
static const char *closing(const html *h, const char *name) {
  const size_t n = strlen(name);
  for (const char *c = h->at; (c = memchr(c, '<', (size_t)(h->end - c))); c++) {
    if ((size_t)(h->end - c) < n + 2) break;
    size_t i = 0;
    while (c[1] == '/' && i < n && (c[2 + i] | 32) == name[i]) i++;
    if (i == n) return c;
  }
  return h->end;
}

static void take_title(html *h) {
  const char *stop = closing(h, "title");
  flush(h);
  take_text(h, stop);
  accel__document_title(h->d, h->block.data, h->block.n);
  if (h->block.failed) h->d->text.failed = true;
  h->block.n = 0;
  h->space = false;
}

static void open_heading(html *h, const char *name, bool opens) {
  if (name[0] == 'h' && name[1] >= '1' && name[1] <= '6' && !name[2])
    h->heading = opens ? (uint32_t)(name[1] - '0') : 0;
}

static void take_element(html *h, const char *name, bool opens) {
  const int kind = kind_of(name);
  if (kind == INLINE || (kind == TITLE && !opens)) return;
  if (kind == TITLE) {
    take_title(h);
    return;
  }
  if (kind == RAW) {
    if (opens) skip_to(h, closing(h, name));
    return;
  }
  if (kind == CELL) {
    if (opens && h->block.n) put(h, " |", 2);
    h->space = true;
    return;
  }
  flush(h);
  if (kind == BLOCK || kind == PRE) h->gap = true;
  if (kind == PRE) h->pre = opens ? h->pre + 1 : h->pre - (h->pre > 0);
  if (kind == ITEM && opens) put(h, "-", 1), h->space = true;
  open_heading(h, name, opens);
}

/* Whatever begins with '<'. */
static void take_markup(html *h) {
  char name[MAX_NAME] = "";
  const size_t left = (size_t)(h->end - h->at);
  if (left > 3 && !memcmp(h->at, "<!--", 4)) {
    const char *stop = memmem(h->at + 4, left - 4, "-->", 3);
    skip_to(h, stop ? stop + 3 : h->end);
    return;
  }
  const bool opens = left < 2 || h->at[1] != '/';
  const char *c = h->at + (opens ? 1 : 2);
  const char first = c < h->end ? (char)(*c | 32) : 0;
  if ((first < 'a' || first > 'z') && (left < 2 || !memchr("!?/", h->at[1], 3))) {
    put(h, h->at++, 1);
    return;
  }
  size_t n = 0;
  for (; c < h->end && n + 1 < MAX_NAME; c++, n++) {
    const char low = (char)(*c | 32);
    if ((low < 'a' || low > 'z') && (*c < '0' || *c > '9')) break;
    name[n] = *c >= 'A' && *c <= 'Z' ? low : *c;
  }
  if (c < h->end && (*c == '-' || *c == ':')) name[0] = '\0'; /* an element of somebody's own */
  skip_to(h, end_of_tag(h));
  take_element(h, name, opens);
}

void accel__document_html(accel__document *d, const char *text, size_t n) {
  html h = {.d = d, .at = text, .end = text + n, .number = 1, .first = 1};
  while (h.at < h.end && !d->text.failed) {
    const char *tag = memchr(h.at, '<', (size_t)(h.end - h.at));
    take_text(&h, tag ? tag : h.end);
    if (tag) take_markup(&h);
  }
  flush(&h);
  accel__buffer_free(&h.block);
}
