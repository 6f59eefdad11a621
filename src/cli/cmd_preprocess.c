/* cmd_preprocess.c - accel preprocess: pictures and sounds to the tensors of a model. */
#include <inttypes.h>
#include <stdlib.h>

#include "cli/cli_print.h"

static const char *dtype_name(accel_dtype dtype) {
  return dtype == ACCEL_F32   ? "F32"
         : dtype == ACCEL_I64 ? "I64"
         : dtype == ACCEL_I32 ? "I32"
                              : "BOOL";
}

static const char *shape_text(const accel_tensor *t, char *into, size_t size) {
  size_t at = (size_t)snprintf(into, size, "[");
  for (uint32_t d = 0; d < t->rank && at < size; ++d)
    at += (size_t)snprintf(into + at, size - at, "%s%" PRId64, d ? ", " : "", t->dim[d]);
  if (at < size) snprintf(into + at, size - at, "]");
  return into;
}

static int print(cli_run *run, const accel_tensors *made) {
  char shape[128];
  if (cli_flag(run, OPT_JSON)) {
    cli_json json;
    int code = cli_json_begin(run, "accel.preprocess/1", &json);
    if (code) return code;
    cli_json_open(&json, "tensors", '[');
    for (uint32_t i = 0; i < made->n; ++i) {
      cli_json_open(&json, NULL, '{');
      cli_json_text(&json, "name", made->item[i].name);
      cli_json_text(&json, "dtype", dtype_name(made->item[i].dtype));
      cli_json_open(&json, "shape", '[');
      for (uint32_t d = 0; d < made->item[i].rank; ++d)
        cli_json_int(&json, NULL, made->item[i].dim[d]);
      cli_json_close(&json, ']');
      cli_json_close(&json, '}');
    }
    cli_json_close(&json, ']');
    return cli_json_end(run, &json);
  }
  cli_table table = {0};
  cli_table_row(&table, 3, (const char *[]){"tensor", "dtype", "shape"});
  for (uint32_t i = 0; i < made->n; ++i)
    cli_table_row(&table, 3,
                  (const char *[]){made->item[i].name, dtype_name(made->item[i].dtype),
                                   shape_text(&made->item[i], shape, sizeof shape)});
  cli_table_print(&table, "lll");
  return 0;
}

int cmd_preprocess(cli_run *run) {
  accel_preprocess_params how = accel_preprocess_params_default();
  accel_tensors *made = NULL;
  const char **images = cli_values(run, OPT_IMAGE, &how.n_images),
             **sounds = cli_values(run, OPT_AUDIO, &how.n_sounds);
  accel_media *pictures = cli_media(images, how.n_images), *heard = cli_media(sounds, how.n_sounds);
  how.images = pictures;
  how.sounds = heard;
  how.pillow = cli_flag(run, OPT_PILLOW);
  how.seed = (uint64_t)cli_count(run, OPT_SEED, 0);
  int code = !how.n_images && !how.n_sounds
                 ? cli_usage(run, "give pictures with --image FILE or sounds with --audio FILE")
                 : cli_context(run);
  if (!code) {
    accel_status status = accel_preprocess(run->ctx, run->args[0], &how, &made);
    if (status == ACCEL_OK && run->value[OPT_OUTPUT])
      status = accel_tensors_write(run->value[OPT_OUTPUT], made);
    code = status == ACCEL_OK ? print(run, made) : cli_fail(run, status);
  }
  accel_tensors_free(&made);
  free(pictures);
  free(heard);
  free(images);
  free(sounds);
  return code;
}
