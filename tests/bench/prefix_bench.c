/* prefix_bench.c - time to the first token of a request behind a prompt that another has read.
 *
 *   prefix_bench DIRECTORY [--precision fp32] [--device cpu] [--threads 2] [--shared 1000]
 *   [--own 32] [--rounds 7]
 *
 * A decoder of 101 million random weights, whose config.json is written to DIRECTORY.  In each round
 * a prompt of `shared` new tokens and `own` others goes through the queue, then one of the same
 * shared tokens and `own` different ones: milliseconds from submission to the first token of both,
 * and their ratio, medians over the rounds.  A second endpoint without a prefix cache is given the
 * second prompt, too: its tokens and log probabilities must be the same, bit by bit, else the
 * program fails. */
#include "generate_bench.h"

enum { MOST_ROUNDS = 64, MOST_TOKENS = 8000 };

typedef struct setting {
  const char *directory, *precision, *device;
  uint32_t threads, shared, own, rounds;
} setting;

static int note_first(void *user, const accel_token_event *event) {
  double *first = user;
  (void)event;
  if (*first == 0) *first = now();
  return 0;
}

/* Milliseconds to the first token. */
static double run(accel_endpoint *ep, const int32_t *ids, uint32_t n, accel_generations **out) {
  accel_generate_params how = accel_generate_params_default();
  double first = 0;
  accel_ticket *ticket;
  how.max_new_tokens = 8;
  how.ignore_eos = 1;
  how.logprobs = 0;
  how.on_token = note_first;
  how.on_token_user = &first;
  const double begin = now();
  must(accel_submit_generate(accel_queue_of(ep), NULL, ids, n, &how, &ticket), "submit");
  must(accel_wait_generations(&ticket, -1, out), "wait");
  return 1e3 * (first - begin);
}

static void make_tokens(uint32_t *seed, int32_t *ids, uint32_t n) {
  for (uint32_t i = 0; i < n; i++) ids[i] = 3 + (int32_t)(next_number(seed) % (BENCH_VOCAB - 3));
}

static void check(const accel_generations *got, const accel_generations *want) {
  const accel_generation *a = got->item, *b = want->item;
  if (a->n == b->n && !memcmp(a->ids, b->ids, a->n * sizeof *a->ids) &&
      !memcmp(a->logprob, b->logprob, a->n * sizeof *a->logprob))
    return;
  fprintf(stderr, "a prompt behind a shared beginning gives other numbers than one that is read\n");
  exit(1);
}

static void measure(const setting *s, accel_endpoint *with, accel_endpoint *without) {
  static int32_t ids[MOST_TOKENS];
  double whole[MOST_ROUNDS], shared[MOST_ROUNDS], ratio[MOST_ROUNDS];
  const uint32_t n = s->shared + s->own;
  uint32_t seed = 1, cached = 0;
  for (uint32_t r = 0; r < s->rounds; r++) {
    accel_generations *first, *second, *want;
    make_tokens(&seed, ids, n);
    whole[r] = run(with, ids, n, &first);
    make_tokens(&seed, ids + s->shared, s->own);
    shared[r] = run(with, ids, n, &second);
    run(without, ids, n, &want);
    check(second, want);
    ratio[r] = whole[r] / shared[r];
    cached = second->item[0].cached_tokens;
    accel_generations_free(&first);
    accel_generations_free(&second);
    accel_generations_free(&want);
  }
  printf(
      "%s: %u tokens, %u of the second prompt kept: first token after %.1f ms, then %.1f ms: "
      "%.1f times sooner\n",
      s->precision, n, cached, median(whole, s->rounds), median(shared, s->rounds),
      median(ratio, s->rounds));
}

static uint32_t number(const char *text, uint32_t least, uint32_t most) {
  const long n = strtol(text, NULL, 10);
  return n < (long)least ? least : n > (long)most ? most : (uint32_t)n;
}

int main(int argc, char **argv) {
  setting s = {
      .precision = "fp32", .device = "cpu", .threads = 2, .shared = 1000, .own = 32, .rounds = 7};
  if (argc < 2 || argc % 2) return fprintf(stderr, "usage: prefix_bench DIRECTORY [OPTIONS]\n"), 2;
  s.directory = argv[1];
  for (int i = 2; i < argc; i += 2) {
    if (!strcmp(argv[i], "--precision")) s.precision = argv[i + 1];
    if (!strcmp(argv[i], "--device")) s.device = argv[i + 1];
    if (!strcmp(argv[i], "--threads")) s.threads = number(argv[i + 1], 1, 256);
    if (!strcmp(argv[i], "--shared")) s.shared = number(argv[i + 1], 1, MOST_TOKENS / 2);
    if (!strcmp(argv[i], "--own")) s.own = number(argv[i + 1], 1, MOST_TOKENS / 2);
    if (!strcmp(argv[i], "--rounds")) s.rounds = number(argv[i + 1], 1, MOST_ROUNDS);
  }
  if (!made_model(s.directory, 12)) return perror(s.directory), 1;
  accel *ctx = open_context(s.threads);
  accel_endpoint *with = open_bench(ctx, s.directory, s.device, s.precision), *without;
  accel_init_params how = accel_init_params_default();
  how.device = s.device;
  how.precision = s.precision;
  how.random_weights = 1;
  how.prefix_cache_bytes = 0;
  must(accel_init(ctx, s.directory, &how, &without), s.directory);
  measure(&s, with, without);
  accel_cleanup(&with);
  accel_cleanup(&without);
  accel_destroy(&ctx);
  return 0;
}
