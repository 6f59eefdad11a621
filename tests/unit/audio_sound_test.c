/* audio_sound_test.c - sound files, resampling and feature extractors against soundfile, torchaudio
 * and transformers (tests/goldens/make_audio_goldens.py). */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "audio/audio.h"
#include "audio/audio_kernels.h"
#include "audio/fft.h"
#include "core/file.h"
#include "unit/force_isa.h"
#include "unit/tensors.h"

#define AUDIO ACCEL_FIXTURES "/audio/"

static void assert_close(const char *what, const float *got, const accel_tensor *want,
                         double bound) {
  const float *expected = want->data;
  for (int64_t i = 0; i < elements(want); i++)
    if (!(fabs((double)got[i] - expected[i]) <= bound))
      fail_msg("%s: element %lld is %.7g, not %.7g", what, (long long)i, got[i], expected[i]);
}

/* ---- files ---- */

static void files_are_read(void **state) {
  (void)state;
  accel_tensors *t = read_tensors(AUDIO "sounds.safetensors");
  uint32_t read = 0;
  for (uint32_t i = 0; i < t->n; i++) {
    const char *name = t->item[i].name;
    char path[512];
    accel__sound s;
    if (!strncmp(name, "rate.", 5)) continue;
    snprintf(path, sizeof path, AUDIO "sounds/%s", name);
    if (accel__sound_read(path, &s) != ACCEL_OK) {
      /* not installed: explained */
      if (!strstr(name, ".wav") && strstr(accel_last_error(), "libsndfile.so.1")) continue;
      fail_msg("%s", accel_last_error());
    }
    assert_int_equal((int64_t)s.frames, elements(&t->item[i]));
    assert_int_equal(s.rate, *(const int64_t *)find(t, "rate.%s", name)->data);
    /* Vorbis decoders may differ by a rounding */
    assert_close(name, s.samples, &t->item[i], strstr(name, ".ogg") ? 1e-6 : 1e-7);
    accel__sound_free(&s);
    read++;
  }
  assert_true(read >= 17);
  accel_tensors_free(&t);
}

/* Nothing behind the longest sound is decoded. */
static void long_sounds_are_refused(void **state) {
  (void)state;
  accel__mapping map;
  accel__sound whole, s;
  assert_int_equal(accel__file_map(AUDIO "sounds/lossless.flac", &map), ACCEL_OK);
  if (accel__sound_parse(map.data, map.n, "flac", 0, &whole) == ACCEL_OK) {
    const double seconds = (double)whole.frames / whole.rate;
    assert_int_equal(accel__sound_parse(map.data, map.n, "flac", seconds, &s), ACCEL_OK);
    assert_int_equal(s.frames, whole.frames);
    accel__sound_free(&s);
    assert_int_equal(accel__sound_parse(map.data, map.n, "flac", 0.9 * seconds, &s),
                     ACCEL_ERROR_LIMIT);
    assert_null(s.samples);
    assert_non_null(strstr(accel_last_error(), "seconds"));
  } else {
    assert_non_null(strstr(accel_last_error(), "libsndfile.so.1"));
  }
  accel__sound_free(&whole);
  accel__file_unmap(&map);
}

static void bad_files_are_refused(void **state) {
  (void)state;
  accel__arena arena = {0};
  char **names;
  size_t n;
  assert_int_equal(accel__list_directory(AUDIO "bad", &arena, &names, &n), ACCEL_OK);
  assert_true(n >= 14);
  for (size_t i = 0; i < n; i++) {
    accel__sound s;
    const accel_status status =
        accel__sound_read(accel__path_join(&arena, AUDIO "bad", names[i]), &s);
    if (status != ACCEL_ERROR_FORMAT && status != ACCEL_ERROR_UNSUPPORTED)
      fail_msg("%s is taken: %d", names[i], status);
    assert_non_null(strstr(accel_last_error(), names[i]));
    /* text, not the file's bytes */
    for (const char *at = accel_last_error(); *at; at++) assert_in_range(*at, ' ', '~');
    assert_null(s.samples);
  }
  accel__arena_free(&arena);
}

/* ---- transforms ---- */

