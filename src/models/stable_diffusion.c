/* stable_diffusion.c - the pipelines of Stable Diffusion in diffusers: one or two text encoders of
 * CLIP, a UNet, an autoencoder.  Entries:
 *
 *   forward  what the UNet does in one step: "sample" [B,C,h,w], "timestep" [B],
 *            "encoder_hidden_states" [B,S,width] and what its config adds -> "sample"
 *   text     tokens -> "prompt_embeds" [T,width], and on request "clip_skip.K": the same without
 *            the last K layers of the text encoder
 *   text_2   SDXL: the same of the second encoder, and "text_embeds" [B,projection]
 *   decode_latents  "latents" [B,4,h,w], divided by the scaling factor -> "pixels" [B,3,H,W], -1 to 1
 *   encode_pixels   "pixels" -> "latent_dist.parameters" [B,8,h,w]: mean and logarithm of variance;
 *            of an AutoencoderTiny "latents" [B,4,h,w]
 *   safety   "pixel_values" -> "special_scores" [B,3], "concept_scores" [B,17], where the pipeline has
 *            a safety checker
 */
#include <stdio.h>
#include <string.h>

#include "models/stable_diffusion.h"

typedef struct pipeline {
  bool xl; /* two text encoders, their last but one layer without the final norm */
  accel__clip_tower text[2];
  uint32_t text_inputs, unet_inputs; /* of b->input: the texts' come first, then the UNet's */
} pipeline;

void accel__pipeline_entry(accel__build *b, const char *name, uint32_t first_input) {
  accel__add_entry(b, name, b->input + first_input, b->model->n_inputs - first_input, b->output,
                   b->model->n_outputs);
  b->output = NULL;
  b->cap_output = b->model->n_outputs = 0;
}

/* "prompt_embeds" and "clip_skip.K" from hidden[layers + 1], the states before the first layer and
 * behind each. */
static void list_embeddings(accel__build *b, const accel__pipeline_text *how,
                            const accel__clip_tower *t, const accel__model_output *hidden) {
  const int64_t last = how->normed ? t->layers : t->layers - 1;
  for (int64_t skip = 0; skip <= last; skip++) {
    char name[32] = "prompt_embeds";
    accel__tensor x = hidden[last - skip].tensor;
    if (how->normed) x = accel__norm_layer(b, x, -1, t->eps, true, "final_layer_norm");
    if (skip > 0) snprintf(name, sizeof name, "clip_skip.%lld", (long long)skip);
    accel__add_output(b, name, x, skip > 0 ? ACCEL__OUTPUT_ON_REQUEST : 0);
  }
}

accel_status accel__pipeline_text_entry(accel__build *b, const accel__pipeline_text *how,
                                        const accel__clip_tower *first, accel__clip_tower *t) {
  const char *own = accel__arena_printf(b->arena, "%s.", how->key),
             *tower = accel__arena_printf(b->arena, "%s.text_model.", how->key);
  if (own == NULL || tower == NULL) return ACCEL_ERROR_OUT_OF_MEMORY;
  *t = accel__clip_text_defaults;
  ACCEL_TRY(accel__enter_config(b, how->key));
  ACCEL_TRY(accel__clip_read(b, t));
  if (first != NULL && (t->vocab != first->vocab || t->positions != first->positions))
    return accel__refuse(b,
                         "field '%s': its vocabulary and positions are not those of "
                         "'text_encoder', which is not supported",
                         how->key);
  if (t->layers < 1) return accel__refuse(b, "field '%s': no layers", how->key);
  t->block.causal = true;
  b->scope = tower;
  b->spelling[0] = accel__clip_text_alone;
  accel__tensor x = first == NULL ? accel__clip_tokens(b, t) : accel__clip_embed(b, t);
  x = accel__clip_layers(b, t, x);
  if (accel__program_failed(b->p)) return ACCEL_OK; /* accel__build_end says why */
  const accel__model_output *hidden = b->output;
  b->output = NULL;
  b->cap_output = b->model->n_outputs = 0;
  if (how->states) list_embeddings(b, how, t, hidden);
  if (how->pooled) {
    x = accel__norm_layer(b, x, -1, t->eps, true, "final_layer_norm");
    x = accel__clip_end_rows(b, t, x);
    b->scope = own;
    if (how->projected)
      x = accel__dense_layer(b, x, t->projection, false, -1, NULL, "text_projection");
    accel__add_output(b, "text_embeds", x, 0);
  }
  accel__pipeline_entry(b, how->entry, 0);
  return ACCEL_OK;
}

static accel_status build_text(accel__build *b, pipeline *m, int which) {
  static const char *const keys[] = {"text_encoder", "text_encoder_2"}, *const entries[] = {
                                                                            "text", "text_2"};
  const accel__pipeline_text how = {.key = keys[which],
                                    .entry = entries[which],
                                    .states = true,
                                    .normed = !m->xl,
                                    .pooled = which > 0,
                                    .projected = which > 0};
  ACCEL_TRY(accel__pipeline_text_entry(b, &how, which > 0 ? &m->text[0] : NULL, &m->text[which]));
  m->text_inputs = b->model->n_inputs;
  return ACCEL_OK;
}

static accel__tensor planes(accel__build *b, const char *name, int64_t channels, const char *side,
                            int64_t usual) {
  char height[32], width[32];
  snprintf(height, sizeof height, "%s_height", side);
  snprintf(width, sizeof width, "%s_width", side);
  const accel__dim dims[4] = {b->B, accel__const_dim(b->p, channels),
                              accel__symbol(b->p, height, 1, ACCEL__MAX_WIDTH, usual),
                              accel__symbol(b->p, width, 1, ACCEL__MAX_WIDTH, usual)};
  return accel__add_item(b, name, ACCEL_PLUGIN_F32, 4, dims, ACCEL__DEFAULT_REQUIRED);
}

