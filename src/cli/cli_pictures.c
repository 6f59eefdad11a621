/* cli_pictures.c - accel detect-objects, segment, depth-estimation, image-features, zero-shot-image
 * and zero-shot-audio. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/cli_task.h"

/* ---- objects: boxes in whole pixels, as transformers' pipeline prints them ---- */

static void json_object(cli_json *json, const void *found, uint32_t i, uint32_t k) {
  const accel_detection *o = &((const accel_detections *)found)->object[i][k];
  cli_json_double(json, "score", o->score);
  cli_json_text(json, "label", o->label);
  cli_json_open(json, "box", '{');
  cli_json_int(json, "xmin", (int64_t)o->xmin);
  cli_json_int(json, "ymin", (int64_t)o->ymin);
  cli_json_int(json, "xmax", (int64_t)o->xmax);
  cli_json_int(json, "ymax", (int64_t)o->ymax);
  cli_json_close(json, '}');
}

static void print_objects(const accel_detections *found, const accel_media *media) {
  cli_table table = {0};
  cli_table_row(&table, 4, (const char *[]){"score", "label", "box", "picture"});
  for (uint32_t i = 0; i < found->n; ++i) {
    if (!found->count[i])
      cli_table_row(&table, 4, (const char *[]){"", "nothing", "", media[i].name});
    for (uint32_t k = 0; k < found->count[i]; ++k) {
      const accel_detection *o = &found->object[i][k];
      char score[32] = "", box[96];
      if (!isnan(o->score)) snprintf(score, sizeof score, "%.4f", o->score);
      snprintf(box, sizeof box, "%d,%d - %d,%d", (int)o->xmin, (int)o->ymin, (int)o->xmax,
               (int)o->ymax);
      cli_table_row(&table, 4, (const char *[]){score, o->label, box, k ? "" : media[i].name});
    }
  }
  cli_table_print(&table, "rlll");
}

static accel_status draw_objects(const cli_run *run, const accel_media *media,
                                 const accel_detections *found) {
  accel_status status = ACCEL_OK;
  char path[4096];
  for (uint32_t i = 0; run->value[OPT_DRAW] && i < found->n && status == ACCEL_OK; ++i)
    status = accel_draw_objects(&media[i], found->object[i], found->count[i],
                                cli_numbered(run->value[OPT_DRAW], i, found->n, path, sizeof path));
  return status;
}

static accel_status objects_in(const cli_run *run, accel_endpoint *endpoint,
                               const accel_media *media, uint32_t n, accel_detections **found) {
  accel_detect_params how = accel_detect_params_default();
  how.threshold = cli_number(run, OPT_THRESHOLD, how.threshold);
  return accel_detect_objects(endpoint, media, n, &how, found);
}

static int detect_objects(cli_run *run, accel_endpoint *endpoint, const accel_media *media,
                          uint32_t n) {
  accel_detections *found = NULL;
  int code = 0;
  accel_status status = objects_in(run, endpoint, media, n, &found);
  if (status == ACCEL_OK) status = draw_objects(run, media, found);
  if (status != ACCEL_OK)
    code = cli_fail(run, status);
  else if (cli_flag(run, OPT_JSON))
    code = cli_json_results(run, "accel.detect-objects/1", endpoint, found, found->n, found->count,
                            json_object);
  else
    print_objects(found, media);
  accel_detections_free(&found);
  return code;
}

int cmd_detect_objects(cli_run *run) {
  return cli_on_operands(run, "object-detection", detect_objects);
}

/* ---- segments ---- */

static void json_segment(cli_json *json, const void *found, uint32_t i, uint32_t k) {
  const accel_segment *s = &((const accel_segmentations *)found)->segment[i][k];
  cli_json_double(json, "score", s->score); /* NaN becomes null */
  cli_json_text(json, "label", s->label);
  cli_json_int(json, "id", s->id);
  cli_json_int(json, "label_id", s->label_id);
  cli_json_int(json, "pixels", (int64_t)s->pixels);
  cli_json_double(json, "area", s->area);
}

