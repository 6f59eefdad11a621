/* kit_stream.h - weights that do not all stay in memory: which parts stay, and the others read
 * ahead in the order in which a run uses them.
 *
 * A backend cuts its packed weights into segments, each made of rows of one weight or two, or kept
 * packed in the cache.  Some are
 * resident: a fixed set, chosen once (kit_stream_choose).  The others pass through the slots of the
 * host's reader (accel_plugin_host.rows_open) in each run:
 *
 *   kit_stream_begin: the segments of this run, in order; reading ahead goes on from the last run
 *     kit_stream_take .. kit_stream_done    for each, in that order
 *   kit_stream_end
 *
 * Behind a run's last segment reading goes on with the first ones of the entry that followed last
 * time, so that the disk works while the caller chooses the next token.  Runs take turns: the calls
 * from begin to end are one run's, which has the endpoint's stream lock.
 */
#ifndef ACCEL_KIT_STREAM_H
#define ACCEL_KIT_STREAM_H

#include "kit/kit.h"

/* Rows [first, first + rows) of a weight's matrix. */
typedef struct kit_piece {
  uint32_t weight;
  int64_t first, rows;
} kit_piece;

enum { KIT_PIECES = 2 };

typedef struct kit_segment {
  kit_piece piece[KIT_PIECES];
  bool packed; /* the one piece is a segment of the cache: piece[0].first (store_post) */
  uint32_t n_piece;
  uint32_t uses;  /* by one run of the entry that is run most */
  uint64_t read;  /* bytes of the pieces in their files */
  uint64_t bytes; /* that it takes packed */
  bool resident;
} kit_segment;

/* The entry that is run again and again: "decode", else the first. */
uint32_t kit_stream_entry(const accel_plugin_program *program);
/* Makes segments resident as long as their bytes are within `budget`, those first whose reading is
 * saved most often, else spread evenly over the list, so that the disk always has something to do.
 * Answers the bytes that are resident. */
uint64_t kit_stream_choose(kit_segment *segment, uint32_t n, uint64_t budget);
/* Bytes that a run of kit_stream_entry reads. */
uint64_t kit_stream_read(const kit_segment *segment, uint32_t n);

/* Bytes of an element of rows that the host gives: of F32, F16 or BF16. */
static inline uint64_t kit_row_element(uint32_t dtype) { return dtype == ACCEL_PLUGIN_F32 ? 4 : 2; }
/* n elements of such rows as the numbers that `store`, one of the three, holds: wide, as fp32; else
 * as they are stored, which fp32 is not. */
void kit_rows_convert(uint32_t dtype, uint32_t store, bool wide, const char *from, size_t n,
                      char *out);

typedef struct kit_stream kit_stream;

/* Opens the host's reader with so many slots for pieces, and `others` behind them, which the backend
 * posts itself when a run tells what it needs; host: of init, until close.  The segments are kept by
 * reference. */
int32_t kit_stream_open(const accel_plugin_host *host, const accel_plugin_program *program,
                        const kit_segment *segment, uint32_t slots, uint32_t others,
                        uint64_t slot_bytes, kit_stream **out, accel_plugin_error *error);
void kit_stream_close(kit_stream *stream); /* NULL: nothing */

/* Begins a run of an entry whose launches take segments order[n]; those that are resident are left
 * out.  entry: program.n_entry for loading these. */
int32_t kit_stream_begin(kit_stream *stream, uint32_t entry, const uint32_t *order, uint32_t n,
                         accel_plugin_error *error);
/* Waits for the next segment, which must be this one; rows[i] are those of its piece i, until
 * kit_stream_done. */
int32_t kit_stream_take(kit_stream *stream, uint32_t segment, accel_plugin_rows rows[KIT_PIECES],
                        accel_plugin_error *error);
/* Would kit_stream_take of it, the next one, not wait?  Posts what there are slots for. */
bool kit_stream_ready(kit_stream *stream, uint32_t segment);
void kit_stream_done(kit_stream *stream, uint32_t segment);
/* ok false: what was read ahead is given up. */
void kit_stream_end(kit_stream *stream, bool ok);

#endif
