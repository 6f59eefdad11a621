/* xclip.c - X-CLIP (transformers' XCLIPModel and its towers): CLIP over the frames of a video,
 * which exchange a message token in each layer, a transformer over frames, and texts that are
 * adapted to the video before they are compared with it.
 */
#include <string.h>

#include "models/clip.h"

typedef struct xclip {
  accel__clip_tower text, vision, mit;
  int64_t frames, projection, prompt_layers, prompt_heads;
  accel__activation prompt_act;
  accel__dim videos;
  accel__tensor text_last, text_pooled, vision_last, vision_pooled;
} xclip;

static accel_status read_config(accel__build *b, xclip *m, bool text, bool vision) {
  const accel__activation quick = {.act = ACCEL_PLUGIN_ACT_GELU_QUICK};
  *m = (xclip){.text = {.hidden = 512,
                        .layers = 12,
                        .heads = 8,
                        .inner = 2048,
                        .vocab = 49408,
                        .positions = 77,
                        .eos = 2,
                        .eps = 1e-5,
                        .act = quick},
               .vision = {.hidden = 768,
                          .layers = 12,
                          .heads = 12,
                          .inner = 3072,
                          .channels = 3,
                          .image = {224, 224},
                          .patch = {32, 32},
                          .eps = 1e-5,
                          .act = quick},
               .frames = 8,
               .projection = 512,
               .prompt_layers = 2,
               .prompt_heads = 8,
               .prompt_act = quick};
  if (text) {
    ACCEL_TRY(accel__clip_enter(b, "text_config"));
    ACCEL_TRY(accel__clip_read(b, &m->text));
    m->text.block.causal = true;
    m->text.eos = 2; /* the class pools the largest id, whatever the config says */
  }
  if (vision) {
    ACCEL_TRY(accel__clip_enter(b, "vision_config"));
    ACCEL_TRY(accel__clip_read(b, &m->vision));
    m->mit = m->vision;
    m->mit.hidden = 512;
    m->mit.inner = 2048;
    m->mit.layers = 1;
    m->mit.heads = 8;
    const accel__field fields[] = {
        ACCEL_FIELD_INT("num_frames", &m->frames, 1, 1 << 16),
        ACCEL_FIELD_INT("mit_hidden_size", &m->mit.hidden, 1, ACCEL__MAX_WIDTH),
        ACCEL_FIELD_INT("mit_intermediate_size", &m->mit.inner, 1, ACCEL__MAX_WIDTH),
        ACCEL_FIELD_INT("mit_num_hidden_layers", &m->mit.layers, 0, ACCEL__MAX_LAYERS),
        ACCEL_FIELD_INT("mit_num_attention_heads", &m->mit.heads, 1, ACCEL__MAX_WIDTH),
    };
    ACCEL_TRY(accel__read_fields(b, fields, sizeof fields / sizeof *fields));
    ACCEL_TRY(accel__divides(b, "mit_num_attention_heads", m->mit.heads, "mit_hidden_size",
                             m->mit.hidden));
    m->mit.block.hidden = m->mit.hidden;
    m->mit.block.inner = m->mit.inner;
    m->mit.block.heads = m->mit.heads;
  }
  ACCEL_TRY(accel__enter_config(b, NULL));
  if (!text || !vision) return ACCEL_OK;
  const accel__field fields[] = {
      ACCEL_FIELD_INT("projection_dim", &m->projection, 1, ACCEL__MAX_WIDTH),
      ACCEL_FIELD_INT("prompt_layers", &m->prompt_layers, 0, ACCEL__MAX_LAYERS),
      ACCEL_FIELD_INT("prompt_num_attention_heads", &m->prompt_heads, 1, ACCEL__MAX_WIDTH),
      ACCEL_FIELD_ACT("prompt_hidden_act", &m->prompt_act)};
  ACCEL_TRY(accel__read_fields(b, fields, 4));
  if (m->mit.hidden != m->projection)
    return accel__refuse(b, "field 'mit_hidden_size' is not 'projection_dim'");
  return accel__divides(b, "prompt_num_attention_heads", m->prompt_heads, "projection_dim",
                        m->projection);
}

/* ---- frames ---- */

