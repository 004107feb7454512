// Every schedule gives the rates that Megatron-LM's gives (tests/parity/golden/data_order.json) and transformers'
// (figures.json), begins again where it is asked to, and never leaves its bounds.
#include "engine/train/optimizer/lr_schedule.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <numbers>

#include "base/digest/philox.h"
#include "base/files/files.h"
#include "base/text/text.h"
#include "base/value/json.h"

using namespace longhaul;

namespace {

Value learning_rate_golden() {
  const std::string path = std::string(LONGHAUL_SOURCE_DIR) + "/tests/parity/golden/data_order.json";
  return *parse_json(read_file(path).value(), path).value().find("learning_rate");
}

OptimizerSettings settings_of(const Value& golden) {
  const std::map<std::string, std::string> ours = {
      {"inverse-square-root", "inverse_sqrt"}, {"WSD", "wsd"}, {"minus_sqrt", "one_minus_sqrt"}};
  const auto name = [&](const std::string& theirs) { return ours.contains(theirs) ? ours.at(theirs) : theirs; };
  OptimizerSettings s;
  s.lr = golden.get_number("lr");
  s.lr_min_ratio = golden.get_number("min") / s.lr;
  s.lr_start_ratio = golden.get_number("start") / s.lr;
  s.warmup_steps = golden.get_integer("warmup");
  s.lr_schedule = name(golden.get_string("schedule"));
  if (s.lr_schedule == "wsd") {
    s.lr_decay_steps = golden.get_integer("decay_steps");
    s.lr_decay_shape = name(golden.get_string("shape"));
  }
  return s;
}

// The most that a rate of 1 may change from `step` to the next, from the formulas' derivatives (lr_schedule.h). A run
// of the schedule is `steps` long; 0 as a step is its start.
double steepest(const OptimizerSettings& s, std::int64_t asked_warmup, std::int64_t steps, std::int64_t step) {
  const std::int64_t warmup = std::min(asked_warmup, steps / 2);
  if (step < warmup) return 1.0 / static_cast<double>(warmup);
  if (s.lr_schedule == "constant") return 0;
  if (s.lr_schedule == "inverse_sqrt") return 0.5 / static_cast<double>(std::max<std::int64_t>(1, warmup));
  std::int64_t length = steps - warmup;
  if (s.lr_schedule == "wsd") {
    const std::int64_t decay = std::max<std::int64_t>(1, s.lr_decay_steps > 0 ? s.lr_decay_steps : steps / 10);
    length = std::min(length, decay);
    if (step < steps - length) return 0;
  }
  const std::string& shape = s.lr_schedule == "wsd" ? s.lr_decay_shape : s.lr_schedule;
  const double one = 1.0 / static_cast<double>(length);
  if (shape == "linear") return one;
  if (shape == "exponential") return 2 * std::numbers::ln2 * one;
  if (shape == "one_minus_sqrt") return std::sqrt(one);  // its first step is its steepest
  return std::numbers::pi / 2 * one;
}

}  // namespace

TEST_CASE("a decay of one step is the last step alone") {
  OptimizerSettings s;
  s.lr = 1e-3, s.lr_min_ratio = 0.1, s.warmup_steps = 0;
  s.lr_schedule = "wsd", s.lr_decay_steps = 1, s.lr_decay_shape = "linear";
  CHECK(learning_rate(s, 19, 20) == 1e-3);
  CHECK(learning_rate(s, 20, 20) == doctest::Approx(1e-4));
  s.lr_decay_steps = 0;  // a tenth of nine steps is none, and one is taken
  CHECK(learning_rate(s, 8, 9) == 1e-3);
  CHECK(learning_rate(s, 9, 9) == doctest::Approx(1e-4));
}

TEST_CASE("every schedule, with and without warm-up, gives the reference's rates") {
  const Value golden = learning_rate_golden();
  REQUIRE(golden.size() == 24);
  for (const Value& row : golden.as_array()) {
    const OptimizerSettings settings = settings_of(row);
    CAPTURE(settings.lr_schedule);
    CAPTURE(settings.lr_decay_shape);
    CAPTURE(settings.warmup_steps);
    const std::int64_t steps = row.get_integer("steps");
    REQUIRE(check_lr_schedule(settings, steps).ok());
    for (std::int64_t step = 1; step <= steps; ++step) {
      CAPTURE(step);
      const double expected = row.find("rates")->as_array()[static_cast<std::size_t>(step - 1)].as_number();
      REQUIRE(learning_rate(settings, step, steps) == doctest::Approx(expected).epsilon(1e-12).scale(0));
    }
  }
}

TEST_CASE("every schedule gives the rates of transformers' get_*_schedule") {
  const std::string path = std::string(LONGHAUL_SOURCE_DIR) + "/tests/parity/golden/figures.json";
  const Value golden = *parse_json(read_file(path).value(), path).value().find("schedules");
  REQUIRE(golden.size() == 17);
  for (const Value& row : golden.as_array()) {
    OptimizerSettings s;
    s.lr = 1, s.lr_schedule = row.get_string("schedule"), s.warmup_steps = row.get_integer("warmup");
    s.lr_min_ratio = row.get_number("min", 0);
    if (s.lr_schedule == "wsd") s.lr_decay_steps = row.get_integer("decay"), s.lr_decay_shape = "cosine";
    CAPTURE(s.lr_schedule);
    CAPTURE(s.warmup_steps);
    CAPTURE(s.lr_min_ratio);
    const ValueArray& rates = row.find("rates")->as_array();
    REQUIRE(rates.size() == 100);
    for (std::int64_t step = 1; step <= 100; ++step) {
      CAPTURE(step);
      REQUIRE(std::abs(learning_rate(s, step, 100) - rates[static_cast<std::size_t>(step - 1)].as_number()) <= 1e-12);
    }
  }
}

