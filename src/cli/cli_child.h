/* cli_child.h - processes of the tool in which models run: a driver that crashes or hangs ends no
 * more than one of them. */
#ifndef ACCEL_CLI_CHILD_H
#define ACCEL_CLI_CHILD_H

#include <stdbool.h>
#include <sys/types.h>

/* All 0: none runs. */
typedef struct cli_child {
  pid_t pid;
  int to, from; /* pipes: what it reads, and what it writes */
} cli_child;

/* Runs in the child, which ends with what it answers as exit code. */
typedef int cli_child_work(void *user, int in, int out);

/* Forks.  The child is killed when the thread that forked ends.  false: errno. */
bool cli_child_start(cli_child *child, cli_child_work *work, void *user);
/* Waits for the end of a child, which kill_it makes it come to; the status, as of waitpid; 0 of
 * none. */
int cli_child_end(cli_child *child, bool kill_it);
/* The same, but a child that is not done after so many seconds (0: no limit) is killed; *late says
 * whether. */
int cli_child_wait(cli_child *child, double seconds, bool *late);

#endif
