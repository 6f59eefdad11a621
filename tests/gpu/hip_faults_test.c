/* hip_faults_test.c - the HIP/CUDA host over a vendor's runtime that fails at any one call: an
 * allocation refused, a launch that fails, a module that does not load, a stream, an event, a
 * copy.  Each is an error with the vendor's number or the bytes, nothing is left behind, and the
 * device serves again afterwards.
 *
 * The runtime is the emulator behind a table of its own, so that the kernels really run; it is no
 * emulator to the host, which treats it as a card: code by the run-time compiler (a stub here),
 * lost devices, streams. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#define hip_plugin_vendor emulated_vendor
#include "hip/hip_emulated.c"
#undef hip_plugin_vendor

#include "hardware/selftest.h"
#include "host_memory.h"

/* ---- the table: every call counted, any one of them failing ---- */

#define CALLS(C)   \
  C(retain)        \
  C(allocate)      \
  C(host_allocate) \
  C(host_address)  \
  C(to_device)     \
  C(from_device)   \
  C(within)        \
  C(stream_new)    \
  C(stream_wait)   \
  C(event_new)     \
  C(event_record)  \
  C(event_ms) C(module_load) C(function) C(launch) C(enter) C(create) C(compile) C(code)
typedef enum call {
#define NUMBER(name) CALL_##name,
  CALLS(NUMBER)
#undef NUMBER
      N_CALLS
} call;
static const char *const call_name[] = {
#define NAME(name) #name,
    CALLS(NAME)
#undef NAME
};
static int called[N_CALLS], live[N_CALLS];
static int fail_call = -1, fail_at, fail_code;
static hip_runtime real;

static int refuse(call c) { return ++called[c] == fail_at && (int)c == fail_call ? fail_code : 0; }

/* Where an allocation ends: the emulator checks kernels' accesses, and a vendor's launch does not
 * tell it the ranges. */
enum { BLOCKS = 256 };
static struct { uint64_t at, bytes; } block[BLOCKS];

static void remember(uint64_t at, uint64_t bytes) {
  for (int i = 0; i < BLOCKS; i++)
    if (!block[i].at) {
      block[i].at = at;
      block[i].bytes = bytes;
      return;
    }
  abort();
}
static void forget(uint64_t at) {
  for (int i = 0; i < BLOCKS; i++)
    if (block[i].at == at) block[i].at = 0;
}
static uint64_t rest_of(uint64_t at) {
  for (int i = 0; i < BLOCKS; i++)
    if (block[i].at && at >= block[i].at && at < block[i].at + block[i].bytes)
      return block[i].at + block[i].bytes - at;
  return 0;
}

