// Pipeline schedules are data: one list of operations per pipeline rank, run by one executor and priced by the tuner.
// pipeline_schedule.h makes the lists of every kind of schedule.
#pragma once

#include <string>
#include <vector>

#include "base/error/result.h"

namespace longhaul {

struct ScheduleOp {
  enum class Kind { forward, backward_input, backward_weight, backward };  // backward = input and weight in one
  Kind kind = Kind::forward;
  int micro_batch = 0;
  int chunk = 0;  // virtual stage on this rank, 0 .. vp-1
  bool operator==(const ScheduleOp&) const = default;
};
std::string to_string(const ScheduleOp& op);  // "F3", "I3", "W3", "B3" in the order of Kind; "F3.1" for chunk 1

// 1F1B (Narayanan et al. 2021, section 2.2): min(m, pp - pp_rank - 1) warm-up forwards, then one forward and one
// backward in turn, then the remaining backwards. With pp = 1 this is plain gradient accumulation.
std::vector<ScheduleOp> schedule_1f1b(int pp, int pp_rank, int micro_batches);

// Slots (micro-batches whose activations are alive at once; with several chunks, (micro-batch, chunk) pairs) that a
// list needs; each list is checked: every backward after its forward, each exactly once.
Result<int> schedule_slots(const std::vector<ScheduleOp>& ops);

}  // namespace longhaul
