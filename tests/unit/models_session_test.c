/* models_session_test.c - models that generate from pictures and sounds: "encode", or
 * "image_features" and "decode_image", and then "decode", piece by piece over a session, give the
 * logits of "forward". */
#include "test_endpoint.h"

#include <math.h>
#include <stdio.h>

#include "dispatch/pack.h"
#include "dispatch/kv_session.h"
#include "tasks/open.h"
#include "models/model_build.h"

enum { B = 2, S = 24, FEATURES = 8192 };

typedef struct sample {
  const char *model, *architecture, *item; /* the input handed on whole */
  uint32_t rank;
  int64_t dim[4];
  const char *ids; /* name of the tokens in forward */
  /* tokens; how many come at once in the beginning; image_token 0: none */
  int64_t width, first, vocab, image_token;
  /* image_grid_thw of models that place pictures; 0: none */
  int64_t grid[B * 3];
} sample;

static float noise[FEATURES * 2];
static int64_t ids[B * S];

static void fill(const sample *t) {
  uint32_t x = 12345;
  for (size_t i = 0; i < sizeof noise / sizeof *noise; i++)
    noise[i] = (float)((x = x * 1664525u + 1013904223u) >> 8) / (float)(1 << 23) - 1.0f;
  for (int64_t i = 0; i < B * t->width; i++)
    ids[i] = 5 + (int64_t)(((x = x * 1664525u + 1013904223u) >> 8) % (uint32_t)(t->vocab - 8));
  for (int64_t b = 0; t->image_token && b < B; b++)
    for (int64_t s = 0; s < 16; s++) ids[b * t->width + 2 + s] = t->image_token; /* 4x4 patches */
}

/* logits [B, width, vocab] of the whole rows at once; malloc'd. */
static float *forward(accel_endpoint *ep, const sample *t) {
  accel_tensor in[3] = {
      {.name = t->item, .dtype = ACCEL_F32, .rank = t->rank, .data = noise},
      {.name = t->ids, .dtype = ACCEL_I64, .rank = 2, .dim = {B, t->width}, .data = ids},
      {.name = "image_grid_thw",
       .dtype = ACCEL_I64,
       .rank = 2,
       .dim = {B, 3},
       .data = (void *)t->grid}};
  memcpy(in[0].dim, t->dim, sizeof t->dim);
  const accel_tensors list = {.n = t->grid[0] ? 3 : 2, .item = in};
  const char *name = "logits";
  accel_tensors *out;
  assert_ok(accel__run_padded(ep, &list, &name, 1, &out));
  assert_int_equal(out->item[0].dim[2], t->vocab);
  const size_t bytes = (size_t)(B * t->width * t->vocab) * sizeof(float);
  float *copy = malloc(bytes);
  memcpy(copy, out->item[0].data, bytes);
  accel__tensors_free(&out);
  return copy;
}

/* The arguments about pictures; in[2] must stay. */
static accel_tensors pictures_of(const sample *t, accel_tensor *in) {
  in[0] = (accel_tensor){.name = t->item, .dtype = ACCEL_F32, .rank = t->rank, .data = noise};
  in[1] = (accel_tensor){.name = "image_grid_thw",
                         .dtype = ACCEL_I64,
                         .rank = 2,
                         .dim = {B, 3},
                         .data = (void *)t->grid};
  memcpy(in[0].dim, t->dim, sizeof t->dim);
  return (accel_tensors){2, in};
}

/* Input `in` where it is an argument or follows from one. */
static void give(accel_endpoint *ep, const sample *t, const accel__model_input *in, void **owned,
                 accel__item *item) {
  accel_tensor both[2];
  const accel_tensors list = pictures_of(t, both);
  if (in->kind == ACCEL__INPUT_DERIVED)
    assert_ok(accel__derive_item(ep, in->derived, &list, owned, item));
  if (strcmp(in->name, t->item)) return;
  *item = (accel__item){.data = noise, .rank = t->rank};
  memcpy(item->dim, t->dim, sizeof t->dim);
}

