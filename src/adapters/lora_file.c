/* lora_file.c - LoRA of diffusion pipelines: one safetensors file, in the names of PEFT, of diffusers
 * before it, or of kohya's scripts (which WebUIs use), over the parts "unet", "text_encoder" and
 * "text_encoder_2".
 *
 * All of these names are made alike: '_' for '.', a part's name in front ("unet_mid_block_..."), and
 * are looked up among the base's, made alike in the same way.  SDXL's UNet is there a second time, by
 * the names of the original code, which kohya's files have.
 */
#include <ctype.h>
#include <stdio.h>
#include <string.h>

#include "adapters/adapters_internal.h"
#include "core/text.h"

enum { NAME_BYTES = 512 };

/* ---- names of the file ---- */

static const struct suffix {
  const char *text;
  accel__lora_kind kind;
} suffixes[] = {{".lora_A.weight", ACCEL__LORA_A},
                {".lora_B.weight", ACCEL__LORA_B},
                {".lora_down.weight", ACCEL__LORA_A},
                {".lora_up.weight", ACCEL__LORA_B},
                {".lora_mid.weight", ACCEL__LORA_MID},
                {".lora.down.weight", ACCEL__LORA_A},
                {".lora.up.weight", ACCEL__LORA_B},
                {"_lora.down.weight", ACCEL__LORA_A},
                {"_lora.up.weight", ACCEL__LORA_B},
                {".lora_linear_layer.down.weight", ACCEL__LORA_A},
                {".lora_linear_layer.up.weight", ACCEL__LORA_B},
                {".lora_magnitude_vector", ACCEL__LORA_MAGNITUDE},
                {".lora_magnitude_vector.weight", ACCEL__LORA_MAGNITUDE},
                {".dora_scale", ACCEL__LORA_DORA_SCALE},
                {".hada_w1_a", ACCEL__LOHA_W1_A},
                {".hada_w1_b", ACCEL__LOHA_W1_B},
                {".hada_t1", ACCEL__LOHA_T1},
                {".hada_w2_a", ACCEL__LOHA_W2_A},
                {".hada_w2_b", ACCEL__LOHA_W2_B},
                {".hada_t2", ACCEL__LOHA_T2},
                {".lokr_w1", ACCEL__LOKR_W1},
                {".lokr_w1_a", ACCEL__LOKR_W1_A},
                {".lokr_w1_b", ACCEL__LOKR_W1_B},
                {".lokr_w2", ACCEL__LOKR_W2},
                {".lokr_w2_a", ACCEL__LOKR_W2_A},
                {".lokr_w2_b", ACCEL__LOKR_W2_B},
                {".lokr_t2", ACCEL__LOKR_T2},
                {".alpha", ACCEL__LORA_ALPHA}};

/* Beginnings of kohya's names, and of those without a part, which are the UNet's. */
static const struct {
  const char *text, *part;
} beginnings[] = {{"lora_unet_", "unet_"},
                  {"lora_te_", "text_encoder_"},
                  {"lora_te1_", "text_encoder_"},
                  {"lora_te2_", "text_encoder_2_"},
                  {"down_blocks_", "unet_down_blocks_"},
                  {"mid_block_", "unet_mid_block_"},
                  {"up_blocks_", "unet_up_blocks_"}};

/* key without `part`, wherever it is. */
static void drop(char *key, const char *part) {
  const size_t n = strlen(part);
  for (char *at = strstr(key, part); at; at = strstr(at, part))
    memmove(at, at + n, strlen(at + n) + 1);
}

/* name[n] as all names are compared; false: it is too long. */
static bool make_alike(const char *name, size_t n, char key[NAME_BYTES]) {
  char plain[NAME_BYTES];
  const char *part = "";
  if (n + 32 > NAME_BYTES) return false;
  for (size_t i = 0; i < n; i++) plain[i] = name[i] == '.' ? '_' : name[i];
  plain[n] = 0;
  const char *rest = plain;
  for (size_t i = 0; i < sizeof beginnings / sizeof *beginnings && !*part; i++)
    if (accel__starts_with(plain, beginnings[i].text)) {
      part = beginnings[i].part;
      rest = plain + strlen(beginnings[i].text);
    }
  snprintf(key, NAME_BYTES, "%s%s", part, rest);
  drop(key, "_processor");
  drop(key, "text_model_");
  return true;
}

static accel_status bad(const accel__adapter *a, const char *name, const char *why) {
  accel__fail(ACCEL_ERROR_FORMAT, "%s: '%.200s' %s", a->path, name, why);
  return accel__remedy(
      ACCEL_ERROR_FORMAT,
      "a LoRA is read in the names of PEFT, diffusers and kohya's scripts; convert "
      "others with diffusers (load_lora_weights, save_lora_weights)");
}

