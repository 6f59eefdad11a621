/* cli_key_models.c - the tables of key_models.def and of the kinds of hardware. */
#include "cli/cli_key_models.h"

#include <stdio.h>
#include <string.h>

const cli_key_model cli_key_models[CLI_KEY_MODELS] = {
#define KEY_MODEL(name, word, types, id, kind, task) {name, word, types, id, kind, task},
#include "cli/key_models.def"
};

const char *const cli_hardware_kinds[CLI_HARDWARE_KINDS] = {
    "cpu", "cuda", "amd", "opencl", "vulkan", "openvino", "apple", "qualcomm", "webgpu", "webnn"};

static const cli_example_kind kinds[] = {
#define KIND(name, summary, argument, input) {name, summary, argument, input},
#include "cli/key_models.def"
};
static const struct {
  const char *task, *kind;
} task_kinds[] = {
#define TASK_KIND(task, kind) {task, kind},
#include "cli/key_models.def"
};

const cli_example_kind *cli_example_kind_of(const char *name) {
  size_t i = 0;
  while (i + 1 < sizeof kinds / sizeof *kinds && strcmp(kinds[i].name, name) != 0) ++i;
  return &kinds[i];
}

const char *cli_task_kind(const char *task) {
  for (size_t i = 0; task && i < sizeof task_kinds / sizeof *task_kinds; ++i)
    if (!strcmp(task_kinds[i].task, task)) return task_kinds[i].kind;
  return "run";
}

bool cli_has_type(const char *types, const char *type) {
  char word[80];
  return *type && snprintf(word, sizeof word, " %s ", type) < (int)sizeof word &&
         strstr(types, word);
}
