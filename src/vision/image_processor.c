/* image_processor.c - preprocessor_config.json of vision models: which class, and its numbers. */
#include "vision/image_processor.h"

#include <string.h>

#include "core/json.h"
#include "vision/picture_parts.h"

#define CLIP \
  .mean = {0.48145466, 0.4578275, 0.40821073}, .std = {0.26862954, 0.26130258, 0.27577711}
#define IMAGENET .mean = {0.485, 0.456, 0.406}, .std = {0.229, 0.224, 0.225}
#define HALVES   .mean = {0.5, 0.5, 0.5}, .std = {0.5, 0.5, 0.5}
#define EDGE(n) \
  { .shortest_edge = n }
#define SIDES(n) \
  { .height = n, .width = n }
/* The last argument is a size; its comma would make two of it. */
#define RESIZED(how, ...)                                                             \
  .do_resize = true, .size = __VA_ARGS__, .filter = ACCEL__##how, .do_rescale = true, \
  .do_normalize = true, .rescale_factor = 1.0 / 255.0, .rounding = ACCEL__ROUND_TORCH
#define CROPPED(how, ...) RESIZED(how, __VA_ARGS__), .do_center_crop = true, .crop_size = SIDES(224)
#define LONG_EDGE \
  { .shortest_edge = 800, .longest_edge = 1333 }
#define PADDED .layout = ACCEL__LAYOUT_PADDED, .do_pad = true
#define PATCHED                                                                         \
  .layout = ACCEL__LAYOUT_PATCHES, .min_pixels = 56 * 56, .max_pixels = 28 * 28 * 1280, \
  .patch_size = 14, .merge_size = 2, .temporal_patch = 2
#define WHITE .do_convert_rgb = true
#define SPLIT .layout = ACCEL__LAYOUT_SPLIT, .do_pad = true, .splits = true, .frame = 364
#define PINPOINTS \
  .n_pinpoints = 5, .pinpoint = {{336, 672}, {672, 336}, {672, 672}, {1008, 336}, {336, 1008}}

/* The classes with what they take for a field that is absent.  `square`: a size that is one number
 * gives both sides. */
static const struct known {
  const char *name; /* without ImageProcessor, ImageProcessorFast, FeatureExtractor */
  bool square;
  accel__image_processor defaults;
} classes[] = {
    {"ViT", true, {RESIZED(BILINEAR, SIDES(224)), HALVES}},
    {"DeiT", true, {CROPPED(BICUBIC, SIDES(256)), HALVES}},
    {"Bit", false, {CROPPED(BICUBIC, EDGE(224)), CLIP, WHITE}},
    {"CLIP", false, {CROPPED(BICUBIC, EDGE(224)), CLIP, WHITE}},
    {"Siglip", false, {RESIZED(BICUBIC, SIDES(224)), HALVES, WHITE}},
    {"Blip", true, {RESIZED(BICUBIC, SIDES(384)), CLIP, WHITE}},
    {"ConvNext",
     false,
     {RESIZED(BICUBIC, EDGE(384)), HALVES, .convnext = true, .never_pads = true,
      .crop_pct = 224.0 / 256.0}},
    {"Segformer",
     true,
     {RESIZED(BILINEAR, SIDES(512)), IMAGENET, .never_crops = true, .never_pads = true}},
    {"DINOv3ViT", true, {RESIZED(BILINEAR, SIDES(224)), IMAGENET, .scales_first = true}},
    {"DPT", true, {RESIZED(BICUBIC, SIDES(384)), HALVES, .multiple_of = 1}},
    {"Donut",
     true,
     {RESIZED(BILINEAR, {.height = 2560, .width = 1920}), HALVES, .do_pad = true, .donut = true,
      .thumbnails = true}},
    {"LayoutLMv3", true, {RESIZED(BILINEAR, SIDES(224)), HALVES, .reads_words = true}},
    {"Llava", false, {CROPPED(BICUBIC, EDGE(224)), CLIP, WHITE, .pad_square = true}},
    {"LlavaNext",
     false,
     {CROPPED(BICUBIC, EDGE(224)), CLIP, WHITE, .layout = ACCEL__LAYOUT_TILES, .do_pad = true,
      PINPOINTS}},
    {"VideoMAE", false, {CROPPED(BILINEAR, EDGE(224)), HALVES, .layout = ACCEL__LAYOUT_FRAMES}},
    {"Detr", false, {RESIZED(BILINEAR, LONG_EDGE), IMAGENET, PADDED}},
    {"RTDetr",
     false,
     {IMAGENET, .do_resize = true, .size = SIDES(640), .filter = ACCEL__BILINEAR,
      .do_rescale = true, .rescale_factor = 1.0 / 255.0, .rounding = ACCEL__ROUND_TORCH,
      .layout = ACCEL__LAYOUT_PADDED}},
    {"Yolos", false, {RESIZED(BILINEAR, LONG_EDGE), IMAGENET, PADDED, .multiples = true}},
    {"Qwen2VL", false, {RESIZED(BICUBIC, {0}), CLIP, WHITE, PATCHED}},
    {"Gemma3",
     true,
     {RESIZED(BILINEAR, SIDES(224)), HALVES, WHITE, .layout = ACCEL__LAYOUT_CROPS,
      .min_crop_size = 256, .max_crops = 4, .min_ratio = 1.2}},
    {"GotOcr2",
     true,
     {RESIZED(BICUBIC, SIDES(384)), CLIP, WHITE, .layout = ACCEL__LAYOUT_GRID, .min_patches = 1,
      .max_patches = 12}},
    {"Idefics3", false, {RESIZED(LANCZOS, {.longest_edge = 4 * 364}), HALVES, WHITE, SPLIT}},
    {"SmolVLM", false, {RESIZED(LANCZOS, {.longest_edge = 4 * 364}), HALVES, WHITE, SPLIT}},
};
enum { CLASSES = sizeof classes / sizeof *classes, MAX_SIDE = 65535 };

