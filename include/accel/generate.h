/**
 * @file generate.h
 * Generating text: from texts, from token ids, from pictures, through the queue; translation and
 * summaries.
 *
 * Include accel/accel.h, which includes this file.  The functions follow transformers' generate()
 * and its pipelines text-generation, image-text-to-text, translation, summarization and
 * text2text-generation.  accel/chat.h has sessions and conversations.
 *
 * Failures that all functions with accel_generate_params share:
 *  - ACCEL_ERROR_UNSUPPORTED: the model's class does not generate; stop strings without a
 *    tokenizer; a field of `config` or generation_config.json that is not supported.
 *  - ACCEL_ERROR_ARGUMENT: a text is NULL, a parameter is outside of its range, `config` has an
 *    unknown field, a token is beyond the vocabulary, a prompt holds no token, or all tokens are
 *    suppressed.
 *  - With a grammar also ACCEL_ERROR_UNSUPPORTED: a keyword or construct of it, by name and place,
 *    or a vocabulary whose tokens do not join to texts; ACCEL_ERROR_ARGUMENT: it is malformed, no
 *    text can be what it asks for, or other settings exclude all that it allows;
 *    ACCEL_ERROR_LIMIT: it needs too many states.
 *  - With speculation also ACCEL_ERROR_UNSUPPORTED: beams, a model with states that cannot go back
 *    (Mamba) or rotations by length (dynamic, longrope), an assistant of another vocabulary.
 *  - ACCEL_ERROR_FORMAT: a field of generation_config.json or `config` has a wrong type.
 *  - ACCEL_ERROR_LIMIT: a prompt and the tokens asked for pass the model's context, said before
 *    anything runs.
 *  - ACCEL_ERROR_NONFINITE: scores hold NaN.
 */
#ifndef ACCEL_GENERATE_H
#define ACCEL_GENERATE_H

#include "accel/media_tasks.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---- parameters ---------------------------------------------------------------------------- */

/** A token with its log probability. */
typedef struct accel_token_logprob {
  int32_t id;    /**< -1: there are fewer tokens than were asked for */
  float logprob; /**< natural logarithm of its probability */
} accel_token_logprob;

/** One token, given to accel_generate_params.on_token as soon as it is chosen.  The texts of a
 *  sequence's events, put together, are its accel_generation.text. */
typedef struct accel_token_event {
  /** sizeof(accel_token_event) of the library. */
  uint32_t size;
  /** Number of the prompt. */
  uint32_t prompt;
  /** Number of its sequence. */
  uint32_t sequence;
  /** The token. */
  int32_t id;
  /** What can be told since the last event: whole code points, and nothing that may still become a
   *  stop string; often "". */
  const char *text;
  /** Log probability, when `logprobs` asks for it; else 0. */
  float logprob;
  /** NULL: more will come.  Else as accel_generation.finish, and this was the sequence's last
   *  event. */
  const char *finish;
  /** [alternatives] the likeliest tokens at this place, best first, as in accel_generation; NULL
   *  where none were asked for, and of beams. */
  const accel_token_logprob *alternative;
  /** How many. */
  uint32_t alternatives;
} accel_token_event;

/** What accel_generate_params.grammar is: how a generated text may be written.  docs/constrained.md
 *  says what of each is understood; everything else is refused by name. */
typedef enum accel_grammar_kind {
  /** Nothing: any text. */
  ACCEL_GRAMMAR_NONE = 0,
  /** A JSON Schema: the text is JSON, without spaces between its parts, that the schema holds
   *  for. */
  ACCEL_GRAMMAR_JSON_SCHEMA = 1,
  /** A regular expression: the whole text matches. */
  ACCEL_GRAMMAR_REGEX = 2,
  /** A grammar as llama.cpp writes them (GBNF): `root ::= "yes" | "no"`. */
  ACCEL_GRAMMAR_TEXT = 3,
  /** A JSON array of texts, of which the generated text is one. */
  ACCEL_GRAMMAR_CHOICES = 4,
  /** Any JSON value, without spaces between its parts; needs no text. */
  ACCEL_GRAMMAR_JSON = 5,
  /** A structural tag as xgrammar and vLLM write them, JSON: free texts with constrained parts,
   *  such as tool calls (docs/constrained.md). */
  ACCEL_GRAMMAR_STRUCTURAL_TAG = 6
} accel_grammar_kind;

/** Receives tokens, from the thread that generates (of queued requests: the queue's).  `event` is
 *  valid during the call.  Nonzero ends this sequence, whose finish is then "cancelled". */
