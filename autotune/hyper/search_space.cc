#include "autotune/hyper/search_space.h"

#include <algorithm>
#include <cmath>

namespace longhaul::hyper {
namespace {

bool is_log(const HyperParameter& p) {
  return p.scale == "log";
}

double step_of(const HyperParameter& p) {
  return p.step > 0 ? p.step : p.integer ? 1 : 0;
}

// Where coordinate 0 and 1 lie on the scale. Whole numbers on a log scale reach half a number further, so that the ends
// have their share.
std::pair<double, double> ends_of(const HyperParameter& p) {
  if (!is_log(p)) return {p.min, p.max};
  const double half = p.integer ? 0.5 : 0;
  return {std::log(p.min - half), std::log(p.max + half)};
}

Value number(const HyperParameter& p, double x) {
  return p.integer ? Value(static_cast<std::int64_t>(std::llround(x))) : Value(x);
}

}  // namespace

SearchSpace::SearchSpace(std::vector<HyperParameter> parameters) : parameters_(std::move(parameters)) {}

std::int64_t SearchSpace::levels(std::size_t dim) const {
  const HyperParameter& p = parameters_[dim];
  if (p.is_list()) return static_cast<std::int64_t>(p.values.size());
  const double step = step_of(p);
  // A last step that rounding made a hair too long is one.
  return step > 0 ? static_cast<std::int64_t>(std::floor((p.max - p.min) / step + 1e-9)) + 1 : 0;
}

bool SearchSpace::is_ordered(std::size_t dim) const {
  const HyperParameter& p = parameters_[dim];
  if (!p.is_list()) return true;
  const auto number_of = [](const Value& v) { return v.as_number(); };
  return p.values[0].is_number() && (std::ranges::is_sorted(p.values, std::less{}, number_of) ||
                                     std::ranges::is_sorted(p.values, std::greater{}, number_of));
}

std::optional<std::int64_t> SearchSpace::size() const {
  std::int64_t product = 1;
  for (std::size_t dim = 0; dim < dims(); ++dim) {
    const std::int64_t count = levels(dim);
    if (count == 0 || count > (std::int64_t{1} << 62) / product) return std::nullopt;
    product *= count;
  }
  return product;
}

Value SearchSpace::value_at(const HyperParameter& p, double coordinate) const {
  const double u = std::clamp(coordinate, 0.0, 1.0);
  const auto level = [&](std::int64_t count) {
    return std::min(count - 1, static_cast<std::int64_t>(u * static_cast<double>(count)));
  };
  if (p.is_list()) return p.values[static_cast<std::size_t>(level(static_cast<std::int64_t>(p.values.size())))];
  const auto [low, high] = ends_of(p);
  if (is_log(p)) return number(p, std::clamp(std::exp(low + u * (high - low)), p.min, p.max));
  const auto dim = static_cast<std::size_t>(&p - parameters_.data());
  if (const std::int64_t count = levels(dim); count > 0)
    return number(p, p.min + static_cast<double>(level(count)) * step_of(p));
  return number(p, low + u * (high - low));
}

Value SearchSpace::at(std::span<const double> point) const {
  Value configuration = Value::make_table();
  for (std::size_t dim = 0; dim < dims(); ++dim)
    configuration.set(parameters_[dim].name, value_at(parameters_[dim], point[dim]));
  return configuration;
}

std::optional<std::vector<double>> SearchSpace::place(const Value& configuration) const {
  std::vector<double> point;
  for (std::size_t dim = 0; dim < dims(); ++dim) {
    const HyperParameter& p = parameters_[dim];
    const Value* const value = configuration.find(p.name);
    if (!value) return std::nullopt;
    const auto count = static_cast<double>(levels(dim));
    if (p.is_list()) {
      const auto found = std::ranges::find(p.values, *value);
      if (found == p.values.end()) return std::nullopt;
      point.push_back((static_cast<double>(found - p.values.begin()) + 0.5) / count);
      continue;
    }
    if (!value->is_number()) return std::nullopt;
    const double x = value->as_number();
    // A log scale gives its ends back to the last bit or so.
    const double slack = 1e-12 * std::max(std::fabs(p.min), std::fabs(p.max));
    if (!(x >= p.min - slack && x <= p.max + slack)) return std::nullopt;
    const auto [low, high] = ends_of(p);
    if (is_log(p))
      point.push_back(std::clamp((std::log(x) - low) / (high - low), 0.0, 1.0));
    else if (count > 0)
      point.push_back(std::clamp((std::round((x - p.min) / step_of(p)) + 0.5) / count, 0.0, 1.0));
    else
      point.push_back((x - low) / (high - low));
  }
  return point;
}

Value SearchSpace::numbered(std::int64_t index) const {
  std::vector<std::int64_t> level(dims());
  for (std::size_t dim = dims(); dim-- > 0;) {
    level[dim] = index % levels(dim);
    index /= levels(dim);
  }
  Value configuration = Value::make_table();
  for (std::size_t dim = 0; dim < dims(); ++dim) {
    const HyperParameter& p = parameters_[dim];
    const auto at_level = static_cast<std::size_t>(level[dim]);
    configuration.set(p.name,
                      p.is_list() ? p.values[at_level] : number(p, p.min + static_cast<double>(at_level) * step_of(p)));
  }
  return configuration;
}

}  // namespace longhaul::hyper
