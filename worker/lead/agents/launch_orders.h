// The orders that the agents of a job get for the launch that they watch: every order names the launch and the ranks of
// its host, and an agent that comes later gets those that the others have had. Pure: orders are made here and sent
// elsewhere; times are CLOCK_MONOTONIC of the lead's host, and orders say how long it is until then.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "contracts/control/order.h"
#include "worker/protocol/node/node_report.h"

namespace longhaul {

using HostOrders = std::vector<std::pair<std::string, AgentOrder>>;  // (host, what its agent is sent)

class LaunchOrders {
 public:
  // `ranks_of`: by host; others watch no ranks. `store_dir`: the folder of rendezvous files. `end_by_ns`: when the
  // ranks are ended by force; 0: not known.
  void begin(const std::vector<std::string>& hosts, int launch, const std::string& folder,
             const std::map<std::string, std::vector<int>>& ranks_of, std::int64_t restart_wait_ms,
             std::int64_t end_by_ns, const std::string& store_dir);

  // All that an agent of this host has to know when it connects, in order.
  std::vector<AgentOrder> for_newcomer(const std::string& host, std::int64_t now_ns) const;
  // To every host with ranks: they go on in-process, in this epoch.
  HostOrders restart(std::int64_t epoch);
  HostOrders must_end_by(std::int64_t end_ns, std::int64_t now_ns);
  HostOrders stacks(const std::string& folder) const;  // of hosts with ranks
  AgentOrder signal(const std::string& host, const std::vector<int>& ranks, int number) const;
  // Of a host that watches nothing: none.
  std::optional<AgentOrder> page(const std::string& host, int rank, const Order& user) const;

 private:
  std::int64_t left_ms(std::int64_t now_ns) const;
  AgentOrder restart_of(const AgentOrder& watched) const;

  std::map<std::string, AgentOrder> watched_;  // by host
  std::int64_t end_by_ns_ = 0;
  std::int64_t restart_epoch_ = 0;  // newest that the ranks of this launch were ordered to; 0: none
};

}  // namespace longhaul
