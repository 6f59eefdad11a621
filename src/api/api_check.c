/* api_check.c - checks of parameter structs and lists of arguments. */
#include "api/api_check.h"

#include <string.h>

#include "dispatch/pack.h"

enum { MAX_PARAMS_BYTES = 4096 }; /* no parameter struct will ever be larger */

accel_status accel__overlay_params(const char *caller, const void *given, size_t bytes,
                                   void *mine) {
  uint32_t size;
  if (!given) return ACCEL_OK;
  memcpy(&size, given, sizeof size);
  if (size < sizeof size || size > MAX_PARAMS_BYTES)
    return accel__fail(ACCEL_ERROR_ARGUMENT,
                       "%s: params.size is %u; start from the _default() function", caller, size);
  memcpy(mine, given, size < bytes ? size : bytes);
  size = (uint32_t)bytes;
  memcpy(mine, &size, sizeof size);
  return ACCEL_OK;
}

accel_status accel__check_texts(const char *caller, const char *what, const char *const *texts,
                                uint32_t n) {
  if (n && !texts) return accel__fail(ACCEL_ERROR_ARGUMENT, "%s: '%s' is NULL", caller, what);
  for (uint32_t i = 0; i < n; i++)
    if (!texts[i]) return accel__fail(ACCEL_ERROR_ARGUMENT, "%s: %s[%u] is NULL", caller, what, i);
  return ACCEL_OK;
}

static accel_status check_grammar(const char *caller, const accel_generate_params *p) {
  if (p->grammar_kind > ACCEL_GRAMMAR_STRUCTURAL_TAG)
    return accel__fail(ACCEL_ERROR_ARGUMENT, "%s: params.grammar_kind is %u", caller,
                       p->grammar_kind);
  if (p->grammar && p->grammar_kind == ACCEL_GRAMMAR_NONE)
    return accel__fail(ACCEL_ERROR_ARGUMENT, "%s: params.grammar without params.grammar_kind",
                       caller);
  if (!p->grammar && p->grammar_kind != ACCEL_GRAMMAR_NONE && p->grammar_kind != ACCEL_GRAMMAR_JSON)
    return accel__fail(ACCEL_ERROR_ARGUMENT, "%s: params.grammar is NULL", caller);
  return ACCEL_OK;
}

accel_status accel__fill_struct(void *out, const void *now, size_t bytes) {
  uint32_t size;
  memcpy(&size, out, sizeof size);
  if (size > bytes) size = (uint32_t)bytes;
  memcpy(out, now, size);
  if (size >= sizeof size) memcpy(out, &size, sizeof size);
  return ACCEL_OK;
}

accel_status accel__check_generate_params(const char *caller, const accel_generate_params *p) {
  if (p->stop && p->stop->n && !p->stop->item)
    return accel__fail(ACCEL_ERROR_ARGUMENT, "%s: params.stop has no items", caller);
  if (p->logprobs > 1024)
    return accel__fail(ACCEL_ERROR_ARGUMENT, "%s: params.logprobs is %d; at most 1024", caller,
                       p->logprobs);
  if (p->num_beams > 1024 || p->num_return_sequences > 1024)
    return accel__fail(ACCEL_ERROR_ARGUMENT, "%s: %u beams, %u sequences; at most 1024", caller,
                       p->num_beams, p->num_return_sequences);
  if (p->assistant_model && p->prompt_lookup_num_tokens)
    return accel__fail(
        ACCEL_ERROR_ARGUMENT,
        "%s: params.assistant_model and params.prompt_lookup_num_tokens: one of them", caller);
  return check_grammar(caller, p);
}

accel_status accel__check_tensors(const char *caller, const accel_tensors *list) {
  if (!list || (list->n && !list->item))
    return accel__fail(ACCEL_ERROR_ARGUMENT, "%s: no inputs", caller);
  for (uint32_t i = 0; i < list->n; i++) {
    const accel_tensor *t = &list->item[i];
    if (!t->name) return accel__fail(ACCEL_ERROR_ARGUMENT, "%s: input %u has no name", caller, i);
    if (t->rank > ACCEL_MAX_RANK)
      return accel__fail(ACCEL_ERROR_ARGUMENT, "%s: input '%s' has rank %u; at most %d", caller,
                         t->name, t->rank, ACCEL_MAX_RANK);
    if (!t->data)
      return accel__fail(ACCEL_ERROR_ARGUMENT, "%s: input '%s' has no data", caller, t->name);
    if (accel__tensor_bytes(t) == UINT64_MAX)
      return accel__fail(ACCEL_ERROR_ARGUMENT, "%s: input '%s' has a negative or overflowing dim",
                         caller, t->name);
  }
  return ACCEL_OK;
}
