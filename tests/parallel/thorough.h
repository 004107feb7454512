// Under ThreadSanitizer, which looks for races and not at curves, a few steps of what differs most are enough.
#pragma once

#include "tests/support/long_run.h"

namespace longhaul::test {

#if defined(__SANITIZE_THREAD__)
inline constexpr bool thorough = false;
#else
inline constexpr bool thorough = true;
#endif

// Where the curve of one rank is followed. A wrong gradient is in the loss of the next step; what later steps add is
// looked at by the tests of label `slow`.
inline const int curve_steps = !thorough ? 2 : longhaul::testing::long_run() ? 20 : 6;

// Where two trainings have to have the same bits: one that differs is in the weights after the step that made it.
inline const int bit_steps = thorough && longhaul::testing::long_run() ? 4 : 2;

}  // namespace longhaul::test
