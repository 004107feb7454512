#include "engine/align/overlong.h"

#include <doctest/doctest.h>

using namespace longhaul;

// The numbers of Yu et al. 2025, "DAPO", section 4.1: at most 20480 tokens, of which the last 4096 are the interval.
TEST_CASE("the penalty of a long answer is equation 13 of DAPO: none up to the interval, then linear, then all of it") {
  RolloutSettings s;
  s.max_new_tokens = 20'480, s.overlong_tokens = 4'096;
  CHECK(overlong_penalty(s, 20'480) == 0);  // not asked for
  s.overlong = "shape";
  for (const std::int64_t tokens : {1, 10'000, 16'384}) CHECK(overlong_penalty(s, tokens) == 0);
  CHECK(overlong_penalty(s, 16'385) == doctest::Approx(1.0 / 4096));
  CHECK(overlong_penalty(s, 18'432) == doctest::Approx(0.5));
  CHECK(overlong_penalty(s, 20'480) == 1);
  s.overlong_penalty = 0.25;
  CHECK(overlong_penalty(s, 18'432) == doctest::Approx(0.125));
  CHECK(overlong_penalty(s, 20'480) == 0.25);
  s.overlong_tokens = s.max_new_tokens;  // from the first token on
  CHECK(overlong_penalty(s, 5'120) == doctest::Approx(0.0625));
}
