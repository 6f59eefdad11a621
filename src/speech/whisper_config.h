/* whisper_config.h - what Whisper's generation_config.json says beyond GenerationConfig, and the
 * tokens its decoder begins with: transformers' WhisperForConditionalGeneration.generate
 * (_retrieve_init_tokens and its neighbours).
 */
#ifndef ACCEL_SPEECH_WHISPER_CONFIG_H
#define ACCEL_SPEECH_WHISPER_CONFIG_H

#include "generate/generate_config.h"

typedef struct accel__whisper_language {
  const char *token; /* "<|fr|>" */
  int32_t id;
} accel__whisper_language;

typedef struct accel__whisper_config {
  const char *file;                        /* for messages */
  bool english_only;                       /* is_multilingual is there and false */
  const accel__whisper_language *language; /* [n_languages] lang_to_id */
  uint32_t n_languages;                    /* 0: the file has none */
  int64_t transcribe, translate;           /* task_to_id; -1: not there */
  /* tokens (an index: the second); -1: not there */
  int64_t no_timestamps, max_initial_timestamp, prev_sot;
  /* [n_forced] forced_decoder_ids from position 1 on; -1: null */
  const int64_t *forced;
  uint32_t n_forced;
  const char *said_language, *said_task; /* the file's own; NULL: none */
  bool return_timestamps, condition_on_previous;
  double compression_ratio, logprob, no_speech; /* thresholds; NAN: none */
} accel__whisper_config;

/* `file` is generation_config.json, or NULL; `config` is config.json, which is read in its place
 * then, and for forced_decoder_ids where it has none.  vocab bounds the tokens.  Arena memory. */
accel_status accel__whisper_config_read(const accel__json_file *file,
                                        const accel__json_file *config, int64_t vocab,
                                        accel__arena *arena, accel__whisper_config *out);

/* The tokens in front of every transcript: start, language, task, no timestamps, as far as the
 * model has them. language: code, name or token; task: "transcribe", "translate"; NULL: the file's,
 * else as forced_decoder_ids say. *detect: where in `out` the language is to be detected
 * (out->id[*detect] is -1 then), or -1.  ACCEL_ERROR_ARGUMENT for what the model cannot be asked,
 * with what it can. */
accel_status accel__whisper_begin(const accel__whisper_config *c, const char *language,
                                  const char *task, bool timestamps, int64_t start,
                                  accel__arena *arena, accel__ids *out, int32_t *detect);
/* "fr" for the id of "<|fr|>"; NULL: no language. */
const char *accel__whisper_language_of(const accel__whisper_config *c, int32_t id);

#endif
