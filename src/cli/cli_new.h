/* cli_new.h - what accel new shares: whom it writes for, and the files that it is about to write. */
#ifndef ACCEL_CLI_NEW_H
#define ACCEL_CLI_NEW_H

#include "cli/cli.h"

/* A model that a test or an example is written for.  All strings are to be freed. */
typedef struct new_subject {
  char *word; /* in names of files */
  char *class_name;
  char *model;      /* directory, absolute, or org/name */
  char *golden;     /* absolute; "": none, which only examples do without */
  const char *kind; /* of the example */
} new_subject;
typedef struct new_subjects {
  uint32_t n;
  new_subject *item;
} new_subjects;

/* Whom --model, --family, --batch and --key-models name.  Of --key-models those without a golden
 * are noted and left out; any other is an error.  0 or an exit code; free the result in any
 * case. */
int new_subjects_choose(cli_run *run, bool goldens_needed, new_subjects *out);
void new_subjects_free(new_subjects *subjects);

/* A file that is to be written. */
typedef struct new_file {
  char *path, *text;
  const char *state; /* "written", "unchanged" or, with --missing, "kept" */
} new_file;
typedef struct new_files {
  uint32_t n;
  new_file *item;
  bool no_memory;
} new_files;
/* Adds a file below --output; takes `text` (NULL: no memory). */
void new_files_add(cli_run *run, new_files *files, const char *name, char *text);
/* Writes all, or none where one is there with another text and neither --force nor --missing was
 * given.  0 or an exit code. */
int new_files_write(cli_run *run, new_files *files);
void new_files_free(new_files *files);

/* accel new model (cli_new_model.c): adds the files of an architecture.  *next: the command that
 * comes after, to be freed. */
int new_model(cli_run *run, new_files *files, char **next);

#endif
