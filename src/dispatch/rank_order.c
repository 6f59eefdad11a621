/* rank_order.c - orders as bytes, and bringing them to all ranks. */
#include "dispatch/rank_order.h"

#include <stdlib.h>
#include <string.h>

enum {
  FRAME = 4096, /* bytes of an order that come with its size */
  TEXT = 512,   /* of another rank's message */
  TAG_ORDER = 1,
  TAG_STATUS = 2,
  TAG_TEXT = 3,
  TAG_SAME = 4,
  MOST_MISMATCHES = 8 /* of one agreement: each rank fails once in an order */
};
/* A status that says: because of another rank. */
enum { STOPPED = -1000 };

void accel__order_bytes(accel__order *o, const void *data, uint64_t n) {
  accel__buffer_bytes(&o->bytes, data, n);
}

void accel__order_number(accel__order *o, int64_t value) {
  accel__order_bytes(o, &value, sizeof value);
}

void accel__order_text(accel__order *o, const char *text) {
  accel__order_number(o, text ? (int64_t)strlen(text) : -1);
  if (text) accel__order_bytes(o, text, strlen(text) + 1);
}

const void *accel__order_take(accel__order *o, uint64_t n) {
  const char *at = o->at;
  if (o->broken || n > o->left) {
    o->broken = true;
    return NULL;
  }
  o->at += n;
  o->left -= n;
  return at;
}

int64_t accel__order_get(accel__order *o) {
  int64_t value = 0;
  const void *at = accel__order_take(o, sizeof value);
  if (at) memcpy(&value, at, sizeof value);
  return value;
}

const char *accel__order_take_text(accel__order *o) {
  const int64_t n = accel__order_get(o);
  return n < 0 ? NULL : accel__order_take(o, (uint64_t)n + 1);
}

/* ---- to all ranks ---- */

accel_status accel__ranks_lost(const accel__ranks *r) {
  accel__fail(ACCEL_ERROR_DEVICE_LOST, "rank %u of %u: another rank of the group is gone", r->rank,
              r->world);
  return accel__remedy(ACCEL_ERROR_DEVICE_LOST,
                       "look at what the other ranks printed, and start all of them anew");
}

/* A collective has failed: outside of a run ranks never differ, unless they are of two programs. */
static accel_status failed(accel__ranks *r, int32_t rc) {
  if (rc == ACCEL_COMM_OK) return ACCEL_OK;
  if (rc != ACCEL_COMM_E_LOST) r->transport->abort(r->comm);
  r->lost = true;
  return accel__ranks_lost(r);
}

accel_status accel__ranks_tell(accel__ranks *r, const accel__order *o) {
  char frame[FRAME] = {0};
  const uint64_t n = o->bytes.n, some = n < FRAME - sizeof n ? n : FRAME - sizeof n;
  if (r->lost) return accel__ranks_lost(r);
  if (o->bytes.failed) return accel__no_memory(n);
  memcpy(frame, &n, sizeof n);
  if (some) memcpy(frame + sizeof n, o->bytes.data, some);
  ACCEL_TRY(failed(r, r->transport->broadcast(r->comm, frame, sizeof frame, TAG_ORDER)));
  if (some == n) return ACCEL_OK;
  return failed(r, r->transport->broadcast(r->comm, o->bytes.data + some, n - some, TAG_ORDER));
}

accel_status accel__ranks_hear(accel__ranks *r, accel__order *o) {
  char frame[FRAME];
  uint64_t n;
  *o = (accel__order){.left = 0};
  if (r->lost) return accel__ranks_lost(r);
  ACCEL_TRY(failed(r, r->transport->broadcast(r->comm, frame, sizeof frame, TAG_ORDER)));
  memcpy(&n, frame, sizeof n);
  const uint64_t some = n < FRAME - sizeof n ? n : FRAME - sizeof n;
  char *data = malloc(n + 1);
  if (!data) {
    r->transport->abort(r->comm);
    r->lost = true;
    return accel__no_memory(n);
  }
  memcpy(data, frame + sizeof n, some);
  accel_status status = ACCEL_OK;
  if (some < n)
    status = failed(r, r->transport->broadcast(r->comm, data + some, n - some, TAG_ORDER));
  *o = (accel__order){.bytes = {.data = data, .n = n}, .at = data, .left = n};
  if (status != ACCEL_OK) accel__buffer_free(&o->bytes);
  return status;
}

/* Sums over the ranks; again where one of them was still adding up something of a run. */
static int32_t sum(accel__ranks *r, float *data, uint32_t n, uint32_t tag) {
  float given[TEXT];
  int32_t rc = ACCEL_COMM_E_MISMATCH;
  memcpy(given, data, n * sizeof *data);
  for (int i = 0; rc == ACCEL_COMM_E_MISMATCH && i < MOST_MISMATCHES; i++) {
    memcpy(data, given, n * sizeof *data);
    rc = r->transport->allreduce(r->comm, data, n, tag);
  }
  return rc;
}

