// Where every parameter lies in the flat arrays of a rank: masters, compute copy, gradients, moments, and so
// checkpoints. Because q, k, v (and gate, up) follow each other without gaps, a block's fused matrices are ranges of a
// flat array; so are the matrices of a layer's experts, [experts, 2 ffn, hidden] and [experts, hidden, ffn].
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

// A part of the flat arrays whose gradients are summed over the same ranks: experts are held by others than the rest.
struct FlatSection {
  bool experts = false;
  FlatRange range;
  // What this rank's optimizer updates: all of it, or with ZeRO its share of the ranks' (Rajbhandari et al. 2020,
  // section 5.1). All shares are of the same size. Arrays of what is owned (moments) hold one section after the other,
  // this one from owned_at on.
  FlatRange owned;
  std::int64_t owned_at = 0;
  // What it writes to a checkpoint: ranks that own the same share it.
  FlatRange written;
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
  // Of ranks that hold the same elements (replicas aside), one counts: the first of the tp group, the first stage, the
  // first of the experts' copies within a micro-batch.
  bool is_counted(const FlatParameter& parameter) const;
  // The same with the replicas: what of it this rank owns is counted nowhere else.
  bool is_counted_here(const FlatParameter& parameter) const;
  // Elements of a flat array; larger than the number of weights by a few elements of padding, which stay zero.
  std::int64_t flat_size() const { return flat_size_; }
  // The dense part, and the experts where there are any; one after the other they are the flat arrays.
  const std::vector<FlatSection>& sections() const { return sections_; }
  const FlatSection& section_of(const FlatParameter& parameter) const;
  // Elements that this rank's optimizer updates.
  std::int64_t owned_size() const;
  // Gradients where micro-batches that meet in an expert are kept apart, each with an expert part of its own; the later
  // ones follow the flat array, this far from each other.
  std::int64_t expert_size() const { return flat_size_ - dense_size_; }

 private:
  MeshPlace place_;
  std::vector<FlatParameter> parameters_;
  std::vector<FlatSection> sections_;
  std::int64_t dense_size_ = 0, flat_size_ = 0;
};

}  // namespace longhaul
