/* cli_goldens.h - the goldens below a directory. */
#ifndef ACCEL_CLI_GOLDENS_H
#define ACCEL_CLI_GOLDENS_H

#include <stdbool.h>
#include <stdint.h>

/* golden*.safetensors beside a config.json. */
typedef struct cli_golden {
  char *path, *directory; /* of the golden; of its model */
  char *model;            /* the model's directory below the one that was searched, or org/name */
  char *model_type;       /* of config.json; "" */
  char *architecture;     /* golden.BertModel.x.safetensors: BertModel; "": the model's own */
  const char *file;       /* in path */
  char hash[17], model_hash[17];
} cli_golden;
typedef struct cli_goldens {
  uint32_t n;
  cli_golden *item; /* in the order of their paths */
} cli_goldens;

/* false: *wrong is what could not be read (errno says why), or NULL without memory. */
bool cli_goldens_find(const char *directory, cli_goldens *out, const char **wrong);
void cli_goldens_free(cli_goldens *goldens);

#endif