/* ---- which class ---- */

static const struct known *find_class(const char *type) {
  static const char *const endings[] = {"ImageProcessor", "ImageProcessorFast", "ImageProcessorPil",
                                        "FeatureExtractor"};
  for (int i = 0; i < CLASSES; i++) {
    const size_t n = strlen(classes[i].name);
    for (size_t e = 0; e < sizeof endings / sizeof *endings; e++)
      if (!strncmp(type, classes[i].name, n) && !strcmp(type + n, endings[e])) return &classes[i];
  }
  return NULL;
}

/* The class that transformers takes for a model whose file names none. */
static accel_status class_for(const char *directory, const char **class_name) {
  static const char *const usual[][2] = {
      {"vit", "ViTImageProcessor"},
      {"deit", "DeiTImageProcessor"},
      {"dinov2", "BitImageProcessor"},
      {"swin", "ViTImageProcessor"},
      {"resnet", "ConvNextImageProcessor"},
      {"convnext", "ConvNextImageProcessor"},
      {"depth_anything", "DPTImageProcessor"},
      {"dpt", "DPTImageProcessor"},
      {"dinov3_vit", "DINOv3ViTImageProcessor"},
      {"dinov3_convnext", "DINOv3ViTImageProcessor"},
      {"detr", "DetrImageProcessor"},
      {"table-transformer", "DetrImageProcessor"},
      {"rt_detr", "RTDetrImageProcessor"},
      {"rt_detr_v2", "RTDetrImageProcessor"},
      {"yolos", "YolosImageProcessor"},
      {"segformer", "SegformerImageProcessor"},
      {"clip", "CLIPImageProcessor"},
      {"siglip", "SiglipImageProcessor"},
      {"xclip", "CLIPImageProcessor"},
      {"blip", "BlipImageProcessor"},
      {"donut-swin", "DonutImageProcessor"},
      {"layoutlmv3", "LayoutLMv3ImageProcessor"},
      {"llava", "LlavaImageProcessor"},
      {"llava_next", "LlavaNextImageProcessor"},
      {"qwen2_vl", "Qwen2VLImageProcessor"},
      {"qwen2_5_vl", "Qwen2VLImageProcessor"},
      {"qwen3_vl", "Qwen2VLImageProcessor"},
      {"qwen3_vl_moe", "Qwen2VLImageProcessor"},
      {"gemma3", "Gemma3ImageProcessor"},
      {"paligemma", "SiglipImageProcessor"},
      {"idefics3", "Idefics3ImageProcessor"},
      {"smolvlm", "SmolVLMImageProcessor"},
      {"internvl", "GotOcr2ImageProcessor"},
  };
  return accel__json_usual_class(directory, usual, sizeof usual / sizeof *usual, class_name);
}

