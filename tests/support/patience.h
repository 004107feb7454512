// How long a test waits for what has to happen: a limit of a fast, idle machine times what is measured of this one
// (LONGHAUL_TIME_FACTOR, docs/testing.md). It is for waits that end with an event; nothing is decided by them but that
// the event never came.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstdlib>

namespace longhaul::testing {

inline std::int64_t patience_ms(std::int64_t on_a_fast_machine_ms) {
  const char* given = std::getenv("LONGHAUL_TIME_FACTOR");
  return on_a_fast_machine_ms * std::max(1, given ? std::atoi(given) : 1);
}

}  // namespace longhaul::testing
