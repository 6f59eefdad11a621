/* cli_doctor.h - what the checks of accel doctor share.  A check is a function that says lines: a
 * state, what it is about, why, and the command that mends it (doctor.def). */
#ifndef ACCEL_CLI_DOCTOR_H
#define ACCEL_CLI_DOCTOR_H

#include <cjson/cJSON.h>

#include "cli/cli.h"

typedef enum doctor_state { DOCTOR_OK, DOCTOR_WARN, DOCTOR_FAIL } doctor_state;

typedef enum doctor_remedy {
#define REMEDY(id, ...) REMEDY_##id,
#include "cli/doctor.def"
  REMEDY_NONE
} doctor_remedy;

typedef struct doctor_line {
  const char *check; /* its name */
  doctor_state state;
  int code;                   /* exit code of a line that fails */
  char *what, *why, *command; /* command: NULL where none is known */
} doctor_line;

typedef struct doctor {
  cli_run *run;
  const char *model;     /* NULL: the machine alone */
  const char *precision; /* NULL: none was asked for, or auto */
  cJSON *machine;        /* accel_detect_json */
  accel_devices *devices;
  accel_device_info
      chosen;        /* of the device asked for, or what auto takes; name NULL: none serves */
  const char *check; /* the running one, its exit code */
  int code;
  doctor_line *line;
  uint32_t n;
  bool no_memory;
  bool no_model; /* nothing of it can be built, which was said: there is nothing to ask about */
} doctor;

/* Adds a line.  `command` as doctor_command makes it, or NULL; it is taken over. */
void doctor_say(doctor *d, doctor_state state, const char *what, char *command, const char *format,
                ...) __attribute__((format(printf, 5, 6)));
/* A remedy with its words put in, in single quotes where the shell asks for them; `second` may be
 * NULL.  NULL: REMEDY_NONE, or no memory. */
char *doctor_command(doctor_remedy remedy, const char *word, const char *second);
/* Is the device among those that were asked for?  Without --device: those that auto may take. */
bool doctor_considers(const doctor *d, const accel_device_info *device);
static inline const cJSON *doctor_member(const cJSON *object, const char *name) {
  return cJSON_GetObjectItemCaseSensitive(object, name);
}

typedef void doctor_check(doctor *d);
#define CHECK(function, ...) doctor_check doctor_##function;
#include "cli/doctor.def"

#endif
