/* vision_encoder_decoder.c - a picture's encoder under a decoder of text (transformers'
 * VisionEncoderDecoderModel): ViT, DeiT, Swin or Donut's Swin under TrOCR's decoder, which is
 * BART's, mBART's or GPT-2.  The composites are TrOCR, the text of a line of writing, Donut, what a
 * page says as the text that its prompt begins, and captions by GPT-2. */
#include <string.h>

#include "models/bart.h"
#include "models/decoders.h"
#include "models/swin.h"
#include "models/vit.h"

typedef struct composite {
  accel__bart bart;         /* the decoder, unless it is a GPT-2 */
  accel__gpt *gpt;          /* NULL: it is not */
  int64_t positions, vocab; /* of the decoder */
  bool tied;
  const char *scope, *words, *head; /* names: of the decoder's layers, its table, its head */
  accel__seq2seq how;
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

/* The ids of the decoder's config are read; those of the root stand above them.  start: what decoding
 * begins with where neither says; -1: bos. */
static accel_status read_root_ids(accel__build *b, int64_t start) {
  if (b->model->decoder_start_id >= 0) start = b->model->decoder_start_id;
  ACCEL_TRY(accel__enter_config(b, NULL));
  const int64_t bos = b->model->bos_id, pad = b->model->pad_id,
                eos = b->model->n_eos > 0 ? b->model->eos_ids[0] : -1;
  ACCEL_TRY(accel__read_token_ids(b, bos, eos, pad));
  if (b->model->decoder_start_id < 0)
    b->model->decoder_start_id = start >= 0 ? start : b->model->bos_id;
  return ACCEL_OK;
}

/* Width of what cross attention reads: the encoder's, brought to the decoder's where nothing is
 * said of it and they differ.  own_width: mBART's and GPT-2's attention reads rows of its own width
 * alone. */
static accel_status read_width(const accel__build *b, composite *m, bool own_width) {
  int64_t width = 0;
  ACCEL_TRY(accel__json_int(b->file, b->config, "cross_attention_hidden_size", 0, ACCEL__MAX_WIDTH,
                            &width));
  m->projects = width == 0 && m->how.hidden != m->width;
  if (width > 0 && width != m->width)
    return accel__refuse(
        b, "field 'cross_attention_hidden_size' is %lld, the encoder's hidden_size %lld",
        (long long)width, (long long)m->width);
  if (own_width && width > 0 && width != m->how.hidden)
    return accel__refuse(b, "field 'cross_attention_hidden_size' is %lld, the decoder's width %lld",
                         (long long)width, (long long)m->how.hidden);
  return ACCEL_OK;
}

/* TrOCR's decoder and mBART's. */
static accel_status read_bart(accel__build *b, composite *m, bool mbart) {
  accel__bart *c = &m->bart;
  bool learned = true;
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
  m->positions = c->positions;
  m->vocab = c->decoder.vocab;
  m->tied = c->tied;
  m->scope = "decoder.model.";
  m->words = "decoder.model.decoder.embed_tokens";
  m->head = mbart ? "decoder.lm_head" : "decoder.output_projection";
  m->how = accel__bart_seq2seq(c);
  ACCEL_TRY(read_width(b, m, mbart));
  ACCEL_TRY(accel__read_token_ids(b, /*bos*/ 0, /*eos*/ 2, /*pad*/ 1));
  return read_root_ids(b, 2);
}

static accel_status read_gpt2(accel__build *b, composite *m) {
  accel__gpt *c = m->gpt = accel__arena_alloc(b->arena, sizeof *c);
  bool cross = false;
  if (c == NULL) return ACCEL_ERROR_OUT_OF_MEMORY;
  ACCEL_TRY(accel__gpt2_read(b, c));
  ACCEL_TRY(accel__json_bool(b->file, b->config, "add_cross_attention", &cross));
  if (!cross)
    return accel__refuse(b, "field 'decoder.add_cross_attention' must be true under an encoder");
  ACCEL_TRY(accel__divides(b, "decoder.n_head", c->heads, "decoder.n_embd", c->hidden));
  m->positions = c->positions;
  m->vocab = c->vocab;
  m->tied = c->tied;
  m->scope = "decoder.transformer.";
  m->words = "decoder.transformer.wte";
  m->head = "decoder.lm_head";
  m->how = (accel__seq2seq){.layers = c->layers,
                            .heads = c->heads,
                            .head_dim = c->hidden / c->heads,
                            .hidden = c->hidden};
  ACCEL_TRY(read_width(b, m, true));
  return read_root_ids(b, -1);
}

static accel_status read_decoder(accel__build *b, composite *m) {
  const char *type = NULL;
  ACCEL_TRY(accel__enter_config(b, "decoder"));
  ACCEL_TRY(accel__json_string(b->file, b->config, "model_type", &type));
  if (type != NULL && strcmp(type, "gpt2") == 0) return read_gpt2(b, m);
  if (type != NULL && (strcmp(type, "trocr") == 0 || strcmp(type, "mbart") == 0))
    return read_bart(b, m, strcmp(type, "mbart") == 0);
  return accel__refuse(
      b, "field 'decoder.model_type': '%s' is not supported; known: trocr, mbart, gpt2",
      type != NULL ? type : "");
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
  return m->projects ? accel__dense_layer(b, x, m->how.hidden, true, -1, NULL, "enc_to_dec_proj")
                     : x;
}

static void output_encoded(accel__build *b, const void *config) {
  const composite *m = config;
  accel__output_items(b, "encoder_last_hidden_state", *m->seen, *m->rows, false);
}

static accel__tensor decode(accel__build *b, const void *config, accel__tensor memory) {
  const composite *m = config;
  b->scope = m->scope;
  accel__tensor x = m->gpt != NULL
                        ? accel__gpt_decoder(b, m->gpt, &m->how, memory, (uint32_t)m->layers + 1)
                        : accel__bart_decoder(b, &m->bart, memory);
  b->scope = NULL;
  return x;
}

static accel__keys keys(accel__build *b, const void *config, accel__tensor memory, uint32_t i) {
  const composite *m = config;
  const char *outer = b->scope; /* of the decoder, where it asks for them */
  b->scope = m->scope;
  const accel__keys kv = m->gpt != NULL ? accel__gpt_keys(b, m->gpt, memory, i)
                                        : accel__bart_keys(b, &m->bart, memory, i);
  b->scope = outer;
  return kv;
}

static accel__tensor logits(accel__build *b, const void *config, accel__tensor x) {
  const composite *m = config;
  return accel__head_vocabulary(b, x, m->vocab, m->tied, m->words, m->head, NULL);
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
  model->hidden_size = m->how.hidden;
  model->max_positions = m->positions;
  model->generation.answer_prefix = m->donut;
  m->pixels = m->swin != NULL ? accel__swin_pictures(&b, m->swin)
                              : accel__add_pixels(&b, m->vit->c.channels, NULL);
  accel__add_decoder_tokens(&b, m->vocab, ACCEL__DEFAULT_REQUIRED);
  accel__add_positions(&b, m->positions, ACCEL__DEFAULT_ARANGE, 0);
  m->how.config = m;
  m->how.encoder = encode;
  m->how.decoder = decode;
  m->how.keys = keys;
  m->how.logits = logits;
  m->how.output_encoded = output_encoded;
  return accel__seq2seq_build(&b, &m->how);
}

static const char *const classes[] = {"VisionEncoderDecoderModel", NULL};
const accel__architecture accel__model_vision_encoder_decoder = {
    .model_type = "vision-encoder-decoder", .classes = classes, .build = build};
