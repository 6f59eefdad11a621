/* cli_doctor_machine.c - accel doctor on the machine: processor, threads, memory, plugins,
 * permissions, devices, environment. */
#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cli/cli_doctor.h"
#include "cli/cli_print.h"

extern char **environ;

/* ---- processor, threads, memory ---- */

static const accel_device_info *find_device(const doctor *d, const char *name) {
  for (uint32_t i = 0; i < d->devices->n; ++i)
    if (!strcmp(d->devices->item[i].name, name)) return &d->devices->item[i];
  return NULL;
}

void doctor_processor(doctor *d) {
  const cJSON *p = doctor_member(d->machine, "processor");
  const accel_device_info *cpu = find_device(d, "cpu");
  const char *arch = cpu ? cpu->arch : "";
  if (!cpu || !cpu->usable)
    doctor_say(d, DOCTOR_WARN, "processor", doctor_command(REMEDY_DETECT_DEVICE, "cpu", NULL),
               "%s; its plugin does not serve: %s", cli_json_word(p, "model"),
               cpu ? cpu->reason : "no such device");
  else if (!strcmp(arch, "scalar"))
    doctor_say(d, DOCTOR_WARN, "processor", NULL,
               "%s: none of the instruction sets that kernels are written for; models run by plain "
               "loops, slowly",
               cli_json_word(p, "model"));
  else
    doctor_say(d, DOCTOR_OK, "processor", NULL, "%s: kernels for %s (%s)",
               cli_json_word(p, "model"), arch, cli_json_word(p, "features"));
}

void doctor_threads(doctor *d) {
  const cJSON *p = doctor_member(d->machine, "processor");
  const double logical = cli_json_number(p, "logical"), physical = cli_json_number(p, "physical"),
               affinity = cli_json_number(p, "affinity"), quota = cli_json_number(p, "cgroup_cpus");
  const uint32_t threads = accel_thread_count(d->run->ctx);
  char last[24];
  snprintf(last, sizeof last, "%.0f", logical - 1);
  if (affinity < logical)
    doctor_say(d, DOCTOR_WARN, "affinity", doctor_command(REMEDY_AFFINITY, last, NULL),
               "this process may use %.0f of %.0f processors", affinity, logical);
  if (quota > 0 && quota < logical)
    doctor_say(
        d, DOCTOR_WARN, "cgroup", doctor_command(REMEDY_QUOTA, NULL, NULL),
        "the cgroup's quota leaves %.2f of %.0f processors; who started the container sets it",
        quota, logical);
  if (threads > physical)
    doctor_say(d, DOCTOR_WARN, "threads",
               getenv("ACCEL_THREADS") ? doctor_command(REMEDY_UNSET, "ACCEL_THREADS", NULL) : NULL,
               "%u threads on %.0f cores: they get in each other's way", threads, physical);
  else if (threads < physical && threads < affinity && !(quota > 0 && threads <= ceil(quota)))
    doctor_say(d, DOCTOR_WARN, "threads",
               getenv("ACCEL_THREADS") ? doctor_command(REMEDY_UNSET, "ACCEL_THREADS", NULL) : NULL,
               "%u threads were asked for, and there are %.0f cores", threads, physical);
  else
    doctor_say(d, DOCTOR_OK, "threads", NULL, "%u, of %.0f processors on %.0f cores", threads,
               logical, physical);
}

void doctor_memory(doctor *d) {
  const cJSON *p = doctor_member(d->machine, "processor");
  const double total = cli_json_number(p, "memory_total"),
               left = cli_json_number(p, "memory_available");
  uint64_t limit = 0;
  char text[3][32];
  cli_size(d->run, OPT_MEM_LIMIT, &limit);
  cli_size(d->run, OPT_MEMORY, &limit);
  cli_bytes((uint64_t)total, text[0], sizeof text[0]);
  cli_bytes((uint64_t)left, text[1], sizeof text[1]);
  cli_bytes(limit, text[2], sizeof text[2]);
  const bool scarce = left < 0.1 * total;
  doctor_say(d, scarce ? DOCTOR_WARN : DOCTOR_OK, "memory",
             scarce ? doctor_command(REMEDY_MEMORY, NULL, NULL) : NULL, "%s of %s are free%s%s%s",
             text[1], text[0], limit ? "; models may use " : "", limit ? text[2] : "",
             limit ? " (--memory)" : "");
}

/* ---- plugins ---- */

static doctor_remedy plugin_remedy(const char *verdict) {
  static const struct {
    const char *verdict;
    doctor_remedy remedy;
  } rows[] = {
#define PLUGIN(verdict, id) {verdict, REMEDY_##id},
#include "cli/doctor.def"
  };
  for (size_t i = 0; i < sizeof rows / sizeof *rows; ++i)
    if (!strcmp(rows[i].verdict, verdict)) return rows[i].remedy;
  return REMEDY_NONE;
}