static accel_status class_of(const accel__json_file *file, const accel__json *at,
                             const char *directory, const struct known **out) {
  const char *type = NULL;
  ACCEL_TRY(accel__json_string(file, at, "image_processor_type", &type));
  if (!type) ACCEL_TRY(accel__json_string(file, at, "feature_extractor_type", &type));
  if (!type) ACCEL_TRY(class_for(directory, &type));
  if (!type) ACCEL_TRY(accel__json_require(file, at, "image_processor_type"));
  *out = find_class(type);
  if (*out) return ACCEL_OK;
  return accel__fail(ACCEL_ERROR_UNSUPPORTED,
                     "%s: image_processor_type '%s' is not supported; known: ViT, DeiT, Bit, CLIP, "
                     "Siglip, Blip, ConvNext, "
                     "Segformer, DINOv3ViT, DPT, Donut, LayoutLMv3, Llava, LlavaNext, "
                     "VideoMAE, Detr, RTDetr, Yolos, Qwen2VL, Gemma3, GotOcr2, Idefics3, SmolVLM "
                     "(ImageProcessor)",
                     file->name, type);
}

/* ---- fields ---- */

static accel_status read_side(const accel__json_file *file, const accel__json *at, const char *key,
                              int32_t *out) {
  int64_t side = *out;
  ACCEL_TRY(accel__json_int(file, at, key, 1, MAX_SIDE, &side));
  *out = (int32_t)side;
  return ACCEL_OK;
}

static accel_status bad_size(const accel__json_file *file, const char *key) {
  return accel__fail(ACCEL_ERROR_FORMAT,
                     "%s: %s must be a number, a pair, or an object with height and width, "
                     "shortest_edge (and longest_edge), or max_height "
                     "and max_width, each from 1 to %d",
                     file->name, key, MAX_SIDE);
}

/* null is "no": no such step, no size, whatever the class has by default. */
static bool is_null(const accel__json *at, const char *key) {
  return cJSON_IsNull(cJSON_GetObjectItemCaseSensitive(at, key));
}

/* A number, a pair (height, width), or an object; longest: longest_edge alone will do. */
static accel_status read_size(const accel__json_file *file, const accel__json *at, const char *key,
                              bool square, bool longest, int64_t max_size, accel__size *out) {
  const accel__json *v = accel__json_get(at, key);
  accel__size size = {0};
  if (!v) return ACCEL_OK;
  if (cJSON_IsNumber(v)) {
    int64_t side = 0;
    ACCEL_TRY(accel__json_int(file, at, key, 1, MAX_SIDE, &side));
    if (square)
      size.height = size.width = (int32_t)side;
    else
      size = (accel__size){.shortest_edge = (int32_t)side, .longest_edge = (int32_t)max_size};
  } else if (cJSON_IsArray(v) && v->child && v->child->next && !v->child->next->next &&
             cJSON_IsNumber(v->child) && cJSON_IsNumber(v->child->next)) {
    size.height = v->child->valueint;
    size.width = v->child->next->valueint;
    if (size.height < 1 || size.width < 1 || size.height > MAX_SIDE || size.width > MAX_SIDE)
      return bad_size(file, key);
  } else if (cJSON_IsObject(v)) {
    ACCEL_TRY(read_side(file, v, "height", &size.height));
    ACCEL_TRY(read_side(file, v, "width", &size.width));
    ACCEL_TRY(read_side(file, v, "shortest_edge", &size.shortest_edge));
    ACCEL_TRY(read_side(file, v, "longest_edge", &size.longest_edge));
    ACCEL_TRY(read_side(file, v, "max_height", &size.max_height));
    ACCEL_TRY(read_side(file, v, "max_width", &size.max_width));
  }
  if (!(size.height && size.width) && !size.shortest_edge && !(size.max_height && size.max_width) &&
      !(longest && size.longest_edge))
    return bad_size(file, key);
  *out = size;
  return ACCEL_OK;
}

