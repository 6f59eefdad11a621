/* qwen2_vl.c - Qwen2-VL and Qwen2.5-VL (transformers' Qwen2VLModel, Qwen2_5_VLModel and their
 * ForConditionalGeneration): a tower over the patches of pictures of any size, of which `merge` x
 * `merge` neighbours become one row of the text, and Qwen2 whose positions have three parts: time,
 * height and width (M-RoPE).  In most layers of Qwen2.5-VL's tower patches look no further than a
 * window: it runs over the rows in the order of their windows.
 *
 * pixel_values [patches, C*temporal*patch*patch] are the patches of all pictures, neighbours that
 * merge behind one another; image_grid_thw [pictures, 3] says how many each picture has in time,
 * height and width.  Videos are not supported. */
#include <math.h>
#include <string.h>

#include "modeling/decoder.h"
#include "modeling/vision.h"

typedef struct qwen2_vl {
  accel__decoder *text;
  int64_t image_token, video_token;
  int64_t width, channels, patch, temporal, merge, layers; /* of the tower */
  /* rows of the text to a side of a window; 0: there are none */
  int64_t window;
  /* layers that see whole frames all the same */
  bool whole[ACCEL__MAX_LAYERS];
  accel__block block;
  accel__rope rope;
  accel__derived lengths, positions, window_lengths, window_order;
  accel__image_tokens image_tokens;
  accel__tensor features; /* rows [patches / merge^2, hidden of the text] */
} qwen2_vl;

static const accel__rename hub[] = {{"model.language_model.", "model."}, {NULL, NULL}};
static const accel__rename base[] = {{"model.language_model.", "language_model."}, {NULL, NULL}};
static const accel__rename tower[] = {{"visual.", "model.visual."}, {NULL, NULL}};

/* ---- config ---- */

static const accel__decoder text_defaults = {.vocab = 152064,
                                             .hidden = 8192,
                                             .layers = 80,
                                             .heads = 64,
                                             .kv_heads = 8,
                                             .inner = 29568,
                                             .positions = 32768,
                                             .eps = 1e-5,
                                             .theta = 1000000.0,
                                             .bos = 151643,
                                             .eos = 151645,
                                             .pad = -1,
                                             .window = 4096,
                                             .qkv_bias = true,
                                             .mrope = true,
                                             .act = {.act = ACCEL_PLUGIN_ACT_SILU}};

/* A part's model_type is the whole's, in older files, or ends with the part's name. */
static accel_status check_type(const accel__build *b, const char *field, const char *type,
                               const char *family, const char *part) {
  const size_t n = strlen(family);
  if (type == NULL || strcmp(type, family) == 0) return ACCEL_OK;
  if (strncmp(type, family, n) == 0 && type[n] == '_' && strcmp(type + n + 1, part) == 0)
    return ACCEL_OK;
  return accel__refuse(b, "field '%s': '%s' is not supported; known: %s_%s", field, type, family,
                       part);
}

