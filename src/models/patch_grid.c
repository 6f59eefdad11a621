/* patch_grid.c - pictures as grids of patches: frames, places of patches, positions in the text. */
#include "models/patch_grid.h"

#include <math.h>
#include <string.h>

typedef accel__patch_grid patch_grid;

/* ---- config ---- */

accel_status accel__patch_grid_type(const accel__build *b, const char *field, const char *type,
                                    const char *family, const char *part) {
  const size_t n = strlen(family);
  if (type == NULL || strcmp(type, family) == 0) return ACCEL_OK;
  if (strncmp(type, family, n) == 0 && type[n] == '_' && strcmp(type + n + 1, part) == 0)
    return ACCEL_OK;
  return accel__refuse(b, "field '%s': '%s' is not supported; known: %s_%s", field, type, family,
                       part);
}

/* Half of a head's frequencies turn with the height of the patch, the same ones again with its
 * width. */
static accel_status tower_rope(accel__build *b, double theta, int64_t head_dim, accel__rope *out) {
  const int64_t n = head_dim / 2, half = n / 2;
  float *freq = accel__arena_array(b->arena, (size_t)n, sizeof *freq);
  if (freq == NULL) return ACCEL_ERROR_OUT_OF_MEMORY;
  for (int64_t i = 0; i < n; i++) freq[i] = (float)pow(theta, -(double)(i % half) / (double)half);
  *out = (accel__rope){.head_dim = head_dim,
                       .rot_dims = head_dim,
                       .attention_scale = 1.0,
                       .style = ACCEL_PLUGIN_ROPE_HALF,
                       .inv_freq = accel__constant_f32(b->p, "visual.rope", 1, &n, freq),
                       .power = -1,
                       .section = {half, half},
                       .n_sections = 2};
  return ACCEL_OK;
}

accel_status accel__patch_grid_rope(accel__build *b, int64_t head_dim, accel__rope *out) {
  const accel__json *params = NULL;
  const char *type = "axial";
  double theta = 10000.0;
  ACCEL_TRY(accel__json_object(b->file, b->config, "rope_parameters", &params));
  ACCEL_TRY(accel__json_string(b->file, params, "rope_type", &type));
  ACCEL_TRY(accel__json_number(b->file, params, "rope_theta", &theta));
  if (strcmp(type, "axial") != 0 && strcmp(type, "default") != 0)
    return accel__refuse(
        b, "field 'vision_config.rope_parameters.rope_type': '%s' is not supported; known: axial",
        type);
  if (!(theta > 0))
    return accel__refuse(b, "field 'vision_config.rope_parameters.rope_theta' must be above 0");
  if (head_dim % 4 != 0)
    return accel__refuse(b,
                         "field 'vision_config.num_heads': a head of %lld columns cannot turn with "
                         "height and width; it must be a multiple of 4",
                         (long long)head_dim);
  return tower_rope(b, theta, head_dim, out);
}

/* ---- pictures and their patches ---- */

/* Patches of a picture: time x height x width of its grid. */
static accel_status patches_of(const patch_grid *g, const int64_t *grid, int64_t *out) {
  const int64_t t = grid[0], h = grid[1], w = grid[2];
  if (t < 1 || h < 1 || w < 1 || t > INT32_MAX || h > INT32_MAX || w > INT32_MAX ||
      __builtin_mul_overflow(t * h, w, out) || *out > INT32_MAX / 4)
    return accel__fail(
        ACCEL_ERROR_ARGUMENT,
        "image_grid_thw, video_grid_thw: there is no grid of %lld x %lld x %lld patches",
        (long long)t, (long long)h, (long long)w);
  if (h % g->merge == 0 && w % g->merge == 0) return ACCEL_OK;
  return accel__remedy(
      accel__fail(ACCEL_ERROR_ARGUMENT,
                  "image_grid_thw, video_grid_thw: a grid has %lld x %lld patches, no multiples of "
                  "%lld",
                  (long long)h, (long long)w, (long long)g->merge),
      "merge_size of preprocessor_config.json must be vision_config.spatial_merge_size of "
      "config.json");
}

