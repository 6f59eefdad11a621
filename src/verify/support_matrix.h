/* support_matrix.h - the support table: listed (registry), capable (plugins' `supports`), kept
 * apart. */
#ifndef ACCEL_VERIFY_SUPPORT_MATRIX_H
#define ACCEL_VERIFY_SUPPORT_MATRIX_H

#include "dispatch/context.h"

/* model NULL: every model of the registry.
 * {"schema":"accel.matrix/1","models":[{"model","listed":{hardware:{precision:bool}},
 * "capable":{device:{precision:{"answer":"native|emulated|no","why"}}} or
 * "capable":null,"why":...}]}; malloc'd. */
accel_status accel__matrix_json(accel *ctx, const char *model, char **json);

/* Every device that can be chosen here, the reference and other software devices by name
 * included. */
accel_status accel__all_devices(accel *ctx, accel__choice *out);

#endif
