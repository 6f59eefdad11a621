/* speculate_bench.c - speculation beside plain decoding: the same tokens, and how much sooner.
 *
 *   speculate_bench DIRECTORY [--precision fp32] [--device cpu] [--threads 2] [--tokens 300]
 *   [--rounds 5] [--assistant 0]
 *   speculate_bench --check PROMPTS MODEL... [--device D]   (environment: CHECK_PRECISION)
 *
 * First form: a decoder of 101 million random weights, whose config.json is written to DIRECTORY.
 * What it generates is laid down by sequence_bias, token by token, so that texts are those of the
 * task and steps cost what they cost:
 *   edit     the 600 tokens of the prompt again, one of 20 replaced
 *   quote    20 new tokens, then 20 of the prompt, in turn
 *   words    no copy: words as often as in a language (Zipf), so that n-grams come again and go on
 *            in another way
 *   drawn    nothing is laid down: tokens drawn at temperature 1
 * Plain decoding and speculation by lookup in turn, tokens a second after the first one, medians
 * over the rounds of their ratio, and of that of the thread's processor time; --assistant 1: a model
 * of 2 layers guesses as well (under the same biases, so nearly always right).
 *
 * Second form: greedy tokens and log probabilities of PROMPTS prompts with each model, plain and by
 * lookup, and with the model itself as the assistant: all the same, or the program fails. */
#include "generate_bench.h"

enum { MOST_ROUNDS = 32, PROMPT = 600, MOST_NEW = 1200, CONTEXT = 5 };

typedef struct setting {
  const char *directory, *precision, *device;
  uint32_t threads, tokens, rounds, assistant;
} setting;

/* A prompt and what comes behind it. */
typedef struct text {
  const char *name;
  int32_t ids[PROMPT + MOST_NEW];
  char *config; /* sequence_bias; NULL: tokens are drawn */
} text;

/* ---- texts ---- */

static int32_t any_token(uint32_t *seed) {
  return 3 + (int32_t)(next_number(seed) % (BENCH_VOCAB - 3));
}

/* Of 5,000 words, the n-th once in n. */
static int32_t zipf_token(uint32_t *seed) {
  static double sums[5000];
  if (sums[0] == 0)
    for (int i = 0; i < 5000; i++) sums[i] = (i ? sums[i - 1] : 0) + 1.0 / (i + 1);
  const double u = (double)next_number(seed) / (1 << 24) * sums[4999];
  int i = 0;
  while (i < 4999 && sums[i] < u) i++;
  return 3 + i;
}

/* Each token has its bias behind the CONTEXT tokens before it. */
static char *lay_down(const int32_t *ids, uint32_t n) {
  char *json = malloc((size_t)n * 128 + 64), *at = json;
  if (!json) exit(1);
  at += sprintf(at, "{\"sequence_bias\": [");
  for (uint32_t i = PROMPT; i < PROMPT + n; i++) {
    at += sprintf(at, "%s[[", i > PROMPT ? ", " : "");
    for (uint32_t k = i - CONTEXT; k <= i; k++)
      at += sprintf(at, "%s%d", k + CONTEXT > i ? ", " : "", ids[k]);
    at += sprintf(at, "], 1000.0]");
  }
  sprintf(at, "]}");
  return json;
}

static void make_text(text *t, const char *name, uint32_t n) {
  uint32_t seed = 7;
  t->name = name;
  const bool words = !strcmp(name, "words");
  for (uint32_t i = 0; i < PROMPT; i++) t->ids[i] = words ? zipf_token(&seed) : any_token(&seed);
  for (uint32_t i = 0; i < n; i++) {
    int32_t *to = &t->ids[PROMPT + i];
    const int32_t copy = t->ids[i % PROMPT];
    if (!strcmp(name, "edit"))
      *to = next_number(&seed) % 20 ? copy : any_token(&seed);
    else if (!strcmp(name, "quote"))
      *to = i / 20 % 2 ? copy : any_token(&seed);
    else
      *to = words ? zipf_token(&seed) : any_token(&seed);
  }
  t->config = strcmp(name, "drawn") ? lay_down(t->ids, n) : NULL;
}

/* ---- runs ---- */

