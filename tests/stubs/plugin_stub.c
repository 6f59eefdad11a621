/* plugin_stub.c - a small plugin for tests, good or bad in one way, chosen when it is compiled:
 *
 *   STUB_GOOD     one discrete device; really computes the self-test's ops (layer norm, linear, GELU, residual, softmax)
 *   STUB_ABI      made for another interface major        STUB_SHORT   table cut before the required functions end
 *   STUB_SYMBOL   no query symbol                         STUB_CRASH   crashes in query
 *   STUB_HANG     never returns from devices              STUB_MIX     says it carries another sanitizer
 *   STUB_SLOT     no handler                              STUB_GARBAGE devices fails, with bytes that are no text as the
 * reason STUB_LIAR     claims a device and computes wrong      STUB_FAKER   computes nothing: leaves the outputs as they are
 *   STUB_LATE     crashes in init
 *
 * With STUB_ENVIRONMENT="NAME" the devices come from that variable:
 * "type;id;name;arch;unusable;driver" joined by '|', type one of cpu, discrete, integrated,
 * software, other; what is left out at the end is empty, the driver "stub 1.0".  Unset: no devices
 * ("cpu": one).
 */
#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "accel/plugin.h"

#ifndef ACCEL_SANITIZER
#define ACCEL_SANITIZER 0
#endif

enum { MAX_TENSORS = 32 };

/* The endpoint keeps what a run needs: the program is gone after init. */
struct accel_plugin_endpoint {
  float *weight[MAX_TENSORS];
  uint32_t rows_of[MAX_TENSORS];
};

static int32_t fail(accel_plugin_error *error, int32_t rc, const char *text) {
  error->rc = rc;
  snprintf(error->message, sizeof error->message, "%s", text);
  return rc;
}

/* ---- devices ---- */

static uint32_t type_of(const char *name, size_t n) {
  static const char *const names[] = {"", "cpu", "discrete", "integrated", "software", "other"};
  for (uint32_t i = 1; i < 6; i++)
    if (strlen(names[i]) == n && !strncmp(names[i], name, n)) return i;
  return ACCEL_PLUGIN_DEVICE_OTHER;
}

/* As the plugins of these names say. */
static uint32_t route_of(const char *name) {
  static const char *const names[] = {"rocm", "cuda", "opencl", "vulkan"};
  for (uint32_t i = 0; i < 4; i++)
    if (!strcmp(names[i], name)) return 10 * (i + 1);
  return 0;
}

static void read_fields(const char *text, size_t n, accel_plugin_device *d) {
  char *const to[] = {NULL, d->id, d->name, d->arch, d->unusable, d->driver};
  const size_t room[] = {
      0, sizeof d->id, sizeof d->name, sizeof d->arch, sizeof d->unusable, sizeof d->driver};
  memset(d, 0, sizeof *d);
  d->size = sizeof *d;
  d->route = route_of(STUB_NAME);
  for (int field = 0; field < 6; field++) {
    size_t length = 0;
    while (length < n && text[length] != ';') length++;
    if (field == 0)
      d->type = type_of(text, length);
    else
      snprintf(to[field], room[field], "%.*s", (int)length, text);
    size_t step = length < n ? length + 1 : length;
    text += step;
    n -= step;
  }
  if (!d->driver[0]) snprintf(d->driver, sizeof d->driver, "stub 1.0");
}

static const char *description(void) {
#if defined(STUB_ENVIRONMENT)
  const char *text = getenv(STUB_ENVIRONMENT);
  return text ? text : !strcmp(STUB_NAME, "cpu") ? "cpu;;stub processor;stub;" : "";
#else
  return "discrete;0000:0b:00.0;Stub card;stub1;";
#endif
}

