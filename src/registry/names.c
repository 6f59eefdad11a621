/* names.c - hardware, precision and task names by their aliases: look-ups in the generated
 * tables. */
#include <string.h>

#include "registry/registry_internal.h"

static int find(const accel__registry_alias *list, uint32_t n, const char *alias) {
  for (uint32_t i = 0; alias && i < n; i++) {
    if (accel__equal_ignoring_case(list[i].alias, alias)) return list[i].index;
  }
  return -1;
}

int accel__registry_hardware_index(const char *alias) {
  return find(accel__hardware_aliases, accel__hardware_alias_count, alias);
}

int accel__registry_precision_index(const char *alias) {
  return find(accel__precision_aliases, accel__precision_alias_count, alias);
}

const char *accel__registry_hardware_name(const char *alias) {
  int i = accel__registry_hardware_index(alias);
  return i < 0 ? NULL : accel__hardware_names[i];
}

const char *accel__registry_precision_name(const char *alias) {
  int i = accel__registry_precision_index(alias);
  return i < 0 ? NULL : accel__precision_names[i];
}

const char *accel__registry_task_name(const char *alias) {
  int i = find(accel__task_aliases, accel__task_alias_count, alias);
  return i < 0 ? NULL : accel__task_names[i];
}
