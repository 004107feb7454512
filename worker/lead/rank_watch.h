// What is known of the ranks of one launch: from their pages on this node, and from what the agents of the others
// report. One thread.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "base/clock.h"
#include "contracts/job_step.h"
#include "contracts/launch.h"
#include "resiliency/beat/heartbeat_page.h"
#include "worker/lead/agent_table.h"
#include "worker/protocol/node_report.h"

namespace longhaul {

// Where the ranks of a launch keep their pages here, by folder: of all steps, one after the other.
struct PageFolder {
  std::string path;
  int first_rank = 0, ranks = 0;
};
std::vector<PageFolder> page_folders(const Launch& launch, const std::vector<JobStep>& steps);

class RankWatch {
 public:
  explicit RankWatch(const Clock& clock) : clock_(clock) {}
  RankWatch(const RankWatch&) = delete;
  RankWatch& operator=(const RankWatch&) = delete;

  void new_launch(const Launch& launch, std::vector<PageFolder> folders);
  // `agents`: null where all ranks are on this node. A page that is not there yet, or never will be, is no fault.
  void look(const AgentTable* agents);

  // Those that were seen, by rank of the launch.
  const std::map<int, RankReport>& ranks() const { return ranks_; }
  const RankReport* rank(int rank) const;
  std::string host_of(int rank) const;
  // Which takes the orders to a stage; null: not there yet.
  HeartbeatPage* first_page();
  // Of a rank on this node; null otherwise.
  HeartbeatPage* page(int rank);
  std::int64_t newest_step() const;  // -1: none was seen
  // Processes of this launch that have not ended, as far as can be seen.
  std::vector<int> alive() const;

 private:
  void look_here(const PageFolder& folder, int rank);

  const Clock& clock_;
  Launch launch_;
  std::vector<PageFolder> folders_;
  std::map<int, HeartbeatPage> pages_;
  std::map<int, RankReport> ranks_;
};

}  // namespace longhaul
