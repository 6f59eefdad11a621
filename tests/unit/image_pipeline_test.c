/* image_pipeline_test.c - a whole pipeline of pictures with each allocation refused in turn, stopped at
 * every step and at every place that asks, and two of them at once: an error each time, no leak (run
 * under ASan), and the next call gives the same picture.  ACCEL_TEST_ALL_FAULTS=1: all places; else
 * one in so many. */
#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>

#include "core/config.h"
#include "test_endpoint.h"

#define PIPELINES ACCEL_FIXTURES "/diffusion/pipelines/"
enum { STEPS = 3 };

/* ---- malloc of this process, which fails when it is told to ---- */

static atomic_ulong calls, refused; /* counted while refused is not 0 */

#if defined __GLIBC__ && !defined __SANITIZE_ADDRESS__ && !defined __SANITIZE_THREAD__
enum { REFUSES = 1 };
void *__libc_malloc(size_t n);
void *__libc_calloc(size_t n, size_t size);
void *__libc_realloc(void *old, size_t n);

static bool refuse(void) {
  const unsigned long which = atomic_load(&refused);
  if (!which || atomic_fetch_add(&calls, 1) + 1 != which) return false;
  errno = ENOMEM;
  return true;
}

void *malloc(size_t n) { return refuse() ? NULL : __libc_malloc(n); }
void *calloc(size_t n, size_t size) { return refuse() ? NULL : __libc_calloc(n, size); }
void *realloc(void *old, size_t n) { return refuse() ? NULL : __libc_realloc(old, n); }
#else
enum { REFUSES = 0 };
#endif

/* ---- a picture ---- */

typedef struct picture {
  const char *pipeline, *device;
  uint8_t *rgb;
  size_t n;
} picture;

static accel_status paint(accel_endpoint *ep, bool texts, accel_image_step_fn on_step, void *user,
                          accel_generated_images **made) {
  const char *prompt = "a cat";
  accel_text_to_image_params how = accel_text_to_image_params_default();
  how.steps = STEPS;
  if (texts) how.width = how.height = 16; /* Flux would make 256 of a side */
  how.seed = 7;
  how.on_step = on_step;
  how.user = user;
  return accel_text_to_image(ep, texts ? &prompt : NULL, texts, &how, made);
}

static bool has_texts(const char *pipeline) { return strncmp(pipeline, "dd", 2) != 0; }

static accel_endpoint *open_pipeline(accel *ctx, const picture *p) {
  accel_init_params how = accel_init_params_default();
  accel_endpoint *ep;
  char path[512];
  how.device = p->device;
  snprintf(path, sizeof path, "%s%s", PIPELINES, p->pipeline);
  assert_ok(accel_init(ctx, path, &how, &ep));
  return ep;
}

static void keep(picture *p, const accel_generated_images *made) {
  p->n = 3u * made->image[0].width * made->image[0].height;
  p->rgb = malloc(p->n);
  assert_non_null(p->rgb);
  memcpy(p->rgb, made->image[0].rgb, p->n);
}

static bool same(const picture *p, const accel_generated_images *made) {
  return 3u * made->image[0].width * made->image[0].height == p->n &&
         !memcmp(made->image[0].rgb, p->rgb, p->n);
}

/* What the pipeline paints when nothing is in its way. */
static void paint_first(accel_endpoint *ep, picture *p) {
  accel_generated_images *made;
  assert_ok(paint(ep, has_texts(p->pipeline), NULL, NULL, &made));
  keep(p, made);
  accel_generated_images_free(&made);
}

static void paint_again(accel_endpoint *ep, const picture *p) {
  accel_generated_images *made;
  assert_ok(paint(ep, has_texts(p->pipeline), NULL, NULL, &made));
  assert_true(same(p, made));
  accel_generated_images_free(&made);
}

/* So many places from one that is tried to the next. */
static unsigned stride(unsigned fewer) {
  const char *all = getenv("ACCEL_TEST_ALL_FAULTS");
  return all && *all == '1' ? 1 : fewer;
}

/* ---- refused memory ---- */

