/* backend_session_test.c - sessions of the kit: appending, failing without a trace, truncate, copy
 * with shared pages, export and import, limits, for KV, convolution and state-space states, in host
 * memory and in pretended device memory, with fp32 and fp16 pages; memory that goes from one
 * session to the next. */
#include <math.h>

#include "backend_helper.h"
#include "kit/kit_endpoint.h"
#include "kit/kit_pages.h"

enum { D = 4 }; /* one head of four columns */

/* lengths[B], x[T,columns] -> y[T,columns] = attention(x, x, x), causal, over all that a sequence
 * has seen; then c = log of it (for failures after the append). */
static accel__program *kv_program_of(int32_t columns) {
  accel__program *p = accel__program_new("kv");
  accel__dim rows = accel__symbol(p, "T", 0, 0, 8), items = accel__symbol(p, "B", 1, 0, 1),
             dims[2] = {rows, accel__const_dim(p, columns)};
  accel__tensor lengths = accel__input(p, "lengths", ACCEL_PLUGIN_I32, -1, 1, &items);
  int32_t space = accel__space_ragged(p, "tokens", lengths, rows, items);
  accel__tensor x = accel__input(p, "x", ACCEL_PLUGIN_F32, space, 2, dims), in[3] = {x, x, x};
  accel__attr attr[] = {ACCEL_I(HEADS, 1),  ACCEL_I(KV_HEADS, 1),    ACCEL_F(SCALE, 0.5),
                        ACCEL_I(CAUSAL, 1), ACCEL_I(Q_SPACE, space), ACCEL_I(KV_SPACE, space)};
  accel__with_state(p, accel__state(p, &(accel_plugin_state){.name = "kv",
                                                             .kind = ACCEL_PLUGIN_STATE_KV,
                                                             .heads = 1,
                                                             .k_dim = columns,
                                                             .v_dim = columns,
                                                             .share = -1}));
  accel__tensor y = accel__node(p, ACCEL_PLUGIN_OP_ATTENTION, in, 3, attr, 6, NULL, 0),
                c = accel__unary(p, ACCEL_PLUGIN_UNARY_LOG, y), outs[2] = {y, c};
  accel__entry(p, "run", (accel__tensor[]){lengths, x}, 2, outs, 2);
  accel_status rc = accel__program_finish(p);
  if (rc) print_error("%s\n", accel__message());
  assert_int_equal(rc, ACCEL_OK);
  return p;
}

static accel__program *kv_program(void) { return kv_program_of(D); }

/* x[T,4] -> depthwise causal convolution of 3 with carried rows. */
static accel__program *conv_program(void) {
  accel__program *p = accel__program_new("conv");
  accel__dim rows = accel__symbol(p, "T", 0, 0, 8), items = accel__symbol(p, "B", 1, 0, 1),
             dims[2] = {rows, accel__const_dim(p, D)};
  accel__tensor lengths = accel__input(p, "lengths", ACCEL_PLUGIN_I32, -1, 1, &items);
  int32_t space = accel__space_ragged(p, "tokens", lengths, rows, items);
  accel__tensor x = accel__input(p, "x", ACCEL_PLUGIN_F32, space, 2, dims);
  accel__weight_spec spec = {
      .name = "w", .use = ACCEL_PLUGIN_USE_CONV, .rank = 3, .dim = {D, 1, 3}};
  accel__tensor in[2] = {x, accel__weight(p, &spec)};
  static const int64_t pads[2] = {2, 0};
  accel__attr attr[] = {ACCEL_I(GROUPS, D), ACCEL_I(SPACE, space), ACCEL_IV(PADS, pads, 2)};
  accel__with_state(p, accel__state(p, &(accel_plugin_state){.name = "carry",
                                                             .kind = ACCEL_PLUGIN_STATE_CONV,
                                                             .heads = D,
                                                             .k_dim = 1,
                                                             .v_dim = 1,
                                                             .window = 2,
                                                             .share = -1}));
  accel__tensor y = accel__node(p, ACCEL_PLUGIN_OP_CONV, in, 2, attr, 3, NULL, 0);
  accel__entry(p, "run", (accel__tensor[]){lengths, x}, 2, &y, 1);
  assert_int_equal(accel__program_finish(p), ACCEL_OK);
  return p;
}