static accel_status module_of(accel__adapter *a, accel__arena *arena, accel__map *map,
                              const char *name, size_t n, accel__adapter_module **out) {
  char key[NAME_BYTES];
  int64_t i;
  if (!make_alike(name, n, key)) return bad(a, name, "is too long a name");
  if (accel__map_get(map, key, strlen(key), &i)) {
    *out = &a->module[i];
    return ACCEL_OK;
  }
  *out = &a->module[a->n_modules];
  (*out)->name = accel__arena_copy(arena, name, n);
  (*out)->key = accel__arena_string(arena, key);
  if (!(*out)->name || !(*out)->key) return ACCEL_ERROR_OUT_OF_MEMORY;
  return accel__map_set(map, (*out)->key, strlen(key), a->n_modules++);
}

static accel_status add_tensor(accel__adapter *a, accel__arena *arena, accel__map *map,
                               const char *name, const accel__tensor_info *t) {
  accel__adapter_module *module;
  const size_t n = strlen(name);
  for (size_t i = 0; i < sizeof suffixes / sizeof *suffixes; i++) {
    if (!accel__ends_with(name, suffixes[i].text)) continue;
    ACCEL_TRY(module_of(a, arena, map, name, n - strlen(suffixes[i].text), &module));
    if (module->tensor[suffixes[i].kind]) return bad(a, name, "is there twice");
    module->tensor[suffixes[i].kind] = t;
    return ACCEL_OK;
  }
  return bad(a, name, "is no tensor of LoRA that is known");
}

/* ---- scaling ---- */

/* lora_alpha and use_dora of a part in the metadata that diffusers writes; left alone where there are
 * none. */
static accel_status read_alpha(const accel__adapter *a, const accel__checkpoint *tensors,
                               const char *part, double *alpha, bool *dora) {
  const char *text = accel__checkpoint_metadata(tensors, "lora_adapter_metadata");
  accel__json_file file = {0};
  char key[64];
  if (!text) return ACCEL_OK;
  ACCEL_TRY(accel__json_parse(text, strlen(text), a->path, &file));
  snprintf(key, sizeof key, "%s.lora_alpha", part);
  accel_status status = accel__json_number(&file, file.root, key, alpha);
  snprintf(key, sizeof key, "%s.use_dora", part);
  if (status == ACCEL_OK) status = accel__json_bool(&file, file.root, key, dora);
  static const char *const changes[] = {"alpha_pattern", "use_rslora", "lora_bias"};
  for (size_t i = 0; i < sizeof changes / sizeof *changes && status == ACCEL_OK; i++) {
    snprintf(key, sizeof key, "%s.%s", part, changes[i]);
    const accel__json *value = accel__json_get(file.root, key);
    if (cJSON_IsTrue(value) || cJSON_GetArraySize(value) > 0)
      status =
          accel__fail(ACCEL_ERROR_UNSUPPORTED,
                      "%s: metadata field '%s' has a value that is not supported", a->path, key);
  }
  accel__json_free(&file);
  return status;
}

/* What the file says of its parts, before it is joined to the base's. */
accel_status accel__lora_file_read(accel__adapter *a, const accel__checkpoint *tensors) {
  a->alpha[0] = a->alpha[1] = a->alpha[2] = 0;
  ACCEL_TRY(read_alpha(a, tensors, "unet", &a->alpha[0], &a->dora[0]));
  ACCEL_TRY(read_alpha(a, tensors, "text_encoder", &a->alpha[1], &a->dora[1]));
  return read_alpha(a, tensors, "text_encoder_2", &a->alpha[2], &a->dora[2]);
}

static accel_status read_scaling(accel__adapter *a, accel__adapter_module *m) {
  const accel__tensor_info *t = m->tensor[ACCEL__LORA_ALPHA], *down = m->tensor[ACCEL__LORA_A];
  bool other;
  ACCEL_TRY(accel__lora_kind_check(a, m, &other));
  if (!other && (!down || !m->tensor[ACCEL__LORA_B]))
    return bad(a, m->name, "has only one of its two matrices");
  if (!other && (!down->rank || !down->dim[0])) return bad(a, m->name, "has a matrix without rows");
  const int part = accel__starts_with(m->key, "text_encoder_2_") ? 2
                   : accel__starts_with(m->key, "text_encoder_") ? 1
                                                                 : 0;
  float alpha = (float)a->alpha[part];
  if (a->dora[part] && !m->tensor[ACCEL__LORA_MAGNITUDE] && !m->tensor[ACCEL__LORA_DORA_SCALE])
    return bad(a, m->name, "has no lora_magnitude_vector, which use_dora of the metadata asks for");
  if (t && t->elements != 1) return bad(a, m->name, "has an alpha that is not one number");
  if (t) ACCEL_TRY(accel__tensor_to_f32(a->checkpoint, t, 0, 1, &alpha));
  if (!other) m->lora.rank = down->dim[0];
  m->lora.scaling = alpha != 0 && m->lora.rank ? (double)alpha / (double)m->lora.rank : 1;
  return m->lora.scaling - m->lora.scaling == 0
             ? ACCEL_OK
             : bad(a, m->name, "has an alpha that is not finite");
}

