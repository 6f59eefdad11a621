/* weights_checkpoint_test.c - checkpoints on disk: files the official package wrote, our writer,
 * shards, directories, refusals, look-up of models. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "core/find_model.h"
#include "core/config.h"
#include "core/text.h"
#include "unit/tensor_bytes.h"
#include "unit/temp.h"
#include "weights/weights.h"

/* make_weights_fixtures.py */
static float value(uint64_t i) { return (float)(i % 7) + (float)(i % 2) * 0.5f; }

static void refuses(const char *path, accel_status code, const char *words) {
  accel__checkpoint *c = (void *)1;
  accel_status status = accel__checkpoint_open(path, &c);
  assert_null(c);
  if (status != code) fail_msg("%s: status %d: %s", path, (int)status, accel__message());
  if (!strstr(accel__message(), words))
    fail_msg("%s\nsays: %s\nexpected: %s", path, accel__message(), words);
}

static accel__checkpoint *opens(const char *path) {
  accel__checkpoint *c;
  if (accel__checkpoint_open(path, &c) != ACCEL_OK) fail_msg("%s: %s", path, accel__message());
  return c;
}

/* ---- files of the official package ---- */

static void official_dtypes(void **state) {
  (void)state;
  static const struct {
    const char *name, *dtype;
    bool whole; /* integers drop the half */
  } cases[] = {
      {"t.float64", "F64", false},   {"t.float32", "F32", false}, {"t.float16", "F16", false},
      {"t.bfloat16", "BF16", false}, {"t.int64", "I64", true},    {"t.int32", "I32", true},
      {"t.int16", "I16", true},      {"t.int8", "I8", true},      {"t.uint64", "U64", true},
      {"t.uint32", "U32", true},     {"t.uint16", "U16", true},   {"t.uint8", "U8", true}};
  accel__checkpoint *c = opens(ACCEL_FIXTURES "/weights/dtypes.safetensors");
  for (size_t k = 0; k < sizeof cases / sizeof *cases; k++) {
    const accel__tensor_info *t = accel__checkpoint_find(c, cases[k].name);
    float all[15], some[4];
    if (!t) fail_msg("no %s", cases[k].name);
    assert_string_equal(accel__dtype_name(t->dtype), cases[k].dtype);
    assert_int_equal(t->rank, 2);
    assert_int_equal(t->dim[0], 3);
    assert_int_equal(t->dim[1], 5);
    assert_int_equal(accel__tensor_to_f32(c, t, 0, 15, all), ACCEL_OK);
    for (uint64_t i = 0; i < 15; i++)
      assert_true(all[i] == (cases[k].whole ? (float)(int)value(i) : value(i)));
    assert_int_equal(accel__tensor_to_f32(c, t, 7, 4, some), ACCEL_OK);
    assert_memory_equal(some, all + 7, sizeof some);
    assert_int_equal(accel__tensor_to_f32(c, t, 15, 0, some), ACCEL_OK);
    assert_int_equal(accel__tensor_to_f32(c, t, 12, 4, some), ACCEL_ERROR_ARGUMENT);
    assert_int_equal(accel__tensor_to_f32(c, t, UINT64_MAX, 2, some), ACCEL_ERROR_ARGUMENT);
  }
  float flags[15];
  assert_int_equal(accel__tensor_to_f32(c, accel__checkpoint_find(c, "t.bool"), 0, 15, flags),
                   ACCEL_OK);
  for (uint64_t i = 0; i < 15; i++) assert_true(flags[i] == (value(i) != 0));
  static const char *const codes[] = {"t.float8_e4m3fn", "t.float8_e5m2", "t.complex64"};
  for (size_t k = 0; k < sizeof codes / sizeof *codes; k++) {
    assert_int_equal(accel__tensor_to_f32(c, accel__checkpoint_find(c, codes[k]), 0, 15, flags),
                     ACCEL_ERROR_UNSUPPORTED);
    assert_non_null(strstr(accel__message(), codes[k]));
  }
  float scalar;
  const accel__tensor_info *t = accel__checkpoint_find(c, "scalar");
  assert_int_equal(t->rank, 0);
  assert_int_equal(accel__tensor_to_f32(c, t, 0, 1, &scalar), ACCEL_OK);
  assert_true(scalar == 2.5f);
  assert_int_equal(accel__checkpoint_find(c, "empty")->elements, 0);
  assert_non_null(accel__checkpoint_find(c, "a \"quoted\" n\u00e4me\n"));
  assert_null(accel__checkpoint_find(c, "t.float99"));
  assert_string_equal(accel__checkpoint_metadata(c, "note"), "line\nbreak \u00e9 \U0001f600");
  assert_null(accel__checkpoint_metadata(c, "absent"));
  assert_int_equal(accel__checkpoint_count(c), 19);
  assert_null(accel__checkpoint_at(c, 19));
  for (uint32_t i = 1; i < 19; i++)
    assert_true(accel__checkpoint_at(c, i)->offset >= accel__checkpoint_at(c, i - 1)->offset);
  accel__checkpoint_close(&c);
  assert_null(c);
  accel__checkpoint_close(&c);
}

