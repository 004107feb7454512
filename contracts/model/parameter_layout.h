// Where every parameter lies in the flat arrays of a rank: masters, compute copy, gradients, moments, and so
// checkpoints. Because q, k, v (and gate, up) follow each other without gaps, a block's fused matrices are ranges of a
// flat array; so are the matrices of a layer's experts, [experts, 2 ffn, hidden] and [experts, hidden, ffn].
#pragma once

#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "contracts/model/flat_range.h"
#include "contracts/model/parameter_list.h"

namespace longhaul {

// Which rank of which mesh holds something; by default the only one.
struct MeshPlace {
  ParallelDims dims;
  RankCoordinates at;
  StageLayout stages = {};  // of dims.pp and dims.vp; without layers: split evenly
};

// Where one parameter lies: elements [begin, end) of every flat array (masters, compute copy, gradients, moments) hold
// this rank's box of it, in C order.
struct FlatParameter {
  ParameterSpec spec;
  Box box;
  std::int64_t begin = 0, end = 0;
  bool is_whole() const { return box.extent == spec.shape; }
};

// Parameters whose gradients are summed and whose weights are gathered at once: the embedding, each block, its experts
// (which other ranks hold as well), and what follows the blocks. With ZeRO every rank owns one of `shards` equal shares
// of each unit (Rajbhandari et al. 2020, section 5; a unit at a time as in PyTorch's FSDP, Zhao et al. 2023), so that
// any part of the forward pass needs all ranks alike. Units touch each other and cover the flat array.
struct ShardUnit {
  FlatRange flat;
  int shards = 1, share = 0;      // of how many ranks, and which of them this one is
  int replicas = 1, replica = 0;  // ranks that own the same share
  bool experts = false;
  FlatRange owned() const {
    const std::int64_t size = flat.size() / shards;
    return {flat.begin + size * share, flat.begin + size * (share + 1)};
  }
};

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
  // first stage; of experts the first of their copies within a micro-batch, and of the etp group.
  bool is_counted(const FlatParameter& parameter) const;
  // The same with the replicas: what this rank owns of it counts nowhere else.
  bool is_counted_here(const FlatParameter& parameter) const;
  // Elements of a flat array; larger than the number of weights by a few elements of padding, which stay zero.
  std::int64_t flat_size() const { return flat_size_; }
  const std::vector<ShardUnit>& units() const { return units_; }
  // What this rank's optimizer updates: everything, or with ZeRO its share of each unit.
  const PackedRanges& owned() const { return owned_; }
  // What it writes to a checkpoint: ranks that own the same share it (of a cp group the
  // first alone: is_counted). Ranges of the flat arrays, one per unit.
  std::vector<FlatRange> written() const;
  // The layers of this rank's pipeline stages.
  const StageLayout& stages() const { return place_.stages; }

 private:
  void close_unit(std::int64_t end, bool experts);

  MeshPlace place_;
  std::vector<FlatParameter> parameters_;
  std::vector<ShardUnit> units_;
  PackedRanges owned_;
  std::int64_t flat_size_ = 0;
};

// For whoever looks for many parameters of a layout, which is borrowed.
class ParameterNames {
 public:
  explicit ParameterNames(const ParameterLayout& layout) {
    for (const FlatParameter& p : layout.parameters()) places_.emplace(p.spec.name, &p);
  }
  // nullptr: on other ranks.
  const FlatParameter* find_if_held(const std::string& name) const {
    const auto found = places_.find(name);
    return found == places_.end() ? nullptr : found->second;
  }

 private:
  std::unordered_map<std::string_view, const FlatParameter*> places_;
};

}  // namespace longhaul
