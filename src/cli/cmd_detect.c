/* cmd_detect.c - accel detect: what this machine can run on, and why not on the rest. */
#include <cjson/cJSON.h>
#include <string.h>

#include "cli/cli_print.h"

static const char *yes_no(int32_t fact) { return fact > 0 ? "yes" : fact == 0 ? "no" : "-"; }

/* `text` behind `indent` spaces, in lines that fit a terminal. */
static void print_indented(const char *text, int indent) {
  printf("%*s", indent, "");
  cli_print_wrapped(text, indent, cli_columns(stdout) - indent - 1);
}

static void print_devices(const accel_devices *devices) {
  cli_table table = {0};
  uint32_t usable = 0;
  cli_table_row(&table, 4, (const char *[]){"device", "usable", "memory", "what it is"});
  for (uint32_t i = 0; i < devices->n; ++i) {
    const accel_device_info *d = &devices->item[i];
    char memory[32] = "", what[256];
    if (d->memory_total) cli_bytes(d->memory_total, memory, sizeof memory);
    snprintf(what, sizeof what, "%s%s%s%s", d->description, *d->arch ? ", " : "", d->arch,
             strcmp(d->type, "software") == 0 ? " (software)" : "");
    cli_table_row(&table, 4, (const char *[]){d->name, d->usable ? "yes" : "no", memory, what});
    usable += d->usable != 0;
  }
  cli_table_print(&table, "llrl");
  if (usable < devices->n) printf("\nwhy not, and what to do\n");
  for (uint32_t i = 0; i < devices->n; ++i) {
    const accel_device_info *d = &devices->item[i];
    if (d->usable) continue;
    printf("  %s\n", d->name);
    print_indented(d->reason, 4);
    if (*d->remedy) {
      fputs("    -> ", stdout);
      cli_print_wrapped(d->remedy, 7, cli_columns(stdout) - 8);
    }
  }
}

static void print_facts(const accel_devices *devices) {
  cli_table table = {0};
  putchar('\n');
  cli_table_row(&table, 8,
                (const char *[]){"device", "plugin", "compiled", "loaded", "found", "self-test",
                                 "driver", "id"});
  for (uint32_t i = 0; i < devices->n; ++i) {
    const accel_device_info *d = &devices->item[i];
    cli_table_row(
        &table, 8,
        (const char *[]){d->name, *d->plugin ? d->plugin : "-", yes_no(d->compiled),
                         yes_no(d->loaded), yes_no(d->found), yes_no(d->tested), d->driver, d->id});
  }
  cli_table_print(&table, "llllllll");
}

static bool says_something(const cJSON *item) {
  return item->child || cJSON_IsNumber(item) || cJSON_IsBool(item) ||
         (cJSON_IsString(item) && *item->valuestring);
}

static void print_scalar(const cJSON *item) {
  char *text = cJSON_IsString(item) ? NULL : cJSON_PrintUnformatted(item);
  fputs(text ? text : item->valuestring, stdout);
  cJSON_free(text);
}

/* What the capability dictionary holds beside the table of devices: a line for each object of a
 * list, a line for each member of an object; what is empty is left out. */
static void print_value(const cJSON *value, int indent) {
  bool in_list = cJSON_IsArray(value);
  for (const cJSON *item = value->child; item; item = item->next) {
    if (!says_something(item)) continue;
    if (in_list && item->child) {
      const char *separator = "";
      printf("%*s", indent, "");
      for (const cJSON *member = item->child; member; member = member->next) {
        if (member->child || !says_something(member)) continue;
        printf("%s%s ", separator, member->string);
        print_scalar(member);
        separator = ", ";
      }
      putchar('\n');
      for (const cJSON *member = item->child; member; member = member->next) {
        if (member->child) print_value(member, indent + 4);
      }
    } else if (item->child) {
      printf("%*s%s\n", indent, "", item->string);
      print_value(item, indent + 2);
    } else {
      printf("%*s%s%s", indent, "", item->string ? item->string : "", item->string ? ": " : "");
      print_scalar(item);
      putchar('\n');
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

static void json_of_device(cli_json *json, accel_device *device, const accel_memory_summary *m) {
  static const char *const halves[] = {"fp16", "bf16"};
  const accel_device_info *d = accel_get_device_info(device);
  cli_json_text(json, "device", d->name);
  cli_json_text(json, "type", accel_get_device_type(device));
  cli_json_text(json, "implementation_type", d->implementation_type);
  cli_json_text(json, "description", d->description);
  cli_json_text(json, "arch", d->arch);
  cli_json_text(json, "driver", d->driver);
  cli_json_text(json, "id", d->id);
  cli_json_bool(json, "is_amd", d->is_amd != 0);
  cli_json_int(json, "memory_total", (int64_t)m->total);
  cli_json_int(json, "memory_free", (int64_t)m->free);
  cli_json_int(json, "memory_budget", (int64_t)m->budget);
  cli_json_int(json, "memory_shared", (int64_t)m->shared_with_host);
  for (int i = 0; i < 2; ++i)
    cli_json_bool(json, halves[i], accel_probe_precision(device, halves[i]) == ACCEL_OK);
}

/* One device, for people or as JSON. */
static int tell_device(cli_run *run, accel_device *device) {
  char *text = NULL, *version = NULL, *driver = NULL;
  accel_memory_summary memory = accel_memory_summary_default();
  accel_status status = accel_device_memory(device, &memory);
  if (status == ACCEL_OK && !cli_flag(run, OPT_JSON)) {
    status = accel_device_info_text(device, &text);
    if (status == ACCEL_OK) fputs(text, stdout);
    accel_string_free(&text);
  } else if (status == ACCEL_OK) {
    cli_json json;
    int code;
    status =
        accel_runtime_version(run->ctx, accel_get_device_info(device)->hardware, &version, &driver);
    if (status != ACCEL_OK) return cli_fail(run, status);
    code = cli_json_begin(run, "accel.device/1", &json);
    if (!code) {
      json_of_device(&json, device, &memory);
      cli_json_text(&json, "runtime_version", version);
      cli_json_text(&json, "driver_version", driver);
      code = cli_json_end(run, &json);
    }
    accel_string_free(&version);
    accel_string_free(&driver);
    return code;
  }
  return status == ACCEL_OK ? 0 : cli_fail(run, status);
}

static int detect_one(cli_run *run) {
  accel_device *device;
  accel_status status = accel_get_device(run->ctx, run->args[0], &device);
  if (status != ACCEL_OK) return cli_fail(run, status);
  int code = tell_device(run, device);
  accel_device_close(&device);
  return code;
}

int cmd_detect(cli_run *run) {
  int code = cli_context(run);
  if (code) return code;
  if (run->n_args) return detect_one(run);
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
  print_devices(devices);
  if (cli_flag(run, OPT_VERBOSE)) print_facts(devices);
  accel_devices_free(&devices);
  return cli_flag(run, OPT_VERBOSE) ? print_dictionary(run) : 0;
}
