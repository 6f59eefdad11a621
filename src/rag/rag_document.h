/* rag_document.h - the text of a file as it is searched: lines, where each came from, and which of
 * them are headings.
 *
 * Whatever the bytes of a file, a document is valid UTF-8 without U+0000.  Plain text and Markdown
 * keep their lines; of HTML each block (a paragraph, an item of a list, a row of a table) is a line.
 */
#ifndef ACCEL_RAG_DOCUMENT_H
#define ACCEL_RAG_DOCUMENT_H

#include <stdint.h>

#include "core/text.h"

/* Bytes of a document, at most; offsets are uint32_t. */
#define ACCEL__DOCUMENT_BYTES (UINT32_C(64) << 20)

/* Bytes of a heading, at most: a longer one is text. */
enum { ACCEL__HEADING_BYTES = 300 };

typedef struct accel__document_line {
  uint32_t start, end;  /* bytes [start, end) of the text, without the line's end */
  uint32_t first, last; /* lines of the file, from 1 */
  uint32_t heading;     /* its level, 1 to 6; 0: it is none */
} accel__document_line;

typedef struct accel__document {
  accel__buffer text; /* NUL-terminated; lines end with '\n' */
  accel__document_line *line;
  uint32_t n, capacity; /* lines */
  char *title;          /* malloc'd; NULL: none */
} accel__document;      /* {0} is empty */

/* Reads n bytes.  ACCEL_ERROR_FORMAT: they hold U+0000 or begin as UTF-16 does (with a remedy);
 * ACCEL_ERROR_LIMIT: there are too many.  Bytes that are not UTF-8 become U+FFFD. */
accel_status accel__document_parse(const char *bytes, size_t n, accel_rag_format format,
                                   accel__document *out);
void accel__document_free(accel__document *d);
/* By the end of its name; false: of none that is read. */
bool accel__document_format(const char *path, accel_rag_format *out);

/* ---- for the readers of each format ---- */

/* Appends a line without its end; `text` may be in the document's own text only at its end.  What is
 * refused shows in accel__document_status. */
void accel__document_line_add(accel__document *d, const char *text, size_t n, uint32_t first,
                              uint32_t last, uint32_t heading);
bool accel__is_space(char c); /* white space of ASCII */
/* The document's title, where it has none yet; white space around it and in it is one space. */
void accel__document_title(accel__document *d, const char *text, size_t n);
accel_status accel__document_status(const accel__document *d);

/* text[n] is UTF-8 without U+0000. */
void accel__document_markdown(accel__document *d, const char *text, size_t n);
void accel__document_html(accel__document *d, const char *text, size_t n);

#endif
