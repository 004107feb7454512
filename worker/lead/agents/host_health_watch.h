// What a lead knows of the health of its job's nodes: which findings are new, which nodes are not fit to work on, and
// what of it explains a fault. Pure: reports and the time come from outside.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "resiliency/taxonomy/verdict.h"
#include "worker/protocol/node/node_report.h"

namespace longhaul {

struct HostFinding {
  std::string host;
  HealthFinding finding;
  std::int64_t at_ms = 0;  // when the lead heard of it
  bool reported_often =
      false;  // the same was reported of many hosts: a file system, a variable of the job. No event for it
};
Value to_value(const HostFinding& found);  // the fields of the event `health`

class HostHealthWatch {
 public:
  static constexpr std::int64_t remembered_ms = 86'400'000;  // as long as a controller avoids a host at first
  // What of the report was not taken before.
  std::vector<HostFinding> take(const std::string& host, const HealthReport& report, std::int64_t wall_ms);
  // A finding that no host made of itself: slower than the others.
  HostFinding add(const std::string& host, const HealthFinding& finding, std::int64_t wall_ms);

  // What the exchange of all hosts said of this one.
  void note_network(const std::string& host, double mb_per_s) { figures_[host].network_mb_per_s = mb_per_s; }

  // For verdict_of: what was heard since then, the newest 1,024 at most.
  std::vector<Observation> health_seen(std::int64_t since_ms = 0) const;
  // The first finding that says for sure that the host is not fit to work on; nullptr: none. What more than half of
  // three or more hosts have accuses none of them: a check that is wrong, a switch that they share. A day after the
  // newest such finding the host is as good as any: what is still wrong with it is found again, or shows in its ranks.
  const HostFinding* unfit(const std::string& host) const;
  // Whether the host was looked at; what was measured of those that were.
  bool looked(const std::string& host) const { return looked_.count(host) > 0; }
  const std::map<std::string, HostFigures>& figures() const { return figures_; }

 private:
  struct Taken {
    std::int64_t since = 0, serial = 0;
  };
  std::map<std::string, Taken> taken_;
  std::set<std::string> looked_;
  std::map<std::string, HostFigures> figures_;
  std::deque<HostFinding> seen_;
  struct Unfit {
    HostFinding first;
    std::int64_t newest_ms = 0;
  };
  struct Reports {
    int times = 0;
    std::int64_t newest_ms = 0;
  };
  void forget(std::int64_t now_ms);
  std::map<std::string, Unfit> unfit_;
  std::map<std::string, Reports> hosts_with_;  // by class and device
};

}  // namespace longhaul