static void print_segments(const accel_segmentations *found, const accel_media *media) {
  cli_table table = {0};
  cli_table_row(&table, 5, (const char *[]){"area", "label", "id", "score", "picture"});
  for (uint32_t i = 0; i < found->n; ++i) {
    if (!found->count[i])
      cli_table_row(&table, 5, (const char *[]){"", "nothing", "", "", media[i].name});
    for (uint32_t k = 0; k < found->count[i]; ++k) {
      const accel_segment *s = &found->segment[i][k];
      char area[32], id[32], score[32] = "";
      snprintf(area, sizeof area, "%.2f%%", 100.0 * s->area);
      snprintf(id, sizeof id, "%lld", (long long)s->id);
      if (!isnan(s->score)) snprintf(score, sizeof score, "%.4f", s->score);
      cli_table_row(&table, 5, (const char *[]){area, s->label, id, score, k ? "" : media[i].name});
    }
  }
  cli_table_print(&table, "rlrrl");
}

/* --output: the colours alone; --draw: over the picture. */
static accel_status draw_segments(const cli_run *run, const accel_media *media,
                                  const accel_segmentations *found) {
  accel_status status = ACCEL_OK;
  char path[4096];
  for (uint32_t i = 0; i < found->n && status == ACCEL_OK; ++i) {
    if (run->value[OPT_OUTPUT])
      status = accel_draw_segments(
          NULL, found, i, cli_numbered(run->value[OPT_OUTPUT], i, found->n, path, sizeof path));
    if (run->value[OPT_DRAW] && status == ACCEL_OK)
      status = accel_draw_segments(
          &media[i], found, i, cli_numbered(run->value[OPT_DRAW], i, found->n, path, sizeof path));
  }
  return status;
}

static accel_status segments_of(const cli_run *run, accel_endpoint *endpoint,
                                const accel_media *media, uint32_t n, accel_segmentations **found) {
  accel_segment_params how = accel_segment_params_default();
  how.subtask = run->value[OPT_SUBTASK];
  how.threshold = cli_number(run, OPT_THRESHOLD, how.threshold);
  how.mask_threshold = cli_number(run, OPT_MASK_THRESHOLD, how.mask_threshold);
  how.overlap_threshold = cli_number(run, OPT_OVERLAP_THRESHOLD, how.overlap_threshold);
  return accel_segment_images(endpoint, media, n, &how, found);
}

static int segment(cli_run *run, accel_endpoint *endpoint, const accel_media *media, uint32_t n) {
  accel_segmentations *found = NULL;
  int code = 0;
  accel_status status = segments_of(run, endpoint, media, n, &found);
  if (status == ACCEL_OK) status = draw_segments(run, media, found);
  if (status != ACCEL_OK)
    code = cli_fail(run, status);
  else if (cli_flag(run, OPT_JSON))
    code = cli_json_results(run, "accel.segment/1", endpoint, found, found->n, found->count,
                            json_segment);
  else
    print_segments(found, media);
  accel_segmentations_free(&found);
  return code;
}

int cmd_segment(cli_run *run) { return cli_on_operands(run, "image-segmentation", segment); }

/* ---- depth ---- */

static int json_depths(cli_run *run, const accel_endpoint *endpoint, const accel_depths *found) {
  cli_json json;
  int code = cli_json_begin(run, "accel.depth-estimation/1", &json);
  if (code) return code;
  cli_json_placement(&json, accel_placement(endpoint));
  cli_json_open(&json, "results", '[');
  for (uint32_t i = 0; i < found->n; ++i) {
    cli_json_open(&json, NULL, '{');
    cli_json_int(&json, "height", found->height[i]);
    cli_json_int(&json, "width", found->width[i]);
    cli_json_float(&json, "min", found->least[i]);
    cli_json_float(&json, "max", found->most[i]);
    cli_json_close(&json, '}');
  }
  cli_json_close(&json, ']');
  return cli_json_end(run, &json);
}