/* One number for all channels, or three. */
static accel_status read_channels(const accel__json_file *file, const accel__json *at,
                                  const char *key, double out[3]) {
  const accel__json *v = accel__json_get(at, key);
  double value[3];
  int n = 0;
  if (!v) return ACCEL_OK;
  if (cJSON_IsNumber(v)) value[n++] = v->valuedouble;
  if (cJSON_IsArray(v)) ACCEL_JSON_EACH(item, v) {
      if (n == 3 || !cJSON_IsNumber(item)) n = 4;
      if (n < 3) value[n++] = item->valuedouble;
    }
  if (n != 1 && n != 3)
    return accel__fail(ACCEL_ERROR_FORMAT, "%s: %s must be a number or three of them", file->name,
                       key);
  for (int c = 0; c < 3; c++) out[c] = value[n == 1 ? 0 : c];
  return ACCEL_OK;
}

static accel_status read_pinpoints(const accel__json_file *file, const accel__json *at,
                                   accel__image_processor *p) {
  const accel__json *v = NULL;
  ACCEL_TRY(accel__json_array(file, at, "image_grid_pinpoints", &v));
  if (!v) return ACCEL_OK;
  p->n_pinpoints = 0;
  ACCEL_JSON_EACH(item, v) {
    const accel__json *height = cJSON_IsArray(item) ? item->child : NULL,
                      *width = height ? height->next : NULL;
    if (!width || width->next || !cJSON_IsNumber(height) || !cJSON_IsNumber(width) ||
        height->valueint < 1 || width->valueint < 1 || height->valueint > MAX_SIDE ||
        width->valueint > MAX_SIDE || p->n_pinpoints == ACCEL__MAX_PINPOINTS)
      return accel__fail(
          ACCEL_ERROR_FORMAT,
          "%s: image_grid_pinpoints must be a list of at most %d pairs of height and width",
          file->name, ACCEL__MAX_PINPOINTS);
    p->pinpoint[p->n_pinpoints][0] = height->valueint;
    p->pinpoint[p->n_pinpoints++][1] = width->valueint;
  }
  return p->n_pinpoints
             ? ACCEL_OK
             : accel__fail(ACCEL_ERROR_FORMAT, "%s: image_grid_pinpoints is empty", file->name);
}

/* Qwen2-VL: size says how many pixels, under one of two spellings; the older one comes first. */
static accel_status read_patches(const accel__json_file *file, const accel__json *at,
                                 accel__image_processor *p) {
  const accel__json *size = NULL;
  ACCEL_TRY(accel__json_object(file, at, "size", &size));
  if (size) p->min_pixels = p->max_pixels = 0;
  ACCEL_TRY(accel__json_int(file, size, "shortest_edge", 1, INT64_C(1) << 40, &p->min_pixels));
  ACCEL_TRY(accel__json_int(file, size, "longest_edge", 1, INT64_C(1) << 40, &p->max_pixels));
  ACCEL_TRY(accel__json_int(file, at, "min_pixels", 1, INT64_C(1) << 40, &p->min_pixels));
  ACCEL_TRY(accel__json_int(file, at, "max_pixels", 1, INT64_C(1) << 40, &p->max_pixels));
  ACCEL_TRY(accel__json_int(file, at, "patch_size", 1, 1024, &p->patch_size));
  ACCEL_TRY(accel__json_int(file, at, "temporal_patch_size", 1, 64, &p->temporal_patch));
  ACCEL_TRY(accel__json_int(file, at, "merge_size", 1, 64, &p->merge_size));
  if (p->min_pixels && p->max_pixels) return ACCEL_OK;
  return accel__remedy(accel__fail(ACCEL_ERROR_FORMAT, "%s: size has no %s", file->name,
                                   p->min_pixels ? "longest_edge" : "shortest_edge"),
                       "give size.shortest_edge and size.longest_edge (numbers of pixels), or "
                       "min_pixels and max_pixels beside it");
}

static accel_status read_multiples(const accel__json_file *file, const accel__json *at,
                                   accel__image_processor *p) {
  ACCEL_TRY(accel__json_bool(file, at, "keep_aspect_ratio", &p->keeps_ratio));
  ACCEL_TRY(accel__json_int(file, at, "ensure_multiple_of", 1, MAX_SIDE, &p->multiple_of));
  ACCEL_TRY(accel__json_int(file, at, "size_divisor", 1, MAX_SIDE, &p->divisor));
  if (!p->do_pad || p->divisor) return ACCEL_OK;
  return accel__remedy(
      accel__fail(ACCEL_ERROR_FORMAT, "%s: do_pad is set, but size_divisor is not", file->name),
      "give size_divisor, or set do_pad to false");
}

