/* adapter_bench.c - generation with several LoRA adapters in one batch, beside the base.
 *
 *   adapter_bench [--precision fp32] [--threads 2] [--adapters 4] [--rank 16] [--prompt 32]
 *   [--tokens 32] [--rounds 9]
 *
 * The model is a decoder of 109 million parameters (LLaMA's layers) with random weights; adapters
 * of random matrices for all its linear layers are written to a directory of this run.  In each
 * round three batches of as many requests as there are adapters go through a queue, in turn: on an
 * endpoint without adapters, on one of enable_adapters where no request names one, and there with
 * an adapter of its own for each request.  Printed: tokens a second of each (medians), and the
 * medians of the ratios within a round.  Every request must give what it gives alone, bit by bit,
 * else the program fails. */
#include <math.h>
#include <stdbool.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "accel/accel.h"
#include "bench_timer.h"
#include "dispatch/endpoint.h"
#include "weights/weights.h"

enum { MOST = 16, MOST_ROUNDS = 64, MOST_TOKENS = 512, MOST_TENSORS = 512 };

static const char config[] =
    "{\"architectures\":[\"LlamaForCausalLM\"],\"model_type\":\"llama\",\"hidden_size\":768,"
    "\"intermediate_size\":2048,\"num_hidden_layers\":12,\"num_attention_heads\":12,"
    "\"num_key_value_heads\":12,\"vocab_size\":16000,\"max_position_embeddings\":2048,"
    "\"rms_norm_eps\":1e-6,\"hidden_act\":\"silu\",\"tie_word_embeddings\":false,"
    "\"bos_token_id\":1,\"eos_token_id\":2}";

typedef struct setting {
  const char *precision;
  uint32_t threads, adapters, rank, prompt, tokens, rounds;
} setting;

static char directory[] = "/tmp/adapter_bench-XXXXXX";

static void must(accel_status status, const char *what) {
  if (status == ACCEL_OK) return;
  fprintf(stderr, "%s: %s\n", what, accel_last_error());
  exit(1);
}

static void write_text(const char *path, const char *text) {
  FILE *f = fopen(path, "w");
  if (!f || fputs(text, f) < 0 || fclose(f)) exit(1);
}

/* ---- adapters ---- */

static float next_value(uint64_t *seed) {
  *seed = *seed * UINT64_C(6364136223846793005) + 1442695040888963407u;
  return ((float)(*seed >> 40) / 8388608.0f - 1.0f) * 0.02f;
}

static void add(accel__tensor_info *t, const char *module, const char *kind, int64_t rows,
                int64_t columns, uint64_t *seed) {
  char name[256];
  float *values = malloc((size_t)(rows * columns) * sizeof *values);
  if (!values) exit(1);
  for (int64_t i = 0; i < rows * columns; i++) values[i] = next_value(seed);
  snprintf(name, sizeof name, "base_model.model.%s.%s.weight", module, kind);
  *t = (accel__tensor_info){.name = strdup(name),
                            .dtype = ACCEL_PLUGIN_F32,
                            .rank = 2,
                            .dim = {rows, columns},
                            .elements = (uint64_t)(rows * columns),
                            .bytes = (uint64_t)(rows * columns) * 4,
                            .data = values};
}

