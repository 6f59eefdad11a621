/* gpu_inference.c - is there a GPU of this kind, why not if not, and a first run on it.  Built as
 * rocm_inference (AMD), cuda_inference (NVIDIA), opencl_inference and vulkan_inference:
 *   rocm_inference [MODEL [TEXT]]      MODEL: a directory or an id in the model cache
 * Exit code: 0 done, 4 no such device (with the reason and what to do), else
 * accel_status_exit_code. */
#include <accel/accel.h>
#include <stdio.h>
#include <string.h>

#ifndef EXAMPLE_HARDWARE
#define EXAMPLE_HARDWARE "amd"  /* registry name */
#define EXAMPLE_DEVICE   "rocm" /* what --device takes */
#endif

static int complain(accel_status status) {
  fprintf(stderr, "%s\n%s\n", accel_last_error(), accel_last_remedy());
  return accel_status_exit_code(status);
}

/* Prints each device of the kind; returns how many can be used. */
static int diagnose(const accel_devices *devices) {
  int usable = 0;
  for (uint32_t i = 0; i < devices->n; i++) {
    const accel_device_info *d = &devices->item[i];
    if (strcmp(d->hardware, EXAMPLE_HARDWARE) != 0) continue;
    printf("%s: %s %s, %s\n", d->name, d->description, d->arch, d->driver);
    printf("  plugin built %s, loaded %s, device found %s, self-test %s\n",
           d->compiled == 1 ? "yes" : "no", d->loaded == 1 ? "yes" : "no",
           d->found == 1 ? "yes" : "no",
           d->tested == 1   ? "passed"
           : d->tested == 0 ? "failed"
                            : "not reached");
    if (d->usable)
      printf("  %.1f GiB, %.1f free\n", (double)d->memory_total / (1 << 30),
             (double)d->memory_free / (1 << 30));
    else
      printf("  not usable: %s\n  -> %s\n", d->reason, d->remedy);
    usable += d->usable != 0;
  }
  return usable;
}

static int run(accel *ctx, const char *model, const char *text) {
  accel_init_params how = accel_init_params_default();
  accel_endpoint *embedder = NULL;
  accel_embeddings *found = NULL;
  /* a demand: this kind of device or an error, never another in silence */
  how.device = EXAMPLE_DEVICE;
  accel_status status = accel_init(ctx, model, &how, &embedder);
  if (status == ACCEL_OK) status = accel_embed(embedder, &text, 1, &found);
  if (status != ACCEL_OK) {
    accel_cleanup(&embedder);
    return complain(status);
  }
  printf("%s: %u numbers, the first %.6f\n", accel_placement(embedder)->label, (unsigned)found->dim,
         (double)found->data[0]);
  accel_embeddings_free(&found);
  accel_cleanup(&embedder);
  return 0;
}

int main(int argc, char **argv) {
  accel *ctx = NULL;
  accel_devices *devices = NULL;
  accel_status status = accel_create(NULL, &ctx);
  if (status == ACCEL_OK) status = accel_detect(ctx, 0, &devices);
  if (status != ACCEL_OK) return complain(status);
  int usable = diagnose(devices), code = usable ? 0 : 4;
  if (!usable) printf("No %s device can be used here.\n", EXAMPLE_HARDWARE);
  if (usable && argc > 1) code = run(ctx, argv[1], argc > 2 ? argv[2] : "A sentence to embed.");
  accel_devices_free(&devices);
  accel_destroy(&ctx);
  return code;
}
