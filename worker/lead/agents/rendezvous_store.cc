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
  std::erase_if(words_, [&](const auto& entry) {
    if (!is_old(entry)) return false;
    bytes_ -= entry.first.size() + entry.second.word.size();
    return true;
  });
  std::erase_if(waiting_, [&](const auto& entry) {
    if (!is_old(entry)) return false;
    wishes_ -= entry.second.hosts.size();
    return true;
  });
  std::erase_if(refused_, is_old);
  told_full_ = false;
}

StoreMessage& RendezvousStore::to(const std::string& host, Outcome& outcome) const {
  StoreMessage& message = outcome.to_hosts[host];
  message.launch = launch_;
  return message;
}

RendezvousStore::Outcome RendezvousStore::take(const std::string& host, const StoreMessage& message) {
  Outcome outcome;
  if (launch_ == 0 || message.launch != launch_) return outcome;
  for (const StoreEntry& word : message.words) take_word(host, word, outcome);
  for (const std::string& name : message.wanted) take_wish(host, name, outcome);
  return outcome;
}

void RendezvousStore::take_word(const std::string& host, const StoreEntry& word, Outcome& outcome) {
  if (const auto refused = refused_.find(word.name); refused != refused_.end()) {
    to(host, outcome).refused.push_back({word.name, refused->second.why});
    return;
  }
  if (const auto known = words_.find(word.name); known != words_.end()) {
    if (known->second.word == word.word) return;
    return refuse({word.name, format("{} and {} have left different ones", known->second.host, host)},
                  {known->second.host, host}, outcome);
  }
  const std::size_t bytes = word.name.size() + word.word.size();
  if (words_.size() >= limits_.words || bytes_ + bytes > limits_.bytes)
    return refuse(
        {word.name, format("the lead keeps {} words of {} bytes for this launch, and no more", words_.size(), bytes_)},
        {host}, outcome);
  words_[word.name] = {word.word, host, epoch_};
  bytes_ += bytes;
  const auto waiting = waiting_.find(word.name);
  if (waiting == waiting_.end()) return;
  for (const std::string& other : waiting->second.hosts)
    if (other != host) to(other, outcome).words.push_back(word);
  wishes_ -= waiting->second.hosts.size();
  waiting_.erase(waiting);
}

void RendezvousStore::take_wish(const std::string& host, const std::string& name, Outcome& outcome) {
  if (const auto refused = refused_.find(name); refused != refused_.end()) {
    to(host, outcome).refused.push_back({name, refused->second.why});
  } else if (const auto known = words_.find(name); known != words_.end()) {
    to(host, outcome).words.push_back({name, known->second.word});
  } else if (wishes_ < limits_.words) {
    Waiting& waiting = waiting_[name];
    wishes_ += waiting.hosts.insert(host).second ? 1 : 0;
    waiting.epoch = epoch_;
  } else {
    to(host, outcome).refused.push_back({name, format("{} other words are waited for already", wishes_)});
  }
}

// For good, as far as there is room to know it. A lead that is full says so once, not for every word.
void RendezvousStore::refuse(const StoreEntry& name_and_why, std::set<std::string> hosts, Outcome& outcome) {
  if (const auto waiting = waiting_.find(name_and_why.name); waiting != waiting_.end()) {
    hosts.insert(waiting->second.hosts.begin(), waiting->second.hosts.end());
    wishes_ -= waiting->second.hosts.size();
    waiting_.erase(waiting);
  }
  if (const auto kept = words_.find(name_and_why.name); kept != words_.end()) {
    bytes_ -= kept->first.size() + kept->second.word.size();
    words_.erase(kept);
    outcome.problems.push_back(format("{}: {}", name_and_why.name, name_and_why.word));
  } else if (!std::exchange(told_full_, true)) {
    outcome.problems.push_back(format("{}: {}", name_and_why.name, name_and_why.word));
  }
  if (refused_.size() < limits_.words) refused_[name_and_why.name] = {name_and_why.word, epoch_};
  for (const std::string& host : hosts) to(host, outcome).refused.push_back(name_and_why);
}

}  // namespace longhaul