static accel_status build_kl(accel__build *b) {
  accel__autoencoder c;
  ACCEL_TRY(accel__autoencoder_read(b, &c));
  b->spelling[0] = accel__unet_old_attention;
  uint32_t first = b->model->n_inputs;
  accel__tensor x = planes(b, "latents", c.latents, "latent", 64);
  accel__add_output(b, "pixels", accel__autoencoder_decode(b, &c, x), 0);
  accel__pipeline_entry(b, "decode_latents", first);
  first = b->model->n_inputs;
  x = planes(b, "pixels", c.in, "picture", 512);
  accel__add_output(b, "latent_dist.parameters", accel__autoencoder_encode(b, &c, x), 0);
  accel__pipeline_entry(b, "encode_pixels", first);
  return ACCEL_OK;
}

static accel_status build_tiny(accel__build *b) {
  accel__autoencoder_tiny c;
  ACCEL_TRY(accel__autoencoder_tiny_read(b, &c));
  if (c.factor != 2 || c.encoder.levels != c.decoder.levels)
    return accel__refuse(b,
                         "vae: fields 'upsampling_scaling_factor' (%lld) and "
                         "'encoder_block_out_channels': pictures would change their size",
                         (long long)c.factor);
  uint32_t first = b->model->n_inputs;
  accel__tensor x = planes(b, "latents", c.latents, "latent", 64);
  accel__add_output(b, "pixels", accel__autoencoder_tiny_decode(b, &c, x), 0);
  accel__pipeline_entry(b, "decode_latents", first);
  first = b->model->n_inputs;
  x = planes(b, "pixels", c.in, "picture", 512);
  accel__add_output(b, "latents", accel__autoencoder_tiny_encode(b, &c, x), 0);
  accel__pipeline_entry(b, "encode_pixels", first);
  return ACCEL_OK;
}

accel_status accel__pipeline_autoencoder(accel__build *b) {
  const char *class = "AutoencoderKL";
  ACCEL_TRY(accel__enter_config(b, "vae"));
  ACCEL_TRY(accel__json_string(b->file, b->config, "_class_name", &class));
  b->scope = "vae.";
  if (strcmp(class, "AutoencoderKL") == 0) return build_kl(b);
  if (strcmp(class, "AutoencoderTiny") == 0) return build_tiny(b);
  return accel__refuse(b, "vae: class '%s' is not supported; known: AutoencoderKL, AutoencoderTiny",
                       class);
}

/* "safety" of the part "safety_checker", where there is one. */
static accel_status build_safety(accel__build *b) {
  const char *class = NULL;
  const uint32_t first = b->model->n_inputs;
  const accel__json *config = NULL;
  ACCEL_TRY(accel__json_object(b->file, b->file->root, "safety_checker", &config));
  if (config == NULL) return ACCEL_OK;
  const accel__json *classes = accel__json_get(config, "architectures");
  if (cJSON_IsArray(classes) && cJSON_IsString(classes->child)) class = classes->child->valuestring;
  if (class == NULL || strcmp(class, "StableDiffusionSafetyChecker") != 0)
    return accel__refuse(b,
                         "safety_checker: class '%s' is not supported; known: "
                         "StableDiffusionSafetyChecker, or none (--no-safety)",
                         class != NULL ? class : "");
  ACCEL_TRY(accel__safety_checker(b, config, "safety_checker."));
  accel__pipeline_entry(b, "safety", first);
  return ACCEL_OK;
}

accel_status accel__pipeline_end(accel__build *b, uint32_t first_input, uint32_t n,
                                 accel__tensor x) {
  accel__model_output *sample = accel__arena_alloc(b->arena, sizeof *sample);
  if (sample == NULL) return ACCEL_ERROR_OUT_OF_MEMORY;
  *sample = (accel__model_output){.name = "sample", .tensor = x};
  ACCEL_TRY(accel__pipeline_autoencoder(b));
  ACCEL_TRY(build_safety(b));
  b->model->inputs = b->input + first_input;
  b->model->n_inputs = n;
  b->output = sample;
  b->model->n_outputs = 1;
  return accel__build_end(b, x);
}

static accel_status build(const accel__model_request *request, const char *architecture,
                          accel__model *model) {
  accel__build b;
  accel__tensor x;
  ACCEL_TRY(accel__build_begin(&b, request, architecture, model, ""));
  pipeline m = {.xl = strstr(architecture, "StableDiffusionXL") != NULL};
  ACCEL_TRY(build_text(&b, &m, 0));
  if (m.xl) ACCEL_TRY(build_text(&b, &m, 1));
  ACCEL_TRY(accel__enter_config(&b, "unet"));
  b.scope = "unet.";
  ACCEL_TRY(accel__unet_2d_condition(&b, &x));
  m.unet_inputs = model->n_inputs - m.text_inputs;
  return accel__pipeline_end(&b, m.text_inputs, m.unet_inputs, x);
}

static const char *const classes[] = {
    "StableDiffusionPipeline",          "StableDiffusionXLPipeline",
    "LatentConsistencyModelPipeline",   "StableDiffusionImg2ImgPipeline",
    "StableDiffusionXLImg2ImgPipeline", "StableDiffusionInpaintPipeline",
    "StableDiffusionXLInpaintPipeline", NULL};
const accel__architecture accel__model_stable_diffusion = {
    .model_type = "stable_diffusion", .classes = classes, .build = build};
