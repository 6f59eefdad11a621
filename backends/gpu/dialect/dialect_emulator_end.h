/* dialect_emulator_end.h - the end of a kernel. */
}
