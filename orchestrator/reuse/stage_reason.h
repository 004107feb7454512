// Why a stage is taken from an earlier run, or is not: one sentence for people, and its parts for programs. The same
// sentence stands in `plan` and in the run's log (`why` of its `ready` fact).
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "orchestrator/decide/decide.h"
#include "orchestrator/reuse/earlier_runs.h"
#include "orchestrator/reuse/reuse_outline.h"

namespace longhaul {

struct StageReason {
  std::string stage;  // id
  bool cached = false;
  std::string run = {};                     // whose artifact it is, or with which it was compared; "": none
  std::vector<std::string> waits_for = {};  // stages that run first, so that its own inputs are not known yet
  std::vector<StageChange> changes = {};    // against that run
  std::string text = {};  // "cached from RUN"; "vocabulary 1024 -> 2048, since RUN", "tokens runs first"
};

// What is known when the question is asked.
struct ReasonFacts {
  StageSeen now;                            // without a key where its inputs are not known yet
  std::vector<std::string> waits_for = {};  // as in StageReason
  std::optional<ArtifactSeen> cached = {};  // what it would be taken from
  std::string disbelieved = {};             // why what there is is not taken
  std::optional<EarlierStage> earlier = {};
};
// Pure.
StageReason reason_of(const std::string& stage, const ReasonFacts& facts);

// Of a stage that a controller has made ready. Reads earlier runs, and keeps nothing.
StageReason reason_when_ready(const PlannedStage& planned, const PreparedStage& prepared, EarlierRuns& earlier);

// Of all stages of a plan, in its order, were it started now below `runs_dir`. Fills `outline` on the way.
std::vector<StageReason> plan_reasons(const RunPlan& plan, const std::string& runs_dir,
                                      const std::string& artifact_root, const ArtifactTrust& trust,
                                      ReuseOutline& outline);

// The run's name in the path of an artifact, "" where it has another form.
std::string run_of_artifact(const std::string& folder);

// "stages that run, and why", a line each for those that are not cached.
std::string reasons_text(const std::vector<StageReason>& reasons);
Value reasons_value(const std::vector<StageReason>& reasons);

}  // namespace longhaul
