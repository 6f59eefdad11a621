/* cmd_template.c - accel template: messages into the text that a model's chat template makes of
 * them. */
#include <stdlib.h>
#include <string.h>

#include "cli/cli_print.h"

/* The bytes of an option's file; *text stays NULL when the option was not given. */
static int read_option(cli_run *run, cli_option_id id, char **text) {
  *text = NULL;
  return run->value[id] ? cli_file_read(run, run->value[id], text, NULL) : 0;
}

static int print(cli_run *run, const char *text) {
  cli_json json;
  if (!cli_flag(run, OPT_JSON)) return fputs(text, stdout) < 0 ? 1 : 0;
  int code = cli_json_begin(run, "accel.template/1", &json);
  if (code) return code;
  cli_json_text(&json, "text", text);
  return cli_json_end(run, &json);
}

static int render(cli_run *run, const char *messages, const accel_template_params *how) {
  accel_template *template = NULL;
  char *text = NULL;
  accel_status status = accel_template_open(run->ctx, run->args[0], &template);
  if (status == ACCEL_OK) status = accel_template_render(template, messages, how, &text);
  int code = status == ACCEL_OK ? print(run, text) : cli_fail(run, status);
  accel_string_free(&text);
  accel_template_close(&template);
  return code;
}

int cmd_template(cli_run *run) {
  char *messages = NULL, *tools = NULL, *documents = NULL;
  if (!cli_flag(run, OPT_MESSAGES))
    return cli_usage(run, "--messages is missing: a JSON file of messages, or -");
  accel_template_params how = accel_template_params_default();
  int code = read_option(run, OPT_MESSAGES, &messages);
  if (!code) code = read_option(run, OPT_TOOLS, &tools);
  if (!code) code = read_option(run, OPT_DOCUMENTS, &documents);
  if (!code) code = cli_context(run);
  how.tools = tools;
  how.documents = documents;
  how.variables = run->value[OPT_VARIABLES];
  how.name = run->value[OPT_TEMPLATE_NAME];
  how.add_generation_prompt = !cli_flag(run, OPT_NO_GENERATION_PROMPT);
  how.continue_final_message = cli_flag(run, OPT_CONTINUE);
  if (!code) code = render(run, messages, &how);
  free(messages);
  free(tools);
  free(documents);
  return code;
}
