/* vision_encoder_decoder.c - a picture's encoder under a decoder of text (transformers'
 * VisionEncoderDecoderModel): ViT, DeiT, Swin or Donut's Swin under TrOCR's decoder, which is
 * BART's, or mBART's.  The composites are TrOCR, the text of a line of writing, and Donut, what a
 * page says as the text that its prompt begins. */
#include <string.h>

#include "models/bart.h"
#include "models/swin.h"
#include "models/vit.h"

typedef struct composite {
  accel__bart decoder;
  accel__vit *vit;         /* embedding it sets its rows; NULL: the encoder is a Swin */
  accel__swin_model *swin; /* likewise its grid; NULL: it is a ViT */
  bool donut;              /* that Swin has no norm behind its last stage */
  int64_t width, layers;   /* of the encoder; the layers number its parts */
  accel__dim *rows;        /* of a picture, once it is encoded */
  accel__tensor pixels;
  bool projects;       /* enc_to_dec_proj between the two */
  accel__tensor *seen; /* gets the encoder's own rows */
} composite;

/* ---- config ---- */

static accel_status read_swin(accel__build *b, composite *m) {
  if ((m->swin = accel__arena_alloc(b->arena, sizeof *m->swin)) == NULL)
    return ACCEL_ERROR_OUT_OF_MEMORY;
  ACCEL_TRY(accel__swin_model_read(b, m->swin));
  ACCEL_TRY(accel__swin_refuse_table(b, m->swin, m->donut));
  m->width = m->swin->c.embed << (m->swin->c.stages - 1);
  m->layers = m->swin->c.stages;
  b->images.typical_size[0] = m->swin->image.h;
  b->images.typical_size[1] = m->swin->image.w;
  return ACCEL_OK;
}

static accel_status read_vit(accel__build *b, composite *m, bool distilled) {
  if ((m->vit = accel__arena_alloc(b->arena, sizeof *m->vit)) == NULL)
    return ACCEL_ERROR_OUT_OF_MEMORY;
  *m->vit = (accel__vit){.stride = 16, .distilled = distilled};
  ACCEL_TRY(accel__vit_read(b, &m->vit->c));
  m->width = m->vit->c.hidden;
  m->layers = m->vit->c.layers;
  b->images.typical_size[0] = m->vit->c.image.h;
  b->images.typical_size[1] = m->vit->c.image.w;
  return ACCEL_OK;
}

