/* rotary_bert.h - the encoder that NomicBERT, jina-embeddings-v3 and GTE share: BERT's post-norm
 * layers with rotary positions in place of a table, each family with its own feed-forward. */
#ifndef ACCEL_MODELS_ROTARY_BERT_H
#define ACCEL_MODELS_ROTARY_BERT_H

#include "models/bert.h"
#include "modeling/rope.h"

typedef struct accel__rotary_bert {
  accel__bert_config base;
  int64_t head_dim;
  /* gated: act(gate x) * (up x); fc1, fc2: into and out of the feed-forward */
  bool gated, qkv_bias, fc1_bias, fc2_bias;
  const char *gate, *up, *down; /* last parts of their names, behind "layers.N.mlp." */
  /* stored in one: q, k and v as "layers.N.self_attn.Wqkv", up and gate as
   * "layers.N.mlp.up_gate_proj", by the names of b->spelling; found out by the encoder */
  bool fused_qkv, fused_gate;
  /* positions beyond which the remote code changes the frequencies: refused; 0 none */
  int64_t trained;
  accel__rope rope; /* inv_freq -1: learned positions instead */
} accel__rotary_bert;

/* As accel__bert_read, then head_dim, and the rope of a class whose default base is theta. */
accel_status accel__rotary_bert_read(accel__build *b, accel__rotary_bert *c, double theta);
/* Inputs, LayerNorm(words + types) [+ positions] from "embeddings.*", and the layers "layers.N":
 * [T, hidden]; adds hidden_states.0 .. layers.  base.types 0: there are no token types. */
accel__tensor accel__rotary_bert_encoder(accel__build *b, accel__rotary_bert *c);

#endif
