// What is reported to the lead about this node, and when: what changed, at once; that nothing did, now and then. One
// thread.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/system/clock.h"
#include "worker/protocol/node/host_exchange.h"
#include "worker/protocol/node/node_report.h"

namespace longhaul {

// What is to be reported, as it is now.
struct NodeState {
  int launch = 0;
  std::vector<RankReport> ranks;
  std::vector<std::string> orders_done;
  int standby_port = 0;
  const HealthReport& health;
  HostExchange* exchange = nullptr;  // null: none is under way
};

class NodeReporter {
 public:
  NodeReporter(std::string host, const Clock& clock) : host_(std::move(host)), clock_(clock) {}

  // The next report is due whatever has changed: it goes to another lead, or something that is not in NodeState.
  void hurry() { reported_ns_ = 0; }
  bool hurries() const { return reported_ns_ == 0; }
  // A fault of a test that could not be brought about. Sent with every report from now on: the lead takes each once.
  void not_injected(const std::string& id, const std::string& why);
  // nullopt: nothing has changed, and that was said lately.
  std::optional<NodeReport> report(NodeState now);

 private:
  bool is_new(const NodeState& now, std::int64_t health, bool exchanged) const;
  void measure(std::int64_t now_ns);

  std::string host_;
  const Clock& clock_;
  std::int64_t reported_ns_ = 0;
  std::vector<RankReport> reported_;
  std::vector<std::string> done_reported_;
  std::int64_t reported_health_ = 0;
  bool reported_exchanged_ = false;
  std::int64_t rss_kib_ = 0, measured_ns_ = 0;  // of this process
  std::vector<FaultProblem> fault_problems_;
};

}  // namespace longhaul