static int32_t devices(const accel_plugin_host *host, accel_plugin_device *out, uint32_t capacity,
                       uint32_t *n, accel_plugin_error *error) {
  (void)host, (void)error;
#if defined(STUB_HANG)
  for (;;) sleep(1000);
#elif defined(STUB_GARBAGE)
  return fail(error, ACCEL_PLUGIN_E_DRIVER, "\xff\xfe\x01 not text");
#endif
  *n = 0;
  for (const char *text = description(); *text;) {
    size_t length = strcspn(text, "|");
    if (*n < capacity) read_fields(text, length, &out[*n]);
    ++*n;
    text += length + (text[length] == '|');
  }
  return ACCEL_PLUGIN_OK;
}

static int32_t memory(uint32_t device, accel_plugin_memory *out, accel_plugin_error *error) {
  (void)device, (void)error;
  out->total = (uint64_t)8 << 30;
  out->free = (uint64_t)6 << 30;
  return ACCEL_PLUGIN_OK;
}

/* ---- the self-test's ops at fp32 ---- */

static int32_t supports(uint32_t device, const accel_plugin_program *p,
                        const accel_plugin_precision *precision, accel_plugin_verdict *verdict,
                        accel_plugin_error *error) {
  (void)device, (void)error;
  for (uint32_t e = 0; e < p->n_entry; e++) {
    verdict[e].node = -1;
    verdict[e].answer =
        strcmp(precision->name, "fp32") || p->n_entry > 1 ? ACCEL_PLUGIN_NO : ACCEL_PLUGIN_NATIVE;
    snprintf(verdict[e].why, sizeof verdict[e].why, "%s",
             verdict[e].answer ? "" : "the stub knows fp32 alone");
  }
  return ACCEL_PLUGIN_OK;
}

static int32_t estimate(uint32_t device, const accel_plugin_program *p,
                        const accel_plugin_options *options, accel_plugin_estimate *out,
                        accel_plugin_error *error) {
  (void)device, (void)p, (void)options, (void)error;
  memset((char *)out + sizeof out->size, 0, sizeof *out - sizeof out->size);
  return ACCEL_PLUGIN_OK;
}

static void cleanup(accel_plugin_endpoint *endpoint, const accel_plugin_host *host) {
  (void)host;
  if (!endpoint) return;
  for (int i = 0; i < MAX_TENSORS; i++) free(endpoint->weight[i]);
  free(endpoint);
}

static int32_t init(uint32_t device, const accel_plugin_program *p,
                    const accel_plugin_options *options, accel_plugin_endpoint **out,
                    accel_plugin_error *error) {
  (void)device;
#if defined(STUB_LATE)
  raise(11);
#endif
  accel_plugin_endpoint *e = calloc(1, sizeof *e);
  if (!e) return fail(error, ACCEL_PLUGIN_E_HOST_MEMORY, "no memory");
  for (uint32_t w = 0; w < p->n_weight && w < MAX_TENSORS; w++) {
    accel_plugin_weight_view view;
    int32_t rc = options->host->weight_map(options->host->self, w, &view, error);
    uint64_t n = 1;
    for (uint32_t d = 0; d < p->weight[w].rank; d++) n *= (uint64_t)p->weight[w].dim[d];
    if (!rc) e->weight[w] = malloc(n * sizeof(float));
    if (!e->weight[w]) {
      cleanup(e, options->host);
      return fail(error, rc ? rc : ACCEL_PLUGIN_E_HOST_MEMORY, "weight");
    }
    memcpy(e->weight[w], view.data, n * sizeof(float));
    e->rows_of[w] = (uint32_t)p->weight[w].dim[0];
    options->host->weight_unmap(options->host->self, w);
  }
  *out = e;
  return ACCEL_PLUGIN_OK;
}

#if !defined(STUB_FAKER)
static void layer_norm(const float *x, const float *gamma, const float *beta, uint32_t n,
                       float *y) {
  double mean = 0, variance = 0;
  for (uint32_t i = 0; i < n; i++) mean += x[i] / n;
  for (uint32_t i = 0; i < n; i++) variance += (x[i] - mean) * (x[i] - mean) / n;
  for (uint32_t i = 0; i < n; i++)
    y[i] = (float)((x[i] - mean) / sqrt(variance + 1e-5)) * gamma[i] + beta[i];
}

