/* tasks.h - the tasks behind the public functions of the same names (accel.h says what they do);
 * arguments are already checked. */
#ifndef ACCEL_TASKS_TASKS_H
#define ACCEL_TASKS_TASKS_H

#include "dispatch/endpoint.h"
#include "text/tokenizer.h"

accel_status accel__embed(accel_endpoint *ep, const char *const *texts, uint32_t n,
                          const accel_embed_params *params, accel_embeddings **out);
accel_status accel__classify(accel_endpoint *ep, const char *const *texts, const char *const *pairs,
                             uint32_t n, const accel_classify_params *params,
                             accel_classifications **out);
accel_status accel__tokens(accel_endpoint *ep, const char *const *texts, uint32_t n,
                           const accel_tokens_params *params, accel_token_entities **out);
accel_status accel__qa(accel_endpoint *ep, const char *const *questions,
                       const char *const *contexts, uint32_t n, const accel_qa_params *params,
                       accel_answers **out);
accel_status accel__fill_mask(accel_endpoint *ep, const char *const *texts, uint32_t n,
                              const accel_fill_params *params, accel_fills **out);
accel_status accel__rerank(accel_endpoint *ep, const char *query, const char *const *documents,
                           uint32_t n, const accel_rerank_params *params, accel_ranking **out);
accel_status accel__generate(accel_endpoint *ep, const char *const *texts, uint32_t n,
                             const accel_generate_params *params, accel_generations **out);
accel_status accel__text2text(accel_endpoint *ep, const char *const *texts, uint32_t n,
                              const accel_text2text_params *params, accel_generations **out);
accel_status accel__generate_images(accel_endpoint *ep, const accel_image_prompt *prompts,
                                    uint32_t n, const accel_generate_params *params,
                                    accel_generations **out);
accel_status accel__preprocess(accel *ctx, const char *model, const accel_preprocess_params *params,
                               accel_tensors **out);
accel_status accel__classify_images(accel_endpoint *ep, const accel_media *images, uint32_t n,
                                    const accel_classify_params *params,
                                    accel_classifications **out);
accel_status accel__classify_sounds(accel_endpoint *ep, const accel_media *sounds, uint32_t n,
                                    const accel_classify_params *params,
                                    accel_classifications **out);
accel_status accel__zero_shot_image(accel_endpoint *ep, const accel_media *images, uint32_t n,
                                    const char *const *labels, uint32_t n_labels,
                                    const char *hypothesis, accel_classifications **out);
accel_status accel__detect_objects(accel_endpoint *ep, const accel_media *images, uint32_t n,
                                   const accel_detect_params *params, accel_detections **out);
accel_status accel__segment(accel_endpoint *ep, const accel_media *images, uint32_t n,
                            const accel_segment_params *params, accel_segmentations **out);
accel_status accel__draw_objects(const accel_media *image, const accel_detection *objects,
                                 uint32_t n, const char *path);
accel_status accel__draw_segments(const accel_media *image, const accel_segmentations *found,
                                  uint32_t index, const char *path);
accel_status accel__transcribe(accel_endpoint *ep, const accel_media *sounds, uint32_t n,
                               const accel_transcribe_params *params, accel_transcripts **out);
/* Results of the tasks are one arena each, at offset 0 behind the public struct: see
 * accel__task_result. */

/* A result that owns an arena: allocates `size` bytes (the public struct) with the arena hidden in
 * front; everything the result points to is taken from that arena; accel__task_free gives it all
 * back and is what the public _free functions call.
 */
void *accel__task_result(size_t size);
accel__arena *accel__task_arena(void *result);
void accel__task_free(void *result); /* NULL-safe */

/* Golden files and self-tests. */
accel_status accel__verify(accel *ctx, const char *model, const accel_init_params *how,
                           const char *golden, accel_verify_report **out);
accel_status accel__self_test(accel_endpoint *ep, accel_test_report **out);
accel_status accel__precision_tests(accel *ctx, const char *model, const char *const *hardware,
                                    uint32_t n_hardware, const char *const *precisions,
                                    uint32_t n_precisions, accel_test_report **out);

/* Memory: what fits where. */
accel_status accel__fit_report(accel *ctx, const char *model, const accel_fit_params *params,
                               accel_fit_report **out);

#endif