static void say_missing_folder(doctor *d, const cJSON *plugin) {
  const bool named = getenv("ACCEL_PLUGIN_PATH") != NULL && !d->run->value[OPT_PLUGIN_PATH];
  doctor_say(d, DOCTOR_WARN, "plugins",
             named ? doctor_command(REMEDY_UNSET, "ACCEL_PLUGIN_PATH", NULL) : NULL, "%s: %s",
             cli_json_word(plugin, "path"), cli_json_word(plugin, "reason"));
}

void doctor_plugins(doctor *d) {
  const cJSON *plugin;
  char good[512] = "";
  size_t at = 0;
  uint32_t absent = 0;
  cJSON_ArrayForEach(plugin, doctor_member(d->machine, "plugins")) {
    const char *verdict = cli_json_word(plugin, "verdict"), *path = cli_json_word(plugin, "path");
    if (!strcmp(verdict, "good") && at + 64 < sizeof good)
      at += (size_t)snprintf(good + at, sizeof good - at, "%s%.60s", at ? ", " : "",
                             cli_json_word(plugin, "name"));
    else if (!strcmp(verdict, "absent"))
      absent++;
    else if (strcmp(verdict, "good") != 0 && strcmp(verdict, "shadowed") != 0)
      doctor_say(d, DOCTOR_WARN, "plugin", doctor_command(plugin_remedy(verdict), path, NULL),
                 "%s: %s (%s)", path, cli_json_word(plugin, "reason"), verdict);
  }
  /* of the standard places one is enough; of those that were named each counts */
  cJSON_ArrayForEach(
      plugin,
      doctor_member(d->machine, "plugins")) if (absent &&
                                                (!at || getenv("ACCEL_PLUGIN_PATH") ||
                                                 d->run->value[OPT_PLUGIN_PATH]) &&
                                                !strcmp(cli_json_word(plugin, "verdict"), "absent"))
      say_missing_folder(d, plugin);
  if (at)
    doctor_say(d, DOCTOR_OK, "plugins", NULL, "%s load", good);
  else
    doctor_say(d, DOCTOR_FAIL, "plugins",
               getenv("ACCEL_PLUGIN_PATH") ? doctor_command(REMEDY_UNSET, "ACCEL_PLUGIN_PATH", NULL)
                                           : doctor_command(REMEDY_INSTALL, NULL, NULL),
               "no plugin loads, so nothing can run");
}

/* ---- permissions ---- */

static void say_access(doctor *d, const char *path, const char *group, int error) {
  const char *known = *group && !isdigit((unsigned char)*group) ? group : "render";
  if (error == EACCES)
    doctor_say(d, DOCTOR_WARN, "permissions", doctor_command(REMEDY_JOIN_GROUP, known, NULL),
               "%s: %s; it belongs to the group %s (log in again after joining)", path,
               strerror(error), *group ? group : "of root");
  else
    doctor_say(d, DOCTOR_WARN, "permissions", doctor_command(REMEDY_LIST, path, NULL),
               "%s: %s; in a container: start it with --device %s", path, strerror(error), path);
}

/* Render nodes of all vendors' cards but AMD's, which detection has looked at.  The number of them. */
static uint32_t look_at_nodes(doctor *d, const cJSON *seen) {
  const char *root = getenv("ACCEL_DETECT_ROOT");
  char folder[1024];
  uint32_t n = 0;
  snprintf(folder, sizeof folder, "%s/dev/dri", root ? root : "");
  DIR *directory = opendir(folder);
  for (struct dirent *entry; directory && (entry = readdir(directory)) != NULL;) {
    char path[2048], shown[300];
    const cJSON *a;
    bool known = strncmp(entry->d_name, "renderD", 7) != 0;
    snprintf(path, sizeof path, "%s/%s", folder, entry->d_name);
    snprintf(shown, sizeof shown, "/dev/dri/%s", entry->d_name);
    cJSON_ArrayForEach(a, seen) known |= !strcmp(cli_json_word(a, "path"), shown);
    if (known) continue;
    struct stat about;
    const bool there = stat(path, &about) == 0;
    const struct group *group = there ? getgrgid(about.st_gid) : NULL;
    n++;
    if (access(path, R_OK | W_OK)) say_access(d, shown, group ? group->gr_name : "", errno);
  }
  if (directory) closedir(directory);
  return n;
}

