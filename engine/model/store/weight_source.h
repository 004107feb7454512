// Where a model's weights come from when they are not simply those that a store keeps.
#pragma once

#include <cstdint>
#include <vector>

#include "base/error/result.h"
#include "engine/core/tensor/tensor.h"

namespace longhaul {

// Of a matrix W + s B A what this rank has.
struct LowRankMatrix {
  std::int64_t number = 0;                      // among those of the adapter, the same on every rank
  std::int64_t begin = 0, out = 0, in = 0;      // in the model's flat order
  std::int64_t first_column = 0, whole_in = 0;  // of the whole matrix: which columns these are, and how many it has
  std::int64_t rank = 0;
  float factor = 0;  // s
  ConstView a, b;    // [rank, in], [out, rank], f32: valid as long as weights() are
};

// How an adapter drops some of its input in training, and what of it this rank has at most: columns of an input, a
// rank, elements of A and B together.
struct LowRankDropout {
  double rate = 0;  // 0: it drops nothing, and the rest says nothing
  std::int64_t in = 0, rank = 0, factors = 0;
};

class WeightSource {
 public:
  virtual ~WeightSource() = default;
  // Elements from `begin` on of the flat order, in the type that computes, all of one ShardUnit. Valid until four other
  // units were asked for.
  virtual ConstView weights(std::int64_t begin, std::int64_t elements) = 0;
  virtual LowRankDropout dropout() const { return {}; }
  // Those that begin in [begin, end), ascending, where their input drops. Collective where weights() are.
  virtual std::vector<LowRankMatrix> dropping(std::int64_t begin, std::int64_t end) {
    (void)begin, (void)end;
    return {};
  }
  // What went wrong between the ranks; nothing that weights() gave is of use then.
  virtual Status status() const { return {}; }
};

}  // namespace longhaul
