#include "resiliency/goodput/goodput_events.h"

#include <algorithm>
#include <cmath>
#include <optional>

#include "contracts/events/fault_event.h"
#include "contracts/events/roll_back_event.h"
#include "contracts/events/warning_event.h"
#include "resiliency/taxonomy/restart_tier.h"

namespace longhaul {
namespace {

std::int64_t seconds_to_ms(double seconds) {
  return seconds > 0 && seconds < 1e9 ? std::llround(seconds * 1e3) : 0;
}

GoodputFact fact_of_fault(const Event& event, GoodputFact fact) {
  const FaultEvent fault = fault_event_of(event);
  fact.kind = GoodputFact::Kind::fault;
  fact.step = fault.step;
  fact.part_ms = seconds_to_ms(fault.detect_s);
  fact.fault = fault.fault_class;
  fact.tier = fault.tier;
  fact.goes_on = fault.tier == to_string(RestartTier::skip);
  fact.processes_stay = fault.tier == to_string(RestartTier::skip) || fault.tier == to_string(RestartTier::in_process);
  return fact;
}

std::optional<GoodputFact> fact_of(const Event& event) {
  using Kind = GoodputFact::Kind;
  GoodputFact fact;
  fact.at_ms = event.wall_ms;
  if (event.kind == "launched") {
    fact.kind = Kind::launched;
  } else if (event.kind == "preparing") {
    fact.kind = Kind::preparing;
  } else if (event.kind == "ready") {
    fact.kind = Kind::ready;
    fact.step = event.fields.get_integer("step", -1);
    fact.part_ms = seconds_to_ms(event.fields.get_number("load_s"));
  } else if (event.kind == "metric") {
    const Value* step = event.fields.find("step");
    if (!step || !step->is_number()) return {};
    fact.step = static_cast<std::int64_t>(step->as_number());
  } else if (event.kind == "progress") {  // of a program of the user's own that counts steps
    if (event.fields.get_string("unit") != "steps") return {};
    fact.step = static_cast<std::int64_t>(event.fields.get_number("done"));
  } else if (event.kind == "checkpoint" || event.kind == "local_copy" || event.kind == "milestone") {
    fact.kind = Kind::stalled;
    fact.part_ms = seconds_to_ms(event.fields.get_number("stall_s"));
  } else if (event.kind == fault_event_kind) {
    // What is only noted, or was seen on the way, interrupts nothing.
    if (event.fields.get_string("tier").empty()) return {};
    if (is_roll_back(event.fields)) return {};  // reported after it, where the training is at work again
    return fact_of_fault(event, fact);
  } else if (event.kind == stopped_event_kind) {
    fact.kind = Kind::stopped;
    fact.step = event.fields.get_integer("step", -1);
  } else if (event.kind == "ranks_ended") {
    fact.kind = Kind::ranks_ended;
  } else {
    return {};
  }
  return fact;
}

// The engine's own event, written when all ranks are back: the lead's comes later, in the middle of what is done again.
void add_roll_back(const Event& event, std::vector<GoodputFact>& facts) {
  const RollBackEvent back = roll_back_event_from_value(event.fields);
  GoodputFact fault;
  fault.at_ms = event.wall_ms - seconds_to_ms(back.total_s);
  fault.kind = GoodputFact::Kind::fault;
  Event judged = event;
  judged.kind = "spike";
  if (const auto seen = warning_event_of(judged)) fault.fault = seen->fault_class;
  fault.tier = to_string(RestartTier::skip);
  fault.processes_stay = true;
  facts.push_back(fault);
  GoodputFact ready;
  ready.at_ms = event.wall_ms;
  ready.kind = GoodputFact::Kind::ready;
  ready.step = back.to_step;
  ready.part_ms = seconds_to_ms(back.load_s);
  facts.push_back(ready);
}

}  // namespace

std::vector<GoodputFact> facts_of(const AttemptTimes& times, const std::vector<Event>& events) {
  using Kind = GoodputFact::Kind;
  std::vector<GoodputFact> facts;
  const auto mark = [&](std::int64_t at_ms, Kind kind) {
    if (at_ms <= 0) return;
    GoodputFact fact;
    fact.at_ms = at_ms;
    fact.kind = kind;
    facts.push_back(fact);
  };
  mark(times.submitted_ms, Kind::submitted);
  mark(times.started_ms, Kind::job_started);
  for (const Event& event : events) {
    if (!event.fields.is_table()) continue;
    if (event.kind == rolled_back_event_kind) add_roll_back(event, facts);
    if (auto fact = fact_of(event)) facts.push_back(std::move(*fact));
  }
  mark(times.ended_ms, Kind::job_ended);
  std::stable_sort(facts.begin(), facts.end(),
                   [](const GoodputFact& a, const GoodputFact& b) { return a.at_ms < b.at_ms; });
  return facts;
}

}  // namespace longhaul
