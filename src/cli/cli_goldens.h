/* cli_goldens.h - the goldens below a directory. */
#ifndef ACCEL_CLI_GOLDENS_H
#define ACCEL_CLI_GOLDENS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* A golden beside its model. */
typedef struct cli_golden {
  char *path, *directory; /* of the golden; of its model */
  char *model;            /* the model's directory below the one that was searched, or org/name */
  char *model_type;       /* of config.json; "" */
  char *architecture;     /* golden.BertModel.x.safetensors: BertModel; else config.json's first */
  char *precision;        /* of a quantised checkpoint, which is run at this and fp32; "": at any */
  const char *file;       /* in path */
  char hash[17], model_hash[17];
} cli_golden;
typedef struct cli_goldens {
  uint32_t n;
  cli_golden *item; /* in the order of their paths */
} cli_goldens;

/* The goldens that lists below `directory` name, where there are lists: files *.list whose first
 * line is MODEL GOLDEN [ARCHITECTURE [PRECISION]], MODEL relative to the list's folder and GOLDEN,
 * named golden*.safetensors, to MODEL.  Without lists every golden*.safetensors beside a
 * config.json.  Each file counts once for an architecture.  false: `message` says why; free the
 * result in any case. */
bool cli_goldens_find(const char *directory, cli_goldens *out, char *message, size_t size);
/* model_type and the first of the architectures in a directory's config.json, "" where there is
 * none; both are to be freed.  false: no memory. */
bool cli_model_config(const char *directory, char **type, char **class_name);
/* cli_golden.model_hash: of what a model's outputs come from, its JSON files and its weights (of long
 * ones the first and last MiB).  false: a file cannot be read. */
bool cli_model_hash(const char *directory, char out[17]);
/* The second part of golden.BertModel.right.safetensors, where it begins with a capital, to be
 * freed; else `own`, the model's first class.  Takes `own`, which was allocated. */
char *cli_golden_class(const char *file, char *own);
void cli_goldens_free(cli_goldens *goldens);

#endif
