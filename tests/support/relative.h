// doctest's Approx allows 1.2e-5 of (1 + value): of seconds that are millionths it takes any two for the same. This one
// allows that share of the value itself.
#pragma once

#include <doctest/doctest.h>

namespace longhaul::testing {

// Nothing but 0 itself is near 0: compare with ==.
inline doctest::Approx relative(double value) {
  return doctest::Approx(value).scale(0);
}

}  // namespace longhaul::testing
