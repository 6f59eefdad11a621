/* cli_child.c - see cli_child.h. */
#include "cli/cli_child.h"

#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "bench/bench_collect.h"

static void close_both(int end[2]) {
  const int why = errno;
  close(end[0]), close(end[1]);
  errno = why;
}

bool cli_child_start(cli_child *child, cli_child_work *work, void *user) {
  const pid_t parent = getpid();
  int to[2], from[2];
  *child = (cli_child){0};
  if (pipe2(to, O_CLOEXEC)) return false;
  if (pipe2(from, O_CLOEXEC)) return close_both(to), false;
  fflush(NULL);
  const pid_t pid = fork();
  if (!pid) {
    close(to[1]), close(from[0]);
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    const int code = getppid() == parent ? work(user, to[0], from[1]) : 1;
    fflush(NULL);
    _exit(code);
  }
  if (pid < 0) return close_both(to), close_both(from), false;
  close(to[0]), close(from[1]);
  *child = (cli_child){pid, to[1], from[0]};
  return true;
}

int cli_child_end(cli_child *child, bool kill_it) {
  int status = 0;
  if (!child->pid) return 0;
  close(child->to), close(child->from);
  if (kill_it) kill(child->pid, SIGKILL);
  while (waitpid(child->pid, &status, 0) < 0 && errno == EINTR) continue;
  *child = (cli_child){0};
  return status;
}

int cli_child_wait(cli_child *child, double seconds, bool *late) {
  const double begin = bench_now_ms();
  char unread[256];
  *late = false;
  for (bool open = true; child->pid && open && !*late;) {
    const double left = 1e3 * seconds - (bench_now_ms() - begin);
    struct pollfd end = {.fd = child->from, .events = POLLIN};
    /* the pipe's other end is closed by the child's end */
    const int ready = poll(&end, 1, seconds > 0 ? (int)fmin(fmax(left, 0), 1e6) : -1);
    if (ready > 0) open = read(child->from, unread, sizeof unread) > 0 || errno == EINTR;
    *late = !ready && seconds > 0 && bench_now_ms() - begin >= 1e3 * seconds;
  }
  return cli_child_end(child, *late);
}
