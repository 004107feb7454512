// What a look at a host found wrong: one sentence each, with its class in the table of faults. A healthy host has none.
// Every check is a pure judgement over a reading; reading is a thin function beside it.
#pragma once

#include <string>
#include <vector>

#include "base/value/value.h"
#include "resiliency/taxonomy/verdict.h"

namespace longhaul {

struct HealthFinding {
  std::string check;  // "gpu", "ecc", "nvlink", "nic", "memory", "disk", ...: the table in docs/resiliency.md
  FaultClass fault = FaultClass::none;
  FaultScope scope = FaultScope::host;
  FaultSeverity severity = FaultSeverity::warning;
  std::string device;  // "GPU 3", "mlx5_0/1", a path; "" for the host itself
  std::string what;
  std::string remedy;
  int xid = 0;  // of the driver's event; 0: none
};
using HealthFindings = std::vector<HealthFinding>;

// Scope, severity and remedy are those of the class.
HealthFinding health_finding(const std::string& check, FaultClass fault, const std::string& device,
                             const std::string& what);
// Whether the host may be worked on: nothing worse than a warning.
bool fit_to_work(const HealthFindings& findings);
Observation observe_health(const HealthFinding& finding, const std::string& host, std::int64_t at_ms);
// A host on which this was found is left without waiting for more: the fault ends a launch, and speaks against the
// host.
bool unfit_for_sure(const HealthFinding& finding);
Value to_value(const HealthFinding& finding);
HealthFinding health_finding_from_value(const Value& value);  // scope, severity and remedy are those of the class

}  // namespace longhaul