static const float kernel[D * 3] = {1, 2, 3, 0.5f, -1, 2, 1, 1, 1, -2, 0, 1};
static const float *const weights[] = {kernel};

typedef struct bench {
  accel__program *p;
  toy_host host;
  accel_plugin_endpoint *e;
  accel_plugin_session *s;
  accel_plugin_error error;
  uint32_t n_out;
} bench;

static void open_bench(bench *b, const kit_backend *backend, accel__program *p, uint32_t n_out,
                       uint32_t flags) {
  memset(b, 0, sizeof *b);
  b->p = p;
  b->n_out = n_out;
  b->error.size = sizeof b->error;
  toy_host_init(&b->host, weights);
  b->e = toy_init(backend, p, &b->host, flags);
  assert_int_equal(kit_session_new(b->e, &b->s, &b->error), 0);
}
static void close_bench(bench *b) {
  kit_session_free(b->s);
  kit_cleanup(b->e, &b->host.host);
  accel__program_free(&b->p);
}

/* Row i of sequence s. */
static float cell(int s, int i, int c) { return sinf((float)(s * 31 + i * 7 + c * 3)) + 1.5f; }

/* Feeds rows [from, from+n) of each of `count` sequences; y gets the results, packed. */
static int32_t feed(bench *b, uint32_t count, const int32_t *id, const int32_t *from,
                    const int32_t *n, float *y) {
  static float x[2000 * D], c[2000 * D];
  int32_t t = 0;
  for (uint32_t k = 0; k < count; k++)
    for (int32_t i = 0; i < n[k]; i++, t++)
      for (int d = 0; d < D; d++) x[t * D + d] = cell(id[k], from[k] + i, d);
  accel_plugin_view in[2] = {toy_view(ACCEL_PLUGIN_I32, (void *)n, 1, (int64_t)count, 0),
                             toy_view(ACCEL_PLUGIN_F32, x, 2, t, D)};
  accel_plugin_view out[2] = {{.size = sizeof out[0], .host = y, .capacity = sizeof x},
                              {.size = sizeof out[0], .host = c, .capacity = sizeof c}};
  accel_plugin_run run = {
      .size = sizeof run, .host = &b->host.host, .sequence = id, .n_sequence = count};
  b->error.message[0] = 0;
  return kit_handler(b->e, b->s, &run, in, 2, out, b->n_out, &b->error);
}

static int32_t one(bench *b, int32_t id, int32_t from, int32_t n, float *y) {
  return feed(b, 1, &id, &from, &n, y);
}

static uint64_t length(bench *b, int32_t id) {
  uint64_t n = 0;
  assert_int_equal(
      kit_session_control(b->s, ACCEL_PLUGIN_SESSION_LENGTH, id, 0, NULL, &n, &b->error), 0);
  return n;
}
static int32_t control(bench *b, int verb, int32_t id, int64_t value) {
  return kit_session_control(b->s, verb, id, value, NULL, NULL, &b->error);
}

/* The rows [from, from+n) of sequence id, computed in a fresh session in one go. */
static void whole(bench *b, int32_t id, int32_t from, int32_t n, float *y) {
  static float all[2000 * D];
  accel_plugin_session *kept = b->s;
  assert_int_equal(kit_session_new(b->e, &b->s, &b->error), 0);
  assert_int_equal(one(b, id, 0, from + n, all), 0);
  memcpy(y, all + from * D, (size_t)(n * D) * 4);
  kit_session_free(b->s);
  b->s = kept;
}

static void expect_rows(bench *b, int32_t id, int32_t from, int32_t n, const float *y,
                        double tolerance) {
  static float right[2000 * D];
  whole(b, id, from, n, right);
  for (int i = 0; i < n * D; i++)
    if (!(fabs((double)y[i] - right[i]) <= tolerance))
      fail_msg("sequence %d, row %d: %g, expected %g", id, from + i / D, y[i], right[i]);
}

