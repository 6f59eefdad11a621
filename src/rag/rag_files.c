/* rag_files.c - documents of an index: found, replaced, removed. */
#include <stdlib.h>
#include <string.h>

#include "rag/rag_store.h"

static void bind_text(sqlite3_stmt *statement, int i, const char *text) {
  sqlite3_bind_text(statement, i, text, -1, SQLITE_STATIC);
}

accel_status accel__rag_file_find(const accel__rag_store *s, const char *path,
                                  accel__rag_file *out) {
  sqlite3_stmt *query;
  bool row;
  *out = (accel__rag_file){0};
  ACCEL_TRY(
      accel__rag_prepare(s, "SELECT id, bytes, modified, hash FROM file WHERE path = ?", &query));
  bind_text(query, 1, path);
  ACCEL_TRY(accel__rag_step(s, &query, &row));
  if (row)
    *out = (accel__rag_file){.id = sqlite3_column_int64(query, 0),
                             .bytes = (uint64_t)sqlite3_column_int64(query, 1),
                             .modified = (uint64_t)sqlite3_column_int64(query, 2),
                             .hash = (uint64_t)sqlite3_column_int64(query, 3)};
  sqlite3_finalize(query);
  return ACCEL_OK;
}

accel_status accel__rag_file_touch(const accel__rag_store *s, int64_t id, uint64_t modified) {
  sqlite3_stmt *update;
  ACCEL_TRY(accel__rag_begin(s, true));
  accel_status status = accel__rag_prepare(s, "UPDATE file SET modified = ? WHERE id = ?", &update);
  if (status == ACCEL_OK) {
    sqlite3_bind_int64(update, 1, (int64_t)modified);
    sqlite3_bind_int64(update, 2, id);
    status = accel__rag_execute(s, update);
  }
  sqlite3_finalize(update);
  return accel__rag_end(s, status);
}

/* Inside of a transaction; what an index has of the document goes with it. */
static accel_status delete_file(const accel__rag_store *s, const char *path) {
  sqlite3_stmt *statement;
  ACCEL_TRY(accel__rag_prepare(s, "DELETE FROM file WHERE path = ?", &statement));
  bind_text(statement, 1, path);
  accel_status status = accel__rag_execute(s, statement);
  sqlite3_finalize(statement);
  if (status == ACCEL_OK)
    status = accel__rag_prepare(s, "UPDATE setting SET value = random() WHERE name = 'generation'",
                                &statement);
  if (status != ACCEL_OK) return status;
  status = accel__rag_execute(s, statement);
  sqlite3_finalize(statement);
  return status;
}

accel_status accel__rag_file_remove(const accel__rag_store *s, const char *path) {
  ACCEL_TRY(accel__rag_begin(s, true));
  return accel__rag_end(s, delete_file(s, path));
}

/* ---- replacing ---- */

static accel_status insert_file(const accel__rag_store *s, const char *path,
                                const accel__rag_file *file, const char *title) {
  sqlite3_stmt *insert;
  ACCEL_TRY(accel__rag_prepare(
      s, "INSERT INTO file (path, title, bytes, modified, hash) VALUES (?, ?, ?, ?, ?)", &insert));
  bind_text(insert, 1, path);
  bind_text(insert, 2, title ? title : "");
  sqlite3_bind_int64(insert, 3, (int64_t)file->bytes);
  sqlite3_bind_int64(insert, 4, (int64_t)file->modified);
  sqlite3_bind_int64(insert, 5, (int64_t)file->hash);
  const accel_status status = accel__rag_execute(s, insert);
  sqlite3_finalize(insert);
  return status;
}

static accel_status insert_passage(const accel__rag_store *s, sqlite3_stmt *passage,
                                   sqlite3_stmt *vector, const char *text,
                                   const accel__chunk *chunk, const float *data, uint32_t dim) {
  sqlite3_bind_int64(passage, 2, chunk->first_line);
  sqlite3_bind_int64(passage, 3, chunk->last_line);
  bind_text(passage, 4, chunk->heading);
  sqlite3_bind_text(passage, 5, text + chunk->start, (int)(chunk->end - chunk->start),
                    SQLITE_STATIC);
  ACCEL_TRY(accel__rag_execute(s, passage));
  sqlite3_bind_int64(vector, 1, sqlite3_last_insert_rowid(s->db));
  sqlite3_bind_blob64(vector, 3, data, (sqlite3_uint64)dim * sizeof *data, SQLITE_STATIC);
  return accel__rag_execute(s, vector);
}