static void official_shards(void **state) {
  (void)state;
  accel__checkpoint *c = opens(ACCEL_FIXTURES "/weights/sharded");
  assert_int_equal(accel__checkpoint_count(c), 3);
  const accel__tensor_info *a = accel__checkpoint_find(c, "a.weight"),
                           *last = accel__checkpoint_find(c, "c.weight");
  float all[12];
  assert_int_equal(accel__tensor_to_f32(c, a, 0, 12, all), ACCEL_OK);
  for (uint64_t i = 0; i < 12; i++) assert_true(all[i] == value(i));
  assert_int_equal(accel__tensor_to_f32(c, last, 0, 8, all), ACCEL_OK);
  for (uint64_t i = 0; i < 8; i++) assert_true(all[i] == value(i));
  assert_non_null(strstr(accel__checkpoint_file(c, a->file), "model-00001-of-00002.safetensors"));
  assert_non_null(
      strstr(accel__checkpoint_file(c, last->file), "model-00002-of-00002.safetensors"));
  assert_null(accel__checkpoint_file(c, 2));
  assert_string_equal(accel__checkpoint_metadata(c, "format"), "pt");
  accel__checkpoint_close(&c);
  c = opens(ACCEL_FIXTURES "/weights/sharded/model.safetensors.index.json");
  assert_int_equal(accel__checkpoint_count(c), 3);
  accel__checkpoint_close(&c);
}

/* ---- our writer ---- */

static const float numbers[6] = {1, -2, 3.5f, 0, 5, 6};
static const uint16_t halves[3] = {0x3c00, 0xc000, 0x7bff};
static const accel__tensor_info sample[] = {
    {.name = "w\"\n\u00e9", .dtype = ACCEL_PLUGIN_F16, .rank = 1, .dim = {3}, .data = halves},
    {.name = "x", .dtype = ACCEL_PLUGIN_F32, .rank = 2, .dim = {2, 3}, .data = numbers},
    {.name = "nothing", .dtype = ACCEL_PLUGIN_I64, .rank = 2, .dim = {0, 7}},
    {.name = "one", .dtype = ACCEL_PLUGIN_F32, .data = numbers},
};

static void written_files_are_read(void **state) {
  (void)state;
  static const char *const pairs[] = {"format", "accel", "k\"", "v\t"};
  const char *path = temp_path("written.safetensors");
  assert_int_equal(accel__safetensors_write(path, sample, 4, pairs, 2), ACCEL_OK);
  accel__checkpoint *c = opens(path);
  assert_int_equal(accel__checkpoint_count(c), 4);
  for (size_t i = 0; i < 4; i++) {
    const accel__tensor_info *t = accel__checkpoint_find(c, sample[i].name);
    if (!t) fail_msg("no %s", sample[i].name);
    assert_int_equal(t->dtype, sample[i].dtype);
    assert_int_equal(t->rank, sample[i].rank);
    assert_memory_equal(t->dim, sample[i].dim, sizeof t->dim);
    if (t->bytes) assert_memory_equal(stored(c, t), sample[i].data, t->bytes);
    assert_int_equal((uintptr_t)stored(c, t) % (accel__dtype_bits(t->dtype) / 8), 0);
  }
  assert_string_equal(accel__checkpoint_metadata(c, "k\""), "v\t");
  accel__checkpoint_close(&c);
  assert_int_equal(accel__safetensors_write(path, NULL, 0, NULL, 0), ACCEL_OK);
  c = opens(path);
  assert_int_equal(accel__checkpoint_count(c), 0);
  accel__checkpoint_close(&c);
}

static void writer_refuses(void **state) {
  (void)state;
  const char *path = temp_path("never.safetensors");
  accel__tensor_info t[2] = {sample[1], sample[1]};
  assert_int_equal(accel__safetensors_write(path, t, 2, NULL, 0), ACCEL_ERROR_ARGUMENT);
  assert_non_null(strstr(accel__message(), "twice"));
  t[0].dim[0] = -1;
  assert_int_equal(accel__safetensors_write(path, t, 1, NULL, 0), ACCEL_ERROR_ARGUMENT);
  t[0] = sample[1];
  t[0].data = NULL;
  assert_int_equal(accel__safetensors_write(path, t, 1, NULL, 0), ACCEL_ERROR_ARGUMENT);
  t[0] = sample[1];
  t[0].rank = 9;
  assert_int_equal(accel__safetensors_write(path, t, 1, NULL, 0), ACCEL_ERROR_ARGUMENT);
  t[0] = (accel__tensor_info){.name = "big",
                              .dtype = ACCEL_PLUGIN_F32,
                              .rank = 2,
                              .dim = {INT64_MAX, INT64_MAX},
                              .data = numbers};
  assert_int_equal(accel__safetensors_write(path, t, 1, NULL, 0), ACCEL_ERROR_ARGUMENT);
  assert_false(accel__file_exists(path));
  assert_int_equal(
      accel__safetensors_write(temp_path("no/such/place.safetensors"), sample, 1, NULL, 0),
      ACCEL_ERROR_NOT_FOUND);
}

/* ---- directories ---- */

