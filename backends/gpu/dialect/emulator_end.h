/* emulator_end.h - the end of a kernel, and of the words its lists are taken apart with. */
}