/* Device memory that is host memory behind copies. */
static int live_buffers;
static int32_t far_alloc(void *self, uint64_t n, void **out, accel_plugin_error *error) {
  (void)self, (void)error;
  *out = malloc(n ? n : 1);
  live_buffers++;
  return 0;
}
static void far_release(void *self, void *buffer) {
  (void)self;
  live_buffers--;
  free(buffer);
}
static int32_t far_up(void *self, void *buffer, uint64_t offset, const void *from, uint64_t n,
                      accel_plugin_error *error) {
  (void)self, (void)error;
  memcpy((char *)buffer + offset, from, n);
  return 0;
}
static int32_t far_down(void *self, void *to, void *buffer, uint64_t offset, uint64_t n,
                        accel_plugin_error *error) {
  (void)self, (void)error;
  memcpy(to, (char *)buffer + offset, n);
  return 0;
}
static int32_t far_launch(void *self, const kit_launch *given, accel_plugin_error *error) {
  kit_tensor t[KIT_OPERANDS + KIT_RESULTS];
  for (uint32_t i = 0; i < KIT_OPERANDS + KIT_RESULTS; i++) {
    t[i] = i < given->n_in ? given->in[i] : given->out[i - given->n_in];
    if (t[i].id >= 0)
      t[i].data = t[i].weight >= 0 ? t[i].buffer : (char *)t[i].buffer + t[i].offset;
  }
  kit_launch l = *given;
  l.in = t;
  l.out = t + KIT_OPERANDS;
  return toy_launch(self, &l, error);
}
static int32_t half_open(kit_open *open, void **self, accel_plugin_error *error) {
  open->kv_dtype = ACCEL_PLUGIN_F16;
  return toy_open(open, self, error);
}
static const kit_backend far_toy = {.name = "toy",
                                    .open = toy_open,
                                    .close = toy_close,
                                    .weight = toy_weight,
                                    .launch = far_launch,
                                    .alloc = far_alloc,
                                    .release = far_release,
                                    .upload = far_up,
                                    .download = far_down};
static const kit_backend half_toy = {.name = "toy",
                                     .open = half_open,
                                     .close = toy_close,
                                     .weight = toy_weight,
                                     .launch = toy_launch};
static const kit_backend *const all_backends[] = {&toy, &far_toy, &half_toy};

static void append_in_parts(void **state) {
  (void)state;
  static float y[2000 * D];
  for (int k = 0; k < 3; k++) {
    bench b;
    open_bench(&b, all_backends[k], kv_program(), 2, 0);
    double tolerance = k == 2 ? 1e-6 : 0;
    static const int32_t steps[] = {1, 255, 1, 2, 300, 0, 1};
    int32_t at = 0;
    for (size_t i = 0; i < sizeof steps / sizeof *steps; i++) {
      assert_int_equal(one(&b, 5, at, steps[i], y), 0);
      expect_rows(&b, 5, at, steps[i], y, tolerance);
      at += steps[i];
      assert_int_equal(length(&b, 5), at);
    }
    /* two sequences in one run, in the other order than they came */
    assert_int_equal(feed(&b, 2, (int32_t[]){9, 5}, (int32_t[]){0, at}, (int32_t[]){4, 3}, y), 0);
    expect_rows(&b, 9, 0, 4, y, tolerance);
    expect_rows(&b, 5, at, 3, y + 4 * D, tolerance);
    close_bench(&b);
  }
  assert_int_equal(live_buffers, 0);
}

