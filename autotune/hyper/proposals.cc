#include "autotune/hyper/proposals.h"

#include <algorithm>
#include <cmath>

#include "autotune/hyper/parzen.h"
#include "base/digest/philox.h"
#include "base/text/text.h"

namespace longhaul::hyper {
namespace {

// Streams of the seed, one per purpose.
constexpr std::uint64_t shift_stream = 1, order_stream = 2, model_stream = 3;
constexpr int tries_max = 1000;               // points looked at for one that is new
constexpr std::int64_t listed_max = 100'000;  // configurations that are looked through one by one
constexpr int candidates = 64;                // drawn from the good density
constexpr double good_share = 0.15;           // Falkner et al. 2018 (1807.01774)

using Point = std::vector<double>;

bool is_known(const std::vector<Trial>& history, const Value& configuration) {
  return std::ranges::find(history, configuration, &Trial::settings) != history.end();
}

// The positive root of x^(dims + 1) = x + 1, by the iteration x <- (1 + x)^(1 / (dims + 1)), which contracts.
double spread_root(std::size_t dims) {
  double root = 2;
  for (int i = 0; i < 64; ++i) root = std::pow(1 + root, 1 / (static_cast<double>(dims) + 1));
  return root;
}

std::optional<Proposal> propose_of_all(const HyperSearchSettings& settings, const SearchSpace& space,
                                       const std::vector<Trial>& history, int index) {
  const std::int64_t size = *space.size();
  const Philox order{static_cast<std::uint64_t>(settings.seed), order_stream};
  std::vector<std::pair<std::uint64_t, std::int64_t>> numbers;
  for (std::int64_t n = 0; n < size; ++n) numbers.emplace_back(order.u64(static_cast<std::uint64_t>(n)), n);
  std::ranges::sort(numbers);
  for (std::int64_t i = 0; i < size; ++i) {
    Value configuration = space.numbered(numbers[static_cast<std::size_t>((index + i) % size)].second);
    if (!is_known(history, configuration))
      return Proposal{std::move(configuration), format("one of all {} configurations", size)};
  }
  return std::nullopt;
}

std::optional<Proposal> propose_spread(const HyperSearchSettings& settings, const SearchSpace& space,
                                       const std::vector<Trial>& history, int index) {
  const auto seed = static_cast<std::uint64_t>(settings.seed);
  // Points of later trials are left to them; those after the last trial's replace what is known already.
  for (int i = 0; i < tries_max; ++i) {
    const int number = i == 0 ? index : settings.trials + index * tries_max + i;
    Value configuration = space.at(spread_point(seed, space.dims(), number));
    if (!is_known(history, configuration)) return Proposal{std::move(configuration), "spread"};
  }
  // Few are left, or they have small shares of the cube.
  if (const auto size = space.size(); size && *size <= listed_max)
    return propose_of_all(settings, space, history, index);
  return std::nullopt;
}

// What is known, best first: points of finished rungs, then all that failed or runs.
struct Observed {
  std::vector<Point> points;
  std::size_t ended = 0;  // with a result, be it a bad one
  std::size_t done = 0;   // with a metric
};

// Of the configuration, not of the machine or its users.
bool is_bad(RungEnd end) {
  return end != RungEnd::done && end != RungEnd::running && end != RungEnd::lost && end != RungEnd::stopped;
}

Observed observed_of(const HyperSearchSettings& settings, const SearchSpace& space, const std::vector<Trial>& history) {
  const double sign = settings.mode == "max" ? -1 : 1;
  using Rank = std::tuple<int, int, double, std::string>;
  std::vector<std::pair<Rank, Point>> ranked;
  Observed observed;
  for (const Trial& trial : history) {
    const auto point = space.place(trial.settings);
    if (!point || trial.results.empty()) continue;
    Rank rank{2, 0, 0, trial.name};
    bool failed = false, done = false;
    for (const RungResult& r : trial.results) {
      if (r.end == RungEnd::done) rank = {0, -r.rung, sign * r.metric, trial.name}, done = true;
      failed |= is_bad(r.end);
    }
    // What others ended before anything was known says nothing, and need not be kept away from.
    if (!done && trial.results.back().end == RungEnd::stopped) continue;
    // A training that fails on a later rung is no good one, whatever it promised.
    if (failed) rank = {1, 0, 0, trial.name};
    observed.done += done && !failed, observed.ended += done || failed;
    ranked.emplace_back(std::move(rank), *point);
  }
  std::ranges::sort(ranked);
  for (auto& [rank, point] : ranked) observed.points.push_back(std::move(point));
  return observed;
}

std::optional<Proposal> propose_by_model(const HyperSearchSettings& settings, const SearchSpace& space,
                                         const std::vector<Trial>& history, int index, const Observed& observed) {
  const auto share = static_cast<std::size_t>(std::ceil(good_share * static_cast<double>(observed.ended)));
  const std::size_t good = std::min(std::max<std::size_t>(2, share), observed.done);
  std::vector<KernelDim> dims;
  for (std::size_t dim = 0; dim < space.dims(); ++dim)
    dims.push_back({space.is_ordered(dim), static_cast<int>(space.levels(dim))});
  const auto middle = observed.points.begin() + static_cast<std::ptrdiff_t>(good);
  const std::vector<Point> good_points(observed.points.begin(), middle), other_points(middle, observed.points.end());
  const std::vector<double> widths = kernel_widths(good_points, dims.size());
  const ParzenDensity best(dims, good_points, widths), others(dims, other_points, widths);
  PhiloxSequence draws(static_cast<std::uint64_t>(settings.seed),
                       model_stream + (static_cast<std::uint64_t>(index) << 8));
  std::optional<Proposal> proposal;
  double best_ratio = -HUGE_VAL;
  for (int i = 0; i < candidates; ++i) {
    Value configuration = space.at(best.draw(draws));
    if (is_known(history, configuration)) continue;
    const Point point = *space.place(configuration);  // of the value that it became, not of the draw
    const double ratio = best.log_density(point) - others.log_density(point);
    if (ratio <= best_ratio) continue;
    best_ratio = ratio;
    proposal = Proposal{std::move(configuration), format("tpe: {} good of {}", good, observed.ended)};
  }
  return proposal;
}

}  // namespace

std::vector<double> spread_point(std::uint64_t seed, std::size_t dims, std::int64_t index) {
  const double root = spread_root(dims);
  const Philox shift{seed, shift_stream};
  Point point;
  double alpha = 1;
  for (std::size_t dim = 0; dim < dims; ++dim) {
    alpha /= root;
    const double x = shift.uniform_double(dim) + alpha * static_cast<double>(index + 1);
    point.push_back(x - std::floor(x));
  }
  return point;
}

std::optional<Proposal> propose(const HyperSearchSettings& settings, const std::vector<Trial>& history, int index) {
  const SearchSpace space(settings.space);
  if (const auto size = space.size(); size && *size <= settings.trials)
    return propose_of_all(settings, space, history, index);
  if (settings.proposals == "tpe") {
    const Observed observed = observed_of(settings, space, history);
    const auto first = static_cast<std::size_t>(settings.first > 0 ? settings.first : 4 + 2 * space.dims());
    if (observed.ended >= first && observed.done >= 2)
      if (auto proposal = propose_by_model(settings, space, history, index, observed)) return proposal;
  }
  return propose_spread(settings, space, history, index);
}

}  // namespace longhaul::hyper
