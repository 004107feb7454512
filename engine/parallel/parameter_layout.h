// Where every parameter lies in the flat arrays of a rank: masters, compute copy, gradients, moments, and so
// checkpoints. Because q, k, v (and gate, up) follow each other without gaps, a block's fused matrices are ranges of a
// flat array.
#pragma once

#include <string>
#include <vector>

#include "contracts/parameter_list.h"

namespace longhaul {

// Where one parameter lies: elements [begin, end) of every flat array (masters, compute copy, gradients, moments).
struct FlatParameter {
  ParameterSpec spec;
  std::int64_t begin = 0, end = 0;
};

// The layout alone, without memory: gradients, moments and checkpoints use it too.
class ParameterLayout {
 public:
  explicit ParameterLayout(const ModelShape& shape);
  const std::vector<FlatParameter>& parameters() const { return parameters_; }
  // The end of the program if there is no parameter of that name: names come from the same list.
  const FlatParameter& find(const std::string& name) const;
  // Elements of a flat array; larger than the number of weights by a few elements of padding, which stay zero.
  std::int64_t flat_size() const { return flat_size_; }

 private:
  std::vector<FlatParameter> parameters_;
  std::int64_t flat_size_ = 0;
};

}  // namespace longhaul
