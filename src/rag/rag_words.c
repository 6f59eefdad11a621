/* rag_words.c - the words of a query as one of FTS5's, and the passages that have them. */
#include <stdlib.h>
#include <string.h>

#include "rag/rag_search.h"

/* Passages that are ranked: words that have more together are left out, the commonest first, which
 * tell passages apart least; and of a single word that has more, as many as that.  Ranking takes
 * about a microsecond for each. */
enum { BUDGET = 8192, MAX_WORDS = 32, WORD_BYTES = 64 };

typedef struct word {
  char quoted[WORD_BYTES + 3];
  int64_t passages; /* that have it, BUDGET + 1 at most */
} word;

static bool of_word(char c) {
  return (unsigned char)c >= 0x80 || (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') ||
         (c >= 'A' && c <= 'Z');
}

static uint32_t split(const char *query, word *words) {
  uint32_t n = 0;
  for (const char *c = query; *c && n < MAX_WORDS;) {
    size_t length = 0;
    while (of_word(c[length])) length++;
    if (length && length <= WORD_BYTES) {
      word *w = &words[n];
      w->quoted[0] = '"';
      memcpy(w->quoted + 1, c, length);
      memcpy(w->quoted + 1 + length, "\"", 2);
      bool again = false;
      for (uint32_t i = 0; i < n; i++)
        again = again || accel__equal_ignoring_case(words[i].quoted, w->quoted);
      n += !again;
    }
    c += length + !length;
  }
  return n;
}

static accel_status count(const accel__rag_store *s, word *words, uint32_t n) {
  sqlite3_stmt *query;
  accel_status status = accel__rag_prepare(
      s, "SELECT count(*) FROM (SELECT 1 FROM word WHERE word MATCH ? LIMIT ?)", &query);
  for (uint32_t i = 0; i < n && status == ACCEL_OK; i++) {
    bool row;
    sqlite3_bind_text(query, 1, words[i].quoted, -1, SQLITE_STATIC);
    sqlite3_bind_int(query, 2, BUDGET + 1);
    status = accel__rag_step(s, &query, &row);
    words[i].passages = status == ACCEL_OK && row ? sqlite3_column_int64(query, 0) : 0;
    sqlite3_reset(query);
  }
  sqlite3_finalize(query);
  return status;
}

static int rarest_first(const void *a, const void *b) {
  const word *x = a, *y = b;
  return x->passages != y->passages ? (x->passages < y->passages ? -1 : 1)
                                    : strcmp(x->quoted, y->quoted);
}

/* Words that a passage should have, joined by OR: the rarest, up to the budget, and at least one. */
static void join(word *words, uint32_t n, accel__buffer *out) {
  int64_t all = 0;
  qsort(words, n, sizeof *words, rarest_first);
  for (uint32_t i = 0; i < n; i++) {
    if (!words[i].passages) continue;
    all += words[i].passages;
    if (out->n && all > BUDGET) break;
    accel__buffer_printf(out, "%s%s", out->n ? " OR " : "", words[i].quoted);
  }
}

static accel_status take(const accel__rag_store *s, const char *match, const char *pattern,
                         uint32_t k, accel__rag_hit *hits, uint32_t *n) {
  sqlite3_stmt *query;
  ACCEL_TRY(accel__rag_prepare(
      s,
      pattern
          ? "SELECT id, -score, file FROM (SELECT word.rowid AS id, bm25(word) AS score, "
            "passage.file AS file FROM word JOIN passage ON passage.id = word.rowid JOIN file ON "
            "file.id = passage.file WHERE word MATCH ?1 AND accel_glob(?4, file.path) LIMIT ?3) "
            "ORDER BY score, id LIMIT ?2"
          : "SELECT best.id, -score, passage.file FROM (SELECT id, score FROM (SELECT rowid AS id, "
            "bm25(word) AS score FROM word WHERE word MATCH ?1 LIMIT ?3) ORDER BY score, id LIMIT "
            "?2) best JOIN passage ON passage.id = best.id ORDER BY score, best.id",
      &query));
  sqlite3_bind_text(query, 1, match, -1, SQLITE_STATIC);
  sqlite3_bind_int64(query, 2, k);
  sqlite3_bind_int(query, 3, BUDGET);
  if (pattern) sqlite3_bind_text(query, 4, pattern, -1, SQLITE_STATIC);
  for (bool row; *n < k; (*n)++) {
    ACCEL_TRY(accel__rag_step(s, &query, &row));
    if (!row) return ACCEL_OK;
    hits[*n] = (accel__rag_hit){.passage = sqlite3_column_int64(query, 0),
                                .file = sqlite3_column_int64(query, 2),
                                .score = sqlite3_column_double(query, 1)};
  }
  sqlite3_finalize(query);
  return ACCEL_OK;
}

accel_status accel__rag_find_words(const accel__rag_store *s, const char *query,
                                   const char *pattern, uint32_t k, accel__rag_hit *hits,
                                   uint32_t *n) {
  word words[MAX_WORDS];
  accel__buffer match = {0};
  const uint32_t n_words = split(query, words);
  *n = 0;
  ACCEL_TRY(count(s, words, n_words));
  join(words, n_words, &match);
  accel_status status = accel__buffer_status(&match);
  if (status == ACCEL_OK && match.n) status = take(s, match.data, pattern, k, hits, n);
  accel__buffer_free(&match);
  return status;
}
