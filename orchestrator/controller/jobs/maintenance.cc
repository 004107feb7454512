#include "orchestrator/controller/jobs/maintenance.h"

#include <cstdlib>

#include "base/text/text.h"

namespace longhaul {

int count_hosts(const std::string& list) {
  int hosts = 0, factor = 1;
  std::size_t begin = 0;
  const auto count_ranges = [](const std::string& ranges) {
    int count = 0;
    for (const std::string& range : split(ranges, ',')) {
      const std::size_t dash = range.find('-');
      const long long from = std::atoll(range.c_str());
      const long long to = dash == std::string::npos ? from : std::atoll(range.c_str() + dash + 1);
      count += to >= from && to - from < 1'000'000 ? static_cast<int>(to - from) + 1 : 0;
    }
    return count;
  };
  while (begin < list.size()) {
    const char c = list[begin];
    if (c == '[') {
      const std::size_t end = list.find(']', begin);
      if (end == std::string::npos) return hosts;
      factor *= count_ranges(list.substr(begin + 1, end - begin - 1));
      begin = end + 1;
    } else {
      if (c == ',') hosts += factor, factor = 1;
      ++begin;
    }
  }
  return list.empty() ? 0 : hosts + factor;
}

std::int64_t next_maintenance_s(const std::vector<SlurmReservation>& reservations, int nodes_total, std::int64_t now_s,
                                const std::set<std::string>& own) {
  std::int64_t next = 0;
  for (const SlurmReservation& reservation : reservations) {
    if (reservation.start_s <= now_s || own.contains(reservation.name)) continue;
    if (reservation.flags.find("TIME_FLOAT") != std::string::npos) continue;
    const bool all = reservation.flags.find("ALL_NODES") != std::string::npos;
    if (!all && nodes_total > 0 && 2 * count_hosts(reservation.nodes) < nodes_total) continue;
    if (next == 0 || reservation.start_s < next) next = reservation.start_s;
  }
  return next;
}

std::set<std::string> own_reservations(const Site& site, const RunPlan& plan) {
  std::set<std::string> names;
  const auto take = [&](const std::string& list) {
    for (const std::string& name : split(list, ','))
      if (!name.empty()) names.insert(name);
  };
  for (const JobClass& one : site.config.classes) take(one.reservation);
  for (const PlannedStage& stage : plan.stages) take(stage.common.job.reservation);
  return names;
}

}  // namespace longhaul
