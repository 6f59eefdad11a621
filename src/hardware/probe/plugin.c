/* plugin.c - accel-probe asks a plugin: handshake, devices and their memory, self-test. */
#include <stdio.h>
#include <string.h>

#include "hardware/handshake.h"
#include "hardware/probe/probe.h"
#include "hardware/selftest.h"

static void text_field(accel__buffer *b, const char *key, const char *text) {
  accel__buffer_printf(b, "\"%s\":", key);
  accel__buffer_json_string(b, text, strlen(text));
  accel__buffer_text(b, ",");
}

/* JSON numbers are exact to 2^53. */
static void number_field(accel__buffer *b, const char *key, uint64_t value, const char *end) {
  accel__buffer_printf(b, "\"%s\":%llu%s", key,
                       (unsigned long long)(value < (1ull << 53) ? value : 1ull << 53), end);
}

static void silent_log(void *self, int level, const char *message) {
  (void)self, (void)level, (void)message;
}

static accel_plugin_host quiet_host(void) {
  return (accel_plugin_host){
      .size = sizeof(accel_plugin_host), .abi = ACCEL_PLUGIN_ABI_NOW, .log = silent_log};
}

static void print_device(accel__buffer *b, const accel_plugin *plugin, uint32_t index,
                         const accel_plugin_device *d) {
  accel_plugin_memory memory = {.size = sizeof memory};
  accel_plugin_error error = {.size = sizeof error, .node = -1};
  if (d->unusable[0] || plugin->memory(index, &memory, &error) != ACCEL_PLUGIN_OK)
    memset(&memory, 0, sizeof memory);
  accel__buffer_text(b, index ? ",{" : "{");
  text_field(b, "id", d->id);
  text_field(b, "name", d->name);
  text_field(b, "arch", d->arch);
  text_field(b, "driver", d->driver);
  text_field(b, "unusable", d->unusable);
  number_field(b, "type", d->type, ",");
  number_field(b, "flags", d->flags, ",");
  number_field(b, "route", d->route, ",");
  number_field(b, "few_rows", d->few_rows, ",");
  number_field(b, "wave", d->wave, ",");
  number_field(b, "units", d->units, ",");
  number_field(b, "max_allocation", d->max_allocation, ",");
  number_field(b, "max_binding", d->max_binding, ",");
  number_field(b, "max_shared", d->max_shared, ",");
  number_field(b, "memory_total", memory.total, ",");
  number_field(b, "memory_free", memory.free, ",");
  /* NaN and infinity are no JSON */
  double bandwidth = d->gbytes_per_s > 0 && d->gbytes_per_s < 1e12 ? d->gbytes_per_s : 0;
  double rate = d->gflops > 0 && d->gflops < 1e12 ? d->gflops : 0;
  accel__buffer_printf(b, "\"gbytes_per_s\":%.9g,\"gflops\":%.9g}", bandwidth, rate);
}

void probe_plugin(const char *path, accel__buffer *b) {
  static accel_plugin_device devices[ACCEL__MAX_DEVICES];
  accel_plugin_host host = quiet_host();
  accel_plugin plugin;
  char why[512] = "";
  uint32_t n = 0;
  probe_stage("opening the plugin");
  accel__verdict verdict = accel__handshake(path, &host, &plugin, why, sizeof why);
  if (verdict == ACCEL__VERDICT_GOOD) {
    probe_stage("asking for its devices");
    verdict = accel__plugin_devices(&plugin, &host, devices, &n, why, sizeof why);
  }
  bool good = verdict == ACCEL__VERDICT_GOOD;
  accel__buffer_printf(b, "{\"verdict\":%d,", (int)verdict);
  text_field(b, "why", why);
  text_field(b, "name", good ? plugin.name : "");
  text_field(b, "implementation_type", good ? plugin.implementation_type : "");
  text_field(b, "version", good ? plugin.version : "");
  text_field(b, "build_id", good ? plugin.build_id : "");
  accel__buffer_text(b, "\"devices\":[");
  if (good) probe_stage("asking for memory");
  for (uint32_t i = 0; i < n; i++) print_device(b, &plugin, i, &devices[i]);
  accel__buffer_text(b, "]}\n");
}

void probe_plugin_test(const char *path, uint32_t index, const char *precision, bool ops,
                       accel__buffer *b) {
  static accel_plugin_device devices[ACCEL__MAX_DEVICES];
  accel_plugin_host host = quiet_host();
  accel_plugin plugin;
  char why[512] = "";
  uint32_t n = 0;
  accel__proof proof = ACCEL__PROOF_WRONG;
  probe_stage("opening the plugin");
  bool good = accel__handshake(path, &host, &plugin, why, sizeof why) == ACCEL__VERDICT_GOOD;
  if (good) probe_stage("asking for its devices");
  good = good &&
         accel__plugin_devices(&plugin, &host, devices, &n, why, sizeof why) == ACCEL__VERDICT_GOOD;
  if (good && index >= n) {
    snprintf(why, sizeof why, "it has %u devices now, number %u is gone", n, index);
  } else if (good) {
    probe_stage("running the self-test");
    proof = accel__selftest(&plugin, index, precision, &host, why, sizeof why);
    if (ops && proof == ACCEL__PROOF_PASS) {
      probe_stage("running the self-test of every op");
      proof = accel__selftest_ops(&plugin, index, &host, why, sizeof why);
    }
  }
  accel__buffer_printf(b, "{\"proof\":%d,", (int)proof);
  char clean[512];
  accel__clean_copy(clean, sizeof clean, why, sizeof why);
  text_field(b, "why", clean);
  accel__buffer_text(b, "\"end\":true}\n");
}
