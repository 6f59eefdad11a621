/* florence_tasks.h - what Florence2Processor writes for a task token, and what its
 * post_process_generation reads out of the answer: labels, and places in the picture as tokens
 * <loc_0> .. <loc_999>, thousandths of its sides. */
#ifndef ACCEL_GENERATE_FLORENCE_TASKS_H
#define ACCEL_GENERATE_FLORENCE_TASKS_H

#include "accel/generate.h"
#include "core/arena.h"
#include "core/text.h"

/* How an answer is read. */
typedef enum accel__florence_answer {
  ACCEL__FLORENCE_TEXT, /* of every prompt without a task token as well */
  ACCEL__FLORENCE_OCR,
  ACCEL__FLORENCE_BOXES,     /* of described objects */
  ACCEL__FLORENCE_PROPOSALS, /* boxes without a description */
  ACCEL__FLORENCE_PHRASES,
  ACCEL__FLORENCE_POLYGONS,
  ACCEL__FLORENCE_EITHER /* polygons where the answer has some, else boxes */
} accel__florence_answer;

/* post_processor_config of processor_config.json. */
typedef struct accel__florence_rules {
  double area_threshold; /* ocr: share of the picture that a text covers at least */
  const char **banned;   /* [n_banned] phrase grounding: phrases that are left out */
  uint32_t n_banned;
} accel__florence_rules;

/* The prompt that a task token stands for, or the text itself; ACCEL_ERROR_ARGUMENT: a token of a
 * task without an input has company. */
accel_status accel__florence_prompt(const char *text, accel__buffer *out,
                                    accel__florence_answer *answer);
/* Strings in the arena.  Fields that ask for what is not implemented are refused by name. */
accel_status accel__florence_rules_read(const char *directory, accel__arena *arena,
                                        accel__florence_rules *out);
/* text: the answer, special tokens and all; sides of the picture in pixels.  All in the arena. */
accel_status accel__florence_read(accel__florence_answer kind, const accel__florence_rules *rules,
                                  const char *text, int32_t width, int32_t height,
                                  accel__arena *arena, accel_region_answer *out);

#endif
