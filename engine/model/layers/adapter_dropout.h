// What is dropped of the input of LoRA's thin matrices in training (Hu et al. 2021; PEFT's lora_dropout): with z = m x
// / (1 - p) a matrix that is adapted gives y = W x + s B A z. A layer computes with W' = W + s B A
// (engine/model/store/weight_source.h), so what is left to add to its products, with c = z - x, is
//   y += s B A c,   and from dy:   dx += (m / (1 - p) - 1) (s A^T B^T dy)
// and as the gradient dW', from which an adapter takes those of A and B alone, dy z^T stands for dy x^T: then dA = s
// B^T dW' and dB = s dW' A^T are those of s B A z. Masks are those of engine/ops/pointwise/dropout.h at places behind
// the model's own, one for each matrix of the adapter: every layout, a recomputation and the backward have the same. In
// evaluation, where a micro-batch drops nothing, there is nothing to add.
#pragma once

#include <vector>

#include "engine/core/tensor/memory_accounts.h"
#include "engine/model/layers/micro_batch.h"
#include "engine/model/store/weight_source.h"
#include "engine/ops/pointwise/dropout.h"
#include "engine/parallel/context/context_shard.h"

namespace longhaul {

class AdapterDropout;

// In the products of one fused matrix with one micro-batch. Rows are those of tokens [first, first + count) of it, in
// the type that computes. Of one at a time; it writes the memory of its AdapterDropout.
class AdapterAddend {
 public:
  AdapterAddend() = default;  // nothing is dropped
  AdapterAddend(AdapterDropout& dropout, const MicroBatch& batch, std::int64_t begin, std::int64_t out,
                std::vector<LowRankMatrix> parts);

  bool drops() const { return !parts_.empty(); }
  // y [count, out] += s B A c of each part's rows of it; x [count, in]. y may be f32.
  void forward(const ComputeContext& context, std::int64_t first, std::int64_t count, ConstView x, View y) const;
  // dx [count, in] += the above of dy [count, out]. dx may be f32.
  void backward_input(const ComputeContext& context, std::int64_t first, std::int64_t count, ConstView dy,
                      View dx) const;
  // dW [out, in] f32 of the parts = or += dy^T z, of all tokens; of others nothing is written.
  void backward_weight(const ComputeContext& context, ConstView dy, ConstView x, View dweight, bool accumulate) const;

 private:
  struct Factors {
    ConstView a, b;  // as they compute
  };
  Factors factors_of(const ComputeContext& context, const LowRankMatrix& part) const;
  // z (or c) of rows x, into `out`, which may be x.
  void drop(const ComputeContext& context, const LowRankMatrix& part, std::int64_t first, std::int64_t count,
            bool change, ConstView x, View out) const;
  // Its first column of the fused matrix' output.
  std::int64_t column_of(const LowRankMatrix& part) const { return (part.begin - begin_) / part.in; }

  AdapterDropout* dropout_ = nullptr;
  MicroBatch batch_;
  std::int64_t begin_ = 0, out_ = 0;
  std::vector<LowRankMatrix> parts_;
};

// Of all layers of a model, one at a time.
class AdapterDropout {
 public:
  // adapter: borrowed; it drops. tokens_max: of a micro-batch here. seed: the run's.
  AdapterDropout(WeightSource& adapter, std::uint64_t seed, const ContextShard& shard, DType dtype,
                 std::int64_t tokens_max, MemoryAccount* memory);

  // Of the fused matrix [out, in] at `begin` of the model's flat order. dropout: null: none.
  static AdapterAddend addend(AdapterDropout* dropout, const MicroBatch& batch, std::int64_t begin, std::int64_t out,
                              std::int64_t in);

 private:
  friend class AdapterAddend;

  WeightSource& adapter_;
  double rate_;
  std::uint64_t seed_;
  ContextShard shard_;
  // In the type that computes: z or c [tokens, in]; A z [tokens, rank]; A and B, where they are not as they compute.
  Tensor rows_, thin_, factors_;
};

}  // namespace longhaul