/* Adapter `number`: matrices for every linear layer. */
static void write_adapter(const accel_endpoint *ep, const setting *s, uint32_t number, char *path,
                          size_t size) {
  static accel__tensor_info t[MOST_TENSORS];
  const accel_plugin_program *p = accel__program_view(ep->model->program);
  uint64_t seed = number + 1;
  uint32_t n = 0;
  char file[128], text[160];
  for (uint32_t i = 0; i < p->n_weight && n + 2 <= MOST_TENSORS; i++) {
    char module[200];
    if (p->weight[i].use != ACCEL_PLUGIN_USE_LINEAR) continue;
    snprintf(module, sizeof module, "%.*s", (int)(strlen(p->weight[i].name) - strlen(".weight")),
             p->weight[i].name);
    add(&t[n++], module, "lora_A", s->rank, p->weight[i].dim[1], &seed);
    add(&t[n++], module, "lora_B", p->weight[i].dim[0], s->rank, &seed);
  }
  snprintf(path, size, "%s/adapter%u", directory, number);
  mkdir(path, 0700);
  snprintf(file, sizeof file, "%s/adapter_model.safetensors", path);
  must(accel__safetensors_write(file, t, n, NULL, 0), file);
  snprintf(file, sizeof file, "%s/adapter_config.json", path);
  snprintf(text, sizeof text,
           "{\"peft_type\":\"LORA\",\"r\":%u,\"lora_alpha\":%u,\"target_modules\":\"all-linear\"}",
           s->rank, 2 * s->rank);
  write_text(file, text);
  for (uint32_t i = 0; i < n; i++) {
    free((void *)(uintptr_t)t[i].data);
    free((void *)(uintptr_t)t[i].name);
  }
}

/* ---- generating ---- */

typedef struct answer {
  int32_t ids[MOST_TOKENS];
  uint32_t n;
} answer;

static void make_prompt(uint32_t number, uint32_t n, int32_t *ids) {
  for (uint32_t i = 0; i < n; i++) ids[i] = (int32_t)(3 + (number * 977 + i * 131) % 15000);
}

static accel_ticket *submit(accel_endpoint *ep, const setting *s, uint32_t number,
                            const accel_adapter *adapter) {
  int32_t ids[MOST_TOKENS];
  accel_ticket *ticket;
  accel_generate_params how = accel_generate_params_default();
  how.max_new_tokens = (int32_t)s->tokens;
  how.ignore_eos = 1;
  how.adapter = adapter;
  make_prompt(number, s->prompt, ids);
  must(accel_submit_generate(accel_queue_of(ep), NULL, ids, s->prompt, &how, &ticket), "submit");
  return ticket;
}

static answer wait_for(accel_ticket *ticket) {
  accel_generations *g;
  answer a = {.n = 0};
  must(accel_wait_generations(&ticket, -1, &g), "wait");
  a.n = g->item[0].n;
  memcpy(a.ids, g->item[0].ids, a.n * sizeof *a.ids);
  accel_generations_free(&g);
  return a;
}

/* Tokens a second of a batch; adapter NULL: none has one. */
static double batch(accel_endpoint *ep, const setting *s, accel_adapter *const *adapter,
                    const answer *want) {
  accel_ticket *ticket[MOST];
  const double begin = now();
  for (uint32_t i = 0; i < s->adapters; i++)
    ticket[i] = submit(ep, s, i, adapter ? adapter[i] : NULL);
  for (uint32_t i = 0; i < s->adapters; i++) {
    const answer a = wait_for(ticket[i]);
    if (a.n == want[i].n && !memcmp(a.ids, want[i].ids, a.n * sizeof *a.ids)) continue;
    fprintf(stderr, "request %u gives other tokens in company than alone\n", i);
    exit(1);
  }
  return s->adapters * s->tokens / (now() - begin);
}

