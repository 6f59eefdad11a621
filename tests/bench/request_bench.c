/* request_bench.c - embeddings through a queue by many clients at once, beside one by one.
 *
 *   request_bench MODEL [--precision fp32] [--device cpu] [--threads 2] [--clients 16]
 *   [--requests 40] [--rounds 5] [--words 0]
 *
 * Each client is a thread that submits a text of its own (of so many words; 0: of 3 to 24), waits
 * for its embedding and submits the next, `requests` times.  In turn with it, one thread embeds the
 * same texts one by one.  Printed: texts a second of both (medians over the rounds), their ratio, and
 * the latency of a request, half and 99 of 100.  Every vector must be what its text gives alone, bit
 * by bit, else the program fails. */
#include <pthread.h>
#include <stdbool.h>
#include <string.h>

#include "bench_timer.h"
#include "accel/accel.h"

enum { MOST_CLIENTS = 256, MOST_ROUNDS = 32, MOST_WORDS = 30, TEXT = 256 };

typedef struct setting {
  const char *model, *precision, *device;
  uint32_t threads, clients, requests, rounds, words;
} setting;

typedef struct client {
  accel_endpoint *endpoint;
  uint32_t requests, dim;
  char (*text)[TEXT]; /* [requests] */
  float *want;        /* [requests][dim]: what each gives alone */
  double *seconds;    /* [requests] latencies of the last round */
} client;

static void must(accel_status status, const char *what) {
  if (status == ACCEL_OK) return;
  fprintf(stderr, "%s: %s\n", what, accel_last_error());
  exit(1);
}

static void *must_have(void *memory) {
  if (!memory) exit(1);
  return memory;
}

/* A sentence of so many words; 0: of 3 to 24. */
static void make_text(uint32_t *seed, uint32_t words_wanted, char *text) {
  static const char *const words[] = {"river", "engine", "quiet",  "measure", "window", "seven",
                                      "north", "carry",  "letter", "green",   "answer", "often"};
  size_t at = 0;
  *seed = *seed * 1664525u + 1013904223u;
  const uint32_t n = words_wanted ? words_wanted : 3 + (*seed >> 16) % 22;
  for (uint32_t i = 0; i < n; i++) {
    *seed = *seed * 1664525u + 1013904223u;
    at += (size_t)snprintf(text + at, TEXT - at, "%s%s", i ? " " : "", words[(*seed >> 16) % 12]);
  }
}

static void check(const client *c, uint32_t i, const accel_embeddings *e) {
  if (e->n == 1 && e->dim == c->dim &&
      !memcmp(e->data, c->want + (size_t)i * c->dim, c->dim * sizeof(float)))
    return;
  fprintf(stderr, "a text gives another vector in company than alone: %s\n", c->text[i]);
  exit(1);
}

static void *run_client(void *arg) {
  const client *c = arg;
  for (uint32_t i = 0; i < c->requests; i++) {
    const double begin = now();
    const char *text = c->text[i];
    accel_request r = accel_request_default(ACCEL_REQUEST_EMBED);
    accel_embeddings *e;
    accel_ticket *ticket;
    r.texts = &text;
    r.n = 1;
    must(accel_submit_request(accel_queue_of(c->endpoint), &r, &ticket), "submit");
    must(accel_wait_embeddings(&ticket, -1, &e), "wait");
    c->seconds[i] = now() - begin;
    check(c, i, e);
    accel_embeddings_free(&e);
  }
  return NULL;
}

/* Seconds of all clients at once. */
static double together(client *c, uint32_t clients) {
  pthread_t thread[MOST_CLIENTS];
  const double begin = now();
  for (uint32_t k = 0; k < clients; k++)
    if (pthread_create(&thread[k], NULL, run_client, &c[k])) exit(1);
  for (uint32_t k = 0; k < clients; k++) pthread_join(thread[k], NULL);
  return now() - begin;
}

/* Seconds of one thread for the texts of all clients; `keep`: their vectors are kept. */
static double one_by_one(client *c, uint32_t clients, bool keep) {
  const double begin = now();
  for (uint32_t k = 0; k < clients; k++)
    for (uint32_t i = 0; i < c[k].requests; i++) {
      const char *text = c[k].text[i];
      accel_embeddings *e;
      must(accel_embed(c[k].endpoint, &text, 1, &e), "embed");
      if (keep && !c[k].want) {
        c[k].dim = e->dim;
        c[k].want = must_have(malloc((size_t)c[k].requests * e->dim * sizeof(float)));
      }
      if (keep)
        memcpy(c[k].want + (size_t)i * e->dim, e->data, e->dim * sizeof(float));
      else
        check(&c[k], i, e);
      accel_embeddings_free(&e);
    }
  return now() - begin;
}

