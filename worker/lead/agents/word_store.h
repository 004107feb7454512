// The words that the ranks of a launch have left for each other (contracts/control/rendezvous_words.h), as the lead
// keeps them and who waits for which. Each goes to the hosts whose ranks look for it, and to no other: of the words of
// ten thousand ranks a host is sent some dozens. Pure: no sockets, no files, no clocks.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "worker/protocol/wire/word_message.h"

namespace longhaul {

struct WordLimits {
  // Of words, of wishes (a name and a host that waits for it), and of names that were refused, each.
  std::size_t words = 500'000;
  std::size_t bytes = std::size_t{128} << 20;  // names and words
};

class WordStore {
 public:
  explicit WordStore(WordLimits limits = {}) : limits_(limits) {}

  // Words of another launch are gone, and are taken no more. 0: of none.
  void begin(int launch);
  int launch() const { return launch_; }
  // Its ranks restart in-process: what was left before the last time they did is forgotten.
  void new_epoch();

  struct Outcome {
    std::map<std::string, WordMessage> to_hosts;  // what each is to be sent now
    std::vector<std::string> problems;            // for a log
  };
  // What an agent has sent. A word that is told again is nothing new; another word under its name makes both of no use
  // from then on: who looks for it hears of the two hosts.
  Outcome take(const std::string& host, const WordMessage& message);

  std::size_t words() const { return words_.size(); }
  std::size_t bytes() const { return bytes_; }

 private:
  struct Kept {
    std::string word;
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
  void take_word(const std::string& host, const NamedWord& word, Outcome& outcome);
  void take_wish(const std::string& host, const std::string& name, Outcome& outcome);
  void refuse(const NamedWord& name_and_why, std::set<std::string> hosts, Outcome& outcome);
  WordMessage& to(const std::string& host, Outcome& outcome) const;

  WordLimits limits_;
  int launch_ = 0;
  std::int64_t epoch_ = 0;  // counts restarts in-process
  std::map<std::string, Kept> words_;
  std::map<std::string, Waiting> waiting_;
  std::map<std::string, Refused> refused_;
  std::size_t bytes_ = 0, wishes_ = 0;
  bool told_full_ = false;
};

}  // namespace longhaul
