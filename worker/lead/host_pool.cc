#include "worker/lead/host_pool.h"

#include <algorithm>

namespace longhaul {

HostPool::HostPool(const std::vector<std::string>& hosts, int working)
    : wanted_(std::min(working, static_cast<int>(hosts.size()))) {
  for (const std::string& host : hosts)
    hosts_.push_back({host, static_cast<int>(hosts_.size()) < wanted_ ? State::working : State::spare});
}

std::vector<std::string> HostPool::with(State state) const {
  std::vector<std::string> names;
  for (const Host& host : hosts_)
    if (host.state == state) names.push_back(host.name);
  return names;
}

std::vector<std::string> HostPool::all() const {
  std::vector<std::string> names;
  for (const Host& host : hosts_) names.push_back(host.name);
  return names;
}

bool HostPool::is_working(const std::string& host) const {
  return std::any_of(hosts_.begin(), hosts_.end(),
                     [&](const Host& one) { return one.name == host && one.state == State::working; });
}

void HostPool::shrink_to(int working) {
  wanted_ = std::min(wanted_, working);
  int number = 0;
  for (Host& host : hosts_)
    if (host.state != State::left) host.state = number++ < wanted_ ? State::working : State::spare;
}

void HostPool::leave(const std::string& host) {
  for (Host& one : hosts_)
    if (one.name == host) one.state = State::left;
  for (Host& one : hosts_)
    if (!complete() && one.state == State::spare) one.state = State::working;
}

}  // namespace longhaul
