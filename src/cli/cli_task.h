/* cli_task.h - tasks whose inputs are rows of texts, or of names of files: what their sub-commands
 * and accel map share. */
#ifndef ACCEL_CLI_CLI_TASK_H
#define ACCEL_CLI_CLI_TASK_H

#include "cli/cli_print.h"

enum { CLI_TASK_FIELDS = 3 };

typedef struct cli_rows {
  uint32_t n;
  const char *const *field[CLI_TASK_FIELDS]; /* [n]; NULL where a row lacks an optional field */
} cli_rows;

/* What the library found, by the kind that the task knows; `own`: the same pointer, or what the task
 * made itself. */
typedef union cli_found {
  void *own;
  accel_embeddings *embeddings;
  accel_classifications *labels;
  accel_token_entities *entities;
  accel_answers *answers;
  accel_fills *fills;
  accel_generations *generations;
  accel_detections *objects;
  accel_segmentations *segments;
  accel_tensors *tensors;
  struct cli_document_rows *documents;
} cli_found;

typedef struct cli_task {
  const char *name;                   /* of accel map --task */
  const char *command;                /* the sub-command whose options it takes */
  const char *model_task;             /* accel_init_params.task */
  const char *field[CLI_TASK_FIELDS]; /* what a row holds, NULL behind the last */
  bool optional;                      /* a row may lack all fields but field[0] */
  uint32_t list;   /* the field that is a JSON list in JSON Lines, and its text here; 0: none is */
  uint32_t window; /* rows that are given to the library at once: enough of them to be packed */
  uint32_t shard;  /* rows of a file of results, unless it is said */
  /* Options into *state, before the model is opened; NULL: there is none.  0 or an exit code. */
  int (*begin)(cli_run *run, void **state);
  accel_status (*call)(cli_run *run, void *state, accel_endpoint *endpoint, const cli_rows *rows,
                       cli_found *found);
  /* The result of row i, one JSON value. */
  void (*print)(cli_json *json, const void *found, uint32_t i);
  /* Why row i alone has no result, NULL where it has one; NULL: rows fail by `call` only. */
  const char *(*failed)(const void *found, uint32_t i);
  void (*release)(void *found);
  void (*end)(void *state); /* NULL: nothing */
} cli_task;

extern const cli_task cli_task_embed, cli_task_classify, cli_task_classify_images,
    cli_task_classify_sounds, cli_task_tokens, cli_task_qa, cli_task_fill_mask, cli_task_rerank,
    cli_task_generate, cli_task_translate, cli_task_summarize, cli_task_caption, cli_task_vqa,
    cli_task_document_qa, cli_task_transcribe, cli_task_detect_objects, cli_task_segment,
    cli_task_image_features, cli_task_zero_shot_image, cli_task_zero_shot_audio, cli_task_zero_shot;

/* `begin` of tasks with labels: 0 where --labels names any, else the exit code of a line that says
 * what is missing.  state: not looked at, may be NULL. */
int cli_begin_labels(cli_run *run, void **state);

/* The files of field 0 as media; an error of the library's kind.  free() it. */
accel_media *cli_row_media(const cli_rows *rows);
/* A list of count[i] objects, whose members `item` writes. */
void cli_json_row(cli_json *json, const char *key, const void *found, uint32_t i,
                  const uint32_t *count, cli_json_item_fn *item);

/* Results that are accel_classifications: the labels of row i; and their end. */
void cli_json_labels(cli_json *json, const void *found, uint32_t i);
void cli_free_labels(void *found);

#endif
