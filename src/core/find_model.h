/* find_model.h - where a model lives on this machine. */
#ifndef ACCEL_CORE_FIND_MODEL_H
#define ACCEL_CORE_FIND_MODEL_H

#include "core/arena.h"
#include "core/status.h"

/* Where a model lives on this machine: a directory as it is; else org/name[@rev] in
 * <cache>/accel/models/org/name, then in the Hugging Face hub cache (HF_HUB_CACHE, $HF_HOME/hub,
 * $XDG_CACHE_HOME/huggingface/hub, ~/.cache/huggingface/hub; models--org--name, refs/<rev>,
 * snapshots/<commit>), read-only.  ACCEL_ERROR_NOT_FOUND lists the places and gives the download
 * line as remedy. */
accel_status accel__find_model(const char *model, accel__arena *arena, char **directory);

#endif
