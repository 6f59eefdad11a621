/* pictures.c - transformers' pipelines over pictures: image-classification, object-detection,
 * zero-shot-image-classification. Each picture is a run of its own, as in those pipelines: padding
 * to a common size would change the numbers of some models. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "tasks/pictures.h"
#include "dispatch/pack.h"
#include "generate/image_text.h"
#include "processing/item_run.h"
#include "processing/label_texts.h"
#include "processing/processor.h"
#include "processing/scores.h"
#include "processing/result.h"

/* The pictures of a call. */
typedef struct pictures {
  accel__picture_job *job;
  const accel_media *media;
  const char *const *names;
  uint32_t n_names;
  accel__picture_take *take;
  void *user;
} pictures;

/* What a run of one gave. */
typedef struct outcome {
  int32_t side[2];
  accel_tensors *found;
} outcome;

static accel_status run_picture(void *user, accel_endpoint *ep, uint32_t i, void **found) {
  const pictures *p = user;
  const accel__picture_job *job = p->job;
  accel__image image;
  accel_tensors *in = NULL;
  outcome *o = calloc(1, sizeof *o);
  if (!o) return accel__no_memory(sizeof *o);
  accel_status status = accel__media_image(&p->media[i], &image);
  if (status == ACCEL_OK) {
    o->side[0] = image.height;
    o->side[1] = image.width;
    status = accel__image_tensors(&job->processor, &image, 1, ep->ctx->pool, NULL, &in);
    accel__image_free(&image);
  }
  if (status == ACCEL_OK)
    status = accel__run_media(ep, job->texts, in, p->names, p->n_names, &o->found);
  accel__tensors_free(&in);
  if (status == ACCEL_OK)
    *found = o;
  else
    free(o);
  return status;
}

static accel_status take_picture(void *user, uint32_t i, void *found) {
  const pictures *p = user;
  outcome *o = found;
  p->job->height[i] = o->side[0];
  p->job->width[i] = o->side[1];
  const accel_status status = p->take(p->user, i, o->side, o->found);
  accel__tensors_free(&o->found);
  free(o);
  return status;
}

accel_status accel__pictures_run(accel__picture_job *job, const accel_media *media, uint32_t n,
                                 const char *const *names, uint32_t n_names,
                                 accel__picture_take *take, void *user) {
  pictures p = {
      .job = job, .media = media, .names = names, .n_names = n_names, .take = take, .user = user};
  job->height = accel__arena_array(job->arena, n, sizeof *job->height);
  job->width = accel__arena_array(job->arena, n, sizeof *job->width);
  if (!job->height || !job->width) return ACCEL_ERROR_OUT_OF_MEMORY;
  return accel__run_items(
      job->ep, &(accel__item_run){.n = n, .run = run_picture, .take = take_picture, .user = &p});
}

accel_status accel__picture_begin(accel__picture_job *job, const char *task) {
  const char *directory;
  if (task) ACCEL_TRY(accel__task_check(job->ep, task));
  ACCEL_TRY(accel__media_directory(job->ep, &directory));
  return accel__image_processor_load(directory, &job->processor);
}

/* ---- labels ---- */

/* Scores of n_labels labels, picture by picture. */
typedef struct labelling {
  accel__picture_job job;
  const char *const *label;
  uint32_t n_labels, top_k; /* 0: all */
  accel__score_function function;
  uint32_t *count;
  const accel_label_score **score;
} labelling;

static accel_status take_scores(void *user, uint32_t i, const int32_t side[2],
                                const accel_tensors *found) {
  labelling *to = user;
  (void)side;
  to->count[i] = to->top_k;
  return accel__rank_labels(found->item[0].data, to->label, to->n_labels, to->function,
                            to->job.arena, &to->score[i], &to->count[i]);
}

static bool allocate_scores(labelling *to, uint32_t n, void *result) {
  to->job.arena = accel__task_arena(result);
  to->count = accel__arena_array(to->job.arena, n, sizeof *to->count);
  to->score = accel__arena_array(to->job.arena, n, sizeof *to->score);
  return to->count && to->score;
}

accel_status accel__classify_images(accel_endpoint *ep, const accel_media *images, uint32_t n,
                                    const accel_classify_params *params,
                                    accel_classifications **out) {
  static const char *const names[] = {"logits"};
  accel_classifications *result = accel__task_result(sizeof *result);
  labelling to = {.job.ep = ep,
                  .label = ep->model->labels,
                  .n_labels = (uint32_t)ep->model->num_labels,
                  .top_k = params->top_k};
  if (!result) return ACCEL_ERROR_OUT_OF_MEMORY;
  accel_status status = allocate_scores(&to, n, result)
                            ? accel__picture_begin(&to.job, "image-classification")
                            : ACCEL_ERROR_OUT_OF_MEMORY;
  if (status == ACCEL_OK)
    status = accel__choose_function(ep->model, params->function, &to.function);
  if (status == ACCEL_OK)
    status = accel__pictures_run(&to.job, images, n, names, 1, take_scores, &to);
  *result = (accel_classifications){.n = n, .count = to.count, .score = to.score};
  *out = accel__task_finish(result, status);
  return status;
}

