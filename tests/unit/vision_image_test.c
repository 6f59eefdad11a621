/* vision_image_test.c - pictures, resizing and image processors against Pillow, torchvision and
 * transformers (tests/goldens/make_image_goldens.py). */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/file.h"
#include "vision/image_processor.h"
#include "unit/force_isa.h"
#include "unit/tensors.h"

#define IMAGE ACCEL_FIXTURES "/image/"

static void assert_pixels(const char *name, const accel__image *got, const accel_tensor *want,
                          int bound) {
  const uint8_t *w = want->data;
  if (got->height != want->dim[0] || got->width != want->dim[1])
    fail_msg("%s: %d x %d, not %d x %d", name, got->width, got->height, (int)want->dim[1],
             (int)want->dim[0]);
  for (int64_t i = 0; i < want->dim[0] * want->dim[1] * 3; i++)
    if (abs(got->pixels[i] - w[i]) > bound)
      fail_msg("%s: pixel %d, channel %d is %d, not %d", name, (int)(i / 3), (int)(i % 3),
               got->pixels[i], w[i]);
}

static accel__image image_of(const accel_tensor *t) {
  accel__image image;
  assert_int_equal(accel__image_new(t->dim[1], t->dim[0], "test", &image), ACCEL_OK);
  memcpy(image.pixels, t->data, (size_t)(t->dim[0] * t->dim[1] * 3));
  return image;
}

static void pictures_are_read(void **state) {
  (void)state;
  accel_tensors *t = read_tensors(IMAGE "pictures.safetensors");
  uint32_t read = 0;
  for (uint32_t i = 0; i < t->n; i++) {
    char path[512];
    accel__image image;
    const char *name = t->item[i].name;
    snprintf(path, sizeof path, IMAGE "pictures/%s", name);
    if (accel__image_read(path, &image) != ACCEL_OK) {
      /* not installed: explained */
      if (strstr(name, ".webp") && strstr(accel_last_error(), "libwebp.so.7")) continue;
      fail_msg("%s", accel_last_error());
    }
    assert_pixels(name, &image, &t->item[i], 0);
    accel__image_free(&image);
    read++;
  }
  assert_true(read >= 34);
  accel_tensors_free(&t);
}

static void bad_pictures_are_refused(void **state) {
  (void)state;
  accel__arena arena = {0};
  char **names;
  size_t n;
  assert_int_equal(accel__list_directory(IMAGE "bad", &arena, &names, &n), ACCEL_OK);
  assert_true(n >= 11);
  for (size_t i = 0; i < n; i++) {
    accel__image image;
    const accel_status status =
        accel__image_read(accel__path_join(&arena, IMAGE "bad", names[i]), &image);
    if (status != ACCEL_ERROR_FORMAT && status != ACCEL_ERROR_UNSUPPORTED)
      fail_msg("%s is taken: %d", names[i], status);
    assert_non_null(strstr(accel_last_error(), names[i]));
    assert_null(image.pixels);
  }
  accel__arena_free(&arena);
}

static void exif_is_not_trusted(void **state) {
  (void)state;
  const uint8_t good[] = {'M', 'M', 0, 42, 0, 0, 0, 8, 0, 1, 1, 0x12, 0, 3, 0, 0, 0, 1, 0, 6, 0, 0};
  uint8_t b[sizeof good];
  assert_int_equal(accel__exif_orientation(good, sizeof good), 6);
  for (size_t n = 0; n < sizeof good; n++) assert_int_equal(accel__exif_orientation(good, n), 1);
  for (int at = 4; at < 8; at++) { /* an offset beyond the block */
    memcpy(b, good, sizeof b);
    b[at] = 0xFF;
    assert_int_equal(accel__exif_orientation(b, sizeof b), 1);
  }
  memcpy(b, good, sizeof b);
  b[19] = 9;
  assert_int_equal(accel__exif_orientation(b, sizeof b), 1);
}

static void sizes(accel__pool *pool) {
  accel_tensors *t = read_tensors(IMAGE "resize.safetensors");
  uint32_t seen[2] = {0};
  for (uint32_t i = 0; i < t->n; i++) {
    int n, filter, height, width;
    char backend[16];
    if (sscanf(t->item[i].name, "out.%d.%d.%15[a-z].%d.%d", &n, &filter, backend, &height,
               &width) != 5)
      continue;
    const bool torch = !strcmp(backend, "torch");
    accel__image image = image_of(find(t, "in.%d", n));
    assert_int_equal(accel__image_resize(&image, width, height, (accel__filter)filter,
                                         torch ? ACCEL__ROUND_TORCH : ACCEL__ROUND_PILLOW, pool),
                     ACCEL_OK);
    assert_pixels(t->item[i].name, &image, &t->item[i], 0);
    accel__image_free(&image);
    seen[torch]++;
  }
  assert_true(seen[0] >= 20 && seen[1] >= 28);
  accel_tensors_free(&t);
}

static void sizes_of_isa(accel__isa isa) {
  (void)isa; /* ACCEL_ISA names it */
  accel__pool *pool;
  sizes(NULL);
  assert_int_equal(accel__pool_create_exactly(3, &pool), ACCEL_OK);
  sizes(pool);
  accel__pool_destroy(&pool);
}

static void other_sizes(void **state) {
  (void)state;
  for_each_isa(sizes_of_isa);
  accel__image image = {0};
  assert_int_equal(accel__image_resize(&image, 0, 5, ACCEL__BILINEAR, ACCEL__ROUND_TORCH, NULL),
                   ACCEL_ERROR_ARGUMENT);
}

