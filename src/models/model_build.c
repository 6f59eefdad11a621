/* model_build.c - the registry of model classes: which file builds what a config asks for. */
#include "models/model_build.h"

#include <string.h>

#include "core/text.h"
#include "modeling/model_builder.h"

#define ACCEL_MODEL(file, type) extern const accel__architecture accel__model_##file;
#include "models/models.def"
#undef ACCEL_MODEL

static const accel__architecture *const architectures[] = {
#define ACCEL_MODEL(file, type) &accel__model_##file,
#include "models/models.def"
#undef ACCEL_MODEL
};
static const char *const model_types[] = {
#define ACCEL_MODEL(file, type) type,
#include "models/models.def"
#undef ACCEL_MODEL
};
enum { N_ARCHITECTURES = sizeof architectures / sizeof *architectures, MAX_CLASSES = 512 };

static const accel__architecture *by_type(const char *type) {
  for (size_t i = 0; i < N_ARCHITECTURES; i++) {
    if (strcmp(model_types[i], type) == 0) return architectures[i];
  }
  return NULL;
}

/* The architecture that builds class `name`; *known gets the table's copy of the name. */
static const accel__architecture *by_class(const char *name, const char **known) {
  for (size_t i = 0; i < N_ARCHITECTURES; i++) {
    for (const char *const *c = architectures[i]->classes; *c != NULL; c++) {
      if (strcmp(*c, name) != 0) continue;
      *known = *c;
      return architectures[i];
    }
  }
  return NULL;
}

const char *const *accel__model_architectures(uint32_t *n) {
  /* the same values on every call: harmless to write from several threads only once filled */
  static const char *names[MAX_CLASSES];
  static uint32_t count;
  if (__atomic_load_n(&count, __ATOMIC_ACQUIRE) == 0) {
    uint32_t filled = 0;
    for (size_t i = 0; i < N_ARCHITECTURES; i++) {
      for (const char *const *c = architectures[i]->classes; *c != NULL && filled < MAX_CLASSES;
           c++)
        __atomic_store_n(&names[filled++], *c, __ATOMIC_RELAXED);
    }
    __atomic_store_n(&count, filled, __ATOMIC_RELEASE);
  }
  *n = __atomic_load_n(&count, __ATOMIC_ACQUIRE);
  return names;
}

static accel_status unknown(const accel__json_file *config, const char *what, const char *name,
                            const char *const *known, size_t n) {
  const char *file = config->name != NULL ? config->name : "config.json",
             *near = accel__nearest(name, known, n);
  accel_status status =
      near != NULL
          ? accel__fail(ACCEL_ERROR_UNSUPPORTED,
                        "%s: %s '%s' is not supported; the nearest supported one is '%s'", file,
                        what, name, near)
          : accel__fail(ACCEL_ERROR_UNSUPPORTED, "%s: %s '%s' is not supported", file, what, name);
  return accel__remedy(status, "`accel registry --architectures` lists what can be run");
}

static const char *base_class(const accel__model_request *request, const accel__architecture *a) {
  return request->embed != NULL && a->embed_class != NULL ? a->embed_class : a->classes[0];
}

/* Class and architecture that the request means. */
static accel_status choose(const accel__model_request *request, const accel__architecture **out,
                           const char **class_name) {
  const accel__json_file *config = request->config;
  const accel__json *list = NULL;
  const char *type = NULL, *wanted = request->architecture;
  uint32_t n;
  ACCEL_TRY(accel__json_string(config, config->root, "model_type", &type));
  ACCEL_TRY(accel__json_array(config, config->root, "architectures", &list));
  if (wanted == NULL && list != NULL && cJSON_IsString(list->child))
    wanted = list->child->valuestring;
  if (wanted == NULL) /* as diffusers names it */
    ACCEL_TRY(accel__json_string(config, config->root, "_class_name", &wanted));
  *out = type != NULL ? by_type(type) : NULL;
  /* sentence embeddings use AutoModel: the base class */
  bool base = wanted == NULL || (request->embed != NULL && request->architecture == NULL);
  if (*out != NULL && base) {
    *class_name = base_class(request, *out);
    return ACCEL_OK;
  }
  if (wanted == NULL) {
    if (type == NULL)
      return accel__fail(ACCEL_ERROR_FORMAT, "%s: has neither 'model_type' nor 'architectures'",
                         config->name != NULL ? config->name : "config.json");
    return unknown(config, "model_type", type, model_types, N_ARCHITECTURES);
  }
  const accel__architecture *found = by_class(wanted, class_name);
  if (found == NULL) {
    if (type != NULL && *out == NULL)
      return unknown(config, "model_type", type, model_types, N_ARCHITECTURES);
    const char *const *known = accel__model_architectures(&n);
    return unknown(config, "class", wanted, known, n);
  }
  if (base) *class_name = base_class(request, found);
  *out = found;
  return ACCEL_OK;
}

