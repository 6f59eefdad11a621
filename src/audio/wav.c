/* wav.c - WAV files: a list of chunks, of which "fmt " tells the encoding and "data" holds it. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "audio/audio.h"

enum {
  PCM = 1,
  FLOAT = 3,
  A_LAW = 6,
  MU_LAW = 7,
  EXTENSIBLE = 0xFFFE,
  MAX_CHANNELS = 1024,
  MAX_RATE = 1000000
};
/* sizes from here on were written before the end was known */
#define UNTIL_THE_END UINT64_C(0x7FFFF000)

typedef struct wav {
  const char *name;
  uint32_t tag, channels, rate, align, bits; /* align: bytes of one frame */
  const uint8_t *data;
  uint64_t data_bytes;
} wav;

static uint32_t u16(const uint8_t *p) { return (uint32_t)p[0] | (uint32_t)p[1] << 8; }
static uint32_t u32(const uint8_t *p) { return u16(p) | u16(p + 2) << 16; }
static uint64_t u64(const uint8_t *p) { return u32(p) | (uint64_t)u32(p + 4) << 32; }

static accel_status wav_fail(const wav *w, const char *what) {
  accel__fail(ACCEL_ERROR_FORMAT, "%s: %s", w->name, what);
  return accel__remedy(ACCEL_ERROR_FORMAT,
                       "write the file anew, for example with: ffmpeg -i OLD NEW.wav");
}

/* ---- chunks ---- */

static accel_status read_format(wav *w, const uint8_t *p, uint64_t n) {
  if (n < 16) return wav_fail(w, "its fmt chunk has less than 16 bytes");
  w->tag = u16(p);
  w->channels = u16(p + 2);
  w->rate = u32(p + 4);
  w->align = u16(p + 12);
  w->bits = u16(p + 14);
  /* the encoding is the first two bytes of a GUID behind 8 bytes of its own */
  if (w->tag == EXTENSIBLE) {
    if (n < 40)
      return wav_fail(w, "its fmt chunk is WAVE_FORMAT_EXTENSIBLE but has less than 40 bytes");
    w->tag = u16(p + 24);
  }
  if (!w->channels || w->channels > MAX_CHANNELS)
    return accel__fail(ACCEL_ERROR_FORMAT, "%s: says %u channels; 1 to %d can be read", w->name,
                       w->channels, MAX_CHANNELS);
  if (!w->rate || w->rate > MAX_RATE)
    return accel__fail(ACCEL_ERROR_FORMAT, "%s: says %u samples per second; 1 to %d can be read",
                       w->name, w->rate, MAX_RATE);
  return ACCEL_OK;
}

/* Bytes of one sample in a frame, 0 when the encoding does not go with its width. */
static uint32_t sample_bytes(const wav *w) {
  const uint32_t bytes = w->align / w->channels;
  if (w->align % w->channels) return 0;
  if (w->tag == PCM)
    return bytes >= 1 && bytes <= 4 && w->bits >= 1 && w->bits <= 8 * bytes ? bytes : 0;
  if (w->tag == FLOAT) return (bytes == 4 || bytes == 8) && w->bits == 8 * bytes ? bytes : 0;
  return bytes == 1 ? 1 : 0;
}

static accel_status check_format(const wav *w) {
  if (w->tag != PCM && w->tag != FLOAT && w->tag != A_LAW && w->tag != MU_LAW) {
    accel__fail(ACCEL_ERROR_UNSUPPORTED,
                "%s: WAV encoding %u is not read; PCM (1), float (3), A-law (6) and mu-law (7) are",
                w->name, w->tag);
    return accel__remedy(ACCEL_ERROR_UNSUPPORTED,
                         "convert it, for example with: ffmpeg -i OLD -c:a pcm_s16le NEW.wav");
  }
  if (sample_bytes(w)) return ACCEL_OK;
  return accel__fail(
      ACCEL_ERROR_FORMAT,
      "%s: encoding %u with %u bits in frames of %u bytes for %u channels makes no sense", w->name,
      w->tag, w->bits, w->align, w->channels);
}

