/* precision.h - what a precision's name means for each kind of weight (the table of
 * docs/architecture.md), and the ladders of "auto". */
#ifndef ACCEL_DISPATCH_PRECISION_H
#define ACCEL_DISPATCH_PRECISION_H

#include <stdbool.h>

#include "accel/plugin.h"
#include "core/arena.h"
#include "core/status.h"

/* One precision for one program: the plugin interface's struct with its format table in the arena.
 * keep_fp32[n_keep] are patterns ('*' and '?') of weights that stay fp32, PATTERN@PRECISION of
 * those that do at that precision, and PATTERN@coded of those that are F16 where others are in codes;
 * vectors stay fp32.  A weight that a linear reads transposed is F16
 * where others are in codes: its rows are not output channels.  name is canonical ("fp32" ...
 * "fp4"). */
accel_status accel__precision_for(const accel_plugin_program *program, const char *name,
                                  const char *const *keep_fp32, uint32_t n_keep,
                                  accel__arena *arena, accel_plugin_precision *out);
/* ACCEL_ERROR_ARGUMENT: there is no precision of this name; says which there are, `also` (" auto"
 * or "") first. */
accel_status accel__precision_unknown(const char *name, const char *also);
/* Another KV cache than the precision's: "fp32", "fp16", "bf16", "int8"; NULL changes nothing. */
accel_status accel__precision_set_kv(accel_plugin_precision *precision, const char *name);
/* The precisions "auto" tries on a device, best first; ends with "fp32".  A static list,
 * NULL-terminated. */
const char *const *accel__precision_ladder(const accel_plugin_device *device, bool bf16_only_half);

#endif
