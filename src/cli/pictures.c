/* pictures.c - accel detect-objects, segment and zero-shot-image. */
#include <stdlib.h>

#include "cli/print.h"

static accel_media *operands(const cli_run *run, uint32_t *n) {
  *n = (uint32_t)run->n_args - 1;
  return cli_media((const char *const *)run->args + 1, *n);
}

/* ---- objects: boxes in whole pixels, as transformers' pipeline prints them ---- */

static int json_objects(cli_run *run, const accel_endpoint *endpoint, const accel_detections *found) {
  cli_json json;
  int code = cli_json_begin(run, "accel.detect-objects/1", &json);
  if (code) return code;
  cli_json_placement(&json, accel_placement(endpoint));
  cli_json_open(&json, "results", '[');
  for (uint32_t i = 0; i < found->n; ++i) {
    cli_json_open(&json, NULL, '[');
    for (uint32_t k = 0; k < found->count[i]; ++k) {
      const accel_detection *o = &found->object[i][k];
      cli_json_open(&json, NULL, '{');
      cli_json_double(&json, "score", o->score);
      cli_json_text(&json, "label", o->label);
      cli_json_open(&json, "box", '{');
      cli_json_int(&json, "xmin", (int64_t)o->xmin);
      cli_json_int(&json, "ymin", (int64_t)o->ymin);
      cli_json_int(&json, "xmax", (int64_t)o->xmax);
      cli_json_int(&json, "ymax", (int64_t)o->ymax);
      cli_json_close(&json, '}');
      cli_json_close(&json, '}');
    }
    cli_json_close(&json, ']');
  }
  cli_json_close(&json, ']');
  return cli_json_end(run, &json);
}

static void print_objects(const accel_detections *found, const accel_media *media) {
  cli_table table = {0};
  cli_table_row(&table, 4, (const char *[]){"score", "label", "box", "picture"});
  for (uint32_t i = 0; i < found->n; ++i) {
    if (!found->count[i]) cli_table_row(&table, 4, (const char *[]){"", "nothing", "", media[i].name});
    for (uint32_t k = 0; k < found->count[i]; ++k) {
      const accel_detection *o = &found->object[i][k];
      char score[32], box[96];
      snprintf(score, sizeof score, "%.4f", o->score);
      snprintf(box, sizeof box, "%d,%d - %d,%d", (int)o->xmin, (int)o->ymin, (int)o->xmax, (int)o->ymax);
      cli_table_row(&table, 4, (const char *[]){score, o->label, box, k ? "" : media[i].name});
    }
  }
  cli_table_print(&table, "rlll");
}

static accel_status draw_objects(const cli_run *run, const accel_media *media, const accel_detections *found) {
  accel_status status = ACCEL_OK;
  char path[4096];
  for (uint32_t i = 0; run->value[OPT_DRAW] && i < found->n && status == ACCEL_OK; ++i)
    status = accel_draw_objects(&media[i], found->object[i], found->count[i],
                                cli_numbered(run->value[OPT_DRAW], i, found->n, path, sizeof path));
  return status;
}

int cmd_detect_objects(cli_run *run) {
  uint32_t n;
  accel_endpoint *endpoint = NULL;
  accel_detections *found = NULL;
  accel_detect_params how = accel_detect_params_default();
  accel_media *media = operands(run, &n);
  if (!media) return cli_error(run, ACCEL_ERROR_OUT_OF_MEMORY, "out of memory");
  how.threshold = cli_number(run, OPT_THRESHOLD, how.threshold);
  int code = cli_open(run, run->args[0], "object-detection", &endpoint);
  if (!code) {
    accel_status status = accel_detect_objects(endpoint, media, n, &how, &found);
    if (status == ACCEL_OK) status = draw_objects(run, media, found);
    if (status != ACCEL_OK)
      code = cli_fail(run, status);
    else if (cli_flag(run, OPT_JSON))
      code = json_objects(run, endpoint, found);
    else
      print_objects(found, media);
  }
  accel_detections_free(&found);
  accel_cleanup(&endpoint);
  free(media);
  return code;
}

/* ---- segments ---- */

