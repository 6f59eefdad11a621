/* hardware_loader_test.c - plugin files good and bad: every verdict, the search order, the
 * self-test, missing and failing helpers. */
#include "stubs/machine.h"

#include <dlfcn.h>
#include <pthread.h>

#include "core/config.h"
#include "hardware/handshake.h"
#include "hardware/hardware_internal.h"

static accel__hardware *quick_hardware(const machine *m, const char *plugin_path) {
  accel__hardware *h = NULL;
  accel__hardware_params params = {.plugin_path = plugin_path,
                                   .probe = ACCEL_TEST_BUILD "/libexec/accel/accel-probe",
                                   .root = m->root,
                                   .probe_timeout_ms = 3000};
  assert_int_equal(accel__hardware_create(&params, &h), ACCEL_OK);
  return h;
}

static const cJSON *plugin_row(const cJSON *report, const char *file) {
  char path[512];
  snprintf(path, sizeof path, "%s/plugins/libaccel_%s.so", STUBS, file);
  const cJSON *row = report_find(cJSON_GetObjectItemCaseSensitive(report, "plugins"), "path", path);
  if (!row) fail_msg("no row for %s", path);
  return row;
}

/* Detection survives all of them and says of each what is wrong. */
static void every_bad_plugin_has_its_verdict(void **state) {
  static const struct {
    const char *file, *verdict, *reason;
  } want[] = {{"good", "good", ""},
              {"abi", "abi", "interface 99.0"},
              {"short", "table", "bytes"},
              {"symbol", "no-symbol", "accel_plugin_query"},
              {"crash", "crashed", "opening the plugin"},
              {"hang", "hung", "asking for its devices"},
              {"mix", "sanitizer", "use plugins of the same build"},
              {"slot", "table", "handler"},
              {"garbage", "devices", "not text"},
              {"liar", "good", ""},
              {"faker", "good", ""},
              {"late", "good", ""}};
  machine m = machine_new();
  accel__hardware *h = quick_hardware(&m, STUBS "/plugins");
  cJSON *report = machine_report(h);
  (void)state;
  for (size_t i = 0; i < sizeof want / sizeof *want; i++) {
    const cJSON *row = plugin_row(report, want[i].file);
    if (strcmp(report_text(row, "verdict"), want[i].verdict))
      fail_msg("%s: verdict %s (%s), expected %s", want[i].file, report_text(row, "verdict"),
               report_text(row, "reason"), want[i].verdict);
    assert_has(report_text(row, "reason"), want[i].reason);
  }
  const cJSON *good = report_device(report, "good"), *liar = report_device(report, "liar"),
              *faker = report_device(report, "faker");
  const cJSON *late = report_device(report, "late");
  assert_true(report_true(good, "usable"));
  assert_string_equal(report_text(cJSON_GetObjectItem(good, "self_test"), "fp32"), "pass");
  assert_has(report_text(cJSON_GetObjectItem(good, "self_test"), "fp16"), "fp32 alone");
  assert_false(report_true(liar, "usable"));
  assert_has(report_text(liar, "reason"), "computes wrong numbers");
  /* outputs left as they were are NaN */
  assert_has(report_text(faker, "reason"), "computes wrong numbers");
  assert_has(report_text(late, "reason"), "running the self-test");
  assert_true(report_true(late, "found"));
  assert_false(report_true(late, "tested"));
  cJSON_Delete(report);
  accel__hardware_destroy(&h);
  machine_free(&m);
}