/* 0: everything went through; else the failure's code. */
static accel_status open_paint_close(accel *ctx, const picture *p) {
  accel_init_params how = accel_init_params_default();
  accel_endpoint *ep;
  accel_generated_images *made;
  char path[512];
  how.device = p->device;
  snprintf(path, sizeof path, "%s%s", PIPELINES, p->pipeline);
  accel_status status = accel_init(ctx, path, &how, &ep);
  if (status != ACCEL_OK) return assert_null(ep), status;
  status = paint(ep, has_texts(p->pipeline), NULL, NULL, &made);
  if (status == ACCEL_OK) assert_true(same(p, made));
  if (status != ACCEL_OK) assert_null(made);
  accel_generated_images_free(&made);
  accel_cleanup(&ep);
  return status;
}

static unsigned refuse_each(picture *p, unsigned fewer) {
  unsigned failures = 0, went_through = 0;
  accel *ctx = test_context();
  accel_endpoint *ep = open_pipeline(ctx, p);
  paint_first(ep, p);
  accel_cleanup(&ep);
  for (unsigned n = 1; went_through < 30; n += stride(fewer)) {
    char spec[64];
    snprintf(spec, sizeof spec, "allocation:%u", n);
    accel__fault_arm(spec);
    const accel_status status = open_paint_close(ctx, p);
    accel__fault_arm(NULL);
    went_through = status == ACCEL_OK ? went_through + 1 : 0;
    if (status == ACCEL_OK) continue;
    if (status != ACCEL_ERROR_OUT_OF_MEMORY)
      fail_msg("%s %s, %s: %s: %s", p->pipeline, p->device, spec, accel_status_name(status),
               accel_last_error());
    assert_true(accel_last_error()[0] != 0);
    failures++;
  }
  assert_ok(open_paint_close(ctx, p));
  accel_destroy(&ctx);
  free(p->rgb);
  print_message("%s on %s: %u failures\n", p->pipeline, p->device, failures);
  return failures;
}

static void every_allocation_may_fail(void **state) {
  (void)state;
  assert_true(refuse_each(&(picture){.pipeline = "euler", .device = "cpu"}, 97) > 5);
  if (stride(0) != 1) return;
  static const char *const others[] = {"xl", "sd3", "flux"};
  for (size_t i = 0; i < sizeof others / sizeof *others; i++)
    assert_true(refuse_each(&(picture){.pipeline = others[i], .device = "cpu"}, 1) > 20);
}

/* Of one call every malloc, calloc and realloc, the plugin's and those of its libraries among them. */
static void malloc_may_fail(void **state) {
  (void)state;
  static const char *const pipelines[] = {"euler", "xl", "sd3", "flux", "ddpm", "lcm"};
  const size_t n = stride(0) == 1 ? sizeof pipelines / sizeof *pipelines : 1;
  if (!REFUSES) skip();
  for (size_t k = 0; k < n; k++) {
    picture p = {.pipeline = pipelines[k], .device = "cpu"};
    accel *ctx = test_context();
    accel_endpoint *ep = open_pipeline(ctx, &p);
    unsigned failures = 0, went_through = 0;
    paint_first(ep, &p);
    for (unsigned long i = 1; went_through < 3; i += stride(3)) {
      accel_generated_images *made;
      atomic_store(&calls, 0);
      atomic_store(&refused, i);
      const accel_status status = paint(ep, has_texts(p.pipeline), NULL, NULL, &made);
      const bool reached = atomic_load(&calls) >= i;
      atomic_store(&refused, 0);
      if (status == ACCEL_OK) assert_true(same(&p, made));
      if (status != ACCEL_OK && status != ACCEL_ERROR_OUT_OF_MEMORY)
        fail_msg("%s, malloc %lu: %s: %s", p.pipeline, i, accel_status_name(status),
                 accel_last_error());
      failures += status != ACCEL_OK;
      accel_generated_images_free(&made);
      went_through = reached ? 0 : went_through + 1;
    }
    print_message("%s: %u failures\n", p.pipeline, failures);
    assert_true(failures > 10);
    paint_again(ep, &p);
    free(p.rgb);
    accel_cleanup(&ep);
    accel_destroy(&ctx);
  }
}

/* ---- stopped ---- */

