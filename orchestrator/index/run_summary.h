// What the index keeps of a run: enough for lists and queries, nothing that is needed to go on with it.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "orchestrator/index/run_stamp.h"
#include "orchestrator/state/run_folder.h"

namespace longhaul {

struct StageSummary {
  std::string id, kind, state;  // state: to_string(StageState)
  std::string model;            // "llama 8.03 B", or the name of a folder that was brought; "": kinds without
  std::string job, cause, artifact;
  int attempts = 0;
  std::int64_t submitted_ms = 0, started_ms = 0, ended_ms = 0;  // 0: not yet
  int nodes = 1;
  double node_ms = 0;                                   // nodes times milliseconds of the attempts that have ended
  std::int64_t step = -1, steps = 0;                    // reached, planned; -1, 0: not known
  std::optional<double> loss;                           // of the newest step whose loss is known
  std::vector<std::pair<std::string, double>> figures;  // with `step` and `loss`, where they are known
  // Of a stage whose step and loss come from what it says while it runs, or said before it failed.
  std::string events;  // file, below the run; "": from nowhere
  FileStamp events_stamp;

  bool runs() const { return state == "running" && started_ms > 0; }
};

struct RunSummary {
  std::string name;  // of its folder
  std::string workflow;
  std::string state;    // to_string(RunState), or "unreadable"
  std::string problem;  // why it is unreadable
  std::int64_t owner_uid = -1;
  std::int64_t created_ms = 0, ended_ms = 0;  // ended: 0 while it has not
  std::int64_t epoch = 0;
  std::string driver, driver_host;
  std::int64_t driver_pid = 0;
  std::uint64_t driver_start_ticks = 0;
  RunStamp stamp;  // taken before it was read; all 0: to be read again the next time
  std::vector<StageSummary> stages;

  bool ended() const { return state != "running" && state != "unreadable"; }
  // The one that says most about where the run is: what runs, waits for its job, or has failed; of a run that went
  // well, the last that trained. nullptr: there is none.
  const StageSummary* telling_stage() const;
};

// Pure: from what was read of a run. Step and loss of what runs are not known yet (read_stage_progress).
RunSummary summarize(const FrozenRun& frozen, const RunLedger& ledger);

// Reads the newest step and loss from the end of the stage's events.
void read_stage_progress(const std::string& run_dir, StageSummary& stage);

// Reads the run in this folder. nullopt: it is no run.
std::optional<RunSummary> read_run_summary(const std::string& run_dir, std::int64_t now_ms);

// The file of an epoch below the run.
std::string epoch_file(std::int64_t epoch);

}  // namespace longhaul
