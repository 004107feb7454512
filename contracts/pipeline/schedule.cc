#include "contracts/pipeline/schedule.h"

#include <algorithm>

#include "base/text/text.h"

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
  enum class State : char { fresh, alive, input_done, finished };
  std::size_t micro_batches = 0, chunks = 0;
  for (const ScheduleOp& op : ops) {
    if (op.micro_batch < 0 || op.chunk < 0)
      return make_error(ErrorCode::internal, format("schedule: {} has a negative number", to_string(op)));
    micro_batches = std::max(micro_batches, static_cast<std::size_t>(op.micro_batch) + 1);
    chunks = std::max(chunks, static_cast<std::size_t>(op.chunk) + 1);
  }
  std::vector<State> states(micro_batches * chunks, State::fresh);
  int alive = 0, slots = 0;
  for (const ScheduleOp& op : ops) {
    State& state = states[static_cast<std::size_t>(op.micro_batch) * chunks + static_cast<std::size_t>(op.chunk)];
    const auto wrong = [&](const char* why) {
      return make_error(ErrorCode::internal, format("schedule: {} {}", to_string(op), why));
    };
    if (state == State::finished) return wrong("comes after its micro-batch was finished");
    switch (op.kind) {
      case Kind::forward:
        if (state != State::fresh) return wrong("runs twice");
        state = State::alive;
        slots = std::max(slots, ++alive);
        break;
      case Kind::backward_input:
        if (state != State::alive) return wrong("has no forward, or runs twice");
        state = State::input_done;
        break;
      case Kind::backward_weight:
        if (state != State::input_done) return wrong("comes before its input backward");
        state = State::finished, --alive;
        break;
      case Kind::backward:
        if (state != State::alive) return wrong("has no forward");
        state = State::finished, --alive;
        break;
    }
  }
  if (alive > 0) return make_error(ErrorCode::internal, format("schedule: {} micro-batches have no backward", alive));
  return slots;
}

}  // namespace longhaul