static accel_generations *run(accel_endpoint *ep, const int32_t *ids, uint32_t n,
                              const accel_generate_params *how) {
  accel_generations *out;
  must(accel_generate_ids(ep, &ids, &n, 1, how, &out), "generate");
  return out;
}

static void must_equal(const accel_generations *a, const accel_generations *b, const char *what) {
  const accel_generation *x = a->item, *y = b->item;
  if (x->n == y->n && !memcmp(x->ids, y->ids, x->n * sizeof *x->ids) &&
      !strcmp(x->finish, y->finish) &&
      (!x->logprob || !memcmp(x->logprob, y->logprob, x->n * sizeof *x->logprob)))
    return;
  uint32_t at = 0;
  while (at < x->n && at < y->n && x->ids[at] == y->ids[at]) at++;
  fprintf(stderr, "%s: other tokens, or log probabilities, than plain decoding, from %u on\n", what,
          at);
  exit(1);
}

/* Processor time of the generating thread at its first and last token: with --threads 1 that is all
 * there is, whatever else runs on the machine. */
typedef struct busy {
  double first, last;
} busy;

static int note_busy(void *user, const accel_token_event *event) {
  busy *b = user;
  struct timespec t;
  (void)event;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
  b->last = (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
  if (b->first == 0) b->first = b->last;
  return 0;
}

static double rate(const accel_generations *g) {
  return 1e3 * (double)(g->new_tokens - 1) / g->decode_ms;
}

static void measure(const setting *s, accel_endpoint *ep, accel_endpoint *assistant,
                    const text *t) {
  double plain[MOST_ROUNDS], guessed[MOST_ROUNDS], ratio[MOST_ROUNDS], cpu[MOST_ROUNDS];
  uint32_t made = 0, right = 0, steps = 0;
  for (uint32_t r = 0; r < s->rounds; r++) {
    accel_generate_params how = accel_generate_params_default();
    accel_generations *a, *b;
    how.max_new_tokens = (int32_t)s->tokens;
    how.ignore_eos = 1;
    how.config = t->config;
    how.do_sample = t->config == NULL;
    how.top_k = 0;
    how.seed = r + 1;
    if (t->config) how.top_k = -1;
    busy slow_busy = {0}, fast_busy = {0};
    how.on_token = note_busy;
    how.on_token_user = &slow_busy;
    accel_generate_params fast = how;
    fast.on_token_user = &fast_busy;
    if (assistant)
      fast.assistant_model = assistant;
    else
      fast.prompt_lookup_num_tokens = 15;
    if (r % 2) b = run(ep, t->ids, PROMPT, &fast);
    a = run(ep, t->ids, PROMPT, &how);
    if (r % 2 == 0) b = run(ep, t->ids, PROMPT, &fast);
    must_equal(a, b, t->name);
    if (t->config && memcmp(a->item->ids, t->ids + PROMPT, s->tokens * sizeof *t->ids)) {
      fprintf(stderr, "%s: not the text that was laid down\n", t->name);
      exit(1);
    }
    plain[r] = rate(a);
    guessed[r] = rate(b);
    ratio[r] = guessed[r] / plain[r];
    cpu[r] = (slow_busy.last - slow_busy.first) / (fast_busy.last - fast_busy.first);
    made = b->item->draft_tokens, right = b->item->accepted_tokens, steps = b->steps;
    accel_generations_free(&a);
    accel_generations_free(&b);
  }
  printf(
      "%-6s %-9s plain %.1f tokens/s, guessed %.1f: %.2f times, %.2f by processor time (%u of %u "
      "guesses right, %u steps)\n",
      t->name, assistant ? "assistant" : "lookup", median(plain, s->rounds),
      median(guessed, s->rounds), median(ratio, s->rounds), median(cpu, s->rounds), right, made,
      steps);
  fflush(stdout);
}

/* ---- the same tokens ---- */

static void check_model(accel *ctx, const char *model, const char *device, uint32_t prompts) {
  accel_init_params how = accel_init_params_default();
  accel_endpoint *ep;
  const char *precision = getenv("CHECK_PRECISION");
  how.device = device;
  how.precision = precision ? precision : "fp32";
  must(accel_init(ctx, model, &how, &ep), model);
  uint64_t right = 0, tokens = 0;
  uint32_t seed = 5;
  for (uint32_t p = 0; p < prompts; p++) {
    int32_t ids[12];
    const uint32_t n = 3 + next_number(&seed) % 8;
    for (uint32_t i = 0; i < n; i++) ids[i] = 3 + (int32_t)(next_number(&seed) % 40);
    accel_generate_params plain = accel_generate_params_default();
    plain.max_new_tokens = 30;
    plain.ignore_eos = 1;
    plain.do_sample = 0;
    plain.logprobs = 0;
    accel_generate_params lookup = plain, own = plain;
    lookup.prompt_lookup_num_tokens = 10;
    own.assistant_model = ep;
    accel_generations *want = run(ep, ids, n, &plain), *a = run(ep, ids, n, &lookup),
                      *b = run(ep, ids, n, &own);
    must_equal(want, a, model);
    must_equal(want, b, model);
    right += a->item->accepted_tokens + b->item->accepted_tokens;
    tokens += want->new_tokens;
    accel_generations_free(&want);
    accel_generations_free(&a);
    accel_generations_free(&b);
  }
  printf("%s at %s on %s: %u prompts, %llu tokens, the same both ways; %llu guesses right\n", model,
         how.precision, device, prompts, (unsigned long long)tokens, (unsigned long long)right);
  accel_cleanup(&ep);
}

static int check(int argc, char **argv) {
  accel *ctx = open_context(2);
  const char *device = "cpu";
  const uint32_t prompts = argc > 2 ? (uint32_t)strtoul(argv[2], NULL, 10) : 0;
  for (int i = 3; i + 1 < argc; i++)
    if (!strcmp(argv[i], "--device")) device = argv[i + 1];
  for (int i = 3; i < argc; i++)
    if (!strcmp(argv[i], "--device"))
      i++;
    else
      check_model(ctx, argv[i], device, prompts);
  accel_destroy(&ctx);
  return 0;
}

static uint32_t number(const char *given, uint32_t least, uint32_t most) {
  const long n = strtol(given, NULL, 10);
  return n < (long)least ? least : n > (long)most ? most : (uint32_t)n;
}

int main(int argc, char **argv) {
  static const char *const names[] = {"edit", "quote", "words", "drawn"};
  static text t[4];
  setting s = {.precision = "fp32", .device = "cpu", .threads = 2, .tokens = 300, .rounds = 5};
  if (argc > 1 && !strcmp(argv[1], "--check")) return check(argc, argv);
  if (argc < 2 || argc % 2) return fprintf(stderr, "usage: see speculate_bench.c\n"), 2;
  s.directory = argv[1];
  for (int i = 2; i < argc; i += 2) {
    if (!strcmp(argv[i], "--precision")) s.precision = argv[i + 1];
    if (!strcmp(argv[i], "--device")) s.device = argv[i + 1];
    if (!strcmp(argv[i], "--threads")) s.threads = number(argv[i + 1], 1, 256);
    if (!strcmp(argv[i], "--tokens")) s.tokens = number(argv[i + 1], 2, MOST_NEW);
    if (!strcmp(argv[i], "--rounds")) s.rounds = number(argv[i + 1], 1, MOST_ROUNDS);
    if (!strcmp(argv[i], "--assistant")) s.assistant = number(argv[i + 1], 0, 1);
  }
  char small[512];
  snprintf(small, sizeof small, "%s/assistant", s.directory);
  if (!made_model(s.directory, 12) || !made_model(small, 2)) return perror(s.directory), 1;
  accel *ctx = open_context(s.threads);
  accel_endpoint *ep = open_bench(ctx, s.directory, s.device, s.precision),
                 *assistant = s.assistant ? open_bench(ctx, small, s.device, s.precision) : NULL;
  printf("%s\n", s.precision);
  for (int i = 0; i < 4; i++) {
    make_text(&t[i], names[i], s.tokens);
    measure(&s, ep, NULL, &t[i]);
    if (assistant) measure(&s, ep, assistant, &t[i]);
  }
  for (int i = 0; i < 4; i++) free(t[i].config);
  accel_cleanup(&ep);
  accel_cleanup(&assistant);
  accel_destroy(&ctx);
  return 0;
}