/* text_config, or the fields beside it in files of the hub, which have none. */
static accel_status read_text(accel__build *b, const char *family, accel__decoder *c) {
  static const int64_t usual[3] = {16, 24, 24};
  const char *type = NULL;
  bool tied = false;
  *c = text_defaults;
  ACCEL_TRY(accel__enter_config(
      b, accel__json_get(b->file->root, "text_config") != NULL ? "text_config" : NULL));
  ACCEL_TRY(accel__json_string(b->file, b->config, "model_type", &type));
  ACCEL_TRY(check_type(b, "text_config.model_type", type, family, "text"));
  ACCEL_TRY(accel__decoder_read(b, c));
  ACCEL_TRY(accel__decoder_read_upper_window(b, c, 80));
  ACCEL_TRY(accel__decoder_read_rope(b, c));
  if (c->rope[0].length > 0)
    return accel__refuse(
        b, "rope types that change with the length of the text are not supported with M-RoPE");
  if (c->rope[0].n_sections == 0) ACCEL_TRY(accel__rope_divide(b, usual, 3, &c->rope[0]));
  ACCEL_TRY(accel__enter_config(b, NULL));
  ACCEL_TRY(accel__json_bool(b->file, b->config, "tie_word_embeddings", &tied));
  c->tied |= tied;
  return ACCEL_OK;
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

static accel_status read_tower_rope(accel__build *b, int64_t head_dim, accel__rope *out) {
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
  return tower_rope(b, theta, head_dim, out);
}

/* fullatt_block_indexes. */
static accel_status read_whole(accel__build *b, qwen2_vl *m) {
  static const int64_t usual[4] = {7, 15, 23, 31};
  const accel__json *list = NULL;
  ACCEL_TRY(accel__json_array(b->file, b->config, "fullatt_block_indexes", &list));
  for (int i = 0; list == NULL && i < 4; i++) m->whole[usual[i]] = true;
  ACCEL_JSON_EACH(item, list) {
    if (!cJSON_IsNumber(item) || !(item->valuedouble >= 0 && item->valuedouble < ACCEL__MAX_LAYERS))
      return accel__refuse(b,
                           "field 'vision_config.fullatt_block_indexes' must be a list of layers");
    m->whole[(size_t)item->valuedouble] = true;
  }
  return ACCEL_OK;
}

static accel_status read_plain(accel__build *b, qwen2_vl *m, int64_t *out) {
  double ratio = 4;
  m->width = 1280;
  m->block = (accel__block){
      .up = "mlp.fc1", .down = "mlp.fc2", .act = {.act = ACCEL_PLUGIN_ACT_GELU_QUICK}};
  const accel__field fields[] = {ACCEL_FIELD_INT("embed_dim", &m->width, 1, ACCEL__MAX_WIDTH),
                                 ACCEL_FIELD_INT("hidden_size", out, 1, ACCEL__MAX_WIDTH),
                                 ACCEL_FIELD_NUMBER("mlp_ratio", &ratio),
                                 ACCEL_FIELD_ACT("hidden_act", &m->block.act)};
  ACCEL_TRY(accel__read_fields(b, fields, sizeof fields / sizeof *fields));
  if (!(ratio * (double)m->width >= 1 && ratio * (double)m->width <= ACCEL__MAX_WIDTH))
    return accel__refuse(b, "field 'vision_config.mlp_ratio' is out of range");
  m->block.inner = (int64_t)(ratio * (double)m->width);
  return ACCEL_OK;
}

/* Qwen2.5-VL: hidden_size is the tower's own, the MLP has a gate, norms have no offset. */
static accel_status read_windowed(accel__build *b, qwen2_vl *m, int64_t *out) {
  int64_t window = 112;
  m->width = 3584;
  m->block = (accel__block){.gate = "mlp.gate_proj",
                            .up = "mlp.up_proj",
                            .down = "mlp.down_proj",
                            .inner = 3420,
                            .rms = true,
                            .act = {.act = ACCEL_PLUGIN_ACT_SILU}};
  const accel__field fields[] = {
      ACCEL_FIELD_INT("hidden_size", &m->width, 1, ACCEL__MAX_WIDTH),
      ACCEL_FIELD_INT("out_hidden_size", out, 1, ACCEL__MAX_WIDTH),
      ACCEL_FIELD_INT("intermediate_size", &m->block.inner, 1, ACCEL__MAX_WIDTH),
      ACCEL_FIELD_INT("window_size", &window, 1, 1 << 20),
      ACCEL_FIELD_ACT("hidden_act", &m->block.act)};
  ACCEL_TRY(accel__read_fields(b, fields, sizeof fields / sizeof *fields));
  m->window = window / m->merge / m->patch;
  if (m->window < 1)
    return accel__refuse(
        b, "field 'vision_config.window_size': %lld is less than spatial_merge_size * patch_size",
        (long long)window);
  return read_whole(b, m);
}

static accel_status read_tower(accel__build *b, const char *family, bool windows, qwen2_vl *m) {
  int64_t heads = 16, out = 3584;
  const char *type = NULL;
  m->layers = 32;
  m->channels = 3;
  m->patch = 14;
  m->temporal = m->merge = 2;
  ACCEL_TRY(accel__enter_config(b, "vision_config"));
  const accel__field fields[] = {
      ACCEL_FIELD_STRING("model_type", &type),
      ACCEL_FIELD_INT("num_hidden_layers", &m->layers, 0, ACCEL__MAX_LAYERS),
      ACCEL_FIELD_INT("depth", &m->layers, 0, ACCEL__MAX_LAYERS),
      ACCEL_FIELD_INT("num_attention_heads", &heads, 1, ACCEL__MAX_WIDTH),
      ACCEL_FIELD_INT("num_heads", &heads, 1, ACCEL__MAX_WIDTH),
      ACCEL_FIELD_INT("in_channels", &m->channels, 1, 64),
      ACCEL_FIELD_INT("patch_size", &m->patch, 1, 256),
      ACCEL_FIELD_INT("temporal_patch_size", &m->temporal, 1, 64),
      ACCEL_FIELD_INT("spatial_merge_size", &m->merge, 1, 64)};
  ACCEL_TRY(accel__read_fields(b, fields, sizeof fields / sizeof *fields));
  ACCEL_TRY(check_type(b, "vision_config.model_type", type, family, "vision"));
  ACCEL_TRY(windows ? read_windowed(b, m, &out) : read_plain(b, m, &out));
  ACCEL_TRY(accel__divides(b, "vision_config.num_heads", heads,
                           windows ? "vision_config.hidden_size" : "vision_config.embed_dim",
                           m->width));
  if (m->width / heads % 4 != 0)
    return accel__refuse(b,
                         "field 'vision_config.num_heads': a head of %lld columns cannot turn with "
                         "height and width; it must "
                         "be a multiple of 4",
                         (long long)(m->width / heads));
  if (out != m->text->hidden)
    return accel__refuse(b, "field 'vision_config.%s' is %lld, but the text has hidden_size %lld",
                         windows ? "out_hidden_size" : "hidden_size", (long long)out,
                         (long long)m->text->hidden);
  m->block.q = "attn.qkv";
  m->block.o = "attn.proj";
  m->block.norm1 = "norm1";
  m->block.norm2 = "norm2";
  m->block.hidden = m->width;
  m->block.heads = heads;
  m->block.eps = 1e-6;
  m->block.qkv_bias = m->block.o_bias = true;
  m->block.rope = &m->rope;
  return read_tower_rope(b, m->width / heads, &m->rope);
}

/* ---- pictures and their patches ---- */

/* Patches of a picture: time x height x width of its grid. */
static accel_status patches_of(const qwen2_vl *m, const int64_t *grid, uint64_t picture,
                               int64_t *out) {
  const int64_t t = grid[0], h = grid[1], w = grid[2];
  if (t < 1 || h < 1 || w < 1 || t > INT32_MAX || h > INT32_MAX || w > INT32_MAX ||
      __builtin_mul_overflow(t * h, w, out) || *out > INT32_MAX / 4)
    return accel__fail(ACCEL_ERROR_ARGUMENT,
                       "image_grid_thw: picture %llu has %lld x %lld x %lld patches",
                       (unsigned long long)picture, (long long)t, (long long)h, (long long)w);
  if (h % m->merge == 0 && w % m->merge == 0) return ACCEL_OK;
  return accel__remedy(
      accel__fail(ACCEL_ERROR_ARGUMENT,
                  "image_grid_thw: picture %llu has %lld x %lld patches, no multiples of %lld",
                  (unsigned long long)picture, (long long)h, (long long)w, (long long)m->merge),
      "merge_size of preprocessor_config.json must be vision_config.spatial_merge_size of "
      "config.json");
}

/* Frames and patches of image_grid_thw values[n], which pixel_values dim[rank] must have. */
static accel_status count_patches(const qwen2_vl *m, const int64_t *values, uint64_t n,
                                  const int64_t *dim, uint32_t rank, int64_t *frames,
                                  int64_t *patches) {
  *frames = *patches = 0;
  if (rank != 2 || n == 0 || n % 3 != 0)
    return accel__fail(
        ACCEL_ERROR_ARGUMENT,
        "image_grid_thw [pictures, 3] does not fit pixel_values [patches, channels * pixels]");
  for (uint64_t i = 0; i < n / 3; i++) {
    int64_t one = 0;
    ACCEL_TRY(patches_of(m, &values[3 * i], i, &one));
    *frames += values[3 * i];
    *patches += one;
    if (*patches > dim[0]) break;
  }
  if (*patches == dim[0]) return ACCEL_OK;
  return accel__fail(ACCEL_ERROR_ARGUMENT, "pixel_values has %lld patches, image_grid_thw %s%lld",
                     (long long)dim[0], *patches > dim[0] ? "at least " : "", (long long)*patches);
}

/* [frames]: patches that look at each other. */
static accel_status frame_lengths(const void *user, const int64_t *values, uint64_t n,
                                  const int64_t *dim, uint32_t rank, accel__arena *arena,
                                  int32_t **out, int64_t *n_out) {
  int64_t patches;
  ACCEL_TRY(count_patches(user, values, n, dim, rank, n_out, &patches));
  int32_t *length = *out = accel__arena_array(arena, (size_t)*n_out, sizeof *length);
  if (length == NULL) return ACCEL_ERROR_OUT_OF_MEMORY;
  for (uint64_t i = 0; i < n / 3; i++)
    for (int64_t t = 0; t < values[3 * i]; t++)
      *length++ = (int32_t)(values[3 * i + 1] * values[3 * i + 2]);
  return ACCEL_OK;
}

/* Row numbers of a frame of h lines of w rows, of which `first` is the number of the first one. */
typedef struct frame_rows {
  int64_t first, h, w;
} frame_rows;

/* The rows of the window whose upper left corner is (top, left): their numbers line by line into
 * *order, unless that is NULL.  Returns how many they are; at the edges windows are smaller. */
static int64_t list_window(const frame_rows *f, int64_t side, int64_t top, int64_t left,
                           int32_t **order) {
  const int64_t bottom = top + side < f->h ? top + side : f->h,
                right = left + side < f->w ? left + side : f->w;
  for (int64_t y = top; *order != NULL && y < bottom; y++)
    for (int64_t x = left; x < right; x++) *(*order)++ = (int32_t)(f->first + y * f->w + x);
  return (bottom - top) * (right - left);
}

/* The windows of one frame, line by line.  Returns how many they are. */
static int64_t list_windows(const qwen2_vl *m, const frame_rows *f, int32_t **order,
                            int32_t **length) {
  int64_t windows = 0;
  for (int64_t top = 0; top < f->h; top += m->window)
    for (int64_t left = 0; left < f->w; left += m->window, windows++) {
      const int64_t rows = list_window(f, m->window, top, left, order);
      if (*length != NULL) *(*length)++ = (int32_t)(rows * m->merge * m->merge);
    }
  return windows;
}

/* Rows of the text in the order of their windows, which lie line by line in each frame; order[rows]
 * and length[windows] may be NULL.  Returns the number of windows. */
static int64_t order_windows(const qwen2_vl *m, const int64_t *values, uint64_t n, int32_t *order,
                             int32_t *length) {
  int64_t windows = 0;
  frame_rows f = {0};
  for (uint64_t i = 0; i < n / 3; i++) {
    f.h = values[3 * i + 1] / m->merge;
    f.w = values[3 * i + 2] / m->merge;
    for (int64_t t = 0; t < values[3 * i]; t++, f.first += f.h * f.w)
      windows += list_windows(m, &f, &order, &length);
  }
  return windows;
}

/* [windows]: patches of each. */
static accel_status window_lengths(const void *user, const int64_t *values, uint64_t n,
                                   const int64_t *dim, uint32_t rank, accel__arena *arena,
                                   int32_t **out, int64_t *n_out) {
  int64_t frames, patches;
  ACCEL_TRY(count_patches(user, values, n, dim, rank, &frames, &patches));
  *n_out = order_windows(user, values, n, NULL, NULL);
  if ((*out = accel__arena_array(arena, (size_t)*n_out, sizeof **out)) == NULL)
    return ACCEL_ERROR_OUT_OF_MEMORY;
  order_windows(user, values, n, NULL, *out);
  return ACCEL_OK;
}

/* [patches / merge^2] */
static accel_status window_order(const void *user, const int64_t *values, uint64_t n,
                                 const int64_t *dim, uint32_t rank, accel__arena *arena,
                                 int32_t **out, int64_t *n_out) {
  const qwen2_vl *m = user;
  int64_t frames, patches;
  ACCEL_TRY(count_patches(m, values, n, dim, rank, &frames, &patches));
  *n_out = patches / (m->merge * m->merge);
  if ((*out = accel__arena_array(arena, (size_t)*n_out, sizeof **out)) == NULL)
    return ACCEL_ERROR_OUT_OF_MEMORY;
  order_windows(m, values, n, *out, NULL);
  return ACCEL_OK;
}

/* Row and column of each patch in its frame; those that merge stand together. */
static void natural_positions(const qwen2_vl *m, const int64_t *values, uint64_t n, int32_t *y,
                              int32_t *x) {
  const int64_t side = m->merge, each = side * side;
  for (uint64_t i = 0; i < n / 3; i++) {
    const int64_t h = values[3 * i + 1], w = values[3 * i + 2];
    for (int64_t k = 0; k < values[3 * i] * h * w; k++) {
      const int64_t block = k % (h * w) / each, inside = k % each;
      *y++ = (int32_t)(block / (w / side) * side + inside / side);
      *x++ = (int32_t)(block % (w / side) * side + inside % side);
    }
  }
}

/* [3, patches]: row and column of each patch, and zeros, in the order in which the tower has
 * them. */
static accel_status patch_positions(const void *user, const int64_t *values, uint64_t n,
                                    const int64_t *dim, uint32_t rank, accel__arena *arena,
                                    int32_t **out, int64_t *n_out) {
  const qwen2_vl *m = user;
  const int64_t each = m->merge * m->merge;
  int64_t frames, patches;
  ACCEL_TRY(count_patches(m, values, n, dim, rank, &frames, &patches));
  *n_out = 3 * patches;
  int32_t *at = *out = accel__arena_array(arena, (size_t)*n_out, sizeof *at);
  int32_t *natural =
      m->window > 0 ? accel__arena_array(arena, (size_t)*n_out, sizeof *natural) : at;
  if (at == NULL || natural == NULL) return ACCEL_ERROR_OUT_OF_MEMORY;
  natural_positions(m, values, n, natural, natural + patches);
  memset(at + 2 * patches, 0, (size_t)patches * sizeof *at);
  if (m->window == 0) return ACCEL_OK;
  int32_t *order = natural + 2 * patches; /* [patches / each] */
  order_windows(m, values, n, order, NULL);
  for (int64_t k = 0; k < patches; k++) {
    at[k] = natural[order[k / each] * each + k % each];
    at[patches + k] = natural[patches + order[k / each] * each + k % each];
  }
  return ACCEL_OK;
}

/* ---- positions in the text ---- */

static accel_status picture_rows(const void *user, const int64_t *dim, uint32_t rank,
                                 const int64_t *size, int64_t *out) {
  const qwen2_vl *m = user;
  (void)dim;
  if (rank != 2)
    return accel__fail(ACCEL_ERROR_ARGUMENT, "pixel_values has rank %u, expected 2", rank);
  ACCEL_TRY(patches_of(m, size, 0, out));
  *out /= m->merge * m->merge;
  return ACCEL_OK;
}

/* Where picture `at` of the call begins at token `row`, of which `left` are to come in its
 * sequence; *next: position ids from there on, and behind it.  Returns its tokens in *n. */
static accel_status place_picture(const qwen2_vl *m, const accel__mrope_input *what, uint64_t at,
                                  uint64_t row, int64_t left, int64_t *next, int64_t *n,
                                  int32_t *out) {
  if (at >= what->pictures)
    return accel__fail(ACCEL_ERROR_ARGUMENT,
                       "input_ids show more pictures (token %lld) than image_grid_thw has, %llu",
                       (long long)m->image_token, (unsigned long long)what->pictures);
  const int64_t *grid = &what->sizes[3 * at];
  const int64_t h = grid[1] / m->merge, w = grid[2] / m->merge;
  int64_t found = 0;
  ACCEL_TRY(patches_of(m, grid, at, n));
  *n /= m->merge * m->merge;
  while (found < *n && found < left && what->ids[row + (uint64_t)found] == m->image_token) found++;
  if (found < *n)
    return accel__fail(
        ACCEL_ERROR_ARGUMENT,
        "input_ids have %lld image tokens (%lld) for picture %llu, image_grid_thw says %lld",
        (long long)found, (long long)m->image_token, (unsigned long long)at, (long long)*n);
  int32_t *time = out + row, *high = time + what->tokens, *wide = high + what->tokens;
  for (int64_t k = 0; k < *n; k++) {
    time[k] = (int32_t)(*next + k / (h * w));
    high[k] = (int32_t)(*next + k / w % h);
    wide[k] = (int32_t)(*next + k % w);
  }
  *next += h > w ? h : w;
  return ACCEL_OK;
}

/* Text counts on by one in all three parts; a picture's rows begin where it stands, and what
 * follows goes on behind the longer of its sides (get_rope_index). */
static accel_status mrope_positions(const void *user, const accel__mrope_input *what, int32_t *out,
                                    int32_t *rope_delta) {
  const qwen2_vl *m = user;
  uint64_t row = 0, picture = 0;
  for (uint32_t b = 0; b < what->n; b++) {
    int64_t next = 0, last = -1;
    for (int64_t i = 0, n; i < what->lengths[b]; i += n, row += (uint64_t)n) {
      n = 1;
      if (what->ids[row] == m->video_token)
        return accel__fail(ACCEL_ERROR_UNSUPPORTED,
                           "input_ids show a video (token %lld); videos are not supported",
                           (long long)m->video_token);
      if (what->ids[row] == m->image_token)
        ACCEL_TRY(place_picture(m, what, picture++, row, what->lengths[b] - i, &next, &n, out));
      else
        out[row] = out[row + what->tokens] = out[row + 2 * what->tokens] = (int32_t)next++;
      for (int k = 0; k < 3; k++) { /* the last row of a picture has the largest of each */
        const int64_t end = out[row + (uint64_t)n - 1 + (uint64_t)k * what->tokens];
        last = end > last ? end : last;
      }
    }
    if (rope_delta != NULL) rope_delta[b] = (int32_t)(last + 1 - what->lengths[b]);
  }
  if (picture == what->pictures) return ACCEL_OK;
  return accel__fail(
      ACCEL_ERROR_ARGUMENT, "input_ids show %llu pictures (token %lld), image_grid_thw has %llu",
      (unsigned long long)picture, (long long)m->image_token, (unsigned long long)what->pictures);
}

/* ---- the tower ---- */

/* [patches, width]: groups of rows that merge, in another order. */
static accel__tensor reorder(accel__build *b, const qwen2_vl *m, accel__tensor x, accel__dim merged,
                             accel__tensor order) {
  if (x < 0) return -1;
  accel__dim dims[2] = {accel__tensor_dim(b->p, x, 0), accel__const_dim(b->p, m->width)};
  x = accel__reshape(
      b->p, x, 2, (accel__dim[]){merged, accel__const_dim(b->p, m->merge * m->merge * m->width)});
  return accel__reshape(b->p, accel__gather(b->p, x, order), 2, dims);
}

/* Neighbours side by side, then projected: [patches, width] -> [merged, hidden of the text]. */
static accel__tensor merge(accel__build *b, const qwen2_vl *m, accel__tensor x, accel__dim merged) {
  const int64_t columns = m->merge * m->merge * m->width;
  x = m->block.rms ? accel__rms_layer(b, x, m->block.eps, 0.0, "merger.ln_q")
                   : accel__norm_layer(b, x, -1, m->block.eps, true, "merger.ln_q");
  x = accel__reshape(b->p, x, 2, (accel__dim[]){merged, accel__const_dim(b->p, columns)});
  x = accel__dense_layer(b, x, columns, true, -1,
                         &(accel__activation){.act = ACCEL_PLUGIN_ACT_GELU}, "merger.mlp.0");
  return accel__dense_layer(b, x, m->text->hidden, true, -1, NULL, "merger.mlp.2");
}

static accel__tensor look(accel__build *b, qwen2_vl *m) {
  accel__program *p = b->p;
  accel__dim merged = accel__symbol(p, "merged", 1, 0, 256),
             frames = accel__symbol(p, "frames", 1, 0, 1);
  accel__dim patches = accel__times(b, merged, accel__const_dim(p, m->merge * m->merge)),
             three = accel__const_dim(p, 3);
  accel__dim columns = accel__const_dim(p, m->channels * m->temporal * m->patch * m->patch);
  accel__tensor order = -1;
  accel__tensor x = accel__add_item(b, "pixel_values", ACCEL_PLUGIN_F32, 2,
                                    (accel__dim[]){patches, columns}, ACCEL__DEFAULT_REQUIRED);
  accel__tensor lengths = accel__add_derived(b, "patch_lengths", 1, &frames, &m->lengths);
  b->position_ids =
      accel__add_derived(b, "patch_positions", 2, (accel__dim[]){three, patches}, &m->positions);
  const int32_t whole = accel__space_ragged(p, "patches", lengths, patches, frames);
  int32_t near = whole;
  b->scope = "visual.";
  /* [patches, width] */
  x = accel__dense_layer(b, x, m->width, false, -1, NULL, "patch_embed.proj");
  if (m->window > 0) {
    accel__dim windows = accel__symbol(p, "windows", 1, 0, 16);
    lengths = accel__add_derived(b, "window_lengths", 1, &windows, &m->window_lengths);
    near = accel__space_ragged(p, "windows", lengths, patches, windows);
    order = accel__add_derived(b, "window_order", 1, &merged, &m->window_order);
    x = reorder(b, m, x, merged, order);
  }
  for (uint32_t i = 0; i < (uint32_t)m->layers; i++) {
    accel__at(p, 0, "visual.blocks.%u", i);
    b->space = m->whole[i] ? whole : near;
    x = accel__pre_norm_block(b, &m->block, x, "blocks.%u", i);
  }
  accel__at(p, 0, "visual.merger");
  x = merge(b, m, x, merged);
  accel__attr set = ACCEL_I(SCATTER_MODE, 0);
  if (order >= 0) /* row k becomes row order[k]: back to where the pictures have them */
    x = accel__node(p, ACCEL_PLUGIN_OP_SCATTER_ROWS, (accel__tensor[]){x, order, x}, 3, &set, 1,
                    NULL, 1);
  b->scope = NULL;
  accel__at(p, 0, "embeddings");
  return x;
}

static accel__tensor merge_images(accel__build *b, void *user, accel__tensor x) {
  qwen2_vl *m = user;
  if (m->features < 0) {
    const accel__aside kept = accel__step_aside(b);
    m->features = look(b, m);
    accel__back_from(b, &kept);
  }
  return accel__put_rows(b, x, m->features, m->image_token);
}

static accel_status build(const accel__model_request *request, const char *architecture,
                          accel__model *model) {
  accel__build b;
  const bool windows = strncmp(architecture, "Qwen2_5_VL", 10) == 0;
  const char *family = windows ? "qwen2_5_vl" : "qwen2_vl";
  ACCEL_TRY(accel__build_begin(&b, request, architecture, model, "model.language_model."));
  qwen2_vl *m = accel__arena_alloc(b.arena, sizeof *m);
  if (m == NULL || (m->text = accel__arena_alloc(b.arena, sizeof *m->text)) == NULL)
    return ACCEL_ERROR_OUT_OF_MEMORY;
  m->features = -1;
  m->image_token = 151655;
  m->video_token = 151656;
  b.spelling[0] = hub;
  b.spelling[1] = base;
  b.spelling[2] = tower;
  ACCEL_TRY(read_text(&b, family, m->text));
  ACCEL_TRY(read_tower(&b, family, windows, m));
  ACCEL_TRY(accel__enter_config(&b, NULL));
  const accel__field fields[] = {
      ACCEL_FIELD_INT("image_token_id", &m->image_token, 0, ACCEL__MAX_VOCAB),
      ACCEL_FIELD_INT("video_token_id", &m->video_token, 0, ACCEL__MAX_VOCAB)};
  ACCEL_TRY(accel__read_fields(&b, fields, sizeof fields / sizeof *fields));
  m->lengths = m->positions = m->window_lengths = m->window_order =
      (accel__derived){.from = "image_grid_thw", .shape_of = "pixel_values", .user = m};
  m->lengths.make = frame_lengths;
  m->positions.make = patch_positions;
  m->positions.lines = 3;
  m->window_lengths.make = window_lengths;
  m->window_order.make = window_order;
  m->image_tokens = (accel__image_tokens){.token = m->image_token,
                                          .video_token = m->video_token,
                                          .sizes = "image_grid_thw",
                                          .width = 3,
                                          .flat = true,
                                          .rows = picture_rows,
                                          .mrope_positions = mrope_positions,
                                          .user = m};
  model->image_tokens = &m->image_tokens;
  b.images.merge = merge_images;
  b.images.merge_user = m;
  return accel__decoder_build(&b, m->text);
}

static const char *const classes[] = {"Qwen2VLModel", "Qwen2VLForConditionalGeneration", NULL};
const accel__architecture accel__model_qwen2_vl = {
    .model_type = "qwen2_vl", .classes = classes, .build = build};
static const char *const windowed_classes[] = {"Qwen2_5_VLModel",
                                               "Qwen2_5_VLForConditionalGeneration", NULL};
const accel__architecture accel__model_qwen2_5_vl = {
    .model_type = "qwen2_5_vl", .classes = windowed_classes, .build = build};
