/* image_safety.c - run_safety_checker of diffusers' pipelines: pictures that are nearer to a concept than
 * it allows become black. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/file.h"
#include "models/model_build.h"
#include "tasks/image_job.h"

static accel_status read_processor(const accel__image_job *job, accel__arena *arena,
                                   accel__image_processor *out) {
  const char *path =
      job->ep->directory ? accel__path_join(arena, job->ep->directory, "feature_extractor") : NULL;
  if (!path) return ACCEL_ERROR_OUT_OF_MEMORY;
  const accel_status status = accel__image_processor_load(path, out);
  if (status != ACCEL_ERROR_NOT_FOUND) return status;
  return accel__remedy(status,
                       "the safety checker needs the pipeline's feature_extractor: fetch it, or "
                       "leave the checker out (--no-safety, in Python safety_checker=None)");
}

int64_t accel__safety_side(const accel__image_job *job) {
  const accel__model_entry *e = accel__model_entry_of(job->ep->model, "safety");
  if (!e) return 0;
  const accel__tensor x = e->inputs[accel__entry_input(e, "pixel_values")].tensor;
  const accel_plugin_program *program = accel__program_view(job->ep->model->program);
  return program->dim[program->tensor[x].dim[2]].c;
}

/* The pictures that the extractor makes are of the size that the checker takes. */
static accel_status check_side(const accel__image_job *job, const accel__image_processor *p) {
  const int64_t side = accel__safety_side(job);
  const accel__size *size = p->do_center_crop ? &p->crop_size : &p->size;
  if (size->height == side && size->width == side) return ACCEL_OK;
  return accel__fail(ACCEL_ERROR_FORMAT,
                     "%s: feature_extractor: field '%s' is %d x %d, but the safety checker takes "
                     "pictures of %lld x %lld",
                     job->ep->name, p->do_center_crop ? "crop_size" : "size", size->height,
                     size->width, (long long)side, (long long)side);
}

accel_status accel__safety_open(accel__image_job *job, accel__arena *arena) {
  if (!accel__model_entry_of(job->ep->model, "safety")) return ACCEL_OK;
  accel__image_processor *p = accel__arena_alloc(arena, sizeof *p);
  if (!p) return ACCEL_ERROR_OUT_OF_MEMORY;
  ACCEL_TRY(read_processor(job, arena, p));
  job->checker = p;
  return check_side(job, p);
}

/* Is a cosine beyond its threshold, as diffusers rounds the difference to three digits? */
static bool beyond(float score, float adjustment) {
  return rintf((score + adjustment) * 1000.0f) > 0;
}

enum { SPECIAL, CONCEPTS, OUTPUTS };

/* What the checker says of one picture. */
static accel_status run_checker(const accel__image_job *job, const accel__pixels *pixels,
                                accel__result found[OUTPUTS]) {
  static const char *const names[OUTPUTS] = {"special_scores", "concept_scores"};
  const accel__model_entry *e = accel__model_entry_of(job->ep->model, "safety");
  accel__batch batch = {0};
  accel__item item = {.data = pixels->values, .rank = pixels->rank};
  for (uint32_t i = 0; i < pixels->rank; i++) item.dim[i] = pixels->dim[i];
  accel__entry_set(&batch, e, "pixel_values", item);
  return accel__entry_run_all(job->ep, "safety", names, OUTPUTS, &batch, found);
}

/* A special concept makes all that are looked at behind it count by a hundredth more. */
static accel_status judge(const accel__image_job *job, const accel__result found[OUTPUTS],
                          bool *flagged) {
  float adjustment = 0;
  *flagged = false;
  for (int kind = 0; kind < OUTPUTS; kind++) {
    const float *score = found[kind].data;
    for (uint64_t i = 0; i < found[kind].bytes / sizeof *score; i++) {
      if (!isfinite(score[i]))
        return accel__fail(ACCEL_ERROR_NONFINITE,
                           "%s: the safety checker's scores are not finite at precision %s",
                           job->ep->name, job->ep->placement.precision);
      if (!beyond(score[i], adjustment)) continue;
      if (kind == SPECIAL)
        adjustment = 0.01f;
      else
        *flagged = true;
    }
  }
  return ACCEL_OK;
}

accel_status accel__safety_check(const accel__image_job *job, int64_t width, int64_t height,
                                 uint8_t *rgb, int32_t *flagged) {
  const accel__image image = {
      .pixels = rgb, .width = (int32_t)width, .height = (int32_t)height, .borrowed = true};
  accel__pixels pixels;
  accel__result found[OUTPUTS] = {0};
  bool bad = false;
  *flagged = -1;
  if (!job->checker) return ACCEL_OK;
  ACCEL_TRY(accel__pixels_of(job->checker, &image, 1, job->ep->ctx->pool, &pixels));
  accel_status status = run_checker(job, &pixels, found);
  if (status == ACCEL_OK) status = judge(job, found, &bad);
  accel__pixels_free(&pixels);
  for (int i = 0; i < OUTPUTS; i++) free(found[i].data);
  *flagged = bad;
  if (bad) memset(rgb, 0, (size_t)(3 * width * height));
  return status;
}
