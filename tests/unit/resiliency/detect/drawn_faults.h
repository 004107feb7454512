// Faults drawn over random layouts of the toy training, and whom the detector names: for the test of some hundreds, and
// for the bench that draws thousands of them (tests/bench/culprit_bars.cc).
#pragma once

#include <algorithm>
#include <cmath>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <utility>

#include "resiliency/detect/hang/hang_detector.h"
#include "tests/unit/resiliency/detect/toy_training.h"

namespace longhaul::toy {

// Wilson's score interval for k of n (Wilson 1927), at 95 %.
inline std::pair<double, double> wilson(int k, int n) {
  const double z = 1.959964, p = static_cast<double>(k) / n, z2 = z * z / n;
  const double middle = (p + z2 / 2) / (1 + z2);
  const double half = z / (1 + z2) * std::sqrt(p * (1 - p) / n + z2 / (4 * n));
  return {middle - half, middle + half};
}

inline HangTimeouts drawn_timeouts() {
  HangTimeouts timeouts;
  timeouts.warm_up_steps = 3, timeouts.floor_s = 6;
  return timeouts;
}

// Two ranks at least, on two hosts at least. One draw after the other: in what order a compiler draws arguments of a
// call is its own affair.
inline Layout drawn_layout(std::mt19937_64& random, bool reports_waits) {
  const auto below = [&](int bound) { return static_cast<int>(random() % static_cast<std::uint64_t>(bound)); };
  Layout layout;
  do {
    layout.tp = 1 << below(3), layout.pp = 1 << below(3), layout.dp = 1 << below(3);
    layout.ranks_per_host = 1 << below(4);
  } while (layout.world() < 2 || layout.world() > 32 || layout.hosts() < 2);
  layout.micro_batches = 1 + below(4);
  layout.overlap = below(2) == 0, layout.rendezvous = below(2) == 0, layout.reports_waits = reports_waits;
  return layout;
}

struct Outcome {
  bool named = false, early = false;
  double after_s = 0;
  std::string text;
};

inline Outcome one_fault(std::mt19937_64& random, Fault fault, bool reports_waits) {
  const auto below = [&](int bound) { return static_cast<int>(random() % static_cast<std::uint64_t>(bound)); };
  const Layout layout = drawn_layout(random, reports_waits);
  Training training(layout, random());
  const int victim = below(layout.world());
  const int part = below(6 * layout.micro_batches + 4), step = 12 + below(3);
  training.inject(fault, victim, step, part);

  HangDetector detector(drawn_timeouts());
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
  outcome.named = fault == Fault::host_silent ? first.host == training.host_of(victim) : first.rank == victim;
  return outcome;
}

// A standstill of the file system under a save, of up to three minutes: whatever would end the launch for it, or was
// found once it was over. "": nothing, and the training goes on.
inline std::string one_standstill(std::mt19937_64& random) {
  const Layout layout = drawn_layout(random, true);
  Training training(layout, random());
  const int step = 12 + static_cast<int>(random() % 3);
  const auto stall_ms = static_cast<std::int64_t>(20'000 + random() % 160'000);
  training.stand_still(step, stall_ms);
  HangDetector detector(drawn_timeouts());
  detector.new_launch(0);
  std::string wrong;
  int steps_then = -1;
  while (training.now_ms() < 400'000 && (steps_then < 0 || training.steps() < steps_then + 10)) {
    training.tick();
    if (training.has_stood_still() && steps_then < 0) steps_then = training.steps();
    if (training.now_ms() % 100 != 0) continue;
    const auto found = detector.observe(training.now_ms(), training.look());
    if (found && (found->level == HangLevel::act || training.has_stood_still())) wrong += found->text() + "\n";
  }
  if (steps_then < 0 || training.steps() < steps_then + 10) wrong += "the training did not go on\n";
  return wrong.empty()
             ? wrong
             : format("a standstill of {:.0f} s ({}): {}", 1e-3 * static_cast<double>(stall_ms), layout.text(), wrong);
}

struct Tally {
  int faults = 0, named = 0, early = 0;
  double slowest_s = 0;
  std::map<std::string, std::pair<int, int>> by_kind;  // named, of
};

inline Tally many_faults(int count, bool reports_waits, std::uint64_t seed,
                         const std::function<void(const std::string&)>& not_named) {
  std::mt19937_64 random(seed);
  Tally all;
  for (int i = 0; i < count; ++i) {
    const auto fault = static_cast<Fault>(i % 6);
    const Outcome outcome = one_fault(random, fault, reports_waits);
    ++all.faults, all.named += outcome.named, all.early += outcome.early;
    all.slowest_s = std::max(all.slowest_s, outcome.after_s);
    auto& [named, of] = all.by_kind[to_string(fault)];
    named += outcome.named, ++of;
    if (!outcome.named) not_named(outcome.text);
  }
  return all;
}

}  // namespace longhaul::toy