static void directories(void **state) {
  (void)state;
  accel__checkpoint *c;
  mkdir(temp_path("d1"), 0700);
  assert_int_equal(accel__safetensors_write(temp_path("d1/diffusion_pytorch_model.safetensors"),
                                            sample, 2, NULL, 0),
                   ACCEL_OK);
  c = opens(temp_path("d1"));
  assert_int_equal(accel__checkpoint_count(c), 2);
  accel__checkpoint_close(&c);
  const char *beside[] = {"d1/diffusion_pytorch_model.fp16.safetensors",
                          "d1/diffusion_pytorch_model.non_ema.safetensors", "d4/one.safetensors",
                          "d4/other.safetensors"};
  mkdir(temp_path("d4"), 0700);
  for (size_t i = 0; i < sizeof beside / sizeof *beside; i++)
    assert_int_equal(accel__safetensors_write(temp_path(beside[i]), sample, 1, NULL, 0), ACCEL_OK);
  c = opens(temp_path("d1")); /* the plain name is meant */
  assert_int_equal(accel__checkpoint_count(c), 2);
  accel__checkpoint_close(&c);
  bool found;
  assert_int_equal(accel__checkpoint_open_variant(temp_path("d1"), "fp16", &found, &c), ACCEL_OK);
  assert_true(found && accel__checkpoint_count(c) == 1);
  accel__checkpoint_close(&c);
  assert_int_equal(accel__checkpoint_open_variant(temp_path("d1"), "bf16", &found, &c), ACCEL_OK);
  assert_true(!found && accel__checkpoint_count(c) == 2); /* which the caller may refuse */
  accel__checkpoint_close(&c);
  refuses(temp_path("d4"), ACCEL_ERROR_ARGUMENT, "which of its checkpoints");
  assert_int_equal(accel__safetensors_write(temp_path("d1/model.safetensors"), sample, 3, NULL, 0),
                   ACCEL_OK);
  c = opens(temp_path("d1"));
  assert_int_equal(accel__checkpoint_count(c), 3);
  accel__checkpoint_close(&c);
  temp_text("d2/config.json", "{}");
  refuses(temp_path("d2"), ACCEL_ERROR_NOT_FOUND, "no model.safetensors");
  refuses(temp_path("d3"), ACCEL_ERROR_NOT_FOUND, "d3");
}

static void other_formats_are_refused(void **state) {
  (void)state;
  static const struct {
    const char *file, *reason;
  } cases[] = {{"pytorch_model.bin", "pickle"}, {"model.pt", "pickle"},
               {"model.pth", "pickle"},         {"model.ckpt", "pickle"},
               {"tf_model.h5", "TensorFlow"},   {"flax_model.msgpack", "Flax"},
               {"model.onnx", "ONNX"},          {"model-q4.gguf", "GGUF"}};
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    char name[120], directory[40];
    snprintf(directory, sizeof directory, "f%zu", i);
    snprintf(name, sizeof name, "%s/%s", directory, cases[i].file);
    char *path = temp_text(name, "x");
    refuses(path, ACCEL_ERROR_UNSUPPORTED, cases[i].reason);
    assert_true(accel__remedy_text()[0]);
    refuses(temp_path(directory), ACCEL_ERROR_UNSUPPORTED, cases[i].file);
    assert_true(accel__remedy_text()[0]);
  }
}

static void bad_files(void **state) {
  (void)state;
  refuses(temp_path("absent.safetensors"), ACCEL_ERROR_NOT_FOUND, "absent.safetensors");
  refuses(temp_text("empty.safetensors", ""), ACCEL_ERROR_FORMAT, "too short");
  refuses(temp_text("text.safetensors", "this is no safetensors file at all"), ACCEL_ERROR_FORMAT,
          "header length");
  char path[400];
  snprintf(path, sizeof path, "%s", temp_path("cut.safetensors"));
  assert_int_equal(accel__safetensors_write(path, sample, 4, NULL, 0), ACCEL_OK);
  for (off_t n = 500; n >= 0; n--) {
    if (truncate(path, n) == 0 && n < 200) refuses(path, ACCEL_ERROR_FORMAT, "cut.safetensors");
  }
  if (geteuid() != 0) {
    temp_text("secret.safetensors", "x");
    chmod(temp_path("secret.safetensors"), 0);
    refuses(temp_path("secret.safetensors"), ACCEL_ERROR_IO, "secret.safetensors");
  }
}

/* ---- the index ---- */

static void write_shards(const char *directory, const char *index) {
  char name[120];
  snprintf(name, sizeof name, "%s/model.safetensors.index.json", directory);
  temp_text(name, index);
  snprintf(name, sizeof name, "%s/a.safetensors", directory);
  assert_int_equal(accel__safetensors_write(temp_path(name), &sample[1], 1, NULL, 0), ACCEL_OK);
  snprintf(name, sizeof name, "%s/b.safetensors", directory);
  assert_int_equal(accel__safetensors_write(temp_path(name), &sample[1], 3, NULL, 0), ACCEL_OK);
}

