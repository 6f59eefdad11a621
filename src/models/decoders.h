/* decoders.h - the decoders of LLaMA's and of GPT's kind by family: accel__<file>_read sets *c to the
 * defaults of its transformers config class, then takes what config.json says.  Each is in the file
 * of its name; models.def lists them. */
#ifndef ACCEL_MODELS_DECODERS_H
#define ACCEL_MODELS_DECODERS_H

#include "modeling/decoder.h"
#include "modeling/gpt.h"

#define ACCEL_MODEL(file, type)
#define ACCEL_DECODER(file, type) \
  accel_status accel__##file##_read(accel__build *b, accel__decoder *c);
#define ACCEL_GPT(file, type) accel_status accel__##file##_read(accel__build *b, accel__gpt *c);
#include "models/models.def"
#undef ACCEL_MODEL
#undef ACCEL_DECODER
#undef ACCEL_GPT

#endif
