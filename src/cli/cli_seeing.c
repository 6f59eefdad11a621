/* cli_seeing.c - accel caption and vqa, and the pictures of accel generate: text about pictures. */
#include <stdio.h>
#include <stdlib.h>

#include "cli/cli_generation.h"
#include "cli/cli_print.h"

int cli_generate_images(cli_run *run, accel_endpoint *endpoint, cli_wishes *w, const char *schema,
                        const accel_image_prompt *prompts, uint32_t n) {
  accel_generations *found;
  accel_status status = accel_generate_images(endpoint, prompts, n, &w->params, &found);
  if (status != ACCEL_OK) {
    if (w->streamed) putchar('\n');
    return cli_fail(run, status);
  }
  int code = cli_generations_print(run, endpoint, w, schema, found);
  accel_generations_free(&found);
  return code;
}

/* ---- regions ---- */

static const char *outline_key(const accel_region *r) {
  return r->kind == ACCEL_REGION_BOX ? "box" : r->kind == ACCEL_REGION_QUAD ? "quad" : "polygons";
}

static void json_region(cli_json *json, const accel_region *r) {
  cli_json_open(json, NULL, '{');
  cli_json_text(json, "label", r->label);
  const bool several = r->kind == ACCEL_REGION_POLYGON;
  if (several) cli_json_open(json, outline_key(r), '[');
  for (uint32_t i = 0; i < r->n; ++i) {
    cli_json_open(json, several ? NULL : outline_key(r), '[');
    for (uint32_t k = 0; k < r->count[i]; ++k) cli_json_int(json, NULL, r->outline[i][k]);
    cli_json_close(json, ']');
  }
  if (several) cli_json_close(json, ']');
  cli_json_close(json, '}');
}

static int print_json_regions(cli_run *run, accel_endpoint *endpoint,
                              const accel_region_answers *found) {
  cli_json json;
  const int code = cli_json_begin(run, "accel.regions/1", &json);
  if (code) return code;
  cli_json_placement(&json, accel_placement(endpoint));
  cli_json_open(&json, "results", '[');
  for (uint32_t i = 0; i < found->n; ++i) {
    const accel_region_answer *a = &found->item[i];
    cli_json_open(&json, NULL, '{');
    cli_json_int(&json, "prompt", a->prompt);
    cli_json_text(&json, "text", a->text);
    cli_json_open(&json, "regions", '[');
    for (uint32_t k = 0; k < a->n; ++k) json_region(&json, &a->region[k]);
    cli_json_close(&json, ']');
    cli_json_close(&json, '}');
  }
  cli_json_close(&json, ']');
  return cli_json_end(run, &json);
}

/* A line for each region: its words and the numbers of its outlines; else the text. */
static int print_regions(cli_run *run, const accel_region_answers *found) {
  for (uint32_t i = 0; i < found->n; ++i) {
    const accel_region_answer *a = &found->item[i];
    if (!a->n) puts(a->text);
    for (uint32_t k = 0; k < a->n; ++k) {
      const accel_region *r = &a->region[k];
      fputs(r->label, stdout);
      for (uint32_t o = 0; o < r->n; ++o)
        for (uint32_t c = 0; c < r->count[o]; ++c)
          printf("%s%d", c ? "," : "\t", (int)r->outline[o][c]);
      putchar('\n');
    }
  }
  return cli_flush(run);
}

static int generate_regions(cli_run *run, accel_endpoint *endpoint, const cli_wishes *w,
                            const accel_image_prompt *prompts, uint32_t n) {
  accel_region_answers *found = NULL;
  const accel_status status = accel_generate_regions(endpoint, prompts, n, &w->params, &found);
  const int code = status != ACCEL_OK        ? cli_fail(run, status)
                   : cli_flag(run, OPT_JSON) ? print_json_regions(run, endpoint, found)
                                             : print_regions(run, found);
  accel_region_answers_free(&found);
  return code;
}

/* Prompts, each with its pictures, to the model of the first operand. */
static int answer(cli_run *run, const char *schema, const accel_image_prompt *prompts, uint32_t n,
                  bool stream) {
  cli_wishes w;
  accel_endpoint *endpoint = NULL;
  int code = cli_wishes_read(run, &w);
  if (!code && stream) code = cli_wishes_stream(run, &w, n);
  if (!code) code = cli_open(run, run->args[0], NULL, &endpoint);
  if (!code)
    code = accel_names_regions(endpoint)
               ? generate_regions(run, endpoint, &w, prompts, n)
               : cli_generate_images(run, endpoint, &w, schema, prompts, n);
  accel_cleanup(&endpoint);
  cli_wishes_free(&w);
  return code;
}

int cmd_caption(cli_run *run) {
  const uint32_t n = (uint32_t)run->n_args - 1;
  accel_media *media = cli_media((const char *const *)run->args + 1, n);
  accel_image_prompt *prompts = calloc(n, sizeof *prompts);
  int code = media && prompts ? 0 : cli_error(run, ACCEL_ERROR_OUT_OF_MEMORY, "out of memory");
  for (uint32_t i = 0; !code && i < n; ++i)
    prompts[i] = (accel_image_prompt){ACCEL_PROMPT_QUESTION, run->value[OPT_PROMPT], &media[i], 1};
  if (!code) code = answer(run, "accel.caption/1", prompts, n, false);
  free(prompts);
  free(media);
  return code;
}

int cmd_vqa(cli_run *run) {
  uint32_t n;
  const char **files = cli_values(run, OPT_IMAGE, &n);
  accel_media *media = cli_media(files, n);
  const accel_image_prompt prompt = {ACCEL_PROMPT_QUESTION, run->args[1], media, n};
  int code = !n       ? cli_usage(run, "no picture: give one with --image FILE")
             : !media ? cli_error(run, ACCEL_ERROR_OUT_OF_MEMORY, "out of memory")
                      : answer(run, "accel.vqa/1", &prompt, 1, true);
  free(media);
  free(files);
  return code;
}

/* ---- rows: a picture, and perhaps a question about it ---- */

static accel_status call(cli_run *run, void *state, accel_endpoint *endpoint, const cli_rows *rows,
                         cli_found *found) {
  const cli_wishes *w = state;
  accel_media *media = cli_row_media(rows);
  accel_image_prompt *prompts = calloc((size_t)rows->n + 1, sizeof *prompts);
  accel_status status = ACCEL_ERROR_OUT_OF_MEMORY;
  for (uint32_t i = 0; media && prompts && i < rows->n; ++i) {
    const char *question = rows->field[1] ? rows->field[1][i] : run->value[OPT_PROMPT];
    prompts[i] = (accel_image_prompt){ACCEL_PROMPT_QUESTION, question, &media[i], 1};
  }
  if (media && prompts)
    status = accel_generate_images(endpoint, prompts, rows->n, &w->params, &found->generations);
  free(prompts);
  free(media);
  return status;
}

const cli_task cli_task_caption = {.name = "caption",
                                   .command = "caption",
                                   .field = {"image"},
                                   .window = 16,
                                   .shard = 256,
                                   .call = call,
                                   CLI_TASK_GENERATES};
const cli_task cli_task_vqa = {.name = "vqa",
                               .command = "vqa",
                               .field = {"image", "question"},
                               .window = 16,
                               .shard = 256,
                               .call = call,
                               CLI_TASK_GENERATES};