static int fake_allocate(uint64_t *address, size_t bytes) {
  int rc = refuse(CALL_allocate);
  if (!rc) rc = real.allocate(address, bytes);
  if (!rc) remember(*address, bytes), live[CALL_allocate]++;
  return rc;
}
static int fake_release(uint64_t address) {
  forget(address);
  live[CALL_allocate]--;
  return real.release(address);
}
static int fake_host_allocate(void **memory, size_t bytes, unsigned flags) {
  int rc = refuse(CALL_host_allocate);
  if (!rc) rc = real.host_allocate(memory, bytes, flags);
  if (!rc) remember((uint64_t)(uintptr_t)*memory, bytes), live[CALL_host_allocate]++;
  return rc;
}
static int fake_host_release(void *memory) {
  forget((uint64_t)(uintptr_t)memory);
  live[CALL_host_allocate]--;
  return real.host_release(memory);
}
static int fake_host_address(uint64_t *address, void *memory, unsigned flags) {
  int rc = refuse(CALL_host_address);
  return rc ? rc : real.host_address(address, memory, flags);
}
static int fake_to_device(uint64_t to, const void *from, size_t bytes, void *s) {
  int rc = refuse(CALL_to_device);
  return rc ? rc : real.to_device(to, from, bytes, s);
}
static int fake_from_device(void *to, uint64_t from, size_t bytes, void *s) {
  int rc = refuse(CALL_from_device);
  return rc ? rc : real.from_device(to, from, bytes, s);
}
static int fake_within(uint64_t to, uint64_t from, size_t bytes, void *s) {
  int rc = refuse(CALL_within);
  return rc ? rc : real.within(to, from, bytes, s);
}
static int fake_stream_new(void **s, unsigned flags) {
  int rc = refuse(CALL_stream_new);
  if (!rc) rc = real.stream_new(s, flags);
  if (!rc) live[CALL_stream_new]++;
  return rc;
}
static int fake_stream_free(void *s) {
  live[CALL_stream_new]--;
  return real.stream_free(s);
}
static int fake_stream_wait(void *s) {
  int rc = refuse(CALL_stream_wait);
  return rc ? rc : real.stream_wait(s);
}
static int fake_event_new(void **event, unsigned flags) {
  int rc = refuse(CALL_event_new);
  if (!rc) rc = real.event_new(event, flags);
  if (!rc) live[CALL_event_new]++;
  return rc;
}
static int fake_event_free(void *event) {
  live[CALL_event_new]--;
  return real.event_free(event);
}
static int fake_event_record(void *event, void *s) {
  int rc = refuse(CALL_event_record);
  return rc ? rc : real.event_record(event, s);
}
static int fake_event_ms(float *ms, void *first, void *last) {
  int rc = refuse(CALL_event_ms);
  return rc ? rc : real.event_ms(ms, first, last);
}
static int fake_module_load(void **module, const void *image) {
  int rc = refuse(CALL_module_load);
  assert_string_equal(image, "code");
  if (rc) return rc;
  *module = __real_malloc(1);
  live[CALL_module_load]++;
  return 0;
}
static int fake_module_free(void *module) {
  __real_free(module);
  live[CALL_module_load]--;
  return 0;
}
static int fake_function(void **out, void *module, const char *name) {
  int rc = refuse(CALL_function);
  return rc ? rc : real.function(out, module, name);
}
static int fake_launch(void *f, unsigned x, unsigned y, unsigned z, unsigned bx, unsigned by,
                       unsigned bz, unsigned shared, void *s, void **arguments, void **extra) {
  const emulated_kernel *k = f;
  uint64_t bytes[GPU_BINDINGS], address;
  int rc = refuse(CALL_launch);
  if (rc) return rc;
  for (uint32_t i = 0; i < k->n_bind; i++) {
    memcpy(&address, arguments[i], sizeof address);
    bytes[i] = rest_of(address);
  }
  real.bounds(s, bytes, k->n_bind, 0);
  return real.launch(f, x, y, z, bx, by, bz, shared, s, arguments, extra);
}
static int fake_retain(int device, void **context) {
  int rc = refuse(CALL_retain);
  if (rc) return rc;
  live[CALL_retain]++;
  return real.retain(device, context);
}
static void fake_drop(int device, void *context) {
  live[CALL_retain]--;
  real.drop(device, context);
}
static int fake_enter(int device, void *context, void **before) {
  int rc = refuse(CALL_enter);
  if (rc) return rc;
  live[CALL_enter]++;
  return real.enter(device, context, before);
}
static void fake_leave(int device, void *before) {
  live[CALL_enter]--;
  real.leave(device, before);
}
static const char *fake_text(int code) {
  return code == HIP_OUT_OF_MEMORY ? "out of memory" : "injected";
}

/* The run-time compiler: its product is a word. */
static int make_program(void **program, const char *source, const char *name, int n,
                        const char **headers, const char **names) {
  (void)name, (void)n, (void)headers, (void)names;
  int rc = refuse(CALL_create);
  assert_true(strlen(source) > 10000);
  if (rc) return rc;
  *program = __real_malloc(1);
  live[CALL_create]++;
  return 0;
}
static int drop_program(void **program) {
  __real_free(*program);
  live[CALL_create]--;
  return 0;
}
static int do_compile(void *program, int n, const char **options) {
  (void)program, (void)n, (void)options;
  return refuse(CALL_compile);
}
static int log_size(void *program, size_t *n) {
  (void)program;
  *n = 6;
  return 0;
}
static int give_log(void *program, char *log) {
  (void)program;
  memcpy(log, "line 1", 6);
  return 0;
}
static int code_size(void *program, size_t *n) {
  (void)program;
  *n = 5;
  return 0;
}
static int give_code(void *program, char *code) {
  (void)program;
  int rc = refuse(CALL_code);
  memcpy(code, "code", 5);
  return rc;
}