accel_status accel__lora_file_names(accel__adapter *a, accel__arena *arena) {
  const uint32_t n = accel__checkpoint_count(a->checkpoint);
  accel__map map = {.n = 0};
  accel_status status = ACCEL_OK;
  a->module = accel__arena_array(arena, n, sizeof *a->module);
  if (!a->module) return ACCEL_ERROR_OUT_OF_MEMORY;
  for (uint32_t i = 0; i < n && status == ACCEL_OK; i++) {
    const accel__tensor_info *t = accel__checkpoint_at(a->checkpoint, i);
    if (accel__starts_with(t->name, a->prefix))
      status = add_tensor(a, arena, &map, t->name + strlen(a->prefix), t);
  }
  for (uint32_t i = 0; i < a->n_modules && status == ACCEL_OK; i++)
    status = read_scaling(a, &a->module[i]);
  accel__map_free(&map);
  if (status == ACCEL_OK && !a->n_modules)
    return accel__fail(ACCEL_ERROR_FORMAT, "%s: no tensors", a->path);
  return status;
}

/* ---- names of the base ---- */

/* A number at *at, which moves behind it and what follows ("." or the end); -1: there is none. */
static int take_number(const char **at) {
  int value = 0;
  if (!isdigit((unsigned char)**at)) return -1;
  while (isdigit((unsigned char)**at) && value < 1000) value = 10 * value + *(*at)++ - '0';
  if (**at == '.') (*at)++;
  return value;
}

/* The inside of a residual block in the original code's names. */
static const char *inside(const char *name) {
  static const char *const pairs[][2] = {
      {"norm1", "in_layers_0"},  {"conv1", "in_layers_2"},  {"time_emb_proj", "emb_layers_1"},
      {"norm2", "out_layers_0"}, {"conv2", "out_layers_3"}, {"conv_shortcut", "skip_connection"}};
  for (size_t i = 0; i < sizeof pairs / sizeof *pairs; i++)
    if (!strcmp(name, pairs[i][0])) return pairs[i][1];
  return name;
}

static const char *outside(const char *module) {
  static const char *const pairs[][2] = {{"conv_in", "input_blocks_0_0"},
                                         {"conv_out", "out_2"},
                                         {"time_embedding.linear_1", "time_embed_0"},
                                         {"time_embedding.linear_2", "time_embed_2"},
                                         {"add_embedding.linear_1", "label_emb_0_0"},
                                         {"add_embedding.linear_2", "label_emb_0_2"}};
  for (size_t i = 0; i < sizeof pairs / sizeof *pairs; i++)
    if (!strcmp(module, pairs[i][0])) return pairs[i][1];
  return NULL;
}

/* `module` of a UNet ("down_blocks.0.resnets.1.conv1") as the original code calls it, dots and all;
 * layers: residual blocks of a level on the way down.  false: it has no other name. */
static bool original_name(const char *module, int layers, char *out) {
  const char *whole = outside(module), *at = module;
  const bool down = accel__starts_with(module, "down_blocks."),
             up = accel__starts_with(module, "up_blocks."),
             middle = accel__starts_with(module, "mid_block.");
  if (whole) return snprintf(out, NAME_BYTES, "unet_%s", whole) > 0;
  if (!down && !up && !middle) return false;
  at = strchr(at, '.') + 1;
  const int level = middle ? 0 : take_number(&at);
  const bool block = accel__starts_with(at, "resnets."),
             attends = accel__starts_with(at, "attentions."),
             samples = strstr(at, "samplers.0.conv") != NULL;
  if (level < 0 || (!block && !attends && !samples)) return false;
  at = strchr(at, '.') + 1;
  const int layer = take_number(&at), each = layers + 1;
  const char *rest = block ? inside(at) : at;
  if (layer < 0) return false;
  if (samples && down)
    return snprintf(out, NAME_BYTES, "unet_input_blocks_%d_0_op", (level + 1) * each) > 0;
  if (samples) /* behind the attention where the level has some */
    return snprintf(out, NAME_BYTES, "unet_output_blocks_%d_#_conv", level * each + layers) > 0;
  if (middle)
    return snprintf(out, NAME_BYTES, "unet_middle_block_%d_%s", block ? 2 * layer : 1, rest) > 0;
  return snprintf(out, NAME_BYTES, "unet_%s_blocks_%d_%d_%s", down ? "input" : "output",
                  level * each + layer + (down ? 1 : 0), block ? 0 : 1, rest) > 0;
}

