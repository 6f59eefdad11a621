/* What a model says with LoRA adapters beside it, and without: adapters MODEL TEXT ADAPTER...
 * All requests run in one batch. */
#include <accel/accel.h>
#include <stdio.h>

enum { MOST = 16 };

static int failed(const char *what) {
  fprintf(stderr, "%s: %s\n%s\n", what, accel_last_error(), accel_last_remedy());
  return 1;
}

static int ask(accel_endpoint *endpoint, const char *text, accel_adapter *const *adapter,
               char **name, int n) {
  accel_ticket *ticket[MOST + 1] = {NULL};
  int code = 0;
  for (int i = 0; i <= n && !code; i++) { /* the first without an adapter */
    accel_generate_params how = accel_generate_params_default();
    how.max_new_tokens = 30;
    how.adapter = i ? adapter[i - 1] : NULL;
    if (accel_submit_generate(accel_queue_of(endpoint), text, NULL, 0, &how, &ticket[i]) !=
        ACCEL_OK)
      code = failed("submit");
  }
  for (int i = 0; i <= n && ticket[i]; i++) {
    accel_generations *result = NULL;
    if (accel_wait_generations(&ticket[i], -1, &result) != ACCEL_OK)
      code = failed(i ? name[i - 1] : "base");
    else
      printf("%s: %s\n", i ? name[i - 1] : "base", result->item[0].text);
    accel_generations_free(&result);
  }
  return code;
}

int main(int argc, char **argv) {
  accel *ctx = NULL;
  accel_endpoint *endpoint = NULL;
  accel_adapter *adapter[MOST] = {NULL};
  accel_init_params params = accel_init_params_default();
  int code = 0;
  if (argc < 4 || argc > 3 + MOST) {
    fprintf(stderr, "usage: %s MODEL TEXT ADAPTER...\n", argv[0]);
    return 2;
  }
  params.enable_adapters = 1;
  if (accel_create(NULL, &ctx) != ACCEL_OK) return failed("create");
  if (accel_init(ctx, argv[1], &params, &endpoint) != ACCEL_OK) code = failed(argv[1]);
  for (int i = 0; i < argc - 3 && !code; i++)
    if (accel_adapter_load(endpoint, argv[3 + i], &adapter[i]) != ACCEL_OK)
      code = failed(argv[3 + i]);
  if (!code) code = ask(endpoint, argv[2], adapter, argv + 3, argc - 3);
  for (int i = 0; i < MOST; i++) accel_adapter_free(&adapter[i]);
  accel_cleanup(&endpoint);
  accel_destroy(&ctx);
  return code;
}
