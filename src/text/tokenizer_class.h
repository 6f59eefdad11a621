/* tokenizer_class.h - transformers' tokenizer classes: which one AutoTokenizer takes for a
 * directory, and what it makes of a vocabulary itself.
 *
 * A class with an __init__ of its own takes the vocabulary, the merges and the character map of a
 * tokenizer.json, and makes model, normalizer, pre-tokenizer and decoder anew from
 * tokenizer_config.json; most make the post-processor, too.  The other classes
 * (TokenizersBackend, PreTrainedTokenizerFast) take tokenizer.json as it is.  Source: transformers
 * 5.23, models/auto/tokenization_auto.py, tokenization_utils_tokenizers.py and
 * models/NAME/tokenization_NAME.py.
 */
#ifndef ACCEL_TEXT_TOKENIZER_CLASS_H
#define ACCEL_TEXT_TOKENIZER_CLASS_H

#include "text/settings.h"
#include "text/text_internal.h"

/* Where a class's unknown token comes from; 0 and more: an id. */
enum { ACCEL__UNK_NONE = -1, ACCEL__UNK_NAMED = -2 };

typedef struct accel__tokenizer_class {
  const char *names; /* without Fast; separated by spaces */
  accel__class_tokens tokens;
  const char *model;  /* its type */
  const char *fields; /* of the model, JSON members, each with a comma in front */
  int unk, unk_else;  /* ACCEL__UNK_NAMED: the id where the vocabulary lacks the token */
  /* Steps as JSON.  A step "@" is the character map, "%" what keep_accents and do_lower_case ask
   * for, "#" BERT's normalizer.  Marks in front: '&' with a character map only, '!' without one
   * only, '+' with add_prefix_space only, '^' with split_by_punct only.  "\1" stands for
   * add_prefix_space, "\2" for the prepend_scheme. */
  const char *normalizers[6], *pre_tokenizers[5], *decoders[4];
  bool prefix_space;      /* add_prefix_space where the settings have none */
  bool legacy_prefix;     /* "legacy" prepends to every text between added tokens */
  const char *schemes[2]; /* prepend_scheme without and with add_prefix_space */
  /* Templates: A and B are the texts, b e c s the tokens bos, eos, cls, sep, L the source language,
   * W Whisper's prompt, Q Splinter's question mark, ":1" a type.  NULL: those of tokenizer.json. */
  const char *single, *pair;
  bool roberta;             /* RobertaProcessing: all types are 0 */
  int8_t trims, trim_space; /* offsets, and a space in front: 0 no, 1 yes, 2 as the settings say */
  bool left;                /* padding_side where the settings have none */
} accel__tokenizer_class;

/* The class of that name, with or without Fast at the end; NULL: not one that makes anything
 * itself, or none that is known. */
const accel__tokenizer_class *accel__tokenizer_class_named(const char *name);
/* The class that config.json's model_type has where no file names one; NULL: unknown. */
const char *accel__tokenizer_class_of_type(const char *type);
/* What AutoTokenizer takes for a tokenizer.json: settings are those of accel__tokenizer_settings,
 * model is the root of config.json (NULL: absent), byte_level whether tokenizer.json has a
 * ByteLevel pre-tokenizer or decoder.  NULL: tokenizer.json as it is. */
const accel__tokenizer_class *accel__auto_tokenizer_class(const accel__json *settings,
                                                          const accel__json *model,
                                                          bool byte_level);

/* Appends "normalizer":..., "pre_tokenizer":..., "decoder":..., ; charsmap: base64, NULL none. */
accel_status accel__put_class_steps(const accel__tokenizer_class *class,
                                    const accel__json *settings, const char *charsmap, size_t n,
                                    accel__buffer *b);
/* Appends all that a class makes: "added_tokens":... (listed: accel__put_added_tokens), those steps
 * and "model":{"type":..., its other fields, vocabulary and merges left out, the brace left
 * open. */
accel_status accel__put_class(const accel__tokenizer_class *class, const accel__json *settings,
                              const accel__json *listed, const char *charsmap, size_t n,
                              accel__buffer *b);
/* Of a tokenizer that is built else: the unknown token, and the post-processor where the class has
 * its own. */
accel_status accel__finish_class(accel__tokenizer *t, const accel__tokenizer_class *class,
                                 const accel__json *settings);
/* add_bos_token and add_eos_token, where the settings have one of them, as a post-processor
 * (TokenizersBackend.update_post_processor), except of classes that have their own.  class may be
 * NULL; merges: the vocabulary came with merges.txt. */
accel_status accel__apply_bos_eos(accel__tokenizer *t, const accel__tokenizer_class *class,
                                  const accel__json_file *settings, bool merges);

#endif