static void failures_leave_no_trace(void **state) {
  (void)state;
  static float y[2000 * D];
  for (int k = 0; k < 2; k++) {
    bench b;
    open_bench(&b, all_backends[k], kv_program(), 2, 0);
    assert_int_equal(one(&b, 1, 0, 300, y), 0);
    b.host.cancel_after = 2; /* the append is done, the node after it is not */
    assert_int_equal(feed(&b, 2, (int32_t[]){1, 2}, (int32_t[]){300, 0}, (int32_t[]){7, 3}, y),
                     ACCEL_PLUGIN_E_CANCELLED);
    assert_int_equal(length(&b, 1), 300);
    assert_int_equal(length(&b, 2), 0);
    /* it is not there at all */
    assert_int_equal(control(&b, ACCEL_PLUGIN_SESSION_TRUNCATE, 2, 0), ACCEL_PLUGIN_E_ARGUMENT);
    /* max_tokens is 1000 */
    assert_int_equal(one(&b, 1, 300, 701, y), ACCEL_PLUGIN_E_LIMIT);
    assert_non_null(strstr(b.error.message, "limit of 1000"));
    assert_int_equal(length(&b, 1), 300);
    b.host.fault = "allocation"; /* scratch is there already: the page is refused */
    assert_int_equal(one(&b, 1, 300, 5, y), ACCEL_PLUGIN_E_HOST_MEMORY);
    b.host.fault = NULL;
    assert_int_equal(length(&b, 1), 300);
    assert_int_equal(one(&b, 1, 300, 5, y), 0);
    expect_rows(&b, 1, 300, 5, y, 0);
    assert_int_equal(feed(&b, 2, (int32_t[]){3, 3}, (int32_t[]){0, 0}, (int32_t[]){1, 1}, y),
                     ACCEL_PLUGIN_E_ARGUMENT);
    accel_plugin_run run = {.size = sizeof run, .host = &b.host.host};
    accel_plugin_view in[2] = {toy_view(ACCEL_PLUGIN_I32, (int32_t[]){1}, 1, 1, 0),
                               toy_view(0, y, 2, 1, D)},
                      out[2] = {{.size = sizeof out[0], .host = y + 100, .capacity = 400},
                                {.size = sizeof out[0]}};
    assert_int_equal(kit_handler(b.e, NULL, &run, in, 2, out, 2, &b.error),
                     ACCEL_PLUGIN_E_ARGUMENT);
    assert_non_null(strstr(b.error.message, "needs a session"));
    close_bench(&b);
  }
  assert_int_equal(live_buffers, 0);
}

static void truncate_and_copy(void **state) {
  (void)state;
  static float y[2000 * D];
  for (int k = 0; k < 2; k++) {
    bench b;
    open_bench(&b, all_backends[k], kv_program(), 2, 0);
    assert_int_equal(one(&b, 1, 0, 400, y), 0);
    assert_int_equal(control(&b, ACCEL_PLUGIN_SESSION_COPY, 1, 2), 0);
    assert_int_equal(length(&b, 2), 400);
    /* the copy diverges (its rows are those of "sequence 2" from 300 on); the original keeps its
     * own */
    assert_int_equal(control(&b, ACCEL_PLUGIN_SESSION_TRUNCATE, 2, 300), 0);
    assert_int_equal(one(&b, 2, 300, 60, y), 0);
    assert_int_equal(one(&b, 1, 400, 3, y), 0);
    expect_rows(&b, 1, 400, 3, y, 0);
    assert_int_equal(length(&b, 2), 360);
    /* and back: 2 forgets, becomes 1 again, goes on as 1 would */
    assert_int_equal(control(&b, ACCEL_PLUGIN_SESSION_COPY, 1, 2), 0);
    assert_int_equal(control(&b, ACCEL_PLUGIN_SESSION_RESET, 1, 0), 0);
    assert_int_equal(length(&b, 1), 0);
    assert_int_equal(length(&b, 2), 403);
    assert_int_equal(control(&b, ACCEL_PLUGIN_SESSION_COPY, 2, 1), 0);
    assert_int_equal(one(&b, 1, 403, 2, y), 0);
    expect_rows(&b, 1, 403, 2, y, 0);
    assert_int_equal(control(&b, ACCEL_PLUGIN_SESSION_TRUNCATE, 1, 0), 0);
    assert_int_equal(one(&b, 1, 0, 2, y), 0);
    expect_rows(&b, 1, 0, 2, y, 0);
    assert_int_equal(control(&b, ACCEL_PLUGIN_SESSION_COPY, 77, 1), ACCEL_PLUGIN_E_ARGUMENT);
    assert_int_equal(control(&b, 99, 1, 0), ACCEL_PLUGIN_E_UNSUPPORTED);
    close_bench(&b);
  }
  assert_int_equal(live_buffers, 0);
}

