/* batching_bench.c - many generations at once through a queue: tokens a second, beside what the
 * same rows cost as one prompt.
 *
 *   batching_bench MODEL [--precision int4] [--threads 2] [--requests 8] [--prompt 32] [--new 48]
 *   [--rounds 3]
 *
 * In turn: `requests` generations submitted together, timed from the step on which all of them have
 * their first token until the first has its last; the prefill of one prompt of `requests` tokens
 * ("rows": the model's own rate for as many rows); and one request alone.  Medians over the
 * rounds.  Every output of the group must be what the request gives alone, else the program
 * fails. */
#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bench_timer.h"
#include "accel/accel.h"

enum { MOST = 64, MAX_ROUNDS = 32 };

typedef struct setting {
  const char *model, *precision;
  uint32_t threads, requests, prompt, new_tokens, rounds;
} setting;

/* What the queue's thread tells. */
typedef struct watch {
  uint32_t events[MOST], requests;
  double first_all, last_any; /* when all had begun; when one was the first to end */
  uint64_t tokens;            /* between the two */
} watch;
typedef struct listener {
  watch *w;
  uint32_t number;
} listener;

static void must(accel_status status, const char *what) {
  if (status == ACCEL_OK) return;
  fprintf(stderr, "%s: %s\n", what, accel_last_error());
  exit(1);
}

static int count_event(void *user, const accel_token_event *event) {
  listener *l = user;
  watch *w = l->w;
  bool before = true, all = true;
  for (uint32_t i = 0; i < w->requests; i++) before &= w->events[i] > 0;
  w->events[l->number]++;
  for (uint32_t i = 0; i < w->requests; i++) all &= w->events[i] > 0;
  if (all && !before) w->first_all = now();
  if (before && w->last_any == 0) w->tokens++;
  if (event->finish && w->last_any == 0) w->last_any = now();
  return 0;
}

static accel_generate_params greedy(const setting *s) {
  accel_generate_params how = accel_generate_params_default();
  how.max_new_tokens = (int32_t)s->new_tokens;
  how.do_sample = 0;
  how.num_beams = 1;
  how.ignore_eos = 1;
  return how;
}

/* Tokens a second of the group; its outputs are left in `out`. */
static double group(accel_endpoint *endpoint, const setting *s, int32_t *const *ids,
                    accel_generations **out) {
  accel_generate_params how = greedy(s);
  accel_ticket *ticket[MOST];
  listener listeners[MOST];
  watch w = {.requests = s->requests};
  how.on_token = count_event;
  for (uint32_t i = 0; i < s->requests; i++) {
    listeners[i] = (listener){&w, i};
    how.on_token_user = &listeners[i];
    must(accel_submit_generate(accel_queue_of(endpoint), NULL, ids[i], s->prompt, &how, &ticket[i]),
         "submit");
  }
  for (uint32_t i = 0; i < s->requests; i++)
    must(accel_wait_generations(&ticket[i], -1, &out[i]), "wait");
  return (double)w.tokens / (w.last_any - w.first_all);
}

/* Tokens a second of `n` rows of one prompt, or (rows false) of one request's decoding. */
static double alone(accel_endpoint *endpoint, const setting *s, const int32_t *ids, uint32_t n,
                    bool rows, accel_generations **out) {
  accel_generate_params how = greedy(s);
  if (rows) how.max_new_tokens = 1;
  must(accel_generate_ids(endpoint, &ids, &n, 1, &how, out), "generate");
  return rows ? 1e3 * n / (*out)->prefill_ms : 1e3 * (s->new_tokens - 1) / (*out)->decode_ms;
}

static void compare(const accel_generations *a, const accel_generations *b, uint32_t request) {
  if (a->item->n == b->item->n &&
      !memcmp(a->item->ids, b->item->ids, a->item->n * sizeof *a->item->ids))
    return;
  fprintf(stderr, "request %u gives other tokens in company than alone\n", request);
  exit(1);
}

