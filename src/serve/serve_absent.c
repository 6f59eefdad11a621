/* serve_absent.c - in the place of the server where libmicrohttpd was not there at build. */
#include "serve/serve_log.h"
#include "serve/serve_run.h"

int serve_run(const serve_config *config) {
  (void)config;
  serve_log(ACCEL_LOG_ERROR,
            "this build has no server, because libmicrohttpd was missing: apt-get install "
            "libmicrohttpd-dev, then configure and build again");
  return accel_status_exit_code(ACCEL_ERROR_UNSUPPORTED);
}
