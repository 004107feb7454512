// A copy of what a rank owns of a training, in its own memory: where an in-process restart goes back to when an update
// was made on some ranks and not on others. It holds what a checkpoint does, so a training that goes on from it is bit
// for bit the one that never stopped.
//
// One copy is enough, as the state that the rank works with is the other one (decisions.md, "one copy in memory"): a
// rank takes the copy of a step only when every rank has come to the end of that step, so whoever has no copy of it yet
// still has the state itself.
#pragma once

#include <optional>

#include "engine/checkpoint/format/page_buffer.h"
#include "engine/checkpoint/state/training_state.h"
#include "engine/core/tensor/compute_context.h"

namespace longhaul {

class MemorySnapshot {
 public:
  // Takes the memory for arrays as those of `state`, rounded up to whole pages each: unavailable where it is not to be
  // had, unsupported where moments lie outside of memory. The account outlives the snapshot.
  static Result<MemorySnapshot> create(const TrainingState& state, MemoryAccount* account = nullptr);

  // Of arrays as those it was made for. `version`: what the ranks call this state.
  void take(const ComputeContext& context, const TrainingState& state, std::int64_t version);
  std::optional<std::int64_t> version() const { return version_; }
  void forget() { version_.reset(); }
  std::int64_t bytes() const;
  // Fills arrays, progress and extra of `state`. There must be a copy.
  void restore(const ComputeContext& context, TrainingState& state) const;

 private:
  struct Array {
    PageBuffer memory;
    std::int64_t bytes = 0;
  };
  std::vector<Array> arrays_;  // masters, first and second moments
  TrainingProgress progress_;
  Value extra_;
  std::optional<std::int64_t> version_;
};

}  // namespace longhaul
