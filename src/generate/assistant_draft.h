/* assistant_draft.h - guesses of a small model with the vocabulary of the large one.
 *
 * It reads what the request has, and chooses on as the request would: the same processors, grammar
 * and random numbers, over its own scores.  Its session is of the request alone. */
#ifndef ACCEL_GENERATE_ASSISTANT_DRAFT_H
#define ACCEL_GENERATE_ASSISTANT_DRAFT_H

#include "generate/engine.h"

/* Whether `assistant` can guess for `ep`: ACCEL_ERROR_UNSUPPORTED, by name. */
accel_status accel__assistant_check(const accel_endpoint *ep, const accel_endpoint *assistant);
/* Up to `most` guesses behind ids[n) of `h`, whose memory has room for them; h->drafted says how
 * many. */
accel_status accel__assistant_guess(accel__engine *e, accel__request *r, accel__hypothesis *h,
                                    uint32_t most);
/* Milliseconds of a guess; 0: not known. */
double accel__assistant_ms(const struct accel__assistant_draft *d);
void accel__assistant_free(struct accel__assistant_draft **d); /* NULL-safe */

#endif
