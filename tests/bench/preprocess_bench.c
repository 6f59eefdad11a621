/* preprocess_bench.c - how long one thread takes from a picture or sound to what a model is given.
 *
 *   preprocess_bench DIRECTORY FILE [SECONDS [VALUES]]
 *
 * DIRECTORY has a preprocessor_config.json; FILE is a picture, or a sound when it ends in .wav,
 * .flac, .mp3 or .ogg.  Prints one line of JSON: medians in ms of the file to samples or pixels
 * (`read`), from there to the tensor (`process`), and their sum.  VALUES: the tensor's values are
 * written there, fp32, for preprocess_peers.py to compare.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "audio/audio.h"
#include "bench_timer.h"
#include "core/text.h"
#include "vision/image_processor.h"

enum { PASSES_MAX = 2000 };

typedef struct job {
  const char *directory, *file, *values;
  accel__image_processor image;
  accel__audio_processor audio;
  double read[PASSES_MAX], process[PASSES_MAX];
} job;

static bool is_sound(const char *file) {
  static const char *const endings[] = {".wav", ".flac", ".mp3", ".ogg"};
  for (size_t i = 0; i < sizeof endings / sizeof *endings; i++)
    if (accel__ends_with(file, endings[i])) return true;
  return false;
}

static void keep(const job *j, const float *values, uint64_t n) {
  FILE *f = j->values ? fopen(j->values, "wb") : NULL;
  if (!f) return;
  if (fwrite(values, sizeof *values, n, f) != n)
    fprintf(stderr, "%s: cannot be written\n", j->values);
  fclose(f);
}

static accel_status picture(job *j, size_t pass) {
  accel__image image = {0};
  accel__pixels px;
  const double begin = now();
  ACCEL_TRY(accel__image_read(j->file, &image));
  const double middle = now();
  accel_status status = accel__pixels_of(&j->image, &image, 1, NULL, &px);
  j->read[pass] = middle - begin;
  j->process[pass] = now() - middle;
  uint64_t n = 1;
  for (uint32_t i = 0; status == ACCEL_OK && i < px.rank; i++) n *= (uint64_t)px.dim[i];
  if (status == ACCEL_OK && pass == 0) keep(j, px.values, n);
  accel__pixels_free(&px);
  accel__image_free(&image);
  return status;
}

static accel_status sound(job *j, size_t pass) {
  accel__sound sound = {0};
  accel__audio_features f;
  const double begin = now();
  ACCEL_TRY(accel__sound_read(j->file, &sound));
  accel_status status = accel__resample(&sound, j->audio.rate);
  const double middle = now();
  if (status == ACCEL_OK) status = accel__audio_features_of(&j->audio, &sound, 1, NULL, NULL, &f);
  j->read[pass] = middle - begin;
  j->process[pass] = now() - middle;
  if (status == ACCEL_OK) {
    uint64_t n = 1;
    for (uint32_t i = 0; i < f.rank; i++) n *= (uint64_t)f.dim[i];
    if (pass == 0) keep(j, f.values, n);
    accel__audio_features_free(&f);
  }
  accel__sound_free(&sound);
  return status;
}

int main(int argc, char **argv) {
  static job j;
  if (argc < 3)
    return fprintf(stderr, "usage: preprocess_bench DIRECTORY FILE [SECONDS [VALUES]]\n"), 2;
  j.directory = argv[1], j.file = argv[2];
  j.values = argc > 4 ? argv[4] : NULL;
  const double seconds = argc > 3 ? atof(argv[3]) : 1;
  const bool hears = is_sound(j.file);
  size_t n = 0;
  accel_status status = hears ? accel__audio_processor_load(j.directory, &j.audio)
                              : accel__image_processor_load(j.directory, &j.image);
  for (double begin = now();
       status == ACCEL_OK && n < PASSES_MAX && (n < 5 || now() - begin < seconds); n++)
    status = hears ? sound(&j, n) : picture(&j, n);
  if (status != ACCEL_OK) return fprintf(stderr, "%s\n", accel__message()), 1;
  qsort(j.read, n, sizeof *j.read, ascending);
  qsort(j.process, n, sizeof *j.process, ascending);
  printf("{\"read_ms\": %.4f, \"process_ms\": %.4f, \"all_ms\": %.4f, \"passes\": %zu}\n",
         1e3 * j.read[n / 2], 1e3 * j.process[n / 2], 1e3 * (j.read[n / 2] + j.process[n / 2]), n);
  if (hears) accel__audio_processor_free(&j.audio);
  return 0;
}