void doctor_permissions(doctor *d) {
  const cJSON *all = doctor_member(doctor_member(d->machine, "amd_details"), "access"), *a;
  const bool amd = cJSON_IsTrue(doctor_member(d->machine, "amd"));
  const uint32_t before = d->n;
  uint32_t n = 0;
  cJSON_ArrayForEach(a, all) {
    const int error = (int)cli_json_number(a, "errno");
    if (error == ENOENT && !amd) continue;
    n++;
    if (error == ENOENT)
      doctor_say(d, DOCTOR_WARN, "permissions", doctor_command(REMEDY_AMDGPU, NULL, NULL),
                 "%s is not there; in a container: start it with --device /dev/kfd --device "
                 "/dev/dri",
                 cli_json_word(a, "path"));
    else if (error)
      say_access(d, cli_json_word(a, "path"), cli_json_word(a, "group"), error);
  }
  n += look_at_nodes(d, all);
  if (d->n == before)
    doctor_say(d, DOCTOR_OK, "permissions", NULL,
               n ? "device files may be opened" : "there are no device files of GPUs");
}

/* ---- devices ---- */

/* What a source says of its library: "" when it was found and answers. */
static bool has_library(const doctor *d, const char *source) {
  const cJSON *lists[] = {doctor_member(d->machine, "vendors"),
                          doctor_member(doctor_member(d->machine, "amd_details"), "sources")};
  for (int i = 0; i < 2; ++i) {
    const cJSON *s;
    cJSON_ArrayForEach(s, lists[i]) if (!strcmp(cli_json_word(s, "source"),
                                                source)) return *cli_json_word(s, "library") != 0;
  }
  return false;
}