static void index_rules(void **state) {
  (void)state;
  static const struct {
    const char *index, *words;
    accel_status code;
  } cases[] = {
      {"{\"weight_map\":{\"x\":\"a.safetensors\",\"one\":\"c.safetensors\"}}",
       "shard 'c.safetensors' is not in", ACCEL_ERROR_NOT_FOUND},
      {"{\"weight_map\":{\"x\":\"a.safetensors\",\"y\":\"a.safetensors\"}}",
       "tensor 'y' is not in 'a.safetensors'", ACCEL_ERROR_FORMAT},
      {"{\"weight_map\":{\"x\":\"../a.safetensors\"}}", "no plain file name", ACCEL_ERROR_FORMAT},
      {"{\"weight_map\":{\"x\":\"/etc/passwd\"}}", "no plain file name", ACCEL_ERROR_FORMAT},
      {"{\"weight_map\":{\"x\":\"sub/a.safetensors\"}}", "no plain file name", ACCEL_ERROR_FORMAT},
      {"{\"weight_map\":{\"x\":\"..\"}}", "no plain file name", ACCEL_ERROR_FORMAT},
      {"{\"weight_map\":{\"x\":\"\"}}", "no plain file name", ACCEL_ERROR_FORMAT},
      {"{\"weight_map\":{\"x\":3}}", "'weight_map.x' is no file name", ACCEL_ERROR_FORMAT},
      {"{\"weight_map\":{\"x\":\"pytorch_model.bin\"}}", "pickle", ACCEL_ERROR_UNSUPPORTED},
      {"{\"weight_map\":{\"x\":\"a.safetensors\",\"x\":\"b.safetensors\"}}", "listed twice",
       ACCEL_ERROR_FORMAT},
      {"{\"weight_map\":{}}", "is empty", ACCEL_ERROR_FORMAT},
      {"{\"weight_map\":[]}", "weight_map", ACCEL_ERROR_FORMAT},
      {"{}", "weight_map", ACCEL_ERROR_FORMAT},
      {"[1]", "index.json", ACCEL_ERROR_FORMAT},
      {"{", "index.json", ACCEL_ERROR_FORMAT},
      {"{\"weight_map\":{\"x\":\"b.safetensors\",\"nothing\":\"a.safetensors\"}}",
       "'nothing' is not in 'a.safetensors'", ACCEL_ERROR_FORMAT},
      {"{\"weight_map\":{\"one\":\"b.safetensors\",\"nothing\":\"b.safetensors\",\"q\":\"a."
       "safetensors\"}}",
       "tensor 'x' is in", ACCEL_ERROR_FORMAT},
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    char directory[40];
    snprintf(directory, sizeof directory, "index%zu", i);
    write_shards(directory, cases[i].index);
    refuses(temp_path(directory), cases[i].code, cases[i].words);
  }
  write_shards("index-good",
               "{\"weight_map\":{\"x\":\"a.safetensors\",\"one\":\"b.safetensors\"}}");
  accel__checkpoint *c = opens(temp_path("index-good"));
  /* x of a, one and the unlisted `nothing` of b; x of b is passed over */
  assert_int_equal(accel__checkpoint_count(c), 3);
  assert_non_null(
      strstr(accel__checkpoint_file(c, accel__checkpoint_find(c, "x")->file), "a.safetensors"));
  accel__checkpoint_close(&c);
}

/* ---- memory and identity ---- */

static void hash_follows_the_file(void **state) {
  (void)state;
  const char *path = temp_path("hash.safetensors");
  char kept[400];
  snprintf(kept, sizeof kept, "%s", path);
  assert_int_equal(accel__safetensors_write(kept, sample, 2, NULL, 0), ACCEL_OK);
  accel__checkpoint *c = opens(kept), *again = opens(kept);
  uint64_t first = accel__checkpoint_hash(c);
  assert_int_equal(accel__checkpoint_hash(again), first);
  accel__checkpoint_close(&c);
  accel__checkpoint_close(&again);
  assert_int_equal(accel__safetensors_write(kept, sample, 3, NULL, 0), ACCEL_OK);
  c = opens(kept);
  assert_int_not_equal(accel__checkpoint_hash(c), first);
  accel__checkpoint_close(&c);
}

static void checkpoints_are_joined(void **state) {
  (void)state;
  accel__checkpoint *c = opens(ACCEL_FIXTURES "/weights/sharded"),
                    *other = opens(ACCEL_FIXTURES "/weights/dtypes.safetensors"), *twin;
  uint64_t hash = accel__checkpoint_hash(c);
  assert_int_equal(accel__checkpoint_join(c, &other, "2_Dense/"), ACCEL_OK);
  assert_null(other);
  assert_int_equal(accel__checkpoint_count(c), 3 + 19);
  assert_int_not_equal(accel__checkpoint_hash(c), hash);
  assert_null(accel__checkpoint_find(c, "t.float32"));
  const accel__tensor_info *t = accel__checkpoint_find(c, "2_Dense/t.float32");
  float all[15];
  assert_int_equal(accel__tensor_to_f32(c, t, 0, 15, all), ACCEL_OK);
  for (uint64_t i = 0; i < 15; i++) assert_true(all[i] == value(i));
  assert_non_null(strstr(accel__checkpoint_file(c, t->file), "dtypes.safetensors"));
  accel__checkpoint_forget(c, t);
  twin = opens(ACCEL_FIXTURES "/weights/sharded");
  /* the same names again */
  assert_int_equal(accel__checkpoint_join(c, &twin, ""), ACCEL_ERROR_FORMAT);
  assert_null(twin);
  accel__checkpoint_close(&c);
}

