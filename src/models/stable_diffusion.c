/* stable_diffusion.c - StableDiffusionPipeline of diffusers: CLIP's text encoder, a UNet, an
 * autoencoder.  Its entries:
 *
 *   forward  what the UNet does in one step: "sample" [B,C,h,w], "timestep" [B],
 *            "encoder_hidden_states" [B,S,width] -> "sample"
 *   text     tokens -> "prompt_embeds" [T,width], and on request "clip_skip.K": the same without
 *            the last K layers of the text encoder
 *   decode_latents  "latents" [B,4,h,w], divided by the scaling factor -> "pixels" [B,3,H,W], -1 to 1
 */
#include <stdio.h>

#include "models/clip.h"
#include "models/diffusion.h"

typedef struct pipeline {
  accel__clip_tower text;
  uint32_t text_inputs, unet_inputs; /* of b->input: the text's come first, then the UNet's */
} pipeline;

static const accel__clip_tower text_defaults = {.hidden = 512,
                                                .layers = 12,
                                                .heads = 8,
                                                .inner = 2048,
                                                .projection = 512,
                                                .vocab = 49408,
                                                .positions = 77,
                                                .eos = 49407,
                                                .eps = 1e-5,
                                                .act = {.act = ACCEL_PLUGIN_ACT_GELU_QUICK}};

/* The outputs that the model has listed so far become those of an entry of its own. */
static void close_entry(accel__build *b, const char *name, uint32_t first_input) {
  accel__add_entry(b, name, b->input + first_input, b->model->n_inputs - first_input, b->output,
                   b->model->n_outputs);
  b->output = NULL;
  b->cap_output = b->model->n_outputs = 0;
}

static accel_status build_text(accel__build *b, pipeline *m) {
  m->text = text_defaults;
  ACCEL_TRY(accel__enter_config(b, "text_encoder"));
  ACCEL_TRY(accel__clip_read(b, &m->text));
  m->text.block.causal = true;
  b->scope = "text_encoder.text_model.";
  b->spelling[0] = accel__clip_text_alone;
  accel__tensor x = accel__clip_layers(b, &m->text, accel__clip_tokens(b, &m->text));
  x = accel__norm_layer(b, x, -1, m->text.eps, true, "final_layer_norm");
  if (accel__program_failed(b->p)) return ACCEL_OK; /* accel__build_end says why */
  const accel__model_output *hidden = b->output;    /* before the first layer, behind each */
  b->output = NULL;
  b->cap_output = b->model->n_outputs = 0;
  accel__add_output(b, "prompt_embeds", x, 0);
  for (int64_t skip = 1; skip < m->text.layers; skip++) {
    char name[32];
    snprintf(name, sizeof name, "clip_skip.%lld", (long long)skip);
    x = accel__norm_layer(b, hidden[m->text.layers - skip].tensor, -1, m->text.eps, true,
                          "final_layer_norm");
    accel__add_output(b, name, x, ACCEL__OUTPUT_ON_REQUEST);
  }
  close_entry(b, "text", 0);
  m->text_inputs = b->model->n_inputs;
  return ACCEL_OK;
}

static accel_status build_decoder(accel__build *b) {
  accel__autoencoder c;
  const uint32_t first = b->model->n_inputs;
  ACCEL_TRY(accel__enter_config(b, "vae"));
  ACCEL_TRY(accel__autoencoder_read(b, &c));
  b->scope = "vae.";
  b->spelling[0] = accel__unet_old_attention;
  const accel__dim dims[4] = {b->B, accel__const_dim(b->p, c.latents),
                              accel__symbol(b->p, "latent_height", 1, ACCEL__MAX_WIDTH, 64),
                              accel__symbol(b->p, "latent_width", 1, ACCEL__MAX_WIDTH, 64)};
  accel__tensor x =
      accel__add_item(b, "latents", ACCEL_PLUGIN_F32, 4, dims, ACCEL__DEFAULT_REQUIRED);
  accel__add_output(b, "pixels", accel__autoencoder_decode(b, &c, x), 0);
  close_entry(b, "decode_latents", first);
  return ACCEL_OK;
}

static accel_status build(const accel__model_request *request, const char *architecture,
                          accel__model *model) {
  accel__build b;
  pipeline m = {0};
  accel__tensor x;
  ACCEL_TRY(accel__build_begin(&b, request, architecture, model, ""));
  ACCEL_TRY(build_text(&b, &m));
  ACCEL_TRY(accel__enter_config(&b, "unet"));
  b.scope = "unet.";
  ACCEL_TRY(accel__unet_2d_condition(&b, &x));
  m.unet_inputs = model->n_inputs - m.text_inputs;
  accel__model_output *sample = accel__arena_alloc(b.arena, sizeof *sample);
  if (sample == NULL) return ACCEL_ERROR_OUT_OF_MEMORY;
  *sample = (accel__model_output){.name = "sample", .tensor = x};
  ACCEL_TRY(build_decoder(&b));
  model->inputs = b.input + m.text_inputs;
  model->n_inputs = m.unet_inputs;
  b.output = sample;
  model->n_outputs = 1;
  return accel__build_end(&b, x);
}

static const char *const classes[] = {"StableDiffusionPipeline", NULL};
const accel__architecture accel__model_stable_diffusion = {
    .model_type = "stable_diffusion", .classes = classes, .build = build};
