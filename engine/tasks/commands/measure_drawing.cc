#include "engine/tasks/commands/measure_drawing.h"

#include <algorithm>
#include <barrier>
#include <memory>
#include <thread>

#include "engine/infer/generate/made_up_rollout.h"
#include "engine/infer/serve/serving_speed.h"

namespace longhaul {
namespace {

constexpr double operations_share = 0.45;  // of the seconds

// Many short answers over a small vocabulary, with as many heads of keys as of queries; and few over a large one.
constexpr TimedRollout rollout_cases[] = {
    {128, 4, 4, 4, 384, 2048, 64, 12, 24, 8},
    {256, 2, 4, 2, 768, 8192, 48, 8, 8, 4},
};

double middle_seconds(std::vector<double> seconds) {
  const auto at = seconds.begin() + static_cast<std::ptrdiff_t>(seconds.size() / 2);
  std::nth_element(seconds.begin(), at, seconds.end());
  return *at;
}

class TimedDrawer {
 public:
  TimedDrawer(const DrawingMeasure& asked, const Clock& clock)
      : asked_(asked), clock_(clock), context_(asked.threads) {}

  // Models, and everything once: what the first time costs is no part of any other.
  Status prepare() {
    for (const TimedRollout& sizes : rollout_cases) {
      LH_TRY(std::unique_ptr<MadeUpRollout> made, MadeUpRollout::create(context_, sizes, asked_.dtype));
      LH_CHECK(made->draw(clock_));
      LH_CHECK(made->compare(clock_));
      rollouts_.push_back({std::move(made), {}, {}});
    }
    return {};
  }

  Result<DrawingTimes> measure() {
    const std::int64_t begun = clock_.monotonic_ns();
    DrawingTimes times;
    LH_TRY(times.serving,
           measure_serving(context_, {asked_.dtype, operations_share * asked_.seconds, asked_.stop}, clock_));
    double round = 0;  // seconds of the last one
    const auto spent = [&] { return static_cast<double>(clock_.monotonic_ns() - begun) * 1e-9; };
    do {
      const double before = spent();
      LH_CHECK(draw_once());
      round = spent() - before;
    } while (asked_.until ? !asked_.until->load(std::memory_order_relaxed) : spent() + round <= asked_.seconds);
    for (std::size_t i = 0; i < rollouts_.size(); ++i) {
      TimedRollout& timed = times.rollouts.emplace_back(rollout_cases[i]);
      timed.generate_seconds = middle_seconds(rollouts_[i].drawn),
      timed.reference_seconds = middle_seconds(rollouts_[i].compared);
    }
    return times;
  }

 private:
  struct OneRollout {
    std::unique_ptr<MadeUpRollout> rollout;
    std::vector<double> drawn, compared;
  };

  Status draw_once() {
    for (OneRollout& one : rollouts_) {
      if (asked_.stop && asked_.stop->load(std::memory_order_relaxed))
        return make_error(ErrorCode::aborted, "the measurement was stopped");
      LH_TRY(const double drawn, one.rollout->draw(clock_));
      LH_TRY(const double compared, one.rollout->compare(clock_));
      one.drawn.push_back(drawn), one.compared.push_back(compared);
    }
    return {};
  }

  const DrawingMeasure& asked_;
  const Clock& clock_;
  ComputeContext context_;
  std::vector<OneRollout> rollouts_;
};

// Of ranks that timed the same.
DrawingTimes mean_of_ranks(const std::vector<DrawingTimes>& times) {
  DrawingTimes mean = times.front();
  const auto count = static_cast<double>(times.size());
  for (std::size_t i = 0; i < mean.serving.products.size(); ++i) {
    double sum = 0;
    for (const DrawingTimes& one : times) sum += one.serving.products[i].seconds;
    mean.serving.products[i].seconds = sum / count;
  }
  for (const ServingFigure& figure : serving_figures()) {
    double sum = 0;
    for (const DrawingTimes& one : times) sum += one.serving.*figure.at;
    mean.serving.*figure.at = sum / count;
  }
  for (std::size_t i = 0; i < mean.rollouts.size(); ++i) {
    double drawn = 0, compared = 0;
    for (const DrawingTimes& one : times)
      drawn += one.rollouts[i].generate_seconds, compared += one.rollouts[i].reference_seconds;
    mean.rollouts[i].generate_seconds = drawn / count, mean.rollouts[i].reference_seconds = compared / count;
  }
  return mean;
}

}  // namespace

Result<DrawingTimes> measure_drawing(const DrawingMeasure& asked, const Clock& clock) {
  const auto count = static_cast<std::size_t>(std::clamp(asked.ranks, 1, measured_drawers_max));
  std::vector<DrawingTimes> times(count);
  std::vector<Status> ends(count);
  std::barrier<> together(static_cast<std::ptrdiff_t>(count));
  const auto rank_main = [&](std::size_t i) -> Status {
    TimedDrawer rank(asked, clock);
    const Status prepared = rank.prepare();
    together.arrive_and_wait();
    LH_CHECK(prepared);
    LH_TRY(times[i], rank.measure());
    return {};
  };
  {
    std::vector<std::jthread> ranks;
    for (std::size_t i = 0; i < count; ++i) ranks.emplace_back([&, i] { ends[i] = rank_main(i); });
  }
  for (const Status& end : ends) LH_CHECK(end);
  return mean_of_ranks(times);
}

}  // namespace longhaul
