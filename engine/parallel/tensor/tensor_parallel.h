// Room engine/parallel/tensor
// The collectives of tensor and sequence parallelism, beside the computation where possible.
// tensor_parallel.h is the entry; row_gather.h and row_sum.h move rows while others are still computed.
// vocab_parallel_loss.h is output layer and loss where the vocabulary is split.
// It holds no weights: the split matrices are engine/model/layers/parallel_linear.h.
//
// The collectives of tensor parallelism (Shoeybi et al. 2019, section 3: one sum after each row-parallel matrix, one in
// the backward of each column-parallel one) and of sequence parallelism (Korthikanti et al. 2022, section 4.2.2: the
// same sums as a reduce-scatter over tokens before norms and residuals, which then hold t / tp rows, and an all-gather
// after). Gathers and sums of rows may travel beside the products that need or make those rows (row_gather.h,
// row_sum.h; Wang et al. 2022, "Overlap communication with dependent computation via decomposition").
//
// Sums are f32 along one tree over the ranks (engine/comm), overlapped or not. A failure is kept and everything after
// it does nothing: the model's functions return no Status, whoever runs them asks status() when a micro-batch is done.
#pragma once

#include <span>
#include <vector>

#include "engine/comm/communicator.h"
#include "engine/core/tensor/compute_context.h"
#include "engine/core/tensor/tensor.h"
#include "engine/parallel/mesh/mesh.h"
#include "engine/parallel/tensor/row_gather.h"
#include "engine/parallel/tensor/row_sum.h"

namespace longhaul {

struct TensorOverlap {
  bool on = true;    // rows travel while others are computed; no result depends on it
  RowPieces pieces;  // how products are cut for it, on or off; another cut may round otherwise
};

class TensorParallel {
 public:
  TensorParallel() = default;  // one rank: nothing is split, nothing is sent
  explicit TensorParallel(Mesh& mesh, const TensorOverlap& overlap = {});

  int rank() const { return rank_; }
  int size() const { return size_; }
  bool splits() const { return size_ > 1; }
  bool sequence() const { return sequence_; }
  bool overlaps() const { return overlap_.on; }
  // Of the t tokens of a micro-batch, those whose residual this rank holds.
  std::int64_t rows(std::int64_t tokens) const { return sequence_ ? tokens / size_ : tokens; }
  std::int64_t first_row(std::int64_t tokens) const { return sequence_ ? rank_ * rows(tokens) : 0; }

  // The sum over the ranks of a partial [t, n] f32, of every rank its own addend, overwritten -> out [rows(t), n] of
  // any float type. One at a time: start, then for each of `pieces` compute its rows of `partial` and give(), then
  // finish. landing: f32, at least t - rows(t) rows.
  std::vector<RowRange> pieces(std::int64_t tokens) const { return sum_.pieces(tokens, overlap_.pieces); }
  void start_sum(View partial, View landing, std::int64_t tokens, std::int64_t columns, View out);
  RowSum& sum_under_way() { return sum_; }
  // The same of a partial that is there already.
  void sum_rows(const ComputeContext& context, View partial, View landing, std::int64_t tokens, std::int64_t columns,
                View out);

  // With sequence parallelism local [rows(t), n] -> out [t, n], the same on all ranks. `needed`: by what is computed
  // next; `ahead`: by something later. One of each at a time.
  RowGather& needed() { return needed_; }
  RowGather& ahead() { return ahead_; }
  // Both at once; nothing happens where every rank holds all rows (out may then be local).
  void gather_rows(View local, std::int64_t tokens, std::int64_t columns, View out);
  // local [t / ranks, n], of every rank its own, -> out [t, n], whether sequence parallelism is on or not.
  void gather_parts(View local, std::int64_t tokens, std::int64_t columns, View out);
  // In place, over the ranks.
  void sum(std::span<float> values);
  void max(std::span<float> values);

  // Lets what is under way go on.
  void poll();
  const Status& status() const;

 private:
  void finish(Request request);

  Communicator* communicator_ = nullptr;
  int rank_ = 0, size_ = 1;
  bool sequence_ = false;
  TensorOverlap overlap_;
  std::int64_t deadline_ms_ = 0;
  RowSum sum_;
  RowGather needed_, ahead_;
  Status status_;
};

}  // namespace longhaul
