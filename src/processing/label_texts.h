/* label_texts.h - labels of the caller's own as sentences, which zero-shot classification of texts,
 * pictures and sounds chooses between. */
#ifndef ACCEL_PROCESSING_LABEL_TEXTS_H
#define ACCEL_PROCESSING_LABEL_TEXTS_H

#include "core/arena.h"
#include "processing/processor.h"

/* `hypothesis` with `label` in place of its first "{}", where it has one; arena memory, NULL: there
 * is none. */
char *accel__label_sentence(accel__arena *arena, const char *hypothesis, const char *label);
/* The labels' sentences as a model of texts beside pictures or sounds reads them: input_ids
 * [n_labels, longest], or `width` columns where that is not 0, and attention_mask of the same shape
 * unless the tokenizer's settings keep it from the model.  Freed with accel__tensors_free(). */
accel_status accel__label_tensors(accel_endpoint *ep, const char *const *labels, uint32_t n_labels,
                                  const char *hypothesis, const accel__encode_options *how,
                                  int64_t width, accel_tensors **out);

#endif