static void power_spectra_of(accel__isa isa) {
  const accel__audio_kernels *kernels = accel__audio_kernels_of(isa);
  const int32_t sizes[] = {1, 2, 3, 4, 5, 7, 8, 12, 30, 49, 350, 400, 512};
  for (size_t c = 0; c < sizeof sizes / sizeof *sizes; c++) {
    const int32_t n = sizes[c];
    accel__fft fft;
    accel__fft_workspace work;
    assert_int_equal(accel__fft_new(n, &fft), ACCEL_OK);
    assert_int_equal(accel__fft_workspace_new(&fft, &work), ACCEL_OK);
    const int lanes = kernels->lanes, frames = 2 * lanes;
    double *power = malloc((size_t)(n / 2 + 1) * (size_t)frames * sizeof *power),
           *x = malloc((size_t)(n * frames) * sizeof *x);
    for (int32_t i = 0; i < n; i++)
      for (int f = 0; f < frames; f++) {
        x[f * n + i] = sin(1.7 * i * (f + 1) + f) + 0.1 * f;
        (f < lanes ? work.re : work.im)[0][i * lanes + f % lanes] = x[f * n + i];
      }
    kernels->fft_power(&fft, &work, power);
    for (int32_t k = 0; k <= n / 2; k++)
      for (int f = 0; f < frames; f++) {
        double re = 0.0, im = 0.0;
        for (int32_t i = 0; i < n; i++) {
          re += x[f * n + i] * cos(2.0 * M_PI * k * i / n);
          im += x[f * n + i] * sin(2.0 * M_PI * k * i / n);
        }
        assert_true(fabs(power[k * frames + f] - (re * re + im * im)) < 1e-9 * n * n);
      }
    free(power);
    free(x);
    accel__fft_workspace_free(&work);
    accel__fft_free(&fft);
  }
}

static void power_spectra(void **state) {
  (void)state;
  for_each_isa(power_spectra_of);
  accel__fft none;
  assert_int_equal(accel__fft_new(0, &none), ACCEL_ERROR_ARGUMENT);
}

static void other_rates(void **state) {
  (void)state;
  accel_tensors *t = read_tensors(AUDIO "resample.safetensors");
  uint32_t seen = 0;
  for (uint32_t i = 0; i < t->n; i++) {
    unsigned from, to;
    if (sscanf(t->item[i].name, "out.%u.%u", &from, &to) != 2) continue;
    const accel_tensor *in = find(t, "in.%u", from);
    accel__sound s = {.samples = malloc((size_t)elements(in) * 4),
                      .frames = (uint64_t)elements(in),
                      .rate = from};
    memcpy(s.samples, in->data, s.frames * 4);
    assert_int_equal(accel__resample(&s, to), ACCEL_OK);
    assert_int_equal(s.rate, to);
    assert_int_equal((int64_t)s.frames, elements(&t->item[i]));
    assert_close(t->item[i].name, s.samples, &t->item[i], 2e-7);
    accel__sound_free(&s);
    seen++;
  }
  assert_int_equal(seen, 8);
  accel_tensors_free(&t);
}

/* ---- extractors ---- */

static void check_features(const char *name, accel__pool *pool) {
  char path[512];
  accel__audio_processor p;
  accel__audio_features f;
  accel__sound sounds[4];
  uint32_t n = 0;
  snprintf(path, sizeof path, AUDIO "features/%s/golden.safetensors", name);
  accel_tensors *t = read_tensors(path);
  *strrchr(path, '/') = 0;
  if (accel__audio_processor_load(path, &p) != ACCEL_OK) fail_msg("%s", accel_last_error());
  for (const accel_tensor *in; (in = find(t, "in.%u", n)); n++)
    sounds[n] =
        (accel__sound){.samples = in->data, .frames = (uint64_t)elements(in), .rate = p.rate};
  const accel__audio_options how = {.longest = strstr(name, "longest") != NULL};
  if (accel__audio_features_of(&p, sounds, n, &how, pool, &f) != ACCEL_OK)
    fail_msg("%s: %s", name, accel_last_error());
  const accel_tensor *want = find(t, "out.%s", f.name), *mask = find(t, "out.attention_mask"),
                     *longer = find(t, "out.is_longer");
  assert_non_null(want);
  assert_int_equal(f.rank, want->rank);
  for (uint32_t d = 0; d < f.rank; d++) assert_int_equal(f.dim[d], want->dim[d]);
  assert_close(name, f.values, want, 1e-4);
  if (!f.mask != !mask) fail_msg("%s: attention_mask is %s", name, mask ? "missing" : "unexpected");
  for (int64_t i = 0; mask && i < elements(mask); i++)
    assert_int_equal(f.mask[i], ((const int64_t *)mask->data)[i]);
  if (mask) assert_int_equal(f.mask_length, mask->dim[1]);
  assert_int_equal(!f.is_longer, !longer);
  for (int64_t i = 0; longer && n == 1 && i < elements(longer); i++)
    assert_int_equal(f.is_longer[i], ((const int64_t *)longer->data)[i]);
  accel__audio_features_free(&f);
  accel__audio_processor_free(&p);
  accel_tensors_free(&t);
}

