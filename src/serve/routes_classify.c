/* routes_classify.c - labels of texts: TEI's /predict, and /classify as vLLM has it; what a model is,
 * /info. */
#include <string.h>
#include <time.h>

#include "serve/serve_reply.h"

static const char *const classifiers[] = {"text-classification", NULL};

/* ---- what both share ---- */

accel_classifications *classify_texts(serve_fields *f, const serve_model *model, const char *member,
                                      const char *const *texts, const char *const *pairs,
                                      uint32_t n, const accel_classify_params *how,
                                      const serve_cutting *cutting) {
  accel_classify_params own = *how;
  accel_request what = accel_request_default(ACCEL_REQUEST_CLASSIFY);
  accel_classifications *found = NULL;
  accel_ticket *ticket = NULL;
  what.texts = texts;
  what.pairs = pairs;
  what.n = n;
  what.classify = &own;
  serve_use_adapter(&own, model);
  if (!serve_queued(f->request, model, &what, &ticket)) return NULL;
  const accel_status status = accel_wait_classifications(&ticket, -1, &found);
  if (status != ACCEL_OK) {
    serve_fail_with(f->request, status, member);
  } else if (cutting_allowed(f, cutting, found->truncated, member, model)) {
    const serve_work work = {model, found->tokens,
                             count_characters(texts, n) + (pairs ? count_characters(pairs, n) : 0)};
    work_count(f->request, &work);
    return found;
  }
  accel_classifications_free(&found);
  return NULL;
}

cJSON *label_scores(const accel_classifications *found, uint32_t i) {
  cJSON *list = cJSON_CreateArray();
  for (uint32_t k = 0; list && k < found->count[i]; ++k) {
    cJSON *item = cJSON_CreateObject();
    cJSON_AddStringToObject(item, "label", found->score[i][k].label);
    add_exact(item, "score", found->score[i][k].score);
    cJSON_AddItemToArray(list, item);
  }
  return list;
}

/* ---- /predict ---- */

/* TEXT or [TEXT] is one text, [TEXT, TEXT] one pair, [[...], ...] several of these. */
typedef struct predict_inputs {
  const char **text, **pair; /* [n]; a pair may be "" */
  uint32_t n;
  bool batch, pairs;
} predict_inputs;

static bool add_input(serve_fields *f, predict_inputs *in, const cJSON *item) {
  const cJSON *first = cJSON_IsArray(item) ? cJSON_GetArrayItem(item, 0) : item,
              *second = cJSON_IsArray(item) ? cJSON_GetArrayItem(item, 1) : NULL;
  if (!cJSON_IsString(first) || (second && !cJSON_IsString(second)) ||
      cJSON_GetArraySize(item) > 2) {
    field_wrong(f, "inputs", "element %u is neither a text nor a list of one or two texts", in->n);
    return false;
  }
  in->text[in->n] = first->valuestring;
  in->pair[in->n++] = second ? second->valuestring : "";
  in->pairs |= second != NULL;
  return true;
}

static void read_inputs(serve_fields *f, predict_inputs *in) {
  const cJSON *inputs = field_item(f, "inputs"), *item;
  in->batch = cJSON_IsArray(inputs) && cJSON_IsArray(cJSON_GetArrayItem(inputs, 0));
  const int count = in->batch ? cJSON_GetArraySize(inputs) : 1;
  if (!inputs) field_wrong(f, "inputs", "must be a text, a list of two, or a list of such lists");
  if (count > SERVE_MAX_TEXTS)
    field_wrong(f, "inputs", "has %d texts; a request takes %d", count, SERVE_MAX_TEXTS);
  in->text = fields_memory(f, 2 * (size_t)count * sizeof *in->text);
  if (!in->text) return;
  in->pair = in->text + count;
  if (!in->batch) {
    add_input(f, in, inputs);
    return;
  }
  cJSON_ArrayForEach(item, inputs) {
    if (!add_input(f, in, item)) return;
  }
}

void route_predict(serve_request *request) {
  serve_fields f;
  predict_inputs in = {0};
  accel_classify_params how = accel_classify_params_default();
  accel_classifications *found = NULL;
  fields_of_json(&f, request);
  read_inputs(&f, &in);
  const serve_cutting cutting = fields_cutting(&f);
  how.top_k = 0;
  if (field_flag(&f, "raw_scores", false)) how.function = "none";
  const serve_model *model = fields_model(&f, classifiers);
  if (fields_end(&f))
    found = classify_texts(&f, model, "inputs", in.text, in.pairs ? in.pair : NULL, in.n, &how,
                           &cutting);
  if (found && in.batch) {
    cJSON *answer = cJSON_CreateArray();
    for (uint32_t i = 0; answer && i < found->n; ++i)
      cJSON_AddItemToArray(answer, label_scores(found, i));
    serve_answer_json(request, 200, answer);
  } else if (found) {
    serve_answer_json(request, 200, label_scores(found, 0));
  }
  accel_classifications_free(&found);
  fields_free(&f);
}

/* ---- /classify ---- */