static void export_and_import(void **state) {
  (void)state;
  static float y[2000 * D];
  for (int k = 0; k < 3; k++) {
    bench b;
    open_bench(&b, all_backends[k], kv_program(), 2, 0);
    assert_int_equal(one(&b, 1, 0, 270, y), 0);
    uint64_t n = 0;
    assert_int_equal(
        kit_session_control(b.s, ACCEL_PLUGIN_SESSION_EXPORT, 1, 0, NULL, &n, &b.error), 0);
    char *bytes = malloc(n);
    uint64_t few = n - 1;
    assert_int_equal(
        kit_session_control(b.s, ACCEL_PLUGIN_SESSION_EXPORT, 1, 0, bytes, &few, &b.error),
        ACCEL_PLUGIN_E_LIMIT);
    assert_int_equal(
        kit_session_control(b.s, ACCEL_PLUGIN_SESSION_EXPORT, 1, 0, bytes, &n, &b.error), 0);
    /* every prefix is refused, and changes nothing */
    for (uint64_t cut = 0; cut < n; cut += 1 + n / 50) {
      uint64_t m = cut;
      assert_int_equal(
          kit_session_control(b.s, ACCEL_PLUGIN_SESSION_IMPORT, 4, 0, bytes, &m, &b.error),
          ACCEL_PLUGIN_E_ARGUMENT);
    }
    assert_int_equal(length(&b, 4), 0);
    kit_session_free(b.s);
    assert_int_equal(kit_session_new(b.e, &b.s, &b.error), 0);
    assert_int_equal(
        kit_session_control(b.s, ACCEL_PLUGIN_SESSION_IMPORT, 1, 0, bytes, &n, &b.error), 0);
    assert_int_equal(length(&b, 1), 270);
    assert_int_equal(one(&b, 1, 270, 4, y), 0);
    expect_rows(&b, 1, 270, 4, y, k == 2 ? 1e-6 : 0);
    bytes[8] ^= 1; /* identity */
    assert_int_equal(
        kit_session_control(b.s, ACCEL_PLUGIN_SESSION_IMPORT, 1, 0, bytes, &n, &b.error),
        ACCEL_PLUGIN_E_ARGUMENT);
    assert_int_equal(length(&b, 1), 274);
    bytes[8] ^= 1;
    const int32_t huge = INT32_MAX; /* a lying length */
    memcpy(bytes + 24, &huge, 4);
    assert_int_equal(
        kit_session_control(b.s, ACCEL_PLUGIN_SESSION_IMPORT, 1, 0, bytes, &n, &b.error),
        ACCEL_PLUGIN_E_ARGUMENT);
    free(bytes);
    close_bench(&b);
  }
  assert_int_equal(live_buffers, 0);
}

static void vectors_carry_over(void **state) {
  (void)state;
  static float y[2000 * D];
  for (int k = 0; k < 2; k++) {
    bench b;
    open_bench(&b, all_backends[k], conv_program(), 1, 0);
    static const int32_t steps[] = {1, 1, 5, 0, 2};
    int32_t at = 0;
    for (size_t i = 0; i < sizeof steps / sizeof *steps; i++) {
      assert_int_equal(one(&b, 5, at, steps[i], y), 0);
      expect_rows(&b, 5, at, steps[i], y, 0);
      at += steps[i];
    }
    assert_int_equal(length(&b, 5), at);
    b.host.cancel_after = 1;
    assert_int_equal(one(&b, 5, at, 2, y), ACCEL_PLUGIN_E_CANCELLED);
    assert_int_equal(control(&b, ACCEL_PLUGIN_SESSION_TRUNCATE, 5, at - 1),
                     ACCEL_PLUGIN_E_UNSUPPORTED);
    assert_int_equal(control(&b, ACCEL_PLUGIN_SESSION_TRUNCATE, 5, at), 0);
    assert_int_equal(control(&b, ACCEL_PLUGIN_SESSION_COPY, 5, 6), 0);
    assert_int_equal(one(&b, 5, at, 2, y), 0);
    expect_rows(&b, 5, at, 2, y, 0);
    assert_int_equal(control(&b, ACCEL_PLUGIN_SESSION_COPY, 6, 5), 0); /* back to the snapshot */
    assert_int_equal(one(&b, 5, at, 3, y), 0);
    expect_rows(&b, 5, at, 3, y, 0);
    uint64_t n = 0;
    assert_int_equal(
        kit_session_control(b.s, ACCEL_PLUGIN_SESSION_EXPORT, 5, 0, NULL, &n, &b.error), 0);
    char *bytes = malloc(n);
    assert_int_equal(
        kit_session_control(b.s, ACCEL_PLUGIN_SESSION_EXPORT, 5, 0, bytes, &n, &b.error), 0);
    assert_int_equal(control(&b, ACCEL_PLUGIN_SESSION_TRUNCATE, 5, 0), 0);
    assert_int_equal(
        kit_session_control(b.s, ACCEL_PLUGIN_SESSION_IMPORT, 5, 0, bytes, &n, &b.error), 0);
    assert_int_equal(one(&b, 5, at + 3, 1, y), 0);
    expect_rows(&b, 5, at + 3, 1, y, 0);
    free(bytes);
    close_bench(&b);
  }
  assert_int_equal(live_buffers, 0);
}

