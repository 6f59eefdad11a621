/**
 * @file text_tasks.h
 * Texts: tokenizers, chat templates, and the tasks that read texts without generating any -
 * embeddings, classification, reranking, token classification, question answering, fill-mask.
 *
 * Include accel/accel.h, which includes this file.  Results follow the pipelines of transformers
 * and the classes of sentence-transformers that are named at each function.
 *
 * For every task: texts[n] are UTF-8 and stay the caller's; n may be 0; each text is cut at
 * accel_processor.max_length tokens unless a function or its parameters say otherwise.  A result is
 * freed with its own _free function, and everything in it lives as long as it.  A call reports its progress to
 * accel_params.progress.  ACCEL_ERROR_ARGUMENT: a text is NULL (the message has its number).
 * ACCEL_ERROR_UNSUPPORTED: the model's class has no head for the task, or there is no tokenizer.
 */
#ifndef ACCEL_TEXT_TASKS_H
#define ACCEL_TEXT_TASKS_H

#include "accel/inference.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---- tokenizer ----------------------------------------------------------------------------- */

/** A tokenizer by itself, as transformers' AutoTokenizer.  Immutable: may be used from many threads
 *  at once. */
typedef struct accel_tokenizer accel_tokenizer;

/**
 * Opens a tokenizer.
 *
 * @param path_or_model a tokenizer.json, a model's directory, or its id.
 * @param out closed with accel_tokenizer_close().
 * @return ACCEL_ERROR_NOT_FOUND: no such model here, or it has no tokenizer.
 *         ACCEL_ERROR_FORMAT: a file of it is malformed; file and field are named.
 *         ACCEL_ERROR_UNSUPPORTED: a kind of tokenizer, or a step of it, that is not supported.
 */
ACCEL_API accel_status accel_tokenizer_open(accel *ctx, const char *path_or_model,
                                            accel_tokenizer **out);

/** The tokenizer of an endpoint; belongs to the endpoint, is not closed, and may be used as any
 *  other.  NULL: there is none, or for NULL. */
ACCEL_API accel_tokenizer *accel_tokenizer_of(const accel_endpoint *endpoint);

/** Closes a tokenizer and sets the pointer to NULL. */
ACCEL_API void accel_tokenizer_close(accel_tokenizer **tokenizer);

/** The tokens of texts. */
typedef struct accel_token_ids {
  /** Texts. */
  uint32_t n;
  /** [n] tokens of each. */
  const uint32_t *count;
  /** [n][count[i]] token ids. */
  const int32_t *const *ids;
  /** [n][count[i]] tokens as the vocabulary spells them. */
  const char *const *const *tokens;
  /** Where each token begins in its text, in code points; 0 for special tokens. [n][count[i]] */
  const int64_t *const *start;
  /** Where it ends; 0 for special tokens. */
  const int64_t *const *end;
} accel_token_ids;

/**
 * Turns texts into tokens.  Nothing is cut or padded.
 *
 * @param add_special_tokens nonzero: with those that the tokenizer puts around a text ([CLS],
 *                           `<s>`).
 * @param out freed with accel_token_ids_free().
 * @return ACCEL_ERROR_LIMIT: a text has more bytes than a tokenizer takes (the message has how
 *         many).
 */
ACCEL_API accel_status accel_tokenize(accel_tokenizer *tokenizer, const char *const *texts,
                                      uint32_t n, int add_special_tokens, accel_token_ids **out);

/** Frees a result and sets the pointer to NULL. */
ACCEL_API void accel_token_ids_free(accel_token_ids **ids);

/**
 * Turns tokens back into text, as transformers' decode().
 *
 * @param skip_special_tokens nonzero: special tokens are left out.
 * @param text freed with accel_string_free(); "" when n is 0.  Ids that the vocabulary lacks give
 *             no text.
 */
ACCEL_API accel_status accel_detokenize(accel_tokenizer *tokenizer, const int32_t *ids, uint32_t n,
                                        int skip_special_tokens, char **text);

/* ---- chat templates ------------------------------------------------------------------------ */

/** A model's chat templates: Jinja programs that write a conversation down as the model was trained
 *  on it.  Immutable: may be used from many threads at once. */
typedef struct accel_template accel_template;

