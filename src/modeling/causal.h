/* causal.h - what all decoders share: token ids of the config, heads, states, and the two entries
 * that one description of the layers gives, "forward" (stateless) and "decode" (over the states of
 * a session; model.h).
 *
 * A decoder's file reads its config, adds its inputs and fills an accel__causal; `hidden` is called
 * once for each entry. Its attention asks accel__kv_state for the layer's state, which is -1 in
 * "forward".
 */
#ifndef ACCEL_MODELING_CAUSAL_H
#define ACCEL_MODELING_CAUSAL_H

#include "modeling/model_builder.h"

typedef struct accel__causal {
  const void *config;
  /* From the inputs to the rows behind the last norm [T, C]; adds the hidden states. */
  accel__tensor (*hidden)(accel__build *b, const void *config);
  const char *embeddings; /* "embed_tokens": tied to the vocabulary head */
  const char *head;       /* "lm_head" */
  const char *head_bias;  /* its bias; NULL none */
  /* ForSequenceClassification: linear without bias over the last row; NULL: "score" */
  const char *score;
  const char *token_head; /* ForTokenClassification: linear with bias; NULL: "score" */
  int64_t vocab;
  bool tied;
  double softcap; /* logits become softcap * tanh(logits / softcap); 0 off */
  double scale;   /* factor on logits, behind that; 0: 1 */
} accel__causal;

/* bos_token_id, eos_token_id (a number or a list), pad_token_id, decoder_start_token_id; what is
 * absent keeps the default given, -1 none. */
accel_status accel__read_token_ids(accel__build *b, int64_t bos, int64_t eos, int64_t pad);
/* Heads of the class, entry "decode" for a class with a vocabulary head, and the end of the
 * build. */
accel_status accel__causal_build(accel__build *b, const accel__causal *how);
/* The KV state of a layer in "decode", -1 elsewhere.  window: rows a query sees; 0 all. */
int32_t accel__kv_state(accel__build *b, uint32_t layer, int64_t kv_heads, int64_t k_dim,
                        int64_t v_dim, int64_t window);
/* A state of the layer's recurrence in "decode", -1 elsewhere: [heads, k_dim, v_dim] numbers. */
int32_t accel__recurrent_state(accel__build *b, uint32_t layer, int64_t heads, int64_t k_dim,
                               int64_t v_dim);
/* act(conv1d over each row and the kernel - 1 before it), each column by itself, with
 * layers.<layer>.<name>.weight [columns, 1, kernel] and, with bias, its bias; "decode" carries the
 * rows before in a state. */
accel__tensor accel__causal_conv(accel__build *b, accel__tensor x, int64_t kernel, bool bias,
                                 const accel__activation *act, uint32_t layer, const char *name);
/* -exp(layers.<layer>.<name>): the rates at which states fade, from their logarithms. */
accel__tensor accel__decay_rates(accel__build *b, uint32_t rank, const int64_t *dims,
                                 uint32_t layer, const char *name);

#endif
