#include "worker/lead/agents/unwatched_gpus.h"

#include <algorithm>

#include "base/text/text.h"
#include "resiliency/taxonomy/fault_class.h"

namespace longhaul {
namespace {

WarningEvent warning_about(const char* kind, const std::vector<std::string>& hosts, const std::string& text) {
  WarningEvent warning;
  warning.kind = kind;
  warning.fault_class = to_string(FaultClass::health_silent);
  warning.host = join(hosts, ",");
  warning.text = text;
  return warning;
}

}  // namespace

GpuObservation gpu_observation(const std::string& host, const HealthReport& health) {
  return {host, health.looks, health.gpus_watched, health.gpus_hidden};
}

std::vector<WarningEvent> UnwatchedGpus::look(std::int64_t now_ms, const std::vector<GpuObservation>& sights) {
  if (expected_ <= 0) return {};
  std::vector<std::string> due;
  const GpuObservation* first = nullptr;
  for (const GpuObservation& sight : sights) {
    if (sight.looks == 0) continue;
    if (sight.watched >= expected_) {
      hosts_.erase(sight.host);
      continue;
    }
    Host& host = hosts_.try_emplace(sight.host, Host{now_ms, false}).first->second;
    if (host.reported || now_ms - host.since_ms < patience_ms) continue;
    host.reported = true;
    due.push_back(sight.host);
    if (!first) first = &sight;
  }
  std::vector<WarningEvent> warnings;
  std::erase_if(reported_, [&](const std::vector<std::string>& hosts) {
    if (std::any_of(hosts.begin(), hosts.end(), [&](const std::string& host) { return hosts_.count(host) > 0; }))
      return false;
    warnings.push_back(warning_about("gpus_not_watched_over", hosts, "their GPUs are watched"));
    return true;
  });
  if (due.empty()) return warnings;
  const std::string where = due.size() == 1 ? due.front() : format("each of {} hosts", due.size());
  std::string text = first->watched == 0
                         ? format("nobody watches the {} GPUs of {}", expected_, where)
                         : format("only {} of the {} GPUs of {} are watched", first->watched, expected_, where);
  if (!first->why.empty()) text += " (" + first->why + ")";
  text += ": their faults are not found before they stop a rank";
  warnings.push_back(warning_about("gpus_not_watched", due, text));
  reported_.push_back(std::move(due));
  return warnings;
}

}  // namespace longhaul
