/* sentence_modules.h - sentence-transformers directories: what modules.json and the files around it
 * say about turning hidden states into embeddings.
 *
 * Read: modules.json (Transformer, Pooling, Dense and LayerNorm, Normalize, in this order; Dropout
 * is the identity at inference; other types are refused by name, those of a model's own code too),
 * <Transformer>/sentence_bert_config.json and its older names (max_seq_length, do_lower_case),
 * <Pooling>/config.json (all six modes, old and new spelling, include_prompt), <Dense>/config.json,
 * <LayerNorm>/config.json and their weights, config_sentence_transformers.json (prompts,
 * default_prompt_name, truncate_dim). Fields that change nothing here are passed over.  One that
 * would change the result and is not done here is ACCEL_ERROR_UNSUPPORTED, as is a field that
 * nobody has heard of; both name file and field. Source: sentence-transformers 6.2. */
#ifndef ACCEL_PROCESSING_SENTENCE_MODULES_H
#define ACCEL_PROCESSING_SENTENCE_MODULES_H

#include "core/arena.h"
#include "modeling/model.h"

typedef struct accel__prompt {
  const char *name, *text;
} accel__prompt;

typedef struct accel__sentence_modules { /* everything in the arena it was read into */
  bool present;                          /* there is a modules.json */
  /* directory of the transformer; the model's own in most cases */
  const char *transformer;
  int64_t max_seq_length; /* 0: not stated */
  /* sentence_bert_config.json do_lower_case: texts are lower-cased first */
  bool lower_case;
  accel__embed_head head; /* n_pooling 0 when there is no Pooling module */
  const char *dense_directory[4],
      /* of head.dense[i]: directory, and what its names begin with ("2_Dense/") */
      *dense_prefix[4];
  bool include_prompt; /* false: prompt tokens are left out of pooling */
  const accel__prompt *prompts;
  uint32_t n_prompts;
  const char *default_prompt; /* name, or NULL */
  int64_t truncate_dim;       /* columns of an embedding that are kept; 0: all */
} accel__sentence_modules;

/* A directory without modules.json: present false, transformer = directory. */
accel_status accel__read_sentence_modules(const char *directory, accel__arena *arena,
                                          accel__sentence_modules *out);

/* The accel_plugin_act of a class of torch.nn, "torch.nn.modules.activation.Tanh" or its last name
 * alone; -1: not one of Tanh Identity ReLU GELU Sigmoid SiLU. */
int accel__torch_activation(const char *name);

/* "mean" and its kin, as Pooling names them; ACCEL__POOL_NONE for "none"; -1 when unknown. */
int accel__pooling_by_name(const char *name);
/* The names of a head's modes, joined by '+'; "" without any.  NULL: out of memory. */
const char *accel__pooling_names(const accel__embed_head *head, accel__arena *arena);

#endif
