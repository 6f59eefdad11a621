/* cli_verify_plan.c - the plan of accel verify --all: goldens x devices x precisions, and what the
 * database knows of them; and the command. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cli/cli_print.h"
#include "cli/cli_verify_all.h"
#include "shared/hash.h"

bench_cell verify_cell_key(const verify_plan *plan, const verify_cell *cell) {
  const cli_golden *g = &plan->goldens.item[cell->golden];
  return (bench_cell){.model = g->model,
                      .model_type = g->model_type,
                      .model_hash = g->model_hash,
                      .architecture = g->architecture,
                      .golden = g->file,
                      .golden_hash = g->hash,
                      .precision = plan->precision[cell->precision],
                      .device = &plan->device[cell->device]};
}

void verify_outputs_path(const verify_plan *plan, uint32_t golden, char into[CLI_PATH]) {
  const cli_golden *g = &plan->goldens.item[golden];
  const int n = snprintf(into, CLI_PATH, "%s/%s-%s-%s.safetensors", plan->folder, g->model_hash,
                         g->hash, g->architecture);
  if (n >= CLI_PATH) into[0] = 0;
}

const char *verify_cell_name(const verify_plan *plan, const verify_cell *cell, char *into,
                             size_t size) {
  const cli_golden *g = &plan->goldens.item[cell->golden];
  snprintf(into, size, "%s %s%s%s, %s, %s", g->model, g->file,
           strstr(g->file, g->architecture) ? "" : " as ",
           strstr(g->file, g->architecture) ? "" : g->architecture, plan->device[cell->device].name,
           plan->precision[cell->precision]);
  return into;
}

/* ---- devices and precisions ---- */

static accel_device_info device_of(const cJSON *d) {
  return (accel_device_info){.name = cli_json_word(d, "name"),
                             .hardware = cli_json_word(d, "hardware"),
                             .plugin = cli_json_word(d, "plugin"),
                             .implementation_type = cli_json_word(d, "implementation_type"),
                             .description = cli_json_word(d, "description"),
                             .arch = cli_json_word(d, "arch"),
                             .driver = cli_json_word(d, "driver"),
                             .id = cli_json_word(d, "id"),
                             .type = cli_json_word(d, "type"),
                             .reason = cli_json_word(d, "reason"),
                             .usable = cJSON_IsTrue(cJSON_GetObjectItemCaseSensitive(d, "usable"))};
}

/* "opencl" stands for "opencl:0", "opencl:1" ... */
static bool stands_for(const char *name, const char *device) {
  const size_t n = strlen(name);
  return !strncmp(name, device, n) && (!device[n] || device[n] == ':');
}

static bool is_chosen(char *const *names, uint32_t n, const char *device) {
  for (uint32_t i = 0; i < n; ++i)
    if (stands_for(names[i], device)) return true;
  return n == 0;
}

/* The usable device that begins a part, "cpu" of "cpu=0-3+opencl:0=4-9"; NULL: there is none. */
static const cJSON *device_of_part(const cJSON *list, const char *part) {
  char name[128];
  const cJSON *d;
  snprintf(name, sizeof name, "%.*s", (int)strcspn(part, "=+"), part);
  cJSON_ArrayForEach(d, list) {
    if (cJSON_IsTrue(cJSON_GetObjectItemCaseSensitive(d, "usable")) &&
        stands_for(name, cli_json_word(d, "name")))
      return d;
  }
  return NULL;
}

/* Several devices that one model is placed over are a device of their own here, whose words are
 * those of all parts; it shares the software devices' group. */
static void add_composite(cJSON *list, const char *name) {
  static const char *const words[] = {
      "hardware", "plugin", "implementation_type", "description", "arch", "driver", "id"};
  cJSON *made = cJSON_CreateObject();
  bool found = cJSON_IsArray(list) && made;
  for (size_t i = 0; found && i < sizeof words / sizeof *words; ++i) {
    char text[1024] = "";
    for (const char *part = name; found && part; part = strchr(part, '+')) {
      part += *part == '+';
      const cJSON *d = device_of_part(list, part);
      found = d != NULL;
      const size_t at = strlen(text);
      snprintf(text + at, sizeof text - at, "%s%s", at ? "+" : "",
               d ? cli_json_word(d, words[i]) : "");
    }
    cJSON_AddStringToObject(made, words[i], text);
  }
  if (!found) {
    cJSON_Delete(made); /* check_named says that there is no such device */
    return;
  }
  cJSON_AddStringToObject(made, "name", name);
  cJSON_AddStringToObject(made, "type", "software");
  cJSON_AddStringToObject(made, "reason", "");
  cJSON_AddTrueToObject(made, "usable");
  cJSON_AddItemToArray(list, made);
}