static accel__tensor attention(accel__build *b, const xclip *m, accel__tensor x, int32_t space,
                               uint32_t layer, const char *name, accel__tensor residual) {
  const int64_t c = m->vision.hidden;
  accel__attention how = accel__attention_of(b, m->vision.heads);
  how.q_space = how.kv_space = space;
  accel__tensor q =
      accel__dense_layer(b, x, c, true, -1, NULL, "encoder.layers.%u.%s.q_proj", layer, name);
  accel__tensor k =
      accel__dense_layer(b, x, c, true, -1, NULL, "encoder.layers.%u.%s.k_proj", layer, name);
  accel__tensor v =
      accel__dense_layer(b, x, c, true, -1, NULL, "encoder.layers.%u.%s.v_proj", layer, name);
  return accel__dense_layer(b, accel__attend(b, q, k, v, &how), c, true, residual, NULL,
                            "encoder.layers.%u.%s.out_proj", layer, name);
}

/* One layer over rows [B*F*S, C]: each frame's class row sends a message that all rows of its frame
 * see, then the MLP. */
static accel__tensor frame_layer(accel__build *b, const xclip *m, accel__tensor x, uint32_t i,
                                 int32_t among_frames, int32_t with_message) {
  accel__program *p = b->p;
  accel__dim c = accel__const_dim(p, m->vision.hidden), one = accel__const_dim(p, 1),
             all = accel__times(b, b->B, m->vision.rows);
  accel__tensor message = accel__dense_layer(b, accel__first_rows(b, x), m->vision.hidden, true, -1,
                                             NULL, "encoder.layers.%u.message_fc", i);
  accel__tensor y =
      accel__norm_layer(b, message, -1, m->vision.eps, true, "encoder.layers.%u.message_ln", i);
  message = attention(b, m, y, among_frames, i, "message_attn", message);
  message = accel__reshape(p, message, 3, (accel__dim[]){b->B, one, c});
  y = accel__concat(b, 1, 2,
                    (accel__tensor[]){accel__rows_to_items(b, x, m->vision.rows), message});
  if (y < 0) return -1;
  y = accel__reshape(p, y, 2, (accel__dim[]){accel__times(b, b->B, accel__tensor_dim(p, y, 1)), c});
  accel__tensor normed =
      accel__norm_layer(b, y, -1, m->vision.eps, true, "encoder.layers.%u.layer_norm1", i);
  y = attention(b, m, normed, with_message, i, "self_attn", y);
  accel__dim more = accel__dim_op(p, ACCEL_PLUGIN_DIM_ADD, m->vision.rows, one);
  y = accel__slice_dims(b, accel__rows_to_items(b, y, more), 1, accel__const_dim(p, 0),
                        m->vision.rows);
  x = accel__reshape(p, y, 2, (accel__dim[]){all, c});
  y = accel__norm_layer(b, x, -1, m->vision.eps, true, "encoder.layers.%u.layer_norm2", i);
  y = accel__dense_layer(b, y, m->vision.inner, true, -1, &m->vision.act,
                         "encoder.layers.%u.mlp.fc1", i);
  return accel__dense_layer(b, y, m->vision.hidden, true, x, NULL, "encoder.layers.%u.mlp.fc2", i);
}

/* pixels [B*F,C,H,W] */
static void build_vision(accel__build *b, xclip *m, accel__tensor pixels) {
  accel__program *p = b->p;
  b->scope = "vision_model.";
  accel__tensor x = accel__clip_patches(b, &m->vision, pixels, true, false);
  x = accel__norm_layer(b, x, -1, m->vision.eps, true, "pre_layernorm");
  if (x < 0) return;
  const int32_t among = accel__space_fixed(p, "frames", accel__const_dim(p, m->frames), m->videos);
  const int32_t with = accel__space_fixed(
      p, "patches_and_message",
      accel__dim_op(p, ACCEL_PLUGIN_DIM_ADD, m->vision.rows, accel__const_dim(p, 1)), b->B);
  b->n_hidden = 0;
  accel__hidden_items(b, x, m->vision.rows);
  for (uint32_t i = 0; i < (uint32_t)m->vision.layers; i++) {
    accel__at(p, i + 1, "vision_model.encoder.layers.%u", i);
    x = frame_layer(b, m, x, i, among, with);
    accel__hidden_items(b, x, m->vision.rows);
  }
  accel__at(p, (uint32_t)m->vision.layers + 1, "head");
  m->vision_last = x;
  m->vision_pooled =
      accel__norm_layer(b, accel__first_rows(b, x), -1, m->vision.eps, true, "post_layernorm");
  b->scope = NULL;
}

