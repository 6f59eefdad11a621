/* translate.c - translates texts, or sums them up.
 *
 *   translate MODEL FROM TO TEXT...            google-t5/t5-small en de "That is good.", facebook/mbart-large-50-many-to-many-mmt en_XX de_DE ...
 *   translate MODEL - - TEXT...                a model with one pair of languages, such as Helsinki-NLP/opus-mt-en-de
 *   translate MODEL summary - TEXT...          facebook/bart-large-cnn
 */
#include <accel/accel.h>
#include <stdio.h>
#include <string.h>

static int report(accel_status status) {
  fprintf(stderr, "%s\n%s\n", accel_last_error(), accel_last_remedy());
  return accel_status_exit_code(status);
}

static const char *language(const char *argument) {
  return strcmp(argument, "-") ? argument : NULL;
}

int main(int argc, char **argv) {
  if (argc < 5) {
    fprintf(stderr, "usage: %s MODEL FROM|-|summary TO|- TEXT...\n", argv[0]);
    return 2;
  }
  const char *const *texts = (const char *const *)argv + 4;
  const uint32_t n = (uint32_t)argc - 4;

  accel *ctx = NULL;
  accel_status status = accel_create(NULL, &ctx);
  if (status != ACCEL_OK) return report(status);

  accel_init_params how = accel_init_params_default();
  how.device = "auto";
  accel_endpoint *model = NULL;
  accel_generations *found = NULL;
  status = accel_init(ctx, argv[1], &how, &model);
  if (status == ACCEL_OK && !strcmp(argv[2], "summary"))
    status = accel_summarize(model, texts, n, NULL, &found);
  else if (status == ACCEL_OK)
    status = accel_translate(model, texts, n, language(argv[2]), language(argv[3]), NULL, &found);
  for (uint32_t i = 0; status == ACCEL_OK && i < found->n; i++) printf("%s\n", found->item[i].text);
  int code = status == ACCEL_OK ? 0 : report(status);
  accel_generations_free(&found);
  accel_cleanup(&model);
  accel_destroy(&ctx);
  return code;
}
