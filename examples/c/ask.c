/* ask.c - asks a model about a picture, or has it described.
 *
 *   ask MODEL PICTURE [QUESTION]               MODEL: a BLIP, LLaVA or LLaVA-Next, such as
 * Salesforce/blip-image-captioning-base
 */
#include <accel/accel.h>
#include <stdio.h>

static int report(accel_status status) {
  fprintf(stderr, "%s\n%s\n", accel_last_error(), accel_last_remedy());
  return accel_status_exit_code(status);
}

int main(int argc, char **argv) {
  if (argc < 3) {
    fprintf(stderr, "usage: %s MODEL PICTURE [QUESTION]\n", argv[0]);
    return 2;
  }
  const accel_media picture = {.name = argv[2]};
  const accel_image_prompt prompt = {.kind = ACCEL_PROMPT_QUESTION,
                                     .text = argc > 3 ? argv[3] : NULL,
                                     .images = &picture,
                                     .n_images = 1};
  accel *ctx = NULL;
  accel_endpoint *model = NULL;
  accel_generations *found = NULL;
  accel_generate_params wishes = accel_generate_params_default();
  wishes.max_new_tokens = 30;
  accel_status status = accel_create(NULL, &ctx);
  if (status == ACCEL_OK) status = accel_init(ctx, argv[1], NULL, &model);
  if (status == ACCEL_OK) status = accel_generate_images(model, &prompt, 1, &wishes, &found);
  if (status == ACCEL_OK) printf("%s\n", found->item[0].text);
  int code = status == ACCEL_OK ? 0 : report(status);
  accel_generations_free(&found);
  accel_cleanup(&model);
  accel_destroy(&ctx);
  return code;
}
