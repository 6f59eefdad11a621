/* cmd_text_to_image.c - accel text-to-image: makes pictures of texts. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "cli/cli_print.h"

static int print_json(cli_run *run, accel_endpoint *endpoint, const accel_generated_images *made,
                      const char *path) {
  cli_json json;
  int code = cli_json_begin(run, "accel.text-to-image/1", &json);
  if (code) return code;
  cli_json_placement(&json, accel_placement(endpoint));
  cli_json_text(&json, "scheduler", made->scheduler);
  cli_json_int(&json, "steps", made->steps);
  cli_json_open(&json, "images", '[');
  for (uint32_t i = 0; i < made->n; i++) {
    char file[4096];
    const char *name = cli_numbered(path, i, made->n, file, sizeof file);
    cli_json_open(&json, NULL, '{');
    cli_json_text(&json, "file", name);
    cli_json_int(&json, "prompt", made->image[i].prompt);
    cli_json_int(&json, "seed", (int64_t)made->image[i].seed);
    cli_json_int(&json, "width", made->image[i].width);
    cli_json_int(&json, "height", made->image[i].height);
    if (made->image[i].flagged >= 0)
      cli_json_bool(&json, "nsfw_content_detected", made->image[i].flagged == 1);
    cli_json_close(&json, '}');
  }
  cli_json_close(&json, ']');
  return cli_json_end(run, &json);
}

static int write_images(cli_run *run, accel_endpoint *endpoint,
                        const accel_generated_images *made) {
  const char *path = run->value[OPT_OUTPUT];
  for (uint32_t i = 0; i < made->n; i++) {
    char file[4096];
    const char *name = cli_numbered(path, i, made->n, file, sizeof file);
    accel_status status = accel_generated_image_write(&made->image[i], name);
    if (status != ACCEL_OK) return cli_fail(run, status);
    if (!cli_flag(run, OPT_JSON)) puts(name);
  }
  return cli_flag(run, OPT_JSON) ? print_json(run, endpoint, made, path) : 0;
}

enum { MAX_LAYERS = 256 };

/* "7,8,9" into layers[MAX_LAYERS]. */
static int read_layers(const cli_run *run, accel_text_to_image_params *how, uint32_t *layers) {
  const char *at = run->value[OPT_SKIP_LAYERS];
  while (at && how->n_skip_guidance_layers < MAX_LAYERS) {
    char *end;
    const unsigned long layer = strtoul(at, &end, 10);
    if (*at < '0' || *at > '9' || layer > UINT32_MAX || (*end && *end != ',')) break;
    layers[how->n_skip_guidance_layers++] = (uint32_t)layer;
    at = *end ? end + 1 : NULL;
  }
  how->skip_guidance_layers = layers;
  return at ? cli_usage(run, "--skip-layers is numbers with commas, such as 7,8,9, not '%s'",
                        run->value[OPT_SKIP_LAYERS])
            : 0;
}

static int paint(cli_run *run, accel_endpoint *endpoint, const cli_texts *texts) {
  accel_text_to_image_params how = accel_text_to_image_params_default();
  accel_generated_images *made;
  uint32_t layers[MAX_LAYERS];
  int code = cli_image_size(run, &how.width, &how.height);
  if (!code) code = read_layers(run, &how, layers);
  if (code) return code;
  if (run->value[OPT_MASK] && !run->value[OPT_INIT])
    return cli_usage(run, "--mask covers part of a picture: give it with --init FILE");
  how.steps = (uint32_t)cli_count(run, OPT_STEPS, how.steps);
  how.images_per_prompt = (uint32_t)cli_count(run, OPT_IMAGES, how.images_per_prompt);
  how.clip_skip = (uint32_t)cli_count(run, OPT_CLIP_SKIP, how.clip_skip);
  how.max_sequence_length = (uint32_t)cli_count(run, OPT_MAX_SEQUENCE_LENGTH, 0);
  how.seed = (uint64_t)cli_count(run, OPT_SEED, 0);
  how.guidance_scale = cli_number(run, OPT_GUIDANCE, how.guidance_scale);
  how.guidance_rescale = cli_number(run, OPT_GUIDANCE_RESCALE, how.guidance_rescale);
  how.eta = cli_number(run, OPT_ETA, how.eta);
  how.true_cfg_scale = cli_number(run, OPT_TRUE_CFG_SCALE, how.true_cfg_scale);
  how.skip_layer_guidance_scale =
      cli_number(run, OPT_SKIP_LAYER_SCALE, how.skip_layer_guidance_scale);
  how.skip_layer_guidance_start =
      cli_number(run, OPT_SKIP_LAYER_START, how.skip_layer_guidance_start);
  how.skip_layer_guidance_stop = cli_number(run, OPT_SKIP_LAYER_STOP, how.skip_layer_guidance_stop);
  how.strength = cli_number(run, OPT_STRENGTH, how.strength);
  const accel_media init = {.name = run->value[OPT_INIT]};
  const accel_media mask = {.name = run->value[OPT_MASK]};
  if (init.name) how.image = &init;
  if (mask.name) how.mask_image = &mask;
  how.vae_tiling = cli_flag(run, OPT_TILE);
  how.negative_prompt = run->value[OPT_NEGATIVE];
  how.scheduler = run->value[OPT_SCHEDULER];
  accel_status status = accel_text_to_image(endpoint, texts->text, texts->n, &how, &made);
  if (status != ACCEL_OK) return cli_fail(run, status);
  code = write_images(run, endpoint, made);
  accel_generated_images_free(&made);
  return code;
}

/* A pipeline that makes pictures of noise alone takes no texts; one that needs them says so. */
static int paint_noise(cli_run *run) {
  const cli_texts none = {0};
  accel_endpoint *endpoint = NULL;
  int code = cli_open(run, run->args[0], "unconditional-image-generation", &endpoint);
  if (!code) code = paint(run, endpoint, &none);
  accel_cleanup(&endpoint);
  return code;
}

int cmd_text_to_image(cli_run *run) {
  if (!run->value[OPT_OUTPUT]) return cli_usage(run, "say where the picture goes: -o FILE.png");
  if (run->n_args == 1 && !run->value[OPT_INPUT]) return paint_noise(run);
  return cli_on_plain_texts(run, 1, "text-to-image", paint);
}
