// Weights of a rank of which some matrices are codes with a scale for each block: contracts/model/coded_weights.h has
// the formats and where each byte lies. The bytes lie where the account says; codes are made on the host as the weights
// are read. What of a unit's bytes ranks share is gathered by whoever asks (unit_gather.h) and handed in here.
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
  // Memory for what a rank has of the weights of `layout`; `compute`: of what has no codes.
  BlockCodes(const std::string& format, const ParameterLayout& layout, DType compute, MemoryAccount* account);

  const std::vector<ShardUnit>& units() const { return layout_.units(); }
  const PackedRanges& owned() const { return layout_.owned(); }
  ConstView bytes() const { return bytes_.view(); }  // u8, packed as owned()
  Device* device() const { return bytes_.device(); }
  bool has_any_in(FlatRange flat) const;
  std::size_t unit_of(FlatRange flat) const { return part_at(flat.begin).unit; }

  // All of this rank's box, on the host; of it is kept what is owned.
  void put(const ComputeContext& context, const FlatParameter& parameter, std::span<const float> box);
  // `unit`: all bytes of the unit in which the flat range is. Elements that have no codes, between two matrices that
  // have some:
  ConstView kept(FlatRange flat, ConstView unit) const;
  // Whole parameters, in f32 or bf16: the same bits on every device.
  void widen(const ComputeContext& context, FlatRange flat, ConstView unit, View out) const;

 private:
  using Part = CodedLayout::Part;
  const Part& part_at(std::int64_t flat) const;
  void keep(const ComputeContext& context, const Part& part, std::int64_t begin, ConstView bytes);
  void encode(const ComputeContext& context, const Part& part, std::span<const float> box);
  void decode(const ComputeContext& context, const Part& part, ConstView unit, View out) const;

  std::string format_;
  DType compute_;
  std::vector<float> values_;  // what codes stand for
  CodedLayout layout_;
  Tensor bytes_;
};

// The values of a whole matrix as they are after they were held in codes.
void round_to_codes(const std::string& format, std::span<float> values);

}  // namespace longhaul
