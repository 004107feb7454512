// What earlier runs of a workflow made of a stage: for sentences about why it runs again. Only runs of this process's
// user are looked at, the newest first, and no more than a few.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "orchestrator/reuse/stage_change.h"
#include "orchestrator/state/run_folder.h"

namespace longhaul {

struct EarlierStage {
  std::string run;  // name
  StageSeen seen;   // with its key
  StageState state = StageState::waiting;
  std::string cause, artifact;
};

class EarlierRuns {
 public:
  // Of this workflow below this folder, but for the run of this name and what is younger. Reads nothing yet.
  EarlierRuns(std::string runs_dir, std::string workflow, std::string before = {});

  // There is one.
  bool any();
  // The newest that has an artifact of the stage; where none has, the newest that knew its inputs.
  std::optional<EarlierStage> find(const std::string& stage);

 private:
  struct Run {
    std::string path;
    FrozenRun frozen;
    RunLedger ledger;
  };
  void list();
  // The one of this number, read when it is first asked for; nullptr: there is none, or it cannot be read.
  const Run* at(std::size_t number);

  std::string runs_dir_, workflow_, before_;
  std::optional<std::vector<std::string>> paths_;  // newest first
  std::vector<std::optional<Run>> read_;
};

}  // namespace longhaul
