/* adapters.h - LoRA adapters in PEFT's directories (adapter_config.json and
 * adapter_model.safetensors) or, of diffusion pipelines, in one safetensors file, merged into the
 * weights of a model while these are loaded.
 *
 * accel__adapters_open reads and checks the directories before the program is built, since a module
 * that an adapter brings (a head in modules_to_save) decides which weights the model has.
 * accel__adapters_bind finds each module's weight among those of the program.
 */
#ifndef ACCEL_ADAPTERS_ADAPTERS_H
#define ACCEL_ADAPTERS_ADAPTERS_H

#include "adapters/adapter_config.h"
#include "program/program.h"

/* Tensors of one module, "model.layers.0.self_attn.q_proj". */
typedef enum accel__lora_kind {
  ACCEL__LORA_A,
  ACCEL__LORA_B,
  ACCEL__LORA_B_BIAS,
  ACCEL__LORA_EMBEDDING_A,
  ACCEL__LORA_EMBEDDING_B,
  ACCEL__LORA_MAGNITUDE,
  /* of files (lora_kinds.c) */
  ACCEL__LORA_ALPHA,      /* one number */
  ACCEL__LORA_DORA_SCALE, /* a magnitude, as LyCORIS shapes it */
  ACCEL__LORA_MID,        /* a kernel between A and B */
  ACCEL__LOHA_W1_A,
  ACCEL__LOHA_W1_B,
  ACCEL__LOHA_T1,
  ACCEL__LOHA_W2_A,
  ACCEL__LOHA_W2_B,
  ACCEL__LOHA_T2,
  ACCEL__LOKR_W1,
  ACCEL__LOKR_W1_A,
  ACCEL__LOKR_W1_B,
  ACCEL__LOKR_W2,
  ACCEL__LOKR_W2_A,
  ACCEL__LOKR_W2_B,
  ACCEL__LOKR_T2,
  ACCEL__LORA_KINDS
} accel__lora_kind;

typedef struct accel__adapter_module {
  const char *name;
  const char *key;                                     /* of files: as lora_file.c compares names */
  const accel__tensor_info *tensor[ACCEL__LORA_KINDS]; /* NULL: it has none of this kind */
  accel__module_lora lora;
} accel__adapter_module;

/* A tensor in the place of one of the base: of modules_to_save, a trained bias, an embedding. */
typedef struct accel__adapter_replacement {
  const char *name;                 /* of the base's tensor, as the model's class calls it */
  const accel__tensor_info *tensor; /* of the adapter */
  bool keeps_ties; /* the base's own, saved with the adapter: what is tied to it goes along */
} accel__adapter_replacement;

typedef struct accel__adapter {
  const char *path; /* directory, or file */
  bool is_file;     /* without a config */
  double alpha[3];  /* of a file's unet, text_encoder, text_encoder_2; 0: the rank */
  bool dora[3];     /* likewise: its modules have magnitudes */
  double scale;     /* the user's */
  accel__adapter_config config;
  const accel__checkpoint *checkpoint; /* its tensors; the model's once they are joined */
  const char *prefix;                  /* in front of their names there */
  accel__adapter_module *module;
  uint32_t n_modules;
  accel__adapter_replacement *replacement;
  uint32_t n_replacements;
} accel__adapter;

typedef struct accel__adapters {
  accel__arena arena;
  accel__adapter *adapter;
  uint32_t n;
  uint64_t hash; /* of configs and scales */
  accel__weight_deltas *deltas;
} accel__adapters;

/* Opens the adapters in the order in which they are merged; their tensors join `checkpoint`, which
 * must not be shared yet.  A path is a file *.safetensors, a directory, or a name that
 * accel__find_model knows.
 * ACCEL_ERROR_NOT_FOUND, ACCEL_ERROR_FORMAT, ACCEL_ERROR_UNSUPPORTED name file and field. */
accel_status accel__adapters_open(const accel_adapter_spec *specs, uint32_t n,
                                  accel__checkpoint *checkpoint, accel__adapters **out);
/* What the adapters bring is laid over the tensors of `checkpoint` that the program takes its
 * weights from; modules that the program does not run are left alone.  Reads the matrices.
 * ACCEL_ERROR_FORMAT: the base has no such module, or one of another shape, or a value is not
 * finite.  ACCEL_ERROR_UNSUPPORTED: the base holds the weight in codes, or has tied it to another
 * that the adapter leaves as it is. */
accel_status accel__adapters_bind(accel__adapters *adapters, const accel__program *program,
                                  const accel__checkpoint *checkpoint, const accel__import *import);
void accel__adapters_free(accel__adapters **adapters); /* NULL-safe */

#endif
