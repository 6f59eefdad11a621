/* gpu_variants.c - kernels for what only some devices have (gpu_limits.int_dot, .sub_groups,
 * .matrix): chosen by what the device says of itself, and only after they gave the right numbers
 * there (gpu_probe_results.c).
 *
 * A variant is tried when the first endpoint could use it. One that fails or is wrong is left out,
 * with a warning, and the plain kernels do its work. One that is right but slower there
 * (gpu_probe_times.c) is left out, too, unless ACCEL_GPU_VARIANTS names it. Verdicts are kept in
 * the process and in the host's cache under device and driver, so that a device's numbers do not
 * change from run to run. Small models are not kept waiting for measurements.
 *
 * ACCEL_GPU_VARIANTS overrules the device: "none", or a list of int_dot, sub_groups, matrix_f16,
 * matrix_bf16, matrix_i8; integer dot products are then also taken where the device has no
 * instruction for them, and sub-groups also on a CPU behind the API. For tests the list may hold
 *   wmma            the emulator takes the kernels of RDNA3's matrix units
 *   cooperative     the emulator takes the kernels of Vulkan's cooperative matrices
 *   card            a CPU behind the API takes the kernels of GPUs, large tiles with them
 *   attention_rows  with card: attention by rows, since compilers of CPUs take long for its tiles
 *   small_bindings  a kernel sees 64 KiB of a buffer at most
 *   measure         variants are timed on processors, too; that says nothing of cards */
#include "gpu/gpu_variants.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "gpu/gpu_probe_results.h"
#include "gpu/gpu_probe_times.h"
#include "gpu/gpu_product.h"
#include "shared/hash.h"

/* Part of every verdict's key: another word for kernels that are other ones. */
static const char KERNELS[] = "groups";
enum { DEVICES = 64, REASON = 160, WARNING = 1, INFO = 2 };

static const struct {
  uint32_t bit;
  const char *name;
  gpu_store store; /* of the weights it multiplies */
} variants[] = {{GPU_VARIANT_INT_DOT, "int_dot", GPU_STORE_I8},
                {GPU_VARIANT_MATRIX_F16, "matrix_f16", GPU_STORE_F16},
                {GPU_VARIANT_MATRIX_BF16, "matrix_bf16", GPU_STORE_BF16},
                {GPU_VARIANT_MATRIX_I8, "matrix_i8", GPU_STORE_I8},
                {GPU_VARIANT_SUB_GROUPS, "sub_groups", GPU_STORE_F32}};
enum { VARIANTS = sizeof variants / sizeof *variants };

/* What this process found out about a device: bits of gpu_variant and GPU_LARGE_TILES. */
typedef struct verdicts {
  uint32_t tried, right;  /* right: of those tried, the ones with right numbers */
  uint32_t timed, slower; /* slower: of those timed, the ones slower than the plain kernels */
  char reason[VARIANTS][REASON]; /* why one that was tried is not right */
} verdicts;

/* By index of the device. The lock is held to read and write verdicts alone, never while kernels
 * are compiled or run: endpoints that open at once may each try a variant, and the first verdict
 * stays. */
static verdicts known[DEVICES];
static pthread_mutex_t known_lock = PTHREAD_MUTEX_INITIALIZER;

/* ---- the environment ---- */

static bool names(const char *list, const char *name) {
  const size_t n = strlen(name);
  for (const char *at = list; *at; at += *at == ',') {
    const size_t length = strcspn(at, ",");
    if (length == n && !memcmp(at, name, n)) return true;
    at += length;
  }
  return false;
}

static const char *from_env(void) { return getenv("ACCEL_GPU_VARIANTS"); }

void gpu_limits_from_env(gpu_limits *limits) {
  const char *env = from_env();
  if (env && names(env, "small_bindings")) limits->binding = 65536;
  if (env && names(env, "wmma")) limits->wmma = limits->wave == 32;
  if (env && names(env, "cooperative")) limits->cooperative = limits->wave == 32;
  if (env && names(env, "attention_rows")) limits->attention_rows = true;
  if (env && names(env, "card")) {
    limits->cpu = false;
    limits->cpu_kernels = NULL;
  }
  /* cooperative matrices have no bf16 */
  if (limits->cooperative) limits->matrix &= GPU_VARIANT_MATRIX_F16 | GPU_VARIANT_MATRIX_I8;
}

