/* image_tiles.c - the autoencoder over pieces of a picture (enable_tiling of diffusers' AutoencoderKL),
 * so that its memory is bounded: overlapping tiles, each blended into the one above and the one to
 * the left of it. */
#include <stdlib.h>
#include <string.h>

#include "models/model_build.h"
#include "tasks/image_job.h"

/* One way through the autoencoder. */
typedef struct pass {
  const char *entry, *input, *output;
  int64_t channels, height, width;             /* of what goes in */
  int64_t out_channels, out_height, out_width; /* of what comes out */
  int64_t side, step;                          /* of a tile that goes in; from one to the next */
  int64_t blend, keep;                         /* of what comes out: rows blended, and kept */
} pass;

typedef struct tile {
  float *data; /* [out_channels, height, width] */
  int64_t height, width;
} tile;

static int64_t smaller(int64_t a, int64_t b) { return a < b ? a : b; }

static accel_status plan(const accel__image_job *job, bool decodes, pass *p) {
  const int64_t r = job->reduction, latent = job->tile / r, height = job->height * r,
                width = job->width * r;
  const double rest = 0.75; /* diffusers' tile_overlap_factor is 0.25 */
  *p = decodes ? (pass){.entry = "decode_latents",
                        .input = "latents",
                        .output = "pixels",
                        .channels = job->channels,
                        .height = job->height,
                        .width = job->width,
                        .out_channels = 3,
                        .out_height = height,
                        .out_width = width,
                        .side = latent,
                        .blend = job->tile / 4,
                        .keep = job->tile - job->tile / 4}
               : (pass){.entry = "encode_pixels",
                        .input = "pixels",
                        .output = "latent_dist.parameters",
                        .channels = 3,
                        .height = height,
                        .width = width,
                        .out_channels = 2 * job->channels,
                        .out_height = job->height,
                        .out_width = job->width,
                        .side = job->tile,
                        .blend = latent / 4,
                        .keep = latent - latent / 4};
  p->step = (int64_t)((double)p->side * rest);
  const bool fits = p->step > 0 && (decodes ? p->step * r == p->keep : p->step == p->keep * r);
  return fits ? ACCEL_OK
              : accel__fail(ACCEL_ERROR_UNSUPPORTED,
                            "%s: vae: field 'sample_size' is %lld: tiles of that side do not join",
                            job->ep->config.name, (long long)job->tile);
}

/* What the autoencoder makes of the part of x[channels, height, width] at (top, left). */
static accel_status run_tile(const accel__image_job *job, const pass *p, const float *x,
                             int64_t top, int64_t left, tile *out) {
  const int64_t rows = smaller(p->side, p->height - top),
                columns = smaller(p->side, p->width - left);
  const accel__model_entry *e = accel__model_entry_of(job->ep->model, p->entry);
  accel__batch batch = {0};
  accel__result found = {0};
  float *part = malloc((size_t)(p->channels * rows * columns) * sizeof *part);
  if (!part) return accel__no_memory((size_t)(p->channels * rows * columns) * sizeof *part);
  for (int64_t c = 0; c < p->channels; c++)
    for (int64_t r = 0; r < rows; r++)
      memcpy(part + (c * rows + r) * columns, x + (c * p->height + top + r) * p->width + left,
             (size_t)columns * sizeof *part);
  batch.item[accel__entry_input(e, p->input)] =
      (accel__item){.data = part, .rank = 4, .dim = {1, p->channels, rows, columns}};
  accel_status status = accel__entry_run(job->ep, p->entry, p->output, &batch, &found);
  free(part);
  free(out->data);
  *out = (tile){.data = status == ACCEL_OK ? found.data : NULL,
                .height = rows * p->out_height / p->height,
                .width = columns * p->out_width / p->width};
  if (status != ACCEL_OK) free(found.data);
  return status;
}

