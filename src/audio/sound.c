/* sound.c - any sound file: WAV by ourselves, the rest by libsndfile. */
#include <dlfcn.h>
#include <math.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "audio/audio.h"
#include "core/file.h"

/* ---- libsndfile's interface, as its manual describes it: what is needed to read from memory
 * ---- */

typedef int64_t sf_count;
typedef struct sf_info {
  sf_count frames;
  int samplerate, channels, format, sections, seekable;
} sf_info;
typedef struct sf_virtual {
  sf_count (*length)(void *user);
  sf_count (*seek)(sf_count offset, int whence, void *user);
  sf_count (*read)(void *to, sf_count n, void *user);
  sf_count (*write)(const void *from, sf_count n, void *user);
  sf_count (*tell)(void *user);
} sf_virtual;
enum { SF_READ = 0x10 };

static struct {
  void *handle;
  void *(*open_virtual)(sf_virtual *, int mode, sf_info *, void *user);
  sf_count (*readf_float)(void *file, float *to, sf_count frames);
  int (*close)(void *file);
  const char *(*strerror)(void *file);
} sf;
static pthread_once_t sf_once = PTHREAD_ONCE_INIT;

static void load_sndfile(void) {
  void *handle = dlopen("libsndfile.so.1", RTLD_NOW | RTLD_LOCAL);
  if (!handle) return;
  *(void **)&sf.open_virtual = dlsym(handle, "sf_open_virtual");
  *(void **)&sf.readf_float = dlsym(handle, "sf_readf_float");
  *(void **)&sf.close = dlsym(handle, "sf_close");
  *(void **)&sf.strerror = dlsym(handle, "sf_strerror");
  if (sf.open_virtual && sf.readf_float && sf.close && sf.strerror) sf.handle = handle;
}

/* ---- a file in memory ---- */

typedef struct memory {
  const uint8_t *bytes;
  sf_count n, at;
} memory;

static sf_count memory_length(void *user) { return ((memory *)user)->n; }
static sf_count memory_tell(void *user) { return ((memory *)user)->at; }
static sf_count memory_write(const void *from, sf_count n, void *user) {
  return (void)from, (void)n, (void)user, 0;
}

static sf_count memory_seek(sf_count offset, int whence, void *user) {
  memory *m = user;
  /* SEEK_SET, SEEK_CUR, SEEK_END */
  const sf_count from = whence == 0 ? 0 : whence == 1 ? m->at : m->n;
  if (offset < -from || offset > m->n - from) return -1;
  return m->at = from + offset;
}

static sf_count memory_read(void *to, sf_count n, void *user) {
  memory *m = user;
  if (n > m->n - m->at) n = m->n - m->at;
  if (n <= 0) return 0;
  memcpy(to, m->bytes + m->at, (size_t)n);
  m->at += n;
  return n;
}

/* Averages the channels of what `file` holds, at most `most` seconds (0: any).  The length in its
 * header is not believed: MP3 and pipes only guess it. */
static accel_status read_all(void *file, const sf_info *info, const char *name, double most,
                             accel__sound *out) {
  enum { CHUNK = 4096, FAST = 48000 };
  const uint32_t channels = (uint32_t)info->channels;
  float *chunk = malloc(CHUNK * channels * sizeof *chunk), *samples = NULL;
  uint64_t n = 0, capacity = 0;
  const double rate = info->samplerate < FAST ? info->samplerate : FAST;
  accel_status status = chunk ? ACCEL_OK : accel__no_memory(CHUNK * channels * sizeof *chunk);
  for (sf_count got; status == ACCEL_OK && (got = sf.readf_float(file, chunk, CHUNK)) > 0;) {
    if (n + (uint64_t)got > capacity) {
      capacity = 2 * capacity + CHUNK;
      float *more = realloc(samples, capacity * sizeof *more);
      if (!more) status = accel__no_memory(capacity * sizeof *more);
      if (!more) break;
      samples = more;
    }
    for (sf_count i = 0; i < got; i++) {
      double sum = 0.0;
      for (uint32_t c = 0; c < channels; c++) sum += chunk[i * channels + c];
      samples[n + (uint64_t)i] = (float)(sum / channels);
      if (!isfinite(sum))
        status = accel__fail(ACCEL_ERROR_FORMAT, "%s: sample %llu is NaN or infinite", name,
                             (unsigned long long)(n + (uint64_t)i));
    }
    n += (uint64_t)got;
    if (status == ACCEL_OK && most > 0 && (double)n > most * rate)
      status = accel__fail(ACCEL_ERROR_LIMIT, "%s: has more than %.0f seconds", name, most);
    if (status == ACCEL_OK && n > ACCEL__SOUND_MAX_FRAMES)
      status = accel__fail(ACCEL_ERROR_FORMAT, "%s: holds more than %llu samples a channel", name,
                           (unsigned long long)ACCEL__SOUND_MAX_FRAMES);
  }
  free(chunk);
  if (status == ACCEL_OK)
    *out = (accel__sound){.samples = samples, .frames = n, .rate = (uint32_t)info->samplerate};
  else
    free(samples);
  return status;
}

static accel_status by_sndfile(const uint8_t *bytes, size_t n, const char *name, double most,
                               accel__sound *out) {
  pthread_once(&sf_once, load_sndfile);
  if (!sf.handle) {
    accel__fail(ACCEL_ERROR_UNSUPPORTED,
                "%s: is no WAV file, and libsndfile.so.1, which reads the others, is missing",
                name);
    return accel__remedy(ACCEL_ERROR_UNSUPPORTED,
                         "install libsndfile1, or convert the file to WAV");
  }
  memory m = {.bytes = bytes, .n = (sf_count)n};
  sf_virtual io = {memory_length, memory_seek, memory_read, memory_write, memory_tell};
  sf_info info = {0};
  void *file = sf.open_virtual(&io, SF_READ, &info, &m);
  if (!file) {
    accel__fail(ACCEL_ERROR_FORMAT, "%s: libsndfile cannot read it: %s", name, sf.strerror(NULL));
    return accel__remedy(ACCEL_ERROR_FORMAT, "give a WAV, FLAC, Ogg, MP3 or AIFF file");
  }
  accel_status status =
      info.channels < 1 || info.channels > 1024 || info.samplerate < 1
          ? accel__fail(ACCEL_ERROR_FORMAT, "%s: says %d channels at %d samples per second", name,
                        info.channels, info.samplerate)
          : read_all(file, &info, name, most, out);
  sf.close(file);
  return status;
}

accel_status accel__sound_parse(const void *bytes, size_t n, const char *name, double most,
                                accel__sound *out) {
  const uint8_t *b = bytes;
  *out = (accel__sound){0};
  if (!n) return accel__fail(ACCEL_ERROR_FORMAT, "%s: is empty", name);
  if (n >= 12 && !memcmp(b + 8, "WAVE", 4) &&
      (!memcmp(b, "RIFF", 4) || !memcmp(b, "RF64", 4) || !memcmp(b, "BW64", 4)))
    return accel__wav_parse(b, n, name, out);
  return by_sndfile(b, n, name, most, out);
}

accel_status accel__sound_read(const char *path, accel__sound *out) {
  accel__mapping map = {0};
  *out = (accel__sound){0};
  ACCEL_TRY(accel__file_load(path, &map));
  accel_status status = accel__sound_parse(map.data, map.n, path, 0, out);
  accel__file_unmap(&map);
  return status;
}

void accel__sound_free(accel__sound *sound) {
  free(sound->samples);
  *sound = (accel__sound){0};
}
