/* model.h - what a model file builds from config.json (and the names in the checkpoint): a program,
 * its entries, inputs and outputs.  One file per architecture, listed in models/models.def.
 *
 * A model file reads every field of its transformers config class, refuses values it does not
 * implement by name ("config.json: hidden_act 'foo' is not supported; known: gelu, relu, ..."), and
 * builds the program of the class asked for ("BertForMaskedLM"), packed rows and all.
 */
#ifndef ACCEL_MODELING_MODEL_H
#define ACCEL_MODELING_MODEL_H

#include "core/json.h"
#include "program/program.h"
#include "weights/weights.h"

/* The entries of a program, and what the code that generates may count on.
 *
 *   forward       Without a session.  What the class's forward returns for a whole batch: logits of
 *                 every row, hidden states when asked for.
 *
 *   forward_text, forward_image
 *                 As "forward", of classes that also run where pixel_values, or input_ids, are
 *                 left out: without those inputs (LayoutLMv3).
 *
 *   embed         Without a session.  Only with an embed head (below).
 *
 *   decode        With a session; of classes that generate (ForCausalLM, LMHeadModel,
 *                 ForConditionalGeneration).  Takes the new rows of each sequence of the run,
 *                 appends them to the sequence's states and returns
 *                   output 0  "logits" [B, vocab]      after the last new row of each sequence: the
 *                                                      scores of the next token
 *                   output 1  "all_logits" [T, vocab]  after every new row; costs nothing unless it
 *                                                      is asked for
 *                 A prompt gives the same numbers at once, token by token, in any pieces and beside
 *                 any other sequences.  position_ids left out are the tokens that the sequence
 *                 already has plus the row's number: the position that the class's generate gives
 *                 (left padding is not counted).
 *
 *   encode        With a session; of encoder-decoders.  Runs the encoder over input_ids once and
 *                 keeps keys and values for the cross attention of "decode" in the sequence's
 *                 CROSS_KV states.  Output 0 is "encoder_last_hidden_state" [T, C]; the other
 *                 outputs have no content: ask for none of them.  A sequence is encoded once:
 *                 reset it to encode anew.  "decode" of these models takes decoder_input_ids, the
 *                 first of which is decoder_start_id.
 *
 *   image_features
 *                 Without a session; of models whose text shows pictures (LLaVA).  Takes the
 *                 arguments of "forward" about pictures alone and returns
 *                   output 0  "image_features" [picture rows, n * C]   a row for each image token:
 *                             what stands in its place, and what is added behind layers of the text
 *                             (Qwen3-VL's DeepStack)
 *
 *   decode_image  As "decode", for rows of which some are image tokens.  Takes "image_features"
 *                 [picture rows, n * C] for these, and in "image_positions" [picture rows] the row
 *                 of the run that each is for; sequences without pictures may be in the run, too.
 *
 *   waveform      Without a session; of models that speak: frames to samples (vits.c).
 *
 *   align         As "decode", with the probabilities of cross attention in place of scores
 *                 (accel__alignment), of all new rows at once.
 *
 * Every entry lists its own inputs and outputs, in the order in which the plugin takes them.
 * Tensors may be shared between entries: `lengths` and input_ids of "forward" and "decode" are the
 * same.
 */

