/* run_tasks.h - the tasks of POST /accel/run/{task}: inputs and answers as transformers' pipelines
 * have them. */
#ifndef ACCEL_SERVE_RUN_TASKS_H
#define ACCEL_SERVE_RUN_TASKS_H

#include "serve/serve_reply.h"

typedef struct run_job {
  serve_fields f;
  const struct run_task *task;
  const serve_model *model;
  const char *raw; /* the body, where it is a file itself and no JSON; NULL: it is JSON */
  size_t raw_n;
  bool single; /* one input, not in a list: the answer is not in one, either */
  uint32_t n;  /* inputs */
  const char *const *texts;
  const accel_media *media;
  serve_counts counts; /* of generations */
} run_job;

/* Reads the inputs and options, runs, and gives the answer; NULL: it has been answered already. */
typedef cJSON *run_task_fn(run_job *j);

typedef struct run_task {
  const char *name;
  const char *const *models; /* tasks of the models that serve it, closed by NULL */
  run_task_fn *run;
  bool adapters; /* its requests can run with an adapter */
} run_task;

/* ---- what the tasks share (run_common.c) ---- */

/* "inputs" as a text or a list of texts, and as files. */
bool job_texts(run_job *j);
bool job_media(run_job *j, serve_media_kind kind);
/* All options have been read: takes the model. */
bool job_ready(run_job *j);
/* Options of a generation, by the names of transformers and of text-generation-inference. */
void job_generation(run_job *j, accel_generate_params *how);
/* `status` is answered unless it is ACCEL_OK. */
bool job_done(run_job *j, accel_status status);
/* Lists [n][count[i]] of what `one` makes; of a single input its list alone. */
typedef cJSON *run_row_fn(const void *found, uint32_t i, uint32_t k);
cJSON *job_rows(const run_job *j, uint32_t n, const uint32_t *count, run_row_fn *one,
                const void *found);
/* [[{key: text}, ...], ...] of generations; of a single input its list alone.  `before`, [n] texts
 * that come in front, may be NULL. */
cJSON *job_generated(run_job *j, const accel_generations *found, const char *key,
                     const char *const *before);
/* The first of a list, for a single input; the list is deleted. */
cJSON *job_shape(const run_job *j, cJSON *rows);

/* "candidate_labels": a list, or "one, two"; NULL: it has been answered. */
const char *const *job_labels(run_job *j, uint32_t *n);

/* ---- the tasks ---- */

run_task_fn run_text_classification, run_token_classification,
    run_question_answering, /* run_text.c */
    run_zero_shot, run_fill_mask, run_text_generation, run_translation, run_summarization,
    run_text2text;
run_task_fn run_image_classification, run_audio_classification, run_zero_shot_image,
    run_zero_shot_audio,   /* run_media.c */
    run_document_question, /* run_documents.c */
    run_object_detection, run_image_segmentation, run_depth_estimation, run_image_features,
    run_image_to_text, run_visual_question, run_image_text_to_text, run_speech_recognition;

#endif