/* Every name of --device must be a usable device. */
static int check_named(const verify_plan *plan, char *const *names, uint32_t n) {
  for (uint32_t i = 0; i < n; ++i) {
    const cJSON *d;
    const char *why = "there is no such device; accel detect lists them";
    bool found = false;
    for (uint32_t k = 0; k < plan->n_device; ++k)
      found |= stands_for(names[i], plan->device[k].name);
    if (found) continue;
    cJSON_ArrayForEach(d, cJSON_GetObjectItemCaseSensitive(plan->scouted, "devices")) {
      if (stands_for(names[i], cli_json_word(d, "name"))) why = cli_json_word(d, "reason");
    }
    return cli_error(plan->run, ACCEL_ERROR_DEVICE_UNAVAILABLE, "--device %s: %s", names[i], why);
  }
  return 0;
}

static int take_devices(verify_plan *plan) {
  const char *wanted = plan->run->value[OPT_DEVICE];
  const cJSON *d;
  cJSON *list;
  char **names = NULL;
  uint32_t n = 0;
  if (wanted && !cli_split(wanted, &names, &n))
    return cli_error(plan->run, ACCEL_ERROR_OUT_OF_MEMORY, "out of memory");
  plan->scouted = verify_scout(plan->run);
  list = cJSON_GetObjectItemCaseSensitive(plan->scouted, "devices");
  for (uint32_t i = 0; i < n; ++i)
    if (strchr(names[i], '+')) add_composite(list, names[i]);
  plan->device = calloc((size_t)cJSON_GetArraySize(list) + 1, sizeof *plan->device);
  cJSON_ArrayForEach(d, list) {
    const accel_device_info device = device_of(d);
    if (plan->device && device.usable && is_chosen(names, n, device.name))
      plan->device[plan->n_device++] = device;
  }
  int code = plan->scouted && plan->device ? check_named(plan, names, n) : 1;
  if (!code && !plan->n_device)
    code = cli_error(plan->run, ACCEL_ERROR_DEVICE_UNAVAILABLE,
                     "no device is usable; try: accel detect");
  free(names);
  return code;
}

static bool is_named(char *const *names, uint32_t n, const char *name) {
  for (uint32_t i = 0; i < n; ++i)
    if (!strcmp(names[i], name)) return true;
  return false;
}

static int take_precisions(verify_plan *plan) {
  static const char all[] = "fp32,fp16,bf16,int8,fp8,int4,uint4,fp4";
  const char *wanted = plan->run->value[OPT_PRECISION];
  char **known = NULL;
  uint32_t n = 0;
  int code = 0;
  if (!cli_split(all, &known, &n) ||
      !cli_split(wanted ? wanted : all, &plan->precision, &plan->n_precision))
    code = cli_error(plan->run, ACCEL_ERROR_OUT_OF_MEMORY, "out of memory");
  for (uint32_t i = 0; !code && i < plan->n_precision; ++i)
    if (!is_named(known, n, plan->precision[i]))
      code =
          cli_usage(plan->run, "--precision takes some of %s, not '%s'", all, plan->precision[i]);
  if (!code && !plan->n_precision) code = cli_usage(plan->run, "--precision names none");
  free(known);
  return code;
}

/* ---- cells ---- */

/* Each device has its own group, but those that are emulated on the processor share one. */
static uint32_t group_of(const verify_plan *plan, uint32_t device, uint32_t software) {
  const accel_device_info *d = &plan->device[device];
  return !strcmp(d->type, "software") || !strcmp(d->plugin, "reference") ? software : device;
}

static bool is_reference(const verify_plan *plan, uint32_t device, uint32_t precision) {
  return !strcmp(plan->device[device].name, "cpu") && !strcmp(plan->precision[precision], "fp32");
}

static bool is_wanted(const verify_plan *plan, uint32_t golden, uint32_t precision) {
  const char *own = plan->goldens.item[golden].precision, *name = plan->precision[precision];
  return !*own || !strcmp(own, name) || !strcmp(name, "fp32");
}

