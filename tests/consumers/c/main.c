/* Loads the model directory named on the command line and prints the shape of its first output. */
#include <accel/accel.h>
#include <accel/plugin.h>
#include <stdio.h>

static int failed(const char *what) {
  fprintf(stderr, "%s: %s\n%s\n", what, accel_last_error(), accel_last_remedy());
  return 1;
}

int main(int argc, char **argv) {
  accel *ctx;
  accel_endpoint *ep;
  accel_tensors *out;
  int64_t ids[2][5] = {{5, 6, 7, 8, 9}, {10, 11, 12, 0, 0}},
          mask[2][5] = {{1, 1, 1, 1, 1}, {1, 1, 1, 0, 0}};
  accel_tensor in[2] = {
      {.name = "input_ids", .dtype = ACCEL_I64, .rank = 2, .dim = {2, 5}, .data = ids},
      {.name = "attention_mask", .dtype = ACCEL_I64, .rank = 2, .dim = {2, 5}, .data = mask}};
  accel_tensors inputs = {.n = 2, .item = in};
  if (argc != 2) return 2;
  if (accel_create(NULL, &ctx)) return failed("accel_create");
  if (accel_init(ctx, argv[1], NULL, &ep)) return failed("accel_init");
  if (accel_run(ep, &inputs, &out)) return failed("accel_run");
  printf("%s: %s [%lld,%lld,%lld]\n", accel_placement(ep)->label, out->item[0].name,
         (long long)out->item[0].dim[0], (long long)out->item[0].dim[1],
         (long long)out->item[0].dim[2]);
  accel_tensors_free(&out);
  accel_cleanup(&ep);
  accel_destroy(&ctx);
  return 0;
}