/** What accel_template_render() gives to the template; as in transformers' apply_chat_template. */
typedef struct accel_template_params {
  /** sizeof(accel_template_params). */
  uint32_t size;
  /** Name of one of several templates; NULL: "tool_use" when there are tools and such a template,
   *  else the default one. */
  const char *name;
  /** JSON array of function schemas; NULL: none. */
  const char *tools;
  /** JSON array of objects with title and text; NULL: none. */
  const char *documents;
  /** JSON object of further variables, {"enable_thinking": false}; NULL: none. */
  const char *variables;
  /** 1 (default): end with the header of the assistant's next message. */
  int32_t add_generation_prompt;
  /** 1: end inside the last message, for the model to continue it; no generation prompt then. */
  int32_t continue_final_message;
} accel_template_params;

/** A generation prompt, nothing else. */
ACCEL_API accel_template_params accel_template_params_default(void);

/**
 * Opens the chat templates of a model.
 *
 * @param path_or_model a model's directory or id (tokenizer_config.json, chat_template.jinja ...),
 *                      or a template file.
 * @param out closed with accel_template_close().
 * @return ACCEL_ERROR_NOT_FOUND: the model is not here, or has no chat template.
 *         ACCEL_ERROR_FORMAT: the template is no Jinja.  ACCEL_ERROR_UNSUPPORTED: it uses a part of
 *         Jinja that is not supported.
 */
ACCEL_API accel_status accel_template_open(accel *ctx, const char *path_or_model,
                                           accel_template **out);

/**
 * The chat templates of an endpoint's model, read at the first call.
 *
 * @param out belongs to the endpoint, is not closed, and may be used as any other.
 * @return as accel_template_open(); ACCEL_ERROR_NOT_FOUND also: the model has no local files.
 */
ACCEL_API accel_status accel_template_of(accel_endpoint *endpoint, accel_template **out);

/** Closes templates and sets the pointer to NULL. */
ACCEL_API void accel_template_close(accel_template **chat_template);

/**
 * Writes a conversation down.
 *
 * Templates can reach nothing but what is given here, and their steps and memory are limited.
 *
 * @param messages JSON array of {"role": ..., "content": ...}.
 * @param params NULL: the defaults.
 * @param text freed with accel_string_free().  Tokenize it without special tokens: the template
 *             wrote them.
 * @return ACCEL_ERROR_ARGUMENT: messages, tools, documents or variables are no such JSON; the
 *         model has no template of that name; or the template refuses the messages (its own words
 *         are the message).  ACCEL_ERROR_LIMIT: it does not end within the limits.
 *         ACCEL_ERROR_FORMAT: what Python would raise as an error of the template.
 *         ACCEL_ERROR_UNSUPPORTED: as accel_template_open().
 */
ACCEL_API accel_status accel_template_render(accel_template *chat_template, const char *messages,
                                             const accel_template_params *params, char **text);

/* ---- embeddings ---------------------------------------------------------------------------- */

/** How texts are embedded; accel_embed_params_default() leaves all to the model. */
typedef struct accel_embed_params {
  /** sizeof(accel_embed_params). */
  uint32_t size;
  /** "mean", "cls", "max", "mean_sqrt_len_tokens", "weightedmean", "lasttoken", or "none": a vector
   *  for each token.  NULL: what modules.json says; without it "none". */
  const char *pooling;
  /** 1: vectors are scaled to length 1.  0: not.  -1 (default): as the model says. */
  int32_t normalize;
  /** Put in front of each text; "": nothing.  NULL: that of prompt_name, else the model's
   *  default. */
  const char *prompt;
  /** One of the prompts of config_sentence_transformers.json, by name; NULL: none.  Not together
   *  with `prompt`, which wins. */
  const char *prompt_name;
  /** An adapter of this endpoint (accel_adapter_load()), which must stay until the request has ended.
   *  NULL: the model's own weights alone. */
  const accel_adapter *adapter;
  /** What the adapter's own scaling is multiplied by; 1 (default): as it was trained. */
  double adapter_scale;
  /** How a text longer than max_length is cut, as transformers names it: "longest_first" (NULL, the
   *  default), "only_first" (the same) or "do_not_truncate": such a text is ACCEL_ERROR_LIMIT
   *  where the model has fewer positions. */
  const char *truncation;
  /** Tokens at which a text is cut, at most what the model has positions for; 0 (default):
   *  accel_processor.max_length. */
  uint32_t max_length;
} accel_embed_params;

