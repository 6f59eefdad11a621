/* generate.c - goes on with a text, printing it as it comes.
 *
 *   generate MODEL [TEXT [TOKENS]]             MODEL: a directory or an id, such as Qwen/Qwen3-0.6B
 */
#include <accel/accel.h>
#include <stdio.h>
#include <stdlib.h>

static int report(accel_status status) {
  fprintf(stderr, "%s\n%s\n", accel_last_error(), accel_last_remedy());
  return accel_status_exit_code(status);
}

static int on_token(void *user, const accel_token_event *event) {
  (void)user;
  fputs(event->text, stdout);
  fflush(stdout);
  return 0; /* anything else ends the generation */
}

int main(int argc, char **argv) {
  if (argc < 2) {
    fprintf(stderr, "usage: %s MODEL [TEXT [TOKENS]]\n", argv[0]);
    return 2;
  }
  const char *text = argc > 2 ? argv[2] : "Once upon a time";

  accel *ctx = NULL;
  accel_status status = accel_create(NULL, &ctx);
  if (status != ACCEL_OK) return report(status);

  accel_init_params how = accel_init_params_default();
  how.device = "auto";
  accel_endpoint *model = NULL;
  accel_generations *found = NULL;
  accel_generate_params wishes = accel_generate_params_default();
  wishes.max_new_tokens = argc > 3 ? atoi(argv[3]) : 64;
  /* without it: as the model's generation_config.json says, else the likeliest token each time */
  wishes.temperature = 0.8;
  wishes.seed = 1;
  wishes.on_token = on_token;
  status = accel_init(ctx, argv[1], &how, &model);
  if (status == ACCEL_OK) printf("%s", text);
  if (status == ACCEL_OK) status = accel_generate(model, &text, 1, &wishes, &found);
  if (status == ACCEL_OK)
    printf("\n%u tokens (%s), the first after %.0f ms\n", found->item[0].n, found->item[0].finish,
           found->item[0].first_ms);
  int code = status == ACCEL_OK ? 0 : report(status);
  accel_generations_free(&found);
  accel_cleanup(&model);
  accel_destroy(&ctx);
  return code;
}
