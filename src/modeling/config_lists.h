/* config_lists.h - fields of a config.json that are lists, sizes, or objects of their own. */
#ifndef ACCEL_MODELING_CONFIG_LISTS_H
#define ACCEL_MODELING_CONFIG_LISTS_H

#include "modeling/model_builder.h"

typedef struct accel__size2 {
  int64_t h, w;
} accel__size2;
/* A field that is one number or [height, width]; left as it is when absent. */
accel_status accel__read_size2(const accel__build *b, const char *key, int64_t min, int64_t max,
                               accel__size2 *io);
/* A field that is an array [n], refused when it has not n entries; *out NULL: it is absent. */
accel_status accel__read_list(const accel__build *b, const char *key, int64_t n,
                              const accel__json **out);
/* A field of integers [n]; left as they are when it is absent, refused when it has not n entries
 * within [min, max]. */
accel_status accel__read_ints(const accel__build *b, const char *key, int64_t n, int64_t min,
                              int64_t max, int64_t *io);
/* A field of 1 to `max` integers within [1, most]: how many into *n, which stay as they are, as io
 * does, when it is absent. */
accel_status accel__read_some_ints(const accel__build *b, const char *key, int64_t max,
                                   int64_t most, int64_t *n, int64_t *io);
enum { ACCEL__MAX_MAPS = 17 };
/* out_features or out_indices of a backbone, whose stages are called "<stage>1" .. after `stem`:
 * asked[*n] their numbers in order, 0 the stem; *n 0: the config names none. */
accel_status accel__read_stages(const accel__build *b, const char *stem, const char *stage,
                                int64_t stages, int64_t asked[ACCEL__MAX_MAPS], int64_t *n);
/* Reads further fields from the object `key` of the config, {} when it is absent (NULL: back to the
 * root). */
accel_status accel__enter_config(accel__build *b, const char *key);

#endif