static int json_segments(cli_run *run, const accel_endpoint *endpoint, const accel_segmentations *found) {
  cli_json json;
  int code = cli_json_begin(run, "accel.segment/1", &json);
  if (code) return code;
  cli_json_placement(&json, accel_placement(endpoint));
  cli_json_open(&json, "results", '[');
  for (uint32_t i = 0; i < found->n; ++i) {
    cli_json_open(&json, NULL, '[');
    for (uint32_t k = 0; k < found->count[i]; ++k) {
      const accel_segment *s = &found->segment[i][k];
      cli_json_open(&json, NULL, '{');
      cli_json_double(&json, "score", s->score); /* NaN becomes null */
      cli_json_text(&json, "label", s->label);
      cli_json_int(&json, "id", s->id);
      cli_json_int(&json, "pixels", (int64_t)s->pixels);
      cli_json_double(&json, "area", s->area);
      cli_json_close(&json, '}');
    }
    cli_json_close(&json, ']');
  }
  cli_json_close(&json, ']');
  return cli_json_end(run, &json);
}

static void print_segments(const accel_segmentations *found, const accel_media *media) {
  cli_table table = {0};
  cli_table_row(&table, 4, (const char *[]){"area", "label", "id", "picture"});
  for (uint32_t i = 0; i < found->n; ++i)
    for (uint32_t k = 0; k < found->count[i]; ++k) {
      const accel_segment *s = &found->segment[i][k];
      char area[32], id[32];
      snprintf(area, sizeof area, "%.2f%%", 100.0 * s->area);
      snprintf(id, sizeof id, "%lld", (long long)s->id);
      cli_table_row(&table, 4, (const char *[]){area, s->label, id, k ? "" : media[i].name});
    }
  cli_table_print(&table, "rlrl");
}

/* --output: the colours alone; --draw: over the picture. */
static accel_status draw_segments(const cli_run *run, const accel_media *media, const accel_segmentations *found) {
  accel_status status = ACCEL_OK;
  char path[4096];
  for (uint32_t i = 0; i < found->n && status == ACCEL_OK; ++i) {
    if (run->value[OPT_OUTPUT])
      status = accel_draw_segments(NULL, found, i, cli_numbered(run->value[OPT_OUTPUT], i, found->n, path, sizeof path));
    if (run->value[OPT_DRAW] && status == ACCEL_OK)
      status = accel_draw_segments(&media[i], found, i, cli_numbered(run->value[OPT_DRAW], i, found->n, path, sizeof path));
  }
  return status;
}

int cmd_segment(cli_run *run) {
  uint32_t n;
  accel_endpoint *endpoint = NULL;
  accel_segmentations *found = NULL;
  accel_media *media = operands(run, &n);
  if (!media) return cli_error(run, ACCEL_ERROR_OUT_OF_MEMORY, "out of memory");
  int code = cli_open(run, run->args[0], "image-segmentation", &endpoint);
  if (!code) {
    accel_status status = accel_segment_images(endpoint, media, n, &found);
    if (status == ACCEL_OK) status = draw_segments(run, media, found);
    if (status != ACCEL_OK)
      code = cli_fail(run, status);
    else if (cli_flag(run, OPT_JSON))
      code = json_segments(run, endpoint, found);
    else
      print_segments(found, media);
  }
  accel_segmentations_free(&found);
  accel_cleanup(&endpoint);
  free(media);
  return code;
}

/* ---- labels of one's own ---- */

int cmd_zero_shot_image(cli_run *run) {
  uint32_t n, n_labels = 0;
  char **labels = NULL;
  accel_endpoint *endpoint = NULL;
  accel_classifications *found = NULL;
  accel_media *media = operands(run, &n);
  if (!media || (run->value[OPT_LABELS] && !cli_split(run->value[OPT_LABELS], &labels, &n_labels))) {
    free(media);
    return cli_error(run, ACCEL_ERROR_OUT_OF_MEMORY, "out of memory");
  }
  int code = n_labels ? cli_open(run, run->args[0], "zero-shot-image-classification", &endpoint)
                      : cli_usage(run, "no labels: give --labels \"one,two,three\"");
  if (!code) {
    accel_status status =
        accel_zero_shot_image(endpoint, media, n, (const char *const *)labels, n_labels, run->value[OPT_HYPOTHESIS], &found);
    cli_json json;
    if (status != ACCEL_OK) {
      code = cli_fail(run, status);
    } else if (!cli_flag(run, OPT_JSON)) {
      cli_print_labels(found, (const char *const *)run->args + 1, "picture");
    } else if (!(code = cli_json_begin(run, "accel.zero-shot-image/1", &json))) {
      cli_json_placement(&json, accel_placement(endpoint));
      cli_json_labels(&json, found);
      code = cli_json_end(run, &json);
    }
  }
  accel_classifications_free(&found);
  accel_cleanup(&endpoint);
  free(labels);
  free(media);
  return code;
}
