/* gpu_benchmark.c - what a GPU does with a model, as one JSON object: time to load, latency of each
 * run, texts and tokens a second, memory.  Built as rocm_benchmark, cuda_benchmark,
 * opencl_benchmark and vulkan_benchmark:
 *   rocm_benchmark MODEL [PRECISION [BATCH [RUNS]]]
 * Without such a device: {"error": why} and exit code 4.  Nothing here is estimated: a number is
 * measured or not there. */
#include <accel/accel.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#ifndef EXAMPLE_HARDWARE
#define EXAMPLE_HARDWARE "amd"
#define EXAMPLE_DEVICE   "rocm"
#endif
enum { MOST_RUNS = 1000, MOST_TEXTS = 256 };

static double now_ms(void) {
  struct timespec t;
  timespec_get(&t, TIME_UTC);
  return 1e3 * (double)t.tv_sec + 1e-6 * (double)t.tv_nsec;
}

static void print_text(const char *text) {
  putchar('"');
  for (; *text; text++) {
    if (*text == '"' || *text == '\\') putchar('\\');
    putchar((unsigned char)*text < 32 ? ' ' : *text);
  }
  putchar('"');
}

static int give_up(accel_status status) {
  printf("{\"hardware\": \"%s\", \"error\": ", EXAMPLE_HARDWARE);
  print_text(accel_last_error());
  printf(", \"remedy\": ");
  print_text(accel_last_remedy());
  printf("}\n");
  return accel_status_exit_code(status);
}

static void print_memory(accel *ctx, const char *device) {
  accel_devices *devices = NULL;
  if (accel_detect(ctx, 1, &devices) != ACCEL_OK) return;
  for (uint32_t i = 0; i < devices->n; i++)
    if (!strcmp(devices->item[i].name, device))
      printf(", \"memory_total\": %llu, \"memory_free\": %llu",
             (unsigned long long)devices->item[i].memory_total,
             (unsigned long long)devices->item[i].memory_free);
  accel_devices_free(&devices);
}

static int compare(const void *a, const void *b) {
  double x = *(const double *)a, y = *(const double *)b;
  return x < y ? -1 : x > y;
}

int main(int argc, char **argv) {
  static double latency[MOST_RUNS];
  const char *text[MOST_TEXTS];
  int batch = argc > 3 ? atoi(argv[3]) : 1, runs = argc > 4 ? atoi(argv[4]) : 20;
  accel *ctx = NULL;
  accel_endpoint *model = NULL;
  if (argc < 2 || batch < 1 || batch > MOST_TEXTS || runs < 1 || runs > MOST_RUNS) {
    fprintf(stderr, "usage: %s MODEL [PRECISION [BATCH 1..%d [RUNS 1..%d]]]\n", argv[0], MOST_TEXTS,
            MOST_RUNS);
    return 2;
  }
  for (int i = 0; i < batch; i++)
    text[i] = "The quick brown fox jumps over the lazy dog, and every run does the same work.";
  accel_init_params how = accel_init_params_default();
  how.device = EXAMPLE_DEVICE;
  if (argc > 2) how.precision = argv[2];
  accel_status status = accel_create(NULL, &ctx);
  double begin = now_ms();
  if (status == ACCEL_OK) status = accel_init(ctx, argv[1], &how, &model);
  double load = now_ms() - begin, tokens = 0;             /* of one run */
  for (int i = -2; status == ACCEL_OK && i < runs; i++) { /* two to warm up */
    accel_embeddings *found = NULL;
    begin = now_ms();
    status = accel_embed(model, text, (uint32_t)batch, &found);
    if (i >= 0) latency[i] = now_ms() - begin;
    if (status == ACCEL_OK) tokens = (double)found->tokens;
    accel_embeddings_free(&found);
  }
  if (status != ACCEL_OK) {
    int code = give_up(status);
    accel_cleanup(&model);
    accel_destroy(&ctx);
    return code;
  }
  const accel_placement_report *where = accel_placement(model);
  qsort(latency, (size_t)runs, sizeof *latency, compare);
  printf("{\"model\": ");
  print_text(where->model);
  printf(
      ", \"device\": \"%s\", \"implementation_type\": \"%s\", \"precision\": \"%s\", \"batch\": "
      "%d, \"load_ms\": %.1f",
      where->device, where->implementation_type, where->precision, batch, load);
  printf(
      ", \"latency_ms\": {\"least\": %.3f, \"median\": %.3f, \"most\": %.3f}, \"texts_per_s\": "
      "%.1f, "
      "\"tokens_per_s\": %.1f",
      latency[0], latency[runs / 2], latency[runs - 1], 1e3 * batch / latency[runs / 2],
      1e3 * tokens / latency[runs / 2]);
  print_memory(ctx, where->device);
  printf("}\n");
  accel_cleanup(&model);
  accel_destroy(&ctx);
  return 0;
}
