/* bench_images.c - see bench_images.h. */
#include "bench/bench_images.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bench/bench_collect.h"

bool bench_images_made(const cJSON *config) {
  const cJSON *class = cJSON_GetObjectItemCaseSensitive(config, "_class_name");
  const char *name = cJSON_IsString(class) ? class->valuestring : "";
  const size_t n = strlen(name), end = strlen("Pipeline");
  return n > end && !strcmp(name + n - end, "Pipeline");
}

bool bench_images_made_by(accel *ctx, const char *model) {
  cJSON *config = bench_config_of(ctx, model);
  const bool made = bench_images_made(config);
  cJSON_Delete(config);
  return made;
}

static bool takes(const accel_strings *inputs, const char *name) {
  for (uint32_t i = 0; i < inputs->n; ++i)
    if (!strcmp(inputs->item[i], name)) return true;
  return false;
}

/* ---- a call ---- */

/* Pipelines of noise alone take no prompts. */
static accel_status takes_texts(const accel_endpoint *endpoint, bool *texts) {
  accel_strings *inputs, *outputs;
  const accel_status status = accel_endpoint_io(endpoint, &inputs, &outputs);
  if (status != ACCEL_OK) return status;
  *texts = takes(inputs, "encoder_hidden_states");
  accel_strings_free(&inputs);
  accel_strings_free(&outputs);
  return ACCEL_OK;
}

/* When steps ended. */
typedef struct clock {
  double first, last;
  uint32_t steps;
} clock;

static int step_done(void *user, uint32_t step, uint32_t steps, const float *latents, uint64_t n) {
  clock *c = user;
  (void)latents, (void)n;
  c->last = bench_now_ms();
  if (step == 1) c->first = c->last;
  c->steps = steps;
  return 0;
}

static void note_images(const bench_params *params, const accel_generated_images *made,
                        bench_result *r) {
  r->width = made->image[0].width;
  r->height = made->image[0].height;
  for (uint32_t b = 0; b < r->batch; ++b) r->lengths[b] = r->width;
  r->steps = params->steps ? params->steps : made->steps;
  snprintf(r->output, sizeof r->output, "pictures %ux%u, %u steps%s", r->width, r->height, r->steps,
           params->tiled ? ", tiles" : "");
}

accel_status bench_images_run(accel_endpoint *endpoint, const bench_params *params,
                              bench_result *result, double *all_ms, double *step_ms,
                              double *decode_ms) {
  static const char *const prompt = "a photograph of a lighthouse at dusk";
  accel_text_to_image_params how = accel_text_to_image_params_default();
  accel_generated_images *made;
  clock c = {0};
  how.steps = params->steps;
  how.width = params->width;
  how.height = params->height;
  how.images_per_prompt = params->batch;
  how.vae_tiling = params->tiled;
  how.seed = params->seed;
  how.on_step = step_done;
  how.user = &c;
  bool texts;
  accel_status status = takes_texts(endpoint, &texts);
  if (status != ACCEL_OK) return status;
  const double begin = bench_now_ms();
  status = accel_text_to_image(endpoint, texts ? &prompt : NULL, texts, &how, &made);
  if (status != ACCEL_OK) return status;
  const double end = bench_now_ms();
  *all_ms = end - begin;
  *step_ms = c.steps > 1 ? (c.last - c.first) / (c.steps - 1) : c.first - begin;
  *decode_ms = end - c.last;
  note_images(params, made, result);
  accel_generated_images_free(&made);
  return ACCEL_OK;
}

/* ---- parts ---- */

bool bench_part_known(const accel_strings *inputs) {
  return takes(inputs, "sample") ||
         (takes(inputs, "hidden_states") && takes(inputs, "pooled_projections"));
}

static int64_t number(const cJSON *config, const char *key, int64_t otherwise) {
  const int64_t found = bench_config_number(config, NULL, key);
  return found > 0 ? found : otherwise;
}

