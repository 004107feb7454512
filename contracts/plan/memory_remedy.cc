#include "contracts/plan/memory_remedy.h"

#include "base/text/text.h"

namespace longhaul {

std::string memory_remedy(MemoryCategory category, const TrainingOutline& o) {
  switch (category) {
    case MemoryCategory::weights:
    case MemoryCategory::master:
    case MemoryCategory::gradients:
    case MemoryCategory::optimizer:
      if (o.dims.zero < 3 && o.dims.dp() > 1)
        return format(
            "share it among the data-parallel ranks: parallel.zero = {} with a larger dp_shard; or split the "
            "model with a larger tp or pp",
            o.dims.zero + 1);
      return "split the model over more ranks with a larger tp or pp, or share it with dp_shard and zero";
    case MemoryCategory::checkpoint:
      return o.memory_snapshot ? "set checkpoint.snapshot_every = 0, which keeps no copy for in-process restarts"
                               : "set checkpoint.asynchronous = false, which keeps no copy of what is written";
    case MemoryCategory::gathered_weights:
      return "use parallel.zero = 3, which keeps a few layers at a time, or a larger tp or pp";
    case MemoryCategory::activations:
    case MemoryCategory::experts:
    case MemoryCategory::attention:
    case MemoryCategory::scratch:
    case MemoryCategory::batches:
      return "use a smaller micro_batch_size, recompute.modules = [\"block\"], or a larger tp with sp, or cp";
    case MemoryCategory::logits: return "use a larger tp, which splits the vocabulary";
    case MemoryCategory::answers: return "use a smaller rollout.slots or a shorter sequence_length";
    case MemoryCategory::communication: return "use a smaller micro_batch_size";
    case MemoryCategory::process: return "use fewer ranks per node";
    case MemoryCategory::messages:
      return "use a larger tp or pp, or parallel.zero = 2, which sums a few layers at a time";
  }
  return "";
}

}  // namespace longhaul