accel_status accel__patch_grid_count(const patch_grid *g, const int64_t *values, uint64_t n,
                                     const int64_t *dim, uint32_t rank, int64_t *frames,
                                     int64_t *patches) {
  *frames = *patches = 0;
  if (rank != 2 || n == 0 || n % 3 != 0)
    return accel__fail(
        ACCEL_ERROR_ARGUMENT,
        "image_grid_thw [pictures, 3] does not fit pixel_values [patches, channels * pixels]");
  for (uint64_t i = 0; i < n / 3; i++) {
    int64_t one = 0;
    ACCEL_TRY(patches_of(g, &values[3 * i], &one));
    *frames += values[3 * i];
    *patches += one;
    if (*patches > dim[0]) break;
  }
  if (*patches == dim[0]) return ACCEL_OK;
  return accel__fail(ACCEL_ERROR_ARGUMENT, "pixel_values has %lld patches, image_grid_thw %s%lld",
                     (long long)dim[0], *patches > dim[0] ? "at least " : "", (long long)*patches);
}

accel_status accel__patch_grid_frames(const void *user, const int64_t *values, uint64_t n,
                                      const int64_t *dim, uint32_t rank, accel__arena *arena,
                                      int32_t **out, int64_t *n_out) {
  int64_t patches;
  ACCEL_TRY(accel__patch_grid_count(user, values, n, dim, rank, n_out, &patches));
  int32_t *length = *out = accel__arena_array(arena, (size_t)*n_out, sizeof *length);
  if (length == NULL) return ACCEL_ERROR_OUT_OF_MEMORY;
  for (uint64_t i = 0; i < n / 3; i++)
    for (int64_t t = 0; t < values[3 * i]; t++)
      *length++ = (int32_t)(values[3 * i + 1] * values[3 * i + 2]);
  return ACCEL_OK;
}

void accel__patch_grid_places(const patch_grid *g, const int64_t *values, uint64_t n, int32_t *y,
                              int32_t *x) {
  const int64_t side = g->merge, each = side * side;
  for (uint64_t i = 0; i < n / 3; i++) {
    const int64_t h = values[3 * i + 1], w = values[3 * i + 2];
    for (int64_t k = 0; k < values[3 * i] * h * w; k++) {
      const int64_t block = k % (h * w) / each, inside = k % each;
      *y++ = (int32_t)(block / (w / side) * side + inside / side);
      *x++ = (int32_t)(block % (w / side) * side + inside % side);
    }
  }
}

accel_status accel__patch_grid_positions(const void *user, const int64_t *values, uint64_t n,
                                         const int64_t *dim, uint32_t rank, accel__arena *arena,
                                         int32_t **out, int64_t *n_out) {
  int64_t frames, patches;
  ACCEL_TRY(accel__patch_grid_count(user, values, n, dim, rank, &frames, &patches));
  *n_out = 3 * patches;
  int32_t *at = *out = accel__arena_array(arena, (size_t)*n_out, sizeof *at);
  if (at == NULL) return ACCEL_ERROR_OUT_OF_MEMORY;
  accel__patch_grid_places(user, values, n, at, at + patches);
  memset(at + 2 * patches, 0, (size_t)patches * sizeof *at);
  return ACCEL_OK;
}

/* ---- positions in the text ---- */

static accel_status picture_rows(const void *user, const int64_t *dim, uint32_t rank,
                                 const int64_t *size, int64_t *out) {
  const patch_grid *g = user;
  (void)dim;
  if (rank != 2)
    return accel__fail(ACCEL_ERROR_ARGUMENT, "pixel_values has rank %u, expected 2", rank);
  ACCEL_TRY(patches_of(g, size, out));
  *out /= g->merge * g->merge;
  return ACCEL_OK;
}

/* Where picture or video `at` of the call begins at token `row`, of which `left` are to come in its
 * sequence; *next: position ids from there on, and behind it.  Returns its tokens in *n. */