/* How a forward argument of transformers meets the program's packed inputs. */
typedef enum accel__input_kind {
  ACCEL__INPUT_TOKENS,  /* [B,S] integers, packed by attention_mask to [T] int32 */
  ACCEL__INPUT_LENGTHS, /* made by the packer: int32 [B]; no forward argument */
  /* made by the packer: int32 [B], row of side 1 at the position of each sequence's last eos in
   * input_ids */
  ACCEL__INPUT_EOS_ROW,
  /* made by the packer: int32 [B], row of each sequence's last token that is not pad_id (pad_id -1:
   * of its last) */
  ACCEL__INPUT_LAST_ROW,
  /* [B, ...] handed on as it is, in the dtype of the program's input: pixel_values, input_features,
   * masks of frames */
  ACCEL__INPUT_ITEM,
  /* int32 [n] made from another argument by the model's own rule (accel__derived), as its forward
   * does in Python: row numbers that follow from image sizes */
  ACCEL__INPUT_DERIVED,
  /* int32 [3,T]: position_ids of time, height and width (M-RoPE).  Given as [3,B,S], [4,B,S] (the
   * first are left aside) or [B,S] (all three alike); absent:  accel__image_tokens.mrope_positions
   * where there are pictures, else what `otherwise` says of one row, in all three */
  ACCEL__INPUT_MROPE,
  /* int32 [n] made by the packer from token_type_ids (blocks.h): a part of which rows see which
   * keys */
  ACCEL__INPUT_BLOCKS
} accel__input_kind;
/* What an input of kind BLOCKS holds. */
typedef enum accel__block_part {
  ACCEL__BLOCK_LAST_KEYS,   /* [tokens] number in its sequence of the last row that each row sees */
  ACCEL__BLOCK_LENGTHS,     /* [blocks] rows of each */
  ACCEL__BLOCK_ROWS,        /* [block rows] their numbers in the run */
  ACCEL__BLOCK_FIRST_KEYS,  /* [block rows] the first of the block's keys that each sees */
  ACCEL__BLOCK_KEY_LENGTHS, /* [blocks] keys of each */
  ACCEL__BLOCK_KEYS         /* [block keys] their numbers in the run */
} accel__block_part;
/* Is it one row number for each sequence, made by the packer? */
static inline bool accel__input_is_row(accel__input_kind kind) {
  return kind == ACCEL__INPUT_EOS_ROW || kind == ACCEL__INPUT_LAST_ROW;
}
/* What an absent optional argument becomes, evaluated on the padded [B,S] before packing, as the
 * class's forward does it. */
typedef enum accel__input_default {
  ACCEL__DEFAULT_REQUIRED,
  ACCEL__DEFAULT_ZEROS,
  ACCEL__DEFAULT_ONES,        /* ITEM: of the shape that the other inputs give it (masks) */
  ACCEL__DEFAULT_ARANGE,      /* 0 .. S-1 in each row, padding counted */
  ACCEL__DEFAULT_ROBERTA,     /* cumsum(ids != pad_id) * (ids != pad_id) + pad_id */
  ACCEL__DEFAULT_MASK_CUMSUM, /* cumsum(attention_mask) - 1, at least 0 */
  /* decoder_input_ids: decoder_start_id, then input_ids without the last */
  ACCEL__DEFAULT_SHIFTED,
  /* the same with the row's last token that is no padding in front (mBART) */
  ACCEL__DEFAULT_WRAPPED,
  ACCEL__DEFAULT_START, /* decoder_input_ids: decoder_start_id alone (Florence-2) */
  /* the largest position id of the whole padded call, plus 1; of packed rows, the sequence's
   * length; in a session: tokens after the run (past_len and the new ones).  Rope types that change
   * with the length read it */
  ACCEL__DEFAULT_TOTAL_LEN,
  ACCEL__DEFAULT_SEQUENCE, /* number of the row's sequence in the run: the same for all its rows */
  /* id of the token in front of, and behind, each token in its row of the padded tensor, plus 1; 0
   * where there is none.  Padding counts, as in a convolution over the padded row (MobileBERT) */
  ACCEL__DEFAULT_PREVIOUS,
  ACCEL__DEFAULT_NEXT,
  ACCEL__DEFAULT_NONE /* -1: the row is no index */
} accel__input_default;
/* How a DERIVED input comes about. */
typedef struct accel__derived {
  const char *from;     /* forward argument: integers, or numbers (`look`) */
  const char *shape_of; /* forward argument whose dims the rule needs */
  int64_t lines;        /* the input is [lines, n / lines]; 0: [n] */
  /* values[n] of `from`, dim[rank] of `shape_of`; *out in arena memory.  A message says what cannot
   * be. */
  accel_status (*make)(const void *user, const int64_t *values, uint64_t n, const int64_t *dim,
                       uint32_t rank, accel__arena *arena, int32_t **out, int64_t *n_out);
  /* In place of `make` where `from` holds numbers: values of dim[rank]. */
  accel_status (*look)(const void *user, const float *values, const int64_t *dim, uint32_t rank,
                       accel__arena *arena, int32_t **out, int64_t *n_out);
  bool optional; /* `from` may be absent: values NULL, n 0 */
  const void *user;
} accel__derived;
typedef struct accel__model_input {
  const char *name;     /* forward argument: "input_ids" */
  accel__tensor tensor; /* the program's input */
  accel__input_kind kind;
  accel__input_default otherwise;
  int64_t max;                   /* TOKENS: values must be in [0, max); 0: any */
  const accel__derived *derived; /* DERIVED only */
  accel__block_part part;        /* BLOCKS only */
  /* 0: rows of input_ids under attention_mask; 1: rows of decoder_input_ids under
   * decoder_attention_mask */
  uint32_t side;
} accel__model_input;
typedef struct accel__model_output {
  /* "last_hidden_state", "hidden_states.3", "logits"; a tuple's member is field.N */
  const char *name;
  accel__tensor tensor; /* rows of a ragged space are unpacked to [B,S,...] */
  bool asked;           /* true: computed only when named (hidden states) */
  bool squeeze;         /* [.., 1] -> [..]: start_logits, end_logits */
} accel__model_output;
typedef struct accel__model_entry {
  /* "forward", "embed", "decode", "encode"; order of the program's entries */
  const char *name;
  const accel__model_input *inputs; /* [n_inputs] */
  uint32_t n_inputs;
  const accel__model_output *outputs; /* [n_outputs] */
  uint32_t n_outputs;
} accel__model_entry;

