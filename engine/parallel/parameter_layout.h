// Where every parameter lies in the flat arrays of a rank: masters, compute copy, gradients, moments, and so
// checkpoints. Because q, k, v (and gate, up) follow each other without gaps, a block's fused matrices are ranges of a
// flat array.
#pragma once

#include <string>
#include <vector>

#include "contracts/parameter_list.h"

namespace longhaul {

// Which rank of which mesh holds something; by default the only one.
struct MeshPlace {
  ParallelDims dims;
  RankCoordinates at;
};

// Where one parameter lies: elements [begin, end) of every flat array (masters, compute copy, gradients, moments) hold
// this rank's box of it, in C order.
struct FlatParameter {
  ParameterSpec spec;
  Box box;
  std::int64_t begin = 0, end = 0;
  bool is_whole() const { return box.extent == spec.shape; }
};

// Elements [begin, end) of a flat array.
struct FlatRange {
  std::int64_t begin = 0, end = 0;
  std::int64_t size() const { return end - begin; }
};
FlatRange intersection(FlatRange a, FlatRange b);  // of size 0 where they have nothing in common

// The layout alone, without memory: gradients, moments and checkpoints use it too.
class ParameterLayout {
 public:
  // Parameters that this rank holds nothing of are left out.
  explicit ParameterLayout(const ModelShape& shape, const MeshPlace& place = {});
  const MeshPlace& place() const { return place_; }
  const std::vector<FlatParameter>& parameters() const { return parameters_; }
  // The end of the program if there is no parameter of that name: names come from the same list.
  const FlatParameter& find(const std::string& name) const;
  const FlatParameter* find_if_held(const std::string& name) const;  // nullptr: on other ranks
  // Of ranks that hold the same elements (replicas aside), one counts: the first of the tp and of the cp group, the
  // first stage.
  bool is_counted(const FlatParameter& parameter) const;
  // Elements of a flat array; larger than the number of weights by a few elements of padding, which stay zero.
  std::int64_t flat_size() const { return flat_size_; }
  // What this rank's optimizer updates: everything, or with ZeRO its share of the dp_shard ranks' (Rajbhandari et al.
  // 2020, section 5.1). All shares are of the same size.
  FlatRange owned() const;
  // What it writes to a checkpoint: ranks that own the same share it (of a cp group the first alone, is_counted).
  FlatRange written() const;

 private:
  MeshPlace place_;
  std::vector<FlatParameter> parameters_;
  std::int64_t flat_size_ = 0;
};

}  // namespace longhaul