static void a_failed_self_test_quarantines(void **state) {
  machine m = machine_new();
  accel__hardware *h = quick_hardware(&m, STUBS "/plugins");
  accel__choice choice;
  (void)state;
  assert_int_equal(accel__hardware_choose(h, "liar", &choice), ACCEL_OK);
  assert_int_equal(choice.n, 1);
  accel__device *device = choice.device[0];
  assert_int_equal(device->info.tested, -1);
  assert_int_equal(accel__device_test(h, device), ACCEL_ERROR_DEVICE_UNAVAILABLE);
  assert_has(accel__message(), "computes wrong numbers");
  assert_int_equal(device->info.tested, 0);
  assert_int_equal(device->info.usable, 0);
  /* the verdict is kept */
  assert_int_equal(accel__device_test(h, device), ACCEL_ERROR_DEVICE_UNAVAILABLE);
  accel__choice_free(&choice);
  assert_int_equal(accel__hardware_choose(h, "liar", &choice), ACCEL_ERROR_DEVICE_UNAVAILABLE);
  assert_int_equal(choice.n, 0);
  assert_true(choice.n_reasons > 0);
  assert_has(choice.reason[0], "liar: it computes wrong numbers");
  accel__choice_free(&choice);
  assert_int_equal(accel__hardware_choose(h, "good", &choice), ACCEL_OK);
  assert_int_equal(accel__device_test(h, choice.device[0]), ACCEL_OK);
  assert_int_equal(choice.device[0]->info.usable, 1);
  assert_non_null(choice.device[0]->plugin);
  assert_int_equal(accel__device_test_precision(h, choice.device[0], "half"),
                   ACCEL_ERROR_PRECISION);
  assert_int_equal(accel__device_test_precision(h, choice.device[0], "fp16"),
                   ACCEL_ERROR_PRECISION);
  assert_has(accel__message(), "fp32 alone");
  accel_plugin_memory memory;
  assert_int_equal(accel__device_memory(h, choice.device[0], &memory), ACCEL_OK);
  assert_int_equal(memory.total, (uint64_t)8 << 30);
  accel__choice_free(&choice);
  accel__hardware_destroy(&h);
  machine_free(&m);
}

static void the_first_plugin_of_a_name_wins(void **state) {
  machine m = machine_new();
  char path[512], first[512];
  (void)state;
  machine_link_plugin(&m, "one", "plugins/libaccel_good.so", "libaccel_good.so");
  machine_link_plugin(&m, "two", "plugins/libaccel_good.so", "libaccel_good.so");
  machine_link_plugin(&m, "two", "plugins/libaccel_good.so", "good.so"); /* not of the pattern */
  machine_write(&m, "two/libaccel_text.so", "this is no shared object\n");
  snprintf(path, sizeof path, "%s/nowhere:%s/one::%s/two", m.root, m.root, m.root);
  snprintf(first, sizeof first, "%s/one/libaccel_good.so", m.root);
  accel__hardware *h = quick_hardware(&m, path);
  accel__choice choice;
  assert_int_equal(accel__hardware_choose(h, "GOOD", &choice), ACCEL_OK);
  assert_int_equal(choice.n, 1);
  assert_string_equal(choice.device[0]->plugin_path, first);
  accel__choice_free(&choice);
  cJSON *report = machine_report(h);
  const cJSON *rows = cJSON_GetObjectItem(report, "plugins");
  assert_int_equal(cJSON_GetArraySize(rows), 4);
  assert_string_equal(report_text(cJSON_GetArrayItem(rows, 0), "verdict"), "absent");
  assert_string_equal(report_text(cJSON_GetArrayItem(rows, 1), "verdict"), "good");
  assert_string_equal(report_text(cJSON_GetArrayItem(rows, 2), "verdict"), "shadowed");
  assert_string_equal(report_text(cJSON_GetArrayItem(rows, 3), "verdict"), "dlopen");
  /* the loader's own sentence */
  assert_true(strlen(report_text(cJSON_GetArrayItem(rows, 3), "reason")) > 10);
  cJSON_Delete(report);
  accel__hardware_destroy(&h);
  machine_free(&m);
}

static void the_current_directory_is_never_searched(void **state) {
  machine m = machine_new();
  char before[512];
  accel__choice choice;
  (void)state;
  assert_non_null(getcwd(before, sizeof before));
  assert_int_equal(chdir(STUBS "/plugins"), 0);
  accel__hardware *h = quick_hardware(&m, ":");
  assert_int_equal(accel__hardware_choose(h, "good", &choice), ACCEL_ERROR_ARGUMENT);
  accel__choice_free(&choice);
  accel__hardware_destroy(&h);
  assert_int_equal(chdir(before), 0);
  machine_free(&m);
}