static void measure(accel_endpoint *plain, accel_endpoint *enabled, const setting *s) {
  accel_adapter *adapter[MOST];
  static answer base[MOST], with[MOST];
  static double rate[3][MOST_ROUNDS], share[2][MOST_ROUNDS];
  for (uint32_t i = 0; i < s->adapters; i++) {
    char path[64];
    write_adapter(enabled, s, i, path, sizeof path);
    must(accel_adapter_load(enabled, path, &adapter[i]), path);
  }
  for (uint32_t i = 0; i < s->adapters; i++) {
    base[i] = wait_for(submit(plain, s, i, NULL));
    with[i] = wait_for(submit(enabled, s, i, adapter[i]));
  }
  for (uint32_t r = 0; r < s->rounds; r++) {
    rate[0][r] = batch(plain, s, NULL, base);
    rate[1][r] = batch(enabled, s, NULL, base);
    rate[2][r] = batch(enabled, s, adapter, with);
    share[0][r] = rate[1][r] / rate[0][r];
    share[1][r] = rate[2][r] / rate[0][r];
  }
  printf("%s, %u threads, %u requests of %u + %u tokens, rank %u, %u rounds\n", s->precision,
         s->threads, s->adapters, s->prompt, s->tokens, s->rank, s->rounds);
  printf("without adapters   %8.1f tokens/s\n", median(rate[0], s->rounds));
  printf("enabled, none used %8.1f tokens/s, %.3f of that\n", median(rate[1], s->rounds),
         median(share[0], s->rounds));
  printf("an adapter each    %8.1f tokens/s, %.3f of that\n", median(rate[2], s->rounds),
         median(share[1], s->rounds));
  for (uint32_t i = 0; i < s->adapters; i++) accel_adapter_free(&adapter[i]);
}

static accel_endpoint *open_model(accel *ctx, const setting *s, bool enable) {
  accel_endpoint *ep;
  accel_init_params how = accel_init_params_default();
  how.precision = s->precision;
  how.random_weights = 1;
  how.enable_adapters = enable;
  must(accel_init(ctx, directory, &how, &ep), "init");
  return ep;
}

static bool read_setting(int argc, char **argv, setting *s) {
  for (int i = 1; i < argc; i += 2) {
    const char *value = i + 1 < argc ? argv[i + 1] : NULL;
    if (!value) return false;
    const uint32_t n = (uint32_t)strtoul(value, NULL, 10);
    if (!strcmp(argv[i], "--precision"))
      s->precision = value;
    else if (!strcmp(argv[i], "--threads"))
      s->threads = n;
    else if (!strcmp(argv[i], "--adapters"))
      s->adapters = n;
    else if (!strcmp(argv[i], "--rank"))
      s->rank = n;
    else if (!strcmp(argv[i], "--prompt"))
      s->prompt = n;
    else if (!strcmp(argv[i], "--tokens"))
      s->tokens = n;
    else if (!strcmp(argv[i], "--rounds"))
      s->rounds = n;
    else
      return false;
  }
  return s->adapters >= 1 && s->adapters <= MOST && s->rounds >= 1 && s->rounds <= MOST_ROUNDS &&
         s->prompt >= 1 && s->prompt <= MOST_TOKENS && s->tokens >= 1 && s->tokens <= MOST_TOKENS &&
         s->rank >= 1;
}

static void remove_directory(const setting *s) {
  char path[160];
  for (uint32_t i = 0; i < s->adapters; i++) {
    snprintf(path, sizeof path, "%s/adapter%u/adapter_model.safetensors", directory, i);
    unlink(path);
    snprintf(path, sizeof path, "%s/adapter%u/adapter_config.json", directory, i);
    unlink(path);
    snprintf(path, sizeof path, "%s/adapter%u", directory, i);
    rmdir(path);
  }
  snprintf(path, sizeof path, "%s/config.json", directory);
  unlink(path);
  rmdir(directory);
}

int main(int argc, char **argv) {
  setting s = {"fp32", 2, 4, 16, 32, 32, 9};
  char path[64];
  if (!read_setting(argc, argv, &s)) return fprintf(stderr, "see the head of the file\n"), 2;
  if (!mkdtemp(directory)) return 1;
  snprintf(path, sizeof path, "%s/config.json", directory);
  write_text(path, config);
  accel *ctx;
  accel_params params = accel_params_default();
  params.threads = s.threads;
  params.no_cache = 1;
  must(accel_create(&params, &ctx), "create");
  accel_endpoint *plain = open_model(ctx, &s, false), *enabled = open_model(ctx, &s, true);
  measure(plain, enabled, &s);
  accel_cleanup(&enabled);
  accel_cleanup(&plain);
  accel_destroy(&ctx);
  remove_directory(&s);
  return 0;
}
