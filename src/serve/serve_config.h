/* serve_config.h - what `accel serve` is told: options and the file of --config. */
#ifndef ACCEL_SERVE_CONFIG_H
#define ACCEL_SERVE_CONFIG_H

#include <cjson/cJSON.h>
#include <stdint.h>

#include "accel/accel.h"

typedef struct serve_texts {
  const char *const *item; /* [n] */
  uint32_t n;
} serve_texts;

/* A LoRA adapter beside a model: requests that name the model "MODEL:NAME" run with it. */
typedef struct serve_adapter_config {
  const char *name;
  const char *path; /* as accel_adapter_load() takes it */
  double scale;     /* what its own scaling is multiplied by; 1: as it was trained */
} serve_adapter_config;

/* One model. */
typedef struct serve_model_config {
  const char *name; /* what clients call it; NULL: `path`, and the last part of it */
  const char *path;
  serve_adapter_config *adapter; /* [n_adapter] */
  uint32_t n_adapter;
  uint32_t pinned; /* with pool_memory: it stays loaded */
  accel_init_params how;
} serve_model_config;

typedef struct serve_config {
  const char *host;         /* where to listen; default "127.0.0.1" */
  uint32_t port;            /* default 8000; 0: any that is free, which the log tells */
  const char *socket;       /* path of a Unix socket, in the place of host and port; NULL: none */
  const char *api_key_file; /* a key a line; NULL: none is asked for */
  serve_texts allow_host;   /* names in Host beside localhost and addresses */
  serve_texts allow_origin; /* origins whose pages may call */
  uint32_t max_requests;    /* running at once */
  uint32_t max_waiting;     /* for one of these to end */
  uint32_t max_connections;
  uint32_t connections_per_address; /* of other machines */
  uint32_t header_timeout;  /* seconds for a head, of grace for a body, twice for an answer */
  uint32_t request_timeout; /* seconds for an answer; 0: no limit */
  uint32_t drain;           /* seconds for running requests once the server is to stop */
  uint64_t max_body, max_audio_body; /* bytes */
  uint64_t pool_memory;              /* bytes of all models together; 0: all stay loaded */
  uint32_t pool_wait;                /* seconds that a request waits for memory others use */
  accel_params context;              /* log, progress and cancel are set by the server */
  serve_model_config *model;         /* [n_model] */
  uint32_t n_model;
  /* private */
  cJSON *file; /* texts lie in it */
  void *owned[8];
  uint32_t n_owned;
} serve_config;

/* The defaults; `how` fills what models are loaded with where the file does not say otherwise. */
serve_config serve_config_default(void);
void serve_config_free(serve_config *config);
/* Reads a file of --config over `config`; models start from `how`.  Failures are logged with file,
 * field and remedy. */
accel_status serve_config_read(serve_config *config, const char *path,
                               const accel_init_params *how);
/* Adds a model as --model has it: "PATH" or "NAME=PATH". */
accel_status serve_config_add_model(serve_config *config, const char *text,
                                    const accel_init_params *how);
/* The list item[n] as `texts`, copied. */
accel_status serve_config_texts(serve_config *config, const char *const *item, uint32_t n,
                                serve_texts *texts);

#endif
