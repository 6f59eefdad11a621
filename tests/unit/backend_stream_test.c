/* backend_stream_test.c - weights that do not all stay in memory: which segments stay, and the
 * order in which the others are posted ahead, given up and read again, over a host that only keeps
 * book. */
#include <stdio.h>

#include "backend_helper.h"
#include "formats/bf16.h"
#include "formats/fp16.h"
#include "kit/kit_stream.h"

enum { SLOTS = 4, SEGMENTS = 6 };

/* ---- which stay ---- */

static uint64_t choose(kit_segment *segment, uint32_t n, uint64_t budget) {
  const uint64_t taken = kit_stream_choose(segment, n, budget);
  uint64_t bytes = 0;
  for (uint32_t i = 0; i < n; i++) bytes += segment[i].resident ? segment[i].bytes : 0;
  assert_int_equal(taken, bytes);
  assert_true(taken <= budget);
  return taken;
}

static void test_what_is_used_most_stays(void **state) {
  (void)state;
  kit_segment s[5];
  for (int i = 0; i < 5; i++)
    s[i] = (kit_segment){.bytes = 10, .read = 8, .uses = i == 3 ? 12 : i == 4 ? 0 : 1};
  assert_int_equal(choose(s, 5, 9), 0);
  assert_int_equal(choose(s, 5, 10), 10);
  assert_true(s[3].resident);
  assert_int_equal(kit_stream_read(s, 5), 3 * 8);
  assert_int_equal(choose(s, 5, 40), 40);
  assert_false(s[4].resident); /* not of the entry that is run again and again */
  assert_int_equal(kit_stream_read(s, 5), 0);
  assert_int_equal(choose(s, 5, 1000), 50);
}

static void test_the_others_lie_evenly_between(void **state) {
  (void)state;
  kit_segment s[100];
  for (int i = 0; i < 100; i++) s[i] = (kit_segment){.bytes = 7, .read = 7, .uses = 1};
  assert_int_equal(choose(s, 100, 250), 245);
  for (int i = 0; i < 100; i += 10) {
    int stay = 0;
    for (int k = i; k < i + 10; k++) stay += s[k].resident;
    assert_in_range(stay, 2, 5);
  }
}

/* ---- the queue ---- */

typedef struct book {
  int64_t slot[SLOTS];              /* the first row that was posted; -1: free */
  uint32_t slots, posted, fails_at; /* fails_at: that post fails, counted from 1 */
  int64_t came;                     /* rows up to this one have come */
} book;

static int32_t open_rows(void *self, uint32_t slots, uint64_t bytes, accel_plugin_error *error) {
  (void)bytes, (void)error;
  ((book *)self)->slots = slots;
  for (uint32_t i = 0; i < SLOTS; i++) ((book *)self)->slot[i] = -1;
  return ACCEL_PLUGIN_OK;
}
static int32_t post_rows(void *self, uint32_t slot, uint32_t index, int64_t first, int64_t rows,
                         accel_plugin_error *error) {
  book *b = self;
  (void)index, (void)rows;
  assert_true(slot < b->slots && b->slot[slot] < 0);
  if (++b->posted == b->fails_at) return kit_fail(error, ACCEL_PLUGIN_E_IO, -1, "no such row");
  b->slot[slot] = first;
  return ACCEL_PLUGIN_OK;
}
static int32_t wait_rows(void *self, uint32_t slot, accel_plugin_rows *out,
                         accel_plugin_error *error) {
  (void)error;
  assert_true(((book *)self)->slot[slot] >= 0);
  *out = (accel_plugin_rows){&((book *)self)->slot[slot], ACCEL_PLUGIN_F32};
  return ACCEL_PLUGIN_OK;
}
static void release_rows(void *self, uint32_t slot) { ((book *)self)->slot[slot] = -1; }
static int ready_rows(void *self, uint32_t slot) {
  return ((book *)self)->slot[slot] <= ((book *)self)->came;
}