static bool fake_load(hip_runtime *r, char *why, size_t n) {
  if (!emulated_vendor.load(&real, why, n)) return false;
  *r = real;
  r->bounds = NULL;
  r->detail = NULL;
  r->allocate = fake_allocate, r->release = fake_release;
  r->host_allocate = fake_host_allocate, r->host_release = fake_host_release,
  r->host_address = fake_host_address;
  r->to_device = fake_to_device, r->from_device = fake_from_device, r->within = fake_within;
  r->stream_new = fake_stream_new, r->stream_free = fake_stream_free,
  r->stream_wait = fake_stream_wait;
  r->event_new = fake_event_new, r->event_free = fake_event_free,
  r->event_record = fake_event_record, r->event_ms = fake_event_ms;
  r->module_load = fake_module_load, r->module_free = fake_module_free, r->function = fake_function,
  r->launch = fake_launch;
  r->retain = fake_retain, r->drop = fake_drop, r->enter = fake_enter, r->leave = fake_leave,
  r->text = fake_text;
  return true;
}
bool hip_rtc_load(const hip_rtc *rtc, hip_compiler *c, char *why, size_t n) {
  (void)rtc, (void)why, (void)n;
  *c = (hip_compiler){.what = "stub compiler",
                      .create = make_program,
                      .destroy = drop_program,
                      .compile = do_compile,
                      .log_size = log_size,
                      .log = give_log,
                      .code_size = code_size,
                      .code = give_code,
                      .text = fake_text};
  return true;
}
const hip_vendor hip_plugin_vendor = {.device_type = ACCEL_PLUGIN_DEVICE_DISCRETE_GPU,
                                      .load = fake_load};

/* ---- the tests ---- */

const accel_plugin *accel_plugin_query(const accel_plugin_host *host, uint32_t core_abi);

static accel__proof run(char *why, size_t n) {
  const accel_plugin *plugin = accel_plugin_query(NULL, ACCEL_PLUGIN_ABI_NOW);
  memset(called, 0, sizeof called);
  return accel__selftest(plugin, 0, "fp16", NULL, why, n);
}

static void nothing_is_left(const char *after) {
  for (int i = 0; i < N_CALLS; i++)
    if (live[i]) fail_msg("%s: %d of %s are left", after, live[i], call_name[i]);
}

static void it_runs_and_leaves_nothing(void **state) {
  char why[512];
  (void)state;
  if (run(why, sizeof why) != ACCEL__PROOF_PASS) fail_msg("%s", why);
  nothing_is_left("a good run");
  assert_true(called[CALL_launch] >= 4 && called[CALL_allocate] >= 1 &&
              called[CALL_module_load] == 1 && called[CALL_compile] == 1);
}

/* What a card is asked before it is used: few enough launches to take no time there. */
static void self_tests_are_a_few_launches(void **state) {
  const accel_plugin *plugin = accel_plugin_query(NULL, ACCEL_PLUGIN_ABI_NOW);
  char why[512];
  (void)state;
  if (run(why, sizeof why) != ACCEL__PROOF_PASS) fail_msg("%s", why);
  const int one = called[CALL_launch];
  memset(called, 0, sizeof called);
  if (accel__selftest_ops(plugin, 0, NULL, why, sizeof why) != ACCEL__PROOF_PASS)
    fail_msg("%s", why);
  print_message("self-test: %d launches a precision, %d of every op\n", one, called[CALL_launch]);
  assert_true(one <= 40 && called[CALL_launch] <= 200);
}

/* What a vendor's library answers at each. */
static int code_for(call c) {
  if (c == CALL_allocate || c == CALL_host_allocate) return HIP_OUT_OF_MEMORY;
  if (c == CALL_launch) return HIP_LAUNCH_FAILURE;
  if (c == CALL_module_load) return HIP_NO_BINARY;
  return 304; /* "OS call failed" */
}

static void every_call_may_fail_once(void **state) {
  char why[512], what[64];
  int count[N_CALLS], tried = 0;
  (void)state;
  (void)run(why, sizeof why);
  memcpy(count, called, sizeof count);
  /* a context that cannot be made current takes its memory along: nothing of ours is told */
  count[CALL_enter] = 0;
  for (int c = 0; c < N_CALLS; c++)
    for (int i = 1; i <= count[c]; i++, tried++) {
      fail_call = c, fail_at = i, fail_code = code_for((call)c);
      const accel__proof proof = run(why, sizeof why);
      fail_call = -1;
      snprintf(what, sizeof what, "%s, call %d", call_name[c], i);
      nothing_is_left(what);
      if (c == CALL_event_ms) { /* the time is not known, and that is all */
        assert_int_equal(proof, ACCEL__PROOF_PASS);
        continue;
      }
      if (proof != ACCEL__PROOF_WRONG) fail_msg("%s: not noticed", what);
      char number[16];
      snprintf(number, sizeof number, "%d", fail_code);
      const bool says = fail_code == HIP_OUT_OF_MEMORY
                            ? strstr(why, "bytes") || strstr(why, "out of memory")
                            : strstr(why, number) || strstr(why, "injected");
      if (!says) fail_msg("%s: '%s' does not tell %s", what, why, number);
      if (run(why, sizeof why) != ACCEL__PROOF_PASS)
        fail_msg("after %s the device does not serve: %s", what, why);
      nothing_is_left("the run after");
    }
  assert_true(tried > 40);
  print_message("%d faults\n", tried);
}

