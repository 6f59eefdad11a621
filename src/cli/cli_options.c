/* cli_options.c - the option table, and parsing of command line and environment. */
#include <ctype.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "cli/cli.h"
#include "core/size.h"

const cli_option cli_options[OPT_END] = {
#define OPTION(id, name, letter, kind, value, min, max, help) \
  {name, letter, CLI_##kind, value, min, max, help},
#include "cli/options.def"
};

bool cli_takes(const cli_command *command, cli_option_id id) {
  bool shadowed = false; /* a common one, by an option of the command with its name */
  for (const uint8_t *o = command->options; *o != OPT_END; ++o) {
    if (*o == id) return true;
    shadowed |= !strcmp(cli_options[*o].name, cli_options[id].name);
  }
  return id < OPT_COMMON && !shadowed;
}

/* The variable of its name belongs to a common option. */
static bool has_no_twin(cli_option_id id) {
  for (int common = 0; id >= OPT_COMMON && common < OPT_COMMON; ++common)
    if (!strcmp(cli_options[common].name, cli_options[id].name)) return true;
  return false;
}

int64_t cli_count(const cli_run *run, cli_option_id id, int64_t otherwise) {
  return run->value[id] ? strtoll(run->value[id], NULL, 10) : otherwise;
}

double cli_number(const cli_run *run, cli_option_id id, double otherwise) {
  return run->value[id] ? strtod(run->value[id], NULL) : otherwise;
}

void cli_size(const cli_run *run, cli_option_id id, uint64_t *bytes) {
  if (run->value[id]) accel__parse_bytes(run->value[id], bytes);
}

/* Edits (insert, remove, replace) from a to b; both are short. */
static size_t distance(const char *a, const char *b) {
  size_t row[64], n = strlen(b);
  if (n >= 64) return 64;
  for (size_t j = 0; j <= n; ++j) row[j] = j;
  for (size_t i = 1; a[i - 1]; ++i) {
    size_t corner = row[0];
    row[0] = i;
    for (size_t j = 1; j <= n; ++j) {
      size_t replaced = corner + (a[i - 1] != b[j - 1]);
      corner = row[j];
      size_t best = row[j] < row[j - 1] ? row[j] + 1 : row[j - 1] + 1;
      row[j] = replaced < best ? replaced : best;
    }
  }
  return row[n];
}

const char *cli_nearest(const char *given, const char *const *words, size_t n) {
  const char *best = NULL;
  size_t least = strlen(given) < 5 ? 2 : 3;
  for (size_t i = 0; i < n; ++i) {
    size_t far = strlen(given) >= 3 && strncmp(words[i], given, strlen(given)) == 0
                     ? 1
                     : distance(given, words[i]);
    if (far < least) least = far, best = words[i];
  }
  return best;
}

bool cli_split(const char *text, char ***list, uint32_t *n) {
  size_t size = strlen(text) + 1, most = size / 2 + 1;
  char **words = malloc(most * sizeof *words + size);
  if (!words) return false;
  char *copy = (char *)(words + most);
  memcpy(copy, text, size);
  *n = 0;
  for (char *rest = copy, *word; (word = strsep(&rest, ",")) != NULL;) {
    while (*word == ' ') ++word;
    if (*word) words[(*n)++] = word;
  }
  *list = words;
  return true;
}

/* Is `word` one of "a|b|c"? */
static bool one_of(const char *word, const char *choices) {
  size_t n = strlen(word);
  for (const char *at = choices; *at;) {
    size_t length = strcspn(at, "|");
    if (length == n && strncmp(at, word, n) == 0) return true;
    at += length + (at[length] == '|');
  }
  return false;
}

static int check_value(const cli_run *run, cli_option_id id, const char *from, const char *value) {
  const cli_option *o = &cli_options[id];
  if (o->kind == CLI_COUNT) {
    char *end;
    errno = 0;
    long long number = strtoll(value, &end, 10);
    if (end == value || *end || errno || number < o->min || number > o->max)
      return cli_usage(run, "%s takes a whole number from %lld to %lld, not '%s'", from,
                       (long long)o->min, (long long)o->max, value);
  } else if (o->kind == CLI_NUMBER) {
    char *end;
    double number = strtod(value, &end);
    if (end == value || *end || !(number >= (double)o->min && number <= (double)o->max))
      return cli_usage(run, "%s takes a number from %lld to %lld, not '%s'", from,
                       (long long)o->min, (long long)o->max, value);
  } else if (o->kind == CLI_SIZE) {
    uint64_t bytes;
    if (!accel__parse_bytes(value, &bytes))
      return cli_usage(run, "%s takes a size such as 512M or 20G, not '%s'", from, value);
  } else if (o->kind == CLI_CHOICE && !one_of(value, o->value)) {
    return cli_usage(run, "%s takes one of %s, not '%s'", from, o->value, value);
  } else if (id == OPT_DUMP_PROGRAM && strcmp(value, "1") != 0 && !one_of(value, o->value)) {
    return cli_usage(run, "%s takes one of %s, not '%s'", from, o->value, value);
  }
  return 0;
}

static int unknown_option(const cli_run *run, const char *given) {
  const char *names[OPT_END], *name = given + strspn(given, "-");
  size_t n = 0;
  for (int id = 0; id < OPT_END; ++id) {
    if (strcmp(cli_options[id].name, name) == 0)
      return cli_usage(run, "--%s is not an option of 'accel %s'", name, run->command->name);
    if (cli_takes(run->command, (cli_option_id)id)) names[n++] = cli_options[id].name;
  }
  const char *near = given[1] == '-' ? cli_nearest(name, names, n) : NULL;
  return near ? cli_usage(run, "unknown option '%s'; did you mean --%s?", given, near)
              : cli_usage(run, "unknown option '%s'", given);
}

/* The option that `arg` names ("--name", "--name=value", "-x", "-xvalue"); *value: what is attached
 * to it, or NULL. */
static cli_option_id find_option(const cli_run *run, const char *arg, const char **value) {
  bool is_long = arg[1] == '-';
  size_t n = is_long ? strcspn(arg + 2, "=") : 1;
  *value = is_long ? (arg[2 + n] ? arg + 2 + n + 1 : NULL) : (arg[2] ? arg + 2 : NULL);
  for (int id = 0; id < OPT_END; ++id) {
    const cli_option *o = &cli_options[id];
    bool match = is_long ? strlen(o->name) == n && strncmp(o->name, arg + 2, n) == 0
                         : o->letter && o->letter == arg[1];
    if (match && cli_takes(run->command, (cli_option_id)id)) return (cli_option_id)id;
  }
  return OPT_END;
}

/* One option at argv[*i]; moves *i to its last argument. */
static int parse_option(cli_run *run, int argc, char **argv, int *i) {
  const char *arg = argv[*i], *value;
  cli_option_id id = find_option(run, arg, &value);
  if (id == OPT_END) {
    char name[64];
    snprintf(name, sizeof name, "%.*s", (int)(arg[1] == '-' ? strcspn(arg, "=") : 2), arg);
    return unknown_option(run, name);
  }
  const cli_option *o = &cli_options[id];
  char from[64];
  snprintf(from, sizeof from, "--%s", o->name);
  const char *next = *i + 1 < argc ? argv[*i + 1] : NULL;
  if (o->kind == CLI_FLAG) {
    if (value) return cli_usage(run, "%s takes no value", from);
    value = "1";
  } else if (o->kind == CLI_MAYBE) {
    const bool number =
        next && !strcmp(o->value, "N") && *next && !next[strspn(next, "0123456789")];
    if (!value && next && (number || one_of(next, o->value))) value = next, ++*i;
    if (!value || !*value) value = "1";
  } else if (!value) {
    if (!next) return cli_usage(run, "%s needs a value: --%s %s", from, o->name, o->value);
    value = next, ++*i;
  }
  int code = check_value(run, id, from, value);
  if (!code) run->value[id] = value;
  if (!code && o->kind == CLI_TEXTS) {
    run->given[run->n_given++] = cli_options[id].name;
    run->given[run->n_given++] = value;
  }
  return code;
}

int cli_one_precision(const cli_run *run) {
  return run->value[OPT_PRECISION_PROFILE]
             ? cli_usage(run,
                         "what it does is for one precision of all layers: without "
                         "--precision-profile")
             : 0;
}

const char **cli_values(const cli_run *run, cli_option_id id, uint32_t *n) {
  const char **list = malloc((run->n_given + 1) * sizeof *list);
  *n = 0;
  for (uint32_t i = 0; list && i < run->n_given; i += 2)
    if (run->given[i] == cli_options[id].name) list[(*n)++] = run->given[i + 1];
  if (list && !*n && run->value[id]) list[(*n)++] = run->value[id]; /* from the environment */
  if (list && *n) return list;
  free(list);
  return NULL;
}

/* Options that were not given take the value of their twin in the environment; an empty variable
 * counts as none. */
static int parse_environment(cli_run *run) {
  for (int id = 0; id < OPT_END; ++id) {
    if (run->value[id] || id == OPT_HELP || has_no_twin((cli_option_id)id) ||
        !cli_takes(run->command, (cli_option_id)id))
      continue;
    char name[64] = "ACCEL_";
    for (size_t k = 0; k <= strlen(cli_options[id].name); ++k) {
      char c = cli_options[id].name[k];
      name[6 + k] = c == '-' ? '_' : (char)toupper((unsigned char)c);
    }
    const char *value = getenv(name);
    if (!value || !*value) continue;
    if (cli_options[id].kind == CLI_FLAG || cli_options[id].kind == CLI_MAYBE) {
      if (one_of(value, "0|no|off|false")) continue;
      if (cli_options[id].kind == CLI_FLAG && !one_of(value, "1|yes|on|true"))
        return cli_usage(run, "the environment's %s must be 1 or 0, not '%s'", name, value);
      if (one_of(value, "1|yes|on|true")) value = "1";
    }
    int code = check_value(run, (cli_option_id)id, name, value);
    if (code) return code;
    run->value[id] = value;
  }
  return 0;
}

/* --adapter and --lora PATH[:SCALE]: a number behind the last colon is the scale. */
static int read_adapters(cli_run *run) {
  uint32_t n;
  size_t bytes = 0;
  const char **paths = cli_values(run, run->value[OPT_LORA] ? OPT_LORA : OPT_ADAPTER, &n);
  if (!paths) return 0;
  for (uint32_t i = 0; i < n; ++i) bytes += sizeof *run->adapters + strlen(paths[i]) + 1;
  run->adapters = malloc(bytes);
  char *text = run->adapters ? (char *)(run->adapters + n) : NULL;
  for (; run->adapters && run->n_adapters < n; ++run->n_adapters) {
    accel_adapter_spec *spec = &run->adapters[run->n_adapters];
    *spec = (accel_adapter_spec){.path = strcpy(text, paths[run->n_adapters]), .scale = 1};
    char *colon = strrchr(text, ':'), *end = colon;
    text += strlen(text) + 1;
    const double scale = colon ? strtod(colon + 1, &end) : 1;
    if (!colon || end == colon + 1 || *end) continue;
    spec->scale = scale;
    *colon = 0;
  }
  free(paths);
  return run->adapters ? 0 : cli_error(run, ACCEL_ERROR_OUT_OF_MEMORY, "out of memory");
}

int cli_parse(cli_run *run, int argc, char **argv) {
  bool only_operands = false;
  run->args = argv + 1; /* operands are moved to the front */
  run->given = malloc(2 * (size_t)argc * sizeof *run->given);
  if (!run->given) return cli_error(run, ACCEL_ERROR_OUT_OF_MEMORY, "out of memory");
  for (int i = 1; i < argc; ++i) {
    if (!only_operands && strcmp(argv[i], "--") == 0) {
      only_operands = true;
    } else if (!only_operands && argv[i][0] == '-' && argv[i][1]) {
      int code = parse_option(run, argc, argv, &i);
      if (code) return code;
    } else {
      run->args[run->n_args++] = argv[i];
    }
  }
  if (cli_flag(run, OPT_HELP)) return 0;
  int code = parse_environment(run);
  if (code) return code;
  const cli_command *c = run->command;
  if (run->n_args < c->min)
    return cli_usage(run, "something is missing: accel %s %s", c->name, c->operands);
  if (c->max >= 0 && run->n_args > c->max)
    return cli_usage(run, "'%s' is one too many: accel %s %s", run->args[c->max], c->name,
                     c->operands);
  return read_adapters(run);
}