typedef int (*accel_token_fn)(void *user, const accel_token_event *event);

/**
 * How text is generated; accel_generate_params_default() leaves everything to the model.
 *
 * What is not set here is as the model's generation_config.json says (or, without that file, its
 * config.json), and where that says nothing, as transformers does: greedy search, one sequence.
 */
typedef struct accel_generate_params {
  /** sizeof(accel_generate_params). */
  uint32_t size;
  /** Most tokens to generate, 1 or more; INT32_MAX: what the model's context leaves, where it has
   *  one.  -1: the model's; where it has none, 256 or what its context leaves. */
  int32_t max_new_tokens;
  /** Fewest tokens to generate: no sequence ends before.  -1: the model's. */
  int32_t min_new_tokens;
  /** 1: sample.  0: take the likeliest.  -1: sample when temperature, top_k, top_p, min_p or
   *  typical_p is set below, else as the model says. */
  int32_t do_sample;
  /** Above 0: logits are divided by it.  0: greedy.  NaN, here and in the fields below: not set. */
  double temperature;
  /** Nucleus sampling: only the likeliest tokens whose probabilities reach this sum; 0 to 1. */
  double top_p;
  /** Only tokens with at least this share of the likeliest one's probability; 0 to 1. */
  double min_p;
  /** Locally typical sampling: the share of probability that is kept; above 0. */
  double typical_p;
  /** Only the k likeliest tokens may come; 0: all, -1: not set. */
  int32_t top_k;
  /** Above 0; 1: none.  Tokens that occurred, in the prompt too, become less likely above 1. */
  double repetition_penalty;
  /** Subtracted once from the logit of each token that was generated, as in OpenAI's API; 0:
   *  none. */
  double presence_penalty;
  /** Subtracted for each time it was generated; 0: none. */
  double frequency_penalty;
  /** No run of so many tokens comes twice; 0: off, -1: not set. */
  int32_t no_repeat_ngram_size;
  /** Beams of beam search, at most 1024; 1: none, 0: not set. */
  uint32_t num_beams;
  /** Sequences given for each prompt, at most 1024, and with beams no more than those; 0: not
   *  set. */
  uint32_t num_return_sequences;
  /** Same seed, same tokens: on one device and precision, whatever else runs there. */
  uint64_t seed;
  /** Texts that end a sequence, none of them empty; they are cut off unless keep_stop.  NULL:
   *  none. */
  const accel_strings *stop;
  /** JSON object with any fields of transformers' GenerationConfig, {"bad_words_ids": [[5]],
   *  "length_penalty": 2.0}.  The fields of this struct win.  NULL: none. */
  const char *config;
  /** Log probabilities, before penalties and temperature.  -1: none; 0: of the chosen tokens; n: of
   *  the n likeliest, too, at most 1024. */
  int32_t logprobs;
  /** 1: the end-of-sequence token does not end a sequence (benchmarks). */
  uint32_t ignore_eos;
  /** 1: stop strings stay in the texts. */
  uint32_t keep_stop;
  /** 1: special tokens stay in the texts.  2: all but the one that ends a sequence do (with beams
   *  as 1). */
  uint32_t keep_special_tokens;
  /** 1: the tokenizer adds no special tokens, such as `<s>`, to the prompt. */
  uint32_t no_special_tokens;
  /** Receives each token as it is chosen (beam search: at its end).  NULL: only the result. */
  accel_token_fn on_token;
  /** First argument of `on_token`. */
  void *on_token_user;
  /** 1: a prompt that fails (too long, a wrong token, no memory for its cache) does not end the
   *  call: its accel_generation has `status` and `error`, the others go on. */
  uint32_t continue_on_error;
  /** What every generated text must be, as `grammar_kind` says; UTF-8, copied or read during the
   *  call.  NULL: nothing, or with ACCEL_GRAMMAR_JSON any JSON value.  A sequence's end-of-sequence
   *  token may come where the text may end, other special tokens never.  Only a text whose finish is
   *  "eos" is whole: one that max_new_tokens, max_time or a stop string has cut may be the beginning
   *  of one.  Sessions and chats begin anew with each call. */
  const char *grammar;
  /** An accel_grammar_kind. */
  uint32_t grammar_kind;
  /** Speculation by prompt lookup, as transformers calls it: what stood behind an earlier place that
   *  ends alike is guessed, up to so many tokens a step (at most 15), and checked by the model in one
   *  run.  Tokens are those that come without it, drawn ones too, sooner where texts repeat
   *  themselves; fewer are guessed, or none, where that does not pay.  0: as `config` and the model
   *  say, mostly none. */
  uint32_t prompt_lookup_num_tokens;
  /** Longest run of tokens that is looked up; 0: 4. */
  uint32_t max_matching_ngram_size;
  /** Speculation by a smaller model of the same vocabulary, which must live as long as the
   *  generation; not with prompt_lookup_num_tokens.  NULL: none. */
  accel_endpoint *assistant_model;
  /** Tokens that it guesses in a step, at most 15; 0: 8. */
  uint32_t num_assistant_tokens;
  /** 0. */
  uint32_t reserved_adapter;
  /** An adapter of this endpoint (accel_adapter_load()), which must stay until the request has ended.
   *  A session that goes on with another one reads its tokens anew.  NULL: the model's own weights
   *  alone. */
  const accel_adapter *adapter;
  /** What the adapter's own scaling is multiplied by; 1 (default): as it was trained. */
  double adapter_scale;
} accel_generate_params;

