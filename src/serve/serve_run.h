/* serve_run.h - the server from its begin to its end. */
#ifndef ACCEL_SERVE_RUN_H
#define ACCEL_SERVE_RUN_H

#include "serve/serve_config.h"

/* Serves until SIGTERM or SIGINT, and logs what happens.  Returns the exit code of the accel tool. */
int serve_run(const serve_config *config);

#endif
