#include "orchestrator/state/job_end_faults.h"

#include <algorithm>

#include "resiliency/taxonomy/fault_class.h"
#include "resiliency/taxonomy/restart_tier.h"

namespace longhaul {
namespace {

double seconds_between(std::int64_t from_ms, std::int64_t to_ms) {
  return static_cast<double>(std::max<std::int64_t>(0, to_ms - from_ms)) * 1e-3;
}

// Done at that event; -1: it reports no step.
std::int64_t step_of(const Event& event) {
  if (event.kind == "metric") return event.fields.get_integer("step", -1);
  if (event.kind == "progress" && event.fields.get_string("unit") == "steps")
    return static_cast<std::int64_t>(event.fields.get_number("done", -1));
  return -1;
}

struct LastSign {
  std::int64_t at_ms = 0;
  std::int64_t step = -1;  // newest
};
LastSign last_sign(std::int64_t until_ms, const std::vector<Event>& events) {
  LastSign last;
  for (const Event& event : events) {
    if (event.wall_ms > until_ms) break;
    last.at_ms = std::max(last.at_ms, event.wall_ms);
    last.step = std::max(last.step, step_of(event));
  }
  return last;
}

}  // namespace

bool is_faulty_end(const Fact& end) {
  if (end.kind == FactKind::requeued) return true;
  if (end.kind != FactKind::retry && end.kind != FactKind::go_on && end.kind != FactKind::failed) return false;
  const FaultGroup group = group_of(fault_class_of(end.text("fault")));
  return group != FaultGroup::none && group != FaultGroup::wall_time;
}

bool reported_by_lead(const Fact& end, const std::vector<Event>& events) {
  bool reported = false;
  for (const Event& event : events) {
    if (event.wall_ms > end.wall_ms) break;
    if (event.kind == "launched") reported = false;
    if (event.kind != fault_event_kind) continue;
    const std::string tier = event.fields.get_string("tier");
    if (tier == to_string(RestartTier::skip)) continue;  // and the launch goes on
    reported = tier == to_string(RestartTier::new_job) || tier == to_string(RestartTier::stop);
  }
  return reported;
}

std::vector<GoodputFact> facts_of_end(const Fact& end, const std::vector<Event>& events) {
  if (!is_faulty_end(end) || reported_by_lead(end, events)) return {};
  const LastSign last = last_sign(end.wall_ms, events);
  if (last.at_ms == 0) return {};  // it had not begun
  GoodputFact fault;
  fault.at_ms = end.wall_ms;
  fault.kind = GoodputFact::Kind::fault;
  fault.step = last.step;
  fault.part_ms = end.wall_ms - last.at_ms;
  fault.fault = end.kind == FactKind::requeued ? "requeued" : end.text("fault");
  fault.tier = to_string(end.kind == FactKind::failed ? RestartTier::stop : RestartTier::new_job);
  GoodputFact ended;
  ended.at_ms = end.wall_ms;
  ended.kind = GoodputFact::Kind::job_ended;
  return {fault, ended};
}

std::optional<RecoveredEvent> recovery_after_end(const Fact& end, const std::vector<Event>& before,
                                                 std::int64_t started_ms, const std::vector<Event>& after) {
  const LastSign last = last_sign(end.wall_ms, before);
  if (last.at_ms == 0 || started_ms <= 0) return {};
  std::int64_t ready_ms = 0, ready_step = -1;
  double load_s = 0;
  for (const Event& event : after) {
    if (event.wall_ms < started_ms || event.wall_ms < end.wall_ms) continue;
    if (event.kind == "ready") {
      ready_ms = event.wall_ms, ready_step = event.fields.get_integer("step", -1);
      load_s = event.fields.get_number("load_s");
    }
    const std::int64_t step = step_of(event);
    if (step < 0) continue;
    RecoveredEvent recovered;
    if (ready_ms == 0) ready_ms = event.wall_ms, ready_step = step;  // a program that does not say when it is ready
    recovered.detect_s = seconds_between(last.at_ms, end.wall_ms);
    recovered.queue_s = seconds_between(end.wall_ms, started_ms);
    recovered.load_s = std::min(load_s, seconds_between(started_ms, ready_ms));
    recovered.start_s = seconds_between(started_ms, ready_ms) - recovered.load_s;
    recovered.first_step_s = seconds_between(ready_ms, event.wall_ms);
    recovered.total_s = seconds_between(last.at_ms, event.wall_ms);
    if (last.step >= 0 && ready_step >= 0) recovered.lost_steps = std::max<std::int64_t>(0, last.step - ready_step);
    return recovered;
  }
  return {};
}

}  // namespace longhaul