static void add_cell(verify_plan *plan, uint32_t golden, uint32_t device, uint32_t precision) {
  const verify_cell cell = {.golden = golden,
                            .device = device,
                            .precision = precision,
                            .group = group_of(plan, device, plan->n_device)};
  if (is_reference(plan, device, precision)) plan->reference[golden] = (int32_t)plan->n_cell;
  plan->cell[plan->n_cell++] = cell;
}

/* The cells of a golden; first: the reference cell alone. */
static void add_cells(verify_plan *plan, uint32_t golden, bool first) {
  for (uint32_t d = 0; d < plan->n_device; ++d)
    for (uint32_t p = 0; p < plan->n_precision; ++p)
      if (is_wanted(plan, golden, p) && is_reference(plan, d, p) == first)
        add_cell(plan, golden, d, p);
}

static int make_cells(verify_plan *plan) {
  const size_t most = (size_t)plan->goldens.n * plan->n_device * plan->n_precision;
  uint64_t hash = ACCEL_HASH_SEED;
  plan->cell = most < UINT32_MAX / 2 ? calloc(most + 1, sizeof *plan->cell) : NULL;
  plan->reference = calloc(plan->goldens.n + 1, sizeof *plan->reference);
  if (!plan->cell || !plan->reference)
    return cli_error(plan->run, ACCEL_ERROR_OUT_OF_MEMORY, "out of memory");
  plan->n_group = plan->n_device + 1;
  for (uint32_t g = 0; g < plan->goldens.n; ++g) {
    plan->reference[g] = -1;
    add_cells(plan, g, true);
    add_cells(plan, g, false);
  }
  for (uint32_t i = 0; i < plan->n_cell; ++i) {
    const bench_cell key = verify_cell_key(plan, &plan->cell[i]);
    hash = accel_hash_text(accel_hash_text(hash, key.golden_hash), key.model_hash);
    hash = accel_hash_text(accel_hash_text(hash, key.architecture), key.precision);
    hash = accel_hash_text(accel_hash_text(hash, key.device->name), key.device->driver);
  }
  snprintf(plan->hash, sizeof plan->hash, "%016llx", (unsigned long long)hash);
  return 0;
}

int verify_plan_make(verify_plan *plan) {
  char message[1024];
  const char *directory = plan->run->n_args ? plan->run->args[0] : ".";
  if (!cli_goldens_find(directory, &plan->goldens, message, sizeof message))
    return cli_error(plan->run, ACCEL_ERROR_IO, "%s", message);
  if (!plan->goldens.n)
    return cli_error(plan->run, ACCEL_ERROR_NOT_FOUND,
                     "%s: no golden*.safetensors beside a config.json, and no list of such",
                     directory);
  int code = take_precisions(plan);
  if (!code) code = take_devices(plan);
  return code ? code : make_cells(plan);
}

/* ---- what is known ---- */

/* All of them, and what a process that was killed while it wrote has left. */
static void remove_outputs(const verify_plan *plan) {
  char path[CLI_PATH + 256];
  DIR *folder = opendir(plan->folder);
  for (const struct dirent *e; folder && (e = readdir(folder)) != NULL;) {
    if (!strstr(e->d_name, ".safetensors")) continue;
    snprintf(path, sizeof path, "%s/%s", plan->folder, e->d_name);
    unlink(path);
  }
  if (folder) closedir(folder);
  rmdir(plan->folder);
}

/* Marks cells that need not be run.  A reference cell whose outputs are gone runs again where other
 * cells of its golden are to be compared with them. */
static void find_known(verify_plan *plan) {
  char path[CLI_PATH];
  for (uint32_t i = 0; i < plan->n_cell; ++i) {
    const bench_cell key = verify_cell_key(plan, &plan->cell[i]);
    cJSON *found = bench_verdict_find(&plan->db, &key);
    if (found) plan->cell[i].state = CELL_KNOWN;
    cJSON_Delete(found);
  }
  for (uint32_t i = 0; i < plan->n_cell; ++i) {
    const uint32_t golden = plan->cell[i].golden;
    const int32_t reference = plan->reference[golden];
    if (plan->cell[i].state != CELL_PENDING || reference < 0) continue;
    verify_outputs_path(plan, golden, path);
    if (access(path, R_OK)) plan->cell[reference].state = CELL_PENDING;
  }
  for (uint32_t g = 0; g < plan->goldens.n; ++g) {
    if (plan->reference[g] < 0 || plan->cell[plan->reference[g]].state != CELL_PENDING) continue;
    verify_outputs_path(plan, g, path);
    unlink(path); /* another build's */
  }
}

