/* bert.h - the BERT encoder that BERT, the RoBERTa family and ELECTRA share: fields, embeddings,
 * layers, masked-LM head. */
#ifndef ACCEL_MODELS_BERT_H
#define ACCEL_MODELS_BERT_H

#include "modeling/model_builder.h"

typedef struct accel__bert_config {
  int64_t vocab, hidden, layers, heads, inner, positions, types, pad_id,
      embedding; /* embedding: width of the tables (ELECTRA) */
  double eps;
  bool tied;
  accel__activation act;
} accel__bert_config;

/* Defaults of transformers' class in *c; the fields of config.json on top; labels; variants
 * refused.  type_vocab_size may be 0 where the default is. */
accel_status accel__bert_read(accel__build *b, accel__bert_config *c);
/* LayerNorm(word + type + position) [T, embedding] from "embeddings.*", and declares the inputs. */
accel__tensor accel__bert_embeddings(accel__build *b, const accel__bert_config *c,
                                     accel__input_default positions, int64_t position_offset);
/* "encoder.layer.N": post-norm attention and feed-forward; adds hidden_states.0 .. layers. */
accel__tensor accel__bert_encoder(accel__build *b, const accel__bert_config *c, accel__tensor x);
/* tanh(dense(first row)) by `name` ("pooler.dense") [B, hidden] */
accel__tensor accel__bert_pooler(accel__build *b, const accel__bert_config *c, accel__tensor x,
                                 const char *name);
/* "cls.predictions": transform, then the vocabulary: [T, vocab] */
accel__tensor accel__bert_predictions(accel__build *b, const accel__bert_config *c, accel__tensor x,
                                      const char *norm);

#endif
