/* rag_store.h - the SQLite file of an index: settings, documents, passages, their words (FTS5) and
 * vectors.  WAL mode: readers and writers of other processes do not stop each other, and what was
 * committed survives a process that is killed. */
#ifndef ACCEL_RAG_STORE_H
#define ACCEL_RAG_STORE_H

#include <sqlite3.h>

#include "core/arena.h"
#include "rag/rag_chunks.h"

typedef struct accel__rag_store {
  sqlite3 *db;
  char *path;
} accel__rag_store; /* {0} is closed */

/* What an index was made with. */
typedef struct accel__rag_settings {
  const char *embedder;
  uint64_t identity; /* of the embedder */
  uint32_t dim, chunk_tokens, overlap;
  const char *document_prompt, *query_prompt;
} accel__rag_settings;

/* The file must be there, unless `create`. */
accel_status accel__rag_store_open(const char *path, bool create, accel__rag_store *out);
void accel__rag_store_close(accel__rag_store *s);
/* The failure that `rc` of SQLite stands for, with file and remedy. */
accel_status accel__rag_store_fail(const accel__rag_store *s, int rc);

/* *found false: the file is empty.  Strings are in the arena. */
accel_status accel__rag_settings_read(const accel__rag_store *s, accel__arena *arena,
                                      accel__rag_settings *out, bool *found);
/* Makes the tables of an empty file; where another process was first, nothing. */
accel_status accel__rag_settings_write(const accel__rag_store *s,
                                       const accel__rag_settings *settings);

/* BEGIN (IMMEDIATE when it writes), and its end: COMMIT where `status` is ACCEL_OK, else ROLLBACK.
 * The answer of _end is `status`, or why COMMIT failed. */
accel_status accel__rag_begin(const accel__rag_store *s, bool writes);
accel_status accel__rag_end(const accel__rag_store *s, accel_status status);

/* A statement; every '?' is bound by the accel__rag_bind functions below.  Finalized by
 * accel__rag_done, which also answers for its last step. */
accel_status accel__rag_prepare(const accel__rag_store *s, const char *sql, sqlite3_stmt **out);
/* Whether there is a row; a failure ends the statement. */
accel_status accel__rag_step(const accel__rag_store *s, sqlite3_stmt **statement, bool *row);
/* A statement without rows: steps and resets it. */
accel_status accel__rag_execute(const accel__rag_store *s, sqlite3_stmt *statement);

/* What the index knows of a document. */
typedef struct accel__rag_file {
  int64_t id; /* 0: nothing */
  uint64_t bytes, modified, hash;
} accel__rag_file;
accel_status accel__rag_file_find(const accel__rag_store *s, const char *path,
                                  accel__rag_file *out);
/* Its time of change alone. */
accel_status accel__rag_file_touch(const accel__rag_store *s, int64_t id, uint64_t modified);
/* In one transaction: the document in the place of the one of that path, with its passages and their
 * vectors [chunks->n, dim]. */
accel_status accel__rag_file_replace(const accel__rag_store *s, const char *path,
                                     const accel__rag_file *file, const accel__document *document,
                                     const accel__chunks *chunks, const float *vectors,
                                     uint32_t dim);
/* Documents with this path, or below it when it is a directory; paths in the arena. */
accel_status accel__rag_files_below(const accel__rag_store *s, const char *path,
                                    accel__arena *arena, char ***paths, uint32_t *n);
/* In one transaction. */
accel_status accel__rag_file_remove(const accel__rag_store *s, const char *path);

/* A number by chance that every change of passages replaces. */
accel_status accel__rag_generation(const accel__rag_store *s, int64_t *out);
int64_t accel__rag_number(const accel__rag_store *s, const char *sql); /* -1 on failure */

#endif