static void the_environment_names_the_path(void **state) {
  machine m = machine_new();
  accel__choice choice;
  (void)state;
  setenv("ACCEL_PLUGIN_PATH", STUBS "/plugins", 1);
  setenv("ACCEL_PROBE", ACCEL_TEST_BUILD "/libexec/accel/accel-probe", 1);
  accel__hardware *h = NULL;
  assert_int_equal(accel__hardware_create(NULL, &h), ACCEL_OK);
  assert_int_equal(accel__hardware_choose(h, "good", &choice), ACCEL_OK);
  accel__choice_free(&choice);
  accel__hardware_destroy(&h);
  setenv("ACCEL_PROBE", "/nonexistent/accel-probe", 1);
  assert_int_equal(accel__hardware_create(NULL, &h), ACCEL_OK);
  assert_int_equal(accel__hardware_choose(h, "good", &choice), ACCEL_ERROR_DEVICE_UNAVAILABLE);
  assert_has(accel__message(), "ACCEL_PROBE names /nonexistent/accel-probe");
  accel__choice_free(&choice);
  accel__hardware_destroy(&h);
  machine_free(&m);
}

/* The processor's plugin touches no driver: no helper is started for it, whatever the helper would
 * do. */
static void the_cpu_starts_no_process(void **state) {
  machine m = machine_new();
  char probe[128], marker[128];
  accel__choice choice;
  (void)state;
  machine_write(&m, "probe", "#!/bin/sh\ntouch %s/marker\n", m.root);
  snprintf(probe, sizeof probe, "%s/probe", m.root);
  snprintf(marker, sizeof marker, "%s/marker", m.root);
  assert_int_equal(chmod(probe, 0755), 0);
  accel__hardware_params params = {.plugin_path = STUBS "/gpus", .probe = probe, .root = m.root};
  accel__hardware *h = NULL;
  assert_int_equal(accel__hardware_create(&params, &h), ACCEL_OK);
  assert_int_equal(accel__hardware_choose(h, NULL, &choice), ACCEL_OK);
  assert_int_equal(choice.n, 1);
  assert_string_equal(choice.device[0]->info.name, "cpu");
  assert_string_equal(choice.device[0]->info.hardware, "cpu");
  assert_int_equal(accel__device_test(h, choice.device[0]), ACCEL_OK);
  accel__choice_free(&choice);
  assert_int_not_equal(access(marker, F_OK), 0);
  assert_int_equal(accel__hardware_choose(h, "npu", &choice),
                   ACCEL_ERROR_DEVICE_UNAVAILABLE); /* this one does ask it, and gets no answer */
  assert_has(accel__message(), "ended the probe");
  assert_int_equal(access(marker, F_OK), 0);
  accel__choice_free(&choice);
  accel__hardware_destroy(&h);
  machine_free(&m);
}

static void faults_can_be_injected(void **state) {
  machine m = machine_new();
  accel__choice choice;
  (void)state;
  accel__fault_arm("plugin_missing");
  accel__hardware *h = quick_hardware(&m, STUBS "/plugins");
  assert_int_equal(accel__hardware_choose(h, "cpu", &choice), ACCEL_ERROR_DEVICE_UNAVAILABLE);
  assert_has(accel__message(), "no plugin for it");
  accel__choice_free(&choice);
  accel__hardware_destroy(&h);
  accel__fault_arm("plugin_abi");
  h = quick_hardware(&m, STUBS "/gpus");
  assert_int_equal(accel__hardware_choose(h, "cpu", &choice), ACCEL_ERROR_DEVICE_UNAVAILABLE);
  assert_has(accel__message(), "ABI mismatch");
  accel__choice_free(&choice);
  accel__hardware_destroy(&h);
  accel__fault_arm(NULL);
  machine_free(&m);
}

/* Memory refused at any point is an error of that name, and nothing is lost. */
static void refused_memory_is_an_error(void **state) {
  machine m = machine_new();
  accel_status status = ACCEL_ERROR_OUT_OF_MEMORY;
  int n = 1;
  (void)state;
  for (; status == ACCEL_ERROR_OUT_OF_MEMORY && n < 1000; n++) {
    char point[32];
    accel__hardware *h = NULL;
    accel__choice choice = {0};
    accel__hardware_params params = {.plugin_path = STUBS "/gpus", .root = m.root};
    snprintf(point, sizeof point, "allocation:%d", n);
    accel__fault_arm(point);
    status = accel__hardware_create(&params, &h);
    if (status == ACCEL_OK) status = accel__hardware_choose(h, "cpu", &choice);
    if (status == ACCEL_OK) status = accel__device_test(h, choice.device[0]);
    accel__fault_arm(NULL);
    accel__choice_free(&choice);
    accel__hardware_destroy(&h);
  }
  assert_int_equal(status, ACCEL_OK); /* once the point lies behind all allocations */
  assert_true(n > 10);
  machine_free(&m);
}