/* The message of rank `from`, on all ranks. */
static accel_status share_text(accel__ranks *r, uint32_t from, const char *message, char *text,
                               size_t bytes) {
  float letters[TEXT] = {0};
  for (size_t i = 0; r->rank == from && message && message[i] && i + 1 < TEXT; i++)
    letters[i] = (float)(unsigned char)message[i];
  ACCEL_TRY(failed(r, sum(r, letters, TEXT, TAG_TEXT)));
  for (size_t i = 0; i < bytes; i++) text[i] = i < TEXT ? (char)(unsigned char)letters[i] : 0;
  if (bytes) text[bytes - 1] = 0;
  return ACCEL_OK;
}

int32_t accel__ranks_agree(accel__ranks *r, int32_t mine, const char *message, char *text,
                           size_t bytes) {
  float status[ACCEL_COMM_MAX_WORLD] = {0};
  uint32_t from = r->world;
  if (bytes) text[0] = 0;
  status[r->rank] = mine && r->stopped ? (float)STOPPED : (float)mine;
  r->stopped = false;
  if (r->lost || failed(r, sum(r, status, r->world, TAG_STATUS)) != ACCEL_OK)
    return ACCEL_ERROR_DEVICE_LOST;
  for (uint32_t i = r->world; i-- > 0;)
    if (status[i] != 0 && (from == r->world || status[i] != (float)STOPPED)) from = i;
  if (from == r->world) return 0;
  if (share_text(r, from, message, text, bytes) != ACCEL_OK) return ACCEL_ERROR_DEVICE_LOST;
  return status[from] == (float)STOPPED ? ACCEL_ERROR_INTERNAL : (int32_t)status[from];
}

bool accel__ranks_same(accel__ranks *r, uint64_t fingerprint) {
  float part[4], all[4];
  bool same = true;
  for (int i = 0; i < 4; i++) all[i] = part[i] = (float)(fingerprint >> 16 * i & 0xffff);
  if (r->lost || failed(r, sum(r, all, 4, TAG_SAME)) != ACCEL_OK) return false;
  for (int i = 0; i < 4; i++) same &= all[i] == part[i] * (float)r->world;
  return same;
}

/* May a sum of a run begin? */
static int32_t may_sum(const accel__ranks *r) {
  return r->lost      ? ACCEL_PLUGIN_E_DEVICE_LOST
         : r->stopped ? ACCEL_PLUGIN_E_CANCELLED
                      : ACCEL_PLUGIN_OK;
}

/* What has become of it. */
static int32_t summed(accel__ranks *r, int32_t rc) {
  if (rc == ACCEL_COMM_E_MISMATCH) r->stopped = true;
  if (rc == ACCEL_COMM_E_LOST) r->lost = true;
  return rc == ACCEL_COMM_OK       ? ACCEL_PLUGIN_OK
         : rc == ACCEL_COMM_E_LOST ? ACCEL_PLUGIN_E_DEVICE_LOST
                                   : ACCEL_PLUGIN_E_CANCELLED;
}

int32_t accel__ranks_allreduce(void *self, void *buffer, size_t n, int dtype) {
  accel__ranks *r = ((accel__host_self *)self)->ep->ctx->ranks;
  if (dtype != ACCEL_PLUGIN_F32) return ACCEL_PLUGIN_E_UNSUPPORTED;
  const int32_t rc = may_sum(r);
  return rc ? rc : summed(r, r->transport->allreduce(r->comm, buffer, n, 0));
}

static int32_t allreduce_device(void *self, const char *api, uint32_t device, void *stream,
                                void *data, size_t n) {
  accel *ctx = ((accel__host_self *)self)->ep->ctx;
  accel__ranks *r = ctx->ranks;
  char why[256] = "";
  if (strcmp(api, r->transport->device_api) != 0) return ACCEL_PLUGIN_E_UNSUPPORTED;
  int32_t rc = may_sum(r);
  if (rc) return rc;
  rc = r->transport->allreduce_device(r->comm, device, stream, data, n, 0, why, sizeof why);
  if (rc != ACCEL_COMM_E_HOST) return summed(r, rc);
  if (*why)
    accel__logf(&ctx->log, ACCEL_LOG_WARNING,
                "rank %u of %u: %s cannot sum between the devices, so sums go through host memory: "
                "%s",
                r->rank, r->world, r->transport->name, why);
  return ACCEL_PLUGIN_E_UNSUPPORTED;
}

accel__allreduce_device_fn *accel__ranks_allreduce_device(const accel__ranks *ranks) {
  return ranks && ranks->transport->allreduce_device ? allreduce_device : NULL;
}
