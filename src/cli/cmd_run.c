/* cmd_run.c - accel run: raw tensors through a model, and a look at its program. */
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "cli/cli_print.h"

static const char *dtype_name(accel_dtype dtype) {
  switch (dtype) {
    case ACCEL_F32:
      return "float32";
    case ACCEL_F16:
      return "float16";
    case ACCEL_BF16:
      return "bfloat16";
    case ACCEL_F64:
      return "float64";
    case ACCEL_I64:
      return "int64";
    case ACCEL_I32:
      return "int32";
    case ACCEL_I8:
      return "int8";
    case ACCEL_U8:
      return "uint8";
    case ACCEL_BOOL:
      return "bool";
  }
  return "?";
}

static uint64_t element_count(const accel_tensor *t) {
  uint64_t n = 1;
  for (uint32_t d = 0; d < t->rank; ++d) n *= (uint64_t)t->dim[d];
  return n;
}

/* Element i as a number; false for dtypes that are only named here (float16, bfloat16). */
static bool element(const accel_tensor *t, uint64_t i, double *value) {
  switch (t->dtype) {
    case ACCEL_F32:
      *value = (double)((const float *)t->data)[i];
      return true;
    case ACCEL_F64:
      *value = ((const double *)t->data)[i];
      return true;
    case ACCEL_I64:
      *value = (double)((const int64_t *)t->data)[i];
      return true;
    case ACCEL_I32:
      *value = ((const int32_t *)t->data)[i];
      return true;
    case ACCEL_I8:
      *value = ((const int8_t *)t->data)[i];
      return true;
    case ACCEL_U8:
    case ACCEL_BOOL:
      *value = ((const uint8_t *)t->data)[i];
      return true;
    default:
      return false;
  }
}

static const char *shape_text(const accel_tensor *t, char *into, size_t size) {
  size_t at = (size_t)snprintf(into, size, "[");
  for (uint32_t d = 0; d < t->rank && at < size; ++d)
    at += (size_t)snprintf(into + at, size - at, "%s%" PRId64, d ? ", " : "", t->dim[d]);
  if (at < size) snprintf(into + at, size - at, "]");
  return into;
}

static void print_outputs(const accel_tensors *outputs) {
  cli_table table = {0};
  cli_table_row(&table, 7,
                (const char *[]){"output", "dtype", "shape", "min", "max", "mean", "first values"});
  for (uint32_t k = 0; k < outputs->n; ++k) {
    const accel_tensor *t = &outputs->item[k];
    double least = INFINITY, most = -INFINITY, sum = 0, value = 0;
    uint64_t n = element_count(t);
    char head[160] = "";
    size_t at = 0;
    for (uint64_t i = 0; i < n && element(t, i, &value); ++i) {
      least = fmin(least, value);
      most = fmax(most, value);
      sum += value;
      if (i < 4) at += (size_t)snprintf(head + at, sizeof head - at, "%s%.5g", i ? " " : "", value);
    }
    char shape[160], numbers[3][32];
    snprintf(numbers[0], sizeof numbers[0], "%.5g", least);
    snprintf(numbers[1], sizeof numbers[1], "%.5g", most);
    snprintf(numbers[2], sizeof numbers[2], "%.5g", n ? sum / (double)n : 0.0);
    cli_table_row(
        &table, 7,
        (const char *[]){t->name, dtype_name(t->dtype), shape_text(t, shape, sizeof shape),
                         numbers[0], numbers[1], numbers[2], head});
  }
  cli_table_print(&table, "lllrrrl");
}

