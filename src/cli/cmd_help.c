/* cmd_help.c - accel help: help texts, the manual page and completion for bash, all from the tables
 * of commands and options. */
#include <string.h>

#include "cli/cli_print.h"

static const char *const exit_codes[][2] = {
    {"0", "success"},
    {"1", "the call failed: a file, memory, a driver, a time limit"},
    {"2", "the command line is wrong"},
    {"3", "this model, op or precision is not supported"},
    {"4", "the device asked for cannot serve"},
    {"5", "the model does not fit the memory"},
    {"6", "numbers are outside their bounds"},
};

/* "-d, --device NAME" */
static const char *option_head(const cli_option *o, char *into, size_t size) {
  char letter[8] = "    ";
  if (o->letter) snprintf(letter, sizeof letter, "-%c, ", o->letter);
  if (o->kind == CLI_FLAG)
    snprintf(into, size, "%s--%s", letter, o->name);
  else if (o->kind == CLI_MAYBE)
    snprintf(into, size, "%s--%s[=%s]", letter, o->name,
             strcmp(o->value, "-") == 0 ? "FILE" : o->value);
  else
    snprintf(into, size, "%s--%s %s", letter, o->name, o->value);
  return into;
}

/* Is a part of a help text addressed to commands ("translate, bench: ...")?  Then *skip is the
 * length of the address, and *mine says whether c is one of them. */
static bool addressed(const char *part, const cli_command *c, size_t *skip, bool *mine) {
  bool found = false;
  for (const char *name = part;; name += 2) {
    const size_t n = strcspn(name, ":,; ");
    bool known = false;
    for (size_t i = 0; i < cli_command_count; ++i)
      known |= strlen(cli_commands[i].name) == n && strncmp(name, cli_commands[i].name, n) == 0;
    if (!known) return false;
    found |= strlen(c->name) == n && strncmp(name, c->name, n) == 0;
    name += n;
    if (strncmp(name, ": ", 2) == 0) {
      *skip = (size_t)(name - part) + 2;
      *mine = found;
      return true;
    }
    if (strncmp(name, ", ", 2) != 0) return false;
  }
}

/* Appends the parts of a help text that are meant for c: those addressed to it, or those addressed
 * to nobody.  A part without an address behind one with an address goes with that. */
static size_t take_parts(const char *text, const cli_command *c, bool own, char *into,
                         size_t size) {
  size_t used = 0;
  bool mine = !own;
  for (const char *part = text; *part;) {
    const char *next = strstr(part, "; ");
    const size_t n = next ? (size_t)(next - part) : strlen(part);
    size_t skip = 0;
    if (addressed(part, c, &skip, &mine)) mine = mine && own;
    if (mine && used < size)
      used += (size_t)snprintf(into + used, size - used, "%s%.*s", used ? "; " : "",
                               (int)(n - skip), part + skip);
    part += n + (next ? 2 : 0);
  }
  return used;
}

static const char *help_for(const cli_option *o, const cli_command *c, char *into, size_t size) {
  return take_parts(o->help, c, true, into, size) || take_parts(o->help, c, false, into, size)
             ? into
             : o->help;
}

/* For one command; NULL: for all. */
static void print_option(const cli_option *o, const cli_command *c) {
  enum { INDENT = 28 };
  char head[160], help[600];
  option_head(o, head, sizeof head);
  if (strlen(head) + 4 > INDENT)
    printf("  %s\n%*s", head, INDENT, "");
  else
    printf("  %-*s", INDENT - 2, head);
  cli_print_wrapped(c ? help_for(o, c, help, sizeof help) : o->help, INDENT,
                    cli_columns(stdout) - INDENT - 1);
}

static void print_overview(void) {
  printf(
      "accel - runs Hugging Face models straight from their directories, on the hardware at "
      "hand\n\nusage: accel COMMAND "
      "[OPTIONS] [ARGUMENTS]\n\n");
  for (size_t i = 0; i < cli_command_count; ++i)
    printf("  %-17s%s\n", cli_commands[i].name, cli_commands[i].summary);
  printf(
      "\nMODEL is a directory, or org/name[@revision] in $XDG_CACHE_HOME/accel/models or in the "
      "Hugging Face "
      "cache.\n\noptions of every command:\n");
  for (int id = 0; id < OPT_COMMON; ++id) print_option(&cli_options[id], NULL);
  printf(
      "\nEach option has a twin in the environment: --device is ACCEL_DEVICE; the option "
      "wins.\nResults go to stdout, "
      "everything else to stderr.\n\nexit codes:\n");
  for (size_t i = 0; i < sizeof exit_codes / sizeof exit_codes[0]; ++i)
    printf("  %s  %s\n", exit_codes[i][0], exit_codes[i][1]);
}

static void print_command(const cli_command *c) {
  printf("accel %s - %s\n\nusage: accel %s%s%s [OPTIONS]\n", c->name, c->summary, c->name,
         *c->operands ? " " : "", c->operands);
  if (*c->details) printf("\n%s\n", c->details);
  if (*c->options != OPT_END) printf("\noptions:\n");
  for (const uint8_t *o = c->options; *o != OPT_END; ++o) print_option(&cli_options[*o], c);
  printf("\noptions of every command:\n");
  for (int id = 0; id < OPT_COMMON; ++id)
    if (cli_takes(c, (cli_option_id)id)) print_option(&cli_options[id], c);
}

/* ---- manual page ---- */

static void roff(const char *text) {
  bool line_start = true;
  for (const char *s = text; *s; ++s) {
    if (line_start && (*s == '.' || *s == '\'')) fputs("\\&", stdout);
    if (*s == '\\')
      fputs("\\e", stdout);
    else if (*s == '-')
      fputs("\\-", stdout);
    else
      putchar(*s);
    line_start = *s == '\n';
  }
}