/* The rows of all pictures, 16 of each sequence. */
static accel__result image_features(accel_endpoint *ep, const sample *t) {
  const int32_t entry = accel__endpoint_entry(ep, "image_features");
  const accel__model_entry *e = &ep->model->entries[entry];
  accel__batch batch = {.n = 1};
  accel__result result = {0};
  void *owned[ACCEL__MAX_INPUTS] = {0};
  for (uint32_t i = 0; i < e->n_inputs; i++) give(ep, t, &e->inputs[i], &owned[i], &batch.item[i]);
  assert_ok(accel__endpoint_run(ep, (uint32_t)entry, &batch, &(uint32_t){0}, 1, &result));
  for (int i = 0; i < ACCEL__MAX_INPUTS; i++) free(owned[i]);
  assert_int_equal(result.dim[0], 16 * B);
  return result;
}

/* M-RoPE's positions [3, B * width] of whole rows, and how far those behind are ahead. */
static void place(accel_endpoint *ep, const sample *t, int32_t *out, int32_t *rope_delta) {
  int32_t packed[B * S];
  accel_tensor in[2];
  const accel_tensors list = pictures_of(t, in);
  for (int64_t i = 0; i < B * t->width; i++) packed[i] = (int32_t)ids[i];
  const accel__mrope_input tokens = {.ids = packed,
                                     .lengths = (int32_t[]){(int32_t)t->width, (int32_t)t->width},
                                     .n = B,
                                     .tokens = (uint64_t)(B * t->width)};
  assert_ok(accel__mrope_positions(ep, &list, &tokens, out, rope_delta));
}

/* What entry "decode_image" takes beside ids for tokens [from, to). */
static void show(accel__session *s, const sample *t, const accel__model_entry *e,
                 const accel__result *features, int64_t from, int64_t to, accel__batch *batch) {
  static float rows[B * 16 * 64];
  static int32_t at[B * 16], positions[3 * B * S], part[3 * B * S], rope_delta[B];
  const int64_t width = features->dim[1], n = to - from;
  int64_t shown = 0;
  for (int64_t b = 0; b < B; b++)
    for (int64_t i = from; i < to; i++) {
      if (i < 2 || i >= 18) continue;
      memcpy(rows + shown * width, (const float *)features->data + (16 * b + i - 2) * width,
             (size_t)width * sizeof *rows);
      at[shown++] = (int32_t)(b * n + i - from);
    }
  if (t->grid[0]) place(s->ep, t, positions, rope_delta);
  for (int64_t k = 0; k < 3 * B; k++)
    memcpy(part + k * n, positions + k * t->width + from, (size_t)n * sizeof *part);
  for (uint32_t i = 0; i < e->n_inputs; i++) {
    if (!strcmp(e->inputs[i].name, "image_features"))
      batch->item[i] = (accel__item){.data = rows, .rank = 2, .dim = {shown, width}};
    if (!strcmp(e->inputs[i].name, "image_positions"))
      batch->item[i] = (accel__item){.data = at, .rank = 1, .dim = {shown}};
    if (e->inputs[i].kind == ACCEL__INPUT_MROPE) batch->value[i] = part;
  }
  if (t->grid[0]) batch->rope_delta = rope_delta;
}

/* One run of an entry over tokens [from, to) of both rows (none: only the picture or sound); its
 * first output. */
static accel__result run(accel__session *s, const sample *t, const char *entry,
                         const accel__result *features, const int32_t *sequence, int64_t from,
                         int64_t to) {
  void *owned[ACCEL__MAX_INPUTS] = {0};
  const accel__model_entry *e = accel__model_entry_of(s->ep->model, entry);
  assert_non_null(e);
  int32_t packed[B * S], lengths[B] = {(int32_t)(to - from), (int32_t)(to - from)},
                         held[B] = {(int32_t)from, (int32_t)from};
  for (int64_t b = 0, k = 0; b < B; b++)
    for (int64_t i = from; i < to; i++) packed[k++] = (int32_t)ids[b * t->width + i];
  accel__batch batch = {.n = B,
                        .sequence = sequence,
                        .past_len = held,
                        .lengths = lengths,
                        .decoder_lengths = lengths};
  batch.tokens = batch.decoder_tokens = (uint64_t)(B * (to - from));
  for (uint32_t i = 0; i < e->n_inputs; i++) {
    if (!strcmp(e->inputs[i].name, t->ids)) batch.value[i] = packed;
    give(s->ep, t, &e->inputs[i], &owned[i], &batch.item[i]);
  }
  accel__result result = {0};
  if (features) show(s, t, e, features, from, to, &batch);
  assert_ok(accel__session_run(s, (uint32_t)accel__endpoint_entry(s->ep, entry), &batch,
                               &(uint32_t){0}, 1, &result));
  for (int i = 0; i < ACCEL__MAX_INPUTS; i++) free(owned[i]);
  return result;
}

