/* cli_doctor_model.c - accel doctor on what lies on disk, the cache and the database, and on a
 * model: its files, what it needs, whether devices support it, whether it fits. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/statvfs.h>
#include <time.h>
#include <unistd.h>

#include "bench/bench_db.h"
#include "bench/bench_look.h"
#include "cli/cli_database.h"
#include "cli/cli_doctor.h"
#include "cli/cli_print.h"

/* ---- the cache of packed weights ---- */

/* The nearest directory above `path` that is there, in `into`; 0 when files can be made in it, else
 * an errno. */
static int nearest_folder(const char *path, char into[CLI_PATH]) {
  snprintf(into, CLI_PATH, "%s", path);
  for (char *end; access(into, F_OK) && errno == ENOENT && (end = strrchr(into, '/')) != NULL;) {
    if (end == into) end[1] = 0;
    *end = end == into ? '/' : 0;
  }
  char inside[CLI_PATH + 2];
  snprintf(inside, sizeof inside, "%s/.", into); /* ENOTDIR of what is a file */
  return access(inside, R_OK | W_OK | X_OK) ? errno : 0;
}

static void say_cache(doctor *d, const accel_cache_list *list) {
  enum { QUARTER = 90 * 24 * 3600 };
  uint32_t damaged = 0, old = 0;
  const int64_t now = (int64_t)time(NULL);
  char used[32], limit[32];
  for (uint32_t i = 0; i < list->n; ++i) {
    damaged += !*list->entry[i].label;
    old += *list->entry[i].label && now - list->entry[i].used > QUARTER;
  }
  cli_bytes(list->bytes, used, sizeof used);
  cli_bytes(list->limit, limit, sizeof limit);
  if (damaged)
    doctor_say(d, DOCTOR_WARN, "cache", doctor_command(REMEDY_PRUNE, NULL, NULL),
               "%u entr%s damaged or not complete", damaged, damaged == 1 ? "y is" : "ies are");
  if (list->bytes > list->limit)
    doctor_say(d, DOCTOR_WARN, "cache", doctor_command(REMEDY_PRUNE, NULL, NULL),
               "%s are more than the limit of %s", used, limit);
  doctor_say(d, DOCTOR_OK, "cache", NULL, "%s: %u entr%s, %s of at most %s%s", list->directory,
             list->n, list->n == 1 ? "y" : "ies", used, limit,
             old ? "; some were not used for 90 days" : "");
}

void doctor_cache(doctor *d) {
  accel_cache_list *list = NULL;
  char folder[CLI_PATH];
  struct statvfs disk;
  if (accel_cache_ls(d->run->ctx, &list) != ACCEL_OK) {
    doctor_say(d, DOCTOR_WARN, "cache", doctor_command(REMEDY_CACHE_ELSEWHERE, NULL, NULL), "%s",
               accel_last_error());
    return;
  }
  if (!*list->directory) {
    doctor_say(d, DOCTOR_WARN, "cache", doctor_command(REMEDY_CACHE_ELSEWHERE, NULL, NULL),
               "there is no place for it: none of ACCEL_CACHE_DIR, XDG_CACHE_HOME and HOME is set");
    accel_cache_list_free(&list);
    return;
  }
  const int error = nearest_folder(list->directory, folder);
  if (error)
    doctor_say(d, DOCTOR_WARN, "cache",
               error == EACCES ? doctor_command(REMEDY_OWN, folder, NULL)
                               : doctor_command(REMEDY_CACHE_ELSEWHERE, NULL, NULL),
               "%s: %s: %s; weights are packed anew at every load", list->directory, folder,
               strerror(error));
  else
    say_cache(d, list);
  if (!error && !statvfs(folder, &disk) &&
      (double)disk.f_bavail * (double)disk.f_frsize < (double)(1u << 30))
    doctor_say(d, DOCTOR_WARN, "disk", doctor_command(REMEDY_DISK, folder, NULL),
               "less than 1 GiB is free in %s", folder);
  accel_cache_list_free(&list);
}

/* ---- the database ---- */

