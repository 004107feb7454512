#include "resiliency/health/health_finding.h"

#include <algorithm>

namespace longhaul {

HealthFinding health_finding(const std::string& check, FaultClass fault, const std::string& device,
                             const std::string& what) {
  const FaultInfo& info = info_of(fault);
  return {check, fault, info.scope, info.severity, device, what, info.remedy, 0};
}

bool fit_to_work(const HealthFindings& findings) {
  return std::all_of(findings.begin(), findings.end(),
                     [](const HealthFinding& finding) { return finding.severity <= FaultSeverity::warning; });
}

bool unfit_for_sure(const HealthFinding& finding) {
  return finding.severity >= FaultSeverity::error && info_of(finding.fault).accuses == Accusation::sure &&
         finding.fault != FaultClass::out_of_memory;  // the program asked for it
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
  if (finding.xid > 0) value.set("xid", finding.xid);
  return value;
}

HealthFinding health_finding_from_value(const Value& value) {
  HealthFinding finding = health_finding(value.get_string("check"), fault_class_of(value.get_string("class")),
                                         value.get_string("device"), value.get_string("what"));
  finding.xid = static_cast<int>(value.get_integer("xid"));
  return finding;
}

}  // namespace longhaul
