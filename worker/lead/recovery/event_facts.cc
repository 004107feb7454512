#include "worker/lead/recovery/event_facts.h"

#include <algorithm>

#include "contracts/events/fault_event.h"
#include "contracts/events/roll_back_event.h"
#include "worker/lead/recovery/reported_corruption.h"

namespace longhaul {

void EventFacts::take(const std::vector<Event>& events) {
  for (const Event& event : events) {
    if (event.kind == "checkpoint" || event.kind == "local_copy") {
      const std::int64_t step = event.fields.get_integer("step", -1);
      steps_.saved = std::max(steps_.saved, step);
      if (event.kind == "checkpoint") steps_.checkpoint = std::max(steps_.checkpoint, step), whole_.saw(step);
    } else if (event.kind == rolled_back_event_kind) {
      go_back_to(roll_back_event_from_value(event.fields).to_step);
      whole_.rule_out_after(roll_back_event_from_value(event.fields).to_step);
    } else if (event.kind == "faulted") {
      faults_[event.rank] = event.fields.get_string("what");
      const std::optional<SilentCorruption> found = silent_corruption_of(event.fields);
      if (found) corruption_ = {event};
      if (found && !found->weights_are_sound() && found->sound_step >= 0) go_back_to(found->sound_step);
      if (found && !found->weights_are_sound()) whole_.rule_out_after(found->sound_step);
    } else if (event.kind == "launched") {
      stopped_.clear();
      faults_.clear();
    } else if (event.kind == stopped_event_kind) {
      stopped_ = event.fields.get_string("why");
    }
  }
}

void EventFacts::go_back_to(std::int64_t step) {
  for (Steps* steps : {&steps_, &judged_})
    steps->saved = std::min(steps->saved, step), steps->checkpoint = std::min(steps->checkpoint, step);
}

Value EventFacts::snapshot() const {
  Value value = Value::make_table();
  value.set("saved", steps_.saved);
  value.set("checkpoint", steps_.checkpoint);
  value.set("whole", whole_.newest());
  value.set("stopped", stopped_);
  return value;
}

EventFacts EventFacts::of(const Value& saved) {
  EventFacts facts;
  if (!saved.is_table()) return facts;
  facts.steps_ = {saved.get_integer("saved", -1), saved.get_integer("checkpoint", -1)};
  facts.whole_ = SavedProgress(saved.get_integer("whole", no_saved_step));
  facts.stopped_ = saved.get_string("stopped");
  return facts;
}

std::string EventFacts::fault_of(int rank) const {
  const auto found = faults_.find(rank);
  return found == faults_.end() ? std::string() : found->second;
}

std::optional<SilentCorruption> EventFacts::corruption(int launch) const {
  return reported_corruption(corruption_, launch);
}

}  // namespace longhaul
