#include "contracts/schedule.h"

#include <algorithm>
#include <set>

#include "base/text.h"

namespace longhaul {

std::string to_string(const ScheduleOp& op) {
  static constexpr const char* names[] = {"F", "I", "W", "B"};
  std::string text = names[static_cast<int>(op.kind)] + std::to_string(op.micro_batch);
  if (op.chunk > 0) text += "." + std::to_string(op.chunk);
  return text;
}

std::vector<ScheduleOp> schedule_1f1b(int pp, int pp_rank, int micro_batches) {
  using Kind = ScheduleOp::Kind;
  std::vector<ScheduleOp> ops;
  const int warm_up = std::min(micro_batches, pp - pp_rank - 1);
  int forward = 0, backward = 0;
  while (forward < warm_up) ops.push_back({Kind::forward, forward++, 0});
  while (forward < micro_batches) {
    ops.push_back({Kind::forward, forward++, 0});
    ops.push_back({Kind::backward, backward++, 0});
  }
  while (backward < micro_batches) ops.push_back({Kind::backward, backward++, 0});
  return ops;
}

Result<int> schedule_slots(const std::vector<ScheduleOp>& ops) {
  using Kind = ScheduleOp::Kind;
  std::set<std::pair<int, int>> alive, input_done, finished;
  int slots = 0;
  for (const ScheduleOp& op : ops) {
    const std::pair<int, int> key{op.micro_batch, op.chunk};
    const auto wrong = [&](const char* why) {
      return make_error(ErrorCode::internal, format("schedule: {} {}", to_string(op), why));
    };
    if (finished.count(key)) return wrong("comes after its micro-batch was finished");
    switch (op.kind) {
      case Kind::forward:
        if (!alive.insert(key).second) return wrong("runs twice");
        slots = std::max(slots, static_cast<int>(alive.size()));
        break;
      case Kind::backward_input:
        if (!alive.count(key) || !input_done.insert(key).second) return wrong("has no forward, or runs twice");
        break;
      case Kind::backward_weight:
        if (!input_done.count(key)) return wrong("comes before its input backward");
        alive.erase(key), finished.insert(key);
        break;
      case Kind::backward:
        if (!alive.count(key) || input_done.count(key)) return wrong("has no forward");
        alive.erase(key), finished.insert(key);
        break;
    }
  }
  if (!alive.empty())
    return make_error(ErrorCode::internal, format("schedule: {} micro-batches have no backward", alive.size()));
  return slots;
}

}  // namespace longhaul
