/* spawn.c - running another program with a time limit: accel-probe and rocm-smi.
 *
 * posix_spawn, a process group of its own, pipes for both outputs.  No signal handler is installed
 * and no child of the application is waited for: only our own process id is. */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "hardware/hardware_internal.h"

extern char **environ;

enum { MAX_OUTPUT = 4 << 20 };

static int64_t now_ms(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (int64_t)t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

static int start(const char *const *argv, const int out[2], const int err[2], pid_t *pid) {
  posix_spawn_file_actions_t actions;
  posix_spawnattr_t attributes;
  sigset_t none, defaults;
  sigemptyset(&none);
  sigemptyset(&defaults);
  sigaddset(&defaults, SIGPIPE);
  sigaddset(&defaults, SIGCHLD);
  if (posix_spawn_file_actions_init(&actions)) return ENOMEM;
  if (posix_spawnattr_init(&attributes)) {
    posix_spawn_file_actions_destroy(&actions);
    return ENOMEM;
  }
  int code = posix_spawn_file_actions_addopen(&actions, 0, "/dev/null", O_RDONLY, 0);
  if (!code) code = posix_spawn_file_actions_adddup2(&actions, out[1], 1);
  if (!code) code = posix_spawn_file_actions_adddup2(&actions, err[1], 2);
  posix_spawnattr_setpgroup(&attributes, 0);
  posix_spawnattr_setsigmask(&attributes, &none);
  posix_spawnattr_setsigdefault(&attributes, &defaults);
  posix_spawnattr_setflags(&attributes,
                           POSIX_SPAWN_SETPGROUP | POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF);
  if (!code) code = posix_spawnp(pid, argv[0], &actions, &attributes, (char *const *)argv, environ);
  posix_spawnattr_destroy(&attributes);
  posix_spawn_file_actions_destroy(&actions);
  return code;
}

/* Reads what is there; false at the end. */
static bool drain(int fd, accel__buffer *into) {
  char bytes[4096];
  ssize_t n = read(fd, bytes, sizeof bytes);
  if (n < 0) return errno == EINTR || errno == EAGAIN;
  if (n > 0 && into->n < MAX_OUTPUT) accel__buffer_bytes(into, bytes, (size_t)n);
  return n > 0;
}

/* How long the program may take.  Past its limit it goes on only where the machine is what is slow:
 * while it gets processor time and has not had limit_ms of that, and at most STARVED times as
 * long.  One that waits for ever is stopped at the limit, one that computes for ever when it has
 * computed so long. */
enum { STARVED = 6, WINDOWS = 2, LEAST_SHARE = 400 };
typedef struct watch {
  clockid_t clock; /* of the program's processor time */
  bool has_clock, advances;
  int64_t start, limit_ms, window, used; /* processor time at the beginning of the window */
} watch;

static watch watch_start(pid_t pid, int64_t start, uint32_t limit_ms) {
  watch w = {.start = start, .limit_ms = limit_ms, .window = start};
  w.has_clock = clock_getcpuclockid(pid, &w.clock) == 0;
  return w;
}

static int64_t used_ms(const watch *w) {
  struct timespec t;
  if (!w->has_clock || clock_gettime(w->clock, &t)) return 0;
  return (int64_t)t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

/* Milliseconds until the next look; 0: its time is over. */
static int watch_left(watch *w) {
  const int64_t now = now_ms(), used = used_ms(w), length = w->limit_ms / WINDOWS + 1,
                passed = now - w->start;
  if (now - w->window >= length) {
    w->advances = (used - w->used) * LEAST_SHARE >= now - w->window;
    w->window = now;
    w->used = used;
  }
  if (passed < w->limit_ms) return w->limit_ms - passed > 1000 ? 1000 : (int)(w->limit_ms - passed);
  return w->advances && used < w->limit_ms && passed < STARVED * w->limit_ms ? 50 : 0;
}

static void collect(int out, int err, watch *w, accel__spawned *s) {
  struct pollfd poll_fd[2] = {{.fd = out, .events = POLLIN}, {.fd = err, .events = POLLIN}};
  while (poll_fd[0].fd >= 0 || poll_fd[1].fd >= 0) {
    const int left = watch_left(w);
    if (left <= 0) {
      s->timed_out = true;
      return;
    }
    int n = poll(poll_fd, 2, left);
    if (n < 0 && errno != EINTR) return;
    for (int i = 0; n > 0 && i < 2; i++)
      if (poll_fd[i].fd >= 0 && poll_fd[i].revents && !drain(poll_fd[i].fd, i ? &s->err : &s->out))
        poll_fd[i].fd = -1;
  }
}

/* The pipes may be closed by a program that goes on: it has the rest of the time, too.  The group
 * is killed while the ended child still holds its number, so that no other process can have it. */
static void finish(pid_t pid, watch *w, accel__spawned *s) {
  int status = 0;
  pid_t got = 0;
  siginfo_t info = {0};
  while (!s->timed_out && waitid(P_PID, (id_t)pid, &info, WEXITED | WNOHANG | WNOWAIT) == 0 &&
         info.si_pid == 0) {
    if (watch_left(w) <= 0)
      s->timed_out = true;
    else
      nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
  }
  s->waited_ms = now_ms() - w->start;
  kill(-pid, SIGKILL);
  while ((got = waitpid(pid, &status, 0)) < 0 && errno == EINTR) continue;
  s->exit_code = -1;
  /* the application ignores SIGCHLD: the system has already forgotten the child */
  if (got != pid) return;
  if (WIFEXITED(status)) s->exit_code = WEXITSTATUS(status);
  if (WIFSIGNALED(status)) s->signal = WTERMSIG(status);
}

static void close_pair(int pair[2]) {
  for (int i = 0; i < 2; i++)
    if (pair[i] >= 0) close(pair[i]);
}

accel_status accel__spawn(const char *const *argv, uint32_t timeout_ms, accel__spawned *s) {
  int out[2] = {-1, -1}, err[2] = {-1, -1};
  pid_t pid = 0;
  memset(s, 0, sizeof *s);
  if (pipe2(out, O_CLOEXEC) || pipe2(err, O_CLOEXEC)) {
    int code = errno;
    close_pair(out);
    close_pair(err);
    return accel__fail(ACCEL_ERROR_IO, "%s: no pipe: %s", argv[0], strerror(code));
  }
  const int64_t begun = now_ms();
  int code = start(argv, out, err, &pid);
  close(out[1]);
  close(err[1]);
  if (!code) {
    watch w = watch_start(pid, begun, timeout_ms);
    collect(out[0], err[0], &w, s);
    finish(pid, &w, s);
  }
  close(out[0]);
  close(err[0]);
  if (code == ENOENT) return accel__fail(ACCEL_ERROR_NOT_FOUND, "%s: no such program", argv[0]);
  if (code)
    return accel__fail(ACCEL_ERROR_IO, "%s: cannot be started: %s", argv[0], strerror(code));
  return s->out.failed || s->err.failed ? accel__no_memory(MAX_OUTPUT) : ACCEL_OK;
}

void accel__spawned_free(accel__spawned *s) {
  accel__buffer_free(&s->out);
  accel__buffer_free(&s->err);
}
