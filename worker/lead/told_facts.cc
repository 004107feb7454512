#include "worker/lead/told_facts.h"

#include <algorithm>

#include "contracts/fault_event.h"
#include "worker/lead/told_corruption.h"

namespace longhaul {

void ToldFacts::take(const std::vector<Event>& events) {
  for (const Event& event : events) {
    if (event.kind == "checkpoint" || event.kind == "local_copy") {
      saved_step_ = std::max(saved_step_, event.fields.get_integer("step", -1));
    } else if (event.kind == "faulted") {
      faults_[event.rank] = event.fields.get_string("what");
      if (silent_corruption_of(event.fields)) corruption_ = {event};
    } else if (event.kind == "launched") {
      stopped_.clear();
      faults_.clear();
    } else if (event.kind == stopped_event_kind) {
      stopped_ = event.fields.get_string("why");
    }
  }
}

std::string ToldFacts::fault_of(int rank) const {
  const auto found = faults_.find(rank);
  return found == faults_.end() ? std::string() : found->second;
}

std::optional<SilentCorruption> ToldFacts::corruption(int launch, std::int64_t after_ms) const {
  return told_corruption(corruption_, launch, after_ms);
}

}  // namespace longhaul
