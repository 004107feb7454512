// The faults of a run with what was decided about each: from the events of the leads (within a job) and from the
// controllers' logs (between jobs). For `longhaul faults`.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "contracts/events/fault_event.h"
#include "orchestrator/state/fact.h"

namespace longhaul {

struct RunFault {
  std::int64_t wall_ms = 0;
  std::string stage;  // id
  int attempt = 0;
  bool by_controller = false;  // the end of a job; otherwise a lead reported it
  FaultEvent fault;            // of the end of a job: launch 0
  std::optional<RecoveredEvent> recovered;
  std::int64_t launched_ms = 0;  // when the next launch of the same job began, 0: none did
};

// Of one attempt, in the order of its events; a `recovered` belongs to the last fault before it.
std::vector<RunFault> faults_of_events(const std::string& stage, int attempt, const std::vector<Event>& events);
// Ends of jobs that were faults, from the believed facts of all epochs.
std::vector<RunFault> faults_of_facts(const std::vector<Fact>& facts);
// All of a run, by time.
Result<std::vector<RunFault>> read_run_faults(const std::string& run_dir);

std::string run_faults_text(const std::vector<RunFault>& faults);
Value run_faults_value(const std::vector<RunFault>& faults);

// The table of fault classes (resiliency/taxonomy/fault_table.h).
std::string fault_classes_text();
Value fault_classes_value();

}  // namespace longhaul