const char *accel__model_task(const char *class_name) {
  static const char *const tasks[][2] = {
      {"Wav2Vec2ForSequenceClassification", "audio-classification"},
      {"HubertForSequenceClassification", "audio-classification"},
      {"WavLMForSequenceClassification", "audio-classification"},
      {"StableDiffusionPipeline", "text-to-image"},
      {"StableDiffusionXLPipeline", "text-to-image"},
      {"LatentConsistencyModelPipeline", "text-to-image"},
      {"StableDiffusion3Pipeline", "text-to-image"},
      {"FluxPipeline", "text-to-image"},
      {"Img2ImgPipeline", "text-to-image"},
      {"InpaintPipeline", "text-to-image"},
      {"DDPMPipeline", "unconditional-image-generation"},
      {"DDIMPipeline", "unconditional-image-generation"},
      {"ChronosBoltModelForForecasting", "time-series-forecasting"},
      {"ForPrediction", "time-series-forecasting"},
      {"ForAudioClassification", "audio-classification"},
      {"ForImageClassification", "image-classification"},
      {"ForImageClassificationWithTeacher", "image-classification"},
      {"ForDepthEstimation", "depth-estimation"},
      {"ForObjectDetection", "object-detection"},
      {"ForCTC", "automatic-speech-recognition"},
      {"ForSemanticSegmentation", "image-segmentation"},
      {"ForSegmentation", "image-segmentation"},
      {"ClapModel", "zero-shot-audio-classification"},
      {"XCLIPModel", "video-classification"},
      {"CLIPModel", "zero-shot-image-classification"},
      {"SiglipModel", "zero-shot-image-classification"},
      {"WhisperForConditionalGeneration", "automatic-speech-recognition"},
      {"MoonshineForConditionalGeneration", "automatic-speech-recognition"},
      {"VitsModel", "text-to-speech"},
      {"BlipForConditionalGeneration", "image-to-text"},
      {"VisionEncoderDecoderModel", "image-to-text"},
      {"BlipForQuestionAnswering", "image-text-to-text"},
      {"Florence2ForConditionalGeneration", "image-text-to-text"},
      {"LlavaForConditionalGeneration", "image-text-to-text"},
      {"LlavaNextForConditionalGeneration", "image-text-to-text"},
      {"Mistral3ForConditionalGeneration", "text-generation"},
      {"Qwen3_5ForConditionalGeneration", "text-generation"},
      {"Qwen3_5MoeForConditionalGeneration", "text-generation"},
      {"Qwen2VLForConditionalGeneration", "image-text-to-text"},
      {"Qwen2_5_VLForConditionalGeneration", "image-text-to-text"},
      {"Qwen3VLForConditionalGeneration", "image-text-to-text"},
      {"Qwen3VLMoeForConditionalGeneration", "image-text-to-text"},
      {"Gemma3ForConditionalGeneration", "image-text-to-text"},
      {"PaliGemmaForConditionalGeneration", "image-text-to-text"},
      {"Idefics3ForConditionalGeneration", "image-text-to-text"},
      {"SmolVLMForConditionalGeneration", "image-text-to-text"},
      {"InternVLForConditionalGeneration", "image-text-to-text"},
      {"ViTModel", "image-feature-extraction"},
      {"DeiTModel", "image-feature-extraction"},
      {"Dinov2Model", "image-feature-extraction"},
      {"Dinov2WithRegistersModel", "image-feature-extraction"},
      {"DINOv3ViTModel", "image-feature-extraction"},
      {"DINOv3ConvNextModel", "image-feature-extraction"},
      {"SwinModel", "image-feature-extraction"},
      {"ResNetModel", "image-feature-extraction"},
      {"ConvNextModel", "image-feature-extraction"},
      {"LayoutLMv3ForQuestionAnswering", "document-question-answering"},
      {"ForSequenceClassification", "text-classification"},
      {"ForTokenClassification", "token-classification"},
      {"ForQuestionAnswering", "question-answering"},
      {"ForMaskedLM", "fill-mask"},
      {"ForNextSentencePrediction", "next-sentence-prediction"},
      {"ForPreTraining", "pretraining"},
      {"ForCausalLM", "text-generation"},
      {"LMHeadModel", "text-generation"},
      {"ForConditionalGeneration", "text2text-generation"},
      {"T5WithLMHeadModel", "text2text-generation"},
      {"MTModel", "translation"},
  };
  for (size_t i = 0; i < sizeof tasks / sizeof *tasks; i++) {
    if (accel__ends_with(class_name, tasks[i][0])) return tasks[i][1];
  }
  return "feature-extraction";
}