static accel_status find_chunks(wav *w, const uint8_t *bytes, size_t n) {
  bool format = false, wide = n >= 12 && (!memcmp(bytes, "RF64", 4) || !memcmp(bytes, "BW64", 4));
  uint64_t wide_data = 0;
  if (n < 12 || (memcmp(bytes, "RIFF", 4) && !wide) || memcmp(bytes + 8, "WAVE", 4))
    return wav_fail(w, "is no WAV file");
  for (uint64_t at = 12; n - at >= 8 && at <= n;) {
    const uint8_t *p = bytes + at + 8;
    const uint64_t rest = n - at - 8;
    uint64_t size = u32(bytes + at + 4);
    const bool data = !memcmp(bytes + at, "data", 4);
    if (data && wide && size == UINT32_MAX) size = wide_data;
    if (data && (size >= UNTIL_THE_END || size == 0) && !(wide && size == wide_data)) size = rest;
    if (size > rest) {
      char name[5] = ""; /* a message is text, whatever the file holds */
      for (int i = 0; i < 4; i++)
        name[i] = bytes[at + i] >= ' ' && bytes[at + i] < 127 ? (char)bytes[at + i] : '?';
      accel__fail(ACCEL_ERROR_FORMAT,
                  "%s: chunk '%s' says %llu bytes, but the file ends after %llu", w->name, name,
                  (unsigned long long)size, (unsigned long long)rest);
      return accel__remedy(ACCEL_ERROR_FORMAT, "the file was cut short; fetch or record it again");
    }
    if (!memcmp(bytes + at, "ds64", 4) && size >= 16) wide_data = u64(p + 8);
    if (!memcmp(bytes + at, "fmt ", 4)) {
      ACCEL_TRY(read_format(w, p, size));
      format = true;
    } else if (data) {
      w->data = p;
      w->data_bytes = size;
      break;
    }
    at += 8 + size + (size & 1);
    if (at > n) break;
  }
  if (!format) return wav_fail(w, "has no fmt chunk in front of its samples");
  return w->data ? check_format(w) : wav_fail(w, "has no data chunk");
}

/* ---- samples ---- */

/* ITU-T G.711: 13-bit and 14-bit logarithmic codes, as 16-bit full scale. */
static float a_law(uint8_t code) {
  const int c = code ^ 0x55, exponent = c >> 4 & 7, mantissa = c & 15;
  const int value = exponent ? (mantissa * 16 + 264) << (exponent - 1) : mantissa * 16 + 8;
  return (float)(c & 0x80 ? value : -value) / 32768.0f;
}

static float mu_law(uint8_t code) {
  const int c = ~code & 0xFF, value = ((((c & 15) << 3) + 132) << (c >> 4 & 7)) - 132;
  return (float)(c & 0x80 ? -value : value) / 32768.0f;
}

static float read_float(const uint8_t *p, uint32_t bytes) {
  if (bytes == 4) {
    float f;
    memcpy(&f, p, 4);
    return f;
  }
  double d;
  memcpy(&d, p, 8);
  return (float)d;
}

/* Codes of 8 bits are unsigned; wider ones are signed and fill their bytes from the top. */
static float read_pcm(const uint8_t *p, uint32_t bytes) {
  if (bytes == 1) return (float)((int)p[0] - 128) / 128.0f;
  uint32_t top = 0;
  for (uint32_t i = 0; i < bytes; i++) top |= (uint32_t)p[i] << (8 * (4 - bytes + i));
  return (float)((double)(int32_t)top / 2147483648.0);
}

static float read_sample(const wav *w, const uint8_t *p, uint32_t bytes) {
  switch (w->tag) {
    case FLOAT:
      return read_float(p, bytes);
    case A_LAW:
      return a_law(*p);
    case MU_LAW:
      return mu_law(*p);
  }
  return read_pcm(p, bytes);
}

/* The usual kind, one channel of 16 bits: always finite. */
static void read_plain(const uint8_t *p, uint64_t n, float *out) {
  for (uint64_t i = 0; i < n; i++)
    out[i] = (float)(int16_t)(p[2 * i] | p[2 * i + 1] << 8) / 32768.0f;
}

accel_status accel__wav_parse(const uint8_t *bytes, size_t n, const char *name, accel__sound *out) {
  wav w = {.name = name};
  *out = (accel__sound){0};
  ACCEL_TRY(find_chunks(&w, bytes, n));
  const uint64_t frames = w.data_bytes / w.align;
  const uint32_t each = sample_bytes(&w);
  if (frames > ACCEL__SOUND_MAX_FRAMES)
    return accel__fail(ACCEL_ERROR_FORMAT, "%s: holds %llu samples a channel; %llu can be read",
                       name, (unsigned long long)frames,
                       (unsigned long long)ACCEL__SOUND_MAX_FRAMES);
  float *samples = malloc((frames + 1) * sizeof *samples);
  if (!samples) return accel__no_memory(frames * sizeof *samples);
  const bool plain = w.tag == PCM && w.channels == 1 && w.align == 2 && each == 2;
  if (plain) read_plain(w.data, frames, samples);
  for (uint64_t i = 0; i < frames && !plain; i++) {
    double sum = 0.0;
    for (uint32_t c = 0; c < w.channels; c++)
      sum += read_sample(&w, w.data + i * w.align + c * each, each);
    samples[i] = w.channels == 1 ? (float)sum : (float)(sum / w.channels);
    if (!isfinite(samples[i])) {
      free(samples);
      return accel__fail(ACCEL_ERROR_FORMAT, "%s: sample %llu is NaN or infinite", name,
                         (unsigned long long)i);
    }
  }
  *out = (accel__sound){.samples = samples, .frames = frames, .rate = w.rate};
  return ACCEL_OK;
}
