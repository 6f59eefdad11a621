/* bench_streaming.h - what a benchmark of a model larger than its memory measures beside its
 * generations. */
#ifndef ACCEL_BENCH_STREAMING_H
#define ACCEL_BENCH_STREAMING_H

#include "bench/bench.h"

/* Before the timed generations of an endpoint that has generated: notes the peak of memory, which
 * the reads of bench_stream_raw would raise.  ACCEL_ERROR_ARGUMENT: it does not stream. */
accel_status bench_stream_begin(accel_endpoint *endpoint, bench_result *result);
/* Reads what a token reads, alone. */
accel_status bench_stream_raw(accel_endpoint *endpoint, double *ms, bench_result *result);
/* Behind them: sums up the waiting of this endpoint. */
accel_status bench_stream_end(accel_endpoint *endpoint, bench_result *result);
/* Fills result->stream from all rounds; false: no memory. */
bool bench_stream_summarise(bench_result *result);

#endif