static void check_processor(const char *name) {
  char path[512];
  accel__image_processor p;
  accel__image images[4];
  accel__pixels px;
  uint32_t n = 0;
  snprintf(path, sizeof path, IMAGE "processors/%s/golden.safetensors", name);
  accel_tensors *t = read_tensors(path);
  *strrchr(path, '/') = 0;
  if (accel__image_processor_load(path, &p) != ACCEL_OK) fail_msg("%s", accel_last_error());
  for (const accel_tensor *in; (in = find(t, "in.%u", n)); n++) images[n] = image_of(in);
  if (accel__pixels_of(&p, images, n, NULL, &px) != ACCEL_OK)
    fail_msg("%s: %s", name, accel_last_error());
  const accel_tensor *want = find(t, "out.pixel_values"), *mask = find(t, "out.pixel_mask"),
                     *shapes = find(t, "out.image_sizes"), *grid = find(t, "out.image_grid_thw"),
                     *crops = find(t, "out.num_crops"), *patches = find(t, "out.num_patches");
  if (!mask) mask = find(t, "out.pixel_attention_mask");
  assert_non_null(want);
  assert_int_equal(px.rank, want->rank);
  int64_t elements = 1;
  for (uint32_t d = 0; d < px.rank; d++) {
    if (px.dim[d] != want->dim[d])
      fail_msg("%s: dim %u is %d, not %d", name, d, (int)px.dim[d], (int)want->dim[d]);
    elements *= px.dim[d];
  }
  for (int64_t i = 0; i < elements; i++) {
    const double expected = want->dtype == ACCEL_F32 ? (double)((float *)want->data)[i]
                                                     : (double)((int64_t *)want->data)[i];
    if (!(fabs(px.values[i] - expected) <= 1e-6 + 1e-6 * fabs(expected)))
      fail_msg("%s: value %d is %.8g, not %.8g", name, (int)i, px.values[i], expected);
  }
  assert_int_equal(!px.mask, !mask);
  if (mask) assert_memory_equal(px.mask, mask->data, (size_t)(elements / 3) * 8);
  assert_int_equal(!px.sizes, !shapes);
  if (shapes) assert_memory_equal(px.sizes, shapes->data, (size_t)(shapes->dim[0] * 2) * 8);
  assert_int_equal(!px.grid, !grid);
  if (grid) assert_memory_equal(px.grid, grid->data, (size_t)(grid->dim[0] * 3) * 8);
  for (uint32_t i = 0; (crops || patches) && i < n; i++)
    assert_int_equal(px.parts[i].n - (crops ? 1 : 0),
                     ((int64_t *)(crops ? crops : patches)->data)[i]);
  for (uint32_t i = 0; i < n; i++) accel__image_free(&images[i]);
  accel__pixels_free(&px);
  accel_tensors_free(&t);
}

static void processors_of_isa(accel__isa isa) {
  (void)isa;
  accel__arena arena = {0};
  char **names;
  size_t n;
  assert_int_equal(accel__list_directory(IMAGE "processors", &arena, &names, &n), ACCEL_OK);
  assert_true(n >= 19);
  for (size_t i = 0; i < n; i++) check_processor(names[i]);
  accel__arena_free(&arena);
}

static void processors_are_transformers(void **state) {
  (void)state;
  for_each_isa(processors_of_isa);
}

/* A picture of sides that no vector divides, up and down: the same bits from every instruction
 * set. */
static void processors_are_the_same_bits(void **state) {
  (void)state;
  static const char *const words[] = {"scalar", "avx2", "avx512"};
  static const char *const names[] = {"vit", "clip", "detr", "vit_unscaled", "llava_next"};
  accel__isa list[ACCEL__ISA_COUNT];
  const int n = accel__isa_list(list);
  accel__image image;
  assert_int_equal(accel__image_new(613, 397, "test", &image), ACCEL_OK);
  for (size_t i = 0; i < 613 * 397 * 3; i++) image.pixels[i] = (uint8_t)(i * i >> 7 ^ i * 29);
  for (size_t c = 0; c < sizeof names / sizeof *names; c++) {
    accel__image_processor p;
    accel__pixels px[3];
    char path[512];
    snprintf(path, sizeof path, IMAGE "processors/%s", names[c]);
    assert_int_equal(accel__image_processor_load(path, &p), ACCEL_OK);
    for (int i = 0; i < n; i++) {
      setenv("ACCEL_ISA", words[i], 1);
      assert_int_equal(accel__pixels_of(&p, &image, 1, NULL, &px[i]), ACCEL_OK);
      int64_t elements = 1;
      for (uint32_t d = 0; d < px[i].rank; d++) elements *= px[i].dim[d];
      assert_true(elements > 1000);
      assert_memory_equal(px[i].values, px[0].values, (size_t)elements * sizeof *px->values);
    }
    for (int i = 0; i < n; i++) accel__pixels_free(&px[i]);
  }
  unsetenv("ACCEL_ISA");
  accel__image_free(&image);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(pictures_are_read),           cmocka_unit_test(bad_pictures_are_refused),
      cmocka_unit_test(exif_is_not_trusted),         cmocka_unit_test(other_sizes),
      cmocka_unit_test(processors_are_transformers), cmocka_unit_test(processors_are_the_same_bits),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