static void out_of_memory_gives_numbers_and_advice(void **state) {
  char why[512];
  (void)state;
  fail_call = CALL_allocate, fail_at = 1, fail_code = HIP_OUT_OF_MEMORY;
  assert_int_equal(run(why, sizeof why), ACCEL__PROOF_WRONG);
  fail_call = -1;
  if (!strstr(why, "bytes") || !strstr(why, "smaller batch")) fail_msg("%s", why);
}

/* Memory of the host, by the plugin's host code, the kit and the emulator behind the runtime. */
static void every_allocation_of_the_host_may_fail(void **state) {
  char why[512], what[64];
  (void)state;
  assert_int_equal(run(why, sizeof why), ACCEL__PROOF_PASS);
  const long before = atomic_load(&host_calls);
  assert_int_equal(run(why, sizeof why), ACCEL__PROOF_PASS);
  const long n = atomic_load(&host_calls) - before, held = atomic_load(&host_live);
  long noticed = 0;
  for (long i = 1; i <= n; i++) {
    snprintf(what, sizeof what, "allocation %ld of the host", i);
    atomic_store(&host_refused, atomic_load(&host_calls) + i);
    const accel__proof proof = run(why, sizeof why);
    atomic_store(&host_refused, -1);
    nothing_is_left(what);
    noticed += proof == ACCEL__PROOF_WRONG;
    /* the runtime's own */
    const bool says = strstr(why, "memory") || strstr(why, "no room for") || strstr(why, "719");
    if (proof == ACCEL__PROOF_WRONG && !says) fail_msg("%s: '%s' does not tell it", what, why);
    if (run(why, sizeof why) != ACCEL__PROOF_PASS)
      fail_msg("after %s the device does not serve: %s", what, why);
    if (atomic_load(&host_live) != held)
      fail_msg("%s: %ld blocks are left", what, atomic_load(&host_live) - held);
  }
  assert_true(noticed > 40);
  print_message("%ld allocations of the host, %ld of them end the run\n", n, noticed);
}

/* A launch failure is the end of a vendor's context: every call says so until the endpoints are
 * closed. */
static void a_lost_device_stays_lost_until_it_is_let_go(void **state) {
  const accel_plugin *plugin = accel_plugin_query(NULL, ACCEL_PLUGIN_ABI_NOW);
  void *buffer, *second;
  accel_plugin_error error = {.size = sizeof error};
  char why[512];
  (void)state;
  /* holds the device */
  assert_int_equal(plugin->buffer_alloc(0, 64, &buffer, &error), ACCEL_PLUGIN_OK);
  fail_call = CALL_launch, fail_at = 2, fail_code = HIP_LAUNCH_FAILURE;
  assert_int_equal(run(why, sizeof why), ACCEL__PROOF_WRONG);
  assert_non_null(strstr(why, "719"));
  fail_call = -1;
  assert_int_equal(plugin->buffer_alloc(0, 64, &second, &error), ACCEL_PLUGIN_E_DEVICE_LOST);
  assert_non_null(strstr(error.message, "lost"));
  assert_int_equal(run(why, sizeof why), ACCEL__PROOF_WRONG);
  plugin->buffer_free(0, buffer);
  nothing_is_left("a lost device");
  if (run(why, sizeof why) != ACCEL__PROOF_PASS) fail_msg("%s", why);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(it_runs_and_leaves_nothing),
                                     cmocka_unit_test(self_tests_are_a_few_launches),
                                     cmocka_unit_test(every_call_may_fail_once),
                                     cmocka_unit_test(every_allocation_of_the_host_may_fail),
                                     cmocka_unit_test(out_of_memory_gives_numbers_and_advice),
                                     cmocka_unit_test(a_lost_device_stays_lost_until_it_is_let_go)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
