/* vision_encoder_decoder.c - a picture's encoder under a decoder of text (transformers'
 * VisionEncoderDecoderModel): ViT or DeiT under TrOCR's decoder, which is BART's.  The composite is
 * TrOCR: the text of a line of writing. */
#include <string.h>

#include "models/bart.h"
#include "models/vit.h"

typedef struct composite {
  accel__bart decoder;
  accel__vit *encoder; /* embedding it sets its rows */
  accel__tensor pixels;
  bool projects;       /* enc_to_dec_proj between the two */
  accel__tensor *seen; /* gets the encoder's own rows */
} composite;

static accel_status read_encoder(accel__build *b, composite *m) {
  const char *type = NULL;
  ACCEL_TRY(accel__enter_config(b, "encoder"));
  ACCEL_TRY(accel__json_string(b->file, b->config, "model_type", &type));
  m->encoder->distilled = type != NULL && strcmp(type, "deit") == 0;
  if (type == NULL || (!m->encoder->distilled && strcmp(type, "vit") != 0))
    return accel__refuse(b, "field 'encoder.model_type': '%s' is not supported; known: vit, deit",
                         type != NULL ? type : "");
  ACCEL_TRY(accel__vit_read(b, &m->encoder->c));
  b->images.typical_size[0] = m->encoder->c.image.h;
  b->images.typical_size[1] = m->encoder->c.image.w;
  return accel__enter_config(b, NULL);
}

/* Ids of the decoder's config, over which those of the root stand. */
static accel_status read_ids(accel__build *b) {
  int64_t start = 2;
  ACCEL_TRY(
      accel__json_int(b->file, b->config, "decoder_start_token_id", 0, ACCEL__MAX_VOCAB, &start));
  ACCEL_TRY(accel__read_token_ids(b, /*bos*/ 0, /*eos*/ 2, /*pad*/ 1));
  ACCEL_TRY(accel__enter_config(b, NULL));
  const int64_t bos = b->model->bos_id, pad = b->model->pad_id,
                eos = b->model->n_eos > 0 ? b->model->eos_ids[0] : -1;
  ACCEL_TRY(accel__read_token_ids(b, bos, eos, pad));
  if (b->model->decoder_start_id < 0) b->model->decoder_start_id = start;
  return ACCEL_OK;
}

static accel_status read_decoder(accel__build *b, composite *m) {
  accel__bart *c = &m->decoder;
  const char *type = NULL;
  int64_t width = 0; /* of what cross attention reads; 0: the encoder's, brought to the decoder's */
  bool learned = true;
  *c = (accel__bart){.hidden = 1024,
                     .positions = 512,
                     .encoder = {.layers = m->encoder->c.layers},
                     .decoder = {.layers = 12, .inner = 4096, .heads = 16, .vocab = 50265},
                     .words_norm = true,
                     .tied = true,
                     .act = {.act = ACCEL_PLUGIN_ACT_GELU}};
  ACCEL_TRY(accel__enter_config(b, "decoder"));
  ACCEL_TRY(accel__json_string(b->file, b->config, "model_type", &type));
  if (type == NULL || strcmp(type, "trocr") != 0)
    return accel__refuse(b, "field 'decoder.model_type': '%s' is not supported; known: trocr",
                         type != NULL ? type : "");
  const accel__field fields[] = {
      ACCEL_FIELD_INT("vocab_size", &c->decoder.vocab, 1, ACCEL__MAX_VOCAB),
      ACCEL_FIELD_INT("hidden_size", &c->hidden, 1, ACCEL__MAX_WIDTH),
      ACCEL_FIELD_INT("d_model", &c->hidden, 1, ACCEL__MAX_WIDTH),
      ACCEL_FIELD_INT("max_position_embeddings", &c->positions, 1, ACCEL__MAX_POSITIONS),
      ACCEL_FIELD_INT("decoder_layers", &c->decoder.layers, 0, ACCEL__MAX_LAYERS),
      ACCEL_FIELD_INT("decoder_ffn_dim", &c->decoder.inner, 1, ACCEL__MAX_WIDTH),
      ACCEL_FIELD_INT("decoder_attention_heads", &c->decoder.heads, 1, ACCEL__MAX_WIDTH),
      ACCEL_FIELD_INT("cross_attention_hidden_size", &width, 0, ACCEL__MAX_WIDTH),
      ACCEL_FIELD_BOOL("scale_embedding", &c->scale_words),
      ACCEL_FIELD_BOOL("use_learned_position_embeddings", &learned),
      ACCEL_FIELD_BOOL("layernorm_embedding", &c->words_norm),
      ACCEL_FIELD_BOOL("tie_word_embeddings", &c->tied),
      ACCEL_FIELD_ACT("activation_function", &c->act)};
  ACCEL_TRY(accel__read_fields(b, fields, sizeof fields / sizeof *fields));
  ACCEL_TRY(accel__divides(b, "decoder_attention_heads", c->decoder.heads, "d_model", c->hidden));
  if (!learned)
    return accel__refuse(b, "field 'use_learned_position_embeddings': false is not supported");
  if (width > 0 && width != m->encoder->c.hidden)
    return accel__refuse(
        b, "field 'cross_attention_hidden_size' is %lld, the encoder's hidden_size %lld",
        (long long)width, (long long)m->encoder->c.hidden);
  m->projects = width == 0 && c->hidden != m->encoder->c.hidden;
  return read_ids(b);
}

