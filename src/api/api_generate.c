/* api_generate.c - text generation: argument checks, then generate/. */
#include "generate/generation.h"

#include <stdlib.h>
#include <string.h>

#include "api/api_check.h"
#include "generate/image_text.h"
#include "generate/text2text.h"

accel_generate_params accel_generate_params_default(void) { return accel__generate_defaults(); }

accel_status accel_generate(accel_endpoint *endpoint, const char *const *texts, uint32_t n,
                            const accel_generate_params *params, accel_generations **out) {
  API_CALL(endpoint, out);
  API_GENERATE_PARAMS(mine, params);
  ACCEL_TRY(accel__check_texts(__func__, "texts", texts, n));
  return accel__generate(endpoint, texts, n, &mine, out);
}

accel_status accel_generate_ids(accel_endpoint *endpoint, const int32_t *const *ids,
                                const uint32_t *count, uint32_t n,
                                const accel_generate_params *params, accel_generations **out) {
  API_CALL(endpoint, out);
  API_GENERATE_PARAMS(mine, params);
  if (n) API_NEED(ids);
  if (n) API_NEED(count);
  accel__ids *prompts = calloc((size_t)n + 1, sizeof *prompts);
  if (!prompts) return accel__no_memory(n * sizeof *prompts);
  accel_status status = ACCEL_OK;
  for (uint32_t i = 0; i < n && status == ACCEL_OK; i++) {
    prompts[i] = (accel__ids){ids[i], count[i]};
    if (count[i] && !ids[i])
      status = accel__fail(ACCEL_ERROR_ARGUMENT, "%s: ids[%u] is NULL", __func__, i);
  }
  if (status == ACCEL_OK) status = accel__generate_prompts(endpoint, prompts, n, &mine, out);
  free(prompts);
  return status;
}

accel_text2text_params accel_text2text_params_default(void) {
  return (accel_text2text_params){.size = sizeof(accel_text2text_params)};
}

static accel_status text2text(const char *caller, accel_endpoint *endpoint,
                              const char *const *texts, uint32_t n,
                              const accel_text2text_params *params, accel_generations **out) {
  accel_generate_params mine = accel_generate_params_default();
  accel_text2text_params how = *params;
  ACCEL_TRY(accel__overlay_params(caller, params->generate, sizeof mine, &mine));
  ACCEL_TRY(accel__check_generate_params(caller, &mine));
  ACCEL_TRY(accel__check_texts(caller, "texts", texts, n));
  how.generate = &mine;
  return accel__text2text(endpoint, texts, n, &how, out);
}

accel_status accel_text2text(accel_endpoint *endpoint, const char *const *texts, uint32_t n,
                             const accel_text2text_params *params, accel_generations **out) {
  API_CALL(endpoint, out);
  API_PARAMS(accel_text2text_params, mine, params);
  return text2text(__func__, endpoint, texts, n, &mine, out);
}

accel_status accel_translate(accel_endpoint *endpoint, const char *const *texts, uint32_t n,
                             const char *source, const char *target,
                             const accel_generate_params *params, accel_generations **out) {
  API_CALL(endpoint, out);
  const accel_text2text_params how = {.size = sizeof how,
                                      .task = "translation",
                                      .source = source,
                                      .target = target,
                                      .generate = params};
  return text2text(__func__, endpoint, texts, n, &how, out);
}

accel_status accel_summarize(accel_endpoint *endpoint, const char *const *texts, uint32_t n,
                             const accel_generate_params *params, accel_generations **out) {
  API_CALL(endpoint, out);
  const accel_text2text_params how = {
      .size = sizeof how, .task = "summarization", .generate = params};
  return text2text(__func__, endpoint, texts, n, &how, out);
}

accel_status accel__check_image_prompts(const char *caller, const accel_image_prompt *prompts,
                                        uint32_t n) {
  for (uint32_t i = 0; i < n; i++) {
    if (prompts[i].kind > ACCEL_PROMPT_TEMPLATED)
      return accel__fail(ACCEL_ERROR_ARGUMENT, "%s: prompts[%u].kind is %d", caller, i,
                         (int)prompts[i].kind);
    if (prompts[i].kind >= ACCEL_PROMPT_MESSAGES && !prompts[i].text)
      return accel__fail(ACCEL_ERROR_ARGUMENT, "%s: prompts[%u].text is NULL", caller, i);
    ACCEL_TRY(
        accel__check_media(caller, "prompts[].images", prompts[i].images, prompts[i].n_images));
  }
  return ACCEL_OK;
}

accel_status accel_generate_images(accel_endpoint *endpoint, const accel_image_prompt *prompts,
                                   uint32_t n, const accel_generate_params *params,
                                   accel_generations **out) {
  API_CALL(endpoint, out);
  API_GENERATE_PARAMS(mine, params);
  if (n) API_NEED(prompts);
  ACCEL_TRY(accel__check_image_prompts(__func__, prompts, n));
  return accel__generate_images(endpoint, prompts, n, &mine, out);
}

accel_status accel_generate_regions(accel_endpoint *endpoint, const accel_image_prompt *prompts,
                                    uint32_t n, const accel_generate_params *params,
                                    accel_region_answers **out) {
  API_CALL(endpoint, out);
  API_GENERATE_PARAMS(mine, params);
  if (n) API_NEED(prompts);
  ACCEL_TRY(accel__check_image_prompts(__func__, prompts, n));
  return accel__generate_regions(endpoint, prompts, n, &mine, out);
}

int32_t accel_names_regions(const accel_endpoint *endpoint) {
  return endpoint && accel__names_regions(endpoint);
}

API_FREE_RESULT(accel_region_answers_free, accel_region_answers)
API_FREE_RESULT(accel_generations_free, accel_generations)
