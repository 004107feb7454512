#include "worker/agent/leads/standby_duty.h"

#include "worker/protocol/node/stand_in_turn.h"

namespace longhaul {
namespace {

constexpr std::int64_t stand_in_after_ms = 400;            // of a lead whose connection was closed
constexpr std::int64_t stand_in_after_silence_ms = 2'000;  // of one that is only silent: a cut may heal
constexpr std::int64_t stand_in_again_ms = 5'000;          // after one that could not be started
// A standby without a lead that is asked to end: the scheduler ends the job with the lead's node, and there is time
// (Slurm's KillWait, 30 s) to write the record and to ask for the next job.
constexpr std::int64_t last_stand_ms = 28'000, last_tries_ms = 12'000, last_try_again_ms = 200;
constexpr int no_majority_exit = 3;  // of a lead in waiting

}  // namespace

bool StandbyDuty::may_end(const LeadLink& link) {
  const std::int64_t now = clock_.monotonic_ns();
  if (stopping_ns_ == 0) {
    stopping_ns_ = now;
    last_stand_ = stand_in_.is_standby() && !link.open();
    next_ns_ = 0;
    if (last_stand_) log_.warn("event=stop_requested why='the job ends, and its lead is lost' next=stand_in");
  }
  if (!last_stand_ || now - stopping_ns_ > last_stand_ms * 1'000'000) return true;
  return !stand_in_.running() && (done_ || now - stopping_ns_ > last_tries_ms * 1'000'000);
}

bool StandbyDuty::look(const LeadLink& link) {
  const std::int64_t now = clock_.monotonic_ns();
  if (stand_in_.running()) {
    const auto exit = stand_in_.poll();
    if (!exit) return false;
    done_ = exit->ok() && (*exit)->code != no_majority_exit;
    const std::int64_t pause_ms = last_stand_ ? last_try_again_ms : stand_in_pause_ms(stand_in_.is_named_last());
    next_ns_ = now + pause_ms * 1'000'000;
    return !stand_in_.is_standby();
  }
  const std::int64_t after_ms = last_stand_                  ? 0
                                : link.memory().was_silent() ? stand_in_after_silence_ms
                                                             : stand_in_after_ms;
  if (!stand_in_.is_standby() || link.open() || now - link.memory().without_since_ns() < after_ms * 1'000'000 ||
      now < next_ns_)
    return false;
  next_ns_ = now + stand_in_again_ms * 1'000'000;
  stand_in_.start(link.memory().lost_lead(), link.epoch(), link.promised());
  return false;
}

}  // namespace longhaul
