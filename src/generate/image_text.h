/* image_text.h - texts from pictures and prompts: prompts as they come to tensors and tokens, to
 * requests of the engine, and to what callers get.
 *
 * What accel_generate_images and the queue share.
 */
#ifndef ACCEL_GENERATE_IMAGE_TEXT_H
#define ACCEL_GENERATE_IMAGE_TEXT_H

#include "generate/florence_tasks.h"
#include "generate/generation.h"
#include "generate/picture_words.h"
#include "text/chat_template.h"
#include "text/tokenizer.h"
#include "vision/image_processor.h"

/* What prompts of an endpoint are read with. */
typedef struct accel__image_reader {
  accel_endpoint *ep;
  bool no_special_tokens; /* accel_generate_params.no_special_tokens */
  /* private */
  accel__image_processor processor;
  accel__chat_template *chat; /* once a prompt has needed it */
  accel__picture_words words;
} accel__image_reader;

/* A prompt that was read: what its request points to until it is finished. */
typedef struct accel__image_text {
  accel_tensors *pixels;       /* pixel_values, image_sizes; NULL: no pictures */
  accel__picture_parts *parts; /* [pictures] */
  accel__encoding enc;         /* the text as it was written */
  int32_t *ids; /* [n] with every picture's image tokens, where the text shows pictures */
  uint32_t n;
  int32_t height, width;         /* of the first picture, upright */
  accel__florence_answer answer; /* Florence-2: how what comes is read */
} accel__image_text;

/* ACCEL_ERROR_UNSUPPORTED: the model does not look at pictures.  Closed in every case. */
accel_status accel__image_reader_open(accel_endpoint *ep, bool no_special_tokens,
                                      accel__image_reader *out);
void accel__image_reader_close(accel__image_reader *reader);
/* Decodes the pictures and cuts the text into tokens; `number` is for messages.  Nothing of the
 * prompt is kept.  Freed in every case. */
accel_status accel__image_text_read(accel__image_reader *reader, const accel_image_prompt *prompt,
                                    uint32_t number, accel__image_text *out);
void accel__image_text_free(accel__image_text *text);
/* Its request, as accel__generate_request. */
accel_status accel__image_text_request(const accel_endpoint *ep, const accel__generate_plan *plan,
                                       const accel_generate_params *params,
                                       const accel__image_text *text, uint32_t number,
                                       int64_t context, accel__request *out);
/* Captions and what Donut says are reported with what they were begun with:
 * prompts[found->item[].prompt]. */
accel_status accel__image_text_finish(const accel_endpoint *ep, const accel__image_text *prompts,
                                      bool keep_special_tokens, accel_generations *found);

/* Behind the public functions; arguments are already checked. */
accel_status accel__generate_images(accel_endpoint *ep, const accel_image_prompt *prompts,
                                    uint32_t n, const accel_generate_params *params,
                                    accel_generations **out);
/* The same with a task's part of the configuration. */
accel_status accel__generate_images_for(accel_endpoint *ep, const accel__task_settings *task,
                                        const accel_image_prompt *prompts, uint32_t n,
                                        const accel_generate_params *params,
                                        accel_generations **out);
bool accel__names_regions(const accel_endpoint *ep);
accel_status accel__generate_regions(accel_endpoint *ep, const accel_image_prompt *prompts,
                                     uint32_t n, const accel_generate_params *params,
                                     accel_region_answers **out);

#endif