/* Pooling, dense layers and normalisation behind an encoder: sentence-transformers' modules.json,
 * read by tasks/, built into the program as the entry "embed" whose only output is "embeddings" [B,
 * dim]. */
typedef enum accel__pooling {
  ACCEL__POOL_NONE,
  ACCEL__POOL_CLS,
  ACCEL__POOL_MEAN,
  ACCEL__POOL_MAX,
  ACCEL__POOL_MEAN_SQRT_LEN,
  ACCEL__POOL_WEIGHTED_MEAN,
  ACCEL__POOL_LAST
} accel__pooling;
#define ACCEL__TORCH_NORM_EPS 1e-5 /* of torch.nn.LayerNorm */
typedef struct accel__dense {      /* a layer behind pooling: Dense or LayerNorm */
  int64_t in, out;
  bool norms; /* LayerNorm: weight and bias [out], in = out */
  bool bias;
  int activation; /* accel_plugin_act */
  /* names in `checkpoint` once its prefix ("2_Dense/") is put in front */
  const char *weight, *bias_name;
} accel__dense;
typedef struct accel__embed_head {
  /* several are concatenated, as Pooling does: cls, max, mean, mean_sqrt_len, weightedmean,
   * lasttoken */
  accel__pooling pooling[6];
  uint32_t n_pooling; /* 0: no "embed" entry */
  const accel__dense *dense;
  uint32_t n_dense;
  bool normalize;
} accel__embed_head;

typedef struct accel__model_request {
  const accel__json_file *config; /* config.json */
  /* where generation_config.json may lie, which a few architectures read; NULL: none */
  const char *directory;
  /* names decide prefixes and spellings; NULL: canonical names (random weights) */
  const accel__checkpoint *checkpoint;
  const accel__import *import; /* names of weights in codes count, too; NULL: none */
  /* tensors that adapters bring count, too; NULL: none */
  const accel__weight_deltas *deltas;
  /* class to build; NULL: config's architectures[0], else the model type's base class */
  const char *architecture;
  const accel__embed_head *embed; /* NULL: none */
  bool low_rank;                  /* runs may bring adapters: accel__program_low_rank */
  uint32_t rank, world;           /* accel__program_shard, with a world above 1 */
} accel__model_request;

/* Tokens of sequences without padding, and the sizes of the pictures and videos they show, in their
 * order. */
typedef struct accel__mrope_input {
  const int32_t *ids, *lengths; /* [tokens], [n] */
  uint32_t n;
  uint64_t tokens;
  const int64_t *sizes; /* [pictures, accel__image_tokens.width] */
  const float *steps;   /* [pictures] ACCEL__TIME_STEPS; NULL: none was given */
  uint64_t pictures;
} accel__mrope_input;

/* Rows of a sequence that see one another in both directions. */
typedef enum accel__blocks {
  ACCEL__BLOCKS_NONE,
  ACCEL__BLOCKS_PICTURES, /* each run of token types 1 (Gemma 3) */
  ACCEL__BLOCKS_PREFIX    /* token types 0, which come first (PaliGemma) */
} accel__blocks;

