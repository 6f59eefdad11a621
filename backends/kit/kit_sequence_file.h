/* kit_sequence_file.h - a sequence as bytes and back: a header, and per state a slot header,
 * positions, rows page by page (K, then V) and the vector. */
#ifndef ACCEL_KIT_SEQUENCE_FILE_H
#define ACCEL_KIT_SEQUENCE_FILE_H

#include "kit/kit_sequence.h"

/* *n: the bytes of `buffer`, then what is needed.  buffer NULL: only asks. */
int32_t kit_sequence_export(const accel_plugin_session *s, const kit_sequence *q, void *buffer,
                            uint64_t *n, accel_plugin_error *error);
/* Makes sequence `id` what the bytes say; on failure it is what it was.  E_ARGUMENT for bytes of
 * another model, build or precision, and for those that are not whole. */
int32_t kit_sequence_import(accel_plugin_session *s, int32_t id, const void *buffer, uint64_t n,
                            accel_plugin_error *error);

#endif
