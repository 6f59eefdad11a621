/* documents.c - answers from documents: an index of a folder is brought up to date and asked.
 *
 *   documents INDEX EMBEDDER FOLDER QUESTION [GENERATOR]
 *
 * Without GENERATOR the passages that fit best are printed; with it the model's answer comes first,
 * which cites them as [1], [2]. */
#include <accel/accel.h>
#include <stdio.h>

static int report(accel_status status) {
  fprintf(stderr, "%s\n%s\n", accel_last_error(), accel_last_remedy());
  return accel_status_exit_code(status);
}

static int print_token(void *user, const accel_token_event *event) {
  (void)user;
  fputs(event->text, stdout);
  return fflush(stdout) != 0; /* nobody reads any more: end the answer */
}

static void print_sources(const accel_rag_passages *found) {
  for (uint32_t i = 0; i < found->n; i++) {
    const accel_rag_passage *p = &found->item[i];
    printf("[%u] %s:%u-%u %s\n%s\n\n", i + 1, p->path, p->first_line, p->last_line, p->heading,
           p->text);
  }
}

static accel_status answer(accel *ctx, accel_rag *index, const char *question, const char *model) {
  accel_endpoint *generator = NULL;
  accel_rag_answer *made = NULL;
  accel_generate_params how = accel_generate_params_default();
  how.on_token = print_token;
  accel_status status = accel_init(ctx, model, NULL, &generator);
  if (status == ACCEL_OK)
    status = accel_rag_answer_query(index, generator, question, NULL, &how, &made);
  if (status == ACCEL_OK) puts("\n");
  if (status == ACCEL_OK) print_sources(made->sources);
  accel_rag_answer_free(&made);
  accel_cleanup(&generator);
  return status;
}

static accel_status search(accel_rag *index, const char *question) {
  accel_rag_passages *found = NULL;
  accel_status status = accel_rag_search(index, question, NULL, &found);
  if (status == ACCEL_OK) print_sources(found);
  accel_rag_passages_free(&found);
  return status;
}

int main(int argc, char **argv) {
  if (argc != 5 && argc != 6) {
    fprintf(stderr, "usage: %s INDEX EMBEDDER FOLDER QUESTION [GENERATOR]\n", argv[0]);
    return 2;
  }
  accel *ctx = NULL;
  accel_endpoint *embedder = NULL;
  accel_rag *index = NULL;
  accel_rag_changes *changes = NULL;
  accel_rag_params how = accel_rag_params_default();
  how.create = 1;
  accel_status status = accel_create(NULL, &ctx);
  if (status == ACCEL_OK) status = accel_init(ctx, argv[2], NULL, &embedder);
  if (status == ACCEL_OK) status = accel_rag_open(ctx, argv[1], embedder, &how, &index);
  if (status == ACCEL_OK) status = accel_rag_add(index, (const char *const *)argv + 3, 1, &changes);
  if (status == ACCEL_OK)
    printf("%u added, %u changed, %u unchanged, %u removed\n", changes->added, changes->changed,
           changes->unchanged, changes->removed);
  if (status == ACCEL_OK)
    status = argc == 6 ? answer(ctx, index, argv[4], argv[5]) : search(index, argv[4]);
  const int code = status == ACCEL_OK ? 0 : report(status);
  accel_rag_changes_free(&changes);
  accel_rag_close(&index);
  accel_cleanup(&embedder);
  accel_destroy(&ctx);
  return code;
}