/* ---- the table's negotiation, without files ---- */

static const accel_plugin *good_table(void) {
  void *library = dlopen(STUBS "/plugins/libaccel_good.so", RTLD_NOW | RTLD_LOCAL);
  assert_non_null(library);
  accel_plugin_query_fn query;
  void *symbol = dlsym(library, ACCEL_PLUGIN_QUERY_SYMBOL);
  memcpy(&query, &symbol, sizeof query);
  return query(NULL, ACCEL_PLUGIN_ABI_NOW);
}

static void tables_are_negotiated(void **state) {
  union { /* a table of the future: bytes beyond what we know */
    accel_plugin table;
    char bytes[sizeof(accel_plugin) + 64];
  } big;
  accel_plugin out;
  char why[256];
  (void)state;
  memset(&big, 0xee, sizeof big);
  big.table = *good_table();
  big.table.size = sizeof big;
  assert_int_equal(accel__check_table(&big.table, &out, why, sizeof why), ACCEL__VERDICT_GOOD);
  assert_int_equal(out.size, sizeof out);
  assert_null(out.trim);

  /* the oldest that may be: what follows is not read */
  big.table.size = offsetof(accel_plugin, trim);
  memset((char *)&big.table + offsetof(accel_plugin, trim), 0xee,
         sizeof big.table - offsetof(accel_plugin, trim));
  assert_int_equal(accel__check_table(&big.table, &out, why, sizeof why), ACCEL__VERDICT_GOOD);
  assert_null(out.session_new);
  assert_null(out.wait);

  big.table.size -= 1;
  assert_int_equal(accel__check_table(&big.table, &out, why, sizeof why), ACCEL__VERDICT_TABLE);
  assert_int_equal(accel__check_table(NULL, &out, why, sizeof why), ACCEL__VERDICT_ABI);
  big.table = *good_table();
  big.table.abi = ACCEL_PLUGIN_ABI_NOW + 1;
  assert_int_equal(accel__check_table(&big.table, &out, why, sizeof why), ACCEL__VERDICT_ABI);
  big.table = *good_table();
  big.table.name = "Bad Name";
  assert_int_equal(accel__check_table(&big.table, &out, why, sizeof why), ACCEL__VERDICT_TABLE);
  big.table = *good_table();
  big.table.sanitizer = 2 - ACCEL_SANITIZER / 2;
  assert_int_equal(accel__check_table(&big.table, &out, why, sizeof why), ACCEL__VERDICT_SANITIZER);
}

static void the_self_test_tells_right_from_wrong(void **state) {
  accel_plugin good, liar;
  char why[512];
  (void)state;
  assert_int_equal(
      accel__handshake(STUBS "/plugins/libaccel_good.so", NULL, &good, why, sizeof why),
      ACCEL__VERDICT_GOOD);
  assert_int_equal(accel__selftest(&good, 0, "fp32", NULL, why, sizeof why), ACCEL__PROOF_PASS);
  assert_string_equal(why, "");
  assert_int_equal(accel__selftest(&good, 0, "bf16", NULL, why, sizeof why),
                   ACCEL__PROOF_INCAPABLE);
  assert_int_equal(accel__selftest(&good, 0, "int8", NULL, why, sizeof why),
                   ACCEL__PROOF_INCAPABLE);
  assert_int_equal(accel__selftest(&good, 0, "int3", NULL, why, sizeof why), ACCEL__PROOF_UNKNOWN);
  assert_int_equal(
      accel__handshake(STUBS "/plugins/libaccel_liar.so", NULL, &liar, why, sizeof why),
      ACCEL__VERDICT_GOOD);
  assert_int_equal(accel__selftest(&liar, 0, "fp32", NULL, why, sizeof why), ACCEL__PROOF_WRONG);
  assert_has(why, "linear output["); /* the stub falsifies its last column */
}