uint32_t bench_part_side(const cJSON *config, const accel_strings *inputs, bench_kind *kind) {
  *kind = takes(inputs, "timestep") ? BENCH_LATENTS : BENCH_PICTURES;
  if (takes(inputs, "img_ids")) return 128; /* Flux's config says nothing */
  return (uint32_t)number(config, "sample_size", *kind == BENCH_LATENTS ? 64 : 512);
}

/* An input that is all of one number. */
static accel_status add_level(accel_tensor like, float value, bench_inputs *out) {
  int64_t n = 1;
  for (uint32_t i = 0; i < like.rank; ++i) n *= like.dim[i];
  float *x = malloc((size_t)n * sizeof *x);
  like.dtype = ACCEL_F32;
  like.data = x;
  out->item[out->n++] = like;
  for (int64_t i = 0; x && i < n; ++i) x[i] = value;
  return x ? ACCEL_OK : ACCEL_ERROR_OUT_OF_MEMORY;
}

/* [rows, 3]: nothing, row and column of each. */
static accel_status add_places(const char *name, int64_t rows, int64_t columns, bench_inputs *out) {
  accel_status status =
      add_level((accel_tensor){.name = name, .rank = 2, .dim = {rows, 3}}, 0, out);
  float *x = out->item[out->n - 1].data;
  for (int64_t i = 0; x && columns && i < rows; ++i) {
    x[3 * i + 1] = (float)(i / columns);
    x[3 * i + 2] = (float)(i % columns);
  }
  return status;
}

/* What a part may take beside the picture, and its shape; columns 0: it has none. */
typedef struct beside {
  const char *name;
  int64_t rows, columns; /* of each picture; rows 0: a vector */
  float level;           /* all of it; 0: seeded noise */
} beside;

static accel_status add_beside(const bench_params *params, const beside *b, int64_t n,
                               bench_inputs *out) {
  accel_tensor like = {.name = b->name, .rank = 1, .dim = {n}};
  if (b->rows) like.dim[like.rank++] = b->rows;
  if (b->columns) like.dim[like.rank++] = b->columns;
  return b->level != 0 ? add_level(like, b->level, out) : bench_signal(params, like, out);
}

accel_status bench_part_inputs(const cJSON *config, const bench_params *params,
                               const accel_strings *inputs, int64_t n, int64_t side,
                               bench_inputs *out) {
  const bool flux = takes(inputs, "img_ids"), sd3 = takes(inputs, "hidden_states") && !flux;
  const int64_t channels = number(config, "in_channels", takes(inputs, "timestep") ? 4 : 3),
                text = number(config, "joint_attention_dim",
                              number(config, "cross_attention_dim", 1280)),
                tokens = flux  ? 512
                         : sd3 ? 77 + 256
                               : 77,
                patches = side / 2 * (side / 2),
                sizes = 6 * number(config, "addition_time_embed_dim", 256);
  const beside others[] = {
      {"timestep", 0, 0, flux ? 0.5f : 501},
      {"encoder_hidden_states", tokens, text, 0},
      {"text_embeds", 0, number(config, "projection_class_embeddings_input_dim", 2816) - sizes, 0},
      {"time_ids", 0, 6, (float)(8 * side)},
      {"pooled_projections", 0, number(config, "pooled_projection_dim", flux ? 768 : 2048), 0},
      {"guidance", 0, 0, 3.5f}};
  accel_tensor like = {.name = takes(inputs, "sample") ? "sample" : "hidden_states",
                       .rank = 4,
                       .dim = {n, channels, side, side}};
  if (flux)
    like = (accel_tensor){.name = "hidden_states", .rank = 3, .dim = {n, patches, channels}};
  accel_status status = bench_signal(params, like, out);
  for (size_t i = 0; i < sizeof others / sizeof *others && status == ACCEL_OK; ++i)
    if (takes(inputs, others[i].name)) status = add_beside(params, &others[i], n, out);
  if (status == ACCEL_OK && flux) status = add_places("img_ids", patches, side / 2, out);
  if (status == ACCEL_OK && flux) status = add_places("txt_ids", tokens, 0, out);
  return status;
}
