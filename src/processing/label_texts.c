/* label_texts.c - see label_texts.h. */
#include <stdlib.h>
#include <string.h>

#include "processing/label_texts.h"
#include "dispatch/pack.h"

char *accel__label_sentence(accel__arena *arena, const char *hypothesis, const char *label) {
  const char *hole = strstr(hypothesis, "{}");
  return accel__arena_printf(arena, "%.*s%s%s",
                             (int)(hole ? hole - hypothesis : (ptrdiff_t)strlen(hypothesis)),
                             hypothesis, hole ? label : "", hole ? hole + 2 : "");
}

/* Sentences of one length, filled up on the side that the tokenizer's settings say. */
static accel_status padded(const accel_endpoint *ep, const accel__encoding *enc, uint32_t n,
                           int64_t width, accel_tensors **out) {
  const accel__tokenizer_info *info =
      accel__tokenizer_describe(accel__processor_for(ep)->tokenizer);
  const int64_t pad = info->pad >= 0 ? info->pad : ep->model->pad_id >= 0 ? ep->model->pad_id : 0;
  int64_t length = width ? width : 1;
  for (uint32_t i = 0; i < n; i++)
    if (!width && (int64_t)enc[i].n > length) length = enc[i].n;
  const accel_tensor like[] = {{"input_ids", ACCEL_I64, 2, {n, length}, NULL},
                               {"attention_mask", ACCEL_I64, 2, {n, length}, NULL}};
  ACCEL_TRY(accel__tensors_new(like, info->no_mask ? 1 : 2, out));
  int64_t *ids = (*out)->item[0].data, *mask = info->no_mask ? NULL : (*out)->item[1].data;
  for (uint32_t i = 0; i < n; i++) {
    const int64_t used = (int64_t)enc[i].n, first = info->pad_left ? length - used : 0;
    for (int64_t k = 0; k < length; k++) {
      const bool text = k >= first && k < first + used;
      ids[i * length + k] = text ? enc[i].ids[k - first] : pad;
      if (mask) mask[i * length + k] = text;
    }
  }
  return ACCEL_OK;
}

accel_status accel__label_tensors(accel_endpoint *ep, const char *const *labels, uint32_t n_labels,
                                  const char *hypothesis, const accel__encode_options *how,
                                  int64_t width, accel_tensors **out) {
  accel__arena arena = {0};
  accel_status status = ACCEL_OK;
  const char **text = accel__arena_array(&arena, n_labels, sizeof *text);
  accel__encoding *enc = calloc((size_t)n_labels + 1, sizeof *enc);
  *out = NULL;
  if (!text || !enc) ACCEL_GOTO(accel__no_memory(n_labels * sizeof *enc));
  for (uint32_t i = 0; i < n_labels; i++)
    if (!(text[i] = accel__label_sentence(&arena, hypothesis, labels[i])))
      ACCEL_GOTO(ACCEL_ERROR_OUT_OF_MEMORY);
  ACCEL_GOTO(accel__encode_texts(ep, text, NULL, n_labels, how, enc));
  status = padded(ep, enc, n_labels, width, out);
done:
  accel__encodings_free(enc, n_labels);
  accel__arena_free(&arena);
  return status;
}
