/* flux_transformer.c - FluxTransformer2DModel of diffusers: the transformer of FLUX.1. */
#include <math.h>
#include <stdio.h>

#include "models/diffusion.h"
#include "models/joint_transformer.h"

enum { AXES = 3 };

typedef struct flux {
  int64_t patch, in, out, layers, single, head_dim, heads, text, pooled, axis[AXES];
  bool guidance;
} flux;

static accel_status read_config(accel__build *b, flux *c) {
  *c = (flux){.patch = 1,
              .in = 64,
              .out = -1,
              .layers = 19,
              .single = 38,
              .head_dim = 128,
              .heads = 24,
              .text = 4096,
              .pooled = 768,
              .axis = {16, 56, 56}};
  const int64_t most = ACCEL__MAX_WIDTH;
  const accel__field fields[] = {
      ACCEL_FIELD_INT("patch_size", &c->patch, 1, 64),
      ACCEL_FIELD_INT("in_channels", &c->in, 1, most),
      ACCEL_FIELD_INT("out_channels", &c->out, 1, most),
      ACCEL_FIELD_INT("num_layers", &c->layers, 0, ACCEL__MAX_LAYERS),
      ACCEL_FIELD_INT("num_single_layers", &c->single, 0, ACCEL__MAX_LAYERS),
      ACCEL_FIELD_INT("attention_head_dim", &c->head_dim, 2, most),
      ACCEL_FIELD_INT("num_attention_heads", &c->heads, 1, 1 << 16),
      ACCEL_FIELD_INT("joint_attention_dim", &c->text, 1, most),
      ACCEL_FIELD_INT("pooled_projection_dim", &c->pooled, 1, most),
      ACCEL_FIELD_BOOL("guidance_embeds", &c->guidance)};
  ACCEL_TRY(accel__read_fields(b, fields, sizeof fields / sizeof *fields));
  ACCEL_TRY(accel__read_ints(b, "axes_dims_rope", AXES, 2, most, c->axis));
  if (c->out < 0) c->out = c->in;
  int64_t sum = 0;
  for (int a = 0; a < AXES; a++) {
    sum += c->axis[a];
    if (c->axis[a] % 2 != 0) return accel__refuse(b, "field 'axes_dims_rope': an entry is odd");
  }
  if (sum != c->head_dim)
    return accel__refuse(b,
                         "field 'axes_dims_rope': its sum (%lld) is not attention_head_dim (%lld)",
                         (long long)sum, (long long)c->head_dim);
  b->model->hidden_size = c->heads * c->head_dim;
  return ACCEL_OK;
}

/* Positions [n,3] of text and picture by the frequencies of each axis, for each item: [B*n, half a
 * head]. */
static accel__tensor angles(accel__build *b, const flux *c, accel__tensor text,
                            accel__tensor image) {
  const double theta = 10000.0;
  accel__tensor ids = accel__concat(b, 0, 2, (accel__tensor[]){text, image}), part[AXES];
  if (ids < 0) return -1;
  for (int a = 0; a < AXES; a++) {
    const int64_t half = c->axis[a] / 2, dims[2] = {1, half};
    float *frequency = accel__arena_array(b->arena, (size_t)half, sizeof *frequency);
    if (frequency == NULL)
      return accel__program_fail(b->p, ACCEL_ERROR_OUT_OF_MEMORY, "no memory for frequencies");
    for (int64_t i = 0; i < half; i++)
      frequency[i] = (float)pow(theta, -2.0 * (double)i / (double)c->axis[a]);
    part[a] = accel__binary(b->p, ACCEL_PLUGIN_BINARY_MUL, accel__slice(b->p, ids, 1, a, a + 1),
                            accel__constant_f32(b->p, "frequencies", 2, dims, frequency));
  }
  const accel__dim rows = accel__tensor_dim(b->p, ids, 0), one = accel__const_dim(b->p, 1),
                   half = accel__const_dim(b->p, c->head_dim / 2);
  accel__tensor all = accel__concat(b, 1, AXES, part);
  all = accel__repeat(b, accel__reshape(b->p, all, 3, (accel__dim[]){one, rows, half}), b->B);
  return accel__reshape(b->p, all, 2, (accel__dim[]){accel__times(b, b->B, rows), half});
}

static accel__tensor positions(accel__build *b, const char *name, accel__dim rows) {
  const accel__dim dims[2] = {rows, accel__const_dim(b->p, AXES)};
  return accel__add_item(b, name, ACCEL_PLUGIN_F32, 2, dims, ACCEL__DEFAULT_REQUIRED);
}

/* A block of both streams, the text's first. */
static void double_block(accel__build *b, const accel__joint *how, const accel__joint_space *space,
                         int64_t i, accel__tensor x[2]) {
  enum { SHIFT, SCALE, GATE, MLP, PARTS = 6 };
  static const char *const norms[] = {"norm1_context", "norm1"}, *const mlps[] = {"ff_context",
                                                                                  "ff"};
  char path[64], name[96];
  accel__tensor part[2][PARTS];
  accel__joint_stream stream[2] = {accel__joint_text, accel__joint_picture};
  snprintf(path, sizeof path, "transformer_blocks.%lld", (long long)i);
  accel__at(b->p, (uint32_t)i + 1, "%s%s", b->scope != NULL ? b->scope : "", path);
  for (int s = 0; s < 2; s++) {
    snprintf(name, sizeof name, "%s.%s", path, norms[s]);
    accel__joint_modulations(b, how, PARTS, part[s], name);
    stream[s].x =
        accel__joint_shifted(b, accel__joint_norm(b, x[s]), part[s][SHIFT], part[s][SCALE]);
  }
  snprintf(name, sizeof name, "%s.attn", path);
  accel__joint_attend(b, how, space, stream, 2, name);
  for (int s = 0; s < 2; s++) {
    x[s] = accel__joint_gated(b, x[s], part[s][GATE], stream[s].x);
    snprintf(name, sizeof name, "%s.%s", path, mlps[s]);
    x[s] = accel__joint_feed_forward(b, x[s], part[s] + MLP, name);
  }
}