static void say_database(doctor *d, const char *path) {
  bench_look look;
  char message[1024];
  if (!bench_is_store(path))
    doctor_say(d, DOCTOR_FAIL, "database", doctor_command(REMEDY_PUT_ASIDE, path, NULL),
               "%s: this is no database", path);
  else if (!bench_look_at(path, &look, message, sizeof message))
    doctor_say(d, DOCTOR_FAIL, "database",
               access(path, R_OK) ? doctor_command(REMEDY_OWN, path, NULL)
                                  : doctor_command(REMEDY_PUT_ASIDE, path, NULL),
               "%s", message);
  else if (look.schema > look.newest)
    doctor_say(d, DOCTOR_FAIL, "database", doctor_command(REMEDY_PUT_ASIDE, path, NULL),
               "%s: made by a newer accel (schema %d; this one knows %d)", path, look.schema,
               look.newest);
  else if (access(path, W_OK))
    doctor_say(d, DOCTOR_WARN, "database", doctor_command(REMEDY_OWN, path, NULL),
               "%s: read-only: nothing new can be stored", path);
  else
    doctor_say(d, DOCTOR_OK, "database", NULL, "%s: %lld runs, %lld verdicts, schema %d%s", path,
               (long long)look.runs, (long long)look.verdicts, look.schema,
               look.schema < look.newest ? ", brought forward at its next use" : "");
}

void doctor_database(doctor *d) {
  char path[CLI_PATH], folder[CLI_PATH];
  if (cli_database_find(d->run, path) || !*path) {
    doctor_say(d, DOCTOR_WARN, "database", doctor_command(REMEDY_CACHE_ELSEWHERE, NULL, NULL),
               "there is no place for it");
    return;
  }
  if (!access(path, F_OK)) {
    say_database(d, path);
    return;
  }
  const int error = nearest_folder(path, folder);
  if (error)
    doctor_say(d, DOCTOR_WARN, "database",
               error == EACCES ? doctor_command(REMEDY_OWN, folder, NULL)
                               : doctor_command(REMEDY_CACHE_ELSEWHERE, NULL, NULL),
               "%s cannot be made: %s: %s", path, folder, strerror(error));
  else
    doctor_say(d, DOCTOR_OK, "database", NULL,
               "%s: not there yet; accel bench --store and accel verify --all make it", path);
}

/* ---- the model's files ---- */

/* The command that fetches a model of the Hub, "org/name[@revision]". */
static char *fetch_command(const char *name) {
  char repository[512];
  const char *revision = strchr(name, '@');
  if (!revision) return doctor_command(REMEDY_DOWNLOAD, name, NULL);
  snprintf(repository, sizeof repository, "%.*s", (int)(revision - name), name);
  return doctor_command(REMEDY_DOWNLOAD_REVISION, repository, revision + 1);
}

/* NULL: the model is a directory of the user's. */
static char *fetch(const doctor *d) {
  return access(d->model, F_OK) ? fetch_command(d->model) : NULL;
}

/* What the library says of its last failure, with its remedy in words; takes `command`. */
static void say_failure(doctor *d, const char *what, char *command) {
  const char *said = accel_last_remedy();
  doctor_say(d, DOCTOR_FAIL, what, command, "%s%s%s", accel_last_error(), *said ? "; " : "", said);
}

static void look_at_processors(doctor *d, const char *directory, const char *task) {
  static const struct {
    const char *task;
    bool texts, media;
  } needs[] = {
#define TASK(name, texts, media) {name, texts, media},
#include "cli/doctor.def"
  };
  bool texts = true, media = false;
  char path[CLI_PATH];
  accel_tokenizer *tokenizer = NULL;
  for (size_t i = 0; i < sizeof needs / sizeof *needs; ++i)
    if (task && !strcmp(needs[i].task, task)) texts = needs[i].texts, media = needs[i].media;
  if (texts && accel_tokenizer_open(d->run->ctx, directory, &tokenizer) != ACCEL_OK)
    doctor_say(d, DOCTOR_WARN, "tokenizer", fetch(d),
               "%s; without it the model takes token ids alone", accel_last_error());
  accel_tokenizer_close(&tokenizer);
  snprintf(path, sizeof path, "%s/preprocessor_config.json", directory);
  if (media && access(path, F_OK))
    doctor_say(d, DOCTOR_WARN, "processor", fetch(d),
               "%s: %s; without it the model takes tensors alone", path, strerror(errno));
}