static void build_text(accel__build *b, xclip *m) {
  b->scope = "text_model.";
  accel__tensor x = accel__clip_layers(b, &m->text, accel__clip_tokens(b, &m->text));
  m->text_last = accel__norm_layer(b, x, -1, m->text.eps, true, "final_layer_norm");
  m->text_pooled = accel__clip_end_rows(b, &m->text, m->text_last);
  b->scope = NULL;
}

/* ---- the whole ---- */

/* Frames [B*F, D] of each video: x + transformer(x + positions); *mean [B, D]. */
static accel__tensor integrate(accel__build *b, xclip *m, accel__tensor x, accel__tensor *mean) {
  accel__program *p = b->p;
  const int64_t dims[3] = {1, m->frames, m->mit.hidden};
  accel__dim frames = accel__const_dim(p, m->frames), c = accel__const_dim(p, m->mit.hidden);
  b->output_path = "mit_output.";
  b->scope = "mit.";
  b->B = m->videos;
  m->mit.rows = frames;
  accel__tensor y = accel__reshape(p, x, 3, (accel__dim[]){m->videos, frames, c});
  y = accel__items_to_rows(
      b,
      accel__binary(p, ACCEL_PLUGIN_BINARY_ADD, y, accel__table(b, 3, dims, "position_embedding")),
      "integrated");
  y = accel__binary(p, ACCEL_PLUGIN_BINARY_ADD, accel__clip_layers(b, &m->mit, y), x);
  *mean = accel__reduce_rows(p, ACCEL_PLUGIN_REDUCE_MEAN, y, -1, b->space);
  b->scope = NULL;
  return accel__rows_to_items(b, y, frames);
}

/* Patches of all frames, normed, projected and averaged over the frames: rows [B*N, D]. */
static accel__tensor prompt_features(accel__build *b, xclip *m, accel__dim *patches) {
  accel__program *p = b->p;
  const int64_t dims[2] = {m->vision.hidden, m->projection};
  accel__dim images = accel__times(b, m->videos, accel__const_dim(p, m->frames)),
             d = accel__const_dim(p, m->projection);
  b->B = images;
  accel__tensor x =
      accel__slice(p, accel__rows_to_items(b, m->vision_last, m->vision.rows), 1, 1, INT64_MAX);
  x = accel__norm_layer(b, x, -1, m->vision.eps, true, "prompts_visual_layernorm");
  accel__tensor w =
      accel__weight_at(b, ACCEL_PLUGIN_USE_LINEAR, 2, dims, "prompts_visual_projection");
  accel__attr trans = ACCEL_I(TRANS, 1),
              mean[] = {ACCEL_I(KIND, ACCEL_PLUGIN_REDUCE_MEAN), ACCEL_I(AXIS, 1)};
  x = accel__node(p, ACCEL_PLUGIN_OP_LINEAR, (accel__tensor[]){x, w}, 2, &trans, 1, NULL, 1);
  if (x < 0) return -1;
  *patches = accel__tensor_dim(p, x, 1);
  x = accel__reshape(p, x, 4,
                     (accel__dim[]){m->videos, accel__const_dim(p, m->frames), *patches, d});
  x = accel__node(p, ACCEL_PLUGIN_OP_REDUCE, &x, 1, mean, 2, NULL, 1); /* [B,N,D] */
  b->B = m->videos;
  return accel__items_to_rows(b, x, "prompt_patches");
}

