// Room engine/tasks/training
// Parts of the body that pretrain, sft and align share, each with what it needs and nothing else of the stage.
// memory_report.h compares planned and held memory; trained_model.h writes the artifact; doubtful_states.h says what a
// training leaves behind that ends on an error.
// It knows no stage and no settings of one: engine/tasks/common/training_stage.h puts it together.
//
// How much memory the ranks of a training planned and held, of the rank that held most.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "base/value/value.h"
#include "contracts/events/event.h"
#include "contracts/layout/parallel_dims.h"
#include "contracts/plan/memory_category.h"
#include "contracts/plan/training_outline.h"
#include "engine/core/tensor/memory_accounts.h"
#include "engine/parallel/mesh/collective_group.h"

namespace longhaul {

struct MemoryUse {
  std::size_t rank = 0;          // that held most at a time, the lowest of several
  double held_bytes = 0;         // by it, of all categories together
  MemoryTable planned, held;     // of it; `held` has the peak of every category, which need not be at the same time
  std::vector<MemoryTable> all;  // planned, by rank
  std::vector<double> all_held;  // bytes, by rank
};

// What a rank sends to the others, as numbers of one length; and what the rows of all ranks, one behind the other, say.
std::vector<double> memory_row(std::int64_t held_bytes, const MemoryTable& planned, const MemoryTable& peak);
MemoryUse memory_use(std::span<const double> rows);
Value memory_fields(const MemoryUse& use);  // of the event "memory"

// Collective over `group`, the ranks of a training: this one stands at `at`. Writes the event "memory".
Result<MemoryUse> report_memory(const TrainingOutline& outline, const RankCoordinates& at, const MemoryAccounts& memory,
                                CollectiveGroup& group, EventWriter& events);

}  // namespace longhaul