/* Offsets beyond 4 GiB: a sparse file. */
static void large_files(void **state) {
  (void)state;
  const uint64_t large = 5ull << 30;
  char header[300], path[400];
  int n = snprintf(
      header + 8, sizeof header - 8,
      "{\"large\":{\"dtype\":\"U8\",\"shape\":[5,1073741824],\"data_offsets\":[0,5368709120]},"
      "\"last\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[5368709120,5368709124]}}");
  const float last = 42;
  memset(header, 0, 8);
  header[0] = (char)n;
  snprintf(path, sizeof path, "%s", temp_file("large.safetensors", header, 8 + (size_t)n));
  FILE *f = fopen(path, "r+b");
  bool sparse = f && fseeko(f, (off_t)(8 + (uint64_t)n + large), SEEK_SET) == 0 &&
                fwrite(&last, 4, 1, f) == 1;
  if (!f || fclose(f) || !sparse) skip(); /* this file system has no room for large files */
  accel__checkpoint *c = opens(path);
  float read;
  assert_int_equal(accel__checkpoint_find(c, "large")->bytes, large);
  assert_int_equal(accel__tensor_to_f32(c, accel__checkpoint_find(c, "last"), 0, 1, &read),
                   ACCEL_OK);
  assert_true(read == 42);
  assert_int_equal(accel__tensor_to_f32(c, accel__checkpoint_find(c, "large"), large - 1, 1, &read),
                   ACCEL_OK);
  assert_true(read == 0);
  accel__checkpoint_close(&c);
  assert_int_equal(truncate(path, (off_t)(8 + (uint64_t)n + large)), 0);
  refuses(path, ACCEL_ERROR_FORMAT, "truncated");
  unlink(path);
}

/* A tensor's bytes, whole and in part, are `same`. */
static void has_bytes(const accel__checkpoint *c, const accel__tensor_info *t, const void *same) {
  accel__lent lent;
  uint8_t *copy = malloc(t->bytes + 1);
  assert_int_equal(accel__tensor_lend(c, t, 0, t->bytes, &lent), ACCEL_OK);
  assert_memory_equal(lent.data, same, t->bytes);
  accel__tensor_return(&lent);
  assert_null(lent.data);
  assert_int_equal(accel__tensor_read(c, t, 0, t->bytes, copy), ACCEL_OK);
  assert_memory_equal(copy, same, t->bytes);
  for (uint64_t first = 1; first < t->bytes; first += 1 + t->bytes / 7) {
    assert_int_equal(accel__tensor_read(c, t, first, t->bytes - first, copy), ACCEL_OK);
    assert_memory_equal(copy, (const uint8_t *)same + first, t->bytes - first);
  }
  assert_int_equal(accel__tensor_read(c, t, t->bytes, 1, copy), ACCEL_ERROR_ARGUMENT);
  assert_int_equal(accel__tensor_read(c, t, UINT64_MAX, 2, copy), ACCEL_ERROR_ARGUMENT);
  free(copy);
}

static void has_all_bytes(const accel__checkpoint *c, const accel__checkpoint *whole) {
  assert_int_equal(accel__checkpoint_hash(c), accel__checkpoint_hash(whole));
  assert_int_equal(accel__checkpoint_count(c), accel__checkpoint_count(whole));
  for (uint32_t i = 0; i < accel__checkpoint_count(c); i++) {
    const accel__tensor_info *t = accel__checkpoint_at(c, i),
                             *same = accel__checkpoint_at(whole, i);
    assert_null(t->data);
    assert_string_equal(t->name, same->name);
    assert_int_equal(t->bytes, same->bytes);
    has_bytes(c, t, stored(whole, same));
    accel__checkpoint_forget(c, t);
    has_bytes(c, t, stored(whole, same));
  }
}

/* Pages, where the files are mapped, are `whole`'s bytes, too; in parts as well. */
static void has_all_pages(const accel__checkpoint *c, const accel__checkpoint *whole) {
  for (uint32_t i = 0; i < accel__checkpoint_count(c); i++) {
    const accel__tensor_info *t = accel__checkpoint_at(c, i);
    const uint64_t element = accel__dtype_bits(t->dtype) / 8;
    const uint8_t *pages = accel__tensor_pages(c, t, 0, t->bytes);
    if (!pages || t->bytes <= element) continue; /* no lease here, or not aligned */
    assert_memory_equal(pages, stored(whole, accel__checkpoint_at(whole, i)), t->bytes);
    assert_ptr_equal(accel__tensor_pages(c, t, element, t->bytes - element), pages + element);
    assert_null(accel__tensor_pages(c, t, element, t->bytes));
    assert_null(accel__tensor_pages(c, t, UINT64_MAX, 2));
    accel__checkpoint_forget(c, t);
    assert_memory_equal(pages, stored(whole, accel__checkpoint_at(whole, i)), t->bytes);
  }
}

