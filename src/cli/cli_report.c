/* cli_report.c - everything that goes to stderr, and what is known about the terminal. */
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "cli/cli.h"

bool cli_colour(FILE *to) {
  const char *none = getenv("NO_COLOR"), *term = getenv("TERM");
  return !(none && *none) && term && strcmp(term, "dumb") != 0 && isatty(fileno(to));
}

int cli_columns(FILE *to) {
  struct winsize size;
  if (isatty(fileno(to)) && ioctl(fileno(to), TIOCGWINSZ, &size) == 0 && size.ws_col >= 40)
    return size.ws_col;
  return 100;
}

static void print_error(const cli_run *run, const char *message) {
  cli_progress_end();
  bool colour = cli_colour(stderr);
  fprintf(stderr, "accel%s%s: %serror:%s %s\n", run->command ? " " : "",
          run->command ? run->command->name : "", colour ? "\033[1;31m" : "",
          colour ? "\033[0m" : "", message);
}

int cli_usage(const cli_run *run, const char *format, ...) {
  char message[1024];
  va_list args;
  va_start(args, format);
  vsnprintf(message, sizeof message, format, args);
  va_end(args);
  print_error(run, message);
  fprintf(stderr, "  try: accel help%s%s\n", run->command ? " " : "",
          run->command ? run->command->name : "");
  return 2;
}

int cli_fail(const cli_run *run, accel_status status) {
  const char *error = accel_last_error(), *remedy = accel_last_remedy();
  print_error(run, *error ? error : accel_status_text(status));
  if (*remedy) fprintf(stderr, "  %s\n", remedy);
  return accel_status_exit_code(status);
}

int cli_error(const cli_run *run, accel_status status, const char *format, ...) {
  char message[2048];
  va_list args;
  va_start(args, format);
  vsnprintf(message, sizeof message, format, args);
  va_end(args);
  print_error(run, message);
  return accel_status_exit_code(status);
}

void cli_note(const cli_run *run, const char *format, ...) {
  if (cli_flag(run, OPT_QUIET)) return;
  cli_progress_end();
  va_list args;
  va_start(args, format);
  fputs("accel: ", stderr);
  vfprintf(stderr, format, args);
  fputc('\n', stderr);
  va_end(args);
}
