// Made by unit.cmake from gpu_kernels.def: every kernel of the dialect as C++.
#include "hip/hip_emulated.h"
namespace emulated {