typedef struct fixture {
  book b;
  accel_plugin_host host;
  kit_segment segment[SEGMENTS];
  accel_plugin_entry entry[2];
  accel_plugin_program program;
  kit_stream *stream;
} fixture;

/* Segment i is made of row 10 i, segment 4 of rows 40 and 41; segment 5 stays. */
static void start(fixture *f) {
  *f = (fixture){.entry = {{.name = "encode"}, {.name = "decode"}}};
  f->program = (accel_plugin_program){.n_entry = 2, .entry = f->entry};
  f->host = (accel_plugin_host){.self = &f->b,
                                .rows_open = open_rows,
                                .rows_post = post_rows,
                                .rows_wait = wait_rows,
                                .rows_release = release_rows,
                                .rows_ready = ready_rows};
  for (uint32_t i = 0; i < SEGMENTS; i++)
    f->segment[i] = (kit_segment){.n_piece = i == 4 ? 2 : 1,
                                  .piece = {{0, 10 * i, 1}, {0, 10 * i + 1, 1}},
                                  .resident = i == 5};
  assert_int_equal(
      kit_stream_open(&f->host, &f->program, f->segment, SLOTS, 0, 64, &f->stream, NULL), 0);
}

static uint32_t used(const book *b) {
  uint32_t n = 0;
  for (uint32_t i = 0; i < SLOTS; i++) n += b->slot[i] >= 0;
  return n;
}
static bool has(const book *b, int64_t row) {
  for (uint32_t i = 0; i < SLOTS; i++)
    if (b->slot[i] == row) return true;
  return false;
}

static void take(fixture *f, uint32_t segment) {
  accel_plugin_rows rows[KIT_PIECES];
  assert_int_equal(kit_stream_take(f->stream, segment, rows, NULL), 0);
  for (uint32_t i = 0; i < f->segment[segment].n_piece; i++)
    assert_int_equal(*(const int64_t *)rows[i].data, 10 * segment + i);
  kit_stream_done(f->stream, segment);
}

static void test_reading_goes_on_into_the_next_run(void **state) {
  (void)state;
  fixture f;
  const uint32_t order[] = {0, 1, 5, 2, 4, 3};
  start(&f);
  for (int run = 0; run < 3; run++) {
    assert_int_equal(kit_stream_begin(f.stream, 1, order, 6, NULL), 0);
    assert_int_equal(used(&f.b), 3); /* 0, 1, 2; segment 4 needs two slots */
    assert_true(has(&f.b, 0) && has(&f.b, 10));
    take(&f, 0);
    take(&f, 1);
    assert_true(has(&f.b, 40) && has(&f.b, 41));
    take(&f, 2);
    take(&f, 4);
    take(&f, 3);
    kit_stream_end(f.stream, true);
    assert_true(has(&f.b, 0) && has(&f.b, 10) && has(&f.b, 20));
    assert_int_equal(f.b.posted, 6 * (run + 1) + 3); /* each once, and those ahead */
  }
  kit_stream_close(f.stream);
}

static void test_another_entry_and_another_order(void **state) {
  (void)state;
  fixture f;
  const uint32_t encode[] = {3, 2}, decode[] = {0, 1}, less[] = {1};
  start(&f);
  for (int i = 0; i < 2; i++) {
    assert_int_equal(kit_stream_begin(f.stream, 0, encode, 2, NULL), 0);
    take(&f, 3);
    take(&f, 2);
    kit_stream_end(f.stream, true);
    assert_int_equal(has(&f.b, 0), i); /* the second time what follows is known */
    assert_int_equal(kit_stream_begin(f.stream, 1, decode, 2, NULL), 0);
    take(&f, 0);
    take(&f, 1);
    kit_stream_end(f.stream, true);
  }
  assert_int_equal(kit_stream_begin(f.stream, 1, less, 1, NULL), 0);
  take(&f, 1);
  kit_stream_end(f.stream, true);
  /* a launch that has nothing to do takes nothing: its segment is passed over */
  assert_int_equal(kit_stream_begin(f.stream, 1, decode, 2, NULL), 0);
  take(&f, 1);
  accel_plugin_rows rows[KIT_PIECES];
  assert_int_equal(kit_stream_take(f.stream, 0, rows, NULL), ACCEL_PLUGIN_E_ARGUMENT);
  kit_stream_end(f.stream, false);
  assert_int_equal(used(&f.b), 0);
  kit_stream_close(f.stream);
}

