// The ranks of one launch, started here or adopted from another lead: polled, asked to stop, signalled.
//
// One thread; an object is of one launch. Processes that it has started are ended with it, unless they were released;
// those that were adopted belong to the agents of their nodes and to a launcher that is gone. What it borrows outlives
// it. `agents` of a call may be null: then all ranks are on this node.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/process/log.h"
#include "worker/launch/rank_group.h"
#include "worker/lead/agents/agent_table.h"
#include "worker/lead/monitor/rank_watch.h"

namespace longhaul {

class LaunchedRanks {
 public:
  enum class Origin { started, adopted };
  // `watch`: of this launch, by the time that ranks run. `ranks`: of the launch.
  LaunchedRanks(Origin origin, std::string attempt_key, int ranks, const RankWatch& watch, const Clock& clock,
                Logger& log);

  // Starts all ranks; on an error none is left. Not of adopted ones.
  Status start(const LaunchSpec& spec) { return group_.start(spec); }
  // The processes that this one has started, by rank of the launch: of a launcher, under its first rank.
  std::map<int, pid_t> processes(const std::vector<JobStep>& steps) const;
  // How the launch ended, once all ranks have; nullopt while one runs. When one has failed, the others that were
  // started here get SIGTERM, and after `grace_s` SIGKILL. Of adopted ranks nothing but their pages is known: those of
  // `lost_host` count as killed, and any other that is silent keeps the launch open.
  Result<std::optional<LaunchEnd>> poll(double grace_s, const std::string& lost_host);
  // SIGTERM to all of them: they save and end. Where mpirun would end them within a second, and of adopted ones, each
  // is signalled by itself.
  void stop(AgentTable* agents);
  // To these ranks, through the agents of their nodes; one that is not reached is logged.
  void signal(const std::vector<int>& ranks, int signal_number, AgentTable* agents) const;
  // SIGKILL to what was started here. signal() reaches the ranks on other nodes.
  void kill() { group_.kill(); }
  // They go on without this lead.
  void release() { group_.release(); }
  bool adopted() const { return adopted_; }

 private:
  std::optional<LaunchEnd> end_by_pages(const std::string& lost_host) const;

  const bool adopted_;
  const std::string attempt_key_;
  const int ranks_;
  const RankWatch& watch_;
  Logger& log_;
  RankGroup group_;
};

}  // namespace longhaul
