/* dialect_hip_end.h - the end of a kernel. */
}
