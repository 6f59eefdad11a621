/* routes_run.c - POST /accel/run/{task}: every task by one route; and POST /, which Hugging Face's
 * clients send to, by the first model. */
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "serve/run_tasks.h"

/* ---- the table ---- */

#define MODELS(...) ((const char *const[]){__VA_ARGS__, NULL})

static const run_task tasks[] = {
    {"audio-classification", MODELS("audio-classification"), run_audio_classification, false},
    {"automatic-speech-recognition", MODELS("automatic-speech-recognition"), run_speech_recognition,
     true},
    {"depth-estimation", MODELS("depth-estimation"), run_depth_estimation, false},
    {"document-question-answering", MODELS("document-question-answering", "image-to-text"),
     run_document_question, false},
    {"fill-mask", MODELS("fill-mask"), run_fill_mask, false},
    {"image-classification", MODELS("image-classification"), run_image_classification, false},
    {"image-feature-extraction", MODELS("image-feature-extraction"), run_image_features, false},
    {"image-segmentation", MODELS("image-segmentation"), run_image_segmentation, false},
    {"image-text-to-text", MODELS("image-text-to-text", "image-to-text"), run_image_text_to_text,
     true},
    {"image-to-text", MODELS("image-to-text", "image-text-to-text"), run_image_to_text, true},
    {"ner", MODELS("token-classification"), run_token_classification, false},
    {"object-detection", MODELS("object-detection", "image-text-to-text"), run_object_detection,
     false},
    {"question-answering", MODELS("question-answering"), run_question_answering, false},
    {"sentiment-analysis", MODELS("text-classification"), run_text_classification, true},
    {"summarization", MODELS("summarization", "text2text-generation"), run_summarization, true},
    {"text-classification", MODELS("text-classification"), run_text_classification, true},
    {"text-generation", MODELS("text-generation"), run_text_generation, true},
    {"text2text-generation", MODELS("text2text-generation"), run_text2text, true},
    {"token-classification", MODELS("token-classification"), run_token_classification, false},
    {"translation", MODELS("translation", "text2text-generation"), run_translation, true},
    {"visual-question-answering", MODELS("visual-question-answering", "image-text-to-text"),
     run_visual_question, true},
    {"zero-shot-audio-classification", MODELS("zero-shot-audio-classification"),
     run_zero_shot_audio, false},
    {"zero-shot-classification", MODELS("text-classification"), run_zero_shot, false},
    {"zero-shot-image-classification", MODELS("zero-shot-image-classification"),
     run_zero_shot_image, false},
};

/* Tasks whose routes have names of their own. */
static const struct {
  const char *name;
  serve_handler handler;
} routed[] = {{"embeddings", route_embed},
              {"feature-extraction", route_embed},
              {"sentence-similarity", route_similarity},
              {"text-ranking", route_rerank}};

static const run_task *find_task(const char *name) {
  for (size_t i = 0; i < sizeof tasks / sizeof *tasks; ++i)
    if (!strcmp(tasks[i].name, name)) return &tasks[i];
  return NULL;
}

/* ---- one request ---- */

/* The body is a file itself, by its type, or as it begins where it has none. */
static bool is_file(const serve_request *request) {
  const char *type = serve_header(request, "content-type");
  size_t n;
  if (!type) {
    const char *body = serve_body(request, &n);
    return n && !strchr("{ \t\r\n", *body);
  }
  return !strncasecmp(type, "image/", 6) || !strncasecmp(type, "audio/", 6) ||
         !strncasecmp(type, "application/octet-stream", 24);
}

static void run(serve_request *request, const run_task *task) {
  run_job j = {.task = task};
  cJSON *none = NULL;
  if (is_file(request)) {
    j.raw = serve_body(request, &j.raw_n);
    none = cJSON_CreateObject();
    fields_of_object(&j.f, request, none);
    if (!none) serve_fail(request, 500, NULL, NULL, "out of memory");
  } else {
    fields_of_json(&j.f, request);
  }
  cJSON *answer = j.f.failed ? NULL : task->run(&j);
  if (answer) {
    serve_answer_json(request, 200, answer);
    serve_count(request, &j.counts);
  }
  fields_free(&j.f);
  cJSON_Delete(none);
}

static void run_named(serve_request *request, const char *name) {
  const run_task *task = find_task(name);
  for (size_t i = 0; i < sizeof routed / sizeof *routed; ++i) {
    if (strcmp(routed[i].name, name) != 0) continue;
    routed[i].handler(request);
    return;
  }
  if (task)
    run(request, task);
  else
    serve_fail(request, 404, "task", "unknown_task",
               "no task '%s'; docs/serving.md lists them, such as text-classification", name);
}

void route_run(serve_request *request) { run_named(request, serve_path_rest(request)); }

/* What the first model does, or the one that the body names: with one model in it the server is what
 * an Inference Endpoint is.  One with a head of one label is a reranker for bodies with a query. */
void route_run_first(serve_request *request) {
  const cJSON *body = is_file(request) ? NULL : serve_json(request);
  if (!body && !is_file(request)) return;
  const char *name = cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(body, "model"));
  const serve_model *model = serve_take_model(request, name, NULL);
  if (!model) return;
  const cJSON *inputs = cJSON_GetObjectItemCaseSensitive(body, "inputs");
  if (cJSON_HasObjectItem(body, "query"))
    route_rerank(request);
  else if (cJSON_HasObjectItem(inputs, "source_sentence"))
    route_similarity(request);
  else
    run_named(request, model->task);
}
