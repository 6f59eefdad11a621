/* candidates_file.h - what is known of the candidates of one model, as `accel choose` writes it.
 *
 *   {"schema": "accel.candidates/1", "model": "org/name", "weights": "local", "build": "...",
 *    "threads": 2, "of": {"latency": "encode, batch 1, lengths 128"},
 *    "candidates": [{"device": "cpu", "driver": "...", "id": "...", "precision": "int8",
 *                    "golden": "pass", "cosine": 0.9991,
 *                    "latency": {"source": "rows", "value": 3.1, "low": 3.0, "high": 3.3}}],
 *    "notes": ["..."]}
 *
 * Other members are passed over.  Docs: placement.md. */
#ifndef ACCEL_DISPATCH_CANDIDATES_FILE_H
#define ACCEL_DISPATCH_CANDIDATES_FILE_H

#include "dispatch/choose.h"

typedef struct accel__known {
  const char *device, *driver, *id, *precision;
  int golden;    /* 1: all passed here, -1: one failed, 0: not known */
  double cosine; /* the least of theirs; NaN */
  accel__figure figure[ACCEL__METRIC_COUNT];
} accel__known;

typedef struct accel__candidates_file {
  uint32_t n;
  accel__known *item; /* [n]; in the endpoint's arena, as the texts */
  const char *of[ACCEL__METRIC_COUNT];
  const char *notes; /* "; " between; "" */
} accel__candidates_file;

/* given: accel_init_params.candidates.  ACCEL_ERROR_NOT_FOUND: there is none; ACCEL_ERROR_FORMAT:
 * it is damaged, or of another model, build or number of threads; the message says which. */
accel_status accel__candidates_read(accel_endpoint *ep, const char *given,
                                    accel__candidates_file *out);
/* NULL: nothing is known of it. */
const accel__known *accel__candidates_find(const accel__candidates_file *file,
                                           const accel_device_info *device, const char *precision);

#endif
