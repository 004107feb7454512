#include "resiliency/health/health_finding.h"

#include <algorithm>

namespace longhaul {

HealthFinding health_finding(const std::string& check, FaultClass fault, const std::string& device,
                             const std::string& what) {
  const FaultInfo& info = info_of(fault);
  return {check, fault, info.scope, info.severity, device, what, info.remedy};
}

bool fit_to_work(const HealthFindings& findings) {
  return std::all_of(findings.begin(), findings.end(),
                     [](const HealthFinding& finding) { return finding.severity <= FaultSeverity::warning; });
}

Observation observe_health(const HealthFinding& finding, const std::string& host, std::int64_t at_ms) {
  Observation seen;
  seen.source = ObservationSource::health;
  seen.fault = finding.fault;
  seen.host = host;
  seen.what = finding.device.empty() ? finding.what : finding.device + ": " + finding.what;
  seen.at_ms = at_ms;
  return seen;
}

Value to_value(const HealthFinding& finding) {
  Value value = Value::make_table();
  value.set("check", finding.check);
  value.set("class", to_string(finding.fault));
  value.set("scope", to_string(finding.scope));
  value.set("severity", to_string(finding.severity));
  if (!finding.device.empty()) value.set("device", finding.device);
  value.set("what", finding.what);
  value.set("remedy", finding.remedy);
  return value;
}

}  // namespace longhaul
