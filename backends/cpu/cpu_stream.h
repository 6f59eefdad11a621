/* cpu_stream.h - linears whose weights do not all stay in memory.
 *
 * The panels of a linear are cut into segments of a few MB.  Some segments stay, packed; the others
 * are read in each run, packed into one buffer, multiplied, and forgotten: a vocabulary of a
 * gigabyte passes through memory of a few megabytes.  Weights in plain formats are streamed as
 * rows, where the host reads these and they are not transposed; those in coded formats as they were
 * packed once, from the cache (cpu_store.h), where they are multiplied as they come.  Experts are read
 * when they are routed (cpu_moe_stream.h).  Convolutions stay.
 */
#ifndef ACCEL_CPU_STREAM_H
#define ACCEL_CPU_STREAM_H

#include "cpu.h"
#include "kit/kit_stream.h"

/* Panels of a linear while they are in memory. */
typedef struct cpu_part {
  const char *panels;
  int64_t first, n; /* panels */
} cpu_part;

/* After the linears are planned: cuts them, decides what stays within options.stream_budget, and
 * opens the host's reader; s->stream.  E_HOST_MEMORY: the budget is too small. */
int32_t cpu_stream_open(cpu_self *s, const accel_plugin_options *o, accel_plugin_error *error);
/* Reads and packs what stays. */
int32_t cpu_stream_load(cpu_self *s, const accel_plugin_options *o, accel_plugin_error *error);
void cpu_stream_close(cpu_self *s);
/* An empty s->stream; to be closed after a failure, too. */
int32_t cpu_stream_new(cpu_self *s, const accel_plugin_options *o, accel_plugin_error *error);
/* The stream_ fields of an estimate; s has planned linears and no weights. */
int32_t cpu_stream_answer(cpu_self *s, const accel_plugin_options *o, accel_plugin_estimate *out,
                          accel_plugin_error *error);
/* Can its panels be packed from the rows that they are made of alone? */
bool cpu_linear_by_rows(const cpu_linear *l, const uint8_t *row_dtype);
/* Those of panels [first, first + n); how many pieces. */
uint32_t cpu_linear_pieces(const cpu_kernels *kernels, const cpu_linear *l, int64_t first,
                           int64_t n, kit_piece piece[KIT_PIECES]);
/* Bytes of its weights as a stream reads them. */
uint64_t cpu_linear_stored(const cpu_linear *l, const uint8_t *row_dtype);
/* Packs a segment of a linear whose rows have come to part->panels; rows[i]: of piece i. */
int32_t cpu_stream_pack(const cpu_self *s, const cpu_linear *l, const kit_segment *segment,
                        const cpu_part *part, const accel_plugin_rows *rows,
                        const accel_plugin_host *host, accel_plugin_error *error);
kit_stream *cpu_stream_of(const cpu_self *s);
/* kit_backend.stream_segments */
void cpu_stream_segments(void *self, uint32_t node, uint32_t *first, uint32_t *n);

/* Segment `index` of a linear of the launch: valid until cpu_stream_done of it, then the next can
 * be taken. */
int32_t cpu_stream_take(const cpu_self *s, const cpu_linear *l, uint32_t index,
                        const kit_launch *launch, cpu_part *out, accel_plugin_error *error);
void cpu_stream_done(const cpu_self *s, const cpu_linear *l, uint32_t index);

#endif
