/* hip_emulated_order.h - what of the emulator's streams is ordered, and what may run at the same
 * time. The emulator runs each command when it is told, so that a wait that is missing would never
 * show in its results; on a card it would, now and then.
 *
 * Every command has a place: its stream and the number in it. A command knows all places that are
 * through before it begins: those before it in its stream, those that its stream has waited for by
 * events, and all that a thread has waited for. Reported as an error: a kernel and a copy that
 * touch the same bytes, the copy writing them, of which neither is ordered behind the other; and
 * two copies of which one writes what the other reads or writes; and what the host writes (as far as
 * it is told) where a copy reads or writes for which no thread has waited.
 *
 * What a kernel writes is not known: two kernels, and a kernel beside a copy that reads, are not
 * looked at. Nor is an operand that is a whole allocation: kernels of the KV cache get these, and
 * touch some pages of them. */
#ifndef ACCEL_HIP_EMULATED_ORDER_H
#define ACCEL_HIP_EMULATED_ORDER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct emulated_sequence emulated_sequence; /* a stream's; from one thread at a time */
typedef struct emulated_place emulated_place;       /* an event's */

emulated_sequence *emulated_sequence_new(void); /* NULL: no memory */
void emulated_sequence_free(emulated_sequence *s);
emulated_place *emulated_place_new(void); /* NULL: no memory */
void emulated_place_free(emulated_place *p);

typedef enum emulated_touch {
  EMULATED_KERNEL,
  EMULATED_COPY_FROM,
  EMULATED_COPY_TO
} emulated_touch;
/* The next command of the stream, which is to be told before its touches. */
void emulated_sequence_next(emulated_sequence *s);
/* Memory that this command touches. 0, or -1 with why[n] filled. */
int emulated_sequence_touch(emulated_sequence *s, emulated_touch how, uint64_t address,
                            uint64_t bytes, const char *what, char *why, size_t n);
void emulated_sequence_record(emulated_sequence *s, emulated_place *p);
/* A place that was never recorded is behind nothing. */
void emulated_sequence_after(emulated_sequence *s, const emulated_place *p);
/* A thread has waited for all commands of the stream. */
void emulated_sequence_through(emulated_sequence *s);
/* A thread waits for the event; whether one has waited for that, or for more. */
void emulated_place_through(const emulated_place *p);
bool emulated_place_is_through(const emulated_place *p);
/* The host is about to write memory: 0, or -1 with why[n] filled where a copy may still read it for
 * which no thread has waited. */
int emulated_host_writes(uint64_t address, uint64_t bytes, char *why, size_t n);

#endif
