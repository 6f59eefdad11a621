/* flow_pipelines.c - StableDiffusion3Pipeline and FluxPipeline of diffusers, and those with pictures to
 * begin with: text encoders of CLIP and
 * T5, a transformer that predicts flow, an autoencoder.  Entries:
 *
 *   forward  a step of the transformer (sd3_transformer.c, flux_transformer.c) -> "sample"
 *   forward_skipping   SD 3: the same without the layers that its input "skip_layers" names
 *   text     tokens -> of SD 3 "prompt_embeds" [T,width], "clip_skip.K" and "text_embeds"
 *            [B,projection]; of Flux "text_embeds" [B,width] alone
 *   text_2   SD 3: the same of the second encoder of CLIP; Flux: "prompt_embeds" of T5
 *   text_3   SD 3: "prompt_embeds" of T5, which may be absent
 *   decode_latents, encode_pixels   as stable_diffusion.c has them
 */
#include "core/text.h"
#include "models/stable_diffusion.h"
#include "models/t5.h"

/* T5 over the tokens' inputs that CLIP has added, with a vocabulary of its own. */
static accel_status t5_entry(accel__build *b, const char *key, const char *entry, int32_t space) {
  enum { LENGTHS, IDS, INPUTS };
  accel__t5 c = accel__t5_defaults;
  const char *scope = accel__arena_printf(b->arena, "%s.", key);
  accel__model_input *own = accel__arena_array(b->arena, INPUTS, sizeof *own);
  if (scope == NULL || own == NULL) return ACCEL_ERROR_OUT_OF_MEMORY;
  ACCEL_TRY(accel__enter_config(b, key));
  ACCEL_TRY(accel__t5_read(b, &c));
  b->scope = scope;
  b->spelling[0] = NULL;
  b->space = space;
  b->n_hidden = 0;
  const accel__tensor x = accel__t5_encode(b, &c);
  b->output = NULL; /* hidden states */
  b->cap_output = b->model->n_outputs = 0;
  accel__add_output(b, "prompt_embeds", x, 0);
  own[LENGTHS] = b->input[LENGTHS];
  own[IDS] = b->input[IDS];
  own[IDS].max = c.vocab;
  accel__add_entry(b, entry, own, INPUTS, b->output, b->model->n_outputs);
  b->output = NULL;
  b->cap_output = b->model->n_outputs = 0;
  return ACCEL_OK;
}

static accel_status build(const accel__model_request *request, const char *architecture,
                          accel__model *model) {
  accel__build b;
  accel__tensor x = -1, skipping = -1;
  accel__clip_tower text[2];
  ACCEL_TRY(accel__build_begin(&b, request, architecture, model, ""));
  const bool flux = accel__starts_with(architecture, "Flux");
  accel__pipeline_text how = {
      .key = "text_encoder", .entry = "text", .states = !flux, .pooled = true, .projected = !flux};
  ACCEL_TRY(accel__pipeline_text_entry(&b, &how, NULL, &text[0]));
  const int32_t space = b.space;
  if (!flux) {
    how.key = "text_encoder_2";
    how.entry = "text_2";
    ACCEL_TRY(accel__pipeline_text_entry(&b, &how, &text[0], &text[1]));
  }
  if (flux || accel__json_get(b.file->root, "text_encoder_3") != NULL)
    ACCEL_TRY(t5_entry(&b, flux ? "text_encoder_2" : "text_encoder_3", flux ? "text_2" : "text_3",
                       space));
  const uint32_t first = model->n_inputs;
  ACCEL_TRY(accel__enter_config(&b, "transformer"));
  b.scope = "transformer.";
  b.spelling[0] = NULL;
  ACCEL_TRY(flux ? accel__flux_transformer(&b, &x)
                 : accel__sd3_transformer_skipping(&b, &x, &skipping));
  if (flux) return accel__pipeline_end(&b, first, model->n_inputs - first, x);
  const uint32_t n = model->n_inputs - first;
  accel__add_output(&b, "sample", skipping, 0);
  accel__pipeline_entry(&b, "forward_skipping", first);
  return accel__pipeline_end(&b, first, n - 1, x); /* skip_layers is the last */
}

static const char *const classes[] = {"StableDiffusion3Pipeline",
                                      "StableDiffusion3Img2ImgPipeline",
                                      "StableDiffusion3InpaintPipeline",
                                      "FluxPipeline",
                                      "FluxImg2ImgPipeline",
                                      "FluxInpaintPipeline",
                                      NULL};
const accel__architecture accel__model_flow_pipelines = {
    .model_type = "flow_pipelines", .classes = classes, .build = build};
