/* detect.c - accel detect: what this machine can run on, and why not on the rest. */
#include <cjson/cJSON.h>
#include <string.h>

#include "cli/print.h"

static const char *yes_no(int32_t fact) { return fact > 0 ? "yes" : fact == 0 ? "no" : "-"; }

static void print_devices(const accel_devices *devices, bool verbose) {
  cli_table table = {0};
  cli_table_row(&table, 5, (const char *[]){"device", "usable", "memory", "what it is", "why not"});
  for (uint32_t i = 0; i < devices->n; ++i) {
    const accel_device_info *d = &devices->item[i];
    char memory[32] = "", what[256];
    if (d->memory_total) cli_bytes(d->memory_total, memory, sizeof memory);
    snprintf(what, sizeof what, "%s%s%s%s", d->description, *d->arch ? ", " : "", d->arch,
             strcmp(d->type, "software") == 0 ? " (software)" : "");
    cli_table_row(&table, 5, (const char *[]){d->name, d->usable ? "yes" : "no", memory, what, d->reason});
  }
  cli_table_print(&table, "llrll");
  for (uint32_t i = 0; i < devices->n; ++i) {
    const accel_device_info *d = &devices->item[i];
    if (i == 0) putchar('\n');
    if (!d->usable && *d->remedy) printf("%s: %s\n", d->name, d->remedy);
  }
  if (!verbose) return;
  putchar('\n');
  cli_table_row(&table, 8, (const char *[]){"device", "plugin", "compiled", "loaded", "found", "self-test", "driver", "id"});
  for (uint32_t i = 0; i < devices->n; ++i) {
    const accel_device_info *d = &devices->item[i];
    cli_table_row(&table, 8, (const char *[]){d->name, *d->plugin ? d->plugin : "-", yes_no(d->compiled), yes_no(d->loaded), yes_no(d->found),
                                              yes_no(d->tested), d->driver, d->id});
  }
  cli_table_print(&table, "llllllll");
}

/* Lists and objects of the capability dictionary that the table of devices does not show. */
static void print_value(const cJSON *value, int indent) {
  for (const cJSON *item = value->child; item; item = item->next) {
    printf("%*s%s%s", indent, "", item->string ? item->string : "-", item->string ? ":" : "");
    if (item->child) {
      putchar('\n');
      print_value(item, indent + 2);
    } else if (cJSON_IsString(item)) {
      printf(" %s\n", item->valuestring);
    } else {
      char *text = cJSON_PrintUnformatted(item);
      printf(" %s\n", text ? text : "");
      cJSON_free(text);
    }
  }
}

static int print_dictionary(cli_run *run) {
  char *text;
  accel_status status = accel_detect_json(run->ctx, 0, &text);
  if (status != ACCEL_OK) return cli_fail(run, status);
  cJSON *root = cJSON_Parse(text);
  for (const cJSON *item = root ? root->child : NULL; item; item = item->next) {
    if (!item->child || strcmp(item->string, "devices") == 0) continue;
    printf("\n%s\n", item->string);
    print_value(item, 2);
  }
  cJSON_Delete(root);
  accel_string_free(&text);
  return 0;
}

int cmd_detect(cli_run *run) {
  int code = cli_context(run);
  if (code) return code;
  if (cli_flag(run, OPT_JSON)) {
    char *text;
    accel_status status = accel_detect_json(run->ctx, 0, &text);
    if (status != ACCEL_OK) return cli_fail(run, status);
    code = cli_json_whole(run, text);
    accel_string_free(&text);
    return code;
  }
  accel_devices *devices;
  accel_status status = accel_detect(run->ctx, 0, &devices);
  if (status != ACCEL_OK) return cli_fail(run, status);
  print_devices(devices, cli_flag(run, OPT_VERBOSE));
  accel_devices_free(&devices);
  return cli_flag(run, OPT_VERBOSE) ? print_dictionary(run) : 0;
}