static accel_status place_picture(const patch_grid *g, const accel__mrope_input *what, uint64_t at,
                                  uint64_t row, int64_t left, int64_t *next, int64_t *n,
                                  int32_t *out) {
  const int32_t token = what->ids[row];
  if (at >= what->pictures)
    return accel__fail(ACCEL_ERROR_ARGUMENT,
                       "input_ids show more pictures (token %d) than the %llu that are given",
                       token, (unsigned long long)what->pictures);
  const float step = what->steps ? what->steps[at] : -1;
  const int64_t *grid = &what->sizes[3 * at];
  const int64_t h = grid[1] / g->merge, w = grid[2] / g->merge;
  int64_t found = 0;
  ACCEL_TRY(patches_of(g, grid, n));
  *n /= g->merge * g->merge;
  while (found < *n && found < left && what->ids[row + (uint64_t)found] == token) found++;
  if (found < *n)
    return accel__fail(ACCEL_ERROR_ARGUMENT,
                       "input_ids have %lld image tokens (%d) for picture %llu, its grid says %lld",
                       (long long)found, token, (unsigned long long)at, (long long)*n);
  int32_t *time = out + row, *high = time + what->tokens, *wide = high + what->tokens;
  for (int64_t k = 0; k < *n; k++) {
    const int64_t frame = k / (h * w);
    time[k] = (int32_t)(*next + (step < 0 ? frame : (int64_t)((float)frame * step)));
    high[k] = (int32_t)(*next + k / w % h);
    wide[k] = (int32_t)(*next + k % w);
  }
  *next += h > w ? h : w;
  return ACCEL_OK;
}

/* Text counts on by one in all three parts; the rows of a picture or video begin where it stands,
 * and what follows goes on behind the longer of its sides (get_rope_index). */
static accel_status mrope_positions(const void *user, const accel__mrope_input *what, int32_t *out,
                                    int32_t *rope_delta) {
  const patch_grid *g = user;
  uint64_t row = 0, picture = 0;
  for (uint32_t b = 0; b < what->n; b++) {
    int64_t next = 0, last = -1;
    for (int64_t i = 0, n; i < what->lengths[b]; i += n, row += (uint64_t)n) {
      n = 1;
      if (what->ids[row] == g->image_token || what->ids[row] == g->video_token)
        ACCEL_TRY(place_picture(g, what, picture++, row, what->lengths[b] - i, &next, &n, out));
      else
        out[row] = out[row + what->tokens] = out[row + 2 * what->tokens] = (int32_t)next++;
    }
    /* generate() counts on from the last token, even where a video's frames went further in time */
    for (uint64_t k = 0; k < 3 && row > 0; k++) {
      const int64_t end = out[row - 1 + k * what->tokens];
      last = end > last ? end : last;
    }
    if (rope_delta != NULL) rope_delta[b] = (int32_t)(last + 1 - what->lengths[b]);
  }
  if (picture == what->pictures) return ACCEL_OK;
  return accel__fail(
      ACCEL_ERROR_ARGUMENT, "input_ids show %llu pictures (token %lld), the grids have %llu",
      (unsigned long long)picture, (long long)g->image_token, (unsigned long long)what->pictures);
}

accel__image_tokens accel__patch_grid_tokens(const patch_grid *g) {
  return (accel__image_tokens){.token = g->image_token,
                               .video_token = g->video_token,
                               .time_scale = g->time_scale,
                               .shows_frames = g->shows_frames,
                               .sizes = "image_grid_thw",
                               .width = 3,
                               .flat = true,
                               .rows = picture_rows,
                               .mrope_positions = mrope_positions,
                               .user = g};
}

/* ---- the tower ---- */

accel__tensor accel__patch_grid_inputs(accel__build *b, const patch_grid *g, int64_t columns,
                                       const accel__derived *lengths,
                                       const accel__derived *positions, accel__dim *merged,
                                       int32_t *space) {
  accel__program *p = b->p;
  accel__dim frames;
  *merged = accel__symbol(p, "merged", 1, 0, 256);
  frames = accel__symbol(p, "frames", 1, 0, 1);
  accel__dim patches = accel__times(b, *merged, accel__const_dim(p, g->merge * g->merge));
  accel__tensor x = accel__add_item(b, "pixel_values", ACCEL_PLUGIN_F32, 2,
                                    (accel__dim[]){patches, accel__const_dim(p, columns)},
                                    ACCEL__DEFAULT_REQUIRED);
  accel__tensor n = accel__add_derived(b, "patch_lengths", 1, &frames, lengths);
  b->position_ids = accel__add_derived(b, "patch_positions", 2,
                                       (accel__dim[]){accel__const_dim(p, 3), patches}, positions);
  *space = accel__space_ragged(p, "patches", n, patches, frames);
  return x;
}
