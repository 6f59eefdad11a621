/* patch_grid.h - pictures of any size as grids of patches: what Qwen2-VL, Qwen2.5-VL and Qwen3-VL
 * have alike.  pixel_values [patches, C*temporal*patch*patch] are the patches of all pictures,
 * neighbours that merge behind one another; image_grid_thw [pictures, 3] says how many each picture
 * has in time, height and width.  Videos are pictures of several frames (dispatch/videos.h). */
#ifndef ACCEL_MODELS_PATCH_GRID_H
#define ACCEL_MODELS_PATCH_GRID_H

#include "modeling/vision.h"

/* The `user` of the rules below. */
typedef struct accel__patch_grid {
  int64_t merge; /* merge x merge patches become one row of the text */
  int64_t image_token, video_token;
  double time_scale; /* of accel__image_tokens, like the next */
  bool shows_frames;
} accel__patch_grid;

/* Frames and patches of image_grid_thw values[n], which pixel_values dim[rank] must have. */
accel_status accel__patch_grid_count(const accel__patch_grid *g, const int64_t *values, uint64_t n,
                                     const int64_t *dim, uint32_t rank, int64_t *frames,
                                     int64_t *patches);
/* y[patches], x[patches]: row and column of each patch in its frame, in the order of
 * pixel_values. */
void accel__patch_grid_places(const accel__patch_grid *g, const int64_t *values, uint64_t n,
                              int32_t *y, int32_t *x);

/* Rules of accel__derived from image_grid_thw: [frames] patches that look at each other; and
 * [3, patches] row and column of each patch, and zeros. */
accel_status accel__patch_grid_frames(const void *user, const int64_t *values, uint64_t n,
                                      const int64_t *dim, uint32_t rank, accel__arena *arena,
                                      int32_t **out, int64_t *n_out);
accel_status accel__patch_grid_positions(const void *user, const int64_t *values, uint64_t n,
                                         const int64_t *dim, uint32_t rank, accel__arena *arena,
                                         int32_t **out, int64_t *n_out);
/* What the text shows: rows of a picture, and position ids in time, height and width. */
accel__image_tokens accel__patch_grid_tokens(const accel__patch_grid *g);

/* The rotations of a tower: half of a head's frequencies turn with the height of the patch, the
 * same ones again with its width.  theta from `rope_parameters` of b->config, whose type must be
 * axial (or default); a head_dim that is no multiple of 4 is refused. */
accel_status accel__patch_grid_rope(accel__build *b, int64_t head_dim, accel__rope *out);
/* A part's model_type is the whole's, in older files, or <family>_<part>. */
accel_status accel__patch_grid_type(const accel__build *b, const char *field, const char *type,
                                    const char *family, const char *part);

/* The inputs of a tower: pixel_values [patches, columns], whose number of patches is merge * merge
 * * *merged; b->position_ids; and the row space of frames. */
accel__tensor accel__patch_grid_inputs(accel__build *b, const accel__patch_grid *g, int64_t columns,
                                       const accel__derived *lengths,
                                       const accel__derived *positions, accel__dim *merged,
                                       int32_t *space);

#endif
