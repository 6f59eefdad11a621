/* llama_rates.c - llama.cpp's rates of prompts and of decoding, in the words of `accel bench --task
 * generate --json -`.
 *
 *   cc -O2 -I LLAMA/include -I LLAMA/ggml/include llama_rates.c -L BUILD/bin -lllama -lggml
 *   -lggml-base -o llama_rates llama_rates MODEL.gguf --threads N [--seq 128] [--new 17] [--batch
 *   1] [--iters 3] llama_rates quantize FROM.gguf TO.gguf Q4_0|Q4_K_M|Q8_0|F32
 *
 * Not part of the build, which knows nothing of llama.cpp.  `batch` sequences of `seq` tokens are
 * fed (logits of each one's last), then one token each, new - 1 times; ids are the same seeded ones
 * in every run.  Medians over the iterations. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>

#include "ggml-backend.h"
#include "llama.h"

enum { MOST = 64 };

static double now_ms(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return 1e3 * (double)t.tv_sec + 1e-6 * (double)t.tv_nsec;
}
static int ascending(const void *a, const void *b) {
  return (*(const double *)a > *(const double *)b) - (*(const double *)a < *(const double *)b);
}
static double median(double *x, int n) {
  qsort(x, (size_t)n, sizeof *x, ascending);
  return n % 2 ? x[n / 2] : (x[n / 2 - 1] + x[n / 2]) / 2;
}
static void die(const char *what) {
  fprintf(stderr, "llama_rates: %s\n", what);
  exit(1);
}
static void quiet(enum ggml_log_level level, const char *text, void *user) {
  (void)level, (void)text, (void)user;
}

static int quantize(const char *from, const char *to, const char *type) {
  struct llama_model_quantize_params how = llama_model_quantize_default_params();
  how.ftype = !strcmp(type, "Q4_0")   ? LLAMA_FTYPE_MOSTLY_Q4_0
              : !strcmp(type, "Q8_0") ? LLAMA_FTYPE_MOSTLY_Q8_0
              : !strcmp(type, "F32")  ? LLAMA_FTYPE_ALL_F32
                                      : LLAMA_FTYPE_MOSTLY_Q4_K_M;
  how.nthread = 2;
  return (int)llama_model_quantize(from, to, &how);
}

static void add(struct llama_batch *b, llama_token token, int position, int sequence, int wanted) {
  b->token[b->n_tokens] = token;
  b->pos[b->n_tokens] = position;
  b->n_seq_id[b->n_tokens] = 1;
  b->seq_id[b->n_tokens][0] = sequence;
  b->logits[b->n_tokens++] = (int8_t)wanted;
}

static llama_token likeliest(const float *x, int n) {
  int best = 0;
  for (int i = 1; i < n; i++)
    if (x[i] > x[best]) best = i;
  return best;
}

static void run(struct llama_context *ctx, int vocab, int batch, int seq, int new_tokens,
                double *prefill_ms, double *decode_ms) {
  struct llama_batch b = llama_batch_init(batch * seq, 0, 1);
  llama_token next[MOST];
  uint32_t random = 1;
  llama_memory_clear(llama_get_memory(ctx), true);
  b.n_tokens = 0;
  for (int s = 0; s < batch; s++)
    for (int i = 0; i < seq; i++)
      add(&b, 1000 + (llama_token)((random = random * 1664525u + 1013904223u) >> 8) % 20000, i, s,
          i == seq - 1);
  double begin = now_ms();
  if (llama_decode(ctx, b)) die("decode of the prompt failed");
  for (int s = 0; s < batch; s++)
    next[s] = likeliest(llama_get_logits_ith(ctx, (s + 1) * seq - 1), vocab);
  *prefill_ms = now_ms() - begin;
  begin = now_ms();
  for (int k = 1; k < new_tokens; k++) {
    b.n_tokens = 0;
    for (int s = 0; s < batch; s++) add(&b, next[s], seq + k - 1, s, 1);
    if (llama_decode(ctx, b)) die("decode failed");
    for (int s = 0; s < batch; s++) next[s] = likeliest(llama_get_logits_ith(ctx, s), vocab);
  }
  *decode_ms = now_ms() - begin;
  llama_batch_free(b);
}

int main(int argc, char **argv) {
  int threads = 1, seq = 128, new_tokens = 17, batch = 1, iters = 3;
  double prefill[MOST], decode[MOST];
  llama_log_set(quiet, NULL);
  ggml_backend_load_all();
  llama_backend_init();
  if (argc == 5 && !strcmp(argv[1], "quantize")) return quantize(argv[2], argv[3], argv[4]);
  for (int i = 2; i + 1 < argc; i += 2) {
    const int value = atoi(argv[i + 1]);
    if (!strcmp(argv[i], "--threads")) threads = value;
    if (!strcmp(argv[i], "--seq")) seq = value;
    if (!strcmp(argv[i], "--new")) new_tokens = value;
    if (!strcmp(argv[i], "--batch")) batch = value;
    if (!strcmp(argv[i], "--iters")) iters = value;
  }
  if (argc < 2 || batch < 1 || batch > MOST || iters < 1 || iters > MOST || seq < 1)
    die("see the first lines of the source");
  double begin = now_ms();
  struct llama_model *model = llama_model_load_from_file(argv[1], llama_model_default_params());
  if (!model) die("the model cannot be loaded");
  struct llama_context_params how = llama_context_default_params();
  how.n_ctx = (uint32_t)(batch * (seq + new_tokens + 8));
  how.n_batch = (uint32_t)(batch * seq > 2048 ? batch * seq : 2048);
  how.n_seq_max = (uint32_t)batch;
  how.n_threads = how.n_threads_batch = threads;
  struct llama_context *ctx = llama_init_from_model(model, how);
  if (!ctx) die("no context");
  const double load = now_ms() - begin;
  const int vocab = llama_vocab_n_tokens(llama_model_get_vocab(model));
  double unused[2];
  run(ctx, vocab, batch, seq < 16 ? seq : 16, 3, &unused[0], &unused[1]);
  for (int i = 0; i < iters; i++) run(ctx, vocab, batch, seq, new_tokens, &prefill[i], &decode[i]);
  struct rusage usage;
  getrusage(RUSAGE_SELF, &usage);
  const double p = median(prefill, iters), d = median(decode, iters);
  printf(
      "{\"prefill_tokens_per_s\": %.3f, \"decode_tokens_per_s\": %.3f, \"decoder_ms_per_token\": "
      "%.3f, \"load_ms\": %.1f, "
      "\"peak_rss_bytes\": %lld}\n",
      1e3 * batch * seq / p, new_tokens > 1 ? 1e3 * batch * (new_tokens - 1) / d : 0.0,
      new_tokens > 1 ? d / (new_tokens - 1) : 0.0, load, (long long)usage.ru_maxrss * 1024);
  llama_free(ctx);
  llama_model_free(model);
  return 0;
}