static void print_depths(const accel_depths *found, const accel_media *media) {
  cli_table table = {0};
  cli_table_row(&table, 4, (const char *[]){"min", "max", "size", "picture"});
  for (uint32_t i = 0; i < found->n; ++i) {
    char least[32], most[32], size[64];
    snprintf(least, sizeof least, "%.4f", (double)found->least[i]);
    snprintf(most, sizeof most, "%.4f", (double)found->most[i]);
    snprintf(size, sizeof size, "%d x %d", found->width[i], found->height[i]);
    cli_table_row(&table, 4, (const char *[]){least, most, size, media[i].name});
  }
  cli_table_print(&table, "rrll");
}

static int estimate_depth(cli_run *run, accel_endpoint *endpoint, const accel_media *media,
                          uint32_t n) {
  accel_depths *found = NULL;
  const uint32_t bits = run->value[OPT_BITS] && !strcmp(run->value[OPT_BITS], "16") ? 16 : 8;
  char path[4096];
  int code = 0;
  accel_status status = accel_estimate_depth(endpoint, media, n, &found);
  for (uint32_t i = 0; run->value[OPT_OUTPUT] && i < n && status == ACCEL_OK; ++i)
    status = accel_draw_depth(found, i, bits,
                              cli_numbered(run->value[OPT_OUTPUT], i, n, path, sizeof path));
  if (status != ACCEL_OK)
    code = cli_fail(run, status);
  else if (cli_flag(run, OPT_JSON))
    code = json_depths(run, endpoint, found);
  else
    print_depths(found, media);
  accel_depths_free(&found);
  return code;
}

int cmd_depth_estimation(cli_run *run) {
  return cli_on_operands(run, "depth-estimation", estimate_depth);
}

/* ---- features ---- */

/* The elements as nested lists; returns those behind them. */
static const float *json_elements(cli_json *json, const accel_tensor *t, uint32_t dim,
                                  const float *values) {
  const int64_t n = t->dim[dim];
  if (dim + 1 == t->rank) {
    cli_json_floats(json, NULL, values, (uint64_t)n);
    return values + n;
  }
  cli_json_open(json, NULL, '[');
  for (int64_t i = 0; i < n; ++i) values = json_elements(json, t, dim + 1, values);
  cli_json_close(json, ']');
  return values;
}

static void json_features(cli_json *json, const void *found, uint32_t i) {
  const accel_tensor *t = &((const accel_tensors *)found)->item[i];
  json_elements(json, t, 0, t->data);
}

static int print_json_features(cli_run *run, const accel_endpoint *endpoint,
                               const accel_tensors *found) {
  cli_json json;
  const int code = cli_json_begin(run, "accel.image-features/1", &json);
  if (code) return code;
  cli_json_placement(&json, accel_placement(endpoint));
  cli_json_open(&json, "results", '[');
  for (uint32_t i = 0; i < found->n; ++i) json_features(&json, found, i);
  cli_json_close(&json, ']');
  return cli_json_end(run, &json);
}

static void print_features(const accel_tensors *found, const accel_media *media) {
  cli_table table = {0};
  cli_table_row(&table, 3, (const char *[]){"shape", "begins with", "picture"});
  for (uint32_t i = 0; i < found->n; ++i) {
    const accel_tensor *t = &found->item[i];
    char shape[128] = "", head[160];
    size_t at = 0;
    for (uint32_t d = 0; d < t->rank; ++d)
      at += (size_t)snprintf(shape + at, sizeof shape - at, "%s%lld", d ? " x " : "",
                             (long long)t->dim[d]);
    const uint32_t n = t->rank ? (uint32_t)t->dim[t->rank - 1] : 1;
    cli_table_row(
        &table, 3,
        (const char *[]){shape, cli_vector_head(t->data, n, head, sizeof head), media[i].name});
  }
  cli_table_print(&table, "lll");
}

/* Of several pictures the names are numbered from 1. */
static accel_status write_features(const char *path, const accel_tensors *found) {
  accel_tensor *item = calloc((size_t)found->n + 1, sizeof *item);
  char(*name)[64] = calloc((size_t)found->n + 1, sizeof *name);
  accel_status status = ACCEL_ERROR_OUT_OF_MEMORY;
  for (uint32_t i = 0; item && name && i < found->n; ++i) {
    item[i] = found->item[i];
    if (found->n > 1) {
      snprintf(name[i], sizeof *name, "%.40s.%u", item[i].name, i + 1);
      item[i].name = name[i];
    }
  }
  if (item && name) status = accel_tensors_write(path, &(accel_tensors){found->n, item});
  free(name);
  free(item);
  return status;
}

