/* host_memory_test.c - a GPU plugin over whatever driver is there (a software one will do), each
 * allocation of host memory refused in turn while the self-test runs: a sentence each time, nothing
 * of ours is left behind, and the device serves again. Linked with the plugin's own code
 * (host_memory.h); exit code 77: no device. */
#include <stdio.h>
#include <string.h>

#include "accel/plugin.h"
#include "hardware/selftest.h"
#include "host_memory.h"

const accel_plugin *accel_plugin_query(const accel_plugin_host *host, uint32_t core_abi);

static const accel_plugin *plugin;
static char why[512];

static accel__proof run(void) {
  *why = 0;
  return accel__selftest(plugin, 0, "fp16", NULL, why, sizeof why);
}

static int fail(const char *what, long which) {
  printf("allocation %ld: %s: '%s'\n", which, what, why);
  return 1;
}

/* A driver may allocate through us, too: what counts is that each refusal is survived and told. */
static int refuse_each(void) {
  const long before = atomic_load(&host_calls);
  if (run() != ACCEL__PROOF_PASS) return fail("the run without refusals", 0);
  const long n = atomic_load(&host_calls) - before, live = atomic_load(&host_live);
  long noticed = 0;
  for (long i = 1; i <= n; i++) {
    atomic_store(&host_refused, atomic_load(&host_calls) + i);
    const accel__proof proof = run();
    atomic_store(&host_refused, -1);
    if (proof == ACCEL__PROOF_WRONG && !strstr(why, "memory"))
      return fail("does not tell that memory was refused", i);
    if (proof != ACCEL__PROOF_WRONG && proof != ACCEL__PROOF_PASS)
      return fail("is neither a failure nor a pass", i);
    noticed += proof == ACCEL__PROOF_WRONG;
    if (run() != ACCEL__PROOF_PASS) return fail("afterwards the device does not serve", i);
    if (atomic_load(&host_live) != live) {
      printf("%ld blocks more than before\n", atomic_load(&host_live) - live);
      return fail("leaves memory behind", i);
    }
  }
  printf("%ld allocations refused, %ld of them end the run\n", n, noticed);
  return noticed > 20 ? 0 : fail("only so many were noticed", noticed);
}

int main(void) {
  const accel_plugin_host host = {.size = sizeof host, .abi = ACCEL_PLUGIN_ABI_NOW};
  accel_plugin_device device[8];
  accel_plugin_error error = {.size = sizeof error};
  uint32_t n = 0;
  plugin = accel_plugin_query(&host, ACCEL_PLUGIN_ABI_NOW);
  if (!plugin) return fail("no table", 0);
  for (int i = 0; i < 8; i++) device[i] = (accel_plugin_device){.size = sizeof device[i]};
  if (plugin->devices(&host, device, 8, &n, &error) || !n) {
    printf("skipped: no device: %s\n", error.message);
    return 77;
  }
  /* what a process keeps is there */
  if (run() != ACCEL__PROOF_PASS) return fail("the first run", 0);
  return refuse_each();
}