static int stop_at(void *user, uint32_t step, uint32_t steps, const float *latents, uint64_t n) {
  assert_non_null(latents);
  assert_true(n > 0 && step <= steps);
  return step == *(uint32_t *)user;
}

static void every_step_may_be_the_last(void **state) {
  (void)state;
  picture p = {.pipeline = "euler", .device = "cpu"};
  accel *ctx = test_context();
  accel_endpoint *ep = open_pipeline(ctx, &p);
  paint_first(ep, &p);
  for (uint32_t at = 1; at <= STEPS; at++) {
    accel_generated_images *made;
    assert_int_equal(paint(ep, true, stop_at, &at, &made), ACCEL_ERROR_CANCELLED);
    assert_null(made);
    paint_again(ep, &p);
  }
  free(p.rgb);
  accel_cleanup(&ep);
  accel_destroy(&ctx);
}

static atomic_ulong asked, stop_when;

static int cancelled(void *user) {
  (void)user;
  const unsigned long when = atomic_load(&stop_when);
  return when && atomic_fetch_add(&asked, 1) + 1 >= when;
}

/* At the first, second ... place that asks whether to go on: in texts, steps and the autoencoder. */
static void every_place_that_asks_may_stop(void **state) {
  (void)state;
  picture p = {.pipeline = "xl", .device = "cpu"};
  accel_params params = test_params();
  accel *ctx;
  params.cancel = cancelled;
  assert_ok(accel_create(&params, &ctx));
  accel_endpoint *ep = open_pipeline(ctx, &p);
  unsigned stopped = 0;
  paint_first(ep, &p);
  for (unsigned long at = 1;; at += stride(13)) {
    accel_generated_images *made;
    atomic_store(&asked, 0);
    atomic_store(&stop_when, at);
    const accel_status status = paint(ep, true, NULL, NULL, &made);
    atomic_store(&stop_when, 0);
    if (status == ACCEL_OK) assert_true(same(&p, made));
    accel_generated_images_free(&made);
    if (status == ACCEL_OK) break;
    assert_int_equal(status, ACCEL_ERROR_CANCELLED);
    stopped++;
  }
  assert_true(stopped >= STEPS);
  paint_again(ep, &p);
  free(p.rgb);
  accel_cleanup(&ep);
  accel_destroy(&ctx);
}

/* ---- at once ---- */

typedef struct painter {
  accel_endpoint *ep;
  const picture *want;
  unsigned wrong;
} painter;

static void *paint_often(void *user) {
  painter *w = user;
  for (int i = 0; i < 4; i++) {
    accel_generated_images *made;
    if (paint(w->ep, has_texts(w->want->pipeline), NULL, NULL, &made) != ACCEL_OK ||
        !same(w->want, made))
      w->wrong++;
    accel_generated_images_free(&made);
  }
  return NULL;
}

/* Two pipelines, each painted by two threads. */
static void pipelines_run_at_once(void **state) {
  (void)state;
  picture want[2] = {{.pipeline = "euler", .device = "cpu"}, {.pipeline = "xl", .device = "cpu"}};
  accel *ctx = test_context();
  accel_endpoint *ep[2];
  pthread_t thread[4];
  painter w[4];
  for (int i = 0; i < 2; i++) {
    ep[i] = open_pipeline(ctx, &want[i]);
    paint_first(ep[i], &want[i]);
  }
  for (int i = 0; i < 4; i++) {
    w[i] = (painter){.ep = ep[i % 2], .want = &want[i % 2]};
    assert_int_equal(pthread_create(&thread[i], NULL, paint_often, &w[i]), 0);
  }
  for (int i = 0; i < 4; i++) {
    pthread_join(thread[i], NULL);
    assert_int_equal(w[i].wrong, 0);
  }
  for (int i = 0; i < 2; i++) {
    free(want[i].rgb);
    accel_cleanup(&ep[i]);
  }
  accel_destroy(&ctx);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(every_allocation_may_fail),
      cmocka_unit_test(malloc_may_fail),
      cmocka_unit_test(every_step_may_be_the_last),
      cmocka_unit_test(every_place_that_asks_may_stop),
      cmocka_unit_test(pipelines_run_at_once),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
