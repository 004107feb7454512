// launch.toml: how one start of the ranks happens, this time. Written by the lead for every launch.
#pragma once

#include <string>
#include <vector>

#include "base/value/value.h"
#include "contracts/layout/parallel_dims.h"
#include "contracts/records/state_owner.h"

namespace longhaul {

struct Launch {
  static constexpr int format = 1;
  std::string attempt_key;         // the key of the job's submission
  int attempt = 1;                 // a job (job id, restart count)
  int launch = 1;                  // a start of the ranks inside it
  std::int64_t epoch = 1;          // of the communicators; grows with every launch
  int ranks = 1;                   // those of dims, and behind them those that only draw answers (rollout.ranks)
  std::vector<std::string> hosts;  // one per node
  std::vector<int> rank_host;      // index into hosts, per global rank
  ParallelDims dims;
  std::string start_checkpoint;  // folder, "" for none (or the newest in state_dir)
  // Newest whole checkpoint that the lead or the run's log knows of and that nothing has ruled out since; 0: none. A
  // training that goes on from the newest does not begin below it unless it finds it damaged or rolled back.
  std::int64_t at_least_step = 0;
  std::string launch_dir;      // rank logs, stacks of this launch
  std::string beat_dir;        // of each node: heartbeat pages of its ranks, who make it; "": launch_dir
  std::string store_dir;       // of each node: where its ranks leave entries for all (rendezvous_folder.h); "": none
  std::string events_path;     // events.jsonl; rank 0 appends
  std::string output_dir;      // staging of the artifact; the lead publishes it
  std::string state_dir;       // survives attempts: checkpoints of this stage
  StateOwner owner;            // of state_dir: this launch, as its lead has written it there
  std::string milestones_dir;  // where milestones are published; "": nowhere
  std::string fault_plan;      // "" or a fault plan for the ranks (base/process/fault_point.h)
};

// Where the pages of a launch lie.
const std::string& beat_folder(const Launch& launch);
// Where its ranks leave entries for each other: store_dir; where launch.toml names none, beside their logs.
std::string rendezvous_folder(const Launch& launch);

// What is asked before and after each act on state_dir.
inline StateFence fence_of(const Launch& launch) {
  return {launch.state_dir, launch.owner};
}

Value launch_to_value(const Launch& launch);
Result<Launch> launch_from_value(const Value& value);
Result<Launch> read_launch(const std::string& path);
Status write_launch(const std::string& path, const Launch& launch);

}  // namespace longhaul