/** What was generated from a prompt. */
typedef struct accel_generation {
  /** Number of the prompt. */
  uint32_t prompt;
  /** Number of its sequence; of beams the best is 0. */
  uint32_t sequence;
  /** Text of the generated tokens; "" without a tokenizer. */
  const char *text;
  /** Generated tokens. */
  uint32_t n;
  /** [n] with the end-of-sequence token. */
  const int32_t *ids;
  /** Why it ended: "eos", "stop" (a stop string), "length", "time" (max_time), "cancelled" (by
   *  on_token) or "error" (with continue_on_error). */
  const char *finish;
  /** Beam search: transformers' sequences_scores; else 0. */
  double score;
  /** [n] log probabilities of the tokens when asked for; else NULL. */
  const float *logprob;
  /** Likeliest tokens given at each place. */
  uint32_t alternatives;
  /** [n][alternatives] best first. */
  const accel_token_logprob *alternative;
  /** Tokens of the decoder's prompt. */
  uint32_t prompt_tokens;
  /** Milliseconds from the call to the first token, the prompt's prefill included. */
  double first_ms;
  /** [n] milliseconds from the call to each token; NULL for beams. */
  const double *token_ms;
  /** With continue_on_error: why there are no tokens; else ACCEL_OK. */
  accel_status status;
  /** And the message; NULL: it did not fail. */
  const char *error;
  /** Of `prompt_tokens`, those that were not read because the queue had kept them of an earlier
   *  prompt (accel_init_params.prefix_cache_bytes). */
  uint32_t cached_tokens;
  /** Speculation: tokens that were guessed. */
  uint32_t draft_tokens;
  /** Of these, tokens that were right. */
  uint32_t accepted_tokens;
} accel_generation;

/** The outcome of a generation. */
typedef struct accel_generations {
  /** Sequences. */
  uint32_t n;
  /** [n] prompt by prompt. */
  const accel_generation *item;
  /** Tokens of all prompts. */
  uint64_t prompt_tokens;
  /** Tokens that were generated. */
  uint64_t new_tokens;
  /** Milliseconds until every prompt had its first token, but for those that waited for memory under
   * a
   *  limit. */
  double prefill_ms;
  /** Milliseconds from then on. */
  double decode_ms;
  /** Runs of the model; where prompts waited, of the one with most. */
  uint32_t steps;
} accel_generations;

/** Everything as the model says. */
ACCEL_API accel_generate_params accel_generate_params_default(void);

/* ---- from texts and tokens ----------------------------------------------------------------- */

/**
 * Continues texts; of encoder-decoders: answers them.  All prompts run together, without padding;
 * each gives what it would give alone.
 *
 * @param texts [n]
 * @param params NULL: the defaults.
 * @param out freed with accel_generations_free().
 */
ACCEL_API accel_status accel_generate(accel_endpoint *endpoint, const char *const *texts,
                                      uint32_t n, const accel_generate_params *params,
                                      accel_generations **out);

/**
 * The same from token ids, to which nothing is added.
 *
 * @param ids [n] prompts of count[i] tokens each.
 * @param count [n] at least 1 each.
 */
ACCEL_API accel_status accel_generate_ids(accel_endpoint *endpoint, const int32_t *const *ids,
                                          const uint32_t *count, uint32_t n,
                                          const accel_generate_params *params,
                                          accel_generations **out);

/** Frees a result and sets the pointer to NULL. */
ACCEL_API void accel_generations_free(accel_generations **generations);

/* ---- from pictures ------------------------------------------------------------------------- */

