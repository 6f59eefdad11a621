/* format_table.h - what formats.def says of an element type, and the formats of weights that follow
 * from a precision and a weight's use. */
#ifndef ACCEL_FORMATS_FORMAT_TABLE_H
#define ACCEL_FORMATS_FORMAT_TABLE_H

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include "accel/plugin.h"

typedef struct accel_format_facts {
  const char *name;      /* of the enumerator: "E4M3" */
  const char *file;      /* in safetensors; "": no file has it */
  const char *precision; /* that quantises weights to it; "": none */
  uint32_t bits;         /* of an element */
  bool weights;          /* the store of a weight: plain or codes */
  float largest;         /* what the largest code stands for; 0: codes are not made here */
  /* of a weight that is quantised to it; plain ones have no parts but the numbers */
  accel_plugin_format format;
} accel_format_facts;

/* For every number 0 .. ACCEL_PLUGIN_NO_DTYPE and above: bits 0 where there is no such type. */
static inline const accel_format_facts *accel_format_facts_of(uint32_t dtype) {
  static const accel_format_facts none = {.name = "", .file = "", .precision = ""};
  static const accel_format_facts table[] = {
#define ACCEL_PLAIN(name, bits, file, precision, gpu)                                          \
  [ACCEL_PLUGIN_##name] = {#name,                                                              \
                           file,                                                               \
                           precision,                                                          \
                           bits,                                                               \
                           true,                                                               \
                           0.0f,                                                               \
                           {ACCEL_PLUGIN_##name, ACCEL_PLUGIN_NO_DTYPE, ACCEL_PLUGIN_NO_DTYPE, \
                            ACCEL_PLUGIN_NO_DTYPE, 0, 0}},
#define ACCEL_CODED(name, bits, file, precision, scale, zero, outer, group, largest, codec, cpu, \
                    gpu)                                                                         \
  [ACCEL_PLUGIN_##name] = {#name,                                                                \
                           file,                                                                 \
                           precision,                                                            \
                           bits,                                                                 \
                           true,                                                                 \
                           largest,                                                              \
                           {ACCEL_PLUGIN_##name, ACCEL_PLUGIN_##scale, ACCEL_PLUGIN_##zero,      \
                            ACCEL_PLUGIN_##outer, group, 1}},
#define ACCEL_OTHER(name, bits, file) \
  [ACCEL_PLUGIN_##name] = {#name, file, "", bits, false, 0.0f, {0, 0, 0, 0, 0, 0}},
#include "formats/formats.def"
  };
  return dtype < sizeof table / sizeof *table && table[dtype].bits ? &table[dtype] : &none;
}

/* Elements of arrays indexed by dtype. */
enum { ACCEL_FORMAT_NUMBERS = 256 };

/* The store of a precision by its name; NO_DTYPE: there is no such precision. */
static inline uint8_t accel_precision_store(const char *name) {
  for (uint32_t i = 0; i < ACCEL_FORMAT_NUMBERS; i++)
    if (*name && !strcmp(accel_format_facts_of(i)->precision, name)) return (uint8_t)i;
  return ACCEL_PLUGIN_NO_DTYPE;
}

/* One scale a row: of an output channel, or of an embedding. */
static inline accel_plugin_format accel_format_by_row(uint8_t store) {
  accel_plugin_format format = accel_format_facts_of(store)->format;
  format.group_k = 0;
  return format;
}

/* A weight of this accel_plugin_use under the precision of `store`: linears and experts are in
 * its format.  With codes of four bits heads, embeddings and convolutions are int8 by row; with
 * others, heads and embeddings have a scale a row, and convolutions of floats are fp16.  Plain
 * weights are always fp32. */
static inline accel_plugin_format accel_format_for_use(uint8_t store, uint32_t use) {
  const accel_format_facts *facts = accel_format_facts_of(store);
  const bool table = use == ACCEL_PLUGIN_USE_HEAD || use == ACCEL_PLUGIN_USE_EMBEDDING,
             linear = use == ACCEL_PLUGIN_USE_LINEAR || use == ACCEL_PLUGIN_USE_MOE;
  if (!table && !linear && use != ACCEL_PLUGIN_USE_CONV)
    return accel_format_facts_of(ACCEL_PLUGIN_F32)->format;
  if (linear || facts->format.scale == ACCEL_PLUGIN_NO_DTYPE) return facts->format;
  if (facts->bits < 8) return accel_format_by_row(ACCEL_PLUGIN_I8);
  if (table || store == ACCEL_PLUGIN_I8) return accel_format_by_row(store);
  return accel_format_facts_of(ACCEL_PLUGIN_F16)->format;
}

/* A format of this store that also fits short rows, for tests of what reads it: by row, four bits
 * in their groups; formats with an outer factor under E8M0 scales, which checkpoints have as
 * well. */
static inline accel_plugin_format accel_format_for_test(uint8_t store) {
  const accel_format_facts *facts = accel_format_facts_of(store);
  if (facts->format.outer != ACCEL_PLUGIN_NO_DTYPE)
    return (accel_plugin_format){
        store, ACCEL_PLUGIN_E8M0, ACCEL_PLUGIN_NO_DTYPE, ACCEL_PLUGIN_NO_DTYPE, 32, 1};
  return facts->bits == 8 ? accel_format_by_row(store) : facts->format;
}

#endif
