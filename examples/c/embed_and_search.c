/* embed_and_search.c - which of these sentences is nearest in meaning to a question?
 *
 *   embed_and_search MODEL [QUESTION]          MODEL: a directory or an id, such as sentence-transformers/all-MiniLM-L6-v2
 */
#include <accel/accel.h>
#include <stdio.h>

static const char *const sentences[] = {
    "The cat sleeps on the warm windowsill.",
    "Trains to the coast leave every hour.",
    "Stir the soup until it begins to boil.",
    "The telescope saw a galaxy twelve billion light years away.",
    "She repaired the old clock in an afternoon.",
};
enum { COUNT = sizeof sentences / sizeof sentences[0] };

static int report(accel_status status) {
  fprintf(stderr, "%s\n%s\n", accel_last_error(), accel_last_remedy());
  return accel_status_exit_code(status);
}

int main(int argc, char **argv) {
  if (argc < 2) {
    fprintf(stderr, "usage: %s MODEL [QUESTION]\n", argv[0]);
    return 2;
  }
  const char *question = argc > 2 ? argv[2] : "When can I travel to the sea?";

  accel *ctx = NULL;
  accel_status status = accel_create(NULL, &ctx);
  if (status != ACCEL_OK) return report(status);

  accel_init_params how = accel_init_params_default();
  how.device = "auto";
  accel_endpoint *embedder = NULL;
  accel_embeddings *known = NULL, *asked = NULL;
  status = accel_init(ctx, argv[1], &how, &embedder);
  if (status == ACCEL_OK) status = accel_embed(embedder, sentences, COUNT, &known);
  if (status == ACCEL_OK) status = accel_embed(embedder, &question, 1, &asked);
  if (status == ACCEL_OK) {
    printf("on %s, %s\n%s\n", accel_placement(embedder)->device,
           accel_placement(embedder)->precision, question);
    for (int i = 0; i < COUNT; ++i)
      printf("  %.4f  %s\n",
             accel_cosine(asked->data, known->data + (size_t)i * known->dim, known->dim),
             sentences[i]);
  }
  int code = status == ACCEL_OK ? 0 : report(status);
  accel_embeddings_free(&asked);
  accel_embeddings_free(&known);
  accel_cleanup(&embedder);
  accel_destroy(&ctx);
  return code;
}
