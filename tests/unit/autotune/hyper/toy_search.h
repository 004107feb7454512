// Searches without trainings: losses that a formula gives, and a runner that carries a search out in any order.
#pragma once

#include <algorithm>
#include <cmath>
#include <functional>
#include <vector>

#include "autotune/hyper/halving.h"
#include "base/digest/philox.h"

namespace longhaul::hyper::toy {

inline HyperParameter range(const char* name, double min, double max, const char* scale = "linear",
                            bool integer = false) {
  HyperParameter p;
  p.name = name, p.min = min, p.max = max, p.scale = scale, p.integer = integer;
  return p;
}

inline HyperParameter list(const char* name, ValueArray values) {
  HyperParameter p;
  p.name = name, p.values = std::move(values);
  return p;
}

// Losses of a training with a constant rate, with constants drawn by a seed: a bias that a larger rate removes sooner,
// and a noise that it raises. So curves cross: early the large rates lead, at the end a smaller one, and too large ones
// diverge.
class Curves {
 public:
  explicit Curves(std::uint64_t seed) : draws_{seed, 77} {
    const auto between = [&](int i, double low, double high) {
      return low + (high - low) * draws_.uniform_double(static_cast<std::uint64_t>(i));
    };
    floor_ = between(0, 1.5, 3.5);
    bias_ = between(1, 3, 6);
    power_ = between(2, 0.3, 0.7);
    speed_ = std::exp(between(3, std::log(300), std::log(3000)));
    noise_ = between(4, 20, 120);
    rate_max_ = std::exp(between(5, std::log(0.01), std::log(0.1)));
    measured_ = between(6, 0, 0.004);
  }
  // Without the error of measurement. NaN: diverged.
  double exact(double rate, double steps) const {
    if (rate > rate_max_) return NAN;
    return floor_ + bias_ / std::pow(1 + rate * speed_ * steps / 100, power_) + noise_ * rate;
  }
  double measured(double rate, std::int64_t steps) const {
    const auto which = static_cast<std::uint64_t>(std::llround(-1000 * std::log(rate)) * 1'000'003 + steps);
    return exact(rate, static_cast<double>(steps)) * (1 + measured_ * Philox{draws_.seed, 78}.normal(which));
  }

 private:
  Philox draws_;
  double floor_, bias_, power_, speed_, noise_, rate_max_, measured_;
};

// How a start ends: the metric, or another end.
using Train = std::function<RungResult(const TrialStart&)>;

// Carries a search out with `slots` places, ending what runs in an order drawn by `seed`; `after` sees every state
// before it is decided upon. Returns the history.
inline std::vector<Trial> carry_out(const Halving& halving, int slots, std::uint64_t seed, const Train& train,
                                    const std::function<void(const std::vector<Trial>&, const Decision&)>& after = {}) {
  std::vector<Trial> history;
  std::vector<TrialStart> running;
  PhiloxSequence order(seed, 79);
  for (int turn = 0; turn < 100'000; ++turn) {
    const int room = std::max(0, slots - static_cast<int>(running.size()));
    const Decision decision = halving.decide(history, room);
    if (after) after(history, decision);
    for (const TrialStart& start : decision.starts) {
      auto trial = std::ranges::find(history, start.trial, &Trial::name);
      if (trial == history.end())
        trial = history.insert(std::ranges::lower_bound(history, start.trial, {}, &Trial::name),
                               {start.trial, start.settings, {}});
      trial->results.push_back({start.rung, RungEnd::running, 0, 0});
      running.push_back(start);
    }
    if (running.empty()) break;
    const auto chosen = running.begin() + static_cast<std::ptrdiff_t>(order.next_below(running.size()));
    RungResult result = train(*chosen);
    result.rung = chosen->rung;
    std::ranges::find(history, chosen->trial, &Trial::name)->results.back() = result;
    running.erase(chosen);
  }
  return history;
}

// A training by `loss`(configuration, step): NaN is diverged.
inline Train by_loss(std::function<double(const Value&, std::int64_t)> loss) {
  return [loss](const TrialStart& start) {
    const double metric = loss(start.settings, start.to_step);
    const std::int64_t steps = start.to_step - start.from_step;
    if (!std::isfinite(metric)) return RungResult{start.rung, RungEnd::diverged, 0, steps};
    return RungResult{start.rung, RungEnd::done, metric, steps};
  };
}

}  // namespace longhaul::hyper::toy
