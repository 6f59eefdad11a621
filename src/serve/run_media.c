/* run_media.c - tasks that look at pictures or hear sounds. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "serve/run_tasks.h"
#include "tool/tool_png.h"

/* ---- labels ---- */

static cJSON *label_row(const void *found, uint32_t i, uint32_t k) {
  const accel_label_score *l = &((const accel_classifications *)found)->score[i][k];
  cJSON *item = cJSON_CreateObject();
  add_exact(item, "score", l->score);
  cJSON_AddStringToObject(item, "label", l->label);
  return item;
}

static cJSON *labelled(run_job *j, accel_status status, accel_classifications **found) {
  cJSON *answer = NULL;
  if (job_done(j, status)) answer = job_rows(j, (*found)->n, (*found)->count, label_row, *found);
  accel_classifications_free(found);
  return answer;
}

static cJSON *classify(run_job *j, bool sounds) {
  accel_classify_params how = accel_classify_params_default();
  accel_classifications *found = NULL;
  job_media(j, sounds ? SERVE_SOUND : SERVE_PICTURE);
  how.top_k = (uint32_t)field_integer(&j->f, "top_k", 1, 1 << 20, 5);
  how.function = field_choice(&j->f, "function_to_apply", "softmax|sigmoid|none", NULL);
  how.max_seconds = SERVE_MAX_SECONDS;
  if (!job_ready(j)) return NULL;
  const accel_status status = (sounds ? accel_classify_sounds : accel_classify_images)(
      j->model->endpoint, j->media, j->n, &how, &found);
  return labelled(j, status, &found);
}

cJSON *run_image_classification(run_job *j) { return classify(j, false); }
cJSON *run_audio_classification(run_job *j) { return classify(j, true); }

static cJSON *choose_labels(run_job *j, bool sounds) {
  accel_classifications *found = NULL;
  uint32_t n;
  job_media(j, sounds ? SERVE_SOUND : SERVE_PICTURE);
  const char *const *labels = job_labels(j, &n);
  const char *hypothesis = field_text(&j->f, "hypothesis_template", NULL);
  if (!job_ready(j)) return NULL;
  const accel_status status =
      sounds ? accel_zero_shot_audio(j->model->endpoint, j->media, j->n, labels, n, hypothesis,
                                     SERVE_MAX_SECONDS, &found)
             : accel_zero_shot_image(j->model->endpoint, j->media, j->n, labels, n, hypothesis,
                                     &found);
  return labelled(j, status, &found);
}

cJSON *run_zero_shot_image(run_job *j) { return choose_labels(j, false); }
cJSON *run_zero_shot_audio(run_job *j) { return choose_labels(j, true); }

/* ---- objects and segments ---- */

static cJSON *object_row(const void *found, uint32_t i, uint32_t k) {
  const accel_detection *o = &((const accel_detections *)found)->object[i][k];
  cJSON *item = cJSON_CreateObject();
  add_exact(item, "score", o->score);
  cJSON_AddStringToObject(item, "label", o->label);
  cJSON *box = cJSON_AddObjectToObject(item, "box"); /* whole pixels, as the pipeline has them */
  cJSON_AddNumberToObject(box, "xmin", (int)o->xmin);
  cJSON_AddNumberToObject(box, "ymin", (int)o->ymin);
  cJSON_AddNumberToObject(box, "xmax", (int)o->xmax);
  cJSON_AddNumberToObject(box, "ymax", (int)o->ymax);
  return item;
}

cJSON *run_object_detection(run_job *j) {
  accel_detect_params how = accel_detect_params_default();
  accel_detections *found = NULL;
  job_media(j, SERVE_PICTURE);
  how.threshold = field_number(&j->f, "threshold", 0, 1, how.threshold);
  if (!job_ready(j)) return NULL;
  cJSON *answer = NULL;
  if (job_done(j, accel_detect_objects(j->model->endpoint, j->media, j->n, &how, &found)))
    answer = job_rows(j, found->n, found->count, object_row, found);
  accel_detections_free(&found);
  return answer;
}

