// Tokens on their way to experts on other ranks and back (expert parallelism: GShard, arXiv 2006.16668, section 3.2).
// The ep * etp ranks of a group hold all experts together; a rank sends each row to the etp ranks that hold a part of
// its expert, and adds up what they answer. Rows of different ranks stay apart on arrival: what an expert makes of a
// micro-batch does not depend on which others it met.
//
// A failure is kept, and everything after it does nothing: whoever runs the model asks status().
#pragma once

#include <span>
#include <vector>

#include "engine/comm/communicator.h"
#include "engine/core/compute_context.h"
#include "engine/core/tensor.h"
#include "engine/parallel/mesh.h"

namespace longhaul {

// The ways of one micro-batch's rows through one layer.
struct ExpertRoute {
  std::vector<std::int64_t> sent, received;        // rows to and from each rank of the group
  std::vector<std::vector<std::int64_t>> offsets;  // of each rank's rows here: [local experts + 1], from 0
  std::vector<std::int64_t> received_from;         // where its rows begin, [ranks + 1]
  std::int64_t rows() const { return received_from.back(); }
};

class ExpertExchange {
 public:
  ExpertExchange() = default;  // one rank: every row stays
  explicit ExpertExchange(Mesh& mesh);

  int ranks() const { return ep_ * etp_; }
  // The micro-batch, of those that meet here, that a rank's rows belong to, in their order; how many there are.
  int batch_of(int rank) const { return rank / (ranks() / batches_); }
  int batches() const { return batches_; }

  // offsets [experts + 1]: of this rank's rows, sorted by expert. Collective.
  ExpertRoute route(std::span<const std::int64_t> offsets);
  // rows [sent rows, width] sorted by expert -> received [route.rows(), width], rank by rank.
  void dispatch(const ExpertRoute& route, std::int64_t width, ConstView rows, View received);
  // The way back: answers [route.rows(), width], f32 where an expert is split over ranks -> rows, of any float type:
  // the sum over the ranks that hold a part of the expert, in f32 along one tree.
  void collect(const ComputeContext& context, const ExpertRoute& route, std::int64_t width, ConstView answers,
               View rows);

  // Over the ranks of one micro-batch.
  void sum_over_micro_batch(std::span<float> values);
  // all[i * mine.size() ...] = that of rank i.
  void gather_over_micro_batch(std::span<const float> mine, std::span<float> all);
  int micro_batch_rank() const { return micro_batch_.rank(); }
  int micro_batch_ranks() const { return micro_batch_.size(); }

  const Status& status() const { return status_; }
  // Of rows on their way.
  std::int64_t bytes() const {
    return static_cast<std::int64_t>(outgoing_.capacity() + landing_.capacity() * sizeof(float));
  }

 private:
  void finish(Status status);
  // Bytes of the rows in the order of the group's ranks.
  std::vector<std::size_t> bytes_of(std::span<const std::int64_t> rows, std::int64_t row_bytes) const;

  Communicator* communicator_ = nullptr;
  CollectiveGroup micro_batch_;
  int ep_ = 1, etp_ = 1, batches_ = 1;
  std::int64_t deadline_ms_ = 0;
  std::vector<std::byte> outgoing_;  // rows that go to several ranks
  std::vector<float> landing_;       // addends of rows
  Status status_;
};

}  // namespace longhaul
