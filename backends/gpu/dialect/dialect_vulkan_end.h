/* dialect_vulkan_end.h - the end of main. */
}
