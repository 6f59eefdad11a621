/* page_system.c - what of the C library a page has no answer to and emscripten leaves out, or ends
 * the module for: libraries cannot be loaded nor programs started, said as the C library says it, so
 * that what is optional (libwebp, libsndfile, the helper accel-probe) is absent and no more. */
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <spawn.h>
#include <stddef.h>

void *dlopen(const char *path, int flags) {
  (void)path;
  (void)flags;
  return NULL;
}
void *dlsym(void *library, const char *name) {
  (void)library;
  (void)name;
  return NULL;
}
int dladdr(const void *address, Dl_info *info) {
  (void)address;
  (void)info;
  return 0;
}

int posix_spawnp(pid_t *pid, const char *file, const posix_spawn_file_actions_t *actions,
                 const posix_spawnattr_t *attributes, char *const *argv, char *const *environment) {
  (void)pid;
  (void)file;
  (void)actions;
  (void)attributes;
  (void)argv;
  (void)environment;
  return ENOSYS;
}

int sync_file_range(int fd, off_t offset, off_t n, unsigned flags) {
  (void)fd;
  (void)offset;
  (void)n;
  (void)flags;
  errno = ENOSYS;
  return -1;
}

int pthread_setname_np(pthread_t thread, const char *name) {
  (void)thread;
  (void)name;
  return 0;
}