/* Residual blocks of the first level down. */
static int count_layers(const accel__checkpoint *c) {
  char name[64];
  for (int n = 0; n < 64; n++) {
    snprintf(name, sizeof name, "unet.down_blocks.0.resnets.%d.conv1.weight", n);
    if (!accel__checkpoint_find(c, name)) return n;
  }
  return 64;
}

static accel_status add_key(accel__adapter_base *b, const char *key, int64_t index) {
  const char *copy = accel__arena_string(&b->arena, key);
  return copy ? accel__map_set(&b->alike, copy, strlen(copy), index) : ACCEL_ERROR_OUT_OF_MEMORY;
}

/* The names of one tensor of the base; index -1: the program does not read it. */
static accel_status add_names(accel__adapter_base *b, const char *name, int64_t index, int layers) {
  char key[NAME_BYTES];
  const size_t n = strlen(name), end = strlen(".weight");
  int64_t there;
  if (!accel__ends_with(name, ".weight") || !make_alike(name, n - end, key)) return ACCEL_OK;
  if (index < 0 && accel__map_get(&b->alike, key, strlen(key), &there)) return ACCEL_OK;
  ACCEL_TRY(add_key(b, key, index));
  if (!accel__starts_with(name, "unet.") || n > NAME_BYTES / 2) return ACCEL_OK;
  char module[NAME_BYTES];
  snprintf(module, sizeof module, "%.*s", (int)(n - end - 5), name + 5);
  if (!original_name(module, layers, key)) return ACCEL_OK;
  for (char *c = key; *c; c++)
    if (*c == '.') *c = '_';
  char *place = strchr(key, '#');
  for (int i = 1; place && i <= 2; i++) {
    *place = (char)('0' + i);
    ACCEL_TRY(add_key(b, key, index));
  }
  return place ? ACCEL_OK : add_key(b, key, index);
}

accel_status accel__lora_file_base(accel__adapter_base *b) {
  if (b->alike.n) return ACCEL_OK;
  const int layers = count_layers(b->checkpoint);
  for (uint32_t i = 0; i < b->n; i++) ACCEL_TRY(add_names(b, b->name[i], i, layers));
  for (uint32_t i = 0; i < accel__checkpoint_count(b->checkpoint); i++) {
    const char *name = accel__checkpoint_at(b->checkpoint, i)->name;
    if (!accel__starts_with(name, ACCEL__ADAPTER_PREFIX)) ACCEL_TRY(add_names(b, name, -1, layers));
  }
  return ACCEL_OK;
}

/* Names of attention layers that older diffusers gave a text encoder and the end of a UNet's. */
static bool find_renamed(const accel__adapter_base *b, const char *key, int64_t *out) {
  static const char *const pairs[][2] = {{"_to_out", "_to_out_0"},
                                         {"_to_out", "_out_proj"},
                                         {"_to_q", "_q_proj"},
                                         {"_to_k", "_k_proj"},
                                         {"_to_v", "_v_proj"}};
  char other[NAME_BYTES + 16];
  for (size_t i = 0; i < sizeof pairs / sizeof *pairs; i++) {
    if (!accel__ends_with(key, pairs[i][0])) continue;
    snprintf(other, sizeof other, "%.*s%s", (int)(strlen(key) - strlen(pairs[i][0])), key,
             pairs[i][1]);
    if (accel__map_get(&b->alike, other, strlen(other), out)) return true;
  }
  return false;
}

accel_status accel__lora_file_find(const accel__adapter_base *b, const accel__adapter *a,
                                   const accel__adapter_module *m, int64_t *out) {
  if (accel__map_get(&b->alike, m->key, strlen(m->key), out) || find_renamed(b, m->key, out))
    return ACCEL_OK;
  accel__fail(ACCEL_ERROR_FORMAT, "%s: the model has no '%.200s', which the LoRA changes", a->path,
              m->name);
  return accel__remedy(ACCEL_ERROR_FORMAT,
                       "load it on the pipeline it was made for (Stable Diffusion 1.x, 2.x or XL)");
}