static void measure(accel_endpoint *endpoint, const setting *s) {
  static client c[MOST_CLIENTS];
  static double joint[MOST_ROUNDS], alone[MOST_ROUNDS], share[MOST_ROUNDS];
  const size_t all = (size_t)s->clients * s->requests;
  double *latency = must_have(malloc(all * s->rounds * sizeof *latency));
  uint32_t seed = 1;
  for (uint32_t k = 0; k < s->clients; k++) {
    c[k] = (client){.endpoint = endpoint,
                    .requests = s->requests,
                    .text = must_have(malloc((size_t)s->requests * TEXT)),
                    .seconds = must_have(malloc(s->requests * sizeof(double)))};
    for (uint32_t i = 0; i < s->requests; i++) make_text(&seed, s->words, c[k].text[i]);
  }
  one_by_one(c, s->clients, true);
  for (uint32_t r = 0; r < s->rounds; r++) {
    joint[r] = (double)all / together(c, s->clients);
    for (uint32_t k = 0; k < s->clients; k++)
      memcpy(latency + (r * s->clients + k) * s->requests, c[k].seconds,
             s->requests * sizeof *latency);
    alone[r] = (double)all / one_by_one(c, s->clients, false);
    share[r] = joint[r] / alone[r];
  }
  const double half = median(latency, all * s->rounds);
  printf(
      "%u clients: %.1f texts a second, one by one %.1f: %.2f times; a request %.2f ms, 99 of 100 "
      "%.2f ms\n",
      s->clients, median(joint, s->rounds), median(alone, s->rounds), median(share, s->rounds),
      1e3 * half, 1e3 * latency[(all * s->rounds * 99) / 100]);
  for (uint32_t k = 0; k < s->clients; k++) {
    free(c[k].text);
    free(c[k].seconds);
    free(c[k].want);
  }
  free(latency);
}

static uint32_t number(const char *text, uint32_t least, uint32_t most) {
  const long n = strtol(text, NULL, 10);
  return n < (long)least ? least : n > (long)most ? most : (uint32_t)n;
}

static int usage(void) {
  fprintf(stderr,
          "usage: request_bench MODEL [--precision P] [--device D] [--threads N] [--clients N] "
          "[--requests N] [--rounds N] [--words N]\n");
  return 2;
}

int main(int argc, char **argv) {
  setting s = {.precision = "fp32",
               .device = "cpu",
               .threads = 2,
               .clients = 16,
               .requests = 40,
               .rounds = 5};
  accel_params params = accel_params_default();
  accel_init_params how = accel_init_params_default();
  accel *ctx;
  accel_endpoint *endpoint;
  if (argc < 2 || argc % 2) return usage();
  s.model = argv[1];
  for (int i = 2; i < argc; i += 2) {
    if (!strcmp(argv[i], "--precision"))
      s.precision = argv[i + 1];
    else if (!strcmp(argv[i], "--device"))
      s.device = argv[i + 1];
    else if (!strcmp(argv[i], "--threads"))
      s.threads = number(argv[i + 1], 1, 256);
    else if (!strcmp(argv[i], "--clients"))
      s.clients = number(argv[i + 1], 1, MOST_CLIENTS);
    else if (!strcmp(argv[i], "--requests"))
      s.requests = number(argv[i + 1], 1, 100000);
    else if (!strcmp(argv[i], "--rounds"))
      s.rounds = number(argv[i + 1], 1, MOST_ROUNDS);
    else if (!strcmp(argv[i], "--words"))
      s.words = number(argv[i + 1], 0, MOST_WORDS);
    else
      return usage();
  }
  params.threads = s.threads;
  params.allow_software = 1;
  how.device = s.device;
  how.precision = s.precision;
  how.queue_capacity = 2 * s.clients;
  must(accel_create(&params, &ctx), "create");
  must(accel_init(ctx, s.model, &how, &endpoint), s.model);
  measure(endpoint, &s);
  accel_cleanup(&endpoint);
  accel_destroy(&ctx);
  return 0;
}