/* ---- memory between sessions ---- */

enum { MB = 1 << 20, WIDE = 1024, LONGEST = 1000 }; /* WIDE: a page has two megabytes */

static void spare_rooms(void **state) {
  (void)state;
  kit_free_list spares = {.lock = PTHREAD_MUTEX_INITIALIZER};
  uint64_t bytes = 100 * (uint64_t)MB;
  assert_null(kit_free_list_take(&spares, KIT_FREE_BLOCK, 1, &bytes));
  void *four = kit_alloc_pages(4 * MB), *six = kit_alloc_pages(6 * MB),
       *large = kit_alloc_pages(60 * MB);
  assert_true(kit_free_list_put(&spares, KIT_FREE_BLOCK, four, 4 * MB));
  assert_true(kit_free_list_put(&spares, KIT_FREE_BLOCK, six, 6 * MB));
  assert_false(kit_free_list_put(&spares, KIT_FREE_BLOCK, large, 60 * MB));
  assert_ptr_equal(kit_free_list_take(&spares, KIT_FREE_BLOCK, 2 * MB, &bytes),
                   six); /* the largest */
  assert_int_equal(bytes, 6 * MB);
  assert_null(kit_free_list_take(&spares, KIT_FREE_BLOCK, 3 * MB, &bytes)); /* 4 are no multiple */
  bytes = 3 * MB;
  assert_null(kit_free_list_take(&spares, KIT_FREE_BLOCK, MB, &bytes));
  assert_true(kit_free_list_put(&spares, KIT_FREE_BLOCK, large, 60 * MB));
  assert_false(kit_free_list_put(&spares, KIT_FREE_BLOCK, six, 6 * MB));
  assert_int_equal(kit_free_list_drop(&spares), KIT_FREE_BYTES);
  assert_int_equal(kit_free_list_drop(&spares), 0);
  void *buffer = NULL;
  assert_int_equal(kit_buffer_alloc(0, MB, &buffer, NULL), 0);
  assert_true(kit_free_list_put(&spares, KIT_FREE_BUFFER, buffer, bytes = MB));
  assert_null(kit_free_list_take(&spares, KIT_FREE_BLOCK, MB, &bytes));
  assert_ptr_equal(kit_free_list_take(&spares, KIT_FREE_BUFFER, MB, &bytes), buffer);
  assert_true(kit_free_list_put(&spares, KIT_FREE_BUFFER, buffer, MB));
  assert_int_equal(kit_free_list_drop(&spares), MB);
  free(six);
}

/* y of `rows` rows in a session of its own. */
static int32_t run_wide(bench *b, int32_t rows, float *y) {
  static float x[LONGEST * WIDE];
  for (int32_t i = 0; i < rows * WIDE; i++) x[i] = cell(1, i / WIDE, i % WIDE);
  accel_plugin_view in[2] = {toy_view(ACCEL_PLUGIN_I32, &rows, 1, 1, 0),
                             toy_view(ACCEL_PLUGIN_F32, x, 2, rows, WIDE)},
                    out[2] = {{.size = sizeof out[0], .host = y, .capacity = sizeof x},
                              {.size = sizeof out[0]}};
  accel_plugin_run run = {
      .size = sizeof run, .host = &b->host.host, .sequence = (int32_t[]){1}, .n_sequence = 1};
  accel_plugin_session *s;
  assert_int_equal(kit_session_new(b->e, &s, &b->error), 0);
  const int32_t rc = kit_handler(b->e, s, &run, in, 2, out, 2, &b->error);
  kit_session_free(s);
  return rc;
}

