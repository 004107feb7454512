#include "worker/lead/monitor/timeout_watch.h"

#include <utility>

#include "contracts/events/fault_event.h"
#include "contracts/settings/job/resumable.h"
#include "resiliency/beat/heartbeat_page.h"
#include "resiliency/stage_timeouts.h"

namespace longhaul {

TimeoutWatch::TimeoutWatch(const Attempt& attempt, const std::string& stage_kind)
    : all_(hierarchy_of(attempt.resiliency, stage_kind)),
      hang_factor_(attempt.resiliency.hang_factor),
      learns_(attempt.resiliency.hang_act.value == 0 && attempt.resiliency.on_hang == "restart"),
      trains_(trains(stage_kind)) {
  all_.stop.seconds = stopping_s(attempt.grace_s, attempt.launcher, attempt.steps);
  all_.grace = {attempt.stop_before_s, "job.stop_before"};
  all_.wall = {attempt.time_limit_s, "time_limit"};
}

void TimeoutWatch::ends_in(double seconds) {
  all_.wall = {seconds, "time_limit"};
  if (trains_) all_.grace.seconds = 0;
  changed_ = true;
}

void TimeoutWatch::take(const SchedulerTimes& times) {
  all_.kill_wait.seconds = times.kill_wait_s;
  all_.slurmd_timeout.seconds = times.slurmd_timeout_s;
  changed_ = true;
}

void TimeoutWatch::take(const LearnedTimes& learned) {
  if (!learns_) return;
  // No collective has to last as long as a write: ranks that wait for one meet once a second.
  all_.longest_act = {hang_factor_ * learned.longest_s(beat_checkpoint_write), "resiliency.hang_act"};
  changed_ = true;
}

void TimeoutWatch::take(const std::vector<Event>& events) {
  for (const Event& event : events) {
    if (event.kind == "timeouts") reported_.insert(event.fields.get_string("text"));
    if (event.kind == "ranks_stay") waited_ = true;
    if (event.kind == recovered_event_kind && !std::exchange(waited_, false))
      take_teardown(event.fields.get_number("teardown_s"));
    if (event.kind != "checkpoint") continue;
    const double seconds = event.fields.get_number("stall_s") + event.fields.get_number("write_s");
    if (seconds <= all_.final_checkpoint.seconds) continue;
    all_.final_checkpoint.seconds = seconds;
    changed_ = true;
  }
}

// From the finding until the last rank was gone.
void TimeoutWatch::take_teardown(double seconds) {
  if (seconds <= all_.longest_teardown.seconds) return;
  all_.longest_teardown.seconds = seconds;
  changed_ = true;
}

std::vector<WarningEvent> TimeoutWatch::look() {
  std::vector<WarningEvent> fresh;
  if (!changed_) return fresh;
  changed_ = false;
  for (const TimeoutContradiction& found : judge_timeouts(all_)) {
    WarningEvent warning;
    warning.kind = "timeouts";
    warning.text = found.error.what + (found.mendable ? "; for the next job: " + found.error.hint : "");
    const bool is_known = reported_.contains(found.rule) || reported_.contains(warning.text);
    reported_.insert(found.rule);
    if (!is_known) fresh.push_back(std::move(warning));
  }
  return fresh;
}

}  // namespace longhaul