/** What the text of a prompt about pictures is. */
typedef enum accel_prompt_kind {
  /** As the model reads it: where its text shows pictures (LLaVA, Qwen2-VL), with one image token
   *  (`<image>`) for each of them.  For BLIP, which holds no conversations, the begin of a
   *  caption, or the question. */
  ACCEL_PROMPT_TEXT = 0,
  /** What a user says about the pictures: the chat template writes it down, the pictures in
   *  front. */
  ACCEL_PROMPT_QUESTION = 1,
  /** JSON array of messages, whose parts {"type": "image"} are the pictures in order. */
  ACCEL_PROMPT_MESSAGES = 2,
  /** What the model's chat template has made of messages (accel_template_render()), with one image
   *  token for each picture.  Special tokens are added as the model's processor does, but no second
   *  BOS where the text begins with one. */
  ACCEL_PROMPT_TEMPLATED = 3
} accel_prompt_kind;

/** A prompt about pictures. */
typedef struct accel_image_prompt {
  /** What `text` is. */
  accel_prompt_kind kind;
  /** NULL: none, as for a caption.  A question to a chat model is then "Describe the picture." */
  const char *text;
  /** [n_images] the pictures. */
  const accel_media *images;
  /** How many; BLIP takes one. */
  uint32_t n_images;
} accel_image_prompt;

/**
 * Captions pictures and answers questions about them: BLIP (BlipForConditionalGeneration, whose
 * text begins the caption; BlipForQuestionAnswering), LLaVA, LLaVA-Next, Qwen2-VL, Qwen2.5-VL,
 * Florence-2 (task tokens: accel_generate_regions()).
 *
 * @param prompts [n]
 * @param params NULL: the defaults.
 * @param out as accel_generate(); a caption's text has the words it was begun with.  Freed with
 *            accel_generations_free().
 * @return ACCEL_ERROR_ARGUMENT: image tokens and pictures of a prompt are not as many, or a
 *         question is missing.  ACCEL_ERROR_UNSUPPORTED: the model takes no pictures, or holds no
 *         conversations.  Failures of pictures are those of media_tasks.h.
 */
ACCEL_API accel_status accel_generate_images(accel_endpoint *endpoint,
                                             const accel_image_prompt *prompts, uint32_t n,
                                             const accel_generate_params *params,
                                             accel_generations **out);

/** What the outline of a region is. */
typedef enum accel_region_kind {
  /** A box: xmin, ymin, xmax, ymax. */
  ACCEL_REGION_BOX = 1,
  /** The four corners of a text, x and y of each. */
  ACCEL_REGION_QUAD = 2,
  /** Corners of polygons, x and y of each. */
  ACCEL_REGION_POLYGON = 3
} accel_region_kind;

/** A part of a picture that an answer names. */
typedef struct accel_region {
  /** What its outlines are. */
  accel_region_kind kind;
  /** Its words: a class, a phrase, the text that stands there; "" where the answer has none. */
  const char *label;
  /** Outlines: 1, of polygons at least 1. */
  uint32_t n;
  /** [n] numbers in each; of a polygon they may be 0. */
  const uint32_t *count;
  /** [n][count[i]] in pixels of the picture as given, turned upright. */
  const int32_t *const *outline;
} accel_region;

/** One answer with the regions it names. */
typedef struct accel_region_answer {
  /** What was generated, tokens of places (`<loc_12>`) included, without those of beginning and
   *  end. */
  const char *text;
  /** Regions; 0 of tasks that ask for words alone. */
  uint32_t n;
  /** [n] in the order of the text. */
  const accel_region *region;
  /** Height of the picture in pixels, upright. */
  int32_t height;
  /** Its width. */
  int32_t width;
  /** Number of the prompt. */
  uint32_t prompt;
} accel_region_answer;

/** Answers with regions. */
typedef struct accel_region_answers {
  /** Sequences, as in accel_generations. */
  uint32_t n;
  /** [n] prompt by prompt. */
  const accel_region_answer *item;
} accel_region_answers;

/**
 * Answers about pictures that name places in them (Florence-2), read as post_process_generation of
 * transformers' Florence2Processor reads them.
 *
 * @param prompts [n] of kind TEXT or QUESTION, one picture each; the text is a task token (`<OD>`,
 *                `<CAPTION>`, `<OCR_WITH_REGION>`), or one with its input
 *                (`<CAPTION_TO_PHRASE_GROUNDING>a green car`); any other text is asked as it is,
 *                and answered with words alone.
 * @param params NULL: the defaults.  keep_special_tokens does not count.
 * @param out freed with accel_region_answers_free().
 * @return as accel_generate_images(); ACCEL_ERROR_UNSUPPORTED also: the model names no places.
 */