/* The last rows of `above` pass into the first of t. */
static void blend_down(const pass *p, const tile *above, tile *t) {
  const int64_t n = smaller(p->blend, smaller(above->height, t->height));
  for (int64_t c = 0; c < p->out_channels; c++)
    for (int64_t y = 0; y < n; y++) {
      const float share = (float)((double)y / (double)n), rest = (float)(1 - (double)y / (double)n);
      const float *from = above->data + (c * above->height + above->height - n + y) * above->width;
      float *to = t->data + (c * t->height + y) * t->width;
      for (int64_t x = 0; x < t->width; x++) to[x] = from[x] * rest + to[x] * share;
    }
}

/* The same of the last columns of `before`. */
static void blend_across(const pass *p, const tile *before, tile *t) {
  const int64_t n = smaller(p->blend, smaller(before->width, t->width));
  for (int64_t r = 0; r < p->out_channels * t->height; r++) {
    const float *from = before->data + (r + 1) * before->width - n;
    float *to = t->data + r * t->width;
    for (int64_t x = 0; x < n; x++)
      to[x] = from[x] * (float)(1 - (double)x / (double)n) + to[x] * (float)((double)x / (double)n);
  }
}

static void copy_kept(const pass *p, const tile *t, int64_t top, int64_t left, float *out) {
  const int64_t rows = smaller(p->keep, t->height), columns = smaller(p->keep, t->width);
  for (int64_t c = 0; c < p->out_channels; c++)
    for (int64_t r = 0; r < rows; r++)
      memcpy(out + (c * p->out_height + top + r) * p->out_width + left,
             t->data + (c * t->height + r) * t->width, (size_t)columns * sizeof *out);
}

static accel_status run_row(const accel__image_job *job, const pass *p, const float *x, int64_t row,
                            const tile *above, tile *tiles, float *out) {
  for (int64_t k = 0; k * p->step < p->width; k++) {
    ACCEL_TRY(accel__check_cancelled(job->ep->ctx));
    ACCEL_TRY(run_tile(job, p, x, row * p->step, k * p->step, &tiles[k]));
    if (row > 0) blend_down(p, &above[k], &tiles[k]);
    if (k > 0) blend_across(p, &tiles[k - 1], &tiles[k]);
    copy_kept(p, &tiles[k], row * p->keep, k * p->keep, out);
  }
  return ACCEL_OK;
}

bool accel__image_tiles(const accel__image_job *job) {
  const int64_t r = job->reduction;
  return job->tile > 0 && (job->height > job->tile / r || job->width > job->tile / r);
}

accel_status accel__image_count_tiles(const accel__image_job *job, uint32_t *n, int64_t *height,
                                      int64_t *width) {
  pass p;
  ACCEL_TRY(plan(job, true, &p));
  *n = (uint32_t)(((p.height + p.step - 1) / p.step) * ((p.width + p.step - 1) / p.step));
  *height = smaller(p.side, p.height);
  *width = smaller(p.side, p.width);
  return ACCEL_OK;
}

accel_status accel__image_in_tiles(const accel__image_job *job, bool decodes, const float *x,
                                   float **out) {
  pass p;
  ACCEL_TRY(plan(job, decodes, &p));
  const size_t across = (size_t)((p.width + p.step - 1) / p.step),
               bytes = (size_t)(p.out_channels * p.out_height * p.out_width) * sizeof **out;
  tile *rows[2] = {calloc(across, sizeof **rows), calloc(across, sizeof **rows)};
  *out = malloc(bytes);
  accel_status status = rows[0] && rows[1] && *out ? ACCEL_OK : accel__no_memory(bytes);
  for (int64_t i = 0; status == ACCEL_OK && i * p.step < p.height; i++)
    status = run_row(job, &p, x, i, rows[(i + 1) % 2], rows[i % 2], *out);
  for (size_t k = 0; k < 2 * across; k++)
    if (rows[k % 2]) free(rows[k % 2][k / 2].data);
  free(rows[0]);
  free(rows[1]);
  if (status == ACCEL_OK) return status;
  free(*out);
  *out = NULL;
  return status;
}