TEST_CASE("the decay of wsd is the last tenth unless said otherwise, and everything before it stays at lr") {
  OptimizerSettings s;
  s.lr = 1, s.lr_min_ratio = 0, s.warmup_steps = 10, s.lr_schedule = "wsd", s.lr_decay_shape = "linear";
  CHECK(learning_rate(s, 11, 200) == 1.0);
  CHECK(learning_rate(s, 180, 200) == 1.0);
  CHECK(learning_rate(s, 190, 200) == doctest::Approx(0.5));
  CHECK(learning_rate(s, 200, 200) == doctest::Approx(0));
  // A longer run has the same rates up to its own decay: a checkpoint of the stable part serves both.
  for (std::int64_t step = 1; step <= 180; ++step) CHECK(learning_rate(s, step, 200) == learning_rate(s, step, 2000));
}

TEST_CASE("re-warming begins again after the given step, from where the first schedule ended, over the steps left") {
  OptimizerSettings first;
  first.lr = 1e-3, first.lr_min_ratio = 0.1, first.warmup_steps = 5, first.lr_schedule = "cosine";
  OptimizerSettings both = first;
  both.rewarm_after = 60, both.rewarm_steps = 20;
  for (std::int64_t step = 1; step <= 60; ++step)
    CHECK(learning_rate(both, step, 160) == learning_rate(first, step, 60));
  CHECK(learning_rate(both, 60, 160) == doctest::Approx(1e-4));
  CHECK(learning_rate(both, 61, 160) == doctest::Approx(1e-4 + 9e-4 / 20));
  CHECK(learning_rate(both, 70, 160) == doctest::Approx(5.5e-4));
  CHECK(learning_rate(both, 80, 160) == doctest::Approx(1e-3));
  CHECK(learning_rate(both, 120, 160) == doctest::Approx(5.5e-4));  // half of the second decay
  CHECK(learning_rate(both, 160, 160) == doctest::Approx(1e-4));
}

TEST_CASE("no rate jumps inside a schedule or leaves [the smaller of start and minimum, lr], whatever the settings") {
  const std::uint64_t seed = 11;
  CAPTURE(seed);
  PhiloxSequence random(seed);
  const std::vector<std::string> schedules = {"cosine", "linear", "inverse_sqrt", "wsd", "constant"};
  const std::vector<std::string> shapes = {"linear", "cosine", "one_minus_sqrt", "exponential"};
  for (int i = 0; i < 400; ++i) {
    const auto steps = static_cast<std::int64_t>(1 + random.next_below(300));
    OptimizerSettings s;
    s.lr = 1, s.lr_min_ratio = random.next_uniform(), s.lr_start_ratio = random.next_uniform();
    s.warmup_steps = static_cast<std::int64_t>(random.next_below(100));
    s.lr_schedule = schedules[random.next_below(schedules.size())];
    s.lr_decay_shape = shapes[random.next_below(shapes.size())];
    if (s.lr_schedule == "wsd") s.lr_decay_steps = static_cast<std::int64_t>(random.next_below(100));
    s.rewarm_after = static_cast<std::int64_t>(random.next_below(200));
    if (s.rewarm_after > 0) s.rewarm_steps = static_cast<std::int64_t>(random.next_below(50));
    CAPTURE(i);
    CAPTURE(s.lr_schedule);
    double before = 0;
    for (std::int64_t step = 1; step <= steps + 2; ++step) {
      const double rate = learning_rate(s, step, steps);
      REQUIRE(rate <= 1.0 + 1e-12);
      REQUIRE(rate >= std::min(s.lr_min_ratio, s.lr_start_ratio) - 1e-12);
      // A re-warming without steps is a jump that was asked for; every other change is as flat as its formula.
      const bool again = s.rewarm_after > 0 && s.rewarm_after < steps && step > s.rewarm_after;
      const std::int64_t begin = again ? s.rewarm_after : 0;
      const std::int64_t whole = again ? steps - begin : s.rewarm_after > 0 ? std::min(s.rewarm_after, steps) : steps;
      const std::int64_t warmup = again ? s.rewarm_steps : s.warmup_steps;
      CAPTURE(step);
      if (step > 1 && !(step == begin + 1 && std::min(warmup, whole / 2) == 0))
        REQUIRE(std::abs(rate - before) <= steepest(s, warmup, whole, step - 1 - begin) + 1e-12);
      before = rate;
    }
  }
}

TEST_CASE("a phase goes from the rate of the one before to its own, and is there at its last step") {
  PlannedPhase phase;
  phase.first_step = 11, phase.last_step = 20, phase.lr_begin = 1, phase.lr_end = 0.2;
  phase.lr_shape = "linear";
  CHECK(learning_rate(phase, 11) == doctest::Approx(0.92));
  CHECK(learning_rate(phase, 15) == doctest::Approx(0.6));
  CHECK(learning_rate(phase, 20) == doctest::Approx(0.2));
  phase.lr_shape = "cosine";
  CHECK(learning_rate(phase, 15) == doctest::Approx(0.6));
  phase.lr_shape = "constant";
  CHECK(learning_rate(phase, 11) == 0.2);
  PlannedPhase warmup;
  warmup.first_step = 1, warmup.last_step = 4, warmup.lr_end = 8, warmup.lr_shape = "linear";
  CHECK(learning_rate(warmup, 1) == doctest::Approx(2));
  CHECK(learning_rate(warmup, 4) == doctest::Approx(8));
}
