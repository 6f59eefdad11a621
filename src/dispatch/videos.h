/* videos.h - videos of a model whose text shows pictures of any size and videos alike (Qwen2-VL,
 * Qwen2.5-VL, Qwen3-VL): one more kind of picture.
 *
 * Python's processors write pixel_values_videos [patches, columns] and video_grid_thw [videos, 3]
 * beside pixel_values and image_grid_thw, and Qwen2.5-VL's second_per_grid_ts [videos].  The towers
 * look at frames one by one, so a video is a picture whose grid has more than one frame, and only
 * position ids and the token in the text tell the two apart.  Here the tensors become those of
 * pictures, in the order in which input_ids show them. */
#ifndef ACCEL_DISPATCH_VIDEOS_H
#define ACCEL_DISPATCH_VIDEOS_H

#include "dispatch/endpoint.h"

/* What joined tensors hold beside pixel_values and image_grid_thw: fp32 [pictures], what a frame of
 * each has more than the one before as its position id of time (below 0: 1).  Models
 * with a time_scale alone. */
#define ACCEL__TIME_STEPS "time_steps"

/* Is this ACCEL__TIME_STEPS of a model that has them? */
bool accel__is_time_steps(const accel__model *model, const char *name);
/* Is this an argument about videos that the model's forward takes? */
bool accel__takes_of_videos(const accel__model *model, const char *argument);
/* Do the inputs hold tensors of videos that the model takes? */
bool accel__shows_videos(const accel__model *model, const accel_tensors *inputs);
/* Tensors [n] of `inputs` with videos among the pictures; memory that they need beside the inputs' is
 * of `arena`.  mm_token_type_ids are checked and left out.  `one_token`: input_ids name pictures in
 * the videos' places, as the program's forward entry reads them.  ACCEL_ERROR_ARGUMENT: input_ids
 * show other pictures and videos than the grids have, or these do not fit the patches. */
accel_status accel__join_videos(const accel_endpoint *ep, const accel_tensors *inputs,
                                bool one_token, accel__arena *arena, accel_tensors *out);

#endif
