// Tests of one program that have two lengths: what scripts/test runs finds what it is there for, the long one (label
// `slow`, scripts/test --all) looks for what comes once in a while.
#pragma once

#include <cstdlib>

namespace longhaul::testing {

inline bool long_run() {
#ifdef LONGHAUL_REAL_GPU  // where the same takes no time
  return true;
#else
  return std::getenv("LONGHAUL_LONG_TESTS") != nullptr;
#endif
}

}  // namespace longhaul::testing