ACCEL_API accel_status accel_generate_regions(accel_endpoint *endpoint,
                                              const accel_image_prompt *prompts, uint32_t n,
                                              const accel_generate_params *params,
                                              accel_region_answers **out);

/** 1: the model names places in pictures: accel_generate_regions() is for it.  Else 0. */
ACCEL_API int32_t accel_names_regions(const accel_endpoint *endpoint);

/** Frees a result and sets the pointer to NULL. */
ACCEL_API void accel_region_answers_free(accel_region_answers **answers);

/* ---- through the queue --------------------------------------------------------------------- */

/**
 * Submits a generation.  Requests that are there at the same time run together and join and leave
 * between two tokens (continuous batching); each gives what it would give alone, and one that fails
 * fails alone.
 *
 * @param text the prompt, copied; NULL: ids[n], the tokens of the prompt, copied, are.
 * @param params copied; NULL: the defaults.  on_token is called from the queue's thread.
 * @param out waited for with accel_wait_generations(), which alone frees it.
 * @return ACCEL_ERROR_QUEUE_FULL, at once, when as many requests wait as the queue has room for.
 *         Wrong parameters, config and prompts fail at once too, as in accel_generate(); what
 *         fails while it runs comes when it is waited for.
 */
ACCEL_API accel_status accel_submit_generate(accel_queue *queue, const char *text,
                                             const int32_t *ids, uint32_t n,
                                             const accel_generate_params *params,
                                             accel_ticket **out);

/** accel_wait() for tickets of accel_submit_generate(); a ticket of another call is
 *  ACCEL_ERROR_ARGUMENT and stays valid.  The result is freed with accel_generations_free(). */
ACCEL_API accel_status accel_wait_generations(accel_ticket **ticket, int64_t timeout_ms,
                                              accel_generations **out);

/* ---- encoder-decoders: translation, summaries ---------------------------------------------- */

/** What an encoder-decoder is asked to do with texts. */
typedef struct accel_text2text_params {
  /** sizeof(accel_text2text_params). */
  uint32_t size;
  /** "translation", "summarization", "text2text-generation" (NULL), or another name of
   *  task_specific_params in config.json.  The languages of "translation_en_to_de" are used where
   *  the model has use for them; those of `source` and `target` must be known to it. */
  const char *task;
  /** Language of the texts in the model's own spelling: "en_XX" or "en" (mBART), "eng_Latn"
   *  (NLLB), "en" (M2M100, T5, Marian's `>>en<<`).  NULL: as the model is set up. */
  const char *source;
  /** Language to translate to, spelled likewise.  NULL: as the model is set up. */
  const char *target;
  /** 1: texts are cut at the tokenizer's model_max_length.  0: only at what the model can take. */
  uint32_t truncate;
  /** NULL: as the task says. */
  const accel_generate_params *generate;
} accel_text2text_params;

/** Task text2text-generation. */
ACCEL_API accel_text2text_params accel_text2text_params_default(void);

/**
 * What transformers' pipelines translation, summarization and text2text-generation do.
 *
 * A task's prefix and settings are read from task_specific_params of config.json, then from
 * generation_config.json; where neither says how, four beams and at most 256 tokens.
 *
 * @param texts [n]
 * @param params NULL: the defaults.
 * @param out freed with accel_generations_free().
 * @return also ACCEL_ERROR_ARGUMENT: a language the model does not know (the message has those it
 *         knows), or a model that does not say which it knows.  ACCEL_ERROR_UNSUPPORTED: the model
 *         is no encoder-decoder for text.
 */
ACCEL_API accel_status accel_text2text(accel_endpoint *endpoint, const char *const *texts,
                                       uint32_t n, const accel_text2text_params *params,
                                       accel_generations **out);

/** accel_text2text() with the task "translation"; source, target and params may be NULL. */
ACCEL_API accel_status accel_translate(accel_endpoint *endpoint, const char *const *texts,
                                       uint32_t n, const char *source, const char *target,
                                       const accel_generate_params *params,
                                       accel_generations **out);

/** accel_text2text() with the task "summarization"; params may be NULL. */
ACCEL_API accel_status accel_summarize(accel_endpoint *endpoint, const char *const *texts,
                                       uint32_t n, const accel_generate_params *params,
                                       accel_generations **out);

#ifdef __cplusplus
}
#endif
#endif
