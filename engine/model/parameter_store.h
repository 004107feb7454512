// All weights of one rank in flat memory, in the order of contracts/parameter_list.h: f32 masters, and for bf16 compute
// a bf16 copy. Because q, k, v (and gate, up) follow each other without gaps, a block's fused [q + 2 kv, hidden] and [2
// ffn, hidden] matrices are simply ranges of the flat array; the names and checkpoints stay unfused.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "engine/core/compute_context.h"
#include "engine/core/tensor.h"
#include "engine/parallel/parameter_layout.h"

namespace longhaul {

class ParameterStore {
 public:
  // compute: f32 (the masters are the compute weights) or bf16.
  ParameterStore(const ModelShape& shape, DType compute, MemoryAccount* account = nullptr, const MeshPlace& place = {});

  const ModelShape& shape() const { return shape_; }
  const ParameterLayout& layout() const { return layout_; }
  DType compute_dtype() const { return compute_dtype_; }

  std::span<float> masters() { return master_.span<float>(); }
  std::span<const float> masters() const { return master_.span<float>(); }
  // The bf16 copy as a flat view; empty in f32: that is what adamw_update wants.
  View compute_copy() { return compute_dtype_ == DType::f32 ? View() : compute_.view(); }
  // Compute weights [begin, begin + rows * columns) as a matrix.
  ConstView weight(std::int64_t begin, std::int64_t rows, std::int64_t columns) const;
  ConstView vector(std::int64_t begin, std::int64_t elements) const;

  // Masters to compute copy, after the masters were written from outside (initialisation, checkpoint, conversion).
  void refresh_compute_copy(const ComputeContext& context);

 private:
  ModelShape shape_;
  ParameterLayout layout_;
  DType compute_dtype_;
  Tensor master_, compute_;
};

// Initial values of a box of a parameter, in C order: element i of the global tensor is Philox{seed,
// parameter_stream(name)}.normal(i) * std, so every layout gets the same bits.
void initialize_box(const ComputeContext& context, const ParameterSpec& spec, const Box& box, std::uint64_t seed,
                    std::span<float> out);
// All masters, and the compute copy.
void initialize_parameters(const ComputeContext& context, ParameterStore& store, std::uint64_t seed);

}  // namespace longhaul