/* By headers alone, when each read opens its file, with the files open, and mapped: the same
 * bytes. */
static void ways_agree(void **state) {
  (void)state;
  static const char *const paths[] = {ACCEL_FIXTURES "/weights/sharded",
                                      ACCEL_FIXTURES "/weights/dtypes.safetensors",
                                      ACCEL_FIXTURES "/weights/formats.safetensors"};
  for (size_t k = 0; k < sizeof paths / sizeof *paths; k++) {
    accel__checkpoint *c, *whole = opens(paths[k]);
    assert_int_equal(accel__checkpoint_open_headers(paths[k], &c), ACCEL_OK);
    has_all_bytes(c, whole);
    assert_int_equal(accel__checkpoint_read(c), ACCEL_OK);
    assert_int_equal(accel__checkpoint_read(c), ACCEL_OK); /* once is enough */
    has_all_bytes(c, whole);
    assert_int_equal(accel__checkpoint_map(c), ACCEL_OK);
    assert_int_equal(accel__checkpoint_map(c), ACCEL_OK);
    has_all_bytes(c, whole);
    has_all_pages(c, whole);
    assert_int_equal(accel__checkpoint_read(c), ACCEL_OK);
    assert_null(accel__tensor_pages(c, accel__checkpoint_at(c, 0), 0, 1));
    assert_int_equal(accel__checkpoint_bypass(c), ACCEL_OK);
    has_all_bytes(c, whole);
    accel__checkpoint_close(&c);
    accel__checkpoint_close(&whole);
  }
}

/* A system call may give less than it was asked for. */
static void reads_in_parts(void **state) {
  (void)state;
  accel__checkpoint *c, *whole = opens(ACCEL_FIXTURES "/weights/sharded");
  assert_int_equal(accel__checkpoint_open_headers(ACCEL_FIXTURES "/weights/sharded", &c), ACCEL_OK);
  accel__fault_arm("read_part");
  has_all_bytes(c, whole);
  accel__fault_arm(NULL);
  accel__checkpoint_close(&c);
  accel__checkpoint_close(&whole);
}

/* ---- files that change ---- */

enum { CHANGED_BYTES = 1 << 16 };
static uint8_t changed_bytes[CHANGED_BYTES];
static const accel__tensor_info changed_tensor = {.name = "x",
                                                  .dtype = ACCEL_PLUGIN_U8,
                                                  .rank = 1,
                                                  .dim = {CHANGED_BYTES},
                                                  .data = changed_bytes};

static const char *write_changed(void) {
  const char *path = temp_path("changed.safetensors");
  assert_int_equal(accel__safetensors_write(path, &changed_tensor, 1, NULL, 0), ACCEL_OK);
  return path;
}

static void truncated(const char *path) { assert_int_equal(truncate(path, 4096), 0); }
static void grown(const char *path) { assert_int_equal(truncate(path, 1 << 20), 0); }
static void replaced(const char *path) { (void)path, write_changed(); } /* another inode */
static void overwritten(const char *path) {
  FILE *f = fopen(path, "r+b");
  assert_true(f && fseek(f, 1000, SEEK_SET) == 0 && fputc(1, f) == 1 && fclose(f) == 0);
}
static void removed(const char *path) { assert_int_equal(unlink(path), 0); }

/* The failure names the file, the tensor where one was read, and a remedy. */
static void says_changed(accel_status status, accel_status due, const char *tensor) {
  if (status != due) fail_msg("status %d: %s", (int)status, accel__message());
  assert_non_null(strstr(accel__message(), tensor));
  assert_non_null(strstr(accel__message(), "changed.safetensors: the file was changed"));
  assert_true(accel__remedy_text()[0]);
}

/* A file that shrinks, or is rewritten, between its header and its use, or while it is read: an
 * error, no SIGBUS and no other numbers. */
static void changed_files(void **state) {
  (void)state;
  static const struct {
    void (*change)(const char *path);
    accel_status status; /* where the file is open; where it is opened again, ENOENT is its own */
  } cases[] = {{truncated, ACCEL_ERROR_FORMAT},
               {grown, ACCEL_ERROR_FORMAT},
               {replaced, ACCEL_ERROR_IO},
               {overwritten, ACCEL_ERROR_IO},
               {removed, ACCEL_ERROR_IO}};
  for (size_t k = 0; k < sizeof cases / sizeof *cases; k++) {
    accel__checkpoint *c;
    float values[4];
    const char *path = write_changed();
    assert_int_equal(accel__checkpoint_open_headers(path, &c), ACCEL_OK);
    usleep(20000); /* times of files count in ticks of the kernel */
    cases[k].change(path);
    if (cases[k].change == removed) {
      assert_int_equal(accel__checkpoint_read(c), ACCEL_ERROR_NOT_FOUND);
    } else {
      says_changed(accel__checkpoint_read(c), cases[k].status, "");
      says_changed(accel__tensor_to_f32(c, accel__checkpoint_at(c, 0), 0, 4, values),
                   cases[k].status, "tensor 'x'");
    }
    accel__checkpoint_close(&c);
    path = write_changed();
    assert_int_equal(accel__checkpoint_open_headers(path, &c), ACCEL_OK);
    assert_int_equal(accel__checkpoint_read(c), ACCEL_OK);
    const accel__tensor_info *t = accel__checkpoint_at(c, 0);
    assert_int_equal(accel__tensor_to_f32(c, t, CHANGED_BYTES - 4, 4, values), ACCEL_OK);
    usleep(20000);
    cases[k].change(path);
    says_changed(accel__tensor_to_f32(c, t, CHANGED_BYTES - 4, 4, values), cases[k].status,
                 "tensor 'x'");
    accel__checkpoint_close(&c);
  }
}

