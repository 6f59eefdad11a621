/* audio_processor.c - preprocessor_config.json of audio models: which extractor, and its
 * numbers. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "audio/audio.h"
#include "core/json.h"

/* The fields that a file may set, with the extractor's defaults in them before it is read. */
typedef struct fields {
  int64_t feature_size, sampling_rate, hop_length, n_fft, chunk_length, max_length_s, max_length,
      num_mel_bins;
  double padding_value, dither, frequency_min, frequency_max, mean, std;
  bool do_normalize, return_attention_mask;
  const char *truncation, *padding, *padding_side;
} fields;

typedef accel_status build_fn(const accel__json_file *file, const fields *f,
                              accel__audio_processor *out);

static accel_status refuse(const accel__json_file *file, const char *field, const char *value,
                           const char *known) {
  return accel__fail(ACCEL_ERROR_UNSUPPORTED, "%s: %s '%s' is not supported; known: %s", file->name,
                     field, value, known);
}

static accel_status mel_bank(accel__audio_processor *p, const fields *f, int64_t mels, bool slaney,
                             accel__mel_scale scale, bool in_mel) {
  p->spectrogram.bank = &p->bank;
  const accel__mel_options how = {.bins = p->spectrogram.fft / 2 + 1,
                                  .mels = (int32_t)mels,
                                  .rate = (int32_t)f->sampling_rate,
                                  .f_min = f->frequency_min,
                                  .f_max = f->frequency_max,
                                  .slaney_norm = slaney,
                                  .in_mel = in_mel,
                                  .scale = scale};
  return accel__mel_bank_new(&how, &p->bank);
}

/* CLAP's and AST's extractors fill up behind, whatever padding_side says. */
static accel_status read_side(const accel__json_file *file, const fields *f,
                              accel__audio_processor *out) {
  out->pads_left = f->padding_side && !strcmp(f->padding_side, "left");
  if (!f->padding_side || out->pads_left || !strcmp(f->padding_side, "right")) return ACCEL_OK;
  return refuse(file, "padding_side", f->padding_side, "right, left");
}

static accel_status build_whisper(const accel__json_file *file, const fields *f,
                                  accel__audio_processor *out) {
  if (f->dither != 0.0)
    return refuse(file, "dither", "other than 0",
                  "0 (random noise would make every result another)");
  out->kind = ACCEL__EXTRACT_WHISPER;
  ACCEL_TRY(read_side(file, f, out));
  out->max_samples = (uint64_t)(f->chunk_length * f->sampling_rate);
  out->spectrogram = (accel__spectrogram){.frame = (int32_t)f->n_fft,
                                          .hop = (int32_t)f->hop_length,
                                          .fft = (int32_t)f->n_fft,
                                          .center = true,
                                          .floor = 1e-10f,
                                          .log = ACCEL__LOG_10};
  return mel_bank(out, f, f->feature_size, true, ACCEL__MEL_SLANEY, false);
}

static accel_status build_wav2vec2(const accel__json_file *file, const fields *f,
                                   accel__audio_processor *out) {
  out->kind = ACCEL__EXTRACT_WAV2VEC2;
  return read_side(file, f, out);
}

static accel_status build_clap(const accel__json_file *file, const fields *f,
                               accel__audio_processor *out) {
  out->kind = ACCEL__EXTRACT_CLAP;
  out->max_samples = (uint64_t)(f->max_length_s * f->sampling_rate);
  if (!strcmp(f->truncation, "fusion"))
    out->truncation = ACCEL__CLAP_FUSION;
  else if (!strcmp(f->truncation, "rand_trunc"))
    out->truncation = ACCEL__CLAP_RAND_TRUNC;
  else
    return refuse(file, "truncation", f->truncation, "fusion, rand_trunc");
  if (!strcmp(f->padding, "repeatpad"))
    out->padding = ACCEL__CLAP_REPEATPAD;
  else if (!strcmp(f->padding, "repeat"))
    out->padding = ACCEL__CLAP_REPEAT;
  else if (!strcmp(f->padding, "pad"))
    out->padding = ACCEL__CLAP_PAD;
  else
    return refuse(file, "padding", f->padding, "repeatpad, repeat, pad");
  out->spectrogram = (accel__spectrogram){.frame = (int32_t)f->n_fft,
                                          .hop = (int32_t)f->hop_length,
                                          .fft = (int32_t)f->n_fft,
                                          .center = true,
                                          .floor = 1e-10f,
                                          .log = ACCEL__LOG_DB};
  const bool fusion = out->truncation == ACCEL__CLAP_FUSION;
  return mel_bank(out, f, f->feature_size, !fusion, fusion ? ACCEL__MEL_HTK : ACCEL__MEL_SLANEY,
                  false);
}

static accel_status build_ast(const accel__json_file *file, const fields *f,
                              accel__audio_processor *out) {
  (void)file;
  out->kind = ACCEL__EXTRACT_AST;
  out->max_frames = f->max_length;
  out->spectrogram = (accel__spectrogram){.frame = 400,
                                          .hop = 160,
                                          .fft = 512,
                                          .symmetric = true,
                                          .remove_dc = true,
                                          .preemphasis = 0.97f,
                                          .floor = 1.1920928955078125e-07f,
                                          .log = ACCEL__LOG_E};
  return mel_bank(out, f, f->num_mel_bins, false, ACCEL__MEL_KALDI, true);
}