static void roff_option(const cli_option *o) {
  char head[160];
  fputs(".TP\n.B ", stdout);
  const char *text = option_head(o, head, sizeof head);
  roff(text + strspn(text, " "));
  putchar('\n');
  roff(o->help);
  putchar('\n');
}

static void print_man(void) {
  printf(
      ".TH ACCEL 1 \"\" \"libaccel %s\" \"User Commands\"\n.SH NAME\naccel \\- runs Hugging Face "
      "models on the hardware at "
      "hand\n",
      accel_version());
  printf(
      ".SH SYNOPSIS\n.B accel\n.I COMMAND\n[\\fIOPTIONS\\fR] [\\fIARGUMENTS\\fR]\n.SH "
      "DESCRIPTION\n");
  roff(
      "Runs models straight from their directories (config.json, safetensors, tokenizer.json).  "
      "MODEL is a directory, or "
      "org/name[@revision]\n"
      "in $XDG_CACHE_HOME/accel/models or in the Hugging Face cache.  Results go to stdout, "
      "everything else to stderr.\n");
  printf(".SH COMMANDS\n");
  for (size_t i = 0; i < cli_command_count; ++i) {
    const cli_command *c = &cli_commands[i];
    printf(".SS accel %s ", c->name);
    roff(c->operands);
    putchar('\n');
    roff(c->summary);
    printf(".\n.br\n");
    for (const char *line = c->details; *line;) {
      int n = (int)strcspn(line, "\n");
      char text[512];
      snprintf(text, sizeof text, "%.*s", n, line);
      if (strncmp(line, "Example", 7) == 0) fputs(".br\n", stdout);
      roff(text);
      putchar('\n');
      line += n + (line[n] == '\n');
    }
    for (const uint8_t *o = c->options; *o != OPT_END; ++o) roff_option(&cli_options[*o]);
  }
  printf(".SH OPTIONS OF EVERY COMMAND\n");
  for (int id = 0; id < OPT_COMMON; ++id) roff_option(&cli_options[id]);
  printf(".SH ENVIRONMENT\n");
  roff(
      "Each option has a twin: --device is ACCEL_DEVICE, --cache-dir is ACCEL_CACHE_DIR; the "
      "option wins.  NO_COLOR is "
      "obeyed.\n");
  printf(".SH EXIT STATUS\n");
  for (size_t i = 0; i < sizeof exit_codes / sizeof exit_codes[0]; ++i)
    printf(".TP\n.B %s\n%s\n", exit_codes[i][0], exit_codes[i][1]);
}

/* ---- completion ---- */

static void print_words(const cli_command *c) {
  for (int id = 0; id < OPT_END; ++id) {
    if (cli_takes(c, (cli_option_id)id)) printf(" --%s", cli_options[id].name);
  }
}

static void print_completion(void) {
  printf(
      "# completion of accel for bash; made by: accel help --completion\n_accel() {\n"
      "  local word=${COMP_WORDS[COMP_CWORD]} before=${COMP_WORDS[COMP_CWORD-1]} options=\n  "
      "COMPREPLY=()\n"
      "  if [ \"$COMP_CWORD\" -eq 1 ]; then\n    COMPREPLY=($(compgen -W \"");
  for (size_t i = 0; i < cli_command_count; ++i) printf("%s%s", i ? " " : "", cli_commands[i].name);
  printf("\" -- \"$word\"))\n    return\n  fi\n  case $before in\n");
  printf(
      "    --device|-d) COMPREPLY=($(compgen -W \"auto cpu gpu rocm cuda opencl vulkan reference\" "
      "-- \"$word\")); return "
      ";;\n");
  printf(
      "    --precision|-p) COMPREPLY=($(compgen -W \"auto fp32 fp16 bf16 int8 int4 uint4 fp8 fp4\" "
      "-- \"$word\")); return "
      ";;\n");
  for (int id = 0; id < OPT_END; ++id) {
    const cli_option *o = &cli_options[id];
    if (o->kind != CLI_CHOICE) continue;
    printf("    --%s) COMPREPLY=($(compgen -W \"", o->name);
    for (const char *s = o->value; *s; ++s) putchar(*s == '|' ? ' ' : *s);
    printf("\" -- \"$word\")); return ;;\n");
  }
  printf("  esac\n  case ${COMP_WORDS[1]} in\n");
  for (size_t i = 0; i < cli_command_count; ++i) {
    printf("    %s) options=\"", cli_commands[i].name);
    print_words(&cli_commands[i]);
    printf("\" ;;\n");
  }
  printf(
      "  esac\n  case $word in\n    -*) COMPREPLY=($(compgen -W \"$options\" -- \"$word\")) ;;\n"
      "    *) COMPREPLY=($(compgen -f -- \"$word\")) ;;\n  esac\n}\ncomplete -o filenames -F "
      "_accel accel\n");
}

int cmd_help(cli_run *run) {
  if (cli_flag(run, OPT_MAN)) {
    print_man();
    return 0;
  }
  if (cli_flag(run, OPT_COMPLETION)) {
    print_completion();
    return 0;
  }
  if (!run->n_args) {
    print_overview();
    return 0;
  }
  const char *names[64];
  size_t n = 0;
  for (; n < cli_command_count && n < 64; ++n) {
    names[n] = cli_commands[n].name;
    if (strcmp(names[n], run->args[0]) != 0) continue;
    print_command(&cli_commands[n]);
    return 0;
  }
  const char *near = cli_nearest(run->args[0], names, n);
  return near ? cli_usage(run, "unknown sub-command '%s'; did you mean '%s'?", run->args[0], near)
              : cli_usage(run, "unknown sub-command '%s'", run->args[0]);
}