/* ---- zero-shot: labels as sentences ---- */

accel_status accel__zero_shot_image(accel_endpoint *ep, const accel_media *images, uint32_t n,
                                    const char *const *labels, uint32_t n_labels,
                                    const char *hypothesis, accel_classifications **out) {
  static const char *const names[] = {"logits_per_image"};
  const bool siglip = strstr(ep->model->model_type, "siglip") != NULL;
  accel_classifications *result = accel__task_result(sizeof *result);
  labelling to = {.job.ep = ep,
                  .label = labels,
                  .n_labels = n_labels,
                  .function = siglip ? ACCEL__SCORE_SIGMOID : ACCEL__SCORE_SOFTMAX};
  accel_tensors *texts = NULL;
  accel_status status = ACCEL_OK;
  if (!result) return ACCEL_ERROR_OUT_OF_MEMORY;
  if (!allocate_scores(&to, n, result)) ACCEL_GOTO(ACCEL_ERROR_OUT_OF_MEMORY);
  ACCEL_GOTO(accel__processor_check(ep, "zero-shot-image-classification"));
  ACCEL_GOTO(accel__picture_begin(&to.job, "zero-shot-image-classification"));
  const accel__encode_options how = {
      .add_special_tokens = true,
      .truncation = ACCEL__TRUNCATE_LONGEST_FIRST,
      .max_length = siglip ? 64 : accel__processor_for(ep)->max_length};
  ACCEL_GOTO(accel__label_tensors(ep, labels, n_labels, hypothesis, &how, siglip ? 64 : 0, &texts));
  to.job.texts = texts;
  ACCEL_GOTO(accel__pictures_run(&to.job, images, n, names, 1, take_scores, &to));
  *result = (accel_classifications){.n = n, .count = to.count, .score = to.score};
done:
  accel__tensors_free(&texts);
  *out = accel__task_finish(result, status);
  return status;
}

/* ---- objects ---- */

static accel_detection object_of(const accel__picture_job *job, double score, size_t id,
                                 const float *box, const int32_t side[2]) {
  const accel__model *model = job->ep->model;
  const char *label = id < (size_t)model->num_labels ? model->labels[id] : "?";
  return (accel_detection){.score = score,
                           .id = (int64_t)id,
                           .label = accel__arena_string(job->arena, label),
                           .xmin = (box[0] - 0.5f * box[2]) * (float)side[1],
                           .ymin = (box[1] - 0.5f * box[3]) * (float)side[0],
                           .xmax = (box[0] + 0.5f * box[2]) * (float)side[1],
                           .ymax = (box[1] + 0.5f * box[3]) * (float)side[0]};
}

typedef struct scored {
  float score;
  uint32_t at; /* query * classes + class */
} scored;

static int by_score(const void *a, const void *b) {
  const scored *x = a, *y = b;
  if (x->score != y->score) return x->score < y->score ? 1 : -1;
  return x->at < y->at ? -1 : x->at > y->at;
}

/* RT-DETR: logits [1, queries, classes] score each class of a query alone; as many objects as there
 * are queries at most, best first. */
static accel_status take_scored(const accel__picture_job *job, const accel_tensors *found,
                                const int32_t side[2], double threshold,
                                const accel_detection **out, uint32_t *count) {
  const accel_tensor *logits = accel__find_tensor(found, "logits"),
                     *boxes = accel__find_tensor(found, "pred_boxes");
  const size_t queries = (size_t)logits->dim[1], classes = (size_t)logits->dim[2];
  accel_detection *list = accel__arena_array(job->arena, queries, sizeof *list);
  scored *all = malloc((queries * classes + 1) * sizeof *all);
  size_t n = 0;
  *out = list;
  *count = 0;
  if (!list || !all) {
    free(all);
    return accel__no_memory(queries * classes * sizeof *all);
  }
  for (size_t i = 0; i < queries * classes; i++) {
    const float score = 1.0f / (1.0f + expf(-((const float *)logits->data)[i]));
    if ((double)score > threshold) all[n++] = (scored){score, (uint32_t)i};
  }
  qsort(all, n, sizeof *all, by_score);
  for (size_t i = 0; i < n && i < queries; i++)
    list[(*count)++] = object_of(job, all[i].score, all[i].at % classes,
                                 (const float *)boxes->data + 4 * (all[i].at / classes), side);
  free(all);
  return ACCEL_OK;
}

/* logits [1, queries, classes + 1], the last of which says "nothing"; pred_boxes [1, queries, 4]:
 * centre and sides, of 1. */