/* ---- which variants are worth a try ---- */

static uint32_t candidates(const gpu_limits *limits) {
  const char *env = from_env();
  uint32_t all = limits->matrix;
  if (limits->int_dot || env) all |= GPU_VARIANT_INT_DOT;
  if (limits->sub_groups && (!limits->cpu || env)) all |= GPU_VARIANT_SUB_GROUPS;
  for (int i = 0; env && i < VARIANTS; i++)
    if (!names(env, variants[i].name)) all &= ~variants[i].bit;
  return all;
}

/* Of `all` those that the endpoint could use: products with its weights, and sub-groups, which most
 * programs use for their norms. */
static uint32_t useful(const gpu_self *s, uint32_t all) {
  uint32_t found = all & GPU_VARIANT_SUB_GROUPS;
  for (uint32_t i = 0; i < s->program->n_weight; i++)
    found |= gpu_activations_q_variant(all, &s->weight[i], false);
  return found & GPU_VARIANT_MATRIX_I8 ? found | (all & GPU_VARIANT_INT_DOT) : found;
}

/* ---- verdicts of earlier processes ---- */

/* The cache's key of verdict `name` on a device with its present driver. */
static void key_of(uint32_t device, const char *what, const char *name, char *out, size_t n) {
  accel_plugin_device list[DEVICES];
  uint32_t count = 0;
  uint64_t h = accel_hash_text(ACCEL_HASH_SEED, KERNELS);
  memset(list, 0, sizeof list);
  for (int i = 0; i < DEVICES; i++) list[i].size = sizeof *list;
  if (gpu_plugin_api.devices(NULL, list, DEVICES, &count, NULL)) count = 0;
  if (device < count) {
    h = accel_hash_text(h, list[device].name);
    h = accel_hash_text(h, list[device].arch);
    h = accel_hash_text(h, list[device].driver);
  }
  snprintf(out, n, "%s-%s-%016llx", what, name, (unsigned long long)h);
}

static bool cache_get(const accel_plugin_host *host, const char *key, bool *verdict) {
  uint8_t byte = 0;
  uint64_t n = 1;
  if (!host || !host->cache_get || host->cache_get(host->self, key, NULL, &n) || n != 1 ||
      host->cache_get(host->self, key, &byte, &n) || byte > 1)
    return false;
  *verdict = byte;
  return true;
}

static void cache_put(const accel_plugin_host *host, const char *key, bool verdict) {
  const uint8_t byte = verdict;
  if (host && host->cache_put)
    (void)host->cache_put(host->self, key, &(accel_plugin_part){.data = &byte, .n = 1}, 1);
}

/* ---- right numbers ---- */

/* Asks the cache, else runs the kernels.  reason: why not. */
static bool validates(gpu_self *s, const kit_open *open, int which, char reason[REASON]) {
  const accel_plugin_host *host = open->options->host;
  accel_plugin_error error = {.size = sizeof error, .node = -1};
  char key[96];
  bool right = false;
  key_of(open->device, "variant", variants[which].name, key, sizeof key);
  if (cache_get(host, key, &right)) {
    snprintf(reason, REASON, "they gave wrong numbers in an earlier process");
    return right;
  }
  const int32_t rc =
      gpu_probe_results(s, host, variants[which].bit, variants[which].store, &right, &error);
  if (kit_fault(host, "variant")) right = false;
  snprintf(reason, REASON, "%.*s", REASON - 1, rc ? error.message : "they give wrong numbers");
  /* lack of memory says nothing about the kernels */
  if (rc != ACCEL_PLUGIN_E_DEVICE_MEMORY && rc != ACCEL_PLUGIN_E_HOST_MEMORY)
    cache_put(host, key, right);
  return right;
}

