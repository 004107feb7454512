#include "worker/lead/agents/host_health_watch.h"

#include <algorithm>

#include "base/text/text.h"

namespace longhaul {
namespace {

constexpr std::size_t seen_max = 1024;
constexpr int reported_hosts_max = 8;  // then the same of further hosts is for the record only

}  // namespace

Value to_value(const HostFinding& found) {
  Value value = to_value(found.finding);
  value.set("host", found.host);
  return value;
}

std::vector<HostFinding> HostHealthWatch::take(const std::string& host, const HealthReport& report,
                                               std::int64_t wall_ms) {
  forget(wall_ms);
  if (report.looks > 0) looked_.insert(host);
  if (report.figures.measured()) {
    HostFigures& known = figures_[host];
    known.gflops = report.figures.gflops, known.gb_per_s = report.figures.gb_per_s;
  }
  Taken& taken = taken_[host];
  if (taken.since != report.since) taken = {report.since, 0};  // another agent numbers anew
  std::vector<HostFinding> fresh;
  for (const HealthNote& note : report.notes) {
    if (note.serial <= taken.serial) continue;
    taken.serial = note.serial;
    fresh.push_back(add(host, note.finding, wall_ms));
  }
  return fresh;
}

HostFinding HostHealthWatch::add(const std::string& host, const HealthFinding& finding, std::int64_t wall_ms) {
  HostFinding found{host, finding, wall_ms, false};
  // A variable of the job's environment is the same everywhere.
  const int most = finding.scope == FaultScope::user ? 1 : reported_hosts_max;
  Reports& reports = hosts_with_[format("{} {} {}", to_string(finding.fault), finding.device, finding.xid)];
  reports.newest_ms = wall_ms;
  found.reported_often = ++reports.times > most && !unfit_for_sure(finding);
  seen_.push_back(found);
  if (seen_.size() > seen_max) seen_.pop_front();
  if (unfit_for_sure(finding)) unfit_.try_emplace(host, Unfit{found, 0}).first->second.newest_ms = wall_ms;
  return found;
}

void HostHealthWatch::forget(std::int64_t now_ms) {
  const auto is_old = [now_ms](const auto& entry) { return now_ms - entry.second.newest_ms > remembered_ms; };
  std::erase_if(unfit_, is_old);
  std::erase_if(hosts_with_, is_old);
}

std::vector<Observation> HostHealthWatch::health_seen(std::int64_t since_ms) const {
  std::vector<Observation> all;
  for (const HostFinding& found : seen_)
    if (found.at_ms >= since_ms) all.push_back(observe_health(found.finding, found.host, found.at_ms));
  return all;
}

const HostFinding* HostHealthWatch::unfit(const std::string& host) const {
  const auto found = unfit_.find(host);
  if (found == unfit_.end()) return nullptr;
  const auto alike = std::count_if(unfit_.begin(), unfit_.end(), [&](const auto& other) {
    return other.second.first.finding.fault == found->second.first.finding.fault;
  });
  const bool widespread = looked_.size() >= 3 && 2 * static_cast<std::size_t>(alike) > looked_.size();
  return widespread ? nullptr : &found->second.first;
}

}  // namespace longhaul
