// The bar: of 300 faults over random layouts, the culprit is named rightly in at least 99 %.
#include <doctest/doctest.h>

#include "tests/unit/resiliency/detect/drawn_faults.h"

using namespace longhaul;

namespace {

toy::Tally reported_faults(int count, bool reports_waits, std::uint64_t seed) {
  const toy::Tally all = toy::many_faults(count, reports_waits, seed, [&](const std::string& text) {
    if (reports_waits) MESSAGE("not named: ", text);
  });
  for (const auto& [kind, counts] : all.by_kind) MESSAGE(kind, ": ", counts.first, " of ", counts.second);
  return all;
}

}  // namespace

TEST_CASE("the culprit of 300 faults over random layouts is named in 99 of 100") {
  constexpr std::uint64_t seed = 20260301;
  const toy::Tally all = reported_faults(300, true, seed);
  const auto [low, high] = toy::wilson(all.named, all.faults);
  MESSAGE("seed ", seed, ": culprit named in ", all.named, " of ", all.faults, " = ", 100.0 * all.named / all.faults,
          " % (95 % interval ", 100 * low, " to ", 100 * high, "), bar 99 %; slowest ", all.slowest_s,
          " s after the fault");
  CHECK(all.named >= 297);
  CHECK(all.early == 0);
  CHECK(all.slowest_s < 6);
}

TEST_CASE("programs that only count their collectives have their culprits named less often, and no false alarms") {
  constexpr std::uint64_t seed = 20260302;
  const toy::Tally all = reported_faults(120, false, seed);
  MESSAGE("seed ", seed, ": without waits on the page, ", all.named, " of ", all.faults);
  CHECK(all.named >= 72);
  CHECK(all.early == 0);
}

TEST_CASE("a file system that stands still under a save ends no launch, and is forgotten when it is over") {
  constexpr std::uint64_t seed = 20260303;
  MESSAGE("seed ", seed);
  std::mt19937_64 random(seed);
  for (int i = 0; i < 20; ++i) CHECK(toy::one_standstill(random) == "");
}
