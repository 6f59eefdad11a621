/* bert.h - the BERT encoder that BERT, the RoBERTa family and ELECTRA share: fields, embeddings,
 * layers, masked-LM head. */
#ifndef ACCEL_MODELS_BERT_H
#define ACCEL_MODELS_BERT_H

#include "modeling/model_builder.h"

typedef struct accel__bert_config {
  int64_t vocab, hidden, layers, heads, inner, positions, types, pad_id,
      embedding, /* width of the tables (ELECTRA) */
      narrow;    /* width that heads share, where it is not the rows' (MobileBERT); 0: hidden */
  double eps;
  bool tied;
  accel__activation act;
  /* How rows that are no tokens attend, and how many of them an item has, by which hidden states
   * are listed (LayoutLMv3); NULL: tokens see all of their sequence. */
  const accel__attention *attention;
  accel__dim per_item;
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
/* "cls.predictions.transform": dense and norm [T, hidden] */
accel__tensor accel__bert_transform(accel__build *b, const accel__bert_config *c, accel__tensor x,
                                    const char *norm);
/* The same, then the vocabulary: [T, vocab] */
accel__tensor accel__bert_predictions(accel__build *b, const accel__bert_config *c, accel__tensor x,
                                      const char *norm);
/* Outputs of the class, from the encoder's rows x, the pooled row and the predictions; -1 where the
 * class has none, which accel__bert_pools and accel__bert_predicts tell. */
bool accel__bert_pools(accel__build *b);
bool accel__bert_predicts(const accel__build *b);
void accel__bert_heads(accel__build *b, accel__tensor x, accel__tensor pool,
                       accel__tensor predictions);
/* What RoBERTa's classes and their relatives put behind the encoder's rows x [T, hidden]: "pooler"
 * of a base class that has one, "lm_head" (gelu whatever the config says; its output bias is
 * lm_head.bias, or the decoder's own), "classifier.dense" and "classifier.out_proj" over first
 * rows, and the heads of words. */
void accel__roberta_heads(accel__build *b, const accel__bert_config *c, accel__tensor x);

#endif
