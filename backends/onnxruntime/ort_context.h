/* ort_context.h - an NPU's compiled graphs in the host's cache: what ONNX Runtime calls an EP
 * context, a model of one node that holds what the provider compiled.  The library writes it into a
 * file alone, which stands in a folder of its own below /tmp until the cache has it. */
#ifndef ACCEL_ONNXRUNTIME_CONTEXT_H
#define ACCEL_ONNXRUNTIME_CONTEXT_H

#include "onnxruntime/ort.h"

enum { ORT_CONTEXT_KEY = 32 };

typedef struct ort_context {
  char folder[32], path[64]; /* "": there is none */
} ort_context;

/* The cache's key of what was found out about a graph: of the model's text, its constants, the
 * libraries and the device.  what: a word of at most 8 letters. */
void ort_context_key(const ort_endpoint *e, const char *what, const kit_graph *g,
                     const ort_bytes *text, char key[ORT_CONTEXT_KEY]);
/* out->data is to be freed; false: the cache has none. */
bool ort_context_get(const ort_endpoint *e, const char *key, ort_bytes *out);
void ort_context_put(const ort_endpoint *e, const char *key, const void *data, uint64_t n);
/* Makes the folder; false: nothing can be kept, which is no error. */
bool ort_context_begin(const ort_endpoint *e, ort_context *c);
/* Has the session of these options write its context. */
OrtStatus *ort_context_ask(const ort_library *ort, OrtSessionOptions *options,
                           const ort_context *c);
/* Removes the file and its folder; good: the session was made, so the cache gets it first. */
void ort_context_end(const ort_endpoint *e, const char *key, bool good, const ort_context *c);

#endif
