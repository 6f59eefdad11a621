// planted.cpp - see planted.h.  What embed.cmake does line by line of gpu_kernels.def, done here by hand.
#include "planted.h"

#include "hip/hip_emulated.h"

namespace emulated {
#include "gpu/dialect/dialect_emulator.h"

#define LOCAL_SIZE             64
#define BUFFERS(IN, OVER, OUT) IN(0, float, x) OUT(1, float, y)
#define PARAMS(I, F)           I(n)
#define SHARED(S)              S(float, part, 64)

namespace sum_rows {
#define NAME sum_rows
#include "gpu/dialect/dialect_emulator_begin.h"
float sum = 0.0f;
for (int c = LANE; c < P(n); c += LOCAL_SIZE) sum += AT(x, GROUP_X *P(n) + c);
GROUP_SUM(part, sum);
if (LANE == 0) AT(y, GROUP_X) = sum;
#include "gpu/dialect/dialect_emulator_end.h"
#undef NAME
}  // namespace sum_rows

namespace double_all {
#define NAME double_all
#include "gpu/dialect/dialect_emulator_begin.h"
for (int i = GROUP_X * LOCAL_SIZE + LANE; i < P(n); i += GROUPS_X * LOCAL_SIZE)
  AT(y, i) = 2.0f * AT(x, i);
#include "gpu/dialect/dialect_emulator_end.h"
#undef NAME
}  // namespace double_all

namespace beyond {
#define NAME beyond
#include "gpu/dialect/dialect_emulator_begin.h"
AT(y, LANE) = AT(x, LANE + 1);
#include "gpu/dialect/dialect_emulator_end.h"
#undef NAME
}  // namespace beyond

namespace negative {
#define NAME negative
#include "gpu/dialect/dialect_emulator_begin.h"
AT(y, LANE - 1) = 1.0f;
#include "gpu/dialect/dialect_emulator_end.h"
#undef NAME
}  // namespace negative

namespace shared_beyond {
#define NAME shared_beyond
#include "gpu/dialect/dialect_emulator_begin.h"
part[LANE + 1] = 1.0f;
#include "gpu/dialect/dialect_emulator_end.h"
#undef NAME
}  // namespace shared_beyond

namespace no_barrier {
#define NAME no_barrier
#include "gpu/dialect/dialect_emulator_begin.h"
part[LANE] = AT(x, LANE);
AT(y, LANE) = part[63 - LANE];
#include "gpu/dialect/dialect_emulator_end.h"
#undef NAME
}  // namespace no_barrier

namespace write_twice {
#define NAME write_twice
#include "gpu/dialect/dialect_emulator_begin.h"
part[0] = FLOAT(LANE);
BARRIER;
AT(y, LANE) = part[0];
#include "gpu/dialect/dialect_emulator_end.h"
#undef NAME
}  // namespace write_twice

namespace some_lanes {
#define NAME some_lanes
#include "gpu/dialect/dialect_emulator_begin.h"
if (LANE < 32) {
  part[LANE] = 1.0f;
  BARRIER;
}
AT(y, LANE) = 1.0f;
#include "gpu/dialect/dialect_emulator_end.h"
#undef NAME
}  // namespace some_lanes

namespace other_barrier {
#define NAME other_barrier
#include "gpu/dialect/dialect_emulator_begin.h"
if (LANE < 32) {
  BARRIER;
} else {
  BARRIER;
}
AT(y, LANE) = 1.0f;
#include "gpu/dialect/dialect_emulator_end.h"
#undef NAME
}  // namespace other_barrier

namespace unset_shared {
#define NAME unset_shared
#include "gpu/dialect/dialect_emulator_begin.h"
if (LANE == 0) part[0] = 1.0f;
BARRIER;
AT(y, LANE) = part[LANE];
#include "gpu/dialect/dialect_emulator_end.h"
#undef NAME
}  // namespace unset_shared

}  // namespace emulated
