// One look at the stacks of all ranks of a launch, wherever they run: those of this node by StackDumps, those of others
// by their agents, each into <launch>/stacks/rank-<r>.txt. For an order (`longhaul tell RUN stacks`) and for every
// hang. Nothing here waits: begin() starts it, look() says once what came of it.
//
//   stacks_.begin(launch_dir, ranks, pids, agents_.get());     // when a hang is suspected
//   if (const auto seen = stacks_.look()) orders_.report_stacks(*seen);
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <map>
#include <optional>
#include <string>

#include "base/system/clock.h"
#include "contracts/control/order.h"
#include "worker/lead/agents/agent_table.h"
#include "worker/stacks/stack_dumps.h"

namespace longhaul {

class StackRound {
 public:
  StackRound(const std::string& worker_program, const Clock& clock) : clock_(clock), dumps_(worker_program, clock) {}

  // `pids`: processes of ranks on this node, as far as they are known; not used where there are agents. Does nothing
  // while a round is under way: its result serves both who asked.
  void begin(const std::string& launch_dir, int ranks, const std::map<int, pid_t>& pids, AgentTable* agents);
  bool under_way() const { return under_way_; }
  // Once, when all files are there or none is waited for any more: "stacks of 4 ranks in DIR", or which are missing.
  std::optional<OrderOutcome> look();

 private:
  std::vector<int> missing() const;

  const Clock& clock_;
  StackDumps dumps_;
  bool under_way_ = false;
  std::string folder_, problem_;
  int ranks_ = 0;
  std::int64_t until_ns_ = 0, next_look_ns_ = 0;
};

}  // namespace longhaul
