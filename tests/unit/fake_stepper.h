/* fake_stepper.h - a made-up model for tests of the generation loop: its scores are a hash of the
 * tokens before, of all or of the last few. */
#ifndef ACCEL_TESTS_UNIT_FAKE_STEPPER_H
#define ACCEL_TESTS_UNIT_FAKE_STEPPER_H

#include <unistd.h>

#include "test_endpoint.h"
#include "generate/engine.h"

enum { VOCAB = 40, SEQUENCES = 64, LONGEST = 1400, POISON = 39, SCORES = 512, PICTURE = 38 };

typedef struct fake {
  bool used[SEQUENCES];
  uint32_t n[SEQUENCES];
  uint32_t n_read[SEQUENCES];
  uint64_t read[SEQUENCES]; /* hash of what the encoder read */
  int32_t ids[SEQUENCES][LONGEST];
  float scores[SCORES][VOCAB];
  uint32_t steps, tokens, most_tokens, copies, cuts, encodes, most_encoded;
  uint32_t us_per_token, us_per_step; /* that a step takes; 0: no time */
  uint32_t memory;                    /* of so many last tokens; 0: of all */
  float spread;                       /* of the scores; 0: about 4 */
  bool no_rows;                       /* there is no memory for the scores of several rows */
  uint32_t most_held;                 /* tokens of all sequences together; 0: any */
  uint32_t images, us_per_image;      /* pictures that were encoded; what each takes */
} fake;

/* Scores behind the first n tokens of a sequence. */
static void fake_scores(const fake *f, int32_t q, uint32_t n, float *scores) {
  const uint32_t from = f->memory && n > f->memory ? n - f->memory : 0;
  for (uint32_t t = 0; t < VOCAB; t++) {
    uint64_t h = accel__hash(f->ids[q] + from, (n - from) * sizeof(int32_t), t + 1 + f->read[q]);
    scores[t] = t == POISON ? -50.0f : (float)((double)(h >> 40) / 4e6);
    if (f->spread > 0 && t != POISON) scores[t] *= f->spread / 4;
  }
}

/* Token k of an item, as the sequence has it: of a picture its row, which must be there. */
static int32_t fake_id(const accel__step_item *item, uint32_t k) {
  const accel__prompt_images *images = item->images;
  if (!images) return item->ids[k];
  const uint32_t at = accel__prompt_images_places(images, item->past_len + k);
  if (at == images->n_places || images->place[at] != item->past_len + k) return item->ids[k];
  assert_int_equal(item->ids[k], PICTURE);
  return 1000 + (int32_t)*accel__prompt_images_row(images, at);
}

/* One number a row, which depends on the picture. */
static accel_status fake_encode_image(void *self, accel__prompt_images *images,
                                      accel__prompt_image *image,
                                      const accel_plugin_adapter_use *adapter) {
  fake *f = self;
  (void)adapter;
  assert_null(image->features);
  if (image->digest[0] == POISON) return accel__fail(ACCEL_ERROR_LIMIT, "a picture is poisoned");
  image->features = malloc(image->rows * sizeof *image->features);
  images->width = 1;
  for (uint32_t i = 0; i < image->rows; i++)
    image->features[i] = (float)(image->digest[0] % 500 * 100 + i);
  if (f->us_per_image) usleep(f->us_per_image);
  f->images++;
  return ACCEL_OK;
}

static accel_status fake_step(void *self, accel__step_item *items, uint32_t n) {
  fake *f = self;
  uint32_t tokens = 0, row = 0;
  uint32_t held = 0;
  for (int q = 0; q < SEQUENCES; q++) held += f->used[q] ? f->n[q] : 0;
  for (uint32_t i = 0; i < n; i++) held += items[i].n;
  if (f->most_held && held > f->most_held)
    return accel__fail(ACCEL_ERROR_OUT_OF_MEMORY, "no memory for %u tokens", held);
  for (uint32_t i = 0; i < n; i++) { /* a failed step changes nothing */
    assert_true(f->used[items[i].sequence]);
    assert_int_equal(items[i].past_len, f->n[items[i].sequence]);
    assert_true(items[i].n >= 1 && items[i].past_len + items[i].n <= LONGEST);
    assert_true(items[i].rows <= items[i].n);
    if (f->no_rows && items[i].rows > 1)
      return accel__fail(ACCEL_ERROR_OUT_OF_MEMORY, "no memory for %u rows", items[i].rows);
    const uint32_t end = items[i].past_len + items[i].n;
    if (items[i].images) assert_int_equal(accel__prompt_images_cut(items[i].images, end), end);
    for (uint32_t k = 0; k < items[i].n; k++)
      if (items[i].ids[k] == POISON)
        return accel__fail(ACCEL_ERROR_LIMIT, "sequence %d is poisoned", items[i].sequence);
  }
  for (uint32_t i = 0; i < n; i++) {
    const int32_t q = items[i].sequence;
    const uint32_t rows = items[i].rows ? items[i].rows : 1;
    for (uint32_t k = 0; k < items[i].n; k++) f->ids[q][f->n[q] + k] = fake_id(&items[i], k);
    f->n[q] += items[i].n;
    tokens += items[i].n;
    assert_true(row + rows <= SCORES);
    items[i].scores = f->scores[row];
    for (uint32_t r = 0; r < rows; r++, row++)
      fake_scores(f, q, f->n[q] - rows + 1 + r, f->scores[row]);
  }
  if (f->us_per_token || f->us_per_step) usleep(tokens * f->us_per_token + f->us_per_step);
  f->steps++;
  f->tokens += tokens;
  f->most_tokens = tokens > f->most_tokens ? tokens : f->most_tokens;
  return ACCEL_OK;
}

