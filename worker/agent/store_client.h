// The entries of one host's ranks (contracts/control/rendezvous_folder.h) as its agent carries them: what they put and
// what they look for goes to the lead, and what comes from it into their folder. One thread. The kernel notifies of
// each new file (inotify); where it does not, and in any case at every look, the times of two folders say whether there
// is one.
#pragma once

#include <sys/stat.h>

#include <cstdint>
#include <set>
#include <string>
#include <vector>

#include "base/files/files.h"
#include "base/process/log.h"
#include "base/system/clock.h"
#include "worker/protocol/wire/store_message.h"

namespace longhaul {

class StoreClient {
 public:
  // Files come in bursts, as ranks make several communicators at once: after one that was reported, the next ones are
  // gathered for so long.
  static constexpr std::int64_t gather_ms = 5;

  explicit StoreClient(Logger& log) : log_(log) {}

  // Of this launch from now on, in a folder that is made; "": no rank of this host has any. The lead that says so
  // is sent everything that is there, whatever another one knew.
  void watch(int launch, const std::string& folder);
  // There is no lead to send anything to until the next watch().
  void lead_lost() { watching_ = false; }
  // Ranks restart in-process, in that epoch: what they had left before the last time they did is removed. Said again
  // of the same epoch it means nothing.
  void new_epoch(std::int64_t epoch);
  // What the lead does not know yet, in pieces that each fit into a frame. Looks for news when there may be some.
  std::vector<StoreMessage> look(std::int64_t now_ns);
  // From the lead: into the folder. A message of another launch is let go.
  void take(const StoreMessage& message);
  // The launch is over. The folder goes with that of the pages.
  void leave();

  // For poll(2): readable when there may be news. -1: there is no lead, the kernel does not notify, or they are
  // gathered until next_ns(), when look() is due (0: whenever it suits).
  int descriptor(std::int64_t now_ns) const { return !watching_ || now_ns < next_ns_ ? -1 : inotify_.get(); }
  std::int64_t next_ns() const { return watching_ ? next_ns_ : 0; }

 private:
  struct Seen {
    timespec changed{};
    bool recently = false;  // when it was read: the clock of the file system is coarse
  };
  bool has_changed(const std::string& folder, Seen& seen) const;
  void listen();
  bool files_appeared();
  void find_entries(StoreMessage& news);
  void find_wishes(StoreMessage& news);
  void forget(const std::set<std::string>& names);

  Logger& log_;
  int launch_ = 0;
  std::string folder_;
  bool watching_ = false, logged_no_inotify_ = false;
  FileDescriptor inotify_;
  std::int64_t next_ns_ = 0;
  Seen seen_entries_, seen_wishes_;
  std::set<std::string> entries_, wishes_;  // which the lead has been sent
  std::int64_t epoch_ = 0;
  std::set<std::string> names_, older_names_;  // of files made before the newest restart, and before the one before
};

}  // namespace longhaul