static bool is_right(gpu_self *s, const kit_open *open, int which) {
  const accel_plugin_host *host = open->options->host;
  const uint32_t bit = variants[which].bit;
  verdicts *v = &known[open->device];
  char reason[REASON] = "", text[REASON + 80];
  pthread_mutex_lock(&known_lock);
  const bool tried = v->tried & bit;
  pthread_mutex_unlock(&known_lock);
  const bool found = !tried && validates(s, open, which, reason);
  pthread_mutex_lock(&known_lock);
  if (!(v->tried & bit)) {
    v->tried |= bit;
    v->right |= found ? bit : 0;
    memcpy(v->reason[which], reason, sizeof reason);
  }
  const bool right = v->right & bit;
  snprintf(text, sizeof text, "kernels '%s' are left out on this device: %s", variants[which].name,
           v->reason[which]);
  pthread_mutex_unlock(&known_lock);
  if (!right && host && host->log) host->log(host->self, WARNING, text);
  return right;
}

/* ---- times ---- */

/* Asks the cache, else measures.  What cannot be measured counts as no slower. */
static bool measures_slower(gpu_self *s, const kit_open *open, uint32_t bit, const char *name,
                            gpu_store store) {
  const accel_plugin_host *host = open->options->host;
  char key[96], text[200];
  bool faster = false;
  key_of(open->device, "times", name, key, sizeof key);
  if (cache_get(host, key, &faster)) return !faster;
  const int found = kit_fault(host, "slow_variant") ? 0 : gpu_probe_is_faster(s, host, bit, store);
  if (found < 0) return false;
  snprintf(text, sizeof text, "kernels '%s' are %s the plain ones on this device", name,
           found ? "at least as fast as" : "slower than");
  if (host && host->log) host->log(host->self, INFO, text);
  cache_put(host, key, found);
  return !found;
}

static bool is_slower(gpu_self *s, const kit_open *open, uint32_t bit, const char *name,
                      gpu_store store) {
  verdicts *v = &known[open->device];
  pthread_mutex_lock(&known_lock);
  const bool timed = v->timed & bit;
  pthread_mutex_unlock(&known_lock);
  const bool found = !timed && measures_slower(s, open, bit, name, store);
  pthread_mutex_lock(&known_lock);
  if (!(v->timed & bit)) {
    v->timed |= bit;
    v->slower |= found ? bit : 0;
  }
  const bool slower = v->slower & bit;
  pthread_mutex_unlock(&known_lock);
  return slower;
}

/* Whether times say anything of this device, and the endpoint has enough weights to wait for them:
 * neither the self-test nor a toy model has. */
static bool is_timed(const gpu_self *s) {
  static const uint64_t enough = 8 << 20, enough_in_tests = 8 << 10; /* bytes of weights */
  const char *env = from_env();
  uint64_t bytes = 0;
  for (uint32_t i = 0; i < s->program->n_weight; i++)
    bytes += (uint64_t)s->weight[i].n * s->weight[i].row_words * 4;
  return env ? names(env, "measure") && bytes >= enough_in_tests
             : !s->limits.cpu && !s->limits.emulated && bytes >= enough;
}

/* ---- all of it ---- */

void gpu_variants_open(gpu_self *s, const kit_open *open) {
  s->variants = 0;
  if (open->device >= DEVICES || !s->program->n_node) return;
  const uint32_t wanted = useful(s, candidates(&s->limits));
  uint32_t taken = 0;
  for (int i = 0; i < VARIANTS; i++)
    if (wanted & variants[i].bit && is_right(s, open, i)) taken |= variants[i].bit;
  if (is_timed(s)) {
    for (int i = 0; i < VARIANTS; i++)
      if (taken & variants[i].bit &&
          is_slower(s, open, variants[i].bit, variants[i].name, variants[i].store))
        taken &= ~variants[i].bit;
    s->limits.small_tiles =
        !s->limits.cpu && is_slower(s, open, GPU_LARGE_TILES, "large_tiles", GPU_STORE_F32);
  }
  s->variants = taken;
}