static void features_of_isa(accel__isa isa) {
  (void)isa; /* ACCEL_ISA names it */
  accel__arena arena = {0};
  accel__pool *pool;
  char **names;
  size_t n;
  assert_int_equal(accel__pool_create_exactly(3, &pool), ACCEL_OK);
  assert_int_equal(accel__list_directory(AUDIO "features", &arena, &names, &n), ACCEL_OK);
  assert_true(n >= 15);
  for (size_t i = 0; i < n; i++) {
    check_features(names[i], NULL);
    check_features(names[i], pool);
  }
  accel__arena_free(&arena);
  accel__pool_destroy(&pool);
}

static void features_are_transformers(void **state) {
  (void)state;
  for_each_isa(features_of_isa);
}

/* Features of one loud and one silent second: the same bits from scalar code and AVX2, and from
 * AVX-512 where no transform is taken. */
static void features_are_the_same_bits(void **state) {
  (void)state;
  static const char *const words[] = {"scalar", "avx2", "avx512"};
  static const char *const names[] = {"whisper_1s", "ast", "clap_repeatpad", "wav2vec2"};
  accel__isa list[ACCEL__ISA_COUNT];
  const int n = accel__isa_list(list);
  float *x = calloc(96000, sizeof *x);
  for (int i = 0; i < 48000; i++) x[i] = sinf(0.0001f * (float)i * (float)i);
  for (size_t c = 0; c < sizeof names / sizeof *names; c++) {
    const int same = strcmp(names[c], "wav2vec2") ? 2 : 3;
    accel__audio_processor p;
    accel__audio_features f[3];
    char path[512];
    snprintf(path, sizeof path, AUDIO "features/%s", names[c]);
    assert_int_equal(accel__audio_processor_load(path, &p), ACCEL_OK);
    const accel__sound sound = {.samples = x, .frames = 2 * p.rate, .rate = p.rate};
    for (int i = 0; i < n && i < same; i++) {
      setenv("ACCEL_ISA", words[i], 1);
      assert_int_equal(accel__audio_features_of(&p, &sound, 1, NULL, NULL, &f[i]), ACCEL_OK);
      int64_t elements = 1;
      for (uint32_t d = 0; d < f[i].rank; d++) elements *= f[i].dim[d];
      assert_true(elements > 1000);
      assert_memory_equal(f[i].values, f[0].values, (size_t)elements * sizeof *f->values);
    }
    for (int i = 0; i < n && i < same; i++) accel__audio_features_free(&f[i]);
    accel__audio_processor_free(&p);
  }
  unsetenv("ACCEL_ISA");
  free(x);
}

/* Sounds that cannot be used are errors; a long one is cut where the seed says. */
static void limits(void **state) {
  (void)state;
  accel__audio_processor p;
  accel__audio_features f, g;
  float *x = calloc(40000, sizeof *x);
  for (int i = 0; i < 40000; i++) x[i] = sinf(0.0001f * (float)i * (float)i);
  accel__sound none = {.samples = x, .rate = 16000},
               slow = {.samples = x, .frames = 100, .rate = 8000},
               tall = {.samples = x, .frames = 40000, .rate = 16000};
  assert_int_equal(accel__audio_processor_load(AUDIO "features/wav2vec2", &p), ACCEL_OK);
  assert_int_equal(accel__audio_features_of(&p, &none, 1, NULL, NULL, &f), ACCEL_ERROR_ARGUMENT);
  assert_int_equal(accel__audio_features_of(&p, &slow, 1, NULL, NULL, &f), ACCEL_ERROR_ARGUMENT);
  accel__audio_processor_free(&p);
  assert_int_equal(accel__audio_processor_load(AUDIO "features/clap_repeat", &p), ACCEL_OK);
  assert_int_equal(
      accel__audio_features_of(&p, &tall, 1, &(accel__audio_options){.seed = 1}, NULL, &f),
      ACCEL_OK);
  assert_int_equal(
      accel__audio_features_of(&p, &tall, 1, &(accel__audio_options){.seed = 2}, NULL, &g),
      ACCEL_OK);
  assert_int_equal(f.is_longer[0], 1);
  assert_true(memcmp(f.values, g.values, (size_t)(f.dim[2] * f.dim[3]) * 4) != 0);
  accel__audio_features_free(&f);
  accel__audio_features_free(&g);
  accel__audio_processor_free(&p);
  assert_int_equal(accel__audio_processor_load(AUDIO "sounds", &p), ACCEL_ERROR_NOT_FOUND);
  free(x);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(files_are_read),
      cmocka_unit_test(long_sounds_are_refused),
      cmocka_unit_test(bad_files_are_refused),
      cmocka_unit_test(power_spectra),
      cmocka_unit_test(other_rates),
      cmocka_unit_test(features_are_transformers),
      cmocka_unit_test(features_are_the_same_bits),
      cmocka_unit_test(limits),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