static accel_status read_encoder(accel__build *b, composite *m) {
  const char *type = NULL;
  ACCEL_TRY(accel__enter_config(b, "encoder"));
  ACCEL_TRY(accel__json_string(b->file, b->config, "model_type", &type));
  if (type == NULL) type = "";
  m->donut = strcmp(type, "donut-swin") == 0;
  if (m->donut || strcmp(type, "swin") == 0)
    ACCEL_TRY(read_swin(b, m));
  else if (strcmp(type, "vit") == 0 || strcmp(type, "deit") == 0)
    ACCEL_TRY(read_vit(b, m, strcmp(type, "deit") == 0));
  else
    return accel__refuse(
        b, "field 'encoder.model_type': '%s' is not supported; known: vit, deit, swin, donut-swin",
        type);
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

/* Width of what cross attention reads: the encoder's, brought to the decoder's where nothing is
 * said of it and they differ.  mBART's attention reads rows of its own width alone. */
static accel_status read_width(const accel__build *b, composite *m, bool mbart) {
  const int64_t hidden = m->decoder.hidden;
  int64_t width = 0;
  ACCEL_TRY(accel__json_int(b->file, b->config, "cross_attention_hidden_size", 0, ACCEL__MAX_WIDTH,
                            &width));
  m->projects = width == 0 && hidden != m->width;
  if (width > 0 && width != m->width)
    return accel__refuse(
        b, "field 'cross_attention_hidden_size' is %lld, the encoder's hidden_size %lld",
        (long long)width, (long long)m->width);
  if (mbart && width > 0 && width != hidden)
    return accel__refuse(b, "field 'cross_attention_hidden_size' is %lld, mBART's d_model %lld",
                         (long long)width, (long long)hidden);
  return ACCEL_OK;
}

static accel_status read_decoder(accel__build *b, composite *m) {
  accel__bart *c = &m->decoder;
  const char *type = NULL;
  bool learned = true;
  ACCEL_TRY(accel__enter_config(b, "decoder"));
  ACCEL_TRY(accel__json_string(b->file, b->config, "model_type", &type));
  const bool mbart = type != NULL && strcmp(type, "mbart") == 0;
  if (!mbart && (type == NULL || strcmp(type, "trocr") != 0))
    return accel__refuse(b,
                         "field 'decoder.model_type': '%s' is not supported; known: trocr, mbart",
                         type != NULL ? type : "");
  *c = (accel__bart){.hidden = 1024,
                     .positions = mbart ? 1024 : 512,
                     .encoder = {.layers = m->layers},
                     .decoder = {.layers = 12, .inner = 4096, .heads = 16, .vocab = 50265},
                     .words_norm = true,
                     .before = mbart,
                     .tied = true,
                     .act = {.act = ACCEL_PLUGIN_ACT_GELU}};
  const accel__field fields[] = {
      ACCEL_FIELD_INT("vocab_size", &c->decoder.vocab, 1, ACCEL__MAX_VOCAB),
      ACCEL_FIELD_INT("hidden_size", &c->hidden, 1, ACCEL__MAX_WIDTH),
      ACCEL_FIELD_INT("d_model", &c->hidden, 1, ACCEL__MAX_WIDTH),
      ACCEL_FIELD_INT("max_position_embeddings", &c->positions, 1, ACCEL__MAX_POSITIONS),
      ACCEL_FIELD_INT("decoder_layers", &c->decoder.layers, 0, ACCEL__MAX_LAYERS),
      ACCEL_FIELD_INT("decoder_ffn_dim", &c->decoder.inner, 1, ACCEL__MAX_WIDTH),
      ACCEL_FIELD_INT("decoder_attention_heads", &c->decoder.heads, 1, ACCEL__MAX_WIDTH),
      ACCEL_FIELD_BOOL("scale_embedding", &c->scale_words),
      ACCEL_FIELD_BOOL("tie_word_embeddings", &c->tied),
      ACCEL_FIELD_ACT("activation_function", &c->act)};
  const accel__field own[] = {/* of TrOCR's */
                              ACCEL_FIELD_BOOL("use_learned_position_embeddings", &learned),
                              ACCEL_FIELD_BOOL("layernorm_embedding", &c->words_norm)};
  ACCEL_TRY(accel__read_fields(b, fields, sizeof fields / sizeof *fields));
  if (!mbart) ACCEL_TRY(accel__read_fields(b, own, 2));
  ACCEL_TRY(accel__divides(b, "decoder_attention_heads", c->decoder.heads, "d_model", c->hidden));
  if (!learned)
    return accel__refuse(b, "field 'use_learned_position_embeddings': false is not supported");
  ACCEL_TRY(read_width(b, m, mbart));
  return read_ids(b);
}

/* ---- the two sides ---- */

static accel__tensor encode_swin(accel__build *b, const composite *m) {
  accel__grid end = {-1, -1};
  accel__tensor x = accel__swin_embeddings(b, m->swin, m->pixels);
  x = accel__swin_stages(b, &m->swin->c, x, m->swin->grid, "encoder.layers", false, &end);
  if (!m->donut) x = accel__norm_layer(b, x, -1, m->swin->c.eps, true, "layernorm");
  *m->rows = x < 0 ? -1 : accel__tensor_dim(b->p, x, 1);
  return accel__items_to_rows(b, x, "patches");
}

static accel__tensor encode_vit(accel__build *b, const composite *m) {
  accel__tensor x = accel__vit_embeddings(b, m->vit, m->pixels);
  x = accel__vit_encoder(b, &m->vit->c, x, m->vit->rows, NULL, NULL);
  *m->rows = m->vit->rows;
  return accel__norm_layer(b, x, -1, m->vit->c.eps, true, "layernorm");
}

static accel__tensor encode(accel__build *b, const void *config) {
  const composite *m = config;
  b->scope = "encoder.";
  accel__tensor x = m->swin != NULL ? encode_swin(b, m) : encode_vit(b, m);
  b->scope = NULL;
  *m->seen = x;
  return m->projects
             ? accel__dense_layer(b, x, m->decoder.hidden, true, -1, NULL, "enc_to_dec_proj")
             : x;
}

static void output_encoded(accel__build *b, const void *config) {
  const composite *m = config;
  accel__output_items(b, "encoder_last_hidden_state", *m->seen, *m->rows, false);
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

/* TrOCR's head is output_projection, mBART's lm_head. */
static accel__tensor logits(accel__build *b, const void *config, accel__tensor x) {
  const composite *m = config;
  return accel__head_vocabulary(
      b, x, m->decoder.decoder.vocab, m->decoder.tied, "decoder.model.decoder.embed_tokens",
      m->decoder.before ? "decoder.lm_head" : "decoder.output_projection", NULL);
}

static accel_status build(const accel__model_request *request, const char *architecture,
                          accel__model *model) {
  accel__build b;
  ACCEL_TRY(accel__build_begin(&b, request, architecture, model, ""));
  composite *m = accel__arena_alloc(b.arena, sizeof *m);
  accel__tensor *seen = accel__arena_alloc(b.arena, sizeof *seen);
  accel__dim *rows = accel__arena_alloc(b.arena, sizeof *rows);
  if (m == NULL || seen == NULL || rows == NULL) return ACCEL_ERROR_OUT_OF_MEMORY;
  *m = (composite){.seen = seen, .rows = rows};
  b.is_base = false; /* its name ends in "Model", but it has a head */
  ACCEL_TRY(read_encoder(&b, m));
  ACCEL_TRY(read_decoder(&b, m));
  const accel__bart *c = &m->decoder;
  model->hidden_size = c->hidden;
  model->max_positions = c->positions;
  model->generation.answer_prefix = m->donut;
  m->pixels = m->swin != NULL ? accel__swin_pictures(&b, m->swin)
                              : accel__add_pixels(&b, m->vit->c.channels, NULL);
  accel__add_decoder_tokens(&b, c->decoder.vocab, ACCEL__DEFAULT_REQUIRED);
  accel__add_positions(&b, c->positions, ACCEL__DEFAULT_ARANGE, 0);
  accel__seq2seq how = accel__bart_seq2seq(c);
  how.config = m;
  how.encoder = encode;
  how.decoder = decode;
  how.keys = keys;
  how.logits = logits;
  how.output_encoded = output_encoded;
  return accel__seq2seq_build(&b, &how);
}

static const char *const classes[] = {"VisionEncoderDecoderModel", NULL};
const accel__architecture accel__model_vision_encoder_decoder = {
    .model_type = "vision-encoder-decoder", .classes = classes, .build = build};
