/* tensor_list.h - lists of named tensors as callers have them (accel_tensors). */
#ifndef ACCEL_DISPATCH_TENSOR_LIST_H
#define ACCEL_DISPATCH_TENSOR_LIST_H

#include <accel/accel.h>

/* A tensor list in one block with its names and data; data zeroed.  dims are copied from `like`. */
accel_status accel__tensors_new(const accel_tensor *like, uint32_t n, accel_tensors **out);
void accel__tensors_free(accel_tensors **tensors);
/* UINT64_MAX when the product overflows or a dim is negative */
uint64_t accel__tensor_bytes(const accel_tensor *t);
/* Members of a list by name; NULL when there is none, or no list. */
const accel_tensor *accel__find_tensor(const accel_tensors *tensors, const char *name);
/* Element i of a tensor of int64, int32, int8, bytes or booleans; of fp32 cut to an integer. */
int64_t accel__tensor_int(const accel_tensor *t, uint64_t i);

#endif