/** Vectors of texts. */
typedef struct accel_embeddings {
  /** Texts. */
  uint32_t n;
  /** Numbers in a vector. */
  uint32_t dim;
  /** 0: row i belongs to text i.  1: text i has the rows row_start[i] to row_start[i+1]-1, one for
   *  each token. */
  uint32_t per_token;
  /** [n+1] first row of each text; the last entry is the number of rows. */
  const uint64_t *row_start;
  /** [row_start[n], dim] the vectors, row-major. */
  const float *data;
  /** Tokens that went through the model. */
  uint64_t tokens;
  /** Texts that were cut at the model's length. */
  uint32_t truncated;
} accel_embeddings;

/** Everything as the model says. */
ACCEL_API accel_embed_params accel_embed_params_default(void);

/** accel_embed_with() with the defaults: SentenceTransformer.encode(), or the last hidden states of
 *  each token for a model without modules.json. */
ACCEL_API accel_status accel_embed(accel_endpoint *endpoint, const char *const *texts, uint32_t n,
                                   accel_embeddings **out);

/**
 * Embeds texts.  A vector does not depend on the other texts of the call.
 *
 * @param params NULL: the defaults.
 * @param out freed with accel_embeddings_free().
 * @return ACCEL_ERROR_ARGUMENT: an unknown pooling or prompt name; a text without any token; a
 *         prompt that leaves no token to pool.  ACCEL_ERROR_UNSUPPORTED: another pooling is asked
 *         of a model whose Dense layers belong to its own.
 */
ACCEL_API accel_status accel_embed_with(accel_endpoint *endpoint, const char *const *texts,
                                        uint32_t n, const accel_embed_params *params,
                                        accel_embeddings **out);

/** Frees a result and sets the pointer to NULL. */
ACCEL_API void accel_embeddings_free(accel_embeddings **embeddings);

/** Cosine of two vectors of n numbers, -1 to 1, summed in double; 0 when either is all zero. */
ACCEL_API double accel_cosine(const float *a, const float *b, size_t n);

/* ---- text classification ------------------------------------------------------------------- */

/** One label with its score. */
typedef struct accel_label_score {
  int64_t id;        /**< number of the class */
  const char *label; /**< its name in id2label, "LABEL_0" where there is none */
  double score;      /**< after the function, 0 to 1 for softmax and sigmoid */
} accel_label_score;

/** How scores are made of logits, and how many are given; of texts, pictures and sounds. */
typedef struct accel_classify_params {
  /** sizeof(accel_classify_params). */
  uint32_t size;
  /** Labels given for each item, best first; default 1, 0: all. */
  uint32_t top_k;
  /** "softmax", "sigmoid" or "none" (the logits); NULL: as transformers chooses by the model's
   *  problem_type and number of labels. */
  const char *function;
  /** An adapter of this endpoint (accel_adapter_load()), which must stay until the request has ended.
   *  NULL: the model's own weights alone. */
  const accel_adapter *adapter;
  /** What the adapter's own scaling is multiplied by; 1 (default): as it was trained. */
  double adapter_scale;
  /** A longer sound is ACCEL_ERROR_LIMIT; 0 (default): any length.  Not looked at for others. */
  double max_seconds;
  /** How a text longer than max_length is cut, as transformers names it: "longest_first" (NULL, the
   *  default), "only_first", "only_second" (the part of a pair that is cut), or "do_not_truncate":
   *  such a text is ACCEL_ERROR_LIMIT where the model has fewer positions.  Texts alone. */
  const char *truncation;
  /** Tokens at which a text is cut, at most what the model has positions for; 0 (default):
   *  accel_processor.max_length.  Texts alone. */
  uint32_t max_length;
} accel_classify_params;

/** Labels of items. */
typedef struct accel_classifications {
  uint32_t n;                            /**< items: texts, pictures or sounds */
  const uint32_t *count;                 /**< [n] labels of each */
  const accel_label_score *const *score; /**< [n][count[i]] best first */
  /** Tokens that went through the model; 0 for pictures and sounds. */
  uint64_t tokens;
  /** Texts that were cut at the model's length. */
  uint32_t truncated;
} accel_classifications;