/* "data" is flat and row-major; it is left out when the tensors went to a file. */
static void json_tensor(cli_json *json, const accel_tensor *t, bool with_data) {
  double value;
  cli_json_open(json, NULL, '{');
  cli_json_text(json, "name", t->name);
  cli_json_text(json, "dtype", dtype_name(t->dtype));
  cli_json_open(json, "shape", '[');
  for (uint32_t d = 0; d < t->rank; ++d) cli_json_int(json, NULL, t->dim[d]);
  cli_json_close(json, ']');
  uint64_t n = with_data ? element_count(t) : 0;
  if (with_data && t->dtype == ACCEL_F32) {
    cli_json_floats(json, "data", t->data, n);
  } else if (with_data) {
    cli_json_open(json, "data", '[');
    for (uint64_t i = 0; i < n && element(t, i, &value); ++i) {
      if (t->dtype == ACCEL_I64)
        cli_json_int(json, NULL, ((const int64_t *)t->data)[i]);
      else
        cli_json_double(json, NULL, value);
    }
    cli_json_close(json, ']');
  }
  cli_json_close(json, '}');
}

static int print_json(cli_run *run, accel_endpoint *endpoint, const accel_tensors *outputs) {
  cli_json json;
  int code = cli_json_begin(run, "accel.run/1", &json);
  if (code) return code;
  cli_json_placement(&json, accel_placement(endpoint));
  cli_json_text(&json, "output", run->value[OPT_OUTPUT]);
  cli_json_open(&json, "outputs", '[');
  for (uint32_t i = 0; i < outputs->n; ++i)
    json_tensor(&json, &outputs->item[i], !run->value[OPT_OUTPUT]);
  cli_json_close(&json, ']');
  return cli_json_end(run, &json);
}

static int dump_program(cli_run *run, accel_endpoint *endpoint) {
  const char *format = run->value[OPT_DUMP_PROGRAM];
  char *text;
  accel_status status =
      accel_program_dump(endpoint, strcmp(format, "1") == 0 ? "text" : format, &text);
  if (status != ACCEL_OK) return cli_fail(run, status);
  fputs(text, stdout);
  accel_string_free(&text);
  return 0;
}

static accel_status run_model(cli_run *run, accel_endpoint *endpoint, const accel_tensors *inputs,
                              accel_tensors **outputs) {
  char **names = NULL;
  uint32_t n = 0;
  if (!run->value[OPT_OUTPUTS]) return accel_run(endpoint, inputs, outputs);
  if (!cli_split(run->value[OPT_OUTPUTS], &names, &n)) return ACCEL_ERROR_OUT_OF_MEMORY;
  accel_status status = accel_run_named(endpoint, inputs, (const char *const *)names, n, outputs);
  free(names);
  return status;
}

static int run_tensors(cli_run *run, accel_endpoint *endpoint, const accel_tensors *inputs) {
  accel_tensors *outputs;
  accel_status status = run_model(run, endpoint, inputs, &outputs);
  if (status != ACCEL_OK) return cli_fail(run, status);
  if (run->value[OPT_OUTPUT]) status = accel_tensors_write(run->value[OPT_OUTPUT], outputs);
  int code = status == ACCEL_OK ? 0 : cli_fail(run, status);
  if (!code && cli_flag(run, OPT_JSON))
    code = print_json(run, endpoint, outputs);
  else if (!code)
    print_outputs(outputs);
  accel_tensors_free(&outputs);
  return code;
}

int cmd_run(cli_run *run) {
  accel_endpoint *endpoint = NULL;
  accel_tensors *inputs = NULL;
  bool dumps = cli_flag(run, OPT_DUMP_PROGRAM);
  if (!dumps && !run->value[OPT_INPUT])
    return cli_usage(run, "no tensors: give --input FILE.safetensors (or --dump-program)");
  int code = cli_context(run);
  if (!code && !dumps) {
    accel_status status = accel_tensors_read(run->value[OPT_INPUT], &inputs);
    if (status != ACCEL_OK) code = cli_fail(run, status);
  }
  if (!code) code = cli_open(run, run->args[0], NULL, &endpoint);
  if (!code) code = dumps ? dump_program(run, endpoint) : run_tensors(run, endpoint, inputs);
  accel_tensors_free(&inputs);
  accel_cleanup(&endpoint);
  return code;
}