/* alpha * decoder(texts of each video, its patches); text [B*K, D] in `texts`. */
static accel__tensor prompts(accel__build *b, const xclip *m, accel__tensor text,
                             accel__tensor patches, int32_t texts, int32_t space) {
  const int64_t d = m->projection;
  accel__attention how = accel__attention_of(b, m->prompt_heads);
  how.q_space = texts;
  how.kv_space = space;
  patches = accel__norm_layer(b, patches, -1, m->vision.eps, true, "prompts_generator.layernorm");
  for (uint32_t i = 0; i < (uint32_t)m->prompt_layers; i++) {
    accel__tensor y =
        accel__norm_layer(b, text, -1, m->text.eps, true, "prompts_generator.decoder.%u.norm1", i);
    accel__tensor q = accel__dense_layer(b, y, d, false, -1, NULL,
                                         "prompts_generator.decoder.%u.cross_attn.q_proj", i);
    accel__tensor k = accel__dense_layer(b, patches, d, false, -1, NULL,
                                         "prompts_generator.decoder.%u.cross_attn.k_proj", i);
    accel__tensor v = accel__dense_layer(b, patches, d, false, -1, NULL,
                                         "prompts_generator.decoder.%u.cross_attn.v_proj", i);
    text = accel__dense_layer(b, accel__attend(b, q, k, v, &how), d, true, text, NULL,
                              "prompts_generator.decoder.%u.cross_attn.proj", i);
    y = accel__norm_layer(b, text, -1, m->text.eps, true, "prompts_generator.decoder.%u.norm3", i);
    y = accel__dense_layer(b, y, 4 * d, true, -1, &m->prompt_act,
                           "prompts_generator.decoder.%u.mlp.0", i);
    text = accel__dense_layer(b, y, d, true, text, NULL, "prompts_generator.decoder.%u.mlp.3", i);
  }
  return accel__binary(b->p, ACCEL_PLUGIN_BINARY_MUL, text,
                       accel__table(b, 1, &d, "prompts_generator.alpha"));
}

static void compare(accel__build *b, accel__tensor text, accel__tensor video, accel__dim texts,
                    accel__dim videos) {
  accel__program *p = b->p;
  accel__dim one = accel__const_dim(p, 1), d = accel__tensor_dim(p, video, 1);
  text = accel__unit_rows(b, text); /* [B,K,D] */
  video = accel__unit_rows(b, video);
  accel__tensor scaled =
      accel__binary(p, ACCEL_PLUGIN_BINARY_MUL, text,
                    accel__unary(p, ACCEL_PLUGIN_UNARY_EXP, accel__scalar(b, "logit_scale")));
  accel__attr trans = ACCEL_I(TRANS_B, 1);
  accel__tensor in[2] = {accel__reshape(p, video, 3, (accel__dim[]){videos, one, d}), scaled};
  accel__tensor logits = accel__node(p, ACCEL_PLUGIN_OP_MATMUL, in, 2, &trans, 1, NULL, 1);
  logits = accel__reshape(p, logits, 2, (accel__dim[]){videos, texts});
  accel__add_output(b, "logits_per_video", logits, 0);
  accel__add_output(b, "logits_per_text", accel__transpose(b, logits, 2, (int64_t[]){1, 0}), 0);
  accel__add_output(b, "text_embeds", text, 0);
  accel__add_output(b, "video_embeds", video, 0);
}

