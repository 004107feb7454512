#include "worker/lead/agents/launch_orders.h"

#include <algorithm>

namespace longhaul {

void LaunchOrders::begin(const std::vector<std::string>& hosts, int launch, const std::string& folder,
                         const std::map<std::string, std::vector<int>>& ranks_of, std::int64_t restart_wait_ms,
                         std::int64_t end_by_ns, const std::string& store_dir) {
  watched_.clear();
  end_by_ns_ = end_by_ns;
  restart_epoch_ = 0;
  for (const std::string& host : hosts) {
    const auto ranks = ranks_of.find(host);
    AgentOrder watch;
    watch.kind = AgentOrder::Kind::watch;
    watch.launch = launch, watch.folder = folder, watch.restart_wait_ms = restart_wait_ms, watch.store_dir = store_dir;
    if (ranks != ranks_of.end()) watch.ranks = ranks->second;
    watched_[host] = watch;
  }
}

std::vector<AgentOrder> LaunchOrders::for_newcomer(const std::string& host, std::int64_t now_ns) const {
  const auto watched = watched_.find(host);
  if (watched == watched_.end()) return {};
  std::vector<AgentOrder> orders = {watched->second};
  orders.front().left_ms = left_ms(now_ns);
  if (restart_epoch_ != 0 && !watched->second.ranks.empty()) orders.push_back(restart_of(watched->second));
  return orders;
}

AgentOrder LaunchOrders::restart_of(const AgentOrder& watched) const {
  AgentOrder restart;
  restart.kind = AgentOrder::Kind::restart;
  restart.launch = watched.launch, restart.ranks = watched.ranks, restart.epoch = restart_epoch_;
  return restart;
}

HostOrders LaunchOrders::restart(std::int64_t epoch) {
  restart_epoch_ = epoch;
  HostOrders orders;
  for (const auto& [host, watched] : watched_)
    if (!watched.ranks.empty()) orders.emplace_back(host, restart_of(watched));
  return orders;
}

std::int64_t LaunchOrders::left_ms(std::int64_t now_ns) const {
  return end_by_ns_ == 0 ? 0 : std::max<std::int64_t>(1, (end_by_ns_ - now_ns) / 1'000'000);
}

HostOrders LaunchOrders::must_end_by(std::int64_t end_ns, std::int64_t now_ns) {
  end_by_ns_ = end_ns;
  HostOrders orders;
  for (const auto& [host, watched] : watched_) {
    AgentOrder end_by;
    end_by.kind = AgentOrder::Kind::end_by;
    end_by.launch = watched.launch, end_by.left_ms = left_ms(now_ns);
    orders.emplace_back(host, end_by);
  }
  return orders;
}

HostOrders LaunchOrders::stacks(const std::string& folder) const {
  HostOrders orders;
  for (const auto& [host, watched] : watched_) {
    if (watched.ranks.empty()) continue;
    AgentOrder stacks;
    stacks.kind = AgentOrder::Kind::stacks;
    stacks.launch = watched.launch, stacks.folder = folder, stacks.ranks = watched.ranks;
    orders.emplace_back(host, stacks);
  }
  return orders;
}

AgentOrder LaunchOrders::signal(const std::string& host, const std::vector<int>& ranks, int number) const {
  const auto watched = watched_.find(host);
  AgentOrder signal;
  signal.kind = AgentOrder::Kind::signal;
  signal.launch = watched == watched_.end() ? 0 : watched->second.launch;
  signal.ranks = ranks, signal.signal = number;
  return signal;
}

std::optional<AgentOrder> LaunchOrders::page(const std::string& host, int rank, const Order& user) const {
  const auto watched = watched_.find(host);
  if (watched == watched_.end()) return std::nullopt;
  AgentOrder page;
  page.kind = AgentOrder::Kind::page;
  page.launch = watched->second.launch, page.ranks = {rank};
  page.id = user.id, page.what = user.what, page.value = user.value;
  return page;
}

}  // namespace longhaul