/* A field of `object`, or of the configs within it, that counts so many heads; NULL: none does. */
static const char *heads_field(const accel__json *object, int64_t heads) {
  static const char *const fields[] = {"num_attention_heads",
                                       "num_key_value_heads",
                                       "n_head",
                                       "num_heads",
                                       "n_heads",
                                       "encoder_attention_heads",
                                       "decoder_attention_heads",
                                       "num_kv_heads",
                                       "n_head_kv",
                                       "attention_heads"};
  for (size_t i = 0; i < sizeof fields / sizeof *fields; i++) {
    const accel__json *field = accel__json_get(object, fields[i]);
    if (cJSON_IsNumber(field) && field->valuedouble == (double)heads) return fields[i];
  }
  ACCEL_JSON_EACH(item, object) {
    const char *found = cJSON_IsObject(item) ? heads_field(item, heads) : NULL;
    if (found) return found;
  }
  return NULL;
}

/* Says which field it is, and which worlds would do. */
static accel_status undivided(const accel__model_request *request, int64_t heads) {
  const char *field = heads_field(request->config->root, heads);
  accel__buffer worlds = {0};
  for (int64_t n = 1; n <= heads && n <= 64; n++)
    if (heads % n == 0) accel__buffer_printf(&worlds, "%s%lld", n > 1 ? ", " : "", (long long)n);
  accel__fail(ACCEL_ERROR_UNSUPPORTED,
              "config.json: field '%s': %u ranks do not divide the %lld heads",
              field ? field : "num_attention_heads", request->world, (long long)heads);
  accel__remedy(ACCEL_ERROR_UNSUPPORTED, "use as many ranks as divide them: %s",
                worlds.data ? worlds.data : "1");
  accel__buffer_free(&worlds);
  return ACCEL_ERROR_UNSUPPORTED;
}

accel_status accel__model_build(const accel__model_request *request, accel__model **out) {
  *out = NULL;
  const accel__architecture *architecture = NULL;
  const char *class_name = NULL;
  if (request == NULL || request->config == NULL || !cJSON_IsObject(request->config->root)) {
    return accel__fail(ACCEL_ERROR_FORMAT, "config.json: not a JSON object");
  }
  ACCEL_TRY(choose(request, &architecture, &class_name));
  accel__program *p = accel__program_new(class_name);
  if (p == NULL) return ACCEL_ERROR_OUT_OF_MEMORY;
  if (request->low_rank) accel__program_low_rank(p);
  if (request->world > 1) accel__program_shard(p, request->rank, request->world);
  accel__model *m = accel__arena_alloc(accel__program_arena(p), sizeof *m);
  if (m == NULL) {
    accel__program_free(&p);
    return ACCEL_ERROR_OUT_OF_MEMORY;
  }
  *m = (accel__model){.program = p,
                      .architecture = class_name,
                      .model_type = architecture->model_type,
                      .task = accel__model_task(class_name)};
  accel_status status = architecture->build(request, class_name, m);
  if (status != ACCEL_OK) {
    if (accel__program_undivided(p)) status = undivided(request, accel__program_undivided(p));
    accel__program_free(&p);
    return status;
  }
  *out = m;
  return ACCEL_OK;
}