/* A block of the joined streams: attention and feed-forward beside each other. */
static accel__tensor single_block(accel__build *b, const flux *c, const accel__joint *how,
                                  const accel__joint_space *space, int64_t i, accel__tensor x) {
  static const accel__activation gelu = {.act = ACCEL_PLUGIN_ACT_GELU_TANH};
  enum { SHIFT, SCALE, GATE, PARTS };
  char path[64], name[96];
  accel__tensor part[PARTS];
  snprintf(path, sizeof path, "single_transformer_blocks.%lld", (long long)i);
  accel__at(b->p, (uint32_t)(c->layers + i) + 1, "%s%s", b->scope != NULL ? b->scope : "", path);
  snprintf(name, sizeof name, "%s.norm", path);
  accel__joint_modulations(b, how, PARTS, part, name);
  accel__joint_stream stream = accel__joint_picture;
  stream.out = NULL;
  stream.x = accel__joint_shifted(b, accel__joint_norm(b, x), part[SHIFT], part[SCALE]);
  const accel__tensor mlp =
      accel__dense_layer(b, stream.x, 4 * how->hidden, true, -1, &gelu, "%s.proj_mlp", path);
  snprintf(name, sizeof name, "%s.attn", path);
  accel__joint_attend(b, how, space, &stream, 1, name);
  accel__tensor y = accel__concat(b, 2, 2, (accel__tensor[]){stream.x, mlp});
  y = accel__dense_layer(b, y, how->hidden, true, -1, NULL, "%s.proj_out", path);
  return accel__joint_gated(b, x, part[GATE], y);
}

accel_status accel__flux_transformer(accel__build *b, accel__tensor *out) {
  flux c;
  ACCEL_TRY(read_config(b, &c));
  const int64_t n = c.heads * c.head_dim;
  b->B = accel__symbol(b->p, b->input_ids >= 0 ? "images" : "B", 1, 0, 1);
  const accel__dim rows = accel__symbol(b->p, "rows", 1, ACCEL__MAX_POSITIONS, 4096),
                   dims[3] = {b->B, rows, accel__const_dim(b->p, c.in)};
  accel__at(b->p, 0, "%sx_embedder", b->scope != NULL ? b->scope : "");
  accel__tensor x[2]; /* text, picture */
  x[1] = accel__add_item(b, "hidden_states", ACCEL_PLUGIN_F32, 3, dims, ACCEL__DEFAULT_REQUIRED);
  x[0] = accel__joint_context(b, c.text, n);
  if (x[0] < 0) return ACCEL_OK; /* accel__build_end says why */
  const accel__tensor pooled = accel__joint_item(b, "pooled_projections", c.pooled),
                      timestep = accel__joint_item(b, "timestep", 0);
  const accel__dim words = accel__tensor_dim(b->p, x[0], 1);
  const accel__tensor image_ids = positions(b, "img_ids", rows),
                      text_ids = positions(b, "txt_ids", words);
  accel__tensor guidance = c.guidance ? accel__joint_item(b, "guidance", 0) : -1;
  if (guidance >= 0) guidance = accel__affine(b, guidance, 1000.0, 0.0);
  accel__joint how = {.hidden = n, .heads = c.heads, .norm = ACCEL__HEADS_RMS};
  how.time = accel__joint_time(b, n, accel__affine(b, timestep, 1000.0, 0.0), guidance, pooled);
  how.angles = angles(b, &c, text_ids, image_ids);
  x[1] = accel__dense_layer(b, x[1], n, true, -1, NULL, "x_embedder");
  const accel__joint_space space = accel__joint_space_of(
      b, accel__dim_op(b->p, ACCEL_PLUGIN_DIM_ADD, words, rows), "text and positions");
  for (int64_t i = 0; i < c.layers; i++) double_block(b, &how, &space, i, x);
  accel__tensor all = accel__concat(b, 1, 2, x);
  for (int64_t i = 0; i < c.single; i++) all = single_block(b, &c, &how, &space, i, all);
  accel__at(b->p, (uint32_t)(c.layers + c.single) + 1, "%sproj_out",
            b->scope != NULL ? b->scope : "");
  all = accel__slice_dims(b, all, 1, words, space.rows);
  *out = accel__joint_output(b, &how, all, c.patch * c.patch * c.out);
  return ACCEL_OK;
}

static accel_status build(const accel__model_request *request, const char *architecture,
                          accel__model *model) {
  return accel__denoiser_model(request, architecture, model, accel__flux_transformer);
}

static const char *const classes[] = {"FluxTransformer2DModel", NULL};
const accel__architecture accel__model_flux_transformer = {
    .model_type = "flux_transformer", .classes = classes, .build = build};