static accel_status take_objects(const accel__picture_job *job, const accel_tensors *found,
                                 const int32_t side[2], double threshold,
                                 const accel_detection **out, uint32_t *count) {
  const accel_tensor *logits = accel__find_tensor(found, "logits"),
                     *boxes = accel__find_tensor(found, "pred_boxes");
  const size_t queries = (size_t)logits->dim[1], classes = (size_t)logits->dim[2];
  accel_detection *list = accel__arena_array(job->arena, queries, sizeof *list);
  float *score = malloc(classes * sizeof *score);
  *out = list;
  *count = 0;
  if (!list || !score) {
    free(score);
    return accel__no_memory(classes * sizeof *score);
  }
  for (size_t q = 0; q < queries && classes > 1; q++) {
    const float *box = (const float *)boxes->data + 4 * q;
    accel__softmax((const float *)logits->data + q * classes, classes, score);
    const size_t best = accel__argmax(score, classes - 1);
    if (!(score[best] > threshold)) continue;
    list[(*count)++] = object_of(job, score[best], best, box, side);
  }
  free(score);
  return ACCEL_OK;
}

/* Florence-2: what it answers to the task that asks for objects; it scores none. */
static accel_status told_objects(accel_endpoint *ep, const accel_media *images, uint32_t n,
                                 accel_detections **out) {
  const accel_generate_params how = accel__generate_defaults();
  accel_detections *result = accel__task_result(sizeof *result);
  accel_image_prompt *prompts = calloc((size_t)n + 1, sizeof *prompts);
  accel_region_answers *found = NULL;
  accel_status status = ACCEL_OK;
  *out = NULL;
  if (!result || !prompts) ACCEL_GOTO(accel__no_memory(n * sizeof *prompts));
  accel__arena *arena = accel__task_arena(result);
  uint32_t *count = accel__arena_array(arena, n, sizeof *count);
  const accel_detection **object = accel__arena_array(arena, n, sizeof *object);
  int32_t *height = accel__arena_array(arena, n, sizeof *height),
          *width = accel__arena_array(arena, n, sizeof *width);
  if (!count || !object || !height || !width) ACCEL_GOTO(ACCEL_ERROR_OUT_OF_MEMORY);
  for (uint32_t i = 0; i < n; i++)
    prompts[i] = (accel_image_prompt){ACCEL_PROMPT_TEXT, "<OD>", &images[i], 1};
  ACCEL_GOTO(accel__generate_regions(ep, prompts, n, &how, &found));
  for (uint32_t i = 0; i < found->n; i++) {
    const accel_region_answer *a = &found->item[i];
    if (i && a->prompt == found->item[i - 1].prompt) continue; /* the best sequence */
    accel_detection *list = accel__arena_array(arena, (size_t)a->n + 1, sizeof *list);
    if (!list) ACCEL_GOTO(ACCEL_ERROR_OUT_OF_MEMORY);
    for (uint32_t k = 0; k < a->n; k++) {
      const int32_t *box = a->region[k].outline[0];
      list[k] = (accel_detection){.score = NAN,
                                  .id = -1,
                                  .label = accel__arena_string(arena, a->region[k].label),
                                  .xmin = (float)box[0],
                                  .ymin = (float)box[1],
                                  .xmax = (float)box[2],
                                  .ymax = (float)box[3]};
      if (!list[k].label) ACCEL_GOTO(ACCEL_ERROR_OUT_OF_MEMORY);
    }
    object[a->prompt] = list;
    count[a->prompt] = a->n;
    height[a->prompt] = a->height;
    width[a->prompt] = a->width;
  }
  *result = (accel_detections){
      .n = n, .count = count, .object = object, .height = height, .width = width};
done:
  free(prompts);
  if (found) accel__task_free(found);
  if (result) *out = accel__task_finish(result, status);
  return status;
}

/* Objects, picture by picture. */
typedef struct detecting {
  accel__picture_job job;
  double threshold;
  uint32_t *count;
  const accel_detection **object;
} detecting;

static accel_status take_detections(void *user, uint32_t i, const int32_t side[2],
                                    const accel_tensors *found) {
  detecting *to = user;
  const bool alone = strncmp(to->job.ep->model->model_type, "rt_detr", 7) == 0;
  return (alone ? take_scored : take_objects)(&to->job, found, side, to->threshold, &to->object[i],
                                              &to->count[i]);
}

accel_status accel__detect_objects(accel_endpoint *ep, const accel_media *images, uint32_t n,
                                   const accel_detect_params *params, accel_detections **out) {
  static const char *const names[] = {"logits", "pred_boxes"};
  if (accel__names_regions(ep)) return told_objects(ep, images, n, out);
  accel_detections *result = accel__task_result(sizeof *result);
  detecting to = {.job.ep = ep, .threshold = params->threshold};
  if (!result) return ACCEL_ERROR_OUT_OF_MEMORY;
  accel__arena *arena = to.job.arena = accel__task_arena(result);
  to.count = accel__arena_array(arena, n, sizeof *to.count);
  to.object = accel__arena_array(arena, n, sizeof *to.object);
  accel_status status = to.count && to.object ? accel__picture_begin(&to.job, "object-detection")
                                              : ACCEL_ERROR_OUT_OF_MEMORY;
  if (status == ACCEL_OK)
    status = accel__pictures_run(&to.job, images, n, names, 2, take_detections, &to);
  *result = (accel_detections){.n = n,
                               .count = to.count,
                               .object = to.object,
                               .height = to.job.height,
                               .width = to.job.width};
  *out = accel__task_finish(result, status);
  return status;
}
