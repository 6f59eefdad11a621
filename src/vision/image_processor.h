/* image_processor.h - preprocessor_config.json of vision models, and the tensors that it makes of
 * pictures.
 *
 *   accel__image_processor p;
 *   ACCEL_TRY(accel__image_processor_load(directory, &p));
 *   accel__pixels px;
 *   ACCEL_TRY(accel__pixels_of(&p, images, n, pool, &px));
 *   accel__pixels_free(&px);
 *
 * Follows the image processors of transformers 5 with their torchvision backend.  Old spellings
 * (ViTFeatureExtractor, ViTImageProcessorFast, sizes as numbers or pairs, max_size) mean what they
 * mean there.  A processor is a plain value without pointers: threads may share or copy it.
 */
#ifndef ACCEL_VISION_IMAGE_PROCESSOR_H
#define ACCEL_VISION_IMAGE_PROCESSOR_H

#include "vision/image.h"

/* A size as the files have it; sides of 0 are not given. */
typedef struct accel__size {
  int32_t height, width;
  int32_t shortest_edge, longest_edge;
  int32_t max_height, max_width;
} accel__size;

typedef enum accel__layout {
  /* pixel_values [n, 3, H, W]: all pictures end in one size, or, with do_pad, are padded as
   * below */
  ACCEL__LAYOUT_PLAIN,
  /* DETR, YOLOS: padded at the right and below to the largest; pixel_mask [n, H, W] when do_pad */
  ACCEL__LAYOUT_PADDED,
  /* VideoMAE, X-CLIP: the pictures are one video, pixel_values [1, n, 3, H, W] */
  ACCEL__LAYOUT_FRAMES,
  ACCEL__LAYOUT_TILES, /* LLaVA-Next: pixel_values [n, tiles, 3, H, W] and image_sizes [n, 2] */
  /* Qwen2-VL: pixel_values [patches of all pictures, 3 * temporal_patch * patch * patch] and
   * image_grid_thw [n, 3]; patches that merge stand together */
  ACCEL__LAYOUT_PATCHES,
  /* Gemma 3: pixel_values [parts, 3, H, W], with pan and scan each picture and crops of it */
  ACCEL__LAYOUT_CROPS,
  /* GotOcr2, of InternVL: pixel_values [parts, 3, H, W], the tiles of each picture and itself */
  ACCEL__LAYOUT_GRID,
  /* Idefics3, SmolVLM: pixel_values [1, parts, 3, side, side], the frames of each picture and
   * itself; with do_pad pixel_attention_mask [1, parts, side, side] */
  ACCEL__LAYOUT_SPLIT
} accel__layout;

enum { ACCEL__MAX_PINPOINTS = 256 };

typedef struct accel__image_processor {
  accel__layout layout;
  bool do_resize, do_center_crop, do_rescale, do_normalize, do_pad;
  bool do_convert_rgb; /* the colour that a file names as transparent becomes white */
  /* size.shortest_edge below 384: resized to 1 / crop_pct of it, then cropped; else warped */
  bool convnext;
  bool multiples;    /* YOLOS: sides are rounded down to multiples of 16 */
  bool scales_first; /* DINOv3: rescaled to floats before they are resized */
  /* DPT: sides are rounded to multiples of it (ensure_multiple_of); 0: another class */
  int64_t multiple_of;
  bool keeps_ratio; /* DPT: the side that changes least gives both (keep_aspect_ratio) */
  /* DPT: with do_pad sides grow to multiples of it (size_divisor), the picture in the middle; 0:
   * another class, or not given */
  int64_t divisor;
  /* Donut: resized to the shorter side of `size`, then, with thumbnails, into it, and with do_pad
   * put into the middle of a black picture of that size (do_thumbnail).  turns: laid on its other
   * side first where `size` is the other way round (do_align_long_axis) */
  bool donut, thumbnails, turns;
  bool reads_words; /* LayoutLMv3: apply_ocr, for which there is no engine here */
  /* LLaVA: padded to a square in the mean colour first, when do_pad */
  bool pad_square;
  /* SegFormer, ConvNeXt: classes without these steps, whatever the file says */
  bool never_crops, never_pads;
  accel__size size, crop_size, pad_size;
  /* Qwen2-VL: how many a resized picture has (size.shortest_edge, longest_edge) */
  int64_t min_pixels, max_pixels;
  /* Qwen2-VL: sides become multiples of patch_size * merge_size */
  int64_t patch_size, temporal_patch, merge_size;
  accel__filter filter;
  accel__rounding rounding; /* ACCEL__ROUND_TORCH unless the caller changes it */
  double rescale_factor, mean[3], std[3], crop_pct;
  /* do_pan_and_scan, crop_to_patches, do_image_splitting: of CROPS, GRID, SPLIT */
  bool splits;
  int64_t min_crop_size,
      max_crops;    /* CROPS: pan_and_scan_min_crop_size, pan_and_scan_max_num_crops */
  double min_ratio; /* CROPS: pan_and_scan_min_ratio_to_activate */
  int32_t min_patches, max_patches;                       /* GRID */
  int32_t frame;                                          /* SPLIT: max_image_size.longest_edge */
  int32_t n_pinpoints, pinpoint[ACCEL__MAX_PINPOINTS][2]; /* LLaVA-Next: height, width */
} accel__image_processor;

/* Reads preprocessor_config.json (or "image_processor" of processor_config.json) in `directory`.
 * ACCEL_ERROR_FORMAT names file and field; an image_processor_type that is not known is
 * ACCEL_ERROR_UNSUPPORTED by name. */
accel_status accel__image_processor_load(const char *directory, accel__image_processor *out);

/* In how many parts a picture is handed on, and rows and columns of those that are cut out of it; 0:
 * it is whole. */
typedef struct accel__picture_parts {
  uint32_t n;
  int32_t rows, cols;
} accel__picture_parts;

/* The tensors of one call; all arrays are row-major and owned. */
typedef struct accel__pixels {
  float *values;  /* pixel_values, row-major */
  int64_t dim[5]; /* [rank], as the layout says */
  uint32_t rank;
  int64_t *mask; /* pixel_mask [n, H, W], NULL: none */
  /* LLaVA-Next: image_sizes [n, 2]: height, width of the pictures as given; NULL: none */
  int64_t *sizes;
  int64_t *grid; /* Qwen2-VL: image_grid_thw [n, 3]: patches in time, height, width; NULL: none */
  accel__picture_parts *parts; /* [images] of CROPS, GRID and SPLIT; NULL: one each */
  uint32_t images;
} accel__pixels;
/* The tensors of n pictures, which are left as they are.  The pool's threads share the resizing
 * (NULL: this thread).  ACCEL_ERROR_ARGUMENT: no picture, pictures that must end in one size and do
 * not, or one whose shape the model cannot take; the message has its number and what to do.  *out
 * is to be freed; on failure it is {0}. */
accel_status accel__pixels_of(const accel__image_processor *p, const accel__image *images,
                              uint32_t n, accel__pool *pool, accel__pixels *out);
/* Leaves {0}. */
void accel__pixels_free(accel__pixels *pixels);

/* Sides after resizing a picture of height x width: what the class computes from its size. */
accel_status accel__size_after(const accel__image_processor *p, const accel__size *size,
                               int32_t height, int32_t width, int32_t *to_height,
                               int32_t *to_width);

#endif