/* A size that is a pair has the width first, as the class turns it round. */
static accel_status read_donut(const accel__json_file *file, const accel__json *at,
                               accel__image_processor *p) {
  const accel__size given = p->size;
  if (cJSON_IsArray(accel__json_get(at, "size")))
    p->size = (accel__size){.height = given.width, .width = given.height};
  ACCEL_TRY(accel__json_bool(file, at, "do_thumbnail", &p->thumbnails));
  ACCEL_TRY(accel__json_bool(file, at, "do_align_long_axis", &p->turns));
  if ((p->size.height && p->size.width) ||
      !(p->do_resize || p->thumbnails || p->do_pad || p->turns))
    return ACCEL_OK;
  return accel__fail(ACCEL_ERROR_FORMAT, "%s: size must have height and width", file->name);
}

/* An integer from 1 that is left as it is where the field is null. */
static accel_status read_count(const accel__json_file *file, const accel__json *at, const char *key,
                               int32_t *io) {
  return is_null(at, key) ? ACCEL_OK : read_side(file, at, key, io);
}

/* What cuts pictures into parts; Gemma 3's fields may be null, which its processor fills in. */
static accel_status read_parts(const accel__json_file *file, const accel__json *at,
                               accel__image_processor *p) {
  int32_t size = (int32_t)p->min_crop_size, most = (int32_t)p->max_crops;
  const accel__json *frame = NULL;
  const char *const flag = p->layout == ACCEL__LAYOUT_CROPS  ? "do_pan_and_scan"
                           : p->layout == ACCEL__LAYOUT_GRID ? "crop_to_patches"
                                                             : "do_image_splitting";
  if (is_null(at, flag)) p->splits = false;
  ACCEL_TRY(accel__json_bool(file, at, flag, &p->splits));
  ACCEL_TRY(read_count(file, at, "pan_and_scan_min_crop_size", &size));
  ACCEL_TRY(read_count(file, at, "pan_and_scan_max_num_crops", &most));
  if (!is_null(at, "pan_and_scan_min_ratio_to_activate"))
    ACCEL_TRY(accel__json_number(file, at, "pan_and_scan_min_ratio_to_activate", &p->min_ratio));
  p->min_crop_size = size;
  p->max_crops = most;
  ACCEL_TRY(read_count(file, at, "min_patches", &p->min_patches));
  ACCEL_TRY(read_count(file, at, "max_patches", &p->max_patches));
  ACCEL_TRY(accel__json_object(file, at, "max_image_size", &frame));
  ACCEL_TRY(read_side(file, frame, "longest_edge", &p->frame));
  p->do_center_crop = false;
  if (p->layout == ACCEL__LAYOUT_SPLIT ? p->size.shortest_edge && !p->size.longest_edge
                                       : !(p->size.height && p->size.width))
    return accel__fail(ACCEL_ERROR_FORMAT, "%s: size must have %s", file->name,
                       p->layout == ACCEL__LAYOUT_SPLIT ? "longest_edge, or height and width"
                                                        : "height and width");
  if (p->min_patches <= p->max_patches && p->max_patches <= 1024) return ACCEL_OK;
  return accel__fail(ACCEL_ERROR_FORMAT, "%s: min_patches is %d, max_patches %d", file->name,
                     p->min_patches, p->max_patches);
}

