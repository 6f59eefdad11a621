/* deformable.h - multi-scale deformable attention ("Deformable DETR"), made of gathers and a
 * product: each head of a query reads some points of several maps, between their pixels. */
#ifndef ACCEL_MODELS_DEFORMABLE_H
#define ACCEL_MODELS_DEFORMABLE_H

#include "modeling/vision.h"

typedef struct accel__map_sizes {
  accel__dim h[ACCEL__MAX_MAPS], w[ACCEL__MAX_MAPS]; /* of each map */
  int64_t n;
} accel__map_sizes;

typedef struct accel__deformable {
  int64_t hidden, heads, points; /* points that a head reads of each map */
  accel__dim queries, rows;      /* of an item: queries; pixels of all maps together */
  double reach;                  /* offsets are in `reach` times the box's sides / points */
  const accel__map_sizes *maps;
  /* By accel__deformable_begin, for all layers: sizes of the maps, F32 [1,1,maps,1].  Rows of values
   * between neighbours of a line and of a column, and the first row of each query's item, head and
   * map, int32. */
  accel__tensor high, wide, rows_apart, lines_apart, first;
} accel__deformable;

void accel__deformable_begin(accel__build *b, accel__deformable *c);

/* output_proj of what x [B*queries, hidden] reads of `memory` [B*rows, hidden], maps one after the
 * other, around its boxes [B*queries, 4] (centre and sides, 0 to 1); outside the maps there are
 * zeros.  Weights <path>.sampling_offsets, .attention_weights, .value_proj, .output_proj. */
accel__tensor accel__deformable_attend(accel__build *b, const accel__deformable *c, accel__tensor x,
                                       accel__tensor memory, accel__tensor boxes, const char *path);
/* Number of the first row of each item of `per_item` rows: int32 [B]. */
accel__tensor accel__first_numbers(accel__build *b, accel__dim per_item);

#endif
