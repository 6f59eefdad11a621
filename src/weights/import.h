/* import.h - checkpoints that are quantised already: which weights are held in codes, and how to
 * read them into one of our formats (formats/weight_matrix.h) without taking codes for numbers.
 *
 * config.json's "quantization_config" names the method (docs/quantised.md lists what is read).  The
 * tensors of the checkpoint decide which weights are in codes: "x.weight" is when its method's
 * tensors (x.qweight, x.weight_packed ...) are there; modules a tool left alone are plain tensors.
 * Everything that decides a format - lengths, shapes, types, group sizes, the order of columns - is
 * checked when the checkpoint is opened; values (scales must be finite) when they are read.
 *
 * What becomes of a weight:
 *   GPTQ 2, 3, 4 bits, AWQ         uint4: U4, scale F16 (F32 when F16 would lose bits), zero U8; 8 bits: I8, scale F32
 *   compressed-tensors integers    up to 4 bits: I4 (symmetric) or U4 with zero U8; 5 to 8: I8, scale F32
 *   fp8 of any method              E4M3, scale F32 per row or block
 *   mxfp4, nvfp4                   E2M1, scale E8M0 in groups of 32; E2M1, scale E4M3 in groups of 16, outer F32
 *   bitsandbytes int8              I8, scale F32 per row
 *   bitsandbytes nf4, fp4          a codebook, which no format of ours is: dequantised to the type quant_state names
 *   columns in their own order     (GPTQ act-order) dequantised to fp16
 */
#ifndef ACCEL_WEIGHTS_IMPORT_H
#define ACCEL_WEIGHTS_IMPORT_H

#include <stdbool.h>

#include "core/json.h"
#include "weights/quantised.h"
#include "weights/weights.h"

typedef struct accel__import accel__import; /* immutable once open: usable from any thread */

/* *out NULL: the checkpoint is not quantised.  config and checkpoint are kept by reference; of the
 * checkpoint, headers and the small tensors that formats depend on are read.
 * ACCEL_ERROR_UNSUPPORTED: a method, or a value of one of its fields, that is not read, named with
 * file and remedy; codes without a configuration too.  ACCEL_ERROR_FORMAT: tensors that are missing
 * or do not fit. */
accel_status accel__import_open(const accel__json_file *config, const accel__checkpoint *checkpoint,
                                accel__import **out);
void accel__import_free(accel__import **import);

/* Is the weight `name` ("encoder.layer.0.output.dense.weight") held in codes?  The format
 * accel__import_read gives it and its matrix [n, k]; pointers may be NULL.  import NULL: false. */
bool accel__import_find(const accel__import *import, const char *name, accel_plugin_format *format,
                        int64_t *n, int64_t *k);
/* The whole weight, to be freed with accel__quantised_free.  Thread-safe. */
accel_status accel__import_read(const accel__import *import, const char *name,
                                accel__quantised *out);
/* Drops the pages of the weight's tensors from memory. */
void accel__import_forget(const accel__import *import, const char *name);
/* Is this tensor of the checkpoint part of a weight in codes, or of how its method ran
 * activations?  NULL: false. */
bool accel__import_uses(const accel__import *import, const char *tensor);

/* The precision that most of the coded elements have: "int8", "int4", "uint4", "fp8", "fp4", or
 * "fp32", "fp16", "bf16" where they are dequantised. */
const char *accel__import_precision(const accel__import *import);
/* For the placement report: what was read, and what runs otherwise than in the original; at most 16
 * sentences. */
uint32_t accel__import_notes(const accel__import *import, const char *const **notes);

#endif
