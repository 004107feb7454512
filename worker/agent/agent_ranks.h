// The ranks of this node, as orders of the lead reach them: their pages, their sockets of text, the files that they
// leave for ranks of other nodes, and their stacks. One thread. What is ordered of another launch than the one that is
// watched is about ranks that are no more.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/process/log.h"
#include "base/system/clock.h"
#include "resiliency/beat/beat_folder.h"
#include "worker/agent/rank_pages.h"
#include "worker/agent/store_client.h"
#include "worker/protocol/node/node_report.h"
#include "worker/protocol/ranks/beat_sockets.h"
#include "worker/protocol/ranks/page_orders.h"
#include "worker/stacks/stack_dumps.h"

namespace longhaul {

class AgentRanks {
 public:
  AgentRanks(const std::string& attempt_key, const std::string& worker_program, Clock& clock, Logger& log)
      : clock_(clock), log_(log), pages_(attempt_key), sockets_(log), store_(log), stacks_(worker_program, clock) {}

  RankPages& pages() { return pages_; }
  StoreClient& store() { return store_; }
  // No rank speaks text.
  bool quiet() { return sockets_.quiet(); }
  std::vector<RankReport> look() { return pages_.look(clock_); }
  void look_at_text() { sockets_.look(); }
  void look_at_stacks() { stacks_.look(); }

  // A lead that has found us again says what it said before: what is connected stays.
  void watch(const AgentOrder& order);
  // The launch is over.
  void leave();
  // Any of the other orders about ranks.
  void obey(const AgentOrder& order);
  // Users' orders that are done, by their ids.
  std::vector<std::string> orders_done();
  // Stops every rank that lives (a test of this job wants that).
  void freeze();
  // A test's text to the program of that rank; false: nobody listens.
  bool say_fault(int rank, const std::string& what) { return sockets_.say_fault(rank, what); }

 private:
  void signal_rank(int rank, int number);
  void signal_each(const std::vector<int>& ranks, int number);
  void restart(const AgentOrder& order);
  void write_order(const AgentOrder& order);
  void dump_stacks(const AgentOrder& order);
  void end_forgotten_ranks();
  std::int64_t end_by_ns(const AgentOrder& order) const;

  Clock& clock_;
  Logger& log_;
  RankPages pages_;
  BeatSockets sockets_;
  StoreClient store_;
  StackDumps stacks_;
  std::string beat_folder_;
  HeldFolder beat_folder_held_;
  PageOrders orders_;
  int ordered_rank_ = 0;
};

}  // namespace longhaul
