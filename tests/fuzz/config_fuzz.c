/* config_fuzz.c - config.json of any model: whatever the bytes, a program is built and valid, or
 * the refusal has a message.
 */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "models/model_build.h"
#include "program/cut.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void require(int condition) {
  if (!condition) abort(); /* a finding */
}

/* Cut behind a stage that the input chooses, both parts are valid, or the refusal has a message. */
static void cut(const accel_plugin_program *p, size_t size) {
  accel__arena arena = {0};
  accel__part part[2];
  if (p->n_stage < 2) return;
  const uint32_t last[2] = {(uint32_t)(size % (p->n_stage - 1)), p->n_stage - 1};
  if (accel__program_cut(p, last, 2, &arena, part) == ACCEL_OK)
    require(accel__program_validate(&part[0].program) == ACCEL_OK &&
            accel__program_validate(&part[1].program) == ACCEL_OK);
  else
    require(accel__message()[0] != '\0');
  accel__arena_free(&arena);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  accel__json_file config = {0};
  accel__model *model = NULL;
  if (accel__json_parse((const char *)data, size, "config.json", &config) != ACCEL_OK) return 0;
  const accel__embed_head head = {.pooling = {ACCEL__POOL_MEAN}, .n_pooling = 1, .normalize = true};
  accel__model_request request = {.config = &config, .embed = size % 2 != 0 ? &head : NULL};
  if (accel__model_build(&request, &model) == ACCEL_OK) {
    const accel_plugin_program *p = accel__program_view(model->program);
    require(accel__program_validate(p) == ACCEL_OK);
    require(model->n_inputs >= 1 && model->n_outputs >= 1 && p->n_entry == model->n_entries &&
            p->n_entry >= 1);
    require(accel__model_entry_of(model, "forward") != NULL);
    require(request.embed == NULL || accel__model_entry_of(model, "embed") != NULL);
    require(model->num_labels == 0 || model->labels != NULL);
    accel__buffer text = {0};
    accel__program_text(p, &text);
    accel__buffer_free(&text);
    cut(p, size);
  } else {
    require(model == NULL && accel__message()[0] != '\0');
  }
  accel__model_free(&model);
  accel__json_free(&config);
  return 0;
}
