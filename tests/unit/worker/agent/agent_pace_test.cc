#include "worker/agent/agent_pace.h"

#include <doctest/doctest.h>

namespace longhaul {
namespace {

constexpr std::int64_t ms = 1'000'000;

TEST_CASE("an agent looks as often as text needs, more rarely where it is calm, and most often where somebody waits") {
  AgentPace pace;
  CHECK(pace.due(5 * ms));
  pace.looked(1'000 * ms, false, false);
  CHECK(pace.next_look_ns() == (1'000 + LookInterval::least_ms) * ms);
  pace.looked(2'000 * ms, true, true);
  CHECK(pace.next_look_ns() == (2'000 + LookInterval::most_ms) * ms);
  CHECK_FALSE(pace.due(2'100 * ms));
  pace.hurry(2'100 * ms, 500);
  CHECK(pace.due(2'100 * ms));
  pace.looked(2'100 * ms, true, true);
  CHECK(pace.next_look_ns() == 2'150 * ms);
  CHECK(pace.hurries(2'599 * ms));
  pace.hurry(2'200 * ms, 100);  // a shorter one does not end a longer one
  CHECK(pace.hurries(2'599 * ms));
  CHECK_FALSE(pace.hurries(2'600 * ms));
}

}  // namespace
}  // namespace longhaul
