/* segmentation.h - image-segmentation: small maps of scores to a map of the picture's size, and
 * what covers it. */
#ifndef ACCEL_TASKS_SEGMENTATION_H
#define ACCEL_TASKS_SEGMENTATION_H

#include "tasks/pictures.h"

/* Maps of scores, read as torch.nn.functional.interpolate enlarges them (bilinear,
 * align_corners=False), in its single precision. */
typedef struct accel__score_maps {
  const float *score; /* [n, height, width] */
  const float *by;    /* [n] factors of what is read; NULL: 1 */
  int64_t n, height, width;
} accel__score_maps;
/* best[y * side[1] + x]: the map that is highest at that pixel of side[0] x side[1], the first of
 * equals.  over (NULL: not wanted) [n]: how many pixels of each map are at least `least`. */
accel_status accel__best_maps(const accel__picture_job *job, const accel__score_maps *maps,
                              const int32_t side[2], int32_t *best, float least, uint64_t *over);

/* What each picture of a call comes to. */
typedef struct accel__segmented {
  const accel_segment *segment; /* [count] in the job's arena */
  uint32_t count;
  int32_t *map; /* [side[0], side[1]]: room made by the caller */
} accel__segmented;

/* logits [1, classes, h, w]: the classes that are there, by their number. */
accel_status accel__segment_classes(const accel__picture_job *job, const accel__score_maps *classes,
                                    const int32_t side[2], accel__segmented *to);
/* logits [1, queries, classes + 1] and pred_masks [1, queries, h, w] (DETR), as
 * post_process_panoptic_segmentation, post_process_instance_segmentation and
 * post_process_semantic_segmentation of transformers' DetrImageProcessor read them.
 */
accel_status accel__segment_queries(const accel__picture_job *job, const accel_tensors *found,
                                    const int32_t side[2], const accel_segment_params *how,
                                    accel__segmented *to);

/* Behind the public functions of the same names (the public headers say what they do); arguments
 * are already checked. */
accel_status accel__segment(accel_endpoint *ep, const accel_media *images, uint32_t n,
                            const accel_segment_params *params, accel_segmentations **out);
accel_status accel__draw_objects(const accel_media *image, const accel_detection *objects,
                                 uint32_t n, const char *path);
accel_status accel__draw_segments(const accel_media *image, const accel_segmentations *found,
                                  uint32_t index, const char *path);

#endif