static accel_status test_bent(const char *bent, const accel__cache *cache, char *why, size_t n) {
  machine m = machine_new();
  accel__hardware *h = NULL;
  accel__choice choice;
  accel__hardware_params params = {.plugin_path = STUBS "/bent",
                                   .probe = ACCEL_TEST_BUILD "/libexec/accel/accel-probe",
                                   .root = m.root,
                                   .cache = cache};
  setenv("STUB_BENT_PATH", ACCEL_TEST_PLUGINS "/libaccel_reference.so", 1);
  setenv("STUB_BENT", bent, 1);
  assert_int_equal(accel__hardware_create(&params, &h), ACCEL_OK);
  assert_int_equal(accel__hardware_choose(h, "rocm", &choice), ACCEL_OK);
  const accel_status status = accel__device_test(h, choice.device[0]);
  snprintf(why, n, "%s", status == ACCEL_OK ? "" : accel__message());
  accel__choice_free(&choice);
  accel__hardware_destroy(&h);
  machine_free(&m);
  unsetenv("STUB_BENT");
  return status;
}

/* One kernel that is off by a hundredth in one element is found, whichever it is, and named. */
static void a_wrong_kernel_is_found(void **state) {
  static const char *const kernels[] = {
      "attention.plain",      "rope.half",      "conv.rows_causal", "moe.plain",
      "matmul.trans_b_scale", "norm.rms_gemma", "gather.rows"};
  char why[512];
  (void)state;
  assert_int_equal(test_bent("", NULL, why, sizeof why), ACCEL_OK);
  for (size_t i = 0; i < sizeof kernels / sizeof *kernels; i++) {
    assert_int_equal(test_bent(kernels[i], NULL, why, sizeof why), ACCEL_ERROR_DEVICE_UNAVAILABLE);
    assert_has(why, "computes wrong numbers");
    assert_has(why, kernels[i]);
  }
  assert_int_equal(test_bent("init", NULL, why, sizeof why), ACCEL_ERROR_DEVICE_UNAVAILABLE);
  assert_has(why, "error 209");
}

/* A verdict is kept between contexts: with the kernel mended (or broken) behind its back nothing
 * changes until the plugin, the driver or the hour does. */
static void verdicts_are_kept(void **state) {
  machine m = machine_new();
  char directory[256], why[512];
  uint32_t n;
  (void)state;
  snprintf(directory, sizeof directory, "%s/cache", m.root);
  const accel__cache cache = {.directory = directory};
  assert_int_equal(test_bent("rope.half", &cache, why, sizeof why), ACCEL_ERROR_DEVICE_UNAVAILABLE);
  assert_int_equal(test_bent("", &cache, why, sizeof why), ACCEL_ERROR_DEVICE_UNAVAILABLE);
  assert_has(why, "rope.half");
  assert_has(why, "tried again after an hour");
  assert_int_equal(accel__cache_prune(&cache, 0, &n, NULL), ACCEL_OK);
  assert_int_equal(n, 1);
  assert_int_equal(test_bent("", &cache, why, sizeof why), ACCEL_OK);
  /* it passed, and nothing has changed */
  assert_int_equal(test_bent("rope.half", &cache, why, sizeof why), ACCEL_OK);
  machine_free(&m);
}

static void text_of_drivers_is_cleaned(void **state) {
  char out[8];
  (void)state;
  accel__clean_copy(out, sizeof out, "a\nb\xff", 4);
  assert_string_equal(out, "a?b?");
  /* a letter of two bytes is not cut in half */
  accel__clean_copy(out, sizeof out, "abcdef\xc3\xa9", 8);
  assert_string_equal(out, "abcdef");
  accel__clean_copy(out, sizeof out, "abc", 2);
  assert_string_equal(out, "ab");
}

/* ---- spawning ---- */