static int image_features(cli_run *run, accel_endpoint *endpoint, const accel_media *media,
                          uint32_t n) {
  accel_tensors *found = NULL;
  int code = 0;
  accel_status status =
      accel_extract_image_features(endpoint, media, n, cli_flag(run, OPT_POOL), &found);
  if (status == ACCEL_OK && run->value[OPT_OUTPUT])
    status = write_features(run->value[OPT_OUTPUT], found);
  if (status != ACCEL_OK)
    code = cli_fail(run, status);
  else if (cli_flag(run, OPT_JSON))
    code = print_json_features(run, endpoint, found);
  else
    print_features(found, media);
  accel_tensors_free(&found);
  return code;
}

int cmd_image_features(cli_run *run) {
  return cli_on_operands(run, "image-feature-extraction", image_features);
}

/* ---- labels of one's own ---- */

static accel_status labels_for(const cli_run *run, accel_endpoint *endpoint,
                               const accel_media *media, uint32_t n, bool sounds,
                               accel_classifications **found) {
  uint32_t n_labels;
  char **labels;
  if (!cli_split(run->value[OPT_LABELS], &labels, &n_labels)) return ACCEL_ERROR_OUT_OF_MEMORY;
  const char *hypothesis = run->value[OPT_HYPOTHESIS];
  const accel_status status =
      sounds ? accel_zero_shot_audio(endpoint, media, n, (const char *const *)labels, n_labels,
                                     hypothesis, 0, found)
             : accel_zero_shot_image(endpoint, media, n, (const char *const *)labels, n_labels,
                                     hypothesis, found);
  free(labels);
  return status;
}

static int choose_labels(cli_run *run, accel_endpoint *endpoint, const accel_media *media,
                         uint32_t n, bool sounds) {
  accel_classifications *found = NULL;
  const accel_status status = labels_for(run, endpoint, media, n, sounds, &found);
  int code = status == ACCEL_OK
                 ? cli_print_labels(run, endpoint, found, (const char *const *)run->args + 1,
                                    sounds ? "sound" : "picture",
                                    sounds ? "accel.zero-shot-audio/1" : "accel.zero-shot-image/1")
                 : cli_fail(run, status);
  accel_classifications_free(&found);
  return code;
}

static int choose_for_pictures(cli_run *run, accel_endpoint *endpoint, const accel_media *media,
                               uint32_t n) {
  return choose_labels(run, endpoint, media, n, false);
}

static int choose_for_sounds(cli_run *run, accel_endpoint *endpoint, const accel_media *media,
                             uint32_t n) {
  return choose_labels(run, endpoint, media, n, true);
}

int cli_begin_labels(cli_run *run, void **state) {
  (void)state;
  const char *labels = run->value[OPT_LABELS];
  return labels && strspn(labels, ",") != strlen(labels)
             ? 0
             : cli_usage(run, "no labels: give --labels \"one,two,three\"");
}

int cmd_zero_shot_image(cli_run *run) {
  const int code = cli_begin_labels(run, NULL);
  return code ? code : cli_on_operands(run, "zero-shot-image-classification", choose_for_pictures);
}

int cmd_zero_shot_audio(cli_run *run) {
  const int code = cli_begin_labels(run, NULL);
  return code ? code : cli_on_operands(run, "zero-shot-audio-classification", choose_for_sounds);
}

/* ---- rows ---- */

static accel_status call_objects(cli_run *run, void *state, accel_endpoint *endpoint,
                                 const cli_rows *rows, cli_found *found) {
  (void)state;
  accel_media *media = cli_row_media(rows);
  if (!media) return ACCEL_ERROR_OUT_OF_MEMORY;
  const accel_status status = objects_in(run, endpoint, media, rows->n, &found->objects);
  free(media);
  return status;
}