static void measure(accel_endpoint *endpoint, const setting *s) {
  static double together[MAX_ROUNDS], rows[MAX_ROUNDS], single[MAX_ROUNDS], share[MAX_ROUNDS];
  int32_t *ids[MOST];
  uint64_t random = 1;
  for (uint32_t i = 0; i < s->requests; i++) {
    ids[i] = malloc((s->prompt + s->requests) * sizeof **ids);
    if (!ids[i]) exit(1);
    for (uint32_t k = 0; k < s->prompt + s->requests; k++) {
      random = random * 6364136223846793005u + 1442695040888963407u;
      ids[i][k] = 10 + (int32_t)((random >> 33) % 1000);
    }
  }
  for (uint32_t r = 0; r < s->rounds; r++) {
    accel_generations *found[MOST], *one;
    together[r] = group(endpoint, s, ids, found);
    double best = 0;
    for (int i = 0; i < 5; i++) {
      best = fmax(best, alone(endpoint, s, ids[0], s->requests, true, &one));
      accel_generations_free(&one);
    }
    rows[r] = best;
    for (uint32_t i = 0; i < s->requests; i++) {
      if (r && i) continue; /* the first round compares all, the others time one */
      single[r] = alone(endpoint, s, ids[i], s->prompt, false, &one);
      compare(found[i], one, i);
      accel_generations_free(&one);
    }
    for (uint32_t i = 0; i < s->requests; i++) accel_generations_free(&found[i]);
    share[r] = together[r] / rows[r];
  }
  printf("%s %s, %u threads, %u requests of %u + %u tokens, %u rounds\n", s->model, s->precision,
         s->threads, s->requests, s->prompt, s->new_tokens, s->rounds);
  printf(
      "together %.1f tokens/s; a prompt of %u rows %.1f tokens/s; share %.0f %%; one request alone "
      "%.1f tokens/s\n",
      median(together, s->rounds), s->requests, median(rows, s->rounds),
      100 * median(share, s->rounds), median(single, s->rounds));
  printf("every output equals the one alone\n");
  for (uint32_t i = 0; i < s->requests; i++) free(ids[i]);
}

int main(int argc, char **argv) {
  setting s = {.precision = "int4",
               .threads = 2,
               .requests = 8,
               .prompt = 32,
               .new_tokens = 48,
               .rounds = 3};
  for (int i = 1; i < argc; i++) {
    const char *value = argv[i][0] == '-' && i + 1 < argc ? argv[i + 1] : NULL;
    static const char *const names[] = {"--threads", "--requests", "--prompt", "--new", "--rounds"};
    uint32_t *const numbers[] = {&s.threads, &s.requests, &s.prompt, &s.new_tokens, &s.rounds};
    if (value && !strcmp(argv[i], "--precision")) s.precision = value;
    for (int k = 0; value && k < 5; k++)
      if (!strcmp(argv[i], names[k])) *numbers[k] = (uint32_t)strtoul(value, NULL, 10);
    if (value)
      i++;
    else
      s.model = argv[i];
  }
  if (!s.model || !s.requests || s.requests > MOST || !s.rounds || s.rounds > MAX_ROUNDS ||
      s.new_tokens < 2 || !s.prompt) {
    fprintf(stderr,
            "batching_bench MODEL [--precision P] [--threads N] [--requests 1..64] [--prompt N] "
            "[--new N] [--rounds 1..32]\n");
    return 2;
  }
  accel_params params = accel_params_default();
  accel_init_params how = accel_init_params_default();
  accel *ctx;
  accel_endpoint *endpoint;
  params.threads = s.threads;
  how.device = "cpu";
  how.precision = s.precision;
  how.queue_capacity = MOST;
  must(accel_create(&params, &ctx), "create");
  must(accel_init(ctx, s.model, &how, &endpoint), "init");
  measure(endpoint, &s);
  accel_cleanup(&endpoint);
  accel_destroy(&ctx);
  return 0;
}
