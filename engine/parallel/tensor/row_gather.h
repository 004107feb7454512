// The rows of all ranks of a group brought together while some of them are in use already: this rank's own are there at
// once, then come those of the rank before, then of the one before that. Two turns are under way at a time, so that
// rows arrive one rank after the other and not all at the end.
//
// A failure is kept; everything after it does nothing.
#pragma once

#include <optional>
#include <vector>

#include "engine/comm/communicator.h"
#include "engine/core/tensor/compute_context.h"

namespace longhaul {

class RowGather {
 public:
  RowGather() = default;
  // tag: of its messages, which no other use of the communicator has.
  RowGather(Communicator* communicator, int tag, std::int64_t deadline_ms)
      : communicator_(communicator), tag_(tag), deadline_ms_(deadline_ms) {}

  // local [rows, columns] -> out [ranks * rows, columns]; neither may be touched until finish(), but for rows of `out`
  // that were waited for. Without `overlap` all of them are there on return.
  void start(const ComputeContext& context, ConstView local, std::int64_t rows, std::int64_t columns, View out,
             bool overlap);
  bool under_way() const { return under_way_; }
  // Whose rows come at this turn; 0 is this rank.
  int rank_of(int turn) const { return (communicator_->rank() - turn + communicator_->size()) % communicator_->size(); }
  // Until those of turns 0 .. `turn` are there.
  void wait(int turn);
  void finish();
  void poll();

  const Status& status() const { return status_; }

 private:
  void start_turn();
  void wait(std::optional<Request>& request);
  Bytes rows_of(int rank) const;

  Communicator* communicator_ = nullptr;
  int tag_ = 0;
  std::int64_t deadline_ms_ = 0;
  bool under_way_ = false;
  ConstBytes local_;
  std::byte* out_ = nullptr;
  std::vector<std::optional<Request>> turns_;  // those that were started; the first, this rank's own, has no messages
  int arrived_ = 0;                            // the last turn that was waited for
  Status status_;
};

}  // namespace longhaul
