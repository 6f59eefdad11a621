/* row_stream.h - rows of a source's weights read ahead into a bounded ring: what stands behind the
 * rows_ services of plugin.h.
 *
 * Rows that lie in a file in one piece go through a range reader, and so do segments of an entry of
 * the cache.  Others (across the seam of two joined tensors, random values) are read or computed
 * when they are waited for.  Slots belong to one caller at a time; count may be called beside it.
 */
#ifndef ACCEL_WEIGHTS_ROW_STREAM_H
#define ACCEL_WEIGHTS_ROW_STREAM_H

#include "weights/cache.h"
#include "weights/range_reader.h"
#include "weights/source.h"

typedef struct accel__row_stream accel__row_stream;

/* slot_bytes: the most that rows posted into one slot take as they are stored.  The source is kept
 * by reference. */
accel_status accel__row_stream_open(const accel__source *source, uint32_t slots,
                                    uint64_t slot_bytes, accel__row_stream **out);
void accel__row_stream_close(accel__row_stream **s); /* NULL-safe */
accel_status accel__row_stream_post(accel__row_stream *s, uint32_t slot, uint32_t index,
                                    int64_t first, int64_t rows);
/* Takes over a whole entry of the cache, once: its segments can be posted from now on.  The store
 * is closed with the stream, and also when this fails. */
accel_status accel__row_stream_store(accel__row_stream *s, accel__cache_store *store);
/* Begins to read segment `index` of the entry; `wait` gives its bytes, with NO_DTYPE. */
accel_status accel__row_stream_post_segment(accel__row_stream *s, uint32_t slot, uint32_t index);
/* Failures name file and range, or the weight. */
accel_status accel__row_stream_wait(accel__row_stream *s, uint32_t slot, accel_plugin_rows *out);
/* Would `wait` answer at once, or begin to compute? */
bool accel__row_stream_ready(accel__row_stream *s, uint32_t slot);
void accel__row_stream_release(accel__row_stream *s, uint32_t slot);
/* Of the reader; what was computed instead counts as segments and bytes. */
void accel__row_stream_count(accel__row_stream *s, accel__range_counters *out);

/* Experts that launches used: what a plugin tells beside what is read here. */
typedef struct accel__expert_counters {
  uint64_t hits, misses, bytes; /* in memory; read; bytes of these */
} accel__expert_counters;
void accel__row_stream_count_experts(accel__row_stream *s, uint32_t hits, uint32_t misses,
                                     uint64_t bytes);
void accel__row_stream_experts(accel__row_stream *s, accel__expert_counters *sum); /* adds */

/* What is posted from here on belongs to another run. */
void accel__row_stream_mark(accel__row_stream *s);
/* Reads once more what was posted between the last two marks, through a reader of its own that is
 * as large, and computes nothing.  *bytes and *ns: 0 where nothing was posted. */
accel_status accel__row_stream_read_again(accel__row_stream *s, uint64_t *bytes, uint64_t *ns);

#endif
