/* hardware_builtin_test.c - plugins that are linked in: found without a file, before all files,
 * checked and self-tested like one that was loaded. */
#include "stubs/machine.h"

#include <dlfcn.h>

#include "hardware/builtin.h"
#include "hardware/hardware_internal.h"

/* The stub's own table, as if its code were here. */
static const accel_plugin *query_good(const accel_plugin_host *host, uint32_t abi) {
  accel_plugin_query_fn query = NULL;
  void *library = dlopen(STUBS "/plugins/libaccel_good.so", RTLD_NOW | RTLD_LOCAL);
  assert_non_null(library);
  void *symbol = dlsym(library, ACCEL_PLUGIN_QUERY_SYMBOL);
  memcpy(&query, &symbol, sizeof query);
  return query(host, abi);
}

/* One of another release. */
static const accel_plugin *query_none(const accel_plugin_host *host, uint32_t abi) {
  (void)host;
  (void)abi;
  return NULL;
}

/* In the place of the library's own, which is empty in this build. */
const accel__builtin *accel__builtin_plugins(void) {
  static const accel__builtin list[] = {{"good", query_good}, {"old", query_none}, {NULL, NULL}};
  return list;
}

static void built_in_plugins_come_first(void **state) {
  machine m = machine_new();
  accel__hardware *h = NULL;
  char folder[512], file[512];
  accel__hardware_params params = {.plugin_path = folder, .root = m.root, .probe_timeout_ms = 3000};
  (void)state;
  machine_link_plugin(&m, "one", "plugins/libaccel_good.so", "libaccel_good.so");
  snprintf(folder, sizeof folder, "%s/one", m.root);
  snprintf(file, sizeof file, "%s/one/libaccel_good.so", m.root);
  assert_int_equal(accel__hardware_create(&params, &h), ACCEL_OK);
  cJSON *report = machine_report(h);
  const cJSON *plugins = cJSON_GetObjectItemCaseSensitive(report, "plugins");
  const cJSON *inside = report_find(plugins, "path", "built-in:good"),
              *old = report_find(plugins, "path", "built-in:old"),
              *outside = report_find(plugins, "path", file),
              *device = report_device(report, "good");
  assert_non_null(inside);
  assert_string_equal(report_text(inside, "verdict"), "good");
  assert_string_equal(report_text(inside, "opened"), "in this process");
  assert_string_equal(report_text(old, "verdict"), "abi");
  assert_has(report_text(old, "reason"), "use plugins of this release");
  assert_non_null(outside);
  assert_string_not_equal(report_text(outside, "verdict"), "good");
  assert_true(report_true(device, "usable"));
  assert_string_equal(report_text(cJSON_GetObjectItem(device, "self_test"), "fp32"), "pass");
  accel__choice choice;
  assert_int_equal(accel__hardware_choose(h, "good", &choice), ACCEL_OK);
  assert_string_equal(choice.device[0]->plugin_path, "built-in:good");
  accel__choice_free(&choice);
  cJSON_Delete(report);
  accel__hardware_destroy(&h);
  machine_free(&m);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(built_in_plugins_come_first)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
