/* stored.h - checkpoints that are quantised already have a precision of their own: the formats
 * their weights are in. */
#ifndef ACCEL_DISPATCH_STORED_H
#define ACCEL_DISPATCH_STORED_H

#include "dispatch/endpoint.h"

/* The name of that precision ("uint4" for GPTQ); NULL: the checkpoint is not quantised. */
const char *accel__stored_precision(const accel_endpoint *ep);
/* The same, of others "fp32": what is taken when nothing was asked for. */
const char *accel__default_precision(const accel_endpoint *ep);
/* What `name` means for the endpoint's program: the checkpoint's own formats when that is the name
 * of its precision, coded weights in their codes and plain ones as they are stored (vectors and
 * plain uses fp32); otherwise the table of precision.h, into which coded weights are dequantised or
 * quantised anew.  Where `name` is the precision of the endpoint's profile, kinds of layers have
 * the formats of theirs. */
accel_status accel__endpoint_precision(const accel_endpoint *ep, const char *name,
                                       const char *const *keep_fp32, uint32_t n_keep,
                                       accel__arena *arena, accel_plugin_precision *out);

#endif