/** The best label, with transformers' choice of function. */
ACCEL_API accel_classify_params accel_classify_params_default(void);

/**
 * Classifies texts: pipeline text-classification.
 *
 * @param pairs NULL, or n second texts for models that read pairs; an entry that is NULL or "" is
 *              none.
 * @param params NULL: the defaults.
 * @param out freed with accel_classifications_free().
 * @return ACCEL_ERROR_ARGUMENT: an unknown function.
 */
ACCEL_API accel_status accel_classify(accel_endpoint *endpoint, const char *const *texts,
                                      const char *const *pairs, uint32_t n,
                                      const accel_classify_params *params,
                                      accel_classifications **out);

/** Frees a result and sets the pointer to NULL. */
ACCEL_API void accel_classifications_free(accel_classifications **classifications);

/* ---- zero-shot classification -------------------------------------------------------------- */

/** How labels of the caller's own are asked for. */
typedef struct accel_zero_shot_params {
  /** sizeof(accel_zero_shot_params). */
  uint32_t size;
  /** The sentence that a label becomes, in place of "{}"; NULL: "This example is {}." */
  const char *hypothesis;
  /** 1: each label has a probability of its own, entailment against contradiction; 0 (default):
   *  those of all labels add up to 1.  One label alone always has its own. */
  uint32_t multi_label;
  /** An adapter of this endpoint (accel_adapter_load()), which must stay until the call has ended.
   *  NULL: the model's own weights alone. */
  const accel_adapter *adapter;
  /** What the adapter's own scaling is multiplied by; 1 (default): as it was trained. */
  double adapter_scale;
} accel_zero_shot_params;

/** "This example is {}.", and probabilities that add up to 1. */
ACCEL_API accel_zero_shot_params accel_zero_shot_params_default(void);

/**
 * Scores labels that the caller makes up: pipeline zero-shot-classification.
 *
 * The model is one of natural language inference with a classification head: the score of a label
 * is how far its sentence follows from the text, by the class whose name begins with "entail" (the
 * last one where none does) against the first class (the last one where that is entailment).  A
 * text is cut so that it and the sentence fit.
 *
 * @param labels [n_labels], at least one.
 * @param params NULL: the defaults.
 * @param out every label of each text, best first; `id` is the label's number in labels[].
 *            Freed with accel_classifications_free().
 * @return ACCEL_ERROR_ARGUMENT: no labels, or a hypothesis without "{}".  ACCEL_ERROR_LIMIT: a
 *         label's sentence leaves no room for a text.
 */
ACCEL_API accel_status accel_zero_shot_classify(accel_endpoint *endpoint, const char *const *texts,
                                                uint32_t n, const char *const *labels,
                                                uint32_t n_labels,
                                                const accel_zero_shot_params *params,
                                                accel_classifications **out);

/* ---- reranking ----------------------------------------------------------------------------- */

/** How documents are ranked. */
typedef struct accel_rerank_params {
  /** sizeof(accel_rerank_params). */
  uint32_t size;
  /** Documents given, best first; 0 (default): all. */
  uint32_t top_k;
  /** "sigmoid" or "none" over the logit; NULL: as the model's configuration says, else sigmoid. */
  const char *function;
  /** Of language models: what makes a document relevant; NULL: as their model card has it. */
  const char *instruction;
  /** An adapter of this endpoint (accel_adapter_load()), which must stay until the request has ended.
   *  NULL: the model's own weights alone. */
  const accel_adapter *adapter;
  /** What the adapter's own scaling is multiplied by; 1 (default): as it was trained. */
  double adapter_scale;
} accel_rerank_params;

/** One document with its score. */
typedef struct accel_ranked {
  uint32_t document; /**< its number in documents[] */
  double score;      /**< larger is better */
} accel_ranked;

/** Ranked documents. */
typedef struct accel_ranking {
  uint32_t n;               /**< documents given */
  const accel_ranked *item; /**< [n] best first; equal scores in the order of documents[] */
  uint32_t truncated;       /**< documents that were cut to fit beside the query */
  /** Tokens of all documents, each with its query and what stands around them; a beginning that
   *  they share counts each time. */
  uint64_t tokens;
} accel_ranking;