static char *device_remedy(const doctor *d, const accel_device_info *device) {
  static const struct {
    const char *hardware, *source;
    doctor_remedy without_library, without_device;
  } rows[] = {
#define NEEDS(hardware, source, library, device) \
  {hardware, source, REMEDY_##library, REMEDY_##device},
#include "cli/doctor.def"
  };
  if (device->found == 1 && device->compiled == 0)
    return getenv("ACCEL_PLUGIN_PATH") ? doctor_command(REMEDY_UNSET, "ACCEL_PLUGIN_PATH", NULL)
                                       : doctor_command(REMEDY_BUILD, NULL, NULL);
  for (size_t i = 0; i < sizeof rows / sizeof *rows; ++i) {
    if (strcmp(rows[i].hardware, device->hardware) != 0) continue;
    if (!has_library(d, rows[i].source)) return doctor_command(rows[i].without_library, NULL, NULL);
    if (device->found != 1) return doctor_command(rows[i].without_device, NULL, NULL);
  }
  return doctor_command(REMEDY_DETECT_DEVICE, device->name, NULL);
}

/* Is `word`, of n bytes, a name of the hardware: its own, or an alias of the registry? */
static bool names_hardware(const doctor *d, const char *hardware, const char *word, size_t n) {
  char *text;
  const cJSON *alias;
  bool is = strlen(hardware) == n && !strncasecmp(hardware, word, n);
  if (is || accel_registry_json(d->run->ctx, NULL, &text) != ACCEL_OK) return is;
  cJSON *root = cJSON_Parse(text);
  accel_string_free(&text);
  cJSON_ArrayForEach(
      alias, doctor_member(doctor_member(doctor_member(root, "hardware"), hardware), "aliases"))
      is |= cJSON_IsString(alias) && strlen(alias->valuestring) == n &&
            !strncasecmp(alias->valuestring, word, n);
  cJSON_Delete(root);
  return is;
}

/* Is it the row of the kind of device that --device names: "rocm:0" or "radeon" of "amd"? */
static bool is_wanted(const doctor *d, const accel_device_info *device) {
  const char *wanted = d->run->value[OPT_DEVICE];
  const size_t n = wanted ? strcspn(wanted, ":,") : 0;
  return n && ((strlen(device->plugin) == n && !strncasecmp(device->plugin, wanted, n)) ||
               (strcspn(device->name, ":") == n && !strncasecmp(device->name, wanted, n)) ||
               names_hardware(d, device->hardware, wanted, n));
}

static void say_device(doctor *d, const accel_device_info *device) {
  char memory[32];
  cli_bytes(device->memory_total, memory, sizeof memory);
  if (device->usable)
    doctor_say(d, DOCTOR_OK, device->name, NULL, "%s%s%s%s%s%s", device->description,
               *device->arch ? ", " : "", device->arch, device->memory_total ? ", " : "",
               device->memory_total ? memory : "",
               strcmp(device->type, "software") != 0 ? "" : " (software: taken by name alone)");
  else if (device->found == 1 || (device->compiled == 1 && device->loaded == 0))
    doctor_say(d, DOCTOR_WARN, device->name, device_remedy(d, device), "%s", device->reason);
  else if (cli_flag(d->run, OPT_VERBOSE))
    doctor_say(d, DOCTOR_OK, device->name, NULL, "not on this machine: %s", device->reason);
}

/* A name that is none is a wrong command line; a device that cannot serve has its own code. */
static void say_none(doctor *d, const char *wanted, accel_status status) {
  char *command = NULL, *reason = strdup(accel_last_error());
  for (uint32_t i = 0; i < d->devices->n && !command; ++i)
    if (is_wanted(d, &d->devices->item[i]) && !d->devices->item[i].usable)
      command = device_remedy(d, &d->devices->item[i]);
  if (!command) command = doctor_command(REMEDY_DETECT, NULL, NULL);
  d->code = accel_status_exit_code(status);
  doctor_say(d, DOCTOR_FAIL, wanted, command, "%s", reason ? reason : "");
  free(reason);
}

void doctor_devices(doctor *d) {
  const char *wanted = d->run->value[OPT_DEVICE] ? d->run->value[OPT_DEVICE] : "auto";
  accel_device *device;
  for (uint32_t i = 0; i < d->devices->n; ++i) say_device(d, &d->devices->item[i]);
  const accel_status status = accel_get_device(d->run->ctx, wanted, &device);
  if (status != ACCEL_OK) {
    say_none(d, wanted, status);
    return;
  }
  d->chosen = *accel_get_device_info(device);
  if (d->model && !strcmp(wanted, "auto"))
    doctor_say(
        d, DOCTOR_OK, wanted, doctor_command(REMEDY_CHOOSE, d->model, NULL),
        "is %s by the order of devices; what was measured here may say otherwise for a model",
        d->chosen.name);
  else if (strcmp(wanted, d->chosen.name) != 0)
    doctor_say(d, DOCTOR_OK, wanted, NULL, "is %s", d->chosen.name);
  accel_device_close(&device);
}

/* ---- environment ---- */

static void add_name(const char ***names, size_t *n, const char *name) {
  const char **grown = realloc(*names, (*n + 1) * sizeof *grown);
  if (!grown) return;
  *names = grown;
  grown[(*n)++] = name;
}

/* Variables that neither the library nor an option of the tool reads. */
static void look_for_unknown(doctor *d) {
  static char twin[OPT_END][64];
  const char **names = NULL;
  size_t n = 0;
  const cJSON *setting;
  cJSON_ArrayForEach(setting, doctor_member(d->machine, "settings"))
      add_name(&names, &n, setting->string);
  for (int o = 0; o < OPT_END; ++o) {
    snprintf(twin[o], sizeof twin[o], "ACCEL_%s", cli_options[o].name);
    for (char *c = twin[o]; *c; ++c) *c = *c == '-' ? '_' : (char)toupper((unsigned char)*c);
    add_name(&names, &n, twin[o]);
  }
  for (char **e = environ; names && *e; ++e) {
    char name[64];
    bool known = strncmp(*e, "ACCEL_", 6) != 0;
    snprintf(name, sizeof name, "%.*s", (int)strcspn(*e, "="), *e);
    for (size_t i = 0; i < n; ++i) known |= !strcmp(names[i], name);
    if (known) continue;
    for (size_t i = 0; i < n; ++i) names[i] += strlen("ACCEL_");
    const char *near = cli_nearest(name + strlen("ACCEL_"), names, n);
    for (size_t i = 0; i < n; ++i) names[i] -= strlen("ACCEL_");
    if (near) near -= strlen("ACCEL_");
    doctor_say(d, DOCTOR_WARN, name,
               near ? doctor_command(REMEDY_RENAME_VARIABLE, name, near)
                    : doctor_command(REMEDY_UNSET, name, NULL),
               "nothing reads a variable of this name%s%s", near ? "; meant is perhaps " : "",
               near ? near : "");
  }
  free(names);
}

void doctor_environment(doctor *d) {
  static const char *const limits[][2] = {
#define VARIABLE(name, text) {name, text},
#include "cli/doctor.def"
  };
  const uint32_t before = d->n;
  const cJSON *v;
  cJSON_ArrayForEach(v, doctor_member(d->machine, "environment")) {
    const char *name = cli_json_word(v, "name");
    if (cJSON_IsTrue(doctor_member(v, "warning")))
      doctor_say(d, DOCTOR_WARN, name, doctor_command(REMEDY_UNSET, name, NULL), "\"%s\": %s",
                 cli_json_word(v, "value"), cli_json_word(v, "verdict"));
  }
  for (size_t i = 0; i < sizeof limits / sizeof *limits; ++i) {
    const char *value = cli_json_word(doctor_member(d->machine, "settings"), limits[i][0]);
    if (*value && strcmp(value, "0") != 0)
      doctor_say(d, DOCTOR_WARN, limits[i][0], doctor_command(REMEDY_UNSET, limits[i][0], NULL),
                 "\"%s\": it %s", value, limits[i][1]);
  }
  look_for_unknown(d);
  if (d->n == before) doctor_say(d, DOCTOR_OK, "environment", NULL, "no variable is in the way");
}
