/* block_cache.h - large blocks for results: pixels, features, outputs.
 *
 * Fresh memory costs the kernel a fault and a clearing for every page, which took up to half of the
 * time from a picture to its tensor.  So blocks of 64 KiB and more that are freed here are kept, 32
 * MiB of them at most, for the next that fits: whoever runs one picture after the other works in
 * memory that is already there.  Any thread.
 */
#ifndef ACCEL_CORE_BLOCK_CACHE_H
#define ACCEL_CORE_BLOCK_CACHE_H

#include <stddef.h>

/* Not zeroed.  From 1 MiB on in huge pages where the system has them, which are faster to come by
 * than as many small ones. NULL when it is refused (accel__no_memory was called).  free() may free
 * it, too. */
void *accel__block_alloc(size_t bytes);
void *accel__block_calloc(size_t bytes);
void accel__block_free(void *block); /* NULL and what malloc gave as well */
void accel__block_cache_trim(void);  /* what is kept goes back to the system */

#endif