static void linear(const float *x, const float *w, const float *bias, uint32_t k, uint32_t n,
                   float *y) {
  for (uint32_t j = 0; j < n; j++) {
    double sum = bias[j];
    for (uint32_t i = 0; i < k; i++) sum += (double)x[i] * w[j * k + i];
    y[j] = (float)sum;
  }
}
#endif

/* The stub runs the self-test's program and no other: weights 0..5 are gamma, beta, w1, b1, w2,
 * b2. */
__attribute__((unused)) static int32_t handler(accel_plugin_endpoint *e,
                                               accel_plugin_session *session, accel_plugin_run *run,
                                               const accel_plugin_view *in, uint32_t n_in,
                                               accel_plugin_view *out, uint32_t n_out,
                                               accel_plugin_error *error) {
  (void)session, (void)run;
  uint32_t c = e->rows_of[0], f = e->rows_of[3];
  if (n_in != 1 || n_out != 2 || c > 256 || f > 256)
    return fail(error, ACCEL_PLUGIN_E_UNSUPPORTED, "the stub runs the self-test alone");
  for (uint32_t o = 0; o < 2; o++) {
    out[o].rank = 2;
    out[o].dim[0] = in[0].dim[0];
    out[o].dim[1] = c;
  }
#if !defined(STUB_FAKER)
  for (int64_t t = 0; t < in[0].dim[0]; t++) {
    float h[256], g[256];
    const float *x = (const float *)in[0].host + t * c;
    float *y = (float *)out[0].host + t * c, *p = (float *)out[1].host + t * c, sum = 0;
    layer_norm(x, e->weight[0], e->weight[1], c, h);
    linear(h, e->weight[2], e->weight[3], c, f, g);
    for (uint32_t i = 0; i < f; i++) g[i] = g[i] / 2 * (1 + erff(g[i] / sqrtf(2.0f)));
    linear(g, e->weight[4], e->weight[5], f, c, y);
    for (uint32_t i = 0; i < c; i++) y[i] += x[i];
    for (uint32_t i = 0; i < c; i++) sum += expf(y[i]);
    for (uint32_t i = 0; i < c; i++) p[i] = expf(y[i]) / sum;
#if defined(STUB_LIAR)
    y[c - 1] += 0.01f;
#endif
  }
#endif
  return ACCEL_PLUGIN_OK;
}

static const accel_plugin table = {
#if defined(STUB_SHORT)
    .size = offsetof(accel_plugin, init),
#else
    .size = sizeof(accel_plugin),
#endif
#if defined(STUB_ABI)
    .abi = ACCEL_PLUGIN_ABI(99, 0),
#else
    .abi = ACCEL_PLUGIN_ABI_NOW,
#endif
    .name = STUB_NAME,
    .implementation_type = "STUB",
    .version = "0.0",
    .build_id = "stub",
#if defined(STUB_MIX)
    .sanitizer = ACCEL_SANITIZER == ACCEL_PLUGIN_TSAN ? ACCEL_PLUGIN_ASAN : ACCEL_PLUGIN_TSAN,
#else
    .sanitizer = ACCEL_SANITIZER,
#endif
    .devices = devices,
    .memory = memory,
    .supports = supports,
    .estimate = estimate,
    .init = init,
#if !defined(STUB_SLOT)
    .handler = handler,
#endif
    .cleanup = cleanup,
};

#if defined(STUB_SYMBOL)
__attribute__((visibility("default"))) const accel_plugin *another_symbol(void);
__attribute__((visibility("default"))) const accel_plugin *another_symbol(void) { return &table; }
#else
__attribute__((visibility("default"))) const accel_plugin *accel_plugin_query(
    const accel_plugin_host *host, uint32_t core_abi);
__attribute__((visibility("default"))) const accel_plugin *accel_plugin_query(
    const accel_plugin_host *host, uint32_t core_abi) {
  (void)host, (void)core_abi;
#if defined(STUB_CRASH)
  fputs("stub driver: about to fail\n", stderr);
  raise(11);
#endif
  return &table;
}
#endif
