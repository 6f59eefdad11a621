/* queued.c - an urgent prompt beside others in a model's queue, and one that is withdrawn.
 *
 *   queued MODEL [TEXT]                        MODEL: a directory or an id of a model that generates
 */
#include <accel/accel.h>
#include <stdio.h>

enum { REQUESTS = 4, URGENT = 2, WITHDRAWN = 3 };

static int report(accel_status status) {
  fprintf(stderr, "%s\n%s\n", accel_last_error(), accel_last_remedy());
  return accel_status_exit_code(status);
}

/* Called from the queue's thread. */
static void on_done(void *user) { printf("request %s is done\n", (const char *)user); }

int main(int argc, char **argv) {
  static char *const names[REQUESTS] = {"0", "1", "2 (urgent)", "3 (withdrawn)"};
  if (argc < 2) {
    fprintf(stderr, "usage: %s MODEL [TEXT]\n", argv[0]);
    return 2;
  }
  accel *ctx = NULL;
  accel_endpoint *model = NULL;
  accel_ticket *ticket[REQUESTS] = {NULL};
  accel_status status = accel_create(NULL, &ctx);
  if (status == ACCEL_OK) status = accel_init(ctx, argv[1], NULL, &model);

  accel_generate_params wishes = accel_generate_params_default();
  wishes.max_new_tokens = 16;
  for (int i = 0; i < REQUESTS && status == ACCEL_OK; i++) {
    accel_request r = accel_request_default(ACCEL_REQUEST_GENERATE);
    r.prompt = argc > 2 ? argv[2] : "Once upon a time";
    r.generate = &wishes;
    r.priority = i == URGENT;
    r.deadline_ms = 60000; /* nobody waits longer for it to begin */
    r.done = on_done;
    r.user = names[i];
    status = accel_submit_request(accel_queue_of(model), &r, &ticket[i]);
  }
  accel_ticket_cancel(ticket[WITHDRAWN]);

  int code = status == ACCEL_OK ? 0 : report(status);
  for (int i = 0; i < REQUESTS; i++) {
    accel_generations *found = NULL;
    if (!ticket[i]) continue;
    status = accel_wait_generations(&ticket[i], -1, &found);
    if (status == ACCEL_OK)
      printf("%s:%s\n", names[i], found->item[0].text);
    else if (status == ACCEL_ERROR_CANCELLED || status == ACCEL_ERROR_TIMEOUT)
      printf("%s: %s\n", names[i], accel_last_error());
    else
      code = report(status);
    accel_generations_free(&found);
  }
  accel_cleanup(&model);
  accel_destroy(&ctx);
  return code;
}
