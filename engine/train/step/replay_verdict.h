// Is a suspicious result right? The state machine of a replay, after Megatron-LM's (core/rerun_state_machine.py): run
// the same micro-batch again where it was, then somewhere else, and compare bit by bit. Deterministic mode makes that
// exact: equal inputs on healthy hardware give equal bits.
//
//   in place another result      -> transient: the first one was an error that did not last; the replay's counts
//   in place the same, elsewhere another -> persistent: this device computes wrongly, exit 17
//   in place the same, elsewhere the same -> correct: unusual, but right; go on
// Where no other rank can replay it at once the process ends with 16, "run me again elsewhere to decide", and the state
// goes into the checkpoint.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "base/error/result.h"
#include "base/value/value.h"

namespace longhaul {

enum class ReplayState { idle, in_place, elsewhere, correct, transient, persistent };
enum class ReplayEvent { suspicious, same, another };
const char* to_string(ReplayState state);
const char* to_string(ReplayEvent event);

struct ReplayTransition {
  ReplayState from;
  ReplayEvent event;
  ReplayState to;
};
inline constexpr ReplayTransition replay_transitions[] = {
    {ReplayState::idle, ReplayEvent::suspicious, ReplayState::in_place},
    {ReplayState::in_place, ReplayEvent::another, ReplayState::transient},
    {ReplayState::in_place, ReplayEvent::same, ReplayState::elsewhere},
    {ReplayState::elsewhere, ReplayEvent::same, ReplayState::correct},
    {ReplayState::elsewhere, ReplayEvent::another, ReplayState::persistent},
    {ReplayState::correct, ReplayEvent::suspicious, ReplayState::in_place},
    {ReplayState::transient, ReplayEvent::suspicious, ReplayState::in_place},
};

inline constexpr int exit_run_again_elsewhere = 16;
inline constexpr int exit_failed_validation = 17;

// The rounds of one disagreement over a micro-batch: the rank whose it is, the one that computed it as well, both once
// more, and a third where there is one.
struct ReplayRound {
  int owner = -1, replayer = -1, third = -1;  // ranks
  std::uint64_t first = 0, replay = 0;        // digests; they differ
  std::uint64_t first_again = 0, replay_again = 0;
  std::uint64_t third_digest = 0;
};
struct ReplayJudgement {
  int rank = -1;  // that was wrong; -1: it cannot be known
  ReplayState state = ReplayState::idle;
  std::string reason;
};
// Who computes differently the second time was wrong, then or now; of two that stand by their results, the one with
// whom the third does not agree.
ReplayJudgement judge_replay(std::int64_t step, const ReplayRound& round);

class ReplayVerdict {
 public:
  ReplayState state() const { return state_; }
  const std::string& where() const { return where_; }  // the device whose result it was
  std::int64_t step() const { return step_; }

  // A result that is not to be believed at once. invalid_input while another one is being replayed.
  // `where` names the device, by host and slot: ranks are placed anew in the next launch.
  Status suspect(std::int64_t step, const std::string& where, std::uint64_t digest);
  // The digest of a replay: in place on the same device, elsewhere on another one (refused otherwise).
  Status replayed(const std::string& where, std::uint64_t digest);
  // What the process is to end with now, if it has to: `can_replay_elsewhere` says whether another rank can do it here.
  std::optional<int> exit_code(bool can_replay_elsewhere) const;

  // Between the process that ends with 16 and the one that decides. corrupt where it makes no sense.
  Value to_value() const;
  static Result<ReplayVerdict> from_value(const Value& value);

 private:
  Status take(ReplayEvent event);
  ReplayState state_ = ReplayState::idle;
  std::int64_t step_ = -1;
  std::string where_;
  int transients_ = 0;
  std::uint64_t digest_ = 0;
};

}  // namespace longhaul