static void compare(const sample *t, const float *want, const accel__result *got, int64_t row) {
  for (int64_t b = 0; b < B; b++)
    for (int64_t v = 0; v < t->vocab; v++) {
      const float a = ((const float *)got->data)[b * t->vocab + v],
                  w = want[(b * t->width + row) * t->vocab + v];
      if (!(fabsf(a - w) <= 2e-4f * (1.0f + fabsf(w))))
        fail_msg("%s: row %d, token %d: %g, forward gives %g", t->model, (int)row, (int)v,
                 (double)a, (double)w);
    }
}

static void check(const sample *t, const char *device) {
  char path[512];
  accel *ctx = test_context();
  accel_endpoint *ep;
  accel__session *session;
  accel_init_params how = accel_init_params_default();
  how.device = device;
  how.architecture = t->architecture;
  snprintf(path, sizeof path, "%s/models/%s", ACCEL_FIXTURES, t->model);
  fill(t);
  assert_ok(accel__open(ctx, path, &how, &ep));
  float *want = forward(ep, t);
  assert_ok(accel__session_open(ep, &session));
  const int32_t sequence[B] = {accel__session_number(session), accel__session_number(session)};
  accel__result r, features = {0};
  if (t->image_token)
    features = image_features(ep, t);
  else
    r = run(session, t, "encode", NULL, sequence, 0, 0), free(r.data);
  /* the first cut is within the pictures */
  for (int64_t i = 0, next = t->image_token ? 7 : t->first; i < t->width; i = next++) {
    if (i == 7 && t->image_token) next = t->first;
    const bool shows = t->image_token && i < 18;
    r = run(session, t, shows ? "decode_image" : "decode", t->image_token ? &features : NULL,
            sequence, i, next);
    compare(t, want, &r, next - 1);
    free(r.data);
  }
  free(features.data);
  accel__session_close(&session);
  free(want);
  accel__close(&ep);
  accel_destroy(&ctx);
}

static const sample samples[] = {
    {.model = "whisper",
     .architecture = "WhisperForConditionalGeneration",
     .item = "input_features",
     .rank = 3,
     .dim = {B, 10, 34},
     .ids = "decoder_input_ids",
     .width = 8,
     .first = 3,
     .vocab = 53},
    {.model = "blip_caption",
     .architecture = "BlipForConditionalGeneration",
     .item = "pixel_values",
     .rank = 4,
     .dim = {B, 3, 20, 20},
     .ids = "input_ids",
     .width = 9,
     .first = 4,
     .vocab = 61},
    {.model = "llava",
     .architecture = "LlavaForConditionalGeneration",
     .item = "pixel_values",
     .rank = 4,
     .dim = {B, 3, 20, 20},
     .ids = "input_ids",
     .width = 23,
     .first = 20,
     .vocab = 61,
     .image_token = 59},
    {.model = "qwen2_vl",
     .architecture = "Qwen2VLForConditionalGeneration",
     .item = "pixel_values",
     .rank = 2,
     .dim = {B * 64, 96},
     .ids = "input_ids",
     .width = 23,
     .first = 20,
     .vocab = 61,
     .image_token = 59,
     .grid = {1, 8, 8, 1, 4, 16}},
};

static void test_reference(void **state) {
  (void)state;
  for (size_t i = 0; i < sizeof samples / sizeof *samples; i++) check(&samples[i], "reference");
}

static void test_cpu(void **state) {
  (void)state;
  for (size_t i = 0; i < sizeof samples / sizeof *samples; i++) check(&samples[i], "cpu");
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_reference), cmocka_unit_test(test_cpu)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
