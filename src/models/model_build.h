/* model_build.h - the table of architectures: which file of this folder builds what a config asks
 * for. */
#ifndef ACCEL_MODELS_MODEL_BUILD_H
#define ACCEL_MODELS_MODEL_BUILD_H

#include "modeling/model.h"

/* ACCEL_ERROR_UNSUPPORTED for an unknown architecture, naming it and the nearest known one.
 * Everything lives in the program's arena. */
accel_status accel__model_build(const accel__model_request *request, accel__model **out);
void accel__model_free(accel__model **model);
/* generation_config.json of a directory, to be freed; root NULL where there is none, or no
 * directory. */
accel_status accel__generation_file(const char *directory, accel__json_file *out);
const accel__model_entry *accel__model_entry_of(const accel__model *model,
                                                const char *name); /* NULL: it has no such entry */
/* Place of an entry's input, or output; -1: it has none of that name. */
int32_t accel__entry_input(const accel__model_entry *entry, const char *name);
int32_t accel__entry_output(const accel__model_entry *entry, const char *name);
/* Whether an input of the model is, or follows from, the argument of this name. */
bool accel__model_takes(const accel__model *model, const char *argument);
/* Whether the class's forward takes an argument of this name and never reads it:
 * accel__model.unread, and what tokenizers and processors write beside the inputs of models. */
bool accel__model_leaves_unread(const accel__model *model, const char *name);
/* Every class name that accel__model_build knows, for messages, the support table and tests. */
const char *const *accel__model_architectures(uint32_t *n);
/* Pipeline name of a class: "fill-mask" of BertForMaskedLM. */
const char *accel__model_task(const char *class_name);
/* Patterns of weights that lose too much in codes, as accel__precision_for takes them ("vae.*@coded"),
 * closed by NULL. */
const char *const *accel__model_sensitive(const char *class_name);

#endif