/* ---- the two sides ---- */

static accel__tensor encode(accel__build *b, const void *config) {
  const composite *m = config;
  b->scope = "encoder.";
  accel__tensor x = accel__vit_embeddings(b, m->encoder, m->pixels);
  x = accel__vit_encoder(b, &m->encoder->c, x, m->encoder->rows, NULL, NULL);
  x = accel__norm_layer(b, x, -1, m->encoder->c.eps, true, "layernorm");
  b->scope = NULL;
  *m->seen = x;
  return m->projects
             ? accel__dense_layer(b, x, m->decoder.hidden, true, -1, NULL, "enc_to_dec_proj")
             : x;
}

static void output_encoded(accel__build *b, const void *config) {
  const composite *m = config;
  accel__output_items(b, "encoder_last_hidden_state", *m->seen, m->encoder->rows, false);
}

static accel__tensor decode(accel__build *b, const void *config, accel__tensor memory) {
  const composite *m = config;
  b->scope = "decoder.model.";
  accel__tensor x = accel__bart_decoder(b, &m->decoder, memory);
  b->scope = NULL;
  return x;
}

static accel__keys keys(accel__build *b, const void *config, accel__tensor memory, uint32_t i) {
  const composite *m = config;
  b->scope = "decoder.model.";
  const accel__keys kv = accel__bart_keys(b, &m->decoder, memory, i);
  b->scope = NULL;
  return kv;
}

static accel__tensor logits(accel__build *b, const void *config, accel__tensor x) {
  const composite *m = config;
  return accel__head_vocabulary(b, x, m->decoder.decoder.vocab, m->decoder.tied,
                                "decoder.model.decoder.embed_tokens", "decoder.output_projection",
                                NULL);
}

static accel_status build(const accel__model_request *request, const char *architecture,
                          accel__model *model) {
  accel__build b;
  ACCEL_TRY(accel__build_begin(&b, request, architecture, model, ""));
  composite *m = accel__arena_alloc(b.arena, sizeof *m);
  accel__vit *vit = accel__arena_alloc(b.arena, sizeof *vit);
  accel__tensor *seen = accel__arena_alloc(b.arena, sizeof *seen);
  if (m == NULL || vit == NULL || seen == NULL) return ACCEL_ERROR_OUT_OF_MEMORY;
  *vit = (accel__vit){.stride = 16};
  *m = (composite){.encoder = vit, .seen = seen};
  b.is_base = false; /* its name ends in "Model", but it has a head */
  ACCEL_TRY(read_encoder(&b, m));
  ACCEL_TRY(read_decoder(&b, m));
  const accel__bart *c = &m->decoder;
  model->hidden_size = c->hidden;
  model->max_positions = c->positions;
  m->pixels = accel__add_pixels(&b, vit->c.channels, NULL);
  accel__add_decoder_tokens(&b, c->decoder.vocab, ACCEL__DEFAULT_REQUIRED);
  accel__add_positions(&b, c->positions, ACCEL__DEFAULT_ARANGE, 0);
  const accel__seq2seq how = {.config = m,
                              .encoder = encode,
                              .decoder = decode,
                              .keys = keys,
                              .logits = logits,
                              .output_encoded = output_encoded,
                              .layers = c->decoder.layers,
                              .heads = c->decoder.heads,
                              .head_dim = c->hidden / c->decoder.heads,
                              .hidden = c->hidden};
  return accel__seq2seq_build(&b, &how);
}

static const char *const classes[] = {"VisionEncoderDecoderModel", NULL};
const accel__architecture accel__model_vision_encoder_decoder = {
    .model_type = "vision-encoder-decoder", .classes = classes, .build = build};
