/* rag_guard.h - what keeps an index that a stranger made from doing harm. */
#ifndef ACCEL_RAG_GUARD_H
#define ACCEL_RAG_GUARD_H

#include "rag/rag_store.h"

/* Sets a connection so that nothing in a file's schema is trusted (docs/rag.md); a result code of
 * SQLite. */
int accel__rag_guard(sqlite3 *db);
/* Has the file the tables, indexes, triggers and views that `schema` makes, and no others?
 * ACCEL_ERROR_FORMAT names the first that is other. */
accel_status accel__rag_check_schema(const accel__rag_store *s, const char *schema);

#endif