/** All documents, everything else as the model says. */
ACCEL_API accel_rerank_params accel_rerank_params_default(void);

/**
 * Ranks documents by how well they answer a query.
 *
 * Models with a classification head of one label: sentence-transformers' CrossEncoder.rank().
 * Language models of the Qwen3-Reranker kind: the probability of "yes" against "no", prompted as
 * their model card does.
 *
 * @param documents [n]
 * @param params NULL: the defaults.
 * @param out freed with accel_ranking_free().
 * @return ACCEL_ERROR_UNSUPPORTED: a head with several labels (accel_classify() gives those), a
 *         model that is no reranker, or an activation function that is not known.
 *         ACCEL_ERROR_ARGUMENT: an unknown function, or an instruction for a model that takes
 *         none.  ACCEL_ERROR_LIMIT: max_length leaves no room beside the prompt.
 */
ACCEL_API accel_status accel_rerank(accel_endpoint *endpoint, const char *query,
                                    const char *const *documents, uint32_t n,
                                    const accel_rerank_params *params, accel_ranking **out);

/** Frees a result and sets the pointer to NULL. */
ACCEL_API void accel_ranking_free(accel_ranking **ranking);

/* ---- token classification ------------------------------------------------------------------ */

/** One token with its label, or a group of tokens. */
typedef struct accel_token_entity {
  const char *entity; /**< label; the entity group when tokens are aggregated */
  double score;       /**< probability; of groups as the strategy combines it */
  const char *word;   /**< the token, or the text of the group */
  int64_t index;      /**< number of the token in the sequence; -1 for groups */
  /** First code point of it in the text. */
  int64_t start;
  /** Code point behind its last one. */
  int64_t end;
} accel_token_entity;

/** How tokens are labelled and grouped. */
typedef struct accel_classify_tokens_params {
  /** sizeof(accel_classify_tokens_params). */
  uint32_t size;
  /** The pipeline's aggregation_strategy: "none" (default), "simple", "first", "average", "max". */
  const char *aggregation;
  /** Labels that are left out; NULL: {"O"}. */
  const accel_strings *ignore_labels;
  /** Tokens by which the pieces of a long text overlap; 0: long texts are cut.  Needs an
   *  aggregation other than "none". */
  uint32_t stride;
} accel_classify_tokens_params;

/** Entities of texts. */
typedef struct accel_token_entities {
  uint32_t n;                              /**< texts */
  const uint32_t *count;                   /**< [n] entities of each */
  const accel_token_entity *const *entity; /**< [n][count[i]] in the order of the text */
} accel_token_entities;

/** No aggregation, without the label "O". */
ACCEL_API accel_classify_tokens_params accel_classify_tokens_params_default(void);

/**
 * Labels the tokens of texts, such as named entities: pipeline token-classification.
 *
 * @param params NULL: the defaults.
 * @param out freed with accel_token_entities_free().
 * @return ACCEL_ERROR_ARGUMENT: an unknown aggregation; a stride without one, or one that is not
 *         below the tokens of a piece.
 */
ACCEL_API accel_status accel_classify_tokens(accel_endpoint *endpoint, const char *const *texts,
                                             uint32_t n, const accel_classify_tokens_params *params,
                                             accel_token_entities **out);

/** Frees a result and sets the pointer to NULL. */
ACCEL_API void accel_token_entities_free(accel_token_entities **entities);

/* ---- question answering -------------------------------------------------------------------- */

/** Settings of the question-answering pipeline of transformers 4, with its defaults. */
typedef struct accel_qa_params {
  /** sizeof(accel_qa_params). */
  uint32_t size;
  /** Answers of each question; default 1, which 0 means, too. */
  uint32_t top_k;
  /** Tokens by which windows of a long context overlap; default 128; more than half a window is
   *  lowered to that. */
  uint32_t doc_stride;
  /** Tokens of the longest answer, at least 1; default 15. */
  uint32_t max_answer_len;
  /** Tokens of a window, the question included; default 384; 0, and more than the model's
   *  limit, mean that limit. */
  uint32_t max_seq_len;
  /** Tokens of the question, the rest of which is cut; default 64, which 0 means, too. */
  uint32_t max_question_len;
  /** 1: "" is an answer, too, when the model finds none; default 0. */
  uint32_t handle_impossible_answer;
  /** 1: answers begin and end with whole words; default 1. */
  uint32_t align_to_words;
} accel_qa_params;

