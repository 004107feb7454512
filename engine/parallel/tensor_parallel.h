// The collectives of tensor parallelism (Shoeybi et al. 2019, section 3: one sum after each row-parallel matrix, one in
// the backward of each column-parallel one) and of sequence parallelism (Korthikanti et al. 2022, section 4.2.2: the
// same sums as a reduce-scatter over tokens before norms and residuals, which then hold t / tp rows, and an all-gather
// after).
//
// Sums are f32 along one tree over the ranks (engine/comm). A failure is kept and everything after it does nothing: the
// model's functions return no Status, whoever runs them asks status() when a micro-batch is done.
#pragma once

#include <span>
#include <vector>

#include "engine/comm/communicator.h"
#include "engine/core/compute_context.h"
#include "engine/core/tensor.h"
#include "engine/parallel/mesh.h"

namespace longhaul {

class TensorParallel {
 public:
  TensorParallel() = default;  // one rank: nothing is split, nothing is sent
  explicit TensorParallel(Mesh& mesh);

  int rank() const { return rank_; }
  int size() const { return size_; }
  bool splits() const { return size_ > 1; }
  bool sequence() const { return sequence_; }
  // Of the t tokens of a micro-batch, those whose residual this rank holds.
  std::int64_t rows(std::int64_t tokens) const { return sequence_ ? tokens / size_ : tokens; }
  std::int64_t first_row(std::int64_t tokens) const { return sequence_ ? rank_ * rows(tokens) : 0; }

  // partial [t, n] f32, of every rank its own addend, overwritten -> out [rows(t), n] of any float type: the sum.
  void sum_rows(const ComputeContext& context, View partial, std::int64_t tokens, std::int64_t columns, View out);
  // local [rows(t), n] -> out [t, n], the same on all ranks; nothing happens where every rank holds all rows (out may
  // then be local).
  void gather_rows(View local, std::int64_t tokens, std::int64_t columns, View out);
  // local [t / ranks, n], of every rank its own, -> out [t, n], whether sequence parallelism is on or not.
  void gather_parts(View local, std::int64_t tokens, std::int64_t columns, View out);
  // In place, over the ranks.
  void sum(std::span<float> values);
  void max(std::span<float> values);

  const Status& status() const { return status_; }
  // Where sums land.
  std::int64_t bytes() const { return static_cast<std::int64_t>(landing_.capacity() * sizeof(float)); }

 private:
  void finish(Request request);

  Communicator* communicator_ = nullptr;
  int rank_ = 0, size_ = 1;
  bool sequence_ = false;
  std::int64_t deadline_ms_ = 0;
  std::vector<float> landing_;  // of a sum that goes on in another type
  Status status_;
};

}  // namespace longhaul