/* Pages that sessions have left serve the next ones, alone and beside new ones, and are given up
 * where a limit asks. */
static void sessions_leave_pages(void **state) {
  (void)state;
  static float right[LONGEST * WIDE], y[LONGEST * WIDE];
  bench b;
  open_bench(&b, &toy, kv_program_of(WIDE), 2, 0);
  assert_int_equal(run_wide(&b, LONGEST, right), 0);
  assert_int_equal(kit_trim(b.e, NULL, NULL), 0);
  kit_memory *m = &b.e->memory;
  for (int i = 0; i < 3; i++) { /* rows see the same whatever follows them */
    const int32_t rows = (int32_t[]){300, 300, LONGEST}[i];
    assert_int_equal(run_wide(&b, rows, y), 0);
    assert_memory_equal(y, right, (size_t)rows * WIDE * sizeof *y);
    assert_int_equal(m->free_list.bytes,
                     (uint64_t)(rows + KIT_PAGE_ROWS - 1) / KIT_PAGE_ROWS * 2 * MB);
  }
  uint64_t released = 0;
  m->limit = m->weights + atomic_load(&m->taken) + MB;
  /* one page, for which the spares are too large: beside them it passes it */
  assert_int_equal(run_wide(&b, 200, y), 0);
  assert_memory_equal(y, right, 200 * WIDE * sizeof *y);
  assert_int_equal(m->free_list.bytes, 2 * MB); /* that page */
  assert_int_equal(kit_trim(b.e, &released, NULL), 0);
  assert_true(released >= 2 * MB);
  assert_int_equal(atomic_load(&m->taken), 0);
  close_bench(&b);
}

/* So do large vectors of states; what lies in wait counts as taken, what is in use does not. */
static void sequences_leave_vectors(void **state) {
  (void)state;
  for (int k = 0; k < 2; k++) {
    bench b;
    kit_slot large = {.elements = MB / 4}, other = {.elements = MB / 2}, small = {.elements = 1000};
    open_bench(&b, all_backends[k], conv_program(), 1, 0);
    kit_memory *m = &b.e->memory;
    const uint64_t before = atomic_load(&m->taken), kept = k == 0 ? MB : 0; /* in host memory */
    assert_int_equal(kit_vector_new(b.e, large.elements, &large.current, &b.error), 0);
    assert_int_equal(kit_vector_new(b.e, small.elements, &small.current, &b.error), 0);
    const void *first = large.current;
    kit_slot_clear(b.e, &small);
    assert_int_equal(m->free_list.bytes, 0);
    kit_slot_clear(b.e, &large);
    assert_int_equal(m->free_list.bytes, kept);
    assert_int_equal(atomic_load(&m->taken), before + kept);
    assert_int_equal(kit_vector_new(b.e, other.elements, &other.current, &b.error), 0);
    assert_int_equal(m->free_list.bytes, kept); /* of another size */
    large.elements = MB / 4;
    assert_int_equal(kit_vector_new(b.e, large.elements, &large.current, &b.error), 0);
    if (kept) assert_ptr_equal(large.current, first);
    assert_int_equal(atomic_load(&m->taken), before);
    m->limit = m->weights + before + MB / 2; /* there is no room for it to wait */
    kit_slot_clear(b.e, &large);
    assert_int_equal(m->free_list.bytes, 0);
    kit_slot_clear(b.e, &other);
    assert_int_equal(atomic_load(&m->taken), before);
    close_bench(&b);
  }
  assert_int_equal(live_buffers, 0);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(append_in_parts),      cmocka_unit_test(failures_leave_no_trace),
      cmocka_unit_test(truncate_and_copy),    cmocka_unit_test(export_and_import),
      cmocka_unit_test(vectors_carry_over),   cmocka_unit_test(spare_rooms),
      cmocka_unit_test(sessions_leave_pages), cmocka_unit_test(sequences_leave_vectors)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