/* What a processor writes into a prompt for a picture (generate/picture_words.h). */
typedef enum accel__picture_style {
  ACCEL__PICTURE_TOKENS, /* the prompt's one image token, as often as the picture has rows */
  ACCEL__PICTURE_GEMMA3,
  ACCEL__PICTURE_PALIGEMMA,
  ACCEL__PICTURE_IDEFICS3,
  ACCEL__PICTURE_INTERNVL,
  ACCEL__PICTURE_FLORENCE2 /* in front of <s> and what the task is in words (florence_tasks.h) */
} accel__picture_style;

/* Of a model whose text contains pictures (LLaVA): a picture takes as many image tokens (`token`)
 * in the text as it has rows. */
typedef struct accel__image_tokens {
  int64_t token;
  /* of videos (dispatch/videos.h); -1: the model takes none */
  int64_t video_token;
  /* what a second of a video is in position ids of time, where these follow second_per_grid_ts; 0:
   * they count frames */
  double time_scale;
  bool shows_frames; /* the text shows the frames of a video one by one */
  /* argument [pictures, width] of integers about each picture: "image_sizes" */
  const char *sizes;
  int64_t width;
  /* pixel_values are the patches of all pictures, as many of each as its sizes make when
   * multiplied; else dim 0 counts pictures */
  bool flat;
  /* Rows of the picture of these sizes [width] (0 where the argument is absent) when pixel_values
   * are dim[rank]. */
  accel_status (*rows)(const void *user, const int64_t *dim, uint32_t rank, const int64_t *size,
                       int64_t *out);
  /* In place of `rows` where dim 0 of pixel_values counts prompts: rows of all that prompt `i` shows
   * (Idefics3). */
  accel_status (*rows_of)(const void *user, const float *pixels, const int64_t *dim, uint32_t rank,
                          int64_t i, int64_t *out);
  /* Position ids of time, height and width, [3, tokens]; rope_delta[n] (NULL: not wanted): what the
   * position of the token behind each sequence has more than its row number.  ACCEL_ERROR_ARGUMENT
   * when tokens and pictures do not match.  NULL: positions are row numbers. */
  accel_status (*mrope_positions)(const void *user, const accel__mrope_input *what, int32_t *out,
                                  int32_t *rope_delta);
  accel__picture_style style;
  accel__blocks blocks;
  /* keys that rows of blocks see in layers with a window, counted from the row itself to the left;
   * 0: all of the sequence */
  int64_t block_window;
  const void *user;
} accel__image_tokens;

/* Of a model that forecasts time series: what tasks/forecast_job.c does around its program.  A series is
 * given as it is; scaling, patches and tokens are made outside of the program. */
typedef enum accel__forecaster {
  /* Chronos: values become tokens of a T5, whose drawn answers become values again */
  ACCEL__FORECAST_TOKENS,
  /* Chronos-Bolt: inputs "patches" and "patch_mask", output "quantile_preds" */
  ACCEL__FORECAST_BOLT,
  /* TimesFM: inputs "patches", "patch_mask", "freq" and, where it has positions, "positions";
   * output "full_predictions" */
  ACCEL__FORECAST_TIMESFM,
  /* PatchTST: inputs "past_values", "past_observed_mask", output "prediction_outputs" */
  ACCEL__FORECAST_PATCHTST
} accel__forecaster;
typedef struct accel__forecasting {
  accel__forecaster kind;
  int64_t context;  /* values of a series that are read; PatchTST: exactly as many */
  int64_t horizon;  /* values that one run gives */
  int64_t channels; /* series that are forecast together; 1 */
  int64_t patch, stride;
  bool reg_token;          /* BOLT: a row behind the patches */
  const double *quantiles; /* [n_quantiles] levels that the model gives */
  uint32_t n_quantiles;
  double tolerance, pad_value; /* TIMESFM */
  int64_t frequencies;         /* TIMESFM: kinds of series that it tells apart */
  bool positions;              /* TIMESFM: has an input "positions" */
  struct {                     /* TOKENS: MeanScaleUniformBins, and how its answers are drawn */
    double low, high, temperature, top_p;
    int64_t n, special, pad, eos, samples, top_k;
    bool use_eos;
  } tokens;
} accel__forecasting;

/* Of a model that speaks (VITS): what speech/speak.c does around its program. */
typedef struct accel__speaking {
  int64_t rate;     /* samples a second */
  int64_t hop;      /* samples of a frame: the product of upsample_rates */
  int64_t width;    /* values of a frame: flow_size */
  int64_t speakers; /* 1: there is nothing to choose */
  bool stochastic;  /* durations are drawn: "duration_noise" is read */
  double speaking_rate, noise_scale, noise_scale_duration; /* where the caller says nothing */
} accel__speaking;

