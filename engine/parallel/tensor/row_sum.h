// The sum over the ranks of a group of an array of rows that is still being computed: rows are given as they are done,
// and travel while the next ones are computed. With sequence parallelism each rank gets the sum of its share of the
// rows (a reduce-scatter), so those of the others are computed first and the own ones, which go nowhere, at the end.
// Else every rank gets all of it (an all-reduce, piece by piece).
//
// Addends are f32 and are joined along the communicator's tree (engine/comm/tree_sum.h): the same bits as one
// collective after the computation, which is what happens without overlap. A failure is kept; everything after it does
// nothing.
#pragma once

#include <optional>
#include <vector>

#include "engine/comm/communicator.h"
#include "engine/core/tensor/compute_context.h"
#include "engine/core/tensor/tensor.h"

namespace longhaul {

struct RowRange {
  std::int64_t begin = 0, end = 0;
  std::int64_t count() const { return end - begin; }
};

// How large the pieces are that are computed and sent by themselves. Smaller ones hide more, but a product of few rows
// reads its weights for little.
struct RowPieces {
  std::int64_t rows_min = 128;  // measured: tests/bench/overlap
  int pieces_max = 4;           // of a rank's share; without sequence parallelism of all rows
};

class RowSum {
 public:
  RowSum() = default;
  // tag: of its messages, which no other use of the communicator has.
  RowSum(Communicator* communicator, bool sequence, int tag, std::int64_t deadline_ms)
      : communicator_(communicator), sequence_(sequence), tag_(tag), deadline_ms_(deadline_ms) {}

  // All `tokens` rows in pieces, in the order in which they had better be computed and must be given.
  std::vector<RowRange> pieces(std::int64_t tokens, const RowPieces& sizes) const;

  // partial [tokens, columns] f32: this rank's addend, written piece by piece; overwritten. out [tokens / ranks or
  // tokens, columns] of any float type: written by finish(). landing f32, with sequence parallelism at least
  // (ranks - 1) / ranks of tokens * columns: the addends of others.
  void start(View partial, View landing, std::int64_t tokens, std::int64_t columns, View out,
             std::vector<RowRange> pieces, bool overlap);
  bool under_way() const { return under_way_; }
  // The next of the pieces is computed.
  void give();
  void finish(const ComputeContext& context);
  void poll();

  const Status& status() const { return status_; }

 private:
  std::int64_t own_rows() const { return tokens_ / communicator_->size(); }
  std::span<float> floats(RowRange rows) const;  // of the partial sums
  std::span<float> addend_of(int rank) const;    // of this rank's rows, as they come from another
  void exchange_addends(RowRange piece);
  void add_up(const ComputeContext& context);
  void collect_at_once(const ComputeContext& context);
  void wait(std::optional<Request>& request);

  Communicator* communicator_ = nullptr;
  bool sequence_ = false;
  int tag_ = 0;
  std::int64_t deadline_ms_ = 0;
  bool under_way_ = false, overlap_ = true;
  View partial_, landing_, out_;
  std::int64_t tokens_ = 0, columns_ = 0;
  std::vector<RowRange> pieces_;
  std::size_t given_ = 0;
  std::vector<std::optional<Request>> requests_;
  Status status_;
};

}  // namespace longhaul