static void spawning_reports_what_happened(void **state) {
  accel__spawned s;
  (void)state;
  assert_int_equal(
      accel__spawn((const char *const[]){"/bin/sh", "-c", "echo out; echo err >&2; exit 7", NULL},
                   5000, &s),
      ACCEL_OK);
  assert_string_equal(s.out.data, "out\n");
  assert_string_equal(s.err.data, "err\n");
  assert_int_equal(s.exit_code, 7);
  accel__spawned_free(&s);
  assert_int_equal(
      accel__spawn((const char *const[]){"/bin/sh", "-c", "kill -SEGV $$", NULL}, 5000, &s),
      ACCEL_OK);
  assert_int_equal(s.signal, 11);
  accel__spawned_free(&s);
  /* Its child holds the pipe and sleeps on: both must go. */
  assert_int_equal(
      accel__spawn((const char *const[]){"/bin/sh", "-c", "sleep 100 & echo $!; wait", NULL}, 300,
                   &s),
      ACCEL_OK);
  assert_true(s.timed_out);
  int child = atoi(s.out.data);
  assert_true(child > 1);
  char path[64], stat_line[256] = "";
  snprintf(path, sizeof path, "/proc/%d/stat", child);
  /* gone, or a zombie that init has not taken yet */
  for (int i = 0; i < 200 && access(path, F_OK) == 0; i++) {
    FILE *f = fopen(path, "r");
    if (f && fgets(stat_line, sizeof stat_line, f) && strstr(stat_line, ") Z")) i = 200;
    if (f) fclose(f);
    usleep(10000);
  }
  assert_true(access(path, F_OK) != 0 || strstr(stat_line, ") Z"));
  accel__spawned_free(&s);
  assert_int_equal(accel__spawn((const char *const[]){"no-such-program-of-accel", NULL}, 1000, &s),
                   ACCEL_ERROR_NOT_FOUND);
  accel__spawned_free(&s);
}

/* Past the limit: one that computes all the time is stopped, one that gets little of a processor is
 * waited for, at most six times as long. */
static void a_slow_machine_is_not_a_hung_driver(void **state) {
  static const char *const
      spin = "while :; do :; done",
      *const rests =
          "for i in 1 2 3 4 5 6 7 8 9 10; do j=0; while [ $j -lt 9000 ]; do j=$((j+1)); done; "
          "sleep 0.07; done; echo done";
  accel__spawned s;
  (void)state;
  assert_int_equal(accel__spawn((const char *const[]){"/bin/sh", "-c", spin, NULL}, 200, &s),
                   ACCEL_OK);
  assert_true(s.timed_out);
  assert_in_range(s.waited_ms, 200, 3000);
  accel__spawned_free(&s);
  assert_int_equal(accel__spawn((const char *const[]){"/bin/sh", "-c", rests, NULL}, 500, &s),
                   ACCEL_OK);
  assert_false(s.timed_out);
  assert_string_equal(s.out.data, "done\n");
  assert_true(s.waited_ms > 500);
  accel__spawned_free(&s);
}

/* ---- threads ---- */

static void *choose_often(void *user) {
  accel__hardware *h = user;
  for (int i = 0; i < 20; i++) {
    accel__choice choice;
    if (accel__hardware_choose(h, "good,cpu", &choice) != ACCEL_OK) return (void *)1;
    if (accel__device_test(h, choice.device[0]) != ACCEL_OK) return (void *)1;
    accel__choice_free(&choice);
  }
  return NULL;
}

static void threads_may_share_it(void **state) {
  machine m = machine_new();
  accel__hardware *h = machine_hardware(&m, STUBS "/plugins");
  pthread_t thread[4];
  (void)state;
  for (int i = 0; i < 4; i++)
    assert_int_equal(pthread_create(&thread[i], NULL, choose_often, h), 0);
  for (int i = 0; i < 4; i++) {
    void *result = NULL;
    pthread_join(thread[i], &result);
    assert_null(result);
  }
  accel__hardware_destroy(&h);
  machine_free(&m);
}

/* Devices handed out stay valid when detection looks again. */
static void a_refresh_keeps_old_devices(void **state) {
  machine m = machine_new();
  accel__hardware *h = quick_hardware(&m, STUBS "/gpus");
  accel__choice choice;
  accel_devices *devices = NULL;
  (void)state;
  setenv("STUB_VULKAN_DEVICES", "discrete;0000:03:00.0;Card;x;", 1);
  assert_int_equal(accel__hardware_choose(h, "vulkan:0", &choice), ACCEL_OK);
  accel__device *before = choice.device[0];
  accel__choice_free(&choice);
  assert_int_equal(accel__hardware_detect(h, true, &devices), ACCEL_OK);
  assert_string_equal(before->info.description, "Card");
  assert_non_null(before->plugin->handler);
  uint32_t seen = 0;
  for (uint32_t i = 0; i < devices->n; i++)
    seen += !strcmp(devices->item[i].name, "vulkan:0") && devices->item[i].usable;
  assert_int_equal(seen, 1);
  accel__devices_free(&devices);
  assert_null(devices);
  accel__hardware_destroy(&h);
  assert_null(h);
  machine_free(&m);
}

