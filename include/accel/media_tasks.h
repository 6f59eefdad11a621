/**
 * @file media_tasks.h
 * Pictures and sounds: preprocessing, classification, object detection, segmentation, depth,
 * features, documents, transcription.
 *
 * Include accel/accel.h, which includes this file.  Results follow the pipelines of transformers
 * that are named at each function; models are fed through the processor of their directory
 * (preprocessor_config.json).
 *
 * For every function with accel_media: ACCEL_ERROR_NOT_FOUND, ACCEL_ERROR_IO: a file is not there
 * or cannot be read.  ACCEL_ERROR_FORMAT: it is damaged.  ACCEL_ERROR_UNSUPPORTED: a kind of file
 * that is not supported, a model without a head for the task, or one without local files, whose
 * processor is therefore not known.  ACCEL_ERROR_ARGUMENT: an accel_media without a name.  Results
 * are freed with their own _free function, and everything in them lives as long as they do.
 */
#ifndef ACCEL_MEDIA_TASKS_H
#define ACCEL_MEDIA_TASKS_H

#include "accel/text_tasks.h"

#ifdef __cplusplus
extern "C" {
#endif

/** A picture (JPEG, PNG; WebP when libwebp is on the machine) or a sound (WAV; FLAC, Ogg, MP3 and
 *  AIFF when libsndfile is).  Stays the caller's; read during the call. */
typedef struct accel_media {
  const char *name; /**< path of the file, or what messages call the bytes; never NULL */
  const void *data; /**< the file's bytes; NULL: the file `name` is read */
  size_t n;         /**< bytes of data */
} accel_media;

/* ---- preprocessing ------------------------------------------------------------------------- */

/** What accel_preprocess() prepares; accel_preprocess_params_default() has no items. */
typedef struct accel_preprocess_params {
  /** sizeof(accel_preprocess_params). */
  uint32_t size;
  /** [n_images] pictures. */
  const accel_media *images;
  /** [n_sounds] sounds. */
  const accel_media *sounds;
  /** Pictures. */
  uint32_t n_images;
  /** Sounds; at least one picture or sound in all. */
  uint32_t n_sounds;
  /** 1: pictures are resized as Pillow rounds; 0 (default): as torchvision does, which
   *  transformers 5 prefers. */
  int32_t pillow;
  /** Where CLAP's feature extractor cuts sounds that are too long. */
  uint64_t seed;
} accel_preprocess_params;

/** Nothing to prepare, torchvision's rounding, seed 0. */
ACCEL_API accel_preprocess_params accel_preprocess_params_default(void);

/**
 * Makes the tensors that a model is given for pictures or sounds: pixel_values, pixel_mask,
 * image_sizes, input_features, input_values, attention_mask, is_longer, as transformers'
 * AutoProcessor.  Sounds are brought to the model's sampling rate.
 *
 * @param model its directory or id; no weights are read.
 * @param params names at least one picture or sound; NULL or none is ACCEL_ERROR_ARGUMENT.
 * @param out freed with accel_tensors_free().
 */
ACCEL_API accel_status accel_preprocess(accel *ctx, const char *model,
                                        const accel_preprocess_params *params, accel_tensors **out);

/* ---- classification ------------------------------------------------------------------------ */

/**
 * Classifies pictures: pipeline image-classification.
 *
 * @param images [n]
 * @param params NULL: the defaults (the best label).
 * @param out freed with accel_classifications_free().
 * @return ACCEL_ERROR_ARGUMENT: an unknown function.
 */
ACCEL_API accel_status accel_classify_images(accel_endpoint *endpoint, const accel_media *images,
                                             uint32_t n, const accel_classify_params *params,
                                             accel_classifications **out);

/** Classifies sounds: pipeline audio-classification.  As accel_classify_images(). */
ACCEL_API accel_status accel_classify_sounds(accel_endpoint *endpoint, const accel_media *sounds,
                                             uint32_t n, const accel_classify_params *params,
                                             accel_classifications **out);

/**
 * Scores labels that the caller makes up: pipeline zero-shot-image-classification (CLIP, SigLIP).
 *
 * @param labels [n_labels], at least one.
 * @param hypothesis the sentence that a label becomes where "{}" is in it (without it every label
 *                   becomes the same sentence); NULL: "This is a photo of {}."
 * @param out every label of each picture, best first; `id` is the label's number in labels[].
 *            Freed with accel_classifications_free().
 */
ACCEL_API accel_status accel_zero_shot_image(accel_endpoint *endpoint, const accel_media *images,
                                             uint32_t n, const char *const *labels,
                                             uint32_t n_labels, const char *hypothesis,
                                             accel_classifications **out);

/**
 * The same of sounds: pipeline zero-shot-audio-classification (CLAP).
 *
 * @param hypothesis NULL: "This is a sound of {}."
 * @param max_seconds a longer sound is ACCEL_ERROR_LIMIT; 0: any length.
 */
ACCEL_API accel_status accel_zero_shot_audio(accel_endpoint *endpoint, const accel_media *sounds,
                                             uint32_t n, const char *const *labels,
                                             uint32_t n_labels, const char *hypothesis,
                                             double max_seconds, accel_classifications **out);

/* ---- object detection ---------------------------------------------------------------------- */

/** One object in a picture. */
typedef struct accel_detection {
  double score;      /**< probability of the label; NaN: the model gives none */
  int64_t id;        /**< number of the class; -1: the model has none */
  const char *label; /**< its name in id2label, or in the model's own words */
  /** Left edge of its box, in pixels of the picture as given, turned upright. */
  float xmin;
  /** Upper edge. */
  float ymin;
  /** Right edge. */
  float xmax;
  /** Lower edge. */
  float ymax;
} accel_detection;

/** Which objects count. */
typedef struct accel_detect_params {
  /** sizeof(accel_detect_params). */
  uint32_t size;
  /** Objects with a score above it are given; 0 to 1, default 0.5. */
  double threshold;
} accel_detect_params;

/** Objects in pictures. */
typedef struct accel_detections {
  uint32_t n;            /**< pictures */
  const uint32_t *count; /**< [n] objects of each */
  /** [n][count[i]] in the order of the model's queries; of RT-DETR best first */
  const accel_detection *const *object;
  /** [n] heights of the pictures in pixels, upright. */
  const int32_t *height;
  /** [n] widths. */
  const int32_t *width;
} accel_detections;

/** Objects with a score above 0.5. */
ACCEL_API accel_detect_params accel_detect_params_default(void);

/**
 * Finds objects: pipeline object-detection (DETR, Table Transformer, YOLOS, RT-DETR).  Florence-2 is
 * asked with its task `<OD>`: its objects have no score (NaN, whatever the threshold) and no number
 * (-1).
 *
 * @param params NULL: the defaults.
 * @param out freed with accel_detections_free().
 * @return ACCEL_ERROR_ARGUMENT: the threshold is not from 0 to 1.
 */
ACCEL_API accel_status accel_detect_objects(accel_endpoint *endpoint, const accel_media *images,
                                            uint32_t n, const accel_detect_params *params,
                                            accel_detections **out);

/** Frees a result and sets the pointer to NULL. */
ACCEL_API void accel_detections_free(accel_detections **detections);

/**
 * Draws the boxes and names of objects into their picture, and writes it as a PNG file.
 *
 * @param image the picture as it was given to accel_detect_objects().
 * @param objects [n]: one picture's row of a result; may be NULL when n is 0.
 * @param path the file, which is overwritten.
 * @return ACCEL_ERROR_IO: it cannot be written.
 */
ACCEL_API accel_status accel_draw_objects(const accel_media *image, const accel_detection *objects,
                                          uint32_t n, const char *path);

/* ---- segmentation -------------------------------------------------------------------------- */

/** One segment of a picture. */
typedef struct accel_segment {
  int64_t id;        /**< its number in the map; in a semantic result the class */
  int64_t label_id;  /**< number of the class */
  const char *label; /**< the class's name in id2label */
  double score;      /**< probability; NaN in semantic results, which have none */
  uint64_t pixels;   /**< pixels of the picture that belong to it */
  double area;       /**< the same as a share of the picture, 0 to 1 */
} accel_segment;

/** Segments of pictures. */
typedef struct accel_segmentations {
  /** Pictures. */
  uint32_t n;
  /** [n] segments of each. */
  const uint32_t *count;
  /** [n][count[i]] by id. */
  const accel_segment *const *segment;
  /** [n] heights of the pictures in pixels, turned upright. */
  const int32_t *height;
  /** [n] widths. */
  const int32_t *width;
  /** [n][height[i], width[i]] id of each pixel's segment.  Panoptic and instance: 0 where no
   *  segment is, -1 everywhere in a picture without any. */
  const int32_t *const *map;
} accel_segmentations;

/** How pictures are cut into segments. */
typedef struct accel_segment_params {
  /** sizeof(accel_segment_params). */
  uint32_t size;
  /** "panoptic" or "instance": segments of objects, numbered from 1.  "semantic": segments of
   *  classes.  NULL: the first of these that the model can do. */
  const char *subtask;
  /** Panoptic and instance: objects with a score above it count; 0 to 1, default 0.9. */
  double threshold;
  /** Where mask times score is at least this, a pixel belongs to an object by itself; 0 to 1,
   *  default 0.5. */
  double mask_threshold;
  /** An object counts when others leave it more than this share of those pixels; 0 to 1, default
   *  0.5. */
  double overlap_threshold;
} accel_segment_params;

/** The pipeline's thresholds, and the first subtask the model can do. */
ACCEL_API accel_segment_params accel_segment_params_default(void);

/**
 * Cuts pictures into segments: pipeline image-segmentation.  Models that give every pixel a class
 * (SegFormer) do semantic segmentation, those that give objects masks (DETR) all three.
 *
 * @param params NULL: the defaults.
 * @param out freed with accel_segmentations_free().
 * @return ACCEL_ERROR_ARGUMENT: a threshold that is not from 0 to 1, or an unknown subtask.
 *         ACCEL_ERROR_UNSUPPORTED: panoptic or instance of a model that tells no objects apart.
 */
ACCEL_API accel_status accel_segment_images(accel_endpoint *endpoint, const accel_media *images,
                                            uint32_t n, const accel_segment_params *params,
                                            accel_segmentations **out);

/** Frees a result and sets the pointer to NULL. */
ACCEL_API void accel_segmentations_free(accel_segmentations **segmentations);

/**
 * Draws the segments of one picture, with a legend, and writes them as a PNG file.
 *
 * @param image the picture the result is of, under the colours; NULL: the colours alone, on black.
 * @param index number of the picture in `found`.
 * @param path the file, which is overwritten.
 * @return ACCEL_ERROR_ARGUMENT: no such index, or a picture of another size.  ACCEL_ERROR_IO: the
 *         file cannot be written.
 */
ACCEL_API accel_status accel_draw_segments(const accel_media *image,
                                           const accel_segmentations *found, uint32_t index,
                                           const char *path);

/* ---- depth --------------------------------------------------------------------------------- */

/** How far away what pictures show is. */
typedef struct accel_depths {
  /** Pictures. */
  uint32_t n;
  /** [n] heights of the pictures in pixels, turned upright. */
  const int32_t *height;
  /** [n] widths. */
  const int32_t *width;
  /** [n][height[i], width[i]] what the model says of each pixel: of metric models the distance in
   *  metres; of others the inverse of it up to a factor and an offset, larger where it is nearer. */
  const float *const *depth;
  /** [n] the least value of each. */
  const float *least;
  /** [n] the greatest. */
  const float *most;
} accel_depths;

/**
 * Estimates depth: pipeline depth-estimation (DPT, Depth Anything).
 *
 * @param images [n]
 * @param out freed with accel_depths_free().
 */
ACCEL_API accel_status accel_estimate_depth(accel_endpoint *endpoint, const accel_media *images,
                                            uint32_t n, accel_depths **out);

/** Frees a result and sets the pointer to NULL. */
ACCEL_API void accel_depths_free(accel_depths **depths);

/**
 * Writes the depth of one picture as a grey PNG file, black at the least value, white at the
 * greatest: the pipeline's "depth" with 8 bits.
 *
 * @param index number of the picture in `found`.
 * @param bits of a pixel: 8 or 16.
 * @param path the file, which is overwritten.
 * @return ACCEL_ERROR_ARGUMENT: no such index, or other bits.  ACCEL_ERROR_IO: the file cannot be
 *         written.
 */
ACCEL_API accel_status accel_draw_depth(const accel_depths *found, uint32_t index, uint32_t bits,
                                        const char *path);

/* ---- features ------------------------------------------------------------------------------ */

/**
 * What a model says of pictures before any head: pipeline image-feature-extraction (ViT, DeiT,
 * DINOv2, DINOv3, Swin, ResNet, ConvNeXt; of other checkpoints of theirs when they are opened for
 * the task "image-feature-extraction", which takes the class without a head).
 *
 * @param images [n]; each goes through the model by itself.
 * @param pool 0: last_hidden_state, [1, tokens, dim], of ResNet and ConvNeXt [1, channels, height,
 *             width].  1: pooler_output, [1, dim], of ResNet [1, channels, 1, 1].
 * @param out [n] tensors, fp32, in the order of the pictures and with the name of the output.
 *            Freed with accel_tensors_free().
 * @return ACCEL_ERROR_UNSUPPORTED: the model takes no pictures, or has no such output.
 */
ACCEL_API accel_status accel_extract_image_features(accel_endpoint *endpoint,
                                                    const accel_media *images, uint32_t n, int pool,
                                                    accel_tensors **out);

/* ---- documents ----------------------------------------------------------------------------- */

struct accel_generate_params;

/** A question about a page. */
typedef struct accel_document_question {
  /** What is asked. */
  const char *question;
  /** The page; NULL: none, of a LayoutLMv3 that does not look at it. */
  const accel_media *image;
  /** [n_words] words of the page in reading order, for LayoutLMv3: there is no OCR engine here. */
  const char *const *words;
  /** [n_words][4] the box of each: left, top, right, bottom in 1000ths of the page's width and
   *  height, 0 to 1000. */
  const int32_t *boxes;
  /** Words. */
  uint32_t n_words;
} accel_document_question;

/** How documents are asked; accel_document_params_default() has the pipeline's values. */
typedef struct accel_document_params {
  /** sizeof(accel_document_params). */
  uint32_t size;
  /** LayoutLMv3: most answers to a question; default 1. */
  uint32_t top_k;
  /** LayoutLMv3: tokens of an answer at most; default 15. */
  uint32_t max_answer_len;
  /** LayoutLMv3: tokens of question and words that are read at once; 0 (default), or more than the
   *  model takes: what it takes. */
  uint32_t max_seq_len;
  /** LayoutLMv3: tokens that such windows share; 0 (default): half of max_seq_len, at most 256. */
  uint32_t doc_stride;
  /** LayoutLMv3: 1: that there is no answer is one, too; default 0. */
  int32_t handle_impossible_answer;
  /** LayoutLMv3: 1: the model looks at the picture, too, as its processor gives it; 0 (default): it
   *  reads words and boxes alone, as transformers' pipeline has it. */
  int32_t look;
  /** Donut: limits and sampling of its answer; NULL: the defaults, 256 new tokens where the model
   *  does not say. */
  const struct accel_generate_params *generate;
} accel_document_params;

/** An answer. */
typedef struct accel_document_answer {
  /** Probability; NaN: Donut tells none. */
  double score;
  /** Number of the first of its words; -1: Donut knows of no words. */
  int64_t start;
  /** Number of the last. */
  int64_t end;
  /** Its text; NULL: Donut wrote none. */
  const char *answer;
} accel_document_answer;

/** Answers to questions about documents. */
typedef struct accel_document_answers {
  /** Questions. */
  uint32_t n;
  /** [n] answers to each. */
  const uint32_t *count;
  /** [n][count[i]] best first. */
  const accel_document_answer *const *answer;
} accel_document_answers;

/** The values of the pipeline. */
ACCEL_API accel_document_params accel_document_params_default(void);

/**
 * Answers questions about pages: pipeline document-question-answering, of LayoutLMv3
 * (LayoutLMv3ForQuestionAnswering, which finds the answer among the words it is given) and Donut
 * (VisionEncoderDecoderModel, which reads the picture).  Spans whose probability is 0 are left out.
 *
 * @param questions [n]
 * @param params NULL: the defaults.
 * @param out freed with accel_document_answers_free().
 * @return ACCEL_ERROR_ARGUMENT: a question without words and boxes for LayoutLMv3, or without a
 *         picture for Donut; a box outside 0 to 1000; a top_k or max_answer_len of 0.
 *         ACCEL_ERROR_UNSUPPORTED: another model.  Else, for Donut, as accel_generate_images().
 */
ACCEL_API accel_status accel_answer_documents(accel_endpoint *endpoint,
                                              const accel_document_question *questions, uint32_t n,
                                              const accel_document_params *params,
                                              accel_document_answers **out);

/** Frees a result and sets the pointer to NULL. */
ACCEL_API void accel_document_answers_free(accel_document_answers **answers);

/**
 * What a Donut says about a page as JSON: token2json of its processor.  `<s_name> ... </s_name>` is
 * a member, `<sep/>` stands between the items of a list; letter case counts in names outside ASCII
 * alone.
 *
 * @param text with its marks, as accel_generate_images() gives it with keep_special_tokens.
 * @param json freed with accel_string_free().
 * @return ACCEL_ERROR_UNSUPPORTED: the endpoint has no tokenizer.
 */
ACCEL_API accel_status accel_document_json(accel_endpoint *endpoint, const char *text, char **json);

/* ---- transcription ------------------------------------------------------------------------- */

struct accel_speech_segment;

/** Receives a segment of Whisper's as soon as it is final, from the thread that transcribes: number
 *  `index` of sound `sound`, without words.  It is valid during the call.  Nonzero ends the call
 *  with ACCEL_ERROR_CANCELLED. */
typedef int (*accel_speech_segment_fn)(void *user, uint32_t sound, uint32_t index,
                                       const struct accel_speech_segment *segment);

/** How speech is transcribed; accel_transcribe_params_default() leaves everything to the model. */
typedef struct accel_transcribe_params {
  /** sizeof(accel_transcribe_params). */
  uint32_t size;
  /** Chunks with their times: "char" (CTC), "word", "segment" (Whisper), or "auto" (CTC: words,
   *  Whisper: segments).  NULL: none. */
  const char *timestamps;
  /** Seconds of the overlapping windows that sounds are cut into, at most 3600.  0: sounds stay
   *  whole, and Whisper goes through long ones segment by segment. */
  double chunk_length;
  /** Seconds by which a window overlaps with the one before; NaN (default): a sixth of
   *  chunk_length. */
  double stride_left;
  /** Seconds by which it overlaps with the one after; NaN (default): a sixth of chunk_length. */
  double stride_right;
  /** Whisper, this and all below: code ("en") or English name of the language.  NULL: detected, or
   *  as generation_config.json says. */
  const char *language;
  /** "transcribe", or "translate" (to English); NULL: as generation_config.json says. */
  const char *task;
  /** Text of the kind that is expected: names, spelling.  NULL: none. */
  const char *prompt;
  /** 1: the prompt is in front of every segment, which needs condition_on_previous; 0: of the first
   *  alone. */
  int32_t prompt_all_segments;
  /** 1: each segment is told what was said before; 0: not; -1 (default): as generation_config.json
   *  says. */
  int32_t condition_on_previous;
  /** [n_temperature] temperatures, 0 to 1000, that are tried in turn while a segment looks bad. */
  const double *temperature;
  /** 0: none are given; then 0, which is greedy search (or beams). */
  uint32_t n_temperature;
  /** A segment that compresses better than this looks bad; NaN (default): not looked at. */
  double compression_ratio_threshold;
  /** A segment whose mean log probability is below this looks bad; NaN (default): not looked at. */
  double logprob_threshold;
  /** Probability of silence above which, when the log probability is below its threshold, a segment
   *  is left out; NaN (default): not looked at.  Needs logprob_threshold. */
  double no_speech_threshold;
  /** Limits, beams and seed of the generation (accel/generate.h); NULL: the defaults.  Its on_token
   *  receives each token without text, `prompt` being the number of the sound; tokens of attempts
   *  that are given up, too. */
  const struct accel_generate_params *generate;
  /** A longer sound is ACCEL_ERROR_LIMIT before anything runs; 0 (default): any length. */
  double max_seconds;
  /** Whisper without chunk_length: receives each segment once, in order; a sound that has to be
   *  begun anew (another device or precision) tells only those that come after.  NULL: nobody. */
  accel_speech_segment_fn on_segment;
  /** First argument of `on_segment`. */
  void *on_segment_user;
} accel_transcribe_params;

/** A piece of a transcript with its time. */
typedef struct accel_chunk {
  const char *text; /**< what was said */
  /** Seconds from the sound's begin; NaN: no timestamp tells. */
  double start;
  /** Seconds from the sound's begin; NaN: no timestamp tells. */
  double end;
} accel_chunk;

/** What Whisper said in one go, between two timestamps. */
typedef struct accel_speech_segment {
  /** Seconds from the sound's begin. */
  double start;
  /** Seconds from the sound's begin. */
  double end;
  /** What was said. */
  const char *text;
  /** Tokens. */
  uint32_t n;
  /** [n] with the timestamps. */
  const int32_t *ids;
  /** Temperature at which it was generated. */
  double temperature;
  /** Mean log probability of its tokens; NaN: no threshold asked for it. */
  double logprob;
  /** Bytes of its text over their compressed size; NaN: no threshold asked for it. */
  double compression_ratio;
  /** Probability that there is no speech; NaN: no threshold asked for it. */
  double no_speech;
  /** Words, with timestamps "word"; else 0. */
  uint32_t n_words;
  /** [n_words] */
  const accel_chunk *words;
} accel_speech_segment;

/** Transcripts of sounds.  For CTC models the entries of `language`, `segment` and `ids` are NULL
 *  and their counts 0. */
typedef struct accel_transcripts {
  /** Sounds. */
  uint32_t n;
  /** [n] what was said. */
  const char *const *text;
  /** [n] chunks of each; 0 without timestamps. */
  const uint32_t *count;
  /** [n][count[i]] as the pipeline gives them: segments, words or characters. */
  const accel_chunk *const *chunk;
  /** [n] code of the language; NULL: the model knows one only. */
  const char *const *language;
  /** [n] segments of each; 0 of sounds that were cut into windows. */
  const uint32_t *segments;
  /** [n][segments[i]] */
  const accel_speech_segment *const *segment;
  /** [n] tokens of each. */
  const uint32_t *n_ids;
  /** [n][n_ids[i]] what transformers' generate() returns, without the first tokens and the end of
   *  text. */
  const int32_t *const *ids;
  /** [n] length of the sounds in seconds, of every model. */
  const double *seconds;
} accel_transcripts;

/** Whole sounds, no timestamps, everything else as the model says. */
ACCEL_API accel_transcribe_params accel_transcribe_params_default(void);

/**
 * Transcribes speech: pipeline automatic-speech-recognition, of Whisper and of models with a CTC
 * head (Wav2Vec2, HuBERT: the best label of each frame).
 *
 * Sounds may be of any length; a transcript does not depend on the other sounds of the call.  Times
 * of Whisper's words come from its cross attention; in Chinese, Japanese, Thai, Lao, Burmese and
 * Cantonese the words are single characters.
 *
 * @param params NULL: the defaults.
 * @param out freed with accel_transcripts_free().
 * @return ACCEL_ERROR_ARGUMENT: unknown timestamps, language or task; a chunk with no room beside
 *         its strides; a threshold, temperature or prompt that does not go together with the model;
 *         language, task, prompt or "segment" for a CTC model, which ignores Whisper's other
 *         options; a sound without samples.
 *         ACCEL_ERROR_UNSUPPORTED: times of words of a Whisper whose generation_config.json has no
 *         alignment_heads; a long sound of one without timestamps.
 *         ACCEL_ERROR_LIMIT: the prompt or max_new_tokens leave no room for a transcript.
 *         Else, for Whisper, as accel_generate().
 */
ACCEL_API accel_status accel_transcribe(accel_endpoint *endpoint, const accel_media *sounds,
                                        uint32_t n, const accel_transcribe_params *params,
                                        accel_transcripts **out);

/** Frees a result and sets the pointer to NULL. */
ACCEL_API void accel_transcripts_free(accel_transcripts **transcripts);

#ifdef __cplusplus
}
#endif
#endif