/** One answer. */
typedef struct accel_answer {
  double score; /**< probability of begin times that of end, added up over equal texts */
  /** First code point of it in the context. */
  int64_t start;
  /** Code point behind its last one. */
  int64_t end;
  const char *answer; /**< that part of the context */
} accel_answer;

/** Answers of questions. */
typedef struct accel_answers {
  uint32_t n;                        /**< questions */
  const uint32_t *count;             /**< [n] answers of each; fewer than top_k in short contexts */
  const accel_answer *const *answer; /**< [n][count[i]] best first */
} accel_answers;

/** The pipeline's defaults. */
ACCEL_API accel_qa_params accel_qa_params_default(void);

/**
 * Finds answers in contexts: pipeline question-answering.
 *
 * @param questions,contexts [n] each; question i is asked of context i.
 * @param params NULL: the defaults.
 * @param out freed with accel_answers_free().
 * @return ACCEL_ERROR_ARGUMENT: a question or context is empty, or max_answer_len is 0.
 */
ACCEL_API accel_status accel_qa(accel_endpoint *endpoint, const char *const *questions,
                                const char *const *contexts, uint32_t n,
                                const accel_qa_params *params, accel_answers **out);

/** Frees a result and sets the pointer to NULL. */
ACCEL_API void accel_answers_free(accel_answers **answers);

/* ---- fill-mask ----------------------------------------------------------------------------- */

/** Which tokens are offered for a mask. */
typedef struct accel_fill_params {
  /** sizeof(accel_fill_params). */
  uint32_t size;
  /** Tokens for each mask, best first; default 5, which 0 means, too. */
  uint32_t top_k;
  /** Only these are scored, each as its first token; those without a token are left out.  NULL: the
   *  whole vocabulary. */
  const accel_strings *targets;
  /** How a text longer than max_length is cut, as transformers names it: "longest_first" (NULL, the
   *  default), "only_first" (the same) or "do_not_truncate": such a text is ACCEL_ERROR_LIMIT
   *  where the model has fewer positions. */
  const char *truncation;
  /** Tokens at which a text is cut, at most what the model has positions for; 0 (default):
   *  accel_processor.max_length. */
  uint32_t max_length;
} accel_fill_params;

/** One token for a mask. */
typedef struct accel_fill {
  double score;          /**< probability */
  int64_t token;         /**< token id */
  const char *token_str; /**< the token as text */
  const char *sequence;  /**< the whole text with the token in the mask's place */
} accel_fill;

/** Tokens for the masks of texts. */
typedef struct accel_fills {
  uint32_t n;                    /**< masks in all texts, in order */
  const uint32_t *text;          /**< [n] number of the text the mask is in */
  const uint32_t *count;         /**< [n] tokens of each mask */
  const accel_fill *const *fill; /**< [n][count[i]] best first */
} accel_fills;

/** Five tokens of the whole vocabulary. */
ACCEL_API accel_fill_params accel_fill_params_default(void);

/**
 * Finds tokens for the masks in texts: pipeline fill-mask.
 *
 * @param texts [n] each with one mask token or more, as the tokenizer spells it ("[MASK]",
 *              `<mask>`).
 * @param params NULL: the defaults.
 * @param out freed with accel_fills_free().
 * @return ACCEL_ERROR_ARGUMENT: a text has no mask token, or it was cut off at the
 *         model's limit; no target has a token.
 *         ACCEL_ERROR_UNSUPPORTED: the tokenizer has no mask token.
 */
ACCEL_API accel_status accel_fill_mask(accel_endpoint *endpoint, const char *const *texts,
                                       uint32_t n, const accel_fill_params *params,
                                       accel_fills **out);

/** Frees a result and sets the pointer to NULL. */
ACCEL_API void accel_fills_free(accel_fills **fills);

#ifdef __cplusplus
}
#endif
#endif