/* The class of a directory: the first of config.json's architectures; "" when it cannot be told. */
static char *class_of(doctor *d, const char *directory) {
  char path[CLI_PATH], *text = NULL;
  snprintf(path, sizeof path, "%s/config.json", directory);
  if (access(path, R_OK) || cli_file_read(d->run, path, &text, NULL)) return strdup("");
  cJSON *config = cJSON_Parse(text);
  const char *first =
      cJSON_GetStringValue(cJSON_GetArrayItem(doctor_member(config, "architectures"), 0));
  char *copy = strdup(first ? first : "");
  cJSON_Delete(config);
  free(text);
  return copy;
}

/* What accel_check_model said. */
static void say_files(doctor *d, const char *directory, accel_status status) {
  const bool unsupported = status == ACCEL_ERROR_UNSUPPORTED;
  char *own = class_of(d, directory);
  const char *class_name = d->run->value[OPT_ARCHITECTURE], *task;
  if (!class_name) class_name = own ? own : "";
  task = accel_architecture_task(class_name);
  if (status == ACCEL_OK) {
    doctor_say(d, DOCTOR_OK, "model", NULL,
               "%s: %s%s%s; configuration, weights and their shapes belong together", directory,
               class_name, task ? ", " : "", task ? task : "");
    look_at_processors(d, directory, task);
  } else if (unsupported) {
    say_failure(d, "model",
                task ? doctor_command(REMEDY_ARCHITECTURES, NULL, NULL)
                     : doctor_command(REMEDY_NEW_MODEL, d->model, NULL));
  } else {
    say_failure(d, "model",
                access(d->model, F_OK) ? fetch(d) : doctor_command(REMEDY_LIST, directory, NULL));
  }
  free(own);
}

void doctor_model(doctor *d) {
  char *directory;
  const accel_registry_entry *entry;
  if (accel_find_model(d->run->ctx, d->model, &directory) != ACCEL_OK) {
    char *message = strdup(accel_last_error());
    const bool listed = accel_registry_lookup(d->run->ctx, d->model, &entry) == ACCEL_OK;
    doctor_say(d, DOCTOR_FAIL, "model",
               listed                  ? doctor_command(REMEDY_DOWNLOAD, entry->model, NULL)
               : strchr(d->model, '/') ? fetch_command(d->model)
                                       : doctor_command(REMEDY_SEARCH, d->model, NULL),
               "%s%s", message ? message : "",
               listed ? "; what follows is reckoned from the registry's shape" : "");
    free(message);
    d->no_model = !listed;
    return;
  }
  accel_init_params how = accel_init_params_default();
  how.architecture = d->run->value[OPT_ARCHITECTURE];
  how.random_weights = 1; /* first without the weights: can it be built at all? */
  accel_status status = accel_check_model(d->run->ctx, d->model, &how);
  d->no_model = status != ACCEL_OK;
  how.random_weights = 0;
  if (status == ACCEL_OK) status = accel_check_model(d->run->ctx, d->model, &how);
  say_files(d, directory, status);
  accel_string_free(&directory);
}

/* ---- what it needs ---- */