static char *base64_of(const uint8_t *bytes, size_t n) {
  static const char digit[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  char *text = malloc((n + 2) / 3 * 4 + 1), *to = text;
  for (size_t i = 0; text && i < n; i += 3) {
    const uint32_t more = n - i > 2 ? 2 : (uint32_t)(n - i - 1);
    const uint32_t v = (uint32_t)bytes[i] << 16 | (more > 0 ? (uint32_t)bytes[i + 1] << 8 : 0) |
                       (more > 1 ? bytes[i + 2] : 0);
    *to++ = digit[v >> 18];
    *to++ = digit[v >> 12 & 63];
    *to++ = more > 0 ? digit[v >> 6 & 63] : '=';
    *to++ = more > 1 ? digit[v & 63] : '=';
  }
  if (text) *to = 0;
  return text;
}

/* A grey picture as a PNG file in base64. */
static cJSON *picture_of(const uint8_t *grey, int32_t height, int32_t width) {
  size_t bytes = 0;
  uint8_t *file = grey ? tool_png_grey(grey, (uint32_t)height, (uint32_t)width, &bytes) : NULL;
  char *text = file ? base64_of(file, bytes) : NULL;
  cJSON *item = text ? cJSON_CreateString(text) : NULL;
  free(text);
  free(file);
  return item;
}

/* 255 where the segment is. */
static cJSON *mask_of(const accel_segmentations *found, uint32_t i, int64_t id) {
  const size_t n = (size_t)found->height[i] * (size_t)found->width[i];
  uint8_t *grey = malloc(n + 1);
  for (size_t p = 0; grey && p < n; ++p) grey[p] = found->map[i][p] == id ? 255 : 0;
  cJSON *item = picture_of(grey, found->height[i], found->width[i]);
  free(grey);
  return item;
}

static cJSON *segment_row(const void *all, uint32_t i, uint32_t k) {
  const accel_segmentations *found = all;
  const accel_segment *s = &found->segment[i][k];
  cJSON *item = cJSON_CreateObject();
  add_exact(item, "score", s->score);
  cJSON_AddStringToObject(item, "label", s->label);
  cJSON_AddItemToObject(item, "mask", mask_of(found, i, s->id));
  return item;
}

cJSON *run_image_segmentation(run_job *j) {
  accel_segment_params how = accel_segment_params_default();
  accel_segmentations *found = NULL;
  serve_fields *f = &j->f;
  job_media(j, SERVE_PICTURE);
  how.subtask = field_choice(f, "subtask", "panoptic|instance|semantic", NULL);
  how.threshold = field_number(f, "threshold", 0, 1, how.threshold);
  how.mask_threshold = field_number(f, "mask_threshold", 0, 1, how.mask_threshold);
  how.overlap_threshold =
      field_number(f, "overlap_mask_area_threshold", 0, 1, how.overlap_threshold);
  if (!job_ready(j)) return NULL;
  cJSON *answer = NULL;
  if (job_done(j, accel_segment_images(j->model->endpoint, j->media, j->n, &how, &found)))
    answer = job_rows(j, found->n, found->count, segment_row, found);
  accel_segmentations_free(&found);
  return answer;
}

/* ---- depth ---- */

/* Black at the least value, white at the greatest, as the pipeline has it. */
static cJSON *depth_of(const accel_depths *found, uint32_t i) {
  const size_t n = (size_t)found->height[i] * (size_t)found->width[i];
  const float least = found->least[i], range = found->most[i] - least;
  uint8_t *grey = malloc(n + 1);
  for (size_t p = 0; grey && p < n; ++p)
    grey[p] = range > 0 ? (uint8_t)((found->depth[i][p] - least) / range * 255.0f) : 0;
  cJSON *item = cJSON_CreateObject();
  cJSON_AddItemToObject(item, "depth", picture_of(grey, found->height[i], found->width[i]));
  add_exact(item, "min", found->least[i]);
  add_exact(item, "max", found->most[i]);
  free(grey);
  return item;
}

cJSON *run_depth_estimation(run_job *j) {
  accel_depths *found = NULL;
  cJSON *rows = NULL;
  job_media(j, SERVE_PICTURE);
  if (!job_ready(j)) return NULL;
  if (job_done(j, accel_estimate_depth(j->model->endpoint, j->media, j->n, &found))) {
    rows = cJSON_CreateArray();
    for (uint32_t i = 0; i < found->n; ++i) cJSON_AddItemToArray(rows, depth_of(found, i));
  }
  accel_depths_free(&found);
  return job_shape(j, rows);
}

/* ---- features ---- */

/* The elements as nested lists; returns those behind them. */
static const float *write_elements(FILE *to, const accel_tensor *t, uint32_t dim,
                                   const float *values) {
  const int64_t n = t->dim[dim];
  if (dim + 1 == t->rank) {
    reply_floats(to, values, (size_t)n);
    return values + n;
  }
  for (int64_t i = 0; i < n; ++i) {
    putc(i ? ',' : '[', to);
    values = write_elements(to, t, dim + 1, values);
  }
  putc(']', to);
  return values;
}

static cJSON *elements_of(const accel_tensor *t) {
  char *text = NULL;
  size_t n = 0;
  FILE *to = open_memstream(&text, &n);
  if (to) write_elements(to, t, 0, t->data);
  const bool whole = to && !ferror(to);
  cJSON *item = to && fclose(to) == 0 && whole ? cJSON_CreateRaw(text) : NULL;
  free(text);
  return item;
}

cJSON *run_image_features(run_job *j) {
  accel_tensors *found = NULL;
  cJSON *rows = NULL;
  job_media(j, SERVE_PICTURE);
  const bool pool = field_flag(&j->f, "pool", false);
  if (!job_ready(j)) return NULL;
  if (job_done(j, accel_extract_image_features(j->model->endpoint, j->media, j->n, pool, &found))) {
    rows = cJSON_CreateArray();
    for (uint32_t i = 0; i < found->n; ++i)
      cJSON_AddItemToArray(rows, elements_of(&found->item[i]));
  }
  accel_tensors_free(&found);
  return job_shape(j, rows);
}

/* ---- texts about pictures ---- */

/* Through the queue, one request for each prompt, as many of the *n at once as a request may watch and
 * the queue has room for; *n becomes how many those were. */
static accel_status look_at(run_job *j, const accel_image_prompt *prompts,
                            const accel_generate_params *how, uint32_t *n,
                            accel_generations **found) {
  accel_ticket *ticket[SERVE_TICKETS] = {NULL};
  accel_status status = ACCEL_OK;
  uint32_t begun = 0;
  for (; begun < *n && begun < SERVE_TICKETS; ++begun) {
    accel_request what = accel_request_default(ACCEL_REQUEST_GENERATE);
    what.image_prompt = &prompts[begun];
    what.generate = how;
    status = serve_submit(j->f.request, j->model->queue, &what, &ticket[begun]);
    if (status != ACCEL_OK) break;
  }
  if (status == ACCEL_ERROR_QUEUE_FULL && begun) status = ACCEL_OK; /* those first */
  *n = begun;
  if (!job_done(j, status))
    for (uint32_t i = 0; i < begun; ++i) accel_ticket_cancel(ticket[i]);
  for (uint32_t i = 0; i < begun; ++i) {
    serve_wait(j->f.request, ticket[i]);
    const accel_status own = accel_wait_generations(&ticket[i], -1, &found[i]);
    if (own == ACCEL_OK || status != ACCEL_OK) continue;
    status = own;
    job_done(j, status);
    for (uint32_t k = i + 1; k < begun; ++k) accel_ticket_cancel(ticket[k]);
  }
  return status;
}

/* Places as arrays of pixels: "box" and "quad" of whole numbers, "polygons" of such arrays. */
static cJSON *region_row(const accel_region *r) {
  static const char *const keys[] = {[ACCEL_REGION_BOX] = "box",
                                     [ACCEL_REGION_QUAD] = "quad",
                                     [ACCEL_REGION_POLYGON] = "polygons"};
  const bool several = r->kind == ACCEL_REGION_POLYGON;
  cJSON *item = cJSON_CreateObject();
  cJSON_AddStringToObject(item, "label", r->label);
  cJSON *list = several ? cJSON_AddArrayToObject(item, keys[r->kind]) : NULL;
  for (uint32_t i = 0; i < r->n; ++i) {
    cJSON *outline = cJSON_CreateIntArray(r->outline[i], (int)r->count[i]);
    if (several)
      cJSON_AddItemToArray(list, outline);
    else
      cJSON_AddItemToObject(item, keys[r->kind], outline);
  }
  return item;
}

/* Of a model that names places: "regions" beside the text. */
static cJSON *look_for_regions(run_job *j, const accel_image_prompt *prompts,
                               accel_generate_params *how, const char *key) {
  accel_region_answers *found = NULL;
  cJSON *rows = NULL;
  if (job_done(j, accel_generate_regions(j->model->endpoint, prompts, j->n, how, &found))) {
    rows = cJSON_CreateArray();
    for (uint32_t i = 0; i < found->n; ++i) {
      const accel_region_answer *a = &found->item[i];
      const bool next = i && a->prompt == found->item[i - 1].prompt; /* one more sequence */
      cJSON *row =
                next ? cJSON_GetArrayItem(rows, cJSON_GetArraySize(rows) - 1) : cJSON_CreateArray(),
            *item = cJSON_CreateObject();
      if (!next) cJSON_AddItemToArray(rows, row);
      cJSON_AddItemToArray(row, item);
      cJSON_AddStringToObject(item, key, a->text);
      cJSON *regions = cJSON_AddArrayToObject(item, "regions");
      for (uint32_t k = 0; k < a->n; ++k) cJSON_AddItemToArray(regions, region_row(&a->region[k]));
    }
    rows = job_shape(j, rows);
  }
  accel_region_answers_free(&found);
  return rows;
}

/* Runs the prompts, whose pictures and texts are set. */
static cJSON *look(run_job *j, const accel_image_prompt *prompts, accel_generate_params *how,
                   const char *key, const char *const *before) {
  run_job one = {.n = 1, .single = true}; /* each prompt by itself */
  if (!prompts || !job_ready(j)) return NULL;
  serve_use_adapter(how, j->model);
  if (!before && accel_names_regions(j->model->endpoint))
    return look_for_regions(j, prompts, how, key);
  cJSON *rows = cJSON_CreateArray();
  bool good = true;
  for (uint32_t at = 0, n; good && at < j->n; at += n) {
    accel_generations *found[SERVE_TICKETS] = {NULL};
    n = j->n - at;
    good = look_at(j, prompts + at, how, &n, found) == ACCEL_OK;
    for (uint32_t i = 0; i < n; ++i) {
      if (good)
        cJSON_AddItemToArray(rows,
                             job_generated(&one, found[i], key, before ? &before[at + i] : NULL));
      accel_generations_free(&found[i]);
    }
  }
  j->counts = one.counts;
  if (good) return job_shape(j, rows);
  cJSON_Delete(rows);
  return NULL;
}

cJSON *run_image_to_text(run_job *j) {
  accel_generate_params how;
  job_media(j, SERVE_PICTURE);
  job_generation(j, &how);
  const char *text = field_text(&j->f, "prompt", NULL);
  accel_image_prompt *prompts = fields_memory(&j->f, j->n * sizeof *prompts);
  for (uint32_t i = 0; prompts && i < j->n; ++i)
    prompts[i] = (accel_image_prompt){ACCEL_PROMPT_TEXT, text, &j->media[i], 1};
  return look(j, prompts, &how, "generated_text", NULL);
}

/* {"image", "question"} or a list of these, as `text_name` calls the text; "images" may be several. */
static accel_image_prompt *read_prompts(run_job *j, const char *text_name, accel_prompt_kind kind) {
  serve_fields *f = &j->f;
  const cJSON *inputs = field_item(f, "inputs");
  /* Hugging Face's clients put the members beside "inputs", too */
  if (cJSON_IsString(inputs) && field_item(f, text_name) && field_item(f, "image"))
    inputs = f->object;
  j->single = cJSON_IsObject(inputs);
  const int count = j->single ? 1 : cJSON_GetArraySize(inputs);
  accel_image_prompt *prompts = fields_memory(f, (size_t)count * sizeof *prompts);
  const char **list = fields_memory(f, (size_t)count * sizeof *list);
  if (!count || count > SERVE_MAX_MEDIA)
    field_wrong(f, "inputs", "must be {\"image\", \"%s\"}, or a list of 1 to %d of them", text_name,
                SERVE_MAX_MEDIA);
  if (f->failed) return NULL;
  const cJSON *item = j->single ? inputs : inputs->child;
  for (; j->n < (uint32_t)count; item = item->next, ++j->n) {
    const cJSON *text = cJSON_GetObjectItemCaseSensitive(item, text_name),
                *image = cJSON_GetObjectItemCaseSensitive(item, "image"),
                *images = image ? image : cJSON_GetObjectItemCaseSensitive(item, "images");
    uint32_t n = 0;
    bool single;
    const char *const *given = images ? item_texts(f, "image", images, &n, &single) : NULL;
    if (!cJSON_IsString(text) || !n || n > SERVE_MAX_MEDIA) {
      field_wrong(f, "inputs", "element %u has no picture \"image\" or no text \"%s\"", j->n,
                  text_name);
      return NULL;
    }
    accel_media *media = fields_memory(f, n * sizeof *media);
    for (uint32_t i = 0; i < n; ++i)
      if (!media || !field_media(f, "image", given[i], SERVE_PICTURE, &media[i])) return NULL;
    list[j->n] = text->valuestring;
    prompts[j->n] = (accel_image_prompt){kind, text->valuestring, media, n};
  }
  j->texts = list;
  return prompts;
}

cJSON *run_visual_question(run_job *j) {
  accel_generate_params how;
  accel_image_prompt *prompts = read_prompts(j, "question", ACCEL_PROMPT_QUESTION);
  job_generation(j, &how);
  return look(j, prompts, &how, "answer", NULL);
}

cJSON *run_image_text_to_text(run_job *j) {
  accel_generate_params how;
  accel_image_prompt *prompts = read_prompts(j, "text", ACCEL_PROMPT_TEXT);
  job_generation(j, &how);
  const bool whole = field_flag(&j->f, "return_full_text", true);
  return look(j, prompts, &how, "generated_text", whole ? j->texts : NULL);
}

/* ---- speech ---- */

static cJSON *transcript_of(const accel_transcripts *found, uint32_t i, bool chunks) {
  cJSON *item = cJSON_CreateObject();
  cJSON_AddStringToObject(item, "text", found->text[i]);
  cJSON *list = chunks ? cJSON_AddArrayToObject(item, "chunks") : NULL;
  for (uint32_t k = 0; list && k < found->count[i]; ++k) {
    cJSON *chunk = cJSON_CreateObject();
    cJSON_AddStringToObject(chunk, "text", found->chunk[i][k].text);
    cJSON *times = cJSON_AddArrayToObject(chunk, "timestamp");
    cJSON_AddItemToArray(times, exact_number(found->chunk[i][k].start));
    cJSON_AddItemToArray(times, exact_number(found->chunk[i][k].end));
    cJSON_AddItemToArray(list, chunk);
  }
  return item;
}

/* return_timestamps is true, false, "word" or "char". */
static const char *read_stamps(serve_fields *f) {
  const cJSON *item = field_item(f, "return_timestamps");
  if (cJSON_IsString(item)) return field_choice(f, "return_timestamps", "word|char", NULL);
  return field_flag(f, "return_timestamps", false) ? "auto" : NULL;
}

cJSON *run_speech_recognition(run_job *j) {
  accel_transcribe_params how = accel_transcribe_params_default();
  accel_generate_params generate = accel_generate_params_default();
  accel_transcripts *found = NULL;
  serve_fields *f = &j->f;
  job_media(j, SERVE_SOUND);
  how.timestamps = read_stamps(f);
  how.chunk_length = field_number(f, "chunk_length_s", 0, 3600, 0);
  how.language = field_text(f, "language", NULL);
  how.task = field_choice(f, "task", "transcribe|translate", NULL);
  how.max_seconds = SERVE_MAX_SECONDS;
  generate.on_token = serve_stop_when_gone;
  generate.on_token_user = f->request;
  how.generate = &generate;
  if (!job_ready(j)) return NULL;
  serve_use_adapter(&generate, j->model);
  cJSON *rows = NULL;
  if (job_done(j, accel_transcribe(j->model->endpoint, j->media, j->n, &how, &found))) {
    rows = cJSON_CreateArray();
    for (uint32_t i = 0; i < found->n; ++i) {
      cJSON_AddItemToArray(rows, transcript_of(found, i, how.timestamps != NULL));
      j->counts.generated_tokens += found->n_ids[i];
    }
  }
  accel_transcripts_free(&found);
  return job_shape(j, rows);
}
