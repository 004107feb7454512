// What the shared file system says of leads, and where their names lead to, found out by a thread of its own: the agent
// has only one, and a file system or name service that does not answer must not keep it from its ranks. A thousand
// agents that have lost their lead at once would also ask ten times a second each, of the metadata server that is slow
// just then: they look half a second after the loss at the earliest, for most find the standby by then, and each time
// twice as much later, up to five seconds, every agent at its own moment.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <functional>
#include <map>
#include <mutex>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "base/system/clock.h"
#include "worker/protocol/wire/lead_address.h"

namespace longhaul {

// When to look next. Pure.
class LookPace {
 public:
  explicit LookPace(std::uint64_t seed) : state_(seed | 1) {}
  // From the beginning: the first look after `first_ms`, or later by up to as much.
  void begin(std::int64_t now_ms, std::int64_t first_ms);
  bool due(std::int64_t now_ms) const { return now_ms >= next_ms_; }
  void looked(std::int64_t now_ms);

 private:
  std::int64_t jittered(std::int64_t ms);  // between half of it and as much again
  std::uint64_t state_;
  std::int64_t next_ms_ = 0, pause_ms_ = 0;
};

struct LeadFilesSeen {
  Result<LeadAddress> lead = unread(), standby = unread();
  Result<std::string> secret = unread();
  static Error unread() { return make_error(ErrorCode::not_found, "not read yet"); }
};

class LeadFiles {
 public:
  struct Ways {  // both may take as long as they like
    std::function<LeadFilesSeen()> read;
    std::function<Result<std::vector<std::string>>(const std::string& host)> resolve;  // its addresses
  };
  static Ways ways_of(std::string address_path, std::string secret_path);
  LeadFiles(Ways ways, const Clock& clock, std::uint64_t seed);
  ~LeadFiles();  // waits for what is under way
  LeadFiles(const LeadFiles&) = delete;
  LeadFiles& operator=(const LeadFiles&) = delete;

  // A lead was lost: where it was, and who was its standby, is not known any more until it is read again. At once where
  // no standby is known from elsewhere.
  void lead_lost(bool standby_is_known);
  // Begins to read where that is due, and waits for it some milliseconds at most: most file systems answer by then.
  void look();
  // As of the last time that it was read; an error of each until then.
  LeadFilesSeen seen() const;
  // Where that host is; "": not known yet, and asked for from now on. Asked once for each name. By the name service,
  // then by what its lead has written beside its name; the latter alone where the name service does not answer within a
  // second, or knows no such name (clusters whose NodeNames are no names of the network).
  std::string address_of(const std::string& host);
  // Nobody has answered there: the next of its addresses has its turn.
  void not_reached(const std::string& host);
  int reads() const;  // so far

 private:
  struct HostAddresses {
    std::vector<std::string> resolved, written;
    bool asked = false;          // the name service has answered
    std::int64_t wanted_ns = 0;  // since when
    std::size_t turn = 0;
  };
  void work();
  HostAddresses& want(const std::string& host);  // its name is asked for where it was not
  bool idle() const { return !read_ && names_.empty() && !working_; }

  Ways ways_;
  const Clock& clock_;
  LookPace pace_;
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  bool read_ = false, working_ = false, ended_ = false;
  std::set<std::string> names_;  // to be resolved
  std::map<std::string, HostAddresses> addresses_;
  LeadFilesSeen seen_;
  int reads_ = 0;
  std::thread thread_;  // last: it works on what is above
};

}  // namespace longhaul
