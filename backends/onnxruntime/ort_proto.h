/* ort_proto.h - protocol buffers, as far as a model in ONNX needs them (onnx.proto, version 1.16):
 * fields are written one after the other, messages inside each other. */
#ifndef ACCEL_ONNXRUNTIME_PROTO_H
#define ACCEL_ONNXRUNTIME_PROTO_H

#include "onnxruntime/ort.h"

void ort_put_int(ort_bytes *b, uint32_t field, int64_t value);
void ort_put_float(ort_bytes *b, uint32_t field, float value);
void ort_put_data(ort_bytes *b, uint32_t field, const void *data, uint64_t n);
void ort_put_text(ort_bytes *b, uint32_t field, const char *text);
/* A message in a field: what is put between begin and end is its content.  begin answers what end
 * wants. */
size_t ort_begin(ort_bytes *b, uint32_t field);
void ort_end(ort_bytes *b, size_t begun);

#endif
