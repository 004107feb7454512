// What is known of the ranks of one launch: from their pages on this node, and from what the agents of the others
// report. One thread.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "base/system/clock.h"
#include "contracts/records/job_step.h"
#include "contracts/records/launch.h"
#include "resiliency/beat/heartbeat_page.h"
#include "worker/lead/agents/agent_table.h"
#include "worker/protocol/node/node_report.h"
#include "worker/protocol/ranks/pageless_ranks.h"

namespace longhaul {

// Where the ranks of a launch keep their pages here, by folder: of all steps, one after the other.
struct PageFolder {
  std::string path;
  int first_rank = 0, ranks = 0;
};
std::vector<PageFolder> page_folders(const Launch& launch, const std::vector<JobStep>& steps);

class RankWatch {
 public:
  // `unlisted_ms`: for how long an agent's reports leave out a rank that was running before it has ended. An agent that
  // has just been started looks for processes without a page once a second.
  explicit RankWatch(const Clock& clock, std::int64_t unlisted_ms = 5'000)
      : clock_(clock), unlisted_ns_(unlisted_ms * 1'000'000) {}
  RankWatch(const RankWatch&) = delete;
  RankWatch& operator=(const RankWatch&) = delete;

  // `restart_wait_ms`: as of HeartbeatPage::offer_restart, for ranks on this node.
  void new_launch(const Launch& launch, std::vector<PageFolder> folders, std::int64_t restart_wait_ms = 0);
  void order_restart(std::int64_t epoch);  // to those on this node
  // Those on this node hear when they are ended by force, also in later launches: CLOCK_MONOTONIC. 0: not known.
  void must_end_by(std::int64_t end_ns);
  // `agents`: null where all ranks are on this node. A page that is not there yet, or never will be, is no fault.
  void look(const AgentTable* agents);

  // Those that were seen, by rank of the launch; of some, which have no page yet, only a process.
  const std::map<int, RankReport>& ranks() const { return ranks_; }
  const RankReport* rank(int rank) const;
  std::string host_of(int rank) const;
  // To a rank on this node, if its process is the job's (worker/protocol/ranks/own_process.h): not_found,
  // invalid_input.
  Status signal(int rank, int number, const std::string& attempt_key) const;
  // Of a rank on this node; null otherwise.
  HeartbeatPage* page(int rank);
  std::int64_t newest_step() const;  // -1: none was seen
  // Processes of this launch that have not ended, as far as can be seen.
  std::vector<int> alive() const;

 private:
  void look_for_processes(const PageFolder& folder);
  void look_here(const PageFolder& folder, int rank);
  void look_at_reports(const AgentTable& agents);
  void end_unlisted(const std::string& host, const AgentState& agent);

  const Clock& clock_;
  Launch launch_;
  std::vector<PageFolder> folders_;
  std::int64_t restart_wait_ms_ = 0, end_by_ns_ = 0;
  std::int64_t unlisted_ns_;
  std::map<std::string, std::int64_t> heard_ns_;      // of each agent, as of the last look
  std::map<std::string, std::vector<int>> ranks_on_;  // by host of the launch
  std::map<int, std::int64_t> unlisted_since_ns_;     // running ranks that their host's reports leave out
  std::map<int, HeartbeatPage> pages_;
  std::map<std::string, PagelessRanks> pageless_;  // by folder; where there are no agents
  std::map<int, RankReport> ranks_;
};

}  // namespace longhaul
