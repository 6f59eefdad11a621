/* detect.c - what can this machine run on, and why not on the rest? */
#include <accel/accel.h>
#include <stdio.h>

int main(void) {
  accel *ctx = NULL;
  accel_devices *devices = NULL;
  accel_status status = accel_create(NULL, &ctx);
  if (status == ACCEL_OK) status = accel_detect(ctx, 0, &devices);
  if (status != ACCEL_OK) {
    fprintf(stderr, "%s\n%s\n", accel_last_error(), accel_last_remedy());
  } else {
    for (uint32_t i = 0; i < devices->n; ++i) {
      const accel_device_info *d = &devices->item[i];
      if (d->usable)
        printf("%-12s %s, %.1f GiB\n", d->name, d->description,
               (double)d->memory_total / (1 << 30));
      else
        printf("%-12s not usable: %s\n%-12s -> %s\n", d->name, d->reason, "", d->remedy);
    }
  }
  accel_devices_free(&devices);
  accel_destroy(&ctx);
  return accel_status_exit_code(status);
}
