/* stream.c - a model larger than the memory it may use: what that will cost, then a text, then what
 * it did cost.
 *
 *   stream MODEL MEMORY [TEXT [TOKENS]]        MODEL: a directory or an id; MEMORY: MiB, such as 4096
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
  return 0;
}

/* A step of a large model may take seconds: which layer it has reached. */
static void on_progress(void *user, const char *what, uint64_t done, uint64_t all) {
  (void)user;
  if (all > 1 && done < all)
    fprintf(stderr, "\r%s %3.0f %%", what, 100.0 * (double)done / (double)all);
  else
    fprintf(stderr, "\r\033[K");
}

static void say_plan(const accel_fit_record *f) {
  if (f->streams)
    printf("%s: %.1f MB stay in memory, %.1f MB are read for each token\n", f->precision,
           1e-6 * (double)f->stream_resident, 1e-6 * (double)f->stream_read);
  else
    printf("%s: %s\n", f->precision, f->fits == 1 ? "fits in memory" : f->advice);
  if (f->seconds_per_token > 0)
    printf("a token should take %.3f s, the first one %.3f s\n", f->seconds_per_token,
           f->seconds_to_first);
}

static void say_cost(const accel_endpoint *model) {
  accel_stream_stats s = {.size = sizeof s};
  if (accel_streaming(model, &s) != ACCEL_OK || !s.streaming) return;
  printf("%llu runs read %.1f MB: %.2f GB/s, %.0f %% of the time waiting for the disk\n",
         (unsigned long long)s.runs, 1e-6 * (double)(s.bytes - s.load_bytes),
         1e-9 * s.bytes_per_second, 100 * s.wait_share);
}

int main(int argc, char **argv) {
  if (argc < 3) {
    fprintf(stderr, "usage: %s MODEL MEMORY [TEXT [TOKENS]]\n", argv[0]);
    return 2;
  }
  const char *text = argc > 3 ? argv[3] : "Once upon a time";
  accel_params settings = accel_params_default();
  settings.memory_limit = strtoull(argv[2], NULL, 10) << 20;
  settings.progress = on_progress;
  accel *ctx = NULL;
  accel_status status = accel_create(&settings, &ctx);
  if (status != ACCEL_OK) return report(status);

  accel_fit_params plan = accel_fit_params_default();
  plan.device = "cpu";
  plan.precision = "bf16";
  plan.times = 1;
  accel_fit_report *fit = NULL;
  status = accel_fit(ctx, argv[1], &plan, &fit);
  if (status == ACCEL_OK) say_plan(&fit->record[0]);

  accel_init_params how = accel_init_params_default();
  how.device = "cpu";
  how.precision = "bf16";
  accel_endpoint *model = NULL;
  accel_generations *found = NULL;
  accel_generate_params wishes = accel_generate_params_default();
  wishes.max_new_tokens = argc > 4 ? atoi(argv[4]) : 16;
  wishes.on_token = on_token;
  if (status == ACCEL_OK) status = accel_init(ctx, argv[1], &how, &model);
  if (status == ACCEL_OK) status = accel_generate(model, &text, 1, &wishes, &found);
  if (status == ACCEL_OK) {
    printf("\n%u tokens, the first after %.3f s, the others %.3f s each\n", found->item[0].n,
           1e-3 * found->prefill_ms,
           found->item[0].n > 1 ? 1e-3 * found->decode_ms / (found->item[0].n - 1) : 0);
    say_cost(model);
  }
  int code = status == ACCEL_OK ? 0 : report(status);
  accel_generations_free(&found);
  accel_fit_report_free(&fit);
  accel_cleanup(&model);
  accel_destroy(&ctx);
  return code;
}