static accel_status read_fields(const accel__json_file *file, const accel__json *at, bool square,
                                accel__image_processor *p) {
  const struct {
    const char *key;
    bool *to;
  } flags[] = {{"do_resize", &p->do_resize},
               {"do_center_crop", &p->do_center_crop},
               {"do_rescale", &p->do_rescale},
               {"do_normalize", &p->do_normalize},
               {"do_convert_rgb", &p->do_convert_rgb},
               {"apply_ocr", &p->reads_words},
               {"pad_and_return_pixel_mask", &p->do_pad},
               {"do_pad", &p->do_pad}};
  int64_t filter = p->filter, max_size = p->size.longest_edge;
  for (size_t i = 0; i < sizeof flags / sizeof *flags; i++) {
    if (is_null(at, flags[i].key)) *flags[i].to = false;
    ACCEL_TRY(accel__json_bool(file, at, flags[i].key, flags[i].to));
  }
  if (p->layout == ACCEL__LAYOUT_PADDED || p->layout == ACCEL__LAYOUT_PATCHES || p->never_crops)
    p->do_center_crop = false;
  if (p->never_pads || p->layout == ACCEL__LAYOUT_FRAMES) p->do_pad = false;
  ACCEL_TRY(accel__json_int(file, at, "resample", 0, 5, &filter));
  p->filter = (accel__filter)filter;
  ACCEL_TRY(accel__json_int(file, at, "max_size", 1, MAX_SIDE, &max_size));
  if (p->layout == ACCEL__LAYOUT_PATCHES)
    ACCEL_TRY(read_patches(file, at, p));
  else
    ACCEL_TRY(
        read_size(file, at, "size", square, p->layout == ACCEL__LAYOUT_SPLIT, max_size, &p->size));
  if (p->multiple_of) ACCEL_TRY(read_multiples(file, at, p));
  if (accel__has_parts(p)) ACCEL_TRY(read_parts(file, at, p));
  if (is_null(at, "size") && p->layout != ACCEL__LAYOUT_PADDED) p->size = (accel__size){0};
  if (p->donut) ACCEL_TRY(read_donut(file, at, p));
  if (is_null(at, "crop_size")) p->crop_size = (accel__size){0};
  ACCEL_TRY(read_size(file, at, "crop_size", true, false, 0, &p->crop_size));
  ACCEL_TRY(read_size(file, at, "pad_size", true, false, 0, &p->pad_size));
  ACCEL_TRY(accel__json_number(file, at, "rescale_factor", &p->rescale_factor));
  ACCEL_TRY(accel__json_number(file, at, "crop_pct", &p->crop_pct));
  ACCEL_TRY(read_channels(file, at, "image_mean", p->mean));
  ACCEL_TRY(read_channels(file, at, "image_std", p->std));
  return read_pinpoints(file, at, p);
}

static accel_status check(const accel__json_file *file, const accel__image_processor *p) {
  const bool cropped = p->crop_size.height && p->crop_size.width;
  if (p->do_center_crop && !cropped)
    return accel__fail(ACCEL_ERROR_FORMAT,
                       "%s: do_center_crop is set, but crop_size has no height and width",
                       file->name);
  if (p->scales_first && (p->do_center_crop || p->filter == ACCEL__NEAREST))
    return accel__fail(ACCEL_ERROR_UNSUPPORTED,
                       "%s: %s is not supported by DINOv3ViTImageProcessor", file->name,
                       p->do_center_crop ? "do_center_crop" : "resample 0");
  const accel__size *z = &p->size;
  if (p->do_resize && p->layout != ACCEL__LAYOUT_PATCHES && !z->shortest_edge && !z->height &&
      !z->max_height && !(p->layout == ACCEL__LAYOUT_SPLIT && z->longest_edge))
    return accel__fail(ACCEL_ERROR_FORMAT, "%s: do_resize is set, but size is null", file->name);
  if (p->multiple_of && p->do_resize && !(z->height && z->width))
    return accel__fail(ACCEL_ERROR_FORMAT, "%s: size must have height and width", file->name);
  if (p->convnext && p->do_resize && (!p->size.shortest_edge || !(p->crop_pct > 0.0)))
    return accel__fail(ACCEL_ERROR_FORMAT,
                       "%s: size must have shortest_edge, and crop_pct must be above 0",
                       file->name);
  if (p->do_normalize && (p->std[0] == 0.0 || p->std[1] == 0.0 || p->std[2] == 0.0))
    return accel__fail(ACCEL_ERROR_FORMAT, "%s: image_std holds 0", file->name);
  if (p->do_rescale && p->rescale_factor == 0.0)
    return accel__fail(ACCEL_ERROR_FORMAT, "%s: rescale_factor is 0", file->name);
  return ACCEL_OK;
}

accel_status accel__image_processor_load(const char *directory, accel__image_processor *out) {
  accel__json_file file;
  const struct known *class;
  const accel__json *at;
  *out = (accel__image_processor){0};
  accel_status status = accel__json_read_processor(directory, "image_processor", &file, &at);
  if (status == ACCEL_OK) status = class_of(&file, at, directory, &class);
  if (status == ACCEL_OK) {
    *out = class->defaults;
    status = read_fields(&file, at, class->square, out);
  }
  if (!out->do_rescale) out->scales_first = false; /* bytes are resized as those of others */
  if (status == ACCEL_OK) status = check(&file, out);
  accel__json_free(&file);
  return status;
}
