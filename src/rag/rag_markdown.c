/* rag_markdown.c - Markdown: its text as it is written, with headings, fenced code and front matter
 * recognised as CommonMark has them. */
#include <string.h>

#include "rag/rag_document.h"

typedef struct markdown {
  accel__document *d;
  uint32_t number;          /* of the line, from 1 */
  char fence;               /* '`' or '~' inside of fenced code; 0 outside */
  size_t fence_n;           /* how many of them opened it */
  bool front_matter, blank; /* inside of it; the line before was empty, or a heading */
  bool alone;               /* the line before is a paragraph's first */
} markdown;

static size_t indent(const char *line, size_t n) {
  size_t i = 0;
  while (i < n && line[i] == ' ') i++;
  return i;
}

static size_t run_of(char c, const char *line, size_t n) {
  size_t i = 0;
  while (i < n && line[i] == c) i++;
  return i;
}

static size_t trimmed(const char *line, size_t n) {
  while (n && accel__is_space(line[n - 1])) n--;
  return n;
}

/* A line of code begins or ends; lines inside of it are text. */
static bool take_fence(markdown *m, const char *line, size_t n) {
  const size_t at = indent(line, n);
  if (at > 3 || at == n || (line[at] != '`' && line[at] != '~')) return m->fence != 0;
  const size_t marks = run_of(line[at], line + at, n - at), rest = at + marks;
  if (!m->fence) {
    if (marks < 3 || (line[at] == '`' && memchr(line + rest, '`', n - rest))) return false;
    m->fence = line[at];
    m->fence_n = marks;
  } else if (line[at] == m->fence && marks >= m->fence_n && trimmed(line + rest, n - rest) == 0) {
    m->fence = 0;
  }
  return true;
}

/* "# Heading #" */
static bool take_atx(const markdown *m, const char *line, size_t n) {
  const size_t at = indent(line, n), level = run_of('#', line + at, n - at);
  size_t start = at + level, end = trimmed(line, n);
  if (at > 3 || level < 1 || level > 6 || (start < n && !accel__is_space(line[start])))
    return false;
  while (start < end && accel__is_space(line[start])) start++;
  size_t hashes = end;
  while (hashes > start && line[hashes - 1] == '#') hashes--;
  if (hashes < end && (hashes == start || accel__is_space(line[hashes - 1])))
    end = start + trimmed(line + start, hashes - start);
  if (start >= end || end - start > ACCEL__HEADING_BYTES) return false;
  accel__document_line_add(m->d, line + start, end - start, m->number, m->number, (uint32_t)level);
  if (level == 1) accel__document_title(m->d, line + start, end - start);
  return true;
}

/* A line of "=" or "-" makes the line before it a heading, where that is a paragraph by itself. */
static bool take_setext(const markdown *m, const char *line, size_t n) {
  const size_t at = indent(line, n);
  n = trimmed(line, n);
  if (!m->alone || at > 3 || at >= n || (line[at] != '=' && line[at] != '-') ||
      run_of(line[at], line + at, n - at) != n - at)
    return false;
  accel__document_line *before = &m->d->line[m->d->n - 1];
  if (before->end - before->start > ACCEL__HEADING_BYTES) return false;
  before->heading = line[at] == '=' ? 1 : 2;
  before->last = m->number;
  if (before->heading == 1)
    accel__document_title(m->d, m->d->text.data + before->start, before->end - before->start);
  return true;
}

/* "---" in the first line begins front matter, of which the title is kept. */
static bool take_front_matter(markdown *m, const char *line, size_t n) {
  n = trimmed(line, n);
  if (m->number == 1 && n == 3 && !memcmp(line, "---", 3)) return m->front_matter = true;
  if (!m->front_matter) return false;
  if (n == 3 && (!memcmp(line, "---", 3) || !memcmp(line, "...", 3))) m->front_matter = false;
  if (n > 6 && !memcmp(line, "title:", 6)) {
    line += 6, n -= 6;
    while (n && (accel__is_space(*line) || *line == '"' || *line == '\'')) line++, n--;
    while (n && (line[n - 1] == '"' || line[n - 1] == '\'')) n--;
    accel__document_title(m->d, line, n);
  }
  return true;
}

static void take_line(markdown *m, const char *line, size_t n) {
  const bool was_alone = m->alone, was_blank = m->blank || m->number == 1;
  const bool empty = trimmed(line, n) == 0;
  if (take_front_matter(m, line, n)) return;
  if (take_fence(m, line, n)) {
    m->alone = m->blank = false;
    accel__document_line_add(m->d, line, n, m->number, m->number, 0);
    return;
  }
  m->alone = was_alone && m->d->n;
  const bool heading = take_atx(m, line, n) || take_setext(m, line, n);
  m->alone = !heading && !empty && was_blank;
  m->blank = heading || empty;
  if (!heading) accel__document_line_add(m->d, line, n, m->number, m->number, 0);
}

void accel__document_markdown(accel__document *d, const char *text, size_t n) {
  markdown m = {.d = d, .blank = true};
  for (const char *at = text, *end = text + n; at < end && !d->text.failed;) {
    const char *stop = memchr(at, '\n', (size_t)(end - at));
    if (!stop) stop = end;
    m.number++;
    take_line(&m, at, (size_t)(stop - at));
    at = stop + 1;
  }
}
