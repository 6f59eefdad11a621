/* raw_tensors.c - named tensors in, named tensors out, as transformers' forward has them.
 *
 *   raw_tensors MODEL          a BERT-like model; two sequences, the second shorter and padded
 */
#include <accel/accel.h>
#include <stdio.h>

int main(int argc, char **argv) {
  if (argc != 2) {
    fprintf(stderr, "usage: %s MODEL\n", argv[0]);
    return 2;
  }
  int64_t ids[2][6] = {{101, 7592, 2088, 2003, 2307, 102}, {101, 7592, 102, 0, 0, 0}};
  int64_t mask[2][6] = {{1, 1, 1, 1, 1, 1}, {1, 1, 1, 0, 0, 0}};
  accel_tensor items[] = {
      {.name = "input_ids", .dtype = ACCEL_I64, .rank = 2, .dim = {2, 6}, .data = ids},
      {.name = "attention_mask", .dtype = ACCEL_I64, .rank = 2, .dim = {2, 6}, .data = mask},
  };
  accel_tensors inputs = {.n = 2, .item = items}, *outputs = NULL;

  accel *ctx = NULL;
  accel_endpoint *model = NULL;
  accel_status status = accel_create(NULL, &ctx);
  if (status == ACCEL_OK) status = accel_init(ctx, argv[1], NULL, &model);
  if (status == ACCEL_OK) status = accel_run(model, &inputs, &outputs);
  if (status != ACCEL_OK) {
    fprintf(stderr, "%s\n%s\n", accel_last_error(), accel_last_remedy());
  } else {
    for (uint32_t i = 0; i < outputs->n; ++i) {
      const accel_tensor *t = &outputs->item[i];
      printf("%s [", t->name);
      for (uint32_t d = 0; d < t->rank; ++d) printf("%s%lld", d ? ", " : "", (long long)t->dim[d]);
      printf("]");
      if (t->dtype == ACCEL_F32) printf(" begins with %.6f", (double)*(const float *)t->data);
      printf("\n");
    }
  }
  accel_tensors_free(&outputs);
  accel_cleanup(&model);
  accel_destroy(&ctx);
  return accel_status_exit_code(status);
}