/* Heads of cross attention that follow the sound (Whisper's alignment_heads): probabilities [heads
 * of a layer, rows, frames] that entry "align" gives for each layer that has some. */
typedef struct accel__aligned_head {
  uint32_t output, row; /* of entry "align"; head of that output */
} accel__aligned_head;
typedef struct accel__alignment {
  const accel__aligned_head *head; /* [n] in the file's order */
  uint32_t n;                      /* 0: there is no entry "align", */
  const char *missing;             /* for this reason */
  int64_t median_width;            /* of the filter over frames */
} accel__alignment;

/* What transformers' generate does differently for this architecture. */
typedef struct accel__generation_rules {
  /* Keys and values of a sequence of at most so many tokens are computed anew once it has more,
   * because the rotations change there (Phi-3's longrope).  0: never. */
  int64_t recompute_kv_above;
  /* What is said of generation is in text_config of config.json, and eos_ids and pad_id there rank
   * before it; generation_config.json is not read (BLIP, whose text decoder generates). */
  bool text_config;
  /* The prompt begins the caption: its first token becomes bos_id and its last one is left out,
   * while "encode" reads the picture alone (BLIP's captions). */
  bool caption_prefix;
  /* The prompt begins the answer as it is: its tokens, without special ones, are all that the
   * decoder begins with, while "encode" reads the picture (Donut). */
  bool answer_prefix;
} accel__generation_rules;

typedef struct accel__model {
  accel__program *program;  /* its entries: see above */
  const char *architecture; /* "BertForMaskedLM" */
  const char *model_type;   /* "bert" */
  /* pipeline name of its head: "feature-extraction", "text-classification", ... */
  const char *task;
  const accel__model_input *inputs; /* [n_inputs] of entry "forward" (and "embed") */
  uint32_t n_inputs;
  const accel__model_output *outputs; /* [n_outputs] of entry "forward" */
  uint32_t n_outputs;
  /* NULL-terminated: further arguments of forward that the program obeys whatever they are; NULL:
   * none.  Where false gives other results, these are outputs of their own, named
   * "use_itm_head=false.itm_score" */
  const char *const *args;
  /* NULL-terminated: arguments that the class's forward takes and never reads with this config, so
   * that a caller may hand on all that the preprocessor makes: "is_longer" of a CLAP without
   * fusion, "attention_mask" of Whisper, "pixel_mask" of YOLOS.  They are accepted whatever they
   * hold.  NULL: none. */
  const char *const *unread;
  const accel__model_entry *entries; /* [n_entries] */
  uint32_t n_entries;
  /* vocab_size: of the decoder where there are two sides; max_positions: tokens a sequence may have
   * (both sides of an encoder-decoder); 0 no limit of the architecture's own */
  int64_t hidden_size, vocab_size, max_positions, pad_id, num_labels;
  /* Of config.json, for whoever generates; generation_config.json ranks before them.  -1 and no
   * ids: the config has none. */
  bool is_encoder_decoder;
  int64_t encoder_vocab_size; /* of an encoder-decoder whose encoder reads tokens */
  int64_t bos_id, decoder_start_id;
  const int64_t *eos_ids;
  uint32_t n_eos;
  accel__generation_rules generation;
  const accel__image_tokens *image_tokens; /* NULL: none */
  const accel__forecasting *forecasting;   /* NULL: it forecasts nothing */
  const accel__speaking *speaking;         /* NULL: it does not speak */
  const accel__alignment *alignment;       /* NULL: the architecture has none */
  /* [num_labels] id2label, "LABEL_0" ... when the config has none */
  const char *const *labels;
  /* "regression", "single_label_classification", "multi_label_classification" or NULL */
  const char *problem_type;
} accel__model;

/* One line of models.def: ACCEL_MODEL(file name, "model_type"), whose file defines `const
 * accel__architecture accel__model_<file>`. */
typedef struct accel__architecture {
  const char *model_type;
  const char *const *classes; /* NULL-terminated; classes[0] is the base class */
  const char *embed_class;    /* class behind sentence embeddings; NULL: the base class */
  accel_status (*build)(const accel__model_request *request, const char *architecture,
                        accel__model *model);
} accel__architecture;

#endif
