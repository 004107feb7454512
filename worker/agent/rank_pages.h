// The heartbeat pages of the ranks on one node, opened as they appear.
#pragma once

#include <poll.h>

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "base/system/clock.h"
#include "resiliency/beat/heartbeat_page.h"
#include "worker/protocol/node/node_report.h"
#include "worker/protocol/ranks/own_process.h"
#include "worker/protocol/ranks/pageless_ranks.h"
#include "worker/protocol/ranks/process_watch.h"

namespace longhaul {

class RankPages {
 public:
  explicit RankPages(std::string attempt_key = {}) : attempt_key_(std::move(attempt_key)) {}
  RankPages(const RankPages&) = delete;
  RankPages& operator=(const RankPages&) = delete;
  // From now on these, of this launch; pages of an earlier one are let go, and their folder is removed from memory.
  // `restart_wait_ms`: how long a rank with a fault waits for an order to restart in-process; 0: it does not.
  void watch(int launch, std::string folder, std::vector<int> ranks, std::int64_t restart_wait_ms = 0);
  int launch() const { return launch_; }
  // When the ranks are ended by force, to each as its page appears: CLOCK_MONOTONIC of this host; 0: not known.
  void must_end_by(std::int64_t end_ns);
  std::int64_t end_by_ns() const { return end_by_ns_; }
  // Those that have a page, by rank; then those of which only a process is there.
  std::vector<RankReport> look(const Clock& clock);
  // For poll(2), after a look: readable as soon as one of the ranks found alive has ended. What has fired is gone with
  // the next look.
  void add_ends(std::vector<pollfd>& to) const;
  // Whether the kernel reports the end of every rank of the last look that is alive, and there is one.
  bool ends_are_reported() const;
  // Null while there is none.
  HeartbeatPage* page(int rank);
  // To the process of that rank, as of the last look, if it is known to be the job's
  // (worker/protocol/ranks/own_process.h). not_found, invalid_input: it is not; why.
  Status signal(int rank, int number) const;
  // 0: unknown, or none of the job's.
  pid_t own_pid(int rank) const;
  // The launch is over: nothing of it stays in the node's memory.
  void leave();

 private:
  int launch_ = 0;
  std::string folder_;
  std::vector<int> ranks_;
  std::int64_t restart_wait_ms_ = 0, end_by_ns_ = 0;
  std::map<int, HeartbeatPage> pages_;
  std::map<int, ProcessWatch> processes_;
  // Asked once, when a rank first says which process it is; of one that was refused again every second.
  struct Owned {
    std::int64_t pid = 0, next_ns = 0;
    Result<OwnProcess> process = OwnProcess();
  };
  void note_process(const RankReport& report, const Clock& clock);
  std::string attempt_key_;
  std::map<int, Owned> owned_;
  PagelessRanks pageless_;
};

}  // namespace longhaul