void doctor_dependencies(doctor *d) {
  accel_strings *needs = NULL;
  if (d->no_model) return;
  const char *hardware = d->chosen.name ? d->chosen.hardware : NULL;
  const accel_status status =
      accel_get_dependencies(d->run->ctx, d->model, hardware, d->precision, &needs);
  if (status == ACCEL_ERROR_UNKNOWN_MODEL) {
    doctor_say(d, DOCTOR_OK, "dependencies", NULL, "the registry does not list the model");
    return;
  }
  if (status != ACCEL_OK) {
    d->code = accel_status_exit_code(status);
    say_failure(d, "dependencies", NULL);
    return;
  }
  for (uint32_t i = 0; i < needs->n; ++i)
    if (!strncmp(needs->item[i], "unsupported: ", 13))
      doctor_say(d, DOCTOR_WARN, "dependencies",
                 doctor_command(REMEDY_DEPS, d->model, hardware ? hardware : "cpu"), "%s",
                 needs->item[i] + 13);
  if (hardware) /* its self-test passed: what the hardware needs is there */
    doctor_say(d, DOCTOR_OK, "dependencies", NULL,
               "what %s needs is there: %s passed its self-test", hardware, d->chosen.name);
  for (uint32_t i = 0; cli_flag(d->run, OPT_VERBOSE) && i < needs->n; ++i)
    if (strncmp(needs->item[i], "unsupported: ", 13) != 0)
      doctor_say(d, DOCTOR_OK, "dependencies", NULL, "%s", needs->item[i]);
  accel_strings_free(&needs);
}

/* ---- what devices can do ---- */

/* "native: fp32 int8; emulated: fp16; not: fp8" */
static void tell_answers(const cJSON *answers, char *into, size_t size) {
  static const char *const kinds[][2] = {
      {"native", "native: "}, {"emulated", "emulated: "}, {"no", "not: "}};
  size_t at = 0;
  into[0] = 0;
  for (int k = 0; k < 3; ++k) {
    const cJSON *p;
    const char *before = kinds[k][1];
    cJSON_ArrayForEach(p, answers) {
      if (at + 40 >= size || strcmp(cli_json_word(p, "answer"), kinds[k][0]) != 0) continue;
      at += (size_t)snprintf(into + at, size - at, "%s%s%s", at && *before != ' ' ? "; " : "",
                             before, p->string);
      before = " ";
    }
  }
}

/* false: the device cannot run it at the precision asked for. */
static bool say_support(doctor *d, const accel_device_info *device, const cJSON *answers) {
  char text[512];
  const cJSON *asked = d->precision ? doctor_member(answers, d->precision) : NULL;
  const char *answer = cli_json_word(asked, "answer"), *why = cli_json_word(asked, "why");
  if (!asked) {
    tell_answers(answers, text, sizeof text);
    doctor_say(d, DOCTOR_OK, "supports", NULL, "%s: %s", device->name, text);
    return true;
  }
  if (strcmp(answer, "no") != 0) {
    doctor_say(d, DOCTOR_OK, "supports", NULL, "%s: %s at %s%s%s", device->name, answer,
               d->precision, *why ? ": " : "", why);
    return true;
  }
  doctor_say(d, d->run->value[OPT_DEVICE] ? DOCTOR_FAIL : DOCTOR_WARN, "supports",
             doctor_command(REMEDY_MATRIX, d->model, NULL), "%s: not at %s: %s", device->name,
             d->precision, why);
  return false;
}

void doctor_supports(doctor *d) {
  char *text = NULL;
  bool any = false, asked = false;
  if (d->no_model) return;
  if (accel_matrix_json(d->run->ctx, d->model, &text) != ACCEL_OK) {
    doctor_say(d, DOCTOR_WARN, "supports", NULL, "not asked of the devices: %s",
               accel_last_error());
    return;
  }
  cJSON *root = cJSON_Parse(text);
  const cJSON *model = cJSON_GetArrayItem(doctor_member(root, "models"), 0),
              *capable = doctor_member(model, "capable");
  for (uint32_t i = 0; i < d->devices->n; ++i) {
    const cJSON *answers = doctor_member(capable, d->devices->item[i].name);
    if (!answers || !doctor_considers(d, &d->devices->item[i])) continue;
    asked = true;
    any = say_support(d, &d->devices->item[i], answers) || any;
  }
  if (!cJSON_IsObject(capable))
    doctor_say(d, DOCTOR_WARN, "supports", NULL, "not asked of the devices: %s",
               cli_json_word(model, "why"));
  else if (asked && !any && !d->run->value[OPT_DEVICE])
    doctor_say(d, DOCTOR_FAIL, "supports", doctor_command(REMEDY_MATRIX, d->model, NULL),
               "no device here runs it at %s", d->precision);
  cJSON_Delete(root);
  accel_string_free(&text);
}