/* The file is left where it is: to remove it would let two processes each lock one of their own.
 * The lock is this process's, not its workers', and ends with it. */
static int lock(verify_plan *plan) {
  char path[CLI_PATH + 16];
  struct flock whole = {.l_type = F_WRLCK, .l_whence = SEEK_SET};
  snprintf(path, sizeof path, "%s-verify.lock", plan->path);
  plan->lock = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0666);
  if (plan->lock < 0)
    return cli_error(plan->run, ACCEL_ERROR_IO, "%s: %s; --db FILE names another place", path,
                     strerror(errno));
  if (!fcntl(plan->lock, F_SETLK, &whole)) return 0;
  const int why = errno;
  if (why != EACCES && why != EAGAIN)
    return cli_error(plan->run, ACCEL_ERROR_IO, "%s: cannot be locked: %s", path, strerror(why));
  if (fcntl(plan->lock, F_GETLK, &whole) || whole.l_type == F_UNLCK) whole.l_pid = 0;
  return cli_error(plan->run, ACCEL_ERROR_IO,
                   "%s: another accel verify --all (process %ld) writes to this database; wait for "
                   "it, or name another one with --db FILE",
                   plan->path, (long)whole.l_pid);
}

static int open_database(verify_plan *plan) {
  char message[1024];
  int code = cli_database(plan->run, plan->path);
  if (!code) code = lock(plan);
  if (code) return code;
  snprintf(plan->folder, sizeof plan->folder, "%.*s-verify", CLI_PATH - 16, plan->path);
  if (mkdir(plan->folder, 0777) && errno != EEXIST)
    return cli_error(plan->run, ACCEL_ERROR_IO, "%s: %s", plan->folder, strerror(errno));
  if (!bench_db_open(&plan->db, plan->path, BENCH_DB_CREATE, message, sizeof message) ||
      !bench_db_commit(&plan->db, SQLITE_OK, message, sizeof message))
    return cli_error(plan->run, ACCEL_ERROR_IO, "%s", message);
  return 0;
}

/* ---- the command ---- */

static uint32_t count(const verify_plan *plan, cell_state state) {
  uint32_t n = 0;
  for (uint32_t i = 0; i < plan->n_cell; ++i) n += plan->cell[i].state == state;
  return n;
}

static int run_plan(verify_plan *plan) {
  char message[1024];
  find_known(plan);
  const uint32_t pending = count(plan, CELL_PENDING);
  cli_note(plan->run, "%u goldens, %u devices, %u precisions: %u cells, of which %u are known",
           plan->goldens.n, plan->n_device, plan->n_precision, plan->n_cell,
           plan->n_cell - pending);
  if (pending) {
    if (!bench_plan_begin(&plan->db, plan->hash, pending, &plan->id, message, sizeof message))
      return cli_error(plan->run, ACCEL_ERROR_IO, "%s", message);
    const int code = verify_run_cells(plan);
    if (code) return code;
    if (!bench_plan_end(&plan->db, plan->id, message, sizeof message))
      return cli_error(plan->run, ACCEL_ERROR_IO, "%s", message);
  }
  remove_outputs(plan);
  return verify_report(plan);
}

void verify_plan_free(verify_plan *plan) {
  bench_db_close(&plan->db);
  if (plan->lock >= 0) close(plan->lock);
  cli_goldens_free(&plan->goldens);
  cJSON_Delete(plan->scouted);
  free(plan->device), free(plan->precision), free(plan->cell), free(plan->reference);
  *plan = (verify_plan){.lock = -1};
}

int verify_all(cli_run *run) {
  verify_plan plan = {.run = run,
                      .lock = -1,
                      .cell_timeout = cli_number(run, OPT_CELL_TIMEOUT, 600),
                      .timeout = cli_number(run, OPT_TIMEOUT, 0)};
  int code = verify_plan_make(&plan);
  if (!code) code = open_database(&plan);
  if (!code) code = run_plan(&plan);
  verify_plan_free(&plan);
  return code;
}
