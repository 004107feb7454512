// Where a model's weights come from when they are not simply those that a store keeps.
#pragma once

#include <cstdint>

#include "base/error/result.h"
#include "engine/core/tensor/tensor.h"

namespace longhaul {

class WeightSource {
 public:
  virtual ~WeightSource() = default;
  // Elements from `begin` on of the flat order, in the type that computes, all of one ShardUnit. Valid until four other
  // units were asked for.
  virtual ConstView weights(std::int64_t begin, std::int64_t elements) = 0;
  // What went wrong between the ranks; nothing that weights() gave is of use then.
  virtual Status status() const { return {}; }
};

}  // namespace longhaul