/* A container's memory limit counts for devices in main memory, in the list and when asked. */
static void a_cgroup_limits_the_memory_of_the_host(void **state) {
  machine m = machine_new();
  accel__choice choice;
  accel_plugin_memory memory;
  accel__hardware *h;
  (void)state;
  machine_write(&m, "proc/meminfo", "MemTotal: 1073741824 kB\nMemAvailable: 1073741824 kB\n");
  h = quick_hardware(&m, ACCEL_TEST_BUILD "/lib/accel/0"); /* no cgroup: what the plugin says */
  assert_int_equal(accel__hardware_choose(h, "cpu", &choice), ACCEL_OK);
  assert_int_equal(accel__device_memory(h, choice.device[0], &memory), ACCEL_OK);
  assert_true(memory.budget > 64 << 20 && memory.budget <= memory.total);
  const uint64_t all = memory.total;
  accel__choice_free(&choice);
  accel__hardware_destroy(&h);

  machine_write(&m, "proc/self/cgroup", "0::/docker/1\n");
  machine_write(&m, "sys/fs/cgroup/memory.max", "67108864\n");
  machine_write(&m, "sys/fs/cgroup/memory.current", "33554432\n");
  machine_write(&m, "sys/fs/cgroup/memory.stat", "anon 5\ninactive_file 8388608\n");
  h = quick_hardware(&m, ACCEL_TEST_BUILD "/lib/accel/0");
  assert_int_equal(accel__hardware_choose(h, "cpu", &choice), ACCEL_OK);
  assert_int_equal(choice.device[0]->info.memory_total, 64 << 20);
  assert_int_equal(choice.device[0]->info.memory_free, 40 << 20);
  assert_int_equal(accel__device_memory(h, choice.device[0], &memory), ACCEL_OK);
  assert_int_equal(memory.total, 64 << 20);
  assert_int_equal(memory.free, 40 << 20);
  assert_int_equal(memory.budget, 40 << 20);
  assert_int_equal(memory.shared_with_host, 64 << 20);
  machine_write(&m, "sys/fs/cgroup/memory.current", "67108864\n"); /* now all is taken */
  machine_write(&m, "sys/fs/cgroup/memory.stat", "inactive_file 0\n");
  assert_int_equal(accel__device_memory(h, choice.device[0], &memory), ACCEL_OK);
  assert_int_equal(memory.budget, 1);                     /* not 0, which is "not known" */
  machine_write(&m, "sys/fs/cgroup/memory.max", "max\n"); /* the limit is lifted */
  assert_int_equal(accel__device_memory(h, choice.device[0], &memory), ACCEL_OK);
  assert_int_equal(memory.total, all);
  accel__choice_free(&choice);
  accel__hardware_destroy(&h);
  machine_free(&m);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(every_bad_plugin_has_its_verdict),
      cmocka_unit_test(a_failed_self_test_quarantines),
      cmocka_unit_test(the_first_plugin_of_a_name_wins),
      cmocka_unit_test(the_current_directory_is_never_searched),
      cmocka_unit_test(the_environment_names_the_path),
      cmocka_unit_test(the_cpu_starts_no_process),
      cmocka_unit_test(faults_can_be_injected),
      cmocka_unit_test(refused_memory_is_an_error),
      cmocka_unit_test(tables_are_negotiated),
      cmocka_unit_test(the_self_test_tells_right_from_wrong),
      cmocka_unit_test(a_wrong_kernel_is_found),
      cmocka_unit_test(verdicts_are_kept),
      cmocka_unit_test(text_of_drivers_is_cleaned),
      cmocka_unit_test(spawning_reports_what_happened),
      cmocka_unit_test(a_slow_machine_is_not_a_hung_driver),
      cmocka_unit_test(threads_may_share_it),
      cmocka_unit_test(a_cgroup_limits_the_memory_of_the_host),
      cmocka_unit_test(a_refresh_keeps_old_devices),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
