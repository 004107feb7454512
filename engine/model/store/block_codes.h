// Matrices of a rank's flat array as codes with a scale for each block: contracts/model/coded_weights.h has the
// formats. The codes lie where the account says, and are made on the host as the weights are read.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "contracts/model/coded_weights.h"
#include "engine/core/tensor/compute_context.h"
#include "engine/core/tensor/tensor.h"

namespace longhaul {

class BlockCodes {
 public:
  // Memory for the matrices of `layout` that the format codes: held_bytes() of it and of what has no codes.
  BlockCodes(const std::string& format, const ParameterLayout& layout, MemoryAccount* account);

  // What has no codes, packed; and where a part of one parameter of it lies there.
  const PackedRanges& without() const { return without_; }
  std::int64_t place_without(FlatRange flat) const;
  bool has_any_in(FlatRange flat) const;

  // All of this rank's box, on the host, which has codes.
  void encode(const ComputeContext& context, const FlatParameter& parameter, std::span<const float> box);
  // Those of the flat range, whole, into the same elements of `out` (f32 or bf16), whose first is flat.begin; the
  // others stay as they are. The same bits on every device.
  void decode(const ComputeContext& context, FlatRange flat, View out) const;

 private:
  struct Place {
    FlatRange flat;
    std::int64_t codes, scales;  // of its first
  };
  const Place* first_behind(std::int64_t begin) const;

  std::string format_;
  std::vector<float> values_;  // what codes stand for
  std::vector<Place> places_;  // ascending
  PackedRanges without_;
  Buffer codes_;
  Tensor scales_;  // f32
};

// The values of a whole matrix as they are after they were held in codes.
void round_to_codes(const std::string& format, std::span<float> values);

}  // namespace longhaul
