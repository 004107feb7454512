// What lies in a run's folder besides its logs: the frozen plan with where it came from.
#pragma once

#include <string>

#include "orchestrator/state/run_ledger.h"
#include "orchestrator/workflow/source/run_plan.h"

namespace longhaul {

// Where a run came from that goes on from another one's checkpoint.
struct ForkOrigin {
  std::string run;    // name
  std::string stage;  // id
  std::int64_t step = 0;
  std::vector<std::string> sets;  // what was changed

  bool empty() const { return run.empty(); }
  std::string text() const;  // "goes on from step 40 of pretrain of quickstart-..., with ..."
};

struct FrozenRun {
  RunPlan plan;
  std::string name;  // of the run: its folder's name
  std::string artifact_root;
  std::string software;
  std::string workflow_path;
  std::string driver = "here";  // who ticks: here | lead | scrontab | job
  std::int64_t created_ms = 0;
  ForkOrigin fork;  // empty: none
  // Of the trials of a tune or search stage: the run whose controller drives this one, and whose doorbell its jobs
  // ring.
  std::string parent;       // folder; "": a run of its own
  bool jobs_alone = false;  // they measure times: where there are no nodes, one runs after the other

  std::vector<std::string> stage_ids() const;
};
// resolved.toml of a run.
Result<FrozenRun> read_frozen_run(const std::string& run_dir);
// The same without its plan: cheap however many stages there are.
Result<FrozenRun> read_frozen_header(const std::string& run_dir);
std::string frozen_run_text(const FrozenRun& run);

// The folder of the run whose controller drives this one: its parent's, or its own.
std::string driven_folder(const std::string& run_dir, const FrozenRun& run);
std::string doorbell_path(const std::string& run_dir);  // touched by a lead whose record is written
std::string stage_folder(const std::string& run_dir, const std::string& stage);
std::string attempt_folder(const std::string& run_dir, const std::string& stage, int attempt);

}  // namespace longhaul
