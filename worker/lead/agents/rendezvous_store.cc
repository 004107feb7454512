#include "worker/lead/agents/rendezvous_store.h"

#include <utility>

#include "base/text/text.h"

namespace longhaul {

void RendezvousStore::begin(int launch) {
  if (launch == launch_) return;
  *this = RendezvousStore(limits_);
  launch_ = launch;
}

void RendezvousStore::new_epoch() {
  ++epoch_;
  const auto is_old = [this](const auto& entry) { return entry.second.epoch + 1 < epoch_; };
  std::erase_if(entries_, [&](const auto& entry) {
    if (!is_old(entry)) return false;
    bytes_ -= entry.first.size() + entry.second.value.size();
    return true;
  });
  std::erase_if(waiting_, [&](const auto& entry) {
    if (!is_old(entry)) return false;
    wishes_ -= entry.second.hosts.size();
    return true;
  });
  std::erase_if(refused_, is_old);
  reported_full_ = false;
}

StoreMessage& RendezvousStore::to(const std::string& host, Outcome& outcome) const {
  StoreMessage& message = outcome.to_hosts[host];
  message.launch = launch_;
  return message;
}

RendezvousStore::Outcome RendezvousStore::take(const std::string& host, const StoreMessage& message) {
  Outcome outcome;
  if (launch_ == 0 || message.launch != launch_) return outcome;
  for (const StoreEntry& entry : message.entries) take_entry(host, entry, outcome);
  for (const std::string& name : message.wanted) take_wish(host, name, outcome);
  return outcome;
}

void RendezvousStore::take_entry(const std::string& host, const StoreEntry& entry, Outcome& outcome) {
  if (const auto refused = refused_.find(entry.name); refused != refused_.end()) {
    to(host, outcome).refused.push_back({entry.name, refused->second.why});
    return;
  }
  if (const auto known = entries_.find(entry.name); known != entries_.end()) {
    if (known->second.value == entry.value) return;
    return refuse({entry.name, format("{} and {} have left different ones", known->second.host, host)},
                  {known->second.host, host}, outcome);
  }
  const std::size_t bytes = entry.name.size() + entry.value.size();
  if (entries_.size() >= limits_.entries || bytes_ + bytes > limits_.bytes)
    return refuse({entry.name, format("the lead keeps {} entries of {} bytes for this launch, and no more",
                                      entries_.size(), bytes_)},
                  {host}, outcome);
  entries_[entry.name] = {entry.value, host, epoch_};
  bytes_ += bytes;
  const auto waiting = waiting_.find(entry.name);
  if (waiting == waiting_.end()) return;
  for (const std::string& other : waiting->second.hosts)
    if (other != host) to(other, outcome).entries.push_back(entry);
  wishes_ -= waiting->second.hosts.size();
  waiting_.erase(waiting);
}

void RendezvousStore::take_wish(const std::string& host, const std::string& name, Outcome& outcome) {
  if (const auto refused = refused_.find(name); refused != refused_.end()) {
    to(host, outcome).refused.push_back({name, refused->second.why});
  } else if (const auto known = entries_.find(name); known != entries_.end()) {
    to(host, outcome).entries.push_back({name, known->second.value});
  } else if (wishes_ < limits_.entries) {
    Waiting& waiting = waiting_[name];
    wishes_ += waiting.hosts.insert(host).second ? 1 : 0;
    waiting.epoch = epoch_;
  } else {
    to(host, outcome).refused.push_back({name, format("{} other entries are waited for already", wishes_)});
  }
}

// For good, as far as there is room to know it. A lead that is full says so once, not for every entry.
void RendezvousStore::refuse(const StoreEntry& name_and_why, std::set<std::string> hosts, Outcome& outcome) {
  if (const auto waiting = waiting_.find(name_and_why.name); waiting != waiting_.end()) {
    hosts.insert(waiting->second.hosts.begin(), waiting->second.hosts.end());
    wishes_ -= waiting->second.hosts.size();
    waiting_.erase(waiting);
  }
  if (const auto kept = entries_.find(name_and_why.name); kept != entries_.end()) {
    bytes_ -= kept->first.size() + kept->second.value.size();
    entries_.erase(kept);
    outcome.problems.push_back(format("{}: {}", name_and_why.name, name_and_why.value));
  } else if (!std::exchange(reported_full_, true)) {
    outcome.problems.push_back(format("{}: {}", name_and_why.name, name_and_why.value));
  }
  if (refused_.size() < limits_.entries) refused_[name_and_why.name] = {name_and_why.value, epoch_};
  for (const std::string& host : hosts) to(host, outcome).refused.push_back(name_and_why);
}

}  // namespace longhaul