static const struct extractor {
  const char *name;
  build_fn *build;
  fields defaults;
} extractors[] = {
    {"WhisperFeatureExtractor",
     build_whisper,
     {.feature_size = 80,
      .sampling_rate = 16000,
      .hop_length = 160,
      .n_fft = 400,
      .chunk_length = 30,
      .frequency_max = 8000.0}},
    {"Wav2Vec2FeatureExtractor",
     build_wav2vec2,
     {.feature_size = 1, .sampling_rate = 16000, .do_normalize = true}},
    {"ClapFeatureExtractor",
     build_clap,
     {.feature_size = 64,
      .sampling_rate = 48000,
      .hop_length = 480,
      .n_fft = 1024,
      .max_length_s = 10,
      .frequency_max = 14000.0,
      .truncation = "fusion",
      .padding = "repeatpad"}},
    {"ASTFeatureExtractor",
     build_ast,
     {.feature_size = 1,
      .sampling_rate = 16000,
      .max_length = 1024,
      .num_mel_bins = 128,
      .frequency_min = 20.0,
      .mean = -4.2677393,
      .std = 4.5689974,
      .do_normalize = true}},
};
enum { EXTRACTORS = sizeof extractors / sizeof *extractors };

static accel_status read_fields(const accel__json_file *file, const accel__json *at, fields *f) {
  const struct {
    const char *key;
    int64_t min, max, *to;
  } whole[] = {{"feature_size", 1, 4096, &f->feature_size},
               {"sampling_rate", 100, 1000000, &f->sampling_rate},
               {"hop_length", 1, 65536, &f->hop_length},
               {"n_fft", 2, 65536, &f->n_fft},
               {"fft_window_size", 2, 65536, &f->n_fft},
               {"chunk_length", 1, 3600, &f->chunk_length},
               {"max_length_s", 1, 3600, &f->max_length_s},
               {"max_length", 1, 1 << 20, &f->max_length},
               {"num_mel_bins", 1, 4096, &f->num_mel_bins}};
  const struct {
    const char *key;
    double *to;
  } number[] = {{"padding_value", &f->padding_value},
                {"dither", &f->dither},
                {"frequency_min", &f->frequency_min},
                {"frequency_max", &f->frequency_max},
                {"mean", &f->mean},
                {"std", &f->std}};
  for (size_t i = 0; i < sizeof whole / sizeof *whole; i++)
    ACCEL_TRY(accel__json_int(file, at, whole[i].key, whole[i].min, whole[i].max, whole[i].to));
  for (size_t i = 0; i < sizeof number / sizeof *number; i++)
    ACCEL_TRY(accel__json_number(file, at, number[i].key, number[i].to));
  ACCEL_TRY(accel__json_bool(file, at, "do_normalize", &f->do_normalize));
  ACCEL_TRY(accel__json_bool(file, at, "return_attention_mask", &f->return_attention_mask));
  ACCEL_TRY(accel__json_string(file, at, "padding_side", &f->padding_side));
  if (!f->truncation) return ACCEL_OK; /* words in CLAP's files alone */
  ACCEL_TRY(accel__json_string(file, at, "truncation", &f->truncation));
  return accel__json_string(file, at, "padding", &f->padding);
}

/* The class that transformers takes for a model whose file names none. */
static accel_status class_for(const char *directory, const char **class_name) {
  static const char *const usual[][2] = {{"wav2vec2", "Wav2Vec2FeatureExtractor"},
                                         {"hubert", "Wav2Vec2FeatureExtractor"},
                                         {"wavlm", "Wav2Vec2FeatureExtractor"},
                                         {"moonshine", "Wav2Vec2FeatureExtractor"},
                                         {"whisper", "WhisperFeatureExtractor"},
                                         {"clap", "ClapFeatureExtractor"},
                                         {"audio-spectrogram-transformer", "ASTFeatureExtractor"}};
  return accel__json_usual_class(directory, usual, sizeof usual / sizeof *usual, class_name);
}

static accel_status build(const accel__json_file *file, const accel__json *at,
                          const char *directory, accel__audio_processor *out) {
  const char *type = NULL;
  const struct extractor *e = NULL;
  ACCEL_TRY(accel__json_string(file, at, "feature_extractor_type", &type));
  if (!type) ACCEL_TRY(class_for(directory, &type));
  if (!type) ACCEL_TRY(accel__json_require(file, at, "feature_extractor_type"));
  for (int i = 0; i < EXTRACTORS; i++)
    if (!strcmp(extractors[i].name, type)) e = &extractors[i];
  if (!e)
    return refuse(file, "feature_extractor_type", type,
                  "WhisperFeatureExtractor, Wav2Vec2FeatureExtractor, ClapFeatureExtractor, "
                  "ASTFeatureExtractor");
  fields f = e->defaults;
  ACCEL_TRY(read_fields(file, at, &f));
  if (e->build == build_ast && f.frequency_max == 0.0)
    f.frequency_max = (double)(f.sampling_rate / 2);
  out->rate = (uint32_t)f.sampling_rate;
  out->do_normalize = f.do_normalize;
  out->attention_mask = f.return_attention_mask;
  out->padding_value = (float)f.padding_value;
  out->mean = (float)f.mean;
  out->std = (float)f.std;
  ACCEL_TRY_AS(e->build(file, &f, out), "%s", file->name);
  return ACCEL_OK;
}

accel_status accel__audio_processor_load(const char *directory, accel__audio_processor *out) {
  accel__json_file file;
  const accel__json *at;
  *out = (accel__audio_processor){0};
  accel_status status = accel__json_read_processor(directory, "feature_extractor", &file, &at);
  if (status == ACCEL_OK) status = build(&file, at, directory, out);
  if (status != ACCEL_OK) accel__audio_processor_free(out);
  accel__json_free(&file);
  return status;
}

void accel__audio_processor_free(accel__audio_processor *p) {
  accel__mel_bank_free(&p->bank);
  *p = (accel__audio_processor){0};
}
