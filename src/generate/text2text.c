/* text2text.c - translations, summaries and other answers of encoder-decoders, as transformers'
 * pipelines give them. */
#include <stdlib.h>
#include <string.h>

#include "generate/text2text.h"
#include "generate/generation.h"
#include "generate/translation_languages.h"
#include "processing/processor.h"
#include "models/model_build.h"

enum { NUM_BEAMS = 4, NEW_TOKENS = 256 }; /* the pipelines' own, where nobody says */

static accel_status check_model(const accel_endpoint *ep, const char *task) {
  const accel__model_entry *e = accel__model_entry_of(ep->model, "encode");
  bool reads = false;
  for (uint32_t i = 0; e && i < e->n_inputs; i++)
    reads = reads || !strcmp(e->inputs[i].name, "input_ids");
  if (!reads || !accel__model_entry_of(ep->model, "decode"))
    return accel__remedy(accel__fail(ACCEL_ERROR_UNSUPPORTED, "%s: a %s is no model for %s",
                                     ep->name, ep->model->architecture, task),
                         "use an encoder-decoder for text, such as T5, BART or Marian");
  return accel__processor_check(ep, ep->model->task);
}

/* The task's own prefix, else config.json's; models with tokens of languages have none. */
static accel_status prefix_of(const accel_endpoint *ep, const accel__languages *l,
                              const char **out) {
  *out = "";
  if (l->from >= 0 || l->to >= 0) return ACCEL_OK;
  ACCEL_TRY(accel__json_string(&ep->config, ep->config.root, "prefix", out));
  return l->task ? accel__json_string(&ep->config, l->task, "prefix", out) : ACCEL_OK;
}

static accel_status with_prefix(const char *const *texts, uint32_t n, const char *prefix,
                                const char *before, accel__arena *arena, const char *const **out) {
  const char **list = accel__arena_array(arena, n, sizeof *list);
  *out = texts;
  if (!*prefix && !*before) return ACCEL_OK;
  if (!list) return ACCEL_ERROR_OUT_OF_MEMORY;
  for (uint32_t i = 0; i < n; i++)
    if (!(list[i] = accel__arena_printf(arena, "%s%s%s", prefix, before, texts[i])))
      return ACCEL_ERROR_OUT_OF_MEMORY;
  *out = list;
  return ACCEL_OK;
}

/* The input's language stands among the special tokens that the tokenizer adds, wherever its class
 * puts it. */
static accel_status set_source(const accel_endpoint *ep, int32_t language, accel__encoding *enc,
                               uint32_t n) {
  const accel__tokenizer *t = accel__processor_for(ep)->tokenizer;
  for (uint32_t i = 0; i < n && language >= 0; i++) {
    bool found = false;
    for (size_t k = 0; k < enc[i].n; k++) {
      if (!enc[i].special[k] || !accel__is_language(t, enc[i].ids[k])) continue;
      enc[i].ids[k] = language;
      found = true;
    }
    if (!found)
      return accel__fail(ACCEL_ERROR_UNSUPPORTED,
                         "%s: the tokenizer puts no language into its inputs", ep->name);
  }
  return ACCEL_OK;
}

static accel__encode_options cut_of(const accel_endpoint *ep,
                                    const accel_text2text_params *params) {
  int64_t most =
      params->truncate ? accel__processor_for(ep)->max_length : accel__context_length(ep);
  return (accel__encode_options){
      .add_special_tokens = !params->generate->no_special_tokens,
      .truncation = most > 0 ? ACCEL__TRUNCATE_LONGEST_FIRST : ACCEL__TRUNCATE_NONE,
      .max_length = most > 0 ? (uint32_t)most : 0};
}

static void tell_cut(const accel_endpoint *ep, const accel__encoding *enc, uint32_t n) {
  for (uint32_t i = 0; i < n; i++)
    if (enc[i].pieces > 1)
      accel__logf(&ep->ctx->log, ACCEL_LOG_WARNING,
                  "%s: text %u is cut to the %zu tokens that the model takes", ep->name, i,
                  enc[i].n);
}

static accel_status answer(accel_endpoint *ep, const char *const *texts, uint32_t n,
                           const accel_text2text_params *params, const accel__languages *l,
                           accel__arena *arena, accel__encoding *enc, accel_generations **out) {
  const accel__task_settings settings = {
      .fields = l->task, .num_beams = NUM_BEAMS, .max_new_tokens = NEW_TOKENS, .forced_bos = l->to};
  const accel__encode_options how = cut_of(ep, params);
  accel__generate_plan plan = {0};
  const char *prefix;
  accel__ids *prompts = accel__arena_array(arena, n, sizeof *prompts);
  if (!prompts) return ACCEL_ERROR_OUT_OF_MEMORY;
  ACCEL_TRY(prefix_of(ep, l, &prefix));
  ACCEL_TRY(with_prefix(texts, n, prefix, l->before, arena, &texts));
  ACCEL_TRY(accel__encode_texts(ep, texts, NULL, n, &how, enc));
  tell_cut(ep, enc, n);
  ACCEL_TRY(set_source(ep, l->from, enc, n));
  for (uint32_t i = 0; i < n; i++) prompts[i] = (accel__ids){enc[i].ids, (uint32_t)enc[i].n};
  accel_status status = accel__generate_plan_for(ep, &settings, params->generate, &plan);
  plan.no_clean_up = true;
  /* a length that was asked for is the input's, which is cut */
  plan.context = ep->model->max_positions;
  if (status == ACCEL_OK)
    status = accel__generate_planned(ep, &plan, prompts, n, params->generate, out);
  accel__generate_plan_free(&plan);
  return status;
}

accel_status accel__text2text(accel_endpoint *ep, const char *const *texts, uint32_t n,
                              const accel_text2text_params *params, accel_generations **out) {
  const char *task = params->task ? params->task : "text2text-generation";
  accel__arena arena = {0};
  accel__languages languages;
  *out = NULL;
  ACCEL_TRY(check_model(ep, task));
  accel__encoding *enc = calloc((size_t)n + 1, sizeof *enc);
  if (!enc) return accel__no_memory(n * sizeof *enc);
  accel_status status =
      accel__languages_find(ep, params->source, params->target, params->task, &arena, &languages);
  if (status == ACCEL_OK) status = answer(ep, texts, n, params, &languages, &arena, enc, out);
  accel__encodings_free(enc, n);
  accel__arena_free(&arena);
  return status;
}
