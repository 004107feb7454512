// The bar: of 300 faults over random layouts, the culprit is named rightly in at least 99 %.
#include <doctest/doctest.h>

#include <cmath>
#include <map>

#include "resiliency/detect/hang_detector.h"
#include "tests/unit/resiliency/detect/toy_training.h"

using namespace longhaul;

namespace culprit_faults {

// Wilson's score interval for k of n (Wilson 1927), at 95 %.
std::pair<double, double> wilson(int k, int n) {
  const double z = 1.959964, p = static_cast<double>(k) / n, z2 = z * z / n;
  const double middle = (p + z2 / 2) / (1 + z2);
  const double half = z / (1 + z2) * std::sqrt(p * (1 - p) / n + z2 / (4 * n));
  return {middle - half, middle + half};
}

struct Outcome {
  bool named = false, early = false;
  double after_s = 0;
  std::string text;
};

Outcome one_fault(std::mt19937_64& random, toy::Fault fault, bool tells_waits) {
  const auto below = [&](int bound) { return static_cast<int>(random() % static_cast<std::uint64_t>(bound)); };
  toy::Layout layout;
  do {
    layout.tp = 1 << below(3), layout.pp = 1 << below(3), layout.dp = 1 << below(3);
    layout.ranks_per_host = 1 << below(4);
  } while (layout.world() < 2 || layout.world() > 32 || layout.hosts() < 2);
  layout.micro_batches = 1 + below(4);
  layout.overlap = below(2) == 0, layout.rendezvous = below(2) == 0, layout.tells_waits = tells_waits;
  toy::Training training(layout, random());
  const int victim = below(layout.world());
  // One after the other: in what order a compiler draws arguments of a call is its own affair.
  const int part = below(6 * layout.micro_batches + 4), step = 12 + below(3);
  training.inject(fault, victim, step, part);

  HangTimeouts timeouts;
  timeouts.warm_up_steps = 3, timeouts.floor_s = 6;
  HangDetector detector(timeouts);
  detector.new_launch(0);
  Outcome outcome;
  std::optional<HangFinding> found;
  while (!found && training.now_ms() < 120'000) {
    training.tick();
    if (training.now_ms() % 100 == 0) found = detector.observe(training.now_ms(), training.look());
  }
  outcome.early = found && !training.injected();
  outcome.after_s = 1e-3 * static_cast<double>(training.now_ms() - training.injected_ms());
  outcome.text = format("{} at rank {} ({}): {}", to_string(fault), victim, layout.text(),
                        found ? found->text() : std::string("nothing found"));
  if (!found || outcome.early || found->culprits.empty()) return outcome;
  const Culprit& first = found->culprits.front();
  outcome.named = fault == toy::Fault::host_silent ? first.host == training.host_of(victim) : first.rank == victim;
  return outcome;
}

struct Tally {
  int faults = 0, named = 0, early = 0;
  double slowest_s = 0;
};

Tally many_faults(int count, bool tells_waits, std::uint64_t seed) {
  std::mt19937_64 random(seed);
  Tally all;
  std::map<std::string, std::pair<int, int>> by_kind;
  for (int i = 0; i < count; ++i) {
    const auto fault = static_cast<toy::Fault>(i % 6);
    const Outcome outcome = one_fault(random, fault, tells_waits);
    ++all.faults, all.named += outcome.named, all.early += outcome.early;
    all.slowest_s = std::max(all.slowest_s, outcome.after_s);
    auto& [named, of] = by_kind[to_string(fault)];
    named += outcome.named, ++of;
    if (!outcome.named && tells_waits) MESSAGE("not named: ", outcome.text);
  }
  for (const auto& [kind, counts] : by_kind) MESSAGE(kind, ": ", counts.first, " of ", counts.second);
  return all;
}

}  // namespace culprit_faults

TEST_CASE("the culprit of 300 faults over random layouts is named in 99 of 100") {
  constexpr std::uint64_t seed = 20260301;
  const culprit_faults::Tally all = culprit_faults::many_faults(300, true, seed);
  const auto [low, high] = culprit_faults::wilson(all.named, all.faults);
  MESSAGE("seed ", seed, ": culprit named in ", all.named, " of ", all.faults, " = ", 100.0 * all.named / all.faults,
          " % (95 % interval ", 100 * low, " to ", 100 * high, "), bar 99 %; slowest ", all.slowest_s,
          " s after the fault");
  CHECK(all.named >= 297);
  CHECK(all.early == 0);
  CHECK(all.slowest_s < 6);
}

TEST_CASE("programs that only count their collectives have their culprits named less often, and no false alarms") {
  constexpr std::uint64_t seed = 20260302;
  const culprit_faults::Tally all = culprit_faults::many_faults(120, false, seed);
  MESSAGE("seed ", seed, ": without waits on the page, ", all.named, " of ", all.faults);
  CHECK(all.named >= 72);
  CHECK(all.early == 0);
}
