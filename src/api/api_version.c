/* api_version.c - what this build is. */
#include "accel/accel.h"

const char *accel_version(void) { return ACCEL_VERSION_STRING; }