static accel_status insert_passages(const accel__rag_store *s, int64_t file,
                                    const accel__document *document, const accel__chunks *chunks,
                                    const float *vectors, uint32_t dim) {
  sqlite3_stmt *passage = NULL, *vector = NULL;
  accel_status status = ACCEL_OK;
  ACCEL_GOTO(accel__rag_prepare(s,
                                "INSERT INTO passage (file, first_line, last_line, heading, text) "
                                "VALUES (?, ?, ?, ?, ?)",
                                &passage));
  ACCEL_GOTO(
      accel__rag_prepare(s, "INSERT INTO vector (passage, file, data) VALUES (?, ?, ?)", &vector));
  sqlite3_bind_int64(passage, 1, file);
  sqlite3_bind_int64(vector, 2, file);
  for (uint32_t i = 0; i < chunks->n; i++)
    ACCEL_GOTO(insert_passage(s, passage, vector, document->text.data, &chunks->item[i],
                              vectors + (size_t)i * dim, dim));
done:
  sqlite3_finalize(passage);
  sqlite3_finalize(vector);
  return status;
}

accel_status accel__rag_file_replace(const accel__rag_store *s, const char *path,
                                     const accel__rag_file *file, const accel__document *document,
                                     const accel__chunks *chunks, const float *vectors,
                                     uint32_t dim) {
  ACCEL_TRY(accel__rag_begin(s, true));
  accel_status status = delete_file(s, path);
  if (status == ACCEL_OK) status = insert_file(s, path, file, document->title);
  if (status == ACCEL_OK)
    status = insert_passages(s, sqlite3_last_insert_rowid(s->db), document, chunks, vectors, dim);
  return accel__rag_end(s, status);
}

/* ---- listing ---- */

static accel_status take_path(sqlite3_stmt *row, accel__arena *arena, char ***paths, uint32_t *n,
                              uint32_t *capacity) {
  const char *path = (const char *)sqlite3_column_text(row, 0);
  if (*n == *capacity) {
    const uint32_t more = *capacity ? 2 * *capacity : 64;
    char **list = accel__arena_array(arena, more, sizeof *list);
    if (!list) return ACCEL_ERROR_OUT_OF_MEMORY;
    if (*n) memcpy(list, *paths, *n * sizeof *list);
    *paths = list;
    *capacity = more;
  }
  (*paths)[*n] = accel__arena_string(arena, path ? path : "");
  return (*paths)[(*n)++] ? ACCEL_OK : ACCEL_ERROR_OUT_OF_MEMORY;
}

accel_status accel__rag_files_below(const accel__rag_store *s, const char *path,
                                    accel__arena *arena, char ***paths, uint32_t *n) {
  sqlite3_stmt *query;
  uint32_t capacity = 0;
  const size_t length = strlen(path);
  const char *folder =
      accel__arena_printf(arena, "%s%s", path, length && path[length - 1] == '/' ? "" : "/");
  *paths = NULL;
  *n = 0;
  if (!folder) return ACCEL_ERROR_OUT_OF_MEMORY;
  ACCEL_TRY(accel__rag_prepare(s,
                               "SELECT path FROM file WHERE ?1 = '' OR path = ?1 OR "
                               "substr(path, 1, length(?2)) = ?2 ORDER BY path",
                               &query));
  bind_text(query, 1, path);
  bind_text(query, 2, folder);
  for (bool row;;) {
    ACCEL_TRY(accel__rag_step(s, &query, &row));
    if (!row) return ACCEL_OK;
    const accel_status status = take_path(query, arena, paths, n, &capacity);
    if (status != ACCEL_OK) sqlite3_finalize(query);
    ACCEL_TRY(status);
  }
}
