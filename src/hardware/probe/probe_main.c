/* probe_main.c - accel-probe: asks vendor libraries and plugins what they have, in a process that
 * may crash.
 *
 *   accel-probe vendor hip|hsa|cuda|opencl|vulkan|openvino|qualcomm|webgpu
 *   accel-probe plugin PATH
 *   accel-probe test PATH INDEX PRECISION [ops]
 *
 * Prints lines "# stage" as it goes and one JSON object at the end.  Exit 0 when the object was
 * printed, 2 on wrong arguments. Meant to be run by libaccel; running it by hand is safe and shows
 * the raw answers.
 */
#include <ctype.h>
#include <dlfcn.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "hardware/handshake.h"
#include "hardware/probe/probe.h"

static int answer_fd = 1;

static void answer(const char *text, size_t n) {
  while (n > 0) {
    ssize_t done = write(answer_fd, text, n);
    if (done <= 0) return;
    text += done;
    n -= (size_t)done;
  }
}

void probe_stage(const char *what) {
  char line[200];
  int n = snprintf(line, sizeof line, "# %s\n", what);
  answer(line, n < (int)sizeof line ? (size_t)n : sizeof line - 1);
}

void probe_lower(char *text) {
  for (; *text; text++) *text = (char)tolower((unsigned char)*text);
}

void *probe_open(probe_report *r, const char *const *names, const char *remedy) {
  for (; *names; names++) {
    char stage[160];
    snprintf(stage, sizeof stage, "opening %s", *names);
    probe_stage(stage);
    void *library = dlopen(*names, RTLD_NOW | RTLD_LOCAL);
    if (library) {
      snprintf(r->library, sizeof r->library, "%s", *names);
      r->error[0] = 0;
      return library;
    }
    const char *sentence = dlerror();
    if (!r->error[0])
      accel__clean_copy(r->error, sizeof r->error, sentence ? sentence : "dlopen failed", 4096);
  }
  snprintf(r->remedy, sizeof r->remedy, "%s", remedy);
  return NULL;
}

bool probe_optional(void *library, const char *name, void *function_pointer) {
  void *symbol = dlsym(library, name);
  memcpy(function_pointer, &symbol, sizeof symbol);
  return symbol != NULL;
}

bool probe_symbol(probe_report *r, void *library, const char *name, void *function_pointer) {
  if (probe_optional(library, name, function_pointer)) return true;
  snprintf(r->error, sizeof r->error, "%s has no %s", r->library, name);
  snprintf(r->remedy, sizeof r->remedy,
           "it is older or newer than what is known here, or not the vendor's file");
  return false;
}

probe_device *probe_add(probe_report *r) {
  if (r->n == PROBE_MAX_DEVICES) return NULL;
  probe_device *d = &r->device[r->n++];
  memset(d, 0, sizeof *d);
  d->type = "";
  return d;
}

static void field(accel__buffer *b, const char *key, const char *text) {
  char clean[512];
  accel__clean_copy(clean, sizeof clean, text, sizeof clean);
  accel__buffer_printf(b, "\"%s\":", key);
  accel__buffer_json_string(b, clean, strlen(clean));
  accel__buffer_text(b, ",");
}

static void print_report(const probe_report *r, accel__buffer *b) {
  accel__buffer_text(b, "{");
  field(b, "vendor", r->vendor);
  field(b, "library", r->library);
  field(b, "version", r->version);
  field(b, "driver", r->driver);
  field(b, "error", r->error);
  field(b, "remedy", r->remedy);
  accel__buffer_text(b, "\"devices\":[");
  for (uint32_t i = 0; i < r->n; i++) {
    const probe_device *d = &r->device[i];
    accel__buffer_text(b, i ? ",{" : "{");
    field(b, "name", d->name);
    field(b, "arch", d->arch);
    field(b, "id", d->id);
    field(b, "uuid", d->uuid);
    field(b, "platform", d->platform);
    field(b, "driver", d->driver);
    field(b, "type", d->type);
    unsigned long long total = d->memory_total < (1ull << 53) ? d->memory_total : 1ull << 53;
    accel__buffer_printf(b, "\"units\":%u,\"wave\":%u,\"memory_total\":%llu}", d->units, d->wave,
                         total);
  }
  accel__buffer_text(b, "]}\n");
}

static const struct {
  const char *name;
  void (*ask)(probe_report *);
} vendors[] = {{"hip", probe_hip},           {"hsa", probe_hsa},       {"cuda", probe_cuda},
               {"opencl", probe_opencl},     {"vulkan", probe_vulkan}, {"openvino", probe_openvino},
               {"qualcomm", probe_qualcomm}, {"webgpu", probe_webgpu}};

static int ask_vendor(const char *name, accel__buffer *json) {
  static probe_report report;
  for (size_t i = 0; i < sizeof vendors / sizeof *vendors; i++) {
    if (strcmp(vendors[i].name, name)) continue;
    report.vendor = vendors[i].name;
    vendors[i].ask(&report);
    print_report(&report, json);
    return 0;
  }
  return 2;
}

/* What drivers print to stdout must not mix with the answer: it goes to stderr. */
static void keep_stdout_clean(void) {
  int copy = fcntl(1, F_DUPFD_CLOEXEC, 3);
  if (copy < 0) return;
  answer_fd = copy;
  dup2(2, 1);
}

int main(int argc, char **argv) {
  accel__buffer json = {0};
  int code = 2;
  keep_stdout_clean();
  if (argc == 3 && !strcmp(argv[1], "vendor")) {
    code = ask_vendor(argv[2], &json);
  } else if (argc == 3 && !strcmp(argv[1], "plugin")) {
    probe_plugin(argv[2], &json);
    code = 0;
  } else if ((argc == 5 || (argc == 6 && !strcmp(argv[5], "ops"))) && !strcmp(argv[1], "test")) {
    probe_plugin_test(argv[2], (uint32_t)strtoul(argv[3], NULL, 10), argv[4], argc == 6, &json);
    code = 0;
  }
  if (code == 2) {
    fprintf(stderr,
            "usage: accel-probe vendor hip|hsa|cuda|opencl|vulkan|openvino|qualcomm|webgpu\n"
            "       accel-probe plugin PATH\n"
            "       accel-probe test PATH INDEX PRECISION [ops]\n");
  } else if (json.failed) {
    code = 1;
  } else {
    answer(json.data, json.n);
  }
  /* Drivers' exit handlers have crashed processes that were done: leave without them. */
  _exit(code);
}
