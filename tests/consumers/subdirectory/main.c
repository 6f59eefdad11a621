/* main.c - loads the model directory named on the command line onto the reference device, whose
 * plugin is found beside the library in the build tree. */
#include <accel/accel.h>
#include <stdio.h>

int main(int argc, char **argv) {
  accel *ctx;
  accel_endpoint *ep;
  accel_init_params params = accel_init_params_default();
  if (argc != 2) return 2;
  params.device = "reference";
  if (accel_create(NULL, &ctx) || accel_init(ctx, argv[1], &params, &ep)) {
    fprintf(stderr, "%s\n%s\n", accel_last_error(), accel_last_remedy());
    return 1;
  }
  printf("accel %s: %s\n", accel_version(), accel_placement(ep)->label);
  accel_cleanup(&ep);
  accel_destroy(&ctx);
  return 0;
}
