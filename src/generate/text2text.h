/* text2text.h - accel_text2text: summaries, translations and other texts from texts. Behind the
 * public functions of the same names (the public headers say what they do); arguments are already
 * checked. */
#ifndef ACCEL_GENERATE_TEXT2TEXT_H
#define ACCEL_GENERATE_TEXT2TEXT_H

#include "dispatch/endpoint.h"

accel_status accel__text2text(accel_endpoint *ep, const char *const *texts, uint32_t n,
                              const accel_text2text_params *params, accel_generations **out);

#endif
