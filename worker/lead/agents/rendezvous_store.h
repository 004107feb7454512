// The entries that the ranks of a launch have left for each other (contracts/control/rendezvous_folder.h), as the lead
// keeps them and who waits for which. Each goes to the hosts whose ranks look for it, and to no other: of the entries
// of ten thousand ranks a host is sent some dozens. Pure: no sockets, no files, no clocks.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "worker/protocol/wire/store_message.h"

namespace longhaul {

struct StoreLimits {
  // Of entries, of wishes (a name and a host that waits for it), and of names that were refused, each.
  std::size_t entries = 500'000;
  std::size_t bytes = std::size_t{128} << 20;  // keys and values
};

class RendezvousStore {
 public:
  explicit RendezvousStore(StoreLimits limits = {}) : limits_(limits) {}

  // Entries of another launch are gone, and are taken no more. 0: of none.
  void begin(int launch);
  int launch() const { return launch_; }
  // Its ranks restart in-process: what was left before the last time they did is forgotten.
  void new_epoch();

  struct Outcome {
    std::map<std::string, StoreMessage> to_hosts;  // what each is to be sent now
    std::vector<std::string> problems;             // for a log
  };
  // What an agent has sent. An entry that is sent again is nothing new; another value under its name makes both of no
  // use from then on: a lookup is answered with the names of both hosts.
  Outcome take(const std::string& host, const StoreMessage& message);

  std::size_t entries() const { return entries_.size(); }
  std::size_t bytes() const { return bytes_; }

 private:
  struct Kept {
    std::string value;
    std::string host;  // which has put it
    std::int64_t epoch = 0;
  };
  struct Waiting {
    std::set<std::string> hosts;
    std::int64_t epoch = 0;
  };
  struct Refused {
    std::string why;
    std::int64_t epoch = 0;
  };
  void take_entry(const std::string& host, const StoreEntry& entry, Outcome& outcome);
  void take_wish(const std::string& host, const std::string& name, Outcome& outcome);
  void refuse(const StoreEntry& name_and_why, std::set<std::string> hosts, Outcome& outcome);
  StoreMessage& to(const std::string& host, Outcome& outcome) const;

  StoreLimits limits_;
  int launch_ = 0;
  std::int64_t epoch_ = 0;  // counts restarts in-process
  std::map<std::string, Kept> entries_;
  std::map<std::string, Waiting> waiting_;
  std::map<std::string, Refused> refused_;
  std::size_t bytes_ = 0, wishes_ = 0;
  bool reported_full_ = false;
};

}  // namespace longhaul