/* ---- what fits ---- */

static bool is_considered(const doctor *d, const char *name) {
  for (uint32_t i = 0; i < d->devices->n; ++i)
    if (!strcmp(d->devices->item[i].name, name)) return doctor_considers(d, &d->devices->item[i]);
  return false;
}

/* Of a device's records the one at the precision asked for, else fp32; fits: names of those that
 * fit; *best: the first of them. */
static const accel_fit_record *choose_record(const accel_fit_report *r, const char *device,
                                             char fits[128], const char **best) {
  const accel_fit_record *chosen = NULL;
  size_t at = 0;
  fits[0] = 0;
  *best = NULL;
  for (uint32_t i = 0; i < r->n; ++i) {
    const accel_fit_record *f = &r->record[i];
    if (strcmp(f->device, device) != 0) continue;
    if (!chosen || !strcmp(f->precision, "fp32")) chosen = f;
    if (f->fits != 1) continue;
    if (!*best) *best = f->precision;
    at += (size_t)snprintf(fits + at, 128 - at, "%s%.8s", at ? " " : "", f->precision);
  }
  return chosen;
}

/* none: what does not fit here fits nowhere. */
static void say_fit(doctor *d, const accel_fit_record *f, const char *fits, const char *best,
                    bool none) {
  char total[32], left[32];
  cli_bytes(f->peak, total, sizeof total);
  cli_bytes(f->available, left, sizeof left);
  if (f->fits < 0)
    doctor_say(d, DOCTOR_WARN, "fit", doctor_command(REMEDY_MATRIX, d->model, NULL), "%s at %s: %s",
               f->device, f->precision, f->reason);
  else if (f->fits)
    doctor_say(d, DOCTOR_OK, "fit", NULL, "%s at %s%s %s of %s%s%s", f->device, f->precision,
               f->streams ? " streams its weights through" : " takes", total,
               f->available ? left : "memory whose size is not known",
               d->precision ? "" : "; it fits at ", d->precision ? "" : fits);
  else if (best)
    doctor_say(d, DOCTOR_WARN, "fit", doctor_command(REMEDY_OTHER_PRECISION, d->model, best),
               "%s at %s takes %s of %s; it fits at %s", f->device, f->precision, total, left,
               fits);
  else
    doctor_say(d, none ? DOCTOR_FAIL : DOCTOR_WARN, "fit",
               doctor_command(REMEDY_FIT, d->model, NULL), "%s at %s takes %s of %s: %s", f->device,
               f->precision, total, left, f->advice);
}

static void say_fits(doctor *d, const accel_fit_report *r) {
  bool none = true;
  for (uint32_t i = 0; i < r->n; ++i)
    none &= r->record[i].fits != 1 || !is_considered(d, r->record[i].device);
  for (uint32_t i = 0; i < r->n; ++i) {
    const char *device = r->record[i].device, *best;
    char fits[128];
    if ((i && !strcmp(r->record[i - 1].device, device)) || !is_considered(d, device)) continue;
    const accel_fit_record *f = choose_record(r, device, fits, &best);
    say_fit(d, f, fits, best, none);
  }
}

void doctor_fit(doctor *d) {
  accel_fit_params params = accel_fit_params_default();
  accel_fit_report *report;
  if (d->run->value[OPT_DEVICE]) params.device = d->chosen.name;
  if (d->no_model) return;
  if (d->run->value[OPT_DEVICE] && !d->chosen.name) return; /* said by the devices */
  params.precision = d->precision;
  params.batch = (uint32_t)cli_count(d->run, OPT_BATCH, 0);
  params.seq = (uint32_t)cli_count(d->run, OPT_SEQ, 0);
  params.architecture = d->run->value[OPT_ARCHITECTURE];
  const accel_status status = accel_fit(d->run->ctx, d->model, &params, &report);
  if (status == ACCEL_OK) {
    say_fits(d, report);
    accel_fit_report_free(&report);
  } else {
    doctor_say(d, DOCTOR_WARN, "fit", doctor_command(REMEDY_FIT, d->model, NULL), "%s",
               accel_last_error());
  }
}