const accel__model_entry *accel__model_entry_of(const accel__model *model, const char *name) {
  for (uint32_t i = 0; i < model->n_entries; i++)
    if (strcmp(model->entries[i].name, name) == 0) return &model->entries[i];
  return NULL;
}

int32_t accel__entry_input(const accel__model_entry *entry, const char *name) {
  for (uint32_t i = 0; i < entry->n_inputs; i++)
    if (strcmp(entry->inputs[i].name, name) == 0) return (int32_t)i;
  return -1;
}

int32_t accel__entry_output(const accel__model_entry *entry, const char *name) {
  for (uint32_t i = 0; i < entry->n_outputs; i++)
    if (strcmp(entry->outputs[i].name, name) == 0) return (int32_t)i;
  return -1;
}

bool accel__model_takes(const accel__model *model, const char *argument) {
  for (uint32_t i = 0; i < model->n_inputs; i++) {
    const accel__model_input *in = &model->inputs[i];
    if (accel__input_is_row(in->kind)) continue;
    if (strcmp(in->kind == ACCEL__INPUT_DERIVED ? in->derived->from : in->name, argument) == 0)
      return true;
  }
  return false;
}

static bool is_among(const char *const *names, const char *name) {
  for (; names != NULL && *names != NULL; names++)
    if (strcmp(*names, name) == 0) return true;
  return false;
}

bool accel__model_leaves_unread(const accel__model *model, const char *name) {
  /* what return_special_tokens_mask and the like ask for, and what image processors count */
  static const char *const written[] = {"special_tokens_mask",
                                        "offset_mapping",
                                        "overflow_to_sample_mapping",
                                        "length",
                                        "mm_token_type_ids",
                                        "num_crops",
                                        "num_patches",
                                        "rows",
                                        "cols",
                                        NULL};
  if (is_among(model->unread, name) || is_among(written, name)) return true;
  for (uint32_t i = 0; i < model->n_inputs; i++)
    if (strcmp(model->inputs[i].name, name) == 0) return false;
  return strcmp(name, "token_type_ids") == 0 && model->vocab_size > 0;
}

void accel__model_free(accel__model **model) {
  if (model == NULL || *model == NULL) return;
  accel__program *p = (*model)->program;
  *model = NULL;
  accel__program_free(&p);
}

accel_status accel__generation_file(const char *directory, accel__json_file *out) {
  return accel__json_read_beside(directory, "generation_config.json", 16 << 20, out);
}

const char *const *accel__model_sensitive(const char *class_name) {
  /* the ends of a UNet, what it makes of the time, and all of autoencoder and safety checker */
  static const char *const none[] = {NULL}, *const all[] = {"*@coded", NULL},
                           *const unet[] = {"*conv_in.*@coded",        "*conv_out.*@coded",
                                            "*time_embedding.*@coded", "*class_embedding.*@coded",
                                            "*add_embedding.*@coded",  "vae.*@coded",
                                            "safety_checker.*@coded",  NULL};
  if (accel__starts_with(class_name, "Autoencoder") ||
      accel__ends_with(class_name, "SafetyChecker"))
    return all;
  const bool paints = accel__ends_with(class_name, "Pipeline") ||
                      accel__ends_with(class_name, "UNet2DModel") ||
                      accel__ends_with(class_name, "UNet2DConditionModel");
  return paints ? unet : none;
}