/* A writer waits until a file is not mapped any more; a file that has one is not mapped, nor where
 * address space, mmap or the lease is refused, nor one that is not what it was. */
static void mapped_files(void **state) {
  (void)state;
  static const char *const refusals[] = {"lease_refused", "map_refused", "address_space"};
  accel__checkpoint *c;
  const char *path = write_changed();
  assert_int_equal(accel__checkpoint_open_headers(path, &c), ACCEL_OK);
  const accel__tensor_info *t = accel__checkpoint_at(c, 0);
  for (size_t i = 0; i < sizeof refusals / sizeof *refusals; i++) {
    accel__fault_arm(refusals[i]);
    assert_int_equal(accel__checkpoint_map(c), ACCEL_OK);
    accel__fault_arm(NULL);
    assert_null(accel__tensor_pages(c, t, 0, t->bytes));
    has_bytes(c, t, changed_bytes);
  }
  int writer = open(path, O_RDWR | O_CLOEXEC); /* and none of these keeps a lease */
  assert_true(writer >= 0);
  assert_int_equal(accel__checkpoint_map(c), ACCEL_OK);
  assert_null(accel__tensor_pages(c, t, 0, t->bytes));
  close(writer);
  assert_int_equal(accel__checkpoint_map(c), ACCEL_OK);
  const bool mapped = accel__tensor_pages(c, t, 0, t->bytes) != NULL;
  if (mapped) {
    assert_int_equal(open(path, O_RDWR | O_CLOEXEC | O_NONBLOCK), -1);
    assert_int_equal(errno, EWOULDBLOCK);
    /* it waits from now on, as the kernel has it: no more is lent, and reads give what was there */
    assert_null(accel__tensor_pages(c, t, 0, t->bytes));
    has_bytes(c, t, changed_bytes);
  }
  assert_int_equal(accel__checkpoint_read(c), ACCEL_OK);
  writer = open(path, O_RDWR | O_CLOEXEC | O_NONBLOCK);
  assert_true(writer >= 0);
  close(writer);
  usleep(20000);
  overwritten(path);
  if (mapped) says_changed(accel__checkpoint_map(c), ACCEL_ERROR_IO, "");
  assert_null(accel__tensor_pages(c, t, 0, t->bytes));
  accel__checkpoint_close(&c);
  if (!mapped) skip(); /* no leases in this file system */
}

/* Reads that fail: file, tensor and remedy are named. */
static void failing_reads(void **state) {
  (void)state;
  static const struct {
    const char *point, *words;
    accel_status status;
  } cases[] = {{"read_error", "cannot read: Input/output error", ACCEL_ERROR_IO},
               {"read_short", "65536 bytes are due", ACCEL_ERROR_FORMAT},
               {"file_changed", "the file was changed", ACCEL_ERROR_IO}};
  for (size_t k = 0; k < sizeof cases / sizeof *cases; k++) {
    accel__checkpoint *c;
    accel__lent lent;
    assert_int_equal(accel__checkpoint_open_headers(write_changed(), &c), ACCEL_OK);
    assert_int_equal(accel__checkpoint_read(c), ACCEL_OK);
    accel__fault_arm(cases[k].point);
    const accel__tensor_info *t = accel__checkpoint_at(c, 0);
    const accel_status status = accel__tensor_lend(c, t, 0, t->bytes, &lent);
    accel__fault_arm(NULL);
    assert_int_equal(status, cases[k].status);
    assert_null(lent.data);
    assert_non_null(strstr(accel__message(), "tensor 'x'"));
    assert_non_null(strstr(accel__message(), "changed.safetensors"));
    assert_non_null(strstr(accel__message(), cases[k].words));
    assert_true(accel__remedy_text()[0]);
    accel__checkpoint_close(&c);
  }
}

/* Memory refused at every single place, and files that end too early. */
static void faults(void **state) {
  (void)state;
  bool whole = false;
  for (int at = 1; !whole && at < 500; at++) {
    char point[40];
    accel__checkpoint *c;
    snprintf(point, sizeof point, "allocation:%d", at);
    accel__fault_arm(point);
    accel_status status = accel__checkpoint_open(ACCEL_FIXTURES "/weights/sharded", &c);
    accel__fault_arm(NULL);
    whole = status == ACCEL_OK;
    if (!whole) assert_int_equal(status, ACCEL_ERROR_OUT_OF_MEMORY);
    accel__checkpoint_close(&c);
  }
  assert_true(whole);
  accel__fault_arm("short_file");
  refuses(ACCEL_FIXTURES "/weights/dtypes.safetensors", ACCEL_ERROR_FORMAT, "truncated");
  accel__fault_arm("disk_full");
  assert_int_not_equal(accel__safetensors_write(temp_path("full.safetensors"), sample, 1, NULL, 0),
                       ACCEL_OK);
  accel__fault_arm(NULL);
  assert_false(accel__file_exists(temp_path("full.safetensors")));
}

