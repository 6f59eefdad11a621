/* dialect_opencl_end.h - the end of a kernel. */
}
