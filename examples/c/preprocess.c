/* preprocess.c - what a model would be given for a picture or a sound.
 *
 *   preprocess MODEL picture|sound FILE OUT.safetensors
 */
#include <accel/accel.h>
#include <stdio.h>
#include <string.h>

static int report(accel_status status) {
  fprintf(stderr, "%s\n%s\n", accel_last_error(), accel_last_remedy());
  return accel_status_exit_code(status);
}

int main(int argc, char **argv) {
  if (argc < 5) {
    fprintf(stderr, "usage: %s MODEL picture|sound FILE OUT.safetensors\n", argv[0]);
    return 2;
  }
  const accel_media file = {.name = argv[3]};
  const int sound = strcmp(argv[2], "sound") == 0;
  accel *ctx = NULL;
  accel_tensors *found = NULL;
  accel_preprocess_params wishes = accel_preprocess_params_default();
  wishes.images = wishes.sounds = &file;
  wishes.n_images = !sound;
  wishes.n_sounds = sound;
  accel_status status = accel_create(NULL, &ctx);
  if (status == ACCEL_OK) status = accel_preprocess(ctx, argv[1], &wishes, &found);
  for (uint32_t i = 0; status == ACCEL_OK && i < found->n; i++) {
    printf("%s", found->item[i].name);
    for (uint32_t d = 0; d < found->item[i].rank; d++)
      printf(" %lld", (long long)found->item[i].dim[d]);
    printf("\n");
  }
  if (status == ACCEL_OK) status = accel_tensors_write(argv[4], found);
  int code = status == ACCEL_OK ? 0 : report(status);
  accel_tensors_free(&found);
  accel_destroy(&ctx);
  return code;
}
