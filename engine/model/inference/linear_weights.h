// The weights of one linear layer as serving keeps them: dense (f32 or bf16), int8 or fp8 with one scale per output
// channel, or int4 in groups. Whoever adds another kind adds an alternative to the variant and one branch in apply().
#pragma once

#include <span>
#include <utility>
#include <variant>

#include "engine/core/tensor/compute_context.h"
#include "engine/core/tensor/tensor.h"

namespace longhaul {

// Elements that weights own; or that they borrow from a store in training, which outlives them and does not change
// them meanwhile (stored_weights.h).
class WeightTensor {
 public:
  WeightTensor() = default;
  WeightTensor(Tensor own) : own_(std::move(own)) {}  // NOLINT: implicit on purpose
  static WeightTensor borrowed(ConstView of_store) {
    WeightTensor made;
    made.borrowed_ = of_store;
    return made;
  }

  bool is_borrowed() const { return !borrowed_.empty(); }
  ConstView view() const { return is_borrowed() ? borrowed_ : own_.view(); }
  operator ConstView() const { return view(); }  // NOLINT: implicit on purpose
  const Shape& shape() const { return is_borrowed() ? borrowed_.shape() : own_.shape(); }
  std::int64_t size() const { return view().size(); }
  std::int64_t bytes() const { return view().bytes(); }  // whosever they are

 private:
  Tensor own_;
  ConstView borrowed_;
};

struct DenseWeights {
  WeightTensor weight;  // [out, in], f32 or bf16: the type of the activations
  WeightTensor bias;    // [out], the same type; empty: none
};

struct Int8Weights {
  Tensor q;       // [out, in] i8
  Tensor scales;  // [out] f32; W[o, i] = scales[o] * q[o, i]
};

// As engine/ops/linear/weight_only.h has them. No embedding is of these two.
struct Fp8Weights {
  Tensor codes;   // [out, in] u8
  Tensor scales;  // [out] f32
};
struct Int4Weights {
  Tensor packed;  // [out, int4_row_bytes(in)] u8
  Tensor scales;  // [out, groups] f32
  std::int64_t in = 0, group = 0;
};

class LinearWeights {
 public:
  LinearWeights() = default;
  explicit LinearWeights(DenseWeights weights);
  explicit LinearWeights(Int8Weights weights);
  explicit LinearWeights(Fp8Weights weights);
  explicit LinearWeights(Int4Weights weights);

  std::int64_t in() const { return in_; }
  std::int64_t out() const { return out_; }
  std::int64_t bytes() const;
  bool is_quantized() const { return dense() == nullptr; }
  const DenseWeights* dense() const { return std::get_if<DenseWeights>(&weights_); }
  const Int8Weights* int8() const { return std::get_if<Int8Weights>(&weights_); }
  const Fp8Weights* fp8() const { return std::get_if<Fp8Weights>(&weights_); }
  const Int4Weights* int4() const { return std::get_if<Int4Weights>(&weights_); }

  // y[tokens, out] = x[tokens, in] W^T (+ bias). x f32 or bf16; y of x's type, or f32.
  void apply(const ComputeContext& context, std::int64_t tokens, ConstView x, View y) const;

  // Rows ids[t] of W as [tokens, in] in out's type: the embedding look-up of a tied or quantized table. Weights and ids
  // lie where the context's operations work.
  void gather_rows(const ComputeContext& context, std::span<const std::int32_t> ids, View out) const;

 private:
  std::variant<DenseWeights, Int8Weights, Fp8Weights, Int4Weights> weights_;
  std::int64_t in_ = 0, out_ = 0;
};

}  // namespace longhaul
