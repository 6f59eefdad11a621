/* cmd_serve.c - accel serve: options to what the server is told. */
#include <stdlib.h>
#include <string.h>

#include "cli/cli.h"
#include "serve/serve_run.h"

static accel_status add_models(const cli_run *run, const accel_init_params *how,
                               serve_config *config) {
  uint32_t n;
  accel_status status = ACCEL_OK;
  const char **models = cli_values(run, OPT_MODEL, &n);
  for (uint32_t i = 0; models && !status && i < n; ++i)
    status = serve_config_add_model(config, models[i], how);
  free(models);
  return status;
}

static accel_status add_texts(const cli_run *run, cli_option_id id, serve_config *config,
                              serve_texts *texts) {
  uint32_t n;
  const char **values = cli_values(run, id, &n);
  const accel_status status = values ? serve_config_texts(config, values, n, texts) : ACCEL_OK;
  free(values);
  return status;
}

static void add_settings(const cli_run *run, serve_config *config) {
  cli_context_params(run, &config->context);
  if (run->value[OPT_HOST]) config->host = run->value[OPT_HOST];
  if (run->value[OPT_SOCKET]) config->socket = run->value[OPT_SOCKET];
  if (run->value[OPT_API_KEY_FILE]) config->api_key_file = run->value[OPT_API_KEY_FILE];
  cli_size(run, OPT_POOL_MEMORY, &config->pool_memory);
  config->port = (uint32_t)cli_count(run, OPT_PORT, config->port);
  config->max_requests = (uint32_t)cli_count(run, OPT_MAX_REQUESTS, config->max_requests);
  config->drain = (uint32_t)cli_count(run, OPT_DRAIN, config->drain);
  config->request_timeout = (uint32_t)cli_count(run, OPT_TIMEOUT, config->request_timeout);
}

int cmd_serve(cli_run *run) {
  serve_config config = serve_config_default();
  accel_init_params how;
  cli_init_params(run, NULL, &how);
  how.candidates = NULL; /* what accel choose --store has kept */
  accel_status status = ACCEL_OK;
  if (run->value[OPT_CONFIG]) status = serve_config_read(&config, run->value[OPT_CONFIG], &how);
  if (!status) status = add_models(run, &how, &config);
  if (!status) status = add_texts(run, OPT_ALLOW_HOST, &config, &config.allow_host);
  if (!status) status = add_texts(run, OPT_ALLOW_ORIGIN, &config, &config.allow_origin);
  add_settings(run, &config);
  const int code = status ? accel_status_exit_code(status) : serve_run(&config);
  serve_config_free(&config);
  return code;
}
