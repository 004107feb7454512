// Room engine/parallel/expert
// Tokens on their way to experts on other ranks and back (ep and etp groups).
// expert_exchange.h is the only header: rows are sent, computed by the caller, and collected in a fixed order.
// It computes no expert: engine/model/experts calls it around its products.
//
// Tokens on their way to experts on other ranks and back (expert parallelism: GShard, arXiv 2006.16668, section 3.2).
// The ep * etp ranks of a group hold all experts together; a rank sends each row to the etp ranks that hold a part of
// its expert, and adds up what they answer. Rows of different ranks stay apart on arrival: what an expert makes of a
// micro-batch does not depend on which others it met.
//
// With overlap every pair of ranks has messages of its own, so that experts work on the rows of one rank while those of
// others still travel, and answers leave as they are found. Without, all rows go at once and are waited for. The same
// bits either way.
//
// A failure is kept, and everything after it does nothing: whoever runs the model asks status().
#pragma once

#include <optional>
#include <span>
#include <vector>

#include "engine/comm/communicator.h"
#include "engine/core/tensor/compute_context.h"
#include "engine/core/tensor/placed_array.h"
#include "engine/core/tensor/tensor.h"
#include "engine/parallel/mesh/mesh.h"

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
  // account: of rows on their way that are nobody else's, where it is of a device; borrowed.
  explicit ExpertExchange(Mesh& mesh, MemoryAccount* account = nullptr);

  void set_overlap(bool overlap) { overlap_ = overlap; }
  int ranks() const { return ep_ * etp_; }
  // The micro-batch, of those that meet here, that a rank's rows belong to, in their order; how many there are.
  int batch_of(int rank) const { return rank / (ranks() / batches_); }
  int batches() const { return batches_; }
  // Whose rows had better be worked on at this turn: this rank's own first, then in the order in which they come.
  int rank_of(int turn) const;
  int turn_of(int rank) const { return rank_of(rank); }  // the same sum, as a turn backwards is one forwards

  // offsets [experts + 1]: of this rank's rows, sorted by expert. Collective.
  ExpertRoute route(std::span<const std::int64_t> offsets);

  // rows [sent rows, width] sorted by expert -> received [route.rows(), width], rank by rank: those of a rank are there
  // after wait_for(rank). Nothing of it may be changed before finish_collect(). Rows and answers lie where operations
  // work, and so do the addends of a row whose expert is split over ranks.
  void start_dispatch(const ComputeContext& context, const ExpertRoute& route, std::int64_t width, ConstView rows,
                      View received);
  void wait_for(int rank);
  // The way back: answers [route.rows(), width], f32 where an expert is split over ranks -> rows, of any float type:
  // the sum over the ranks that hold a part of the expert, in f32 along one tree. The answers to a rank's rows leave
  // with give(rank), once for each rank of the group in the order of the turns; rows are there after finish_collect().
  void start_collect(const ExpertRoute& route, std::int64_t width, ConstView answers, View rows);
  void give(const ComputeContext& context, int rank);
  void finish_collect(const ComputeContext& context);
  // Lets what is under way go on.
  void poll();

  // Over the ranks of one micro-batch.
  void sum_over_micro_batch(std::span<float> values);
  // all[i * mine.size() ...] = that of rank i.
  void gather_over_micro_batch(std::span<const float> mine, std::span<float> all);
  int micro_batch_rank() const { return micro_batch_.rank(); }
  int micro_batch_ranks() const { return micro_batch_.size(); }

  const Status& status() const { return status_; }
  // Of rows on their way, in the host's memory.
  std::int64_t bytes() const { return outgoing_.host_bytes() + landing_.host_bytes(); }

 private:
  // Of one direction, by turn: the first, of this rank with itself, is none.
  using Way = std::vector<std::optional<Request>>;
  struct Collect {
    const ExpertRoute* route = nullptr;
    std::int64_t width = 0;
    ConstView answers;
    View rows;
  };
  void finish(Status status);
  void wait(std::optional<Request>& request);
  void wait(Way& way);
  void dispatch_at_once(const ComputeContext& context, const ExpertRoute& route, std::int64_t width, ConstView rows,
                        View received);
  void collect_at_once();
  void add_up_parts(const ComputeContext& context);
  // Where the answers of a rank are to land.
  Bytes landing_of(int rank);
  // Bytes of the rows in the order of the group's ranks.
  std::vector<std::size_t> bytes_of(std::span<const std::int64_t> rows, std::int64_t row_bytes) const;

  Communicator* communicator_ = nullptr;
  CollectiveGroup micro_batch_;
  bool overlap_ = true;
  int ep_ = 1, etp_ = 1, batches_ = 1;
  std::int64_t deadline_ms_ = 0;
  Way dispatch_, answer_;
  Collect collect_;
  PlacedArray<std::byte> outgoing_;  // rows that go to several ranks
  PlacedArray<float> landing_;       // addends of rows
  Status status_;
};

}  // namespace longhaul