/* What an encoder reads stands before the decoder's tokens, as far as scores are concerned. */
static accel_status fake_encode(void *self, const accel__encode_item *items, uint32_t n) {
  fake *f = self;
  uint32_t tokens = 0;
  for (uint32_t i = 0; i < n; i++) {
    tokens += items[i].input->ids.n;
    assert_true(f->used[items[i].sequence] && !f->n_read[items[i].sequence]);
    if (items[i].input->ids.id[0] == POISON)
      return accel__fail(ACCEL_ERROR_LIMIT, "an encoder is poisoned");
  }
  for (uint32_t i = 0; i < n; i++) {
    f->n_read[items[i].sequence] = items[i].input->ids.n;
    f->read[items[i].sequence] =
        accel__hash(items[i].input->ids.id, items[i].input->ids.n * sizeof(int32_t), 1);
  }
  f->encodes++;
  f->most_encoded = tokens > f->most_encoded ? tokens : f->most_encoded;
  return ACCEL_OK;
}

static accel_status fake_copy(void *self, int32_t from, int32_t to) {
  fake *f = self;
  assert_true(f->used[from] && f->used[to]);
  memcpy(f->ids[to], f->ids[from], sizeof f->ids[to]);
  f->n[to] = f->n[from];
  f->n_read[to] = f->n_read[from];
  f->read[to] = f->read[from];
  f->copies++;
  return ACCEL_OK;
}
static accel_status fake_truncate(void *self, int32_t sequence, uint32_t keep) {
  fake *f = self;
  assert_true(f->used[sequence] && keep <= f->n[sequence]);
  f->n[sequence] = keep;
  f->cuts++;
  return ACCEL_OK;
}
static uint64_t fake_bytes(void *self, int32_t sequence) {
  return 10u * ((fake *)self)->n[sequence];
}
static void fake_drop(void *self, int32_t sequence) {
  fake *f = self;
  assert_true(f->used[sequence]);
  f->used[sequence] = false;
  f->n[sequence] = f->n_read[sequence] = 0;
  f->read[sequence] = 0;
}
static int32_t fake_number(void *self) {
  fake *f = self;
  for (int32_t i = 0; i < SEQUENCES; i++)
    if (!f->used[i]) return f->used[i] = true, i;
  return -1;
}
static inline void check_all_dropped(const fake *f) {
  for (int i = 0; i < SEQUENCES; i++) assert_false(f->used[i]);
}

static inline accel__stepper stepper_of(fake *f) {
  return (accel__stepper){.self = f,
                          .vocab = VOCAB,
                          .step = fake_step,
                          .encode = fake_encode,
                          .encode_image = fake_encode_image,
                          .copy = fake_copy,
                          .truncate = fake_truncate,
                          .bytes = fake_bytes,
                          .drop = fake_drop,
                          .number = fake_number};
}

static const int32_t eos[] = {3, 17};
static inline accel__generate_config plain(void) {
  return (accel__generate_config){.num_beams = 1,
                                  .num_return = 1,
                                  .length_penalty = 1,
                                  .temperature = 1,
                                  .top_p = 1,
                                  .typical_p = 1,
                                  .repetition_penalty = 1,
                                  .encoder_repetition_penalty = 1,
                                  .min_length = -1,
                                  .min_new_tokens = -1,
                                  .forced_bos = -1,
                                  .eos = {eos, 2},
                                  .seed = 5};
}

static inline void run_to_end(accel__engine *e, accel__request *r, uint32_t n, uint32_t later) {
  for (uint32_t i = 0; i < n; i++) assert_int_equal(accel__request_begin(&r[i]), ACCEL_OK);
  uint32_t joined = 0;
  for (int step = 0; step < 1000 && (e->active || joined < n); step++) {
    while (joined < n && (joined < later || (uint32_t)step >= 2 * joined))
      accel__engine_join(e, &r[joined++]);
    accel__engine_step(e);
  }
  assert_null(e->active);
}

static inline void check_same(const accel__request *a, const accel__request *b) {
  assert_int_equal(a->outcome.failure.status, ACCEL_OK);
  assert_int_equal(b->outcome.failure.status, ACCEL_OK);
  assert_int_equal(a->outcome.n_done, b->outcome.n_done);
  for (uint32_t i = 0; i < a->outcome.n_done; i++) {
    assert_int_equal(a->outcome.done[i].n, b->outcome.done[i].n);
    assert_memory_equal(a->outcome.done[i].ids, b->outcome.done[i].ids,
                        a->outcome.done[i].n * sizeof(int32_t));
    assert_int_equal(a->outcome.done[i].finish, b->outcome.done[i].finish);
    assert_true(a->outcome.done[i].score == b->outcome.done[i].score);
  }
}

#endif