static void test_what_has_come(void **state) {
  (void)state;
  fixture f;
  const uint32_t order[] = {0, 4, 1};
  start(&f);
  f.b.came = 40;
  assert_int_equal(kit_stream_begin(f.stream, 1, order, 3, NULL), 0);
  assert_true(kit_stream_ready(f.stream, 0));
  assert_false(kit_stream_ready(f.stream, 4)); /* not the next one */
  take(&f, 0);
  assert_false(kit_stream_ready(f.stream, 4)); /* its second piece has not come */
  f.b.came = 41;
  assert_true(kit_stream_ready(f.stream, 4));
  f.host.rows_ready = NULL;
  assert_false(kit_stream_ready(f.stream, 4)); /* nobody can tell */
  kit_stream_end(f.stream, false);
  kit_stream_close(f.stream);
}

static void test_rows_as_other_numbers(void **state) {
  (void)state;
  enum { N = 1001 };
  static float wide[N], back[N];
  static uint16_t half[N];
  for (int i = 0; i < N; i++) wide[i] = (float)(i - 500) / 3.0f;
  kit_rows_convert(ACCEL_PLUGIN_F32, ACCEL_PLUGIN_BF16, false, (const char *)wide, N, (char *)half);
  for (int i = 0; i < N; i++) assert_int_equal(half[i], accel_f32_to_bf16(wide[i]));
  kit_rows_convert(ACCEL_PLUGIN_BF16, ACCEL_PLUGIN_F32, true, (const char *)half, N, (char *)back);
  for (int i = 0; i < N; i++) assert_true(back[i] == accel_bf16_to_f32(half[i]));
  kit_rows_convert(ACCEL_PLUGIN_F32, ACCEL_PLUGIN_F16, true, (const char *)wide, N, (char *)back);
  for (int i = 0; i < N; i++) assert_true(back[i] == accel_fp16_to_f32(accel_f32_to_fp16(wide[i])));
}

static void test_a_failure_gives_all_slots_up(void **state) {
  (void)state;
  for (uint32_t at = 1; at <= 9; at++) {
    fixture f;
    const uint32_t order[] = {0, 1, 4, 2, 3};
    accel_plugin_rows rows[KIT_PIECES];
    start(&f);
    f.b.fails_at = at;
    int32_t rc = kit_stream_begin(f.stream, 1, order, 5, NULL);
    for (uint32_t i = 0; !rc && i < 5; i++) {
      rc = kit_stream_take(f.stream, order[i], rows, NULL);
      if (!rc) kit_stream_done(f.stream, order[i]);
    }
    kit_stream_end(f.stream, !rc);
    assert_true(rc || at > 1); /* one ahead is posted again */
    if (rc) assert_int_equal(used(&f.b), 0);
    assert_int_equal(kit_stream_begin(f.stream, 1, order, 5, NULL), 0);
    for (uint32_t i = 0; i < 5; i++) take(&f, order[i]);
    kit_stream_end(f.stream, true);
    kit_stream_close(f.stream);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_what_is_used_most_stays),
      cmocka_unit_test(test_the_others_lie_evenly_between),
      cmocka_unit_test(test_reading_goes_on_into_the_next_run),
      cmocka_unit_test(test_another_entry_and_another_order),
      cmocka_unit_test(test_what_has_come),
      cmocka_unit_test(test_rows_as_other_numbers),
      cmocka_unit_test(test_a_failure_gives_all_slots_up),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