static void whole(accel__build *b, xclip *m) {
  accel__program *p = b->p;
  b->output_path = "text_model_output.";
  build_text(b, m);
  accel__dim texts = b->B, frames = accel__const_dim(p, m->frames),
             d = accel__const_dim(p, m->projection), patches = 0;
  m->videos = accel__symbol(p, "videos", 1, 0, 1);
  accel__dim H = accel__symbol(p, "H", 1, ACCEL__MAX_WIDTH, 224),
             W = accel__symbol(p, "W", 1, ACCEL__MAX_WIDTH, 224),
             c = accel__const_dim(p, m->vision.channels);
  accel__tensor pixels =
      accel__add_item(b, "pixel_values", ACCEL_PLUGIN_F32, 5,
                      (accel__dim[]){m->videos, frames, c, H, W}, ACCEL__DEFAULT_REQUIRED);
  accel__dim images = accel__times(b, m->videos, frames);
  pixels = accel__reshape(p, pixels, 4, (accel__dim[]){images, c, H, W});
  b->B = images;
  b->output_path = "vision_model_output.";
  build_vision(b, m, pixels);
  accel__tensor mean, seen = accel__dense_layer(b, m->vision_pooled, m->projection, false, -1, NULL,
                                                "visual_projection");
  accel__tensor integrated = integrate(b, m, seen, &mean), map = prompt_features(b, m, &patches);
  const int32_t map_space = b->space;
  /* [K,D] */
  accel__tensor text =
      accel__dense_layer(b, m->text_pooled, m->projection, false, -1, NULL, "text_projection");
  text = accel__broadcast(
      b, accel__reshape(p, text, 3, (accel__dim[]){accel__const_dim(p, 1), texts, d}), 3,
      (accel__dim[]){m->videos, texts, d});
  accel__tensor rows = accel__items_to_rows(b, text, "texts_of_videos");
  accel__tensor prompt = prompts(b, m, rows, map, b->space, map_space);
  text = accel__reshape(p, accel__binary(p, ACCEL_PLUGIN_BINARY_ADD, rows, prompt), 3,
                        (accel__dim[]){m->videos, texts, d});
  if (text < 0 || mean < 0) return;
  compare(b, text, mean, texts, m->videos);
  b->B = images;
  accel__add_output(b, "text_model_output.last_hidden_state", m->text_last, 0);
  accel__add_output(b, "text_model_output.pooler_output", m->text_pooled, 0);
  accel__output_items(b, "vision_model_output.last_hidden_state", m->vision_last, m->vision.rows,
                      false);
  accel__add_output(b, "vision_model_output.pooler_output", m->vision_pooled, 0);
  accel__add_output(b, "mit_output.last_hidden_state", integrated, 0);
  accel__add_output(b, "mit_output.pooler_output", mean, 0);
  b->model->hidden_size = m->projection;
}

static accel_status build(const accel__model_request *request, const char *architecture,
                          accel__model *model) {
  static const char *const args[] = {"interpolate_pos_encoding", NULL};
  accel__build b;
  ACCEL_TRY(accel__build_begin(&b, request, architecture, model, ""));
  xclip *m = accel__arena_alloc(b.arena, sizeof *m);
  if (m == NULL) return ACCEL_ERROR_OUT_OF_MEMORY;
  const bool text = strcmp(architecture, "XCLIPTextModel") == 0,
             all = strcmp(architecture, "XCLIPModel") == 0;
  ACCEL_TRY(read_config(&b, m, text || all, !text));
  if (!text) model->args = args;
  if (!all) b.spelling[0] = text ? accel__clip_text_alone : accel__clip_vision_alone;
  if (all) {
    whole(&b, m);
    return accel__build_end(&b, m->text_last);
  }
  if (text) {
    build_text(&b, m);
    accel__add_output(&b, "last_hidden_state", m->text_last, 0);
    accel__add_output(&b, "pooler_output", m->text_pooled, 0);
    return accel__build_end(&b, m->text_last);
  }
  m->videos = accel__symbol(b.p, "videos", 1, 0, 1);
  b.B = accel__times(&b, m->videos, accel__const_dim(b.p, m->frames));
  accel__dim H = accel__symbol(b.p, "H", 1, ACCEL__MAX_WIDTH, 224),
             W = accel__symbol(b.p, "W", 1, ACCEL__MAX_WIDTH, 224);
  accel__dim dims[4] = {b.B, accel__const_dim(b.p, m->vision.channels), H, W};
  build_vision(
      &b, m,
      accel__add_item(&b, "pixel_values", ACCEL_PLUGIN_F32, 4, dims, ACCEL__DEFAULT_REQUIRED));
  accel__output_items(&b, "last_hidden_state", m->vision_last, m->vision.rows, false);
  accel__add_output(&b, "pooler_output", m->vision_pooled, 0);
  return accel__build_end(&b, m->vision_last);
}

static const char *const classes[] = {"XCLIPModel", "XCLIPTextModel", "XCLIPVisionModel", NULL};
const accel__architecture accel__model_xclip = {
    .model_type = "xclip", .classes = classes, .build = build};
static const char *const text_classes[] = {"XCLIPTextModel", NULL}, *const vision_classes[] = {
                                                                        "XCLIPVisionModel", NULL};
const accel__architecture accel__model_xclip_text = {
    .model_type = "xclip_text_model", .classes = text_classes, .build = build};
const accel__architecture accel__model_xclip_vision = {
    .model_type = "xclip_vision_model", .classes = vision_classes, .build = build};
