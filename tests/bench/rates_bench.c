/* rates_bench.c - rates of language models, each beside another one in the same process.
 *
 *   rates_bench PRECISION THREADS PROMPT NEW ROUNDS {BASE MODEL}...
 *
 * Directories with a config.json; weights are random.  In each round a prompt of PROMPT tokens and
 * NEW greedy ones behind it go through BASE and MODEL in turn, the first one in every other round
 * first, so that whatever slows the machine down meets both.  A line of JSON for each pair: MODEL's rates
 * in tokens a second, and these divided by BASE's; each is the mean of the fastest quarter of the
 * rounds.  `..._cpu` are ratios of the process's processor time, which other programs disturb less
 * (with one thread: with more, waiting for each other counts). */
#include "generate_bench.h"

enum { MOST_ROUNDS = 200, MOST_PROMPT = 8192 };

/* Milliseconds, of the clock and of the processor. */
typedef struct times {
  double prompt, decode, prompt_cpu, decode_cpu;
} times;

typedef struct setting {
  uint32_t prompt, fresh, rounds;
  int32_t ids[MOST_PROMPT];
} setting;

static double cpu_ms(void) {
  struct timespec t;
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
  return 1e3 * (double)t.tv_sec + 1e-6 * (double)t.tv_nsec;
}

static int note_first(void *user, const accel_token_event *event) {
  double *first = user;
  (void)event;
  if (*first == 0) *first = cpu_ms();
  return 0;
}

static times run(const setting *s, accel_endpoint *ep) {
  accel_generate_params how = accel_generate_params_default();
  accel_generations *out;
  const int32_t *ids = s->ids;
  double first = 0;
  how.max_new_tokens = (int32_t)s->fresh;
  how.ignore_eos = 1;
  how.do_sample = 0;
  how.on_token = note_first;
  how.on_token_user = &first;
  const double begin = cpu_ms();
  must(accel_generate_ids(ep, &ids, &s->prompt, 1, &how, &out), "generate");
  const times t = {out->prefill_ms, out->decode_ms, first - begin, cpu_ms() - first};
  accel_generations_free(&out);
  return t;
}

/* The mean of the fastest quarter; sorts x. */
static double fastest(double *x, uint32_t n) {
  const uint32_t quarter = (n + 3) / 4;
  double sum = 0;
  qsort(x, n, sizeof *x, ascending);
  for (uint32_t i = 0; i < quarter; i++) sum += x[i];
  return sum / quarter;
}

static void compare(const setting *s, const char *name, accel_endpoint *base,
                    accel_endpoint *model) {
  enum { PROMPT, DECODE, PROMPT_CPU, DECODE_CPU, FIGURES };
  static double ms[2][FIGURES][MOST_ROUNDS];
  double ratio[FIGURES];
  for (uint32_t r = 0; r < s->rounds; r++)
    for (uint32_t turn = 0; turn < 2; turn++) {
      const uint32_t mine = (turn + r) % 2;
      const times t = run(s, mine ? model : base);
      ms[mine][PROMPT][r] = t.prompt;
      ms[mine][DECODE][r] = t.decode;
      ms[mine][PROMPT_CPU][r] = t.prompt_cpu;
      ms[mine][DECODE_CPU][r] = t.decode_cpu;
    }
  for (int i = 0; i < FIGURES; i++)
    ratio[i] = fastest(ms[0][i], s->rounds) / fastest(ms[1][i], s->rounds);
  printf(
      "{\"model\": \"%s\", \"prompt\": %.1f, \"decode\": %.1f, \"prompt_ratio\": %.4f, "
      "\"decode_ratio\": %.4f, \"prompt_ratio_cpu\": %.4f, \"decode_ratio_cpu\": %.4f}\n",
      name, 1e3 * s->prompt / fastest(ms[1][PROMPT], s->rounds),
      1e3 * (s->fresh - 1) / fastest(ms[1][DECODE], s->rounds), ratio[PROMPT], ratio[DECODE],
      ratio[PROMPT_CPU], ratio[DECODE_CPU]);
  fflush(stdout);
}

static uint32_t number(const char *given, uint32_t least, uint32_t most) {
  const long n = strtol(given, NULL, 10);
  return n < (long)least ? least : n > (long)most ? most : (uint32_t)n;
}

int main(int argc, char **argv) {
  static setting s;
  uint32_t seed = 11;
  if (argc < 8 || argc % 2) return fprintf(stderr, "usage: see rates_bench.c\n"), 2;
  accel *ctx = open_context(number(argv[2], 1, 256));
  s.prompt = number(argv[3], 1, MOST_PROMPT);
  s.fresh = number(argv[4], 2, MOST_PROMPT);
  s.rounds = number(argv[5], 1, MOST_ROUNDS);
  for (uint32_t i = 0; i < s.prompt; i++) s.ids[i] = 3 + (int32_t)(next_number(&seed) % 1000);
  for (int i = 6; i < argc; i += 2) {
    accel_endpoint *base = open_bench(ctx, argv[i], "cpu", argv[1]),
                   *model = open_bench(ctx, argv[i + 1], "cpu", argv[1]);
    for (int warm = 0; warm < 2; warm++) {
      run(&s, base);
      run(&s, model);
    }
    compare(&s, argv[i + 1], base, model);
    accel_cleanup(&base);
    accel_cleanup(&model);
  }
  accel_destroy(&ctx);
  return 0;
}
