/* stable_diffusion.c - the pipelines of Stable Diffusion in diffusers: one or two text encoders of
 * CLIP, a UNet, an autoencoder.  Entries:
 *
 *   forward  what the UNet does in one step: "sample" [B,C,h,w], "timestep" [B],
 *            "encoder_hidden_states" [B,S,width] and what its config adds -> "sample"
 *   text     tokens -> "prompt_embeds" [T,width], and on request "clip_skip.K": the same without
 *            the last K layers of the text encoder
 *   text_2   SDXL: the same of the second encoder, and "text_embeds" [B,projection]
 *   decode_latents  "latents" [B,4,h,w], divided by the scaling factor -> "pixels" [B,3,H,W], -1 to 1
 *   encode_pixels   "pixels" -> "latent_dist.parameters" [B,8,h,w]: mean and logarithm of variance
 */
#include <stdio.h>

#include "models/clip.h"
#include "models/diffusion.h"

typedef struct pipeline {
  bool xl; /* two text encoders, their last but one layer without the final norm */
  accel__clip_tower text[2];
  uint32_t text_inputs, unet_inputs; /* of b->input: the texts' come first, then the UNet's */
} pipeline;

/* The outputs that the model has listed so far become those of an entry of its own. */
static void close_entry(accel__build *b, const char *name, uint32_t first_input) {
  accel__add_entry(b, name, b->input + first_input, b->model->n_inputs - first_input, b->output,
                   b->model->n_outputs);
  b->output = NULL;
  b->cap_output = b->model->n_outputs = 0;
}

/* "prompt_embeds" and "clip_skip.K" from hidden[layers + 1], the states before the first layer and
 * behind each. */
static void list_embeddings(accel__build *b, const pipeline *m, const accel__clip_tower *t,
                            const accel__model_output *hidden) {
  const int64_t last = m->xl ? t->layers - 1 : t->layers;
  for (int64_t skip = 0; skip <= last; skip++) {
    char name[32] = "prompt_embeds";
    accel__tensor x = hidden[last - skip].tensor;
    if (!m->xl) x = accel__norm_layer(b, x, -1, t->eps, true, "final_layer_norm");
    if (skip > 0) snprintf(name, sizeof name, "clip_skip.%lld", (long long)skip);
    accel__add_output(b, name, x, skip > 0 ? ACCEL__OUTPUT_ON_REQUEST : 0);
  }
}

static accel_status build_text(accel__build *b, pipeline *m, int which) {
  static const char *const keys[] = {"text_encoder", "text_encoder_2"},
                           *const scopes[] = {"text_encoder.text_model.",
                                              "text_encoder_2.text_model."},
                           *const entries[] = {"text", "text_2"};
  accel__clip_tower *t = &m->text[which];
  *t = accel__clip_text_defaults;
  ACCEL_TRY(accel__enter_config(b, keys[which]));
  ACCEL_TRY(accel__clip_read(b, t));
  if (which > 0 && (t->vocab != m->text[0].vocab || t->positions != m->text[0].positions))
    return accel__refuse(b,
                         "field 'text_encoder_2': its vocabulary and positions are not those of "
                         "'text_encoder', which is not supported");
  if (t->layers < 1) return accel__refuse(b, "field '%s': no layers", keys[which]);
  t->block.causal = true;
  b->scope = scopes[which];
  b->spelling[0] = accel__clip_text_alone;
  accel__tensor x = which == 0 ? accel__clip_tokens(b, t) : accel__clip_embed(b, t);
  x = accel__clip_layers(b, t, x);
  if (accel__program_failed(b->p)) return ACCEL_OK; /* accel__build_end says why */
  const accel__model_output *hidden = b->output;
  b->output = NULL;
  b->cap_output = b->model->n_outputs = 0;
  list_embeddings(b, m, t, hidden);
  if (which > 0) {
    x = accel__norm_layer(b, x, -1, t->eps, true, "final_layer_norm");
    x = accel__clip_end_rows(b, t, x);
    b->scope = "text_encoder_2.";
    x = accel__dense_layer(b, x, t->projection, false, -1, NULL, "text_projection");
    accel__add_output(b, "text_embeds", x, 0);
  }
  close_entry(b, entries[which], 0);
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

static accel_status build_autoencoder(accel__build *b) {
  accel__autoencoder c;
  ACCEL_TRY(accel__enter_config(b, "vae"));
  ACCEL_TRY(accel__autoencoder_read(b, &c));
  b->scope = "vae.";
  b->spelling[0] = accel__unet_old_attention;
  uint32_t first = b->model->n_inputs;
  accel__tensor x = planes(b, "latents", c.latents, "latent", 64);
  accel__add_output(b, "pixels", accel__autoencoder_decode(b, &c, x), 0);
  close_entry(b, "decode_latents", first);
  first = b->model->n_inputs;
  x = planes(b, "pixels", c.in, "picture", 512);
  accel__add_output(b, "latent_dist.parameters", accel__autoencoder_encode(b, &c, x), 0);
  close_entry(b, "encode_pixels", first);
  return ACCEL_OK;
}

static accel_status build(const accel__model_request *request, const char *architecture,
                          accel__model *model) {
  accel__build b;
  accel__tensor x;
  ACCEL_TRY(accel__build_begin(&b, request, architecture, model, ""));
  pipeline m = {.xl = accel__is_class(&b, "XLPipeline")};
  ACCEL_TRY(build_text(&b, &m, 0));
  if (m.xl) ACCEL_TRY(build_text(&b, &m, 1));
  ACCEL_TRY(accel__enter_config(&b, "unet"));
  b.scope = "unet.";
  ACCEL_TRY(accel__unet_2d_condition(&b, &x));
  m.unet_inputs = model->n_inputs - m.text_inputs;
  accel__model_output *sample = accel__arena_alloc(b.arena, sizeof *sample);
  if (sample == NULL) return ACCEL_ERROR_OUT_OF_MEMORY;
  *sample = (accel__model_output){.name = "sample", .tensor = x};
  ACCEL_TRY(build_autoencoder(&b));
  model->inputs = b.input + m.text_inputs;
  model->n_inputs = m.unet_inputs;
  b.output = sample;
  model->n_outputs = 1;
  return accel__build_end(&b, x);
}

static const char *const classes[] = {"StableDiffusionPipeline", "StableDiffusionXLPipeline",
                                      "LatentConsistencyModelPipeline", NULL};
const accel__architecture accel__model_stable_diffusion = {
    .model_type = "stable_diffusion", .classes = classes, .build = build};
