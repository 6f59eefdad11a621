/* device_stream.c - a device's stream: copies in the order they were asked for, on one thread. */
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "dispatch/device.h"

typedef struct job {
  struct job *next;
  accel_device_tensor *tensor;
  const void *write;
  void *read;
} job;

struct accel_device_stream {
  accel_device *device;
  pthread_t thread;
  pthread_mutex_t lock;
  pthread_cond_t changed;
  job *first, **last;
  bool busy, stop;
  accel_status status; /* the first failure since the last synchronize */
  char *message;
};

static void keep_failure(accel_device_stream *s, accel_status status) {
  if (status == ACCEL_OK || s->status != ACCEL_OK) return;
  s->status = status;
  s->message = strdup(accel__message());
}

static void *worker(void *arg) {
  accel_device_stream *s = arg;
  pthread_mutex_lock(&s->lock);
  for (;;) {
    while (!s->first && !s->stop) pthread_cond_wait(&s->changed, &s->lock);
    job *j = s->first;
    if (!j) break;
    s->first = j->next;
    if (!s->first) s->last = &s->first;
    s->busy = true;
    pthread_mutex_unlock(&s->lock);
    accel_status status = j->write ? accel__device_tensor_write(j->tensor, j->write)
                                   : accel__device_tensor_read(j->tensor, j->read);
    free(j);
    pthread_mutex_lock(&s->lock);
    keep_failure(s, status);
    s->busy = false;
    pthread_cond_broadcast(&s->changed);
  }
  pthread_mutex_unlock(&s->lock);
  return NULL;
}

accel_status accel__stream_new(accel_device *device, accel_device_stream **out) {
  *out = NULL;
  accel_device_stream *s = calloc(1, sizeof *s);
  if (!s) return accel__no_memory(sizeof *s);
  s->device = device;
  s->last = &s->first;
  pthread_mutex_init(&s->lock, NULL);
  pthread_cond_init(&s->changed, NULL);
  if (pthread_create(&s->thread, NULL, worker, s)) {
    pthread_cond_destroy(&s->changed);
    pthread_mutex_destroy(&s->lock);
    free(s);
    return accel__fail(ACCEL_ERROR_OUT_OF_MEMORY, "%s: no thread for the stream",
                       accel__device_info(device)->name);
  }
  *out = s;
  return ACCEL_OK;
}

accel_device *accel__stream_device(accel_device_stream *s) { return s->device; }

void accel__stream_free(accel_device_stream *s) {
  if (!s) return;
  pthread_mutex_lock(&s->lock);
  s->stop = true;
  pthread_cond_broadcast(&s->changed);
  pthread_mutex_unlock(&s->lock);
  pthread_join(s->thread, NULL);
  pthread_cond_destroy(&s->changed);
  pthread_mutex_destroy(&s->lock);
  free(s->message);
  free(s);
}

accel_status accel__stream_copy(accel_device_stream *s, accel_device_tensor *tensor,
                                const void *write, void *read) {
  job *j = malloc(sizeof *j);
  if (!j) return accel__no_memory(sizeof *j);
  *j = (job){.tensor = tensor, .write = write, .read = read};
  pthread_mutex_lock(&s->lock);
  *s->last = j;
  s->last = &j->next;
  pthread_cond_broadcast(&s->changed);
  pthread_mutex_unlock(&s->lock);
  return ACCEL_OK;
}

accel_status accel__stream_synchronize(accel_device_stream *s) {
  pthread_mutex_lock(&s->lock);
  while (s->first || s->busy) pthread_cond_wait(&s->changed, &s->lock);
  accel_status status = s->status;
  char *message = s->message;
  s->status = ACCEL_OK;
  s->message = NULL;
  pthread_mutex_unlock(&s->lock);
  if (status != ACCEL_OK) accel__fail(status, "%s", message ? message : accel_status_text(status));
  free(message);
  return status;
}
