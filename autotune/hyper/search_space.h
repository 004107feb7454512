// The arithmetic of a search space: configurations against points of the unit cube, one coordinate per parameter, so
// that whoever proposes configurations needs to know nothing of scales, whole numbers and lists.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "contracts/settings/stages/hyper_search.h"

namespace longhaul::hyper {

class SearchSpace {
 public:
  // Of parameters that parse_hyper_search took without an error.
  explicit SearchSpace(std::vector<HyperParameter> parameters);

  std::size_t dims() const { return parameters_.size(); }
  const std::vector<HyperParameter>& parameters() const { return parameters_; }
  // Values of a parameter, or 0: any in between.
  std::int64_t levels(std::size_t dim) const;
  // Do neighbours in the coordinate resemble each other? All but lists of texts and of yes/no, and lists of numbers
  // that are not in order.
  bool is_ordered(std::size_t dim) const;
  // Configurations in all; nullopt where a parameter is continuous, or there are more than 2^62.
  std::optional<std::int64_t> size() const;

  // A configuration: a table of every parameter's value by its name. Coordinates in [0, 1]: uniform ones give uniform
  // values, on a log scale uniform logarithms; every level of a list or of whole steps has the same share.
  Value at(std::span<const double> point) const;
  // Its inverse, the middle of a level's share; nullopt where a parameter is missing or has a value that it cannot
  // have.
  std::optional<std::vector<double>> place(const Value& configuration) const;
  // Number `index` of a space with a size; the last parameter changes fastest.
  Value numbered(std::int64_t index) const;

 private:
  Value value_at(const HyperParameter& parameter, double coordinate) const;
  std::vector<HyperParameter> parameters_;
};

}  // namespace longhaul::hyper
