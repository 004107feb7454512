#include "worker/lead/placement/host_pool.h"

#include <algorithm>

namespace longhaul {

HostPool::HostPool(const std::vector<std::string>& hosts, int working)
    : wanted_(std::min(working, static_cast<int>(hosts.size()))) {
  for (const std::string& host : hosts)
    hosts_.push_back({host, static_cast<int>(hosts_.size()) < wanted_ ? State::working : State::spare});
}

std::vector<std::string> HostPool::with(std::initializer_list<State> states) const {
  std::vector<std::string> names;
  for (const Host& host : hosts_)
    if (std::find(states.begin(), states.end(), host.state) != states.end()) names.push_back(host.name);
  return names;
}

std::vector<std::string> HostPool::all() const {
  std::vector<std::string> names;
  for (const Host& host : hosts_) names.push_back(host.name);
  return names;
}

std::vector<std::string> HostPool::returned() const {
  std::vector<std::string> names;
  for (const Host& host : hosts_)
    if (host.returned) names.push_back(host.name);
  return names;
}

bool HostPool::is_working(const std::string& host) const {
  return std::any_of(hosts_.begin(), hosts_.end(),
                     [&](const Host& one) { return one.name == host && one.state == State::working; });
}

void HostPool::assign() {
  int number = 0;
  for (Host& host : hosts_)
    if (host.state == State::working || host.state == State::spare)
      host.state = number++ < wanted_ ? State::working : State::spare;
}

void HostPool::shrink_to(int working) {
  wanted_ = std::min(wanted_, working);
  assign();
}

void HostPool::grow_to(int working, const std::vector<std::string>& back) {
  for (Host& host : hosts_)
    if (host.state == State::lost && std::find(back.begin(), back.end(), host.name) != back.end())
      host.state = State::spare, host.returned = true;
  wanted_ = std::max(wanted_, working);
  assign();
}

void HostPool::note_returned(const std::string& host) {
  for (Host& one : hosts_)
    if (one.name == host) one.returned = true;
}

void HostPool::leave_as(const std::string& host, State state) {
  for (Host& one : hosts_)
    if (one.name == host && one.state != State::left) one.state = one.returned ? State::left : state;
  for (Host& one : hosts_)
    if (!complete() && one.state == State::spare) one.state = State::working;
}

}  // namespace longhaul