/* ---- where models live ---- */

static void finds(const char *model, const char *suffix) {
  accel__arena arena = {0};
  char *directory;
  if (accel__find_model(model, &arena, &directory) != ACCEL_OK)
    fail_msg("%s: %s", model, accel__message());
  if (!accel__ends_with(directory, suffix)) fail_msg("%s is %s", model, directory);
  accel__arena_free(&arena);
}

static void misses(const char *model, const char *remedy) {
  accel__arena arena = {0};
  char *directory = (void *)1;
  if (accel__find_model(model, &arena, &directory) != ACCEL_ERROR_NOT_FOUND)
    fail_msg("%s was found", model);
  assert_null(directory);
  assert_non_null(strstr(accel__message(), model));
  if (!strstr(accel__remedy_text(), remedy))
    fail_msg("%s: remedy '%s', expected '%s'", model, accel__remedy_text(), remedy);
  accel__arena_free(&arena);
}

static void models_are_found(void **state) {
  (void)state;
  setenv("ACCEL_CACHE_DIR", temp_path("cache"), 1);
  setenv("HF_HUB_CACHE", temp_path("hub"), 1);
  temp_text("cache/models/org/own/config.json", "{}");
  temp_text("cache/models/org/own@v2/config.json", "{}");
  temp_text("hub/models--org--name/refs/main", "aa11\n");
  temp_text("hub/models--org--name/refs/pr/3", "bb22");
  temp_text("hub/models--org--name/refs/evil", "../../../x");
  temp_text("hub/models--org--name/snapshots/aa11/config.json", "{}");
  temp_text("hub/models--org--name/snapshots/bb22/config.json", "{}");
  temp_text("hub/models--org--commit/snapshots/cc33/config.json", "{}");
  temp_text("hub/models--gpt2/refs/main", "dd44");
  temp_text("hub/models--gpt2/snapshots/dd44/config.json", "{}");
  temp_text("hub/models--org--gone/refs/main", "ee55");
  finds(temp_path("cache"), "/cache");
  finds("org/own", "/cache/models/org/own");
  finds("org/own@main", "/cache/models/org/own");
  finds("org/own@v2", "/cache/models/org/own@v2");
  finds("org/name", "/snapshots/aa11");
  finds("org/name@main", "/snapshots/aa11");
  finds("org/name@pr/3", "/snapshots/bb22");
  finds("org/name@bb22", "/snapshots/bb22");
  finds("org/commit", "/snapshots/cc33");
  finds("gpt2", "/snapshots/dd44");
  misses("org/gone", "hf download org/gone");
  misses("org/absent", "hf download org/absent");
  misses("org/name@v9", "hf download org/name --revision v9");
  misses("org/name@evil", "hf download");
  misses("../hub", "directory");
  misses("org/../name", "directory");
  misses("/no/such/place", "directory");
  misses("a/b/c", "directory");
  misses("org/na me", "directory");
  misses("org/", "directory");
  misses("@main", "directory");
  misses("org/name@../aa11", "directory");
  unsetenv("HF_HUB_CACHE");
  setenv("HF_HOME", temp_path("hfhome"), 1);
  temp_text("hfhome/hub/models--a--b/refs/main", "ff");
  temp_text("hfhome/hub/models--a--b/snapshots/ff/x", "");
  finds("a/b", "/snapshots/ff");
  unsetenv("HF_HOME");
  setenv("XDG_CACHE_HOME", temp_path("xdg"), 1);
  temp_text("xdg/huggingface/hub/models--c--d/refs/main", "ab");
  temp_text("xdg/huggingface/hub/models--c--d/snapshots/ab/x", "");
  finds("c/d", "/snapshots/ab");
  unsetenv("XDG_CACHE_HOME");
  setenv("HOME", temp_path("home"), 1);
  temp_text("home/.cache/huggingface/hub/models--e--f/refs/main", "cd");
  temp_text("home/.cache/huggingface/hub/models--e--f/snapshots/cd/x", "");
  finds("e/f", "/snapshots/cd");
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(official_dtypes),
      cmocka_unit_test(official_shards),
      cmocka_unit_test(written_files_are_read),
      cmocka_unit_test(writer_refuses),
      cmocka_unit_test(directories),
      cmocka_unit_test(other_formats_are_refused),
      cmocka_unit_test(bad_files),
      cmocka_unit_test(index_rules),
      cmocka_unit_test(hash_follows_the_file),
      cmocka_unit_test(checkpoints_are_joined),
      cmocka_unit_test(large_files),
      cmocka_unit_test(ways_agree),
      cmocka_unit_test(changed_files),
      cmocka_unit_test(mapped_files),
      cmocka_unit_test(failing_reads),
      cmocka_unit_test(reads_in_parts),
      cmocka_unit_test(faults),
      cmocka_unit_test(models_are_found),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
