/* tensor_parallel.c - one model over several processes, each with a part of every layer.
 *
 *   tensor_parallel MODEL RANKS [TEXT]         RANKS must divide the model's heads
 */
#include <accel/accel.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

static int report(accel_status status) {
  fprintf(stderr, "%s\n%s\n", accel_last_error(), accel_last_remedy());
  return accel_status_exit_code(status);
}

/* The first rank calls the library as a program that is alone does. */
static accel_status lead(accel *ctx, const char *path, const char *text) {
  accel_init_params how = accel_init_params_default();
  accel_generate_params wishes = accel_generate_params_default();
  accel_endpoint *model = NULL;
  accel_generations *found = NULL;
  wishes.max_new_tokens = 16;
  accel_status status = accel_init(ctx, path, &how, &model);
  if (status == ACCEL_OK) status = accel_generate(model, &text, 1, &wishes, &found);
  if (status == ACCEL_OK) printf("%s%s\n", text, found->item[0].text);
  accel_generations_free(&found);
  accel_cleanup(&model);
  return status;
}

static int be_rank(accel_params params, const char *path, const char *text) {
  accel *ctx = NULL;
  accel_status status = accel_create(&params, &ctx); /* waits for the others */
  if (status == ACCEL_OK) status = params.rank ? accel_follow(ctx) : lead(ctx, path, text);
  const int code = status == ACCEL_OK ? 0 : report(status);
  accel_destroy(&ctx); /* of the first rank: lets the others go */
  return code;
}

int main(int argc, char **argv) {
  if (argc < 3) {
    fprintf(stderr, "usage: %s MODEL RANKS [TEXT]\n", argv[0]);
    return 2;
  }
  char job[32];
  snprintf(job, sizeof job, "example-%ld", (long)getpid());
  accel_params params = accel_params_default();
  params.world = (uint32_t)atoi(argv[2]);
  params.job = job;
  for (params.rank = 1; params.rank < params.world; ++params.rank) {
    const pid_t pid = fork();
    if (pid < 0) {
      perror("fork");
      return 1;
    }
    if (pid == 0) exit(be_rank(params, NULL, NULL));
  }
  params.rank = 0;
  int code = be_rank(params, argv[1], argc > 3 ? argv[3] : "Once upon a time"), other;
  while (wait(&other) > 0)
    if (other && !code) code = 1;
  return code;
}
