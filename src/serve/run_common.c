/* run_common.c - what the tasks of /accel/run/{task} share. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "serve/run_tasks.h"

bool job_texts(run_job *j) {
  if (j->raw) field_wrong(&j->f, "inputs", "must be JSON: {\"inputs\": TEXT}");
  j->texts = field_texts(&j->f, "inputs", &j->n, &j->single);
  if (!j->f.failed && !j->n)
    field_wrong(&j->f, "inputs", "must be a text, or a list of at least one");
  return !j->f.failed;
}

bool job_media(run_job *j, serve_media_kind kind) {
  serve_fields *f = &j->f;
  if (j->raw) {
    accel_media *one = fields_memory(f, sizeof *one);
    j->media = one;
    j->n = 1;
    j->single = true;
    return one && field_media_bytes(f, "body", j->raw, j->raw_n, kind, one);
  }
  if (!job_texts(j)) return false;
  const uint32_t most = kind == SERVE_PICTURE ? SERVE_MAX_MEDIA : SERVE_MAX_SOUNDS;
  if (j->n > most) field_wrong(f, "inputs", "has %u files; a request takes %u", j->n, most);
  accel_media *list = fields_memory(f, j->n * sizeof *list);
  for (uint32_t i = 0; list && i < j->n; ++i)
    if (!field_media(f, "inputs", j->texts[i], kind, &list[i])) return false;
  j->media = list;
  return list != NULL;
}

const char *const *job_labels(run_job *j, uint32_t *n) {
  serve_fields *f = &j->f;
  const char *const *list;
  bool single;
  list = field_texts(f, "candidate_labels", n, &single);
  if (f->failed) return NULL;
  if (!*n) field_wrong(f, "candidate_labels", "must be a list of at least one label");
  if (!single) return list;
  char *copy = fields_memory(f, strlen(list[0]) + 1);
  const char **labels = fields_memory(f, (strlen(list[0]) + 1) * sizeof *labels);
  *n = 0;
  if (!copy || !labels) return NULL;
  char *rest = strcpy(copy, list[0]), *word;
  while ((word = strsep(&rest, ","))) {
    char *end = word + strlen(word);
    while (*word == ' ') ++word;
    while (end > word && end[-1] == ' ') *--end = 0;
    if (*word) labels[(*n)++] = word;
  }
  if (!*n) field_wrong(f, "candidate_labels", "must name at least one label");
  return labels;
}

bool job_ready(run_job *j) {
  j->model = fields_model(&j->f, j->task->models);
  if (j->model && !j->task->adapters) fields_no_adapter(&j->f, j->model);
  return fields_end(&j->f);
}

void job_generation(run_job *j, accel_generate_params *how) {
  serve_fields *f = &j->f;
  uint32_t n;
  bool single;
  *how = accel_generate_params_default();
  how->max_new_tokens = (int32_t)field_integer(f, "max_new_tokens", 1, 1 << 20, -1);
  how->min_new_tokens = (int32_t)field_integer(f, "min_new_tokens", 0, 1 << 20, -1);
  how->temperature = field_number(f, "temperature", 0, 100, (double)NAN);
  how->top_p = field_number(f, "top_p", 0, 1, (double)NAN);
  how->min_p = field_number(f, "min_p", 0, 1, (double)NAN);
  how->typical_p = field_number(f, "typical_p", 1e-9, 1, (double)NAN);
  how->top_k = (int32_t)field_integer(f, "top_k", 0, INT32_MAX, -1);
  how->repetition_penalty = field_number(f, "repetition_penalty", 1e-9, 1e9, (double)NAN);
  how->no_repeat_ngram_size = (int32_t)field_integer(f, "no_repeat_ngram_size", 0, 1024, -1);
  how->num_beams = (uint32_t)field_integer(f, "num_beams", 1, 64, 0);
  how->num_return_sequences = (uint32_t)field_integer(f, "num_return_sequences", 1, 64, 0);
  how->seed = (uint64_t)field_integer(f, "seed", 0, INT64_C(1) << 53, 0);
  if (field_item(f, "do_sample")) how->do_sample = field_flag(f, "do_sample", false);
  const char *const *stop = field_texts(f, "stop", &n, &single);
  accel_strings *list = stop ? fields_memory(f, sizeof *list) : NULL;
  if (!list) return;
  *list = (accel_strings){n, stop};
  how->stop = list;
}

bool job_done(run_job *j, accel_status status) {
  if (status != ACCEL_OK) serve_fail_with(j->f.request, status, "inputs");
  return status == ACCEL_OK;
}

cJSON *job_shape(const run_job *j, cJSON *rows) {
  if (!j->single || !rows) return rows;
  cJSON *first = cJSON_DetachItemFromArray(rows, 0);
  cJSON_Delete(rows);
  return first ? first : cJSON_CreateArray();
}

cJSON *job_rows(const run_job *j, uint32_t n, const uint32_t *count, run_row_fn *one,
                const void *found) {
  cJSON *rows = cJSON_CreateArray();
  for (uint32_t i = 0; rows && i < n; ++i) {
    cJSON *row = cJSON_CreateArray();
    for (uint32_t k = 0; row && k < count[i]; ++k) cJSON_AddItemToArray(row, one(found, i, k));
    cJSON_AddItemToArray(rows, row);
  }
  return job_shape(j, rows);
}

cJSON *job_generated(run_job *j, const accel_generations *found, const char *key,
                     const char *const *before) {
  cJSON *rows = cJSON_CreateArray();
  for (uint32_t i = 0; rows && i < j->n; ++i) cJSON_AddItemToArray(rows, cJSON_CreateArray());
  for (uint32_t k = 0; rows && k < found->n; ++k) {
    const accel_generation *g = &found->item[k];
    const char *start = before ? before[g->prompt] : "";
    char *whole = malloc(strlen(start) + strlen(g->text) + 1);
    cJSON *item = cJSON_CreateObject();
    if (whole) {
      strcpy(whole, start);
      strcat(whole, g->text);
      cJSON_AddStringToObject(item, key, whole);
    }
    cJSON_AddItemToArray(cJSON_GetArrayItem(rows, (int)g->prompt), item);
    free(whole);
  }
  j->counts.prompt_tokens += found->prompt_tokens;
  j->counts.generated_tokens += found->new_tokens;
  return job_shape(j, rows);
}
