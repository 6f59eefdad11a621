/* segmentation_queries.c - segments of models whose queries have a class and a mask each (DETR),
 * read as transformers' DetrImageProcessor reads them. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "processing/scores.h"
#include "tasks/segmentation.h"

/* What the model says, with room for what it comes to. */
typedef struct queries {
  const float *logits; /* [n, classes + 1], the last of which says "nothing" */
  int64_t n, classes, height, width;
  float *share; /* [n, classes + 1] softmax */
  float *mask;  /* [n, height, width] sigmoid; of what is kept, in order */
  float *score; /* [n] of what is kept */
  int64_t *label, kept;
} queries;

static void queries_free(queries *q) {
  free(q->share);
  free(q->mask);
  free(q->score);
  free(q->label);
}

static accel_status queries_of(const accel_tensor *logits, const accel_tensor *masks, queries *q) {
  *q = (queries){.logits = logits->data,
                 .n = logits->dim[1],
                 .classes = logits->dim[2] - 1,
                 .height = masks->dim[2],
                 .width = masks->dim[3]};
  const size_t n = (size_t)q->n, wide = (size_t)logits->dim[2],
               area = (size_t)(q->height * q->width);
  q->share = malloc(n * wide * sizeof *q->share);
  q->mask = malloc(n * area * sizeof *q->mask);
  q->score = malloc(n * sizeof *q->score);
  q->label = malloc(n * sizeof *q->label);
  if (!q->share || !q->mask || !q->score || !q->label)
    return accel__no_memory(n * area * sizeof *q->mask);
  for (size_t i = 0; i < n; i++) accel__softmax(q->logits + i * wide, wide, q->share + i * wide);
  return ACCEL_OK;
}

/* ---- panoptic, instance ---- */

/* Queries whose likeliest class is one, with a score above the threshold. */
static void keep(queries *q, const float *masks, float threshold) {
  const size_t wide = (size_t)q->classes + 1, area = (size_t)(q->height * q->width);
  for (int64_t i = 0; i < q->n; i++) {
    const float *share = q->share + (size_t)i * wide;
    const size_t best = accel__argmax(share, wide);
    if ((int64_t)best == q->classes || !(share[best] > threshold)) continue;
    q->score[q->kept] = share[best];
    q->label[q->kept] = (int64_t)best;
    float *to = q->mask + (size_t)q->kept++ * area;
    for (size_t k = 0; k < area; k++) to[k] = accel__sigmoid(masks[(size_t)i * area + k]);
  }
}

/* A kept query becomes a segment when enough of its own mask is left to it.  to->map holds the
 * numbers of queries and then those of segments: 1, 2 ..., 0 where there is none. */
static accel_status take_segments(const accel__picture_job *job, const queries *q,
                                  const uint64_t *over, double least, size_t pixels,
                                  accel__segmented *to) {
  const accel__model *model = job->ep->model;
  accel_segment *list = accel__arena_array(job->arena, (size_t)q->kept, sizeof *list);
  uint64_t *covered = calloc((size_t)q->kept, sizeof *covered);
  int32_t *id = calloc((size_t)q->kept, sizeof *id);
  accel_status status =
      list && covered && id ? ACCEL_OK : accel__no_memory((size_t)q->kept * sizeof *list);
  for (size_t i = 0; status == ACCEL_OK && i < pixels; i++) covered[to->map[i]]++;
  for (int64_t k = 0; status == ACCEL_OK && k < q->kept; k++) {
    if (!covered[k] || !over[k] || !((double)((float)covered[k] / (float)over[k]) > least))
      continue;
    const char *label = q->label[k] < model->num_labels ? model->labels[q->label[k]] : "?";
    id[k] = (int32_t)to->count + 1;
    list[to->count++] = (accel_segment){.id = id[k],
                                        .label_id = q->label[k],
                                        .label = accel__arena_string(job->arena, label),
                                        .score = rint((double)q->score[k] * 1e6) / 1e6,
                                        .pixels = covered[k],
                                        .area = (double)covered[k] / (double)pixels};
  }
  for (size_t i = 0; status == ACCEL_OK && i < pixels; i++) to->map[i] = id[to->map[i]];
  to->segment = list;
  free(covered);
  free(id);
  return status;
}

static accel_status segment_objects(const accel__picture_job *job, queries *q, const float *masks,
                                    const int32_t side[2], const accel_segment_params *how,
                                    accel__segmented *to) {
  const size_t pixels = (size_t)side[0] * (size_t)side[1];
  keep(q, masks, (float)how->threshold);
  if (q->kept == 0) {
    for (size_t i = 0; i < pixels; i++) to->map[i] = -1;
    return ACCEL_OK;
  }
  const accel__score_maps maps = {q->mask, q->score, q->kept, q->height, q->width};
  uint64_t *over = malloc((size_t)q->kept * sizeof *over);
  accel_status status =
      over ? accel__best_maps(job, &maps, side, to->map, (float)how->mask_threshold, over)
           : accel__no_memory((size_t)q->kept * sizeof *over);
  if (status == ACCEL_OK) status = take_segments(job, q, over, how->overlap_threshold, pixels, to);
  free(over);
  return status;
}

/* ---- semantic ---- */

typedef struct mixing {
  const queries *q;
  float *class; /* [classes, height, width] */
} mixing;

/* Of class c, at each place: the sum over queries of how likely the class is times how much the
 * place is theirs. */
static void class_task(void *arg, uint32_t c, uint32_t worker) {
  const mixing *m = arg;
  const queries *q = m->q;
  const size_t area = (size_t)(q->height * q->width), wide = (size_t)q->classes + 1;
  float *to = m->class + c * area;
  (void)worker;
  memset(to, 0, area * sizeof *to);
  for (size_t i = 0; i < (size_t)q->n; i++) {
    const float share = q->share[i * wide + c], *mask = q->mask + i * area;
    for (size_t k = 0; k < area; k++) to[k] += share * mask[k];
  }
}

static accel_status segment_mixed(const accel__picture_job *job, const queries *q,
                                  const float *masks, const int32_t side[2], accel__segmented *to) {
  const size_t area = (size_t)(q->height * q->width),
               bytes = (size_t)q->classes * area * sizeof(float);
  mixing m = {q, malloc(bytes)};
  if (!m.class) return accel__no_memory(bytes);
  for (size_t k = 0; k < (size_t)q->n * area; k++) q->mask[k] = accel__sigmoid(masks[k]);
  accel__pool_run(job->ep->ctx->pool, (uint32_t)q->classes, class_task, &m);
  const accel__score_maps classes = {m.class, NULL, q->classes, q->height, q->width};
  accel_status status = accel__segment_classes(job, &classes, side, to);
  free(m.class);
  return status;
}

accel_status accel__segment_queries(const accel__picture_job *job, const accel_tensors *found,
                                    const int32_t side[2], const accel_segment_params *how,
                                    accel__segmented *to) {
  const accel_tensor *logits = accel__find_tensor(found, "logits"),
                     *masks = accel__find_tensor(found, "pred_masks");
  queries q;
  accel_status status = queries_of(logits, masks, &q);
  if (status == ACCEL_OK)
    status = !strcmp(how->subtask, "semantic")
                 ? segment_mixed(job, &q, masks->data, side, to)
                 : segment_objects(job, &q, masks->data, side, how, to);
  queries_free(&q);
  return status;
}