/* The probabilities in the order of the classes. */
static cJSON *class_answer(const accel_classifications *found, uint32_t i) {
  cJSON *item = cJSON_CreateObject();
  const uint32_t n = found->count[i];
  cJSON_AddNumberToObject(item, "index", i);
  if (n) cJSON_AddStringToObject(item, "label", found->score[i][0].label);
  cJSON *probs = cJSON_AddArrayToObject(item, "probs");
  for (uint32_t id = 0; id < n; ++id)
    for (uint32_t k = 0; k < n; ++k)
      if (found->score[i][k].id == id)
        cJSON_AddItemToArray(probs, exact_number(found->score[i][k].score));
  cJSON_AddNumberToObject(item, "num_classes", n);
  return item;
}

void route_classify(serve_request *request) {
  serve_fields f;
  uint32_t n;
  bool single;
  char id[SERVE_ID];
  accel_classify_params how = accel_classify_params_default();
  accel_classifications *found = NULL;
  fields_of_json(&f, request);
  const char *const *texts = field_texts(&f, "input", &n, &single);
  if (!f.failed && !n) field_wrong(&f, "input", "must be a text, or a list of at least one");
  if (field_item(&f, "labels"))
    field_wrong(&f, "labels", "the model's own labels are given; others are not made up");
  const serve_cutting cutting = {.truncate = true};
  how.top_k = 0;
  const serve_model *model = fields_model(&f, classifiers);
  if (fields_end(&f)) found = classify_texts(&f, model, "input", texts, NULL, n, &how, &cutting);
  if (found) {
    cJSON *answer = cJSON_CreateObject();
    cJSON_AddStringToObject(answer, "id", reply_id("classify-", id));
    cJSON_AddStringToObject(answer, "object", "list");
    cJSON_AddNumberToObject(answer, "created", (double)time(NULL));
    cJSON_AddStringToObject(answer, "model", model->name);
    cJSON *data = cJSON_AddArrayToObject(answer, "data");
    for (uint32_t i = 0; i < found->n; ++i) cJSON_AddItemToArray(data, class_answer(found, i));
    cJSON *usage = cJSON_AddObjectToObject(answer, "usage");
    cJSON_AddNumberToObject(usage, "prompt_tokens", (double)found->tokens);
    cJSON_AddNumberToObject(usage, "total_tokens", (double)found->tokens);
    serve_answer_json(request, 200, answer);
  }
  accel_classifications_free(&found);
  fields_free(&f);
}

/* ---- /info ---- */

static const char *torch_dtype(const char *precision) {
  static const char *const name[][2] = {
      {"fp32", "float32"}, {"fp16", "float16"}, {"bf16", "bfloat16"}};
  for (size_t i = 0; i < sizeof name / sizeof *name; ++i)
    if (!strcmp(name[i][0], precision)) return name[i][1];
  return precision;
}

static void add_kind(cJSON *answer, const serve_model *model, const accel_processor *p) {
  cJSON *kind = cJSON_AddObjectToObject(answer, "model_type");
  if (!p->labels->n) {
    const bool embeds = !strcmp(model->task, "feature-extraction");
    cJSON *own = cJSON_AddObjectToObject(kind, embeds ? "embedding" : model->task);
    if (*p->pooling) /* "last_token" is TEI's name */
      cJSON_AddStringToObject(own, "pooling",
                              strcmp(p->pooling, "lasttoken") ? p->pooling : "last_token");
    return;
  }
  cJSON *labels = cJSON_AddObjectToObject(kind, p->labels->n == 1 ? "reranker" : "classifier"),
        *names = cJSON_AddObjectToObject(labels, "id2label"),
        *ids = cJSON_AddObjectToObject(labels, "label2id");
  for (uint32_t i = 0; i < p->labels->n; ++i) {
    char number[16];
    snprintf(number, sizeof number, "%u", i);
    cJSON_AddStringToObject(names, number, p->labels->item[i]);
    cJSON_AddNumberToObject(ids, p->labels->item[i], i);
  }
}

void route_info(serve_request *request) {
  const serve_model *model = serve_take_model(request, serve_query(request, "model"), NULL);
  if (!model) return;
  const accel_processor *p = accel_processor_of(model->endpoint);
  cJSON *answer = cJSON_CreateObject();
  cJSON_AddStringToObject(answer, "model_id", model->name);
  cJSON_AddNullToObject(answer, "model_sha");
  cJSON_AddStringToObject(answer, "model_dtype", torch_dtype(model->precision));
  add_kind(answer, model, p);
  cJSON_AddStringToObject(answer, "task", model->task);
  cJSON_AddStringToObject(answer, "device", model->device);
  cJSON_AddNumberToObject(answer, "max_concurrent_requests", accel_queue_capacity(model->queue));
  cJSON_AddNumberToObject(answer, "max_input_length", (double)p->max_length);
  cJSON_AddNumberToObject(answer, "max_client_batch_size", SERVE_MAX_TEXTS);
  cJSON_AddBoolToObject(answer, "auto_truncate", false);
  cJSON_AddStringToObject(answer, "version", accel_version());
  /* members of TEI's that mean nothing here */
  for (const char *const *name =
           (const char *const[]){"sha", "docker_label", "max_batch_tokens", "max_batch_requests",
                                 "tokenization_workers", NULL};
       *name; ++name)
    cJSON_AddNullToObject(answer, *name);
  serve_answer_json(request, 200, answer);
}