static void print_row_objects(cli_json *json, const void *found, uint32_t i) {
  cli_json_row(json, NULL, found, i, ((const accel_detections *)found)->count, json_object);
}

static void release_objects(void *found) {
  accel_detections *detections = found;
  accel_detections_free(&detections);
}

static accel_status call_segments(cli_run *run, void *state, accel_endpoint *endpoint,
                                  const cli_rows *rows, cli_found *found) {
  (void)state;
  accel_media *media = cli_row_media(rows);
  if (!media) return ACCEL_ERROR_OUT_OF_MEMORY;
  const accel_status status = segments_of(run, endpoint, media, rows->n, &found->segments);
  free(media);
  return status;
}

static void print_row_segments(cli_json *json, const void *found, uint32_t i) {
  cli_json_row(json, NULL, found, i, ((const accel_segmentations *)found)->count, json_segment);
}

static void release_segments(void *found) {
  accel_segmentations *segments = found;
  accel_segmentations_free(&segments);
}

static accel_status call_features(cli_run *run, void *state, accel_endpoint *endpoint,
                                  const cli_rows *rows, cli_found *found) {
  (void)state;
  accel_media *media = cli_row_media(rows);
  if (!media) return ACCEL_ERROR_OUT_OF_MEMORY;
  const accel_status status = accel_extract_image_features(
      endpoint, media, rows->n, cli_flag(run, OPT_POOL), &found->tensors);
  free(media);
  return status;
}

static void release_features(void *found) {
  accel_tensors *tensors = found;
  accel_tensors_free(&tensors);
}

static accel_status call_choice(cli_run *run, accel_endpoint *endpoint, const cli_rows *rows,
                                bool sounds, cli_found *found) {
  accel_media *media = cli_row_media(rows);
  if (!media) return ACCEL_ERROR_OUT_OF_MEMORY;
  const accel_status status = labels_for(run, endpoint, media, rows->n, sounds, &found->labels);
  free(media);
  return status;
}

static accel_status call_labels(cli_run *run, void *state, accel_endpoint *endpoint,
                                const cli_rows *rows, cli_found *found) {
  (void)state;
  return call_choice(run, endpoint, rows, false, found);
}

static accel_status call_sound_labels(cli_run *run, void *state, accel_endpoint *endpoint,
                                      const cli_rows *rows, cli_found *found) {
  (void)state;
  return call_choice(run, endpoint, rows, true, found);
}

const cli_task cli_task_detect_objects = {.name = "detect-objects",
                                          .command = "detect-objects",
                                          .model_task = "object-detection",
                                          .field = {"image"},
                                          .window = 16,
                                          .shard = 512,
                                          .call = call_objects,
                                          .print = print_row_objects,
                                          .release = release_objects};
const cli_task cli_task_segment = {.name = "segment",
                                   .command = "segment",
                                   .model_task = "image-segmentation",
                                   .field = {"image"},
                                   .window = 16,
                                   .shard = 512,
                                   .call = call_segments,
                                   .print = print_row_segments,
                                   .release = release_segments};
const cli_task cli_task_image_features = {.name = "image-features",
                                          .command = "image-features",
                                          .model_task = "image-feature-extraction",
                                          .field = {"image"},
                                          .window = 16,
                                          .shard = 512,
                                          .call = call_features,
                                          .print = json_features,
                                          .release = release_features};
const cli_task cli_task_zero_shot_image = {.name = "zero-shot-image",
                                           .command = "zero-shot-image",
                                           .model_task = "zero-shot-image-classification",
                                           .field = {"image"},
                                           .window = 32,
                                           .shard = 1024,
                                           .begin = cli_begin_labels,
                                           .call = call_labels,
                                           .print = cli_json_labels,
                                           .release = cli_free_labels};
const cli_task cli_task_zero_shot_audio = {.name = "zero-shot-audio",
                                           .command = "zero-shot-audio",
                                           .model_task = "zero-shot-audio-classification",
                                           .field = {"audio"},
                                           .window = 16,
                                           .shard = 256,
                                           .begin = cli_begin_labels,
                                           .call = call_sound_labels,
                                           .print = cli_json_labels,
                                           .release = cli_free_labels};
